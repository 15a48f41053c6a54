//! `latscope lab spark`: queries in Spark in turns, each an application of its own, with its event log and what the kernel saw.

use super::output;
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Compare, Reading, Recording, Report, Shape, SparkLab as Plan, SparkSide};
use crate::run::spark::Application;
use crate::run::{compare, record, report, reports};
use latscope_event::{Field, escape_json, format_duration, format_size};
use latscope_series::compare::CompareOptions;
use latscope_series::spark::Analysis;
use latscope_view_report::{ComparePicture, SparkPicture};
use latscope_view_term::{Align, Line, SparkLevel, Table};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What runs in Python.
const SCRIPT: &str = include_str!("spark/queries.py");
/// What every report says of itself: results of the TPC's benchmarks are audited.
const NOTICE: &str = "TPC-DS derived, not a benchmark result";
/// Rows of a table of the report.
const ROWS: usize = 20;
const WIDTH_PX: u32 = 1200;
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
        apply(plan, &folder, &words)?;
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
    finish(plan, &done, of)
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
    let about = if tables.exists() { "which are there" } else { "which DuckDB makes first" };
    let mut text = format!(
        "spark: {NOTICE}.\nThe queries {} on the tables {}, {about}.\n",
        plan.queries.join(", "),
        tables.display()
    );
    text += &format!("{} rounds, each an application in local-cluster[2,1,1024] for:\n", plan.rounds);
    for SparkSide { name, settings } in &plan.sides {
        text += &format!("  {name}: {}\n", if settings.is_empty() { "no settings".into() } else { settings.join(" ") });
    }
    text + &format!("Event logs, traces of the kernel and reports go to {}.\n", plan.output.display())
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
    let pipeline = reports::open(Reading { files: vec![log.clone()], all_of_spark: true, ..Reading::default() }, None)?;
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
    report::run(&reports::open(Reading { files: vec![log.clone()], ..Reading::default() }, None)?, &page)?;
    let executions = application.tasks.executions();
    let query = |name: &String| {
        let found = executions.iter().find(|execution| execution.name == *name)?;
        let (start_ns, end_ns) = found.span_ns?;
        Some((end_ns.abs_diff(start_ns), found.has_failed))
    };
    Ok(Turn { side, round, folder, log, application, queries: plan.queries.iter().map(query).collect() })
}

fn finish(plan: &Plan, turns: &[Turn], of: usize) -> Result<(), Failure> {
    if !plan.json {
        output::lines(None, lines(plan, turns, of))?;
    }
    let comparisons = if plan.sides.len() > 1 { comparisons(plan, turns)? } else { Vec::new() };
    if plan.json {
        output::text(None, &escape_json(&format!("{:#}\n", as_json(plan, turns, of, &comparisons))))?;
    }
    let failed = |turn: &Turn| turn.queries.iter().any(|query| query.is_none_or(|(_, has_failed)| has_failed));
    turns.iter().filter(|turn| failed(turn)).for_each(|turn| {
        say!("latscope: queries failed; {} says why", turn.folder.join("driver.log").display());
    });
    Ok(())
}

/// How long a query took in the turns of a side in which it succeeded, the shortest first, nanoseconds.
fn times(turns: &[Turn], side: usize, query: usize) -> Vec<u64> {
    let of_side = turns.iter().filter(|turn| turn.side == side);
    let mut times: Vec<u64> = of_side
        .filter_map(|turn| turn.queries[query])
        .filter(|(_, has_failed)| !has_failed)
        .map(|(ns, _)| ns)
        .collect();
    times.sort_unstable();
    times
}

