//! Classic histograms of remote-write: each bucket is a series of its own, so the buckets of one time may come in several requests.

use super::remote_write::milliseconds;
use super::{BUCKETS_LIMIT, Layout, POINTS_LIMIT, Point, Reasons, Refused, unit_ns};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most histograms that are remembered.
const SERIES_LIMIT: usize = 20_000;
/// Most numbers that wait for others.
const PARTS_LIMIT: usize = 1_000_000;
/// So many times of a histogram may be incomplete.
const TIMES_LIMIT: usize = 3;
/// In place of an edge, by its bits: the sum.
const SUM: u64 = u64::MAX;
const INFINITY: u64 = f64::INFINITY.to_bits();

type Labels = BTreeMap<String, String>;

/// A bucket or the sum of a histogram at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The name of the histogram.
    pub name: String,
    /// Its labels, without `le`.
    pub labels: Labels,
    /// Milliseconds since the epoch.
    pub time_ms: u64,
    /// The upper edge of the bucket; `None` for the sum.
    pub edge: Option<f64>,
    /// How many values are not above the edge, or the sum of all.
    pub value: f64,
}

/// What is known of each histogram.
#[derive(Default)]
pub struct Classics {
    series: HashMap<(String, Labels), Series>,
    /// How many numbers wait for others.
    parts: usize,
}

#[derive(Default)]
struct Series {
    /// The keys that the last complete time had.
    keys: BTreeSet<u64>,
    /// The last time that was complete or given up.
    done_ms: u64,
    /// Numbers by edge, of times that are not complete.
    times: BTreeMap<u64, BTreeMap<u64, f64>>,
}

impl Classics {
    /// Adds what came with a request; returns the histograms that are complete now.
    pub fn join(&mut self, parts: Vec<Part>, refused: &mut Reasons) -> Vec<Point> {
        let mut touched = BTreeSet::new();
        for part in parts {
            let key = (part.name, part.labels);
            if self.parts >= PARTS_LIMIT || self.series.len() >= SERIES_LIMIT && !self.series.contains_key(&key) {
                self.forget(part.time_ms);
                refused.add(Refused::Series, 1);
                continue;
            }
            let series = self.series.entry(key.clone()).or_default();
            if part.time_ms > series.done_ms {
                let time = series.times.entry(part.time_ms).or_default();
                let edge = part.edge.map_or(SUM, f64::to_bits);
                self.parts += usize::from(time.insert(edge, part.value).is_none());
                touched.insert(key);
            }
        }
        let mut points = Vec::new();
        for key in touched {
            let Some(series) = self.series.get_mut(&key) else { continue };
            while let Some((time_ms, numbers)) = series.next() {
                self.parts -= numbers.len();
                match point(&key, time_ms, &numbers) {
                    _ if points.len() >= POINTS_LIMIT => refused.add(Refused::Amount, 1),
                    Ok(point) => points.push(point),
                    Err(why) => refused.add(why, 1),
                }
            }
        }
        points
    }

    /// Forgets what has not come for an hour, to have room for others.
    fn forget(&mut self, now_ms: u64) {
        let is_late = |time_ms: u64| time_ms.saturating_add(3_600_000) < now_ms;
        self.series
            .retain(|_, series| !is_late(series.times.last_key_value().map_or(series.done_ms, |(&last, _)| last)));
        self.parts = self.series.values().flat_map(|series| series.times.values()).map(BTreeMap::len).sum();
    }
}

impl Series {
    /// The next time that is complete, or that no more is waited for.
    fn next(&mut self) -> Option<(u64, BTreeMap<u64, f64>)> {
        let waited_enough = self.times.len() > TIMES_LIMIT;
        if waited_enough {
            // The edges may have changed.
            self.keys.clear();
        }
        let (&time_ms, numbers) = self.times.first_key_value()?;
        let mut keys = self.times.values().flat_map(BTreeMap::keys).chain(&self.keys);
        let is_complete = numbers.contains_key(&INFINITY) && keys.all(|key| numbers.contains_key(key));
        // Which edges there are is known from a second time on.
        if !(is_complete && (self.times.len() > 1 || !self.keys.is_empty()) || waited_enough) {
            return None;
        }
        if is_complete {
            self.keys = numbers.keys().copied().collect();
        }
        self.done_ms = time_ms;
        let mut numbers = self.times.remove(&time_ms)?;
        if !is_complete {
            // What is left would be another histogram.
            numbers.remove(&INFINITY);
        }
        Some((time_ms, numbers))
    }
}

