//! Strips below the heat map that share its time axis: event rate, throughput, events in flight.

use super::Picture;
use crate::frame::Strip;
use crate::svg::Svg;
use latscope_event::{format_rate, format_size};
use latscope_series::Quantity;

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
            if let Some(column) = columns.column_of(interval) {
                bytes[column as usize] = slice.bytes as f64 / seconds;
            }
        }
        let mut sequential = vec![0.0; columns.count as usize];
        for (&interval, slice) in self.series.slices() {
            if let Some(column) = columns.column_of(interval) {
                let count: u64 = slice.groups.iter().map(|(_, sparse)| sparse.totals().count).sum();
                sequential[column as usize] = (100.0 * slice.sequential as f64 / count.max(1) as f64).min(100.0);
            }
        }
        let in_flight = self.series.in_flight(columns.first, columns.last());
        let size = |value: f64| format!("{}/s", format_size(value.round() as u64));
        let plain = |value: f64| if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
        let strip = |svg: &mut Svg, y: f64, name: &str, values: &[f64], label: &dyn Fn(f64) -> String| {
            self.frame.strip(svg, &self.page, y, self.options.grid, &Strip { name, values, label })
        };
        let mut y = strip(svg, y, "events", &rates, &|value| format_rate(value));
        // A source without sizes, or a series that was stored without flow, has no such strip.
        if bytes.iter().any(|&value| value > 0.0) {
            y = strip(svg, y, "bytes", &bytes, &size);
        }
        if self.series.quantity == Quantity::Offset {
            y = strip(svg, y, "sequential", &sequential, &|value| format!("{value:.0} %"));
        }
        if in_flight.iter().any(|&value| value > 0.0) {
            y = strip(svg, y, "in flight", &in_flight, &plain);
        }
        y
    }
}
