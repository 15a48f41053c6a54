use super::{Fold, Input, palettes, scales};
use clap::{Args, ValueEnum};
use latscope_view::{Palette, Scale};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope spectrogram -s io                                 # live: system calls that do I/O
  latscope spectrogram -r perf.data
  latscope spectrogram -r perf.data -i 500ms --palette sysdig 'kind = write'
  latscope spectrogram -r perf.data --orient across --palette pylatencymap
  latscope spectrogram -r perf.data --color never --width 100 > spectrogram.txt";

/// Show latency over time in the terminal, interactive or as rows
///
/// Each row is an interval, each column a range of latencies; the colour is the number of events per second. On a terminal
/// it is interactive (? lists the keys); in a pipe it prints rows.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Spectrogram {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub fold: Fold,
    /// Palette
    #[arg(long, value_parser = palettes(Palette::TERMINAL), default_value = "viridis", help_heading = "Screen")]
    pub palette: Palette,
    /// Direction of time
    #[arg(long, value_enum, default_value = "down", help_heading = "Screen")]
    pub orient: Orient,
    /// Colour scale
    #[arg(long, value_parser = scales(), default_value = "log", help_heading = "Screen")]
    pub scale: Scale,
    /// Number of colours; auto looks at the terminal and NO_COLOR
    #[arg(long, value_enum, default_value = "auto", help_heading = "Screen")]
    pub color: Color,
    /// Width in columns [default: that of the terminal, or 100]
    #[arg(long, value_name = "N", help_heading = "Screen")]
    pub width: Option<usize>,
    /// Label rows with the time of day, if the trace's clock is known
    #[arg(long, help_heading = "Screen")]
    pub wall: bool,
    /// One interval per line instead of two half blocks
    #[arg(long, help_heading = "Screen")]
    pub no_half_blocks: bool,
    /// Print rows instead of the interactive screen
    #[arg(long, help_heading = "Screen")]
    pub plain: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Screen")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Orient {
    Down,
    Across,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    Auto,
    Truecolor,
    #[value(name = "256")]
    Ansi256,
    #[value(name = "16")]
    Ansi16,
    #[value(alias = "mono")]
    Never,
}
