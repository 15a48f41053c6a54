//! What a hub keeps on disk: agents in this process, the program as the hub, against values that are counted as they are sent.

mod disks;

pub use disks::{Freezer, Small};

use crate::live::lab::{Background, alone, signal, until};
use crate::program::{LATSCOPE, command, end, installed, latscope, root};
use latscope_event::{Field, Tally};
use latscope_histogram::{Grid, Histogram, Sparse};
use latscope_series::{HistogramSeries, Quantity, Waiter, Weight};
use latscope_wire::{Address, Credentials, Hello, Queue, QueueLimits, Reducer, Sender, new_id};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000_000;
const HOSTS: [&str; 3] = ["n1", "n2", "n3"];
/// By second, host and device: the values themselves.
type Truth = BTreeMap<(i64, String, String), Vec<u64>>;
/// What they make, in intervals of some width, by the labels of groups.
type Sums = BTreeMap<(i64, Vec<String>), Sparse>;

/// A hub that compacts what is older than a second, on a socket file.
struct Hub {
    program: Background,
    folder: PathBuf,
}

impl Hub {
    fn start(folder: &Path, more: &[&str]) -> Hub {
        let (listen, data) = (format!("unix:{}/hub.sock", folder.display()), folder.join("data"));
        let words = ["hub", "--listen", &listen, "--data", data.to_str().unwrap()];
        let program = Background::new(command(LATSCOPE).args([&words, more].concat()));
        until("the hub", || program.printed().contains("listening on"));
        Hub { program, folder: folder.into() }
    }

    fn input(&self) -> String {
        format!("hub+unix:{}/hub.sock", self.folder.display())
    }

    fn kill(self) {
        signal(self.program.pid(), "KILL");
        assert_eq!(self.program.ended().status, None);
    }
}

/// An agent without a capture.
struct Agent {
    hello: Hello,
    queue: Arc<Queue>,
    reducer: Reducer,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Agent {
    fn start(folder: &Path, host: &str) -> Agent {
        let hello = Hello {
            run: new_id().unwrap(),
            host: host.into(),
            source: "test".into(),
            filter: String::new(),
            width_ns: SECOND as u64,
            fields: vec!["device".into()],
            is_wall: true,
        };
        let queue = Arc::new(
            Queue::open(Some(&folder.join(host)), QueueLimits { bytes: 1 << 30, backfill: 1 << 30 }, 1, &hello)
                .unwrap()
                .0,
        );
        let (writer, sender, sent) = (Arc::clone(&queue), Arc::clone(&queue), hello.clone());
        let address = Address::Unix(folder.join("hub.sock"));
        let send = move || {
            let credentials = Credentials::default();
            let sender = Sender {
                queue: &sender,
                hub: 0,
                address: &address,
                credentials: &credentials,
                hello: &sent,
                is_synchronised: &|| None,
                clock_moved_ns: &|| 0,
            };
            sender.run(&|_| ());
        };
        let threads = vec![std::thread::spawn(move || writer.write()), std::thread::spawn(send)];
        let reducer = Reducer::new(hello.run, SECOND as u64, 200);
        Agent { hello, queue, reducer, threads }
    }

    /// Sends a second in which some values completed.
    fn send(&mut self, second: i64, truth: &mut Truth) {
        self.send_with(second, &[], truth);
    }

    /// The same, with what waited at its end.
    fn send_with(&mut self, second: i64, waiters: &[Waiter], truth: &mut Truth) {
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, vec![Field::Device], SECOND as u64);
        for (device, factor) in [("sda", 1), ("sdb", 7)] {
            let seed = second.unsigned_abs() % 1000 * factor + u64::from(self.hello.host.as_bytes()[1]);
            let values: Vec<u64> = (1..9u64).map(|at| at * at * (seed + 3) * 9973 % 50_000_000).collect();
            series.insert(second, vec![device.into()], &folded(&values)).unwrap();
            truth.entry((second, self.hello.host.clone(), device.into())).or_default().extend(values);
        }
        series.pass(second..second + 1);
        series.add_waiting(waiters, Some(second..second + 1));
        self.queue.push(self.reducer.records(&series, second + 1, &Tally::default()));
    }

