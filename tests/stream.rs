//! What is read while it is written: pipes, and files with `--follow`. A writer writes a part, waits until the reader has shown it,
//! and writes the rest.

use crate::program::{LATSCOPE, command, latscope, unpacked};
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A running program and what it has printed so far.
struct Reader {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

fn collect(mut from: impl Read + Send + 'static) -> (Arc<Mutex<String>>, thread::JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    (text, reader)
}

impl Reader {
    fn start(arguments: &[&str]) -> (Reader, ChildStdin) {
        let mut command = command(LATSCOPE);
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let (out, out_reader) = collect(child.stdout.take().unwrap());
        let (err, err_reader) = collect(child.stderr.take().unwrap());
        (Reader { child, out, err, readers: vec![out_reader, err_reader] }, stdin)
    }

    /// Waits until this is printed.
    #[track_caller]
    fn await_that(&mut self, what: &str, is_there: impl Fn(&str, &str) -> bool) {
        let since = Instant::now();
        while !is_there(&self.out.lock().unwrap(), &self.err.lock().unwrap()) {
            assert!(self.child.try_wait().unwrap().is_none(), "{what}: ended: {}", self.err.lock().unwrap());
            assert!(since.elapsed() < PATIENCE, "{what}: only\n{}", self.out.lock().unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// Status, standard output, standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().unwrap().code();
        self.readers.into_iter().for_each(|reader| reader.join().unwrap());
        let (out, err) = (self.out.lock().unwrap().clone(), self.err.lock().unwrap().clone());
        (status, out, err)
    }
}

/// Five seconds of requests, ten in each tenth of a second, with their completion and latency in seconds.
fn rows(seconds: std::ops::Range<u32>) -> String {
    let row = |at: u32| format!("{}.{:03} 0.00{}\n", at / 100, at % 100 * 10 + 9, 1 + at % 7);
    (seconds.start * 100..seconds.end * 100).map(row).collect()
}

/// The same as a log of fio.
fn fio_rows(seconds: std::ops::Range<u32>) -> String {
    let row = |at: u32| format!("{}, {}, {}, 4096, {}\n", at * 10 + 9, (1 + at % 7) * 1_000_000, at % 2, at * 4096);
    (seconds.start * 100..seconds.end * 100).map(row).collect()
}

fn perf_rows(seconds: std::ops::Range<u32>) -> String {
    let row = |at: u32| {
        let (seconds, us) = (at / 100, at % 100 * 10_000);
        format!(
            "fio 1 [001] {seconds}.{us:06}: block:block_rq_issue: 254,0 RS 4096 () {at} + 8 [fio]\n\
             fio 1 [001] {seconds}.{:06}: block:block_rq_complete: 254,0 RS () {at} + 8 [0]\n",
            us + 1000 + at % 7 * 100
        )
    };
    (seconds.start * 100..seconds.end * 100).map(row).collect()
}

/// What a view prints, and what of it is a row of an interval.
const VIEWS: [(&[&str], &str); 7] = [
    (&["percentiles", "-i", "1s"], "/s"),
    (&["percentiles", "-i", "1s", "--csv", "--count-by=completion"], "000000000,100,"),
    (&["percentiles", "-i", "500ms", "--json"], "\"count\":50"),
    (&["summary", "-i", "1s", "--by", "none"], "100 events"),
    (&["histogram", "-i", "1s"], "100 events"),
    (&["spectrogram", "-i", "1s"], "/s"),
    (&["spectrogram", "--palette", "sysdig", "-i", "1s"], "/s"),
];

/// How many rows there are of seconds with a hundred events; the first one was observed from the first completion on.
fn count(out: &str, row: &str) -> usize {
    let is_row = |line: &&str| match row {
        "/s" => line.contains("100/s") || line.contains("101/s"),
        row => line.contains(row),
    };
    out.lines().filter(is_row).count()
}

#[test]
fn rows_of_a_pipe_are_printed_when_their_interval_closes() {
    for (view, row) in VIEWS {
        let (mut reader, mut stdin) = Reader::start(&[view, &["-r", "-"]].concat());
        stdin.write_all(rows(0..3).as_bytes()).unwrap();
        stdin.flush().unwrap();
        reader.await_that(&view.join(" "), |out, _| count(out, row) >= 2);
        stdin.write_all(rows(3..5).as_bytes()).unwrap();
        drop(stdin);
        let (status, out, err) = reader.end();
        assert_eq!(status, Some(0), "{err}");
        assert!(!err.contains("closed"), "{err}");
        let intervals = if view.contains(&"500ms") { 10 } else { 5 };
        assert_eq!(count(&out, row), intervals, "{view:?}: {out}");
    }
}

/// Times of a trace are not those of the machine: that a pipe is silent does not close its last interval.
#[test]
fn the_last_interval_of_a_silent_pipe_stays_open() {
    let (mut reader, mut stdin) =
        Reader::start(&["percentiles", "-i", "1s", "--csv", "--count-by=completion", "-r", "-"]);
    let row = "000000000,100,";
    stdin.write_all(rows(0..3).as_bytes()).unwrap();
    stdin.flush().unwrap();
    reader.await_that("two rows", |out, _| count(out, row) == 2);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(count(&reader.out.lock().unwrap(), row), 2);
    reader.interrupt();
    let (status, out, err) = reader.end();
    assert_eq!((status, count(&out, row)), (Some(0), 3), "{out} {err}");
    assert!(err.contains("interrupted: the rest of the input was not read"), "{err}");
    drop(stdin);
}

/// Read as it comes, a trace yields what the file yields, whatever the format.
#[test]
fn every_format_that_grows_is_followed_and_ends_with_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.txt");
    fs::write(&whole, perf_rows(0..5)).unwrap();
    let lat = folder.path().join("whole.lat");
    latscope(&["convert", "-r", whole.to_str().unwrap(), "-w", lat.to_str().unwrap()]).success();
    let lat = fs::read(lat).unwrap();
    let cut = lat.len() - 1000;
    let mut csv = latscope(&["events", "-r", whole.to_str().unwrap(), "--csv"]).success();
    let csv_rest = csv.split_off(csv.match_indices('\n').nth(300).unwrap().0 + 1);
    let parts: [(&str, Vec<u8>, Vec<u8>); 5] = [
        ("two.txt", rows(0..3).into(), rows(3..5).into()),
        ("job_clat.1.log", fio_rows(0..3).into(), fio_rows(3..5).into()),
        ("perf.txt", perf_rows(0..3).into(), perf_rows(3..5).into()),
        ("own.csv", csv.into_bytes(), csv_rest.into_bytes()),
        ("trace.lat", lat[..cut].to_vec(), lat[cut..].to_vec()),
    ];
    for (name, first, rest) in parts {
        for view in [&["percentiles", "-i", "1s", "--csv"][..], &["summary", "-i", "1s", "--csv", "--by", "none"]] {
            let path = folder.path().join(name);
            fs::write(&path, &first).unwrap();
            let path = path.to_str().unwrap();
            let (mut reader, _stdin) = Reader::start(&[view, &["--follow", "-r", path]].concat());
            // Of a small .lat all is in one batch, which is whole only with its last bytes.
            if name != "trace.lat" {
                reader.await_that(name, |out, _| out.lines().count() >= 3);
            }
            OpenOptions::new().append(true).open(path).unwrap().write_all(&rest).unwrap();
            if name != "trace.lat" {
                // The last interval closes only at the end.
                reader.await_that(name, |out, _| out.lines().count() >= 5);
                reader.interrupt();
            }
            let (status, out, err) = reader.end();
            assert_eq!(status, Some(0), "{err}");
            let expected = latscope(&[view, &["-r", path]].concat()).success();
            assert_eq!(out, expected, "{name} {view:?}");
            assert_eq!(out.lines().count(), 6, "{out}");
        }
    }
}

#[test]
fn views_of_the_whole_time_are_complete_when_following_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    for view in [&["summary", "--csv", "--by", "none"][..], &["events", "--csv"], &["histogram"]] {
        fs::write(&path, rows(0..2)).unwrap();
        let path = path.to_str().unwrap();
        let (mut reader, _stdin) = Reader::start(&[view, &["--follow", "-r", path]].concat());
        if view[0] == "events" {
            reader.await_that("events", |out, _| out.lines().count() == 201);
        } else {
            thread::sleep(Duration::from_millis(500));
        }
        OpenOptions::new().append(true).open(path).unwrap().write_all(rows(2..3).as_bytes()).unwrap();
        if view[0] == "events" {
            reader.await_that("events", |out, _| out.lines().count() == 301);
        }
        reader.interrupt();
        let (status, out, err) = reader.end();
        assert_eq!(status, Some(0), "{err}");
        if view[0] != "histogram" {
            assert_eq!(out, latscope(&[view, &["-r", path]].concat()).success());
        }
    }
}

/// Rotated by renaming, and truncated in place: nothing is lost, nothing is read twice, and it is reported.
#[test]
fn rotation_and_truncation_are_noticed_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    fs::write(&path, rows(0..2)).unwrap();
    let arguments = ["events", "--csv", "--columns", "end", "--follow", "-r", path.to_str().unwrap()];
    let (mut reader, _stdin) = Reader::start(&arguments);
    reader.await_that("the first file", |out, _| out.lines().count() == 201);
    fs::rename(&path, folder.path().join("t.txt.1")).unwrap();
    let mut old = OpenOptions::new().append(true).open(folder.path().join("t.txt.1")).unwrap();
    old.write_all(rows(2..3).as_bytes()).unwrap();
    reader.await_that("what is written after the renaming", |out, _| out.lines().count() == 301);
    fs::write(&path, rows(3..4)).unwrap();
    reader.await_that("the next file", |out, _| out.lines().count() == 401);
    reader.await_that("rotation", |_, err| err.contains("t.txt was replaced; reading it from its start."));
    OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    reader.await_that("truncation", |_, err| err.contains("t.txt was truncated; reading it from its start."));
    OpenOptions::new().append(true).open(&path).unwrap().write_all(rows(4..5).as_bytes()).unwrap();
    reader.await_that("what follows", |out, _| out.lines().count() == 501);
    reader.interrupt();
    let (status, out, err) = reader.end();
    assert_eq!(status, Some(0), "{err}");
    let ends: Vec<u64> = out.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    assert_eq!(ends, (0..500).map(|at| at * 10_000_000 + 9_000_000).collect::<Vec<_>>());
}

