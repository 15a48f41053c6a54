//! Logs of fio as a user reads them: many files, in any order, on any number of processors, whole or damaged.

use crate::program::{LATSCOPE, command, end, installed, latscope, latscope_with, testdata, unpacked};
use std::path::PathBuf;

/// The four jobs of one run, unpacked into a folder.
fn jobs(folder: &std::path::Path) -> Vec<PathBuf> {
    let one = |number: u32| {
        let path = folder.join(format!("A_clat.{number}.log"));
        std::fs::write(&path, unpacked(&format!("fio_log/A_clat.{number}.log.zst"))).unwrap();
        path
    };
    (1..=4).map(one).collect()
}

fn reading<'a>(verb: &[&'a str], files: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a str> {
    let files = files.into_iter().flat_map(|file| ["-r", file.to_str().unwrap()]);
    verb.iter().copied().chain(files).collect()
}

#[test]
fn the_order_of_files_and_the_number_of_processors_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let concatenated = folder.path().join("all_clat.log");
    std::fs::write(&concatenated, jobs.iter().flat_map(|job| std::fs::read(job).unwrap()).collect::<Vec<u8>>())
        .unwrap();
    let gzipped: Vec<PathBuf> = jobs.iter().map(|job| job.with_extension("log.gz")).collect();
    for (job, gzipped) in jobs.iter().zip(&gzipped) {
        let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(gzipped).unwrap(), Default::default());
        std::io::copy(&mut std::fs::File::open(job).unwrap(), &mut encoder).unwrap();
        encoder.finish().unwrap();
    }
    for verb in [
        &["percentiles", "--csv", "-i", "500ms"][..],
        &["percentiles", "--json"],
        &["percentiles", "--csv", "-i", "1s", "--count-by=completion", "kind = write"],
        &["percentiles", "--csv", "-i", "1s", "--by", "kind"],
    ] {
        let expected = latscope(&reading(verb, &jobs)).success();
        assert!(expected.lines().count() > 3, "{verb:?}");
        assert_eq!(
            latscope(&reading(verb, jobs.iter().rev())).success(),
            expected,
            "{verb:?}, from the last to the first"
        );
        assert_eq!(latscope(&reading(verb, &gzipped)).success(), expected, "{verb:?}, compressed");
        assert_eq!(latscope(&reading(verb, [&concatenated])).success(), expected, "{verb:?}, in one file");
        if installed("taskset") {
            let alone = end(command("taskset").args(["-c", "0", LATSCOPE]).args(reading(verb, &jobs)), b"");
            assert_eq!(alone.success(), expected, "{verb:?}, on one processor");
        }
    }
    // Groups stand in the order in which they appear in the files.
    let by_job = latscope(&reading(&["percentiles", "--csv", "-i", "1h", "--by", "job"], &jobs)).success();
    let places: Vec<_> = (1..=4).map(|number| by_job.find(&format!("A.{number}"))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{by_job}");
}

/// Times are those of `job_start`, whether the JSON beside the log is packed or not.
#[test]
fn packed_json_beside_a_log_says_when_its_job_started() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat.1.log");
    std::fs::write(&log, "1000, 5000, 0, 4096, 0\n2000, 6000, 0, 4096, 0\n").unwrap();
    let json = br#"{"fio version": "fio-3.42", "jobs": [{"jobname": "run", "job_start": 1795225119442, "job_runtime": 2000}]}"#;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    std::io::copy(&mut &json[..], &mut gzip).unwrap();
    let zstd = zstd::encode_all(&json[..], 1).unwrap();
    let lines = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let lines = latscope(&["percentiles", "--csv", "-i", "1s", "-r", log.to_str().unwrap()]).success();
        std::fs::remove_file(file).unwrap();
        lines
    };
    let plain = lines("run.json", json);
    assert!(plain.contains("17952251"), "{plain}");
    assert_eq!(lines("run.json.gz", &gzip.finish().unwrap()), plain);
    assert_eq!(lines("run.json.zst", &zstd), plain);
}

/// As a shell expands `-r run/*.log`.
#[test]
fn files_behind_the_first_one_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let names: Vec<&str> = jobs.iter().map(|job| job.to_str().unwrap()).collect();
    for filter in [&[][..], &["kind = write"], &["kind", "=", "write"]] {
        let each = [&reading(&["summary", "--json"], &jobs)[..], filter].concat();
        let glob = [&["summary", "--json", "-r"], &names[..], filter].concat();
        let expected = latscope(&each).success();
        assert_eq!(latscope(&glob).success(), expected);
    }
    let printed = latscope(&["summary", "-r", names[0], "no-such-file.log"]).failure(2);
    assert!(printed.contains("no-such-file.log"), "{printed}");
}

