//! Events as columns. A batch is filled by a reader row by row, handed to a consumer, cleared and filled again;
//! its dictionaries only grow, so a code means the same text in every batch of one trace.

use crate::{Field, FieldSet, FieldType};
use hashbrown::HashMap;
use std::sync::Arc;

/// Marks a missing `i64` value.
pub const MISSING_I64: i64 = i64::MIN;
/// Marks a missing `u64` value.
pub const MISSING_U64: u64 = u64::MAX;
/// Marks a missing text.
pub const MISSING_CODE: u32 = u32::MAX;

/// The values of one field.
#[derive(Clone, PartialEq, Debug)]
pub enum Column {
    /// Times and numbers; [`MISSING_I64`] for a missing value.
    I64(Vec<i64>),
    /// Durations and byte counts; [`MISSING_U64`] for a missing value.
    U64(Vec<u64>),
    /// Codes into the [`Dictionary`] of the field; [`MISSING_CODE`] for a missing value.
    Text(Vec<u32>),
}

impl Column {
    fn empty(field_type: FieldType) -> Column {
        match field_type {
            FieldType::Time | FieldType::Number => Column::I64(Vec::new()),
            FieldType::Duration | FieldType::Bytes => Column::U64(Vec::new()),
            FieldType::Text => Column::Text(Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Column::I64(values) => values.len(),
            Column::U64(values) => values.len(),
            Column::Text(codes) => codes.len(),
        }
    }

    fn clear(&mut self) {
        match self {
            Column::I64(values) => values.clear(),
            Column::U64(values) => values.clear(),
            Column::Text(codes) => codes.clear(),
        }
    }
}

/// The distinct texts of one field, numbered in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    texts: Vec<Arc<str>>,
    /// The keys are the texts themselves, which copies of a dictionary share, too.
    codes: HashMap<Arc<[u8]>, u32>,
}

impl Dictionary {
    /// A hostile input may hold a new text in every row; from here on all new ones share [`Dictionary::OVERFLOW`].
    pub const LIMIT: usize = 1 << 20;
    /// The text that stands for all that found no place.
    pub const OVERFLOW: &'static str = "(too many different values)";

    /// The code of this text, a new one if it was never seen. Bytes that are not UTF-8 show as U+FFFD.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if let Some(code) = self.find(text) {
            return code;
        }
        if self.texts.len() >= Dictionary::LIMIT {
            let overflow = Dictionary::OVERFLOW.as_bytes();
            return match self.codes.get(overflow) {
                Some(&code) => code,
                None => self.insert(overflow),
            };
        }
        self.insert(text)
    }

    /// The code of this text, if it was seen.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.codes.get(text).copied()
    }

    fn insert(&mut self, text: &[u8]) -> u32 {
        let code = self.texts.len() as u32;
        let shown: Arc<str> = String::from_utf8_lossy(text).into();
        let key = if shown.as_bytes() == text { shown.clone().into() } else { text.into() };
        self.texts.push(shown);
        self.codes.insert(key, code);
        code
    }

    /// Takes over the texts that another dictionary of the same trace has gained, with their codes.
    fn follow(&mut self, other: &Dictionary) {
        for text in &other.texts[self.texts.len().min(other.texts.len())..] {
            // Texts that were not UTF-8 may look alike; each keeps its code.
            self.codes.entry(text.clone().into()).or_insert(self.texts.len() as u32);
            self.texts.push(text.clone());
        }
    }

    /// The text of a code; `None` for [`MISSING_CODE`].
    pub fn text(&self, code: u32) -> Option<&str> {
        self.texts.get(code as usize).map(|text| &**text)
    }

    /// All texts; a code is an index into them.
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    /// Whether texts had to be merged into [`Dictionary::OVERFLOW`].
    pub fn overflowed(&self) -> bool {
        self.texts.len() > Dictionary::LIMIT
    }
}