#[test]
fn what_is_complete_only_at_its_end_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.data");
    fs::write(&path, unpacked("perf_data/block_mixed.data.zst")).unwrap();
    let path = path.to_str().unwrap();
    let printed = latscope(&["percentiles", "-i", "1s", "--follow", "-r", path]).failure(2);
    assert!(printed.contains("perf_data can only be read when it is complete"), "{printed}");
    let printed = latscope(&["percentiles", "--follow", "-r", path, "-r", "tests/stream.rs"]).failure(2);
    assert!(printed.contains("--follow reads one file"), "{printed}");
    let packed = folder.path().join("t.gz");
    fs::write(&packed, [0x1f, 0x8b, 8, 0, 0]).unwrap();
    let format = ["--format", "two_columns"];
    let printed = latscope(&[&["events", "--follow", "-r", packed.to_str().unwrap()][..], &format].concat()).failure(3);
    assert!(printed.contains("compressed file cannot be followed"), "{printed}");
}

/// The sums of the columns of a CSV table.
fn sum(csv: &str, column: &str) -> f64 {
    let mut lines = csv.lines();
    let at = lines.next().unwrap().split(',').position(|name| name == column).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse::<f64>().unwrap()).sum()
}

/// Whatever the order, every event is in one row, or in a second one that is reported to be there.
#[test]
fn events_out_of_order_are_counted_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    // Writes a part, waits for so many lines, and writes the rest.
    let piped = |first: &str, lines: usize, rest: &str, more: &[&str]| {
        let (mut reader, mut stdin) = Reader::start(&[&["percentiles", "-i", "1s", "--csv", "-r", "-"], more].concat());
        stdin.write_all(first.as_bytes()).unwrap();
        reader.await_that(first, |out, _| out.lines().count() >= lines);
        stdin.write_all(rest.as_bytes()).unwrap();
        drop(stdin);
        let (status, out, err) = reader.end();
        assert_eq!(status, Some(0), "{err}");
        (out, err)
    };
    let file = |text: &str, more: &[&str]| {
        let path = folder.path().join("t.txt");
        fs::write(&path, text).unwrap();
        latscope(&[&["percentiles", "-i", "1s", "--csv", "-r", path.to_str().unwrap()], more].concat()).success()
    };
    // In no order at all: as a file.
    let mut lines: Vec<String> = rows(0..60).lines().map(|line| format!("{line}\n")).collect();
    let hash = |line: &String| {
        line.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(6_364_136_223_846_793_005) ^ u64::from(byte)) >> 20
    };
    lines.sort_by_key(hash);
    let text = lines.concat();
    for more in [&[][..], &["--count-by=completion"]] {
        let (out, err) = piped("", 0, &text, more);
        assert_eq!(out, file(&text, more), "{err}");
        assert!(!err.contains("closed"), "{err}");
    }
    // A straggler has a row of its own.
    let (out, err) = piped(&rows(0..5), 5, &("1.5 0.001\n".to_owned() + &rows(5..6)), &[]);
    assert!(
        err.contains("1 events arrived after their interval had closed; their intervals have a second line"),
        "{err}"
    );
    assert_eq!((out.lines().count(), sum(&out, "count")), (8, 601.0), "{out}");
    // While others complete, one takes three seconds: what was printed cannot count it any more.
    let (out, err) = piped(&rows(0..5), 5, &("5 3\n".to_owned() + &rows(5..6)), &[]);
    assert!(err.contains("1 of these events lasted longer than any before"), "{err}");
    assert!((sum(&out, "count") - 601.0).abs() < 1e-3, "{out}");
    // Where all wait for it, nothing was printed before it was known.
    let (first, rest) = (rows(0..5), "8 3.02\n8 2.99\n".to_owned() + &rows(8..12));
    let (out, err) = piped(&first, 5, &rest, &[]);
    assert_eq!(out, file(&(first + &rest), &[]));
    assert!(!err.contains("closed"), "{err}");
}

