//! `latscope summary`.

mod tables;

use super::{live, output, read, stored, unfinished};
use crate::Failure;
use crate::plan::{Folding, Reading, Shape, Summary as Plan};
use latscope_capture_file::Format;
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_I64, MISSING_U64, Mask};
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Usage, Weight};
use latscope_view_term::{Outlier, Outliers, Summary, SummaryKey, TimeLabels};
use std::ops::ControlFlow;

/// So many outliers are listed, the slowest; all are counted.
const LISTED: usize = 1000;
/// What a warning line tells beside time and latency, where the source knows it.
const SHOWN: [Field; 7] =
    [Field::Device, Field::Kind, Field::Name, Field::Size, Field::Offset, Field::Path, Field::Comm];

pub fn run(reading: &Reading, plan: &Plan) -> Result<(), Failure> {
    read::ends_by_signal(reading);
    let key = SummaryKey::from_name(&plan.sort).ok_or_else(|| {
        Failure::Usage(format!(
            "--sort {}: there is no such column; take group, count, bytes, min, mean, sd, p50, p90, p99, p99.9, p99.99, max or share.",
            plan.sort
        ))
    })?;
    let generated = if plan.by_default { groups_of_jobs(reading) } else { None };
    let mut plan = plan.clone();
    // Groups of outliers and of --use have all fields.
    let drops_untold = generated.is_some() && plan.over_ns.is_none() && !plan.shows_use;
    plan.folding.by = generated.unwrap_or(plan.folding.by);
    // What moved how many bytes is not told by every format.
    let is_sized = |format: Format| format != Format::TwoColumns || reading.two_columns.unit_bytes.is_some();
    let tells_size =
        |format: &Option<Format>| format.is_none_or(|format| format.fills().contains(Field::Size) && is_sized(format));
    if reading.live.is_none() && !read::formats(reading).iter().any(tells_size) {
        plan.folding.weight = Weight::Count;
    }
    let plan = &plan;
    if plan.folding.interval.is_some() {
        return tables::run(reading, plan, key);
    }
    let told = |series: HistogramSeries| if drops_untold { series.without_untold() } else { series };
    let folding = &plan.folding;
    // Stored histograms carry no bytes unless they were made for that, and no single events.
    let counted = Folding { weight: Weight::Count, ..folding.clone() };
    let needs_events = plan.over_ns.is_some() || plan.shows_use;
    let stored = |counted: &Folding| if needs_events { Ok(None) } else { stored::read(reading, counted, 2) };
    let found = match stored(&counted) {
        // Not every stored histogram is of a device; nobody asked for that.
        Err(Failure::Usage(_)) if plan.by_default => stored(&Folding { by: Vec::new(), ..counted }),
        found => found,
    };
    if let Some((mut series, contexts)) = found? {
        contexts.iter().try_for_each(read::refuse_windows)?;
        series.add_waiting(&unfinished::waiters(reading, &contexts, &series.by.clone())?, None);
        let series = series.completed_only(folding.completed_only);
        let context = Context::merged(&contexts);
        let mut summary = Summary::new(&told(series), &context);
        summary.sort(key);
        return print(reading, plan, &summary, None, &context);
    }
    let weighed = Folding { weight: Weight::Bytes, ..folding.clone() };
    if !needs_events
        && let Some(capture) = &reading.live
        && let Some((series, context)) = live::series(reading, capture, &weighed, 2)?
    {
        let mut summary = Summary::new(&series, &context);
        summary.sort(key);
        return print(reading, plan, &summary, None, &context);
    }
    // One interval of any length would do; a few keep the bookkeeping of the builder as it is.
    let mut builder =
        SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Auto(2)).with_squares();
    let mut outliers = plan.over_ns.map(|over_ns| Outliers::new(over_ns, LISTED));
    let mut usage = plan.shows_use.then(|| Usage::new(folding.by.clone()));
    let mut fields = builder.fields();
    if let Some(usage) = &usage {
        fields = fields.union(usage.fields());
    }
    if outliers.is_some() {
        fields = fields.union(SHOWN.into_iter().collect());
    }
    let mut take = |batch: &Batch, mask: Option<&Mask>, begin: bool| {
        if begin {
            builder.begin_trace();
        }
        builder.add(batch, mask);
        if let Some(usage) = &mut usage {
            usage.add(batch, mask);
        }
        if let Some(outliers) = &mut outliers {
            outliers_of(batch, mask, &folding.by, outliers);
        }
        ControlFlow::Continue(())
    };
    let (contexts, waiters) = match &reading.live {
        Some(capture) => {
            let (context, waiters) =
                live::each_batch_and_waiter(reading, capture, fields, &folding.by, |_, batch, mask, begin| {
                    take(batch, mask, begin)
                })?;
            (vec![context], waiters)
        }
        None => {
            let contexts = read::each_batch(reading, fields, |_, batch, mask, begin| take(batch, mask, begin))?;
            let waiters = unfinished::waiters(reading, &contexts, &folding.by)?;
            (contexts, waiters)
        }
    };
    if folding.quantity == Quantity::Latency {
        contexts.iter().try_for_each(read::refuse_windows)?;
    }
    let context = Context::merged(&contexts);
    let is_pruned = builder.is_pruned();
    let mut series = builder.finish();
    if is_pruned && read::is_read_again(reading) {
        series = of_groups(reading, folding, series.groups())?;
    }
    read::say_others(&series);
    if !plan.by_default {
        read::say_ungrouped(&series);
    }
    series.add_waiting(&waiters, None);
    let series = told(series.completed_only(folding.completed_only));
    let mut summary = Summary::new(&series, &context);
    if let Some(mut usage) = usage {
        usage.add_waiting(&waiters);
        summary.show_use(&usage);
    }
    summary.sort(key);
    print(reading, plan, &summary, outliers.as_ref(), &context)?;
    if plan.shape != Shape::Text {
        read::say_notes(&contexts);
    }
    Ok(())
}

