//! `latscope histogram`.

use super::{output, read};
use crate::plan::{Folding, Reading};
use crate::{Failure, args};
use latscope_event::Context;
use latscope_view_term::{HistogramOptions, histogram};

pub fn run(reading: &Reading, folding: &Folding, typed: args::Histogram) -> Result<(), Failure> {
    if !matches!(typed.per_octave, 1 | 2 | 4 | 8 | 16 | 32 | 64) {
        return Err(Failure::Usage("--per-octave is 1, 2, 4, 8, 16, 32 or 64.".into()));
    }
    let (series, contexts) = read::series(reading, folding, 64)?;
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
    output::lines(typed.output.as_deref(), histogram(&series, &Context::merged(&contexts), &filter, &options))
}
