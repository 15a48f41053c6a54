//! Appends events to a trace so that a crash costs at most the last second.

use super::checksum::{Summed, pack};
use super::{CONTEXT_KEY, VERSION, VERSION_KEY};
use crate::arrow_columns::{Gathered, Unsigned, context_json, io_error, schema, selected};
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::SchemaRef;
use latscope_event::{Batch, Context, FieldSet, Mask};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

/// After this long events leave the process, so that with some slack they are on disk within a second.
const FLUSH_AFTER: Duration = Duration::from_millis(900);
/// So many bytes of different texts end a batch early, whatever the number of events.
const TEXT_BYTES: usize = 16 << 20;
/// Rows that are gathered before the bounds are looked at again.
const STEP_ROWS: usize = 4096;
/// A trace is full when less than this part of its limit is free.
const LEAST_ROOM: u64 = 16;
/// So many events a trace takes whatever its limit, or it would never come to an end.
const FIRST_ROWS: usize = 64;

/// A dictionary that has not changed is not written again for each batch, but after so many events or batches: a damaged one takes all
/// that needs it.
const DICTIONARY_ROWS: u64 = 8192;
const DICTIONARY_BATCHES: u32 = 16;

/// Writes a trace (`.lat`), batch by batch.
pub struct LatWriter<W: Write> {
    writer: Summed<BufWriter<W>>,
    /// Makes messages, and knows the dictionaries that were written.
    stream: StreamWriter<Vec<u8>>,
    /// Events and batches since all dictionaries were written.
    since: (u64, u32),
    fields: FieldSet,
    schema: SchemaRef,
    gathered: Gathered,
    /// Events that left for the disk.
    stored: u64,
    flushed: Instant,
}

impl<W: Write> LatWriter<W> {
    /// Starts a trace with these columns (time and latency always). The context says what is known at the beginning;
    /// its account of losses is left to [`LatWriter::finish`].
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn create(writer: W, fields: FieldSet, context: &Context) -> io::Result<LatWriter<W>> {
        let fields = fields.union(FieldSet::ALWAYS).with_implied();
        let schema = schema(fields, Unsigned::Kept, metadata(context, false)?);
        let stream = StreamWriter::try_new_with_options(Vec::new(), &schema, options()?).map_err(io_error)?;
        let gathered = Gathered::new(fields);
        let (writer, flushed) = (Summed::new(BufWriter::new(writer)), Instant::now());
        let mut trace = LatWriter { writer, stream, since: (0, 0), fields, schema, gathered, stored: 0, flushed };
        trace.hand_on()?;
        Ok(trace)
    }

    /// Appends the events that the mask lets through, all without a mask.
    ///
    /// # Errors
    /// When the disk is full or the pipe closed.
    pub fn write(&mut self, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        let mut rows = &selected(batch, mask)[..];
        while !rows.is_empty() {
            let room = Batch::ROWS.saturating_sub(self.gathered.rows()).clamp(1, STEP_ROWS);
            let (now, later) = rows.split_at(room.min(rows.len()));
            self.gathered.append(batch, now);
            if self.gathered.rows() >= Batch::ROWS || self.gathered.text_bytes() >= TEXT_BYTES {
                self.flush()?;
            }
            rows = later;
        }
        self.flush_if_due()
    }

    /// As [`LatWriter::write`] without the first `skipped` of these events, and only as many as the trace has room for: it
    /// stays below `most_bytes`, and so small batches are written when it comes near. Returns how many events were
    /// appended, which is fewer than there are when the trace is full. A trace without events takes some in any case.
    ///
    /// # Errors
    /// As [`LatWriter::write`].
    pub fn write_within(
        &mut self,
        batch: &Batch,
        mask: Option<&Mask>,
        skipped: usize,
        most_bytes: u64,
    ) -> io::Result<usize> {
        let rows = selected(batch, mask);
        let rows = rows.get(skipped..).unwrap_or_default();
        let mut appended = 0;
        while appended < rows.len() {
            let later = &rows[appended..];
            let step = Batch::ROWS.saturating_sub(self.gathered.rows()).clamp(1, STEP_ROWS).min(later.len());
            let room = most_bytes.saturating_sub(self.stored_bytes());
            let mut fits = self.gathered.fitting(batch, &later[..step], room);
            if fits == 0 && self.gathered.rows() > 0 {
                // Stored it takes less.
                self.flush()?;
                if most_bytes.saturating_sub(self.stored_bytes()) >= most_bytes / LEAST_ROOM {
                    continue;
                }
            }
            if fits == 0 && self.stored == 0 {
                fits = step.min(FIRST_ROWS);
            }
            if fits == 0 {
                break;
            }
            self.gathered.append(batch, &later[..fits]);
            appended += fits;
            if self.gathered.rows() >= Batch::ROWS || self.gathered.text_bytes() >= TEXT_BYTES {
                self.flush()?;
            }
        }
        self.flush_if_due()?;
        Ok(appended)
    }

