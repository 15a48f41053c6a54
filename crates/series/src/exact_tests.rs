//! Exact percentiles against a sort of all events of an interval.

use super::*;
use crate::{CountBy, Interval, SeriesBuilder, Weight};
use proptest::prelude::*;

fn batch_of(events: &[(i64, u64, u8)]) -> Batch {
    let mut batch = Batch::new([Field::Comm].into_iter().collect());
    for &(start, latency, comm) in events {
        batch.push_i64(Field::Time, start);
        batch.push_u64(Field::Latency, latency);
        batch.push_text(Field::Comm, Some(&[b'a' + comm]));
        batch.end_row();
    }
    batch
}

/// All events of an interval, sorted; positions as the definition of the weighted percentile has them.
fn brute_force(events: &[(i64, u64, u8)], (from, end): (i64, i64), share: bool, quantile: f64) -> Option<f64> {
    let mut samples: Vec<(u64, f64)> = Vec::new();
    for &(start, latency, _) in events {
        let done = start + latency as i64;
        let weight = if share && latency > 0 {
            (done.min(end) - start.max(from)).max(0) as f64 / latency as f64
        } else {
            f64::from(u8::from((from..end).contains(&done)))
        };
        if weight > 0.0 {
            samples.push((latency, weight));
        }
    }
    samples.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let total: f64 = samples.iter().map(|&(_, weight)| weight).sum();
    let mut sum = 0.0;
    let mut points = Vec::new();
    for &(value, weight) in &samples {
        points.push(((sum + weight / 2.0) / total, value as f64));
        sum += weight;
    }
    let (first, last) = (*points.first()?, *points.last()?);
    if quantile <= first.0 || quantile >= last.0 {
        return Some(if quantile <= first.0 { first.1 } else { last.1 });
    }
    let pair = points.windows(2).find(|pair| pair[0].0 <= quantile && quantile <= pair[1].0)?;
    let part = (quantile - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + (pair[1].1 - pair[0].1) * part)
}

/// What events of a value up to this, and below it, weigh.
fn weights(events: &[(i64, u64, u8)], (from, end): (i64, i64), share: bool, value: f64) -> (f64, f64, f64) {
    let weight = |&(start, latency, _): &(i64, u64, u8)| {
        let done = start + latency as i64;
        match share && latency > 0 {
            true => (done.min(end) - start.max(from)).max(0) as f64 / latency as f64,
            false => f64::from(u8::from((from..end).contains(&done))),
        }
    };
    let sum =
        |is_in: &dyn Fn(f64) -> bool| -> f64 { events.iter().filter(|event| is_in(event.1 as f64)).map(weight).sum() };
    (sum(&|latency| latency < value), sum(&|latency| latency <= value), sum(&|_| true))
}

proptest! {
    #[test]
    fn a_nearest_rank_exceeds_a_limit_if_more_than_the_rest_does(
        events in proptest::collection::vec((0i64..3000, 0u64..2000, 0u8..3), 1..150), width in 50u64..900,
        quantile in 0.0f64..=1.0, share: bool,
    ) {
        let build = || SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(width));
        let mut builder = if share { build().count_by(CountBy::Overlap) } else { build() };
        builder.add(&batch_of(&events), None);
        let series = builder.finish();
        let mut exact = ExactBuilder::new(&series, &[quantile], true).nearest_rank();
        exact.add(&batch_of(&events), None);
        let exact = exact.finish();
        for &interval in series.slices().keys() {
            let from = series.start_ns(interval);
            let Some(found) = exact.quantile(interval, None, quantile) else { continue };
            let (below, up_to, all) = weights(&events, (from, from + width as i64), share, found);
            // A share is exact to 6e-8 where the bucket is looked for.
            prop_assert!(up_to >= quantile * all - 1e-4, "{found}: {up_to} of {all}");
            prop_assert!(below <= quantile * all + 1e-4, "{found}: {below} of {all}");
        }
    }

    #[test]
    fn equals_a_sort_of_all_events(
        events in proptest::collection::vec((0i64..3000, 0u64..2000, 0u8..3), 1..150), width in 50u64..900,
        quantiles in proptest::collection::vec(0.0f64..=1.0, 1..5), share: bool, merged in proptest::option::of(1u32..50),
        chunk in 1usize..60,
    ) {
        let build = || SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Comm], Interval::Fixed(width));
        let mut builder = if share { build().count_by(CountBy::Overlap) } else { build() };
        builder.add(&batch_of(&events), None);
        let mut series = builder.finish();
        if let Some(enough) = merged {
            series = series.merged_until(f64::from(enough));
        }
        let mut exact = ExactBuilder::new(&series, &quantiles, true);
        for part in events.rchunks(chunk) {
            exact.start_trace(None);
            exact.add(&batch_of(part), None);
        }
        let exact = exact.finish();
        for (&interval, slice) in series.slices() {
            let from = series.start_ns(interval);
            let span = (from, from + series.width_of(interval) as i64);
            let groups = slice.groups.iter().map(|&(group, _)| Some(group));
            for group in groups.chain([None]) {
                let label = group.map(|group| series.groups()[group as usize][0].as_bytes()[0]);
                let of_group: Vec<_> =
                    events.iter().copied().filter(|event| label.is_none_or(|label| b'a' + event.2 == label)).collect();
                let found = exact.at(interval, group).unwrap();
                for (&quantile, &found) in quantiles.iter().zip(found) {
                    let truth = brute_force(&of_group, span, share, quantile).unwrap();
                    // A share is exact to 6e-8 where the bucket is looked for, so at an edge of it a hair is possible.
                    prop_assert!((found - truth).abs() <= 1e-3, "{} of {:?} in {:?}: {}, not {}", quantile, label, span, found, truth);
                }
            }
        }
    }
}
