//! The sparse histogram: non-empty buckets only. This is what a series keeps for each interval and group.

use crate::{Grid, Histogram, Rule, Totals, quantile};

/// The non-empty buckets of a histogram, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sparse {
    grid: Grid,
    indices: Vec<u32>,
    counts: Vec<u64>,
    weights: Option<Vec<u64>>,
    totals: Totals,
}

/// Buckets that make no histogram.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SparseError {
    /// Lists of different lengths.
    #[error("the lists of buckets and of counts differ in length")]
    Length,
    /// An index beyond the grid, or not above the one before it.
    #[error("bucket {0} is out of order or beyond the grid")]
    Index(u32),
    /// An empty bucket, or counts that do not add up to the total.
    #[error("the counts of the buckets do not add up to the count of the histogram")]
    Count,
}

impl Sparse {
    pub(crate) fn collect(
        grid: Grid,
        weighted: bool,
        totals: Totals,
        buckets: impl Iterator<Item = (usize, u64, u64)>,
    ) -> Sparse {
        let mut sparse =
            Sparse { grid, indices: Vec::new(), counts: Vec::new(), weights: weighted.then(Vec::new), totals };
        for (index, count, weight) in buckets {
            sparse.push(index, count, weight);
        }
        sparse.indices.shrink_to_fit();
        sparse.counts.shrink_to_fit();
        sparse
    }

    /// Adds to the last bucket or opens the next one.
    fn push(&mut self, index: usize, count: u64, weight: u64) {
        let again = self.indices.last() == Some(&(index as u32));
        if !again {
            self.indices.push(index as u32);
            self.counts.push(0);
            self.weights.iter_mut().for_each(|weights| weights.push(0));
        }
        if let Some(last) = self.counts.last_mut() {
            *last += count;
        }
        if let Some(last) = self.weights.as_mut().and_then(|weights| weights.last_mut()) {
            *last = last.saturating_add(weight);
        }
    }

    /// A histogram from stored parts.
    ///
    /// # Errors
    /// When the lists differ in length, indices do not ascend within the grid, or counts do not add up.
    pub fn from_parts(
        grid: Grid,
        indices: Vec<u32>,
        counts: Vec<u64>,
        weights: Option<Vec<u64>>,
        totals: Totals,
    ) -> Result<Sparse, SparseError> {
        if indices.len() != counts.len() || weights.as_ref().is_some_and(|weights| weights.len() != counts.len()) {
            return Err(SparseError::Length);
        }
        let (mut next, mut sum, mut ascend, mut fit) = (0, 0u64, true, true);
        for (&index, &count) in indices.iter().zip(&counts) {
            ascend &= index >= next && (index as usize) < grid.len();
            next = index.wrapping_add(1);
            let (more, is_beyond) = sum.overflowing_add(count);
            fit &= count > 0 && !is_beyond;
            sum = more;
        }
        if !ascend {
            let wrong = (0..indices.len())
                .find(|&at| indices[at] as usize >= grid.len() || at > 0 && indices[at] <= indices[at - 1]);
            return Err(SparseError::Index(wrong.map_or(0, |at| indices[at])));
        }
        if !fit || sum != totals.count {
            return Err(SparseError::Count);
        }
        Ok(Sparse { grid, indices, counts, weights, totals })
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Count, sum, minimum and maximum, all exact.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Indices of the non-empty buckets, ascending.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Counts of the non-empty buckets.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Sums of weights of the non-empty buckets, when there are weights beside the counts.
    pub fn weights(&self) -> Option<&[u64]> {
        self.weights.as_deref()
    }

    /// The non-empty buckets, ascending: index, count, weight (the count itself when unweighted).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let weights = self.weights.as_ref().unwrap_or(&self.counts);
        self.indices
            .iter()
            .zip(&self.counts)
            .zip(weights)
            .map(|((&index, &count), &weight)| (index as usize, count, weight))
    }

    /// Every value so many times as often; `None` when that is more than 64 bits hold.
    pub fn times(&self, factor: u64) -> Option<Sparse> {
        let mut more = self.clone();
        let totals = &mut more.totals;
        (totals.count, totals.sum) = (totals.count.checked_mul(factor)?, totals.sum.saturating_mul(factor.into()));
        // No bucket has more than all of them have.
        more.counts.iter_mut().for_each(|count| *count *= factor);
        more.weights.iter_mut().flatten().for_each(|weight| *weight = weight.saturating_mul(factor));
        Some(more)
    }

    /// Parts it in two: all but the `count` largest values, and those; weights are left out. Of values in the bucket where
    /// it is cut no more is known than the bucket, so minima, maxima and sums are those of its edges and its middle.
    pub fn split_largest(&self, count: u64) -> (Sparse, Sparse) {
        let mut parts = [(); 2].map(|()| Histogram::new(self.grid, false));
        let mut left = count;
        for (&index, &count) in self.indices.iter().zip(&self.counts).rev() {
            let (lower, upper) = (self.grid.lower(index as usize), self.grid.upper(index as usize));
            let within = (lower.max(self.totals.min), upper.min(self.totals.max));
            let largest = left.min(count);
            left -= largest;
            for (part, count) in parts.iter_mut().zip([count - largest, largest]).filter(|&(_, count)| count > 0) {
                part.record_within(within, count, 0);
            }
        }
        let [others, largest] = parts.map(|part| part.to_sparse());
        (others, largest)
    }

