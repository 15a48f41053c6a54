//! The intervals of one thread or process, and which of them an event shares most time with.

use std::sync::Arc;

/// So many intervals are passed over at once where none of them can matter.
const BLOCK: usize = 128;

/// An interval and its tags, nanoseconds since 1970.
#[derive(Clone, Debug)]
pub struct Span {
    pub start_ns: i64,
    /// `i64::MAX` until the next one starts.
    pub end_ns: i64,
    /// `key=value` with semicolons between.
    pub tags: Arc<str>,
}

/// What intervals that follow each other have at most.
#[derive(Clone, Copy, Debug)]
struct Block {
    end_ns: i64,
    length_ns: i64,
    /// The latest end in this block and those before it.
    latest_ns: i64,
}

/// Intervals in the order of their starts; of equal ones in the order in which they were added.
#[derive(Debug, Default)]
pub struct Spans {
    spans: Vec<Span>,
    blocks: Vec<Block>,
    is_unsorted: bool,
}

impl Spans {
    /// Adds one. It can be found at once.
    pub fn insert(&mut self, span: Span) {
        let at = self.spans.partition_point(|known| known.start_ns <= span.start_ns);
        self.spans.insert(at, span);
        self.renew(at.saturating_sub(1));
    }

    /// Adds one of many, which are found after [`Spans::settle`].
    pub fn push(&mut self, span: Span) {
        self.is_unsorted |= self.spans.last().is_some_and(|last| last.start_ns > span.start_ns);
        self.spans.push(span);
    }

