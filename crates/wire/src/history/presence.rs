//! Which hosts were observed when, over a stretch of the past.

use crate::{HostState, Hosts, IntervalRow, Ranges};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

const MS: i64 = 1_000_000;
/// Hosts send one after the other, so the last moments of a stretch prove nothing.
const TOLERATED_MS: u64 = 5_000;

/// When an interval was observed, milliseconds since the epoch; `None` where it was not. Intervals that were merged are in the first.
pub fn observed(start_ns: i64, width_ns: u64, row: &IntervalRow) -> Option<RangeInclusive<u64>> {
    let end_ns = start_ns.saturating_add_unsigned(row.covered_ns.max(width_ns));
    let (start, end) = (start_ns.div_euclid(MS), (end_ns - 1).div_euclid(MS));
    (row.covered_ns > 0 && start >= 0).then(|| start.unsigned_abs()..=end.max(start).unsigned_abs())
}

/// When each host was observed.
#[derive(Default)]
pub struct Presence {
    hosts: BTreeMap<Arc<str>, Ranges>,
    /// When each host said that it ends, milliseconds since the epoch.
    ends: BTreeMap<Arc<str>, Ranges>,
    /// Tables of before that was stored have part in it.
    is_unknown: bool,
}

impl Presence {
    /// Adds what a host was observed in, as far as it lies within these moments, nanoseconds since the epoch.
    pub fn add(&mut self, host: &Arc<str>, ranges: &Ranges, (from_ns, to_ns): (i64, i64)) {
        let clip = |ns: i64| ns.div_euclid(MS).max(0).unsigned_abs();
        for range in ranges.iter() {
            let range = (*range.start()).max(clip(from_ns))..=(*range.end()).min(clip(to_ns));
            if !range.is_empty() {
                self.hosts.entry(Arc::clone(host)).or_default().add(range);
            }
        }
    }

    /// Adds when a host said that it ends, milliseconds since the epoch.
    pub fn add_ends(&mut self, host: &Arc<str>, moments: &Ranges) {
        if !moments.is_empty() {
            let ends = self.ends.entry(Arc::clone(host)).or_default();
            moments.iter().for_each(|range| _ = ends.add(range));
        }
    }

    /// Part of it is not known.
    pub fn set_unknown(&mut self) {
        self.is_unknown = true;
    }

    /// How many hosts there were at the end, and which were missing then or in how many intervals of this width before. A host is
    /// expected from its first interval on, until it says that it ends. Up to this moment, nanoseconds since the epoch, all is known;
    /// without one, the end of the stretch proves nothing. `None` where that is not known.
    pub fn hosts(&self, width_ns: u64, until_ns: Option<i64>) -> Option<Hosts> {
        let end = self.hosts.values().filter_map(|ranges| ranges.iter().last()).map(|last| *last.end()).max()?;
        let end = match until_ns {
            Some(until_ns) => (until_ns.div_euclid(MS) - 1).max(0).unsigned_abs(),
            None => end.saturating_sub(TOLERATED_MS.max(width_ns / MS as u64)),
        };
        let width_ms = (width_ns / MS as u64).max(1);
        let count = |gaps: &Ranges| {
            let numbers = gaps.iter().map(|gap| gap.start() / width_ms..=gap.end() / width_ms).collect::<Ranges>();
            numbers.iter().map(|range| range.end() - range.start() + 1).sum::<u64>()
        };
        let mut hosts = Hosts::default();
        let mut all = Ranges::default();
        for (name, ranges) in &self.hosts {
            let (mut gaps, mut next) = (Ranges::default(), None::<u64>);
            // Whether it said in between that it ends: the moment is that at which its last interval did.
            let has_ended = |gap: RangeInclusive<u64>| self.ends.get(name).is_some_and(|ends| ends.has_any(&gap));
            for range in ranges.iter() {
                if let Some(next) = next.filter(|&next| next < *range.start() && !has_ended(next..=*range.start())) {
                    gaps.add(next..=range.start() - 1);
                }
                next = Some(range.end() + 1);
            }
            let is_absent = next.is_some_and(|next| has_ended(next..=u64::MAX));
            let is_missing = !is_absent && next.is_some_and(|next| next <= end);
            if let Some(next) = next.filter(|_| is_missing) {
                gaps.add(next..=end);
            }
            for gap in gaps.iter() {
                all.add(gap);
            }
            let last = next.map_or(i64::MIN, |next| ((next - 1) / width_ms) as i64);
            hosts.present += u64::from(next.is_some_and(|next| next > end));
            hosts.hosts.push(HostState {
                name: name.to_string(),
                last,
                missing: count(&gaps),
                is_missing,
                ..HostState::default()
            });
        }
        hosts.incomplete = count(&all);
        (!self.is_unknown).then_some(hosts)
    }
}
