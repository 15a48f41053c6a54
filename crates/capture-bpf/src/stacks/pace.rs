//! How often is sampled: as often as was asked for, or as the budget allows.

use latscope_histogram::{Grid, Histogram, Rule};
use std::time::{Duration, Instant};

/// No two passes are further apart, whatever they cost.
const LONGEST: Duration = Duration::from_secs(1);
/// A pass counts this much in the running mean of costs.
const SHARE: f64 = 0.125;

/// When the next pass is due, and how the last ones went.
pub struct Pace {
    asked: Duration,
    /// CPUs that may be spent.
    budget: f64,
    cost: Duration,
    started: Instant,
    due: Instant,
    last: Instant,
    pub passes: u64,
    /// Numbers that look random; Knuth, The Art of Computer Programming, volume 2, 3.3.4.
    random: u64,
    intervals: Histogram,
    parts: Histogram,
}

impl Pace {
    /// So many passes a second, as long as they take no more than this share of a CPU.
    pub fn new(hz: u32, budget: f64) -> Pace {
        let now = Instant::now();
        let asked = Duration::from_secs(1) / hz.max(1);
        Pace {
            asked,
            budget,
            cost: Duration::ZERO,
            started: now,
            due: now + asked,
            last: now,
            passes: 0,
            random: 0,
            intervals: Histogram::new(Grid::FINE, false),
            parts: Histogram::new(Grid::FINE, false),
        }
    }

    /// How long until the next pass is due.
    pub fn wait(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// A pass starts; the time since the one before, which its samples stand for.
    pub fn start(&mut self) -> Duration {
        let now = Instant::now();
        let interval = now - std::mem::replace(&mut self.last, now);
        self.passes += 1;
        self.intervals.record(interval.as_nanos() as u64, 1);
        interval
    }

    /// A pass is over, and this is what it took, with all that was made of it.
    pub fn end(&mut self, cost: Duration) {
        self.cost = if self.passes <= 1 { cost } else { self.cost.mul_f64(1.0 - SHARE) + cost.mul_f64(SHARE) };
        // Programs have timers, too: passes of a fixed period would see them in the same phase again and again.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let interval = self.interval().mul_f64(0.75 + (self.random >> 33) as f64 / (1u64 << 32) as f64);
        // A pass that came late does not make the next ones come faster.
        self.due = (self.due + interval).max(self.last + interval / 2).max(Instant::now());
    }

    /// The time between passes that is aimed at.
    pub fn interval(&self) -> Duration {
        let affordable = if self.budget > 0.0 { self.cost.div_f64(self.budget) } else { Duration::ZERO };
        self.asked.max(affordable.min(LONGEST))
    }

    /// Between the state of a thread and its stacks there was so much time.
    pub fn add_parts(&mut self, ns: u64) {
        self.parts.record(ns, 1);
    }

    /// The passes that were due and not made, as they would have cost too much or came late.
    pub fn skipped(&self) -> u64 {
        let due = self.last.duration_since(self.started).as_nanos() / self.asked.as_nanos().max(1);
        (due as u64).saturating_sub(self.passes)
    }

    /// Median and 95th percentile of the time between passes, and of that between the parts of a sample, nanoseconds.
    pub fn quantiles(&self) -> [Option<[u64; 2]>; 2] {
        [&self.intervals, &self.parts].map(|of| of.quantiles(&[0.5, 0.95], Rule::default())?.try_into().ok())
    }

    /// The time between passes that was asked for, nanoseconds.
    pub fn asked_ns(&self) -> u64 {
        self.asked.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_makes_passes_rarer_and_never_faster_than_asked() {
        let mut pace = Pace::new(20, 0.01);
        pace.start();
        pace.end(Duration::from_micros(100));
        assert_eq!(pace.interval(), Duration::from_millis(50), "cheap enough");
        for _ in 0..200 {
            pace.start();
            pace.end(Duration::from_millis(1));
        }
        let interval = pace.interval();
        assert!(
            interval.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1),
            "1 ms is 1 % of {interval:?}"
        );
        pace.end(Duration::from_secs(100));
        assert_eq!(pace.interval(), LONGEST);
        let unlimited = Pace::new(20, 0.0);
        assert_eq!(unlimited.interval(), Duration::from_millis(50));
    }
}
