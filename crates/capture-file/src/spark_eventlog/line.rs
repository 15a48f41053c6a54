//! A line of an event log: which event it is, and what is used of it. Everything else is skipped without being built: half of the
//! end of a task are accumulables, and the properties of a job are the whole configuration.

use super::memory::Sampled;
use super::texts::Reason;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Events of Spark that say nothing about times, or repeat what others say.
const OTHERS: [&str; 15] = [
    "SparkListenerBlockManagerRemoved",
    "SparkListenerBlockUpdated",
    "SparkListenerDriverAccumUpdates",
    "SparkListenerExecutorMetricsUpdate",
    "SparkListenerMiscellaneousProcessAdded",
    "SparkListenerSQLAdaptiveExecutionUpdate",
    "SparkListenerSQLAdaptiveSQLMetricUpdates",
    "SparkListenerSpeculativeTaskSubmitted",
    "SparkListenerTaskGettingResult",
    "SparkListenerUnpersistRDD",
    "SparkListenerUnschedulableTaskSetAdded",
    "SparkListenerUnschedulableTaskSetRemoved",
    "StreamingQueryListener$QueryProgressEvent",
    "StreamingQueryListener$QueryStartedEvent",
    "StreamingQueryListener$QueryTerminatedEvent",
];

/// An event, as far as it is used.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most lines are ends of tasks, and a box would be an allocation for each"
)]
pub enum Event<'a> {
    LogStart(LogStart<'a>),
    ApplicationStart(ApplicationStart<'a>),
    ApplicationEnd(ApplicationEnd),
    /// Until when the application is known to run; of ours, where no log is read.
    Now(ApplicationEnd),
    /// What a driver has forgotten; of ours, too.
    Forgotten(Forgotten),
    Environment(Environment<'a>),
    BlockManagerAdded(BlockManagerAdded<'a>),
    StageExecutorMetrics(StageExecutorMetrics<'a>),
    ResourceProfileAdded(ResourceProfileAdded<'a>),
    ExecutorAdded(ExecutorAdded<'a>),
    ExecutorRemoved(ExecutorRemoved<'a>),
    /// An executor or a node gets no more tasks: of the application, or of a stage.
    Excluded(Exclusion<'a>),
    Unexcluded(Exclusion<'a>),
    JobStart(JobStart<'a>),
    JobEnd(JobEnd<'a>),
    StageSubmitted(StageSubmitted<'a>),
    StageCompleted(StageCompleted<'a>),
    TaskStart(TaskStart<'a>),
    TaskEnd(TaskEnd<'a>),
    SqlStart(SqlStart<'a>),
    SqlEnd(SqlEnd<'a>),
    /// An event of Spark that is not used.
    Other,
    /// An event of a later version, or of something else.
    Unknown,
}

/// The event of a line; none where it is no event, or lacks what every version has.
pub fn parse(line: &[u8]) -> Option<Event<'_>> {
    let name = name(line)?;
    // Listeners outside of the core are called by their whole path.
    let short = name.rsplit('.').next().unwrap_or(&name);
    Some(match short {
        "SparkListenerTaskEnd" => Event::TaskEnd(of(line)?),
        "SparkListenerTaskStart" => Event::TaskStart(of(line)?),
        "SparkListenerStageSubmitted" => Event::StageSubmitted(of(line)?),
        "SparkListenerStageCompleted" => Event::StageCompleted(of(line)?),
        "SparkListenerJobStart" => Event::JobStart(of(line)?),
        "SparkListenerJobEnd" => Event::JobEnd(of(line)?),
        "SparkListenerSQLExecutionStart" => Event::SqlStart(of(line)?),
        "SparkListenerSQLExecutionEnd" => Event::SqlEnd(of(line)?),
        "SparkListenerExecutorAdded" => Event::ExecutorAdded(of(line)?),
        "SparkListenerExecutorRemoved" => Event::ExecutorRemoved(of(line)?),
        // Until Spark 3.0 under the second name, since then under both.
        "SparkListenerExecutorExcluded"
        | "SparkListenerExecutorBlacklisted"
        | "SparkListenerExecutorExcludedForStage"
        | "SparkListenerExecutorBlacklistedForStage"
        | "SparkListenerNodeExcluded"
        | "SparkListenerNodeBlacklisted"
        | "SparkListenerNodeExcludedForStage"
        | "SparkListenerNodeBlacklistedForStage" => Event::Excluded(of(line)?),
        "SparkListenerExecutorUnexcluded"
        | "SparkListenerExecutorUnblacklisted"
        | "SparkListenerNodeUnexcluded"
        | "SparkListenerNodeUnblacklisted" => Event::Unexcluded(of(line)?),
        "SparkListenerStageExecutorMetrics" => Event::StageExecutorMetrics(of(line)?),
        "SparkListenerBlockManagerAdded" => Event::BlockManagerAdded(of(line)?),
        "SparkListenerEnvironmentUpdate" => {
            of(line).map_or_else(|| other(line), |event| Some(Event::Environment(event)))?
        }
        "SparkListenerResourceProfileAdded" => {
            of(line).map_or_else(|| other(line), |event| Some(Event::ResourceProfileAdded(event)))?
        }
        "SparkListenerApplicationStart" => Event::ApplicationStart(of(line)?),
        "SparkListenerApplicationEnd" => Event::ApplicationEnd(of(line)?),
        "LatscopeNow" => Event::Now(of(line)?),
        "LatscopeForgotten" => Event::Forgotten(of(line)?),
        "SparkListenerLogStart" => Event::LogStart(of(line)?),
        // These are not parsed, as plans may be megabytes; but one that was cut seldom ends as JSON does.
        _ if !line.trim_ascii_end().ends_with(b"}") => return None,
        short if OTHERS.binary_search(&short).is_ok() || name.contains(".catalyst.catalog.") => Event::Other,
        _ => Event::Unknown,
    })
}

/// An event that other versions write in another form. A damaged one is malformed: if it were skipped, the defaults of Spark would be taken for
/// the settings of the application.
fn other(line: &[u8]) -> Option<Event<'_>> {
    of::<serde::de::IgnoredAny>(line).map(|_| Event::Other)
}

/// The class of the event. Spark writes it first.
fn name(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Name<'a> {
        #[serde(rename = "Event", borrow)]
        event: Cow<'a, str>,
    }
    if let Some(rest) = line.strip_prefix(b"{\"Event\":\"")
        && let Some(end) = memchr::memchr2(b'"', b'\\', rest)
        && rest[end] == b'"'
    {
        return std::str::from_utf8(&rest[..end]).ok().map(Cow::Borrowed);
    }
    of::<Name>(line).map(|name| name.event)
}

fn of<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

#[derive(Deserialize, Debug)]
pub struct LogStart<'a> {
    #[serde(rename = "Spark Version", borrow)]
    pub version: Cow<'a, str>,
    /// `REST` where no log is read.
    #[serde(rename = "Source", borrow)]
    pub source: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Debug)]
pub struct ApplicationStart<'a> {
    #[serde(rename = "App Name", borrow)]
    pub name: Cow<'a, str>,
    #[serde(rename = "App ID", borrow)]
    pub id: Option<Cow<'a, str>>,
    /// A number from 1, where the cluster may start the application again.
    #[serde(rename = "App Attempt ID", borrow)]
    pub attempt: Option<Cow<'a, str>>,
    #[serde(rename = "Timestamp")]
    pub at_ms: i64,
}

#[derive(Deserialize, Debug)]
pub struct ApplicationEnd {
    #[serde(rename = "Timestamp")]
    pub at_ms: i64,
    /// That of the driver; since Spark 4.
    #[serde(rename = "ExitCode")]
    pub exit_code: Option<i64>,
}

/// What nobody can ask a driver for any more: tasks of stages that it knows, and jobs and stages as a whole.
#[derive(Deserialize, Debug)]
pub struct Forgotten {
    #[serde(rename = "Tasks", default)]
    pub tasks: u64,
    #[serde(rename = "Parts", default)]
    pub parts: u64,
    /// Of the tasks, those that ran when it was asked before.
    #[serde(rename = "Running", default)]
    pub running: Vec<i64>,
}

/// The settings of the application; everything else of its environment is skipped.
#[derive(Deserialize, Debug)]
pub struct Environment<'a> {
    #[serde(rename = "Spark Properties", borrow)]
    pub settings: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// The room that an executor, or the driver, has for execution and storage together.
#[derive(Deserialize, Debug)]
pub struct BlockManagerAdded<'a> {
    #[serde(rename = "Block Manager ID", borrow)]
    pub id: BlockManagerId<'a>,
    #[serde(rename = "Timestamp")]
    pub at_ms: i64,
    #[serde(rename = "Maximum Memory")]
    pub most: i64,
    #[serde(rename = "Maximum Onheap Memory")]
    pub most_on_heap: Option<i64>,
    #[serde(rename = "Maximum Offheap Memory")]
    pub most_off_heap: Option<i64>,
}

#[derive(Deserialize, Debug)]
pub struct BlockManagerId<'a> {
    #[serde(rename = "Executor ID", borrow)]
    pub executor: Cow<'a, str>,
}

#[derive(Deserialize, Debug)]
pub struct StageExecutorMetrics<'a> {
    #[serde(rename = "Executor ID", borrow)]
    pub executor: Cow<'a, str>,
    /// None of peaks since the start of the executor.
    #[serde(rename = "Stage ID")]
    pub stage: Option<i64>,
    #[serde(rename = "Stage Attempt ID", default)]
    pub stage_attempt: i64,
    #[serde(rename = "Executor Metrics")]
    pub peaks: Sampled,
}

#[derive(Deserialize, Debug)]
pub struct ExecutorAdded<'a> {
    #[serde(rename = "Timestamp")]
    pub at_ms: i64,
    #[serde(rename = "Executor ID", borrow)]
    pub id: Cow<'a, str>,
    #[serde(rename = "Executor Info", borrow)]
    pub info: ExecutorInfo<'a>,
}

#[derive(Deserialize, Debug)]
pub struct ExecutorInfo<'a> {
    #[serde(rename = "Host", borrow)]
    pub host: Cow<'a, str>,
    #[serde(rename = "Total Cores")]
    pub cores: i64,
    #[serde(rename = "Resource Profile Id", default)]
    pub profile: i64,
}

/// What the executors and tasks of some stages have instead of the settings. The profile 0 is that of the settings.
#[derive(Deserialize, Debug)]
pub struct ResourceProfileAdded<'a> {
    #[serde(rename = "Resource Profile Id")]
    pub id: i64,
    #[serde(rename = "Executor Resource Requests", borrow, default)]
    pub executor: BTreeMap<Cow<'a, str>, Amount>,
    #[serde(rename = "Task Resource Requests", borrow, default)]
    pub task: BTreeMap<Cow<'a, str>, Amount>,
}

/// So much of a resource; of memory, mebibytes.
#[derive(Deserialize, Debug)]
pub struct Amount {
    #[serde(rename = "Amount")]
    pub amount: f64,
}

#[derive(Deserialize, Debug)]
pub struct ExecutorRemoved<'a> {
    #[serde(rename = "Timestamp")]
    pub at_ms: i64,
    #[serde(rename = "Executor ID", borrow)]
    pub id: Cow<'a, str>,
    #[serde(rename = "Removed Reason", borrow)]
    pub reason: Option<Cow<'a, str>>,
}

/// An executor or a node that failed too often, or may be used again.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Exclusion<'a> {
    #[serde(rename = "time")]
    pub at_ms: i64,
    /// None of a node.
    #[serde(borrow)]
    pub executor_id: Option<Cow<'a, str>>,
    /// None of an executor.
    #[serde(borrow)]
    pub host_id: Option<Cow<'a, str>>,
    /// How many tasks failed on the executor.
    pub task_failures: Option<i64>,
    /// How many executors of the node were excluded.
    pub executor_failures: Option<i64>,
    /// Of which stage; none of the whole application.
    pub stage_id: Option<i64>,
    #[serde(default)]
    pub stage_attempt_id: i64,
}

/// What a user said of a job, of the many properties that it has.
#[derive(Deserialize, Debug, Default)]
pub struct Properties<'a> {
    #[serde(rename = "spark.jobGroup.id", borrow)]
    pub group: Option<Cow<'a, str>>,
    #[serde(rename = "spark.job.description", borrow)]
    pub description: Option<Cow<'a, str>>,
    #[serde(rename = "spark.sql.execution.id", borrow)]
    pub sql: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Debug)]
pub struct JobStart<'a> {
    #[serde(rename = "Job ID")]
    pub id: i64,
    #[serde(rename = "Submission Time")]
    pub at_ms: Option<i64>,
    #[serde(rename = "Stage IDs", default)]
    pub stages: Vec<i64>,
    #[serde(rename = "Stage Infos", default)]
    pub infos: Vec<JobStage>,
    #[serde(rename = "Properties", borrow)]
    pub properties: Option<Properties<'a>>,
}

