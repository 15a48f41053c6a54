//! One row of a log, fast: eight digits at a time.

use super::layout::FioColumns;
use crate::scan::{long_leading_number, trailing_number};
use crate::text_rows::MISSING;
use latscope_event::MISSING_U64;

/// A row as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Completion, rounded down.
    pub time_ms: u64,
    /// Latency in the unit of the file.
    pub value: u64,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    /// Bytes; 0 in a log of windows.
    pub size: u64,
    /// Bytes, or missing.
    pub offset: u64,
    /// Since the start of the job; 0 when not logged.
    pub issue_ns: u64,
}

impl Row {
    /// Completion since the start of the job, from the time of issue; none without it.
    #[inline]
    pub fn completed_ns(&self, submission: bool) -> Option<u64> {
        if self.issue_ns == 0 {
            return None;
        }
        // A submission ends with the issue.
        if submission { Some(self.issue_ns) } else { self.issue_ns.checked_add(self.value) }
    }

    /// What the time says beyond the completion since the start of the job.
    pub fn epoch_ms(&self, submission: bool) -> Option<i64> {
        let completed_ms = self.completed_ns(submission)? / 1_000_000;
        i64::try_from(self.time_ms).ok()?.checked_sub_unsigned(completed_ms)
    }
}

/// A number and how many digits it has; none when it exceeds `u64`.
#[inline(always)]
pub fn number(text: &[u8]) -> Option<(u64, usize)> {
    long_leading_number(text)
}

/// `0x` and digits: how long they are.
pub fn hexadecimal(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"0x")?.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    (digits > 0).then_some(2 + digits)
}

/// Reads along a row.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b'\n')
    }

    #[inline(always)]
    fn number(&mut self) -> Result<u64, &'static str> {
        let (value, digits) = number(&self.text[self.at..]).ok_or("a number that no 64 bits hold")?;
        if digits == 0 {
            return Err(self.not_a_number());
        }
        self.at += digits;
        Ok(value)
    }

    #[cold]
    fn not_a_number(&self) -> &'static str {
        match self.byte() {
            b'-' => "a negative number",
            b'\n' | b'\r' => MISSING,
            _ => "something that is no number",
        }
    }

    #[inline(always)]
    fn comma(&mut self) -> Result<(), &'static str> {
        if self.byte() != b',' {
            return Err(match self.byte() {
                b'\n' | b'\r' => MISSING,
                _ => "something that is no number",
            });
        }
        self.at += 1;
        while self.byte() == b' ' {
            self.at += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn next(&mut self) -> Result<u64, &'static str> {
        self.comma()?;
        self.number()
    }

    /// One digit, or `0x` and some: nobody asks for its value.
    #[inline(always)]
    fn priority(&mut self) -> Result<(), &'static str> {
        self.comma()?;
        match hexadecimal(&self.text[self.at..]) {
            Some(len) => self.at += len,
            None => drop(self.number()?),
        }
        Ok(())
    }

    #[inline(always)]
    fn end(&mut self) -> Result<usize, &'static str> {
        while matches!(self.byte(), b'\r' | b' ') && self.at < self.text.len() {
            self.at += 1;
        }
        match self.byte() {
            b'\n' => Ok((self.at + 1).min(self.text.len())),
            b',' => Err("more columns than the rows before"),
            _ => Err("something that is no number"),
        }
    }
}

/// Reads rows fast where they end alike: size and priority are those of an earlier row, as in most logs.
///
/// Where a line ends is known before it is looked at, so time is read from its beginning and latency from its end; no step
/// waits for the one before, and the processor works on several rows at a time.
pub struct Parser {
    layout: FioColumns,
    /// Whether rows may end alike: there is no column that differs from row to row.
    alike: bool,
    /// Ends of the rows that were read slowly last: reads and writes may be of different sizes.
    tails: [Option<Tail>; 3],
    /// Which of them is the oldest.
    oldest: usize,
}

