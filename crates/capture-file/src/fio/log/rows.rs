//! One row of a log and its columns; parsed fast, eight digits at a time.

use crate::scan::long_leading_number;
use crate::text_rows::MISSING;
use latscope_event::MISSING_U64;

/// The most columns that any version writes.
pub const MOST: usize = 8;

/// The columns of a log: `time, value [, max], direction, size [, offset] [, priority] [, issue]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FioColumns {
    /// The largest of a window, from fio 3.37 with `log_window_value=both`.
    pub max: bool,
    /// `log_offset`, from fio 2.1.11.
    pub offset: bool,
    /// Priority, from fio 3.18 always.
    pub priority: bool,
    /// Time of issue since the start of the job, from fio 3.38.
    pub issue: bool,
}

impl FioColumns {
    /// All columns by their names, in the order of a row.
    pub const NAMES: [&str; MOST] = ["time", "value", "max", "direction", "size", "offset", "priority", "issue"];

    /// The columns of this list of names, commas between them; none when fio writes no such row.
    pub fn parse(text: &str) -> Option<FioColumns> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let has = |name| names.contains(&name);
        let columns =
            FioColumns { max: has("max"), offset: has("offset"), priority: has("priority"), issue: has("issue") };
        let is_there = |name: &str| match name {
            "max" => columns.max,
            "offset" => columns.offset,
            "priority" => columns.priority,
            "issue" => columns.issue,
            _ => true,
        };
        FioColumns::NAMES.into_iter().filter(|name| is_there(name)).eq(names).then_some(columns)
    }
}

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
    /// Whether fio never writes this priority.
    pub strange_priority: bool,
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
        let (value, digits) = number(&self.text[self.at..]).ok_or("a number that exceeds 64 bits")?;
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
            _ => "something that is not a number",
        }
    }

    #[inline(always)]
    fn comma(&mut self) -> Result<(), &'static str> {
        if self.byte() != b',' {
            return Err(match self.byte() {
                b'\n' | b'\r' => MISSING,
                _ => "something that is not a number",
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

    /// 0 or 1, or `0x` and digits: nobody asks for its value, but for whether it is one.
    #[inline(always)]
    fn priority_is_strange(&mut self) -> Result<bool, &'static str> {
        self.comma()?;
        match hexadecimal(&self.text[self.at..]) {
            Some(len) => self.at += len,
            None => return self.number().map(|number| number > 1),
        }
        Ok(false)
    }

    #[inline(always)]
    fn end(&mut self) -> Result<usize, &'static str> {
        while matches!(self.byte(), b'\r' | b' ') && self.at < self.text.len() {
            self.at += 1;
        }
        match self.byte() {
            b'\n' => Ok((self.at + 1).min(self.text.len())),
            b',' => Err("more columns than the rows before"),
            _ => Err("something that is not a number"),
        }
    }
}

/// The row that the text starts with, and the bytes up to the next one.
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
        return Err("a direction other than 0, 1 or 2");
    }
    let size = cursor.next()?;
    let offset = if layout.offset { cursor.next()? } else { MISSING_U64 };
    let strange_priority = layout.priority && cursor.priority_is_strange()?;
    let issue_ns = if layout.issue { cursor.next()? } else { 0 };
    let len = cursor.end()?;
    Ok((Row { time_ms, value, direction: direction as u8, size, offset, issue_ns, strange_priority }, len))
}
