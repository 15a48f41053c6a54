//! The end of the log: what has not ended.

use super::{About, Kind, NOTHING, Running, Session, push_about};
use latscope_event::{Anomaly, Batch, Context, Field, MISSING_I64, Unfinished, Wait};
use std::collections::BTreeMap;

impl Running {
    /// What is known of the task.
    fn push(&self, task: i64, row: &mut Batch) {
        row.push_i64(Field::Stage, self.stage.0);
        row.push_i64(Field::StageAttempt, self.stage.1);
        row.push_i64(Field::Task, task);
        row.push_i64(Field::TaskIndex, self.index);
        row.push_i64(Field::Attempt, self.attempt);
        row.push_code(Field::Executor, self.executor);
        row.push_code(Field::Host, self.host);
    }
}

impl Session<'_, '_> {
    /// At the end of the log: what it says about itself, and how many events there were.
    pub fn finish(mut self) -> (Context, u64) {
        self.count_lost_events();
        let left: Vec<u32> = self.executors.keys().copied().collect();
        for id in left {
            let _ = self.executor(id, self.latest_ns, "");
        }
        let _ = self.memory(None, Some(self.latest_ns));
        let _ = self.exclusions_end(self.latest_ns, "", |_| true);
        self.end_with_executors();
        let count = self.rows.count;
        let wait = if self.has_ended { Wait::Lossy } else { Wait::Counts };
        // Spark writes no end of a task that runs when the application ends. Of a stage that is complete, the listener dropped events,
        // unless another attempt did the work: it was killed then, and never died.
        let is_lost = |running: &Running| {
            let (stage, has_ended) = (&running.stage, self.has_ended);
            let may_run = self.stages.contains_key(stage) && !self.complete_stages.contains_key(stage);
            running.may_have_ended || has_ended && !may_run && !running.is_outdone
        };
        let wait_of = |running: &Running| if is_lost(running) { Wait::Lossy } else { Wait::Counts };
        let mut running: Vec<(i64, Running, Wait)> =
            self.running.iter().map(|(&task, running)| (task, running.clone(), wait_of(running))).collect();
        running.sort_by_key(|(task, running, _)| (running.start_ns, *task));
        running.truncate(Context::UNFINISHED_KEPT);
        let tasks = running.len() as u64;
        if !self.has_ended {
            self.rows.context.properties.insert(Context::SPARK_END.into(), "missing".into());
        }
        if !self.has_settings {
            self.rows.context.properties.insert(Context::SPARK_SETTINGS.into(), "missing".into());
        }
        let context = &mut self.rows.context;
        if [Anomaly::SetBack, Anomaly::NegativeLatency].iter().any(|&anomaly| context.tally.get(anomaly) > 0) {
            context.properties.insert("latscope.spark.clock".into(), "set back".into());
        }
        let mut row = Batch::new(self.rows.batch.fields());
        row.follow(&self.rows.batch);
        let kinds = self.kinds;
        let (latest_ns, app) = (self.latest_ns, self.app);
        let has_gaps = self.known_count(0) == MISSING_I64;
        let unfinished = &mut self.rows.context.unfinished;
        let mut push =
            |what: String, wait: Wait, kind: Kind, about: &About, start_ns: i64, more: &dyn Fn(&mut Batch)| {
                row.clear();
                row.push_i64(Field::Time, start_ns);
                row.push_u64(Field::Latency, u64::try_from(latest_ns - start_ns).unwrap_or(0));
                row.push_code(Field::Kind, kinds[kind as usize]);
                row.push_code(Field::App, app);
                push_about(&mut row, about);
                more(&mut row);
                row.end_row();
                unfinished.push(Unfinished::from_row(what, wait, &row, 0));
            };
        for (task, running, wait) in running {
            let about = self.stages.get(&running.stage).copied().unwrap_or(NOTHING);
            let what = format!("task {task} of stage {}", running.stage.0);
            push(what, wait, Kind::Task, &about, running.start_ns, &|row| {
                running.push(task, row);
            });
        }
        if self.has_all {
            let stages = self.open_stages.iter().filter_map(|(id, tasks)| Some((id, tasks, self.stages.get(id)?)));
            let stages =
                stages.map(|(id, tasks, about)| (format!("stage {}", id.0), Kind::Stage, about, Some((id, *tasks))));
            let jobs = self.jobs.iter().map(|(id, about)| (format!("job {id}"), Kind::Job, about, None));
            let sql = self.executions.iter().map(|(id, about)| (format!("SQL execution {id}"), Kind::Sql, about, None));
            for (what, kind, about, stage) in stages.chain(jobs).chain(sql).take(Context::UNFINISHED_KEPT) {
                let Some(start_ns) = about.start_ns else { continue };
                push(what, wait, kind, about, start_ns, &|row| {
                    if let Some((&(stage, attempt), tasks)) = stage {
                        row.push_i64(Field::Stage, stage);
                        row.push_i64(Field::StageAttempt, attempt);
                        row.push_i64(Field::Result, if has_gaps { MISSING_I64 } else { tasks });
                    }
                });
            }
        }
        self.rows.context.tally.add(Anomaly::Unfinished, tasks);
        self.rows.context.sort_unfinished();
        // A task says more than the job that it is of, which is always older.
        self.rows.context.unfinished.sort_by_key(|one| !one.what.starts_with("task "));
        (self.rows.finish(), count)
    }

