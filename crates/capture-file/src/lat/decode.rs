//! From the flatbuffers and bodies of Arrow IPC messages to our columns.
//!
//! Only what a trace holds is understood: integers and dictionary-encoded text, plain or zstd. Buffers are unpacked
//! straight into columns, those that nobody asked for not at all, and nothing that the file says about lengths is
//! believed before it is checked.

use super::{CONTEXT_KEY, VERSION, VERSION_KEY};
use arrow_ipc::{Buffer, CompressionType, DictionaryBatch, FieldNode, RecordBatch, Type};
use latscope_event::{Batch, Column, Context, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64};

/// Most events in a batch; ours have some ten thousand.
const ROWS_LIMIT: usize = 1 << 20;
/// Longest buffer after decompression.
const BUFFER_LIMIT: usize = 64 << 20;

/// What the first message of a stream gives.
pub struct Header {
    /// The context in the metadata of the schema.
    pub context: Context,
    /// What unpacks the batches.
    pub decoder: Decoder,
}

/// Unpacks batches of one schema.
pub struct Decoder {
    columns: Vec<Stored>,
    zstd: zstd::bulk::Decompressor<'static>,
    unpacked: Vec<u8>,
}

/// A column as it lies in the file.
struct Stored {
    /// Our field, when there is one of this name and it is asked for.
    field: Option<Field>,
    integer: Integer,
    /// Number of the dictionary, and the code in the batch for each of its texts.
    dictionary: Option<(i64, Vec<u32>)>,
    /// Number of buffers: validity, values, and for plain text offsets.
    buffers: usize,
}

#[derive(Clone, Copy)]
struct Integer {
    bytes: usize,
    signed: bool,
}

/// Reads the first message of a stream. The error is a sentence.
pub fn header(metadata: &[u8]) -> Result<Header, String> {
    let schema = arrow_ipc::root_as_message(metadata)
        .ok()
        .and_then(|message| message.header_as_schema())
        .ok_or("The trace does not start with a schema; it is damaged, or was not written by latscope.")?;
    let value = |key: &str| {
        let mut pairs = schema.custom_metadata().into_iter().flatten();
        pairs.find_map(|pair| (pair.key() == Some(key)).then(|| pair.value()).flatten())
    };
    if let Some(version) = value(VERSION_KEY)
        && version != VERSION
    {
        return Err(format!(
            "The trace has format version {version}, and this latscope reads version {VERSION}; use a newer \
             latscope."
        ));
    }
    let json = value(CONTEXT_KEY).ok_or("This Arrow stream was not written by latscope: its schema has no context.")?;
    let context = crate::arrow_columns::context_of(json)
        .map_err(|error| format!("The context of the trace is damaged: {error}."))?;
    let columns = schema.fields().into_iter().flatten().map(stored).collect::<Result<Vec<_>, _>>()?;
    let zstd = zstd::bulk::Decompressor::new().map_err(|error| format!("zstd cannot start: {error}."))?;
    let decoder = Decoder { columns, zstd, unpacked: Vec::new() };
    if FieldSet::ALWAYS.intersection(decoder.fields()) != FieldSet::ALWAYS {
        return Err("The trace lacks the columns time_ns and latency_ns.".into());
    }
    Ok(Header { context, decoder })
}

fn stored(column: arrow_ipc::Field) -> Result<Stored, String> {
    let name = column.name().unwrap_or_default();
    let mut field = Field::from_name(name).filter(|field| field.name() == name);
    let integer = |int: arrow_ipc::Int| match int.bitWidth() {
        bits @ (8 | 16 | 32 | 64) => Ok(Integer { bytes: bits as usize / 8, signed: int.is_signed() }),
        bits => Err(format!("The column {name} has integers of {bits} bits.")),
    };
    let mut stored = Stored { field, integer: Integer { bytes: 4, signed: true }, dictionary: None, buffers: 2 };
    match (column.dictionary(), column.type_as_int()) {
        (Some(dictionary), _) if column.type_type() == Type::Utf8 => {
            stored.integer = dictionary.indexType().map_or(Ok(stored.integer), integer)?;
            stored.dictionary = Some((dictionary.id(), Vec::new()));
        }
        (Some(_), _) => field = None,
        (None, Some(int)) => stored.integer = integer(int)?,
        (None, None) => {
            field = None;
            stored.buffers = match column.type_type() {
                Type::Null => 0,
                Type::Bool | Type::FloatingPoint | Type::Date | Type::Time | Type::Timestamp | Type::Duration => 2,
                Type::Utf8 | Type::Binary | Type::LargeUtf8 | Type::LargeBinary => 3,
                _ => return Err(format!("The column {name} has a type that is not supported.")),
            };
        }
    }
    // A column of our name with another kind of values is not ours.
    let fits = |field: &Field| (field.field_type() == FieldType::Text) == stored.dictionary.is_some();
    stored.field = field.filter(fits);
    Ok(stored)
}

