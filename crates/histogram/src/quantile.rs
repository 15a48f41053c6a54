//! Quantiles from buckets.

use crate::{Grid, Totals};

/// How a quantile is placed inside the bucket that holds its rank.
///
/// The rank is the nearest rank, `ceil(q * count)`. Both rules return the exact minimum at 0 and the exact maximum at 1,
/// and never leave the range between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// Linear interpolation, as if the bucket's values lay evenly in it. Smooth over time; the error against the value of
    /// nearest rank stays below the bucket's width, 1/64 of the value on the fine grid.
    #[default]
    Interpolated,
    /// The middle of the bucket: the error against the value of nearest rank is at most 1/128 on the fine grid,
    /// whatever the values are.
    Midpoint,
}

/// Values at `quantiles`, in their order; `buckets` are (index, count), ascending and non-empty.
pub(crate) fn quantiles(
    grid: Grid,
    totals: &Totals,
    buckets: impl Iterator<Item = (usize, u64)>,
    quantiles: &[f64],
    rule: Rule,
) -> Option<Vec<u64>> {
    if totals.count == 0 {
        return None;
    }
    let rank = |quantile: f64| ((quantile.clamp(0.0, 1.0) * totals.count as f64).ceil() as u64).clamp(1, totals.count);
    let mut order: Vec<usize> = (0..quantiles.len()).collect();
    order.sort_by_key(|&at| rank(quantiles[at]));
    let mut values = vec![totals.max; quantiles.len()];
    let mut wanted = order.into_iter().peekable();
    let mut before = 0;
    for (index, count) in buckets {
        while let Some(&at) = wanted.peek()
            && rank(quantiles[at]) <= before + count
        {
            wanted.next();
            values[at] = if quantiles[at] <= 0.0 {
                totals.min
            } else if quantiles[at] >= 1.0 {
                totals.max
            } else {
                place(grid, index, rank(quantiles[at]) - before, count, rule).clamp(totals.min, totals.max)
            };
        }
        before += count;
    }
    Some(values)
}

/// The value of the `nth` of `count` values in a bucket.
fn place(grid: Grid, index: usize, nth: u64, count: u64, rule: Rule) -> u64 {
    let (lower, width) = (grid.lower(index), grid.upper(index) - grid.lower(index));
    match rule {
        Rule::Midpoint => lower + width / 2,
        Rule::Interpolated => lower + (width as f64 * (nth as f64 - 0.5) / count as f64).round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    fn nearest_rank(sorted: &[u64], quantile: f64) -> u64 {
        sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
    }

    fn counted(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(Grid::FINE, false);
        values.iter().for_each(|&value| histogram.record(value, 0));
        histogram
    }

    #[test]
    fn small_values_are_exact() {
        let histogram = counted(&[1, 2, 3, 100, 127]);
        assert_eq!(histogram.quantiles(&[0.5, 0.0, 1.0, 0.8], Rule::Interpolated), Some(vec![3, 1, 127, 100]));
        assert_eq!(counted(&[]).quantiles(&[0.5], Rule::Interpolated), None);
    }

    proptest! {
        #[test]
        fn error_against_nearest_rank_is_bounded(
            mut values in proptest::collection::vec((0u32..60, any::<u64>()).prop_map(|(bits, value)| value >> bits), 1..200),
            asked in proptest::collection::vec(0.0f64..=1.0, 1..8),
        ) {
            values.sort_unstable();
            let histogram = counted(&values);
            for (rule, bound) in [(Rule::Midpoint, 1.0 / 128.0), (Rule::Interpolated, 1.0 / 64.0)] {
                let found = histogram.quantiles(&asked, rule).unwrap();
                prop_assert_eq!(&histogram.to_sparse().quantiles(&asked, rule).unwrap(), &found);
                for (&quantile, &found) in asked.iter().zip(&found) {
                    let truth = nearest_rank(&values, quantile);
                    prop_assert!(
                        found.abs_diff(truth) as f64 <= truth as f64 * bound,
                        "{rule:?} of {quantile}: {found} against {truth}"
                    );
                }
            }
        }
    }
}
