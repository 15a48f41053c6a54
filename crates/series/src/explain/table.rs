//! The events that are explained, as columns of small numbers.

use super::Part;
use super::column::Codes;
use super::condition::Attribute;
use super::layers::are_requests;
use super::parts::Parts;
use super::periods::{PARTS, part_of};
use super::row_codes::RowCodes;
use crate::Quantity;
use hashbrown::HashMap;
use latscope_event::{
    Batch, Column as Values, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64, Mask,
};
use latscope_histogram::Grid;

/// Marks a missing value in a column.
pub(super) const MISSING: u32 = u32::MAX;
const NS_PER_S: u64 = 1_000_000_000;
/// The time of a trace is divided into about so many parts.
const TIMES: u64 = 1000;
/// In a shorter trace the position in the second means nothing.
const SECONDS: u64 = 4;

/// Fields that are not tested: they are what is explained, or repeat another one, or belong to single events.
const LEFT_OUT: [Field; 12] = [
    Field::Time,
    Field::Dev,
    Field::Intended,
    Field::Fd,
    Field::Result,
    Field::CallArgs,
    Field::Args,
    Field::SampleWeight,
    Field::StackHash,
    Field::Ppid,
    Field::Task,
    Field::TaskIndex,
];

/// Which side an event is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Side {
    /// What is explained.
    Selection,
    /// What it is compared with.
    Baseline,
    /// Neither.
    Neither,
}

/// How the numbers of a column are read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scale {
    /// Numbers of texts and identifiers.
    Labels,
    /// Numbers of texts that have several parts, which are what is looked at.
    Parts,
    /// Buckets.
    Grid(Grid),
    /// Parts of this many nanoseconds, from the start of the trace.
    Time(u64),
    /// Parts of a period of so many nanoseconds.
    Circle(u64),
}

/// One attribute of all events.
pub(super) struct Column {
    pub attribute: Attribute,
    pub scale: Scale,
    /// By event; [`MISSING`] where it has no value.
    pub codes: RowCodes,
    /// How many rows have each code, and last how many have none; empty before the table is complete.
    pub totals: Vec<u64>,
    /// By code, of labels.
    pub labels: Vec<Box<str>>,
    /// Of texts that have several: their parts.
    pub parts: Option<Parts>,
    /// Of texts: the codes of labels, and those of the dictionary of the trace that is being added.
    known: HashMap<Box<str>, u32>,
    numbers: HashMap<i64, u32>,
    of_trace: Vec<u32>,
}

impl Column {
    fn new(attribute: Attribute, scale: Scale, codes: RowCodes) -> Column {
        let (known, numbers, totals) = (HashMap::new(), HashMap::new(), Vec::new());
        Column {
            attribute,
            scale,
            codes,
            totals,
            labels: Vec::new(),
            parts: None,
            known,
            numbers,
            of_trace: Vec::new(),
        }
    }

    /// How many codes there may be.
    pub fn len(&self) -> usize {
        self.totals.len().saturating_sub(1)
    }

    /// Counts the rows of each code. What was needed to add rows is freed.
    fn complete(&mut self) {
        (self.known, self.numbers, self.of_trace) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut totals = match self.scale {
            Scale::Labels | Scale::Parts => vec![0; self.labels.len()],
            Scale::Circle(_) => vec![0; PARTS as usize],
            Scale::Grid(_) | Scale::Time(_) => Vec::new(),
        };
        let mut missing = 0;
        self.codes.each(|code| match totals.get_mut(code as usize) {
            Some(total) => *total += 1,
            None if code == MISSING => missing += 1,
            None => {
                totals.resize(code as usize, 0);
                totals.push(1);
            }
        });
        totals.push(missing);
        self.totals = totals;
        match self.attribute {
            Attribute::Frame => self.parts = Some(Parts::of_stacks(&self.labels)),
            Attribute::Pair => self.parts = Some(Parts::of_tags(&self.labels)),
            _ => {}
        }
    }

    /// The rows that have one of these codes, or one of these parts.
    pub fn mask(&self, codes: Codes) -> Mask {
        let Some(parts) = &self.parts else { return self.codes.mask(codes) };
        match codes {
            Codes::Missing => {
                let empty: Vec<bool> = (0..self.len() as u32).map(|code| parts.is_missing(code)).collect();
                let mut rows = self.codes.mask(codes);
                rows.or(&self.codes.mask_of(&empty));
                rows
            }
            Codes::Range(..) => self.codes.mask_of(&parts.codes_with(|part| codes.contains(part))),
        }
    }

