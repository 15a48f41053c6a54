//! The same rules for Prometheus, with a file of tests for promtool.

use super::rules::{Hold, OnNoData, Rule, Rules, Slo};
use super::slo::burns;
use latscope_event::{Field, format_duration_exact};
use latscope_series::{Part, Threshold};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `rate` needs two samples, so windows are four times the step at which Prometheus usually scrapes.
const WINDOW: &str = "1m";
/// The same, nanoseconds.
const WINDOW_NS: u64 = 60_000_000_000;
const BYTES: &str = "latscope_io_bytes_total";
const HISTOGRAM: &str = "latscope_io_latency_seconds";
const OFFSET: &str = "latscope_hub_clock_offset_seconds";
/// Of hosts: the time since the end of the last closed interval is another.
const LAG: &str = "latscope_agent_lag_seconds";

/// Which kind of histograms Prometheus has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Native histograms.
    Native,
    /// Histograms with `le`.
    Classic,
}

/// The rules, and tests of them for promtool, each as YAML; `None` where no rule can be tested. What Prometheus cannot express is a
/// comment. Classic histograms have these edges, seconds, ascending.
pub fn print(rules: &Rules, dialect: Dialect, edges_s: &[f64]) -> (String, Option<String>) {
    let mut out = String::from("groups:\n- name: latscope\n  rules:\n");
    let mut tests = String::new();
    for rule in &rules.alerts {
        let metrics: Vec<&str> = rule.condition.parts().iter().map(|part| part.metric).collect();
        match Query::new((dialect, edges_s), &metrics, &rule.by, rule.filter.as_deref()) {
            Err(why) => drop(writeln!(out, "  # {} is left out: {why}.", rule.name.escape_default())),
            Ok(query) => {
                out += &alert(rule, &query);
                tests += &test(rule, &query).unwrap_or_default();
            }
        }
    }
    for slo in &rules.slos {
        match Query::new((dialect, edges_s), &["over"], &slo.by, slo.filter.as_deref()) {
            Err(why) => drop(writeln!(out, "  # {} is left out: {why}.", slo.name.escape_default())),
            Ok(query) => out += &objective(slo, &query),
        }
    }
    let head = "rule_files: [rules.yml]\nevaluation_interval: 15s\ntests:\n";
    (out, (!tests.is_empty()).then(|| format!("{head}{tests}")))
}

fn alert(rule: &Rule, query: &Query) -> String {
    let mut out = comments(rule, query);
    let condition = query.condition(&rule.condition, rule.step_ns);
    let _ = write!(out, "  - alert: {}\n    expr: {}\n", quoted(&rule.name), quoted(&condition));
    let hold_ns = match rule.hold {
        Hold::Time(ns) => ns,
        Hold::Steps(steps) => rule.step_ns.unwrap_or(1_000_000_000).saturating_mul(u64::from(steps)),
    };
    if hold_ns > 0 {
        let _ = writeln!(out, "    for: {}", seconds(hold_ns));
    }
    if rule.keep_ns > 0 {
        let _ = writeln!(
            out,
            "    # needs Prometheus 2.42: keep_firing_for\n    keep_firing_for: {}",
            seconds(rule.keep_ns)
        );
    }
    out += &texts("labels", &rule.labels);
    let mut annotations = rule.annotations.clone();
    annotations.insert("summary".into(), format!("{}: {}", rule.name, rule.condition));
    out + &texts("annotations", &annotations)
}

