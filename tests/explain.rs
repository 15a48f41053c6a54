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
    let story = story();
    let selections = [
        "lat > 60ms",
        "evt.reltime between 500ms and 700ms",
        "kind = write",
        "device = \"254:0\" and lat > 180us",
        "tid = 1947",
    ];
    let mut checked = 0;
    for selection in selections {
        let json = explained(&["-r", &story, selection]);
        let selection = json["selection"]["filter"].as_str().unwrap();
        assert_eq!(count(&story, selection), json["selection"]["events"].as_u64().unwrap());
        let values = json["attributes"].as_array().unwrap().iter().flat_map(|one| one["values"].as_array().unwrap());
        for one in json["findings"].as_array().unwrap().iter().chain(values) {
            let filter = one["filter"].as_str().unwrap();
            let selected = one["selection_events"].as_u64().unwrap();
            let all = selected + one["baseline_events"].as_u64().unwrap();
            assert_eq!(count(&story, filter), all, "{selection}: {filter}");
            assert_eq!(count(&story, &format!("({selection}) and {filter}")), selected, "{selection}: {filter}");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
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
        (&before.clone().into(), &after.clone().into())
    );
    for finding in json["findings"].as_array().unwrap() {
        let filter = finding["filter"].as_str().unwrap();
        assert_eq!(count(&after, filter), finding["selection_events"].as_u64().unwrap(), "{finding}");
        assert_eq!(count(&before, filter), finding["baseline_events"].as_u64().unwrap(), "{finding}");
    }
    assert_eq!(json["findings"][0]["filter"], "kind = write");
}
