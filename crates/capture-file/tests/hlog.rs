//! Logs of HdrHistogram there and back: what we write its own library (in Python) reads, and we read what that writes.

#![allow(clippy::unwrap_used, reason = "a test may stop where it cannot go on")]

use latscope_capture_file::{Format, ReadOptions, SeriesReader, SeriesRow, write_hlog};
use latscope_event::{Clock, Context, FieldSet};
use latscope_histogram::{Grid, Histogram, Sparse};
use std::path::Path;
use std::process::Command;

/// Python with hdrhistogram, or why not.
fn python() -> Result<String, String> {
    let python = std::env::var("LATSCOPE_PYTHON").unwrap_or_else(|_| "python3".into());
    match Command::new(&python).args(["-c", "import hdrh.log"]).output() {
        Ok(output) if output.status.success() => Ok(python),
        Ok(_) => Err(format!("{python} lacks hdrhistogram (LATSCOPE_PYTHON names another interpreter)")),
        Err(error) => Err(format!("{python} does not run: {error}")),
    }
}

fn counted(values: impl IntoIterator<Item = u64>) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.into_iter().for_each(|value| histogram.record(value, 0));
    histogram.to_sparse()
}

const START_MS: u64 = 1_441_812_279_250;

/// Thirty intervals of two groups, from a nanosecond to a minute.
fn ours() -> Vec<SeriesRow> {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut value = || (1 + random() % 1000).pow(1 + (random() % 3) as u32) * (1 + random() % 60);
    let row = |at: u64| SeriesRow {
        time_ns: ((START_MS + at * 500) * 1_000_000) as i64,
        width_ns: 500_000_000,
        groups: [["read", "write"][at as usize % 2].into(), "vm 1".into()].into(),
        histogram: counted((0..=at * at).map(|_| value())),
        waiting: None,
    };
    (0..30).map(row).collect()
}

/// A row as text: times, tag, smallest and largest value, buckets with their limits.
fn text(row: &SeriesRow) -> String {
    let (start_ms, totals) = (row.time_ns / 1_000_000, row.histogram.totals());
    let end_ms = start_ms + row.width_ns as i64 / 1_000_000;
    let mut text = format!("{start_ms} {end_ms} {}/vm_1 {} {}", row.groups[0], totals.min, totals.max);
    for (index, count, _) in row.histogram.buckets() {
        text += &format!(" {}:{}:{count}", Grid::FINE.lower(index), Grid::FINE.upper(index));
    }
    text + "\n"
}

#[test]
fn hdrhistogram_reads_our_logs_and_we_read_its() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let rows = ours();
    std::fs::write(path("ours.tsv"), rows.iter().map(text).collect::<String>()).unwrap();
    let log = write_hlog(Vec::new(), &Context::new("a test", Clock::wall()), rows).unwrap();
    std::fs::write(path("ours.hlog"), log).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/hlog_agrees.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<SeriesRow> = SeriesReader::open(&path("theirs.hlog"), &ReadOptions::new(FieldSet::ALWAYS))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let text = std::fs::read_to_string(path("theirs.tsv")).unwrap();
    assert_eq!((rows.len(), text.lines().count()), (40, 40));
    for (row, line) in rows.iter().zip(text.lines()) {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        assert_eq!(row.time_ns, 1_441_812_279_000_000_000 + numbers[0] as i64 * 1_000_000);
        assert_eq!(row.width_ns, 250_000_000);
        let truth = counted(numbers[1..].iter().copied());
        assert_eq!(row.histogram.indices(), truth.indices(), "{line}");
        assert_eq!(row.histogram.counts(), truth.counts(), "{line}");
    }
    assert_eq!(latscope_capture_file::format_of(&path("theirs.hlog")), Ok(Format::Hlog));
}
