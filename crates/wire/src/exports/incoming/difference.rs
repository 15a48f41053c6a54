//! Running totals as what was added since the time before.

use super::{Layout, Nature, Point, Refused};
use crate::body::COUNT_LIMIT;
use std::collections::{BTreeMap, HashMap};

/// Most series that are remembered.
const SERIES_LIMIT: usize = 20_000;
/// Most separate times of a series of differences that are remembered.
const TIMES_LIMIT: usize = 64;

/// What is known of each series.
#[derive(Default)]
pub struct Differences(HashMap<(String, Vec<(String, String)>), Known>);

enum Known {
    /// The last point of a running total, or a gauge.
    Last(Box<Point>),
    /// The times that differences are of.
    Times(Times),
}

/// Times that do not touch: their ends by their starts, nanoseconds.
#[derive(Default)]
struct Times(BTreeMap<i64, i64>);

impl Times {
    /// Adds a time; false where a part of it is known.
    fn add(&mut self, start_ns: i64, end_ns: i64) -> bool {
        let before = self.0.range(..end_ns).next_back().map(|(&start, &end)| (start, end));
        // What is before all that is remembered may be known.
        let is_forgotten = || self.0.len() >= TIMES_LIMIT && before.is_none();
        if before.is_some_and(|(_, end)| end > start_ns) || is_forgotten() {
            return false;
        }
        let joined = before.filter(|&(_, end)| end == start_ns).map_or(start_ns, |(start, _)| start);
        let end_ns = self.0.remove(&end_ns).unwrap_or(end_ns);
        self.0.insert(joined, end_ns);
        if self.0.len() > TIMES_LIMIT {
            self.0.pop_first();
        }
        true
    }
}

impl Differences {
    /// What a point adds: `None` where that is nothing, as for the first one of a running total, and for one that is known.
    ///
    /// # Errors
    /// When it cannot be taken.
    pub fn added(&mut self, point: Point) -> Result<Option<Point>, Refused> {
        let key = (point.name.clone(), point.labels.clone().into_iter().collect());
        if point.is_end {
            // It may go on, as after a restart of the one that sends it.
            if let Some(Known::Last(last)) = self.0.get_mut(&key) {
                last.is_end = true;
            }
            return Ok(None);
        }
        let counted = point.buckets.values().try_fold(point.zero, |sum, &count| sum.checked_add(count));
        if counted != Some(point.count) {
            return Err(Refused::Count);
        }
        if point.start_ns.is_some_and(|start_ns| start_ns > point.time_ns) {
            return Err(Refused::Backwards);
        }
        if point.count > COUNT_LIMIT {
            return Err(Refused::Large);
        }
        if point.nature == Nature::Gauge && !point.name.contains("waiting") {
            return Err(Refused::Gauge);
        }
        if self.0.len() >= SERIES_LIMIT && !self.0.contains_key(&key) {
            self.0.retain(|_, known| !matches!(known, Known::Last(last) if last.is_end));
        }
        if self.0.len() >= SERIES_LIMIT && !self.0.contains_key(&key) {
            return Err(Refused::Series);
        }
        let added = if point.nature == Nature::Delta {
            let start_ns = point.start_ns.unwrap_or(point.time_ns - 1).min(point.time_ns - 1);
            let mut times = match self.0.remove(&key) {
                Some(Known::Times(times)) => times,
                _ => Times::default(),
            };
            let is_new = times.add(start_ns, point.time_ns);
            self.0.insert(key, Known::Times(times));
            if !is_new {
                return Err(Refused::Overlap);
            }
            Some(point)
        } else {
            let before = match self.0.get(&key) {
                Some(Known::Last(before)) => Some(before),
                _ => None,
            };
            if before.is_some_and(|before| point.time_ns <= before.time_ns) {
                return Ok(None);
            }
            let added = match point.nature {
                Nature::Cumulative => before.and_then(|before| since(before, &point)),
                Nature::Gauge | Nature::Delta => Some(point.clone()),
            };
            self.0.insert(key, Known::Last(Box::new(point)));
            added
        };
        Ok(added.filter(|added| added.count > 0))
    }
}

