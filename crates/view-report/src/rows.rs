//! Events as CSV and as JSON lines, in base units and under the names of their fields.

use latscope_event::{
    Batch, Clock, Field, MISSING_I64, MISSING_U64, Mask, format_strftime, format_wall, guard_formula,
};
use latscope_view::push_json_text;
use std::io::{self, Write};

/// Text is handed on in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

/// A column of a table of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowColumn {
    /// A column of the events.
    Field(Field),
    /// The completion on the trace's clock: start and latency added up, in nanoseconds.
    End,
    /// The completion as local wall-clock time.
    Wall(Wall),
}

/// How a trace's clock relates to wall-clock time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wall {
    /// What to add to a time of the trace to get nanoseconds since the Unix epoch; `None` when unknown.
    pub to_unix_ns: Option<i64>,
    /// The relation is known to the second only.
    pub is_approximate: bool,
}

impl From<&Clock> for Wall {
    fn from(clock: &Clock) -> Wall {
        Wall { to_unix_ns: clock.to_unix_ns, is_approximate: clock.approximate }
    }
}

impl Wall {
    /// A moment for people: `2026-11-21 10:32:05.500000`.
    pub fn text(self, time_ns: i64) -> Option<String> {
        let decimals = if self.is_approximate { 0 } else { 6 };
        Some(format_wall(self.to_unix_ns?.checked_add(time_ns)?, decimals, true))
    }

    /// A moment for programs, RFC 3339: `2026-11-21T10:32:05.500000000+01:00`.
    pub fn rfc3339(self, time_ns: i64) -> Option<String> {
        let format = if self.is_approximate { "%Y-%m-%dT%H:%M:%S%:z" } else { "%Y-%m-%dT%H:%M:%S.%9f%:z" };
        format_strftime(self.to_unix_ns?.checked_add(time_ns)?, format)
    }
}

impl From<Field> for RowColumn {
    fn from(field: Field) -> RowColumn {
        RowColumn::Field(field)
    }
}

impl RowColumn {
    /// Its name in the header of CSV and as the key of JSON.
    pub fn name(self) -> &'static str {
        match self {
            RowColumn::Field(field) => field.name(),
            RowColumn::End => "end_ns",
            RowColumn::Wall(_) => "wall",
        }
    }
}

