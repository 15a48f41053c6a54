//! What a recording writes: our own trace, or a capture for sysdig.

use crate::output::Output;
use latscope_capture_file::{LatWriter, ScapWriter};
use latscope_event::{Anomaly, Batch, Context, FieldSet, Mask, Tally, Unfinished};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// For so many bytes that a file may have, one request or call without a completion is named in its account.
const UNFINISHED_PART: u64 = 4 << 10;

/// A trace that is written.
pub enum Trace {
    Lat(Box<LatWriter<Output>>),
    Scap(Box<ScapWriter<Output>>),
}

impl Trace {
    /// Starts a trace in the format that the name of its file ends in.
    pub fn create(path: &Path, out: Output, fields: FieldSet, context: &Context) -> io::Result<Trace> {
        Ok(match path.extension().is_some_and(|ending| ending == "scap") {
            true => Trace::Scap(Box::new(ScapWriter::create(out, context)?)),
            false => Trace::Lat(Box::new(LatWriter::create(out, fields, context)?)),
        })
    }

    /// What it is written to.
    pub fn writer_mut(&mut self) -> &mut Output {
        match self {
            Trace::Lat(writer) => writer.writer_mut(),
            Trace::Scap(writer) => writer.writer_mut(),
        }
    }

    /// Bytes so far.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Trace::Lat(writer) => writer.stored_bytes(),
            Trace::Scap(writer) => writer.written_bytes(),
        }
    }

    /// Events that left for the disk.
    pub fn stored_events(&self) -> u64 {
        match self {
            Trace::Lat(writer) => writer.stored_events(),
            Trace::Scap(writer) => writer.written_events(),
        }
    }

    /// Bytes that the end of the trace takes with this context.
    pub fn end_bytes(&self, context: &Context) -> io::Result<u64> {
        match self {
            Trace::Lat(writer) => writer.end_bytes(context),
            Trace::Scap(_) => Ok(0),
        }
    }

    /// Hands on what has waited long enough.
    pub fn flush_if_due(&mut self) -> io::Result<()> {
        match self {
            Trace::Lat(writer) => writer.flush_if_due(),
            Trace::Scap(writer) => writer.flush(),
        }
    }

    /// Appends events without the first `skipped`, as many as there is room for; a capture for sysdig takes all of them.
    pub fn write_within(
        &mut self,
        batch: &Batch,
        mask: Option<&Mask>,
        skipped: usize,
        most_bytes: u64,
    ) -> io::Result<usize> {
        match self {
            Trace::Lat(writer) => writer.write_within(batch, mask, skipped, most_bytes),
            Trace::Scap(writer) => {
                writer.write(batch, mask)?;
                Ok(mask.map_or(batch.len(), Mask::count).saturating_sub(skipped))
            }
        }
    }

    /// Ends the trace.
    pub fn finish(self, context: &Context) -> io::Result<Output> {
        match self {
            Trace::Lat(writer) => writer.finish(context),
            Trace::Scap(writer) => writer.finish(context),
        }
    }
}

/// The account of a file's own time.
pub fn account(
    context: &Context,
    before: &Tally,
    lost: u64,
    marks: &BTreeMap<String, String>,
    span_ns: (i64, i64),
    most_bytes: u64,
) -> Context {
    let mut account = Context { tally: context.tally.since(before), span_ns: Some(span_ns), ..own(context, marks) };
    account.tally.add(Anomaly::LostRecords, lost);
    // The longest come first. They must leave room for events.
    let most = usize::try_from(most_bytes / UNFINISHED_PART).unwrap_or(usize::MAX);
    account.unfinished.truncate(most);
    account
}

/// What waits, as it was at this earlier moment, nanoseconds since 1970.
pub fn until(request: &Unfinished, moment_ns: i64) -> Unfinished {
    let age_ns = u64::try_from(moment_ns.saturating_sub(request.start_ns)).unwrap_or(0);
    Unfinished { at_least_ns: request.at_least_ns.min(age_ns), ..request.clone() }
}

/// The context of a file.
pub fn own(context: &Context, marks: &BTreeMap<String, String>) -> Context {
    let mut own = context.clone();
    own.properties.extend(marks.clone());
    own
}
