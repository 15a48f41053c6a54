//! A queue that is nearly full, against sums of the values themselves.

use super::*;
use crate::reduce::merge;
use crate::{Data, Found, Id, IntervalRow, Parts, Ranges, Records};
use latscope_histogram::{Grid, Histogram, Sparse};
use std::collections::BTreeMap;

const WIDTH_NS: u64 = 1_000_000_000;
const GROUPS: u32 = 3;

fn hello() -> Hello {
    let (host, source, filter, fields) = ("n1".into(), "test".into(), String::new(), vec!["device".into()]);
    Hello { run: Id([5; 16]), host, source, filter, width_ns: WIDTH_NS, fields, is_wall: true }
}

/// Latencies of a group in an interval.
fn values(interval: i64, group: u32, count: u64) -> impl Iterator<Item = u64> {
    let mut state = (interval as u64) << 8 | u64::from(group) << 1 | 1;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Of all octaves up to a second.
        (state >> 34) >> (state >> 20 & 15)
    })
}

fn histogram(values: impl Iterator<Item = u64>) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.for_each(|value| histogram.record(value, 0));
    histogram.to_sparse()
}

fn record(interval: i64, count: u64) -> Record {
    let parts = |group| Parts { done: Some(histogram(values(interval, group, count))), waiting: None };
    let groups = (0..GROUPS).map(|group| (group, parts(group))).collect();
    let row = IntervalRow { covered_ns: WIDTH_NS, groups, ..IntervalRow::default() };
    let sequences = interval as u64..=interval as u64;
    let head = Head { run: Id([5; 16]), sequences, start: interval, width_ns: WIDTH_NS, intervals: 1 };
    Data { head, rows: vec![row] }.record()
}

/// By minute and group.
type Minutes = BTreeMap<(i64, u32), Sparse>;

/// All that a hub is sent that stores everything; and how many records that were.
fn sent(queue: &Queue) -> (Minutes, Ranges, usize) {
    queue.end(Instant::now() + Duration::from_secs(60));
    queue.connected(0);
    let (mut sums, mut ranges, mut count) = (BTreeMap::<_, Option<Sparse>>::new(), Ranges::default(), 0);
    while let Some((_, record)) = queue.next(0, Duration::ZERO) {
        let data = Data::parse(&record).unwrap();
        assert!(!ranges.has_any(&data.head.sequences), "nothing is sent twice");
        ranges.add(data.head.sequences.clone());
        for (interval, row) in (data.head.start..).zip(data.rows) {
            assert_eq!(row.covered_ns, WIDTH_NS);
            for (group, parts) in row.groups {
                merge(sums.entry((interval.div_euclid(60), group)).or_default(), parts.done);
            }
        }
        count += 1;
        queue.stored(0, &Stored { run: Id([5; 16]), ranges: [data.head.sequences].into_iter().collect() });
    }
    assert_eq!(queue.backlog(0), 0);
    (sums.into_iter().filter_map(|(key, sum)| Some((key, sum?))).collect(), ranges, count)
}

fn truth(intervals: i64, count: u64) -> Minutes {
    let minutes = (0..=(intervals - 1) / 60).flat_map(|minute| (0..GROUPS).map(move |group| (minute, group)));
    let all = |minute: i64, group| {
        (minute * 60..intervals.min(minute * 60 + 60)).flat_map(move |at| values(at, group, count))
    };
    minutes.map(|(minute, group)| ((minute, group), histogram(all(minute, group)))).collect()
}

#[test]
fn a_folder_that_is_nearly_full_merges_before_it_drops() {
    let folder = tempfile::tempdir().unwrap();
    let limits = QueueLimits { bytes: 160 << 10, backfill: 1 << 20 };
    let (queue, _) = Queue::open(Some(folder.path()), limits, 1, &hello()).unwrap();
    let (intervals, mut unmerged) = (3000, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| queue.write());
        for interval in 0..intervals {
            let record = record(interval, 8);
            unmerged += record.bytes().len() as u64;
            queue.push(vec![record]);
        }
        while !queue.state().unwritten.is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Nothing is left to do before the thread ends.
        queue.bound();
        let (sums, ranges, count) = sent(&queue);
        assert!(unmerged > 2 * limits.bytes && count < intervals as usize / 3, "{unmerged} bytes, {count} records");
        assert_eq!(queue.take_dropped(), 0);
        assert!(ranges.iter().eq([0..=intervals as u64 - 1]));
        assert!(sums == truth(intervals, 8));
    });
}

