use super::{Live, Source};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope record -s block -w t.lat --for 10s
  latscope record -s io -w t.lat 'proc.name = postgres' -- pgbench -T 60
  latscope record -s io -w t.lat --with user.name,proc.cmdline      # or --with all
  latscope record -s block -w flight.lat --rotate 1h --keep 24      # a flight recorder
  latscope record -s io -w flight.lat --rotate 10m --keep 2GiB      # the same, limited by size
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
    /// Replace the file if it exists, once the recording has begun
    #[arg(short, long)]
    pub force: bool,
    /// Begin a new file after this time or before it passes this size, e.g. 1h or 100MiB; the names carry the time of day
    #[arg(long, value_name = "DURATION|SIZE")]
    pub rotate: Option<String>,
    /// Keep this many files, or this many bytes in all, e.g. 24 or 2GiB; the oldest files are removed, also when the disk is full
    #[arg(long, value_name = "N|SIZE", requires = "rotate")]
    pub keep: Option<String>,
    /// Record these fields too, which are left out because they cost something per event, e.g. user.name,proc.cmdline; or all
    #[arg(long = "with", value_name = "FIELD", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Keep every event at least this slow, and of the others the sample
    #[arg(long, value_name = "DURATION", requires = "sample")]
    pub only_slow: Option<String>,
    /// Sampling rate for all other events, e.g. 1/256; kept events are weighted accordingly
    #[arg(long, value_name = "1/N")]
    pub sample: Option<String>,
    /// Which events to record, e.g. lat > 1ms and kind = write (quote < > ! and brackets for the shell)
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Record while this command runs, and pass its exit status on (127: not found, 126: cannot be executed)
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// As [`Live`], where nothing can be read.
#[derive(Args, Debug, Default)]
pub struct RecordLive {
    /// Record for this time; a command that still runs then is ended (SIGTERM)
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
