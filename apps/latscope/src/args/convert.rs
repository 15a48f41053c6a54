use super::Input;
use super::fold::precision;
use clap::Args;
use latscope_histogram::Grid;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope convert -r perf.data -w run.lat
  latscope convert -r run.lat -w run.parquet
  latscope convert -r perf.data -w slow.csv 'lat > 10ms'
  latscope convert -r run.lat -w run-1s.parquet --series -i 1s --by device
  latscope convert -r run_clat_hist.1.log.vm1 -w run.hlog -i 1s --by kind
  latscope convert -r run.lat -w run.frames -i 1s --by device
  latscope convert -r out.folded -w out.pb.gz
  latscope convert -r waits.csv -w out.profile.json.gz               # for profiler.firefox.com";

/// Convert to .lat, Parquet, CSV, JSON lines, sysdig captures, HdrHistogram logs, frames, records of PyLatencyMap or stacks
///
/// The ending of the output file selects the format: .lat, .parquet, .csv, .jsonl, .scap, .hlog, .frames or .pylatencymap; of
/// stacks .folded, .pb.gz (pprof), .speedscope.json or .profile.json.gz (Firefox).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Convert {
    #[command(flatten)]
    pub input: Input,
    /// Output file; - for standard output, with --to
    #[arg(short = 'w', long = "write", visible_short_alias = 'o', visible_alias = "output", value_name = "FILE")]
    pub write: PathBuf,
    /// Replace the file if it exists
    #[arg(short, long)]
    pub force: bool,
    /// Output format, if the ending does not select it: lat, parquet, csv, jsonl, scap, hlog, frames, pylatencymap,
    /// folded, pprof, speedscope, firefox
    #[arg(long, value_name = "NAME")]
    pub to: Option<String>,
    /// What folded stacks count: events, or time in microseconds [default: events]
    #[arg(long, value_name = "NAME")]
    pub weight: Option<String>,
    /// Write a histogram per interval and group instead of events
    ///
    /// For .parquet; .hlog, .frames and .pylatencymap always have histograms.
    #[arg(long)]
    pub series: bool,
    /// Length of an interval, for --series, .hlog, .frames and .pylatencymap
    #[arg(short, long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// Group by these fields, for --series, .hlog and .frames; for .folded and .speedscope.json, the outermost frames
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Histogram buckets per octave: 1, 2, 4, 8, 16, 32 or 64 [default: 64]
    ///
    /// Fewer buckets take less memory, in the kernel too, and make smaller files. A percentile is within 1/N of the value at its
    /// rank.
    #[arg(long, value_name = "N", value_parser = precision)]
    pub precision: Option<Grid>,
}
