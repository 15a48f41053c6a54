//! Series of histograms, as every format that holds some hands them on.

use crate::Error;
use latscope_event::Context;
use latscope_histogram::Sparse;
use std::sync::Arc;

/// What a series is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesHeader {
    /// Names of the fields that make a group; they are columns of the file.
    pub group_fields: Vec<String>,
    /// What the histograms are of: `latency`, `size` ...
    pub value: String,
    /// What the cells add up: `count`, `time` or `bytes`.
    pub weight: String,
}

/// The histogram of one interval and group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesRow {
    /// Start of the interval.
    pub time_ns: i64,
    /// Width of the interval; 0 for several rows of one moment, which fio's logs have.
    pub width_ns: u64,
    /// Values of the group fields; `-` if a field has no value. Many rows of a file share them.
    pub groups: Arc<[String]>,
    /// The histogram. A sum beyond `i64::MAX` (292 years of waiting in one interval) is stored as that.
    pub histogram: Sparse,
    /// Ages of what waited at its end, where that is known.
    pub waiting: Option<Sparse>,
}

/// The rows of a file, one after the other. After an error there are no more.
pub trait SeriesRows: Iterator<Item = Result<SeriesRow, Error>> {
    /// What the series is of.
    fn header(&self) -> &SeriesHeader;

    /// What the trace says about itself; complete behind the last row.
    fn context(&self) -> &Context;

    /// Lets every I/O count so many, where rows may be divided.
    fn count_in(&mut self, _per_event: u64) {}

    /// How long rows are as a rule, where the first completion after that time ends each of them; known from the first row on.
    fn usual_ns(&self) -> Option<u64> {
        None
    }

    /// Whether intervals are what they happened to be, instead of multiples of one width.
    fn is_uneven(&self) -> bool {
        true
    }
}
