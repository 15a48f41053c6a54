//! What the tests set up: a disk with a known delay, programs in the background, fio. All is undone when dropped.

use crate::program::{Ended, LATSCOPE, command, end, installed, latscope, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long something may take on a busy machine before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who has this has the machine for live capture.
pub struct Alone {
    /// Locked against other processes of the same `make test`.
    _file: File,
    _guard: MutexGuard<'static, ()>,
}

/// The machine for one test at a time; `None`, and the reason reported, where live capture cannot be tested.
pub fn alone() -> Option<Alone> {
    static LAB: Mutex<()> = Mutex::new(());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let may = |capability: u32| effective >> capability & 1 == 1;
    // Besides mounting, CAP_SYS_ADMIN is CAP_BPF and CAP_PERFMON too.
    const CAP_SYS_ADMIN: u32 = 21;
    let reason = if !may(CAP_SYS_ADMIN) {
        "not root"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "the kernel has no BTF"
    } else if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        "no /dev/fuse or no loop devices"
    } else if !installed("fio") {
        "no fio"
    } else {
        let guard = LAB.lock().unwrap_or_else(PoisonError::into_inner);
        let locked = |name: &str| {
            let file = File::open(root().join(name)).unwrap();
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
            file
        };
        // Who waits for the machine holds the turn, so that nobody who has just had it takes it again first.
        let turn = locked("Cargo.lock");
        let file = locked("Cargo.toml");
        drop(turn);
        return Some(Alone { _file: file, _guard: guard });
    };
    skipped!("{reason}");
    None
}

/// A block device with a known delay: a loop device above the file of delayfs.
pub struct Disk {
    server: Child,
    folder: tempfile::TempDir,
    /// `/dev/loop3`.
    pub path: String,
    out: BufReader<std::process::ChildStdout>,
}

impl Disk {
    /// With these arguments of delayfs.
    pub fn new(arguments: &[&str]) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let server = Path::new(LATSCOPE).with_file_name("latscope-delayfs");
        assert!(server.exists(), "cargo test --workspace builds it; or cargo build --release --workspace");
        // It shall not stay when the test is killed.
        let mut server = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .args([server.as_path(), folder.path()])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut disk = Disk { out: BufReader::new(server.stdout.take().unwrap()), server, folder, path: String::new() };
        let mut line = String::new();
        disk.out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let file = disk.folder.path().join("disk");
        disk.path = end(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(file), b"").success();
        disk.path.truncate(disk.path.trim_end().len());
        disk
    }

    /// The file below the device.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// `loop3`.
    pub fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    /// The filter that selects it.
    pub fn filter(&self) -> String {
        format!("device = {}", self.name())
    }

    /// Sends the server a signal, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        signal(self.server.id(), name);
        // A stop reaches the threads of a process one after the other; one that still runs would go on to answer.
        let stopped = |task: std::io::Result<std::fs::DirEntry>| {
            let status = task.and_then(|task| std::fs::read_to_string(task.path().join("status"))).unwrap_or_default();
            status.contains("State:\tT")
        };
        let tasks = format!("/proc/{}/task", self.server.id());
        let until = Instant::now() + Duration::from_secs(20);
        while name == "STOP" && !std::fs::read_dir(&tasks).is_ok_and(|mut tasks| tasks.all(stopped)) {
            assert!(Instant::now() < until, "the server does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes it away and returns what the server says that it served.
    pub fn served(mut self) -> String {
        self.remove()
    }

    fn remove(&mut self) -> String {
        if self.path.is_empty() {
            return String::new();
        }
        self.signal("CONT");
        detach(&self.path);
        // A loop device keeps its scheduler, and how much that may hold, when it changes its file.
        let _ = std::fs::write(format!("/sys/block/{}/queue/scheduler", self.name()), "none");
        self.path.clear();
        self.signal("TERM");
        let mut line = String::new();
        let _ = self.out.read_line(&mut line);
        let _ = self.server.wait();
        line.trim_end().to_string()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.remove();
        let _ = self.server.kill();
        let _ = self.server.wait();
        // The server does it itself unless it was killed.
        let _ =
            Command::new("umount").args(["--quiet", "--lazy"]).arg(self.folder.path()).stderr(Stdio::null()).status();
    }
}

/// Gives a loop device back. Somebody who looks at all devices may have it open for a moment.
pub fn detach(path: &str) {
    let _ = Command::new("losetup").args(["--detach", path]).status();
}

pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
}

