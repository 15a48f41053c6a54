//! The application as its log gives it: stages with their tasks, jobs, SQL executions, executors, and peaks of memory.

use super::memory::{Peaks, Settings};
use super::sums::{COUNTED_FIELDS, TIME_PARTS, TaskSums, value, was_killed};
use super::usage::Usages;
use crate::spark_waits::{SparkTaskWaits, SparkWaitSums};
use latscope_event::spark::MEMORY_METRICS;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_I64};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How near data are, the nearest first.
const LOCALITIES: [&str; 5] = ["PROCESS_LOCAL", "NODE_LOCAL", "NO_PREF", "RACK_LOCAL", "ANY"];

/// The property that has the exit code of the driver.
const EXIT_CODE: &str = "spark.app.exit_code";
/// An executor of more cores is a mistake of the log.
const MOST_CORES: u64 = 1 << 20;
/// A stage of more tasks is one, too.
const MOST_TASKS: u64 = 1 << 32;

/// A task that ended.
pub(super) struct Task {
    pub id: i64,
    /// Which task of its stage it is an attempt at: originals, retries and copies have the same.
    pub index: i64,
    pub start_ns: i64,
    pub end_ns: i64,
    pub executor: u32,
    /// A place in [`LOCALITIES`].
    pub locality: u8,
    /// Whether the log has its metrics.
    pub is_known: bool,
    /// Whether it failed, was killed, or has not ended.
    pub has_failed: bool,
    /// Whether it ran when the log ended; its end is then that of the log.
    pub is_running: bool,
    pub bytes: u64,
    pub records: u64,
    /// Peak of execution memory and what was spilled.
    pub memory: u64,
    pub spilled: u64,
    pub parts: [u64; TIME_PARTS.len()],
}

impl Task {
    /// How long it took, nanoseconds.
    pub fn took_ns(&self) -> u64 {
        self.end_ns.abs_diff(self.start_ns)
    }

    /// Whether it can say what is usual in its stage.
    pub fn is_usual(&self) -> bool {
        self.is_known && !self.has_failed
    }

    /// How near its data were.
    pub fn locality(&self) -> &'static str {
        LOCALITIES.get(usize::from(self.locality)).copied().unwrap_or("?")
    }
}

/// A stage, by its number and attempt.
#[derive(Default)]
pub struct SparkStage {
    /// Its name, a place in the program.
    pub name: String,
    /// Its job.
    pub job: String,
    /// Execution of SQL, if it belongs to one.
    pub sql: Option<i64>,
    /// Submission and completion; none of one that has not completed.
    pub span_ns: Option<(i64, i64)>,
    /// Submission of one of which the log lacks the end, and the end of the application.
    open_ns: Option<(i64, i64)>,
    /// How many tasks it has, launched or not; 0 where the log does not say.
    count: u64,
    /// Its resource profile; 0 is that of the settings.
    pub profile: i64,
    /// How many cores each of its tasks holds.
    pub cpus: u64,
    /// Whether workers in Python run a part of it.
    pub runs_python: bool,
    /// Whether it failed.
    pub has_failed: bool,
    /// Why it failed, as far as that is known.
    pub reason: String,
    /// Whether it ran when the log ended; its span ends then.
    pub is_running: bool,
    /// What its tasks that ended add up to.
    pub sums: TaskSums,
    /// How many tasks ran when the log ended.
    pub running: u64,
    /// What its tasks waited for, where the kernels of their hosts were recorded.
    pub(super) waits: Option<SparkWaitSums>,
    /// Why tasks failed, and how many did. Killed tasks do not count.
    pub errors: BTreeMap<String, u64>,
    pub(super) tasks: Vec<Task>,
}

impl SparkStage {
    /// Submission and completion, or what its tasks show of them, nanoseconds.
    pub fn extent_ns(&self) -> Option<(i64, i64)> {
        let (first, last) =
            (self.tasks.iter().map(|task| task.start_ns).min(), self.tasks.iter().map(|task| task.end_ns).max());
        let ends = [
            self.span_ns,
            first.zip(last),
            self.open_ns
                .map(|open| if self.unlaunched() > 0 || self.waits_for_retry() { open } else { (open.0, open.0) }),
        ];
        let ends = || ends.iter().flatten();
        Some((ends().map(|span| span.0).min()?, ends().map(|span| span.1).max()?))
    }

