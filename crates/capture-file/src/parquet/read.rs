//! Events from Parquet: our own files, and those of others whose columns have our names.

use super::checksum::{check_end, sound_groups};
use super::guard::guarded;
use super::{SERIES_KEY, value};
use crate::input::Input;
use crate::{Error, Position, ReadOptions, Remedy, Sink};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Fields, Schema, TimeUnit};
use latscope_event::{
    Anomaly, Batch, Clock, Column, Context, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64,
};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::Compression;
use parquet::file::metadata::RowGroupMetaData;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// The fields that a Parquet file can hold: all.
pub const FILLS: FieldSet = FieldSet::EVERY;

/// Row groups that are smaller are read together.
const PART_BYTES: u64 = 1 << 20;

/// Reads the events of a Parquet file. A pipe is copied first, because what the columns are stands at the end.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let fail = |message: String| Error::new(&name, Position::File, message);
    let file = input.seekable()?;
    let metadata = load(&file).map_err(fail)?;
    if value(&metadata, SERIES_KEY).is_some() {
        return Err(fail(crate::HISTOGRAMS_ONLY.into()).with_remedy(Remedy::Histograms));
    }
    let mut context = context(&metadata, &name).map_err(fail)?;
    if options.within.as_ref().is_some_and(|within| within.end != u64::MAX) {
        // The account of the whole file is that of its last part.
        context = Context { clock: context.clock, host: context.host, ..Context::new(context.source, Clock::wall()) };
    }
    let columns = wanted(metadata.schema().fields(), options.fields).map_err(fail)?;
    let positions: Vec<_> = columns.iter().map(|&(position, _)| position).collect();
    let projection = ProjectionMask::roots(metadata.parquet_schema(), positions);
    let (mut records, damaged) =
        open(file, metadata, projection, Batch::ROWS, options.within.as_ref()).map_err(fail)?;
    context.tally.add(Anomaly::DamagedRecords, damaged);
    let mut batch = Batch::new(columns.iter().map(|&(_, field)| field).collect());
    let mut has_rows = false;
    let own_span = context.span_ns;
    while let Some(records) = next(&mut records) {
        let records = match records {
            Ok(records) => records,
            Err(why) if !has_rows && options.within.is_none() => return Err(fail(why)),
            Err(why) => {
                context.tally.add(Anomaly::DamagedRecords, 1);
                context.tally.add(Anomaly::Truncated, 1);
                context.properties.insert("cut".into(), why);
                break;
            }
        };
        has_rows |= records.num_rows() > 0;
        take(&records, &mut batch, &mut context).map_err(fail)?;
        if own_span.is_none() {
            for (&start_ns, &latency_ns) in batch.time().iter().zip(batch.latency()) {
                context.cover(start_ns);
                context.cover(start_ns.saturating_add_unsigned(latency_ns));
            }
        }
        if !batch.is_empty() && sink(&context, &batch).is_break() {
            break;
        }
    }
    Ok(context)
}

/// What the end of the file says, with texts as dictionaries: so they are looked up once for each, not for each row.
pub fn load(file: &File) -> Result<ArrowReaderMetadata, String> {
    let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = sound(guarded(|| ArrowReaderMetadata::load(file, plain.clone())))?;
    check_end(file, &metadata)?;
    refuse_codecs(&metadata)?;
    // Parquet has no type for durations: what writes them from Arrow leaves integers, and their unit in a note.
    let described = metadata.metadata().file_metadata();
    let described = parquet_to_arrow_schema(described.schema_descr(), described.key_value_metadata()).ok();
    let duration = |field: &ArrowField| {
        let described = described.as_ref()?.field_with_name(field.name()).ok()?.data_type();
        matches!(described, DataType::Duration(_)).then(|| described.clone())
    };
    let coded = |field: &Arc<ArrowField>| match field.data_type() {
        DataType::Utf8 if Field::from_name(field.name()).is_some() => {
            let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(field.as_ref().clone().with_data_type(coded))
        }
        _ => match duration(field) {
            Some(duration) => Arc::new(field.as_ref().clone().with_data_type(duration)),
            None => field.clone(),
        },
    };
    let fields: Fields = metadata.schema().fields().iter().map(coded).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata.schema().metadata().clone()));
    sound(guarded(|| ArrowReaderMetadata::try_new(metadata.metadata().clone(), plain.with_schema(schema))))
}

