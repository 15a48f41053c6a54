//! The cells of a heat map: a series projected onto columns and rows, panel by panel, without losing a count.

use crate::axis::{Place, ValueAxis};
use crate::frame::Columns;
use latscope_histogram::{Histogram, Rule, Totals};
use latscope_series::{HistogramSeries, Slice, Support, Waiting, Weight};
use std::ops::Range;
use std::rc::Rc;

/// What fell into one column and row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub column: u32,
    pub place: Place,
    pub count: u64,
    /// Sum of the weights; the count itself where events are counted.
    pub weight: u64,
}

/// What is reported about one or a few neighbouring columns together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stretch {
    pub columns: Range<u32>,
    pub totals: Totals,
    pub weight: u64,
    /// p50 and p99 as they are written, with their marks; nothing where no event gives them.
    pub percentiles: Vec<Percentile>,
    /// The oldest that waits at its end, nanoseconds.
    pub oldest_ns: Option<u64>,
}

/// A percentile and what is to be thought of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Percentile {
    pub value: u64,
    /// Whether fewer than ten events lie beyond it.
    pub is_few: bool,
    /// Whether it is a lower bound, raised by what waits.
    pub at_least: bool,
}

/// The asked percentiles of a stretch of columns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Percentiles {
    pub columns: Range<u32>,
    pub values: Vec<Percentile>,
}

/// What is asked of a series beside its cells.
pub(crate) struct Asked<'a> {
    /// Percentile lines.
    pub quantiles: &'a [f64],
    /// So many columns share a point of the lines.
    pub line_columns: u32,
    /// So many columns share a [`Stretch`].
    pub stretch_columns: u32,
}

/// One heat map of possibly several.
pub(crate) struct Panel {
    /// Name of the group; `None` when there is only one panel, of everything.
    pub name: Option<String>,
    /// Offsets of different devices have nothing to do with each other: there each panel has an axis of its own.
    pub axis: Rc<ValueAxis>,
    pub totals: Totals,
    pub weight: u64,
    pub below: u64,
    pub above: u64,
    /// By column, then from the bottom.
    pub cells: Vec<Cell>,
    /// Percentiles over time, each of a few columns together.
    pub percentiles: Vec<Percentiles>,
    /// How many events each column holds.
    pub counts: Vec<u64>,
    pub stretches: Vec<Stretch>,
    /// What waits when the trace ends.
    pub waiting: Waiting,
}

/// Which groups share a panel.
pub(crate) struct Facets {
    /// Panel number by group number.
    pub panel_of: Vec<usize>,
    pub names: Vec<Option<String>>,
}

impl Facets {
    /// The histogram of all that falls into a panel.
    pub fn total(&self, series: &HistogramSeries, panel: usize) -> Histogram {
        let mut sum = Histogram::new(series.grid(), series.weight != Weight::Count);
        for (group, sparse) in series.slices().values().flat_map(|slice| &slice.groups) {
            if self.panel_of.get(*group as usize) == Some(&panel) {
                sum.add(sparse);
            }
        }
        sum
    }

    /// Whether a group is in a panel.
    pub fn has(&self, panel: usize, group: u32) -> bool {
        self.panel_of.get(group as usize).copied().unwrap_or(0) == panel
    }

    /// One panel of everything.
    pub fn none(series: &HistogramSeries) -> Facets {
        Facets { panel_of: vec![0; series.groups().len().max(1)], names: vec![None] }
    }

    /// A panel for each group, in their order.
    pub fn in_order(series: &HistogramSeries) -> Facets {
        let names = (0..series.groups().len()).map(|group| Some(series.group_name(group as u32))).collect();
        Facets { panel_of: (0..series.groups().len()).collect(), names }
    }

    /// A panel for each of the heaviest groups, one for all others together.
    pub fn by_group(series: &HistogramSeries, limit: usize) -> Facets {
        let mut weights = vec![(0u64, 0u64); series.groups().len()];
        for (group, sparse) in series.slices().values().flat_map(|slice| &slice.groups) {
            let of = &mut weights[*group as usize];
            of.0 = of.0.saturating_add(sparse.buckets().fold(0, |sum, (.., weight)| sum.saturating_add(weight)));
            of.1 += sparse.totals().count;
        }
        // A disk that hangs may have completed nothing.
        for (group, of) in weights.iter_mut().enumerate() {
            of.1 += series.still_waiting(Some(group as u32)).count();
        }
        let mut order: Vec<usize> = (0..weights.len()).filter(|&group| weights[group].1 > 0).collect();
        order.sort_by_key(|&group| std::cmp::Reverse(weights[group]));
        if order.is_empty() {
            return Facets::none(series);
        }
        let shown = if order.len() <= limit { order.len() } else { limit };
        let mut panel_of = vec![shown; weights.len()];
        let mut names = Vec::new();
        for (panel, &group) in order[..shown].iter().enumerate() {
            panel_of[group] = panel;
            names.push(Some(series.group_name(group as u32)));
        }
        if order.len() > shown {
            let others = order.len() - shown;
            names.push(Some(if others == 1 { "1 other".into() } else { format!("{others} others together") }));
        }
        Facets { panel_of, names }
    }
}

