//! Standard deviations, exact where single values were counted.

use crate::HistogramSeries;
use latscope_histogram::Totals;

/// How far values lie from their mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Deviation {
    /// Standard deviation (of the values, not of their mean), in their unit.
    pub value: f64,
    /// Whether it comes from the values themselves; else from the middles of buckets, each within 1/128 of its values.
    pub is_exact: bool,
}

/// Sums of the squares of values, by group number; they add up like counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Squares(Vec<u128>);

impl Squares {
    #[inline]
    pub fn add(&mut self, group: u32, value: u64, count: u64) {
        let group = group as usize;
        if self.0.len() <= group {
            self.0.resize(group + 1, 0);
        }
        let square = (u128::from(value) * u128::from(value)).saturating_mul(u128::from(count));
        self.0[group] = self.0[group].saturating_add(square);
    }

    /// Gives every group the number that stands at its old one; groups of one number become one.
    pub fn renumbered(&self, numbers: &[u32]) -> Squares {
        let mut renumbered = Squares::default();
        renumbered.merge(self, numbers);
        renumbered
    }

    /// Adds the groups of another, which have these numbers here.
    pub fn merge(&mut self, other: &Squares, numbers: &[u32]) {
        for (&square, &number) in other.0.iter().zip(numbers) {
            self.add(number, 0, 0);
            self.0[number as usize] = self.0[number as usize].saturating_add(square);
        }
    }

    fn sum(&self, is_in: impl Fn(u32) -> bool) -> u128 {
        let squares = self.0.iter().zip(0..).filter(|&(_, group)| is_in(group));
        squares.fold(0, |sum, (&square, _)| sum.saturating_add(square))
    }
}

impl HistogramSeries {
    /// The standard deviation of the values that completed in the whole time, of one group or of all; `None` without any.
    pub fn deviation(&self, group: Option<u32>) -> Option<Deviation> {
        self.deviation_among(|of| group.is_none_or(|group| group == of))
    }

    /// As [`HistogramSeries::deviation`], of some of the groups.
    pub fn deviation_among(&self, is_in: impl Fn(u32) -> bool) -> Option<Deviation> {
        let totals = self.group_totals();
        let totals = totals.iter().zip(0..).filter(|&(_, group)| is_in(group));
        let totals = totals.fold(Totals::EMPTY, |sum, (more, _)| sum.merged(more));
        let count = u128::from(totals.count);
        if count == 0 {
            return None;
        }
        if let Some(squares) = &self.squares {
            // About the whole number next to the mean, so that nothing cancels out.
            let (near, rest) = (totals.sum / count, totals.sum % count);
            let about = (squares.sum(&is_in) + count * near * near).saturating_sub(2 * near * totals.sum);
            let rest = rest as f64 / count as f64;
            let variance = about as f64 / count as f64 - rest * rest;
            return Some(Deviation { value: variance.max(0.0).sqrt(), is_exact: true });
        }
        let sum = self.total_among(&is_in);
        let middles = || sum.buckets().map(|(bucket, count, _)| (self.grid().middle(bucket) as f64, count as f64));
        let mean = middles().map(|(value, count)| value * count).sum::<f64>() / count as f64;
        let squares = middles().map(|(value, count)| (value - mean).powi(2) * count).sum::<f64>();
        Some(Deviation { value: (squares / count as f64).sqrt(), is_exact: totals.min == totals.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, Quantity, SeriesBuilder, Weight};
    use latscope_event::{Batch, Field, FieldSet};
    use proptest::prelude::*;

    fn series(values: &[(u64, bool)], exact: bool, split: usize) -> HistogramSeries {
        let new = || {
            let builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, vec![Field::Kind], Interval::Auto(2));
            if exact { builder.with_squares() } else { builder }
        };
        let fold = |values: &[(u64, bool)], number: u32| {
            let mut builder = new();
            builder.start_trace_number(number);
            let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Kind]));
            for &(value, is_read) in values {
                batch.push_i64(Field::Time, 5);
                batch.push_u64(Field::Latency, value);
                batch.push_text(Field::Kind, Some(if is_read { b"read" } else { b"write" }));
                batch.end_row();
            }
            builder.add(&batch, None);
            builder
        };
        let mut builder = fold(&values[..split], 1);
        builder.merge(fold(&values[split..], 0));
        builder.finish()
    }

    proptest! {
        #[test]
        fn equals_two_passes_over_the_values(
            values in proptest::collection::vec((0u64..1 << 40, prop::bool::ANY), 1..50),
            base in 0u64..1 << 40, split in 0usize..50,
        ) {
            let values: Vec<(u64, bool)> = values.into_iter().map(|(value, is_read)| (base + value, is_read)).collect();
            let split = split.min(values.len());
            let (exact, buckets) = (series(&values, true, split), series(&values, false, split));
            for group in [None, Some("read"), Some("write")] {
                let of: Vec<f64> = values.iter().filter(|(_, is_read)| group.is_none_or(|name| (name == "read") == *is_read))
                    .map(|&(value, _)| value as f64).collect();
                let number = |series: &HistogramSeries| {
                    group.map(|name| series.groups().iter().position(|known| known[0] == name).map_or(99, |at| at as u32))
                };
                if of.is_empty() {
                    prop_assert_eq!(exact.deviation(number(&exact)), None);
                    continue;
                }
                let mean = of.iter().sum::<f64>() / of.len() as f64;
                let expected = (of.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / of.len() as f64).sqrt();
                let found = exact.deviation(number(&exact)).unwrap();
                prop_assert!(found.is_exact && (found.value - expected).abs() <= 1e-6 * expected + 1.0, "{found:?} {expected}");
                let largest = of.iter().copied().fold(0.0, f64::max);
                let rough = buckets.deviation(number(&buckets)).unwrap();
                prop_assert!((rough.value - expected).abs() <= largest / 64.0 + 1.0, "{rough:?} {expected}");
            }
        }
    }
}
