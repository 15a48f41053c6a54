//! Event logs of Spark: a JSON object to the line, as the listener of the driver wrote it. Each task that ended is an event; where
//! all is asked for, so are stages, jobs, SQL executions, executors and peaks of memory.
//!
//! Times are milliseconds of the driver's clock. Events stand in the order in which the listener got them, which is not that of their
//! times.

mod folder;
mod line;
mod memory;
mod numbers;
mod session;
mod texts;

pub use folder::{begun_note, is_log, take_begun};

use crate::input::{CUT_SO_EARLY, Input};
use crate::text_rows::{Piece, each_line_of};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Anomaly, Context, Field, FieldSet};
use session::Session;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The fields of a task.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Host,
    Field::Job,
    Field::Error,
    Field::Result,
    Field::Tags,
    Field::App,
    Field::Stage,
    Field::StageAttempt,
    Field::Task,
    Field::TaskIndex,
    Field::Attempt,
    Field::Sql,
    Field::Executor,
    Field::Locality,
    Field::Speculative,
    Field::Cores,
    Field::RunTime,
    Field::CpuTime,
    Field::GcTime,
    Field::FetchWait,
    Field::ShuffleWrite,
    Field::SchedulerDelay,
    Field::Deserialize,
    Field::DeserializeCpu,
    Field::ResultSerialization,
    Field::GettingResult,
    Field::Remainder,
    Field::Spilled,
    Field::DiskSpilled,
    Field::PeakMemory,
    Field::ResultSize,
    Field::InputBytes,
    Field::InputRecords,
    Field::OutputBytes,
    Field::OutputRecords,
    Field::ShuffleRemote,
    Field::ShuffleLocal,
    Field::ShuffleToDisk,
    Field::ShuffleRecords,
    Field::RemoteBlocks,
    Field::LocalBlocks,
    Field::ShuffleWritten,
    Field::ShuffleWrittenRecords,
]);

/// A job of an iterative program lists all stages before it, and the plan of a query may be megabytes.
const LONGEST_LINE: usize = 32 << 20;
const NO_EVENT: &str = "something other than an event of Spark";

/// Whether the folder is a log of its own.
pub fn is_folder(path: &Path) -> bool {
    folder::files(path).is_some()
}

/// A line of the beginning is an event of Spark, or the folder has files of one log.
pub fn detect(input: &Input) -> Detected {
    if input.path.as_ref().is_some_and(|path| path.is_dir() && is_folder(path)) {
        return Detected::Yes;
    }
    let is_event = |line: &[u8]| {
        // Spark writes no blanks; who rewrites logs may.
        let class = line.strip_prefix(b"{\"Event\":").map(<[u8]>::trim_ascii_start);
        let class =
            class.and_then(|class| class.strip_prefix(b"\"")).and_then(|rest| rest.split(|&byte| byte == b'"').next());
        class.is_some_and(|class| memchr::memmem::find(class, b"SparkListener").is_some())
    };
    if input.head().split(|&byte| byte == b'\n').any(is_event) { Detected::Yes } else { Detected::No }
}

/// Reads the log; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let files = input.path.as_deref().filter(|path| path.is_dir()).and_then(folder::files);
    let mut session = Session::new(&name, options, sink);
    if let Some(files) = files {
        if options.follow.is_some() {
            let message = "A folder cannot be followed; give the file in it that is written, if it is not compressed.";
            return Err(Error::new(name, Position::File, message));
        }
        session.add_missing(folder::missing(&files));
        let (mut previous, mut is_cut): (Option<PathBuf>, bool) = (None, false);
        let last = files.last().cloned();
        for file in files {
            if is_cut || previous.is_some_and(|previous| !folder::follows(&previous, &file)) {
                session.start_gap();
            }
            let is_compacted = folder::is_compacted(&file);
            previous = Some(file.clone());
            let flow;
            (flow, is_cut) = match Input::open(&file, options.progress) {
                Ok(file) => read_file(file, &mut session)?,
                // A part may have been cut before it held anything.
                Err(error) if error.message == CUT_SO_EARLY => {
                    session.add_cut();
                    is_cut = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if is_compacted {
                session.end_compacted();
            }
            // The last one may hold nothing yet.
            if last.as_ref() != previous.as_ref() && previous.as_ref().is_some_and(|file| is_empty(file)) {
                session.add_cut();
                is_cut = true;
            }
            if flow.is_break() {
                break;
            }
        }
        if input.path.as_deref().is_some_and(folder::has_ended) {
            session.add_end();
        }
    } else {
        let _ = read_file(input, &mut session)?;
    }
    let (context, count) = session.finish();
    if count == 0 && context.unfinished.is_empty() {
        let message = match context.tally.get(Anomaly::UnparsedLines) {
            0 => "The log has no task that ended.",
            _ => "No line of the file is an event of Spark that can be read, or no task has ended.",
        };
        return Err(Error::new(name, Position::File, message));
    }
    Ok(context)
}

/// Whether a line is an event that the reader uses.
#[cfg(test)]
pub fn is_event(line: &[u8]) -> bool {
    line::parse(line).is_some_and(|event| !matches!(event, line::Event::Other | line::Event::Unknown))
}

fn is_empty(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() == 0)
}

/// Reads one file of the log; `Break` when nobody wants more, and whether it ends in the middle.
fn read_file(input: Input, session: &mut Session) -> Result<(ControlFlow<()>, bool), Error> {
    let (unpacked, cuts) = (Arc::clone(&input.unpacked), session.cuts());
    let mut flow = ControlFlow::Continue(());
    each_line_of(input.lines_up_to(LONGEST_LINE), |piece| {
        flow = match piece {
            Piece::Pause => session.hand_on(),
            Piece::Line(number, line) => match line.ok().and_then(line::parse) {
                Some(event) => session.take(event).unwrap_or_else(|why| {
                    session.add_malformed(number, line, why);
                    ControlFlow::Continue(())
                }),
                None => {
                    session.add_malformed(number, line, NO_EVENT);
                    ControlFlow::Continue(())
                }
            },
        };
        Ok(flow)
    })?;
    let is_cut = unpacked.is_cut.load(Ordering::Relaxed);
    if is_cut {
        session.add_cut();
    }
    // Or its last line is.
    Ok((flow, is_cut || session.cuts() > cuts))
}
