//! Where the alert of one group stands, and what was found lately, so that late data can be judged.

use super::state::{Patience, Phase, Sample, State, Turn};
use crate::news::RECENT_NS;
use std::collections::VecDeque;

/// Equal samples, step after step.
#[derive(Clone)]
struct Run {
    start_ns: i64,
    end_ns: i64,
    sample: Sample,
}

/// A state, with the samples of the last quarter of an hour.
#[derive(Clone, Default)]
pub struct Track {
    pub state: State,
    /// Before the samples.
    base: State,
    /// Ascending, without overlaps.
    runs: VecDeque<Run>,
}

/// What late data changed.
#[derive(Clone, PartialEq, Debug)]
pub enum Amendment {
    /// It fired from one moment to another, and nothing reported it.
    Episode { start_ns: i64, end_ns: i64, finding: String },
    /// It fires since this moment.
    Fires { start_ns: i64 },
    /// It was reported that it fires since this moment, which it did until another one.
    Ends { start_ns: i64, end_ns: i64 },
    /// It was reported with another end, or with another start.
    Moved { start_ns: i64, end_ns: i64, finding: String },
    /// It was reported that it fires since this moment, which it never did.
    Resolves { start_ns: i64 },
}

impl Track {
    /// From a state that was saved.
    pub fn new(state: State) -> Track {
        Track { base: state.clone(), state, runs: VecDeque::new() }
    }

    /// Goes on by what was found in a whole step.
    pub fn add(&mut self, span: (i64, i64), sample: Sample, patience: Patience) -> Option<Turn> {
        let step_ns = span.1 - span.0;
        self.insert(span, sample.clone());
        while let Some(first) = self.runs.front_mut()
            && first.start_ns < span.1 - RECENT_NS
        {
            let start_ns = first.start_ns;
            first.start_ns += step_ns.max(1);
            let (sample, is_over) = (first.sample.clone(), first.start_ns >= first.end_ns);
            self.base.go_on((start_ns, start_ns + step_ns), sample, patience);
            if is_over {
                self.runs.pop_front();
            }
        }
        self.state.go_on(span, sample, patience)
    }

    /// Puts right what was found in whole steps, and goes on by what is known of later ones. Returns what that changes.
    pub fn amend(
        &mut self,
        found: Vec<((i64, i64), Sample)>,
        later: Vec<((i64, i64), Sample)>,
        patience: Patience,
    ) -> Vec<Amendment> {
        let Some(step_ns) = found.first().map(|((start_ns, end_ns), _)| end_ns - start_ns) else { return Vec::new() };
        let (_, before) = self.replayed(step_ns, patience);
        for (span, sample) in found {
            if span.0 >= self.base.last_ns {
                self.insert(span, sample);
            }
        }
        let (mut state, after) = self.replayed(step_ns, patience);
        for (span, sample) in later {
            state.go_on(span, sample, patience);
        }
        state.last_ns = state.last_ns.max(self.state.last_ns);
        state.hosts.clone_from(&self.state.hosts);
        let mut amendments = Vec::new();
        let overlaps = |one: &(i64, Option<i64>, String), other: &(i64, Option<i64>, String)| {
            one.0 < other.1.unwrap_or(i64::MAX) && other.0 < one.1.unwrap_or(i64::MAX)
        };
        for episode in &after {
            let (start_ns, Some(end_ns), finding) = episode.clone() else { continue };
            let mut known = before.iter().filter(|known| overlaps(episode, known)).peekable();
            if known.peek().is_none() {
                amendments.push(Amendment::Episode { start_ns, end_ns, finding });
            } else if known.all(|known| known.1.is_some() && (known.0, known.1) != (start_ns, Some(end_ns))) {
                amendments.push(Amendment::Moved { start_ns, end_ns, finding });
            }
        }
        match (self.state.phase, state.phase) {
            (Phase::Firing { since_ns, .. }, Phase::Firing { since_ns: start_ns, over_ns }) => {
                if start_ns < since_ns {
                    amendments.push(Amendment::Fires { start_ns });
                }
                // If it starts later, it was reported with the earlier start.
                state.phase = Phase::Firing { since_ns: since_ns.min(start_ns), over_ns };
            }
            (Phase::Firing { since_ns, .. }, _) => {
                let reported = (since_ns, None, String::new());
                let mut latest = after.iter().rev().filter(|episode| overlaps(episode, &reported));
                amendments.push(match latest.find_map(|episode| episode.1) {
                    Some(end_ns) => Amendment::Ends { start_ns: since_ns, end_ns },
                    None => Amendment::Resolves { start_ns: since_ns },
                });
            }
            (_, Phase::Firing { since_ns, .. }) => amendments.push(Amendment::Fires { start_ns: since_ns }),
            _ => {}
        }
        self.state = state;
        amendments
    }

    /// Sets the sample of a step.
    fn insert(&mut self, (start_ns, end_ns): (i64, i64), sample: Sample) {
        let at = self.runs.partition_point(|run| run.end_ns <= start_ns);
        let mut next = at;
        if let Some(run) = self.runs.get(at).filter(|run| run.start_ns < end_ns).cloned() {
            self.runs.remove(at);
            if run.start_ns < start_ns {
                self.runs.insert(at, Run { end_ns: start_ns, ..run.clone() });
                next = at + 1;
            }
            if run.end_ns > end_ns {
                self.runs.insert(next, Run { start_ns: end_ns, ..run });
            }
        }
        self.runs.insert(next, Run { start_ns, end_ns, sample });
        // Neighbours that are alike become one.
        for at in [next + 1, next] {
            let (Some(before), Some(run)) = (at.checked_sub(1).and_then(|at| self.runs.get(at)), self.runs.get(at))
            else {
                continue;
            };
            let is_same = std::mem::discriminant(&before.sample) == std::mem::discriminant(&run.sample);
            if before.end_ns == run.start_ns && is_same {
                let run = Run { start_ns: before.start_ns, ..run.clone() };
                self.runs.remove(at);
                self.runs[at - 1] = run;
            }
        }
    }

