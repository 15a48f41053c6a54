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
    ExplainOptions { seed, without, only: None, without_time: true, in_layer: true }
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

/// Events of a minute or more, of which those are mostly slow that lie in one part of a period, at other times few.
fn recurring(random: &mut Random, period_ns: u64, (from, to): (f64, f64), others: f64) -> (Table, Vec<Side>) {
    let fields = FieldSet::ALWAYS.with(&[Field::Tid]);
    let (mut batch, mut table, mut sides) = (Batch::new(fields), Table::new(), Vec::new());
    let start_ns = 1_700_000_000_000_000_000 + random.below(1 << 40) as i64;
    table.begin_trace(Some(start_ns));
    let step_ns = period_ns as f64 * 20.0 / 20_000.0;
    for at in 0..20_000 {
        let end_ns = start_ns + (f64::from(at) * step_ns + random.next() * step_ns) as i64;
        let phase = end_ns.rem_euclid(period_ns as i64) as f64 / period_ns as f64;
        let is_slow = random.is(if (from..to).contains(&phase) { 0.5 } else { others });
        sides.push(if is_slow { Side::Selection } else { Side::Baseline });
        batch.push_i64(Field::Time, end_ns - 10);
        batch.push_u64(Field::Latency, 10);
        batch.push_i64(Field::Tid, random.below(4) as i64);
        batch.end_row();
    }
    table.add(&batch, None);
    (table, sides)
}

#[test]
fn a_period_of_the_selection_is_found() {
    let mut random = Random(11);
    for period_ns in [3_000_000_000, 5_000_000_000, 7_300_000_000, 60_000_000_000] {
        let (mut table, sides) = recurring(&mut random, period_ns, (0.2, 0.3), 0.002);
        let options = ExplainOptions { without_time: false, ..options(1) };
        let explanation = table.explain(&sides, &options);
        let first = &explanation.findings[0];
        assert_eq!(first.conditions, [Condition::InPeriod(period_ns, period_ns / 5, period_ns * 3 / 10)]);
        // Its filter counts the same events.
        let filter = in_planted_part(&table, &sides, period_ns);
        assert_eq!(first.counts.with, filter);
    }
}

/// Rows of both sides in the planted part, by the definition of the filter's field.
fn in_planted_part(table: &Table, sides: &[Side], period_ns: u64) -> [u64; 2] {
    let mut counts = [0; 2];
    for (end, side) in table.end_ns.iter().zip(sides) {
        let phase = end.rem_euclid(period_ns as i64) as u64;
        counts[*side as usize] += u64::from((period_ns / 5..period_ns * 3 / 10).contains(&phase));
    }
    counts
}

