//! A disk and a pipe whose latency is known, and fio's own account of the same run.

use super::blind::seeing_all;
use super::lab::{Background, Disk, Logged, alone, events, fio, number, until};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
/// The kernel takes the time of a request once for all that a process submits together, and fio has a clock of its own.
const SLACK_NS: u64 = 100_000;

/// What was seen of one run.
struct Seen {
    fio: Vec<Logged>,
    histogram: String,
    folder: tempfile::TempDir,
}

impl Seen {
    fn trace(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// Reads 1,200 blocks of a disk one by one while three captures look.
fn read_1200(disk: &Disk) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let (block, io) = (folder.path().join("block.lat"), folder.path().join("io.lat"));
    let of_disk = disk.filter();
    let of_fio = format!("proc.name = fio and kind = read and fd.name = {}", disk.path);
    let histogram = ["histogram", "-s", "block", "--mode", "histogram", "--per-octave", "64", &of_disk];
    let histogram = Background::latscope(&histogram);
    let block = Background::latscope(&["record", "-s", "block", "-w", block.to_str().unwrap(), &of_disk]);
    let io = Background::latscope(&["record", "-s", "io", "-w", io.to_str().unwrap(), &of_fio]);
    let fio = fio(disk, &["--ioengine=psync", "--rw=read", "--size=4800k"]);
    block.interrupt().success();
    io.interrupt().success();
    Seen { fio, histogram: histogram.interrupt().success(), folder }
}

/// Of a histogram as text: the lower edge of each row, nanoseconds, and its count.
fn rows(histogram: &str) -> Vec<(u64, u64)> {
    let row = |line: &str| {
        let (from, rest) = line.split_once("->")?;
        let count = rest.split_once(':')?.1.split_whitespace().next()?;
        let from = latscope_event::parse_duration(from.trim()).ok()?;
        Some((from, count.replace(',', "").parse().ok()?))
    };
    histogram.lines().filter_map(row).collect()
}

fn above(latencies: impl Iterator<Item = u64>, ms: u64) -> usize {
    latencies.filter(|&latency| latency > ms * MS).count()
}

#[test]
fn twelve_slow_ones_of_1200_are_found() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        for _ in 0..5 {
            let disk = Disk::new(&["--read", "5ms", "--slow", "50ms", "--every", "100"]);
            let seen = read_1200(&disk);
            assert_eq!(seen.fio.len(), 1200);
            assert_eq!(disk.served(), "reads 1200 writes 0 slow 12");
            // Somebody else had the CPU when an answer of 5 ms was due: then fio saw more than there should have been.
            if above(seen.fio.iter().map(|io| io.latency_ns), 45) == 12 {
                return twelve_of_1200(&seen);
            }
            eprintln!("the machine is too busy to answer in 5 ms; once more");
        }
        skipped!("the machine is too busy to answer in 5 ms");
    });
}

fn twelve_of_1200(seen: &Seen) {
    // Counted in the kernel.
    let rows = rows(&seen.histogram);
    let from = |ns| rows.iter().filter(|row| row.0 >= ns).map(|row| row.1).sum::<u64>();
    // The 64 buckets to an octave have an edge at 45.1 ms, and one at 4.98 ms.
    assert_eq!((from(45 * MS), from(4_900_000), from(0)), (12, 1200, 1200), "{}", seen.histogram);

    // Event by event: what is inside takes less time than what it is inside of.
    let block = events(&seen.trace("block.lat"), "latency_ns,offset,size,kind,comm", "");
    let io = events(&seen.trace("io.lat"), "latency_ns,offset,size,result,name,path", "");
    assert_eq!((block.len(), io.len()), (1200, 1200));
    for fio in &seen.fio {
        let of = |events: &[serde_json::Value]| {
            events.iter().find(|event| number(event, "offset") == fio.offset).expect("one for each").clone()
        };
        let (block, io) = (of(&block), of(&io));
        assert_eq!(number(&block, "size"), 4096, "{block}");
        assert_eq!((number(&io, "result"), io["name"].as_str()), (4096, Some("pread64")), "{io}");
        assert_eq!((block["kind"].as_str(), block["comm"].as_str()), (Some("read"), Some("fio")), "{block}");
        let (device, call) = (number(&block, "latency_ns"), number(&io, "latency_ns"));
        assert!(device >= 5 * MS && device <= call + SLACK_NS, "{block} in {io}");
        assert!(call <= fio.latency_ns + SLACK_NS, "{io}, but fio says {fio:?}");
    }
    let slow = |trace: &str, filter| events(&seen.trace(trace), "latency_ns", filter).len();
    assert_eq!((slow("block.lat", "lat > 45ms"), slow("io.lat", "lat > 45ms")), (12, 12));
    let not_slow = "kind = read and lat < 45ms";
    assert_eq!((slow("block.lat", not_slow), slow("io.lat", not_slow)), (1188, 1188));
}

