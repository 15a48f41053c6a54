//! Which candidates become findings: two together where both matter, and one name for what selects the same events.

use super::column::{Codes, SUPPORT};
use super::condition::{Attribute, Condition};
use super::score::Counts;
use super::table::{Side, Table};
use latscope_event::{Field, Mask};

/// So many of the best candidates are combined, and so many of one column.
const COMBINED: usize = 24;
const OF_COLUMN: usize = 4;
/// Two together have to be better than each alone by this divergence.
const GAIN: f64 = 0.01;
/// A smaller divergence is no explanation, however certain it is.
pub(super) const LEAST_DIVERGENCE: f64 = 0.005;
/// Candidates are of the same events where so many of those of either are of both: in the selection, and in the baseline.
const SAME: [f64; 2] = [0.9, 0.75];
/// And where so few of the baseline are of either that it does not matter which.
const FEW: f64 = 0.002;
/// A name is shared where so many of the events of each side have it.
const COVERED: f64 = 0.98;
/// A name that parts the sides by less is not worth its words.
const NAMING: f64 = 0.05;
/// Of the same events the most telling candidate is named unless another one is better by more than this part.
const NEAR: f64 = 0.95;

/// One or two values, and the events that have them.
#[derive(Clone)]
pub(super) struct Candidate {
    /// The columns of the values.
    columns: Vec<usize>,
    pub conditions: Vec<Condition>,
    pub counts: Counts,
    rows: Mask,
}

impl Candidate {
    pub fn new(table: &Table, sides: &Sides, column: usize, codes: Codes, condition: Condition) -> Candidate {
        let mut rows = Mask::filled(table.len(), true);
        let values = &table.columns[column].codes;
        rows.retain(|row| codes.contains(values[row]));
        let counts = sides.counts(&rows);
        Candidate { columns: vec![column], conditions: vec![condition], counts, rows }
    }

    /// What this and another one have in common, the more telling name first.
    fn with(&self, other: &Candidate, sides: &Sides) -> Candidate {
        let mut rows = self.rows.clone();
        rows.and(&other.rows);
        let mut conditions: Vec<Condition> = self.conditions.iter().chain(&other.conditions).cloned().collect();
        conditions.sort_by_key(|condition| condition.attribute().place());
        let counts = sides.counts(&rows);
        Candidate { columns: self.columns.iter().chain(&other.columns).copied().collect(), conditions, counts, rows }
    }

    /// Whether attributes that have a meaning on one device only (offset, region) come with a device.
    pub fn is_of_one_device(&self) -> bool {
        let attributes = || self.conditions.iter().map(Condition::attribute);
        !attributes().any(Attribute::is_of_a_device) || attributes().any(|one| one == Attribute::Field(Field::Device))
    }

    /// By which candidates are ranked.
    pub fn rank(&self) -> f64 {
        let merits = self.conditions.iter().map(|condition| condition.attribute().merit());
        self.counts.divergence() * merits.fold(1.0, f64::min)
    }

    /// Whether it is a single name that parts the sides well.
    fn is_a_name(&self) -> bool {
        let [condition] = &self.conditions[..] else { return false };
        condition.attribute().is_a_name() && self.counts.divergence() >= NAMING
    }

    /// The smaller, the more its names tell; of equal ones the fewer conditions.
    fn place(&self) -> (usize, usize) {
        let places = self.conditions.iter().map(|condition| condition.attribute().place());
        (places.max().unwrap_or(usize::MAX), self.columns.len())
    }

    pub fn rows(&self) -> &Mask {
        &self.rows
    }
}

/// The sides as masks.
pub(super) struct Sides {
    pub masks: [Mask; 2],
    all: [u64; 2],
}

impl Sides {
    pub fn new(sides: &[Side]) -> Sides {
        let masks = [Side::Selection, Side::Baseline].map(|side| {
            let mut mask = Mask::filled(sides.len(), true);
            mask.retain(|row| sides[row] == side);
            mask
        });
        let all = [masks[0].count() as u64, masks[1].count() as u64];
        Sides { masks, all }
    }

    fn counts(&self, rows: &Mask) -> Counts {
        Counts { with: [both(rows, &self.masks[0]), both(rows, &self.masks[1])], all: self.all }
    }
}

/// How many bits are set in both.
fn both(one: &Mask, other: &Mask) -> u64 {
    one.words().iter().zip(other.words()).map(|(one, other)| u64::from((one & other).count_ones())).sum()
}

/// Adds the candidates of two values where both matter.
pub(super) fn combine(candidates: &mut Vec<Candidate>, sides: &Sides, level: f64) {
    candidates.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
    let mut chosen: Vec<usize> = Vec::new();
    for at in 0..candidates.len() {
        let column = candidates[at].columns[0];
        let of_column = chosen.iter().filter(|&&other| candidates[other].columns[0] == column).count();
        if chosen.len() < COMBINED && of_column < OF_COLUMN {
            chosen.push(at);
        }
    }
    let mut pairs = Vec::new();
    for (place, &one) in chosen.iter().enumerate() {
        for &other in &chosen[place + 1..] {
            pairs.extend(pair(&candidates[one], &candidates[other], sides, level));
        }
    }
    candidates.extend(pairs);
}

