use super::*;
use crate::{Interval, Quantity, SeriesBuilder};
use latscope_event::FieldSet;
use proptest::prelude::*;

const WIDTH: i64 = 1_000;

/// Requests by start and end; those that end after `end_ns` wait then.
fn series(requests: &[(i64, i64)], end_ns: i64, count_by: CountBy) -> HistogramSeries {
    let (mut batch, mut waiters) = (Batch::new(FieldSet::ALWAYS), Vec::new());
    for &(from_ns, to_ns) in requests {
        if to_ns > end_ns {
            waiters.push(Waiter {
                group: Vec::new(),
                start_ns: from_ns,
                age_ns: end_ns.abs_diff(from_ns),
                is_bound: false,
            });
            continue;
        }
        batch.push_i64(Field::Time, from_ns);
        batch.push_u64(Field::Latency, to_ns.abs_diff(from_ns));
        batch.end_row();
    }
    let width = Interval::Fixed(WIDTH as u64);
    let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), width).count_by(count_by);
    builder.add(&batch, None);
    let mut series = builder.finish();
    series.add_waiting(&waiters, None);
    series
}

/// The smallest of a list below which there is this part of it, and the next.
fn rank(values: &mut [u64], quantile: f64) -> (u64, u64) {
    values.sort_unstable();
    let at = (quantile * values.len() as f64).ceil().max(1.0) as usize - 1;
    (values[at.saturating_sub(1)], values[(at + 1).min(values.len() - 1)])
}

fn within_a_bucket(value: u64, (low, high): (u64, u64)) -> bool {
    (low as f64 * (1.0 - 1.0 / 32.0) - 1.0..=high as f64 * (1.0 + 1.0 / 32.0) + 1.0).contains(&(value as f64))
}

proptest! {
    /// By definition: in each interval what completed in it, and the ages at its end of what was started and not ended.
    #[test]
    fn an_interval_has_what_completes_and_what_waits(
        requests in proptest::collection::vec((0i64..9_000, 1i64..20_000), 1..60), quantile in 0.01f64..1.0,
    ) {
        let end_ns = 10_000;
        let requests: Vec<_> = requests.into_iter().map(|(from_ns, took_ns)| (from_ns, from_ns + took_ns)).collect();
        let series = series(&requests, end_ns, CountBy::Completion);
        let hung = requests.iter().filter(|&&(_, to_ns)| to_ns > end_ns);
        for (&interval, slice) in series.slices() {
            let until_ns = (series.start_ns(interval) + WIDTH).min(end_ns);
            let mut ages: Vec<u64> = hung.clone().filter(|&&(from_ns, _)| from_ns < until_ns || from_ns.div_euclid(WIDTH) == interval)
                .map(|&(from_ns, _)| (until_ns - from_ns) as u64).collect();
            let waiting = series.waiting(interval, None);
            prop_assert_eq!(waiting.count(), ages.len() as u64);
            prop_assert_eq!(waiting.oldest_ns(), ages.iter().max().copied());
            prop_assert_eq!(waiting.older_than(700), ages.iter().filter(|&&age| age > 700).count() as u64);
            let ended = |&&(_, to_ns): &&(i64, i64)| to_ns <= end_ns && to_ns.div_euclid(WIDTH) == interval;
            let completed: Vec<u64> =
                requests.iter().filter(ended).map(|&(from_ns, to_ns)| (to_ns - from_ns) as u64).collect();
            let histogram = slice.groups.first().map(|(_, histogram)| histogram.clone()).unwrap();
            prop_assert_eq!(histogram.totals().count, completed.len() as u64);
            let found = waiting.quantiles(&histogram, &[quantile], Rule::Interpolated).unwrap()[0];
            ages.extend(&completed);
            let bound = rank(&mut ages, quantile);
            match completed.is_empty() {
                true => prop_assert!(found.at_least && within_a_bucket(found.value, bound)),
                false => {
                    let alone = rank(&mut completed.clone(), quantile);
                    let both = (bound.0.max(alone.0), bound.1.max(alone.1));
                    prop_assert!(within_a_bucket(found.value, both), "{found:?} {both:?}");
                    prop_assert!(found.value >= histogram.quantiles(&[quantile], Rule::Interpolated).unwrap()[0]);
                }
            }
        }
        let still = series.still_waiting(None);
        prop_assert_eq!(still.count(), hung.clone().count() as u64);
        prop_assert_eq!(still.oldest_ns(), hung.map(|&(from_ns, _)| (end_ns - from_ns) as u64).max());
    }

    /// By share, the parts of a request that waits add up to one.
    #[test]
    fn shares_of_what_waits_add_up(from_ns in 0i64..9_000) {
        let series = series(&[(0, 1), (from_ns, 99_999)], 10_000, CountBy::Overlap);
        let all = |interval: &i64| series.waiting(*interval, None).held.iter().map(|held| held.count).sum::<u64>();
        let (sum, whole) = (series.slices().keys().map(all).sum::<u64>(), series.per_event());
        prop_assert!(sum <= whole && sum + 16 > whole, "{sum}");
        let held = series.slices().keys().flat_map(|&interval| series.waiting(interval, None).held);
        prop_assert!(held.into_iter().all(|held| held.bound_ns == 10_000 - from_ns as u64), "each with its last age");
        for &interval in series.slices().keys() {
            let age = ((series.start_ns(interval) + WIDTH).min(10_000) - from_ns).max(0) as u64;
            prop_assert_eq!(series.waiting(interval, None).oldest_ns(), Some(age).filter(|&age| age > 0));
        }
    }
}

#[test]
fn young_requests_lower_nothing() {
    // A hundred of 500 ns, and a hundred that have just started.
    let mut requests = vec![(0, 500); 100];
    requests.extend([(990, 2_000); 100]);
    let series = series(&requests, 1_000, CountBy::Completion);
    let histogram = &series.slices()[&0].groups[0].1;
    let waiting = series.waiting(0, None);
    let found = waiting.quantiles(histogram, &[0.01, 0.5, 0.99], Rule::Interpolated).unwrap();
    assert_eq!(found, histogram_quantiles(histogram, &[0.01, 0.5, 0.99]));
    assert_eq!(waiting.mean(histogram), Some(Raised { value: 500.0, at_least: false }));
    assert_eq!(waiting.max(histogram), Some(Raised { value: 500, at_least: false }));
}

fn histogram_quantiles(histogram: &Sparse, quantiles: &[f64]) -> Vec<Raised<u64>> {
    let values = histogram.quantiles(quantiles, Rule::Interpolated).unwrap();
    values.into_iter().map(|value| Raised { value, at_least: false }).collect()
}

#[test]
fn intervals_in_which_nothing_happened_pass() {
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), WIDTH as u64);
    series.pass(3..6);
    assert_eq!(series.slices().keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
    assert!(series.slices().values().all(|slice| slice.groups[0].1.totals().count == 0));
}
