//! Clocks that are coarser than what is compared.

use super::*;
use proptest::prelude::*;

/// A generator of its own (Lehmer), so that an error in that of the product would show.
struct Lehmer(u64);

impl Lehmer {
    fn unit(&mut self) -> f64 {
        self.0 = self.0 * 48_271 % 2_147_483_647;
        self.0 as f64 / 2_147_483_647.0
    }

    /// The sum of twelve is nearly normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A run of requests about a level of its own, some 2 % around `mean_ms`, as a clock with this step shows them.
fn run(seed: u64, mean_ms: f64, step_ns: u64, count: usize) -> Sample {
    let mut random = Lehmer(seed * 7919 % 2_147_483_646 + 1);
    (0..50).for_each(|_| {
        random.unit();
    });
    let level = mean_ms * (1.0 + 0.02 * random.normal());
    let latency = |_| ((1e6 * (level + 2.0 * random.normal())).max(1e6) as u64) / step_ns * step_ns;
    Sample::of_events((0..count).map(latency).collect())
}

fn claims(comparison: &Comparison) -> Vec<Difference> {
    let rows = comparison.pairs.iter().flat_map(|pair| &pair.differences);
    rows.copied().filter(|row| matches!(row.finding, Finding::Slower | Finding::Faster)).collect()
}

#[test]
fn runs_of_one_law_are_equal_by_a_coarse_clock_too() {
    let options = CompareOptions { rounds: 100, ..CompareOptions::default() };
    for (turns, step_ns, repetitions) in [(2, 1_000_000, 60), (2, 250_000, 30), (2, 1, 20), (4, 1_000_000, 20)] {
        let side = |seed: u64| (0..turns).map(|turn| run(seed * 16 + turn, 8.5, step_ns, 1000)).collect();
        let wrong = (0..repetitions).filter(|seed| {
            let found = compare(&[side(2 * seed), side(2 * seed + 1)], &options).unwrap();
            !claims(&found).is_empty()
        });
        let wrong = wrong.count() as u64;
        assert!(wrong * 20 <= repetitions, "{wrong} of {repetitions}: {turns} turns, clock of {step_ns} ns");
    }
}

#[test]
fn a_tick_is_no_difference_and_more_is() {
    // Thousands of requests on both sides of the edge of a tick: 12.99 ms and 13.01 ms, always.
    let constant = |ms: u64| Sample::of_events((0..2000).map(|at| (ms + at % 50 / 49) * 1_000_000).collect());
    let options = CompareOptions::default();
    for turns in [1, 8] {
        let compared = |ms: u64| compare(&[vec![constant(12); turns], vec![constant(ms); turns]], &options).unwrap();
        let near = compared(13);
        for row in claims(&near) {
            assert_eq!(row.measure, Measure::Chance, "{turns}: {row:?}");
        }
        // At the median, 23 ms are 10 to 12 ms slower than 12 ms by such a clock.
        let far = compared(23);
        let row = far.pairs[0].differences[0];
        let (low, high) = row.interval.unwrap();
        assert_eq!(row.finding, Finding::Slower, "{turns}: {row:?}");
        assert!(low <= 10e6 && high >= 12e6, "{turns}: {row:?}");
        let notes = far.notes(&["a".into(), "b".into()]).join("\n");
        assert!(notes.contains("latencies have steps of 1ms"), "{notes}");
    }
}

proptest! {
    /// Few values, ties, constants, one turn or several, events or their histograms.
    #[test]
    fn an_interval_of_no_width_is_no_claim(
        turns in proptest::collection::vec((1u64..6, 1u64..4, 20usize..200), 2..8),
        scale in prop_oneof![Just(1u64), Just(1000), Just(1_000_000)],
        split in 1usize..4,
    ) {
        let sample = |&(level, kinds, count): &(u64, u64, usize)| {
            Sample::of_events((0..count as u64).map(|at| scale * (10 * level + at * 7 % kinds)).collect())
        };
        let samples: Vec<Sample> = turns.iter().map(sample).collect();
        let (a, b) = samples.split_at(split.min(samples.len() - 1));
        let options = CompareOptions { rounds: 100, ..CompareOptions::default() };
        for row in claims(&compare(&[a.to_vec(), b.to_vec()], &options).unwrap()) {
            let ((low, high), (joint_low, joint_high)) = (row.interval.unwrap(), row.joint.unwrap());
            prop_assert!(high > low && joint_high > joint_low, "{:?}", row);
        }
    }
}
