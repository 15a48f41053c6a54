//! What the REST API says, as far as it is used, and the lines of an event log that say the same.

use latscope_event::spark::SparkSpan;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Deserialize, Debug)]
pub struct App {
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub attempt_id: Option<String>,
    #[serde(default)]
    pub start_time_epoch: i64,
    /// -1 while it runs.
    #[serde(default)]
    pub end_time_epoch: i64,
    /// Of a history server, when it last read the log; of a driver, its start.
    #[serde(default)]
    pub last_updated_epoch: i64,
    #[serde(default)]
    pub completed: bool,
    pub app_spark_version: Option<String>,
}

impl Attempt {
    /// Whether the driver itself answers, not a history server that reads its log.
    pub fn is_of_driver(&self) -> bool {
        self.last_updated_epoch <= self.start_time_epoch
    }
}

/// The settings, as pairs.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    pub spark_properties: Vec<(String, String)>,
}

impl Environment {
    /// How many jobs the driver keeps.
    pub fn retained_jobs(&self) -> Option<u64> {
        let (_, jobs) = self.spark_properties.iter().find(|(name, _)| name == "spark.ui.retainedJobs")?;
        jobs.parse().ok()
    }

    pub fn line(&self) -> Line {
        let settings: serde_json::Map<String, Value> =
            self.spark_properties.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        line(0, 0, "SparkListenerEnvironmentUpdate", &json!({ "Spark Properties": settings }))
    }
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Executor {
    pub id: String,
    #[serde(default)]
    pub host_port: String,
    #[serde(default)]
    pub total_cores: i64,
    pub add_time: Option<String>,
    pub remove_time: Option<String>,
    pub remove_reason: Option<String>,
    #[serde(default)]
    completed_tasks: i64,
    #[serde(default)]
    failed_tasks: i64,
    /// The room for execution and storage, bytes.
    #[serde(default)]
    pub max_memory: i64,
    pub memory_metrics: Option<MemoryMetrics>,
    /// The greatest value of each metric since its start.
    pub peak_memory_metrics: Option<Value>,
}

/// The same room, bytes.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct MemoryMetrics {
    pub total_on_heap_storage_memory: Option<i64>,
    pub total_off_heap_storage_memory: Option<i64>,
}

#[derive(Deserialize, Debug, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub job_id: i64,
    #[serde(default)]
    pub name: String,
    pub description: Option<String>,
    pub job_group: Option<String>,
    #[serde(default)]
    pub job_tags: Vec<String>,
    pub submission_time: Option<String>,
    pub completion_time: Option<String>,
    #[serde(default)]
    pub stage_ids: Vec<i64>,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub num_completed_stages: i64,
    #[serde(default)]
    pub num_failed_stages: i64,
    #[serde(default)]
    pub num_skipped_stages: i64,
}

#[derive(Deserialize, Debug, Clone)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub id: i64,
    #[serde(default)]
    pub status: String,
    pub description: Option<String>,
    pub submission_time: Option<String>,
    /// Milliseconds.
    #[serde(default)]
    pub duration: i64,
    #[serde(default)]
    pub running_job_ids: Vec<i64>,
    #[serde(default)]
    pub success_job_ids: Vec<i64>,
    #[serde(default)]
    pub failed_job_ids: Vec<i64>,
}

/// A driver keeps so many tasks of a stage (`spark.ui.retainedTasks`).
const RETAINED: i64 = 100_000;

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    pub stage_id: i64,
    #[serde(default)]
    pub attempt_id: i64,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub num_tasks: i64,
    #[serde(default)]
    pub num_active_tasks: i64,
    #[serde(default)]
    num_complete_tasks: i64,
    #[serde(default)]
    num_failed_tasks: i64,
    #[serde(default)]
    num_killed_tasks: i64,
    pub submission_time: Option<String>,
    pub completion_time: Option<String>,
    pub failure_reason: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub task_id: i64,
    pub index: i64,
    #[serde(default)]
    pub attempt: i64,
    pub launch_time: Option<String>,
    pub result_fetch_start: Option<String>,
    /// Milliseconds; of a task that runs, so far.
    pub duration: Option<i64>,
    #[serde(default)]
    pub executor_id: String,
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub status: String,
    #[serde(default)]
    pub task_locality: String,
    #[serde(default)]
    pub speculative: bool,
    pub error_message: Option<String>,
    pub task_metrics: Option<Value>,
}

