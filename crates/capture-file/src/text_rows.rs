//! Files that are a row to the line: reading them, and what becomes of malformed lines.

use crate::input::{Input, LineChunks};
use crate::{Error, Position, Remedy, Sink};
use latscope_event::{Anomaly, Batch, Context, Note};
use std::ops::ControlFlow;

/// Why a line that is longer than a chunk is no row.
pub const TOO_LONG: &str = "too many characters for a row";

/// Why a row that ends too early is malformed.
pub const MISSING: &str = "too few columns";
/// The same of a row of many columns.
pub const FEWER: &str = "fewer columns than the rows before";
/// Why a row of operation, start and duration is malformed.
pub const NO_TIMED_ROW: &str = "something other than operation, start and duration in seconds";
/// Why a row is malformed whose line was cut.
pub const NO_END: &str = "no line ending";
/// As which the last line of a file is found that was cut.
const CUT: [&str; 4] = [MISSING, FEWER, NO_TIMED_ROW, NO_END];

/// Whether a line lacks its newline, which every tool writes: the file was cut, and its last number may have been longer.
/// A single line may have been typed.
pub fn is_unended(number: u64, line: Result<&[u8], &str>) -> bool {
    number > 1 && line.is_ok_and(|line| !line.ends_with(b"\n"))
}

/// What [`each_line`] hands on.
pub enum Piece<'l> {
    /// A line with its newline, if it has one, and its number, counted from 1; instead of a line that is too long the reason why
    /// it is malformed.
    Line(u64, Result<&'l [u8], &'static str>),
    /// All lines of a stream that have come so far were handed on.
    Pause,
}

/// Calls `take` for each line until it breaks or fails.
#[inline(always)]
pub fn each_line(input: Input, take: impl FnMut(Piece) -> Result<ControlFlow<()>, Error>) -> Result<(), Error> {
    each_line_of(input.lines(), take)
}

/// As [`each_line`], of lines that may be of another length.
#[inline(always)]
pub fn each_line_of(
    mut lines: LineChunks,
    mut take: impl FnMut(Piece) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let is_stream = lines.input.is_stream();
    let (mut chunk, mut number, mut too_long) = (Vec::new(), 0, 0);
    loop {
        let more = lines.next(&mut chunk).map_err(|error| lines.input.error(&error))?;
        // They were before the lines of this chunk.
        for _ in std::mem::replace(&mut too_long, lines.too_long)..lines.too_long {
            number += 1;
            if take(Piece::Line(number, Err(TOO_LONG)))?.is_break() {
                return Ok(());
            }
        }
        if !more {
            return Ok(());
        }
        let mut from = 0;
        let unended = (!chunk.ends_with(b"\n")).then_some(chunk.len());
        for end in memchr::memchr_iter(b'\n', &chunk).map(|newline| newline + 1).chain(unended) {
            number += 1;
            if take(Piece::Line(number, Ok(&chunk[from..end])))?.is_break() {
                return Ok(());
            }
            from = end;
        }
        if is_stream && take(Piece::Pause)?.is_break() {
            return Ok(());
        }
    }
}

/// The lines one after the other, for who takes them when asked for the next row.
pub struct Lines<'a> {
    lines: LineChunks<'a>,
    chunk: Vec<u8>,
    at: usize,
    number: u64,
    too_long: u64,
}

/// A line's number and text, or why it has none; see [`each_line`].
pub type NumberedLine<'l> = (u64, Result<&'l [u8], &'static str>);

impl<'a> Lines<'a> {
    pub fn new(input: Input<'a>) -> Lines<'a> {
        Lines { lines: input.lines(), chunk: Vec::new(), at: 0, number: 0, too_long: 0 }
    }

    /// Whether the next line of a stream may have to be waited for.
    pub fn is_pause(&self) -> bool {
        self.lines.input.is_stream() && self.at >= self.chunk.len()
    }

    /// At the end: counts compressed data that ended in the middle, where no row shows it.
    pub fn note_cut(&self, context: &mut Context) {
        if self.lines.input.is_cut() && context.tally.get(Anomaly::Truncated) == 0 {
            context.tally.add(Anomaly::Truncated, 1);
        }
    }

    /// The file's name for messages.
    pub fn name(&self) -> &str {
        &self.lines.input.name
    }

    /// The lines that are at hand already, for who reads many at a time.
    pub fn rest(&self) -> &[u8] {
        let is_next = self.too_long == self.lines.too_long;
        if is_next { self.chunk.get(self.at..).unwrap_or_default() } else { &[] }
    }

    /// Goes on behind the first lines of the [rest](Lines::rest): so many, which are so many bytes.
    pub fn skip(&mut self, lines: usize, bytes: usize) {
        self.number += lines as u64;
        self.at += bytes;
    }

    /// The next line; none at the end.
    pub fn next(&mut self) -> Result<Option<NumberedLine<'_>>, Error> {
        if self.at >= self.chunk.len() && self.too_long == self.lines.too_long {
            let more = self.lines.next(&mut self.chunk).map_err(|error| self.lines.input.error(&error))?;
            self.at = 0;
            if !more && self.too_long == self.lines.too_long {
                return Ok(None);
            }
        }
        self.number += 1;
        // They were before the lines of this chunk.
        if self.too_long < self.lines.too_long {
            self.too_long += 1;
            return Ok(Some((self.number, Err(TOO_LONG))));
        }
        let rest = &self.chunk[self.at..];
        let line = &rest[..memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1)];
        self.at += line.len();
        Ok(Some((self.number, Ok(line))))
    }
}

