//! What the capture of block devices is about requests that wait, while they do: the tests know when each started.

use super::lab::{Background, Disk, alone, fio_command, until};
use crate::program::command;
use latscope_capture_bpf::{EventCapture, HistogramCapture, Options, PushDown, Source};
use latscope_event::{Batch, Field, FieldSet};
use std::time::{Duration, Instant};

/// How long it may take on a busy machine until what waits is reported.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request that waits, as it was reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Waiting {
    age: Duration,
    kind: String,
    name: String,
    size: u64,
    offset: u64,
    comm: String,
}

fn waiting_on(batch: &Batch, device: &str) -> Vec<Waiting> {
    let text = |field, row| batch.text(field, row).unwrap_or_default().to_owned();
    let number = |field, row: usize| batch.u64s(field).map_or(0, |values| values[row]);
    let own = (0..batch.len()).filter(|&row| batch.text(Field::Device, row) == Some(device));
    let waiting: Vec<_> = own
        .map(|row| Waiting {
            age: Duration::from_nanos(batch.latency()[row]),
            kind: text(Field::Kind, row),
            name: text(Field::Name, row),
            size: number(Field::Size, row),
            offset: number(Field::Offset, row),
            comm: text(Field::Comm, row),
        })
        .collect();
    assert!(waiting.is_sorted_by(|a, b| a.age >= b.age), "the oldest comes first");
    waiting
}

fn options() -> Options {
    Options { ring_bytes: 1 << 20, ..Options::new(Source::Block, FieldSet::EVERY) }
}

fn histograms(from_queue: bool) -> HistogramCapture {
    HistogramCapture::start(&Options { from_queue, ..options() }).unwrap()
}

