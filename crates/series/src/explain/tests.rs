//! Causes and spots that were planted, and none.

use super::*;
use latscope_event::Batch;

struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() * bound as f64) as usize
    }

    fn is(&mut self, chance: f64) -> bool {
        self.next() < chance
    }
}

#[derive(Clone, Debug)]
struct Request {
    device: usize,
    kind: usize,
    comm: usize,
    path: usize,
    tid: i64,
    size: u64,
    queue: u64,
}

/// How many values texts have.
const TEXTS: [(Field, usize); 4] = [(Field::Device, 4), (Field::Kind, 2), (Field::Comm, 6), (Field::Path, 30)];

impl Request {
    fn random(random: &mut Random) -> Request {
        Request {
            device: random.below(4),
            kind: random.below(2),
            comm: random.below(6),
            path: random.below(30),
            tid: random.below(50) as i64,
            size: 4096 << random.below(7),
            queue: 1000 + random.below(1 << 40) as u64,
        }
    }

    fn text(&self, field: Field) -> usize {
        match field {
            Field::Device => self.device,
            Field::Kind => self.kind,
            Field::Comm => self.comm,
            _ => self.path,
        }
    }
}

/// A table of requests, of which those are selected that `is_slow`.
fn table(requests: &[Request], weight: Option<i64>, mut is_slow: impl FnMut(&Request) -> bool) -> (Table, Vec<Side>) {
    let fields = [Field::Tid, Field::Size, Field::Queue].into_iter().chain(TEXTS.iter().map(|(field, _)| *field));
    let fields = FieldSet::ALWAYS.union(fields.collect());
    let fields = if weight.is_some() { fields.with(&[Field::SampleWeight]) } else { fields };
    let (mut batch, mut table, mut sides) = (Batch::new(fields), Table::new(), Vec::new());
    table.begin_trace(Some(0));
    for requests in requests.chunks(1000) {
        batch.clear();
        for (at, request) in requests.iter().enumerate() {
            let is_slow = is_slow(request);
            sides.push(if is_slow { Side::Selection } else { Side::Baseline });
            batch.push_i64(Field::Time, at as i64);
            batch.push_u64(Field::Latency, 10);
            for (field, _) in TEXTS {
                batch.push_text(field, Some(format!("/{}", request.text(field)).as_bytes()));
            }
            batch.push_i64(Field::Tid, request.tid);
            batch.push_u64(Field::Size, request.size);
            batch.push_u64(Field::Queue, request.queue);
            batch.push_i64(Field::SampleWeight, weight.unwrap_or(1));
            batch.end_row();
        }
        table.add(&batch, None);
    }
    (table, sides)
}

fn options(seed: u64) -> ExplainOptions {
    let without = FieldSet::EMPTY.with(&[Field::Latency]);
    ExplainOptions { seed, without, without_time: true }
}

/// What is found for requests that are slow in six of ten cases if `is_cause` holds, and else by chance.
fn found(random: &mut Random, is_cause: impl Fn(&Request) -> bool) -> Vec<Finding> {
    let requests: Vec<Request> = (0..4000).map(|_| Request::random(random)).collect();
    let seed = random.next().to_bits();
    let (mut table, sides) = table(&requests, None, |request| random.is(if is_cause(request) { 0.6 } else { 0.01 }));
    table.explain(&sides, &options(seed)).findings
}

fn is(field: Field, value: usize) -> Condition {
    Condition::Is(Attribute::Field(field), format!("/{value}"))
}

/// How often the first finding is right, of a hundred.
fn right(seed: u64, mut planted: impl FnMut(&mut Random) -> bool) -> usize {
    let mut random = Random(seed);
    (0..100).filter(|_| planted(&mut random)).count()
}

