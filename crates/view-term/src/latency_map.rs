//! PyLatencyMap's picture: how often and how long, as two maps over the same time, newest at the right.
//!
//! Time is added up exactly; the original estimates it from the buckets.

use crate::caption::{self, Moments};
use crate::rungs::Rungs;
use crate::scale::Strength;
use crate::spectrogram::SpectrogramOptions;
use crate::{Cell, Line};
use latscope_event::{Context, format_duration, format_rate};
use latscope_histogram::{Histogram, Rule};
use latscope_series::{HistogramSeries, Weight};
use latscope_view::{Palette, Scale};

/// Rows of the original; values beyond the lowest and the highest are counted in them.
const ROWS: usize = 12;
/// Columns of the original.
const COLUMNS: usize = 90;
const LEFT: usize = 8;
const RIGHT: usize = 10;
const LEGEND: usize = 13;

/// The frequency map (events a second) and the intensity map (time waited a second) of a series built with
/// [`Weight::Time`]; of any other series the frequency map alone. Takes width, colours, `min`, `max`, `full` (of the
/// frequency map), `time` and `group` from the options.
pub fn latency_maps(
    series: &HistogramSeries,
    context: &Context,
    filter: &str,
    options: &SpectrogramOptions,
) -> Vec<Line> {
    let total = series.total(options.group);
    let totals = total.totals();
    let start_ns = series.range().map_or(0, |(first, _)| series.start_ns(first));
    let mut what = format!(
        "{}, {}",
        series.quantity.word(),
        caption::extent(totals.count, series.width_ns(), start_ns, &context.clock)
    );
    let Some((first, last)) = series.range().filter(|_| totals.count > 0) else {
        let mut lines = caption::head(&what, context, filter, options.columns);
        lines.extend(caption::foot(context, options.wording, options.columns));
        return lines;
    };
    let maps = Maps::new(series, options, (first, last), &total);
    what += &format!(", a column is {}", format_duration(maps.width_ns));
    let mut lines = caption::head(&what, context, filter, options.columns);
    let axis_start_ns = context.axis_start_ns(Some(start_ns), series.width_ns());
    let span_ns = series.start_ns(last).abs_diff(axis_start_ns);
    let moments = Moments::new(options.time, &context.clock, axis_start_ns, maps.width_ns, span_ns);
    lines.extend(maps.map(Weight::Count, options));
    lines.push(maps.times(&moments, start_ns));
    if series.weight == Weight::Time {
        lines.push(Line::default());
        lines.extend(maps.map(Weight::Time, options));
        lines.push(maps.times(&moments, start_ns));
    }
    lines.push(Line::default());
    lines.extend(crate::cell::wrap(&maps.averages(), options.columns));
    let note = caption::incomplete(context, series.start_ns(last), series.width_ns());
    lines.extend(note.iter().flat_map(|note| crate::cell::wrap(note, options.columns)));
    lines.extend(caption::foot(context, options.wording, options.columns));
    lines.iter_mut().for_each(|line| {
        line.truncate(options.columns, false);
    });
    lines
}

struct Maps {
    rungs: Rungs,
    /// Lowest and highest row of the rungs that is drawn.
    rows: (usize, usize),
    /// Whether values below or above are counted in them.
    folded: (bool, bool),
    width_ns: u64,
    columns: Vec<Column>,
    right: usize,
    legend: bool,
}

/// Per row: events and time per second.
#[derive(Clone, Default)]
struct Column {
    counts: Vec<f64>,
    times: Vec<f64>,
    latency: (u128, u64),
}

impl Maps {
    fn new(
        series: &HistogramSeries,
        options: &SpectrogramOptions,
        (first, last): (i64, i64),
        total: &Histogram,
    ) -> Maps {
        let legend = options.columns >= LEFT + RIGHT + LEGEND + 20;
        let right = if options.columns >= LEFT + RIGHT + 10 { RIGHT } else { 0 };
        let rest = LEFT + right + if legend { LEGEND } else { 0 };
        let width = options.columns.saturating_sub(rest).clamp(1, COLUMNS);

        let (least, most) = (total.totals().min, total.totals().max);
        let median = total.quantiles(&[0.5], Rule::Interpolated).map_or(0, |values| values[0]);
        let rungs = Rungs::new(series.grid(), series.quantity, median, 1);
        let high = rungs.row(options.max.unwrap_or(most)).max(1);
        let low = match options.min {
            Some(min) => rungs.row(min).min(high),
            None => rungs.row(least).max((high + 1).saturating_sub(ROWS)).min(high),
        };
        let folded = (rungs.row(least) < low, rungs.row(most) > high);

        let in_all = last.abs_diff(first).saturating_add(1);
        let each = in_all.div_ceil(width as u64);
        let at = |interval: i64| (interval.abs_diff(first) / each) as usize;
        let mut columns = vec![Column::default(); at(last) + 1];
        let mut sum = Histogram::new(series.grid(), series.is_weighted());
        let mut intervals = series.slices().keys().copied().peekable();
        while let Some(interval) = intervals.next() {
            series.add_at(&mut sum, interval, options.group);
            if intervals.peek().is_none_or(|&next| at(next) != at(interval)) {
                // The last column may hold fewer intervals.
                let long = each.min(in_all - at(interval) as u64 * each);
                let per_second = 1e9 / (series.width_ns() as f64 * long as f64);
                columns[at(interval)] = Column::new(&sum, &rungs, (low, high), per_second);
                sum.clear();
            }
        }
        let width_ns = series.width_ns().saturating_mul(each);
        Maps { rungs, rows: (low, high), folded, width_ns, columns, right, legend }
    }

