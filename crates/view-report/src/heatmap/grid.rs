//! The cells of a heat map: a series projected onto columns and rows, panel by panel, without losing a count.

use crate::axis::{Place, ValueAxis};
use latscope_histogram::{Histogram, Rule, Totals};
use latscope_series::{HistogramSeries, Slice, Weight};
use std::ops::Range;

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

/// One heat map of possibly several.
pub(crate) struct Panel {
    /// Name of the group; `None` when there is only one panel, of everything.
    pub name: Option<String>,
    pub totals: Totals,
    pub weight: u64,
    pub below: u64,
    pub above: u64,
    /// By column, then from the bottom.
    pub cells: Vec<Cell>,
    /// For each asked percentile its value in each column; `None` in empty ones.
    pub percentiles: Vec<Vec<Option<u64>>>,
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
    /// One panel of everything.
    pub fn none(series: &HistogramSeries) -> Facets {
        Facets { panel_of: vec![0; series.groups().len().max(1)], names: vec![None] }
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
            names.push(Some(format!("{} others together", order.len() - shown)));
        }
        Facets { panel_of, names }
    }
}

/// Columns of intervals: the first interval and how many follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Columns {
    pub first: i64,
    pub count: u32,
}

impl Columns {
    pub fn last(self) -> i64 {
        self.first + i64::from(self.count) - 1
    }

    /// The column of an interval; `None` outside.
    pub fn of(self, interval: i64) -> Option<u32> {
        u32::try_from(interval.checked_sub(self.first)?).ok().filter(|&column| column < self.count)
    }
}

/// Projects a series: one panel for each name of the facets. A [`Stretch`] spans `stride` columns.
pub(crate) fn panels(
    series: &HistogramSeries,
    columns: Columns,
    axis: &ValueAxis,
    facets: &Facets,
    quantiles: &[f64],
    stride: u32,
) -> Vec<Panel> {
    let weighted = series.weight != Weight::Count;
    let mut makers: Vec<Maker> =
        facets.names.iter().map(|name| Maker::new(name.clone(), series, columns, quantiles.len(), weighted)).collect();
    for (&interval, slice) in series.slices() {
        let Some(column) = columns.of(interval) else { continue };
        scatter(slice, facets, &mut makers);
        for maker in &mut makers {
            maker.end_column(column, axis, quantiles, stride);
        }
    }
    makers.into_iter().map(Maker::finish).collect()
}

fn scatter(slice: &Slice, facets: &Facets, makers: &mut [Maker]) {
    for (group, sparse) in &slice.groups {
        let panel = facets.panel_of.get(*group as usize).copied().unwrap_or(0);
        if let Some(maker) = makers.get_mut(panel) {
            maker.column.add(sparse);
        }
    }
}

struct Maker {
    panel: Panel,
    column: Histogram,
    stretch: Histogram,
    stretch_columns: Range<u32>,
}

impl Maker {
    fn new(name: Option<String>, series: &HistogramSeries, columns: Columns, lines: usize, weighted: bool) -> Maker {
        let count = columns.count as usize;
        let panel = Panel {
            name,
            totals: Totals::EMPTY,
            weight: 0,
            below: 0,
            above: 0,
            cells: Vec::new(),
            percentiles: vec![vec![None; count]; lines],
            counts: vec![0; count],
            stretches: Vec::new(),
        };
        let empty = Histogram::new(series.grid(), weighted);
        Maker { panel, column: empty.clone(), stretch: empty, stretch_columns: 0..0 }
    }

    /// Books the histogram of a column and clears it.
    fn end_column(&mut self, column: u32, axis: &ValueAxis, quantiles: &[f64], stride: u32) {
        let totals = *self.column.totals();
        if totals.count == 0 {
            return;
        }
        let panel = &mut self.panel;
        panel.totals = panel.totals.merged(&totals);
        panel.counts[column as usize] = totals.count;
        for (line, value) in self.column.quantiles(quantiles, Rule::Interpolated).unwrap_or_default().into_iter().enumerate()
        {
            panel.percentiles[line][column as usize] = Some(value);
        }
        for (bucket, count, weight) in self.column.buckets() {
            let place = axis.place(bucket);
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
        if !self.stretch_columns.contains(&column) {
            self.end_stretch();
            let from = column - column % stride.max(1);
            self.stretch_columns = from..(from + stride.max(1)).min(self.panel.counts.len() as u32);
        }
        self.stretch.add(&self.column.to_sparse());
        self.column.clear();
    }

    fn end_stretch(&mut self) {
        if let Some(values) = self.stretch.quantiles(&[0.5, 0.99], Rule::Interpolated) {
            let weight = self.stretch.buckets().fold(0u64, |sum, (.., weight)| sum.saturating_add(weight));
            self.panel.stretches.push(Stretch {
                columns: self.stretch_columns.clone(),
                totals: *self.stretch.totals(),
                weight,
                p50: values[0],
                p99: values[1],
            });
            self.stretch.clear();
        }
    }

    fn finish(mut self) -> Panel {
        self.end_stretch();
        self.panel
    }
}
