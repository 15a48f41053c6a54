//! Events, stored histograms or the kernel's counts as one series.

use crate::ages::Ages;
use crate::clocks::note_unrelated;
use crate::pass::{is_relative, trace_start};
use crate::{Error, Folding, Origin, Pipeline, Reading};
use latscope_event::{Anomaly, Batch, Context, Field, Mask};
use latscope_series::{Budget, HistogramSeries, Quantity, SeriesBuilder, Waiter};
use std::ops::ControlFlow;

impl Pipeline {
    /// Everything as one series, of at most `limit` intervals when the interval is not given. What is no distribution of
    /// latencies is refused. Returns the context of every file, too.
    ///
    /// # Errors
    /// Many; [`Error::is_usage`] marks those that are the caller's.
    pub fn series(&self, folding: &Folding, limit: u32) -> Result<(HistogramSeries, Vec<Context>), Error> {
        let (series, contexts) = self.series_to_plot(folding, limit)?;
        if folding.quantity == Quantity::Latency && !self.takes_averages {
            contexts.iter().try_for_each(refuse_averages)?;
        }
        Ok((series, contexts))
    }

    /// As [`Pipeline::series`], where averages over windows may be shown too: a picture of them is what it says to be.
    ///
    /// # Errors
    /// As [`Pipeline::series`].
    pub fn series_to_plot(&self, folding: &Folding, limit: u32) -> Result<(HistogramSeries, Vec<Context>), Error> {
        let (series, contexts, waiters, ages) = match self.origin(folding)? {
            Origin::Stored => {
                let (series, mut contexts, ages) = self.stored(folding, limit)?;
                note_unrelated(&mut contexts);
                self.keep_passing(0.., &mut contexts);
                let waiters = self.waiters(&contexts, &folding.by)?;
                (series, contexts, waiters, ages)
            }
            origin => {
                let live = origin == Origin::Kernel;
                let (series, contexts, waiters) =
                    if live { self.counted(folding, limit)? } else { self.folded(folding, limit)? };
                (series, contexts, waiters, Ages::default())
            }
        };
        let series = self.covering(series, &contexts, (&waiters, &ages), folding, limit);
        let waits = folding.quantity != Quantity::Queue || series.total(None).totals().max > 0;
        if !waits && !series.slices().is_empty() {
            return Err(Error::NoQueueing);
        }
        Ok((series, contexts))
    }

    /// Every event, folded.
    fn folded(&self, folding: &Folding, limit: u32) -> Result<(HistogramSeries, Vec<Context>, Vec<Waiter>), Error> {
        let budget = Budget::default();
        let new_builder = || new_builder(folding, limit).within(budget.clone());
        let (builder, contexts, waiters) = match &self.reading.live {
            Some(_) => {
                let mut builder = new_builder();
                let (context, waiters) = self.watch(builder.fields(), &folding.by, |context, batch, mask, _| {
                    add(&mut builder, None, context, batch, mask)
                })?;
                (builder, vec![context], waiters)
            }
            None => {
                let (builder, contexts) = self.fold_builders(&self.numbers(), &new_builder)?;
                let waiters = self.waiters(&contexts, &folding.by)?;
                (builder, contexts, waiters)
            }
        };
        let (missing, is_pruned) = (builder.missing(), builder.is_pruned());
        let covered_ns = self.covered_ns(&contexts);
        let mut series = builder.finish_over(covered_ns);
        if is_pruned && self.is_read_again() {
            let only = || new_builder().only(series.groups());
            series = self.fold_builders(&self.numbers(), &only)?.0.finish_over(covered_ns);
        }
        if series.slices().is_empty() && waiters.is_empty() {
            refuse_nothing(missing, folding)?;
        }
        Ok((series, contexts, waiters))
    }

    fn numbers(&self) -> Vec<usize> {
        (0..self.reading.files.len()).collect()
    }

    /// Folds those of the files that have these numbers, several at a time.
    pub(crate) fn fold_builders(
        &self,
        numbers: &[usize],
        new_builder: &(impl Fn() -> SeriesBuilder + Sync),
    ) -> Result<(SeriesBuilder, Vec<Context>), Error> {
        let fields = new_builder().fields();
        let folded = self.fold_files(numbers, fields, new_builder, add, SeriesBuilder::merge)?;
        // Each may have fitted by itself.
        if folded.0.is_full() { Err(too_large()) } else { Ok(folded) }
    }

    /// The stretch of time that traces cover, as far as events that the filter lets through can have completed in it.
    pub fn covered_ns(&self, contexts: &[Context]) -> Option<(i64, i64)> {
        covered_ns(&self.reading, contexts)
    }