/// The histogram of a time.
fn point((name, labels): &(String, Labels), time_ms: u64, numbers: &BTreeMap<u64, f64>) -> Result<Point, Refused> {
    let edges: Vec<f64> = numbers.range(..SUM).map(|(&bits, _)| f64::from_bits(bits)).collect();
    let counts: Vec<f64> = numbers.range(..SUM).map(|(_, &count)| count).collect();
    let is_count = |count: &f64| *count >= 0.0 && *count < 2f64.powi(53) && count.fract() == 0.0;
    if edges.is_empty() {
        // A summary has a sum, and no buckets.
        return Err(Refused::Other);
    }
    if edges.len() > BUCKETS_LIMIT {
        return Err(Refused::Amount);
    }
    let is_whole = edges.last() == Some(&f64::INFINITY) && counts.iter().all(is_count) && counts.is_sorted();
    let time_ns = milliseconds(time_ms).filter(|_| is_whole).ok_or(Refused::Incomplete)?;
    let (mut buckets, mut below) = (BTreeMap::new(), 0);
    for (place, &count) in (0..).zip(&counts) {
        let counted = count as u64 - std::mem::replace(&mut below, count as u64);
        if counted > 0 {
            buckets.insert(place, counted);
        }
    }
    Ok(Point {
        unit_ns: unit_ns(name),
        name: name.clone(),
        labels: labels.clone(),
        time_ns,
        layout: Layout::Explicit(edges[..edges.len() - 1].to_vec()),
        buckets,
        count: below,
        sum: numbers.get(&SUM).copied(),
        ..Point::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [Option<f64>; 4] = [Some(0.01), Some(1.0), Some(f64::INFINITY), None];

    fn part(time_ms: u64, edge: Option<f64>, value: f64) -> Part {
        Part { name: "latency".into(), labels: Labels::new(), time_ms, edge, value }
    }

    fn parts(time_ms: u64, values: &[f64]) -> Vec<Part> {
        EDGES.into_iter().zip(values).map(|(edge, &value)| part(time_ms, edge, value)).collect()
    }

    fn joined(classics: &mut Classics, parts: Vec<Part>) -> (Vec<(i64, u64, usize)>, Reasons) {
        let mut refused = Reasons::default();
        let points = classics.join(parts, &mut refused);
        (points.iter().map(|point| (point.time_ns / 1_000_000, point.count, point.buckets.len())).collect(), refused)
    }

    #[test]
    fn buckets_of_several_requests_are_one_histogram() {
        let mut classics = Classics::default();
        let mut requests = |parts| joined(&mut classics, parts).0;
        assert_eq!(requests(parts(1, &[1.0, 2.0, 2.0, 0.5])), [], "there may be more edges");
        // The second half of a time is a histogram as far as anybody can see.
        assert_eq!(requests(parts(2, &[2.0, 5.0, 6.0, 1.5])[2..].to_vec()), [(1, 2, 2)]);
        assert_eq!(requests(parts(2, &[2.0, 5.0, 6.0, 1.5])[..2].to_vec()), [(2, 6, 3)]);
        assert_eq!(requests(parts(3, &[3.0, 5.0, 6.0, 1.5])), [(3, 6, 3)], "at once from now on");
        assert_eq!(requests(parts(3, &[3.0, 5.0, 6.0, 1.5])), [], "the same again");
    }

    #[test]
    fn what_stays_incomplete_is_refused_and_other_edges_are_learned() {
        let mut classics = Classics::default();
        for time_ms in 1..=2 {
            joined(&mut classics, parts(time_ms, &[1.0, 2.0, 2.0, 0.5]));
        }
        let wider = |time_ms| vec![part(time_ms, Some(0.01), 1.0), part(time_ms, Some(f64::INFINITY), 3.0)];
        let (mut found, mut refused) = (Vec::new(), Reasons::default());
        for time_ms in 3..=7 {
            let (points, reasons) = joined(&mut classics, wider(time_ms));
            found.extend(points);
            refused.merge(&reasons);
        }
        assert_eq!(found.last(), Some(&(7, 3, 2)));
        assert_eq!(found.len() as u64 + refused.count(), 5, "{refused}");
        // A summary is no histogram.
        let summary = |time_ms| Part { name: "summary".into(), ..part(time_ms, None, 1.0) };
        let (points, refused) = joined(&mut classics, (1..=8).map(summary).collect());
        assert_eq!((points.len(), refused.faults()), (0, 0), "{refused}");
        assert!(refused.count() > 0 && classics.parts <= TIMES_LIMIT);
    }
}