#[test]
fn the_first_file_that_fails_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = jobs(folder.path());
    for number in 5..20 {
        let path = folder.path().join(format!("A_clat.{number}.log"));
        std::fs::write(&path, "1, 5, 0, 4096, 0\n2, 18446744073709551615, 0, 4096, 0\n3, 5, 0, 4096, 0\n").unwrap();
        files.push(path);
    }
    let printed = latscope(&reading(&["percentiles"], &files)).failure(3);
    assert!(printed.contains("A_clat.5.log:2: The row has a latency of more than 292 years"), "{printed}");
    let lenient =
        latscope(&reading(&["percentiles", "--lenient", "--count-by=completion", "-i", "1h", "--json"], &files));
    assert!(lenient.err.contains("15 malformed rows"), "{}", lenient.err);
    let first = "A_clat.5.log and 14 more: the first malformed row is line 2: it has a latency of more than 292 years";
    assert!(lenient.err.contains(first), "{}", lenient.err);
    let rows: usize = (1..=4).map(|number| unpacked(&format!("fio_log/A_clat.{number}.log.zst"))).map(lines).sum();
    let expected = format!("\"count\":{}", rows + 15 * 2);
    assert!(lenient.success().contains(&expected), "{expected}");
}

fn lines(text: Vec<u8>) -> usize {
    text.iter().filter(|&&byte| byte == b'\n').count()
}

/// A job that did no such I/O leaves an empty log, a synchronous engine an empty slat log.
#[test]
fn an_empty_log_among_others_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let empty: Vec<PathBuf> = ["A_clat.5.log", "A_slat.1.log", "A_lat.5.log.zst", "B_clat.1.log.gz"]
        .map(|name| folder.path().join(name))
        .into();
    std::fs::write(&empty[0], b"").unwrap();
    std::fs::write(&empty[1], b"").unwrap();
    std::fs::write(&empty[2], zstd::encode_all(&b""[..], 1).unwrap()).unwrap();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::fs::write(&empty[3], gzip.finish().unwrap()).unwrap();
    let verb = ["percentiles", "--csv", "-i", "500ms"];
    let expected = latscope(&reading(&verb, &jobs)).success();
    for files in [jobs.iter().chain(&empty), empty.iter().chain(&jobs)] {
        let all = latscope(&reading(&verb, files));
        assert!(all.err.contains("4 empty logs"), "{}", all.err);
        assert_eq!(all.success(), expected);
    }
    // Nothing but empty ones make a table without a line, however long its intervals.
    let heading = format!("{}\n", expected.lines().next().unwrap());
    let hist = folder.path().join("A_clat_hist.1.log");
    std::fs::write(&hist, b"").unwrap();
    for file in [&empty[0], &hist] {
        assert_eq!(latscope(&reading(&verb, [file])).success(), heading, "{}", file.display());
    }
}

#[test]
fn histogram_logs_come_through_pipes() {
    let path = testdata("fio_hist/A_clat_hist.1.log.zst");
    let path = path.to_str().unwrap();
    for verb in [&["percentiles", "--csv", "-i", "500ms", "--by", "kind"][..], &["percentiles", "--csv"]] {
        let expected = latscope(&[verb, &["-r", path]].concat()).success();
        assert!(expected.lines().count() > 3);
        for bytes in [unpacked("fio_hist/A_clat_hist.1.log.zst"), std::fs::read(path).unwrap()] {
            assert_eq!(latscope_with(&[verb, &["-r", "-"]].concat(), &bytes).success(), expected, "{verb:?}");
        }
    }
    let printed = latscope(&["events", "-r", path]).failure(3);
    assert!(printed.contains("not single events"), "{printed}");
}

/// What counts from its own start has nothing before it, however long it took.
#[test]
fn nothing_is_before_the_start_of_a_relative_log_of_hdrhistogram() {
    let folder = tempfile::tempdir().unwrap();
    let hlog = folder.path().join("A.hlog");
    let hlog = hlog.to_str().unwrap();
    let log = testdata("fio_log/A_clat.1.log.zst");
    latscope(&["convert", "-r", log.to_str().unwrap(), "-w", hlog, "-i", "500ms"]).success();
    let csv = latscope(&["percentiles", "--csv", "-r", hlog, "-i", "500ms"]).success();
    let first = csv.lines().nth(1).unwrap();
    assert!(first.starts_with("0,"), "{csv}");
}

