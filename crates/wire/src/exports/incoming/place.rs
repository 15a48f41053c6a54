//! Where pushed histograms belong in a cluster: which host, which group, which intervals.

use super::difference::ranges;
use super::{Nature, Point, Refused};
use crate::cluster::PUSHED;
use crate::exports::metrics::label_name;
use crate::exports::split::spread;
use crate::reduce::OTHERS;
use crate::{Data, Dictionary, GROUPS_LIMIT, Head, Hello, Hub, Id, IntervalRow, Parts, new_id, reduce};
use latscope_event::is_printable;
use latscope_histogram::{Grid, Sparse, Totals};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A bucket that is spread over more of ours than this makes the histogram coarser.
const CELLS_LIMIT: usize = 1024;
/// The coarser grid: 8 buckets to the octave.
const COARSE: u8 = 3;
/// Most intervals that a point is spread over: a day of seconds.
const INTERVALS_LIMIT: i64 = 86_400;
/// Most buckets in intervals of a request.
const PLACES_LIMIT: usize = 1 << 20;
/// Most hosts.
const HOSTS_LIMIT: usize = 1000;
/// The group of what has no such label.
const MISSING: &str = "-";
/// Width of intervals where no agent has set one.
const WIDTH_NS: u64 = 1_000_000_000;
/// The golden ratio of all 64-bit numbers: its multiples are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hosts that push, with what is to be added.
#[derive(Default)]
pub struct Places {
    hosts: HashMap<String, Host>,
    /// Buckets in intervals since the last time they were handed on.
    count: usize,
}

struct Host {
    hello: Hello,
    groups: Vec<Vec<String>>,
    described: usize,
    sequence: u64,
    rows: BTreeMap<i64, BTreeMap<u32, Parts>>,
    rounding: u64,
}

impl Places {
    /// Adds a point to its host; what of it is before `oldest_ns`, nanoseconds since the epoch, is left out. Whether all was added.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn add(&mut self, hub: &Hub, point: &Point, oldest_ns: i64) -> Result<bool, Refused> {
        let Some(histogram) = histogram(point) else { return Err(Refused::Count) };
        let label = |names: &[&str]| names.iter().find_map(|name| point.labels.get(*name)).cloned();
        let name = label(&["host", "host.name", "instance", "service.instance.id"]).unwrap_or_else(|| "pushed".into());
        if self.count >= PLACES_LIMIT {
            return Err(Refused::Amount);
        }
        let has_room = self.hosts.len() < HOSTS_LIMIT;
        let host = match self.hosts.entry(name) {
            Entry::Occupied(host) => host.into_mut(),
            Entry::Vacant(_) if !has_room => return Err(Refused::Hosts),
            Entry::Vacant(place) => {
                let host = Host::new(hub, place.key().clone())?;
                place.insert(host)
            }
        };
        let group = host.group(point);
        let (count, is_all) = host.add(group, &histogram, point, oldest_ns);
        self.count += count;
        Ok(is_all)
    }

    /// Hands on what was added; sentences about what the hub does not take.
    pub fn send(&mut self, hub: &Hub) -> Vec<String> {
        self.count = 0;
        self.hosts.values_mut().filter_map(|host| host.send(hub).err()).collect()
    }
}

/// The label of a group, under its own name or that of OpenTelemetry.
fn field_label(point: &Point, field: &str) -> String {
    let other = match field {
        "device" => "system.device",
        "kind" => "disk.io.direction",
        field => field,
    };
    let found = [field, &label_name(field), other].into_iter().find_map(|name| point.labels.get(name));
    found.map_or_else(|| MISSING.to_string(), String::clone)
}

impl Host {
    fn new(hub: &Hub, name: String) -> Result<Host, Refused> {
        if name.is_empty() || !name.chars().all(is_printable) {
            return Err(Refused::Name);
        }
        let (width_ns, fields) = hub.shape().unwrap_or_else(|| (WIDTH_NS, vec!["device".into(), "kind".into()]));
        let (source, filter) = (PUSHED.into(), String::new());
        let run: Id = new_id().map_err(|_| Refused::Hosts)?;
        let hello = Hello { run, host: name, source, filter, width_ns, fields, is_wall: true };
        hub.take_pushed(&hello, Vec::new()).map_err(|_| Refused::Hosts)?;
        Ok(Host { hello, groups: Vec::new(), described: 0, sequence: 0, rows: BTreeMap::new(), rounding: 0 })
    }

    /// The number of the group of a point.
    fn group(&mut self, point: &Point) -> u32 {
        let mut labels: Vec<String> = self.hello.fields.iter().map(|field| field_label(point, field)).collect();
        if self.groups.len() >= GROUPS_LIMIT - 1 && !self.groups.contains(&labels) {
            labels.fill(OTHERS.into());
        }
        let known = self.groups.iter().position(|group| *group == labels);
        let number = known.unwrap_or_else(|| {
            self.groups.push(labels);
            self.groups.len() - 1
        });
        number as u32
    }

