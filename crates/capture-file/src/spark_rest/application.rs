//! What is known of an application, and what is asked next: its executors, jobs that are new or run, their stages, and the pages of
//! tasks that may have changed.

use super::answers::{self, Environment, Execution, Executor, Job, Line, Stage, Task};
use super::server::{Failure, Server};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks that are asked for at a time.
const PAGE: usize = 500;
/// Most pages of a stage.
const PAGES: usize = 4000;
/// So many new jobs or executions are asked for one by one; more come in a list.
const ONE_BY_ONE: usize = 16;
/// After so many turns all jobs and executions are listed, in case the driver left out a number.
const LIST_AGAIN: u64 = 30;
/// So many stages of a job are asked for in a turn.
const STAGES: usize = 256;
/// So many jobs does a driver keep by default (`spark.ui.retainedJobs`).
const RETAINED_JOBS: u64 = 1000;
/// So many executors, jobs, executions and stages are known; beyond that, the oldest are forgotten.
const KNOWN: usize = 1 << 16;

/// An application, as far as it was asked. A turn that fails is taken back, so that the next one asks for the same again.
#[derive(Clone)]
pub struct Application {
    id: String,
    turn: u64,
    has_started: bool,
    /// Until when it is known to run, milliseconds.
    now_ms: i64,
    executors: BTreeMap<String, Seen>,
    jobs: Numbered<Job>,
    executions: Numbered<Execution>,
    sql_of_job: BTreeMap<i64, i64>,
    /// Properties of the stages of a job.
    properties: BTreeMap<i64, Value>,
    job_of_stage: BTreeMap<i64, i64>,
    /// Stages that ran in the last turn before their job was listed.
    early: BTreeSet<i64>,
    /// By stage and attempt.
    stages: BTreeMap<(i64, i64), Known>,
    /// Why the last attempt at a stage failed, if it did.
    failures: BTreeMap<i64, String>,
    /// And jobs, by their stages.
    reasons: BTreeMap<i64, String>,
    lines: Vec<Line>,
}

/// What was put in words of an executor.
#[derive(Default, Clone)]
struct Seen {
    is_removed: bool,
    peaks: Option<Value>,
}

/// What was put in words of a stage.
#[derive(Default, Clone)]
struct Known {
    has_ended: bool,
    /// Tasks of one that is complete or has failed may run on: it has not ended then.
    is_complete: bool,
    has_failed: bool,
    ended_ms: Option<i64>,
    /// By page: whether all of its tasks have ended.
    pages: Vec<bool>,
    running: BTreeSet<i64>,
    ended: BTreeSet<i64>,
    /// Those whose results were lost after they had ended: the driver counts two ends of each.
    resubmitted: BTreeSet<i64>,
}

/// Jobs or executions, which have successive numbers.
#[derive(Clone)]
pub struct Numbered<T> {
    /// The lowest number that was not seen.
    next: i64,
    /// Those that run, as they were last seen.
    pub open: BTreeMap<i64, T>,
    /// So many of them does the driver keep.
    retained: u64,
    /// How many it had forgotten before it was asked.
    forgotten: u64,
}

/// What is asked of executions, all and one, without their plans.
pub const EXECUTIONS: [&str; 2] =
    ["sql?details=false&planDescription=false&offset=0&length=100000", "sql/ID?details=false&planDescription=false"];
/// And of jobs.
pub const JOBS: [&str; 2] = ["jobs", "jobs/ID"];

fn bound<K: Ord, V>(map: &mut BTreeMap<K, V>) {
    while map.len() > KNOWN {
        map.pop_first();
    }
}

impl<T: serde::de::DeserializeOwned> Numbered<T> {
    pub fn new() -> Numbered<T> {
        Numbered { next: 0, open: BTreeMap::new(), retained: RETAINED_JOBS, forgotten: 0 }
    }

    /// Those that are new, and those that ran and may have changed; of each its number.
    ///
    /// # Errors
    /// A sentence, when the server does not answer as Spark does.
    pub fn ask(
        &mut self,
        server: &Server,
        turn: u64,
        [list, one]: [&str; 2],
        number: fn(&T) -> i64,
    ) -> Result<Vec<T>, Failure> {
        let path = |id: i64| format!("/{}", one.replace("ID", &id.to_string()));
        let mut found = Vec::new();
        for id in std::mem::take(&mut self.open).into_keys() {
            found.extend(server.ask::<T>(&path(id))?.filter(|one| number(one) == id));
        }
        if !turn.is_multiple_of(LIST_AGAIN) {
            for _ in 0..ONE_BY_ONE {
                let Some(new) = server.ask::<T>(&path(self.next))?.filter(|one| number(one) == self.next) else {
                    return Ok(found);
                };
                found.push(new);
                self.next = self.next.saturating_add(1);
            }
        }
        let all: Vec<T> = server.ask(&format!("/{list}"))?.unwrap_or_default();
        let listed = all.len() as u64;
        let mut new: Vec<T> = all.into_iter().filter(|one| number(one) >= self.next).collect();
        new.sort_by_key(number);
        let last = new.last().map_or(self.next, |last| number(last).saturating_add(1));
        // It drops a tenth at a time. Of fewer than it keeps, one without a number failed before it began.
        if listed >= self.retained - self.retained / 5 {
            self.forgotten += last.abs_diff(self.next).saturating_sub(new.len() as u64);
        }
        self.next = new.last().map_or(self.next, |last| number(last).saturating_add(1));
        found.append(&mut new);
        Ok(found)
    }
}

