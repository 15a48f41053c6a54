use super::{Alerts, Credentials, Push};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope hub --listen unix:hub.sock --data journal
  latscope hub --listen 127.0.0.1:0 --recent 10m
  latscope hub --listen 0.0.0.0 --cert hub.pem --key hub.key --token-file tokens --data journal
  latscope hub --listen unix:hub.sock --metrics 127.0.0.1:9790
  latscope hub --data data --keep 1s=1d,60s=400d
  latscope hub --data journal --alerts alerts.toml
  latscope hub --check-alerts alerts.toml -r journal/*.frames

Exit status: 0 done, 2 wrong usage, 3 the address is in use, or the journal cannot be read.";

/// Merge the histograms of agents
///
/// Runs until Ctrl-C. Views read from it: latscope percentiles -r hub://HOST or -r hub+unix:PATH.
/// SIGHUP reads certificates, tokens and the file of alerts again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Hub {
    /// Where to listen: ADDRESS[:PORT] (port 0 takes any free one) or unix:PATH; addresses of the network need TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7790")]
    pub listen: String,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Read options from this file too (TOML): keys are long options, and what is typed wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder for the journal and the history; without it, a restart forgets everything
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// How long the history is kept, by the length of its intervals
    #[arg(long, value_name = "LENGTH=DURATION", value_delimiter = ',', default_value = "1s=2d,10s=14d,60s=400d")]
    pub keep: Vec<String>,
    /// How long intervals are kept in memory, for views
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    pub recent: Option<String>,
    /// Memory for these intervals; the oldest are dropped first
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub memory: String,
    /// How long an interval waits for missing hosts before it is closed
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub grace: Option<String>,
    #[command(flatten)]
    pub exports: Push,
    /// Answer Prometheus, which scrapes http://ADDRESS/metrics: 127.0.0.1:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", help_heading = "Exports")]
    pub metrics: Option<String>,
    /// Run for this time [default: until Ctrl-C]
    #[arg(long = "for", value_name = "DURATION")]
    pub for_: Option<String>,
    /// How long a file of the journal is written, in tests
    #[arg(long, hide = true, default_value = "10m")]
    pub test_file_time: Option<String>,
    #[command(flatten)]
    pub alerts: Alerts,
}
