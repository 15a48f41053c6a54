//! Our own CSV of events (`events --csv`, `convert -w x.csv`): RFC 4180, the first line names the columns.

use crate::event_rows::{EventRows, NO_NUMBER, Named, Value, is_text, number};
use crate::input::Input;
use crate::text_rows::{FEWER, NoRows, Piece, TOO_LONG, each_line};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Anomaly, Context, Field, FieldSet, Note};
use std::ops::ControlFlow;

/// Whatever fields a file names.
pub const FILLS: FieldSet = FieldSet::EVERY;
/// A quoted cell may go over many lines, up to so many bytes in a row.
const LONGEST_ROW: usize = 1 << 20;
const BOM: &[u8] = b"\xef\xbb\xbf";

const MORE: &str = "more columns than the header";
const STRAY_QUOTE: &str = "a quote inside an unquoted cell, or text after a closing quote";
const OPEN_QUOTE: &str = "a quoted cell that does not end within 1 MiB";
const CUT: &str = "no line ending";

/// The first line names a latency and a moment.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split_inclusive(|&byte| byte == b'\n');
    let Some(first) = lines.next().filter(|first| first.len() < LONGEST_ROW) else { return Detected::No };
    let mut row = Row::default();
    if !matches!(row.feed(first.strip_prefix(BOM).unwrap_or(first)), Ok(Fed::Whole | Fed::Unended)) {
        return Detected::No;
    }
    let names = row.cells().filter_map(|cell| Named::parse(std::str::from_utf8(cell.bytes).ok()?));
    if Named::are_of_events(names.collect::<Vec<_>>()) { Detected::Yes } else { Detected::No }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    let mut sink = Some(sink);
    let mut table: Option<Table> = None;
    let (mut row, mut first_line) = (Row::default(), 0);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else {
            return Ok(table.as_mut().map_or(ControlFlow::Continue(()), |table| table.events.rows.hand_on()));
        };
        if row.is_empty() {
            first_line = number;
        }
        let fed = match line {
            Ok(line) if first_line == 1 && row.is_empty() => row.feed(line.strip_prefix(BOM).unwrap_or(line)),
            Ok(line) => row.feed(line),
            Err(why) => Err(why),
        };
        let Some(table) = &mut table else {
            let columns =
                fed.map_err(|why| Error::new(&file, Position::Line(first_line), format!("The row has {why}.")))?;
            if columns == Fed::Whole {
                let sink = sink.take().ok_or_else(|| Error::new(&file, Position::File, "It was read before."))?;
                table = Some(Table::new(&file, &row, options, sink)?);
                row.clear();
            }
            return Ok(ControlFlow::Continue(()));
        };
        let taken = match fed {
            Ok(Fed::Open) => return Ok(ControlFlow::Continue(())),
            Ok(Fed::Unended) => Err(CUT),
            Ok(Fed::Whole) => table.take(&row),
            Err(why) => Err(why),
        };
        row.clear();
        match taken {
            Ok(flow) => Ok(flow),
            // Every row ends with its line; a number that was cut would be another one.
            Err(CUT) => {
                table.events.rows.context.tally.add(Anomaly::Truncated, 1);
                Ok(ControlFlow::Continue(()))
            }
            Err(why) => {
                let line = line.map_err(|_| TOO_LONG);
                table.no_rows.add(&mut table.events.rows.context, first_line, line, why)?;
                Ok(ControlFlow::Continue(()))
            }
        }
    })?;
    let Some(mut table) = table else {
        return Err(Error::new(file, Position::Line(1), "The header line is truncated."));
    };
    if !row.is_empty() {
        table.events.rows.context.tally.add(Anomaly::Truncated, 1);
    }
    table.no_rows.finish(&mut table.events.rows.context, table.events.rows.count)?;
    Ok(table.events.rows.finish())
}

/// A file whose columns are known.
struct Table<'a, 'b> {
    columns: Vec<Option<Named>>,
    events: EventRows<'a, 'b>,
    no_rows: NoRows,
}

impl<'a, 'b> Table<'a, 'b> {
    fn new(file: &str, header: &Row, options: &ReadOptions, sink: &'a mut Sink<'b>) -> Result<Table<'a, 'b>, Error> {
        let fail = |message: String| Error::new(file, Position::Line(1), message);
        let names: Vec<String> = header.cells().map(|cell| String::from_utf8_lossy(cell.bytes).into_owned()).collect();
        let columns: Vec<Option<Named>> = names.iter().map(|name| Named::parse(name)).collect();
        let known: Vec<Named> = columns.iter().flatten().copied().collect();
        if let Some(twice) = known.iter().enumerate().find(|(at, named)| known[..*at].contains(named)) {
            let name = columns.iter().position(|column| column.as_ref() == Some(twice.1)).map(|at| names[at].clone());
            return Err(fail(format!("The column {} appears twice.", name.unwrap_or_default())));
        }
        if !Named::are_of_events(known.clone()) {
            return Err(fail("The file has no events: latency_ns and either time_ns or end_ns are required.".into()));
        }
        let fields = known.iter().filter_map(|named| if let Named::Field(field) = named { Some(*field) } else { None });
        let fields = fields.chain([Field::Time]).collect();
        let mut events = EventRows::new("csv", file, fields, options, sink);
        let unknown: Vec<String> =
            names.iter().zip(&columns).filter(|(_, column)| column.is_none()).map(|(name, _)| name.clone()).collect();
        if !unknown.is_empty() {
            events.rows.context.note(Note::UnknownColumns { names: unknown });
        }
        Ok(Table { columns, events, no_rows: NoRows::new(file, options.lenient) })
    }

