//! What the picture says about itself in words: heading, origin, notes, text alternative.

use super::Picture;
use super::colour::weight_label;
use super::draw::percent;
use super::legend::quantile_name;
use crate::svg::{Svg, shortened, wrapped};
use latscope_event::{Context, format_count, format_duration, format_wall, wall_zone};
use latscope_histogram::{Rule, Totals};
use latscope_series::{Quantity, Weight};

/// So many lines of notes at most; the rest is counted.
const NOTE_LINES: usize = 14;
/// Contexts named one by one.
const NAMED: usize = 3;

impl Picture<'_> {
    pub(super) fn title(&self) -> String {
        self.options.title.clone().unwrap_or_else(|| {
            let quantity = match self.series.quantity {
                Quantity::Latency => "Latency",
                Quantity::Size => "Size",
                Quantity::Offset => "Offset",
                Quantity::Queue => "Queue time",
            };
            match self.series.weight {
                Weight::Count => format!("{quantity} heat map"),
                Weight::Time => format!("{quantity} heat map, weighted by time spent"),
                Weight::Bytes => format!("{quantity} heat map, weighted by bytes"),
            }
        })
    }

    /// Draws heading and origin; returns where they end.
    pub(super) fn head(&self, svg: &mut Svg) -> f64 {
        let left = 20.0;
        svg.text(left, 28.0, " font-size=\"17\" font-weight=\"bold\"", &shortened(&self.title(), self.letters(17.0)));
        let mut y = 47.0;
        let style = format!(" font-size=\"12\" fill=\"{}\"", self.inks.muted);
        for sentence in [self.origin(), self.numbers(), self.how()] {
            for line in wrapped(&sentence, self.letters(12.0), 2) {
                svg.text(left, y, &style, &line);
                y += 16.0;
            }
        }
        y
    }

    /// How many letters of this size fit on a line.
    fn letters(&self, size: f64) -> usize {
        ((self.frame.page_px() - 40.0) / (size * 0.57)) as usize
    }

    /// Host, source, filter.
    fn origin(&self) -> String {
        let mut parts: Vec<String> = self.contexts.iter().take(NAMED).map(name).collect();
        if self.contexts.len() > NAMED {
            parts.push(format!("and {} more", self.contexts.len() - NAMED));
        }
        if let Some(filter) = &self.options.filter {
            parts.push(format!("filter: {}", shortened(filter, 200)));
        }
        parts.join(" · ")
    }

    fn totals(&self) -> Totals {
        self.panels.iter().fold(Totals::EMPTY, |sum, panel| sum.merged(&panel.totals))
    }

    /// The numbers behind the picture.
    fn numbers(&self) -> String {
        let totals = self.totals();
        if totals.count == 0 {
            return "0 events".into();
        }
        let label = |value| self.axis.label(value);
        let mut parts = vec![events(totals.count)];
        let total = self.series.total(None);
        let mut quantiles = vec![0.5, 0.99];
        if self.series.quantity == Quantity::Offset {
            quantiles.clear();
        }
        quantiles.extend(self.options.lines(self.series.quantity).iter().filter(|&&at| at > 0.0 && at < 1.0));
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup();
        let values = total.quantiles(&quantiles, Rule::Interpolated).unwrap_or_default();
        let mut named = vec![format!("{} min {}", self.series.quantity.word(), label(totals.min))];
        let grid = self.series.grid();
        named.extend(quantiles.iter().zip(values).map(|(&at, value)| {
            // Sizes are round, and the lower edge of a bucket is the roundest number in it.
            let value = if self.series.quantity.is_bytes() { grid.lower(grid.index(value)) } else { value };
            format!("{} {}", quantile_name(at), label(value))
        }));
        named.push(format!("max {}", label(totals.max)));
        parts.push(named.join(", "));
        if self.series.weight != Weight::Count {
            let sum = self.panels.iter().fold(0u64, |sum, panel| sum.saturating_add(panel.weight));
            parts.push(format!("{} of {} in all", weight_label(self.series.weight, sum), self.weight_noun()));
        }
        parts.join(" · ")
    }

    /// Interval, scale, clock.
    fn how(&self) -> String {
        let frame = &self.frame;
        let mut parts = vec![match frame.merged_from_ns {
            Some(given) => format!(
                "interval {} (intervals of {} merged to fit {} columns)",
                format_duration(frame.width_ns),
                format_duration(given),
                self.options.width
            ),
            None => format!("interval {}", format_duration(frame.width_ns)),
        }];
        if let Some(to_unix_ns) = frame.to_unix_ns {
            let unix_ns = frame.zero_ns.saturating_add(to_unix_ns);
            let about = if frame.approximate { "about " } else { "" };
            parts.push(format!("began {about}{} {}", format_wall(unix_ns, 0, true), wall_zone(unix_ns)));
        } else if let Some(context) = self.contexts.first() {
            parts.push(format!("{} clock, wall time unknown", shortened(&context.clock.name, 24)));
        }
        if self.totals().count > 0 && frame.partial.contains(&true) {
            parts.push("finely hatched: interval covered in part".into());
        }
        if self.contexts.iter().any(|context| !context.loss_ranges.is_empty()) {
            parts.push("boldly hatched: records lost".into());
        }
        parts.join(" · ")
    }

    /// What was lost, repaired and unfinished, as lines below `y`; returns where they end.
    pub(super) fn notes(&self, svg: &mut Svg, y: f64) -> f64 {
        let mut lines: Vec<String> = Vec::new();
        for context in self.contexts {
            let prefix = if self.contexts.len() > 1 { format!("{}: ", name(context)) } else { String::new() };
            for note in context.notes() {
                lines.extend(wrapped(&format!("{prefix}{note}"), self.letters(11.0), 4));
            }
        }
        if lines.len() > NOTE_LINES {
            let left_out = lines.len() - (NOTE_LINES - 1);
            lines.truncate(NOTE_LINES - 1);
            lines.push(format!("and {left_out} more lines of notes, which `summary` prints"));
        }
        let mut y = y + 6.0;
        for line in lines {
            let ink = if line.starts_with("missing:") || line.contains(": missing:") {
                self.inks.alarm
            } else {
                self.inks.muted
            };
            y += 15.0;
            svg.text(20.0, y, &format!(" fill=\"{ink}\""), &line);
        }
        y
    }

    /// The picture in words, for those who cannot see it.
    pub(super) fn description(&self) -> String {
        let [drawn, below, above] = self.accounted();
        let (lower, upper) = self.axis.range();
        let mut parts = vec![self.origin(), self.numbers(), self.how()];
        parts.push(format!(
            "{} drawn between {} and {}, {} below, {} above",
            events(drawn),
            self.axis.label(lower),
            self.axis.label(upper),
            events(below),
            events(above)
        ));
        let all = self.totals().count.max(1) as f64;
        for panel in self.panels.iter().filter(|panel| panel.name.is_some()) {
            parts.push(format!(
                "{}: {}, {}",
                shortened(panel.name.as_deref().unwrap_or_default(), 60),
                events(panel.totals.count),
                percent(100.0 * panel.totals.count as f64 / all)
            ));
        }
        parts.extend(self.contexts.iter().take(NAMED).flat_map(Context::notes));
        parts.retain(|part| !part.is_empty());
        parts.join(". ")
    }

    /// Events in rows, below and above them: together all that there are.
    fn accounted(&self) -> [u64; 3] {
        let below = self.panels.iter().map(|panel| panel.below).sum();
        let above = self.panels.iter().map(|panel| panel.above).sum();
        let cells = self.panels.iter().flat_map(|panel| &panel.cells);
        let drawn = cells.filter(|cell| matches!(cell.place, crate::axis::Place::Row(_))).map(|cell| cell.count).sum();
        [drawn, below, above]
    }
}

/// A count of events in words.
pub(super) fn events(count: u64) -> String {
    if count == 1 { "1 event".into() } else { format!("{} events", format_count(count)) }
}

/// Host and source of a trace.
fn name(context: &Context) -> String {
    let source = shortened(&context.source, 90);
    context.host.as_ref().map_or(source.clone(), |host| format!("{} · {source}", shortened(host, 60)))
}
