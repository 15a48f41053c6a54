//! The trace that an event came from as a field, and traces laid over each other.

use crate::program::{latscope, testdata, unpacked};
use serde_json::Value;
use std::path::Path;

/// The fast and the slow half of a run of fio, as two logs of the same histograms or events.
fn logs(folder: &Path) -> [String; 3] {
    let log = |name: &str, packed: &str| {
        let path = folder.join(name);
        std::fs::write(&path, unpacked(packed)).unwrap();
        path.to_str().unwrap().to_string()
    };
    [
        log("a_clat.1.log", "fio_log/A_clat.1.log.zst"),
        log("b_clat.1.log", "fio_log/B_clat.1.log.zst"),
        log("a_clat_hist.1.log", "fio_hist/A_clat_hist.1.log.zst"),
    ]
}

/// Lines of `percentiles` or `events` as objects.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let text = latscope(arguments).success();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of one trace.
fn of_trace(all: &[Value], name: &str) -> Vec<Value> {
    all.iter().filter(|line| line["trace"] == name).cloned().collect()
}

/// What is known of an interval whatever other traces cover.
fn numbers(lines: &[Value]) -> Vec<[Value; 6]> {
    let keys = ["time_ns", "count", "mean_ns", "p50_ns", "p99_ns", "max_ns"];
    lines.iter().map(|line| keys.map(|key| line[key].clone())).collect()
}

#[test]
fn each_trace_has_the_percentiles_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let [events, others, histograms] = logs(folder.path());
    for two in [[&events, &others], [&events, &histograms], [&histograms, &others]] {
        // They are of different days.
        let percentiles = ["percentiles", "--json", "-i", "100ms", "--align-starts"];
        let both = lines(&[&percentiles[..], &["-r", two[0], "-r", two[1], "--by", "trace"]].concat());
        for name in two {
            let alone = lines(&[&percentiles[..], &["-r", name]].concat());
            assert!(alone.len() > 3);
            assert_eq!(numbers(&of_trace(&both, name)), numbers(&alone), "{name}");
            let filter = format!("trace = \"{name}\"");
            let filtered = lines(&[&percentiles[..], &["-r", two[0], "-r", two[1], &filter]].concat());
            assert_eq!(numbers(&filtered), numbers(&alone), "{filter}");
        }
    }
}

#[test]
fn the_trace_is_a_field_as_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let [events, others, _] = logs(folder.path());
    let read = ["-r", &events, "-r", &others];
    let count = |arguments: &[&str]| lines(&[&["events", "--json"], &read[..], arguments].concat());
    let all = count(&["--columns", "latency_ns,trace,in_flight"]);
    let own = all.iter().filter(|row| row["trace"] == others.as_str()).count();
    assert_eq!(own, count(&["--columns", "latency_ns", &format!("trace = \"{others}\"")]).len());
    assert!(own > 10 && own < all.len());
    assert!(count(&["kind = read"])[0].get("trace").is_none(), "only where it is asked for");
    let summary = latscope(&[&["summary", "--csv", "--by", "trace"], &read[..]].concat()).success();
    assert!(summary.contains(&format!("\n{others},{own},")), "{summary}");
    // What a trace leaves open waits in its own group.
    let [story, raw] =
        ["perf_script/story_2s.txt.gz", "perf_script/lost.txt.gz"].map(|name| testdata(name).display().to_string());
    let summary = latscope(&["summary", "--json", "--by", "trace", "-r", &story, "-r", &raw]).success();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let groups = summary["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{summary}");
    for group in groups {
        let alone = latscope(&["summary", "--json", "-r", group["trace"].as_str().unwrap()]).success();
        let alone: Value = serde_json::from_str(&alone).unwrap();
        assert_eq!(group["waiting"], alone["total"]["waiting"], "{summary}");
    }
}

