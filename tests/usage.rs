//! `summary`: what it prints and leaves out; --use from files held against every event, live against the kernel's own statistics.

use crate::live::blind::seeing_all;
use crate::live::lab::{Background, Disk, alone, fio_command, number};
use crate::program::{end, latscope, latscope_with, unpacked};
use crate::unfinished::in_flight_at_the_end;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Sorted by start, an event is busy from where all before it ended.
#[test]
fn use_is_what_the_events_say() {
    let trace = "testdata/perf_script/story_2s.txt.gz";
    let events =
        latscope(&["events", "-r", trace, "--json", "--columns", "time,latency,device,queue_ns,error"]).success();
    let events: Vec<Value> = events.lines().map(json).collect();
    let summary = json(&latscope(&["summary", "-r", trace, "--use", "--json"]).success());
    let (open, ended) = in_flight_at_the_end(&String::from_utf8(unpacked("perf_script/story_2s.txt.gz")).unwrap());
    let name = |number: &str| match number {
        "7,0" => "loop0",
        "7,3" => "loop3",
        _ => "254:0",
    };
    let span = summary["span_ns"].as_f64().unwrap();
    let groups = summary["groups"].as_array().unwrap();
    assert!(groups.len() > 1);
    for (device, group) in
        groups.iter().map(|group| (group["device"].as_str(), group)).chain([(None, &summary["total"])])
    {
        let of_group = || events.iter().filter(|event| device.is_none() || event["device"].as_str() == device);
        let mut stretches: Vec<(u64, u64)> = of_group()
            .map(|event| (number(event, "time_ns"), number(event, "time_ns") + number(event, "latency_ns")))
            .collect();
        // What was in flight at the end is part of it.
        let waits = open.iter().filter(|(number, _)| device.is_none_or(|device| device == name(number)));
        stretches.extend(waits.map(|&(_, start)| (start, ended)));
        stretches.sort_unstable();
        let (mut busy, mut until) = (0, 0);
        for &(from, to) in &stretches {
            busy += to.max(until) - from.max(until);
            until = until.max(to);
        }
        let sum: u64 = stretches.iter().map(|(from, to)| to - from).sum();
        let waits: Vec<f64> = of_group().filter_map(|event| event["queue_ns"].as_f64()).collect();
        let near = |key: &str, expected: f64| {
            let reported = group[key].as_f64().unwrap();
            assert!((reported - expected).abs() <= 1e-9 * expected, "{device:?} {key}: {reported} {expected}");
        };
        near("busy", busy as f64 / span);
        near("in_flight", sum as f64 / span);
        if waits.is_empty() {
            assert!(group["mean_queue_ns"].is_null());
        } else {
            near("mean_queue_ns", waits.iter().sum::<f64>() / waits.len() as f64);
        }
    }
    let table = latscope(&["summary", "-r", trace, "--use"]).success();
    assert!(table.contains("queue  in flight") && table.contains("busy  errors"), "{table}");
    latscope_with(&["summary", "-s", "block", "--use", "--mode", "histogram", "--for", "1s"], b"").failure(2);
}

