//! What the tasks of a Spark application add up to: counters by stage, tasks that ran against cores over time, long tails, stragglers.

use latscope_event::{Batch, Field, FieldSet, MISSING_I64, MISSING_U64};
use std::collections::{BTreeMap, HashMap};

/// Fields of a task that are added up; of peak memory, the greatest counts.
const COUNTED: [Field; 25] = [
    Field::RunTime,
    Field::CpuTime,
    Field::Deserialize,
    Field::DeserializeCpu,
    Field::ResultSerialization,
    Field::GcTime,
    Field::FetchWait,
    Field::ShuffleWrite,
    Field::ResultSize,
    Field::DiskSpilled,
    Field::Spilled,
    Field::PeakMemory,
    Field::InputRecords,
    Field::InputBytes,
    Field::OutputRecords,
    Field::OutputBytes,
    Field::ShuffleRecords,
    Field::LocalBlocks,
    Field::RemoteBlocks,
    Field::ShuffleLocal,
    Field::ShuffleRemote,
    Field::ShuffleToDisk,
    Field::ShuffleWritten,
    Field::ShuffleWrittenRecords,
    Field::GettingResult,
];
/// By which parts of its time a straggler is compared with the median of its stage.
const PARTS: [Field; 8] = [
    Field::CpuTime,
    Field::GcTime,
    Field::FetchWait,
    Field::ShuffleWrite,
    Field::Remainder,
    Field::Deserialize,
    Field::SchedulerDelay,
    Field::GettingResult,
];
/// A stage of fewer tasks has no stragglers.
const COMPARABLE: usize = 4;
/// A straggler takes half as long again as the median, and so much longer.
const LEAST_MORE_NS: u64 = 100_000_000;

/// Sums of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSums {
    /// Tasks that ended, however they did.
    pub tasks: u64,
    /// Those that failed or were killed.
    pub failed: u64,
    /// Their time from launch to finish, nanoseconds.
    pub task_ns: u64,
    sums: [u64; COUNTED.len()],
}

impl TaskSums {
    /// The sum of a field in its unit; of peak memory the greatest value.
    pub fn get(&self, field: Field) -> u64 {
        COUNTED.iter().position(|&counted| counted == field).map_or(0, |at| self.sums[at])
    }

    /// Run time that is neither CPU, GC, fetch wait nor shuffle write, nanoseconds.
    pub fn remainder_ns(&self) -> u64 {
        let inside =
            [Field::CpuTime, Field::GcTime, Field::FetchWait, Field::ShuffleWrite].map(|field| self.get(field));
        self.get(Field::RunTime).saturating_sub(inside.iter().sum())
    }

    /// Task time that is neither run time, deserialization, serialization of results nor their fetch, nanoseconds.
    pub fn scheduler_delay_ns(&self) -> u64 {
        let others = [Field::RunTime, Field::Deserialize, Field::ResultSerialization, Field::GettingResult];
        self.task_ns.saturating_sub(others.iter().map(|&field| self.get(field)).sum())
    }

    fn add(&mut self, batch: &Batch, row: usize) {
        self.tasks += 1;
        self.failed += u64::from(batch.text(Field::Error, row).is_some());
        self.task_ns = self.task_ns.saturating_add(batch.latency()[row]);
        for (sum, field) in self.sums.iter_mut().zip(COUNTED) {
            let value = value(batch, field, row).unwrap_or(0);
            *sum = if field == Field::PeakMemory { value.max(*sum) } else { sum.saturating_add(value) };
        }
    }

    /// Adds those of another stage.
    pub fn merge(&mut self, other: &TaskSums) {
        self.tasks += other.tasks;
        self.failed += other.failed;
        self.task_ns = self.task_ns.saturating_add(other.task_ns);
        for ((sum, more), field) in self.sums.iter_mut().zip(other.sums).zip(COUNTED) {
            *sum = if field == Field::PeakMemory { more.max(*sum) } else { sum.saturating_add(more) };
        }
    }
}

fn value(batch: &Batch, field: Field, row: usize) -> Option<u64> {
    match (batch.u64s(field), batch.i64s(field)) {
        (Some(values), _) => Some(values[row]).filter(|&value| value != MISSING_U64),
        (_, Some(values)) => u64::try_from(values[row]).ok(),
        _ => None,
    }
}