/// A stage as the job lists it that needs it.
#[derive(Deserialize, Debug)]
pub struct JobStage {
    #[serde(rename = "Stage ID")]
    pub id: Option<i64>,
    #[serde(rename = "Number of Tasks")]
    pub tasks: Option<i64>,
}

impl JobStart<'_> {
    /// The stage that gives the result, and how many tasks it has: the one that Spark made last.
    pub fn result_stage(&self) -> Option<(i64, i64)> {
        let last = *self.stages.iter().max()?;
        let info = self.infos.iter().find(|info| info.id == Some(last));
        Some((last, info.and_then(|info| info.tasks).unwrap_or(0)))
    }
}

#[derive(Deserialize, Debug)]
pub struct JobEnd<'a> {
    #[serde(rename = "Job ID")]
    pub id: i64,
    #[serde(rename = "Completion Time")]
    pub at_ms: Option<i64>,
    #[serde(rename = "Job Result", borrow)]
    pub result: JobResult<'a>,
}

#[derive(Deserialize, Debug)]
pub struct JobResult<'a> {
    #[serde(rename = "Result", borrow)]
    pub result: Cow<'a, str>,
    #[serde(rename = "Exception", borrow)]
    pub exception: Option<Exception<'a>>,
}

#[derive(Deserialize, Debug)]
pub struct Exception<'a> {
    #[serde(rename = "Message", borrow)]
    pub message: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Debug)]
