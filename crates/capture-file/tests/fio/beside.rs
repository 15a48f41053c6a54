//! What fio's JSON beside a log says of it, however that JSON was stored.

use super::{events, rows};
use latscope_capture_file::{FioResults, JobStart, Trust, job_starts};
use latscope_event::{Anomaly, Context};
use std::io::Write;
use std::path::Path;

/// A report of one job that did `ios` I/Os of a microsecond each, as fio indents it.
fn report(job_start_ms: i64, ios: u64) -> String {
    let report = serde_json::json!({
        "fio version": "fio-3.42",
        "timestamp_ms": job_start_ms + 1000,
        "global options": {"write_lat_log": "run", "write_hist_log": "run", "log_hist_msec": "20"},
        "jobs": [{
            "jobname": "j", "groupid": 0, "job_start": job_start_ms, "job_runtime": 1000,
            "read": {"total_ios": ios, "runtime": 1000, "clat_ns": {"N": ios, "bins": {"1000": ios}}},
        }],
    });
    // The version is the first member in what fio prints.
    let text = serde_json::to_string_pretty(&report).unwrap();
    let (version, rest) = ("\"fio version\": \"fio-3.42\"", text.replacen("\"fio version\": \"fio-3.42\",", "", 1));
    rest.replacen('{', &format!("{{\n  {version},"), 1)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The ways in which people and fio store one and the same JSON.
fn stored(earlier: &str, last: &str) -> Vec<(&'static str, Vec<u8>)> {
    let one_line = last.split('\n').map(str::trim).collect::<String>();
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    vec![
        ("run.json", last.as_bytes().to_vec()),
        ("run.json.gz", gzip(last.as_bytes())),
        ("run.json.zst", zstd(last)),
        ("run.json", one_line.clone().into_bytes()),
        ("run.json.gz", gzip(one_line.as_bytes())),
        ("run.json", format!("fio: a warning\n{last}\nRun status group 0 (all jobs):\n").into_bytes()),
        ("run.json", format!("{earlier}{last}").into_bytes()),
        ("run.json", format!("{earlier}\n{one_line}\n").into_bytes()),
        // --status-interval, with fio's text between the reports.
        ("run.json.zst", zstd(&format!("{earlier}\nj: (groupid=0, jobs=1): err= 0\n  read: {{x}}\n{last}\nbye\n"))),
        // The run was killed while it wrote the next report.
        ("run.json", format!("{last}{}", &earlier[..earlier.len() / 2]).into_bytes()),
        ("json_run.json.gz", gzip(last.as_bytes())),
        ("run.json.vm7.gz", gzip(last.as_bytes())),
    ]
}

/// Start, number of I/Os, `log_hist_msec` and version, which only the JSON knows, are those of the last whole report.
#[test]
fn how_the_json_is_stored_makes_no_difference() {
    let (earlier, last) = (report(1_000_000, 2), report(5_000_000, 3));
    for (name, bytes) in stored(&earlier, &last) {
        let folder = tempfile::tempdir().unwrap();
        let of_host = if name.contains("vm7") { ".vm7" } else { "" };
        let put = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let case = format!("{name}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)]));
        put(name, &bytes);
        let log = put(&format!("run_clat.1.log{of_host}"), b"1, 1000, 0, 4096\n2, 1000, 0, 4096\n3, 1000, 0, 4096\n");
        let hist = put(&format!("run_clat_hist.1.log{of_host}"), hist_rows().as_bytes());
        for start in job_starts(&[log.clone(), hist.clone()], &FioResults::default()) {
            let expected = JobStart { ns: Some(5_000_000_000_000), trust: Trust::Known, other_epoch: false, run: 0 };
            assert_eq!(start, Some(expected), "{case}");
        }
        let (read, context) = events(&log).unwrap();
        assert_eq!((read.len(), read[0].latency_ns), (3, 1000), "nanoseconds, by the version: {case}");
        assert!(context.properties.contains_key(Context::COMPLETE), "{case}: {:?}", context.properties);
        let (_, context) = rows(&hist).unwrap();
        assert_eq!(context.properties["log_hist_msec"], "20, from the JSON", "{case}");
        assert_eq!(context.tally.get(Anomaly::LostTail), 1, "{case}");
        assert_eq!(context.tally.get(Anomaly::MaybeLostTail), 0, "{case}");
    }
}

/// A copy that was packed and left beside its original is no second run.
#[test]
fn a_packed_copy_of_the_json_is_the_same_json() {
    let folder = tempfile::tempdir().unwrap();
    let last = report(5_000_000, 3);
    std::fs::write(folder.path().join("results.json"), &last).unwrap();
    std::fs::write(folder.path().join("results.json.gz"), gzip(last.as_bytes())).unwrap();
    let log = folder.path().join("run_clat.1.log");
    std::fs::write(&log, "1, 1000, 0, 4096\n").unwrap();
    assert_eq!(job_starts(&[log], &FioResults::default())[0].map(|start| start.ns), Some(Some(5_000_000_000_000)));
}

/// Two rows of one I/O each.
fn hist_rows() -> String {
    let row = |ms: u32| {
        let counts = (0..1856).map(|bin| if bin == 317 { ", 1" } else { ", 0" }).collect::<String>();
        format!("{ms}, 0, 4096{counts}\n")
    };
    row(20) + &row(40)
}

/// A damaged JSON says nothing, and a log without any is read as ever.
#[test]
fn a_damaged_json_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    std::fs::write(&log, "1, 1000, 0, 4096\n").unwrap();
    for damaged in
        ["{\"fio version\": \"fio-3.42\", \"jobs\": [", "{\"fio version\": \"fio-3.42\", \"jobs\": [7]}", "{}"]
    {
        put_json(folder.path(), damaged);
        assert_eq!(job_starts(std::slice::from_ref(&log), &FioResults::default()), [None], "{damaged}");
        assert_eq!(events(&log).unwrap().0.len(), 1);
    }
}

fn put_json(folder: &Path, text: &str) {
    std::fs::write(folder.join("run.json"), text).unwrap();
}
