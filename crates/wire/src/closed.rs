//! What a hub merged, for those who hand it on: each closed interval once, and what came for it later.

use latscope_event::Tally;
use latscope_histogram::Sparse;
use std::sync::Arc;

/// Histograms by the labels of their groups.
pub type Groups = Vec<(Arc<[String]>, Sparse)>;

/// What was merged into one interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Merged {
    /// It starts at this many widths since the epoch.
    pub interval: i64,
    /// Whether it was closed before, and this came later.
    pub is_late: bool,
    /// Latencies of what completed.
    pub done: Groups,
    /// What was lost or repaired.
    pub tally: Tally,
}

/// What was merged since it was last asked for, and what is known now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Width of the intervals, nanoseconds.
    pub width_ns: u64,
    /// Names of the fields that make a group.
    pub fields: Vec<String>,
    /// In the order in which they were closed.
    pub intervals: Vec<Merged>,
    /// Ages of what waits.
    pub waiting: Groups,
    /// How many hosts are in the last closed interval, and how many are missing; `None` where there is no cluster.
    pub hosts: Option<(u64, u64)>,
}
