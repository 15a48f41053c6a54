//! Shares of stretches against a sum over single completions, and against numbers worked out elsewhere.

use super::*;
use crate::{CountBy, HistogramSeries, Interval, Quantity, SHARES, Weight};
use latscope_histogram::{Grid, Histogram, Rule, Totals};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: i64 = 1_000_000;

/// So many events of one value, in units of shares.
fn sparse_of(values: &[(u64, u64)]) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.iter().for_each(|&(value, count)| histogram.record_many(value, count * SHARES, 0));
    let (totals, grid) = (*histogram.totals(), Grid::FINE);
    // As of a log, of which no more is known than the bins.
    let edge = |value: u64| grid.index(value);
    let totals = Totals { min: grid.lower(edge(totals.min)), max: grid.upper(edge(totals.max)), ..totals };
    let sparse = histogram.to_sparse();
    Sparse::from_parts(grid, sparse.indices().into(), sparse.counts().into(), None, totals).unwrap()
}

fn builder(width_ms: i64) -> SeriesBuilder {
    let interval = Interval::Fixed((width_ms * MS) as u64);
    SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), interval).count_by(CountBy::Overlap)
}

fn counts(series: &HistogramSeries) -> BTreeMap<i64, f64> {
    let count = |interval| series.at(interval, None).totals().count as f64 / SHARES as f64;
    series.slices().keys().map(|&interval| (interval, count(interval))).collect()
}

fn assert_counts(series: &HistogramSeries, expected: &[(i64, f64)]) {
    let counts = counts(series);
    assert_eq!(counts.len(), expected.len(), "{counts:?}");
    for (&(interval, expected), (at, count)) in expected.iter().zip(counts) {
        assert!(interval == at && (count - expected).abs() <= 1e-6 * expected, "{at}: {count}, not {expected}");
    }
}

/// One I/O of 150 ms in a row from 100 to 200 ms. As the middle of its bin is 149.946368 ms, 1 - 50/149.946368 of it lies,
/// on the average, before 100 ms. (The text that first reported of weights has 0.5 for (150 - 100)/150, which is a slip.)
#[test]
fn one_long_event_in_a_row() {
    let mut builder = builder(100);
    builder.starts_at(Some(0));
    let histogram = sparse_of(&[(150_000_000, 1)]);
    builder.add_stretch(&Stretch {
        from_ns: 100 * MS,
        to_ns: 200 * MS,
        usual_ns: None,
        group: &[],
        histogram: &histogram,
    });
    let late = 50.0 / 149.946_368;
    assert_counts(&builder.finish(), &[(0, 1.0 - late), (1, late)]);
}

/// Several rows of one moment: each event simply lasted until then.
#[test]
fn a_row_without_a_width_is_a_completion() {
    let mut builder = builder(100);
    let histogram = sparse_of(&[(100, 3), (149_946_368, 5)]);
    builder.add_stretch(&Stretch {
        from_ns: 200 * MS,
        to_ns: 200 * MS,
        usual_ns: None,
        group: &[],
        histogram: &histogram,
    });
    let early = 49.946_368 / 149.946_368;
    assert_counts(&builder.finish(), &[(0, 5.0 * early), (1, 3.0 + 5.0 * (1.0 - early))]);
}

/// Two hosts whose rows drift apart, ten I/Os in each row, of 1 ms on one and of 150 ms on the other.
#[test]
fn two_hosts_that_drift() {
    let (a, b) = (sparse_of(&[(1_000_000, 10)]), sparse_of(&[(150_000_000, 10)]));
    let rows = |ends: [i64; 4]| {
        let starts = [ends[0] - 101, ends[0], ends[1], ends[2]].map(|ms: i64| ms.max(0) * MS);
        starts.into_iter().zip(ends.map(|ms| ms * MS))
    };
    // The middles of the rows. (The text that first reported of them has 55.5 for the first, which is a slip.)
    let middles = |ends| rows(ends).map(|(from, to)| (from + to) / 2).collect::<Vec<_>>();
    assert_eq!(middles([101, 204, 308, 455]), [50_500_000, 152_500_000, 256_000_000, 381_500_000]);
    assert_eq!(middles([100, 200, 301, 402]), [50_000_000, 150_000_000, 250_500_000, 351_500_000]);
    let mut builder = builder(100);
    builder.starts_at(Some(0));
    for (ends, histogram) in [([101, 204, 308, 455], &a), ([100, 200, 301, 402], &b)] {
        for (from_ns, to_ns) in rows(ends) {
            builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns: None, group: &[], histogram });
        }
    }
    let series = builder.finish();
    let expected = [27.439752, 19.643701, 18.760671, 10.447192, 3.708684];
    assert_counts(&series, &(0..).zip(expected).collect::<Vec<_>>());
    let total: u64 = (0..5).map(|interval| series.at(interval, None).totals().count).sum();
    assert_eq!(total, 80 * SHARES);
    let medians = (0..5).map(|interval| series.at(interval, None).quantiles(&[0.5], Rule::Interpolated).unwrap()[0]);
    for (median, expected) in medians.zip([149_349_765u64, 148_921_469, 1_007_413, 1_005_525, 1_003_522]) {
        assert!(median.abs_diff(expected) <= 2, "{median}, not {expected}");
    }
}

