//! Lines of percentiles as intervals pass or close.

use super::printer::Printer;
use super::{events_wanted, judged_by, noted_every_ns, options_of, refuse_unknown};
use crate::Failure;
use crate::plan::{Percentiles as Plan, Reading};
use crate::run::reports;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latscope_capture_file::is_hub;
use latscope_event::Context;
use latscope_pipeline::{Intervals, Pipeline};
use latscope_series::{HistogramSeries, IntervalMerger};
use latscope_view_term::PercentileOptions;

/// Lines as intervals pass.
pub fn live(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let options = PercentileOptions { waiting: true, ..options_of(plan) };
    let mut lines = Lines::new(Printer::new(plan, Some(0), options, judged_by(plan))?, reading);
    let context = pipeline.intervals(&plan.folding, &mut lines)?;
    let printer = lines.finish()?;
    let contexts = [context];
    reports::say_notes(&contexts);
    printer.verdict(pipeline, &contexts)
}

/// Lines as intervals close of what is read while it is written.
pub fn streamed(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let waiting = reading.files.iter().any(|file| is_hub(file));
    let options = PercentileOptions { waiting, ..options_of(plan) };
    let mut lines = Lines::new(Printer::new(plan, None, options, judged_by(plan))?, reading);
    lines.of_file = true;
    let context = pipeline.intervals(&plan.folding, &mut lines)?;
    if !lines.started {
        say!("latscope: No events to show.");
    }
    let printer = lines.finish()?;
    let contexts = [context];
    reports::say_notes(&contexts);
    refuse_unknown(plan, &contexts, printer.is_exceeded())?;
    printer.verdict(pipeline, &contexts)
}

/// Prints intervals as they pass, or joins them until they have enough events.
struct Lines<'a> {
    printer: Printer<'a>,
    merger: Option<IntervalMerger>,
    progress: ProgressBar,
    /// Times are those of a file, which the first interval gives.
    of_file: bool,
    started: bool,
    /// The longest time between two samples of threads so far, nanoseconds, where nothing else measures their waits.
    sampled_ns: Option<u64>,
}

impl<'a> Lines<'a> {
    fn new(mut printer: Printer<'a>, reading: &Reading) -> Lines<'a> {
        printer.out = printer.out.growing_with(reading);
        let merger = events_wanted(printer.plan).map(IntervalMerger::new);
        // Before it is known, any latency may be a sample.
        let is_sampled = reading
            .live
            .as_ref()
            .and_then(|live| live.source.stacks())
            .is_some_and(|kinds| kinds.sampled && !kinds.off_cpu);
        let sampled_ns = is_sampled.then_some(u64::MAX);
        // Hidden where standard error is no terminal.
        let progress = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("filling {bar:40} {human_pos} of {human_len} events");
        let progress = progress.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Lines { printer, merger, progress, of_file: false, started: false, sampled_ns }
    }

    fn print(&mut self, series: &HistogramSeries) -> Result<(), Failure> {
        self.progress.suspend(|| {
            self.printer.print(series)?;
            self.printer.warn(self.sampled_ns);
            Ok(())
        })
    }

    /// Prints what has not filled.
    fn finish(mut self) -> Result<Printer<'a>, Failure> {
        self.progress.finish_and_clear();
        if let Some(rest) = self.merger.take().and_then(IntervalMerger::finish) {
            self.print(&rest)?;
        }
        Ok(self.printer)
    }
}

impl Intervals for Lines<'_> {
    type Error = Failure;

    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        self.sampled_ns = noted_every_ns(std::slice::from_ref(context)).or(self.sampled_ns);
        if self.of_file && !self.started && !series.slices().is_empty() {
            self.printer.start(context, series);
        }
        self.started |= !series.slices().is_empty();
        let Some(merger) = &mut self.merger else { return self.print(series) };
        let complete = merger.add(series);
        let (filled, enough) = merger.filled();
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
