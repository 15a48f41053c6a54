//! Rows that are written alike, many at a time: in most logs nothing but time, latency and direction differs from one row
//! to the next, and how many digits a time has hardly ever changes.
//!
//! So the end of a row follows from the digits of its latency alone, and no step of the work on one row waits for more than
//! that of the row before: the processor works on several at a time.

use super::rows::{FioColumns, Row, row};
use crate::scan::{digits_as_number, long_leading_number, not_digits, word_of_digits};
use latscope_event::MISSING_U64;
use std::array::from_fn;

/// So many rows at a time stay in the nearest cache.
const MOST: usize = 256;
/// No row that is read fast is longer: 16 digits, 16 digits and an end of three words, with commas.
const LONGEST: usize = 64;

/// Rows as columns. None of them is beyond the limits that the parser was given.
pub struct Block {
    len: usize,
    time_ms: [u64; MOST],
    value: [u64; MOST],
    direction: [u8; MOST],
    size: [u64; MOST],
}

impl Block {
    pub fn new() -> Box<Block> {
        Box::new(Block { len: 0, time_ms: [0; MOST], value: [0; MOST], direction: [0; MOST], size: [0; MOST] })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn time_ms(&self) -> &[u64] {
        &self.time_ms[..self.len]
    }

    pub fn value(&self) -> &[u64] {
        &self.value[..self.len]
    }

    pub fn direction(&self) -> &[u8] {
        &self.direction[..self.len]
    }

    pub fn size(&self) -> &[u64] {
        &self.size[..self.len]
    }
}

/// Reads rows fast that look like those before.
pub struct Parser {
    layout: FioColumns,
    /// Whether rows may end alike: there is no column that differs from row to row.
    alike: bool,
    /// The largest time and latency of a row that is read fast.
    limits: (u64, u64),
    head: Option<Head>,
    /// Ends of the rows that were read slowly last: reads and writes may be of different sizes.
    tails: [Tail; 3],
    /// Which of them is the oldest.
    oldest: usize,
}

/// How times are written: so many digits, of which all but the last eight are the same.
#[derive(Clone, Copy)]
struct Head {
    len: usize,
    /// Where the last eight digits start, and by how much fewer of them are shifted so that they are the last.
    low_at: usize,
    shift: u32,
    /// The digits before, their mask in a word, and what they are worth.
    high: u64,
    high_mask: u64,
    high_value: u64,
}

/// The end of a row, from behind the latency to the end of the line, whatever the direction.
#[derive(Clone, Copy)]
struct Tail {
    text: [u64; 3],
    /// Without the digit of the direction, and without what is behind the end.
    mask: [u64; 3],
    len: usize,
    size: u64,
}

/// Behind a comma and a blank.
const DIRECTION_AT: usize = 2;

impl Head {
    /// The time that a line starts with; none where it could get beyond the largest before its digits change.
    fn parse(line: &[u8], largest: u64) -> Option<Head> {
        // Zeros may lead a number of any length.
        let (time, len) = long_leading_number(line).filter(|(_, len)| (1..=16).contains(len))?;
        let low_len = len.min(8);
        let high_mask = u64::MAX.checked_shr(64 - 8 * (len - low_len) as u32).unwrap_or(0);
        let high_value = if len > 8 { time - time % 100_000_000 } else { 0 };
        let fits = high_value.checked_add(99_999_999)? <= largest;
        let high = word(line, 0)? & high_mask;
        let shift = 64 - 8 * low_len as u32;
        fits.then_some(Head { len, low_at: len - low_len, shift, high, high_mask, high_value })
    }

    /// The time that a row starts with, when it is written so.
    #[inline(always)]
    fn time(&self, row: &[u8]) -> Option<u64> {
        let low = word_of_digits(word(row, self.low_at)?) << self.shift;
        let is_alike = not_digits(low) == 0 && word(row, 0)? & self.high_mask == self.high;
        is_alike.then(|| self.high_value + digits_as_number(low))
    }
}

impl Tail {
    /// What no row ends with.
    const NONE: Tail = Tail { text: [1; 3], mask: [0; 3], len: 0, size: 0 };

