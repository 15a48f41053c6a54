//! Applications apart from each other, and what a filter leaves of them.

use super::tasks::SparkTasks;
use latscope_event::{Batch, Field};
use std::collections::{BTreeMap, BTreeSet};

/// The applications of one or several logs in the making.
#[derive(Default)]
pub struct Applications {
    /// The filter chooses the tasks of a block of code that ran meanwhile, nanoseconds: executors count for that long.
    pub block_ns: Option<(i64, i64)>,
    of: BTreeMap<(usize, String), Application>,
}

#[derive(Default)]
struct Application {
    tasks: SparkTasks,
    /// Whether the filter left out a task.
    is_part: bool,
}

impl Applications {
    /// Adds a row of a log, by its number. A filter chooses tasks; the stages, jobs and executions that these belong to stay whole.
    pub fn add(&mut self, log: usize, batch: &Batch, row: usize, is_selected: bool) {
        let application = self.application(log, batch, row);
        if batch.text(Field::Kind, row) == Some("task") && !is_selected {
            application.is_part = true;
            return;
        }
        application.tasks.add(batch, row);
    }

    /// Adds a task, stage, job or execution that ran when its log ended.
    pub fn add_running(&mut self, log: usize, batch: &Batch, row: usize) {
        self.application(log, batch, row).tasks.add_running(batch, row);
    }

    /// Adds a job or execution of which the log lacks the end, and whether that is all that it lacks.
    pub fn add_open(&mut self, log: usize, batch: &Batch, row: usize, is_whole: bool) {
        self.application(log, batch, row).tasks.add_open(batch, row, is_whole);
    }

    fn application(&mut self, log: usize, batch: &Batch, row: usize) -> &mut Application {
        self.of.entry((log, batch.text(Field::App, row).unwrap_or_default().into())).or_default()
    }

    /// Those with tasks, jobs or executions (the driver may still plan the first): the number of their log, their identifier and what they have.
    /// Of a part of the tasks, neither executors nor stages without tasks are kept: the cores also had other tasks.
    pub fn finish(mut self) -> Vec<(usize, String, SparkTasks)> {
        let logs: BTreeSet<usize> = self.of.keys().map(|(log, _)| *log).collect();
        for log in logs {
            // What stands before the name of the application: the room of the driver.
            let key = (log, String::new());
            let Some(before) = self.of.remove(&key) else { continue };
            let named = self.of.iter_mut().find(|((other, _), _)| *other == log);
            match named.filter(|_| before.tasks.stages.is_empty()) {
                Some((_, application)) => application.tasks.merge_peaks(&before.tasks),
                None => drop(self.of.insert(key, before)),
            }
        }
        let finished = self.of.into_iter().map(|((log, app), Application { mut tasks, is_part })| {
            let executors = self.block_ns.map(|block_ns| tasks.executors_within(block_ns));
            tasks.is_part = is_part || executors.is_some();
            if is_part {
                tasks.keep_only_what_has_tasks();
            }
            if let Some(executors) = executors {
                tasks.executors = executors;
            }
            (log, app, tasks)
        });
        finished
            .filter(|(_, _, tasks)| {
                let has_more = || !tasks.jobs().is_empty() || !tasks.executions().is_empty();
                tasks.span_ns().is_some() || !tasks.is_part && has_more()
            })
            .collect()
    }
}
