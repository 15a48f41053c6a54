//! What came out: a table, modes and periods, limits, and the comparison.

use super::cell::{Cell, QUANTILES};
use super::record::Recorded;
use super::{comparison, picture};
use crate::Failure;
use crate::notes::WORDING;
use crate::output;
use crate::plan::Lab as Plan;
use crate::run::reports;
use latscope_event::{escape_json, format_count, format_duration, format_rate};
use latscope_series::{Finding, Judged, Support, Threshold};
use latscope_view_term::{Align, Line, Table};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

pub fn run(plan: &Plan, recorded: &Recorded, cells: &[Cell]) -> Result<(), Failure> {
    let mut pictures = picture::all(plan, cells)?;
    pictures.extend(picture::curves(plan, cells)?);
    if plan.json {
        let comparisons = comparison::all(plan, cells)?;
        output::text(None, &escape_json(&format!("{:#}\n", json(plan, recorded, cells, [&pictures, &comparisons]))))?;
        cells.iter().for_each(|cell| reports::say_notes(&cell.contexts));
    } else {
        output::lines(None, lines(plan, recorded, cells, &pictures))?;
        comparison::all(plan, cells)?;
    }
    let mut failures = Vec::new();
    for cell in cells {
        if let Some(threshold) = &plan.fail_if
            && let Some(found) = exceeded(threshold, cell)
        {
            failures.push(format!("{}: {threshold}: {found}.", name(plan, cell)));
        }
        if let Some((limit, text)) = &plan.limits[cell.experiment]
            && let Some(found) = exceeded(limit, cell)
        {
            failures.push(format!("{} exceeds its limit, {text}: {found}.", name(plan, cell)));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Exceeded(failures.join(" "))) }
}

fn name(plan: &Plan, cell: &Cell) -> String {
    format!("{} in {}", cell.job, plan.directories[cell.directory].display())
}

fn exceeded(threshold: &Threshold, cell: &Cell) -> Option<Finding> {
    threshold.judge(&Judged::new(&cell.total, 1, cell.span_ns).with_waiting(&cell.waiting)).exceeded()
}

fn lines(plan: &Plan, recorded: &Recorded, cells: &[Cell], pictures: &[PathBuf]) -> Vec<Line> {
    let columns = if output::to_terminal(&None) { output::columns(&None) } else { 160 };
    let mut texts = vec![format!("{}: {}", plan.lab.name, plan.lab.about)];
    if recorded.interrupted {
        texts.push("note: interrupted by a signal, so the results below are incomplete".into());
    }
    texts.extend(recorded.left_out.iter().map(|reason| format!("note: {reason}")));
    let mut lines: Vec<Line> = texts.iter().map(|text| Line::new(text)).collect();
    let mut table = table(plan, cells);
    lines.extend([Line::default(), table.heading(columns)]);
    lines.extend(table.take_lines(columns));
    lines.push(Line::new("? fewer than ten requests are slower than this percentile"));
    lines.push(Line::default());
    for cell in cells {
        lines.push(Line::new(&format!("{}: {}; {}.", name(plan, cell), cell.modes_text(), cell.period_text())));
        lines.extend(cell.write_back_text(plan).map(|text| Line::new(&format!("  {text}."))));
        lines.extend(cell.cpu_wait_text().map(|text| Line::new(&format!("  {text}."))));
    }
    for (cell, limit) in cells.iter().filter_map(|cell| Some((cell, plan.limits[cell.experiment].as_ref()?))) {
        let word = if exceeded(&limit.0, cell).is_some() { "is beyond" } else { "keeps to" };
        lines.push(Line::new(&format!("{} {word} its limit, {}.", name(plan, cell), limit.1)));
    }
    for cell in cells {
        let mut notes: Vec<String> =
            cell.contexts.iter().flat_map(|context| WORDING.lines(context)).map(|note| note.text).collect();
        notes.dedup();
        lines.extend(notes.iter().map(|note| Line::new(&format!("{}: {note}", name(plan, cell)))));
    }
    lines.push(Line::default());
    let pictures: Vec<String> = pictures.iter().map(|path| path.display().to_string()).collect();
    lines.push(Line::new(&format!("Pictures: {}; traces: {}/*.lat.", pictures.join(", "), plan.output.display())));
    lines
}

