use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Error};
use latscope_capture_probe::PRESETS;
use std::ffi::OsStr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  latscope lab list
  latscope lab storage --dry-run .
  latscope lab storage /mnt/ssd /mnt/ebs1 /mnt/ebs2 -o volumes      # three volumes, nine minutes
  latscope lab storage --for 300ms --rounds 1 -o quick .            # a quick try
  latscope lab etcd /mnt/etcd -o etcd                               # status 1 if p99 > 10 ms
  latscope lab run mine.toml --dry-run .
  latscope lab scan /dev/sdb -o sdb                                 # is it slow or broken?
  latscope lab spark --conf spark.executor.memory=512m --against spark.executor.memory=1g

Exit status: 0 done, 1 --fail-if or the limit of an experiment exceeded, or scan found a slow region or errors, 2 wrong usage, 3 nothing could be measured.";

/// Run storage experiments in several directories and compare them; or queries in Spark
///
/// The directories are measured in turns, and every request is recorded. Nothing stays in the directories.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Lab {
    /// storage, etcd, commit or curve; run FILE for your own; scan DEVICE to look for slow regions; spark; list to list them
    #[arg(value_name = "LAB", value_parser = Labs, hide_possible_values = true)]
    pub lab: String,
    /// Directories to measure; after run, first the TOML file; after scan, a device or a file; after spark, where tables are kept
    #[arg(value_name = "DIR")]
    pub paths: Vec<PathBuf>,
    /// Folder for traces and pictures [default: lab-NAME]
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Duration of a turn [default: as the experiment says]
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "quick")]
    pub for_: Option<String>,
    /// Shorten every turn to a tenth: enough for a try, too short for write-back cycles
    #[arg(long)]
    pub quick: bool,
    /// Number of rounds [default: as the experiment says; spark: 3]
    #[arg(long, alias = "runs", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Print what would be written where, how much, and how long it takes, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Exit with status 1 if an experiment in any directory exceeds this, e.g. 'p99 > 10ms'
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Option<String>,
    /// Print JSON, in base units
    #[arg(long)]
    pub json: bool,
    /// scan: read at most this much per second [default: 32MiB]
    #[arg(long, value_name = "SIZE")]
    pub speed: Option<String>,
    /// scan: size of a read [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// scan: start here, where an earlier scan was ended [default: 0]
    #[arg(long, value_name = "OFFSET")]
    pub start: Option<String>,
    #[command(flatten)]
    pub spark: LabSpark,
    /// Dark background for pictures
    #[arg(long)]
    pub dark: bool,
}

/// What only `lab spark` takes.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "lab spark")]
pub struct LabSpark {
    /// Scale of the tables: 1 is about a gigabyte of text [default: 1]
    #[arg(long, value_name = "N")]
    pub scale: Option<f64>,
    /// Queries of TPC-DS, or python for a pandas function [default: q3,q7,q19,q42,q55,q67,python]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub queries: Vec<String>,
    /// A setting of Spark; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub conf: Vec<String>,
    /// A setting of a second configuration, which has those of --conf too and is compared with the first; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub against: Vec<String>,
    /// Python that has pyspark [default: that of LATSCOPE_SPARK_PYTHON, or python3]
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
}

/// Any word, as the plan says which labs there are; shells offer these.
#[derive(Clone)]
struct Labs;

impl TypedValueParser for Labs {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let presets = PRESETS.iter().map(|(name, _)| *name);
        Some(Box::new(presets.chain(["run", "scan", "spark", "list"]).map(PossibleValue::new)))
    }
}

impl LabSpark {
    /// Whether any of these was given.
    pub fn is_given(&self) -> bool {
        let lists = [&self.queries, &self.conf, &self.against];
        self.scale.is_some() || self.python.is_some() || lists.iter().any(|list| !list.is_empty())
    }
}
