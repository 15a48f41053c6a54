//! How far the measures of a side could be from what they are, by its own requests: drawn again and again.

use super::ground::{Counted, Ground, running};
use super::spectrum::{Waves, correlation_time};
use crate::random::Random;

/// Requests are taken together to so many stretches of time at most, so that what counts as slow does not depend on their number.
const STRETCHES: usize = 1024;
/// Where requests resemble their neighbours, runs differ by more than any of them shows: machines drift at every time scale. The
/// variance grows with this power of how much larger it is than that of independent requests. The exponent is calibrated on 216
/// pairs of real runs (docs/explanation/compare-statistics.md).
const DRIFT: f64 = 0.8;
/// By so much more even independent requests seem to vary by chance.
const CHANCE: f64 = 1.25;
/// So many independent requests must lie beyond a percentile.
const BEYOND: f64 = 5.0;

/// A measure of one side.
struct Slot {
    /// Standard deviation: of the share of requests beyond a quantile, of a mean.
    deviation: f64,
    /// How well it is known; 0 when there is no way to know.
    freedom: usize,
    waves: Vec<f64>,
}

/// One side.
pub(super) struct Within {
    /// Of the quantiles, the mean, and the chance against each opponent.
    slots: Vec<Slot>,
    /// What makes independent numbers as correlated as the slots are: a lower triangle.
    mix: Vec<Vec<f64>>,
    /// Running sum of the counts.
    before: Vec<u64>,
    /// The requests carry as much information as so many independent ones; `None` when there is no way to know.
    pub independent: Option<f64>,
}

/// The deviations of one series of influences.
struct Series {
    /// Sum of each stretch.
    sums: Vec<f64>,
    /// The variance of the sum of all if single requests were independent.
    alone: f64,
}

impl Within {
    /// Of a side against these opponents, of which the chance is that they, or it, are the larger.
    pub fn new(ground: &Ground, at: usize, opponents: &[usize]) -> Within {
        let side = &ground.sides()[at];
        let ranks = series(side, &middle_shares(side.counts()));
        let time = correlation_time(&ranks.sums);
        let known = Waves::new(&ranks.sums, time);
        let drift = ratio(known.variance, ranks.sums.iter().map(|sum| sum * sum).sum());
        let mut slots = Vec::new();
        let mut add = |of: &[f64], quantile: Option<f64>| {
            let series = series(side, of);
            let waves = Waves::new(&series.sums, time);
            slots.push(slot(side.count(), &series, waves, drift, quantile));
        };
        for &quantile in ground.quantiles() {
            add(&beyond(side.counts(), quantile), Some(quantile));
        }
        add(&ground.middles(), None);
        for &opponent in opponents {
            add(&middle_shares(ground.sides()[opponent].counts()), None);
        }
        if known.freedom == 0 {
            slots.iter_mut().for_each(|slot| slot.freedom = 0);
        }
        let independent = side.count() / (ratio(known.variance, ranks.alone) * widened(drift)).max(1.0);
        let before = running(side.counts()).collect();
        Within { mix: mix(&slots), slots, before, independent: (known.freedom > 0).then_some(independent) }
    }

    /// Whether it is known how much a slot varies.
    pub fn is_known(&self, slot: usize) -> bool {
        self.slots[slot].freedom > 0
    }

    /// Deviations of all slots, drawn once: quantiles as values less what they are, means and chances as differences.
    pub fn draw(&self, ground: &Ground, quantiles: &[f64], random: &mut Random) -> Vec<f64> {
        let independent: Vec<f64> = self.slots.iter().map(|_| random.normal()).collect();
        let drawn = self.slots.iter().zip(&self.mix).enumerate().map(|(at, (slot, mix))| {
            if slot.freedom == 0 {
                return 0.0;
            }
            let normal: f64 = mix.iter().zip(&independent).map(|(part, normal)| part * normal).sum();
            let freedom = slot.freedom as f64;
            let deviation = normal * slot.deviation * (freedom / random.chi_squared(freedom).max(1e-3)).sqrt();
            match ground.quantiles().get(at) {
                None => deviation,
                // On the scale of odds, where a share stays between none and all.
                Some(quantile) => {
                    let odds = (1.0 - quantile) / quantile * (deviation / (quantile * (1.0 - quantile))).exp();
                    ground.exceeded_by(odds / (1.0 + odds), &self.before) - quantiles[at]
                }
            }
        });
        drawn.collect()
    }
}

