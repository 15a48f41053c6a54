//! The report of a Spark application as text and as JSON: what it is bound by, counters, tasks against cores, idle cores, long tails,
//! stragglers, memory, and other numbers of cores.

mod json;
mod usage;
mod words;

use crate::cell::wrap;
use crate::{Align, Line, Room, Table};
use latscope_event::{Context, Field, format_count, format_duration, format_elapsed, format_size};
use latscope_series::spark::{Analysis, Finding, IdleCause, SparkGroup, SparkTasks, TaskSums};
use words::{causes, stage_name, why_excluded};

/// A tail that costs less than this is not marked, core-nanoseconds.
const LEAST_TAIL: u128 = 1_000_000_000;

/// What rows of the table of counters stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SparkLevel {
    /// Attempts of stages.
    #[default]
    Stage,
    /// Jobs.
    Job,
    /// Executions of SQL.
    Sql,
}

/// A report of an application.
pub struct SparkReport<'a> {
    analysis: Analysis<'a>,
    context: &'a Context,
}

impl<'a> SparkReport<'a> {
    /// Of an application that was read to its end.
    pub fn new(tasks: &'a SparkTasks, context: &'a Context) -> SparkReport<'a> {
        SparkReport { analysis: Analysis::new(tasks, &context.properties), context }
    }

    fn title(&self) -> String {
        let property = |key: &str| self.context.properties.get(key).map_or("-", String::as_str);
        format!("{}, Spark {}", property("spark.app.name"), property("spark.version"))
    }

    /// The report as text, with so many rows of a table at most.
    pub fn lines(&self, by: SparkLevel, most: usize, room: Room) -> Vec<Line> {
        let mut text = Text { lines: vec![Line::new(&self.title())], most, room };
        self.summary(&mut text);
        self.findings(&mut text);
        self.time(&mut text);
        match by {
            SparkLevel::Stage => self.stages(&mut text),
            SparkLevel::Job => groups("job", &self.analysis.tasks.jobs(), &mut text),
            SparkLevel::Sql => groups("sql", &self.analysis.tasks.executions(), &mut text),
        }
        self.stragglers(&mut text);
        self.executors(&mut text);
        self.exclusions(&mut text);
        self.usage(&mut text);
        self.memory(&mut text);
        self.what_if(&mut text);
        text.lines
    }

    fn summary(&self, text: &mut Text) {
        let (total, load) = (&self.analysis.observed.sums, &self.analysis.load);
        let ends = [(total.failed, "failed"), (total.killed, "killed")].into_iter().filter(|(count, _)| *count > 0);
        let ends: Vec<String> = ends.map(|(count, what)| format!("{} {what}", format_count(count))).collect();
        let failed = if ends.is_empty() { String::new() } else { format!(" ({})", ends.join(", ")) };
        let span = self.analysis.tasks.span_ns().unwrap_or_default();
        let width_ns = span.1.abs_diff(span.0);
        let mean = load.task_ns as f64 / width_ns.max(1) as f64;
        let (stages, tasks) = (self.analysis.tasks.stages.len() as u64, format_count(total.tasks));
        let wall = format_duration(width_ns);
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let (of_stages, of_tasks) = (plural(stages), plural(total.tasks));
        text.push(&match total.tasks + self.analysis.tasks.running() {
            0 => format!("no task ran in {}", format_duration(self.analysis.wall_ns())),
            _ => format!("{} stage{of_stages}, {tasks} task{of_tasks}{failed} in {wall}", format_count(stages)),
        });
        let running = self.analysis.tasks.running();
        if running > 0 {
            text.push(&format!(
                "{} more task{} ran when the log ended; counters are without them",
                format_count(running),
                plural(running)
            ));
        }
        let tasks = self.analysis.tasks;
        if self.context.properties.contains_key(Context::SPARK_END) {
            text.push(match self.context.properties.contains_key(Context::SPARK_SOURCE) {
                true => "the application still runs",
                false => "the log has no end of the application: it still runs, or its driver was killed",
            });
        }
        let missing_ns: u64 = tasks.missing_ns.iter().map(|(start_ns, end_ns)| end_ns.abs_diff(*start_ns)).sum();
        if missing_ns > 0 {
            text.push(&format!(
                "events are missing for {}, as parts of the log are: what ran then, and what followed from it, is not known",
                format_duration(missing_ns)
            ));
        }
        for (job, waited_ns) in tasks.waiting_jobs().iter().take(3) {
            let name = if job.name.is_empty() { String::new() } else { format!(" ({})", job.name) };
            let (waited, waited_ns) =
                (if job.is_running { "has waited" } else { "waited" }, format_duration(*waited_ns));
            let never = if job.is_running { "" } else { ", and had none" };
            text.push(&format!("job {}{name} {waited} {waited_ns} for its first task{never}", job.id));
        }
        let unknown = tasks.unknown_executors();
        let cores = match load.cores {
            0 if !unknown.is_empty() => format!(
                "cores are not known, as the log lacks when executor{} {} {} added",
                plural(unknown.len() as u64),
                unknown
                    .iter()
                    .take(3)
                    .copied()
                    .chain((unknown.len() > 3).then_some("others"))
                    .collect::<Vec<_>>()
                    .join(", "),
                if unknown.len() == 1 { "was" } else { "were" }
            ),
            0 => "cores are not known".into(),
            cores => format!("on {cores} cores"),
        };
        let most = tasks.stages.values().map(|stage| stage.cpus).max().unwrap_or(1);
        let held = if most > 1 { format!(", of which a task holds {most}") } else { String::new() };
        text.push(&format!("active tasks: {mean:.2} on average, {} at most, {cores}{held}", load.tasks));
    }

    fn findings(&self, text: &mut Text) {
        let findings = self.analysis.observed.findings();
        text.lines.push(Line::default());
        if findings.is_empty() {
            text.push("verdict: nothing stands out");
        }
        for (at, finding) in findings.iter().enumerate() {
            let what = if at == 0 { "verdict" } else { "also" };
            let confidence = finding.confidence.word();
            text.push(&format!("{what}: {} ({confidence} confidence): {}", finding.verdict.word(), finding.evidence));
        }
        let stages = self.analysis.tasks.stages.iter();
        let failed: Vec<_> = stages.filter(|(_, stage)| stage.has_failed && !stage.reason.is_empty()).collect();
        for (id, stage) in failed.iter().take(text.most) {
            text.push(&format!("stage {} failed: {}", stage_name(**id), stage.reason));
        }
        text.more(failed.len(), "stages that failed");
    }

    fn time(&self, text: &mut Text) {
        let (total, load) = (&self.analysis.observed.sums, &self.analysis.load);
        let mut table = Table::new([("task time", Align::Left), ("", Align::Right), ("share", Align::Right)]);
        for (name, ns) in Self::parts(total) {
            let share = 100.0 * ns as f64 / total.task_ns.max(1) as f64;
            table.push(vec![name.into(), format_duration(ns), format!("{share:.1}%")]);
        }
        if total.unknown_ns > 0 {
            let share = 100.0 * total.unknown_ns as f64 / total.task_ns.max(1) as f64;
            table.push(vec!["without metrics".into(), format_duration(total.unknown_ns), format!("{share:.1}%")]);
        }
        let share = |ns: u128| format!("{:.1}% of cores", 100.0 * ns as f64 / load.core_ns.max(1) as f64);
        if load.cores > 0 {
            table.push(vec!["idle cores".into(), core_seconds(load.idle_ns), share(load.idle_ns)]);
        }
        text.table(table);
        let parts_ns = Self::parts(total).fold(total.unknown_ns, |sum, (_, ns)| sum.saturating_add(ns));
        let all = 100.0 * parts_ns as f64 / total.task_ns.max(1) as f64;
        if all >= 100.5 {
            let set_back_ns = total.set_back_ns();
            let why = match set_back_ns >= parts_ns.saturating_sub(total.task_ns) / 2 {
                true => format!(
                    "the clock of the driver was set back while tasks ran: they took {} longer than from their launch to their finish",
                    format_duration(set_back_ns)
                ),
                false => {
                    "they overlap: shuffle writes use CPU, and tasks that run together each count the GC of their JVM"
                        .into()
                }
            };
            text.push(&format!(
                "The parts add up to {all:.1}% of task time because {why}. Over time (picture, breakdown) they are scaled to the time \
                 of each task."
            ));
        }
        let mut table = Table::new([
            ("idle cores", Align::Left),
            ("wall", Align::Right),
            ("cost", Align::Right),
            ("", Align::Right),
        ]);
        let mut causes = self.analysis.idle.by_cause();
        let allocation = causes.remove(&IdleCause::Allocation);
        for (cause, (wall_ns, core_ns)) in causes {
            table.push(vec![cause.word().into(), format_duration(wall_ns), core_seconds(core_ns), share(core_ns)]);
        }
        if load.idle_ns > 0 {
            text.table(table);
        }
        if let Some((wall_ns, core_ns)) = allocation {
            text.push(&format!(
                "allocation: for {} tasks waited for {} that were not there; these are not among the idle cores",
                format_duration(wall_ns),
                core_seconds(core_ns)
            ));
        }
    }

    fn stages(&self, text: &mut Text) {
        let titles =
            ["stage", "job", "tasks", "failed", "wall", "run", "CPU", "GC", "remainder", "read", "spilled", "tail"];
        let columns = titles.map(|title| (title, Align::Right)).into_iter();
        let mut table = Table::new(columns.chain([("bound by", Align::Left), ("name", Align::Left)]));
        let mut stages: Vec<_> = self.analysis.tasks.stages.iter().collect();
        stages.sort_by_key(|(id, stage)| (std::cmp::Reverse(stage.sums.task_ns), **id));
        for (id, stage) in stages.iter().take(text.most) {
            let tail = self.analysis.tails.get(id).map_or(0, |tail| tail.core_ns);
            let mut row = vec![stage_name(**id), stage.job.clone()];
            row.extend(cells(&stage.sums, stage.wall_ns(), stage.is_bound()));
            row.push(if tail >= LEAST_TAIL { core_seconds(tail) } else { String::new() });
            let bound_by = |finding: &Finding| format!("{} ({})", finding.verdict.word(), finding.confidence.word());
            row.push(self.analysis.findings_in(stage).first().map_or(String::new(), bound_by));
            row.push(match stage {
                _ if stage.has_failed => format!("failed: {}", stage.name),
                _ if stage.is_running => format!("running: {}", stage.name),
                _ if stage.is_open() => format!("not ended: {}", stage.name),
                _ => stage.name.clone(),
            });
            table.push(row);
        }
        text.table(table);
        text.more(stages.len(), "stages with less task time");
    }

    fn stragglers(&self, text: &mut Text) {
        let stragglers = &self.analysis.stragglers;
        if stragglers.is_empty() {
            return;
        }
        let columns = [("straggler", Align::Right), ("stage", Align::Right), ("executor", Align::Left)];
        let more = [("took", Align::Right), ("median", Align::Right), ("cause", Align::Left)];
        let mut table = Table::new(columns.into_iter().chain(more));
        for straggler in stragglers.iter().take(text.most) {
            let [took, median] = straggler.took_ns.map(format_duration);
            let took = if straggler.is_running { format!(">={took}") } else { took };
            let (task, stage) = (format!("task {}", straggler.task), stage_name(straggler.stage));
            table.push(vec![task, stage, straggler.executor[0].clone(), took, median, causes(straggler)]);
        }
        text.table(table);
        text.more(stragglers.len(), "stragglers");
    }

    fn executors(&self, text: &mut Text) {
        let tasks = self.analysis.tasks;
        if tasks.executors.is_empty() {
            return;
        }
        let start_ns = tasks.extent_ns().map_or(0, |extent| extent.0);
        let columns =
            [("executor", Align::Left), ("host", Align::Left), ("cores", Align::Right), ("added", Align::Right)];
        let more = ["removed", "heap", "unified", "storage", "RSS", "Python"].map(|title| (title, Align::Right));
        let mut table = Table::new(columns.into_iter().chain(more).chain([("why removed", Align::Left)]));
        let peaks = tasks.peaks_by_executor();
        for executor in tasks.executors.iter().take(text.most) {
            let at = |ns: i64| format_elapsed(ns.abs_diff(start_ns), 1_000_000_000);
            let of = peaks.get(executor.id.as_str());
            // What was not sampled is not zero.
            let peak = |name: &str| of.and_then(|peaks| peaks.get(name)).map_or("-".into(), format_size);
            let removed = if executor.removed.is_empty() { String::new() } else { at(executor.span_ns.1) };
            table.push(vec![
                executor.id.clone(),
                executor.host.clone(),
                executor.cores.to_string(),
                at(executor.span_ns.0),
                removed,
                peak("JVMHeapMemory"),
                peak("OnHeapUnifiedMemory"),
                peak("OnHeapStorageMemory"),
                peak("ProcessTreeJVMRSSMemory"),
                peak("ProcessTreePythonRSSMemory"),
                executor.removed.clone(),
            ]);
        }
        text.table(table);
        text.more(tasks.executors.len(), "executors");
    }

    /// Executors and nodes that got no more tasks.
    fn exclusions(&self, text: &mut Text) {
        let tasks = self.analysis.tasks;
        if tasks.exclusions.is_empty() {
            return;
        }
        let start_ns = tasks.extent_ns().map_or(0, |extent| extent.0);
        let at = |ns: i64| format_elapsed(ns.abs_diff(start_ns), 1_000_000_000);
        let columns = [("excluded", Align::Left), ("host", Align::Left), ("for", Align::Left)];
        let more = [("at", Align::Right), ("until", Align::Right), ("why", Align::Left)];
        let mut table = Table::new(columns.into_iter().chain(more));
        for exclusion in tasks.exclusions.iter().take(text.most) {
            let what = match &*exclusion.executor {
                "" => "node".into(),
                executor => format!("executor {executor}"),
            };
            let whole = exclusion.stage.map_or("application".into(), |stage| format!("stage {}", stage_name(stage)));
            let until = if exclusion.ended.is_empty() { "end".into() } else { at(exclusion.span_ns.1) };
            table.push(vec![
                what,
                exclusion.host.clone(),
                whole,
                at(exclusion.span_ns.0),
                until,
                why_excluded(exclusion),
            ]);
        }
        text.table(table);
        text.more(tasks.exclusions.len(), "exclusions");
    }

    fn memory(&self, text: &mut Text) {
        let pool = &self.analysis.pool;
        text.lines.push(Line::default());
        if !pool.is_known {
            let reported = pool
                .reported
                .map_or(String::new(), |bytes| format!("; executors report a unified pool of {}", format_size(bytes)));
            let (why, more) = match self.context.properties.contains_key(Context::SPARK_SOURCE) {
                true => ("the server does not show", "; its event log has them"),
                false => ("the log lacks", ""),
            };
            text.push(&format!(
                "memory of an executor: not known, as {why} the settings of the application{reported}. Nothing is advised, and each \
                 task counts as holding one core{more}."
            ));
            return;
        }
        if self.context.properties.contains_key(Context::SPARK_SETTINGS) {
            text.push(
                "The log lacks the settings of the application. What follows takes the defaults of Spark, as executors report the \
                 unified pool that these give; other settings are not known.",
            );
        }
        let by_formula = format!("{} = (heap - 300 MiB) x {}", format_size(pool.unified), pool.fraction);
        let unified = match pool.reported.filter(|&reported| format_size(reported) != format_size(pool.unified)) {
            Some(reported) => format!("{} as executors reported it, not {by_formula}", format_size(reported)),
            None => by_formula,
        };
        text.push(&format!(
            "memory of an executor: heap {}, unified pool {unified}, overhead {}, {} in all",
            format_size(pool.heap),
            format_size(pool.overhead),
            format_size(pool.container())
        ));
        // What was not sampled has the same reason for several settings.
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for advice in &self.analysis.advice {
            let change = match &advice.advised {
                Some(advised) => format!("{} {} -> {advised}", advice.setting, advice.now),
                None if advice.why.starts_with("not sampled") => format!("{} {}", advice.setting, advice.now),
                None => format!("{} {}, keep", advice.setting, advice.now),
            };
            match reasons.iter_mut().find(|(why, _)| *why == advice.why) {
                Some((_, changes)) => changes.push(change),
                None => reasons.push((&advice.why, vec![change])),
            }
        }
        for (why, changes) in reasons {
            text.push(&format!("{}: {why}", changes.join("; ")));
        }
        for (profile, stages) in self.analysis.tasks.profiles() {
            let property = |name: &str| {
                let key = format!("{}{profile}.{name}", Context::SPARK_PROFILE);
                self.context.properties.get(&key).map_or("?", String::as_str)
            };
            text.push(&format!(
                "resource profile {profile} (executors of {} cores and {} of heap): {stages} stage{} ran with it; what is advised is for \
                 the others, and from their numbers alone",
                property("cores"),
                property("memory"),
                if stages == 1 { "" } else { "s" }
            ));
        }
    }

    fn what_if(&self, text: &mut Text) {
        let Some((as_it_was, others)) = self.analysis.simulated.split_first() else { return };
        let wall_ns = self.analysis.wall_ns();
        let off = 100.0 * (as_it_was.wall_ns as f64 / wall_ns.max(1) as f64 - 1.0);
        text.lines.push(Line::default());
        text.push(&format!(
            "with other numbers of cores (a model; for {} cores it gives {}, {off:+.1}% of the {} that it took):",
            as_it_was.cores,
            format_duration(as_it_was.wall_ns),
            format_duration(wall_ns)
        ));
        for run in others {
            let change = 100.0 * (run.wall_ns as f64 / as_it_was.wall_ns.max(1) as f64 - 1.0);
            text.push(&format!(
                "{} {}: {} ({change:+.1}%), busy {:.1}%",
                run.cores,
                if run.cores == 1 { "core" } else { "cores" },
                format_duration(run.wall_ns),
                100.0 * run.busy
            ));
        }
    }
}

