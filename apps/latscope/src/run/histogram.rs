//! `latscope histogram`.

use super::output::{self, Output};
use super::reports;
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::Histogram;
use latscope_event::Context;
use latscope_pipeline::{Intervals, Pipeline};
use latscope_series::HistogramSeries;
use latscope_view_term::{HistogramOptions, Line, each_histogram_line, interval_histogram};
use std::io::Write;

pub fn run(pipeline: &Pipeline, plan: &Histogram) -> Result<(), Failure> {
    let (reading, folding) = (pipeline.reading(), &plan.folding);
    reports::ends_by_signal(reading);
    let filter = reading.filter_text();
    let columns = output::columns(&plan.output);
    let options = HistogramOptions {
        wording: WORDING,
        columns,
        rows_per_octave: plan.per_octave,
        min: folding.min,
        max: folding.max,
        per_interval: folding.interval.is_some(),
        ..HistogramOptions::default()
    };
    let has_interval = folding.interval.is_some();
    if reading.live.is_some() && has_interval || (has_interval || reading.follow) && pipeline.is_stream() {
        let options = HistogramOptions { per_interval: true, ..options };
        let mut blocks = Blocks { options, out: output::open(plan.output.as_deref())?.growing_with(reading) };
        let context = pipeline.intervals(folding, &mut blocks)?;
        reports::say_notes(&[context]);
        return blocks.out.finish().map(|_| ()).map_err(|error| Failure::output(&error));
    }
    let (series, contexts) = pipeline.series(folding, 64)?;
    reports::say_groups(&series);
    let mut out = output::open(plan.output.as_deref())?;
    let trace = (&Context::merged(&contexts), &filter[..]);
    each_histogram_line(&series, trace, &options, &mut |line| out.lines([&line]))
        .and_then(|()| out.finish())
        .map(drop)
        .map_err(|error| Failure::output(&error))
}

/// Prints a histogram for each interval as it passes.
struct Blocks {
    options: HistogramOptions,
    out: Output,
}

impl Intervals for Blocks {
    type Error = Failure;

    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        let lines = |&interval: &i64| interval_histogram(series, interval, context, &self.options);
        let lines: Vec<Line> = series.slices().keys().flat_map(lines).collect();
        self.out.lines(&lines).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }

    fn late(&mut self, series: &HistogramSeries, context: &Context) -> Result<bool, Failure> {
        self.passed(series, 0, context).map(|()| true)
    }
}
