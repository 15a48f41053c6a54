//! Whether slow events recur: "every few seconds a write takes forever".
//!
//! The definition: slow events are those above the 99th percentile, or above a higher one (99.9, 99.99), which shows stalls
//! of single events better. The logarithm of one more than their number in each interval, smoothed over three intervals, is
//! compared with itself some intervals later (autocorrelation, summed over stretches that were measured apart). A period is
//! the shortest lag at a peak of that which comes near the highest peak, where this is higher than chance makes it: 0.25
//! at least, and 6.3 / sqrt(n) of n intervals, which is four and a half standard deviations of the autocorrelation of noise
//! that was smoothed so. Three periods must fit into the longest stretch.

use crate::HistogramSeries;
use latscope_histogram::Rule;

/// How slow events recur.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Period {
    /// From one to the next, nanoseconds; it is known to one interval of the series.
    pub period_ns: u64,
    /// How alike stretches of that length are: the autocorrelation, up to 1.
    pub correlation: f64,
    /// Slow events are longer than this, nanoseconds.
    pub slow_ns: u64,
    /// How many there are.
    pub slow: u64,
}

/// Slow events lie above one of these quantiles.
const SLOW: [f64; 3] = [0.99, 0.999, 0.9999];
/// So many runs of slow events recur at least.
const FEWEST: f64 = 6.0;
const LEAST: f64 = 0.25;
const DEVIATIONS: f64 = 6.3;
/// How near the highest peak a shorter period comes.
const NEAR: f64 = 0.85;
/// The longest stretch has at most so many intervals.
const MOST_INTERVALS: i64 = 1 << 16;

/// The period of slow events in stretches of equal interval that were measured apart; `None` if they do not recur.
pub fn period(stretches: &[HistogramSeries]) -> Option<Period> {
    let mut all = stretches.first()?.total(None);
    stretches[1..].iter().for_each(|stretch| all.add(&stretch.total(None).to_sparse()));
    let thresholds = all.quantiles(&SLOW, Rule::Interpolated)?;
    let candidates = thresholds.into_iter().filter_map(|slow_ns| period_above(stretches, slow_ns));
    candidates.max_by(|a, b| a.correlation.total_cmp(&b.correlation))
}

/// The period of the events that are slower than this, nanoseconds, likewise.
pub fn period_above(stretches: &[HistogramSeries], slow_ns: u64) -> Option<Period> {
    let width_ns = stretches.first()?.width_ns();
    if stretches.iter().any(|stretch| stretch.width_ns() != width_ns) {
        return None;
    }
    let counts: Vec<Vec<u64>> = stretches.iter().map(|stretch| slow_counts(stretch, slow_ns)).collect();
    let slow = counts.iter().flatten().sum();
    let (lag, correlation) = recurrence_of(&counts)?;
    Some(Period { period_ns: lag as u64 * width_ns, correlation, slow_ns, slow })
}

/// After how many intervals these counts of stretches recur, and their autocorrelation there.
pub(crate) fn recurrence_of(counts: &[Vec<u64>]) -> Option<(usize, f64)> {
    let rates: Vec<Vec<f64>> = counts.iter().map(|counts| smoothed(counts)).collect();
    let recurs = |&(lag, correlation): &(usize, f64)| {
        let runs: usize = counts.iter().map(|counts| runs(counts, lag / 4)).sum();
        correlation * runs as f64 >= FEWEST
    };
    recurrence(&rates).filter(recurs)
}

/// Events above the threshold in every interval.
fn slow_counts(series: &HistogramSeries, slow_ns: u64) -> Vec<u64> {
    let Some((first, last)) = series.range() else { return Vec::new() };
    let last = last.min(first.saturating_add(MOST_INTERVALS - 1));
    let grid = series.grid();
    let slow = |interval: i64| {
        let groups = series.slices().get(&interval).into_iter().flat_map(|slice| &slice.groups);
        let buckets = groups.flat_map(|(_, sparse)| sparse.buckets());
        buckets.filter(|&(index, ..)| grid.lower(index) > slow_ns).map(|(_, count, _)| count).sum()
    };
    (first..=last).map(slow).collect()
}

/// How many runs of slow events there are; intervals without any longer than `gap` divide them. A stall is one of them, however
/// long.
fn runs(counts: &[u64], gap: usize) -> usize {
    let slow: Vec<usize> = (0..counts.len()).filter(|&at| counts[at] > 0).collect();
    let apart = slow.windows(2).filter(|pair| pair[1] - pair[0] > gap + 1).count();
    apart + usize::from(!slow.is_empty())
}

/// Logarithms over three intervals, weighted 1, 2, 1.
fn smoothed(counts: &[u64]) -> Vec<f64> {
    let log = |at: Option<usize>| at.and_then(|at| counts.get(at)).map_or(0.0, |&count| (count as f64).ln_1p());
    (0..counts.len()).map(|at| (log(at.checked_sub(1)) + 2.0 * log(Some(at)) + log(Some(at + 1))) / 4.0).collect()
}

