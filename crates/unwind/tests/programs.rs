//! Stacks of real programs, sampled without BPF: a thread that waits in a call shows its stack pointer and instruction pointer
//! in `/proc/PID/syscall`. gdb is the independent unwinder.

use latscope_unwind::{Naming, Quality, Registers, Stacks, ThreadState, UserStack, request_jvm_map};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Says why a test does nothing here.
macro_rules! skip {
    ($($reason:tt)*) => {{
        eprintln!("skipped: {}", format_args!($($reason)*));
        return;
    }};
}

/// A running program that has said that it is ready; it ends with this.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("it speaks");
        assert!(line.starts_with("ready"), "{line}");
        Program(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Whether a command ran and succeeded.
fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Compiles a program into a folder that lives as long as what is returned.
fn compiled(compiler: &str, arguments: &[&str], name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("planted");
    let source = source(name);
    let paths = ["-o", program.to_str().expect("UTF-8"), source.to_str().expect("UTF-8")];
    runs(compiler, &[arguments, &paths].concat()).then_some((folder, program))
}

/// Call, stack pointer and instruction pointer of a thread that waits in a call; `None` while it runs.
fn waiting(task: &str) -> Option<(i64, u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{task}/syscall")).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let hexadecimal = |word: &&str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let [.., sp, ip] = &words[..] else { return None };
    Some((words[0].parse().ok()?, hexadecimal(sp)?, hexadecimal(ip)?))
}

/// The stack of a thread from its stack pointer on, at most 64 KiB.
fn copy(pid: u32, sp: u64) -> Vec<u8> {
    let memory = File::open(format!("/proc/{pid}/mem")).expect("our own child");
    let mut bytes = vec![0; 64 << 10];
    let mut filled = 0;
    while let Ok(read @ 1..) = memory.read_at(&mut bytes[filled..], sp + filled as u64) {
        filled += read;
    }
    bytes.truncate(filled);
    bytes
}

/// Waits until a thread waits in one of these calls (x86-64), and unwinds it.
fn sample(stacks: &mut Stacks, pid: u32, tid: u32, fp: u64) -> UserStack {
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(10));
        if let Some((_, sp, ip)) = waiting(&format!("{pid}/task/{tid}")) {
            let bytes = copy(pid, sp);
            return stacks.unwind(pid, Registers { ip, sp, fp, lr: 0 }, sp, &bytes);
        }
    }
    panic!("the program never waits");
}

fn text(stacks: &mut Stacks, pid: u32, user: &UserStack) -> String {
    let mut text = String::new();
    stacks.text(pid, &user.addresses, &[], &mut text);
    text
}

/// The addresses of a thread's frames as gdb finds them, innermost first.
fn gdb(pid: u32) -> Vec<u64> {
    let arguments = [
        "-p",
        &pid.to_string(),
        "-batch",
        "-nx",
        "-ex",
        "set backtrace past-main on",
        "-ex",
        "set backtrace past-entry on",
    ];
    let frames = ["-ex", "set print address on", "-ex", "bt 300"];
    let output = Command::new("gdb").args(arguments).args(frames).output().expect("gdb is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    frames_of_gdb(&text, 0)
}

/// Addresses in what gdb prints. It leaves out that of the innermost frame where a line of the source starts.
fn frames_of_gdb(text: &str, innermost: u64) -> Vec<u64> {
    let frame = |line: &str| {
        let line = line.strip_prefix('#')?;
        let address = line.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start().strip_prefix("0x");
        match address {
            Some(address) => u64::from_str_radix(address.split_once(' ')?.0, 16).ok(),
            None => line.starts_with("0 ").then_some(innermost),
        }
    };
    text.lines().filter_map(frame).collect()
}

/// The frame pointer of a thread, which only a debugger can read.
fn frame_pointer(tid: u32) -> u64 {
    let arguments = ["-p", &tid.to_string(), "-batch", "-nx", "-ex", "printf \"fp=%lx\\n\", $rbp"];
    let output = Command::new("gdb").args(arguments).output().expect("gdb is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found =
        text.lines().find_map(|line| line.strip_prefix("fp=")).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    found.unwrap_or_else(|| panic!("no frame pointer in {text}"))
}

fn has_gdb() -> bool {
    runs("gdb", &["--version"]) && cfg!(target_arch = "x86_64")
}

#[test]
fn c_without_frame_pointers_is_complete_and_agrees_with_gdb() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "planted.c") else {
        skip!("no C compiler")
    };
    let planted = Program::start(&mut Command::new(program));
    let mut stacks = Stacks::new(Naming::Plain);
    let user = sample(&mut stacks, planted.pid(), planted.pid(), 0);
    assert_eq!(user.quality, Quality::Complete);
    let text = text(&mut stacks, planted.pid(), &user);
    assert!(text.starts_with("_start;"), "{text}");
    let path = "main;archive_scan;btree_descend;btree_descend;btree_descend;btree_descend;block_read;";
    assert!(text.contains(path), "{text}");
    if has_gdb() {
        assert_eq!(user.addresses, gdb(planted.pid()));
    }
}