/// Utilization of intervals against every millisecond looked at.
#[test]
fn use_of_intervals_is_what_every_millisecond_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    // End and latency, milliseconds: across boundaries, beside each other, and one that spans three intervals.
    let events = [(100, 50), (980, 30), (1020, 60), (1500, 200), (3400, 1600), (3500, 10), (3999, 1), (4700, 100)];
    let text: String = events.iter().map(|(end, latency)| format!("{end} {latency}\n")).collect();
    fs::write(&path, text).unwrap();
    let arguments =
        ["summary", "--use", "-i", "1s", "--by", "none", "--json", "--unitstime", "ms", "-r", path.to_str().unwrap()];
    let out = latscope(&arguments).success();
    let tables: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tables.len(), 5, "also of the one in which nothing completed: {out}");
    for table in &tables {
        let second = table["time_ns"].as_i64().unwrap() / 1_000_000_000;
        let in_flight = |ms: i64| events.iter().filter(|(end, latency)| (end - latency..*end).contains(&ms)).count();
        let ms = || second * 1000..(second + 1) * 1000;
        let busy = ms().filter(|&ms| in_flight(ms) > 0).count() as f64;
        let mean = ms().map(in_flight).sum::<usize>() as f64;
        let covered = table["span_ns"].as_f64().unwrap() / 1e6;
        let reported = |key: &str| table["total"][key].as_f64().unwrap() * covered;
        assert!((reported("busy") - busy).abs() < 1e-6, "{second}: {busy} ms, {table}");
        assert!((reported("in_flight") - mean).abs() < 1e-6, "{second}: {mean}, {table}");
    }
}

