//! Time across: a column is an interval, or as many of them as make the trace fit; values go up.

use super::source::{Sample, Source};
use super::{SpectrogramOptions, foot};
use crate::caption::{self, Moments};
use crate::scale::Strength;
use crate::{Cell, Line};
use latscope_event::{Context, format_duration};
use latscope_series::HistogramSeries;

/// Columns of the labels of the values.
const LEFT: usize = 8;

pub(crate) fn lines(
    series: &HistogramSeries,
    what: &str,
    context: &Context,
    filter: &str,
    options: &SpectrogramOptions,
) -> Vec<Line> {
    let left = if options.columns >= 2 * LEFT { LEFT } else { 0 };
    let map = options.columns.saturating_sub(left).max(1);
    // Tentatively, to learn whether the palette allows two rows of values to a row of text.
    let rows = options.rows.clamp(1, 1000);
    let mut source = Source::of_series(series, options, rows);
    let halved = options.halved(&source.strength);
    if halved {
        source = Source::of_series(series, options, 2 * rows);
    }
    let Some((first, last)) = source.range() else {
        let what = format!("{what}, {}", caption::extent(0, source.width_ns, 0, &context.clock));
        let mut lines = caption::head(&what, context, filter, options.columns);
        lines.extend(caption::foot(context, options.wording, options.columns));
        return lines;
    };
    let columns = Columns::new(&source, first, last, map);
    if options.full.is_none() {
        source.strength.full = Strength::round_full(columns.most(), series.weight);
    }
    let start_ns = source.start_ns(first);
    let width_ns = source.width_ns.saturating_mul(columns.intervals);
    let mut what = format!("{what}, {}", caption::extent(source.count, source.width_ns, start_ns, &context.clock));
    what += &format!(", a column is {}", format_duration(width_ns));
    let mut lines = caption::head(&what, context, filter, options.columns);
    lines.extend(columns.rows(&source, rows, halved, left, options));
    let axis_start_ns = context.axis_start_ns(Some(start_ns), source.width_ns);
    let span_ns = source.start_ns(last).abs_diff(axis_start_ns);
    let moments = Moments::new(options.time, &context.clock, axis_start_ns, width_ns, span_ns);
    lines.push(time_axis(&moments, start_ns, width_ns, columns.samples.len(), left, options.columns));
    lines.extend(foot(&source, context, options));
    lines
}

/// The map, column by column.
struct Columns {
    /// How many intervals make a column.
    intervals: u64,
    samples: Vec<Sample>,
}

impl Columns {
    fn new(source: &Source<'_>, first: i64, last: i64, map: usize) -> Columns {
        let in_all = last.abs_diff(first).saturating_add(1);
        let intervals = in_all.div_ceil(map as u64);
        let column = |interval: i64| (interval.abs_diff(first) / intervals) as usize;
        let mut samples = vec![Sample::default(); column(last) + 1];
        let mut sum = source.empty();
        let mut members: Vec<i64> = Vec::new();
        let mut finish = |members: &mut Vec<i64>, at: usize| {
            source.collect(&mut sum, members);
            // The last column may hold fewer intervals.
            let long = intervals.min(in_all - at as u64 * intervals);
            samples[at] = source.sample(&sum, long as usize);
            members.clear();
        };
        for interval in source.intervals() {
            if let Some(&one) = members.first()
                && column(one) != column(interval)
            {
                finish(&mut members, column(one));
            }
            members.push(interval);
        }
        if let Some(&one) = members.first() {
            finish(&mut members, column(one));
        }
        Columns { intervals, samples }
    }

    fn most(&self) -> f64 {
        let rates =
            |sample: &Sample| sample.rates.iter().fold(sample.under.max(sample.over), |most, &rate| most.max(rate));
        self.samples.iter().map(rates).fold(0.0, f64::max)
    }

    /// Rows of text from the highest values to the lowest.
    fn rows(
        &self,
        source: &Source<'_>,
        rows: usize,
        halved: bool,
        left: usize,
        options: &SpectrogramOptions,
    ) -> Vec<Line> {
        let each = if halved { 2 } else { 1 };
        let ticks = source.ticks(|_| each);
        let rate = |sample: &Sample, row: usize| sample.rates.get(row).copied().unwrap_or(0.0);
        let line = |label: &str, cell: &dyn Fn(&Sample) -> Cell| {
            let mut line = Line::default();
            if left > 0 {
                line.push(&format!("{label:>width$}", width = left - 1)).truncate(left - 1, false).pad_to(left);
            }
            self.samples.iter().for_each(|sample| {
                line.push_cell(cell(sample));
            });
            line
        };
        let mut lines = Vec::new();
        if options.max.is_some() {
            lines.push(line(">", &|sample| source.strength.cell(sample.over)));
        }
        for row in (0..rows).rev() {
            let bottom = row * each;
            let label =
                ticks.iter().find(|(at, _)| (bottom..bottom + each).contains(at)).map_or("", |(_, label)| label);
            lines.push(line(label, &|sample| match halved {
                true => source.strength.halves(rate(sample, bottom + 1), rate(sample, bottom)),
                false => source.strength.cell(rate(sample, bottom)),
            }));
        }
        if options.min.is_some() {
            lines.push(line("<", &|sample| source.strength.cell(sample.under)));
        }
        lines
    }
}

/// Moments below the map, as many as there is room for.
fn time_axis(moments: &Moments, start_ns: i64, width_ns: u64, columns: usize, left: usize, limit: usize) -> Line {
    let label = |column: usize| {
        let ns = (column as u64).saturating_mul(width_ns);
        moments.label(start_ns.saturating_add_unsigned(ns))
    };
    let room = label(columns - 1).len() + 3;
    let step = [5, 10, 20, 25, 50, 100, 200, 500].into_iter().find(|&step| step >= room).unwrap_or(1000);
    let mut line = Line::default();
    line.pad_to(left);
    for column in (0..columns).step_by(step) {
        line.pad_to(left + column);
        line.push("|").push(&label(column));
    }
    line.truncate(limit, false);
    line
}
