//! What a cell's colour means: a rate per second, so that the same load has the same hue whatever the interval.

use crate::axis::round_up;
use crate::palette::{self, ColorDepth, shade};
use crate::{Cell, Color, Line, sysdig};
use latscope_series::Weight;
use latscope_view::{Palette, Scale, rate_label};

#[derive(Clone, Debug)]
pub(crate) struct Strength {
    pub palette: Palette,
    pub depth: ColorDepth,
    pub scale: Scale,
    pub weight: Weight,
    pub unicode: bool,
    /// The rate at which the colour is at its strongest.
    pub full: f64,
}

impl Strength {
    /// The strongest colour belongs to a round rate no lower than `most`.
    pub(crate) fn round_full(most: f64, weight: Weight) -> f64 {
        if most > 0.0 { round_up(most, weight == Weight::Bytes) } else { 1.0 }
    }

    /// The same for a picture that goes on: on a logarithmic scale a decade (or a power of 16), so that it seldom changes.
    pub(crate) fn steady_full(most: f64, scale: Scale, weight: Weight) -> f64 {
        let base: f64 = if weight == Weight::Bytes { 16.0 } else { 10.0 };
        match scale {
            Scale::Log if most > 0.0 => base.powf((most.ln() / base.ln() - 1e-9).ceil()),
            _ => Strength::round_full(most, weight),
        }
    }

    /// The rate that a logarithmic scale takes for one: an event, ten microseconds, 4 KiB a second.
    fn unit(&self) -> f64 {
        match self.weight {
            Weight::Count => 1.0,
            Weight::Time => 10_000.0,
            Weight::Bytes => 4096.0,
        }
    }

    /// Whether colours are those of the chisel, which has a fixed scale.
    fn is_chisel(&self) -> bool {
        self.palette == Palette::Sysdig && self.weight == Weight::Count
    }

    /// From 0 to 1.
    fn strength(&self, rate: f64) -> f64 {
        if self.is_chisel() {
            return (sysdig::level(rate) - 1.0) / 19.0;
        }
        match self.scale {
            Scale::Log => (rate / self.unit()).ln_1p() / (self.full / self.unit()).ln_1p(),
            Scale::Sqrt => (rate / self.full).sqrt(),
            Scale::Linear => rate / self.full,
        }
    }

    /// The rate of a strength.
    fn rate(&self, strength: f64) -> f64 {
        if self.is_chisel() {
            return 1.6f64.powf(1.0 + 19.0 * strength) - 1.0;
        }
        match self.scale {
            Scale::Log => ((self.full / self.unit()).ln_1p() * strength).exp_m1() * self.unit(),
            Scale::Sqrt => self.full * strength * strength,
            Scale::Linear => self.full * strength,
        }
    }

    /// Whether two samples can share a cell.
    pub(crate) fn can_halve(&self) -> bool {
        self.unicode && self.depth != ColorDepth::Mono && self.palette != Palette::Sysdig
    }

    /// The colour of a rate above zero.
    pub(crate) fn color(&self, rate: f64) -> Color {
        palette::color(self.palette, self.strength(rate), self.depth, self.weight != Weight::Count)
    }

    /// A whole cell of a rate; blank when there was nothing.
    pub(crate) fn cell(&self, rate: f64) -> Cell {
        if rate <= 0.0 {
            Cell::BLANK
        } else if self.depth == ColorDepth::Mono {
            shade(self.strength(rate))
        } else if self.is_chisel() && self.unicode && self.depth != ColorDepth::Ansi16 {
            sysdig::cell(rate)
        } else {
            Cell { background: self.color(rate), ..Cell::BLANK }
        }
    }

    /// A cell that shows two rates, one above the other.
    pub(crate) fn halves(&self, upper: f64, lower: f64) -> Cell {
        match (upper > 0.0, lower > 0.0) {
            (false, false) => Cell::BLANK,
            (true, false) => Cell { foreground: self.color(upper), ..Cell::plain('▀') },
            (false, true) => Cell { foreground: self.color(lower), ..Cell::plain('▄') },
            (true, true) => Cell { symbol: '▀', foreground: self.color(upper), background: self.color(lower) },
        }
    }

    /// A rate with its unit.
    pub(crate) fn label(&self, rate: f64) -> String {
        rate_label(self.weight, rate)
    }

    /// Colours with their rates, on as many lines as they need.
    pub(crate) fn legend(&self, columns: usize) -> Vec<Line> {
        let word = self.word();
        let mut lines = vec![Line::new(word)];
        for (rate, text) in self.stops() {
            let mut entry = Line::default();
            self.push_entry(&mut entry, rate, &text);
            if lines[lines.len() - 1].width() + entry.width() > columns {
                lines.push(Line::new(&" ".repeat(word.len())));
            }
            let last = lines.len() - 1;
            lines[last].cells.append(&mut entry.cells);
        }
        lines.iter_mut().for_each(|line| {
            line.truncate(columns, false);
        });
        lines
    }

