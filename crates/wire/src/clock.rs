//! How far the clock of a hub is from that of an agent, measured as NTP does.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

/// So many exchanges are kept.
const KEPT: usize = 16;

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
    fn a_step_of_the_clock_is_followed_at_once() {
        let mut exchanges = Exchanges::default();
        (0..20).for_each(|_| exchanges.add(0, 50, 50, 100));
        assert_eq!(exchanges.best(), Some((0, 50)));
        exchanges.add(0, 1_000_050, 1_000_050, 100);
        assert_eq!(exchanges.best(), Some((1_000_000, 50)));
    }
}