/// Fails if some column is packed in a way that is not read.
fn refuse_codecs(metadata: &ArrowReaderMetadata) -> Result<(), String> {
    let columns = metadata.metadata().row_groups().iter().flat_map(|group| group.columns());
    let unread = columns.map(|column| column.compression()).find_map(|codec| match codec {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    });
    unread.map_or(Ok(()), |codec| {
        Err(format!(
            "The columns are compressed with {codec}, which is not supported; use zstd, snappy, gzip, lz4 or no \
             compression."
        ))
    })
}

/// Where the row groups start, small neighbours together.
pub fn parts(file: &File) -> Option<Vec<u64>> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = sound(guarded(|| ArrowReaderMetadata::load(file, options))).ok()?;
    let mut starts = guarded(|| starts(&metadata)).ok()?;
    starts.sort_unstable();
    let mut last = 0;
    starts.retain(|&start| {
        let is_far = start - last >= PART_BYTES;
        last = if is_far { start } else { last };
        is_far
    });
    Some(starts)
}

/// Where each row group starts. Panics on offsets below zero.
fn starts(metadata: &ArrowReaderMetadata) -> Vec<u64> {
    let groups = metadata.metadata().row_groups().iter();
    let start = |group: &RowGroupMetaData| group.columns().iter().map(|column| column.byte_range().0).min();
    groups.map(|group| start(group).unwrap_or(0)).collect()
}

/// Starts reading these columns of the intact row groups, of those that start within these bytes; returns how many rows the damaged ones have.
pub fn open(
    file: File,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    rows: usize,
    within: Option<&Range<u64>>,
) -> Result<(ParquetRecordBatchReader, u64), String> {
    let all = 0..metadata.metadata().num_row_groups();
    let groups: Vec<usize> = match within {
        None => all.collect(),
        Some(within) => {
            let starts = sound(guarded(|| Ok::<_, ArrowError>(starts(&metadata))))?;
            all.filter(|&group| within.contains(&starts[group])).collect()
        }
    };
    let damaged = sound_groups(&file, &metadata, &columns, &groups);
    if within.is_none() && damaged.as_ref().is_some_and(|(sound, _)| sound.is_empty()) {
        return Err("The whole file is damaged: nothing matches its checksum.".into());
    }
    let (groups, lost) = damaged.unwrap_or((groups, 0));
    let records = sound(guarded(|| {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).with_row_groups(groups);
        builder.with_projection(columns).with_batch_size(rows).build()
    }))?;
    Ok((records, lost))
}

/// The next rows. After an error the reader must not be asked again.
pub fn next(records: &mut ParquetRecordBatchReader) -> Option<Result<RecordBatch, String>> {
    sound(guarded(|| Ok::<_, ArrowError>(records.next()))).and_then(|next| sound(Ok(next.transpose()))).transpose()
}

/// An error or a panic of the library, as a sentence.
fn sound<T, E: std::fmt::Display>(result: Result<Result<T, E>, String>) -> Result<T, String> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(&error)),
        Err(why) => Err(damaged(&why)),
    }
}

fn damaged(error: &dyn std::fmt::Display) -> String {
    format!("The Parquet file is truncated or damaged ({error}); without its end, a Parquet file cannot be read.")
}

/// The context in the metadata; a foreign file has none.
pub fn context(metadata: &ArrowReaderMetadata, name: &str) -> Result<Context, String> {
    match value(metadata, crate::lat::CONTEXT_KEY) {
        None => Ok(Context::new(format!("Parquet, {name}"), Clock::unanchored("unknown"))),
        Some(json) => crate::arrow_columns::context_of(json)
            .map_err(|error| format!("The context in the metadata is damaged: {error}.")),
    }
}

/// Position and field of each column to read.
fn wanted(columns: &Fields, asked: FieldSet) -> Result<Vec<(usize, Field)>, String> {
    let asked = asked.union(FieldSet::ALWAYS);
    let find = |field: Field| columns.iter().position(|column| column.name() == field.name()).map(|at| (at, field));
    for field in FieldSet::ALWAYS.iter() {
        if find(field).is_none() {
            return Err(format!(
                "The column {} is missing; events need integer columns time_ns and latency_ns.",
                field.name()
            ));
        }
    }
    Ok(asked.iter().filter_map(find).collect())
}

