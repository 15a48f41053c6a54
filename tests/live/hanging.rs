//! What hangs is shown while it hangs, by every view that prints as intervals pass, against a disk whose server is stopped.

use super::blind::seeing_all;
use super::lab::{Background, Disk, alone, until};
use crate::program::latscope;
use crate::serve::Server;
use serde_json::Value;
use std::process::Command;

/// A disk that does not answer, and a reader that waits for it.
struct Hung {
    disk: Disk,
    _reader: Background,
}

/// Hangs a disk once the views look at it.
fn hang(disk: Disk) -> Hung {
    disk.signal("STOP");
    let mut dd = Command::new("dd");
    dd.args([&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none"]);
    let reader = Background::new(&mut dd);
    let in_flight = format!("/sys/block/{}/inflight", disk.name());
    until("the request", || std::fs::read_to_string(&in_flight).is_ok_and(|now| now.trim_start().starts_with('1')));
    Hung { disk, _reader: reader }
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn intervals_show_what_waits_while_it_waits() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let filter = format!("proc.name = dd and kind = read and fd.name = {}", disk.path);
    let view = |words: &[&str]| Background::latscope(&[words, &["-s", "io", "-i", "500ms", &filter]].concat());
    let percentiles = view(&["percentiles", "--json", "--p", "50,99", "--fail-if", "oldest > 1s"]);
    let completed = view(&["percentiles", "--json", "--completed-only"]);
    let summary = view(&["summary", "--json", "--over", "1s"]);
    let rows = view(&["spectrogram", "--plain"]);
    let hung = hang(disk);
    // It is reported while it lasts.
    until("the warning", || percentiles.printed().contains("oldest > 1s exceeded: oldest = "));
    until("the outlier", || summary.printed().contains("latency>="));
    until("two lines", || percentiles.out_so_far().matches("\"waiting\":1").count() > 1);
    until("the count", || completed.out_so_far().contains("\"waiting\":1"));
    until("the table", || summary.out_so_far().contains("\"waiting\":1"));
    until("the sign", || rows.out_so_far().contains('»'));
    let (percentiles, completed) = (percentiles.interrupt(), completed.interrupt().success());
    let (summary, rows) = (summary.interrupt().success(), rows.interrupt().success());
    hung.disk.signal("CONT");

    assert_eq!(percentiles.status, Some(1), "{}", percentiles.err);
    let out = String::from_utf8_lossy(&percentiles.out).into_owned();
    let waiting: Vec<Value> = objects(&out).into_iter().filter(|line| line["waiting"] == 1).collect();
    assert!(waiting.len() >= 2, "{out}");
    for (before, after) in waiting.iter().zip(&waiting[1..]) {
        let age = |line: &Value| line["oldest_ns"].as_u64().unwrap();
        assert!(age(after) > age(before) && after["p50_ns"].as_u64() >= Some(age(before)), "{before} {after}");
        assert_eq!(after["max_ns"].as_u64(), Some(age(after)));
        assert_eq!((after["count"].as_u64(), after["at_least"].as_str().unwrap().contains("p50")), (Some(0), true));
    }
    let raised = |line: &Value| line["waiting"] == 1 && (!line["p50_ns"].is_null() || line["at_least"] != "");
    assert!(!objects(&completed).iter().any(raised) && completed.contains("\"waiting\":1"), "{completed}");
    let last = objects(&summary).pop().unwrap();
    assert_eq!((last["total"]["waiting"].as_u64(), last["total"]["count"].as_u64()), (Some(1), Some(0)), "{summary}");
    assert!(rows.contains('»') && rows.contains("waiting   oldest"), "{rows}");
}

#[test]
fn a_flight_recorder_has_what_waits_in_each_file() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&["--read", "1ms"]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flight.lat");
        let record = ["record", "-s", "block", "-w", path.to_str().unwrap(), "--rotate", "500ms", &disk.filter()];
        let recorder = Background::latscope(&record);
        let files = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let mut files: Vec<String> = entries.map(|entry| entry.unwrap().path().display().to_string()).collect();
            files.sort();
            files
        };
        until("a first file", || files().len() > 1);
        let before = files().len();
        let hung = hang(disk);
        until("files of the hang", || files().len() > before + 4);
        hung.disk.signal("CONT");
        let during = files().len();
        until("a file after it", || files().len() > during + 2);
        recorder.interrupt().success();
        let total = |files: &[String]| {
            let mut words = vec!["summary", "--json", "-r"];
            words.extend(files.iter().map(String::as_str));
            objects(&latscope(&words).success()).pop().unwrap()["total"].clone()
        };
        let oldest = |total: &Value| total["oldest_ns"].as_u64().unwrap_or(0);
        // What waits throughout a file has the age that it had at its end.
        let (files, mut ages) = (files(), Vec::new());
        for file in &files[before..during - 1] {
            let total = total(std::slice::from_ref(file));
            assert_eq!((total["waiting"].as_u64(), total["count"].as_u64()), (Some(1), Some(0)), "{file}: {total}");
            ages.push(oldest(&total));
        }
        assert!(ages.len() >= 3 && ages.is_sorted_by(|a, b| b - a >= 400_000_000), "{ages:?}");
        // Read together, what waited at the end of a file is what waits at the end of the last one, or was an event since.
        let hanging = total(&files[..during - 1]);
        assert_eq!((hanging["waiting"].as_u64(), oldest(&hanging)), (Some(1), *ages.last().unwrap()), "{hanging}");
        let all = total(&files);
        assert_eq!((all["waiting"].as_u64().unwrap_or(0), all["count"].as_u64()), (0, Some(1)), "{all}");
        assert!(all["max_ns"].as_u64() > ages.last().copied(), "{all}");
    });
}

