//! What is going on in the application while its log is read, and the events that come of it.

mod end;

use super::FILLS;
use super::line::{
    BlockManagerAdded, Environment, Event, Exclusion, JobStart, Properties, ResourceProfileAdded, StageInfo, TaskEnd,
    TaskInfo,
};
use super::memory::{METRICS, Peaks, Sampled};
use super::numbers::{measured_ns, push_metrics};
use super::texts::{LONGEST_TEXT, described, essence, shortened};
use crate::text_rows::Rows;
use crate::{ReadOptions, Sink};
use hashbrown::HashMap;
use latscope_event::spark::{MEMORY_METRICS, SAMPLED_METRICS};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, LossRange, MISSING_CODE, MISSING_I64};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// So many stages, jobs, executions and executors are known at a time; beyond that, the oldest are forgotten.
const KNOWN: usize = 1 << 16;
/// So many tasks may run at a time.
const RUNNING: usize = 1 << 17;
/// Options of a JVM are kept so far.
const LONGEST_OPTIONS: usize = 2000;
/// Those that Spark adds to the options of every JVM by itself start with one of these.
const OWN_OPTIONS: [&str; 7] = [
    "--add-modules=jdk.incubator",
    "--add-opens=java.",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=",
    "-Djava.net.preferIPv6Addresses=",
    "-Djdk.reflect.useDirectMethodHandle=",
    "-XX:+IgnoreUnrecognizedVMOptions",
];

/// Settings that are kept start with one of these.
const SETTINGS: [&str; 13] = [
    "spark.driver.cores",
    "spark.driver.extraJavaOptions",
    "spark.driver.memory",
    "spark.dynamicAllocation.",
    "spark.eventLog.logStageExecutorMetrics",
    "spark.executor.",
    "spark.kubernetes.memoryOverheadFactor",
    "spark.master",
    "spark.memory.",
    "spark.python.worker.",
    "spark.speculation",
    "spark.sql.shuffle.partitions",
    "spark.task.cpus",
];
/// So many of them at most.
const MOST_SETTINGS: usize = 200;

/// Which tasks have ended is known of so many words of 64 tasks; the lowest numbers are forgotten.
const ENDED: usize = 1 << 16;

const NS_PER_MS: i64 = 1_000_000;
const NO_TIME: &str = "an impossible time";

/// What a stage, a job or an execution is, as codes of the batch.
#[derive(Clone, Copy, Debug)]
struct About {
    name: u32,
    job: u32,
    sql: i64,
    tags: u32,
    start_ns: Option<i64>,
}

const NOTHING: About =
    About { name: MISSING_CODE, job: MISSING_CODE, sql: MISSING_I64, tags: MISSING_CODE, start_ns: None };

struct Executor {
    host: u32,
    cores: i64,
    tags: u32,
    start_ns: i64,
}

/// What gets no more tasks, as codes of the batch: an executor, or a node where that is missing; of one stage or of the application.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    executor: u32,
    host: u32,
    stage: Option<(i64, i64)>,
}

#[derive(Clone)]
struct Running {
    start_ns: i64,
    stage: (i64, i64),
    index: i64,
    attempt: i64,
    executor: u32,
    host: u32,
    /// When its executor was removed. Its end may come later, or never.
    removed_ns: Option<i64>,
    /// Whether parts of the log are missing in which it may have ended.
    may_have_ended: bool,
    /// Whether another attempt did its work: Spark kills it then, and of one that does not die it writes no end.
    is_outdone: bool,
    speculative: bool,
}

/// An application in the middle of its log.
pub struct Session<'a, 'b> {
    rows: Rows<'a, 'b>,
    has_all: bool,
    app: u32,
    kinds: [u32; 7],
    stages: BTreeMap<(i64, i64), About>,
    /// Those that have not ended, and how many tasks they have.
    open_stages: BTreeMap<(i64, i64), i64>,
    /// Those that were completed, and how many tasks they have: of these, none ran on when the application ended.
    complete_stages: BTreeMap<(i64, i64), i64>,
    /// How many tasks of a stage the log names, each by its first attempt. It has something of each of these stages.
    first_attempts: BTreeMap<(i64, i64), i64>,
    job_of_stage: BTreeMap<i64, i64>,
    /// The stage that gives the result of each job that has not ended, and how many tasks it has.
    result_stages: BTreeMap<i64, (i64, i64)>,
    /// Those of jobs that succeeded: they ran, even if the log has nothing of them.
    due_stages: BTreeMap<i64, i64>,
    /// Jobs and executions that the log names, each with whether it has the start.
    named_jobs: BTreeMap<i64, bool>,
    named_executions: BTreeMap<i64, bool>,
    /// Whether a stage started of which no job is known.
    has_stray_stage: bool,
    jobs: BTreeMap<i64, About>,
    executions: BTreeMap<i64, About>,
    executors: BTreeMap<u32, Executor>,
    /// What is excluded: since when, nanoseconds, and how many failures were the reason.
    exclusions: BTreeMap<Place, (i64, i64)>,
    peaks: Peaks,
    running: HashMap<i64, Running>,
    /// How many of them are speculative copies.
    copies: usize,
    /// The tasks that have ended: a bit for each, by their number divided by 64.
    ended: BTreeMap<i64, u64>,
    /// How many tasks have ended.
    ended_tasks: u64,
    /// The highest number of a task.
    highest_task: i64,
    latest_ns: i64,
    /// Until when the log was whole, where parts are missing after it.
    gap_ns: Option<i64>,
    has_ended: bool,
    has_settings: bool,
    /// When the log says that it ended.
    end_ns: Option<i64>,
    text: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Kind {
    Task,
    Stage,
    Job,
    Sql,
    Executor,
    Memory,
    Exclusion,
}

/// A moment of the log in nanoseconds.
fn moment(ms: i64) -> Result<i64, &'static str> {
    if ms > 0 { ms.checked_mul(NS_PER_MS).ok_or(NO_TIME) } else { Err(NO_TIME) }
}

