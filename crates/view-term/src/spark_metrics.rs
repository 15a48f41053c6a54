//! What executors do now, a row for each in each interval: tasks, the parts of their run time, and memory.

use crate::{Align, Line, Room, Table};
use latscope_event::{format_count, format_size, format_strftime};
use latscope_series::{SparkExecutorNow, SparkMetric};
use latscope_view::json_text;
use std::fmt::Write;

/// Titles of the columns: parts of run time are cores that were busy with it.
const TITLES: [&str; 17] = [
    "time",
    "executor",
    "active",
    "ended",
    "run",
    "CPU",
    "GC",
    "fetch wait",
    "shuffle write",
    "heap",
    "JVM",
    "Python",
    "execution",
    "storage",
    "cgroup CPU",
    "throttled",
    "cgroup",
];
/// So many of the last columns are of control groups.
const GROUPS: usize = 3;

/// Rows that are printed as they come.
pub struct SparkMetricsTable {
    table: Table,
    has_heading: bool,
    has_groups: bool,
}

impl SparkMetricsTable {
    /// With columns of control groups, where these are sampled.
    pub fn new(has_groups: bool) -> SparkMetricsTable {
        let titles = &TITLES[..TITLES.len() - if has_groups { 0 } else { GROUPS }];
        let mut table = Table::new(titles.iter().map(|&title| (title, Align::Right)));
        // As wide as most values are, so that columns stay where they are.
        table
            .push(["00:00:00", "driver", "", "", "0.00", "0.00", "0.00", "", "", "1000MiB"].map(String::from).to_vec());
        table.take_lines(0);
        SparkMetricsTable { table, has_heading: false, has_groups }
    }
}

/// The local time of day.
fn time_of_day(at_s: i64) -> String {
    at_s.checked_mul(1_000_000_000).and_then(|ns| format_strftime(ns, "%H:%M:%S")).unwrap_or_default()
}

impl SparkMetricsTable {
    /// The rows of these executors, the first time below a heading, and of those that are gone since this second.
    pub fn lines(
        &mut self,
        executors: &[SparkExecutorNow],
        (gone, at_s): (&[SparkExecutorNow], i64),
        room: Room,
    ) -> Vec<Line> {
        for executor in executors {
            let cores = |metric| {
                let known = executor.get(metric).map(|_| executor.per_second(metric) / 1e9);
                known.map_or("-".into(), |cores| format!("{cores:.2}"))
            };
            let memory = |metrics: &[SparkMetric]| {
                let known: Vec<u64> = metrics.iter().filter_map(|&metric| executor.get(metric)).collect();
                if known.is_empty() { "-".into() } else { format_size(known.into_iter().sum()) }
            };
            let mut row = vec![
                time_of_day(executor.at_s),
                executor.executor.clone(),
                executor.get(SparkMetric::ActiveTasks).map_or("-".into(), format_count),
                executor
                    .get(SparkMetric::Tasks)
                    .map_or("-".into(), |_| format_count(executor.grown[SparkMetric::Tasks as usize])),
                cores(SparkMetric::Run),
                cores(SparkMetric::Cpu),
                cores(SparkMetric::Gc),
                cores(SparkMetric::FetchWait),
                cores(SparkMetric::ShuffleWrite),
                // No heap is empty: it was not sampled yet.
                executor.get(SparkMetric::Heap).filter(|heap| *heap > 0).map_or("-".into(), format_size),
                memory(&[SparkMetric::JvmRss]),
                memory(&[SparkMetric::PythonRss]),
                memory(&[SparkMetric::Execution, SparkMetric::OffHeapExecution]),
                memory(&[SparkMetric::Storage, SparkMetric::OffHeapStorage]),
            ];
            if self.has_groups {
                let group = executor.group.as_ref();
                let cores = |cores: Option<f64>| cores.map_or("-".into(), |cores| format!("{cores:.2}"));
                row.push(cores(group.and_then(|group| group.cpu)));
                row.push(cores(group.and_then(|group| group.throttled)));
                row.push(group.and_then(|group| group.memory).map_or("-".into(), format_size));
            }
            self.table.push(row);
        }
        for executor in gone {
            self.table.push([time_of_day(at_s), executor.executor.clone(), "gone".into()].to_vec());
        }
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.has_heading, true) {
            lines.push(self.table.heading(room.tables));
        }
        lines.extend(self.table.take_lines(room.tables));
        lines
    }
}

/// That a driver has not answered for so many seconds, as a row.
pub fn spark_silent(at_s: i64, silent_s: u64) -> Line {
    Line::new(&format!("{}  no answer for {silent_s}s", time_of_day(at_s)))
}

/// That a driver has not answered for so many seconds, as a line of JSON.
pub fn spark_silent_json(app: &str, at_s: i64, silent_s: u64) -> String {
    let app = if app.is_empty() { "null".into() } else { json_text(app) };
    format!("{{\"app\":{app},\"time_s\":{at_s},\"unanswered_s\":{silent_s}}}\n")
}

/// An executor that is gone since this second, as a line of JSON.
pub fn spark_gone_json(executor: &SparkExecutorNow, at_s: i64) -> String {
    let (app, name) = (json_text(&executor.app), json_text(&executor.executor));
    format!("{{\"app\":{app},\"executor\":{name},\"time_s\":{at_s},\"gone\":true}}\n")
}

/// An executor as a line of JSON: counters since its start, and by how much they grew in the interval; `null` was not sampled.
pub fn spark_metrics_json(executor: &SparkExecutorNow) -> String {
    let (app, name) = (json_text(&executor.app), json_text(&executor.executor));
    let mut json =
        format!("{{\"app\":{app},\"executor\":{name},\"time_s\":{},\"seconds\":{}", executor.at_s, executor.seconds);
    for metric in SparkMetric::ALL {
        let value = executor.get(metric).map_or("null".into(), |value| value.to_string());
        let _ = write!(json, ",\"{}\":{value}", metric.name());
        if metric.is_counter() {
            let grown = executor.get(metric).map(|_| executor.grown[metric as usize].to_string());
            let _ = write!(json, ",\"{}_grown\":{}", metric.name(), grown.unwrap_or_else(|| "null".into()));
        }
    }
    if let Some(group) = &executor.group {
        let cores = |cores: Option<f64>| cores.map_or("null".into(), |cores| format!("{cores:.6}"));
        let memory = group.memory.map_or("null".into(), |memory| memory.to_string());
        let _ = write!(
            json,
            ",\"cgroup\":{},\"cgroup_cpu\":{},\"cgroup_throttled\":{},\"cgroup_memory\":{memory}",
            json_text(&group.name),
            cores(group.cpu),
            cores(group.throttled)
        );
    }
    json + "}\n"
}
