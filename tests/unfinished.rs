//! Requests that had not completed when a trace from a file ended: they raise percentiles as those of a live capture do, in
//! every format and view, unless the tracer may have missed their completions. The truth is a schedule that the tests make up.

use crate::live::lab::{Background, Disk, alone, until};
use crate::program::{command, latscope, latscope_with, testdata, unpacked};
use latscope_capture_file::LatWriter;
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, Unfinished, Wait};
use std::fmt::Write;
use tempfile::TempDir;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;
/// When the trace starts and ends, nanoseconds.
const FROM: i64 = 100 * SECOND;
const TO: i64 = 110 * SECOND;
/// When the first disk hangs.
const HANG: i64 = 105 * SECOND;

/// A request to a disk: `8,0` is sda, `8,16` is sdb.
#[derive(Clone, Copy)]
struct Request {
    disk: &'static str,
    start: i64,
    /// `None`: it never completes.
    end: Option<i64>,
}

/// Two disks that complete a request every 10 ms after 2 ms; the first hangs with eight requests in flight.
fn schedule() -> Vec<Request> {
    let mut requests = Vec::new();
    for at in (FROM..TO).step_by(10 * MS as usize) {
        requests.push(Request { disk: "8,16", start: at + MS, end: Some(at + 3 * MS) });
        if at < HANG {
            requests.push(Request { disk: "8,0", start: at, end: Some(at + 2 * MS) });
        }
    }
    let hung = (0..8).map(|number| Request { disk: "8,0", start: HANG + number * MS, end: None });
    requests.extend(hung);
    requests
}

/// As `perf script` prints it.
fn text(requests: &[Request]) -> String {
    let mut lines: Vec<(i64, String)> = Vec::new();
    for (number, request) in requests.iter().enumerate() {
        let place = format!("{} WS", request.disk);
        let (sector, disk) = (8 * number, &place);
        let issue = format!("block:block_rq_issue: {disk} 4096 () {sector} + 8 none,0,0 [dd]");
        lines.push((request.start, issue));
        if let Some(end) = request.end {
            lines.push((end, format!("block:block_rq_complete: {disk} () {sector} + 8 none,0,0 [0]")));
        }
    }
    lines.sort();
    let mut text = String::new();
    for (at, line) in lines {
        let (seconds, us) = (at / SECOND, at % SECOND / 1_000);
        writeln!(text, "    dd  7 [000] {seconds}.{us:06}: {line}").unwrap();
    }
    text
}

/// The trace as text, and in the forms that we write, made of it.
fn forms() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("t.txt"), text(&schedule())).unwrap();
    for form in ["t.lat", "t.parquet"] {
        latscope(&["convert", "-r", &path("t.txt"), "--write", &path(form)]).success();
    }
    let forms = ["t.txt", "t.lat", "t.parquet"].map(path);
    (folder, forms.to_vec())
}

/// Requests of a text of perf that were issued and not completed, by device number, and when (nanoseconds); and its last moment.
/// Sectors are issued once.
pub fn in_flight_at_the_end(text: &str) -> (Vec<(String, u64)>, u64) {
    let (mut open, mut last) = (std::collections::BTreeMap::new(), 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| word.starts_with("block:block_rq_")) else { continue };
        let (seconds, us) = words[at - 1].trim_end_matches(':').split_once('.').unwrap();
        last = seconds.parse::<u64>().unwrap() * 1_000_000_000 + us.parse::<u64>().unwrap() * 1_000;
        let sector = words[words.iter().position(|&word| word == "+").unwrap() - 1];
        let key = (words[at + 1].to_owned(), sector.to_owned());
        match words[at].contains("issue") {
            true => drop(open.insert(key, last)),
            false => drop(open.remove(&key)),
        }
    }
    (open.into_iter().map(|((device, _), start)| (device, start)).collect(), last)
}

/// Rows of CSV by their heading.
fn rows(csv: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    lines.map(|line| heading.iter().cloned().zip(line).collect()).collect()
}