    /// The same counts on a coarser grid; unchanged when the grid is as coarse already.
    #[must_use]
    pub fn folded(&self, grid: Grid) -> Sparse {
        if grid >= self.grid {
            return self.clone();
        }
        let buckets = self.buckets().map(|(index, count, weight)| (grid.fold(self.grid, index), count, weight));
        Sparse::collect(grid, self.weights.is_some(), self.totals, buckets)
    }

    /// The sum of two histograms, on the coarser of their grids.
    #[must_use]
    pub fn merged(&self, other: &Sparse) -> Sparse {
        let grid = self.grid.min(other.grid);
        let (left, right) = (self.folded(grid), other.folded(grid));
        let weighted = self.weights.is_some() || other.weights.is_some();
        let (mut left, mut right) = (left.buckets().peekable(), right.buckets().peekable());
        let buckets = std::iter::from_fn(|| match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.0 <= b.0 => left.next(),
            (Some(_), None) => left.next(),
            _ => right.next(),
        });
        Sparse::collect(grid, weighted, self.totals.merged(&other.totals), buckets)
    }

    /// The same counts with a place for every bucket.
    pub fn to_dense(&self) -> Histogram {
        let mut dense = Histogram::new(self.grid, self.weights.is_some());
        dense.add(self);
        dense
    }

    /// Values at these quantiles (0 to 1, any order); `None` when nothing was counted. See [`Rule`].
    pub fn quantiles(&self, quantiles: &[f64], rule: Rule) -> Option<Vec<u64>> {
        quantile::quantiles(
            self.grid,
            &self.totals,
            self.buckets().map(|(index, count, _)| (index, count)),
            quantiles,
            rule,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64], power: u8) -> Sparse {
        let mut dense = Histogram::new(Grid::with_power(power).unwrap(), true);
        values.iter().for_each(|&value| dense.record(value, value / 3));
        dense.to_sparse()
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        // Over all orders of magnitude, as latencies are.
        proptest::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 0..60)
    }

    #[test]
    fn parts_that_make_no_histogram_are_refused() {
        let totals = Totals { count: 3, sum: 0, min: 1, max: 9 };
        let build = |indices: &[u32], counts: &[u64]| {
            Sparse::from_parts(Grid::FINE, indices.into(), counts.into(), None, totals)
        };
        assert!(build(&[1, 9], &[1, 2]).is_ok());
        assert_eq!(build(&[1], &[1, 2]), Err(SparseError::Length));
        assert_eq!(build(&[9, 1], &[1, 2]), Err(SparseError::Index(1)));
        assert_eq!(build(&[1, 99_999], &[1, 2]), Err(SparseError::Index(99_999)));
        assert_eq!(build(&[1, 9], &[1, 1]), Err(SparseError::Count));
        assert_eq!(build(&[1, 9], &[u64::MAX, 4]), Err(SparseError::Count));
    }

    proptest! {
        #[test]
        fn merge_is_commutative_associative_and_lossless(
            a in latencies(), b in latencies(), c in latencies(),
            powers in (4u8..8, 4u8..8, 4u8..8),
        ) {
            let (x, y, z) = (of(&a, powers.0), of(&b, powers.1), of(&c, powers.2));
            prop_assert_eq!(x.merged(&y), y.merged(&x));
            prop_assert_eq!(x.merged(&y).merged(&z), x.merged(&y.merged(&z)));
            let coarsest = powers.0.min(powers.1).min(powers.2);
            prop_assert_eq!(x.merged(&y).merged(&z), of(&[a, b, c].concat(), coarsest));
        }

        #[test]
        fn scattering_into_a_dense_one_is_the_same_merge(a in latencies(), b in latencies(), powers in (4u8..8, 4u8..8)) {
            let (x, y) = (of(&a, powers.0), of(&b, powers.1));
            let mut dense = x.to_dense();
            dense.add(&y);
            prop_assert_eq!(dense.to_sparse(), x.merged(&y));
        }

        #[test]
        fn clearing_forgets_everything(a in latencies(), b in latencies()) {
            let mut dense = of(&a, 6).to_dense();
            dense.clear();
            b.iter().for_each(|&value| dense.record(value, value / 3));
            prop_assert_eq!(dense.to_sparse(), of(&b, 6));
        }

        #[test]
        fn the_largest_can_be_taken_off(mut a in latencies(), count in 0usize..70) {
            a.sort_unstable();
            let cut = a.len() - count.min(a.len());
            let plain = |values: &[u64]| {
                let sparse = of(values, 6);
                (sparse.indices().to_vec(), sparse.counts().to_vec())
            };
            let (others, largest) = of(&a, 6).split_largest(count as u64);
            prop_assert_eq!((others.indices().to_vec(), others.counts().to_vec()), plain(&a[..cut]));
            prop_assert_eq!((largest.indices().to_vec(), largest.counts().to_vec()), plain(&a[cut..]));
            for part in [others, largest].iter().filter(|part| part.totals().count > 0) {
                prop_assert!(part.totals().min >= a[0] && part.totals().max <= a[a.len() - 1]);
            }
        }

        #[test]
        fn parts_rebuild_the_histogram(a in latencies()) {
            let sparse = of(&a, 6);
            let again = Sparse::from_parts(
                sparse.grid(), sparse.indices().into(), sparse.counts().into(), sparse.weights().map(Into::into), *sparse.totals(),
            );
            prop_assert_eq!(again, Ok(sparse));
        }
    }
}
