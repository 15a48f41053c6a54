//! `latscope summary`.

mod different;
mod tables;

use super::{output, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Folding, Reading, Shape, Summary as Plan};
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_I64, MISSING_U64, Mask};
use latscope_pipeline::{Origin, Pipeline, refuse_averages, totals_builder};
use latscope_series::{HistogramSeries, Quantity, SeriesBuilder, Usage, Waiter, Weight};
use latscope_view_term::{Outlier, Outliers, Summary, TimeLabels};
use std::ops::ControlFlow;

/// So many outliers are listed, the slowest; all are counted.
const LISTED: usize = 1000;
/// What a warning line gives beside time and latency, where the source knows it.
const SHOWN: [Field; 7] =
    [Field::Device, Field::Kind, Field::Name, Field::Size, Field::Offset, Field::Path, Field::Comm];

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    reports::ends_by_signal(reading);
    let generated = if plan.by_default { pipeline.usual_groups() } else { None };
    let mut plan = plan.clone();
    // Groups of outliers and of --use have all fields.
    let drops_missing = generated.is_some() && plan.over_ns.is_none() && !plan.shows_use;
    plan.folding.by = generated.unwrap_or(plan.folding.by);
    if !pipeline.has_sizes() {
        plan.folding.weight = Weight::Count;
    }
    let plan = &plan;
    if plan.different {
        return different::run(pipeline, plan);
    }
    if plan.folding.interval.is_some() {
        return tables::run(pipeline, plan);
    }
    let needs_events = plan.over_ns.is_some() || plan.shows_use;
    if !needs_events && pipeline.origin(&plan.folding)? != Origin::Events {
        let (series, contexts) = pipeline.totals(&plan.folding, plan.by_default)?;
        let series = if drops_missing { series.without_missing() } else { series };
        let context = Context::merged(&contexts);
        let mut summary = Summary::new(&series, &context);
        summary.sort(plan.sort);
        return print(reading, plan, &summary, None, &context);
    }
    let (gathered, contexts, waiters) = gather(pipeline, plan)?;
    if plan.folding.quantity == Quantity::Latency {
        contexts.iter().try_for_each(refuse_averages)?;
    }
    let context = Context::merged(&contexts);
    let Gathered { builder, outliers, usage } = gathered;
    let is_pruned = builder.is_pruned();
    let mut series = builder.finish();
    if is_pruned && pipeline.is_read_again() {
        series = of_groups(pipeline, &plan.folding, series.groups())?;
    }
    reports::say_others(&series);
    if !plan.by_default {
        reports::say_ungrouped(&series);
    }
    series.add_waiting(&waiters, None);
    let series = series.completed_only(plan.folding.completed_only);
    let series = if drops_missing { series.without_missing() } else { series };
    let mut summary = Summary::new(&series, &context);
    if let Some(mut usage) = usage {
        usage.add_waiting(&waiters);
        summary.show_use(&usage);
    }
    summary.sort(plan.sort);
    print(reading, plan, &summary, outliers.as_ref(), &context)?;
    if plan.shape != Shape::Text {
        reports::say_notes(&contexts);
    }
    Ok(())
}

/// What is made of single events.
struct Gathered {
    builder: SeriesBuilder,
    outliers: Option<Outliers>,
    usage: Option<Usage>,
}

impl Gathered {
    fn new(plan: &Plan) -> Gathered {
        Gathered {
            builder: totals_builder(&plan.folding),
            outliers: plan.over_ns.map(|over_ns| Outliers::new(over_ns, LISTED)),
            usage: plan.shows_use.then(|| Usage::new(plan.folding.by.clone())),
        }
    }

    fn fields(&self) -> FieldSet {
        let usage = self.usage.as_ref().map_or(FieldSet::default(), Usage::fields);
        let shown = self.outliers.as_ref().map_or(FieldSet::default(), |_| SHOWN.into_iter().collect());
        self.builder.fields().union(usage).union(shown)
    }

    /// Adds a batch; the number is that of the file, before its first batch.
    fn add(&mut self, starts: Option<usize>, by: &[Field], batch: &Batch, mask: Option<&Mask>) {
        if let Some(number) = starts {
            self.builder.start_trace_number(number as u32);
        }
        self.builder.add(batch, mask);
        if let Some(usage) = &mut self.usage {
            usage.add(batch, mask);
        }
        if let Some(outliers) = &mut self.outliers {
            outliers_of(batch, mask, by, outliers);
        }
    }