/// Keeps a map small: its first, which are the oldest, are forgotten.
fn bound<K: Ord, V>(map: &mut BTreeMap<K, V>) {
    if map.len() > KNOWN {
        map.pop_first();
    }
}

/// A text of the user as the value of a tag.
fn push_tag(tags: &mut Vec<u8>, key: &str, value: Option<&str>) {
    let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { return };
    if !tags.is_empty() {
        tags.push(b';');
    }
    tags.extend_from_slice(key.as_bytes());
    tags.push(b'=');
    let mut cut = String::new();
    cut.extend(value.chars().take(LONGEST_TEXT).map(|letter| match letter {
        ';' => ':',
        letter if letter.is_control() => ' ',
        letter => letter,
    }));
    tags.extend_from_slice(cut.as_bytes());
}

impl<'a, 'b> Session<'a, 'b> {
    /// Before the first line.
    pub fn new(file: &str, options: &ReadOptions, sink: &'a mut Sink<'b>) -> Session<'a, 'b> {
        let mut context = Context::new(format!("{}, {file}", Context::SPARK_LOG), Clock::wall());
        context.knows_unfinished = true;
        let mut rows = Rows::new(context, Batch::new(options.fields.intersection(FILLS)), sink);
        let kinds = ["task", "stage", "job", "sql", "executor", "memory", "exclusion"];
        let kinds = kinds.map(|kind| rows.batch.intern(Field::Kind, kind.as_bytes()));
        Session {
            rows,
            has_all: options.all_of_spark,
            app: MISSING_CODE,
            kinds,
            stages: BTreeMap::new(),
            open_stages: BTreeMap::new(),
            complete_stages: BTreeMap::new(),
            first_attempts: BTreeMap::new(),
            job_of_stage: BTreeMap::new(),
            result_stages: BTreeMap::new(),
            due_stages: BTreeMap::new(),
            named_jobs: BTreeMap::new(),
            named_executions: BTreeMap::new(),
            has_stray_stage: false,
            jobs: BTreeMap::new(),
            executions: BTreeMap::new(),
            executors: BTreeMap::new(),
            exclusions: BTreeMap::new(),
            peaks: Peaks::default(),
            running: HashMap::new(),
            copies: 0,
            ended: BTreeMap::new(),
            ended_tasks: 0,
            highest_task: -1,
            latest_ns: 0,
            gap_ns: None,
            has_ended: false,
            has_settings: false,
            end_ns: None,
            text: Vec::new(),
        }
    }

    /// Hands on what has come so far; `Break` when nobody wants more.
    pub fn hand_on(&mut self) -> ControlFlow<()> {
        self.rows.hand_on()
    }

    /// Counts a line that is no event.
    pub fn add_malformed(&mut self, number: u64, line: Result<&[u8], &'static str>, why: &'static str) {
        self.rows.add_malformed(number, line, why);
    }

    /// Counts a file that ends in the middle.
    pub fn add_cut(&mut self) {
        if self.cuts() == 0 {
            self.rows.context.tally.add(Anomaly::Truncated, 1);
        }
    }

    /// How many files, or lines at their ends, are cut so far.
    pub fn cuts(&self) -> u64 {
        self.rows.context.tally.get(Anomaly::Truncated)
    }

    /// Counts parts of the log that are not there.
    pub fn add_missing(&mut self, parts: u64) {
        if parts > 0 {
            self.rows.context.tally.add(Anomaly::MissingParts, parts);
        }
    }

