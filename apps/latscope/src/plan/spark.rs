//! What the words of `spark` mean.

use super::folding::duration;
use super::{Reading, theme};
use crate::{Failure, args};
use latscope_capture_file::is_application;
use latscope_series::spark::SparkLimit;
use latscope_view_report::Theme;
use latscope_view_term::SparkLevel;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    if reading.files.len() != 1 {
        return Err(Failure::Usage("latscope spark reads one complete event log; give one with -r.".into()));
    }
    reading.all_of_spark = true;
    reading.usage = typed.cgroups;
    let file = reading.files.first().map_or(String::new(), |file| file.display().to_string());
    refuse_page(typed.output.as_deref(), &file, typed.json)?;
    let by = match typed.by {
        args::SparkBy::Stage => SparkLevel::Stage,
        args::SparkBy::Job => SparkLevel::Job,
        args::SparkBy::Sql => SparkLevel::Sql,
    };
    let limit =
        |text: &String| SparkLimit::parse(text).map_err(|message| Failure::Usage(format!("--fail-if: {message}.")));
    let fail_if = typed.fail_if.iter().map(limit).collect::<Result<_, _>>()?;
    if typed.interval.is_some() {
        return Err(Failure::Usage("-i is the interval of --graphite and --follow.".into()));
    }
    let theme = theme(typed.dark, typed.light);
    let (width, top) = (picture_width(typed.pixels)?, typed.top);
    Ok(Spark { kernel: typed.kernel, by, fail_if, top, json: typed.json, width, theme, output: typed.output })
}

/// A page is not one of the forms of this report: it would be text under a name that browsers take for a page.
fn refuse_page(output: Option<&Path>, log: &str, is_json: bool) -> Result<(), Failure> {
    let ending = output.and_then(Path::extension).and_then(OsStr::to_str).unwrap_or_default().to_ascii_lowercase();
    match (output, &*ending) {
        (Some(output), "html" | "htm") => Err(Failure::Usage(format!(
            "latscope spark writes text, a picture (-o NAME.svg) or JSON (--json), and no page; latscope report -r {log} -o {} does, with \
             the report of the application at its foot.",
            output.display()
        ))),
        (Some(output), "json") if !is_json => Err(Failure::Usage(format!(
            "latscope spark -o {} would write text; add --json for JSON, or give the file another name.",
            output.display()
        ))),
        _ => Ok(()),
    }
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

fn picture_width(pixels: u32) -> Result<u32, Failure> {
    let is_possible = (200..=4000).contains(&pixels);
    is_possible.then_some(pixels).ok_or_else(|| Failure::Usage("--pixels must be from 200 to 4000.".into()))
}

/// Where running applications are heard of.
#[derive(Debug, PartialEq)]
pub enum SparkSource {
    /// A port that they report to.
    Graphite(SocketAddr),
    /// The URL of a driver.
    Rest(String),
}

/// Plan of `spark --graphite` and `spark --follow`.
#[derive(Debug, PartialEq)]
pub struct SparkLive {
    pub source: SparkSource,
    pub interval_ns: u64,
    /// Whether the control groups of executors on this machine are sampled.
    pub has_groups: bool,
    /// Until Ctrl-C when not given, nanoseconds.
    pub for_ns: Option<u64>,
    pub json: bool,
    pub width: u32,
    pub theme: Theme,
    pub output: Option<PathBuf>,
}

/// Plans `spark --graphite` and `spark --follow`.
///
/// An application that is asked is an input and yet live, so `for_ns` may be given with it.
pub fn live(typed: args::Spark, reading: &Reading, for_ns: Option<u64>) -> Result<SparkLive, Failure> {
    let (source, usual_ns) = match (typed.graphite, reading.files.first()) {
        (Some(address), None) => (SparkSource::Graphite(address), 10_000_000_000),
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(
                "--graphite listens to running applications and cannot be combined with -r.".into(),
            ));
        }
        (None, Some(file)) if is_application(file) => (SparkSource::Rest(file.display().to_string()), 2_000_000_000),
        _ => {
            return Err(Failure::Usage(
                "latscope spark --follow asks a running application; give the address of its driver, such as \
                 -r http://127.0.0.1:4040."
                    .into(),
            ));
        }
    };
    if !typed.fail_if.is_empty() || !typed.kernel.is_empty() || !typed.input.filter.is_empty() {
        return Err(Failure::Usage(
            "--fail-if, --kernel and filters need a complete event log, not an application that runs.".into(),
        ));
    }
    let has_groups = !typed.cgroups.is_empty();
    if typed.cgroups.iter().any(|file| file.as_os_str() != "live") {
        return Err(Failure::Usage(
            "While an application runs, --cgroups live samples the control groups of its executors on this machine; \
             files of samples go with a complete event log."
                .into(),
        ));
    }
    let interval_ns = duration("--interval", &typed.interval)?.unwrap_or(usual_ns);
    if interval_ns < 1_000_000_000 {
        return Err(Failure::Usage("-i must be 1s or more: executors date what they do by the second.".into()));
    }
    let for_ns = for_ns.or(reading.live.as_ref().and_then(|live| live.for_ns));
    let (width, theme) = (picture_width(typed.pixels)?, theme(typed.dark, typed.light));
    Ok(SparkLive { source, interval_ns, has_groups, for_ns, json: typed.json, width, theme, output: typed.output })
}