/// A read of 4 KiB at this block, and when it was asked for and when the kernel had it, at the latest.
fn hang(disk: &Disk, block: u64) -> (Background, Instant, Instant) {
    // What the kernel still reads of a new disk must not hang too: nobody could open it.
    until("an idle disk", || {
        disk.signal("STOP");
        let idle = in_flight(disk) == 0;
        if !idle {
            disk.signal("CONT");
        }
        idle
    });
    let asked = Instant::now();
    let arguments = [&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct"];
    let dd = Background::new(command("dd").args(arguments).arg(format!("skip={block}")));
    until("the request", || in_flight(disk) > 0);
    (dd, asked, Instant::now())
}

fn in_flight(disk: &Disk) -> u64 {
    let counts = std::fs::read_to_string(format!("/sys/block/{}/inflight", disk.name())).unwrap();
    counts.split_whitespace().map(|count| count.parse::<u64>().unwrap()).sum()
}

/// Looks until the device has as many requests as are expected, and returns them, and a time before that.
#[track_caller]
fn looked(mut look: impl FnMut() -> Vec<Waiting>, count: usize) -> (Vec<Waiting>, Instant) {
    let start = Instant::now();
    loop {
        let before = Instant::now();
        let found = look();
        if found.len() == count {
            return (found, before);
        }
        assert!(start.elapsed() < PATIENCE, "{} instead of {count}: {found:?}", found.len());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_disk_that_hung_before_is_found_in_both_modes() {
    let Some(_alone) = alone() else { return };
    let (early, late) = (Disk::new(&[]), Disk::new(&[]));
    let (dd, asked, had) = hang(&early, 100);
    let mut counted = histograms(false);
    let mut events = EventCapture::start(&options()).unwrap();
    let (other_dd, other_asked, other_had) = hang(&late, 7);
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let (waiting, before) = looked(|| waiting_on(counted.waiting().unwrap(), early.name()), 1);
        let read = &waiting[0];
        assert_eq!((read.kind.as_str(), read.size, read.offset), ("read", 4096, 100 * 4096), "{read:?}");
        assert!(before - had <= read.age && read.age <= asked.elapsed(), "{read:?}");
        assert!(read.age > last, "it grows");
        last = read.age;
        let (waiting, _) = looked(|| waiting_on(counted.waiting().unwrap(), late.name()), 1);
        assert_eq!(waiting[0].offset, 7 * 4096);
        let (waiting, _) = looked(|| waiting_on(events.waiting().unwrap(), early.name()), 1);
        assert_eq!((waiting[0].offset, waiting[0].comm.as_str()), (100 * 4096, ""), "who began it was not seen");
        let (waiting, before) = looked(|| waiting_on(events.waiting().unwrap(), late.name()), 1);
        let read = &waiting[0];
        assert_eq!((read.offset, read.comm.as_str(), read.name.as_str()), (7 * 4096, "dd", "RS"), "{read:?}");
        assert!(before - other_had <= read.age && read.age <= other_asked.elapsed(), "{read:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    // Both are reported by every view.
    for context in [counted.context(), events.context()] {
        for disk in [&early, &late] {
            let of_disk = |what: &str| what.starts_with(&format!("{} read 4KiB", disk.name()));
            assert!(context.unfinished.iter().any(|unfinished| of_disk(&unfinished.what)), "{context:?}");
        }
    }
    for (disk, dd) in [(&early, dd), (&late, other_dd)] {
        disk.signal("CONT");
        assert_eq!(dd.ended().status, Some(0));
        assert_eq!(waiting_on(counted.waiting().unwrap(), disk.name()), []);
        assert_eq!(waiting_on(events.waiting().unwrap(), disk.name()), []);
    }
    let context = events.finish(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    let freed = |what: &str| !what.contains(early.name()) && !what.contains(late.name());
    assert!(context.unfinished.iter().all(|unfinished| freed(&unfinished.what)), "{context:?}");
}

/// More than the walk has room for in one go, and more than the driver takes: the rest waits in the scheduler.
#[test]
fn every_request_of_a_deep_queue_is_found() {
    let Some(_alone) = alone() else { return };
    find_all(200, None);
}

/// As many as the kernel lets a scheduler hold.
#[test]
fn thousands_of_requests_that_a_scheduler_holds_are_found() {
    let Some(_alone) = alone() else { return };
    find_all(1_900, Some("2048"));
}

/// Hangs a disk with so many requests, of which the scheduler may hold so many.
fn find_all(depth: usize, scheduler_requests: Option<&str>) {
    let disk = Disk::new(&[]);
    let set = |file: &str, value: &str| std::fs::write(format!("/sys/block/{}/queue/{file}", disk.name()), value);
    let has_scheduler = set("scheduler", "mq-deadline").is_ok();
    set("nomerges", "2").unwrap();
    if let Some(requests) = scheduler_requests
        && set("nr_requests", requests).is_err()
    {
        return skipped!("no scheduler that holds {requests} requests");
    }
    disk.signal("STOP");
    let load = ["--ioengine=libaio", "--rw=randread", "--size=64m", "--norandommap=0"];
    let depths = [format!("--iodepth={depth}"), format!("--number_ios={depth}")];
    let _fio = Background::new(fio_command(&disk, &load).args(depths));
    let (mut before, mut same) = (0, 0);
    until("a full queue", || {
        let now = in_flight(&disk);
        same = if now == before && now > 64 { same + 1 } else { 0 };
        before = now;
        same > 10
    });
    let at_device = in_flight(&disk) as usize;
    let mut counted = histograms(false);
    let (waiting, _) = looked(|| waiting_on(counted.waiting().unwrap(), disk.name()), at_device);
    let offsets: std::collections::BTreeSet<_> = waiting.iter().map(|waiting| waiting.offset).collect();
    assert_eq!(offsets.len(), at_device, "each is reported once");
    assert!(waiting.iter().all(|waiting| waiting.size == 4096 && waiting.offset < 64 << 20));
    if !has_scheduler {
        eprintln!("skipped in part: no mq-deadline");
        return;
    }
    // Counted from the queue, those wait too that the scheduler holds; they are sure at the second look.
    let mut from_queue = histograms(true);
    let (waiting, _) = looked(|| waiting_on(from_queue.waiting().unwrap(), disk.name()), depth);
    let all: std::collections::BTreeSet<_> = waiting.iter().map(|waiting| waiting.offset).collect();
    assert!(all.len() == depth && all.is_superset(&offsets));
}

#[test]
fn what_is_not_asked_for_does_not_wait() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[]);
    let own = || PushDown { devices: vec![disk.name().to_owned()], ..PushDown::default() };
    let texts = |text: &str| vec![text.to_owned()];
    let start = |push_down| EventCapture::start(&Options { push_down, ..options() }).unwrap();
    let mut captures = [
        (1, start(own())),
        (1, start(PushDown { comms: texts("dd"), kinds: texts("read"), ..own() })),
        (0, start(PushDown { comms: texts("fio"), ..own() })),
        (0, start(PushDown { kinds: texts("write"), ..own() })),
        (0, start(PushDown { devices: texts("no-such-disk"), ..PushDown::default() })),
        (0, start(PushDown { devices: texts("4095:1"), ..PushDown::default() })),
        (0, start(PushDown { pids: vec![1], ..own() })),
        (0, start(PushDown { min_latency_ns: 3_600_000_000_000, ..own() })),
        (1, start(PushDown { min_latency_ns: 1, ..own() })),
    ];
    let _hung = hang(&disk, 3);
    let mut counted = histograms(false);
    looked(|| waiting_on(counted.waiting().unwrap(), disk.name()), 1);
    for (at, (expected, capture)) in captures.iter_mut().enumerate() {
        let waiting = waiting_on(capture.waiting().unwrap(), disk.name());
        // Devices that are not there yet cannot be known from others in the kernel: the caller's filter does.
        assert!(waiting.len() == *expected || at == 4, "{at}: {waiting:?}");
    }
}

/// Requests to a partition are those of its disk; and a disk that is taken away while it hangs still hangs.
#[test]
fn partitions_and_disks_that_go_away() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[]);
    let partition = format!("{}p1", disk.path);
    let made = command("addpart").args([&disk.path, "1", "8192", "8192"]).output();
    if !made.is_ok_and(|made| made.status.success()) || !std::path::Path::new(&partition).exists() {
        eprintln!("skipped in part: no partitions on loop devices");
        return;
    }
    let mut counted = histograms(false);
    disk.signal("STOP");
    let dd = ["of=/dev/null", "bs=4k", "count=1", "iflag=direct", "skip=2"];
    let dd = Background::new(command("dd").arg(format!("if={partition}")).args(dd));
    let (waiting, _) = looked(|| waiting_on(counted.waiting().unwrap(), disk.name()), 1);
    assert_eq!(waiting[0].offset, 8192 * 512 + 2 * 4096, "{waiting:?}");
    let _ = command("losetup").args(["--detach", &disk.path]).output();
    assert_eq!(waiting_on(counted.waiting().unwrap(), disk.name()).len(), 1);
    disk.signal("CONT");
    assert_eq!(dd.ended().status, Some(0));
    assert_eq!(waiting_on(counted.waiting().unwrap(), disk.name()), []);
    let _ = command("delpart").args([&disk.path, "1"]).output();
}

/// A device without statistics: the kernel keeps no stamps, ours are taken from the start.
#[test]
fn without_stamps_ages_are_lower_bounds() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[]);
    let set = |file: &str, value: &str| {
        let _ = std::fs::write(format!("/sys/block/{}/queue/{file}", disk.name()), value);
    };
    set("scheduler", "none");
    set("iostats", "0");
    set("wbt_lat_usec", "0");
    disk.signal("STOP");
    let asked = Instant::now();
    let dd = |skip: &str| {
        let dd = ["of=/dev/null", "bs=4k", "count=1", "iflag=direct", skip];
        Background::new(command("dd").arg(format!("if={}", disk.path)).args(dd))
    };
    let before = dd("skip=1");
    std::thread::sleep(Duration::from_millis(500));
    let mut counted = histograms(false);
    let mut events = EventCapture::start(&options()).unwrap();
    let after = dd("skip=2");
    for mode in [&mut counted as &mut dyn Looks, &mut events] {
        let (waiting, _) = looked(|| waiting_on(mode.look(), disk.name()), 2);
        let offsets: Vec<_> = waiting.iter().map(|waiting| waiting.offset).collect();
        assert_eq!(offsets, [4096, 8192], "{waiting:?}");
        assert!(waiting.iter().all(|waiting| waiting.age <= asked.elapsed()), "{waiting:?}");
    }
    // The settings of a queue change when it is empty.
    disk.signal("CONT");
    assert_eq!((before.ended().status, after.ended().status), (Some(0), Some(0)));
    set("iostats", "1");
    set("wbt_lat_usec", "-1");
}

