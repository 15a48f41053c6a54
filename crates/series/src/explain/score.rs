//! How far two sides differ: pure arithmetic.

/// Of how many events of each side something is true, selection first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counts {
    /// Events of the selection and of the baseline for which it is true.
    pub with: [u64; 2],
    /// All events of each side.
    pub all: [u64; 2],
}

impl Counts {
    /// The share of the selection for which it is true.
    pub fn selected_share(&self) -> f64 {
        share(self.with[0], self.all[0])
    }

    /// The share of the baseline for which it is true.
    pub fn baseline_share(&self) -> f64 {
        share(self.with[1], self.all[1])
    }

    /// The log-likelihood ratio G² of the two-by-two table: above 0 where the sides differ, about 1 by chance.
    pub fn g2(&self) -> f64 {
        let ([a, b], [all_a, all_b]) = (self.with.map(|n| n as f64), self.all.map(|n| n as f64));
        let (with, n) = (a + b, all_a + all_b);
        let term = |seen: f64, row: f64, column: f64| {
            if seen > 0.0 && row > 0.0 && column > 0.0 { seen * (seen * n / (row * column)).ln() } else { 0.0 }
        };
        let sum = term(a, with, all_a) + term(b, with, all_b);
        let rest = term(all_a - a, n - with, all_a) + term(all_b - b, n - with, all_b);
        (2.0 * (sum + rest)).max(0.0)
    }

    /// The logarithm of the odds of being selected with it against without it; half an event is added to each cell, so that it is
    /// always a number.
    pub fn log_odds(&self) -> f64 {
        let ([a, b], [all_a, all_b]) = (self.with.map(|n| n as f64 + 0.5), self.all.map(|n| n as f64 + 1.0));
        (a * (all_b - b) / (b * (all_a - a))).ln()
    }

    /// The [divergence](divergence) of having it or not.
    pub fn divergence(&self) -> f64 {
        let without = [self.all[0] - self.with[0].min(self.all[0]), self.all[1] - self.with[1].min(self.all[1])];
        divergence([self.with, without].into_iter(), self.all)
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// The Jensen-Shannon divergence of two distributions in bits, 0 to 1, less what chance makes of it: (k-1)(1/n1 + 1/n0)/(8 ln 2)
/// for `k` values of which there is any event.
pub fn divergence(values: impl Iterator<Item = [u64; 2]>, all: [u64; 2]) -> f64 {
    if all.contains(&0) {
        return 0.0;
    }
    let (mut sum, mut seen) = (0.0, 0u32);
    for counts in values.filter(|counts| *counts != [0, 0]) {
        let [p, q] = [counts[0] as f64 / all[0] as f64, counts[1] as f64 / all[1] as f64];
        let middle = (p + q) / 2.0;
        let term = |x: f64| if x > 0.0 { x * (x / middle).log2() / 2.0 } else { 0.0 };
        sum += term(p) + term(q);
        seen += 1;
    }
    let bias = f64::from(seen.saturating_sub(1)) * (1.0 / all[0] as f64 + 1.0 / all[1] as f64);
    (sum - bias / (8.0 * std::f64::consts::LN_2)).clamp(0.0, 1.0)
}

/// Where a number parts the sides best.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parting {
    /// The first bucket of the range.
    pub from: usize,
    /// The first bucket behind it.
    pub to: usize,
    /// The largest distance of the two distribution functions (Kolmogorov-Smirnov).
    pub ks: f64,
}

/// A range is only taken for one with two ends where one end does not do nearly as well.
const ONE_END: f64 = 0.8;

/// The range of buckets that holds most of the selection beyond its share of the baseline; `None` if no range does. `counts` are
/// those of each bucket, ascending.
pub fn parting(counts: &[[u64; 2]], all: [u64; 2]) -> Option<Parting> {
    if all.contains(&0) {
        return None;
    }
    let step = |counts: &[u64; 2]| counts[0] as f64 / all[0] as f64 - counts[1] as f64 / all[1] as f64;
    let end = counts.iter().map(step).sum::<f64>();
    // The difference of the distribution functions before each bucket, its smallest so far, and the best of each kind.
    let (mut before, mut least, mut ks) = (0.0, (0.0, 0), 0.0f64);
    let (mut range, mut below, mut above) = ((0.0, 0, 0), (0.0, 0), (0.0, 0));
    for (at, bucket) in counts.iter().enumerate() {
        if end - before > above.0 {
            above = (end - before, at);
        }
        if before < least.0 {
            least = (before, at);
        }
        before += step(bucket);
        ks = ks.max(before.abs());
        if before > below.0 {
            below = (before, at + 1);
        }
        if before - least.0 > range.0 {
            range = (before - least.0, least.1, at + 1);
        }
    }
    if range.0 <= 0.0 {
        return None;
    }
    let (from, to) = match () {
        () if above.0.max(below.0) < ONE_END * range.0 => (range.1, range.2),
        () if above.0 >= below.0 => (above.1, counts.len()),
        () => (0, below.1),
    };
    Some(Parting { from, to, ks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(a: u64, all_a: u64, b: u64, all_b: u64) -> Counts {
        Counts { with: [a, b], all: [all_a, all_b] }
    }

    #[test]
    fn known_tables() {
        // 2 * (10 ln(10/7.5) + 20 ln(20/22.5) + 5 ln(5/7.5) + 25 ln(25/22.5))
        assert!((counts(10, 30, 5, 30).g2() - 2.255_7).abs() < 1e-3, "{}", counts(10, 30, 5, 30).g2());
        assert!(counts(10, 20, 50, 100).g2() < 1e-9);
        assert!((counts(3, 10, 1, 10).log_odds() - (3.5f64 * 9.5 / (1.5 * 7.5)).ln()).abs() < 1e-12);
        assert!((counts(1000, 1000, 0, 1000).divergence() - 1.0).abs() < 0.01);
        assert_eq!(counts(0, 0, 0, 10).divergence(), 0.0);
    }

    #[test]
    fn chance_has_no_divergence() {
        // Many values with an event each are no difference.
        let values = (0..200).map(|at| if at % 2 == 0 { [1, 0] } else { [0, 1] });
        let raw = divergence(values.clone(), [100, 100]);
        assert!(raw < 0.8, "{raw}");
        assert_eq!(divergence([[10, 100], [20, 200]].into_iter(), [30, 300]), 0.0);
    }

    proptest! {
        #[test]
        fn the_range_is_the_best_of_all(counts in proptest::collection::vec((0..20u64, 0..20u64), 1..12)) {
            let counts: Vec<[u64; 2]> = counts.into_iter().map(|(a, b)| [a, b]).collect();
            let all = counts.iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            prop_assume!(!all.contains(&0));
            let gain = |from: usize, to: usize| counts[from..to].iter().map(|count| count[0] as f64 / all[0] as f64 - count[1] as f64 / all[1] as f64).sum::<f64>();
            let ends = 0..=counts.len();
            let best = ends.clone().flat_map(|from| (from..=counts.len()).map(move |to| (from, to))).map(|(from, to)| gain(from, to)).fold(0.0, f64::max);
            let ks = ends.map(|to| gain(0, to).abs()).fold(0.0, f64::max);
            match parting(&counts, all) {
                None => prop_assert!(best < 1e-9),
                Some(found) => {
                    prop_assert!(gain(found.from, found.to) >= 0.8 * best - 1e-9);
                    prop_assert!((found.ks - ks).abs() < 1e-9);
                }
            }
        }
    }
}
