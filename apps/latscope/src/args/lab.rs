use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope lab list
  latscope lab storage --dry-run .
  latscope lab storage /mnt/ssd /mnt/ebs1 /mnt/ebs2 -o volumes      # three volumes, nine minutes
  latscope lab storage --for 300ms --rounds 1 -o quick .            # just to see what comes out
  latscope lab etcd /mnt/etcd -o etcd      # status 1 if p99 is above 10 ms
  latscope lab run mine.toml --dry-run .

Exit status: 0 done, 1 --fail-if or a limit of an experiment, 2 wrong usage, 3 nothing could be measured.";

/// Reproducible experiments in one or several directories: measured in turns, recorded, compared.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Lab {
    /// Which experiments: storage, etcd, commit, curve; run, for those of a file; list, to list them
    #[arg(value_name = "LAB")]
    pub lab: String,
    /// The directories to measure; after run, the TOML file before them
    #[arg(value_name = "DIR")]
    pub paths: Vec<PathBuf>,
    /// The folder for traces and pictures; lab-NAME when not given
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// So long for every turn, instead of what the experiments ask for
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "quick")]
    pub for_: Option<String>,
    /// A tenth of every turn: enough to try, too short for cycles of write-back
    #[arg(long)]
    pub quick: bool,
    /// Repeat everything so often, instead of as often as the experiments ask for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Say what would be written where, how much and how long it takes, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Status 1 if an experiment in a directory fulfils it, e.g. 'p99 > 10ms'
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Option<String>,
    /// JSON, base units
    #[arg(long)]
    pub json: bool,
    /// Pictures with light text on a dark ground
    #[arg(long)]
    pub dark: bool,
}
