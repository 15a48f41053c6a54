//! A comparison as a table, CSV and JSON.

mod gate;

use crate::table::csv_line;
use crate::{Align, Line, Table, cell};
use latscope_event::{escape_json, format_count};
use latscope_series::Quantity;
use latscope_series::compare::{Comparison, Difference, Measure, Pair, Side, Turn, relative, signed};

/// A comparison with what its readers have to know.
#[derive(Clone, Debug)]
pub struct CompareTable<'a> {
    /// What was found.
    pub comparison: &'a Comparison,
    /// The names of the sides.
    pub names: &'a [String],
    /// What makes the sides unlike each other beside their latency.
    pub unlike: &'a [String],
    /// In what they may be unlike, since not all of them give it: a sentence without an end.
    pub unknown: Option<&'a str>,
    /// What else has to be known of the sides, each a sentence without an end.
    pub notes: &'a [String],
}

fn shown(quantity: Quantity, value: f64) -> String {
    quantity.shown(value.max(0.0).round() as u64)
}

impl CompareTable<'_> {
    /// What is unlike, a table for each pair, the verdicts, how they were made.
    pub fn lines(&self, columns: usize) -> Vec<Line> {
        let wrap = |text: &str| cell::wrap(text, columns);
        let mut lines: Vec<Line> = self.unlike.iter().flat_map(|text| wrap(&format!("unlike: {text}"))).collect();
        if self.comparison.pairs.is_empty() {
            let mut table = self.alone();
            lines.push(table.heading(columns));
            lines.extend(table.take_lines(columns));
        }
        for pair in &self.comparison.pairs {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            let mut table = self.table(pair);
            lines.push(table.heading(columns));
            lines.extend(table.take_lines(columns));
        }
        if self.comparison.has_turns() {
            let mut turns = self.turns();
            lines.extend([Line::default(), turns.heading(columns)]);
            lines.extend(turns.take_lines(columns));
        }
        lines.push(Line::default());
        lines.extend(self.verdicts().iter().flat_map(|verdict| wrap(verdict)));
        lines.extend(self.unknown.into_iter().flat_map(|text| wrap(&format!("note: {text}"))));
        lines.extend(self.all_notes().iter().flat_map(|note| wrap(&format!("note: {note}"))));
        lines
    }

    /// A sentence for each pair.
    pub fn verdicts(&self) -> Vec<String> {
        self.comparison.pairs.iter().map(|pair| self.comparison.verdict(pair, self.names)).collect()
    }

    fn all_notes(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(self.comparison.notes(self.names)).collect()
    }

    fn quantity(&self) -> Quantity {
        self.comparison.options.quantity
    }

    fn shown(&self, value: f64) -> String {
        shown(self.quantity(), value)
    }

    fn name(&self, side: usize) -> &str {
        self.names.get(side).map_or("?", String::as_str)
    }

    fn table(&self, pair: &Pair) -> Table {
        let confidence = (self.comparison.options.confidence * 1e4).round() / 100.0;
        let right = |title: &str| (title.to_string(), Align::Right);
        let titles = [
            (String::new(), Align::Left),
            right(self.name(0)),
            right(self.name(pair.other)),
            right("difference"),
            right(""),
            right(&format!("{confidence}% interval")),
            (String::new(), Align::Left),
        ];
        let mut table = Table::new(titles);
        for (title, texts) in self.extremes(pair) {
            table.push([title.to_string()].into_iter().chain(texts).collect());
        }
        for row in &pair.differences {
            table.push(texts(self.quantity(), row).to_vec());
        }
        table
    }

    /// Count, extremes and deviation of both sides, which have no intervals.
    fn extremes(&self, pair: &Pair) -> [(&'static str, [String; 2]); 4] {
        let sides = [&self.comparison.sides[0], &self.comparison.sides[pair.other]];
        [
            ("count", sides.map(|side| format_count(side.count))),
            ("min", sides.map(|side| self.shown(side.min as f64))),
            ("max", sides.map(|side| self.shown(side.max as f64))),
            ("sd", sides.map(|side| self.shown(side.deviation))),
        ]
    }

    /// The numbers of the only side.
    fn alone(&self) -> Table {
        let mut table = Table::new([(String::new(), Align::Left), (self.name(0).to_string(), Align::Right)]);
        for (title, text) in self.numbers_of(0) {
            table.push(vec![title, text]);
        }
        table
    }

    /// Names and texts of the numbers of a side.
    fn numbers_of(&self, side: usize) -> Vec<(String, String)> {
        let Some(side) = self.comparison.sides.get(side) else { return Vec::new() };
        let quantiles = self.comparison.options.quantiles.iter().zip(&side.quantiles);
        let quantiles = quantiles.map(|(&at, &value)| (Measure::Quantile(at).key(), self.shown(value)));
        let first = [
            ("count", format_count(side.count)),
            ("min", self.shown(side.min as f64)),
            ("max", self.shown(side.max as f64)),
            ("sd", self.shown(side.deviation)),
        ];
        let first = first.map(|(title, text)| (title.to_string(), text));
        first.into_iter().chain(quantiles).chain([("mean".to_string(), self.shown(side.mean))]).collect()
    }

    /// The value of each turn of each side, a row for each measure.
    fn turns(&self) -> Table {
        let sides = &self.comparison.sides;
        let names = (0..sides.len()).map(|side| (self.name(side).to_string(), Align::Right));
        let mut table = Table::new([("each turn".to_string(), Align::Left)].into_iter().chain(names));
        let mut put = |title: String, text: &dyn Fn(&Turn) -> String| {
            let cell = |side: &Side| side.turns.iter().map(text).collect::<Vec<_>>().join("  ");
            table.push([title].into_iter().chain(sides.iter().map(cell)).collect());
        };
        put("count".into(), &|turn| format_count(turn.count));
        let quantiles = self.comparison.options.quantiles.iter().map(|&quantile| Measure::Quantile(quantile));
        for measure in quantiles.chain([Measure::Mean]) {
            put(measure.key(), &|turn| self.shown(turn.value(measure)));
        }
        table
    }

    /// Names and numbers of a row: nanoseconds or bytes, or a part of one for the chance.
    fn numbers(&self, row: &Difference) -> Vec<(String, Option<f64>)> {
        let unit = if row.measure == Measure::Chance { "" } else { self.quantity().suffix() };
        let (low, high) = row.interval.unzip();
        let (joint_low, joint_high) = row.joint.unzip();
        [
            ("base", Some(row.base)),
            ("other", Some(row.other)),
            ("difference", Some(row.difference())),
            ("low", low),
            ("high", high),
            ("joint_low", joint_low),
            ("joint_high", joint_high),
        ]
        // An end beyond what was measured is not known.
        .map(|(key, value)| (format!("{key}{unit}"), value.filter(|value| value.is_finite())))
        .to_vec()
    }

    /// A line for each measure of each pair, base units.
    pub fn csv(&self) -> String {
        let keys = "other,base,measure,base_value,other_value,difference,low,high,joint_low,joint_high,finding";
        let mut text = csv_line(keys.split(','));
        if let ([side], []) = (&self.comparison.sides[..], &self.comparison.pairs[..]) {
            let quantiles = self.comparison.options.quantiles.iter().zip(&side.quantiles);
            let quantiles = quantiles.map(|(&at, &value)| (Measure::Quantile(at).key(), value));
            let first =
                [("min", side.min as f64), ("max", side.max as f64), ("sd", side.deviation), ("mean", side.mean)];
            let first = first.map(|(key, value)| (key.to_string(), value));
            for (key, value) in first.into_iter().chain(quantiles) {
                let head = ["", self.name(0), &key, &value.to_string()];
                text += &csv_line(head.into_iter().chain([""; 7]));
            }
        }
        for pair in &self.comparison.pairs {
            for row in &pair.differences {
                let key = row.measure.key();
                let numbers =
                    self.numbers(row).into_iter().map(|(_, value)| value.map_or(String::new(), |v| v.to_string()));
                let numbers: Vec<String> = numbers.collect();
                let head = [self.name(pair.other), self.name(0), &key].into_iter();
                text += &csv_line(
                    head.chain(numbers.iter().map(String::as_str)).chain([row.finding.word(self.quantity())]),
                );
            }
        }
        text
    }

    fn turn_json(&self, turn: &Turn) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        object.insert("count".into(), turn.count.into());
        for &quantile in &self.comparison.options.quantiles {
            let measure = Measure::Quantile(quantile);
            object.insert(
                format!("{}{}", measure.key().replace('.', "_"), self.quantity().suffix()),
                turn.value(measure).into(),
            );
        }
        object.insert(format!("mean{}", self.quantity().suffix()), turn.value(Measure::Mean).into());
        object.into()
    }

    /// An object: `sides`, `differences`, `verdicts`, `unlike`, `notes`; base units.
    pub fn json(&self) -> String {
        use serde_json::{Map, Value, json};
        let (options, unit) = (&self.comparison.options, self.quantity().suffix());
        let sides = self.comparison.sides.iter().enumerate().map(|(at, side)| {
            let mut object = Map::new();
            let mut put = |key: &str, value: Value| object.insert(key.into(), value);
            put("name", self.name(at).into());
            put("count", side.count.into());
            put(&format!("min{unit}"), side.min.into());
            put(&format!("mean{unit}"), side.mean.into());
            put(&format!("sd{unit}"), side.deviation.into());
            for (&quantile, &value) in options.quantiles.iter().zip(&side.quantiles) {
                put(&format!("{}{unit}", Measure::Quantile(quantile).key().replace('.', "_")), value.into());
            }
            put(&format!("max{unit}"), side.max.into());
            put("independent", side.independent.into());
            if self.comparison.has_turns() {
                put("turns", side.turns.iter().map(|turn| self.turn_json(turn)).collect::<Vec<_>>().into());
            }
            Value::Object(object)
        });
        let rows = self.comparison.pairs.iter().flat_map(|pair| pair.differences.iter().map(move |row| (pair, row)));
        let rows = rows.map(|(pair, row)| {
            let mut object = Map::new();
            object.insert("other_side".into(), self.name(pair.other).into());
            object.insert("base_side".into(), self.name(0).into());
            object.insert("measure".into(), row.measure.key().into());
            self.numbers(row).into_iter().for_each(|(key, value)| drop(object.insert(key, value.into())));
            object.insert("finding".into(), row.finding.word(self.quantity()).into());
            Value::Object(object)
        });
        let all = json!({
            "quantity": self.quantity().word(),
            "sides": sides.collect::<Vec<_>>(),
            "differences": rows.collect::<Vec<_>>(),
            "verdicts": self.verdicts(),
            "unlike": self.unlike,
            "unknown": self.unknown,
            "notes": self.all_notes(),
            "confidence": options.confidence,
            "certainty": options.certainty,
            "equivalence": options.equivalence,
            "rounds": options.rounds,
            "seed": options.seed,
        });
        escape_json(&format!("{all}\n")).into_owned()
    }
}

/// The cells of a row.
fn texts(quantity: Quantity, row: &Difference) -> [String; 7] {
    let chance = row.measure == Measure::Chance;
    let percent = |value: f64| format!("{:.1}%", 100.0 * value);
    let value = |value: f64| if chance { percent(value) } else { shown(quantity, value) };
    let change = |value: f64| if chance { format!("{:+.1}%", 100.0 * value) } else { signed(quantity, value) };
    let part = relative(row.base, row.other, 1).filter(|_| !chance).unwrap_or_default();
    let interval = row.interval.map_or("-".into(), |(low, high)| format!("[{}, {}]", change(low), change(high)));
    let title = if chance { format!("{} than base", quantity.comparatives().0) } else { row.measure.key() };
    [
        title,
        value(row.base),
        value(row.other),
        change(row.difference()),
        part,
        interval,
        row.finding.word(quantity).into(),
    ]
}