    /// What the trace is written to.
    pub fn writer_mut(&mut self) -> &mut W {
        self.writer.writer_mut().get_mut()
    }

    /// Bytes of the trace so far, without the events that are still gathered.
    pub fn stored_bytes(&self) -> u64 {
        self.writer.handed_on()
    }

    /// The same with those, at most.
    pub fn most_bytes(&self) -> u64 {
        self.stored_bytes() + self.gathered.stored_bytes()
    }

    /// Events that left for the disk; the others, some of the last second, are still gathered.
    pub fn stored_events(&self) -> u64 {
        self.stored
    }

    /// Bytes that [`LatWriter::finish`] appends for this context.
    ///
    /// # Errors
    /// When the context cannot be written as JSON.
    pub fn end_bytes(&self, context: &Context) -> io::Result<u64> {
        let end = end(Summed::new(io::sink()), self.fields, context)?;
        // The marker that ends the events.
        Ok(end.handed_on() + 8)
    }

    /// Writes what was gathered if it has waited for most of a second. A live capture calls this when nothing happens.
    ///
    /// # Errors
    /// As [`LatWriter::write`].
    pub fn flush_if_due(&mut self) -> io::Result<()> {
        if self.gathered.rows() == 0 {
            self.flushed = Instant::now();
        } else if self.flushed.elapsed() >= FLUSH_AFTER {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what was gathered, and with it the account so far, for the case that the trace ends without one.
    ///
    /// # Errors
    /// As [`LatWriter::write`].
    pub fn note(&mut self, context: &Context) -> io::Result<()> {
        self.writer.attach(pack(&context_json(context, true)?)?);
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(self.fields));
        let events = gathered.rows() as u64;
        let records = gathered.into_arrow(self.schema.clone(), Unsigned::Kept).map_err(io_error)?;
        if self.since.0 >= DICTIONARY_ROWS || self.since.1 >= DICTIONARY_BATCHES {
            self.stream = StreamWriter::try_new_with_options(Vec::new(), &self.schema, options()?).map_err(io_error)?;
            // The schema stands at the start of the trace.
            self.stream.get_mut().clear();
            self.since = (0, 0);
        }
        self.stream.write(&records).map_err(io_error)?;
        self.hand_on()?;
        self.since = (self.since.0 + events, self.since.1 + 1);
        self.stored += events;
        self.flushed = Instant::now();
        Ok(())
    }

    /// Hands on the messages that were made.
    fn hand_on(&mut self) -> io::Result<()> {
        self.writer.write_all(self.stream.get_ref())?;
        self.stream.get_mut().clear();
        self.writer.flush()
    }

    /// Ends the trace with its final context and gives the writer back.
    ///
    /// # Errors
    /// As [`LatWriter::write`].
    pub fn finish(mut self, context: &Context) -> io::Result<W> {
        if self.gathered.rows() > 0 {
            self.flush()?;
        }
        self.stream.finish().map_err(io_error)?;
        self.hand_on()?;
        end(self.writer, self.fields, context)?.into_inner().into_inner().map_err(|error| error.into_error())
    }
}

/// Writes the stream without batches that holds the account.
fn end<W: Write>(writer: Summed<W>, fields: FieldSet, context: &Context) -> io::Result<Summed<W>> {
    let account = schema(fields, Unsigned::Kept, metadata(context, true)?);
    let end = StreamWriter::try_new_with_options(writer, &account, options()?).map_err(io_error)?;
    end.into_inner().map_err(io_error)
}

fn metadata(context: &Context, account: bool) -> io::Result<HashMap<String, String>> {
    let json = context_json(context, account)?;
    Ok([(CONTEXT_KEY.into(), json), (VERSION_KEY.into(), VERSION.into())].into())
}

fn options() -> io::Result<IpcWriteOptions> {
    // Eight bytes are the least that the format allows; 64, the default, would pad the many small batches of a slow trace.
    IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(Some(CompressionType::ZSTD)))
        .and_then(|options| options.try_with_compression_level(Some(1)))
        .map_err(io_error)
}