/// When something ran, of moments in milliseconds; `None` of what was never submitted.
fn span(kind: &'static str, id: i64, name: &str, start_ms: Option<i64>, end_ms: Option<i64>) -> Option<SparkSpan> {
    let ns = |ms: i64| ms.saturating_mul(1_000_000);
    Some(SparkSpan { kind, id, name: name.into(), start_ns: ns(start_ms?), end_ns: end_ms.map(ns) })
}

/// Failures of tasks whose metrics never reach the driver.
const WITHOUT_METRICS: [&str; 6] =
    ["FetchFailed", "TaskCommitDenied", "ExecutorLostFailure", "TaskResultLost", "Resubmitted", "UnknownReason"];

/// Milliseconds since 1970 of `2026-11-21T01:15:33.591GMT`, as all versions write it.
pub fn moment(text: Option<&str>) -> Option<i64> {
    let text = text?.strip_suffix("GMT")?;
    let (date, time) = text.split_once('T')?;
    let mut parts = date.split('-').chain(time.split([':', '.'])).map(|part| part.parse::<i64>().ok());
    let mut next = |least: i64, most: i64| parts.next()?.filter(|value| (least..=most).contains(value));
    let (year, month, day) = (next(1970, 9999)?, next(1, 12)?, next(1, 31)?);
    let (hours, minutes, seconds, ms) = (next(0, 23)?, next(0, 59)?, next(0, 60)?, next(0, 999)?);
    // Days since 1970 of the proleptic Gregorian calendar, with years that start in March.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms)
}

/// Milliseconds since 1970 of `Mon, 23 Nov 2026 21:32:39 GMT`, as servers date their answers.
pub fn date(text: &str) -> Option<i64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let [day, month, year, time, "GMT"] = text.split_once(", ")?.1.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let month = MONTHS.find(month).filter(|at| at % 3 == 0 && month.len() == 3)? / 3 + 1;
    moment(Some(&format!("{year}-{month}-{day}T{time}.000GMT")))
}

/// A line of the event log, and by what it is in order with others: its time, and what must be known before.
#[derive(Clone)]
pub struct Line {
    pub at_ms: i64,
    pub order: u8,
    pub text: String,
}

/// The line of an event; the class stands first, as the listener writes it.
fn line(at_ms: i64, order: u8, class: &str, event: &Value) -> Line {
    let rest = event.to_string();
    let text = format!("{{\"Event\":\"{class}\",{}\n", rest.strip_prefix('{').unwrap_or("}"));
    Line { at_ms, order, text }
}

/// The start of the log.
pub fn log_starts(version: &str) -> Line {
    line(0, 0, "SparkListenerLogStart", &json!({ "Spark Version": version, "Source": "REST" }))
}

pub fn application_starts(id: &str, name: &str, at_ms: i64) -> Line {
    let event = json!({ "App Name": name, "App ID": id, "Timestamp": at_ms });
    line(0, 1, "SparkListenerApplicationStart", &event)
}

/// Until when the application is known to run.
pub fn now(at_ms: i64) -> Line {
    line(i64::MAX, 10, "LatscopeNow", &json!({ "Timestamp": at_ms }))
}

/// What a driver has forgotten: so many tasks of stages that it knows, these among them, which ran before; and so many jobs and stages.
pub fn forgotten(tasks: u64, running: &BTreeSet<i64>, parts: u64) -> Option<Line> {
    let event = json!({ "Tasks": tasks, "Running": running, "Parts": parts });
    (tasks > 0 || parts > 0).then(|| line(i64::MAX, 9, "LatscopeForgotten", &event))
}

pub fn application_ends(at_ms: i64) -> Line {
    line(i64::MAX, 11, "SparkListenerApplicationEnd", &json!({ "Timestamp": at_ms }))
}

impl Executor {
    /// Whether it runs tasks: the driver of a cluster does not.
    pub fn runs_tasks(&self) -> bool {
        self.total_cores > 0
    }

    /// How many of its tasks have ended, without those that were killed.
    pub fn ended_tasks(&self) -> i64 {
        self.completed_tasks.saturating_add(self.failed_tasks).max(0)
    }

    pub fn added(&self) -> Option<Line> {
        let at_ms = moment(self.add_time.as_deref())?;
        let host = self.host_port.rsplit_once(':').map_or(&*self.host_port, |(host, _)| host);
        let info = json!({ "Host": host, "Total Cores": self.total_cores });
        let event = json!({ "Timestamp": at_ms, "Executor ID": self.id, "Executor Info": info });
        Some(line(at_ms, 2, "SparkListenerExecutorAdded", &event))
    }