#[test]
fn a_disk_that_hangs_is_seen_while_it_hangs() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("block.lat");
    let of_disk = disk.filter();
    let record = Background::latscope(&["record", "-s", "block", "-w", trace.to_str().unwrap(), &of_disk]);
    let summary = Background::latscope(&["summary", "-s", "block", "--mode", "event", &of_disk]);

    disk.signal("STOP");
    let asked = Instant::now();
    let mut dd = Command::new("dd");
    dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
    let dd = Background::new(&mut dd);
    // The kernel has it in flight.
    let in_flight = format!("/sys/block/{}/inflight", disk.name());
    let hangs = || std::fs::read_to_string(&in_flight).is_ok_and(|counts| counts.trim_start().starts_with('1'));
    until("the request", hangs);
    let hung = Instant::now();
    std::thread::sleep(Duration::from_millis(1500));
    let printed = summary.interrupt().success();
    let at_least = format!("longest without a completion: {} read 4KiB by dd, at least 1.", disk.name());
    assert!(printed.contains(&at_least), "{printed}");
    assert!(hangs());
    let hung = hung.elapsed();
    disk.signal("CONT");
    dd.ended().success();
    let took = asked.elapsed();

    let ended = record.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let events = events(&trace, "latency_ns,comm", "lat > 1s");
    assert_eq!(events.len(), 1, "{events:?}");
    let latency = Duration::from_nanos(number(&events[0], "latency_ns"));
    assert!(hung <= latency && latency <= took, "{hung:?} to {took:?}, {events:?}");
    assert!(!ended.err.contains("at least"), "{}", ended.err);
}

/// Whether a process waits in a read of its standard input; only some machines number their calls like that.
fn waits_in_read(pid: u32) -> bool {
    if !cfg!(target_arch = "x86_64") {
        std::thread::sleep(Duration::from_millis(300));
        return true;
    }
    std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|call| call.starts_with("0 0x0 "))
}

#[test]
fn a_pipe_whose_writer_sleeps() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("io.lat");
    // Under a name of its own, for others use cat too.
    let program = folder.path().join("latscope-cat");
    std::fs::copy("/bin/cat", &program).unwrap();
    let filter = "proc.name = latscope-cat and kind = read and fd.type = pipe";
    let record = Background::latscope(&["record", "-s", "io", "-w", trace.to_str().unwrap(), filter]);

    let started = Instant::now();
    let mut cat = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = cat.stdin.take().unwrap();
    let mut back = BufReader::new(cat.stdout.take().unwrap());
    let mut waited = Vec::new();
    for _ in 0..3 {
        until("the read", || waits_in_read(cat.id()));
        let from = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        waited.push(from.elapsed());
        pipe.write_all(b"12345\n").unwrap();
        back.read_line(&mut String::new()).unwrap();
    }
    drop(pipe);
    cat.wait().unwrap();
    let took = started.elapsed();
    record.interrupt().success();

    let reads = events(&trace, "latency_ns,result,fd,name", "");
    let results: Vec<_> = reads.iter().map(|read| number(read, "result")).collect();
    assert_eq!(results, [6, 6, 6, 0], "{reads:?}");
    for (read, waited) in reads.iter().zip(&waited) {
        let latency = Duration::from_nanos(number(read, "latency_ns"));
        assert!(*waited <= latency && latency <= took, "{read}, {waited:?}");
    }
}
