use super::{Latency, Look};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope compare run.lat today.lat
  latscope compare run.lat today.lat --names before,after -o c.svg    # the picture, and the verdict
  latscope compare run.lat today.lat --filter 'kind = read' --json | jq .verdicts
  latscope compare run.lat today.lat --fail-if 'p99 > 10% or mean > 1ms'";

/// Whether one trace is slower than another, by how much, and how sure that is. Each is compared with the first.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Files, or folders of results (all files of a folder are one side)
    #[arg(value_name = "TRACE", num_args = 2.., required = true)]
    pub traces: Vec<PathBuf>,
    /// What to call them, separated by commas; their file names when not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Which events to compare, e.g. 'kind = read' (see docs/filter.md)
    #[arg(long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Which percentiles, separated by commas
    #[arg(long = "p", value_name = "LIST", default_value = "50,90,99,99.9")]
    pub percentiles: String,
    /// End with status 1 if a trace is slower than the first by more than this for sure, e.g. 'p99 > 10% or mean > 1ms'
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Option<String>,
    /// How often to resample
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub rounds: u32,
    /// Another seed gives slightly other intervals; the same seed the same
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Comma separated values, base units
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// JSON, base units
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output; if its name ends in .svg: the picture, beside the table
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the files, when it should not be found out from the content (latscope formats lists them)
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub format: Option<String>,
    /// Latency of block requests: from the last issue to the device, or from when the request began to wait
    #[arg(long, value_enum, default_value = "device", help_heading = "Input")]
    pub latency: Latency,
    /// Unit of the time column of two-column files: s, ms, us, ns
    #[arg(long = "unitstime", visible_alias = "time-unit", value_name = "UNIT", help_heading = "Input")]
    pub units_time: Option<String>,
    /// Unit of the latency column of two-column files; that of the time column when not given
    #[arg(long = "unitslat", visible_alias = "latency-unit", value_name = "UNIT", help_heading = "Input")]
    pub units_latency: Option<String>,
    /// Put back the requests that ioping, or latscope ping without --rate, left out while it waited for one
    #[arg(long, value_name = "INTERVAL", help_heading = "Input")]
    pub correct_omission: Option<String>,
    #[command(flatten)]
    pub look: Look,
}
