//! Where one alert stands: the same machine for every rule, fed with judgements in the order of time.

use super::rules::OnNoData;
use serde::{Deserialize, Serialize};

/// So many steps without data make a difference.
const NO_DATA_STEPS: u32 = 5;
/// An alert of which nothing was heard for so long is resolved, nanoseconds.
const FORGOTTEN_NS: i64 = 86_400_000_000_000;

/// Where one alert stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// Whether it fires.
    pub phase: Phase,
    /// The end of the last time that was judged, nanoseconds since the epoch.
    pub last_ns: i64,
    /// When there was data, nanoseconds since the epoch.
    pub seen_ns: i64,
    /// Steps without data in a row.
    pub no_data: u32,
    /// What was found when it last held.
    pub finding: String,
    /// The hosts that its group was last of; none where there were many.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Whether an alert fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its condition does not hold.
    #[default]
    Idle,
    /// It holds, but not long enough yet.
    Pending {
        /// Since when, nanoseconds since the epoch.
        since_ns: i64,
    },
    /// It fires.
    Firing {
        /// Since when the condition holds, nanoseconds since the epoch.
        since_ns: i64,
        /// Since when it does not hold any more.
        over_ns: Option<i64>,
    },
}

impl Phase {
    /// Whether it fires rather than waits, and since when its condition holds, nanoseconds since the epoch; `None` where it does not.
    pub fn active(self) -> Option<(bool, i64)> {
        match self {
            Phase::Idle => None,
            Phase::Pending { since_ns } => Some((false, since_ns)),
            Phase::Firing { since_ns, .. } => Some((true, since_ns)),
        }
    }
}

/// What was found in some time.
#[derive(Clone, PartialEq, Debug)]
pub enum Sample {
    /// The condition holds: what was found.
    Holds(String),
    /// It does not, and what must hold for the end of the alert does.
    Over,
    /// Neither holds.
    Between,
    /// There was no data.
    NoData,
}

/// For how long something must hold, and what follows without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Before it fires, nanoseconds.
    pub hold_ns: i64,
    /// Before it is resolved, nanoseconds.
    pub keep_ns: i64,
    /// Without data.
    pub on_no_data: OnNoData,
}

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It fires; since when its condition holds, nanoseconds since the epoch.
    Fires(i64),
    /// It is resolved; since when its condition held.
    Resolves(i64),
}

impl State {
    /// Whether it fires.
    pub fn is_firing(&self) -> bool {
        matches!(self.phase, Phase::Firing { .. })
    }

