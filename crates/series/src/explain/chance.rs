//! How large a difference chance makes: the sides are dealt anew, again and again.

use super::column::{SUPPORT, Tally};
use super::parts::Parts;
use super::score::Counts;
use super::sides::Sides;
use super::table::{Column, MISSING, Scale, Side, Table};
use crate::random::Random;

/// Deals.
const DEALS: usize = 200;
/// The level is exceeded by so many of these deals.
const ABOVE: usize = 2;
/// At most so many events of each side are dealt.
const MOST: usize = 1024;
/// A selection of no more is dealt from all events.
const FEW: usize = 64;
/// So many codes of a number are told apart in a deal.
const MOST_CODES: usize = 256;
/// No G² below this is a difference, whatever the deals say: a chance of one in ten thousand for a single test.
const LEAST: f64 = 15.0;

/// The G² that the best of all candidates reaches by chance in one of a hundred cases.
pub(super) fn level(table: &Table, sides: &Sides, columns: &[usize], seed: u64) -> f64 {
    let random = &mut Random(seed);
    let baseline: Vec<u32> = sides.masks[1].ones().map(|row| row as u32).collect();
    let rows = [sides.selected.clone(), baseline];
    let mut best = match rows[0].len() <= FEW && rows[1].len() > MOST {
        true => deal_few(table, rows, columns, random),
        false => deal_samples(table, rows, columns, random),
    };
    best.sort_by(f64::total_cmp);
    best.get(DEALS - 1 - ABOVE).map_or(LEAST, |level| level.max(LEAST))
}

/// Deals a sample of both sides.
fn deal_samples(table: &Table, sides: [Vec<u32>; 2], columns: &[usize], random: &mut Random) -> Vec<f64> {
    let (mut rows, mut dealt) = (Vec::new(), Vec::new());
    for (of_side, side) in sides.into_iter().zip([Side::Selection, Side::Baseline]) {
        let sample = sample(of_side, random);
        dealt.extend(sample.iter().map(|_| side));
        rows.extend(sample);
    }
    // Only what the sample has, in its order: fewer codes to look at in each deal.
    let sampled = columns.iter().map(|&at| {
        let column = &table.columns[at];
        let numbers = Numbers::new(column, &rows, MOST_CODES);
        let codes = rows.iter().map(|&row| numbers.number(column.codes.get(row as usize))).collect();
        (numbers, codes)
    });
    let sampled: Vec<(Numbers, Vec<u32>)> = sampled.collect();
    let deal = |_| {
        for at in (1..dealt.len()).rev() {
            dealt.swap(at, random.below(at + 1));
        }
        let of_column = |(&column, (numbers, codes)): (&usize, &(Numbers, Vec<u32>))| {
            let rows = codes.iter().zip(&dealt).map(|(&code, &side)| (code, side, 1));
            let tally = Tally::new(numbers.len, rows).of_parts(numbers.parts.as_ref());
            best_of(&tally, table.columns[column].scale)
        };
        columns.iter().zip(&sampled).map(of_column).fold(0.0, f64::max)
    };
    (0..DEALS).map(deal).collect()
}

/// Deals a selection of a few from all events: a sample of the baseline would not have what is rare in it, and whatever few events
/// have in common is rare.
fn deal_few(table: &Table, [selected, baseline]: [Vec<u32>; 2], columns: &[usize], random: &mut Random) -> Vec<f64> {
    let few = selected.len();
    let mut rows = selected;
    rows.extend(baseline);
    let totals = columns.iter().map(|&at| {
        let column = &table.columns[at];
        let numbers = Numbers::new(column, &rows, usize::MAX);
        let codes = rows.iter().map(|&row| (numbers.number(column.codes.get(row as usize)), Side::Baseline, 1));
        let all = Tally::new(numbers.len, codes).of_parts(numbers.parts.as_ref());
        (numbers, all)
    });
    let totals: Vec<(Numbers, Tally)> = totals.collect();
    let deal = |_| {
        for at in 0..few {
            let other = at + random.below(rows.len() - at);
            rows.swap(at, other);
        }
        let of_column = |(&at, (numbers, all)): (&usize, &(Numbers, Tally))| {
            let Column { codes, scale, .. } = &table.columns[at];
            let mut dealt: Vec<u32> = rows[..few].iter().map(|&row| numbers.number(codes.get(row as usize))).collect();
            match (scale, &numbers.parts) {
                (_, Some(parts)) => {
                    let of = |&code: &u32| if parts.is_missing(code) { &[MISSING] } else { parts.parts_of(code) };
                    dealt = dealt.iter().flat_map(of).copied().collect();
                }
                (Scale::Labels, None) => {}
                _ => return best_of(&all.dealt(&dealt), *scale),
            }
            // Of many labels only those that were dealt can be candidates.
            dealt.sort_unstable();
            let known = [few as u64, all.all[1] - few as u64];
            let least = SUPPORT * few as f64;
            let counts = dealt.chunk_by(|a, b| a == b).filter(|same| same.len() as f64 >= least).map(|same| {
                let total = all.counts[(same[0] as usize).min(all.counts.len() - 1)][1];
                Counts { with: [same.len() as u64, total - same.len() as u64], all: known }
            });
            let more = counts.filter(|counts| counts.selected_share() > counts.baseline_share());
            more.map(|counts| counts.g2()).fold(0.0, f64::max)
        };
        columns.iter().zip(&totals).map(of_column).fold(0.0, f64::max)
    };
    (0..DEALS).map(deal).collect()
}

/// The G² of the best candidate.
fn best_of(tally: &Tally, scale: Scale) -> f64 {
    tally.candidates(scale).into_iter().map(|codes| tally.counts(codes).g2()).fold(0.0, f64::max)
}

fn sample(mut rows: Vec<u32>, random: &mut Random) -> Vec<u32> {
    let taken = rows.len().min(MOST);
    for at in 0..taken {
        let other = at + random.below(rows.len() - at);
        rows.swap(at, other);
    }
    rows.truncate(taken);
    rows
}

/// The codes of some rows, numbered without gaps; of numbers several neighbours are one.
struct Numbers {
    of_code: Vec<u32>,
    len: usize,
    /// The parts of each number, where the column has them.
    parts: Option<Parts>,
}

impl Numbers {
    /// So many of a number at most.
    fn new(column: &Column, rows: &[u32], most: usize) -> Numbers {
        let mut of_code = vec![MISSING; column.len()];
        let codes = rows.iter().map(|&row| column.codes.get(row as usize)).filter(|&code| code != MISSING);
        codes.for_each(|code| of_code[code as usize] = 0);
        let known = of_code.iter().filter(|&&number| number == 0).count();
        let at_a_time = match column.scale {
            Scale::Grid(_) | Scale::Time(_) => known.div_ceil(most).max(1),
            Scale::Labels | Scale::Parts | Scale::Circle(_) => 1,
        };
        for (at, number) in of_code.iter_mut().filter(|number| **number == 0).enumerate() {
            *number = (at / at_a_time) as u32;
        }
        let parts = column.parts.as_ref().map(|parts| {
            let known: Vec<u32> = (0..column.len() as u32).filter(|&code| of_code[code as usize] != MISSING).collect();
            parts.renumbered(&known)
        });
        Numbers { of_code, len: known.div_ceil(at_a_time), parts }
    }

    fn number(&self, code: u32) -> u32 {
        self.of_code.get(code as usize).copied().unwrap_or(code)
    }
}
