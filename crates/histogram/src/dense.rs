//! The dense histogram, for counting and for accumulating merges.

use crate::{Grid, Rule, Sparse, Totals, quantile};
use std::ops::Range;

/// Counts on every bucket of a grid, and optionally the exact sum of a weight (time, bytes) per bucket.
///
/// Only the buckets up to the largest value have memory: nobody waits for the years that the last half of a grid is for.
#[derive(Clone, Debug)]
pub struct Histogram {
    grid: Grid,
    /// Up to the bucket of the largest value ever counted, or further; the same length as the weights.
    counts: Vec<u64>,
    weights: Option<Vec<u64>>,
    totals: Totals,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        (self.grid, self.weights.is_some(), self.totals) == (other.grid, other.weights.is_some(), other.totals)
            && self.buckets().eq(other.buckets())
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// An empty histogram; `weighted` adds a sum of weights to every bucket.
    pub fn new(grid: Grid, weighted: bool) -> Histogram {
        Histogram { grid, counts: Vec::new(), weights: weighted.then(Vec::new), totals: Totals::EMPTY }
    }

    /// Makes room for a bucket, by whole octaves.
    #[cold]
    fn grow(&mut self, index: usize) {
        let len = (index + 1).next_multiple_of(1 << self.grid.power()).min(self.grid.len());
        // No more than that: many of them are open at a time.
        self.counts.reserve_exact(len - self.counts.len());
        self.counts.resize(len, 0);
        if let Some(weights) = &mut self.weights {
            weights.resize(len, 0);
        }
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Count, sum, minimum and maximum, all exact.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Counts one value; `weight` is what it adds to its bucket's weight (ignored when unweighted).
    #[inline]
    pub fn record(&mut self, value: u64, weight: u64) {
        self.record_many(value, 1, weight);
    }

    /// Counts a value that stands for several; `weight` is that of all of them.
    #[inline]
    pub fn record_many(&mut self, value: u64, count: u64, weight: u64) {
        let index = self.grid.index(value);
        if index >= self.counts.len() {
            self.grow(index);
        }
        self.counts[index] = self.counts[index].saturating_add(count);
        if let Some(weights) = &mut self.weights {
            weights[index] = weights[index].saturating_add(weight);
        }
        self.totals.count = self.totals.count.saturating_add(count);
        self.totals.sum = self.totals.sum.saturating_add(u128::from(value) * u128::from(count));
        self.totals.min = self.totals.min.min(value);
        self.totals.max = self.totals.max.max(value);
        self.totals.bytes = None;
    }

    /// Counts each of these values as `each`, and returns their sum; only for a histogram without weights.
    pub fn record_all(&mut self, values: &[u64], each: u64) -> u128 {
        debug_assert!(self.weights.is_none(), "the weights are not known");
        if values.is_empty() {
            return 0;
        }
        let (mut sum, mut min, mut max) = (0u128, self.totals.min, self.totals.max);
        for &value in values {
            (sum, min, max) = (sum + u128::from(value), min.min(value), max.max(value));
        }
        if self.grid.index(max) >= self.counts.len() {
            self.grow(self.grid.index(max));
        }
        let all = self.totals.count.checked_add(each.saturating_mul(values.len() as u64));
        // With a grid that is known beforehand, shifts are by constants.
        match all {
            Some(_) if self.grid == Grid::FINE => {
                // No bucket holds more than all of them do.
                values.iter().for_each(|&value| self.counts[Grid::FINE.index(value)] += each);
            }
            _ => values.iter().for_each(|&value| {
                let count = &mut self.counts[self.grid.index(value)];
                *count = count.saturating_add(each);
            }),
        }
        self.totals.count = all.unwrap_or(u64::MAX);
        self.totals.sum = self.totals.sum.saturating_add(sum.saturating_mul(u128::from(each)));
        (self.totals.min, self.totals.max, self.totals.bytes) = (min, max, None);
        sum
    }

    /// Counts values of which no more is known than between which two they lie, both in one bucket: they count there, and
    /// add up as if they were in the middle.
    #[inline]
    pub(crate) fn record_within(&mut self, (lowest, highest): (u64, u64), count: u64, weight: u64) {
        self.record_many(lowest + (highest - lowest) / 2, count, weight);
        self.totals.min = self.totals.min.min(lowest);
        self.totals.max = self.totals.max.max(highest);
    }

    /// Counts a part of another histogram: so many of each of its buckets from the one at `start` in their order on. Limits are
    /// those of buckets, where they are not those of the whole. A finer one is folded; its grid must not be coarser, and it
    /// must have as many in all.
    pub fn add_part(&mut self, other: &Sparse, start: usize, counts: &[u64]) {
        let Some(first) = counts.iter().position(|&count| count > 0) else { return };
        let end = start + counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let (indices, counts) = (&other.indices()[start + first..end], &counts[first..end - start]);
        match other.grid() {
            // With a grid that is known beforehand, shifts are by constants.
            Grid::FINE if self.grid == Grid::FINE => self.add_some(Grid::FINE, other.totals(), indices, counts),
            grid => self.add_some(grid, other.totals(), indices, counts),
        }
    }

    /// Counts buckets of a grid, of which the first and the last are not empty and lie within the limits of totals.
    #[inline(always)]
    fn add_some(&mut self, grid: Grid, within: &Totals, indices: &[u32], counts: &[u64]) {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return };
        let same = grid == self.grid;
        let highest = self.grid.fold(grid, last as usize);
        if highest >= self.counts.len() {
            self.grow(highest);
        }
        for (&index, &count) in indices.iter().zip(counts) {
            let into = if same { index as usize } else { self.grid.fold(grid, index as usize) };
            self.counts[into] = self.counts[into].saturating_add(count);
        }
        // So many counts of 64 bits add up to no more than 128 as long as they add up to 64 themselves.
        let (mut all, mut sum) = (0u64, 0u128);
        for (&index, &count) in indices.iter().zip(counts) {
            all = all.saturating_add(count);
            sum = sum.wrapping_add(u128::from(grid.middle(index as usize)) * u128::from(count));
        }
        // Of the smallest and the largest value more may be known than their buckets.
        let min = grid.lower(first as usize).max(within.min);
        let max = grid.upper(last as usize).min(within.max);
        self.totals = self.totals.merged(&Totals { count: all, sum, min, max, bytes: None });
    }

