//! `latscope histogram`.

use super::intervals::{self, Intervals};
use super::output::{self, Output};
use super::{read, stream};
use crate::plan::{Folding, Reading};
use crate::{Failure, args};
use latscope_event::Context;
use latscope_series::HistogramSeries;
use latscope_view_term::{HistogramOptions, Line, each_histogram_line, interval_histogram};
use std::io::Write;

pub fn run(reading: &Reading, folding: &Folding, typed: args::Histogram) -> Result<(), Failure> {
    read::ends_by_signal(reading);
    if !matches!(typed.per_octave, 1 | 2 | 4 | 8 | 16 | 32 | 64) {
        return Err(Failure::Usage("--per-octave is 1, 2, 4, 8, 16, 32 or 64.".into()));
    }
    let filter = reading.filter.as_ref().map_or(String::new(), ToString::to_string);
    let columns = output::columns(&typed.output);
    let options = HistogramOptions {
        columns,
        rows_per_octave: typed.per_octave,
        min: folding.min,
        max: folding.max,
        per_interval: folding.interval.is_some(),
        ..HistogramOptions::default()
    };
    if let (Some(capture), Some(_)) = (&reading.live, folding.interval) {
        let mut blocks = Blocks { options, out: output::open(typed.output.as_deref())?.growing() };
        let context = intervals::live(reading, capture, folding, &mut blocks)?;
        read::say_notes(&[context]);
        return blocks.out.finish().map(|_| ()).map_err(|error| Failure::output(&error));
    }
    if (folding.interval.is_some() || reading.follow) && stream::is_stream(reading) {
        let options = HistogramOptions { per_interval: true, ..options };
        let mut blocks = Blocks { options, out: output::open(typed.output.as_deref())?.growing_with(reading) };
        let context = stream::read(reading, folding, &mut blocks)?;
        read::say_notes(&[context]);
        return blocks.out.finish().map(|_| ()).map_err(|error| Failure::output(&error));
    }
    let (series, contexts) = read::series(reading, folding, 64)?;
    let mut out = output::open(typed.output.as_deref())?;
    let told = (&Context::merged(&contexts), &filter[..]);
    each_histogram_line(&series, told, &options, &mut |line| out.lines([&line]))
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
    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        let lines = |&interval: &i64| interval_histogram(series, interval, context, &self.options);
        let lines: Vec<Line> = series.slices().keys().flat_map(lines).collect();
        self.out.lines(&lines).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }

    fn late(&mut self, series: &HistogramSeries, context: &Context) -> Result<bool, Failure> {
        self.passed(series, 0, context).map(|()| true)
    }
}
