use super::*;
use crate::{HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
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
    let options = CompareOptions { seed, rounds: 500, ..CompareOptions::default() };
    once([Sample::of_events(a), Sample::of_events(b)], &options).unwrap()
}

/// Sides of one turn each.
fn once<const N: usize>(sides: [Sample; N], options: &CompareOptions) -> Result<Comparison, CompareError> {
    compare(&sides.map(|side| vec![side]), options)
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
    assert!(wrong <= 6, "{wrong} of 100 equal pairs were distinguished");
}

#[test]
fn requests_that_resemble_their_neighbours_are_no_reason_for_a_difference() {
    let one = |seed| compared(target(2 * seed, 1000, 1.0, 0.7), target(2 * seed + 1, 1000, 1.0, 0.7), seed);
    let wrong = runs(100, one);
    assert!(wrong <= 12, "{wrong} of 100 equal pairs were distinguished");
    assert!(one(1).sides[0].independent.is_none_or(|count| count < 300), "{:?}", one(1).sides[0]);
    let independent = compared(target(1, 1000, 1.0, 0.0), target(2, 1000, 1.0, 0.0), 1);
    assert!(independent.sides[0].independent.unwrap() > 600, "{:?}", independent.sides[0]);
}

#[test]
fn what_goes_on_for_long_is_too_few_independent_requests() {
    // Nine tenths, and ninety-nine hundredths, of each deviation are that of the request before.
    for (memory, runs_made) in [(0.9, 60), (0.99, 30)] {
        let one = |seed| compared(target(2 * seed, 1000, 1.0, memory), target(2 * seed + 1, 1000, 1.0, memory), seed);
        let wrong = runs(runs_made, one);
        assert!(wrong <= 4, "{memory}: {wrong} of {runs_made} equal pairs were distinguished");
    }
    let found = compared(target(2, 1000, 1.0, 0.99), target(3, 1000, 1.0, 0.99), 1);
    assert_eq!(found.pairs[0].differences[0].finding, Finding::Dependent);
    assert_eq!(found.sides[0].independent, None);
    let names: Vec<String> = ["a", "b"].map(String::from).into();
    let verdict = found.verdict(&found.pairs[0], &names);
    assert!(verdict.contains("too few independent requests"), "{verdict}");
}

/// Stalls of some twenty requests, two in a thousand on average.
fn stalls(seed: u64, count: usize) -> Vec<u64> {
    let mut random = Lcg(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5555);
    (0..20).for_each(|_| {
        random.unit();
    });
    let (mut left, mut factor) = (0, 1.0);
    let latency = |_| {
        if left == 0 && random.unit() < 0.002 {
            (left, factor) = ((-20.0 * random.unit().ln()) as u32 + 1, 5.0 + 15.0 * random.unit());
        }
        let slow = if left > 0 { factor } else { 1.0 };
        left = left.saturating_sub(1);
        (350_000.0 * (0.2 * random.normal()).exp() * slow) as u64
    };
    (0..count).map(latency).collect()
}

#[test]
fn stalls_of_many_requests_are_few_stalls() {
    let wrong = runs(60, |seed| compared(stalls(2 * seed, 1000), stalls(2 * seed + 1, 1000), seed));
    assert!(wrong <= 4, "{wrong} of 60 equal pairs were distinguished");
}

#[test]
fn a_thousand_requests_distinguish_five_percent() {
    let one = |seed| compared(target(2 * seed, 1000, 1.0, 0.0), target(2 * seed + 1, 1000, 1.05, 0.0), seed);
    let found = runs(100, one);
    assert!(found >= 90, "{found} of 100");
    let slower = |row: &Difference| row.finding != Finding::Faster;
    assert!((0..20).all(|seed| one(seed).pairs[0].differences.iter().all(slower)), "never the wrong way around");
}

/// What the text books say, computed anew.
fn nearest_rank(values: &[u64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1] as f64
}

fn close(found: f64, truth: f64) -> bool {
    (found - truth).abs() <= 1e-9 * truth.abs().max(1.0)
}

