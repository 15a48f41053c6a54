//! Whether one trace is slower than another, and by how much: differences with intervals that hold all at once.
//!
//! The method, in short: percentiles (nearest rank), the mean and the chance that a request of one side is slower than one
//! of the other are computed of both sides; then how far each of them could be from what it is, drawn thousands of times.
//! Requests that follow each other resemble each other (a stall makes many slow), so how much a share or a mean varies is taken
//! from its slowest waves over the run (`spectrum`), widened by what runs differ beyond what they show (`within`). An interval
//! is that of the middle 95 % of the drawn differences. A run that is too short for its correlation has no interval. With
//! several measures one of them leaves out zero by chance more often than that, so what is claimed goes by the wider joint
//! intervals of Mandel and Betensky (2008): every one is cut at the same rank, so far out that all of them together hold in
//! 98 of 100 cases. A claim about each measure is then a claim about all, wrong in no more than one of fifty comparisons of
//! equal sides. Sides of several turns are compared by turns (`turns`).

mod ground;
mod limit;
mod sample;
mod spectrum;
mod standstill;
mod step;
mod student;
#[cfg(test)]
mod tests;
mod turns;
mod verdict;
mod within;

pub use limit::{Judgement, Limit};
pub use sample::{Sample, distribution};
pub use standstill::{Completions, Standstill, Standstills};
pub use verdict::{relative, signed, subjects};

use crate::random::Random;
use crate::{Quantity, Support};
use ground::Ground;
use latscope_histogram::Totals;
use within::Within;

/// The mean of fewer events is compared by turns only.
const EVENTS: u64 = 10;

/// How to compare.
#[derive(Clone, PartialEq, Debug)]
pub struct CompareOptions {
    /// What is compared; the comparison itself is the same for all.
    pub quantity: Quantity,
    /// Quantiles (0 to 1, exclusive) to compare; in the result they are ascending.
    pub quantiles: Vec<f64>,
    /// How often to resample, from 100 on.
    pub rounds: u32,
    /// The same seed gives the same intervals.
    pub seed: u64,
    /// With what confidence each interval holds, from 0 to 1.
    pub confidence: f64,
    /// How often equal sides are found equal in everything that is measured, from 0 to 1.
    pub certainty: f64,
    /// Differences up to this part of the base do not matter in practice: a joint interval within it is no difference.
    pub equivalence: f64,
}

impl Default for CompareOptions {
    fn default() -> CompareOptions {
        CompareOptions {
            quantity: Quantity::Latency,
            quantiles: vec![0.5, 0.9, 0.99, 0.999],
            rounds: 2000,
            seed: 1,
            confidence: 0.95,
            certainty: 0.98,
            equivalence: 0.05,
        }
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measure {
    /// A quantile, 0 to 1; nanoseconds.
    Quantile(f64),
    /// The arithmetic mean; nanoseconds.
    Mean,
    /// The chance that a request of the other side takes longer than one of the base, ties by half; 0 to 1, and 0.5 of equal sides.
    Chance,
}

/// What a difference amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The other side is slower than the base.
    Slower,
    /// It is faster.
    Faster,
    /// The whole joint interval lies within the band of [`CompareOptions::equivalence`].
    NoDifference,
    /// The interval holds zero, and differences that matter too.
    Undecided,
    /// The interval leaves out zero, but with so many measures some do by chance.
    Unsure,
    /// Too few events lie beyond the percentile to say anything, or there are too few turns.
    TooFew,
    /// Events resemble their neighbours for so long that too few independent ones are left to say anything.
    Dependent,
}

impl Finding {
    /// The word for tables of this quantity.
    pub fn word(self, quantity: Quantity) -> &'static str {
        let (more, less) = quantity.comparatives();
        match self {
            Finding::Slower => more,
            Finding::Faster => less,
            Finding::NoDifference => "no difference",
            Finding::Undecided => "undecided",
            Finding::Unsure => "unsure",
            Finding::TooFew => "too few",
            Finding::Dependent => "too few independent",
        }
    }
}

/// One measure of two sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// What.
    pub measure: Measure,
    /// Of the base; of [`Measure::Chance`] one half.
    pub base: f64,
    /// Of the other side.
    pub other: f64,
    /// Interval of `other - base`, taken by itself; `None` when there are too few events. It is as much wider as the steps of the
    /// clocks, or the buckets of histograms, leave open.
    pub interval: Option<(f64, f64)>,
    /// Interval that holds together with all others, wider; what the finding goes by.
    pub joint: Option<(f64, f64)>,
    /// What it amounts to.
    pub finding: Finding,
}

impl Difference {
    /// Other minus base.
    pub fn difference(&self) -> f64 {
        self.other - self.base
    }
}