#[test]
fn traces_are_laid_over_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, start_ns: u64| {
        let rows = (0..400u64).map(|at| {
            let (time, latency) = (start_ns + at * 10_000_000, 1000 + start_ns % 977 + at);
            format!("{{\"time_ns\":{time},\"latency_ns\":{latency}}}\n")
        });
        let path = folder.path().join(name);
        std::fs::write(&path, rows.collect::<String>()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (early, late) = (trace("early.jsonl", 5_003_000_000), trace("late.jsonl", 90_000_007_000_000));
    let percentiles = ["percentiles", "--json", "-i", "1s", "--by", "trace"];
    let both = lines(&[&percentiles[..], &["-r", &early, "-r", &late, "--align-starts"]].concat());
    let starts = |name: &str| of_trace(&both, name).iter().map(|line| line["time_ns"].clone()).collect::<Vec<_>>();
    assert_eq!((starts(&early).len(), starts(&early)), (4, starts(&late)));
    for name in [&early, &late] {
        let counts: Vec<_> = of_trace(&both, name).iter().map(|line| line["count"].as_f64().unwrap()).collect();
        assert!(counts.iter().all(|count| (count - 100.0).abs() < 2.0), "{counts:?}");
    }
    // Relative times mean the same in each.
    let filter = "evt.reltime < 1s";
    let rows = lines(&["events", "--json", "-r", &early, "-r", &late, "--align-starts", filter]);
    assert_eq!(rows.len(), 200);
    latscope(&["percentiles", "-s", "block", "--for", "1s", "--align-starts"]).failure(2);
}

/// A block trace with records of queueing has the threads of both ends.
#[test]
fn who_dispatched_a_request_is_known_where_queueing_is_traced() {
    let path = testdata("perf_script/all_events.txt.gz").display().to_string();
    let rows = lines(&["events", "--json", "--columns", "tid,offset,dispatcher", "-r", &path]);
    // From the text itself: the threads that inserted a sector and that issued it.
    let text = String::from_utf8(unpacked("perf_script/all_events.txt.gz")).unwrap();
    let thread = |line: &str| line.split('[').next().unwrap().split_whitespace().last().unwrap().to_string();
    let sector = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let plus = words.iter().position(|&word| word == "+")?;
        words[plus - 1].parse::<u64>().ok()
    };
    let mut inserted = std::collections::HashMap::new();
    let mut expected = std::collections::HashMap::new();
    for line in text.lines() {
        let Some(sector) = sector(line) else { continue };
        if line.contains("block:block_io_start:") {
            inserted.insert(sector, thread(line));
        } else if line.contains("block:block_rq_issue:")
            && let Some(by) = inserted.remove(&sector)
        {
            expected.insert(sector * 512, if by == thread(line) { "issuer" } else { "other" });
        }
    }
    let known: Vec<_> = rows.iter().filter(|row| row["dispatcher"].is_string()).collect();
    assert!(known.len() > 200, "{} of {}", known.len(), rows.len());
    for row in known {
        if let Some(&dispatcher) = row["offset"].as_u64().and_then(|offset| expected.get(&offset)) {
            assert_eq!(row["dispatcher"], dispatcher, "{row}");
        }
    }
    let story = testdata("perf_script/story_2s.txt.gz").display().to_string();
    let rows = lines(&["events", "--json", "--columns", "latency_ns,dispatcher", "-r", &story]);
    assert!(rows.iter().all(|row| row["dispatcher"].is_null()), "the story has no records of queueing");
}

#[test]
fn percentiles_of_traces_are_lines_of_one_chart() {
    let folder = tempfile::tempdir().unwrap();
    let [events, others, _] = logs(folder.path());
    let svg = |p: &str| {
        let read = ["-r", &events, "-r", &others, "--by", "trace", "--p", p];
        let to = folder.path().join("x.svg");
        latscope(&[&["percentiles", "-o", to.to_str().unwrap()], &read[..]].concat()).success();
        std::fs::read_to_string(to).unwrap()
    };
    let chart = svg("50,99");
    for name in [&events, &others] {
        let name = name.rsplit('/').next().unwrap();
        for percentile in ["p50", "p99"] {
            assert!(chart.contains(&format!("{name} {percentile} ")), "{name} {percentile}");
        }
    }
    let panels = |svg: &str| svg.matches("font-weight=\"bold\"").count();
    // The title is bold, too.
    assert_eq!((panels(&chart), panels(&svg("50,90,99,99.9"))), (1, 4));
}

/// Times of day and times since a start have nothing to do with each other; whoever reads both learns the way out.
#[test]
fn traces_on_unrelated_clocks_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let trace = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let unix =
        trace("unix.txt", "7 1795224275.100000 close(3) = 0 <0.100000>\n7 1795224276.100000 close(3) = 0 <0.100000>\n");
    let of_day =
        trace("of_day.txt", "7 10:20:30.100000 close(3) = 0 <0.100000>\n7 10:20:31.100000 close(3) = 0 <0.100000>\n");
    let note = "its clock (time of day) and that of strace";
    for view in [&["summary", "-s", "syscall"][..], &["percentiles", "-i", "1s", "-s", "syscall"]] {
        let printed = |more: &[&str]| {
            let ended = latscope(&[view, &["-r", &unix, "-r", &of_day], more].concat());
            ended.err.clone() + &ended.success()
        };
        assert!(printed(&[]).contains(note), "{}", printed(&[]));
        assert!(!printed(&["--align-starts"]).contains(note));
    }
    // Headings show the filter that was typed, not what -s selects.
    let summary = latscope(&["summary", "-s", "syscall", "-r", &unix]).success();
    assert!(!summary.contains("filter"), "{summary}");
    let summary = latscope(&["summary", "-s", "syscall", "-r", &unix, "fd = 3"]).success();
    assert!(summary.contains("fd = 3") && !summary.contains("exists"), "{summary}");
}

/// Bytes behind gzip data that are not gzip data are skipped and reported.
#[test]
fn bytes_behind_gzip_data_are_noted() {
    let packed = std::fs::read(testdata("perf_script/story_2s.txt.gz")).unwrap();
    let (mut more, mut padded) = (packed.clone(), packed.clone());
    more.extend_from_slice(b"appended\n");
    padded.extend_from_slice(&[0; 512]);
    let printed = |bytes: &[u8]| crate::program::latscope_with(&["summary", "-r", "-"], bytes).success();
    assert_eq!(printed(&padded), printed(&packed));
    assert!(printed(&more).contains("9 bytes behind the end of the gzip data not read"), "{}", printed(&more));
}
