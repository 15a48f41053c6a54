//! What the events of a selection have in common: how many of each process, file, device, kind and size, and the slowest.

use super::select::percent;
use latscope_event::{
    Batch, Column, Field, FieldSet, FieldType, MISSING_CODE, MISSING_I64, MISSING_U64, Mask, format_count,
    format_duration, format_duration_exact, format_size,
};
use latscope_view_term::Line;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// The fields whose values are counted, with the word for them.
const COUNTED: [(Field, &str); 8] = [
    (Field::Comm, "processes"),
    (Field::Path, "files"),
    (Field::Device, "devices"),
    (Field::Kind, "kinds"),
    (Field::Name, "names"),
    (Field::Size, "sizes"),
    (Field::FdType, "types"),
    (Field::Error, "errors"),
];
/// The fields that a line of a slow event shows.
const SHOWN: [Field; 8] =
    [Field::Kind, Field::Name, Field::Size, Field::Device, Field::Path, Field::Comm, Field::Pid, Field::Error];
/// How many of the slowest are kept.
const SLOWEST: usize = 100;
/// Beyond so many different values further ones are counted as others.
const VALUES: usize = 10_000;
const OTHERS: &str = "(others)";

/// The account of a selection.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    pub count: u64,
    sum_ns: u128,
    bytes: u64,
    values: BTreeMap<usize, HashMap<String, u64>>,
    /// Latency, start, description.
    slowest: BinaryHeap<Reverse<(u64, Reverse<i64>, String)>>,
}

impl Digest {
    /// The columns that it looks at.
    pub fn fields() -> FieldSet {
        let fields: FieldSet = COUNTED.iter().map(|&(field, _)| field).chain(SHOWN).collect();
        fields.union(FieldSet::ALWAYS).with(&[Field::SampleWeight, Field::Result])
    }

    /// Adds the events that the mask lets through, or all.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        let rows: Vec<usize> = match mask {
            Some(mask) => mask.ones().collect(),
            None => (0..batch.len()).collect(),
        };
        // An event of a sample stands for many.
        let weights = batch.i64s(Field::SampleWeight);
        let stands_for = |row: usize| weights.map_or(1, |weights| weights[row].max(1) as u64);
        for &row in &rows {
            let count = stands_for(row);
            self.count += count;
            self.sum_ns += u128::from(batch.latency()[row]) * u128::from(count);
            if let Some(bytes) = batch.moved_bytes(row) {
                self.bytes = self.bytes.saturating_add(bytes.saturating_mul(count));
            }
        }
        for (at, &(field, _)) in COUNTED.iter().enumerate() {
            // By raw value first: a text is looked up once per batch.
            let mut counts: HashMap<u64, u64> = HashMap::new();
            for &row in &rows {
                let value = match batch.column(field) {
                    Some(Column::Text(codes)) if codes[row] != MISSING_CODE => u64::from(codes[row]),
                    Some(Column::U64(values)) if values[row] != MISSING_U64 => values[row],
                    _ => continue,
                };
                *counts.entry(value).or_default() += stands_for(row);
            }
            let values = self.values.entry(at).or_default();
            for (value, count) in counts {
                let text = match field.field_type() {
                    FieldType::Text => batch.dictionary(field).text(value as u32).unwrap_or_default().to_string(),
                    _ => format_size(value),
                };
                let text = if values.len() < VALUES || values.contains_key(&text) { text } else { OTHERS.into() };
                *values.entry(text).or_default() += count;
            }
        }
        rows.iter().for_each(|&row| self.slow(batch, row));
    }

    /// Adds how many events have a value of a field, where only that is known.
    pub fn add_value(&mut self, field: Field, text: &str, count: u64) {
        if let Some(at) = COUNTED.iter().position(|&(counted, _)| counted == field) {
            *self.values.entry(at).or_default().entry(text.into()).or_default() += count;
        }
    }

    fn slow(&mut self, batch: &Batch, row: usize) {
        let latency = batch.latency()[row];
        if self.slowest.len() >= SLOWEST && self.slowest.peek().is_some_and(|Reverse(least)| latency <= least.0) {
            return;
        }
        let words: Vec<String> = SHOWN.iter().filter_map(|&field| word(batch, field, row)).collect();
        self.slowest.push(Reverse((latency, Reverse(batch.time()[row]), words.join(" "))));
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }

    /// `1,234 events, 5.3MiB, mean 120us`.
    pub fn summary(&self) -> String {
        let mut text = format!("{} events", format_count(self.count));
        if self.bytes > 0 {
            text += &format!(", {}", format_size(self.bytes));
        }
        if self.count > 0 && self.sum_ns > 0 {
            text += &format!(", mean {}", format_duration((self.sum_ns / u128::from(self.count)) as u64));
        }
        text
    }

    /// The most frequent values of each field that has any, and the slowest events, within so many columns and rows;
    /// `moment` writes a time.
    pub fn lines(&self, columns: usize, rows: usize, moment: impl Fn(i64) -> String) -> Vec<Line> {
        let filled: Vec<_> = self.values.iter().filter(|(_, values)| !values.is_empty()).collect();
        // Half of the room for values, a line at least each; the other half for events.
        let each = (rows / 2 / filled.len().max(1)).clamp(1, 4);
        let mut lines = Vec::new();
        for (at, values) in filled {
            let mut most: Vec<_> = values.iter().map(|(text, &count)| (Reverse(count), text.as_str())).collect();
            most.sort();
            lines.extend(value_lines(COUNTED[*at].1, &most, self.count, columns, each));
        }
        let mut slow: Vec<_> = self.slowest.iter().map(|Reverse(one)| one).collect();
        slow.sort_by(|a, b| b.cmp(a));
        if !slow.is_empty() && lines.len() + 1 < rows {
            lines.push(Line::new("the slowest"));
        }
        for (latency, Reverse(time), words) in slow.into_iter().take(rows.saturating_sub(lines.len())) {
            let end = moment(time.saturating_add_unsigned(*latency));
            let mut line = Line::new(&format!("  {:>10} {end} {words}", format_duration_exact(*latency)));
            line.truncate(columns, true);
            lines.push(line);
        }
        lines.truncate(rows);
        lines
    }
}

