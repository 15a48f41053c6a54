//! Intervals that become as long as they have to be while they pass: they fill, and are shown when they have enough events.

use crate::merged::{FAR, STALL, USUAL};
use crate::{HistogramSeries, waiting::Waits};
use latscope_histogram::{Histogram, Rule};
use std::collections::BTreeMap;

/// Merges intervals as they pass; see [`HistogramSeries::merged_until`] for those that have.
///
/// In a stall every interval stands alone, so that it is seen while it lasts: one in which the median, raised by what waits, is ten
/// times what nine of ten events so far kept to, or, before any event, longer than the interval.
pub struct IntervalMerger {
    /// Events that an interval has to have.
    enough: f64,
    /// The interval that fills.
    run: Option<Run>,
    /// Intervals at its end that may be the start of a stall.
    doubtful: Vec<HistogramSeries>,
    in_stall: bool,
    /// All events so far.
    past: Option<Histogram>,
    /// Intervals so far.
    intervals: u64,
}

/// Intervals one after the other.
struct Run {
    first: i64,
    length: u64,
    sum: HistogramSeries,
}

impl IntervalMerger {
    /// Merges intervals until there are so many events.
    pub fn new(events: f64) -> IntervalMerger {
        IntervalMerger { enough: events, run: None, doubtful: Vec::new(), in_stall: false, past: None, intervals: 0 }
    }

    /// How many events the open interval has, and how many it has to have.
    pub fn filled(&self) -> (f64, f64) {
        let run = self.run.as_ref().map_or(0.0, |run| events(&run.sum));
        (run + self.doubtful.iter().map(events).sum::<f64>(), self.enough)
    }

    /// Takes intervals that have passed, in order; returns those that are complete now.
    pub fn add(&mut self, series: &HistogramSeries) -> Vec<HistogramSeries> {
        let mut complete = Vec::new();
        for &interval in series.slices().keys() {
            self.add_one(HistogramSeries { observed_ns: series.observed_ns, ..series.only(interval) }, &mut complete);
        }
        complete
    }

    fn add_one(&mut self, one: HistogramSeries, complete: &mut Vec<HistogramSeries>) {
        let is_far = self.is_far(&one);
        self.intervals += 1;
        self.past
            .get_or_insert_with(|| Histogram::new(one.grid(), one.is_weighted()))
            .add(&one.total(None).to_sparse());
        if is_far && self.in_stall {
            return complete.push(one);
        }
        if is_far {
            self.doubtful.push(one);
            if self.doubtful.len() as u64 > (self.intervals / STALL).max(2) {
                self.in_stall = true;
                complete.extend(self.run.take().map(Run::merged));
                complete.append(&mut self.doubtful);
            }
            return;
        }
        self.in_stall = false;
        let before = std::mem::take(&mut self.doubtful);
        before.into_iter().chain([one]).for_each(|one| Run::extend(&mut self.run, one));
        if self.run.as_ref().is_some_and(|run| events(&run.sum) >= self.enough) {
            complete.extend(self.run.take().map(Run::merged));
        }
    }

    fn is_far(&self, one: &HistogramSeries) -> bool {
        let usual = self.past.as_ref().and_then(|past| past.quantiles(&[USUAL], Rule::Interpolated));
        let Some((interval, _)) = one.range() else { return false };
        let here = one.at(interval, None).to_sparse();
        let waiting = one.waiting(interval, None);
        let Some(median) = waiting.quantiles(&here, &[0.5], Rule::Interpolated) else { return false };
        match usual {
            Some(usual) => median[0].value / FAR >= usual[0].max(1),
            // Nothing ever completed; what waits for longer than an interval may never do.
            None => waiting.count() > 0 && median[0].value >= one.width_ns(),
        }
    }

    /// What is left at the end: an interval with fewer events.
    pub fn finish(mut self) -> Option<HistogramSeries> {
        let doubtful = std::mem::take(&mut self.doubtful);
        doubtful.into_iter().for_each(|one| Run::extend(&mut self.run, one));
        self.run.map(Run::merged)
    }
}

fn events(series: &HistogramSeries) -> f64 {
    series.group_totals().iter().map(|totals| totals.count).sum::<u64>() as f64 / series.per_event() as f64
}

impl Run {
    /// Adds the interval that follows.
    fn extend(run: &mut Option<Run>, mut one: HistogramSeries) {
        let Some((interval, _)) = one.range() else { return };
        let Some(run) = run else {
            *run = Some(Run { first: interval, length: 1, sum: one });
            return;
        };
        run.length = interval.abs_diff(run.first) + 1;
        one.slices = one.slices.into_values().map(|slice| (run.first, slice)).collect();
        let labels = one.groups.clone();
        let mut waits = std::mem::take(&mut one.waits);
        waits.add_begun(std::mem::take(&mut run.sum.waits.begun));
        run.sum.observed_ns = one.observed_ns;
        // Series of one capture go together.
        if run.sum.merge(&one).is_ok() {
            let numbers: Vec<u32> = labels.iter().map(|label| run.sum.group_numbered(label)).collect();
            run.sum.waits = waits.moved(run.first, &numbers);
        }
    }

