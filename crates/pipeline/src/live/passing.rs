//! Intervals of a capture as they pass.

use super::{Events, INTERVAL_NS, TURN, Take};
use crate::intervals::{Intervals, Looks, complete, flow};
use crate::series::missing_groups;
use crate::{Error, Folding, Notice, Origin, Pipeline};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, Mask, WallClock};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder, Waiter};
use std::ops::ControlFlow;
use std::time::Duration;

/// So long after an interval its events are all there, if the ring buffers are read then.
const SLACK_NS: i64 = 200_000_000;

impl Pipeline {
    /// Captures until it is over and hands on the intervals as they pass, those without events too.
    pub(crate) fn live_intervals<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
        let needs_events = taker.fields() != FieldSet::default();
        if needs_events || self.origin(folding)? != Origin::Kernel {
            let fields = builder(folding, INTERVAL_NS).fields().union(taker.fields());
            return self.intervals_of(self.capture(fields)?, folding, taker);
        }
        let mut groups = Groups { taker, missing: folding.by.clone(), is_empty: true };
        let context = self.counted_intervals(folding, &mut groups)?;
        self.note_ungrouped(groups);
        Ok(context)
    }

    /// Folds events and hands on the intervals as they pass.
    pub(super) fn intervals_of<T: Intervals>(
        &self,
        running: impl Running,
        folding: &Folding,
        taker: &mut T,
    ) -> Result<Context, T::Error> {
        let mut groups = Groups { taker, missing: folding.by.clone(), is_empty: true };
        let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
        let mut builder = builder(folding, width_ns);
        builder.start_trace();
        let context = folded(running, builder, folding, width_ns, &mut groups)?;
        self.note_ungrouped(groups);
        Ok(context)
    }

    fn note_ungrouped<T>(&self, groups: Groups<'_, T>) {
        if !groups.is_empty && !groups.missing.is_empty() {
            self.control.notice(Notice::Ungrouped(groups.missing));
        }
    }
}

/// What hands on events as they complete, and what waits.
pub(super) trait Running: Sized {
    /// Whether it is over.
    fn is_over(&self) -> bool;

    /// Waits for events, at most so long, and hands them on; an empty batch comes last.
    fn poll<E: From<Error>>(&mut self, longest: Duration, take: &mut Take<E>) -> Result<(), E>;

    /// Hands on what waits now, as far as the filter lets it through.
    fn waiting<E: From<Error>>(&mut self, take: &mut Take<E>) -> Result<(), E>;

    /// Counts anew what was lost, and takes the time of the wall clock, which was set.
    fn refresh(&mut self) -> Result<(), Error>;

    /// What it says about itself by now.
    fn context(&self) -> Context;

    /// Ends it, hands on what is left and returns the final context.
    fn finish<E: From<Error>>(self, take: &mut Take<E>) -> Result<Context, E>;
}

