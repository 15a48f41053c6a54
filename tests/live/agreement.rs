//! The same run counted in different ways, and what other tracers see of it.

use super::blind::seeing_all;
use super::lab::{Background, Disk, alone, counts, events, fio_command, number, until};
use crate::program::{command, end, installed, latscope};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// An instance of ftrace that notes the completions of one device.
struct Ftrace(PathBuf);

impl Ftrace {
    /// `None`, and the reason reported, where ftrace is not to be had.
    fn new(disk: &Disk) -> Option<Ftrace> {
        let folder = PathBuf::from(format!("/sys/kernel/tracing/instances/latscope-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&folder) {
            skipped!("no ftrace ({error})");
            return None;
        }
        let ftrace = Ftrace(folder);
        let dev = fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
        let (major, minor) = dev.trim().split_once(':').unwrap();
        let dev = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
        fs::write(ftrace.0.join("buffer_size_kb"), "16384").unwrap();
        let event = ftrace.0.join("events/block/block_rq_complete");
        fs::write(event.join("filter"), format!("dev == {dev}")).unwrap();
        fs::write(event.join("enable"), "1").unwrap();
        Some(ftrace)
    }

    /// How many there were, by their flag letters.
    fn counts(&self) -> BTreeMap<String, u64> {
        for cpu in fs::read_dir(self.0.join("per_cpu")).unwrap() {
            let stats = fs::read_to_string(cpu.unwrap().path().join("stats")).unwrap();
            assert!(stats.contains("\noverrun: 0\n") && stats.contains("\ndropped events: 0\n"), "{stats}");
        }
        let mut counts = BTreeMap::new();
        let text = fs::read_to_string(self.0.join("trace")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // ... block_rq_complete: 7,0 RS () 8 + 8 none,0,0 [0]
            let words: Vec<&str> = line.split_once("block_rq_complete: ").unwrap().1.split_whitespace().collect();
            let sectors = words.iter().position(|&word| word == "+").and_then(|plus| words.get(plus + 1));
            // A flush is asked for by an empty write, which waits for it and never gets to the device itself.
            if words[1] == "FF" || sectors != Some(&"0") {
                *counts.entry(words[1].to_string()).or_default() += 1;
            }
        }
        counts
    }
}

impl Drop for Ftrace {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("events/block/block_rq_complete/enable"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn kernel_counts_events_and_ftrace_agree() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&["--size", "64MiB"]);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("block.lat");
        let of_disk = disk.filter();
        let counted = ["summary", "-s", "block", "--mode", "histogram", "--by", "device,kind", "--json", &of_disk];
        let counted = Background::latscope(&counted);
        let record = Background::latscope(&["record", "-s", "block", "-w", trace.to_str().unwrap(), &of_disk]);
        let ftrace = Ftrace::new(&disk);
        let load = ["--ioengine=libaio", "--iodepth=8", "--rw=randrw", "--size=64m", "--fsync=100"];
        end(&mut fio_command(&disk, &load), b"").success();
        let ftrace = ftrace.map(|ftrace| ftrace.counts());
        record.interrupt().success();
        let counted = counts(&counted.interrupt().success(), "kind");

        let recorded = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "kind", "--json"]).success();
        assert_eq!(counted, counts(&recorded, "kind"));
        let transfers = counted["read"] + counted["write"];
        assert_eq!(transfers, (64 << 20) / 4096, "{counted:?}");
        let letters = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "name", "--json"]).success();
        let letters = counts(&letters, "name");
        if let Some(ftrace) = ftrace {
            assert_eq!(letters, ftrace);
        }
    });
}

#[test]
fn kernel_counts_and_events_agree_on_system_calls() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--size", "16MiB"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("io.lat");
    // Calls that nobody else makes on a block device.
    let filter = "name in (preadv2, pwritev2) and fd.type = block";
    let counted = ["summary", "-s", "io", "--mode", "histogram", "--by", "name", "--json", filter];
    let counted = Background::latscope(&counted);
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), filter]);
    let load = ["--ioengine=pvsync2", "--rw=randrw", "--size=16m", "--output-format=json"];
    let fio = end(&mut fio_command(&disk, &load), b"").success();
    record.interrupt().success();
    let counted = counts(&counted.interrupt().success(), "name");

    let fio: serde_json::Value = serde_json::from_str(&fio).unwrap();
    let done = |direction: &str| number(&fio["jobs"][0][direction], "total_ios");
    let expected = BTreeMap::from([("preadv2".to_string(), done("read")), ("pwritev2".to_string(), done("write"))]);
    assert_eq!(counted, expected);
    let recorded = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "name", "--json"]).success();
    assert_eq!(counts(&recorded, "name"), expected);
    let bytes: u64 = events(&trace, "result", "").iter().map(|event| number(event, "result")).sum();
    assert_eq!(bytes, 16 << 20);
}

/// The kernel counts on the grid that `--precision` asks for, and its buckets are those of the events on that grid.
#[test]
fn kernel_counts_and_events_agree_at_a_low_precision() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&["--size", "64MiB"]);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("block.lat");
        let of_disk = disk.filter();
        let buckets = |text: &str| {
            let rows = text.lines().filter(|line| line.contains(" -> "));
            let count =
                |row: &str| row.split([':', '|']).nth(1).unwrap().trim().replace(',', "").parse::<u64>().unwrap();
            rows.map(|row| (row.split(" : ").next().unwrap().trim().to_string(), count(row)))
                .collect::<BTreeMap<_, _>>()
        };
        let look = ["--precision", "2", "--per-octave", "2", "--completed-only"];
        let counted = [&["histogram", "-s", "block", "--mode", "histogram", &of_disk][..], &look].concat();
        let counted = Background::latscope(&counted);
        let record = Background::latscope(&["record", "-s", "block", "-w", trace.to_str().unwrap(), &of_disk]);
        let load = ["--ioengine=libaio", "--iodepth=8", "--rw=randrw", "--size=64m"];
        end(&mut fio_command(&disk, &load), b"").success();
        record.interrupt().success();
        let counted = buckets(&counted.interrupt().success());
        let recorded = latscope(&[&["histogram", "-r", trace.to_str().unwrap()][..], &look].concat()).success();
        assert!(counted.len() > 2, "{counted:?}");
        let recorded = buckets(&recorded);
        assert_eq!(counted.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>());
        let total = |buckets: &BTreeMap<String, u64>| buckets.values().sum::<u64>();
        assert_eq!(total(&counted), total(&recorded));
        // Each capture stamps a completion by itself, so that what ends at the edge of a bucket may be in its neighbour.
        let moved: u64 = recorded.iter().map(|(range, count)| count.abs_diff(counted[range])).sum();
        assert!(moved * 100 <= total(&recorded), "{counted:?}\n{recorded:?}");
    });
}

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
