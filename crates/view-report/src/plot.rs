//! A plot with two axes of numbers.

use crate::palette::Inks;
use crate::svg::{Area, Num, Svg, text_width};
use latscope_view::Escaped;
use latscope_view::ticks::{ENOUGH, fine_values, round_values, time_step};
use std::fmt::Write;

/// Cores on an axis: a sum of steps such as 0.2 is not exact.
pub fn rounded(cores: f64) -> String {
    format!("{}", (cores * 1000.0).round() / 1000.0)
}

/// From a number to a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
    /// Whether it is of seconds, which are round by the minute and hour.
    is_time: bool,
}

impl Axis {
    pub fn linear(from: f64, to: f64) -> Axis {
        Axis { from, to: to.max(from + f64::MIN_POSITIVE), is_log: false, is_time: false }
    }

    /// Seconds from 0 on.
    pub fn seconds(to: f64) -> Axis {
        Axis { is_time: true, ..Axis::linear(0.0, to) }
    }

    /// Both ends above zero.
    pub fn log(from: f64, to: f64) -> Axis {
        Axis { from, to, is_log: true, is_time: false }
    }

    /// From 0 to 1 within the axis.
    pub fn part(self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        part.clamp(0.0, 1.0)
    }

    /// Round values within the axis, the roundest first; `count` at most are wanted.
    fn ticks(self, count: usize) -> Vec<f64> {
        let within = |value: &f64| (self.from..=self.to).contains(value);
        if self.is_log && self.to <= 1.0 {
            return (0..12).map(|power| 0.1f64.powi(power)).filter(within).collect();
        }
        if self.is_log {
            let mut ticks: Vec<_> =
                round_values(false).into_iter().map(|tick| (tick.rank, tick.value as f64)).collect();
            ticks.retain(|(_, value)| within(value));
            if ticks.len() < ENOUGH {
                let fine = fine_values(self.from.ceil() as u64, self.to as u64, false);
                let fine = fine.into_iter().map(|value| (0, value as f64));
                ticks = if fine.len() > ticks.len() { fine.collect() } else { ticks };
            }
            ticks.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            return ticks.into_iter().map(|(_, value)| value).collect();
        }
        if self.is_time {
            let to_ns = (self.to * 1e9) as u64;
            let step_ns = time_step(to_ns / count.max(1) as u64);
            return (0..=to_ns / step_ns).map(|at| (at * step_ns) as f64 / 1e9).collect();
        }
        let least = (self.to - self.from) / count as f64;
        let unit = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * unit).find(|&step| step >= least);
        let step = step.unwrap_or(10.0 * unit);
        let first = (self.from / step).ceil();
        (0..=count + 1).map(|at| (first + at as f64) * step).filter(within).collect()
    }
}

/// A plot.
pub(crate) struct Plot<'a> {
    pub area: Area,
    pub x: Axis,
    pub y: Axis,
    pub inks: &'a Inks,
}

