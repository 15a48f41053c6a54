use super::{Live, Source};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope record -s block -w t.lat --for 10s
  latscope record -s io -w t.lat 'proc.name = postgres' -- pgbench -T 60
  latscope record -s block -w flight.lat --rotate 1h --keep 24      # a flight recorder
  latscope record -s io -w t.lat --only-slow 10ms --sample 1/256    # of the rest a sample";

/// Record live events into a trace, until Ctrl-C, for a time, or while a command runs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// What to capture: block requests, system calls that do I/O, or all system calls
    #[arg(short, long, value_enum, default_value = "block")]
    pub source: Source,
    /// The trace to write (.lat)
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,
    #[command(flatten)]
    pub live: RecordLive,
    /// Begin a new file after so long; the names carry the time of day
    #[arg(long, value_name = "DURATION")]
    pub rotate: Option<String>,
    /// Keep so many files, remove the oldest
    #[arg(long, value_name = "N", requires = "rotate")]
    pub keep: Option<usize>,
    /// Keep every event at least this slow, and of the others the sample
    #[arg(long, value_name = "DURATION", requires = "sample")]
    pub only_slow: Option<String>,
    /// Which part of the other events to keep, e.g. 1/256; each then stands for as many
    #[arg(long, value_name = "1/N")]
    pub sample: Option<String>,
    /// Which events to record, e.g. lat > 1ms and kind = write (quote < > ! and brackets for the shell)
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Record while this command runs, and pass its exit status on
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// As [`Live`], where nothing can be read.
#[derive(Args, Debug, Default)]
pub struct RecordLive {
    /// Record for so long
    #[arg(long = "for", value_name = "DURATION")]
    pub for_: Option<String>,
    /// Look at these system calls only, so that others cost next to nothing, e.g. read,write,fsync
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub calls: Vec<String>,
}

impl Record {
    /// What was typed as the input of a live view.
    pub fn live(&self) -> Live {
        Live { for_: self.live.for_.clone(), calls: self.live.calls.clone(), mode: super::Mode::Event }
    }
}
