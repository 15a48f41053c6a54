//! `latscope percentiles`.

use super::{live, output, read};
use crate::Failure;
use crate::plan::{Live, Percentiles as Plan, Reading, Shape};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder};
use latscope_view_term::Percentiles;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

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
    let limit = if plan.chart.is_some() { *POINTS.end() } else { LINES };
    let (mut series, contexts) = read::series(reading, &plan.folding, limit)?;
    if plan.chart.is_some() && plan.folding.interval.is_none() {
        series = told(series, &plan.percentiles);
    }
    let to_unix_ns = latscope_event::Context::merged(&contexts).clock.to_unix_ns;
    let mut printer = Printer::new(plan, to_unix_ns)?;
    match &plan.chart {
        None => {
            printer.print(&series)?;
            read::say_notes(&contexts);
        }
        Some(options) => {
            let chart = latscope_view_report::percentiles(&series, &contexts, options);
            let chart = chart.map_err(|error| Failure::Usage(error.to_string()))?;
            output::text(plan.output.as_deref(), &chart)?;
            printer.watch(&series);
        }
    }
    printer.verdict()
}

/// The series in intervals that hold on the average what the highest percentile takes, ten events beyond it, as far as
/// enough intervals remain to see when it was.
fn told(series: HistogramSeries, percentiles: &[f64]) -> HistogramSeries {
    let beyond = percentiles.iter().map(|percentile| 1.0 - percentile / 100.0).filter(|&beyond| beyond > 0.0);
    let events = series.total(None).totals().count as f64 / series.per_event() as f64;
    let limit = (events * beyond.fold(1.0, f64::min) / 10.0) as u32;
    series.fitted(limit.clamp(*POINTS.start(), *POINTS.end()))
}

/// Lines as intervals pass.
fn stream(reading: &Reading, capture: &Live, plan: &Plan) -> Result<(), Failure> {
    let mut printer = Printer::new(plan, Some(0))?;
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
        return printer.verdict();
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
    printer.verdict()
}

struct Printer<'a> {
    plan: &'a Plan,
    table: Percentiles,
    /// By group: the last interval in which the threshold held, and how many in a row.
    runs: BTreeMap<Vec<String>, (i64, u32)>,
    /// Group and start of the interval in which it had held long enough for the first time.
    exceeded: Option<(Vec<String>, i64)>,
    out: Box<dyn Write + Send>,
}

impl Printer<'_> {
    fn new(plan: &Plan, to_unix_ns: Option<i64>) -> Result<Printer<'_>, Failure> {
        let folding = &plan.folding;
        let table = Percentiles::new(&plan.percentiles, &folding.by, folding.quantity, to_unix_ns);
        Ok(Printer { plan, table, runs: BTreeMap::new(), exceeded: None, out: output::open(plan.output.as_deref())? })
    }

    fn watch(&mut self, series: &HistogramSeries) {
        let Some(threshold) = &self.plan.fail_if else { return };
        for (&interval, slice) in series.slices() {
            for (group, histogram) in &slice.groups {
                if !threshold.holds(histogram, series.per_event(), series.width_ns()) {
                    continue;
                }
                let group = &series.groups()[*group as usize];
                let (last, run) = self.runs.entry(group.clone()).or_insert((interval, 0));
                *run = if *last == interval - 1 { *run + 1 } else { 1 };
                *last = interval;
                if *run >= threshold.intervals() && self.exceeded.is_none() {
                    self.exceeded = Some((group.clone(), series.start_ns(interval)));
                }
            }
        }
    }

    /// Fails if the threshold was exceeded.
    fn verdict(self) -> Result<(), Failure> {
        let (Some(threshold), Some((group, time_ns))) = (&self.plan.fail_if, self.exceeded) else { return Ok(()) };
        let of = if group.is_empty() { String::new() } else { format!(" of {}", group.join(" ")) };
        let at = self.table.label(time_ns, 1_000_000);
        Err(Failure::Exceeded(format!("{threshold}: so it was{of} at {at}.")))
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
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }
}