#[test]
fn the_last_interval_of_a_recording_has_what_waits() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.lat");
    let path = path.to_str().unwrap();
    let recorder = Background::latscope(&["record", "-s", "block", "-w", path, &disk.filter()]);
    until("the start", || std::fs::metadata(path).is_ok());
    let hung = hang(disk);
    std::thread::sleep(std::time::Duration::from_millis(100));
    recorder.interrupt().success();
    hung.disk.signal("CONT");
    // However short the intervals are: the programs are detached some milliseconds after what waits was looked at.
    let lines = latscope(&["percentiles", "-r", path, "-i", "1ms", "--json", "--p", "50"]).success();
    let last = objects(&lines).pop().unwrap();
    assert_eq!((last["waiting"].as_u64(), last["at_least"].as_str()), (Some(1), Some("mean p50 max")), "{last}");
}

#[test]
fn totals_count_what_waits_once() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let filter = format!("proc.name = dd and kind = read and fd.name = {}", disk.path);
    let view = |words: &[&str]| Background::latscope(&[words, &["-s", "io", &filter]].concat());
    let (summary, histogram) = (view(&["summary", "--by", "none", "--json"]), view(&["histogram"]));
    let hung = hang(disk);
    until("the note", || summary.printed().contains("waiting for "));
    let (printed, summary) = (histogram.printed(), summary.interrupt().success());
    let histogram = histogram.interrupt().success();
    hung.disk.signal("CONT");
    let total = &objects(&summary)[0]["total"];
    assert_eq!((total["waiting"].as_u64(), total["count"].as_u64()), (Some(1), Some(0)), "{summary}");
    assert_eq!(total["max_ns"], total["oldest_ns"]);
    assert!(histogram.contains("waiting: 1, the oldest for "), "{histogram} {printed}");
}

#[test]
fn silent_intervals_are_printed_in_time() {
    let Some(_alone) = alone() else { return };
    // Nobody uses it.
    let disk = Disk::new(&[]);
    for mode in ["histogram", "event"] {
        let args = ["percentiles", "-s", "block", "-i", "500ms", "--mode", mode, "--csv", &disk.filter()];
        let view = Background::latscope(&args);
        until("three lines", || view.out_so_far().lines().count() > 3);
        let lines = view.interrupt().success();
        assert!(lines.lines().skip(1).all(|line| line.split(',').nth(3) == Some("0")), "{lines}");
    }
}

/// Nobody waits for the end of a capture to see a row.
#[test]
fn plain_spectrograms_are_printed_in_time() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&[]);
    let mut load = Command::new("fio");
    load.args(["--name=load", "--direct=1", "--bs=4k", "--rw=randread", "--size=16m", "--time_based", "--runtime=600"]);
    load.args(["--ioengine=psync", "--thinktime=1ms"]).arg(format!("--filename={}", disk.path));
    let _load = Background::new(&mut load);
    for (words, is_row) in [(&["--palette", "sysdig"][..], "/s"), (&["--by", "device"], disk.name())] {
        let filter = disk.filter();
        let args = [&["spectrogram", "-s", "block", "--plain", "-i", "500ms", &filter], words].concat();
        let view = Background::latscope(&args);
        until("three rows", || view.out_so_far().lines().skip(3).filter(|line| line.contains(is_row)).count() > 2);
        view.interrupt().success();
    }
}

/// Intervals that wait for enough events do not wait for a disk that hangs; and its utilization counts what has not completed.
#[test]
fn a_hung_disk_ends_the_wait_for_events_and_is_busy() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let filter = disk.filter();
    let view = |words: &[&str]| Background::latscope(&[words, &["-s", "block", "--json", &filter]].concat());
    let filling = view(&["percentiles", "-i", "auto", "--p", "50,99"]);
    let summary = view(&["summary", "--use", "-i", "1s"]);
    until("the first table", || summary.out_so_far().lines().count() > 0);
    let hung = hang(disk);
    until("two lines", || filling.out_so_far().matches("\"waiting\":1").count() > 1);
    until("the tables", || summary.out_so_far().matches("\"waiting\":1").count() > 3);
    let (filling, summary) = (filling.interrupt().success(), summary.interrupt().success());
    hung.disk.signal("CONT");
    let waiting: Vec<Value> = objects(&filling).into_iter().filter(|line| line["waiting"] == 1).collect();
    let ages: Vec<u64> = waiting.iter().map(|line| line["oldest_ns"].as_u64().unwrap()).collect();
    assert!(ages.is_sorted() && ages.last() > ages.first(), "{filling}");
    assert!(waiting.iter().all(|line| line["p99_ns"].as_u64() >= line["oldest_ns"].as_u64()), "{filling}");
    let busy = objects(&summary).into_iter().filter(|table| table["total"]["waiting"] == 1);
    let busy: Vec<f64> = busy.map(|table| table["total"]["busy"].as_f64().unwrap()).collect();
    assert!(busy.iter().any(|&busy| busy > 0.95), "a device that hangs is busy all the time: {summary}");
}

