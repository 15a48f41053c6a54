//! What the words of `report` mean.

use super::Reading;
use super::folding::interval;
use super::spectrogram::quoted;
use crate::{Failure, args};
use latscope_event::parse_size;
use std::path::PathBuf;

/// Plan of `report`.
#[derive(Debug, PartialEq)]
pub struct Report {
    pub output: Option<PathBuf>,
    pub title: Option<String>,
    /// Width of a column, nanoseconds.
    pub interval_ns: Option<u64>,
    /// Most bytes of data.
    pub budget: Option<u64>,
    /// The words of a command that reads the same.
    pub source: String,
}

/// Plans `report`.
pub fn plan(typed: args::Report, reading: &mut Reading) -> Result<Report, Failure> {
    if reading.follow {
        return Err(Failure::Usage("report reads complete files; omit --follow.".into()));
    }
    reading.usage = typed.cgroups;
    let budget = typed.budget.as_deref().map(parse_size).transpose();
    let budget = budget.map_err(|error| Failure::Usage(format!("--budget: {error}.")))?;
    let files = reading.files.iter().map(|file| format!("-r {}", quoted(&file.to_string_lossy())));
    let live = reading.live.as_ref().map(|live| format!("-s {}", live.source.words()));
    let source = files.chain(live).collect::<Vec<_>>().join(" ");
    Ok(Report { output: typed.output, title: typed.title, interval_ns: interval(&typed.interval)?, budget, source })
}
