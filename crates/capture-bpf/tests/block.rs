//! Live block requests on a real loop device, held against the kernel's own accounts.
#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "block/blind.rs"]
mod blind;
#[path = "block/device.rs"]
mod device;
#[path = "block/events.rs"]
mod events;
#[path = "block/ftrace.rs"]
mod ftrace;
#[path = "block/plugged.rs"]
mod plugged;

use blind::seeing_all;
use device::{LoopDevice, alone, run};
use events::{Events, Row, options};
use ftrace::Ftrace;
use latscope_capture_bpf::{HistogramCapture, Options, PushDown, Sample, Source};
use latscope_event::{Anomaly, Context, Field, FieldSet};
use latscope_histogram::{Grid, Sparse};
use std::collections::BTreeMap;

/// Histograms of one device by kind, and bytes.
type ByKind = BTreeMap<String, (Sparse, u64)>;

fn histograms(from_queue: bool) -> HistogramCapture {
    HistogramCapture::start(&Options { from_queue, ..Options::new(Source::Block, FieldSet::EVERY) }).unwrap()
}

fn taken(capture: &mut HistogramCapture, device: &LoopDevice) -> ByKind {
    capture.refresh().unwrap();
    let counted = capture.take().unwrap();
    let keys = capture.keys();
    let mut of_device = ByKind::new();
    for counted in counted {
        if keys.text(Field::Device, counted.key) == Some(&device.name) {
            let kind = keys.text(Field::Kind, counted.key).unwrap().to_owned();
            assert!(of_device.insert(kind, (counted.histogram, counted.bytes)).is_none(), "a key is reported once");
        }
    }
    of_device
}

/// The buckets of a histogram as a sorted list, an entry for each event.
fn spread(histogram: &Sparse) -> Vec<usize> {
    histogram.buckets().flat_map(|(index, count, _)| std::iter::repeat_n(index, count as usize)).collect()
}

fn of_device(rows: Vec<Row>, device: &LoopDevice) -> Vec<Row> {
    rows.into_iter().filter(|row| row.device == device.name).collect()
}

fn lost(context: &Context) -> u64 {
    context.tally.get(Anomaly::LostRecords) + context.tally.get(Anomaly::OrphanCompletion)
}

/// Of one request the sum is minimum and maximum, of two it is both together.
#[test]
fn minimum_and_maximum_are_exact_in_histograms() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        let mut capture = histograms(false);
        for blocks in [1, 2, 1, 3, 2, 1, 2] {
            let (from, count) = (format!("if={}", device.path), format!("count={blocks}"));
            run("dd", &[&from, "of=/dev/null", "bs=4k", "iflag=direct", &count, "status=none"]);
            let totals = *taken(&mut capture, &device)["read"].0.totals();
            let (min, max) = (u128::from(totals.min), u128::from(totals.max));
            match totals.count {
                1 => assert_eq!((min, max), (totals.sum, totals.sum)),
                2 => assert_eq!(min + max, totals.sum),
                count => assert!(count == 3 && min * 2 + max <= totals.sum && totals.sum <= min + max * 2),
            }
        }
    });
}

