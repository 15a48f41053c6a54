use super::{Input, Table};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope events -r perf.data --top 20
  latscope events -r perf.data --columns time_ns,latency_ns,device,comm --csv 'lat > 50ms'
  latscope events -r out.txt.gz --json 'kind = flush' | jq .latency_ns";

/// The events themselves: text, CSV or JSON lines.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Events {
    #[command(flatten)]
    pub input: Input,
    /// Columns, separated by commas; the fields that the source fills when not given. Also end_ns, the completion, and wall,
    /// the completion as local wall-clock time
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Only the N slowest, slowest first
    #[arg(long, value_name = "N", conflicts_with = "sort")]
    pub top: Option<usize>,
    /// Order; without it events come as they completed. Needs memory for all of them
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
