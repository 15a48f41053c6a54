//! What is drawn over a map: cursor, selection, panel.

use super::{Canvas, MapArea, Screen, Spot};
use crate::{Cell, Color, Line};

/// Black on white stands out from every palette and, as a mark with a letter, from both kinds of terminals.
const MARK: (Color, Color) = (Color::Indexed(16), Color::Indexed(231));

/// A cell with a symbol over it: its colour stays behind.
pub(super) fn over(cell: Cell, symbol: char) -> Cell {
    let background = match cell.background {
        Color::Default if cell.symbol != ' ' => cell.foreground,
        background => background,
    };
    let foreground = if background == Color::Default { Color::Default } else { Color::Indexed(231) };
    Cell { symbol, foreground, background }
}

fn cell_at<'c>(canvas: &'c mut Canvas, column: usize, row: usize) -> Option<&'c mut Cell> {
    let line = canvas.lines.get_mut(row)?;
    if column >= canvas.columns {
        return None;
    }
    line.pad_to(column + 1);
    line.cells.get_mut(column)
}

/// The cursor: a cell on the map.
pub(super) fn cursor(canvas: &mut Canvas, map: &MapArea, cursor: Option<&Spot>) {
    let Some((columns, rows)) = cursor.and_then(|cursor| map.cells(cursor)) else { return };
    if let Some(cell) = cell_at(canvas, columns.0, rows.0) {
        *cell = Cell { symbol: '+', foreground: MARK.0, background: MARK.1 };
    }
}

/// A frame around what is selected.
pub(super) fn selection(canvas: &mut Canvas, map: &MapArea, selection: Option<&Spot>) {
    let Some(((left, right), (top, bottom))) = selection.and_then(|selection| map.cells(selection)) else { return };
    for row in top..=bottom {
        for column in left..=right {
            let vertical = column == left || column == right;
            let horizontal = row == top || row == bottom;
            let symbol = match (vertical, horizontal) {
                (true, true) if left == right && top == bottom => '□',
                (true, true) if left == right || top == bottom => {
                    if left == right {
                        '│'
                    } else {
                        '─'
                    }
                }
                (true, true) if column == left => {
                    if row == top {
                        '┌'
                    } else {
                        '└'
                    }
                }
                (true, true) => {
                    if row == top {
                        '┐'
                    } else {
                        '┘'
                    }
                }
                (true, false) => '│',
                (false, true) => '─',
                (false, false) => continue,
            };
            if let Some(cell) = cell_at(canvas, column, row) {
                *cell = over(*cell, symbol);
            }
        }
    }
}

/// A box over the map, away from what is selected.
pub(super) fn panel(canvas: &mut Canvas, screen: &Screen, maps: &[MapArea], bottom: usize) {
    let rows = screen.panel.len().min(bottom.saturating_sub(3));
    let inner = screen.panel.iter().map(Line::width).max().unwrap_or(0).min(canvas.columns.saturating_sub(4));
    let marked = screen.selection.or(screen.cursor);
    let place = marked.and_then(|spot| maps.iter().find_map(|map| map.cells(&spot)));
    let low = place.is_some_and(|(_, (first, last))| first + last > bottom + 1);
    let top = if low || place.is_none() { 1 } else { bottom.saturating_sub(rows + 2) };
    let right = place.is_none_or(|((first, last), _)| first + last < canvas.columns);
    let left = if right { canvas.columns.saturating_sub(inner + 4) } else { 0 };
    let edge = |from: char, to: char| {
        let mut line = Line::default();
        line.push(&from.to_string()).push(&"─".repeat(inner + 2)).push(&to.to_string());
        line
    };
    canvas.put(left, top, &edge('┌', '┐'));
    for (row, text) in screen.panel.iter().take(rows).enumerate() {
        let mut text = text.clone();
        text.truncate(inner, true).pad_to(inner);
        let mut line = Line::of("│ ");
        line.cells.append(&mut text.cells);
        line.push(" │");
        canvas.put(left, top + 1 + row, &line);
    }
    canvas.put(left, top + 1 + rows, &edge('└', '┘'));
}

/// A bar of this height, from 0 to 1, as the character of one of several rows, the lowest being 0.
pub(super) fn bar(part: f64, row: usize, rows: usize, unicode: bool) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = (part * (rows * 8) as f64).ceil().max(0.0) as usize;
    let here = eighths.saturating_sub(row * 8).min(8);
    match unicode {
        true => BLOCKS[here],
        false => {
            if here >= 4 {
                '#'
            } else if here > 0 {
                '.'
            } else {
                ' '
            }
        }
    }
}
