//! How files are read.

use super::Latency;
use clap::Args;

/// How files are to be read.
#[derive(Args, Clone, Debug)]
pub struct Files {
    /// Format of the files [default: detected; see latscope formats]
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub format: Option<String>,
    /// Where the latency of a block request starts
    #[arg(long, value_enum, default_value = "device", help_heading = "Input")]
    pub latency: Latency,
    /// Unit of the first column of two-column files: s, ms, us, ns
    #[arg(long = "unitstime", visible_alias = "time-unit", value_name = "UNIT", help_heading = "Input")]
    pub units_time: Option<String>,
    /// Unit of latencies of two-column files, and of histograms that do not give one
    ///
    /// s, ms, us or ns for latencies [default: the unit of the first column]; bytes, kbytes, Mbytes or Gbytes for sizes or
    /// offsets.
    #[arg(long = "unitslat", visible_aliases = ["unitslabel", "unitslatency", "latency-unit"], value_name = "UNIT", help_heading = "Input")]
    pub units_latency: Option<String>,
    /// Correct coordinated omission of a load generator with this period
    ///
    /// Adds the requests that a closed-loop generator skipped while it waited. For output of ioping, and of latscope ping
    /// without --rate.
    #[arg(long, value_name = "INTERVAL", help_heading = "Input")]
    pub correct_omission: Option<String>,
    /// Columns of fio logs, if they cannot be inferred
    ///
    /// time,value,max,direction,size,offset,priority,issue in this order; omit max, offset, priority and issue if the log
    /// lacks them.
    #[arg(long, value_name = "NAMES", help_heading = "Input")]
    pub log_columns: Option<String>,
    /// Skip and count malformed rows instead of stopping at the first
    ///
    /// For logs of fio and smallfile, and latscope's own CSV and JSON lines.
    #[arg(long, help_heading = "Input")]
    pub lenient: bool,
}