/// Turns an Arrow batch into ours. Rows without time or latency are counted and left out.
fn take(records: &RecordBatch, batch: &mut Batch, context: &mut Context) -> Result<(), String> {
    let mut columns = Vec::new();
    for field in batch.fields().iter() {
        let array = records.column_by_name(field.name()).ok_or("A column is missing from a batch.")?;
        let column = match field.field_type() {
            FieldType::Text => texts(array, field, batch).map(Column::Text),
            FieldType::Time | FieldType::Number => integers(array, MISSING_I64).map(Column::I64),
            FieldType::Duration | FieldType::Bytes => integers(array, MISSING_I64).map(|values| {
                // Ours have no negative values; in foreign files those are as good as missing.
                Column::U64(values.into_iter().map(|value| u64::try_from(value).unwrap_or(MISSING_U64)).collect())
            }),
        };
        let column = column.ok_or_else(|| {
            format!(
                "The column {} has the type {}, which is not a {}.",
                field.name(),
                array.data_type(),
                field.field_type().word()
            )
        })?;
        columns.push((field, column));
    }
    let without = |column: &Column, at: usize| match column {
        Column::I64(values) => values[at] == MISSING_I64,
        Column::U64(values) => values[at] == MISSING_U64,
        Column::Text(_) => false,
    };
    let always: Vec<_> = columns.iter().filter(|(field, _)| FieldSet::ALWAYS.contains(*field)).collect();
    let bad = |at: usize| always.iter().any(|(_, column)| without(column, at));
    let good: Vec<bool> = (0..records.num_rows()).map(|at| !bad(at)).collect();
    let left_out = good.iter().filter(|&&good| !good).count();
    if left_out > 0 {
        context.tally.add(Anomaly::DamagedRecords, left_out as u64);
        for (_, column) in &mut columns {
            let mut keep = good.iter();
            let mut kept = || *keep.next().unwrap_or(&true);
            match column {
                Column::I64(values) => values.retain(|_| kept()),
                Column::U64(values) => values.retain(|_| kept()),
                Column::Text(codes) => codes.retain(|_| kept()),
            }
        }
    }
    batch.set_columns(columns);
    Ok(())
}

/// Integers of any width as `i64`, moments in nanoseconds; `None` for another type.
pub fn integers(array: &dyn Array, missing: i64) -> Option<Vec<i64>> {
    macro_rules! widened {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>();
            let widen = |value| i64::try_from(value).unwrap_or(i64::MAX);
            match values.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => values.values().iter().map(|&value| widen(value)).collect(),
                Some(nulls) => {
                    let pairs = values.values().iter().zip(nulls.iter());
                    pairs.map(|(&value, present)| if present { widen(value) } else { missing }).collect()
                }
            }
        }};
    }
    Some(match array.data_type() {
        DataType::Int8 => widened!(Int8Type),
        DataType::Int16 => widened!(Int16Type),
        DataType::Int32 => widened!(Int32Type),
        DataType::Int64 => widened!(Int64Type),
        DataType::UInt8 => widened!(UInt8Type),
        DataType::UInt16 => widened!(UInt16Type),
        DataType::UInt32 => widened!(UInt32Type),
        DataType::UInt64 => widened!(UInt64Type),
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            let scale = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            let data = array.to_data().into_builder().data_type(DataType::Int64).build().ok()?;
            let values = integers(&arrow_array::Int64Array::from(data), missing)?;
            values
                .into_iter()
                .map(|value| if value == missing { missing } else { value.saturating_mul(scale) })
                .collect()
        }
        _ => return None,
    })
}

/// Codes of texts in the batch's dictionary; `None` for another type.
fn texts(array: &dyn Array, field: Field, batch: &mut Batch) -> Option<Vec<u32>> {
    match array.data_type() {
        DataType::Dictionary(key, _) if **key == DataType::Int32 => {
            let coded = array.as_dictionary::<Int32Type>();
            let texts = coded.values().as_string_opt::<i32>()?;
            let mut known = vec![None; texts.len()];
            let mut code = |key: Option<i32>| {
                let at = key.and_then(|key| usize::try_from(key).ok()).filter(|&at| at < texts.len());
                at.map_or(MISSING_CODE, |at| {
                    *known[at].get_or_insert_with(|| batch.intern(field, texts.value(at).as_bytes()))
                })
            };
            Some(coded.keys().iter().map(&mut code).collect())
        }
        DataType::Utf8 => Some(plain(array.as_string::<i32>().iter(), field, batch)),
        DataType::LargeUtf8 => Some(plain(array.as_string::<i64>().iter(), field, batch)),
        DataType::Utf8View => Some(plain(array.as_string_view().iter(), field, batch)),
        DataType::Binary => {
            let values = array.as_binary::<i32>().iter();
            Some(values.map(|value| value.map_or(MISSING_CODE, |value| batch.intern(field, value))).collect())
        }
        _ => None,
    }
}

fn plain<'a>(texts: impl Iterator<Item = Option<&'a str>>, field: Field, batch: &mut Batch) -> Vec<u32> {
    texts.map(|text| text.map_or(MISSING_CODE, |text| batch.intern(field, text.as_bytes()))).collect()
}