/// Values side by side, on at most so many lines.
fn value_lines(word: &str, most: &[(Reverse<u64>, &str)], whole: u64, columns: usize, limit: usize) -> Vec<Line> {
    let indent = 11;
    let mut lines = vec![Line::new(&format!("{word:<indent$}"))];
    for (at, (Reverse(count), text)) in most.iter().enumerate() {
        let mut entry = Line::new(text);
        entry.truncate(columns.saturating_sub(indent + 18).max(8), true);
        entry.push(&format!(" {} ({}%)", format_count(*count), percent(*count, whole)));
        let last = lines.len() - 1;
        let started = lines[last].width() > indent;
        if started && lines[last].width() + entry.width() + 2 + 4 > columns {
            if lines.len() == limit {
                lines[last].push(&format!(" +{}", most.len() - at));
                break;
            }
            lines.push(Line::new(&" ".repeat(indent)));
        } else if started {
            lines[last].push("  ");
        }
        let last = lines.len() - 1;
        lines[last].cells.append(&mut entry.cells);
    }
    for line in &mut lines {
        line.truncate(columns, true);
    }
    lines
}

fn word(batch: &Batch, field: Field, row: usize) -> Option<String> {
    match batch.column(field)? {
        Column::Text(_) => batch.text(field, row).map(str::to_string),
        Column::U64(values) => (values[row] != MISSING_U64).then(|| format_size(values[row])),
        Column::I64(values) => (values[row] != MISSING_I64).then(|| values[row].to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_values_and_keeps_the_slowest() {
        let mut batch = Batch::new(Digest::fields());
        for row in 0..1000u64 {
            batch.push_i64(Field::Time, row as i64);
            batch.push_u64(Field::Latency, row * 7919 % 1000);
            batch.push_text(Field::Comm, Some(if row % 4 == 0 { b"fio" } else { b"postgres" }));
            batch.push_u64(Field::Size, 4096);
            batch.end_row();
        }
        let mut digest = Digest::default();
        let mut mask = Mask::filled(1000, true);
        mask.retain(|row| row < 500);
        digest.add(&batch, Some(&mask));
        assert_eq!(digest.summary(), "500 events, 1.95MiB, mean 500ns".replace("500ns", &digest.mean()));
        let lines: Vec<String> = digest.lines(60, 20, |ns| format!("t{ns}")).iter().map(Line::text).collect();
        assert_eq!(lines[0], "processes  postgres 375 (75%)  fio 125 (25%)");
        assert_eq!(lines[1], "sizes      4KiB 500 (100%)");
        let slowest = (0..500u64).map(|row| row * 7919 % 1000).max().unwrap();
        assert!(lines[3].contains(&format!("{slowest}ns")), "{lines:?}");
        assert!(lines.len() <= 20 && lines.iter().all(|line| line.chars().count() <= 60));
    }

    impl Digest {
        fn mean(&self) -> String {
            let sum: u64 = (0..500u64).map(|row| row * 7919 % 1000).sum();
            format_duration(sum / 500)
        }
    }
}