/// Programs at one tracepoint run in the order in which they were attached, each with its own look at the clock: from
/// creation to completion the events lie between a histogram that was attached before and one that was attached after.
/// From issue to completion they are no longer than in a histogram, whose issue is that of a clock that may be behind.
#[test]
fn events_and_histograms_agree() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        let (mut before, mut events, mut after) = (histograms(true), Events::start(&options()), histograms(true));
        let mut of_device_time = histograms(false);
        let stat = device.stat();
        device.load(150);
        events.poll();
        let (rows, context) = events.finish();
        let (lower, upper) = (taken(&mut before, &device), taken(&mut after, &device));
        let device_time = taken(&mut of_device_time, &device);
        assert_eq!((lost(&context), lost(before.context()), lost(after.context())), (0, 0, 0));
        let rows = of_device(rows, &device);
        assert_eq!(lower.keys().collect::<Vec<_>>(), ["read", "write"]);
        let mut wider = 0;
        for (kind, (low, bytes)) in &lower {
            let (high, high_bytes) = &upper[kind];
            let of_kind = || rows.iter().filter(|row| row.kind == *kind);
            let grid = low.grid();
            assert_eq!(grid, Grid::FINE);
            let indices = |of: &dyn Fn(&Row) -> u64| {
                let mut indices: Vec<_> = of_kind().map(|row| grid.index(of(row))).collect();
                indices.sort_unstable();
                indices
            };
            let at_device = indices(&|row| row.latency_ns).into_iter().zip(spread(&device_time[kind].0));
            assert!(at_device.clone().count() == of_kind().count());
            at_device.for_each(|(index, high)| assert!(index <= high, "{kind}: {index} {high}"));
            let indices = indices(&|row| row.latency_ns + row.queue_ns);
            let (low_spread, high_spread) = (spread(low), spread(high));
            assert_eq!((indices.len(), indices.len()), (low_spread.len(), high_spread.len()), "{kind}");
            for ((low, index), high) in low_spread.iter().zip(&indices).zip(&high_spread) {
                assert!(low <= index && index <= high, "{kind}: {low} {index} {high}");
                wider += usize::from(low != high);
            }
            let sum: u128 = of_kind().map(|row| u128::from(row.latency_ns + row.queue_ns)).sum();
            assert!(low.totals().sum <= sum && sum <= high.totals().sum);
            let size: u64 = of_kind().map(|row| row.size).sum();
            assert_eq!((*bytes, *high_bytes), (size, size), "{kind}");
        }
        eprintln!("{wider} of {} latencies fell into different buckets before and after", rows.len());
        // Documentation/block/stat.rst: reads, their sectors, writes, their sectors.
        let stat: Vec<_> = device.stat().iter().zip(&stat).map(|(after, before)| after - before).collect();
        for (kind, ios, sectors) in [("read", stat[0], stat[2]), ("write", stat[4], stat[6])] {
            let of_kind = rows.iter().filter(|row| row.kind == kind);
            let (count, bytes) = of_kind.fold((0, 0), |(count, bytes), row| (count + 1, bytes + row.size));
            assert_eq!((count, bytes), (ios, sectors * 512), "{kind}");
        }
        assert!(taken(&mut after, &device).is_empty(), "what was taken is not reported again");
    });
}

/// A file system's own variety of requests, each with the letters, place and size that ftrace gives; and what is no
/// event is accounted for.
#[test]
fn every_completion_is_that_of_ftrace() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        let Some(ftrace) = Ftrace::start(&device) else { return };
        let events = Events::start(&options());
        let stat = device.stat();
        device.load(20);
        for _ in 0..3 {
            run("dd", &["if=/dev/zero", &format!("of={}", device.path), "bs=4k", "count=4", "conv=notrunc,fsync"]);
        }
        device.use_as_file_system();
        let (rows, context) = events.finish();
        assert_eq!(lost(&context), 0);
        let lines = ftrace.lines();
        let without_process =
            |rows: &[Row]| rows.iter().filter(|row| row.kind != "flush" && row.comm.is_none()).count();
        // On other devices those of process 1, which may write at any time.
        assert_eq!(context.tally.get(Anomaly::IssuerUnknown), without_process(&rows) as u64);
        let rows = of_device(rows, &device);
        let mut ours: Vec<_> = rows
            .iter()
            .map(|row| {
                // Flushes have no place; the tracepoint prints the greatest number.
                let sector = if row.offset == u64::MAX { row.offset } else { row.offset / 512 };
                (row.name.clone(), sector, row.size / 512)
            })
            .collect();
        // Parents of flushes: writes of nothing.
        let parents: Vec<_> = lines.iter().filter(|line| line.0.starts_with('W') && line.2 == 0).cloned().collect();
        assert!(!parents.is_empty() && parents.len() as u64 <= context.tally.get(Anomaly::FlushParent));
        ours.extend(parents);
        ours.sort();
        assert_eq!(ours, lines);
        let letters: std::collections::BTreeSet<_> = rows.iter().map(|row| row.name.as_str()).collect();
        eprintln!("{} completions: {letters:?}", lines.len());
        // Documentation/block/stat.rst: the sixteenth number counts flushes.
        if let (Some(after), Some(before)) = (device.stat().get(15), stat.get(15)) {
            let flushes = rows.iter().filter(|row| row.kind == "flush").count() as u64;
            assert_eq!(flushes, after - before);
            assert!(flushes >= 3);
        }
        assert_eq!(without_process(&rows), 0, "all but flushes have a process");
    });
}