struct Task {
    id: i64,
    start_ns: i64,
    end_ns: i64,
    executor: u32,
    size: u64,
    parts: [u64; PARTS.len()],
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
    /// Submission and completion; of one that has not completed, what its tasks show.
    pub span_ns: Option<(i64, i64)>,
    /// What its tasks add up to.
    pub sums: TaskSums,
    tasks: Vec<Task>,
}

/// A task that took much longer than the others of its stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// Stage and attempt.
    pub stage: (i64, i64),
    /// The task.
    pub task: i64,
    /// Its executor.
    pub executor: String,
    /// How long it took, and the median of its stage, nanoseconds.
    pub took_ns: [u64; 2],
    /// What it worked on, and the median, bytes.
    pub bytes: [u64; 2],
    /// The part of its time that exceeds the median most, and by how much.
    pub part: Option<(Field, u64)>,
    /// Whether it had more than its share of the data.
    pub is_skewed: bool,
}

/// A moment from which so many tasks ran on so many cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveTasks {
    /// From when on.
    pub start_ns: i64,
    /// Tasks that ran.
    pub tasks: u64,
    /// Cores of all executors.
    pub cores: u64,
}

/// An application in the making.
#[derive(Default)]
pub struct SparkTasks {
    /// Stages by number and attempt.
    pub stages: BTreeMap<(i64, i64), SparkStage>,
    cores: Vec<(i64, i64, u64)>,
    executors: Vec<String>,
    codes: HashMap<String, u32>,
}

impl SparkTasks {
    /// The fields that [`SparkTasks::add`] reads.
    pub fn fields() -> FieldSet {
        let others = [Field::Kind, Field::Name, Field::Job, Field::Sql, Field::Stage, Field::StageAttempt, Field::Task];
        let more = [Field::Executor, Field::Cores, Field::Size, Field::Error, Field::Remainder, Field::SchedulerDelay];
        FieldSet::ALWAYS.with(&COUNTED).with(&others).with(&more)
    }

    /// Adds a row: a task, a stage or an executor.
    pub fn add(&mut self, batch: &Batch, row: usize) {
        let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
        let end_ns = start_ns.saturating_add_unsigned(latency_ns);
        let number = |field| batch.i64s(field).map(|values| values[row]).filter(|&value| value != MISSING_I64);
        let text = |field| batch.text(field, row).unwrap_or_default();
        match batch.text(Field::Kind, row) {
            Some("executor") => {
                self.cores.push((start_ns, end_ns, number(Field::Cores).map_or(0, i64::unsigned_abs)));
            }
            Some(kind @ ("task" | "stage")) => {
                let id = (number(Field::Stage).unwrap_or(0), number(Field::StageAttempt).unwrap_or(0));
                let executor = self.code(text(Field::Executor));
                let stage = self.stages.entry(id).or_insert_with(|| SparkStage {
                    name: text(Field::Name).into(),
                    job: text(Field::Job).into(),
                    sql: number(Field::Sql),
                    ..SparkStage::default()
                });
                if kind == "stage" {
                    stage.span_ns = Some((start_ns, end_ns));
                    return;
                }
                stage.sums.add(batch, row);
                let parts = PARTS.map(|field| value(batch, field, row).unwrap_or(0));
                let size = value(batch, Field::Size, row).unwrap_or(0);
                let id = number(Field::Task).unwrap_or(0);
                stage.tasks.push(Task { id, start_ns, end_ns, executor, size, parts });
            }
            _ => {}
        }
    }

    fn code(&mut self, executor: &str) -> u32 {
        if let Some(&code) = self.codes.get(executor) {
            return code;
        }
        let code = self.executors.len() as u32;
        self.executors.push(executor.into());
        self.codes.insert(executor.into(), code);
        code
    }

    /// What all tasks add up to.
    pub fn total(&self) -> TaskSums {
        let mut total = TaskSums::default();
        self.stages.values().for_each(|stage| total.merge(&stage.sums));
        total
    }

    /// From the first launch to the last finish of a task.
    pub fn span_ns(&self) -> Option<(i64, i64)> {
        let tasks = || self.stages.values().flat_map(|stage| &stage.tasks);
        Some((tasks().map(|task| task.start_ns).min()?, tasks().map(|task| task.end_ns).max()?))
    }