    /// Whether it has not done its work: it failed, or has no end.
    pub(super) fn is_undone(&self) -> bool {
        self.has_failed || self.is_running || self.open_ns.is_some()
    }

    /// Whether the log lacks its end, so that it took as long as is known, or longer.
    pub fn is_bound(&self) -> bool {
        self.is_running || self.is_open()
    }

    /// Whether the log of an application that has ended lacks its end.
    pub fn is_open(&self) -> bool {
        self.span_ns.is_none() && self.open_ns.is_some()
    }

    /// Whether all attempts of a task failed, and the next one has not come.
    fn waits_for_retry(&self) -> bool {
        self.is_undone() && self.attempts().iter().any(|attempts| attempts.iter().all(|task| task.has_failed))
    }

    /// How many of its tasks were never launched: they waited until it failed, or the log or the application ended. A stage that is
    /// complete launched all; the log may lack some.
    pub(super) fn unlaunched(&self) -> u64 {
        if self.is_undone() { self.count.min(MOST_TASKS).saturating_sub(self.attempts().len() as u64) } else { 0 }
    }

    /// Run time of its tasks by the cores that they held, core-nanoseconds.
    pub(super) fn held_run_ns(&self) -> u128 {
        u128::from(self.sums.get(Field::RunTime)) * u128::from(self.cpus)
    }

    /// Its tasks, each with its attempts in the order of their launch.
    pub(super) fn attempts(&self) -> Vec<Vec<&Task>> {
        let mut sorted: Vec<&Task> = self.tasks.iter().collect();
        sorted.sort_by_key(|task| (task.index, task.start_ns, task.id));
        sorted.chunk_by(|one, other| one.index == other.index).map(<[&Task]>::to_vec).collect()
    }

    /// How long it took from submission to completion, nanoseconds; of one that has not completed, what its tasks show of that.
    pub fn wall_ns(&self) -> u64 {
        self.span_ns.or_else(|| self.extent_ns()).map_or(0, |(start_ns, end_ns)| end_ns.abs_diff(start_ns))
    }
}

/// A job or an execution of SQL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparkGroup {
    /// Its number.
    pub id: i64,
    /// What it is called; empty where the log does not say.
    pub name: String,
    /// From start to end; of one that has not ended, what its stages show.
    pub span_ns: Option<(i64, i64)>,
    /// Whether it failed.
    pub has_failed: bool,
    /// Why it failed, as far as that is known.
    pub reason: String,
    /// Whether it ran when the log ended; its span ends then.
    pub is_running: bool,
    /// Whether the log of an application that has ended lacks its end; its span is then that of its stages, or of an execution until the
    /// end of the application if the log lacks nothing else.
    pub is_open: bool,
    /// What its tasks add up to.
    pub sums: TaskSums,
    /// Its stages.
    pub stages: Vec<(i64, i64)>,
}

impl SparkGroup {
    /// Whether it took as long as its span, or longer.
    pub fn is_bound(&self) -> bool {
        self.is_running || self.is_open
    }

    /// Whether it failed without a task that did, and without anybody who cancelled it, or ran when the driver stopped. Where Spark gives
    /// a stage up, for results that are too large for example, it kills the tasks that run.
    pub fn failed_in_driver(&self) -> bool {
        let was_given_up = || self.reason.contains("aborted due to stage failure");
        let is_of_driver = self.sums.failed == 0 && (self.sums.killed == 0 || was_given_up());
        self.has_failed && (is_of_driver && !self.was_cancelled() || self.was_shut_down())
    }

    /// Whether its user cancelled it, or a group that it belongs to, which is no error: Spark calls it `Job 3 cancelled ...`, since
    /// version 4 with a word before it.
    pub fn was_cancelled(&self) -> bool {
        let is_so = |text: &str| {
            let number = text.strip_prefix("Job ").unwrap_or_default();
            number.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with(" cancelled")
        };
        let has_words = self.reason.contains("[SPARK_JOB_CANCELLED]") || self.reason.split(": ").any(is_so);
        self.has_failed && has_words && !self.was_shut_down()
    }