    fn label(&mut self, text: &str) -> u32 {
        if let Some(&code) = self.known.get(text) {
            return code;
        }
        let code = self.labels.len() as u32;
        self.labels.push(text.into());
        self.known.insert(text.into(), code);
        code
    }

    fn number(&mut self, number: i64) -> u32 {
        if let Some(&code) = self.numbers.get(&number) {
            return code;
        }
        let code = self.label(&number.to_string());
        self.numbers.insert(number, code);
        code
    }

    /// Adds rows of a batch; `buffer` is for their codes.
    fn add(&mut self, batch: &Batch, field: Field, rows: &[u32], buffer: &mut Vec<u32>) {
        let is_missing = match batch.column(field) {
            Some(Values::Text(codes)) => codes.iter().all(|&code| code == MISSING_CODE),
            Some(Values::U64(values)) => values.iter().all(|&value| value == MISSING_U64),
            Some(Values::I64(values)) => values.iter().all(|&value| value == MISSING_I64),
            None => true,
        };
        if is_missing {
            // Its rows are filled up when all columns are.
            return;
        }
        buffer.clear();
        match batch.column(field) {
            Some(Values::Text(codes)) => {
                let texts = batch.dictionary(field).texts();
                for text in &texts[self.of_trace.len().min(texts.len())..] {
                    let code = self.label(text);
                    self.of_trace.push(code);
                }
                let of_trace = &self.of_trace;
                let code = |&row: &u32| match codes[row as usize] {
                    MISSING_CODE => MISSING,
                    code => of_trace[code as usize],
                };
                buffer.extend(rows.iter().map(code));
            }
            Some(Values::U64(values)) => {
                let Scale::Grid(grid) = self.scale else { return };
                let code = |&row: &u32| match values[row as usize] {
                    MISSING_U64 => MISSING,
                    value => grid.index(value) as u32,
                };
                buffer.extend(rows.iter().map(code));
            }
            Some(Values::I64(values)) => match self.scale {
                Scale::Grid(grid) => {
                    let code = |&row: &u32| {
                        u64::try_from(values[row as usize]).map_or(MISSING, |value| grid.index(value) as u32)
                    };
                    buffer.extend(rows.iter().map(code));
                }
                _ => {
                    // Neighbours often have the same.
                    let mut last = (MISSING_I64, MISSING);
                    for &row in rows {
                        let value = values[row as usize];
                        if value != last.0 {
                            last = (value, if value == MISSING_I64 { MISSING } else { self.number(value) });
                        }
                        buffer.push(last.1);
                    }
                }
            },
            None => {}
        }
        self.codes.extend(buffer);
    }
}

/// Events as columns, gathered to be explained.
#[derive(Default)]
pub struct Table {
    pub(super) columns: Vec<Column>,
    /// Those that say nothing, as all events have the same value.
    pub(super) constant: Vec<Column>,
    /// By row: whether it is a block request.
    pub(super) requests: Vec<bool>,
    pub(super) latency_ns: Vec<u64>,
    /// What is looked at, which is the latency unless told otherwise.
    pub(super) quantity: Quantity,
    /// By row, in the unit of the quantity; empty of latencies.
    values: Vec<u64>,
    /// Completions, nanoseconds on the clock of the trace.
    pub(super) end_ns: Vec<i64>,
    /// How many events each stands for; empty while each stands for one.
    pub(super) weights: Vec<u32>,
    /// Where relative times count from.
    pub(super) start_ns: Option<i64>,
    /// How many traces were begun.
    traces: usize,
    rows: Vec<u32>,
    buffer: Vec<u32>,
    /// All events, from [`Table::complete`] on.
    pub(super) total: Option<Part>,
}

impl Table {
    /// An empty table.
    pub fn new() -> Table {
        Table::default()
    }

    /// An empty table of events of which this is looked at: spots are unusual in it, and shares are parts of its sum. Events without it
    /// are left out.
    pub fn about(quantity: Quantity) -> Table {
        Table { quantity, ..Table::default() }
    }

