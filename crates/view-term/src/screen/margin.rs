//! What stands around the map: axes, names, distribution, rates, legend, what is missing.

use super::canvas::{Area, Canvas};
use super::samples::Samples;
use super::scene::{RIGHT, Scene};
use crate::scale::Strength;
use crate::{Cell, Color, Line};
use latscope_event::format_count;

/// Rows between two labels of time.
const LABEL_EVERY: i64 = 5;
/// Red of the terminal's own.
const LOSS: Color = Color::Indexed(9);
const BARS_UP: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const BARS_RIGHT: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

impl Scene<'_> {
    fn unicode(&self) -> bool {
        self.screen.look.options.unicode
    }

    /// The labels of the values of a strip.
    pub fn draw_values(&self, canvas: &mut Canvas, area: Area) {
        let (below, above) = self.values.beyond;
        let (under, end) = (usize::from(below), self.values.spans.len() - usize::from(above));
        if self.down {
            if self.margins.axis == 0 {
                return;
            }
            let mut line = Line::new(if below { "<" } else { "" });
            for (column, label) in self.values.axis.ticks(|label| label.len() + 2) {
                line.truncate(under + column, false).pad_to(under + column);
                line.push("|").push(if under + column + 1 + label.len() <= end { &label } else { "" });
            }
            line.pad_to(end).push(if above { ">" } else { "" });
            canvas.line(area.left, area.top - 1, area.columns, &line);
        } else if self.margins.left > 0 {
            let each = self.values.each;
            for (at, label) in self.values.axis.ticks(|_| each) {
                let (_, row) = self.place(area, 0, under + at / each);
                canvas.text_right(self.area.left, row, self.margins.left - 1, &label);
            }
            for (sign, value) in [("<", 0), (">", end)] {
                if sign == "<" && below || sign == ">" && above {
                    let (_, row) = self.place(area, 0, value);
                    canvas.text_right(self.area.left, row, self.margins.left - 1, sign);
                }
            }
        }
    }

    /// The name above each strip, and how many there are without one.
    pub fn draw_headings(&self, canvas: &mut Canvas) {
        let above = if self.down { self.margins.band + self.margins.axis + 1 } else { 1 };
        for (at, (group, area, _)) in self.strips.iter().enumerate() {
            let Some(group) = group.filter(|_| self.margins.heading > 0 && area.top > self.area.top) else { continue };
            let more = format!("and {} more", format_count(self.more as u64));
            let tail = if at + 1 == self.strips.len() && self.more > 0 { more } else { String::new() };
            let room = area.columns.saturating_sub(if tail.is_empty() { 0 } else { tail.len() + 1 });
            let name = self.screen.series.group_name(group);
            canvas.text(area.left, area.top - above, room, &name);
            canvas.text_right(area.left, area.top - above, area.columns, &tail);
        }
    }

    pub fn draw_times(&self, canvas: &mut Canvas) {
        let Some(area) = self.strips.first().map(|strip| strip.1) else { return };
        let zero = self.span.map_or(i64::MIN, |span| span.0);
        let more = if self.unicode() { '…' } else { '~' };
        let label = |at: usize| {
            let (from, to) = self.times.span(at);
            if to > zero { self.moments.label(from) } else { String::new() }
        };
        if self.down {
            let left = self.margins.left;
            for at in (0..self.times.cells).filter(|&at| left > 1 && self.has_losses(at)) {
                canvas.put(self.area.left + left - 1, area.top + at, Cell { foreground: LOSS, ..Cell::plain('!') });
            }
            for at in (0..self.times.cells).filter(|_| left > 1) {
                let last = at + 1 == self.times.cells;
                // The newest has a label of its own, unless the one above would touch it.
                let regular = self.times.number(at).rem_euclid(LABEL_EVERY) == 0;
                if regular || last {
                    canvas.text_right(self.area.left, area.top + at, left - 2, &label(at));
                }
                if last && self.is_incomplete() {
                    canvas.put(self.area.left + left - 2, area.top + at, Cell::plain(more));
                }
            }
            return;
        }
        if self.margins.axis == 0 {
            return;
        }
        let row = self.strips.last().map_or(0, |strip| strip.1.top + strip.1.rows) + self.margins.band;
        let room = label(self.times.cells.saturating_sub(1)).len() + 3;
        let steps = [5, 10, 20, 25, 50, 100, 200, 500];
        let step = steps.into_iter().find(|&step| step >= room).unwrap_or(1000) as i64;
        for at in (0..self.times.cells).filter(|&at| self.has_losses(at)) {
            canvas.put(area.left + at, row, Cell { foreground: LOSS, ..Cell::plain('!') });
        }
        for at in (0..self.times.cells).filter(|&at| self.times.number(at).rem_euclid(step) == 0) {
            let text = format!("|{}", label(at));
            if text.len() > 1 && at + text.len() < self.times.cells {
                canvas.text(area.left + at, row, text.len(), &text);
            }
        }
        if self.is_incomplete() {
            canvas.put(area.left + self.times.cells - 1, row, Cell::plain(more));
        }
    }

    /// Whether records were lost in this time.
    fn has_losses(&self, at: usize) -> bool {
        let (from, to) = self.times.span(at);
        self.screen.context.loss_ranges.iter().any(|range| range.start_ns < to && range.end_ns >= from)
    }

    /// Of all that is on a strip, along its axis of values.
    pub fn draw_distribution(&self, canvas: &mut Canvas, area: Area, samples: &Samples) {
        let room = if self.down { self.margins.band } else { self.margins.right };
        if room == 0 || !self.screen.look.distribution {
            return;
        }
        let sums = samples.sums();
        let amounts: Vec<f64> = (0..self.values.spans.len())
            .map(|cell| match self.values.shown(cell) {
                (lower, upper) if lower == upper => sums[lower],
                (lower, upper) => sums[lower] + sums[upper],
            })
            .collect();
        let most = amounts.iter().fold(0.0, |most: f64, &amount| most.max(amount));
        let seconds = self.times.cell_ns() as f64 * self.times.cells as f64 / 1e9;
        for (value, amount) in amounts.iter().enumerate().filter(|_| most > 0.0) {
            let (column, row) = self.place(area, 0, value);
            if self.down {
                let bottom = area.top - self.margins.axis - 1;
                self.bar_up(canvas, (column, bottom), room, amount / most);
            } else {
                self.bar_right(canvas, (area.left + area.columns + 1, row), room - 1, amount / most);
            }
        }
        if most > 0.0 {
            let text = self.strength.label(most / seconds);
            if !self.down && area.top > self.area.top && self.margins.heading > 0 {
                canvas.text_right(area.left + area.columns, area.top - 1, room, &text);
            } else if self.down && self.margins.left > 1 && area.left == self.area.left + self.margins.left {
                let top = area.top - self.margins.axis - room;
                canvas.text_right(self.area.left, top, self.margins.left - 1, &text);
            } else if !self.down {
                // In the row of the time labels, below the bars.
                canvas.text_right(area.left + area.columns, area.top + area.rows + self.margins.band, room, &text);
            }
        }
    }

    /// The rate of all groups over time.
    pub fn draw_rates(&self, canvas: &mut Canvas) {
        let room = if self.down { self.margins.right } else { self.margins.band };
        let Some(area) = self.strips.last().map(|strip| strip.1).filter(|_| room > 0 && self.screen.look.rates) else {
            return;
        };
        let per_second = 1e9 / self.times.cell_ns() as f64;
        let rates: Vec<f64> =
            self.whole.chunks(self.times.each).map(|cell| cell.iter().sum::<f64>() * per_second).collect();
        let most = rates.iter().fold(0.0, |most: f64, &rate| most.max(rate));
        let full = Strength::round_full(most, self.strength.weight);
        let right = self.area.left + self.area.columns - room.min(self.area.columns);
        let bottom = area.top + area.rows + room - 1;
        for (at, rate) in rates.iter().enumerate() {
            if self.down {
                self.bar_right(canvas, (right + 1, area.top + at), RIGHT - 1, rate / full);
            } else {
                self.bar_up(canvas, (area.left + at, bottom), room, rate / full);
            }
        }
        let bound = if self.unicode() { "≤" } else { "<=" };
        let label = format!("{bound}{}", self.strength.label(full));
        if self.down && self.margins.axis > 0 {
            canvas.text(right + 1, area.top - 1, room - 1, "rate");
            canvas.text_right(right + 1, area.top - 1, room - 1, &label);
        } else if !self.down && self.margins.left > 0 {
            canvas.text_right(self.area.left, bottom + 1 - room, self.margins.left - 1, &label);
        }
    }

    /// A bar from this cell upwards.
    fn bar_up(&self, canvas: &mut Canvas, (column, bottom): (usize, usize), rows: usize, part: f64) {
        let eighths = eighths(part, rows);
        for row in 0..rows {
            let here = eighths.saturating_sub(8 * row).min(8);
            let ascii = if here >= 4 { '#' } else { '.' };
            let symbol = if self.unicode() || here == 0 { BARS_UP[here] } else { ascii };
            canvas.put(column, bottom.saturating_sub(row), Cell { foreground: self.faint(), ..Cell::plain(symbol) });
        }
    }

    fn bar_right(&self, canvas: &mut Canvas, (left, row): (usize, usize), columns: usize, part: f64) {
        let eighths = eighths(part, columns);
        for column in 0..columns {
            let here = eighths.saturating_sub(8 * column).min(8);
            let symbol = if self.unicode() || here == 0 { BARS_RIGHT[here] } else { '#' };
            canvas.put(left + column, row, Cell { foreground: self.faint(), ..Cell::plain(symbol) });
        }
    }

    /// Legend and notes.
    pub fn draw_foot(&self, canvas: &mut Canvas) {
        let Area { left, columns, .. } = self.area;
        let mut row = self.area.top + self.area.rows - self.margins.legend - self.margins.note;
        if self.margins.legend > 0 {
            let key = self.key();
            let room = columns.saturating_sub(if key.is_empty() { 0 } else { Line::new(&key).width() + 2 });
            let line = self.strength.legend_line(if room >= 24 { room } else { columns });
            canvas.line(left, row, columns, &line);
            if line.width() <= room {
                canvas.text_right(left, row, columns, &key);
            }
            row += 1;
        }
        if self.margins.note > 0 {
            let notes = self.screen.look.options.wording.lines(self.screen.context);
            let more = if notes.len() > 1 { format!(" (+{} more)", notes.len() - 1) } else { String::new() };
            canvas.text(left, row, columns.saturating_sub(more.len()), &notes[0].text);
            let end = Line::new(&notes[0].text).width().min(columns.saturating_sub(more.len()));
            canvas.text(left + end, row, columns, &more);
        }
    }

    /// What the signs on the map mean.
    fn key(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.screen.look.percentiles {
            parts.extend(self.percentiles().map(|percentile| format!("{} {}", percentile.symbol, percentile.name)));
        }
        if self.waiting().next().is_some() {
            parts.push(format!("{} in flight, at least", self.waits()));
        }
        if (0..self.times.cells).any(|at| self.has_losses(at)) {
            parts.push("! records lost".into());
        }
        if self.is_incomplete() && self.area.columns >= 60 {
            parts.push(format!("{} incomplete", if self.unicode() { '…' } else { '~' }));
        }
        parts.join("  ")
    }
}

/// The length of a bar; whatever is not nothing is seen.
fn eighths(part: f64, cells: usize) -> usize {
    let full = cells * 8;
    if part > 0.0 { ((part * full as f64).round() as usize).clamp(1, full) } else { 0 }
}
