//! Views of call stacks: their shares against a fold of the same text by itself, and flame graphs in a browser.

use crate::picture::xml;
use crate::program::{LATSCOPE, command, end, latscope, testdata, unpacked};
use std::collections::BTreeMap;

const TRACE: &str = "flamegraph/slow_io.csv.gz";

/// The rows of the trace: latency, stack.
fn rows() -> Vec<(u64, String)> {
    let text = String::from_utf8(unpacked(TRACE)).expect("UTF-8");
    let row = |line: &str| {
        let stack = match line.split_once('"') {
            Some((_, quoted)) => quoted.trim_end_matches('"').to_string(),
            None => line.rsplit(',').next().expect("a last column").to_string(),
        };
        (line.split(',').nth(1).expect("a column").parse().expect("a number"), stack)
    };
    text.lines().skip(1).map(row).collect()
}

/// Events and time of each stack.
fn folded() -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (latency, stack) in rows() {
        let sum = sums.entry(stack).or_default();
        *sum = (sum.0 + 1, sum.1 + latency);
    }
    sums
}

#[test]
fn the_table_has_what_a_fold_of_the_text_gives() {
    let trace = testdata(TRACE);
    let json: serde_json::Value =
        serde_json::from_str(&latscope(&["stacks", "-r", trace.to_str().unwrap(), "--json"]).success()).unwrap();
    let rows = json["stacks"].as_array().unwrap();
    let number = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap();
    let found: BTreeMap<String, (u64, u64)> = rows
        .iter()
        .map(|row| (row["stack"].as_str().unwrap().to_string(), (number(row, "events"), number(row, "time_ns"))))
        .collect();
    let expected = folded();
    assert_eq!(found, expected);
    let total: u64 = expected.values().map(|sum| sum.1).sum();
    for row in rows {
        let share = row["share"].as_f64().unwrap();
        assert!((share - number(row, "time_ns") as f64 / total as f64).abs() < 1e-6, "{row}");
        assert!(row["share_low"].as_f64().unwrap() <= share && share <= row["share_high"].as_f64().unwrap(), "{row}");
    }
}

/// The numbers in the tooltips of a flame graph are those of all stacks that run through a frame.
#[test]
fn the_graph_has_what_a_fold_of_the_text_gives() {
    let trace = testdata(TRACE);
    let svg =
        latscope(&["flamegraph", "-r", trace.to_str().unwrap(), "--min-share", "0", "--width", "events"]).success();
    xml::check(&svg).unwrap();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, (events, _)) in folded() {
        let frames: Vec<&str> = stack.split(';').collect();
        for length in 0..=frames.len() {
            *sums.entry(frames[..length].join(";")).or_default() += events;
        }
    }
    // Boxes come before those above them, with the number of the box beneath.
    let (mut paths, mut found) = (Vec::<String>::new(), BTreeMap::new());
    for part in svg.split("<g data-p=\"").skip(1) {
        let parent: usize = part.split('"').next().unwrap().parse().unwrap();
        let tip = part.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
        let (name, numbers) = tip.split_once('\n').unwrap();
        let suffix = if numbers.ends_with("\nkernel") { "_[k]" } else { "" };
        let name = name.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").replace("&amp;", "&");
        let path = match (paths.len(), parent) {
            (0, _) => String::new(),
            (_, 0) => format!("{name}{suffix}"),
            _ => format!("{};{name}{suffix}", paths[parent]),
        };
        let events = numbers.split(" · ").nth(1).unwrap().split(' ').next().unwrap().replace(',', "");
        found.insert(path.clone(), events.parse::<u64>().unwrap());
        paths.push(path);
    }
    assert_eq!(found, sums);
}

#[test]
fn what_has_no_stacks_says_how_to_get_them() {
    let trace = testdata("perf_script/story_2s.txt.gz");
    for verb in ["stacks", "flamegraph"] {
        let error = latscope(&[verb, "-r", trace.to_str().unwrap()]).failure(3);
        assert!(error.contains("has a stack. Record them with -s stacks"), "{error}");
    }
}

#[test]
fn a_difference_takes_a_filter_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, other) = (testdata(TRACE), folder.path().join("other.lat"));
    let (trace, other) = (trace.to_str().unwrap(), other.to_str().unwrap());
    latscope(&["convert", "-r", trace, "-w", other, "comm = python"]).success();
    let tip = |svg: &str, name: &str| {
        let (_, rest) = svg.split_once(&format!("<title>{name}\n")).expect("a box");
        rest.split_once("</title>").unwrap().0.to_string()
    };
    let by_filter = latscope(&["flamegraph", "-r", trace, "--against", "comm = python", "comm = req-report"]).success();
    assert!(tip(&by_filter, "archive_scan").contains("there 0 % (0 % to "), "{}", tip(&by_filter, "archive_scan"));
    assert!(tip(&by_filter, "all").contains("+0.0 points, within the error"));
    let by_file = latscope(&["flamegraph", "-r", trace, "--width", "events", "--against", other]).success();
    let python = tip(&by_file, "preadv64v2");
    assert!(python.starts_with("17.8 % (") && python.contains("\nthere 100 % ("), "{python}");
}

