//! The bios and requests that wait to be issued.

use super::{Action, ActionRecord};
use hashbrown::HashMap;

/// No machine has more bios waiting; a trace that says so is damaged or made up.
const LIMIT: usize = 1 << 18;

/// Device and first sector.
type Key = (u32, u64);

/// A bio or request that waits to be issued.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// What it is known from: the latest record that starts it.
    pub record: ActionRecord,
    pub comm: [u8; 16],
}

impl Waiting {
    fn key(&self) -> Key {
        (self.record.dev, self.record.sector)
    }
}

/// The order in which a request shows: later records do not replace what an earlier one gave.
fn stage(action: Action) -> u8 {
    match action {
        Action::Remap(_) | Action::Split(_) | Action::Queue => 0,
        Action::Allocate => 1,
        _ => 2,
    }
}

/// All that wait, by device and first sector.
#[derive(Default)]
pub struct Waitings {
    /// The one that was added last. Nearly all records between a bio and its issue are about it, and need no search.
    latest: Option<Waiting>,
    /// All others.
    earlier: HashMap<Key, Waiting>,
    /// How many made room for others.
    pub evicted: u64,
}

impl Waitings {
    /// A bio or request starts to wait, or waits on.
    #[inline]
    pub fn note(&mut self, record: &ActionRecord, comm: [u8; 16]) {
        match self.get_mut((record.dev, record.sector)) {
            Some(known) if stage(known.record.action) < stage(record.action) => {}
            // The one before was merged or issued unseen.
            Some(known) => *known = Waiting { record: *record, comm },
            None => self.push(Waiting { record: *record, comm }),
        }
    }

    /// Adds one, instead of any that waits there.
    #[inline]
    pub fn add(&mut self, waiting: Waiting) {
        match self.get_mut(waiting.key()) {
            Some(known) => *known = waiting,
            None => self.push(waiting),
        }
    }

    /// Adds one where none waits.
    #[inline]
    fn push(&mut self, waiting: Waiting) {
        if let Some(before) = self.latest.replace(waiting) {
            if self.earlier.len() >= LIMIT {
                self.evict();
            }
            self.earlier.insert(before.key(), before);
        }
    }

    /// What waits there.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Waiting> {
        match &mut self.latest {
            Some(latest) if latest.key() == key => Some(latest),
            _ => self.earlier.get_mut(&key),
        }
    }

    /// Takes out what waits there.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<Waiting> {
        match self.latest.take_if(|latest| latest.key() == key) {
            None => self.earlier.remove(&key),
            found => found,
        }
    }

    /// Of too many the older half goes.
    #[cold]
    fn evict(&mut self) {
        let mut times: Vec<i64> = self.earlier.values().map(|waiting| waiting.record.time_ns).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        let before = self.earlier.len();
        self.earlier.retain(|_, waiting| waiting.record.time_ns > median);
        self.evicted += (before - self.earlier.len()) as u64;
    }

    /// All that wait, the longest first.
    pub fn into_sorted(self) -> Vec<Waiting> {
        let mut all: Vec<_> = self.earlier.into_values().chain(self.latest).collect();
        all.sort_unstable_by_key(|waiting| (waiting.record.time_ns, waiting.key()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_pairs::NO_ID;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn waiting(time_ns: i64, sector: u64) -> Waiting {
        let record = ActionRecord {
            time_ns,
            sector,
            action: Action::Queue,
            bytes: 512,
            dev: 8,
            tid: NO_ID,
            error: 0,
            is_passthrough: false,
            rwbs: [0; 8],
        };
        Waiting { record, comm: [0; 16] }
    }

    proptest! {
        /// The one that is kept aside is found, replaced and removed as all others.
        #[test]
        fn waitings_are_those_of_a_map(steps in prop::collection::vec((0u8..4, 0u64..6), 0..200)) {
            let (mut waitings, mut map) = (Waitings::default(), BTreeMap::new());
            for (time_ns, (step, sector)) in (0..).zip(steps) {
                let key = (8, sector);
                match step {
                    0 | 1 => {
                        let one = waiting(time_ns, sector);
                        if step == 0 { waitings.add(one) } else { waitings.note(&one.record, one.comm) }
                        map.insert(sector, time_ns);
                    }
                    2 => {
                        let found = waitings.remove(key).map(|waiting| waiting.record.time_ns);
                        prop_assert_eq!(found, map.remove(&sector));
                    }
                    _ => {
                        let found = waitings.get_mut(key).map(|waiting| waiting.record.time_ns);
                        prop_assert_eq!(found, map.get(&sector).copied());
                    }
                }
            }
            let times: Vec<i64> = waitings.into_sorted().iter().map(|waiting| waiting.record.time_ns).collect();
            let mut expected: Vec<i64> = map.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(times, expected);
        }
    }

    #[test]
    fn too_many_make_room_for_others() {
        let mut waitings = Waitings::default();
        let count = LIMIT as i64 + 10;
        (0..count).for_each(|time_ns| waitings.add(waiting(time_ns, time_ns as u64)));
        let evicted = waitings.evicted as i64;
        assert!(evicted > 0 && waitings.get_mut((8, 0)).is_none() && waitings.get_mut((8, count as u64 - 1)).is_some());
        assert_eq!(waitings.into_sorted().len() as i64, count - evicted);
    }
}