/// What Prometheus does otherwise, a comment for each.
fn comments(rule: &Rule, query: &Query) -> String {
    let parts = rule.condition.parts();
    let asks = |metrics: &[&str]| parts.iter().any(|part| metrics.contains(&part.metric));
    let mut comments: Vec<String> = query.by_comment().into_iter().collect();
    if asks(&["quantile", "mean", "min", "max", "over"]) && !rule.done_only {
        comments
            .push("Latencies are those of completed requests: while all of them wait, it does not fire.".to_string());
    }
    let is_momentary = rule.condition.is_momentary();
    if let Some(step_ns) = rule.step_ns.filter(|&step_ns| !is_momentary && step_ns != WINDOW_NS) {
        let scaled = match (asks(&["count"]), asks(&["bytes"])) {
            (true, _) => "; the count is that of as much time",
            (_, true) => "; the bytes are those of as much time",
            _ => "",
        };
        comments.push(format!("It looks at {WINDOW}, not at steps of {}{scaled}.", format_duration_exact(step_ns)));
    }
    if asks(&["max", "min"]) {
        comments.push("Minimum and maximum are edges of buckets.".into());
    }
    let bounds = parts.iter().filter(|part| part.metric == "over").filter_map(|part| part.argument);
    comments.extend(bounds.filter_map(|bound_s| query.edge_comment(bound_s)));
    if let Some(until) = &rule.until {
        comments.push(format!("until = '{until}' is left out: Prometheus resolves an alert when expr does not hold."));
    }
    if rule.quorum.is_some() {
        comments.push("hosts is left out: expr holds with any number of hosts.".into());
    }
    if rule.on_no_data != OnNoData::Keep {
        comments.push("on_no_data is left out: without data, expr does not hold.".into());
    }
    comments.iter().map(|comment| format!("  # {}: {comment}\n", rule.name.escape_default())).collect()
}

fn objective(slo: &Slo, query: &Query) -> String {
    let name = slo.name.escape_default();
    let comments = query.by_comment().into_iter().chain(query.edge_comment(slo.below_ns as f64 / 1e9));
    let mut out: String = comments.map(|comment| format!("  # {name}: {comment}\n")).collect();
    for burn in burns(slo) {
        let limit = number(burn.factor * (1.0 - slo.target));
        let over =
            |minutes: i64| format!("{} > {limit}", query.over(slo.below_ns as f64 / 1e9, &format!("{minutes}m")));
        let expr = format!("{} and {}", over(burn.long), over(burn.short));
        let _ = write!(out, "  - alert: {}\n    expr: {}\n", quoted(&slo.name), quoted(&expr));
        let mut labels = BTreeMap::from([("severity".to_string(), burn.severity.to_string())]);
        labels.extend(slo.labels.clone());
        labels.insert("window".into(), burn.window());
        out += &texts("labels", &labels);
        let text = format!(
            "{}: more than {} of the events are slower than {}, {:.1} times what the budget allows",
            slo.name,
            limit,
            format_duration_exact(slo.below_ns),
            burn.factor
        );
        out += &texts("annotations", &BTreeMap::from([("summary".to_string(), text)]));
    }
    out
}