/// The page of a capture in a hang says who hangs, and the command that captures the same.
#[test]
fn the_report_says_who_waits_and_what_captures_the_same() {
    let Some(_alone) = alone() else { return };
    let hung = hang(Disk::new(&["--read", "1ms"]));
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("r.html");
    let filter = format!("comm = dd and device = {}", hung.disk.name());
    latscope(&["report", "-s", "stacks", "--for", "1s", "-o", page.to_str().unwrap(), &filter]).success();
    hung.disk.signal("CONT");
    let head = crate::report::head(&std::fs::read_to_string(page).unwrap());
    assert_eq!(head["source"], "-s stacks");
    let [group] = &head["unfinished"]["groups"].as_array().unwrap()[..] else { panic!("{}", head["unfinished"]) };
    assert_eq!(
        (&group["count"], &group["who"][0], &group["who"][1]),
        (&1.into(), &hung.disk.name().into(), &"dd".into())
    );
    assert!(group["stack"].as_str().is_some_and(|stack| stack.contains("read")), "{group}");
}

/// The page shows a request that hangs with its age, once a second, without an event that would bring it.
#[test]
fn the_live_page_shows_what_waits() {
    let Some(_alone) = alone() else { return };
    let disk = Disk::new(&["--read", "1ms"]);
    let server = Server::start(&["-s", "block", &disk.filter()]);
    let mut stream = server.stream(None);
    // The capture has started when it says something of itself.
    while stream.next().data["sources"].as_array().is_none_or(Vec::is_empty) {}
    let hung = hang(disk);
    let mut ages = Vec::new();
    while ages.len() < 3 {
        let message = stream.next();
        let waiting = &message.data["unfinished"];
        if waiting["count"] == 1 {
            let what = waiting["longest"][0]["what"].as_str().unwrap();
            assert!(what.starts_with(&format!("{} read 4KiB", hung.disk.name())), "{what}");
            assert_eq!(message.counted, 0);
            ages.push(waiting["longest"][0]["age"].as_f64().unwrap());
        }
    }
    assert!(ages.is_sorted_by(|one, other| one < other), "{ages:?}");
    hung.disk.signal("CONT");
    let mut counted = 0;
    while counted == 0 {
        counted += stream.next().counted;
    }
}

/// Nobody saw for how long what hung before the capture began has waited: such a wait is a lower bound, and keeps no limit.
#[test]
fn a_hang_from_before_the_capture_decides_no_limit_that_it_may_exceed() {
    let Some(_alone) = alone() else { return };
    let hung = hang(Disk::new(&["--read", "1ms"]));
    let folder = tempfile::tempdir().unwrap();
    let filter = format!("device = {}", hung.disk.name());
    let limit = "max > 5m or oldest > 5m";
    for (source, filter) in [("io", "proc.name = dd and kind = read"), ("stacks", &filter), ("offcpu", "comm = dd")] {
        let words = ["percentiles", "-s", source, "-i", "500ms", "--for", "2s", "--fail-if", limit, filter];
        let live = latscope(&words);
        let why =
            "cannot be decided: 1 wait had begun before the capture, so of the longest only a lower bound is known (";
        let out = String::from_utf8_lossy(&live.out).into_owned();
        assert!(live.status == Some(3) && live.err.contains(why), "{source}: {out}{}", live.err);
        let last = out.lines().rfind(|line| line.contains(" 1 ")).unwrap_or_default();
        assert!(last.trim_end().rsplit(' ').next().is_some_and(|oldest| oldest.starts_with(">=")), "{source}: {out}");
        let path = folder.path().join(format!("{source}.lat"));
        let trace = path.to_str().unwrap();
        latscope(&["record", "-s", source, "--for", "1s", "-w", trace, filter]).success();
        let read = latscope(&["percentiles", "-r", trace, "--fail-if", limit]);
        assert!(read.status == Some(3) && read.err.contains(why), "{source}: {}", read.err);
        // What is known is enough for a lower one.
        latscope(&["percentiles", "-r", trace, "--fail-if", "oldest > 300ms"]).failure(1);
    }
    // The kernel knows since when requests wait.
    let filter = hung.disk.filter();
    latscope(&["percentiles", "-s", "block", "-i", "500ms", "--for", "1s", "--fail-if", limit, &filter]).success();
    hung.disk.signal("CONT");
}