/// By definition: what completed in the second, and the ages at its end of what was started and not completed.
fn expected_max(requests: &[Request], disk: &str, second: i64) -> (u64, u64) {
    let (from, to) = (second, second + SECOND);
    let own = || requests.iter().filter(|request| request.disk == disk);
    let last = requests.iter().filter_map(|request| request.end).max().unwrap();
    let completed = own().filter_map(|request| Some((request.end?, request.end? - request.start)));
    let completed = completed.filter(|&(end, _)| (from..to).contains(&end)).map(|(_, took)| took);
    let ages = own().filter(|request| request.end.is_none() && request.start < to);
    let ages: Vec<i64> = ages.map(|request| to.min(last) - request.start).collect();
    (completed.chain(ages.iter().copied()).max().unwrap_or(0) as u64, ages.len() as u64)
}

#[test]
fn a_disk_that_hangs_when_the_trace_ends_raises_percentiles_in_every_form() {
    let (_folder, forms) = forms();
    let requests = schedule();
    let outputs: Vec<String> = forms
        .iter()
        .map(|form| {
            latscope(&["percentiles", "-r", form, "-i", "1s", "--by", "device", "--count-by=completion", "--csv"])
                .success()
        })
        .collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]), "the forms agree");
    let found = rows(&outputs[0]);
    let of = |device: &str| found.iter().filter(|row| row["device"] == device).collect::<Vec<_>>();
    assert_eq!((of("sda").len(), of("sdb").len()), (10, 10), "the silent disk has its lines");
    for (device, disk) in [("sda", "8,0"), ("sdb", "8,16")] {
        for row in of(device) {
            let second: i64 = row["time_ns"].parse().unwrap();
            let (max, waiting) = expected_max(&requests, disk, second);
            assert_eq!(
                (row["max_ns"].as_str(), row["waiting"].as_str()),
                (&*max.to_string(), &*waiting.to_string()),
                "{row:?}"
            );
            let is_raised = device == "sda" && second >= HANG;
            assert_eq!(row["at_least"], if is_raised { "mean p50 p90 p99 p99.9 max" } else { "" }, "{row:?}");
            if is_raised {
                let p50: f64 = row["p50_ns"].parse().unwrap();
                assert!(((max as f64 - 8e6) * 0.98..=max as f64).contains(&p50), "{row:?}");
            }
        }
    }
}

#[test]
fn thresholds_judge_what_waited_when_the_trace_ended() {
    let (_folder, forms) = forms();
    for form in &forms {
        let judge = |condition: &str, filter: &str| {
            let arguments = ["percentiles", "-r", form, "-i", "1s", "--fail-if", condition, filter];
            latscope(&arguments[..if filter.is_empty() { 7 } else { 8 }]).status
        };
        // The last record is at 109.993 s, the first of the hung requests was issued at 105 s.
        for (condition, status) in [
            ("oldest > 4992ms", 1),
            ("oldest > 4993ms", 0),
            ("waiting > 7", 1),
            ("waiting > 8", 0),
            ("waiting(4987ms) > 5", 1),
            ("waiting(4987ms) > 6", 0),
            ("oldest > 1s for 4 intervals", 1),
            ("oldest > 1s for 5 intervals", 0),
            ("p99 > 1s", 1),
            ("max > 6s", 0),
        ] {
            assert_eq!(judge(condition, ""), Some(status), "{form}: {condition}");
        }
        assert_eq!(judge("waiting > 0", "device = sdb"), Some(0), "filters apply to what waits");
        assert_eq!(judge("waiting > 7", "device = sda and size = 4k and kind = write and comm = dd"), Some(1));
    }
}

#[test]
fn views_show_what_waited_when_the_trace_ended() {
    let (_folder, forms) = forms();
    for form in &forms {
        let summary = latscope(&["summary", "-r", form, "--json"]).success();
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        let sda = summary["groups"].as_array().unwrap().iter().find(|group| group["device"] == "sda").unwrap();
        assert_eq!(
            (&sda["waiting"], &sda["oldest_ns"], &sda["max_ns"]),
            (&8.into(), &4_993_000_000u64.into(), &4_993_000_000u64.into())
        );
        assert_eq!(summary["total"]["waiting"], 8);
        assert!(sda["at_least"].as_str().unwrap().contains("p99.9 p99.99 max"), "{sda}");
        let histogram = latscope(&["histogram", "-r", form]).success();
        assert!(histogram.contains("waiting: 8, the oldest for 4.99s"), "{histogram}");
        assert!(histogram.contains("max >=4.99s"), "{histogram}");
        let rows = latscope(&["spectrogram", "-r", form, "--plain", "-i", "1s", "--width", "120"]).success();
        assert_eq!(rows.lines().filter(|line| line.trim_end().ends_with(" 8    4.99s")).count(), 1, "{rows}");
        let only = latscope(&["summary", "-r", form, "--json", "--completed-only"]).success();
        let only: serde_json::Value = serde_json::from_str(&only).unwrap();
        assert_eq!((&only["total"]["max_ns"], &only["total"]["waiting"]), (&2_000_000.into(), &8.into()));
    }
}

