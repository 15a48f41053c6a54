"""Makes calls on files and writes down what each was about: lines of JSON, [process, call, path or null].

The folder to work in is the argument. A path is what the program itself knows of it: what it gave, made absolute, or the
link of the descriptor in /proc/self/fd, read before the call.
"""
import ctypes
import json
import os
import socket
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)
top = sys.argv[1]
expected = []
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18
IO_SETUP, IO_SUBMIT, RENAMEAT2, OPENAT2 = 206, 209, 316, 437


def made(call, path):
    expected.append([os.getpid(), call, path])


def opened(path, flags=os.O_RDWR | os.O_CREAT, named=None, **more):
    fd = os.open(path, flags, 0o600, **more)
    made("openat", named or path)
    return fd


def wrote(fd, path):
    os.write(fd, b"some")
    made("write", path)


def closed(fd, path):
    os.close(fd)
    made("close", path)


def begin():
    """What came before is not looked at."""
    expected.clear()
    os.access("/latscope begin", 0)


def done():
    """What comes after is not looked at. In one line, so that processes do not mix theirs."""
    os.access("/latscope end", 0)
    sys.stdout.write("".join(json.dumps(line) + "\n" for line in expected))
    sys.stdout.flush()


def forked(work):
    pid = os.fork()
    if pid == 0:
        begin()
        work()
        done()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def must(result):
    assert result == 0, os.strerror(ctypes.get_errno())


def mount(source, target, kind=None, flags=0, data=None):
    must(libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, data and data.encode()))


def same_inode_again():
    for at in range(20):
        path = f"{top}/one after the other {at}"
        fd = opened(path)
        wrote(fd, path)
        closed(fd, path)
        os.unlink(path)
        made("unlink", path)


def temporary_then_rename():
    for at in range(20):
        fd = opened(f"{top}/temporary")
        wrote(fd, f"{top}/temporary")
        os.rename(f"{top}/temporary", f"{top}/final")
        made("rename", f"{top}/temporary")
        wrote(fd, f"{top}/final")
        closed(fd, f"{top}/final")


def hard_links():
    fd = opened(f"{top}/first")
    closed(fd, f"{top}/first")
    os.link(f"{top}/first", f"{top}/second")
    made("link", f"{top}/first")
    for _ in range(3):
        for name in ("first", "second"):
            fd = opened(f"{top}/{name}")
            wrote(fd, f"{top}/{name}")
            closed(fd, f"{top}/{name}")


def nameless():
    fd = os.open(top, os.O_TMPFILE | os.O_RDWR, 0o600)
    name = os.readlink(f"/proc/self/fd/{fd}")
    made("openat", name)
    made("readlink", f"/proc/self/fd/{fd}")
    wrote(fd, name)
    closed(fd, name)
    fd = opened(f"{top}/soon gone")
    os.unlink(f"{top}/soon gone")
    made("unlink", f"{top}/soon gone")
    wrote(fd, f"{top}/soon gone (deleted)")
    closed(fd, f"{top}/soon gone (deleted)")


def relative_to_a_directory():
    os.mkdir(f"{top}/directory")
    made("mkdir", f"{top}/directory")
    where = opened(f"{top}/directory", os.O_RDONLY | os.O_DIRECTORY)
    fd = opened("x", dir_fd=where, named=f"{top}/directory/x")
    closed(fd, f"{top}/directory/x")
    os.stat("./x", dir_fd=where)
    made("newfstatat", f"{top}/directory/x")
    os.rename("x", "y", src_dir_fd=where, dst_dir_fd=where)
    made("renameat", f"{top}/directory/x")
    libc.syscall(RENAMEAT2, where, b"y", where, b"z", 0)
    made("renameat2", f"{top}/directory/y")
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
    fd = libc.syscall(OPENAT2, where, b"z", how, 24)
    made("openat2", f"{top}/directory/z")
    closed(fd, f"{top}/directory/z")
    # The directory gets another name while it is open.
    os.rename(f"{top}/directory", f"{top}/renamed")
    made("rename", f"{top}/directory")
    fd = opened("z", dir_fd=where, named=f"{top}/renamed/z")
    closed(fd, f"{top}/renamed/z")
    try:
        os.open("nothing", os.O_RDONLY, dir_fd=where)
    except FileNotFoundError:
        made("openat", f"{top}/renamed/nothing")
    os.chdir(f"{top}/renamed")
    fd = opened("z", named=f"{top}/renamed/z")
    closed(fd, f"{top}/renamed/z")
    os.stat("../renamed/z")
    made("newfstatat", f"{top}/renamed/z")
    os.unlink("z")
    made("unlink", f"{top}/renamed/z")
    os.chdir("/")
    closed(where, f"{top}/renamed")


def by_name():
    path = f"{top}/by name"
    fd = opened(path)
    os.ftruncate(fd, 10)
    made("ftruncate", path)
    os.posix_fallocate(fd, 0, 4096)
    made("fallocate", path)
    os.fchmod(fd, 0o600)
    made("fchmod", path)
    os.fstat(fd)
    made("newfstatat", path)
    closed(fd, path)
    os.truncate(path, 5)
    made("truncate", path)
    os.chmod(path, 0o644)
    made("chmod", path)
    os.utime(path)
    made("utimensat", path)
    os.symlink("by name", f"{top}/a link")
    made("symlink", f"{top}/a link")
    os.readlink(f"{top}/a link")
    made("readlink", f"{top}/a link")
    # What was opened is the file, not the link.
    fd = opened(f"{top}/a link", named=path)
    closed(fd, path)
    os.mkdir(f"{top}/empty")
    made("mkdir", f"{top}/empty")
    os.rmdir(f"{top}/empty")
    made("rmdir", f"{top}/empty")
    libc.statx(-100, path.encode(), 0, 0x7FF, ctypes.create_string_buffer(256))
    made("statx", path)