/// Warnings stand before the table of the interval in which their event completed, and are those that the filter finds.
#[test]
fn warnings_and_tables_of_files_go_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("story.txt");
    fs::write(&path, unpacked("perf_script/story_2s.txt.gz")).unwrap();
    let path = path.to_str().unwrap();
    let slow =
        latscope(&["events", "-r", path, "--csv", "--columns", "end", "lat > 90ms"]).success().lines().count() - 1;
    assert!(slow > 10);
    let out = latscope(&["summary", "-i", "500ms", "--over", "90ms", "-r", path]).success();
    assert_eq!(out.matches("latency warning, >90ms:").count(), slow);
    let mut passed_ms = 0.0;
    let mut tables = 0;
    for line in out.lines() {
        if line.starts_with('+') {
            tables += 1;
            passed_ms = 500.0 * f64::from(tables);
        }
        if let Some(moment) = line.strip_prefix("latency warning, >90ms: ") {
            let seconds: f64 = moment.split('s').next().unwrap().trim_start_matches('+').parse().unwrap();
            assert!(
                seconds * 1e3 + 103.0 >= passed_ms && seconds * 1e3 < passed_ms + 500.0,
                "{line} in table {tables}"
            );
        }
    }
    assert_eq!(tables, 4, "{out}");
    let csv = latscope(&["summary", "-i", "500ms", "--over", "90ms", "--use", "--csv", "-r", path]);
    assert_eq!(csv.err.matches("latency warning").count(), slow);
    assert_eq!(csv.success().lines().next().unwrap().matches("busy").count(), 1);
    // A pipe has the same tables and warnings, each warning as soon as its event is read.
    let (reader, mut stdin) = Reader::start(&["summary", "-i", "500ms", "--use", "--csv", "-r", "-"]);
    stdin.write_all(&fs::read(path).unwrap()).unwrap();
    drop(stdin);
    let expected = latscope(&["summary", "-i", "500ms", "--use", "--csv", "-r", path]).success();
    assert_eq!(reader.end().1, expected);
}

