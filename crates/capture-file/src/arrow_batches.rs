//! Events as Arrow batches, for programs in the same process.

use crate::arrow_columns::{Gathered, Unsigned, schema, selected};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use latscope_event::{Batch, FieldSet, Mask};
use std::collections::HashMap;

/// Gathers events and hands them on as Arrow batches, whose buffers are the gathered columns themselves: the columns of our Parquet
/// files, texts as dictionaries of each batch.
pub struct ArrowBatches {
    fields: FieldSet,
    schema: SchemaRef,
    gathered: Gathered,
}

impl ArrowBatches {
    /// A batch has so many events at least, but the last.
    pub const ROWS: usize = 1 << 18;

    /// Nothing yet, in these columns.
    pub fn new(fields: FieldSet) -> ArrowBatches {
        let schema = schema(fields, Unsigned::Signed, HashMap::new());
        ArrowBatches { fields, schema, gathered: Gathered::new(fields) }
    }

    /// The schema of all batches; units are in the metadata of its fields.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// Adds the events that the mask lets through; a batch when there are enough for one.
    ///
    /// # Errors
    /// When texts exceed what an Arrow array holds (2 GiB).
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) -> Result<Option<RecordBatch>, ArrowError> {
        self.gathered.append(batch, &selected(batch, mask));
        if self.gathered.rows() < ArrowBatches::ROWS { Ok(None) } else { self.rest() }
    }

    /// What is left.
    ///
    /// # Errors
    /// As [`ArrowBatches::add`].
    pub fn rest(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(self.fields));
        (gathered.rows() > 0).then(|| gathered.into_arrow(self.schema(), Unsigned::Signed)).transpose()
    }
}