/// A test in which the rule fires: all events take twice as long as the largest bound. Only of rules that values above bounds make fire;
/// of native histograms, which older versions of promtool cannot write, of none.
fn test(rule: &Rule, query: &Query) -> Option<String> {
    let parts = rule.condition.parts();
    let of_histogram = ["quantile", "mean", "min", "max", "over", "count", "rate"];
    let has_histogram = parts.iter().any(|part| of_histogram.contains(&part.metric));
    if parts.iter().any(|part| !part.sign.starts_with('>')) || (has_histogram && query.dialect == Dialect::Native) {
        return None;
    }
    let is_latency = |part: &&Part| ["quantile", "mean", "min", "max"].contains(&part.metric);
    let bounds = parts.iter().filter(is_latency).map(|part| part.value);
    let slow = bounds
        .chain(parts.iter().filter_map(|part| part.argument.filter(|_| part.metric == "over")))
        .fold(1e-3, f64::max);
    let per_s = parts.iter().filter(|part| part.metric == "rate").map(|part| part.value).fold(10.0, f64::max);
    let window = rule.step_ns.map_or(1.0, |step_ns| step_ns.max(1) as f64 / 1e9);
    let counts = parts.iter().filter(|part| part.metric == "count");
    let count = counts.map(|part| part.value / window.min(1.0)).fold(per_s, f64::max);
    let mut labels: Vec<(String, String)> = query.by.iter().map(|name| (name.clone(), format!("{name}1"))).collect();
    for matcher in &query.matchers {
        labels.retain(|(other, _)| *other != matcher.label);
        labels.push((matcher.label.clone(), matcher.example.clone()?));
    }
    let series = |name: &str, more: &[(&str, String)], values: String| {
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.clone())).chain(more.iter().cloned());
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={}", quoted(&value))).collect();
        format!("  - series: {}\n    values: '{values}'\n", quoted(&format!("{name}{{{}}}", labels.join(","))))
    };
    let each = (count * 15.0 * 2.0).ceil();
    let mut out = String::from("- interval: 15s\n  input_series:\n");
    if has_histogram {
        let mut edges: Vec<f64> = parts.iter().filter(is_latency).map(|part| part.value).collect();
        edges.extend(
            parts.iter().filter(|part| part.metric == "over").filter_map(|part| Some(query.edge(part.argument?))),
        );
        edges.push(slow);
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let bucket = format!("{HISTOGRAM}_bucket");
        for edge in &edges {
            out += &series(&bucket, &[("le", decimal(*edge))], "0+0x40".into());
        }
        for edge in [decimal(slow * 4.0), "+Inf".to_string()] {
            out += &series(&bucket, &[("le", edge)], format!("0+{each}x40"));
        }
        out += &series(&format!("{HISTOGRAM}_count"), &[], format!("0+{each}x40"));
        out += &series(&format!("{HISTOGRAM}_sum"), &[], format!("0+{}x40", each * slow * 3.0));
    }
    for part in &parts {
        // Each host has its own, and the clock of this one is behind.
        let of_host = |value: f64| {
            let host = labels.iter().all(|(name, _)| name != "host").then(|| ("host", "host1".to_string()));
            (host.into_iter().collect::<Vec<_>>(), value)
        };
        let high = part.value * 2.0 + 1.0;
        let (name, (more, value)) = match part.metric {
            "bytes" | "throughput" => {
                // Bytes of a step of so many seconds, or of one.
                let length = if part.metric == "bytes" { window } else { 1.0 };
                out += &series(BYTES, &[], format!("0+{}x40", (part.value / length * 30.0 + 1.0).ceil()));
                continue;
            }
            "oldest" => ("latscope_io_oldest_seconds", (Vec::new(), high)),
            "waiting" if part.argument.is_none() => ("latscope_io_in_flight", (Vec::new(), high)),
            "hosts" => ("latscope_hub_hosts", (Vec::new(), high)),
            "missing" => ("latscope_hub_hosts_missing", (Vec::new(), high)),
            "lag" => (LAG, of_host(high)),
            "offset" => (OFFSET, of_host(-high)),
            "lost" => {
                // The series starts with the loss.
                let count = high.max(249.0);
                let lost = match rule.hold {
                    Hold::Time(0) => format!("_x33 {count}x10"),
                    _ => format!("0+{count}x40"),
                };
                out += &series("latscope_lost_events_total", &[("kind", "lost_records".into())], lost);
                continue;
            }
            "waiting" => return None,
            _ => continue,
        };
        out += &series(name, &more, format!("{value}+0x40"));
    }
    out += &format!("  alert_rule_test:\n  - eval_time: 9m\n    alertname: {}\n    exp_alerts:\n", quoted(&rule.name));
    let mut expected = rule.labels.clone();
    let of_group = labels.into_iter().filter(|(name, _)| query.by.contains(name));
    expected.extend(of_group);
    let labels: Vec<String> = expected.iter().map(|(name, value)| format!("{name}: {}", quoted(value))).collect();
    let mut annotations = rule.annotations.clone();
    annotations.insert("summary".into(), format!("{}: {}", rule.name, rule.condition));
    let annotations: Vec<String> =
        annotations.iter().map(|(name, value)| format!("{name}: {}", quoted(value))).collect();
    out += &format!(
        "    - exp_labels: {{{}}}\n      exp_annotations: {{{}}}\n",
        labels.join(", "),
        annotations.join(", ")
    );
    Some(out)
}

