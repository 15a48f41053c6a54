use super::{Fold, Input, Look};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope percentiles -r perf.data -i 1s
  latscope percentiles -s block -i 1s --by device                 # live
  latscope percentiles -r t.lat -i 10s --p 50,99,99.9 --csv > percentiles.csv
  latscope percentiles -r t.lat -i 1s --fail-if 'p99 > 5s'        # status 1 if exceeded
  latscope percentiles -r t.lat -o percentiles.svg                # a line chart
  latscope percentiles -r t.lat --p 50..99,99.9 -o shades.svg     # p50 to p99 shaded
  latscope percentiles -r run_clat.1.log.vm1 -r run_clat.1.log.vm2 -i 1s --by host --all
  latscope percentiles -r t.lat -i auto --accuracy 10% --p 50,95
  latscope percentiles -s io -i 1s --json 'proc.name = postgres' | jq .p99_ns

Exit status: 0 done, 1 --fail-if exceeded, 2 wrong usage, 3 input or capture failed, or --fail-if undecided.";

/// Print or draw percentiles over time, and check limits
///
/// Prints a line per interval and group. Live, a line is printed as soon as its interval has passed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Percentiles {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub fold: Fold,
    /// Percentiles, separated by commas; 50..99 is every one from 50 to 99 [default: 50,90,99,99.9]
    #[arg(long = "p", value_name = "LIST")]
    pub percentiles: Option<String>,
    /// Position of a percentile within its histogram bucket
    #[arg(long, value_enum, default_value = "linear", value_name = "RULE")]
    pub percentile_rule: PercentileRule,
    /// Compute percentiles from the events instead of histograms
    ///
    /// Values between two events are interpolated, so they can differ from the default where events are few. --fail-if judges
    /// by rank, without interpolation. Reads the files twice, and needs files with single events.
    #[arg(long, conflicts_with = "percentile_rule")]
    pub exact: bool,
    /// With -i auto: how precisely the number of events beyond the percentile must be known [default: 10%]
    ///
    /// -i auto makes each interval as long as that takes: 10% needs 1,900 events for p95.
    #[arg(long, value_name = "PART")]
    pub accuracy: Option<String>,
    /// With --by: also print a line for all groups together
    #[arg(long, requires = "by")]
    pub all: bool,
    /// In which intervals an event counts [default: overlap for files, completion live]
    #[arg(long, value_enum, value_name = "RULE")]
    pub count_by: Option<CountBy>,
    /// Exit with status 1 if this holds in any interval and group, e.g. 'p99 > 5s'
    ///
    /// pN, mean, min, max, count and rate, combined with and, or and parentheses; 'oldest > 5s' and 'waiting(1s) > 3' are
    /// about waiting requests. E.g. '(p95 > 1s or p99 > 5s) and count > 9 for 3 intervals'.
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Option<String>,
    /// Print CSV, in base units
    ///
    /// With =fiologparser, in the columns of fio's fiologparser_hist.py: end of the interval in ms, samples, min, avg, median,
    /// 90%, 95%, 99%, max in ns.
    #[arg(long, value_enum, value_name = "LAYOUT", num_args = 0..=1, require_equals = true, default_missing_value = "latscope", conflicts_with = "json")]
    pub csv: Option<CsvLayout>,
    /// Print JSON, in base units, one object per line
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output; .svg draws a chart
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub look: Look,
}

/// Which columns CSV has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CsvLayout {
    /// Ours
    Latscope,
    /// Those of fio's script
    Fiologparser,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CountBy {
    /// Once, in the interval in which it completed
    Completion,
    /// In every interval in which it was in flight, in proportion to the time that it spent there
    Overlap,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PercentileRule {
    /// Interpolated, as if values were spread evenly
    Linear,
    /// The middle, as fio prints it
    Fio,
}
