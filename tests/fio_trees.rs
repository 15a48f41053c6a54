//! Folders and lists of fio's results as a user has them: hosts of which different things are known, links, several clocks.

use crate::program::{latscope, testdata, unpacked};
use std::collections::BTreeMap;
use std::path::Path;

const EPOCH_MS: i64 = 1_795_225_119_000;
const MS: i64 = 1_000_000;

fn put(top: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = top.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_string()
}

/// A log of ten I/Os of 1 ms each, one every 10 ms; the first completes so long after the zero of its clock.
fn log(first_ms: i64) -> String {
    (0..10).map(|at| format!("{}, 1000000, 0, 4096, 0\n", first_ms + 10 * at)).collect()
}

/// What fio of this version prints of a run: its end, and a job (host, start, run time) for each.
fn json(version: &str, end_ms: i64, jobs: &[(&str, Option<i64>, i64)], options: &str) -> String {
    let job = |&(host, start, run_ms): &(&str, Option<i64>, i64)| {
        let host = if host.is_empty() { String::new() } else { format!(r#""hostname": "{host}", "#) };
        let start = start.map_or(String::new(), |ms| format!(r#""job_start": {ms}, "#));
        format!(
            r#"{{"jobname": "v", {host}{start}"job_runtime": {run_ms}, "job options": {{{options}}}, "read": {{"runtime": {run_ms}}}}}"#
        )
    };
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    format!("{{\"fio version\": \"{version}\", \"timestamp_ms\": {end_ms}, \"jobs\": [{}]}}\n", jobs.join(", "))
}

/// By host and job: the start of the first I/O and how many there are; and what was reported.
fn firsts(arguments: &[&str]) -> (BTreeMap<String, (i64, u32)>, String) {
    let ended = latscope(&[&["events", "--csv", "--columns", "host,job,time"], arguments].concat());
    let printed = ended.err.clone();
    let mut firsts = BTreeMap::new();
    for line in ended.success().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let time_ns: i64 = cells[2].parse().unwrap();
        let first = firsts.entry(format!("{} {}", cells[0], cells[1]).trim().to_string()).or_insert((time_ns, 0));
        *first = (first.0.min(time_ns), first.1 + 1);
    }
    (firsts, printed)
}

/// When the first I/O of [`log`] was issued: a millisecond before the middle of the millisecond in which it completed.
fn first_ns(start_ms: i64, completed_ms: i64) -> i64 {
    (start_ms + completed_ms) * MS + MS / 2 - MS
}

fn starts_of(all: &[(&str, i64)]) -> BTreeMap<String, (i64, u32)> {
    all.iter().map(|&(name, ns)| (name.to_string(), (ns, 10))).collect()
}

/// Sums of counts by group over all intervals.
fn counts(arguments: &[&str]) -> (BTreeMap<String, f64>, String) {
    let ended = latscope(&[&["percentiles", "--csv", "--p", "50"], arguments].concat());
    let printed = ended.err.clone();
    let out = ended.success();
    let heading: Vec<&str> = out.lines().next().unwrap().split(',').collect();
    let count = heading.iter().position(|&name| name == "count").unwrap();
    let mut sums = BTreeMap::new();
    for line in out.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        *sums.entry(if count > 2 { cells[0].into() } else { String::new() }).or_insert(0.0) +=
            cells[count].parse::<f64>().unwrap();
    }
    (sums, printed)
}

#[test]
fn logs_of_every_io_and_histograms_of_another_host_are_one_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().to_str().unwrap();
    let rows = unpacked("fio_log/A_clat.1.log.zst");
    let ios = rows.iter().filter(|&&byte| byte == b'\n').count() as f64;
    put(folder.path(), "clients/a/run_clat.1.log", &rows);
    put(folder.path(), "clients/b/run_clat_hist.1.log", unpacked("fio_hist/A_clat_hist.2.log.zst"));
    let hist = testdata("fio_hist/A_clat_hist.2.log.zst");
    let (of_hist, _) = counts(&["-r", hist.to_str().unwrap(), "-i", "1h"]);
    assert!(ios > 500.0 && of_hist[""] > 500.0);
    for interval in [&["-i", "500ms"][..], &["-i", "100ms"], &["-i", "300ms"], &[]] {
        for share in [&[][..], &["--count-by=completion"]] {
            let options = [&["-r", top], interval, share].concat();
            let (sums, printed) = counts(&[&options[..], &["--by", "host"]].concat());
            assert!(!printed.contains("same I/Os"), "{printed}");
            let expected = [("a", ios), ("b", of_hist[""])];
            for (host, expected) in expected {
                assert!((sums[host] - expected).abs() < 1e-3, "{options:?}: {host} {} {expected}", sums[host]);
            }
            let (all, _) = counts(&options);
            assert!((all[""] - ios - of_hist[""]).abs() < 1e-3, "{options:?}");
        }
    }
    // Each host has the percentiles that it has alone; how much of the last interval is covered is that of the cluster.
    let lines = |arguments: &[&str], host: &str| -> Vec<String> {
        let options = ["percentiles", "--csv", "-i", "1s", "--by", "host", "--p", "50,99"];
        let csv = latscope(&[&options[..], arguments].concat()).success();
        let columns = |line: &str| {
            let but = |&(at, _): &(usize, &str)| at != 4 && at != 14; // rate_per_s, covered_ns
            line.split(',').enumerate().filter(but).map(|(_, text)| text).collect::<Vec<_>>().join(",")
        };
        csv.lines().filter(|line| line.starts_with(host)).map(columns).collect()
    };
    for (host, file) in [("a", "clients/a/run_clat.1.log"), ("b", "clients/b/run_clat_hist.1.log")] {
        let alone = lines(&["-r", &format!("{top}/{file}")], host);
        assert!(alone.len() > 2);
        assert_eq!(lines(&["-r", top], host), alone);
    }
    for verb in ["heatmap", "histogram", "summary", "spectrogram"] {
        latscope(&[verb, "-r", top]).success();
    }
    let summary = latscope(&["summary", "--json", "-r", top]).success();
    assert!(summary.contains(&format!("\"count\":{}", ios + of_hist[""])), "{summary}");
    let printed = latscope(&["percentiles", "--exact", "-r", top]).failure(2);
    assert!(printed.contains("clat_hist") && printed.contains("remove --exact"), "{printed}");
}

#[test]
fn what_is_there_twice_counts_once_and_what_is_given_twice_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let clat = put(folder.path(), "t/run1/a_clat.1.log", log(10));
    let lat = put(folder.path(), "t/run1/a_lat.1.log", log(10));
    let top = folder.path().join("t");
    std::os::unix::fs::symlink("run1", top.join("latest")).unwrap();
    std::os::unix::fs::symlink(".", top.join("loop")).unwrap();
    let top = top.to_str().unwrap();
    let once = |arguments: &[&str]| {
        let (firsts, printed) = firsts(arguments);
        assert_eq!(firsts, starts_of(&[("a.1", first_ns(0, 10))]));
        printed
    };
    assert!(!once(&["-r", top]).contains("more than once"));
    for again in [
        &["-r", top, "-r", &clat][..],
        &["-r", &clat, "-r", &clat],
        &["-r", &clat, "-r", &format!("{top}/latest/a_clat.1.log")],
    ] {
        let printed = once(again);
        assert!(printed.contains("a_clat.1.log given more than once (or through a link): read once."), "{printed}");
    }
    let (sums, printed) = counts(&["-r", &clat, "-r", &lat]);
    assert_eq!(sums[""], 20.0);
    assert!(
        printed.contains("are about the same I/Os, so these count 2 times. Give only one kind of log"),
        "{printed}"
    );
}

