//! What one attribute says: how far the sides differ in it, and by which values.

use super::condition::{Attribute, Condition};
use super::parts::Parts;
use super::periods::start_of_part;
use super::score::{Counts, divergence, parting};
use super::sides::Sides;
use super::table::{Column, MISSING, Scale, Side};
use latscope_histogram::Grid;

/// A value of less of the selection explains nothing.
pub(super) const SUPPORT: f64 = 0.05;

/// The events of both sides by code; missing ones come last.
pub(super) struct Tally {
    pub counts: Vec<[u64; 2]>,
    pub all: [u64; 2],
}

impl Tally {
    /// Counts the rows of both sides.
    pub fn of_rows(column: &Column, sides: &Sides) -> Tally {
        let mut counts = vec![[0; 2]; column.totals.len()];
        let last = counts.len() - 1;
        // Where each row is on a side, what is not on one is on the other.
        let counted = if sides.is_whole() { &[sides.smaller()][..] } else { &[0, 1] };
        for &side in counted {
            for row in sides.masks[side].ones() {
                counts[(column.codes.get(row) as usize).min(last)][side] += 1;
            }
        }
        if let [side] = counted {
            counts.iter_mut().zip(&column.totals).for_each(|(counts, total)| counts[1 - side] = total - counts[*side]);
        }
        Tally { counts, all: sides.all }.of_parts(column.parts.as_ref())
    }

    /// Of a tally of codes that have parts, that of the parts.
    pub fn of_parts(self, parts: Option<&Parts>) -> Tally {
        match parts {
            None => self,
            Some(parts) => Tally { counts: parts.summed(&self.counts), all: self.all },
        }
    }

    /// Counts rows by code and side; the number is the weight of a row.
    pub fn new(len: usize, rows: impl Iterator<Item = (u32, Side, u64)>) -> Tally {
        let (mut counts, mut all) = (vec![[0; 2]; len + 1], [0; 2]);
        for (code, side, weight) in rows.filter(|(_, side, _)| *side != Side::Neither) {
            // A missing code is the greatest.
            counts[(code as usize).min(len)][side as usize] += weight;
            all[side as usize] += weight;
        }
        Tally { counts, all }
    }

    /// This tally of baseline rows, with rows of these codes on the other side.
    pub fn dealt(&self, codes: &[u32]) -> Tally {
        let (mut counts, mut all) = (self.counts.clone(), self.all);
        let last = counts.len() - 1;
        for &code in codes {
            let counts = &mut counts[(code as usize).min(last)];
            *counts = [counts[0] + 1, counts[1] - 1];
            all = [all[0] + 1, all[1] - 1];
        }
        Tally { counts, all }
    }

    /// Codes from here to there, of a circle also across its end.
    pub fn of_codes(&self, (from, to): (usize, usize)) -> Counts {
        let known = self.counts.len() - 1;
        let add = |sum: [u64; 2], one: &[u64; 2]| [sum[0] + one[0], sum[1] + one[1]];
        let parts = if from <= to { [from..to, 0..0] } else { [from..known, 0..to] };
        let with = parts.into_iter().flat_map(|part| &self.counts[part]).fold([0, 0], add);
        Counts { with, all: self.all }
    }

    fn missing(&self) -> [u64; 2] {
        self.counts.last().copied().unwrap_or_default()
    }

    fn known(&self) -> &[[u64; 2]] {
        &self.counts[..self.counts.len() - 1]
    }

    /// The values that the selection has more of than the baseline.
    pub fn candidates(&self, scale: Scale) -> Vec<Codes> {
        let least = (SUPPORT * self.all[0] as f64).max(1.0);
        let is_telling = |codes: &Codes| {
            let counts = self.counts(*codes);
            counts.with[0] as f64 >= least && counts.selected_share() > counts.baseline_share()
        };
        let mut found: Vec<Codes> = match scale {
            Scale::Labels | Scale::Parts => {
                let ones = (0..self.known().len()).filter(|&code| self.counts[code][0] as f64 >= least);
                ones.map(|code| Codes::Range(code, code + 1)).collect()
            }
            Scale::Grid(_) | Scale::Time(_) => {
                parting(self.known(), self.all).map(|found| Codes::Range(found.from, found.to)).into_iter().collect()
            }
            Scale::Circle(_) => self.arc().into_iter().collect(),
        };
        found.push(Codes::Missing);
        found.retain(is_telling);
        found
    }

