//! Every single request, with minimum, average, maximum and standard deviation, in one range of latencies for all sides.

use super::{GAP_PX, LEFT_PX, PLOT_PX, Picture, RIGHT_PX};
use crate::plot::{Axis, Plot};
use crate::svg::{Area, Num, Svg};
use latscope_event::format_count;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A largest latency of so many times the p99 is beyond the axis, which would show nothing else.
const CRUSHED: f64 = 4.0;
/// Requests closer than this on the picture are one point.
const POINT_PX: f64 = 1.5;

impl Picture<'_> {
    /// Draws a plot for each side, two beside each other; returns where they end.
    pub(super) fn requests(&self, svg: &mut Svg, y: f64) -> f64 {
        // The turns of a side behind each other.
        let events = |side: &super::CompareSide<'_>| -> Option<Vec<u64>> {
            Some(side.turns.iter().map(|turn| turn.events()).collect::<Option<Vec<_>>>()?.concat())
        };
        let known = || self.sides.iter().map(events);
        if known().all(|events| events.is_none()) {
            return y;
        }
        let what = "in order of time; blue: minimum to average, green: average to maximum, grey: average ± 1 \
                    standard deviation";
        let turns = if self.comparison.has_turns() { "; dashed: the next turn" } else { "" };
        self.heading(svg, LEFT_PX, y + 10.0, "Requests", &format!("{what}{turns}"));
        let room = self.page.width_px - LEFT_PX - RIGHT_PX;
        let width = if self.sides.len() == 1 { room } else { (room - GAP_PX) / 2.0 };
        let top = self.top(known().flatten());
        let (mut bottom, mut place) = (y, 0);
        for (at, events) in known().enumerate() {
            let Some(events) = events else { continue };
            let x = LEFT_PX + if place % 2 == 1 { width + GAP_PX } else { 0.0 };
            if place % 2 == 0 && place > 0 {
                bottom += PLOT_PX + 62.0;
            }
            let area = Area { x, y: bottom + 52.0, width, height: PLOT_PX };
            let (x, y) = (Axis::linear(0.0, events.len() as f64), Axis::linear(0.0, top));
            self.scatter(svg, at, &events, &Plot { area, x, y, inks: &self.page.inks }, top);
            place += 1;
        }
        bottom + 52.0 + PLOT_PX + 24.0
    }

    /// Where the axis of latencies ends: above the largest, unless that would crush all others.
    fn top(&self, sides: impl Iterator<Item = Vec<u64>>) -> f64 {
        let usual = sides.filter_map(|mut events| {
            let at = events.len().checked_sub(1)? * 99 / 100;
            Some(*events.select_nth_unstable(at).1)
        });
        let usual = usual.max().unwrap_or(1).max(1) as f64;
        let most = self.comparison.sides.iter().map(|side| side.max).max().unwrap_or(1) as f64;
        if most > CRUSHED * usual { 2.0 * usual } else { most * 1.05 }
    }

    fn scatter(&self, svg: &mut Svg, at: usize, events: &[u64], plot: &Plot<'_>, top: f64) {
        let (side, area, inks) = (&self.comparison.sides[at], plot.area, plot.inks);
        let (min, max) = (side.min as f64, side.max as f64);
        let muted = format!(" fill=\"{}\"", inks.muted);
        self.heading(svg, area.x, area.y - 20.0, &self.names[at], "by request number");
        let text = format!(
            "minimum {}, average {}, maximum {}, standard deviation {}",
            self.shown(min),
            self.shown(side.mean),
            self.shown(max),
            self.shown(side.deviation)
        );
        svg.text(area.x, area.y - 5.0, &muted, &text);
        plot.ground(svg, &|number| format_count(number.max(0.0) as u64), &|value| self.shown(value));
        let mut band = |low: f64, high: f64, style: &str| {
            let (top, bottom) = (plot.y_at(high), plot.y_at(low));
            svg.rect(Area { y: top, height: bottom - top, ..area }, style);
        };
        band(min, side.mean, &format!(" fill=\"{}\" fill-opacity=\"0.16\"", inks.groups[0]));
        band(side.mean, max, &format!(" fill=\"{}\" fill-opacity=\"0.16\"", inks.groups[2]));
        let deviation = side.deviation;
        band(
            (side.mean - deviation).max(0.0),
            side.mean + deviation,
            &format!(" fill=\"{}\" fill-opacity=\"0.25\"", inks.muted),
        );
        let mut path = String::new();
        for (x, y) in points(events, plot) {
            let _ = write!(path, "M{} {}h0", Num(x), Num(y));
        }
        let ink = self.colour(at);
        svg.put(format_args!(
            "<path fill=\"none\" stroke=\"{ink}\" stroke-width=\"2.4\" stroke-linecap=\"round\" stroke-opacity=\"0.8\" d=\"{path}\"/>\n"
        ));
        let y = Num(plot.y_at(side.mean));
        svg.put(format_args!(
            "<path stroke=\"{}\" stroke-width=\"1.6\" d=\"M{} {y}h{}\"/>\n",
            inks.text,
            Num(area.x),
            Num(area.width)
        ));
        self.beyond(svg, events, plot, top);
        self.turns(svg, at, plot);
    }

    /// A dashed line where a turn ends and the next starts.
    fn turns(&self, svg: &mut Svg, at: usize, plot: &Plot<'_>) {
        let mut end = 0;
        let lengths = self.sides[at].turns.iter().map(|turn| turn.count());
        for length in lengths.take(self.sides[at].turns.len().saturating_sub(1)) {
            end += length;
            let (x, y, height) = (Num(plot.x_at(end as f64)), Num(plot.area.y), Num(plot.area.height));
            let ink = plot.inks.text;
            svg.put(format_args!("<path stroke=\"{ink}\" stroke-dasharray=\"4 3\" d=\"M{x} {y}v{height}\"/>\n"));
        }
    }

    /// Marks the requests above the axis at its end, and says how many they are.
    fn beyond(&self, svg: &mut Svg, events: &[u64], plot: &Plot<'_>, top: f64) {
        let above: Vec<usize> = (0..events.len()).filter(|&at| events[at] as f64 > top).collect();
        let Some(slowest) = above.iter().map(|&at| events[at]).max() else { return };
        let mut path = String::new();
        let mut last = f64::NEG_INFINITY;
        for x in above.iter().map(|&at| plot.x_at(at as f64)) {
            if x - last >= POINT_PX {
                let _ = write!(path, "M{} {}l3 5h-6z", Num(x), Num(plot.area.y));
                last = x;
            }
        }
        let ink = plot.inks.alarm;
        svg.put(format_args!("<path fill=\"{ink}\" d=\"{path}\"/>\n"));
        let text = format!(
            "{} above {}, up to {}",
            format_count(above.len() as u64),
            self.shown(top),
            self.shown(slowest as f64)
        );
        let style = format!(" text-anchor=\"end\" fill=\"{ink}\"");
        svg.text(plot.area.right() - 4.0, plot.area.y + 16.0, &style, &text);
    }
}

/// Where the points lie; those that would cover each other are one.
fn points(events: &[u64], plot: &Plot<'_>) -> Vec<(f64, f64)> {
    let mut taken = BTreeSet::new();
    let mut points = Vec::new();
    for (number, &latency) in events.iter().enumerate() {
        let (x, y) = (plot.x_at(number as f64), plot.y_at(latency as f64));
        if taken.insert(((x / POINT_PX) as i64, (y / POINT_PX) as i64)) {
            points.push((x, y));
        }
    }
    points
}
