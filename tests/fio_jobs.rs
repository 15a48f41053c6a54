//! fio's JSON without logs: histograms of whole jobs, of which nobody knows when in the job an I/O was.

use crate::program::{installed, latscope, testdata, unpacked};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const MS: i64 = 1_000_000;

/// The objects of `percentiles --json`.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let text = latscope(&[&["percentiles", "--json"], arguments].concat()).success();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What fio's JSON says of a direction, read by itself: job, kind, host, count and percentiles.
fn directions(json: &str) -> Vec<([String; 3], u64, Value)> {
    let all: Value =
        serde_json::Deserializer::from_str(&json[json.find('{').unwrap()..]).into_iter().next().unwrap().unwrap();
    let jobs = all.get("jobs").or(all.get("client_stats")).and_then(Value::as_array).unwrap();
    let mut found = Vec::new();
    for job in jobs.iter().filter(|job| job["jobname"] != "All clients") {
        for (kind, latencies) in [("read", "clat_ns"), ("write", "clat_ns"), ("trim", "clat_ns"), ("sync", "lat_ns")] {
            let of = &job[kind][latencies];
            if of["N"].as_u64().unwrap_or(0) > 0 {
                let text = |key: &str| job[key].as_str().unwrap_or("-").to_string();
                let names = [text("jobname"), kind.to_string(), text("hostname")];
                found.push((names, of["N"].as_u64().unwrap(), of["percentile"].clone()));
            }
        }
    }
    found
}

/// Each direction of each job is one row with fio's own count and percentiles, whatever the interval.
fn assert_is_one_row_per_job(json: &str, path: &str) {
    let expected = directions(json);
    for interval in ["1s", "100ms", "1ms", "1h"] {
        let options = ["-i", interval, "--by", "job,kind,host", "--p", "50,90,99", "--percentile-rule", "fio"];
        let rows = rows(&[&["-r", path][..], &options].concat());
        let name_and_count = |row: &Value| {
            let names = ["job", "kind", "host"].map(|key| row[key].as_str().unwrap().to_string());
            (names, row["count"].as_u64().unwrap())
        };
        let mut found: Vec<_> = rows.iter().map(name_and_count).collect();
        let mut counts: Vec<_> = expected.iter().map(|(names, count, _)| (names.clone(), *count)).collect();
        // Threads of one name are one job.
        counts.sort();
        counts.dedup_by(|next, last| {
            let same = next.0 == last.0;
            last.1 += if same { next.1 } else { 0 };
            same
        });
        found.sort();
        assert_eq!(found, counts, "-i {interval}");
        for (names, count, percentiles) in &expected {
            let row = rows.iter().find(|row| name_and_count(row) == (names.clone(), *count));
            let Some(row) = row else { continue };
            for (key, theirs) in [("p50_ns", "50.000000"), ("p90_ns", "90.000000"), ("p99_ns", "99.000000")] {
                assert_eq!(row[key].as_u64(), percentiles[theirs].as_u64(), "{names:?} {key}");
            }
            assert_eq!((row["incomplete"].as_bool(), row["at_least"].as_str()), (Some(false), Some("")));
        }
    }
}

#[test]
fn json_is_one_row_per_job_whatever_the_interval() {
    for name in ["A", "B", "H"] {
        let packed = format!("fio_json/{name}.json.zst");
        let path = testdata(&packed);
        assert_is_one_row_per_job(&String::from_utf8(unpacked(&packed)).unwrap(), path.to_str().unwrap());
    }
    // All jobs of a run that overlap are one row without groups, and with --all.
    let path = testdata("fio_json/A.json.zst");
    let path = path.to_str().unwrap();
    let ended = latscope(&["percentiles", "-r", path, "-i", "10ms"]);
    assert!(ended.err.contains("of whole jobs: one interval"), "{}", ended.err);
    let text = ended.success();
    assert_eq!(text.lines().filter(|line| !line.starts_with(['?', '*'])).count(), 2, "a heading and a row: {text}");
    assert_eq!(rows(&["-r", path, "-i", "10ms", "--by", "kind", "--all"]).len(), 3);
}

