//! Pictures are looked at by those who will show it: an SVG library and a browser.

use crate::program::{LATSCOPE, command, end, installed, latscope, root, testdata};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

#[path = "../crates/view-report/tests/heatmap/xml.rs"]
pub mod xml;

/// Colours that a picture of text and axes alone does not come to.
const COLOURS: usize = 100;

/// Pictures of different make.
fn pictures() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("count", vec![]),
        ("waiting", vec!["--weight", "time", "--by", "device", "--dark"]),
        ("seeks", vec!["-y", "offset", "--palette", "classic", "--grid", "--light"]),
        ("queue", vec!["-y", "queue", "--lines", "none", "--no-strips"]),
        ("size", vec!["-y", "size", "--weight", "bytes", "--title", "<&\"'> \u{1f4c8}", "comm != '<x>'"]),
        ("nothing", vec!["lat > 1h"]),
    ]
}

fn draw(folder: &Path, name: &str, more: &[&str]) -> std::path::PathBuf {
    // Requests are seen to wait only where the trace has the records of their queueing.
    let trace = testdata(if name == "queue" { "perf_script/all_events.txt.gz" } else { "perf_script/story_2s.txt.gz" });
    let path = folder.join(format!("{name}.svg"));
    let arguments = ["heatmap", "-r", trace.to_str().unwrap(), "-o", path.to_str().unwrap()];
    latscope(&[&arguments[..], more].concat()).success();
    path
}

/// The distinct colours of a PNG of eight bits a channel, not interlaced.
fn colours(png: &[u8]) -> usize {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
    let (width, height) = (number(16), number(20));
    assert_eq!((png[24], png[28]), (8, 0), "eight bits, not interlaced");
    let channels = if png[25] == 6 { 4 } else { 3 };
    let (mut at, mut packed) = (8, Vec::new());
    while at + 8 < png.len() {
        let length = number(at);
        if &png[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&png[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("the image is whole");
    let stride = width * channels;
    let mut above = vec![0u8; stride];
    let mut seen = HashSet::new();
    for line in bytes.chunks(stride + 1).take(height) {
        let (filter, mut row) = (line[0], line[1..].to_vec());
        for place in 0..stride {
            let before = |row: &[u8]| if place < channels { 0 } else { row[place - channels] };
            let (left, up, corner) = (before(&row), above[place], before(&above));
            row[place] = row[place].wrapping_add(predicted(filter, left, up, corner));
        }
        seen.extend(row.chunks(channels).map(<[u8]>::to_vec));
        above = row;
    }
    seen.len()
}

/// What a PNG filter expects of a byte (RFC 2083, section 6).
fn predicted(filter: u8, left: u8, up: u8, corner: u8) -> u8 {
    match filter {
        1 => left,
        2 => up,
        3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
        4 => {
            let (a, b, c) = (i16::from(left), i16::from(up), i16::from(corner));
            let estimate = a + b - c;
            let far = |value: i16| (estimate - value).abs();
            if far(a) <= far(b) && far(a) <= far(c) {
                left
            } else if far(b) <= far(c) {
                up
            } else {
                corner
            }
        }
        _ => 0,
    }
}

#[test]
fn heat_maps_are_well_formed_and_small() {
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in pictures() {
        let svg = std::fs::read_to_string(draw(folder.path(), name, &more)).unwrap();
        xml::check(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(svg.len() < 1_500_000, "{name}: {} bytes", svg.len());
        assert!(svg.contains("<title>") || name == "nothing", "{name} has no tooltips");
    }
}

/// A chart of the story's trace.
fn chart(folder: &Path, more: &[&str]) -> std::path::PathBuf {
    let path = folder.join("chart.svg");
    let trace = testdata("perf_script/story_2s.txt.gz");
    let arguments = ["percentiles", "-r", trace.to_str().unwrap(), "-o", path.to_str().unwrap()];
    latscope(&[&arguments[..], more].concat()).success();
    path
}

#[test]
fn charts_of_percentiles_are_well_formed_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&["--by", "device"][..], &["--p", "50..99,99.9", "--dark", "-i", "20ms"], &["lat > 1h"]] {
        let path = chart(folder.path(), more);
        let svg = std::fs::read_to_string(&path).unwrap();
        xml::check(&svg).unwrap_or_else(|error| panic!("{more:?}: {error}"));
        if installed("rsvg-convert") {
            let drawn = end(command("rsvg-convert").arg(&path), b"");
            assert!(drawn.status == Some(0) && colours(&drawn.out) > 20, "{more:?}: {}", drawn.err);
        }
    }
}

#[test]
fn a_chart_fails_as_the_table_does() {
    let folder = tempfile::tempdir().unwrap();
    let trace = testdata("perf_script/story_2s.txt.gz");
    let path = folder.path().join("level.svg");
    let run = |level: &str| {
        let files = ["percentiles", "-r", trace.to_str().unwrap(), "-o", path.to_str().unwrap()];
        latscope(&[&files[..], &["-i", "100ms", "--fail-if", level]].concat())
    };
    assert!(run("max > 100ms").failure(1).contains("max > 100ms in "));
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.contains(">max &gt; 100ms<") && svg.contains("max &gt; 100ms: in "), "the level is drawn");
    run("max > 1s").success();
    assert!(latscope(&["percentiles", "-r", "x", "--csv", "-o", "x.svg"]).failure(2).contains("do not write pictures"));
    assert!(latscope(&["percentiles", "-r", "x", "--p", "99..50"]).failure(2).contains("is reversed"));
}

#[test]
fn an_svg_library_draws_them() {
    if !installed("rsvg-convert") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, more) in pictures() {
        let svg = draw(folder.path(), name, &more);
        let drawn = end(command("rsvg-convert").arg(&svg), b"");
        assert_eq!(drawn.status, Some(0), "{name}: {}", drawn.err);
        let count = colours(&drawn.out);
        assert!(count > COLOURS || name == "nothing", "{name}: {count} colours");
    }
}

#[test]
fn a_browser_draws_them() {
    if !installed("chromium") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let svg = draw(folder.path(), "count", &[]);
    let shot = folder.path().join("shot.png");
    let mut chromium = command("chromium");
    chromium.args("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars".split(' '));
    chromium.args("--disable-background-networking --disable-component-update --disable-sync".split(' '));
    chromium.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    chromium.arg(format!("--screenshot={}", shot.display())).arg("--window-size=1200,800");
    chromium.arg(format!("file://{}", svg.display()));
    let ended = end(&mut chromium, b"");
    let Ok(png) = std::fs::read(&shot) else { panic!("no picture was taken: {}", ended.err) };
    let count = colours(&png);
    assert!(count > COLOURS, "{count} colours");
}

#[test]
fn pictures_of_the_documentation_are_drawn_by_this_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut make = command("make");
    make.args(["--silent", "draw"]).arg(format!("PROGRAM={LATSCOPE}"));
    end(make.arg(format!("PICTURES={}", folder.path().display())), b"").success();
    let drawn: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(drawn.len() >= 5);
    for path in drawn {
        let kept = root().join("docs/pictures").join(path.file_name().unwrap());
        assert!(
            std::fs::read(&path).unwrap() == std::fs::read(&kept).unwrap(),
            "make pictures would alter {}",
            kept.display()
        );
    }
}
