//! What came to a hub since it was last asked, and which intervals are over: what alerts are judged by.

use crate::Parts;
use std::sync::Arc;

/// So many rows wait for somebody who asks; the oldest are dropped.
const ROWS_LIMIT: usize = 200_000;
/// Rows that are older when they come are not handed on, nanoseconds: they are history.
pub const RECENT_NS: i64 = 900_000_000_000;

/// What is new.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct News {
    /// Names of the fields that make a group.
    pub fields: Vec<String>,
    /// Width of the intervals, nanoseconds.
    pub width_ns: u64,
    /// Size of the steps of the hub's clock since the last call, nanoseconds: all that follows goes by the new time.
    pub stepped_ns: i64,
    /// Of single hosts, in the order in which they came.
    pub rows: Vec<HostRow>,
    /// Intervals of which no more is waited for, ascending.
    pub over: Vec<OverInterval>,
}

/// What a host sent of an interval.
#[derive(Clone, PartialEq, Debug)]
pub struct HostRow {
    /// The host.
    pub host: String,
    /// The number of the interval, which starts at so many widths since the epoch.
    pub interval: i64,
    /// When it came, nanoseconds since the epoch.
    pub arrived_ns: i64,
    /// Whether it was observed only in part.
    pub is_partial: bool,
    /// For how much longer than its width it was observed, as the clock was set back so that it came again; nanoseconds.
    pub more_ns: u64,
    /// Events that its capture lost.
    pub lost: u64,
    /// The clock of the hub less that of the host, nanoseconds, where it was measured.
    pub offset_ns: Option<i64>,
    /// Histograms by group.
    pub groups: Vec<(Arc<[String]>, Parts)>,
}

/// The hosts of an interval that is over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverInterval {
    /// Its number.
    pub interval: i64,
    /// The hosts that sent it.
    pub present: Vec<String>,
    /// Those that were expected.
    pub missing: Vec<String>,
    /// Those that said before that they end.
    pub ended: Vec<String>,
}

/// Rows that wait for somebody who asks.
#[derive(Default)]
pub struct Waiting {
    rows: Vec<HostRow>,
    /// Whether they have latencies of what completed.
    pub with_completed: bool,
    /// The interval from which on none was reported as over.
    pub next: Option<i64>,
    /// Size of the step of the hub's clock, nanoseconds.
    pub stepped_ns: i64,
}

impl Waiting {
    /// The clock of the hub was set by this time, nanoseconds: the interval that comes next is this one, and rows of the old time are
    /// history.
    pub fn step_clock(&mut self, step_ns: i64, next: i64) {
        self.rows.clear();
        (self.next, self.stepped_ns) = (Some(next), self.stepped_ns.saturating_add(step_ns));
    }

    /// Adds a row.
    pub fn add(&mut self, row: HostRow) {
        if self.rows.len() >= ROWS_LIMIT {
            self.rows.drain(..ROWS_LIMIT / 4);
        }
        self.rows.push(row);
    }

    /// The rows so far.
    pub fn take(&mut self) -> Vec<HostRow> {
        std::mem::take(&mut self.rows)
    }
}