/// By share, a request that waits is part of each interval that it lasts, with its whole age.
#[test]
fn by_share_what_waits_counts_in_all_that_it_lasts() {
    let (_folder, forms) = forms();
    for form in &forms {
        let csv = latscope(&["percentiles", "-r", form, "-i", "1s", "--csv", "device = sda"]).success();
        for row in rows(&csv) {
            let second: i64 = row["time_ns"].parse().unwrap();
            let is_hung = second >= HANG;
            assert_eq!(row["max_ns"], if is_hung { "4993000000" } else { "2000000" }, "{row:?}");
            assert_eq!(row["waiting"], if is_hung { "8" } else { "0" });
            // The age at the end of the interval, as live.
            let age = (second + SECOND).min(TO - 7 * MS) - HANG;
            assert_eq!(row["oldest_ns"], if is_hung { age.to_string() } else { String::new() });
            assert_eq!(row["incomplete"], if is_hung { "true" } else { "false" }, "{row:?}");
        }
    }
}

/// A completion that the tracer lost without a word is no request that waits: its disk went on.
#[test]
fn requests_that_their_disk_left_behind_do_not_count() {
    let mut requests = schedule();
    requests.truncate(900);
    for at in [100, 300, 500] {
        requests[at].end = None;
    }
    let trace = text(&requests);
    let run = |arguments: &[&str]| latscope_with(&[arguments, &["-r", "-"]].concat(), trace.as_bytes());
    let table = |more: &[&str]| run(&[&["percentiles", "-i", "1s", "--csv"], more].concat());
    let (all, only) = (table(&[]), table(&["--completed-only"]));
    assert_eq!(all.out, only.out, "nothing is raised");
    let printed = all.err.clone();
    assert!(printed.contains("3 requests without a completion when the trace ended"), "{printed}");
    assert!(
        printed.contains("; 3 do not count as waiting: their devices went on and completed later requests for longer"),
        "{printed}"
    );
    let table = rows(&String::from_utf8(all.out).unwrap());
    let (_, whole) = table.split_last().unwrap();
    assert!(whole.iter().all(|row| row["incomplete"] == "false"), "only the last is covered in part");
    // What nobody can decide is no verdict.
    let printed = run(&["percentiles", "-i", "1s", "--fail-if", "waiting > 0"]).failure(3);
    assert!(printed.contains("3 requests have no completion"), "{printed}");
}

/// The recording of a machine whose tracer lost six completions: the longest seemed to hang for 24 s.
#[test]
fn completions_lost_in_a_real_recording_raise_nothing() {
    let trace = testdata("perf_data/block_mixed.data.zst");
    let run = |more: &[&str]| {
        latscope(&[&["percentiles", "-r", trace.to_str().unwrap(), "-i", "5s", "--csv"], more].concat()).success()
    };
    assert_eq!(run(&[]), run(&["--completed-only"]));
}

/// The end of a real recording, at which requests were in flight, and no completion is known to be missing.
#[test]
fn requests_in_flight_at_the_end_of_a_real_recording_count() {
    let trace = testdata("perf_script/story_2s.txt.gz");
    let summary = latscope(&["summary", "-r", trace.to_str().unwrap(), "--json"]).success();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let (open, end) = in_flight_at_the_end(&String::from_utf8(unpacked("perf_script/story_2s.txt.gz")).unwrap());
    let oldest = open.iter().map(|(_, start)| end - start).max().unwrap();
    assert_eq!(open.len(), 6);
    assert_eq!((&summary["total"]["waiting"], &summary["total"]["oldest_ns"]), (&6.into(), &oldest.into()));
}

