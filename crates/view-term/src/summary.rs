//! A line for each group: how many, how fast, how slow, and what share of all time it took.

use crate::table::{Align, Table, csv_line};
use crate::{Line, caption};
use latscope_event::{Context, Field, format_count, format_duration, format_rate, format_size};
use latscope_histogram::{Histogram, Rule, Sparse, Totals};
use latscope_series::{HistogramSeries, Quantity, Weight};

/// The percentiles of a summary: quantile, title, stem of the key.
const PERCENTILES: [(f64, &str); 5] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// A column to sort by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SummaryKey {
    /// By name, ascending; all others put the largest first.
    Group,
    /// Number of events, which is also the order of their rates.
    Count,
    /// Bytes a second.
    Bytes,
    /// Smallest value.
    Min,
    /// Mean.
    Mean,
    /// A percentile, by its place among p50, p90, p99, p99.9, p99.99.
    Percentile(usize),
    /// Largest value.
    Max,
    /// Share of all time.
    #[default]
    Share,
}

impl SummaryKey {
    /// The key of a column's title: `group`, `count`, `rate`, `bytes`, `min`, `mean`, `p50` ... `p99.99`, `max`, `share`.
    pub fn from_name(name: &str) -> Option<SummaryKey> {
        Some(match name {
            "group" => SummaryKey::Group,
            "count" | "rate" => SummaryKey::Count,
            "bytes" => SummaryKey::Bytes,
            "min" => SummaryKey::Min,
            "mean" => SummaryKey::Mean,
            "max" => SummaryKey::Max,
            "share" | "time" => SummaryKey::Share,
            _ => SummaryKey::Percentile(PERCENTILES.iter().position(|(_, title)| *title == name)?),
        })
    }
}

/// One group, or all.
#[derive(Clone, PartialEq, Debug)]
pub struct SummaryRow {
    /// The values of the group fields.
    pub group: Vec<String>,
    /// Count, sum, minimum and maximum, exact.
    pub totals: Totals,
    /// p50, p90, p99, p99.9 and p99.99.
    pub percentiles: Vec<u64>,
    /// Bytes moved, when the series was built with [`Weight::Bytes`].
    pub bytes: Option<u64>,
}

/// The summary of a series.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The group fields.
    pub by: Vec<Field>,
    /// What the values are.
    pub quantity: Quantity,
    /// What the rates are taken over: the time that the trace covers.
    pub span_ns: u64,
    /// The groups.
    pub rows: Vec<SummaryRow>,
    /// All of them together.
    pub total: SummaryRow,
}

impl Summary {
    /// The summary of a series, largest share of time first. Bytes come from a series built with [`Weight::Bytes`].
    pub fn new(series: &HistogramSeries, context: &Context) -> Summary {
        let mut parts: Vec<Vec<&Sparse>> = vec![Vec::new(); series.groups().len()];
        for (group, sparse) in series.slices().values().flat_map(|slice| &slice.groups) {
            parts[*group as usize].push(sparse);
        }
        let weighs_bytes = series.weight == Weight::Bytes;
        let mut sum = Histogram::new(series.grid(), series.is_weighted());
        let mut rows = Vec::new();
        for (group, parts) in parts.iter().enumerate().filter(|(_, parts)| !parts.is_empty()) {
            sum.clear();
            parts.iter().for_each(|part| sum.add(part));
            rows.push(SummaryRow::of(series.groups()[group].clone(), &sum, weighs_bytes));
        }
        let total = SummaryRow::of(vec!["total".into()], &series.total(None), weighs_bytes);
        let covered = context.span_ns.map(|(from, to)| to.abs_diff(from)).filter(|&span| span > 0);
        let intervals = series.range().map_or(1, |(first, last)| last.abs_diff(first).saturating_add(1));
        let span_ns = covered.unwrap_or_else(|| intervals.saturating_mul(series.width_ns()));
        let mut summary = Summary { by: series.by.clone(), quantity: series.quantity, span_ns, rows, total };
        summary.sort(SummaryKey::Share);
        summary
    }

    /// Puts the rows in the order of a column.
    pub fn sort(&mut self, key: SummaryKey) {
        self.rows.sort_by(|a, b| a.group.cmp(&b.group));
        let value = |row: &SummaryRow| -> f64 {
            match key {
                SummaryKey::Group => 0.0,
                SummaryKey::Count => row.totals.count as f64,
                SummaryKey::Bytes => row.bytes.unwrap_or(0) as f64,
                SummaryKey::Min => row.totals.min as f64,
                SummaryKey::Mean => row.totals.mean().unwrap_or(0.0),
                SummaryKey::Percentile(at) => row.percentiles.get(at).copied().unwrap_or(0) as f64,
                SummaryKey::Max => row.totals.max as f64,
                SummaryKey::Share => row.totals.sum as f64,
            }
        };
        self.rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
    }

    /// The summary as a table. A percentile with fewer than ten events beyond it has a question mark.
    pub fn lines(&self, context: &Context, filter: &str, columns: usize) -> Vec<Line> {
        let what = format!(
            "{} in {}, {}",
            caption::events(self.total.totals.count),
            format_duration(self.span_ns),
            self.quantity.word()
        );
        let mut lines = caption::head(&what, context, filter, columns);
        let names: Vec<&str> = self.by.iter().map(|field| field.name()).collect();
        let numbers = ["count", "rate", "bytes/s", "min", "mean"].into_iter();
        let numbers = numbers.chain(PERCENTILES.map(|(_, title)| title)).chain(["max", self.share_title()]);
        let texts = if names.is_empty() { vec![""] } else { names };
        let mut table = Table::new(
            texts.iter().map(|&title| (title, Align::Left)).chain(numbers.map(|title| (title, Align::Right))),
        );
        let mut doubtful = false;
        for row in self.rows.iter().filter(|_| !self.by.is_empty()).chain([&self.total]) {
            let mut group = row.group.clone();
            group.resize(texts.len(), String::new());
            group.extend(self.texts(row, &mut doubtful));
            table.push(group);
        }
        lines.push(table.heading(columns));
        lines.extend(table.take_lines(columns));
        if doubtful {
            lines.extend(crate::cell::wrap("? fewer than ten events beyond this percentile", columns));
        }
        lines.extend(caption::foot(context, columns));
        lines
    }

