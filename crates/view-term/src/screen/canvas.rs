//! The screen while it is drawn: a grid of cells.

use crate::{Cell, Color, Line};

/// A rectangle of cells of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Area {
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Number of columns.
    pub columns: usize,
    /// Number of rows.
    pub rows: usize,
}

impl Area {
    /// Whether a cell lies in it.
    pub fn holds(&self, column: usize, row: usize) -> bool {
        (self.left..self.left + self.columns).contains(&column) && (self.top..self.top + self.rows).contains(&row)
    }
}

pub(super) struct Canvas {
    lines: Vec<Line>,
    columns: usize,
    pub unicode: bool,
}

impl Canvas {
    pub fn new((columns, rows): (usize, usize), unicode: bool) -> Canvas {
        let mut line = Line::default();
        line.pad_to(columns);
        Canvas { lines: vec![line; rows], columns, unicode }
    }

    pub fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    /// The cell at a place; blank off the screen.
    pub fn cell(&self, column: usize, row: usize) -> Cell {
        self.lines.get(row).and_then(|line| line.cells.get(column)).copied().unwrap_or(Cell::BLANK)
    }

    pub fn put(&mut self, column: usize, row: usize, cell: Cell) {
        if let Some(place) = self.lines.get_mut(row).and_then(|line| line.cells.get_mut(column)) {
            *place = cell;
        }
    }

    /// A line in at most so many columns.
    pub fn line(&mut self, column: usize, row: usize, columns: usize, line: &Line) {
        let room = columns.min(self.columns.saturating_sub(column));
        let mut line = line.clone();
        line.truncate(room, self.unicode);
        line.cells.iter().enumerate().for_each(|(at, &cell)| self.put(column + at, row, cell));
    }

    pub fn text(&mut self, column: usize, row: usize, columns: usize, text: &str) {
        self.line(column, row, columns, &Line::new(text));
    }

    /// Ends in the last of so many columns.
    pub fn text_right(&mut self, column: usize, row: usize, columns: usize, text: &str) {
        let line = Line::new(text);
        self.line(column + columns.saturating_sub(line.width()), row, columns, &line);
    }

    /// Puts a sign on a cell and leaves its colour behind it.
    pub fn overlay(&mut self, column: usize, row: usize, symbol: char) {
        let background = behind(self.cell(column, row));
        self.put(column, row, Cell { symbol, foreground: ink(background), background });
    }
}

/// The colour of a cell of the map, the lower of two.
fn behind(cell: Cell) -> Color {
    match (cell.symbol, cell.background) {
        ('▀' | '▄', Color::Default) => cell.foreground,
        (_, background) => background,
    }
}

/// A colour that can be read on this one: the terminal's black or white.
fn ink(background: Color) -> Color {
    let Some((red, green, blue)) = background.rgb() else { return Color::Default };
    let light = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    let own = matches!(background, Color::Indexed(0..16));
    Color::Indexed(match (light > 128_000, own) {
        (true, true) => 0,
        (false, true) => 15,
        (true, false) => 16,
        (false, false) => 231,
    })
}
