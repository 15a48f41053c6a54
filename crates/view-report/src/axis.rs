//! The value axis: which buckets share a row of pixels, where a value lies, and the ticks beside it.
//!
//! Every row is made of whole buckets, so no count is ever divided between rows and no row is narrower than the buckets
//! at its height. A logarithmic axis uses rows of a coarser bucket grid (2^power rows to the octave), whose octaves are
//! divided evenly; that differs from a true logarithm by less than a tenth of an octave.

use crate::palette::Inks;
use crate::svg::{Area, Num, Svg};
use latscope_histogram::{Grid, Histogram};
use latscope_series::Quantity;
use latscope_view::{Scale, ticks, value_label};

/// A row of cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// Smallest value in it.
    pub lower: u64,
    /// Largest value in it.
    pub upper: u64,
    /// Pixels from the bottom of the axis to the row's lower and upper edge.
    pub from_px: u32,
    pub to_px: u32,
}

/// Where a bucket is drawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    Below,
    Row(u16),
    Above,
}

/// What decides about an axis beside the data.
pub(crate) struct AxisWish {
    pub quantity: Quantity,
    pub scale: Scale,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub height_px: u32,
    pub rows: Option<u32>,
}

impl AxisWish {
    fn row_limit(&self) -> u32 {
        self.rows.unwrap_or(self.height_px / ROW_PX).clamp(1, self.height_px.max(1))
    }
}

/// A value axis.
pub(crate) struct ValueAxis {
    rows: Vec<Row>,
    places: Vec<Place>,
    layout: Layout,
    quantity: Quantity,
}

/// Rows lower than this are hard to distinguish.
const ROW_PX: u32 = 3;

/// Maps values to pixels from the bottom.
#[derive(Clone, Copy)]
enum Layout {
    /// Below `knee` linear and `knee_px` high, above it 2^power rows of `row_px` to the octave.
    Log {
        power: u32,
        row_px: f64,
        knee: u64,
        knee_px: f64,
        zero: f64,
    },
    Linear {
        lower: u64,
        px_per_unit: f64,
    },
    Sqrt {
        root: f64,
        px_per_root: f64,
    },
}

impl Layout {
    fn px(&self, value: u64) -> f64 {
        match *self {
            Layout::Log { knee, knee_px, .. } if value < knee => value as f64 / knee as f64 * knee_px,
            Layout::Log { power, row_px, zero, knee_px, .. } => (place(value, power) - zero) * row_px + knee_px,
            Layout::Linear { lower, px_per_unit } => (value as f64 - lower as f64) * px_per_unit,
            Layout::Sqrt { root, px_per_root } => ((value as f64).sqrt() - root) * px_per_root,
        }
    }
}

/// The index of a value on the grid of this power, with the fraction inside the bucket.
fn place(value: u64, power: u32) -> f64 {
    if value < 2 << power {
        return value as f64;
    }
    let shift = 63 - value.leading_zeros() - power;
    f64::from(shift << power) + value as f64 / (1u64 << shift) as f64
}

impl ValueAxis {
    /// An axis for these values.
    pub fn new(total: &Histogram, wish: &AxisWish) -> ValueAxis {
        let grid = total.grid();
        let (mut lower, mut upper) = match total.totals() {
            totals if totals.count > 0 => (totals.min, totals.max),
            _ => (grid.lower(grid.index(1000)), 1_000_000),
        };
        if wish.scale != Scale::Log && wish.quantity != Quantity::Offset {
            lower = 0;
        }
        if wish.scale == Scale::Log && upper / 2 < lower {
            // A picture of one value shows some of its surroundings.
            (lower, upper) = (lower - lower / 4, upper.saturating_add(upper / 3));
        }
        upper = upper.max(lower.saturating_add(10));
        lower = wish.min.map_or(lower, |min| grid.lower(grid.index(min)));
        upper = wish.max.map_or(upper, |max| grid.upper(grid.index(max)));
        if lower > upper {
            // Everything lies beyond the one end that was given; the other end moves along.
            (lower, upper) = if wish.min.is_some() { (lower, lower.saturating_mul(2)) } else { (upper / 2, upper) };
        }
        let step = if wish.quantity.is_bytes() { 1 } else { resolution_ns(total).next_power_of_two() };
        // Values of zero are multiples of anything: they do not show what the clock resolves.
        let step = if step > upper { 1 } else { step };
        let (layout, edges) = match wish.scale {
            Scale::Log => log_rows(total, wish, lower, upper, step),
            Scale::Linear => linear_rows(grid, wish, lower, upper, step),
            Scale::Sqrt => sqrt_rows(grid, wish, lower, upper, step),
        };
        // A range that was asked for ends there; else the last row is whole.
        let end = edges.iter().copied().filter(|&edge| edge > upper).min().map_or(u64::MAX, |edge| edge - 1);
        let last = if wish.max.is_some() { upper } else { end };
        let rows = rows_of(&edges, last, &layout);
        let places = (0..grid.len()).map(|bucket| place_of(&rows, grid.lower(bucket))).collect();
        ValueAxis { rows, places, layout, quantity: wish.quantity }
    }

