//! The events above a threshold, each with a warning line, and how many of them each group has: the report of the
//! SystemTap scripts that look for a disk which misbehaves.

use crate::caption::{Moments, TimeLabels};
use crate::table::{Align, Table, csv_line};
use crate::{Line, Summary, caption};
use latscope_event::{
    Context, Field, FieldType, Wording, format_count, format_duration, format_duration_exact, format_size_exact,
};
use latscope_view::json_text;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// An event above the threshold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outlier {
    /// When it started, nanoseconds on the trace's clock.
    pub time_ns: i64,
    /// How long it took.
    pub latency_ns: u64,
    /// The values of the group fields, as the series has them.
    pub group: Vec<String>,
    /// What else is to be shown, as text in base units.
    pub values: Vec<(Field, String)>,
}

impl Outlier {
    /// Its warning line. What still `waits` has a lower bound of a latency.
    pub fn warning(&self, threshold_ns: u64, context: &Context, time: TimeLabels, waits: bool) -> Line {
        // Microseconds, as precise as most tracers are.
        let moments = Moments::new(time, &context.clock, context.trace_start_ns().unwrap_or(0), 1_000, 0);
        let threshold = format_duration_exact(threshold_ns);
        let mut text = format!("latency warning, >{threshold}: {}", moments.label(self.time_ns));
        for (field, value) in self.values.iter().filter(|(_, value)| !value.is_empty()) {
            text += &format!(" {}={}", field.name(), readable(*field, value));
        }
        let sign = if waits { ">=" } else { "=" };
        Line::new(&format!("{text} latency{sign}{}", format_duration_exact(self.latency_ns)))
    }
}

impl Ord for Outlier {
    /// Slowest last; among equals the latest first.
    fn cmp(&self, other: &Outlier) -> Ordering {
        let key = |one: &Outlier| (one.latency_ns, Reverse(one.time_ns));
        key(self)
            .cmp(&key(other))
            .then_with(|| self.values.cmp(&other.values))
            .then_with(|| self.group.cmp(&other.group))
    }
}

impl PartialOrd for Outlier {
    fn partial_cmp(&self, other: &Outlier) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Gathers outliers: all are counted, the slowest are kept.
#[derive(Clone, Debug)]
pub struct Outliers {
    threshold_ns: u64,
    keep: usize,
    kept: BinaryHeap<Reverse<Outlier>>,
    /// Number and summed latency by group.
    by_group: BTreeMap<Vec<String>, (u64, u128)>,
    count: u64,
    sum_ns: u128,
}

/// Beyond this many groups the further ones are counted in the total only.
const GROUP_LIMIT: usize = 10_000;

impl Outliers {
    /// For latencies above `threshold_ns`; at most `keep` of them are listed.
    pub fn new(threshold_ns: u64, keep: usize) -> Outliers {
        let (kept, by_group) = (BinaryHeap::new(), BTreeMap::new());
        Outliers { threshold_ns, keep, kept, by_group, count: 0, sum_ns: 0 }
    }

    /// Whether a latency is above the threshold, so that it is worth making an [`Outlier`] of the event.
    pub fn is_over(&self, latency_ns: u64) -> bool {
        latency_ns > self.threshold_ns
    }

    /// Number of outliers.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counts an outlier and keeps it if it is among the slowest. One that is not above the threshold is left out.
    pub fn add(&mut self, outlier: Outlier) {
        if !self.is_over(outlier.latency_ns) {
            return;
        }
        let latency = u128::from(outlier.latency_ns);
        self.count += 1;
        self.sum_ns += latency;
        if let Some((count, sum)) = self.by_group.get_mut(&outlier.group) {
            *count += 1;
            *sum += latency;
        } else if self.by_group.len() < GROUP_LIMIT {
            self.by_group.insert(outlier.group.clone(), (1, latency));
        }
        self.kept.push(Reverse(outlier));
        if self.kept.len() > self.keep {
            self.kept.pop();
        }
    }

    /// Adds what another collected above the same threshold.
    pub fn merge(&mut self, other: Outliers) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        for (group, (more, more_ns)) in other.by_group {
            if let Some((count, sum)) = self.by_group.get_mut(&group) {
                *count += more;
                *sum += more_ns;
            } else if self.by_group.len() < GROUP_LIMIT {
                self.by_group.insert(group, (more, more_ns));
            }
        }
        for outlier in other.kept {
            self.kept.push(outlier);
            if self.kept.len() > self.keep {
                self.kept.pop();
            }
        }
    }

    /// The kept ones in the order of time.
    fn listed(&self) -> Vec<&Outlier> {
        let mut listed: Vec<&Outlier> = self.kept.iter().map(|Reverse(outlier)| outlier).collect();
        listed.sort_by_key(|outlier| (outlier.time_ns, outlier.latency_ns));
        listed
    }

