//! What others push, through a hub.

use super::super::protobuf::Message;
use super::*;
use crate::{Credentials, Limits};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;

fn hub() -> Hub {
    let limits = Limits { keep_ns: 3_600_000_000_000, memory_bytes: 64 << 20, grace_ns: 2_000_000_000 };
    Hub::open(limits, None, &Credentials::default()).unwrap().0
}

/// What the hub got since the last call: events and their sum, by device.
fn received(hub: &Hub) -> BTreeMap<String, (u64, u128)> {
    let mut found = BTreeMap::<String, (u64, u128)>::new();
    for (labels, parts) in hub.news().into_iter().flat_map(|news| news.rows).flat_map(|row| row.groups) {
        let Some(done) = parts.done else { continue };
        let sum = found.entry(labels[0].clone()).or_default();
        *sum = (sum.0 + done.totals().count, sum.1 + done.totals().sum);
    }
    found
}

fn point(device: &str, start_ns: i64, time_ns: i64, buckets: &[(i32, u64)]) -> Point {
    let buckets: BTreeMap<i32, u64> = buckets.iter().copied().filter(|&(_, count)| count > 0).collect();
    Point {
        name: "latency".into(),
        labels: [("host", "n1"), ("device", device), ("kind", "read")].map(|(a, b)| (a.into(), b.into())).into(),
        nature: Nature::Delta,
        start_ns: Some(start_ns),
        time_ns,
        count: buckets.values().sum(),
        buckets,
        layout: Layout::Explicit(vec![0.005, 0.01, 0.025, 0.1, 1.0]),
        ..Point::default()
    }
}

fn receive(receiver: &Receiver, points: Vec<Point>) -> Received {
    receiver.receive(Decoded { points, ..Decoded::default() })
}

#[test]
fn few_events_in_a_long_time_arrive() {
    let (hub, report) = (hub(), |why: String| panic!("{why}"));
    let receiver = Receiver::new(&hub, &report);
    let end = clock::now_ns() / SECOND * SECOND;
    for (number, count) in [1, 10, 50, 100, 600, 1000].into_iter().enumerate() {
        let device = format!("d{number}");
        let points = vec![point(&device, end - 60 * SECOND, end, &[(2, count)])];
        assert_eq!(receive(&receiver, points), Received { taken: 1, refused: Reasons::default() });
        assert_eq!(received(&hub)[&device].0, count);
    }
}

proptest! {
    /// Whatever is counted since when and in which buckets, the hub has as many, and their sum.
    #[test]
    fn every_event_arrives(
        series in proptest::collection::vec(
            (0u8..4, 1i64..120_000, proptest::collection::vec((0i32..6, 0u64..40), 4), 0u32..16), 1..6),
    ) {
        let (hub, report) = (hub(), |why: String| panic!("{why}"));
        let receiver = Receiver::new(&hub, &report);
        let end = clock::now_ns() - 5 * SECOND;
        let (mut expected, mut pushes) = (BTreeMap::new(), Vec::new());
        for (number, (form, window_ms, buckets, scale)) in series.into_iter().enumerate() {
            let (device, window_ns) = (format!("d{number}"), window_ms * 1_000_000);
            let start = end - 4 * window_ns;
            let (mut total, mut all, mut before) = (BTreeMap::<i32, u64>::new(), (0, 0), 0.0);
            for (place, (bucket, count)) in (0..).zip(buckets) {
                // In the middle of its bucket; above the last edge, at that.
                let middle = [0.0025, 0.0075, 0.0175, 0.0625, 0.55, 1.0][bucket as usize];
                let (count, sum) = (count << scale, (count << scale) as f64 * middle);
                *total.entry(bucket).or_insert(0) += count;
                before += sum;
                let whole: Vec<(i32, u64)> = total.iter().map(|(&bucket, &count)| (bucket, count)).collect();
                let (from, to) = (start + place * window_ns, start + (place + 1) * window_ns);
                let mut pushed = match form % 2 {
                    0 => Point { sum: Some(sum), ..point(&device, from, to, &[(bucket, count)]) },
                    _ => Point {
                        nature: Nature::Cumulative,
                        sum: Some(before),
                        ..point(&device, start, to, &whole)
                    },
                };
                if form > 1 {
                    pushed.layout = Layout::Exponential { schema: 3, zero_threshold: 0.0 };
                    pushed.buckets = pushed.buckets.into_iter().map(|(at, count)| (at * 3 - 60, count)).collect();
                    pushed.sum = None;
                }
                // The first running total is a base.
                if form % 2 == 0 || place > 0 {
                    all = (all.0 + count, all.1 + (sum * 1e9) as u128);
                }
                pushes.push(pushed);
            }
            if all.0 > 0 {
                expected.insert(device, (all.0, (form < 2).then_some(all.1)));
            }
        }
        let count = pushes.len() as u64;
        pushes.sort_by_key(|point| point.time_ns);
        let middle = pushes.split_off(pushes.len() / 2);
        let mut taken = 0;
        for points in [pushes, middle] {
            let received = receive(&receiver, points);
            prop_assert!(received.refused.is_empty(), "{}", received.refused);
            taken += received.taken;
        }
        prop_assert_eq!(taken, count);
        let found = received(&hub);
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (device, (count, sum)) in expected {
            prop_assert_eq!(found[&device].0, count);
            let Some(sum) = sum else { continue };
            // No more than the width of a bucket of ours, eight to the octave where one of theirs is wide.
            prop_assert!(found[&device].1.abs_diff(sum) <= sum / 8, "{} {}", found[&device].1, sum);
        }
    }
}