    /// Makes what was pushed known.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.is_unsorted) {
            self.spans.sort_by_key(|span| span.start_ns);
        }
        self.spans.shrink_to_fit();
        self.renew(0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The last to start.
    pub fn last(&self) -> Option<&Span> {
        self.spans.last()
    }

    /// Ends the last one, if it lasts.
    pub fn end(&mut self, at_ns: i64) {
        if let Some(last) = self.spans.last_mut() {
            last.end_ns = last.end_ns.min(at_ns.max(last.start_ns));
            self.renew(self.spans.len() - 1);
        }
    }

    /// Removes what ended before, and of the rest the first ones above a number.
    pub fn forget(&mut self, before_ns: i64, most: usize) {
        let before = self.spans.len();
        let surplus = before.saturating_sub(most);
        let ends: Vec<i64> = (0..before).map(|at| self.end_of(at)).collect();
        let mut at = 0;
        self.spans.retain(|_| {
            at += 1;
            at > surplus && ends[at - 1] > before_ns
        });
        if self.spans.len() < before {
            self.renew(0);
        }
    }

    /// When an interval ends: one that lasts, where the next one starts.
    fn end_of(&self, at: usize) -> i64 {
        let span = &self.spans[at];
        if span.end_ns == i64::MAX {
            self.spans.get(at + 1).map_or(i64::MAX, |next| next.start_ns)
        } else {
            span.end_ns
        }
    }

    /// Sums up the blocks from the one of this interval on.
    fn renew(&mut self, at: usize) {
        let first = at / BLOCK;
        self.blocks.truncate(first);
        for start in (first * BLOCK..self.spans.len()).step_by(BLOCK) {
            let mut block = Block { end_ns: i64::MIN, length_ns: 0, latest_ns: i64::MIN };
            for at in start..self.spans.len().min(start + BLOCK) {
                let end_ns = self.end_of(at);
                block.end_ns = block.end_ns.max(end_ns);
                block.length_ns = block.length_ns.max(end_ns.saturating_sub(self.spans[at].start_ns));
            }
            block.latest_ns = self.blocks.last().map_or(block.end_ns, |before| before.latest_ns.max(block.end_ns));
            self.blocks.push(block);
        }
    }

    /// The interval that shares most time with an event; of equal ones the last to start, which is the innermost. An event of no
    /// length is in the intervals that start with it or before, and end after it.
    pub fn during(&self, start_ns: i64, end_ns: i64) -> Option<&Span> {
        let length_ns = end_ns.saturating_sub(start_ns);
        let count = self.spans.partition_point(|span| span.start_ns <= end_ns);
        let mut best: Option<(i64, usize)> = None;
        for (number, block) in self.blocks[..count.div_ceil(BLOCK)].iter().enumerate().rev() {
            // Earlier ones win only where they share more.
            if block.latest_ns <= start_ns || best.is_some_and(|(shared, _)| shared >= length_ns) {
                break;
            }
            if block.end_ns <= start_ns || best.is_some_and(|(shared, _)| shared >= block.length_ns) {
                continue;
            }
            for at in (number * BLOCK..count.min((number + 1) * BLOCK)).rev() {
                let shared = self.end_of(at).min(end_ns).saturating_sub(self.spans[at].start_ns.max(start_ns));
                let meets = self.end_of(at) > start_ns && (shared > 0 || start_ns == end_ns);
                if meets && best.is_none_or(|(most, _)| shared > most) {
                    best = Some((shared, at));
                }
            }
        }
        best.map(|(_, at)| &self.spans[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All of them, one by one.
    fn by_all(spans: &[(i64, i64, usize)], from: i64, to: i64) -> Option<usize> {
        let mut sorted = spans.to_vec();
        sorted.sort_by_key(|span| span.0);
        let starts: Vec<i64> = sorted.iter().map(|span| span.0).chain([i64::MAX]).collect();
        let mut best: Option<(i64, usize)> = None;
        for (at, &(start, end, name)) in sorted.iter().enumerate() {
            let end = if end == i64::MAX { starts[at + 1] } else { end };
            let shared = end.min(to) - start.max(from);
            let meets = if from == to { start <= from && from < end } else { shared > 0 };
            if meets && best.is_none_or(|(most, _)| shared >= most) {
                best = Some((shared, name));
            }
        }
        best.map(|(_, name)| name)
    }

    proptest! {
        /// Overlapping, nested, empty and open intervals, in any order, one at a time and all at once.
        #[test]
        fn events_find_what_a_search_of_all_finds(
            spans in prop::collection::vec((0..200i64, 0..60i64, 0..12u32), 0..400),
            events in prop::collection::vec((0..260i64, 0..40i64), 1..60),
        ) {
            let long = |start, length, kind| if kind == 0 { i64::MAX } else { start + length * i64::from(1 + 9 * u32::from(kind == 1)) };
            let spans: Vec<(i64, i64, usize)> =
                spans.iter().enumerate().map(|(name, &(start, length, kind))| (start, long(start, length, kind), name)).collect();
            let (mut one_by_one, mut at_once) = (Spans::default(), Spans::default());
            for &(start_ns, end_ns, name) in &spans {
                let span = Span { start_ns, end_ns, tags: name.to_string().into() };
                one_by_one.insert(span.clone());
                at_once.push(span);
            }
            at_once.settle();
            for (start, length) in events {
                let expected = by_all(&spans, start, start + length);
                for known in [&one_by_one, &at_once] {
                    let found = known.during(start, start + length).map(|span| span.tags.parse().unwrap());
                    prop_assert_eq!(found, expected, "{} for {}", start, length);
                }
            }
        }
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut spans = Spans::default();
        for at in 0..1000 {
            spans.insert(Span {
                start_ns: at,
                end_ns: if at == 0 { 900 } else { at + 1 },
                tags: at.to_string().into(),
            });
        }
        spans.forget(500, 1000);
        assert_eq!((spans.len(), spans.during(600, 601).map(|span| &*span.tags)), (501, Some("600")));
        assert_eq!(spans.during(300, 301).map(|span| &*span.tags), Some("0"));
        spans.forget(0, 10);
        assert_eq!((spans.len(), spans.during(600, 601).is_none()), (10, true));
    }
}
