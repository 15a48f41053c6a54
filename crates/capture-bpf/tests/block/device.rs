//! A loop device of its own for each test.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A loop device over a file; gone when dropped.
pub struct LoopDevice {
    /// `/dev/loop3`
    pub path: String,
    /// `loop3`
    pub name: String,
    _folder: tempfile::TempDir,
}

/// Why live capture cannot be tested here, if it cannot.
pub fn skipped() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        eprintln!("skipped: needs root");
    } else if !std::path::Path::new("/dev/loop-control").exists() {
        eprintln!("skipped: needs loop devices");
    } else {
        return false;
    }
    true
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
        let device = LoopDevice { path, name, _folder: folder };
        device.set("scheduler", "none");
        device
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

    /// Direct reads and writes of these many blocks of 4 KiB and then of 64 KiB, one at a time.
    pub fn load(&self, blocks: u64) {
        let count = format!("count={blocks}");
        for bs in ["bs=4k", "bs=64k"] {
            run("dd", &[&format!("if={}", self.path), "of=/dev/null", bs, &count, "iflag=direct"]);
            run("dd", &["if=/dev/zero", &format!("of={}", self.path), bs, &count, "oflag=direct", "conv=notrunc"]);
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.path]);
    }
}
