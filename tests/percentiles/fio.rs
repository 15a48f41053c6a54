//! Percentiles by fio's own rule, against what fio printed of the same I/Os.

use super::{csv, logs, number, table};
use crate::program::{command, end, installed, latscope, unpacked};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs fio; what it says must be no error.
fn fio(folder: &Path, arguments: &[&str]) {
    let ended = end(command("fio").args(arguments).current_dir(folder), b"");
    assert_eq!(ended.status, Some(0), "{}", ended.err);
}

const JOB: &str = "[global]\nioengine=psync\nbs=4k\nsize=2m\nrw=randrw\nrwmixread=70\nruntime=2\ntime_based\n\
    rate_iops=600,250\nwrite_lat_log=run\nwrite_hist_log=run\nlog_hist_msec=50\n\
    percentile_list=1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9\n";
const ASKED: &str = "1,5,10,20,30,40,50,60,70,80,90,95,99,99.5,99.9";

/// Holds each percentile of one line against what fio printed of the same I/Os.
fn assert_as_fio(row: &BTreeMap<String, String>, latencies: &serde_json::Value) {
    assert_eq!(number(row, "count"), latencies["N"].as_f64().unwrap());
    let mut reported = 0;
    for percentile in ASKED.split(',') {
        let ours = &row[&format!("p{}_ns", percentile.replace('.', "_"))];
        let key = format!("{:.6}", percentile.parse::<f64>().unwrap());
        let theirs = latencies["percentile"][&key].as_u64().expect(&key);
        // Too few events support some.
        assert!(ours.is_empty() || *ours == theirs.to_string(), "p{percentile}: {ours}, fio says {theirs}");
        reported += u32::from(!ours.is_empty());
    }
    assert!(reported >= 12, "{row:?}");
}