    /// Whether it failed as the application was stopped in the middle of it.
    fn was_shut_down(&self) -> bool {
        self.reason.contains("SparkContext was shut down")
    }

    /// Whether the driver had no more memory for it.
    pub fn ran_out_of_driver(&self) -> bool {
        const WORDS: [&str; 2] = ["OutOfMemoryError", "Not enough memory to build and broadcast"];
        self.failed_in_driver() && WORDS.iter().any(|words| self.reason.contains(words))
    }
}

/// An executor.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkExecutor {
    /// Its identifier: a number, or `driver` in local mode.
    pub id: String,
    /// Its host.
    pub host: String,
    /// Its cores, of which a task holds one or more.
    pub cores: u64,
    /// Its resource profile; 0 is that of the settings.
    pub profile: i64,
    /// When it was added, and when it was removed or the log ended.
    pub span_ns: (i64, i64),
    /// Why it was removed; empty where it lived to the end.
    pub removed: String,
}

impl SparkExecutor {
    /// Whether it was lost, not given back.
    pub fn is_lost(&self) -> bool {
        const PLANNED: [&str; 5] =
            ["killed by driver", "idle", "ecommission", "explicit termination request", "Driver commanded"];
        !self.removed.is_empty() && !PLANNED.iter().any(|words| self.removed.contains(words))
    }

    /// Whether its container, or the machine, ran out of memory.
    pub fn was_killed_for_memory(&self) -> bool {
        const WORDS: [&str; 7] = [
            "exceeding memory limits",
            "exceeding physical memory",
            "beyond physical memory",
            "beyond the physical memory",
            "oomkilled",
            "code 137",
            "status 137",
        ];
        !self.was_killed_for_address_space() && self.was_lost_with(&WORDS)
    }

    /// Whether YARN killed its container for the address space that it had reserved, not for what it filled.
    pub fn was_killed_for_address_space(&self) -> bool {
        const WORDS: [&str; 3] = ["exceeding virtual memory", "beyond virtual memory", "beyond the virtual memory"];
        // What YARN says of physical memory has the virtual one, too.
        let is_only = self.was_lost_with(&["virtual memory used"]) && !self.was_lost_with(&["physical memory used"]);
        is_only || self.was_lost_with(&WORDS)
    }

    /// Whether its heap was exhausted: the exit code of Spark for that, unless the error says that it was another part of its memory.
    pub fn ran_out_of_heap(&self) -> bool {
        const OTHERS: [&str; 3] = ["metaspace", "native thread", "direct buffer memory"];
        self.was_lost_with(&["code 52", "status 52", "outofmemoryerror"]) && !self.was_lost_with(&OTHERS)
    }

    /// Whether it was lost, and the reason has any of these words in small letters, whatever is between quotation marks.
    pub(super) fn was_lost_with(&self, words: &[&str]) -> bool {
        let reason = self.removed.to_ascii_lowercase().replace('\'', "");
        self.is_lost() && words.iter().any(|words| reason.contains(words))
    }
}

/// An executor or a node that got no more tasks, as it had failed too often.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkExclusion {
    /// The executor; empty of a node.
    pub executor: String,
    /// The node, or the host of the executor, if the log has it.
    pub host: String,
    /// Of which stage; none of the whole application.
    pub stage: Option<(i64, i64)>,
    /// From when to when; until the log ended where nothing ended it.
    pub span_ns: (i64, i64),
    /// What ended it: `allowed again`, `stage ended`; empty if nothing did.
    pub ended: String,
    /// How many tasks had failed on the executor, or executors of the node had been excluded; none where the log does not say.
    pub failures: Option<u64>,
}

/// What the log has of an end.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Written,
    /// Nothing, as the log ended before it.
    Running,
    /// Nothing, though the application has ended.
    Missing,
    /// Nothing, as the application ended before it: the log lacks nothing else.
    Stopped,
}

