//! When requests are answered.

use std::time::Duration;

/// The delays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    pub read: Duration,
    pub write: Duration,
    pub sync: Duration,
    /// Of every so many-th read or write instead.
    pub slow: Duration,
    /// 0: none is slow.
    pub every: u64,
    /// Requests that touch these bytes are slow, too.
    pub slow_bytes: (u64, u64),
    /// Reads that touch these bytes fail.
    pub broken_bytes: (u64, u64),
    /// The end of each period, in which nothing starts.
    pub stall: Duration,
    /// Zero: no stalls.
    pub period: Duration,
}

impl Schedule {
    /// Whether the read or write is slow, by its number from 0.
    pub fn is_slow(&self, number: u64) -> bool {
        self.every > 0 && number % self.every == self.every - 1
    }

    /// Whether a request touches a stretch of bytes, given by its start and end.
    pub fn touches((start, end): (u64, u64), offset: u64, size: u64) -> bool {
        offset < end && offset + size > start
    }

    /// When a request starts to be worked on that arrives at `at`, both counted from the start.
    pub fn start(&self, at: Duration) -> Duration {
        let period = self.period.as_nanos();
        if period == 0 {
            return at;
        }
        let into = at.as_nanos() % period;
        if into + self.stall.as_nanos() < period {
            return at;
        }
        at + Duration::from_nanos((period - into) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn each_hundredth_is_slow() {
        let schedule = Schedule { every: 100, ..Schedule::default() };
        for first in [0, 1, 99, 5_000_037] {
            assert_eq!((first..first + 1200).filter(|&number| schedule.is_slow(number)).count(), 12);
        }
        assert!(!Schedule::default().is_slow(0));
    }

    #[test]
    fn the_last_second_of_five_is_blocked() {
        let schedule = Schedule { stall: MS(1000), period: MS(5000), ..Schedule::default() };
        for (at, start) in [(0, 0), (3999, 3999), (4000, 5000), (4999, 5000), (5000, 5000), (9500, 10_000)] {
            assert_eq!(schedule.start(MS(at)), MS(start), "{at}");
        }
        assert_eq!(Schedule::default().start(MS(4500)), MS(4500));
    }
}
