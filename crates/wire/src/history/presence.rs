//! Which hosts were observed when, over a stretch of the past.

use crate::clock::EXPECTED_NS;
use crate::{HostState, Hosts, IntervalRow, Ranges};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

const MS: i64 = 1_000_000;
/// Hosts send one after the other, so the last moments of a stretch prove nothing.
const TOLERATED_MS: u64 = 5_000;
/// As in memory.
const EXPECTED_MS: u64 = EXPECTED_NS.unsigned_abs() / MS.unsigned_abs();
/// So many intervals of a host are remembered that were observed for another time than their width.
const UNEVEN: usize = 10_000;

/// When an interval was observed, milliseconds since the epoch; `None` where it was not. Intervals that were merged are in the first.
pub fn observed(start_ns: i64, width_ns: u64, row: &IntervalRow) -> Option<RangeInclusive<u64>> {
    let end_ns = start_ns.saturating_add_unsigned(row.covered_ns.max(width_ns));
    let (start, end) = (start_ns.div_euclid(MS), (end_ns - 1).div_euclid(MS));
    (row.covered_ns > 0 && start >= 0).then(|| start.unsigned_abs()..=end.max(start).unsigned_abs())
}

/// For how much longer or shorter than their width intervals were observed, by where they start, milliseconds since the epoch; nanoseconds.
pub type Uneven = BTreeMap<u64, i64>;

/// Adds an interval that was observed, and for how much longer or shorter than its width, as it may come again.
pub fn observe(ranges: &mut Ranges, uneven: &mut Uneven, range: RangeInclusive<u64>, covered_ns: u64) {
    let known_ms: u64 = ranges.common(&range).map(|part| part.end() - part.start() + 1).sum();
    let all_ms = range.end() - range.start() + 1;
    let more_ns =
        covered_ns.cast_signed().saturating_sub_unsigned((all_ms - known_ms).saturating_mul(MS.unsigned_abs()));
    // Less than a millisecond is not known here.
    if more_ns.unsigned_abs() >= MS.unsigned_abs() {
        let sum = uneven.entry(*range.start()).or_insert(0);
        *sum = sum.saturating_add(more_ns);
    }
    ranges.add(range);
}

/// Notes what is observed in both, in parts of this width, nanoseconds: it came again.
pub fn note_common(uneven: &mut Uneven, one: &Ranges, other: &Ranges, width_ns: u64) {
    let width_ms = (width_ns / MS.unsigned_abs()).max(1);
    for common in other.iter().flat_map(|range| one.common(&range).collect::<Vec<_>>()) {
        let mut start = *common.start();
        while start <= *common.end() && uneven.len() < UNEVEN {
            let next = (start / width_ms + 1).saturating_mul(width_ms).min(common.end() + 1);
            *uneven.entry(start).or_insert(0) += ((next - start) as i64).saturating_mul(MS);
            start = next;
        }
    }
}

/// When each host was observed.
#[derive(Default)]
pub struct Presence {
    hosts: BTreeMap<Arc<str>, Ranges>,
    /// Of each host, for how much longer or shorter intervals were observed.
    uneven: BTreeMap<Arc<str>, Uneven>,
    /// When each host said that it ends, milliseconds since the epoch.
    ends: BTreeMap<Arc<str>, Ranges>,
    /// Tables of before that was stored have part in it.
    is_unknown: bool,
}

impl Presence {
    /// Adds what a host was observed in by a table of intervals of this width, as far as it lies within these moments, nanoseconds since
    /// the epoch.
    pub fn add(
        &mut self,
        host: &Arc<str>,
        (ranges, more): (&Ranges, &Uneven),
        width_ns: u64,
        (from_ns, to_ns): (i64, i64),
    ) {
        let clip = |ns: i64| ns.div_euclid(MS).max(0).unsigned_abs();
        let span = clip(from_ns)..=clip(to_ns);
        let ranges: Ranges = ranges.common(&span).collect();
        if ranges.is_empty() {
            return;
        }
        let known = self.hosts.entry(Arc::clone(host)).or_default();
        let uneven = self.uneven.entry(Arc::clone(host)).or_default();
        note_common(uneven, known, &ranges, width_ns);
        for (&start, &more_ns) in more.iter().filter(|(start, _)| span.contains(start)) {
            *uneven.entry(start).or_insert(0) += more_ns;
        }
        ranges.iter().for_each(|range| _ = known.add(range));
    }

    /// Adds an interval in which a host was observed for so many nanoseconds.
    pub fn add_one(&mut self, host: &Arc<str>, range: RangeInclusive<u64>, covered_ns: u64) {
        let uneven = self.uneven.entry(Arc::clone(host)).or_default();
        observe(self.hosts.entry(Arc::clone(host)).or_default(), uneven, range, covered_ns);
    }

    /// The intervals of this width in which a host was observed for longer than that, as its clock was set back: their start, and for how
    /// much longer; nanoseconds.
    fn repeated(&self, host: &Arc<str>, width_ns: u64) -> Vec<(i64, u64)> {
        let (mut wide, width) = (BTreeMap::<i64, i64>::new(), width_ns.max(1).cast_signed());
        for (&start, &more_ns) in self.uneven.get(host).into_iter().flatten() {
            let start_ns = start.cast_signed().saturating_mul(MS).div_euclid(width) * width;
            let sum = wide.entry(start_ns).or_insert(0);
            *sum = sum.saturating_add(more_ns);
        }
        wide.into_iter()
            .filter_map(|(start_ns, more_ns)| {
                Some((start_ns, u64::try_from(more_ns).ok().filter(|&more_ns| more_ns > 0)?))
            })
            .collect()
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
    /// expected from its first interval on, until it says that it ends, or until some time after its last one. Up to this moment, nanoseconds since the epoch, all is known;
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
            let is_behind = !is_absent && next.is_some_and(|next| next <= end);
            let is_missing = is_behind && next.is_some_and(|next| end < next.saturating_add(EXPECTED_MS));
            if let Some(next) = next.filter(|_| is_behind) {
                gaps.add(next..=end.min(next.saturating_add(EXPECTED_MS - 1)));
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
                repeated: self.repeated(name, width_ns),
                ..HostState::default()
            });
        }
        hosts.incomplete = count(&all);
        (!self.is_unknown).then_some(hosts)
    }
}