    fn merged(self) -> HistogramSeries {
        let mut sum = self.sum;
        sum.lengths.insert(self.first, self.length);
        sum
    }
}

impl Waits {
    /// What waits at the end of one interval as that of another one, in groups of other numbers.
    fn moved(self, interval: i64, numbers: &[u32]) -> Waits {
        let groups: BTreeMap<u32, _> =
            self.once.clone().into_iter().map(|(group, ages)| (numbers[group as usize], ages)).collect();
        let mut moved = self;
        moved.once = groups;
        moved.within = [(interval, moved.once.clone())].into();
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quantity, Waiter, Weight};
    use latscope_histogram::Grid;
    use proptest::prelude::*;

    fn interval(number: i64, count: u64, value: u64) -> HistogramSeries {
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 100);
        let mut histogram = Histogram::new(Grid::FINE, false);
        histogram.record_many(value, count, 0);
        series.insert(number, Vec::new(), &histogram.to_sparse()).unwrap();
        series
    }

    /// Start, length and events of each.
    fn spans(series: &[HistogramSeries]) -> Vec<(i64, u64, u64)> {
        let one = |series: &HistogramSeries| {
            let (at, _) = series.range().unwrap();
            (at, series.width_of(at) / 100, series.at(at, None).totals().count)
        };
        series.iter().map(one).collect()
    }

    proptest! {
        /// The same as where all is known.
        #[test]
        fn equals_what_is_merged_afterwards(counts in proptest::collection::vec(1u64..40, 1..60), enough in 1u64..200) {
            let mut merger = IntervalMerger::new(enough as f64);
            let mut whole = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 100);
            let mut found = Vec::new();
            for (at, &count) in counts.iter().enumerate() {
                let one = interval(at as i64 - 20, count, 1000 + at as u64);
                whole.merge(&one).unwrap();
                found.extend(merger.add(&one));
            }
            found.extend(merger.finish());
            let expected = whole.merged_until(enough as f64);
            let expected: Vec<_> = expected.slices().keys()
                .map(|&at| (at, expected.width_of(at) / 100, expected.at(at, None).totals().count)).collect();
            prop_assert_eq!(spans(&found), expected);
        }
    }

    #[test]
    fn what_hangs_before_any_event_is_seen() {
        let mut merger = IntervalMerger::new(100.0);
        let mut found = Vec::new();
        for at in 0..6u64 {
            let mut silent = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 100);
            silent.pass(at as i64..at as i64 + 1);
            // Issued in the second interval.
            if let Some(age_ns) = (100 * at).checked_sub(50) {
                let waiter = Waiter { group: Vec::new(), start_ns: 150, age_ns, is_bound: false };
                silent.add_waiting(&[waiter], Some(at as i64..at as i64 + 1));
            }
            found.extend(merger.add(&silent));
        }
        assert_eq!(spans(&found), [(0, 2, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0), (5, 1, 0)]);
    }

    #[test]
    fn a_stall_stands_apart_while_it_lasts() {
        let mut merger = IntervalMerger::new(100.0);
        let mut found = Vec::new();
        (0..5).for_each(|at| found.extend(merger.add(&interval(at, 20, 1000))));
        assert_eq!(spans(&found), [(0, 5, 100)]);
        found.clear();
        (5..7).for_each(|at| found.extend(merger.add(&interval(at, 20, 1000))));
        // Nothing completes, and a request waits longer and longer.
        for at in 7..12 {
            let mut silent = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 100);
            silent.pass(at..at + 1);
            let waiter = Waiter {
                group: Vec::new(),
                start_ns: -1_000_000,
                age_ns: 1_000_000 + 100 * (at as u64 + 1),
                is_bound: false,
            };
            silent.add_waiting(&[waiter], Some(at..at + 1));
            found.extend(merger.add(&silent));
        }
        assert_eq!(spans(&found)[..2], [(5, 2, 40), (7, 1, 0)], "{:?}", spans(&found));
        assert_eq!(found.len(), 6, "each interval of the stall by itself");
        assert_eq!(found[5].waiting(11, None).count(), 1);
        (12..18).for_each(|at| found.extend(merger.add(&interval(at, 20, 1000))));
        assert_eq!(spans(&found)[6..], [(12, 5, 100)]);
        assert_eq!(merger.filled(), (20.0, 100.0));
    }
}
