//! What the tasks of a Spark application waited for, as a table by stage and executor, and as JSON.

use crate::cell::wrap;
use crate::{Align, Line, Room, Table};
use latscope_event::{format_count, format_duration, format_size};
use latscope_series::{SparkTaskWaits, SparkWait, SparkWaitSums, waits_of_stages};
use latscope_view::json_text;
use std::fmt::Write;

/// The table: the stages with the most time that Spark does not explain first, so many rows at most.
pub fn spark_wait_lines(tasks: &[SparkTaskWaits], unseen: &[String], most: usize, room: Room) -> Vec<Line> {
    let titles = ["stage", "executor", "tasks", "remainder", "disk", "run queue", "Python", "network", "other waits"];
    let columns =
        titles.into_iter().chain(["not recorded", "unexplained", "device reads"]).map(|title| (title, Align::Right));
    let mut table = Table::new(columns);
    let stages = waits_of_stages(tasks);
    let mut rows: Vec<_> = stages.iter().collect();
    rows.sort_by_key(|(id, sums)| (std::cmp::Reverse(sums.remainder_ns), **id));
    for (((stage, attempt), executor), sums) in rows.iter().take(most) {
        let stage = if *attempt == 0 { stage.to_string() } else { format!("{stage}.{attempt}") };
        let mut row = vec![stage, executor.to_string(), format_count(sums.tasks), format_duration(sums.remainder_ns)];
        row.extend(sums.waits_ns.map(|ns| if ns > 0 { format_duration(ns) } else { String::new() }));
        row.push(if sums.unrecorded_ns > 0 { format_duration(sums.unrecorded_ns) } else { String::new() });
        row.push(match sums.excess_ns() {
            0 => format_duration(sums.unexplained_ns()),
            excess => format!("-{}", format_duration(excess)),
        });
        row.push(if sums.read_bytes > 0 { format_size(sums.read_bytes) } else { String::new() });
        table.push(row);
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
