//! What is unusual in a trace, as incidents are reported: what, how slow, when, and what it has in common.

use super::{ExplanationView, json, number_of, percent, share, sum_words, total_words, waits_words, words};
use crate::cell::wrap;
use crate::{Line, caption};
use latscope_event::{Context, Wording, format_duration, format_duration_exact, format_wall};
use latscope_series::Quantity;
use latscope_series::explain::{Part, Spot, SpotKind, Waits, filter_of};

/// So many findings of a spot are printed.
const FINDINGS: usize = 2;

/// The spots of a trace with what a reader has to know of it.
pub struct SpotsView<'a> {
    /// The heaviest first.
    pub spots: &'a [Spot],
    /// What has waited for unusually long, and waits still.
    pub waits: Option<Waits>,
    /// All events.
    pub total: Part,
    /// What was looked at.
    pub quantity: Quantity,
    /// Which events were looked at; empty: all of the trace.
    pub within: String,
    /// Makes the result reproducible.
    pub seed: u64,
}

impl SpotsView<'_> {
    /// The whole as text, for a terminal of so many columns.
    pub fn lines(&self, context: &Context, wording: Wording, columns: usize) -> Vec<Line> {
        let what = total_words(self.quantity, &self.total);
        let mut lines = caption::head(&what, context, &self.within, columns);
        lines.push(Line::default());
        if let Some(waits) = &self.waits {
            let mut text = waits_words(waits, &self.total);
            if !waits.shared.is_empty() {
                text += &format!(": {}", words(&waits.shared));
            }
            lines.extend(wrap(&text, columns));
            lines.push(Line::new(&format!("   filter  latency_ns >= {}", format_duration_exact(waits.ages_ns[0]))));
        }
        for (at, spot) in self.spots.iter().enumerate() {
            lines.extend(self.spot(at + 1, spot, context, columns));
        }
        if self.spots.is_empty() && self.waits.is_none() {
            let nothing = match self.total.events {
                0 => "No events, so there is nothing to look at.",
                _ if self.quantity != Quantity::Latency => {
                    "Nothing unusual found: no separate band of high values, no outlier, no burst, no recurrence, no change, \
                     no straggler."
                }
                _ => {
                    "Nothing unusual found: no request that waits, no separate band of slow events, no outlier, no burst, no \
                     recurring stall, no change, no straggler."
                }
            };
            lines.extend(wrap(nothing, columns));
        }
        lines.push(Line::default());
        lines.extend(caption::foot(context, wording, columns));
        lines
    }

    /// One of them; `number` counts from 1.
    pub fn spot(&self, number: usize, spot: &Spot, context: &Context, columns: usize) -> Vec<Line> {
        let selection = &spot.explanation.selection;
        let [least, median, most] = spot.latency_ns.map(|value| self.quantity.shown(value));
        let time = share(selection.waiting_ns as f64, self.total.waiting_ns as f64);
        let events = caption::events(selection.events);
        let mut lines = wrap(
            &format!("{number}. {}: {events} with {time} of all {}", name(spot), sum_words(self.quantity)),
            columns,
        );
        let mut row = |title: &str, text: &str| {
            let indented = |(at, line): (usize, Line)| {
                Line::new(&format!("   {:7} {}", if at == 0 { title } else { "" }, line.text()))
            };
            lines.extend(wrap(text, columns.saturating_sub(11).max(20)).into_iter().enumerate().map(indented));
        };
        let usual = self.quantity.shown(spot.usual_ns);
        let range = match least == most {
            true => least,
            false => format!("{least} to {most}, median {median}"),
        };
        row(
            if self.quantity == Quantity::Latency { "slow" } else { "range" },
            &format!("{range} (all others: median {usual})"),
        );
        row("when", &when(spot, context));
        for finding in spot.explanation.findings.iter().take(FINDINGS) {
            let [here, there] = [finding.counts.selected_share(), finding.counts.baseline_share()].map(percent);
            row("common", &format!("{}: {here} of these, {there} of the others", words(&finding.conditions)));
        }
        if spot.explanation.findings.is_empty() {
            // A few events prove nothing; what they were is worth a line.
            match &spot.explanation.shared[..] {
                [] => row("common", "nothing beyond chance"),
                shared => row("all are", &words(shared)),
            }
        }
        // What is to be copied is in one piece.
        lines.push(Line::new(&format!("   filter  {}", words(&spot.conditions))));
        lines
    }

    /// One object; `docs/views/explain.md` describes its keys.
    pub fn json(&self) -> String {
        let spots: Vec<String> = self.spots.iter().map(|spot| self.spot_json(spot)).collect();
        let within = if self.within.is_empty() { "null".into() } else { json::text(&self.within) };
        let quantity = json::quantity(self.quantity);
        format!(
            "{{{quantity}\"total\":{},\"not_completed\":{},\"within\":{within},\"spots\":[{}],\"seed\":{}}}",
            json::part(self.quantity, &self.total, None, &self.total),
            json::waits(&self.waits, &self.total),
            spots.join(","),
            self.seed
        )
    }

    fn spot_json(&self, spot: &Spot) -> String {
        let filter = filter_of(&spot.conditions);
        let selection = filter.clone().unwrap_or_default();
        let view = ExplanationView {
            explanation: &spot.explanation,
            baseline: format!("not ({selection})"),
            selection,
            within: self.within.clone(),
            is_inverted: false,
            waits: None,
            seed: self.seed,
        };
        let period = match spot.kind {
            SpotKind::Periodic(ns) => ns.to_string(),
            _ => "null".into(),
        };
        let ([least, median, most], unit) = (spot.latency_ns, self.quantity.suffix());
        format!(
            "{{\"kind\":\"{}\",\"filter\":{},\"period_ns\":{period},\"min{unit}\":{least},\"median{unit}\":{median},\"max{unit}\":{most},\
             \"usual_median{unit}\":{},\"from_ns\":{},\"to_ns\":{},\"explanation\":{}}}",
            spot.kind.word(),
            filter.map_or("null".into(), |filter| json::text(&filter)),
            spot.usual_ns,
            spot.span_ns.0,
            spot.span_ns.1,
            view.json()
        )
    }
}

