//! `latscope percentiles`.

mod exact;
mod lines;
mod printer;

use super::{output, reports, spark};
use crate::Failure;
use crate::notes::plural;
use crate::plan::{Folding, Percentiles as Plan, Reading, filter};
use exact::{exact, require_events};
use latscope_event::{Context, Field, FieldSet, Note};
use latscope_pipeline::{Control, Pipeline};
use latscope_series::{AskedPercentiles, CountBy, ExactBuilder, HistogramSeries, events_for};
use latscope_view_report::{PercentilesChart, PercentilesOptions};
use latscope_view_term::PercentileOptions;
use printer::Printer;

/// Intervals at least from which those of `-i auto` are merged.
const FINEST: u32 = 1000;
/// Lines that a trace gets when the interval is not given.
const LINES: u32 = 60;
/// How many intervals a chart of a trace has when their length is not given.
const POINTS: std::ops::RangeInclusive<u32> = 50..=200;
pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    reports::ends_by_signal(reading);
    if reading.live.is_some() && plan.chart.is_none() {
        return lines::live(pipeline, plan);
    }
    let has_interval = plan.folding.interval.is_some() || reading.follow;
    if has_interval && !plan.exact && plan.chart.is_none() && pipeline.is_stream() {
        return lines::streamed(pipeline, plan);
    }
    if plan.exact {
        require_events(pipeline)?;
    }
    let limit = match &plan.chart {
        _ if plan.accuracy.is_some() => FINEST,
        Some(_) => *POINTS.end(),
        None => LINES,
    };
    let (mut series, contexts) = pipeline.series(&plan.folding, limit)?;
    reports::say_groups(&series);
    let all = Context::merged(&contexts);
    if let (Some(from_ns), Some((_, to_ns))) = (all.trace_start_ns(), all.span_ns) {
        series.observe(from_ns, to_ns);
    }
    if plan.chart.is_some() && plan.folding.interval.is_none() && plan.accuracy.is_none() {
        series = supported(series, &plan.percentiles);
    }
    let printer = match &plan.chart {
        None => table(pipeline, plan, series, &contexts)?,
        Some(options) => draw(pipeline, plan, &series, (&contexts, options))?,
    };
    refuse_unknown(plan, &contexts, printer.is_exceeded())?;
    printer.verdict(pipeline, &contexts)
}

/// Fails where `--fail-if` is not exceeded by what is known, and may be by what the traces lack.
fn refuse_unknown(plan: &Plan, contexts: &[Context], is_exceeded: bool) -> Result<(), Failure> {
    let Some(threshold) = plan.fail_if.as_ref().filter(|_| !is_exceeded) else { return Ok(()) };
    // Of an application of Spark, any task may be among what is missing.
    if let Some((log, why)) = contexts.iter().find_map(|context| Some((context, spark::undecided(context)?))) {
        return Err(Failure::Input(format!("{}: --fail-if {threshold} cannot be decided: {why}.", log.source)));
    }
    // What waited when a recording was cut off is in its account, and may be more than all that completed.
    if threshold.rises_with_waiting()
        && let Some(cut) = contexts.iter().find(|context| context.is_cut() && !context.knows_unfinished)
    {
        return Err(Failure::Input(format!(
            "{}: --fail-if {threshold} cannot be decided: The recording is cut off, so what waited at its end is not known.",
            cut.source
        )));
    }
    if !threshold.asks_what_waits() {
        return Ok(());
    }
    refuse_unknown_waiting(contexts, "--fail-if")
}

