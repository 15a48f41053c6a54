//! A long run: many short-lived processes, devices that come and go, memory that stays as it is.
//!
//! A minute here; `benches/hours.sh` runs it for as long as wanted.

use super::filters::missing;
use super::lab::{Background, Disk, alone, counts, detach, events, fio_command};
use crate::program::{command, end};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long, and how many processes come and go at least.
fn extent() -> (Duration, u64) {
    let seconds = std::env::var("LATSCOPE_HOURS_SECONDS").ok().and_then(|text| text.parse().ok());
    (Duration::from_secs(seconds.unwrap_or(0)), 10_000)
}

/// Starts so many processes, each of which reads, and ends them.
fn processes(count: u64) {
    // The shell forks for each pair of brackets.
    let script = format!("i=0; while [ $i -lt {count} ]; do (read x </dev/null); i=$((i+1)); done; true");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

/// A device that is there for a moment, read once.
fn device_for_a_moment(folder: &std::path::Path) {
    let file = folder.join("moment");
    fs::write(&file, vec![0; 1 << 20]).unwrap();
    let path = end(command("losetup").args(["--find", "--show"]).arg(&file), b"").success();
    let path = path.trim();
    let from = format!("if={path}");
    let read = ["of=/dev/null", "bs=64k", "count=4", "iflag=direct", "status=none"];
    end(command("dd").arg(from).args(read), b"").success();
    detach(path);
}

/// Memory that the kernel keeps for the BPF maps of a process, bytes.
fn maps(pid: u32) -> u64 {
    let Ok(infos) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return 0 };
    let texts = infos.flatten().filter_map(|info| fs::read_to_string(info.path()).ok());
    let value = |text: String| text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse::<u64>().ok());
    texts.filter(|text| text.contains("map_id:")).filter_map(value).sum()
}

#[test]
fn memory_stays_and_counts_stay_right() {
    let Some(_alone) = alone() else { return };
    let (duration, at_least) = extent();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("io.lat");
    let watching = [
        Background::latscope(&["percentiles", "-s", "syscall", "--mode", "histogram", "-i", "1s", "--by", "name"]),
        Background::latscope(&["percentiles", "-s", "block", "--mode", "histogram", "-i", "1s", "--by", "device"]),
        Background::latscope(&["percentiles", "-s", "block", "--mode", "event", "-i", "1s", "--by", "device"]),
        Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), "name = preadv2"]),
    ];
    let memory = || watching.iter().map(|run| (run.resident(), maps(run.pid()))).collect::<Vec<_>>();
    let round = || {
        processes(500);
        (0..4).for_each(|_| device_for_a_moment(folder.path()));
    };
    // What is met for the first time takes memory.
    (0..4).for_each(|_| round());
    let before = memory();
    let start = Instant::now();
    let mut done = 0;
    while done < at_least || start.elapsed() < duration {
        round();
        done += 500;
    }
    let after = memory();
    eprintln!("{done} processes in {:?}; resident and map bytes {before:?}, then {after:?}", start.elapsed());
    for (before, after) in before.iter().zip(&after) {
        assert!(after.0 <= before.0 + (16 << 20), "resident: {before:?}, then {after:?}");
        assert!(after.1 <= before.1 + (1 << 20), "maps: {before:?}, then {after:?}");
    }

    // After all that, a run of known length is still counted to the last event.
    let disk = Disk::new(&["--size", "16MiB"]);
    let counted = ["summary", "-s", "block", "--mode", "histogram", "--by", "device", "--json", &disk.filter()];
    let fresh = Background::latscope(&counted);
    end(&mut fio_command(&disk, &["--ioengine=pvsync2", "--rw=read", "--size=16m"]), b"").success();
    let [syscalls, block, block_events, record] = watching;
    record.interrupt().success();
    assert_eq!(events(&trace, "size", "proc.name = fio and fd.type = block").len(), 4096);
    let ended = fresh.interrupt();
    let missing = missing(&ended);
    assert_eq!(counts(&ended.success(), "device")[disk.name()] + missing, 4096, "counted, or reported as missing");
    assert!(missing <= 40, "{missing} of 4096 requests are missing: more than a sandbox hides");
    for run in [syscalls, block, block_events] {
        let ended = run.interrupt();
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert!(!ended.err.contains("map was full"), "{}", ended.err);
    }
}