fn name(spot: &Spot) -> String {
    let quantity = spot.explanation.quantity;
    let (slow, slower) = match quantity {
        Quantity::Latency => ("slow events".into(), "slower"),
        _ => (format!("events with much {}", quantity.word()), "higher"),
    };
    match spot.kind {
        SpotKind::Outlier => format!("far {slower} than all others"),
        SpotKind::Band => format!("a band of {slow}"),
        SpotKind::Burst => format!("a burst of {slow}"),
        SpotKind::Periodic(ns) => format!("{slow} every {}", format_duration(ns)),
        SpotKind::Change => format!("{slower} from here on"),
        SpotKind::Straggler => {
            let group = spot.conditions.first().map_or(String::new(), number_of);
            format!("{slower} than its like, {group}")
        }
    }
}

/// First and last completion: from the start of the trace, and by the clock where that is known.
fn when(spot: &Spot, context: &Context) -> String {
    let (from, to) = spot.span_ns;
    let start = context.trace_start_ns().unwrap_or(from);
    let elapsed = |ns: i64| format!("+{}", format_duration(ns.saturating_sub(start).max(0).unsigned_abs()));
    let wall = context.clock.to_unix_ns.map(|unix| [from, to].map(|ns| format_wall(ns.saturating_add(unix), 3, false)));
    match wall {
        Some([first, _]) if from == to => format!("{} ({first})", elapsed(from)),
        Some([first, last]) => format!("{} to {} ({first} to {last})", elapsed(from), elapsed(to)),
        None if from == to => elapsed(from),
        None => format!("{} to {}", elapsed(from), elapsed(to)),
    }
}