proptest! {
    #[test]
    fn numbers_are_those_of_the_events(
        a in proptest::collection::vec((0u32..40, any::<u64>()).prop_map(|(bits, value)| value >> (24 + bits)), 1..60),
        b in proptest::collection::vec((0u32..40, any::<u64>()).prop_map(|(bits, value)| value >> (24 + bits)), 1..60),
    ) {
        let options = CompareOptions { quantiles: vec![0.9, 0.5], rounds: 100, ..CompareOptions::default() };
        let found = once([Sample::of_events(a.clone()), Sample::of_events(b.clone())], &options).unwrap();
        for (side, values) in found.sides.iter().zip([&a, &b]) {
            let mean = values.iter().map(|&value| value as f64).sum::<f64>() / values.len() as f64;
            let squares = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>();
            prop_assert_eq!(&side.quantiles, &vec![nearest_rank(values, 0.5), nearest_rank(values, 0.9)]);
            prop_assert!(close(side.mean, mean) && close(side.deviation, (squares / values.len() as f64).sqrt()));
            prop_assert_eq!((side.count, side.min, side.max), (values.len() as u64, *values.iter().min().unwrap(), *values.iter().max().unwrap()));
        }
        let wins: f64 = a.iter().flat_map(|a| b.iter().map(move |b| match b.cmp(a) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Less => 0.0,
        })).sum();
        let chance = found.pairs[0].differences.last().unwrap();
        prop_assert!(chance.measure == Measure::Chance && close(chance.other, wins / (a.len() * b.len()) as f64));
    }
}

#[test]
fn intervals_are_as_wide_as_theory_says() {
    let mut random = Lcg(7);
    let mut normal = |count: usize| -> Vec<u64> { (0..count).map(|_| (1e6 + 1e5 * random.normal()) as u64).collect() };
    // The standard errors of a mean, and of a median of normal values.
    let error = 1e5 * (1.0 / 2000.0 + 1.0 / 1000.0f64).sqrt();
    for (measure, error) in [(Measure::Mean, error), (Measure::Quantile(0.5), 1.2533 * error)] {
        let width = |_| {
            let found = compared(normal(2000), normal(1000), 3);
            let row = *found.pairs[0].differences.iter().find(|row| row.measure == measure).unwrap();
            let (narrow, wide) = (row.interval?, row.joint?);
            assert!(wide.0 <= narrow.0 && wide.1 >= narrow.1);
            Some((narrow.1 - narrow.0) / (2.0 * 1.96 * error))
        };
        let widths: Vec<f64> = (0..12).filter_map(width).collect();
        let mean = widths.iter().sum::<f64>() / widths.len() as f64;
        assert!(widths.len() >= 10 && (0.93..1.25).contains(&mean), "{measure:?}: {widths:?}");
    }
}

/// The same events as a series of intervals of a second.
fn series(values: &[u64]) -> HistogramSeries {
    let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Count, Vec::new(), Interval::Fixed(1_000_000_000));
    let mut batch = Batch::new(builder.fields());
    for (at, &value) in values.iter().enumerate() {
        batch.push_i64(Field::Time, at as i64 * 10_000_000);
        batch.push_u64(Field::Latency, value);
        batch.end_row();
    }
    builder.add(&batch, None);
    builder.finish()
}

#[test]
fn histograms_give_the_same_within_their_buckets() {
    let (a, b) = (target(1, 20_000, 1.0, 0.0), target(2, 20_000, 1.1, 0.0));
    let options = CompareOptions { rounds: 500, ..CompareOptions::default() };
    let events = once([Sample::of_events(a.clone()), Sample::of_events(b.clone())], &options).unwrap();
    let buckets = [Sample::of_series(&series(&a)), Sample::of_series(&series(&b))];
    let mixed = [Sample::of_events(a.clone()), Sample::of_series(&series(&b))];
    for samples in [buckets, mixed] {
        let found = once(samples, &options).unwrap();
        assert!(!found.exact && events.exact);
        for (found, truth) in found.pairs[0].differences.iter().zip(&events.pairs[0].differences) {
            let bucket = truth.base.max(truth.other) / 64.0;
            assert!((found.other - truth.other).abs() <= bucket, "{found:?} {truth:?}");
            // Buckets make some less sure, and the waves of intervals are others than those of requests; nothing is the other way
            // around.
            let either = |one: Finding, other: Finding| found.finding == one && truth.finding == other;
            assert!(
                !either(Finding::Slower, Finding::Faster) && !either(Finding::Faster, Finding::Slower),
                "{found:?} {truth:?}"
            );
        }
    }
    // One in a hundred is less than what a bucket can hide.
    let near: Vec<u64> = a.iter().map(|value| value + value / 100).collect();
    let found = once([Sample::of_series(&series(&a)), Sample::of_series(&series(&near))], &options).unwrap();
    let timed = found.pairs[0].differences.iter().filter(|row| row.measure != Measure::Chance);
    assert!(timed.into_iter().all(|row| row.finding != Finding::Slower));
}

