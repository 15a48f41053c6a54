use super::{TURN, Until, options};
use crate::files::note_missing;
use crate::stalls::{Stalls, describe};
use crate::{Control, Error, Live, Mode, Pass, Pipeline, Reading, keep_passing};
use latscope_capture_bpf::EventCapture;
use latscope_event::{Batch, Context, Field, FieldSet, Mask, Unfinished, Wait};
use latscope_series::Waiter;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

/// A running capture of events, and the filter on them and on what waits.
pub struct Events<'a> {
    reading: &'a Reading,
    capture: EventCapture,
    pass: Pass<'a>,
    /// What waits has dictionaries of its own.
    waits: Pass<'a>,
    control: Control,
    until: Until,
    stalls: Stalls,
}

/// What takes batches: the context, the batch, and what the filter lets through (`None`: everything).
pub type Take<'a, E> = dyn FnMut(&Context, &Batch, Option<&Mask>) -> ControlFlow<E> + 'a;

impl Pipeline {
    /// Starts to capture these fields and those of the filter.
    ///
    /// # Errors
    /// When the capture cannot start, or may only count; and for derived fields, which are known only in the end.
    pub fn capture(&self, fields: FieldSet) -> Result<Events<'_>, Error> {
        let Some(live) = &self.reading.live else { return Err(Error::EventsWanted) };
        let derived = fields.union(self.reading.filter_fields()).intersection(FieldSet::DERIVED);
        if derived != FieldSet::EMPTY {
            return Err(Error::Incomplete(derived));
        }
        Events::start(&self.reading, live, fields, &self.control)
    }

    /// Captures until it is over and hands on each batch with the mask of what the filter lets through; between batches,
    /// at least ten times a second, comes an empty one. The flag is set for the first. Returns the final context, and what waits
    /// then, in these groups.
    ///
    /// # Errors
    /// What the caller breaks with; and when the capture fails.
    pub fn watch<E: From<Error>>(
        &self,
        fields: FieldSet,
        by: &[Field],
        mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<E>,
    ) -> Result<(Context, Vec<Waiter>), E> {
        let mut events = self.capture(fields)?;
        let mut starts = true;
        let mut take = |context: &Context, batch: &Batch, mask: Option<&Mask>| {
            take(context, batch, mask, std::mem::take(&mut starts))
        };
        while !events.is_over() {
            events.poll(TURN, &mut take)?;
            events.note_stalls()?;
        }
        let mut waiters = events.waiters(by)?;
        let (context, ended) = events.end(&mut take)?;
        for waiter in &mut waiters {
            waiter.age_ns = ended.age_ns(&context, waiter.start_ns, waiter.age_ns);
        }
        Ok((context, waiters))
    }
}

impl<'a> Events<'a> {
    fn start(reading: &'a Reading, live: &Live, fields: FieldSet, control: &Control) -> Result<Events<'a>, Error> {
        if live.mode == Mode::Histogram {
            return Err(Error::EventsWanted);
        }
        // Waits have their path anyway; asked for here, every event would pay for one.
        let of_stalls = Stalls::FIELDS.into_iter().filter(|&field| field != Field::Path);
        let fields = fields.union(of_stalls.collect());
        let capture = EventCapture::start(&options(reading, live, fields)?)?;
        let (pass, waits) = (Pass::new(reading), Pass::new(reading));
        let until = Until::new(live, control);
        Ok(Events { reading, capture, pass, waits, control: control.clone(), until, stalls: Stalls::default() })
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.until.is_over()
    }

    /// Waits for events, at most so long, and hands them on; an empty batch comes last.
    ///
    /// # Errors
    /// What the caller breaks with; and when the capture fails.
    pub fn poll<E: From<Error>>(&mut self, longest: Duration, take: &mut Take<E>) -> Result<(), E> {
        let nothing = Batch::new(FieldSet::ALWAYS);
        let mut sink = Sink { pass: &mut self.pass, take, failure: None };
        let polled = self.capture.poll(self.until.turn(longest), &mut |context, batch| sink.batch(context, batch));
        if polled.map_err(Error::from)?.is_continue() {
            let _ = sink.batch(self.capture.context(), &nothing);
        }
        sink.failure.map_or(Ok(()), Err)
    }

    /// Counts anew what the capture has lost and has open.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn refresh(&mut self) -> Result<(), Error> {
        Ok(self.capture.refresh()?)
    }

    /// Hands on what waits now, as far as the filter lets it through.
    ///
    /// # Errors
    /// What the caller breaks with; and when the capture fails.
    pub fn waiting<E: From<Error>>(&mut self, take: &mut Take<E>) -> Result<(), E> {
        let context = self.capture.context().clone();
        let waiting = self.capture.waiting().map_err(Error::from)?;
        let mut sink = Sink { pass: &mut self.waits, take, failure: None };
        let _ = sink.batch(&context, waiting);
        sink.failure.map_or(Ok(()), Err)
    }