/// gdb prints no address for the frame that the kernel makes.
#[test]
fn what_a_signal_interrupted_called_its_handler() {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        skip!("the frames of signals are known on x86-64 with glibc");
    }
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "handler.c") else {
        skip!("no C compiler")
    };
    let program = Program::start(&mut Command::new(program));
    let mut stacks = Stacks::new(Naming::Plain);
    let user = sample(&mut stacks, program.pid(), program.pid(), 0);
    let text = text(&mut stacks, program.pid(), &user);
    assert_eq!(user.quality, Quality::Complete, "{text}");
    assert!(text.starts_with("_start;"), "{text}");
    assert!(text.contains("main;interrupted;interrupted;interrupted;"), "{text}");
    assert!(text.contains("on_signal;wait_in_handler;"), "{text}");
    if has_gdb() {
        let theirs = gdb(program.pid());
        let (both, ours): (Vec<u64>, Vec<u64>) = user.addresses.iter().partition(|address| theirs.contains(address));
        assert_eq!((both, ours.len()), (theirs, 1), "{text}");
    }
}

#[test]
fn stripped_programs_have_offsets_that_address_space_layout_does_not_change() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer", "-s"], "planted.c") else {
        skip!("no C compiler")
    };
    let mut texts = Vec::new();
    for _ in 0..2 {
        let planted = Program::start(&mut Command::new(&program));
        let mut stacks = Stacks::new(Naming::Plain);
        let user = sample(&mut stacks, planted.pid(), planted.pid(), 0);
        assert_eq!(user.quality, Quality::Complete);
        texts.push(text(&mut stacks, planted.pid(), &user));
    }
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].matches("planted+0x").count() >= 8, "{}", texts[0]);
}

/// A program is stopped again and again, wherever it is just then: in its own code, in the C library or in a call. gdb gives
/// registers and the stack to us, and its own frames.
fn share_of_complete(command: &mut Command, plant: &str) {
    if !has_gdb() {
        skip!("no gdb");
    }
    // So that 12 KiB can be read above the stack pointer.
    let planted = Program::start(command.env("PADDING", "x".repeat(16 << 10)));
    let pid = planted.pid();
    let folder = tempfile::tempdir().expect("a folder");
    let turns = 100;
    let mut script =
        "set pagination off\nset confirm off\nset backtrace past-main on\nset backtrace past-entry on\n".to_string();
    for turn in 0..turns {
        let file = folder.path().join(turn.to_string());
        let dump = format!("dump binary memory {} $rsp-128 $rsp+12288", file.display());
        script += &format!("attach {pid}\nprintf \"at %lx %lx %lx\\n\", $rip, $rsp, $rbp\n{dump}\nbt 300\ndetach\n");
    }
    let path = folder.path().join("script");
    std::fs::write(&path, script).expect("room for it");
    let arguments = ["-batch", "-nx", "-x", path.to_str().expect("UTF-8")];
    let output = Command::new("gdb").args(arguments).output().expect("gdb is there");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut stacks = Stacks::new(Naming::Plain);
    let (mut complete, mut equal, mut in_calls, mut bad) = (0, 0, 0, String::new());
    let parts: Vec<&str> = output.split("\nat ").skip(1).collect();
    assert_eq!(parts.len(), turns, "{output}");
    for (turn, part) in parts.into_iter().enumerate() {
        let mut registers = part.lines().next().into_iter().flat_map(|line| line.split(' '));
        let mut register = || u64::from_str_radix(registers.next().expect("three"), 16).expect("hexadecimal");
        let registers = Registers { ip: register(), sp: register(), fp: register(), lr: 0 };
        let bytes = std::fs::read(folder.path().join(turn.to_string())).expect("gdb wrote it");
        let user = stacks.unwind(pid, registers, registers.sp - 128, &bytes);
        let text = text(&mut stacks, pid, &user);
        in_calls += usize::from(text.contains(plant));
        let expected = frames_of_gdb(part, registers.ip);
        complete += usize::from(user.quality == Quality::Complete && text.starts_with("_start;"));
        equal += usize::from(expected == user.addresses);
        if user.quality != Quality::Complete || expected != user.addresses {
            bad = format!("{:?} {text} {:x?}, gdb {expected:x?}", user.quality, user.addresses);
        }
    }
    assert!(complete * 100 >= turns * 99, "{complete} of {turns} are complete, not {bad}");
    assert!(equal * 100 >= turns * 99, "{equal} of {turns} are as gdb finds them, not {bad}");
    assert!(in_calls * 2 > turns, "{in_calls} of {turns} have the planted path");
}