/// Writes expressions of one rule.
struct Query<'a> {
    dialect: Dialect,
    edges_s: &'a [f64],
    /// Labels of its groups.
    by: Vec<String>,
    /// Those of the rule that the metrics do not have.
    without: Vec<String>,
    matchers: Vec<Matcher>,
}

/// Whether a metric of a condition is exported with a label for a field: a hub exports its groups without their hosts.
fn has_label(metric: &str, label: &str) -> bool {
    match metric {
        "lost" | "hosts" | "missing" => false,
        "lag" | "offset" => label == "host",
        _ => label != "host",
    }
}

impl<'a> Query<'a> {
    fn new(
        (dialect, edges_s): (Dialect, &'a [f64]),
        metrics: &[&str],
        by: &[String],
        filter: Option<&str>,
    ) -> Result<Query<'a>, String> {
        let matchers = filter.map_or(Ok(Vec::new()), matchers)?;
        let is_without = |one: &&Matcher| metrics.iter().any(|metric| !has_label(metric, &one.label));
        if let Some(matcher) = matchers.iter().find(is_without) {
            return Err(format!("its metrics have no label {}", matcher.label));
        }
        let label = |name: &String| Field::from_name(name).map_or_else(|| name.clone(), |field| field.name().into());
        let all: Vec<String> = by.iter().map(label).collect();
        let of = |metric: &str| all.iter().partition(|label| has_label(metric, label));
        let (by, without): (Vec<&String>, Vec<&String>) = of(metrics.first().copied().unwrap_or_default());
        if metrics.iter().any(|metric| of(metric).0 != by) {
            return Err(format!("not all of its metrics have the labels {}", all.join(", ")));
        }
        let [by, without] = [by, without].map(|labels| labels.into_iter().cloned().collect());
        Ok(Query { dialect, edges_s, by, without, matchers })
    }

    fn by_comment(&self) -> Option<String> {
        let names = self.without.join(", ");
        let is_without = !names.is_empty();
        is_without.then(|| {
            format!("by {names} is left out: its metrics have no such label, so expr is about all values together.")
        })
    }

    fn selected(&self, name: &str, more: &[String]) -> String {
        let matchers = self.matchers.iter().map(|one| format!("{}{}{}", one.label, one.sign, quoted(&one.value)));
        let all: Vec<String> = matchers.chain(more.iter().cloned()).collect();
        if all.is_empty() { name.to_string() } else { format!("{name}{{{}}}", all.join(",")) }
    }

    fn sum(&self, name: &str, more: &[String], function: &str, window: &str) -> String {
        format!("sum by ({}) ({function}({}[{window}]))", self.by.join(", "), self.selected(name, more))
    }

    /// A gauge, by an aggregation.
    fn gauge(&self, aggregation: &str, name: &str) -> String {
        format!("{aggregation} by ({}) ({})", self.by.join(", "), self.selected(name, &[]))
    }

    /// A condition; a count of a step is scaled to the window.
    fn condition(&self, condition: &Threshold, step_ns: Option<u64>) -> String {
        let scale = step_ns.map_or(1.0, |step_ns| WINDOW_NS as f64 / step_ns.max(1) as f64);
        let value =
            |part: &Part| if ["count", "bytes"].contains(&part.metric) { part.value * scale } else { part.value };
        condition.written(&|part| format!("{} {} {}", self.metric(part), part.sign, number(value(part))))
    }

    /// The edge at or above a bound that classic histograms have, seconds.
    fn edge(&self, bound_s: f64) -> f64 {
        match self.dialect {
            Dialect::Native => bound_s,
            Dialect::Classic => self.edges_s.iter().copied().find(|&edge_s| edge_s >= bound_s).unwrap_or(bound_s),
        }
    }

    fn edge_comment(&self, bound_s: f64) -> Option<String> {
        let (bound, edge) = (number(bound_s), number(self.edge(bound_s)));
        (bound != edge).then(|| format!("Classic histograms have no edge at {bound} s; the next is {edge} s."))
    }