/// A program in the background.
pub struct Background {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    _folder: tempfile::TempDir,
}

impl Background {
    /// Any program.
    pub fn new(command: &mut Command) -> Background {
        let folder = tempfile::tempdir().unwrap();
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let (to_out, to_err) = (File::create(&out).unwrap(), File::create(&err).unwrap());
        let child = command.stdin(Stdio::null()).stdout(to_out).stderr(to_err).spawn().unwrap();
        Background { child, out, err, _folder: folder }
    }

    /// Our program; returns when it captures.
    #[track_caller]
    pub fn latscope(arguments: &[&str]) -> Background {
        let mut program = Background::new(command(LATSCOPE).args(arguments));
        // All of its programs are attached once their number no longer grows.
        let (mut links, mut since) = (0, Instant::now());
        let start = Instant::now();
        while links == 0 || since.elapsed() < Duration::from_millis(250) {
            assert!(program.child.try_wait().unwrap().is_none(), "{arguments:?} ended: {}", program.printed());
            assert!(start.elapsed() < PATIENCE, "{arguments:?} attached nothing: {}", program.printed());
            let now = program.links();
            if now != links {
                (links, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        program
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// BPF programs that it has attached.
    fn links(&self) -> usize {
        let Ok(fds) = std::fs::read_dir(format!("/proc/{}/fd", self.pid())) else { return 0 };
        let target = |fd: std::fs::DirEntry| std::fs::read_link(fd.path()).unwrap_or_default();
        fds.flatten().map(target).filter(|target| target.to_string_lossy().contains("bpf_link")).count()
    }

    /// Standard error so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    /// Standard output so far.
    pub fn out_so_far(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Ctrl-C, and what came of it.
    #[track_caller]
    pub fn interrupt(self) -> Ended {
        self.signal("INT");
        self.ended()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < PATIENCE, "it does not end: {}", self.printed());
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = self.child.wait().unwrap().code();
        Ended { status, out: std::fs::read(&self.out).unwrap(), err: self.printed() }
    }

    /// Memory that it has in use, bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // One that waits for a disk that hangs ends when the disk goes, which may be after this.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until it holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() >= PATIENCE {
            // At once, beside the report at the end of a run of hundreds of tests.
            let (test, message) = (std::thread::current(), format!("{what} did not happen"));
            let line = format!("{}: {message}\n", test.name().unwrap_or("a test"));
            let _ = std::io::stderr().write_all(line.as_bytes());
            panic!("{message}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One I/O as fio logged it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Logged {
    pub latency_ns: u64,
    pub offset: u64,
}

/// Runs fio on a device with direct I/O and returns the completion latency of each I/O in order.
#[track_caller]
pub fn fio(disk: &Disk, arguments: &[&str]) -> Vec<Logged> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    end(fio_command(disk, arguments).arg(format!("--write_lat_log={}", log.display())).arg("--log_offset=1"), b"")
        .success();
    let text = std::fs::read_to_string(folder.path().join("log_clat.1.log")).unwrap();
    let logged = |line: &str| {
        let columns: Vec<&str> = line.split(", ").collect();
        Logged { latency_ns: columns[1].parse().unwrap(), offset: columns[4].parse().unwrap() }
    };
    text.lines().map(logged).collect()
}

/// The same without a log.
pub fn fio_command(disk: &Disk, arguments: &[&str]) -> Command {
    let mut fio = command("fio");
    fio.args(["--name=load", "--direct=1", "--bs=4k"]).arg(format!("--filename={}", disk.path)).args(arguments);
    fio
}

/// The events of a trace that a filter lets through, with these columns.
#[track_caller]
pub fn events(trace: &Path, columns: &str, filter: &str) -> Vec<Value> {
    let trace = trace.to_str().unwrap();
    let text = latscope(&["events", "-r", trace, "--json", "--columns", columns, filter]).success();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A number among the values of an event.
#[track_caller]
pub fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().unwrap_or_else(|| panic!("{event} has no {key}"))
}

/// Of a summary in JSON: the count of each group by its value of a field.
#[track_caller]
pub fn counts(summary: &str, field: &str) -> BTreeMap<String, u64> {
    let summary: Value = serde_json::from_str(summary).unwrap();
    let group = |group: &Value| (group[field].as_str().unwrap_or("?").to_string(), number(group, "count"));
    summary["groups"].as_array().unwrap().iter().map(group).collect()
}