#[test]
fn c_stopped_anywhere_is_complete() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "planted.c") else {
        skip!("no C compiler")
    };
    share_of_complete(Command::new(program).arg("again"), "main;archive_scan;btree_descend");
}

#[test]
fn rust_stopped_anywhere_is_complete() {
    let Some((_folder, program)) = compiled("rustc", &["-O", "--crate-name=planted"], "planted.rs") else {
        skip!("no Rust compiler")
    };
    share_of_complete(Command::new(program).arg("again"), "planted::archive_scan;planted::btree_descend");
}

#[test]
fn names_of_cxx_are_escaped_and_demangled_or_hashed() {
    let Some((_folder, program)) = compiled("c++", &["-O2", "-fno-reorder-blocks-and-partition"], "planted.cc") else {
        skip!("no C++ compiler")
    };
    let planted = Program::start(&mut Command::new(program));
    let mut stacks = Stacks::new(Naming::Plain);
    let user = sample(&mut stacks, planted.pid(), planted.pid(), 0);
    let plain = text(&mut stacks, planted.pid(), &user);
    assert_eq!(user.quality, Quality::Complete);
    assert!(plain.contains(";a:b</text>;archive::scan<std::"), "{plain}");
    let mut stacks = Stacks::new(Naming::Hashed);
    let user = sample(&mut stacks, planted.pid(), planted.pid(), 0);
    let hashed = text(&mut stacks, planted.pid(), &user);
    assert!(!hashed.contains("scan") && !hashed.contains("main"), "{hashed}");
    assert!(hashed.starts_with(&format!("planted#{:016x};", latscope_event::stack_hash("_start"))), "{hashed}");
    assert_eq!(hashed.split(';').count(), plain.split(';').count());
}

#[test]
fn go_is_unwound_with_its_own_tables_and_by_frame_pointers() {
    for options in [&["build"][..], &["build", "-ldflags=-s -w"]] {
        let go = ["go", "/usr/local/go/bin/go"].into_iter().find(|go| runs(go, &["version"]));
        let Some((_folder, program)) = go.and_then(|go| compiled(go, options, "planted.go")) else { skip!("no Go") };
        let stripped = options.len() > 1;
        if stripped && !has_gdb() {
            skip!("no gdb to read the frame pointer");
        }
        let planted = Program::start(&mut Command::new(program));
        let pid = planted.pid();
        let task = |name: &str| -> u32 { name.parse().expect("a number") };
        // Which thread reads is up to the runtime.
        std::thread::sleep(Duration::from_millis(200));
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let reads = tasks.map(|entry| task(&entry.file_name().to_string_lossy()));
        let reader =
            reads.into_iter().find(|tid| waiting(&format!("{pid}/task/{tid}")).is_some_and(|(call, ..)| call == 0));
        let reader = reader.expect("a thread reads");
        let mut stacks = Stacks::new(Naming::Plain);
        let fp = if has_gdb() { frame_pointer(reader) } else { 0 };
        let user = sample(&mut stacks, pid, reader, fp);
        let text = text(&mut stacks, pid, &user);
        if stripped {
            assert_eq!(user.quality, Quality::FramePointers, "{text}");
            assert!(text.matches("planted+0x").count() >= 6, "{text}");
        } else {
            let path = "main.main;main.archiveScan;main.archiveScan;main.archiveScan;main.archiveScan;main.blockRead";
            assert!(text.starts_with("runtime.goexit") && text.contains(path), "{:?} {text}", user.quality);
            assert_eq!(user.quality, Quality::Complete);
        }
    }
}

