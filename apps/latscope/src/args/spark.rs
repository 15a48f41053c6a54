use super::Input;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope spark -r app-20261121011349-0000
  latscope spark -r app-20261121011349-0000 --json | jq .counters
  latscope spark -r app-20261121011349-0000 'job = 56'";

/// Print the report of a Spark application from its event log
///
/// The counters of sparkMeasure by stage, tasks that ran against cores, what idle cores at the end of stages cost, and stragglers with
/// their cause.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Spark {
    #[command(flatten)]
    pub input: Input,
    /// Print at most so many stages and stragglers
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
