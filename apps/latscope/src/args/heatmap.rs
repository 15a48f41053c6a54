use super::{Fold, Input, Look, palettes, scales};
use clap::Args;
use latscope_view::{Palette, Scale};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope heatmap -r perf.data -o latency.svg
  latscope heatmap -r perf.data --weight time -o waiting.svg        # where the time went
  latscope heatmap -r perf.data --by device --max 15ms -o zoom.svg  # a panel per device
  latscope heatmap -r perf.data -y offset 'dev = 8:16' -o seeks.svg
  latscope heatmap -r out.lat_us --unitstime us --unitslat us -o out.svg";

/// Draw a heat map (SVG) of latency, size, offset or queue time
///
/// Time runs to the right, and an event counts in the interval in which it completed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Heatmap {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub fold: Fold,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Picture")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub look: Look,
    /// Scale of the y axis [default: linear for offsets, otherwise log]
    #[arg(long, value_parser = scales(), help_heading = "Picture")]
    pub scale: Option<Scale>,
    /// Colour scale
    #[arg(long, value_parser = scales(), default_value = "log", help_heading = "Picture")]
    pub color: Scale,
    /// Rate of the strongest colour, in events, seconds or bytes per second
    ///
    /// Set it to compare the colours of several pictures.
    #[arg(long, value_name = "RATE", help_heading = "Picture")]
    pub color_max: Option<f64>,
    /// Palette
    #[arg(long, value_parser = palettes(Palette::PICTURE), default_value = "viridis", help_heading = "Picture")]
    pub palette: Palette,
    /// Percentile lines, e.g. 50,99,99.9 (100 is the maximum), or none
    #[arg(long = "lines", value_name = "P", default_value = "50,99", help_heading = "Picture")]
    pub lines: String,
    /// Omit the strips of rate, throughput and requests in flight
    #[arg(long, help_heading = "Picture")]
    pub no_strips: bool,
    /// Draw a grid
    #[arg(long, help_heading = "Picture")]
    pub grid: bool,
    /// Maximum number of cells with a tooltip (about 150 bytes each), highest and heaviest first
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Picture")]
    pub tooltips: u32,
    /// trace2heatmap's seconds to a column: -i SECONDSs
    #[arg(long = "stepsec", value_name = "SECONDS", hide = true)]
    pub step_seconds: Option<f64>,
    /// trace2heatmap's height of a row on a linear axis, in the unit of the file; takes --maxlat
    #[arg(long = "steplat", value_name = "N", hide = true, requires = "max")]
    pub step_latency: Option<u64>,
    /// Options of trace2heatmap about the size and the fonts of its picture, which have nothing to do here
    #[arg(long, value_name = "N", hide = true)]
    pub maxcol: Option<u32>,
    #[arg(long, value_name = "PX", hide = true)]
    pub boxsize: Option<u32>,
    #[arg(long, hide = true)]
    pub accstats: bool,
    #[arg(long, value_name = "NAME", hide = true)]
    pub fonttype: Option<String>,
    #[arg(long, value_name = "PX", hide = true)]
    pub fontsize: Option<u32>,
    /// Number of rows
    #[arg(long, value_name = "N", help_heading = "Picture")]
    pub rows: Option<u32>,
}