#[test]
fn what_would_start_before_the_trace_counts_in_its_first_interval() {
    let histogram = sparse_of(&[(150_000_000, 4), (1000, 3)]);
    let mut builder = builder(100);
    builder.starts_at(Some(0));
    builder.add_stretch(&Stretch { from_ns: 0, to_ns: 90 * MS, usual_ns: None, group: &[], histogram: &histogram });
    assert_counts(&builder.finish(), &[(0, 7.0)]);
}

/// The row of a stall: its slowest I/O is what ended it, the others completed before the next row was due.
#[test]
fn a_row_of_a_stall() {
    let builder_of_seconds = || builder(1000);
    let mut builder = builder_of_seconds();
    let histogram = sparse_of(&[(1_000_000, 6), (3_500_000_000, 1)]);
    let (from_ns, to_ns) = (900 * MS, 4500 * MS);
    builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns: Some(100_000_000), group: &[], histogram: &histogram });
    let took = Grid::FINE.lower(Grid::FINE.index(3_500_000_000)) as f64 / 1e9 + (1u64 << 24) as f64 / 1e9;
    let series = builder.finish();
    assert_counts(
        &series,
        &[(0, 6.0 + (took - 3.5) / took), (1, 1.0 / took), (2, 1.0 / took), (3, 1.0 / took), (4, 0.5 / took)],
    );
    // An ordinary row is spread evenly, however it is called.
    let build = |usual_ns| {
        let mut builder = builder_of_seconds();
        builder.add_stretch(&Stretch { from_ns, to_ns: 1040 * MS, usual_ns, group: &[], histogram: &histogram });
        builder.finish()
    };
    assert_eq!(build(Some(100_000_000)), build(None));
}

/// Rows of 250 ms in intervals of 200 ms, counted where events completed: every interval has its part of them, where their
/// middles would give it one row or two. Whole numbers, and none is lost.
#[test]
fn whole_events_are_dealt_to_the_intervals_of_a_row() {
    let build = |usual_ns, width_ms: i64| {
        let interval = Interval::Fixed((width_ms * MS) as u64);
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), interval);
        for row in 0..40 {
            let mut histogram = Histogram::new(Grid::FINE, false);
            (0..40).for_each(|at| histogram.record_many(1000 + 40 * at, 1 + at % 3, 0));
            let (from_ns, to_ns) = (row * 250 * MS, (row + 1) * 250 * MS);
            builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns, group: &[], histogram: &histogram.to_sparse() });
        }
        builder.finish()
    };
    let of_row = (0..40).map(|at| 1 + at % 3).sum::<u64>();
    let dealt = build(Some(250_000_000), 200);
    let counts: Vec<u64> = dealt.slices().keys().map(|&interval| dealt.at(interval, None).totals().count).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (50, 40 * of_row));
    let truth = of_row as f64 * 200.0 / 250.0;
    assert!(counts.iter().all(|&count| (count as f64 / truth - 1.0).abs() < 0.1), "{truth}: {counts:?}");
    assert!(dealt.total(None).buckets().eq(build(None, 200).total(None).buckets()), "each in its bucket");
    // Rows that lie in an interval stay whole.
    let whole = build(Some(250_000_000), 500);
    assert!(whole.slices().keys().all(|&interval| whole.at(interval, None).totals().count == 2 * of_row));
    // Of a stall, the slowest ended the row, and the others completed while they could.
    let mut builder =
        SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(MS as u64 * 1000));
    let mut histogram = Histogram::new(Grid::FINE, false);
    [(1_000_000, 6), (3_500_000_000, 1)].into_iter().for_each(|(value, count)| histogram.record_many(value, count, 0));
    let (usual_ns, histogram) = (Some(100_000_000), &histogram.to_sparse());
    builder.add_stretch(&Stretch { from_ns: 850 * MS, to_ns: 4500 * MS, usual_ns, group: &[], histogram });
    let series = builder.finish();
    let counts: Vec<_> = series.slices().keys().map(|&at| (at, series.at(at, None).totals().count)).collect();
    assert_eq!(counts, [(0, 6), (4, 1)]);
    let mut builder =
        SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(MS as u64 * 1000));
    let mut one = Histogram::new(Grid::FINE, false);
    one.record(3_500_000_000, 0);
    let histogram = &one.to_sparse();
    builder.add_stretch(&Stretch { from_ns: 850 * MS, to_ns: 4500 * MS, usual_ns, group: &[], histogram });
    assert_eq!(builder.finish().slices().keys().collect::<Vec<_>>(), [&4], "no interval without an event");
}

