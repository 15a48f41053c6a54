//! What waits now, held against `/proc/TID/syscall`: storage that hangs is reported, servers without work are not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

use latscope_capture_bpf::{Error, EventCapture, HistogramCapture, Options, Source};
use latscope_event::{Batch, Context, Field, FieldSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A capture in either mode.
enum Capture {
    Event(Box<EventCapture>),
    Histogram(Box<HistogramCapture>),
}

impl Capture {
    /// `None` when there is no right to one here.
    fn start(source: Source, events: bool) -> Option<Capture> {
        let options = Options::new(source, FieldSet::ALWAYS);
        let started = if events {
            EventCapture::start(&options).map(|capture| Capture::Event(Box::new(capture)))
        } else {
            HistogramCapture::start(&options).map(|capture| Capture::Histogram(Box::new(capture)))
        };
        match started {
            Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => {
                skipped!("{error}");
                None
            }
            capture => Some(capture.unwrap()),
        }
    }

    fn waiting(&mut self) -> &Batch {
        match self {
            Capture::Event(capture) => capture.waiting().unwrap(),
            Capture::Histogram(capture) => capture.waiting().unwrap(),
        }
    }

    fn context(&self) -> &Context {
        match self {
            Capture::Event(capture) => capture.context(),
            Capture::Histogram(capture) => capture.context(),
        }
    }
}

/// A child that ends with the test, and a file system server that goes on before that.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        signal(self.0.id(), "CONT");
        signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// Prints `ready` when it runs.
fn ready(command: &mut Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    Ended(child)
}

/// A mounted file system of one file, `disk`, that hangs while the server is stopped.
fn delayfs(folder: &Path, arguments: &[&str]) -> Option<Ended> {
    let built = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("latscope-delayfs");
    if !built.exists() {
        skipped!("{} is not built (cargo test --workspace builds it)", built.display());
        return None;
    }
    Some(ready(Command::new(built).arg(folder).args(arguments)))
}

/// The system calls that the threads of a process are in, by number, as the kernel reports them to everybody.
fn in_calls(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let call = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("syscall")).ok()?;
        Some(text.split(' ').next()?.to_owned()).filter(|call| call.parse::<u32>().is_ok())
    };
    tasks.filter_map(call).collect()
}

/// Waits in every way in which a server without work does, a thread each, and prints `ready`.
const IDLE: &str = r#"
import ctypes, fcntl, os, pty, select, socket, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]
def wait(target, *arguments): threading.Thread(target=target, args=arguments, daemon=True).start()
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(1)
one, two = socket.socketpair()
wait(server.accept); wait(one.recv, 1)
wait(lambda: select.select([two], [], []))
poll = select.poll(); poll.register(two, select.POLLIN); wait(poll.poll)
epoll = select.epoll(); epoll.register(two, select.EPOLLIN); wait(epoll.poll)
pipe, _keep = os.pipe(); wait(os.read, pipe, 1)
wait(os.read, libc.eventfd(0, 0), 8)
wait(os.read, libc.timerfd_create(1, 0), 8)
wait(os.read, libc.inotify_init(), 512)
mask = (ctypes.c_ulong * 16)(); mask[0] = 1 << 11
wait(os.read, libc.signalfd(-1, mask, 0), 128)
master, _slave = pty.openpty(); wait(os.read, master, 1)
os.mkfifo(folder + "/fifo"); wait(os.open, folder + "/fifo", os.O_RDONLY)
held = open(folder + "/lock", "w"); fcntl.flock(held, fcntl.LOCK_EX)
asks = open(folder + "/lock"); wait(fcntl.flock, asks, fcntl.LOCK_EX)
lock = threading.Lock(); lock.acquire(); wait(lock.acquire)
wait(subprocess.Popen(["sleep", "60"]).wait)
wait(time.sleep, 60)
time.sleep(.3)
print("ready", flush=True)
sys.stdin.read()
"#;

/// x86-64 numbers of read, accept4 (or accept), recvfrom, select or pselect6, poll, epoll_wait, open(at), flock, futex,
/// wait4, clock_nanosleep.
const IDLE_CALLS: [&[&str]; 11] = [
    &["0"],
    &["43", "288"],
    &["45"],
    &["23", "270"],
    &["7", "271"],
    &["232", "281"],
    &["257", "2"],
    &["73"],
    &["202"],
    &["61", "247"],
    &["230", "35"],
];

/// Rows of a process: name, type, path, age.
fn rows_of(batch: &Batch, pid: u32) -> Vec<(String, String, String, u64)> {
    let of = |at: usize| {
        let text = |field| batch.text(field, at).unwrap_or("").to_owned();
        (text(Field::Name), text(Field::FdType), text(Field::Path), batch.latency()[at])
    };
    let is_of = |at: &usize| batch.i64s(Field::Pid).unwrap()[*at] == i64::from(pid);
    (0..batch.len()).filter(is_of).map(of).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split(' ').filter_map(|pid| pid.parse().ok()).collect()
}