impl Plot<'_> {
    pub fn x_at(&self, value: f64) -> f64 {
        self.area.x + self.x.part(value) * self.area.width
    }

    pub fn y_at(&self, value: f64) -> f64 {
        self.area.bottom() - self.y.part(value) * self.area.height
    }

    /// Ground, grid and labels of both axes.
    pub fn ground(&self, svg: &mut Svg, x_label: &dyn Fn(f64) -> String, y_label: &dyn Fn(f64) -> String) {
        self.ground_across(svg, x_label);
        let Area { x, width, .. } = self.area;
        let mut taken: Vec<f64> = Vec::new();
        for value in self.y.ticks(5) {
            let y = self.y_at(value);
            if taken.iter().all(|other| (other - y).abs() >= 15.0) {
                taken.push(y);
                svg.put(format_args!(
                    "<path stroke=\"{}\" d=\"M{} {}h{}\"/>\n",
                    self.inks.grid,
                    Num(x),
                    Num(y),
                    Num(width)
                ));
                svg.text(x - 6.0, y + 4.0, " text-anchor=\"end\"", &y_label(value));
            }
        }
        svg.rect(self.area, &format!(" fill=\"none\" stroke=\"{}\"", self.inks.frame));
    }

    /// Ground, and grid and labels of the horizontal axis.
    pub fn ground_across(&self, svg: &mut Svg, label: &dyn Fn(f64) -> String) {
        svg.rect(self.area, &format!(" fill=\"{}\"", self.inks.plot));
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for value in self.x.ticks((self.area.width / 90.0) as usize) {
            let (x, text) = (self.x_at(value), label(value));
            let half = text_width(&text, 11.0) / 2.0 + 4.0;
            if taken.iter().all(|(other, room)| (other - x).abs() >= half + room) {
                taken.push((x, half));
                let ink = if value == 0.0 { self.inks.muted } else { self.inks.grid };
                let (y, height) = (Num(self.area.y), Num(self.area.height));
                svg.put(format_args!("<path stroke=\"{ink}\" d=\"M{} {y}v{height}\"/>\n", Num(x)));
                svg.text(x, self.area.bottom() + 14.0, " text-anchor=\"middle\"", &text);
            }
        }
        svg.rect(self.area, &format!(" fill=\"none\" stroke=\"{}\"", self.inks.frame));
    }

    /// Corners of a line of steps through points of ascending x, no closer than the eye can distinguish.
    fn corners(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let mut corners: Vec<(f64, f64)> = Vec::new();
        for (at, &(x, y)) in points.iter().enumerate() {
            let corner = (self.x_at(x), self.y_at(y));
            let near = corners.last().is_some_and(|last| corner.0 - last.0 < 0.5 && (corner.1 - last.1).abs() < 0.5);
            if !near || at + 1 == points.len() {
                corners.push(corner);
            }
        }
        corners
    }

    /// Straight lines from point to point, each marked by a dot with words.
    pub fn points(&self, svg: &mut Svg, points: &[(f64, f64, String)], ink: &str) {
        let mut path = String::new();
        for (at, (x, y, _)) in points.iter().enumerate() {
            // Writing to a String does not fail.
            let _ = write!(path, "{}{} {}", if at == 0 { "M" } else { "L" }, Num(self.x_at(*x)), Num(self.y_at(*y)));
        }
        svg.put(format_args!("<path fill=\"none\" stroke=\"{ink}\" stroke-width=\"1.6\" d=\"{path}\"/>\n"));
        for (x, y, text) in points {
            svg.put(format_args!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"{ink}\"><title>{}</title></circle>\n",
                Num(self.x_at(*x)),
                Num(self.y_at(*y)),
                Escaped(text)
            ));
        }
    }

    /// A line of steps.
    pub fn steps(&self, svg: &mut Svg, points: &[(f64, f64)], ink: &str) {
        let mut path = String::new();
        for (at, (x, y)) in self.corners(points).into_iter().enumerate() {
            // Writing to a String does not fail.
            let _ =
                if at == 0 { write!(path, "M{} {}", Num(x), Num(y)) } else { write!(path, "H{}V{}", Num(x), Num(y)) };
        }
        svg.put(format_args!("<path fill=\"none\" stroke=\"{ink}\" stroke-width=\"1.6\" d=\"{path}\"/>\n"));
    }

    /// The area about a line of steps, at each height within what `half` says of it.
    pub fn band(&self, svg: &mut Svg, points: &[(f64, f64)], half: &dyn Fn(f64) -> f64, ink: &str) {
        let shifted = |side: f64| -> Vec<(f64, f64)> {
            let points = points.iter().map(|&(x, y)| (x, (y + side * half(y)).clamp(0.0, 1.0)));
            self.corners(&points.collect::<Vec<_>>())
        };
        let mut path = String::new();
        for (at, (x, y)) in shifted(1.0).into_iter().enumerate() {
            let _ =
                if at == 0 { write!(path, "M{} {}", Num(x), Num(y)) } else { write!(path, "H{}V{}", Num(x), Num(y)) };
        }
        for (x, y) in shifted(-1.0).into_iter().rev() {
            let _ = write!(path, "V{}H{}", Num(y), Num(x));
        }
        svg.put(format_args!("<path fill=\"{ink}\" fill-opacity=\"0.18\" d=\"{path}z\"/>\n"));
    }

    /// A point with a thick and a thin interval at a height.
    pub fn whisker(&self, svg: &mut Svg, y: f64, value: f64, own: (f64, f64), joint: (f64, f64), ink: &str) {
        for ((low, high), width) in [(joint, 1.2), (own, 3.6)] {
            // An end beyond what was measured lies beyond the picture.
            let inside = |value: f64| self.x_at(value).clamp(self.area.x, self.area.right());
            let (low, high) = (inside(low), inside(high));
            svg.put(format_args!(
                "<path stroke=\"{ink}\" stroke-width=\"{width}\" d=\"M{} {}H{}\"/>\n",
                Num(low),
                Num(y),
                Num(high.max(low + 1.0))
            ));
        }
        let x = Num(self.x_at(value));
        let (fill, y) = (self.inks.halo, Num(y));
        svg.put(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"3.6\" fill=\"{fill}\" stroke=\"{ink}\" stroke-width=\"1.8\"/>\n"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_round_by_the_minute() {
        assert_eq!(Axis::seconds(343.0).ticks(10), [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]);
        assert_eq!(Axis::seconds(0.3).ticks(4), [0.0, 0.1, 0.2, 0.3]);
        assert_eq!(Axis::linear(0.0, 343.0).ticks(10), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]);
    }
}
