//! Percentiles over time of whole files, against independent programs and against fio itself.

use crate::program::{Ended, latscope, testdata};
use std::collections::BTreeMap;
use std::path::Path;

/// The rows of CSV: values by the names of their columns.
fn table(csv: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| names.iter().map(|name| name.to_string()).zip(line.split(',').map(str::to_string)).collect();
    lines.map(row).collect()
}

fn number(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or(f64::NAN)
}

/// `percentiles --csv` of these files.
fn csv<T: AsRef<Path>>(files: &[T], options: &[&str]) -> Ended {
    let mut arguments = vec!["percentiles", "--csv"];
    for file in files {
        arguments.extend(["-r", file.as_ref().to_str().unwrap()]);
    }
    arguments.extend(options);
    latscope(&arguments)
}

/// The logs of a run in `testdata`.
fn logs(folder: &str, names: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(testdata(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with(names))));
    files.sort();
    files
}

/// What the rows of histogram logs weigh in each interval and where their percentiles are, against a slow program in
/// Python that was written by itself from the definition (its output is in `testdata`).
#[test]
fn rows_of_histogram_logs_by_share() {
    for (run, width, unit_ns) in [("A", 500, 1.0), ("G", 500, 1000.0), ("H", 500, 1.0), ("ex", 100, 1.0)] {
        let expected = std::fs::read_to_string(testdata(&format!("fio_hist/{run}.hist.{width}.weighted.csv"))).unwrap();
        let interval = format!("{width}ms");
        let files = logs("fio_hist", &format!("{run}_clat_hist"));
        let rows = table(&csv(&files, &["-i", &interval, "--p", "50,90,95,99"]).success());
        assert_eq!(rows.len(), expected.lines().count(), "{run}");
        for (row, line) in rows.iter().zip(expected.lines()) {
            let line: Vec<f64> = line.split(", ").map(|text| text.parse().unwrap()).collect();
            assert_eq!(number(row, "time_ns"), line[0] * 1e6, "{run}");
            let count = number(row, "count");
            assert!((count - line[1]).abs() <= 1e-6 * line[1].max(1.0), "{run} {}: {count}, not {}", line[0], line[1]);
            for (name, expected) in ["p50_ns", "p90_ns", "p95_ns", "p99_ns"].iter().zip(&line[2..]) {
                let (value, expected) = (number(row, name), expected * unit_ns);
                // Too few events tell it.
                let too_few = value.is_nan() && line[1] < 100.0;
                assert!(
                    too_few || (value / expected - 1.0).abs() <= 5e-4,
                    "{run} {} {name}: {value}, not {expected}",
                    line[0]
                );
            }
        }
    }
}
