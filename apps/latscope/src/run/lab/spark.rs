//! `latscope lab spark`: queries in Spark in turns, each an application of its own, with its event log and what the kernel saw.

mod outcome;

use super::output;
use crate::Failure;
use crate::notes::{WORDING, plural};
use crate::plan::{Reading, Recording, Report, SparkLab as Plan, SparkSide};
use crate::run::executors::Sampling;
use crate::run::spark::Application;
use crate::run::{record, report, reports};
use latscope_event::{format_duration, format_size};
use latscope_series::spark::Settings;
use latscope_view_report::SparkPicture;
use latscope_view_term::{Line, SparkLevel};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What runs in Python.
const SCRIPT: &str = include_str!("spark/queries.py");
/// What every report says of itself: results of the TPC's benchmarks are audited.
const NOTICE: &str = "TPC-DS derived, not a benchmark result";
/// What control groups of executors counted.
const USAGE: &str = "executors.csv";
/// Rows of a table of the report.
const ROWS: usize = 20;
const WIDTH_PX: u32 = 1200;
const MIB: u64 = 1 << 20;
/// A worker has at least as much memory as an executor has heap without settings.
const LEAST_WORKER: u64 = 1024 * MIB;
/// How often a signal is looked for.
const TURN: Duration = Duration::from_millis(50);

/// What one run of all queries left.
struct Turn {
    side: usize,
    round: u32,
    folder: PathBuf,
    log: PathBuf,
    application: Application,
    /// How long each query took in this turn, nanoseconds, and whether it failed; of one that the log does not have, none.
    queries: Vec<Option<(u64, bool)>>,
}

pub fn run(plan: &Plan) -> Result<(), Failure> {
    let tables = plan.tables.as_ref().unwrap_or(&plan.output).join(format!("tpcds-{}", plan.scale));
    if plan.dry_run {
        return output::text(None, &dry(plan, &tables));
    }
    let failed =
        |path: &Path, error: std::io::Error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    let turns: Vec<(usize, u32)> = (0..plan.rounds).flat_map(|round| order(plan.sides.len(), round)).collect();
    if let Some(folder) = turns.iter().map(|&turn| folder(plan, turn)).find(|folder| folder.exists()) {
        let message = "exists; give another folder with -o, or remove what an earlier lab left there";
        return Err(Failure::Usage(format!("{} {message}.", folder.display())));
    }
    let script = plan.output.join("queries.py");
    std::fs::create_dir_all(&plan.output).map_err(|error| failed(&plan.output, error))?;
    std::fs::write(&script, SCRIPT).map_err(|error| failed(&script, error))?;
    let python = plan.python.clone().or_else(|| std::env::var_os("LATSCOPE_SPARK_PYTHON").map(PathBuf::from));
    let python = python.unwrap_or_else(|| "python3".into());
    let queries = plan.queries.join(",");
    ask(&python, &script, &["check".into(), (&queries).into()])?;
    if !tables.exists() {
        say!("latscope: making the tables {} ...", tables.display());
        ask(&python, &script, &["tables".into(), (&tables).into(), plan.scale.to_string().into()])?;
    }
    let (mut done, of) = (Vec::new(), turns.len());
    for (at, turn) in turns.into_iter().enumerate() {
        let (side, folder) = (&plan.sides[turn.0], folder(plan, turn));
        say!("latscope: turn {} of {of}: {}, round {}", at + 1, side.name, turn.1 + 1);
        std::fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
        let words = [python.as_os_str(), script.as_os_str(), "run".as_ref(), folder.as_os_str(), tables.as_os_str()];
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        words.push((&queries).into());
        words.extend(side.settings.iter().map(OsString::from));
        // The arguments of its executors have the folder of the turn.
        let only = std::path::absolute(&folder).unwrap_or_else(|_| folder.clone());
        let sampling = Sampling::start(folder.join(USAGE), format!("{}/scratch/", only.display()));
        let applied = apply(plan, &folder, &words);
        if !sampling.finish()? {
            let _ = std::fs::remove_file(folder.join(USAGE));
        }
        applied?;
        let is_over = reports::interrupted().load(Ordering::Relaxed);
        if !folder.join("spark.log").exists() {
            let why =
                format!("{} has no event log; {} says why.", folder.display(), folder.join("driver.log").display());
            if is_over && !done.is_empty() {
                break;
            }
            return Err(Failure::Input(why));
        }
        done.push(read(plan, turn, folder)?);
        if is_over {
            break;
        }
    }
    outcome::finish(plan, &done, of)
}

