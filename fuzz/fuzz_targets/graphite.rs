//! Any lines as what executors of Spark send to Graphite: no panic, and what an executor did in an interval agrees with its samples.
#![no_main]

use latscope_series::{SparkMetric, SparkMetrics, SparkSample};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (mut metrics, mut samples) = (SparkMetrics::default(), Vec::new());
    // An empty line ends an interval.
    for line in bytes.split(|&byte| byte == b'\n').chain([&b""[..]]) {
        if let Ok(Some(sample)) = SparkSample::parse(line) {
            metrics.add(&sample);
            samples.push(sample);
        }
        if !line.is_empty() {
            continue;
        }
        for now in metrics.take() {
            let own = || samples.iter().filter(|sample| sample.app == now.app && sample.executor == now.executor);
            assert_eq!(own().map(|sample| sample.at_s).max(), Some(now.at_s));
            assert!(now.seconds > 0);
            for metric in SparkMetric::ALL {
                let values = || own().filter(|sample| sample.metric == metric).map(|sample| sample.value);
                let (last, grown) = (now.values[metric as usize], now.grown[metric as usize]);
                assert_eq!(values().last(), last, "the last value of {}", metric.name());
                assert!(
                    grown == 0 || values().any(|before| last == before.checked_add(grown)),
                    "the growth of {}",
                    metric.name()
                );
                assert!(now.get(metric).is_none_or(|value| Some(value) == last) && now.per_second(metric).is_finite());
            }
        }
    }
});
