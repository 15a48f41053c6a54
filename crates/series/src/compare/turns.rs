//! Sides that were measured in several turns: what differs from turn to turn is no difference between the sides.
//!
//! The requests of a turn share the state that the machine, the volume and its neighbours were in, so however many they are,
//! a turn is one observation of each measure. Turns are few, and resampling two or four of them would find their spread too
//! small; so the logarithms of a measure are taken to be normal with the same spread on all sides, which is estimated from
//! all turns of all sides together, and the interval is that of Student's t with as many degrees of freedom as there are turns
//! more than sides. Turns that agree by chance, or because a coarse clock shows them as the same, do not make the spread smaller than
//! what the requests of a turn leave open. That the intervals of all measures hold together is made sure by Bonferroni's inequality.

use super::{CompareOptions, Comparison, Difference, Measure, Pair, Side, student};

/// With fewer turns more than sides the spread is unknown: one degree of freedom makes intervals of a factor of thousands.
pub(super) const FREEDOM: usize = 2;
/// Turns differ if one has a value so much larger than another of the same side.
const APART: f64 = 1.1;

/// How much turns of one side differ.
pub(super) struct Spread {
    /// Mean of the logarithms, side by side, and number of turns.
    means: Vec<(f64, usize)>,
    /// Of which sides every turn is 0.
    zeros: Vec<bool>,
    /// Of the logarithms of one turn, all sides together.
    variance: f64,
    /// Of the mean of each side, by what each of its turns leaves open; it is no smaller.
    least: Vec<f64>,
    freedom: usize,
}

impl Spread {
    /// Of a measure that is a time.
    pub fn new(sides: &[Side], measure: Measure) -> Spread {
        let logs =
            |side: &Side| -> Vec<f64> { side.turns.iter().map(|turn| turn.value(measure).max(1.0).ln()).collect() };
        let (mut means, mut squares, mut freedom) = (Vec::new(), 0.0, 0);
        for side in sides {
            let logs = logs(side);
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += logs.len() - 1;
            means.push((mean, logs.len()));
        }
        let least = |side: &Side| {
            let errors = side.turns.iter().filter_map(|turn| turn.measured(measure));
            errors.map(|measured| measured.error.powi(2)).sum::<f64>() / (side.turns.len() as f64).powi(2)
        };
        let least = sides.iter().map(least).collect();
        let zeros = sides.iter().map(|side| side.turns.iter().all(|turn| turn.value(measure) == 0.0)).collect();
        Spread { means, zeros, variance: squares / freedom.max(1) as f64, least, freedom }
    }

    /// The geometric mean of the turns of a side, in the unit of the measure; 0 where all of them are.
    pub fn centre(&self, side: usize) -> f64 {
        if self.zeros[side] { 0.0 } else { self.means[side].0.exp() }
    }

    /// Interval of a side less the base, missed with the chance `miss`; `None` when there are too few turns.
    fn interval(&self, other: usize, miss: f64) -> Option<(f64, f64)> {
        if self.freedom < FREEDOM {
            return None;
        }
        let ((base, base_turns), (mean, turns)) = (self.means[0], self.means[other]);
        let between = self.variance * (1.0 / base_turns as f64 + 1.0 / turns as f64);
        let error = between.max(self.least[0] + self.least[other]).sqrt();
        let reach = error * student::quantile(self.freedom as f64, miss / 2.0);
        // Factors become differences to the base; a factor beyond a million is as good as none.
        let part = |log: f64| base.exp() * log.min(14.0).exp_m1();
        Some((part(mean - base - reach), part(mean - base + reach)))
    }
}

/// Puts the means of turns in place of the numbers of all requests together: one number for each measure, wherever it is shown.
pub(super) fn centre(sides: &mut [Side], options: &CompareOptions) {
    let centres = |measure| {
        let spread = Spread::new(sides, measure);
        (0..sides.len()).map(|side| spread.centre(side)).collect::<Vec<f64>>()
    };
    let means = centres(Measure::Mean);
    let quantiles: Vec<Vec<f64>> =
        options.quantiles.iter().map(|&quantile| centres(Measure::Quantile(quantile))).collect();
    for (at, side) in sides.iter_mut().enumerate() {
        side.mean = means[at];
        side.quantiles = quantiles.iter().map(|centres| centres[at]).collect();
    }
}

/// Puts the means of turns and their intervals into the differences; the chance has none, since turns are too few to rank.
pub(super) fn intervals(pairs: &mut [Pair], sides: &[Side], options: &CompareOptions) {
    let timed = |row: &&mut Difference| row.measure != Measure::Chance;
    let claims = pairs.iter_mut().flat_map(|pair| &mut pair.differences).filter(timed).count().max(1);
    for pair in pairs {
        for row in &mut pair.differences {
            if row.measure == Measure::Chance {
                row.finding = super::Finding::TooFew;
                continue;
            }
            let spread = Spread::new(sides, row.measure);
            (row.base, row.other) = (spread.centre(0), spread.centre(pair.other));
            if row.finding == super::Finding::TooFew {
                continue;
            }
            row.interval = spread.interval(pair.other, 1.0 - options.confidence);
            row.joint = spread.interval(pair.other, (1.0 - options.certainty) / claims as f64);
            if row.interval.is_none() {
                row.finding = super::Finding::TooFew;
            }
        }
    }
}

impl Comparison {
    /// Whether sides were measured in several turns, between which the comparison was made.
    pub fn has_turns(&self) -> bool {
        self.sides.iter().any(|side| side.turns.len() > 1)
    }

    /// Of a pair in turns the measure in which turns of one side differ most beyond what the sides differ, with the number of that
    /// side: by a tenth at least, and by a larger factor than the sides.
    pub fn turns_differ(&self, pair: &Pair) -> Option<(Measure, usize)> {
        if !self.has_turns() {
            return None;
        }
        let mut most: Option<(f64, Measure, usize)> = None;
        for row in pair.differences.iter().filter(|row| row.measure != Measure::Chance) {
            let sides = (row.other.max(1.0) / row.base.max(1.0)).ln().abs();
            for side in [0, pair.other] {
                let values = || self.sides[side].turns.iter().map(|turn| turn.value(row.measure).max(1.0));
                let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1.0, f64::max));
                let turns = (high / low).ln();
                if turns > sides.max(APART.ln()) && most.is_none_or(|(known, ..)| turns - sides > 1.05 * known) {
                    most = Some((turns - sides, row.measure, side));
                }
            }
        }
        most.map(|(_, measure, side)| (measure, side))
    }
}