/// Both together, if each matters where the other holds.
fn pair(one: &Candidate, other: &Candidate, sides: &Sides, level: f64) -> Option<Candidate> {
    let [a, b] = [one, other].map(|candidate| candidate.conditions[0].attribute());
    if a.is_like(b) || one.counts.g2().max(other.counts.g2()) <= level {
        return None;
    }
    let both = one.with(other, sides);
    let best = one.counts.divergence().max(other.counts.divergence());
    let has_support = both.counts.selected_share() >= SUPPORT && both.counts.divergence() > best + GAIN;
    let matters = |within: &Candidate| {
        let inside = Counts { with: both.counts.with, all: within.counts.with };
        inside.selected_share() > inside.baseline_share() && inside.g2() > level
    };
    (has_support && matters(one) && matters(other)).then_some(both)
}

/// One explanation: the candidate that names it, and others that select the same events.
pub(super) struct Explained {
    pub candidate: Candidate,
    pub same: Vec<Candidate>,
}

/// The best candidates, each about events that those before do not explain.
pub(super) fn fold(mut candidates: Vec<Candidate>, sides: &Sides, level: f64) -> Vec<Explained> {
    candidates.retain(|one| one.counts.g2() > level && one.counts.divergence() >= LEAST_DIVERGENCE);
    candidates.sort_by(|a, b| b.rank().total_cmp(&a.rank()).then_with(|| a.place().cmp(&b.place())));
    let names: Vec<Candidate> = candidates.iter().filter(|one| one.is_a_name()).cloned().collect();
    let mut explained: Vec<Explained> = Vec::new();
    let mut covered = Mask::filled(sides.masks[0].len(), false);
    while let Some(at) = candidates.iter().position(|one| explains_more(one, &covered, sides, level)) {
        let best = candidates.remove(at);
        let (mut same, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| is_same(one, &best, sides));
        candidates = others;
        let near =
            same.iter().enumerate().filter(|(_, one)| one.rank() >= NEAR * best.rank() && one.place() < best.place());
        let telling = near.min_by_key(|(_, one)| one.place()).map(|(at, _)| at);
        let candidate = match telling {
            Some(at) => std::mem::replace(&mut same[at], best),
            None => best,
        };
        let candidate = named_fully(candidate, &names, sides);
        covered.or(&candidate.rows);
        // What has a part of the name says nothing new.
        same.retain(|one| !one.conditions.iter().any(|condition| candidate.conditions.contains(condition)));
        explained.push(Explained { candidate, same });
    }
    explained
}

/// A candidate of one condition with the most telling name that nearly all of its events share, and that is a difference, too: of a
/// device that is slow, what it was asked for.
fn named_fully(candidate: Candidate, names: &[Candidate], sides: &Sides) -> Candidate {
    let [condition] = &candidate.conditions[..] else { return candidate };
    let attribute = condition.attribute();
    let shared = names.iter().filter_map(|other| {
        let name = other.conditions[0].attribute();
        let both = (!name.is_like(attribute)).then(|| candidate.with(other, sides))?;
        let covers = (0..2).all(|side| both.counts.with[side] as f64 >= COVERED * candidate.counts.with[side] as f64);
        covers.then_some((name.place(), both))
    });
    shared.min_by_key(|(place, _)| *place).map_or(candidate.clone(), |(_, both)| both)
}

/// Whether a candidate parts the sides also among the events that are not covered yet.
fn explains_more(one: &Candidate, covered: &Mask, sides: &Sides, level: f64) -> bool {
    let [selected, baseline] = &sides.masks;
    let left = |mask: &Mask| {
        let mut left = mask.clone();
        left.and_not(covered);
        left
    };
    let (rows, [selected, baseline]) = (left(&one.rows), [left(selected), left(baseline)]);
    let counts = Counts {
        with: [both(&rows, &selected), both(&rows, &baseline)],
        all: [selected.count() as u64, baseline.count() as u64],
    };
    counts.with[0] as f64 >= SUPPORT * sides.all[0] as f64
        && counts.selected_share() > counts.baseline_share()
        && counts.g2() > level
}

/// Whether two candidates select nearly the same events.
fn is_same(one: &Candidate, other: &Candidate, sides: &Sides) -> bool {
    let mut rows = one.rows.clone();
    rows.and(&other.rows);
    (0..2).all(|side| {
        let shared = both(&rows, &sides.masks[side]);
        let either = one.counts.with[side] + other.counts.with[side] - shared;
        shared as f64 >= SAME[side] * either as f64 || side == 1 && (either as f64) < FEW * sides.all[1] as f64
    })
}