    /// What waits now, whatever the filter says: time is the start, latency the age.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn all_waiting(&mut self) -> Result<Batch, Error> {
        Ok(self.capture.waiting()?.clone())
    }

    /// The same with a description of each.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn in_flight(&mut self) -> Result<Vec<Unfinished>, Error> {
        let waiting = self.capture.waiting()?;
        let request = |row| Unfinished::from_row(describe(waiting, row), Wait::of_row(waiting, row), waiting, row);
        Ok((0..waiting.len()).map(request).collect())
    }

    /// What waits now and passes the filter, in these groups.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn waiters(&mut self, by: &[Field]) -> Result<Vec<Waiter>, Error> {
        let mut waiters = Vec::new();
        self.waiting::<Error>(&mut |context, batch, mask| {
            waiters = Waiter::of_batch(context, batch, mask, by);
            ControlFlow::Continue(())
        })?;
        Ok(waiters)
    }

    /// Notes what has waited for long, where the view does not show it before it ends.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn note_stalls(&mut self) -> Result<(), Error> {
        if !self.stalls.is_due() {
            return Ok(());
        }
        let (mut stalls, control) = (std::mem::take(&mut self.stalls), self.control.clone());
        let noted = self.waiting(&mut |_, batch, mask| {
            stalls.report(batch, mask, &mut |notice| control.notice(notice));
            ControlFlow::Continue(())
        });
        self.stalls = stalls;
        noted
    }

    /// What the capture says about itself.
    pub fn context(&self) -> &Context {
        self.capture.context()
    }

    /// Resolves the filter's times now; else the first batch does it.
    ///
    /// # Errors
    /// When the clock of the capture has no such times.
    pub fn bind(&mut self) -> Result<(), Error> {
        self.pass.bind(self.capture.context())
    }

    /// Ends it, hands on what is left and returns the final context.
    ///
    /// # Errors
    /// What the caller breaks with; and when the capture fails.
    pub fn finish<E: From<Error>>(self, take: &mut Take<E>) -> Result<Context, E> {
        self.end(take).map(|(context, _)| context)
    }

    /// As [`Events::finish`], with what came after the last look at what waits.
    fn end<E: From<Error>>(mut self, take: &mut Take<E>) -> Result<(Context, Ended), E> {
        let mut sink = Sink { pass: &mut self.pass, take, failure: None };
        let mut ended = Ended::default();
        let context = self.capture.finish(&mut |context, batch| {
            ended.starts_ns.extend(batch.time());
            sink.batch(context, batch)
        });
        let mut context = context.map_err(Error::from)?;
        let mut unfinished = std::mem::take(&mut context.unfinished);
        for request in unfinished.iter_mut().filter(|request| request.counts()) {
            request.at_least_ns = ended.age_ns(&context, request.start_ns, request.at_least_ns);
        }
        context.unfinished = unfinished;
        note_missing(&mut context, sink.pass.missing_fields());
        sink.pass.notes().into_iter().for_each(|note| context.note(note));
        keep_passing(self.reading, &mut context);
        sink.failure.map_or(Ok((context, ended)), Err)
    }
}

/// When those started that completed while a capture ended, after its last look at what waits. What waited then and is not among
/// them has waited until the end.
#[derive(Default)]
struct Ended {
    starts_ns: BTreeSet<i64>,
}

impl Ended {
    /// The kernel's clock is compared with the wall clock again meanwhile.
    const SAME_NS: i64 = 1_000;

    /// How long a request with this start had waited at the end of the trace: it had for so long when it was looked at.
    fn age_ns(&self, context: &Context, start_ns: i64, age_ns: u64) -> u64 {
        let around = start_ns.saturating_sub(Ended::SAME_NS)..=start_ns.saturating_add(Ended::SAME_NS);
        match context.span_ns {
            Some((_, end_ns)) if self.starts_ns.range(around).next().is_none() => {
                age_ns.max(u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(0))
            }
            _ => age_ns,
        }
    }
}

/// Filters batches on their way, and keeps why the caller broke off.
pub(super) struct Sink<'s, 'p, 'a, E> {
    pub pass: &'s mut Pass<'p>,
    pub take: &'s mut Take<'a, E>,
    pub failure: Option<E>,
}

impl<E: From<Error>> Sink<'_, '_, '_, E> {
    pub fn batch(&mut self, context: &Context, batch: &Batch) -> ControlFlow<()> {
        let flow = match self.pass.batch(context, batch) {
            Err(error) => ControlFlow::Break(error.into()),
            Ok((batch, mask)) => (self.take)(context, batch, mask),
        };
        flow.map_break(|error| self.failure = Some(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Clock;

    #[test]
    fn what_waited_at_the_last_look_waits_until_the_end() {
        let mut context = Context::new("live", Clock::wall());
        (1_000_000..=9_000_000).step_by(1_000_000).for_each(|moment| context.cover(moment));
        let ended = Ended { starts_ns: [3_000_400].into() };
        // Looked at 7 ms on the clock; one has completed since, which the clock knew 400 ns later.
        assert_eq!(ended.age_ns(&context, 2_000_000, 5_000_000), 7_000_000);
        assert_eq!(ended.age_ns(&context, 3_000_000, 4_000_000), 4_000_000);
        assert_eq!(ended.age_ns(&context, 9_500_000, 0), 0);
        // Nobody looks later than the end, but for the time that a look takes.
        assert_eq!(ended.age_ns(&context, 2_000_000, 7_000_009), 7_000_009);
    }
}
