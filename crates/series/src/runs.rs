//! Histograms of whole runs, such as those in fio's JSON: it is known when a run started and ended, and not when in between
//! its events were. Each is therefore one interval, however long; none is divided.

use crate::{HistogramSeries, MergeError, Quantity, Weight, round_multiples};
use latscope_event::Field;
use latscope_histogram::Sparse;
use std::collections::BTreeMap;

/// Pictures have a column for so small a part of the whole time.
const COLUMNS: u64 = 200;
/// The shortest interval, nanoseconds.
const SHORTEST_NS: u64 = 1_000_000;
/// Runs that share less than this part of the shorter one follow each other: their times are rounded, or estimates.
const OVERLAP: u64 = 10;

/// The events of one run and group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// When it started, nanoseconds on the trace's clock.
    pub from_ns: i64,
    /// When it ended.
    pub to_ns: i64,
    /// Values of the group fields.
    pub group: Vec<String>,
    /// How many events took how long.
    pub histogram: Sparse,
}

/// When runs started and ended that are one interval: all of them, and those of each group.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(into = "Vec<Span>", from = "Vec<Span>")]
pub(crate) struct Spans(BTreeMap<i64, BTreeMap<Option<u32>, (i64, i64)>>);

/// As a row: the interval, the group, start and end.
type Span = (i64, Option<u32>, i64, i64);

impl From<Spans> for Vec<Span> {
    fn from(spans: Spans) -> Vec<Span> {
        let of_interval = |(at, groups): (i64, BTreeMap<_, _>)| {
            groups.into_iter().map(move |(group, (from_ns, to_ns))| (at, group, from_ns, to_ns))
        };
        spans.0.into_iter().flat_map(of_interval).collect()
    }
}

impl From<Vec<Span>> for Spans {
    fn from(rows: Vec<Span>) -> Spans {
        let mut spans = Spans::default();
        for (at, group, from_ns, to_ns) in rows {
            spans.0.entry(at).or_default().insert(group, (from_ns, to_ns));
        }
        spans
    }
}

impl HistogramSeries {
    /// A series of whole runs: an interval for each, and one for all that overlap by a tenth of their length or more.
    /// [`HistogramSeries::span_of`] gives its exact start and length. Such a series is for showing: it is not merged or widened.
    ///
    /// # Errors
    /// When a group has another number of values than there are group fields.
    pub fn of_runs(
        quantity: Quantity,
        weight: Weight,
        by: Vec<Field>,
        mut runs: Vec<Run>,
    ) -> Result<HistogramSeries, MergeError> {
        runs.sort_by_key(|run| (run.from_ns, run.to_ns));
        let end_ns = runs.iter().map(|run| run.to_ns).max().unwrap_or(0);
        let whole_ns = runs.first().map_or(0, |first| end_ns.abs_diff(first.from_ns));
        let least_ns = (whole_ns / COLUMNS).max(SHORTEST_NS);
        let width_ns = round_multiples(SHORTEST_NS).find(|&width_ns| width_ns >= least_ns).unwrap_or(least_ns);
        let mut series = HistogramSeries::new(quantity, weight, by, width_ns);
        let mut next = i64::MIN;
        for together in overlapping(runs) {
            let (from_ns, to_ns) = span(&together);
            // Where one run ends and the next starts in the same interval, that belongs to the earlier one.
            let first = from_ns.div_euclid(width_ns as i64).max(next);
            next = to_ns.saturating_sub(1).div_euclid(width_ns as i64).max(first).saturating_add(1);
            series.lengths.insert(first, next.abs_diff(first));
            let spans = series.runs.0.entry(first).or_default();
            spans.insert(None, (from_ns, to_ns));
            for run in together {
                series.insert(first, run.group.clone(), &run.histogram)?;
                let number = series.groups.iter().position(|group| *group == run.group).map(|number| number as u32);
                let spans = series.runs.0.entry(first).or_default();
                let (from_ns, to_ns) = spans.entry(number).or_insert((run.from_ns, run.to_ns));
                (*from_ns, *to_ns) = ((*from_ns).min(run.from_ns), (*to_ns).max(run.to_ns));
            }
        }
        Ok(series)
    }

    /// Whether its intervals are whole runs ([`HistogramSeries::of_runs`]).
    pub fn is_of_runs(&self) -> bool {
        !self.runs.0.is_empty()
    }

    /// Start and length, nanoseconds, of the time to which the events of a group (or of all) in an interval belong: that of the
    /// interval, but where it is of whole runs that of these.
    pub fn span_of(&self, interval: i64, group: Option<u32>) -> (i64, u64) {
        let spans = self.runs.0.get(&interval);
        let span = spans.and_then(|spans| spans.get(&group).or_else(|| spans.get(&None)));
        match span {
            Some(&(from_ns, to_ns)) => (from_ns, to_ns.abs_diff(from_ns)),
            None => (self.start_ns(interval), self.width_of(interval)),
        }
    }