    /// The legend on one line: where it does not fit, with every second entry, and so on.
    pub(crate) fn legend_line(&self, columns: usize) -> Line {
        let stops = self.stops();
        let last = stops.len() - 1;
        let few = palette::steps(self.palette, self.depth).is_some();
        let line = |step: usize| {
            let mut line = Line::new(self.word());
            for (at, (rate, text)) in stops.iter().enumerate() {
                if (last - at).is_multiple_of(step) {
                    self.push_entry(&mut line, *rate, text);
                } else if few {
                    // Where a colour has no room for its rate, it still has its place between the others.
                    self.push_entry(&mut line, *rate, "");
                }
            }
            line
        };
        let fits = |line: &Line| line.width() <= columns;
        (1..=last.max(1)).map(line).find(fits).unwrap_or_else(|| {
            let mut line = line(last.max(1));
            line.truncate(columns, false);
            line
        })
    }

    fn word(&self) -> &'static str {
        match self.weight {
            Weight::Count => "events",
            Weight::Time => "time",
            Weight::Bytes => "bytes",
        }
    }

    fn push_entry(&self, line: &mut Line, rate: f64, text: &str) {
        let cell = self.cell(rate);
        line.push("  ").push_cell(cell);
        if cell.symbol == ' ' {
            line.push_cell(cell).push(" ");
        }
        line.push(text);
    }

    /// The cells of a palette of few colours, with the rates from which on they stand.
    pub(crate) fn steps(&self) -> Vec<(Cell, String)> {
        self.stops().into_iter().map(|(rate, text)| (self.cell(rate), text)).collect()
    }

    fn stops(&self) -> Vec<(f64, String)> {
        let bound = ">=";
        if let Some(steps) = palette::steps(self.palette, self.depth) {
            return (0..steps)
                .map(|at| {
                    // In the middle of a step for the colour, at its lower end for the number.
                    let (from, middle) = (at as f64 / steps as f64, (at as f64 + 0.5) / steps as f64);
                    let text = if at == 0 { ">0".into() } else { format!("{bound}{}", self.label(self.rate(from))) };
                    (self.rate(middle), text)
                })
                .collect();
        }
        let full = if self.is_chisel() { self.rate(1.0) } else { self.full };
        let rates: Vec<f64> = match self.scale {
            Scale::Log => {
                let decades = (full / self.unit()).log10().max(0.0);
                let step = (decades / 5.0).ceil().max(1.0);
                let mut rates: Vec<f64> = (0..6)
                    .map(|at| self.unit() * 10f64.powf(f64::from(at) * step))
                    .take_while(|&rate| rate < full * 0.6)
                    .collect();
                rates.push(full);
                rates
            }
            _ => (0..5).map(|at| self.rate(f64::from(at).max(0.2) / 4.0)).collect(),
        };
        rates.into_iter().map(|rate| (rate, self.label(rate))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strength(palette: Palette, depth: ColorDepth) -> Strength {
        Strength { palette, depth, scale: Scale::Log, weight: Weight::Count, unicode: true, full: 5000.0 }
    }

    #[test]
    fn rate_and_strength_are_inverse() {
        for scale in [Scale::Log, Scale::Sqrt, Scale::Linear] {
            let strength = Strength { scale, ..strength(Palette::Viridis, ColorDepth::Truecolor) };
            for part in [0.1, 0.5, 1.0] {
                assert!((strength.strength(strength.rate(part)) - part).abs() < 1e-9, "{scale:?}");
            }
        }
    }

    #[test]
    fn one_event_is_never_blank() {
        for depth in [ColorDepth::Truecolor, ColorDepth::Ansi256, ColorDepth::Ansi16, ColorDepth::Mono] {
            for &palette in Palette::TERMINAL {
                assert_ne!(strength(palette, depth).cell(1e-6), Cell::BLANK, "{palette:?} {depth:?}");
            }
        }
    }

    #[test]
    fn the_legend_says_how_many_a_colour_means() {
        assert_eq!(
            strength(Palette::Viridis, ColorDepth::Truecolor).legend(80)[0].text(),
            "events     1/s     10/s     100/s     1k/s     5k/s"
        );
        assert_eq!(
            strength(Palette::Viridis, ColorDepth::Mono).legend(120)[0].text(),
            "events  .>0  :>=1.58/s  ->=5.64/s  =>=16.1/s  +>=43.1/s  *>=113/s  #>=291/s  %>=752/s  @>=1.94k/s"
        );
        let narrow = strength(Palette::Viridis, ColorDepth::Mono).legend(30);
        assert_eq!(narrow.last().map(Line::text).as_deref(), Some("        @>=1.94k/s"));
        assert!(narrow.iter().all(|line| line.width() <= 30));
    }
}
