use super::*;
use latscope_view_term::MapArea;

/// A terminal, as much of one as the painter needs.
struct Screen {
    cells: Grid,
    pen: (Color, Color),
    at: (usize, usize),
    region: (usize, usize),
}

impl Screen {
    fn new(columns: usize, rows: usize) -> Screen {
        let junk = Cell { background: Color::Indexed(1), ..Cell::plain('?') };
        Screen { cells: vec![vec![junk; columns]; rows], pen: Default::default(), at: (0, 0), region: (0, rows) }
    }

    fn feed(&mut self, text: &str) {
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(sequence) = rest.strip_prefix("\x1b[") {
                let end = sequence.find(|c| ('@'..='~').contains(&c)).unwrap();
                let numbers: Vec<usize> =
                    sequence[..end].trim_start_matches('?').split(';').filter_map(|n| n.parse().ok()).collect();
                self.control(sequence.as_bytes()[end], &numbers);
                rest = &sequence[end + 1..];
                continue;
            }
            let wide =
                if letter as u32 >= 0x1100 && !('▀'..='▟').contains(&letter) && letter != '…' { 2 } else { 1 };
            for half in 0..wide {
                let symbol = if half == 0 { letter } else { Cell::CONTINUED };
                self.cells[self.at.1][self.at.0 + half] =
                    Cell { symbol, foreground: self.pen.0, background: self.pen.1 };
            }
            self.at.0 += wide;
            rest = &rest[letter.len_utf8()..];
        }
    }

    fn control(&mut self, letter: u8, numbers: &[usize]) {
        let blank = Cell { background: self.pen.1, ..Cell::BLANK };
        let first = numbers.first().copied().unwrap_or(0);
        match letter {
            b'H' => self.at = (numbers[1] - 1, numbers[0] - 1),
            b'C' => self.at.0 += first,
            b'P' => {
                let rest = &mut self.cells[self.at.1][self.at.0..];
                rest.rotate_left(first);
                rest.iter_mut().rev().take(first).for_each(|cell| *cell = blank);
            }
            b'@' => {
                let rest = &mut self.cells[self.at.1][self.at.0..];
                rest.rotate_right(first);
                rest.iter_mut().take(first).for_each(|cell| *cell = blank);
            }
            b'J' => self.cells.iter_mut().for_each(|row| row.fill(blank)),
            b'K' => self.cells[self.at.1][self.at.0..].fill(blank),
            b'r' if numbers.is_empty() => (self.region, self.at) = ((0, self.cells.len()), (0, 0)),
            b'r' => (self.region, self.at) = ((first - 1, numbers[1]), (0, 0)),
            b'S' | b'T' => {
                let columns = self.cells[0].len();
                let rows = &mut self.cells[self.region.0..self.region.1];
                if letter == b'S' {
                    rows.rotate_left(first);
                    rows.iter_mut().rev().take(first).for_each(|row| *row = vec![blank; columns]);
                } else {
                    rows.rotate_right(first);
                    rows.iter_mut().take(first).for_each(|row| *row = vec![blank; columns]);
                }
            }
            b'm' => self.color(numbers),
            b'h' | b'l' => {}
            other => panic!("unexpected {}", other as char),
        }
    }

    fn color(&mut self, numbers: &[usize]) {
        let mut numbers = numbers.iter().map(|&number| number as u8);
        while let Some(number) = numbers.next() {
            let mut extended = || match numbers.next().unwrap() {
                5 => Color::Indexed(numbers.next().unwrap()),
                _ => Color::Rgb(numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap()),
            };
            match number {
                0 => self.pen = Default::default(),
                38 => self.pen.0 = extended(),
                48 => self.pen.1 = extended(),
                39 => self.pen.0 = Color::Default,
                49 => self.pen.1 = Color::Default,
                30..38 => self.pen.0 = Color::Indexed(number - 30),
                40..48 => self.pen.1 = Color::Indexed(number - 40),
                other => panic!("unexpected colour {other}"),
            }
        }
    }

    /// What a person sees: a blank has no colour of its own, halves are two colours.
    fn seen(&self) -> Vec<Vec<(char, Color, Color)>> {
        let seen = |cell: &Cell| match cell.symbol {
            ' ' | Cell::CONTINUED => (cell.symbol, Color::Default, cell.background),
            '▄' => ('▀', cell.background, cell.foreground),
            symbol => (symbol, cell.foreground, cell.background),
        };
        self.cells.iter().map(|row| row.iter().map(seen).collect()).collect()
    }

    fn showing(drawn: &Drawn, columns: usize, rows: usize) -> Screen {
        Screen { cells: grid(&drawn.lines, columns, rows), ..Screen::new(columns, rows) }
    }
}

/// Numbers without a pattern, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn random_line(numbers: &mut Numbers, columns: usize) -> Line {
    let mut line = Line::default();
    while line.width() < columns {
        let color = |number| match number {
            0 => Color::Default,
            1 => Color::Indexed(3),
            2 => Color::Indexed(200),
            _ => Color::Rgb(1, 2, number as u8),
        };
        let (foreground, background) = (color(numbers.below(6)), color(numbers.below(5)));
        match numbers.below(12) {
            0 => drop(line.push("日")),
            1 => drop(line.push("word ")),
            symbol => {
                let symbol = [' ', ' ', ' ', ' ', '▀', '▄', '▀', 'x', ' ', ' ', '#'][symbol - 1];
                for _ in 0..1 + numbers.below(9) {
                    line.push_cell(Cell { symbol, foreground, background });
                }
            }
        }
    }
    line
}