    fn end(self) {
        self.queue.end(Instant::now() + Duration::from_secs(30));
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(self.queue.backlog(0), 0);
    }
}

fn folded(values: &[u64]) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.iter().for_each(|&value| histogram.record(value, 0));
    histogram.to_sparse()
}

/// The truth in intervals of so many seconds, of some seconds only, by host and device or by device.
fn sums(truth: &Truth, seconds: std::ops::Range<i64>, width: i64, by_host: bool) -> Sums {
    let mut values = BTreeMap::<_, Vec<u64>>::new();
    for ((second, host, device), some) in truth.iter().filter(|((second, ..), _)| seconds.contains(second)) {
        let host = if by_host { host.clone() } else { device.clone() };
        values.entry((second.div_euclid(width) * width * SECOND, vec![host, device.clone()])).or_default().extend(some);
    }
    let without_host = |labels: Vec<String>| if by_host { labels } else { labels[1..].to_vec() };
    values.into_iter().map(|((time_ns, labels), some)| ((time_ns, without_host(labels)), folded(&some))).collect()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// What a view has of an input.
fn found(folder: &Path, input: &str, width: &str, by: &str, filter: &str) -> Sums {
    let path = folder.join("view.frames");
    let words = ["convert", "-r", input, "-w", path.to_str().unwrap(), "--force", "-i", width, "--by", by];
    let filter: Vec<&str> = Some(filter).into_iter().filter(|filter| !filter.is_empty()).collect();
    latscope(&[&words[..], &filter].concat()).success();
    let rows = histograms_by(&path, by.split(',').count());
    std::fs::remove_file(path).unwrap();
    rows
}

fn histograms_by(path: &Path, labels: usize) -> Sums {
    use latscope_capture_file::{ReadOptions, SeriesReader};
    let rows = SeriesReader::open(path, &ReadOptions::new(latscope_event::FieldSet::ALWAYS)).unwrap();
    let rows = rows.map(Result::unwrap).filter(|row| row.histogram.totals().count > 0);
    rows.map(|row| ((row.time_ns, row.groups[row.groups.len() - labels..].to_vec()), row.histogram)).collect()
}

/// Files of this ending below a folder.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path, ending)),
            path if path.extension().is_some_and(|has| has == ending) => found.push(path),
            _ => {}
        }
    }
    found
}

