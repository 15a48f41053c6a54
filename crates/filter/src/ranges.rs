//! Sets of numbers as ranges: what every numeric comparison comes down to. Signed and unsigned values share the code
//! by an order-preserving key; the values that mark a missing number are in no range.

use crate::comparison::Comparison;

/// The key of an `i64` value.
#[inline]
pub(crate) fn signed_key(value: i64) -> u64 {
    value as u64 ^ 1 << 63
}

/// Inclusive ranges of keys, ascending and apart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Ranges of `u64` values; `u64::MAX` marks a missing one.
    pub fn unsigned(wanted: &[(i128, i128)]) -> Ranges {
        Ranges::new(wanted, 0, i128::from(u64::MAX) - 1, |value| value as u64)
    }

    /// Ranges of `i64` values; `i64::MIN` marks a missing one.
    pub fn signed(wanted: &[(i128, i128)]) -> Ranges {
        Ranges::new(wanted, i128::from(i64::MIN) + 1, i128::from(i64::MAX), |value| signed_key(value as i64))
    }

    fn new(wanted: &[(i128, i128)], least: i128, most: i128, key: impl Fn(i128) -> u64) -> Ranges {
        let mut sorted: Vec<_> = wanted
            .iter()
            .map(|&(from, to)| (from.max(least), to.min(most)))
            .filter(|(from, to)| from <= to)
            .map(|(from, to)| (key(from), key(to)))
            .collect();
        sorted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (from, to) in sorted {
            match ranges.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => ranges.push((from, to)),
            }
        }
        Ranges(ranges)
    }

    /// The ranges themselves.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Whether a key is in a range.
    #[inline]
    pub fn holds(&self, key: u64) -> bool {
        let next = self.0.partition_point(|&(from, _)| from <= key);
        next > 0 && key <= self.0[next - 1].1
    }
}

/// The numbers that compare so with `value`, before they are cut to those that can occur.
pub(crate) fn comparing(comparison: Comparison, value: i128) -> Vec<(i128, i128)> {
    match comparison {
        Comparison::Eq => vec![(value, value)],
        Comparison::Ne => vec![(i128::MIN, value - 1), (value + 1, i128::MAX)],
        Comparison::Lt => vec![(i128::MIN, value - 1)],
        Comparison::Le => vec![(i128::MIN, value)],
        Comparison::Gt => vec![(value + 1, i128::MAX)],
        Comparison::Ge => vec![(value, i128::MAX)],
    }
}
