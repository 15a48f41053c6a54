//! Waits that are over, and whose threads have not returned to user space yet: then they show their user stack.

use super::shared::{Parts, Record};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A thread that stays in the kernel for longer, or is gone, shows none.
const LONGEST: Duration = Duration::from_secs(1);
/// More are not kept.
const KEPT: usize = 1 << 14;

/// A wait and what the programs know of it so far.
pub struct Over<T> {
    pub record: Record,
    /// What waited.
    pub what: T,
    kernel: Box<[u8]>,
    names: Box<[u8]>,
    at: Instant,
}

impl<T> Over<T> {
    /// What follows its record, with this copy of its user stack.
    pub fn parts<'a>(&'a self, user: &'a [u8]) -> Parts<'a> {
        Parts { kernel: &self.kernel, names: &self.names, user }
    }

    /// Its record with the registers of its return, and the user stack; neither where it is the return of another thread, which
    /// was given its number, or of another program.
    pub fn with_user<'a>(&self, back: Option<(&Record, &'a [u8])>) -> (Record, &'a [u8]) {
        let is_same = |back: &Record| (back.pid, back.process_start) == (self.record.pid, self.record.process_start);
        match back {
            Some((&back, user)) if is_same(&back) => {
                let Record { ip, sp, fp, lr, .. } = back;
                (Record { ip, sp, fp, lr, ..self.record }, user)
            }
            _ => (self.record, &[]),
        }
    }
}

/// Waits by thread; one that goes through several in one call returns once.
pub struct Returns<T> {
    by_thread: HashMap<u32, Vec<Over<T>>>,
    len: usize,
}

impl<T> Default for Returns<T> {
    fn default() -> Returns<T> {
        Returns { by_thread: HashMap::new(), len: 0 }
    }
}

impl<T> Returns<T> {
    /// Keeps a wait until its thread returns.
    pub fn keep(&mut self, record: &Record, parts: &Parts, what: T) {
        let (kernel, names) = (parts.kernel.into(), parts.names.into());
        let over = Over { record: *record, what, kernel, names, at: Instant::now() };
        self.by_thread.entry(record.tid).or_default().push(over);
        self.len += 1;
    }

    /// The waits of a thread that returns.
    pub fn take(&mut self, record: &Record) -> Vec<Over<T>> {
        let all = self.by_thread.remove(&record.tid).unwrap_or_default();
        self.len -= all.len();
        all
    }

    /// Those for which nobody waits any longer; `all`: everything.
    pub fn expired(&mut self, all: bool) -> Vec<Over<T>> {
        let all = all || self.len > KEPT;
        let is_old = |waits: &Vec<Over<T>>| waits.first().is_some_and(|first| first.at.elapsed() > LONGEST);
        let old: Vec<Over<T>> =
            self.by_thread.extract_if(|_, waits| all || is_old(waits)).flat_map(|(_, waits)| waits).collect();
        self.len -= old.len();
        old
    }
}
