//! What is read while it is written, a pipe or a file with `--follow`: intervals are handed on as they close.
//!
//! Events come about in the order of their completion. An interval closes when an event has completed so long after its end that
//! none is expected any more: twice as long as events were out of order so far, and, where events count in all intervals that they
//! last, as long as the longest. What has come already is looked at before anything closes.

use crate::intervals::{Intervals, flow};
use crate::live::INTERVAL_NS;
use crate::series::{missing_groups, new_builder, refuse_averages, refuse_nothing, too_large};
use crate::{Folding, Notice, Pipeline};
use latscope_event::{Batch, Context, Mask};
use latscope_series::{CountBy, HistogramSeries, Quantity, SeriesBuilder, Waiter};

/// An interval stays open for at least so long.
const LEAST_NS: u64 = 100_000_000;
/// And for at most so long: who waits for more has no rows.
const LONGEST_NS: u64 = 60_000_000_000;
/// Where events are further out of order than this, nothing closes before the end.
const DISORDER_NS: u64 = 10_000_000_000;
/// A longer time without events has no rows: something is wrong with the times.
const LONGEST_GAP: i64 = 100_000;

impl Pipeline {
    /// Hands on intervals as they close, those without events too: of a capture as they pass, of a stream when no more events
    /// are expected in them. Returns the final context.
    ///
    /// # Errors
    /// What the taker breaks off with; and when input or capture fail.
    pub fn intervals<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
        match (&self.reading.live, self.stored_file()) {
            (Some(_), _) => self.live_intervals(folding, taker),
            (None, Some(_)) => self.stored_intervals(folding, taker),
            (None, None) => read(self, folding, taker),
        }
    }

    /// Reads files in any order; all intervals are handed on at the end. Returns the context of every file.
    ///
    /// # Errors
    /// As [`Pipeline::intervals`].
    pub fn intervals_of_whole<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Vec<Context>, T::Error> {
        read_whole(self, folding, taker)
    }
}

/// Reads until the end and hands on intervals as they close, those without events too. Returns the final context.
fn read<T: Intervals>(pipeline: &Pipeline, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
    run(pipeline, Stream::new(pipeline, folding, taker.looks_back()), taker).map(|contexts| Context::merged(&contexts))
}

/// Reads files in any order; all intervals are handed on at the end.
fn read_whole<T: Intervals>(pipeline: &Pipeline, folding: &Folding, taker: &mut T) -> Result<Vec<Context>, T::Error> {
    let mut stream = Stream::new(pipeline, folding, false);
    stream.is_whole = true;
    run(pipeline, stream, taker)
}

fn run<T: Intervals>(pipeline: &Pipeline, mut stream: Stream<'_>, taker: &mut T) -> Result<Vec<Context>, T::Error> {
    let fields = stream.builder.fields().union(taker.fields());
    let contexts = pipeline.each_batch(fields, |context, batch, mask, starts| {
        if starts {
            stream.builder.start_trace();
        }
        flow(stream.take(context, batch, mask, taker))
    })?;
    let waiters = pipeline.waiters(&contexts, &stream.folding.by)?;
    stream.finish(&Context::merged(&contexts), &waiters, taker)?;
    Ok(contexts)
}

struct Stream<'a> {
    pipeline: &'a Pipeline,
    builder: SeriesBuilder,
    /// Of events whose interval was closed.
    late: Option<SeriesBuilder>,
    folding: Folding,
    width_ns: i64,
    /// Whether intervals stay open for as long as the longest event.
    looks_back: bool,
    /// Nothing is handed on before the end.
    is_whole: bool,
    /// The latest completion.
    latest_ns: i64,
    longest_ns: u64,
    /// The furthest that a completion was before one that came earlier.
    disorder_ns: u64,
    /// The first interval that has events.
    first: i64,
    /// The first interval that is open.
    open: i64,
    /// The first interval that was not handed on.
    next: Option<i64>,
    late_events: u64,
    cut_events: u64,
}

