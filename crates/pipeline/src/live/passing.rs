//! Intervals of a capture as they pass.

use super::{Events, INTERVAL_NS, TURN, now_ns};
use crate::intervals::{Intervals, Looks, complete, flow};
use crate::series::missing_groups;
use crate::{Folding, Notice, Origin, Pipeline};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder, Waiter};
use std::ops::ControlFlow;
use std::time::Duration;

/// So long after an interval its events are all there: ring buffers are read ten times a second.
const SLACK_NS: i64 = 300_000_000;

impl Pipeline {
    /// Captures until it is over and hands on the intervals as they pass, those without events too.
    pub(crate) fn live_intervals<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
        let mut groups = Groups { taker, missing: folding.by.clone(), is_empty: true };
        let needs_events = groups.fields() != FieldSet::default();
        let context = if !needs_events && self.origin(folding)? == Origin::Kernel {
            self.counted_intervals(folding, &mut groups)?
        } else {
            let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
            let mut builder = builder(folding, width_ns);
            let events = self.capture(builder.fields().union(groups.fields()))?;
            builder.start_trace();
            folded(events, builder, folding, width_ns, &mut groups)?
        };
        if !groups.is_empty && !groups.missing.is_empty() {
            self.control.notice(Notice::Ungrouped(groups.missing));
        }
        Ok(context)
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

/// Folds captured events and hands on the intervals as they pass.
fn folded<T: Intervals>(
    mut events: Events,
    mut builder: SeriesBuilder,
    folding: &Folding,
    width_ns: u64,
    taker: &mut T,
) -> Result<Context, T::Error> {
    let number = |ns: i64| ns.div_euclid(width_ns as i64);
    let start_ns = now_ns();
    let mut next = number(start_ns);
    let mut unseen = next;
    let mut looks: Looks = Vec::new();
    while !events.is_over() {
        let due_ns = (unseen + 1).saturating_mul(width_ns as i64).saturating_sub(now_ns());
        let due = Duration::from_nanos(due_ns.max(0).unsigned_abs());
        events.poll(due.min(TURN), &mut |context, batch, mask| {
            builder.add(batch, mask);
            flow(taker.events(context, batch, mask))
        })?;
        let now = number(now_ns());
        let wants_events = taker.fields() != FieldSet::default();
        if now > unseen || wants_events {
            let waiters = look(&mut events, folding, taker, wants_events)?;
            if now > unseen {
                looks.push((unseen..now, waiters));
                unseen = now;
            }
        }
        let open = number(now_ns() - SLACK_NS);
        if open > next {
            let of: Looks = looks.extract_if(.., |(intervals, _)| intervals.end <= open).collect();
            let mut series = complete(builder.take_before(open), folding, &of, next..open);
            series.observe(start_ns, now_ns());
            taker.passed(&series, open, events.context())?;
            next = open;
        }
    }
    let ended_ns = now_ns();
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
