//! Rows that have to wait until all are known.

use crate::Failure;
use crate::plan::Sort;
use latscope_event::{Batch, Column, Field, Mask, format_size};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows that are sorted may take so much memory.
pub const MOST_BYTES: u64 = 2 << 30;

/// The slowest rows, or all of them for sorting.
pub struct Kept {
    limit: Option<usize>,
    /// The fastest of the slowest on top: key, serial number, row.
    heap: BinaryHeap<Reverse<(u64, Reverse<u64>, Row)>>,
    all: Vec<(u64, Row)>,
    serial: u64,
    /// What the rows take, and may take, bytes.
    bytes: (u64, u64),
}

/// A row of its own, with texts instead of codes.
type Row = Vec<(Field, Value)>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    I64(i64),
    U64(u64),
    Text(Option<Box<str>>),
}

impl Kept {
    pub fn new(limit: Option<usize>, most_bytes: u64) -> Kept {
        Kept { limit, heap: BinaryHeap::new(), all: Vec::new(), serial: 0, bytes: (0, most_bytes) }
    }

    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>, sort: Option<Sort>) -> Result<(), Failure> {
        for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
            self.serial += 1;
            let latency = batch.latency()[row];
            match self.limit {
                None => {
                    // An order of u64 for both: times are shifted above zero.
                    let by_time = (batch.time()[row] as u64) ^ (1 << 63);
                    let row = self.counted(row_of(batch, row))?;
                    self.all.push((if sort == Some(Sort::Time) { by_time } else { u64::MAX - latency }, row));
                }
                Some(0) => {}
                Some(limit) => {
                    let full = self.heap.len() >= limit;
                    if full && self.heap.peek().is_some_and(|Reverse((least, ..))| *least >= latency) {
                        continue;
                    }
                    if full && let Some(Reverse((.., fastest))) = self.heap.pop() {
                        self.bytes.0 -= bytes_of(&fastest);
                    }
                    let row = self.counted(row_of(batch, row))?;
                    self.heap.push(Reverse((latency, Reverse(self.serial), row)));
                }
            }
        }
        Ok(())
    }

    /// The row, if it fits.
    fn counted(&mut self, row: Row) -> Result<Row, Failure> {
        self.bytes.0 += bytes_of(&row);
        if self.bytes.0 <= self.bytes.1 {
            return Ok(row);
        }
        Err(Failure::Usage(format!(
            "Sorting takes more than {} of memory; use --top with fewer events, a filter, or fewer --columns.",
            format_size(self.bytes.1)
        )))
    }

    /// The rows in order, as batches to print.
    pub fn into_batches(mut self) -> Vec<Batch> {
        let rows: Vec<Row> = match self.limit {
            Some(_) => self.heap.into_sorted_vec().into_iter().map(|Reverse((.., row))| row).collect(),
            None => {
                self.all.sort_by_key(|&(key, _)| key);
                self.all.into_iter().map(|(_, row)| row).collect()
            }
        };
        rows.chunks(Batch::ROWS).map(batch_of).collect()
    }
}

/// The memory of a row, about.
fn bytes_of(row: &Row) -> u64 {
    let texts = row.iter().map(|(_, value)| match value {
        Value::Text(Some(text)) => text.len() as u64,
        _ => 0,
    });
    texts.sum::<u64>() + size_of_val(row.as_slice()) as u64 + 48
}

fn row_of(batch: &Batch, row: usize) -> Row {
    let value = |field: Field| match batch.column(field)? {
        Column::I64(values) => Some((field, Value::I64(values[row]))),
        Column::U64(values) => Some((field, Value::U64(values[row]))),
        Column::Text(_) => Some((field, Value::Text(batch.text(field, row).map(Into::into)))),
    };
    batch.fields().iter().filter_map(value).collect()
}

fn batch_of(rows: &[Row]) -> Batch {
    let fields = rows.iter().flatten().map(|(field, _)| *field).collect();
    let mut batch = Batch::new(fields);
    for row in rows {
        for (field, value) in row {
            match value {
                Value::I64(value) => batch.push_i64(*field, *value),
                Value::U64(value) => batch.push_u64(*field, *value),
                Value::Text(text) => batch.push_text(*field, text.as_deref().map(str::as_bytes)),
            }
        }
        batch.end_row();
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::FieldSet;

    #[test]
    fn what_is_sorted_has_a_limit() {
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for latency in 0..1000 {
            batch.push_i64(Field::Time, latency);
            batch.push_u64(Field::Latency, latency as u64);
            batch.end_row();
        }
        let sorted = |limit: Option<usize>, most_bytes: u64| {
            let mut kept = Kept::new(limit, most_bytes);
            kept.add(&batch, None, limit.is_none().then_some(Sort::Time)).map(|()| kept.into_batches())
        };
        let rows = |batches: Vec<Batch>| batches.iter().map(Batch::len).sum::<usize>();
        assert_eq!(sorted(None, 1 << 20).map(rows), Ok(1000));
        // What falls out of the slowest takes nothing.
        assert_eq!(sorted(Some(10), 10 << 10).map(rows), Ok(10));
        let Err(Failure::Usage(message)) = sorted(None, 10 << 10) else { panic!("100 KiB in 10") };
        assert!(message.contains("more than 10KiB of memory; use --top"), "{message}");
    }
}
