//! What the tasks of a Spark application waited for, as a table by stage and executor, and as JSON.

use crate::cell::wrap;
use crate::{Align, Line, Room, Table};
use latscope_event::{format_count, format_duration, format_size};
use latscope_series::{SparkTaskWaits, SparkWait, SparkWaitSums, waits_of_stages};
use latscope_view::json_text;
use std::fmt::Write;

/// Titles of what tasks waited for.
const WAITS: [&str; 9] = [
    "remainder",
    "disk",
    "run queue",
    "Python",
    "network",
    "other waits",
    "not recorded",
    "unexplained",
    "device reads",
];

/// What some tasks waited for, below [`WAITS`].
fn cells(sums: &SparkWaitSums) -> impl Iterator<Item = String> {
    let unless_none = |ns: u64| if ns > 0 { format_duration(ns) } else { String::new() };
    let unexplained = match sums.excess_ns() {
        0 => format_duration(sums.unexplained_ns()),
        excess => format!("-{}", format_duration(excess)),
    };
    let read = if sums.read_bytes > 0 { format_size(sums.read_bytes) } else { String::new() };
    let waits = sums.waits_ns.into_iter().chain([sums.unrecorded_ns]).map(unless_none);
    [format_duration(sums.remainder_ns)].into_iter().chain(waits).chain([unexplained, read])
}

/// The table: the stages with the most time that Spark does not explain first, so many rows at most. Below it those of the tasks that are
/// stragglers, by their numbers.
pub fn spark_wait_lines(
    tasks: &[SparkTaskWaits],
    stragglers: &[i64],
    unseen: &[String],
    most: usize,
    room: Room,
) -> Vec<Line> {
    let titles = |first: [&'static str; 3]| first.into_iter().chain(WAITS).map(|title| (title, Align::Right));
    let name =
        |(stage, attempt): (i64, i64)| if attempt == 0 { stage.to_string() } else { format!("{stage}.{attempt}") };
    let mut table = Table::new(titles(["stage", "executor", "tasks"]));
    let stages = waits_of_stages(tasks);
    let mut rows: Vec<_> = stages.iter().collect();
    rows.sort_by_key(|(id, sums)| (std::cmp::Reverse(sums.remainder_ns), **id));
    for ((stage, executor), sums) in rows.iter().take(most) {
        let first = [name(*stage), executor.to_string(), format_count(sums.tasks)];
        table.push(first.into_iter().chain(cells(sums)).collect());
    }
    let mut lines = vec![Line::default(), Line::new("The remainder by what the kernel saw")];
    lines.push(table.heading(room.tables));
    lines.extend(table.take_lines(room.tables));
    if rows.iter().take(most).any(|(_, sums)| sums.excess_ns() > 0) {
        let text = "Unexplained is below 0 where threads waited longer than the remainder: in time that Spark counts as GC, fetch \
            wait or shuffle write, or for another task that ran on the executor at the same time.";
        lines.extend(wrap(text, room.texts));
    }
    let outside: u64 = tasks.iter().map(|task| task.sums.unrecorded_tasks).sum();
    if outside > 0 {
        let text = format!(
            "{} of {} tasks ran while nothing was recorded of their executor, in whole or in part.",
            format_count(outside),
            format_count(tasks.len() as u64)
        );
        lines.extend(wrap(&text, room.texts));
    }
    if !unseen.is_empty() {
        let names = unseen.join(", ");
        lines.push(Line::new(&format!("No thread of executor {names} that runs tasks was recorded.")));
    }
    let found: Vec<_> =
        stragglers.iter().filter_map(|id| tasks.iter().find(|task| task.task == *id)).take(most).collect();
    if found.is_empty() {
        return lines;
    }
    let mut table = Table::new(titles(["straggler", "stage", "executor"]));
    for task in found {
        let first = [format!("task {}", task.task), name(task.stage), task.executor.clone()];
        table.push(first.into_iter().chain(cells(&task.sums)).collect());
    }
    lines.extend([Line::default(), Line::new("The stragglers by what the kernel saw"), table.heading(room.tables)]);
    lines.extend(table.take_lines(room.tables));
    lines
}

/// The same, and every task, as the value of a key.
pub fn spark_wait_json(tasks: &[SparkTaskWaits], unseen: &[String]) -> String {
    let sums = |sums: &SparkWaitSums| {
        let mut json = format!("\"remainder_ns\":{}", sums.remainder_ns);
        for wait in SparkWait::ALL {
            let _ = write!(json, ",\"{}_ns\":{}", wait.name(), sums.get(wait));
        }
        let _ = write!(json, ",\"unrecorded_ns\":{}", sums.unrecorded_ns);
        let _ = write!(json, ",\"unexplained_ns\":{},\"excess_ns\":{}", sums.unexplained_ns(), sums.excess_ns());
        let _ = write!(json, ",\"read_bytes\":{}", sums.read_bytes);
        json
    };
    let join = |items: Vec<String>| items.join(",\n");
    let stages = waits_of_stages(tasks);
    let stage = |(((stage, attempt), executor), of_stage): (&((i64, i64), &str), &SparkWaitSums)| {
        let executor = json_text(executor);
        let count = of_stage.tasks;
        format!(
            "{{\"stage\":{stage},\"attempt\":{attempt},\"executor\":{executor},\"tasks\":{count},{}}}",
            sums(of_stage)
        )
    };
    let task = |task: &SparkTaskWaits| {
        let ((stage, attempt), executor) = (task.stage, json_text(&task.executor));
        format!(
            "{{\"task\":{},\"stage\":{stage},\"attempt\":{attempt},\"executor\":{executor},{}}}",
            task.task,
            sums(&task.sums)
        )
    };
    let unseen: Vec<String> = unseen.iter().map(|executor| json_text(executor).to_string()).collect();
    format!(
        "{{\"stages\":[{}],\n\"tasks\":[{}],\n\"unseen_executors\":[{}]}}",
        join(stages.iter().map(stage).collect()),
        join(tasks.iter().map(task).collect()),
        unseen.join(",")
    )
}
