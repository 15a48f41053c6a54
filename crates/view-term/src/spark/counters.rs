//! The counters of sparkMeasure: its names, and its rounding.

use latscope_event::Field;
use latscope_series::spark::TaskSums;
use std::fmt::Write;

/// How sparkMeasure calls a counter, and the field that it adds up. Times are milliseconds there.
const COUNTERS: [(&str, Field); 24] = [
    ("executorRunTime", Field::RunTime),
    ("executorCpuTime", Field::CpuTime),
    ("executorDeserializeTime", Field::Deserialize),
    ("executorDeserializeCpuTime", Field::DeserializeCpu),
    ("resultSerializationTime", Field::ResultSerialization),
    ("jvmGCTime", Field::GcTime),
    ("shuffleFetchWaitTime", Field::FetchWait),
    ("shuffleWriteTime", Field::ShuffleWrite),
    ("resultSize", Field::ResultSize),
    ("diskBytesSpilled", Field::DiskSpilled),
    ("memoryBytesSpilled", Field::Spilled),
    ("peakExecutionMemory", Field::PeakMemory),
    ("recordsRead", Field::InputRecords),
    ("bytesRead", Field::InputBytes),
    ("recordsWritten", Field::OutputRecords),
    ("bytesWritten", Field::OutputBytes),
    ("shuffleRecordsRead", Field::ShuffleRecords),
    ("shuffleLocalBlocksFetched", Field::LocalBlocks),
    ("shuffleRemoteBlocksFetched", Field::RemoteBlocks),
    ("shuffleLocalBytesRead", Field::ShuffleLocal),
    ("shuffleRemoteBytesRead", Field::ShuffleRemote),
    ("shuffleRemoteBytesReadToDisk", Field::ShuffleToDisk),
    ("shuffleBytesWritten", Field::ShuffleWritten),
    ("shuffleRecordsWritten", Field::ShuffleWrittenRecords),
];
/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// The counters of sparkMeasure, which rounds times down to milliseconds for each stage before it adds them up.
pub(super) fn counters<'a>(sums: &TaskSums, stages: impl Iterator<Item = &'a TaskSums> + Clone, json: &mut String) {
    let _ = write!(json, ",\"numTasks\":{}", sums.tasks);
    for (name, field) in COUNTERS {
        let value = match field.name().ends_with("_ns") {
            true => stages.clone().map(|stage| stage.get(field) / MS).sum(),
            false => sums.get(field),
        };
        let _ = write!(json, ",\"{name}\":{value}");
    }
    let blocks = sums.get(Field::LocalBlocks) + sums.get(Field::RemoteBlocks);
    let bytes = sums.get(Field::ShuffleLocal) + sums.get(Field::ShuffleRemote);
    let _ = write!(json, ",\"shuffleTotalBlocksFetched\":{blocks},\"shuffleTotalBytesRead\":{bytes}");
}
