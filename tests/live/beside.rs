//! What other tracers see while we capture.

use super::lab::{Background, alone, until};
use crate::program::{command, end, installed};

/// Forces a file of its own out as often as it is told.
const FORCE: &str = "import os, sys\nf = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n\
                     for _ in range(200): os.fsync(f)";

#[test]
fn perf_sees_every_call_that_we_trace() {
    let Some(_alone) = alone() else { return };
    if !installed("perf") {
        eprintln!("skipped: no perf");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, trace) = (folder.path().join("file"), folder.path().join("perf.data"));
    let capture = Background::latscope(&["summary", "-s", "io", "--calls", "fsync"]);
    until("it captures", || capture.printed().contains("capturing"));
    let perf = ["record", "-q", "-e", "syscalls:sys_enter_fsync,syscalls:sys_exit_fsync", "-o"];
    let perf = end(command("perf").args(perf).arg(&trace).args(["--", "python3", "-c", FORCE]).arg(&file), b"");
    let ours = capture.interrupt().success();
    if perf.status != Some(0) {
        eprintln!("skipped: perf cannot record system calls: {}", perf.err);
        return;
    }
    let lines = end(command("perf").arg("script").arg("-i").arg(&trace), b"").success();
    for event in ["sys_enter_fsync", "sys_exit_fsync"] {
        assert_eq!(lines.lines().filter(|line| line.contains(event)).count(), 200, "{event}");
    }
    assert!(ours.lines().any(|line| line.contains("fsync")), "{ours}");
}
