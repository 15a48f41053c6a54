//! Cells and lines of a terminal as values, and their encoding as ANSI text.

use latscope_event::is_printable;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// A colour of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Color {
    /// Whatever the terminal uses, which keeps a picture right on dark and on light ones.
    #[default]
    Default,
    /// Of the 256 of xterm; the first 16 are the terminal's own.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// The first 16 of xterm, which terminals let their users choose.
const OWN: [u32; 16] = [
    0x000000, 0xcd0000, 0x00cd00, 0xcdcd00, 0x0000ee, 0xcd00cd, 0x00cdcd, 0xe5e5e5, 0x7f7f7f, 0xff0000, 0x00ff00,
    0xffff00, 0x5c5cff, 0xff00ff, 0x00ffff, 0xffffff,
];

impl Color {
    /// Appends the SGR code that makes this the colour of what is behind characters, or of characters, to others.
    pub fn push_code(self, codes: &mut String, behind: bool) {
        let base = if behind { 40 } else { 30 };
        if !codes.is_empty() {
            codes.push(';');
        }
        let _ = match self {
            Color::Default => write!(codes, "{}", base + 9),
            Color::Indexed(index @ 0..8) => write!(codes, "{}", base + index),
            Color::Indexed(index @ 8..16) => write!(codes, "{}", base + 60 + index - 8),
            Color::Indexed(index) => write!(codes, "{};5;{index}", base + 8),
            Color::Rgb(red, green, blue) => write!(codes, "{};2;{red};{green};{blue}", base + 8),
        };
    }

    /// Red, green and blue, as xterm shows it; `None` for the terminal's own.
    pub fn rgb(self) -> Option<(u8, u8, u8)> {
        let cube = |level: u8| if level == 0 { 0 } else { 55 + 40 * level };
        match self {
            Color::Default => None,
            Color::Rgb(red, green, blue) => Some((red, green, blue)),
            Color::Indexed(index @ 0..16) => {
                let [_, red, green, blue] = OWN[usize::from(index)].to_be_bytes();
                Some((red, green, blue))
            }
            Color::Indexed(index @ 16..232) => {
                let index = index - 16;
                Some((cube(index / 36), cube(index / 6 % 6), cube(index % 6)))
            }
            Color::Indexed(index) => Some((8 + 10 * (index - 232), 8 + 10 * (index - 232), 8 + 10 * (index - 232))),
        }
    }
}

/// What stands in one column of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// The character; [`Cell::CONTINUED`] behind one that is two columns wide.
    pub symbol: char,
    /// Colour of the character.
    pub foreground: Color,
    /// Colour behind the character.
    pub background: Color,
}

impl Cell {
    /// Stands in the second column of a wide character.
    pub const CONTINUED: char = '\0';
    /// Nothing.
    pub const BLANK: Cell = Cell::plain(' ');

    /// A character in the terminal's own colours.
    pub const fn plain(symbol: char) -> Cell {
        Cell { symbol, foreground: Color::Default, background: Color::Default }
    }
}

/// A line of cells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// From left to right.
    pub cells: Vec<Cell>,
}

impl Line {
    /// A line of plain text. What is not printable shows as U+FFFD: names come from traces, and a file name that
    /// holds an escape sequence must not reach the terminal.
    pub fn new(text: &str) -> Line {
        let mut line = Line::default();
        line.push(text);
        line
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.cells.len()
    }

    /// Appends plain text.
    pub fn push(&mut self, text: &str) -> &mut Line {
        for symbol in text.chars() {
            let (symbol, width) = match symbol.width() {
                Some(width) if is_printable(symbol) => (symbol, width),
                _ => (char::REPLACEMENT_CHARACTER, 1),
            };
            // A combining mark has no column of its own; it is left out rather than put on the wrong letter.
            if width > 0 {
                self.cells.push(Cell::plain(symbol));
                self.cells.extend((1..width).map(|_| Cell::plain(Cell::CONTINUED)));
            }
        }
        self
    }

    /// Appends a cell.
    pub fn push_cell(&mut self, cell: Cell) -> &mut Line {
        self.cells.push(cell);
        self
    }

    /// Appends blanks up to this width.
    pub fn pad_to(&mut self, width: usize) -> &mut Line {
        if self.cells.len() < width {
            self.cells.resize(width, Cell::BLANK);
        }
        self
    }

