use super::{Input, Quantity, Table};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope summary -r perf.data
  latscope summary -r perf.data --by device,kind --sort p99
  latscope summary -r perf.data --over 500ms 'kind = read'
  latscope summary -s block --for 10s --use           # as iostat -x
  latscope summary -s block -i 10s --over 500ms      # live, as it happens
  latscope summary -r perf.data --json | jq '.groups[] | {group, p99_ns}'";

/// A line per group: count, rate, bytes, percentiles, share of all time; and the outliers above a threshold.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Summary {
    #[command(flatten)]
    pub input: Input,
    /// Group by these fields, none for a single line; by device when not given (live system calls: by call; results of fio and
    /// smallfile: by job, kind and host)
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// A table for each interval, e.g. 10s, as soon as it has passed
    #[arg(short, long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// Requests that still wait do not raise percentiles, mean and maximum
    #[arg(long)]
    pub completed_only: bool,
    /// What is summed up
    #[arg(short = 'y', long = "y", value_enum, default_value = "latency")]
    pub quantity: Quantity,
    /// List the events slower than this, and count them per group
    #[arg(long, value_name = "DURATION")]
    pub over: Option<String>,
    /// Also show utilization, saturation and errors: mean wait in the queue, mean number in flight, share of time in which
    /// at least one is in flight, number of errors. Needs events, not histograms
    #[arg(long = "use")]
    pub shows_use: bool,
    /// Sort by this column, largest first
    #[arg(long, value_name = "COLUMN", default_value = "share")]
    pub sort: String,
    #[command(flatten)]
    pub table: Table,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
