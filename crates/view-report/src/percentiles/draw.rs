//! Lines, shades, bounds and the key.

use super::Chart;
use super::curves::{Curve, Panel, Point, Shade};
use crate::page::{events, percent};
use crate::svg::{Area, Num, Svg, shortened, text_width};
use std::fmt::Write;

/// The ground of an interval is at least so wide.
const SEEN_PX: f64 = 5.0;

/// A percentile that few events support: thin, but in its full colour, since in a stall it is what matters.
const THIN_PX: f64 = 0.9;

/// Steps in a row of which something is true or not: that, the first step and the one behind the last.
type Run = (bool, usize, usize);

impl Chart<'_> {
    /// Draws the key below `y`, with the range of each line where there is one panel only; returns where it ends.
    pub(super) fn legend(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut keys: Vec<(Option<&Curve>, Option<&Shade>, String)> = Vec::new();
        let panel = &self.panels[0];
        let ranged = |curve: &Curve| match self.range(curve) {
            Some(range) if self.panels.len() == 1 => format!("{} {range}", curve.name),
            Some(_) => curve.name.clone(),
            None => format!("{}: no events", curve.name),
        };
        if let (Some(first), Some(last)) = (panel.shades.first(), panel.shades.last()) {
            let (lower, upper) = (&panel.curves[first.lower], &panel.curves[last.upper]);
            keys.push((None, Some(first), format!("shades from {} to {}", ranged(lower), ranged(upper))));
        }
        let lines = panel.curves.iter().filter(|curve| !curve.is_edge);
        keys.extend(lines.map(|curve| (Some(curve), None, shortened(&ranged(curve), 60))));
        let (left, right) = (self.frame.left(), self.page.width_px - 20.0);
        let (mut x, mut y) = (left, y + 10.0);
        for (curve, shade, text) in &keys {
            let width = 26.0 + text_width(text, 11.0) + 16.0;
            if x > left && x + width > right {
                (x, y) = (left, y + 16.0);
            }
            if let Some(curve) = curve {
                svg.put(format_args!("<path {} d=\"M{} {}h20\"/>\n", stroke(curve), Num(x), Num(y - 4.0)));
            }
            if let Some(shade) = shade {
                svg.rect(Area { x, y: y - 9.0, width: 20.0, height: 9.0 }, &format!(" fill=\"{}\"", shade.colour));
            }
            svg.text(x + 26.0, y, "", text);
            x += width;
        }
        let doubtful = panel.curves.iter().flat_map(|curve| &curve.points).flatten().any(|point| point.doubtful);
        if doubtful {
            y += 16.0;
            let muted = format!(" fill=\"{}\"", self.page.inks.muted);
            svg.text(left, y, &muted, "thin: fewer than ten events of the interval lie beyond the percentile");
        }
        y + 12.0
    }

    /// Draws a panel below `y`; returns where it ends.
    pub(super) fn panel(&self, svg: &mut Svg, panel: &Panel, y: f64) -> f64 {
        let mut y = y;
        let muted = format!(" fill=\"{}\"", self.page.inks.muted);
        if let Some(name) = &panel.name {
            let all = self.total.totals().count.max(1) as f64;
            let share = percent(100.0 * panel.total.totals().count as f64 / all);
            let title = format!("{} ({share})", shortened(name, 60));
            svg.text(self.frame.left(), y + 12.0, " font-size=\"12\" font-weight=\"bold\"", &title);
            let x = self.frame.left() + text_width(&title, 12.0) * 1.06 + 10.0;
            let letters = ((self.page.width_px - 20.0 - x) / (11.0 * 0.57)).max(0.0) as usize;
            let numbers = self.numbers(&panel.total, &panel.waiting);
            svg.text(x, y + 12.0, &muted, &shortened(&numbers, letters));
            y += 18.0;
        }
        let main =
            Area { x: self.frame.left(), y, width: self.frame.plot_px(), height: f64::from(self.axis.height_px()) };
        svg.rect(main, &format!(" fill=\"{}\"", self.page.inks.plot));
        self.marks(svg, panel, main);
        self.frame.verticals(svg, &self.page.inks, main.y, main.height);
        self.axis.draw(svg, &self.page.inks, main, true);
        panel.shades.iter().for_each(|shade| self.shade(svg, panel, shade, main));
        self.frame.hatches(svg, self.page.contexts, main.y, main.height);
        // The maximum lies behind, the percentiles in front.
        panel.curves.iter().rev().filter(|curve| !curve.is_edge).for_each(|curve| self.curve(svg, curve, main));
        self.levels(svg, main);
        svg.rect(main, &format!(" fill=\"none\" stroke=\"{}\"", self.page.inks.frame));
        self.tips(svg, panel, main);
        y = main.bottom();
        if let Some(exceeded) = self.exceeded(panel) {
            svg.text(main.x, y + 13.0, &format!(" fill=\"{}\"", self.page.inks.alarm), &exceeded);
            y += 16.0;
        }
        y + 10.0
    }

    /// The ground of intervals that exceed the service level, and of those that are not complete.
    fn marks(&self, svg: &mut Svg, panel: &Panel, main: Area) {
        for (exceeded, from, to) in runs(&panel.verdict.steps) {
            if exceeded {
                let (x, width) = (self.x(from), self.x(to) - self.x(from));
                // What is hardly wider than a line would be hidden by it.
                let (wide, opacity) = if width < SEEN_PX { (SEEN_PX, 0.4) } else { (width, 0.13) };
                let x = (x - (wide - width) / 2.0).min(main.right() - wide).max(main.x);
                let fill = format!(" fill=\"{}\" fill-opacity=\"{opacity}\"", self.page.inks.alarm);
                svg.rect(Area { x, width: wide, ..main }, &fill);
            }
        }
        if let Some(from_ns) = self.open_from_ns {
            let x = self.frame.x_at(from_ns);
            svg.rect(Area { x, width: main.right() - x, ..main }, " fill=\"url(#open)\"");
        }
    }

    /// Where a step starts, which is where the one before it ends.
    fn x(&self, step: usize) -> f64 {
        self.frame.x(self.steps.column(step))
    }

    fn y(&self, main: Area, value: u64) -> f64 {
        let (lower, upper) = self.axis.range();
        // Beyond the range a line runs along the edge.
        main.bottom() - self.axis.px(value.clamp(lower, upper)).unwrap_or(0.0)
    }

    fn levels(&self, svg: &mut Svg, main: Area) {
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for (name, value) in self.options.level.iter().flat_map(latscope_series::Threshold::levels) {
            let (y, ink) = (self.y(main, value), self.page.inks.alarm);
            // Names of bounds close to each other stand side by side.
            let beside: f64 = taken.iter().filter(|(other, _)| (other - y).abs() < 30.0).map(|(_, width)| width).sum();
            taken.push((y, text_width(&name, 11.0) + 12.0));
            svg.put(format_args!(
                "<path stroke=\"{ink}\" stroke-width=\"1.4\" stroke-dasharray=\"10 4\" d=\"M{} {}h{}\"/>\n",
                Num(main.x),
                Num(y),
                Num(main.width)
            ));
            let halo = format!(
                " text-anchor=\"end\" fill=\"{ink}\" stroke=\"{}\" stroke-width=\"3\" paint-order=\"stroke\"",
                self.page.inks.halo
            );
            // Below the line where there is no room above it.
            let above = y - 4.0 > main.y + 10.0;
            svg.text(main.right() - 5.0 - beside, if above { y - 4.0 } else { y + 13.0 }, &halo, &name);
        }
    }

    /// Steps, broken where one has no value; thin where few events support it.
    fn curve(&self, svg: &mut Svg, curve: &Curve, main: Area) {
        for doubtful in [true, false] {
            let path = self.path(&curve.points, main, doubtful);
            if path.is_empty() {
                continue;
            }
            let thin = Curve { width_px: THIN_PX, ..curve.bare() };
            let stroke = stroke(if doubtful { &thin } else { curve });
            svg.put(format_args!("<path {stroke} stroke-linejoin=\"round\" d=\"{path}\"/>\n"));
        }
    }

    fn path(&self, points: &[Option<Point>], main: Area, doubtful: bool) -> String {
        let mut path = String::new();
        let mut before = None;
        for (step, point) in points.iter().enumerate() {
            let Some(point) = point else {
                before = None;
                continue;
            };
            let y = self.y(main, point.value);
            let (x, to) = (self.x(step), self.x(step + 1));
            if point.doubtful == doubtful {
                // A step joins the interval before it, thin or not. Writing to a String does not fail.
                let _ = match before {
                    Some((at, true)) if at == y => write!(path, "H{}", Num(to)),
                    Some((_, true)) => write!(path, "V{}H{}", Num(y), Num(to)),
                    Some((at, false)) => write!(path, "M{} {}V{}H{}", Num(x), Num(at), Num(y), Num(to)),
                    None => write!(path, "M{} {}H{}", Num(x), Num(y), Num(to)),
                };
            }
            before = Some((y, point.doubtful == doubtful));
        }
        path
    }

    fn shade(&self, svg: &mut Svg, panel: &Panel, shade: &Shade, main: Area) {
        let points = |curve: usize| panel.curves[curve].points.iter();
        let edges = points(shade.lower).zip(points(shade.upper));
        let edges: Vec<Option<(f64, f64)>> = edges
            .map(|(lower, upper)| Some((self.y(main, lower.as_ref()?.value), self.y(main, upper.as_ref()?.value))))
            .collect();
        let mut path = String::new();
        for (there, from, to) in runs(&edges.iter().map(Option::is_some).collect::<Vec<_>>()) {
            if !there {
                continue;
            }
            let x = |step: usize| Num(self.x(step));
            let run: Vec<(f64, f64)> = edges[from..to].iter().flatten().copied().collect();
            let _ = write!(path, "M{} {}", x(from), Num(run[0].0));
            for (at, edge) in run.iter().enumerate() {
                let _ = write!(path, "V{}H{}", Num(edge.1), x(from + at + 1));
            }
            for (at, edge) in run.iter().enumerate().rev() {
                let _ = write!(path, "V{}H{}", Num(edge.0), x(from + at));
            }
            path.push('z');
        }
        if !path.is_empty() {
            svg.put(format_args!(
                "<path fill=\"{0}\" stroke=\"{0}\" stroke-width=\"0.4\" d=\"{path}\"/>\n",
                shade.colour
            ));
        }
    }

    /// A text for each step, or for each few of them of the one with the highest maximum.
    fn tips(&self, svg: &mut Svg, panel: &Panel, main: Area) {
        let budget = self.options.max_tooltips as usize / self.panels.len().max(1);
        if budget == 0 {
            return;
        }
        let count = panel.counts.len();
        let together = count.div_ceil(budget);
        svg.put(format_args!("<g fill-opacity=\"0\">\n"));
        for from in (0..count).step_by(together) {
            let to = (from + together).min(count);
            let height =
                |step: usize| panel.curves.iter().filter_map(|curve| curve.points[step]).map(|point| point.value).max();
            let Some(step) = (from..to).filter(|&step| height(step).is_some()).max_by_key(|&step| height(step)) else {
                continue;
            };
            let shown = panel.curves.iter().filter(|curve| !curve.is_edge).filter_map(|curve| {
                let point = curve.points[step]?;
                Some(format!(
                    "{} {}{}{}",
                    curve.name,
                    if point.at_least { ">=" } else { "" },
                    self.axis.label(point.value),
                    if point.doubtful { "?" } else { "" }
                ))
            });
            let mut text = self.frame.span(self.steps.column(step), self.steps.column(step + 1));
            if to - from > 1 {
                text += &format!("\nthe slowest of {} intervals", to - from);
            }
            let counted = panel.counts[step];
            let counted = if counted.fract() > 0.0 && counted < 100.0 {
                format!("{counted:.2} events")
            } else {
                events(counted as u64)
            };
            let text = format!("{text}\n{counted}\n{}", shown.collect::<Vec<_>>().join(", "));
            let x = self.x(from);
            svg.tip(Area { x, width: self.x(to) - x, ..main }, format_args!("{text}"));
        }
        svg.put(format_args!("</g>\n"));
    }
}

impl Curve {
    /// How it is drawn, without its points.
    fn bare(&self) -> Curve {
        let (name, points) = (String::new(), Vec::new());
        Curve {
            name,
            points,
            colour: self.colour.clone(),
            width_px: self.width_px,
            dashes: self.dashes,
            is_edge: self.is_edge,
        }
    }
}

/// The attributes of a line.
fn stroke(curve: &Curve) -> String {
    let dashes =
        if curve.dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", curve.dashes) };
    format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dashes}", curve.colour, curve.width_px)
}

/// Runs of equal values.
fn runs(values: &[bool]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, &value) in values.iter().enumerate() {
        match runs.last_mut() {
            Some((last, _, to)) if *last == value => *to = at + 1,
            _ => runs.push((value, at, at + 1)),
        }
    }
    runs
}
