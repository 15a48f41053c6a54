//! The report of a Spark application: counters, tasks against cores, long tails and stragglers, as text and as JSON.

use crate::{Align, Line, Room, Table};
use latscope_event::{Context, Field, format_count, format_duration, format_size};
use latscope_series::{ActiveTasks, SparkTasks, Straggler, TaskSums};
use latscope_view::json_text;
use std::fmt::Write;

/// How sparkMeasure calls a counter, and the field that it adds up. Times are milliseconds there.
const COUNTERS: [(&str, Field); 24] = [
    ("executorRunTime", Field::RunTime),
    ("executorCpuTime", Field::CpuTime),
    ("executorDeserializeTime", Field::Deserialize),
    ("executorDeserializeCpuTime", Field::DeserializeCpu),
    ("resultSerializationTime", Field::ResultSerialization),
    ("jvmGCTime", Field::GcTime),
    ("shuffleFetchWaitTime", Field::FetchWait),
    ("shuffleWriteTime", Field::ShuffleWrite),
    ("resultSize", Field::ResultSize),
    ("diskBytesSpilled", Field::DiskSpilled),
    ("memoryBytesSpilled", Field::Spilled),
    ("peakExecutionMemory", Field::PeakMemory),
    ("recordsRead", Field::InputRecords),
    ("bytesRead", Field::InputBytes),
    ("recordsWritten", Field::OutputRecords),
    ("bytesWritten", Field::OutputBytes),
    ("shuffleRecordsRead", Field::ShuffleRecords),
    ("shuffleLocalBlocksFetched", Field::LocalBlocks),
    ("shuffleRemoteBlocksFetched", Field::RemoteBlocks),
    ("shuffleLocalBytesRead", Field::ShuffleLocal),
    ("shuffleRemoteBytesRead", Field::ShuffleRemote),
    ("shuffleRemoteBytesReadToDisk", Field::ShuffleToDisk),
    ("shuffleBytesWritten", Field::ShuffleWritten),
    ("shuffleRecordsWritten", Field::ShuffleWrittenRecords),
];
/// A tail that costs less than this is not marked, core-nanoseconds.
const LEAST_TAIL: u128 = 1_000_000_000;

/// A report of an application.
pub struct SparkReport<'a> {
    tasks: &'a SparkTasks,
    context: &'a Context,
    active: Vec<ActiveTasks>,
}

/// What tasks and cores were at most, and what they add up to, in nanoseconds.
struct Load {
    tasks: u64,
    cores: u64,
    task_ns: u128,
    core_ns: u128,
    idle_ns: u128,
}