    /// Spreads a point evenly over the time since the one before. Returns in how many buckets of intervals it is, and whether all of
    /// it is in one.
    fn add(&mut self, group: u32, histogram: &Sparse, point: &Point, oldest_ns: i64) -> (usize, bool) {
        let width_ns = self.hello.width_ns as i64;
        // An interval has what completed before its end.
        let last = (point.time_ns - 1).div_euclid(width_ns);
        if point.nature == Nature::Gauge {
            let parts = self.rows.entry(last).or_default().entry(group).or_default();
            reduce::merge(&mut parts.waiting, Some(histogram.clone()));
            return (histogram.indices().len(), true);
        }
        let start_ns = point.start_ns.unwrap_or(point.time_ns - 1).min(point.time_ns - 1);
        let most = most_intervals(histogram, start_ns, point.time_ns, width_ns);
        let oldest = oldest_ns.div_euclid(width_ns).max(last - most + 1);
        let (mut count, mut placed) = (0, 0);
        let time = Time { ns: start_ns..point.time_ns, width_ns, oldest };
        for (interval, part) in parts(histogram, &time, &mut self.rounding) {
            (count, placed) = (count + part.indices().len(), placed + part.totals().count);
            let parts = self.rows.entry(interval).or_default().entry(group).or_default();
            reduce::merge(&mut parts.done, Some(part));
        }
        (count, placed == histogram.totals().count)
    }

    fn send(&mut self, hub: &Hub) -> Result<(), String> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut records = Vec::new();
        if self.groups.len() > self.described {
            records.push(Dictionary::record(self.hello.run, self.described, &self.groups[self.described..]));
            self.described = self.groups.len();
        }
        for (interval, groups) in std::mem::take(&mut self.rows) {
            let sequences = self.sequence..=self.sequence;
            self.sequence += 1;
            let width_ns = self.hello.width_ns;
            let head = Head { run: self.hello.run, sequences, start: interval, width_ns, intervals: 1 };
            let groups = groups.into_iter().collect();
            let row = IntervalRow { covered_ns: width_ns, groups, ..IntervalRow::default() };
            records.push(Data { head, rows: vec![row] }.record());
        }
        hub.take_pushed(&self.hello, records)
    }
}

/// Most intervals that a histogram may be spread over.
fn most_intervals(histogram: &Sparse, start_ns: i64, end_ns: i64, width_ns: i64) -> i64 {
    let intervals = (end_ns.abs_diff(start_ns) / width_ns.unsigned_abs().max(1) + 2).min(INTERVALS_LIMIT as u64);
    let places: u64 = histogram.counts().iter().map(|&count| count.min(intervals)).sum();
    if places <= PLACES_LIMIT as u64 { INTERVALS_LIMIT } else { (PLACES_LIMIT / histogram.indices().len()) as i64 }
}

/// What a histogram is spread over.
struct Time {
    /// Nanoseconds since the epoch.
    ns: Range<i64>,
    /// Width of the intervals, nanoseconds.
    width_ns: i64,
    /// The first interval that is asked for.
    oldest: i64,
}

/// A histogram by intervals; those without events are left out. The events of a bucket are as evenly distributed as whole numbers can
/// be, and none is lost: up to a moment there are as many as their share, rounded. `rounding` is another for each bucket, so that
/// single events of many buckets do not meet in one interval.
fn parts(histogram: &Sparse, time: &Time, rounding: &mut u64) -> Vec<(i64, Sparse)> {
    let (start_ns, all_ns) = (time.ns.start, u128::from(time.ns.end.abs_diff(time.ns.start).max(1)));
    // How much of the time is before an interval.
    let before_ns = |interval: i64| {
        let ns = i128::from(interval) * i128::from(time.width_ns) - i128::from(start_ns);
        u128::try_from(ns).unwrap_or(0).min(all_ns)
    };
    let mut found = BTreeMap::<i64, BTreeMap<u32, u64>>::new();
    for (index, count, _) in histogram.buckets() {
        *rounding = rounding.wrapping_add(GOLDEN);
        let (rounded, count) = ((all_ns * u128::from(*rounding)) >> 64, u128::from(count));
        let upto = |interval: i64| (count * before_ns(interval) + rounded) / all_ns;
        let mut below = upto(time.oldest);
        while below < count {
            // When there is one more.
            let next_ns = ((below + 1) * all_ns - rounded).div_ceil(count).max(1) - 1;
            let interval = start_ns.saturating_add(next_ns as i64).div_euclid(time.width_ns);
            let part = upto(interval + 1).min(count) - std::mem::replace(&mut below, upto(interval + 1));
            found.entry(interval).or_default().insert(index as u32, part as u64);
        }
    }
    let limits = Some((histogram.totals().min, histogram.totals().max));
    let part = |(interval, buckets)| Some((interval, sparse(histogram.grid(), &buckets, None, limits)?));
    with_sums(found.into_iter().filter_map(part).collect(), histogram.totals())
}

