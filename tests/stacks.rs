//! Views of call stacks: their shares against a fold of the same text by itself, flame graphs in a browser, and profiles for other viewers.

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

/// `--by` adds a field's values as outermost frames, in folded stacks and speedscope.
#[test]
fn folded_stacks_are_divided_by_fields() {
    let folder = tempfile::tempdir().unwrap();
    let source = "testdata/perf_script/stacks_fp.txt.gz";
    let written = |name: &str, options: &[&str]| {
        let path = folder.path().join(name).display().to_string();
        latscope(&[&["convert", "-r", source, "-w", &path], options].concat()).success();
        std::fs::read_to_string(path).unwrap()
    };
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for row in latscope(&["events", "-r", source, "--json", "--columns", "comm,kind,stack"]).success().lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let value = |key: &str| row[key].as_str().unwrap_or("(none)").to_string();
        let stack = match row["stack"].as_str() {
            Some(stack) => format!("comm={};kind={};{stack}", value("comm"), value("kind")),
            None => "[no stack]".into(),
        };
        *expected.entry(stack).or_default() += 1;
    }
    let lines = written("by.folded", &["--by", "comm,kind"]);
    let found = lines.lines().map(|line| line.rsplit_once(' ').unwrap());
    let found: BTreeMap<String, u64> =
        found.map(|(stack, count)| (stack.to_string(), count.parse().unwrap())).collect();
    assert!(expected.len() > 10 && expected.keys().any(|stack| stack.starts_with("comm=")), "{expected:?}");
    assert_eq!(found, expected);
    let profile: serde_json::Value =
        serde_json::from_str(&written("by.speedscope.json", &["--by", "comm,kind"])).unwrap();
    let names: Vec<&str> =
        profile["shared"]["frames"].as_array().unwrap().iter().map(|frame| frame["name"].as_str().unwrap()).collect();
    assert!(names.iter().any(|name| name.starts_with("kind=")), "{names:?}");
    assert_eq!(profile["profiles"][0]["endValue"].as_u64().unwrap(), expected.values().sum::<u64>());
    let refused = latscope(&["convert", "-r", source, "-w", "x.pb.gz", "--by", "comm"]);
    assert_eq!(refused.status, Some(2), "{}", refused.err);
}