/// A row but for what depends on when its programs looked at the clock.
fn identity(row: &Row) -> (u64, u64, String, String, i64, Option<String>) {
    (row.offset, row.size, row.kind.clone(), row.name.clone(), row.pid, row.comm.clone())
}

/// What the kernel filters is what a filter of all events would have left.
#[test]
fn pushing_down_changes_nothing() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let (device, other) = (LoopDevice::new(), LoopDevice::new());
        let plain = Events::start(&options());
        device.load(30);
        let (rows, _) = plain.finish();
        let mut latencies: Vec<_> = of_device(rows, &device).iter().map(|row| row.latency_ns).collect();
        latencies.sort_unstable();
        let median_ns = latencies[latencies.len() / 2];

        let both = vec![device.name.clone(), other.number()];
        let base = PushDown { devices: both.clone(), ..PushDown::default() };
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let own = format!("r{}", std::process::id());
        let slow = PushDown { min_latency_ns: median_ns, ..base.clone() };
        let pushes = [
            PushDown { devices: vec![other.number()], ..PushDown::default() },
            PushDown { kinds: texts(&["read"]), ..base.clone() },
            PushDown { names: texts(&["WS", "R"]), ..base.clone() },
            PushDown { comms: texts(&[&own, "nobody"]), ..base.clone() },
            PushDown { comms: texts(&["dd"]), kinds: texts(&["write", "flush"]), ..base.clone() },
            PushDown { kinds: texts(&["nonsense"]), ..base.clone() },
            PushDown { pids: vec![std::process::id()], ..base.clone() },
            PushDown {
                devices: texts(&["no-such-device", &device.name]),
                kinds: texts(&["read"]),
                ..PushDown::default()
            },
        ];
        let start = |push_down: &PushDown| Events::start(&Options { push_down: push_down.clone(), ..options() });
        let (all, between, last) = (start(&PushDown::default()), start(&slow), start(&base));
        let pushed: Vec<_> = pushes.iter().map(start).collect();
        device.load(30);
        other.load_as(&own, 30);
        let passes = |list: &[String], text: &str| list.is_empty() || list.iter().any(|wanted| wanted == text);
        let (rows, context) = all.finish();
        assert_eq!(lost(&context), 0);
        let rows: Vec<_> =
            rows.into_iter().filter(|row| row.device == device.name || row.device == other.name).collect();
        assert_eq!(rows.len(), 240);
        let identities = |rows: &[Row]| rows.iter().map(identity).collect::<Vec<_>>();
        for (push, pushed) in pushes.iter().zip(pushed) {
            let expected: Vec<_> = rows
                .iter()
                .filter(|row| {
                    (passes(&push.devices, &row.device) || passes(&push.devices, &row.dev))
                        && passes(&push.kinds, &row.kind)
                        && passes(&push.names, &row.name)
                        && passes(&push.comms, row.comm.as_deref().unwrap_or_default())
                        && (push.pids.is_empty() || push.pids.iter().any(|&pid| i64::from(pid) == row.pid))
                })
                .cloned()
                .collect();
            let (got, context) = pushed.finish();
            assert_eq!(lost(&context), 0, "{push:?}");
            // What is not known when the capture starts is left to the caller's filter.
            let got: Vec<_> = got
                .into_iter()
                .filter(|row| passes(&push.devices, &row.device) || passes(&push.devices, &row.dev))
                .collect();
            assert_eq!(identities(&got), identities(&expected), "{push:?}");
            eprintln!("{}: {}", context.properties["kernel_filter"], got.len());
        }
        // Each capture has its own look at the clock; the programs of those in between look in between.
        let (slow, last) = (between.finish().0, last.finish().0);
        assert_eq!(identities(&last), identities(&rows));
        assert!(slow.iter().all(|row| row.latency_ns >= median_ns));
        let slow = identities(&slow);
        for (first, last) in rows.iter().zip(&last) {
            let least_ns = first.issue_ns + first.latency_ns as i64 - last.issue_ns;
            assert!(least_ns < median_ns as i64 || slow.contains(&identity(first)), "{first:?}");
        }
    });
}

