use crate::{CountBy, HistogramSeries, Interval, Quantity, SeriesBuilder, Waiter, Weight};
use latscope_event::{Batch, Field, FieldSet};
use latscope_histogram::{Grid, Histogram, Sparse};
use proptest::prelude::*;

const END_NS: i64 = 10_000;

/// A request: device, start, how long it takes.
type Request = (u8, i64, i64);

fn requests() -> impl Strategy<Value = Vec<Request>> {
    proptest::collection::vec((0u8..3, 0i64..9_000, 1i64..20_000), 0..40)
}

/// Those that end after all was looked at wait.
fn series(requests: &[Request], width_ns: u64, count_by: CountBy) -> HistogramSeries {
    let (mut batch, mut waiters) = (Batch::new(FieldSet::ALWAYS.with(&[Field::Device])), Vec::new());
    for &(device, from_ns, took_ns) in requests {
        let device = format!("d{device}");
        if from_ns + took_ns > END_NS {
            waiters.push(Waiter {
                group: vec![device],
                start_ns: from_ns,
                age_ns: END_NS.abs_diff(from_ns),
                is_bound: false,
            });
            continue;
        }
        batch.push_i64(Field::Time, from_ns);
        batch.push_u64(Field::Latency, took_ns as u64);
        batch.push_text(Field::Device, Some(device.as_bytes()));
        batch.end_row();
    }
    let width = Interval::Fixed(width_ns);
    let mut builder =
        SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Device], width).count_by(count_by);
    builder.add(&batch, None);
    let mut series = builder.finish();
    series.add_waiting(&waiters, None);
    series
}

/// Ages, bounds and counts, in order.
type Held = Vec<(u64, u64, u64)>;

/// What waits by interval and label.
fn waits(series: &HistogramSeries) -> Vec<(i64, String, Held)> {
    let mut all = Vec::new();
    let (first, last) = series.range().unwrap_or((0, -1));
    for interval in first..=last {
        for (number, label) in series.groups().iter().enumerate() {
            all.push((interval, label.concat(), sorted(&series.waiting(interval, Some(number as u32)))));
        }
    }
    all.retain(|(_, _, held)| !held.is_empty());
    all.sort();
    all
}

fn sorted(waiting: &crate::Waiting) -> Held {
    let mut held: Vec<_> = waiting.held().iter().map(|held| (held.age_ns, held.bound_ns, held.count)).collect();
    held.sort_unstable();
    held
}

fn still(series: &HistogramSeries) -> Held {
    sorted(&series.still_waiting(None))
}

/// Every interval, group and bucket, empty histograms too.
fn known(series: &HistogramSeries) -> Vec<(i64, String, u64)> {
    let rows = series.slices().iter().flat_map(|(&interval, slice)| {
        slice
            .groups
            .iter()
            .map(move |(group, sparse)| (interval, series.groups()[*group as usize].concat(), sparse.totals().count))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

proptest! {
    /// Two parts of a trace, each with what hangs in it, are together what both are when they are read at once.
    #[test]
    fn parts_together_wait_as_the_whole(a in requests(), b in requests(), by_share: bool) {
        let count_by = if by_share { CountBy::Overlap } else { CountBy::Completion };
        let whole = series(&[a.clone(), b.clone()].concat(), 1_000, count_by);
        let mut sum = series(&a, 1_000, count_by);
        sum.merge(&series(&b, 1_000, count_by)).unwrap();
        prop_assert_eq!(waits(&sum), waits(&whole));
        prop_assert_eq!(still(&sum), still(&whole));
        // A part without events shows what hangs in it where it was last seen; the whole may not, if all its events are later.
        let of_whole = known(&whole);
        prop_assert!(of_whole.iter().all(|row| known(&sum).contains(row)));
    }

    /// Wider intervals have what waits at their ends.
    #[test]
    fn wider_intervals_wait_at_their_ends(a in requests(), factor in 2u64..5, by_share: bool) {
        let count_by = if by_share { CountBy::Overlap } else { CountBy::Completion };
        let wide = series(&a, 1_000, count_by).rebinned(1_000 * factor).unwrap();
        prop_assert_eq!(waits(&wide), waits(&series(&a, 1_000 * factor, count_by)));
        prop_assert_eq!(still(&wide), still(&series(&a, 1_000, count_by)));
    }

    /// What was seen at the end of each interval alone gives the same as what is known throughout.
    #[test]
    fn what_was_seen_by_interval_widens_too(starts in proptest::collection::vec(0i64..9_000, 1..20), factor in 2i64..5) {
        let waiters: Vec<Waiter> =
            starts.iter().map(|&start_ns| Waiter { group: Vec::new(), start_ns, age_ns: (END_NS - 1 - start_ns) as u64, is_bound: false }).collect();
        let mut seen = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1_000);
        seen.pass(0..10);
        let mut throughout = seen.clone();
        seen.add_waiting(&waiters, Some(0..10));
        throughout.add_waiting(&waiters, None);
        let width_ns = 1_000 * factor as u64;
        prop_assert_eq!(waits(&seen.rebinned(width_ns).unwrap()), waits(&throughout.rebinned(width_ns).unwrap()));
    }

    /// Without groups, all waits in the one that is left.
    #[test]
    fn ungrouped_series_keep_what_waits(a in requests()) {
        let grouped = series(&a, 1_000, CountBy::Completion);
        let one = grouped.ungrouped();
        for &interval in grouped.slices().keys() {
            prop_assert_eq!(sorted(&one.waiting(interval, Some(0))), sorted(&grouped.waiting(interval, None)));
        }
        prop_assert_eq!(sorted(&one.still_waiting(Some(0))), still(&grouped));
    }
}

fn ages(of: &[u64]) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    of.iter().for_each(|&age_ns| histogram.record_many(age_ns, 1, 0));
    histogram.to_sparse()
}

#[test]
fn ages_of_one_hide_no_request_of_the_other() {
    let empty = || HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1_000);
    let (mut stored, mut read) = (empty(), empty());
    stored.pass(0..4);
    stored.add_ages(2_000, &[], &ages(&[64]));
    read.pass(0..4);
    read.add_waiting(&[Waiter { group: Vec::new(), start_ns: 500, age_ns: 3_000, is_bound: false }], None);
    for (first, second) in [(&stored, &read), (&read, &stored)] {
        let mut both = first.clone();
        both.merge(second).unwrap();
        assert_eq!(both.waiting(0, None).count(), 1);
        assert_eq!(both.waiting(1, None).count(), 2, "one whose age alone is known, and one that is known");
        assert_eq!(both.waiting(1, None).oldest_ns(), Some(1_500));
        assert_eq!(both.waiting(2, None).count(), 1);
        both.merge(&stored).unwrap();
        assert_eq!(both.waiting(1, None).count(), 3);
    }
    let wide = stored.rebinned(2_000).unwrap();
    assert_eq!((wide.waiting(0, None).count(), wide.waiting(1, None).count()), (1, 0));
}

#[test]
fn what_waits_is_counted_in_parts_beside_what_is() {
    let requests = [(0, 0, 100), (0, 500, 99_999)];
    let mut parts = series(&requests[..1], 1_000, CountBy::Completion);
    parts.count_by = CountBy::CompletionInParts;
    let mut sum = series(&requests, 1_000, CountBy::Completion);
    sum.merge(&parts).unwrap();
    assert_eq!(sum.still_waiting(None).weight(), sum.per_event());
    assert!(sum.slices().keys().all(|&interval| sum.waiting(interval, None).weight() == sum.per_event()));
}
