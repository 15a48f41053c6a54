//! `latscope spark`.

use super::{output, reports};
use crate::Failure;
use crate::notes::WORDING;
use crate::plan::{Reading, Spark as Plan};
use latscope_capture_file::{Format, is_pipe};
use latscope_event::{Context, Field};
use latscope_filter::Filter;
use latscope_pipeline::{Pipeline, SparkApplication};
pub use latscope_series::spark::undecided;
use latscope_series::spark::{SparkLimit, SparkMeasures, SparkTasks, incomplete};
use latscope_series::{SparkTaskWaits, SparkWaits};
use latscope_view_report::{ReportSection, SparkPicture, Theme, spark};
use latscope_view_term::{Line, Room, SparkLevel, SparkReport, spark_wait_json, spark_wait_lines};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// What a filter may name of an application that has an end of its own.
const PARTS: [Field; 3] = [Field::Job, Field::Sql, Field::Stage];

pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    reports::ends_by_signal(pipeline.reading());
    let application = Application::read(pipeline, &plan.kernel)?;
    let is_picture = plan.output.as_ref().and_then(|path| path.extension()).is_some_and(|ending| ending == "svg");
    match () {
        () if plan.json => output::text(plan.output.as_deref(), &application.json()),
        () if is_picture => {
            let picture = SparkPicture { width: plan.width, theme: plan.theme, wording: WORDING, title: None };
            output::text(plan.output.as_deref(), &application.picture(&picture))
        }
        () => {
            let lines = application.lines(plan.by, plan.top, output::room(&plan.output));
            output::lines(plan.output.as_deref(), lines)
        }
    }?;
    if plan.fail_if.is_empty() { Ok(()) } else { application.judge(&plan.fail_if) }
}

/// An application that was read to its end, and what its tasks waited for where kernels were captured.
pub struct Application {
    pub tasks: SparkTasks,
    pub context: Context,
    waits: Option<(Vec<SparkTaskWaits>, Vec<String>)>,
    /// Whether the filter names jobs, queries or stages, of which no more tasks come once they have ended.
    is_chosen: bool,
}

impl Application {
    /// Reads a log, and what the kernels of its hosts saw: a file for each.
    pub fn read(pipeline: &Pipeline, kernel: &[PathBuf]) -> Result<Application, Failure> {
        let mut waits = SparkWaits::default();
        let (mut tasks, context) = application(pipeline, &mut waits, true)?;
        let waits = if kernel.is_empty() { None } else { Some(with_kernel(waits, kernel)?) };
        if let Some((waits, _)) = &waits {
            tasks.set_waits(waits);
        }
        let chosen = |filter: &Filter| PARTS.iter().any(|&part| filter.fields().contains(part));
        let is_chosen = pipeline.reading().filter.as_ref().is_some_and(chosen);
        Ok(Application { tasks, context, waits, is_chosen })
    }

    /// Holds it against limits. What is not over, or has an end that nobody knows, may still break those that it keeps so far.
    fn judge(&self, limits: &[SparkLimit]) -> Result<(), Failure> {
        let measures = SparkMeasures::new(&self.tasks);
        let broken: Vec<String> = limits.iter().filter_map(|limit| limit.broken(&measures)).collect();
        if !broken.is_empty() {
            return Err(Failure::Exceeded(format!("{}.", broken.join("; "))));
        }
        let unknown = limits.iter().find_map(|limit| limit.unknown(&measures));
        match unknown.or_else(|| self.open()) {
            Some(why) => Err(Failure::Input(format!("--fail-if cannot be decided: {why}."))),
            None => Ok(()),
        }
    }

