//! Time down: an interval is a row, or half of one.

use super::source::{Sample, Source};
use super::{SpectrogramOptions, foot};
use crate::caption::{self, Moments};
use crate::{Cell, Line, TimeLabels};
use latscope_event::{Context, format_count, format_duration};
use latscope_histogram::Histogram;
use latscope_series::HistogramSeries;

/// The axis is repeated after so many rows of text.
pub(super) const AXIS_EVERY: usize = 40;
/// More empty intervals in a row than this are one line that says so.
pub(super) const GAP: u64 = 200;
/// After so many empty rows in all every longer gap is one line, so that scattered times do not make endless output.
const EMPTY_ROWS: u64 = 20_000;

/// Where the parts of a line stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Columns of the time labels with the blank after them.
    left: usize,
    under: usize,
    /// Columns of the map.
    pub map: usize,
    over: usize,
    /// Columns of rate and percentile.
    right: usize,
    /// Columns of what waits.
    waiting: usize,
}

/// Columns of the number of requests that wait and of the age of the oldest.
const WAITING: usize = 17;

impl Layout {
    /// For time labels of this width.
    pub(crate) fn new(options: &SpectrogramOptions, label: usize) -> Layout {
        let columns = options.columns.max(1);
        let labelled = options.time != TimeLabels::None;
        let left = if labelled && columns >= label + 30 { label + 1 } else { 0 };
        let right = if labelled && columns >= 60 { 19 } else { 0 };
        let waiting = if options.waiting && right > 0 && columns >= 80 { WAITING } else { 0 };
        let (under, over) = (usize::from(options.min.is_some()), usize::from(options.max.is_some()));
        let rest = left + under + over + right + waiting;
        if columns <= rest {
            return Layout { left: 0, under: 0, map: columns, over: 0, right: 0, waiting: 0 };
        }
        Layout { left, under, map: columns - rest, over, right, waiting }
    }

    /// Marks a row between its time and the map.
    pub(crate) fn mark(&self, line: &mut Line) {
        if let Some(cell) = self.left.checked_sub(1).and_then(|at| line.cells.get_mut(at)) {
            cell.symbol = '/';
        }
    }

    pub(crate) fn with_map(self, map: usize) -> Layout {
        Layout { map, ..self }
    }
}

/// Columns that the time labels need: the last one is the longest.
pub(crate) fn label_width(series: &HistogramSeries, context: &Context, options: &SpectrogramOptions) -> usize {
    let (first, last) = series.range().unwrap_or((0, 0));
    let (first, last) = (series.start_ns(first), series.start_ns(last));
    let axis_start_ns = context.axis_start_ns(Some(first), series.width_ns());
    let moments =
        Moments::new(options.time, &context.clock, axis_start_ns, series.width_ns(), last.abs_diff(axis_start_ns));
    moments.label(last).len().max(4)
}

/// What comes next from top to bottom.
enum Step {
    Interval(i64),
    Gap { count: u64 },
}

/// All intervals from the first to the last, with the empty ones between.
fn steps<'a>(intervals: impl Iterator<Item = i64> + 'a) -> impl Iterator<Item = Step> + 'a {
    let (mut before, mut budget) = (None::<i64>, EMPTY_ROWS);
    intervals.flat_map(move |interval| {
        let gap = before.map_or(0, |before| interval.abs_diff(before) - 1);
        before = Some(interval);
        let drawn = if gap <= GAP.min(budget) { gap } else { 0 };
        budget -= drawn;
        let hidden = (gap > drawn).then_some(Step::Gap { count: gap - drawn });
        let first = interval - drawn as i64;
        hidden.into_iter().chain((first..=interval).map(Step::Interval))
    })
}

pub(crate) fn lines<'a>(
    source: Source<'a>,
    layout: Layout,
    what: &str,
    context: &'a Context,
    filter: &str,
    options: &SpectrogramOptions,
) -> impl Iterator<Item = Line> + use<'a> {
    let range = source.range();
    let (first, last) = range.unwrap_or((0, 0));
    let start_ns = source.start_ns(first);
    let what = format!("{what}, {}", caption::extent(source.count, source.width_ns, start_ns, &context.clock));
    let head = caption::head(&what, context, filter, options.columns);
    let axis_start_ns = context.axis_start_ns(range.map(|_| start_ns), source.width_ns);
    let span_ns = source.start_ns(last).abs_diff(axis_start_ns);
    let painter = Painter {
        moments: Moments::new(options.time, &context.clock, axis_start_ns, source.width_ns, span_ns),
        halved: options.halved(&source.strength),
        sum: source.empty(),
        name: String::new(),
        layout,
        options: options.clone(),
        source,
    };
    head.into_iter().chain(painter.rows(context))
}

pub(super) struct Painter<'a> {
    pub source: Source<'a>,
    /// What stands between time and map.
    pub name: String,
    pub layout: Layout,
    pub options: SpectrogramOptions,
    pub moments: Moments,
    /// Two intervals to a row.
    pub halved: bool,
    /// To collect in.
    pub sum: Histogram,
}

