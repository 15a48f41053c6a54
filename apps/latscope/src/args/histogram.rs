use super::{Fold, Input};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope histogram -r perf.data
  latscope histogram -s block --for 10s                      # live
  latscope histogram -r perf.data --by device,kind --per-octave 4
  latscope histogram -r perf.data -i 1s                      # one per second
  latscope histogram -r perf.data --weight time --min 1ms    # where the time went
  latscope histogram -r perf.data -y size 'kind = write'";

/// Print the latency distribution of each group
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Histogram {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub fold: Fold,
    /// Rows per doubling of the value: 1, 2, 4 ... 64
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub per_octave: u32,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
