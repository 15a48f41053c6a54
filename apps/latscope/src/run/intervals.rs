//! Intervals as they pass: what prints them need not wait for the end.

use super::live::{self, Counting, Events};
use super::read;
use crate::Failure;
use crate::plan::{Folding, Live, Reading};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder, Waiter};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

/// Width of intervals when it is not given.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// So long after an interval its events are all there: ring buffers are read ten times a second.
const SLACK_NS: i64 = 300_000_000;

/// What takes intervals as they pass.
pub trait Intervals {
    /// The fields of single events that it asks for; with any, the kernel cannot count for it.
    fn fields(&self) -> FieldSet {
        FieldSet::default()
    }

    /// Takes the events that the filter lets through, as they come.
    fn events(&mut self, _context: &Context, _batch: &Batch, _mask: Option<&Mask>) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes what waits, ten times a second, if it asks for fields of single events.
    fn waiting(&mut self, _context: &Context, _batch: &Batch, _mask: Option<&Mask>) -> Result<(), Failure> {
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
    fn late(&mut self, _series: &HistogramSeries, _context: &Context) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Takes the intervals before a certain one that have passed since the last call, with what waited at their end.
    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Failure>;
}

/// Captures until it is over and hands on the intervals as they pass, those without events too. Returns the final context.
pub fn live(
    reading: &Reading,
    capture: &Live,
    folding: &Folding,
    taker: &mut impl Intervals,
) -> Result<Context, Failure> {
    let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
    let mut groups = Groups { taker, untold: folding.by.clone(), is_empty: true };
    let context = if groups.fields() == FieldSet::default() && live::counts_in_kernel(reading, capture, folding)? {
        counted(Counting::start(reading, capture, folding, width_ns)?, capture, folding, &mut groups)?
    } else {
        let mut builder = builder(folding, width_ns);
        let events = Events::start(reading, capture, builder.fields().union(groups.fields()))?;
        builder.begin_trace();
        taken(events, builder, folding, width_ns, &mut groups)?
    };
    if !groups.is_empty {
        read::say_untold(&groups.untold);
    }
    Ok(context)
}

/// Sees which fields of the groups are told in any interval.
struct Groups<'a, T> {
    taker: &'a mut T,
    untold: Vec<Field>,
    is_empty: bool,
}

impl<T: Intervals> Intervals for Groups<'_, T> {
    fn fields(&self) -> FieldSet {
        self.taker.fields()
    }

    fn events(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.taker.events(context, batch, mask)
    }

    fn waiting(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.taker.waiting(context, batch, mask)
    }

    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Failure> {
        let still = read::untold(series);
        self.is_empty &= series.groups().is_empty();
        if !series.groups().is_empty() {
            self.untold.retain(|field| still.contains(field));
        }
        self.taker.passed(series, before, context)
    }
}

fn builder(folding: &Folding, width_ns: u64) -> SeriesBuilder {
    let builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Fixed(width_ns));
    if folding.values_only { builder.values_only() } else { builder }
}

fn counted(
    mut counting: Counting,
    capture: &Live,
    folding: &Folding,
    taker: &mut impl Intervals,
) -> Result<Context, Failure> {
    let until = live::Until::new(capture);
    let began_ns = live::now_ns();
    let mut next = began_ns.div_euclid(counting.width_ns() as i64);
    let mut over = false;
    while !over {
        std::thread::sleep(until.turn(counting.due().min(live::TURN)));
        over = until.is_over();
        if over || counting.due().is_zero() {
            let mut series = counting.series();
            let waiters = counting.waiters()?;
            let before = counting.collect(&mut series)? + 1;
            let mut series = complete(series, folding, &[(next..before, waiters)], next..before - i64::from(over));
            series.observe(began_ns, live::now_ns());
            taker.passed(&series, before, &counting.context())?;
            next = before;
        }
    }
    Ok(counting.context())
}

/// What waited at the end of intervals.
type Looks = Vec<(Range<i64>, Vec<Waiter>)>;

/// Adds to intervals that passed what waited, and those in which nothing happened.
fn complete(
    mut series: HistogramSeries,
    folding: &Folding,
    looks: &[(Range<i64>, Vec<Waiter>)],
    passed: Range<i64>,
) -> HistogramSeries {
    series.pass(passed);
    looks.iter().for_each(|(intervals, waiters)| series.add_waiting(waiters, Some(intervals.clone())));
    series.completed_only(folding.completed_only)
}

fn taken(
    mut events: Events,
    mut builder: SeriesBuilder,
    folding: &Folding,
    width_ns: u64,
    taker: &mut impl Intervals,
) -> Result<Context, Failure> {
    let number = |ns: i64| ns.div_euclid(width_ns as i64);
    let began_ns = live::now_ns();
    let mut next = number(began_ns);
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
            series.observe(began_ns, live::now_ns());
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
    series.observe(began_ns, ended_ns);
    taker.passed(&series, now + 1, &context)?;
    Ok(context)
}

/// What waits now, which is handed on too where that is wanted.
fn look(
    events: &mut Events,
    folding: &Folding,
    taker: &mut impl Intervals,
    is_wanted: bool,
) -> Result<Vec<Waiter>, Failure> {
    let mut waiters = Vec::new();
    events.waiting(&mut |context, batch, mask| {
        waiters = Waiter::of_batch(batch, mask, &folding.by);
        if is_wanted { flow(taker.waiting(context, batch, mask)) } else { ControlFlow::Continue(()) }
    })?;
    Ok(waiters)
}

fn flow(result: Result<(), Failure>) -> ControlFlow<Failure> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => ControlFlow::Break(failure),
    }
}
