use super::Input;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope flamegraph -r waits.csv -o stacks.svg
  latscope flamegraph -r waits.csv --by dev,comm -o by_thread.svg
  latscope flamegraph -r waits.csv 'lat > 20ms' --against 'lat <= 20ms' -o slow_or_fast.svg
  latscope flamegraph -r waits.csv --color latency --icicle -o means.svg";

/// Draw call stacks as a flame graph (SVG)
///
/// Each box is a function, as wide as its share of the time waited (or of the events), on top of its callers. In a browser, click
/// or press Enter to zoom, / to search, Escape to reset.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Flamegraph {
    #[command(flatten)]
    pub input: Input,
    /// Put these fields beneath the code, e.g. device,wait_class,state,comm
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// What boxes are shares of [default: time; of files that only count, events]
    #[arg(long, value_enum)]
    pub width: Option<StackWidth>,
    /// Compare with the events of this filter, or with this file
    ///
    /// Red boxes have a larger share here, blue ones there. Without a filter at the end, all other events are here. With a
    /// file, a filter at the end selects on both sides.
    #[arg(long, value_name = "FILTER|FILE")]
    pub against: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Picture")]
    pub output: Option<PathBuf>,
    /// Draw the root above
    #[arg(long, help_heading = "Picture")]
    pub icicle: bool,
    /// Colour by kind of code, or by mean latency
    #[arg(long, value_enum, default_value = "kind", help_heading = "Picture")]
    pub color: FlameColour,
    /// Gather frames below this share of all, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, help_heading = "Picture")]
    pub min_share: f64,
    /// Title of the picture
    #[arg(long, value_name = "TEXT", help_heading = "Picture")]
    pub title: Option<String>,
    /// Dark background [default: the viewer's preference]
    #[arg(long, help_heading = "Picture")]
    pub dark: bool,
    /// Light background [default: the viewer's preference]
    #[arg(long, conflicts_with = "dark", help_heading = "Picture")]
    pub light: bool,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PX", default_value_t = 1200, help_heading = "Picture")]
    pub pixels: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StackWidth {
    /// Time waited: the sum of latencies
    Time,
    /// Number of events
    Events,
    /// Number of samples
    Samples,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FlameColour {
    /// Program, kernel, run time, Python, inlined
    Kind,
    /// Mean latency: red above that of all, blue below
    Latency,
}
