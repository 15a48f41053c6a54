//! Views of many intervals write their rows as they make them: memory does not grow with the number of rows.

use crate::program::{Ended, LATSCOPE, command, end};
use std::fmt::Write as _;

/// Address space that the program may take, some 30 MB of it code.
const LIMIT_KIB: u32 = 120_000;
/// A row with so many percentiles takes some 10 kB before it is written, and its text 1 kB and more.
const PERCENTILES: &str = "0..100,0..100";

/// An event in each of so many intervals of a millisecond, as milliseconds and microseconds.
fn gapless(intervals: u32) -> String {
    (0..intervals).fold(String::new(), |mut text, at| {
        writeln!(text, "{at} {}", latency_us(at)).unwrap();
        text
    })
}

fn latency_us(at: u32) -> u32 {
    100 + at % 7 * 13
}

/// Runs a view of a file that holds this, under the limit.
fn limited(view: &[&str], input: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.txt");
    std::fs::write(&file, input).unwrap();
    let script = format!("ulimit -v {LIMIT_KIB}; exec \"$0\" \"$@\"");
    let mut shell = command("sh");
    // An arena for each thread would take address space that is never used.
    shell.env("MALLOC_ARENA_MAX", "1").args(["-c", &script, LATSCOPE]).args(view);
    end(shell.args(["--unitstime", "ms", "--unitslat", "us", "-i", "1ms", "-r"]).arg(file), b"")
}

#[test]
fn percentiles_as_json_lines() {
    let out =
        limited(&["percentiles", "--count-by=completion", "--json", "--p", PERCENTILES], &gapless(16_000)).success();
    let mut rows = 0;
    for (at, line) in (0..).zip(out.lines()) {
        // Only what distinguishes rows: to parse them all would take longer than to make them.
        let value = |key: &str| {
            let from = line.split_once(&format!("\"{key}\":")).unwrap().1;
            from.split(',').next().unwrap().parse::<f64>().unwrap()
        };
        assert_eq!(value("p50_ns"), f64::from(latency_us(at)) * 1e3, "{at}");
        assert_eq!(value("count"), 1.0);
        rows += 1;
    }
    assert_eq!(rows, 16_000);
}

#[test]
fn percentiles_as_text() {
    let out = limited(&["percentiles", "--count-by=completion", "--p", "0..100"], &gapless(6_000)).success();
    let lines: Vec<&str> = out.lines().filter(|line| !line.starts_with(['?', '*'])).collect();
    assert_eq!(lines.len(), 6_001);
    for (at, line) in (0..).zip(&lines[1..]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((words[0], words[1]), (&*format!("{:.3}s", f64::from(at) / 1e3), "1"));
        assert_eq!(words.last(), Some(&&*format!("{}us", latency_us(at))));
    }
}

#[test]
fn histograms_of_intervals() {
    let out = limited(&["histogram", "--per-octave", "64"], &gapless(3_000)).success();
    assert_eq!(out.lines().filter(|line| line.starts_with("at ")).count(), 3_000);
}

#[test]
fn exact_percentiles_that_do_not_fit_are_refused_with_a_sentence() {
    let printed =
        limited(&["percentiles", "--count-by=completion", "--exact", "--p", PERCENTILES], &gapless(16_000)).failure(2);
    for word in ["-i", "--by", "--p", "filter", "--exact", "MiB"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    limited(&["percentiles", "--count-by=completion", "--exact"], &gapless(6_000)).success();
}