/// What a column of a table of a profile may hold.
#[derive(Clone, Copy, Debug)]
enum Cell {
    /// A row of another table, or null.
    Index(&'static str),
    IndexOrNull(&'static str),
    /// A row of another table, or -1.
    IndexOrNone(&'static str),
    Number,
    NumberOrNull,
    Flag,
    Object,
}

/// The tables of a thread, with all their columns: Firefox's `docs-developer/CHANGELOG-formats.md` and `src/types/profile.ts`, version 55.
const TABLES: [(&str, &[(&str, Cell)]); 7] = {
    use Cell::*;
    [
        ("stackTable", &[("prefix", IndexOrNull("stackTable")), ("frame", Index("frameTable"))]),
        (
            "frameTable",
            &[
                ("address", Number),
                ("inlineDepth", Number),
                ("category", IndexOrNull("categories")),
                ("subcategory", NumberOrNull),
                ("func", Index("funcTable")),
                ("nativeSymbol", IndexOrNull("nativeSymbols")),
                ("innerWindowID", NumberOrNull),
                ("line", NumberOrNull),
                ("column", NumberOrNull),
            ],
        ),
        (
            "funcTable",
            &[
                ("name", Index("stringArray")),
                ("isJS", Flag),
                ("relevantForJS", Flag),
                ("resource", IndexOrNone("resourceTable")),
                ("fileName", IndexOrNull("stringArray")),
                ("lineNumber", NumberOrNull),
                ("columnNumber", NumberOrNull),
            ],
        ),
        (
            "nativeSymbols",
            &[
                ("address", Number),
                ("functionSize", NumberOrNull),
                ("libIndex", Number),
                ("name", Index("stringArray")),
            ],
        ),
        (
            "resourceTable",
            &[
                ("lib", NumberOrNull),
                ("name", Index("stringArray")),
                ("host", IndexOrNull("stringArray")),
                ("type", Number),
            ],
        ),
        (
            "samples",
            &[
                ("timeDeltas", Number),
                ("stack", IndexOrNull("stackTable")),
                ("weight", Number),
                ("threadCPUDelta", NumberOrNull),
            ],
        ),
        (
            "markers",
            &[
                ("name", Index("stringArray")),
                ("startTime", Number),
                ("endTime", Number),
                ("phase", Number),
                ("category", Index("categories")),
                ("data", Object),
            ],
        ),
    ]
};

/// Whether it is a processed profile as the profiler of Firefox wants it: what must be there, types, lengths, and numbers of rows.
#[track_caller]
pub fn assert_is_firefox_profile(profile: &serde_json::Value) {
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(profile), ["counters", "libs", "meta", "pages", "profilerOverhead", "threads"]);
    let meta = &profile["meta"];
    assert_eq!((&meta["preprocessedProfileVersion"], &meta["stackwalk"]), (&55.into(), &1.into()));
    assert!(meta["interval"].as_f64().is_some_and(|ms| ms > 0.0) && meta["startTime"].is_number());
    assert!(meta["product"].is_string() && meta["processType"].is_u64() && meta["version"].is_u64());
    assert_eq!(meta["sampleUnits"], serde_json::json!({"time": "ms", "eventDelay": "ms", "threadCPUDelta": "\u{b5}s"}));
    let categories = meta["categories"].as_array().unwrap();
    const COLOURS: [&str; 13] = [
        "transparent",
        "purple",
        "green",
        "orange",
        "yellow",
        "lightblue",
        "blue",
        "brown",
        "magenta",
        "red",
        "lightred",
        "darkgrey",
        "grey",
    ];
    assert!(categories.iter().any(|category| category["color"] == "grey"), "what has no category is grey");
    for category in categories {
        assert!(category["name"].is_string() && COLOURS.contains(&category["color"].as_str().unwrap()), "{category}");
        assert_eq!(category["subcategories"][0], "Other");
    }
    for schema in meta["markerSchema"].as_array().unwrap() {
        assert!(schema["name"].is_string() && schema["display"].is_array(), "{schema}");
        let is_field = |field: &serde_json::Value| ["key", "label", "format"].iter().all(|key| field[key].is_string());
        assert!(schema["fields"].as_array().unwrap().iter().all(is_field), "{schema}");
    }
    let threads = profile["threads"].as_array().unwrap();
    threads.iter().for_each(|thread| assert_is_firefox_thread(thread, meta));
    let mut ids: Vec<String> = threads.iter().map(|thread| format!("{} {}", thread["pid"], thread["tid"])).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), threads.len(), "a thread is in the profile once");
}