    /// The room that it has for execution and storage.
    pub fn room(&self) -> Option<Line> {
        let at_ms = moment(self.add_time.as_deref())?;
        let of = self.memory_metrics.as_ref();
        let event = json!({
            "Block Manager ID": { "Executor ID": self.id }, "Timestamp": at_ms, "Maximum Memory": self.max_memory,
            "Maximum Onheap Memory": of.and_then(|of| of.total_on_heap_storage_memory),
            "Maximum Offheap Memory": of.and_then(|of| of.total_off_heap_storage_memory),
        });
        Some(line(at_ms, 2, "SparkListenerBlockManagerAdded", &event))
    }

    /// Its peaks of memory, which are of no stage.
    pub fn peaks(&self) -> Option<Line> {
        let peaks = self.peak_memory_metrics.as_ref().filter(|peaks| peaks.is_object())?;
        let event = json!({ "Executor ID": self.id, "Executor Metrics": peaks });
        Some(line(i64::MAX, 9, "SparkListenerStageExecutorMetrics", &event))
    }

    pub fn removed(&self) -> Option<Line> {
        let at_ms = moment(self.remove_time.as_deref())?;
        let event = json!({ "Timestamp": at_ms, "Executor ID": self.id, "Removed Reason": self.remove_reason });
        Some(line(at_ms, 10, "SparkListenerExecutorRemoved", &event))
    }
}

impl Execution {
    pub fn is_over(&self) -> bool {
        self.status != "RUNNING"
    }

    pub fn span(&self) -> Option<SparkSpan> {
        let start_ms = moment(self.submission_time.as_deref());
        let end_ms = start_ms.and_then(|start_ms| start_ms.checked_add(self.duration)).filter(|_| self.is_over());
        span("sql", self.id, self.description.as_deref().unwrap_or_default(), start_ms, end_ms)
    }

    /// Its jobs.
    pub fn jobs(&self) -> impl Iterator<Item = i64> {
        [&self.running_job_ids, &self.success_job_ids, &self.failed_job_ids].into_iter().flatten().copied()
    }

    pub fn starts(&self) -> Option<Line> {
        let at_ms = moment(self.submission_time.as_deref())?;
        let event = json!({ "executionId": self.id, "description": self.description, "time": at_ms });
        Some(line(at_ms, 3, "SparkListenerSQLExecutionStart", &event))
    }

    /// Its end. Of why it failed, the API has only what the stages of its jobs say.
    pub fn ends(&self, why: Option<&str>) -> Option<Line> {
        let at_ms = moment(self.submission_time.as_deref())?.checked_add(self.duration)?;
        let error = if self.status == "FAILED" { why.unwrap_or("FAILED") } else { "" };
        let event = json!({ "executionId": self.id, "time": at_ms, "errorMessage": error });
        Some(line(at_ms, 9, "SparkListenerSQLExecutionEnd", &event))
    }
}

impl Job {
    pub fn submitted_ms(&self) -> Option<i64> {
        moment(self.submission_time.as_deref())
    }

    pub fn has_succeeded(&self) -> bool {
        self.status == "SUCCEEDED"
    }

    pub fn is_over(&self) -> bool {
        matches!(&*self.status, "SUCCEEDED" | "FAILED") && self.completion_time.is_some()
    }

    pub fn span(&self) -> Option<SparkSpan> {
        let [start_ms, end_ms] = [&self.submission_time, &self.completion_time].map(|text| moment(text.as_deref()));
        span("job", self.job_id, self.description.as_ref().unwrap_or(&self.name), start_ms, end_ms)
    }

    /// What belongs to the job, as the properties of the log have it.
    pub fn properties(&self, sql: Option<i64>) -> Value {
        let mut properties = serde_json::Map::new();
        let sql = sql.or_else(|| self.sql_of_tags()).map(|id| id.to_string());
        for (key, value) in [
            ("spark.jobGroup.id", &self.job_group),
            ("spark.job.description", &self.description),
            ("spark.sql.execution.id", &sql),
        ] {
            properties.extend(value.as_ref().map(|value| (key.to_string(), json!(value))));
        }
        Value::Object(properties)
    }

