//! What the turns of `lab spark` show: times, verdicts, and two configurations against each other.

use super::{NOTICE, Turn, WIDTH_PX};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Compare, Reading, Shape, SparkLab as Plan, SparkSide};
use crate::run::{compare, output};
use latscope_event::{Field, escape_json, format_duration, format_size};
use latscope_series::compare::CompareOptions;
use latscope_series::spark::Analysis;
use latscope_view_report::ComparePicture;
use latscope_view_term::{Align, Line, Table};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Prints it, and leaves the comparisons beside the turns.
pub fn finish(plan: &Plan, turns: &[Turn], of: usize) -> Result<(), Failure> {
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
            // Ctrl-C may leave a side without a turn.
            let none = if turns.iter().any(|turn| turn.side == side) { "failed" } else { "-" };
            row.push(median(&times).map_or(none.into(), format_duration));
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
