//! `latscope explain`: what slow requests have in common.

use crate::program::{latscope, latscope_with, testdata};
use serde_json::Value;

fn story() -> String {
    testdata("perf_script/story_2s.txt.gz").to_str().unwrap().into()
}

fn explained(arguments: &[&str]) -> Value {
    serde_json::from_str(&latscope(&[&["explain", "--json"], arguments].concat()).success()).unwrap()
}

/// How many events a filter lets through.
fn count(path: &str, filter: &str) -> u64 {
    let json: Value = serde_json::from_str(&latscope(&["summary", "-r", path, "--json", filter]).success()).unwrap();
    json["total"]["count"].as_u64().unwrap()
}

#[test]
fn the_loop_devices_of_the_story_are_found() {
    let story = story();
    let slowest = explained(&["-r", &story, "lat > 60ms"]);
    let top = &slowest["findings"][0];
    assert_eq!(top["filter"], "device = loop0 and kind = write", "{top}");
    assert_eq!((&top["selection_events"], &slowest["selection"]["events"]), (&60.into(), &63.into()));
    assert!(top["waiting_share"].as_f64().unwrap() > 0.5 && top["selection_share"].as_f64().unwrap() > 0.95);
    let slow = explained(&["-r", &story, "lat >= 15ms and lat < 60ms"]);
    assert_eq!(slow["findings"][0]["filter"], "device = loop3 and kind = read");
    let text = latscope(&["explain", "-r", &story, "lat > 60ms"]).success();
    assert!(text.contains("1. device = loop0 and kind = write\n"), "{text}");
    assert!(text.contains("60 events, 52.4% of all waiting time"), "{text}");
}