/// An application in the making.
#[derive(Default)]
pub struct SparkTasks {
    /// Stages by number and attempt.
    pub stages: BTreeMap<(i64, i64), SparkStage>,
    /// Executors in the order in which the log ends them.
    pub executors: Vec<SparkExecutor>,
    /// Executors and nodes that were excluded, in the order in which that ended.
    pub exclusions: Vec<SparkExclusion>,
    /// What their control groups counted, where these were sampled.
    pub usage: Usages,
    /// Of which times parts of the log are missing, nanoseconds.
    pub missing_ns: Vec<(i64, i64)>,
    /// The exit code of the driver, where the log has it (Spark 4).
    pub exit_code: Option<i64>,
    /// From the start to the end of the application, nanoseconds; none where these are a part of its tasks.
    whole_ns: Option<(i64, i64)>,
    pub(super) is_part: bool,
    /// An attempt at a stage that ran when the log ended, has no tasks yet, and was left out therefore.
    begun: Option<(i64, i64)>,
    jobs: BTreeMap<i64, SparkGroup>,
    executions: BTreeMap<i64, SparkGroup>,
    peaks: BTreeMap<(u32, Option<(i64, i64)>), Peaks>,
    names: Vec<(String, String)>,
    codes: HashMap<String, u32>,
}

impl SparkTasks {
    /// The fields that [`SparkTasks::add`] reads.
    pub fn fields() -> FieldSet {
        let others = [Field::Kind, Field::Name, Field::Job, Field::Sql, Field::Stage, Field::StageAttempt, Field::Task];
        let more = [Field::Executor, Field::Host, Field::Cores, Field::Size, Field::Error, Field::Result, Field::Tags];
        let of_task = [Field::App, Field::TaskIndex, Field::Locality];
        COUNTED_FIELDS.union(FieldSet::ALWAYS).with(&others).with(&more).with(&of_task).with(&TIME_PARTS)
    }

    /// Adds a task, stage, job or execution that ran when the log ended, for as long as it did so.
    pub fn add_running(&mut self, batch: &Batch, row: usize) {
        self.add_row(batch, row, End::Running);
    }

    /// Adds a job or execution of which the log lacks the end, though it has that of the application. An execution has no job while the
    /// driver plans or collects; where the log `is_whole` otherwise, it went on until the application was stopped.
    pub fn add_open(&mut self, batch: &Batch, row: usize, is_whole: bool) {
        let is_execution = batch.text(Field::Kind, row) == Some("sql");
        self.add_row(batch, row, if is_whole && is_execution { End::Stopped } else { End::Missing });
    }

    /// Adds a row: a task, a stage, a job, an execution, an executor, or a peak of memory.
    pub fn add(&mut self, batch: &Batch, row: usize) {
        self.add_row(batch, row, End::Written);
    }

