use super::{Input, quantity};
use clap::Args;
use latscope_series::Quantity;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope explain -r perf.data                      # what is unusual?
  latscope explain -r perf.data 'lat > 1ms'
  latscope explain -r perf.data 'evt.reltime between 1s and 2s' --json | jq '.findings[].filter'
  latscope explain -r perf.data 'lat > 1ms' --against 'kind = read'
  latscope explain -r perf.data --filter 'kind = write' 'lat > 1ms'
  latscope explain -r yesterday.lat -r today.lat     # what changed?
  latscope explain -r app-20261121011349-0000 -y gc  # Spark: where was much GC?
  latscope explain -s block --for 10s                # live: why is it slow now?";

/// Find what slow requests have in common
///
/// The words at the end select events. They are compared with all others of the trace: in every field, in time, and in derived
/// fields such as in_flight. What tells them apart is printed as filters, the best first.
///
/// Without a filter, the second of two traces is compared with the first; in any other case unusual events are found and
/// explained: bands of slow events, bursts, stalls that recur, changes, and devices, hosts or jobs slower than the others.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    #[command(flatten)]
    pub input: Input,
    /// Compare with these events instead of all others
    #[arg(long, value_name = "FILTER")]
    pub against: Option<String>,
    /// Which events to look at; the selection and what it is compared with are among them
    #[arg(long = "filter", value_name = "FILTER")]
    pub within: Option<String>,
    /// Test only these fields [default: all that the trace has]
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Which quantity to look at: latency, size, offset, queue, service or lag
    ///
    /// Or any field that is a duration or a size, such as run, gc or spilled.
    #[arg(short = 'y', long = "y", value_name = "QUANTITY", value_parser = quantity, default_value = "latency")]
    pub quantity: Quantity,
    /// Seed of the test for chance; equal seeds reproduce results
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON, in base units
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