/// Lines in the making.
struct Text {
    lines: Vec<Line>,
    most: usize,
    room: Room,
}

impl Text {
    fn push(&mut self, text: &str) {
        self.lines.extend(wrap(text, self.room.texts));
    }

    fn table(&mut self, mut table: Table) {
        self.lines.push(Line::default());
        self.lines.push(table.heading(self.room.tables));
        self.lines.extend(table.take_lines(self.room.tables));
    }

    fn more(&mut self, count: usize, what: &str) {
        if let Some(more) = count.checked_sub(self.most).filter(|more| *more > 0) {
            self.push(&format!("{} more {what}", format_count(more as u64)));
        }
    }
}

/// Counters of some tasks as cells; what has not ended took at least so long.
fn cells(sums: &TaskSums, wall_ns: u64, is_bound: bool) -> [String; 9] {
    let time = |field| format_duration(sums.get(field));
    let unless_none = |count: u64, text: String| if count > 0 { text } else { String::new() };
    [
        format_count(sums.tasks),
        unless_none(sums.failed, format_count(sums.failed)),
        format!("{}{}", if is_bound { ">=" } else { "" }, format_duration(wall_ns)),
        time(Field::RunTime),
        time(Field::CpuTime),
        time(Field::GcTime),
        format_duration(sums.remainder_ns()),
        format_size(sums.read_bytes()),
        unless_none(sums.get(Field::Spilled), format_size(sums.get(Field::Spilled))),
    ]
}