fn json(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

/// The runs in `testdata`, of which both the log of every I/O and fio's own JSON are there: by fio's rule each percentile of
/// each job, direction and host is fio's, digit for digit. fio 2 had its bins in microseconds, which are no buckets of ours:
/// there the same I/O is found, in the middle of a bin that is as wide (half of it, a 128th, lies on either side of the middle).
#[test]
fn runs_of_fio_by_its_own_rule() {
    for (run, count, unit_ns) in [("A", 8, 1), ("B", 2, 1), ("H", 8, 1), ("G", 4, 1000)] {
        let whole = ["-i", "1h", "--by", "host,job,kind", "--percentile-rule", "fio", "--p", ASKED];
        let rows = table(&csv(&logs("fio_log", &format!("{run}_clat")), &whole).success());
        assert_eq!(rows.len(), count, "{run}");
        let json: serde_json::Value = serde_json::from_slice(&unpacked(&format!("fio_json/{run}.json.zst"))).unwrap();
        let jobs = json.get("jobs").or_else(|| json.get("client_stats")).and_then(|jobs| jobs.as_array()).unwrap();
        for row in &rows {
            let of_host = |job: &&serde_json::Value| job["hostname"].as_str().unwrap_or("-") == row["host"];
            let place: usize = row["job"].rsplit_once('.').unwrap().1.parse().unwrap();
            let job = &jobs.iter().filter(of_host).nth(place - 1).unwrap()[&row["kind"]];
            if unit_ns == 1 {
                assert_as_fio(row, &job["clat_ns"]);
                continue;
            }
            assert_eq!(number(row, "count"), job["total_ios"].as_f64().unwrap());
            for percentile in ASKED.split(',') {
                let ours = number(row, &format!("p{}_ns", percentile.replace('.', "_")));
                let key = format!("{:.6}", percentile.parse::<f64>().unwrap());
                let theirs = job["clat"]["percentile"][&key].as_f64().expect(&key) * f64::from(unit_ns);
                assert!((ours / theirs - 1.0).abs() <= 1.0 / 64.0, "p{percentile}: {ours}, not {theirs}");
            }
        }
    }
}

/// A run of fio: percentiles by its rule are its own, digit for digit; and the log of every I/O and the histogram log of the
/// same run agree within the width of buckets and the time that a row leaves open.
#[test]
fn one_run_of_fio_logged_both_ways() {
    if !installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.fio"), format!("{JOB}[a]\n[b]\nbs=8k\n")).unwrap();
    fio(folder.path(), &["--output-format=json", "--output=run.json", "run.fio"]);
    let files = [1, 2].map(|number| folder.path().join(format!("run_clat.{number}.log")));
    let whole = ["-i", "1h", "--by", "job,kind", "--percentile-rule", "fio", "--p", ASKED];
    let rows = table(&csv(&files, &whole).success());
    assert_eq!(rows.len(), 4);
    let run = json(&folder.path().join("run.json"));
    for row in &rows {
        let job = usize::from(row["job"] == "run.2");
        assert_as_fio(row, &run["jobs"][job][&row["kind"]]["clat_ns"]);
    }
    // The log of every I/O: completion and latency, both in ms.
    let text = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect::<Vec<_>>();
    let events: Vec<Vec<(f64, f64)>> = text.iter().map(|text| text.lines().map(event).collect()).collect();
    let rows = files.map(|file| PathBuf::from(file.to_str().unwrap().replace("_clat.", "_clat_hist.")));
    for row in table(&csv(&rows, &["-i", "500ms", "--p", "10,50,90"]).success()).iter().take(3) {
        let (from, end) = (number(row, "time_ns") / 1e6, number(row, "time_ns") / 1e6 + 500.0);
        let shares: Vec<(f64, f64)> =
            events.iter().flatten().map(|&(done, took)| (took, share(done, took, from, end))).collect();
        let count: f64 = shares.iter().map(|&(_, share)| share).sum();
        // A row leaves open when its events completed; it is as long as the pause at an edge, or 50 ms.
        let near = |done: f64, pause: f64| [from, end].iter().any(|edge| (done - edge).abs() <= pause);
        let open: usize = events
            .iter()
            .map(|events| {
                let pause = events.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(50.0, f64::max) + 51.0;
                events.iter().filter(|event| near(event.0, pause)).count()
            })
            .sum();
        assert!((number(row, "count") - count).abs() <= open as f64, "{count} {row:?}");
        for (name, part) in [("p10_ns", 0.1), ("p50_ns", 0.5), ("p90_ns", 0.9)] {
            let value = number(row, name) / 1e6;
            let below =
                |value: f64| shares.iter().filter(|event| event.0 <= value).map(|event| event.1).sum::<f64>() / count;
            let slack = open as f64 / count;
            assert!(
                below(value * (1.0 - 1.0 / 64.0)) <= part + slack && below(value * (1.0 + 1.0 / 64.0)) >= part - slack,
                "{name} {value} ms: {} lie below; {slack} is open",
                below(value)
            );
        }
    }
}

fn event(line: &str) -> (f64, f64) {
    let numbers: Vec<f64> = line.split(", ").map(|text| text.parse().unwrap()).collect();
    (numbers[0] + 0.5, numbers[1] / 1e6)
}

/// The share of an event in an interval.
fn share(done: f64, took: f64, from: f64, end: f64) -> f64 {
    let start = (done - took).max(0.0);
    ((done.min(end) - start.max(from)) / (done - start)).max(0.0)
}

/// Two servers on this machine, each of which measures for the same client.
#[test]
fn two_servers_of_fio_and_a_client() {
    if !installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let job = format!("{JOB}directory={}\n[a]\n", folder.path().display());
    std::fs::write(folder.path().join("run.fio"), job).unwrap();
    let servers: Vec<_> =
        ["127.0.0.2", "127.0.0.3"].iter().filter_map(|host| Server::start(host, folder.path())).collect();
    if servers.len() < 2 {
        eprintln!("fio's server does not come up on the loopback addresses; its test is left out");
        return;
    }
    let clients: Vec<String> = servers.iter().map(|server| format!("--client={}", server.address)).collect();
    let arguments = ["--output-format=json", "--output=run.json", &clients[0], "run.fio", &clients[1], "run.fio"];
    fio(folder.path(), &arguments);
    let files = ["127.0.0.2", "127.0.0.3"].map(|host| folder.path().join(format!("run_clat.1.log.{host}")));
    let whole = ["-i", "1h", "--by", "host,kind", "--all", "--percentile-rule", "fio", "--p", ASKED];
    let rows = table(&csv(&files, &whole).success());
    assert_eq!(rows.len(), 5);
    let run = json(&folder.path().join("run.json"));
    let mut sum = 0.0;
    for row in &rows[..4] {
        let of = run["client_stats"]
            .as_array()
            .unwrap()
            .iter()
            .find(|job| job["hostname"] == row["host"].as_str() && job["jobname"] == "a");
        assert_as_fio(row, &of.unwrap()[&row["kind"]]["clat_ns"]);
        sum += number(row, "count");
    }
    assert_eq!((rows[4]["host"].as_str(), rows[4]["kind"].as_str(), number(&rows[4], "count")), ("all", "all", sum));
    // The rows that the server had summed up are about as many I/Os, but for those after the last row.
    let histograms = ["127.0.0.2", "127.0.0.3"].map(|host| folder.path().join(format!("run_clat_hist.1.log.{host}")));
    let rows = table(&csv(&histograms, &["-i", "1h", "--by", "host", "--all"]).success());
    let counted = number(rows.last().unwrap(), "count");
    assert!(counted <= sum && counted >= 0.5 * sum, "{counted} of {sum}");
}

/// A fio server, ended with the test.
struct Server {
    address: String,
    child: std::process::Child,
}

impl Server {
    fn start(host: &str, folder: &Path) -> Option<Server> {
        let port = std::net::TcpListener::bind((host, 0)).ok()?.local_addr().ok()?.port();
        let mut fio = command("fio");
        fio.arg(format!("--server=ip:{host},{port}")).current_dir(folder);
        fio.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let server = Server { address: format!("ip:{host},{port}"), child: fio.spawn().ok()? };
        for _ in 0..200 {
            if std::net::TcpStream::connect((host, port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The columns of fio's `fiologparser_hist.py`, held against the rows of the log themselves.
#[test]
fn the_old_layout_has_the_minimum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("H_clat.1.log");
    let log = unpacked("fio_log/H_clat.1.log.127.0.0.2.zst");
    std::fs::write(&path, &log).unwrap();
    let words = ["percentiles", "-i", "1s", "--count-by", "completion", "-r", path.to_str().unwrap()];
    let printed = latscope(&[&words[..], &["--csv=fiologparser"]].concat()).success();
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("end-time, samples, min, avg, median, 90%, 95%, 99%, max"));
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for row in String::from_utf8(log).unwrap().lines() {
        let numbers: Vec<u64> = row.split(',').take(2).map(|number| number.trim().parse().unwrap()).collect();
        seconds.entry(numbers[0] / 1000).or_default().push(numbers[1]);
    }
    let ours: Vec<Vec<f64>> = lines.map(|line| line.split(", ").map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!(ours.len(), seconds.len());
    for (line, (second, values)) in ours.iter().zip(&seconds) {
        assert_eq!(line.len(), 9);
        let (least, most) = (*values.iter().min().unwrap() as f64, *values.iter().max().unwrap() as f64);
        let exact = [(second + 1) as f64 * 1000.0, values.len() as f64, least];
        assert_eq!((&line[..3], line[8]), (&exact[..], most));
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((line[3] - mean).abs() < 0.001, "{line:?} {mean}");
        assert!(line[4..].is_sorted() && line[4] >= least, "{line:?}");
    }
    // A stall: one request in flight for 30 s is a part of a request in each second, and a row with values has a sample.
    std::fs::write(&path, "500, 1000000, 0, 4096, 0\n30900, 30000000000, 0, 4096, 4096\n").unwrap();
    let words = ["percentiles", "-i", "1s", "--csv=fiologparser", "-r", path.to_str().unwrap()];
    let printed = latscope(&words).success();
    assert_eq!(printed.lines().count(), 1 + 31, "{printed}");
    assert!(printed.lines().skip(1).all(|line| line.split(", ").nth(1) == Some("1")), "{printed}");
    let refused = latscope(&[&words[..], &["--by", "kind"]].concat()).failure(2);
    assert!(refused.contains("has no column for groups"), "{refused}");
}

/// What `fiologparser_hist.py -i 1000` of fio 3.42 prints of the histogram logs A in `testdata`.
const FIOS_OWN: [[f64; 9]; 3] = [
    [1000.0, 3383.0, 24832.0, 179039.924, 77039.335, 136930.064, 887244.664, 2369607.465, 5570560.0],
    [2000.0, 3600.0, 16640.0, 201621.588, 78921.300, 169374.919, 1297064.907, 2352395.982, 5505024.0],
    [3000.0, 2398.0, 20736.0, 164343.018, 73348.034, 134072.180, 720763.054, 2225721.258, 5505024.0],
];

/// The differences to fio's own script are those that docs/how-to/ci.md names; the rows of the logs decide who is right.
#[test]
fn the_script_of_fio_differs_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let (mut counted, mut paths) = (0, Vec::new());
    for job in 1..=4 {
        let log = unpacked(&format!("fio_hist/A_clat_hist.{job}.log.zst"));
        // Time, direction, block size, then the bins.
        let bins = |row: &str| row.split(',').skip(3).map(|bin| bin.trim().parse::<u64>().unwrap()).sum::<u64>();
        counted += String::from_utf8(log.clone()).unwrap().lines().map(bins).sum::<u64>();
        let path = folder.path().join(format!("A_clat_hist.{job}.log"));
        std::fs::write(&path, log).unwrap();
        paths.push(path.to_str().unwrap().to_string());
    }
    let words =
        ["percentiles", "-i", "1s", "--csv=fiologparser", "-r"].into_iter().chain(paths.iter().map(String::as_str));
    let printed = latscope(&words.collect::<Vec<_>>()).success();
    let ours: Vec<Vec<f64>> =
        printed.lines().skip(1).map(|line| line.split(", ").map(|cell| cell.parse().unwrap()).collect()).collect();
    let samples = |rows: &mut dyn Iterator<Item = f64>| rows.sum::<f64>();
    // Each row is rounded.
    assert!((samples(&mut ours.iter().map(|row| row[1])) - counted as f64).abs() <= 1.5);
    assert_eq!((counted, samples(&mut FIOS_OWN.iter().map(|row| row[1]))), (6979, 9381.0));
    assert_eq!(ours.len(), FIOS_OWN.len());
    for (ours, theirs) in ours.iter().zip(FIOS_OWN) {
        // 64 bins from each power of two to the next.
        let bin = |value: f64| f64::exp2(value.log2().floor()) / 64.0;
        assert_eq!((ours[0], ours[2]), (theirs[0], theirs[2] + bin(theirs[2])), "one bin");
        assert!(theirs[8] >= ours[8] + 1.0 + 2.0 * bin(ours[8]), "two bins, or more");
        let apart = |at: usize| (theirs[at] / ours[at] - 1.0).abs();
        assert!(apart(4) < 0.015 && apart(5) < 0.1, "{ours:?} {theirs:?}");
    }
}
