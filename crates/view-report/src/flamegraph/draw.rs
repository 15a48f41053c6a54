//! Boxes, their texts, the legend and what a script does with them.

use super::boxes::FlameBox;
use super::{FlameColour, Flames, LEFT_PX, Picture, colour, percent};
use crate::svg::{Area, Num, Svg, shortened, text_width};
use latscope_event::{Frame, FrameKind, format_count, format_duration};
use latscope_view::Escaped;
use std::fmt;

const ROW_PX: f64 = 17.0;
/// A letter of the texts in boxes.
const LETTER_PX: f64 = 6.6;
/// Names in tooltips are cut here: a picture has thousands.
const NAME_LETTERS: usize = 240;
/// Search and zoom, where a viewer runs scripts.
const SCRIPT: &str = include_str!("script.js");

/// A coordinate that zooming may enlarge.
struct Fine(f64);

impl fmt::Display for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.3}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Picture<'_> {
    /// What colours mean; returns where it ends.
    pub(super) fn legend(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut x = LEFT_PX;
        let mut swatch = |svg: &mut Svg, fill: &str, word: &str| {
            svg.rect(Area { x, y: y - 4.0, width: 11.0, height: 11.0 }, &format!(" fill=\"{fill}\""));
            svg.text(x + 16.0, y + 6.0, "", word);
            x += 16.0 + text_width(word, 11.0) + 14.0;
        };
        match (self.flames, self.options.colour) {
            (Flames::Difference(..), _) => {
                swatch(svg, &colour::diverging(1.0), "larger share here");
                swatch(svg, &colour::diverging(0.0), "no difference beyond the error");
                swatch(svg, &colour::diverging(-1.0), "larger share there");
            }
            (_, FlameColour::Latency) => {
                let mean = self.totals[0].mean_ns().unwrap_or(0.0);
                let of = |factor: f64| format_duration((mean * factor) as u64);
                swatch(svg, &colour::diverging(-1.0), &format!("mean latency {} or less", of(0.125)));
                swatch(svg, &colour::diverging(0.0), &format!("{}, the mean of all", of(1.0)));
                swatch(svg, &colour::diverging(1.0), &format!("{} or more", of(8.0)));
            }
            (_, FlameColour::Kind) => {
                let tree = self.flames.tree();
                let is_code = |one: &&FlameBox| one.node != 0 && !tree.is_dimension(&tree.nodes()[one.node as usize]);
                let kinds: Vec<FrameKind> =
                    self.boxes.all.iter().filter(is_code).map(|one| self.frame(one).kind).collect();
                for (_, word, fill) in colour::KINDS.iter().filter(|(kind, ..)| kinds.contains(kind)) {
                    swatch(svg, &format!("#{fill:06x}"), word);
                }
                if !tree.by().is_empty() {
                    swatch(svg, colour::DIMENSION, "value of a field");
                }
            }
        }
        y + 18.0
    }

    fn frame(&self, one: &FlameBox) -> Frame<'_> {
        let tree = self.flames.tree();
        Frame::parse(tree.name(&tree.nodes()[one.node as usize]))
    }

    /// All boxes, and the line above them that a script writes to; returns where they end.
    pub(super) fn draw(&self, svg: &mut Svg, y: f64) -> f64 {
        let muted = self.page.inks.muted;
        svg.put(format_args!(
            "<g class=\"controls\" display=\"none\" fill=\"{muted}\" font-size=\"12\"><text class=\"reset\" x=\"{}\" y=\"{}\" \
             text-decoration=\"underline\" cursor=\"pointer\">Reset</text><text class=\"search\" x=\"{}\" y=\"{1}\" \
             text-decoration=\"underline\" cursor=\"pointer\">Search (/)</text><text class=\"status\" x=\"{}\" y=\"{1}\"/></g>\n",
            Num(LEFT_PX),
            Num(y + 10.0),
            Num(LEFT_PX + 44.0),
            Num(LEFT_PX + 116.0)
        ));
        let top = y + 18.0;
        let height = f64::from(self.boxes.rows()) * ROW_PX;
        svg.put(format_args!(
            "<g class=\"flames{}\" data-x=\"{}\" data-width=\"{}\" data-unit=\"{}\" font-family=\"monospace\" font-size=\"11\">\n",
            if self.options.icicle { " icicle" } else { "" },
            Num(LEFT_PX),
            self.options.width,
            self.options.unit.word()
        ));
        for one in &self.boxes.all {
            let row = f64::from(one.depth) * ROW_PX;
            let y = if self.options.icicle { top + row } else { top + height - row - ROW_PX };
            self.one(svg, one, y);
        }
        svg.put(format_args!("</g>\n<script>{}</script>\n", Escaped(SCRIPT)));
        top + height + 6.0
    }

    fn one(&self, svg: &mut Svg, one: &FlameBox, y: f64) {
        let name = self.name(one);
        let width = f64::from(self.options.width);
        let (x, wide) = (LEFT_PX + one.x * width, one.share * width);
        let mut tip = format!("{}\n{}", shortened(&name, NAME_LETTERS), self.described(one));
        if let Some(kind) = self.kind(one) {
            tip.push('\n');
            tip.push_str(kind);
        }
        svg.put(format_args!(
            "<g data-p=\"{}\"><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            one.parent,
            Escaped(&tip),
            Fine(x),
            Num(y),
            Fine(wide),
            Num(ROW_PX - 1.0),
            self.fill(one)
        ));
        let room = ((wide - 6.0) / LETTER_PX) as usize;
        if room >= 3 {
            svg.put(format_args!(
                "<text x=\"{}\" y=\"{}\" fill=\"#16181c\">{}</text>",
                Fine(x + 3.0),
                Num(y + 12.0),
                Escaped(&shortened(&name, room))
            ));
        }
        svg.put(format_args!("</g>\n"));
    }

    fn name(&self, one: &FlameBox) -> String {
        match one.gathered {
            0 => self.frame(one).name.to_string(),
            1 => "(1 more)".into(),
            many => format!("({} more)", format_count(many as u64)),
        }
    }

    /// Where the code comes from, in words, where it is not simply the program.
    fn kind(&self, one: &FlameBox) -> Option<&'static str> {
        let tree = self.flames.tree();
        if one.gathered > 0 || tree.is_dimension(&tree.nodes()[one.node as usize]) {
            return None;
        }
        let kind = self.frame(one).kind;
        let found = colour::KINDS.iter().find(|(known, ..)| *known == kind);
        found.filter(|_| kind != FrameKind::User).map(|(_, word, _)| *word)
    }

    /// Shares of a box: here, and in the baseline.
    fn shares(&self, one: &FlameBox) -> [f64; 2] {
        [0, 1].map(|side| self.shares[side].share(one.sums[side]))
    }

    /// Their intervals.
    fn intervals(&self, one: &FlameBox) -> [(f64, f64); 2] {
        let [here, there] = &self.shares;
        match self.flames {
            Flames::Tree(_) => [here.interval(one.sums[0]); 2],
            Flames::Difference(..) => [
                here.interval_beside(one.sums[0], there, one.sums[1]),
                there.interval_beside(one.sums[1], here, one.sums[0]),
            ],
        }
    }

    /// The numbers of a box.
    fn described(&self, one: &FlameBox) -> String {
        let [here, there] = self.shares(one);
        let sum = one.sums[0];
        let [(low, high), baseline] = self.intervals(one);
        let mut parts = vec![format!("{} ({} to {})", percent(here), percent(low), percent(high)), self.amount(sum)];
        if self.options.unit == latscope_series::StackWidth::Time {
            parts.push(crate::page::events(sum.events));
        }
        if let Some(mean) = sum.mean_ns().filter(|&mean| mean > 0.0) {
            parts.push(format!("mean {}", format_duration(mean.round() as u64)));
        }
        if sum.waiting > 0 {
            parts.push(format!("{} wait still", format_count(sum.waiting)));
        }
        if let Flames::Difference(..) = self.flames {
            let (low, high) = baseline;
            let more = format!("{:+.1} points", 100.0 * (here - there));
            let beyond = if self.differs(one) { "" } else { ", within the error" };
            parts.push(format!("\nthere {} ({} to {})", percent(there), percent(low), percent(high)));
            parts.push(format!("{}: {more}{beyond}", self.amount(one.sums[1])));
        }
        parts.join(" · ").replace(" · \n", "\n")
    }

    /// Whether the two shares differ beyond what chance does: their intervals do not overlap.
    fn differs(&self, one: &FlameBox) -> bool {
        let [here, there] = self.intervals(one);
        here.0 > there.1 || there.0 > here.1
    }

    fn fill(&self, one: &FlameBox) -> String {
        let tree = self.flames.tree();
        let is_dimension = tree.is_dimension(&tree.nodes()[one.node as usize]);
        match (self.flames, self.options.colour) {
            (Flames::Difference(..), _) => {
                let [here, there] = self.shares(one);
                let is_plain = !self.differs(one) || here + there == 0.0;
                colour::diverging(if is_plain { 0.0 } else { (here - there) / (here + there) })
            }
            _ if one.gathered > 0 => colour::GATHERED.into(),
            (_, FlameColour::Latency) => {
                let mean = |sum: latscope_series::StackSum| sum.mean_ns().unwrap_or(0.0);
                colour::of_means(mean(one.sums[0]), mean(self.totals[0]))
            }
            _ if is_dimension => colour::DIMENSION.into(),
            _ => {
                let frame = self.frame(one);
                colour::of_kind(frame.kind, frame.name)
            }
        }
    }
}