/// Parts of a histogram with their shares of its sum, as far as their values can have them.
fn with_sums(parts: Vec<(i64, Sparse)>, whole: &Totals) -> Vec<(i64, Sparse)> {
    let bounds = |totals: &Totals| {
        let count = u128::from(totals.count);
        (count * u128::from(totals.min), count * u128::from(totals.max))
    };
    let (mut count, mut least, mut room) = (0, 0u128, 0u128);
    for (_, part) in &parts {
        let (lower, upper) = bounds(part.totals());
        (count, least, room) = (count + part.totals().count, least + lower, room + (upper - lower));
    }
    let share =
        if count == whole.count { whole.sum } else { (whole.sum as f64 * (count as f64 / whole.count as f64)) as u128 };
    let more = share.saturating_sub(least).min(room);
    let (mut below, mut counted) = (0, 0);
    let part = |(interval, part): (i64, Sparse)| {
        let (lower, upper) = bounds(part.totals());
        below += upper - lower;
        let upto = if below == room { more } else { ((more as f64 * (below as f64 / room as f64)) as u128).min(more) };
        let sum = lower + upto.saturating_sub(std::mem::replace(&mut counted, upto));
        let totals = Totals { sum, ..*part.totals() };
        let (indices, counts) = (part.indices().to_vec(), part.counts().to_vec());
        Some((interval, Sparse::from_parts(part.grid(), indices, counts, None, totals).ok()?))
    };
    parts.into_iter().filter_map(part).collect()
}

/// Buckets of ours from those of a point; `None` for a point without buckets.
fn histogram(point: &Point) -> Option<Sparse> {
    let ranges = ranges(point);
    let is_wide = |&(start, end, _): &(u64, u64, u64)| Grid::FINE.index(end) - Grid::FINE.index(start) > CELLS_LIMIT;
    let grid = if ranges.iter().any(is_wide) { Grid::with_power(COARSE)? } else { Grid::FINE };
    let mut buckets = BTreeMap::new();
    ranges.iter().for_each(|&(start, end, count)| spread(grid, count, start..=end, &mut buckets));
    let ns = |value: f64| (value * point.unit_ns).clamp(0.0, u64::MAX as f64);
    let sum = point.sum.filter(|sum| *sum >= 0.0).map(|sum| (sum * point.unit_ns) as u128);
    sparse(grid, &buckets, sum, point.limits.map(|(min, max)| (ns(min) as u64, ns(max) as u64)))
}