#[test]
fn groups_of_threads_start_when_their_group_did() {
    let folder = tempfile::tempdir().unwrap();
    // With group_reporting, the run time of an entry is the sum of those of its threads.
    let entry = |name: &str, group: u32, start_ms: i64| {
        format!(
            r#"{{"jobname": "{name}", "groupid": {group}, "job_start": {start_ms}, "job_runtime": 200, "read": {{"runtime": 100}}}}"#
        )
    };
    let jobs = [entry("a", 0, EPOCH_MS), entry("b", 1, EPOCH_MS + 2000)].join(", ");
    let json =
        format!("{{\"fio version\": \"fio-3.36\", \"global options\": {{\"numjobs\": \"2\"}}, \"jobs\": [{jobs}]}}");
    put(folder.path(), "g.json", json);
    (1..=4).for_each(|number| drop(put(folder.path(), &format!("g_clat.{number}.log"), log(number))));
    let (starts, printed) = firsts(&["-r", folder.path().to_str().unwrap()]);
    let expected = [("g.1", 0, 1), ("g.2", 0, 2), ("g.3", 2000, 3), ("g.4", 2000, 4)];
    let expected = expected.map(|(name, later_ms, first)| (name, first_ns(EPOCH_MS + later_ms, first)));
    assert_eq!(starts, starts_of(&expected));
    assert!(!printed.contains("not known"), "{printed}");
    // A thread more than the JSON has: only the first is known, the others are not guessed.
    put(folder.path(), "g_clat.5.log", log(5));
    let (starts, printed) = firsts(&["-r", folder.path().to_str().unwrap()]);
    assert_eq!(starts["g.3"].0, first_ns(EPOCH_MS, 3));
    assert!(printed.contains("4 logs of unknown start"), "{printed}");
}

