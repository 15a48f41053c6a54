//! The wall clock as it is now, and when somebody sets it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A smaller difference is an error of the measurement; both clocks are slewed together.
const STEP_NS: i64 = 5_000_000;

/// Nanoseconds since the epoch, which go on with the monotonic clock until it is asked whether the wall clock was set.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    base: Instant,
    base_ns: i64,
}

impl WallClock {
    /// As the wall clock is now.
    pub fn now() -> WallClock {
        let (base, base_ns, _) = measured();
        WallClock { base, base_ns }
    }

    /// Nanoseconds since the epoch, as if nobody had set the wall clock since the last [`WallClock::follow`].
    pub fn now_ns(&self) -> i64 {
        self.base_ns.saturating_add(i64::try_from(self.base.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// Goes on from the time that the wall clock has now. Returns by how many nanoseconds it was set since, if it was: forward is
    /// positive, and the time that the machine slept counts as well.
    pub fn follow(&mut self) -> Option<i64> {
        // A thread that was interrupted between the two clocks found no step: the shortest of some measurements counts.
        let (at, unix_ns, _) = measured();
        self.step_ns(at, unix_ns)?;
        let (at, unix_ns, _) = (0..16).map(|_| measured()).min_by_key(|&(_, _, width_ns)| width_ns)?;
        let step_ns = self.step_ns(at, unix_ns)?;
        (self.base, self.base_ns) = (at, unix_ns);
        Some(step_ns)
    }

    /// How far the wall clock is from this one.
    fn step_ns(&self, at: Instant, unix_ns: i64) -> Option<i64> {
        let passed_ns = i64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(i64::MAX);
        let step_ns = unix_ns.saturating_sub(self.base_ns.saturating_add(passed_ns));
        (step_ns.abs() > STEP_NS).then_some(step_ns)
    }
}

/// A moment of both clocks, and how far apart they were read, nanoseconds.
fn measured() -> (Instant, i64, u128) {
    let before = Instant::now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let width = before.elapsed();
    (before + width / 2, unix.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)), width.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_step_is_found_once_and_by_its_size() {
        let mut clock = WallClock::now();
        assert_eq!(clock.follow(), None);
        let (at, unix_ns, _) = measured();
        let later = at + Duration::from_secs(3);
        assert_eq!(clock.step_ns(later, unix_ns + 3_000_000_000), None);
        let back = clock.step_ns(later, unix_ns - 57_000_000_000).unwrap();
        assert!((back + 60_000_000_000).abs() < STEP_NS, "{back}");
        // As if the wall clock had been set a minute ahead.
        clock.base_ns -= 60_000_000_000;
        let ahead = clock.follow().unwrap();
        assert!((ahead - 60_000_000_000).abs() < STEP_NS, "{ahead}");
        assert_eq!(clock.follow(), None);
        assert!((clock.now_ns() - measured().1).abs() < STEP_NS);
    }
}
