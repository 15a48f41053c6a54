use super::Input;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope spark -r app-20261121011349-0000
  latscope spark -r app-20261121011349-0000 --json | jq .counters
  latscope spark -r app-20261121011349-0000 --by sql
  latscope spark -r app-20261121011349-0000 -o application.svg
  latscope spark -r app-20261121011349-0000 --fail-if 'gc > 10%' --fail-if 'lost > 0'
  latscope spark -r app-20261121011349-0000 --kernel run.lat
  latscope spark --graphite 127.0.0.1:2003 --for 10min
  latscope spark --sample executors.csv --for 10min
  latscope spark -r app-20261121011349-0000 --cgroups executors.csv
  latscope spark --graphite 127.0.0.1:2003 -o live.html
  latscope spark -r http://127.0.0.1:4040 --follow
  latscope spark -r http://127.0.0.1:4040 --follow --cgroups live
  latscope spark -r app-20261121011349-0000 'job = 56'

Exit status: 0 done, 1 a limit of --fail-if was broken, 2 wrong usage, 3 the log could not be read,
or a limit cannot be decided, as the application has not ended, its log is incomplete or its cores are not known.";

/// Print the report of a Spark application from its event log
///
/// What the application is bound by and how sure that is, the counters of sparkMeasure by stage, job or query, tasks that ran against
/// cores, why cores were idle, stragglers with their causes, memory with the sizes that would do, and how long it would take with half
/// and twice the cores.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Spark {
    #[command(flatten)]
    pub input: Input,
    /// Split the remainder by what the kernel of an executor's host saw meanwhile (record --with args,ppid); may be repeated
    #[arg(long, value_name = "FILE")]
    pub kernel: Vec<PathBuf>,
    /// Show what was sampled of the control groups of executors meanwhile (--sample); may be repeated, a file for each host. While an
    /// application runs (--follow, --graphite), `live` samples those on this machine
    #[arg(long, value_name = "FILE")]
    pub cgroups: Vec<PathBuf>,
    /// Instead of a log, sample the control groups of all executors on this machine every second, and write them to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["graphite", "read"])]
    pub sample: Option<PathBuf>,
    /// Instead of a log, listen for what Spark's Graphite sink sends, and show what each executor does as it reports
    ///
    /// A terminal shows active tasks, parts of run time and memory over time; a file that ends in .svg or .html has the same as a
    /// picture, drawn again in each interval; others get lines. --follow does so with the REST API of a driver (-r http://...).
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub graphite: Option<SocketAddr>,
    /// Interval of --graphite [default: 10s] and --follow [default: 2s]
    #[arg(short = 'i', long, value_name = "DURATION")]
    pub interval: Option<String>,
    /// What rows of the table of counters are
    #[arg(long, value_enum, default_value_t = SparkBy::Stage)]
    pub by: SparkBy,
    /// Exit with status 1 if this holds; may be repeated: 'gc > 10%', 'spilled > 1GiB', 'failed > 0', 'tail > 5%', 'elapsed > 10min'
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
    /// Print at most so many rows of a table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of standard output; a name that ends in .svg draws the picture
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Dark background [default: the viewer's preference]
    #[arg(long, help_heading = "Picture")]
    pub dark: bool,
    /// Light background [default: the viewer's preference]
    #[arg(long, conflicts_with = "dark", help_heading = "Picture")]
    pub light: bool,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PX", default_value_t = 1200, help_heading = "Picture")]
    pub pixels: u32,
}

/// What rows of the table of counters are.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SparkBy {
    Stage,
    Job,
    Sql,
}
