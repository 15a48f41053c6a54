//! Views over time show all that a trace covers, also where nothing happened. The truth is a schedule that the tests make up.

use crate::program::{latscope, latscope_with, testdata};
use std::fmt::Write;
use tempfile::TempDir;

/// The second disk completes a request every 10 ms from 100 s to 110 s, the first only from 102 s to 104 s: by their filter,
/// silence has rows, since the trace goes on.
const FROM_MS: u64 = 100_000;
const TO_MS: u64 = 110_000;
const BUSY_MS: std::ops::Range<u64> = 102_000..104_000;

fn text() -> String {
    let mut text = String::new();
    let mut line = |at_ms: u64, what: &str| {
        writeln!(text, "    dd  7 [000] {}.{:03}000: block:{what}", at_ms / 1_000, at_ms % 1_000).unwrap();
    };
    for at in (FROM_MS..TO_MS).step_by(10) {
        for disk in ["8,0", "8,16"].into_iter().filter(|&disk| disk == "8,16" || BUSY_MS.contains(&at)) {
            line(at, &format!("block_rq_issue: {disk} WS 4096 () {at} + 8 none,0,0 [dd]"));
        }
        for disk in ["8,0", "8,16"].into_iter().filter(|&disk| disk == "8,16" || BUSY_MS.contains(&at)) {
            line(at + 2, &format!("block_rq_complete: {disk} WS () {at} + 8 none,0,0 [0]"));
        }
    }
    text
}

/// The trace as text, and in the forms that we write, made of it.
fn forms() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("t.txt"), text()).unwrap();
    for form in ["t.lat", "t.parquet"] {
        latscope(&["convert", "-r", &path("t.txt"), "--write", &path(form)]).success();
    }
    latscope(&["convert", "-r", &path("t.txt"), "--series", "-i", "1s", "--by", "device", "-w", &path("s.parquet")])
        .success();
    let forms = ["t.txt", "t.lat", "t.parquet", "s.parquet"].map(path);
    (folder, forms.to_vec())
}

/// By definition, from the first second to the last.
fn expected() -> Vec<u64> {
    (FROM_MS..TO_MS).step_by(1_000).map(|at| if BUSY_MS.contains(&at) { 100 } else { 0 }).collect()
}

