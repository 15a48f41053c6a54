//! What explains a selection of events: its findings, and how each attribute differs.

mod json;
mod layers;
mod spots;

pub use spots::SpotsView;

use crate::cell::wrap;
use crate::table::{Align, Table};
use crate::{Line, caption};
use latscope_event::{Context, Field, FieldSet, FieldType, Wording, format_count, format_duration, format_size};
use latscope_series::Quantity;
use latscope_series::explain::{
    Attribute, AttributeReport, Condition, Counts, Explanation, Finding, Part, Waits, filter_of,
};

/// Width of a bar, columns.
const BAR: usize = 10;
/// Eighths of a cell.
const EIGHTHS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
/// So many other names of the same events are listed.
const SAME: usize = 4;
/// So many numbers of a single event are listed.
const ALONE: usize = 6;

/// An explanation with what a reader has to know of it.
pub struct ExplanationView<'a> {
    /// What explains the selection.
    pub explanation: &'a Explanation,
    /// What is explained, in words or as a filter.
    pub selection: String,
    /// What it is compared with.
    pub baseline: String,
    /// Which events were looked at; empty: all of the trace.
    pub within: String,
    /// The selection is most of the events, so the others are explained.
    pub is_inverted: bool,
    /// Requests of the selection that have not completed.
    pub waits: Option<Waits>,
    /// Makes the result reproducible.
    pub seed: u64,
}

