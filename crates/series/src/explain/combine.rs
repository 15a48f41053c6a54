//! Which candidates become findings: two or three together where each matters, and one name for what selects the same events.

use super::column::{Codes, SUPPORT, Tally};
use super::condition::{Attribute, Condition};
use super::score::Counts;
use super::sides::Sides;
use super::table::{Column, Table};
use latscope_event::{Field, Mask};

/// So many of the best candidates are combined, and so many of one column; and so many of the best pairs with a third one.
const COMBINED: usize = 24;
const PAIRS: usize = 12;
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

/// One, two or three values, and the events that have them.
#[derive(Clone)]
pub(super) struct Candidate {
    /// The columns of the values.
    columns: Vec<usize>,
    pub conditions: Vec<Condition>,
    pub counts: Counts,
    /// A bit for each selected row, and a bit for every row of the table that is set for those of the baseline.
    rows: [Mask; 2],
}

impl Candidate {
    /// The rows with these codes of a column, of which `tally` has the counts.
    pub fn new(table: &Table, sides: &Sides, at: usize, codes: Codes, tally: &Tally) -> Candidate {
        let column = &table.columns[at];
        let mut rows = column.mask(codes);
        let selected = sides.of_selected(&rows);
        rows.and(&sides.masks[1]);
        let (conditions, counts) = (vec![codes.condition(column, tally)], tally.counts(codes));
        Candidate { columns: vec![at], conditions, counts, rows: [selected, rows] }
    }

    /// What this and another one have in common, the more telling name first; `counts` are of that.
    fn with(&self, other: &Candidate, counts: Counts) -> Candidate {
        let mut rows = self.rows.clone();
        rows.iter_mut().zip(&other.rows).for_each(|(rows, other)| rows.and(other));
        let mut conditions: Vec<Condition> = self.conditions.iter().chain(&other.conditions).cloned().collect();
        conditions.sort_by_key(|condition| condition.attribute().place());
        Candidate { columns: self.columns.iter().chain(&other.columns).copied().collect(), conditions, counts, rows }
    }

    /// The counts of what this and another one have in common.
    fn shared(&self, other: &Candidate) -> Counts {
        Counts { with: [0, 1].map(|side| both(&self.rows[side], &other.rows[side])), all: self.counts.all }
    }

    /// As [`Candidate::shared`], if that is enough of the selection to explain something.
    fn shared_by_many(&self, other: &Candidate) -> Option<Counts> {
        let all = self.counts.all;
        let selected = Counts { with: [both(&self.rows[0], &other.rows[0]), 0], all };
        // Few rows are counted before many.
        (selected.selected_share() >= SUPPORT)
            .then(|| Counts { with: [selected.with[0], both(&self.rows[1], &other.rows[1])], all })
    }

    /// Whether attributes that have a meaning on one device only (offset, region) come with a device, or differ on the devices
    /// themselves: else they merely stand for one.
    /// `tally` has the rows by device.
    pub fn is_more_than_a_device(&self, sides: &Sides, devices: &Column, tally: &Tally, level: f64) -> bool {
        let attributes = || self.conditions.iter().map(Condition::attribute);
        if !attributes().any(Attribute::is_of_a_device)
            || attributes().any(|one| one == Attribute::Field(Field::Device))
        {
            return true;
        }
        let mut of_device: Vec<Counts> = tally.counts.iter().map(|&all| Counts { with: [0; 2], all }).collect();
        let mut add = |row: usize, side: usize| {
            of_device[(devices.codes.get(row) as usize).min(devices.len())].with[side] += 1;
        };
        self.selected_rows(sides).for_each(|row| add(row, 0));
        self.baseline_rows().for_each(|row| add(row, 1));
        let more = of_device.iter().filter(|counts| counts.selected_share() > counts.baseline_share());
        more.map(Counts::g2).sum::<f64>() > level
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

    /// Whether chance does not explain it, and it explains something.
    pub fn is_difference(&self, level: f64) -> bool {
        self.counts.g2() > level && self.counts.divergence() >= LEAST_DIVERGENCE
    }

    /// Its rows of the selection.
    pub fn selected_rows<'a>(&'a self, sides: &'a Sides) -> impl Iterator<Item = usize> + 'a {
        self.rows[0].ones().map(|at| sides.selected[at] as usize)
    }

    /// Its rows of the baseline.
    pub fn baseline_rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows[1].ones()
    }
}

/// How many bits are set in both.
fn both(one: &Mask, other: &Mask) -> u64 {
    one.words().iter().zip(other.words()).map(|(one, other)| u64::from((one & other).count_ones())).sum()
}

/// Adds the candidates of two values where both matter, and of three.
pub(super) fn combine(candidates: &mut Vec<Candidate>, level: f64) {
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
            pairs.extend(pair(&candidates[one], &candidates[other], level).map(|both| (both, [one, other])));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| b.rank().total_cmp(&a.rank()));
    let mut triples: Vec<Candidate> = Vec::new();
    for (both, [one, other]) in pairs.iter().take(PAIRS) {
        for third in chosen.iter().filter(|third| ![one, other].contains(third)) {
            let [one, other, third] = [*one, *other, *third].map(|at| &candidates[at]);
            let triple = triple(both, [one, other], third, level);
            // Found from each of its pairs.
            triples.extend(triple.filter(|found| !triples.iter().any(|known| known.conditions == found.conditions)));
        }
    }
    candidates.extend(pairs.into_iter().map(|(both, _)| both));
    candidates.extend(triples);
}

