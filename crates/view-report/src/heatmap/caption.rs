//! What the picture says about itself in words: heading, origin, notes, text alternative.

use super::Picture;
use crate::axis;
use crate::page::{events, percent, quantile_name};
use crate::svg::shortened;
use latscope_event::format_count;
use latscope_histogram::{Rule, Totals};
use latscope_series::{Quantity, Weight};
use latscope_view::{quantity_title, value_label, weight_label};

impl Picture<'_> {
    /// What the heading says: origin, numbers, how they were made.
    pub(super) fn sentences(&self) -> [String; 3] {
        [self.page.origin(), self.numbers(), self.how()]
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
        let label = |value| value_label(self.series.quantity, value);
        let mut parts = vec![events(totals.count)];
        let (completed, waiting) = (self.series.total(None).to_sparse(), self.series.still_waiting(None));
        let bound = |at_least| if at_least { ">=" } else { "" };
        let mut quantiles = vec![0.5, 0.99];
        if self.series.quantity == Quantity::Offset {
            quantiles.clear();
        }
        quantiles.extend(self.options.lines(self.series.quantity).iter().filter(|&&at| at > 0.0 && at < 1.0));
        quantiles.sort_by(f64::total_cmp);
        quantiles.dedup();
        let values = waiting.quantiles(&completed, &quantiles, Rule::Interpolated).unwrap_or_default();
        let mut named = vec![format!("{} min {}", self.series.quantity.word(), label(totals.min))];
        let grid = self.series.grid();
        named.extend(quantiles.iter().zip(values).map(|(&at, value)| {
            // Sizes are round, and the lower edge of a bucket is the roundest number in it.
            let is_bytes = self.series.quantity.is_bytes();
            let rounded = if is_bytes { grid.lower(grid.index(value.value)) } else { value.value };
            format!("{} {}{}", quantile_name(at), bound(value.at_least), label(rounded))
        }));
        let max = waiting.max(&completed);
        named.extend(max.map(|max| format!("max {}{}", bound(max.at_least), label(max.value))));
        parts.push(named.join(", "));
        if self.series.weight != Weight::Count {
            let sum = self.panels.iter().fold(0u64, |sum, panel| sum.saturating_add(panel.weight));
            parts.push(format!("{} of {} in all", weight_label(self.series.weight, sum), self.weight_noun()));
        }
        parts.join(" · ")
    }

    fn how(&self) -> String {
        self.frame.how(self.contexts, self.totals().count > 0, self.options.width)
    }

    /// The picture in words, for those who cannot see it.
    pub(super) fn description(&self) -> Vec<String> {
        let [drawn, below, above] = self.accounted();
        let mut parts = self.sentences().to_vec();
        let ranges = self.panels.iter().map(|panel| panel.axis.range());
        let (lower, upper) = ranges.fold((u64::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        parts.push(format!(
            "{} drawn between {} and {}, {} below, {} above",
            events(drawn),
            value_label(self.series.quantity, lower),
            value_label(self.series.quantity, upper),
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
        let waiting = self.series.still_waiting(None);
        if let Some(oldest_ns) = waiting.oldest_ns() {
            let age = value_label(self.series.quantity, oldest_ns);
            parts.push(format!("{} waiting at the end, the oldest >={age}", format_count(waiting.count())));
        }
        parts.extend(self.page.note_texts());
        parts
    }

    /// Events in rows, below and above them: together all that there are.
    fn accounted(&self) -> [u64; 3] {
        let below = self.panels.iter().map(|panel| panel.below).sum();
        let above = self.panels.iter().map(|panel| panel.above).sum();
        let cells = self.panels.iter().flat_map(|panel| &panel.cells);
        let drawn = cells.filter(|cell| matches!(cell.place, axis::Place::Row(_))).map(|cell| cell.count).sum();
        [drawn, below, above]
    }
}

/// The heading when none is given: quantity and weight.
pub(super) fn title(quantity: Quantity, weight: Weight) -> String {
    let quantity = quantity_title(quantity);
    match weight {
        Weight::Count => format!("{quantity} heat map"),
        Weight::Time => format!("{quantity} heat map, weighted by time spent"),
        Weight::Bytes => format!("{quantity} heat map, weighted by bytes"),
    }
}