/// A trace that lost records says so, and counts nothing that may have completed unseen.
#[test]
fn a_trace_that_lost_records_counts_nothing_that_may_have_completed() {
    let trace = testdata("perf_script/lost.txt.gz");
    let ended = latscope(&["summary", "-r", trace.to_str().unwrap()]);
    let shown = ended.success();
    assert!(shown.contains("12 requests without a completion when the trace ended"), "{shown}");
    assert!(shown.contains("; 12 do not count as waiting: the trace lacks completions"), "{shown}");
    assert!(!shown.contains(">="), "{shown}");
}

/// An idle server waits in `read` and `accept` for hours; a call on a file does not.
#[test]
fn calls_that_wait_for_messages_do_not_count() {
    let mut text = String::new();
    for at in 0..200 {
        let (from, to) = (at * 10, at * 10 + 2);
        for (ms, line) in
            [(from, "sys_enter_pread64: fd: 0x5, buf: 0x1, count: 0x1000, pos: 0x0"), (to, "sys_exit_pread64: 0x1000")]
        {
            writeln!(text, "    dd  7 [000] {}.{:03}000: syscalls:{line}", 10 + ms / 1000, ms % 1000).unwrap();
        }
    }
    let enter = |thread: u32, call: &str| {
        format!("    srv  {thread} [000] 12.100000: syscalls:sys_enter_{call}: fd: 0x5, buf: 0x1, count: 0x1000\n")
    };
    text += &(enter(8, "read") + &enter(9, "recvfrom") + &enter(10, "fsync"));
    text += "    dd  7 [000] 15.100000: syscalls:sys_enter_pread64: fd: 0x5, buf: 0x1, count: 0x1000, pos: 0x0\n";
    text += "    dd  7 [000] 15.101000: syscalls:sys_exit_pread64: 0x1000\n";
    let ended = latscope_with(&["summary", "-r", "-", "--by", "name", "--json"], text.as_bytes());
    let printed = ended.err.clone();
    let summary: serde_json::Value = serde_json::from_str(&ended.success()).unwrap();
    assert_eq!((&summary["total"]["waiting"], &summary["total"]["oldest_ns"]), (&1.into(), &3_001_000_000u64.into()));
    assert!(printed.contains("; 2 do not count as waiting: such calls also wait for other processes"), "{printed}");
}

/// Two events a day apart in intervals of a microsecond are no output of 86 billion lines.
#[test]
fn gaps_without_bound_have_no_lines() {
    let rows: String = (0..50).map(|day| format!("{}.0 0.000001\n", day * 86_400)).collect();
    let input = ["percentiles", "-r", "-", "--format", "two_columns", "-i", "1s", "--csv"];
    let ended = latscope_with(&input, rows.as_bytes());
    let printed = ended.err.clone();
    assert!(
        printed.contains("4,147,152 intervals without events are not shown") && printed.contains("(-i)"),
        "{printed}"
    );
    // The first gap has its lines, no other fits.
    assert_eq!(ended.success().lines().count(), 1 + 50 + 86_399);
}

/// Logs of completed I/O do not know what was in flight.
#[test]
fn what_a_log_does_not_say_is_no_verdict() {
    let log = testdata("fio_log/u_clat.1.log");
    let arguments = ["percentiles", "-r", log.to_str().unwrap(), "-i", "1s", "--fail-if", "waiting > 0"];
    let printed = latscope(&arguments).failure(3);
    assert!(printed.contains("does not record waiting requests"), "{printed}");
}

/// A side that hangs is not compared by what it completed alone.
#[test]
fn a_comparison_counts_what_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt").display().to_string();
    std::fs::write(&trace, text(&schedule())).unwrap();
    let compared = |more: &[&str]| latscope(&[&["compare", &trace, "--by", "device"], more].concat());
    let json: serde_json::Value = serde_json::from_str(&compared(&["--json"]).success()).unwrap();
    let sides = json["sides"].as_array().unwrap();
    let side = |name: &str| sides.iter().find(|side| side["name"].as_str().unwrap().contains(name)).unwrap();
    assert_eq!((side("sda")["count"].as_u64(), side("sdb")["count"].as_u64()), (Some(500), Some(1000)), "{json}");
    let longest_ns = (TO - 10 * MS + 3 * MS - HANG) as u64;
    assert_eq!((side("sda")["max_ns"].as_u64(), side("sdb")["max_ns"].as_u64()), (Some(longest_ns), Some(2_000_000)));
    let notes = json["notes"].as_array().unwrap();
    let note = notes.iter().find_map(|note| note.as_str().filter(|note| note.contains("had not completed"))).unwrap();
    assert!(note.contains("sda") && note.contains("8 requests") && note.contains("a lower bound"), "{note}");
    let printed = compared(&[]).success();
    assert!(printed.contains("note: ") && printed.contains("8 requests had not completed"), "{printed}");
    // A filter that leaves them out is heeded.
    let json = compared(&["--json", "--filter", "latency < 1s"]).success();
    assert!(!json.contains("had not completed"), "{json}");
}

