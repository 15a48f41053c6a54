//! The legend: what a colour means in numbers, and which line is which percentile.

use super::Picture;
use crate::page::quantile_name;
use crate::svg::{Area, Num, Svg, text_width};
use latscope_event::format_duration;
use latscope_series::Weight;
use latscope_view::rate_label;

const BAR_PX: f64 = 300.0;

impl Picture<'_> {
    /// Draws the legend below `y`; returns where it ends.
    pub(super) fn legend(&self, svg: &mut Svg, y: f64) -> f64 {
        let left = self.frame.left();
        let muted = format!(" fill=\"{}\"", self.page.inks.muted);
        let words = self.colour_words();
        // The keys share the line with the words where there is room for both.
        let keys_end = self.draw_keys(svg, &self.line_keys(), y + 10.0);
        let y = if left + text_width(&words, 11.0) > keys_end { y + 18.0 } else { y };
        svg.text(left, y + 10.0, &muted, &words);
        let bar = Area { x: left, y: y + 16.0, width: BAR_PX, height: 10.0 };
        for (class, ramp) in &self.ramps {
            let step_px = bar.width / ramp.len() as f64;
            let class = class.map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
            svg.put(format_args!("<g shape-rendering=\"crispEdges\"{class}>\n"));
            // Neighbouring steps overlap, so that no renderer shows a seam.
            for (step, [r, g, b]) in ramp.iter().enumerate() {
                let x = bar.x + step as f64 * step_px;
                svg.put(format_args!(
                    "<path fill=\"#{r:02x}{g:02x}{b:02x}\" d=\"M{} {}H{}v{}H{}z\"/>\n",
                    Num(x),
                    Num(bar.y),
                    Num(bar.right()),
                    Num(bar.height),
                    Num(x)
                ));
            }
            svg.put(format_args!("</g>\n"));
        }
        self.bar_labels(svg, bar);
        y + 50.0
    }

    fn bar_labels(&self, svg: &mut Svg, bar: Area) {
        let mut ticks = self.colours.ticks();
        // The ends say exactly where the scale starts and ends; round values find room between them.
        let ends = [self.colours.low, self.colours.high]
            .map(|value| (self.colours.part(value), rate_label(self.series.weight, value)));
        if self.colours.high > self.colours.low {
            let room = |place: f64, label: &str| {
                ends.iter().all(|(end, text)| {
                    (place - end).abs() * bar.width > 6.0 + (text_width(label, 10.0) + text_width(text, 10.0)) / 2.0
                })
            };
            ticks.retain(|(place, label)| room(*place, label));
            ticks.splice(0..0, [ends[0].clone()]);
        } else {
            ticks.clear();
        }
        ticks.push(ends[1].clone());
        if self.colours.fixed
            && let Some((_, label)) = ticks.last_mut()
        {
            *label = format!(">= {label}");
        }
        let mut end = f64::NEG_INFINITY;
        for (place, label) in ticks {
            let x = bar.x + place * bar.width;
            svg.put(format_args!(
                "<path stroke=\"{}\" d=\"M{} {}v3\"/>\n",
                self.page.inks.muted,
                Num(x),
                Num(bar.bottom())
            ));
            let half = text_width(&label, 10.0) / 2.0;
            if x - half > end + 4.0 {
                svg.text(x, bar.bottom() + 13.0, " text-anchor=\"middle\" font-size=\"10\"", &label);
                end = x + half;
            }
        }
    }

    /// The keys of the percentile lines, from the left: the colour of a line (`None` for a remark), its text.
    fn line_keys(&self) -> Vec<(Option<&'static str>, String)> {
        let lines = self.options.lines(self.series.quantity);
        let points = || self.panels.iter().flat_map(|panel| &panel.percentiles);
        let mut keys = Vec::new();
        for (line, &quantile) in lines.iter().enumerate() {
            if points().any(|point| line < point.values.len()) {
                keys.push((Some(self.page.inks.lines[line % self.page.inks.lines.len()]), quantile_name(quantile)));
            }
        }
        let together = self.frame.line_columns();
        let time = format_duration(self.frame.width_ns.saturating_mul(together.into()));
        let has_few = points().flat_map(|point| &point.values).any(|percentile| percentile.is_few);
        let per = (together > 1 && !keys.is_empty()).then(|| format!("per {time}"));
        let few = has_few.then(|| "thin: fewer than ten events beyond".to_owned());
        let remarks: Vec<String> = per.into_iter().chain(few).collect();
        if !remarks.is_empty() {
            keys.push((None, remarks.join(" · ")));
        }
        keys
    }

    /// Draws keys so that they end at the right; returns where they start.
    fn draw_keys(&self, svg: &mut Svg, keys: &[(Option<&'static str>, String)], y: f64) -> f64 {
        let mut x = self.frame.page_px() - 26.0;
        for (ink, name) in keys.iter().rev() {
            let fill = if ink.is_some() { self.page.inks.text } else { self.page.inks.muted };
            svg.text(x, y, &format!(" text-anchor=\"end\" fill=\"{fill}\""), name);
            x -= text_width(name, 11.0) + 8.0;
            if let Some(ink) = ink {
                let (x, y) = (Num(x), Num(y - 4.0));
                svg.put(format_args!("<path stroke=\"{ink}\" stroke-width=\"2\" d=\"M{x} {y}h-18\"/>\n"));
            }
            x -= if ink.is_some() { 34.0 } else { 14.0 };
        }
        x
    }

    fn colour_words(&self) -> String {
        let what = match self.series.weight {
            Weight::Count => "events per second in a cell",
            Weight::Time => "time spent per second in a cell",
            Weight::Bytes => "bytes per second in a cell",
        };
        let scale = match self.options.color {
            latscope_view::Scale::Log => "",
            latscope_view::Scale::Sqrt => ", square-root colours",
            latscope_view::Scale::Linear => ", linear colours",
        };
        let one = match self.series.weight {
            Weight::Count => format!(
                "; one event in {} is {}",
                format_duration(self.frame.width_ns),
                rate_label(self.series.weight, 1e9 / self.frame.width_ns as f64)
            ),
            _ => String::new(),
        };
        format!("{what}{scale}{one}")
    }

    /// What the weights add up, as a noun.
    pub(super) fn weight_noun(&self) -> &'static str {
        match self.series.weight {
            Weight::Count => "events",
            Weight::Time => "time spent",
            Weight::Bytes => "data",
        }
    }
}