/// Where the map starts, and how wide it is.
const MAP: (usize, usize) = (3, 22);

/// The rows of the map move to the left, and something comes in at the right.
fn shift(lines: &mut [Line], by: usize, mut fresh: impl FnMut() -> Cell) {
    let rows = lines.len();
    for line in &mut lines[1..rows - 2] {
        line.pad_to(MAP.0 + MAP.1);
        // A map has no wide characters; half of one would be left.
        let wide = |cell: &&mut Cell| matches!(cell.symbol, Cell::CONTINUED | '日');
        line.cells.iter_mut().filter(wide).for_each(|cell| cell.symbol = 'x');
        for _ in 0..by {
            line.cells.remove(MAP.0);
            line.cells.insert(MAP.0 + MAP.1 - 1, fresh());
        }
    }
}

fn drawn(lines: Vec<Line>) -> Drawn {
    let (left, top, columns, rows) = (MAP.0, 1, MAP.1, lines.len().saturating_sub(3));
    let mut drawn = Drawn { lines, ..Drawn::default() };
    let mut map = MapArea::default();
    (map.left, map.top, map.columns, map.rows) = (left, top, columns, rows);
    drawn.maps.push(map);
    drawn
}

#[test]
fn any_screen_becomes_any_other() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut columns, mut rows) = (30, 12);
    let mut painter = Painter::default();
    let mut screen = Screen::new(columns, rows);
    let mut lines: Vec<Line> = (0..rows).map(|_| random_line(&mut numbers, columns)).collect();
    for round in 0..600 {
        match numbers.below(12) {
            8.. => shift(&mut lines, 1 + numbers.below(2), || Cell::plain(['x', ' ', '#'][numbers.below(3)])),
            // The map moves on; a new row comes in.
            0..5 => {
                let at = 1 + numbers.below(3);
                lines.remove(at);
                lines.insert(rows - 3, random_line(&mut numbers, columns));
            }
            5 => {
                let at = numbers.below(rows);
                lines[at] = random_line(&mut numbers, columns);
            }
            6 => lines[numbers.below(rows)] = Line::default(),
            _ if round % 7 == 0 => {
                (columns, rows) = (5 + numbers.below(40), 5 + numbers.below(20));
                lines = (0..rows).map(|_| random_line(&mut numbers, columns)).collect();
                screen = Screen::new(columns, rows);
            }
            _ => lines.push(Line::new("beyond the edge")),
        }
        lines.truncate(rows);
        let picture = drawn(lines.clone());
        screen.feed(&painter.paint(&picture, (columns, rows)));
        assert_eq!(screen.seen(), Screen::showing(&picture, columns, rows).seen(), "round {round}");
        assert_eq!(painter.paint(&picture, (columns, rows)), "", "nothing differs");
    }
}

#[test]
fn a_map_that_moved_to_the_left_costs_its_new_column() {
    let mut numbers = Numbers(11);
    let cell =
        |numbers: &mut Numbers| Cell { background: Color::Rgb(0, 0, numbers.below(200) as u8), ..Cell::plain('▀') };
    let row = |numbers: &mut Numbers| {
        let mut line = Line::new(">> ");
        for _ in 0..MAP.1 {
            line.push_cell(cell(numbers));
        }
        line.push("| beside");
        line
    };
    let mut lines: Vec<Line> = (0..40).map(|_| row(&mut numbers)).collect();
    let mut painter = Painter::default();
    let whole = painter.paint(&drawn(lines.clone()), (60, 40)).len();
    shift(&mut lines, 1, || cell(&mut numbers));
    let moved = painter.paint(&drawn(lines.clone()), (60, 40));
    assert!(moved.contains("\x1b[1P") && !moved.contains("beside"), "{moved:?}");
    assert!(moved.len() < whole / 6, "{} of {whole}", moved.len());
}

#[test]
fn a_map_that_moved_costs_its_new_row() {
    let mut numbers = Numbers(7);
    let mut lines: Vec<Line> = (0..40).map(|_| random_line(&mut numbers, 120)).collect();
    let mut painter = Painter::default();
    let whole = painter.paint(&drawn(lines.clone()), (120, 40)).len();
    lines.remove(1);
    lines.insert(37, random_line(&mut numbers, 120));
    let moved = painter.paint(&drawn(lines.clone()), (120, 40));
    assert!(moved.contains("\x1b[2;38r\x1b[1S\x1b[r"), "{moved:?}");
    assert!(moved.len() < whole / 15, "{} of {whole}", moved.len());
}

/// Bars of the terminal's own colour: the other half of a cell is not the same picture.
#[test]
fn halves_without_colours_are_not_turned() {
    let mut line = Line::default();
    "▁▄▀█".chars().for_each(|symbol| {
        line.push_cell(Cell::plain(symbol));
    });
    let (mut painter, mut screen) = (Painter::default(), Screen::new(4, 1));
    let drawn = Drawn { lines: vec![line], maps: Vec::new() };
    screen.feed(&painter.paint(&drawn, (4, 1)));
    let shown: String = screen.cells[0].iter().map(|cell| cell.symbol).collect();
    assert_eq!(shown, "▁▄▀█");
}
