//! The interactive spectrogram as a value: one screenful of lines, and where on it what lies. The program owns keys, mouse
//! and terminal; here is only drawing.

mod canvas;
mod margin;
mod paint;
mod readout;
mod samples;
mod scene;
mod window;

pub use canvas::Area;
pub use readout::{Readout, readout};

use crate::{Line, SpectrogramOptions};
use canvas::Canvas;
use latscope_event::Context;
use latscope_series::{HistogramSeries, Weight};
use scene::Scene;

/// What a screen shows.
pub struct Screen<'a> {
    /// Columns and rows of the terminal.
    pub size: (usize, usize),
    /// Histograms at their finest interval, a strip of the map for each of its groups (the heaviest, as many as fit).
    /// Its weight is count or bytes.
    pub series: &'a HistogramSeries,
    /// What the trace says about itself; its notes have a place on every screen.
    pub context: &'a Context,
    /// How to look at it.
    pub look: &'a Look,
    /// Where the cursor is.
    pub cursor: Option<Spot>,
    /// What is selected, or is about to be.
    pub selection: Option<Spot>,
    /// Text beside or over the map (what is in the selection, help); none when empty.
    pub panel: &'a [Line],
    /// Line above the map: source, mode, filter.
    pub title: &'a Line,
    /// Last line of the screen: state and keys, or a line being edited.
    pub status: &'a Line,
}

/// How to look at a series.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// Palette, colours, scale, orientation, bounds of the latency axis, time labels. Its size is not used.
    pub options: SpectrogramOptions,
    /// What a cell's colour adds up. Time is taken from the middle of each bucket, so within 1/128.
    pub shown: Weight,
    /// Whether lines of p50 and p99 are drawn over the map.
    pub percentiles: bool,
    /// Whether the distribution of all that is on the map is drawn at its side.
    pub distribution: bool,
    /// Whether the rate over time is drawn beside the map.
    pub rates: bool,
    /// Intervals of the series to one interval of the map.
    pub merge: u32,
    /// The newest interval of the series on the map; `None` follows the newest there is.
    pub newest: Option<i64>,
}

/// A rectangle of the map: a range of time by a range of values, of one strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// First moment, nanoseconds on the trace's clock.
    pub from_ns: i64,
    /// First moment after it.
    pub to_ns: i64,
    /// Least value in it.
    pub low: u64,
    /// Greatest value in it; `u64::MAX` in the cell of all that is beyond the axis.
    pub high: u64,
    /// Group of the strip, `None` when there is one strip of all.
    pub group: Option<u32>,
}

/// A drawn screen.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// As many lines as the terminal has rows, none wider than it.
    pub lines: Vec<Line>,
    /// Where the strips of the map are.
    pub maps: Vec<MapArea>,
}

/// Where a strip of the map is on the screen, in cells counted from the upper left corner, and what it shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MapArea {
    /// First column.
    pub left: usize,
    /// First row.
    pub top: usize,
    /// Number of columns.
    pub columns: usize,
    /// Number of rows.
    pub rows: usize,
    /// Group of the strip.
    pub group: Option<u32>,
    down: bool,
    /// First moment and first after it of the cells along time, oldest first.
    times: Vec<(i64, i64)>,
    /// Least and greatest value of the cells along the values, lowest first.
    values: Vec<(u64, u64)>,
}

impl MapArea {
    /// What a cell of the screen shows; `None` outside of the map. Where the buckets are wider than the cells, several
    /// cells show the same spot.
    pub fn spot(&self, column: usize, row: usize) -> Option<Spot> {
        let (right, down) = (column.checked_sub(self.left)?, row.checked_sub(self.top)?);
        if right >= self.columns || down >= self.rows {
            return None;
        }
        let (time, value) = if self.down { (down, right) } else { (right, self.rows - 1 - down) };
        let (&(from_ns, to_ns), &(low, high)) = (self.times.get(time)?, self.values.get(value)?);
        Some(Spot { from_ns, to_ns, low, high, group: self.group })
    }