    fn take(&mut self, row: &Row) -> Result<ControlFlow<()>, &'static str> {
        if row.is_blank() {
            return Ok(ControlFlow::Continue(()));
        }
        let mut cells = row.cells();
        let mut values = Vec::with_capacity(self.columns.len());
        for &column in &self.columns {
            let cell = cells.next().ok_or(FEWER)?;
            let Some(named) = column.filter(|_| cell.quoted || !cell.bytes.is_empty()) else { continue };
            let value = if is_text(named) {
                // What a spreadsheet would compute has a mark before it.
                Some(Value::Text(cell.bytes.strip_prefix(b"'").unwrap_or(cell.bytes)))
            } else {
                std::str::from_utf8(cell.bytes).ok().and_then(|text| number(named, text))
            };
            values.push((named, value.ok_or(NO_NUMBER)?));
        }
        if cells.next().is_some() {
            return Err(MORE);
        }
        self.events.add(&values)
    }
}

/// How far a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fed {
    Whole,
    /// All its cells are there, but not the end of its line.
    Unended,
    /// A quoted cell goes on in the next line.
    Open,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Within {
    /// Before the first letter of a cell.
    #[default]
    Begin,
    Plain,
    Quoted,
    /// Behind a quote within a quoted cell: its end, or the first of two.
    Quote,
}

/// A row, cell by cell.
#[derive(Default)]
struct Row {
    text: Vec<u8>,
    /// Where each cell ends in the text, and whether it was quoted.
    ends: Vec<(usize, bool)>,
    within: Within,
    /// Whether the present cell is quoted.
    quoted: bool,
    fed: usize,
}

#[derive(Clone, Copy)]
struct Cell<'a> {
    bytes: &'a [u8],
    quoted: bool,
}

impl Row {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        (self.within, self.quoted, self.fed) = (Within::Begin, false, 0);
    }

    /// Whether nothing was fed since it was cleared.
    fn is_empty(&self) -> bool {
        self.fed == 0
    }

    /// Whether it is an empty line.
    fn is_blank(&self) -> bool {
        matches!(self.ends[..], [(0, false)])
    }

    fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(end, _)| end));
        starts.zip(&self.ends).map(|(start, &(end, quoted))| Cell { bytes: &self.text[start..end], quoted })
    }

    fn end_cell(&mut self) {
        self.ends.push((self.text.len(), self.quoted));
        (self.within, self.quoted) = (Within::Begin, false);
    }

    /// Takes the next line, with its newline where it has one.
    fn feed(&mut self, line: &[u8]) -> Result<Fed, &'static str> {
        self.fed += line.len();
        if self.fed > LONGEST_ROW {
            return Err(if self.within == Within::Quoted { OPEN_QUOTE } else { TOO_LONG });
        }
        let (content, is_ended) = match line.strip_suffix(b"\n") {
            Some(content) => (content, true),
            None => (line, false),
        };
        for (at, &byte) in content.iter().enumerate() {
            let is_return = byte == b'\r' && is_ended && at + 1 == content.len();
            match (self.within, byte) {
                (Within::Quoted, b'"') => self.within = Within::Quote,
                (Within::Quoted, _) => self.text.push(byte),
                (Within::Quote, b'"') => {
                    self.text.push(b'"');
                    self.within = Within::Quoted;
                }
                (_, b',') => self.end_cell(),
                // Of a line end of another system.
                (_, b'\r') if is_return => {}
                (Within::Begin, b'"') => (self.within, self.quoted) = (Within::Quoted, true),
                (Within::Quote, _) | (_, b'"') => return Err(STRAY_QUOTE),
                (Within::Begin | Within::Plain, _) => {
                    self.text.push(byte);
                    self.within = Within::Plain;
                }
            }
        }
        match (self.within, is_ended) {
            (Within::Quoted, true) => {
                self.text.push(b'\n');
                Ok(Fed::Open)
            }
            (Within::Quoted, false) => Ok(Fed::Open),
            (_, is_ended) => {
                self.end_cell();
                Ok(if is_ended { Fed::Whole } else { Fed::Unended })
            }
        }
    }
}

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