    fn add_row(&mut self, batch: &Batch, row: usize, end: End) {
        let start_ns = batch.time()[row];
        let span_ns = (start_ns, start_ns.saturating_add_unsigned(batch.latency()[row]));
        let number = |field| batch.i64s(field).map(|values| values[row]).filter(|&value| value != MISSING_I64);
        let text = |field| batch.text(field, row).unwrap_or_default();
        let stage = number(Field::Stage).map(|stage| (stage, number(Field::StageAttempt).unwrap_or(0)));
        let kind = text(Field::Kind);
        let (is_running, is_open) = (end == End::Running, matches!(end, End::Missing | End::Stopped));
        if is_open && !matches!(kind, "job" | "sql" | "stage") {
            return;
        }
        let tag = |key: &str| text(Field::Tags).split(';').find_map(|tag| tag.strip_prefix(key)).unwrap_or_default();
        let profile = tag("profile=").parse().unwrap_or(0);
        let group = |id: i64, name: &str| {
            let (has_failed, reason) = (batch.text(Field::Error, row).is_some(), tag("reason=").into());
            let (name, span_ns) = (name.into(), Some(if end == End::Missing { (start_ns, start_ns) } else { span_ns }));
            SparkGroup { id, name, span_ns, has_failed, is_running, is_open, reason, ..SparkGroup::default() }
        };
        match kind {
            "executor" => self.executors.push(SparkExecutor {
                id: text(Field::Executor).into(),
                host: text(Field::Host).into(),
                cores: number(Field::Cores).map_or(0, i64::unsigned_abs).min(MOST_CORES),
                profile,
                span_ns,
                removed: text(Field::Name).into(),
            }),
            "exclusion" => self.exclusions.push(SparkExclusion {
                executor: text(Field::Executor).into(),
                host: text(Field::Host).into(),
                stage,
                span_ns,
                ended: text(Field::Name).into(),
                failures: number(Field::Result).map(i64::unsigned_abs),
            }),
            "memory" => {
                let Some(metric) = MEMORY_METRICS.iter().position(|name| *name == text(Field::Name)) else { return };
                let executor = self.code(text(Field::Executor), "");
                let numbers = [Field::Size, Field::GcTime, Field::Result];
                let value = numbers.iter().find_map(|&field| value(batch, field, row)).unwrap_or(0);
                self.peaks.entry((executor, stage)).or_default().raise(metric, value);
            }
            "job" => {
                let Ok(id) = text(Field::Job).parse() else { return };
                self.jobs.insert(id, group(id, tag("description=")));
            }
            "sql" => {
                let Some(id) = number(Field::Sql) else { return };
                self.executions.insert(id, group(id, text(Field::Name)));
            }
            "task" | "stage" => {
                let executor = self.code(text(Field::Executor), text(Field::Host));
                let stage = self.stages.entry(stage.unwrap_or_default()).or_insert_with(|| SparkStage {
                    name: text(Field::Name).into(),
                    job: text(Field::Job).into(),
                    sql: number(Field::Sql),
                    profile,
                    cpus: 1,
                    runs_python: text(Field::Tags).split(';').any(|tag| tag == "python=true"),
                    ..SparkStage::default()
                });
                let error = batch.text(Field::Error, row);
                if kind == "stage" {
                    stage.count = number(Field::Result).map_or(0, i64::unsigned_abs);
                }
                if kind == "stage" && is_open {
                    stage.open_ns = Some(span_ns);
                    return;
                }
                if kind == "stage" {
                    (stage.span_ns, stage.has_failed, stage.is_running) = (Some(span_ns), error.is_some(), is_running);
                    stage.reason = tag("reason=").into();
                    return;
                }
                if let Some(error) = error.filter(|error| !was_killed(error)) {
                    *stage.errors.entry(error.into()).or_default() += 1;
                }
                if is_running {
                    stage.running += 1;
                } else {
                    stage.sums.add(batch, row);
                }
                let count = |field| value(batch, field, row).unwrap_or(0);
                stage.tasks.push(Task {
                    id: number(Field::Task).unwrap_or(0),
                    index: number(Field::TaskIndex).or_else(|| number(Field::Task)).unwrap_or(0),
                    start_ns,
                    end_ns: span_ns.1,
                    executor,
                    locality: LOCALITIES.iter().position(|word| *word == text(Field::Locality)).unwrap_or(4) as u8,
                    is_known: value(batch, Field::RunTime, row).is_some(),
                    has_failed: is_running || error.is_some(),
                    is_running,
                    bytes: count(Field::Size),
                    records: count(Field::InputRecords).saturating_add(count(Field::ShuffleRecords)),
                    memory: count(Field::PeakMemory).saturating_add(count(Field::Spilled)),
                    spilled: count(Field::Spilled),
                    parts: TIME_PARTS.map(count),
                });
            }
            _ => {}
        }
    }

    /// Takes what the properties of its log say of the cores that a task holds, those of its profile or of the settings, and of its end.
    pub fn set_properties(&mut self, properties: &BTreeMap<String, String>) {
        let settings = Settings(properties);
        self.exit_code = properties.get(EXIT_CODE).and_then(|code| code.parse().ok());
        let number = |name: &str| settings.get(name).and_then(|cpus| cpus.parse::<u64>().ok());
        let usual = number("spark.task.cpus");
        for stage in self.stages.values_mut() {
            let own = || number(&format!("{}{}.cpus", Context::SPARK_PROFILE, stage.profile));
            stage.cpus = if stage.profile == 0 { usual } else { own().or(usual) }.unwrap_or(1).clamp(1, MOST_CORES);
        }
    }

    /// Takes what tasks waited for, by what the kernels of their hosts saw.
    pub fn set_waits(&mut self, tasks: &[SparkTaskWaits]) {
        for task in tasks {
            let Some(stage) = self.stages.get_mut(&task.stage) else { continue };
            stage.waits.get_or_insert_default().merge(&task.sums);
        }
    }