/// The counts of rows of CSV.
fn counts(csv: &str) -> Vec<u64> {
    let at = csv.lines().next().unwrap().split(',').position(|title| title == "count").unwrap();
    csv.lines().skip(1).map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

#[test]
fn silence_at_the_ends_of_a_trace_has_rows_in_every_table() {
    let (_folder, forms) = forms();
    for form in &forms {
        for more in [&[][..], &["--by", "device", "--all"]] {
            let arguments = ["percentiles", "-r", form, "-i", "1s", "--count-by=completion", "--csv", "device = sda"];
            let found = latscope(&[&arguments[..], more].concat()).success();
            let of_all: String =
                found.lines().filter(|line| !line.starts_with("sda")).map(|l| format!("{l}\n")).collect();
            assert_eq!(counts(&of_all), expected(), "{form}");
        }
        let tables = latscope(&["summary", "-r", form, "-i", "1s", "--by", "none", "--csv", "device = sda"]).success();
        assert_eq!(counts(&tables), expected(), "{form}");
        for (words, at) in [(&[][..], "0s"), (&["--palette", "sysdig"], "0s")] {
            if form.ends_with("s.parquet") && !words.is_empty() {
                continue;
            }
            let arguments = ["spectrogram", "-r", form, "-i", "1s", "--plain", "device = sda"];
            let rows = latscope(&[&arguments[..], words].concat()).success();
            let times: Vec<&str> = rows.lines().filter_map(|line| line.split_whitespace().next()).collect();
            for second in [at, "1s", "4s", "9s"] {
                assert!(times.contains(&second), "{form}: {second}\n{rows}");
            }
        }
        let blocks = latscope(&["histogram", "-r", form, "-i", "1s", "device = sda"]).success();
        let headings: Vec<&str> =
            blocks.lines().filter(|line| line.starts_with("at ") || line.starts_with("from ")).collect();
        assert_eq!(
            headings,
            ["at 0s: 0 events", "at 1s: 0 events", "at 2s", "at 3s", "from 4s to 9s: 0 events", "at 9s: 0 events"],
            "{form}"
        );
        let too_few =
            ["percentiles", "-r", form, "-i", "1s", "--count-by=completion", "--fail-if", "count < 5", "device = sda"];
        let ended = latscope(&too_few);
        assert_eq!(ended.status, Some(1), "{}", ended.err);
        assert!(ended.err.contains("in 8 of 10 intervals"), "{}", ended.err);
    }
    for view in [&["summary", "--over", "1s"][..], &["summary", "--use"]] {
        let arguments = ["-r", &forms[0], "-i", "1s", "--by", "none", "--csv", "device = sda"];
        assert_eq!(counts(&latscope(&[view, &arguments].concat()).success()), expected(), "{view:?}");
    }
}

#[test]
fn silence_at_the_ends_of_a_stream_has_rows() {
    for view in ["percentiles", "summary"] {
        let arguments = [&[view, "-r", "-", "-i", "1s", "--csv", "device = sda"][..]];
        let by: &[&str] = if view == "summary" { &["--by", "none"] } else { &["--count-by=completion"] };
        let found = latscope_with(&[arguments[0], by].concat(), text().as_bytes()).success();
        assert_eq!(counts(&found), expected(), "{view}");
    }
}

#[test]
fn charts_end_where_the_trace_does() {
    let (folder, forms) = forms();
    for view in ["heatmap", "percentiles"] {
        let path = folder.path().join("t.svg");
        let path = path.to_str().unwrap();
        latscope(&[view, "-r", &forms[0], "-i", "1s", "-o", path, "device = sda"]).success();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!([">0<", ">0s<"].iter().any(|tick| svg.contains(tick)) && svg.contains(">8s<"), "{view}: {svg}");
    }
}

/// What a filter on time leaves out is not silence.
#[test]
fn a_filter_on_time_ends_the_rows() {
    let (_folder, forms) = forms();
    for (filter, rows) in [
        ("evt.reltime >= 3s and evt.reltime < 5s", vec![100, 0]),
        ("evt.reltime >= 1s and evt.reltime < 3s and device = sda", vec![0, 100]),
        ("(evt.reltime < 500ms or evt.reltime between 3s and 3500ms) and device = sda", vec![0, 0, 0, 51]),
    ] {
        let found =
            latscope(&["percentiles", "-r", &forms[1], "-i", "1s", "--count-by=completion", "--csv", filter]).success();
        let found = counts(&found);
        assert_eq!(found.len(), rows.len(), "{filter}: {found:?}");
        if filter.contains("sda") {
            assert!(found.iter().zip(&rows).all(|(found, row)| found.abs_diff(*row) <= 1), "{filter}: {found:?}");
        }
    }
}

/// The events of this trace take half of its time; intervals chosen for them alone would not divide those that all of it takes.
#[test]
fn a_wider_picture_has_no_longer_intervals() {
    let file = testdata("lat/fsync_io.lat").display().to_string();
    let width_ms = |pixels: &str| {
        let picture = latscope(&["heatmap", "-r", &file, "--width", pixels]).success();
        let text = picture.split("interval ").nth(1).and_then(|text| text.split_once("ms")).unwrap();
        text.0.parse::<u32>().unwrap()
    };
    // Of 2.2 s, no more intervals than half of the pixels, in round lengths.
    for (pixels, expected) in
        [("400", 20), ("600", 10), ("1000", 5), ("1180", 5), ("2000", 5), ("3000", 2), ("4000", 2)]
    {
        assert_eq!(width_ms(pixels), expected, "{pixels} pixels");
    }
}
