//! Tables as text: columns as wide as their contents, numbers to the right, and CSV.

use crate::{Color, Line};
use latscope_event::guard_formula;
use std::borrow::Cow;

/// How wide lines may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Sentences are wrapped there.
    pub texts: usize,
    /// Tables are cut there.
    pub tables: usize,
}

impl From<usize> for Room {
    /// The columns of a terminal.
    fn from(columns: usize) -> Room {
        Room { texts: columns, tables: columns }
    }
}

/// To which side a column's texts go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table that may be printed piece by piece: columns only grow, so later rows stand under earlier ones.
#[derive(Clone, Debug)]
pub struct Table {
    titles: Vec<String>,
    align: Vec<Align>,
    rows: Vec<Row>,
    widths: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Row {
    texts: Vec<String>,
    /// Columns that have a colour of their own.
    colored: Vec<usize>,
    color: Color,
}

/// Blanks between two columns.
const BETWEEN: usize = 2;
/// A text column is not cut below this width.
const NARROWEST: usize = 8;

impl Table {
    /// An empty table with these column titles.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Table {
        let (titles, align): (Vec<String>, Vec<Align>) =
            columns.into_iter().map(|(title, align)| (title.into(), align)).unzip();
        let widths = titles.iter().map(|title| Line::new(title).width()).collect();
        Table { titles, align, rows: Vec::new(), widths }
    }

    /// Appends a row; missing texts are empty, surplus ones are left out.
    pub fn push(&mut self, row: Vec<String>) {
        self.push_colored(row, &[], Color::Default);
    }

    /// As [`Table::push`], with the texts of some columns in a colour.
    pub fn push_colored(&mut self, mut row: Vec<String>, colored: &[usize], color: Color) {
        row.resize(self.titles.len(), String::new());
        for (width, text) in self.widths.iter_mut().zip(&row) {
            *width = (*width).max(Line::new(text).width());
        }
        self.rows.push(Row { texts: row, colored: colored.to_vec(), color });
    }

    /// How many rows wait to be [taken](Table::take_lines).
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The titles as a line no wider than `columns`.
    pub fn heading(&self, columns: usize) -> Line {
        self.line(&self.titles, (&[], Color::Default), &self.fitted(columns), columns)
    }

    /// Takes the rows out as lines no wider than `columns`. Texts that do not fit end in `…`, the longest columns of
    /// text first; where even that is not enough the line is cut.
    pub fn take_lines(&mut self, columns: usize) -> Vec<Line> {
        let widths = self.fitted(columns);
        let rows = std::mem::take(&mut self.rows);
        rows.iter().map(|row| self.line(&row.texts, (&row.colored, row.color), &widths, columns)).collect()
    }

    fn fitted(&self, columns: usize) -> Vec<usize> {
        let mut widths = self.widths.clone();
        let blanks = BETWEEN * widths.len().saturating_sub(1);
        loop {
            let over = (widths.iter().sum::<usize>() + blanks).saturating_sub(columns);
            let longest = (0..widths.len())
                .filter(|&at| self.align[at] == Align::Left && widths[at] > NARROWEST)
                .max_by_key(|&at| widths[at]);
            match longest {
                Some(at) if over > 0 => {
                    // Down to the next longest, so that one long column does not starve the others.
                    let next = (0..widths.len())
                        .filter(|&other| other != at && self.align[other] == Align::Left)
                        .map(|other| widths[other])
                        .max()
                        .unwrap_or(0);
                    let step = over.min(widths[at].saturating_sub(next.max(NARROWEST)).max(1));
                    widths[at] -= step;
                }
                _ => return widths,
            }
        }
    }

    fn line(&self, texts: &[String], (colored, color): (&[usize], Color), widths: &[usize], columns: usize) -> Line {
        let mut line = Line::default();
        for (at, (text, &width)) in texts.iter().zip(widths).enumerate() {
            if at > 0 {
                line.push("  ");
            }
            let end = line.width() + width;
            let mut cell = Line::new(text);
            cell.truncate(width, true);
            if colored.contains(&at) {
                cell.cells.iter_mut().for_each(|cell| cell.foreground = color);
            }
            if self.align[at] == Align::Right {
                line.pad_to(end - cell.width());
            }
            line.cells.append(&mut cell.cells);
            line.pad_to(end);
        }
        line.truncate(columns, true);
        line
    }
}

/// A line of CSV as in RFC 4180, with a line feed; texts that a spreadsheet would compute are [marked](guard_formula).
pub fn csv_line<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |value: &str| {
        // Numbers stay numbers.
        let value = if value.parse::<f64>().is_ok() { Cow::Borrowed(value) } else { guard_formula(value) };
        if value.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.to_string()
        }
    };
    values.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> Table {
        let mut table = Table::new([("device", Align::Left), ("count", Align::Right)]);
        table.push(vec!["sda".into(), "12".into()]);
        table.push(vec!["日本語-disk".into(), "3".into()]);
        table
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn columns_line_up() {
        let mut table = table();
        assert_eq!(table.heading(80).text(), "device       count");
        assert_eq!(texts(&table.take_lines(80)), ["sda             12", "日本語-disk      3"]);
        table.push(vec!["vda".into(), "4".into()]);
        assert_eq!(texts(&table.take_lines(80)), ["vda              4"], "later rows keep the widths");
    }

    #[test]
    fn long_texts_give_way() {
        assert_eq!(texts(&table().take_lines(15)), ["sda          12", "日本語-…      3"]);
    }

    #[test]
    fn csv_quotes_what_it_must() {
        assert_eq!(csv_line(["a", "b,c", "d\"e", ""]), "a,\"b,c\",\"d\"\"e\",\n");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide(rows in proptest::collection::vec(proptest::collection::vec("\\PC{0,30}", 0..5), 0..5), columns in 0usize..60) {
            let mut table = Table::new([("one", Align::Left), ("two", Align::Right), ("three", Align::Left)]);
            rows.into_iter().for_each(|row| table.push(row));
            prop_assert!(table.heading(columns).width() <= columns);
            for line in table.take_lines(columns) {
                prop_assert!(line.width() <= columns);
            }
        }
    }
}