    /// What is looked at, of a row.
    pub(super) fn value(&self, row: usize) -> u64 {
        self.values.get(row).copied().unwrap_or(self.latency_ns[row])
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.latency_ns.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The attributes that the fields of a batch make, and what the table reads beside them.
    pub fn fields(asked: FieldSet) -> FieldSet {
        let left_out: FieldSet = LEFT_OUT.into_iter().collect();
        asked.without(left_out).union(FieldSet::ALWAYS).with(&[Field::SampleWeight, Field::Dev, Field::Result])
    }

    /// Call before the first batch of every trace: its dictionaries are others. Relative times count from the earliest start.
    pub fn begin_trace(&mut self, start_ns: Option<i64>) {
        self.columns.iter_mut().for_each(|column| column.of_trace.clear());
        self.start_ns = match (self.traces, self.start_ns, start_ns) {
            (0, _, start) => start,
            (_, Some(before), Some(start)) => Some(before.min(start)),
            _ => None,
        };
        self.traces += 1;
    }

    /// Adds the events of a batch that the mask lets through, or all; those without start or latency are left out. Returns which
    /// rows of the batch were added.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) -> &[u32] {
        let (times, latencies) = (batch.time(), batch.latency());
        let own = (self.quantity != Quantity::Latency).then(|| batch.u64s(self.quantity.field()));
        let has_own = |row: usize| own.is_none_or(|own| own.is_some_and(|values| values[row] != MISSING_U64));
        let is_in = |&row: &usize| {
            mask.is_none_or(|mask| mask.get(row))
                && times[row] != MISSING_I64
                && latencies[row] != MISSING_U64
                && has_own(row)
        };
        self.rows.clear();
        self.rows.extend((0..batch.len()).filter(is_in).map(|row| row as u32));
        let before = self.len();
        self.latency_ns.extend(self.rows.iter().map(|&row| latencies[row as usize]));
        if let Some(values) = own.flatten() {
            self.values.extend(self.rows.iter().map(|&row| values[row as usize]));
        }
        self.end_ns
            .extend(self.rows.iter().map(|&row| times[row as usize].saturating_add_unsigned(latencies[row as usize])));
        self.add_weights(batch, before);
        let is_request = are_requests(batch);
        self.requests.extend(self.rows.iter().map(|&row| is_request(row as usize)));
        let left_out: FieldSet = LEFT_OUT.into_iter().collect();
        for field in batch.fields().without(left_out).iter() {
            let attribute = attribute_of(field);
            if !self.columns.iter().any(|column| column.attribute == attribute) {
                self.columns.push(Column::new(attribute, scale_of(field), RowCodes::Same(MISSING, before)));
            }
            if let Some(column) = self.columns.iter_mut().find(|column| column.attribute == attribute) {
                column.add(batch, field, &self.rows, &mut self.buffer);
            }
        }
        let rows = self.latency_ns.len();
        self.columns.iter_mut().for_each(|column| column.codes.fill(rows));
        &self.rows
    }

    fn add_weights(&mut self, batch: &Batch, before: usize) {
        let Some(weights) = batch.i64s(Field::SampleWeight) else {
            if !self.weights.is_empty() {
                self.weights.resize(self.latency_ns.len(), 1);
            }
            return;
        };
        let weight = |&row: &u32| u32::try_from(weights[row as usize]).unwrap_or(1).max(1);
        if self.weights.is_empty() && self.rows.iter().all(|row| weight(row) == 1) {
            return;
        }
        self.weights.resize(before, 1);
        self.weights.extend(self.rows.iter().map(weight));
    }

    /// How many events a row stands for.
    pub(super) fn weight(&self, row: usize) -> u64 {
        self.weights.get(row).map_or(1, |&weight| u64::from(weight))
    }

