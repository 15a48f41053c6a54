use super::*;
use crate::{Interval, Quantity, SeriesBuilder, Weight};
use latscope_event::{Batch, Field};
use proptest::prelude::*;

/// A generator of its own, so that an error in that of the product would show.
struct Lcg(u64);

impl Lcg {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Latencies of a target as probes find them: some 350us, a third of that wide, one in fifty ten times as long. `memory` is how
/// much of a request's deviation is that of the one before it.
fn target(seed: u64, count: usize, factor: f64, memory: f64) -> Vec<u64> {
    let mut random = Lcg(seed.wrapping_mul(0x9e37_79b9_97f4_a7c5) ^ 0x1234_5678);
    for _ in 0..20 {
        random.unit();
    }
    let mut state = random.normal();
    let latency = |_| {
        state = memory * state + (1.0 - memory * memory).sqrt() * random.normal();
        let outlier = if random.unit() < 0.02 { 10.0 } else { 1.0 };
        (factor * 350_000.0 * (0.2 * state).exp() * outlier) as u64
    };
    (0..count).map(latency).collect()
}

fn compared(a: Vec<u64>, b: Vec<u64>, seed: u64) -> Comparison {
    let options = CompareOptions { seed, rounds: 1000, ..CompareOptions::default() };
    compare(&[Sample::of_events(a), Sample::of_events(b)], &options).unwrap()
}

fn differs(comparison: &Comparison) -> bool {
    let rows = comparison.pairs.iter().flat_map(|pair| &pair.differences);
    rows.into_iter().any(|row| matches!(row.finding, Finding::Slower | Finding::Faster))
}

fn runs(count: u64, one: impl Fn(u64) -> Comparison) -> usize {
    (0..count).filter(|&seed| differs(&one(seed))).count()
}

#[test]
fn equal_targets_show_no_difference() {
    let wrong =
        runs(100, |seed| compared(target(2 * seed, 1000, 1.0, 0.0), target(2 * seed + 1, 1000, 1.0, 0.0), seed));
    assert!(wrong <= 6, "{wrong} of 100 equal pairs were told apart");
}

#[test]
fn requests_that_resemble_their_neighbours_are_no_reason_for_a_difference() {
    let one = |seed| compared(target(2 * seed, 1000, 1.0, 0.7), target(2 * seed + 1, 1000, 1.0, 0.7), seed);
    let wrong = runs(100, one);
    assert!(wrong <= 12, "{wrong} of 100 equal pairs were told apart");
    assert!(one(1).sides[0].block > 2, "neighbours are drawn together");
    let independent = compared(target(1, 1000, 1.0, 0.0), target(2, 1000, 1.0, 0.0), 1);
    assert!(independent.sides[0].block <= 3, "{}", independent.sides[0].block);
}

#[test]
fn five_percent_are_told_apart_by_a_thousand_requests() {
    let one = |seed| compared(target(2 * seed, 1000, 1.0, 0.0), target(2 * seed + 1, 1000, 1.05, 0.0), seed);
    let found = runs(100, one);
    assert!(found >= 95, "{found} of 100");
    let slower = |row: &Difference| row.finding != Finding::Faster;
    assert!((0..20).all(|seed| one(seed).pairs[0].differences.iter().all(slower)), "never the wrong way around");
}
