//! Intervals as they pass: what prints them need not wait for the end.

use crate::live::{self, Events, INTERVAL_NS};
use crate::series::missing_groups;
use crate::{Error, Folding, Note, Origin, Pipeline, stream};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder, Waiter};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

/// So long after an interval its events are all there: ring buffers are read ten times a second.
const SLACK_NS: i64 = 300_000_000;

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

    /// Whether an interval is complete only when all events are known that began in it.
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

    /// Takes the intervals before a certain one that have passed since the last call, with what waited at their end.
    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Self::Error>;
}

impl Pipeline {
    /// Hands on intervals as they close, those without events too: of a capture as they pass, of a stream when no more events
    /// are expected in them. Returns the final context.
    ///
    /// # Errors
    /// What the taker breaks off with; and when input or capture fail.
    pub fn intervals<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
        if self.reading.live.is_none() {
            return stream::read(self, folding, taker);
        }
        let mut groups = Groups { taker, missing: folding.by.clone(), is_empty: true };
        let needs_events = groups.fields() != FieldSet::default();
        let context = if !needs_events && self.origin(folding)? == Origin::Kernel {
            self.counted_intervals(folding, &mut groups)?
        } else {
            let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
            let mut builder = builder(folding, width_ns);
            let events = self.capture(builder.fields().union(groups.fields()))?;
            builder.begin_trace();
            folded(events, builder, folding, width_ns, &mut groups)?
        };
        if !groups.is_empty && !groups.missing.is_empty() {
            self.control.note(Note::Ungrouped(groups.missing));
        }
        Ok(context)
    }

    /// Reads files in any order; all intervals are handed on at the end. Returns the context of every file.
    ///
    /// # Errors
    /// As [`Pipeline::intervals`].
    pub fn intervals_of_whole<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Vec<Context>, T::Error> {
        stream::read_whole(self, folding, taker)
    }
}

/// Sees which fields of the groups no interval has.
struct Groups<'a, T> {
    taker: &'a mut T,
    missing: Vec<Field>,
    is_empty: bool,
}

impl<T: Intervals> Intervals for Groups<'_, T> {
    type Error = T::Error;

    fn fields(&self) -> FieldSet {
        self.taker.fields()
    }

    fn events(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), T::Error> {
        self.taker.events(context, batch, mask)
    }

    fn waiting(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), T::Error> {
        self.taker.waiting(context, batch, mask)
    }

    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), T::Error> {
        let still = missing_groups(series);
        self.is_empty &= series.groups().is_empty();
        if !series.groups().is_empty() {
            self.missing.retain(|field| still.contains(field));
        }
        self.taker.passed(series, before, context)
    }
}

fn builder(folding: &Folding, width_ns: u64) -> SeriesBuilder {
    let builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Fixed(width_ns));
    let builder = builder.on_grid(folding.precision);
    if folding.values_only { builder.values_only() } else { builder }
}

/// What waited at the end of intervals.
type Looks = Vec<(Range<i64>, Vec<Waiter>)>;

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

/// Folds captured events and hands on the intervals as they pass.
fn folded<T: Intervals>(
    mut events: Events,
    mut builder: SeriesBuilder,
    folding: &Folding,
    width_ns: u64,
    taker: &mut T,
) -> Result<Context, T::Error> {
    let number = |ns: i64| ns.div_euclid(width_ns as i64);
    let start_ns = live::now_ns();
    let mut next = number(start_ns);
    let mut unseen = next;
    let mut looks: Looks = Vec::new();
    while !events.is_over() {
        let due_ns = (unseen + 1).saturating_mul(width_ns as i64).saturating_sub(live::now_ns());
        let due = Duration::from_nanos(due_ns.max(0).unsigned_abs());
        events.poll(due.min(live::TURN), &mut |context, batch, mask| {
            builder.add(batch, mask);
            flow(taker.events(context, batch, mask))
        })?;
        let now = number(live::now_ns());
        let wants_events = taker.fields() != FieldSet::default();
        if now > unseen || wants_events {
            let waiters = look(&mut events, folding, taker, wants_events)?;
            if now > unseen {
                looks.push((unseen..now, waiters));
                unseen = now;
            }
        }
        let open = number(live::now_ns() - SLACK_NS);
        if open > next {
            let of: Looks = looks.extract_if(.., |(intervals, _)| intervals.end <= open).collect();
            let mut series = complete(builder.take_before(open), folding, &of, next..open);
            series.observe(start_ns, live::now_ns());
            taker.passed(&series, open, events.context())?;
            next = open;
        }
    }
    let ended_ns = live::now_ns();
    let now = number(ended_ns);
    let waiters = look(&mut events, folding, taker, false)?;
    looks.push((unseen..now + 1, waiters));
    let context = events.finish(&mut |context, batch, mask| {
        builder.add(batch, mask);
        flow(taker.events(context, batch, mask))
    })?;
    let mut series = complete(builder.finish(), folding, &looks, next..now);
    series.observe(start_ns, ended_ns);
    taker.passed(&series, now + 1, &context)?;
    Ok(context)
}

/// What waits now, which is handed on too where that is wanted.
fn look<T: Intervals>(
    events: &mut Events,
    folding: &Folding,
    taker: &mut T,
    is_wanted: bool,
) -> Result<Vec<Waiter>, T::Error> {
    let mut waiters = Vec::new();
    events.waiting(&mut |context, batch, mask| {
        waiters = Waiter::of_batch(batch, mask, &folding.by);
        if is_wanted { flow(taker.waiting(context, batch, mask)) } else { ControlFlow::Continue(()) }
    })?;
    Ok(waiters)
}

/// A result as the flow of a loop.
pub fn flow<E>(result: Result<(), E>) -> ControlFlow<E> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
