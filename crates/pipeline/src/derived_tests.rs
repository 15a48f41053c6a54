use super::*;
use proptest::prelude::*;

/// Start, latency, device, kind, offset and size of a request.
type Request = (i64, u64, Option<u8>, bool, u64, u64);

fn batches(requests: &[Request], rows: usize) -> Vec<Batch> {
    let fields = FieldSet::ALWAYS.with(&[Field::Device, Field::Kind, Field::Offset, Field::Size]);
    let mut batch = Batch::new(fields);
    let filled = requests.chunks(rows).map(|requests| {
        batch.clear();
        for &(time, latency, device, writes, offset, size) in requests {
            batch.push_i64(Field::Time, time);
            batch.push_u64(Field::Latency, latency);
            batch.push_text(Field::Device, device.map(|device| format!("sd{device}")).as_deref().map(str::as_bytes));
            batch.push_text(Field::Kind, Some(if writes { b"write" } else { b"read" }));
            batch.push_u64(Field::Offset, offset);
            batch.push_u64(Field::Size, size);
            batch.end_row();
        }
        batch.clone()
    });
    filled.collect()
}

/// Sequential, in flight, since previous and region of every row.
type Answer = (Option<String>, i64, u64, Option<String>);

fn derived(requests: &[Request], rows: usize) -> Vec<Answer> {
    let (room, mut gathered) = (Room::default(), Gathered::new(FieldSet::DERIVED));
    batches(requests, rows).iter().for_each(|batch| gathered.add(batch, &room).unwrap());
    let mut answers = Vec::new();
    gathered.hand_on(|batch| {
        for row in 0..batch.len() {
            let text = |field| batch.text(field, row).map(str::to_string);
            let (in_flight, since) = (batch.i64s(Field::InFlight).unwrap(), batch.u64s(Field::SincePrevious).unwrap());
            answers.push((text(Field::Sequential), in_flight[row], since[row], text(Field::Region)));
            assert_eq!(batch.text(Field::Kind, row).is_some(), !batch.is_empty());
        }
        ControlFlow::Continue(())
    });
    answers
}

/// The definitions, one request at a time.
fn by_definition(requests: &[Request]) -> Vec<Answer> {
    let answer = |at: usize| {
        let (time, _, device, writes, offset, size) = requests[at];
        if device.is_none() {
            return (None, MISSING_I64, MISSING_U64, None);
        }
        let is_before = |other: usize| (requests[other].0, other) < (time, at);
        let mut before: Vec<usize> =
            (0..requests.len()).filter(|&other| requests[other].2 == device && is_before(other)).collect();
        before.sort_by_key(|&other| (requests[other].0, other));
        let in_flight = before.iter().filter(|&&other| requests[other].0 + requests[other].1 as i64 > time).count();
        let since = before.last().map_or(MISSING_U64, |&other| (time - requests[other].0) as u64);
        let alike: Vec<_> =
            before.iter().filter(|&&other| requests[other].3 == writes && requests[other].5 > 0).collect();
        let goes_on = alike.iter().rev().take(32).any(|&&other| requests[other].4 + requests[other].5 == offset);
        let sequential = (size > 0).then(|| if goes_on { "sequential" } else { "random" }.to_string());
        let of_device = requests.iter().filter(|request| request.2 == device);
        let end = of_device.map(|request| request.4 + request.5).max().unwrap();
        let width = (end.next_power_of_two() / 64).max(1);
        (sequential, in_flight as i64, since, Some(format!("{}/64", (offset / width).min(63) + 1)))
    };
    (0..requests.len()).map(answer).collect()
}

proptest! {
    #[test]
    fn fields_are_as_defined(
        requests in proptest::collection::vec(
            (0..60i64, 0..20u64, proptest::option::of(0..3u8), any::<bool>(), 0..40u64, 0..3u64), 0..120),
        rows in 1..50usize,
    ) {
        let requests: Vec<Request> = requests
            .into_iter()
            .map(|(time, latency, device, writes, offset, size)| (time, latency, device, writes, offset * 4096, size * 4096))
            .collect();
        prop_assert_eq!(derived(&requests, rows), by_definition(&requests));
    }
}

#[test]
fn a_trace_without_devices_is_one_device() {
    let mut batch = Batch::new(FieldSet::ALWAYS);
    for (time, latency) in [(0, 10), (5, 10), (12, 1)] {
        batch.push_i64(Field::Time, time);
        batch.push_u64(Field::Latency, latency);
        batch.end_row();
    }
    let mut gathered = Gathered::new(FieldSet::default().with(&[Field::InFlight]));
    gathered.add(&batch, &Room::default()).unwrap();
    gathered.hand_on(|batch| {
        assert_eq!(batch.i64s(Field::InFlight), Some(&[0, 1, 1][..]));
        assert!(batch.column(Field::Region).is_none());
        ControlFlow::Continue(())
    });
}

#[test]
fn too_large_a_trace_is_refused() {
    let room = Room::default();
    room.0.store(MOST_BYTES, Ordering::Relaxed);
    let batch = &batches(&[(0, 1, None, true, 0, 1)], 1)[0];
    let mut gathered = Gathered::new(FieldSet::DERIVED);
    assert!(matches!(gathered.add(batch, &room), Err(Error::NotDerivable { .. })));
}