/// What hangs while a recording ends is in the recording, with its device, size and age.
#[test]
fn a_recording_that_ends_while_a_disk_hangs_knows_it() {
    let Some(_alone) = alone() else { return };
    let (disk, folder) = (Disk::new(&[]), tempfile::tempdir().unwrap());
    let trace = folder.path().join("hang.lat");
    let trace = trace.to_str().unwrap();
    let record = Background::latscope(&["record", "-s", "block", "--write", trace, &disk.filter()]);
    until("the capture", || std::fs::metadata(trace).is_ok_and(|file| file.len() > 0));
    disk.signal("STOP");
    let asked = std::time::Instant::now();
    let arguments = [&format!("if={}", disk.path), "of=/dev/null", "bs=4k", "count=1", "skip=3", "iflag=direct"];
    let dd = Background::new(command("dd").args(arguments));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    record.interrupt().success();
    let longest = asked.elapsed().as_nanos() as u64;
    disk.signal("CONT");
    assert_eq!(dd.ended().status, Some(0));
    let of = |filter: &str| -> serde_json::Value {
        serde_json::from_str(&latscope(&["summary", "-r", trace, "--json", filter]).success()).unwrap()
    };
    let total = &of("kind = read and size = 4k and comm = dd")["total"];
    assert_eq!(total["waiting"], 1, "{total}");
    let oldest = total["oldest_ns"].as_u64().unwrap();
    assert!((500_000_000..longest).contains(&oldest), "{oldest} of at most {longest}");
    assert_eq!(total["p99_ns"].as_u64().unwrap().abs_diff(oldest) * 50 / oldest, 0, "{total}");
    assert_eq!(of("kind = write")["total"]["waiting"], 0);
    let judge = |condition: &str| latscope(&["percentiles", "-r", trace, "-i", "100ms", "--fail-if", condition]).status;
    assert_eq!((judge("oldest > 500ms"), judge("oldest > 1h")), (Some(1), Some(0)));
}

/// The share of the time is of completed latency and of the ages of what waits, by definition.
#[test]
fn shares_of_the_time_include_what_waits() {
    let (_folder, forms) = forms();
    let requests = schedule();
    let last = requests.iter().filter_map(|request| request.end).max().unwrap();
    let time = |disk: &str, waits: bool| -> i64 {
        let own = requests.iter().filter(|request| request.disk == disk && (waits || request.end.is_some()));
        own.map(|request| request.end.unwrap_or(last) - request.start).sum()
    };
    for form in &forms {
        for waits in [true, false] {
            let arguments = ["summary", "-r", form, "--by", "device", "--csv", "--completed-only"];
            let found = rows(&latscope(&arguments[..if waits { 6 } else { 7 }]).success());
            let share = |device: &str| -> f64 {
                found.iter().find(|row| row["device"] == device).unwrap()["share"].parse().unwrap()
            };
            let [sda, sdb] = ["8,0", "8,16"].map(|disk| time(disk, waits) as f64);
            assert!((share("sda") - sda / (sda + sdb)).abs() < 1e-9, "{form} {waits}: {found:?}");
            assert!((share("sdb") - sdb / (sda + sdb)).abs() < 1e-9, "{form} {waits}: {found:?}");
        }
    }
}

