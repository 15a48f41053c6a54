//! Real captures, against counts known beforehand and against a pairing that shares nothing with ours: for each
//! completion it looks back line by line for the issue.

use crate::program::{latscope, latscope_with, testdata, unpacked};
use latscope_capture_file::{ReadOptions, read_bytes};
use latscope_event::{Anomaly, Context, FieldSet};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// A day of everything: tar, fio, fsync, discard and a throttled loop device for 24 seconds.
const MIXED: &str = "perf_data/block_mixed.txt.zst";

/// Start and latency of the events in the order of completion.
fn read(bytes: &[u8]) -> (Vec<(i64, u64)>, Context) {
    let mut events = Vec::new();
    let context = read_bytes("capture", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        events.extend(batch.time().iter().copied().zip(batch.latency().iter().copied()));
        ControlFlow::Continue(())
    });
    (events, context.expect("a capture can be read"))
}

/// A line of these captures, whose names have no blanks: fields can be counted.
#[derive(PartialEq, Clone, Debug)]
struct Record {
    what: String,
    time_ns: i64,
    device: String,
    letters: String,
    sector: u64,
    sectors: u64,
}

fn records(text: &[u8]) -> Vec<Record> {
    let text = std::str::from_utf8(text).expect("captures are UTF-8");
    let record = |line: &str| {
        let (left, right) = line.split_once(" block:block_rq_")?;
        let time = left.split_whitespace().last()?.trim_end_matches(':');
        let (seconds, micros) = time.split_once('.')?;
        let words: Vec<_> = right.split_whitespace().collect();
        let plus = words.iter().position(|&word| word == "+")?;
        let sectors = words[plus + 1].parse().ok()?;
        Some(Record {
            what: words[0].trim_end_matches(':').into(),
            time_ns: seconds.parse::<i64>().ok()? * 1_000_000_000 + micros.parse::<i64>().ok()? * 1000,
            device: words[1].into(),
            letters: words[2].into(),
            sector: words[plus - 1].parse().ok()?,
            sectors,
        })
    };
    text.lines().filter_map(record).collect()
}

/// Events by looking back from each completion for the last line about the same sector, which must be its issue.
fn looked_up(records: &[Record]) -> Vec<(i64, u64)> {
    let mut flushes: HashMap<&str, Vec<i64>> = HashMap::new();
    let mut events = Vec::new();
    for (at, done) in records.iter().enumerate() {
        match (done.what.as_str(), done.sectors) {
            ("issue", 0) => flushes.entry(&done.device).or_default().push(done.time_ns),
            ("complete", 0) if done.letters == "FF" => {
                let issued_ns = flushes.get_mut(done.device.as_str()).expect("a flush was issued").remove(0);
                events.push((issued_ns, (done.time_ns - issued_ns) as u64));
            }
            ("complete", 1..) => {
                let same = |record: &&Record| {
                    record.device == done.device && record.sector == done.sector && record.what != "insert"
                };
                let before = records[..at].iter().rev().find(same);
                if let Some(issue) = before.filter(|issue| issue.what == "issue" && issue.letters == done.letters) {
                    events.push((issue.time_ns, (done.time_ns - issue.time_ns) as u64));
                }
            }
            _ => {}
        }
    }
    events
}

#[test]
fn the_mixed_capture_has_the_known_counts() {
    let text = unpacked(MIXED);
    let lines = records(&text);
    let count = |what: &str| lines.iter().filter(|record| record.what == what).count();
    assert_eq!((count("issue"), count("complete"), count("requeue")), (22_673, 22_420, 258));

    let (events, context) = read(&text);
    let counts: Vec<_> = context.tally.iter().collect();
    assert_eq!(events.len(), 22_409);
    assert_eq!(counts, [(Anomaly::Unfinished, 6), (Anomaly::Requeue, 258), (Anomaly::FlushParent, 11)]);
    // Every line has its place: issues are events, repeated by a requeue, or open; completions are events or parents.
    assert_eq!(22_673, events.len() + 258 + 6);
    assert_eq!(22_420, events.len() + 11);
}

#[test]
fn looking_back_line_by_line_finds_the_same_events() {
    for (name, lossy) in [
        (MIXED, false),
        ("perf_script/story_2s.txt.gz", false),
        ("perf_script/callgraph.txt.gz", false),
        ("perf_script/all_events.txt.gz", false),
        ("perf_script/lost.txt.gz", true),
    ] {
        let text = unpacked(name);
        let (events, context) = read(&text);
        assert_eq!(events, looked_up(&records(&text)), "{name}");
        assert_eq!(context.tally.get(Anomaly::LostRecords) > 0, lossy, "{name}");
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0, "{name}");
    }
}

#[test]
fn lost_records_are_counted_as_the_text_says() {
    let text = unpacked("perf_script/lost.txt.gz");
    let lines = std::str::from_utf8(&text).unwrap().lines();
    let losses: Vec<u64> =
        lines.filter_map(|line| line.split_once("PERF_RECORD_LOST lost ")?.1.trim().parse().ok()).collect();
    let (_, context) = read(&text);
    assert_eq!(context.tally.get(Anomaly::LostRecords), losses.iter().sum::<u64>());
    assert_eq!(context.loss_ranges.iter().map(|range| range.records).collect::<Vec<_>>(), losses);
}

