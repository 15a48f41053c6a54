//! Strips below the heat map that share its time axis: event rate, throughput, events in flight.

use super::Picture;
use crate::svg::{Area, Num, Svg};
use latscope_event::{format_rate, format_size};

const STRIP_PX: f64 = 38.0;
const GAP_PX: f64 = 8.0;

impl Picture<'_> {
    /// Draws the strips below `y`; returns where they end.
    pub(super) fn strips(&self, svg: &mut Svg, y: f64) -> f64 {
        let columns = self.frame.columns;
        let seconds = self.frame.width_ns as f64 / 1e9;
        let mut rates = vec![0.0; columns.count as usize];
        for panel in &self.panels {
            rates.iter_mut().zip(&panel.counts).for_each(|(rate, &count)| *rate += count as f64 / seconds);
        }
        let mut bytes = vec![0.0; columns.count as usize];
        for (&interval, slice) in self.series.slices() {
            if let Some(column) = columns.of(interval) {
                bytes[column as usize] = slice.bytes as f64 / seconds;
            }
        }
        let in_flight = self.series.in_flight(columns.first, columns.last());
        let size = |value: f64| format!("{}/s", format_size(value.round() as u64));
        let plain = |value: f64| if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
        let mut y = self.strip(svg, y, "events", &rates, &|value| format_rate(value));
        // A source without sizes, or a series that was stored without flow, has no such strip.
        if bytes.iter().any(|&value| value > 0.0) {
            y = self.strip(svg, y, "bytes", &bytes, &size);
        }
        if in_flight.iter().any(|&value| value > 0.0) {
            y = self.strip(svg, y, "in flight", &in_flight, &plain);
        }
        y
    }

    fn strip(&self, svg: &mut Svg, y: f64, name: &str, values: &[f64], label: &dyn Fn(f64) -> String) -> f64 {
        let most = values.iter().copied().fold(0.0, f64::max);
        let area = Area { x: self.frame.left(), y, width: self.frame.plot_px(), height: STRIP_PX };
        svg.rect(area, &format!(" fill=\"{}\"", self.inks.plot));
        if self.options.grid {
            self.frame.verticals(svg, &self.inks, area.y, area.height);
        }
        let top = |value: f64| {
            // Something that is not nothing is at least a pixel high.
            let height = if most > 0.0 { value / most * (STRIP_PX - 2.0) } else { 0.0 };
            area.bottom() - if value > 0.0 { height.max(1.0) } else { 0.0 }
        };
        svg.put(format_args!(
            "<path fill=\"{}\" stroke=\"{}\" stroke-width=\"0.8\" d=\"M{} {}",
            self.inks.strip,
            self.inks.strip_line,
            Num(area.x),
            Num(area.bottom())
        ));
        let mut run = 0;
        for (at, &value) in values.iter().enumerate() {
            run += 1;
            if values.get(at + 1).is_none_or(|&next| next != value) {
                svg.put(format_args!("V{}h{}", Num(top(value)), run * self.frame.column_px));
                run = 0;
            }
        }
        svg.put(format_args!("V{}z\"/>\n", Num(area.bottom())));
        self.frame.hatches(svg, self.contexts, area.y, area.height);
        svg.rect(area, &format!(" fill=\"none\" stroke=\"{}\"", self.inks.frame));
        let muted = format!(" text-anchor=\"end\" fill=\"{}\"", self.inks.muted);
        svg.text(area.x - 8.0, y + 11.0, " text-anchor=\"end\"", &label(most));
        svg.text(area.x - 8.0, y + STRIP_PX / 2.0 + 7.0, &muted, name);
        svg.text(area.x - 8.0, area.bottom(), &format!("{muted} font-size=\"9\""), "0");
        area.bottom() + GAP_PX
    }
}
