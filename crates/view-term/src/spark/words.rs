//! Names and causes in words.

use latscope_event::{Field, format_count, format_duration, format_size};
use latscope_series::spark::{Cause, SparkExclusion, Straggler};

/// The name of a part of the time of tasks.
pub(super) fn part_name(part: Field) -> &'static str {
    match part {
        Field::CpuTime => "CPU",
        Field::GcTime => "GC",
        Field::FetchWait => "fetch wait",
        Field::ShuffleWrite => "shuffle write",
        Field::Deserialize => "deserialize",
        Field::ResultSerialization => "serialize result",
        Field::GettingResult => "get result",
        Field::SchedulerDelay => "scheduler delay",
        _ => "remainder",
    }
}

/// A stage, with its attempt where it is not the first.
pub(super) fn stage_name((stage, attempt): (i64, i64)) -> String {
    if attempt == 0 { stage.to_string() } else { format!("{stage}.{attempt}") }
}

/// Why an executor or a node got no more tasks.
pub(super) fn why_excluded(exclusion: &SparkExclusion) -> String {
    let Some(failures) = exclusion.failures else { return "failures, of which the log has no number".into() };
    let (count, plural) = (format_count(failures), if failures == 1 { "" } else { "s" });
    let what = match exclusion.executor.is_empty() {
        true if failures == 1 => format!("{count} executor of it was excluded"),
        true => format!("{count} executors of it were excluded"),
        false => format!("{count} task{plural} failed on it"),
    };
    // The table says when it ended.
    if exclusion.ended.is_empty() { what } else { format!("{what}; {}", exclusion.ended) }
}

/// Why a task took longer, as far as its numbers show it.
pub(super) fn causes(straggler: &Straggler) -> String {
    match straggler.causes.is_empty() {
        true if straggler.is_running => "it still ran when the log ended".into(),
        true => "its metrics are missing".into(),
        false => straggler.causes.iter().map(cause).collect::<Vec<_>>().join("; "),
    }
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Skew { bytes, records } => {
            let [own, usual] = bytes.map(format_size);
            let [own_records, usual_records] = records.map(format_count);
            format!("data skew: {own} and {own_records} records, median {usual} and {usual_records}")
        }
        Cause::Slow { is_host, name, medians_ns, grade } => {
            let [there, elsewhere] = medians_ns.map(format_duration);
            let what = if *is_host { "host" } else { "executor" };
            format!("slow {what} {name} ({}): tasks take {there} there, {elsewhere} elsewhere", grade.word())
        }
        Cause::Spill { bytes } => {
            let [own, usual] = bytes.map(format_size);
            format!("spill: {own} of memory, median {usual}")
        }
        Cause::Throttled { ns } => {
            let more = format_duration(ns[0].saturating_sub(ns[1]));
            format!(
                "throttling: its executor was kept from running for {more} more, by the CPU quota of its control group"
            )
        }
        Cause::Locality { own, most } => format!("data are {own}, of most tasks {most}"),
        Cause::Part { part, ns, input, is_first } => {
            let more = format!("{} more", format_duration(ns[0].saturating_sub(ns[1])));
            match part {
                Field::CpuTime => format!("{more} CPU time"),
                Field::GcTime => format!("{more} garbage collection"),
                Field::FetchWait => format!("{more} wait for shuffle data"),
                Field::ShuffleWrite => format!("{more} shuffle write"),
                Field::Deserialize if *is_first => {
                    format!("{more} deserialization, as a first task of its executor in the stage")
                }
                Field::Deserialize => format!("{more} deserialization"),
                Field::SchedulerDelay => format!("{more} scheduler delay"),
                Field::GettingResult => format!("{more} fetch of its result"),
                Field::ResultSerialization => format!("{more} serialization of its result"),
                Field::Remainder if *is_first => {
                    format!("{more} remainder as a first task of its executor in the stage: a worker starts, or I/O")
                }
                _ if *input => format!("{more} remainder: I/O, Python or waits for a CPU"),
                _ => format!("{more} remainder without input: Python, a sleep or waits for a CPU"),
            }
        }
    }
}
