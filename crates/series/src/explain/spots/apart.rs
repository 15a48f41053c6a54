//! What lies apart: bands, which are masses of slow events that part from the main one, and stragglers, which are groups slower than
//! their like.

use super::super::condition::{Attribute, Condition};
use super::super::table::{Column, MISSING, Table};
use super::{Candidate, SpotKind, latencies};
use crate::modes;
use latscope_event::{Field, Mask};
use latscope_histogram::{Grid, Histogram};

/// The modes of all events are looked for, and those among this slowest part of them: few events may hold most of the time.
const SLOWEST: [f64; 3] = [1.0, 0.01, 0.001];
/// A band is so much slower than the main mode, has so many events, and so much of the waiting time.
const SLOWER: u64 = 2;
const FEWEST: u64 = 10;
const LEAST_TIME: f64 = 0.01;

/// What makes groups of the same kind.
const FIELDS: [Field; 3] = [Field::Host, Field::Job, Field::Device];
/// Groups with fewer events are not compared, and of fewer groups none is out of line.
const FEWEST_OF_GROUP: usize = 50;
const GROUPS: usize = 3;
/// The median of a straggler is so many times that of the median group, and that of the next slower one.
const SLOWER_GROUP: u64 = 2;

/// The bands, the one of the most common events first.
pub fn bands(table: &Table) -> Vec<Candidate> {
    let mut sorted = table.latency_ns.clone();
    sorted.sort_unstable();
    let mut found: Vec<(u64, Option<u64>)> = Vec::new();
    let mut main_ns = None;
    for part in SLOWEST {
        let count = (sorted.len() as f64 * part).ceil() as usize;
        if (count as u64) < 2 * FEWEST {
            break;
        }
        let slowest = &sorted[sorted.len() - count..];
        let mut histogram = Histogram::new(Grid::FINE, false);
        slowest.iter().for_each(|&ns| histogram.record(ns, 0));
        let modes = modes(&histogram.to_sparse());
        let main = modes.iter().max_by(|a, b| a.share.total_cmp(&b.share)).map_or(0, |mode| mode.peak_ns);
        let main_ns = *main_ns.get_or_insert(main);
        for (at, mode) in modes.iter().enumerate() {
            // The first of a part is where that was cut off.
            let Some(before) = at.checked_sub(1).map(|at| modes[at]) else { continue };
            let from_ns = between(before.high_ns, mode.low_ns);
            let below_ns = modes.get(at + 1).map(|next| between(mode.high_ns, next.low_ns));
            if mode.peak_ns >= SLOWER * main_ns {
                found.push((from_ns, below_ns));
            }
        }
    }
    let all = table.latency_ns.iter().map(|&ns| u128::from(ns)).sum::<u128>();
    let candidates = found.into_iter().filter_map(|(from_ns, below_ns)| {
        let rows = table.of_latencies(from_ns, below_ns);
        let waiting: u128 = rows.ones().map(|row| u128::from(table.latency_ns[row])).sum();
        let is_band = rows.count() as u64 >= FEWEST && waiting as f64 >= LEAST_TIME * all as f64;
        is_band.then(|| Candidate { kind: SpotKind::Band, conditions: vec![latencies(from_ns, below_ns)], rows })
    });
    candidates.collect()
}

/// A round number between two modes, about in the middle of a logarithmic axis.
fn between(high_ns: u64, low_ns: u64) -> u64 {
    let middle = ((high_ns.max(1) as f64) * (low_ns.max(1) as f64)).sqrt();
    let unit = 10f64.powf(middle.log10().floor() - 1.0).max(1.0);
    ((middle / unit).round() * unit) as u64
}

/// Groups whose median is out of line with those of the others.
pub fn stragglers(table: &Table) -> Vec<Candidate> {
    let columns = FIELDS
        .iter()
        .filter_map(|&field| table.columns.iter().find(|column| column.attribute == Attribute::Field(field)));
    columns.flat_map(|column| of_column(table, column)).collect()
}

fn of_column(table: &Table, column: &Column) -> Vec<Candidate> {
    let mut groups: Vec<Vec<u64>> = vec![Vec::new(); column.labels.len()];
    for (&code, &ns) in column.codes.iter().zip(&table.latency_ns).filter(|(code, _)| **code != MISSING) {
        groups[code as usize].push(ns);
    }
    let mut medians: Vec<(u64, usize)> = Vec::new();
    for (code, latencies) in groups.iter_mut().enumerate().filter(|(_, latencies)| latencies.len() >= FEWEST_OF_GROUP) {
        let middle = latencies.len() / 2;
        medians.push((*latencies.select_nth_unstable(middle).1, code));
    }
    medians.sort_unstable();
    if medians.len() < GROUPS {
        return Vec::new();
    }
    let usual_ns = medians[(medians.len() - 1) / 2].0;
    // From the slowest down, until one is in line with the next.
    let slow = medians.windows(2).rposition(|pair| pair[1].0 >= SLOWER_GROUP * pair[0].0.max(1));
    let Some(first) = slow.map(|at| at + 1).filter(|&first| first > (medians.len() - 1) / 2) else { return Vec::new() };
    let straggler = |&(median_ns, code): &(u64, usize)| {
        let mut rows = Mask::filled(table.len(), true);
        rows.retain(|row| column.codes[row] == code as u32);
        let condition = Condition::Is(column.attribute, column.labels[code].to_string());
        let is_slow = median_ns >= SLOWER_GROUP * usual_ns.max(1);
        is_slow.then(|| Candidate { kind: SpotKind::Straggler, conditions: vec![condition], rows })
    };
    medians[first..].iter().filter_map(straggler).collect()
}