/// A hub is killed again and again while it takes records and makes tables of its journal: folder, hub and other programs have what
/// was sent, bucket for bucket, at every width.
#[test]
fn a_hub_that_is_killed_while_it_compacts_has_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth) = (folder.path(), Truth::new());
    let options = ["--recent", "1s", "--test-file-time", "200ms"];
    let start = now() - 600;
    let mut hub = Hub::start(folder, &options);
    let mut agents: Vec<Agent> = HOSTS.iter().map(|host| Agent::start(folder, host)).collect();
    let mut second = start;
    for wait_ms in [430, 710, 290, 990, 560, 820] {
        let until = Instant::now() + Duration::from_millis(wait_ms);
        while Instant::now() < until {
            agents.iter_mut().for_each(|agent| agent.send(second, &mut truth));
            second += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        hub.kill();
        hub = Hub::start(folder, &options);
    }
    agents.into_iter().for_each(Agent::end);
    let data = folder.join("data");
    // More files of the journal, so that those before the last one are closed.
    let (mut last, mut compacted) = (Agent::start(folder, "n1"), Truth::new());
    for _ in 0..3 {
        compacted.clone_from(&truth);
        last.send(second, &mut truth);
        second += 1;
        std::thread::sleep(Duration::from_millis(400));
    }
    last.end();
    until("compaction", || files(&data, "frames").len() <= 1 && files(&data, "tmp").is_empty());
    assert!(!files(&data, "parquet").is_empty());
    let input = data.to_str().unwrap();
    let all = start..second;
    for (width, name) in [(1, "1s"), (5, "5s"), (10, "10s"), (60, "60s")] {
        let expected = sums(&truth, all.clone(), width, true);
        assert!(found(folder, input, name, "host,device", "") == expected, "{name}");
        let since = format!("evt.time >= {}", start * SECOND);
        assert!(found(folder, &hub.input(), name, "host,device", &since) == expected, "hub, {name}");
        assert!(
            found(folder, &hub.input(), name, "device", &since) == sums(&truth, all.clone(), width, false),
            "{name}"
        );
    }
    // A part of it, which is no multiple of a minute.
    let part = start + 7..start + 31;
    let filter = format!("evt.time >= {} and evt.time < {}", part.start * SECOND, part.end * SECOND);
    let expected = sums(&truth, part, 1, true);
    assert!(found(folder, &hub.input(), "1s", "host,device", &filter) == expected);
    assert!(found(folder, input, "1s", "host,device", &filter) == expected);
    check_with_other_programs(&data, &compacted);
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// pyarrow and DuckDB have the same counts.
fn check_with_other_programs(data: &Path, truth: &Truth) {
    let Some(python) = std::env::var_os("LATSCOPE_PYTHON") else {
        skipped!("LATSCOPE_PYTHON is not set; DuckDB and pyarrow are not asked");
        return;
    };
    let script = root().join("tests/python/history_agrees.py");
    let printed = end(command(python).arg(script).arg(data), b"").success();
    let of_host = |host: &str| -> usize {
        truth.iter().filter(|((_, name, _), _)| name == host).map(|(_, values)| values.len()).sum()
    };
    let count: usize = truth.values().map(Vec::len).sum();
    let largest = truth.values().flatten().max().unwrap();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [_, "total", total, max] => {
                assert_eq!((total, max), (&*count.to_string(), &*largest.to_string()), "{line}")
            }
            [_, host, some] => assert_eq!(some, of_host(host).to_string(), "{line}"),
            _ => panic!("{line}"),
        }
    }
    assert!(printed.lines().count() >= 2 * (1 + HOSTS.len()), "{printed}");
}

