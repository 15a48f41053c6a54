//! What a recording writes: our own trace, or a capture for sysdig.

use crate::output::Output;
use latscope_capture_file::{LatWriter, ScapWriter};
use latscope_event::{Batch, Context, FieldSet, Mask};
use std::io;
use std::path::Path;

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
