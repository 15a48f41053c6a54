//! Functions of stacks and tags as causes, against a count of every function in every row.

use super::*;
use latscope_event::{Batch, frames};
use std::collections::{BTreeMap, BTreeSet};

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() * bound as f64) as usize
    }
}

/// A row: the code of its stack and of its tags.
type Row = (usize, usize);

struct Trace {
    stacks: Vec<String>,
    tags: Vec<String>,
    rows: Vec<Row>,
}

impl Trace {
    /// 120 stacks of 40 functions above a few of the kernel, and tags of two keys.
    fn random(random: &mut Random, rows: usize) -> Trace {
        let stack = |_| {
            let depth = 2 + random.below(12);
            let mut stack = String::from("main");
            (0..depth).for_each(|_| stack += &format!(";f{}", random.below(40)));
            stack + &format!(";pread64;vfs_read_[k];wait{}_[k]", random.below(3))
        };
        let stacks: Vec<String> = (0..120).map(stack).collect();
        let tags = (0..12).map(|at| format!("stage={};job={}", at % 4, at / 4)).collect();
        let rows = (0..rows).map(|_| (random.below(120), random.below(12))).collect();
        Trace { stacks, tags, rows }
    }

    fn functions(&self, row: Row) -> BTreeSet<&str> {
        frames(&self.stacks[row.0]).map(|frame| frame.name).collect()
    }

    fn table(&self, weights: Option<i64>, mut is_slow: impl FnMut(Row) -> bool) -> (Table, Vec<Side>) {
        let fields = FieldSet::ALWAYS.with(&[Field::Stack, Field::Tags, Field::Comm]);
        let mut batch = Batch::new(if weights.is_some() { fields.with(&[Field::SampleWeight]) } else { fields });
        let (mut table, mut sides) = (Table::new(), Vec::new());
        table.begin_trace(Some(0));
        for rows in self.rows.chunks(700) {
            batch.clear();
            for &row in rows {
                sides.push(if is_slow(row) { Side::Selection } else { Side::Baseline });
                batch.push_i64(Field::Time, 1);
                batch.push_u64(Field::Latency, 10);
                batch.push_text(Field::Comm, Some(if row.0 % 2 == 0 { b"even" } else { b"odd" }));
                batch.push_text(Field::Stack, Some(self.stacks[row.0].as_bytes()));
                batch.push_text(Field::Tags, Some(self.tags[row.1].as_bytes()));
                batch.push_i64(Field::SampleWeight, weights.unwrap_or(1));
                batch.end_row();
            }
            table.add(&batch, None);
        }
        (table, sides)
    }
}

fn options(seed: u64) -> ExplainOptions {
    let without = FieldSet::EMPTY.with(&[Field::Latency]);
    ExplainOptions { seed, without, only: None, without_time: true, in_layer: true }
}

/// How often the first finding is the planted one, of a hundred; what is planted is slow in six of ten cases.
fn right(seed: u64, planted: impl Fn(&Trace, &mut Random) -> (Condition, Vec<bool>)) -> usize {
    let mut random = Random(seed);
    let is_right = |_| {
        let trace = Trace::random(&mut random, 4000);
        let (condition, rows) = planted(&trace, &mut random);
        let mut rows = rows.into_iter();
        let (mut table, sides) =
            trace.table(None, |_| random.next() < if rows.next() == Some(true) { 0.6 } else { 0.01 });
        let found = table.explain(&sides, &options(seed)).findings;
        found.first().is_some_and(|first| first.conditions == [condition])
    };
    (0..100).map(is_right).filter(|&is| is).count()
}

#[test]
fn a_planted_function_is_found() {
    let right = right(21, |trace, random| {
        let name = format!("f{}", random.below(40));
        let rows = trace.rows.iter().map(|&row| trace.functions(row).contains(&*name)).collect();
        (Condition::Is(Attribute::Frame, name), rows)
    });
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn a_planted_tag_is_found() {
    let right = right(22, |trace, random| {
        let pair = format!("stage={}", random.below(4));
        let rows = trace.rows.iter().map(|row| trace.tags[row.1].starts_with(&*pair)).collect();
        (Condition::Is(Attribute::Pair, pair), rows)
    });
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn functions_that_mean_nothing_are_no_finding() {
    for chance in [0.01, 0.05, 0.3] {
        let mut random = Random(23);
        let is_quiet = |_| {
            let trace = Trace::random(&mut random, 4000);
            let (mut table, sides) = trace.table(None, |_| random.next() < chance);
            table.explain(&sides, &options(random.next().to_bits())).findings.is_empty()
        };
        let right = (0..100).map(is_quiet).filter(|&is| is).count();
        assert!(right >= 95, "{right} of 100 at {chance}");
    }
}

#[test]
fn counts_of_functions_are_those_of_a_search_in_every_row() {
    for weight in [None, Some(3)] {
        let mut random = Random(24);
        let trace = Trace::random(&mut random, 3000);
        let is_slow = |row: Row| trace.functions(row).contains("f7") || row.0.is_multiple_of(11);
        let (mut table, sides) = trace.table(weight, is_slow);
        let explanation = table.explain(&sides, &options(1));
        let mut counts: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for &row in &trace.rows {
            for name in trace.functions(row) {
                counts.entry(name).or_default()[usize::from(!is_slow(row))] += weight.unwrap_or(1) as u64;
            }
        }
        let all = [0, 1].map(|side| sides.iter().filter(|&&one| one as usize == side).count() as u64);
        let report = explanation.attributes.iter().find(|report| report.attribute == Attribute::Frame).unwrap();
        assert!(!report.values.is_empty() && report.differs);
        for value in &report.values {
            let Condition::Is(_, name) = &value.condition else { panic!("{:?}", value.condition) };
            assert_eq!(value.counts.with, counts[&**name], "{name}");
        }
        // The best is the best of all functions.
        let g2 = |with: &[u64; 2]| Counts { with: with.map(|count| count / weight.unwrap_or(1) as u64), all }.g2();
        let more = |with: &&[u64; 2]| with[0] * all[1] > with[1] * all[0];
        let best = counts.values().filter(more).map(g2).fold(0.0, f64::max);
        assert!((report.values[0].g2 - best).abs() < 1e-9, "{} {best}", report.values[0].g2);
        assert_eq!(explanation.findings[0].conditions, [Condition::Is(Attribute::Frame, "f7".into())]);
    }
}

/// A filter by the stack or the tags leaves out what it asks for, and rows without a stack are told from those with one.
#[test]
fn what_the_filter_asks_for_is_not_tested_and_missing_stacks_are_one_value() {
    let mut trace = Trace::random(&mut Random(25), 2000);
    trace.stacks[5] = String::new();
    let (mut table, sides) = trace.table(None, |row| row.0 == 5 || row.0 == 6);
    let found = table.explain(&sides, &options(1)).attributes;
    let frames = found.iter().find(|report| report.attribute == Attribute::Frame).unwrap();
    let missing = frames.values.iter().find(|value| value.condition == Condition::Missing(Attribute::Frame)).unwrap();
    assert_eq!(missing.counts.with, [trace.rows.iter().filter(|row| row.0 == 5).count() as u64, 0]);
    let without = ExplainOptions { without: FieldSet::EMPTY.with(&[Field::Stack, Field::Tags]), ..options(1) };
    let attributes: Vec<Attribute> =
        table.explain(&sides, &without).attributes.iter().map(|report| report.attribute).collect();
    assert_eq!(attributes, [Attribute::Field(Field::Comm)]);
}
