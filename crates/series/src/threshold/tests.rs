use super::*;
use crate::{HistogramSeries, Quantity, Waiter, Weight};
use latscope_histogram::{Grid, Histogram};

fn holds(text: &str, values: &[u64]) -> bool {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.iter().for_each(|&value| histogram.record(value, 0));
    let histogram = histogram.to_sparse();
    let judged = Judged::new(&histogram, 1, 1_000_000_000);
    Threshold::parse(text).unwrap().judge(&judged).exceeded().is_some()
}

#[test]
fn samples_of_waits_decide_what_they_can() {
    // Each was seen once or more often, 50 ms apart.
    let mut histogram = Histogram::new(Grid::FINE, false);
    [50u64, 50, 100, 600].iter().for_each(|ms| histogram.record(ms * 1_000_000, 0));
    let histogram = histogram.to_sparse();
    let judged = Judged::new(&histogram, 1, 1_000_000_000);
    for (text, is_exceeded, is_unsure) in [
        // Most short ones were not seen, so percentiles are lower in truth, and there are more.
        ("p99 > 300ms", true, true),
        ("mean > 10ms", true, true),
        ("over(300ms) > 1%", true, true),
        ("count < 5", true, true),
        ("rate > 4", false, true),
        ("p50 < 10ms", false, true),
        ("p99 > 1s", false, false),
        ("count > 3", true, false),
        ("p50 < 200ms", true, false),
        // The longest was seen, within an interval.
        ("max > 500ms", true, false),
        ("max > 580ms", true, true),
        ("max > 620ms", false, true),
        ("max > 1s", false, false),
        ("max > 500ms and p99 > 500ms", true, true),
    ] {
        let threshold = Threshold::parse(text).unwrap();
        let finding = threshold.judge(&judged).exceeded();
        assert_eq!(finding.is_some(), is_exceeded, "{text}");
        assert_eq!(threshold.is_unsure_of_samples(finding.as_ref(), 50_000_000, 600_000_000), is_unsure, "{text}");
    }
}

#[test]
fn conditions_hold_as_they_read() {
    let values: Vec<u64> = (1..=1000).map(|at| at * 1_000_000).collect();
    for (text, expected) in [
        ("p99 > 900ms", true),
        ("p99>1s", false),
        ("p50 >= 480ms and p50 <= 520ms", true),
        ("p99 > 1s or max >= 1s", true),
        ("p99 > 1s or max > 1s", false),
        ("mean < 501ms and min <= 1ms", true),
        ("count >= 1000", true),
        ("rate > 1k", false),
        ("p99.9 > 1s", false),
        // One of a thousand is more than one in ten thousand.
        ("p99.99 > 995ms", true),
        ("(p99 > 1s or max >= 1s) and count > 2000", false),
        ("p99 > 1s or max >= 1s and count > 2000", false),
        ("max >= 1s or p99 > 1s and count > 2000", true),
        ("(max >= 1s or p99 > 1s) and count > 2000", false),
        ("((max>=1s))and(count>999)", true),
    ] {
        assert_eq!(holds(text, &values), expected, "{text}");
    }
    assert!(!holds("mean < 1s", &[]) && !holds("p99 < 1s", &[]) && holds("count < 1", &[]));
    assert!(holds("p99 > 3s", &[3_600_000_000]), "a stall has few events");
}