/// Lag and autocorrelation of the period.
fn recurrence(stretches: &[Vec<f64>]) -> Option<(usize, f64)> {
    let n: usize = stretches.iter().map(Vec::len).sum();
    let longest = stretches.iter().map(Vec::len).max()? / 3;
    let mean = stretches.iter().flatten().sum::<f64>() / n.max(1) as f64;
    let variance = stretches.iter().flatten().map(|value| (value - mean).powi(2)).sum::<f64>() / n.max(1) as f64;
    if variance <= 0.0 {
        return None;
    }
    // By the number of pairs, so that long lags count as much as short ones.
    let correlation = |lag: usize| {
        let pairs = stretches.iter().flat_map(|values| values.iter().zip(values.get(lag..).unwrap_or(&[])));
        let (sum, count) = pairs.fold((0.0, 0), |(sum, count), (a, b)| (sum + (a - mean) * (b - mean), count + 1));
        (sum / f64::from(count.max(1)) / variance, count)
    };
    let lags: Vec<(f64, i32)> = (0..=longest + 1).map(correlation).collect();
    // What belongs to one stall is no recurrence: it starts when the stall is over.
    let start = lags.iter().position(|&(value, _)| value <= 0.0)?;
    let is_peak = |lag: &usize| {
        let (value, pairs) = lags[*lag];
        let enough = value >= LEAST.max(DEVIATIONS / f64::from(pairs.max(1)).sqrt());
        enough && value >= lags[lag - 1].0 && value >= lags[lag + 1].0
    };
    let peaks: Vec<usize> = (start.max(1)..=longest).filter(is_peak).collect();
    let highest = peaks.iter().map(|&lag| lags[lag].0).fold(0.0, f64::max);
    let lag = peaks.into_iter().find(|&lag| lags[lag].0 >= NEAR * highest)?;
    Some((lag, lags[lag].0.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quantity, Weight};
    use latscope_histogram::{Grid, Histogram};

    const WIDTH_NS: u64 = 100_000_000;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }
    }

    /// A stretch of so many intervals with 100 fast events each, and slow ones at these moments (in intervals).
    fn stretch(random: &mut Random, intervals: usize, moments: &[f64]) -> HistogramSeries {
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), WIDTH_NS);
        for interval in 0..intervals {
            let mut histogram = Histogram::new(Grid::FINE, false);
            (0..100).for_each(|_| histogram.record(5000 + (random.next() * 5000.0) as u64, 0));
            for _ in moments.iter().filter(|&&moment| moment as usize == interval) {
                histogram.record(20_000_000 + (random.next() * 1e6) as u64, 0);
            }
            series.insert(interval as i64, Vec::new(), &histogram.to_sparse()).unwrap();
        }
        series
    }

    #[test]
    fn a_stall_every_five_seconds_is_found() {
        for seed in 0..20 {
            let mut random = Random(seed);
            // Two rounds of a minute, each with a phase of its own, a jitter of 50 ms, and noise beside it.
            let rounds: Vec<HistogramSeries> = (0..2)
                .map(|_| {
                    let phase = random.next() * 50.0;
                    let mut moments: Vec<f64> =
                        (0..12).map(|at| phase + 50.0 * f64::from(at) + random.next() - 0.5).collect();
                    moments.extend((0..5).map(|_| random.next() * 600.0));
                    stretch(&mut random, 600, &moments)
                })
                .collect();
            let found = period(&rounds).unwrap_or_else(|| panic!("seed {seed}"));
            assert!(found.period_ns.abs_diff(5_000_000_000) <= WIDTH_NS, "seed {seed}: {found:?}");
            assert!(found.slow_ns < 20_000_000 && found.slow >= 20, "{found:?}");
        }
    }

    #[test]
    fn chance_is_no_period() {
        let found = (0..200).filter(|&seed| {
            let mut random = Random(seed);
            let rounds: Vec<HistogramSeries> = (0..2)
                .map(|_| {
                    let moments: Vec<f64> = (0..15).map(|_| random.next() * 600.0).collect();
                    stretch(&mut random, 600, &moments)
                })
                .collect();
            period(&rounds).is_some()
        });
        let found = found.count();
        assert!(found <= 4, "{found} of 200");
    }

    #[test]
    fn one_long_stall_does_not_recur() {
        let mut random = Random(7);
        let moments: Vec<f64> = (0..40).map(|at| 200.0 + f64::from(at) / 4.0).collect();
        assert_eq!(period(&[stretch(&mut random, 600, &moments)]), None);
        // Nor do three of them, which may lie anywhere.
        let moments: Vec<f64> = (0..120).map(|at| f64::from(60 + 180 * (at / 40)) + f64::from(at % 40) / 4.0).collect();
        assert_eq!(period(&[stretch(&mut random, 600, &moments)]), None);
        assert_eq!(period(&[]), None);
        assert_eq!(period(&[stretch(&mut random, 1, &[])]), None);
    }

    #[test]
    fn the_shortest_period_counts() {
        let mut random = Random(3);
        let moments: Vec<f64> = (0..60).map(|at| 4.5 + 10.0 * f64::from(at)).collect();
        let found = period(&[stretch(&mut random, 600, &moments)]).unwrap();
        assert_eq!(found.period_ns, 10 * WIDTH_NS, "{found:?}");
    }
}