impl<'a> Stream<'a> {
    fn new(pipeline: &'a Pipeline, folding: &Folding, looks_back: bool) -> Stream<'a> {
        let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
        let folding = Folding { interval: Some(width_ns), ..folding.clone() };
        Stream {
            pipeline,
            builder: new_builder(&folding, 2),
            late: None,
            looks_back: looks_back || folding.count_by == CountBy::Overlap,
            is_whole: false,
            width_ns: width_ns as i64,
            folding,
            latest_ns: i64::MIN,
            longest_ns: 0,
            disorder_ns: 0,
            first: i64::MAX,
            open: i64::MIN,
            next: None,
            late_events: 0,
            cut_events: 0,
        }
    }

    /// Whether some intervals have closed that had events.
    fn has_closed(&self) -> bool {
        self.first < self.open
    }

    fn open_ns(&self) -> i64 {
        self.open.saturating_mul(self.width_ns)
    }

    /// Learns from events that have come how long intervals must stay open.
    fn look_at(&mut self, batch: &Batch, mask: &Mask) {
        let mut latest_ns = self.latest_ns;
        for row in mask.ones() {
            let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
            let end_ns = start_ns.saturating_add_unsigned(latency_ns);
            if latest_ns > i64::MIN {
                self.disorder_ns = self.disorder_ns.max(latest_ns.saturating_sub(end_ns).max(0).unsigned_abs());
            }
            latest_ns = latest_ns.max(end_ns);
            self.longest_ns = self.longest_ns.max(latency_ns);
        }
    }

    /// Counts an event in, in the order in which they come; closes intervals. Whether the interval in which it completed is open.
    fn see(&mut self, start_ns: i64, latency_ns: u64) -> bool {
        let end_ns = start_ns.saturating_add_unsigned(latency_ns);
        self.latest_ns = self.latest_ns.max(end_ns);
        let reach_ns = if self.looks_back { self.longest_ns } else { 0 };
        let hold_ns = self.disorder_ns.saturating_mul(2).max(reach_ns).clamp(LEAST_NS, LONGEST_NS);
        if self.disorder_ns <= DISORDER_NS && !self.is_whole {
            let open = self.latest_ns.saturating_sub_unsigned(hold_ns).div_euclid(self.width_ns);
            self.open = self.open.max(open);
        }
        let (starts, ends) = (start_ns.div_euclid(self.width_ns), end_ns.div_euclid(self.width_ns));
        if self.has_closed() && ends < self.open {
            self.late_events += 1;
            return false;
        }
        let by_share = self.folding.count_by == CountBy::Overlap;
        self.cut_events += u64::from(by_share && self.has_closed() && starts < self.open);
        self.first = self.first.min(if by_share { starts } else { ends });
        true
    }

    fn take<T: Intervals>(
        &mut self,
        context: &Context,
        batch: &Batch,
        mask: Option<&Mask>,
        taker: &mut T,
    ) -> Result<(), T::Error> {
        if self.folding.quantity == Quantity::Latency && !taker.takes_averages() {
            refuse_averages(context)?;
        }
        taker.events(context, batch, mask)?;
        let all = Mask::filled(batch.len(), true);
        let mask = mask.unwrap_or(&all);
        self.look_at(batch, mask);
        let (mut from, mut late) = (0, Vec::new());
        for row in mask.ones() {
            let before = self.open;
            let is_in_time = self.see(batch.time()[row], batch.latency()[row]);
            if self.open > before {
                // What came before this event counts in the intervals that were open then.
                self.add(context, batch, mask, (from..row, &late), before);
                from = row;
            }
            if !is_in_time {
                late.push(row);
            }
        }
        self.add(context, batch, mask, (from..batch.len(), &late), self.open);
        self.add_late(batch, &late);
        if self.builder.is_full() || self.late.as_ref().is_some_and(SeriesBuilder::is_full) {
            return Err(too_large().into());
        }
        self.hand_on(context, taker)
    }

    /// Counts rows of a batch but those that are late; parts before the first open interval count in that one.
    fn add(
        &mut self,
        context: &Context,
        batch: &Batch,
        mask: &Mask,
        (rows, late): (std::ops::Range<usize>, &[usize]),
        open: i64,
    ) {
        let open_ns = open.saturating_mul(self.width_ns);
        let start_ns =
            if self.first < open { Some(open_ns.max(context.start_ns.unwrap_or(i64::MIN))) } else { context.start_ns };
        self.builder.starts_at(start_ns);
        if rows == (0..batch.len()) && late.is_empty() {
            self.builder.add_bounds(context, batch, Some(mask));
            return self.builder.add(batch, Some(mask));
        }
        let mut mask = mask.clone();
        mask.retain(|row| rows.contains(&row) && late.binary_search(&row).is_err());
        self.builder.add(batch, Some(&mask));
        self.builder.add_bounds(context, batch, Some(&mask));
    }

    fn add_late(&mut self, batch: &Batch, rows: &[usize]) {
        if rows.is_empty() {
            return;
        }
        let mut mask = Mask::filled(batch.len(), true);
        mask.retain(|row| rows.binary_search(&row).is_ok());
        let folding = Folding { count_by: self.folding.count_by, ..self.folding.clone() };
        self.late.get_or_insert_with(|| new_builder(&folding, 2)).add(batch, Some(&mask));
    }

    /// Hands on the intervals that have closed.
    fn hand_on<T: Intervals>(&mut self, context: &Context, taker: &mut T) -> Result<(), T::Error> {
        if !self.has_closed() || self.next.is_some_and(|next| next >= self.open) {
            return Ok(());
        }
        let series = self.builder.take_before(self.open);
        self.pass(series, self.open, (context, self.open_ns()), taker)
    }

    fn pass<T: Intervals>(
        &mut self,
        mut series: HistogramSeries,
        before: i64,
        (context, until_ns): (&Context, i64),
        taker: &mut T,
    ) -> Result<(), T::Error> {
        let first = series.range().map(|(first, _)| first);
        let covered = self.covered_ns(context).map(|(from_ns, _)| from_ns.div_euclid(self.width_ns));
        let silent = covered.filter(|&covered| first.is_none_or(|first| first.saturating_sub(covered) <= LONGEST_GAP));
        let next = self.next.or(first.into_iter().chain(silent).min()).unwrap_or(before);
        if before.saturating_sub(next) <= LONGEST_GAP {
            series.pass(next..before);
        }
        series.observe(
            context.trace_start_ns().unwrap_or(i64::MIN),
            until_ns.max(context.span_ns.map_or(i64::MIN, |(_, to_ns)| to_ns)),
        );
        self.next = Some(before);
        taker.passed(&series, before, context)
    }

    /// The stretch of time that was read so far.
    fn covered_ns(&self, context: &Context) -> Option<(i64, i64)> {
        self.pipeline.covered_ns(std::slice::from_ref(context))
    }

    fn finish<T: Intervals>(mut self, context: &Context, waiters: &[Waiter], taker: &mut T) -> Result<(), T::Error> {
        let builder = std::mem::replace(&mut self.builder, new_builder(&self.folding, 2));
        let missing = builder.missing();
        let mut rest = builder.finish();
        let control = &self.pipeline.control;
        let ungrouped = missing_groups(&rest);
        if !ungrouped.is_empty() && !rest.groups().is_empty() && rest.others().is_none() {
            control.notice(Notice::Ungrouped(ungrouped));
        }
        if rest.slices().is_empty() && self.next.is_none() {
            refuse_nothing(missing, &self.folding)?;
        }
        if let Some((from_ns, to_ns)) = self.covered_ns(context)
            && !(rest.slices().is_empty() && waiters.is_empty() && self.next.is_none())
        {
            let open_ns = self.next.map_or(from_ns, |next| next.saturating_mul(self.width_ns).max(from_ns));
            if open_ns < to_ns {
                rest.reach(open_ns, to_ns);
            }
        }
        // What waits counts in the intervals that are still open.
        rest.add_waiting(waiters, None);
        let rest = rest.completed_only(self.folding.completed_only);
        taker.ends(context, self.longest_ns);
        if let Some((_, last)) = rest.range() {
            let until_ns = context.span_ns.map_or(self.latest_ns, |(_, to_ns)| to_ns);
            self.pass(rest, last.saturating_add(1), (context, until_ns), taker)?;
        }
        if self.cut_events > 0 {
            control.notice(Notice::CutEvents(self.cut_events));
        }
        if let Some(late) = self.late.take() {
            let handed_on = taker.late(&late.finish(), context)?;
            control.notice(Notice::LateEvents { count: self.late_events, handed_on });
        }
        Ok(())
    }
}