/// The kernel adds up the time in which a disk had requests (in its ticks) and that of all requests.
#[test]
fn use_agrees_with_the_statistics_of_the_kernel() {
    seeing_all(|| {
        let Some(_alone) = alone() else { return };
        let disk = Disk::new(&["--size", "32MiB"]);
        let stat = || -> Vec<u64> {
            let text = std::fs::read_to_string(format!("/sys/block/{}/stat", disk.name())).unwrap();
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        let before = stat();
        let used = Background::latscope(&["summary", "-s", "block", "--use", "--json", &disk.filter()]);
        let load = ["--ioengine=libaio", "--iodepth=8", "--rw=randread", "--size=32m"];
        end(&mut fio_command(&disk, &load), b"").success();
        let summary = json(&used.interrupt().success());
        let total = &summary["total"];
        let deltas: Vec<u64> = stat().iter().zip(&before).map(|(now, before)| now - before).collect();
        let (reads, writes) = (deltas[0], deltas[4]);
        assert_eq!(number(total, "count"), reads + writes);
        let span_ms = number(&summary, "span_ns") as f64 / 1e6;
        let (busy, in_flight) = (total["busy"].as_f64().unwrap(), total["in_flight"].as_f64().unwrap());
        // No longer than all requests together, and no shorter than they allow with eight at a time.
        assert!(busy > 0.0 && busy <= 1.0 && busy <= in_flight && in_flight <= 8.0 * busy + 1e-9, "{total}");
        // The time of all requests counts from when they started to wait; ours are a part of it. It is rounded to milliseconds.
        let all_ms = (deltas[3] + deltas[7]) as f64;
        assert!(in_flight * span_ms <= all_ms + reads as f64 + 20.0, "{in_flight} of {span_ms} ms, {all_ms} ms");
        assert_eq!(number(total, "errors"), 0);
        let reported = std::fs::read_to_string(format!("/sys/block/{}/queue/rotational", disk.name())).unwrap();
        assert_eq!(summary["disks"][disk.name()]["rotational"], reported.trim() == "1");
    });
}

const STORY: &str = "testdata/perf_script/story_2s.txt.gz";

/// Events of our own CSV, one per millisecond: two devices, of which one knows how long its requests queued.
fn events(rows: impl Iterator<Item = (u64, &'static str, Option<u64>)>) -> String {
    let row = |(at, (latency_ns, device, queue_ns)): (usize, (u64, &str, Option<u64>))| {
        let queue = queue_ns.map_or(String::new(), |queue_ns| queue_ns.to_string());
        format!("{},{latency_ns},{device},{queue}\n", at * 1_000_000)
    };
    format!("time_ns,latency_ns,device,queue_ns\n{}", rows.enumerate().map(row).collect::<String>())
}

#[test]
fn a_mean_of_few_queue_times_is_not_shown_as_that_of_all() {
    let rows = (0..200).map(|row| match row % 10 {
        0 => (1000, "sda", Some(5_000_000)),
        1..5 => (1000, "sda", None),
        5 => (1000, "sdb", None),
        _ => (1000, "sdb", Some(2_000)),
    });
    let input = events(rows);
    let table = latscope_with(&["summary", "-r", "-", "--use"], input.as_bytes()).success();
    let cell = |group: &str| {
        let heading = table.lines().find(|line| line.starts_with("device")).unwrap();
        let end = heading.find("queue").unwrap() + "queue".len();
        let line = table.lines().find(|line| line.starts_with(group)).unwrap();
        line[..end].split_whitespace().last().unwrap().to_string()
    };
    assert_eq!(["sda", "sdb", "total"].map(cell), ["-", "2us", "1ms"], "{table}");
    let legend = "queue: mean of the 100 of 200 events that have one; - where most have none";
    assert!(table.contains(legend), "{table}");
    let json = latscope_with(&["summary", "-r", "-", "--use", "--json"], input.as_bytes()).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["total"]["queued"], json["total"]["mean_queue_ns"].as_f64()), (&100.into(), Some(1_001_600.0)));
    assert!(json["groups"].as_array().unwrap().iter().any(|group| group["queued"] == 20), "{json}");
    // Where all have it, there is nothing to say.
    let all = events((0..9).map(|_| (1000, "sda", Some(7))));
    let table = latscope_with(&["summary", "-r", "-", "--use"], all.as_bytes()).success();
    assert!(table.contains("7ns") && !table.contains("queue:"), "{table}");
}

#[test]
fn every_printed_column_sorts() {
    let header = latscope(&["summary", "-r", STORY, "--by", "device"]).success();
    let heading = header.lines().find(|line| line.starts_with("device")).unwrap();
    assert!(heading.contains("oldest") && heading.contains("bytes/s"), "{heading}");
    for column in heading.split_whitespace().chain(["queue", "in flight", "in_flight", "busy", "errors"]) {
        latscope(&["summary", "-r", STORY, "--use", "--by", "device", "--sort", column]).success();
    }
    let first = |column: &str| {
        let table = latscope(&["summary", "-r", STORY, "--csv", "--sort", column]).success();
        table.lines().nth(1).unwrap().split(',').next().unwrap().to_string()
    };
    assert_eq!(["bytes/s", "oldest", "device"].map(first), ["254:0", "loop0", "254:0"]);
}

#[test]
fn the_sign_of_lower_bounds_is_explained_where_it_stands() {
    let filter = "device = loop0 and lat > 50ms";
    let table = latscope(&["summary", "-r", STORY, "--by", "comm,kind", filter]).success();
    assert!(!table.contains(">="), "{table}");
    let table = latscope(&["summary", "-r", STORY]).success();
    assert!(table.contains(">=16.3ms") && table.contains("\n>= a lower bound"), "{table}");
}

#[test]
fn the_slowest_warnings_of_an_interval_are_printed() {
    let rows = (0..1500u64).map(|row| (if row < 1000 { 1_000_001 + row } else { 2_000_000 }, "sda", None));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, events(rows)).unwrap();
    let text = latscope(&["summary", "-r", path.to_str().unwrap(), "-i", "1s", "--over", "1ms"]).success();
    let tables: Vec<&str> = text.split("\n\n").collect();
    let counts = |part: &str| part.matches("latency warning").count();
    assert_eq!((counts(tables[0]), counts(tables[1])), (100, 100), "{text}");
    assert!(tables[0].contains("more, none slower than these"), "{}", tables[0]);
    assert!(!tables[0].contains("latency=1.000001ms") && tables[0].contains("latency=1.000999ms"), "{}", tables[0]);
}