/// Projects a series: one panel for each name of the facets, on the axis at the same place.
pub(crate) fn panels(
    series: &HistogramSeries,
    columns: Columns,
    axes: &[Rc<ValueAxis>],
    facets: &Facets,
    asked: &Asked<'_>,
) -> Vec<Panel> {
    let mut makers: Vec<Maker> = {
        let named = facets.names.iter().zip(axes);
        named.map(|(name, axis)| Maker::new(name.clone(), Rc::clone(axis), series, columns)).collect()
    };
    for (&interval, slice) in series.slices() {
        let Some(column) = columns.column_of(interval) else { continue };
        scatter(slice, facets, &mut makers);
        for (panel, maker) in makers.iter_mut().enumerate() {
            maker.waiting = series.waiting_among(interval, |group| facets.has(panel, group));
            maker.end_column(column, asked);
        }
    }
    let finished = makers.into_iter().enumerate().map(|(panel, maker)| {
        let waiting = series.still_waiting_among(|group| facets.has(panel, group));
        Panel { waiting, ..maker.finish(asked) }
    });
    finished.collect()
}

fn scatter(slice: &Slice, facets: &Facets, makers: &mut [Maker]) {
    for (group, sparse) in &slice.groups {
        let panel = facets.panel_of.get(*group as usize).copied().unwrap_or(0);
        if let Some(maker) = makers.get_mut(panel) {
            maker.column.add(sparse);
        }
    }
}

/// A histogram over a few columns that are summed up together.
struct Sum {
    columns: Range<u32>,
    histogram: Histogram,
    /// What waits at the end of the last of them.
    waiting: Waiting,
}

impl Sum {
    /// Percentiles, raised by what waits; empty where there is nothing.
    fn percentiles(&self, quantiles: &[f64], per_event: u64) -> Vec<Percentile> {
        let known = (self.histogram.totals().count + self.waiting.weight()) as f64 / per_event as f64;
        let raised = self.waiting.quantiles(&self.histogram.to_sparse(), quantiles, Rule::Interpolated);
        let percentile = |(raised, &quantile): (latscope_series::Raised<u64>, &f64)| Percentile {
            value: raised.value,
            is_few: Support::new(quantile, known) == Support::Few,
            at_least: raised.at_least,
        };
        raised.unwrap_or_default().into_iter().zip(quantiles).map(percentile).collect()
    }
}

struct Maker {
    panel: Panel,
    column: Histogram,
    /// What waits at the end of the column.
    waiting: Waiting,
    /// The count that one event adds up to.
    per_event: u64,
    line: Sum,
    stretch: Sum,
}

impl Maker {
    fn new(name: Option<String>, axis: Rc<ValueAxis>, series: &HistogramSeries, columns: Columns) -> Maker {
        let panel = Panel {
            name,
            axis,
            totals: Totals::EMPTY,
            weight: 0,
            below: 0,
            above: 0,
            cells: Vec::new(),
            percentiles: Vec::new(),
            counts: vec![0; columns.count as usize],
            stretches: Vec::new(),
            waiting: Waiting::default(),
        };
        let empty = Histogram::new(series.grid(), series.weight != Weight::Count);
        let sum = || Sum { columns: 0..0, histogram: empty.clone(), waiting: Waiting::default() };
        let (waiting, per_event) = (Waiting::default(), series.per_event());
        Maker { panel, waiting, per_event, line: sum(), stretch: sum(), column: empty }
    }

    /// Books the histogram of a column and clears it.
    fn end_column(&mut self, column: u32, asked: &Asked<'_>) {
        if self.column.totals().count == 0 && self.waiting.count() == 0 {
            return;
        }
        self.book_cells(column);
        let around = |together: u32| {
            let from = column - column % together.max(1);
            from..(from + together.max(1)).min(self.panel.counts.len() as u32)
        };
        let (line, stretch) = (around(asked.line_columns), around(asked.stretch_columns));
        if self.line.columns != line {
            self.end_line(asked.quantiles);
            self.line.columns = line;
        }
        if self.stretch.columns != stretch {
            self.end_stretch();
            self.stretch.columns = stretch;
        }
        let sparse = self.column.to_sparse();
        for sum in [&mut self.line, &mut self.stretch] {
            sum.histogram.add(&sparse);
            sum.waiting = self.waiting.clone();
        }
        self.column.clear();
    }

    fn book_cells(&mut self, column: u32) {
        let panel = &mut self.panel;
        panel.totals = panel.totals.merged(self.column.totals());
        panel.counts[column as usize] = self.column.totals().count;
        for (bucket, count, weight) in self.column.buckets() {
            let place = panel.axis.place(bucket);
            match place {
                Place::Below => panel.below += count,
                Place::Above => panel.above += count,
                Place::Row(_) => {}
            }
            panel.weight = panel.weight.saturating_add(weight);
            match panel.cells.last_mut().filter(|cell| (cell.column, cell.place) == (column, place)) {
                Some(cell) => {
                    (cell.count, cell.weight) = (cell.count + count, cell.weight.saturating_add(weight));
                }
                None => panel.cells.push(Cell { column, place, count, weight }),
            }
        }
    }

    fn end_line(&mut self, quantiles: &[f64]) {
        let values = self.line.percentiles(quantiles, self.per_event);
        if !values.is_empty() {
            self.panel.percentiles.push(Percentiles { columns: self.line.columns.clone(), values });
        }
        self.line.histogram.clear();
    }

    fn end_stretch(&mut self) {
        let percentiles = self.stretch.percentiles(&[0.5, 0.99], self.per_event);
        let Sum { columns, histogram, waiting } = &mut self.stretch;
        if !percentiles.is_empty() {
            let weight = histogram.buckets().fold(0u64, |sum, (.., weight)| sum.saturating_add(weight));
            self.panel.stretches.push(Stretch {
                columns: columns.clone(),
                totals: *histogram.totals(),
                weight,
                percentiles,
                oldest_ns: waiting.oldest_ns(),
            });
        }
        histogram.clear();
    }

    fn finish(mut self, asked: &Asked<'_>) -> Panel {
        self.end_line(asked.quantiles);
        self.end_stretch();
        self.panel
    }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
