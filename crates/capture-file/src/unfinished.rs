//! Whether a request without a completion counts as waiting when the trace ended.
//!
//! Tracers lose completions, some without a word, and such a request looks like one that hangs. The rule is conservative: a
//! request counts only if nothing in the trace speaks against it. docs/explanation/unfinished-requests.md states it for users.

use latscope_event::{Anomaly, Tally, Wait};

/// Where more than one in so many completions is known to be missing, no request counts.
const LOSSY: u64 = 100;
/// What shows that records are missing, or were not understood.
const SIGNS: [Anomaly; 10] = [
    Anomaly::LostRecords,
    Anomaly::LostCompletion,
    Anomaly::MismatchedCompletion,
    Anomaly::EvictedInFlight,
    Anomaly::UnpairedEnter,
    Anomaly::NegativeLatency,
    Anomaly::UnparsedLines,
    Anomaly::DamagedRecords,
    Anomaly::OutOfOrder,
    Anomaly::OpenAfterLoss,
];

/// What one device completed.
#[derive(Clone, Copy)]
pub struct Completed {
    /// When the latest of its completed requests was issued, nanoseconds on the trace's clock; long ago without any.
    latest_ns: i64,
    slowest_ns: u64,
}

impl Default for Completed {
    fn default() -> Completed {
        Completed { latest_ns: i64::MIN, slowest_ns: 0 }
    }
}

impl Completed {
    /// One more request completed.
    #[inline]
    pub fn add(&mut self, issued_ns: i64, latency_ns: u64) {
        self.latest_ns = self.latest_ns.max(issued_ns);
        self.slowest_ns = self.slowest_ns.max(latency_ns);
    }

    /// How long its slowest request took.
    pub fn slowest_ns(&self) -> u64 {
        self.slowest_ns
    }

    /// Whether a request that was issued then was left behind: the device went on for longer than its slowest request took.
    pub fn has_left_behind(&self, issued_ns: i64) -> bool {
        let ahead_ns = self.latest_ns.saturating_sub(issued_ns);
        u64::try_from(ahead_ns).is_ok_and(|ahead_ns| ahead_ns > self.slowest_ns)
    }
}

/// What a trace lacks beside what its tally counts.
#[derive(Clone, Copy, Default)]
pub struct Lacks {
    /// Completions of which the issue is missing, which the trace should have.
    pub issues: u64,
    /// Whether the end is missing. What a trace holds of each CPU by itself then ends at different times.
    pub is_cut: bool,
}

/// Takes back what counts as waiting if the trace lacks too many records, or its end; `completed` were seen.
pub fn doubt<'a>(waits: impl IntoIterator<Item = &'a mut Wait>, lacks: Lacks, tally: &Tally, completed: u64) {
    let mut waits: Vec<_> = waits.into_iter().collect();
    let left_behind = waits.iter().filter(|wait| ***wait == Wait::LeftBehind).count() as u64;
    let missing =
        SIGNS.iter().fold(left_behind.saturating_add(lacks.issues), |sum, &sign| sum.saturating_add(tally.get(sign)));
    if completed == 0 || lacks.is_cut || missing.saturating_mul(LOSSY) > completed {
        waits.iter_mut().filter(|wait| ***wait == Wait::Counts).for_each(|wait| **wait = Wait::Lossy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_left_behind_when_its_device_goes_on() {
        let mut completed = Completed::default();
        assert!(!completed.has_left_behind(0), "nothing completed");
        completed.add(1_000, 200);
        completed.add(900, 50);
        assert!(!completed.has_left_behind(1_001) && !completed.has_left_behind(800));
        assert!(completed.has_left_behind(799));
    }

    #[test]
    fn nothing_counts_in_a_trace_that_lacks_completions() {
        let judged_with = |lacks: Lacks, lost: u64, completed: u64| {
            let mut tally = Tally::default();
            tally.add(Anomaly::LostCompletion, lost);
            let mut waits = [Wait::Counts, Wait::Elsewhere];
            doubt(&mut waits, lacks, &tally, completed);
            waits
        };
        let judged = |lost, completed| judged_with(Lacks::default(), lost, completed);
        assert_eq!(judged(0, 1), [Wait::Counts, Wait::Elsewhere]);
        assert_eq!(judged(1, 100), [Wait::Counts, Wait::Elsewhere]);
        assert_eq!(judged(1, 99), [Wait::Lossy, Wait::Elsewhere]);
        assert_eq!(judged(0, 0), [Wait::Lossy, Wait::Elsewhere]);
        for (issues, is_cut, expected) in [(1, false, Wait::Counts), (2, false, Wait::Lossy), (0, true, Wait::Lossy)] {
            assert_eq!(judged_with(Lacks { issues, is_cut }, 0, 100)[0], expected);
        }
    }
}
