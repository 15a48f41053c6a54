//! Intervals added up since a start, by group: what counters of other systems are.

use super::metrics::{
    BYTES, Buckets, Distribution, HOSTS, IN_FLIGHT, LAG, LATE, LATENCY, LOST, Labels, Layouts, MISSING, OLDEST,
    Reading, Value, WAITING, label_name,
};
use super::split::{Edges, coarser};
use crate::reduce::OTHERS;
use crate::{Closed, Merged};
use latscope_event::Severity;
use latscope_histogram::Sparse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Resolution of exponential buckets at the start: 8 to the octave.
pub const SCHEMA: i8 = 3;
/// With more exponential buckets than this, a series becomes coarser.
const BUCKETS_LIMIT: usize = 160;
/// Most groups; what is in further ones is added up.
const GROUPS_LIMIT: usize = 400;
/// A group without events for so long ends.
const IDLE_MS: i64 = 600_000;

/// The buckets of all layouts.
pub struct Grids {
    exponential: Edges,
    le: Edges,
    vmrange: Edges,
}

impl Default for Grids {
    fn default() -> Grids {
        Grids { exponential: Edges::exponential(SCHEMA), le: Edges::le(), vmrange: Edges::vmrange() }
    }
}

/// Latencies added up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub sum_ns: u128,
    /// It only falls.
    pub schema: i8,
    /// Counts of exponential buckets, by the indices of Prometheus.
    pub exponential: BTreeMap<i32, u64>,
    /// Counts by the place of the edge.
    pub le: BTreeMap<i32, u64>,
    /// Counts of decimal buckets.
    pub vmrange: BTreeMap<i32, u64>,
}

impl Default for Sum {
    fn default() -> Sum {
        let [exponential, le, vmrange] = [(); 3].map(|()| BTreeMap::new());
        Sum { count: 0, sum_ns: 0, schema: SCHEMA, exponential, le, vmrange }
    }
}

impl Sum {
    /// Adds the histogram of an interval.
    pub fn add(&mut self, histogram: &Sparse, grids: &Grids) {
        self.count += histogram.totals().count;
        self.sum_ns += histogram.totals().sum;
        grids.le.split(histogram, &mut self.le);
        grids.vmrange.split(histogram, &mut self.vmrange);
        let mut parts = BTreeMap::new();
        grids.exponential.split(histogram, &mut parts);
        for _ in self.schema..SCHEMA {
            parts = coarser(&parts);
        }
        parts.into_iter().for_each(|(index, count)| *self.exponential.entry(index).or_insert(0) += count);
        while self.exponential.len() > BUCKETS_LIMIT && self.schema > -4 {
            self.exponential = coarser(&self.exponential);
            self.schema -= 1;
        }
    }

    /// With the buckets that are wanted.
    pub fn distribution(&self, layouts: Layouts) -> Distribution {
        let buckets = |wanted: bool, counts: &BTreeMap<i32, u64>| -> Buckets {
            if wanted { counts.iter().map(|(&index, &count)| (index, count)).collect() } else { Vec::new() }
        };
        Distribution {
            count: self.count,
            sum_ns: self.sum_ns,
            schema: self.schema,
            exponential: buckets(layouts.exponential, &self.exponential),
            le: buckets(layouts.le, &self.le),
            vmrange: buckets(layouts.vmrange, &self.vmrange),
        }
    }
}

/// A group.
pub struct Group {
    /// Since when it counts, milliseconds since the epoch.
    pub created_ms: i64,
    /// Its latencies.
    pub sum: Sum,
    /// The bytes that it moved, and since when they count, milliseconds since the epoch. Where a host does not know them, they count
    /// anew afterwards.
    pub bytes: Option<(i64, u64)>,
    /// Ages of what waits.
    waiting: Option<Sparse>,
    /// The end of the interval in which it last changed, milliseconds since the epoch.
    changed_ms: i64,
    /// It was never read at the end of an interval.
    is_new: bool,
}

