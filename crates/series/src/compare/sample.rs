//! What was measured in one turn of a side of a comparison.

use crate::HistogramSeries;
use latscope_histogram::{Grid, Totals};
use std::collections::BTreeMap;

/// The latencies of one turn in the order of time: of single events, or as histograms of intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub(super) cells: Cells,
    totals: Totals,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cells {
    /// Nanoseconds.
    Events(Vec<u64>),
    /// Of each interval the non-empty buckets with their counts.
    Histograms(Grid, Vec<Vec<(u32, u64)>>),
}

impl Sample {
    /// With more events than this, histograms answer as much in less time.
    pub const EVENTS: usize = 1 << 16;

    /// Of single events: latencies in nanoseconds, in the order in which the requests started.
    pub fn of_events(latencies_ns: Vec<u64>) -> Sample {
        let mut totals = Totals::EMPTY;
        for &value in &latencies_ns {
            totals = totals.merged(&Totals { count: 1, sum: value.into(), min: value, max: value, bytes: None });
        }
        Sample { cells: Cells::Events(latencies_ns), totals }
    }

    /// Of the histograms of a series, all groups together. Counts by share are refused their fractions.
    pub fn of_series(series: &HistogramSeries) -> Sample {
        let per_event = series.per_event();
        let mut cells = Vec::new();
        for &interval in series.slices().keys() {
            let sum = series.at(interval, None);
            let buckets = sum.buckets().map(|(bucket, count, _)| (bucket as u32, count / per_event));
            let buckets: Vec<_> = buckets.filter(|&(_, count)| count > 0).collect();
            if !buckets.is_empty() {
                cells.push(buckets);
            }
        }
        let total = series.total(None);
        let totals = Totals {
            count: cells.iter().flatten().map(|&(_, count)| count).sum(),
            sum: total.totals().sum / u128::from(per_event),
            ..*total.totals()
        };
        Sample { cells: Cells::Histograms(series.grid(), cells), totals }
    }

    /// Number of events.
    pub fn count(&self) -> u64 {
        self.totals.count
    }

    /// Count, sum, smallest, largest; exact.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The single latencies in the order of time, nanoseconds, where they are known.
    pub fn events(&self) -> Option<&[u64]> {
        match &self.cells {
            Cells::Events(values) => Some(values),
            Cells::Histograms(..) => None,
        }
    }

    /// Adds each value with its count: single values, or middles of buckets.
    fn count_values(&self, counts: &mut BTreeMap<u64, u64>) {
        match &self.cells {
            Cells::Events(values) => values.iter().for_each(|&value| *counts.entry(value).or_insert(0) += 1),
            Cells::Histograms(grid, cells) => {
                for &(bucket, count) in cells.iter().flatten() {
                    let (lower, upper) = (grid.lower(bucket as usize), grid.upper(bucket as usize));
                    *counts.entry(lower + (upper - lower) / 2).or_insert(0) += count;
                }
            }
        }
    }
}

/// Every value of all turns with its count, ascending: single values, or middles of buckets. Nanoseconds.
pub fn distribution(turns: &[Sample]) -> Vec<(f64, u64)> {
    let mut counts = BTreeMap::new();
    turns.iter().for_each(|turn| turn.count_values(&mut counts));
    counts.into_iter().map(|(value, count)| (value as f64, count)).collect()
}

/// Standard deviation of the values of all turns together, by their number.
pub(super) fn deviation(turns: &[Sample]) -> f64 {
    let values = distribution(turns);
    let count: f64 = values.iter().map(|&(_, count)| count as f64).sum();
    let mean = values.iter().map(|&(value, count)| value * count as f64).sum::<f64>() / count.max(1.0);
    let squares: f64 = values.iter().map(|&(value, count)| (value - mean).powi(2) * count as f64).sum();
    (squares / count.max(1.0)).sqrt()
}