    /// The state after all samples, and the times in which it fired: their starts, ends, and what was found.
    fn replayed(&self, step_ns: i64, patience: Patience) -> (State, Vec<(i64, Option<i64>, String)>) {
        let mut state = self.base.clone();
        let mut episodes = Vec::new();
        if let Phase::Firing { since_ns, .. } = state.phase {
            episodes.push((since_ns, None, state.finding.clone()));
        }
        for run in &self.runs {
            let mut start_ns = run.start_ns;
            while start_ns < run.end_ns {
                let end_ns = start_ns + step_ns.max(1);
                match state.go_on((start_ns, end_ns), run.sample.clone(), patience) {
                    Some(Turn::Fires(since_ns)) => episodes.push((since_ns, None, state.finding.clone())),
                    Some(Turn::Resolves(_)) => {
                        if let Some(last) = episodes.last_mut() {
                            last.1 = Some(end_ns);
                        }
                    }
                    None => {}
                }
                start_ns = end_ns;
            }
        }
        (state, episodes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::OnNoData;
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Patience = Patience { hold_ns: 30, keep_ns: 20, on_no_data: OnNoData::Keep };

    fn sample(letter: char) -> Option<Sample> {
        match letter {
            'x' => Some(Sample::Holds("p99 = 2s".into())),
            '-' => Some(Sample::Between),
            '.' => Some(Sample::Over),
            '?' => Some(Sample::NoData),
            _ => None,
        }
    }

    fn span(at: usize) -> (i64, i64) {
        (at as i64 * 10, at as i64 * 10 + 10)
    }

    fn track(letters: &str) -> Track {
        let mut track = Track::default();
        for (at, letter) in letters.chars().enumerate() {
            sample(letter).map(|sample| track.add(span(at), sample, PATIENCE));
        }
        track
    }

    #[test]
    fn late_data_reports_what_was_missed_and_corrects_what_was_wrong() {
        use Amendment::{Ends, Episode, Fires, Moved, Resolves};
        let finding = || "p99 = 2s".to_string();
        for (letters, at, letter, expected) in [
            ("..x.x......", 3, 'x', vec![Episode { start_ns: 20, end_ns: 70, finding: finding() }]),
            ("..x.xx", 3, 'x', vec![Fires { start_ns: 20 }]),
            (".xxxxx", 3, '.', vec![Resolves { start_ns: 10 }]),
            // It was true, and what came late only says until when.
            (".xxxx   ", 5, '.', vec![]),
            (".xxxx.   ", 6, '.', vec![Ends { start_ns: 10, end_ns: 70 }]),
            (".xxx..xx", 4, 'x', vec![Fires { start_ns: 10 }]),
            (".xx .", 3, 'x', vec![Fires { start_ns: 10 }]),
            ("......", 3, 'x', vec![]),
            (".xxx....", 2, '.', vec![]),
            (".xxx....", 4, 'x', vec![Moved { start_ns: 10, end_ns: 70, finding: finding() }]),
            ("..xxx....", 1, 'x', vec![Moved { start_ns: 10, end_ns: 70, finding: finding() }]),
            ("..xxxx", 1, 'x', vec![Fires { start_ns: 10 }]),
        ] {
            let mut track = track(letters);
            let found = vec![(span(at), sample(letter).unwrap())];
            assert_eq!(track.amend(found.clone(), Vec::new(), PATIENCE), expected, "{letters}");
            assert_eq!(track.amend(found, Vec::new(), PATIENCE), [], "{letters}: once");
        }
        // What is known of the step that is not over stays known.
        let patience = Patience { hold_ns: 0, ..PATIENCE };
        let mut track = Track::default();
        for (at, letter) in "...xx.".chars().enumerate() {
            track.add(span(at), sample(letter).unwrap(), patience);
        }
        let later = || vec![(span(6), Sample::Holds("oldest = 6s".into()))];
        track.state.go_on(span(6), Sample::Holds("oldest = 6s".into()), patience);
        assert_eq!(track.amend(vec![(span(1), Sample::Over)], later(), patience), []);
        assert!(track.state.is_firing());
    }

    proptest! {
        /// In whatever order samples come, in the end the state is that of those who had them in order.
        #[test]
        fn the_order_does_not_matter(letters in "[x.?-]{2,40}", late: prop::sample::Index, hold in 0i64..4, keep in 0i64..4) {
            let patience = Patience { hold_ns: hold * 10, keep_ns: keep * 10, ..PATIENCE };
            let late = late.index(letters.len() - 1);
            let (mut whole, mut other) = (Track::default(), Track::default());
            for (at, letter) in letters.chars().enumerate() {
                whole.add(span(at), sample(letter).unwrap(), patience);
                if at != late {
                    other.add(span(at), sample(letter).unwrap(), patience);
                }
            }
            let found = vec![(span(late), sample(letters.chars().nth(late).unwrap()).unwrap())];
            other.amend(found, Vec::new(), patience);
            prop_assert_eq!(whole.state.is_firing(), other.state.is_firing());
            prop_assert_eq!(whole.replayed(10, patience), other.replayed(10, patience));
        }
    }
}