impl Decoder {
    /// The fields in the file.
    pub fn fields(&self) -> FieldSet {
        self.columns.iter().filter_map(|column| column.field).collect()
    }

    /// Unpacks these fields only.
    pub fn projected(mut self, fields: FieldSet) -> Decoder {
        let mut seen = FieldSet::default();
        for column in &mut self.columns {
            // A second column of the same name would fight with the first.
            column.field = column.field.filter(|&field| fields.contains(field) && !seen.contains(field));
            seen = column.field.map_or(seen, |field| seen.with(&[field]));
        }
        self
    }

    /// Forgets all dictionaries: one was damaged, and what comes may rely on it.
    pub fn forget(&mut self) {
        self.columns.iter_mut().filter_map(|column| column.dictionary.as_mut()).for_each(|(_, codes)| codes.clear());
    }

    /// Takes a dictionary; it replaces the one before, or adds to it.
    pub fn dictionary(&mut self, from: &DictionaryBatch, body: &[u8], batch: &mut Batch) -> Result<(), String> {
        let wanted = |column: &Stored| {
            column.field.is_some() && column.dictionary.as_ref().is_some_and(|(id, _)| *id == from.id())
        };
        if !self.columns.iter().any(wanted) {
            return Ok(());
        }
        let records = from.data().ok_or("a dictionary is empty")?;
        let mut parts = Parts::new(&records, body)?;
        let count = parts.rows;
        parts.column()?;
        parts.skip(1);
        let offsets = parts.next(&mut self.zstd, &mut self.unpacked)?.to_vec();
        let texts = parts.next(&mut self.zstd, &mut self.unpacked)?;
        let offset = |at: usize| {
            let bytes = offsets.get(at * 4..at * 4 + 4)?;
            usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok()
        };
        for column in self.columns.iter_mut().filter(|column| wanted(column)) {
            let (Some(field), Some((_, codes))) = (column.field, &mut column.dictionary) else { continue };
            if !from.isDelta() {
                codes.clear();
            }
            for at in 0..count {
                let text = offset(at).zip(offset(at + 1)).and_then(|(start, end)| texts.get(start..end));
                codes.push(batch.intern(field, text.ok_or("the texts of a dictionary are damaged")?));
            }
        }
        Ok(())
    }

    /// Takes a batch of events.
    pub fn records(&mut self, from: &RecordBatch, body: &[u8], batch: &mut Batch) -> Result<(), String> {
        let mut parts = Parts::new(from, body)?;
        let mut columns = Vec::new();
        for column in &self.columns {
            let has_missing = parts.column()?;
            let Some(field) = column.field else {
                parts.skip(column.buffers);
                continue;
            };
            let mut present = None;
            if has_missing {
                present = Some(parts.next(&mut self.zstd, &mut self.unpacked)?.to_vec());
            } else {
                parts.skip(1);
            }
            if present.as_ref().is_some_and(|bits| bits.len() * 8 < parts.rows) {
                return Err(format!("the validity of {} is damaged", field.name()));
            }
            let values = parts.next(&mut self.zstd, &mut self.unpacked)?;
            let values = values
                .get(..parts.rows * column.integer.bytes)
                .ok_or_else(|| format!("the values of {} are truncated", field.name()))?;
            columns.push((field, column.values(field, values, present.as_deref())?));
        }
        batch.set_columns(columns);
        Ok(())
    }
}

impl Stored {
    fn values(&self, field: Field, bytes: &[u8], present: Option<&[u8]>) -> Result<Column, String> {
        let mut column = match (field.field_type(), &self.dictionary) {
            (FieldType::Text, Some((_, codes))) => {
                let mut texts = self.integer.widen(bytes);
                // Where there is no value the key means nothing and need not be in the dictionary.
                blank(&mut texts, present, -1);
                let code = |key: i64| match usize::try_from(key).ok().map(|key| codes.get(key)) {
                    Some(Some(&code)) => Ok(code),
                    None if key == -1 => Ok(MISSING_CODE),
                    _ => Err(format!("a text of {} is not in its dictionary", field.name())),
                };
                return Ok(Column::Text(texts.into_iter().map(code).collect::<Result<_, _>>()?));
            }
            (FieldType::Duration | FieldType::Bytes, _) if self.integer.bytes == 8 && !self.integer.signed => {
                Column::U64(
                    bytes
                        .chunks_exact(8)
                        .filter_map(|value| Some(u64::from_le_bytes(value.try_into().ok()?)))
                        .collect(),
                )
            }
            (FieldType::Duration | FieldType::Bytes, _) => {
                let mut values = self.integer.widen(bytes);
                blank(&mut values, present, 0);
                let values = values.into_iter().map(u64::try_from).collect::<Result<_, _>>();
                Column::U64(values.map_err(|_| format!("a value of {} is negative", field.name()))?)
            }
            _ => Column::I64(self.integer.widen(bytes)),
        };
        if FieldSet::ALWAYS.contains(field) && (present.is_some() || has_missing(&column)) {
            return Err(format!("values of {} are missing", field.name()));
        }
        match &mut column {
            Column::I64(values) => blank(values, present, MISSING_I64),
            Column::U64(values) => blank(values, present, MISSING_U64),
            Column::Text(_) => {}
        }
        Ok(column)
    }
}