/// A CPython that knows `-X perf`.
fn python() -> Option<String> {
    let known = ["python3.13", "python3.12", "python3"].map(str::to_string).into_iter();
    let versions =
        std::env::var("HOME").ok().and_then(|home| std::fs::read_dir(format!("{home}/.pyenv/versions")).ok());
    let installed =
        versions.into_iter().flatten().flatten().map(|version| format!("{}/bin/python3", version.path().display()));
    let check = "import sys; sys.exit(not (hasattr(sys, 'activate_stack_trampoline') and sys.version_info >= (3, 12)))";
    known.chain(installed).find(|python| runs(python, &["-c", check]))
}

#[test]
fn functions_of_python_are_frames() {
    let Some(python) = python() else { skip!("no CPython 3.12 or later") };
    let planted = Program::start(Command::new(python).args(["-X", "perf"]).arg(source("planted.py")));
    let mut stacks = Stacks::new(Naming::Plain);
    let user = sample(&mut stacks, planted.pid(), planted.pid(), 0);
    let plain = text(&mut stacks, planted.pid(), &user);
    let functions: Vec<_> = plain.split(';').filter_map(|frame| frame.strip_prefix("py::")).collect();
    let names: Vec<_> = functions.iter().filter_map(|function| function.split(':').next()).collect();
    assert!(names.ends_with(&["<module>", "fetch_archive", "load_block"]), "{plain}");
    assert!(
        functions.iter().all(|function| !function.starts_with("load") || function.ends_with("planted.py")),
        "{plain}"
    );
    assert_eq!(user.quality, Quality::Complete, "{plain}");
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", planted.pid()));
}

/// In a container, a process has another pid for itself, and a `/tmp` of its own.
#[test]
fn functions_of_python_in_a_container_are_frames() {
    let Some(python) = python() else { skip!("no CPython 3.12 or later") };
    if !runs("unshare", &["--mount", "--pid", "--fork", "true"]) {
        skip!("namespaces need root");
    }
    let inside = "mount -t tmpfs none /tmp && exec \"$0\" -X perf -c \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, &python]);
    command.arg(std::fs::read_to_string(source("planted.py")).expect("the script"));
    let outer = Program::start(&mut command);
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.pid())).expect("it has a child");
    let pid: u32 = children.trim().parse().expect("one child");
    let mut stacks = Stacks::new(Naming::Plain);
    let user = sample(&mut stacks, pid, pid, 0);
    let text = text(&mut stacks, pid, &user);
    assert!(text.contains("py::fetch_archive:") && text.contains("py::load_block:"), "{text}");
    assert_eq!(user.quality, Quality::Complete);
}