/// Lines that are no row: the first is an error, unless they are to be skipped and counted.
pub struct NoRows {
    file: String,
    lenient: bool,
    first: Option<(u64, &'static str)>,
}

impl NoRows {
    pub fn new(file: &str, lenient: bool) -> NoRows {
        NoRows { file: file.into(), lenient, first: None }
    }

    /// Whether they are skipped.
    pub fn are_skipped(&self) -> bool {
        self.lenient
    }

    /// Notes a malformed line, and why. Empty lines are skipped; the last line may be cut.
    #[cold]
    pub fn add(
        &mut self,
        context: &mut Context,
        number: u64,
        line: Result<&[u8], &str>,
        why: &'static str,
    ) -> Result<(), Error> {
        match line {
            // Blanks may be the padding of a column.
            _ if is_unended(number, line) && CUT.contains(&why) => context.tally.add(Anomaly::Truncated, 1),
            Ok(line) if line.trim_ascii().is_empty() => return Ok(()),
            _ if !self.lenient => {
                let error = Error::new(&self.file, Position::Line(number), format!("The row has {why}."));
                return Err(error.with_remedy(Remedy::Lenient));
            }
            _ => context.tally.add(Anomaly::UnparsedLines, 1),
        }
        self.first.get_or_insert((number, why));
        Ok(())
    }

    /// At the end: fails when there were `rows` of none, else names the first line that was none.
    pub fn finish(&self, context: &mut Context, rows: u64) -> Result<(), Error> {
        let Some((line, why)) = self.first else { return Ok(()) };
        if rows == 0 {
            let message = format!("All rows are malformed; the first one has {why}.");
            return Err(Error::new(&self.file, Position::Line(line), message));
        }
        context.note(Note::MalformedRow { line, why: why.into() });
        Ok(())
    }
}

/// Fills a batch row by row and hands it on when it is full.
pub struct Rows<'a, 'b> {
    pub context: Context,
    pub batch: Batch,
    sink: &'a mut Sink<'b>,
    is_over: bool,
    /// How many there were.
    pub count: u64,
}

impl<'a, 'b> Rows<'a, 'b> {
    pub fn new(context: Context, batch: Batch, sink: &'a mut Sink<'b>) -> Rows<'a, 'b> {
        Rows { context, batch, sink, is_over: false, count: 0 }
    }

    /// Ends the row whose values were pushed; `Break` when nobody wants more.
    pub fn end_row(&mut self) -> ControlFlow<()> {
        self.batch.end_row();
        self.count += 1;
        if self.batch.is_full() { self.hand_on() } else { ControlFlow::Continue(()) }
    }

    /// Hands on the rows that there are; `Break` when nobody wants more.
    pub fn hand_on(&mut self) -> ControlFlow<()> {
        if !self.batch.is_empty() && !self.is_over {
            self.is_over = (self.sink)(&self.context, &self.batch).is_break();
            self.batch.clear();
        }
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Counts a malformed row, and notes the first of them. Empty lines are nothing; the last line may be cut.
    #[cold]
    pub fn add_malformed(&mut self, number: u64, line: Result<&[u8], &'static str>, why: &'static str) {
        match line {
            // Blanks may be the padding of a column.
            _ if is_unended(number, line) => self.context.tally.add(Anomaly::Truncated, 1),
            Ok(line) if line.trim_ascii().is_empty() => return,
            _ => self.context.tally.add(Anomaly::UnparsedLines, 1),
        }
        if !self.context.notes.iter().any(|note| matches!(note, Note::MalformedRow { .. })) {
            self.context.note(Note::MalformedRow { line: number, why: line.err().unwrap_or(why).into() });
        }
    }

    /// Hands on what is left.
    pub fn finish(mut self) -> Context {
        let _ = self.hand_on();
        self.context
    }
}
