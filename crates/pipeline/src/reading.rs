//! What to read, and how events become a series: plain values that can be compared.

use crate::tags::{Tagger, Tagging};
use latscope_capture_bpf::{Requests, Sample, Source, StackKinds, StackOptions};
use latscope_capture_file::{FioColumns, Format, TwoColumns};
use latscope_event::{Field, FieldSet};
use latscope_filter::Filter;
use latscope_histogram::Grid;
use latscope_series::{CountBy, Interval, Quantity, Weight};
use std::ops::Range;
use std::path::PathBuf;

/// Which events of which files, or of the running kernel.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reading {
    /// Files, pipes (`-` is standard input) and folders of results.
    pub files: Vec<PathBuf>,
    /// Jobs, hosts and files whose events are missing in the folders that these files are of.
    pub missing: u64,
    /// Whether to wait for more at the end of the file, as `tail -F` does.
    pub follow: bool,
    /// `None` when files are read.
    pub live: Option<Live>,
    /// The format of all files; `None`: detected from their content.
    pub format: Option<Format>,
    /// Whether all system calls of a trace become events, not only those that do I/O.
    pub all_syscalls: bool,
    /// Whether only those that do I/O become events, also of captures that hold what their recorder chose.
    pub only_io: bool,
    /// Whether stages, jobs, SQL executions and executors of Spark applications become events, not only tasks.
    pub all_of_spark: bool,
    /// The filter chooses the tasks of a block of code of a Spark application, which ran from one moment to another, nanoseconds.
    pub block_ns: Option<(i64, i64)>,
    /// What was sampled of the control groups of the executors of a Spark application, a file for each host.
    pub usage: Vec<PathBuf>,
    /// How to read files of two columns.
    pub two_columns: TwoColumns,
    /// The columns of fio's logs, where they should not be inferred.
    pub fio_columns: Option<FioColumns>,
    /// Whether malformed rows are skipped and counted; else the first one is an error.
    pub lenient: bool,
    /// Whether latency counts from when a request was queued.
    pub from_queue: bool,
    /// The file of clock offsets, by host.
    pub offsets: Option<PathBuf>,
    /// Whether every trace counts from its own start, so that they lie over each other.
    pub align_starts: bool,
    /// Only events that are stored in these bytes of the file, one of its [parts](crate::Pipeline::parts).
    pub within: Option<Range<u64>>,
    /// The period of a load generator whose coordinated omission is corrected, nanoseconds.
    pub omitted_every_ns: Option<u64>,
    /// What the application did meanwhile.
    pub tagging: Option<Tagging>,
    /// Which events pass; `None`: all.
    pub filter: Option<Filter>,
    /// What headings show in its place, where a part of it was implied and not typed.
    pub typed_filter: Option<String>,
    /// Whether the reader asks when something happened: of a folder, logs are then preferred to histograms of whole jobs.
    pub over_time: bool,
}

impl Reading {
    /// All files that are read.
    pub fn inputs(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().chain(&self.offsets).chain(&self.usage).cloned()
    }

    /// The filter as headings show it; empty without one.
    pub fn filter_text(&self) -> String {
        let whole = || self.filter.as_ref().map_or(String::new(), ToString::to_string);
        self.typed_filter.clone().unwrap_or_else(whole)
    }

    /// The columns that the filter, and the choice of the latency, need.
    pub fn filter_fields(&self) -> FieldSet {
        let queue = if self.from_queue { FieldSet::default().with(&[Field::Queue]) } else { FieldSet::default() };
        let of_tags = if self.tagging.is_some() { Tagger::NEEDED } else { FieldSet::EMPTY };
        let of_filter = self.filter.as_ref().map_or(FieldSet::EMPTY, Filter::fields);
        // What a wait is tells whether a device was to be expected of it.
        let asks_device = [Field::Device, Field::Dev].iter().any(|&field| of_filter.contains(field));
        let of_waits = [Field::State, Field::SampleWeight];
        let of_waits = if asks_device { FieldSet::EMPTY.with(&of_waits) } else { FieldSet::EMPTY };
        of_filter.union(queue).union(of_tags).union(of_waits)
    }
}

/// How to capture live.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// What is captured.
    pub source: Source,
    /// How long, nanoseconds; until cancelled when not given.
    pub for_ns: Option<u64>,
    /// Only these system calls.
    pub calls: Option<Vec<String>>,
    /// Where events are counted.
    pub mode: Mode,
    /// Which events are left out.
    pub sample: Option<Sample>,
    /// How stacks are captured.
    pub stacks: StackOptions,
}

impl Live {
    /// Everything of a source, until cancelled.
    pub fn new(source: Source) -> Live {
        Live { source, for_ns: None, calls: None, mode: Mode::Auto, sample: None, stacks: StackOptions::default() }
    }
}

