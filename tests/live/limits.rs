//! What a recording leaves untouched when it cannot start, and the limits of a flight recorder.

use super::lab::{Background, alone, events, number, until};
use crate::program::{LATSCOPE, command, end, latscope};
use std::path::{Path, PathBuf};

/// The files of a folder by name, those under temporary names among them.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Bytes of those that are there; one may be removed in this moment.
fn sizes(files: &[PathBuf]) -> Vec<u64> {
    files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).collect()
}

#[test]
fn a_recording_that_cannot_start_leaves_everything_as_it_was() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (trace, plain) = (folder.path().join("keep.lat"), folder.path().join("plain"));
    std::fs::write(&trace, "precious").unwrap();
    std::fs::write(&plain, "no program").unwrap();
    let (trace, plain) = (trace.to_str().unwrap(), plain.to_str().unwrap());
    let before = files(folder.path());
    // The shell says what it means that a program cannot be started.
    let shell = |program: &str| end(command("sh").args(["-c", program]), b"").status.unwrap();
    let device = "device = no-such-disk";
    let new = folder.path().join("new.lat");
    let new = new.to_str().unwrap();
    let attempts: [(&[&str], i32); 8] = [
        (&["-f", "-w", trace, "--", "/nonexistent"], shell("/nonexistent")),
        (&["-f", "-w", trace, "--", plain], shell(plain)),
        (&["-w", new, "--", "latscope-no-such-program"], shell("latscope-no-such-program")),
        (&["-w", new, "--rotate", "1s", "--keep", "2", "--", "/nonexistent"], shell("/nonexistent")),
        (&["-f", "-w", trace, device], 2),
        (&["-w", new, "--rotate", "1h", device], 2),
        (&["-f", "-w", trace, "lat >"], 2),
        (&["-f", "-w", trace, "evt.time < 10:00:00 and evt.time > 2020-01-01T00:00:00 and device = no-such-disk"], 2),
    ];
    for (arguments, status) in attempts {
        let printed = latscope(&[&["record", "-s", "block"], arguments].concat()).failure(status);
        assert!(printed.starts_with("latscope: "), "{printed}");
        assert_eq!(files(folder.path()), before, "{arguments:?}: {printed}");
        assert_eq!(std::fs::read(trace).unwrap(), b"precious", "{arguments:?}: {printed}");
    }
    let without_rights =
        ["--bounding-set=-all", "--inh-caps=-all", LATSCOPE, "record", "-s", "block", "-f", "-w", trace];
    let printed = end(command("setpriv").args(without_rights), b"").failure(3);
    assert!(printed.contains("Live capture needs root"), "{printed}");
    assert_eq!(files(folder.path()), before);
    assert_eq!(std::fs::read(trace).unwrap(), b"precious");
}

#[test]
fn the_start_of_a_capture_is_announced() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let trace = trace.to_str().unwrap();
    let views: [(&[&str], &str); 6] = [
        (&["record", "-w", trace], "block requests"),
        (&["summary", "-s", "block"], "block requests"),
        (&["summary", "-s", "io", "-i", "100ms"], "system calls that do I/O"),
        (&["events", "-s", "syscall", "lat > 1h"], "all system calls"),
        (&["percentiles", "-s", "io", "--calls", "read,pwrite64"], "read, pwrite64"),
        (&["heatmap", "-s", "block", "--mode", "event"], "block requests"),
    ];
    for (arguments, what) in views {
        let run = latscope(&[arguments, &["--for", "200ms"]].concat());
        assert_eq!(run.status, Some(0), "{arguments:?}: {}", run.err);
        assert_eq!(run.err.matches(&format!("latscope: capturing {what}\n")).count(), 1, "{arguments:?}: {}", run.err);
    }
}

/// Small writes without end. The offset of each is its number, and its size does not compress.
fn numbered_writes(folder: &Path) -> Background {
    let script = "import os, random, time\nf = os.open('/dev/null', os.O_WRONLY)\nn = 0\n\
                  while True:\n\x20os.pwrite(f, b'x' * random.randrange(1, 4096), n)\n\x20n += 1\n\x20if n % 20 == 0: time.sleep(0.001)";
    Background::new(command("python3").current_dir(folder).args(["-c", script]))
}

/// A recorder of these writes.
fn recorder(load: &Background, path: &Path, limits: &[&str]) -> Background {
    let filter = format!("proc.pid = {}", load.pid());
    let record = ["record", "-s", "io", "--calls", "pwrite64", "-w", path.to_str().unwrap(), &filter];
    Background::latscope(&[&record[..], limits].concat())
}

/// Checks that the files hold the writes of one stretch of time, each once and in order.
#[track_caller]
fn assert_contiguous(files: &[PathBuf]) {
    let offsets: Vec<u64> =
        files.iter().flat_map(|file| events(file, "offset", "")).map(|event| number(&event, "offset")).collect();
    assert!(offsets.len() > 1000, "{}", offsets.len());
    let gap = offsets.windows(2).find(|pair| pair[1] != pair[0] + 1);
    assert_eq!(gap, None, "{} events in {files:?}", offsets.len());
}