impl ExplanationView<'_> {
    /// The whole as text, for a terminal of so many columns.
    pub fn lines(&self, context: &Context, wording: Wording, columns: usize) -> Vec<Line> {
        let what = total_words(self.explanation.quantity, &self.explanation.total);
        let mut lines = caption::head(&what, context, &self.within, columns);
        lines.extend(self.body(columns));
        lines.extend(caption::foot(context, wording, columns));
        lines
    }

    /// Selection, findings and attributes, without what the trace says of itself.
    pub fn body(&self, columns: usize) -> Vec<Line> {
        let Explanation { quantity, total, selection, baseline, .. } = self.explanation;
        // What waits still has a share of its own, of all there is.
        let (all, of) = (sum_words(*quantity), if self.waits.is_some() { " of completed requests" } else { "" });
        let side = |name: &str, part: &Part, words: &str| {
            let events = share(part.events as f64, total.events as f64);
            let time = share(part.waiting_ns as f64, total.waiting_ns as f64);
            let count = caption::events(part.events);
            wrap(&format!("{name}: {count} ({events}), {time} of all {all}{of}: {words}"), columns)
        };
        // It is what the filter selects, which is the baseline where the others are explained.
        let waits = |name: &str| {
            let Some(waits) = &self.waits else { return Vec::new() };
            let mut text = format!("{name}, not completed: {}", waits_words(waits, total));
            if !waits.shared.is_empty() {
                text += &format!(": {}", words(&waits.shared));
            }
            wrap(&text, columns)
        };
        let mut lines = side("selection", selection, &self.selection);
        if !self.is_inverted {
            lines.extend(waits("selection"));
        }
        lines.extend(side("baseline", baseline, &self.baseline));
        if self.is_inverted {
            lines.extend(waits("baseline"));
        }
        lines.extend(self.inversion(columns));
        lines.push(Line::default());
        lines.extend(self.findings(columns));
        lines.push(Line::default());
        lines.extend(self.explanation.beneath.iter().flat_map(|beneath| layers::lines(beneath, columns)));
        lines.extend(self.attributes(columns));
        lines
    }

    /// The findings alone, for a panel that says elsewhere what is selected.
    pub fn ranking(&self, columns: usize) -> Vec<Line> {
        self.inversion(columns).into_iter().chain(self.findings(columns)).collect()
    }

    fn inversion(&self, columns: usize) -> Vec<Line> {
        let text = "The filter selects more than half of the events, so the others are explained.";
        if self.is_inverted { wrap(text, columns) } else { Vec::new() }
    }

    fn findings(&self, columns: usize) -> Vec<Line> {
        let findings = &self.explanation.findings;
        match findings.is_empty() {
            true => {
                let mut lines = wrap(self.nothing(), columns);
                lines.extend(self.alone(columns));
                if !self.explanation.shared.is_empty() {
                    lines.extend(wrap(&format!("All of them are: {}", words(&self.explanation.shared)), columns));
                }
                lines
            }
            false => {
                let lines = findings.iter().enumerate().flat_map(|(at, one)| self.finding(at + 1, one, columns));
                lines.collect()
            }
        }
    }

    /// Why there is no finding.
    fn nothing(&self) -> &'static str {
        let Explanation { selection, baseline, attributes, .. } = self.explanation;
        match (selection.events, baseline.events, attributes.len()) {
            (0, ..) if self.waits.is_some() => "No selected request has completed, so there is nothing to compare.",
            (0, ..) => "No event is selected, so there is nothing to explain.",
            (selected, 0, _) if selected < self.explanation.total.events => {
                "The baseline has no events beside the selected ones, so there is nothing to compare them with."
            }
            (_, 0, _) => "All events are selected, so there is nothing to compare them with.",
            (_, _, 0) => "No field is left to test.",
            (1, ..) => "No difference found: of a single event, none can be told from chance.",
            _ => "No difference found: nothing that the selected events have in common is beyond chance.",
        }
    }

    /// Of a single event, its durations and sizes that exceed the medians of the others by half; those that do so most first.
    fn alone(&self, columns: usize) -> Vec<Line> {
        let is_alone = self.explanation.selection.events == 1 && self.explanation.baseline.events > 0;
        let mut more: Vec<(bool, u64, &AttributeReport)> = Vec::new();
        for one in self.explanation.attributes.iter().filter(|_| is_alone) {
            let Attribute::Field(field) = one.attribute else { continue };
            if matches!(field, Field::Offset | Field::SincePrevious) {
                continue;
            }
            let is_bytes = field.field_type() == FieldType::Bytes;
            let [Some(own), Some(median)] = one.medians else { continue };
            if (is_bytes || field.field_type() == FieldType::Duration) && own > median.saturating_add(median / 2) {
                more.push((is_bytes, own - median, one));
            }
        }
        if more.is_empty() {
            return Vec::new();
        }
        more.sort_by_key(|(is_bytes, more, _)| (*is_bytes, std::cmp::Reverse(*more)));
        let words: Vec<String> =
            more.iter().take(ALONE).map(|(.., one)| format!("{} {}", one.attribute.name(), medians(one))).collect();
        wrap(&format!("What it has more of than the median of the others: {}", words.join(", ")), columns)
    }

    fn finding(&self, number: usize, finding: &Finding, columns: usize) -> Vec<Line> {
        let Counts { with: [selected, others], .. } = finding.counts;
        let (here, there) = (finding.counts.selected_share(), finding.counts.baseline_share());
        let time = share(finding.waiting_ns as f64, self.explanation.total.waiting_ns as f64);
        let mut lines = vec![Line::new(&format!("{number}. {}", words(&finding.conditions)))];
        let row = |name: &str, part: f64, rest: String| {
            Line::new(&format!("   {name}  {:BAR$}  {:>6}  {rest}", bar(part), percent(part)))
        };
        let all = sum_words(self.explanation.quantity);
        let slow = format!("{} events, {time} of all {all}", format_count(selected));
        lines.push(row("selection", here, slow));
        lines.push(row("baseline ", there, format!("{} events", format_count(others))));
        let same: Vec<String> = finding.same.iter().take(SAME).map(|conditions| words(conditions)).collect();
        if !same.is_empty() {
            let more = finding.same.len() - same.len();
            let more = if more > 0 { format!("; {more} more") } else { String::new() };
            let text = format!("nearly the same events: {}{more}", same.join("; "));
            let indented = |line: Line| Line::new(&format!("   {}", line.text()));
            lines.extend(wrap(&text, columns.saturating_sub(3).max(20)).into_iter().map(indented));
        }
        lines.iter_mut().skip(1).for_each(|line| {
            line.truncate(columns, true);
        });
        lines
    }

    fn attributes(&self, columns: usize) -> Vec<Line> {
        let (different, alike): (Vec<_>, Vec<_>) = self.explanation.attributes.iter().partition(|one| one.differs);
        let mut table = Table::new([
            ("difference", Align::Left),
            ("field", Align::Left),
            ("value", Align::Left),
            ("selection", Align::Right),
            ("baseline", Align::Right),
            ("medians", Align::Right),
        ]);
        for one in different {
            for (at, value) in one.values.iter().enumerate() {
                let [difference, name, medians] = match at {
                    0 => [bar(one.divergence), one.attribute.name().into(), medians(one)],
                    _ => Default::default(),
                };
                let [here, there] = [value.counts.selected_share(), value.counts.baseline_share()].map(percent);
                table.push(vec![difference, name, value_words(&value.condition), here, there, medians]);
            }
        }
        let mut lines = Vec::new();
        let rows = table.take_lines(columns);
        if !rows.is_empty() {
            lines.push(table.heading(columns));
            lines.extend(rows);
        }
        let list = |names: Vec<&str>| names.join(", ");
        if !alike.is_empty() {
            let names = list(alike.iter().map(|one| one.attribute.name()).collect());
            lines.extend(wrap(&format!("no difference: {names}"), columns));
        }
        if self.explanation.without != FieldSet::EMPTY {
            let names = list(self.explanation.without.iter().map(Field::name).collect());
            lines.extend(wrap(&format!("not tested, because the filters use it: {names}"), columns));
        }
        lines
    }
}

