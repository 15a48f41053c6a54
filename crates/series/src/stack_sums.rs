//! What stacks add up to, and how exact their shares are.

/// The quantile of the normal distribution of a 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// What some stacks add up to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StackSum {
    /// Rows: as many samples were taken, or events recorded.
    pub samples: u64,
    /// Events, each as many as it stands for.
    pub events: u64,
    /// Their latencies, nanoseconds.
    pub time_ns: u128,
    /// How many of the samples wait still, and count with their age.
    pub waiting: u64,
    /// Sums of squares of the rows' events and nanoseconds: the more uneven rows are, the less is known of a share.
    pub squares: [f64; 2],
}

impl StackSum {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: StackSum) -> StackSum {
        StackSum {
            samples: self.samples.saturating_add(other.samples),
            events: self.events.saturating_add(other.events),
            time_ns: self.time_ns.saturating_add(other.time_ns),
            waiting: self.waiting.saturating_add(other.waiting),
            squares: [0, 1].map(|at| self.squares[at] + other.squares[at]),
        }
    }

    /// What a width shows of it: samples, events or nanoseconds.
    #[must_use]
    pub fn amount(self, width: StackWidth) -> u128 {
        match width {
            StackWidth::Samples => self.samples.into(),
            StackWidth::Events => self.events.into(),
            StackWidth::Time => self.time_ns,
        }
    }

    /// The mean latency of an event, nanoseconds.
    #[must_use]
    pub fn mean_ns(self) -> Option<f64> {
        (self.events > 0).then(|| self.time_ns as f64 / self.events as f64)
    }
}

/// What shares are shares of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StackWidth {
    /// Rows.
    Samples,
    /// Events.
    Events,
    /// The sum of latencies: the time waited.
    #[default]
    Time,
}

impl StackWidth {
    /// The word for options.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StackWidth::Samples => "samples",
            StackWidth::Events => "events",
            StackWidth::Time => "time",
        }
    }
}

/// What shares of a tree are shares of. A share is a ratio of two sums over rows of different weights, so its variance is
/// `sum(w^2 (a - p)^2) / sum(w)^2` with `a` 1 for rows of the stack and 0 for the others (ratio estimator, Cochran, Sampling
/// Techniques, 6.4): a stack whose time is a few long waits is known from as many samples, whatever number of short ones others
/// have. From this variance follows how many samples of equal weight would be as exact, and from those Wilson's interval, which
/// has a width at 0 and 1, too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StackShares {
    width: StackWidth,
    /// A file of counts has a row for each stack, and each of its events was a sample.
    is_counts: bool,
    /// The sum of weights, and of their squares.
    total: f64,
    squares: f64,
}

impl StackShares {
    /// Of what adds up to `total`.
    pub(crate) fn new(total: StackSum, width: StackWidth) -> StackShares {
        let empty = StackShares { width, is_counts: total.time_ns == 0, total: 0.0, squares: 0.0 };
        let (total, squares) = empty.weights(total);
        StackShares { total, squares, ..empty }
    }

    /// The weight of some rows, and the sum of the squares of their weights.
    fn weights(&self, sum: StackSum) -> (f64, f64) {
        let squares = match self.width {
            StackWidth::Samples => sum.samples as f64,
            StackWidth::Events if self.is_counts => sum.events as f64,
            StackWidth::Events => sum.squares[0],
            StackWidth::Time => sum.squares[1],
        };
        (sum.amount(self.width) as f64, squares)
    }

    /// As many samples of equal weight weigh as these do (Kish's effective size).
    pub(crate) fn samples(&self) -> f64 {
        if self.squares > 0.0 { self.total * self.total / self.squares } else { 0.0 }
    }

