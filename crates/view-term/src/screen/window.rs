//! What the map shows of time and of values, cell by cell: the one place that knows which cell is which range.

use super::Look;
use crate::axis::{Axis, Place};
use latscope_event::Context;
use latscope_series::HistogramSeries;

/// The cells along time. A cell is `each` intervals of the map, one of those `merge` intervals of the series; all are
/// aligned to the epoch, so that a cell never changes its range when later ones come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Number of the oldest cell, counted from the epoch.
    pub first: i64,
    pub cells: usize,
    /// Intervals of the map to a cell: two with half blocks when time goes down.
    pub each: usize,
    merge: i64,
    width_ns: i64,
}

impl Times {
    /// The newest interval is that of the look, or the last of the series or of the span of the trace.
    pub fn new(series: &HistogramSeries, context: &Context, look: &Look, cells: usize, each: usize) -> Times {
        let merge = i64::from(look.merge.max(1));
        let width_ns = i64::try_from(series.width_ns()).unwrap_or(i64::MAX);
        let ended = context.span_ns.map(|(_, to)| to.saturating_sub(1).div_euclid(width_ns));
        let newest = look.newest.or(series.range().map(|range| range.1).max(ended)).unwrap_or(0);
        let last = newest.div_euclid(merge.saturating_mul(each as i64));
        Times { first: last.saturating_sub(cells as i64 - 1), cells, each, merge, width_ns }
    }

    /// Intervals of the series from the first cell to the last.
    pub fn intervals(&self) -> std::ops::RangeInclusive<i64> {
        let end = self.start(self.cells);
        self.start(0)..=end.saturating_sub(1).max(self.start(0))
    }

    /// The first interval of the series in a cell.
    fn start(&self, at: usize) -> i64 {
        self.first.saturating_add(at as i64).saturating_mul(self.merge.saturating_mul(self.each as i64))
    }

    /// The interval of the map, counted from the first, that an interval of the series belongs to.
    pub fn slot(&self, interval: i64) -> Option<usize> {
        let from = self.first.saturating_mul(self.each as i64);
        let slot = interval.div_euclid(self.merge).checked_sub(from)?;
        usize::try_from(slot).ok().filter(|&slot| slot < self.cells * self.each)
    }

    /// First moment of a cell, and the first after it.
    pub fn span(&self, at: usize) -> (i64, i64) {
        (self.start(at).saturating_mul(self.width_ns), self.start(at + 1).saturating_mul(self.width_ns))
    }

    /// First moment of an interval of the map, and the first after it.
    pub fn slot_span(&self, slot: usize) -> (i64, i64) {
        let start = |slot: usize| {
            let number = self.first.saturating_mul(self.each as i64).saturating_add(slot as i64);
            number.saturating_mul(self.merge).saturating_mul(self.width_ns)
        };
        (start(slot), start(slot + 1))
    }

    /// The number of a cell, for labels that stay with their cell.
    pub fn number(&self, at: usize) -> i64 {
        self.first.saturating_add(at as i64)
    }

    /// Length of an interval of the map.
    pub fn interval_ns(&self) -> u64 {
        (self.merge as u64).saturating_mul(self.width_ns as u64)
    }

    /// Length of a cell.
    pub fn cell_ns(&self) -> u64 {
        self.interval_ns().saturating_mul(self.each as u64)
    }
}

/// The cells along the values, lowest first: what lies below the axis, the axis, what lies above.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub axis: Axis,
    /// Columns of the axis to a cell: two with half blocks when time goes across.
    pub each: usize,
    /// Whether there is a cell for what is below, and for what is above.
    pub beyond: (bool, bool),
    /// Least and greatest value by cell. A cell that shows the bucket of another one has that one's range.
    pub spans: Vec<(u64, u64)>,
}

impl Values {
    pub fn new(axis: Axis, each: usize) -> Values {
        let (below, above) = axis.beyond();
        let mut spans = Vec::new();
        spans.extend(below.map(|below| (0, below)));
        for cell in 0..axis.columns() / each {
            let own = axis.values(cell * each..=cell * each + each - 1);
            let before = spans.last().copied().unwrap_or((0, u64::MAX));
            spans.push(own.unwrap_or(before));
        }
        spans.extend(above.map(|above| (above, u64::MAX)));
        Values { beyond: (below.is_some(), above.is_some()), axis, each, spans }
    }

    /// How many slots [`Values::slot`] distinguish.
    pub fn slots(&self) -> usize {
        self.axis.columns() + 2
    }

    /// Where a bucket is counted: 0 below the axis, then its columns, then what is above.
    pub fn slot(&self, bucket: usize) -> usize {
        match self.axis.place(bucket) {
            Place::Under => 0,
            Place::Column(column) => column + 1,
            Place::Over => self.axis.columns() + 1,
        }
    }

    /// The slots that a cell shows, the lower first.
    pub fn shown(&self, cell: usize) -> (usize, usize) {
        let Some(cell) = cell.checked_sub(usize::from(self.beyond.0)) else { return (0, 0) };
        let column = cell * self.each;
        if column >= self.axis.columns() {
            return (self.axis.columns() + 1, self.axis.columns() + 1);
        }
        let (lower, upper) = (self.axis.source(column), self.axis.source(column + self.each - 1));
        // A bucket drawn up to the next one ends with a cell: the half of a cell that has buckets of its own shows those.
        let lower = if lower < column && upper >= column { upper } else { lower };
        (lower + 1, upper + 1)
    }

    /// The cell of a slot.
    pub fn cell(&self, slot: usize) -> usize {
        match slot.checked_sub(1) {
            None => 0,
            Some(column) => (column / self.each + usize::from(self.beyond.0)).min(self.spans.len() - 1),
        }
    }
}
