//! What the words of `spark` mean.

use super::folding::duration;
use super::{Reading, theme};
use crate::{Failure, args};
use latscope_series::spark::SparkLimit;
use latscope_view_report::Theme;
use latscope_view_term::SparkLevel;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Plan of `spark`.
#[derive(Debug, PartialEq)]
pub struct Spark {
    /// What kernels saw meanwhile, a file for each host.
    pub kernel: Vec<PathBuf>,
    pub by: SparkLevel,
    pub fail_if: Vec<SparkLimit>,
    pub top: usize,
    pub json: bool,
    pub width: u32,
    pub theme: Theme,
    pub output: Option<PathBuf>,
}

/// Plans `spark`, for which all events of the log are read.
pub fn plan(typed: args::Spark, reading: &mut Reading) -> Result<Spark, Failure> {
    if typed.input.follow || reading.files.len() != 1 {
        return Err(Failure::Usage("latscope spark reads one complete event log; give one with -r.".into()));
    }
    reading.all_of_spark = true;
    reading.usage = typed.cgroups;
    let by = match typed.by {
        args::SparkBy::Stage => SparkLevel::Stage,
        args::SparkBy::Job => SparkLevel::Job,
        args::SparkBy::Sql => SparkLevel::Sql,
    };
    let limit =
        |text: &String| SparkLimit::parse(text).map_err(|message| Failure::Usage(format!("--fail-if: {message}.")));
    let fail_if = typed.fail_if.iter().map(limit).collect::<Result<_, _>>()?;
    if !(200..=4000).contains(&typed.pixels) {
        return Err(Failure::Usage("--pixels must be from 200 to 4000.".into()));
    }
    let theme = theme(typed.dark, typed.light);
    let (width, top) = (typed.pixels, typed.top);
    Ok(Spark { kernel: typed.kernel, by, fail_if, top, json: typed.json, width, theme, output: typed.output })
}

/// Plan of `spark --sample`.
#[derive(Debug, PartialEq)]
pub struct SparkSample {
    pub output: PathBuf,
    /// Until Ctrl-C when not given, nanoseconds.
    pub for_ns: Option<u64>,
}

/// Plans `spark --sample`.
pub fn sample(output: PathBuf, reading: &Reading) -> SparkSample {
    SparkSample { output, for_ns: reading.live.as_ref().and_then(|live| live.for_ns) }
}

/// Plan of `spark --graphite`.
#[derive(Debug, PartialEq)]
pub struct SparkLive {
    pub address: SocketAddr,
    pub interval_ns: u64,
    /// Until Ctrl-C when not given, nanoseconds.
    pub for_ns: Option<u64>,
    pub json: bool,
    pub output: Option<PathBuf>,
}

/// Plans `spark --graphite`.
pub fn live(typed: args::Spark, reading: &Reading) -> Result<SparkLive, Failure> {
    let Some(address) = typed.graphite.filter(|_| reading.live.is_some()) else {
        return Err(Failure::Usage(
            "--graphite listens to running applications and cannot be combined with -r.".into(),
        ));
    };
    let interval_ns = duration("--interval", &typed.interval)?.unwrap_or(10_000_000_000);
    let for_ns = reading.live.as_ref().and_then(|live| live.for_ns);
    Ok(SparkLive { address, interval_ns, for_ns, json: typed.json, output: typed.output })
}
