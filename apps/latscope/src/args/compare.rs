use super::{Files, Look, Table};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope compare run.lat today.lat
  latscope compare run.lat today.lat --names before,after -o c.svg    # the picture, and the verdict
  latscope compare run.lat -o run.svg                                 # one trace: every request
  latscope compare run.lat today.lat --filter 'kind = read' --json | jq .verdicts
  latscope compare run.lat today.lat --fail-if 'p99 > 10% or mean > 1ms'
  latscope compare run.lat --by device                                # one disk against another
  latscope compare run.lat --filter 'size <= 4k' --filter 'size > 4k'
  latscope compare --group old=a1.lat,a2.lat --group new=b1.lat,b2.lat    # several runs of each";

/// Compares traces: which one is slower, by how much, with confidence intervals. Each is compared with the first. Of one
/// trace: its numbers, its distribution, and every request.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Files, or folders of results (all files of a folder are one run)
    #[arg(value_name = "TRACE", num_args = 1.., required_unless_present = "group")]
    pub traces: Vec<PathBuf>,
    /// A side that was measured several times: its name and its runs, separated by commas; once for each side. Runs are
    /// compared, not requests, so differences between runs of one side do not count as differences between the sides
    #[arg(long, value_name = "NAME=TRACE,TRACE...", conflicts_with_all = ["traces", "names"])]
    pub group: Vec<String>,
    /// What to call them, separated by commas; their file names when not given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Which events to compare, e.g. 'kind = read' (see docs/reference/filter.md); of one trace, several filters are its sides
    #[arg(long, value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Of one trace, the groups of this field are the sides, the one with the most events first, e.g. device (eight at most)
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["group", "names"])]
    pub by: Option<String>,
    /// Which percentiles, separated by commas
    #[arg(long = "p", value_name = "LIST", default_value = "50,90,99,99.9")]
    pub percentiles: String,
    /// End with status 1 if a trace is slower than the first by more than this, with 3 if that cannot be told, e.g. 'p99 > 10% or
    /// mean > 1ms'
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Option<String>,
    /// How often to resample
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub rounds: u32,
    /// Resampling seed; equal seeds reproduce results
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub table: Table,
    /// Write to this file instead of standard output; if its name ends in .svg: the picture, beside the table
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub files: Files,
    #[command(flatten)]
    pub look: Look,
}