/// What is written again is whole after a restart, and what does not fit is dropped and counted.
#[test]
fn the_oldest_are_dropped_where_merging_is_not_enough() {
    let folder = tempfile::tempdir().unwrap();
    let limits = QueueLimits { bytes: 48 << 10, backfill: 1 << 20 };
    let intervals = 3000;
    let (queue, _) = Queue::open(Some(folder.path()), limits, 1, &hello()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| queue.write());
        (0..intervals).for_each(|interval| queue.push(vec![record(interval, 8)]));
        queue.end(Instant::now());
    });
    queue.bound();
    let files = || std::fs::read_dir(folder.path()).unwrap().flatten();
    let bytes: u64 = files().map(|file| file.metadata().unwrap().len()).sum();
    // The last segment is not cut.
    assert!(bytes <= limits.bytes + LEAST_BYTES + 4096, "{bytes}");
    let dropped = queue.take_dropped();
    assert!(Queue::open(Some(folder.path()), limits, 1, &hello()).is_err(), "an agent has it");
    drop(queue);
    let (again, _) = Queue::open(Some(folder.path()), limits, 1, &hello()).unwrap();
    let (sums, ranges, _) = sent(&again);
    let left: u64 = ranges.iter().map(|range| range.end() - range.start() + 1).sum();
    assert!(dropped > 0 && dropped + left == intervals as u64, "{dropped} dropped, {left} left");
    let whole = truth(intervals, 8);
    let (first, _) = sums.keys().next().copied().unwrap();
    assert!(sums.iter().filter(|((minute, _), _)| *minute > first).all(|(key, sum)| whole.get(key) == Some(sum)));
    // Each file can be read alone.
    for file in files() {
        let bytes = std::fs::read(file.path()).unwrap();
        let mut records = Records::of_file(&bytes[crate::PREFACE.len()..]);
        assert!(
            matches!(records.next().unwrap(), Some(Found::Record(record)) if record.kind() == Ok(crate::Kind::Hello))
        );
    }
}

#[test]
fn memory_that_is_nearly_full_merges_before_it_drops() {
    let (queue, _) = Queue::open(None, QueueLimits { bytes: 0, backfill: 1 << 20 }, 1, &hello()).unwrap();
    let (intervals, mut unmerged) = (4500, 0);
    for interval in 0..intervals {
        let record = record(interval, 1200);
        unmerged += record.bytes().len();
        queue.push(vec![record]);
    }
    assert!(unmerged > 5 << 20, "{unmerged}");
    let (sums, ranges, count) = sent(&queue);
    assert!(ranges.iter().eq([0..=intervals as u64 - 1]) && count < intervals as usize, "{count} records");
    assert!(queue.take_dropped() == 0 && sums == truth(intervals, 1200));
}

/// After an outage the latest interval is first, then what is older, no faster than allowed, and what is new in between.
#[test]
fn live_intervals_do_not_wait_for_older_ones() {
    let (queue, _) = Queue::open(None, QueueLimits { bytes: 0, backfill: 4000 }, 1, &hello()).unwrap();
    queue.push((0..500).map(|interval| record(interval, 8)).collect());
    queue.connected(0);
    let start = |record: &Record| Head::parse(record).unwrap().0.start;
    let next = |wait| {
        let (_, record) = queue.next(0, wait)?;
        let (head, _) = Head::parse(&record).unwrap();
        queue.stored(0, &Stored { run: head.run, ranges: [head.sequences].into_iter().collect() });
        Some(record)
    };
    assert_eq!(start(&next(Duration::ZERO).unwrap()), 499);
    let older: Vec<_> = std::iter::from_fn(|| next(Duration::ZERO)).collect();
    assert!(older.iter().map(|record| start(record)).eq(0..older.len() as i64));
    let bytes: usize = older.iter().map(|record| record.bytes().len()).sum();
    assert!((4000..6000).contains(&bytes), "{bytes}");
    queue.push(vec![record(500, 8)]);
    assert_eq!(start(&next(Duration::ZERO).unwrap()), 500);
    assert_eq!(queue.backlog(0), 499 - older.len());
}
