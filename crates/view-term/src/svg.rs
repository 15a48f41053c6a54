//! Lines of a terminal as an SVG picture, for documents.

use crate::{Cell, Color, Line};
use latscope_view::Escaped;
use std::fmt::Write;

/// A cell in units of the picture.
const WIDTH: usize = 8;
const HEIGHT: usize = 17;
const BASELINE: usize = 13;

/// Lines as a terminal with a dark or a light background shows them, cell by cell. Blocks are drawn as rectangles, so
/// that they join whatever the font; text is stretched to its cells.
pub fn svg_of_lines(lines: &[Line], light: bool) -> String {
    let columns = lines.iter().map(Line::width).max().unwrap_or(0);
    let (width, height) = (columns * WIDTH + 16, lines.len() * HEIGHT + 16);
    let (ink, paper) = if light { ((36, 41, 47), (255, 255, 255)) } else { ((208, 212, 217), (16, 18, 22)) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{}\"/>\n<g transform=\"translate(8 8)\">\n",
        hex(paper)
    );
    for (row, line) in lines.iter().enumerate() {
        let paint = |color: Color, own| color.rgb().unwrap_or(own);
        runs(
            line,
            |cell| cell.background,
            |at, run| {
                if run[0].background != Color::Default {
                    rect(&mut svg, (at, row), (run.len() as f64, 0.0, 1.0), paint(run[0].background, paper), 1.0);
                }
            },
        );
        runs(
            line,
            |cell| (cell.foreground, block(cell.symbol)),
            |at, run| {
                let color = paint(run[0].foreground, ink);
                match block(run[0].symbol) {
                    Some(Block { width: 1.0, top, bottom, opacity }) => {
                        rect(&mut svg, (at, row), (run.len() as f64, top, bottom), color, opacity);
                    }
                    Some(Block { width, top, bottom, opacity }) => (0..run.len()).for_each(|next| {
                        rect(&mut svg, (at + next, row), (width, top, bottom), color, opacity);
                    }),
                    None => text(&mut svg, (at, row), run, color),
                }
            },
        );
    }
    svg + "</g>\n</svg>\n"
}

/// Part of a cell that a block character fills.
#[derive(Clone, Copy, PartialEq)]
struct Block {
    width: f64,
    top: f64,
    bottom: f64,
    opacity: f64,
}

fn block(symbol: char) -> Option<Block> {
    let whole = Block { width: 1.0, top: 0.0, bottom: 1.0, opacity: 1.0 };
    Some(match symbol {
        '▀' => Block { bottom: 0.5, ..whole },
        '▁'..='█' => Block { top: 1.0 - (symbol as u32 - '▀' as u32) as f64 / 8.0, ..whole },
        '▉'..='▏' => Block { width: ('▐' as u32 - symbol as u32) as f64 / 8.0, ..whole },
        '░' => Block { opacity: 0.25, ..whole },
        '▒' => Block { opacity: 0.5, ..whole },
        '▓' => Block { opacity: 0.75, ..whole },
        _ => return None,
    })
}

/// Calls with each longest run of cells that are alike.
fn runs<K: PartialEq>(line: &Line, key: impl Fn(&Cell) -> K, mut each: impl FnMut(usize, &[Cell])) {
    let mut at = 0;
    for run in line.cells.chunk_by(|a, b| key(a) == key(b)) {
        each(at, run);
        at += run.len();
    }
}

/// A rectangle from `top` to `bottom` of a row, in parts of cells.
fn rect(
    svg: &mut String,
    (column, row): (usize, usize),
    (columns, top, bottom): (f64, f64, f64),
    color: (u8, u8, u8),
    opacity: f64,
) {
    let (x, y) = (column * WIDTH, (row as f64 + top) * HEIGHT as f64);
    let (width, height) = (columns * WIDTH as f64, (bottom - top) * HEIGHT as f64);
    let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
    let crisp = " shape-rendering=\"crispEdges\"";
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"{opacity}{crisp}/>",
        hex(color)
    );
}

/// Words of one colour, each at its own column.
fn text(svg: &mut String, (column, row): (usize, usize), run: &[Cell], color: (u8, u8, u8)) {
    let y = row * HEIGHT + BASELINE;
    let mut at = column;
    for word in run.chunk_by(|a, b| (a.symbol == ' ') == (b.symbol == ' ')) {
        let x = at * WIDTH;
        at += word.len();
        if word[0].symbol == ' ' {
            continue;
        }
        let shown: String = word.iter().map(|cell| cell.symbol).filter(|&symbol| symbol != Cell::CONTINUED).collect();
        let shown = Escaped(&shown);
        let length = word.len() * WIDTH;
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\">{shown}</text>",
            hex(color)
        );
    }
}

fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}
