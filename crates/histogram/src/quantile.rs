//! Quantiles from buckets.

use crate::{Grid, Totals};

/// How a quantile is placed inside the bucket that holds it: the first one up to which there are `q * count` values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// Linear interpolation, as if the bucket's values lay evenly in it: the bucket is cut where `q * count` values are below. Smooth over time; the error against the value of
    /// nearest rank stays below the bucket's width, 1/64 of the value on the fine grid. At 0 it is the exact minimum, at 1
    /// the exact maximum, and it never leaves the range between them.
    #[default]
    Interpolated,
    /// The middle of the bucket, as fio gives its percentiles (stat.c, `calc_clat_percentiles` and `plat_idx_to_val`),
    /// digit for digit: the first bucket up to which there are at least `percent/100 * count` values, whatever minimum and
    /// maximum are. The error against the value of nearest rank is at most 1/128 on the fine grid.
    Fio,
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
    let rank = |quantile: f64| match rule {
        Rule::Interpolated => nearest_rank(quantile, totals.count),
        Rule::Fio => fio_rank(quantile.clamp(0.0, 1.0), totals.count),
    };
    let ranks: Vec<u64> = quantiles.iter().map(|&quantile| rank(quantile).clamp(1, totals.count)).collect();
    let mut order: Vec<usize> = (0..quantiles.len()).collect();
    order.sort_by_key(|&at| ranks[at]);
    let mut values = vec![totals.max; quantiles.len()];
    let mut wanted = order.into_iter().peekable();
    let mut before = 0;
    for (index, count) in buckets {
        while let Some(&at) = wanted.peek()
            && ranks[at] <= before + count
        {
            wanted.next();
            let (lower, width) = (grid.lower(index), grid.upper(index) - grid.lower(index));
            values[at] = match rule {
                Rule::Fio => lower + width.div_ceil(2),
                Rule::Interpolated if quantiles[at] <= 0.0 => totals.min,
                Rule::Interpolated if quantiles[at] >= 1.0 => totals.max,
                Rule::Interpolated => {
                    let below = (quantiles[at].max(0.0) * totals.count as f64 - before as f64).clamp(0.0, count as f64);
                    let value = lower + (width as f64 * below / count as f64).round() as u64;
                    value.clamp(totals.min, totals.max)
                }
            };
        }
        before += count;
    }
    Some(values)
}

/// The rank of a quantile (0 to 1) among so many values, from 1 on: the smallest number that is at least `quantile * count`. The product of
/// numbers such as 0.999 and 1000, which are no binary ones, is a whole number if it is as close to one as the error of a product.
pub fn nearest_rank(quantile: f64, count: u64) -> u64 {
    let product = quantile.clamp(0.0, 1.0) * count as f64;
    let whole = product.round();
    let rank = if (product - whole).abs() <= 4.0 * f64::EPSILON * product { whole } else { product.ceil() };
    (rank as u64).clamp(1, count.max(1))
}

/// The smallest number of values that is at least `percent/100 * count`, for a percentage as it was typed: fio multiplies
/// the nearest binary number, which for 99.9 is a bit larger, so that of a thousand values it takes the last.
fn fio_rank(quantile: f64, count: u64) -> u64 {
    // From 0.999 back to what 99.9 was.
    let percent = (quantile * 1e9).round() / 1e7;
    // Whole percent exactly, and the rest with the error of its product.
    let (whole, part) = (percent.floor(), percent.fract());
    let product = part * count as f64;
    let error = part.mul_add(count as f64, -product);
    let floor = product.floor();
    let beyond = product > floor || error > 0.0;
    let hundredfold = whole as u128 * u128::from(count) + floor as u128 + u128::from(beyond);
    u64::try_from(hundredfold.div_ceil(100)).unwrap_or(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    fn of_nearest_rank(sorted: &[u64], quantile: f64) -> u64 {
        sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
    }

    /// Percentages as they are typed, against whole numbers.
    #[test]
    fn ranks_of_decimal_quantiles_are_exact() {
        for thousandths in 1..100_000u64 {
            for count in [1, 10, 100, 200, 1000, 3000, 7000, 10_000, 123_457, 100_000_000] {
                let expected = (thousandths * count).div_ceil(100_000);
                assert_eq!(
                    nearest_rank(thousandths as f64 / 1000.0 / 100.0, count),
                    expected,
                    "{thousandths} of {count}"
                );
            }
        }
        assert_eq!(
            [nearest_rank(0.0, 5), nearest_rank(1.0, 5), nearest_rank(2.0 / 3.0, 3), nearest_rank(0.5, 0)],
            [1, 5, 2, 1]
        );
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

    /// The rule of fio, in its own words: long double there, whole numbers here.
    #[test]
    fn ranks_of_fio() {
        for (percent, count, rank) in [
            (50.0, 1000, 500),
            (99.0, 1000, 990),
            (99.0, 101, 100),
            (1.0, 99, 1),
            // The nearest binary number to 99.9 is above it, the one to 99.95 is above, the one to 99.99 below.
            (99.9, 1000, 1000),
            (99.95, 2000, 2000),
            (99.99, 10_000, 9999),
            (100.0, 7, 7),
            (0.0, 7, 0),
        ] {
            assert_eq!(fio_rank(percent / 100.0, count), rank, "{percent} of {count}");
        }
        // In units of shares the same values are reached.
        for count in 1..3000u64 {
            for percent in [1.0, 5.0, 30.0, 50.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99] {
                let scaled = fio_rank(percent / 100.0, count << 24);
                assert_eq!(scaled.div_ceil(1 << 24), fio_rank(percent / 100.0, count), "{percent} of {count}");
            }
        }
    }

    #[test]
    fn the_middle_of_a_bin_as_fio_has_it() {
        let histogram = counted(&[5, 130, 1_000_000, 17_100_000_000]);
        let middles = histogram.quantiles(&[0.25, 0.5, 0.75, 1.0], Rule::Fio).unwrap();
        assert_eq!(middles, [5, 131, 1_003_520, 17_112_760_320]);
    }

    proptest! {
        #[test]
        fn error_against_nearest_rank_is_bounded(
            mut values in proptest::collection::vec((0u32..60, any::<u64>()).prop_map(|(bits, value)| value >> bits), 1..200),
            asked in proptest::collection::vec(0.0f64..=1.0, 1..8),
        ) {
            values.sort_unstable();
            let histogram = counted(&values);
            for (rule, bound) in [(Rule::Fio, 1.0 / 128.0), (Rule::Interpolated, 1.0 / 64.0)] {
                let found = histogram.quantiles(&asked, rule).unwrap();
                prop_assert_eq!(&histogram.to_sparse().quantiles(&asked, rule).unwrap(), &found);
                for (&quantile, &found) in asked.iter().zip(&found) {
                    let truth = of_nearest_rank(&values, quantile);
                    prop_assert!(
                        found.abs_diff(truth) as f64 <= truth as f64 * bound,
                        "{rule:?} of {quantile}: {found} against {truth}"
                    );
                }
            }
        }
    }
}