/// With -i auto each row has the events that the accuracy takes, but the last, and none is lost.
#[test]
fn auto_intervals_of_a_stream_fill() {
    let (mut reader, mut stdin) =
        Reader::start(&["percentiles", "--follow", "-i", "auto", "--p", "50", "--accuracy", "5%", "--csv", "-r", "-"]);
    stdin.write_all(rows(0..9).as_bytes()).unwrap();
    // 400 events for a median that is right to 5 %.
    reader.await_that("two full intervals", |out, _| out.lines().count() >= 3);
    stdin.write_all(rows(9..10).as_bytes()).unwrap();
    drop(stdin);
    let (status, out, err) = reader.end();
    assert_eq!(status, Some(0), "{err}");
    let counts: Vec<f64> = out.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect();
    assert_eq!(sum(&out, "count"), 1000.0, "{out}");
    assert_eq!(counts.len(), 3, "{out}");
}

/// A trace that is recorded is followed to its end, whoever writes it.
#[test]
fn a_trace_of_ping_is_followed_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.lat");
    let mut ping = command(LATSCOPE);
    ping.args([
        "ping",
        "-q",
        "-i",
        "10ms",
        "-w",
        "4s",
        "--trace",
        trace.to_str().unwrap(),
        folder.path().to_str().unwrap(),
    ]);
    let mut ping = ping.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while !Path::new(&trace).exists() {
        assert!(since.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    let (mut reader, _stdin) =
        Reader::start(&["percentiles", "--follow", "-i", "500ms", "--csv", "-r", trace.to_str().unwrap()]);
    reader.await_that("rows", |out, _| out.lines().count() >= 3);
    ping.wait().unwrap();
    let (status, out, err) = reader.end();
    assert_eq!(status, Some(0), "{err}");
    let events = latscope(&["events", "--csv", "-r", trace.to_str().unwrap()]).success().lines().count() - 1;
    assert!((sum(&out, "count") - events as f64).abs() < 0.01, "{out}");
}

/// A collector of PyLatencyMap, or biolatency, prints a histogram each second: it is shown when the next one has come at the latest.
#[test]
fn histograms_of_a_collector_are_shown_as_they_come() {
    let record = |second: u64| {
        let time_us = 1_795_224_000_000_000 + second * 1_000_000;
        let fields = format!("timestamp, microsec, {time_us}, x\nlatencyunit, microsec");
        format!("<begin record>\n{fields}\n64,{}\n<end record>\n", second * 100)
    };
    let print = |second: u64| format!("10:00:{second:02}\n  usecs : count distribution\n 64 -> 127 : 100 |**|\n\n");
    let texts: [&dyn Fn(u64) -> String; 2] = [&record, &print];
    for view in [&["spectrogram"][..], &["percentiles", "-i", "1s", "--csv"], &["histogram", "-i", "1s"]] {
        for text in texts {
            let (mut reader, mut stdin) = Reader::start(&[view, &["-r", "-"]].concat());
            (1..5).for_each(|second| stdin.write_all(text(second).as_bytes()).unwrap());
            reader.await_that("an interval", |out, _| out.contains("100"));
            (5..9).for_each(|second| stdin.write_all(text(second).as_bytes()).unwrap());
            drop(stdin);
            let (status, out, err) = reader.end();
            assert_eq!(status, Some(0), "{view:?}: {err}");
            let is_row = |line: &&str| line.contains("100/s") || line.contains(",100,") || line.contains("100 events");
            let rows = out.lines().filter(is_row).count();
            // By overlap, events of the first interval started before it, so the last one may have fewer.
            assert!((6..=8).contains(&rows), "{view:?}: {rows}\n{out}\n{err}");
        }
    }
}