/// A side against the first one.
#[derive(Clone, PartialEq, Debug)]
pub struct Pair {
    /// Number of the other side; the base is side 0.
    pub other: usize,
    /// The quantiles asked for, the mean, the chance.
    pub differences: Vec<Difference>,
    /// Requests of the other side, completed or not.
    pub requests: u64,
    /// Those of them that had not completed when their trace ended, and had waited longer by then than any of the base took: their
    /// ages, nanoseconds. Whoever knows of such requests puts them here.
    pub hanging_ns: Vec<u64>,
    /// When a run of the other side stood still: some waited, and nothing completed for ten times longer than any request of the base took.
    pub still: Option<Standstill>,
    /// When a run of the other side may have stood still: its last requests hang for longer than any of the base took, or it is one
    /// histogram, of which nobody knows what went on beside its slowest request.
    pub maybe_still: Option<Standstill>,
    /// A recording of the other side is cut off, and requests waited at its end, or nobody knows whether some did.
    pub is_cut: bool,
    /// An input of either side ends in the middle.
    pub is_truncated: bool,
    /// The part of all requests of which nobody knows the latency, 0 to 1: their records or completions were lost. Of the side that lost
    /// more.
    pub lost: f64,
}

/// Numbers of one side.
#[derive(Clone, PartialEq, Debug)]
pub struct Side {
    /// Events.
    pub count: u64,
    /// Smallest, nanoseconds.
    pub min: u64,
    /// Largest, nanoseconds.
    pub max: u64,
    /// Arithmetic mean, nanoseconds; where sides have turns, the geometric mean of those of its turns.
    pub mean: f64,
    /// Standard deviation of the values (not of the mean), nanoseconds; from the middles of buckets where only those are known.
    pub deviation: f64,
    /// The quantiles asked for, nanoseconds; where sides have turns, the geometric means of those of its turns.
    pub quantiles: Vec<f64>,
    /// The events carry as much information as so many independent ones, which is what intervals are based on; `None` when they resemble each
    /// other for so long that there is no way to know, and of several turns, of which each counts as one.
    pub independent: Option<u64>,
    /// The same numbers of each turn, in the order of the turns; one where there were no turns.
    pub turns: Vec<Turn>,
}

/// Numbers of one turn.
#[derive(Clone, PartialEq, Debug)]
pub struct Turn {
    /// Events.
    pub count: u64,
    /// What was measured: the quantiles asked for and the mean.
    values: Vec<Measured>,
}

/// One measure of a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Measured {
    measure: Measure,
    /// Nanoseconds.
    value: f64,
    /// Standard deviation of the logarithm of the value if requests were independent, and of the steps in which values come: the turn
    /// gives no better.
    error: f64,
}

impl Turn {
    /// A quantile that was asked for, or the mean, nanoseconds; 0 of anything else.
    pub fn value(&self, measure: Measure) -> f64 {
        self.measured(measure).map_or(0.0, |measured| measured.value)
    }

    fn measured(&self, measure: Measure) -> Option<&Measured> {
        self.values.iter().find(|known| known.measure == measure)
    }
}

/// Two or more sides, each against the first.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// How it was made.
    pub options: CompareOptions,
    /// The numbers of each side.
    pub sides: Vec<Side>,
    /// All but the first against the first.
    pub pairs: Vec<Pair>,
    /// Whether single events were compared; else histograms, and a difference of less than a bucket does not count.
    pub exact: bool,
    /// The steps in which the latencies of each side come, nanoseconds: those of its clock, as far as its values give; else 0.
    pub steps_ns: Vec<f64>,
}

/// Sides that cannot be compared.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CompareError {
    /// No side.
    #[error("a comparison takes one side at least")]
    NoSide,
    /// A side without events, by its number.
    #[error("side {0} has no events")]
    Empty(usize),
    /// Quantiles, rounds or confidence beyond what is sensible.
    #[error(
        "a comparison takes up to 64 percentiles between 0 and 100, 100 to 100,000 rounds and a confidence between 0 and 1"
    )]
    Options,
}