#[test]
fn few_intervals_give_no_verdict_and_many_events_are_counted() {
    let few =
        [Sample::of_series(&series(&target(1, 900, 1.0, 0.0))), Sample::of_series(&series(&target(2, 900, 1.5, 0.0)))];
    // Nine intervals do not give how much one resembles the next.
    let found = once(few, &CompareOptions::default()).unwrap();
    assert!(found.pairs[0].differences.iter().all(|row| matches!(row.finding, Finding::Dependent | Finding::TooFew)));
    let many = Sample::EVENTS + 1;
    let many = [Sample::of_events(target(1, many, 1.0, 0.0)), Sample::of_events(target(2, many, 1.0, 0.0))];
    let found = once(many, &CompareOptions { rounds: 100, ..CompareOptions::default() }).unwrap();
    assert!(!found.exact && found.pairs[0].differences[0].interval.is_some());
}

#[test]
fn the_same_seed_gives_the_same() {
    let (a, b) = (target(1, 500, 1.0, 0.0), target(2, 500, 1.0, 0.0));
    assert_eq!(compared(a.clone(), b.clone(), 5), compared(a.clone(), b.clone(), 5));
    assert_ne!(compared(a.clone(), b.clone(), 5).pairs, compared(a, b, 6).pairs);
}

#[test]
fn verdicts_are_sentences() {
    let names: Vec<String> = ["gp2", "gp3"].map(String::from).into();
    use Finding::{Faster, NoDifference, Slower, TooFew, Undecided, Unsure};
    let row = |measure, base: f64, other: f64, finding| Difference {
        measure,
        base,
        other,
        interval: (finding != TooFew).then_some((other - base - 15e3, other - base + 15e3)),
        joint: None,
        finding,
    };
    let verdict = |findings: [Finding; 4], others: [f64; 4]| {
        let measures = [Measure::Quantile(0.5), Measure::Quantile(0.99), Measure::Mean, Measure::Chance];
        let bases = [400e3, 900e3, 450e3, 0.5];
        let rows = (0..4).map(|at| row(measures[at], bases[at], others[at], findings[at])).collect();
        let pair = Pair {
            other: 1,
            differences: rows,
            requests: 1000,
            hanging_ns: Vec::new(),
            still: None,
            maybe_still: None,
            is_cut: false,
            is_truncated: false,
            lost: 0.0,
        };
        let (sides, pairs) = (Vec::new(), Vec::new());
        Comparison { options: CompareOptions::default(), sides, pairs, exact: true, steps_ns: Vec::new() }
            .verdict(&pair, &names)
    };
    for (findings, others, sentence) in [
        (
            [Slower, NoDifference, Slower, Slower],
            [560e3, 910e3, 600e3, 0.8],
            "gp3 is slower than gp2 at the median by 160us [145us, 175us] (+40 %), on the average by 150us [135us, 165us] \
             (+33 %); no difference at p99.",
        ),
        (
            [Faster, Slower, Unsure, NoDifference],
            [360e3, 990e3, 451e3, 0.5],
            "gp3 is slower than gp2 at p99 by 90us [75us, 105us] (+10 %), but faster at the median by 40us [25us, 55us] \
             (-10 %); undecided on the average.",
        ),
        (
            [NoDifference, TooFew, NoDifference, NoDifference],
            [401e3, 990e3, 451e3, 0.5],
            "gp3 and gp2 do not differ by more than 5 % (at the median the difference is between -14us and +16us); \
             too few requests for a verdict on p99.",
        ),
        (
            [Undecided, Unsure, Undecided, Undecided],
            [401e3, 910e3, 451e3, 0.5],
            "Undecided whether gp3 is slower or faster than gp2 (at the median the difference is between -14us and +16us).",
        ),
        (
            [NoDifference, Undecided, NoDifference, Undecided],
            [401e3, 910e3, 451e3, 0.5],
            "gp3 against gp2: no difference at the median, on the average; undecided at p99 (at p99 the difference is \
             between -5us and +25us).",
        ),
        (
            [Slower, TooFew, Undecided, Undecided],
            [74.416e6, 910e3, 451e3, 0.5],
            "gp3 is slower than gp2 at the median by 74ms [74ms, 74ms] (186x); undecided on the average; too few \
             requests for a verdict on p99.",
        ),
        (
            [NoDifference, NoDifference, NoDifference, Slower],
            [401e3, 990e3, 451e3, 0.6],
            "gp3 is slower than gp2 more often than not, 60 of 100 times; no difference at the median, at p99, on the average.",
        ),
        ([TooFew; 4], [401e3, 990e3, 451e3, 0.5], "gp3 and gp2 have too few requests for a verdict."),
    ] {
        assert_eq!(verdict(findings, others), sentence);
    }
}