impl<'a> SparkReport<'a> {
    /// Of an application that was read to its end.
    pub fn new(tasks: &'a SparkTasks, context: &'a Context) -> SparkReport<'a> {
        SparkReport { tasks, context, active: tasks.active() }
    }

    fn load(&self) -> Load {
        let mut load = Load { tasks: 0, cores: 0, task_ns: 0, core_ns: 0, idle_ns: 0 };
        for (at, step) in self.active.iter().enumerate() {
            let end_ns = self.active.get(at + 1).map_or(step.start_ns, |next| next.start_ns);
            let width = u128::from(end_ns.abs_diff(step.start_ns));
            load.tasks = load.tasks.max(step.tasks);
            load.cores = load.cores.max(step.cores);
            load.task_ns += width * u128::from(step.tasks);
            load.core_ns += width * u128::from(step.cores);
            load.idle_ns += width * u128::from(step.cores.saturating_sub(step.tasks));
        }
        load
    }

    fn title(&self) -> String {
        let property = |key: &str| self.context.properties.get(key).map_or("-", String::as_str);
        format!("{}, Spark {}", property("spark.app.name"), property("spark.version"))
    }

    /// Where the time of the tasks went.
    fn parts(total: &TaskSums) -> [(&'static str, u64); 9] {
        [
            ("CPU", total.get(Field::CpuTime)),
            ("GC", total.get(Field::GcTime)),
            ("fetch wait", total.get(Field::FetchWait)),
            ("shuffle write", total.get(Field::ShuffleWrite)),
            ("remainder", total.remainder_ns()),
            ("deserialize", total.get(Field::Deserialize)),
            ("serialize result", total.get(Field::ResultSerialization)),
            ("get result", total.get(Field::GettingResult)),
            ("scheduler delay", total.scheduler_delay_ns()),
        ]
    }

    /// The report as text, with so many stages, tails and stragglers at most.
    pub fn lines(&self, most: usize, room: Room) -> Vec<Line> {
        let (total, load) = (self.tasks.total(), self.load());
        let mut lines = vec![Line::new(&self.title())];
        let failed = if total.failed > 0 { format!(" ({} failed)", format_count(total.failed)) } else { String::new() };
        let span = self.tasks.span_ns().unwrap_or_default();
        let width_ns = span.1.abs_diff(span.0);
        let mean = load.task_ns as f64 / width_ns.max(1) as f64;
        let (stages, tasks) = (self.tasks.stages.len() as u64, format_count(total.tasks));
        let wall = format_duration(width_ns);
        lines.push(Line::new(&format!("{} stages, {tasks} tasks{failed} in {wall}", format_count(stages))));
        lines.push(Line::new(&format!(
            "active tasks: {mean:.2} on average, {} at most, on {} cores",
            load.tasks, load.cores
        )));
        lines.push(Line::default());
        let mut table = Table::new([("task time", Align::Left), ("", Align::Right), ("share", Align::Right)]);
        for (name, ns) in Self::parts(&total) {
            let share = 100.0 * ns as f64 / total.task_ns.max(1) as f64;
            table.push(vec![name.into(), format_duration(ns), format!("{share:.1}%")]);
        }
        let idle = u64::try_from(load.idle_ns).unwrap_or(u64::MAX);
        let share = 100.0 * load.idle_ns as f64 / load.core_ns.max(1) as f64;
        table.push(vec!["idle cores".into(), format_duration(idle), format!("{share:.1}% of cores")]);
        lines.push(table.heading(room.tables));
        lines.extend(table.take_lines(room.tables));
        lines.push(Line::default());
        self.stage_lines(most, room, &mut lines);
        self.straggler_lines(most, room, &mut lines);
        lines
    }

    fn stage_lines(&self, most: usize, room: Room, lines: &mut Vec<Line>) {
        let titles =
            ["stage", "job", "tasks", "failed", "wall", "run", "CPU", "GC", "remainder", "read", "spilled", "tail"];
        let columns = titles.map(|title| (title, Align::Right)).into_iter().chain([("name", Align::Left)]);
        let mut table = Table::new(columns);
        let tails = self.tasks.tails(&self.active);
        let mut stages: Vec<_> = self.tasks.stages.iter().collect();
        stages.sort_by_key(|(id, stage)| (std::cmp::Reverse(stage.sums.task_ns), **id));
        for (id, stage) in stages.iter().take(most) {
            let sums = &stage.sums;
            let time = |field| format_duration(sums.get(field));
            let read = sums.get(Field::InputBytes) + sums.get(Field::ShuffleLocal) + sums.get(Field::ShuffleRemote);
            let tail = tails.get(id).map_or(0, |tail| tail.1);
            table.push(vec![
                stage_name(**id),
                stage.job.clone(),
                format_count(sums.tasks),
                if sums.failed > 0 { format_count(sums.failed) } else { String::new() },
                stage.span_ns.map_or(String::new(), |span| format_duration(span.1.abs_diff(span.0))),
                time(Field::RunTime),
                time(Field::CpuTime),
                time(Field::GcTime),
                format_duration(sums.remainder_ns()),
                format_size(read),
                if sums.get(Field::Spilled) > 0 { format_size(sums.get(Field::Spilled)) } else { String::new() },
                if tail >= LEAST_TAIL { format!("{:.1} core-s", tail as f64 / 1e9) } else { String::new() },
                stage.name.clone(),
            ]);
        }
        lines.push(table.heading(room.tables));
        lines.extend(table.take_lines(room.tables));
        if let Some(more) = stages.len().checked_sub(most).filter(|more| *more > 0) {
            lines.push(Line::new(&format!("{} more stages with less task time", format_count(more as u64))));
        }
    }

    fn straggler_lines(&self, most: usize, room: Room, lines: &mut Vec<Line>) {
        let stragglers = self.tasks.stragglers();
        if stragglers.is_empty() {
            return;
        }
        lines.push(Line::default());
        let columns = [("straggler", Align::Right), ("stage", Align::Right), ("executor", Align::Left)];
        let more = [("took", Align::Right), ("median", Align::Right), ("cause", Align::Left)];
        let mut table = Table::new(columns.into_iter().chain(more));
        for straggler in stragglers.iter().take(most) {
            let [took, median] = straggler.took_ns.map(format_duration);
            let (task, stage) = (format!("task {}", straggler.task), stage_name(straggler.stage));
            table.push(vec![task, stage, straggler.executor.clone(), took, median, cause(straggler)]);
        }
        lines.push(table.heading(room.tables));
        lines.extend(table.take_lines(room.tables));
        if let Some(more) = stragglers.len().checked_sub(most).filter(|more| *more > 0) {
            lines.push(Line::new(&format!("{} more stragglers", format_count(more as u64))));
        }
    }

    /// Everything as JSON: times in milliseconds where sparkMeasure has them so, else in nanoseconds.
    pub fn json(&self) -> String {
        let (total, load) = (self.tasks.total(), self.load());
        let tails = self.tasks.tails(&self.active);
        let wall = |stage: &latscope_series::SparkStage| stage.span_ns.map_or(0, |span| span.1.abs_diff(span.0));
        let spans = || self.tasks.stages.values().filter_map(|stage| stage.span_ns);
        let elapsed_ns = match (spans().map(|span| span.0).min(), spans().map(|span| span.1).max()) {
            (Some(start_ns), Some(end_ns)) => end_ns.abs_diff(start_ns),
            _ => 0,
        };
        let duration_ns: u64 = self.tasks.stages.values().map(wall).sum();
        // Writing to a String does not fail.
        let mut json = format!("{{\"application\":{}", json_text(&self.title()));
        let _ = write!(json, ",\"counters\":{{\"numStages\":{}", self.tasks.stages.len());
        let _ = write!(json, ",\"elapsedTime\":{},\"stageDuration\":{}", elapsed_ns / MS, duration_ns / MS);
        counters(&total, self.tasks.stages.values().map(|stage| &stage.sums), &mut json);
        let _ = write!(
            json,
            "}},\"failed_tasks\":{},\"remainder_ns\":{},\"scheduler_delay_ns\":{},\"active_tasks\":{{\"most\":{},\
             \"cores\":{},\"task_ns\":{},\"core_ns\":{},\"idle_ns\":{},\"steps\":[",
            total.failed,
            total.remainder_ns(),
            total.scheduler_delay_ns(),
            load.tasks,
            load.cores,
            load.task_ns,
            load.core_ns,
            load.idle_ns
        );
        for (at, step) in self.active.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(json, "{comma}[{},{},{}]", step.start_ns, step.tasks, step.cores);
        }
        json += "]},\"stages\":[";
        for (at, (id, stage)) in self.tasks.stages.iter().enumerate() {
            let _ = write!(json, "{}\n{{\"stage\":{},\"attempt\":{}", if at > 0 { "," } else { "" }, id.0, id.1);
            let sql = stage.sql.map_or("null".into(), |sql| sql.to_string());
            let _ =
                write!(json, ",\"name\":{},\"job\":{},\"sql\":{sql}", json_text(&stage.name), json_text(&stage.job));
            let (tail_start_ns, tail) = tails.get(id).copied().unwrap_or_default();
            let _ = write!(json, ",\"stageDuration\":{}", wall(stage) / MS);
            counters(&stage.sums, [&stage.sums].into_iter(), &mut json);
            let _ = write!(
                json,
                ",\"failed_tasks\":{},\"task_ns\":{},\"remainder_ns\":{},\"scheduler_delay_ns\":{},\"tail_start_ns\":\
                 {tail_start_ns},\"tail_core_ns\":{tail}}}",
                stage.sums.failed,
                stage.sums.task_ns,
                stage.sums.remainder_ns(),
                stage.sums.scheduler_delay_ns()
            );
        }
        json += "],\"stragglers\":[";
        for (at, straggler) in self.tasks.stragglers().iter().enumerate() {
            let _ = write!(
                json,
                "{}\n{{\"task\":{},\"stage\":{},\"attempt\":{},\"executor\":{},\"latency_ns\":{},\"median_ns\":{},\"cause\":{}}}",
                if at > 0 { "," } else { "" },
                straggler.task,
                straggler.stage.0,
                straggler.stage.1,
                json_text(&straggler.executor),
                straggler.took_ns[0],
                straggler.took_ns[1],
                json_text(&cause(straggler))
            );
        }
        json + "]}\n"
    }
}

