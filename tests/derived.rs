//! Fields that are derived from a whole trace, against their definitions over the rows of `events`.

use crate::program::{latscope, latscope_with, testdata};
use serde_json::Value;

fn story() -> String {
    testdata("perf_script/story_2s.txt.gz").to_str().unwrap().into()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let text = latscope(&[&["events", "--json"], arguments].concat()).success();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const COLUMNS: &str = "time_ns,latency_ns,device,kind,offset,size,in_flight,since_previous_ns,sequential,region";

#[test]
fn derived_fields_are_as_defined() {
    let rows = rows(&["-r", &story(), "--columns", COLUMNS]);
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
    let mut checked = 0;
    for (at, row) in
        rows.iter().enumerate().step_by(97).chain(rows.iter().enumerate().filter(|(_, row)| row["device"] == "loop3"))
    {
        let start = number(row, "time_ns");
        let of_device = rows.iter().enumerate().filter(|(_, other)| other["device"] == row["device"]);
        let mut before: Vec<_> =
            of_device.filter(|(place, other)| (number(other, "time_ns"), *place) < (start, at)).collect();
        before.sort_by_key(|(place, other)| (number(other, "time_ns"), *place));
        let in_flight =
            before.iter().filter(|(_, other)| number(other, "time_ns") + number(other, "latency_ns") > start).count();
        assert_eq!(number(row, "in_flight"), in_flight as i64, "{row}");
        let since = before.last().map(|(_, other)| start - number(other, "time_ns"));
        assert_eq!(row["since_previous_ns"].as_i64(), since, "{row}");
        let alike = before.iter().rev().filter(|(_, other)| other["kind"] == row["kind"]).take(32);
        let goes_on =
            alike.clone().any(|(_, other)| number(other, "offset") + number(other, "size") == number(row, "offset"));
        if number(row, "size") > 0 {
            assert_eq!(row["sequential"], if goes_on { "sequential" } else { "random" }, "{row}");
        }
        checked += 1;
    }
    assert!(checked > 200);
}

#[test]
fn derived_fields_are_fields_everywhere() {
    let story = story();
    let count = |filter: &str| rows(&["-r", &story, "--columns", "latency_ns", filter]).len();
    let (busy, all) = (count("in_flight >= 8"), count("in_flight >= 0"));
    assert!(busy > 0 && busy < all);
    assert_eq!(busy + count("in_flight < 8"), all);
    // A filter does not change what was in flight.
    let filtered = rows(&["-r", &story, "--columns", COLUMNS, "device = loop0 and kind = write"]);
    let whole = rows(&["-r", &story, "--columns", COLUMNS]);
    let writes: Vec<_> = whole.into_iter().filter(|row| row["device"] == "loop0" && row["kind"] == "write").collect();
    assert_eq!(filtered, writes);
    let csv = latscope(&["summary", "-r", &story, "--by", "sequential", "--csv"]).success();
    assert!(csv.contains("\nrandom,") && csv.contains("\nsequential,"), "{csv}");
    let piped = latscope_with(&["summary", "-r", "-", "--by", "sequential", "--csv"], &std::fs::read(&story).unwrap());
    assert_eq!(piped.success(), csv);
    latscope(&["heatmap", "-r", &story, "--by", "region", "region = \"40/64\""]).success();
}

#[test]
fn derived_fields_need_a_complete_trace() {
    let refused = latscope(&["events", "-r", &story(), "--follow", "in_flight > 1"]).failure(3);
    assert_eq!(
        refused,
        "latscope: in_flight is computed from a complete trace, which a live or growing one is not. Record first, and read \
         the recording with -r.\n"
    );
}