/// The options and the lines that perf script printed under them.
fn variants() -> Vec<(String, String)> {
    let text = String::from_utf8(unpacked("perf_script/option_variants.txt")).unwrap();
    let variants = text.split("# perf script ").skip(1).filter_map(|part| part.split_once('\n'));
    variants.map(|(options, lines)| (options.to_string(), lines.to_string())).collect()
}

#[test]
fn options_of_perf_script_do_not_change_latencies() {
    let variants = variants();
    assert_eq!(variants.len(), 7);
    for (options, lines) in variants {
        let (events, context) = read(lines.as_bytes());
        // Two lines are a request, the third is the issue of another.
        let [(_, latency_ns)] = events[..] else { panic!("{options}: {events:?}") };
        assert!(latency_ns.abs_diff(44_958) < 1000, "{options}: {latency_ns}");
        assert_eq!(context.tally.iter().collect::<Vec<_>>(), [(Anomaly::Unfinished, 1)], "{options}");
    }
}

#[test]
fn differences_of_times_are_refused() {
    let text = String::from_utf8(unpacked("perf_script/story_2s.txt.gz")).unwrap();
    let mut last_us = None;
    let mut deltas = String::new();
    for line in text.lines().take(1000) {
        let (left, right) = line.split_once(": ").unwrap();
        let (left, time) = left.rsplit_once(' ').unwrap();
        let us: i64 = time.replace('.', "").parse().unwrap();
        let delta = us - last_us.replace(us).unwrap_or(us);
        deltas.push_str(&format!("{left} {}.{:06}: {right}\n", delta / 1_000_000, delta % 1_000_000));
    }
    let printed = latscope_with(&["summary", "-r", "-"], deltas.as_bytes()).failure(3);
    assert!(printed.contains("--deltatime") && printed.contains("without that option"), "{printed}");
}

#[test]
fn packing_and_pipes_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = unpacked(MIXED);
    let plain = folder.path().join("out.txt");
    std::fs::write(&plain, &text).unwrap();
    let gzip = folder.path().join("packed.any");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &text).unwrap();
    std::fs::write(&gzip, encoder.finish().unwrap()).unwrap();
    let json = |path: &str| latscope(&["events", "-r", path, "--json"]).success();
    let expected = json(plain.to_str().unwrap());
    assert_eq!(expected.lines().count(), 22_409);
    assert!(json(gzip.to_str().unwrap()) == expected, "gzip");
    assert!(json(testdata(MIXED).to_str().unwrap()) == expected, "zstd");
    assert!(latscope_with(&["events", "-r", "-", "--json"], &text).success() == expected, "standard input");
}

#[test]
fn system_calls_pair_by_thread() {
    let text = String::from_utf8(unpacked("perf_script/raw_syscalls.txt.gz")).unwrap();
    let mut entered: HashMap<String, (String, i64)> = HashMap::new();
    let mut expected = Vec::new();
    for line in text.lines() {
        let (left, call) = line.split_once(" raw_syscalls:sys_").unwrap();
        let words: Vec<_> = left.split_whitespace().collect();
        let time_us: i64 = words[words.len() - 1].trim_end_matches(':').replace('.', "").parse().unwrap();
        let thread = words[words.len() - 3].to_string();
        let number = call.split_whitespace().nth(2).unwrap().to_string();
        if call.starts_with("enter") {
            entered.insert(thread, (number, time_us));
        } else if let Some((entered, start_us)) = entered.remove(&thread)
            && entered == number
        {
            expected.push((start_us * 1000, (time_us - start_us) * 1000, number));
        }
    }
    let path = testdata("perf_script/raw_syscalls.txt.gz");
    let events = |source: &str, filter: &str| {
        let arguments = ["events", "-r", path.to_str().unwrap(), "-s", source, "--csv", "--columns", "time,latency"];
        let csv = latscope(&[&arguments[..], &[filter]].concat()).success();
        let rows = csv.lines().skip(1).map(|row| row.split_once(',').unwrap());
        rows.map(|(time, latency)| (time.parse().unwrap(), latency.parse().unwrap())).collect::<Vec<(i64, i64)>>()
    };
    let all: Vec<_> = expected.iter().map(|(start, latency, _)| (*start, *latency)).collect();
    assert_eq!(events("syscall", "lat >= 0ns"), all);
    let of = |wanted: &str| {
        let calls = expected.iter().filter(|(.., number)| number == wanted);
        calls.map(|(start, latency, _)| (*start, *latency)).collect::<Vec<_>>()
    };
    let pread = of("17");
    assert!(pread.len() > 500);
    assert_eq!(events("io", "name = pread64"), pread);
    // Waiting for a lock is no I/O.
    assert!(!of("202").is_empty());
    assert_eq!(events("io", "name = futex"), []);
}