#[test]
fn coarser_rows_fold_the_series() {
    let coarse = sparse_of(&[(1_000_000, 2)]).folded(Grid::with_power(3).unwrap());
    let fine = sparse_of(&[(1_000_000, 5), (7_000_000, 1)]);
    for order in [[&coarse, &fine], [&fine, &coarse]] {
        let mut builder = builder(100);
        for histogram in order {
            builder.add_stretch(&Stretch { from_ns: 10 * MS, to_ns: 20 * MS, usual_ns: None, group: &[], histogram });
            builder.add_stretch(&Stretch { from_ns: 95 * MS, to_ns: 105 * MS, usual_ns: None, group: &[], histogram });
        }
        let series = builder.finish();
        assert_eq!(series.grid().power(), 3);
        assert_eq!(series.total(None).totals().count, 16 * SHARES);
    }
}

#[test]
fn hostile_times_are_cut() {
    let histogram = sparse_of(&[(u64::MAX, 1), (5, 1)]);
    for (from_ns, to_ns) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MAX), (5, -5), (i64::MIN, i64::MIN)] {
        let mut builder = builder(3_600_000_000);
        builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns: None, group: &[], histogram: &histogram });
        assert_eq!(builder.finish().total(None).totals().count, 2 * SHARES);
        let interval = Interval::Fixed(3_600_000_000_000_000);
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), interval);
        let usual_ns = Some(u64::MAX);
        builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns, group: &[], histogram: &histogram });
        assert_eq!(builder.finish().total(None).totals().count, 2 * SHARES);
    }
}

/// By definition: many completions, each spread over the time that it took.
fn brute_force(from: f64, to: f64, value: f64, width: f64, earliest: f64) -> BTreeMap<i64, f64> {
    const COMPLETIONS: u32 = 4000;
    let mut shares = BTreeMap::<i64, f64>::new();
    for at in 0..COMPLETIONS {
        let end = from + (to - from) * (f64::from(at) + 0.5) / f64::from(COMPLETIONS);
        let mut interval = ((end - value) / width).floor() as i64;
        while (interval as f64) * width < end {
            let (lo, hi) = (interval as f64 * width, (interval + 1) as f64 * width);
            let part = (end.min(hi) - (end - value).max(lo)) / value;
            *shares.entry(interval.max((earliest / width).floor() as i64)).or_default() +=
                part / f64::from(COMPLETIONS);
            interval += 1;
        }
    }
    shares
}

proptest! {
    #[test]
    fn equals_a_sum_over_completions(
        from in 0i64..500, length in 0i64..300, width in 20i64..300, earliest in proptest::option::of(0i64..500),
        values in proptest::collection::vec(((16u32..30, any::<u64>()), 1u64..1000), 1..5),
    ) {
        let values: Vec<_> =
            values.into_iter().map(|((bits, extra), count)| ((1 << bits) + extra % (1 << bits), count)).collect();
        let count = values.iter().map(|&(_, count)| count).sum::<u64>();
        let histogram = sparse_of(&values);
        let earliest = earliest.map(|earliest| earliest.min(from));
        let mut builder = builder(width);
        builder.starts_at(earliest.map(|earliest| earliest * MS));
        builder.add_stretch(&Stretch { from_ns: from * MS, to_ns: (from + length) * MS, usual_ns: None, group: &[], histogram: &histogram });
        let series = builder.finish();
        prop_assert_eq!(series.total(None).totals().count, count * SHARES, "nothing is lost to rounding");
        let mut truth = BTreeMap::<i64, f64>::new();
        for &(value, count) in &values {
            let index = Grid::FINE.index(value);
            let (lower, upper) = (Grid::FINE.lower(index), Grid::FINE.upper(index));
            let centre = lower as f64 + (upper + 1 - lower) as f64 / 2.0;
            let shares = brute_force(
                from as f64, (from + length) as f64, centre / 1e6, width as f64,
                earliest.map_or(f64::MIN, |earliest| earliest as f64),
            );
            shares.into_iter().for_each(|(interval, share)| *truth.entry(interval).or_default() += share * count as f64);
        }
        let counts = counts(&series);
        for interval in counts.keys().chain(truth.keys()) {
            let (count_of, truth) = (counts.get(interval).copied().unwrap_or(0.0), truth.get(interval).copied().unwrap_or(0.0));
            prop_assert!((count_of - truth).abs() < 2e-3 * count as f64, "{}: {}, not {}", interval, count_of, truth);
        }
    }

    #[test]
    fn rows_in_any_order_add_up_to_the_same(
        rows in proptest::collection::vec((0i64..2000, 0i64..200, 10u32..30, 1u64..50), 1..30), turn in 0usize..30,
    ) {
        let build = |rows: &[(i64, i64, u32, u64)]| {
            let mut builder = builder(100);
            for &(from, length, bits, count) in rows {
                let histogram = sparse_of(&[(1 << bits, count), (3 << bits, 1)]);
                let (from_ns, to_ns) = (from * MS, (from + length) * MS);
                builder.add_stretch(&Stretch { from_ns, to_ns, usual_ns: None, group: &[], histogram: &histogram });
            }
            builder.finish()
        };
        let turned = [&rows[turn % rows.len()..], &rows[..turn % rows.len()]].concat();
        prop_assert_eq!(build(&rows), build(&turned));
    }
}
