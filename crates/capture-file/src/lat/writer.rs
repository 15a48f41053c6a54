//! Appends events to a trace so that a crash costs at most the last second.

use super::checksum::Summed;
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

/// Writes a trace (`.lat`), batch by batch.
pub struct LatWriter<W: Write> {
    stream: StreamWriter<Summed<BufWriter<W>>>,
    fields: FieldSet,
    schema: SchemaRef,
    gathered: Gathered,
    flushed: Instant,
}

impl<W: Write> LatWriter<W> {
    /// Begins a trace with these columns (time and latency always). The context says what is known at the beginning;
    /// its account of losses is left to [`LatWriter::finish`].
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn create(writer: W, fields: FieldSet, context: &Context) -> io::Result<LatWriter<W>> {
        let fields = fields.union(FieldSet::ALWAYS);
        let schema = schema(fields, Unsigned::Kept, metadata(context, false)?);
        let mut stream = StreamWriter::try_new_with_options(Summed::new(BufWriter::new(writer)), &schema, options()?)
            .map_err(io_error)?;
        stream.flush().map_err(io_error)?;
        Ok(LatWriter { stream, fields, schema, gathered: Gathered::new(fields), flushed: Instant::now() })
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

    fn flush(&mut self) -> io::Result<()> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(self.fields));
        let records = gathered.into_arrow(self.schema.clone(), Unsigned::Kept).map_err(io_error)?;
        self.stream.write(&records).map_err(io_error)?;
        self.stream.flush().map_err(io_error)?;
        self.flushed = Instant::now();
        Ok(())
    }

    /// Ends the trace with its final context and gives the writer back.
    ///
    /// # Errors
    /// As [`LatWriter::write`].
    pub fn finish(mut self, context: &Context) -> io::Result<W> {
        if self.gathered.rows() > 0 {
            self.flush()?;
        }
        let writer = self.stream.into_inner().map_err(io_error)?;
        let account = schema(self.fields, Unsigned::Kept, metadata(context, true)?);
        let end = StreamWriter::try_new_with_options(writer, &account, options()?).map_err(io_error)?;
        end.into_inner().map_err(io_error)?.into_inner().into_inner().map_err(|error| error.into_error())
    }
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
