//! What the words of `convert` mean.

use super::Folding;
use super::folding::{fields, interval};
use crate::{Failure, args};
use latscope_event::Field;
use latscope_view_report::stack_files::StackWeight;
use std::path::{Path, PathBuf};

/// Plan of `convert`.
#[derive(Debug, PartialEq)]
pub struct Conversion {
    pub write: PathBuf,
    pub force: bool,
    pub target: Target,
    /// What a line of folded stacks counts.
    pub weight: StackWeight,
    /// The fields that folded stacks and speedscope have as outermost frames.
    pub dimensions: Vec<Field>,
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
    /// Stacks only, and their counts.
    Folded,
    /// Stacks only, with their dimensions as labels.
    Pprof,
    /// Stacks only.
    Speedscope,
    /// Stacks and when they were.
    Firefox,
}

impl Target {
    /// Whether fields can be outermost frames of its stacks.
    fn has_dimensions(self) -> bool {
        matches!(self, Target::Folded | Target::Speedscope)
    }

    /// Whether it has stacks and what they add up to.
    pub fn is_stacks(self) -> bool {
        matches!(self, Target::Folded | Target::Pprof | Target::Speedscope | Target::Firefox)
    }

    /// Whether it has histograms and never events.
    pub fn is_series(self) -> bool {
        matches!(self, Target::Hlog | Target::Frames | Target::PyLatencyMap)
    }
}

/// Plans `convert`.
pub fn plan(typed: args::Convert) -> Result<Conversion, Failure> {
    let ending = |path: &Path| {
        // Of two endings the first one decides.
        let name = path.file_name()?.to_str()?;
        let double = [
            (".pb.gz", "pprof"),
            (".speedscope.json", "speedscope"),
            (".profile.json.gz", "firefox"),
            (".fxprof.json.gz", "firefox"),
        ];
        let double = double.into_iter();
        let double = double.filter(|(ending, _)| name.ends_with(ending)).map(|(_, name)| name).next();
        double.map(str::to_string).or_else(|| path.extension()?.to_str().map(str::to_string))
    };
    let name = typed.to.clone().or_else(|| ending(&typed.write));
    let target = match name.as_deref() {
        Some("lat") => Target::Lat,
        Some("parquet") => Target::Parquet,
        Some("csv") => Target::Csv,
        Some("scap") => Target::Scap,
        Some("hlog") => Target::Hlog,
        Some("frames") => Target::Frames,
        Some("pylatencymap") => Target::PyLatencyMap,
        Some("folded") => Target::Folded,
        Some("pprof") => Target::Pprof,
        Some("speedscope") => Target::Speedscope,
        Some("firefox") => Target::Firefox,
        Some("jsonl" | "ndjson" | "json") => Target::JsonLines,
        _ => {
            return Err(Failure::Usage(
                "The output format is unclear: end the name in .lat, .parquet, .csv, .jsonl, .scap, .hlog, .frames, \
                 .pylatencymap, .folded, .pb.gz, .speedscope.json or .profile.json.gz, or give --to."
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
    } else if typed.interval.is_some() || !typed.by.is_empty() && !target.has_dimensions() || typed.precision.is_some()
    {
        let message = "-i, --by and --precision need histograms: give --series, or write a .hlog or .frames. --by is also for \
                       .folded and .speedscope.json.";
        return Err(Failure::Usage(message.into()));
    } else {
        None
    };
    let dimensions = if target.has_dimensions() { fields("--by", &typed.by)? } else { Vec::new() };
    let weight = match typed.weight.as_deref() {
        Some(_) if target != Target::Folded => {
            let message = "--weight is for folded stacks; the other files of stacks have both events and time.";
            return Err(Failure::Usage(message.into()));
        }
        None | Some("events") => StackWeight::Events,
        Some("time") => StackWeight::Time,
        Some(_) => return Err(Failure::Usage("--weight is either events or time.".into())),
    };
    Ok(Conversion { weight, dimensions, write: typed.write, force: typed.force, target, series })
}
