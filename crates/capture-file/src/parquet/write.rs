//! Events to Parquet, sorted by their start.

use super::groups::Groups;
use super::{close, properties};
use crate::arrow_columns::{Gathered, Unsigned, io_error, schema, selected};
use arrow_schema::SchemaRef;
use latscope_event::{Batch, Context, Field, FieldSet, FieldType, Mask};
use parquet::basic::Encoding;
use parquet::file::metadata::SortingColumn;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::io::{self, Write};

/// Events in a row group.
const GROUP_ROWS: usize = 1 << 19;
/// Events that are held back for the next row group. They arrive in the order of their completion: as long as fewer
/// than these complete before one that started earlier, the file is sorted as a whole.
const HELD_ROWS: usize = 1 << 17;

/// Writes events to a `.parquet` file. Memory holds one row group and what is held back, whatever the number of events.
pub struct ParquetWriter<W: Write + Send> {
    groups: Groups<W>,
    schema: SchemaRef,
    gathered: Gathered,
    last_ns: i64,
    sorted: bool,
}

/// Each distinct stack is stored once in a row group, as long as they take no more bytes than this.
const STACK_BYTES: usize = 64 << 20;

impl<W: Write + Send> ParquetWriter<W> {
    /// Starts a file with these columns (time and latency always).
    ///
    /// # Errors
    /// When the beginning cannot be written.
    pub fn create(to: W, fields: FieldSet) -> io::Result<ParquetWriter<W>> {
        let fields = fields.union(FieldSet::ALWAYS).with_implied();
        let schema = schema(fields, Unsigned::Signed, HashMap::new());
        let time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
        let mut properties = properties().set_sorting_columns(Some(vec![time]));
        for field in fields.iter() {
            let column = ColumnPath::from(field.name());
            if field == Field::Stack {
                properties = properties.set_column_dictionary_page_size_limit(column.clone(), STACK_BYTES);
            }
            properties = match field.field_type() {
                FieldType::Text => properties.set_column_dictionary_enabled(column, true),
                // Few different values, or many: the writer gives up by itself when a dictionary does not pay.
                FieldType::Number => properties.set_column_dictionary_enabled(column, true),
                FieldType::Bytes if field != Field::Offset => properties.set_column_dictionary_enabled(column, true),
                // Sorted times differ by little.
                FieldType::Time => properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED),
                _ => properties,
            };
        }
        let groups = Groups::create(to, &schema, properties.build())?;
        Ok(ParquetWriter { groups, schema, gathered: Gathered::new(fields), last_ns: i64::MIN, sorted: true })
    }

    /// Appends the events that the mask lets through, all without a mask.
    ///
    /// # Errors
    /// When the disk is full or the pipe closed.
    pub fn write(&mut self, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        let mut rows = &selected(batch, mask)[..];
        while !rows.is_empty() {
            let room = GROUP_ROWS + HELD_ROWS - self.gathered.rows();
            let (now, later) = rows.split_at(room.min(rows.len()));
            self.gathered.append(batch, now);
            if self.gathered.rows() == GROUP_ROWS + HELD_ROWS {
                self.group(GROUP_ROWS)?;
            }
            rows = later;
        }
        Ok(())
    }

    /// Writes the `count` earliest events as a row group.
    fn group(&mut self, count: usize) -> io::Result<()> {
        let group = self.gathered.take_first(count);
        let Some((first_ns, last_ns)) = group.time_range() else { return Ok(()) };
        self.sorted &= self.last_ns <= first_ns;
        self.last_ns = last_ns;
        let records = group.into_arrow(self.schema.clone(), Unsigned::Signed).map_err(io_error)?;
        self.groups.write(&[records])
    }

    /// Ends the file with its context and gives the writer back. Whether the file is sorted as a whole or only within
    /// each row group is in the metadata, `latscope.sorted` = `file` or `row_group`.
    ///
    /// # Errors
    /// As [`ParquetWriter::write`].
    pub fn finish(mut self, context: &Context) -> io::Result<W> {
        self.group(self.gathered.rows())?;
        let sorted = if self.sorted { "file" } else { "row_group" };
        close(self.groups, context, &[("latscope.sorted", sorted.into())])
    }
}
