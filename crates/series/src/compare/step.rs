//! In what steps the values of a side come: below a step of the clock, or a bucket, nothing is distinguished.
//!
//! A clock of milliseconds turns 12.99 ms into 12 ms and 13.01 ms into 13 ms. Every quantile is off by up to a step, in every run alike,
//! so that no number of requests or runs helps. A mean is off by less where requests scatter over several steps.

use super::Measure;

/// Values this close are one value of the clock, rounded to nanoseconds in two ways.
const ROUNDED_NS: f64 = 2.0;
/// From so many gaps on the smallest is the step; of fewer values their greatest common divisor is.
const GAPS: usize = 8;

/// How coarse the values of one side are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Step {
    /// Nanoseconds; 0 where the values do not show it.
    pub ns: f64,
    /// The share of requests whose neighbouring steps are too empty for the mean to average the rounding out.
    sharp: f64,
}

impl Step {
    /// Of each side: its values (lower edges of buckets, unless `exact`), ascending, with their counts.
    pub fn of_sides(sides: &[Vec<(f64, u64)>], exact: bool) -> Vec<Step> {
        let distinct: Vec<Vec<f64>> = sides.iter().map(|values| distinct(values)).collect();
        let few = |values: &&Vec<f64>| values.len() <= GAPS;
        // What single values have in common is found from those of all sides together.
        let common = distinct.iter().filter(few).flatten().fold(0, |sum, &value| divisor(sum, value as u64)) as f64;
        let step = |(values, distinct): (&Vec<(f64, u64)>, &Vec<f64>)| {
            let gap = || distinct.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min).unwrap_or(0.0);
            let ns = match (exact, few(&distinct)) {
                (true, true) => common,
                (false, true) => 0.0,
                (_, false) => gap(),
            };
            Step { ns, sharp: sharp(values, ns) }
        };
        sides.iter().zip(&distinct).map(step).collect()
    }

    /// How far a measure of time can be from what it would be by a perfect clock, nanoseconds.
    pub fn reach_ns(&self, measure: Measure) -> f64 {
        if measure == Measure::Mean { self.ns * self.sharp } else { self.ns }
    }
}

/// Values that differ by more than rounding.
fn distinct(values: &[(f64, u64)]) -> Vec<f64> {
    let mut distinct: Vec<f64> = Vec::new();
    for &(value, _) in values.iter().filter(|&&(_, count)| count > 0) {
        if distinct.last().is_none_or(|&last| value - last > ROUNDED_NS) {
            distinct.push(value);
        }
    }
    distinct
}

/// Twice what a step holds beyond both of its neighbours together, as a share of all: nothing where the distribution is wide and
/// smooth, everything where most requests fall into a step of their own.
fn sharp(values: &[(f64, u64)], step: f64) -> f64 {
    let all: u64 = values.iter().map(|&(_, count)| count).sum();
    if all == 0 || step <= 0.0 {
        return 0.0;
    }
    let mut before = vec![0u64];
    values.iter().for_each(|&(_, count)| before.push(before[before.len() - 1] + count));
    let up_to = |value: f64| before[values.partition_point(|&(other, _)| other <= value)];
    let beyond = |&(value, count): &(f64, u64)| {
        let beside = up_to(value + 1.5 * step)
            - up_to(value - 1.5 * step)
            - (up_to(value + step / 2.0) - up_to(value - step / 2.0));
        count.saturating_sub(beside)
    };
    (2.0 * values.iter().map(beyond).sum::<u64>() as f64 / all as f64).min(1.0)
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(values: &[u64]) -> Vec<(f64, u64)> {
        let mut counts = std::collections::BTreeMap::new();
        values.iter().for_each(|&value| *counts.entry(value).or_insert(0) += 1);
        counts.into_iter().map(|(value, count)| (value as f64, count)).collect()
    }

    #[test]
    fn steps_are_those_of_the_clock() {
        let ticks =
            |step: f64| -> Vec<u64> { (0..200u64).map(|at| (step * (3 + at * at % 23) as f64) as u64).collect() };
        for (values, step) in [
            (ticks(1e6), 1e6),
            // 1,024 times a second, rounded to nanoseconds.
            (ticks(976_562.5), 976_562.0),
            (vec![4_000_000, 8_000_000, 8_000_000, 20_000_000], 4e6),
            ((0..100).map(|at| 300_000 + 7 * (at * 37 % 101)).collect(), 7.0),
            (vec![0; 10], 0.0),
        ] {
            assert_eq!(Step::of_sides(&[counts_of(&values)], true)[0].ns, step, "{values:?}");
        }
        // Of constants the step is what all have in common.
        let steps = Step::of_sides(&[counts_of(&[5_000_000; 9]), counts_of(&[50_000_000; 9])], true);
        assert!(steps.iter().all(|step| step.ns == 5e6), "{steps:?}");
    }

    #[test]
    fn rounding_is_averaged_out_where_values_scatter() {
        let shares = |counts: &[u64]| {
            let values: Vec<(f64, u64)> =
                counts.iter().enumerate().map(|(at, &count)| (at as f64 * 1e6, count)).collect();
            sharp(&values, 1e6)
        };
        assert_eq!(shares(&[1, 9, 60, 200, 250, 200, 60, 9, 1]), 0.0);
        assert_eq!(shares(&[0, 0, 100]), 1.0);
        // Hits in step 0 and misses in step 9: each of them is off by its own.
        assert_eq!(shares(&[50, 0, 0, 0, 0, 0, 0, 0, 0, 50]), 1.0);
        assert_eq!(shares(&[30, 65, 5]), 0.6);
        assert_eq!(shares(&[10, 80, 10]), 1.0);
    }
}