#[track_caller]
fn assert_is_firefox_thread(thread: &serde_json::Value, meta: &serde_json::Value) {
    for key in ["name", "processName", "processType", "pid", "tid"] {
        assert!(thread[key].is_string(), "{key}");
    }
    assert!(["isMainThread", "showMarkersInTimeline"].iter().all(|key| thread[key].is_boolean()));
    assert!(["processStartupTime", "registerTime"].iter().all(|key| thread[key].is_number()));
    assert!(["processShutdownTime", "unregisterTime"].iter().all(|key| thread[key].is_null()));
    let strings = thread["stringArray"].as_array().unwrap();
    assert!(strings.iter().all(serde_json::Value::is_string));
    let length = |table: &str| match table {
        "stringArray" => strings.len() as u64,
        "categories" => meta["categories"].as_array().unwrap().len() as u64,
        table => thread[table]["length"].as_u64().unwrap(),
    };
    for (table, columns) in TABLES {
        let mut known: Vec<&str> = columns.iter().map(|&(name, _)| name).chain(["length"]).collect();
        known.extend((table == "samples").then_some("weightType"));
        known.sort_unstable();
        assert_eq!(thread[table].as_object().unwrap().keys().collect::<Vec<_>>(), known, "{table}");
        for &(name, cell) in columns {
            let values = thread[table][name].as_array().unwrap();
            assert_eq!(values.len() as u64, length(table), "{table}.{name}");
            for (row, value) in values.iter().enumerate() {
                let is_row = |of| value.as_u64().is_some_and(|at| at < length(of));
                let is_right = match cell {
                    Cell::Index(of) => is_row(of),
                    Cell::IndexOrNull(of) => value.is_null() || is_row(of),
                    Cell::IndexOrNone(of) => value.as_i64() == Some(-1) || is_row(of),
                    Cell::Number => value.is_number(),
                    Cell::NumberOrNull => value.is_null() || value.is_number(),
                    Cell::Flag => value.is_boolean(),
                    Cell::Object => value.is_object(),
                };
                assert!(is_right, "{table}.{name}[{row}]: {value} is no {cell:?}");
                let is_caller = (table, name) == ("stackTable", "prefix");
                assert!(!is_caller || value.as_u64().is_none_or(|caller| caller < row as u64), "callers come first");
            }
        }
    }
    assert!(["samples", "tracing-ms"].contains(&thread["samples"]["weightType"].as_str().unwrap()));
    let deltas = thread["samples"]["timeDeltas"].as_array().unwrap();
    assert!(deltas.iter().all(|delta| delta.as_f64().unwrap() >= 0.0), "samples are in the order of their times");
    let markers = &thread["markers"];
    for row in 0..length("markers") as usize {
        let [start, end] = ["startTime", "endTime"].map(|name| markers[name][row].as_f64().unwrap());
        // Phase 1 is an interval.
        assert!(markers["phase"][row] == 1 && start <= end, "{row}");
        let data = &markers["data"][row];
        let schemas = meta["markerSchema"].as_array().unwrap();
        let schema = schemas.iter().find(|schema| schema["name"] == data["type"]).unwrap();
        let is_known = |key: &&String| {
            ["type", "cause"].contains(&key.as_str())
                || schema["fields"].as_array().unwrap().iter().any(|field| field["key"] == key.as_str())
        };
        assert!(data.as_object().unwrap().keys().all(|key| is_known(&key)), "{data}");
        let cause = &data["cause"];
        assert!(cause.is_null() || cause["stack"].as_u64().unwrap() < length("stackTable"), "{data}");
    }
}

