use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What `hub` watches.
#[derive(Args, Debug, Default)]
pub struct Alerts {
    /// File of alerts, objectives and destinations (TOML); without it, built-in alerts are printed
    #[arg(long, value_name = "FILE", help_heading = "Alerts")]
    pub alerts: Option<PathBuf>,
    /// Check a file of alerts and exit; with -r, print when each alert would have fired
    #[arg(long, value_name = "FILE", help_heading = "Alerts", conflicts_with = "alerts")]
    pub check_alerts: Option<PathBuf>,
    /// With --check-alerts: a journal, a trace or any other file with latencies
    #[arg(short, long = "read", value_name = "FILE", num_args = 1.., help_heading = "Alerts", requires = "check_alerts")]
    pub read: Vec<PathBuf>,
    /// Print the alerts as rules for Prometheus and exit
    #[arg(long, value_name = "KIND", help_heading = "Alerts", conflicts_with = "check_alerts")]
    pub print_rules: Option<Dialect>,
    /// With --print-rules: write tests for promtool to this file
    #[arg(long, value_name = "FILE", help_heading = "Alerts", requires = "print_rules")]
    pub tests: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Dialect {
    /// For native histograms
    Native,
    /// For histograms with le
    Classic,
}
