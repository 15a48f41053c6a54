//! How far the clock of a hub is from that of an agent, measured as NTP does.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// So many exchanges are kept.
const KEPT: usize = 16;
/// A clock that moves by so much against the steady one was set, nanoseconds.
const STEP_NS: u64 = 50_000_000;
/// How many times both are read: the pair with the least time between them counts.
const READS: usize = 3;

/// A host is expected for so long after it was heard of, unless it said that it ends; nanoseconds.
pub const EXPECTED_NS: i64 = 300_000_000_000;

/// What an agent knows of its clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockState {
    /// The clock of the hub less that of the agent, and how far that may be wrong, nanoseconds; `None` before the first exchange.
    pub offset: Option<(i64, u64)>,
    /// Whether the kernel of the agent takes its clock for synchronised; `None`: unknown.
    pub is_synchronised: Option<bool>,
}

/// The last exchanges of an agent with a hub.
#[derive(Default)]
pub struct Exchanges(VecDeque<(i64, u64)>);

impl Exchanges {
    /// Adds one: when the agent asked, when the hub got that and answered, and when the agent got the answer; nanoseconds since
    /// the epoch, each by its own clock.
    pub fn add(&mut self, asked: i64, got: i64, answered: i64, back: i64) {
        let (there, again) = (i128::from(got) - i128::from(asked), i128::from(answered) - i128::from(back));
        let delay = (i128::from(back) - i128::from(asked)) - (i128::from(answered) - i128::from(got));
        // A clock that was set meanwhile measures nothing.
        let (Ok(offset), Ok(delay)) = (i64::try_from((there + again) / 2), u64::try_from(delay)) else { return };
        // After a step the exchanges before it are of another clock.
        if self.best().is_some_and(|(known, error)| known.abs_diff(offset) > error + delay.div_ceil(2)) {
            self.0.clear();
        }
        self.0.push_back((offset, delay));
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// The offset of the exchange with the least delay, and how far it may be wrong: half of that delay.
    pub fn best(&self) -> Option<(i64, u64)> {
        self.0.iter().min_by_key(|(_, delay)| *delay).map(|&(offset, delay)| (offset, delay.div_ceil(2)))
    }
}

impl Exchanges {
    /// The clock of the agent was set forward by this time, nanoseconds.
    pub fn step(&mut self, step_ns: i64) {
        self.0.iter_mut().for_each(|(offset, _)| *offset = offset.saturating_sub(step_ns));
    }
}

/// Notices when somebody sets a wall clock.
pub struct Steps {
    start: Instant,
    /// The wall clock less the steady one, nanoseconds.
    ahead_ns: i64,
}

impl Steps {
    /// Of a clock.
    pub fn new(now_ns: &dyn Fn() -> i64) -> Steps {
        let start = Instant::now();
        Steps { start, ahead_ns: ahead_ns(start, now_ns) }
    }

    /// Size of the steps of the clock since the last call, nanoseconds.
    pub fn step(&mut self, now_ns: &dyn Fn() -> i64) -> Option<i64> {
        let ahead_ns = ahead_ns(self.start, now_ns);
        let step_ns = ahead_ns - std::mem::replace(&mut self.ahead_ns, ahead_ns);
        (step_ns.unsigned_abs() >= STEP_NS).then_some(step_ns)
    }
}

/// The clock of a hub.
pub struct OwnClock {
    steps: Steps,
    /// Size of its steps since they were last reported, nanoseconds.
    pub stepped_ns: i64,
}

impl OwnClock {
    /// As it is now.
    pub fn new() -> OwnClock {
        OwnClock { steps: Steps::new(&now_ns), stepped_ns: 0 }
    }