/// When the event of a row completed, on the trace's clock; `None` when its start or its latency is missing.
pub fn end_ns(batch: &Batch, row: usize) -> Option<i64> {
    let (time_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
    (time_ns != MISSING_I64 && latency_ns != MISSING_U64).then(|| time_ns.saturating_add_unsigned(latency_ns))
}

/// Writes the names of the columns, the first line of a CSV file.
///
/// # Errors
/// When the disk is full or the pipe closed.
pub fn write_csv_header(out: &mut dyn Write, columns: &[impl Into<RowColumn> + Copy]) -> io::Result<()> {
    let names: Vec<_> = columns.iter().map(|&column| column.into().name()).collect();
    writeln!(out, "{}", names.join(","))
}

/// Writes the events that the mask lets through (all without a mask) as lines of CSV (RFC 4180, lines end in LF).
/// A missing value is an empty cell; an empty text is `""`. A text that a spreadsheet would take for a formula (it starts with
/// `=`, `+`, `-`, `@`, a tab or a carriage return) has a `'` before it, and so has one that starts with `'`: what reads it back takes
/// one away.
///
/// # Errors
/// As [`write_csv_header`].
pub fn write_csv_rows(
    out: &mut dyn Write,
    batch: &Batch,
    mask: Option<&Mask>,
    columns: &[impl Into<RowColumn> + Copy],
) -> io::Result<()> {
    each_row(out, batch, mask, columns, |line, columns, row| {
        for (at, (_, values)) in columns.iter().enumerate() {
            if at > 0 {
                line.push(b',');
            }
            values.push(line, row, push_csv_text);
        }
    })
}

/// Writes the events that the mask lets through (all without a mask) as a JSON object for each line.
/// A missing value has no key. Control characters, and those that change the direction of text, are escaped.
///
/// # Errors
/// As [`write_csv_header`].
pub fn write_json_lines(
    out: &mut dyn Write,
    batch: &Batch,
    mask: Option<&Mask>,
    columns: &[impl Into<RowColumn> + Copy],
) -> io::Result<()> {
    each_row(out, batch, mask, columns, |line, columns, row| {
        line.push(b'{');
        let start = line.len();
        for (key, values) in columns {
            let before = line.len();
            if before > start {
                line.push(b',');
            }
            line.extend_from_slice(key.as_bytes());
            if !values.push(line, row, push_json_text) {
                line.truncate(before);
            }
        }
        line.push(b'}');
    })
}

/// The values of a column.
enum Values<'a> {
    I64(&'a [i64]),
    U64(&'a [u64]),
    Text(&'a Batch, Field),
    End(&'a Batch),
    Wall(&'a Batch, Wall),
    /// The batch has no such column.
    None,
}

impl Values<'_> {
    /// Appends the value of a row; false when it is missing.
    fn push(&self, line: &mut Vec<u8>, row: usize, push_text: fn(&mut Vec<u8>, &str)) -> bool {
        match self {
            Values::I64(values) if values[row] != MISSING_I64 => {
                push_decimal(line, values[row].unsigned_abs(), values[row] < 0)
            }
            Values::U64(values) if values[row] != MISSING_U64 => push_decimal(line, values[row], false),
            Values::Text(batch, field) => match batch.text(*field, row) {
                Some(text) => push_text(line, text),
                None => return false,
            },
            Values::End(batch) => match end_ns(batch, row) {
                Some(end_ns) => push_decimal(line, end_ns.unsigned_abs(), end_ns < 0),
                None => return false,
            },
            Values::Wall(batch, wall) => match end_ns(batch, row).and_then(|end_ns| wall.rfc3339(end_ns)) {
                Some(text) => push_text(line, &text),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

fn each_row(
    out: &mut dyn Write,
    batch: &Batch,
    mask: Option<&Mask>,
    columns: &[impl Into<RowColumn> + Copy],
    push_row: impl Fn(&mut Vec<u8>, &[(String, Values)], usize),
) -> io::Result<()> {
    let values = |field: Field| match (batch.i64s(field), batch.u64s(field), batch.codes(field)) {
        (Some(values), ..) => Values::I64(values),
        (_, Some(values), _) => Values::U64(values),
        (.., Some(_)) => Values::Text(batch, field),
        _ => Values::None,
    };
    let values = |column: RowColumn| match column {
        RowColumn::Field(field) => values(field),
        RowColumn::End => Values::End(batch),
        RowColumn::Wall(wall) => Values::Wall(batch, wall),
    };
    let columns: Vec<_> = columns
        .iter()
        .map(|&column| column.into())
        .map(|column: RowColumn| (format!("\"{}\":", column.name()), values(column)))
        .collect();
    let mut lines = Vec::with_capacity(PIECE_BYTES + 1024);
    let mut push = |row: usize| {
        push_row(&mut lines, &columns, row);
        lines.push(b'\n');
        if lines.len() >= PIECE_BYTES {
            out.write_all(&lines)?;
            lines.clear();
        }
        Ok::<_, io::Error>(())
    };
    match mask {
        Some(mask) => mask.ones().take_while(|&row| row < batch.len()).try_for_each(&mut push)?,
        None => (0..batch.len()).try_for_each(&mut push)?,
    }
    out.write_all(&lines)
}

/// Digits, without the detour over the formatting machinery: they are most of the text.
fn push_decimal(line: &mut Vec<u8>, mut value: u64, negative: bool) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if negative {
        line.push(b'-');
    }
    line.extend_from_slice(&digits[at..]);
}

fn push_csv_text(line: &mut Vec<u8>, text: &str) {
    let text = &guard_formula(text)[..];
    if !text.is_empty() && !text.bytes().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
