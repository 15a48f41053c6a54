//! Turns a screen into the bytes that make it of the one before: over ssh every byte counts.
//!
//! A map that merely moved by whole rows is moved by the terminal itself (a scrolling region), the rows of one that moved to
//! the left too (cells taken out and put in); then runs of cells that differ are sent, with colours named where they change.

use latscope_view_term::{Cell, Color, Drawn, Line};
use std::fmt::Write;

type Grid = Vec<Vec<Cell>>;

/// Remembers what the terminal shows.
#[derive(Default)]
pub struct Painter {
    /// Empty when it is not known.
    shown: Grid,
    pen: (Color, Color),
    /// Where the terminal's own cursor is, column and row.
    at: Option<(usize, usize)>,
    columns: usize,
}

/// So many rows a map may have moved between two screens.
const FURTHEST: usize = 12;
/// Cells that moving must save; it costs about as many bytes as four coloured cells.
const WORTH: usize = 8;
/// A cursor movement costs more than sending so many cells anew, if they need no other colour.
const GAP: usize = 5;

impl Painter {
    /// The terminal was used by somebody else.
    pub fn forget(&mut self) {
        *self = Painter::default();
    }

    /// The bytes that turn what is shown into this picture; empty when nothing differs.
    pub fn paint(&mut self, drawn: &Drawn, (columns, rows): (usize, usize)) -> String {
        let wanted = grid(&drawn.lines, columns, rows);
        let mut out = String::new();
        if self.shown.len() != rows || self.shown.first().is_none_or(|row| row.len() != columns) {
            out.push_str("\x1b[0m\x1b[2J");
            (self.pen, self.at) = (Default::default(), None);
            self.shown = vec![vec![Cell::BLANK; columns]; rows];
            self.columns = columns;
        }
        let mut regions: Vec<(usize, usize)> =
            drawn.maps.iter().map(|map| (map.top.min(rows), (map.top + map.rows).min(rows))).collect();
        regions.sort_unstable();
        regions.dedup();
        regions.into_iter().for_each(|region| self.scroll(&mut out, &wanted, region));
        for map in &drawn.maps {
            let (left, right) = (map.left.min(columns), (map.left + map.columns).min(columns));
            for (row, cells) in wanted.iter().enumerate().skip(map.top).take(map.rows) {
                self.shift(&mut out, row, cells, (left, right));
            }
        }
        for (row, cells) in wanted.into_iter().enumerate() {
            if cells != self.shown[row] {
                self.row(&mut out, row, &cells);
                self.shown[row] = cells;
            }
        }
        if out.is_empty() {
            return out;
        }
        self.color(&mut out, (Color::Default, Color::Default));
        // Synchronised output: the terminal shows the whole frame or none of it. Others ignore the mode.
        format!("\x1b[?2026h{out}\x1b[?2026l")
    }

    /// Lets the terminal move the rows of a map if that leaves less to send.
    fn scroll(&mut self, out: &mut String, wanted: &Grid, (top, bottom): (usize, usize)) {
        let height = bottom - top;
        let differing = |by: isize| -> usize {
            (top..bottom)
                .map(|row| {
                    let from = row.checked_add_signed(by).filter(|from| (top..bottom).contains(from));
                    differ(&wanted[row], from.map(|from| &self.shown[from][..]))
                })
                .sum()
        };
        let furthest = FURTHEST.min(height.saturating_sub(1)) as isize;
        let best = (1..=furthest).flat_map(|by| [by, -by]).min_by_key(|&by| differing(by));
        let Some(by) = best.filter(|&by| differing(by) + WORTH <= differing(0)) else { return };
        self.color(out, (Color::Default, Color::Default));
        let (letter, count) = (if by > 0 { 'S' } else { 'T' }, by.unsigned_abs());
        let _ = write!(out, "\x1b[{};{bottom}r\x1b[{count}{letter}\x1b[r", top + 1);
        self.at = None;
        let columns = wanted[top].len();
        let map = &mut self.shown[top..bottom];
        let fresh = if by > 0 {
            map.rotate_left(count);
            height - count..height
        } else {
            map.rotate_right(count);
            0..count
        };
        map[fresh].fill(vec![Cell::BLANK; columns]);
    }

    /// Lets the terminal move a row of a map to the left if that leaves less to send: cells are taken out at its left end,
    /// and put in at its right one, so that what is beside the map stays.
    fn shift(&mut self, out: &mut String, row: usize, wanted: &[Cell], (left, right): (usize, usize)) {
        let differing = |by: usize| {
            let moved = differ(&wanted[left..right - by], Some(&self.shown[row][left + by..right]));
            moved + differ(&wanted[right - by..right], None)
        };
        let furthest = FURTHEST.min((right - left).saturating_sub(1));
        let Some(by) = (1..=furthest).min_by_key(|&by| differing(by)) else { return };
        // Terminals differ in what becomes of half a wide character.
        let wide = self.shown[row][left..].iter().any(|cell| cell.symbol == Cell::CONTINUED);
        if wide || differing(by) + WORTH > differ(&wanted[left..right], Some(&self.shown[row][left..right])) {
            return;
        }
        self.color(out, (Color::Default, Color::Default));
        self.go(out, left, row);
        let _ = write!(out, "\x1b[{by}P");
        self.shown[row][left..right].rotate_left(by);
        self.shown[row][right - by..right].fill(Cell::BLANK);
        if right < self.columns {
            self.go(out, right - by, row);
            let _ = write!(out, "\x1b[{by}@");
        }
    }