    /// A series with all that the traces cover, also where nothing happened, and with what waits, in as many intervals as were
    /// asked for.
    fn covering(
        &self,
        mut series: HistogramSeries,
        contexts: &[Context],
        (waiters, ages): (&[Waiter], &Ages),
        folding: &Folding,
        limit: u32,
    ) -> HistogramSeries {
        if let Some((from_ns, to_ns)) = self.covered_ns(contexts)
            && !(series.slices().is_empty() && waiters.is_empty() && ages.is_empty())
        {
            series.reach(from_ns, to_ns);
            let is_long = series.range().is_some_and(|(first, last)| first.abs_diff(last) >= u64::from(limit.max(2)));
            if folding.interval.is_none() && is_long {
                series = series.fitted(limit);
            }
        }
        for (host, repeated) in contexts.iter().flat_map(|context| &context.repeated_ns) {
            repeated.iter().for_each(|(&time_ns, &more_ns)| series.repeat(host, time_ns, more_ns));
        }
        series.add_waiting(waiters, None);
        ages.put_into(&mut series);
        series.completed_only(folding.completed_only)
    }

    /// Fails if the intervals of a series are whole jobs, in which nothing can be drawn over time.
    ///
    /// # Errors
    /// [`Error::WholeJobs`].
    pub fn refuse_whole_jobs(&self, series: &HistogramSeries) -> Result<(), Error> {
        match series.is_of_runs() {
            true => Err(Error::WholeJobs(self.reading.files.first().cloned().unwrap_or_default())),
            false => Ok(()),
        }
    }
}

/// As [`Pipeline::covered_ns`].
pub fn covered_ns(reading: &Reading, contexts: &[Context]) -> Option<(i64, i64)> {
    let start_ns = common_start_ns(reading, contexts);
    let clipped = |context: &Context| match &reading.filter {
        Some(filter) => filter.clipped(context.span_ns?, trace_start(context, start_ns)),
        None => context.span_ns,
    };
    contexts.iter().filter_map(clipped).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// Where relative times of the filter count from: the earliest start of all traces.
pub fn common_start_ns(reading: &Reading, contexts: &[Context]) -> Option<i64> {
    let is_common = contexts.len() > 1 && reading.filter.as_ref().is_some_and(is_relative);
    contexts.iter().filter(|_| is_common).filter_map(Context::trace_start_ns).min()
}

/// Fails if there is nothing to show because so many events lack what is to be shown.
pub fn refuse_nothing(missing: u64, folding: &Folding) -> Result<(), Error> {
    match folding.quantity {
        _ if missing == 0 => Ok(()),
        Quantity::Queue => Err(Error::NoQueueing),
        quantity => Err(Error::NoValues(quantity.field())),
    }
}

/// Counts a batch; the number is that of the file, before its first batch.
fn add(
    builder: &mut SeriesBuilder,
    starts: Option<usize>,
    context: &Context,
    batch: &Batch,
    mask: Option<&Mask>,
) -> ControlFlow<Error> {
    if let Some(number) = starts {
        builder.start_trace_number(number as u32);
    }
    builder.starts_at(context.start_ns);
    builder.add(batch, mask);
    builder.add_bounds(context, batch, mask);
    if builder.is_full() { ControlFlow::Break(too_large()) } else { ControlFlow::Continue(()) }
}

/// The refusal of histograms that do not fit into memory.
pub fn too_large() -> Error {
    Error::TooLarge(Budget::default().limit() as u64)
}

/// The fields of the groups that no event has.
pub fn missing_groups(series: &HistogramSeries) -> Vec<Field> {
    let is_there = |at: usize| {
        series.groups().iter().any(|group| group.get(at).is_some_and(|label| label != HistogramSeries::NO_VALUE))
    };
    (0..series.by.len()).filter(|&at| !is_there(at)).map(|at| series.by[at]).collect()
}

/// What events are folded into.
pub fn new_builder(folding: &Folding, limit: u32) -> SeriesBuilder {
    let interval = folding.interval_or(limit);
    let builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval);
    let builder = builder.count_by(folding.count_by).on_grid(folding.precision);
    if folding.values_only { builder.values_only() } else { builder }
}

/// Fails if the rows of a trace are averages: they have no distribution.
///
/// # Errors
/// [`Error::Averages`].
pub fn refuse_averages(context: &Context) -> Result<(), Error> {
    if context.tally.get(Anomaly::WindowedRows) == 0 { Ok(()) } else { Err(Error::Averages(context.source.clone())) }
}