/// Requests that wait stand in the row of their age, apart from those that completed.
#[test]
fn histograms_show_what_waits_in_the_row_of_its_age() {
    let (_folder, forms) = forms();
    let requests = schedule();
    let last = requests.iter().filter_map(|request| request.end).max().unwrap();
    let row_of = |age_ns: i64| 1_i64 << (age_ns / 1_000).ilog2();
    for form in &forms {
        for second in (HANG..TO).step_by(SECOND as usize) {
            let expected = row_of((second + SECOND).min(last) - HANG);
            let printed = latscope(&["histogram", "-r", form, "-i", "1s", "--by", "device", "dev = sda"]).success();
            let heading = format!("at {}s: 0 events\n", (second - FROM) / SECOND);
            let block = printed.split(&heading).nth(1).unwrap().split("\nat ").next().unwrap();
            let row = block.lines().find(|line| line.contains(" waiting") && line.contains("->")).unwrap();
            assert!(row.trim_start().starts_with(&format!("{expected} -> ")), "{row}\n{block}");
            assert!(row.contains("  8 waiting") && row.contains('░') && row.contains(": 0 "), "{row}");
            assert!(block.contains("p99 >="), "{block}");
        }
        let completed = latscope(&["histogram", "-r", form, "--completed-only", "dev = sda"]).success();
        assert!(!completed.contains('░') && !completed.contains(">="), "{completed}");
    }
}

#[test]
fn what_only_waits_is_not_nothing() {
    let ended = latscope_with(&["summary", "-r", "-", "lat > 1s"], text(&schedule()).as_bytes());
    let sentence = "No event that matches the filter has completed, and 8 wait: latency_ns > 1s\n";
    assert!(ended.err.contains(sentence) && ended.status == Some(0), "{}", ended.err);
}

/// A trace of two reads that ended and three that hang, one without a stack.
fn with_stacks() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fields = FieldSet::ALWAYS.with(&[Field::Tid, Field::Stack]);
    let mut context = Context::new("made up", Clock::unanchored("none"));
    let batch = |rows: &[(i64, i64, u64, Option<&str>)]| {
        let mut batch = Batch::new(fields);
        for &(tid, start_ns, latency_ns, stack) in rows {
            batch.push_i64(Field::Time, start_ns);
            batch.push_u64(Field::Latency, latency_ns);
            batch.push_i64(Field::Tid, tid);
            batch.push_text(Field::Stack, stack.map(str::as_bytes));
            batch.end_row();
        }
        batch
    };
    let [fast, hung] = ["main;fast_read_[k]", "main;hung_read_[k]"].map(Some);
    let second = SECOND as u64;
    let waits = batch(&[(7, SECOND, 4 * second, hung), (8, 2 * SECOND, 3 * second, hung), (9, 0, 5 * second, None)]);
    let request = |row| Unfinished::from_row(format!("read {row}"), Wait::Counts, &waits, row);
    context.unfinished = (0..3).map(request).collect();
    context.tally.add(Anomaly::Unfinished, 3);
    let out = std::fs::File::create(folder.path().join("t.lat")).unwrap();
    let mut writer = LatWriter::create(out, fields, &context).unwrap();
    writer.write(&batch(&[(7, 0, 2_000_000, fast), (9, SECOND, 2_000_000, fast)]), None).unwrap();
    writer.finish(&context).unwrap();
    folder
}

fn unpacked_bytes(bytes: &[u8]) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

