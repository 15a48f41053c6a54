//! Files that hold events, one module per format, and our own trace and Parquet files.
//!
//! [`read`] opens a file (or standard input), sees through gzip, zstd and the block streams of Java, finds out the format from the content,
//! and hands batches of events to the caller. Records are paired into events on the way; whatever was lost, mended
//! or left open is in the [`Context`] that comes back.

#![forbid(unsafe_code)]

mod arrow_batches;
mod arrow_columns;
mod blkparse;
mod blktrace;
mod block_actions;
mod block_pairs;
mod bpftrace_stacks;
mod call_rows;
mod call_text;
mod csv;
mod cursor;
mod detect;
mod ending;
mod error;
mod event_rows;
mod fio;
mod folded;
mod follow;
mod formats;
mod frames;
mod ftrace;
mod gzip;
mod histogram_text;
mod history;
mod hlog;
mod input;
mod ioping;
mod java_blocks;
mod json_lines;
mod lat;
mod omission;
mod once;
mod oracle_10046;
mod parquet;
mod perf_data;
mod perf_sample;
mod perf_script;
mod perf_trace;
mod pprof;
mod processes;
mod pylatencymap;
mod scan;
mod scap;
mod series_reader;
mod series_rows;
mod smallfile;
mod snoop;
mod spark_eventlog;
mod spark_rest;
mod stack_rows;
mod stap_stacks;
mod strace;
mod syscall_pairs;
mod text_rows;
mod time_order;
mod trace_dat;
mod tracepoint;
mod tree;
mod two_columns;
mod unfinished;

pub use arrow_batches::ArrowBatches;
pub use blktrace::one_of_each_recording;
pub use detect::format_of;
pub use ending::{end_when, is_over};
pub use error::{Error, Position, Remedy};
pub use fio::{
    FioColumns, FioResults, JobStart, Trust, are_of_several_runs, counts_from_1970, host_and_job, job_starts,
};
pub use follow::OnRestart;
pub use formats::Format;
pub use frames::write_frames;
pub use history::SeriesTables;
pub use hlog::write_hlog;
pub use lat::LatWriter;
pub use parquet::{ParquetWriter, write_series_parquet};
pub use pylatencymap::write_pylatencymap;
pub use scap::ScapWriter;
pub use series_reader::SeriesReader;
pub use series_rows::{SeriesHeader, SeriesRow};
pub use spark_rest::{SparkNow, SparkNumbers, Unanswered, broke_off};
pub use strace::with_files_of_threads;
pub use tree::{Tree, double_count_note, tree, tree_over_time, without_repeats};
pub use two_columns::TwoColumns;

pub use latscope_wire::Query;

use input::Input;
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The answer of a format about the beginning of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detected {
    /// It is this format.
    Yes,
    /// It is not.
    No,
    /// Nothing speaks against it, but the beginning does not decide it (comments only, for instance).
    NeedMore,
}

/// What the caller wants from a file.
#[derive(Clone, Debug)]
pub struct ReadOptions<'a> {
    /// The format, when it should not be found out from the content.
    pub format: Option<Format>,
    /// The fields that filter and view ask for; a reader fills those of them that it knows.
    pub fields: FieldSet,
    /// Whether all system calls become events, not only those that do I/O.
    pub all_syscalls: bool,
    /// Whether only calls that do I/O become events where all others would, too: captures of sysdig hold what their recorder chose.
    pub only_io: bool,
    /// Whether stages, jobs, SQL executions and executors of a Spark application become events, not only its tasks.
    pub all_of_spark: bool,
    /// Whether a request that a device passes on to another of the same trace becomes one event, that of the lower device: for who
    /// cannot keep the two apart.
    pub each_request_once: bool,
    /// How to read two-column files.
    pub two_columns: TwoColumns,
    /// The interval of a generator that waited for every request and left out those that were due meanwhile: they are
    /// added again, each with the time that it would have waited. `None` leaves the trace as it is.
    pub omitted_every_ns: Option<u64>,
    /// The columns of logs of fio, where they should not be inferred.
    pub fio_columns: Option<FioColumns>,
    /// fio's JSON beside its logs. Options that are clones of each other share it, so that what is read with them parses each
    /// JSON once.
    pub fio_results: FioResults,
    /// Whether lines of fio and smallfile that are no row are skipped and counted; else the first one is an error.
    pub lenient: bool,
    /// What is asked of a hub, or of its folder.
    pub query: Query,
    /// Only the events that are stored in these bytes, which are one of the [`parts`] of the file.
    pub within: Option<Range<u64>>,
    /// Where to report progress.
    pub progress: Option<&'a Progress>,
    /// Whether to wait for more at the end of a file, until [the end is asked for](end_when); called with a sentence when the file
    /// was replaced or truncated.
    pub follow: Option<OnRestart>,
}