def handed_on():
    """A descriptor that another process or a fork opened; copies of it."""
    path = f"{top}/handed on"
    fd = opened(path)
    ours, theirs = socket.socketpair()

    def child():
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        made("recvmsg", None)
        wrote(fds[0], path)
        wrote(fd, path)
        closed(fd, path)

    socket.send_fds(ours, [b"x"], [fd])
    made("sendmsg", None)
    forked(child)
    for end in (ours, theirs):
        os.close(end.detach())
        made("close", None)
    copy = os.dup(fd)
    wrote(copy, path)
    closed(copy, path)
    # Closed by number together with others, and the number given to another file.
    os.closerange(fd, fd + 1)
    again = opened(f"{top}/another")
    assert again == fd
    wrote(again, f"{top}/another")
    closed(again, f"{top}/another")


def over_exec():
    path = f"{top}/over exec"
    fd = opened(path)
    os.set_inheritable(fd, True)
    code = (
        f"import os; os.access('/latscope begin', 0); os.write({fd}, b'x'); os.access('/latscope end', 0);"
        f"print('[%d, \"write\", \"{path}\"]' % os.getpid())"
    )
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-S", "-c", code])
    os.waitpid(pid, 0)
    closed(fd, path)


def elsewhere():
    """Other roots and mounts."""

    def in_chroot():
        os.chroot(f"{top}/jail")
        os.chdir("/")
        fd = opened("/inside", named=f"{top}/jail/inside")
        closed(fd, f"{top}/jail/inside")
        os.stat("/inside")
        made("newfstatat", f"{top}/jail/inside")

    os.mkdir(f"{top}/jail")
    made("mkdir", f"{top}/jail")
    forked(in_chroot)

    def in_namespace():
        must(libc.unshare(CLONE_NEWNS))
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        os.mkdir(f"{top}/bound")
        made("mkdir", f"{top}/bound")
        mount(f"{top}/jail", f"{top}/bound", flags=MS_BIND)
        fd = opened(f"{top}/bound/inside")
        wrote(fd, f"{top}/bound/inside")
        closed(fd, f"{top}/bound/inside")
        mount("latscope-test", f"{top}/bound", "tmpfs")
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"{top}/bound/{name}")
            made("mkdir", f"{top}/bound/{name}")
        fd = opened(f"{top}/bound/lower/file")
        closed(fd, f"{top}/bound/lower/file")
        places = "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work".format(f"{top}/bound")
        if libc.mount(b"overlay", f"{top}/bound/merged".encode(), b"overlay", 0, places.encode()) == 0:
            for _ in range(2):
                fd = opened(f"{top}/bound/merged/file")
                wrote(fd, f"{top}/bound/merged/file")
                closed(fd, f"{top}/bound/merged/file")
        # Of a file system that was unmounted while it is open nobody knows where it was.
        fd = opened(f"{top}/bound/lower/file")
        libc.umount2(f"{top}/bound/merged".encode(), 2)
        must(libc.umount2(f"{top}/bound".encode(), 2))
        wrote(fd, None)
        closed(fd, None)

    forked(in_namespace)


def in_threads():
    """Threads that all open, write and close, so that numbers of descriptors wander among them."""

    def thread(number):
        for at in range(200):
            path = f"{top}/of thread {number}"
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.write(fd, b"x" * (number + 1))
            os.close(fd)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    [one.start() for one in threads]
    [one.join() for one in threads]


def deep():
    path = top
    for level in range(60):
        path += "/below it"
        os.mkdir(path)
        made("mkdir", path)
    fd = opened(path + "/x")
    wrote(fd, path + "/x")
    closed(fd, path + "/x")


class Request(ctypes.Structure):
    """`struct iocb` of linux/aio_abi.h."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("event_fd", ctypes.c_uint32),
    ]


def handed_in():
    """io_submit: of one file, of several."""
    paths = [f"{top}/first", f"{top}/second"]
    fds = [opened(path) for path in paths]
    ring, data = ctypes.c_ulong(), ctypes.create_string_buffer(512)
    must(libc.syscall(IO_SETUP, 128, ctypes.byref(ring)))
    for files in ([0], [1, 1, 1], [0] * 64, [0, 1]):
        requests = [Request(opcode=1, fd=fds[at], buffer=ctypes.addressof(data), bytes=512) for at in files]
        pointers = (ctypes.c_void_p * len(requests))(*[ctypes.addressof(request) for request in requests])
        assert libc.syscall(IO_SUBMIT, ring, len(requests), pointers) == len(requests)
        made("io_submit", paths[files[0]] if len(set(files)) == 1 else None)
    for fd, path in zip(fds, paths):
        closed(fd, path)


parts = {
    "handed_in": handed_in,
    "same_inode_again": same_inode_again,
    "temporary_then_rename": temporary_then_rename,
    "hard_links": hard_links,
    "nameless": nameless,
    "relative_to_a_directory": relative_to_a_directory,
    "by_name": by_name,
    "handed_on": handed_on,
    "over_exec": over_exec,
    "elsewhere": elsewhere,
    "in_threads": in_threads,
    "deep": deep,
}
begin()
parts[sys.argv[2]]()
done()
