//! The interactive spectrogram as a value: one screenful of lines, and where on it what lies. The program owns keys, mouse
//! and terminal; here is only drawing.

mod across;
mod down;
mod marks;
mod samples;

use crate::caption::Moments;
use crate::{Line, Orient, SpectrogramOptions, TimeLabels};
use latscope_event::Context;
use latscope_series::{HistogramSeries, Weight};
use samples::{Samples, Strip};

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
    /// Whether time goes down.
    down: bool,
    /// First moment and first after it, by cell along the axis of time.
    times: Vec<(i64, i64)>,
    /// Least and greatest value, by cell along the axis of values.
    values: Vec<(u64, u64)>,
}

impl MapArea {
    /// What lies at a cell of the screen; `None` outside of the map.
    pub fn spot(&self, column: usize, row: usize) -> Option<Spot> {
        let (across, down) = (column.checked_sub(self.left)?, row.checked_sub(self.top)?);
        let (time, value) = if self.down { (down, across) } else { (across, down) };
        let (&(from_ns, to_ns), &(low, high)) = (self.times.get(time)?, self.values.get(value)?);
        (across < self.columns && down < self.rows).then_some(Spot { from_ns, to_ns, low, high, group: self.group })
    }

    /// The cells that a spot covers: columns and rows on the screen, first and last; `None` when none of them is.
    fn cells(&self, spot: &Spot) -> Option<((usize, usize), (usize, usize))> {
        if spot.group != self.group {
            return None;
        }
        let range = |hit: &mut dyn Iterator<Item = bool>| {
            let hits: Vec<usize> = hit.enumerate().filter(|&(_, hit)| hit).map(|(at, _)| at).collect();
            Some((*hits.first()?, *hits.last()?))
        };
        let times = range(&mut self.times.iter().map(|&(from, to)| from < spot.to_ns && to > spot.from_ns))?;
        let values = range(&mut self.values.iter().map(|&(low, high)| low <= spot.high && high >= spot.low))?;
        let (across, down) = if self.down { (values, times) } else { (times, values) };
        Some(((self.left + across.0, self.left + across.1), (self.top + down.0, self.top + down.1)))
    }
}

/// Draws a screen.
pub fn screen(screen: &Screen) -> Drawn {
    let (columns, rows) = screen.size;
    let mut canvas = Canvas { lines: vec![Line::default(); rows], columns };
    canvas.put(0, 0, screen.title);
    let options = SpectrogramOptions { columns, ..screen.look.options.clone() };
    // From below: status, what is missing, legend.
    let mut bottom = rows.saturating_sub(1);
    canvas.put(0, bottom, screen.status);
    let notes = screen.context.notes();
    for note in notes.iter().take(if rows >= 20 { 2 } else { usize::from(rows >= 12) }).rev() {
        let mut line = Line::of(note);
        line.truncate(columns, true);
        bottom -= 1;
        canvas.put(0, bottom, &line);
    }
    let mut maps = Vec::new();
    if bottom > 6 && columns >= 16 && !screen.series.slices().is_empty() {
        let frame = Frame { screen, options, top: 1, bottom: bottom - 1 };
        let legend;
        (maps, legend) = match screen.look.options.orient {
            Orient::Down => down::draw(&mut canvas, &frame),
            Orient::Across => across::draw(&mut canvas, &frame),
        };
        canvas.put(0, bottom - 1, &legend);
    }
    for map in &maps {
        marks::selection(&mut canvas, map, screen.selection.as_ref());
        marks::cursor(&mut canvas, map, screen.cursor.as_ref());
    }
    if !screen.panel.is_empty() {
        marks::panel(&mut canvas, screen, &maps, bottom);
    }
    Drawn { lines: canvas.lines, maps }
}

/// The screen while it is drawn.
struct Canvas {
    lines: Vec<Line>,
    columns: usize,
}

impl Canvas {
    /// Puts a line somewhere, cut at the edge.
    fn put(&mut self, column: usize, row: usize, line: &Line) {
        let Some(target) = self.lines.get_mut(row) else { return };
        if column >= self.columns {
            return;
        }
        let mut line = line.clone();
        line.truncate(self.columns - column, false);
        target.pad_to(column + line.width());
        target.cells[column..column + line.width()].copy_from_slice(&line.cells);
    }
}

/// What the map has of the screen.
struct Frame<'a> {
    screen: &'a Screen<'a>,
    options: SpectrogramOptions,
    /// First row, and the one behind the last.
    top: usize,
    bottom: usize,
}

impl Frame<'_> {
    fn moments(&self, width_ns: u64) -> Moments {
        let (first, last) = self.screen.series.range().unwrap_or((0, 0));
        // Time counts from the start of the first interval of the map.
        let merge = i64::from(self.screen.look.merge.max(1));
        let first = self.screen.series.start_ns(first.div_euclid(merge) * merge);
        let last = self.screen.series.start_ns(last);
        let clock = &self.screen.context.clock;
        Moments::new(self.options.time, clock, first, width_ns, last.abs_diff(first))
    }

    /// Columns that the labels of times need.
    fn label_width(&self, moments: &Moments) -> usize {
        let (_, last) = self.screen.series.range().unwrap_or((0, 0));
        if self.options.time == TimeLabels::None {
            0
        } else {
            moments.label(self.screen.series.start_ns(last)).len().max(4)
        }
    }

    /// The groups that get a strip, the heaviest first, at most so many.
    fn groups(&self, limit: usize) -> Vec<Option<u32>> {
        let series = self.screen.series;
        if series.by.is_empty() {
            return vec![None];
        }
        let mut groups: Vec<_> =
            series.group_totals().iter().enumerate().map(|(at, totals)| (totals.sum, at as u32)).collect();
        groups.retain(|&(sum, _)| sum > 0);
        groups.sort_by_key(|&(sum, at)| (std::cmp::Reverse(sum), at));
        groups.into_iter().take(limit.max(1)).map(|(_, group)| Some(group)).collect()
    }

    /// The name of a strip, cut to its width.
    fn name(&self, group: u32, columns: usize) -> Line {
        let mut line = Line::of(&self.screen.series.group_name(group));
        line.truncate(columns, true);
        line
    }
}

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