/// Compares each side with the first; a side is the turns in which it was measured, in the order of time. Of a single side there
/// are its numbers, and no pair.
///
/// Where every side is one turn, requests are compared, as the module describes. As soon as a side has two turns or more,
/// turns are: what is claimed of a time is a difference of the turns' geometric means beyond what the turns of one side
/// differ among each other. `base` and `other` of a [`Difference`] are those means then, as are the quantiles and the mean of
/// a [`Side`]; its other numbers are those of all requests together. Two turns a side are the least that allow a claim, and only differences of several times are
/// found by them; four find what is four to five times as large as the turns' standard deviation. A turn in which nothing
/// was measured must be left out.
///
/// # Errors
/// When there is nothing to compare: [`CompareError::Empty`] of a side without turns, or with a turn that has no events.
pub fn compare(sides: &[Vec<Sample>], options: &CompareOptions) -> Result<Comparison, CompareError> {
    let inside = |part: f64| part > 0.0 && part < 1.0;
    let sensible = options.quantiles.len() <= 64 && (100..=100_000).contains(&options.rounds);
    if !sensible
        || ![options.confidence, options.certainty].into_iter().all(inside)
        || !options.quantiles.iter().copied().all(inside)
    {
        return Err(CompareError::Options);
    }
    if sides.is_empty() {
        return Err(CompareError::NoSide);
    }
    let empty = |turns: &Vec<Sample>| turns.is_empty() || turns.iter().any(|turn| turn.count() == 0);
    if let Some(empty) = sides.iter().position(empty) {
        return Err(CompareError::Empty(empty));
    }
    let mut options = options.clone();
    options.quantiles.sort_by(f64::total_cmp);
    options.quantiles.dedup();
    let ground = Ground::new(sides, &options.quantiles);
    let numbers = sides.iter().enumerate().map(|(at, turns)| side(turns, &ground, at));
    let mut comparison = Comparison {
        sides: numbers.collect(),
        pairs: Vec::new(),
        exact: ground.exact(),
        steps_ns: ground.steps().iter().map(|step| step.ns).collect(),
        options: options.clone(),
    };
    let mut pairs = pairs(&comparison.sides, &ground, &options);
    if comparison.has_turns() {
        turns::centre(&mut comparison.sides, &options);
        turns::intervals(&mut pairs, &comparison.sides, &options);
    } else {
        let known = known(&ground);
        for (side, known) in comparison.sides.iter_mut().zip(&known) {
            side.independent = known.independent.map(|count| count.round() as u64);
        }
        intervals(&mut pairs, &ground, &known, &comparison);
    }
    for pair in &mut pairs {
        let other = pair.other;
        for row in pair.differences.iter_mut().filter(|row| row.interval.is_some()) {
            widen(row, ground.unresolved(row, other));
            row.finding = found(row, options.equivalence);
        }
    }
    comparison.pairs = pairs;
    Ok(comparison)
}

fn side(samples: &[Sample], ground: &Ground, at: usize) -> Side {
    let totals = samples.iter().fold(Totals::EMPTY, |sum, sample| sum.merged(sample.totals()));
    let turns = ground.turns(at).zip(samples).map(|(values, sample)| Turn { count: sample.count(), values });
    Side {
        count: totals.count,
        min: totals.min,
        max: totals.max,
        mean: totals.mean().unwrap_or(0.0),
        deviation: sample::deviation(samples),
        quantiles: ground.of_side(at),
        independent: None,
        turns: turns.collect(),
    }
}

/// The differences as they are, without intervals.
fn pairs(sides: &[Side], ground: &Ground, options: &CompareOptions) -> Vec<Pair> {
    let pair = |other: usize| {
        let (a, b) = (&sides[0], &sides[other]);
        let row = |measure, base, other, enough: bool| {
            let finding = if enough { Finding::Undecided } else { Finding::TooFew };
            Difference { measure, base, other, interval: None, joint: None, finding }
        };
        let events = a.count.min(b.count) as f64;
        let mut differences: Vec<Difference> = Vec::new();
        for (at, &quantile) in options.quantiles.iter().enumerate() {
            let enough = Support::new(quantile, events) == Support::Enough;
            differences.push(row(Measure::Quantile(quantile), a.quantiles[at], b.quantiles[at], enough));
        }
        // Of fewer there is no way to know how much they vary, unless turns show it.
        let enough = events >= EVENTS as f64;
        let has_turns = sides.iter().any(|side| side.turns.len() > 1);
        differences.push(row(Measure::Mean, a.mean, b.mean, enough || has_turns));
        differences.push(row(Measure::Chance, 0.5, ground.chance(other), enough));
        let (hanging_ns, still, maybe_still) = (Vec::new(), None, None);
        let (is_cut, is_truncated, lost) = (false, false, 0.0);
        Pair { other, differences, requests: b.count, hanging_ns, still, maybe_still, is_cut, is_truncated, lost }
    };
    (1..sides.len()).map(pair).collect()
}

/// What is known of each side: the base against each of the others, the others against it.
fn known(ground: &Ground) -> Vec<Within> {
    let sides = ground.sides().len();
    let opponents = |at: usize| if at == 0 { (1..sides).collect() } else { vec![0] };
    (0..sides).map(|at| Within::new(ground, at, &opponents(at))).collect()
}

