//! `summary --use`, from files held against every event, live against the kernel's own statistics.

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
