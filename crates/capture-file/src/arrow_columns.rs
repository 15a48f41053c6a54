//! Our columns and Arrow's: events gathered from batches become Arrow arrays without copying the values.

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema, SchemaRef};
use latscope_event::{
    Batch, Column, Context, Dictionary, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64, Mask,
};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// How durations and byte counts are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsigned {
    /// As UInt64, without loss.
    Kept,
    /// As Int64, because Spark has no unsigned integers; values above `i64::MAX` (292 years, 8 EiB) become that.
    Signed,
}

/// The Arrow schema of these fields; units are in the metadata of each.
pub fn schema(fields: FieldSet, unsigned: Unsigned, metadata: HashMap<String, String>) -> SchemaRef {
    let columns: Vec<_> = fields.iter().map(|field| arrow_field(field, unsigned)).collect();
    Arc::new(Schema::new_with_metadata(columns, metadata))
}

fn arrow_field(field: Field, unsigned: Unsigned) -> ArrowField {
    let (data_type, unit) = match field.field_type() {
        FieldType::Time => (DataType::Int64, Some("ns")),
        FieldType::Duration => (unsigned.data_type(), Some("ns")),
        FieldType::Bytes => (unsigned.data_type(), Some("bytes")),
        FieldType::Number => (DataType::Int64, None),
        FieldType::Text => (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), None),
    };
    let nullable = !FieldSet::ALWAYS.contains(field);
    let metadata: HashMap<String, String> = unit.map(|unit| ("unit".into(), unit.into())).into_iter().collect();
    ArrowField::new(field.name(), data_type, nullable).with_metadata(metadata)
}

impl Unsigned {
    fn data_type(self) -> DataType {
        match self {
            Unsigned::Kept => DataType::UInt64,
            Unsigned::Signed => DataType::Int64,
        }
    }
}

/// What a column of a message takes beside its values, at most: its description, and the padding of its buffers. One of
/// texts takes it twice.
const COLUMN_BYTES: usize = 512;

/// Events picked out of batches, with dictionaries of their own that hold the texts in use and no others.
pub struct Gathered {
    columns: Vec<GatheredColumn>,
    rows: usize,
}

struct GatheredColumn {
    field: Field,
    values: Column,
    dictionary: Dictionary,
    text_bytes: usize,
}

impl Gathered {
    /// Nothing yet, in these columns.
    pub fn new(fields: FieldSet) -> Gathered {
        Gathered { columns: fields.iter().map(GatheredColumn::new).collect(), rows: 0 }
    }

