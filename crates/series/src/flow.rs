//! How many events are in flight over time, exactly and in constant time per event.
//!
//! An event adds its overlap to the intervals in which it starts and ends, and one step up and one down for those between,
//! however many there are.

use std::collections::BTreeMap;

/// Overlap of events with intervals.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Flow(BTreeMap<i64, Change>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Change {
    /// Time in flight within this interval, beside the level.
    partial_ns: i128,
    /// How many more events are in flight throughout this interval than throughout the one before.
    step: i64,
}

impl Flow {
    /// Time in flight within one interval.
    pub(crate) fn add_partial(&mut self, interval: i64, ns: u128) {
        self.0.entry(interval).or_default().partial_ns += ns as i128;
    }

    /// So many events that start at one moment and end at one, in a later interval.
    pub(crate) fn add_span(&mut self, width_ns: u64, start_ns: i64, end_ns: i64, count: u64) {
        let width = width_ns as i64;
        let (first, last) = (start_ns.div_euclid(width), end_ns.div_euclid(width));
        self.add_partial(first, (width - start_ns.rem_euclid(width)) as u128 * u128::from(count));
        self.add_partial(last, end_ns.rem_euclid(width) as u128 * u128::from(count));
        self.0.entry(first + 1).or_default().step += count as i64;
        self.0.entry(last).or_default().step -= count as i64;
    }

    /// How many bytes of memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        64 * self.0.len()
    }

    /// Adds all of another flow of the same width.
    pub(crate) fn merge(&mut self, other: &Flow) {
        for (&interval, change) in &other.0 {
            let mine = self.0.entry(interval).or_default();
            mine.partial_ns += change.partial_ns;
            mine.step += change.step;
        }
    }

    /// The same flow over intervals `factor` times as wide.
    pub(crate) fn rebinned(&self, width_ns: u64, factor: i64) -> Flow {
        let mut wide = Flow::default();
        for (&interval, change) in &self.0 {
            let coarse = interval.div_euclid(factor);
            // A step in the middle of a wide interval fills the rest of it, and all that follow.
            let rest = i128::from(factor - interval.rem_euclid(factor));
            let entry = wide.0.entry(coarse).or_default();
            entry.partial_ns += change.partial_ns + i128::from(change.step) * rest * i128::from(width_ns);
            wide.0.entry(coarse + 1).or_default().step += change.step;
        }
        wide
    }

    /// Mean number in flight in each interval from `first` to `last`.
    pub(crate) fn mean(&self, width_ns: u64, first: i64, last: i64) -> Vec<f64> {
        let mut level: i64 = self.0.range(..first).map(|(_, change)| change.step).sum();
        let mut changes = self.0.range(first..).peekable();
        (first..=last)
            .map(|interval| {
                let mut partial_ns = 0;
                if let Some((_, change)) = changes.next_if(|&(&at, _)| at == interval) {
                    level += change.step;
                    partial_ns = change.partial_ns;
                }
                // Rounded once, so that it is the same whether a step or a partial time says it.
                (i128::from(level) * i128::from(width_ns) + partial_ns) as f64 / width_ns as f64
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_sum_of_overlaps(
            events in proptest::collection::vec((0i64..1000, 0i64..500), 0..30), width in 1u64..50, factor in 1i64..5,
        ) {
            let mut flow = Flow::default();
            for &(start, latency) in &events {
                let (first, last) = (start.div_euclid(width as i64), (start + latency).div_euclid(width as i64));
                if first == last {
                    flow.add_partial(first, latency as u128);
                } else {
                    flow.add_span(width, start, start + latency, 1);
                }
            }
            let wide = width as i64 * factor;
            let means = flow.rebinned(width, factor).mean(wide as u64, 0, 40);
            for (interval, mean) in means.into_iter().enumerate() {
                let (from, to) = (interval as i64 * wide, (interval as i64 + 1) * wide);
                let overlap: i64 =
                    events.iter().map(|&(start, latency)| ((start + latency).min(to) - start.max(from)).max(0)).sum();
                prop_assert!((mean - overlap as f64 / wide as f64).abs() < 1e-9);
            }
        }
    }
}