impl Application {
    /// Before anything was asked.
    pub fn new(id: String) -> Application {
        Application {
            id,
            turn: 0,
            has_started: false,
            now_ms: 0,
            executors: BTreeMap::new(),
            jobs: Numbered::new(),
            executions: Numbered::new(),
            sql_of_job: BTreeMap::new(),
            properties: BTreeMap::new(),
            job_of_stage: BTreeMap::new(),
            early: BTreeSet::new(),
            stages: BTreeMap::new(),
            failures: BTreeMap::new(),
            reasons: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Puts what is new into words. Whether the application has ended.
    ///
    /// # Errors
    /// A sentence, when the server does not answer as Spark does.
    pub fn ask(&mut self, server: &Server, words: &mut Vec<u8>) -> Result<bool, Failure> {
        let app = server.app()?.ok_or_else(Failure::gone)?;
        let (name, attempt) = server.attempt(app);
        let attempt = attempt.ok_or_else(Failure::gone)?;
        if !std::mem::replace(&mut self.has_started, true) {
            self.lines.push(answers::log_starts(attempt.app_spark_version.as_deref().unwrap_or_default()));
            self.lines.push(answers::application_starts(&self.id, &name, attempt.start_time_epoch));
            // A server that keeps its settings to itself is read without them: they are then not known.
            if let Ok(Some(environment)) = server.ask::<Environment>("/environment") {
                self.lines.push(environment.line());
                self.jobs.retained = environment.retained_jobs().unwrap_or(RETAINED_JOBS);
            }
        }
        let ended_tasks = self.ask_executors(server)?;
        // Executions after jobs: a job that is seen belongs to one that is.
        let jobs = self.jobs.ask(server, self.turn, JOBS, |job| job.job_id)?;
        let ended = self.ask_executions(server)?;
        self.lines.extend(answers::forgotten(0, &BTreeSet::new(), std::mem::take(&mut self.jobs.forgotten)));
        self.ask_jobs(server, jobs)?;
        if attempt.completed && self.properties.is_empty() {
            // It shows none of its jobs, though tasks ran.
            self.lines.extend(answers::forgotten(ended_tasks, &BTreeSet::new(), 0));
        }
        for execution in ended {
            let why = execution.failed_job_ids.iter().rev().find_map(|job| self.reasons.get(job));
            self.lines.extend(execution.ends(why.map(String::as_str)));
        }
        if attempt.completed && attempt.end_time_epoch > 0 {
            self.lines.push(answers::application_ends(attempt.end_time_epoch));
        } else if !attempt.completed {
            // What runs is as old as the answer, however long nothing has ended; a history server knows no more than its log.
            let answered_ms = if attempt.is_of_driver() { server.now_ms() } else { attempt.last_updated_epoch };
            let at_ms = if attempt.is_of_driver() { self.now_ms.max(answered_ms) } else { answered_ms };
            self.lines.extend((at_ms > 0).then(|| answers::now(at_ms)));
        }
        self.turn += 1;
        self.lines.sort_by_key(|line| (line.at_ms, line.order));
        self.lines.drain(..).for_each(|line| words.extend_from_slice(line.text.as_bytes()));
        Ok(attempt.completed)
    }

    /// How many jobs ran when it was last asked.
    pub fn running_jobs(&self) -> usize {
        self.jobs.open.values().filter(|job| job.status == "RUNNING").count()
    }

    /// Asks for executors; how many of their tasks have ended.
    fn ask_executors(&mut self, server: &Server) -> Result<u64, Failure> {
        let executors: Vec<Executor> = server.ask("/allexecutors")?.unwrap_or_default();
        let ended_tasks = executors.iter().map(Executor::ended_tasks).fold(0, i64::saturating_add);
        for executor in executors {
            if !self.executors.contains_key(&executor.id) {
                self.lines.extend(executor.added().filter(|_| executor.runs_tasks()));
                self.lines.extend(executor.room());
                self.executors.insert(executor.id.clone(), Seen::default());
                bound(&mut self.executors);
            }
            let Some(seen) = self.executors.get_mut(&executor.id) else { continue };
            if executor.peak_memory_metrics.is_some() && seen.peaks != executor.peak_memory_metrics {
                self.lines.extend(executor.peaks());
                seen.peaks.clone_from(&executor.peak_memory_metrics);
            }
            if let Some(line) = executor.removed().filter(|_| executor.runs_tasks() && !seen.is_removed) {
                seen.is_removed = true;
                self.lines.push(line);
            }
        }
        Ok(ended_tasks.unsigned_abs())
    }

    /// Asks for executions; those that have ended since the last turn.
    fn ask_executions(&mut self, server: &Server) -> Result<Vec<Execution>, Failure> {
        let mut ended = Vec::new();
        let known: BTreeSet<i64> = self.executions.open.keys().copied().collect();
        let found = self.executions.ask(server, self.turn, EXECUTIONS, |execution| execution.id)?;
        for execution in found {
            self.sql_of_job.extend(execution.jobs().map(|job| (job, execution.id)));
            bound(&mut self.sql_of_job);
            if !known.contains(&execution.id) {
                self.lines.extend(execution.starts());
            }
            match execution.is_over() {
                true => ended.push(execution),
                false => drop(self.executions.open.insert(execution.id, execution)),
            }
            bound(&mut self.executions.open);
        }
        Ok(ended)
    }

    fn ask_jobs(&mut self, server: &Server, jobs: Vec<Job>) -> Result<(), Failure> {
        // Those that run now, and those whose stages ended since the last turn.
        let active: Vec<Stage> = server.ask("/stages?status=active&details=false")?.unwrap_or_default();
        let mut asked: BTreeSet<i64> = BTreeSet::new();
        for job in &jobs {
            if !self.properties.contains_key(&job.job_id) {
                let properties = job.properties(self.sql_of_job.get(&job.job_id).copied());
                self.lines.extend(job.starts(&properties));
                self.properties.insert(job.job_id, properties);
                bound(&mut self.properties);
                for &stage in &job.stage_ids {
                    self.job_of_stage.entry(stage).or_insert(job.job_id);
                }
                bound(&mut self.job_of_stage);
            }
            if job.is_over() || self.unseen(job) > 0 {
                asked.extend(job.stage_ids.iter().filter(|stage| !self.is_done(**stage)).take(STAGES));
            }
            // What was complete is done again where its results were lost, which is why attempts fail.
            if job.is_over() && job.num_failed_stages > 0 {
                asked.extend(job.stage_ids.iter().take(STAGES));
            }
        }
        // Whose tasks run on though they failed.
        asked.extend(self.stages.iter().filter(|(_, known)| !known.has_ended).map(|(id, _)| id.0));
        asked.retain(|id| active.iter().all(|stage| stage.stage_id != *id));
        // A job that began after jobs were asked for is known in the next turn, unless the driver has forgotten it.
        let early = std::mem::take(&mut self.early);
        for stage in active {
            match self.job_of_stage.contains_key(&stage.stage_id) || early.contains(&stage.stage_id) {
                true => self.ask_stage(server, &stage)?,
                false => drop(self.early.insert(stage.stage_id)),
            }
        }
        for id in asked {
            let attempts: Vec<Stage> = server.ask(&format!("/stages/{id}?details=false"))?.unwrap_or_default();
            for stage in attempts.iter().filter(|stage| stage.stage_id == id) {
                self.ask_stage(server, stage)?;
            }
        }
        for job in jobs {
            match job.is_over() {
                true => {
                    self.lines.extend(answers::forgotten(0, &BTreeSet::new(), self.forgotten_stages(&job)));
                    let why = job.stage_ids.iter().rev().find_map(|stage| self.failures.get(stage));
                    self.lines.extend(job.ends(why.map(String::as_str)));
                    self.reasons.extend(why.map(|why| (job.job_id, why.clone())));
                    bound(&mut self.reasons);
                }
                false => drop(self.jobs.open.insert(job.job_id, job)),
            }
        }
        bound(&mut self.jobs.open);
        Ok(())
    }

    /// The attempts at a stage, the last one last.
    fn attempts(&self, stage: i64) -> impl DoubleEndedIterator<Item = &Known> {
        self.stages.range((stage, i64::MIN)..=(stage, i64::MAX)).map(|(_, known)| known)
    }

    /// The last attempt at a stage.
    fn attempt(&self, stage: i64) -> Option<&Known> {
        self.attempts(stage).next_back()
    }

    /// Whether nothing comes of a stage any more, unless its results are lost.
    fn is_done(&self, stage: i64) -> bool {
        self.attempt(stage).is_some_and(|known| known.has_ended && known.is_complete)
    }

    /// What the driver counts of the stages of a job and nobody has seen. It counts a stage that is complete once, however often that was
    /// tried, and each attempt that failed, also while tasks of it run on.
    fn unseen(&self, job: &Job) -> i64 {
        let is_complete = |stage: &&i64| self.attempts(**stage).any(|known| known.is_complete);
        let complete = job.stage_ids.iter().filter(is_complete).count() as i64;
        let attempts = job.stage_ids.iter().flat_map(|stage| self.attempts(*stage));
        let failed = attempts.filter(|known| known.has_failed).count() as i64;
        let [complete, failed] = [(job.num_completed_stages, complete), (job.num_failed_stages, failed)]
            .map(|(counted, seen)| counted.saturating_sub(seen).max(0));
        complete.saturating_add(failed)
    }

    /// How many stages of a job that is over the driver has forgotten (`spark.ui.retainedStages`) before it was asked for them. A stage
    /// that was complete before the job is skipped; one that ran for several jobs at once is a stage of each.
    fn forgotten_stages(&self, job: &Job) -> u64 {
        let count = |is: &dyn Fn(i64) -> bool| job.stage_ids.iter().filter(|stage| is(**stage)).count() as i64;
        let lost = self.unseen(job);
        let submitted_ms = job.submitted_ms().unwrap_or(i64::MAX);
        let was_before = |known: &Known| known.ended_ms.is_some_and(|ended_ms| ended_ms < submitted_ms);
        let skipped =
            job.num_skipped_stages.saturating_sub(count(&|stage| self.attempt(stage).is_some_and(was_before)));
        let unknown = count(&|stage| self.attempt(stage).is_none()).saturating_sub(skipped.max(0));
        lost.max(if job.has_succeeded() { unknown } else { 0 }).max(0).unsigned_abs()
    }

    fn ask_stage(&mut self, server: &Server, stage: &Stage) -> Result<(), Failure> {
        let id = (stage.stage_id, stage.attempt_id);
        if !stage.has_run() || self.stages.get(&id).is_some_and(|known| known.has_ended) {
            return Ok(());
        }
        if !self.stages.contains_key(&id) {
            let job = self.job_of_stage.get(&id.0);
            let properties = job.and_then(|job| self.properties.get(job)).unwrap_or(&Value::Null);
            self.lines.extend(stage.starts(properties));
        }
        let mut known = self.stages.remove(&id).unwrap_or_default();
        for page in 0..PAGES {
            if known.pages.get(page).is_some_and(|has_ended| *has_ended) {
                continue;
            }
            let (offset, sort) = (page * PAGE, "sortBy=ID");
            let what = format!("/stages/{}/{}/taskList?offset={offset}&length={PAGE}&{sort}", id.0, id.1);
            let tasks: Vec<Task> = server.ask(&what)?.unwrap_or_default();
            let again = tasks.iter().filter(|task| task.is_resubmitted());
            known.resubmitted.extend(again.map(|task| task.task_id));
            for task in &tasks {
                if task.is_over() && !known.ended.contains(&task.task_id) {
                    known.running.remove(&task.task_id);
                    // One without its times is lost like those that the driver forgot.
                    if let Some(line) = task.ends(id) {
                        known.ended.insert(task.task_id);
                        self.lines.push(line);
                    }
                } else if !task.is_over() {
                    self.now_ms = self.now_ms.max(task.latest_ms().unwrap_or(0));
                    if known.running.insert(task.task_id) {
                        self.lines.extend(task.starts(id));
                    }
                }
            }
            known.pages.resize(known.pages.len().max(page + 1), false);
            known.pages[page] = tasks.len() == PAGE && tasks.iter().all(Task::is_over);
            if tasks.len() < PAGE {
                break;
            }
        }
        // Tasks of a stage that failed may run on; its job has ended.
        match &stage.failure_reason {
            Some(why) => drop(self.failures.insert(stage.stage_id, why.clone())),
            None => drop(self.failures.remove(&stage.stage_id)),
        }
        bound(&mut self.failures);
        if stage.is_over() {
            self.lines.extend(stage.ends());
            let named = (known.ended.len() + known.resubmitted.len()) as i64;
            let lost = stage.ended_tasks().saturating_sub(named).max(known.running.len() as i64);
            self.lines.extend(answers::forgotten(lost.unsigned_abs(), &known.running, 0));
            // What it did is not asked for again.
            known = Known { has_ended: true, ended_ms: stage.ended_ms(), ..Known::default() };
        }
        (known.is_complete, known.has_failed) = (stage.is_complete(), stage.has_failed());
        self.stages.insert(id, known);
        bound(&mut self.stages);
        Ok(())
    }
}
