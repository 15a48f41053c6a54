//! Where a trace is unusual by itself: bands of slow events, intervals with a tail out of line, stalls that
//! recur, changes, outliers, and groups that are slower than their like.

mod apart;
mod grouped;
mod latencies;
mod times;

use super::condition::{Attribute, Condition, filter_of};
use super::{ExplainOptions, Explanation, Side, Table};
use latencies::Latencies;
use latscope_event::{FieldSet, Mask};
use std::ops::Range;

/// So many spots are explained, those with the most waiting time.
const MOST: usize = 8;
/// Of two spots that share so much of both together, one is enough.
const SAME: f64 = 0.7;

/// Why a spot is unusual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpotKind {
    /// Its latencies part from those of most events.
    Band,
    /// A stretch of time with many more slow events than usual.
    Burst,
    /// Slow events that recur in this many nanoseconds.
    Periodic(u64),
    /// From here on, latencies are longer than before.
    Change,
    /// A device, host or job that is slower than the others.
    Straggler,
    /// Fewer events than a band has, far slower than all others.
    Outlier,
}

impl SpotKind {
    /// The word in a table and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            SpotKind::Band => "band",
            SpotKind::Burst => "burst",
            SpotKind::Periodic(_) => "periodic",
            SpotKind::Change => "change",
            SpotKind::Straggler => "straggler",
            SpotKind::Outlier => "outlier",
        }
    }
}

/// Something unusual, and what explains it.
#[derive(Clone, PartialEq, Debug)]
pub struct Spot {
    /// Why it is unusual.
    pub kind: SpotKind,
    /// What selects its events.
    pub conditions: Vec<Condition>,
    /// Its fastest event, its median and its slowest one, nanoseconds, or the same of another quantity in its unit.
    pub latency_ns: [u64; 3],
    /// The median of all other events, nanoseconds.
    pub usual_ns: u64,
    /// When its first and its last event completed, nanoseconds on the clock of the trace.
    pub span_ns: (i64, i64),
    /// What its events have in common beyond chance; the selection are the events of the spot.
    pub explanation: Explanation,
}

impl Spot {
    /// The filter that selects its events.
    pub fn filter(&self) -> Option<String> {
        filter_of(&self.conditions)
    }
}

/// A spot before it is explained.
struct Candidate {
    kind: SpotKind,
    conditions: Vec<Condition>,
    rows: Mask,
}

impl Candidate {
    /// Events with latencies from here on, and below there.
    fn of_latencies(table: &Table, kind: SpotKind, from_ns: u64, below_ns: Option<u64>) -> Candidate {
        let rows = table.of_latencies(from_ns, below_ns);
        Candidate { kind, conditions: vec![latencies(table, from_ns, below_ns)], rows }
    }
}

impl Table {
    /// Finds what is unusual, and explains each; the most waiting first. None in a trace without anything unusual.
    /// Only the fields of `only` explain them, if given.
    pub fn spots(&mut self, seed: u64, only: Option<FieldSet>) -> Vec<Spot> {
        self.complete();
        if self.is_empty() {
            return Vec::new();
        }
        // Of spots with the same events the first is kept: that they recur says more than that they are slow.
        let all = Latencies::new(self, 0..self.len());
        let bands = apart::bands(self, &all);
        let mut found: Vec<Candidate> = times::periodic(self, &bands).into_iter().collect();
        let bursts = times::bursts(self, &all);
        found.extend(bursts);
        found.extend(bands);
        found.extend(apart::outliers(self, &all));
        found.extend(apart::stragglers(self));
        found.extend(times::change(self));
        let found = self.distinct(found);
        found.into_iter().map(|candidate| self.explained(candidate, &all, seed, only)).collect()
    }

    /// The heaviest candidates, without those that are about the same events as one before them.
    fn distinct(&self, found: Vec<Candidate>) -> Vec<Candidate> {
        let mut kept: Vec<Candidate> = Vec::new();
        for candidate in found {
            let is_new = kept.iter().all(|other| {
                let is_one_of_many = matches!(other.kind, SpotKind::Periodic(_)) && candidate.kind == SpotKind::Burst;
                let rows = if is_one_of_many { &candidate.rows } else { &Mask::default() };
                overlap(&candidate.rows, &other.rows) < SAME && part_in(rows, &other.rows) < SAME
            });
            if is_new && candidate.rows.count() > 0 {
                kept.push(candidate);
            }
        }
        kept.sort_by_cached_key(|candidate| std::cmp::Reverse(self.part(candidate.rows.ones()).waiting_ns));
        kept.truncate(MOST);
        kept
    }

    fn explained(&mut self, candidate: Candidate, all: &Latencies, seed: u64, only: Option<FieldSet>) -> Spot {
        let Candidate { kind, conditions, rows } = candidate;
        let sides: Vec<Side> =
            (0..self.len()).map(|row| if rows.get(row) { Side::Selection } else { Side::Baseline }).collect();
        let fields = conditions.iter().filter_map(|condition| match condition.attribute() {
            Attribute::Field(field) => Some(field),
            _ => None,
        });
        let without_time = conditions.iter().any(|condition| condition.attribute() == Attribute::Time);
        // How slow they are is told anyway.
        let without = fields.collect::<FieldSet>().with(&[self.quantity.field()]);
        let options = ExplainOptions { seed, without, only, without_time, in_layer: true };
        let explanation = self.explain(&sides, &options);
        let latencies = Latencies::new(self, rows.ones());
        let [fastest_ns, slowest_ns] = latencies.edges_ns();
        let ends = || rows.ones().map(|row| self.end_ns[row]);
        Spot {
            kind,
            conditions,
            latency_ns: [fastest_ns, latencies.median_ns(), slowest_ns],
            usual_ns: all.median_without_ns(&latencies),
            span_ns: (ends().min().unwrap_or(0), ends().max().unwrap_or(0)),
            explanation,
        }
    }

    /// The rows with latencies from here on, and below there.
    fn of_latencies(&self, from_ns: u64, below_ns: Option<u64>) -> Mask {
        let mut rows = Mask::filled(self.len(), true);
        rows.retain(|row| self.value(row) >= from_ns && below_ns.is_none_or(|below| self.value(row) < below));
        rows
    }

    /// The rows that completed in this time from the start of the trace.
    fn of_times(&self, start_ns: i64, times: &Range<u64>) -> Mask {
        let mut rows = Mask::filled(self.len(), true);
        rows.retain(|row| u64::try_from(self.end_ns[row].saturating_sub(start_ns)).is_ok_and(|at| times.contains(&at)));
        rows
    }
}

/// How much two sets of rows share of both together.
fn overlap(one: &Mask, other: &Mask) -> f64 {
    let pairs = || one.words().iter().zip(other.words());
    let shared: u32 = pairs().map(|(one, other)| (one & other).count_ones()).sum();
    let either: u32 = pairs().map(|(one, other)| (one | other).count_ones()).sum();
    f64::from(shared) / f64::from(either.max(1))
}

/// How much of the first is in the second.
fn part_in(one: &Mask, other: &Mask) -> f64 {
    let shared: u32 = one.words().iter().zip(other.words()).map(|(one, other)| (one & other).count_ones()).sum();
    f64::from(shared) / one.count().max(1) as f64
}

/// Latencies from here on, and below there.
fn latencies(table: &Table, from_ns: u64, below_ns: Option<u64>) -> Condition {
    Condition::Range(Attribute::Field(table.quantity.field()), Some(from_ns), below_ns)
}
