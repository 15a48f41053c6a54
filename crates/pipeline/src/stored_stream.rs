//! Histograms that come through a pipe, or are written while they are read: intervals are handed on as they close.
//!
//! Rows come in the order of their ends. No later row starts before the latest end less the longest row, so what lies before that has
//! closed.

use crate::intervals::Intervals;
use crate::starts::Starts;
use crate::stored::{Picked, Stored, builder, empty, even_width};
use crate::{Error, Folding, Pipeline, series};
use latscope_event::Context;
use latscope_series::{HistogramSeries, SeriesBuilder, Stretch};

/// A longer time without rows is not filled with empty intervals: something is wrong with the times.
const LONGEST_GAP: i64 = 100_000;

impl Pipeline {
    /// Hands on the intervals of stored histograms as they close. Returns the final context.
    pub(crate) fn stored_intervals<T: Intervals>(&self, folding: &Folding, taker: &mut T) -> Result<Context, T::Error> {
        let stored = Stored { pipeline: self, folding, starts: Starts::new(self)?, row_ns: None };
        let mut stream: Option<Stream> = None;
        let mut even: Option<Even> = None;
        let context = stored.each_row(0, &mut |context, picked| {
            if !picked.is_uneven {
                let even = match &mut even {
                    Some(even) => even,
                    None => even.insert(Even::new(folding, picked.row.width_ns)?),
                };
                return even.add(self, context, &picked, taker);
            }
            let stream = stream.get_or_insert_with(|| Stream::new(folding, picked.row.width_ns));
            let (from_ns, to_ns) =
                (picked.row.time_ns, picked.row.time_ns.saturating_add_unsigned(picked.row.width_ns));
            let (usual_ns, group, histogram) = (picked.usual_ns, picked.labels, picked.histogram);
            stream.add(&Stretch { from_ns, to_ns, usual_ns, group, histogram }, picked.start_ns);
            if stream.builder.is_full() {
                return Err(series::too_large().into());
            }
            stream.hand_on(context, taker)
        })?;
        if let Some(stream) = stream {
            stream.finish(&context, taker)?;
        }
        if let Some(even) = even {
            even.finish(self, &context, taker)?;
        }
        Ok(context)
    }
}

/// Intervals of one width, as a hub closes them: each comes once, and in order.
struct Even<'a> {
    folding: &'a Folding,
    series: HistogramSeries,
    width_ns: i64,
    /// The first interval that was not handed on.
    next: Option<i64>,
}

impl<'a> Even<'a> {
    /// For rows of this width.
    fn new(folding: &'a Folding, row_ns: u64) -> Result<Even<'a>, Error> {
        let width_ns = folding.interval.unwrap_or(row_ns);
        match width_ns.is_multiple_of(row_ns) {
            true => Ok(Even { folding, series: empty(folding, width_ns), width_ns: width_ns as i64, next: None }),
            false => Err(Error::Width(row_ns)),
        }
    }

    /// Adds a row. Those before it have come, so intervals that ended by then have passed.
    fn add<T: Intervals>(
        &mut self,
        pipeline: &Pipeline,
        context: &Context,
        picked: &Picked,
        taker: &mut T,
    ) -> Result<(), T::Error> {
        let interval = picked.row.time_ns.div_euclid(self.width_ns);
        let next = *self.next.get_or_insert(interval);
        if interval > next {
            self.pass(interval, pipeline, context, taker)?;
        }
        if picked.histogram.totals().count > 0 {
            let inserted = self.series.insert(interval.max(next), picked.labels.to_vec(), picked.histogram);
            inserted.map_err(|error| Error::Series(error.to_string()))?;
        }
        Ok(())
    }

    fn pass<T: Intervals>(
        &mut self,
        before: i64,
        pipeline: &Pipeline,
        context: &Context,
        taker: &mut T,
    ) -> Result<(), T::Error> {
        let mut series = std::mem::replace(&mut self.series, empty(self.folding, self.width_ns.unsigned_abs()));
        let next = self.next.replace(before).unwrap_or(before);
        if before.saturating_sub(next) <= LONGEST_GAP {
            series.pass(next..before);
        }
        series.observe(context.trace_start_ns().unwrap_or(i64::MIN), before.saturating_mul(self.width_ns));
        let waiters = pipeline.waiters(std::slice::from_ref(context), &self.folding.by)?;
        series.add_waiting(&waiters, Some(next..before));
        taker.passed(&series.completed_only(self.folding.completed_only), before, context)
    }

    fn finish<T: Intervals>(mut self, pipeline: &Pipeline, context: &Context, taker: &mut T) -> Result<(), T::Error> {
        taker.ends(context, 0);
        match self.series.range() {
            Some((_, last)) => self.pass(last.saturating_add(1), pipeline, context, taker),
            None => Ok(()),
        }
    }
}

struct Stream {
    builder: SeriesBuilder,
    width_ns: i64,
    completed_only: bool,
    /// The latest end of a row.
    end_ns: i64,
    longest_ns: u64,
    /// The first interval that is open.
    open: i64,
    /// The first interval that was not handed on.
    next: Option<i64>,
}

impl Stream {
    /// For rows of which the first is so wide.
    fn new(folding: &Folding, row_ns: u64) -> Stream {
        let width_ns = even_width(row_ns, folding);
        Stream {
            builder: builder(folding, row_ns),
            width_ns: i64::try_from(width_ns).unwrap_or(i64::MAX),
            completed_only: folding.completed_only,
            end_ns: i64::MIN,
            longest_ns: 0,
            open: i64::MIN,
            next: None,
        }
    }