    /// Only the runs of one interval.
    pub(crate) fn runs_of(&self, interval: i64) -> Spans {
        Spans(self.runs.0.get(&interval).map(|spans| (interval, spans.clone())).into_iter().collect())
    }
}

/// Runs, in the order of their starts, put together where they overlap.
fn overlapping(runs: Vec<Run>) -> Vec<Vec<Run>> {
    let mut together: Vec<Vec<Run>> = Vec::new();
    for run in runs {
        let joins = together.last().is_some_and(|last| {
            let (from_ns, to_ns) = span(last);
            let shared_ns = to_ns.min(run.to_ns).saturating_sub(run.from_ns).max(0).unsigned_abs();
            let shorter_ns = to_ns.abs_diff(from_ns).min(run.to_ns.abs_diff(run.from_ns));
            shared_ns >= shorter_ns.div_ceil(OVERLAP)
        });
        match together.last_mut().filter(|_| joins) {
            Some(last) => last.push(run),
            None => together.push(vec![run]),
        }
    }
    together
}

/// From the start of the first to the end of the last.
fn span(runs: &[Run]) -> (i64, i64) {
    let from_ns = runs.iter().map(|run| run.from_ns).min().unwrap_or(0);
    (from_ns, runs.iter().map(|run| run.to_ns).max().unwrap_or(0).max(from_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_histogram::{Grid, Histogram};
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn run(from_ms: i64, to_ms: i64, job: &str, count: u64) -> Run {
        let mut histogram = Histogram::new(Grid::FINE, false);
        histogram.record_many(count * 1000, count, 0);
        let (from_ns, to_ns) = (from_ms * MS, to_ms * MS);
        Run { from_ns, to_ns, group: vec![job.into()], histogram: histogram.to_sparse() }
    }

    fn series(runs: &[Run]) -> HistogramSeries {
        HistogramSeries::of_runs(Quantity::Latency, Weight::Count, vec![Field::Job], runs.to_vec()).unwrap()
    }

    /// Start, length and count of all, and of each job.
    fn spans(series: &HistogramSeries) -> Vec<(i64, u64, u64)> {
        let row = |interval: i64, group: Option<u32>| {
            let (from_ns, width_ns) = series.span_of(interval, group);
            (from_ns / MS, width_ns / MS as u64, series.at(interval, group).totals().count)
        };
        let groups = |(&interval, slice): (&i64, &crate::Slice)| {
            let numbers: Vec<_> = slice.groups.iter().map(|&(number, _)| Some(number)).collect();
            std::iter::once(None).chain(numbers).map(move |group| row(interval, group)).collect::<Vec<_>>()
        };
        series.slices().iter().flat_map(groups).collect()
    }

    #[test]
    fn runs_that_overlap_are_one_interval_and_keep_their_own_times() {
        let series = series(&[run(1000, 11_000, "a", 7), run(1003, 6003, "b", 5)]);
        assert_eq!(spans(&series), [(1000, 10_000, 12), (1000, 10_000, 7), (1003, 5000, 5)]);
        assert!(series.is_of_runs() && !series.is_partial(20));
        assert!(series.rebinned(series.width_ns() * 2).is_none(), "it is not merged with anything");
        assert_eq!(series.clone().merged_until(1.0), series, "and no interval is merged to another");
    }

    #[test]
    fn runs_one_after_the_other_stand_apart_however_close() {
        let series = series(&[run(0, 5000, "a", 1), run(5000, 5001, "b", 2), run(5001, 9000, "c", 3)]);
        let all = [(0, 5000, 1), (0, 5000, 1), (5000, 1, 2), (5000, 1, 2), (5001, 3999, 3), (5001, 3999, 3)];
        assert_eq!(spans(&series), all);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_overlaps(
            times in proptest::collection::vec((-100_000i64..100_000, 1i64..50_000, 1u64..9), 1..40),
        ) {
            let runs: Vec<Run> = times.iter().map(|&(from, length, count)| run(from, from + length, "x", count)).collect();
            let series = series(&runs);
            prop_assert_eq!(series.total(None).totals().count, times.iter().map(|time| time.2).sum::<u64>());
            let intervals: Vec<i64> = series.slices().keys().copied().collect();
            for pair in intervals.windows(2) {
                prop_assert!(series.after(pair[0]) <= pair[1]);
            }
            let spans: Vec<_> = intervals.iter().map(|&at| series.span_of(at, None)).collect();
            for run in &runs {
                let length_ns = run.to_ns.abs_diff(run.from_ns);
                let holds = |&(from_ns, width_ns): &(i64, u64)| {
                    from_ns <= run.from_ns && from_ns + width_ns as i64 >= run.to_ns && width_ns >= length_ns
                };
                prop_assert!(spans.iter().any(holds), "each run lies within one interval");
            }
        }
    }
}