/// A histogram of OpenTelemetry with one event, up to these edges.
fn explicit(device: &str, bounds: &[f64]) -> impl Fn(&mut Message) + use<> {
    let packed: Vec<u8> = bounds.iter().flat_map(|bound| bound.to_le_bytes()).collect();
    let counts: Vec<u8> = (0..=bounds.len() as u64).flat_map(|at| u64::from(at == 1).to_le_bytes()).collect();
    let (device, end) = (device.to_string(), clock::now_ns() as u64);
    move |point| {
        point.fixed(2, end - SECOND as u64);
        point.fixed(3, end);
        point.fixed(4, 1);
        point.raw(6, &counts);
        point.raw(7, &packed);
        point.message(9, |attribute| {
            attribute.text(1, "system.device");
            attribute.message(2, |value| value.text(1, &device));
        });
    }
}

fn telemetry(name: &str, temporality: u64, points: &[&dyn Fn(&mut Message)]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |resource| {
        resource.message(2, |scope| {
            scope.message(2, |metric| {
                metric.text(1, name);
                metric.text(3, "s");
                metric.message(9, |histogram| {
                    points.iter().for_each(|point| histogram.message(1, point));
                    histogram.uint(2, temporality);
                });
            });
        });
    });
    request.into_bytes()
}

/// A native histogram of remote-write with so many events in a bucket, in a series.
fn written(device: &str, samples: &[(i64, u64)]) -> impl Fn(&mut Message) + use<> {
    let (device, samples) = (device.to_string(), samples.to_vec());
    move |series| {
        for (name, value) in [("__name__", "io_latency_seconds"), ("device", &device)] {
            series.message(1, |label| {
                label.text(1, name);
                label.text(2, value);
            });
        }
        for &(time_ms, count) in &samples {
            series.message(4, |histogram| {
                histogram.uint(1, count);
                histogram.sint(4, 3);
                histogram.message(11, |span| {
                    span.sint(1, -60);
                    span.uint(2, 1);
                });
                histogram.sints(12, [if count == 13 { -1 } else { count as i64 }].into_iter());
                histogram.uint(15, time_ms as u64);
            });
        }
    }
}