    fn code(&mut self, executor: &str, host: &str) -> u32 {
        if let Some(&code) = self.codes.get(executor) {
            if self.names[code as usize].1.is_empty() {
                self.names[code as usize].1.push_str(host);
            }
            return code;
        }
        let code = self.names.len() as u32;
        self.names.push((executor.into(), host.into()));
        self.codes.insert(executor.into(), code);
        code
    }

    /// Identifier and host of an executor.
    pub(super) fn executor(&self, code: u32) -> (&str, &str) {
        self.names.get(code as usize).map_or(("", ""), |(executor, host)| (executor, host))
    }

    /// What all tasks add up to.
    pub fn total(&self) -> TaskSums {
        let mut total = TaskSums::default();
        self.stages.values().for_each(|stage| total.merge(&stage.sums));
        total
    }

    /// Run time of all tasks by the cores that they held, core-nanoseconds.
    pub(super) fn held_run_ns(&self) -> u128 {
        self.stages.values().map(SparkStage::held_run_ns).sum()
    }

    /// Whether any task has metrics, or all are still running. Without metrics, a sum of 0 means nothing.
    pub(super) fn has_metrics(&self) -> bool {
        self.tasks().all(|task| task.is_running) || self.tasks().any(|task| task.is_known)
    }

    /// How many tasks ran when the log ended.
    pub fn running(&self) -> u64 {
        self.stages.values().map(|stage| stage.running).sum()
    }

    /// A stage that runs, or will run again, though the job that it counts with has ended: jobs share stages, and one whose results are
    /// lost is computed again for a later job. Between the failure of an attempt and the start of the next, nothing of it runs.
    pub fn due_stage(&self) -> Option<(i64, i64)> {
        let is_last = |id: &(i64, i64)| self.stages.range(*id..=(id.0, i64::MAX)).nth(1).is_none();
        let failed_later = |stage: &SparkStage| {
            let job = stage.job.parse().ok().and_then(|id: i64| self.jobs.get(&id)).filter(|job| !job.is_bound());
            let job_ns = job.and_then(|job| job.span_ns).map(|span| span.1);
            stage.has_failed && stage.span_ns.is_some_and(|span| job_ns.is_none_or(|job_ns| job_ns < span.1))
        };
        let mut last = self.stages.iter().filter(|(id, _)| is_last(id));
        let found = last.find(|(_, stage)| stage.is_running || failed_later(stage)).map(|(id, _)| *id);
        found.or(self.begun)
    }

    pub(super) fn merge_peaks(&mut self, other: &SparkTasks) {
        for (&(executor, stage), peaks) in &other.peaks {
            let (executor, host) = other.executor(executor);
            let executor = self.code(executor, host);
            self.peaks.entry((executor, stage)).or_default().merge(peaks);
        }
    }

    /// The executors that there were between two moments, as if they had been only then.
    pub(super) fn executors_within(&self, (start_ns, end_ns): (i64, i64)) -> Vec<SparkExecutor> {
        let there = self.executors.iter().filter(|one| one.span_ns.0 < end_ns && one.span_ns.1 > start_ns);
        let within = |one: &SparkExecutor| (one.span_ns.0.max(start_ns), one.span_ns.1.min(end_ns));
        there.map(|one| SparkExecutor { span_ns: within(one), ..one.clone() }).collect()
    }

    /// Leaves out executors, and stages, jobs and executions without tasks.
    pub(super) fn keep_only_what_has_tasks(&mut self) {
        self.executors.clear();
        self.exclusions.clear();
        let has_tasks =
            |id: i64| self.stages.range((id, i64::MIN)..=(id, i64::MAX)).any(|(_, one)| !one.tasks.is_empty());
        let begun =
            self.stages.iter().find(|(id, stage)| stage.is_running && stage.tasks.is_empty() && has_tasks(id.0));
        self.begun = begun.map(|(id, _)| *id);
        self.stages.retain(|_, stage| !stage.tasks.is_empty());
        self.peaks.retain(|(_, stage), _| stage.is_none_or(|stage| self.stages.contains_key(&stage)));
        let jobs: BTreeSet<i64> = self.stages.values().filter_map(|stage| stage.job.parse().ok()).collect();
        let executions: BTreeSet<i64> = self.stages.values().filter_map(|stage| stage.sql).collect();
        self.jobs.retain(|id, _| jobs.contains(id));
        self.executions.retain(|id, _| executions.contains(id));
    }