/// A condition that must hold in five intervals cannot hold in one.
#[test]
fn one_job_is_one_interval_for_fail_if_and_charts() {
    let path = testdata("fio_json/A.json.zst");
    let path = path.to_str().unwrap();
    let judged = |condition| latscope(&["percentiles", "-r", path, "-i", "100ms", "--fail-if", condition]);
    judged("max > 1us for 2 intervals").success();
    let printed = judged("max > 1us").failure(1);
    assert!(printed.contains("max > 1us in 1 of 1 interval, worst max = "), "{printed}");
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("a.svg");
    latscope(&["percentiles", "-r", path, "-i", "100ms", "-o", svg.to_str().unwrap(), "--fail-if", "max > 1h"])
        .success();
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("histograms of whole jobs") && svg.contains("in 0 of 1 intervals"), "{}", &svg[..3000]);
}

#[test]
fn nothing_is_drawn_over_time() {
    let path = testdata("fio_json/H.json.zst");
    let path = path.to_str().unwrap();
    for arguments in [&["heatmap", "-o", "-"][..], &["spectrogram"], &["spectrogram", "-i", "100ms", "--by", "kind"]] {
        let printed = latscope(&[arguments, &["-r", path]].concat()).failure(3);
        assert!(printed.contains("whole jobs") && printed.contains("write_lat_log"), "{arguments:?}: {printed}");
    }
    // What is of the whole time counts them as ever.
    let json = String::from_utf8(unpacked("fio_json/H.json.zst")).unwrap();
    let count: u64 = directions(&json).iter().map(|(_, count, _)| count).sum();
    let histogram = latscope(&["histogram", "-r", path]).success();
    let with_commas = |count: u64| format!("{},{:03}", count / 1000, count % 1000);
    assert!(histogram.contains(&format!("count {}", with_commas(count))), "{histogram}");
    // HdrHistogram's logs have intervals of any length; a row each.
    let folder = tempfile::tempdir().unwrap();
    let hlog = folder.path().join("H.hlog");
    latscope(&["convert", "-r", path, "-w", hlog.to_str().unwrap(), "--by", "kind"]).success();
    let kept = std::fs::read_to_string(&hlog).unwrap();
    assert_eq!(kept.lines().filter(|line| line.starts_with("Tag=")).count(), 2, "{kept}");
}

/// Jobs that follow each other (`stonewall`), and `fdatasync=1`, as the etcd recipe has it.
#[test]
fn a_run_of_fio_with_jobs_one_after_the_other_and_syncs() {
    if !installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let jobs = "[global]\nsize=256k\nbs=4k\nioengine=psync\nrate_iops=200\ntime_based=1\n\
                [first]\nrw=read\nruntime=1\n[second]\nstonewall\nrw=randwrite\nfdatasync=1\nruntime=2\n";
    std::fs::write(folder.path().join("jobs.fio"), jobs).unwrap();
    let mut fio = Command::new("fio");
    fio.current_dir(folder.path()).args(["--output-format=json+", "--output=run.json", "jobs.fio"]);
    assert!(fio.output().unwrap().status.success());
    let path = folder.path().join("run.json");
    let json = std::fs::read_to_string(&path).unwrap();
    let path = path.to_str().unwrap();
    assert_is_one_row_per_job(&json, path);
    assert!(directions(&json).iter().any(|(names, ..)| names[1] == "sync"), "{json}");
    // Without groups, a row for each of the two.
    let rows = rows(&["-r", path, "-i", "100ms"]);
    let times: Vec<(i64, i64)> =
        rows.iter().map(|row| (row["time_ns"].as_i64().unwrap(), row["width_ns"].as_i64().unwrap())).collect();
    let [(first, length), (second, _)] = times[..] else { panic!("{rows:?}") };
    assert!((first + length - second).abs() <= 100 * MS, "{times:?}");
    // The default groups of fio are not those of devices.
    let summary = latscope(&["summary", "-r", path]).success();
    let starts = |line: &str, words: [&str; 2]| line.split_whitespace().take(2).eq(words);
    for words in [["first", "read"], ["second", "write"], ["second", "sync"]] {
        assert!(summary.lines().any(|line| starts(line, words)), "{summary}");
    }
}

/// An I/O that failed before any completed is no I/O whose latency was not measured.
#[test]
fn a_job_that_failed_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // As fio 3.33 writes it of a trim on a file system.
    let json = r#"{"fio version": "fio-3.33", "timestamp_ms": 1795341571481, "jobs": [{"jobname": "t", "error": 25,
        "trim": {"total_ios": 1, "runtime": 0, "clat_ns": {"min": 0, "max": 0, "N": 0}}, "job_runtime": 0}]}"#;
    let path = folder.path().join("t.json");
    std::fs::write(&path, json).unwrap();
    let printed = latscope(&["summary", "-r", path.to_str().unwrap()]).failure(3);
    assert!(
        printed.contains("Job t (trim): It failed before an I/O completed: error 25 (Inappropriate ioctl"),
        "{printed}"
    );
}