    /// The arc of a circle that holds most of the selection beyond its share of the baseline.
    fn arc(&self) -> Option<Codes> {
        let len = self.known().len();
        let step = |counts: &[u64; 2]| {
            counts[0] as f64 / self.all[0].max(1) as f64 - counts[1] as f64 / self.all[1].max(1) as f64
        };
        let mut before = vec![0.0];
        for counts in self.known().iter().chain(self.known()) {
            before.push(before[before.len() - 1] + step(counts));
        }
        let gain = |from: usize, to: usize| before[to] - before[from];
        let arcs = (0..len).flat_map(|from| (from + 1..from + len).map(move |to| (from, to)));
        let best = arcs.max_by(|&(a, b), &(c, d)| gain(a, b).total_cmp(&gain(c, d)))?;
        Some(Codes::Range(best.0, if best.1 > len { best.1 - len } else { best.1 }))
    }

    /// The events that have one of these codes.
    pub fn counts(&self, codes: Codes) -> Counts {
        match codes {
            Codes::Range(from, to) => self.of_codes((from, to)),
            Codes::Missing => Counts { with: self.missing(), all: self.all },
        }
    }

    /// The divergence of the sides; neighbouring buckets count as one value.
    pub fn divergence(&self, scale: Scale) -> f64 {
        let at_a_time = match scale {
            // An event has several of them, so that their shares are no distribution: the best one counts.
            Scale::Parts => {
                return (0..self.known().len()).map(|at| self.of_codes((at, at + 1)).divergence()).fold(0.0, f64::max);
            }
            Scale::Labels | Scale::Circle(_) => 1,
            Scale::Grid(grid) => 1 << grid.power(),
            Scale::Time(_) => 20,
        };
        let sum = |values: &[[u64; 2]]| values.iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        divergence(self.known().chunks(at_a_time).map(sum).chain([self.missing()]), self.all)
    }

    /// The code in the middle of each side.
    pub fn medians(&self) -> [Option<usize>; 2] {
        [0, 1].map(|side| {
            let known: u64 = self.known().iter().map(|counts| counts[side]).sum();
            let mut before = 0;
            let middle = |counts: &[u64; 2]| {
                before += counts[side];
                before * 2 >= known
            };
            if known == 0 { None } else { self.known().iter().position(middle) }
        })
    }
}

/// Some codes of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Codes {
    /// From here to there; of a circle the end may be before the start.
    Range(usize, usize),
    Missing,
}

impl Codes {
    pub fn contains(self, code: u32) -> bool {
        match self {
            Codes::Missing => code == MISSING,
            Codes::Range(from, to) if from <= to => (from..to).contains(&(code as usize)),
            Codes::Range(from, to) => code != MISSING && !(to..from).contains(&(code as usize)),
        }
    }

    /// These codes of a column in words.
    pub fn condition(self, column: &Column, tally: &Tally) -> Condition {
        let attribute = column.attribute;
        let Codes::Range(from, to) = self else { return Condition::Missing(attribute) };
        match column.scale {
            Scale::Labels | Scale::Parts => {
                let of_part = column.parts.as_ref().and_then(|parts| parts.attributes.get(from)).copied();
                let labels = column.parts.as_ref().map_or(&column.labels, |parts| &parts.labels);
                let label = labels.get(from).map_or(String::new(), |label| label.to_string());
                Condition::Is(of_part.unwrap_or(attribute), label)
            }
            Scale::Grid(grid) => range(attribute, (from, to), tally, |code| lower(grid, code)),
            Scale::Time(width_ns) => range(attribute, (from, to), tally, |code| code as u64 * width_ns),
            Scale::Circle(period_ns) => {
                let [from, to] = [from, to].map(|part| start_of_part(part as u64, period_ns));
                match attribute {
                    Attribute::InPeriod => Condition::InPeriod(period_ns, from, to),
                    _ => Condition::InSecond(from, to),
                }
            }
        }
    }
}

/// The smallest value of a bucket; behind the last one, the greatest value there is.
fn lower(grid: Grid, code: usize) -> u64 {
    if code < grid.len() { grid.lower(code) } else { u64::MAX }
}

/// A range without the ends at which nothing lies beyond. Its end is where the next events are: a size is then a round number.
fn range(attribute: Attribute, (from, to): (usize, usize), tally: &Tally, edge: impl Fn(usize) -> u64) -> Condition {
    let is_there = |code: &usize| tally.counts[*code] != [0, 0];
    let known = tally.counts.len() - 1;
    let first = (from..to).find(is_there).unwrap_or(from);
    let low = if (0..from).any(|code| is_there(&code)) { Some(edge(first)) } else { None };
    let high = (to..known).find(is_there).map(edge);
    Condition::Range(attribute, low, high)
}