#[test]
fn starts_of_an_old_fio_are_estimated() {
    let folder = tempfile::tempdir().unwrap();
    for (host, later_ms) in [("a", 0), ("b", 700)] {
        put(folder.path(), &format!("output.0_clat.1.log.{host}"), log(10));
        let json = json("fio-3.33", EPOCH_MS + later_ms + 3000, &[("", None, 3000)], "");
        put(folder.path(), &format!("json_output.0.{host}"), json);
    }
    let (starts, printed) = firsts(&["-r", folder.path().to_str().unwrap()]);
    let expected = [("a", 0), ("b", 700)].map(|(host, ms)| (format!("{host} output.0.1"), first_ns(EPOCH_MS + ms, 10)));
    assert_eq!(starts, expected.into_iter().map(|(name, ns)| (name, (ns, 10))).collect());
    assert!(printed.contains("2 logs with an estimated start"), "{printed}");
    // One run alone needs none.
    let alone = folder.path().join("output.0_clat.1.log.a");
    let (starts, printed) = firsts(&["-r", alone.to_str().unwrap()]);
    assert_eq!((starts, printed.as_str()), (starts_of(&[("a output.0.1", first_ns(0, 10))]), ""));
}

/// `log_alternate_epoch_clock_id=1`: times since the machine booted.
#[test]
fn times_of_another_clock_start_with_their_job() {
    let folder = tempfile::tempdir().unwrap();
    let options = r#""log_alternate_epoch": "1", "log_alternate_epoch_clock_id": "1""#;
    let starts = [("", Some(EPOCH_MS), 3000), ("", Some(EPOCH_MS + 40), 3000)];
    put(folder.path(), "m.json", json("fio-3.36", EPOCH_MS + 3040, &starts, options));
    let booted_ms = 24_084_458;
    put(folder.path(), "m_clat.1.log", log(booted_ms + 1));
    // This job waited 5 ms longer for its first I/O.
    put(folder.path(), "m_clat.2.log", log(booted_ms + 46));
    let (starts, printed) = firsts(&["-r", folder.path().to_str().unwrap()]);
    // The first I/O started with its job, and both logs are of one clock.
    assert_eq!(starts, starts_of(&[("m.1", EPOCH_MS * MS), ("m.2", (EPOCH_MS + 45) * MS)]));
    // Views count from when the first job started, not from when the machine did.
    let picture = latscope(&["heatmap", "-r", folder.path().to_str().unwrap(), "-o", "-"]).success();
    assert!(picture.contains("began 2026-11-21 01:38:39"), "{}", &picture[..4000]);
    assert!(!printed.contains("not known"), "{printed}");
}

