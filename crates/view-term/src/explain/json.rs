//! An explanation as JSON, in base units.

use super::ExplanationView;
use latscope_event::Field;
use latscope_series::Quantity;
use latscope_series::explain::{
    AttributeReport, Beneath, Condition, Counts, Coverage, Finding, Part, Requests, Waits, filter_of,
};

impl ExplanationView<'_> {
    /// One object; `docs/views/explain.md` describes its keys.
    pub fn json(&self) -> String {
        let explanation = self.explanation;
        let (total, of) = (&explanation.total, explanation.quantity);
        let list = |parts: Vec<String>| parts.join(",");
        let findings = explanation.findings.iter().map(|one| finding(of, one, total)).collect();
        let attributes = explanation.attributes.iter().map(attribute).collect();
        let without = explanation.without.iter().map(|field: Field| text(field.name())).collect();
        format!(
            "{{{}\"selection\":{},\"baseline\":{},\"total\":{},\"within\":{},\"inverted\":{},\"not_completed\":{},\"shared\":{},\"findings\":[{}],\"attributes\":[{}],\
             \"not_tested\":[{}],\"chance_g2\":{},\"beneath\":{},\"seed\":{}}}",
            quantity(of),
            part(of, &explanation.selection, Some(&self.selection), total),
            part(of, &explanation.baseline, Some(&self.baseline), total),
            part(of, total, None, total),
            if self.within.is_empty() { "null".into() } else { text(&self.within) },
            self.is_inverted,
            waits(&self.waits, total),
            if explanation.shared.is_empty() { "null".into() } else { filter(&explanation.shared) },
            list(findings),
            list(attributes),
            list(without),
            number(explanation.chance_g2),
            explanation.beneath.as_ref().map_or("null".into(), beneath),
            self.seed,
        )
    }
}

/// What was looked at, where it is not the latency; ends with a comma.
pub(super) fn quantity(quantity: Quantity) -> String {
    match quantity {
        Quantity::Latency => String::new(),
        other => format!("\"quantity\":{},", text(other.field().name())),
    }
}

/// `waiting` of latencies, `sum` of other quantities.
fn sum_key(quantity: Quantity) -> &'static str {
    if quantity == Quantity::Latency { "waiting" } else { "sum" }
}

pub(super) fn part(quantity: Quantity, part: &Part, words: Option<&str>, total: &Part) -> String {
    let words = words.map_or(String::new(), |words| format!("\"filter\":{},", text(words)));
    let (sum, unit) = (sum_key(quantity), quantity.suffix());
    format!(
        "{{{words}\"events\":{},\"share\":{},\"{sum}{unit}\":{},\"{sum}_share\":{}}}",
        part.events,
        share(part.events as f64, total.events as f64),
        part.waiting_ns,
        share(part.waiting_ns as f64, total.waiting_ns as f64)
    )
}

fn beneath(beneath: &Beneath) -> String {
    let coverage = |one: &Coverage| {
        let (what, conditions) = match &one.requests {
            Requests::Any => ("any", None),
            Requests::OwnThread => ("own_thread", None),
            Requests::With(conditions) => ("with", Some(conditions)),
        };
        let [selection, baseline] = one.covered_ns;
        let [selected_share, baseline_share] = beneath.shares(one).map(number);
        format!(
            "{{\"requests\":\"{what}\",\"filter\":{},\"count\":{},\"covered_ns\":{selection},\"covered_share\":{selected_share},\
             \"baseline_covered_ns\":{baseline},\"baseline_covered_share\":{baseline_share}}}",
            conditions.map_or("null".into(), |conditions| filter(conditions)),
            one.count,
        )
    };
    let [selection, baseline] = beneath.waiting_ns;
    let coverages: Vec<String> = beneath.coverages.iter().map(coverage).collect();
    format!("{{\"waiting_ns\":{selection},\"baseline_waiting_ns\":{baseline},\"coverages\":[{}]}}", coverages.join(","))
}