pub struct StageSubmitted<'a> {
    #[serde(rename = "Stage Info", borrow)]
    pub info: StageInfo<'a>,
    #[serde(rename = "Properties", borrow)]
    pub properties: Option<Properties<'a>>,
}

#[derive(Deserialize, Debug)]
pub struct StageCompleted<'a> {
    #[serde(rename = "Stage Info", borrow)]
    pub info: StageInfo<'a>,
}

#[derive(Deserialize, Debug)]
pub struct StageInfo<'a> {
    #[serde(rename = "Stage ID")]
    pub id: i64,
    #[serde(rename = "Stage Attempt ID", default)]
    pub attempt: i64,
    #[serde(rename = "Stage Name", borrow)]
    pub name: Cow<'a, str>,
    #[serde(rename = "Submission Time")]
    pub submission_ms: Option<i64>,
    #[serde(rename = "Completion Time")]
    pub completion_ms: Option<i64>,
    #[serde(rename = "Failure Reason", borrow)]
    pub failure: Option<Cow<'a, str>>,
    #[serde(rename = "Number of Tasks", default)]
    pub tasks: i64,
    #[serde(rename = "Resource Profile Id", default)]
    pub profile: i64,
    #[serde(rename = "RDD Info", borrow, default)]
    pub rdds: Vec<Rdd<'a>>,
}