/// Neither events at random nor a burst recur; another explanation takes the place of a period that was found before.
#[test]
fn what_does_not_recur_has_no_period() {
    let mut random = Random(12);
    let (mut table, _) = recurring(&mut random, 5_000_000_000, (0.0, 0.0), 0.0);
    for at in 0..100 {
        let (from, width) = (random.below(15_000), 1 + random.below(3000));
        let is_slow = |row: usize| if at % 2 == 0 { row >= from && row < from + width } else { row % 7 == at % 7 };
        let mut sides: Vec<Side> =
            (0..table.len()).map(|row| if is_slow(row) { Side::Selection } else { Side::Baseline }).collect();
        (0..100).for_each(|_| sides[random.below(20_000)] = Side::Selection);
        table.explain(&sides, &options(1));
        assert!(table.columns.iter().all(|column| column.attribute != Attribute::InPeriod), "{at}");
    }
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
fn three_planted_values_are_found() {
    let right = right(7, |random| {
        let [a, b, c] = [random.below(4), random.below(2), random.below(6)];
        let requests: Vec<Request> = (0..6000).map(|_| Request::random(random)).collect();
        let seed = random.next().to_bits();
        let is_cause = |request: &Request| request.device == a && request.kind == b && request.comm == c;
        let (mut table, sides) =
            table(&requests, None, |request| random.is(if is_cause(request) { 0.8 } else { 0.002 }));
        let found = table.explain(&sides, &options(seed)).findings;
        let planted = [is(Field::Device, a), is(Field::Kind, b), is(Field::Comm, c)];
        found.first().is_some_and(|first| {
            first.conditions.len() == 3 && planted.iter().all(|condition| first.conditions.contains(condition))
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
        let found = trace(seed, |_, _, _| USUAL).spots(1, None);
        assert!(found.is_empty(), "seed {seed}: {:?}", kinds(&found));
    }
    assert!(Table::new().spots(1, None).is_empty());
}

#[test]
fn a_band_is_found_and_explained() {
    for seed in 0..3 {
        let found = trace(seed, |random, _, device| if device == 3 && random.next() < 0.1 { 10e6 } else { USUAL })
            .spots(1, None);
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
        .spots(1, None);
    let burst = found.iter().find(|spot| spot.kind == SpotKind::Burst).unwrap_or_else(|| panic!("{:?}", kinds(&found)));
    let [Condition::Range(Attribute::Time, Some(from), Some(to)), _] = burst.conditions[..] else {
        panic!("{burst:?}")
    };
    assert!((6800 * MS..=7000 * MS).contains(&from) && (7600 * MS..=7800 * MS).contains(&to), "{from} {to}");
}

#[test]
fn stalls_that_recur_are_found() {
    let found = trace(5, |_, at, _| if at % 1000 < 10 { 20e6 } else { USUAL }).spots(1, None);
    let periodic = found.iter().find_map(|spot| if let SpotKind::Periodic(ns) = spot.kind { Some(ns) } else { None });
    assert!(periodic.is_some_and(|ns| ns.abs_diff(1000 * MS) <= 50 * MS), "{:?}", kinds(&found));
}

/// Three in a thousand events are hit, some much harder than others, among as many slow ones without a pattern.
#[test]
fn rare_stalls_have_their_period() {
    for seed in 0..3 {
        let mut random = Random(seed);
        let (mut batch, mut table) = (Batch::new(FieldSet::ALWAYS), Table::new());
        for at_ms in 0..70_000u64 {
            let stall = if at_ms % 7000 < 21 { 10e6 * (1.0 + (at_ms / 7000) as f64) } else { USUAL };
            let median = if random.next() < 0.003 { 3e6 } else { stall };
            batch.push_i64(Field::Time, (at_ms * MS) as i64);
            batch.push_u64(Field::Latency, around(&mut random, median));
            batch.end_row();
        }
        table.begin_trace(Some(0));
        table.add(&batch, None);
        let found = table.spots(1, None);
        let period = found.iter().find_map(|spot| if let SpotKind::Periodic(ns) = spot.kind { Some(ns) } else { None });
        assert!(
            period.is_some_and(|ns| ns.abs_diff(7000 * MS) <= 200 * MS),
            "seed {seed}: {period:?} {:?}",
            kinds(&found)
        );
    }
}

/// A sample in which every slow event is there and of the fast ones each tenth has the bands of the whole.
#[test]
fn sampled_events_count_as_many_in_spots() {
    let bands = |is_sampled: bool| {
        let mut random = Random(11);
        let fields = FieldSet::ALWAYS.with(&[Field::SampleWeight]);
        let (mut batch, mut table) = (Batch::new(fields), Table::new());
        for at_ms in 0..20_000u64 {
            let is_slow = at_ms % 50 == 0;
            let latency = around(&mut random, if is_slow { 20e6 } else { USUAL });
            if is_sampled && !is_slow && at_ms % 10 != 1 {
                continue;
            }
            batch.push_i64(Field::Time, (at_ms * MS) as i64);
            batch.push_u64(Field::Latency, latency);
            batch.push_i64(Field::SampleWeight, if is_sampled && !is_slow { 10 } else { 1 });
            batch.end_row();
        }
        table.begin_trace(Some(0));
        table.add(&batch, None);
        let found = table.spots(1, None);
        let slow = found.into_iter().find(|spot| matches!(spot.kind, SpotKind::Band | SpotKind::Periodic(_)));
        let slow = slow.expect("a band");
        (slow.explanation.selection.events, slow.usual_ns)
    };
    let ((whole, usual_ns), (sampled, sampled_usual_ns)) = (bands(false), bands(true));
    assert_eq!((whole, sampled), (400, 400));
    assert!(usual_ns.abs_diff(sampled_usual_ns) < usual_ns / 20, "{usual_ns} {sampled_usual_ns}");
}

/// What was beneath calls, against its definition a microsecond at a time.
#[test]
fn requests_beneath_calls_are_as_defined() {
    let mut random = Random(12);
    let (from, to) = (0i64, 600i64);
    let fields = [Field::Device, Field::Dev, Field::Kind, Field::Tid, Field::Result];
    let mut batch = Batch::new(FieldSet::ALWAYS.with(&fields));
    let mut rows: Vec<(bool, i64, i64, usize, usize, i64)> = Vec::new();
    for at in 0..120 {
        let is_request = at % 2 == 0;
        let start = from + random.below((to - from) as usize) as i64;
        let end = start + 1 + random.below(40) as i64;
        let (device, kind, tid) = (random.below(2), random.below(2), random.below(3) as i64);
        rows.push((is_request, start, end, device, kind, tid));
        batch.push_i64(Field::Time, start);
        batch.push_u64(Field::Latency, (end - start) as u64);
        batch.push_text(Field::Device, is_request.then(|| format!("sd{device}")).as_deref().map(str::as_bytes));
        batch.push_text(Field::Dev, is_request.then_some(b"8:0"));
        batch.push_text(Field::Kind, Some([&b"write"[..], b"flush"][kind]));
        batch.push_i64(Field::Tid, tid);
        batch.push_i64(Field::Result, if is_request { latscope_event::MISSING_I64 } else { 0 });
        batch.end_row();
    }
    let mut table = Table::new();
    table.begin_trace(Some(0));
    table.add(&batch, None);
    // Of calls and requests: the slow calls are selected, and requests are neither.
    let is_selected =
        |&(is_request, start, end, ..): &(bool, i64, i64, usize, usize, i64)| !is_request && end - start > 20;
    let sides: Vec<Side> =
        rows.iter().map(|row| if is_selected(row) { Side::Selection } else { Side::Baseline }).collect();
    let explanation = table.explain(&sides, &options(1));
    assert_eq!(explanation.layer, Some(Layer::SystemCall));
    assert_eq!(explanation.baseline.events + explanation.selection.events, 60);
    let beneath = explanation.beneath.unwrap();
    assert!(beneath.coverages.len() > 4, "{beneath:?}");
    for one in &beneath.coverages {
        let is_meant = |call: &(bool, i64, i64, usize, usize, i64), request: &(bool, i64, i64, usize, usize, i64)| {
            request.0
                && match &one.requests {
                    Requests::Any => true,
                    Requests::OwnThread => request.5 == call.5,
                    Requests::With(conditions) => conditions.iter().all(|condition| match condition {
                        Condition::Is(Attribute::Field(Field::Device), name) => *name == format!("sd{}", request.3),
                        Condition::Is(_, name) => *name == ["write", "flush"][request.4],
                        _ => false,
                    }),
                }
        };
        for side in 0..2 {
            let calls = rows.iter().filter(|row| !row.0 && is_selected(row) == (side == 0));
            let covered = |call: &(bool, i64, i64, usize, usize, i64)| {
                let is_covered =
                    |moment: &i64| rows.iter().any(|row| is_meant(call, row) && (row.1..row.2).contains(moment));
                (call.1..call.2).filter(is_covered).count() as u128
            };
            assert_eq!(one.covered_ns[side], calls.map(covered).sum::<u128>(), "{one:?}");
        }
        let meets = |request: &&(bool, i64, i64, usize, usize, i64)| {
            let is_met = |call: &(bool, i64, i64, usize, usize, i64)| {
                is_selected(call) && is_meant(call, request) && request.1 < call.2 && call.1 < request.2
            };
            rows.iter().any(is_met)
        };
        assert_eq!(one.count, rows.iter().filter(meets).count() as u64, "{one:?}");
    }
}

#[test]
fn a_change_and_a_straggler_are_found() {
    let found = trace(6, |_, at, _| if at >= 12_000 { 220e3 } else { USUAL }).spots(1, None);
    let change =
        found.iter().find(|spot| spot.kind == SpotKind::Change).unwrap_or_else(|| panic!("{:?}", kinds(&found)));
    let [Condition::Range(Attribute::Time, Some(from), None)] = change.conditions[..] else { panic!("{change:?}") };
    assert!(from.abs_diff(12_000 * MS) <= 200 * MS, "{from}");
    let found = trace(7, |_, _, device| if device == 2 { 260e3 } else { USUAL }).spots(1, None);
    let device = Condition::Is(Attribute::Field(Field::Device), "sd2".into());
    assert!(
        found.iter().any(|spot| spot.kind == SpotKind::Straggler && spot.conditions == [device.clone()]),
        "{:?}",
        kinds(&found)
    );
}

/// So many slow ones at 60 to 100 ms of one device among so many of all.
fn slow_ones(seed: u64, all: usize, slow: usize) -> Vec<Spot> {
    let mut random = Random(seed);
    let (mut batch, mut table) = (Batch::new(FieldSet::ALWAYS.with(&[Field::Device])), Table::new());
    let mut are_slow: Vec<bool> = (0..all).map(|at| at < slow).collect();
    for at in (1..all).rev() {
        are_slow.swap(at, random.below(at + 1));
    }
    for (at, is_slow) in are_slow.into_iter().enumerate() {
        let latency = if is_slow { (60e6 + 40e6 * random.next()) as u64 } else { around(&mut random, USUAL) };
        batch.push_i64(Field::Time, (at as u64 * MS) as i64);
        batch.push_u64(Field::Latency, latency);
        let device = if is_slow { 9 } else { random.below(5) };
        batch.push_text(Field::Device, Some(format!("sd{device}").as_bytes()));
        batch.end_row();
    }
    table.begin_trace(Some(0));
    table.add(&batch, None);
    table.spots(1, None)
}

#[test]
fn a_band_is_found_however_few_events_it_has() {
    for (all, slow) in [
        (300, 12),
        (300, 19),
        (1000, 10),
        (1000, 24),
        (1000, 47),
        (5000, 47),
        (10_000, 97),
        (20_000, 42),
        (20_000, 190),
    ] {
        let found = slow_ones(all as u64, all, slow);
        let band = found.iter().find(|spot| spot.explanation.selection.events == slow as u64);
        let band = band.unwrap_or_else(|| panic!("{slow} of {all}: {:?}", kinds(&found)));
        assert!(band.latency_ns[0] >= 60 * MS && band.usual_ns < MS, "{band:?}");
        assert_eq!(band.explanation.shared, [Condition::Is(Attribute::Field(Field::Device), "sd9".into())]);
    }
}

#[test]
fn a_few_far_slower_events_are_outliers() {
    for slow in [1, 3, 9] {
        let found = slow_ones(slow as u64, 3000, slow);
        let outlier = found.iter().find(|spot| spot.kind == SpotKind::Outlier);
        let outlier = outlier.unwrap_or_else(|| panic!("{slow}: {:?}", kinds(&found)));
        assert_eq!(outlier.explanation.selection.events, slow as u64);
    }
}

#[test]
fn bands_do_not_overlap() {
    let found = trace(9, |random, at, _| match random.below(20) {
        0 => 100e6,
        1 if at % 2 == 0 => 3e6,
        2..6 => 12e6,
        _ => USUAL,
    })
    .spots(1, None);
    let bands: Vec<&Spot> = found.iter().filter(|spot| spot.kind == SpotKind::Band).collect();
    assert!(bands.len() >= 2, "{:?}", kinds(&found));
    let events: u64 = bands.iter().map(|band| band.explanation.selection.events).sum();
    let slow = bands.iter().map(|band| band.latency_ns[0]).min();
    let all = found[0].explanation.total.events;
    assert!(slow > Some(MS) && events < all / 2, "{events} of {all}");
}

#[test]
fn what_waits_for_long_is_told_apart_from_what_is_on_its_way() {
    let device = |name: &str| Condition::Is(Attribute::Field(Field::Device), name.into());
    let kind = |name: &str| Condition::Is(Attribute::Field(Field::Kind), name.into());
    let wait = |age_ns, name: &str, of: &str| Waiting { age_ns, names: vec![device(name), kind(of)] };
    let hung = [wait(3000 * MS, "sd1", "read"), wait(2000 * MS, "sd1", "write"), wait(90_000, "sd2", "read")];
    let waits = trace(1, |_, _, _| USUAL).long_waits(&hung).unwrap();
    assert_eq!((waits.requests, waits.waited_ns, waits.ages_ns), (2, 5_000_000_000, [2000 * MS, 3000 * MS]));
    assert_eq!(waits.shared, [device("sd1")]);
    // Of a trace that was cut while requests were on their way.
    let young = [wait(150_000, "sd1", "read"), wait(90_000, "sd2", "read")];
    assert_eq!(trace(1, |_, _, _| USUAL).long_waits(&young), None);
    assert_eq!(trace(1, |_, _, _| USUAL).waits([].iter()), None);
    // Nothing has completed at all.
    assert_eq!(Table::new().long_waits(&hung).map(|waits| waits.requests), Some(3));
}

#[test]
fn an_offset_is_a_cause_on_several_devices_too() {
    for (devices, seed) in [(1, 1), (4, 2), (40, 3)] {
        let mut random = Random(seed);
        let fields = FieldSet::ALWAYS.with(&[Field::Device, Field::Offset, Field::Comm]);
        let (mut batch, mut table, mut sides) = (Batch::new(fields), Table::new(), Vec::new());
        for at in 0..8000 {
            let offset = (random.next() * 512.0) as u64;
            let is_slow = offset >= 448 && random.is(0.4);
            sides.push(if is_slow { Side::Selection } else { Side::Baseline });
            batch.push_i64(Field::Time, at);
            batch.push_u64(Field::Latency, 10);
            batch.push_u64(Field::Offset, offset << 30);
            batch.push_text(Field::Device, Some(format!("sd{}", random.below(devices)).as_bytes()));
            batch.push_text(Field::Comm, Some(format!("c{}", random.below(7)).as_bytes()));
            batch.end_row();
        }
        table.begin_trace(Some(0));
        table.add(&batch, None);
        let findings = table.explain(&sides, &options(seed)).findings;
        let offset = Attribute::Field(Field::Offset);
        assert_eq!(findings[0].conditions, [Condition::Range(offset, Some(448 << 30), None)], "{devices} devices");
    }
}

#[test]
fn a_few_events_are_not_explained_by_chance() {
    for few in [1, 2, 5, 20] {
        let wrong = (0..60).filter(|&seed| {
            let mut random = Random(1000 + seed);
            let fields = FieldSet::ALWAYS.with(&[Field::Path, Field::Comm, Field::Size]);
            let (mut batch, mut table) = (Batch::new(fields), Table::new());
            for at in 0..3000 {
                batch.push_i64(Field::Time, at * 1000);
                batch.push_u64(Field::Latency, 10);
                batch.push_text(Field::Path, Some(format!("/d/f{}", random.below(400)).as_bytes()));
                batch.push_text(Field::Comm, Some(format!("c{}", random.below(7)).as_bytes()));
                batch.push_u64(Field::Size, random.below(64) as u64 * 4096);
                batch.end_row();
            }
            table.begin_trace(Some(0));
            table.add(&batch, None);
            let mut sides = vec![Side::Baseline; 3000];
            (0..few).for_each(|_| sides[random.below(3000)] = Side::Selection);
            !table.explain(&sides, &ExplainOptions { without_time: false, ..options(seed) }).findings.is_empty()
        });
        let wrong = wrong.count();
        assert!(wrong <= 3, "{few} events: {wrong} of 60");
    }
}