/// A source, as users name it: what is captured live, or which events of files are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceChoice {
    /// Requests to block devices.
    Block,
    /// System calls that do I/O, and io_uring.
    Io,
    /// All system calls.
    Syscall,
    /// All events of a Spark application.
    Spark,
    /// Stacks, with the shortest wait and the rate of ticks where they were given.
    Stacks {
        /// Which stacks.
        kinds: StackKinds,
        /// The shortest wait that is an event, nanoseconds.
        off_cpu_ns: Option<u64>,
        /// Ticks per second.
        on_cpu_hz: Option<u32>,
    },
    /// The same beside requests.
    Beside {
        /// Which requests.
        requests: Requests,
        /// As of stacks alone.
        kinds: StackKinds,
        /// As of stacks alone.
        off_cpu_ns: Option<u64>,
        /// As of stacks alone.
        on_cpu_hz: Option<u32>,
    },
}

impl SourceChoice {
    /// What is meant by `block`, `io`, `syscall`, or one or several of `stacks`, `offcpu=1ms` and `oncpu=99hz`, or both.
    ///
    /// # Errors
    /// What is wrong with these words, without a full stop.
    pub fn parse(text: &str) -> Result<SourceChoice, String> {
        match text {
            "block" => return Ok(SourceChoice::Block),
            "io" => return Ok(SourceChoice::Io),
            "syscall" => return Ok(SourceChoice::Syscall),
            "spark" => return Ok(SourceChoice::Spark),
            _ => {}
        }
        let (mut kinds, mut off_cpu_ns, mut on_cpu_hz) = (StackKinds::default(), None, None);
        let mut beside = None;
        let mut seen = Vec::new();
        for word in text.split(',') {
            let name = word.split('=').next().unwrap_or_default();
            if seen.contains(&name) {
                return Err(format!("{name} is given twice"));
            }
            seen.push(name);
            match word.split_once('=').map_or((word, None), |(word, value)| (word, Some(value))) {
                ("stacks", None) => kinds.sampled = true,
                ("offcpu", value) => {
                    kinds.off_cpu = true;
                    let parse =
                        |value| latscope_event::parse_duration(value).map_err(|error| format!("offcpu: {error}"));
                    off_cpu_ns = value.map(parse).transpose()?;
                }
                ("oncpu", value) => {
                    kinds.on_cpu = true;
                    let parse = |value: &str| match value.strip_suffix("hz").unwrap_or(value).parse() {
                        Ok(hz @ 1..=10_000) => Ok(hz),
                        _ => Err(format!("oncpu: {value} is not a rate such as 99hz, up to 10000hz")),
                    };
                    on_cpu_hz = value.map(parse).transpose()?;
                }
                ("graphite", address) => {
                    let address = address.unwrap_or("127.0.0.1:2003");
                    return Err(format!(
                        "graphite is an option of `latscope spark`: latscope spark --graphite {address}"
                    ));
                }
                ("spark", None) => return Err(format!("{word} cannot be combined with others")),
                ("block" | "io" | "syscall", None) if beside.is_some() => {
                    return Err(format!("{word}: only one of block, io and syscall can be captured at a time"));
                }
                ("block", None) => beside = Some(Requests::Block),
                ("io", None) => beside = Some(Requests::Io),
                ("syscall", None) => beside = Some(Requests::Syscall),
                _ => {
                    return Err(format!(
                        "{word} is no source; use block, io, syscall or spark, or of stacks, offcpu[=1ms] and oncpu[=99hz] \
                         one or several, separated by commas"
                    ));
                }
            }
        }
        Ok(match beside {
            Some(requests) => SourceChoice::Beside { requests, kinds, off_cpu_ns, on_cpu_hz },
            None => SourceChoice::Stacks { kinds, off_cpu_ns, on_cpu_hz },
        })
    }

    /// The words that [`SourceChoice::parse`] takes for it.
    pub fn words(self) -> String {
        match self {
            SourceChoice::Block => "block".into(),
            SourceChoice::Io => "io".into(),
            SourceChoice::Syscall => "syscall".into(),
            SourceChoice::Spark => "spark".into(),
            SourceChoice::Beside { requests, kinds, off_cpu_ns, on_cpu_hz } => {
                let stacks = SourceChoice::Stacks { kinds, off_cpu_ns, on_cpu_hz };
                format!("{},{}", requests.source().words(), stacks.words())
            }
            SourceChoice::Stacks { kinds, off_cpu_ns, on_cpu_hz } => {
                let off_cpu = off_cpu_ns.map_or("offcpu".into(), |ns| format!("offcpu={ns}ns"));
                let on_cpu = on_cpu_hz.map_or("oncpu".into(), |hz| format!("oncpu={hz}hz"));
                let words = [(kinds.sampled, "stacks".into()), (kinds.off_cpu, off_cpu), (kinds.on_cpu, on_cpu)];
                words
                    .into_iter()
                    .filter_map(|(is, word): (bool, String)| is.then_some(word))
                    .collect::<Vec<_>>()
                    .join(",")
            }
        }
    }

    /// What the kernel captures; `None` for Spark, which has files.
    pub fn captured(self) -> Option<Source> {
        Some(match self {
            SourceChoice::Block => Source::Block,
            SourceChoice::Io => Source::Io,
            SourceChoice::Syscall => Source::Syscall,
            SourceChoice::Stacks { kinds, .. } => Source::Stacks(kinds),
            SourceChoice::Beside { requests, kinds, .. } => Source::Beside(requests, kinds),
            SourceChoice::Spark => return None,
        })
    }