/// What a stage computes: the class of a data set, and the operator of the plan that made it.
#[derive(Deserialize, Debug)]
pub struct Rdd<'a> {
    #[serde(rename = "Name", borrow)]
    pub name: Option<Cow<'a, str>>,
    #[serde(rename = "Scope", borrow)]
    pub scope: Option<Cow<'a, str>>,
}

impl StageInfo<'_> {
    /// Whether workers in Python run a part of the stage.
    pub fn runs_python(&self) -> bool {
        let is_python = |text: &str| ["Python", "Pandas", "InArrow"].iter().any(|word| text.contains(word));
        self.rdds.iter().any(|rdd| [&rdd.name, &rdd.scope].into_iter().flatten().any(|text| is_python(text)))
    }
}

#[derive(Deserialize, Debug)]
pub struct TaskStart<'a> {
    #[serde(rename = "Stage ID")]
    pub stage: i64,
    #[serde(rename = "Stage Attempt ID", default)]
    pub stage_attempt: i64,
    #[serde(rename = "Task Info", borrow)]
    pub info: TaskInfo<'a>,
}

#[derive(Deserialize, Debug)]
pub struct TaskEnd<'a> {
    #[serde(rename = "Stage ID")]
    pub stage: i64,
    #[serde(rename = "Stage Attempt ID", default)]
    pub stage_attempt: i64,
    #[serde(rename = "Task End Reason", borrow)]
    pub reason: Reason<'a>,
    #[serde(rename = "Task Info", borrow)]
    pub info: TaskInfo<'a>,
    /// Those of failed tasks, too; none of tasks whose executor was lost.
    #[serde(rename = "Task Metrics")]
    pub metrics: Option<Metrics>,
    /// Peaks of the executor while the task ran.
    #[serde(rename = "Task Executor Metrics", default)]
    pub peaks: Sampled,
}