/// Stacks of what has not ended are in files for other viewers, with its age.
#[test]
fn stacks_of_what_waits_are_converted() {
    let folder = with_stacks();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (filter, expected) in [
        ("lat >= 0", "[no stack] 5000000\nmain;fast_read 4000\nmain;hung_read 7000000\n"),
        ("lat > 1s", "[no stack] 5000000\nmain;hung_read 7000000\n"),
        ("tid = 8", "main;hung_read 3000000\n"),
    ] {
        let words = ["convert", "-f", "--weight", "time", "-r", &path("t.lat"), "-w", &path("t.folded"), filter];
        let ran = latscope(&words);
        let said = ran.err.clone();
        ran.success();
        let folded = std::fs::read_to_string(path("t.folded")).unwrap();
        assert_eq!(folded.replace("_[k]", ""), expected, "{filter}");
        let note = if filter == "tid = 8" {
            "1 event had not ended and counts with its age"
        } else {
            "3 events had not ended"
        };
        assert!(said.contains(note), "{said}");
        // The same total, however it is divided.
        let by = [
            "convert",
            "-f",
            "--weight",
            "time",
            "--by",
            "tid",
            "-r",
            &path("t.lat"),
            "-w",
            &path("by.folded"),
            filter,
        ];
        let divided = latscope(&by);
        assert!(divided.err.contains(note), "{}", divided.err);
        let sum = |text: &str| -> u64 {
            text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
        };
        assert_eq!(sum(&std::fs::read_to_string(path("by.folded")).unwrap()), sum(&folded), "{filter}");
        for other in ["t.pb.gz", "t.speedscope.json", "t.profile.json.gz"] {
            latscope(&["convert", "-f", "-r", &path("t.lat"), "-w", &path(other), filter]).success();
        }
        let back = latscope(&["stacks", "-r", &path("t.pb.gz"), "--csv"]).success();
        assert!(back.contains("hung_read"), "{back}");
        // Their times are lower bounds.
        let marked =
            latscope(&["events", "-r", &path("t.pb.gz"), "--json", "--columns", "stack,latency_ns,tags"]).success();
        let is_marked = |line: &str| line.contains("\"unfinished=true\"");
        assert!(marked.lines().all(|line| is_marked(line) != line.contains("fast_read")), "{marked}");
        let profile = unpacked_bytes(&std::fs::read(path("t.profile.json.gz")).unwrap());
        assert_eq!(profile.contains("\"stack\":[null"), filter != "tid = 8", "{profile}");
    }
}

/// What a view names as waiting passes its filter, as all that it shows.
#[test]
fn only_what_passes_the_filter_is_named() {
    let folder = with_stacks();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let page = path("t.html");
    let views: [&[&str]; 6] =
        [&["summary"], &["percentiles"], &["stacks"], &["events"], &["heatmap"], &["report", "-o", &page]];
    for (filter, named) in [("tid = 8", "read 1, at least 3s"), ("tid = 7", "read 0, at least 4s")] {
        for view in views {
            let ran = latscope(&[view, &["-r", &path("t.lat"), filter]].concat());
            let printed = ran.err.clone() + &ran.success();
            assert!(printed.contains(named) && !printed.contains("read 2"), "{view:?} {filter}: {printed}");
            assert!(!printed.contains("unfinished: 3"), "{view:?} {filter}: {printed}");
        }
        let head = super::serve::head_of_page(&std::fs::read_to_string(&page).unwrap());
        let waiting = &head["unfinished"];
        assert_eq!((&waiting["count"], &waiting["longest"][0]["what"]), (&1.into(), &named[..6].into()), "{filter}");
    }
}

/// Both sides of a difference have what has not ended, with its age, whichever way they are told apart.
#[test]
fn stacks_of_what_waits_are_compared() {
    let folder = with_stacks();
    let trace = folder.path().join("t.lat").display().to_string();
    let picture = |words: &[&str]| {
        latscope(&[&["flamegraph", "-r", &trace, "--width", "time", "--min-share", "0"], words].concat()).success()
    };
    // 4 s and 3 s hang; one more has no stack.
    let of_slow = picture(&["--against", "lat < 1s"]);
    let heading = "7s in all · 2 events · 2 of them wait still and count with their age so far";
    assert!(of_slow.contains(heading) && of_slow.contains("<title>hung_read\n100 % ("), "{of_slow}");
    assert!(of_slow.contains("compared with latency_ns &lt; 1s: 4ms in all"), "{of_slow}");
    assert!(of_slow.contains("5s without a stack"), "{of_slow}");
    // Only what hangs has this thread, and in the first one an event of 2 ms besides.
    let of_thread = picture(&["tid = 7", "--against", "tid = 8"]);
    assert!(of_thread.contains("4s in all · 2 events · 1 of them waits still"), "{of_thread}");
    assert!(of_thread.contains("compared with tid = 8: 3s in all"), "{of_thread}");
}