    /// From the first launch to the last finish of a task.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        Some((self.tasks().map(|task| task.start_ns).min()?, self.tasks().map(|task| task.end_ns).max()?))
    }

    /// Takes from when to when the application ran, nanoseconds: it may wait long for its first executor or job. A part of its tasks has
    /// an extent of its own.
    pub fn set_whole(&mut self, span_ns: (i64, i64)) {
        self.whole_ns = Some(span_ns).filter(|_| !self.is_part);
    }

    /// Jobs that had no task when the log or the application ended, and how long they had waited for one, nanoseconds; also those that
    /// failed without one where no executor was there.
    pub fn waiting_jobs(&self) -> Vec<(SparkGroup, u64)> {
        let end_ns = self.extent_ns().map_or(0, |extent| extent.1);
        let ran_none = |id: &(i64, i64)| self.stages[id].tasks.is_empty();
        let jobs = self
            .jobs()
            .into_iter()
            .filter(|job| job.is_running || job.is_open || job.has_failed && self.executors.is_empty());
        let waited = |job: SparkGroup| {
            let (start_ns, own_end_ns) = job.span_ns?;
            let until_ns = if job.is_open { end_ns } else { own_end_ns };
            job.stages.iter().all(ran_none).then(|| (job, until_ns.abs_diff(start_ns)))
        };
        jobs.filter_map(waited).collect()
    }

    /// The exit code of the driver, unless it is that of success.
    pub fn failed_exit(&self) -> Option<i64> {
        self.exit_code.filter(|&code| code != 0)
    }

    /// Executors that ran tasks but whose `ExecutorAdded` is not in the log, which makes the cores of the application unknown. Empty if the
    /// log has no executor at all.
    pub fn unknown_executors(&self) -> Vec<&str> {
        let known: BTreeSet<&str> = self.executors.iter().map(|executor| &*executor.id).collect();
        let used: BTreeSet<u32> = self.tasks().map(|task| task.executor).collect();
        let used = used.into_iter().map(|code| self.executor(code).0);
        if known.is_empty() { Vec::new() } else { used.filter(|id| !known.contains(id)).collect() }
    }

    /// The executors whose cores are those of the application: all, or none where one is not known.
    pub(super) fn with_cores(&self) -> &[SparkExecutor] {
        if self.unknown_executors().is_empty() { &self.executors } else { &[] }
    }

    /// From the first to the last moment of anything that the log has a span of.
    pub fn extent_ns(&self) -> Option<(i64, i64)> {
        let mut spans = self.job_spans();
        spans.extend(self.executors.iter().map(|executor| executor.span_ns).chain(self.span_ns()).chain(self.whole_ns));
        Some((spans.iter().map(|span| span.0).min()?, spans.iter().map(|span| span.1).max()?))
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.stages.values().flat_map(|stage| &stage.tasks)
    }

    /// When jobs ran.
    pub(super) fn job_spans(&self) -> Vec<(i64, i64)> {
        self.jobs().into_iter().filter_map(|job| job.span_ns).collect()
    }

    /// Jobs with what their tasks add up to. A stage belongs to the first job that listed it.
    pub fn jobs(&self) -> Vec<SparkGroup> {
        self.groups(&self.jobs, |stage| stage.job.parse().ok())
    }

    /// Executions of SQL with what their tasks add up to.
    pub fn executions(&self) -> Vec<SparkGroup> {
        self.groups(&self.executions, |stage| stage.sql)
    }

    /// Executions of SQL and jobs that failed in the driver; of an execution that did, its jobs are left out.
    pub fn failed_in_driver(&self) -> Vec<(&'static str, SparkGroup)> {
        let executions: Vec<_> = self.executions().into_iter().filter(SparkGroup::failed_in_driver).collect();
        let of_execution = |job: &SparkGroup| {
            let mut stages = job.stages.iter().filter_map(|id| self.stages.get(id)?.sql);
            stages.any(|sql| executions.iter().any(|execution| execution.id == sql))
        };
        let jobs = self.jobs().into_iter().filter(|job| job.failed_in_driver() && !of_execution(job));
        let jobs: Vec<_> = jobs.map(|job| ("job", job)).collect();
        executions.into_iter().map(|execution| ("execution", execution)).chain(jobs).collect()
    }

    fn groups(&self, known: &BTreeMap<i64, SparkGroup>, of: impl Fn(&SparkStage) -> Option<i64>) -> Vec<SparkGroup> {
        let mut groups = known.clone();
        for (&id, stage) in &self.stages {
            let Some(group) = of(stage) else { continue };
            let group = groups.entry(group).or_insert_with(|| SparkGroup { id: group, ..SparkGroup::default() });
            group.sums.merge(&stage.sums);
            group.stages.push(id);
            if known.get(&group.id).is_none_or(|known| known.is_open) {
                let ends = [group.span_ns, stage.extent_ns()];
                let ends = || ends.iter().flatten();
                let (start_ns, end_ns) = (ends().map(|span| span.0).min(), ends().map(|span| span.1).max());
                group.span_ns = start_ns.zip(end_ns);
            }
        }
        groups.into_values().collect()
    }

    /// The stages that ran with what the settings say of executors, not with a resource profile of their own.
    pub(super) fn of_settings(&self) -> impl Iterator<Item = &SparkStage> {
        self.stages.values().filter(|stage| stage.profile == 0)
    }

    /// The resource profiles that stages had of their own, and how many had each.
    pub fn profiles(&self) -> BTreeMap<i64, u64> {
        let mut profiles = BTreeMap::new();
        let own = self.stages.values().filter(|stage| stage.profile != 0);
        own.for_each(|stage| *profiles.entry(stage.profile).or_default() += 1);
        profiles
    }

    /// Whether an executor has what the settings say, as far as that is known.
    pub(super) fn has_settings(&self, id: &str) -> bool {
        self.executors.iter().find(|executor| executor.id == id).is_none_or(|executor| executor.profile == 0)
    }

    /// The most that a task that spilled had in memory and spilled, bytes.
    pub(super) fn spilling(&self) -> u64 {
        let tasks = self.of_settings().flat_map(|stage| &stage.tasks);
        tasks.filter(|task| task.spilled > 0).map(|task| task.memory).max().unwrap_or(0)
    }

    /// Peaks of memory of each executor, over all stages.
    pub fn peaks_by_executor(&self) -> BTreeMap<&str, Peaks> {
        let mut peaks = BTreeMap::<&str, Peaks>::new();
        for (&(executor, _), of_stage) in &self.peaks {
            peaks.entry(self.executor(executor).0).or_default().merge(of_stage);
        }
        peaks
    }

    /// Peaks of memory by stage and executor.
    pub fn peaks_by_stage(&self) -> impl Iterator<Item = ((i64, i64), &str, &Peaks)> {
        self.peaks.iter().filter_map(|(&(executor, stage), peaks)| Some((stage?, self.executor(executor).0, peaks)))
    }
}