    fn share_title(&self) -> &'static str {
        if self.quantity.is_bytes() { "share" } else { "time" }
    }

    fn texts(&self, row: &SummaryRow, doubtful: &mut bool) -> Vec<String> {
        let value = |value: u64| if self.quantity.is_bytes() { format_size(value) } else { format_duration(value) };
        let count = row.totals.count;
        let mut texts = vec![
            format_count(count),
            format_rate(self.per_second(count)),
            row.bytes.map_or("-".into(), |bytes| format_size(self.per_second(bytes) as u64)),
        ];
        if count == 0 {
            texts.resize(12, "-".into());
            return texts;
        }
        texts.push(value(row.totals.min));
        texts.push(value(row.totals.mean().unwrap_or(0.0).round() as u64));
        for (&at, (quantile, _)) in row.percentiles.iter().zip(PERCENTILES) {
            let beyond = (1.0 - quantile) * count as f64;
            *doubtful |= beyond < 9.999;
            texts.push(value(at) + if beyond < 9.999 { "?" } else { "" });
        }
        texts.push(value(row.totals.max));
        texts.push(format!("{:.1}%", 100.0 * self.share(row)));
        texts
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.span_ns.max(1) as f64
    }

    fn share(&self, row: &SummaryRow) -> f64 {
        if self.total.totals.sum == 0 { 0.0 } else { row.totals.sum as f64 / self.total.totals.sum as f64 }
    }

    /// Names and numbers in base units: nanoseconds or bytes, events and bytes per second, shares from 0 to 1.
    fn numbers(&self, row: &SummaryRow) -> Vec<(String, Option<String>)> {
        let unit = if self.quantity.is_bytes() { "bytes" } else { "ns" };
        let some = |value: u64| (row.totals.count > 0).then(|| value.to_string());
        let mut numbers = vec![
            ("count".into(), Some(row.totals.count.to_string())),
            ("rate_per_s".into(), Some(self.per_second(row.totals.count).to_string())),
            ("bytes_per_s".into(), row.bytes.map(|bytes| self.per_second(bytes).to_string())),
            (format!("sum_{unit}"), Some(row.totals.sum.to_string())),
            (format!("min_{unit}"), some(row.totals.min)),
            (format!("mean_{unit}"), row.totals.mean().map(|mean| mean.to_string())),
        ];
        for (at, (_, title)) in PERCENTILES.iter().enumerate() {
            let value = row.percentiles.get(at).and_then(|&value| some(value));
            numbers.push((format!("{}_{unit}", title.replace('.', "_")), value));
        }
        numbers.push((format!("max_{unit}"), some(row.totals.max)));
        numbers.push(("share".into(), Some(self.share(row).to_string())));
        numbers
    }

    /// The groups as CSV with a heading; a missing number is empty. Without group fields there is one line, the total.
    pub fn csv(&self) -> String {
        let numbers = self.numbers(&self.total);
        let names = self.by.iter().map(|field| field.name());
        let mut text = csv_line(names.chain(numbers.iter().map(|(key, _)| key.as_str())));
        for row in self.shown() {
            let numbers = self.numbers(row);
            let group = row.group.iter().take(self.by.len()).map(String::as_str);
            text += &csv_line(group.chain(numbers.iter().map(|(_, value)| value.as_deref().unwrap_or(""))));
        }
        text
    }

    /// The summary as a JSON object: `span_ns`, `groups` (a list, keys as in CSV) and `total`.
    pub fn json(&self) -> String {
        let object = |row: &SummaryRow, named: bool| {
            let texts = self.by.iter().zip(&row.group).filter(|_| named);
            let texts = texts.map(|(field, value)| format!("\"{}\":{}", field.name(), json_text(value)));
            let numbers = self.numbers(row).into_iter();
            let numbers = numbers.map(|(key, value)| format!("\"{key}\":{}", value.as_deref().unwrap_or("null")));
            format!("{{{}}}", texts.chain(numbers).collect::<Vec<_>>().join(","))
        };
        let groups: Vec<String> = self.rows.iter().map(|row| object(row, true)).collect();
        format!(
            "{{\"span_ns\":{},\"groups\":[{}],\"total\":{}}}\n",
            self.span_ns,
            groups.join(","),
            object(&self.total, false)
        )
    }

    fn shown(&self) -> impl Iterator<Item = &SummaryRow> {
        let total = self.by.is_empty().then_some(&self.total);
        self.rows.iter().filter(|_| !self.by.is_empty()).chain(total)
    }
}

impl SummaryRow {
    fn of(group: Vec<String>, sum: &Histogram, weighs_bytes: bool) -> SummaryRow {
        let percentiles = sum.quantiles(&PERCENTILES.map(|(quantile, _)| quantile), Rule::Interpolated);
        let bytes = sum.buckets().fold(0u64, |bytes, (_, _, weight)| bytes.saturating_add(weight));
        SummaryRow {
            group,
            totals: *sum.totals(),
            percentiles: percentiles.unwrap_or_default(),
            bytes: weighs_bytes.then_some(bytes),
        }
    }
}

/// A JSON string, quotes included.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
