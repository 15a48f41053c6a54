//! `latscope percentiles`.

use super::output::{self, Output};
use super::{live, read, stored};
use crate::Failure;
use crate::plan::{Live, Percentiles as Plan, Reading, Shape};
use latscope_capture_file::is_pipe;
use latscope_event::Context;
use latscope_series::{
    Counting, Exact, ExactBuilder, Exceeded, HistogramSeries, Interval, SeriesBuilder, Watch, events_for,
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
/// The interval of a live view when none is given.
const LIVE_NS: u64 = 1_000_000_000;
/// So long after an interval its events are all there: ring buffers are read ten times a second.
const SLACK_NS: i64 = 300_000_000;

pub fn run(reading: &Reading, plan: &Plan) -> Result<(), Failure> {
    if let (Some(capture), None) = (&reading.live, &plan.chart) {
        return stream(reading, capture, plan);
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
    if plan.chart.is_some() && plan.folding.interval.is_none() && plan.accuracy.is_none() {
        series = told(series, &plan.percentiles);
    }
    let printer = match &plan.chart {
        None => table(reading, plan, series, &contexts)?,
        Some(options) => draw(reading, plan, &series, (&contexts, options))?,
    };
    printer.verdict(reading)
}

/// Prints the lines of a whole series.
fn table<'a>(
    reading: &Reading,
    plan: &'a Plan,
    mut series: HistogramSeries,
    contexts: &[Context],
) -> Result<Printer<'a>, Failure> {
    let quantiles: Vec<f64> = plan.percentiles.iter().map(|percentile| percentile / 100.0).collect();
    if let Some(events) = events_wanted(plan) {
        series = series.joined(events);
    }
    let all = Context::merged(contexts);
    let options = PercentileOptions {
        zero_ns: zero_ns(&all, &series),
        exact: if plan.exact { Some(exact(reading, &series, &quantiles, plan.all)?) } else { None },
        complete_until_ns: all.span_ns.filter(|_| plan.folding.counting == Counting::Shares).map(|(_, to_ns)| {
            // What took longest may have company that never came back before the end.
            to_ns.saturating_sub_unsigned(series.total(None).totals().max)
        }),
        ..options_of(plan)
    };
    let mut printer = Printer::new(plan, all.clock.to_unix_ns, options)?;
    printer.print(&series)?;
    if series.slices().is_empty() {
        eprintln!("latscope: There is no event to show.");
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
    if plan.exact {
        // The panel of everything is always there.
        let exact = exact(reading, chart.series(), chart.quantiles(), true)?;
        chart = chart.exact(exact);
    }
    let all = Context::merged(contexts);
    let shown = PercentileOptions { zero_ns: zero_ns(&all, series), ..options_of(plan) };
    let mut printer = Printer::new(plan, all.clock.to_unix_ns, shown)?;
    printer.watch(chart.judged());
    printer.write(&chart.svg())?;
    Ok(printer)
}

/// Where elapsed time counts from.
fn zero_ns(all: &Context, series: &HistogramSeries) -> Option<i64> {
    Some(all.zero_ns(series.range().map(|(first, _)| series.start_ns(first)), series.width_ns()))
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
    if reading.files.iter().any(|file| is_pipe(file)) {
        return Err(Failure::Usage("--exact reads its input twice, which a pipe cannot be; give a file.".into()));
    }
    match reading.files.iter().find(|file| stored::is_stored(reading, file)) {
        None => Ok(()),
        Some(file) => Err(Failure::Usage(format!(
            "{} holds histograms, no events, so its percentiles are as exact as its bins are; leave --exact out.",
            file.display()
        ))),
    }
}

/// Reads the events once more, for the exact percentiles of a series of them.
fn exact(reading: &Reading, series: &HistogramSeries, quantiles: &[f64], also_all: bool) -> Result<Exact, Failure> {
    let mut exact = ExactBuilder::new(series, quantiles, also_all);
    read::each_batch(reading, exact.fields(), |context, batch, mask, begin| {
        if begin {
            exact.begin_trace(context.begin_ns);
        }
        exact.add(batch, mask);
        ControlFlow::Continue(())
    })?;
    Ok(exact.finish())
}

/// Lines as intervals pass.
fn stream(reading: &Reading, capture: &Live, plan: &Plan) -> Result<(), Failure> {
    let mut printer = Printer::new(plan, Some(0), options_of(plan))?;
    printer.out = printer.out.as_it_comes();
    let width_ns = plan.folding.interval.unwrap_or(LIVE_NS);
    if live::counts_in_kernel(reading, capture, &plan.folding)? {
        let mut counting = live::Counting::start(reading, capture, &plan.folding, width_ns)?;
        let until = live::Until::new(capture);
        let mut over = false;
        while !over {
            std::thread::sleep(until.turn(counting.due().min(live::TURN)));
            over = until.is_over();
            if over || counting.due().is_zero() {
                let mut series = counting.series();
                counting.collect(&mut series)?;
                printer.print(&series)?;
            }
        }
        read::say_notes(&[counting.context()]);
        return printer.verdict(reading);
    }
    let folding = &plan.folding;
    let mut builder =
        SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Fixed(width_ns));
    let contexts = read::each_batch(reading, builder.fields(), |_, batch, mask, begin| {
        if begin {
            builder.begin_trace();
        }
        builder.add(batch, mask);
        let open = (live::now_ns() - SLACK_NS).div_euclid(width_ns as i64);
        match printer.print(&builder.take_before(open)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(failure),
        }
    })?;
    printer.print(&builder.finish())?;
    read::say_notes(&contexts);
    printer.verdict(reading)
}

