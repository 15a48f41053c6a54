use clap::{Args, ValueEnum};

/// What a live capture takes beside the source and the filter.
#[derive(Args, Debug, Default)]
pub struct Live {
    /// Capture for so long; until Ctrl-C when not given
    #[arg(long = "for", value_name = "DURATION", help_heading = "Live", conflicts_with = "read")]
    pub for_: Option<String>,
    /// Look at these system calls only, so that others cost next to nothing, e.g. read,write,fsync
    #[arg(long, value_name = "CALL", value_delimiter = ',', help_heading = "Live", conflicts_with = "read")]
    pub calls: Vec<String>,
    /// Count in the kernel (histogram) or take every event; chosen by what filter and view need when not given
    #[arg(long, value_enum, default_value = "auto", help_heading = "Live", conflicts_with = "read")]
    pub mode: Mode,
}

impl Live {
    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given =
            [("--for", self.for_.is_some()), ("--calls", !self.calls.is_empty()), ("--mode", self.mode != Mode::Auto)];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Mode {
    #[default]
    Auto,
    Histogram,
    Event,
}
