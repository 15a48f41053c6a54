//! An explanation as JSON, in base units.

use super::ExplanationView;
use latscope_event::Field;
use latscope_series::explain::{AttributeReport, Condition, Counts, Finding, Part, filter_of};

impl ExplanationView<'_> {
    /// One object; `docs/views/explain.md` describes its keys.
    pub fn json(&self) -> String {
        let explanation = self.explanation;
        let total = &explanation.total;
        let list = |parts: Vec<String>| parts.join(",");
        let findings = explanation.findings.iter().map(|one| finding(one, total)).collect();
        let attributes = explanation.attributes.iter().map(attribute).collect();
        let without = explanation.without.iter().map(|field: Field| text(field.name())).collect();
        format!(
            "{{\"selection\":{},\"baseline\":{},\"total\":{},\"within\":{},\"inverted\":{},\"findings\":[{}],\"attributes\":[{}],\
             \"not_tested\":[{}],\"chance_g2\":{},\"seed\":{}}}",
            part(&explanation.selection, Some(&self.selection), total),
            part(&explanation.baseline, Some(&self.baseline), total),
            part(total, None, total),
            if self.within.is_empty() { "null".into() } else { text(&self.within) },
            self.is_inverted,
            list(findings),
            list(attributes),
            list(without),
            number(explanation.chance_g2),
            self.seed,
        )
    }
}

pub(super) fn part(part: &Part, words: Option<&str>, total: &Part) -> String {
    let words = words.map_or(String::new(), |words| format!("\"filter\":{},", text(words)));
    format!(
        "{{{words}\"events\":{},\"share\":{},\"waiting_ns\":{},\"waiting_share\":{}}}",
        part.events,
        share(part.events as f64, total.events as f64),
        part.waiting_ns,
        share(part.waiting_ns as f64, total.waiting_ns as f64)
    )
}

fn finding(finding: &Finding, total: &Part) -> String {
    let conditions: Vec<String> = finding.conditions.iter().map(condition).collect();
    let same: Vec<String> = finding.same.iter().map(|conditions| filter(conditions)).collect();
    format!(
        "{{\"filter\":{},\"conditions\":[{}],{},\"waiting_ns\":{},\"waiting_share\":{},\"divergence\":{},\"g2\":{},\"same\":[{}]}}",
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
