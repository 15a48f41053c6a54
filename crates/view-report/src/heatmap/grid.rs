//! The cells of a heat map: a series projected onto columns and rows, panel by panel, without losing a count.

use crate::axis::{Place, ValueAxis};
use crate::frame::Columns;
use latscope_histogram::{Histogram, Rule, Totals};
use latscope_series::{HistogramSeries, Slice, Weight};
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

/// What is said about one or a few neighbouring columns together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stretch {
    pub columns: Range<u32>,
    pub totals: Totals,
    pub weight: u64,
    pub p50: u64,
    pub p99: u64,
}

/// The asked percentiles of a stretch of columns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Percentiles {
    pub columns: Range<u32>,
    pub count: u64,
    pub values: Vec<u64>,
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
        let Some(column) = columns.of(interval) else { continue };
        scatter(slice, facets, &mut makers);
        makers.iter_mut().for_each(|maker| maker.end_column(column, asked));
    }
    makers.into_iter().map(|maker| maker.finish(asked)).collect()
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
}

struct Maker {
    panel: Panel,
    column: Histogram,
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
        };
        let empty = Histogram::new(series.grid(), series.weight != Weight::Count);
        let sum = || Sum { columns: 0..0, histogram: empty.clone() };
        Maker { panel, line: sum(), stretch: sum(), column: empty }
    }

    /// Books the histogram of a column and clears it.
    fn end_column(&mut self, column: u32, asked: &Asked<'_>) {
        if self.column.totals().count == 0 {
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
        self.line.histogram.add(&sparse);
        self.stretch.histogram.add(&sparse);
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
        let Sum { columns, histogram } = &mut self.line;
        if let Some(values) = histogram.quantiles(quantiles, Rule::Interpolated) {
            let count = histogram.totals().count;
            self.panel.percentiles.push(Percentiles { columns: columns.clone(), count, values });
            histogram.clear();
        }
    }

    fn end_stretch(&mut self) {
        let Sum { columns, histogram } = &mut self.stretch;
        if let Some(values) = histogram.quantiles(&[0.5, 0.99], Rule::Interpolated) {
            let weight = histogram.buckets().fold(0u64, |sum, (.., weight)| sum.saturating_add(weight));
            self.panel.stretches.push(Stretch {
                columns: columns.clone(),
                totals: *histogram.totals(),
                weight,
                p50: values[0],
                p99: values[1],
            });
            histogram.clear();
        }
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
