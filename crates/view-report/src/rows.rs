//! Events as CSV and as JSON lines, in base units and under the names of their fields.

use latscope_event::{Batch, Field, MISSING_I64, MISSING_U64, Mask, escape_json, guard_formula};
use std::io::{self, Write};

/// Text is handed on in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

/// Writes the names of the columns, the first line of a CSV file.
///
/// # Errors
/// When the disk is full or the pipe closed.
pub fn write_csv_header(out: &mut dyn Write, fields: &[Field]) -> io::Result<()> {
    let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
    writeln!(out, "{}", names.join(","))
}

/// Writes the events that the mask lets through (all without a mask) as lines of CSV (RFC 4180, lines end in LF).
/// A missing value is an empty cell; an empty text is `""`. A text that a spreadsheet would take for a formula (it begins with
/// `=`, `+`, `-`, `@`, a tab or a carriage return) has a `'` before it, and so has one that begins with `'`: what reads it back takes
/// one away.
///
/// # Errors
/// As [`write_csv_header`].
pub fn write_csv_rows(out: &mut dyn Write, batch: &Batch, mask: Option<&Mask>, fields: &[Field]) -> io::Result<()> {
    each_row(out, batch, mask, fields, |line, columns, row| {
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
pub fn write_json_lines(out: &mut dyn Write, batch: &Batch, mask: Option<&Mask>, fields: &[Field]) -> io::Result<()> {
    each_row(out, batch, mask, fields, |line, columns, row| {
        line.push(b'{');
        let begin = line.len();
        for (key, values) in columns {
            let before = line.len();
            if before > begin {
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
            _ => return false,
        }
        true
    }
}

fn each_row(
    out: &mut dyn Write,
    batch: &Batch,
    mask: Option<&Mask>,
    fields: &[Field],
    push_row: impl Fn(&mut Vec<u8>, &[(String, Values)], usize),
) -> io::Result<()> {
    let values = |field: Field| match (batch.i64s(field), batch.u64s(field), batch.codes(field)) {
        (Some(values), ..) => Values::I64(values),
        (_, Some(values), _) => Values::U64(values),
        (.., Some(_)) => Values::Text(batch, field),
        _ => Values::None,
    };
    let columns: Vec<_> = fields.iter().map(|&field| (format!("\"{}\":", field.name()), values(field))).collect();
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

fn push_json_text(line: &mut Vec<u8>, text: &str) {
    line.push(b'"');
    for piece in text.split_inclusive(['"', '\\', '\n', '\t']) {
        let (plain, escape) = match piece.as_bytes().last() {
            Some(b'"') => (&piece[..piece.len() - 1], "\\\""),
            Some(b'\\') => (&piece[..piece.len() - 1], "\\\\"),
            Some(b'\n') => (&piece[..piece.len() - 1], "\\n"),
            Some(b'\t') => (&piece[..piece.len() - 1], "\\t"),
            _ => (piece, ""),
        };
        line.extend_from_slice(escape_json(plain).as_bytes());
        line.extend_from_slice(escape.as_bytes());
    }
    line.push(b'"');
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