/// Jobs or executions of SQL.
fn groups(kind: &str, groups: &[SparkGroup], text: &mut Text) {
    let titles = [kind, "stages", "tasks", "failed", "wall", "run", "CPU", "GC", "remainder", "read", "spilled"];
    let mut table = Table::new(titles.map(|title| (title, Align::Right)).into_iter().chain([("name", Align::Left)]));
    let mut sorted: Vec<&SparkGroup> = groups.iter().collect();
    sorted.sort_by_key(|group| (std::cmp::Reverse(group.sums.task_ns), group.id));
    for group in sorted.iter().take(text.most) {
        let mut row = vec![group.id.to_string(), group.stages.len().to_string()];
        let wall_ns = group.span_ns.map_or(0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns));
        row.extend(cells(&group.sums, wall_ns, group.is_bound()));
        row.push(match group {
            _ if group.was_cancelled() => format!("cancelled: {}", group.name),
            _ if group.has_failed => format!("failed: {}", group.name),
            _ if group.is_running => format!("running: {}", group.name),
            _ if group.is_open => format!("not ended: {}", group.name),
            _ => group.name.clone(),
        });
        table.push(row);
    }
    text.table(table);
    text.more(groups.len(), &format!("{} with less task time", if kind == "job" { "jobs" } else { "executions" }));
}

fn core_seconds(ns: u128) -> String {
    format!("{:.1} core-s", ns as f64 / 1e9)
}