    /// A warning line for each outlier, then a table of the groups, those with most outliers first. `summary` is of the
    /// same events, outliers or not.
    pub fn lines(
        &self,
        summary: &Summary,
        context: &Context,
        wording: Wording,
        time: TimeLabels,
        columns: usize,
    ) -> Vec<Line> {
        let threshold = format_duration_exact(self.threshold_ns);
        let mut lines: Vec<Line> =
            self.listed().into_iter().map(|outlier| outlier.warning(self.threshold_ns, context, time, false)).collect();
        let left_out = self.count - lines.len() as u64;
        if left_out > 0 {
            lines.push(Line::new(&format!("{} more, none slower than these", format_count(left_out))));
        }
        if self.count == 0 {
            lines.push(Line::new(&format!("no event above {threshold}")));
        }
        lines.push(Line::default());
        lines.extend(self.table(summary, &threshold, columns));
        lines.extend(caption::foot(context, wording, columns));
        lines.iter_mut().for_each(|line| {
            line.truncate(columns, true);
        });
        lines
    }

    fn table(&self, summary: &Summary, threshold: &str, columns: usize) -> Vec<Line> {
        let names: Vec<&str> = summary.by.iter().map(|field| field.name()).collect();
        let over = format!(">{threshold}");
        let numbers = ["count", "min", "mean", "max", &over, "of events", "of time"];
        let mut table =
            Table::new(names.iter().map(|&name| (name, Align::Left)).chain(numbers.map(|title| (title, Align::Right))));
        let mut rows: Vec<_> = summary.rows.iter().filter(|_| !names.is_empty()).collect();
        rows.sort_by_key(|row| Reverse(self.by_group.get(&row.group).copied().unwrap_or_default()));
        let total = (self.count, self.sum_ns);
        let rows = rows.into_iter().map(|row| (row, self.by_group.get(&row.group).copied().unwrap_or_default()));
        for (row, (count, sum_ns)) in rows.chain([(&summary.total, total)]) {
            let percent = |part: f64, whole: f64| format!("{:.2}%", 100.0 * part / whole.max(1.0));
            let mut texts = row.group.clone();
            texts.resize(names.len(), String::new());
            if row.totals.count > 0 {
                texts.push(format_count(row.totals.count));
                texts.push(format_duration(row.totals.min));
                texts.push(format_duration(row.totals.mean().unwrap_or(0.0).round() as u64));
                texts.push(format_duration(row.totals.max));
                texts.push(format_count(count));
                texts.push(percent(count as f64, row.totals.count as f64));
                texts.push(percent(sum_ns as f64, row.totals.sum as f64));
            }
            table.push(texts);
        }
        let mut lines = vec![table.heading(columns)];
        lines.extend(table.take_lines(columns));
        lines
    }

    fn fields(&self) -> Vec<Field> {
        let listed = self.kept.iter().flat_map(|Reverse(outlier)| &outlier.values);
        listed.map(|(field, _)| *field).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    /// The kept outliers as CSV with a heading, in base units.
    pub fn csv(&self) -> String {
        let fields = self.fields();
        let mut text = csv_line(["time_ns", "latency_ns"].into_iter().chain(fields.iter().map(|field| field.name())));
        for outlier in self.listed() {
            let (time, latency) = (outlier.time_ns.to_string(), outlier.latency_ns.to_string());
            let of = |field: &Field| {
                outlier.values.iter().find(|(known, _)| known == field).map_or("", |(_, value)| value.as_str())
            };
            text += &csv_line([time.as_str(), latency.as_str()].into_iter().chain(fields.iter().map(of)));
        }
        text
    }

    /// `threshold_ns`, `count`, `sum_ns` and the kept outliers as a JSON object, in base units.
    pub fn json(&self) -> String {
        let outliers: Vec<String> = self
            .listed()
            .into_iter()
            .map(|outlier| {
                let mut text = format!("{{\"time_ns\":{},\"latency_ns\":{}", outlier.time_ns, outlier.latency_ns);
                for (field, value) in &outlier.values {
                    let number = field.field_type() != FieldType::Text && value.parse::<i64>().is_ok();
                    let value = if number { value.clone() } else { json_text(value) };
                    text += &format!(",\"{}\":{value}", field.name());
                }
                text + "}"
            })
            .collect();
        format!(
            "{{\"threshold_ns\":{},\"count\":{},\"sum_ns\":{},\"outliers\":[{}]}}\n",
            self.threshold_ns,
            self.count,
            self.sum_ns,
            outliers.join(",")
        )
    }
}

/// A value in base units as people read it.
fn readable(field: Field, value: &str) -> String {
    match (field.field_type(), value.parse()) {
        (FieldType::Bytes, Ok(bytes)) => format_size_exact(bytes),
        (FieldType::Duration, Ok(ns)) => format_duration_exact(ns),
        _ => value.to_string(),
    }
}
