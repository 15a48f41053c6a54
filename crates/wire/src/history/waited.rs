//! What waited, in wider intervals.

use crate::{IntervalRow, Parts};
use latscope_histogram::{Grid, Histogram, Sparse};

/// What waited in a group at the end of an interval that is put into a wider one, where it is at the end of that one, too: the ages of
/// intervals within say nothing about its end. Of what was not observed nothing is known.
pub fn waited<'a>(parts: &'a Parts, row: &IntervalRow, end_ns: i64, wide_end_ns: i64) -> Option<&'a Sparse> {
    parts.waiting.as_ref().filter(|_| row.covered_ns > 0 && end_ns == wide_end_ns)
}

/// What completed where nothing did.
pub fn nothing() -> Sparse {
    Histogram::new(Grid::FINE, false).to_sparse()
}
