//! `latscope spectrogram`.

use super::{output, reports};
use crate::Failure;
use crate::plan::{Folding, Reading, Spectrogram, Style};
use crate::tui;
use latscope_capture_file::{is_hub, is_pipe};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_pipeline::{Intervals, Pipeline, Stalls};
use latscope_series::{HistogramSeries, Quantity, Weight};
use latscope_view_term::{
    ColorDepth, GrowingSpectrogram, Line, Look, Orient, SpectrogramOptions, SysdigSpectrogram, TimeLabels,
    latency_maps, spectrogram, sysdig_spectrogram, sysdig_width,
};
use std::io::Write;
use std::ops::ControlFlow;

/// Rows that a trace gets when the interval is not given.
const ROWS: u32 = 120;
/// The interval of sysdig's chisel.
const CHISEL_NS: u64 = 500_000_000;

/// Columns of a screen.
const COLUMNS: std::ops::RangeInclusive<usize> = 20..=10_000;

pub fn run(pipeline: &Pipeline, plan: Spectrogram) -> Result<(), Failure> {
    let (reading, folding) = (pipeline.reading(), &plan.folding);
    let options = options(&plan);
    if is_interactive(reading, &plan) {
        return tui::run(reading.clone(), look(reading, folding, options), plan, None);
    }
    reports::ends_by_signal(reading);
    let filter = reading.filter_text();
    match plan.style {
        Style::Chisel => chisel(pipeline, &plan, &options, &filter),
        Style::Maps => {
            // Both maps come from one series: its counts and the exact sums of time.
            let folding = Folding { weight: Weight::Time, ..folding.clone() };
            let (series, contexts) = pipeline.series(&folding, ROWS)?;
            reports::say_groups(&series);
            pipeline.refuse_whole_jobs(&series)?;
            let lines = latency_maps(&series, &Context::merged(&contexts), &filter, &options);
            output::lines(plan.output.as_deref(), lines)
        }
        Style::Rows => {
            if options.orient == Orient::Down && pipeline.is_watched() {
                return grow(pipeline, &plan, &options, &filter);
            }
            let (series, contexts) = pipeline.series_to_plot(folding, limit(&options))?;
            reports::say_groups(&series);
            pipeline.refuse_whole_jobs(&series)?;
            let context = Context::merged(&contexts);
            let options = SpectrogramOptions { waiting: series.has_waiting(), ..options };
            let groups = if folding.by.is_empty() { vec![None] } else { heaviest(&series) };
            let lines = groups.into_iter().flat_map(|group| {
                spectrogram(&series, &context, &filter, &SpectrogramOptions { group, ..options.clone() })
            });
            output::lines(plan.output.as_deref(), lines)
        }
    }
}

/// Rows as intervals pass.
fn grow(pipeline: &Pipeline, plan: &Spectrogram, options: &SpectrogramOptions, filter: &str) -> Result<(), Failure> {
    let reading = pipeline.reading();
    // Files give neither what waits nor the time of day; captures and hubs do.
    let waiting = reading.live.is_some() || reading.files.iter().any(|file| is_hub(file));
    let time = if waiting { TimeLabels::Wall } else { options.time };
    let growing = GrowingSpectrogram::new(filter, &SpectrogramOptions { time, waiting, ..options.clone() });
    let mut rows = Rows { growing, out: output::open(plan.output.as_deref())?.growing_with(reading) };
    let context = pipeline.intervals(&plan.folding, &mut rows)?;
    let Rows { growing, mut out } = rows;
    write(&mut out, &growing.finish(&context))
}

/// Draws rows as intervals pass.
struct Rows {
    growing: GrowingSpectrogram,
    out: output::Output,
}

impl Intervals for Rows {
    type Error = Failure;