/// Whether a value is the one that stands for a missing one.
fn has_missing(column: &Column) -> bool {
    match column {
        Column::I64(values) => values.contains(&MISSING_I64),
        Column::U64(values) => values.contains(&MISSING_U64),
        Column::Text(codes) => codes.contains(&MISSING_CODE),
    }
}

/// Writes `missing` where the bits say that there is no value.
fn blank<T: Copy>(values: &mut [T], present: Option<&[u8]>, missing: T) {
    let Some(bits) = present else { return };
    for (at, value) in values.iter_mut().enumerate() {
        if bits[at / 8] >> (at % 8) & 1 == 0 {
            *value = missing;
        }
    }
}

impl Integer {
    /// Little-endian integers of this width as `i64`; unsigned ones beyond become `i64::MAX`.
    fn widen(self, bytes: &[u8]) -> Vec<i64> {
        macro_rules! widened {
            ($type:ty) => {{
                let chunks = bytes.as_chunks::<{ size_of::<$type>() }>().0;
                chunks.iter().map(|&value| i64::try_from(<$type>::from_le_bytes(value)).unwrap_or(i64::MAX)).collect()
            }};
        }
        match (self.bytes, self.signed) {
            (1, true) => widened!(i8),
            (1, false) => widened!(u8),
            (2, true) => widened!(i16),
            (2, false) => widened!(u16),
            (4, true) => widened!(i32),
            (4, false) => widened!(u32),
            (_, true) => widened!(i64),
            (_, false) => widened!(u64),
        }
    }
}

/// Walks through the nodes and buffers of a batch.
struct Parts<'a> {
    rows: usize,
    packed: bool,
    nodes: std::vec::IntoIter<&'a FieldNode>,
    buffers: std::vec::IntoIter<&'a Buffer>,
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn new(records: &RecordBatch<'a>, body: &'a [u8]) -> Result<Parts<'a>, String> {
        let rows = usize::try_from(records.length()).ok().filter(|&rows| rows <= ROWS_LIMIT);
        let rows = rows.ok_or_else(|| format!("a batch claims to have {} events", records.length()))?;
        let packed = match records.compression() {
            None => false,
            Some(compression) if compression.codec() == CompressionType::ZSTD => true,
            Some(_) => return Err("a batch is compressed with LZ4; only zstd is supported".into()),
        };
        let nodes = records.nodes().into_iter().flatten().collect::<Vec<_>>().into_iter();
        let buffers = records.buffers().into_iter().flatten().collect::<Vec<_>>().into_iter();
        Ok(Parts { rows, packed, nodes, buffers, body })
    }

    /// Goes to the next column; whether it has missing values.
    fn column(&mut self) -> Result<bool, String> {
        let node = self.nodes.next().ok_or("a batch has fewer columns than the schema")?;
        match usize::try_from(node.length()) {
            Ok(length) if length == self.rows => Ok(node.null_count() != 0),
            _ => Err("the columns of a batch differ in length".into()),
        }
    }

    /// Passes over buffers.
    fn skip(&mut self, count: usize) {
        self.buffers.by_ref().take(count).for_each(drop);
    }

    /// The next buffer, decompressed.
    fn next<'b>(
        &mut self,
        zstd: &mut zstd::bulk::Decompressor<'static>,
        unpacked: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], String>
    where
        'a: 'b,
    {
        let buffer = self.buffers.next().ok_or("a batch has fewer buffers than the schema requires")?;
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range
            .and_then(|(offset, length)| self.body.get(offset..offset.checked_add(length)?))
            .ok_or("a buffer exceeds its batch")?;
        if !self.packed || bytes.is_empty() {
            return Ok(bytes);
        }
        let (length, bytes) = bytes.split_first_chunk().ok_or("a compressed buffer is truncated")?;
        let length = match i64::from_le_bytes(*length) {
            -1 => return Ok(bytes),
            length => usize::try_from(length).ok().filter(|&length| length <= BUFFER_LIMIT),
        };
        let length = length.ok_or("the length of a compressed buffer is impossible")?;
        unpacked.clear();
        unpacked.reserve(length);
        match zstd.decompress_to_buffer(bytes, unpacked) {
            Ok(got) if got == length => Ok(unpacked),
            _ => Err("a compressed buffer is damaged".into()),
        }
    }
}