#[test]
fn files_never_pass_the_limits_and_lose_nothing_between_them() {
    let Some(_alone) = alone() else { return };
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let load = numbered_writes(elsewhere.path());
    const ROTATE: u64 = 100 << 10;
    const KEEP: u64 = 512 << 10;
    let recorder = recorder(&load, &folder.path().join("flight.lat"), &["--rotate", "100KiB", "--keep", "512KiB"]);
    let first = || files(folder.path()).first().cloned();
    until("a first file", || first().is_some());
    let oldest = first();
    let mut removed = 0;
    until("three files went", || {
        let sizes = sizes(&files(folder.path()));
        assert!(sizes.iter().all(|&size| size <= ROTATE) && sizes.iter().sum::<u64>() <= KEEP, "{sizes:?}");
        removed = recorder.printed().matches(".lat: ").count().saturating_sub(sizes.len());
        first() != oldest && removed >= 3
    });
    let ended = recorder.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let files = files(folder.path());
    let sizes = sizes(&files);
    assert!(sizes.iter().all(|&size| size <= ROTATE) && sizes.iter().sum::<u64>() <= KEEP, "{sizes:?}");
    // The limits are made use of.
    assert!(sizes[..sizes.len() - 1].iter().all(|&size| size > ROTATE / 2), "{sizes:?}");
    assert!(sizes.len() >= 4, "{sizes:?}");
    assert_contiguous(&files);
}

#[test]
fn a_small_disk_never_ends_a_flight_recorder() {
    let Some(_alone) = alone() else { return };
    for limits in [["--rotate", "64KiB", "--keep", "200KiB"], ["--rotate", "1s", "--keep", "3"]] {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mount = ["-t", "tmpfs", "-o", "size=300k", "latscope-test", folder.path().to_str().unwrap()];
        end(command("mount").args(mount), b"").success();
        let load = numbered_writes(elsewhere.path());
        let recorder = recorder(&load, &folder.path().join("flight.lat"), &limits);
        // Several times what the disk holds.
        until("it goes on", || recorder.printed().matches(" events in ").count() >= 12);
        let ended = recorder.interrupt();
        let whole = files(folder.path());
        let total: u64 = sizes(&whole).iter().sum();
        let contiguous = std::panic::catch_unwind(|| assert_contiguous(&whole));
        end(command("umount").arg("--lazy").arg(folder.path()), b"").success();
        assert_eq!(ended.status, Some(0), "{limits:?}: {}", ended.err);
        assert!(!ended.err.contains("events are lost"), "{limits:?}: {}", ended.err);
        assert!(whole.len() >= 2 && total <= 300 << 10, "{limits:?}: {whole:?}");
        assert!(contiguous.is_ok(), "{limits:?}: {}", ended.err);
    }
}

#[test]
fn what_others_fill_a_disk_with_ends_files_but_no_recording() {
    let Some(_alone) = alone() else { return };
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mount = ["-t", "tmpfs", "-o", "size=1m", "latscope-test", folder.path().to_str().unwrap()];
    end(command("mount").args(mount), b"").success();
    let load = numbered_writes(elsewhere.path());
    let recorder = recorder(&load, &folder.path().join("flight.lat"), &["--rotate", "64KiB", "--keep", "100"]);
    let ended_files = || recorder.printed().matches(" events in ").count();
    until("some files", || ended_files() >= 4);
    // As much as there is: the next write fails. Then there is room again.
    let (ballast, zeros) = (folder.path().join("ballast"), vec![0; 1 << 20]);
    for _ in 0..3 {
        let _ = std::fs::write(&ballast, &zeros);
        let before = recorder.printed().matches("The disk is full").count();
        until("it is noticed", || recorder.printed().matches("The disk is full").count() > before);
        std::fs::remove_file(&ballast).unwrap();
        let before = ended_files();
        until("it goes on", || ended_files() > before + 1);
    }
    let ended = recorder.interrupt();
    let whole = files(folder.path());
    let status: Vec<_> = whole.iter().map(|file| latscope(&["summary", "-r", file.to_str().unwrap()]).status).collect();
    end(command("umount").arg("--lazy").arg(folder.path()), b"").success();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    assert!(status.iter().all(|&status| status == Some(0)), "{whole:?}: {status:?}");
}

#[test]
fn limits_too_small_for_a_file_are_refused() {
    for (limits, printed) in [
        (&["--rotate", "1KiB"][..], "--rotate 1KiB is too small; a file takes at least 32KiB."),
        (&["--rotate", "1h", "--keep", "40KiB"], "--keep 40KiB is too small; two files take at least 64KiB."),
    ] {
        let refused = latscope(&[&["record", "-s", "block", "-w", "t.lat"], limits].concat()).failure(2);
        assert!(refused.contains(printed), "{refused}");
    }
}

/// Of waits that no sample saw, nobody knows how long they lasted.
#[test]
fn samples_that_saw_nothing_decide_no_percentile() {
    let Some(_alone) = alone() else { return };
    for (limit, status) in [("p99 > 1ms", 3), ("over(1ms) > 10%", 3), ("mean > 1ms", 3), ("oldest > 1m", 0)] {
        let words =
            ["percentiles", "-s", "stacks", "-i", "500ms", "--for", "1s", "--fail-if", limit, "comm = nosuchthread"];
        let ended = latscope(&words);
        assert_eq!(ended.status, Some(status), "{limit}: {}", ended.err);
    }
}