impl<'a> Painter<'a> {
    fn rows(mut self, context: &'a Context) -> impl Iterator<Item = Line> + use<'a> {
        let mut steps = steps(self.source.intervals()).peekable();
        let (mut since_axis, mut done, mut has_few) = (AXIS_EVERY, false, false);
        let mut pending: Vec<Line> = Vec::new();
        std::iter::from_fn(move || {
            loop {
                // Lines wait in reverse order.
                if let Some(line) = pending.pop() {
                    return Some(line);
                }
                if done {
                    return None;
                }
                match steps.next() {
                    Some(Step::Interval(interval)) => {
                        let mut pair = vec![interval];
                        if self.halved
                            && let Some(&Step::Interval(next)) = steps.peek()
                        {
                            steps.next();
                            pair.push(next);
                        }
                        let row = self.row(&pair);
                        has_few |= self.layout.right > 0 && row.cells.iter().any(|cell| cell.symbol == '?');
                        pending.push(row);
                        if since_axis >= AXIS_EVERY {
                            since_axis = 0;
                            pending.push(self.axis());
                        }
                        since_axis += 1;
                    }
                    Some(Step::Gap { count }) => pending.push(self.gap(count)),
                    None => {
                        done = true;
                        let key = has_few.then_some("? fewer than ten events beyond p99").into_iter();
                        pending = key.flat_map(|key| crate::cell::wrap(key, self.options.columns)).collect();
                        pending.extend(foot(&self.source, context, &self.options));
                        if self.source.range().is_some() {
                            pending.insert(0, self.axis());
                        }
                        pending.reverse();
                    }
                }
            }
        })
    }

    /// A row of text that shows one interval or two.
    pub fn row(&mut self, intervals: &[i64]) -> Line {
        let samples: Vec<Sample> = intervals.iter().map(|&interval| self.source.row(&mut self.sum, interval)).collect();
        let label = self.moments.label(self.source.start_ns(intervals[0]));
        let mut line = self.left(&format!("{label}{}", self.name));
        if self.layout.under > 0 {
            line.push_cell(self.cell(&samples, |sample| sample.under));
        }
        for column in 0..self.layout.map {
            line.push_cell(self.cell(&samples, |sample| sample.rates.get(column).copied().unwrap_or(0.0)));
        }
        if self.layout.over > 0 {
            line.push_cell(self.cell(&samples, |sample| sample.over));
        }
        let waiting = intervals.last().and_then(|&interval| self.source.waiting(interval));
        if let (Some((_, oldest_ns)), true) = (waiting, self.options.waiting) {
            self.mark(&mut line, oldest_ns);
        }
        if self.layout.right > 0 {
            line.push(&self.source.side(&mut self.sum, intervals, &samples));
        }
        if let (Some((count, oldest_ns)), 1..) = (waiting, self.layout.waiting) {
            line.pad_to(self.options.columns - WAITING);
            line.push(&format!("{:>8} {:>8}", format_count(count), format_duration(oldest_ns)));
        }
        line.truncate(self.options.columns, false);
        line
    }

    /// A sign where the request is by now that has waited longest: it will end there or further to the right.
    fn mark(&self, line: &mut Line, oldest_ns: u64) {
        let from = self.layout.left + self.layout.under;
        let column = match self.source.column(oldest_ns) {
            Some(column) => from + column,
            None if self.layout.over > 0 && self.source.is_above(oldest_ns) => from + self.layout.map,
            None => return,
        };
        if let Some(cell) = line.cells.get_mut(column) {
            cell.symbol = if self.options.unicode { '»' } else { '>' };
            cell.foreground = crate::Color::Default;
        }
    }

    fn cell(&self, samples: &[Sample], rate: impl Fn(&Sample) -> f64) -> Cell {
        match samples {
            [one] if !self.halved => self.source.strength.cell(rate(one)),
            [one] => self.source.strength.halves(rate(one), 0.0),
            [upper, lower, ..] => self.source.strength.halves(rate(upper), rate(lower)),
            [] => Cell::BLANK,
        }
    }

    fn left(&self, label: &str) -> Line {
        let mut line = Line::default();
        if self.layout.left > 0 {
            line.push(&format!("{label:>width$} ", width = self.layout.left - 1));
        }
        line
    }

    /// Instead of the rows of so many intervals without events.
    pub fn gap(&self, count: u64) -> Line {
        let length = format_duration(count.saturating_mul(self.source.width_ns));
        self.note(&format!("{length} without events, {} intervals", format_count(count)))
    }

    /// Words instead of rows.
    pub fn note(&self, text: &str) -> Line {
        let mut line = self.left(if self.options.unicode { "…" } else { "..." });
        line.push(text);
        line.truncate(self.options.columns, false);
        line
    }

    /// The axis of the values.
    pub fn axis(&self) -> Line {
        let mut line = self.left("");
        if self.layout.under > 0 {
            line.push("<");
        }
        let from = line.width();
        let end = from + self.layout.map;
        for (column, label) in self.source.ticks(|label| label.len() + 2) {
            if line.width() > from + column {
                line.truncate(from + column, false);
            }
            line.pad_to(from + column);
            line.push("|").push(if from + column + 1 + label.len() <= end { &label } else { "" });
        }
        line.pad_to(end);
        if self.layout.over > 0 {
            line.push(">");
        }
        if self.layout.right > 0 {
            line.push(&self.source.side_heading());
        }
        if self.layout.waiting > 0 {
            line.pad_to(self.options.columns - WAITING);
            line.push(&format!("{:>8} {:>8}", "waiting", "oldest"));
        }
        line.truncate(self.options.columns, false);
        line
    }
}
