//! Row groups from Arrow batches, for the few types that our files have. The writer of the library takes all types of Arrow, and the code
//! that only it calls takes a megabyte of the packaged program.

use super::checksum::Summed;
use super::parquet_io_error;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type as ArrowInt32, Int64Type as ArrowInt64};
use arrow_array::{Array, ArrowPrimitiveType, ListArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowSchemaConverter;
use parquet::data_type::{ByteArray, ByteArrayType, DataType as ParquetType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use std::io::{self, Write};
use std::sync::Arc;

/// Texts that are handed over at once.
const TEXTS: usize = 8192;

/// A file that is being written.
pub struct Groups<W: Write + Send>(SerializedFileWriter<Summed<W>>);

impl<W: Write + Send> Groups<W> {
    /// Starts a file with the columns of an Arrow schema.
    pub fn create(to: W, schema: &Schema, properties: WriterProperties) -> io::Result<Groups<W>> {
        let columns = ArrowSchemaConverter::new().convert(schema).map_err(parquet_io_error)?;
        let writer = SerializedFileWriter::new(Summed::new(to), columns.root_schema_ptr(), Arc::new(properties));
        writer.map(Groups).map_err(parquet_io_error)
    }

    /// Writes the rows of all these batches as one row group; none without rows.
    pub fn write(&mut self, batches: &[RecordBatch]) -> io::Result<()> {
        if batches.iter().any(|batch| batch.num_rows() > 0) {
            self.put(batches).map_err(parquet_io_error)
        } else {
            Ok(())
        }
    }

    fn put(&mut self, batches: &[RecordBatch]) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            for batch in batches {
                put_array(&mut column, batch.schema_ref().field(at), batch.column(at))?;
            }
            column.close()?;
            at += 1;
        }
        group.close().map(drop)
    }

    /// Ends the file with these pairs in its metadata, the checksums among them, and gives the writer back.
    pub fn finish(mut self, pairs: &[(&str, String)]) -> io::Result<W> {
        let blocks = self.0.inner_mut().end_blocks();
        let sums = [(super::checksum::BLOCKS_KEY, blocks), (super::checksum::END_KEY, super::checksum::NOT_YET.into())];
        for (key, value) in pairs.iter().chain(&sums) {
            self.0.append_key_value_metadata(KeyValue::new(key.to_string(), value.clone()));
        }
        self.0.into_inner().map_err(parquet_io_error)?.finish()
    }
}

fn put_array(to: &mut SerializedColumnWriter, field: &Field, array: &dyn Array) -> Result<(), ParquetError> {
    match array.data_type() {
        DataType::Int32 => put_numbers::<ArrowInt32, Int32Type>(to, field, array.as_primitive()),
        DataType::Int64 => put_numbers::<ArrowInt64, Int64Type>(to, field, array.as_primitive()),
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            put_texts(to, field, texts, texts.len(), |row| texts.is_valid(row).then_some(row))
        }
        DataType::Dictionary(..) => {
            let codes = array.as_dictionary::<ArrowInt32>().keys();
            let texts = array.as_dictionary::<ArrowInt32>().values().as_string();
            put_texts(to, field, texts, codes.len(), |row| codes.is_valid(row).then(|| codes.value(row) as usize))
        }
        DataType::List(element) if element.data_type() == &DataType::Int32 => {
            put_lists::<ArrowInt32, Int32Type>(to, field, array.as_list())
        }
        DataType::List(_) => put_lists::<ArrowInt64, Int64Type>(to, field, array.as_list()),
        other => Err(ParquetError::NYI(format!("a column of {other}"))),
    }
}

fn put_numbers<A: ArrowPrimitiveType, P: ParquetType<T = A::Native>>(
    to: &mut SerializedColumnWriter,
    field: &Field,
    array: &PrimitiveArray<A>,
) -> Result<(), ParquetError> {
    let to = to.typed::<P>();
    if !field.is_nullable() {
        return to.write_batch(array.values(), None, None).map(drop);
    }
    let defined: Vec<i16> = (0..array.len()).map(|row| i16::from(array.is_valid(row))).collect();
    if array.null_count() == 0 {
        return to.write_batch(array.values(), Some(&defined), None).map(drop);
    }
    let present: Vec<P::T> = array.iter().flatten().collect();
    to.write_batch(&present, Some(&defined), None).map(drop)
}

/// `code`: the place of the text of a row among the texts.
fn put_texts(
    to: &mut SerializedColumnWriter,
    field: &Field,
    texts: &StringArray,
    rows: usize,
    code: impl Fn(usize) -> Option<usize>,
) -> Result<(), ParquetError> {
    // All share the bytes of one copy.
    let bytes = ByteArray::from(texts.value_data().to_vec());
    let offsets = texts.value_offsets();
    let text = |code: usize| bytes.slice(offsets[code] as usize, (offsets[code + 1] - offsets[code]) as usize);
    let (mut present, mut defined) = (Vec::with_capacity(TEXTS), Vec::with_capacity(TEXTS));
    for first in (0..rows).step_by(TEXTS) {
        present.clear();
        defined.clear();
        for code in (first..rows.min(first + TEXTS)).map(&code) {
            defined.push(i16::from(code.is_some()));
            present.extend(code.map(text));
        }
        to.typed::<ByteArrayType>().write_batch(&present, field.is_nullable().then_some(&defined[..]), None)?;
    }
    Ok(())
}

/// Lists whose elements are all there. An element is defined one level deeper than an empty list, which is so than a missing one.
fn put_lists<A: ArrowPrimitiveType, P: ParquetType<T = A::Native>>(
    to: &mut SerializedColumnWriter,
    field: &Field,
    array: &ListArray,
) -> Result<(), ParquetError> {
    let deepest = 1 + i16::from(field.is_nullable());
    let elements = array.values().as_primitive::<A>();
    let (mut present, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for (row, range) in array.offsets().windows(2).enumerate() {
        let list = &elements.values()[range[0] as usize..range[1] as usize];
        if array.is_null(row) || list.is_empty() {
            defined.push(if array.is_null(row) { 0 } else { deepest - 1 });
            repeated.push(0);
            continue;
        }
        present.extend_from_slice(list);
        defined.extend(std::iter::repeat_n(deepest, list.len()));
        repeated.extend((0..list.len()).map(|at| i16::from(at > 0)));
    }
    to.typed::<P>().write_batch(&present, Some(&defined), Some(&repeated)).map(drop)
}
