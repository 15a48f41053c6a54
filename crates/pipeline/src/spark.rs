//! Applications of Spark, of the events of their logs.

use crate::executors::read_usage;
use crate::{Error, Notice, Pipeline};
use latscope_event::{Anomaly, Batch, Context, FieldSet, Unfinished};
use latscope_series::spark::{Applications, SparkTasks};
use std::ops::ControlFlow;

/// A log with one of these may lack any event.
const LACKS: [Anomaly; 4] = [Anomaly::MissingParts, Anomaly::Truncated, Anomaly::UnparsedLines, Anomaly::LostTasks];

/// What a log has of one application.
pub struct SparkApplication {
    /// Its identifier.
    pub id: String,
    /// The number of its log among the contexts.
    pub log: usize,
    /// Its tasks, those that still run, stages, jobs and executors.
    pub tasks: SparkTasks,
}

impl Pipeline {
    /// The applications that have tasks or jobs, and the context of every log. `each` gets every task that the filter lets through, with
    /// `fields` beside those of the report.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn spark_applications(
        &self,
        fields: FieldSet,
        mut each: impl FnMut(&Batch, usize),
    ) -> Result<(Vec<SparkApplication>, Vec<Context>), Error> {
        let (mut applications, mut logs) = (Applications::default(), 0);
        applications.block_ns = self.reading().block_ns;
        let fields = SparkTasks::fields().union(fields);
        let mut contexts = self.each_batch::<Error>(fields, |_, batch, mask, is_first| {
            logs += usize::from(is_first);
            for row in 0..batch.len() {
                let is_in = mask.is_none_or(|mask| mask.get(row));
                applications.add(logs, batch, row, is_in);
                if is_in {
                    each(batch, row);
                }
            }
            ControlFlow::Continue(())
        })?;
        for (at, context) in contexts.iter_mut().enumerate() {
            let running = Unfinished::batch(&context.unfinished);
            (0..running.len()).for_each(|row| applications.add_running(at + 1, &running, row));
            let open = Unfinished::rows(context.unfinished.iter().filter(|unfinished| !unfinished.counts()));
            // Spark ends each job when it stops; where that is missing, its listener dropped events.
            let lacks = |one: &Unfinished| !one.counts() && !one.what.starts_with("SQL execution ");
            let is_whole =
                LACKS.iter().all(|&anomaly| context.tally.get(anomaly) == 0) && !context.unfinished.iter().any(lacks);
            (0..open.len()).for_each(|row| applications.add_open(at + 1, &open, row, is_whole));
            // Notes name the task that has run for longest, not the job or execution that it belongs to.
            context.unfinished.retain(|unfinished| unfinished.what.starts_with("task "));
        }
        let last = contexts.len().saturating_sub(1);
        let found = applications.finish().into_iter();
        let found = found.map(|(log, id, tasks)| SparkApplication { id, log: log.saturating_sub(1).min(last), tasks });
        let mut found: Vec<SparkApplication> = found.collect();
        let logs: Vec<usize> = found.iter().map(|application| application.log).collect();
        for application in &mut found {
            let Some(context) = contexts.get(application.log) else { continue };
            // Of several applications in one log, nobody knows which one it is.
            let is_one = logs.iter().filter(|log| **log == application.log).count() == 1;
            if let Some((start_ns, (_, end_ns))) = context.start_ns.zip(context.span_ns).filter(|_| is_one) {
                application.tasks.set_whole((start_ns, end_ns));
            }
            application.tasks.set_properties(&context.properties);
            application.tasks.missing_ns =
                context.loss_ranges.iter().map(|range| (range.start_ns, range.end_ns)).collect();
        }
        // Of several applications there is no report.
        if let [SparkApplication { id, tasks, .. }] = &mut found[..] {
            for file in &self.reading().usage {
                let note = read_usage(file, id, &mut |row| tasks.usage.add(row))?;
                note.into_iter().for_each(|note| self.control.notice(Notice::Files(note)));
            }
        }
        Ok((found, contexts))
    }
}