#[test]
fn a_planted_value_is_found() {
    let right = right(1, |random| {
        let (field, values) = TEXTS[random.below(TEXTS.len())];
        let value = random.below(values);
        let found = found(random, |request| request.text(field) == value);
        found.first().is_some_and(|first| first.conditions == [is(field, value)])
    });
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn two_planted_values_are_found() {
    let right = right(2, |random| {
        let one = random.below(3);
        let other = one + 1 + random.below(TEXTS.len() - 1 - one);
        let ([one, other], [a, b]) =
            ([TEXTS[one], TEXTS[other]], [random.below(TEXTS[one].1), random.below(TEXTS[other].1)]);
        let found = found(random, |request| request.text(one.0) == a && request.text(other.0) == b);
        let (one, other) = (is(one.0, a), is(other.0, b));
        found.first().is_some_and(|first| {
            first.conditions.len() == 2 && first.conditions.contains(&one) && first.conditions.contains(&other)
        })
    });
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn a_planted_threshold_is_found() {
    let right = right(3, |random| {
        let is_size = random.is(0.5);
        let size = 4096 << (2 + random.below(4));
        let queue = ((0.2 + 0.6 * random.next()) * (1u64 << 40) as f64) as u64;
        let above = random.is(0.5);
        let found = found(random, |request| {
            let is_above = if is_size { request.size >= size } else { request.queue >= queue };
            is_above == above
        });
        let [Condition::Range(attribute, from, to)] = found.first().map_or(&[][..], |first| &first.conditions) else {
            return false;
        };
        let (expected, threshold) = if is_size { (Field::Size, size) } else { (Field::Queue, queue) };
        let edge = match (above, from, to) {
            (true, Some(edge), None) | (false, None, Some(edge)) => *edge as f64,
            _ => return false,
        };
        *attribute == Attribute::Field(expected)
            && (edge / threshold as f64 - 1.0).abs() < if is_size { 1e-9 } else { 0.05 }
    });
    assert!(right >= 95, "{right} of 100");
}

#[test]
fn no_cause_is_no_finding() {
    for chance in [0.01, 0.05, 0.3] {
        let right = right(4, |random| {
            let requests: Vec<Request> = (0..4000).map(|_| Request::random(random)).collect();
            let seed = random.next().to_bits();
            let (mut table, sides) = table(&requests, None, |_| random.is(chance));
            table.explain(&sides, &options(seed)).findings.is_empty()
        });
        assert!(right >= 95, "{right} of 100 at {chance}");
    }
}

#[test]
fn counts_are_exact_and_of_events() {
    let mut random = Random(5);
    let requests: Vec<Request> = (0..3000).map(|_| Request::random(&mut random)).collect();
    let is_slow = |request: &Request| request.device == 2 && request.kind == 1 && request.tid % 3 > 0;
    for weight in [None, Some(7)] {
        let each = weight.unwrap_or(1) as u64;
        let (mut table, sides) = table(&requests, weight, is_slow);
        let explanation = table.explain(&sides, &options(1));
        let first = &explanation.findings[0];
        assert_eq!(first.conditions, [is(Field::Device, 2), is(Field::Kind, 1)]);
        let count = |is: &dyn Fn(&Request) -> bool| requests.iter().filter(|request| is(request)).count() as u64 * each;
        let is_found = |request: &Request| request.device == 2 && request.kind == 1;
        let (all, slow) = (count(&|_| true), count(&is_slow));
        assert_eq!(first.counts.with, [slow, count(&|request| is_found(request) && !is_slow(request))]);
        assert_eq!(first.counts.all, [slow, all - slow]);
        assert_eq!((first.waiting_ns, explanation.total.waiting_ns), (u128::from(slow) * 10, u128::from(all) * 10));
        let size = explanation.attributes.iter().find(|one| one.attribute == Attribute::Field(Field::Size)).unwrap();
        assert!(!size.differs && size.divergence < 0.01, "{size:?}");
    }
}

#[test]
fn nothing_to_compare_is_no_finding() {
    let mut random = Random(6);
    let requests: Vec<Request> = (0..50).map(|_| Request::random(&mut random)).collect();
    for slow in [true, false] {
        let (mut table, sides) = table(&requests, None, |_| slow);
        assert!(table.explain(&sides, &options(1)).findings.is_empty());
    }
    let (mut one, sides) = table(&requests[..1], None, |_| true);
    assert!(one.explain(&sides, &options(1)).findings.is_empty());
    assert!(Table::new().explain(&[], &options(1)).findings.is_empty());
    let mut first = true;
    let (mut table, sides) = table(&requests, None, |_| std::mem::replace(&mut first, false));
    assert!(table.explain(&sides, &options(1)).findings.is_empty(), "one event has much in common with itself");
}

/// About so many nanoseconds, log-normal.
fn around(random: &mut Random, median: f64) -> u64 {
    let normal = (-2.0 * random.next().ln()).sqrt() * (std::f64::consts::TAU * random.next()).cos();
    (median * (normal * 0.3).exp2()) as u64
}

const MS: u64 = 1_000_000;

/// A trace of twenty seconds with a request each millisecond; `plant` says how long it takes, by its moment and its device.
fn trace(seed: u64, mut plant: impl FnMut(&mut Random, u64, usize) -> f64) -> Table {
    let mut random = Random(seed);
    let (mut batch, mut table) = (Batch::new(FieldSet::ALWAYS.with(&[Field::Device])), Table::new());
    for at_ms in 0..20_000u64 {
        let device = (random.next() * 5.0) as usize;
        let median = plant(&mut random, at_ms, device);
        batch.push_i64(Field::Time, (at_ms * MS) as i64);
        batch.push_u64(Field::Latency, around(&mut random, median));
        batch.push_text(Field::Device, Some(format!("sd{device}").as_bytes()));
        batch.end_row();
    }
    table.begin_trace(Some(0));
    table.add(&batch, None);
    table
}

fn kinds(spots: &[Spot]) -> Vec<SpotKind> {
    spots.iter().map(|spot| spot.kind).collect()
}

const USUAL: f64 = 100e3;

#[test]
fn nothing_unusual_is_no_spot() {
    for seed in 0..10 {
        let found = trace(seed, |_, _, _| USUAL).spots(1);
        assert!(found.is_empty(), "seed {seed}: {:?}", kinds(&found));
    }
    assert!(Table::new().spots(1).is_empty());
}

#[test]
fn a_band_is_found_and_explained() {
    for seed in 0..3 {
        let found =
            trace(seed, |random, _, device| if device == 3 && random.next() < 0.1 { 10e6 } else { USUAL }).spots(1);
        let band = found
            .iter()
            .find(|spot| spot.kind == SpotKind::Band)
            .unwrap_or_else(|| panic!("seed {seed}: {:?}", kinds(&found)));
        assert!(band.latency_ns[0] > MS && band.usual_ns < MS, "{band:?}");
        let device = Condition::Is(Attribute::Field(Field::Device), "sd3".into());
        assert_eq!(band.explanation.findings[0].conditions, [device]);
        let Part { events, .. } = band.explanation.selection;
        assert!((300..500).contains(&events), "{events}");
    }
}

#[test]
fn a_burst_is_found() {
    let found = trace(4, |random, at, _| if (7000..7600).contains(&at) && random.next() < 0.3 { 600e3 } else { USUAL })
        .spots(1);
    let burst = found.iter().find(|spot| spot.kind == SpotKind::Burst).unwrap_or_else(|| panic!("{:?}", kinds(&found)));
    let [Condition::Range(Attribute::Time, Some(from), Some(to)), _] = burst.conditions[..] else {
        panic!("{burst:?}")
    };
    assert!((6800 * MS..=7000 * MS).contains(&from) && (7600 * MS..=7800 * MS).contains(&to), "{from} {to}");
}

#[test]
fn stalls_that_recur_are_found() {
    let found = trace(5, |_, at, _| if at % 1000 < 10 { 20e6 } else { USUAL }).spots(1);
    let periodic = found.iter().find_map(|spot| if let SpotKind::Periodic(ns) = spot.kind { Some(ns) } else { None });
    assert!(periodic.is_some_and(|ns| ns.abs_diff(1000 * MS) <= 50 * MS), "{:?}", kinds(&found));
}

#[test]
fn a_change_and_a_straggler_are_found() {
    let found = trace(6, |_, at, _| if at >= 12_000 { 220e3 } else { USUAL }).spots(1);
    let change =
        found.iter().find(|spot| spot.kind == SpotKind::Change).unwrap_or_else(|| panic!("{:?}", kinds(&found)));
    let [Condition::Range(Attribute::Time, Some(from), None)] = change.conditions[..] else { panic!("{change:?}") };
    assert!(from.abs_diff(12_000 * MS) <= 200 * MS, "{from}");
    let found = trace(7, |_, _, device| if device == 2 { 260e3 } else { USUAL }).spots(1);
    let device = Condition::Is(Attribute::Field(Field::Device), "sd2".into());
    assert!(
        found.iter().any(|spot| spot.kind == SpotKind::Straggler && spot.conditions == [device.clone()]),
        "{:?}",
        kinds(&found)
    );
}
