//! From a cell's weight to its colour.

use latscope_series::Weight;
use latscope_view::{Scale, rate_label};

/// How many decades a logarithmic scale covers at most, and exactly when its end is given.
const DECADES: i32 = 4;

/// The colours of one picture: the same for all its panels.
pub(crate) struct Colours {
    scale: Scale,
    weight: Weight,
    seconds: f64,
    /// Weight per second at the first and the last colour.
    pub low: f64,
    pub high: f64,
    /// Whether the end was given, so that cells may lie beyond it.
    pub fixed: bool,
    pub steps: usize,
}

impl Colours {
    pub const STEPS: usize = 96;

    /// A scale over these cell weights, or up to a given weight per second.
    pub fn new(
        scale: Scale,
        weight: Weight,
        width_ns: u64,
        weights: impl Iterator<Item = u64>,
        end: Option<f64>,
    ) -> Colours {
        let (mut least, mut most) = (u64::MAX, 0);
        weights.filter(|&weight| weight > 0).for_each(|weight| (least, most) = (least.min(weight), most.max(weight)));
        let seconds = width_ns as f64 / 1e9;
        let most = most.max(1);
        let high = end.unwrap_or(most as f64 / seconds);
        let low = match scale {
            Scale::Log if end.is_some() => high / 10f64.powi(DECADES),
            Scale::Log => (least.min(most) as f64 / seconds).max(high / 10f64.powi(DECADES)),
            _ => 0.0,
        };
        Colours { scale, weight, seconds, low, high, fixed: end.is_some(), steps: Colours::STEPS }
    }

    /// The colour of a non-empty cell, from 1 up: never that of the background.
    pub fn index(&self, weight: u64) -> u8 {
        1 + (self.part(weight as f64 / self.seconds) * (self.steps - 1) as f64).round() as u8
    }

    /// Where a weight per second lies between the first colour (0) and the last (1).
    pub fn part(&self, per_second: f64) -> f64 {
        let part = match self.scale {
            Scale::Log if self.high <= self.low => 1.0,
            Scale::Log => (per_second.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            Scale::Sqrt => (per_second / self.high).sqrt(),
            Scale::Linear => per_second / self.high,
        };
        part.clamp(0.0, 1.0)
    }

    /// Round weights per second for the legend: place between 0 and 1, label.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let mut values = Vec::new();
        if self.scale == Scale::Log && self.weight == Weight::Bytes {
            values.extend((0..16).map(|power| 16f64.powi(power)));
        } else if self.scale == Scale::Log {
            let from = self.low.log10().floor() as i32;
            values.extend((from..from + DECADES + 2).map(|power| 10f64.powi(power)));
            if self.high / self.low < 90.0 {
                values.extend((from..from + 3).flat_map(|power| [2.0, 5.0].map(|factor| factor * 10f64.powi(power))));
                values.sort_by(f64::total_cmp);
            }
        } else {
            let unit = 10f64.powf(self.high.log10().floor());
            let step =
                [0.2, 0.5, 1.0, 2.0, 5.0].into_iter().find(|step| self.high / (step * unit) <= 4.5).unwrap_or(5.0);
            values.extend((0..6).map(|at| f64::from(at) * step * unit));
        }
        values
            .into_iter()
            .filter(|&value| value >= self.low * 0.999 && value <= self.high * 1.001)
            .map(|value| (self.part(value), rate_label(self.weight, value)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_has_the_colour_of_the_background() {
        for scale in [Scale::Log, Scale::Sqrt, Scale::Linear] {
            for end in [None, Some(5.0), Some(1e12)] {
                let colours = Colours::new(scale, Weight::Bytes, 20_000_000, [0, 1, 7, u64::MAX].into_iter(), end);
                for weight in [0, 1, 7, 1000, u64::MAX] {
                    assert!((1..=Colours::STEPS as u8).contains(&colours.index(weight)), "{scale:?} {end:?} {weight}");
                }
                assert!(colours.ticks().iter().all(|(place, _)| (0.0..=1.0).contains(place)));
            }
        }
    }

    #[test]
    fn a_fixed_scale_does_not_depend_on_the_interval() {
        let short = Colours::new(Scale::Log, Weight::Count, 10_000_000, [5].into_iter(), Some(1000.0));
        let long = Colours::new(Scale::Log, Weight::Count, 1_000_000_000, [900].into_iter(), Some(1000.0));
        assert_eq!(short.index(5), long.index(500));
    }

    #[test]
    fn more_is_never_a_lesser_colour() {
        for scale in [Scale::Log, Scale::Sqrt, Scale::Linear] {
            let colours = Colours::new(scale, Weight::Count, 1_000_000_000, 1..5000, None);
            let indices: Vec<u8> = (1..5000).map(|count| colours.index(count)).collect();
            assert!(indices.is_sorted());
            assert_eq!(indices.last(), Some(&(Colours::STEPS as u8)));
        }
    }
}
