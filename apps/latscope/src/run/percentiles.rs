//! `latscope percentiles`.

use super::intervals::{self, Intervals};
use super::output::{self, Output};
use super::{read, stored, stream};
use crate::Failure;
use crate::plan::{Live, Percentiles as Plan, Reading, Shape};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latscope_capture_file::is_pipe;
use latscope_event::{Context, FieldSet, format_count, format_size};
use latscope_series::{
    AskedPercentiles, Budget, CountBy, Exact, ExactBuilder, HistogramSeries, Joining, Judging, Place, Threshold, Watch,
    events_for,
};
use latscope_view_report::{PercentilesChart, PercentilesOptions};
use latscope_view_term::{PercentileOptions, Percentiles};
use std::io::Write;
use std::ops::ControlFlow;

/// Intervals at least from which those of `-i auto` are joined.
const FINEST: u32 = 1000;
/// Lines that a trace gets when the interval is not given.
const LINES: u32 = 60;
/// How many intervals a chart of a trace has when their length is not given.
const POINTS: std::ops::RangeInclusive<u32> = 50..=200;

pub fn run(reading: &Reading, plan: &Plan) -> Result<(), Failure> {
    read::ends_by_signal(reading);
    if let (Some(capture), None) = (&reading.live, &plan.chart) {
        return live(reading, capture, plan);
    }
    let has_interval = plan.folding.interval.is_some() || reading.follow;
    if has_interval && !plan.exact && plan.chart.is_none() && stream::is_stream(reading) {
        return streamed(reading, plan);
    }
    if plan.exact {
        require_events(reading)?;
    }
    let limit = match &plan.chart {
        _ if plan.accuracy.is_some() => FINEST,
        Some(_) => *POINTS.end(),
        None => LINES,
    };
    let (mut series, contexts) = read::series(reading, &plan.folding, limit)?;
    let all = Context::merged(&contexts);
    if let (Some(from_ns), Some((_, to_ns))) = (all.trace_start_ns(), all.span_ns) {
        series.observe(from_ns, to_ns);
    }
    if plan.chart.is_some() && plan.folding.interval.is_none() && plan.accuracy.is_none() {
        series = told(series, &plan.percentiles);
    }
    let printer = match &plan.chart {
        None => table(reading, plan, series, &contexts)?,
        Some(options) => draw(reading, plan, &series, (&contexts, options))?,
    };
    refuse_untold(plan, &contexts, printer.is_exceeded())?;
    printer.verdict(reading)
}

/// Fails where `--fail-if` asks what waits and the traces do not say it.
fn refuse_untold(plan: &Plan, contexts: &[Context], is_exceeded: bool) -> Result<(), Failure> {
    if is_exceeded || !plan.fail_if.as_ref().is_some_and(Threshold::asks_what_waits) {
        return Ok(());
    }
    if let Some(context) = contexts.iter().find(|context| !context.knows_unfinished) {
        return Err(Failure::Input(format!(
            "{}: --fail-if: The trace does not say what was waiting, so oldest and waiting are unknown; use a trace of block \
             requests or system calls, or a live capture.",
            context.source
        )));
    }
    let doubtful = contexts.iter().flat_map(|context| &context.unfinished).filter(|request| !request.counts()).count();
    if doubtful > 0 {
        return Err(Failure::Input(format!(
            "--fail-if: {} without a completion may have waited, or the tracer missed their completions, so oldest and \
             waiting are unknown.",
            plural(doubtful as u64, "request")
        )));
    }
    Ok(())
}

