//! Puts records of several CPUs into the order of time, in bounded memory.
//!
//! perf writes the buffer of one CPU after the other, and each is in order by itself, so what comes in is a sequence of
//! sorted runs. They are merged, not sorted: a record is written once and read once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// The largest number of records that are held back. Two rounds of a machine with 128 CPUs and full buffers fit.
const HELD_LIMIT: usize = 1 << 19;
/// More runs than this come only from a file that was made to be slow.
const RUNS_LIMIT: usize = 1 << 14;

struct Run<T> {
    /// With their times, nanoseconds.
    items: Vec<(i64, T)>,
    head: usize,
}

/// Holds records back until no earlier one can come.
pub struct Sorter<T> {
    /// In order of arrival, which decides between equal times.
    runs: Vec<Run<T>>,
    spare: Vec<Vec<(i64, T)>>,
    heads: BinaryHeap<Reverse<(i64, usize)>>,
    held: usize,
    newest_ns: i64,
    released_ns: i64,
    late: u64,
}

impl<T> Sorter<T> {
    /// An empty one.
    pub fn new() -> Sorter<T> {
        Sorter {
            runs: Vec::new(),
            spare: Vec::new(),
            heads: BinaryHeap::new(),
            held: 0,
            newest_ns: i64::MIN,
            released_ns: i64::MIN,
            late: 0,
        }
    }

    /// Takes the next record of the file.
    #[inline(always)]
    pub fn push(&mut self, time_ns: i64, item: T) {
        self.newest_ns = self.newest_ns.max(time_ns);
        self.late += u64::from(time_ns < self.released_ns);
        self.held += 1;
        if let Some(run) = self.runs.last_mut()
            && run.items.last().is_none_or(|last| last.0 <= time_ns)
        {
            run.items.push((time_ns, item));
            return;
        }
        let mut items = self.spare.pop().unwrap_or_default();
        items.push((time_ns, item));
        self.runs.push(Run { items, head: 0 });
    }

    /// What comes in earlier than this is late: a record of this time went past the sorter.
    pub fn pass(&mut self, time_ns: i64) {
        self.released_ns = self.released_ns.max(time_ns);
    }

    /// The latest time that came in.
    pub fn newest_ns(&self) -> i64 {
        self.newest_ns
    }

    /// How many records came later than a record of a later time was released.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Whether so much is held that something must go, complete or not.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.held >= HELD_LIMIT || self.runs.len() >= RUNS_LIMIT
    }

    /// Hands out, in order of time, all records up to a moment.
    pub fn release(&mut self, until_ns: i64, take: &mut impl FnMut(i64, &T) -> ControlFlow<()>) -> ControlFlow<()> {
        self.hand_out(until_ns, usize::MAX, take)
    }

    /// Hands out the earlier half, however early the records that may still come.
    pub fn release_half(&mut self, take: &mut impl FnMut(i64, &T) -> ControlFlow<()>) -> ControlFlow<()> {
        self.hand_out(i64::MAX, self.held / 2 + 1, take)
    }

    fn hand_out(
        &mut self,
        until_ns: i64,
        mut at_most: usize,
        take: &mut impl FnMut(i64, &T) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.heads.clear();
        for (index, run) in self.runs.iter().enumerate() {
            self.heads.extend(run.items.get(run.head).map(|item| Reverse((item.0, index))));
        }
        while let Some(Reverse((time_ns, index))) = self.heads.pop() {
            if time_ns > until_ns || at_most == 0 {
                break;
            }
            let bound = self.heads.peek().map_or((i64::MAX, usize::MAX), |&Reverse(bound)| bound);
            let run = &mut self.runs[index];
            while let Some(&(time_ns, ref item)) = run.items.get(run.head) {
                if time_ns > until_ns || (time_ns, index) > bound || at_most == 0 {
                    self.heads.push(Reverse((time_ns, index)));
                    break;
                }
                run.head += 1;
                self.held -= 1;
                at_most -= 1;
                self.released_ns = self.released_ns.max(time_ns);
                take(time_ns, item)?;
            }
        }
        self.tidy();
        ControlFlow::Continue(())
    }

    /// Gives the memory of what was handed out back to new runs.
    fn tidy(&mut self) {
        for run in &mut self.runs {
            // A run that never ends must not grow for ever.
            if run.head * 2 >= run.items.len() {
                run.items.drain(..run.head);
                run.head = 0;
            }
        }
        let spare = &mut self.spare;
        self.runs.retain_mut(|run| {
            let keep = !run.items.is_empty();
            // Few large ones and many small ones serve both a round after round of two CPUs and of two hundred.
            if !keep && (spare.len() < 4 || spare.len() < 512 && run.items.capacity() <= 1024) {
                spare.push(std::mem::take(&mut run.items));
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(out: &mut Vec<(i64, usize)>) -> impl FnMut(i64, &(i64, usize)) -> ControlFlow<()> {
        |_, item| {
            out.push(*item);
            ControlFlow::Continue(())
        }
    }

    proptest! {
        #[test]
        fn rounds_come_out_as_a_stable_sort(rounds in prop::collection::vec(prop::collection::vec(0i64..40, 0..30), 0..8)) {
            let (mut sorter, mut out, mut all) = (Sorter::new(), Vec::new(), Vec::new());
            let mut before = i64::MIN;
            for (round, times) in rounds.iter().enumerate() {
                for &time in times {
                    // A round may hold what is a little earlier than the newest of the one before.
                    let item = (time + 30 * round as i64, all.len());
                    if item.0 > before.saturating_sub(1) {
                        all.push(item);
                        sorter.push(item.0, item);
                    }
                }
                let _ = sorter.release(before, &mut collect(&mut out));
                before = sorter.newest_ns();
            }
            let _ = sorter.release(i64::MAX, &mut collect(&mut out));
            all.sort_by_key(|item| item.0);
            prop_assert_eq!(&out, &all);
            prop_assert_eq!(sorter.held, 0);
        }
    }

    #[test]
    fn a_full_sorter_lets_the_earlier_half_go_and_counts_what_comes_late() {
        let (mut sorter, mut out) = (Sorter::new(), Vec::new());
        for index in 0..10 {
            let time_ns = if index % 2 == 0 { index } else { 100 - index };
            sorter.push(time_ns, (time_ns, index as usize));
        }
        let _ = sorter.release_half(&mut collect(&mut out));
        assert_eq!(out.iter().map(|item| item.0).collect::<Vec<_>>(), [0, 2, 4, 6, 8, 91]);
        sorter.push(90, (90, 10));
        assert_eq!(sorter.late(), 1);
        let _ = sorter.release(i64::MAX, &mut collect(&mut out));
        assert_eq!(out.len(), 11);
    }

    #[test]
    fn one_endless_run_does_not_keep_what_was_handed_out() {
        let mut sorter = Sorter::new();
        for index in 0..100_000 {
            sorter.push(index, ());
            if index % 100 == 0 {
                let _ = sorter.release(index - 50, &mut |_, &()| ControlFlow::Continue(()));
            }
        }
        assert!(sorter.runs[0].items.len() < 1000);
    }
}
