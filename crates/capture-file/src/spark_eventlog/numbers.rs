//! The numbers of a task that ended, as columns.

use super::line::{Metrics, TaskInfo};
use latscope_event::{Batch, Field, MISSING_I64, MISSING_U64};

const NS_PER_MS: u64 = 1_000_000;

/// A number that the log has, unless it is below 0.
fn unsigned(value: Option<i64>) -> u64 {
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(MISSING_U64)
}

/// Milliseconds as nanoseconds.
fn ns(ms: Option<i64>) -> Option<u64> {
    u64::try_from(ms?).ok()?.checked_mul(NS_PER_MS).filter(|&ns| ns != MISSING_U64)
}

fn known(value: Option<u64>) -> u64 {
    value.unwrap_or(MISSING_U64)
}

fn sum(parts: &[Option<u64>]) -> Option<u64> {
    parts.iter().try_fold(0, |sum: u64, part| sum.checked_add((*part)?))
}

/// How long the executor was busy with a task by its own clock, nanoseconds.
pub fn measured_ns(metrics: &Metrics) -> Option<u64> {
    sum(&[ns(metrics.run_ms), ns(metrics.deserialize_ms), ns(metrics.result_serialization_ms)])
}

/// The numbers of a task, and what follows from them.
pub fn push_metrics(batch: &mut Batch, metrics: &Metrics, latency_ns: u64, info: &TaskInfo) {
    let (read, write) = (&metrics.shuffle_read, &metrics.shuffle_write);
    let nanoseconds = |value: Option<i64>| value.and_then(|ns| u64::try_from(ns).ok());
    let (run, cpu, gc) = (ns(metrics.run_ms), nanoseconds(metrics.cpu_ns), ns(metrics.gc_ms));
    let (fetch_wait, shuffle_write) = (ns(read.fetch_wait_ms), nanoseconds(write.write_ns));
    let (deserialize, serialize) = (ns(metrics.deserialize_ms), ns(metrics.result_serialization_ms));
    let getting_result = match info.getting_result_ms {
        ..=0 => Some(0),
        ms => ns(info.finish_ms.checked_sub(ms)),
    };
    let outside = sum(&[run, deserialize, serialize, getting_result]);
    let inside = sum(&[cpu, gc, fetch_wait, shuffle_write]);
    batch.push_u64(Field::RunTime, known(run));
    batch.push_u64(Field::CpuTime, known(cpu));
    batch.push_u64(Field::GcTime, known(gc));
    batch.push_u64(Field::FetchWait, known(fetch_wait));
    batch.push_u64(Field::ShuffleWrite, known(shuffle_write));
    batch.push_u64(Field::SchedulerDelay, known(outside.map(|outside| latency_ns.saturating_sub(outside))));
    batch.push_u64(Field::Deserialize, known(deserialize));
    batch.push_u64(Field::DeserializeCpu, unsigned(metrics.deserialize_cpu_ns));
    batch.push_u64(Field::ResultSerialization, known(serialize));
    batch.push_u64(Field::GettingResult, known(getting_result));
    batch.push_u64(Field::Remainder, known(run.zip(inside).map(|(run, inside)| run.saturating_sub(inside))));
    let bytes =
        [metrics.input.bytes, read.remote, read.local].map(|bytes| bytes.and_then(|bytes| u64::try_from(bytes).ok()));
    batch.push_u64(Field::Size, known(sum(&bytes)));
    for (field, value) in [
        (Field::Spilled, metrics.spilled),
        (Field::DiskSpilled, metrics.disk_spilled),
        (Field::PeakMemory, metrics.peak_memory),
        (Field::ResultSize, metrics.result_size),
        (Field::InputBytes, metrics.input.bytes),
        (Field::OutputBytes, metrics.output.bytes),
        (Field::ShuffleRemote, read.remote),
        (Field::ShuffleLocal, read.local),
        (Field::ShuffleToDisk, read.to_disk),
        (Field::ShuffleWritten, write.bytes),
    ] {
        batch.push_u64(field, unsigned(value));
    }
    for (field, value) in [
        (Field::InputRecords, metrics.input.records),
        (Field::OutputRecords, metrics.output.records),
        (Field::ShuffleRecords, read.records),
        (Field::RemoteBlocks, read.remote_blocks),
        (Field::LocalBlocks, read.local_blocks),
        (Field::ShuffleWrittenRecords, write.records),
    ] {
        batch.push_i64(field, value.filter(|&value| value >= 0).unwrap_or(MISSING_I64));
    }
}
