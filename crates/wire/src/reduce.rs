//! Intervals of a capture as records: what an agent sends.

use crate::{Data, Dictionary, GROUPS_LIMIT, Head, Id, IntervalRow, Parts, Record};
use latscope_event::Tally;
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_series::{HistogramSeries, Weight};
use std::collections::{BTreeMap, HashMap};

/// The label of all groups that are too many.
pub const OTHERS: &str = "(others)";
/// How far back the activity of a group counts, nanoseconds.
const MINUTE_NS: f64 = 60e9;
/// A group that had nothing for so long ends, nanoseconds.
const IDLE_NS: u64 = 600_000_000_000;

/// Makes records of intervals as they pass.
pub struct Reducer {
    run: Id,
    width_ns: u64,
    groups: Groups,
    /// The first interval that has not passed.
    next: Option<i64>,
    sequence: u64,
    tally: Tally,
    /// By how many intervals all are moved.
    moved: i64,
}

impl Reducer {
    /// For intervals of this width, with at most so many groups at a time.
    pub fn new(run: Id, width_ns: u64, most_groups: usize) -> Reducer {
        let groups =
            Groups { most: most_groups, known: HashMap::new(), others: None, numbers: 0, candidates: HashMap::new() };
        Reducer { run, width_ns, groups, next: None, sequence: 0, tally: Tally::default(), moved: 0 }
    }

    /// Moves what follows by about this time, nanoseconds: the clock of a test.
    pub fn move_by(&mut self, ns: i64) {
        self.moved = ns.div_euclid(self.width_ns.max(1) as i64);
    }

    /// The wall clock was set: numbers of intervals that passed may come again.
    pub fn clock_stepped(&mut self) {
        self.next = None;
    }

    /// The records of intervals that passed, with what waited at their ends; the tally is that of the capture so far. Events of an
    /// interval that passed before are a record of their own.
    pub fn records(&mut self, series: &HistogramSeries, before: i64, tally: &Tally) -> Vec<Record> {
        let mut records = Vec::new();
        for &interval in series.slices().keys() {
            let is_late = self.next.is_some_and(|next| interval < next);
            let parts = interval_parts(series, interval).into_iter();
            let parts = parts.map(|(group, parts)| (&*series.groups()[group as usize], parts)).collect();
            let described = self.groups.numbers;
            let groups = self.groups.assign(parts, self.width_ns);
            if let Some((start, new)) = self.groups.described_since(described) {
                records.push(Dictionary::record(self.run, start as usize, &new));
            }
            let covered_ns = if is_late { 0 } else { series.covered_ns(interval) };
            let row = IntervalRow {
                covered_ns,
                is_partial: !is_late && covered_ns < self.width_ns,
                tally: tally.since(&std::mem::replace(&mut self.tally, tally.clone())),
                groups,
            };
            let sequences = self.sequence..=self.sequence;
            let head =
                Head { run: self.run, sequences, start: interval + self.moved, width_ns: self.width_ns, intervals: 1 };
            self.sequence += 1;
            records.push(Data { head, rows: vec![row] }.record());
        }
        self.next = self.next.max(Some(before));
        records
    }
}

/// What completed in an interval and what waited at its end, of each group that has any of it.
pub fn interval_parts(series: &HistogramSeries, interval: i64) -> BTreeMap<u32, Parts> {
    let mut parts = BTreeMap::<u32, Parts>::new();
    let completed = series.slices().get(&interval).map_or(&[][..], |slice| &slice.groups);
    for (group, histogram) in completed.iter().filter(|(_, histogram)| histogram.totals().count > 0) {
        // Weights are bytes, or there are none.
        let done = histogram.clone();
        let done = if series.weight == Weight::Bytes { done.with_weights_as_bytes() } else { done };
        parts.entry(*group).or_default().done = Some(done);
    }
    for group in 0..series.groups().len() as u32 {
        if let Some(ages) = ages(series, interval, group) {
            parts.entry(group).or_default().waiting = Some(ages);
        }
    }
    parts
}

/// The ages of what waited at the end of an interval.
fn ages(series: &HistogramSeries, interval: i64, group: u32) -> Option<Sparse> {
    let waiting = series.waiting(interval, Some(group));
    let mut ages = Histogram::new(Grid::FINE, false);
    waiting.ages_ns().for_each(|age_ns| ages.record(age_ns, 0));
    (waiting.count() > 0).then(|| ages.to_sparse())
}