    /// The execution that a tag of Spark 4 names: a driver may list the jobs of one that runs later.
    fn sql_of_tags(&self) -> Option<i64> {
        self.job_tags.iter().find_map(|tag| tag.rsplit_once("-execution-root-id-")?.1.parse().ok())
    }

    pub fn starts(&self, properties: &Value) -> Option<Line> {
        let at_ms = moment(self.submission_time.as_deref())?;
        let event = json!({
            "Job ID": self.job_id, "Submission Time": at_ms, "Stage IDs": self.stage_ids, "Properties": properties,
        });
        Some(line(at_ms, 4, "SparkListenerJobStart", &event))
    }

    /// Its end. Of why it failed, the API has only what its stages say: without that, a job that its user cancelled would be one that
    /// failed in the driver.
    pub fn ends(&self, why: Option<&str>) -> Option<Line> {
        let at_ms = moment(self.completion_time.as_deref())?;
        let result = match (&*self.status, why) {
            ("SUCCEEDED", _) => json!({ "Result": "JobSucceeded" }),
            (_, Some(why)) => json!({ "Result": "JobFailed", "Exception": { "Message": why } }),
            (_, None) => json!({ "Result": "JobFailed" }),
        };
        let event = json!({ "Job ID": self.job_id, "Completion Time": at_ms, "Job Result": result });
        Some(line(at_ms, 9, "SparkListenerJobEnd", &event))
    }
}

impl Stage {
    /// Whether it has ended, and all of its tasks: those of a stage that failed may run on.
    pub fn is_over(&self) -> bool {
        matches!(&*self.status, "COMPLETE" | "FAILED") && self.num_active_tasks <= 0
    }

    /// Whether all of its work is done; copies of its tasks may run on.
    pub fn is_complete(&self) -> bool {
        self.status == "COMPLETE"
    }

    pub fn has_failed(&self) -> bool {
        self.status == "FAILED"
    }

    pub fn ended_ms(&self) -> Option<i64> {
        moment(self.completion_time.as_deref())
    }

    /// How many of its tasks have ended.
    pub fn ended_tasks(&self) -> i64 {
        self.num_complete_tasks.saturating_add(self.num_failed_tasks).saturating_add(self.num_killed_tasks)
    }

    pub fn span(&self) -> Option<SparkSpan> {
        let [start_ms, end_ms] = [&self.submission_time, &self.completion_time].map(|text| moment(text.as_deref()));
        span("stage", self.stage_id, &self.name, start_ms, end_ms).filter(|_| self.has_run())
    }

    /// Whether it was ever submitted.
    pub fn has_run(&self) -> bool {
        self.submission_time.is_some() && matches!(&*self.status, "ACTIVE" | "COMPLETE" | "FAILED")
    }

    fn info(&self) -> Value {
        let [from, to] = [&self.submission_time, &self.completion_time].map(|text| moment(text.as_deref()));
        json!({
            "Stage ID": self.stage_id, "Stage Attempt ID": self.attempt_id, "Stage Name": self.name,
            "Submission Time": from, "Completion Time": to, "Failure Reason": self.failure_reason,
            // Of more tasks, a driver forgets some.
            "Number of Tasks": Some(self.num_tasks).filter(|&tasks| tasks < RETAINED).unwrap_or(0),
        })
    }

    pub fn starts(&self, properties: &Value) -> Option<Line> {
        let at_ms = moment(self.submission_time.as_deref())?;
        let event = json!({ "Stage Info": self.info(), "Properties": properties });
        Some(line(at_ms, 5, "SparkListenerStageSubmitted", &event))
    }

    pub fn ends(&self) -> Option<Line> {
        let at_ms = moment(self.completion_time.as_deref())?;
        Some(line(at_ms, 8, "SparkListenerStageCompleted", &json!({ "Stage Info": self.info() })))
    }
}

impl Task {
    pub fn is_over(&self) -> bool {
        matches!(&*self.status, "SUCCESS" | "FAILED" | "KILLED")
    }

    /// Whether it is done again, though it had succeeded: the executor with its results was lost.
    pub fn is_resubmitted(&self) -> bool {
        self.is_over() && self.reason() == "Resubmitted"
    }

    /// Until when it is known to have run.
    pub fn latest_ms(&self) -> Option<i64> {
        moment(self.launch_time.as_deref())?.checked_add(self.duration?)
    }