trait Looks {
    fn look(&mut self) -> &Batch;
}

impl Looks for HistogramCapture {
    fn look(&mut self) -> &Batch {
        self.waiting().unwrap()
    }
}

impl Looks for EventCapture {
    fn look(&mut self) -> &Batch {
        self.waiting().unwrap()
    }
}

/// The whole program, in the mode that it takes by itself.
#[test]
fn views_report_a_disk_that_hangs() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[]);
    let _hung = hang(&disk, 0);
    for view in ["summary", "histogram"] {
        let printed = crate::program::latscope(&[view, "-s", "block", "--for", "300ms", &disk.filter()]).success();
        let expected = format!("longest without a completion: {} read 4KiB, at least ", disk.name());
        assert!(printed.contains(&expected), "{view}: {printed}");
    }
}

/// What would show nothing is reported before anything is captured.
#[test]
fn devices_that_are_not_there_and_short_intervals_are_refused() {
    let Some(_alone) = alone() else { return };
    for filter in ["dev = no-such-disk", "device in (no-such-disk, /dev/no-such-disk)"] {
        for mode in ["auto", "event"] {
            let printed =
                crate::program::latscope(&["summary", "-s", "block", "--mode", mode, "--for", "1s", filter]).failure(2);
            assert!(printed.contains("No block device no-such-disk"), "{printed}");
        }
    }
    let filters =
        ["device startswith no-such", "size > 0 and device in (sdzz) or device glob no-such*", "not dev glob *"];
    for filter in filters {
        let printed = crate::program::latscope(&["summary", "-s", "block", "--for", "1s", filter]).failure(2);
        assert!(printed.contains("No block device of this machine matches "), "{printed}");
        assert!(printed.contains("(found: "), "{printed}");
    }
    if std::path::Path::new("/sys/block/zram0").exists() {
        let printed =
            crate::program::latscope(&["summary", "-s", "block", "--for", "1s", "device startswith zr"]).failure(2);
        assert!(printed.contains("zram0 has no requests of its own"), "{printed}");
    }
    let short = ["percentiles", "-s", "block", "--mode", "histogram", "--for", "1s", "-i", "1ms"];
    let printed = crate::program::latscope(&short).failure(2);
    assert!(printed.contains("shorter than 10ms"), "{printed}");
}
