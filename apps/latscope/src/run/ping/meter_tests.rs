use super::*;

/// What `ioping WORDS` would count with, also in an open loop.
fn meter(words: &str, open: bool) -> Meter {
    let words: Vec<_> = words.split_whitespace().map(Into::into).collect();
    let Ok(crate::plan::Plan::Ping(mut plan)) = crate::plan::ioping(&words, &crate::plan::tests::world()) else {
        panic!("no plan")
    };
    plan.probes[0].pace.open = open;
    Meter::new(&plan.probes[0], &plan.show)
}

#[test]
fn many_at_once_count_as_one_by_one() {
    let mut number = 1u64;
    let mut samples = Vec::new();
    for at in 0..5000u64 {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let random = number >> 33;
        let submitted_ns = 1000 + at * 1000;
        samples.push(Sample {
            intended_ns: submitted_ns - random % 7,
            submitted_ns,
            completed_ns: submitted_ns + 1 + random % 900,
            waited_ns: random % 7 / 2,
            offset: 0,
            result: [4096, 4096, 4096, 0, -5, 512][(random % 6) as usize],
            cpu_wait_ns: if random.is_multiple_of(11) { 3 } else { Sample::UNKNOWN },
            write: false,
            cached: [None, None, Some(true), Some(false)][(random % 4) as usize],
        });
    }
    assert!(samples.iter().all(|sample| sample.intended_ns <= sample.submitted_ns));
    for (words, open) in [("-q x", false), ("-q -a 70 -t 50ns -T 700ns x", false), ("-q -C x", true)] {
        let (mut single, mut together) = (meter(words, open), meter(words, open));
        let mut empty = [0, 0];
        for sample in &samples {
            empty[0] += u64::from(single.add(sample).0 == Class::Empty);
        }
        for block in samples.chunks(97) {
            together.add_all(block, || empty[1] += 1);
        }
        assert_eq!(empty[0], empty[1]);
        assert_eq!(single.total, together.total, "{words}");
        assert_eq!(single.histogram.to_sparse(), together.histogram.to_sparse(), "{words}");
        let rest = |meter: &Meter| {
            let lag = meter.lag.as_ref().map(Histogram::to_sparse);
            (meter.requests, meter.end_ns, meter.looked_at, meter.misplaced, meter.slow, meter.slow_wait_ns, lag)
        };
        assert_eq!(rest(&single), rest(&together), "{words}");
    }
}