#[derive(Deserialize, Debug)]
pub struct TaskInfo<'a> {
    #[serde(rename = "Task ID")]
    pub id: i64,
    #[serde(rename = "Index")]
    pub index: i64,
    #[serde(rename = "Attempt", default)]
    pub attempt: i64,
    #[serde(rename = "Launch Time")]
    pub launch_ms: i64,
    #[serde(rename = "Executor ID", borrow)]
    pub executor: Cow<'a, str>,
    #[serde(rename = "Host", borrow)]
    pub host: Cow<'a, str>,
    #[serde(rename = "Locality", borrow)]
    pub locality: Cow<'a, str>,
    #[serde(rename = "Speculative", default)]
    pub speculative: bool,
    /// 0 where the result came with the end of the task.
    #[serde(rename = "Getting Result Time", default)]
    pub getting_result_ms: i64,
    #[serde(rename = "Finish Time", default)]
    pub finish_ms: i64,
    #[serde(rename = "Failed", default)]
    pub failed: bool,
    #[serde(rename = "Killed", default)]
    pub killed: bool,
}

/// Milliseconds, unless the name says nanoseconds; a version of Spark that lacks a number gives none.
#[derive(Deserialize, Debug)]
pub struct Metrics {
    #[serde(rename = "Executor Deserialize Time")]
    pub deserialize_ms: Option<i64>,
    #[serde(rename = "Executor Deserialize CPU Time")]
    pub deserialize_cpu_ns: Option<i64>,
    #[serde(rename = "Executor Run Time")]
    pub run_ms: Option<i64>,
    #[serde(rename = "Executor CPU Time")]
    pub cpu_ns: Option<i64>,
    #[serde(rename = "Peak Execution Memory")]
    pub peak_memory: Option<i64>,
    #[serde(rename = "Result Size")]
    pub result_size: Option<i64>,
    #[serde(rename = "JVM GC Time")]
    pub gc_ms: Option<i64>,
    #[serde(rename = "Result Serialization Time")]
    pub result_serialization_ms: Option<i64>,
    #[serde(rename = "Memory Bytes Spilled")]
    pub spilled: Option<i64>,
    #[serde(rename = "Disk Bytes Spilled")]
    pub disk_spilled: Option<i64>,
    #[serde(rename = "Shuffle Read Metrics", default)]
    pub shuffle_read: ShuffleRead,
    #[serde(rename = "Shuffle Write Metrics", default)]
    pub shuffle_write: ShuffleWrite,
    #[serde(rename = "Input Metrics", default)]
    pub input: Input,
    #[serde(rename = "Output Metrics", default)]
    pub output: Output,
}

impl Metrics {
    /// Whether no number is below 0, and no time longer than nanoseconds can count.
    pub fn is_possible(&self) -> bool {
        const MOST_MS: i64 = i64::MAX / 1_000_000;
        let (read, write) = (&self.shuffle_read, &self.shuffle_write);
        let ms = [self.deserialize_ms, self.run_ms, self.gc_ms, self.result_serialization_ms, read.fetch_wait_ms];
        let own =
            [self.deserialize_cpu_ns, self.cpu_ns, self.peak_memory, self.result_size, self.spilled, self.disk_spilled];
        let moved = [self.input.bytes, self.input.records, self.output.bytes, self.output.records];
        let fetched = [read.remote_blocks, read.local_blocks, read.remote, read.to_disk, read.local, read.records];
        let written = [write.bytes, write.write_ns, write.records];
        let counts = own.into_iter().chain(moved).chain(fetched).chain(written);
        ms.into_iter().flatten().all(|ms| (0..=MOST_MS).contains(&ms)) && counts.flatten().all(|count| count >= 0)
    }
}

