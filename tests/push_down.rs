//! What a filter demands of every event is tested in the kernel; an event that it lets through must never fail there.

use crate::program::root;
use latscope_capture_file::{ReadOptions, read};
use latscope_event::{Batch, Field, FieldSet};
use latscope_filter::{Filter, Necessary};
use std::ops::ControlFlow;

/// The batches of a recording of real load.
fn recorded(name: &str) -> Vec<Batch> {
    let mut batches = Vec::new();
    let path = root().join("testdata/lat").join(name);
    read(&path, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        batches.push(batch.clone());
        ControlFlow::Continue(())
    })
    .unwrap();
    batches
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        // Knuth, The Art of Computer Programming, volume 2, 3.3.4.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_of<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

const TEXTS: [(&str, Field); 8] = [
    ("kind", Field::Kind),
    ("name", Field::Name),
    ("device", Field::Device),
    ("proc.name", Field::Process),
    ("thread.name", Field::Comm),
    ("fd.type", Field::FdType),
    ("error", Field::Error),
    ("fd.name", Field::Path),
];

/// A comparison with what an event of the recording has.
fn term(random: &mut Random, batches: &[Batch]) -> String {
    let batch = &batches[random.below(batches.len())];
    let mut row = || random.below(batch.len());
    let (one, other) = (row(), row());
    let numbers = |field| batch.i64s(field).map_or(0, |values| values[one].clamp(0, 1 << 40));
    match random.below(10) {
        0 => format!("lat {} {}ns", random.one_of(&[">", ">=", "<", "<=", "!="]), batch.latency()[one]),
        1 => format!("pid {} {}", random.one_of(&["=", "!=", ">="]), numbers(Field::Pid)),
        2 => format!("fd >= {}", numbers(Field::Fd).min(1 << 30)),
        3 => format!("size {} 4096", random.one_of(&["=", ">", "<="])),
        _ => {
            let (word, field) = TEXTS[random.below(TEXTS.len())];
            let quoted = |row| format!("'{}'", batch.text(field, row).unwrap_or("none").replace(['\'', '\\'], ""));
            match random.below(4) {
                0 => format!("{word} != {}", quoted(one)),
                1 => format!("{word} in ({}, {})", quoted(one), quoted(other)),
                2 => format!("{word} contains {}", quoted(one)),
                _ => format!("{word} = {}", quoted(one)),
            }
        }
    }
}

fn filter(random: &mut Random, batches: &[Batch], depth: usize) -> String {
    if depth == 0 || random.below(5) == 0 {
        return term(random, batches);
    }
    let (left, right) = (filter(random, batches, depth - 1), filter(random, batches, depth - 1));
    match random.below(8) {
        0 => format!("not ({left})"),
        1 | 2 => format!("({left}) or ({right})"),
        _ => format!("({left}) and ({right})"),
    }
}

/// What the kernel side tests, in the plainest way.
fn fulfils(batch: &Batch, row: usize, necessary: &Necessary) -> bool {
    let has = |field| match batch.i64s(field) {
        Some(values) => values[row].to_string(),
        None => batch.text(field, row).unwrap_or_default().to_string(),
    };
    let is_one_of = |(&field, values): (&Field, &std::collections::BTreeSet<String>)| {
        let device = field == Field::Device && values.contains(batch.text(Field::Dev, row).unwrap_or_default());
        device || values.contains(&has(field))
    };
    batch.latency()[row] >= necessary.min_latency_ns && necessary.any_of.iter().all(is_one_of)
}

#[test]
fn what_random_filters_let_through_passes_the_kernel_too() {
    for recording in ["io.lat", "block.lat"] {
        let batches = recorded(recording);
        let mut random = Random(1);
        let (mut demanding, mut through, mut spared) = (0, 0, 0);
        for _ in 0..2000 {
            let text = filter(&mut random, &batches, 3);
            let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let necessary = filter.necessary();
            demanding += usize::from(necessary.min_latency_ns > 0 || !necessary.any_of.is_empty());
            let mut bound =
                filter.bind(latscope_event::Context::new("x", latscope_event::Clock::wall()).trace_start()).unwrap();
            for batch in &batches {
                let mut mask = latscope_event::Mask::default();
                bound.eval(batch, &mut mask);
                for row in 0..batch.len() {
                    let in_kernel = fulfils(batch, row, &necessary);
                    assert!(in_kernel || !mask.get(row), "{text}: row {row} of {recording}, {necessary:?}");
                    through += usize::from(mask.get(row));
                    spared += usize::from(!in_kernel);
                }
            }
        }
        // The filters are of all sorts, and what they demand matters.
        assert!(demanding > 200 && through > 10_000 && spared > 10_000, "{demanding} {through} {spared}");
    }
}
