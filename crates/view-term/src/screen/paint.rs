//! The map itself: cells, percentiles, cursor, selection.

use super::MapArea;
use super::canvas::{Area, Canvas};
use super::samples::Samples;
use super::scene::Scene;
use crate::{Cell, Color, ColorDepth};
use latscope_event::{Unfinished, Wait};
use latscope_series::Quantity;

/// What stands for a percentile on the map.
#[derive(Clone, Copy)]
pub(super) struct Percentile {
    pub name: &'static str,
    pub quantile: f64,
    pub symbol: char,
}

impl Scene<'_> {
    pub fn percentiles(&self) -> [Percentile; 2] {
        let symbols = match (self.screen.look.options.unicode, self.down) {
            (true, true) => ['┊', '┃'],
            (true, false) => ['┈', '━'],
            (false, _) => ['5', '9'],
        };
        [("p50", 0.5, symbols[0]), ("p99", 0.99, symbols[1])].map(|(name, quantile, symbol)| Percentile {
            name,
            quantile,
            symbol,
        })
    }

    /// What stands where the trace does not reach.
    pub fn outside(&self) -> char {
        if self.screen.look.options.unicode { '·' } else { '\'' }
    }

    pub fn paint(&self, canvas: &mut Canvas, area: Area, samples: &Samples) {
        for time in 0..self.times.cells {
            let outside = self.is_outside(time);
            for value in 0..self.values.spans.len() {
                let mut cell = self.cell(samples, time, value);
                let dotted = (self.times.number(time) + 2 * value as i64).rem_euclid(4) == 0;
                if outside && dotted && cell == Cell::BLANK {
                    cell = Cell { foreground: self.faint(), ..Cell::plain(self.outside()) };
                }
                let (column, row) = self.place(area, time, value);
                canvas.put(column, row, cell);
            }
        }
    }

    pub fn faint(&self) -> Color {
        if self.strength.depth == ColorDepth::Mono { Color::Default } else { Color::Indexed(8) }
    }

    fn is_outside(&self, time: usize) -> bool {
        let (from, to) = self.times.span(time);
        self.span.is_some_and(|(first, last)| to <= first || from > last)
    }

    fn cell(&self, samples: &Samples, time: usize, value: usize) -> Cell {
        let per_second = 1e9 / self.times.interval_ns() as f64;
        let rate = |interval: usize, slot: usize| samples.amount(interval, slot) * per_second;
        let (lower, upper) = self.values.shown(value);
        let in_axis = (1..=self.values.axis.columns()).contains(&lower);
        if self.times.each == 2 {
            self.strength.halves(rate(2 * time, lower), rate(2 * time + 1, lower))
        } else if self.values.each == 2 && in_axis {
            self.strength.halves(rate(time, upper), rate(time, lower))
        } else {
            self.strength.cell(rate(time, lower))
        }
    }

    pub fn paint_percentiles(&self, canvas: &mut Canvas, area: Area, samples: &Samples) {
        if !self.screen.look.percentiles {
            return;
        }
        let each = self.times.each;
        for time in 0..self.times.cells {
            for percentile in self.percentiles() {
                if let Some(slot) = samples.quantile(time * each..(time + 1) * each, percentile.quantile) {
                    let (column, row) = self.place(area, time, self.values.cell(slot));
                    canvas.overlay(column, row, percentile.symbol);
                }
            }
        }
    }

    /// What is in flight and counts as waiting; nothing where the axis is not that of the latency, or where the map is split,
    /// as nobody knows in which strip it will end.
    pub fn waiting(&self) -> impl Iterator<Item = &Unfinished> + '_ {
        let whole = self.strips.iter().all(|(group, ..)| group.is_none());
        let is_shown = whole && self.screen.series.quantity == Quantity::Latency;
        self.screen.context.unfinished.iter().filter(move |unfinished| is_shown && unfinished.wait == Wait::Counts)
    }

    /// What stands for a request or call in flight: it will end further up the axis than that.
    pub fn waits(&self) -> char {
        match (self.screen.look.options.unicode, self.down) {
            (true, true) => '»',
            (false, true) => '>',
            (true, false) => '↑',
            (false, false) => '^',
        }
    }

    /// Signs for what is in flight, in each interval in which it waited, at the age that it had at its end.
    pub fn paint_waiting(&self, canvas: &mut Canvas, area: Area) {
        let grid = self.screen.series.grid();
        for unfinished in self.waiting() {
            let seen_ns = unfinished.start_ns.saturating_add_unsigned(unfinished.at_least_ns);
            for time in 0..self.times.cells {
                let (from_ns, to_ns) = self.times.span(time);
                if from_ns <= seen_ns && unfinished.start_ns < to_ns {
                    let age_ns = to_ns.min(seen_ns).saturating_sub(unfinished.start_ns).max(0).unsigned_abs();
                    let slot = self.values.slot(grid.index(age_ns));
                    let (column, row) = self.place(area, time, self.values.cell(slot));
                    canvas.overlay(column, row, self.waits());
                }
            }
        }
    }

    /// Selection and cursor.
    pub fn paint_marks(&self, canvas: &mut Canvas, map: &MapArea) {
        let has = |group: Option<u32>| group.is_none() || group == map.group;
        if let Some(cells) = self.screen.selection.filter(|spot| has(spot.group)).and_then(|spot| map.cells(&spot)) {
            self.paint_frame(canvas, cells);
        }
        if let Some(cells) = self.screen.cursor.filter(|spot| has(spot.group)).and_then(|spot| map.cells(&spot)) {
            let symbol = if self.screen.look.options.unicode { '╳' } else { 'X' };
            let mono = self.strength.depth == ColorDepth::Mono;
            let colors = if mono { (Color::Default, Color::Default) } else { (Color::Indexed(0), Color::Indexed(15)) };
            let cell = Cell { symbol, foreground: colors.0, background: colors.1 };
            canvas.put(cells.left + cells.columns / 2, cells.top + cells.rows / 2, cell);
        }
    }

    /// A frame on the outermost cells, whose colours stay; without colours only its corners cover data.
    fn paint_frame(&self, canvas: &mut Canvas, cells: Area) {
        let (right, bottom) = (cells.left + cells.columns - 1, cells.top + cells.rows - 1);
        let signs: Vec<char> =
            if self.screen.look.options.unicode { "┌┐└┘─│□[]" } else { "++++-|O[]" }.chars().collect();
        for row in cells.top..=bottom {
            for column in cells.left..=right {
                let (first, last) = (column == cells.left, column == right);
                let (upper, lower) = (row == cells.top, row == bottom);
                let (sign, corner) = match ((first, last), (upper, lower)) {
                    ((true, true), (true, true)) => (signs[6], true),
                    ((true, false), (true, true)) => (signs[7], true),
                    ((false, true), (true, true)) => (signs[8], true),
                    ((true, true), (true, false) | (false, true)) => (signs[4], true),
                    ((true, _), (true, _)) => (signs[0], true),
                    ((_, true), (true, _)) => (signs[1], true),
                    ((true, _), (_, true)) => (signs[2], true),
                    ((_, true), (_, true)) => (signs[3], true),
                    ((false, false), (true, _) | (_, true)) => (signs[4], false),
                    ((true, _) | (_, true), _) => (signs[5], false),
                    _ => continue,
                };
                if corner || self.strength.depth != ColorDepth::Mono || canvas.cell(column, row).symbol == ' ' {
                    canvas.overlay(column, row, sign);
                }
            }
        }
    }
}