/// Every other round goes backwards, so that drift adds the same to both sides.
fn order(sides: usize, round: u32) -> Vec<(usize, u32)> {
    let mut sides: Vec<usize> = (0..sides).collect();
    if round % 2 == 1 {
        sides.reverse();
    }
    sides.into_iter().map(|side| (side, round)).collect()
}

fn folder(plan: &Plan, (side, round): (usize, u32)) -> PathBuf {
    plan.output.join(format!("{}.{}", plan.sides[side].name, round + 1))
}

fn dry(plan: &Plan, tables: &Path) -> String {
    let about = if tables.exists() { "which are there".into() } else { tables_to_make(plan.scale) };
    let mut text = format!(
        "spark: {NOTICE}.\nThe queries {} on the tables {}, {about}.\n",
        plan.queries.join(", "),
        tables.display()
    );
    let turns = plan.rounds as usize * plan.sides.len();
    text += &format!(
        "{}, {} in all, each with a driver and two executors with a core each, for:\n",
        plural(plan.rounds.into(), "round"),
        plural(turns as u64, "application")
    );
    for SparkSide { name, settings } in &plan.sides {
        let worker = format_size(worker_bytes(settings));
        let settings = if settings.is_empty() { "no settings".into() } else { settings.join(" ") };
        text += &format!("  {name}: {settings}; up to {worker} of memory for each executor\n");
    }
    text += &format!("Event logs, traces of the kernel and reports go to {}.\n", plan.output.display());
    text + "How long the queries take and how much disk their shuffles fill is known only after a first run.\n"
}

/// What tables are made at a scale, and what that takes: by lines through what was measured with DuckDB at 0.01, 0.1
/// and 1 (3.9, 26 and 277 MB; 244, 557 and 2423 MB; 4, 6 to 12 and 22 to 56 s), and by a minute of Trino's generator at 0.1.
fn tables_to_make(scale: f64) -> String {
    let (disk, memory) = ((1.2e6 + 270e6 * scale) as u64, (220e6 + 2.4e9 * scale) as u64);
    let took = Duration::from_secs_f64(4.0 + 35.0 * scale).as_secs();
    format!(
        "which are made first: 24 tables at scale {scale}, about {} of Parquet; DuckDB takes about {} and {} of memory for that, \
         Trino's generator ten times as long",
        format_size(disk),
        format_duration(took * 1_000_000_000),
        format_size(memory)
    )
}

/// The memory of a worker, which has one executor: as the script asks for it, bytes.
fn worker_bytes(settings: &[String]) -> u64 {
    const OTHERS: [&str; 2] = ["spark.executor.memoryOverhead", "spark.executor.pyspark.memory"];
    let settings: BTreeMap<String, String> = settings
        .iter()
        .filter_map(|text| text.split_once('='))
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    let settings = Settings(&settings);
    let part = |name: &str| settings.bytes(name, MIB);
    let off_heap = Some("spark.memory.offHeap.size").filter(|_| settings.is_on("spark.memory.offHeap.enabled"));
    let heap = part("spark.executor.memory").unwrap_or(LEAST_WORKER);
    let others = OTHERS.into_iter().chain(off_heap).filter_map(part);
    others.fold(heap, u64::saturating_add).max(LEAST_WORKER)
}

