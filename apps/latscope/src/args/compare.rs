use super::{Files, Look, Table, quantity};
use clap::Args;
use latscope_series::Quantity;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope compare run.lat today.lat
  latscope compare run.lat today.lat --names before,after -o c.svg    # table, verdict and picture
  latscope compare run.lat today.lat --fail-if 'p99 > 10% or mean > 1ms'
  latscope compare run.lat today.lat --fail-if 'p99 slower by 10%' --junit c.xml --markdown
  latscope compare run.lat today.lat --filter 'kind = read' --json | jq .verdicts
  latscope compare --group old=a1.lat,a2.lat --group new=b1.lat,b2.lat    # several runs
  latscope compare run.lat --by device                                # parts of one trace
  latscope compare run.lat --filter 'size <= 4k' --filter 'size > 4k'
  latscope compare run.lat -o run.svg                                # one trace: every request

Exit status: 0 done, 1 --fail-if exceeded, 2 wrong usage, 3 input failed or --fail-if undecided.";

/// Compare traces: which one is slower, with confidence intervals
///
/// Each trace is compared with the first. With a single trace, prints its numbers, and draws its distribution and every
/// request.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Files, or folders of results (all files in a folder are one run)
    #[arg(value_name = "TRACE", num_args = 1.., required_unless_present = "group")]
    pub traces: Vec<PathBuf>,
    /// A side with several runs; once per side
    ///
    /// Compares runs instead of requests, so that differences among the runs of one side are not taken for differences
    /// between the sides.
    #[arg(long, value_name = "NAME=TRACE,TRACE...", conflicts_with_all = ["traces", "names"])]
    pub group: Vec<String>,
    /// Names of the traces, separated by commas [default: their file names]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Which events to compare, e.g. 'kind = read'
    ///
    /// With one trace, each --filter defines a side.
    #[arg(long, value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Compare the groups of this field in a single trace, e.g. device
    ///
    /// The group with the most events comes first; at most eight groups.
    #[arg(long, value_name = "FIELD", conflicts_with_all = ["group", "names"])]
    pub by: Option<String>,
    /// Which quantity to compare: latency, size, offset, queue, service or lag
    ///
    /// Or any field that is a duration or a size, such as run, gc or spilled.
    #[arg(short = 'y', long = "y", value_name = "QUANTITY", value_parser = quantity, default_value = "latency")]
    pub quantity: Quantity,
    /// Percentiles, separated by commas
    #[arg(long = "p", value_name = "LIST", default_value = "50,90,99,99.9")]
    pub percentiles: String,
    /// Exit with status 1 if a trace is slower than the first by more than this
    ///
    /// E.g. 'p99 > 10% or mean > 1ms'; 'p99 slower by 10%' is the same as 'p99 > 10%'. The status is 3 if the data cannot decide it.
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Option<String>,
    /// Number of resampling rounds
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub rounds: u32,
    /// Resampling seed; equal seeds reproduce results
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub table: Table,
    /// Print Markdown, for the comment on a pull request
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    pub markdown: bool,
    /// Also write the result to this file as JUnit XML: a test per trace, which fails where --fail-if does
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write to this file instead of standard output
    ///
    /// If the name ends in .svg, the picture is written there, and the table is still printed.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub files: Files,
    #[command(flatten)]
    pub look: Look,
}
