//! What a hub keeps on disk: a journal of records as agents sent them, and tables of histograms by day and host, at several widths.
//!
//! Tables are made from one file of the journal at a time. They count only when that file is gone: its removal is the one step that
//! commits them, so nothing is lost and nothing counts twice wherever a hub is stopped.

mod answer;
mod compact;
mod files;
mod known;
mod presence;
mod query;
mod rows;
mod segment;
mod waited;

pub(crate) use answer::HistoryWriter;
pub use compact::{Compactor, free_share};
pub use files::is_history;
pub(crate) use files::{segments, stamps};
pub(crate) use known::Known;
pub use query::Query;
pub use rows::{HistoryRow, HistoryRows};

use crate::Ranges;
use latscope_event::Tally;
use latscope_histogram::Sparse;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How long intervals of a width are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Width of the intervals, nanoseconds.
    pub width_ns: u64,
    /// Nanoseconds.
    pub keep_ns: u64,
}

impl Level {
    /// The widths of tables that are made of intervals of this width: whole multiples of it, each once, ascending.
    pub fn widths(levels: &[Level], base_ns: u64) -> Vec<u64> {
        let base_ns = base_ns.max(1);
        let mut widths: Vec<u64> =
            levels.iter().map(|level| level.width_ns.div_ceil(base_ns).saturating_mul(base_ns)).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    }

    /// How long a table of this width is kept: as the widest level that is not wider, else as the finest.
    pub fn keep_ns(levels: &[Level], width_ns: u64) -> u64 {
        let fits = levels.iter().filter(|level| level.width_ns <= width_ns).map(|level| level.keep_ns).max();
        fits.or_else(|| levels.iter().map(|level| level.keep_ns).min()).unwrap_or(u64::MAX)
    }
}

/// The histogram of an interval and group of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableRow {
    /// Start of the interval, nanoseconds since the epoch.
    pub time_ns: i64,
    /// Values of the group fields.
    pub labels: Arc<[String]>,
    /// Latencies of what completed in it.
    pub done: Sparse,
    /// Ages of what waited at its end.
    pub waiting: Option<Sparse>,
}

/// What the rows of a table are of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableHead {
    /// The host that sent them.
    pub host: String,
    /// Names of the fields that make a group, without the host.
    pub fields: Vec<String>,
    /// What was captured.
    pub source: String,
    /// Which events passed; empty: all.
    pub filter: String,
    /// Width of the intervals, nanoseconds.
    pub width_ns: u64,
    /// What was lost or repaired.
    pub tally: Tally,
    /// Start of the first and end of the last interval, nanoseconds since the epoch.
    pub span_ns: (i64, i64),
    /// When its host was observed, milliseconds since the epoch; empty in tables of before that was stored.
    pub observed: Ranges,
    /// For how much longer (or shorter) than its width intervals were observed in which runs end or the clock was set: where they start,
    /// milliseconds since the epoch, and nanoseconds.
    pub uneven: BTreeMap<u64, i64>,
    /// When its host said that it ends, milliseconds since the epoch.
    pub ended: Ranges,
}

/// Rows, one after the other; after an error there are no more.
pub type TableRows<'a> = Box<dyn Iterator<Item = io::Result<TableRow>> + 'a>;

/// Who writes and reads the files of tables.
pub trait Tables: Send + Sync {
    /// Writes a new file, which is on disk when this returns.
    ///
    /// # Errors
    /// Those of the rows, and those of the disk.
    fn write(&self, path: &Path, head: &TableHead, rows: TableRows<'_>) -> io::Result<()>;

    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no such table.
    fn open(&self, path: &Path) -> io::Result<(TableHead, TableRows<'static>)>;
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