/// Runs a part of the script that prints nothing unless it fails.
fn ask(python: &Path, script: &Path, words: &[OsString]) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::Input(format!(
            "{}: {why} Name a Python that has pyspark with --python, or make one with make spark.",
            python.display()
        ))
    };
    let ended = Command::new(python).arg(script).args(words).env_remove("SPARK_HOME").stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| cannot(&format!("Cannot be run: {error}.")))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(cannot(&String::from_utf8_lossy(&ended.stderr).trim().lines().last().unwrap_or("It failed."))),
    }
}

/// Runs queries while the kernel is captured, or alone where it cannot be.
fn apply(plan: &Plan, folder: &Path, words: &[OsString]) -> Result<(), Failure> {
    let log = folder.join("driver.log");
    // What Spark prints is of no use beside our lines.
    let mut command: Vec<String> =
        ["env", "-u", "SPARK_HOME", "sh", "-c", "exec >\"$0\" 2>&1 \"$@\""].map(String::from).to_vec();
    command.push(log.to_string_lossy().into_owned());
    command.extend(words.iter().map(|word| word.to_string_lossy().into_owned()));
    let (reading, with) = (plan.capture.0.clone(), plan.capture.1);
    let write = folder.join("kernel.lat");
    let recording =
        Recording { write: write.clone(), force: false, rotate: None, keep: None, with, command: command.clone() };
    let recorded = reports::open(reading, Some(&write)).and_then(|pipeline| record::run(&pipeline, &recording));
    match recorded {
        Ok(()) | Err(Failure::Command(_)) => Ok(()),
        // The capture could not start.
        Err(Failure::Input(why)) if !log.exists() => {
            say!("latscope: without what the kernel saw: {why}");
            alone(&command)
        }
        Err(failure) => Err(failure),
    }
}

/// Runs a command to its end, or until a signal.
fn alone(command: &[String]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Input(format!("Cannot run the queries: {error}."));
    let mut child = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).spawn().map_err(failed)?;
    while child.try_wait().map_err(failed)?.is_none() {
        if reports::interrupted().load(Ordering::Relaxed) {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
            child.wait().map_err(failed)?;
            break;
        }
        std::thread::sleep(TURN);
    }
    Ok(())
}

/// Reads what a turn left, and leaves its reports beside it.
fn read(plan: &Plan, (side, round): (usize, u32), folder: PathBuf) -> Result<Turn, Failure> {
    let (log, kernel) = (folder.join("spark.log"), folder.join("kernel.lat"));
    let usage: Vec<PathBuf> = Some(folder.join(USAGE)).filter(|file| file.exists()).into_iter().collect();
    let reading = Reading { files: vec![log.clone()], usage, ..Reading::default() };
    let pipeline = reports::open(Reading { all_of_spark: true, ..reading.clone() }, None)?;
    let kernel: Vec<PathBuf> = Some(kernel).filter(|kernel| kernel.exists()).into_iter().collect();
    let application = Application::read(&pipeline, &kernel)?;
    let title = format!("{NOTICE}: {}, round {}", plan.sides[side].name, round + 1);
    let path = |name: &str| Some(folder.join(name));
    let mut lines = vec![Line::new(&title)];
    lines.extend(application.lines(SparkLevel::Sql, ROWS, output::room(&path("report.txt"))));
    output::lines(path("report.txt").as_deref(), lines)?;
    let picture = SparkPicture { width: WIDTH_PX, theme: plan.theme, wording: WORDING, title: Some(title.clone()) };
    output::text(path("report.svg").as_deref(), &application.picture(&picture))?;
    let page = Report {
        output: path("report.html"),
        title: Some(title),
        interval_ns: None,
        budget: None,
        source: "-r spark.log".into(),
    };
    report::run(&reports::open(reading, None)?, &page)?;
    let executions = application.tasks.executions();
    let query = |name: &String| {
        let found = executions.iter().find(|execution| execution.name == *name)?;
        let (start_ns, end_ns) = found.span_ns?;
        Some((end_ns.abs_diff(start_ns), found.has_failed))
    };
    Ok(Turn { side, round, folder, log, application, queries: plan.queries.iter().map(query).collect() })
}
