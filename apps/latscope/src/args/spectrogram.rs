use super::{Fold, Input, Scale};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope spectrogram -r perf.data
  latscope spectrogram -r perf.data -i 500ms --palette sysdig 'kind = write'
  latscope spectrogram -r perf.data --orient across --palette pylatencymap
  latscope spectrogram -r perf.data --color never --width 100 > spectrogram.txt";

/// Terminal spectrogram: a row for every interval, latency across, colour = events per second.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Spectrogram {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub fold: Fold,
    /// Colours
    #[arg(long, value_enum, default_value = "viridis", help_heading = "Screen")]
    pub palette: Palette,
    /// Which way time goes
    #[arg(long, value_enum, default_value = "down", help_heading = "Screen")]
    pub orient: Orient,
    /// Scale of the colours
    #[arg(long, value_enum, default_value = "log", help_heading = "Screen")]
    pub scale: Scale,
    /// How many colours: by terminal and NO_COLOR when not given
    #[arg(long, value_enum, default_value = "auto", help_heading = "Screen")]
    pub color: Color,
    /// Columns of the screen; those of the terminal, or 100, when not given
    #[arg(long, value_name = "N", help_heading = "Screen")]
    pub width: Option<usize>,
    /// Label rows with the time of day, where the trace's clock tells it
    #[arg(long, help_heading = "Screen")]
    pub wall: bool,
    /// One interval to a line instead of two half blocks
    #[arg(long, help_heading = "Screen")]
    pub no_half_blocks: bool,
    /// Plain rows on a terminal too, instead of the interactive screen
    #[arg(long, help_heading = "Screen")]
    pub plain: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Screen")]
    pub output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Palette {
    Viridis,
    Inferno,
    Turbo,
    /// The colours and columns of sysdig's chisel
    Sysdig,
    /// The two maps of PyLatencyMap: frequency and intensity
    Pylatencymap,
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
