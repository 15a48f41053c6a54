//! What the executors of a running application do now, in two answers however many tasks it has.

use super::REFUSALS;
use super::answers::{self, Execution, Job};
use super::application::{EXECUTIONS, JOBS, Numbered};
use super::server::Server;
use latscope_event::spark::SparkSpan;
use latscope_wire::Url;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The numbers of an executor, or of the whole application, by name. Durations are nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct SparkNumbers {
    /// The executor; `None` of the whole application.
    pub executor: Option<String>,
    /// Names are those of the metrics in JSON, `run_ns` for example.
    pub numbers: Vec<(&'static str, u64)>,
}

/// Why there are no numbers this time.
#[derive(Clone, PartialEq, Debug)]
pub struct Unanswered {
    /// A sentence without its end.
    pub why: String,
    /// Nobody listens there any more.
    pub is_over: bool,
}

/// So many queries, jobs and stages of each kind are known; the newest.
const SPANS: usize = 1000;

/// An application that is asked again and again.
pub struct SparkNow {
    server: Server,
    id: String,
    refusals: u32,
    turn: u64,
    jobs: Numbered<Job>,
    executions: Numbered<Execution>,
    /// By kind, number and attempt.
    spans: BTreeMap<(&'static str, i64, i64), SparkSpan>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Executor {
    id: String,
    #[serde(default)]
    is_active: bool,
    #[serde(default)]
    total_cores: u64,
    #[serde(default)]
    active_tasks: u64,
    #[serde(default)]
    completed_tasks: u64,
    /// Milliseconds. Run time is not among these: `totalDuration` is that of tasks, with what comes before and after their run time.
    #[serde(default, rename = "totalGCTime")]
    total_gc_time: u64,
    #[serde(default)]
    total_input_bytes: u64,
    #[serde(default)]
    total_shuffle_read: u64,
    memory_metrics: Option<Used>,
    peak_memory_metrics: Option<BTreeMap<String, u64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Used {
    used_on_heap_storage_memory: u64,
    used_off_heap_storage_memory: u64,
}

/// A stage, and the sums of its tasks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stage {
    #[serde(flatten)]
    stage: answers::Stage,
    #[serde(default)]
    executor_run_time: u64,
    #[serde(default)]
    executor_cpu_time: u64,
    #[serde(default)]
    jvm_gc_time: u64,
    #[serde(default)]
    shuffle_fetch_wait_time: u64,
    #[serde(default)]
    shuffle_write_time: u64,
}

/// Peaks, which are all that the API has of these: its name, and ours.
const PEAKS: [(&str, &str); 5] = [
    ("JVMHeapMemory", "heap"),
    ("ProcessTreeJVMRSSMemory", "jvm_rss"),
    ("ProcessTreePythonRSSMemory", "python_rss"),
    ("OnHeapExecutionMemory", "execution_memory"),
    ("OffHeapExecutionMemory", "off_heap_execution_memory"),
];

fn ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

impl SparkNow {
    /// Finds the application that a URL names.
    ///
    /// # Errors
    /// A sentence.
    pub fn open(url: &str) -> Result<SparkNow, String> {
        let (server, id) = Server::open(Url::parse(url)?, true).map_err(|failure| failure.why)?;
        let (jobs, executions, spans) = (Numbered::new(), Numbered::new(), BTreeMap::new());
        Ok(SparkNow { server, id, refusals: 0, turn: 0, jobs, executions, spans })
    }

    /// The application.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The newest queries, jobs and stages, as far as the server shows them.
    pub fn spans(&self) -> impl Iterator<Item = &SparkSpan> {
        self.spans.values()
    }

    /// Asks for queries and jobs that are new or ran: notes in a picture, without which the numbers are as good.
    fn ask_spans(&mut self, stages: &[Stage]) {
        let stages =
            stages.iter().filter_map(|Stage { stage, .. }| Some((stage.stage_id, stage.attempt_id, stage.span()?)));
        let mut found: Vec<(i64, i64, SparkSpan)> = stages.collect();
        let (mut jobs, mut executions) = (self.jobs.clone(), self.executions.clone());
        if let Ok(new) = jobs.ask(&self.server, self.turn, JOBS, |job| job.job_id) {
            found.extend(new.iter().filter_map(|job| Some((job.job_id, 0, job.span()?))));
            jobs.open.extend(new.into_iter().filter(|job| !job.is_over()).map(|job| (job.job_id, job)));
            self.jobs = jobs;
        }
        if let Ok(new) = executions.ask(&self.server, self.turn, EXECUTIONS, |execution| execution.id) {
            found.extend(new.iter().filter_map(|one| Some((one.id, 0, one.span()?))));
            executions.open.extend(new.into_iter().filter(|one| !one.is_over()).map(|one| (one.id, one)));
            self.executions = executions;
        }
        self.turn += 1;
        self.spans.extend(found.into_iter().map(|(id, attempt, span)| ((span.kind, id, attempt), span)));
        for kind in ["sql", "job", "stage"] {
            let of_kind = || self.spans.range((kind, i64::MIN, i64::MIN)..=(kind, i64::MAX, i64::MAX));
            let more = of_kind().count().saturating_sub(SPANS);
            let oldest: Vec<_> = of_kind().take(more).map(|(key, _)| *key).collect();
            oldest.iter().for_each(|key| drop(self.spans.remove(key)));
        }
    }

    /// What every executor that lives does now, and the whole application.
    ///
    /// # Errors
    /// When there is no answer. A driver that collects garbage answers the next time.
    pub fn ask(&mut self) -> Result<Vec<SparkNumbers>, Unanswered> {
        let answer = self.server.ask::<Vec<Executor>>("/executors").and_then(|executors| {
            let stages = self.server.ask::<Vec<Stage>>("/stages?details=false")?;
            Ok((executors, stages))
        });
        match answer {
            Ok((Some(executors), stages)) => {
                self.refusals = 0;
                self.ask_spans(stages.as_deref().unwrap_or_default());
                let executors = executors.iter().filter(|executor| executor.is_active).map(Executor::numbers);
                Ok(executors.chain(stages.as_deref().map(whole)).collect())
            }
            Ok((None, _)) => Err(Unanswered { why: "the application is gone".into(), is_over: true }),
            Err(failure) => {
                self.refusals = if failure.is_refused { self.refusals + 1 } else { 0 };
                let why = failure.why.trim_end_matches('.').to_string();
                Err(Unanswered { why, is_over: failure.is_gone || self.refusals >= REFUSALS })
            }
        }
    }
}

impl Executor {
    fn numbers(&self) -> SparkNumbers {
        let mut numbers = vec![
            ("active_tasks", self.active_tasks),
            ("tasks", self.completed_tasks),
            ("gc_ns", ms(self.total_gc_time)),
            ("input", self.total_input_bytes),
            ("shuffle_read", self.total_shuffle_read),
            ("cores", self.total_cores),
        ];
        numbers.extend(
            PEAKS.iter().filter_map(|&(name, own)| Some((own, *self.peak_memory_metrics.as_ref()?.get(name)?))),
        );
        if let Some(used) = &self.memory_metrics {
            numbers.push(("storage_memory", used.used_on_heap_storage_memory));
            numbers.push(("off_heap_storage_memory", used.used_off_heap_storage_memory));
        }
        SparkNumbers { executor: Some(self.id.clone()), numbers }
    }
}

/// The sums of all stages.
fn whole(stages: &[Stage]) -> SparkNumbers {
    let sum = |of: fn(&Stage) -> u64| stages.iter().map(of).fold(0, u64::saturating_add);
    let numbers = vec![
        ("run_ns", ms(sum(|stage| stage.executor_run_time))),
        ("cpu_ns", sum(|stage| stage.executor_cpu_time)),
        ("gc_ns", ms(sum(|stage| stage.jvm_gc_time))),
        ("fetch_wait_ns", ms(sum(|stage| stage.shuffle_fetch_wait_time))),
        ("shuffle_write_ns", sum(|stage| stage.shuffle_write_time)),
    ];
    SparkNumbers { executor: None, numbers }
}