    /// The class of the reason why it failed, which the API has only as text.
    fn reason(&self) -> &str {
        let message = self.error_message.as_deref().unwrap_or_default();
        match &*self.status {
            "SUCCESS" => "Success",
            "KILLED" => "TaskKilled",
            _ => WITHOUT_METRICS.into_iter().find(|class| message.starts_with(class)).unwrap_or("ExceptionFailure"),
        }
    }

    fn info(&self, launch_ms: i64, finish_ms: i64) -> Value {
        json!({
            "Task ID": self.task_id, "Index": self.index, "Attempt": self.attempt, "Launch Time": launch_ms,
            "Executor ID": self.executor_id, "Host": self.host, "Locality": self.task_locality,
            "Speculative": self.speculative, "Finish Time": finish_ms,
            "Getting Result Time": moment(self.result_fetch_start.as_deref()).unwrap_or(0),
            "Failed": self.status == "FAILED", "Killed": self.status == "KILLED",
        })
    }

    pub fn starts(&self, (stage, attempt): (i64, i64)) -> Option<Line> {
        let at_ms = moment(self.launch_time.as_deref())?;
        let event = json!({ "Stage ID": stage, "Stage Attempt ID": attempt, "Task Info": self.info(at_ms, 0) });
        Some(line(at_ms, 6, "SparkListenerTaskStart", &event))
    }

    pub fn ends(&self, (stage, attempt): (i64, i64)) -> Option<Line> {
        let (launch_ms, finish_ms) = (moment(self.launch_time.as_deref())?, self.latest_ms()?);
        let reason = self.reason();
        let mut event = json!({
            "Stage ID": stage, "Stage Attempt ID": attempt, "Task End Reason": { "Reason": reason },
            "Task Info": self.info(launch_ms, finish_ms),
        });
        if let Some(message) = self.error_message.as_deref().filter(|_| reason == "ExceptionFailure") {
            let class = message.split([':', '\n']).next().unwrap_or_default();
            event["Task End Reason"] = json!({ "Reason": reason, "Class Name": class, "Description": message });
        }
        // What the API has of others are the numbers of their last heartbeat, or zeros.
        let has_metrics = !WITHOUT_METRICS.contains(&reason);
        if let Some(metrics) = self.task_metrics.as_ref().filter(|metrics| has_metrics && metrics.is_object()) {
            event["Task Metrics"] = metrics_of(metrics);
        }
        Some(line(finish_ms, 7, "SparkListenerTaskEnd", &event))
    }
}