    fn merge(&mut self, other: Gathered) {
        self.builder.merge(other.builder);
        if let (Some(outliers), Some(more)) = (&mut self.outliers, other.outliers) {
            outliers.merge(more);
        }
    }
}

fn gather(pipeline: &Pipeline, plan: &Plan) -> Result<(Gathered, Vec<Context>, Vec<Waiter>), Failure> {
    let by = &plan.folding.by;
    let new = || Gathered::new(plan);
    let mut gathered = new();
    let fields = gathered.fields();
    if pipeline.reading().live.is_some() {
        let (context, waiters) = pipeline.watch(fields, by, |_, batch, mask, starts| {
            gathered.add(starts.then_some(0), by, batch, mask);
            ControlFlow::<Failure>::Continue(())
        })?;
        return Ok((gathered, vec![context], waiters));
    }
    let (gathered, contexts) = if plan.shows_use {
        // How busy a device was is known exactly only in the order of time.
        let mut number = 0;
        let contexts = pipeline.each_batch(fields, |_, batch, mask, starts| {
            number += usize::from(starts);
            gathered.add(starts.then_some(number), by, batch, mask);
            ControlFlow::<Failure>::Continue(())
        })?;
        (gathered, contexts)
    } else {
        let add = |gathered: &mut Gathered, starts, _: &Context, batch: &Batch, mask: Option<&Mask>| {
            gathered.add(starts, by, batch, mask);
            ControlFlow::<Failure>::Continue(())
        };
        pipeline.fold(fields, &new, add, Gathered::merge)?
    };
    let waiters = pipeline.waiters(&contexts, by)?;
    Ok((gathered, contexts, waiters))
}

/// Reads once more, for these groups.
fn of_groups(pipeline: &Pipeline, folding: &Folding, groups: &[Vec<String>]) -> Result<HistogramSeries, Failure> {
    let new = || totals_builder(folding).only(groups);
    let add = |builder: &mut SeriesBuilder, starts: Option<usize>, _: &Context, batch: &Batch, mask: Option<&Mask>| {
        if let Some(number) = starts {
            builder.start_trace_number(number as u32);
        }
        builder.add(batch, mask);
        ControlFlow::<Failure>::Continue(())
    };
    let (builder, _) = pipeline.fold(new().fields(), &new, add, SeriesBuilder::merge)?;
    Ok(builder.finish())
}

fn print(
    reading: &Reading,
    plan: &Plan,
    summary: &Summary,
    outliers: Option<&Outliers>,
    context: &Context,
) -> Result<(), Failure> {
    let filter = reading.filter_text();
    let path = plan.output.as_deref();
    let room = output::room(&plan.output);
    match (plan.shape, outliers) {
        (Shape::Text, None) => output::lines(path, summary.lines(context, WORDING, &filter, room)),
        (Shape::Text, Some(outliers)) => {
            output::lines(path, outliers.lines(summary, context, WORDING, TimeLabels::Elapsed, room.texts))
        }
        (Shape::Csv, None) => output::text(path, &summary.csv()),
        (Shape::Csv, Some(outliers)) => output::text(path, &outliers.csv()),
        (Shape::Json, None) => output::text(path, &summary.json()),
        (Shape::Json, Some(outliers)) => output::text(path, &outliers.json()),
    }
}

/// Adds the events above the threshold.
fn outliers_of(batch: &Batch, mask: Option<&Mask>, by: &[Field], outliers: &mut Outliers) {
    for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
        if outliers.is_over(batch.latency()[row]) {
            outliers.add(outlier(batch, row, by));
        }
    }
}

fn outlier(batch: &Batch, row: usize, by: &[Field]) -> Outlier {
    let group = by.iter().map(|&field| text(batch, field, row).unwrap_or(HistogramSeries::NO_VALUE.into())).collect();
    let shown: FieldSet = SHOWN.into_iter().chain(by.iter().copied()).collect();
    let values = shown.iter().filter_map(|field| Some((field, text(batch, field, row)?))).collect();
    Outlier { time_ns: batch.time()[row], latency_ns: batch.latency()[row], group, values }
}

fn text(batch: &Batch, field: Field, row: usize) -> Option<String> {
    match batch.column(field)? {
        Column::I64(values) => (values[row] != MISSING_I64).then(|| values[row].to_string()),
        Column::U64(values) => (values[row] != MISSING_U64).then(|| values[row].to_string()),
        Column::Text(_) => batch.text(field, row).map(str::to_string),
    }
}
