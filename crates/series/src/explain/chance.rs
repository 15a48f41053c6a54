//! How large a difference chance makes: the sides are dealt anew, again and again.

use super::column::Tally;
use super::table::{Column, MISSING, Scale, Side, Table};
use crate::random::Random;

/// Deals.
const DEALS: usize = 200;
/// The level is exceeded by so many of these deals.
const ABOVE: usize = 2;
/// At most so many events of each side are dealt.
const MOST: usize = 1024;
/// So many codes of a number are told apart in a deal.
const MOST_CODES: usize = 256;
/// No G² below this is a difference, whatever the deals say: a chance of one in ten thousand for a single test.
const LEAST: f64 = 15.0;

/// The G² that the best of all candidates reaches by chance in one of a hundred cases.
pub(super) fn level(table: &Table, sides: &[Side], columns: &[usize], seed: u64) -> f64 {
    let mut random = Random(seed);
    let (mut rows, mut dealt) = (Vec::new(), Vec::new());
    for side in [Side::Selection, Side::Baseline] {
        let of_side: Vec<u32> = (0..sides.len()).filter(|&row| sides[row] == side).map(|row| row as u32).collect();
        let sample = sample(of_side, &mut random);
        dealt.extend(sample.iter().map(|_| side));
        rows.extend(sample);
    }
    // Only what the sample has, in its order: fewer codes to look at in each deal.
    let sampled: Vec<(usize, Vec<u32>)> = columns.iter().map(|&column| dense(&table.columns[column], &rows)).collect();
    let mut best: Vec<f64> = (0..DEALS)
        .map(|_| {
            for at in (1..dealt.len()).rev() {
                dealt.swap(at, random.below(at + 1));
            }
            let of_column = |(&column, (len, codes)): (&usize, &(usize, Vec<u32>))| {
                let rows = codes.iter().zip(&dealt).map(|(&code, &side)| (code, side, 1));
                let tally = Tally::new(*len, rows);
                let candidates = tally.candidates(table.columns[column].scale);
                candidates.into_iter().map(|codes| tally.counts(codes).g2()).fold(0.0, f64::max)
            };
            columns.iter().zip(&sampled).map(of_column).fold(0.0, f64::max)
        })
        .collect();
    best.sort_by(f64::total_cmp);
    best.get(DEALS - 1 - ABOVE).map_or(LEAST, |level| level.max(LEAST))
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

/// The codes of some rows, numbered without gaps, and how many there are; of numbers several neighbours are one.
fn dense(column: &Column, rows: &[u32]) -> (usize, Vec<u32>) {
    let of_rows: Vec<u32> = rows.iter().map(|&row| column.codes[row as usize]).collect();
    let mut known: Vec<u32> = of_rows.iter().copied().filter(|&code| code != MISSING).collect();
    known.sort_unstable();
    known.dedup();
    let at_a_time = match column.scale {
        Scale::Grid(_) | Scale::Time(_) => known.len().div_ceil(MOST_CODES).max(1),
        Scale::Labels | Scale::Second => 1,
    };
    let number = |code: &u32| known.binary_search(code).map_or(MISSING, |at| (at / at_a_time) as u32);
    (known.len().div_ceil(at_a_time), of_rows.iter().map(number).collect())
}
