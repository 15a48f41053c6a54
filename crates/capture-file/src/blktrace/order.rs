//! The order of the records of one stream, in which each CPU is in order by itself.

use super::Item;
use crate::time_order::Sorter;
use std::ops::ControlFlow;

/// The records of several CPUs may come in pieces: those of so long are held back,
const WINDOW_NS: i64 = 1_000_000_000;
/// unless so many came in order, as what blkparse and ftrace write does.
const IN_ORDER: u64 = 1 << 17;
/// How often records are let go.
const RELEASED_AT_ONCE: u64 = 1024;

/// Puts what comes out of a stream in order.
pub struct Order {
    sorter: Sorter<Item>,
    newest_ns: i64,
    count: u64,
    /// Whether nothing came late so far.
    is_sorted: bool,
    /// Whether what comes need not be held back.
    passes: bool,
}

impl Order {
    /// Nothing has come yet.
    pub fn new() -> Order {
        Order { sorter: Sorter::new(), newest_ns: i64::MIN, count: 0, is_sorted: true, passes: false }
    }

    /// Whether the next item of the stream, of this time, is the next in order, too, and has to be taken at once. Else it
    /// has to be held.
    #[inline(always)]
    pub fn is_next(&mut self, time_ns: i64) -> bool {
        if time_ns < self.newest_ns {
            self.stop_passing();
        } else {
            self.newest_ns = time_ns;
        }
        self.passes
    }

    /// Something is late.
    #[cold]
    fn stop_passing(&mut self) {
        if self.passes {
            self.sorter.pass(self.newest_ns);
        }
        (self.is_sorted, self.passes) = (false, false);
    }

    /// Holds an item back that is not to be taken at once.
    pub fn hold(&mut self, item: Item) {
        self.sorter.push(item.time_ns(), item);
    }

    /// Behind each record of the stream: lets go what nothing can come before, every now and then.
    #[inline(always)]
    pub fn release(&mut self, take: &mut impl FnMut(&Item) -> ControlFlow<()>) -> ControlFlow<()> {
        self.count += 1;
        if self.passes || !(self.count.is_multiple_of(RELEASED_AT_ONCE) || self.sorter.is_full()) {
            return ControlFlow::Continue(());
        }
        self.release_held(take)
    }

    /// Lets go what nothing can come before.
    pub fn release_held(&mut self, take: &mut impl FnMut(&Item) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut take = |_, item: &Item| take(item);
        if self.sorter.is_full() {
            return self.sorter.release_half(&mut take);
        }
        self.passes = self.is_sorted && self.count >= IN_ORDER;
        let until_ns = if self.passes { i64::MAX } else { self.newest_ns.saturating_sub(WINDOW_NS) };
        self.sorter.release(until_ns, &mut take)
    }

    /// At the end of the stream: lets go all that is left. Returns how many came too late to be put in order.
    pub fn finish(mut self, take: &mut impl FnMut(&Item) -> ControlFlow<()>) -> u64 {
        let _ = self.sorter.release(i64::MAX, &mut |_, item| take(item));
        self.sorter.late()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::LossRange;

    fn item(time_ns: i64) -> Item {
        Item::Lost(LossRange { start_ns: 0, end_ns: time_ns, cpu: None, records: 1 })
    }

    /// After a long ordered start records pass at once; the first that is late ends that, and later ones are sorted again.
    #[test]
    fn a_late_record_behind_a_long_ordered_start_is_counted_and_order_returns() {
        let (mut order, mut times) = (Order::new(), Vec::new());
        let mut add = |order: &mut Order, time_ns: i64| {
            if order.is_next(time_ns) {
                times.push(time_ns);
            } else {
                order.hold(item(time_ns));
            }
            let _ = order.release(&mut |item| {
                times.push(item.time_ns());
                ControlFlow::Continue(())
            });
        };
        let start = IN_ORDER as i64;
        (1..=start).for_each(|time_ns| add(&mut order, time_ns));
        assert!(order.passes);
        add(&mut order, start + 10);
        for late in [start + 5, start + 30, start + 20] {
            add(&mut order, late);
        }
        assert!(!order.passes);
        let late = order.finish(&mut |item| {
            times.push(item.time_ns());
            ControlFlow::Continue(())
        });
        let expected: Vec<i64> = (1..=start).chain([10, 5, 20, 30].map(|more| start + more)).collect();
        assert_eq!((late, times == expected), (1, true));
    }
}