/// Waits at most 20 s until a thread of it is in one of these calls.
fn until_in(pid: u32, calls: &[&str]) {
    let until = Instant::now() + Duration::from_secs(20);
    while !in_calls(pid).iter().any(|call| calls.contains(&call.as_str())) {
        assert!(Instant::now() < until, "{pid} is in {:?}", in_calls(pid));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn storage_that_hangs_waits_and_servers_without_work_do_not() {
    if !cfg!(target_arch = "x86_64") {
        skipped!("the numbers of the calls are those of x86-64");
        return;
    }
    if Capture::start(Source::Io, true).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let Some(server) = delayfs(&mount, &[]) else { return };
    let python = std::env::var("LATSCOPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let idle = ready(Command::new(python).args(["-c", IDLE]).arg(folder.path()).stdin(Stdio::piped()));
    let now_in = in_calls(idle.0.id());
    for calls in IDLE_CALLS {
        assert!(now_in.iter().any(|call| calls.contains(&call.as_str())), "no thread is in {calls:?}: {now_in:?}");
    }
    let disk = mount.join("disk");
    for (source, events) in [(Source::Io, true), (Source::Io, false), (Source::Syscall, true), (Source::Syscall, false)]
    {
        // One that was there before anybody looked, and one that comes later.
        let early = hang(&disk, server.0.id());
        until_in(early.reader.0.id(), &["0"]);
        let Some(mut capture) = Capture::start(source, events) else { return };
        let late = Ended(
            Command::new("dd")
                .arg(format!("if={}", disk.display()))
                .args(["of=/dev/null"])
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        until_in(late.0.id(), &["257"]);
        std::thread::sleep(Duration::from_millis(300));
        let waiting = capture.waiting();
        let shown = format!(
            "{source:?} events {events}: {:?}",
            (0..waiting.len()).map(|at| waiting.text(Field::Name, at)).collect::<Vec<_>>()
        );
        assert_eq!(rows_of(waiting, idle.0.id()), [], "{shown}");
        children(idle.0.id()).iter().for_each(|&pid| assert_eq!(rows_of(waiting, pid), [], "{shown}"));
        let [(name, fd_type, path, age)] = &rows_of(waiting, early.reader.0.id())[..] else { panic!("{shown}") };
        assert_eq!((name.as_str(), fd_type.as_str(), Path::new(path)), ("read", "file", disk.as_path()));
        let (age, hangs) = (*age, rows_of(waiting, late.0.id()));
        assert!(hangs.iter().any(|(name, ..)| name == "openat"), "{hangs:?} {shown}");
        assert!(waiting.latency().is_sorted_by(|one, two| one >= two), "the oldest first");
        std::thread::sleep(Duration::from_millis(50));
        let later = rows_of(capture.waiting(), early.reader.0.id())[0].3;
        assert!(later >= age + 50_000_000, "{age} {later}");
        let unfinished = &capture.context().unfinished;
        let named = |pid: u32| unfinished.iter().find(|one| one.what.contains(&format!("thread {pid}")));
        let what = &named(early.reader.0.id()).unwrap().what;
        assert!(what.contains("/disk") && what.contains("before the capture"), "{what}");
        assert!(named(late.0.id()).is_some() && named(idle.0.id()).is_none(), "{unfinished:?}");
        // What waits for a stopped file system cannot be killed.
        signal(server.0.id(), "CONT");
    }
}

/// A reader of a file whose server has stopped. The server goes on before anybody waits for the reader: what waits for a stopped
/// file system cannot be killed.
struct Hang {
    reader: Ended,
    server: u32,
}

impl Drop for Hang {
    fn drop(&mut self) {
        signal(self.server, "CONT");
    }
}

/// Opens a file, stops the process that serves it, and reads. A stop reaches the threads of a process one after the other, and one
/// that still runs would answer, so the read waits until all of them have stopped. Nothing is forked meanwhile: whatever
/// inherits the file closes it, and closing asks the server.
fn hang(disk: &Path, server: u32) -> Hang {
    let script =
        format!("exec 3< {}; kill -STOP {server}; read go; exec dd bs=4k count=1 of=/dev/null <&3", disk.display());
    let reader = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut hang = Hang { reader: Ended(reader.unwrap()), server };
    let until = Instant::now() + Duration::from_secs(20);
    while !has_stopped(server) {
        assert!(Instant::now() < until, "the server does not stop");
        std::thread::sleep(Duration::from_millis(1));
    }
    hang.reader.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    hang
}

/// Whether all threads of a process have stopped.
fn has_stopped(pid: u32) -> bool {
    let stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let status = task.and_then(|task| std::fs::read_to_string(task.path().join("status"))).unwrap_or_default();
        status.contains("State:\tT")
    };
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|mut tasks| tasks.all(stopped))
}

#[test]
fn requests_of_io_uring_wait_with_their_path() {
    for events in [true, false] {
        let Some(mut capture) = Capture::start(Source::Io, events) else { return };
        let folder = tempfile::tempdir().unwrap();
        let Some(_server) = delayfs(folder.path(), &["--read", "2s"]) else { return };
        let disk = folder.path().join("disk");
        let fio = Command::new("fio")
            .args([
                "--name=x",
                "--thread",
                "--ioengine=io_uring",
                "--rw=randread",
                "--bs=4k",
                "--iodepth=4",
                "--number_ios=4",
            ])
            .arg(format!("--filename={}", disk.display()))
            .stdout(Stdio::null())
            .spawn();
        let fio = Ended(fio.unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        let rows = loop {
            let rows = rows_of(capture.waiting(), fio.0.id());
            if rows.iter().filter(|(name, _, path, _)| name == "io_uring_read" && !path.is_empty()).count() == 4 {
                break rows;
            }
            assert!(Instant::now() < until, "{rows:?}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(rows.iter().all(|(_, fd_type, path, _)| fd_type == "file" && Path::new(path) == disk), "{rows:?}");
    }
}
