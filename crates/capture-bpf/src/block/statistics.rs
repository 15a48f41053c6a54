//! What the kernel's own statistics of a disk say beside the histograms: whether requests completed without being counted.

use super::devices;
use crate::probe::read_trimmed;
use std::collections::HashMap;

/// The completed requests of disks since a capture started, by `/sys/dev/block/*/stat`.
pub struct Statistics {
    started: HashMap<u32, Stat>,
    counted: HashMap<u32, u64>,
    uncounted: HashMap<u32, u64>,
}

/// What the statistics of a disk say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    /// Reads, writes and discards that completed. Flushes that nobody waits for, and commands that are passed through, are
    /// counted by some kernels and not by others.
    completed: u64,
    in_flight: u64,
}

impl Statistics {
    /// The kinds of requests that are compared.
    pub const KINDS: [&str; 3] = ["read", "write", "discard"];

    /// Of these disks, or all of them when none is named, from now on; the programs are already counting.
    pub fn start(disks: &[String]) -> Statistics {
        let disks = match disks {
            [] => devices::disks(),
            named => named.iter().filter_map(|name| devices::find(name)).collect(),
        };
        let started = disks.into_iter().filter_map(|dev| Some((dev, Stat::read(dev)?))).collect();
        Statistics { started, counted: HashMap::new(), uncounted: HashMap::new() }
    }

    /// What the statistics say now. What is added to the counts afterwards belongs to it, and may be more.
    pub fn now(&self) -> impl Iterator<Item = (u32, u64)> + use<> {
        let since = |(&dev, start): (&u32, &Stat)| Some((dev, Stat::read(dev)?.completed_since(*start)));
        self.started.iter().filter_map(since).collect::<Vec<_>>().into_iter()
    }

    /// Adds what the histograms counted of a disk.
    pub fn count(&mut self, dev: u32, requests: u64) {
        *self.counted.entry(dev).or_default() += requests;
    }

    /// Holds what the statistics reported against what was counted since.
    pub fn compare(&mut self, now: impl Iterator<Item = (u32, u64)>) {
        for (dev, completed) in now {
            let counted = self.counted.get(&dev).copied().unwrap_or(0);
            self.uncounted.insert(dev, completed.saturating_sub(counted));
        }
    }

    /// Requests that completed without being counted.
    pub fn uncounted(&self) -> u64 {
        self.uncounted.values().sum()
    }
}

impl Stat {
    fn read(dev: u32) -> Option<Stat> {
        let folder = format!("/sys/dev/block/{}", devices::text_of(dev));
        // Drivers without request queues count what is handed to them, which may be more or less.
        if !std::path::Path::new(&folder).join("mq").exists() {
            return None;
        }
        Stat::parse(&read_trimmed(format!("{folder}/stat"))?)
    }

    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let discards = fields.get(11).copied().unwrap_or(0);
        Some(Stat { completed: fields.first()? + fields.get(4)? + discards, in_flight: *fields.get(8)? })
    }

    /// How many more completed at least while the programs counted: one that was in flight at the start may have completed
    /// just before them and have come into the statistics after.
    fn completed_since(self, start: Stat) -> u64 {
        self.completed.saturating_sub(start.completed).saturating_sub(start.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_kernel() {
        // Documentation/admin-guide/iostats.rst: reads 1, writes 5, in flight 9, discards 12, flushes 16.
        let text = "  100 2 3 4  200 6 7 8  5 10 11  30 13 14 15  40 17";
        let start = Stat::parse(text).unwrap();
        assert_eq!(start, Stat { completed: 330, in_flight: 5 });
        // Before Linux 4.18 there were eleven.
        assert_eq!(Stat::parse("1 0 0 0 2 0 0 0 3 0 0"), Some(Stat { completed: 3, in_flight: 3 }));
        assert_eq!(Stat::parse("1 2"), None);
        let later = Stat { completed: 342, in_flight: 0 };
        assert_eq!(later.completed_since(start), 7);
        assert_eq!(start.completed_since(later), 0, "the device was replaced");
    }

    #[test]
    fn what_was_counted_later_makes_good_what_lacked() {
        let dev = 8 << 20;
        let mut statistics = Statistics { started: HashMap::new(), counted: HashMap::new(), uncounted: HashMap::new() };
        statistics.count(dev, 90);
        statistics.compare([(dev, 100)].into_iter());
        assert_eq!(statistics.uncounted(), 10);
        statistics.count(dev, 14);
        statistics.compare([(dev, 102)].into_iter());
        assert_eq!(statistics.uncounted(), 0);
    }
}
