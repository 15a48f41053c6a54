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
    /// Histograms only.
    Hlog,
}

/// Plans `convert`.
pub fn plan(typed: args::Convert) -> Result<Conversion, Failure> {
    let ending = |path: &Path| path.extension().and_then(|ending| ending.to_str()).map(str::to_string);
    let name = typed.to.clone().or_else(|| ending(&typed.write));
    let target = match name.as_deref() {
        Some("lat") => Target::Lat,
        Some("parquet") => Target::Parquet,
        Some("csv") => Target::Csv,
        Some("hlog") => Target::Hlog,
        Some("jsonl" | "ndjson" | "json") => Target::JsonLines,
        _ => {
            return Err(Failure::Usage(
                "The output format is unclear: end the name in .lat, .parquet, .csv, .jsonl or .hlog, or give --to."
                    .into(),
            ));
        }
    };
    let series = if typed.series || target == Target::Hlog {
        if !matches!(target, Target::Parquet | Target::Hlog) {
            let message = "--series is only available for Parquet and HdrHistogram logs; end the name in .parquet \
                           or .hlog.";
            return Err(Failure::Usage(message.into()));
        }
        let by = fields("--by", &typed.by)?;
        let precision = typed.precision;
        Some(Folding { by, over_time: true, precision, ..Folding::of_latencies(interval(&typed.interval)?) })
    } else if typed.interval.is_some() || !typed.by.is_empty() || typed.precision.is_some() {
        let message = "-i, --by and --precision need histograms: give --series, or write a .hlog.";
        return Err(Failure::Usage(message.into()));
    } else {
        None
    };
    Ok(Conversion { write: typed.write, force: typed.force, target, series })
}