impl Running for Events<'_> {
    fn is_over(&self) -> bool {
        self.is_over()
    }

    fn poll<E: From<Error>>(&mut self, longest: Duration, take: &mut Take<E>) -> Result<(), E> {
        self.poll(longest, take)
    }

    fn waiting<E: From<Error>>(&mut self, take: &mut Take<E>) -> Result<(), E> {
        self.waiting(take)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.refresh()
    }

    fn context(&self) -> Context {
        self.context().clone()
    }

    fn finish<E: From<Error>>(self, take: &mut Take<E>) -> Result<Context, E> {
        self.finish(take)
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

    fn clock_stepped(&mut self, step_ns: i64) {
        self.taker.clock_stepped(step_ns);
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

/// Folds captured events and hands on the intervals as they pass.
fn folded<T: Intervals>(
    mut events: impl Running,
    mut builder: SeriesBuilder,
    folding: &Folding,
    width_ns: u64,
    taker: &mut T,
) -> Result<Context, T::Error> {
    let mut clock = WallClock::now();
    let mut stretch = Stretch::new(&clock, folding, width_ns);
    let mut steps = 0;
    while !events.is_over() {
        // What completed before is read now, however long this thread is kept from running afterwards.
        let polled_ns = clock.now_ns();
        events.poll(stretch.due(clock.now_ns()).min(TURN), &mut |context, batch, mask| {
            builder.add(batch, mask);
            builder.add_bounds(context, batch, mask);
            flow(taker.events(context, batch, mask))
        })?;
        let before_ns = clock.now_ns();
        let step_ns = clock.follow();
        let wants_events = taker.fields() != FieldSet::default();
        let now = stretch.number(before_ns) + i64::from(step_ns.is_some());
        if now > stretch.unseen || wants_events {
            let waiters = look(&mut events, folding, taker, wants_events)?;
            stretch.look_until(now, waiters);
        }
        // What completes from now on has the new time.
        let open = if step_ns.is_some() { now } else { stretch.number(polled_ns - SLACK_NS) };
        if open > stretch.next {
            let series = stretch.pass(builder.take_before(open), open, before_ns);
            taker.passed(&series, open, &counted(events.context(), steps))?;
        }
        if let Some(step_ns) = step_ns {
            events.refresh()?;
            steps += 1;
            taker.clock_stepped(step_ns);
            stretch = Stretch::new(&clock, folding, width_ns);
        }
    }
    let end_ns = clock.now_ns();
    let now = stretch.number(end_ns);
    let waiters = look(&mut events, folding, taker, false)?;
    stretch.look_until(now + 1, waiters);
    let context = events.finish(&mut |context, batch, mask| {
        builder.add(batch, mask);
        builder.add_bounds(context, batch, mask);
        flow(taker.events(context, batch, mask))
    })?;
    let context = counted(context, steps);
    // The interval that was cut is passed without a row where nothing completed in it.
    let mut series = complete(builder.finish(), folding, &stretch.looks, stretch.next..now);
    series.observe(stretch.start_ns, end_ns);
    taker.passed(&series, now + 1, &context)?;
    Ok(context)
}

/// The context with how often the wall clock was set.
fn counted(mut context: Context, steps: u64) -> Context {
    context.tally.add(Anomaly::ClockStep, steps);
    context
}

/// The time since the start, or since the wall clock was set.
struct Stretch<'a> {
    folding: &'a Folding,
    width_ns: i64,
    start_ns: i64,
    /// The first interval that has not passed.
    next: i64,
    /// The first interval at whose end nobody has looked.
    unseen: i64,
    looks: Looks,
}

impl Stretch<'_> {
    fn new<'a>(clock: &WallClock, folding: &'a Folding, width_ns: u64) -> Stretch<'a> {
        let (start_ns, width_ns) = (clock.now_ns(), width_ns as i64);
        let next = start_ns.div_euclid(width_ns);
        Stretch { folding, width_ns, start_ns, next, unseen: next, looks: Vec::new() }
    }

    fn number(&self, ns: i64) -> i64 {
        ns.div_euclid(self.width_ns)
    }

    /// How long until somebody must look again.
    fn due(&self, now_ns: i64) -> Duration {
        let due_ns = (self.unseen + 1).saturating_mul(self.width_ns).saturating_sub(now_ns);
        Duration::from_nanos(due_ns.max(0).unsigned_abs())
    }

    /// This waited at the end of the intervals before this one.
    fn look_until(&mut self, before: i64, waiters: Vec<Waiter>) {
        if before > self.unseen {
            self.looks.push((self.unseen..before, waiters));
            self.unseen = before;
        }
    }

    /// Completes the intervals before this one, which pass.
    fn pass(&mut self, series: HistogramSeries, before: i64, now_ns: i64) -> HistogramSeries {
        let passed: Looks = self.looks.extract_if(.., |(intervals, _)| intervals.end <= before).collect();
        let mut series = complete(series, self.folding, &passed, self.next..before);
        series.observe(self.start_ns, now_ns);
        self.next = before;
        series
    }
}

/// What waits now, which is handed on too where that is wanted.
fn look<T: Intervals>(
    events: &mut impl Running,
    folding: &Folding,
    taker: &mut T,
    is_wanted: bool,
) -> Result<Vec<Waiter>, T::Error> {
    let mut waiters = Vec::new();
    events.waiting(&mut |context, batch, mask| {
        waiters = Waiter::of_batch(context, batch, mask, &folding.by);
        if is_wanted { flow(taker.waiting(context, batch, mask)) } else { ControlFlow::Continue(()) }
    })?;
    Ok(waiters)
}
