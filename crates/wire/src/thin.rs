//! Neighbouring intervals as one: what a queue that is nearly full does before it drops anything.
//!
//! The record keeps all of its intervals, and which time was observed, so that hubs, journals and views need no other kind of record. Their
//! histograms are merged into the first of them. Blocks start at whole multiples of their length, so percentiles over blocks are exact.

use crate::reduce::merge;
use crate::{Data, IntervalRow, Parts, Record};
use latscope_event::{Anomaly, Tally};
use std::collections::BTreeMap;
use std::mem::take;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A record, and the sequence numbers of those that it was made of.
pub struct Thinned {
    /// What to keep.
    pub record: Arc<Record>,
    /// Its numbers.
    pub sequences: RangeInclusive<u64>,
    /// How many intervals it has.
    pub intervals: u64,
}

/// Merges records of one run, ascending by sequence number, whose intervals follow each other, by blocks of so many intervals. Records that
/// cannot be read are left out.
pub fn thin(records: impl IntoIterator<Item = Arc<Record>>, block: u32) -> Vec<Thinned> {
    let (mut thinned, mut open) = (Vec::new(), None::<Open>);
    for record in records {
        let Ok(data) = Data::parse(&record) else { continue };
        let next = Open { data, only: Some(record) };
        open = Some(match open.take() {
            Some(open) if open.is_followed_by(&next.data, i64::from(block)) => open.with(next.data),
            Some(open) => {
                thinned.push(open.finish());
                next
            }
            None => next,
        });
    }
    thinned.extend(open.map(Open::finish));
    thinned
}

/// A block to which more may come.
struct Open {
    data: Data,
    /// The record itself where nothing was merged.
    only: Option<Arc<Record>>,
}

impl Open {
    fn is_followed_by(&self, next: &Data, block: i64) -> bool {
        let (head, last) = (&self.data.head, next.head.start + next.rows.len() as i64 - 1);
        head.run == next.head.run
            && head.width_ns == next.head.width_ns
            && head.sequences.end().checked_add(1) == Some(*next.head.sequences.start())
            && head.start + self.data.rows.len() as i64 == next.head.start
            && head.start.div_euclid(block) == last.div_euclid(block)
    }

    fn with(mut self, next: Data) -> Open {
        let head = &mut self.data.head;
        head.sequences = *head.sequences.start()..=*next.head.sequences.end();
        self.data.rows.extend(next.rows);
        Open { data: self.data, only: None }
    }

    fn finish(mut self) -> Thinned {
        let (intervals, sequences) = (self.data.rows.len() as u64, self.data.head.sequences.clone());
        let record = self.only.unwrap_or_else(|| {
            self.data.head.intervals = intervals;
            self.data.rows = merged(self.data.rows);
            Arc::new(self.data.record())
        });
        Thinned { record, sequences, intervals }
    }
}