/// What waits keeps the tags that it had when the trace was written.
#[test]
fn what_waits_keeps_its_tags() {
    let folder = with_stacks();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("tags"), "7 0ns - query=q17\n8 0ns - query=q18\n").unwrap();
    let words =
        ["convert", "-r", &path("t.lat"), "--tag-file", &path("tags"), "--tag", "query", "-w", &path("tagged.lat")];
    latscope(&words).success();
    for (query, waits) in [("q17", "4"), ("q18", "3")] {
        let words = ["stacks", "-r", &path("tagged.lat"), "--tag", "query", "--csv"];
        let shown = latscope(&[&words[..], &[&format!("tag = {query} and lat > 1s")]].concat()).success();
        assert!(shown.contains(&format!(",{waits}000000000,1,1,1,")), "{shown}");
    }
}

/// A filter that selects most events has the others explained; what it selects and has not completed stays on its side.
#[test]
fn what_waits_is_on_the_side_of_its_filter() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.txt");
    let line = |ms: u64, event: &str| format!("  fio  7 [000] 100.{ms:03}000: block:block_rq_{event} [fio]\n");
    let mut text = String::new();
    for at in 0..40u64 {
        let device = if at % 4 == 0 { "7,1" } else { "7,3" };
        text += &line(at * 10, &format!("issue: {device} R 4096 () {} + 8", at * 8));
        text += &line(at * 10 + 2, &format!("complete: {device} R () {} + 8", at * 8));
    }
    text += &line(401, "issue: 7,3 R 4096 () 800 + 8");
    text += &line(900, "issue: 7,1 R 4096 () 900 + 8");
    text += &line(902, "complete: 7,1 R () 900 + 8");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    for (filter, side) in [("device = loop3", "baseline"), ("device = loop1", "selection")] {
        let said = latscope(&["explain", "-r", file, filter]).success();
        let hangs = format!("{side}, not completed: a request waits still, so far 501ms");
        assert_eq!(said.contains(&hangs), filter == "device = loop3", "{filter}: {said}");
    }
    // Rows are of what completed, and who converts is told.
    for (form, tells) in [("csv", true), ("jsonl", true), ("lat", false), ("parquet", false)] {
        let to = folder.path().join(format!("t.{form}"));
        let converted = latscope(&["convert", "-r", file, "-w", to.to_str().unwrap()]);
        assert_eq!(
            converted.err.contains("1 event without an end is not in the file"),
            tells,
            "{form}: {}",
            converted.err
        );
    }
    let refused = latscope(&["percentiles", "-r", file, "-y", "size", "--fail-if", "waiting > 0"]).failure(2);
    assert!(refused.contains("what waits has an age"), "{refused}");
    let noted = latscope(&["summary", "-r", file, "--latency", "request", "--json"]);
    assert!(noted.err.contains("no request has the time of its creation"), "{}", noted.err);
    // Most intervals of 10 ms have no completion, and the last ones before the end only what waits.
    let hlog = folder.path().join("t.hlog");
    latscope(&["convert", "-r", file, "-w", hlog.to_str().unwrap(), "-i", "10ms"]).success();
    let summary = latscope(&["summary", "-r", hlog.to_str().unwrap(), "--json"]).success();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&summary).unwrap()["total"]["count"], 41);
    // Shares of what has completed say so beside those of all.
    let said = latscope(&["explain", "-r", file, "device = loop3"]).success();
    assert!(said.contains("of all waiting time of completed requests: not (device = loop3)"), "{said}");
}

/// Records that are not of interest show that the trace went on while a request waited.
#[test]
fn a_trace_goes_on_to_its_last_record() {
    let mut text = String::new();
    for at in 0..100 {
        text += &format!("fio 123 [000] 100.{at:02}1000: block:block_rq_issue: 7,0 R 4096 () {at} + 8 [fio]\n");
        text += &format!("fio 123 [000] 100.{at:02}2000: block:block_rq_complete: 7,0 R () {at} + 8 [0]\n");
    }
    text += "fio 123 [000] 101.000000: block:block_rq_issue: 7,0 R 4096 () 800 + 8 [fio]\n";
    let ends = "swapper 0 [001] 131.500000: sched:sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> \
                next_comm=fio next_pid=123 next_prio=120\n";
    for (text, status) in [(text.clone(), 0), (text + ends, 1)] {
        let ended = latscope_with(&["percentiles", "-r", "-", "--fail-if", "oldest > 30s"], text.as_bytes());
        assert_eq!(ended.status, Some(status), "{}", ended.err);
        assert_eq!(ended.err.contains("30.5s"), status == 1, "{}", ended.err);
    }
}