#[derive(Deserialize, Debug, Default)]
pub struct ShuffleRead {
    #[serde(rename = "Remote Blocks Fetched")]
    pub remote_blocks: Option<i64>,
    #[serde(rename = "Local Blocks Fetched")]
    pub local_blocks: Option<i64>,
    #[serde(rename = "Fetch Wait Time")]
    pub fetch_wait_ms: Option<i64>,
    #[serde(rename = "Remote Bytes Read")]
    pub remote: Option<i64>,
    #[serde(rename = "Remote Bytes Read To Disk")]
    pub to_disk: Option<i64>,
    #[serde(rename = "Local Bytes Read")]
    pub local: Option<i64>,
    #[serde(rename = "Total Records Read")]
    pub records: Option<i64>,
}

#[derive(Deserialize, Debug, Default)]
pub struct ShuffleWrite {
    #[serde(rename = "Shuffle Bytes Written")]
    pub bytes: Option<i64>,
    #[serde(rename = "Shuffle Write Time")]
    pub write_ns: Option<i64>,
    #[serde(rename = "Shuffle Records Written")]
    pub records: Option<i64>,
}

#[derive(Deserialize, Debug, Default)]
pub struct Input {
    #[serde(rename = "Bytes Read")]
    pub bytes: Option<i64>,
    #[serde(rename = "Records Read")]
    pub records: Option<i64>,
}

#[derive(Deserialize, Debug, Default)]
pub struct Output {
    #[serde(rename = "Bytes Written")]
    pub bytes: Option<i64>,
    #[serde(rename = "Records Written")]
    pub records: Option<i64>,
}

#[derive(Deserialize, Debug)]
pub struct SqlStart<'a> {
    #[serde(rename = "executionId")]
    pub id: i64,
    #[serde(borrow)]
    pub description: Option<Cow<'a, str>>,
    #[serde(rename = "time")]
    pub at_ms: i64,
}

#[derive(Deserialize, Debug)]
pub struct SqlEnd<'a> {
    #[serde(rename = "executionId")]
    pub id: i64,
    #[serde(rename = "time")]
    pub at_ms: i64,
    /// Missing before Spark 3.4; empty where it succeeded.
    #[serde(rename = "errorMessage", borrow)]
    pub error: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_other_events_are_sorted() {
        assert!(OTHERS.is_sorted());
    }

    #[test]
    fn lines_are_events_by_their_class() {
        let start = r#"{"Event":"SparkListenerJobStart","Job ID":3,"Submission Time":9,"Stage Infos":[{},{"Stage ID":2,"Number of Tasks":8}],"Stage IDs":[2,1],
            "Properties":{"x":"y","spark.job.description":"a \"b\"","spark.sql.execution.id":"7"}}"#;
        let Some(Event::JobStart(job)) = parse(start.as_bytes()) else { panic!() };
        assert_eq!((job.id, job.at_ms, &job.stages[..]), (3, Some(9), &[2, 1][..]));
        assert_eq!(job.result_stage(), Some((2, 8)));
        let properties = job.properties.unwrap();
        assert_eq!((properties.group, properties.sql.as_deref()), (None, Some("7")));
        assert_eq!(properties.description.as_deref(), Some("a \"b\""));
        // Whatever comes first.
        let late = br#" {"Timestamp":7, "Event":"\u0053parkListenerApplicationEnd"}"#;
        assert!(matches!(parse(late), Some(Event::ApplicationEnd(ApplicationEnd { at_ms: 7, exit_code: None }))));
        let path =
            br#"{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd","executionId":1,"time":2}"#;
        assert!(matches!(parse(path), Some(Event::SqlEnd(SqlEnd { id: 1, at_ms: 2, error: None }))));
        assert!(matches!(parse(br#"{"Event":"SparkListenerUnpersistRDD","RDD ID":1}"#), Some(Event::Other)));
        assert!(matches!(parse(br#"{"Event":"DBCEventLoggingListenerMetadata"}"#), Some(Event::Unknown)));
        for wrong in [&b"{}"[..], b"[]", b"", br#"{"Event":"SparkListenerApplicationEnd"}"#, br#"{"Event":1}"#] {
            assert!(parse(wrong).is_none());
        }
    }
}
