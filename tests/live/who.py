"""Opens marks as processes of many kinds, and says on standard output what each of them is."""
import json, os, sys

folder = sys.argv[1]
kitten = os.path.realpath("/bin/cat")
marks = 0


def name_of(pid):
    with open(f"/proc/{pid}/comm") as comm:
        return comm.read().strip()


def told(mark, **what):
    here = {
        "path": mark,
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "ppid": os.getppid(),
        "parent": name_of(os.getppid()),
        "cwd": os.getcwd(),
    }
    print(json.dumps(here | what), flush=True)


def itself():
    with open("/proc/self/cmdline", "rb") as line:
        words = line.read().decode().split("\0")[:-1]
    args = " ".join(words[1:])
    return {
        "exe": words[0],
        "args": args,
        "cmdline": f"{name_of(os.getpid())} {args}",
        "exe_path": os.readlink("/proc/self/exe"),
    }


def new_mark():
    global marks
    marks += 1
    mark = f"{folder}/mark {marks}"
    open(mark, "w").close()
    os.chmod(mark, 0o644)
    return mark


def open_mark(mark):
    os.close(os.open(mark, os.O_RDONLY))


def child(run):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        run()
        os._exit(0)
    os.waitpid(pid, 0)


def tell(mark, **more):
    told(mark, **itself(), **more)
    open_mark(mark)


plain = new_mark()
tell(plain)

elsewhere, mark = f"{folder}/another directory", new_mark()
os.mkdir(elsewhere)
os.chmod(elsewhere, 0o755)
os.chdir(elsewhere)
tell(mark)

mark = new_mark()
os.setegid(65534)
os.seteuid(65534)
tell(mark)
os.seteuid(0)
os.setegid(0)

mark = new_mark()
child(lambda: tell(mark))


def another_program(mark):
    args = ["kitten", "-u", mark]
    told(
        mark,
        exe="kitten",
        args=" ".join(args[1:]),
        cmdline=f"cat {' '.join(args[1:])}" if os.path.basename(kitten) == "cat" else None,
        exe_path=kitten,
    )
    os.execv(kitten, args)


mark = new_mark()
child(lambda: another_program(mark))

# Twenty that live for a moment.
for _ in range(20):
    mark = new_mark()
    child(lambda: another_program(mark))


def orphan(mark):
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            pass
        tell(mark)
        os._exit(0)


mark = new_mark()
# Nobody can wait for the orphan, but its end of the pipe goes with it.
end, its_end = os.pipe()
child(lambda: orphan(mark))
os.close(its_end)
os.read(end, 1)
