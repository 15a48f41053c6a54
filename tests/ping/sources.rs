//! What ioping printed as a source.

use super::transcript;
use crate::program::{latscope, testdata, unpacked};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A run of a transcript as a file of its own.
fn file_of(folder: &tempfile::TempDir, transcript: &str, name: &str) -> PathBuf {
    let path = folder.path().join(format!("{name}.out"));
    std::fs::write(&path, transcript::out(transcript, name)).unwrap();
    path
}

#[track_caller]
fn events(path: &Path, more: &[&str]) -> Vec<Value> {
    let text = latscope(&[&["events", "-r", path.to_str().unwrap(), "--json"], more].concat()).success();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What ioping measured, by another program's arithmetic (mean, deviation, p50, p99, us), and the median of the delays that
/// there were.
#[test]
fn two_volumes_of_known_delays() {
    let truth = [
        ("volA", [454.445197, 185.191578, 423.376, 1291.740], 346.0),
        ("volB", [640.433352, 291.525785, 583.086, 1950.889], 491.0),
    ];
    for (name, expect, delay) in truth {
        let path = testdata(&format!("ioping/{name}.out.zst"));
        let events = events(&path, &[]);
        let mut read: Vec<f64> =
            events.iter().map(|event| event["latency_ns"].as_u64().unwrap() as f64 / 1e3).collect();
        assert!(events.iter().all(|event| event["size"] == 4096));
        read.sort_by(f64::total_cmp);
        let n = read.len() as f64;
        let mean = read.iter().sum::<f64>() / n;
        let deviation = (read.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let rank = |q: f64| read[(q * n).ceil() as usize - 1];
        for (found, expect) in [mean, deviation, rank(0.5), rank(0.99)].into_iter().zip(expect) {
            assert!((found - expect).abs() < 1e-5, "{name}: {found} for {expect}");
        }
        // The way through FUSE and ioping is part of what was measured.
        assert!((70.0..100.0).contains(&(rank(0.5) - delay)), "{name}: p50 {}", rank(0.5));
        let summary = latscope(&["summary", "-r", path.to_str().unwrap(), "--by", "none", "--json"]).success();
        let summary = &serde_json::from_str::<Value>(&summary).unwrap()["groups"][0];
        for (key, expect) in [("mean_ns", expect[0]), ("p50_ns", expect[2]), ("p99_ns", expect[3])] {
            let found = summary[key].as_f64().unwrap() / 1e3;
            assert!((found - expect).abs() < expect / 64.0, "{name}: {key} {found} for {expect}");
        }
        // The time axis is the sum of the last column.
        let raw = String::from_utf8(unpacked(&format!("ioping/{name}.out.zst"))).unwrap();
        let wall: u64 = raw.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        let last = events.last().unwrap();
        assert_eq!(last["time_ns"].as_u64().unwrap() + last["latency_ns"].as_u64().unwrap(), wall);
    }
}

/// Every version: the same request lines as counted by eye, latencies as printed.
#[test]
fn every_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, count, first_ns) in [
        ("v0.6.normal", 6, 4_000_000u64),
        ("v0.7.normal", 6, 1_700_000),
        ("v0.8.normal", 6, 1_600_000),
        ("v0.9.normal", 6, 188_000),
        ("v0.6.p1q", 6, 2_296_000),
        ("v0.8.p1q", 6, 99_000),
    ] {
        let events = events(&file_of(&folder, "versions.txt", name), &[]);
        assert_eq!((events.len(), events[0]["latency_ns"].as_u64()), (count, Some(first_ns)), "{name}");
    }
    let events = events(&file_of(&folder, "versions.txt", "v1.2.json"), &[]);
    assert_eq!(events[0]["latency_ns"], 1_855_285, "the warm-up is left out");
    assert_eq!(events[0]["time_ns"], 1_795_224_308_535_541_000u64 - 1_855_285);
    assert_eq!((events[0]["path"].as_str(), events[0]["kind"].as_str()), (Some("e4"), Some("read")));
}

#[test]
fn what_was_cut_is_read_and_windows_are_no_requests() {
    let folder = tempfile::tempdir().unwrap();
    let killed = events(&testdata("ioping/killed.json.out"), &[]);
    assert!(killed.len() >= 3);
    let errors = events(&file_of(&folder, "versions.txt", "head_E.json"), &[]);
    assert!(errors.iter().all(|event| event["error"] == "EAGAIN" && event["offset"].is_u64()), "{errors:?}");
    let windows = file_of(&folder, "versions.txt", "v1.1.p4q");
    let seen_by = |view: &str| latscope(&[view, "-r", windows.to_str().unwrap()]);
    assert!(seen_by("percentiles").failure(3).contains("averages"));
    // Averages can be drawn, and are called so.
    assert!(seen_by("heatmap").success().contains("averages"));
    assert_eq!(events(&windows, &[]).len(), 2);
    // With -p and -B the last line adds up the others.
    let both = file_of(&folder, "v1.3.txt", "p5_batch");
    assert_eq!(events(&both, &[]).len(), 2);
}

/// A stalling target as ioping sees it: 100 us, and every hundredth second a second of silence.
fn stalling(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for _ in 0..20 {
        for at in 0..400 {
            let (ns, wall): (u64, u64) = if at == 399 { (1_000_000_000, 1_000_000_000) } else { (100_000, 10_000_000) };
            text +=
                &format!("1 {ns} {} {} {ns} {ns} {ns} 0 1 {wall}\n", 1_000_000_000 / ns, 4096 * (1_000_000_000 / ns));
        }
    }
    let path = folder.join("stall.out");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn omitted_requests_are_put_back_where_they_were_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = stalling(folder.path());
    let path = path.to_str().unwrap();
    let summary = |more: &[&str]| -> Value {
        let text = latscope(&[&["summary", "-r", path, "--by", "none", "--json"], more].concat()).success();
        serde_json::from_str::<Value>(&text).unwrap()["groups"][0].clone()
    };
    let (raw, corrected) = (summary(&[]), summary(&["--correct-omission", "10ms"]));
    assert_eq!((raw["count"].as_u64(), raw["p99_ns"].as_u64().map(|ns| ns < 1_000_000)), (Some(8000), Some(true)));
    // 399 fast ones, and 1000, 990 ... 10 ms.
    assert_eq!(corrected["count"].as_u64(), Some(20 * (399 + 100)));
    let mut truth: Vec<u64> = (0..399).map(|_| 100_000).chain((1..=100).map(|at| at * 10_000_000)).collect();
    truth.sort_unstable();
    for (key, q) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)] {
        let expect = truth[(q * truth.len() as f64).ceil() as usize - 1] as f64;
        let found = corrected[key].as_u64().unwrap() as f64;
        assert!((found - expect).abs() <= expect * 0.02, "{key}: {found} for {expect}");
    }
    let fio = testdata("fio_log/H_clat.1.log.127.0.0.2.zst");
    let refused = latscope(&["summary", "-r", fio.to_str().unwrap(), "--correct-omission", "10ms"]).failure(3);
    assert!(refused.contains("catch up"), "{refused}");
}