#[test]
fn no_difference_is_a_claim_of_its_own() {
    // Twenty thousand requests pin the median within a percent or two, two hundred do not.
    let finding = |count: usize, quantile: f64| {
        let found = compared(target(1, count, 1.0, 0.0), target(2, count, 1.0, 0.0), 1);
        let rows = &found.pairs[0].differences;
        *rows.iter().find(|row| row.measure == Measure::Quantile(quantile)).unwrap()
    };
    let (many, few) = (finding(20_000, 0.5), finding(200, 0.5));
    assert_eq!((many.finding, few.finding), (Finding::NoDifference, Finding::Undecided), "{many:?} {few:?}");
    let (low, high) = many.joint.unwrap();
    assert!(-low.min(-high) <= 0.05 * many.base && high <= 0.05 * many.base, "{many:?}");
    let (low, high) = few.joint.unwrap();
    assert!((-low).max(high) > 0.05 * few.base, "{few:?}");
    // Values that never vary say nothing of how much they could.
    let constant = || Sample::of_events(vec![1000; 1000]);
    let found = compare(&[vec![constant()], vec![constant()]], &CompareOptions::default()).unwrap();
    assert!(found.pairs[0].differences[0].finding == Finding::Undecided, "{found:?}");
}

#[test]
fn large_changes_are_factors() {
    let texts = [(400.0, 560.0), (400.0, 399.0), (400.0, 3999.0), (400.0, 74_416.0), (1.0, 18_504.0), (0.0, 1.0)]
        .map(|(base, other)| relative(base, other, 1));
    let expected = [Some("+40.0%"), Some("-0.2%"), Some("+899.8%"), Some("186x"), Some("18,504x"), None];
    assert_eq!(texts.each_ref().map(Option::as_deref), expected);
}