/// A histogram of these buckets; without a sum, that of their middles, and limits within the outermost ones.
fn sparse(grid: Grid, buckets: &BTreeMap<u32, u64>, sum: Option<u128>, limits: Option<(u64, u64)>) -> Option<Sparse> {
    let (&first, &last) = buckets.keys().next().zip(buckets.keys().next_back())?;
    let within = |value: u64, index: u32| value.clamp(grid.lower(index as usize), grid.upper(index as usize));
    let (min, max) = limits.unwrap_or((0, u64::MAX));
    let (min, max) = (within(min, first), within(max, last));
    let (min, max) = (min.min(max), max.max(min));
    let middles = buckets.iter().map(|(&index, &count)| u128::from(grid.middle(index as usize)) * u128::from(count));
    let count = buckets.values().try_fold(0u64, |sum, &count| sum.checked_add(count))?;
    let totals = Totals { count, sum: sum.unwrap_or_else(|| middles.sum()), min, max, bytes: None };
    Sparse::from_parts(grid, buckets.keys().copied().collect(), buckets.values().copied().collect(), None, totals).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_stay_near_their_bucket() {
        let point = Point {
            layout: Layout::Exponential { schema: 3, zero_threshold: 0.0 },
            buckets: [(-80, 31), (-79, 5), (-20, 1)].into(),
            count: 37,
            sum: Some(0.5),
            ..Point::default()
        };
        let whole = histogram(&point).unwrap();
        assert_eq!((whole.totals().count, whole.totals().sum), (37, 500_000_000));
        // No value moves further than the bucket of ours that it is in.
        let edges = crate::exports::split::Edges::exponential(3);
        let mut back = BTreeMap::new();
        edges.split(&whole, &mut back);
        assert!(back.keys().all(|index| (-81..=-78).contains(index) || (-21..=-19).contains(index)), "{back:?}");
    }

    fn seconds(ns: Range<i64>) -> Time {
        Time { ns, width_ns: 1_000_000_000, oldest: i64::MIN }
    }

    /// What is too old is left out, and the rest has its share of the time.
    #[test]
    fn a_day_is_not_squeezed() {
        let mut histogram = latscope_histogram::Histogram::new(Grid::FINE, false);
        histogram.record_many(1_000_000, 86_400_000, 0);
        let time = Time { oldest: 86_000, ..seconds(0..86_400_000_000_000) };
        let parts = parts(&histogram.to_sparse(), &time, &mut 0);
        let counts: Vec<u64> = parts.iter().map(|(_, part)| part.totals().count).collect();
        assert_eq!((parts[0].0, counts.len()), (86_000, 400));
        assert!(counts.iter().all(|count| count.abs_diff(1000) <= 1), "{counts:?}");
        let sums: Vec<u128> = parts.iter().map(|(_, part)| part.totals().sum / 1_000_000).collect();
        assert!(sums.iter().all(|sum| sum.abs_diff(1000) <= 2), "{sums:?}");
    }

    /// One event of each bucket in ten seconds: they are not all in the last one.
    #[test]
    fn single_events_are_spread_over_time() {
        let mut histogram = latscope_histogram::Histogram::new(Grid::FINE, false);
        (0..100).for_each(|number| histogram.record(10_000_000 + number * 1_000_000, 0));
        let parts = parts(&histogram.to_sparse(), &seconds(0..10_000_000_000), &mut 0);
        let counts: Vec<u64> = parts.iter().map(|(_, part)| part.totals().count).collect();
        assert_eq!(counts.len(), 10);
        assert!(counts.iter().all(|count| (8..=12).contains(count)), "{counts:?}");
    }

    /// Half a second at each end has half as many.
    #[test]
    fn intervals_have_their_share_of_the_time() {
        let mut histogram = latscope_histogram::Histogram::new(Grid::FINE, false);
        histogram.record_many(1_000_000, 1000, 0);
        let parts = parts(&histogram.to_sparse(), &seconds(500_000_000..10_500_000_000), &mut 0);
        let counts: Vec<(i64, u64)> = parts.iter().map(|(at, part)| (*at, part.totals().count)).collect();
        assert_eq!((counts.len(), counts[0].0), (11, 0));
        let near = |(at, count): (i64, u64)| count.abs_diff(if at % 10 == 0 { 50 } else { 100 }) <= 1;
        assert!(counts.iter().all(|&count| near(count)), "{counts:?}");
    }

    proptest! {
        /// Each bucket has as many as before, each interval its share of them, up to less than one, and sums add up.
        #[test]
        fn nothing_is_lost_over_intervals(
            buckets in proptest::collection::vec((0u32..50, 1u64..1_000_000_000), 1..20),
            scale in 0u32..30,
            start in -5_000_000_000i64..5_000_000_000,
            length in 1i64..120_000_000_000,
            width in prop::sample::select(vec![100_000_000i64, 1_000_000_000, 7_000_000_000]),
            mut rounding: u64,
        ) {
            let mut whole = latscope_histogram::Histogram::new(Grid::FINE, false);
            buckets.iter().for_each(|&(bits, count)| whole.record_many(1 << bits, (count >> scale).max(1), 0));
            let whole = whole.to_sparse();
            let (mut merged, mut before) = (None, i64::MIN);
            let time = Time { ns: start..start + length, width_ns: width, oldest: i64::MIN };
            for (interval, part) in parts(&whole, &time, &mut rounding) {
                prop_assert!(interval > before && part.totals().count > 0);
                before = interval;
                let (lower, upper) = ((interval * width).max(start), ((interval + 1) * width).min(start + length));
                prop_assert!(lower < upper);
                let share = (upper - lower) as f64 / length as f64;
                for (index, count, _) in part.buckets() {
                    let all = whole.buckets().find(|bucket| bucket.0 == index).unwrap().1;
                    prop_assert!((count as f64 - all as f64 * share).abs() < 1.001, "{} of {} for {}", count, all, share);
                }
                reduce::merge(&mut merged, Some(part));
            }
            let merged = merged.unwrap();
            prop_assert_eq!((merged.indices(), merged.counts()), (whole.indices(), whole.counts()));
            prop_assert_eq!(merged.totals().sum, whole.totals().sum);
        }
    }

    #[test]
    fn wide_buckets_make_it_coarser() {
        let point =
            Point { buckets: [(0, 5)].into(), count: 5, layout: Layout::Explicit(vec![1e6]), ..Point::default() };
        assert_eq!(histogram(&point).unwrap().grid().power(), COARSE);
        assert_eq!(histogram(&Point::default()), None);
    }
}
