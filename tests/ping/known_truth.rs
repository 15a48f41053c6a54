//! What `ping` finds where the latency is known. Only minimum and median are looked at: the rest is the machine's.

use crate::live::alone;
use crate::live::lab::{Disk, signal};
use crate::program::{LATSCOPE, command, end, latscope};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The final statistics of a run that has to succeed.
#[track_caller]
fn measured(arguments: &[&str]) -> Value {
    let text = latscope(&[&["ping", "-J", "-q"], arguments].concat()).success();
    let all: Value = serde_json::from_str(&text).unwrap();
    all.as_array().unwrap().last().unwrap()["stat"].clone()
}

#[test]
fn minimum_and_median_are_those_of_the_file() {
    let Some(_alone) = alone() else { return };
    for (delay, ns, count) in [("100us", 100_000, "2000"), ("1ms", 1_000_000, "600"), ("5ms", 5_000_000, "200")] {
        let disk = Disk::new(&["--read", delay]);
        // The server of the file waits for a CPU like anybody, which makes whole rounds slower, and none faster.
        let round = || {
            let found = measured(&["-C", "-i", "0", "-c", count, disk.file().to_str().unwrap()]);
            (found["min"].as_u64().unwrap(), found["p50"].as_u64().unwrap())
        };
        let most = ns + ns / 10 + 60_000;
        let (mut min, mut p50) = (u64::MAX, u64::MAX);
        for _ in 0..12 {
            let found = round();
            assert!(found.0 >= ns && found.1 >= ns, "{delay}: faster than it can be, {found:?}");
            (min, p50) = (min.min(found.0), p50.min(found.1));
            if min < ns + 100_000 && p50 < most {
                break;
            }
        }
        assert!(min < ns + 100_000 && p50 < most, "{delay}: minimum {min}, median {p50}");
    }
}

#[test]
fn an_open_loop_tells_of_a_stall_what_a_closed_one_hides() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "100us", "--stall", "500ms", "--period", "1s"]);
    let open = measured(&["--rate", "200", "-D", "-w", "4", &disk.path]);
    let closed = measured(&["-i", "5ms", "-D", "-w", "4", &disk.path]);
    let p50 = |found: &Value| found["p50"].as_u64().unwrap();
    assert!(open["min"].as_u64().unwrap() < 1_000_000 && closed["min"].as_u64().unwrap() < 1_000_000);
    // Half of all arrivals wait; so the median is about where waiting begins, and p90 far beyond it.
    assert!(open["p90"].as_u64().unwrap() > 300_000_000, "{open}");
    assert!(p50(&closed) < 20_000_000, "a closed loop makes few requests during a stall: {closed}");
}

#[test]
fn a_request_that_hangs_is_told_and_counted() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "100us"]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let child = command(LATSCOPE)
        .args(["ping", "-D", "-q", "-i", "1ms", "--timeout", "300ms", "-J", "--trace"])
        .args([trace.as_path(), disk.path.as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    disk.signal("STOP");
    std::thread::sleep(Duration::from_millis(800));
    signal(child.id(), "INT");
    let since = Instant::now();
    // It tells what it knows though its request hangs; the process itself can end only with the request.
    std::thread::sleep(Duration::from_millis(1800));
    disk.signal("CONT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has been waiting for"), "{said}");
    assert!(since.elapsed() < Duration::from_secs(30));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all.as_array().unwrap().last().unwrap()["stat"]["count"].as_u64().unwrap() > 10);
    let summary = latscope(&["summary", "-r", trace.to_str().unwrap()]).success();
    assert!(summary.contains("longest without a completion"), "{summary}");
}

#[test]
fn several_targets_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    [&a, &b].iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let trace = folder.path().join("both.lat");
    let mut ping = command(LATSCOPE);
    let text = end(ping.args(["ping", "-i", "1ms", "-c", "50", "-w"]).args([&trace, &a, &b]), b"").success();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains(" 49 ")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    let counted = latscope(&["summary", "-r", trace.to_str().unwrap(), "--by", "path,kind", "--json"]).success();
    let counted: Value = serde_json::from_str(&counted).unwrap();
    let counts: Vec<_> = counted["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["kind"].as_str(), group["count"].as_u64()))
        .collect();
    assert_eq!(counts, [(Some("read"), Some(50)); 2], "a trace holds the warm-up too");
    assert_eq!(std::fs::read_dir(&a).unwrap().count(), 0);
}

#[test]
fn thresholds_and_percentiles_need_enough_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let found = measured(&["-C", "-i", "0", "-c", "200", path]);
    assert!(found["p90"].is_u64() && found["p99"].is_null(), "{found}");
    latscope(&["ping", "-q", "-C", "-i", "0", "-c", "200", "--fail-if", "p50 > 1ns", path]).failure(1);
    latscope(&["ping", "-q", "-C", "-i", "0", "-c", "200", "--fail-if", "p50 > 1h", path]).success();
    // Data in memory is not cold, wherever it is said to be.
    let hot = measured(&["--cache", "hot", "-i", "0", "-c", "100", path]);
    assert_eq!(hot["count"], 99);
}