/// Prints the lines of a whole series.
fn table<'a>(
    reading: &Reading,
    plan: &'a Plan,
    mut series: HistogramSeries,
    contexts: &[Context],
) -> Result<Printer<'a>, Failure> {
    if let Some(events) = events_wanted(plan) {
        series = series.joined(events);
    }
    let all = Context::merged(contexts);
    let mut judged_by = judged_by(plan);
    if plan.exact {
        let mut quantiles: Vec<f64> = plan.percentiles.iter().map(|percentile| percentile / 100.0).collect();
        quantiles.extend(plan.fail_if.iter().flat_map(Threshold::percentiles));
        judged_by.exact = exact(reading, vec![ExactBuilder::new(&series, &quantiles, plan.all)])?.pop();
    }
    let options = PercentileOptions {
        axis_start_ns: axis_start_ns(&all, &series),
        exact: judged_by.exact.clone(),
        complete_until_ns: open_since_ns(plan, contexts, &series),
        waiting: series.has_waiting(),
        ..options_of(plan)
    };
    let mut printer = Printer::new(plan, all.clock.to_unix_ns, options, judged_by)?;
    printer.print(&series)?;
    if series.slices().is_empty() {
        say!("latscope: There is no event to show.");
    }
    read::say_notes(contexts);
    Ok(printer)
}

/// Draws the chart of a whole series.
fn draw<'a>(
    reading: &Reading,
    plan: &'a Plan,
    series: &HistogramSeries,
    (contexts, options): (&[Context], &PercentilesOptions),
) -> Result<Printer<'a>, Failure> {
    let mut chart =
        PercentilesChart::new(series, contexts, options).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(events) = events_wanted(plan) {
        chart = chart.joined(events);
    }
    let mut judged_by = judged_by(plan);
    if plan.exact {
        // The panel of everything is always there.
        let mut builders = vec![ExactBuilder::new(chart.series(), chart.quantiles(), true)];
        if let Some(threshold) = &plan.fail_if {
            builders.push(ExactBuilder::new(chart.judged(), &threshold.percentiles(), true));
        }
        let mut exact = exact(reading, builders)?.into_iter();
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
fn told(series: HistogramSeries, percentiles: &[f64]) -> HistogramSeries {
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

/// Exact percentiles take single events, twice.
fn require_events(reading: &Reading) -> Result<(), Failure> {
    if reading.follow || reading.files.iter().any(|file| is_pipe(file)) {
        return Err(Failure::Usage(
            "--exact reads its input twice, which a pipe or a file that grows cannot be; give a file.".into(),
        ));
    }
    match reading.files.iter().find(|file| stored::is_stored(reading, file)) {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "{} holds histograms, no events, so its percentiles are as exact as its bins are; leave --exact out.",
            file.display()
        ))),
    }
}