/// Without the kernel's stamps ours are taken, at once where the settings say so, else as soon as it is noticed.
#[test]
fn devices_without_stamps_are_measured_too() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        device.set("iostats", "0");
        device.set("wbt_lat_usec", "0");
        let started = std::time::Instant::now();
        let (mut device_time, mut total_time) = (histograms(false), histograms(true));
        let mut events = Events::start(&options());
        device.load(30);
        events.poll();
        let (rows, context) = events.finish();
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        let rows = of_device(rows, &device);
        assert_eq!((rows.len(), lost(&context)), (120, 0));
        for row in &rows {
            assert!(row.latency_ns + row.queue_ns < elapsed_ns, "no stale stamp: {row:?}");
            assert_eq!(row.comm.as_deref(), Some("dd"));
        }
        assert!(context.properties.contains_key("own_stamps"));
        let (device_time, total_time) = (taken(&mut device_time, &device), taken(&mut total_time, &device));
        for (kind, (histogram, bytes)) in &total_time {
            assert_eq!((histogram.totals().count, *bytes), (60, 30 * (4096 + 65536)), "{kind}");
            assert_eq!(device_time[kind].0.totals().count, 60);
            assert!(histogram.totals().sum < u128::from(elapsed_ns) * 60);
        }
    });
}

#[test]
fn stamps_that_go_missing_are_noticed() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        let mut counted = histograms(true);
        device.load(10);
        device.set("iostats", "0");
        device.load(10);
        let sum = |of: &ByKind| of.values().map(|(histogram, _)| histogram.totals().count).sum::<u64>();
        let first = sum(&taken(&mut counted, &device));
        let missed = counted.context().tally.get(Anomaly::OrphanCompletion);
        assert!(first >= 40 && first + missed == 80, "{first} {missed}");
        eprintln!("{missed} were missed (none where another device had no statistics from the start)");
        device.load(10);
        assert_eq!(sum(&taken(&mut counted, &device)), 40);
        assert_eq!(counted.context().tally.get(Anomaly::OrphanCompletion), missed, "none is missed from then on");
    });
}

#[test]
fn nothing_stays_behind_when_devices_come_and_go() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let names: Vec<_> = (0..8).map(|number| format!("7:{number}")).collect();
        let push_down = PushDown { devices: names, ..PushDown::default() };
        let mut events = Events::start(&Options { push_down, ..options() });
        for _ in 0..15 {
            LoopDevice::new().load(3);
            events.poll();
            events.capture().refresh().unwrap();
            assert_eq!(events.capture().context().unfinished, []);
        }
        let (rows, context) = events.finish();
        assert_eq!((lost(&context), context.tally.get(Anomaly::Unfinished)), (0, 0));
        assert!(rows.len() >= 15 * 12);
    });
}

#[test]
fn samples_weigh_what_they_stand_for() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let device = LoopDevice::new();
        let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
        let sample = |slow_ns, one_in| Some(Sample { slow_ns, one_in });
        let start = |sample| Events::start(&Options { sample, push_down: push_down.clone(), ..options() });
        let (all_slow, sampled) = (start(sample(0, 4)), start(sample(u64::MAX, 4)));
        device.load(250);
        let (rows, _) = all_slow.finish();
        assert!(rows.len() == 1000 && rows.iter().all(|row| row.weight.is_none()), "what is slow is kept, and is one");
        let (rows, context) = sampled.finish();
        assert!(rows.iter().all(|row| row.weight == Some(4)));
        // Of a binomial distribution: six standard deviations.
        let (total, deviation) = (4.0 * rows.len() as f64, 4.0 * (1000.0 * 0.25 * 0.75f64).sqrt());
        assert!((total - 1000.0).abs() < 6.0 * deviation, "{total}");
        assert!(context.properties["kernel_filter"].contains("one in 4"));
    });
}

#[test]
fn a_full_ring_is_counted() {
    let Some(_alone) = alone() else { return };
    let device = LoopDevice::new();
    let push_down = PushDown { devices: vec![device.name.clone()], ..PushDown::default() };
    let events = Events::start(&Options { ring_bytes: 4096, push_down, ..options() });
    device.load(30);
    let (rows, context) = events.finish();
    let lost = context.tally.get(Anomaly::LostRecords);
    assert!(lost > 0 && rows.len() as u64 + lost == 120, "{lost} lost, {} kept", rows.len());
}
