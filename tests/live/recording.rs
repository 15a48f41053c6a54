//! What `record` leaves behind when all goes well.

use super::blind::seeing_all;
use super::lab::{Background, Disk, alone, events, fio_command, number, until};
use crate::program::{LATSCOPE, command, end, latscope};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of a folder by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_exit_status_of_the_command_is_passed_on() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let trace = trace.to_str().unwrap();
    let run = |command: &[&str]| latscope(&[&["record", "-s", "io", "-w", trace, "--"], command].concat());
    assert_eq!(run(&["sh", "-c", "exit 7"]).status, Some(7));
    latscope(&["summary", "-r", trace]).success();
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status, Some(128 + 15));
    assert_eq!(run(&["true"]).status, Some(0));
    let said = run(&["latscope-no-such-program"]).failure(3);
    assert!(said.contains("latscope-no-such-program cannot be run"), "{said}");
}

#[test]
fn the_command_is_recorded_from_its_beginning_to_its_end() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let program = folder.path().join("latscope-dd");
    std::fs::copy("/bin/dd", &program).unwrap();
    let mut record = command(LATSCOPE);
    record.args(["record", "-s", "io", "-w"]).arg(&trace).args(["proc.name = latscope-dd and kind = read", "--"]);
    record.arg(&program).args(["if=/dev/zero", "of=/dev/null", "bs=512", "count=10000", "status=none"]);
    end(&mut record, b"").success();
    // Not by its path: it may be gone before that was looked up. Its writes are no reads.
    assert_eq!(events(&trace, "size", "fd.type = char and size = 512").len(), 10_000);
}

#[test]
fn ctrl_c_ends_a_recording_with_a_complete_file() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&[]);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("t.lat");
        let record = Background::latscope(&["record", "-s", "block", "-w", trace.to_str().unwrap(), &disk.filter()]);
        end(&mut fio_command(&disk, &["--ioengine=psync", "--rw=read", "--size=2m"]), b"").success();
        let ended = record.interrupt();
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        assert!(ended.err.contains("512 events"), "{}", ended.err);
        let read = latscope(&["events", "-r", trace.to_str().unwrap(), "--csv"]);
        assert!(!read.err.contains("cut") && !read.err.contains("truncated"), "{}", read.err);
        assert_eq!(read.success().lines().count(), 1 + 512);
    });
}

/// The offsets of the events of files, in the order of the files.
fn offsets(files: &[PathBuf]) -> Vec<u64> {
    files.iter().flat_map(|file| events(file, "offset", "")).map(|event| number(&event, "offset")).collect()
}

#[test]
fn a_flight_recorder_keeps_the_last_files_and_loses_nothing_between_them() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        // Each block is read once, in order, one every 2 ms, so that the offset numbers the events.
        let disk = Disk::new(&["--read", "2ms"]);
        let folder = tempfile::tempdir().unwrap();
        let [all, last] = ["all", "last"].map(|name| folder.path().join(name));
        for folder in [&all, &last] {
            std::fs::create_dir(folder).unwrap();
        }
        let of_disk = disk.filter();
        let start = |folder: &Path, more: &[&str]| {
            let path = folder.join("flight.lat");
            let path = path.to_str().unwrap();
            Background::latscope(
                &[&["record", "-s", "block", "-w", path, "--rotate", "500ms"], more, &[&of_disk]].concat(),
            )
        };
        let everything = start(&all, &[]);
        let recorder = start(&last, &["--keep", "3"]);
        let load = ["--ioengine=psync", "--rw=read", "--size=6m"];
        end(&mut fio_command(&disk, &load), b"").success();
        until("the next file", || files(&last).len() == 3);
        let (everything, recorder) = (everything.interrupt(), recorder.interrupt());
        everything.success();
        recorder.success();

        let (all, last) = (files(&all), files(&last));
        assert!(all.len() >= 6, "{all:?}");
        assert_eq!(last.len(), 3, "{last:?}");
        for file in all.iter().chain(&last) {
            latscope(&["summary", "-r", file.to_str().unwrap()]).success();
        }
        let expected: Vec<u64> = (0..1536).map(|block| block * 4096).collect();
        assert_eq!(offsets(&all), expected);
        // Of the others there is the end of the same row.
        let kept = offsets(&last);
        let from = expected.partition_point(|offset| Some(offset) < kept.first());
        assert_eq!(kept, expected[from..]);
    });
}

#[test]
fn samples_stand_for_what_was_left_out() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        const ONE_IN: u64 = 16;
        let disk = Disk::new(&["--slow", "100ms", "--every", "250"]);
        let folder = tempfile::tempdir().unwrap();
        let [whole, sample] = ["whole.lat", "sample.lat"].map(|name| folder.path().join(name));
        let of_disk = disk.filter();
        let whole_run = Background::latscope(&["record", "-s", "block", "-w", whole.to_str().unwrap(), &of_disk]);
        let one_in = format!("1/{ONE_IN}");
        let arguments =
            ["record", "-s", "block", "-w", sample.to_str().unwrap(), "--only-slow", "50ms", "--sample", &one_in];
        let sample_run = Background::latscope(&[&arguments[..], &[&of_disk]].concat());
        end(&mut fio_command(&disk, &["--ioengine=libaio", "--iodepth=4", "--rw=randread", "--size=64m"]), b"")
            .success();
        whole_run.interrupt().success();
        sample_run.interrupt().success();

        let all = events(&whole, "latency_ns,offset", "");
        assert_eq!(all.len(), (64 << 20) / 4096);
        // The slow ones are the same, each as itself. Each capture reads the clock for itself, hence the gap.
        let slow = |trace: &Path, filter| {
            let mut offsets: Vec<u64> =
                events(trace, "offset", filter).iter().map(|event| number(event, "offset")).collect();
            offsets.sort_unstable();
            offsets
        };
        let expected = slow(&whole, "lat > 51ms");
        assert!(expected.len() >= all.len() / 250);
        let kept = slow(&sample, "lat > 51ms and not weight > 1");
        assert_eq!(kept, expected);
        // Of the fast ones there are about as many as there should be, and each stands for 16.
        let fast = all.len() as f64 - expected.len() as f64;
        let kept = events(&sample, "weight", "lat < 50ms");
        assert!(kept.iter().all(|event| number(event, "weight") == ONE_IN), "{:?}", kept.first());
        let mean = fast / ONE_IN as f64;
        let sigma = (fast * (1.0 / ONE_IN as f64) * (1.0 - 1.0 / ONE_IN as f64)).sqrt();
        assert!((kept.len() as f64 - mean).abs() < 5.0 * sigma + 1.0, "{} of {mean} +- {sigma}", kept.len());
        // Histograms count what the rows stand for.
        let text = latscope(&["summary", "-r", sample.to_str().unwrap(), "--json"]).success();
        let counts: BTreeMap<String, u64> = super::lab::counts(&text, "device");
        let stand_for = kept.len() as u64 * ONE_IN + slow(&sample, "lat >= 50ms").len() as u64;
        assert_eq!(counts.into_values().collect::<Vec<_>>(), [stand_for]);
    });
}
