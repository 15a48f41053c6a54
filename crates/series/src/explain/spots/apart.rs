//! What lies apart: bands, which are masses of slow events that part from the main one, outliers, and stragglers, which are groups slower than their like.

use super::super::column::Codes;
use super::super::condition::{Attribute, Condition};
use super::super::table::{Column, Table};
use super::grouped::Grouped;
use super::latencies::Latencies;
use super::{Candidate, SpotKind};
use crate::modes;
use latscope_event::Field;

/// Modes are looked for in all events and in so much of the slowest of them, because few events may hold most of the time; where
/// one part is cut off in the middle of a mode, another one has it whole.
const SLOWEST: [f64; 8] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003];
/// A band is so much slower than the main mode, has so many events, and so much of the waiting time.
const SLOWER: u64 = 2;
const FEWEST: u64 = 10;
const LEAST_TIME: f64 = 0.01;
/// A stretch without any event parts two bands if its end is so many times its start.
const GAP: u64 = 3;
/// Fewer events are apart if they are so many times slower than all others, and have so much of the waiting time.
const FAR: u64 = 8;
const MUCH_TIME: f64 = 0.05;

/// What makes groups of the same kind.
const FIELDS: [Field; 3] = [Field::Host, Field::Job, Field::Device];
/// Groups with fewer events are not compared, and of fewer groups none is out of line.
const FEWEST_OF_GROUP: usize = 50;
const GROUPS: usize = 3;
/// The median of a straggler is so many times that of the median group, and that of the next slower one.
const SLOWER_GROUP: u64 = 2;

/// The bands, from the fastest to the slowest; none overlaps another. `all` are the latencies of all rows.
pub fn bands(table: &Table, all: &Latencies) -> Vec<Candidate> {
    let mut edges = edges(all);
    edges.sort_unstable();
    let mut kept: Vec<u64> = Vec::new();
    for from_ns in edges.into_iter().rev() {
        // Between two edges lies a band, or they are one. Rows, not what they stand for, are how much is known.
        let below = kept.last().map_or(all.len(), |&ns| all.rows_below(ns));
        if below - all.rows_below(from_ns) >= FEWEST as usize {
            kept.push(from_ns);
        }
    }
    kept.reverse();
    let waiting_ns = table.total().waiting_ns;
    let ends = kept.iter().skip(1).copied().map(Some).chain([None]);
    let band = |(&from_ns, below_ns)| {
        let candidate = Candidate::of_latencies(table, SpotKind::Band, from_ns, below_ns);
        let is_much = table.part(candidate.rows.ones()).waiting_ns as f64 >= LEAST_TIME * waiting_ns as f64;
        is_much.then_some(candidate)
    };
    kept.iter().zip(ends).filter_map(band).collect()
}

/// Where latencies part: at valleys of their distribution, and at gaps.
fn edges(all: &Latencies) -> Vec<u64> {
    let events = all.events_of(all.len());
    let mut edges = Vec::new();
    let mut main_ns = None;
    for part in SLOWEST {
        let slowest = (events as f64 * part).ceil() as u64;
        if slowest < 2 * FEWEST {
            break;
        }
        let modes = modes(&all.slowest(slowest).to_sparse());
        let main = modes.iter().max_by(|a, b| a.share.total_cmp(&b.share)).map_or(0, |mode| mode.peak_ns);
        let main_ns = *main_ns.get_or_insert(main);
        // The first mode of a part is where that was cut off.
        let pairs = modes.windows(2).filter(|pair| pair[1].peak_ns >= SLOWER * main_ns);
        edges.extend(pairs.map(|pair| between(pair[0].high_ns, pair[1].low_ns)));
    }
    let sorted = &all.sorted_ns;
    let middle_ns = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let pairs = sorted.windows(2).map(|pair| (pair[0], pair[1]));
    let gaps = pairs.filter(|&(before, behind)| behind / GAP >= before.max(1) && behind > SLOWER * middle_ns);
    edges.extend(gaps.map(|(before, behind)| between(before, behind)));
    edges
}

/// Few events that are far slower than all others.
pub fn outliers(table: &Table, all: &Latencies) -> Option<Candidate> {
    let few = (FEWEST as usize).min(all.len().checked_sub(1)?);
    let slowest = &all.sorted_ns[all.len() - few - 1..];
    // Behind the first of them there are enough for a band.
    let gap = (1..few).find(|&at| slowest[at + 1] / FAR >= slowest[at].max(1))?;
    let candidate = Candidate::of_latencies(table, SpotKind::Outlier, between(slowest[gap], slowest[gap + 1]), None);
    let waiting_ns = table.part(candidate.rows.ones()).waiting_ns;
    (waiting_ns as f64 >= MUCH_TIME * table.total().waiting_ns as f64).then_some(candidate)
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
    let groups = Grouped::new(column.labels.len(), |add| column.codes.each(|code| add(code as usize)));
    let mut medians: Vec<(u64, usize)> = (0..groups.len())
        .filter(|&code| groups.rows(code).len() >= FEWEST_OF_GROUP)
        .map(|code| (Latencies::new(table, groups.rows(code)).median_ns(), code))
        .collect();
    medians.sort_unstable();
    if medians.len() < GROUPS {
        return Vec::new();
    }
    let usual_ns = medians[(medians.len() - 1) / 2].0;
    // From the slowest down, until one is in line with the next.
    let slow = medians.windows(2).rposition(|pair| pair[1].0 >= SLOWER_GROUP * pair[0].0.max(1));
    let Some(first) = slow.map(|at| at + 1).filter(|&first| first > (medians.len() - 1) / 2) else { return Vec::new() };
    let straggler = |&(median_ns, code): &(u64, usize)| {
        let rows = column.codes.mask(Codes::Range(code, code + 1));
        let condition = Condition::Is(column.attribute, column.labels[code].to_string());
        let is_slow = median_ns >= SLOWER_GROUP * usual_ns.max(1);
        is_slow.then(|| Candidate { kind: SpotKind::Straggler, conditions: vec![condition], rows })
    };
    medians[first..].iter().filter_map(straggler).collect()
}