/// Fails where the traces do not say what waits; `asker` is the option that asks for it.
pub fn refuse_unknown_waiting(contexts: &[Context], asker: &str) -> Result<(), Failure> {
    if let Some(context) = contexts.iter().find(|context| !context.knows_unfinished) {
        return Err(Failure::Input(format!(
            "{}: {asker}: The trace does not record waiting requests, so oldest and waiting are unknown; use a \
             trace of block requests or system calls, or a live capture.",
            context.source
        )));
    }
    let doubtful = contexts.iter().flat_map(|context| &context.unfinished).filter(|request| !request.counts()).count();
    if doubtful > 0 {
        return Err(Failure::Input(format!(
            "{asker}: {} have no completion. Either they waited, or the tracer missed their completions, so \
             oldest and waiting are unknown.",
            plural(doubtful as u64, "request")
        )));
    }
    Ok(())
}

/// Whether the scheduler timed every wait, so that samples only add stacks to some of them.
fn is_timed(context: &Context) -> bool {
    context.notes.iter().any(|note| matches!(note, Note::ShortWaits { .. }))
}

/// The longest time between two looks at threads, nanoseconds, where nothing else says how long they waited.
fn noted_every_ns(contexts: &[Context]) -> Option<u64> {
    let interval = |note: &Note| match note {
        &Note::Sampling { p95_ns, longest_ns, .. } => Some(longest_ns.max(p95_ns)),
        _ => None,
    };
    let sampled = contexts.iter().filter(|context| !is_timed(context));
    sampled.flat_map(|context| &context.notes).filter_map(interval).max()
}

/// Within what latencies are known, nanoseconds, where some of the events are samples: of waits it is the longest time between two
/// looks, of times on a CPU the tick of the timer.
fn sampled_every_ns(pipeline: &Pipeline, contexts: &[Context]) -> Result<Option<u64>, Failure> {
    let noted_ns = noted_every_ns(contexts);
    let reading = pipeline.reading();
    if reading.live.is_some()
        || pipeline.is_stream()
        || pipeline.formats().iter().flatten().any(|format| format.is_series())
    {
        return Ok(noted_ns);
    }
    let source = FieldSet::EMPTY.with(&[Field::StackSource]);
    if noted_ns.is_none() && !pipeline.columns(source).contains(Field::StackSource) {
        return Ok(None);
    }
    // A file may hold timed waits, too, and the filter may choose these.
    let whole = reading.filter.as_ref().map_or(String::new(), ToString::to_string);
    let all_timed = noted_ns.is_none() && contexts.iter().any(is_timed);
    let sources = if all_timed { "stack_source = timer" } else { "stack_source in (sampled, timer)" };
    let filter = filter(&whole, Some(sources.into()))?;
    let sampled = Pipeline::open(Reading { filter, ..reading.clone() }, Control::default())?;
    let (series, _) = sampled.series(&Folding::of_latencies(None), 1)?;
    let total = series.total(None);
    let totals = total.totals();
    Ok((totals.count > 0).then(|| noted_ns.unwrap_or(totals.max)))
}

/// Prints the lines of a whole series.
fn table<'a>(
    pipeline: &Pipeline,
    plan: &'a Plan,
    mut series: HistogramSeries,
    contexts: &[Context],
) -> Result<Printer<'a>, Failure> {
    if let Some(events) = events_wanted(plan) {
        series = series.merged_until(events);
    }
    let all = Context::merged(contexts);
    let (mut judged_by, mut shown) = (judged_by(plan), None);
    if plan.exact {
        let quantiles: Vec<f64> = plan.percentiles.iter().map(|percentile| percentile / 100.0).collect();
        let mut builders = vec![ExactBuilder::new(&series, &quantiles, plan.all)];
        builders.extend(judge(plan, &series, plan.all));
        let mut exact = exact(pipeline, builders)?.into_iter();
        (shown, judged_by.exact) = (exact.next(), exact.next());
    }
    let options = PercentileOptions {
        axis_start_ns: axis_start_ns(&all, &series),
        exact: shown,
        complete_until_ns: open_since_ns(plan, contexts, &series),
        waiting: series.has_waiting(),
        ..options_of(plan)
    };
    let mut printer = Printer::new(plan, all.clock.to_unix_ns, options, judged_by)?;
    printer.print(&series)?;
    if series.slices().is_empty() {
        say!("latscope: No events to show.");
    }
    reports::say_notes(contexts);
    Ok(printer)
}

