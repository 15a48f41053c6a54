use super::{Input, StackWidth, Table};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope stacks -r waits.csv
  latscope stacks -r waits.csv --by dev 'lat > 20ms'
  latscope stacks -r waits.csv --full --top 3
  latscope stacks -r waits.csv --json | jq '.stacks[0] | {function, share}'";

/// Print the call stacks with the largest share of the time waited
///
/// Each line is a stack: its share with a 95 % interval, the innermost function of the program, what it waited for, and its callers.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Stacks {
    #[command(flatten)]
    pub input: Input,
    /// Group by these fields
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub by: Vec<String>,
    /// What shares are of [default: time; of files that only count, events]
    #[arg(long, value_enum)]
    pub width: Option<StackWidth>,
    /// Print at most so many stacks
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print whole stacks, a function on each line, the innermost first
    #[arg(long)]
    pub full: bool,
    /// Live: print the stacks so far in this interval, e.g. 2s
    #[arg(short, long, value_name = "DURATION", conflicts_with = "read")]
    pub interval: Option<String>,
    #[command(flatten)]
    pub table: Table,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