#[test]
fn a_browser_searches_and_zooms() {
    let Some(web) = crate::report::browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let trace = testdata(TRACE);
    let trace = trace.to_str().unwrap();
    latscope(&["flamegraph", "-r", trace, "-o", &path("plain.svg")]).success();
    latscope(&["flamegraph", "-r", trace, "--icicle", "--color", "latency", "-o", &path("icicle.svg")]).success();
    let difference = ["--against", "comm = python", "-o", &path("difference.svg"), "comm = req-report"];
    latscope(&[&["flamegraph", "-r", trace][..], &difference].concat()).success();
    let long = "x".repeat(64 << 10);
    let hostile = format!(
        "time_ns,latency_ns,stack\n1,9,\"main;</text><script>alert(1)</script>;'\"\"&<b>\"\n2,5,main;]]>{long}\n3,1,\n"
    );
    std::fs::write(path("hostile.csv"), hostile).unwrap();
    latscope(&["flamegraph", "-r", &path("hostile.csv"), "-o", &path("hostile.svg")]).success();
    let mut node = command("node");
    let ended = end(node.arg(web.join("tests/flamegraph.mjs")).arg(LATSCOPE).arg(trace).arg(folder.path()), b"");
    let out = String::from_utf8_lossy(&ended.out).into_owned();
    assert!(ended.status == Some(0), "{out}\n{}", ended.err);
    assert_eq!(out.matches("ok ").count(), 12, "{out}");
}

/// Names of functions, threads and tags that break out of quotes, lines, markup and terminals.
pub fn hostile() -> String {
    let long = "x".repeat(64 << 10);
    let names = [
        "</text><script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "]]>&lt;!--",
        "a \"\"quoted\"\" 'name'",
        "\u{1b}]0;title\u{7}\u{1b}[2J",
        "\u{202e}olleh\u{2066}",
        "tab\tand\u{1}control\u{7f}",
        "{}%s%n$(reboot)`id`",
        "back\\slash=1,2",
        &long,
    ];
    let mut csv = String::from("time_ns,latency_ns,comm,tags,stack\n");
    for (at, name) in names.iter().enumerate() {
        for more in 0..5 {
            let (time, latency) = (1000 * (at * 5 + more), 1_000_000 + 1000 * at);
            csv += &format!("{time},{latency},\"{name}\",\"k={name}\",\"main;{name};read_[k]\"\n");
        }
    }
    csv
}

/// No control character but line ends and, in tables with tabs, these; nothing that turns the direction of text.
#[track_caller]
fn is_tame(what: &str, text: &str) {
    let wild = |&letter: &char| letter.is_control() && letter != '\n' || ('\u{202a}'..='\u{202e}').contains(&letter);
    assert_eq!(text.chars().find(wild), None, "{what}: {text:.300}");
}

#[test]
fn hostile_names_are_only_text_in_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("hostile.csv"), hostile()).unwrap();
    let run = |arguments: &[&str]| latscope(&[arguments, &["-r", &path("hostile.csv")]].concat()).success();
    for colour in ["kind", "latency"] {
        let svg = run(&["flamegraph", "--by", "comm,tags", "--color", colour, "--min-share", "0"]);
        xml::check(&svg).unwrap();
        assert!(!svg.contains("<img") && !svg.contains("<script>alert"), "{colour}");
        is_tame("svg", &svg);
    }
    for arguments in [
        &["stacks", "--by", "comm"][..],
        &["stacks", "--full"],
        &["explain", "frame contains quoted"],
        &["events", "frame contains olleh"],
        &["summary", "--by", "comm"],
        &["spectrogram", "--plain", "--by", "tags"],
    ] {
        is_tame(&arguments.join(" "), &run(arguments));
    }
    // JSON and CSV give the bytes back.
    let stacks = |text: &str| text.matches("read_[k]").count();
    for arguments in [&["stacks", "--json", "--by", "comm,tags"][..], &["explain", "--json", "lat > 1005us"]] {
        let json: serde_json::Value = serde_json::from_str(&run(arguments)).unwrap();
        assert!(json.is_object());
    }
    let json: serde_json::Value = serde_json::from_str(&run(&["stacks", "--json"])).unwrap();
    let found: Vec<&str> =
        json["stacks"].as_array().unwrap().iter().map(|row| row["stack"].as_str().unwrap()).collect();
    assert_eq!(found.len(), 10);
    assert!(found.contains(&"main;</text><script>alert(1)</script>;read_[k]"), "{found:?}");
    let csv = run(&["stacks", "--csv"]);
    assert_eq!(stacks(&csv), 10);
    assert!(csv.contains("\"main;a \"\"quoted\"\" 'name';read_[k]\""), "{csv:.500}");
    for line in run(&["events", "--json"]).lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    // Files of other programs: every stack is one line, and comes back.
    for ending in ["folded", "speedscope.json", "pb.gz", "jsonl", "lat", "parquet"] {
        let to = path(&format!("hostile.{ending}"));
        run(&["convert", "-w", &to]);
        match ending {
            "folded" => {
                let text = std::fs::read_to_string(&to).unwrap();
                assert_eq!(text.lines().count(), 10, "{text:.300}");
                assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:.300}");
                assert!(text.lines().all(|line| line.rsplit_once(' ').unwrap().1 == "5"), "{text:.300}");
            }
            "speedscope.json" => {
                drop(serde_json::from_slice::<serde_json::Value>(&std::fs::read(&to).unwrap()).unwrap())
            }
            _ => {
                let back = latscope(&["stacks", "-r", &to, "--json", "--width", "events"]).success();
                let json: serde_json::Value = serde_json::from_str(&back).unwrap();
                assert_eq!(json["stacks"].as_array().unwrap().len(), 10, "{ending}");
                assert_eq!(json["events"], 50, "{ending}");
            }
        }
    }
    let filter = latscope(&["summary", "-r", &path("hostile.lat"), "frame = \"</text><script>alert(1)</script>\""]);
    assert!(filter.success().starts_with("5 events"));
}
