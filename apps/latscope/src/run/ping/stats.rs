//! Statistics as ioping makes them, exact: sums are whole numbers.

use crate::plan::PingShow;
use latscope_capture_probe::Sample;

/// Of the requests that count.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    pub count: u64,
    pub sum_ns: u64,
    squares: u128,
    pub min_ns: u64,
    pub max_ns: u64,
    /// All that moved data, those that do not count among them.
    pub load: u64,
    pub too_fast: u64,
    pub too_slow: u64,
    pub failed: u64,
}

impl Stats {
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.count += 1;
        self.sum_ns += ns;
        self.squares += u128::from(ns) * u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// As many that took equally long.
    pub fn add_many(&mut self, ns: u64, count: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.count += count;
        self.sum_ns += ns * count;
        self.squares += u128::from(ns) * u128::from(ns) * u128::from(count);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Several, none of them special.
    pub fn add_all(&mut self, all: &[u64]) {
        let (mut min, mut max) = (if self.count == 0 { u64::MAX } else { self.min_ns }, self.max_ns);
        let (mut sum, mut squares) = (0, 0);
        for &ns in all {
            (min, max) = (min.min(ns), max.max(ns));
            sum += ns;
            squares += u128::from(ns) * u128::from(ns);
        }
        if !all.is_empty() {
            (self.min_ns, self.max_ns) = (min, max);
        }
        (self.count, self.load) = (self.count + all.len() as u64, self.load + all.len() as u64);
        (self.sum_ns, self.squares) = (self.sum_ns + sum, self.squares + squares);
    }

    /// What has waited can raise mean and maximum of what is done, and lowers nothing.
    #[must_use]
    pub fn raised(self, waiting: &Stats) -> Stats {
        let all = self.merged(waiting);
        let all = if all.avg_ns() < self.avg_ns() { self } else { all };
        let min_ns = if self.count == 0 { waiting.min_ns } else { self.min_ns };
        Stats { min_ns, max_ns: self.max_ns.max(waiting.max_ns), ..all }
    }

    /// Of what both count.
    fn merged(mut self, other: &Stats) -> Stats {
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
        self.too_slow += other.too_slow;
        self
    }

    pub fn avg_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The standard deviation of all. From n * squares - sum^2, which is exact, so it is never the root of less than zero.
    pub fn mdev_ns(&self) -> f64 {
        let (n, sum) = (u128::from(self.count.max(1)), u128::from(self.sum_ns));
        let difference = n.saturating_mul(self.squares).saturating_sub(sum.saturating_mul(sum));
        (difference as f64).sqrt() / n as f64
    }

    /// Per second of the time that requests took, which is not the time that passed.
    pub fn iops(&self) -> f64 {
        if self.sum_ns == 0 { 0.0 } else { self.count as f64 * 1e9 / self.sum_ns as f64 }
    }
}

/// How a request is classified: why it does not count, or stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    None,
    Failed(i32),
    /// Nothing was moved.
    Empty,
    Warmup,
    TooFast,
    TooSlow,
    Fast,
    Slow,
}

impl Class {
    /// Of a request: its number (from 1) among all, and the statistics of the window so far.
    #[inline]
    pub fn new(sample: &Sample, number: u64, show: &PingShow, window: &Stats) -> Class {
        if let Some(error) = sample.error() {
            return Class::Failed(error);
        }
        let ns = sample.latency_ns();
        if sample.result == 0 {
            Class::Empty
        } else if number <= show.warmup {
            Class::Warmup
        } else if ns < show.min_time_ns {
            Class::TooFast
        } else if ns > show.max_time_ns {
            Class::TooSlow
        } else if show.quiet || window.count <= 5 {
            Class::None
        } else if ns as f64 * 2.0 < window.avg_ns() {
            Class::Fast
        } else if ns as f64 > window.avg_ns() * 2.0 {
            Class::Slow
        } else {
            Class::None
        }
    }

    /// Whether it counts.
    #[inline]
    pub fn is_valid(self) -> bool {
        matches!(self, Class::None | Class::Fast | Class::Slow)
    }

    /// The word behind the line.
    pub fn word(self) -> Option<String> {
        let word = match self {
            Class::None | Class::Empty => return None,
            Class::Failed(error) => {
                let name = latscope_event::kernel::error_name(-i64::from(error));
                return Some(name.map_or(format!("error {error}"), String::from));
            }
            Class::Warmup => "warmup",
            Class::TooFast => "too fast",
            Class::TooSlow => "too slow",
            Class::Fast => "fast",
            Class::Slow => "slow",
        };
        Some(word.into())
    }

    /// Counts a request in statistics.
    #[inline]
    pub fn count(self, sample: &Sample, stats: &mut Stats) {
        stats.load += u64::from(!matches!(self, Class::Failed(_) | Class::Empty));
        match self {
            Class::TooFast => stats.too_fast += 1,
            Class::TooSlow => stats.too_slow += 1,
            Class::Failed(_) => stats.failed += 1,
            Class::Empty | Class::Warmup => {}
            Class::None | Class::Fast | Class::Slow => stats.add(sample.latency_ns()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_all_and_never_not_a_number() {
        let mut stats = Stats::default();
        assert_eq!((stats.mdev_ns(), stats.avg_ns(), stats.iops()), (0.0, 0.0, 0.0));
        for ns in [2, 4, 4, 4, 5, 5, 7, 9] {
            stats.add(ns);
        }
        assert_eq!((stats.avg_ns(), stats.mdev_ns(), stats.min_ns, stats.max_ns), (5.0, 2.0, 2, 9));
        let mut same = Stats::default();
        (0..1_000_000).for_each(|_| same.add(10_000_000_007));
        assert_eq!(same.mdev_ns(), 0.0);
    }

    #[test]
    fn together_is_one_by_one() {
        let all = [7, 3, u64::MAX >> 30, 12, 3];
        let mut single = Stats { load: 5, ..Stats::default() };
        all.iter().for_each(|&ns| single.add(ns));
        for cut in 0..=all.len() {
            let mut together = Stats::default();
            together.add_all(&all[..cut]);
            together.add_all(&all[cut..]);
            assert_eq!(together, single);
        }
    }
}
