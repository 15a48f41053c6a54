//! Time down: rows are intervals, two to a row where the palette allows it; strips stand side by side.

use super::{Canvas, Frame, MapArea, Samples, Strip, marks};
use crate::Line;
use crate::scale::Strength;
use latscope_event::{format_duration, format_size};

/// A strip is no narrower than this.
const NARROWEST: usize = 22;
/// Columns of rate and percentile.
const RATES: usize = 18;
/// Rows of the distribution.
const BARS: usize = 4;

/// Draws the map; returns where its strips are, and the legend.
pub(super) fn draw(canvas: &mut Canvas, frame: &Frame) -> (Vec<MapArea>, Line) {
    let look = frame.screen.look;
    let width_ns = frame.screen.series.width_ns().saturating_mul(u64::from(look.merge));
    let moments = frame.moments(width_ns);
    let label = frame.label_width(&moments) + 1;
    let label = if canvas.columns >= label + 30 { label } else { 0 };
    let right = if look.rates && canvas.columns >= label + 30 + RATES { RATES } else { 0 };
    let room = canvas.columns - label - right;
    let groups = frame.groups((room + 1) / (NARROWEST + 1));
    let each = (room + 1) / groups.len() - 1;
    let named = usize::from(groups[0].is_some());
    let bars = if look.distribution && frame.bottom - frame.top >= 16 { BARS } else { 0 };
    let (top, rows) = (frame.top + 1 + named, frame.bottom - frame.top - 1 - named - bars);

    let halved = frame.options.half_blocks && Samples::new(frame, 1, 1, 1).strength([].iter()).can_halve();
    let align = if halved { 2 } else { 1 };
    let mut samples = Samples::new(frame, each, rows * align as usize, align);
    let (first, last) = samples.range;
    let strips: Vec<Vec<Strip>> =
        groups.iter().map(|&group| (first..=last).map(|interval| samples.strip(interval, group)).collect()).collect();
    let strength = samples.strength(strips.iter().flatten());
    let shown = strips[0].len() / align as usize;
    let mut maps = Vec::new();
    for (at, (group, strips)) in groups.iter().zip(&strips).enumerate() {
        let left = label + at * (each + 1);
        if let Some(group) = group {
            canvas.put(left, frame.top, &frame.name(*group, each));
        }
        canvas.put(left, frame.top + named, &axis(&samples, each));
        for (row, pair) in strips.chunks(align as usize).enumerate() {
            let line = cells(pair, halved, &strength, look.percentiles);
            canvas.put(left, top + row, &line);
        }
        if bars > 0 {
            distribution(canvas, strips, (left, top + rows), frame.options.unicode);
        }
        let times = (0..shown).map(|row| {
            let from = first + row as i64 * align;
            (samples.time(from).0, samples.time(from + align - 1).1)
        });
        maps.push(MapArea {
            left,
            top,
            columns: each,
            rows: shown,
            group: *group,
            down: true,
            times: times.collect(),
            values: samples.values.clone(),
        });
    }
    for (row, &(from, _)) in maps[0].times.iter().enumerate().filter(|_| label > 0) {
        canvas.put(0, top + row, &Line::of(&format!("{:>width$}", moments.label(from), width = label - 1)));
    }
    if right > 0 {
        rates(canvas, frame, &mut samples, &strength, (top, align));
    }
    let legend = strength.legend(canvas.columns).into_iter().next().unwrap_or_default();
    (maps, legend)
}

/// A row of the map: an interval, or two.
fn cells(pair: &[Strip], halved: bool, strength: &Strength, percentiles: bool) -> Line {
    let mut line = Line::default();
    for cell in 0..pair[0].rates.len() {
        let rate = |strip: usize| pair.get(strip).map_or(0.0, |strip| strip.rates[cell]);
        line.push_cell(if halved { strength.halves(rate(0), rate(1)) } else { strength.cell(rate(0)) });
    }
    if percentiles {
        for (p50, p99, _) in pair.iter().filter_map(|strip| strip.percentiles) {
            for (cell, symbol) in [(p50, '┊'), (p99, '┃')] {
                line.cells[cell] = marks::over(line.cells[cell], symbol);
            }
        }
    }
    line
}

fn axis(samples: &Samples, columns: usize) -> Line {
    let mut line = Line::default();
    for (cell, label) in samples.ticks(|label| label.len() + 2) {
        line.truncate(cell, false).pad_to(cell);
        match label.as_str() {
            "<" | ">" => line.push(&label),
            _ if cell + 1 + label.len() <= columns => line.push("|").push(&label),
            _ => line.push("|"),
        };
    }
    line
}

/// All of the strip as bars under its cells.
fn distribution(canvas: &mut Canvas, strips: &[Strip], (left, top): (usize, usize), unicode: bool) {
    let cells = strips[0].rates.len();
    let sums: Vec<f64> = (0..cells).map(|cell| strips.iter().map(|strip| strip.rates[cell]).sum()).collect();
    let most = sums.iter().fold(f64::MIN_POSITIVE, |most, &sum| most.max(sum));
    for row in 0..BARS {
        let bars: String = sums.iter().map(|sum| marks::bar(sum / most, BARS - 1 - row, BARS, unicode)).collect();
        canvas.put(left, top + row, &Line::of(&bars));
    }
}

/// Rate and 99th percentile of every row.
fn rates(canvas: &mut Canvas, frame: &Frame, samples: &mut Samples, strength: &Strength, (top, align): (usize, i64)) {
    let column = canvas.columns - RATES;
    canvas.put(column, top - 1, &Line::of(&format!("{:>10}{:>8}", "rate", "p99")));
    let (first, last) = samples.range;
    let is_bytes = frame.screen.series.quantity.is_bytes();
    for (row, interval) in (first..=last).step_by(align as usize).enumerate() {
        let both: Vec<Strip> = (interval..interval + align).map(|interval| samples.strip(interval, None)).collect();
        let rate = both.iter().map(|strip| strip.rate).sum::<f64>() / align as f64;
        // The worse of the two; a percentile of both would need a histogram of both, and hide the worse one.
        let Some(p99) = both.iter().filter_map(|strip| strip.percentiles).map(|(_, _, p99)| p99).max() else {
            continue;
        };
        let p99 = if is_bytes { format_size(p99) } else { format_duration(p99) };
        canvas.put(column, top + row, &Line::of(&format!("{:>10}{p99:>8}", strength.label(rate))));
    }
}