const MS: u64 = 1_000_000;

/// The counters of sparkMeasure, which rounds times down to milliseconds for each stage before it adds them up.
fn counters<'a>(sums: &TaskSums, stages: impl Iterator<Item = &'a TaskSums> + Clone, json: &mut String) {
    let _ = write!(json, ",\"numTasks\":{}", sums.tasks);
    for (name, field) in COUNTERS {
        let value = match field.name().ends_with("_ns") {
            true => stages.clone().map(|stage| stage.get(field) / MS).sum(),
            false => sums.get(field),
        };
        let _ = write!(json, ",\"{name}\":{value}");
    }
    let blocks = sums.get(Field::LocalBlocks) + sums.get(Field::RemoteBlocks);
    let bytes = sums.get(Field::ShuffleLocal) + sums.get(Field::ShuffleRemote);
    let _ = write!(json, ",\"shuffleTotalBlocksFetched\":{blocks},\"shuffleTotalBytesRead\":{bytes}");
}

fn stage_name((stage, attempt): (i64, i64)) -> String {
    if attempt == 0 { stage.to_string() } else { format!("{stage}.{attempt}") }
}

/// Why a task took longer, as far as its numbers show it.
fn cause(straggler: &Straggler) -> String {
    let more = |ns: u64| format!("{} more", format_duration(ns));
    let part = straggler.part.map(|(field, ns)| match field {
        Field::CpuTime => format!("{} CPU time", more(ns)),
        Field::GcTime => format!("{} garbage collection", more(ns)),
        Field::FetchWait => format!("{} wait for shuffle data", more(ns)),
        Field::ShuffleWrite => format!("{} shuffle write", more(ns)),
        Field::Deserialize => format!("{} deserialization, as of the first tasks of an executor", more(ns)),
        Field::SchedulerDelay => format!("{} scheduler delay", more(ns)),
        Field::GettingResult => format!("{} fetch of its result", more(ns)),
        _ => format!("{} remainder: I/O, Python or waits for a CPU", more(ns)),
    });
    let part = part.unwrap_or_else(|| "its metrics are missing".into());
    match straggler.is_skewed {
        true => {
            let [own, median] = straggler.bytes.map(format_size);
            format!("data skew: {own}, median {median}; {part}")
        }
        false => part,
    }
}