/// The lower one of two in the middle.
fn median(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

fn lines(plan: &Plan, turns: &[Turn], of: usize) -> Vec<Line> {
    let columns = if output::to_terminal(&None) { output::columns(&None) } else { 160 };
    let mut lines = vec![Line::new(&format!("spark: {NOTICE}; scale {}, {} of {of} turns", plan.scale, turns.len()))];
    let mut titles = vec![("query".to_string(), Align::Left)];
    for side in &plan.sides {
        titles.extend([(format!("{} median", side.name), Align::Right), ("from ... to".into(), Align::Right)]);
    }
    let mut table = Table::new(titles);
    for (query, name) in plan.queries.iter().enumerate() {
        let mut row = vec![name.clone()];
        for side in 0..plan.sides.len() {
            let times = times(turns, side, query);
            row.push(median(&times).map_or("failed".into(), format_duration));
            row.push(match &times[..] {
                [] => String::new(),
                [first, .., last] => format!("{} ... {}", format_duration(*first), format_duration(*last)),
                [only] => format_duration(*only),
            });
        }
        table.push(row);
    }
    lines.extend([Line::default(), table.heading(columns)]);
    lines.extend(table.take_lines(columns));
    lines.push(Line::default());
    for turn in turns {
        let analysis = Analysis::new(&turn.application.tasks, &turn.application.context.properties);
        let verdict = analysis.observed.findings().into_iter().next();
        let verdict = verdict.map_or("nothing stands out".into(), |finding| {
            format!("{} ({} confidence): {}", finding.verdict.word(), finding.confidence.word(), finding.evidence)
        });
        let spilled = turn.application.tasks.total().get(Field::Spilled);
        let spilled = if spilled > 0 { format!("; spilled {}", format_size(spilled)) } else { String::new() };
        lines.push(Line::new(&format!("{}: {verdict}{spilled}", turn.folder.join("report.txt").display())));
    }
    lines
}

/// The two configurations against each other: queries and tasks.
fn comparisons(plan: &Plan, turns: &[Turn]) -> Result<Vec<PathBuf>, Failure> {
    let queries = Reading { all_of_spark: true, filter: plan.measured.clone(), ..Reading::default() };
    let mut files = Vec::new();
    for (what, reading) in [("queries", queries), ("tasks", Reading::default())] {
        let side = |at: usize| -> Vec<Reading> {
            let of_side = turns.iter().filter(|turn| turn.side == at);
            of_side.map(|turn| Reading { files: vec![turn.log.clone()], ..reading.clone() }).collect()
        };
        let sides: Vec<(String, Vec<Reading>)> =
            plan.sides.iter().enumerate().map(|(at, of)| (of.name.to_string(), side(at))).collect();
        if sides.iter().any(|(_, turns)| turns.is_empty()) {
            continue;
        }
        let path = plan.output.join(format!("compare-{what}.{}", if plan.json { "json" } else { "svg" }));
        let chart = ComparePicture {
            title: Some(format!("{NOTICE}: {what}")),
            width: WIDTH_PX,
            theme: plan.theme,
            wording: WORDING,
            filter: None,
        };
        if !plan.json {
            output::text(None, &format!("\n{what} ({})\n", path.display()))?;
        }
        let compared = compare::run(&Compare {
            sides,
            by: None,
            options: CompareOptions::default(),
            limit: None,
            shape: if plan.json { Shape::Json } else { Shape::Text },
            output: Some(path.clone()),
            chart: (!plan.json).then_some(chart),
            junit: None,
            markdown: false,
        });
        match compared {
            Ok(()) => files.push(path),
            // What was measured stays; a side may have no query that succeeded.
            Err(Failure::Input(why) | Failure::Usage(why)) => say!("latscope: {what} cannot be compared: {why}"),
            Err(failure) => return Err(failure),
        }
    }
    Ok(files)
}

fn as_json(plan: &Plan, turns: &[Turn], of: usize, comparisons: &[PathBuf]) -> Value {
    let turn = |turn: &Turn| {
        let queries = plan.queries.iter().zip(&turn.queries).map(|(name, query)| {
            json!({"name": name, "elapsed_ns": query.map(|(ns, _)| ns), "failed": query.is_none_or(|(_, failed)| failed)})
        });
        let total = turn.application.tasks.total();
        json!({
            "side": plan.sides[turn.side].name,
            "round": turn.round + 1,
            "folder": turn.folder.display().to_string(),
            "has_kernel": turn.folder.join("kernel.lat").exists(),
            "queries": queries.collect::<Vec<_>>(),
            "tasks": total.tasks,
            "failed_tasks": total.failed,
            "run_ns": total.get(Field::RunTime),
            "gc_ns": total.get(Field::GcTime),
            "spilled": total.get(Field::Spilled),
        })
    };
    let side = |side: &SparkSide| json!({"name": side.name, "settings": side.settings});
    json!({
        "lab": "spark",
        "about": NOTICE,
        "scale": plan.scale,
        "sides": plan.sides.iter().map(side).collect::<Vec<_>>(),
        "turns_planned": of,
        "turns": turns.iter().map(turn).collect::<Vec<_>>(),
        "comparisons": comparisons.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
    })
}
