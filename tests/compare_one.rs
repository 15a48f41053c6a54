//! The picture of a single volume, and what one outlier does to the pictures of requests.

use crate::program::{latscope, testdata, unpacked};
use std::fs;
use std::path::Path;

/// Latencies of a volume, nanoseconds.
fn latencies() -> Vec<u64> {
    let text = fs::read_to_string(testdata("compare/volA.txt")).unwrap();
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

/// One measurement is no two runs, whatever it is called.
#[test]
fn one_measurement_is_refused_as_two_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (a, b) = (path("a.txt"), path("b.txt"));
    for (from, to) in [("volA", &a), ("volB", &b), ("volA", &path("copy.txt"))] {
        fs::copy(testdata("compare").join(format!("{from}.txt")), to).unwrap();
    }
    std::os::unix::fs::symlink(&a, path("link.txt")).unwrap();
    fs::hard_link(&a, path("hard.txt")).unwrap();
    fs::create_dir_all(path("lab/sub")).unwrap();
    let ns = ["--unitstime", "ns"];
    for (to, more) in
        [("a.lat", &[][..]), ("a.parquet", &["--series", "-i", "100ms"]), ("a2.parquet", &["--series", "-i", "100ms"])]
    {
        latscope(&[&["convert", "-r", &a, "-w", &path(to)], more, &ns].concat()).success();
    }
    for (from, job, turn) in [(&a, "paced", 1), (&b, "paced", 2)] {
        let to = path(&format!("lab/{job}.mnt.{turn}.lat"));
        latscope(&[&["convert", "-r", from, "-w", &to], &ns[..]].concat()).success();
    }
    let around = path("lab/../a.txt");
    let sides: [&[&str]; 9] = [
        &[&a, &a],
        &[&a, &b, &a],
        &[&a, &around],
        &[&a, &path("link.txt")],
        &[&a, &path("hard.txt")],
        &[&a, &path("copy.txt")],
        &[&a, &path("a.lat")],
        &[&path("a.parquet"), &path("a2.parquet")],
        &[&path("lab"), &path("lab/sub/..")],
    ];
    let groups = [format!("x={a},{around}"), format!("y={b}"), format!("x={a}"), format!("y={b},{}", path("copy.txt"))];
    let groups: [&[&str]; 2] =
        [&["--group", &groups[0], "--group", &groups[1]], &["--group", &groups[2], "--group", &groups[3]]];
    for words in sides.into_iter().chain(groups) {
        let printed = latscope(&[&["compare"], words, &ns[..]].concat()).failure(2);
        assert!(printed.contains("every run in a comparison needs a measurement of its own"), "{words:?}: {printed}");
    }
    let printed = latscope(&["compare", &a, &around]).failure(2);
    assert!(printed.contains(&format!("{a} and {around} are the same file")), "{printed}");
    // Neither parts of one trace nor two volumes are repetitions.
    for words in [&[&a[..], "--filter", "lat > 400us", "--filter", "lat <= 400us"][..], &[&a[..], &b]] {
        latscope(&[&["compare"], words, &ns[..]].concat()).success();
    }
}