/// Stored histograms count where their events completed, and so do all others with `--count-by completion`.
#[test]
fn stored_histograms_go_together_with_logs() {
    let folder = tempfile::tempdir().unwrap();
    let stored = folder.path().join("a.parquet");
    let stored = stored.to_str().unwrap();
    let [one, two, rows] = ["fio_log/A_clat.1.log.zst", "fio_log/A_clat.2.log.zst", "fio_hist/A_clat_hist.3.log.zst"]
        .map(|name| testdata(name).to_str().unwrap().to_string());
    latscope(&["convert", "--series", "-i", "500ms", "-r", &one, "-w", stored]).success();
    let printed = |files: [&str; 3], options: &[&str]| {
        let files = files.iter().flat_map(|&file| ["-r", file]);
        let all: Vec<&str> =
            ["percentiles", "--csv", "-i", "500ms"].into_iter().chain(files).chain(options.iter().copied()).collect();
        latscope(&all)
    };
    let mixed = printed([stored, &two, &rows], &["--count-by=completion"]).success();
    // But for the mark of what is in flight at the end, and for digits of means of exact sums.
    let first = |csv: &str| csv.lines().flat_map(|line| line.split(',').take(3).map(String::from)).collect::<Vec<_>>();
    assert_eq!(first(&mixed), first(&printed([&one, &two, &rows], &["--count-by=completion"]).success()));
    let printed = printed([stored, &two, &rows], &[]).failure(2);
    assert!(
        printed.contains("by overlap. Stored histograms count by completion; use --count-by completion."),
        "{printed}"
    );
}

#[test]
fn columns_may_be_given() {
    let log = testdata("fio_log/u_clat.1.log");
    let log = log.to_str().unwrap();
    let events =
        |columns| latscope(&["events", "--csv", "--columns", "size,offset", "-r", log, "--log-columns", columns]);
    let inferred = latscope(&["events", "--csv", "--columns", "size,offset", "-r", log]).success();
    assert_eq!(events("time,value,direction,size,priority").success(), inferred);
    assert_ne!(events("time,value,direction,size,offset").success(), inferred);
    assert!(events("time,direction,value,size").failure(2).contains("in this order"));
    assert!(events("time,value,direction,size").failure(3).contains("No row of a fio latency log"));
    // Where nothing else is called so, the short name is enough.
    let by = |option| latscope(&["summary", "--by", "offset", "-r", log, option, "time,value,direction,size,offset"]);
    assert_eq!(by("--columns").success(), by("--log-columns").success());
}

#[test]
fn averages_over_windows_are_drawn_but_make_no_percentiles() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a_clat.1.log");
    let rows: String = (1..=20).map(|at| format!("{}, {}, 0, 0, 0\n", at * 500, 900_000 + at)).collect();
    std::fs::write(&log, rows).unwrap();
    let log = log.to_str().unwrap();
    for verb in ["percentiles", "histogram", "summary"] {
        let printed = latscope(&[verb, "-r", log]).failure(3);
        assert!(
            printed.contains("averages over a window") && printed.contains("latscope heatmap"),
            "{verb}: {printed}"
        );
    }
    let picture = latscope(&["heatmap", "-r", log, "-o", "-"]);
    let picture = picture.success();
    assert!(picture.contains("20 rows are averages over a window"), "the picture says what it shows");
    assert_eq!(latscope(&["events", "--csv", "-r", log]).success().lines().count(), 21);
}

