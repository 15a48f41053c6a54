//! Which requests go on where another left off.

use hashbrown::HashMap;
use latscope_event::{Batch, Field, MISSING_CODE, MISSING_U64};

/// So many recent requests of a device and kind are remembered: streams that interleave, and completions out of order.
const RECENT: usize = 32;

/// The last requests of every device and kind, as ranges of bytes.
#[derive(Default)]
pub(crate) struct Sequence {
    recent: HashMap<(u32, u32), Ring>,
}

struct Ring {
    ranges: [(u64, u64); RECENT],
    next: usize,
}

impl Sequence {
    /// How many of the recent requests of its device and kind a request touches, 0 to 2: where it starts, one may end, and
    /// where it ends, one may start, as requests of one stream complete in any order. So a stream of `n` requests adds up to
    /// `n - 1` neighbours. 0 without offset or size.
    pub fn neighbours(&mut self, batch: &Batch, row: usize) -> u64 {
        let value = |field| batch.u64s(field).map_or(MISSING_U64, |values| values[row]);
        let (from, size) = (value(Field::Offset), value(Field::Size));
        if from == MISSING_U64 || size == MISSING_U64 || size == 0 {
            return 0;
        }
        let code = |field| batch.codes(field).map_or(MISSING_CODE, |codes| codes[row]);
        let key = (code(Field::Device), code(Field::Kind));
        // No range starts and ends at the greatest number.
        let ring = self.recent.entry(key).or_insert(Ring { ranges: [(u64::MAX, u64::MAX); RECENT], next: 0 });
        let to = from.saturating_add(size);
        let before = ring.ranges.iter().any(|&(_, end)| end == from);
        let behind = ring.ranges.iter().any(|&(start, _)| start == to);
        ring.ranges[ring.next] = (from, to);
        ring.next = (ring.next + 1) % RECENT;
        u64::from(before) + u64::from(behind)
    }

    /// Forgets everything: the codes of the next trace are others.
    pub fn clear(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::FieldSet;

    /// Neighbours among these requests of one device and kind, `(offset, size)` each.
    fn neighbours(requests: &[(u64, u64)]) -> u64 {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Offset, Field::Size, Field::Device, Field::Kind]));
        for &(offset, size) in requests {
            batch.push_i64(Field::Time, 0);
            batch.push_u64(Field::Latency, 0);
            batch.push_u64(Field::Offset, offset);
            batch.push_u64(Field::Size, size);
            batch.push_text(Field::Device, Some(b"sda"));
            batch.push_text(Field::Kind, Some(b"read"));
            batch.end_row();
        }
        let mut sequence = Sequence::default();
        (0..batch.len()).map(|row| sequence.neighbours(&batch, row)).sum()
    }

    #[test]
    fn a_stream_goes_on_in_any_order_of_completion() {
        let stream: Vec<_> = (0..100u64).map(|at| (at * 4096, 4096)).collect();
        assert_eq!(neighbours(&stream), 99);
        // Four in flight, each group of four completed backwards.
        let backwards: Vec<_> = stream.chunks(4).flat_map(|four| four.iter().rev().copied()).collect();
        assert_eq!(neighbours(&backwards), 99);
        let two: Vec<_> = stream.iter().flat_map(|&(at, size)| [(at, size), (at + (1 << 40), size)]).collect();
        assert_eq!(neighbours(&two), 198);
        let scattered: Vec<_> = (0..100u64).map(|at| ((at * 7919 % 100) * 1_000_000, 4096)).collect();
        assert_eq!(neighbours(&scattered), 0);
        assert_eq!(neighbours(&[(0, 0), (0, MISSING_U64), (MISSING_U64, 5)]), 0);
    }
}