#[test]
fn what_is_bad_does_not_take_the_rest_with_it() {
    let hub = hub();
    let reported = Mutex::new(Vec::new());
    let report = |why: String| reported.lock().unwrap().push(why);
    let receiver = Receiver::new(&hub, &report);
    let (good, bad) = (explicit("good", &[0.001, 0.01]), explicit("bad", &[0.01, 0.001]));
    let found = receiver.otlp(&telemetry("io.duration", 1, &[&bad, &good, &bad])).unwrap();
    let why = format!("2: {}", Malformed::Histogram);
    assert_eq!((found.taken, found.refused.count(), found.refused.to_string()), (1, 2, why.clone()));
    // In the middle of its bucket.
    let counts = received(&hub);
    assert!(counts.len() == 1 && counts["good"].0 == 1 && counts["good"].1.abs_diff(5_500_000) < 100_000, "{counts:?}");
    assert_eq!(*reported.lock().unwrap(), [why]);
    for temporality in [0, 9] {
        let found = receiver.otlp(&telemetry("io.duration", temporality, &[&good, &good])).unwrap();
        assert_eq!((found.taken, found.refused.to_string()), (0, format!("2: {}", Refused::Temporality)));
    }
    let found = receiver.otlp(&telemetry("io.size", 1, &[&good])).unwrap();
    assert_eq!((found.refused.count(), found.refused.faults()), (1, 0));
    // No more is reported for a while.
    assert_eq!(reported.lock().unwrap().len(), 1);

    let now_ms = clock::now_ns() / 1_000_000;
    let time = |place: i64| now_ms - 10_000 + place * 1000;
    let good = written("good", &[0, 1, 2, 3].map(|place| (time(place), 10 + 30 * place as u64)));
    let late = written("late", &[0, 2, 1, 3].map(|place| (time(place), 10 + 30 * place as u64)));
    let bad = written("bad", &[(time(0), 13), (time(1), 20)]);
    let mut request = Message::default();
    [&late as &dyn Fn(&mut Message), &bad, &good].iter().for_each(|series| request.message(1, series));
    let packed = snap::raw::Encoder::new().compress_vec(request.bytes()).unwrap();
    let found = receiver.remote_write(&packed, 1).unwrap();
    assert_eq!((found.taken, found.refused.to_string()), (9, format!("1: {}", Malformed::Histogram)));
    let counts: Vec<(String, u64)> = received(&hub).into_iter().map(|(device, (count, _))| (device, count)).collect();
    assert_eq!(counts, [("good".to_string(), 90), ("late".to_string(), 90)]);
}

#[test]
fn what_is_not_taken_has_a_reason() {
    let (hub, report) = (hub(), |_| ());
    let receiver = Receiver::new(&hub, &report);
    let now = clock::now_ns();
    let at = |from: i64, to: i64| point("d", now + from * SECOND, now + to * SECOND, &[(2, 7)]);
    let refused = |point: Point| receive(&receiver, vec![point]).refused.to_string();
    assert_eq!(refused(at(3590, 3600)), format!("1: {}", Refused::Ahead));
    assert_eq!(refused(Point { time_ns: i64::MAX, ..at(0, 1) }), format!("1: {}", Refused::Ahead));
    assert_eq!(refused(Point { time_ns: 1, start_ns: None, ..at(0, 1) }), format!("1: {}", Refused::Old));
    assert_eq!(
        refused(Point { time_ns: i64::MIN, start_ns: Some(i64::MIN), ..at(0, 1) }),
        format!("1: {}", Refused::Old)
    );
    for name in ["", "n1\n", "\u{1b}[2Jn1"] {
        let mut point = at(0, 1);
        point.labels.insert("host".into(), name.into());
        assert_eq!(refused(point), format!("1: {}", Refused::Name));
    }
    assert_eq!(refused(Point { count: 9, ..at(0, 1) }), format!("1: {}", Refused::Count));
    assert_eq!(received(&hub), BTreeMap::new());
    // What was refused is not known.
    assert_eq!(refused(at(-10, 0)), "");
    assert_eq!(refused(at(-10, 0)), format!("1: {}", Refused::Overlap));
    assert_eq!(received(&hub)["d"].0, 7);
    // Of two hours, the hub keeps the last one.
    let long = point("long", now - 7200 * SECOND, now, &[(2, 7200)]);
    assert_eq!(refused(long), format!("1: {}", Refused::Cut));
    // News are of the last quarter of an hour.
    let count = received(&hub)["long"].0;
    assert!(count.abs_diff(900) < 5, "{count}");
}