/// The groups that have numbers of their own.
struct Groups {
    most: usize,
    known: HashMap<Vec<String>, Group>,
    others: Option<u32>,
    /// How many numbers were given.
    numbers: u32,
    /// The activity of groups for which there was no room.
    candidates: HashMap<Vec<String>, f64>,
}

struct Group {
    number: u32,
    /// Events of the last minute, about.
    activity: f64,
    idle_ns: u64,
}

impl Groups {
    /// Histograms by number; those for which there is no room are merged.
    fn assign(&mut self, parts: BTreeMap<&[String], Parts>, width_ns: u64) -> Vec<(u32, Parts)> {
        let kept = (-(width_ns as f64) / MINUTE_NS).exp();
        for group in self.known.values_mut() {
            (group.activity, group.idle_ns) = (group.activity * kept, group.idle_ns.saturating_add(width_ns));
        }
        self.known.retain(|_, group| group.idle_ns < IDLE_NS);
        self.candidates.values_mut().for_each(|activity| *activity *= kept);
        self.candidates.retain(|_, activity| *activity > 0.5);
        let mut rows = BTreeMap::<u32, Parts>::new();
        for (labels, parts) in parts {
            let count = |part: &Option<Sparse>| part.as_ref().map_or(0, |histogram| histogram.totals().count);
            let events = (count(&parts.done) + count(&parts.waiting)) as f64;
            let number = self.number(labels, events);
            let row = rows.entry(number).or_default();
            merge(&mut row.done, parts.done);
            merge(&mut row.waiting, parts.waiting);
        }
        rows.into_iter().collect()
    }

    fn number(&mut self, labels: &[String], events: f64) -> u32 {
        if let Some(group) = self.known.get_mut(labels) {
            (group.activity, group.idle_ns) = (group.activity + events, 0);
            return group.number;
        }
        // One number stays for the others.
        let has_numbers = (self.numbers as usize) < GROUPS_LIMIT - 1;
        if has_numbers && (self.known.len() < self.most || self.takes_place(labels, events)) {
            let activity = self.candidates.remove(labels).unwrap_or(0.0) + events;
            self.known.insert(labels.to_vec(), Group { number: self.numbers, activity, idle_ns: 0 });
            self.numbers += 1;
            return self.numbers - 1;
        }
        *self.others.get_or_insert_with(|| {
            self.numbers += 1;
            self.numbers - 1
        })
    }

    /// Whether a group without a place was so much busier in the last minute than the least busy of the others that it takes its place.
    fn takes_place(&mut self, labels: &[String], events: f64) -> bool {
        if self.candidates.len() >= self.most && !self.candidates.contains_key(labels) {
            return false;
        }
        let activity = self.candidates.entry(labels.to_vec()).or_insert(0.0);
        *activity += events;
        let least = self.known.iter().min_by(|(_, one), (_, other)| one.activity.total_cmp(&other.activity));
        let Some((least, _)) = least.filter(|(_, group)| group.activity * 2.0 < *activity) else { return false };
        let least = least.clone();
        self.known.remove(&least);
        true
    }

    /// The labels of the numbers from this one on.
    fn described_since(&self, start: u32) -> Option<(u32, Vec<Vec<String>>)> {
        let mut new: BTreeMap<u32, Vec<String>> = self
            .known
            .iter()
            .filter(|(_, group)| group.number >= start)
            .map(|(labels, group)| (group.number, labels.clone()))
            .collect();
        let fields = self.known.keys().next().map_or(0, Vec::len);
        if let Some(others) = self.others.filter(|&others| others >= start) {
            new.insert(others, vec![OTHERS.to_string(); fields]);
        }
        // One that came and lost its place at once was never used, and keeps its number.
        let labels = |number| new.get(&number).cloned().unwrap_or_else(|| vec![OTHERS.to_string(); fields]);
        (self.numbers > start).then(|| (start, (start..self.numbers).map(labels).collect()))
    }
}

/// Adds a histogram to another, where there are such.
pub fn merge(sum: &mut Option<Sparse>, more: Option<Sparse>) {
    match (sum, more) {
        (Some(sum), Some(more)) => sum.merge(&more),
        (none @ None, more) => *none = more,
        (Some(_), None) => {}
    }
}