    /// Counts what the listener dropped, as numbers that follow each other show it.
    pub(super) fn count_lost_events(&mut self) {
        let context = &self.rows.context;
        let is_rest = context.properties.contains_key(Context::SPARK_SOURCE);
        // What was in parts that are missing, nobody knows; a driver forgets the oldest.
        if context.tally.get(Anomaly::MissingParts) == 0 && !is_rest && context.start_ns.is_some() {
            self.count_lost_tasks();
            self.count_lost_starts();
        }
    }

    /// Counts tasks that the log never names. Spark numbers the tasks of an application in the order of their launch, from 0, and each
    /// task of a stage that is complete has a first attempt. Of an attempt at a stage that is a retry, late tasks of the attempt before
    /// it may do the work. The stage that gives the result of a job is never skipped: where the log has nothing of it, all its tasks
    /// are lost.
    fn count_lost_tasks(&mut self) {
        let context = &mut self.rows.context;
        let known = self.ended_tasks + self.running.len() as u64 + context.tally.get(Anomaly::EvictedInFlight);
        let by_number = u64::try_from(self.highest_task.saturating_add(1)).unwrap_or(0).saturating_sub(known);
        let firsts = self.complete_stages.iter().filter(|(id, _)| id.1 == 0);
        let firsts = firsts.filter_map(|(id, tasks)| Some(tasks.saturating_sub(*self.first_attempts.get(id)?)));
        let first_attempts = &self.first_attempts;
        let is_named = |stage: i64| first_attempts.range((stage, i64::MIN)..=(stage, i64::MAX)).next().is_some();
        let unnamed = self.due_stages.iter().filter(|(stage, _)| !is_named(**stage)).map(|(_, tasks)| (*tasks).max(1));
        let by_stage =
            firsts.chain(unnamed).fold(0, |sum: u64, lost| sum.saturating_add(u64::try_from(lost).unwrap_or(0)));
        context.tally.add(Anomaly::LostTasks, by_number.max(by_stage));
    }

    /// Counts starts of jobs and of executions of SQL that are missing. Spark numbers jobs one by one, and each stage is of one; until
    /// version 2, it gives numbers to jobs without tasks, and writes nothing of these.
    fn count_lost_starts(&mut self) {
        let context = &mut self.rows.context;
        // A line that is malformed or cut may be such a start, and is counted.
        if [Anomaly::UnparsedLines, Anomaly::Truncated].iter().any(|&anomaly| context.tally.get(anomaly) > 0) {
            return;
        }
        let jobs = &self.named_jobs;
        let without_start =
            |named: &BTreeMap<i64, bool>| named.values().filter(|has_start| !**has_start).count() as u64;
        let range = jobs.first_key_value().zip(jobs.last_key_value());
        let numbers = range.map_or(0, |((first, _), (last, _))| last.abs_diff(*first).saturating_add(1));
        let has_gaps = context.properties.get("spark.version").is_some_and(|version| version.starts_with("2."));
        let gaps = if has_gaps { 0 } else { numbers.saturating_sub(jobs.len() as u64) };
        let lost = gaps.saturating_add(without_start(jobs)).max(u64::from(self.has_stray_stage));
        let lost = lost.saturating_add(without_start(&self.named_executions));
        context.tally.add(Anomaly::LostRecords, lost);
    }

    /// Tasks whose executor was removed, and whose end Spark never wrote, end with it.
    fn end_with_executors(&mut self) {
        let is_lost = |_: &i64, running: &mut Running| running.removed_ns.is_some();
        let mut lost: Vec<(i64, Running)> = self.running.extract_if(is_lost).collect();
        lost.sort_by_key(|(task, running)| (running.start_ns, *task));
        for (task, running) in lost {
            let about = self.stages.get(&running.stage).copied().unwrap_or(NOTHING);
            let span_ns = (running.start_ns, running.removed_ns.unwrap_or(self.latest_ns));
            let _ = self.row(Kind::Task, &about, span_ns, Some(b"ExecutorLostFailure"), |batch| {
                running.push(task, batch);
            });
        }
    }
}