/// The hub is away for two hours, by the clock of the intervals, while agents fill their queues: then it has all of it, bucket for bucket,
/// and what happens meanwhile.
#[test]
fn a_cut_of_two_hours_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth) = (folder.path(), Truth::new());
    let hub = Hub::start(folder, &["--recent", "4h"]);
    let mut agents: Vec<Agent> = HOSTS[..2].iter().map(|host| Agent::start(folder, host)).collect();
    let are_stored = |agents: &[Agent]| agents.iter().all(|agent| agent.queue.backlog(0) == 0);
    let (start, end) = (now() - 7250, now() - 20);
    let mut send = |agents: &mut Vec<Agent>, seconds: std::ops::Range<i64>| {
        for second in seconds {
            agents.iter_mut().for_each(|agent| agent.send(second, &mut truth));
        }
    };
    send(&mut agents, start..start + 10);
    until("the first", || are_stored(&agents));
    hub.kill();
    send(&mut agents, start + 10..end);
    assert!(agents.iter().all(|agent| agent.queue.backlog(0) >= 7200));
    let hub = Hub::start(folder, &["--recent", "4h"]);
    until("agents", || hub.program.printed().matches(": connected").count() == 2);
    send(&mut agents, end..end + 20);
    until("all is stored", || are_stored(&agents));
    agents.into_iter().for_each(Agent::end);
    let (data, all) = (folder.join("data"), start - 60..end + 20);
    for (width, name) in [(1, "1s"), (60, "60s")] {
        let from = start.div_euclid(width) * width;
        let since = format!("evt.time >= {}", from * SECOND);
        let expected = sums(&truth, all.clone(), width, false);
        assert!(found(folder, &hub.input(), name, "device", &since) == expected, "{name}");
        let expected = sums(&truth, all.clone(), width, true);
        assert!(found(folder, data.to_str().unwrap(), name, "host,device", "") == expected, "{name}");
    }
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// What is recent comes from memory and the rest from disk, and an interval is in one of them; what comes late is in the answer.
#[test]
fn a_hub_answers_from_memory_and_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth) = (folder.path(), Truth::new());
    let hub = Hub::start(folder, &["--recent", "20s", "--test-file-time", "100ms"]);
    let mut agents: Vec<Agent> = HOSTS.iter().map(|host| Agent::start(folder, host)).collect();
    let (start, end) = (now() - 60, now());
    // Of the past first, then what happens now, and what is late.
    for second in (start..end - 15).chain(end - 10..end).chain(end - 15..end - 10) {
        agents.iter_mut().for_each(|agent| agent.send(second, &mut truth));
        std::thread::sleep(Duration::from_millis(5));
    }
    agents.into_iter().for_each(Agent::end);
    for (width, name) in [(1, "1s"), (10, "10s")] {
        let from = start.div_euclid(width) * width;
        let since = format!("evt.time >= {}", from * SECOND);
        let expected = sums(&truth, start..end, width, false);
        assert!(found(folder, &hub.input(), name, "device", &since) == expected, "{name}");
    }
    // Without a stretch of time only what is in memory.
    let recent = found(folder, &hub.input(), "1s", "device", "");
    let first = recent.keys().next().unwrap().0 / SECOND;
    assert!(first > start + 30 && first <= end - 10, "{}", first - start);
    let until_then = format!("evt.time < {}", (start + 10) * SECOND);
    let words = ["summary", "--json", "--by", "host", "-r", &hub.input(), &until_then];
    let answer = latscope(&words).success();
    let counts = crate::live::lab::counts(&answer, "host");
    assert_eq!(counts, HOSTS.map(|host| (host.to_string(), 160)).into(), "{answer}");
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// A disk that hangs and never completes what it had: the past shows it, from memory, from the journal and from its tables.
#[test]
fn a_stall_that_never_completed_is_there_in_the_past() {
    let start = now().div_euclid(60) * 60 - 600;
    // By second and device: how many waited at its end, and the age of the oldest.
    let (mut expected, mut wide) = (BTreeMap::new(), BTreeMap::new());
    for second in 10..25 {
        let others = u64::from(second == 12);
        let oldest_ns = ((second - 9) * SECOND - SECOND / 4).unsigned_abs();
        expected.insert((start + second, "sda"), (3 + others, oldest_ns));
    }
    wide.insert((start + 10, "sda"), expected[&(start + 19, "sda")]);
    for (options, is_compacted) in
        [(&["--recent", "1s", "--test-file-time", "200ms"][..], true), (&["--recent", "1h"], false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (folder, mut truth) = (folder.path(), Truth::new());
        let hub = Hub::start(folder, options);
        let mut agents: Vec<Agent> = HOSTS[..2].iter().map(|host| Agent::start(folder, host)).collect();
        for second in 0..40 {
            let waiter = |start_ns: i64, age_ns: i64| Waiter {
                group: vec!["sda".into()],
                start_ns: start * SECOND + start_ns,
                age_ns: age_ns.unsigned_abs(),
                is_bound: false,
            };
            let from_ns = [10 * SECOND + SECOND / 4, 10 * SECOND + SECOND / 2, 10 * SECOND + SECOND / 3];
            let end_ns = (second + 1) * SECOND;
            let hung = from_ns.iter().filter(|_| (10..25).contains(&second)).map(|&at| waiter(at, end_ns - at));
            let other = [end_ns - SECOND / 10].into_iter().filter(|_| second == 12).map(|at| waiter(at, end_ns - at));
            agents[0].send_with(start + second, &hung.collect::<Vec<_>>(), &mut truth);
            agents[1].send_with(start + second, &other.collect::<Vec<_>>(), &mut truth);
            std::thread::sleep(Duration::from_millis(15));
        }
        let data = folder.join("data");
        let are_stored = |agents: &[Agent]| agents.iter().all(|agent| agent.queue.backlog(0) == 0);
        until("all is stored", || are_stored(&agents));
        if is_compacted {
            for later in 60..63 {
                std::thread::sleep(Duration::from_millis(400));
                agents[0].send(start + later, &mut truth);
                until("all is stored", || are_stored(&agents));
            }
            let is_compacted = || files(&data, "frames").len() <= 1 && files(&data, "tmp").is_empty();
            until("compaction", || is_compacted() && !files(&data, "parquet").is_empty());
        }
        let filter = format!("evt.time >= {} and evt.time < {}", start * SECOND, (start + 60) * SECOND);
        for input in [hub.input(), data.to_str().unwrap().into()] {
            for (width, expected) in [("1s", &expected), ("10s", &wide), ("60s", &BTreeMap::new())] {
                assert_eq!(waits(&input, width, &filter), *expected, "{is_compacted}, {input}, {width}");
            }
            // A filter by the age, and one by the host.
            let old = waits(&input, "1s", &format!("{filter} and latency > 5s and host = n1"));
            let older = expected.iter().filter(|((second, _), _)| *second >= start + 15);
            assert_eq!(old.into_keys().collect::<Vec<_>>(), older.map(|(key, _)| *key).collect::<Vec<_>>(), "{input}");
        }
        agents.into_iter().for_each(Agent::end);
        if is_compacted && let Some(python) = std::env::var_os("LATSCOPE_PYTHON") {
            let query = "import duckdb, sys; print(duckdb.sql(f\"SELECT sum(waiting), max(oldest_ns), sum(list_sum(waiting_n)), \
                         sum(count) FROM read_parquet('{sys.argv[1]}/date=*/host=*/1s-*.parquet', hive_partitioning = true)\").fetchall()[0])";
            let printed = end(command(python).args(["-c", query]).arg(&data), b"").success();
            let waiting: u64 = expected.values().map(|(count, _)| count).sum();
            assert!(
                printed.starts_with(&format!("({waiting}, {}, {waiting}, ", 15 * SECOND - SECOND / 4)),
                "{printed}"
            );
        }
        assert_eq!(hub.program.interrupt().status, Some(0));
    }
}

/// How many waited at the end of each interval, and the age of the oldest, where any did.
fn waits(input: &str, width: &str, filter: &str) -> BTreeMap<(i64, &'static str), (u64, u64)> {
    let words =
        ["percentiles", "--csv", "--count-by", "completion", "--by", "device", "-i", width, "-r", input, filter];
    let csv = latscope(&words).success();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let [time, device, waiting, oldest] = ["time_ns", "device", "waiting", "oldest_ns"].map(column);
    let waits = rows[1..].iter().filter(|row| row[waiting] != "0");
    let row = |row: &Vec<&str>| {
        let device = if row[device] == "sda" { "sda" } else { "sdb" };
        (
            (row[time].parse::<i64>().unwrap() / SECOND, device),
            (row[waiting].parse().unwrap(), row[oldest].parse().unwrap()),
        )
    };
    waits.map(row).collect()
}

/// A host that was there for a part of the last minute has the rate that it had then.
#[test]
fn rates_of_hosts_are_over_their_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth, end) = (folder.path(), Truth::new(), now() - 5);
    let hub = Hub::start(folder, &[]);
    for (host, (from, to)) in HOSTS.into_iter().zip([(50, 0), (50, 30), (10, 0)]) {
        let mut agent = Agent::start(folder, host);
        (end - from..end - to).for_each(|second| agent.send(second, &mut truth));
        agent.end();
    }
    let answer = latscope(&["summary", "--json", "--by", "host", "-r", &hub.input()]).success();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let rates: Vec<f64> =
        answer["groups"].as_array().unwrap().iter().map(|group| group["rate_per_s"].as_f64().unwrap()).collect();
    assert_eq!(rates, [16.0; 3], "{answer}");
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// A clock that is set back by a second repeats one: its rate is over both of them, in memory, in the journal and in tables, for the host
/// and for all.
#[test]
fn a_second_that_comes_again_has_the_rate_of_any_other() {
    let start = now().div_euclid(60) * 60 - 600;
    for (options, is_compacted) in
        [(&["--recent", "1s", "--test-file-time", "200ms"][..], true), (&["--recent", "1h"], false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (folder, mut truth) = (folder.path(), Truth::new());
        let hub = Hub::start(folder, options);
        let mut agents: Vec<Agent> = HOSTS[..2].iter().map(|host| Agent::start(folder, host)).collect();
        let are_stored = |agents: &[Agent]| agents.iter().all(|agent| agent.queue.backlog(0) == 0);
        for second in 0..20 {
            agents.iter_mut().for_each(|agent| agent.send(start + second, &mut truth));
            if second == 12 {
                // Of one host at once, and once more when a file of the journal has passed.
                for wait_ms in [0, 400] {
                    std::thread::sleep(Duration::from_millis(wait_ms));
                    agents[0].reducer.clock_stepped();
                    agents[0].send(start + second, &mut truth);
                }
            }
        }
        until("all is stored", || are_stored(&agents));
        let data = folder.join("data");
        if is_compacted {
            for later in 60..63 {
                std::thread::sleep(Duration::from_millis(400));
                agents[1].send(start + later, &mut truth);
                until("all is stored", || are_stored(&agents));
            }
            let is_compacted = || files(&data, "frames").len() <= 1 && files(&data, "tmp").is_empty();
            until("compaction", || is_compacted() && !files(&data, "parquet").is_empty());
        }
        let filter = format!("evt.time >= {} and evt.time < {}", start * SECOND, (start + 20) * SECOND);
        for input in [hub.input(), data.to_str().unwrap().into()] {
            for (width, by, rate) in [("1s", "host", 16.0), ("10s", "host", 16.0), ("1s", "", 32.0), ("10s", "", 32.0)]
            {
                let by: &[&str] = if by.is_empty() { &[] } else { &["--by", by] };
                let words = ["percentiles", "--csv", "--count-by", "completion", "-i", width, "-r", &input, &filter];
                let csv = latscope(&[&words, by].concat()).success();
                let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
                let column = rows[0].iter().position(|column| *column == "rate_per_s").unwrap();
                let rates: Vec<f64> = rows[1..].iter().map(|row| row[column].parse().unwrap()).collect();
                assert!(
                    rates.len() >= 2 && rates.iter().all(|found| (found - rate).abs() < 1e-6),
                    "{input}, {by:?}: {csv}"
                );
                let summary = latscope(&[&["summary", "--json", "-r", &input, &filter], by].concat()).success();
                let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
                let rates = [&summary["total"]].into_iter().chain(summary["groups"].as_array().unwrap());
                let rates: Vec<f64> = rates.map(|row| row["rate_per_s"].as_f64().unwrap()).collect();
                assert!((rates[0] - 32.0).abs() < 1e-6, "{input}: {summary}");
                assert!(rates[1..].iter().all(|found| (found - 16.0).abs() < 1e-6), "{input}, {by:?}: {summary}");
            }
        }
        agents.into_iter().for_each(Agent::end);
        assert_eq!(hub.program.interrupt().status, Some(0));
    }
}

/// A view follows a hub, also over a restart of it: each interval is shown once, who is missing is reported, and Ctrl-C ends it.
#[test]
fn views_follow_a_hub() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth) = (folder.path(), Truth::new());
    let mut hub = Hub::start(folder, &["--grace", "1s"]);
    let input = hub.input();
    let view =
        |words: &[&str]| Background::new(command(LATSCOPE).args(words).args(["-r", &input, "--follow", "-i", "1s"]));
    let percentiles = view(&["percentiles", "--csv", "--count-by", "completion"]);
    let spectrogram = view(&["spectrogram", "--plain"]);
    let summary = view(&["summary", "--csv", "--by", "host"]);
    let mut agents: Vec<Agent> = HOSTS.iter().map(|host| Agent::start(folder, host)).collect();
    let start = now() - 40;
    let send = |agents: &mut Vec<Agent>, seconds: std::ops::Range<i64>, truth: &mut Truth| {
        for second in seconds {
            agents.iter_mut().for_each(|agent| agent.send(second, truth));
            std::thread::sleep(Duration::from_millis(50));
        }
        until("all is stored", || agents.iter().all(|agent| agent.queue.backlog(0) == 0));
    };
    send(&mut agents, start..start + 10, &mut truth);
    let shown = |line: &str| percentiles.out_so_far().contains(line);
    until("rows", || shown(&format!("\n{},", (start + 9) * SECOND)));
    assert!(percentiles.printed().contains("3 of 3 hosts"), "{}", percentiles.printed());
    hub.kill();
    until("the loss", || percentiles.printed().contains("Trying again"));
    hub = Hub::start(folder, &["--grace", "1s"]);
    until("the hub", || percentiles.printed().contains("connected again"));
    until("agents", || hub.program.printed().matches(": connected").count() == 3);
    send(&mut agents, start + 10..start + 20, &mut truth);
    // One is cut off, the others go on.
    let third = agents.pop().unwrap();
    third.end();
    send(&mut agents, start + 20..start + 22, &mut truth);
    until("the last row", || shown(&format!("\n{},", (start + 21) * SECOND)));
    until("the picture", || spectrogram.out_so_far().lines().count() > 22);
    until("the last table", || summary.out_so_far().contains(&format!("\n{},", (start + 21) * SECOND)));
    agents.into_iter().for_each(Agent::end);
    let ended = percentiles.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let csv = String::from_utf8(ended.out).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let (time, count, max) = (column("time_ns"), column("count"), column("max_ns"));
    let mut expected = BTreeMap::<i64, Vec<u64>>::new();
    for ((second, ..), values) in &truth {
        expected.entry(*second).or_default().extend(values);
    }
    let found: Vec<[String; 3]> =
        rows[1..].iter().map(|row| [row[time], row[count], row[max]].map(str::to_string)).collect();
    let row = |(second, values): (&i64, &Vec<u64>)| {
        [(second * SECOND).to_string(), values.len().to_string(), values.iter().max().unwrap().to_string()]
    };
    assert_eq!(found, expected.iter().map(row).collect::<Vec<_>>());
    let ended = summary.interrupt();
    assert_eq!(ended.status, Some(0), "{}", ended.err);
    let mut of_hosts = BTreeMap::<(i64, String), u64>::new();
    for ((second, host, _), values) in &truth {
        *of_hosts.entry((second * SECOND, host.clone())).or_insert(0) += values.len() as u64;
    }
    let csv = String::from_utf8(ended.out).unwrap();
    let row = |line: &str| {
        let row: Vec<&str> = line.split(',').collect();
        ((row[0].parse().unwrap(), row[2].to_string()), row[3].parse().unwrap())
    };
    let mut rows: Vec<_> = csv.lines().skip(1).filter(|line| !line.contains(",total,")).map(row).collect();
    rows.sort_unstable();
    assert_eq!(rows, of_hosts.into_iter().collect::<Vec<_>>(), "{csv}");
    let ended = spectrogram.interrupt();
    assert!(ended.status == Some(0) && ended.err.contains("3 of 3 hosts"), "{}", ended.err);
    assert_eq!(hub.program.interrupt().status, Some(0));
}

