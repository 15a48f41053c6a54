//! The sparse histogram: non-empty buckets only. This is what a series keeps for each interval and group.

use crate::{Grid, Rule, Totals, quantile};
use std::ops::Range;

/// The non-empty buckets of a histogram, ascending.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
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
    /// Of ascending buckets, of which there are no more than `most`; those of one index are added up.
    pub(crate) fn collect(
        (grid, weighted, totals): (Grid, bool, Totals),
        most: usize,
        buckets: impl Iterator<Item = (usize, u64, u64)>,
    ) -> Sparse {
        let list = || Vec::with_capacity(most);
        let weights = weighted.then(list);
        let mut sparse = Sparse { grid, indices: Vec::with_capacity(most), counts: list(), weights, totals };
        for (index, count, weight) in buckets {
            sparse.push(index, count, weight);
        }
        sparse.indices.shrink_to_fit();
        sparse.counts.shrink_to_fit();
        sparse.weights.iter_mut().for_each(Vec::shrink_to_fit);
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
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = (usize, u64, u64)> + '_ {
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
        totals.bytes = totals.bytes.map(|bytes| bytes.saturating_mul(factor));
        // No bucket has more than all of them have.
        more.counts.iter_mut().for_each(|count| *count *= factor);
        more.weights.iter_mut().flatten().for_each(|weight| *weight = weight.saturating_mul(factor));
        Some(more)
    }

    /// Takes up to so many of the values that are in the bucket of this one for a larger value.
    pub fn raise(&mut self, value: u64, count: u64, to: u64) {
        let Ok(at) = self.indices.binary_search(&(self.grid.index(value) as u32)) else { return };
        let count = count.min(self.counts[at]);
        let mut raised =
            Sparse { grid: self.grid, indices: Vec::new(), counts: Vec::new(), weights: None, totals: self.totals };
        if let Some(weights) = &mut self.weights {
            let weight = (u128::from(weights[at]) * u128::from(count) / u128::from(self.counts[at])) as u64;
            weights[at] -= weight;
            raised.weights = Some(vec![weight]);
        }
        raised.indices.push(self.grid.index(to) as u32);
        raised.counts.push(count);
        self.counts[at] -= count;
        if self.counts[at] == 0 {
            self.indices.remove(at);
            self.counts.remove(at);
            self.weights.iter_mut().for_each(|weights| {
                weights.remove(at);
            });
        }
        let totals = &mut raised.totals;
        totals.sum += u128::from(to.saturating_sub(value)) * u128::from(count);
        totals.max = totals.max.max(to);
        if self.indices.is_empty() {
            totals.min = to;
        }
        let totals = raised.totals;
        self.merge(&raised);
        self.totals = totals;
    }

    /// Sets how many bytes the events of its values moved.
    pub fn set_bytes(&mut self, bytes: Option<u64>) {
        self.totals.bytes = bytes;
    }

    /// The same without weights, whose sum, of bytes, is what all values moved.
    #[must_use]
    pub fn with_weights_as_bytes(mut self) -> Sparse {
        if let Some(weights) = self.weights.take() {
            self.totals.bytes = Some(weights.into_iter().fold(0, u64::saturating_add));
        }
        self
    }

    /// The same counts on a coarser grid; unchanged when the grid is as coarse already.
    #[must_use]
    pub fn folded(&self, grid: Grid) -> Sparse {
        if grid >= self.grid {
            return self.clone();
        }
        let buckets = self.buckets().map(|(index, count, weight)| (grid.fold(self.grid, index), count, weight));
        Sparse::collect((grid, self.weights.is_some(), self.totals), self.indices.len(), buckets)
    }

    /// Adds another histogram, on the coarser of the two grids. In place and from the end, so that a few buckets are added to many
    /// for little.
    pub fn merge(&mut self, other: &Sparse) {
        if other.grid < self.grid {
            *self = self.folded(other.grid);
        }
        if other.grid > self.grid {
            return self.merge(&other.folded(self.grid));
        }
        if other.weights.is_some() && self.weights.is_none() {
            self.weights = Some(self.counts.clone());
        }
        self.totals = self.totals.merged(&other.totals);
        let (mut new, mut from) = (0, self.indices.len());
        for &index in other.indices.iter().rev() {
            from = last_not_above(&self.indices[..from], index);
            let is_there = from > 0 && self.indices[from - 1] == index;
            (new, from) = (new + usize::from(!is_there), from - usize::from(is_there));
        }
        // Buckets up to `from` are where they were, those from `to` on where they belong.
        let (mut from, mut to) = (self.indices.len(), self.indices.len() + new);
        self.grow(to);
        for (index, count, weight) in other.buckets().rev() {
            let above = last_not_above(&self.indices[..from], index as u32);
            self.copy_within(above..from, to - (from - above));
            to -= from - above + 1;
            from = above;
            if from > 0 && self.indices[from - 1] == index as u32 {
                from -= 1;
                self.set(to, index, self.counts[from].saturating_add(count));
                self.weights.iter_mut().for_each(|weights| weights[to] = weights[from].saturating_add(weight));
            } else {
                self.set(to, index, count);
                self.weights.iter_mut().for_each(|weights| weights[to] = weight);
            }
        }
    }

    fn set(&mut self, at: usize, index: usize, count: u64) {
        (self.indices[at], self.counts[at]) = (index as u32, count);
    }

    fn grow(&mut self, len: usize) {
        if len > self.indices.capacity() {
            // Many of them are kept: a sixteenth more than is needed, not twice as much.
            let more = len + len / 16 - self.indices.len();
            self.indices.reserve_exact(more);
            self.counts.reserve_exact(more);
            self.weights.iter_mut().for_each(|weights| weights.reserve_exact(more));
        }
        self.indices.resize(len, 0);
        self.counts.resize(len, 0);
        self.weights.iter_mut().for_each(|weights| weights.resize(len, 0));
    }

    fn copy_within(&mut self, range: Range<usize>, to: usize) {
        self.indices.copy_within(range.clone(), to);
        self.counts.copy_within(range.clone(), to);
        self.weights.iter_mut().for_each(|weights| weights.copy_within(range.clone(), to));
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

/// How many of these, which ascend, are not above a value: those that are near the end are found first.
fn last_not_above(indices: &[u32], value: u32) -> usize {
    let (mut end, mut step) = (indices.len(), 1);
    while end > 0 && indices[end - 1] > value {
        let start = end.saturating_sub(step);
        if start == 0 || indices[start - 1] <= value {
            return start + indices[start..end].partition_point(|&index| index <= value);
        }
        (end, step) = (start, 2 * step);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    fn sparse_of(values: &[u64], power: u8) -> Sparse {
        let mut dense = Histogram::new(Grid::with_power(power).unwrap(), true);
        values.iter().for_each(|&value| dense.record(value, value / 3));
        dense.to_sparse()
    }

    fn merged(one: &Sparse, other: &Sparse) -> Sparse {
        let mut sum = one.clone();
        sum.merge(other);
        sum
    }

    proptest! {
        #[test]
        fn a_value_that_is_raised_is_another(values in proptest::collection::vec(1u64..1 << 30, 1..40), at: usize, to in 1u64 << 31..1 << 60) {
            let at = at % values.len();
            let mut raised = sparse_of(&values, 5);
            raised.raise(values[at], 1, to);
            let mut others = values;
            others[at] = to;
            let expected = sparse_of(&others, 5);
            prop_assert_eq!((raised.indices(), raised.counts()), (expected.indices(), expected.counts()));
            let (found, expected) = (raised.totals(), expected.totals());
            prop_assert_eq!((found.count, found.sum, found.max), (expected.count, expected.sum, expected.max));
        }
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        // Over all orders of magnitude, as latencies are.
        proptest::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 0..60)
    }

    #[test]
    fn parts_that_make_no_histogram_are_refused() {
        let totals = Totals { count: 3, sum: 0, min: 1, max: 9, bytes: None };
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

    /// Bytes are those of all values, or unknown; an empty histogram knows nothing and changes nothing.
    #[test]
    fn bytes_are_known_of_all_or_of_none() {
        let with = |bytes: Option<u64>| {
            let mut sparse = Sparse { weights: None, ..sparse_of(&[5, 70_000], 6) };
            sparse.set_bytes(bytes);
            sparse
        };
        for (one, other, both) in
            [(Some(3), Some(4), Some(7)), (Some(3), None, None), (None, Some(4), None), (None, None, None)]
        {
            assert_eq!(merged(&with(one), &with(other)).totals().bytes, both);
            let mut dense = with(one).to_dense();
            dense.add(&with(other));
            assert_eq!(dense.totals().bytes, both);
        }
        let empty = Sparse { weights: None, ..sparse_of(&[], 6) };
        for sum in [merged(&empty, &with(Some(9))), merged(&with(Some(9)), &empty), with(Some(9)).folded(Grid::FINE)] {
            assert_eq!(sum.totals().bytes, Some(9));
        }
        assert_eq!(with(Some(9)).times(3).unwrap().totals().bytes, Some(27));
        let mut dense = with(Some(9)).to_dense();
        dense.record(1, 0);
        assert_eq!(dense.totals().bytes, None);
        // A third of each value, as `sparse_of` weighs them.
        assert_eq!(sparse_of(&[30, 70_002], 6).with_weights_as_bytes(), {
            let mut sparse = Sparse { weights: None, ..sparse_of(&[30, 70_002], 6) };
            sparse.set_bytes(Some(23_344));
            sparse
        });
    }

    proptest! {
        #[test]
        fn merge_is_commutative_associative_and_lossless(
            a in latencies(), b in latencies(), c in latencies(),
            powers in (4u8..8, 4u8..8, 4u8..8),
        ) {
            let (x, y, z) = (sparse_of(&a, powers.0), sparse_of(&b, powers.1), sparse_of(&c, powers.2));
            prop_assert_eq!(merged(&x, &y), merged(&y, &x));
            prop_assert_eq!(merged(&merged(&x, &y), &z), merged(&x, &merged(&y, &z)));
            let coarsest = powers.0.min(powers.1).min(powers.2);
            prop_assert_eq!(merged(&merged(&x, &y), &z), sparse_of(&[a, b, c].concat(), coarsest));
        }

        #[test]
        fn scattering_into_a_dense_one_is_the_same_merge(a in latencies(), b in latencies(), powers in (4u8..8, 4u8..8)) {
            let (x, y) = (sparse_of(&a, powers.0), sparse_of(&b, powers.1));
            let mut dense = x.to_dense();
            dense.add(&y);
            prop_assert_eq!(dense.to_sparse(), merged(&x, &y));
        }

        #[test]
        fn clearing_forgets_everything(a in latencies(), b in latencies()) {
            let mut dense = sparse_of(&a, 6).to_dense();
            dense.clear();
            b.iter().for_each(|&value| dense.record(value, value / 3));
            prop_assert_eq!(dense.to_sparse(), sparse_of(&b, 6));
        }

        #[test]
        fn the_largest_can_be_taken_off(mut a in latencies(), count in 0usize..70) {
            a.sort_unstable();
            let cut = a.len() - count.min(a.len());
            let plain = |values: &[u64]| {
                let sparse = sparse_of(values, 6);
                (sparse.indices().to_vec(), sparse.counts().to_vec())
            };
            let (others, largest) = sparse_of(&a, 6).split_largest(count as u64);
            prop_assert_eq!((others.indices().to_vec(), others.counts().to_vec()), plain(&a[..cut]));
            prop_assert_eq!((largest.indices().to_vec(), largest.counts().to_vec()), plain(&a[cut..]));
            for part in [others, largest].iter().filter(|part| part.totals().count > 0) {
                prop_assert!(part.totals().min >= a[0] && part.totals().max <= a[a.len() - 1]);
            }
        }

        #[test]
        fn parts_rebuild_the_histogram(a in latencies()) {
            let sparse = sparse_of(&a, 6);
            let again = Sparse::from_parts(
                sparse.grid(), sparse.indices().into(), sparse.counts().into(), sparse.weights().map(Into::into), *sparse.totals(),
            );
            prop_assert_eq!(again, Ok(sparse));
        }
    }
}