    /// Number of events.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all texts in use.
    pub fn text_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.text_bytes).sum()
    }

    /// Bytes that the events take at most as a message of a trace: what does not compress is stored as it is.
    pub fn stored_bytes(&self) -> u64 {
        let of = |column: &GatheredColumn| {
            let texts = column.dictionary.texts().len() * size_of::<i32>() + column.text_bytes;
            COLUMN_BYTES + texts + if matches!(column.values, Column::Text(_)) { COLUMN_BYTES } else { 0 }
        };
        (self.columns.iter().map(of).sum::<usize>() + self.rows * self.row_bytes()) as u64
    }

    /// Bytes of a row without its texts, and its bits that say what is there.
    fn row_bytes(&self) -> usize {
        let of = |column: &GatheredColumn| match column.values {
            Column::Text(_) => size_of::<i32>(),
            _ => size_of::<i64>(),
        };
        self.columns.iter().map(|column| of(column) + 1).sum()
    }

    /// How many of these rows take no more than `room` bytes on top of those that are gathered, at most.
    pub fn fitting(&self, batch: &Batch, rows: &[u32], room: u64) -> usize {
        let texts: Vec<_> = self
            .columns
            .iter()
            .filter_map(|column| match batch.column(column.field) {
                Some(Column::Text(codes)) => Some((codes, batch.dictionary(column.field))),
                _ => None,
            })
            .collect();
        let text_bytes = |row: u32| -> usize {
            let of = |(codes, texts): &(&Vec<u32>, &Dictionary)| {
                texts.text(codes[row as usize]).map_or(0, |text| size_of::<i32>() + text.len())
            };
            texts.iter().map(of).sum()
        };
        let mut left = room.saturating_sub(self.stored_bytes());
        let fits = |&&row: &&u32| {
            let rest = left.checked_sub((self.row_bytes() + text_bytes(row)) as u64);
            rest.inspect(|&rest| left = rest).is_some()
        };
        rows.iter().take_while(fits).count()
    }

    /// Appends these rows of a batch. A column that the batch lacks gets missing values.
    pub fn append(&mut self, batch: &Batch, rows: &[u32]) {
        for column in &mut self.columns {
            column.append(batch.column(column.field), batch.dictionary(column.field), rows);
        }
        self.rows += rows.len();
    }

    /// Takes out the `count` events that started first, in order of their start.
    pub fn take_first(&mut self, count: usize) -> Gathered {
        let Some(Column::I64(times)) =
            self.columns.iter().find(|column| column.field == Field::Time).map(|column| &column.values)
        else {
            return Gathered { columns: Vec::new(), rows: 0 };
        };
        let mut order: Vec<u32> = (0..self.rows as u32).collect();
        order.sort_by_key(|&row| times[row as usize]);
        let (first, rest) = order.split_at(count.min(self.rows));
        let mut taken = Gathered { columns: Vec::with_capacity(self.columns.len()), rows: first.len() };
        for column in &mut self.columns {
            // Column by column, so that only one of them is in memory twice.
            let (mut early, mut late) = (GatheredColumn::new(column.field), GatheredColumn::new(column.field));
            early.append(Some(&column.values), &column.dictionary, first);
            late.append(Some(&column.values), &column.dictionary, rest);
            taken.columns.push(early);
            *column = late;
        }
        self.rows = rest.len();
        taken
    }

    /// First and last start, when the events are in order.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        self.columns.iter().find_map(|column| match &column.values {
            Column::I64(times) if column.field == Field::Time => Some((*times.first()?, *times.last()?)),
            _ => None,
        })
    }

    /// The events as an Arrow batch of this schema.
    pub fn into_arrow(self, schema: SchemaRef, unsigned: Unsigned) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.into_iter().map(|column| column.into_arrow(unsigned)).collect::<Result<_, _>>()?;
        RecordBatch::try_new(schema, arrays)
    }
}

impl GatheredColumn {
    fn new(field: Field) -> GatheredColumn {
        let values = match field.field_type() {
            FieldType::Time | FieldType::Number => Column::I64(Vec::new()),
            FieldType::Duration | FieldType::Bytes => Column::U64(Vec::new()),
            FieldType::Text => Column::Text(Vec::new()),
        };
        GatheredColumn { field, values, dictionary: Dictionary::default(), text_bytes: 0 }
    }

    fn append(&mut self, source: Option<&Column>, texts: &Dictionary, rows: &[u32]) {
        match (&mut self.values, source) {
            (Column::I64(to), Some(Column::I64(from))) => to.extend(rows.iter().map(|&row| from[row as usize])),
            (Column::U64(to), Some(Column::U64(from))) => to.extend(rows.iter().map(|&row| from[row as usize])),
            (Column::Text(to), Some(Column::Text(from))) => {
                // Codes of the source mean nothing beyond it: each is looked up once.
                const UNSEEN: u32 = MISSING_CODE - 1;
                let mut known = vec![UNSEEN; texts.texts().len()];
                to.extend(rows.iter().map(|&row| match (known.get_mut(from[row as usize] as usize), row) {
                    (None, _) => MISSING_CODE,
                    (Some(code), _) if *code != UNSEEN => *code,
                    (Some(code), row) => {
                        let text = texts.text(from[row as usize]).unwrap_or_default();
                        let before = self.dictionary.texts().len();
                        *code = self.dictionary.intern(text.as_bytes());
                        if self.dictionary.texts().len() > before {
                            self.text_bytes += text.len();
                        }
                        *code
                    }
                }));
            }
            (Column::I64(to), _) => to.resize(to.len() + rows.len(), MISSING_I64),
            (Column::U64(to), _) => to.resize(to.len() + rows.len(), MISSING_U64),
            (Column::Text(to), _) => to.resize(to.len() + rows.len(), MISSING_CODE),
        }
    }