/// What the variance is to be multiplied by, where it is so many times that of independent stretches.
fn widened(times: f64) -> f64 {
    (times / CHANCE).max(1.0).powf(DRIFT)
}

fn ratio(variance: f64, of: f64) -> f64 {
    if of > 0.0 { variance / of } else { 1.0 }
}

fn slot(count: f64, series: &Series, waves: Waves, drift: f64, quantile: Option<f64>) -> Slot {
    let stretches: f64 = series.sums.iter().map(|sum| sum * sum).sum();
    let drift = widened(drift.max(ratio(waves.variance, stretches)));
    let (deviation, known) = match quantile {
        // Independent requests beyond it are known exactly; what matters is how much more they vary.
        Some(quantile) => {
            let more = ratio(waves.variance, series.alone);
            let rarer = quantile.min(1.0 - quantile);
            let share = (quantile * (1.0 - quantile) * more * drift / count).sqrt();
            (share, more <= 0.0 || count * rarer / more >= BEYOND)
        }
        None => ((waves.variance * drift).sqrt() / count, true),
    };
    Slot { deviation, freedom: if known { waves.freedom } else { 0 }, waves: waves.coefficients }
}

/// What each value adds: the sums of stretches, less their mean.
fn series(side: &Counted, of: &[f64]) -> Series {
    let sum: f64 = side.counts().iter().zip(of).map(|(&count, of)| count as f64 * of).sum();
    let mean = sum / side.count().max(1.0);
    let add =
        |entries: &[(u32, u64)]| entries.iter().map(|&(place, count)| count as f64 * (of[place as usize] - mean)).sum();
    let alone = side.counts().iter().zip(of).map(|(&count, of)| count as f64 * (of - mean).powi(2)).sum();
    Series { sums: side.stretches(STRETCHES).map(add).collect(), alone }
}

/// Of each value the share of these counts below it, and half of those at it.
fn middle_shares(counts: &[u64]) -> Vec<f64> {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let mut below = 0.0;
    let share = |&count: &u64| {
        let share = (below + count as f64 / 2.0) / all;
        below += count as f64;
        share
    };
    counts.iter().map(share).collect()
}

/// 1 of values beyond the quantile, 0 of those below it, and of the value at which it lies as much as makes the mean right.
fn beyond(counts: &[u64], quantile: f64) -> Vec<f64> {
    let rank = quantile * counts.iter().sum::<u64>() as f64;
    let mut below = 0.0;
    let part = |&count: &u64| {
        let count = count as f64;
        let part = if count > 0.0 { ((below + count - rank) / count).clamp(0.0, 1.0) } else { 0.0 };
        below += count;
        part
    };
    counts.iter().map(part).collect()
}

/// The Cholesky factor of the slots' correlation, by the waves that all of them are known from.
fn mix(slots: &[Slot]) -> Vec<Vec<f64>> {
    let waves = slots.iter().map(|slot| slot.freedom).filter(|&freedom| freedom > 0).min().unwrap_or(0);
    let product = |a: usize, b: usize| -> f64 {
        slots[a].waves.iter().zip(&slots[b].waves).take(waves).map(|(a, b)| a * b).sum()
    };
    let correlation = |a: usize, b: usize| {
        let scale = (product(a, a) * product(b, b)).sqrt();
        if a == b { 1.0 } else { ratio(product(a, b) * f64::from(u8::from(scale > 0.0)), scale.max(f64::MIN_POSITIVE)) }
    };
    let mut lower: Vec<Vec<f64>> = Vec::new();
    for a in 0..slots.len() {
        let mut row: Vec<f64> = Vec::new();
        for (b, above) in lower.iter().enumerate() {
            let known: f64 = row.iter().zip(above).map(|(x, y)| x * y).sum();
            let pivot = above[b];
            row.push(if pivot > 1e-6 { (correlation(a, b) - known) / pivot } else { 0.0 });
        }
        let left = 1.0 - row.iter().map(|x| x * x).sum::<f64>();
        row.push(left.max(0.0).sqrt());
        lower.push(row);
    }
    lower
}
