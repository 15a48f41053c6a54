//! What was added to series since it was sent last, for who takes differences.

use super::metrics::{Distribution, Labels, Value};
use super::remote_write::Point;
use std::borrow::Cow;
use std::collections::HashMap;

/// What was sent last of each series.
#[derive(Clone, Default)]
pub struct Previous(HashMap<(&'static str, Labels), (i64, Distribution)>);

/// What was added in some time, milliseconds since the epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct Added<'a> {
    pub start_ms: i64,
    pub end_ms: i64,
    pub added: Cow<'a, Distribution>,
}

impl Previous {
    /// What was added to a series from point to point. Without an earlier one, the first point only is a base: a new series starts with
    /// nothing, and one that went on over a restart was sent before.
    pub fn added<'a>(&mut self, name: &'static str, labels: &Labels, points: &'a [Point]) -> Vec<Added<'a>> {
        let mut found = Vec::new();
        let known = points.iter().filter_map(|(time_ms, _, value)| match value {
            Value::Distribution(distribution) => Some((*time_ms, &**distribution)),
            _ => None,
        });
        let key = (name, labels.clone());
        let mut before = self.0.remove(&key);
        for (end_ms, now) in known {
            if let Some((start_ms, before)) = &before {
                let added = Cow::Owned(difference(now, before));
                found.push(Added { start_ms: *start_ms, end_ms, added });
            }
            before = Some((end_ms, now.clone()));
        }
        if let Some(before) = before {
            self.0.insert(key, before);
        }
        found
    }
}

/// The sum of what was added one after the other; `None` of nothing.
pub fn merged(added: Vec<Added>) -> Option<Added> {
    added.into_iter().reduce(|sum, more| {
        let (schema, mut buckets) = (more.added.schema, HashMap::new());
        for part in [&sum.added, &more.added] {
            for &(index, count) in &part.exponential {
                *buckets.entry(coarser(index, part.schema - schema)).or_insert(0) += count;
            }
        }
        let mut exponential: Vec<(i32, u64)> = buckets.into_iter().collect();
        exponential.sort_unstable();
        let (count, sum_ns) = (sum.added.count + more.added.count, sum.added.sum_ns + more.added.sum_ns);
        let added = Distribution { count, sum_ns, schema, exponential, ..Distribution::default() };
        Added { start_ms: sum.start_ms, end_ms: more.end_ms, added: Cow::Owned(added) }
    })
}

/// The bucket that holds this one, in a schema that is so much lower.
fn coarser(index: i32, by: i8) -> i32 {
    (0..by).fold(index, |index, _| (index + 1) >> 1)
}

fn difference(now: &Distribution, before: &Distribution) -> Distribution {
    // Where it became coarser meanwhile, the older one is too.
    let mut older: HashMap<i32, u64> = HashMap::new();
    let shift = if before.count == 0 { 0 } else { before.schema - now.schema };
    for &(index, count) in &before.exponential {
        *older.entry(coarser(index, shift)).or_insert(0) += count;
    }
    let left = now
        .exponential
        .iter()
        .map(|&(index, count)| (index, count.saturating_sub(older.get(&index).copied().unwrap_or(0))));
    Distribution {
        count: now.count.saturating_sub(before.count),
        sum_ns: now.sum_ns.saturating_sub(before.sum_ns),
        schema: now.schema,
        exponential: left.filter(|&(_, count)| count > 0).collect(),
        ..Distribution::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::LATENCY;
    use super::super::metrics::Layouts;
    use super::super::totals::{Totals, tests::closed};
    use super::*;

    #[test]
    fn what_is_added_is_what_the_intervals_had() {
        let layouts = Layouts { exponential: true, le: false, vmrange: false };
        let (mut totals, mut points) = (Totals::new(&[], 0), Vec::<Point>::new());
        for at in 1..6 {
            let values: Vec<u64> = (0..at as u64).map(|number| 1_000_000 << number).collect();
            totals.add(&closed(at, false, &values), &mut |totals, end_ms| {
                let changes = totals.changes(end_ms, layouts).into_iter();
                let latencies = changes.filter(|(_, reading)| reading.metric == LATENCY);
                points.extend(latencies.map(|(time_ms, reading)| (time_ms, reading.created_ms, reading.value)));
            });
        }
        // A new series starts with nothing.
        let mut previous = Previous::default();
        let added = previous.added("x", &Vec::new(), &points[..4]);
        let counts = |added: &[Added]| -> Vec<(i64, i64, u64)> {
            added.iter().map(|one| (one.start_ms, one.end_ms, one.added.count)).collect()
        };
        assert_eq!(counts(&added), [(1000, 2000, 1), (2000, 3000, 2), (3000, 4000, 3)]);
        let all = merged(added).unwrap();
        assert_eq!((all.start_ms, all.end_ms, all.added.count, all.added.exponential.len()), (1000, 4000, 6, 3));
        assert_eq!(counts(&previous.added("x", &Vec::new(), &points[4..])), [(4000, 5000, 4), (5000, 6000, 5)]);
        // One that went on over a restart is not sent again.
        assert_eq!(counts(&Previous::default().added("x", &Vec::new(), &points[4..])), [(5000, 6000, 5)]);
        assert_eq!(merged(Vec::new()), None);
    }
}