/// The median; of an even number of values, the mean of the two in the middle.
pub(super) fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    match values.len() {
        0 => 0,
        count => values[(count - 1) / 2].midpoint(values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_user_cancelled_has_not_failed_in_the_driver() {
        let job = |reason: &str, killed: u64| {
            let mut job = SparkGroup { has_failed: true, reason: reason.into(), ..SparkGroup::default() };
            job.sums.killed = killed;
            (job.was_cancelled(), job.failed_in_driver())
        };
        for words in [
            "Job 3 cancelled",
            "Job 12 cancelled part of cancelled job group a",
            "[SPARK_JOB_CANCELLED] Job 1 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA",
            "org.apache.spark.SparkException: Job 7 cancelled because killed via the Web UI",
        ] {
            assert_eq!([job(words, 0), job(words, 2)], [(true, false); 2], "{words}");
        }
        let stopped = "[SPARK_JOB_CANCELLED] Job 0 cancelled because SparkContext was shut down";
        assert_eq!(job(stopped, 2), (false, true));
        let too_large =
            "Job aborted due to stage failure: Total size of serialized results of 3 tasks is bigger than 1g";
        assert_eq!(job(too_large, 2), (false, true));
        assert_eq!(job("a.B: the order was cancelled", 0), (false, true));
    }
}