#[test]
fn printed_filters_select_what_they_say() {
    let (story, stacks) = (story(), testdata("flamegraph/slow_io.csv.gz").to_str().unwrap().to_string());
    let selections = [
        (&story, "lat > 60ms"),
        (&story, "evt.reltime between 500ms and 700ms"),
        (&story, "kind = write"),
        (&story, "device = \"254:0\" and lat > 180us"),
        (&story, "tid = 1947"),
        (&stacks, "lat > 30ms"),
        (&stacks, "comm = req-report"),
    ];
    let mut checked = 0;
    for (story, selection) in selections {
        let json = explained(&["-r", story, selection]);
        let selection = json["selection"]["filter"].as_str().unwrap();
        assert_eq!(count(story, selection), json["selection"]["events"].as_u64().unwrap());
        let values = json["attributes"].as_array().unwrap().iter().flat_map(|one| one["values"].as_array().unwrap());
        for one in json["findings"].as_array().unwrap().iter().chain(values) {
            let filter = one["filter"].as_str().unwrap();
            let selected = one["selection_events"].as_u64().unwrap();
            let all = selected + one["baseline_events"].as_u64().unwrap();
            assert_eq!(count(story, filter), all, "{selection}: {filter}");
            assert_eq!(count(story, &format!("({selection}) and {filter}")), selected, "{selection}: {filter}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked}");
}

#[test]
fn equal_seeds_give_equal_answers() {
    let story = story();
    let run = |seed: &str| latscope(&["explain", "--json", "-r", &story, "--seed", seed, "lat > 250us"]).success();
    assert_eq!(run("7"), run("7"));
}

/// Sixty events, every third slow; all of `slow` belong to a file with this name.
fn named(name: &str) -> String {
    let row = |at: u64| {
        let (path, latency) = if at.is_multiple_of(3) { (name, 9_000_000 + at) } else { ("plain", 1000 + at) };
        serde_json::json!({"time_ns": at * 1_000_000, "latency_ns": latency, "path": path, "comm": "x"}).to_string()
            + "\n"
    };
    (0..60).map(row).collect()
}

#[test]
fn hostile_names_are_only_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let path = path.to_str().unwrap();
    for name in [
        "a b",
        "' or lat > 0 or \"",
        "</script><img onerror=x>",
        "\u{1b}[31m\\\n\t",
        "and",
        "1ms",
        "*",
        "日本",
        "-",
        "not",
        "",
    ] {
        std::fs::write(path, named(name)).unwrap();
        let json = explained(&["-r", path, "lat > 1ms"]);
        let top = &json["findings"][0];
        assert_eq!(
            (&top["conditions"][0]["value"], &top["selection_events"]),
            (&Value::from(name), &20.into()),
            "{json}"
        );
        assert_eq!(count(path, top["filter"].as_str().unwrap()), 20, "{top}");
        let text = latscope(&["explain", "-r", path, "lat > 1ms"]).success();
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

#[test]
fn what_cannot_be_explained_is_said() {
    let story = story();
    let text = |filter: &str| latscope(&["explain", "-r", &story, filter]).success();
    assert!(text("lat > 1h").contains("No event is selected, so there is nothing to explain."));
    assert!(text("lat >= 0").contains("All events are selected, so there is nothing to compare them with."));
    assert!(text("lat > 103.9ms").contains("No difference found"), "{}", text("lat > 103.9ms"));
    assert!(
        text("lat > 20us").contains("The filter selects more than half of the events, so the others are explained.")
    );
    let one = latscope_with(&["explain", "-r", "-", "--format", "two_columns", "lat > 0"], b"1 2\n").success();
    assert!(one.contains("nothing to compare"), "{one}");
    let series = testdata("fio_hist/H_clat_hist.1.log.127.0.0.2.zst");
    let refused = latscope(&["explain", "-r", series.to_str().unwrap(), "lat > 1ms"]).failure(3);
    assert_eq!(refused.lines().count(), 1, "{refused}");
    latscope(&["explain", "-r", &story, "--against", "kind = read"]).failure(2);
}

#[test]
fn spots_are_found_without_a_selection() {
    let story = story();
    let text = latscope(&["explain", "-r", &story]).success();
    assert!(text.contains("slower than its like, device loop3"), "{text}");
    assert!(text.contains("   filter  device = loop3\n"), "{text}");
    let json = explained(&["-r", &story]);
    let spots = json["spots"].as_array().unwrap();
    assert!(!spots.is_empty());
    for spot in spots {
        let selection = &spot["explanation"]["selection"];
        assert_eq!(count(&story, spot["filter"].as_str().unwrap()), selection["events"].as_u64().unwrap(), "{spot}");
        assert!(
            spot["min_ns"].as_u64() <= spot["median_ns"].as_u64()
                && spot["median_ns"].as_u64() <= spot["max_ns"].as_u64()
        );
    }
    let even: String = (0..200).map(|at| format!("{} {}\n", at * 1000, 100 + at * 7 % 13)).collect();
    let arguments = ["explain", "-r", "-", "--format", "two_columns", "--unitstime", "us"];
    let text = latscope_with(&arguments, even.as_bytes()).success();
    assert!(text.contains("Nothing unusual found"), "{text}");
}

#[test]
fn of_two_traces_the_second_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let story = story();
    let [before, after] =
        ["before.lat", "after.lat"].map(|name| folder.path().join(name).to_str().unwrap().to_string());
    latscope(&["convert", "-r", &story, "-w", &before, "device = \"254:0\""]).success();
    latscope(&["convert", "-r", &story, "-w", &after, "device = loop3 or kind = write and device = \"254:0\""])
        .success();
    let json = explained(&["-r", &before, "-r", &after]);
    assert_eq!(
        (&json["baseline"]["filter"], &json["selection"]["filter"]),
        (&format!("trace = {before}").into(), &format!("trace = {after}").into())
    );
    for finding in json["findings"].as_array().unwrap() {
        let filter = finding["filter"].as_str().unwrap();
        assert_eq!(count(&after, filter), finding["selection_events"].as_u64().unwrap(), "{finding}");
        assert_eq!(count(&before, filter), finding["baseline_events"].as_u64().unwrap(), "{finding}");
    }
    assert_eq!(json["findings"][0]["filter"], "kind = write");
}

/// Start, end, thread, device and kind of events.
type Row = (i64, i64, Option<i64>, String, String);

fn rows(path: &str, filter: &str) -> Vec<Row> {
    let columns = "time_ns,latency_ns,tid,device,kind";
    let text = latscope(&["events", "--json", "--columns", columns, "-r", path, filter]).success();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let start = row["time_ns"].as_i64().unwrap();
        let name = |key: &str| row[key].as_str().unwrap_or_default().to_string();
        (start, start + row["latency_ns"].as_i64().unwrap(), row["tid"].as_i64(), name("device"), name("kind"))
    };
    text.lines().map(row).collect()
}

/// How long any of these requests was in flight during a call.
fn covered(call: &Row, requests: &[&Row]) -> i64 {
    let mut clipped: Vec<(i64, i64)> = requests.iter().map(|one| (one.0.max(call.0), one.1.min(call.1))).collect();
    clipped.retain(|(from, to)| from < to);
    clipped.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (from, to) in clipped {
        sum += (to - from.max(until)).max(0);
        until = until.max(to);
    }
    sum
}

/// Every call against every request, of a recording of fio's fsync with the block requests of the same second.
#[test]
fn slow_calls_name_the_requests_beneath_them() {
    let [io, block] = ["lat/fsync_io.lat", "lat/fsync_block.lat"].map(|path| testdata(path).display().to_string());
    let slow = "name = fsync and latency_ns > 4ms";
    let json = explained(&["-r", &io, "-r", &block, slow]);
    let (calls, requests) = (rows(&io, "lat exists"), rows(&block, "lat exists"));
    assert_eq!(
        json["baseline"]["filter"],
        format!("not ({slow}) and not (disk.dev exists and not result exists)").as_str()
    );
    assert_eq!(
        json["baseline"]["events"].as_u64().unwrap() + json["selection"]["events"].as_u64().unwrap(),
        calls.len() as u64,
        "only calls are compared"
    );
    let selected = rows(&io, slow);
    let coverages = json["beneath"]["coverages"].as_array().unwrap();
    let what: Vec<&Value> = coverages.iter().map(|one| &one["filter"]).collect();
    assert!(what.contains(&&"device = vda and kind = flush".into()), "{json}");
    for one in coverages {
        let is_meant = |call: &Row, request: &Row| match one["filter"].as_str() {
            Some(filter) => filter == format!("device = {} and kind = {}", request.3, request.4),
            None => one["requests"] == "any" || call.2.is_some() && call.2 == request.2,
        };
        let total = |calls: &[Row]| {
            let of_call = |call: &Row| {
                covered(call, &requests.iter().filter(|request| is_meant(call, request)).collect::<Vec<_>>())
            };
            calls.iter().map(of_call).sum::<i64>()
        };
        let of_selected = total(&selected);
        assert_eq!(one["covered_ns"], of_selected, "{one}");
        assert_eq!(one["baseline_covered_ns"], total(&calls) - of_selected, "{one}");
        let overlaps = |request: &&Row| {
            let meets = |call: &Row| is_meant(call, request) && request.0 < call.1 && call.0 < request.1;
            selected.iter().any(meets)
        };
        assert_eq!(one["count"], requests.iter().filter(overlaps).count(), "{one}");
    }
    let text = latscope(&["explain", "-r", &io, "-r", &block, slow]).success();
    assert!(text.contains("Beneath these system calls") && text.contains("of the same thread"), "{text}");
    // One layer alone has nothing beneath it.
    assert!(explained(&["-r", &io, slow])["beneath"].is_null());
    assert!(explained(&["-r", &io, "-r", &block, "kind = flush"])["beneath"].is_null());
}

/// A trace of a live capture in which two requests of one disk wait.
fn hung(folder: &std::path::Path) -> String {
    let path = folder.join("hung.txt");
    let mut text = String::new();
    for at in 0..400u64 {
        let (minor, sector, start) = (at % 2, at * 8, at * 1000);
        let line = |us: u64, event: &str, tail: &str| {
            format!("  fio  7 [000] {}.{:06}: block:{event}: 7,{minor} R {tail}\n", 10 + us / 1_000_000, us % 1_000_000)
        };
        text += &line(start, "block_rq_issue", &format!("4096 () {sector} + 8 [fio]"));
        // From here on the second disk completes nothing.
        if minor == 0 || at < 300 {
            text += &line(start + 200 + at % 7, "block_rq_complete", &format!("() {sector} + 8 [0]"));
        }
    }
    // The trace goes on for so long.
    text += "  fio  7 [000] 15.000000: block:block_rq_issue: 7,0 R 4096 () 80000 + 8 [fio]\n";
    text += "  fio  7 [000] 15.000200: block:block_rq_complete: 7,0 R () 80000 + 8 [0]\n";
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn requests_that_wait_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = hung(folder.path());
    let summary: Value = serde_json::from_str(&latscope(&["summary", "-r", &path, "--json"]).success()).unwrap();
    let waiting = summary["total"]["waiting"].as_u64().unwrap();
    assert_eq!(waiting, 50, "{}", summary["total"]);
    let json = explained(&["-r", &path]);
    let waits = &json["not_completed"];
    assert_eq!((&waits["requests"], &waits["shared"]), (&50.into(), &"device = loop1 and process = fio".into()));
    // The ages of requests that were issued every 2 ms, until the last record of the trace.
    let ages = (300..400u64).filter(|at| at % 2 == 1).map(|at| (5_000_200 - at * 1000) * 1000);
    assert_eq!(waits["waited_ns"].as_u64(), Some(ages.sum()));
    assert!(waits["waiting_share"].as_f64().unwrap() > 0.99);
    let text = latscope(&["explain", "-r", &path]).success();
    assert!(
        text.contains("50 requests wait still, so far 4.6s to 4.7s, 99.9% of all waiting time: device = loop1"),
        "{text}"
    );
    let selected = explained(&["-r", &path, "lat > 1s"]);
    assert_eq!((&selected["selection"]["events"], &selected["not_completed"]["requests"]), (&0.into(), &50.into()));
    let none = explained(&["-r", &path, "lat > 1s and device = loop0"]);
    assert!(none["not_completed"].is_null());
}

#[test]
fn only_the_columns_asked_for_are_tested() {
    let story = story();
    for columns in ["device", "size,kind"] {
        let json = explained(&["-r", &story, "--columns", columns, "lat > 60ms"]);
        for one in json["attributes"].as_array().unwrap() {
            assert!(columns.split(',').any(|column| one["field"] == column), "{one}");
        }
    }
}

#[test]
fn the_baseline_is_what_its_filter_selects() {
    let story = story();
    let json = explained(&["-r", &story, "lat > 60ms", "--against", "lat > 50ms"]);
    let filter = json["baseline"]["filter"].as_str().unwrap();
    assert_eq!(count(&story, filter), json["baseline"]["events"].as_u64().unwrap(), "{filter}");
    let text = latscope(&["explain", "-r", &story, "lat > 60ms", "--against", "lat > 100s"]).success();
    assert!(text.contains("The baseline has no events beside the selected ones"), "{text}");
}

#[test]
fn two_traces_differ_in_more_than_process_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, pid: u64, slow: u64| {
        let row = |at: u64| {
            let latency = if at.is_multiple_of(slow) { 5_000_000 } else { 100_000 + at };
            let device = if at.is_multiple_of(slow) { "sdb" } else { "sda" };
            let row = serde_json::json!({"time_ns": at * 1_000_000, "latency_ns": latency, "device": device, "pid": pid, "tid": pid});
            row.to_string() + "\n"
        };
        let path = folder.path().join(name);
        std::fs::write(&path, (0..900).map(row).collect::<String>()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (before, after) = (trace("before.jsonl", 10, 100), trace("after.jsonl", 20, 3));
    let json = explained(&["-r", &before, "-r", &after]);
    assert_eq!(json["findings"][0]["filter"], "device = sdb");
    assert!(!json["findings"].to_string().contains("pid"), "{}", json["findings"]);
    for side in ["selection", "baseline"] {
        let filter = json[side]["filter"].as_str().unwrap();
        let all = ["summary", "-r", &before, "-r", &after, "--json", filter];
        let summary: Value = serde_json::from_str(&latscope(&all).success()).unwrap();
        assert_eq!(summary["total"]["count"], json[side]["events"], "{filter}");
    }
}

/// A cause in the code is named by its function, with the part of either side that has it anywhere in its stack.
#[test]
fn a_function_explains_what_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("waits.csv");
    let mut text = String::from("time_ns,latency_ns,comm,tags,stack\n");
    for at in 0..4000u64 {
        let (is_scan, worker) = (at % 10 == 0, at % 3);
        let latency = if is_scan && at % 100 > 0 { 25_000_000 + at } else { 1_000_000 + at };
        let code = if is_scan { "handle_report;archive_scan" } else { "handle_get;index_lookup" };
        text += &format!(
            "{},{latency},w{worker},job={};q={worker},main;{code};pread64;vfs_read_[k];io_schedule_[k]\n",
            at * 1000,
            at % 4
        );
    }
    std::fs::write(&trace, text).unwrap();
    let json = explained(&["-r", trace.to_str().unwrap(), "lat > 20ms"]);
    let top = &json["findings"][0];
    assert_eq!(top["filter"], "frame = archive_scan", "{top}");
    // One of ten of those that scan is fast: 40 of 3640.
    assert_eq!((&top["selection_events"], &top["baseline_events"]), (&360.into(), &40.into()));
    let names = |filter: &str| count(trace.to_str().unwrap(), filter);
    assert_eq!(
        (names("frame = archive_scan"), names("frame != archive_scan"), names("frame startswith archive")),
        (400, 3600, 400)
    );
    assert_eq!(
        (names("frame = io_schedule"), names("tags.pair = \"q=2\""), names("tags.pair in (\"q=2\", \"q=1\")")),
        (4000, 1333, 2666)
    );
}

/// Slow requests have stacks because they are slow, and few others: no function that all have sets them apart, nor that there is a stack.
#[test]
fn stacks_that_slow_requests_have_are_compared_with_stacks_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.csv");
    let mut trace = String::from("time_ns,latency_ns,comm,stack_quality,stack_source,stack\n");
    let mut add = |count: u64, latency_ns: u64, of_stack: &str| {
        for at in 0..count {
            trace += &format!("{},{},dd,{of_stack}\n", at * 10_000_000, latency_ns + at);
        }
    };
    add(60, 30_000_000, "complete,completion,main;serve;scan;pread64;vfs_read_[k]");
    add(900, 1_000_000, ",,");
    add(60, 1_000_000, "complete,completion,main;serve;lookup;pread64;vfs_read_[k]");
    // At the issue a thread is in no wait, and one in so many was looked at.
    add(20, 30_000_000, "complete,issue,main;serve;submit");
    add(200, 1_000_000, "complete,issue,main;serve;submit");
    std::fs::write(&path, &trace).unwrap();
    let path = path.to_str().unwrap();
    let explained = |filter: &str| {
        let json = latscope(&["explain", "-r", path, "--json", filter]).success();
        serde_json::from_str::<Value>(&json).unwrap()
    };
    let found = explained("lat > 20ms");
    let text = found["findings"].to_string();
    assert!(text.contains("scan"), "{found}");
    for artefact in ["main", "serve", "vfs_read", "frame exists", "stack_quality", "stack_source"] {
        assert!(!found["findings"][0]["filter"].to_string().contains(artefact), "{artefact}: {text}");
    }
    assert!(found["baseline"].to_string().contains("stack_source = completion"), "{found}");
    for artefact in ["submit", "issue"] {
        assert!(!found["findings"].to_string().contains(artefact), "{artefact}: {text}");
    }
    // Where no fast request was looked at when it completed, stacks of the issue are compared as well.
    let issued = trace.replace("complete,completion,main;serve;lookup;pread64;vfs_read_[k]", ",,");
    std::fs::write(path, issued).unwrap();
    assert!(explained("lat > 20ms")["baseline"].to_string().contains("stack_quality exists"));
    // Where hardly any of the others has a stack, stacks say nothing.
    let few = trace.replace("complete,completion,main;serve;lookup;pread64;vfs_read_[k]", ",,");
    let few = few.replace("complete,issue,main;serve;submit", ",,");
    std::fs::write(path, few).unwrap();
    let found = explained("lat > 20ms");
    for word in ["frame", "stack"] {
        assert!(
            !found["findings"].to_string().contains(word) && !found["attributes"].to_string().contains(word),
            "{found}"
        );
    }
}