    fn parse(tail: &[u8], size: u64) -> Option<Tail> {
        if !tail.starts_with(b", ") || !tail.ends_with(b"\n") || tail.get(DIRECTION_AT + 1) != Some(&b',') {
            return None;
        }
        let (mut text, mut mask) = ([0; 24], [0; 24]);
        text.get_mut(..tail.len())?.copy_from_slice(tail);
        mask[..tail.len()].fill(0xff);
        (text[DIRECTION_AT], mask[DIRECTION_AT]) = (0, 0);
        let words = |bytes: [u8; 24]| from_fn(|at| word(&bytes, 8 * at).unwrap_or(0));
        Some(Tail { text: words(text), mask: words(mask), len: tail.len(), size })
    }

    #[inline(always)]
    fn fits(&self, text: &[u64; 3]) -> bool {
        let differs = |at: usize| text[at] & self.mask[at] ^ self.text[at];
        differs(0) | differs(1) | differs(2) == 0
    }
}

impl Parser {
    /// For rows of these columns, of any time and latency.
    pub fn new(layout: FioColumns) -> Parser {
        let alike = !layout.max && !layout.offset && !layout.issue;
        let limits = (u64::MAX, u64::MAX);
        Parser { layout, alike, limits, head: None, tails: [Tail::NONE; 3], oldest: 0 }
    }

    /// The same, where rows beyond these limits are read one by one.
    pub fn up_to(self, largest_ms: u64, largest_value: u64) -> Parser {
        Parser { limits: (largest_ms, largest_value), ..self }
    }

    /// Reads as many rows as fit into the block and are written like those before; returns how many bytes they are.
    pub fn rows(&self, text: &[u8], block: &mut Block) -> usize {
        let (mut at, mut len) = (0, 0);
        block.len = 0;
        let Some(head) = self.head else { return 0 };
        while len < MOST
            && let Some(window) = text.get(at..).and_then(|rest| rest.first_chunk::<LONGEST>())
            && let Some((row, bytes)) = self.fast(&head, window)
        {
            block.time_ms[len] = row.time_ms;
            block.value[len] = row.value;
            block.direction[len] = row.direction;
            block.size[len] = row.size;
            len += 1;
            at += bytes;
        }
        block.len = len;
        at
    }

    /// The row that a text starts with and its bytes, when it is written like those before.
    #[inline(always)]
    fn fast(&self, head: &Head, text: &[u8; LONGEST]) -> Option<(Row, usize)> {
        let time_ms = head.time(text)?;
        if text.get(head.len..head.len + 2)? != b", " {
            return None;
        }
        let value_at = head.len + 2;
        let (value, digits) = long_leading_number(text.get(value_at..)?)?;
        let tail_at = value_at + digits;
        let end = text.get(tail_at..)?.first_chunk::<24>()?;
        let words = from_fn(|at| word(end, 8 * at).unwrap_or(0));
        let tail = self.tails.iter().find(|tail| tail.fits(&words))?;
        let direction = end[DIRECTION_AT].wrapping_sub(b'0');
        let is_row = digits > 0 && direction <= 2 && value <= self.limits.1;
        let row = Row {
            time_ms,
            value,
            direction,
            size: tail.size,
            offset: MISSING_U64,
            issue_ns: 0,
            strange_priority: false,
        };
        is_row.then_some((row, tail_at + tail.len))
    }

    /// The row of a line, with its end if it has one. The next rows may be written like it.
    #[inline(never)]
    pub fn row(&mut self, line: &[u8]) -> Result<Row, &'static str> {
        let (row, _) = row(line, self.layout)?;
        if self.alike && !row.strange_priority {
            self.learn(line, row.size);
        }
        Ok(row)
    }

    fn learn(&mut self, line: &[u8], size: u64) {
        let behind_latency = memchr::memchr_iter(b',', line).nth(1);
        let Some(tail) = behind_latency.and_then(|at| Tail::parse(&line[at..], size)) else { return };
        self.head = Head::parse(line, self.limits.0);
        if !self.tails.iter().any(|known| known.text == tail.text && known.mask == tail.mask) {
            self.tails[self.oldest] = tail;
            self.oldest = (self.oldest + 1) % self.tails.len();
        }
    }
}

#[inline(always)]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}