    fn passed(&mut self, series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Failure> {
        write(&mut self.out, &self.growing.grow(series, before, context))
    }

    fn takes_averages(&self) -> bool {
        true
    }
}

fn write(out: &mut output::Output, lines: &[Line]) -> Result<(), Failure> {
    out.lines(lines).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Whether somebody is there to look at it. What comes through a pipe could be read only once.
fn is_interactive(reading: &Reading, plan: &Spectrogram) -> bool {
    let is_stream = reading.follow || reading.files.iter().any(|file| is_pipe(file));
    !plan.plain && !is_stream && tui::is_possible()
}

/// The interactive screen of a live capture, with the table of stacks in place of the map.
pub fn stacks(reading: &Reading, plan: Spectrogram, shown: tui::Shown) -> Result<(), Failure> {
    let look = look(reading, &plan.folding, options(&plan));
    tui::run(reading.clone(), look, plan, Some(shown))
}

/// How the interactive screen starts.
fn look(reading: &Reading, folding: &Folding, options: SpectrogramOptions) -> Look {
    // Live, the time of day is what other logs have too.
    let time = if reading.live.is_some() { TimeLabels::Wall } else { options.time };
    let options = SpectrogramOptions { time, ..options };
    Look { options, shown: folding.weight, percentiles: false, distribution: true, rates: true, merge: 1, newest: None }
}

/// How many intervals fit: a row each, or a column each.
fn limit(options: &SpectrogramOptions) -> u32 {
    match options.orient {
        Orient::Down => ROWS,
        Orient::Across => options.columns.saturating_sub(20).max(10) as u32,
    }
}

/// Groups by their time, at most a screenful.
fn heaviest(series: &HistogramSeries) -> Vec<Option<u32>> {
    let mut groups: Vec<_> =
        series.group_totals().iter().enumerate().map(|(at, totals)| (totals.sum, at as u32)).collect();
    groups.sort_by_key(|&(sum, at)| (std::cmp::Reverse(sum), at));
    groups.into_iter().take(12).map(|(_, group)| Some(group)).collect()
}

/// Counts on the chisel's own columns, which are no multiple of our buckets.
fn chisel(pipeline: &Pipeline, plan: &Spectrogram, options: &SpectrogramOptions, filter: &str) -> Result<(), Failure> {
    let folding = &plan.folding;
    if folding.quantity != Quantity::Latency || folding.weight != Weight::Count || !folding.by.is_empty() {
        return Err(Failure::Usage(
            "--palette sysdig only shows counts of latencies of all events; use another palette with -y, --weight \
             or --by."
                .into(),
        ));
    }
    let width_ns = folding.interval.unwrap_or(CHISEL_NS);
    if pipeline.is_watched() {
        let folding = Folding { interval: Some(width_ns), ..folding.clone() };
        return grow_chisel(pipeline, &folding, options, filter, plan);
    }
    let mut counted = SysdigSpectrogram::new(sysdig_width(options), width_ns);
    let contexts = pipeline.each_batch(FieldSet::ALWAYS, |_, batch, mask, _| {
        count(&mut counted, batch, mask);
        ControlFlow::<Failure>::Continue(())
    })?;
    if let Some((from_ns, to_ns)) = pipeline.covered_ns(&contexts) {
        counted.reach(from_ns, to_ns);
    }
    let context = Context::merged(&contexts);
    output::lines(plan.output.as_deref(), sysdig_spectrogram(&counted, &context, filter, options))
}

/// Counts the events of a batch that the mask lets through.
fn count(counted: &mut SysdigSpectrogram, batch: &Batch, mask: Option<&Mask>) {
    let mut add =
        |row: usize| counted.add(batch.time()[row].saturating_add_unsigned(batch.latency()[row]), batch.latency()[row]);
    match mask {
        Some(mask) => mask.ones().for_each(&mut add),
        None => (0..batch.len()).for_each(&mut add),
    }
}

/// The chisel's rows as intervals pass.
fn grow_chisel(
    pipeline: &Pipeline,
    folding: &Folding,
    options: &SpectrogramOptions,
    filter: &str,
    plan: &Spectrogram,
) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let time = if reading.live.is_some() { TimeLabels::Wall } else { options.time };
    let options = SpectrogramOptions { time, ..options.clone() };
    let mut rows = ChiselRows {
        counted: SysdigSpectrogram::new(sysdig_width(&options), folding.interval.unwrap_or(CHISEL_NS)),
        growing: GrowingSpectrogram::new(filter, &options),
        stalls: Stalls::default(),
        out: output::open(plan.output.as_deref())?.growing_with(reading),
    };
    let context = pipeline.intervals(folding, &mut rows)?;
    let ChiselRows { growing, mut out, .. } = rows;
    write(&mut out, &growing.finish(&context))
}

/// Draws the chisel's rows as intervals pass.
struct ChiselRows {
    counted: SysdigSpectrogram,
    growing: GrowingSpectrogram,
    /// These rows have no place for what waits.
    stalls: Stalls,
    out: output::Output,
}

impl Intervals for ChiselRows {
    type Error = Failure;

    fn fields(&self) -> FieldSet {
        FieldSet::ALWAYS.union(Stalls::FIELDS.into_iter().filter(|&field| field != Field::Path).collect())
    }

    fn events(&mut self, _context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        count(&mut self.counted, batch, mask);
        Ok(())
    }

    fn waiting(&mut self, _context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        if self.stalls.is_due() {
            self.stalls.report(batch, mask, &mut |notice| say!("latscope: {notice}"));
        }
        Ok(())
    }

    fn takes_averages(&self) -> bool {
        true
    }

    fn passed(&mut self, _series: &HistogramSeries, before: i64, context: &Context) -> Result<(), Failure> {
        let counted = self.counted.take_before(before);
        write(&mut self.out, &self.growing.grow_sysdig(&counted, before, context))
    }
}

/// What is drawn, on this terminal.
fn options(plan: &Spectrogram) -> SpectrogramOptions {
    let columns = plan.width.unwrap_or_else(|| output::columns(&plan.output));
    SpectrogramOptions {
        columns: columns.clamp(*COLUMNS.start(), *COLUMNS.end()),
        depth: depth(plan.depth, output::to_terminal(&plan.output)),
        ..plan.options.clone()
    }
}

/// As asked; else as many colours as the terminal says it has; none into a file or pipe, or where NO_COLOR is set.
pub fn depth(asked: Option<ColorDepth>, to_terminal: bool) -> ColorDepth {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    match variable("TERM") {
        _ if asked.is_some() => asked.unwrap_or_default(),
        _ if !variable("NO_COLOR").is_empty() || !to_terminal => ColorDepth::Mono,
        _ if matches!(variable("COLORTERM").as_str(), "truecolor" | "24bit") => ColorDepth::Truecolor,
        term if term == "dumb" || term.is_empty() => ColorDepth::Mono,
        term if term.contains("256") || term.contains("direct") => ColorDepth::Ansi256,
        _ => ColorDepth::Ansi16,
    }
}