    /// The application has ended, though the log lacks that: its last part is missing, if it is not cut.
    pub fn add_end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.add_missing(u64::from(self.cuts() == 0));
            self.running.values_mut().for_each(|running| running.may_have_ended = true);
        }
    }

    /// Parts of the log are missing here.
    pub fn start_gap(&mut self) {
        self.gap_ns = Some(self.latest_ns).filter(|&ns| ns > 0);
        self.running.values_mut().for_each(|running| running.may_have_ended = true);
    }

    /// What came so far was compacted: jobs that had finished before are not in it, and nobody knows when their tasks ran.
    pub fn end_compacted(&mut self) {
        let context = &mut self.rows.context;
        let start_ns = context.start_ns.or(context.span_ns.map(|span| span.0));
        let Some(start_ns) = start_ns.filter(|&start_ns| start_ns < self.latest_ns) else { return };
        context.loss_ranges.push(LossRange { start_ns, end_ns: self.latest_ns, cpu: None, records: 0 });
    }

    /// Takes the next event of the log; `Break` when nobody wants more rows.
    pub fn take(&mut self, event: Event) -> Result<ControlFlow<()>, &'static str> {
        let properties = &mut self.rows.context.properties;
        match event {
            Event::TaskEnd(task) => return self.task(&task),
            Event::TaskStart(task) => self.task_starts((task.stage, task.stage_attempt), &task.info)?,
            Event::StageSubmitted(stage) => {
                // Of so many stages, the jobs of the first are forgotten.
                let is_stray = !self.job_of_stage.contains_key(&stage.info.id);
                self.has_stray_stage |= is_stray && self.job_of_stage.len() < KNOWN;
                self.stage_starts(&stage.info, stage.properties.as_ref())?;
            }
            Event::StageCompleted(stage) => return self.stage(&stage.info),
            Event::JobStart(job) => self.job_starts(&job)?,
            Event::JobEnd(job) => {
                let has_failed = job.result.result != "JobSucceeded";
                // Of one that failed it counts that it did, even if the log lacks its start.
                let about = match self.jobs.remove(&job.id) {
                    None if has_failed => About {
                        job: self.rows.batch.intern(Field::Job, job.id.to_string().as_bytes()),
                        start_ns: job.at_ms.and_then(|ms| moment(ms).ok()),
                        ..NOTHING
                    },
                    known => known.unwrap_or(NOTHING),
                };
                self.named_jobs.entry(job.id).or_insert(false);
                bound(&mut self.named_jobs);
                let result_stage = self.result_stages.remove(&job.id);
                if !has_failed {
                    self.complete_stages_of(job.id);
                    self.due_stages.extend(result_stage);
                    bound(&mut self.due_stages);
                }
                let error = has_failed.then_some(&b"JobFailed"[..]);
                let message = job.result.exception.as_ref().and_then(|exception| exception.message.as_deref());
                let about = self.with_reason(about, message);
                return self.other_row(Kind::Job, &about, job.at_ms.map(moment).transpose()?, error, |_| {});
            }
            Event::SqlStart(start) => {
                let name = described(start.description.as_deref().unwrap_or_default());
                let name = self.rows.batch.intern(Field::Name, name.as_bytes());
                let about = About { name, sql: start.id, start_ns: Some(self.reach(start.at_ms)?), ..NOTHING };
                self.executions.insert(start.id, about);
                bound(&mut self.executions);
                self.named_executions.insert(start.id, true);
                bound(&mut self.named_executions);
            }
            Event::SqlEnd(end) => {
                let message = end.error.as_deref().filter(|error| !error.is_empty());
                if message.is_none() {
                    self.named_executions.entry(end.id).or_insert(false);
                    bound(&mut self.named_executions);
                }
                // One that fails before it runs may have no start in the log.
                let failed = || About { sql: end.id, start_ns: message.and(moment(end.at_ms).ok()), ..NOTHING };
                let about = self.executions.remove(&end.id).unwrap_or_else(failed);
                let about = self.with_reason(about, message);
                let error = message.map(|_| &b"SQLFailed"[..]);
                return self.other_row(Kind::Sql, &about, Some(moment(end.at_ms)?), error, |_| {});
            }
            Event::ExecutorAdded(added) => {
                let id = self.rows.batch.intern(Field::Executor, added.id.as_bytes());
                let host = self.rows.batch.intern(Field::Host, added.info.host.as_bytes());
                let profile = profile_tag(added.info.profile);
                let tags = profile.map_or(MISSING_CODE, |tag| self.rows.batch.intern(Field::Tags, tag.as_bytes()));
                let executor = Executor { host, cores: added.info.cores, tags, start_ns: self.reach(added.at_ms)? };
                self.executors.insert(id, executor);
                bound(&mut self.executors);
            }
            Event::ExecutorRemoved(removed) => {
                // Those that Spark stops after the application has ended lived to its end, whatever their exit code.
                let at_ns = moment(removed.at_ms)?;
                if self.end_ns.is_some_and(|end_ns| at_ns >= end_ns) {
                    return Ok(ControlFlow::Continue(()));
                }
                let id = self.rows.batch.intern(Field::Executor, removed.id.as_bytes());
                let reason = shortened(removed.reason.as_deref().unwrap_or_default());
                // One that died at its start was never added, and yet it is a sign of life.
                self.reach(removed.at_ms)?;
                let of_it = self.running.values_mut().filter(|running| running.executor == id);
                of_it.for_each(|running| running.removed_ns = Some(at_ns));
                return self.executor(id, at_ns, reason);
            }
            Event::Excluded(exclusion) => {
                let (place, at_ns) = (self.place(&exclusion), self.reach(exclusion.at_ms)?);
                let failures = exclusion.task_failures.or(exclusion.executor_failures).unwrap_or(MISSING_I64);
                // Spark tells the same under two names.
                self.exclusions.entry(place).or_insert((at_ns, failures));
                bound(&mut self.exclusions);
            }
            Event::Unexcluded(exclusion) => {
                let (place, at_ns) = (self.place(&exclusion), self.reach(exclusion.at_ms)?);
                return self.exclusions_end(at_ns, "allowed again", |one| *one == place);
            }
            Event::ApplicationStart(start) => {
                properties.insert("spark.app.name".into(), shortened(&start.name).into());
                self.rows.context.start_ns = Some(moment(start.at_ms)?);
                if let Some(id) = &start.id {
                    // Later attempts are applications of their own, called as their log is.
                    let attempt = start.attempt.as_deref().and_then(|attempt| attempt.parse::<u32>().ok());
                    let before = self.app;
                    self.app = match attempt.filter(|attempt| *attempt > 1) {
                        Some(attempt) => self.rows.batch.intern(Field::App, format!("{id}_{attempt}").as_bytes()),
                        None => self.rows.batch.intern(Field::App, id.as_bytes()),
                    };
                    // The tasks of another application are numbered from 0; a copy of a log repeats those that it has.
                    if self.app != before {
                        self.count_lost_events();
                        self.forget_numbers();
                    }
                }
                self.reach(start.at_ms)?;
            }
            Event::ApplicationEnd(end) => {
                if let Some(code) = end.exit_code {
                    properties.insert("spark.app.exit_code".into(), code.to_string());
                }
                let end_ns = self.reach(end.at_ms)?;
                let context = &mut self.rows.context;
                context.tally.add(
                    Anomaly::NegativeLatency,
                    u64::from(context.start_ns.is_some_and(|start_ns| end_ns < start_ns)),
                );
                self.end_ns = Some(end_ns);
                self.has_ended = true;
            }
            Event::Now(now) => drop(self.reach(now.at_ms)?),
            Event::Forgotten(forgotten) => {
                self.add_missing(forgotten.parts);
                self.rows.context.tally.add(Anomaly::LostTasks, forgotten.tasks);
                for task in &forgotten.running {
                    self.running.remove(task);
                }
            }
            Event::LogStart(start) => {
                if let Some(source) = &start.source {
                    properties.insert(Context::SPARK_SOURCE.into(), shortened(source).into());
                }
                properties.insert("spark.version".into(), shortened(&start.version).into());
            }
            Event::Environment(environment) => self.environment(environment),
            Event::ResourceProfileAdded(profile) => self.profile(&profile),
            Event::BlockManagerAdded(added) => return self.pool(&added),
            Event::StageExecutorMetrics(metrics) => {
                let executor = self.rows.batch.intern(Field::Executor, metrics.executor.as_bytes());
                match metrics.stage {
                    Some(stage) => self.peaks.add((stage, metrics.stage_attempt), executor, &metrics.peaks),
                    None => return self.peak_rows(None, &NOTHING, None, executor, &metrics.peaks),
                }
            }
            Event::Other => {}
            Event::Unknown => self.rows.context.tally.add(Anomaly::UnknownRecords, 1),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Before another application, which counts its tasks, stages and jobs for itself.
    fn forget_numbers(&mut self) {
        self.ended.clear();
        (self.ended_tasks, self.highest_task) = (0, -1);
        self.complete_stages.clear();
        self.first_attempts.clear();
        self.result_stages.clear();
        self.due_stages.clear();
        self.named_jobs.clear();
        self.named_executions.clear();
        (self.has_stray_stage, self.end_ns) = (false, None);
    }

    /// A moment that the log has reached.
    fn reach(&mut self, ms: i64) -> Result<i64, &'static str> {
        let at_ns = moment(ms)?;
        if let Some(start_ns) = self.gap_ns.take_if(|start_ns| at_ns > *start_ns) {
            let range = LossRange { start_ns, end_ns: at_ns, cpu: None, records: 0 };
            let ranges = &mut self.rows.context.loss_ranges;
            if ranges.len() < Context::LOSS_RANGES_KEPT {
                ranges.push(range);
            }
        }
        self.rows.context.cover(at_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
        Ok(at_ns)
    }

    /// What properties say of a job, or of a stage of it.
    fn about(
        &mut self,
        said: Option<&Properties>,
        job: Option<i64>,
        at_ms: Option<i64>,
        stage: Option<&StageInfo>,
    ) -> Result<About, &'static str> {
        let start_ns = at_ms.map(|ms| self.reach(ms)).transpose()?;
        let mut about = About { start_ns, ..NOTHING };
        if let Some(job) = job {
            about.job = self.rows.batch.intern(Field::Job, job.to_string().as_bytes());
        }
        self.text.clear();
        push_tag(&mut self.text, "python", stage.is_some_and(StageInfo::runs_python).then_some("true"));
        if let Some(tag) = stage.and_then(|stage| profile_tag(stage.profile)) {
            push_tag(&mut self.text, "profile", tag.strip_prefix("profile="));
        }
        if let Some(said) = said {
            about.sql = said.sql.as_deref().and_then(|id| id.parse().ok()).unwrap_or(MISSING_I64);
            push_tag(&mut self.text, "group", said.group.as_deref());
            push_tag(&mut self.text, "description", said.description.as_deref().map(described).as_deref());
        }
        if !self.text.is_empty() {
            about.tags = self.rows.batch.intern(Field::Tags, &self.text);
        }
        Ok(about)
    }

    /// With why it failed as the last tag. It is the driver's failure where no task of it is to blame.
    fn with_reason(&mut self, about: About, message: Option<&str>) -> About {
        let Some(message) = message.filter(|_| self.has_all) else { return about };
        self.text.clear();
        let tags = self.rows.batch.dictionary(Field::Tags).text(about.tags);
        self.text.extend_from_slice(tags.unwrap_or_default().as_bytes());
        push_tag(&mut self.text, "reason", Some(essence(message)));
        About { tags: self.rows.batch.intern(Field::Tags, &self.text), ..about }
    }

    fn job_starts(&mut self, job: &JobStart) -> Result<(), &'static str> {
        let about = self.about(job.properties.as_ref(), Some(job.id), job.at_ms, None)?;
        for &stage in &job.stages {
            // A stage that was computed before is listed again, though it does not run again.
            self.job_of_stage.entry(stage).or_insert(job.id);
            bound(&mut self.job_of_stage);
        }
        self.jobs.insert(job.id, about);
        bound(&mut self.jobs);
        self.named_jobs.insert(job.id, true);
        bound(&mut self.named_jobs);
        self.result_stages.extend(job.result_stage().map(|stage| (job.id, stage)));
        bound(&mut self.result_stages);
        Ok(())
    }

    fn stage_starts(&mut self, info: &StageInfo, said: Option<&Properties>) -> Result<(), &'static str> {
        let job = self.job_of_stage.get(&info.id).copied();
        let mut about = self.about(said, job, info.submission_ms, Some(info))?;
        about.name = self.rows.batch.intern(Field::Name, shortened(&info.name).as_bytes());
        self.stages.insert((info.id, info.attempt), about);
        self.open_stages.insert((info.id, info.attempt), info.tasks);
        self.first_attempts.entry((info.id, info.attempt)).or_default();
        bound(&mut self.open_stages);
        bound(&mut self.first_attempts);
        bound(&mut self.stages);
        Ok(())
    }

    /// The job has succeeded, so its stages were complete, even if the log lacks their ends. Of one that was tried again, late tasks
    /// of the attempt before may have done the work.
    fn complete_stages_of(&mut self, job: i64) {
        let is_of_job = |id: &(i64, i64)| id.1 == 0 && self.job_of_stage.get(&id.0) == Some(&job);
        let open = self.open_stages.iter().filter(|(id, _)| is_of_job(id));
        self.complete_stages.extend(open.map(|(id, tasks)| (*id, *tasks)));
        bound(&mut self.complete_stages);
    }

    /// A stage that ended. It stays known, as tasks of it may end later.
    fn stage(&mut self, info: &StageInfo) -> Result<ControlFlow<()>, &'static str> {
        let id = (info.id, info.attempt);
        if !self.stages.contains_key(&id) {
            self.stage_starts(info, None)?;
        }
        self.open_stages.remove(&id);
        if info.failure.is_none() {
            self.complete_stages.insert(id, info.tasks);
            bound(&mut self.complete_stages);
        }
        let mut about = self.stages.get(&id).copied().unwrap_or(NOTHING);
        if let Some(ms) = info.submission_ms {
            about.start_ns = Some(moment(ms)?);
        }
        let error = info.failure.is_some().then_some(&b"StageFailed"[..]);
        let about = self.with_reason(about, info.failure.as_deref());
        let end_ns = info.completion_ms.map(moment).transpose()?;
        if self.memory(Some(id), end_ns)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if self.exclusions_end(end_ns.unwrap_or(self.latest_ns), "stage ended", |one| one.stage == Some(id))?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let tasks = self.known_count(info.tasks);
        self.other_row(Kind::Stage, &about, end_ns, error, |batch| {
            batch.push_i64(Field::Stage, id.0);
            batch.push_i64(Field::StageAttempt, id.1);
            batch.push_i64(Field::Result, tasks);
        })
    }

    /// How many tasks a stage has; where parts of the log are missing, nobody knows which of them were launched.
    fn known_count(&self, tasks: i64) -> i64 {
        if self.rows.context.tally.get(Anomaly::MissingParts) > 0 { MISSING_I64 } else { tasks }
    }

    /// Hands on peaks of a stage, or of all stages: a row for each executor and metric that was sampled.
    fn memory(&mut self, stage: Option<(i64, i64)>, end_ns: Option<i64>) -> Result<ControlFlow<()>, &'static str> {
        while let Some((id, executor, sampled)) = self.peaks.take(stage) {
            let stage = self.stages.get(&id).copied().unwrap_or(NOTHING);
            let flow = self.peak_rows(Some(id), &stage, end_ns, executor, &sampled)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A row for each metric of an executor that was sampled, in a stage or since its start.
    fn peak_rows(
        &mut self,
        stage: Option<(i64, i64)>,
        about: &About,
        end_ns: Option<i64>,
        executor: u32,
        sampled: &Sampled,
    ) -> Result<ControlFlow<()>, &'static str> {
        let (start_ns, end_ns) = (about.start_ns.or(Some(self.latest_ns)), end_ns.or(Some(self.latest_ns)));
        for (name, value) in METRICS.iter().zip(sampled.0).filter(|(_, value)| *value > 0) {
            let about = About { name: self.rows.batch.intern(Field::Name, name.as_bytes()), start_ns, ..*about };
            let flow = self.other_row(Kind::Memory, &about, end_ns, None, |batch| {
                batch.push_code(Field::Executor, executor);
                if let Some((stage, attempt)) = stage {
                    batch.push_i64(Field::Stage, stage);
                    batch.push_i64(Field::StageAttempt, attempt);
                }
                match () {
                    () if name.ends_with("Time") => batch.push_u64(Field::GcTime, value.saturating_mul(1_000_000)),
                    () if name.ends_with("Count") => {
                        batch.push_i64(Field::Result, i64::try_from(value).unwrap_or(i64::MAX));
                    }
                    () => batch.push_u64(Field::Size, value),
                }
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The room for execution and storage that an executor has.
    fn pool(&mut self, added: &BlockManagerAdded) -> Result<ControlFlow<()>, &'static str> {
        let at_ns = self.reach(added.at_ms)?;
        let executor = self.rows.batch.intern(Field::Executor, added.id.executor.as_bytes());
        let areas = [added.most_on_heap.unwrap_or(added.most), added.most_off_heap.unwrap_or(0)];
        for (name, bytes) in MEMORY_METRICS[SAMPLED_METRICS..].iter().zip(areas).filter(|(_, bytes)| *bytes > 0) {
            let name = self.rows.batch.intern(Field::Name, name.as_bytes());
            let about = About { name, start_ns: Some(at_ns), ..NOTHING };
            let flow = self.other_row(Kind::Memory, &about, Some(at_ns), None, |batch| {
                batch.push_code(Field::Executor, executor);
                batch.push_u64(Field::Size, bytes.unsigned_abs());
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Keeps the settings that decide about cores and memory.
    fn environment(&mut self, environment: Environment) {
        self.has_settings = true;
        let properties = &mut self.rows.context.properties;
        for (name, value) in environment.settings {
            let is_kept = SETTINGS.iter().any(|start| name.starts_with(start)) && name != "spark.executor.id";
            if is_kept && properties.len() < MOST_SETTINGS {
                let value = match name.ends_with(".extraJavaOptions") {
                    true => own_options(&value),
                    false => shortened(&value).into(),
                };
                properties.insert(shortened(&name).into(), value);
            }
        }
    }

    /// Keeps what executors and tasks of a profile have. That of the settings has what these say.
    fn profile(&mut self, profile: &ResourceProfileAdded) {
        let properties = &mut self.rows.context.properties;
        let requests =
            [("cpus", &profile.task, ""), ("cores", &profile.executor, ""), ("memory", &profile.executor, "m")];
        for (name, requests, unit) in requests {
            let amount = requests.get(name).filter(|_| profile.id > 0 && properties.len() < MOST_SETTINGS);
            if let Some(amount) = amount {
                let key = format!("{}{}.{name}", Context::SPARK_PROFILE, profile.id);
                properties.insert(key, format!("{}{unit}", amount.amount.ceil()));
            }
        }
    }

    fn executor(&mut self, id: u32, end_ns: i64, reason: &str) -> Result<ControlFlow<()>, &'static str> {
        let Some(executor) = self.executors.remove(&id) else { return Ok(ControlFlow::Continue(())) };
        let name = self.rows.batch.intern(Field::Name, reason.as_bytes());
        let about = About { start_ns: Some(executor.start_ns), name, tags: executor.tags, ..NOTHING };
        self.other_row(Kind::Executor, &about, Some(end_ns), None, |batch| {
            batch.push_code(Field::Executor, id);
            batch.push_code(Field::Host, executor.host);
            batch.push_i64(Field::Cores, executor.cores);
        })
    }

    fn place(&mut self, exclusion: &Exclusion) -> Place {
        let stage = exclusion.stage_id.map(|stage| (stage, exclusion.stage_attempt_id));
        let executor = exclusion.executor_id.as_deref();
        let executor = executor.map_or(MISSING_CODE, |id| self.rows.batch.intern(Field::Executor, id.as_bytes()));
        let of_executor = self.executors.get(&executor).map_or(MISSING_CODE, |executor| executor.host);
        let host = exclusion.host_id.as_deref();
        let host = host.map_or(of_executor, |host| self.rows.batch.intern(Field::Host, host.as_bytes()));
        Place { executor, host, stage }
    }

    /// Rows of exclusions that end now, and why they do.
    fn exclusions_end(
        &mut self,
        end_ns: i64,
        why: &str,
        ends: impl Fn(&Place) -> bool,
    ) -> Result<ControlFlow<()>, &'static str> {
        let ended: Vec<(Place, (i64, i64))> =
            self.exclusions.iter().filter(|(place, _)| ends(place)).map(|(place, since)| (*place, *since)).collect();
        self.exclusions.retain(|place, _| !ends(place));
        for (place, (start_ns, failures)) in ended {
            let of_stage = place.stage.and_then(|stage| self.stages.get(&stage)).copied().unwrap_or(NOTHING);
            let name = self.rows.batch.intern(Field::Name, why.as_bytes());
            let about = About { start_ns: Some(start_ns), name, ..of_stage };
            // A stage may be complete before the listener is told.
            let flow = self.other_row(Kind::Exclusion, &about, Some(end_ns.max(start_ns)), None, |batch| {
                batch.push_code(Field::Executor, place.executor);
                batch.push_code(Field::Host, place.host);
                batch.push_i64(Field::Result, failures);
                if let Some((stage, attempt)) = place.stage {
                    batch.push_i64(Field::Stage, stage);
                    batch.push_i64(Field::StageAttempt, attempt);
                }
            })?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// A row of something that is no task, if these are asked for and its start and end are known.
    fn other_row(
        &mut self,
        kind: Kind,
        about: &About,
        end_ns: Option<i64>,
        error: Option<&[u8]>,
        more: impl FnOnce(&mut Batch),
    ) -> Result<ControlFlow<()>, &'static str> {
        let (Some(start_ns), Some(end_ns)) = (about.start_ns, end_ns) else { return Ok(ControlFlow::Continue(())) };
        self.rows.context.cover(end_ns);
        self.latest_ns = self.latest_ns.max(end_ns);
        if !self.has_all {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.row(kind, about, (start_ns, end_ns), error, more))
    }

    /// A row from start to end, whatever is asked for.
    fn row(
        &mut self,
        kind: Kind,
        about: &About,
        (start_ns, end_ns): (i64, i64),
        error: Option<&[u8]>,
        more: impl FnOnce(&mut Batch),
    ) -> ControlFlow<()> {
        let Ok(latency_ns) = u64::try_from(end_ns - start_ns) else {
            self.rows.context.tally.add(Anomaly::NegativeLatency, 1);
            return ControlFlow::Continue(());
        };
        let batch = &mut self.rows.batch;
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Kind, self.kinds[kind as usize]);
        batch.push_code(Field::App, self.app);
        push_about(batch, about);
        batch.push_text(Field::Error, error);
        more(batch);
        self.rows.end_row()
    }

    fn task_starts(&mut self, stage: (i64, i64), info: &TaskInfo) -> Result<(), &'static str> {
        let start_ns = self.reach(info.launch_ms)?;
        // Of a log that is out of order: its end has the launch, too.
        if self.has_ended_task(info.id) {
            return Ok(());
        }
        if self.running.len() >= RUNNING {
            self.rows.context.tally.add(Anomaly::EvictedInFlight, 1);
            return Ok(());
        }
        let executor = self.rows.batch.intern(Field::Executor, info.executor.as_bytes());
        let host = self.rows.batch.intern(Field::Host, info.host.as_bytes());
        let (index, attempt) = (info.index, info.attempt);
        let (removed_ns, may_have_ended, is_outdone, speculative) = (None, false, false, info.speculative);
        let running = Running {
            start_ns,
            stage,
            index,
            attempt,
            executor,
            host,
            removed_ns,
            may_have_ended,
            is_outdone,
            speculative,
        };
        if self.running.insert(info.id, running).is_none() {
            self.copies += usize::from(speculative);
            self.name_task(stage, info);
        }
        Ok(())
    }

    /// Takes note of a task that the log names for the first time.
    fn name_task(&mut self, stage: (i64, i64), info: &TaskInfo) {
        self.highest_task = self.highest_task.max(info.id);
        *self.first_attempts.entry(stage).or_default() += i64::from(info.attempt == 0);
        bound(&mut self.first_attempts);
    }

    fn has_ended_task(&self, id: i64) -> bool {
        self.ended.get(&id.div_euclid(64)).is_some_and(|ended| ended & 1 << id.rem_euclid(64) != 0)
    }

    /// Whether this is the first end of a task that the log has. Spark reports a task once more when the executor that holds its
    /// results is lost, and parts of a log may overlap.
    fn ends_first(&mut self, id: i64) -> bool {
        let (word, bit) = (id.div_euclid(64), 1 << id.rem_euclid(64));
        let ended = self.ended.entry(word).or_default();
        let is_first = *ended & bit == 0;
        *ended |= bit;
        self.ended_tasks += u64::from(is_first);
        if self.ended.len() > ENDED {
            self.ended.pop_first();
        }
        is_first
    }

    /// Marks the other attempt where this one was, or had, a speculative copy.
    fn outdo(&mut self, task: &TaskEnd, was_copy: bool) {
        let (stage, info) = ((task.stage, task.stage_attempt), &task.info);
        if was_copy || info.speculative || self.copies > 0 {
            let same = |running: &&mut Running| running.stage == stage && running.index == info.index;
            self.running.values_mut().filter(same).for_each(|running| running.is_outdone = true);
        }
    }

    /// A task that ended, however it did.
    fn task(&mut self, task: &TaskEnd) -> Result<ControlFlow<()>, &'static str> {
        let info = &task.info;
        if task.metrics.as_ref().is_some_and(|metrics| !metrics.is_possible()) {
            return Err("an impossible metric");
        }
        let started = self.running.remove(&info.id);
        let was_copy = started.as_ref().is_some_and(|running| running.speculative);
        self.copies = self.copies.saturating_sub(usize::from(was_copy));
        if !self.ends_first(info.id) {
            self.rows.context.tally.add(Anomaly::RepeatedTasks, 1);
            return Ok(ControlFlow::Continue(()));
        }
        if started.is_none() {
            self.name_task((task.stage, task.stage_attempt), info);
        }
        let (end_ns, start_ns) = (self.reach(info.finish_ms)?, self.reach(info.launch_ms)?);
        let context = &mut self.rows.context;
        let (passed, measured_ns) = (u64::try_from(end_ns - start_ns), task.metrics.as_ref().and_then(measured_ns));
        let latency_ns = match (passed, measured_ns) {
            (Ok(latency_ns), _) => latency_ns,
            // The clock of the driver was set back; that of the executor counts on.
            (Err(_), Some(measured_ns)) => {
                context.tally.add(Anomaly::SetBack, 1);
                context.cover(start_ns.saturating_add_unsigned(measured_ns));
                measured_ns
            }
            (Err(_), None) => {
                context.tally.add(Anomaly::NegativeLatency, 1);
                return Ok(ControlFlow::Continue(()));
            }
        };
        let about = self.stages.get(&(task.stage, task.stage_attempt)).copied().unwrap_or(NOTHING);
        if self.has_all {
            let executor = self.rows.batch.intern(Field::Executor, info.executor.as_bytes());
            self.peaks.add((task.stage, task.stage_attempt), executor, &task.peaks);
        }
        let error = match task.reason.word() {
            "Success" if info.killed => Some("TaskKilled"),
            "Success" if info.failed => Some("Failed"),
            "Success" => None,
            reason => Some(reason),
        };
        if error.is_none() {
            self.outdo(task, was_copy);
        }
        let batch = &mut self.rows.batch;
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Kind, self.kinds[Kind::Task as usize]);
        batch.push_code(Field::App, self.app);
        push_about(batch, &about);
        batch.push_text(Field::Error, error.map(str::as_bytes));
        batch.push_i64(Field::Stage, task.stage);
        batch.push_i64(Field::StageAttempt, task.stage_attempt);
        batch.push_i64(Field::Task, info.id);
        batch.push_i64(Field::TaskIndex, info.index);
        batch.push_i64(Field::Attempt, info.attempt);
        batch.push_text(Field::Executor, Some(info.executor.as_bytes()));
        batch.push_text(Field::Host, Some(info.host.as_bytes()));
        batch.push_text(Field::Locality, Some(info.locality.as_bytes()));
        batch.push_text(Field::Speculative, Some(if info.speculative { b"true" } else { b"false" }));
        if let Some(metrics) = &task.metrics {
            push_metrics(batch, metrics, latency_ns, info);
        }
        Ok(self.rows.end_row())
    }
}

/// The tag of a resource profile; that of the settings has none.
fn profile_tag(profile: i64) -> Option<String> {
    (profile > 0).then(|| format!("profile={profile}"))
}

/// The options of a JVM without those that Spark adds by itself.
fn own_options(options: &str) -> String {
    let own = options.split_whitespace().filter(|option| !OWN_OPTIONS.iter().any(|start| option.starts_with(start)));
    let mut text = own.collect::<Vec<_>>().join(" ");
    let end = text.char_indices().nth(LONGEST_OPTIONS).map(|(at, _)| at);
    end.into_iter().for_each(|end| text.truncate(end));
    text
}

fn push_about(batch: &mut Batch, about: &About) {
    batch.push_code(Field::Name, about.name);
    batch.push_code(Field::Job, about.job);
    batch.push_i64(Field::Sql, about.sql);
    batch.push_code(Field::Tags, about.tags);
}
