//! Requests that have not completed: they have no latency yet, but what they have waited so far may be most of all waiting.

use super::condition::Condition;
use super::table::Table;

/// What waits is unusual if it has waited for longer than this part of all events took,
const SLOW: f64 = 0.99;
/// and if it has this part of all waiting, or has waited for longer than any event took and has a little of it.
const MUCH_TIME: f64 = 0.1;
const LEAST_TIME: f64 = 0.01;

/// A request that waits.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiting {
    /// How long so far, nanoseconds: a lower bound of its latency.
    pub age_ns: u64,
    /// What names it.
    pub names: Vec<Condition>,
}

/// Some requests that wait.
#[derive(Clone, PartialEq, Debug)]
pub struct Waits {
    /// How many.
    pub requests: u64,
    /// The sum of what they have waited, nanoseconds.
    pub waited_ns: u128,
    /// How long the youngest and the oldest have, nanoseconds.
    pub ages_ns: [u64; 2],
    /// The names that all of them share, and that not all events have.
    pub shared: Vec<Condition>,
}

impl Waits {
    /// Their part of all waiting, theirs included.
    pub fn share(&self, completed_ns: u128) -> f64 {
        self.waited_ns as f64 / ((self.waited_ns + completed_ns) as f64).max(1.0)
    }
}

impl Table {
    /// These requests together; `None` without requests.
    pub fn waits<'w>(&mut self, requests: impl Iterator<Item = &'w Waiting>) -> Option<Waits> {
        self.complete();
        let requests: Vec<&Waiting> = requests.collect();
        let ages = || requests.iter().map(|one| one.age_ns);
        let names = requests.first().map_or(&[][..], |one| &one.names);
        let is_shared = |name: &&Condition| {
            requests.iter().all(|one| one.names.contains(name)) && !self.is_constant(name.attribute())
        };
        Some(Waits {
            requests: requests.len() as u64,
            waited_ns: ages().map(u128::from).sum(),
            ages_ns: [ages().min()?, ages().max()?],
            shared: Condition::without_repetition(names.iter().filter(is_shared).cloned().collect()),
        })
    }

    /// Those of the requests that have waited for unusually long.
    pub fn long_waits(&mut self, requests: &[Waiting]) -> Option<Waits> {
        if requests.is_empty() {
            return None;
        }
        let mut completed = self.latency_ns.clone();
        let (mut usual_ns, mut longest_ns) = (0, 0);
        if let Some(last) = completed.len().checked_sub(1) {
            usual_ns = *completed.select_nth_unstable((last as f64 * SLOW) as usize).1;
            longest_ns = completed.iter().max().copied().unwrap_or(0);
        }
        let waits = self.waits(requests.iter().filter(|one| one.age_ns > usual_ns))?;
        let share = waits.share(self.total().waiting_ns);
        let is_long = share >= MUCH_TIME || share >= LEAST_TIME && waits.ages_ns[1] > longest_ns;
        is_long.then_some(waits)
    }
}