    /// The cells that a spot lies on, of this strip's group or of any; `None` when none of them is on the map.
    pub fn cells(&self, spot: &Spot) -> Option<Area> {
        let times = hit(&self.times, |&(from, to)| from < spot.to_ns && spot.from_ns < to)?;
        let values = hit(&self.values, |&(low, high)| low <= spot.high && spot.low <= high)?;
        Some(match self.down {
            true => Area {
                left: self.left + values.0,
                top: self.top + times.0,
                columns: values.1 - values.0 + 1,
                rows: times.1 - times.0 + 1,
            },
            false => Area {
                left: self.left + times.0,
                top: (self.top + self.rows).saturating_sub(values.1 + 1),
                columns: times.1 - times.0 + 1,
                rows: values.1 - values.0 + 1,
            },
        })
    }

    /// The spot beside one, so many cells to the right and down (or left and up): the next one that differs where several
    /// cells show the same. `None` beyond the map's edge.
    pub fn beside(&self, spot: &Spot, right: isize, down: isize) -> Option<Spot> {
        let cells = self.cells(spot)?;
        let start = |from: usize, length: usize, by: isize| if by > 0 { from + length - 1 } else { from };
        let column = start(cells.left, cells.columns, right).checked_add_signed(right)?;
        let row = start(cells.top, cells.rows, down).checked_add_signed(down)?;
        self.spot(column, row)
    }
}

/// First and last that are hit.
fn hit<T>(ranges: &[T], is_hit: impl Fn(&T) -> bool) -> Option<(usize, usize)> {
    Some((ranges.iter().position(&is_hit)?, ranges.iter().rposition(&is_hit)?))
}

/// A panel beside the map needs a terminal so wide.
const WIDE: usize = 100;

/// Draws a screen: title, map with what stands around it, panel, status. Where there is little room, what is needed
/// least is left out first.
pub fn screen(screen: &Screen) -> Drawn {
    let (columns, rows) = screen.size;
    let mut canvas = Canvas::new(screen.size, screen.look.options.unicode);
    let whole = Area { left: 0, top: 1, columns, rows: rows.saturating_sub(2) };
    let (map, panel) = split(whole, screen.panel);
    let maps = Scene::new(screen, map).map_or(Vec::new(), |scene| scene.draw(&mut canvas));
    if let Some(area) = panel {
        draw_panel(&mut canvas, area, whole, screen.panel);
    }
    if rows > 1 {
        canvas.line(0, 0, columns, screen.title);
    }
    canvas.line(0, rows.saturating_sub(1), columns, screen.status);
    Drawn { lines: canvas.into_lines(), maps }
}

/// What the map keeps, and what the panel gets: columns at the right where it fits into half of a wide screen, else as
/// many rows below as it needs and half of the screen has.
fn split(whole: Area, panel: &[Line]) -> (Area, Option<Area>) {
    let widest = panel.iter().map(Line::width).max().unwrap_or(0);
    if panel.is_empty() || whole.rows == 0 {
        (whole, None)
    } else if whole.columns >= WIDE && widest + 3 <= whole.columns / 2 {
        let columns = (widest + 3).max(whole.columns / 3);
        let map = Area { columns: whole.columns - columns, ..whole };
        (map, Some(Area { left: map.columns, columns, ..whole }))
    } else {
        let rows = (panel.len() + 1).min(whole.rows / 2).max(1);
        let map = Area { rows: whole.rows - rows, ..whole };
        (map, Some(Area { top: whole.top + map.rows, rows, ..whole }))
    }
}

fn draw_panel(canvas: &mut Canvas, area: Area, whole: Area, panel: &[Line]) {
    let beside = area.rows == whole.rows && area.left > 0;
    let (side, rule) = if canvas.unicode { ("│", "─") } else { ("|", "-") };
    let (indent, top) = if beside { (2, 0) } else { (0, 1) };
    if beside {
        (0..area.rows).for_each(|row| canvas.text(area.left, area.top + row, 1, side));
    } else {
        canvas.text(area.left, area.top, area.columns, &rule.repeat(area.columns));
    }
    let room = area.rows.saturating_sub(top);
    let shown = if panel.len() > room { room.saturating_sub(1) } else { panel.len() };
    for (at, line) in panel[..shown].iter().enumerate() {
        canvas.line(area.left + indent, area.top + top + at, area.columns.saturating_sub(indent), line);
    }
    if shown < panel.len() && room > 0 {
        let text = format!("({} more lines)", panel.len() - shown);
        canvas.text(area.left + indent, area.top + top + shown, area.columns.saturating_sub(indent), &text);
    }
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