    /// The clock was set forward by this time, nanoseconds: it is as old as before.
    pub fn step_clock(&mut self, step_ns: i64) {
        let step = |ns: &mut i64| *ns = ns.saturating_add(step_ns);
        [&mut self.last_ns, &mut self.seen_ns].into_iter().for_each(step);
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Pending { since_ns } => step(since_ns),
            Phase::Firing { since_ns, over_ns } => [since_ns].into_iter().chain(over_ns).for_each(step),
        }
    }

    /// Goes on by what was found from one moment to another. What is older than the last sample changes nothing.
    pub fn go_on(&mut self, (start_ns, end_ns): (i64, i64), sample: Sample, patience: Patience) -> Option<Turn> {
        if end_ns < self.last_ns {
            return None;
        }
        self.last_ns = end_ns;
        match sample {
            Sample::NoData => return self.go_on_without_data(start_ns, end_ns, patience),
            _ => (self.seen_ns, self.no_data) = (end_ns, 0),
        }
        match sample {
            Sample::Holds(finding) => {
                self.finding = finding;
                self.holds(start_ns, end_ns, patience.hold_ns)
            }
            Sample::Over => self.is_over(start_ns, end_ns, patience.keep_ns),
            Sample::Between | Sample::NoData => {
                self.phase = match self.phase {
                    Phase::Firing { since_ns, .. } => Phase::Firing { since_ns, over_ns: None },
                    _ => Phase::Idle,
                };
                None
            }
        }
    }

    fn holds(&mut self, start_ns: i64, end_ns: i64, hold_ns: i64) -> Option<Turn> {
        let since_ns = match self.phase {
            Phase::Idle => start_ns,
            Phase::Pending { since_ns } => since_ns,
            Phase::Firing { since_ns, .. } => {
                self.phase = Phase::Firing { since_ns, over_ns: None };
                return None;
            }
        };
        if end_ns - since_ns < hold_ns {
            self.phase = Phase::Pending { since_ns };
            return None;
        }
        self.phase = Phase::Firing { since_ns, over_ns: None };
        Some(Turn::Fires(since_ns))
    }

    fn is_over(&mut self, start_ns: i64, end_ns: i64, keep_ns: i64) -> Option<Turn> {
        let Phase::Firing { since_ns, over_ns } = self.phase else {
            self.phase = Phase::Idle;
            return None;
        };
        let over_ns = over_ns.unwrap_or(start_ns);
        if keep_ns > 0 && end_ns - over_ns < keep_ns {
            self.phase = Phase::Firing { since_ns, over_ns: Some(over_ns) };
            return None;
        }
        self.phase = Phase::Idle;
        Some(Turn::Resolves(since_ns))
    }

    fn go_on_without_data(&mut self, start_ns: i64, end_ns: i64, patience: Patience) -> Option<Turn> {
        self.no_data = self.no_data.saturating_add(1);
        let is_forgotten = self.is_firing() && end_ns - self.seen_ns > FORGOTTEN_NS;
        if self.no_data < NO_DATA_STEPS && !is_forgotten {
            return None;
        }
        match patience.on_no_data {
            OnNoData::Fire => {
                self.finding = "no data".into();
                self.holds(start_ns, end_ns, 0)
            }
            OnNoData::Keep if !is_forgotten => None,
            OnNoData::Keep | OnNoData::Resolve => self.is_over(start_ns, end_ns, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Patience = Patience { hold_ns: 30, keep_ns: 20, on_no_data: OnNoData::Keep };

    /// Steps of ten, one letter each.
    fn turns(letters: &str, patience: Patience) -> Vec<(i64, Turn)> {
        let mut state = State::default();
        let step = |(at, letter): (usize, char)| {
            let start = at as i64 * 10;
            let sample = match letter {
                'x' => Sample::Holds("p99 = 2s".into()),
                '-' => Sample::Between,
                '.' => Sample::Over,
                _ => Sample::NoData,
            };
            state.go_on((start, start + 10), sample, patience).map(|turn| (start + 10, turn))
        };
        letters.chars().enumerate().filter_map(step).collect()
    }

    #[test]
    fn an_alert_fires_and_is_resolved_once() {
        use Turn::{Fires, Resolves};
        let none = Patience { hold_ns: 0, keep_ns: 0, ..PATIENCE };
        for (letters, patience, expected) in [
            ("..x.x.", none, &[(30, Fires(20)), (40, Resolves(20)), (50, Fires(40)), (60, Resolves(40))][..]),
            ("..xx.xxxxx-x.-..", PATIENCE, &[(80, Fires(50)), (160, Resolves(50))]),
            // What is neither is no end of a pending alert's patience, but of the alert.
            ("xx-xxx..", PATIENCE, &[(60, Fires(30)), (80, Resolves(30))]),
            // No data changes nothing.
            ("xx?x......", PATIENCE, &[(40, Fires(0)), (60, Resolves(0))]),
            ("xxx??????????", PATIENCE, &[(30, Fires(0))]),
            ("xxx??????", Patience { on_no_data: OnNoData::Resolve, ..PATIENCE }, &[(30, Fires(0)), (80, Resolves(0))]),
            (
                "..??????..",
                Patience { on_no_data: OnNoData::Fire, ..PATIENCE },
                &[(70, Fires(60)), (100, Resolves(60))],
            ),
        ] {
            assert_eq!(turns(letters, patience), expected, "{letters}");
        }
    }

    #[test]
    fn what_is_late_changes_nothing() {
        let mut state = State::default();
        let patience = Patience { hold_ns: 0, ..PATIENCE };
        let fires = state.go_on((0, 50), Sample::Holds("oldest = 6s".into()), patience);
        assert_eq!(fires, Some(Turn::Fires(0)));
        assert_eq!(state.go_on((0, 40), Sample::Over, patience), None);
        assert!(state.is_firing());
        // A day without data ends it.
        assert_eq!(state.go_on((FORGOTTEN_NS, FORGOTTEN_NS + 51), Sample::NoData, patience), Some(Turn::Resolves(0)));
    }

    proptest! {
        /// By definition: an alert fires at the first sample from which on the condition held for as long as asked, looking back.
        #[test]
        fn equals_looking_back(letters in "[x.]{1,40}", hold in 0i64..5, keep in 0i64..5) {
            let patience = Patience { hold_ns: hold * 10, keep_ns: keep * 10, ..PATIENCE };
            let list: Vec<char> = letters.chars().collect();
            let run = |at: usize, letter: char| list[..=at].iter().rev().take_while(|&&one| one == letter).count() as i64;
            let (mut is_firing, mut expected) = (false, Vec::new());
            for at in 0..list.len() {
                let changes = match is_firing {
                    false => run(at, 'x') >= hold.max(1),
                    true => run(at, '.') >= keep.max(1),
                };
                if changes {
                    is_firing = !is_firing;
                    expected.push(((at as i64 + 1) * 10, is_firing));
                }
            }
            let found = turns(&letters, patience).into_iter().map(|(at, turn)| (at, matches!(turn, Turn::Fires(_))));
            prop_assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
