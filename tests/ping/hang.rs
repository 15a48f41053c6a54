//! A target that hangs: what has waited counts with its age, whenever it started to hang and however the probe ends.

use crate::live::alone;
use crate::live::lab::{Disk, signal};
use crate::program::{LATSCOPE, command, latscope};
use serde_json::Value;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// How a probe of a hanging disk goes on.
struct Story {
    words: &'static str,
    /// It hangs before the first request; else when there were some.
    first: bool,
    /// It ends by Ctrl-C, else by itself.
    interrupted: bool,
}

impl Story {
    /// The final output, and the time from the hang to the signal or the end.
    fn run(&self) -> (Output, Duration) {
        let disk = Disk::new(&["--read", "100us"]);
        if self.first {
            disk.signal("STOP");
        }
        let mut since = Instant::now();
        let mut ping = command(LATSCOPE);
        ping.args(["ping", "-D", "-J", "-q", "--fail-if", "max > 300ms"]).args(self.words.split_whitespace());
        let child = ping.arg(&disk.path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        if !self.first {
            std::thread::sleep(Duration::from_millis(400));
            disk.signal("STOP");
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(700));
        let mut waited = since.elapsed();
        if self.interrupted {
            signal(child.id(), "INT");
            std::thread::sleep(Duration::from_millis(1500));
        } else {
            // A thread in the kernel keeps the process, which has reported everything by then.
            std::thread::sleep(Duration::from_millis(2500));
            waited = Duration::from_millis(300);
        }
        disk.signal("CONT");
        (child.wait_with_output().unwrap(), waited)
    }
}

#[test]
fn what_hangs_counts_with_its_age() {
    let Some(_alone) = alone() else { return };
    let stories = [
        Story { words: "-i 10ms", first: true, interrupted: true },
        Story { words: "-i 10ms", first: false, interrupted: true },
        Story { words: "-i 10ms -A", first: false, interrupted: true },
        Story { words: "--rate 200 --engine io_uring --depth 4", first: false, interrupted: true },
        Story { words: "--rate 200 --engine pread --depth 1", first: false, interrupted: true },
        Story { words: "-i 10ms -w 0.6 --timeout 400ms", first: false, interrupted: false },
        Story { words: "-c 1 --timeout 400ms", first: true, interrupted: false },
    ];
    for story in stories {
        let (output, waited) = story.run();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}: {printed}", story.words);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stat = &all.as_array().unwrap().last().unwrap()["stat"];
        let ns = |key: &str| stat[key].as_u64().unwrap();
        // The request that hangs was made at most an interval after the disk started to; a busy machine makes it later.
        assert!(ns("oldest") + 300_000_000 >= waited.as_nanos() as u64, "{}: {stat}, {waited:?}", story.words);
        assert!(ns("max") >= ns("oldest") && ns("p99.99") + ns("p99.99") / 64 >= ns("oldest"), "{stat}");
        let depth = if story.words.contains("--depth 4") { 4 } else { 1 };
        match story.words.contains("--rate") {
            // All places are taken, and what was due meanwhile waits too.
            true => assert!(ns("waiting") > depth && ns("p90") > 100_000_000, "{}: {stat}", story.words),
            false => assert_eq!(ns("waiting"), depth, "{}: {stat}", story.words),
        }
        assert_eq!(ns("count") == 0, story.first, "{}: {stat}", story.words);
    }
}

#[test]
fn what_is_printed_in_intervals_goes_on_while_it_hangs() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "100us"]);
    let folder = tempfile::tempdir().unwrap();
    let mut ping = command(LATSCOPE);
    ping.args(["ping", "-D", "-i", "10ms"]);
    let mut windows = command(LATSCOPE);
    windows.args(["ping", "-D", "-q", "-i", "10ms", "-P", "200ms", &disk.path]);
    ping.args([disk.path.as_str(), folder.path().to_str().unwrap()]);
    let started = [ping, windows]
        .map(|mut ping| ping.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    disk.signal("STOP");
    std::thread::sleep(Duration::from_millis(4500));
    started.iter().for_each(|child| signal(child.id(), "INT"));
    std::thread::sleep(Duration::from_millis(1500));
    disk.signal("CONT");
    let [side, windows] = started.map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap());
    let hung: Vec<&str> = side.lines().filter(|line| line.contains("waiting >=")).collect();
    assert!(hung.len() >= 2, "{side}");
    // The other target's requests are in the same rows.
    assert!(hung.iter().any(|row| row.contains("..")), "{side}");
    let ages = windows.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|row| row[0] == "0");
    let ages: Vec<u64> = ages.map(|row| row[6].parse().unwrap()).collect();
    assert!(ages.len() >= 3 && ages.is_sorted() && ages[0] >= 200_000_000, "{windows}");
}

#[test]
fn a_threshold_without_a_request_is_undecided() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let printed =
        latscope(&["ping", "-q", "-c", "1", "-T", "1ns", "-a", "0", "--fail-if", "p99 > 1s", path]).failure(3);
    assert!(printed.contains("--fail-if"), "{printed}");
}