    /// How many tasks ran on how many cores, exactly: a step at each moment at which either changes. There may be more tasks than
    /// cores, as the driver frees a core before it notes the finish.
    pub fn active(&self) -> Vec<ActiveTasks> {
        let mut changes = BTreeMap::<i64, (i64, i64)>::new();
        for task in self.stages.values().flat_map(|stage| &stage.tasks) {
            changes.entry(task.start_ns).or_default().0 += 1;
            changes.entry(task.end_ns).or_default().0 -= 1;
        }
        for &(start_ns, end_ns, cores) in &self.cores {
            changes.entry(start_ns).or_default().1 += cores as i64;
            changes.entry(end_ns).or_default().1 -= cores as i64;
        }
        let (mut tasks, mut cores) = (0, 0);
        let step = |(start_ns, (more_tasks, more_cores)): (i64, (i64, i64))| {
            (tasks, cores) = (tasks + more_tasks, cores + more_cores);
            ActiveTasks { start_ns, tasks: tasks.max(0) as u64, cores: cores.max(0) as u64 }
        };
        changes.into_iter().map(step).collect()
    }

    /// Of each stage: when 9 of 10 of its tasks had ended, and how long cores had no task from then to its end, in core-nanoseconds.
    pub fn tails(&self, active: &[ActiveTasks]) -> BTreeMap<(i64, i64), (i64, u128)> {
        // What was idle up to each step.
        let (mut idle, mut sum) = (Vec::with_capacity(active.len()), 0u128);
        for (at, step) in active.iter().enumerate() {
            idle.push(sum);
            let end_ns = active.get(at + 1).map_or(step.start_ns, |next| next.start_ns);
            sum += u128::from(step.cores.saturating_sub(step.tasks)) * u128::from(end_ns.abs_diff(step.start_ns));
        }
        let idle_until = |ns: i64| {
            let Some(at) = active.partition_point(|step| step.start_ns <= ns).checked_sub(1) else { return 0 };
            let step = active[at];
            idle[at] + u128::from(step.cores.saturating_sub(step.tasks)) * u128::from(ns.abs_diff(step.start_ns))
        };
        let tail = |stage: &SparkStage| {
            let mut ends: Vec<i64> = stage.tasks.iter().map(|task| task.end_ns).collect();
            ends.sort_unstable();
            let from_ns = *ends.get((9 * ends.len()).div_ceil(10).checked_sub(1)?)?;
            let end_ns = stage.span_ns.map_or(0, |span| span.1).max(*ends.last()?);
            Some((from_ns, idle_until(end_ns).saturating_sub(idle_until(from_ns))))
        };
        self.stages.iter().filter_map(|(&id, stage)| Some((id, tail(stage)?))).collect()
    }

    /// The tasks that took longer than one and a half medians of their stage, and 100 ms longer; the slowest first.
    pub fn stragglers(&self) -> Vec<Straggler> {
        let mut found = Vec::new();
        for (&id, stage) in self.stages.iter().filter(|(_, stage)| stage.tasks.len() >= COMPARABLE) {
            let took = |task: &Task| task.end_ns.abs_diff(task.start_ns);
            let median_ns = median(stage.tasks.iter().map(took));
            let bytes = median(stage.tasks.iter().map(|task| task.size));
            let limit_ns = (median_ns + median_ns / 2).max(median_ns + LEAST_MORE_NS);
            let slow: Vec<&Task> = stage.tasks.iter().filter(|task| took(task) > limit_ns).collect();
            if slow.is_empty() {
                continue;
            }
            let medians: Vec<u64> =
                (0..PARTS.len()).map(|part| median(stage.tasks.iter().map(|task| task.parts[part]))).collect();
            found.extend(slow.into_iter().map(|task| {
                let more = (0..PARTS.len()).map(|part| (PARTS[part], task.parts[part].saturating_sub(medians[part])));
                Straggler {
                    stage: id,
                    task: task.id,
                    executor: self.executors.get(task.executor as usize).cloned().unwrap_or_default(),
                    took_ns: [took(task), median_ns],
                    bytes: [task.size, bytes],
                    part: more.filter(|(_, more)| *more > 0).max_by_key(|(_, more)| *more),
                    is_skewed: task.size > bytes.saturating_mul(3) / 2,
                }
            }));
        }
        found.sort_by_key(|straggler| (std::cmp::Reverse(straggler.took_ns[0] - straggler.took_ns[1]), straggler.task));
        found
    }
}

/// The median; of an even number of values, the mean of the two in the middle.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    match values.len() {
        0 => 0,
        count => values[(count - 1) / 2].midpoint(values[count / 2]),
    }
}
