//! What the words of `convert` mean.

use super::Folding;
use super::folding::{fields, interval};
use crate::{Failure, args};
use std::path::{Path, PathBuf};

/// Plan of `convert`.
#[derive(Debug, PartialEq)]
pub struct Conversion {
    pub write: PathBuf,
    pub force: bool,
    pub target: Target,
    /// Write a series of this folding instead of events.
    pub series: Option<Folding>,
}

/// A format that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Lat,
    Parquet,
    Csv,
    JsonLines,
    /// System calls only, for sysdig.
    Scap,
    /// Histograms only.
    Hlog,
    /// Histograms only.
    Frames,
    /// Histograms only, without groups.
    PyLatencyMap,
}

impl Target {
    /// Whether it has histograms and never events.
    pub fn is_series(self) -> bool {
        matches!(self, Target::Hlog | Target::Frames | Target::PyLatencyMap)
    }
}

/// Plans `convert`.
pub fn plan(typed: args::Convert) -> Result<Conversion, Failure> {
    let ending = |path: &Path| path.extension().and_then(|ending| ending.to_str()).map(str::to_string);
    let name = typed.to.clone().or_else(|| ending(&typed.write));
    let target = match name.as_deref() {
        Some("lat") => Target::Lat,
        Some("parquet") => Target::Parquet,
        Some("csv") => Target::Csv,
        Some("scap") => Target::Scap,
        Some("hlog") => Target::Hlog,
        Some("frames") => Target::Frames,
        Some("pylatencymap") => Target::PyLatencyMap,
        Some("jsonl" | "ndjson" | "json") => Target::JsonLines,
        _ => {
            return Err(Failure::Usage(
                "The output format is unclear: end the name in .lat, .parquet, .csv, .jsonl, .scap, .hlog, .frames or \
                 .pylatencymap, or give --to."
                    .into(),
            ));
        }
    };
    let series = if typed.series || target.is_series() {
        if target != Target::Parquet && !target.is_series() {
            let message = "--series is only available for Parquet, HdrHistogram logs and frames; end the name in \
                           .parquet, .hlog or .frames.";
            return Err(Failure::Usage(message.into()));
        }
        let by = fields("--by", &typed.by)?;
        if target == Target::PyLatencyMap && !by.is_empty() {
            return Err(Failure::Usage("Records of PyLatencyMap have no groups; remove --by.".into()));
        }
        let precision = typed.precision;
        Some(Folding { by, over_time: true, precision, ..Folding::of_latencies(interval(&typed.interval)?) })
    } else if typed.interval.is_some() || !typed.by.is_empty() || typed.precision.is_some() {
        let message = "-i, --by and --precision need histograms: give --series, or write a .hlog or .frames.";
        return Err(Failure::Usage(message.into()));
    } else {
        None
    };
    Ok(Conversion { write: typed.write, force: typed.force, target, series })
}
