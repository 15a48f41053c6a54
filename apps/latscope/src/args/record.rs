use super::{Live, Source, StackCapture, Tagging};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope record -s block -w t.lat --for 10s
  latscope record -s io -w t.lat 'proc.name = postgres' -- pgbench -T 60
  latscope record -s io -w t.lat --with user.name,proc.cmdline      # or --with all
  latscope record -s block -w flight.lat --rotate 1h --keep 24      # a flight recorder
  latscope record -s io -w flight.lat --rotate 10m --keep 2GiB      # limited by size
  latscope record -s stacks,offcpu,oncpu -w t.lat 'proc.pid = 4711'  # where its time goes
  latscope record -s block --stacks slow=20ms -w t.lat --for 10s    # whose code waits
  latscope record -s stacks -w t.lat --tag-postgres 'host=/run/postgresql user=postgres'
  latscope record -s io -w t.lat --only-slow 10ms --sample 1/256    # a sample

Exit status: 0 done, 2 wrong usage, 3 capture failed.
With a command: that of the command; 127 if it is not found, 126 if it cannot be executed.";

/// Record live events to a trace
///
/// Records until Ctrl-C, for a time (--for), or while a command runs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// What to capture: block, io, syscall, or of stacks, offcpu[=1ms] and oncpu[=99hz] one or several
    #[arg(short, long, value_name = "SOURCE", value_parser = Source::parse, default_value = "block")]
    pub source: Source,
    /// Trace to write: .lat, or of system calls .scap for sysdig
    #[arg(short, long, value_name = "FILE")]
    pub write: PathBuf,
    #[command(flatten)]
    pub live: RecordLive,
    #[command(flatten)]
    pub tagging: Tagging,
    /// Replace the file if it exists, as soon as the recording has started
    #[arg(short, long)]
    pub force: bool,
    /// Start a new file after this time, or before it exceeds this size, e.g. 1h or 100MiB
    ///
    /// The file names contain date and time.
    #[arg(long, value_name = "DURATION|SIZE")]
    pub rotate: Option<String>,
    /// Keep at most this many files, or bytes in total, e.g. 24 or 2GiB
    ///
    /// The oldest files are removed, also if the disk is full.
    #[arg(long, value_name = "N|SIZE", requires = "rotate")]
    pub keep: Option<String>,
    /// Also record these fields, e.g. user.name,proc.cmdline; or all
    ///
    /// They are not recorded by default because they cost time for every event.
    #[arg(long = "with", value_name = "FIELD", value_delimiter = ',')]
    pub with: Vec<String>,
    /// Keep every event at least this slow, and the --sample (required) of the others
    #[arg(long, value_name = "DURATION", requires = "sample")]
    pub only_slow: Option<String>,
    /// Share of the events to keep, e.g. 1/256, except those of --only-slow; kept events are weighted accordingly
    #[arg(long, value_name = "1/N")]
    pub sample: Option<String>,
    /// Which events to record, e.g. 'lat > 1ms and kind = write'
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Record while this command runs, and exit with its status
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// As [`Live`], where nothing can be read.
#[derive(Args, Debug, Default)]
pub struct RecordLive {
    /// Record for this time [default: until Ctrl-C]; then a running command is ended (SIGTERM)
    #[arg(long = "for", value_name = "DURATION")]
    pub for_: Option<String>,
    /// Capture only these system calls, e.g. read,write,fsync; others then cost next to nothing
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub calls: Vec<String>,
    #[command(flatten)]
    pub stacks: StackCapture,
}

impl Record {
    /// What was typed as the input of a live view.
    pub fn live(&self) -> Live {
        let RecordLive { for_, calls, stacks } = &self.live;
        Live { for_: for_.clone(), calls: calls.clone(), mode: super::Mode::Event, stacks: stacks.clone() }
    }
}
