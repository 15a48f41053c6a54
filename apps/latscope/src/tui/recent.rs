//! The last events of a live capture, in bounded memory, so that a spot of the map can be dug into.

use latscope_event::{Batch, Column, Field, FieldSet, MISSING_CODE, Mask};
use std::collections::VecDeque;

/// Memory for events, bytes. At the two hundred bytes of an event with all fields it is half a million of them.
const LIMIT: usize = 96 << 20;

/// The last events. They lie in batches with dictionaries of their own, so that with a batch its texts go too.
pub struct Recent {
    batches: VecDeque<Batch>,
    /// Sizes of all but the last.
    sizes: VecDeque<usize>,
    limit: usize,
    /// Codes of the capture's dictionaries in those of the last batch, by field.
    codes: Vec<Vec<u32>>,
    /// From this moment of completion on all events are here.
    complete_from_ns: i64,
}

impl Recent {
    /// Nothing yet; everything that completes from this moment on will be there.
    pub fn new(from_ns: i64) -> Recent {
        let (batches, sizes, codes) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Recent { batches, sizes, limit: LIMIT, codes, complete_from_ns: from_ns }
    }

    /// From which moment of completion on all events are here.
    pub fn complete_from_ns(&self) -> i64 {
        self.complete_from_ns
    }

    /// The kept events, in about the order of completion.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter()
    }

    /// What comes now is of another capture, with other dictionaries.
    pub fn start_trace(&mut self) {
        self.codes = vec![Vec::new(); Field::COUNT];
    }

    /// Keeps the events that the mask lets through. When there is no room any more the oldest go.
    pub fn push(&mut self, batch: &Batch, mask: Option<&Mask>) {
        match mask {
            Some(mask) => mask.ones().for_each(|row| self.push_row(batch, row)),
            None => (0..batch.len()).for_each(|row| self.push_row(batch, row)),
        }
    }

    fn push_row(&mut self, from: &Batch, row: usize) {
        if self.batches.back().is_none_or(|last| last.is_full() || last.fields() != from.fields()) {
            self.open(from.fields());
        }
        let Some(last) = self.batches.back_mut() else { return };
        for field in from.fields().iter() {
            match from.column(field) {
                Some(Column::I64(values)) => last.push_i64(field, values[row]),
                Some(Column::U64(values)) => last.push_u64(field, values[row]),
                Some(Column::Text(codes)) => {
                    let code = match codes[row] {
                        MISSING_CODE => MISSING_CODE,
                        code => translated(&mut self.codes[field as usize], code, from, last, field),
                    };
                    last.push_code(field, code);
                }
                None => {}
            }
        }
        last.end_row();
    }

    fn open(&mut self, fields: FieldSet) {
        self.sizes.extend(self.batches.back().map(size));
        while self.sizes.iter().sum::<usize>() > self.limit {
            let (Some(oldest), Some(_)) = (self.batches.pop_front(), self.sizes.pop_front()) else { break };
            let ends = oldest.time().iter().zip(oldest.latency()).map(|(&t, &l)| t.saturating_add_unsigned(l));
            self.complete_from_ns =
                ends.max().map_or(self.complete_from_ns, |last| self.complete_from_ns.max(last.saturating_add(1)));
        }
        self.batches.push_back(Batch::new(fields));
        self.codes = vec![Vec::new(); Field::COUNT];
    }
}

/// The code in the new batch of a code in the old one.
fn translated(codes: &mut Vec<u32>, code: u32, from: &Batch, into: &mut Batch, field: Field) -> u32 {
    let at = code as usize;
    if codes.len() <= at {
        codes.resize(at + 1, MISSING_CODE);
    }
    if codes[at] == MISSING_CODE {
        let text = from.dictionary(field).text(code).unwrap_or_default();
        codes[at] = into.intern(field, text.as_bytes());
    }
    codes[at]
}

/// About how many bytes a batch takes.
fn size(batch: &Batch) -> usize {
    let cell = |field: Field| match batch.column(field) {
        Some(Column::Text(_)) => 4,
        Some(_) => 8,
        None => 0,
    };
    let row: usize = batch.fields().iter().map(cell).sum();
    let texts = Field::ALL.iter().flat_map(|&field| batch.dictionary(field).texts());
    // A text lies there twice, in a table with some room.
    batch.len() * row + texts.map(|text| 2 * text.len() + 64).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: i64, rows: i64) -> Batch {
        let mut batch = Batch::new([Field::Comm, Field::Size].into_iter().collect());
        for row in first..first + rows {
            batch.push_i64(Field::Time, row);
            batch.push_u64(Field::Latency, 10);
            batch.push_text(Field::Comm, (row % 3 != 0).then_some(format!("c{}", row % 7).as_bytes()));
            batch.push_u64(Field::Size, row as u64);
            batch.end_row();
        }
        batch
    }

    #[test]
    fn keeps_the_newest_and_says_from_when_on() {
        let rows = Batch::ROWS as i64;
        let mut recent = Recent { limit: 3 * size(&batch(0, rows)), ..Recent::new(-5) };
        recent.push(&batch(0, 10), None);
        assert_eq!(recent.complete_from_ns(), -5);
        for at in 0..10 {
            // Each of these has a dictionary of its own, as a capture that was started anew.
            recent.start_trace();
            recent.push(&batch(10 + at * rows, rows), None);
        }
        let kept: Vec<i64> = recent.batches().flat_map(|batch| batch.time().iter().copied()).collect();
        let end = 10 + 10 * rows;
        assert!(kept.len() as i64 >= 3 * rows && kept.len() as i64 <= 5 * rows, "{}", kept.len());
        assert_eq!(kept, (end - kept.len() as i64..end).collect::<Vec<_>>(), "no hole");
        assert_eq!(recent.complete_from_ns(), kept[0] - 1 + 10 + 1);
        for batch in recent.batches() {
            for row in 0..batch.len() {
                let time = batch.time()[row];
                let comm = (time % 3 != 0).then(|| format!("c{}", time % 7));
                assert_eq!(batch.text(Field::Comm, row), comm.as_deref());
                assert_eq!(batch.u64s(Field::Size).unwrap()[row], time as u64);
            }
        }
    }

    #[test]
    fn a_mask_keeps_what_it_lets_through() {
        let mut recent = Recent::new(0);
        let mut mask = Mask::filled(100, true);
        mask.retain(|row| row % 10 == 3);
        recent.push(&batch(0, 100), Some(&mask));
        let kept: Vec<i64> = recent.batches().flat_map(|batch| batch.time().iter().copied()).collect();
        assert_eq!(kept, (0..10).map(|at| at * 10 + 3).collect::<Vec<_>>());
    }
}