#[test]
fn conditions_are_written_as_they_are_read() {
    for text in [
        "p95 > 1s or p99.9 >= 5s for 3 intervals",
        "mean < 1ms and count > 100",
        "(p95 > 1s or p99 > 5s) and count > 100 for 2 intervals",
        "p95 > 1s and count > 100 or oldest >= 5s",
        "waiting > 3 or waiting(5s) > 0",
        "oldest > 1s and (p50 > 1ms or max > 1s and rate < 5 or mean > 1s)",
        "over(10ms) > 0.1% and count > 5",
    ] {
        assert_eq!(Threshold::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Threshold::parse("max>5ms for 1 interval").unwrap().intervals(), 1);
    let level = Threshold::parse("p95 > 1s and rate > 5 or max >= 5s for 3 intervals").unwrap();
    assert_eq!(level.levels(), [("p95 > 1s".into(), 1_000_000_000), ("max >= 5s".into(), 5_000_000_000)]);
}

#[test]
fn mistakes_are_named() {
    for (text, part) in [
        ("", "a condition is missing"),
        ("p101 > 1s", "\"p101\" is not a metric"),
        ("p99 = 1s", "needs a comparison"),
        ("p99 > 5", "5 needs a unit"),
        ("p99 >", "nothing to compare with"),
        ("p99 > 5ms p50", "instead of \"p50\""),
        ("p99 > 5ms for x", "number of intervals"),
        ("p99 > 5ms for 3 intervals or", "nothing may follow"),
        ("count > many", "not a number"),
        ("over(10ms) > 1", "over(10ms) > 100% never holds; a share is at most 100%, such as over(10ms) > 1%"),
        ("over(10ms) > 100%", "never holds"),
        ("over(10ms) >= 101%", "not a share"),
        ("(p99 > 1s", "\")\" is missing"),
        ("p99 > 1s)", "instead of \")\""),
        ("(p99 > 1s for 2 intervals) or max > 1s", "must follow the last \")\""),
        ("()", "\")\" is not a metric"),
        ("waiting(5) > 1", "5 needs a unit"),
        ("waiting(5s > 1", "\")\" is missing"),
        ("oldest > 3", "3 needs a unit"),
        ("waiting > 3s", "not a number"),
    ] {
        let message = Threshold::parse(text).unwrap_err();
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn what_waits_is_judged_where_it_is_known() {
    let empty = Histogram::new(Grid::FINE, false).to_sparse();
    let judged = Judged::new(&empty, 1, 1_000_000_000);
    let judge = |text: &str, judged: &Judged| Threshold::parse(text).unwrap().judge(judged);
    let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1_000_000_000);
    let waits = |age_ns| Waiter { group: Vec::new(), start_ns: 0, age_ns, is_bound: false };
    series.add_waiting(&[waits(3_000_000_000), waits(7_000_000_000)], Some(6..7));
    series.add_waiting(&[waits(6_500_000_000)], Some(6..7));
    let waiting = series.waiting(6, None);
    for (text, finding) in [
        ("oldest > 5s", Some("oldest = 7s")),
        ("oldest > 7s", None),
        ("waiting >= 2", Some("waiting = 2")),
        ("waiting(5s) > 0", Some("waiting(5s) = 2")),
        ("waiting(7s) > 0", None),
        ("max > 6s or count > 5", Some("max = 7s")),
        ("p99 > 1s or waiting > 1", Some("p99 = 7s")),
    ] {
        assert_eq!(judge(text, &judged), Judgement::Unknown, "{text}");
        let found = judge(text, &judged.with_waiting(&waiting)).exceeded();
        assert_eq!(found.map(|found| found.to_string()), finding.map(str::to_string), "{text}");
    }
    assert_eq!(judge("oldest > 1s", &judged.with_waiting(&Waiting::default())), Judgement::Kept);
    assert!(Threshold::parse("p99 > 1s and (max > 1s or oldest > 1s)").unwrap().asks_what_waits());
}

/// Bytes are those that were moved, none where nothing completed, and unknown where a host did not say.
#[test]
fn bytes_are_judged_where_they_are_known() {
    let mut histogram = Histogram::new(Grid::FINE, false);
    histogram.record_many(1_000_000, 3, 0);
    let mut known = histogram.to_sparse();
    let unknown = known.clone();
    known.set_bytes(Some(3 << 20));
    let judge = |text: &str, judged: &Judged| Threshold::parse_of_hub(text).unwrap().judge(judged);
    let (known, unknown) = (Judged::new(&known, 1, 2_000_000_000), Judged::new(&unknown, 1, 2_000_000_000));
    for (text, finding, of_partial) in [
        ("bytes >= 3MiB", Some("bytes = 3MiB"), true),
        ("bytes < 4MiB", Some("bytes = 3MiB"), false),
        ("throughput > 1MiB/s", Some("throughput = 1.5MiB/s"), false),
        ("throughput < 1024KiB/s", None, false),
    ] {
        let written = |judged: &Judged| judge(text, judged).exceeded().map(|found| found.to_string());
        assert_eq!(written(&known).as_deref(), finding, "{text}");
        assert_eq!(written(&known.partial(true)).is_some(), of_partial, "{text}");
        assert_eq!(judge(text, &unknown), Judgement::Unknown, "{text}");
    }
    let empty = Histogram::new(Grid::FINE, false).to_sparse();
    let idle = judge("throughput < 1KiB/s", &Judged::new(&empty, 1, 1_000_000_000)).exceeded();
    assert_eq!(idle.map(|found| found.to_string()).as_deref(), Some("throughput = 0B/s"));
    for text in ["throughput > 5MiB", "throughput > x/s", "bytes > 5s"] {
        assert!(Threshold::parse_of_hub(text).unwrap_err().contains("size"), "{text}");
    }
    assert!(Threshold::parse("bytes > 1").is_err(), "events do not know them all");
    let text = "bytes > 1025B and throughput < 4KiB/s";
    assert_eq!(Threshold::parse_of_hub(text).unwrap().to_string(), text);
}

#[test]
fn what_was_observed_in_part_has_no_rate() {
    let mut histogram = Histogram::new(Grid::FINE, false);
    histogram.record_many(1_000_000, 175, 0);
    let histogram = histogram.to_sparse();
    let whole = Judged::new(&histogram, 1, 1_000_000_000);
    let judge = |text: &str, judged: &Judged| Threshold::parse(text).unwrap().judge(judged).exceeded().is_some();
    for (text, of_whole, of_partial) in [
        ("rate < 250", true, false),
        ("rate > 100", true, false),
        ("count < 250", true, false),
        ("count > 100", true, true),
        ("rate < 250 or p50 > 900us", true, true),
    ] {
        assert_eq!((judge(text, &whole), judge(text, &whole.partial(true))), (of_whole, of_partial), "{text}");
    }
}

#[test]
fn the_worst_of_several_bounds_is_named() {
    let mut histogram = Histogram::new(Grid::FINE, false);
    (1..=100).for_each(|at| histogram.record(at * 1_000_000, 0));
    let histogram = histogram.to_sparse();
    let judged = Judged::new(&histogram, 1, 1_000_000_000);
    let named = |text: &str| {
        Threshold::parse(text).unwrap().judge(&judged).exceeded().map(|found| found.to_string()).unwrap_or_default()
    };
    // Twice its bound, ten times its bound.
    assert_eq!(named("p50 > 25ms or max > 10ms"), "max = 100ms");
    assert_eq!(named("p50 > 25ms and max > 10ms").split(' ').next(), Some("p50"));
    assert_eq!(named("rate < 200"), "rate = 100/s");
    assert_eq!(named("count < 200"), "count = 100");
}
