//! The dense histogram, for counting and for accumulating merges.

use crate::{Grid, Rule, Sparse, Totals, quantile};

/// Counts on every bucket of a grid, and optionally the exact sum of a weight (time, bytes) per bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    grid: Grid,
    counts: Vec<u64>,
    weights: Option<Vec<u64>>,
    totals: Totals,
}

impl Histogram {
    /// An empty histogram; `weighted` adds a sum of weights to every bucket.
    pub fn new(grid: Grid, weighted: bool) -> Histogram {
        let weights = weighted.then(|| vec![0; grid.len()]);
        Histogram { grid, counts: vec![0; grid.len()], weights, totals: Totals::EMPTY }
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
        self.counts[index] = self.counts[index].saturating_add(count);
        if let Some(weights) = &mut self.weights {
            weights[index] = weights[index].saturating_add(weight);
        }
        self.totals.count = self.totals.count.saturating_add(count);
        self.totals.sum = self.totals.sum.saturating_add(u128::from(value) * u128::from(count));
        self.totals.min = self.totals.min.min(value);
        self.totals.max = self.totals.max.max(value);
    }

    /// Adds another histogram by scattering its buckets into this one. A finer one is folded;
    /// when the other is coarser, this one is first folded onto its grid, so a merge takes the coarser grid.
    pub fn add(&mut self, other: &Sparse) {
        if other.grid() < self.grid {
            *self = self.to_sparse().folded(other.grid()).to_dense();
        }
        let same = other.grid() == self.grid;
        for (index, count, weight) in other.buckets() {
            let index = if same { index } else { self.grid.fold(other.grid(), index) };
            self.counts[index] += count;
            if let Some(weights) = &mut self.weights {
                weights[index] = weights[index].saturating_add(weight);
            }
        }
        self.totals = self.totals.merged(other.totals());
    }

    /// The non-empty buckets, ascending: index, count, weight (the count itself when unweighted).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        // Between the smallest and the largest value, which spares most of the walk over an almost empty histogram.
        let range = if self.totals.count == 0 {
            0..0
        } else {
            self.grid.index(self.totals.min)..self.grid.index(self.totals.max) + 1
        };
        range.filter(|&index| self.counts[index] != 0).map(|index| {
            let count = self.counts[index];
            (index, count, self.weights.as_ref().map_or(count, |weights| weights[index]))
        })
    }

    /// The same counts with the empty buckets left out.
    pub fn to_sparse(&self) -> Sparse {
        Sparse::collect(self.grid, self.weights.is_some(), self.totals, self.buckets())
    }

    /// Forgets everything counted, keeps the memory.
    pub fn clear(&mut self) {
        if self.totals.count == 0 {
            return;
        }
        let range = self.grid.index(self.totals.min)..self.grid.index(self.totals.max) + 1;
        self.counts[range.clone()].fill(0);
        if let Some(weights) = &mut self.weights {
            weights[range].fill(0);
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