/// A freeze of two seconds in a run with `log_avg_msec=100`: 250 I/Os in each other second, one of 2 s.
fn frozen(folder: &Path) {
    let row = |ms: i64, ns: i64| format!("{ms}, {ns}, 1, 0, 0\n");
    let rows: String = (1..=60)
        .filter(|at| !(21..40).contains(at))
        .map(|at| row(at * 100, if at == 40 { 80_000_000 } else { 20_000 }))
        .collect();
    std::fs::write(folder.join("run_clat.1.log"), rows).unwrap();
    let json = r#"{"fio version": "fio-3.33", "timestamp_ms": 1795341576000, "jobs": [{"jobname": "run",
        "job options": {"log_avg_msec": "100", "write_lat_log": "run"}, "job_runtime": 6000, "write": {"total_ios": 1001,
        "runtime": 6000, "clat_ns": {"min": 20000, "max": 2000000000, "N": 1001, "bins": {"20096": 1000, "1995440128": 1}}}}]}"#;
    std::fs::write(folder.join("run.json"), json).unwrap();
}

#[test]
fn averages_that_show_a_freeze_come_before_the_json_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let top = folder.path().to_str().unwrap();
    let ended = latscope(&["percentiles", "--csv", "-r", top, "-i", "1s", "--count-by=completion"]);
    let why =
        "Averages (log_avg_msec) are read: unlike the JSON's histograms of whole jobs, they show when it was slow";
    assert!(ended.err.contains(why) && ended.err.contains("averages over a window"), "{}", ended.err);
    let csv = ended.success();
    let counts: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
    assert_eq!(counts, ["9", "10", "1", "0", "10", "10", "1"], "nothing in the fourth second");
    let printed = |condition| latscope(&["percentiles", "-r", top, "-i", "1s", "--fail-if", condition]);
    printed("max > 1s for 5 intervals").success();
    printed("max > 50ms").failure(1);
    let picture = latscope(&["heatmap", "-r", top, "-o", "-"]);
    assert!(picture.err.contains(why), "{}", picture.err);
    assert!(picture.success().contains("41 rows are averages over a window"));
    // What is of the whole time goes by the histograms.
    let json = latscope(&["summary", "--json", "-r", top]).success();
    let summary: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["total"]["count"].as_u64(), Some(1001), "{json}");
}

/// A host with logs and one with nothing but the JSON: that one has no place among intervals, and is named.
#[test]
fn whole_jobs_are_left_out_of_intervals_of_others() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let log = folder.path().join("other_clat.1.log");
    std::fs::write(&log, (1..=30).map(|at| format!("{}, 5000, 0, 4096, 0\n", at * 100)).collect::<String>()).unwrap();
    let json = folder.path().join("run.json");
    let files = ["-r", log.to_str().unwrap(), "-r", json.to_str().unwrap()];
    let ended = latscope(&[&["percentiles", "--csv", "-i", "1s"][..], &files].concat());
    assert!(ended.err.contains("run.json: skipped, so the I/Os of these jobs are missing"), "{}", ended.err);
    let sum: f64 =
        ended.success().lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse::<f64>().unwrap()).sum();
    assert_eq!(sum.round(), 30.0);
    let summary = latscope(&[&["summary", "--json"][..], &files].concat()).success();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["total"]["count"].as_u64(), Some(1031));
}

/// Intervals of other programs may be longer than those asked for: what is then spread over several is reported to be.
#[test]
fn longer_stored_intervals_that_are_spread_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let hlog = folder.path().join("A.hlog");
    let hlog = hlog.to_str().unwrap();
    let hist = testdata("fio_hist/A_clat_hist.1.log.zst");
    latscope(&["convert", "-r", hist.to_str().unwrap(), "-w", hlog, "-i", "1s"]).success();
    let printed = |interval| latscope(&["percentiles", "-r", hlog, "-i", interval]).err;
    assert!(printed("100ms").contains("longer than the intervals shown"), "{}", printed("100ms"));
    assert!(!printed("1s").contains("longer intervals"), "{}", printed("1s"));
}
