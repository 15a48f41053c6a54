//! The interactive spectrogram as a value: one screenful of lines, and where on it what lies. The program owns keys, mouse
//! and terminal; here is only drawing.

use crate::{Line, SpectrogramOptions};
use latscope_event::Context;
use latscope_series::{HistogramSeries, Weight};

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
#[derive(Clone, PartialEq, Debug)]
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
}

/// Draws a screen.
pub fn screen(screen: &Screen) -> Drawn {
    Drawn { lines: vec![screen.title.clone(), screen.status.clone()], maps: Vec::new() }
}