    /// Cuts at this width; a cut text ends in `…` when `mark` says so.
    pub fn truncate(&mut self, width: usize, mark: bool) -> &mut Line {
        if self.cells.len() <= width {
            return self;
        }
        // Half of a wide character cannot stay.
        let kept = if mark { width.saturating_sub(1) } else { width };
        let halved = self.cells[kept].symbol == Cell::CONTINUED;
        self.cells.truncate(if halved { kept.saturating_sub(1) } else { kept });
        if halved {
            self.cells.push(Cell::BLANK);
        }
        if mark && width > 0 {
            self.cells.push(Cell::plain('…'));
        }
        self
    }

    /// The characters without colours and without blanks at the end.
    pub fn text(&self) -> String {
        let text: String = self.cells.iter().map(|cell| cell.symbol).filter(|&c| c != Cell::CONTINUED).collect();
        text.trim_end().to_string()
    }

    /// Appends the line to `out` as ANSI text with a line feed: colours are named where they change, taken back at
    /// the end, and blanks without a colour are not written there.
    pub fn encode(&self, out: &mut String) {
        let end = self.cells.iter().rposition(|cell| *cell != Cell::BLANK).map_or(0, |last| last + 1);
        let mut now = (Color::Default, Color::Default);
        for cell in &self.cells[..end] {
            if cell.symbol == Cell::CONTINUED {
                continue;
            }
            // The foreground of a blank is not seen, so it need not change.
            let foreground = if cell.symbol == ' ' { now.0 } else { cell.foreground };
            if (foreground, cell.background) != now {
                let mut codes = String::new();
                if foreground != now.0 {
                    foreground.push_code(&mut codes, false);
                }
                if cell.background != now.1 {
                    cell.background.push_code(&mut codes, true);
                }
                let _ = write!(out, "\x1b[{codes}m");
                now = (foreground, cell.background);
            }
            out.push(cell.symbol);
        }
        if now != (Color::Default, Color::Default) {
            out.push_str("\x1b[0m");
        }
        out.push('\n');
    }
}

/// Splits text into lines no wider than `width`, between words where it can.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<Line> {
    let width = width.max(1);
    let mut lines = vec![Line::default()];
    for word in text.split_whitespace() {
        let mut word = Line::new(word);
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.width() > 0 && line.width() + 1 + word.width() <= width {
            line.push(" ").cells.append(&mut word.cells);
            continue;
        }
        if line.width() > 0 {
            lines.push(Line::default());
        }
        while word.width() > width {
            let rest = word.cells.split_off(width);
            let last = lines.len() - 1;
            lines[last] = word;
            lines.push(Line::default());
            word = Line { cells: rest };
        }
        let last = lines.len() - 1;
        lines[last] = word;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colored(symbol: char, foreground: Color, background: Color) -> Cell {
        Cell { symbol, foreground, background }
    }

    #[test]
    fn codes_are_written_where_colours_change_only() {
        let red = Color::Rgb(255, 0, 0);
        let mut line = Line::new("a");
        for _ in 0..3 {
            line.push_cell(colored('▀', red, Color::Indexed(200)));
        }
        line.push_cell(colored(' ', Color::Default, Color::Indexed(2)));
        line.push_cell(colored('x', Color::Indexed(9), Color::Default)).push("   ");
        let mut text = String::new();
        line.encode(&mut text);
        assert_eq!(text, "a\x1b[38;2;255;0;0;48;5;200m▀▀▀\x1b[42m \x1b[91;49mx\x1b[0m\n");
    }

    #[test]
    fn a_plain_line_has_no_codes_and_no_blanks_at_its_end() {
        let mut text = String::new();
        Line::new("  a b   ").encode(&mut text);
        assert_eq!(text, "  a b\n");
    }

    #[test]
    fn names_from_a_trace_cannot_drive_the_terminal() {
        assert_eq!(Line::new("a\x1b[2Jb\n\u{9b}c").text(), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_never_halved() {
        let mut line = Line::new("日本語");
        assert_eq!(line.width(), 6);
        line.truncate(4, true);
        assert_eq!((line.width(), line.text().as_str()), (4, "日 …"));
        let mut line = Line::new("日本語");
        line.truncate(3, false);
        assert_eq!((line.width(), line.text().as_str()), (3, "日"));
    }

    #[test]
    fn text_wraps_between_words_and_inside_long_ones() {
        let lines: Vec<_> = wrap("one two three abcdefghijk", 7).iter().map(Line::text).collect();
        assert_eq!(lines, ["one two", "three", "abcdefg", "hijk"]);
    }
}
