//! Waits that are over, and whose threads have not returned to user space yet: then they show their user stack.

use super::shared::{Parts, Record};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A thread that stays in the kernel for longer, or is gone, shows none.
const LONGEST: Duration = Duration::from_secs(1);
/// More are not kept.
const KEPT: usize = 1 << 14;

/// A wait and what the programs know of it so far.
pub struct Over {
    pub record: Record,
    kernel: Box<[u8]>,
    names: Box<[u8]>,
    at: Instant,
}

impl Over {
    /// What follows its record, with this copy of its user stack.
    pub fn parts<'a>(&'a self, user: &'a [u8]) -> Parts<'a> {
        Parts { kernel: &self.kernel, names: &self.names, user }
    }
}

/// Waits by thread; one that goes through several in one call returns once.
#[derive(Default)]
pub struct Returns {
    by_thread: HashMap<u32, Vec<Over>>,
    len: usize,
}

impl Returns {
    /// Keeps a wait until its thread returns.
    pub fn keep(&mut self, record: &Record, parts: &Parts) {
        let (kernel, names) = (parts.kernel.into(), parts.names.into());
        let over = Over { record: *record, kernel, names, at: Instant::now() };
        self.by_thread.entry(record.tid).or_default().push(over);
        self.len += 1;
    }

    /// The waits of a thread that returns; none of another one that had its number.
    pub fn take(&mut self, record: &Record) -> Vec<Over> {
        let all = self.by_thread.remove(&record.tid).unwrap_or_default();
        self.len -= all.len();
        all
    }

    /// Those for which nobody waits any longer; `all`: everything.
    pub fn expired(&mut self, all: bool) -> Vec<Over> {
        let all = all || self.len > KEPT;
        let is_old = |waits: &Vec<Over>| waits.first().is_some_and(|first| first.at.elapsed() > LONGEST);
        let old: Vec<Over> =
            self.by_thread.extract_if(|_, waits| all || is_old(waits)).flat_map(|(_, waits)| waits).collect();
        self.len -= old.len();
        old
    }
}
