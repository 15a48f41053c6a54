//! What is in a spot, in numbers.

use super::Spot;
use latscope_series::HistogramSeries;

/// What is in a spot: the buckets that start within its values, in the intervals that it touches. Cells of a map share
/// neither, so their readouts add up to that of the whole map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Readout {
    /// Events.
    pub count: u64,
    /// What the series adds up of them: bytes, or the time that they took, in nanoseconds.
    pub weight: u64,
    /// Events of the same time and strip, whatever their value.
    pub beside: u64,
}

/// Reads a spot of a series that counts whole events.
pub fn readout(series: &HistogramSeries, spot: &Spot) -> Readout {
    let width = i64::try_from(series.width_ns()).unwrap_or(i64::MAX);
    let mut sum = Readout::default();
    if spot.to_ns <= spot.from_ns {
        return sum;
    }
    let intervals = spot.from_ns.div_euclid(width)..=(spot.to_ns - 1).div_euclid(width);
    for (group, sparse) in series.slices().range(intervals).flat_map(|(_, slice)| &slice.groups) {
        if spot.group.is_some_and(|wanted| wanted != *group) {
            continue;
        }
        sum.beside = sum.beside.saturating_add(sparse.totals().count);
        for (bucket, count, weight) in sparse.buckets() {
            if (spot.low..=spot.high).contains(&sparse.grid().lower(bucket)) {
                sum.count = sum.count.saturating_add(count);
                sum.weight = sum.weight.saturating_add(weight);
            }
        }
    }
    sum
}