    /// The columns of all attributes; call when all events are there.
    pub(super) fn complete(&mut self) {
        if self.total.is_some() || self.is_empty() {
            return;
        }
        self.total = Some(self.total());
        (self.rows, self.buffer) = (Vec::new(), Vec::new());
        self.directories();
        let first_ns = self.end_ns.iter().min().copied().unwrap_or(0);
        let last_ns = self.end_ns.iter().max().copied().unwrap_or(0);
        let span_ns = first_ns.abs_diff(last_ns);
        if let Some(start_ns) = self.start_ns {
            let width_ns = round_width(span_ns / TIMES);
            let code =
                |&end: &i64| u32::try_from(end.saturating_sub(start_ns).max(0) as u64 / width_ns).unwrap_or(MISSING);
            // Ahead of the start lies nothing that a filter could name, and so far behind it no more.
            let fits = last_ns.saturating_sub(start_ns).max(0) as u64 / width_ns < 100 * TIMES && first_ns >= start_ns;
            if fits {
                let codes = RowCodes::collected(self.end_ns.iter().map(code));
                self.columns.push(Column::new(Attribute::Time, Scale::Time(width_ns), codes));
            }
        }
        if span_ns >= SECONDS * NS_PER_S {
            let codes = RowCodes::collected(self.end_ns.iter().map(|&end| part_of(end, NS_PER_S)));
            self.columns.push(Column::new(Attribute::InSecond, Scale::Circle(NS_PER_S), codes));
        }
        let is_constant = |column: &mut Column| matches!(column.codes, RowCodes::Same(..));
        self.constant = self.columns.extract_if(.., is_constant).collect();
        self.columns.iter_mut().for_each(Column::complete);
    }

    /// Whether all events have the same value.
    pub(super) fn is_constant(&self, attribute: Attribute) -> bool {
        self.constant.iter().any(|column| column.attribute == attribute && column.codes.get(0) != MISSING)
    }

    /// Adds the position in a period as an attribute, in place of that in another one.
    pub(super) fn set_period(&mut self, period_ns: Option<u64>) {
        self.columns.retain(|column| column.attribute != Attribute::InPeriod);
        if let Some(period_ns) = period_ns {
            let codes = RowCodes::collected(self.end_ns.iter().map(|&end| part_of(end, period_ns)));
            let mut column = Column::new(Attribute::InPeriod, Scale::Circle(period_ns), codes);
            column.complete();
            self.columns.push(column);
        }
    }

    /// The devices, where there are several.
    pub(super) fn devices(&self) -> Option<&Column> {
        // A column with a single value is in `constant`.
        self.columns.iter().find(|column| column.attribute == Attribute::Field(Field::Device))
    }

    /// The folders of paths.
    fn directories(&mut self) {
        let path = Attribute::Field(Field::Path);
        let Some(paths) = self.columns.iter().find(|column| column.attribute == path) else { return };
        let mut folders = Column::new(Attribute::Directory, Scale::Labels, RowCodes::Same(MISSING, 0));
        let of_label: Vec<u32> =
            paths.labels.iter().map(|path| directory(path).map_or(MISSING, |folder| folders.label(folder))).collect();
        let mut buffer = Vec::with_capacity(paths.codes.len());
        paths.codes.each(|code| buffer.push(of_label.get(code as usize).copied().unwrap_or(MISSING)));
        folders.codes.extend(&buffer);
        self.columns.push(folders);
    }
}

/// The folder of a path, as the filter's `fd.directory` has it.
fn directory(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 => Some("/"),
        slash => Some(&path[..slash]),
    }
}

/// What the values of a field are tested as.
fn attribute_of(field: Field) -> Attribute {
    match field {
        Field::Stack => Attribute::Frame,
        Field::Tags => Attribute::Pair,
        field => Attribute::Field(field),
    }
}

fn scale_of(field: Field) -> Scale {
    match (field, field.field_type()) {
        (Field::Stack | Field::Tags, _) => Scale::Parts,
        (Field::Offset, _) => Scale::Grid(Grid::with_power(11).unwrap_or(Grid::FINE)),
        (_, FieldType::Duration | FieldType::Bytes) | (Field::InFlight, _) => Scale::Grid(Grid::FINE),
        (
            Field::InputRecords
            | Field::OutputRecords
            | Field::ShuffleRecords
            | Field::ShuffleWrittenRecords
            | Field::RemoteBlocks
            | Field::LocalBlocks,
            _,
        ) => Scale::Grid(Grid::FINE),
        _ => Scale::Labels,
    }
}

/// The next larger of 1, 2 and 5 times a power of ten.
pub(super) fn round_width(ns: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 5] {
            if factor * power >= ns.max(1) {
                return factor * power;
            }
        }
        match power.checked_mul(10) {
            Some(next) if next < u64::MAX / 50 => power = next,
            _ => return power,
        }
    }
}
