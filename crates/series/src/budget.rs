//! The memory of histograms over time: one bound for all that are built together.
//!
//! Memory is intervals x groups x non-empty buckets, and each of the three may come from a hostile or a mistaken hand: an
//! interval of a nanosecond, a group for every offset, a unit that makes an event last for years.

use crate::HistogramSeries;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the histograms of a view may take, in bytes.
const LIMIT: usize = 256 << 20;

/// Memory that several builders share.
#[derive(Clone, Debug)]
pub struct Budget {
    taken: Arc<AtomicUsize>,
    limit: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(LIMIT)
    }
}

impl Budget {
    /// So many bytes.
    pub fn new(limit: usize) -> Budget {
        Budget { taken: Arc::default(), limit }
    }

    /// How many bytes there are in all.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

/// The part of one builder.
#[derive(Debug, Default)]
pub(crate) struct Account {
    budget: Budget,
    /// What the builder holds as far as it is booked.
    booked: usize,
    /// What came since, counted too high: histograms of one interval and group take less together.
    since: usize,
    pub is_full: bool,
}

impl Account {
    pub fn new(budget: Budget) -> Account {
        Account { budget, ..Account::default() }
    }

    /// Something of about this size came.
    pub fn add(&mut self, bytes: usize) {
        self.since += bytes;
    }

    /// Whether it is time to look at what is really held.
    pub fn is_due(&self) -> bool {
        // At least a quarter of the whole lies between two looks, so that they cost little.
        self.since > self.budget.limit / 4
            && self.budget.taken.load(Ordering::Relaxed).saturating_add(self.since) > self.budget.limit
    }

    /// Books what is really held. Whether it fits.
    pub fn book(&mut self, bytes: usize) -> bool {
        // Wrapping: the sum over all builders is never below zero.
        let change = bytes.wrapping_sub(self.booked);
        let taken = self.budget.taken.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        (self.booked, self.since) = (bytes, 0);
        taken <= self.budget.limit
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.book(0);
    }
}

/// What a histogram of so many non-empty buckets takes in a series, with its place in the tree of intervals.
pub(crate) fn cost(buckets: usize, weighted: bool) -> usize {
    330 + buckets * if weighted { 20 } else { 12 }
}

impl HistogramSeries {
    /// About how many bytes of memory the series takes.
    pub fn bytes(&self) -> usize {
        let weighted = self.is_weighted();
        let histograms = self.slices.values().flat_map(|slice| &slice.groups);
        let histograms: usize = histograms.map(|(_, sparse)| cost(sparse.indices().len(), weighted)).sum();
        histograms + self.flow.bytes()
    }
}
