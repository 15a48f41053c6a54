//! Counts on the log-linear bucket grid that every histogram of latscope shares.
//!
//! [`Histogram`] is dense and counts; [`Sparse`] keeps the non-empty buckets only and is what is stored and shipped.
//! Merging is exact: it adds counts bucket by bucket, and a finer grid folds into a coarser one without loss of counts.
#![forbid(unsafe_code)]

mod dense;
mod grid;
mod quantile;
mod sparse;

pub use dense::Histogram;
pub use grid::Grid;
pub use quantile::{Rule, nearest_rank};
pub use sparse::{Sparse, SparseError};

/// What is known exactly of the values of a histogram, whatever the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Totals {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u128,
    /// Smallest value; `u64::MAX` without values.
    pub min: u64,
    /// Largest value; 0 without values.
    pub max: u64,
    /// Bytes that the events of the values moved; `None` where that of any of them is unknown.
    pub bytes: Option<u64>,
}

impl Totals {
    /// Of no values at all.
    pub const EMPTY: Totals = Totals { count: 0, sum: 0, min: u64::MAX, max: 0, bytes: None };

    /// Arithmetic mean, `None` when there are no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Of the values of both.
    #[must_use]
    pub fn merged(&self, other: &Totals) -> Totals {
        Totals {
            count: self.count.saturating_add(other.count),
            sum: self.sum.saturating_add(other.sum),
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            bytes: match (self.count, other.count) {
                (_, 0) => self.bytes,
                (0, _) => other.bytes,
                // A part of them would look as if the others had moved nothing.
                _ => self.bytes.zip(other.bytes).map(|(one, other)| one.saturating_add(other)),
            },
        }
    }
}