/// Requests that wait still, or null.
pub(super) fn waits(waits: &Option<Waits>, total: &Part) -> String {
    let Some(waits) = waits else { return "null".into() };
    let shared = if waits.shared.is_empty() { "null".into() } else { filter(&waits.shared) };
    format!(
        "{{\"requests\":{},\"waited_ns\":{},\"youngest_ns\":{},\"oldest_ns\":{},\"waiting_share\":{},\"shared\":{shared}}}",
        waits.requests,
        waits.waited_ns,
        waits.ages_ns[0],
        waits.ages_ns[1],
        number(waits.share(total.waiting_ns)),
    )
}

fn finding(quantity: Quantity, finding: &Finding, total: &Part) -> String {
    let conditions: Vec<String> = finding.conditions.iter().map(condition).collect();
    let same: Vec<String> = finding.same.iter().map(|conditions| filter(conditions)).collect();
    let (sum, unit) = (sum_key(quantity), quantity.suffix());
    format!(
        "{{\"filter\":{},\"conditions\":[{}],{},\"{sum}{unit}\":{},\"{sum}_share\":{},\"divergence\":{},\"g2\":{},\"same\":[{}]}}",
        filter(&finding.conditions),
        conditions.join(","),
        counts(&finding.counts),
        finding.waiting_ns,
        share(finding.waiting_ns as f64, total.waiting_ns as f64),
        number(finding.divergence),
        number(finding.g2),
        same.join(",")
    )
}

fn attribute(one: &AttributeReport) -> String {
    let value = |value: &latscope_series::explain::ValueReport| {
        format!(
            "{{\"filter\":{},\"condition\":{},{},\"g2\":{}}}",
            filter(std::slice::from_ref(&value.condition)),
            condition(&value.condition),
            counts(&value.counts),
            number(value.g2)
        )
    };
    let optional = |value: Option<String>| value.unwrap_or_else(|| "null".into());
    let [here, there] = one.medians.map(|median| optional(median.map(|median| median.to_string())));
    format!(
        "{{\"field\":{},\"divergence\":{},\"differs\":{},\"ks\":{},\"median_selection\":{here},\"median_baseline\":{there},\
         \"values\":[{}]}}",
        text(one.attribute.name()),
        number(one.divergence),
        one.differs,
        optional(one.ks.map(number)),
        one.values.iter().map(value).collect::<Vec<_>>().join(",")
    )
}

fn condition(condition: &Condition) -> String {
    let field = text(condition.attribute().name());
    let edge = |edge: &Option<u64>| edge.map_or("null".into(), |edge| edge.to_string());
    match condition {
        Condition::Is(_, value) => format!("{{\"field\":{field},\"value\":{}}}", text(value)),
        Condition::Missing(_) => format!("{{\"field\":{field},\"value\":null}}"),
        Condition::Range(_, from, to) => {
            format!("{{\"field\":{field},\"from\":{},\"below\":{}}}", edge(from), edge(to))
        }
        Condition::InSecond(from, to) => format!("{{\"field\":{field},\"from\":{from},\"below\":{to}}}"),
        Condition::InPeriod(period, from, to) => {
            format!("{{\"field\":{field},\"period\":{period},\"from\":{from},\"below\":{to}}}")
        }
    }
}

fn filter(conditions: &[Condition]) -> String {
    filter_of(conditions).map_or("null".into(), |filter| text(&filter))
}

fn counts(counts: &Counts) -> String {
    let [selected, baseline] = counts.with;
    format!(
        "\"selection_events\":{selected},\"selection_share\":{},\"baseline_events\":{baseline},\"baseline_share\":{},\"log_odds\":{}",
        number(counts.selected_share()),
        number(counts.baseline_share()),
        number(counts.log_odds())
    )
}

fn share(part: f64, all: f64) -> String {
    number(if all > 0.0 { part / all } else { 0.0 })
}

/// A string of JSON.
pub(super) fn text(text: &str) -> String {
    latscope_view::json_text(text)
}

/// Six digits are more than any sample supports.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{}", (value * 1e6).round() / 1e6) } else { "null".into() }
}