/// Draws the chart of a whole series.
fn draw<'a>(
    pipeline: &Pipeline,
    plan: &'a Plan,
    series: &HistogramSeries,
    (contexts, options): (&[Context], &PercentilesOptions),
) -> Result<Printer<'a>, Failure> {
    let mut chart =
        PercentilesChart::new(series, contexts, options).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(events) = events_wanted(plan) {
        chart = chart.merged_until(events);
    }
    let mut judged_by = judged_by(plan);
    if plan.exact {
        // The panel of everything is always there.
        let mut builders = vec![ExactBuilder::new(chart.series(), chart.quantiles(), true)];
        builders.extend(judge(plan, chart.judged(), true));
        let mut exact = exact(pipeline, builders)?.into_iter();
        chart = exact.next().into_iter().fold(chart, PercentilesChart::exact);
        judged_by.exact = exact.next();
    }
    chart = chart.judged_by(judged_by.clone());
    let all = Context::merged(contexts);
    let shown = PercentileOptions { axis_start_ns: axis_start_ns(&all, series), ..options_of(plan) };
    let mut printer = Printer::new(plan, all.clock.to_unix_ns, shown, judged_by)?;
    printer.watch(chart.judged());
    printer.write(&chart.svg())?;
    Ok(printer)
}
/// What --fail-if judges with --exact: by rank, not interpolated, so that p99 exceeds a limit exactly if more than one event in a
/// hundred does.
fn judge(plan: &Plan, series: &HistogramSeries, also_all: bool) -> Option<ExactBuilder> {
    let quantiles = plan.fail_if.as_ref()?.percentiles();
    Some(ExactBuilder::new(series, &quantiles, also_all).nearest_rank())
}

/// From when on events may be missing, because they were in flight when a trace ended.
fn open_since_ns(plan: &Plan, contexts: &[Context], series: &HistogramSeries) -> Option<i64> {
    if plan.folding.count_by != CountBy::Overlap {
        return None;
    }
    Context::open_since_ns(contexts, series.total(None).totals().max)
}

/// Where the percentiles come from that --fail-if judges: from where those come that are shown.
fn judged_by(plan: &Plan) -> AskedPercentiles {
    AskedPercentiles { rule: plan.rule, ..AskedPercentiles::default() }
}

/// Where elapsed time counts from.
fn axis_start_ns(all: &Context, series: &HistogramSeries) -> Option<i64> {
    Some(all.axis_start_ns(series.range().map(|(first, _)| series.start_ns(first)), series.width_ns()))
}

/// How many events an interval has to hold, where the accuracy of percentiles decides.
fn events_wanted(plan: &Plan) -> Option<f64> {
    let accuracy = plan.accuracy?;
    Some(plan.percentiles.iter().map(|percentile| events_for(percentile / 100.0, accuracy)).fold(1.0, f64::max))
}

/// The series in intervals that hold on the average what the highest percentile takes, ten events beyond it, as far as
/// enough intervals remain to see when it was.
fn supported(series: HistogramSeries, percentiles: &[f64]) -> HistogramSeries {
    let beyond = percentiles.iter().map(|percentile| 1.0 - percentile / 100.0).filter(|&beyond| beyond > 0.0);
    let events = series.total(None).totals().count as f64 / series.per_event() as f64;
    let limit = (events * beyond.fold(1.0, f64::min) / 10.0) as u32;
    series.fitted(limit.clamp(*POINTS.start(), *POINTS.end()))
}

/// How percentiles are shown, as far as it was typed.
fn options_of(plan: &Plan) -> PercentileOptions {
    let color = output::to_terminal(&plan.output) && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let color = color && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    PercentileOptions { rule: plan.rule, all: plan.all, color, ..PercentileOptions::default() }
}
