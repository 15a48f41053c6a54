use super::Input;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope convert -r perf.data -w run.lat
  latscope convert -r run.lat -w run.parquet
  latscope convert -r perf.data -w slow.csv 'lat > 10ms'
  latscope convert -r run.lat -w run-1s.parquet --series -i 1s --by device
  latscope convert -r run_clat_hist.1.log.vm1 -w run.hlog -i 1s --by kind";

/// Change format; the ending of the file to write says which: .lat, .parquet, .csv, .jsonl, .hlog.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    pub input: Input,
    /// Write this file; - with --to for standard output
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub write: PathBuf,
    /// Replace the file if it exists
    #[arg(short, long)]
    pub force: bool,
    /// Format to write, when the ending of the file does not say it: lat, parquet, csv, jsonl, hlog
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// Write a histogram for each interval and group instead of events (.parquet; .hlog is always that)
    #[arg(long)]
    pub series: bool,
    /// Length of an interval of --series or .hlog
    #[arg(short, long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// Group fields of --series or .hlog
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
}