/// A process that was seen before it ran another program.
#[test]
fn a_process_is_known_anew_after_exec() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "planted.c") else {
        skip!("no C compiler")
    };
    let script = "echo ready; read line; exec \"$0\" >/dev/null";
    let mut shell = Program::start(Command::new("sh").args(["-c", script]).arg(&program));
    let (pid, mut stacks) = (shell.pid(), Stacks::new(Naming::Plain));
    let user = sample(&mut stacks, pid, pid, 0);
    assert!(!text(&mut stacks, pid, &user).contains("archive_scan"));
    std::io::Write::write_all(shell.0.stdin.as_mut().expect("a pipe"), b"go\n").expect("it reads");
    let runs = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    (0..1000).any(|_| {
        runs() || {
            std::thread::sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(runs(), "the shell runs the program");
    // It may still be loading its libraries.
    let is_planted = |_| {
        std::thread::sleep(Duration::from_millis(5));
        let user = sample(&mut stacks, pid, pid, 0);
        text(&mut stacks, pid, &user).contains("main;archive_scan;")
    };
    assert!((0..1000).any(is_planted), "the stack is that of the shell, or of nobody");
}

/// A JVM writes where its code is when it is asked; frames below compiled code are found by frame pointers.
#[test]
fn methods_of_java_are_frames() {
    let (folder, source) = (tempfile::tempdir().expect("a folder"), source("Planted.java"));
    let classes = folder.path().to_str().expect("UTF-8");
    if !runs("javac", &["-d", classes, source.to_str().expect("UTF-8")]) || !has_gdb() {
        skip!("no JDK or no gdb");
    }
    let options = ["-XX:+PreserveFramePointer", "-XX:+UseSerialGC", "-cp", classes, "Planted"];
    let planted = Program::start(Command::new("java").args(options));
    let pid = planted.pid();
    std::thread::sleep(Duration::from_millis(300));
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let mut tasks = tasks.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let reader: u32 = tasks
        .find(|tid| waiting(&format!("{pid}/task/{tid}")).is_some_and(|(call, ..)| call == 0))
        .expect("a thread reads");
    request_jvm_map(pid).expect("the JVM writes its map");
    let mut stacks = Stacks::new(Naming::Plain);
    let fp = frame_pointer(reader);
    let user = sample(&mut stacks, pid, reader, fp);
    let text = text(&mut stacks, pid, &user);
    assert_eq!(user.quality, Quality::FramePointers, "{text}");
    assert!(text.contains("Interpreter_[j];") && text.contains(" Planted.archiveScan("), "{text}");
    assert!(text.contains("_[j];readSingle;handleRead;"), "{text}");
    let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    // What is no JVM is not asked: the signal for it would end the program.
    assert!(request_jvm_map(std::process::id()).is_err());
}

#[test]
fn names_outlive_the_process() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "planted.c") else {
        skip!("no C compiler")
    };
    let planted = Program::start(&mut Command::new(&program));
    let (pid, mut stacks) = (planted.pid(), Stacks::new(Naming::Plain));
    let user = sample(&mut stacks, pid, pid, 0);
    drop(planted);
    stacks.exit(pid);
    std::fs::remove_file(program).expect("it is ours");
    let text = text(&mut stacks, pid, &user);
    assert!(text.contains("main;archive_scan;"), "{text}");
}