    /// The share of a part, from 0 to 1.
    #[must_use]
    pub fn share(&self, part: StackSum) -> f64 {
        if self.total > 0.0 { (self.weights(part).0 / self.total).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The ends of the 95 % interval of its share.
    #[must_use]
    pub fn interval(&self, part: StackSum) -> (f64, f64) {
        let (share, (_, squares)) = (self.share(part), self.weights(part));
        let others = (self.squares - squares).max(0.0);
        let variance = ((1.0 - share).powi(2) * squares + share.powi(2) * others)
            / (self.total * self.total).max(f64::MIN_POSITIVE);
        let has_variance = variance > 0.0 && share > 0.0 && share < 1.0;
        share_interval(share, if has_variance { share * (1.0 - share) / variance } else { self.samples() })
    }

    /// The same for a part that is compared with another tree's. If one of the two has nothing of it, or nothing else, samples
    /// are taken to weigh as much as those of the other, which bounds what may have been missed.
    #[must_use]
    pub fn interval_beside(&self, part: StackSum, other: &StackShares, others_part: StackSum) -> (f64, f64) {
        let share = self.share(part);
        let (total, squares) = other.weights(others_part);
        let (total, squares) = match share {
            0.0 => (total, squares),
            1.0 => (other.total - total, other.squares - squares),
            _ => return self.interval(part),
        };
        let heaviest = if total > 0.0 { (squares / total).max(0.0) } else { 0.0 };
        let samples = self.samples();
        share_interval(share, if heaviest > 0.0 { samples.min(self.total / heaviest) } else { samples })
    }
}

/// The 95 % interval of a share that `samples` samples gave (Wilson's, which holds for small numbers too).
#[must_use]
pub fn share_interval(share: f64, samples: f64) -> (f64, f64) {
    if samples <= 0.0 {
        return (0.0, 1.0);
    }
    let share = share.clamp(0.0, 1.0);
    let z2 = Z * Z;
    let centre = (share + z2 / (2.0 * samples)) / (1.0 + z2 / samples);
    let half = Z / (1.0 + z2 / samples) * (share * (1.0 - share) / samples + z2 / (4.0 * samples * samples)).sqrt();
    // Rounding must not leave the share outside.
    ((centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Samples of a stack (`true`) and of others, each with its time.
    fn sums(rows: &[(bool, u64)]) -> [StackSum; 2] {
        let mut sums = [StackSum::default(); 2];
        for &(is_of, time_ns) in rows {
            let squares = [1.0, (time_ns as f64).powi(2)];
            let row = StackSum { samples: 1, events: 1, time_ns: time_ns.into(), waiting: 0, squares };
            sums[1] = sums[1].plus(row);
            sums[0] = if is_of { sums[0].plus(row) } else { sums[0] };
        }
        sums
    }

    /// As many of `rows` rows as of a hundred thousand are of the stack; each side has its own times.
    fn drawn(random: &mut Random, rows: usize, of: usize, times: [&dyn Fn(&mut Random) -> f64; 2]) -> [StackSum; 2] {
        let row = |random: &mut Random| {
            let is_of = random.below(100_000) < of;
            (is_of, times[usize::from(!is_of)](random).max(1.0) as u64)
        };
        let rows: Vec<(bool, u64)> = (0..rows).map(|_| row(random)).collect();
        sums(&rows)
    }

    /// Intervals hold the share of the distribution in at least 88 % of the traces, with waits that are a hundred times longer
    /// than others in 3 of 3,000 rows, or log-normal ones; a trace without any of them counts against it.
    #[test]
    fn intervals_hold_the_true_share_of_heavy_tails() {
        let long = |ns: f64| move |_: &mut Random| ns;
        let exponential = |mean: f64| {
            move |random: &mut Random| -mean * ((random.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64).ln()
        };
        let log_normal = |mean: f64| move |random: &mut Random| mean * (random.normal() - 0.5).exp();
        type Times<'a> = &'a dyn Fn(&mut Random) -> f64;
        let mixes: [(usize, usize, [Times; 2], [f64; 2]); 6] = [
            (3000, 100, [&long(1e9), &long(1e7)], [1e9, 1e7]),
            (3000, 200, [&long(1e9), &long(1e7)], [1e9, 1e7]),
            (1000, 1000, [&long(1e8), &long(1e7)], [1e8, 1e7]),
            (300, 5000, [&exponential(1e8), &exponential(1e7)], [1e8, 1e7]),
            (300, 20_000, [&log_normal(1e7), &log_normal(1e7)], [1e7, 1e7]),
            (300, 30_000, [&long(1e7), &long(1e7)], [1e7, 1e7]),
        ];
        for (at, (rows, of, times, means)) in mixes.into_iter().enumerate() {
            let chance = of as f64 / 1e5;
            let expected = chance * means[0] / (chance * means[0] + (1.0 - chance) * means[1]);
            let mut random = Random(7 + at as u64);
            let mut held = 0;
            for _ in 0..400 {
                let [part, total] = drawn(&mut random, rows, of, times);
                let (low, high) = StackShares::new(total, StackWidth::Time).interval(part);
                held += usize::from(part.samples > 0 && low <= expected && expected <= high);
            }
            assert!((352..400).contains(&held), "mix {at}: {held} of 400");
        }
    }

    /// The variance by looking at every row.
    #[test]
    fn the_variance_is_that_of_a_ratio() {
        let mut random = Random(3);
        let rows: Vec<(bool, u64)> = (0..500).map(|_| (random.below(5) == 0, random.below(1000) as u64 + 1)).collect();
        let [part, total] = sums(&rows);
        let weight = rows.iter().map(|row| row.1 as f64).sum::<f64>();
        let share = rows.iter().filter(|row| row.0).map(|row| row.1 as f64).sum::<f64>() / weight;
        let residuals = rows.iter().map(|&(is_of, time)| (time as f64 * (f64::from(u8::from(is_of)) - share)).powi(2));
        let variance = residuals.sum::<f64>() / weight.powi(2);
        let found = StackShares::new(total, StackWidth::Time).interval(part);
        let expected = share_interval(share, share * (1.0 - share) / variance);
        assert!((found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12, "{found:?} {expected:?}");
    }

    #[test]
    fn equal_weights_have_the_interval_of_wilson() {
        let rows: Vec<(bool, u64)> = (0..200).map(|at| (at % 4 == 0, 1000)).collect();
        let [part, total] = sums(&rows);
        for width in [StackWidth::Samples, StackWidth::Events, StackWidth::Time] {
            let shares = StackShares::new(total, width);
            let (found, expected) = (shares.interval(part), share_interval(0.25, 200.0));
            assert!((found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12, "{found:?}");
            assert_eq!(shares.interval(total), share_interval(1.0, 200.0), "not degenerate where all is one stack");
            assert_eq!(shares.interval(StackSum::default()), share_interval(0.0, 200.0));
        }
        assert_eq!(StackShares::new(StackSum::default(), StackWidth::Time).interval(StackSum::default()), (0.0, 1.0));
    }

    /// Two traces of one distribution: no difference is found in more than 5 % of them, though some have none of the long waits.
    #[test]
    fn chance_makes_few_differences() {
        let mut random = Random(11);
        let mut differ = 0;
        for _ in 0..400 {
            let sides: [[StackSum; 2]; 2] =
                std::array::from_fn(|_| drawn(&mut random, 3000, 100, [&|_| 1e9, &|_| 1e7]));
            let [here, there] = sides.map(|[_, total]| StackShares::new(total, StackWidth::Time));
            let [[part, _], [others_part, _]] = sides;
            let one = here.interval_beside(part, &there, others_part);
            let two = there.interval_beside(others_part, &here, part);
            differ += usize::from(one.0 > two.1 || two.0 > one.1);
        }
        assert!(differ <= 20, "{differ} of 400");
    }
}