    /// The rows, from the bottom.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Where a bucket of the series' grid is drawn.
    pub fn place(&self, bucket: usize) -> Place {
        self.places[bucket]
    }

    /// Smallest value of the lowest row and largest of the highest.
    pub fn range(&self) -> (u64, u64) {
        (self.rows[0].lower, self.rows[self.rows.len() - 1].upper)
    }

    pub fn height_px(&self) -> u32 {
        self.rows[self.rows.len() - 1].to_px
    }

    /// Pixels from the bottom of the axis to a value; `None` beyond the range.
    pub fn px(&self, value: u64) -> Option<f64> {
        let (lower, upper) = self.range();
        (lower..=upper)
            .contains(&value)
            .then(|| (self.layout.px(value) - self.layout.px(lower)).clamp(0.0, f64::from(self.height_px())))
    }

    /// A value with its unit.
    pub fn label(&self, value: u64) -> String {
        value_label(self.quantity, value)
    }

    /// Draws ticks and labels to the left of a plot, and faint lines across it with `grid`.
    pub fn draw(&self, svg: &mut Svg, inks: &Inks, plot: Area, grid: bool) {
        let ticks = self.ticks();
        let at = |px: f64| plot.bottom() - px.round() + 0.5;
        if grid {
            svg.put(format_args!("<path stroke=\"{}\" d=\"", inks.grid));
            for (px, _) in ticks.iter().filter(|(_, label)| label.is_some()) {
                svg.put(format_args!("M{} {}h{}", Num(plot.x), Num(at(*px)), Num(plot.width)));
            }
            svg.put(format_args!("\"/>\n"));
        }
        svg.put(format_args!("<path stroke=\"{}\" d=\"", inks.muted));
        for (px, label) in &ticks {
            let length = if label.is_some() { 5 } else { 3 };
            svg.put(format_args!("M{} {}h-{length}", Num(plot.x), Num(at(*px))));
        }
        svg.put(format_args!("\"/>\n<g text-anchor=\"end\">\n"));
        for (px, label) in &ticks {
            if let Some(label) = label {
                svg.text(plot.x - 8.0, at(*px) + 3.5, "", label);
            }
        }
        svg.put(format_args!("</g>\n"));
    }

    /// Ticks from the bottom: pixels, and the label where there is room for one.
    pub fn ticks(&self) -> Vec<(f64, Option<String>)> {
        const ROOM_PX: f64 = 15.0;
        let round = ticks::round_values(self.quantity.is_bytes());
        let (lower, upper) = self.range();
        let mut placed: Vec<(f64, u8, u64)> = round
            .iter()
            .filter(|tick| (lower..=upper).contains(&tick.value))
            .filter_map(|tick| Some((self.px(tick.value)?, tick.rank, tick.value)))
            .collect();
        if matches!(self.layout, Layout::Linear { .. }) {
            placed = ticks::even_values(lower, upper, self.height_px() / 28, self.quantity.is_bytes())
                .into_iter()
                .filter_map(|value| Some((self.px(value)?, 0, value)))
                .collect();
        }
        if placed.len() < ticks::ENOUGH {
            let fine = ticks::fine_values(lower, upper, self.quantity.is_bytes());
            let fine: Vec<_> = fine.into_iter().filter_map(|value| Some((self.px(value)?, 0, value))).collect();
            placed = if fine.len() > placed.len() { fine } else { placed };
        }
        // Rounder values claim their room first.
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|&at| (placed[at].1, placed[at].2 != 0, std::cmp::Reverse(at)));
        let mut taken: Vec<f64> = Vec::new();
        let mut labelled = vec![false; placed.len()];
        for at in order {
            if taken.iter().all(|px| (px - placed[at].0).abs() >= ROOM_PX) {
                taken.push(placed[at].0);
                labelled[at] = true;
            }
        }
        placed
            .iter()
            .zip(labelled)
            .map(|(&(px, _, value), labelled)| (px, labelled.then(|| self.label(value))))
            .collect()
    }
}

fn place_of(rows: &[Row], value: u64) -> Place {
    match rows.partition_point(|row| row.lower <= value) {
        0 => Place::Below,
        above if value <= rows[above - 1].upper => Place::Row((above - 1) as u16),
        _ => Place::Above,
    }
}

/// Rows between edges; edges that would fall onto the same pixel are left out.
fn rows_of(edges: &[u64], last: u64, layout: &Layout) -> Vec<Row> {
    let base = layout.px(edges[0]);
    let px = |value: u64| (layout.px(value) - base).round().max(0.0) as u32;
    let mut rows: Vec<Row> = Vec::new();
    for &edge in edges.iter().filter(|&&edge| edge <= last) {
        let at = px(edge);
        match rows.last_mut() {
            Some(row) if at <= row.from_px => {}
            Some(row) => {
                (row.upper, row.to_px) = (edge - 1, at);
                rows.push(Row { lower: edge, upper: last, from_px: at, to_px: at });
            }
            None => rows.push(Row { lower: edge, upper: last, from_px: 0, to_px: 0 }),
        }
    }
    let top = px(last.saturating_add(1));
    if let Some(row) = rows.last_mut() {
        (row.upper, row.to_px) = (last, top.max(row.from_px + 1));
    }
    rows
}

