//! Live block requests on a real loop device, held against the kernel's own accounts.

#[path = "block/device.rs"]
mod device;
#[path = "block/events.rs"]
mod events;

use device::{LoopDevice, skipped};
use events::{Events, Row, options};
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
            assert!(of_device.insert(kind, (counted.histogram, counted.bytes)).is_none(), "a key is told once");
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

/// Programs at one tracepoint run in the order in which they were attached, each with its own look at the clock: the
/// events' latencies lie between those of a histogram that was attached before and one that was attached after.
#[test]
fn events_and_histograms_agree() {
    if skipped() {
        return;
    }
    let device = LoopDevice::new();
    let (mut before, mut events, mut after) = (histograms(false), Events::start(&options()), histograms(false));
    let stat = device.stat();
    device.load(150);
    events.poll();
    let (rows, context) = events.finish();
    let (lower, upper) = (taken(&mut before, &device), taken(&mut after, &device));
    assert_eq!((lost(&context), lost(before.context()), lost(after.context())), (0, 0, 0));
    let rows = of_device(rows, &device);
    assert_eq!(lower.keys().collect::<Vec<_>>(), ["read", "write"]);
    let mut wider = 0;
    for (kind, (low, bytes)) in &lower {
        let (high, high_bytes) = &upper[kind];
        let of_kind = || rows.iter().filter(|row| row.kind == *kind);
        let grid = low.grid();
        assert_eq!(grid, Grid::FINE);
        let mut indices: Vec<_> = of_kind().map(|row| grid.index(row.latency_ns)).collect();
        indices.sort_unstable();
        let (low_spread, high_spread) = (spread(low), spread(high));
        assert_eq!((indices.len(), indices.len()), (low_spread.len(), high_spread.len()), "{kind}");
        for ((low, index), high) in low_spread.iter().zip(&indices).zip(&high_spread) {
            assert!(low <= index && index <= high, "{kind}: {low} {index} {high}");
            wider += usize::from(low != high);
        }
        let sum: u128 = of_kind().map(|row| u128::from(row.latency_ns)).sum();
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
    assert!(taken(&mut after, &device).is_empty(), "what was taken is not told again");
}