    fn metric(&self, part: &Part) -> String {
        match part.metric {
            "quantile" => self.quantile(part.argument.unwrap_or(0.5)),
            "max" => self.quantile(1.0),
            "min" => self.quantile(0.0),
            "mean" => match self.dialect {
                Dialect::Native => {
                    let sum = self.sum(HISTOGRAM, &[], "rate", WINDOW);
                    format!("histogram_sum({sum}) / histogram_count({sum})")
                }
                Dialect::Classic => {
                    let part = |ending: &str| self.sum(&format!("{HISTOGRAM}_{ending}"), &[], "rate", WINDOW);
                    format!("{} / {}", part("sum"), part("count"))
                }
            },
            "count" | "rate" => {
                let function = if part.metric == "rate" { "rate" } else { "increase" };
                match self.dialect {
                    Dialect::Native => format!("histogram_count({})", self.sum(HISTOGRAM, &[], function, WINDOW)),
                    Dialect::Classic => self.sum(&format!("{HISTOGRAM}_count"), &[], function, WINDOW),
                }
            }
            "bytes" => self.sum(BYTES, &[], "increase", WINDOW),
            "throughput" => self.sum(BYTES, &[], "rate", WINDOW),
            "over" => self.over(part.argument.unwrap_or(0.0), WINDOW),
            "oldest" => self.gauge("max", "latscope_io_oldest_seconds"),
            "waiting" => match (part.argument, self.dialect) {
                (None, _) => self.gauge("sum", "latscope_io_in_flight"),
                (Some(age), Dialect::Native) => {
                    let ages = self.gauge("sum", "latscope_io_waiting_seconds");
                    format!("histogram_count({ages}) * histogram_fraction({}, +Inf, {ages})", number(age))
                }
                (Some(age), Dialect::Classic) => {
                    let young =
                        self.selected("latscope_io_waiting_seconds_bucket", &[format!("le=\"{}\"", decimal(age))]);
                    let all = self.gauge("sum", "latscope_io_waiting_seconds_count");
                    format!("{all} - sum by ({}) ({young})", self.by.join(", "))
                }
            },
            "lost" => {
                // The series starts with the first loss, which `increase` does not count.
                let total = self.selected("latscope_lost_events_total", &[]);
                format!(
                    "sum by ({}) (({total} unless {total} offset {WINDOW}) or increase({total}[{WINDOW}]))",
                    self.by.join(", ")
                )
            }
            "hosts" => self.gauge("max", "latscope_hub_hosts"),
            "missing" => self.gauge("max", "latscope_hub_hosts_missing"),
            "offset" => format!("max by ({}) (abs({}))", self.by.join(", "), self.selected(OFFSET, &[])),
            _ => self.gauge("max", LAG),
        }
    }

    fn quantile(&self, quantile: f64) -> String {
        let rate = match self.dialect {
            Dialect::Native => self.sum(HISTOGRAM, &[], "rate", WINDOW),
            Dialect::Classic => {
                let by: Vec<&str> = std::iter::once("le").chain(self.by.iter().map(String::as_str)).collect();
                let by = by.join(", ");
                format!("sum by ({by}) (rate({}[{WINDOW}]))", self.selected(&format!("{HISTOGRAM}_bucket"), &[]))
            }
        };
        format!("histogram_quantile({}, {rate})", number(quantile))
    }

    /// The share of the events that take longer.
    fn over(&self, bound_s: f64, window: &str) -> String {
        let bound_s = self.edge(bound_s);
        match self.dialect {
            Dialect::Native => {
                let rate = self.sum(HISTOGRAM, &[], "rate", window);
                format!("1 - histogram_fraction(0, {}, {rate})", number(bound_s))
            }
            Dialect::Classic => {
                let fast =
                    self.sum(&format!("{HISTOGRAM}_bucket"), &[format!("le=\"{}\"", decimal(bound_s))], "rate", window);
                format!("1 - {fast} / {}", self.sum(&format!("{HISTOGRAM}_count"), &[], "rate", window))
            }
        }
    }
}

/// What a label must be.
struct Matcher {
    label: String,
    sign: &'static str,
    value: String,
    /// A value that matches, where one is known.
    example: Option<String>,
}

