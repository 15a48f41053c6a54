use super::*;
use latscope_event::{Batch, Context, FieldSet, Mask};
use latscope_series::{Interval, SeriesBuilder};

/// Events with times, latencies and processes without a pattern.
fn batch() -> Batch {
    let mut batch = Batch::new([Field::Comm, Field::Size, Field::Pid, Field::Dev].into_iter().collect::<FieldSet>());
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..5000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        batch.push_i64(Field::Time, 1_000_000_000 + (state % 2_000_000_000) as i64);
        batch.push_u64(Field::Latency, state >> (30 + state % 34));
        let comm = ["fio", "a \"b\" \\", "two words", "\u{1}x"].get((state % 5) as usize);
        batch.push_text(Field::Comm, comm.map(|comm| comm.as_bytes()));
        batch.push_u64(Field::Size, 512 << (state % 9));
        batch.push_i64(Field::Pid, (state % 3) as i64);
        batch.push_text(Field::Dev, [Some(&b"254:0"[..]), None][(state % 2) as usize]);
        batch.end_row();
    }
    batch
}

#[test]
fn the_filter_of_a_spot_selects_its_events() {
    let batch = batch();
    let clocks = [
        Clock::unanchored("boot"),
        Clock { name: "mono".into(), to_unix_ns: Some(1_700_000_000_123_456_789), approximate: false },
    ];
    for by in [vec![], vec![Field::Comm], vec![Field::Pid, Field::Dev]] {
        let mut builder = SeriesBuilder::new(Quantity::Latency, Weight::Bytes, by, Interval::Fixed(10_000_000));
        builder.add(&batch, None);
        let series = builder.finish();
        let grid = series.grid();
        let mut seen = 0;
        for (at, clock) in (0..200).zip(clocks.iter().cycle()) {
            let (from, to) = (100 + at, 101 + at + at % 7);
            let (low, high) = (grid.index(1 << (at % 30)), grid.index(3 << (at % 32)));
            let groups = series.groups().len() as u32;
            let spot = Spot {
                from_ns: series.start_ns(from),
                to_ns: series.start_ns(to),
                low: if at % 5 == 0 { 0 } else { grid.lower(low) },
                high: if at % 3 == 0 { u64::MAX } else { grid.upper(high.max(low)) },
                group: (at % 4 != 0).then_some(at as u32 % groups),
            };
            let text = filter(&series, &spot, clock);
            let mut context = Context::new("test", clock.clone());
            context.cover(0);
            let mut mask = Mask::default();
            parsed(&text).unwrap().bind(context.trace_start()).unwrap().eval(&batch, &mut mask);
            let sum = readout(&series, &spot);
            assert_eq!(mask.count() as u64, sum.count, "{text}");
            let bytes: u64 = mask.ones().map(|row| batch.u64s(Field::Size).unwrap()[row]).sum();
            assert_eq!(bytes, sum.weight, "{text}");
            seen += sum.count;
        }
        assert!(seen > 300, "{seen} events tested");
    }
}

#[test]
fn shares_of_what_is_there_are_never_nothing() {
    assert_eq!(percent(1, 1_000_000), "<0.01");
    assert_eq!(percent(5, 5), "100");
    assert_eq!(percent(1, 3), "33");
    assert_eq!(percent(1, 30), "3.3");
    assert_eq!(percent(1, 200), "0.50");
}