impl Group {
    /// As it was before a restart.
    pub fn restored(created_ms: i64, changed_ms: i64, sum: Sum, bytes: Option<(i64, u64)>) -> Group {
        Group { created_ms, sum, bytes, waiting: None, changed_ms, is_new: false }
    }
}

/// Everything that is exported, added up since a start.
pub struct Totals {
    grids: Arc<Grids>,
    /// Labels of every series.
    own: Labels,
    /// Since when what has no group counts, milliseconds since the epoch.
    pub(super) created_ms: i64,
    pub(super) fields: Vec<String>,
    pub(super) groups: BTreeMap<Arc<[String]>, Group>,
    pub(super) lost: BTreeMap<String, u64>,
    pub(super) late: u64,
    hosts: Option<(u64, u64)>,
    /// The end of the last interval that is in it, nanoseconds since the epoch. What was closed before is in it, too.
    pub(super) end_ns: i64,
    /// Of the state that it was restored from, until the first intervals come.
    pub(super) restored_ns: Option<i64>,
}

impl Totals {
    /// Without intervals; the labels are put on every series.
    pub fn new(own: &[(String, String)], now_ms: i64) -> Totals {
        let mut own: Labels = own.iter().map(|(name, value)| (label_name(name), value.clone())).collect();
        own.sort();
        Totals {
            grids: Arc::default(),
            own,
            created_ms: now_ms,
            fields: Vec::new(),
            groups: BTreeMap::new(),
            lost: BTreeMap::new(),
            late: 0,
            hosts: None,
            end_ns: i64::MIN,
            restored_ns: None,
        }
    }

    /// Adds what was merged. At the end of each interval, `each` is called with its time, milliseconds since the epoch. What came
    /// late is in the next one.
    pub fn add(&mut self, closed: &Closed, each: &mut dyn FnMut(&Totals, i64)) {
        self.fields.clone_from(&closed.fields);
        self.hosts = closed.hosts.or(self.hosts);
        let width_ns = closed.width_ns as i64;
        self.groups.values_mut().for_each(|group| group.waiting = None);
        let start_ns =
            closed.intervals.first().map_or(self.created_ms * 1_000_000, |merged| merged.interval * width_ns);
        let start_ms = start_ns.max(self.end_ns) / 1_000_000;
        for (labels, ages) in &closed.waiting {
            let waiting = &mut self.group(labels, start_ms).waiting;
            crate::reduce::merge(waiting, Some(ages.clone()));
        }
        for merged in &closed.intervals {
            let (start_ns, end_ns) = (merged.interval * width_ns, (merged.interval + 1) * width_ns);
            if !merged.is_late && self.restored_ns.is_some_and(|restored_ns| end_ns <= restored_ns) {
                continue;
            }
            self.late += u64::from(merged.is_late);
            self.add_merged(merged, start_ns.max(self.end_ns) / 1_000_000, end_ns.max(self.end_ns) / 1_000_000);
            if end_ns > self.end_ns {
                self.end_ns = end_ns;
                each(self, end_ns / 1_000_000);
                self.groups.values_mut().for_each(|group| group.is_new = false);
            }
        }
        // What was closed before a restart is closed again at once.
        if !closed.intervals.is_empty() {
            self.restored_ns = None;
        }
    }

    /// Whether it has something for intervals that were over before.
    pub fn has_late(&self, closed: &Closed) -> bool {
        let end_ns = |merged: &Merged| (merged.interval + 1).saturating_mul(closed.width_ns as i64);
        closed.intervals.iter().any(|merged| merged.is_late || end_ns(merged) <= self.end_ns)
    }

    /// Labels of every series.
    pub fn own(&self) -> &Labels {
        &self.own
    }

    /// The end of the last interval, milliseconds since the epoch; `None` before the first one.
    pub fn end_ms(&self) -> Option<i64> {
        (self.end_ns > i64::MIN).then_some(self.end_ns / 1_000_000)
    }

