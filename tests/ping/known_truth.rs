//! What `ping` finds where the latency is known. Only minimum and median are looked at, and percentiles that are a thousand
//! times what a busy machine adds: the rest is the machine's.

use crate::live::alone;
use crate::live::lab::{Disk, events, number, signal};
use crate::program::{LATSCOPE, command, end, latscope};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The final statistics of a run that has to succeed.
#[track_caller]
fn measured(arguments: &[&str]) -> Value {
    let text = latscope(&[&["ping", "-J", "-q"], arguments].concat()).success();
    let all: Value = serde_json::from_str(&text).unwrap();
    all.as_array().unwrap().last().unwrap()["stat"].clone()
}

/// The CPU that a file of known delay and its prober share; `None`, and the reason reported, without real-time scheduling.
fn shared_cpu() -> Option<String> {
    let allowed = Command::new("chrt").args(["-f", "61", "true"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        skipped!("no real-time scheduling, so nobody answers to the microsecond");
        return None;
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Some((cpus - 1).to_string())
}

/// When each read came to the server and was answered.
fn served(log: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(log).unwrap();
    let pair = |line: &str| {
        let (came, answered) = line.split_once(' ').unwrap();
        (came.parse().unwrap(), answered.parse().unwrap())
    };
    text.lines().map(pair).collect()
}

/// By rank: the smallest value that is not below the share of all.
fn quantile(values: &[u64], share: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

fn is_near(found: u64, truth: u64) -> bool {
    found.abs_diff(truth) as f64 <= 0.05 * truth as f64
}

/// The median that fio finds in the same place: what the way to a FUSE server and back takes is the machine's.
fn median_by_fio(file: &Path, cpu: &str, count: &str) -> u64 {
    let mut fio = command("chrt");
    fio.args(["-f", "60", "taskset", "-c", cpu, "fio", "--name=oracle", "--readonly", "--rw=randread", "--bs=4k"]);
    fio.args(["--ioengine=psync", "--invalidate=0", "--norandommap", "--output-format=json", "--number_ios", count]);
    let output = fio.arg("--filename").arg(file).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["jobs"][0]["read"]["clat_ns"]["percentile"]["50.000000"].as_u64().unwrap()
}

#[test]
fn minimum_and_median_are_those_of_the_file() {
    let Some(_alone) = alone() else { return };
    let Some(cpu) = shared_cpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for (delay, ns, count) in [("100us", 100_000, 2000u64), ("1ms", 1_000_000, 600), ("5ms", 5_000_000, 200)] {
        let disk = Disk::new(&["--read", delay, "--exact", &cpu, "--log", log.to_str().unwrap()]);
        // Others may use this CPU in real time too, which makes whole rounds slower, and none faster.
        let (file, number) = (disk.file(), count.to_string());
        let words = ["-C", "-i", "0", "-c", &number, "-a", "0", "--rt", "--cpu", &cpu, file.to_str().unwrap()];
        let (mut min, mut p50, mut rounds) = (u64::MAX, u64::MAX, 0);
        // fio is asked in each round, as it meets the same machine; its buckets are 1.6 % wide.
        let (mut by_fio, mut asked) = (u64::MAX, 0);
        let is_met = |min: u64, p50: u64, by_fio: u64| min < ns + 100_000 && p50 < by_fio + by_fio / 20;
        while rounds < 12 && (rounds == 0 || !is_met(min, p50, by_fio)) {
            by_fio = by_fio.min(median_by_fio(&file, &cpu, &number));
            asked += count;
            let found = measured(&words);
            let found = (found["min"].as_u64().unwrap(), found["p50"].as_u64().unwrap());
            assert!(found.0 >= ns && found.1 >= ns, "{delay}: faster than it can be, {found:?}");
            (min, p50, rounds) = (min.min(found.0), p50.min(found.1), rounds + 1);
        }
        assert!(is_met(min, p50, by_fio), "{delay}: minimum {min}, median {p50}, by fio {by_fio}");
        disk.served();
        // What the server says about itself: as many requests, none of them faster than the file, most as fast.
        let took: Vec<u64> = served(&log).iter().map(|(came, answered)| answered - came).collect();
        assert_eq!(took.len() as u64, rounds * count + asked);
        assert!(took.iter().all(|&took| took >= ns), "{delay}");
        assert!(quantile(&took, 0.0) <= min && quantile(&took, 0.5) < ns + ns / 10, "{delay}: by the server itself");
    }
}

/// What a run against the stalling file found, and what its server says.
struct Stalled {
    trace: PathBuf,
    /// From the submission to the completion of each request, nanoseconds.
    service_ns: Vec<u64>,
    log: Vec<(u64, u64)>,
}

impl Stalled {
    fn run(folder: &Path, name: &str, cpu: &str, pace: &[&str]) -> Stalled {
        let (log, trace) = (folder.join("log"), folder.join(format!("{name}.lat")));
        let schedule = ["--read", "100us", "--stall", "1s", "--period", "5s"];
        let disk = Disk::new(&[&schedule[..], &["--exact", cpu, "--log", log.to_str().unwrap()]].concat());
        let file = disk.file();
        let words = ["ping", "-q", "-C", "-w", "10", "--rt", "--cpu", cpu, "--spin-before", "300us", "--trace"];
        let words = [&words[..], &[trace.to_str().unwrap()], pace, &[file.to_str().unwrap()]].concat();
        latscope(&words).success();
        disk.served();
        let events = events(&trace, "service_ns", "");
        Stalled {
            service_ns: events.iter().map(|event| number(event, "service_ns")).collect(),
            log: served(&log),
            trace,
        }
    }

    /// The latencies of a request every 10 ms that never waits for another to be made: one server, who answers one after
    /// the other and starts nothing during a stall. How long it takes where it does not stall is what it really took, which
    /// is more than the server says of itself; so this knows nothing of how the probe keeps its pace.
    fn truth(&self) -> Vec<u64> {
        const PERIOD: u64 = 5_000_000_000;
        assert_eq!(self.log.len(), self.service_ns.len(), "the server saw other requests");
        let pairs = || self.log.iter().zip(&self.service_ns);
        assert!(pairs().all(|((came, answered), service)| answered - came <= *service), "faster than it can be");
        // Without the stall, each as long as it was; what is held up takes what is usual after it.
        let usual = quantile(&self.service_ns, 0.5);
        let services: Vec<u64> = pairs()
            .map(|((came, answered), &service)| if answered - came > 1_000_000 { usual } else { service })
            .collect();
        // A stall ends a delay before the answer that it held up.
        let (_, held_up) = self.log.iter().find(|(came, answered)| answered - came > 1_000_000).expect("no stall");
        let end = held_up - 100_000;
        let shift = |at: u64| (at + 2 * PERIOD - end % PERIOD) % PERIOD;
        let (mut free, mut latencies) = (0, Vec::new());
        for number in 0..1000 {
            let due = self.log[0].0 + number * 10_000_000;
            let start = due.max(free);
            let into = shift(start);
            let start = if into >= PERIOD - 1_000_000_000 { start + PERIOD - into } else { start };
            free = start + services[number as usize % services.len()];
            latencies.push(free - due);
        }
        latencies
    }

    /// The percentiles that the views find in the trace, with these options.
    fn found(&self, options: &[&str]) -> [u64; 3] {
        let words = [&["summary", "--json", "-r", self.trace.to_str().unwrap()], options].concat();
        let summary: Value = serde_json::from_str(&latscope(&words).success()).unwrap();
        ["p50_ns", "p90_ns", "p99_ns"].map(|key| summary["total"][key].as_u64().unwrap())
    }
}

#[test]
fn an_open_loop_shows_of_a_stall_what_a_closed_one_hides() {
    let Some(_alone) = alone() else { return };
    let Some(cpu) = shared_cpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let runs: [(&str, &[&str], &[&str]); 2] = [
        ("open", &["--rate", "100", "--engine", "pread", "--depth", "1"], &[]),
        ("closed", &["-i", "10ms"], &["--correct-omission", "10ms"]),
    ];
    for (name, pace, options) in runs {
        let mut reported = Vec::new();
        // A CPU that others use in real time is late; what is wrong is wrong every time.
        for _ in 0..4 {
            let run = Stalled::run(folder.path(), name, &cpu, pace);
            let truth = run.truth();
            let truth = [0.5, 0.9, 0.99].map(|share| quantile(&truth, share));
            assert!(truth[1] > 450_000_000 && truth[2] > 900_000_000, "{truth:?}");
            let found = run.found(options);
            if name == "closed" {
                assert!(
                    run.service_ns.len() < 900 && run.found(&[])[1] < 10_000_000,
                    "it makes one request in a stall"
                );
            }
            reported.push(format!("{name}: found {found:?}, true {truth:?}"));
            if found.iter().zip(truth).all(|(&found, truth)| is_near(found, truth)) {
                reported.clear();
                break;
            }
        }
        assert!(reported.is_empty(), "{reported:#?}");
    }
}

#[test]
fn a_request_that_hangs_is_reported_and_counted() {
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
    // It gives what it knows though its request hangs; the process itself can end only with the request.
    std::thread::sleep(Duration::from_millis(1800));
    disk.signal("CONT");
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("has been waiting for"), "{printed}");
    assert!(since.elapsed() < Duration::from_secs(30));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all.as_array().unwrap().last().unwrap()["stat"]["count"].as_u64().unwrap() > 10);
    let summary = latscope(&["summary", "-r", trace.to_str().unwrap()]).success();
    assert!(summary.contains("longest without a completion"), "{summary}");
}

#[test]
fn a_probe_that_is_held_up_is_not_a_slow_target() {
    let folder = tempfile::tempdir().unwrap();
    for engine in ["pread", "io_uring"] {
        let trace = folder.path().join(format!("{engine}.lat"));
        let words = ["ping", "-q", "-C", "--rate", "100", "--engine", engine, "--depth", "1", "-w", "2.5", "--trace"];
        let child = command(LATSCOPE)
            .args(words)
            .args([trace.as_path(), folder.path()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(700));
        signal(child.id(), "STOP");
        std::thread::sleep(Duration::from_millis(800));
        signal(child.id(), "CONT");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let events = events(&trace, "time_ns,latency_ns,intended_ns,service_ns,lag_ns", "");
        let late: Vec<&Value> = events.iter().filter(|event| number(event, "lag_ns") > 100_000_000).collect();
        assert!(events.len() >= 200 && late.len() >= 50, "{engine}: {} of {} are late", late.len(), events.len());
        // The one that the stop came into may be slow.
        let slow = late.iter().filter(|event| number(event, "latency_ns") > 100_000_000).count();
        assert!(slow <= 1, "{engine}: {slow} of {} late requests are slow", late.len());
        for event in &events {
            let number = |key: &str| event[key].as_i64().unwrap();
            assert_eq!(number("time_ns"), number("intended_ns") + number("lag_ns"), "{event}");
            assert!(number("latency_ns") >= number("service_ns"), "{event}");
        }
    }
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
    // Few requests support no percentile, which is reported, but not hidden.
    assert!(found["p90"].is_u64() && found["p99"].is_u64() && found["trusted_p"] == 94.9748, "{found}");
    latscope(&["ping", "-q", "-C", "-i", "0", "-c", "200", "--fail-if", "p50 > 1ns", path]).failure(1);
    latscope(&["ping", "-q", "-C", "-i", "0", "-c", "200", "--fail-if", "p50 > 1h", path]).success();
    let printed = latscope(&["ping", "--sync", "fsync", "-c", "1", path]).failure(2);
    assert!(printed.contains("--sync needs writes"), "{printed}");
    // Data in memory is not cold, wherever it is reported to be.
    let hot = measured(&["--cache", "hot", "-i", "0", "-c", "100", path]);
    assert_eq!(hot["count"], 99);
}

#[test]
fn where_and_how_it_waits_is_kept_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (here, [a, b]) = (folder.path().to_str().unwrap(), ["a.lat", "b.lat"].map(|name| folder.path().join(name)));
    let [a, b] = [a.to_str().unwrap(), b.to_str().unwrap()];
    let common = ["ping", "-q", "-C", "-i", "1ms", "-c", "200", "--trace"];
    latscope(&[&common[..], &[a, here]].concat()).success();
    latscope(&[&common[..], &[b, "--cpu", "0", "--spin-before", "200us", "-s", "8k", here]].concat()).success();
    let compared = latscope(&["compare", a, b]).success();
    let reported: Vec<&str> = compared.lines().take(3).collect();
    assert_eq!(reported[0], "unlike: size: 4KiB (a.lat), 8KiB (b.lat)");
    assert_eq!(reported[1], "unlike: scheduling: other (a.lat), other, on CPU 0, busy 200us before (b.lat)");
    assert!(compared.find("unlike:") < compared.find("p50"), "{compared}");
    let refused = latscope(&["ping", "-c", "1", "--cpu", "100000", here]).failure(3);
    assert!(refused.contains("Cannot run on CPU 100000") && refused.contains("--cpu"), "{refused}");
}

#[test]
fn lines_of_json_are_the_array_of_json() {
    let folder = tempfile::tempdir().unwrap();
    // What could be taken for the layout of the JSON.
    let odd = folder.path().join("a \"}, {  b");
    std::fs::create_dir(&odd).unwrap();
    let words = ["-C", "-i", "0", "-c", "30", "-p", "10", odd.to_str().unwrap()];
    let keys = |value: &Value| {
        let object = value.as_object().unwrap();
        let path = object["target"]["path"].as_str().unwrap().to_string();
        (object.keys().cloned().collect::<Vec<_>>(), path)
    };
    let array = latscope(&[&["ping", "-J"], &words[..]].concat()).success();
    let array: Value = serde_json::from_str(&array).unwrap();
    let array: Vec<_> = array.as_array().unwrap().iter().map(keys).collect();
    let lines = latscope(&[&["ping", "--jsonl"], &words[..]].concat()).success();
    let lines: Vec<_> = lines.lines().map(|line| keys(&serde_json::from_str(line).unwrap())).collect();
    assert_eq!(lines, array);
    assert_eq!(lines.len(), 30 + 2 + 1, "requests, windows of ten that count, and all");
    assert!(lines.iter().all(|(_, path)| Path::new(path) == odd));
}

/// Every second has one row; legend and axis come first, and again when a row has ten times as many requests.
#[test]
fn a_spectrogram_grows_by_a_row_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().to_str().unwrap();
    let out = end(command(LATSCOPE).args(["ping", "--spectrogram", "-i", "50ms", "-c", "50", target]), b"").success();
    let count = |word: &str| out.lines().filter(|line| line.contains(word)).count();
    let (legends, axes) = (count("events  "), count("rate     p99"));
    assert!(count(target) == 2 && legends == axes && (1..=2).contains(&axes), "{out}");
    // 2.5 seconds lie in three or four seconds of the clock.
    let rows = out.lines().filter(|line| line.contains("/s  ") && line.trim_start().as_bytes()[2] == b':');
    let seconds: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    assert!((3..=4).contains(&seconds.len()) && seconds.is_sorted(), "{out}");
    assert!(seconds.windows(2).all(|pair| pair[0] != pair[1]), "{out}");
}
