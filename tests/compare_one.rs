//! The picture of a single volume, and what one outlier does to the pictures of requests.

use crate::program::{latscope, unpacked};
use std::fs;
use std::path::Path;

/// Latencies of a volume, nanoseconds.
fn latencies() -> Vec<u64> {
    let text = fs::read_to_string(crate::program::testdata("compare/volA.txt")).unwrap();
    text.lines().map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect()
}

fn draw(folder: &Path, names: &[&str]) -> (String, String) {
    let picture = folder.join("c.svg");
    let out =
        latscope(&[&["compare"], names, &["--unitstime", "ns", "-o", picture.to_str().unwrap()]].concat()).success();
    (out, fs::read_to_string(picture).unwrap())
}

/// The numbers of the requirement's picture, computed here from the requests themselves.
#[test]
fn one_trace_is_a_picture_of_its_volume() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("gp2.txt");
    fs::write(&trace, unpacked("compare/volA.txt")).unwrap();
    let trace = trace.to_str().unwrap();
    let values: Vec<f64> = latencies().into_iter().map(|value| value as f64).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    let (out, svg) = draw(folder.path(), &[trace]);
    let shown = |value: f64| latscope_event::format_duration(value.round() as u64);
    let (min, max) = (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
    let numbers = format!(
        "minimum {}, average {}, maximum {}, standard deviation {}",
        shown(min),
        shown(mean),
        shown(max),
        shown(sd)
    );
    assert!(svg.contains(&numbers), "{numbers}");
    assert!(svg.contains(">Distribution<") && svg.contains(">Tail<") && !svg.contains(">Difference<"));
    assert!(out.lines().any(|line| line.split_whitespace().eq(["sd", &shown(sd)])), "{out}");
    let json: serde_json::Value =
        serde_json::from_str(&latscope(&["compare", trace, "--unitstime", "ns", "--json"]).success()).unwrap();
    assert!((json["sides"][0]["sd_ns"].as_f64().unwrap() - sd).abs() < 1e-6 * sd, "{json}");
    assert_eq!(json["differences"], serde_json::json!([]));
    let csv = latscope(&["compare", trace, "--unitstime", "ns", "--csv"]).success();
    assert_eq!(csv.lines().count(), 9, "{csv}");
    assert!(csv.lines().all(|line| line.split(',').count() == 11), "{csv}");
    let printed = latscope(&["compare", trace, "--unitstime", "ns", "--fail-if", "p99 > 1%"]).failure(2);
    assert!(printed.contains("--fail-if needs at least two sides"), "{printed}");
}

/// Places of the points of a plot: those of its path of single marks.
fn heights(svg: &str) -> Vec<f64> {
    let points =
        svg.lines().filter(|line| line.contains("stroke-linecap=\"round\"")).flat_map(|line| line.split('M').skip(1));
    points.filter_map(|point| point.split_whitespace().nth(1)?.split('h').next()?.parse().ok()).collect()
}

#[test]
fn one_outlier_does_not_crush_the_requests() {
    let folder = tempfile::tempdir().unwrap();
    let mut values = latencies();
    let write = |name: &str, values: &[u64]| {
        let path = folder.path().join(name);
        let row = |(at, value): (usize, &u64)| format!("{} {value}\n", (at as u64 + 1) * 10_000_000);
        fs::write(&path, values.iter().enumerate().map(row).collect::<String>()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let spread = |svg: &str| {
        let mut heights = heights(svg);
        heights.sort_by(f64::total_cmp);
        assert!(heights.len() > 200, "{}", heights.len());
        heights[heights.len() * 95 / 100] - heights[heights.len() * 5 / 100]
    };
    let (_, before) = draw(folder.path(), &[&write("usual.txt", &values)]);
    assert!(!before.contains(" above "));
    values[300] = 900_000_000;
    let (_, after) = draw(folder.path(), &[&write("stall.txt", &values)]);
    assert!(after.contains(" above ") && after.contains("up to 900ms<"));
    assert!(spread(&after) > spread(&before) / 2.0, "{} {}", spread(&after), spread(&before));
}
