//! Connections whose peers have not said what they want: few enough, and none of them keeps others out.

use crate::stream::Ender;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who is honest says what it wants in this time, even where many come at once.
const YOUNG: Duration = Duration::from_millis(100);

/// So many places.
pub struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// In the order in which they came.
    open: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    /// Where it comes from.
    host: String,
    since: Instant,
    ender: Ender,
}

/// A place, until it is dropped.
pub struct Place<'a> {
    places: &'a Places,
    number: u64,
}

impl Places {
    /// So many at most.
    pub fn new(most: usize) -> Places {
        Places { most, taken: Mutex::default() }
    }

    /// A place for a connection from a host. If all are taken, the oldest connection of the host that has most of them ends, unless
    /// it came only now.
    pub fn take(&self, host: &str, ender: Ender) -> Option<Place<'_>> {
        let mut taken = self.taken();
        if taken.open.len() >= self.most {
            let mut counts = HashMap::<&str, usize>::new();
            taken.open.iter().for_each(|waiting| *counts.entry(&waiting.host).or_insert(0) += 1);
            let most = counts.values().max().copied();
            let at = taken.open.iter().position(|waiting| counts.get(waiting.host.as_str()).copied() == most)?;
            taken.open.get(at).filter(|waiting| waiting.since.elapsed() >= YOUNG)?;
            taken.open.remove(at)?.ender.end();
        }
        let number = taken.next;
        taken.next += 1;
        taken.open.push_back(Waiting { number, host: host.into(), since: Instant::now(), ender });
        Some(Place { places: self, number })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.taken().open.retain(|waiting| waiting.number != self.number);
    }
}