/// Reads the events once more, for the exact percentiles of series of them.
fn exact(reading: &Reading, mut builders: Vec<ExactBuilder>) -> Result<Vec<Exact>, Failure> {
    if !read::is_read_again(reading) {
        return Err(Failure::Input(
            "Interrupted: --exact reads its input twice; let it end, or leave --exact out.".into(),
        ));
    }
    let fields = builders.iter().fold(FieldSet::default(), |fields, builder| fields.union(builder.fields()));
    read::each_batch(reading, fields, |context, batch, mask, begin| {
        for builder in &mut builders {
            if begin {
                builder.begin_trace(context.start_ns);
            }
            builder.add(batch, mask);
        }
        if builders.iter().any(ExactBuilder::is_full) {
            ControlFlow::Break(too_much())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(builders.into_iter().map(ExactBuilder::finish).collect())
}

/// The refusal of exact percentiles that do not fit into memory.
fn too_much() -> Failure {
    let limit = format_size(Budget::default().limit() as u64);
    Failure::Usage(format!(
        "The exact percentiles of all intervals and groups take more than {limit} of memory; give a longer interval (-i), fewer \
         groups (--by), fewer percentiles (--p) or a filter, or leave --exact out."
    ))
}

/// Lines as intervals pass.
fn live(reading: &Reading, capture: &Live, plan: &Plan) -> Result<(), Failure> {
    let options = PercentileOptions { waiting: true, ..options_of(plan) };
    let mut lines = Lines::new(Printer::new(plan, Some(0), options, judged_by(plan))?, reading);
    let context = intervals::live(reading, capture, &plan.folding, &mut lines)?;
    let printer = lines.finish()?;
    read::say_notes(&[context]);
    printer.verdict(reading)
}

/// Lines as intervals close of what is read while it is written.
fn streamed(reading: &Reading, plan: &Plan) -> Result<(), Failure> {
    let mut lines = Lines::new(Printer::new(plan, None, options_of(plan), judged_by(plan))?, reading);
    lines.of_file = true;
    let context = stream::read(reading, &plan.folding, &mut lines)?;
    if !lines.begun {
        say!("latscope: There is no event to show.");
    }
    let printer = lines.finish()?;
    let contexts = [context];
    read::say_notes(&contexts);
    refuse_untold(plan, &contexts, printer.is_exceeded())?;
    printer.verdict(reading)
}

/// Prints intervals as they pass, or joins them until they have enough events.
struct Lines<'a> {
    printer: Printer<'a>,
    joining: Option<Joining>,
    progress: ProgressBar,
    /// Times are those of a file, which the first interval tells.
    of_file: bool,
    begun: bool,
}

impl<'a> Lines<'a> {
    fn new(mut printer: Printer<'a>, reading: &Reading) -> Lines<'a> {
        printer.out = printer.out.growing_with(reading);
        let joining = events_wanted(printer.plan).map(Joining::new);
        // Hidden where standard error is no terminal.
        let progress = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("filling {bar:40} {human_pos} of {human_len} events");
        let progress = progress.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Lines { printer, joining, progress, of_file: false, begun: false }
    }

    fn print(&mut self, series: &HistogramSeries) -> Result<(), Failure> {
        self.progress.suspend(|| {
            self.printer.print(series)?;
            self.printer.warn();
            Ok(())
        })
    }

    /// Prints what has not filled.
    fn finish(mut self) -> Result<Printer<'a>, Failure> {
        self.progress.finish_and_clear();
        if let Some(rest) = self.joining.take().and_then(Joining::finish) {
            self.print(&rest)?;
        }
        Ok(self.printer)
    }
}

impl Intervals for Lines<'_> {
    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        if self.of_file && !self.begun && !series.slices().is_empty() {
            self.printer.begin(context, series);
        }
        self.begun |= !series.slices().is_empty();
        let Some(joining) = &mut self.joining else { return self.print(series) };
        let complete = joining.add(series);
        let (filled, enough) = joining.filled();
        complete.iter().try_for_each(|series| self.print(series))?;
        self.progress.set_length(enough as u64);
        self.progress.set_position(filled as u64);
        Ok(())
    }

    fn ends(&mut self, context: &Context, longest_ns: u64) {
        self.printer.ends(context, longest_ns);
    }

    fn late(&mut self, series: &HistogramSeries, _context: &Context) -> Result<bool, Failure> {
        self.print(series).map(|()| true)
    }
}

struct Printer<'a> {
    plan: &'a Plan,
    table: Percentiles,
    watch: Option<Watch>,
    judged_by: AskedPercentiles,
    /// Whether it was said, live, that the threshold was exceeded.
    warned: bool,
    /// What is in flight after this moment may be missing.
    complete_until_ns: Option<i64>,
    out: Output,
}