/// A word of a filter, a text in quotes, or a sign.
#[derive(PartialEq, Debug)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// A filter, where labels can express it: terms with `and` between them.
fn matchers(filter: &str) -> Result<Vec<Matcher>, String> {
    let found = tokens(filter).and_then(|tokens| {
        let terms = tokens.split(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("and")));
        terms.map(matcher).collect()
    });
    found.ok_or_else(|| format!("labels cannot express {}", filter.escape_default()))
}

fn tokens(filter: &str) -> Option<Vec<Token>> {
    let (mut tokens, mut rest) = (Vec::new(), filter.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = if matches!(first, '"' | '\'') {
            let (text, length) = text_in_quotes(rest, first)?;
            tokens.push(Token::Text(text));
            length
        } else if "()=,!".contains(first) {
            tokens.push(Token::Sign(first));
            1
        } else {
            let length = rest.find(|c: char| c.is_whitespace() || "()\"'=,!".contains(c)).unwrap_or(rest.len());
            let word = &rest[..length];
            if ["&&", "||", "<", ">"].iter().any(|sign| word.contains(sign)) {
                return None;
            }
            tokens.push(Token::Word(word.into()));
            length
        };
        rest = rest[length..].trim_start();
    }
    Some(tokens)
}

/// A text that starts with a quote, and how long it is with both; `None` with an escape that is no sign.
fn text_in_quotes(text: &str, quote: char) -> Option<(String, usize)> {
    let (mut out, mut letters) = (String::new(), text.char_indices().skip(1));
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => out.push(letters.next().map(|(_, letter)| letter).filter(|letter| "\\/\"'".contains(*letter))?),
            letter if letter == quote => return Some((out, at + 1)),
            letter => out.push(letter),
        }
    }
    None
}

fn matcher(term: &[Token]) -> Option<Matcher> {
    use Token::{Sign, Text, Word};
    let [Word(field), rest @ ..] = term else { return None };
    let label = Field::from_name(field)?.name().to_string();
    let regex = |value: &str| {
        let is_special = |letter: char| r"\.+*?()|[]{}^$".contains(letter);
        let escaped = value.chars().flat_map(|letter| is_special(letter).then_some('\\').into_iter().chain([letter]));
        escaped.collect::<String>()
    };
    let (sign, value, example) = match rest {
        [Sign('='), Word(value) | Text(value)] => ("=", value.clone(), Some(value.clone())),
        [Sign('!'), Sign('='), Word(value) | Text(value)] => ("!=", value.clone(), None),
        [Word(word), Word(value) | Text(value)] if word.eq_ignore_ascii_case("startswith") => {
            ("=~", format!("{}.*", regex(value)), Some(format!("{value}1")))
        }
        [Word(word), Sign('('), values @ .., Sign(')')] if word.eq_ignore_ascii_case("in") => {
            let value = |one: &[Token]| match one {
                [Word(value) | Text(value)] => Some(value.clone()),
                _ => None,
            };
            let values: Vec<String> = values.split(|token| *token == Sign(',')).map(value).collect::<Option<_>>()?;
            let all: Vec<String> = values.iter().map(|value| regex(value)).collect();
            ("=~", all.join("|"), values.into_iter().next())
        }
        _ => return None,
    };
    // An empty value is also that of series without the label.
    (!value.is_empty()).then_some(Matcher { label, sign, value, example })
}

fn texts(name: &str, texts: &BTreeMap<String, String>) -> String {
    let lines: String = texts.iter().map(|(name, text)| format!("      {name}: {}\n", quoted(text))).collect();
    if lines.is_empty() { lines } else { format!("    {name}:\n{lines}") }
}

/// A text in double quotes, for YAML and PromQL.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// As the classic histograms that are exported write their edges.
fn decimal(seconds: f64) -> String {
    if seconds.fract() == 0.0 { format!("{seconds:.1}") } else { number(seconds) }
}

fn number(value: f64) -> String {
    ((value * 1e9).round() / 1e9).to_string()
}

fn seconds(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) { format!("{}s", ns / 1_000_000_000) } else { format!("{}ms", ns / 1_000_000) }
}
