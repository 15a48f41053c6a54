//! What is in a spot, in numbers.

use super::samples::middle;
use super::{Look, Spot};
use latscope_series::{HistogramSeries, Quantity, Weight};

/// What is in a spot: the buckets that begin within its values, in the intervals that begin within its time. Cells of a
/// map share neither, so their readouts add up to that of the whole map.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Readout {
    /// Events.
    pub count: u64,
    /// Events per second.
    pub rate_per_s: f64,
    /// Part of the events of the same time (and strip) that lie in the spot, 0 to 1.
    pub share: f64,
    /// Sum of their latencies, nanoseconds: exact when the series adds up time, else from the middles of the buckets,
    /// within 1/128. `None` when the values are no times.
    pub time_ns: Option<u64>,
    /// Bytes moved, when the series adds them up.
    pub bytes: Option<u64>,
}

/// Reads a spot of a map that was drawn with this look.
pub fn readout(series: &HistogramSeries, look: &Look, spot: &Spot) -> Readout {
    let group = spot.group.or(look.options.group);
    let width_ns = i64::try_from(series.width_ns()).unwrap_or(i64::MAX);
    // The first interval that begins at the moment or after it.
    let number = |ns: i64| ns.div_euclid(width_ns) + i64::from(ns.rem_euclid(width_ns) > 0);
    let (from, to) = (number(spot.from_ns), number(spot.to_ns).max(number(spot.from_ns)));
    let (mut count, mut all, mut time, mut bytes) = (0u64, 0u64, 0f64, 0u64);
    for (_, slice) in series.slices().range(from..to) {
        for (_, sparse) in slice.groups.iter().filter(|(of, _)| group.is_none_or(|group| group == *of)) {
            all = all.saturating_add(sparse.totals().count);
            for (bucket, events, weight) in sparse.buckets() {
                if (spot.low..=spot.high).contains(&sparse.grid().lower(bucket)) {
                    count = count.saturating_add(events);
                    bytes = bytes.saturating_add(weight);
                    time += match series.weight {
                        Weight::Time => weight as f64,
                        _ => events as f64 * middle(sparse.grid(), bucket) / series.per_event() as f64,
                    };
                }
            }
        }
    }
    let seconds = spot.to_ns.saturating_sub(spot.from_ns) as f64 / 1e9;
    let is_time = matches!(series.quantity, Quantity::Latency | Quantity::Queue) || series.weight == Weight::Time;
    let count_of = |shares: u64| shares / series.per_event().max(1);
    Readout {
        count: count_of(count),
        rate_per_s: if seconds > 0.0 { count as f64 / series.per_event().max(1) as f64 / seconds } else { 0.0 },
        share: if all > 0 { count as f64 / all as f64 } else { 0.0 },
        time_ns: is_time.then_some(time.round() as u64),
        bytes: (series.weight == Weight::Bytes).then_some(bytes),
    }
}