#[test]
fn logs_from_zero_are_laid_to_those_since_1970() {
    let folder = tempfile::tempdir().unwrap();
    let epoch = put(folder.path(), "x/e_clat.1.log", log(EPOCH_MS + 1));
    let later = put(folder.path(), "x/f_clat.1.log", log(EPOCH_MS + 501));
    let zero = put(folder.path(), "y/z_clat.1.log", log(7));
    let (starts, printed) = firsts(&["-r", &zero, "-r", &later, "-r", &epoch]);
    let origin_ns = first_ns(EPOCH_MS, 1);
    assert_eq!(
        starts,
        starts_of(&[("e.1", origin_ns), ("f.1", origin_ns + 500 * MS), ("z.1", origin_ns + first_ns(0, 7))])
    );
    assert!(
        printed.contains("z_clat.1.log: caveat: 1 log of unknown start, assumed to start with the others"),
        "{printed}"
    );
    // Histogram logs since 1970, and files of smallfile, whose names give it.
    let row = |ms: i64| format!("{ms}, 0, 4096, {}5{}\n", "0, ".repeat(1000), ", 0".repeat(855));
    let hist = put(folder.path(), "h/h_clat_hist.1.log", (1..5).map(|at| row(EPOCH_MS + 100 * at)).collect::<String>());
    let small = put(
        folder.path(),
        "s/rsptimes_00_vm_create_1795225119.5.csv",
        "  create,  0.250000,  0.001000\n  create,  0.260000,  0.001000\n",
    );
    let csv = |files: &[&str]| {
        let files = files.iter().flat_map(|file| ["-r", *file]).collect::<Vec<_>>();
        latscope(&[&["percentiles", "--csv", "-i", "1s", "--p", "50", "--count-by=completion"], &files[..]].concat())
            .success()
    };
    for other in [&hist, &small] {
        let csv = csv(&[&zero, other]);
        let times: Vec<i64> =
            csv.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
        assert!(times.iter().all(|time_ns| (EPOCH_MS - 1000..EPOCH_MS + 2000).contains(&(time_ns / MS))), "{csv}");
    }
}

#[test]
fn offsets_add_to_what_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = [("a", Some(EPOCH_MS), 3000)];
    put(folder.path(), "x.json", json("fio-3.38", EPOCH_MS + 3000, &hosts, ""));
    for host in ["a", "b"] {
        put(folder.path(), &format!("x_clat.1.log.{host}"), log(10));
    }
    let epoch = put(folder.path(), "e_clat.1.log.c", log(EPOCH_MS + 10));
    let offsets = |lines: &str| put(folder.path(), "offs", lines);
    let file = |host: &str| folder.path().join(format!("x_clat.1.log.{host}")).to_str().unwrap().to_string();
    let (a, b) = (file("a"), file("b"));
    let at = |ms: i64| first_ns(EPOCH_MS + ms, 10);
    // A time since 1970, or one since the earliest of the others.
    for lines in [format!("b {}\n", EPOCH_MS + 250), "b 250\n".into()] {
        let (starts, printed) = firsts(&["-r", &a, "-r", &b, "-r", &epoch, "--offsets", &offsets(&lines)]);
        assert_eq!(starts, starts_of(&[("a x.1", at(0)), ("b x.1", at(250)), ("c e.1", at(0))]), "{lines}");
        assert!(!printed.contains("not known") && !printed.contains("offsets"), "{printed}");
    }
    // Clocks that are wrong are moved too; a line of no host is named.
    let (starts, printed) = firsts(&["-r", &a, "-r", &epoch, "--offsets", &offsets("c -30\nvm9 1\na:x.2 5\n")]);
    assert_eq!(starts, starts_of(&[("a x.1", at(0)), ("c e.1", at(-30))]));
    assert!(printed.contains("no input is from a:x.2, vm9"), "{printed}");
    // Where nothing gives a time since 1970, offsets count from zero, and who is not named is reported.
    let lone = put(folder.path(), "y/y_clat.1.log.d", log(10));
    let (starts, printed) = firsts(&["-r", &lone, "-r", &b, "--offsets", &offsets("b 250\n")]);
    assert_eq!(starts, starts_of(&[("b x.1", first_ns(250, 10)), ("d y.1", first_ns(0, 10))]));
    assert!(printed.contains("1 log of unknown start"), "{printed}");
}