    fn map(&self, weight: Weight, options: &SpectrogramOptions) -> Vec<Line> {
        let (low, high) = self.rows;
        let value = |column: &Column, row: usize| column.value(weight, row - low);
        let most = self.columns.iter().flat_map(|column| column.values(weight)).fold(0.0, |a: f64, &b| a.max(b));
        let full = options.full.filter(|_| weight == Weight::Count).unwrap_or(most);
        let strength = Strength {
            palette: Palette::PyLatencyMap,
            depth: options.depth,
            scale: Scale::Linear,
            weight,
            unicode: options.unicode,
            full: if full > 0.0 { full } else { 1.0 },
        };
        let title = match weight {
            Weight::Count => "Frequency: events per second",
            _ => "Intensity: time waited per second",
        };
        let mut lines = vec![Line::new(&format!("{:LEFT$}{title}", ""))];
        if self.right > 0 {
            lines[0].pad_to(LEFT + self.columns.len() + 1).push("   latest");
        }
        let mut legend = strength.steps().into_iter();
        for row in (low..=high).rev() {
            let sign = match (row == low && self.folded.0, row == high && self.folded.1) {
                (true, _) => "<",
                (_, true) => ">",
                _ => "",
            };
            // As in the original: `<` and `>` stand before the edge beyond which everything is in this row.
            let edge = if sign == "<" { row + 1 } else { row };
            let label = format!("{sign}{}", self.rungs.short_label(edge));
            let mut line = Line::new(&format!("{label:>width$} ", width = LEFT - 1));
            for column in &self.columns {
                line.push_cell(strength.cell(value(column, row)));
            }
            if self.right > 0 {
                let latest = self.columns.last().map_or(0.0, |column| value(column, row));
                let text = if latest > 0.0 { strength.label(latest) } else { "0".into() };
                line.push(&format!("{:.>width$}", format!(" {text}"), width = self.right));
            }
            if self.legend
                && let Some((cell, text)) = legend.next()
            {
                line.push("  ").push_cell(cell).push_cell(Cell::BLANK).push(&text);
            }
            lines.push(line);
        }
        let total = |column: &Column| column.values(weight).iter().sum::<f64>();
        let latest = self.columns.last().map_or(0.0, total);
        let highest = self.columns.iter().map(total).fold(0.0, f64::max);
        lines.push(Line::new(&format!(
            "{:LEFT$}strongest cell {}, sum of the latest column {}, highest sum {}",
            "",
            strength.label(most),
            strength.label(latest),
            strength.label(highest)
        )));
        lines
    }

    fn times(&self, moments: &Moments, start_ns: i64) -> Line {
        let at = |column: usize| {
            moments.label(start_ns.saturating_add_unsigned((column as u64).saturating_mul(self.width_ns)))
        };
        let mut line = Line::default();
        line.pad_to(LEFT).push("|").push(&at(0));
        let last = self.columns.len() - 1;
        let label = at(last);
        if LEFT + last > line.width() + label.len() + 1 {
            line.pad_to(LEFT + last - label.len()).push(&label).push("|");
        }
        line
    }

    fn averages(&self) -> String {
        let mean = |columns: &[Column]| {
            let (sum, count) =
                columns.iter().fold((0, 0), |(sum, count), column| (sum + column.latency.0, count + column.latency.1));
            if count == 0 { "-".into() } else { format_duration((sum / u128::from(count)) as u64) }
        };
        let latest = &self.columns[self.columns.len() - 1..];
        let rate: f64 = latest.iter().flat_map(|column| &column.counts).sum();
        format!("average {}, of the latest column {} at {}", mean(&self.columns), mean(latest), format_rate(rate))
    }
}

impl Column {
    fn new(sum: &Histogram, rungs: &Rungs, (low, high): (usize, usize), per_second: f64) -> Column {
        let mut column = Column {
            counts: vec![0.0; high - low + 1],
            times: vec![0.0; high - low + 1],
            latency: (sum.totals().sum, sum.totals().count),
        };
        for (bucket, count, weight) in sum.buckets() {
            let row = rungs.row(sum.grid().lower(bucket)).clamp(low, high) - low;
            column.counts[row] += count as f64 * per_second;
            column.times[row] += weight as f64 * per_second;
        }
        column
    }

    fn values(&self, weight: Weight) -> &[f64] {
        if weight == Weight::Count { &self.counts } else { &self.times }
    }

    fn value(&self, weight: Weight, row: usize) -> f64 {
        self.values(weight).get(row).copied().unwrap_or(0.0)
    }
}