    /// Size of its steps since the last look, and its time now, nanoseconds.
    pub fn look(&mut self) -> (Option<i64>, i64) {
        let step_ns = self.steps.step(&now_ns);
        self.stepped_ns = self.stepped_ns.saturating_add(step_ns.unwrap_or(0));
        (step_ns, now_ns())
    }
}

/// How far a wall clock is ahead of the steady one, read while nothing came between.
fn ahead_ns(start: Instant, now_ns: &dyn Fn() -> i64) -> i64 {
    let read = || {
        let before = start.elapsed();
        let ahead_ns = now_ns().saturating_sub(before.as_nanos() as i64);
        (start.elapsed() - before, ahead_ns)
    };
    let best = (0..READS).map(|_| read()).reduce(|one, other| if other.0 < one.0 { other } else { one });
    best.map_or(0, |(_, ahead_ns)| ahead_ns)
}

/// By how many intervals what a host sends is moved, so that it stands where it happened by the clock of the hub. It stays as it is
/// while that is right within an interval: an offset near a half does not move it to and fro.
pub fn shift(present: i64, (offset_ns, error_ns): (i64, u64), width_ns: u64) -> i64 {
    let width = i64::try_from(width_ns).unwrap_or(i64::MAX).max(1);
    let left_ns = offset_ns.saturating_sub(present.saturating_mul(width)).unsigned_abs();
    if offset_ns.unsigned_abs() <= width_ns / 2 {
        0
    } else if left_ns <= width_ns.saturating_add(error_ns) {
        present
    } else {
        offset_ns.saturating_add(width / 2).div_euclid(width)
    }
}

/// Nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the delays are, the offset is true within its error.
        #[test]
        fn the_offset_is_within_its_error(
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            delays in proptest::collection::vec((0i64..1 << 30, 0i64..1 << 30, 0i64..1 << 20), 1..30),
        ) {
            let mut exchanges = Exchanges::default();
            for (at, (there, back, work)) in delays.into_iter().enumerate() {
                let asked = 1_000_000_000_000 + at as i64 * 10_000_000_000;
                let got = asked + there + offset;
                exchanges.add(asked, got, got + work, asked + there + work + back);
                let (measured, error) = exchanges.best().unwrap();
                prop_assert!(measured.abs_diff(offset) <= error + 1);
            }
        }
    }

    #[test]
    fn intervals_are_moved_by_what_is_measured_and_stay() {
        const SECOND: i64 = 1_000_000_000;
        let moved = |present, ms: i64| shift(present, (ms * 1_000_000, 0), SECOND as u64);
        for (offsets, expected) in [
            (&[0, 400, 900, 1000, -1000, -999][..], &[0, 0, 0, 0, 0, 0][..]),
            (&[3_600_000, 3_600_900, 3_599_100, 3_601_600, 300], &[3600, 3600, 3600, 3602, 0]),
            (&[-20_000, -19_100, -20_900, -1100, -600, -400], &[-20, -20, -20, -1, -1, 0]),
        ] {
            let mut present = 0;
            let found = offsets.iter().map(|&ms| {
                present = moved(present, ms);
                present
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{offsets:?}");
        }
        // What may be wrong by more than that says nothing.
        assert_eq!(shift(0, (5 * SECOND, 4 * SECOND as u64), SECOND as u64), 0);
        assert_eq!(shift(0, (i64::MIN, 0), SECOND as u64), i64::MIN / SECOND - 1);
    }

    #[test]
    fn who_sets_a_clock_is_noticed() {
        let moved = std::cell::Cell::new(0);
        let clock = || now_ns() + moved.get();
        let mut steps = Steps::new(&clock);
        assert_eq!(steps.step(&clock), None);
        for step_ns in [-3_600_000_000_000, 3_600_000_000_000] {
            moved.set(moved.get() + step_ns);
            assert!(steps.step(&clock).is_some_and(|found_ns| found_ns.abs_diff(step_ns) < STEP_NS));
            assert_eq!(steps.step(&clock), None);
        }
        let mut exchanges = Exchanges::default();
        exchanges.add(0, 50, 50, 100);
        exchanges.step(7);
        assert_eq!(exchanges.best(), Some((-7, 50)));
    }

    #[test]
    fn a_step_of_the_clock_is_followed_at_once() {
        let mut exchanges = Exchanges::default();
        (0..20).for_each(|_| exchanges.add(0, 50, 50, 100));
        assert_eq!(exchanges.best(), Some((0, 50)));
        exchanges.add(0, 1_000_050, 1_000_050, 100);
        assert_eq!(exchanges.best(), Some((1_000_000, 50)));
    }
}