/// A few ten thousand events as columns.
#[derive(Clone, Debug)]
pub struct Batch {
    columns: [Option<Column>; Field::COUNT],
    dictionaries: Vec<Dictionary>,
    fields: FieldSet,
    len: usize,
    /// Values pushed since the last row ended; less than the number of columns when some were left out.
    pushed: usize,
    width: usize,
    /// The columns that got no value in the last row that lacked some: those that the source never fills.
    lacking: Vec<Field>,
}

impl Batch {
    /// How many events a reader gathers before it hands the batch on.
    pub const ROWS: usize = 1 << 15;

    /// An empty batch with a column for each of these fields, and for time and latency.
    pub fn new(fields: FieldSet) -> Batch {
        let fields = fields.union(FieldSet::ALWAYS).with_stored();
        let mut columns = [const { None }; Field::COUNT];
        for field in fields.iter() {
            columns[field as usize] = Some(Column::empty(field.field_type()));
        }
        let dictionaries = vec![Dictionary::default(); Field::COUNT];
        Batch { columns, dictionaries, fields, len: 0, pushed: 0, width: fields.iter().count(), lacking: Vec::new() }
    }

    /// The column that holds a field: a source that knows processes by the names of their threads only has these in
    /// place of [`Field::Process`], and the hash of a stack has its code.
    fn place(&self, field: Field) -> Field {
        match field {
            Field::Process if !self.fields.contains(field) => Field::Comm,
            Field::StackHash => Field::Stack,
            field => field,
        }
    }

