use super::fold::precision;
use super::{Input, Table, quantity};
use clap::Args;
use latscope_histogram::Grid;
use latscope_series::Quantity;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope summary -r perf.data
  latscope summary -r perf.data --by device,kind --sort p99
  latscope summary -r perf.data --over 500ms 'kind = read'
  latscope summary -s block --for 10s --use          # as iostat -x
  latscope summary -s block -i 10s --over 500ms      # live, every 10 s
  latscope summary -r perf.data --json | jq '.groups[] | {group, p99_ns}'";

/// Print a table of rates and percentiles per group, and outliers
///
/// Groups are sorted by their share of the total latency.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Summary {
    #[command(flatten)]
    pub input: Input,
    /// Group by these fields, or none [default: device]
    ///
    /// The default for live system calls is the name of the call; for results of fio and smallfile, job, kind and host.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Print a table per interval, e.g. 10s, as soon as it has passed
    #[arg(short, long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// Do not let waiting requests raise percentiles, mean and maximum
    #[arg(long)]
    pub completed_only: bool,
    /// Histogram buckets per octave: 1, 2, 4, 8, 16, 32 or 64 [default: 64]
    ///
    /// Fewer buckets take less memory, in the kernel too, and make smaller files. A percentile is within 1/N of the value at its
    /// rank.
    #[arg(long, value_name = "N", value_parser = precision)]
    pub precision: Option<Grid>,
    /// Which quantity to show: latency, size, offset, queue, service or lag
    ///
    /// Or any field that is a duration or a size, such as run, gc or spilled.
    #[arg(short = 'y', long = "y", value_name = "QUANTITY", value_parser = quantity, default_value = "latency")]
    pub quantity: Quantity,
    /// List the events slower than this, e.g. 500ms, and count them per group
    #[arg(long, value_name = "DURATION")]
    pub over: Option<String>,
    /// Also show utilization, saturation and errors, as iostat -x does
    ///
    /// Mean wait in the queue, mean number in flight, share of time with at least one request in flight, and number of
    /// errors. Needs events, not histograms.
    #[arg(long = "use")]
    pub shows_use: bool,
    /// Show which values of the first --by field are different from the others, e.g. --by host
    ///
    /// The largest shares of slow events come first. A value is marked if its p99 stands out in three of five windows; that needs
    /// five values. Slow is what --over says, by default what is above the p99 of all.
    #[arg(long, conflicts_with_all = ["shows_use", "interval"], requires = "by")]
    pub different: bool,
    /// Sort by this column, largest first, or by group
    ///
    /// group, count, rate, bytes/s, min, mean, sd, p50, p90, p99, p99.9, p99.99, max, time (also called share), waiting or
    /// oldest; with --use also queue, 'in flight', busy or errors.
    #[arg(long, value_name = "COLUMN", default_value = "share")]
    pub sort: String,
    #[command(flatten)]
    pub table: Table,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