/// The end of a row, from behind the latency to the end of the line, whatever the direction.
#[derive(Clone, Copy)]
struct Tail {
    text: u128,
    /// Without the digit of the direction, and without what is not of the tail: it lies at the end of 16 bytes.
    mask: u128,
    len: usize,
    size: u64,
}

/// Behind a comma and a blank.
const DIRECTION_AT: usize = 2;

impl Tail {
    fn of(tail: &[u8], size: u64) -> Option<Tail> {
        if !tail.starts_with(b", ") || !tail.ends_with(b"\n") || tail.get(DIRECTION_AT + 1) != Some(&b',') {
            return None;
        }
        let mut bytes = [0; 16];
        let from = bytes.len().checked_sub(tail.len())?;
        bytes[from..].copy_from_slice(tail);
        let mask = u128::MAX << (8 * from) & !(0xff << (8 * (from + DIRECTION_AT)));
        Some(Tail { text: u128::from_le_bytes(bytes) & mask, mask, len: tail.len(), size })
    }
}

impl Parser {
    pub fn new(layout: FioColumns) -> Parser {
        let alike = !layout.max && !layout.offset && !layout.issue;
        Parser { layout, alike, tails: [None; 3], oldest: 0 }
    }

    /// The row of a line, with its end if it has one.
    #[inline(always)]
    pub fn row(&mut self, line: &[u8]) -> Result<Row, &'static str> {
        match self.tails.iter().flatten().find_map(|tail| fast(line, tail)) {
            Some(row) => Ok(row),
            None => self.slow(line),
        }
    }

    #[inline(never)]
    fn slow(&mut self, line: &[u8]) -> Result<Row, &'static str> {
        let (row, _) = row(line, self.layout)?;
        if self.alike {
            let behind_latency = memchr::memchr_iter(b',', line).nth(1);
            if let Some(tail) = behind_latency.and_then(|at| Tail::of(&line[at..], row.size)) {
                self.tails[self.oldest] = Some(tail);
                self.oldest = (self.oldest + 1) % self.tails.len();
            }
        }
        Ok(row)
    }
}

/// A row that ends so; none when it does not, or is not written as fio does.
#[inline(always)]
fn fast(line: &[u8], tail: &Tail) -> Option<Row> {
    let end = line.last_chunk::<16>()?;
    let direction = end[16 - tail.len + DIRECTION_AT].wrapping_sub(b'0');
    if u128::from_le_bytes(*end) & tail.mask != tail.text || direction > 2 {
        return None;
    }
    let numbers = &line[..line.len() - tail.len];
    let (value, value_digits) = trailing_number(numbers);
    let (time_ms, time_digits) = long_leading_number(line)?;
    let between = numbers.get(time_digits..numbers.len().checked_sub(value_digits)?)?;
    let is_row = between == b", " && time_digits > 0 && value_digits > 0;
    is_row.then_some(Row { time_ms, value, direction, size: tail.size, offset: MISSING_U64, issue_ns: 0 })
}

/// The row that the text begins with, and the bytes up to the next one.
#[inline(always)]
pub fn row(text: &[u8], layout: FioColumns) -> Result<(Row, usize), &'static str> {
    let mut cursor = Cursor { text, at: 0 };
    let time_ms = cursor.number()?;
    let value = cursor.next()?;
    if layout.max {
        cursor.next()?;
    }
    let direction = cursor.next()?;
    if direction > 2 {
        return Err("a direction that is none of 0, 1, 2");
    }
    let size = cursor.next()?;
    let offset = if layout.offset { cursor.next()? } else { MISSING_U64 };
    if layout.priority {
        cursor.priority()?;
    }
    let issue_ns = if layout.issue { cursor.next()? } else { 0 };
    let len = cursor.end()?;
    Ok((Row { time_ms, value, direction: direction as u8, size, offset, issue_ns }, len))
}