/// What was added to a running total since a time; `None` where it started anew, and nobody knows when.
fn since(before: &Point, now: &Point) -> Option<Point> {
    let restarted = before.start_ns.zip(now.start_ns).is_some_and(|(before, now)| now > before);
    if let Some(added) = difference(before, now).filter(|_| !restarted) {
        return Some(added);
    }
    // All of it is of the time since it started again.
    now.start_ns.filter(|&start_ns| start_ns >= before.time_ns).map(|_| now.clone())
}

fn difference(before: &Point, now: &Point) -> Option<Point> {
    let mut added = now.clone();
    let mut older = before.buckets.clone();
    match (&before.layout, &now.layout) {
        (Layout::Exponential { schema: from, .. }, Layout::Exponential { schema: to, .. }) if from >= to => {
            for _ in 0..from - to {
                older = super::super::split::coarser(&older);
            }
        }
        (before, now) if before == now => {}
        _ => return None,
    }
    for (index, count) in older {
        let left = added.buckets.get(&index).copied().unwrap_or(0).checked_sub(count)?;
        added.buckets.insert(index, left);
    }
    added.buckets.retain(|_, count| *count > 0);
    added.zero = now.zero.checked_sub(before.zero)?;
    added.count = now.count.checked_sub(before.count)?;
    added.sum = now.sum.zip(before.sum).map(|(now, before)| now - before).filter(|sum| *sum >= 0.0);
    added.start_ns = Some(before.time_ns);
    // Those of all its time.
    added.limits = None;
    Some(added)
}

