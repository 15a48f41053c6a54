//! Slow and broken places of a device, where the device has them and nowhere else.

use crate::live::lab::{Background, Disk, alone, until};
use crate::program::{LATSCOPE, command, latscope};
use serde_json::Value;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How many of them are the slow one, and not more than half as long again; all have to be.
fn slow_places(found: &[(u64, u64)]) -> usize {
    let is_it = |&(start, length): &(u64, u64)| start.abs_diff(16 * MIB) <= MIB / 2 && length.abs_diff(MIB) <= MIB / 2;
    if found.iter().all(is_it) { found.len() } else { 0 }
}

#[test]
fn a_defect_is_named_by_its_place() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms", "--slow", "20ms", "--slow-at", "16MiB:1MiB", "--fail-at", "40MiB:8KiB"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_string();
    let words = ["lab", "scan", &disk.path, "--size", "64k", "--speed", "64MiB", "-o", &out];
    let ended = latscope(&[&words[..], &["--json"]].concat());
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    let json: Value = serde_json::from_slice(&ended.out).unwrap();
    let regions = json["regions"].as_array().unwrap();
    let named = |key: &str| -> Vec<(u64, u64)> {
        let is_named = |region: &&Value| match key {
            "slower" => !region["slower"].is_null(),
            _ => region["errors"].as_u64() > Some(0),
        };
        let bytes = |region: &Value, key: &str| region[key].as_u64().unwrap();
        regions.iter().filter(is_named).map(|one| (bytes(one, "start_bytes"), bytes(one, "length_bytes"))).collect()
    };
    // Moments may add reads at its edges.
    assert_eq!(slow_places(&named("slower")), 1, "{json}");
    assert_eq!(named("errors"), [(40 * MIB, 64 * KIB)], "{json}");
    let [slow, broken] = ["slower", "errors"].map(|key| {
        regions.iter().find(|one| if key == "slower" { !one[key].is_null() } else { one[key] == 1 }).unwrap()
    });
    assert!(slow["slower"].as_f64().unwrap() > 1.5 && slow["p50_ns"].as_u64().unwrap() >= 20_000_000, "{slow}");
    let again = slow["again_ns"].as_array().unwrap().iter().filter(|ns| ns.as_u64().unwrap() >= 20_000_000);
    assert!(again.count() > 4, "{slow}");
    assert_eq!((&broken["count"], &broken["errors_again"]), (&0.into(), &8.into()), "{broken}");
    // Every byte was read once, and the trace shows it.
    let trace = format!("{out}/scan.lat");
    let events = latscope(&["events", "--csv", "--columns", "offset,size,error", "-r", &trace]).success();
    let rows: Vec<Vec<&str>> = events.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let offsets: Vec<u64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert!(offsets.into_iter().eq((0..1024).map(|number| number * 64 * KIB)), "{events}");
    let failed: Vec<&str> = rows.iter().filter(|row| row[2] == "EIO").map(|row| row[0]).collect();
    assert_eq!(failed, [(40 * MIB).to_string()]);
    let picture = folder.path().join("map.svg");
    latscope(&["heatmap", "-y", "offset", "-r", &trace, "-o", picture.to_str().unwrap()]).success();
    let refused = latscope(&words).failure(2);
    assert!(refused.contains("scan.lat exists"), "{refused}");
    // It never writes.
    let served = disk.served();
    assert!(served.contains("writes 0 "), "{served}");
}

#[test]
fn a_device_without_a_defect_has_none() {
    let Some(_alone) = alone() else { return };
    // Some reads are slow, wherever they are.
    let disk = Disk::new(&["--read", "1ms", "--slow", "30ms", "--every", "97"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_string();
    let words = ["lab", "scan", &disk.path, "--size", "64k", "--speed", "1GiB", "-o", &out];
    let ended = latscope(&words);
    assert!(ended.err.contains("no region is slower than the others, and no read failed"), "{}", ended.err);
    assert!(ended.err.contains("more regions had a slow read and were not slow again"), "{}", ended.err);
    assert_eq!(ended.success().lines().count(), 2, "a heading and the others");
}

#[test]
fn a_scan_that_is_ended_early_has_what_it_read() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let scan = ["lab", "scan", &disk.path, "--size", "64k", "--speed", "8MiB", "-o", &out("one")];
    let scan = Background::new(command(LATSCOPE).args(scan));
    until("a part of it", || scan.printed().contains("10 % read"));
    let ended = scan.interrupt();
    let next = ended.err.split("--start ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    ended.success();
    let words = ["lab", "scan", &disk.path, "--size", "64k", "--speed", "1GiB", "-o", &out("two"), "--start", &next];
    latscope(&words);
    let count = |name: &str| {
        let trace = format!("{}/scan.lat", out(name));
        latscope(&["events", "--csv", "-r", &trace]).success().lines().count() - 1
    };
    assert_eq!(count("one") + count("two"), 1024, "all of it, once");
}

/// A read that is never answered is named while it hangs, and nothing is called healthy that was not read.
#[test]
fn a_place_that_never_answers_is_named() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_string();
    let scan = ["lab", "scan", &disk.path, "--size", "64k", "--speed", "8MiB", "-o", &out];
    let scan = Background::new(command(LATSCOPE).args(scan));
    until("a part of it", || scan.printed().contains("10 % read"));
    disk.signal("STOP");
    until("the read is named", || scan.printed().contains("has waited for"));
    scan.signal("INT");
    until("the result", || scan.printed().contains("was not answered within"));
    disk.signal("CONT");
    let ended = scan.ended();
    assert_eq!(ended.status, Some(1), "{}", ended.err);
    let hung = |text: &str, after: &str| {
        let at = text.split(after).nth(1).unwrap_or_else(|| panic!("{after}: {text}"));
        at.split(' ').next().unwrap().trim_end_matches(';').to_string()
    };
    let place = hung(&ended.err, "the read at ");
    let next = hung(&ended.err, "--start ");
    assert!(!ended.err.contains("no region is slower"), "{}", ended.err);
    // All before it was read, and the scan goes on behind it.
    let trace = format!("{out}/scan.lat");
    let count = latscope(&["events", "--csv", "-r", &trace]).success().lines().count() as u64 - 1;
    let bytes = |text: &str| latscope_event::parse_size(text).unwrap();
    assert!(count * 64 * KIB >= bytes(&place) && bytes(&next) == bytes(&place) + 64 * KIB, "{count} {place} {next}");
}

#[test]
fn what_cannot_be_scanned_is_refused() {
    for (words, expected) in [
        (&["scan"][..], "name it"),
        (&["scan", "."], "not a directory"),
        (&["scan", LATSCOPE, "--quick"], "lab scan takes"),
        (&["scan", LATSCOPE, "--size", "1000"], "multiple of 4KiB"),
        (&["storage", ".", "--speed", "1MiB"], "are for lab scan"),
    ] {
        let refused = latscope(&[&["lab"], words].concat()).failure(2);
        assert!(refused.contains(expected), "{refused}");
    }
}