impl Printer<'_> {
    fn new(
        plan: &Plan,
        to_unix_ns: Option<i64>,
        options: PercentileOptions,
        judged_by: AskedPercentiles,
    ) -> Result<Printer<'_>, Failure> {
        let folding = &plan.folding;
        let table = Percentiles::new(&plan.percentiles, &folding.by, folding.quantity, to_unix_ns).with(options);
        let watch = plan.fail_if.clone().map(Watch::new);
        let out = output::open(plan.output.as_deref())?;
        Ok(Printer { plan, table, watch, judged_by, warned: false, complete_until_ns: None, out })
    }

    /// Counts times as the file does whose first intervals these are.
    fn begin(&mut self, context: &Context, series: &HistogramSeries) {
        let (plan, to_unix_ns) = (self.plan, context.clock.to_unix_ns);
        let (axis_start_ns, complete_until_ns) = (axis_start_ns(context, series), self.complete_until_ns);
        let options = PercentileOptions { axis_start_ns, complete_until_ns, ..options_of(plan) };
        self.table =
            Percentiles::new(&plan.percentiles, &plan.folding.by, plan.folding.quantity, to_unix_ns).with(options);
    }

    /// Marks what may lack events that had not completed when the trace ended.
    fn ends(&mut self, context: &Context, longest_ns: u64) {
        let by_share = self.plan.folding.count_by == CountBy::Overlap;
        let open_since_ns = || Context::open_since_ns(std::slice::from_ref(context), longest_ns);
        self.complete_until_ns = by_share.then(open_since_ns).flatten();
        self.table.complete_until(self.complete_until_ns);
    }

    /// Judges all that is shown.
    fn watch(&mut self, series: &HistogramSeries) {
        let all = self.plan.all && !self.plan.folding.by.is_empty();
        let judging = Judging { all, ..Judging::new(&self.judged_by) };
        self.watch.iter_mut().for_each(|watch| watch.see(series, &judging));
    }

    /// Says at once, the first time, that the threshold is exceeded: whoever watches a stall need not wait for its end.
    fn warn(&mut self) {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.warned) else { return };
        if let Some(exceeded) = watch.exceeded() {
            let (worst, finding) = &exceeded.worst;
            say!("latscope: {} exceeded: {finding}{}", watch.threshold(), place(&self.table, worst));
            self.warned = true;
        }
    }

    fn is_exceeded(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.exceeded().is_some())
    }

    /// Fails if the threshold was exceeded, or if there was nothing to hold it against.
    fn verdict(self, reading: &Reading) -> Result<(), Failure> {
        let Printer { table, watch, out, .. } = self;
        table.left_out().iter().for_each(|sentence| say!("latscope: {sentence}"));
        out.finish().map_err(|error| Failure::output(&error))?;
        let Some(watch) = &watch else { return Ok(()) };
        let Some(exceeded) = watch.exceeded() else {
            // Live, a device may well be idle.
            return match watch.is_blind() && reading.live.is_none() {
                true if watch.seen() == 0 => {
                    Err(Failure::Input("There is no event, so --fail-if has nothing to look at.".into()))
                }
                true => Err(Failure::Input(format!(
                    "--fail-if {}: nothing that is read says so much; no interval was judged.",
                    watch.threshold()
                ))),
                false => Ok(()),
            };
        };
        let (worst, finding) = &exceeded.worst;
        let mut message = format!(
            "{}: in {} of {}",
            watch.threshold(),
            format_count(exceeded.intervals),
            plural(exceeded.of, "interval")
        );
        if exceeded.groups.1 > 1 {
            message += &format!(", of {} of {}", exceeded.groups.0, plural(exceeded.groups.1 as u64, "group"));
        }
        message += &format!("; worst: {finding}{}", place(&table, worst));
        if (exceeded.first.start_ns, &exceeded.first.group) != (worst.start_ns, &worst.group) {
            message += &format!("; first{}", place(&table, &exceeded.first));
        }
        Err(Failure::Exceeded(message + "."))
    }

    fn print(&mut self, series: &HistogramSeries) -> Result<(), Failure> {
        self.watch(series);
        let (table, out) = (&mut self.table, &mut self.out);
        let written = match self.plan.shape {
            Shape::Csv => table.each_csv_line(series, &mut |line| out.write_all(line.as_bytes())),
            Shape::Json => table.each_json_line(series, &mut |line| out.write_all(line.as_bytes())),
            Shape::Text => {
                let wide = output::to_terminal(&self.plan.output);
                let columns = if wide { output::columns(&self.plan.output) } else { 1000 };
                table.each_line(series, columns, &mut |line| out.lines([line]))
            }
        };
        written.and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }
}

/// The group, the time and the number of events of an interval, for messages.
fn place(table: &Percentiles, place: &Place) -> String {
    let of = match &place.group {
        Some(group) if group.is_empty() => String::new(),
        Some(group) => format!(" of {}", group.join(" ")),
        None => " of all".into(),
    };
    let events = match place.events {
        events if events < 10.0 && events.fract() != 0.0 => format!("{events:.2} events"),
        events => plural(events.round() as u64, "event"),
    };
    format!("{of} at {} ({events})", table.label(place.start_ns, place.width_ns))
}

fn plural(count: u64, word: &str) -> String {
    format!("{} {word}{}", format_count(count), if count == 1 { "" } else { "s" })
}
