//! When it was unusual: bursts of slow events, stalls that recur, and a change for the worse.

use super::super::condition::{Attribute, Condition};
use super::super::table::{Table, round_width};
use super::grouped::Grouped;
use super::latencies::Latencies;
use super::{Candidate, SpotKind, latencies};
use crate::period::{period, period_above};
use crate::{HistogramSeries, Quantity, Weight};
use latscope_histogram::{Grid, Histogram};
use std::collections::BTreeMap;

/// A trace is divided into about so many intervals, and into so many where slow events may recur.
const INTERVALS: u64 = 100;
const FINE_INTERVALS: u64 = 500;
/// Slow events are the slowest part.
const SLOW: f64 = 0.01;
/// A burst has so many slow events, so many times more than usual, and so many standard deviations.
const FEWEST: f64 = 10.0;
const MORE: f64 = 4.0;
const DEVIATIONS: f64 = 6.0;
/// What is usual is not out of line: at most this part of the intervals is.
const MOST: f64 = 0.25;
/// A change: so many intervals on both sides, and medians that differ by this factor, and by so many standard errors.
const SIDE: usize = 8;
const FACTOR: f64 = 1.5;
const ERRORS: f64 = 8.0;

/// Intervals of a trace with what completed in them, from the start of the trace.
struct Intervals {
    start_ns: i64,
    width_ns: u64,
    rows: Grouped,
}

impl Intervals {
    /// About so many; `None` where the start of the trace is not known, or the trace is no longer than a moment.
    fn new(table: &Table, about: u64) -> Option<Intervals> {
        let start_ns = table.start_ns?;
        let last_ns = table.end_ns.iter().max()?.saturating_sub(start_ns);
        let width_ns = round_width(u64::try_from(last_ns).ok()? / about);
        if table.end_ns.iter().any(|&end| end < start_ns) || last_ns <= 0 {
            return None;
        }
        let interval = |end: &i64| ((end - start_ns) as u64 / width_ns) as usize;
        let rows = Grouped::new((last_ns as u64 / width_ns + 1) as usize, |add| {
            table.end_ns.iter().for_each(|end| add(interval(end)));
        });
        Some(Intervals { start_ns, width_ns, rows })
    }

    /// The events of these intervals.
    fn candidate(
        &self,
        table: &Table,
        kind: SpotKind,
        (from, to): (usize, Option<usize>),
        slow_ns: Option<u64>,
    ) -> Candidate {
        let edge = |at: usize| at as u64 * self.width_ns;
        let time = Condition::Range(Attribute::Time, (from > 0).then(|| edge(from)), to.map(edge));
        let mut rows = table.of_times(self.start_ns, &(edge(from)..to.map_or(u64::MAX, edge)));
        if let Some(slow_ns) = slow_ns {
            rows.and(&table.of_latencies(slow_ns, None));
        }
        let is_all = from == 0 && to.is_none();
        let times = if is_all { None } else { Some(time) };
        Candidate {
            kind,
            conditions: times.into_iter().chain(slow_ns.map(|ns| latencies(table, ns, None))).collect(),
            rows,
        }
    }
}

/// Stretches of time with many more slow events than usual; `all` are the latencies of all rows.
pub fn bursts(table: &Table, all: &Latencies) -> Vec<Candidate> {
    let Some(intervals) = Intervals::new(table, INTERVALS) else { return Vec::new() };
    let slow_ns = all.slow_ns((all.events_of(all.len()) as f64 * SLOW).ceil() as u64);
    let count = |interval: usize| {
        let (mut slow, mut all) = (0, 0);
        for row in intervals.rows.rows(interval) {
            let weight = table.weight(row);
            all += weight;
            slow += if table.value(row) >= slow_ns { weight } else { 0 };
        }
        (slow as f64, all as f64)
    };
    let counts: Vec<(f64, f64)> = (0..intervals.rows.len()).map(count).collect();
    let mut shares: Vec<f64> = counts.iter().filter(|(_, all)| *all > 0.0).map(|(slow, all)| slow / all).collect();
    shares.sort_by(f64::total_cmp);
    let usual = shares.get(shares.len() / 2).copied().unwrap_or(0.0);
    let is_out = |&(slow, all): &(f64, f64)| {
        let expected = usual * all;
        slow >= FEWEST && slow >= MORE * expected && slow > expected + DEVIATIONS * expected.max(1.0).sqrt()
    };
    let out: Vec<usize> = (0..counts.len()).filter(|&at| is_out(&counts[at])).collect();
    if out.len() as f64 > MOST * counts.len() as f64 {
        return Vec::new();
    }
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for at in out {
        match stretches.last_mut() {
            // One interval between them does not make two.
            Some((_, to)) if at <= *to + 1 => *to = at + 1,
            _ => stretches.push((at, at + 1)),
        }
    }
    let burst = |(from, to)| intervals.candidate(table, SpotKind::Burst, (from, Some(to)), Some(slow_ns));
    stretches.into_iter().map(burst).collect()
}

/// Slow events that recur: the slowest, or those of a band. A stall may hit fewer events than are slow for another reason, but it
/// makes a band of its own.
pub fn periodic(table: &Table, bands: &[Candidate]) -> Option<Candidate> {
    let intervals = Intervals::new(table, FINE_INTERVALS)?;
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), intervals.width_ns);
    for at in 0..intervals.rows.len() {
        let mut histogram = Histogram::new(Grid::FINE, false);
        intervals.rows.rows(at).for_each(|row| histogram.record_many(table.value(row), table.weight(row), 0));
        series.insert(at as i64, Vec::new(), &histogram.to_sparse()).ok()?;
    }
    let series = [series];
    let of_bands = bands.iter().flat_map(|band| &band.conditions).filter_map(|condition| match condition {
        Condition::Range(_, Some(from_ns), _) => period_above(&series, *from_ns),
        _ => None,
    });
    let found = period(&series).into_iter().chain(of_bands);
    let found = found.max_by(|a, b| a.correlation.total_cmp(&b.correlation))?;
    let slow_ns = Grid::FINE.lower(Grid::FINE.index(found.slow_ns) + 1);
    Some(intervals.candidate(table, SpotKind::Periodic(found.period_ns), (0, None), Some(slow_ns)))
}

/// Where latencies become longer, and stay so.
pub fn change(table: &Table) -> Option<Candidate> {
    let intervals = Intervals::new(table, INTERVALS)?;
    // The logarithm of the median of each interval that has events.
    let medians: BTreeMap<usize, f64> = (0..intervals.rows.len())
        .filter(|&at| intervals.rows.rows(at).len() > 0)
        .map(|at| (at, (Latencies::new(table, intervals.rows.rows(at)).median_ns() as f64).max(1.0).ln()))
        .collect();
    let (places, values): (Vec<usize>, Vec<f64>) = medians.into_iter().unzip();
    let candidates = (SIDE..values.len().saturating_sub(SIDE)).map(|at| {
        let (before, after) = values.split_at(at);
        (at, mean(after) - mean(before), spread(before).max(spread(after)))
    });
    let error = |at: usize, spread: f64| spread * (1.0 / at as f64 + 1.0 / (values.len() - at) as f64).sqrt();
    let best = candidates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_change = best.1 >= FACTOR.ln() && best.1 > ERRORS * error(best.0, best.2);
    is_change.then(|| intervals.candidate(table, SpotKind::Change, (places[best.0], None), None))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The standard deviation, from successive differences: a change in between does not count.
fn spread(values: &[f64]) -> f64 {
    let squares: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2) / 2.0).collect();
    mean(&squares).sqrt()
}