struct Printer<'a> {
    plan: &'a Plan,
    table: Percentiles,
    watch: Option<Watch>,
    out: Output,
}

impl Printer<'_> {
    fn new(plan: &Plan, to_unix_ns: Option<i64>, options: PercentileOptions) -> Result<Printer<'_>, Failure> {
        let folding = &plan.folding;
        let table = Percentiles::new(&plan.percentiles, &folding.by, folding.quantity, to_unix_ns).with(options);
        let watch = plan.fail_if.clone().map(Watch::new);
        Ok(Printer { plan, table, watch, out: output::open(plan.output.as_deref())? })
    }

    fn watch(&mut self, series: &HistogramSeries) {
        self.watch.iter_mut().for_each(|watch| watch.see(series));
    }

    /// Fails if the threshold was exceeded, or if there was nothing to hold it against.
    fn verdict(self, reading: &Reading) -> Result<(), Failure> {
        self.out.finish().map_err(|error| Failure::output(&error))?;
        let Some(watch) = &self.watch else { return Ok(()) };
        let Some(Exceeded { group, start_ns, width_ns, events }) = watch.exceeded() else {
            // Live, a device may well be idle.
            return match watch.is_blind() && reading.live.is_none() {
                true => Err(Failure::Input("There is no event, so --fail-if has nothing to look at.".into())),
                false => Ok(()),
            };
        };
        let of = if group.is_empty() { String::new() } else { format!(" of {}", group.join(" ")) };
        let at = self.table.label(*start_ns, *width_ns);
        let events =
            if *events < 10.0 { format!("{}", (events * 100.0).round() / 100.0) } else { format!("{events:.0}") };
        let events = if events == "1" { "1 event".into() } else { format!("{events} events") };
        Err(Failure::Exceeded(format!("{}: so it was{of} at {at}, with {events}.", watch.threshold())))
    }

    fn print(&mut self, series: &HistogramSeries) -> Result<(), Failure> {
        self.watch(series);
        let mut text = String::new();
        match self.plan.shape {
            Shape::Csv => text = self.table.csv(series),
            Shape::Json => text = self.table.json_lines(series),
            Shape::Text => {
                let wide = output::to_terminal(&self.plan.output);
                let columns = if wide { output::columns(&self.plan.output) } else { 1000 };
                self.table.lines(series, columns).iter().for_each(|line| line.encode(&mut text));
            }
        }
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }
}
