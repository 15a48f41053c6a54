//! What a summary prints and leaves out.

use crate::program::{latscope, latscope_with};

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
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
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