#[test]
fn limits_hold_for_sure_only() {
    let found = compared(target(1, 1000, 1.0, 0.0), target(2, 1000, 1.2, 0.0), 1);
    use Judgement::{Exceeded, Kept, Unknown};
    let judge = |text: &str| Limit::parse(text, Quantity::Latency).unwrap().judge(&found.pairs[0]);
    // Twenty percent slower, but not surely more than nineteen and a half; and of the 99.9th nobody knows.
    for (text, judgement) in [
        ("p50 > 10%", Exceeded),
        ("p50 > 0%", Exceeded),
        ("p50 > 1ms", Kept),
        ("p50 > 60%", Kept),
        ("p99.9 > 0%", Unknown),
        ("p99.9 > 0% or p50 > 10%", Exceeded),
        ("p99.9 > 0% or p50 > 60%", Unknown),
        ("p99.9 > 0% and p50 > 60%", Kept),
        ("p99.9 > 0% and p50 > 10%", Unknown),
        ("p50 > 60% and (p50 > 60% or p50 > 10%)", Kept),
        ("(p50 > 60% and p50 > 60%) or p50 > 10%", Exceeded),
        ("p50 > 10% or p50 > 60% and p50 > 60%", Exceeded),
    ] {
        assert_eq!(judge(text), judgement, "{text}: {:?}", found.pairs[0]);
    }
    let limit = Limit::parse("p50 > 30us or (p90 > 1us and p99.9 > 0%)", Quantity::Latency).unwrap();
    assert_eq!(limit.judged(&found.pairs[0], Exceeded), ["p50 > 30us", "p90 > 1us"]);
    assert_eq!(limit.judged(&found.pairs[0], Unknown), ["p99.9 > 0%"]);
    for (text, part) in [
        ("p99", "is not a limit"),
        ("p99 > 5", "5 needs a unit"),
        ("max > 5ms", "neither mean nor a percentile"),
        ("p100 > 5ms", "neither mean nor a percentile"),
        ("mean > x%", "not a percentage"),
        ("(mean > 5%", "not closed"),
        ("mean > 5%)", "unexpected"),
        ("", "is not a limit"),
    ] {
        let message = Limit::parse(text, Quantity::Latency).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let sample = || Sample::of_events(vec![1, 2, 3]);
    let with = |options: CompareOptions| once([sample(), sample()], &options);
    assert_eq!(compare(&[], &CompareOptions::default()), Err(CompareError::NoSide));
    let one = once([sample()], &CompareOptions::default()).unwrap();
    assert_eq!((one.pairs.len(), one.sides[0].mean, one.sides[0].max), (0, 2.0, 3), "its numbers");
    let empty = once([sample(), Sample::of_events(Vec::new())], &CompareOptions::default());
    assert_eq!(empty, Err(CompareError::Empty(1)));
    assert_eq!(with(CompareOptions { rounds: 5, ..CompareOptions::default() }), Err(CompareError::Options));
    assert_eq!(with(CompareOptions { quantiles: vec![1.0], ..CompareOptions::default() }), Err(CompareError::Options));
    assert_eq!(with(CompareOptions { certainty: f64::NAN, ..CompareOptions::default() }), Err(CompareError::Options));
    // Three requests give nothing, and say so.
    let few = with(CompareOptions::default()).unwrap();
    assert!(few.pairs[0].differences.iter().all(|row| row.finding == Finding::TooFew));
    let verdict = few.verdict(&few.pairs[0], &["a".into(), "b".into()]);
    let way_out = "measure longer, or compare several runs of each side (--group).";
    assert_eq!(verdict, format!("b and a have too few requests for a verdict (3, and it takes 10); {way_out}"));
}

/// A side of so many turns: each has a level of its own, by this standard deviation of the logarithm.
fn turns(seed: u64, turns: usize, factor: f64, drift: f64) -> Vec<Sample> {
    let mut random = Lcg(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9876_5432);
    for _ in 0..20 {
        random.unit();
    }
    let level = |random: &mut Lcg| factor * (drift * random.normal()).exp();
    (0..turns).map(|turn| Sample::of_events(target(seed * 100 + turn as u64, 300, level(&mut random), 0.0))).collect()
}

#[test]
fn what_differs_from_turn_to_turn_is_no_difference_between_sides() {
    let options = CompareOptions { quantiles: vec![0.5, 0.9], ..CompareOptions::default() };
    for count in [2, 4] {
        let wrong = runs(150, |seed| {
            compare(&[turns(2 * seed, count, 1.0, 0.3), turns(2 * seed + 1, count, 1.0, 0.3)], &options).unwrap()
        });
        assert!(wrong <= 8, "{wrong} of 150 equal sides were distinguished by {count} turns each");
    }
    // A turn of each was all there was before: nine of ten were distinguished.
    let found =
        runs(50, |seed| compare(&[turns(2 * seed, 4, 1.0, 0.1), turns(2 * seed + 1, 4, 2.0, 0.1)], &options).unwrap());
    assert!(found >= 48, "{found} of 50: twice as slow, in four turns that differ by a tenth");
}

#[test]
fn turns_are_reported_with_what_they_differ_by() {
    let names: Vec<String> = ["da1", "da2"].map(String::from).into();
    let options = CompareOptions { quantiles: vec![0.5], ..CompareOptions::default() };
    let constant = |ns: u64| Sample::of_events(vec![ns; 100]);
    let sides = [vec![constant(15_000), constant(1_380_000)], vec![constant(20_000), constant(900_000)]];
    let found = compare(&sides, &options).unwrap();
    // By hand: the logarithms' standard deviation is 3.01 (two degrees of freedom), the standard error of the difference too.
    let row = found.pairs[0].differences[0];
    let centre = |a: f64, b: f64| (a * b).sqrt();
    assert!(close(row.base, centre(15e3, 1380e3)) && close(row.other, centre(20e3, 900e3)), "{row:?}");
    let squares = ((1380.0f64 / 15.0).ln().powi(2) + (900.0f64 / 20.0).ln().powi(2)) / 2.0;
    let reach = 4.302_652_73 * (squares / 2.0).sqrt();
    let low = row.base * ((row.other / row.base).ln() - reach).exp_m1();
    assert!((row.interval.unwrap().0 / low - 1.0).abs() < 1e-3, "{row:?} {low}");
    assert_eq!(row.finding, Finding::Undecided);
    // Every figure of a side is the mean of its turns, wherever it is shown.
    assert_eq!((found.sides[0].quantiles[0], found.sides[1].quantiles[0]), (row.base, row.other));
    let verdict = found.verdict(&found.pairs[0], &names);
    assert!(verdict.ends_with("; turns of da1 differ by more than the sides: p50 15us, 1.38ms."), "{verdict}");
    assert_eq!(found.sides[0].turns.len(), 2);
    // One turn of one of them leaves a single degree of freedom.
    let found = compare(&[sides[0].clone(), vec![constant(20_000)]], &options).unwrap();
    assert_eq!(found.pairs[0].differences[0].finding, Finding::TooFew);
    let verdict = found.verdict(&found.pairs[0], &names);
    let expected = "da2 and da1 have too few turns for a verdict (3 in all, and it takes 4); measure more of them;";
    assert!(verdict.starts_with(expected), "{verdict}");
}

#[test]
fn one_request_a_turn_is_enough_for_a_verdict_on_the_average() {
    let options = CompareOptions { quantiles: vec![0.5], ..CompareOptions::default() };
    let side = |times: &[u64]| times.iter().map(|&ns| Sample::of_events(vec![ns])).collect::<Vec<_>>();
    let sides = [side(&[10_000, 11_000, 10_500]), side(&[20_000, 21_000, 19_000])];
    let found = compare(&sides, &options).unwrap();
    let [median, mean, _] = found.pairs[0].differences[..] else { panic!("three rows") };
    assert_eq!((median.finding, mean.finding), (Finding::TooFew, Finding::Slower), "{mean:?}");
    // By hand, of the logarithms: Student's t with four degrees of freedom.
    let logs = |times: [f64; 3]| times.map(f64::ln);
    let [a, b] = [logs([10e3, 11e3, 10.5e3]), logs([20e3, 21e3, 19e3])];
    let centre = |logs: [f64; 3]| logs.iter().sum::<f64>() / 3.0;
    let squares = |logs: [f64; 3]| logs.iter().map(|log| (log - centre(logs)).powi(2)).sum::<f64>();
    let error = ((squares(a) + squares(b)) / 4.0 * 2.0 / 3.0).sqrt();
    let high = centre(a).exp() * (centre(b) - centre(a) + 2.776_445 * error).exp_m1();
    let widest = mean.interval.unwrap().1;
    assert!((high..high + 1_100.0).contains(&widest), "{widest} of {high}, wider by a step of the values at most");
}

/// Clocks that are coarser than what is compared.
mod coarse {
    use super::*;

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
            let compared =
                |ms: u64| compare(&[vec![constant(12); turns], vec![constant(ms); turns]], &options).unwrap();
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
}