    /// Why it may still break limits, in words; none of what has ended: the application, or the jobs that a filter chose.
    fn open(&self) -> Option<String> {
        let has = |key: &str| self.context.properties.contains_key(key);
        let jobs = self.tasks.jobs();
        let job = jobs.iter().find(|job| job.is_bound());
        let due = self.tasks.due_stage();
        match (has(Context::SPARK_END), job) {
            (true, None) if self.is_chosen && due.is_some() => due.map(|(stage, attempt)| {
                format!(
                    "attempt {attempt} of stage {stage} has not ended, or failed and is tried again, for a later job, and no limit is exceeded \
                     so far; read the log again when the application has ended"
                )
            }),
            (true, None) if self.is_chosen && self.tasks.running() == 0 => self.incomplete(),
            (true, _) => Some(match has(Context::SPARK_SOURCE) {
                true => "the application still runs and exceeds no limit so far; ask again when it has ended".into(),
                false => "the log has no end of the application, which exceeds no limit so far: it still runs, or its driver was \
                    killed; read the log again when the application has ended, or choose jobs that have, as with 'job = 0'"
                    .into(),
            }),
            (false, Some(job)) => Some(format!(
                "the log lacks the end of job {}, though the application has ended, which exceeds no limit as far as is known; the log of \
                 its driver says how it ended",
                job.id
            )),
            (false, None) => self.incomplete(),
        }
    }

    /// What the log of an application that has ended lacks, in words.
    fn incomplete(&self) -> Option<String> {
        let executions = self.tasks.executions();
        // A filter on others leaves what is known of it, but none of its tasks.
        let mut executions = executions.iter().filter(|execution| !self.is_chosen || !execution.stages.is_empty());
        if let Some(execution) = executions.find(|execution| execution.is_running || execution.is_open) {
            return Some(format!(
                "the log lacks the end of SQL execution {}, and what is known exceeds no limit; the log of its driver says how it ended",
                execution.id
            ));
        }
        // All of its tasks may be there, but an attempt that followed may not.
        let open = self.tasks.stages.iter().find(|(_, stage)| stage.is_open()).map(|(id, _)| id.0);
        let open = open.map(|stage| {
            format!("the log lacks the end of stage {stage}, and what is known exceeds no limit; read a whole log")
        });
        incomplete(&self.context).or(open)
    }

    /// The report as text.
    pub fn lines(&self, by: SparkLevel, most: usize, room: Room) -> Vec<Line> {
        let mut lines = SparkReport::new(&self.tasks, &self.context).lines(by, most, room);
        if let Some((tasks, unseen)) = &self.waits {
            let stragglers: Vec<i64> = self.tasks.stragglers().iter().map(|straggler| straggler.task).collect();
            lines.extend(spark_wait_lines(tasks, &stragglers, unseen, most, room));
        }
        lines
    }

    fn json(&self) -> String {
        let mut json = SparkReport::new(&self.tasks, &self.context).json();
        if let Some((tasks, unseen)) = &self.waits {
            json.truncate(json.trim_end().len() - 1);
            json += &format!(",\"kernel\":{}}}\n", spark_wait_json(tasks, unseen));
        }
        json
    }

    /// The picture.
    pub fn picture(&self, options: &SparkPicture) -> String {
        spark(&self.tasks, &self.context, options)
    }
}

/// The report as a section of the page, of files that are one event log.
pub fn section(pipeline: &Pipeline) -> Result<Option<ReportSection>, Failure> {
    let is_log = pipeline.formats() == [Some(Format::SparkEventlog)];
    let Some(file) = pipeline.reading().files.first().filter(|_| pipeline.reading().files.len() == 1) else {
        return Ok(None);
    };
    if !is_log || is_pipe(file) {
        return Ok(None);
    }
    // The page is of tasks; this is also of stages, jobs and executors.
    let reading = Reading { all_of_spark: true, ..pipeline.reading().clone() };
    let found = reports::open(reading, None).and_then(|whole| application(&whole, &mut SparkWaits::default(), false));
    let (tasks, context) = match found {
        Ok(found) => found,
        // Whoever names samples wants to see them.
        Err(failure) if !pipeline.reading().usage.is_empty() => return Err(failure),
        Err(_) => return Ok(None),
    };
    let picture = SparkPicture { width: 1200, theme: Theme::Light, wording: WORDING, title: None };
    let lines = SparkReport::new(&tasks, &context).lines(SparkLevel::Stage, 20, output::room(&Some(file.clone())));
    let text = lines.iter().map(|line| line.text() + "\n").collect();
    Ok(Some(ReportSection { title: "Spark application".into(), picture: spark(&tasks, &context, &picture), text }))
}