    fn into_arrow(self, unsigned: Unsigned) -> Result<ArrayRef, ArrowError> {
        let always = FieldSet::ALWAYS.contains(self.field);
        Ok(match self.values {
            Column::I64(values) => {
                let nulls = present(&values, MISSING_I64, always);
                Arc::new(Int64Array::try_new(values.into(), nulls)?)
            }
            Column::U64(values) => {
                let nulls = present(&values, MISSING_U64, always);
                match unsigned {
                    Unsigned::Kept => Arc::new(UInt64Array::try_new(values.into(), nulls)?),
                    Unsigned::Signed => {
                        // Collecting into the same width keeps the allocation.
                        let clamped: Vec<i64> =
                            values.into_iter().map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect();
                        Arc::new(Int64Array::try_new(clamped.into(), nulls)?)
                    }
                }
            }
            Column::Text(codes) => {
                let nulls = present(&codes, MISSING_CODE, false);
                let keys: Vec<i32> =
                    codes.into_iter().map(|code| if code == MISSING_CODE { 0 } else { code as i32 }).collect();
                let keys = Int32Array::try_new(keys.into(), nulls)?;
                let texts = StringArray::from_iter_values(self.dictionary.texts());
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(texts))?)
            }
        })
    }
}

/// Which values are there; `None` when all are.
fn present<T: PartialEq>(values: &[T], missing: T, always: bool) -> Option<NullBuffer> {
    (!always && values.contains(&missing))
        .then(|| NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |at| values[at] != missing)))
}

/// The rows of a batch that a mask lets through.
pub fn selected(batch: &Batch, mask: Option<&Mask>) -> Vec<u32> {
    match mask {
        Some(mask) => mask.ones().take_while(|&row| row < batch.len()).map(|row| row as u32).collect(),
        None => (0..batch.len() as u32).collect(),
    }
}

/// An Arrow error as what it mostly is: the disk is full, the pipe closed.
pub fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

/// The context as the JSON that file headers carry, without the account that only the end can give.
pub fn context_json(context: &Context, account: bool) -> io::Result<String> {
    let shown = if account {
        std::borrow::Cow::Borrowed(context)
    } else {
        let mut header = context.clone();
        header.tally = Default::default();
        header.unfinished.clear();
        header.loss_ranges.clear();
        std::borrow::Cow::Owned(header)
    };
    serde_json::to_string(&*shown).map_err(io::Error::other)
}

/// The context in the metadata of a file. What views rely on is put right, since a file may say anything: a span that
/// ends before it starts, longer lists than are kept, counts of nothing.
pub fn context_of(json: &str) -> serde_json::Result<Context> {
    let mut context: Context = serde_json::from_str(json)?;
    context.span_ns = context.span_ns.map(|(from, to)| (from.min(to), from.max(to)));
    context.unfinished.truncate(Context::UNFINISHED_KEPT);
    context.loss_ranges.truncate(Context::LOSS_RANGES_KEPT);
    context.begun_before_ns.truncate(Context::LOSS_RANGES_KEPT);
    // What a capture calls itself while it runs.
    if let Some(what) = context.source.strip_prefix("live ") {
        context.source = format!("recorded {}", what.replace(", live ", ", "));
    }
    let stored = std::mem::take(&mut context.tally);
    context.tally.merge(&stored);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Clock;

    #[test]
    fn a_recording_is_not_live() {
        for (live, recorded) in [
            ("live block requests, live stacks", "recorded block requests, stacks"),
            ("fio log, live 1.log", "fio log, live 1.log"),
        ] {
            let json = serde_json::to_string(&Context::new(live, Clock::wall())).unwrap();
            assert_eq!(context_of(&json).unwrap().source, recorded);
        }
    }
}
