//! What to read, and how events become a series: plain values that can be compared.

use crate::tags::{Tagger, Tagging};
use latscope_capture_bpf::{Sample, Source, StackOptions};
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
        self.filter.as_ref().map_or(queue, |filter| filter.fields().union(queue)).union(of_tags)
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