    /// How stacks are captured, with the shortest wait and the rate of ticks that were given.
    pub fn stack_options(self) -> StackOptions {
        let usual = StackOptions::default();
        match self {
            SourceChoice::Stacks { off_cpu_ns, on_cpu_hz, .. } | SourceChoice::Beside { off_cpu_ns, on_cpu_hz, .. } => {
                StackOptions {
                    off_cpu_ns: off_cpu_ns.unwrap_or(usual.off_cpu_ns),
                    on_cpu_hz: on_cpu_hz.unwrap_or(usual.on_cpu_hz),
                    ..usual
                }
            }
            _ => usual,
        }
    }

    /// The filter of those events of files that are of this source: threads have a state, block requests a device number, and system
    /// calls neither.
    pub fn filter(self) -> String {
        const BLOCK: &str = "disk.dev exists and not result exists and not state exists";
        const CALLS: &str = "not (disk.dev exists and not result exists) and not state exists";
        match self {
            SourceChoice::Block => BLOCK.into(),
            SourceChoice::Io | SourceChoice::Syscall => CALLS.into(),
            SourceChoice::Stacks { kinds, .. } => threads(kinds).into(),
            SourceChoice::Spark => "app exists or stage exists or job exists or sql exists or executor exists".into(),
            SourceChoice::Beside { requests, kinds, .. } => {
                let requests = if requests == Requests::Block { BLOCK } else { CALLS };
                format!("{} or {requests}", threads(kinds))
            }
        }
    }
}

/// Which times of threads: ticks of the timer are the time on a CPU, though samples see threads there, too.
fn threads(kinds: StackKinds) -> &'static str {
    match (kinds.sampled, kinds.off_cpu, kinds.on_cpu) {
        (true, _, false) => "state exists and not stack_source = timer",
        (false, true, false) => "state exists and state != running",
        (false, false, true) => "state = running",
        _ => "state exists",
    }
}

/// Where the events of a live capture are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// In the kernel if that is enough for filter and view.
    #[default]
    Auto,
    /// In the kernel, or not at all.
    Histogram,
    /// By us: every event is handed to user space.
    Event,
}

/// How events become a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Folding {
    /// Width of the intervals, nanoseconds; `None`: chosen by the length of the trace.
    pub interval: Option<u64>,
    /// The fields that make up a group.
    pub by: Vec<Field>,
    /// What a cell adds up.
    pub weight: Weight,
    /// What is distributed.
    pub quantity: Quantity,
    /// Smallest value on the axis of a view.
    pub min: Option<u64>,
    /// Largest value on the axis of a view.
    pub max: Option<u64>,
    /// In which intervals an event counts.
    pub count_by: CountBy,
    /// Whether bytes and requests in flight are not needed.
    pub values_only: bool,
    /// Whether waiting requests do not count at their age so far.
    pub completed_only: bool,
    /// Whether the view shows when something happened, not only how much there was in all.
    pub over_time: bool,
    /// The grid of all histograms, from the kernel's to those that are written, if it shall be coarser than usual.
    pub precision: Option<Grid>,
}

impl Folding {
    /// Counts latencies of all events together.
    pub fn of_latencies(interval: Option<u64>) -> Folding {
        Folding {
            interval,
            by: Vec::new(),
            weight: Weight::Count,
            quantity: Quantity::Latency,
            min: None,
            max: None,
            count_by: CountBy::Completion,
            values_only: false,
            completed_only: false,
            over_time: interval.is_some(),
            precision: None,
        }
    }

    /// The interval, or at most so many intervals when it is chosen by the length of the trace.
    pub fn interval_or(&self, limit: u32) -> Interval {
        self.interval.map_or(Interval::Auto(limit), Interval::Fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_stacks_combine() {
        let source = SourceChoice::parse;
        let all = StackKinds { sampled: true, off_cpu: true, on_cpu: true };
        let expected = SourceChoice::Stacks { kinds: all, off_cpu_ns: Some(500_000), on_cpu_hz: Some(49) };
        assert_eq!(source("stacks,offcpu=500us,oncpu=49hz"), Ok(expected));
        assert_eq!(source(&expected.words()), Ok(expected));
        assert_eq!((expected.stack_options().off_cpu_ns, expected.stack_options().on_cpu_hz), (500_000, 49));
        assert_eq!(source("io"), Ok(SourceChoice::Io));
        let sampled = StackKinds { sampled: true, ..StackKinds::default() };
        let both =
            SourceChoice::Beside { requests: Requests::Block, kinds: sampled, off_cpu_ns: None, on_cpu_hz: None };
        assert_eq!((source("block,stacks"), both.words()), (Ok(both), "block,stacks".to_string()));
        for wrong in ["stack", "block,io", "block,block", "stacks,", "oncpu=0", "offcpu=soon", "stacks=1"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        let refused = source("graphite=127.0.0.1:20037").unwrap_err();
        assert!(refused.ends_with("latscope spark --graphite 127.0.0.1:20037"), "{refused}");
    }
}