/// Conditions as a filter, or in words where no filter can hold them.
fn words(conditions: &[Condition]) -> String {
    filter_of(conditions).unwrap_or_else(|| {
        let each = conditions.iter().map(|one| format!("{} {}", one.attribute().name(), value_words(one)));
        format!("{} (no filter can hold this text)", each.collect::<Vec<_>>().join(" and "))
    })
}

/// Field and value of a condition, for the eye.
fn number_of(condition: &Condition) -> String {
    format!("{} {}", condition.attribute().name(), value_words(condition))
}

/// The value of a condition, without its field.
fn value_words(condition: &Condition) -> String {
    match condition {
        Condition::Is(_, text) => text.clone(),
        Condition::Missing(_) => "-".into(),
        Condition::Range(attribute, from, to) => {
            // The last of whole numbers belongs to them; of others the end does not.
            let is_whole = matches!(attribute, Attribute::Field(field) if field.field_type() == FieldType::Number);
            let last = to.map(|to| if is_whole && from.is_some() { to.saturating_sub(1) } else { to });
            let shown = |value: u64| number(*attribute, value);
            match (from.map(shown), last.map(shown)) {
                (Some(from), Some(to)) if from == to => from,
                (Some(from), Some(to)) => format!("{from} to {to}"),
                (Some(from), None) => format!(">= {from}"),
                (None, Some(to)) => format!("< {to}"),
                (None, None) => "any".into(),
            }
        }
        Condition::InSecond(from, to) => format!("{} to {}", format_duration(*from), format_duration(*to)),
        Condition::InPeriod(period, from, to) => {
            let [period, from, to] = [*period, *from, *to].map(format_duration);
            format!("{from} to {to} of {period}")
        }
    }
}

/// A number of an attribute for the eye.
fn number(attribute: Attribute, value: u64) -> String {
    match attribute {
        Attribute::Field(field) if field.field_type() == FieldType::Duration => format_duration(value),
        Attribute::Field(field) if field.field_type() == FieldType::Bytes => format_size(value),
        Attribute::Time => format_duration(value),
        _ => value.to_string(),
    }
}

fn medians(one: &AttributeReport) -> String {
    match one.medians {
        [Some(here), Some(there)] => format!("{} / {}", number(one.attribute, here), number(one.attribute, there)),
        _ => String::new(),
    }
}

/// A sum of the quantity for the eye.
fn sum(quantity: Quantity, value: u128) -> String {
    const DAY_NS: u128 = 86_400_000_000_000;
    match u64::try_from(value) {
        Ok(value) => quantity.shown(value),
        Err(_) if quantity.is_bytes() => format!("{}TiB", value >> 40),
        Err(_) => format!("{}d", value / DAY_NS),
    }
}

/// What shares are parts of.
fn sum_words(quantity: Quantity) -> &'static str {
    if quantity == Quantity::Latency { "waiting time" } else { quantity.word() }
}

/// All events and what they waited, or their sum of another quantity.
fn total_words(quantity: Quantity, total: &Part) -> String {
    let what = if quantity == Quantity::Latency { "waiting" } else { quantity.word() };
    format!("{}, {} of {what}", caption::events(total.events), sum(quantity, total.waiting_ns))
}

/// Requests that wait, in a sentence without its end.
fn waits_words(waits: &Waits, total: &Part) -> String {
    let share = percent(waits.share(total.waiting_ns));
    let [youngest, oldest] = waits.ages_ns.map(format_duration);
    match waits.requests {
        1 => format!("a request waits still, so far {oldest}, {share} of all waiting time"),
        count => {
            let count = format_count(count);
            format!("{count} requests wait still, so far {youngest} to {oldest}, {share} of all waiting time")
        }
    }
}

fn share(part: f64, all: f64) -> String {
    percent(if all > 0.0 { part / all } else { 0.0 })
}

/// A share in percent; what is not nothing, or not all, is not shown as that.
fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0%".into(),
        100.0 => "100%".into(),
        percent if percent < 0.1 => "<0.1%".into(),
        percent => format!("{:.1}%", percent.min(99.9)),
    }
}

/// A bar for a share of 0 to 1; any share above 0 is seen.
fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (8 * BAR) as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", EIGHTHS[8].repeat(eighths / 8), EIGHTHS[eighths % 8])
}
