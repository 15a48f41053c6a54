//! The rates behind the cells of a map.

use super::Frame;
use crate::axis::{Axis, Place};
use crate::scale::Strength;
use latscope_histogram::{Histogram, Rule, Totals};
use latscope_series::Weight;

/// One interval of the map in one strip.
#[derive(Clone, Debug, Default)]
pub(super) struct Strip {
    /// By cell along the axis of values, `<` first and `>` last where the axis has them.
    pub rates: Vec<f64>,
    /// Of all its events.
    pub rate: f64,
    /// Cells of median and 99th percentile, and that percentile itself.
    pub percentiles: Option<(usize, usize, u64)>,
}

/// How the intervals and values of a map are divided into cells.
pub(super) struct Samples<'a> {
    frame: &'a Frame<'a>,
    axis: Axis,
    /// Least and greatest value by cell.
    pub values: Vec<(u64, u64)>,
    under: usize,
    over: usize,
    sum: Histogram,
    /// Width of an interval of the map.
    pub width_ns: u64,
    /// First and last interval of the map, in its own width.
    pub range: (i64, i64),
}

impl<'a> Samples<'a> {
    /// Values in so many cells, `<` and `>` among them, and at most so many intervals. These are whole multiples of
    /// `align`, so that what shares a cell goes on sharing it.
    pub fn new(frame: &'a Frame<'a>, cells: usize, intervals: usize, align: i64) -> Samples<'a> {
        let (series, look) = (frame.screen.series, frame.screen.look);
        let totals = series.group_totals().iter().fold(Totals::EMPTY, |sum, totals| sum.merged(totals));
        let bounds = (look.options.min, look.options.max);
        let (under, over) = (usize::from(bounds.0.is_some()), usize::from(bounds.1.is_some()));
        let columns = cells.saturating_sub(under + over).max(1);
        let axis = Axis::new(series.grid(), series.quantity, &totals, bounds, columns);
        let merge = i64::from(look.merge.max(1));
        let (first, last) = series.range().unwrap_or((0, 0));
        let newest = look.newest.unwrap_or(last).div_euclid(merge).div_euclid(align);
        let first = first.div_euclid(merge).div_euclid(align);
        let rows = (intervals as i64 / align).max(1);
        let oldest = (newest - rows + 1).max(first).min(newest);
        let mut samples = Samples {
            frame,
            values: Vec::new(),
            under,
            over,
            sum: Histogram::new(series.grid(), series.is_weighted()),
            width_ns: series.width_ns().saturating_mul(merge as u64),
            // A map that is not full grows downwards.
            range: (oldest * align, (newest + 1) * align - 1),
            axis,
        };
        samples.values = samples.edges();
        samples
    }

    /// Least and greatest value of each cell: those of the buckets that it shows.
    fn edges(&self) -> Vec<(u64, u64)> {
        let grid = self.frame.screen.series.grid();
        let mut edges: Vec<Option<(u64, u64)>> = vec![None; self.under + self.axis.columns() + self.over];
        for bucket in 0..grid.len() {
            let edge = &mut edges[self.cell(self.axis.place(bucket))];
            let low = edge.map_or(grid.lower(bucket), |(low, _)| low);
            *edge = Some((low, grid.upper(bucket)));
        }
        let mut before = (0, 0);
        edges
            .into_iter()
            .map(|edge| {
                // Cells between coarse buckets show the one below them.
                before = edge.unwrap_or(before);
                before
            })
            .collect()
    }

    fn cell(&self, place: Place) -> usize {
        match place {
            Place::Under => 0,
            Place::Column(column) => self.under + column,
            Place::Over => self.under + self.axis.columns(),
        }
    }

    /// First moment of an interval of the map, and first after it.
    pub fn time(&self, interval: i64) -> (i64, i64) {
        let width = self.width_ns as i64;
        (interval.saturating_mul(width), interval.saturating_add(1).saturating_mul(width))
    }

    /// An interval of the map.
    pub fn strip(&mut self, interval: i64, group: Option<u32>) -> Strip {
        let (series, look) = (self.frame.screen.series, self.frame.screen.look);
        self.sum.clear();
        let merge = i64::from(look.merge.max(1));
        for (&at, _) in series.slices().range(interval * merge..(interval + 1) * merge) {
            series.add_at(&mut self.sum, at, group);
        }
        let per_second = 1e9 / self.width_ns as f64;
        let grid = series.grid();
        let mut starts = vec![0.0; self.values.len()];
        let mut rate = 0.0;
        for (bucket, count, weight) in self.sum.buckets() {
            let amount = match look.shown {
                Weight::Count => count as f64,
                Weight::Time => count as f64 * (grid.lower(bucket) as f64 + grid.upper(bucket) as f64) / 2.0,
                Weight::Bytes => weight as f64,
            } * per_second;
            starts[self.cell(self.axis.place(bucket))] += amount;
            rate += amount;
        }
        let quantiles = self.sum.quantiles(&[0.5, 0.99], Rule::Interpolated);
        let percentiles = quantiles.map(|values| {
            let cell = |value: u64| self.cell(self.axis.place(grid.index(value)));
            (cell(values[0]), cell(values[1]), values[1])
        });
        let shown = |cell: usize| match cell.checked_sub(self.under).filter(|&column| column < self.axis.columns()) {
            Some(column) => starts[self.under + self.axis.source(column)],
            None => starts[cell],
        };
        Strip { rates: (0..starts.len()).map(shown).collect(), rate, percentiles }
    }

    /// Colours for these intervals.
    pub fn strength<'s>(&self, strips: impl Iterator<Item = &'s Strip>) -> Strength {
        let most = strips.flat_map(|strip| &strip.rates).fold(0.0f64, |most, &rate| most.max(rate));
        let (options, weight) = (&self.frame.options, self.frame.screen.look.shown);
        Strength {
            palette: options.palette,
            depth: options.depth,
            scale: options.scale,
            weight,
            unicode: options.unicode,
            full: options.full.unwrap_or_else(|| Strength::round_full(most, weight)),
        }
    }

    /// Cells and labels of the ticks, and whether there is a first cell for what is below and a last for above.
    pub fn ticks(&self, room: impl Fn(&str) -> usize) -> Vec<(usize, String)> {
        let mut ticks: Vec<_> =
            self.axis.ticks(room).into_iter().map(|(column, label)| (self.under + column, label)).collect();
        if self.under > 0 {
            ticks.retain(|&(cell, _)| cell > 1);
            ticks.insert(0, (0, "<".into()));
        }
        if self.over > 0 {
            ticks.retain(|(cell, label)| cell + label.len() < self.values.len() - 2 || label == "<");
            ticks.push((self.values.len() - 1, ">".into()));
        }
        ticks
    }
}