/// What the profiler of Firefox gets: tables of equal columns, stacks that lead to the root, and the times and latencies of all events.
#[test]
fn profiles_for_firefox_keep_times_and_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.profile.json.gz");
    let source = "testdata/perf_script/stacks_fp.txt.gz";
    latscope(&["convert", "-r", source, "-w", path.to_str().unwrap()]).success();
    let mut json = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()), &mut json)
        .unwrap();
    let profile: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_is_firefox_profile(&profile);
    let mut found = Vec::new();
    for thread in profile["threads"].as_array().unwrap() {
        let strings = thread["stringArray"].as_array().unwrap();
        let list = |table: &str, column: &str| thread[table][column].as_array().unwrap().clone();
        let (prefixes, frames, functions, names) = (
            list("stackTable", "prefix"),
            list("stackTable", "frame"),
            list("frameTable", "func"),
            list("funcTable", "name"),
        );
        let (deltas, stacks, weights) =
            (list("samples", "timeDeltas"), list("samples", "stack"), list("samples", "weight"));
        let mut at = 0.0;
        for ((delta, stack), weight) in deltas.iter().zip(&stacks).zip(&weights) {
            at += delta.as_f64().unwrap();
            let (mut text, mut next) = (Vec::new(), stack.as_u64());
            while let Some(stack) = next {
                let name =
                    &names[functions[frames[stack as usize].as_u64().unwrap() as usize].as_u64().unwrap() as usize];
                text.push(strings[name.as_u64().unwrap() as usize].as_str().unwrap());
                let prefix = prefixes[stack as usize].as_u64();
                assert!(prefix.is_none_or(|prefix| prefix < stack), "callers come first");
                next = prefix;
            }
            text.reverse();
            let tid: i64 = thread["tid"].as_str().unwrap().parse().unwrap();
            found.push((
                tid,
                (at * 1e6).round() as i64,
                (weight.as_f64().unwrap() * 1e6).round() as u64,
                text.join(";"),
            ));
        }
    }
    let rows = latscope(&["events", "-r", source, "--json", "--columns", "time_ns,latency_ns,tid,stack"]).success();
    let rows: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let first = rows.iter().map(|row| row["time_ns"].as_i64().unwrap()).min().unwrap();
    let mut expected: Vec<(i64, i64, u64, String)> = rows
        .iter()
        .map(|row| {
            let stack = row["stack"].as_str().unwrap_or_default().replace("_[k]", "").replace("_[i]", "");
            (
                row["tid"].as_i64().unwrap_or(0),
                row["time_ns"].as_i64().unwrap() - first,
                row["latency_ns"].as_u64().unwrap(),
                stack,
            )
        })
        .collect();
    found.sort();
    expected.sort();
    assert!(expected.len() > 50);
    assert_eq!(found, expected);
}

/// A fault of a mapped file does not say which device it waits for: a filter for one leaves it out, and says so.
#[test]
fn waits_of_unknown_devices_are_counted_where_a_filter_asks_for_one() {
    use latscope_capture_file::LatWriter;
    use latscope_event::{Batch, Clock, Context, Field, FieldSet, Unfinished, Wait};
    let fields = FieldSet::ALWAYS.with(&[Field::Tid, Field::State, Field::Device, Field::Stack]);
    let batch = |rows: &[(i64, u64, &str, Option<&str>)]| {
        let mut batch = Batch::new(fields);
        for &(tid, latency_ms, state, device) in rows {
            batch.push_i64(Field::Time, 0);
            batch.push_u64(Field::Latency, latency_ms * 1_000_000);
            batch.push_i64(Field::Tid, tid);
            batch.push_text(Field::State, Some(state.as_bytes()));
            batch.push_text(Field::Device, device.map(str::as_bytes));
            batch.push_text(Field::Stack, Some(b"main;work"));
            batch.end_row();
        }
        batch
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.lat");
    let mut context = Context::new("made up", Clock::unanchored("none"));
    let hung = batch(&[(5, 4000, "disk sleep", None)]);
    context.unfinished = vec![Unfinished::from_row("a fault".into(), Wait::Counts, &hung, 0)];
    let mut writer = LatWriter::create(std::fs::File::create(&path).unwrap(), fields, &context).unwrap();
    let rows = [(1, 10, "disk sleep", Some("sda")), (2, 20, "disk sleep", None), (3, 30, "sleep", None)];
    writer.write(&batch(&rows), None).unwrap();
    writer.finish(&context).unwrap();
    let notes = |view: &str, filter: &str| {
        let ran = latscope(&[view, "-r", path.to_str().unwrap(), filter]);
        let printed = ran.err.clone() + &ran.success();
        printed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for view in ["stacks", "summary", "percentiles", "histogram"] {
        let all = notes(view, "device = sda");
        assert!(
            all.contains("and 2 waits for storage of 4.02s are left out as their devices are not known"),
            "{view}: {all}"
        );
        let ended = notes(view, "device = sda and lat < 1s or tid = 1");
        assert!(ended.contains("1 wait for storage of 20ms is left out as its device is not known"), "{view}: {ended}");
        for other in ["tid = 1", "not device = sdb"] {
            assert!(!notes(view, other).contains("left out"), "{view} {other}");
        }
    }
}
