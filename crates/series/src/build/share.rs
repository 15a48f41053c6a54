//! Events counted by the share of their time that lies in each interval, so that a stall is seen while it lasts and not
//! only where it ends.
//!
//! Counts are then fixed-point numbers: an event is [`SHARES`] wherever it lies, and its parts add up to that exactly.

use super::SeriesBuilder;
use super::stretch::REACH;

/// The count that an event adds up to in a series by share. A power of two, so that a share is exact to 6e-8 and 10^12
/// events still fit.
pub const SHARES: u64 = 1 << 24;

/// An event that spans several intervals.
pub(crate) struct Spanning {
    pub start_ns: i64,
    pub end_ns: i64,
    pub value: u64,
    /// How many events it stands for.
    pub count: u64,
    /// What its weight is in all.
    pub weight: u64,
    pub group: u32,
}

impl SeriesBuilder {
    /// Spreads an event over the intervals from its start to its end, which are different ones.
    pub(crate) fn spread(&mut self, event: &Spanning, width_ns: u64) {
        let width = width_ns as i64;
        let last = event.end_ns.div_euclid(width);
        // Before the zero of its clock there was nothing: what reaches back so far counts from there.
        let start_ns = event.start_ns.max(self.earliest_ns()).min(event.end_ns);
        let first = start_ns.div_euclid(width).max(last.saturating_sub(REACH));
        let start_ns = start_ns.max(first.saturating_mul(width));
        let length = u128::from(event.end_ns.abs_diff(start_ns).max(1));
        let total = u128::from(event.count) * u128::from(SHARES);
        // By running sums, so that nothing is lost to rounding.
        let (mut counted, mut weighed) = (0u128, 0u128);
        for interval in first..=last {
            if self.is_full() {
                return;
            }
            let until = interval.saturating_add(1).saturating_mul(width).min(event.end_ns);
            let passed = u128::from(until.abs_diff(start_ns));
            let (count, weight) = (total * passed / length, u128::from(event.weight) * passed / length);
            if count > counted {
                self.record(interval, event.group, event.value, (count - counted) as u64, (weight - weighed) as u64);
            }
            (counted, weighed) = (count, weight);
        }
    }
}
