//! Options in whatever combination, over whatever input, end well or with a sentence.

use crate::generator::Random;
use crate::hostile::limited;
use crate::program::testdata;
use std::path::Path;

const INPUTS: &[&str] = &[
    "perf_script/all_events.txt.gz",
    "perf_script/lost.txt.gz",
    "perf_script/raw_syscalls.txt.gz",
    "perf_script/option_variants.txt",
    "perf_data/no_io.data",
    "perf_data/threads",
    "perf_data/syscalls_named.data.zst",
    "lat/v1.lat",
];

const NUMBERS: &[&str] =
    &["0", "1", "2", "123456", "9223372036", "18446744073709551615", "0.000000001", "1e18", "100s", "3us", "1d", "x"];

/// An option and what it may be given; one without values stands alone.
type Choice = (&'static str, &'static [&'static str]);

const INPUT: &[Choice] = &[
    ("-s", &["block", "io", "syscall"]),
    ("--latency", &["request", "device"]),
    ("--unitstime", &["s", "ms", "us", "ns"]),
    ("--unitslat", &["s", "ns", "bytes"]),
];

const FOLD: &[Choice] = &[
    ("-i", &["1ns", "1us", "10ms", "1s", "1h", "1000d", "0s", "100", "292y", "3.5ms"]),
    ("--by", &["device", "device,kind", "comm", "tid", "offset", "error", "queue", "kind,name,comm", "none"]),
    ("--weight", &["count", "time", "bytes"]),
    ("-y", &["latency", "size", "offset", "queue"]),
    ("--min", &["0", "1ns", "1us", "1s", "4k", "18446744073709551615"]),
    ("--max", &["0", "1ns", "1ms", "1h", "1GiB", "18446744073709551615"]),
];

const HEATMAP: &[Choice] = &[
    ("--scale", &["log", "sqrt", "linear"]),
    ("--color", &["log", "sqrt", "linear"]),
    ("--color-max", &["1", "0.001", "1e300", "nan", "inf", "0"]),
    ("--lines", &["none", "0,100", "50,99.999", "101"]),
    ("--width", &["200", "4000", "100"]),
    ("--rows", &["1", "2", "1000", "4294967295"]),
    ("--no-strips", &[]),
    ("--grid", &[]),
    ("--dark", &[]),
];

const SPECTROGRAM: &[Choice] = &[
    ("--palette", &["viridis", "inferno", "turbo", "sysdig"]),
    ("--orient", &["down", "across"]),
    ("--scale", &["log", "sqrt", "linear"]),
    ("--color", &["truecolor", "256", "16", "never"]),
    ("--width", &["1", "20", "21", "100", "100000000"]),
    ("--wall", &[]),
    ("--no-half-blocks", &[]),
];

const HISTOGRAM: &[Choice] = &[("--per-octave", &["1", "2", "64", "3"])];

const SUMMARY: &[Choice] = &[
    ("--by", &["device", "kind,comm", "none", "offset"]),
    ("--over", &["0", "1us", "1h", "18446744073709551615"]),
    ("--sort", &["group", "p99", "max", "x"]),
    ("-y", &["latency", "size", "offset", "queue"]),
    ("--csv", &[]),
];

const EVENTS: &[Choice] = &[
    ("--columns", &["time", "latency,comm", "time_ns,device,error,stack", "queue"]),
    ("--top", &["0", "1", "1000000"]),
    ("--sort", &["time", "latency"]),
    ("--json", &[]),
];

const FILTERS: &[&str] = &[
    "lat > 1ms",
    "not kind = read",
    "comm contains f",
    "time > +1ms",
    "time < 10:00",
    "lat between 1us and 1s",
    "evt.is_io_write",
    "name in (R, W)",
    "lat > 99999h",
    "error exists",
    "path glob *x*",
];

fn add(arguments: &mut Vec<String>, random: &mut Random, choices: &[Choice]) {
    for (option, values) in choices {
        if random.one_in(4) {
            arguments.push(option.to_string());
            if !values.is_empty() {
                arguments.push(random.pick(values).to_string());
            }
        }
    }
}

/// Two columns of ordinary and of extreme numbers.
fn two_columns(random: &mut Random, path: &Path) {
    let rows = random.pick(&[1, 2, 50]);
    let text: String = (0..rows).map(|_| format!("{} {}\n", random.pick(NUMBERS), random.pick(NUMBERS))).collect();
    std::fs::write(path, text).unwrap();
}

#[test]
fn no_combination_of_options_ends_without_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random::new(2024);
    for _ in 0..400 {
        let (verb, choices) = random.pick(&[
            ("heatmap", HEATMAP),
            ("spectrogram", SPECTROGRAM),
            ("histogram", HISTOGRAM),
            ("summary", SUMMARY),
            ("events", EVENTS),
        ]);
        let input = match random.one_in(2) {
            true => testdata(random.pick(INPUTS)),
            false => path("columns"),
        };
        two_columns(&mut random, &path("columns"));
        let mut arguments = vec![verb.to_string(), "-r".into(), input.to_str().unwrap().into()];
        add(&mut arguments, &mut random, INPUT);
        if !["summary", "events"].contains(&verb) {
            add(&mut arguments, &mut random, FOLD);
        }
        add(&mut arguments, &mut random, choices);
        if random.one_in(3) {
            arguments.push(random.pick(FILTERS).into());
        }
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let ended = limited(&words, b"");
        let has_message = ended.err.starts_with("latscope: ") || ended.err.starts_with("error: ");
        let well = ended.status == Some(0) || matches!(ended.status, Some(2 | 3)) && has_message;
        let of = std::fs::read_to_string(path("columns")).unwrap();
        assert!(well && !ended.err.contains("panicked"), "{words:?}: {}\n{of}", ended.err);
        assert!(ended.out.len() < 30_000_000, "{words:?} writes {} bytes\n{of}", ended.out.len());
    }
}