/// Buckets as ranges of whole nanoseconds, ascending, with their counts.
pub fn ranges(point: &Point) -> Vec<(u64, u64, u64)> {
    let edge = |seconds: f64| (seconds * point.unit_ns).clamp(0.0, u64::MAX as f64) as u64;
    let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut put = |lower: u64, upper: u64, count: u64| {
        // What is above a lower edge starts at the next integer; nothing is below one nanosecond.
        let start = lower.saturating_add(u64::from(upper > lower)).max(1);
        *found.entry((start, upper.max(start))).or_insert(0) += count;
    };
    if point.zero > 0 {
        let threshold = match point.layout {
            Layout::Exponential { zero_threshold, .. } => edge(zero_threshold),
            Layout::Explicit(_) => 0,
        };
        put(0, threshold, point.zero);
    }
    for (&index, &count) in &point.buckets {
        match &point.layout {
            Layout::Exponential { schema, .. } => {
                let bound = |index: i32| edge(super::super::split::exponential_edge(*schema, index));
                put(bound(index.saturating_sub(1)), bound(index), count);
            }
            Layout::Explicit(bounds) => {
                let bound = |at: i32| usize::try_from(at).ok().and_then(|at| bounds.get(at)).map(|&bound| edge(bound));
                // What is above the last edge is that or longer, no more is known.
                let last = bounds.last().map_or(0, |&bound| edge(bound));
                put(bound(index - 1).unwrap_or(if index > 0 { last } else { 0 }), bound(index).unwrap_or(last), count);
            }
        }
    }
    found.into_iter().map(|((start, end), count)| (start, end, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time_ns: i64, buckets: &[(i32, u64)]) -> Point {
        let buckets: BTreeMap<i32, u64> = buckets.iter().copied().collect();
        Point {
            name: "latency".into(),
            time_ns,
            count: buckets.values().sum(),
            sum: Some(buckets.values().sum::<u64>() as f64),
            buckets,
            layout: Layout::Exponential { schema: 3, zero_threshold: 0.0 },
            ..Point::default()
        }
    }

    fn counts(added: Result<Option<Point>, Refused>) -> Option<Vec<(i32, u64)>> {
        added.unwrap().map(|point| point.buckets.into_iter().collect())
    }

    #[test]
    fn running_totals_become_what_was_added() {
        let mut differences = Differences::default();
        let mut added = |point: Point| counts(differences.added(point));
        assert_eq!(added(point(1, &[(-80, 5)])), None);
        assert_eq!(added(point(2, &[(-80, 7), (-70, 1)])), Some(vec![(-80, 2), (-70, 1)]));
        assert_eq!(added(point(2, &[(-80, 9), (-70, 1)])), None, "the same time again");
        // A coarser schema, and then a bucket that falls.
        let coarser =
            Point { layout: Layout::Exponential { schema: 2, zero_threshold: 0.0 }, ..point(3, &[(-40, 7), (-35, 3)]) };
        assert_eq!(added(coarser), Some(vec![(-35, 2)]));
        let fallen =
            Point { layout: Layout::Exponential { schema: 2, zero_threshold: 0.0 }, ..point(4, &[(-40, 6), (-35, 9)]) };
        assert_eq!(added(fallen.clone()), None);
        let restarted = Point { start_ns: Some(5), time_ns: 9, ..fallen };
        assert_eq!(added(restarted.clone()), None, "nothing was added");
        let again = Point { start_ns: Some(10), time_ns: 11, ..restarted };
        assert_eq!(added(again.clone()), Some(vec![(-40, 6), (-35, 9)]));
        // A marker of its end, as one that sends writes when it ends, and the same series goes on.
        assert_eq!(added(Point { time_ns: 12, is_end: true, ..point(12, &[]) }), None);
        let on = Point { time_ns: 13, count: 16, buckets: [(-40, 7), (-35, 9)].into(), ..again };
        assert_eq!(added(on), Some(vec![(-40, 1)]));
    }

    #[test]
    fn differences_must_not_overlap() {
        let mut differences = Differences::default();
        let delta =
            |start_ns, time_ns| Point { nature: Nature::Delta, start_ns: Some(start_ns), ..point(time_ns, &[(1, 1)]) };
        assert_eq!(counts(differences.added(delta(0, 10))), Some(vec![(1, 1)]));
        assert_eq!(differences.added(delta(5, 15)), Err(Refused::Overlap));
        assert_eq!(counts(differences.added(delta(10, 20))), Some(vec![(1, 1)]));
        assert_eq!(differences.added(delta(10, 20)), Err(Refused::Overlap), "the same again");
        // One that comes late counts, once.
        assert_eq!(counts(differences.added(delta(40, 50))), Some(vec![(1, 1)]));
        assert_eq!(counts(differences.added(delta(25, 40))), Some(vec![(1, 1)]));
        for known in [delta(25, 40), delta(24, 26), delta(39, 41), delta(0, 100), delta(0, 3)] {
            assert_eq!(differences.added(known), Err(Refused::Overlap));
        }
        assert_eq!(counts(differences.added(delta(20, 25))), Some(vec![(1, 1)]));
        assert_eq!(differences.added(delta(70, 60)), Err(Refused::Backwards));
        let gauge = Point { nature: Nature::Gauge, ..point(30, &[(1, 1)]) };
        assert_eq!(differences.added(gauge), Err(Refused::Gauge));
        assert_eq!(differences.added(Point { count: 9, ..delta(60, 70) }), Err(Refused::Count));
        let large = Point { count: 1 << 50, buckets: [(1, 1 << 50)].into(), ..delta(60, 70) };
        assert_eq!(differences.added(large), Err(Refused::Large));
    }

    #[test]
    fn buckets_are_ranges_of_integers() {
        let explicit =
            Point { layout: Layout::Explicit(vec![0.001, 0.01]), zero: 2, ..point(1, &[(0, 4), (1, 5), (2, 6)]) };
        let expected = [(1, 1, 2), (1, 1_000_000, 4), (1_000_001, 10_000_000, 5), (10_000_000, 10_000_000, 6)];
        assert_eq!(ranges(&explicit), expected);
        assert_eq!(ranges(&point(1, &[(-72, 1)])), [(1_791_024, 1_953_125, 1)]);
    }
}