    /// Adds another histogram by scattering its buckets into this one. A finer one is folded;
    /// when the other is coarser, this one is first folded onto its grid, so a merge takes the coarser grid.
    pub fn add(&mut self, other: &Sparse) {
        if other.grid() < self.grid {
            *self = self.to_sparse().folded(other.grid()).to_dense();
        }
        if let Some(&last) = other.indices().last() {
            let last = self.grid.fold(other.grid(), last as usize);
            if last >= self.counts.len() {
                self.grow(last);
            }
        }
        let same = other.grid() == self.grid;
        for (index, count, weight) in other.buckets() {
            let index = if same { index } else { self.grid.fold(other.grid(), index) };
            self.counts[index] = self.counts[index].saturating_add(count);
            if let Some(weights) = &mut self.weights {
                weights[index] = weights[index].saturating_add(weight);
            }
        }
        self.totals = self.totals.merged(other.totals());
    }

    /// The non-empty buckets, ascending: index, count, weight (the count itself when unweighted).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.used().filter(|&index| self.counts[index] != 0).map(|index| {
            let count = self.counts[index];
            (index, count, self.weights.as_ref().map_or(count, |weights| weights[index]))
        })
    }

    /// Between the smallest and the largest value, which spares most of the walk over an almost empty histogram.
    fn used(&self) -> Range<usize> {
        if self.totals.count == 0 {
            return 0..0;
        }
        // What was stored elsewhere may claim a maximum beyond its buckets.
        self.grid.index(self.totals.min)..self.counts.len().min(self.grid.index(self.totals.max) + 1)
    }

    /// The same counts with the empty buckets left out.
    pub fn to_sparse(&self) -> Sparse {
        let most = self.counts[self.used()].iter().filter(|&&count| count != 0).count();
        Sparse::collect((self.grid, self.weights.is_some(), self.totals), most, self.buckets())
    }

    /// Forgets everything counted, keeps the memory.
    pub fn clear(&mut self) {
        let range = self.used();
        if !range.is_empty() {
            self.counts[range.clone()].fill(0);
            if let Some(weights) = &mut self.weights {
                weights[range].fill(0);
            }
        }
        self.totals = Totals::EMPTY;
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
/// Sparse histograms by way of dense ones.
impl Sparse {
    /// Parts it in two: all but the `count` largest values, and those; weights are left out. Of values in the bucket where
    /// it is cut no more is known than the bucket, so minima, maxima and sums are those of its edges and its middle.
    pub fn split_largest(&self, count: u64) -> (Sparse, Sparse) {
        let grid = self.grid();
        let mut parts = [(); 2].map(|()| Histogram::new(grid, false));
        let mut left = count;
        for (&index, &count) in self.indices().iter().zip(self.counts()).rev() {
            let (lower, upper) = (grid.lower(index as usize), grid.upper(index as usize));
            let within = (lower.max(self.totals().min), upper.min(self.totals().max));
            let largest = left.min(count);
            left -= largest;
            for (part, count) in parts.iter_mut().zip([count - largest, largest]).filter(|&(_, count)| count > 0) {
                part.record_within(within, count, 0);
            }
        }
        let [others, largest] = parts.map(|part| part.to_sparse());
        (others, largest)
    }

    /// The same counts with a place for every bucket.
    pub fn to_dense(&self) -> Histogram {
        let mut dense = Histogram::new(self.grid(), self.weights().is_some());
        dense.add(self);
        dense
    }
}