    fn add_merged(&mut self, merged: &Merged, start_ms: i64, end_ms: i64) {
        for (labels, done) in &merged.done {
            let grids = Arc::clone(&self.grids);
            let group = self.group(labels, start_ms);
            group.sum.add(done, &grids);
            let (since_ms, before) = group.bytes.unwrap_or((start_ms, 0));
            group.bytes = done.totals().bytes.map(|more| (since_ms, before.saturating_add(more)));
            group.changed_ms = end_ms;
        }
        for (anomaly, count) in merged.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost) {
            *self.lost.entry(anomaly.key().to_string()).or_insert(0) += count;
        }
    }

    fn group(&mut self, labels: &Arc<[String]>, start_ms: i64) -> &mut Group {
        let is_full = self.groups.len() >= GROUPS_LIMIT && !self.groups.contains_key(labels);
        let labels = if is_full { vec![OTHERS.to_string(); labels.len()].into() } else { Arc::clone(labels) };
        self.groups.entry(labels).or_insert_with(|| Group {
            created_ms: start_ms,
            sum: Sum::default(),
            bytes: None,
            waiting: None,
            changed_ms: start_ms,
            is_new: true,
        })
    }

    /// What changed in the interval that ended at this time; a new series starts with nothing, so that its first events count.
    pub fn changes(&self, end_ms: i64, layouts: Layouts) -> Vec<(i64, Reading)> {
        let mut readings = Vec::new();
        for (labels, group) in self.groups.iter().filter(|(_, group)| group.changed_ms == end_ms || group.is_new) {
            let labels = self.labels(labels);
            let reading = |sum: &Sum| {
                let value = Value::Distribution(Box::new(sum.distribution(layouts)));
                Reading { metric: LATENCY, labels: labels.clone(), created_ms: group.created_ms, value }
            };
            if group.is_new {
                readings.push((group.created_ms, reading(&Sum { schema: group.sum.schema, ..Sum::default() })));
            }
            readings.push((end_ms, reading(&group.sum)));
            if let Some((created_ms, bytes)) = group.bytes {
                let at = |value| Reading { metric: BYTES, labels: labels.clone(), created_ms, value };
                // As above, a new series starts with nothing.
                readings.extend(group.is_new.then(|| (created_ms, at(Value::Number(0.0)))));
                readings.push((end_ms, at(Value::Number(bytes as f64))));
            }
        }
        for (labels, group) in self.groups.iter().filter(|(_, group)| group.waiting.is_some()) {
            let labels = self.labels(labels);
            readings.extend(self.waiting(group, &labels, layouts).into_iter().map(|reading| (end_ms, reading)));
        }
        readings
    }

    /// All series that have not ended.
    pub fn readings(&self, now_ms: i64, layouts: Layouts) -> Vec<Reading> {
        let mut readings = Vec::new();
        for (labels, group) in &self.groups {
            let labels = self.labels(labels);
            let is_over = group.waiting.is_none() && group.changed_ms < now_ms - IDLE_MS;
            if is_over && group.changed_ms < now_ms - 2 * IDLE_MS {
                continue;
            }
            let value = match is_over {
                true => Value::Ended,
                false => Value::Distribution(Box::new(group.sum.distribution(layouts))),
            };
            readings.push(Reading { metric: LATENCY, labels: labels.clone(), created_ms: group.created_ms, value });
            readings.extend(group.bytes.map(|(created_ms, bytes)| {
                let value = if is_over { Value::Ended } else { Value::Number(bytes as f64) };
                Reading { metric: BYTES, labels: labels.clone(), created_ms, value }
            }));
            match is_over {
                true => readings.extend([WAITING, OLDEST, IN_FLIGHT].map(|metric| {
                    let (labels, created_ms) = (labels.clone(), group.created_ms);
                    Reading { metric, labels, created_ms, value: Value::Ended }
                })),
                false => readings.extend(self.waiting(group, &labels, layouts)),
            }
        }
        for (kind, &count) in &self.lost {
            let mut labels = self.own.clone();
            labels.push(("kind".into(), kind.clone()));
            labels.sort();
            labels.dedup_by(|one, other| one.0 == other.0);
            readings.push(self.number(LOST, labels, count as f64));
        }
        if let Some((present, missing)) = self.hosts.filter(|_| self.end_ns > i64::MIN) {
            let lag = (now_ms - self.end_ns / 1_000_000).max(0) as f64 / 1e3;
            let numbers = [(HOSTS, present as f64), (MISSING, missing as f64), (LAG, lag), (LATE, self.late as f64)];
            readings.extend(numbers.map(|(metric, value)| self.number(metric, self.own.clone(), value)));
        }
        readings.sort_by_key(|reading| reading.metric);
        readings
    }

    fn number(&self, metric: usize, labels: Labels, value: f64) -> Reading {
        Reading { metric, labels, created_ms: self.created_ms, value: Value::Number(value) }
    }

    fn waiting(&self, group: &Group, labels: &Labels, layouts: Layouts) -> [Reading; 3] {
        let mut ages = Sum::default();
        if let Some(waiting) = &group.waiting {
            ages.add(waiting, &self.grids);
        }
        let oldest = group.waiting.as_ref().map_or(0, |waiting| waiting.totals().max);
        let (count, created_ms) = (ages.count as f64, group.created_ms);
        let reading = |metric, value| Reading { metric, labels: labels.clone(), created_ms, value };
        [
            reading(WAITING, Value::Distribution(Box::new(ages.distribution(layouts)))),
            reading(OLDEST, Value::Number(oldest as f64 / 1e9)),
            reading(IN_FLIGHT, Value::Number(count)),
        ]
    }

    /// Those of a group; what is put on every series wins.
    fn labels(&self, group: &[String]) -> Labels {
        let mut labels = self.own.clone();
        for (field, label) in self.fields.iter().zip(group) {
            let name = label_name(field);
            if labels.iter().all(|(known, _)| *known != name) {
                labels.push((name, label.clone()));
            }
        }
        labels.sort();
        labels
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use latscope_event::{Anomaly, Tally};
    use latscope_histogram::{Grid, Histogram};

    /// An interval with these latencies of one group.
    pub fn closed(interval: i64, is_late: bool, values: &[u64]) -> Closed {
        let mut histogram = Histogram::new(Grid::FINE, false);
        values.iter().for_each(|&value| histogram.record(value, 0));
        let labels: Arc<[String]> = vec!["sda".to_string(), "read".to_string()].into();
        let done = if values.is_empty() { Vec::new() } else { vec![(labels, histogram.to_sparse())] };
        let intervals = vec![Merged { interval, is_late, done, tally: Tally::default() }];
        let fields = vec!["device".to_string(), "kind".to_string()];
        Closed { width_ns: 1_000_000_000, fields, intervals, waiting: Vec::new(), hosts: Some((1, 0)) }
    }

    const ALL: Layouts = Layouts { exponential: true, le: true, vmrange: true };

    fn count(readings: &[Reading]) -> u64 {
        let of = |reading: &Reading| match &reading.value {
            Value::Distribution(distribution) if reading.metric == LATENCY => distribution.count,
            _ => 0,
        };
        readings.iter().map(of).sum()
    }

    /// A counter of bytes is that of all hosts; where one does not know them, it ends and starts anew.
    #[test]
    fn bytes_are_counted_while_all_hosts_know_them() {
        let mut totals = Totals::new(&[], 99_000);
        let mut seen = Vec::new();
        for (at, bytes) in [(100, Some(10)), (101, Some(5)), (102, None), (103, Some(7)), (104, Some(1))] {
            let mut closed = closed(at, false, &[1000]);
            closed.intervals[0].done[0].1.set_bytes(bytes);
            totals.add(&closed, &mut |totals, end_ms| {
                let bytes = totals.changes(end_ms, ALL).into_iter().filter(|(_, reading)| reading.metric == BYTES);
                seen.extend(bytes.map(|(time_ms, reading)| (time_ms, reading.created_ms, reading.value)));
            });
        }
        let number = |time_ms, created_ms, value: f64| (time_ms, created_ms, Value::Number(value));
        assert_eq!(
            seen,
            [
                number(100_000, 100_000, 0.0),
                number(101_000, 100_000, 10.0),
                number(102_000, 100_000, 15.0),
                number(104_000, 103_000, 7.0),
                number(105_000, 103_000, 8.0),
            ]
        );
    }

    #[test]
    fn what_comes_late_is_in_the_next_sample() {
        let mut totals = Totals::new(&[("host".into(), "n1".into())], 99_000);
        let mut samples = Vec::new();
        let mut add = |closed: &Closed| {
            totals.add(closed, &mut |totals, end_ms| samples.extend(totals.changes(end_ms, ALL)));
        };
        add(&closed(100, false, &[1000, 2000]));
        add(&closed(99, true, &[3000]));
        add(&closed(98, false, &[3000]));
        add(&closed(101, false, &[4000]));
        let times: Vec<(i64, u64)> =
            samples.iter().map(|(time_ms, reading)| (*time_ms, count(std::slice::from_ref(reading)))).collect();
        assert_eq!(times, [(100_000, 0), (101_000, 2), (102_000, 5)]);
        let labels = [("device", "sda"), ("host", "n1"), ("kind", "read")];
        assert_eq!(samples[0].1.labels, labels.map(|(name, value)| (name.to_string(), value.to_string())));
        let readings = totals.readings(102_000, ALL);
        assert_eq!(count(&readings), 5);
        let late = readings.iter().find(|reading| reading.metric == LATE).unwrap();
        assert_eq!(late.value, Value::Number(1.0));
    }

    #[test]
    fn groups_end_and_are_limited() {
        let mut totals = Totals::new(&[], 0);
        totals.add(&closed(1, false, &[1000]), &mut |_, _| ());
        let ended = |now_ms: i64, totals: &Totals| {
            totals.readings(now_ms, ALL).iter().filter(|reading| reading.value == Value::Ended).count()
        };
        assert_eq!([3_000, 700_000, 2_000_000].map(|now_ms| ended(now_ms, &totals)), [0, 4, 0]);
        let mut many = closed(2, false, &[1000]);
        let done = many.intervals[0].done[0].1.clone();
        let label = |number: usize| -> Arc<[String]> { vec![number.to_string(), "read".to_string()].into() };
        many.intervals[0].done = (0..1000).map(|number| (label(number), done.clone())).collect();
        many.intervals[0].tally.add(Anomaly::LostRecords, 7);
        totals.add(&many, &mut |_, _| ());
        assert_eq!(totals.groups.len(), GROUPS_LIMIT + 1);
        let readings = totals.readings(3000, ALL);
        assert_eq!(count(&readings), 1001);
        assert!(readings.iter().any(|reading| reading.metric == LOST && reading.value == Value::Number(7.0)));
    }

    #[test]
    fn too_many_buckets_become_coarser_and_stay_so() {
        let (grids, mut sum) = (Grids::default(), Sum::default());
        let mut wide = Histogram::new(Grid::FINE, false);
        (0..64).for_each(|bit| (0..8).for_each(|part| wide.record((1 << bit) + (1 << bit) / 8 * part, 0)));
        sum.add(&wide.to_sparse(), &grids);
        assert!(sum.schema < SCHEMA && sum.exponential.len() <= BUCKETS_LIMIT, "{}", sum.schema);
        let schema = sum.schema;
        let mut narrow = Histogram::new(Grid::FINE, false);
        narrow.record(1_000_000, 0);
        sum.add(&narrow.to_sparse(), &grids);
        assert_eq!((sum.schema, sum.exponential.values().sum::<u64>()), (schema, 64 * 8 + 1));
        let edges = Edges::exponential(schema);
        assert!(sum.exponential.contains_key(&edges.index(1_000_000)));
    }
}