#[test]
fn histograms_go_to_hdrhistogram_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let hist = testdata("fio_hist/A_clat_hist.1.log.zst");
    let hist = hist.to_str().unwrap();
    // Each row counts where it is written, since a row that is spread has no whole counts.
    for (source, by) in [(hist, "kind"), ("testdata/fio_log/A_clat.1.log.zst", "kind")] {
        let (hlog, again) = (path("run.hlog"), path("again.hlog"));
        latscope(&["convert", "-f", "-r", source, "-w", &hlog, "-i", "1s", "--by", by]).success();
        latscope(&["convert", "-f", "-r", &hlog, "-w", &again, "-i", "1s", "--by", "job"]).success();
        let percentiles = |file: &str, by: &str| {
            let csv = latscope(&["percentiles", "-r", file, "-i", "1s", "--by", by, "--csv", "--count-by=completion"])
                .success();
            let mut rows: Vec<String> = csv.lines().skip(1).map(str::to_string).collect();
            rows.sort();
            rows
        };
        let (hlog, again) = (percentiles(&hlog, "job"), percentiles(&again, "job"));
        assert!(hlog.len() >= 4 && hlog.iter().any(|row| row.contains("read")), "{hlog:?}");
        assert_eq!(hlog, again, "{source}");
    }
    assert!(latscope(&["convert", "-r", hist, "-w", &path("x.csv"), "-i", "1s"]).failure(2).contains("--series"));
}