/// The intervals with what completed in all of them in the first, and what waited at their end in the last.
fn merged(mut rows: Vec<IntervalRow>) -> Vec<IntervalRow> {
    let (mut done, mut waiting, count) = (BTreeMap::<u32, Parts>::new(), Vec::new(), rows.len() as u64);
    for row in &mut rows {
        waiting.clear();
        for (group, parts) in take(&mut row.groups) {
            merge(&mut done.entry(group).or_default().done, parts.done);
            waiting.push((group, Parts { done: None, waiting: parts.waiting }));
        }
        // They may have been merged before.
        let mut others = Tally::default();
        let is_other = |(anomaly, _): &(Anomaly, u64)| *anomaly != Anomaly::MergedIntervals;
        row.tally.iter().filter(is_other).for_each(|(anomaly, count)| others.add(anomaly, count));
        row.tally = others;
    }
    waiting.retain(|(_, parts)| parts.waiting.is_some());
    if let Some(last) = rows.last_mut() {
        last.groups = waiting;
    }
    if let Some(first) = rows.first_mut() {
        done.retain(|_, parts| parts.done.is_some());
        first.groups = done.into_iter().collect();
        first.tally.add(Anomaly::MergedIntervals, count);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Head, Id};
    use latscope_histogram::{Grid, Histogram, Sparse};
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> Option<Sparse> {
        let mut histogram = Histogram::new(Grid::FINE, false);
        values.iter().for_each(|&value| histogram.record(value, 0));
        (!values.is_empty()).then(|| histogram.to_sparse())
    }

    /// Values by group, one list for each interval; with what waits.
    type Intervals = Vec<Vec<(Vec<u64>, bool)>>;

    fn records(intervals: &Intervals, start: i64) -> Vec<Arc<Record>> {
        let row = |groups: &Vec<(Vec<u64>, bool)>| {
            let parts = |(values, waits): &(Vec<u64>, bool)| Parts {
                done: histogram(values),
                waiting: if *waits { histogram(&[values.len() as u64 + 5]) } else { None },
            };
            let groups = (0..).zip(groups.iter().map(parts));
            let groups = groups.filter(|(_, parts)| parts.done.is_some() || parts.waiting.is_some()).collect();
            IntervalRow { covered_ns: 1_000_000_000, groups, ..IntervalRow::default() }
        };
        let record = |(at, groups): (usize, &Vec<(Vec<u64>, bool)>)| {
            let (sequences, start) = (at as u64..=at as u64, start + at as i64);
            let head = Head { run: Id([1; 16]), sequences, start, width_ns: 1_000_000_000, intervals: 1 };
            Arc::new(Data { head, rows: vec![row(groups)] }.record())
        };
        intervals.iter().enumerate().map(record).collect()
    }

    /// What completed, by block and group, counted value by value.
    fn truth(intervals: &Intervals, start: i64, block: i64) -> BTreeMap<(i64, u32), Sparse> {
        let mut values = BTreeMap::<(i64, u32), Vec<u64>>::new();
        for (at, groups) in intervals.iter().enumerate() {
            for (group, (more, _)) in (0..).zip(groups).filter(|(_, (more, _))| !more.is_empty()) {
                values.entry(((start + at as i64).div_euclid(block), group)).or_default().extend(more);
            }
        }
        values.into_iter().filter_map(|(key, values)| Some((key, histogram(&values)?))).collect()
    }

    fn read(thinned: &[Thinned], block: i64) -> BTreeMap<(i64, u32), Sparse> {
        let mut all = BTreeMap::new();
        for one in thinned {
            let data = Data::parse(&one.record).unwrap();
            assert_eq!((&data.head.sequences, data.head.intervals), (&one.sequences, one.intervals));
            for (interval, row) in (data.head.start..).zip(data.rows) {
                assert_eq!(row.covered_ns, 1_000_000_000);
                for (group, parts) in row.groups {
                    merge(all.entry((interval.div_euclid(block), group)).or_default(), parts.done);
                }
            }
        }
        all.into_iter().filter_map(|(key, done)| Some((key, done?))).collect()
    }

    proptest! {
        /// Over blocks the histograms are those of all values, whether intervals are merged at once or in two steps.
        #[test]
        fn blocks_have_what_their_intervals_had(
            intervals in proptest::collection::vec(
                proptest::collection::vec((proptest::collection::vec(any::<u32>().prop_map(u64::from), 0..4), any::<bool>()), 0..3),
                1..130,
            ),
            start in -70i64..70,
        ) {
            let all = records(&intervals, start);
            let tens = thin(all.iter().cloned(), 10);
            let again = thin(tens.iter().map(|one| Arc::clone(&one.record)), 60);
            let sixties = thin(all.iter().cloned(), 60);
            prop_assert!(again.iter().map(|one| &one.record).eq(sixties.iter().map(|one| &one.record)));
            for (thinned, block) in [(&tens, 10), (&sixties, 60)] {
                prop_assert_eq!(read(thinned, block), truth(&intervals, start, block));
                let numbers: Vec<u64> = thinned.iter().flat_map(|one| one.sequences.clone()).collect();
                prop_assert!(numbers.iter().copied().eq(0..intervals.len() as u64));
                let blocks = (start + intervals.len() as i64 - 1).div_euclid(block) - start.div_euclid(block) + 1;
                prop_assert_eq!(thinned.len() as i64, blocks);
            }
            // What waited at the end of a block still does.
            let last = Data::parse(&tens.last().unwrap().record).unwrap().rows.pop().unwrap();
            let waiting = last.groups.iter().filter(|(_, parts)| parts.waiting.is_some()).count();
            prop_assert_eq!(waiting, intervals.last().unwrap().iter().filter(|(_, waits)| *waits).count());
        }
    }

    #[test]
    fn what_does_not_follow_stays_apart() {
        let all = records(&vec![vec![(vec![7], false)]; 6], 0);
        let thinned = thin([0, 1, 3, 4].map(|at: usize| Arc::clone(&all[at])), 10);
        let numbers: Vec<_> = thinned.iter().map(|one| one.sequences.clone()).collect();
        assert_eq!(numbers, [0..=1, 3..=4]);
        let one = thin([Arc::clone(&all[2])], 10);
        assert_eq!(one[0].record, all[2]);
    }
}