/// So many applications are named where one has to be chosen.
const NAMED: usize = 3;

/// The one application that there is; its tasks are also what waits are joined with.
fn application(pipeline: &Pipeline, waits: &mut SparkWaits, has_notes: bool) -> Result<(SparkTasks, Context), Failure> {
    let (mut found, mut contexts) =
        pipeline.spark_applications(SparkWaits::task_fields(), |batch, row| waits.add_task(batch, row))?;
    if has_notes {
        reports::say_notes(&contexts);
    }
    if found.len() > 1 {
        let mut names: Vec<String> = found.iter().map(|app| format!("app = {}", app.id)).collect();
        names.sort();
        // Of two logs of one application, no filter chooses one.
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone());
        names.dedup();
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more, which latscope summary --by app lists"),
        };
        names.truncate(NAMED);
        let or = match twice {
            Some(name) => format!("; more than one has {name}"),
            None => format!(", or choose an application by a filter ({}{more})", names.join(", ")),
        };
        let mut logs: Vec<&str> =
            found.iter().filter_map(|app| contexts.get(app.log)).map(|log| &*log.source).collect();
        logs.dedup();
        let log = |source: &&str| source.split_once(", ").map_or(*source, |(_, file)| file).to_string();
        let more = if logs.len() > NAMED { format!(" and {} more", logs.len() - NAMED) } else { String::new() };
        let logs = format!("{}{more}", logs.iter().take(NAMED).map(log).collect::<Vec<_>>().join(", "));
        let count = found.len();
        return Err(Failure::Input(format!(
            "These are {count} logs of applications, and the report is of one: give one log with -r ({logs}){or}."
        )));
    }
    let Some(SparkApplication { tasks, log, .. }) = found.pop() else {
        let is_log = contexts.iter().any(|context| context.properties.contains_key("spark.version"));
        let has_end = contexts.iter().all(|context| !context.properties.contains_key(Context::SPARK_END));
        return Err(Failure::Input(match is_log {
            true if pipeline.reading().filter.is_some() => {
                "No job of the application passes the filter, so there is nothing to report.".into()
            }
            true if has_end => "The application ran no job, so there is nothing to report.".into(),
            true => "There is no job in the log, which has no end of the application: nothing to report so far.".into(),
            false => "No task of Spark was found; latscope spark reads event logs.".into(),
        }));
    };
    Ok((tasks, contexts.swap_remove(log)))
}

/// What the tasks waited for, by what the kernels of their hosts saw.
fn with_kernel(mut waits: SparkWaits, files: &[PathBuf]) -> Result<(Vec<SparkTaskWaits>, Vec<String>), Failure> {
    for file in files {
        let pipeline = reports::open(Reading { files: vec![file.clone()], ..Reading::default() }, None)?;
        // An event log has tasks but nothing of the kernel: all time would be unexplained.
        if pipeline.formats().contains(&Some(Format::SparkEventlog)) {
            return Err(Failure::Input(format!(
                "--kernel {}: This is an event log of Spark; give a recording of the host of executors, made by latscope record -s block,offcpu=1ms \
                 --with args,ppid.",
                file.display()
            )));
        }
        waits.start_host();
        let contexts = pipeline.each_batch::<Failure>(SparkWaits::kernel_fields(), |_, batch, _, _| {
            (0..batch.len()).for_each(|row| waits.add_event(batch, row));
            ControlFlow::Continue(())
        })?;
        waits.end_host(Context::merged(&contexts).span_ns);
        reports::say_notes(&contexts);
    }
    Ok(waits.finish())
}