impl ReadOptions<'_> {
    /// Reads these fields, detecting the format.
    pub fn new(fields: FieldSet) -> Self {
        ReadOptions {
            format: None,
            fields,
            all_syscalls: false,
            only_io: false,
            all_of_spark: false,
            each_request_once: false,
            two_columns: TwoColumns::default(),
            omitted_every_ns: None,
            fio_columns: None,
            fio_results: FioResults::default(),
            lenient: false,
            query: Query::default(),
            within: None,
            progress: None,
            follow: None,
        }
    }
}

/// How much of a file was read, for another thread to show: bytes as they lie on disk.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub done: std::sync::atomic::AtomicU64,
    /// Size of the file; 0 when unknown (a pipe).
    pub total: std::sync::atomic::AtomicU64,
}

/// Ranges of bytes of a file whose events can be [read](ReadOptions::within) without those of the others, in their order: row groups of
/// Parquet, stretches of a `.lat` file. All of it where the format, or compression, has none.
pub fn parts(path: &Path, format: Format) -> Vec<Range<u64>> {
    let file = || Input::open(path, None).ok()?.unpacked_file();
    let starts = format.row().parts.and_then(|parts| parts(&file()?)).unwrap_or_default();
    let starts: Vec<u64> = std::iter::once(0).chain(starts.into_iter().filter(|&start| start > 0)).collect();
    let ends = starts[1..].iter().copied().chain([u64::MAX]);
    starts.iter().zip(ends).map(|(&start, end)| start..end).collect()
}

/// Whether this is the address of a hub, not a file.
pub fn is_hub(path: &Path) -> bool {
    latscope_wire::Address::of_input(path).is_some()
}

/// Whether this is the address of a Spark application or history server, not a file.
pub fn is_application(path: &Path) -> bool {
    spark_rest::url_of(path).is_some()
}

/// Whether this can be read only once: standard input (`-`), a FIFO, `/dev/fd/63`, a terminal.
pub fn is_pipe(path: &Path) -> bool {
    once::Key::read(path).is_some()
}

/// Whether something waits to be read on standard input: a file, or a pipe with at least one byte. A terminal, `/dev/null`
/// and a pipe that ends at once (cron, tests) hold nothing. Waits for the first bytes of a pipe.
pub fn is_fed() -> bool {
    use std::os::unix::fs::FileTypeExt;
    let Ok(kind) = std::fs::metadata("/dev/stdin").map(|metadata| metadata.file_type()) else { return false };
    if kind.is_file() {
        return true;
    }
    // What cannot be unpacked is something, too.
    (kind.is_fifo() || kind.is_socket()) && !Input::open(Path::new("-"), None).is_ok_and(|input| input.is_empty())
}

/// Why a file of histograms cannot be read for its events.
pub(crate) const HISTOGRAMS_ONLY: &str = "This file has histograms, not single events.";

/// What takes the batches: it gets the context as known so far, and may end the reading with `Break`.
pub type Sink<'a> = dyn FnMut(&Context, &Batch) -> ControlFlow<()> + 'a;

/// Reads a file of any known format (`-` is standard input) and returns what the trace says about itself.
///
/// # Errors
/// When the file cannot be opened or read, its format is not known, or it is damaged where no part can be used.
/// A file that is cut in the middle is not an error: it yields what it holds and a note in the context.
pub fn read(path: &Path, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let input = match options.follow {
        Some(on_restart) => Input::follow(path, options.progress, on_restart)?,
        None => Input::open(path, options.progress)?,
    };
    read_input(input, options, sink)
}

/// Reads a file of any known format that lies in memory; `name` stands for it in messages.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    read_input(Input::from_bytes(name, bytes)?, options, sink)
}

fn read_input(mut input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let mut options = options.clone();
    if options.fields.contains(Field::Process) {
        options.fields = options.fields.with(&[Field::Comm]);
    }
    options.fields = options.fields.with_stored();
    let options = &options;
    let format = match options.format {
        Some(format) => format,
        None => detect::detect(&mut input)?,
    };
    let looks_like = options.format.and_then(|_| detect::look(&input));
    detect::refuse_as_numbers(&input, [options.format, looks_like])?;
    let result = match options.omitted_every_ns {
        None => events(input, format, options, sink),
        Some(interval_ns) => {
            let name = input.name.clone();
            let inner = |sink: &mut Sink| events(input, format, options, sink);
            omission::read(&name, format.row().omits, interval_ns, sink, inner)
        }
    };
    result.map_err(|error| detect::name_other(error, [options.format, looks_like]))
}

/// Reads the events of a file of this format.
fn events(input: Input, format: Format, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let unpacked = Arc::clone(&input.unpacked);
    let Some(read) = format.row().events else {
        return Err(Error::new(&input.name, Position::File, HISTOGRAMS_ONLY).with_remedy(Remedy::Histograms));
    };
    let mut context = read(input, options, sink)?;
    if unpacked.is_cut.load(Ordering::Relaxed) && context.tally.get(Anomaly::Truncated) == 0 {
        context.tally.add(Anomaly::Truncated, 1);
    }
    unpacked.note_trailing(&mut context);
    Ok(context)
}