fn table(plan: &Plan, cells: &[Cell]) -> Table {
    let right =
        ["requests", "rate", "throughput", "min"].into_iter().chain(QUANTILES.map(|(_, name)| name)).chain(["max"]);
    let titles = [("experiment", Align::Left), ("directory", Align::Left)].into_iter();
    let mut table = Table::new(titles.chain(right.map(|title| (title, Align::Right))));
    for cell in cells {
        let totals = cell.total.totals();
        let mut row = vec![
            cell.job.clone(),
            plan.directories[cell.directory].display().to_string(),
            format_count(totals.count),
            format_rate(cell.per_second(totals.count)),
            cell.throughput(),
        ];
        let bound = |at_least: bool, ns: u64| format!("{}{}", if at_least { ">=" } else { "" }, format_duration(ns));
        row.push(if totals.count > 0 { format_duration(totals.min) } else { "-".into() });
        row.extend(cell.quantiles().into_iter().map(|(raised, support)| {
            let vague = if support == Support::Enough { "" } else { "?" };
            format!("{}{vague}", bound(raised.at_least, raised.value))
        }));
        row.extend(cell.waiting.max(&cell.total).map(|max| bound(max.at_least, max.value)));
        table.push(row);
    }
    table
}

/// Everything in base units.
fn json(plan: &Plan, recorded: &Recorded, cells: &[Cell], files: [&[PathBuf]; 2]) -> Value {
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let cell = |cell: &Cell| {
        let totals = cell.total.totals();
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
        put("job", cell.job.clone().into());
        put("path", plan.directories[cell.directory].to_string_lossy().into());
        put("traces", paths(&cell.files).into());
        put("count", totals.count.into());
        put("rate_per_s", cell.per_second(totals.count).into());
        put("bytes_per_s", cell.per_second(cell.bytes).into());
        for key in ["unwritten_bytes", "unwritten_left_bytes", "device_written_bytes"] {
            cell.sum_of(key).into_iter().for_each(|bytes| put(key, bytes.into()));
        }
        if totals.count > 0 {
            put("min_ns", totals.min.into());
            put("mean_ns", totals.mean().into());
            for ((raised, _), (_, key)) in cell.quantiles().into_iter().zip(QUANTILES) {
                put(&format!("{}_ns", key.replace('.', "_")), raised.value.into());
            }
            let mut quantiles = cell.quantiles().into_iter().zip(QUANTILES).rev();
            let trusted = quantiles.find(|((_, support), _)| *support == Support::Enough);
            put("trusted_p", trusted.map(|(_, (quantile, _))| (quantile * 1e9).round() / 1e7).into());
        }
        put("max_ns", cell.waiting.max(&cell.total).map(|max| max.value).into());
        put("waiting", cell.waiting.count().into());
        put("oldest_ns", cell.waiting.oldest_ns().into());
        let modes = cell.modes.iter().map(
            |mode| json!({"peak_ns": mode.peak_ns, "low_ns": mode.low_ns, "high_ns": mode.high_ns, "share": mode.share}),
        );
        put("modes", modes.collect::<Vec<_>>().into());
        let period = cell.period.map(|found| {
            json!({"period_ns": found.period_ns, "correlation": found.correlation, "slow_ns": found.slow_ns, "slow": found.slow})
        });
        put("period", period.into());
        if let Some((threshold, text)) = &plan.limits[cell.experiment] {
            put("limit", text.clone().into());
            put("limit_exceeded", exceeded(threshold, cell).is_some().into());
        }
        Value::Object(object)
    };
    json!({
        "lab": plan.lab.name,
        "rounds": plan.lab.rounds,
        "interrupted": recorded.interrupted,
        "left_out": recorded.left_out,
        "results": cells.iter().map(cell).collect::<Vec<_>>(),
        "pictures": paths(files[0]),
        "comparisons": paths(files[1]),
    })
}