/// A usual tree of CBT: `log_avg_msec` and plain JSON.
#[test]
fn averages_are_drawn_although_there_is_json_without_histograms() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (1..=20).map(|at| format!("{}, {}, 0, 0, 0\n", at * 500, 900_000 + at)).collect();
    for kind in ["clat", "lat", "slat"] {
        put(folder.path(), &format!("output.0_{kind}.1.log.vm1"), &rows);
    }
    put(folder.path(), "json_output.0.vm1", json("fio-3.33", EPOCH_MS, &[("", None, 10_000)], ""));
    let top = folder.path().to_str().unwrap();
    let picture = latscope(&["heatmap", "-r", top, "-o", "-"]).success();
    assert!(picture.contains("20 rows are averages over a window"));
    for verb in ["percentiles", "histogram", "summary"] {
        let printed = latscope(&[verb, "-r", top]).failure(3);
        assert!(
            printed.contains("averages over a window") && printed.contains("latscope heatmap"),
            "{verb}: {printed}"
        );
    }
}

/// `--write_lat_log` behind the second `--name`; the same I/Os as logs and as JSON; a trace in several formats.
#[test]
fn what_a_folder_loses_or_a_list_doubles_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let job = |name: &str, options: &str, ios: u32| {
        format!(
            r#"{{"jobname": "{name}", "job options": {{{options}}}, "job_runtime": 100, "read": {{"total_ios": {ios}, "runtime": 100,
            "clat_ns": {{"N": {ios}, "min": 1000000, "max": 1000000, "mean": 1000000.0, "bins": {{"1003520": {ios}}}}}}}}}"#
        )
    };
    let jobs = [job("alpha", "", 1999), job("beta", r#""write_lat_log": "run""#, 10)].join(", ");
    let json = put(folder.path(), "t/run.json", format!("{{\"fio version\": \"fio-3.33\", \"jobs\": [{jobs}]}}\n"));
    let log = put(folder.path(), "t/run_clat.2.log", log(10));
    let top = folder.path().join("t");
    let of_folder = latscope(&["summary", "-r", top.to_str().unwrap()]);
    let printed = &of_folder.err;
    assert!(
        printed.contains("run.json: job alpha (1,999 I/Os) has no log and is missing from all numbers."),
        "{printed}"
    );
    assert!(printed.contains("the same I/Os: 1 JSON result in part."), "{printed}");
    let both = latscope(&["summary", "--json", "-r", &log, &json]);
    assert!(both.err.contains("are about the same I/Os, so these count 2 times."), "{}", both.err);
    assert!(both.success().contains("\"count\":2019"));

    let lab = folder.path().join("lab");
    let lat = put(folder.path(), "lab/a.lat", std::fs::read(testdata("lat/io.lat")).unwrap());
    for ending in ["csv", "jsonl", "parquet"] {
        latscope(&["convert", "-r", &lat, "-w", lab.join(format!("b.{ending}")).to_str().unwrap()]).success();
    }
    let printed = latscope(&["summary", "-r", lab.to_str().unwrap()]).err;
    let list = "3 more files are skipped (1 csv, 1 json_lines, 1 parquet: b.csv, b.jsonl, b.parquet); -r ";
    assert!(printed.contains(list) && printed.contains("/lab/* reads them too."), "{printed}");
}
