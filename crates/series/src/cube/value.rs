//! Values of attributes and their numbers.

use super::CubeKey;
use hashbrown::HashMap;
use latscope_event::{Batch, Column, Field, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64};

/// A value of an attribute.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CubeValue {
    /// A text.
    Text(Box<str>),
    /// A number.
    Number(i64),
    /// From the first up to and with the second, in the unit of the field.
    Range(u64, u64),
    /// The event has none.
    Missing,
    /// One of many that have no number of their own.
    Others,
}

/// As many values an attribute keeps when it has too many.
pub(super) const KEPT: usize = 254;

/// The values of one attribute, numbered as they come.
#[derive(Debug)]
pub(super) struct Values {
    pub key: CubeKey,
    pub values: Vec<CubeValue>,
    numbers: HashMap<CubeValue, u32>,
    /// Sum of the latencies of each.
    waiting_ns: Vec<u128>,
    /// By code of the trace's dictionary.
    codes: Vec<Option<u32>>,
    /// Whether values that come from now on are [`CubeValue::Others`].
    is_closed: bool,
}

impl Values {
    pub fn new(key: CubeKey) -> Values {
        let (values, numbers, waiting_ns, codes) = Default::default();
        Values { key, values, numbers, waiting_ns, codes, is_closed: false }
    }

    /// Another trace has codes of its own.
    pub fn next_trace(&mut self) {
        self.codes.clear();
    }

    /// Whether there are more values than are kept when room is short.
    pub fn is_large(&self) -> bool {
        !self.is_closed && self.values.len() > KEPT + 1
    }

    pub fn add_waiting(&mut self, number: u32, latency_ns: u64) {
        self.waiting_ns[number as usize] += u128::from(latency_ns);
    }

    fn number(&mut self, value: CubeValue) -> u32 {
        if let Some(&number) = self.numbers.get(&value) {
            return number;
        }
        let is_kept = !self.is_closed || matches!(value, CubeValue::Missing | CubeValue::Others);
        let value = if is_kept { value } else { CubeValue::Others };
        let next = self.values.len() as u32;
        let number = *self.numbers.entry(value.clone()).or_insert(next);
        if number == next {
            self.values.push(value);
            self.waiting_ns.push(0);
        }
        number
    }

    /// The numbers of the values of all events of a batch, by row.
    pub fn of_batch(&mut self, trace: usize, batch: &Batch, numbers: &mut Vec<u32>) {
        numbers.clear();
        let CubeKey::Field(field) = self.key else {
            let number = self.number(CubeValue::Number(trace as i64));
            numbers.resize(batch.len(), number);
            return;
        };
        match batch.column(field) {
            Some(Column::Text(codes)) => numbers.extend(codes.iter().map(|&code| self.of_code(field, batch, code))),
            Some(Column::I64(values)) => self.of_values(values, numbers, |value| match value {
                MISSING_I64 => CubeValue::Missing,
                value if field == Field::InFlight => range(field, value.unsigned_abs()),
                value => CubeValue::Number(value),
            }),
            Some(Column::U64(values)) => self.of_values(values, numbers, |value| match value {
                MISSING_U64 => CubeValue::Missing,
                value => range(field, value),
            }),
            None => {
                let number = self.number(CubeValue::Missing);
                numbers.resize(batch.len(), number);
            }
        }
    }

    fn of_values<T: Copy + PartialEq>(&mut self, values: &[T], numbers: &mut Vec<u32>, value: impl Fn(T) -> CubeValue) {
        // The same size comes again and again.
        let mut last: Option<(T, u32)> = None;
        for &raw in values {
            let number = match last {
                Some((known, number)) if known == raw => number,
                _ => self.number(value(raw)),
            };
            last = Some((raw, number));
            numbers.push(number);
        }
    }

    fn of_code(&mut self, field: Field, batch: &Batch, code: u32) -> u32 {
        if code == MISSING_CODE {
            return self.number(CubeValue::Missing);
        }
        let at = code as usize;
        if let Some(&Some(number)) = self.codes.get(at) {
            return number;
        }
        let text = batch.dictionary(field).text(code).unwrap_or_default();
        let number = self.number(CubeValue::Text(text.into()));
        if self.codes.len() <= at {
            self.codes.resize(at + 1, None);
        }
        self.codes[at] = Some(number);
        number
    }

    /// Keeps the values that waited longest, and one for all others. Returns the new number of each old one.
    pub fn close(&mut self) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|&one, &other| {
            self.waiting_ns[other].cmp(&self.waiting_ns[one]).then_with(|| self.values[one].cmp(&self.values[other]))
        });
        let (old, waiting_ns) = (std::mem::take(&mut self.values), std::mem::take(&mut self.waiting_ns));
        self.numbers.clear();
        self.codes.clear();
        let mut moved = vec![0; old.len()];
        for (place, at) in order.into_iter().enumerate() {
            self.is_closed = place >= KEPT;
            let number = self.number(old[at].clone());
            moved[at] = number;
            self.waiting_ns[number as usize] += waiting_ns[at];
        }
        self.is_closed = true;
        moved
    }
}

/// The range that a length or a number of bytes or requests counts in: an octave, of time a decade.
fn range(field: Field, value: u64) -> CubeValue {
    match (field.field_type(), value) {
        (_, 0) => CubeValue::Range(0, 0),
        (FieldType::Duration, _) => {
            let lower = 10u64.pow(value.ilog10());
            CubeValue::Range(lower, lower.saturating_mul(10).saturating_sub(1))
        }
        _ => {
            let lower = 1 << value.ilog2();
            CubeValue::Range(lower, lower | (lower - 1))
        }
    }
}