/// What tells the events of load generators apart: their jobs, not the devices, which they do not name. Nothing where other files
/// are read, too.
fn groups_of_jobs(reading: &Reading) -> Option<Vec<Field>> {
    let formats = if reading.live.is_none() { read::formats(reading) } else { Vec::new() };
    let all = |known: &[Format]| {
        !formats.is_empty() && formats.iter().all(|format| format.is_some_and(|format| known.contains(&format)))
    };
    if all(&[Format::Hlog]) {
        return Some(vec![Field::Job]);
    }
    let is_fio = all(&[Format::FioLog, Format::FioHist, Format::FioJson, Format::Smallfile]);
    is_fio.then(|| vec![Field::Job, Field::Kind, Field::Host])
}

/// Reads once more, for these groups.
fn of_groups(reading: &Reading, folding: &Folding, groups: &[Vec<String>]) -> Result<HistogramSeries, Failure> {
    let builder =
        SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Auto(2)).with_squares();
    let mut builder = builder.only(groups);
    read::each_batch(reading, builder.fields(), |_, batch, mask, begin| {
        if begin {
            builder.begin_trace();
        }
        builder.add(batch, mask);
        ControlFlow::Continue(())
    })?;
    Ok(builder.finish())
}

fn print(
    reading: &Reading,
    plan: &Plan,
    summary: &Summary,
    outliers: Option<&Outliers>,
    context: &Context,
) -> Result<(), Failure> {
    let filter = reading.filter.as_ref().map_or(String::new(), ToString::to_string);
    let path = plan.output.as_deref();
    // A table in a file need not be cut to a terminal.
    let columns = if output::to_terminal(&plan.output) { output::columns(&plan.output) } else { 160 };
    match (plan.shape, outliers) {
        (Shape::Text, None) => output::lines(path, summary.lines(context, &filter, columns)),
        (Shape::Text, Some(outliers)) => {
            output::lines(path, outliers.lines(summary, context, TimeLabels::Elapsed, columns))
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
