//! What tasks add up to.

use latscope_event::{Batch, Field, FieldSet, MISSING_U64};

/// Into which parts the time of a task falls. The first five are its run time.
pub const TIME_PARTS: [Field; 9] = [
    Field::CpuTime,
    Field::GcTime,
    Field::FetchWait,
    Field::ShuffleWrite,
    Field::Remainder,
    Field::Deserialize,
    Field::ResultSerialization,
    Field::GettingResult,
    Field::SchedulerDelay,
];

/// Fields of a task that are added up; of peak memory, the greatest counts.
const COUNTED: [Field; 27] = [
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
    Field::Remainder,
    Field::SchedulerDelay,
];

/// No task waits so long for its launch or the note of its end, nanoseconds, and so many times as long as it took: rather, the clock of
/// the driver was set forward meanwhile, or the driver stood still.
const LEAP_NS: u64 = 60_000_000_000;
const LEAP: u64 = 10;

/// The fields that are added up.
pub(super) const COUNTED_FIELDS: FieldSet = FieldSet::EMPTY.with(&COUNTED);

/// Sums of tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSums {
    /// Tasks that ended, however they did.
    pub tasks: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were killed, such as copies of a task of which another succeeded: no failures.
    pub killed: u64,
    /// Their time from launch to finish, nanoseconds.
    pub task_ns: u64,
    /// That of tasks without metrics, whose executor was lost.
    pub unknown_ns: u64,
    /// Scheduler delay of tasks during which the clock of the driver leapt, nanoseconds.
    pub leap_ns: u64,
    sums: [u64; COUNTED.len()],
}

impl TaskSums {
    /// The sum of a field in its unit; of peak memory the greatest value.
    pub fn get(&self, field: Field) -> u64 {
        COUNTED.iter().position(|&counted| counted == field).map_or(0, |at| self.sums[at])
    }

    /// Run time that is neither CPU, GC, fetch wait nor shuffle write, of each task at least 0; nanoseconds.
    pub fn remainder_ns(&self) -> u64 {
        self.get(Field::Remainder)
    }

    /// Task time that is neither run time, deserialization, serialization of results nor their fetch, of each task at least 0;
    /// nanoseconds.
    pub fn scheduler_delay_ns(&self) -> u64 {
        self.get(Field::SchedulerDelay)
    }

    /// How much longer tasks took by the clocks of their executors than from launch to finish by that of the driver, which was set back
    /// meanwhile; nanoseconds. What the parts of a task leave of its time is scheduler delay, at least 0 each.
    pub fn set_back_ns(&self) -> u64 {
        const OUTSIDE: [Field; 5] = [
            Field::RunTime,
            Field::Deserialize,
            Field::ResultSerialization,
            Field::GettingResult,
            Field::SchedulerDelay,
        ];
        let parts_ns = OUTSIDE.iter().fold(self.unknown_ns, |sum, &part| sum.saturating_add(self.get(part)));
        parts_ns.saturating_sub(self.task_ns)
    }

    /// What tasks read: input and shuffle data, bytes.
    pub fn read_bytes(&self) -> u64 {
        [Field::InputBytes, Field::ShuffleLocal, Field::ShuffleRemote].iter().map(|&field| self.get(field)).sum()
    }

    pub(super) fn add(&mut self, batch: &Batch, row: usize) {
        self.tasks += 1;
        match batch.text(Field::Error, row) {
            Some(error) if was_killed(error) => self.killed += 1,
            Some(_) => self.failed += 1,
            None => {}
        }
        self.task_ns = self.task_ns.saturating_add(batch.latency()[row]);
        if value(batch, Field::RunTime, row).is_none() {
            self.unknown_ns = self.unknown_ns.saturating_add(batch.latency()[row]);
        }
        let delay_ns = value(batch, Field::SchedulerDelay, row).unwrap_or(0);
        if delay_ns >= LEAP_NS && delay_ns / LEAP >= batch.latency()[row].saturating_sub(delay_ns) {
            self.leap_ns = self.leap_ns.saturating_add(delay_ns);
        }
        for (sum, field) in self.sums.iter_mut().zip(COUNTED) {
            let value = value(batch, field, row).unwrap_or(0);
            *sum = if field == Field::PeakMemory { value.max(*sum) } else { sum.saturating_add(value) };
        }
    }

    /// Adds those of another stage.
    pub fn merge(&mut self, other: &TaskSums) {
        self.tasks += other.tasks;
        self.failed += other.failed;
        self.killed += other.killed;
        self.task_ns = self.task_ns.saturating_add(other.task_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(other.unknown_ns);
        self.leap_ns = self.leap_ns.saturating_add(other.leap_ns);
        for ((sum, more), field) in self.sums.iter_mut().zip(other.sums).zip(COUNTED) {
            *sum = if field == Field::PeakMemory { more.max(*sum) } else { sum.saturating_add(more) };
        }
    }
}

/// Whether an attempt ended as Spark wanted no more of it: a copy that lost, or a task of a stage that was cancelled.
pub(super) fn was_killed(error: &str) -> bool {
    matches!(error, "TaskKilled" | "TaskCommitDenied")
}

/// The number of a row; none where it is missing.
pub(super) fn value(batch: &Batch, field: Field, row: usize) -> Option<u64> {
    match (batch.u64s(field), batch.i64s(field)) {
        (Some(values), _) => Some(values[row]).filter(|&value| value != MISSING_U64),
        (_, Some(values)) => u64::try_from(values[row]).ok(),
        _ => None,
    }
}