    /// The fields that have a column of their own.
    pub fn fields(&self) -> FieldSet {
        self.fields
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the batch holds as many events as it should carry.
    pub fn is_full(&self) -> bool {
        self.len >= Batch::ROWS
    }

    /// Starts of the events, nanoseconds.
    pub fn time(&self) -> &[i64] {
        self.i64s(Field::Time).unwrap_or(&[])
    }

    /// Latencies of the events, nanoseconds.
    pub fn latency(&self) -> &[u64] {
        self.u64s(Field::Latency).unwrap_or(&[])
    }

    /// The column of a field, `None` when the source does not fill it or nobody asked for it.
    pub fn column(&self, field: Field) -> Option<&Column> {
        self.columns[self.place(field) as usize].as_ref()
    }

    /// The values of a time or number field.
    pub fn i64s(&self, field: Field) -> Option<&[i64]> {
        match self.column(field) {
            Some(Column::I64(values)) => Some(values),
            _ => None,
        }
    }

    /// The values of a duration or byte field.
    pub fn u64s(&self, field: Field) -> Option<&[u64]> {
        match self.column(field) {
            Some(Column::U64(values)) => Some(values),
            _ => None,
        }
    }

    /// The codes of a text field.
    pub fn codes(&self, field: Field) -> Option<&[u32]> {
        match self.column(field) {
            Some(Column::Text(codes)) => Some(codes),
            _ => None,
        }
    }

    /// The dictionary of a text field.
    pub fn dictionary(&self, field: Field) -> &Dictionary {
        let place = if field == Field::StackHash { field } else { self.place(field) };
        &self.dictionaries[place as usize]
    }

    /// The text of a field in a row.
    pub fn text(&self, field: Field, row: usize) -> Option<&str> {
        self.dictionary(field).text(*self.codes(field)?.get(row)?)
    }

    /// The bytes that an event moved: its size, but no more than its call returned, which is nothing if it failed; `None` if the
    /// size is unknown.
    #[inline]
    pub fn moved_bytes(&self, row: usize) -> Option<u64> {
        let size = self.u64s(Field::Size)?[row];
        let returned = self.i64s(Field::Result).map_or(MISSING_I64, |results| results[row]);
        let most = if returned == MISSING_I64 { u64::MAX } else { u64::try_from(returned).unwrap_or(0) };
        (size != MISSING_U64).then_some(size.min(most))
    }

    /// Takes over what the dictionaries of another batch of the same trace have gained, so that its codes mean the same here.
    pub fn follow(&mut self, other: &Batch) {
        self.follow_but(other, FieldSet::EMPTY);
    }

    /// The same, but for fields whose texts are others here.
    pub fn follow_but(&mut self, other: &Batch, others: FieldSet) {
        let fields = Field::ALL.iter().filter(|&&field| !others.contains(field));
        fields.for_each(|&field| self.dictionaries[field as usize].follow(&other.dictionaries[field as usize]));
    }

    /// Gives text a code in the dictionary of a field.
    pub fn intern(&mut self, field: Field, text: &[u8]) -> u32 {
        let code = self.dictionaries[field as usize].intern(text);
        if field == Field::Stack {
            self.hash_stacks();
        }
        code
    }

    /// Makes the dictionary of hashes as long as that of stacks.
    fn hash_stacks(&mut self) {
        let known = self.dictionaries[Field::StackHash as usize].texts.len();
        for at in known..self.dictionaries[Field::Stack as usize].texts.len() {
            let hash = crate::stack_hash(&self.dictionaries[Field::Stack as usize].texts[at]);
            self.dictionaries[Field::StackHash as usize].insert(format!("{hash:016x}").as_bytes());
        }
    }

    /// Appends a value to a time or number column; nothing happens when the batch has no such column.
    #[inline]
    pub fn push_i64(&mut self, field: Field, value: i64) {
        if let Some(Column::I64(values)) = &mut self.columns[field as usize] {
            self.pushed += 1;
            values.push(value);
        }
    }

    /// Appends a value to a duration or byte column; nothing happens when the batch has no such column.
    #[inline]
    pub fn push_u64(&mut self, field: Field, value: u64) {
        if let Some(Column::U64(values)) = &mut self.columns[field as usize] {
            self.pushed += 1;
            values.push(value);
        }
    }

    /// Appends text to a column, `None` as missing; nothing happens when the batch has no such column.
    #[inline]
    pub fn push_text(&mut self, field: Field, text: Option<&[u8]>) {
        if let Some(Column::Text(codes)) = &mut self.columns[field as usize] {
            self.pushed += 1;
            codes.push(text.map_or(MISSING_CODE, |text| self.dictionaries[field as usize].intern(text)));
            if field == Field::Stack {
                self.hash_stacks();
            }
        }
    }

    /// Appends a code that [`Batch::intern`] gave; nothing happens when the batch has no such column.
    #[inline]
    pub fn push_code(&mut self, field: Field, code: u32) {
        if let Some(Column::Text(codes)) = &mut self.columns[field as usize] {
            self.pushed += 1;
            codes.push(code);
        }
    }

    /// Ends a row. A column that got no value gets a missing one: a trace of both block requests and system calls
    /// has columns that only one of them fills.
    #[inline]
    pub fn end_row(&mut self) {
        self.len += 1;
        if self.pushed != self.width {
            self.pad();
        }
        self.pushed = 0;
    }

    /// Fills what the row lacks. Most rows lack what the row before lacked, so that few columns are looked at.
    #[inline(never)]
    fn pad(&mut self) {
        let (columns, rows) = (&mut self.columns, self.len);
        let is_behind = |field: Field| columns[field as usize].as_ref().is_some_and(|column| column.len() < rows);
        if self.lacking.len() + self.pushed != self.width || !self.lacking.iter().all(|&field| is_behind(field)) {
            self.lacking.clear();
            self.lacking.extend(self.fields.iter().filter(|&field| is_behind(field)));
        }
        for &field in &self.lacking {
            match &mut columns[field as usize] {
                Some(Column::I64(values)) => values.resize(rows, MISSING_I64),
                Some(Column::U64(values)) => values.resize(rows, MISSING_U64),
                Some(Column::Text(codes)) => codes.resize(rows, MISSING_CODE),
                None => {}
            }
        }
    }

    /// Replaces whole columns, as a reader of a columnar file does. All must have the same length.
    ///
    /// # Panics
    /// When lengths differ or a column's storage is not that of its field, which is a mistake of the caller.
    pub fn set_columns(&mut self, columns: impl IntoIterator<Item = (Field, Column)>) {
        for (field, column) in columns {
            assert_eq!(
                std::mem::discriminant(&column),
                std::mem::discriminant(&Column::empty(field.field_type())),
                "the storage of {} does not fit",
                field.name()
            );
            self.columns[field as usize] = Some(column);
            self.fields = self.fields.with(&[field]);
        }
        self.width = self.fields.iter().count();
        self.len = self.time().len();
        assert!(self.columns.iter().flatten().all(|column| column.len() == self.len), "columns differ in length");
    }

    /// As [`Batch::set_columns`], and the batch has no other columns then.
    ///
    /// # Panics
    /// As [`Batch::set_columns`].
    pub fn replace_columns(&mut self, columns: impl IntoIterator<Item = (Field, Column)>) {
        (self.columns, self.fields) = ([const { None }; Field::COUNT], FieldSet::EMPTY);
        self.set_columns(columns);
    }

    /// Forgets the rows and takes out the memory of a column, emptied, to be filled and given back with
    /// [`Batch::set_columns`].
    pub fn take_column(&mut self, field: Field) -> Option<Column> {
        self.clear();
        let column = self.columns[field as usize].as_mut()?;
        Some(std::mem::replace(column, Column::empty(field.field_type())))
    }

    /// The same events counted from when they started to wait: the queue time moves from before the start into the latency.
    /// Events that do not give it stay as they are.
    #[must_use]
    pub fn counted_from_queue(&self) -> Batch {
        let mut shifted = self.clone();
        let Some(queue) = self.u64s(Field::Queue) else { return shifted };
        let waited = || queue.iter().map(|&ns| if ns == MISSING_U64 { 0 } else { ns });
        if let Some(Column::I64(times)) = &mut shifted.columns[Field::Time as usize] {
            times.iter_mut().zip(waited()).for_each(|(time, ns)| *time = time.saturating_sub_unsigned(ns));
        }
        if let Some(Column::U64(latencies)) = &mut shifted.columns[Field::Latency as usize] {
            latencies.iter_mut().zip(waited()).for_each(|(latency, ns)| *latency = latency.saturating_add(ns));
        }
        shifted
    }

    /// The same events, later by this much.
    #[must_use]
    pub fn shifted(&self, by_ns: i64) -> Batch {
        let mut shifted = self.clone();
        if let Some(Column::I64(times)) = &mut shifted.columns[Field::Time as usize] {
            times.iter_mut().for_each(|time| *time = time.saturating_add(by_ns));
        }
        shifted
    }

    /// Forgets the rows, keeps dictionaries and memory.
    pub fn clear(&mut self) {
        self.columns.iter_mut().flatten().for_each(Column::clear);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_columns() {
        let mut batch = Batch::new([Field::Comm, Field::Pid].into_iter().collect());
        for (time, comm) in [(1, Some("fio")), (2, None), (3, Some("fio"))] {
            batch.push_i64(Field::Time, time);
            batch.push_u64(Field::Latency, 10);
            batch.push_text(Field::Comm, comm.map(str::as_bytes));
            if time != 3 {
                batch.push_i64(Field::Pid, 7);
            }
            batch.push_u64(Field::Size, 4096);
            batch.end_row();
        }
        assert_eq!(batch.time(), [1, 2, 3]);
        assert_eq!(batch.i64s(Field::Pid), Some(&[7, 7, MISSING_I64][..]), "a value left out is missing");
        assert_eq!(batch.codes(Field::Comm), Some(&[0, MISSING_CODE, 0][..]));
        assert_eq!((batch.text(Field::Comm, 2), batch.text(Field::Comm, 1)), (Some("fio"), None));
        assert_eq!(batch.u64s(Field::Size), None, "a field nobody asked for has no column");
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(batch.intern(Field::Comm, b"fio"), 0, "codes outlive the rows");
    }

    /// Rows that lack other columns than the row before, in every order, have what a row by itself would have.
    #[test]
    fn what_a_row_lacks_is_missing_whatever_the_row_before_lacked() {
        let fields = [Field::Comm, Field::Pid, Field::Size, Field::Offset];
        let mut batch = Batch::new(fields.into_iter().collect());
        let given: Vec<u32> = (0..16).flat_map(|before| (0..16).flat_map(move |row| [before, row, row])).collect();
        for &given in &given {
            let gives = |bit: u32| given >> bit & 1 == 1;
            batch.push_i64(Field::Time, 1);
            batch.push_u64(Field::Latency, 1);
            if gives(0) {
                batch.push_text(Field::Comm, Some(b"fio"));
            }
            if gives(1) {
                batch.push_i64(Field::Pid, 7);
            }
            if gives(2) {
                batch.push_u64(Field::Size, 8);
            }
            if gives(3) {
                batch.push_u64(Field::Offset, 9);
            }
            batch.end_row();
        }
        let column = |bit: u32, value: i64, missing: i64| -> Vec<i64> {
            given.iter().map(|given| if given >> bit & 1 == 1 { value } else { missing }).collect()
        };
        let codes = batch.codes(Field::Comm).unwrap().iter().map(|&code| code as i32 as i64);
        assert_eq!(codes.collect::<Vec<i64>>(), column(0, 0, -1));
        assert_eq!(batch.i64s(Field::Pid).unwrap(), column(1, 7, MISSING_I64));
        for (field, bit, value) in [(Field::Size, 2, 8), (Field::Offset, 3, 9)] {
            let values = batch.u64s(field).unwrap().iter().map(|&value| value as i64);
            assert_eq!(values.collect::<Vec<i64>>(), column(bit, value, -1), "{field:?}");
        }
    }

    #[test]
    fn a_batch_follows_the_dictionaries_of_another() {
        let mut batch = Batch::new([Field::Comm].into_iter().collect());
        let mut copy = batch.clone();
        // The first two look alike.
        let texts = [&b"\xff"[..], b"\xfe", b"fio", b"tar"];
        for (code, text) in texts.into_iter().enumerate() {
            assert_eq!(batch.intern(Field::Comm, text), code as u32);
            copy.follow(&batch);
            copy.follow(&batch);
        }
        assert_eq!(copy.dictionary(Field::Comm).texts(), batch.dictionary(Field::Comm).texts());
        assert_eq!(copy.intern(Field::Comm, b"tar"), 3);
    }

    #[test]
    fn a_stack_has_its_hash() {
        let mut batch = Batch::new(FieldSet::default().with(&[Field::StackHash]));
        for stack in [Some(&b"main;read"[..]), None, Some(b"main"), Some(b"main;read")] {
            batch.push_i64(Field::Time, 1);
            batch.push_text(Field::Stack, stack);
            batch.end_row();
        }
        let hash = |stack: &str| Some(format!("{:016x}", crate::stack_hash(stack)));
        let found: Vec<_> = (0..4).map(|row| batch.text(Field::StackHash, row).map(str::to_string)).collect();
        assert_eq!(found, [hash("main;read"), None, hash("main"), hash("main;read")]);
        let mut copy = Batch::new(FieldSet::ALWAYS);
        copy.follow(&batch);
        assert_eq!(copy.dictionary(Field::StackHash).texts(), batch.dictionary(Field::StackHash).texts());
    }

    #[test]
    fn a_dictionary_is_bounded() {
        let mut dictionary = Dictionary::default();
        for number in 0..Dictionary::LIMIT + 10 {
            dictionary.intern(number.to_string().as_bytes());
        }
        assert_eq!(dictionary.texts().len(), Dictionary::LIMIT + 1);
        assert!(dictionary.overflowed());
        let code = dictionary.intern(b"one more");
        assert_eq!(dictionary.text(code), Some(Dictionary::OVERFLOW));
        assert_eq!(dictionary.intern(b"7"), 7, "known texts keep their code");
    }
}
