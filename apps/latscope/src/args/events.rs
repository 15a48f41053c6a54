use super::{Input, Table};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope events -r perf.data --top 20
  latscope events -s io 'lat > 10ms'                 # live: slow I/O as it completes
  latscope events -r perf.data --columns time_ns,latency_ns,device,comm --csv 'lat > 50ms'
  latscope events -r out.txt.gz --json 'kind = flush' | jq .latency_ns";

/// List the events themselves, as text, CSV or JSON lines
///
/// Live, an event is printed when it completes.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Events {
    #[command(flatten)]
    pub input: Input,
    /// Columns, separated by commas [default: the fields that the source fills]
    ///
    /// Besides fields: end_ns, the time of completion, and wall, the same as local wall-clock time.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Only the N slowest events, slowest first
    #[arg(long, value_name = "N", conflicts_with = "sort")]
    pub top: Option<usize>,
    /// Sort all events (needs memory for them) [default: as they completed]
    #[arg(long, value_enum, value_name = "ORDER")]
    pub sort: Option<Sort>,
    #[command(flatten)]
    pub table: Table,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Sort {
    /// By start, earliest first
    Time,
    /// By latency, slowest first
    Latency,
}