    fn add(&mut self, stretch: &Stretch, start_ns: Option<i64>) {
        let open_ns = self.open.saturating_mul(self.width_ns);
        // What would lie in an interval that has closed counts in the first open one.
        let earliest_ns = if self.next.is_some() { Some(open_ns.max(start_ns.unwrap_or(i64::MIN))) } else { start_ns };
        self.builder.starts_at(earliest_ns);
        let (from_ns, to_ns) = match self.next {
            Some(_) => (stretch.from_ns.max(open_ns), stretch.to_ns.max(open_ns)),
            None => (stretch.from_ns, stretch.to_ns),
        };
        self.builder.add_stretch(&Stretch { from_ns, to_ns, ..*stretch });
        self.end_ns = self.end_ns.max(stretch.to_ns);
        self.longest_ns = self.longest_ns.max(stretch.to_ns.abs_diff(stretch.from_ns));
        let open = self.end_ns.saturating_sub_unsigned(self.longest_ns).div_euclid(self.width_ns);
        self.open = self.open.max(open);
    }

    fn hand_on<T: Intervals>(&mut self, context: &Context, taker: &mut T) -> Result<(), T::Error> {
        if self.next.is_some_and(|next| next >= self.open) {
            return Ok(());
        }
        let series = self.builder.take_before(self.open);
        match self.next.into_iter().chain(series.range().map(|(first, _)| first)).min() {
            Some(first) => self.pass(series, first..self.open, context, taker),
            None => Ok(()),
        }
    }

    fn pass<T: Intervals>(
        &mut self,
        mut series: HistogramSeries,
        passed: std::ops::Range<i64>,
        context: &Context,
        taker: &mut T,
    ) -> Result<(), T::Error> {
        let before = passed.end;
        if passed.end.saturating_sub(passed.start) <= LONGEST_GAP {
            series.pass(passed);
        }
        series.observe(context.trace_start_ns().unwrap_or(i64::MIN), before.saturating_mul(self.width_ns));
        self.next = Some(before);
        taker.passed(&series.completed_only(self.completed_only), before, context)
    }

    fn finish<T: Intervals>(mut self, context: &Context, taker: &mut T) -> Result<(), T::Error> {
        // All that is left.
        let rest = self.builder.take_before(i64::MAX);
        taker.ends(context, 0);
        let Some((first, last)) = rest.range() else { return Ok(()) };
        let first = self.next.unwrap_or(first).min(first);
        self.pass(rest, first..last.saturating_add(1), context, taker)
    }
}