    /// Sends the cells of a row that differ.
    fn row(&mut self, out: &mut String, row: usize, cells: &[Cell]) {
        let shown = std::mem::take(&mut self.shown[row]);
        let changed = changed(&shown, cells);
        let end = cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1);
        let mut column = 0;
        while let Some(next) = (column..cells.len()).find(|&at| changed[at]) {
            // The rest is blank, and erasing it is short.
            if next >= end && changed[next..].iter().filter(|&&changed| changed).count() > 4 {
                self.go(out, next, row);
                self.color(out, (Color::Default, Color::Default));
                out.push_str("\x1b[K");
                return;
            }
            let near = self.at.is_some_and(|(at, on)| on == row && at < next && next - at <= GAP);
            let from = match self.at {
                Some((at, _)) if near && cells[at..next].iter().all(|cell| self.is_pen(cell)) => at,
                _ => next,
            };
            self.go(out, from, row);
            for cell in &cells[from..=next] {
                self.cell(out, cell);
            }
            column = next + 1;
        }
    }

    fn go(&mut self, out: &mut String, column: usize, row: usize) {
        match self.at {
            Some(at) if at == (column, row) => {}
            Some((at, on)) if on == row && column > at => {
                let _ = write!(out, "\x1b[{}C", column - at);
            }
            _ => {
                let _ = write!(out, "\x1b[{};{}H", row + 1, column + 1);
            }
        }
        self.at = Some((column, row));
    }

    fn is_pen(&self, cell: &Cell) -> bool {
        cell.symbol != Cell::CONTINUED
            && cell.background == self.pen.1
            && (cell.symbol == ' ' || cell.foreground == self.pen.0)
    }

    fn cell(&mut self, out: &mut String, cell: &Cell) {
        // The second half of a wide character comes with the first.
        if cell.symbol != Cell::CONTINUED {
            // Two halves can be drawn in two ways; the one that needs no other colours is shorter.
            let turned = match cell.symbol {
                '▀' => '▄',
                '▄' => '▀',
                other => other,
            };
            // Of the terminal's own colours nobody can say which is the other one's.
            let is_two_colours = cell.foreground != Color::Default && cell.background != Color::Default;
            if turned != cell.symbol && is_two_colours && (cell.background, cell.foreground) == self.pen {
                out.push(turned);
            } else {
                let foreground = if cell.symbol == ' ' { self.pen.0 } else { cell.foreground };
                self.color(out, (foreground, cell.background));
                out.push(cell.symbol);
            }
        }
        // At the right edge terminals differ in where the cursor is.
        self.at = self.at.map(|(column, row)| (column + 1, row)).filter(|&(column, _)| column < self.columns);
    }

    fn color(&mut self, out: &mut String, wanted: (Color, Color)) {
        if wanted == self.pen {
            return;
        }
        if wanted == (Color::Default, Color::Default) {
            out.push_str("\x1b[0m");
        } else {
            let mut codes = String::new();
            if wanted.0 != self.pen.0 {
                wanted.0.push_code(&mut codes, false);
            }
            if wanted.1 != self.pen.1 {
                wanted.1.push_code(&mut codes, true);
            }
            let _ = write!(out, "\x1b[{codes}m");
        }
        self.pen = wanted;
    }
}

fn grid(lines: &[Line], columns: usize, rows: usize) -> Grid {
    let row = |row: usize| {
        let mut line = lines.get(row).cloned().unwrap_or_default();
        line.truncate(columns, false).pad_to(columns);
        line.cells
    };
    (0..rows).map(row).collect()
}

/// How many cells differ; without a row to compare, how many are not blank.
fn differ(wanted: &[Cell], shown: Option<&[Cell]>) -> usize {
    match shown {
        Some(shown) => wanted.iter().zip(shown).filter(|(a, b)| a != b).count(),
        None => wanted.iter().filter(|&&cell| cell != Cell::BLANK).count(),
    }
}

/// Which cells to send: those that differ, and both halves of a wide character of which one does.
fn changed(shown: &[Cell], wanted: &[Cell]) -> Vec<bool> {
    let mut changed: Vec<bool> = wanted.iter().zip(shown).map(|(a, b)| a != b).collect();
    for at in 1..changed.len() {
        if wanted[at].symbol == Cell::CONTINUED || shown[at].symbol == Cell::CONTINUED {
            let either = changed[at - 1] || changed[at];
            (changed[at - 1], changed[at]) = (either, either);
        }
    }
    changed
}

#[cfg(test)]
#[path = "painter_tests.rs"]
mod tests;
