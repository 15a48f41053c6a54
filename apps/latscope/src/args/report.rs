use super::Input;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope report -r perf.data -o report.html
  latscope report -r perf.data -o writes.html 'kind = write'
  latscope report -r yesterday.lat -r today.lat -o both.html    # traces as groups of one page";

/// Write an interactive page (HTML): heat map, percentiles, and what is different in a spot
///
/// The file needs no network and no server. It has counts by time, latency and attributes instead of the events, so it stays below
/// 1 MB per million events. Counts are exact; percentiles are exact to 1/64, or to 1/8 after a choice of values.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Report {
    #[command(flatten)]
    pub input: Input,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Page")]
    pub output: Option<PathBuf>,
    /// Title of the page [default: the name of the trace]
    #[arg(long, value_name = "TEXT", help_heading = "Page")]
    pub title: Option<String>,
    /// Of the log of a Spark application, show what was sampled of the control groups of its executors (spark --sample); may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Page")]
    pub cgroups: Vec<PathBuf>,
    /// Width of a column of time, if at most 6,000 columns cover the trace [default: as narrow as the budget allows, from 1ms]
    #[arg(short, long, value_name = "DURATION", help_heading = "Page")]
    pub interval: Option<String>,
    /// Size of the data in the page, e.g. 4MiB [default: 1 MB per million events, at least 1 MB]
    ///
    /// If the data need more, columns become wider, then the least important attributes are left out. The page names them. A budget
    /// that is too small for the counts alone is exceeded, with a note.
    #[arg(long, value_name = "SIZE", help_heading = "Page")]
    pub budget: Option<String>,
}
