//! Tags of the application, joined to events by thread or process and time.

use crate::program::{latscope, root};
use std::collections::BTreeMap;

const STORY: &str = "testdata/perf_script/story_2s.txt.gz";

/// The events of the story: start, end, thread.
fn events() -> Vec<(i64, i64, i64)> {
    let csv = latscope(&["events", "-r", STORY, "--csv", "--columns", "time_ns,latency_ns,tid"]).success();
    let row = |row: &str| {
        let mut values = row.split(',').map(|value| value.parse::<i64>().unwrap_or(0));
        let (start, latency, tid) = (values.next().unwrap(), values.next().unwrap(), values.next().unwrap());
        (start, start + latency, tid)
    };
    csv.lines().skip(1).map(row).collect()
}

/// Every event has the tags of the interval that it shares most time with, as counted here one by one.
#[test]
fn events_have_the_tags_of_their_threads_interval() {
    let events = events();
    let (first, last) = (events[0].0, events.iter().map(|event| event.1).max().unwrap());
    let step = (last - first) / 40;
    // Neighbours of different lengths, gaps, and threads without tags.
    let mut spans = Vec::new();
    for (number, tid) in [32246, 32734, 1963].into_iter().enumerate() {
        let mut from = first + number as i64 * step / 3;
        for turn in 0..40i64 {
            let to = from + step * (1 + turn % 3) / 2;
            if turn % 5 != 4 {
                spans.push((tid, from, to, format!("q{}", turn % 4)));
            }
            from = to;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tags.txt");
    let line =
        |(tid, from, to, query): &(i64, i64, i64, String)| format!("{tid} {from} {to} query={query} app=x # note\n");
    // In any order.
    let lines: String = spans.iter().rev().map(line).collect();
    std::fs::write(&file, format!("# thread from to tags\n\n{lines}")).unwrap();
    let mut expected = BTreeMap::<String, u64>::new();
    for &(start, end, tid) in &events {
        let shared = |span: &&(i64, i64, i64, String)| span.2.min(end) - span.1.max(start);
        let of_thread = spans.iter().filter(|span| span.0 == tid && span.1 <= end && span.2 > start);
        if let Some(span) = of_thread.max_by_key(shared) {
            *expected.entry(span.3.clone()).or_default() += 1;
        }
    }
    assert!(expected.values().sum::<u64>() > 1000 && expected.len() == 4, "{expected:?}");
    let tags = ["--tag-file", file.to_str().unwrap(), "--tag", "query"];
    let words = ["summary", "-r", STORY, "--by", "tag", "--json", "tag exists"];
    let json: serde_json::Value = serde_json::from_slice(&latscope(&[&words[..], &tags].concat()).out).unwrap();
    let groups = json["groups"].as_array().unwrap_or_else(|| panic!("{json}"));
    let found: BTreeMap<String, u64> = groups
        .iter()
        .map(|group| (group["tag"].as_str().unwrap().to_string(), group["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    // Filters and columns have all of them.
    let words = ["events", "-r", STORY, "--csv", "--columns", "tid,tags,tag", "tags contains 'query=q1'"];
    let csv = latscope(&[&words[..], &tags].concat()).success();
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(rows.len() as u64, expected["q1"]);
    assert!(rows.iter().all(|row| row.ends_with("query=q1;app=x,q1")), "{:?}", rows.first());
}

/// Seconds, nanoseconds, a unit and a date are the same moment: each line tags the second event and no other.
#[test]
fn moments_are_seconds_or_nanoseconds_by_their_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let times = [1_763_892_726_i64, 1_763_892_726_000_000_000, 1_763_892_729_000_000_000];
    let rows = times.map(|time| format!("{time},5,read,7\n")).concat();
    std::fs::write(path("a.csv"), format!("time_ns,latency_ns,kind,tid\n{rows}")).unwrap();
    for span in [
        "1763892725.25 1763892727.5",
        "1763892725 1763892727",
        "1763892725250000000 1763892727500000000",
        "1763892725250ms 1763892727500ms",
        "2025-11-23T10:12:05.25Z 2025-11-23T10:12:07.5Z",
    ] {
        std::fs::write(path("tags.txt"), format!("7 {span} c=#fff q=1 # q=2\n")).unwrap();
        let words =
            ["events", "-r", &path("a.csv"), "--tag-file", &path("tags.txt"), "--csv", "--columns", "time_ns,tags"];
        let [first, second, third] = times;
        let expected = format!("time_ns,tags\n{first},\n{second},c=#fff;q=1\n{third},\n");
        assert_eq!(latscope(&words).success(), expected, "{span}");
        // A moment with a decimal point is the same in filters.
        let filter = "time in [1763892725.25, 1763892727.5]";
        let found = latscope(&["events", "-r", &path("a.csv"), "--csv", "--columns", "time_ns", filter]).success();
        assert_eq!(found, format!("time_ns\n{second}\n"));
    }
}

/// Tags of a trace stay beside those of a file, which count where both have a key; also those that come late in a long trace.
#[test]
fn a_file_adds_to_the_tags_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let rows: String = (0..100_000).map(|at| format!("{at},1,{},stage={at};query=own\n", at % 2)).collect();
    std::fs::write(path("a.csv"), format!("time_ns,latency_ns,tid,tags\n{rows}")).unwrap();
    std::fs::write(path("tags.txt"), "0 0ns 200000ns query=file;user=x\n".replace(';', " ")).unwrap();
    let words = ["--tag-file", &path("tags.txt"), "--csv", "--columns", "tags,tag", "--tag", "query"];
    let csv = latscope(&[&["events", "-r", &path("a.csv")], &words[..]].concat()).success();
    let mut lines = csv.lines().skip(1);
    for at in 0..100_000 {
        let expected = match at % 2 {
            0 => format!("query=file;user=x;stage={at},file"),
            _ => format!("stage={at};query=own,own"),
        };
        assert_eq!(lines.next(), Some(&*expected));
    }
}

#[test]
fn a_tag_that_no_event_has_is_named_with_those_that_there_are() {
    let trace = "testdata/stap_stacks/made_up.txt";
    let shown = latscope(&["summary", "-r", trace, "--by", "tag:nobody"]).success();
    assert!(shown.contains("no event has the tag nobody; there are ") && shown.contains("wait_event"), "{shown}");
    let shown = latscope(&["summary", "-r", trace, "--by", "tag:wait_event"]).success();
    assert!(!shown.contains("no event has"), "{shown}");
    let shown = latscope(&["summary", "-r", STORY, "--by", "tag:nobody"]).success();
    assert!(shown.contains("no event has the tag nobody, nor any other"), "{shown}");
    let refused = latscope(&["summary", "-r", trace, "--by", "tag:a,tag:z"]).failure(2);
    assert!(refused.contains("--by: tag:z is one too many; give one tag:KEY, or tags"), "{refused}");
}

#[test]
fn a_tag_file_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tags.txt");
    for (text, why) in [
        ("1 2 3 a=b\n1 2\n", "tags.txt:2: the end is missing"),
        ("x 2 3 a=b\n", ":1: x is not a number of a thread"),
        ("1 9 3 a=b\n", ":1: it ends before it starts"),
        ("1 +5s 3 a=b\n", ":1: +5s has no date"),
        ("1 1.7e9 3 a=b\n", ":1: 1.7e9 has no date; give seconds"),
        ("1 2 3\n", ":1: it has no tags"),
        ("1 2 3 a\n", ":1: a is not KEY=VALUE"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = latscope(&["summary", "-r", STORY, "--tag-file", file.to_str().unwrap()]).failure(3);
        assert!(refused.contains(why), "{refused}");
    }
    let refused = latscope(&["summary", "-r", STORY, "--tag-file", "nowhere.txt"]).failure(3);
    assert!(refused.contains("nowhere.txt"), "{refused}");
    let refused = latscope(&["summary", "-r", STORY, "--tag-postgres", "user=x"]).failure(2);
    assert!(refused.contains("needs a live capture"), "{refused}");
    let refused = latscope(&["summary", "--tag-postgres", "host=db.example"]).failure(2);
    assert!(refused.contains("not on this machine"), "{refused}");
    assert!(root().join(STORY).exists());
}

/// Tags that a trace has itself are groups, too: the wait events of a database that SystemTap sampled.
#[test]
fn tags_of_a_trace_are_groups() {
    let trace = "testdata/stap_stacks/made_up.txt";
    let text = String::from_utf8(crate::program::unpacked("stap_stacks/made_up.txt")).unwrap();
    let words = ["summary", "-r", trace, "--by", "tag:wait_event", "--json"];
    let json: serde_json::Value = serde_json::from_slice(&latscope(&words).out).unwrap();
    let groups = json["groups"].as_array().unwrap_or_else(|| panic!("{json}"));
    let names: Vec<&str> =
        groups.iter().filter_map(|group| group["tag"].as_str()).filter(|name| *name != "-").collect();
    assert!(!names.is_empty() && names.iter().all(|name| text.contains(name)), "{names:?}");
}

/// The time of a sample began with the one before, its stack is of its end: so are its tags.
#[test]
fn samples_have_the_tags_of_the_moment_of_their_stack() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // A thread is 20 ms in each of three stages in turn, and is sampled every 50 ms.
    let (mut spans, mut trace) = (String::new(), String::from("time_ns,latency_ns,tid,stack_source,stack\n"));
    let ms = |ms: i64| 1_763_892_725_000_000_000 + ms * 1_000_000;
    let stage = |ms: i64| ["a", "b", "c"][(ms / 20 % 3) as usize];
    for turn in 0..100 {
        let start = turn * 20;
        spans += &format!("7 {} {} stage={}\n", ms(start), ms(start + 20), stage(start));
    }
    for sample in 1..39 {
        let at = sample * 50 + 7;
        let source = ["sampled", "timer"][(sample % 2) as usize];
        trace += &format!("{},50000000,7,{source},main;{}\n", ms(at - 50), stage(at));
    }
    // What was timed from its start to its end has the tags of most of that time.
    trace += &format!("{},25000000,7,switch,main;a\n", ms(0));
    std::fs::write(path("tags"), spans).unwrap();
    std::fs::write(path("trace.csv"), trace).unwrap();
    let words = ["events", "-r", &path("trace.csv"), "--tag-file", &path("tags"), "--csv", "--columns", "stack,tags"];
    let csv = latscope(&words).success();
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(rows.len(), 39, "{csv}");
    for row in rows {
        let (stack, tags) = row.split_once(',').unwrap();
        assert_eq!(stack.strip_prefix("main;"), tags.strip_prefix("stage="), "{csv}");
    }
}
