use super::{Credentials, Live, Push, Source};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope agent --hub unix:hub.sock --queue queue        # as root: the block devices of this host
  latscope agent --hub unix:hub.sock --queue queue -s io --by kind,comm
  latscope agent --hub hub.example --ca ca.pem --token-file token --queue queue
  latscope agent --check --hub hub.example --ca ca.pem --token-file token      # would it work?
  latscope agent --queue queue --queue-size 1GiB          # no hub: a flight recorder of histograms
  latscope agent --push http://127.0.0.1:9090/api/v1/write     # no hub: to Prometheus
  latscope agent --hub unix:hub.sock --queue queue --ping . --rate 20     # any user: a probe

Exit status: 0 done, 2 wrong usage, 3 capture failed, or records were lost.";

/// Send histograms of this host to a hub
///
/// Sends a histogram per interval and group, and the ages of what waits, until Ctrl-C. What a hub has not stored stays in the
/// queue.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Agent {
    /// Hub to send to: HOST[:PORT] or unix:PATH; can be repeated, and each gets everything
    #[arg(long, value_name = "ADDRESS")]
    pub hub: Vec<String>,
    /// Name of this host [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What to capture: block, io, syscall, or of stacks, offcpu[=1ms] and oncpu[=99hz] one or several
    #[arg(short, long, value_name = "SOURCE", value_parser = Source::parse, default_value = "block")]
    pub source: Source,
    #[command(flatten)]
    pub probe: Probe,
    #[command(flatten)]
    pub live: AgentLive,
    /// Length of an interval, 100ms to 60s
    #[arg(short, long, value_name = "DURATION", default_value = "1s")]
    pub interval: Option<String>,
    /// Group by these fields [default: device,kind for block requests, device,path,kind with --ping, else kind]
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Send at most this many groups; the least busy ones are added up as (others)
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_groups: usize,
    /// Folder for what no hub has stored yet; without it, 4 MiB are kept in memory
    #[arg(long, value_name = "FOLDER")]
    pub queue: Option<PathBuf>,
    /// Size of that folder; from 80 % on intervals are merged into longer ones, the oldest first, and then dropped
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub queue_size: String,
    /// After an outage, send at most this much of older intervals per second; the latest ones go first
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub backfill: String,
    /// Also record the events, to a trace (.lat)
    #[arg(long, value_name = "FILE")]
    pub tee: Option<PathBuf>,
    #[command(flatten)]
    pub exports: Push,
    /// Check files, rights, capture, hubs and clocks, print a line for each, and end
    #[arg(long)]
    pub check: bool,
    /// Replace the file of --tee if it exists
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Read options from this file too (TOML): keys are long options, and what is typed wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// File with a time, by which the clock of this host is moved in tests
    #[arg(long, hide = true)]
    pub test_clock: Option<PathBuf>,
    /// Which events to count, e.g. 'kind = write and device startswith nvme'
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

/// Requests of the agent's own; the words are those of `ping`.
#[derive(Args, Debug, Default)]
pub struct Probe {
    /// Instead of a capture, make requests to this directory, file or device and time them, as latscope ping --rate does; can be
    /// repeated
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["source", "calls", "mode"])]
    pub ping: Vec<String>,
    /// With --ping: requests per second to each target, whatever it does; latency counts from when each was due [default: 10]
    #[arg(long, value_name = "N", requires = "ping")]
    pub rate: Option<String>,
    /// With --ping: request size [default: 4k]
    #[arg(long, value_name = "SIZE", requires = "ping")]
    pub size: Option<String>,
    /// With --ping: bypass the page cache (O_DIRECT)
    #[arg(long, requires = "ping")]
    pub direct: bool,
    /// With --ping: write and fdatasync instead of reading; only to directories
    #[arg(long, requires = "ping")]
    pub write: bool,
}

impl Probe {
    /// What was typed as words of `ping`.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--rate".to_string(), self.rate.clone().unwrap_or_else(|| "10".into())];
        words.extend(self.size.iter().flat_map(|size| ["--size".to_string(), size.clone()]));
        words.extend(
            [(self.direct, "--direct"), (self.write, "--write")]
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, word)| word.to_string()),
        );
        words.push("--".into());
        words.extend(self.ping.iter().cloned());
        words
    }
}

/// As [`Live`], where nothing can be read.
#[derive(Args, Debug, Default)]
pub struct AgentLive {
    /// Run for this time [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION")]
    pub for_: Option<String>,
    /// Capture only these system calls, e.g. read,write,fsync
    #[arg(long, value_name = "CALL", value_delimiter = ',')]
    pub calls: Vec<String>,
    /// Count in the kernel, or capture every event
    #[arg(long, value_enum, default_value = "auto")]
    pub mode: super::Mode,
}

impl Agent {
    /// What was typed as the input of a live view.
    pub fn live(&self) -> Live {
        Live {
            for_: self.live.for_.clone(),
            calls: self.live.calls.clone(),
            mode: self.live.mode,
            stacks: Default::default(),
        }
    }
}