/// All three together, if each matters where the other two hold, and no two of them do as well.
fn triple(both: &Candidate, [one, other]: [&Candidate; 2], third: &Candidate, level: f64) -> Option<Candidate> {
    let attribute = third.conditions[0].attribute();
    if both.conditions.iter().any(|condition| condition.attribute().is_like(attribute)) {
        return None;
    }
    let all = both.shared_by_many(third)?;
    let is_better = |than: Counts| all.divergence() > than.divergence() + GAIN;
    let holds = |without: Counts| is_better(without) && matters(all, without, level);
    let is_one = is_better(third.counts) && holds(both.counts);
    (is_one && holds(one.shared(third)) && holds(other.shared(third))).then(|| both.with(third, all))
}

/// Whether what is more in a candidate than in another one matters among the events of that.
fn matters(candidate: Counts, within: Counts, level: f64) -> bool {
    let inside = Counts { with: candidate.with, all: within.with };
    inside.selected_share() > inside.baseline_share() && inside.g2() > level
}

/// Both together, if each matters where the other holds.
fn pair(one: &Candidate, other: &Candidate, level: f64) -> Option<Candidate> {
    let [a, b] = [one, other].map(|candidate| candidate.conditions[0].attribute());
    if a.is_like(b) || one.counts.g2().max(other.counts.g2()) <= level {
        return None;
    }
    let both = one.shared_by_many(other)?;
    let best = one.counts.divergence().max(other.counts.divergence());
    let is_better = both.divergence() > best + GAIN;
    let matter = is_better && [one, other].iter().all(|one| matters(both, one.counts, level));
    matter.then(|| one.with(other, both))
}

/// One explanation: the candidate that names it, and others that select the same events.
pub(super) struct Explained {
    pub candidate: Candidate,
    pub same: Vec<Candidate>,
}

/// The best of candidates that are [differences](Candidate::is_difference), each about events that those before do not explain.
pub(super) fn fold(mut candidates: Vec<Candidate>, sides: &Sides, level: f64) -> Vec<Explained> {
    candidates.sort_by(|a, b| b.rank().total_cmp(&a.rank()).then_with(|| a.place().cmp(&b.place())));
    let names: Vec<Candidate> = candidates.iter().filter(|one| one.is_a_name()).cloned().collect();
    let mut explained: Vec<Explained> = Vec::new();
    let mut covered = [sides.selected.len(), sides.masks[1].len()].map(|len| Mask::filled(len, false));
    while let Some(at) = candidates.iter().position(|one| explains_more(one, &covered, level)) {
        let best = candidates.remove(at);
        let (mut same, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| is_same(one, &best));
        candidates = others;
        let near =
            same.iter().enumerate().filter(|(_, one)| one.rank() >= NEAR * best.rank() && one.place() < best.place());
        let telling = near.min_by_key(|(_, one)| one.place()).map(|(at, _)| at);
        let candidate = match telling {
            Some(at) => std::mem::replace(&mut same[at], best),
            None => best,
        };
        let candidate = named_fully(candidate, &names);
        covered.iter_mut().zip(&candidate.rows).for_each(|(covered, rows)| covered.or(rows));
        // What has a part of the name says nothing new.
        same.retain(|one| !one.conditions.iter().any(|condition| candidate.conditions.contains(condition)));
        same.sort_by_key(|one| one.conditions.len());
        explained.push(Explained { candidate, same });
    }
    explained
}

/// A candidate of one condition with the most telling name that nearly all of its events share, and that is a difference, too: of a
/// device that is slow, what it was asked for.
fn named_fully(candidate: Candidate, names: &[Candidate]) -> Candidate {
    let [condition] = &candidate.conditions[..] else { return candidate };
    let attribute = condition.attribute();
    let shared = names.iter().filter_map(|other| {
        let name = other.conditions[0].attribute();
        // What selects the same events is another name of them, not a second condition.
        let is_second = !name.is_like(attribute) && !is_same(other, &candidate);
        let both = is_second.then(|| candidate.shared(other))?;
        let covers = (0..2).all(|side| both.with[side] as f64 >= COVERED * candidate.counts.with[side] as f64);
        covers.then_some((name.place(), other, both))
    });
    match shared.min_by_key(|(place, ..)| *place) {
        Some((_, other, both)) => candidate.with(other, both),
        None => candidate,
    }
}

/// Whether a candidate parts the sides also among the events that are not covered yet.
fn explains_more(one: &Candidate, covered: &[Mask; 2], level: f64) -> bool {
    let left = |side: usize| one.counts.with[side] - both(&one.rows[side], &covered[side]);
    let counts = Counts {
        with: [left(0), left(1)],
        all: [0, 1].map(|side| one.counts.all[side] - covered[side].count() as u64),
    };
    counts.with[0] as f64 >= SUPPORT * one.counts.all[0] as f64
        && counts.selected_share() > counts.baseline_share()
        && counts.g2() > level
}

/// Whether two candidates select nearly the same events.
fn is_same(one: &Candidate, other: &Candidate) -> bool {
    (0..2).all(|side| {
        let shared = both(&one.rows[side], &other.rows[side]);
        let either = one.counts.with[side] + other.counts.with[side] - shared;
        shared as f64 >= SAME[side] * either as f64 || side == 1 && (either as f64) < FEW * one.counts.all[1] as f64
    })
}
