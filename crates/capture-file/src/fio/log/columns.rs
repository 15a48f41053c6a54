//! What a batch is made of; columns that nobody asked for stay empty.

use super::alike::Block;
use super::rows::Row;
use super::{HALF_MS, MS};
use latscope_event::{Batch, Column, Field, FieldSet, MISSING_CODE, MISSING_U64};
use std::ops::Range;

/// So many rows are handed on at a time: their columns stay in the cache, and the memory of one file's does for the next's.
const ROWS: usize = Batch::ROWS / 8;

/// The events that are not handed on yet.
pub struct Columns {
    time: Vec<i64>,
    latency: Vec<u64>,
    kind: Vec<u32>,
    size: Vec<u64>,
    offset: Vec<u64>,
    host: Vec<u32>,
    job: Vec<u32>,
    fields: FieldSet,
    /// First and last completion.
    ends_ns: (i64, i64),
}

/// What is the same for many rows.
#[derive(Clone, Copy)]
pub struct Same {
    /// What a latency is multiplied with.
    pub unit_ns: u64,
    /// Whether rows are of no one size.
    pub windowed: bool,
    /// Codes of the directions and the job.
    pub kinds: [u32; 3],
    pub job: u32,
}

impl Columns {
    pub fn new(fields: FieldSet) -> Columns {
        Columns {
            time: Vec::new(),
            latency: Vec::new(),
            kind: Vec::new(),
            size: Vec::new(),
            offset: Vec::new(),
            host: Vec::new(),
            job: Vec::new(),
            fields,
            ends_ns: (i64::MAX, i64::MIN),
        }
    }

    pub fn len(&self) -> usize {
        self.time.len()
    }

    pub fn is_full(&self) -> bool {
        self.len() >= ROWS
    }

    /// Adds an event of this completion and latency.
    #[inline(always)]
    pub fn push(&mut self, row: &Row, (end_ns, latency_ns): (i64, u64), same: &Same) {
        self.ends_ns = (self.ends_ns.0.min(end_ns), self.ends_ns.1.max(end_ns));
        self.time.push(end_ns - latency_ns as i64);
        self.latency.push(latency_ns);
        if self.fields.contains(Field::Kind) {
            self.kind.push(same.kinds[usize::from(row.direction)]);
        }
        if self.fields.contains(Field::Size) {
            self.size.push(if same.windowed { MISSING_U64 } else { row.size });
        }
        if self.fields.contains(Field::Offset) {
            self.offset.push(row.offset);
        }
        if self.fields.contains(Field::Job) {
            self.job.push(same.job);
        }
    }

    /// Adds rows of a block, all of one job: none of them is beyond a clock.
    pub fn extend(&mut self, block: &Block, range: Range<usize>, same: &Same) {
        let (times, values) = (&block.time_ms()[range.clone()], &block.value()[range.clone()]);
        let (first_ms, last_ms) = times.iter().fold((u64::MAX, 0), |(first, last), &ms| (ms.min(first), ms.max(last)));
        if first_ms > last_ms {
            return;
        }
        let end_ns = |ms: u64| ms as i64 * MS + HALF_MS;
        self.ends_ns = (self.ends_ns.0.min(end_ns(first_ms)), self.ends_ns.1.max(end_ns(last_ms)));
        let unit_ns = same.unit_ns;
        self.time.extend(times.iter().zip(values).map(|(&ms, &value)| end_ns(ms) - (value * unit_ns) as i64));
        self.latency.extend(values.iter().map(|&value| value * unit_ns));
        let rows = self.time.len();
        if self.fields.contains(Field::Kind) {
            let kind = |&direction: &u8| same.kinds.get(usize::from(direction)).copied().unwrap_or(MISSING_CODE);
            self.kind.extend(block.direction()[range.clone()].iter().map(kind));
        }
        if self.fields.contains(Field::Size) && same.windowed {
            self.size.resize(rows, MISSING_U64);
        } else if self.fields.contains(Field::Size) {
            self.size.extend_from_slice(&block.size()[range]);
        }
        if self.fields.contains(Field::Offset) {
            self.offset.resize(rows, MISSING_U64);
        }
        if self.fields.contains(Field::Job) {
            self.job.resize(rows, same.job);
        }
    }

    /// Moves the events into the batch, all of this host; returns the first and the last completion.
    pub fn fill(&mut self, batch: &mut Batch, host: u32) -> (i64, i64) {
        let fields = batch.fields();
        if fields.contains(Field::Host) {
            self.host.resize(self.time.len(), host);
        }
        use std::mem::take as filled;
        let columns = [
            (Field::Time, Column::I64(filled(&mut self.time))),
            (Field::Latency, Column::U64(filled(&mut self.latency))),
            (Field::Kind, Column::Text(filled(&mut self.kind))),
            (Field::Size, Column::U64(filled(&mut self.size))),
            (Field::Offset, Column::U64(filled(&mut self.offset))),
            (Field::Host, Column::Text(filled(&mut self.host))),
            (Field::Job, Column::Text(filled(&mut self.job))),
        ];
        batch.set_columns(columns.into_iter().filter(|(field, _)| fields.contains(*field)));
        std::mem::replace(&mut self.ends_ns, (i64::MAX, i64::MIN))
    }

    /// Takes the memory back from a batch that was handed on.
    pub fn take_back(&mut self, batch: &mut Batch) {
        fn numbers(batch: &mut Batch, field: Field) -> Vec<u64> {
            if let Some(Column::U64(values)) = batch.take_column(field) { values } else { Vec::new() }
        }
        fn codes(batch: &mut Batch, field: Field) -> Vec<u32> {
            if let Some(Column::Text(values)) = batch.take_column(field) { values } else { Vec::new() }
        }
        if let Some(Column::I64(times)) = batch.take_column(Field::Time) {
            self.time = times;
        }
        self.latency = numbers(batch, Field::Latency);
        self.size = numbers(batch, Field::Size);
        self.offset = numbers(batch, Field::Offset);
        self.kind = codes(batch, Field::Kind);
        self.host = codes(batch, Field::Host);
        self.job = codes(batch, Field::Job);
    }
}