/// Differences of all rows beside what they are, for every round.
fn draw(ground: &Ground, known: &[Within], comparison: &Comparison) -> Vec<Vec<f64>> {
    let options = &comparison.options;
    let mut random = Random(options.seed);
    // Quantiles and the mean; the chances are behind them.
    let timed = options.quantiles.len() + 1;
    let round = |_| {
        let side = |(known, side): (&Within, &Side)| known.draw(ground, &side.quantiles, &mut random);
        let drawn: Vec<Vec<f64>> = known.iter().zip(&comparison.sides).map(side).collect();
        let mut row = Vec::with_capacity((timed + 1) * (drawn.len() - 1));
        for other in 1..drawn.len() {
            let base = drawn[0][..timed].iter().chain([&drawn[0][timed + other - 1]]);
            // Beyond what was measured on both sides: no difference can be measured.
            let less =
                |(other, base): (&f64, &f64)| if base.is_infinite() && other == base { 0.0 } else { other - base };
            row.extend(drawn[other].iter().zip(base).map(less));
        }
        row
    };
    (0..options.rounds).map(round).collect()
}

/// Draws, and cuts every interval at the rank at which all hold together.
fn intervals(pairs: &mut [Pair], ground: &Ground, known: &[Within], comparison: &Comparison) {
    let options = &comparison.options;
    for pair in &mut *pairs {
        for (at, row) in pair.differences.iter_mut().enumerate() {
            let base = if row.measure == Measure::Chance { at + pair.other - 1 } else { at };
            if row.finding != Finding::TooFew && !(known[0].is_known(base) && known[pair.other].is_known(at)) {
                row.finding = Finding::Dependent;
            }
        }
    }
    let mut rows: Vec<&mut Difference> = pairs.iter_mut().flat_map(|pair| &mut pair.differences).collect();
    // By round, then by row.
    let mut drawn = draw(ground, known, comparison);
    for (at, row) in rows.iter().enumerate() {
        let difference = row.difference();
        drawn.iter_mut().for_each(|round| round[at] += difference);
    }
    let wanted: Vec<usize> =
        (0..rows.len()).filter(|&row| !matches!(rows[row].finding, Finding::TooFew | Finding::Dependent)).collect();
    if wanted.is_empty() {
        return;
    }
    let count = drawn.len();
    // How far out each round lies in its row, as the smaller number of rounds beyond it on either side.
    let mut depth = vec![usize::MAX; count];
    let mut sorted: Vec<Vec<f64>> = Vec::new();
    for &row in &wanted {
        let mut column: Vec<f64> = drawn.iter().map(|round| round[row]).collect();
        column.sort_by(f64::total_cmp);
        for (round, depth) in drawn.iter().zip(&mut depth) {
            let below = column.partition_point(|&value| value < round[row]);
            let above = count - column.partition_point(|&value| value <= round[row]);
            // Rounds that are equal share their place, as if they lay in the middle of it.
            let equal = count - below - above;
            *depth = (*depth).min(below.min(above) + (equal - 1) / 2);
        }
        sorted.push(column);
    }
    drawn.clear();
    depth.sort_unstable();
    let joint = depth[(((1.0 - options.certainty) * count as f64) as usize).min(count - 1)];
    let alone = ((1.0 - options.confidence) / 2.0 * count as f64) as usize;
    let cut = |column: &[f64], rank: usize| (column[rank.min(count / 2)], column[count - 1 - rank.min(count / 2)]);
    for (&row, column) in wanted.iter().zip(&sorted) {
        let row = &mut *rows[row];
        let own = cut(column, alone);
        if own.0.is_infinite() || own.1.is_infinite() {
            row.finding = Finding::TooFew;
            continue;
        }
        // The joint interval is never the narrower one.
        (row.interval, row.joint) = (Some(own), Some(cut(column, joint.min(alone))));
    }
}

/// Adds to both ends what the values leave open. No time is below zero, and no chance beyond certainty, also where the drawn
/// differences, which are symmetric, go beyond.
fn widen(row: &mut Difference, open: f64) {
    let most = if row.measure == Measure::Chance { 1.0 - row.base } else { f64::INFINITY };
    let wider = |(low, high): (f64, f64)| ((low - open).max(-row.base), (high + open).min(most).max(-row.base));
    (row.interval, row.joint) = (row.interval.map(wider), row.joint.map(wider));
}

/// What a row amounts to. An interval of no width supports no claim. A difference within the share
/// `equivalence` of the base counts as none; for a chance, within half of that, as its base is one half.
fn found(row: &Difference, equivalence: f64) -> Finding {
    let above = |interval: Option<(f64, f64)>| interval.is_some_and(|(low, high)| low > 0.0 && high > low);
    let below = |interval: Option<(f64, f64)>| interval.is_some_and(|(low, high)| high < 0.0 && high > low);
    let band = equivalence * row.base;
    match row.joint {
        joint if above(joint) => Finding::Slower,
        joint if below(joint) => Finding::Faster,
        _ if above(row.interval) || below(row.interval) => Finding::Unsure,
        Some((low, high)) if high > low && -low <= band && high <= band => Finding::NoDifference,
        _ => Finding::Undecided,
    }
}
