//! How often is sampled: as often as was asked for, or as the budget allows; and with which priority the sampler waits until then.

use latscope_histogram::{Grid, Histogram, Rule};
use std::time::{Duration, Instant};

/// No two passes are further apart, whatever they cost.
const LONGEST: Duration = Duration::from_secs(1);
/// The budget of so much time may be saved, for what is paid once, such as the names of a program that was not seen before.
const SAVED: Duration = Duration::from_secs(20);
/// What is paid once and is more than was saved costs no more than so much time without passes.
const OWED: Duration = Duration::from_secs(2);

/// Whether this thread gets a CPU as soon as it wants one. Where none is idle, the sampler would otherwise look when some thread begins to
/// wait, since that is what makes room for it, and would see more waits than there are.
pub struct Priority {
    is_raised: bool,
    may_raise: bool,
}

impl Priority {
    /// As the thread has it. Who gave the process another policy keeps it.
    pub fn new() -> Priority {
        // SAFETY: asks about the calling thread.
        let may_raise = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
        Priority { is_raised: false, may_raise }
    }

    /// The lowest priority of real-time threads, or that of before; nothing where the system refuses it.
    pub fn raise(&mut self, raise: bool) {
        if raise == self.is_raised || !self.may_raise {
            return;
        }
        let policy = if raise { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        let how = libc::sched_param { sched_priority: raise.into() };
        // SAFETY: of the calling thread; the structure outlives the call.
        self.may_raise = unsafe { libc::sched_setscheduler(0, policy, &how) } == 0;
        self.is_raised = raise && self.may_raise;
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        self.raise(false);
    }
}

/// Numbers that look random; Knuth, The Art of Computer Programming, volume 2, 3.3.4.
pub struct Random(u64);

impl Random {
    /// The sequence that starts here.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// From 0 up to 1.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// When the next pass is due, and how the last ones went.
pub struct Pace {
    asked: Duration,
    /// CPUs that may be spent.
    budget: f64,
    /// What is left of the budget until now, seconds of a CPU; less than nothing where passes took more.
    left: f64,
    started: Instant,
    due: Instant,
    last: Instant,
    pub passes: u64,
    random: Random,
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
            left: 0.0,
            started: now,
            due: now + asked,
            last: now,
            passes: 0,
            random: Random::new(0),
            intervals: Histogram::new(Grid::FINE, false),
            parts: Histogram::new(Grid::FINE, false),
        }
    }

    /// Passes count from now on: those before read the names of the kernel and of all that runs.
    pub fn begin(&mut self) {
        let now = Instant::now();
        (self.started, self.last, self.due) = (now, now, now + self.asked);
        (self.passes, self.left) = (0, 0.0);
        (self.intervals, self.parts) = (Histogram::new(Grid::FINE, false), Histogram::new(Grid::FINE, false));
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
        self.earn(interval);
        self.intervals.record(interval.as_nanos() as u64, 1);
        interval
    }

    /// A pass is over, and this is what it took, with all that was made of it.
    pub fn end(&mut self, cost: Duration) {
        // The first one reads the names of the kernel and of all that runs.
        if self.passes > 1 {
            self.left = (self.left - cost.as_secs_f64()).max(-OWED.as_secs_f64() * self.budget);
        }
        // Programs have timers, too: passes of a fixed period would see them in the same phase again and again.
        let interval = self.interval().mul_f64(0.75 + 0.5 * self.random.next());
        // A pass that came late does not make the next ones come faster.
        self.due = (self.due + interval).max(self.last + interval / 2).max(Instant::now());
    }

    /// The time passes, and with it the budget grows.
    fn earn(&mut self, time: Duration) {
        self.left = (self.left + time.as_secs_f64() * self.budget).min(SAVED.as_secs_f64() * self.budget);
    }

    /// The time between passes that is aimed at: until what they took is within the budget again.
    fn interval(&self) -> Duration {
        if self.budget <= 0.0 || self.left >= 0.0 {
            return self.asked;
        }
        Duration::try_from_secs_f64(-self.left / self.budget).map_or(LONGEST, |debt| debt.clamp(self.asked, LONGEST))
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

    /// Median, 95th percentile and maximum of the time between passes, and of that between the parts of a sample, nanoseconds.
    pub fn quantiles(&self) -> [Option<[u64; 3]>; 2] {
        [&self.intervals, &self.parts].map(|of| of.quantiles(&[0.5, 0.95, 1.0], Rule::default())?.try_into().ok())
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
        let pass = |pace: &mut Pace, cost: Duration| {
            pace.passes += 1;
            pace.end(cost);
            let interval = pace.interval();
            pace.earn(interval);
            interval
        };
        assert_eq!(pass(&mut pace, Duration::from_millis(300)), Duration::from_millis(50), "the first one is free");
        for _ in 0..100 {
            assert_eq!(pass(&mut pace, Duration::from_micros(100)), Duration::from_millis(50), "cheap enough");
        }
        let once = pass(&mut pace, Duration::from_millis(20));
        assert_eq!(once, Duration::from_millis(50), "what is paid once is paid from what was saved");
        let taken: Duration = (0..1000).map(|_| pass(&mut pace, Duration::from_millis(1))).sum();
        assert!(taken > Duration::from_secs(97), "1000 of 1 ms are 1 % of {taken:?}");
        assert_eq!(pass(&mut pace, Duration::from_millis(1)), Duration::from_millis(100));
        assert_eq!(pass(&mut pace, Duration::from_secs(100)), LONGEST);
        pass(&mut pace, Duration::from_millis(1));
        pass(&mut pace, Duration::from_millis(1));
        assert!(pass(&mut pace, Duration::from_millis(1)) <= Duration::from_millis(200), "it recovers");
        let unlimited = Pace::new(20, 0.0);
        assert_eq!(unlimited.interval(), Duration::from_millis(50));
    }
}
