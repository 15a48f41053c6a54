//! What the words of `histogram` mean.

use super::Folding;
use super::folding::folding;
use crate::{Failure, args};
use std::path::PathBuf;

/// Plan of `histogram`.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    pub folding: Folding,
    /// Rows to a doubling of the value.
    pub per_octave: u32,
    pub output: Option<PathBuf>,
}

/// Plans `histogram`.
pub fn plan(typed: args::Histogram) -> Result<Histogram, Failure> {
    if !matches!(typed.per_octave, 1 | 2 | 4 | 8 | 16 | 32 | 64) {
        return Err(Failure::Usage("--per-octave must be 1, 2, 4, 8, 16, 32 or 64.".into()));
    }
    let folding = folding(&typed.fold, &typed.input)?;
    let folding = Folding { over_time: folding.interval.is_some(), ..folding };
    Ok(Histogram { folding, per_octave: typed.per_octave, output: typed.output })
}
