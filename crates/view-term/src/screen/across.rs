//! Time across: columns are intervals, values go up, two to a row where the palette allows it; strips stand one above
//! the other.

use super::{Canvas, Frame, MapArea, Samples, Strip, marks};
use crate::Line;
use crate::scale::Strength;

/// Columns of the labels of values.
const LABELS: usize = 8;
/// A strip is no lower than this.
const LOWEST: usize = 5;
/// Columns of the distribution.
const BARS: usize = 14;

/// Draws the map; returns where its strips are, and the legend.
pub(super) fn draw(canvas: &mut Canvas, frame: &Frame) -> (Vec<MapArea>, Line) {
    let look = frame.screen.look;
    let left = if canvas.columns >= 40 { LABELS } else { 0 };
    let bars = if look.distribution && canvas.columns >= 60 { BARS } else { 0 };
    let columns = canvas.columns - left - bars;
    let rate_rows = if look.rates && frame.bottom - frame.top >= 14 { 2 } else { 0 };
    // The last row is the axis of time.
    let room = frame.bottom - frame.top - 1 - rate_rows;
    let named = usize::from(!frame.screen.series.by.is_empty());
    let groups = frame.groups(room / (LOWEST + named));
    let each = room / groups.len() - named;

    let halved = frame.options.half_blocks && Samples::new(frame, 1, 1, 1).strength([].iter()).can_halve();
    let fold = if halved { 2 } else { 1 };
    let mut samples = Samples::new(frame, each * fold, columns, 1);
    let (first, last) = samples.range;
    let strips: Vec<Vec<Strip>> =
        groups.iter().map(|&group| (first..=last).map(|interval| samples.strip(interval, group)).collect()).collect();
    let strength = samples.strength(strips.iter().flatten());
    let values: Vec<(u64, u64)> = samples
        .values
        .chunks(fold)
        .rev()
        .map(|cells| {
            (cells.iter().map(|cell| cell.0).min().unwrap_or(0), cells.iter().map(|cell| cell.1).max().unwrap_or(0))
        })
        .collect();
    let times: Vec<(i64, i64)> = (first..=last).map(|interval| samples.time(interval)).collect();
    let mut maps = Vec::new();
    for (at, (&group, strips)) in groups.iter().zip(&strips).enumerate() {
        let top = frame.top + at * (each + named) + named;
        if let Some(group) = group {
            canvas.put(left, top - 1, &frame.name(group, columns));
        }
        labels(canvas, &samples, left, (top, each, fold));
        for row in 0..each {
            canvas.put(left, top + row, &cells(strips, each - 1 - row, fold, &strength, look.percentiles));
        }
        if bars > 0 {
            distribution(canvas, strips, (canvas.columns - bars, top, each), fold, frame.options.unicode);
        }
        let (down, times, values) = (false, times.clone(), values.clone());
        maps.push(MapArea { left, top, columns: times.len(), rows: each, group, down, times, values });
    }
    let all: Vec<f64> = (first..=last).map(|interval| samples.strip(interval, None).rate).collect();
    let most = all.iter().fold(f64::MIN_POSITIVE, |most, &rate| most.max(rate));
    let below = frame.top + groups.len() * (each + named);
    for row in 0..rate_rows {
        let line: String = all
            .iter()
            .map(|rate| marks::bar(rate / most, rate_rows - 1 - row, rate_rows, frame.options.unicode))
            .collect();
        canvas.put(left, below + row, &Line::of(&line));
        let label = if row == 0 { strength.label(most) } else { "rate".into() };
        canvas.put(0, below + row, &Line::of(&format!("{label:>width$}", width = left.saturating_sub(1))));
    }
    canvas.put(left, below + rate_rows, &time_axis(frame, &times, samples.width_ns));
    let legend = strength.legend(canvas.columns).into_iter().next().unwrap_or_default();
    (maps, legend)
}

/// A row of the map, counted from below.
fn cells(strips: &[Strip], row: usize, fold: usize, strength: &Strength, percentiles: bool) -> Line {
    let mut line = Line::default();
    for strip in strips {
        let rate = |half: usize| strip.rates.get(row * fold + half).copied().unwrap_or(0.0);
        let cell = if fold == 2 { strength.halves(rate(1), rate(0)) } else { strength.cell(rate(0)) };
        let symbol = strip.percentiles.filter(|_| percentiles).and_then(|(p50, p99, _)| {
            [(p99, '━'), (p50, '╌')].into_iter().find(|(cell, _)| cell / fold == row).map(|(_, symbol)| symbol)
        });
        line.push_cell(symbol.map_or(cell, |symbol| marks::over(cell, symbol)));
    }
    line
}

fn labels(canvas: &mut Canvas, samples: &Samples, left: usize, (top, rows, fold): (usize, usize, usize)) {
    if left == 0 {
        return;
    }
    for (cell, label) in samples.ticks(|_| fold).into_iter().filter(|(cell, _)| cell / fold < rows) {
        canvas.put(0, top + rows - 1 - cell / fold, &Line::of(&format!("{label:>width$}", width = left - 1)));
    }
}

/// All of the strip as bars beside its rows.
fn distribution(
    canvas: &mut Canvas,
    strips: &[Strip],
    (left, top, rows): (usize, usize, usize),
    fold: usize,
    unicode: bool,
) {
    let sum =
        |row: usize| -> f64 { strips.iter().flat_map(|strip| strip.rates.iter().skip(row * fold).take(fold)).sum() };
    let sums: Vec<f64> = (0..rows).map(sum).collect();
    let most = sums.iter().fold(f64::MIN_POSITIVE, |most, &sum| most.max(sum));
    for (row, sum) in sums.iter().enumerate() {
        let length = ((sum / most) * (BARS - 2) as f64).ceil() as usize;
        let bar = if unicode { "▇" } else { "#" }.repeat(length);
        canvas.put(left + 1, top + rows - 1 - row, &Line::of(&bar));
    }
}

fn time_axis(frame: &Frame, times: &[(i64, i64)], width_ns: u64) -> Line {
    let moments = frame.moments(width_ns);
    let room = frame.label_width(&moments) + 3;
    let step = [10, 20, 25, 50, 100].into_iter().find(|&step| step >= room).unwrap_or(200) as i64;
    let mut line = Line::default();
    for (column, &(from, _)) in times.iter().enumerate() {
        // At whole multiples, so that the labels move with the map.
        if from.div_euclid(width_ns as i64).rem_euclid(step) == 0 {
            line.pad_to(column).push("|").push(&moments.label(from));
        }
    }
    if line.width() == 0
        && let Some(&(from, _)) = times.first()
    {
        line.push("|").push(&moments.label(from));
    }
    line
}