/// A host whose clock is an hour ahead is not in the picture, and what it sent is not lost; one whose clock was set back by an hour
/// sends the same hour twice, and both count.
#[test]
fn clocks_that_are_an_hour_off_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, mut truth, mut ahead) = (folder.path(), Truth::new(), Truth::new());
    let hub = Hub::start(folder, &["--recent", "2h"]);
    let mut agents: Vec<Agent> = ["n1", "n2"].iter().map(|host| Agent::start(folder, host)).collect();
    let start = now() - 30;
    for second in start..start + 10 {
        agents[0].send(second, &mut truth);
        agents[1].send(second + 3600, &mut ahead);
    }
    for second in start - 3600..start - 3590 {
        agents[0].send(second, &mut truth);
    }
    for second in start - 3600..start - 3590 {
        agents[0].send(second, &mut truth);
    }
    agents.into_iter().for_each(Agent::end);
    let all = start - 4000..start + 4000;
    let since = format!("evt.time >= {}", (start - 3600) * SECOND);
    for filter in ["", since.as_str()] {
        assert!(found(folder, &hub.input(), "1s", "device", filter) == sums(&truth, all.clone(), 1, false), "{filter}");
    }
    let summary = latscope(&["summary", "-r", &hub.input()]);
    assert!(summary.success().contains("10 intervals of hosts are too old or too far ahead"));
    truth.extend(ahead);
    let data = folder.join("data");
    assert!(found(folder, data.to_str().unwrap(), "1s", "host,device", "") == sums(&truth, all, 1, true));
    assert_eq!(hub.program.interrupt().status, Some(0));
}
