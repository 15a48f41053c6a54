//! Intervals as they pass: what prints them need not wait for the end.

use crate::{Error, Folding};
use latscope_event::{Batch, Context, FieldSet, Mask};
use latscope_series::{HistogramSeries, Waiter};
use std::ops::{ControlFlow, Range};

/// What takes intervals as they pass.
pub trait Intervals {
    /// Why it may break off.
    type Error: From<Error>;

    /// The fields of single events that it asks for; with any, the kernel cannot count for it.
    fn fields(&self) -> FieldSet {
        FieldSet::default()
    }

    /// Takes the events that the filter lets through, as they come.
    fn events(&mut self, _context: &Context, _batch: &Batch, _mask: Option<&Mask>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Takes what waits, ten times a second, if it asks for fields of single events.
    fn waiting(&mut self, _context: &Context, _batch: &Batch, _mask: Option<&Mask>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether an interval is complete only when all events are known that started in it.
    fn looks_back(&self) -> bool {
        false
    }

    /// Whether it shows averages over windows, which are no distribution.
    fn takes_averages(&self) -> bool {
        false
    }

    /// What was read has ended, and the last intervals follow; nothing took longer than this, in nanoseconds.
    fn ends(&mut self, _context: &Context, _longest_ns: u64) {}

    /// Takes, after all others, events that came after their interval had passed; false when it has no place for them.
    fn late(&mut self, _series: &HistogramSeries, _context: &Context) -> Result<bool, Self::Error> {
        Ok(false)
    }

    /// The wall clock was set by so many nanoseconds. The intervals that follow have the new time; their numbers may have passed
    /// before.
    fn clock_stepped(&mut self, _step_ns: i64) {}

    /// Takes the intervals before a certain one that have passed since the last call, with what waited at their end.
    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Self::Error>;
}

/// What waited at the end of intervals.
pub type Looks = Vec<(Range<i64>, Vec<Waiter>)>;

/// Adds to intervals that passed what waited, and those in which nothing happened.
pub fn complete(
    mut series: HistogramSeries,
    folding: &Folding,
    looks: &[(Range<i64>, Vec<Waiter>)],
    passed: Range<i64>,
) -> HistogramSeries {
    series.pass(passed);
    looks.iter().for_each(|(intervals, waiters)| series.add_waiting(waiters, Some(intervals.clone())));
    series.completed_only(folding.completed_only)
}

/// A result as the flow of a loop.
pub fn flow<E>(result: Result<(), E>) -> ControlFlow<E> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
