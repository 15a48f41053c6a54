//! Mounts it, measures it, ends it. That the program is built for the tests of the whole is owed to this one.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

#[macro_use]
#[path = "../../skip.rs"]
mod skip;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn answers_by_the_schedule_and_unmounts() {
    let can_mount = std::fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0\t0");
    if !can_mount || !std::path::Path::new("/dev/fuse").exists() {
        skipped!("mounting needs root and /dev/fuse");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_latscope-delayfs"))
        .arg(folder.path())
        .args(["--size", "1MiB", "--read", "2ms", "--slow", "20ms", "--every", "10"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    let file = std::fs::File::options().read(true).write(true).open(folder.path().join("disk")).unwrap();
    file.write_all_at(&[7; 4096], 8192).unwrap();
    let mut took = Vec::new();
    for at in 0..49 {
        let mut bytes = [0; 4096];
        let start = Instant::now();
        file.read_exact_at(&mut bytes, at * 4096).unwrap();
        took.push(start.elapsed());
        assert_eq!(bytes[0], if at == 2 { 7 } else { 0 });
    }
    assert!(took.iter().all(|&took| took >= Duration::from_millis(2)), "{took:?}");
    // The write was the first; a busy machine may make others slow too.
    for slow in (8..49).step_by(10) {
        assert!(took[slow] >= Duration::from_millis(20), "{took:?}");
    }
    assert_eq!(file.read_at(&mut [0; 10], 1 << 20).unwrap(), 0);
    assert!(file.write_at(&[0; 10], 1 << 20).is_err());
    drop(file);

    Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(server.wait().unwrap().success());
    line.clear();
    out.read_to_string(&mut line).unwrap();
    assert_eq!(line, "reads 50 writes 2 slow 5\n");
    assert!(!folder.path().join("disk").exists());
}