/// Files with changed bytes: nothing panics, and every walk ends. `MUTATIONS` sets how many.
#[test]
fn damaged_modules_are_harmless() {
    let Some((_folder, program)) = compiled("cc", &["-O2", "-fomit-frame-pointer"], "planted.c") else {
        skip!("no C compiler")
    };
    let whole = std::fs::read(&program).expect("it was compiled");
    let turns: u64 = std::env::var("MUTATIONS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(300);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    let start = 0x10_0000;
    let mut read = 0;
    // Version and encodings of the table that leads to unwind tables, as compilers write them.
    let table = whole.windows(4).position(|bytes| bytes == [1, 0x1b, 3, 0x3b]).unwrap_or(0) as u64;
    for turn in 0..turns {
        let mut file = whole.clone();
        if turn % 4 == 0 {
            file.truncate(random(whole.len() as u64) as usize);
        }
        for _ in 0..1 + random(8) {
            // The header, the tables that it leads to, and the rest.
            let end = file.len() as u64;
            let at = [random(64), end - random(2048).min(end), random(end), table + random(64)];
            if let Some(byte) = file.get_mut(at[random(4) as usize] as usize) {
                *byte = [0, 0xff, 0x80, random(256) as u8][random(4) as usize];
            }
        }
        let Some(mut stacks) = Stacks::of_module(&file, start) else { continue };
        read += 1;
        let stack: Vec<u8> = (0..256).flat_map(|_| (start + random(whole.len() as u64)).to_le_bytes()).collect();
        for base in [8, 1 << 40, u64::MAX - 4096] {
            let registers = Registers { ip: start + random(whole.len() as u64), sp: base + 64, fp: base + 128, lr: 0 };
            let user = stacks.unwind(u32::MAX, registers, base, &stack);
            assert!(user.addresses.len() <= 1024);
            text(&mut stacks, u32::MAX, &user);
        }
    }
    assert!(read * 3 > turns, "{read} of {turns} are modules still");
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has one");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// More processes than are kept, one after the other; twice as many take no more memory.
#[test]
fn many_short_processes_leave_nothing_behind() {
    // In a process of its own: other tests take memory, too.
    const ALONE: &str = "LATSCOPE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let own = std::env::current_exe().expect("this program");
        let alone = ["--exact", "many_short_processes_leave_nothing_behind", "--nocapture"];
        let status = Command::new(own).args(alone).env(ALONE, "1").status().expect("it starts");
        assert!(status.success(), "{status}");
        return;
    }
    let mut stacks = Stacks::new(Naming::Plain);
    let mut resident = Vec::new();
    for _ in 0..2 {
        for _ in 0..2300 {
            let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
            let pid = child.id();
            // It may just start, and have the code of this test.
            let (_, sp, ip) = loop {
                if let Some(found) = waiting(&pid.to_string()) {
                    break found;
                }
            };
            let user = stacks.unwind(pid, Registers { ip, sp, fp: 0, lr: 0 }, sp, &copy(pid, sp));
            child.kill().expect("it runs");
            child.wait().expect("it ended");
            stacks.exit(pid);
            text(&mut stacks, pid, &user);
        }
        resident.push(resident_kilobytes());
    }
    assert!(stacks.known() <= 2048, "{}", stacks.known());
    assert!(resident[1] < resident[0] + 2048, "{resident:?}");
}

#[test]
fn hostile_registers_and_stacks_end() {
    let mut stacks = Stacks::new(Naming::Plain);
    let pid = std::process::id();
    let code = waiting as *const () as u64;
    let full: Vec<u8> = (0..2048).flat_map(|word: u64| (0x1000 + word * 8).to_le_bytes()).collect();
    let code_again: Vec<u8> = (0..2048).flat_map(|_| code.to_le_bytes()).collect();
    for bytes in [&[][..], &[1], &full, &code_again] {
        for base in [0, 0x1000, u64::MAX - 16, u64::MAX] {
            for (ip, sp, fp) in
                [(code, base, base), (code, base, 0), (u64::MAX, u64::MAX, u64::MAX), (1, base, 8), (0, 0, 0)]
            {
                let user = stacks.unwind(pid, Registers { ip, sp, fp, lr: code }, base, bytes);
                assert!(user.addresses.len() <= 1024);
                let mut text = String::new();
                stacks.text(pid, &user.addresses, &[], &mut text);
            }
        }
    }
    assert_eq!(stacks.unwind(u32::MAX, Registers { ip: 1, ..Registers::default() }, 0, &[]).quality, Quality::None);
}

#[test]
fn a_wait_of_this_machine_has_its_class() {
    let Some((_folder, program)) = compiled("cc", &["-O2"], "planted.c") else { skip!("no C compiler") };
    let planted = Program::start(&mut Command::new(&program));
    let mut stacks = Stacks::new(Naming::Plain);
    sample(&mut stacks, planted.pid(), planted.pid(), 0);
    // Names with the offset in them; the table says where they are.
    let Ok(frames) = std::fs::read_to_string(format!("/proc/{}/stack", planted.pid())) else { skip!("not root") };
    let table = std::fs::read_to_string("/proc/kallsyms").expect("a table");
    let address = |frame: &str| {
        let (name, offset) = frame.split_once(' ')?.1.split_once("+0x")?;
        let line = table.lines().find(|line| line.split_ascii_whitespace().nth(2) == Some(name))?;
        let start = u64::from_str_radix(line.split_once(' ')?.0, 16).ok()?;
        Some(start + u64::from_str_radix(offset.split_once('/')?.0, 16).ok()?)
    };
    let kernel: Vec<u64> = frames.lines().filter_map(address).collect();
    if kernel.is_empty() || kernel.contains(&0) {
        skip!("addresses of the kernel are hidden");
    }
    assert_eq!(stacks.wait_class(&kernel, ThreadState::Sleeping, Some(0)), "pipe read");
    assert_eq!(stacks.wait_class(&kernel, ThreadState::Running, Some(0)), "");
    assert_eq!(stacks.wait_class(&[], ThreadState::Sleeping, Some(0)), "read");
    assert_eq!(stacks.wait_class(&[], ThreadState::Stopped, None), "stopped");
    assert!(!stacks.is_idle(&kernel));
    let mut text = String::new();
    stacks.text(planted.pid(), &[], &kernel, &mut text);
    assert!(text.contains(";vfs_read_[k];") && text.ends_with("pipe_read_[k]"), "{text}");
}