/// Files below a folder, by their names in it.
fn tree(top: &std::path::Path, files: &[(String, Vec<u8>)]) -> String {
    for (name, bytes) in files {
        let path = top.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    top.to_str().unwrap().to_string()
}

/// The results of a run with this start of its one job, as fio 3.42 prints them behind a warning.
fn results(banner: &str, member: &str, jobs: &[(&str, u64)]) -> Vec<u8> {
    let job = |&(host, start): &(&str, u64)| {
        let host = if host.is_empty() { String::new() } else { format!(r#""hostname": "{host}", "#) };
        format!(r#"{{"jobname": "v", {host}"job_start": {start}}}"#)
    };
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    format!("{banner}{{\n\"fio version\" : \"fio-3.42\",\n\"{member}\" : [{}]\n}}\n", jobs.join(", ")).into_bytes()
}

/// The first time and the sum of counts of each group in `percentiles --by host,job`.
fn groups(arguments: &[&str]) -> Vec<(String, i64, f64)> {
    let options = ["percentiles", "--csv", "-i", "1ms", "--count-by=completion", "--by", "host,job", "--p", "50"];
    let ended = latscope(&[&options[..], arguments].concat());
    assert!(!ended.err.contains("start is not known"), "{}", ended.err);
    let mut groups: Vec<(String, i64, f64)> = Vec::new();
    for line in ended.success().lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (group, time_ns): (_, i64) = (format!("{} {}", cells[0], cells[1]), cells[2].parse().unwrap());
        let count: f64 = cells[4].parse().unwrap();
        match groups.iter_mut().find(|(known, ..)| *known == group) {
            Some((_, first_ns, sum)) => (*first_ns, *sum) = (time_ns.min(*first_ns), *sum + count),
            None => groups.push((group, time_ns, count)),
        }
    }
    groups.sort_by(|one, other| one.0.cmp(&other.0));
    groups
}

const EPOCH_MS: u64 = 1_795_225_119_000;

/// A tree of CBT: a fio for each volume on each client, its results twice, logs with the host behind them.
#[test]
fn a_tree_of_cbt_as_it_is() {
    let log = |number: usize| unpacked(&format!("fio_log/A_clat.{number}.log.zst"));
    let mut expected = Vec::new();
    let mut files = vec![("benchmark_config.yaml".to_string(), b"benchmark: librbdfio".to_vec())];
    for (at, (host, volume)) in [("vm1", 0), ("vm1", 1), ("vm2", 0), ("vm2", 1)].into_iter().enumerate() {
        let (text, start_ms) = (log(at + 1), EPOCH_MS + 84 * at as u64);
        let first_ms: u64 = std::str::from_utf8(&text).unwrap().split(',').next().unwrap().parse().unwrap();
        let first_ns = ((start_ms + first_ms) * 1_000_000) as i64;
        expected.push((format!("{host} output.{volume}.1"), first_ns, lines(text.clone()) as f64));
        let results = |banner| results(banner, "jobs", &[("", start_ms)]);
        files.extend([
            (format!("output.{volume}_clat.1.log.{host}"), text.clone()),
            (format!("output.{volume}_lat.1.log.{host}"), text),
            (format!("output.{volume}_slat.1.log.{host}"), Vec::new()),
            (format!("output.{volume}_bw.1.log.{host}"), b"5, 409153, 0, 4096, 0\n".to_vec()),
            (format!("output.{volume}_iops.1.log.{host}"), b"5, 1, 0, 4096, 0\n".to_vec()),
            (format!("output.{volume}.{host}"), results("vm: a banner\nfio: a warning\n")),
            (format!("json_output.{volume}.{host}"), results("")),
        ]);
    }
    for inside in
        ["results/00000000/id-1234abcd", "osd_ra-00004096/op_size-00004096/concurrent_procs-001/iodepth-032/randrw"]
    {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> = files.iter().map(|(name, bytes)| (format!("{inside}/{name}"), bytes.clone())).collect();
        let top = tree(folder.path(), &files);
        assert_eq!(groups(&["-r", &top]), expected, "{inside}");
        assert_eq!(groups(&["-r", &format!("{top}/{inside}")]), expected, "{inside}");
        let picture = folder.path().join("p.svg");
        let drawn = latscope(&["percentiles", "-r", &top, "-i", "1s", "-o", picture.to_str().unwrap()]);
        assert!(drawn.err.contains("skipped because they are about the same I/Os"), "{}", drawn.err);
        drawn.success();
        let svg = std::fs::read_to_string(&picture).unwrap();
        assert!(svg.contains("7,202 events") && svg.contains("began 2026-11-21"), "{inside}");
    }
}

/// pbench keeps the logs of a client in a folder of its own, and the results of all of them above.
#[test]
fn a_tree_of_pbench_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let sample = "fio_test_2026.11.21/1-randrw-4KiB/sample1";
    let mut files = vec![
        (
            format!("{sample}/fio-result.txt"),
            results(
                "fio: a warning\n",
                "client_stats",
                &[("vm2", EPOCH_MS + 399), ("vm1", EPOCH_MS), ("vm1", EPOCH_MS + 2)],
            ),
        ),
        (format!("{sample}/fio.job"), b"[v]\n".to_vec()),
        (format!("{sample}/tools-default/iostat/disk.log"), b"what is this\n".to_vec()),
    ];
    let logs = [("vm1", 1, 0, 1), ("vm1", 2, 2, 2), ("vm2", 1, 399, 3)];
    for (host, number, _, of) in logs {
        let log = unpacked(&format!("fio_hist/A_clat_hist.{of}.log.zst"));
        files.push((format!("{sample}/clients/{host}/fio_clat_hist.{number}.log"), log));
    }
    let top = tree(folder.path(), &files);
    let of_tree = groups(&["-r", &top]);
    assert_eq!(of_tree.len(), 3);
    for ((group, time_ns, count), (host, number, late_ms, of)) in of_tree.iter().zip(logs) {
        let log = testdata(&format!("fio_hist/A_clat_hist.{of}.log.zst"));
        let (_, alone_ns, alone) = &groups(&["-r", log.to_str().unwrap()])[0];
        assert_eq!(*group, format!("{host} fio.{number}"));
        assert_eq!((*time_ns, count), (alone_ns + ((EPOCH_MS + late_ms) * 1_000_000) as i64, alone), "{group}");
    }
    // Every view works on it.
    for verb in ["heatmap", "histogram", "summary", "spectrogram"] {
        latscope(&[verb, "-r", &top]).success();
    }
}

/// What `fio --client` leaves in one folder, and a service level over it.
#[test]
fn a_folder_of_fio_and_a_service_level() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = vec![("H.json".to_string(), unpacked("fio_json/H.json.zst")), ("H.fio".to_string(), Vec::new())];
    for (number, host) in [(1, "127.0.0.2"), (2, "127.0.0.2"), (1, "127.0.0.3"), (2, "127.0.0.3")] {
        for (kind, from) in [("clat", "fio_log"), ("clat_hist", "fio_hist")] {
            let name = format!("H_{kind}.{number}.log.{host}");
            let bytes = unpacked(&format!("{from}/{name}.zst"));
            files.push((name, bytes));
        }
    }
    let top = tree(folder.path(), &files);
    let of_tree = groups(&["-r", &top]);
    let names: Vec<_> = of_tree.iter().map(|(group, ..)| group.as_str()).collect();
    assert_eq!(names, ["127.0.0.2 H.1", "127.0.0.2 H.2", "127.0.0.3 H.1", "127.0.0.3 H.2"]);
    latscope(&["percentiles", "-r", &top, "--fail-if", "p95 > 1s or p99 > 5s"]).success();
    let printed = latscope(&["percentiles", "-r", &top, "--fail-if", "p95 > 100us or p99 > 5s"]).failure(1);
    assert!(printed.contains("p95 > 100us or p99 > 5s in "), "{printed}");
}
