use super::StackCapture;
use clap::{Args, ValueEnum};

/// What a live capture takes beside the source and the filter.
#[derive(Args, Debug, Default)]
pub struct Live {
    /// Capture for this time [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION", help_heading = "Live")]
    pub for_: Option<String>,
    /// Capture only these system calls, e.g. read,write,fsync; others then cost next to nothing
    #[arg(long, value_name = "CALL", value_delimiter = ',', help_heading = "Live", conflicts_with = "read")]
    pub calls: Vec<String>,
    /// Count in the kernel, or capture every event
    #[arg(long, value_enum, default_value = "auto", help_heading = "Live", conflicts_with = "read")]
    pub mode: Mode,
    #[command(flatten)]
    pub stacks: StackCapture,
}

impl Live {
    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given =
            [("--for", self.for_.is_some()), ("--calls", !self.calls.is_empty()), ("--mode", self.mode != Mode::Auto)];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option).or(self.stacks.given())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Mode {
    /// Count in the kernel if filter, groups and view allow it
    #[default]
    Auto,
    /// Count in the kernel
    Histogram,
    /// Capture every event
    Event,
}
