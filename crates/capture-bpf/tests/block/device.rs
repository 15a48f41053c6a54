//! A loop device of its own for each test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A loop device over a file; gone when dropped.
pub struct LoopDevice {
    /// `/dev/loop3`
    pub path: String,
    /// `loop3`
    pub name: String,
    folder: tempfile::TempDir,
}

/// One test at a time: settings of one's device change what another's capture does.
static ALONE: Mutex<()> = Mutex::new(());

/// Who has this has the machine for live capture.
pub struct Alone {
    /// Locked against other processes of the same `make test`.
    _file: File,
    _guard: MutexGuard<'static, ()>,
}

/// The right to test, or `None` and a printed reason where live capture cannot be tested.
pub fn alone() -> Option<Alone> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        skipped!("needs root");
    } else if !std::path::Path::new("/dev/loop-control").exists() {
        skipped!("needs loop devices");
    } else {
        let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
        // SAFETY: the call takes numbers only, and the file is open.
        assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
        return Some(Alone { _file: file, _guard: guard });
    }
    None
}

pub fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl LoopDevice {
    pub const BYTES: u64 = 32 << 20;

    pub fn new() -> LoopDevice {
        let folder = tempfile::tempdir().unwrap();
        let file: PathBuf = folder.path().join("disk");
        std::fs::write(&file, vec![0x5a; LoopDevice::BYTES as usize]).unwrap();
        let attached = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        let path = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
        let name = path.strip_prefix("/dev/").unwrap().to_owned();
        let device = LoopDevice { path, name, folder };
        device.set("scheduler", "none");
        device.reset();
        device
    }

    /// A device keeps its settings when it changes its file.
    fn reset(&self) {
        self.set("iostats", "1");
        // The default; kernels without writeback throttling refuse.
        let _ = std::fs::write(format!("/sys/block/{}/queue/wbt_lat_usec", self.name), "-1");
    }

    /// Sets one of the queue's settings.
    pub fn set(&self, setting: &str, value: &str) {
        std::fs::write(format!("/sys/block/{}/queue/{setting}", self.name), value).unwrap();
    }

    /// The kernel's own statistics of the device (Documentation/block/stat.rst), numbers in the order of the file.
    pub fn stat(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name)).unwrap();
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// `7:3`
    pub fn number(&self) -> String {
        std::fs::read_to_string(format!("/sys/block/{}/dev", self.name)).unwrap().trim().to_owned()
    }

    /// Direct reads and writes of these many blocks of 4 KiB and then of 64 KiB, one at a time.
    pub fn load(&self, blocks: u64) {
        self.load_by("dd", blocks);
    }

    /// The same by a process of this name.
    pub fn load_as(&self, name: &str, blocks: u64) {
        let program = self.folder.path().join(name);
        let dd = ["/bin/dd", "/usr/bin/dd"].into_iter().find(|path| std::path::Path::new(path).exists()).unwrap();
        std::fs::copy(dd, &program).unwrap();
        self.load_by(program.to_str().unwrap(), blocks);
    }

    fn load_by(&self, dd: &str, blocks: u64) {
        let count = format!("count={blocks}");
        for bs in ["bs=4k", "bs=64k"] {
            run(dd, &[&format!("if={}", self.path), "of=/dev/null", bs, &count, "iflag=direct"]);
            run(dd, &["if=/dev/zero", &format!("of={}", self.path), bs, &count, "oflag=direct", "conv=notrunc"]);
        }
    }

    /// Makes a file system on it where there is a tool for that, and writes some files.
    pub fn use_as_file_system(&self) {
        if Command::new("mkfs.ext4").arg("-V").output().is_err() {
            eprintln!("skipped in part: no mkfs.ext4");
            return;
        }
        run("mkfs.ext4", &["-q", "-F", &self.path]);
        let folder = self.folder.path().join("mounted");
        std::fs::create_dir(&folder).unwrap();
        let folder = folder.to_str().unwrap();
        run("mount", &[&self.path, folder]);
        for number in 0..5 {
            run("dd", &["if=/dev/zero", &format!("of={folder}/{number}"), "bs=20k", "count=3", "conv=fsync"]);
        }
        run("umount", &[folder]);
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.reset();
        run("losetup", &["--detach", &self.path]);
    }
}