fn log_rows(total: &Histogram, wish: &AxisWish, lower: u64, upper: u64, step: u64) -> (Layout, Vec<u64>) {
    let grid = total.grid();
    // Values of zero, or below what the clock resolves, have no logarithm: a row of their own, as high as half an octave,
    // up to the smallest value that has one.
    let second = total.buckets().map(|(bucket, ..)| grid.lower(bucket)).find(|&value| value >= step.max(2));
    let knee = if lower > step / 2 { 0 } else { 1 << (63 - second.unwrap_or(step.max(2)).leading_zeros()) };
    let knee = if knee > upper { 0 } else { knee };
    let start = lower.max(knee);
    let count = |power: u8| place(upper, power.into()) - place(start, power.into()) + 1.0;
    let limit = f64::from(wish.row_limit());
    let power = (0..=grid.power()).rev().find(|&power| count(power) <= limit).unwrap_or(0);
    let rows = Grid::with_power(power).unwrap_or(grid);
    let row_px = (f64::from(wish.height_px) / count(power)).floor().clamp(1.0, 32.0);
    let knee_px = if knee > 0 { (row_px * f64::from(1u32 << power) / 2.0).clamp(10.0, 32.0).round() } else { 0.0 };
    let layout = Layout::Log { power: power.into(), row_px, knee, knee_px, zero: place(start, power.into()).floor() };
    let first = if wish.min.is_some() { start } else { rows.lower(rows.index(start)) };
    let mut edges = if knee > 0 { vec![grid.lower(grid.index(lower))] } else { vec![first] };
    for index in rows.index(start) + usize::from(knee == 0)..rows.len() {
        let edge = rows.lower(index);
        // Where rows are narrower than the clock's resolution, only every so many of them could ever be hit.
        if (rows.upper(index) - edge).saturating_add(1) >= step || edge.is_multiple_of(step) {
            edges.push(edge);
        }
        if edges.last().is_some_and(|&edge| edge > upper) {
            break;
        }
    }
    (layout, edges)
}

fn linear_rows(grid: Grid, wish: &AxisWish, lower: u64, upper: u64, step: u64) -> (Layout, Vec<u64>) {
    let bucket = grid.index(upper);
    let widest = (grid.upper(bucket) - grid.lower(bucket)).saturating_add(1).max(step);
    let limit = u64::from(wish.row_limit());
    let mut width = widest.max(1).next_power_of_two();
    while (upper - lower) / width >= limit && width < 1 << 63 {
        width *= 2;
    }
    let first = lower - lower % width;
    let count = (upper - first) / width + 1;
    let row_px = (u64::from(wish.height_px) / count).clamp(1, 32);
    // The lowest row starts where it was asked to, on a bucket's edge.
    let start = if wish.min.is_some() { lower } else { first };
    let edges =
        std::iter::once(start).chain((1..=count).filter_map(|at| at.checked_mul(width)?.checked_add(first))).collect();
    (Layout::Linear { lower: first, px_per_unit: row_px as f64 / width as f64 }, edges)
}

fn sqrt_rows(grid: Grid, wish: &AxisWish, lower: u64, upper: u64, step: u64) -> (Layout, Vec<u64>) {
    let count = wish.row_limit();
    let (lower, upper) = (grid.lower(grid.index(lower)), grid.upper(grid.index(upper)));
    let (root, end) = ((lower as f64).sqrt(), (upper as f64 + 1.0).sqrt());
    let px_per_root = f64::from(wish.height_px) / (end - root).max(f64::MIN_POSITIVE);
    let mut edges = vec![lower];
    for at in 1..=count {
        let value = (root + (end - root) * f64::from(at) / f64::from(count)).powi(2) as u64;
        let edge = grid.lower(grid.index(value));
        if edge <= upper && edges.last().is_some_and(|&last| edge > last && edge - last >= step) {
            edges.push(edge);
        }
    }
    edges.extend(upper.checked_add(1));
    (Layout::Sqrt { root, px_per_root }, edges)
}

/// What the clock of these values seems to resolve: the longest round duration of which every value can be a multiple.
/// Values that say nothing about it (their buckets are wider) do not matter, for rows are wider there, too.
fn resolution_ns(total: &Histogram) -> u64 {
    let grid = total.grid();
    let fits = |unit: u64| total.buckets().all(|(bucket, ..)| grid.upper(bucket) / unit * unit >= grid.lower(bucket));
    [1_000_000, 100_000, 10_000, 1_000, 100, 10].into_iter().find(|&unit| fits(unit)).unwrap_or(1)
}

#[cfg(test)]
#[path = "axis_tests.rs"]
mod tests;