/// The numbers of a task under the names of the log.
fn metrics_of(metrics: &Value) -> Value {
    const OWN: [(&str, &str); 10] = [
        ("Executor Deserialize Time", "executorDeserializeTime"),
        ("Executor Deserialize CPU Time", "executorDeserializeCpuTime"),
        ("Executor Run Time", "executorRunTime"),
        ("Executor CPU Time", "executorCpuTime"),
        ("Peak Execution Memory", "peakExecutionMemory"),
        ("Result Size", "resultSize"),
        ("JVM GC Time", "jvmGcTime"),
        ("Result Serialization Time", "resultSerializationTime"),
        ("Memory Bytes Spilled", "memoryBytesSpilled"),
        ("Disk Bytes Spilled", "diskBytesSpilled"),
    ];
    const READ: [(&str, &str); 7] = [
        ("Remote Blocks Fetched", "remoteBlocksFetched"),
        ("Local Blocks Fetched", "localBlocksFetched"),
        ("Fetch Wait Time", "fetchWaitTime"),
        ("Remote Bytes Read", "remoteBytesRead"),
        ("Remote Bytes Read To Disk", "remoteBytesReadToDisk"),
        ("Local Bytes Read", "localBytesRead"),
        ("Total Records Read", "recordsRead"),
    ];
    const WRITE: [(&str, &str); 3] = [
        ("Shuffle Bytes Written", "bytesWritten"),
        ("Shuffle Write Time", "writeTime"),
        ("Shuffle Records Written", "recordsWritten"),
    ];
    const INPUT: [(&str, &str); 2] = [("Bytes Read", "bytesRead"), ("Records Read", "recordsRead")];
    const OUTPUT: [(&str, &str); 2] = [("Bytes Written", "bytesWritten"), ("Records Written", "recordsWritten")];
    let named = |from: &Value, names: &[(&str, &str)]| -> serde_json::Map<String, Value> {
        let value = |key: &str| from.get(key).and_then(Value::as_i64);
        names.iter().filter_map(|(name, key)| Some((name.to_string(), json!(value(key)?)))).collect()
    };
    let mut all = named(metrics, &OWN);
    for (name, key, names) in [
        ("Shuffle Read Metrics", "shuffleReadMetrics", &READ[..]),
        ("Shuffle Write Metrics", "shuffleWriteMetrics", &WRITE),
        ("Input Metrics", "inputMetrics", &INPUT),
        ("Output Metrics", "outputMetrics", &OUTPUT),
    ] {
        all.extend(metrics.get(key).map(|part| (name.to_string(), Value::Object(named(part, names)))));
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spark_eventlog::is_event;
    use proptest::prelude::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000GMT", Some(0)),
            ("2000-02-29T12:00:00.001GMT", Some(951_825_600_001)),
            ("2026-11-21T01:13:48.376GMT", Some(1_795_223_628_376)),
            ("1969-12-31T23:59:59.999GMT", None),
            ("2026-13-21T01:13:48.376GMT", None),
            ("2026-11-21 01:13:48", None),
        ] {
            assert_eq!(moment(Some(text)), ms, "{text}");
        }
    }

    #[test]
    fn dates_of_answers_are_moments() {
        assert_eq!(date("Sat, 21 Nov 2026 01:13:48 GMT"), Some(1_795_223_628_000));
        for wrong in ["", "Sat, 21 Nov 2026 01:13:48", "Sat, 21 ovD 2026 01:13:48 GMT", "Sat, 21 N 2026 01:13:48 GMT"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    /// As Spark 4.0 answers of a task whose executor was lost: the numbers of its last heartbeat, which its log does not have.
    #[test]
    fn what_never_reached_the_driver_has_no_metrics() {
        let ends = |status: &str, message: &str| {
            let task = json!({
                "taskId": 1, "index": 0, "status": status, "errorMessage": message, "duration": 2579,
                "launchTime": "2026-11-21T01:13:48.376GMT", "taskMetrics": { "executorRunTime": 0, "executorCpuTime": 0 },
            });
            serde_json::from_value::<Task>(task).unwrap().ends((0, 0)).unwrap().text
        };
        for (status, message, has) in [
            ("SUCCESS", "", true),
            ("KILLED", "another attempt succeeded", true),
            ("FAILED", "java.lang.OutOfMemoryError: Java heap space", true),
            ("FAILED", "ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", false),
            ("FAILED", "FetchFailed(BlockManagerId(0, h, 1, None), shuffleId=0)", false),
        ] {
            assert_eq!(ends(status, message).contains("Task Metrics"), has, "{message}");
        }
        let class = "\"Class Name\":\"java.lang.OutOfMemoryError\"";
        assert!(ends("FAILED", "java.lang.OutOfMemoryError: Java heap space").contains(class));
    }

    #[test]
    fn reasons_are_classes() {
        let reason = |status: &str, message: &str| {
            let task = json!({ "taskId": 1, "index": 0, "status": status, "errorMessage": message });
            serde_json::from_value::<Task>(task).unwrap().reason().to_string()
        };
        assert_eq!(reason("SUCCESS", ""), "Success");
        assert_eq!(reason("KILLED", "another attempt succeeded"), "TaskKilled");
        assert_eq!(reason("FAILED", "ExecutorLostFailure (executor 1 exited)"), "ExecutorLostFailure");
        assert_eq!(reason("FAILED", "org.apache.spark.api.python.PythonException: x"), "ExceptionFailure");
    }

    proptest! {
        /// Whatever a server says is either refused or words that the reader of logs knows.
        #[test]
        fn any_task_is_a_line_of_the_log(
            id: i64, index: i64, duration in proptest::option::of(any::<i64>()), host: String, message: String,
            status in "SUCCESS|FAILED|KILLED|RUNNING|[A-Z]{0,4}", launch in "20[0-9]{2}-(0|1)[0-9]-[0-3][0-9]T[0-2][0-9]:00:00.[0-9]{3}GMT",
            run: i64,
        ) {
            let task = json!({
                "taskId": id, "index": index, "duration": duration, "host": host, "executorId": host, "status": status,
                "launchTime": launch, "errorMessage": message,
                "taskMetrics": { "executorRunTime": run, "inputMetrics": { "bytesRead": run } },
            });
            let task: Task = serde_json::from_value(task).unwrap();
            for line in [task.starts((1, 0)), task.ends((1, 0))].into_iter().flatten() {
                prop_assert!(line.text.ends_with('\n') && is_event(line.text.trim_end().as_bytes()), "{}", line.text);
            }
        }
    }
}
