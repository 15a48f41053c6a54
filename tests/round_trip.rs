//! What was converted says the same as what it was converted from.

use crate::program::{latscope, testdata};
use std::path::PathBuf;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().unwrap().to_string()
    }

    /// Converts and returns the new path.
    fn convert(&self, from: &str, to: &str, more: &[&str]) -> String {
        let to = self.path(to);
        latscope(&[&["convert", "-f", "-r", from, "-w", &to], more].concat()).success();
        to
    }
}

fn csv(path: &str, more: &[&str]) -> String {
    latscope(&[&["events", "-r", path, "--csv"], more].concat()).success()
}

/// Notes on standard error, without the name of the file in front.
fn notes(path: &str) -> Vec<String> {
    let printed = latscope(&["events", "-r", path, "--csv"]).err;
    let note = |line: &str| {
        line.find("missing: ")
            .or(line.find("unfinished: "))
            .or(line.find("caveat: "))
            .or(line.find("note: "))
            .map(|at| line[at..].into())
    };
    printed.lines().filter_map(note).collect()
}

#[test]
fn events_survive_every_format() {
    let folder = Folder::new();
    for name in ["perf_data/block_mixed.txt.zst", "perf_script/lost.txt.gz", "perf_data/syscalls_and_block.txt.zst"] {
        let text = testdata(name).to_str().unwrap().to_string();
        let expected = csv(&text, &[]);
        let lat = folder.convert(&text, "run.lat", &[]);
        assert!(csv(&lat, &[]) == expected, "{name} as .lat");
        assert_eq!(notes(&lat), notes(&text), "{name} as .lat");
        let parquet = folder.convert(&lat, "run.parquet", &[]);
        let by_time = csv(&text, &["--sort", "time"]);
        let mut lines: Vec<_> = expected.lines().collect();
        lines[1..].sort_by_key(|line| line.split(',').next().unwrap().parse::<i64>().unwrap());
        assert_eq!(by_time.lines().collect::<Vec<_>>(), lines, "{name} by time");
        assert!(csv(&parquet, &["--sort", "time"]) == by_time, "{name} as .parquet");
        assert_eq!(notes(&parquet), notes(&text), "{name} as .parquet");
        let back = folder.convert(&parquet, "again.lat", &[]);
        assert!(csv(&back, &["--sort", "time"]) == by_time, "{name} as .parquet and back");
        let written = std::fs::read_to_string(folder.convert(&lat, "run.csv", &[])).unwrap();
        assert!(written == expected, "{name} as .csv");
        let json = latscope(&["events", "-r", &text, "--json"]).success();
        let written = std::fs::read_to_string(folder.convert(&lat, "run.jsonl", &[])).unwrap();
        assert!(written == json, "{name} as .jsonl");
    }
}

#[test]
fn a_filter_picks_the_same_everywhere() {
    let folder = Folder::new();
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let filter = "lat between 100us and 2ms and kind in (read, discard) or comm contains kworker";
    let expected = csv(&text, &["--sort", "time", filter]);
    assert!(expected.lines().count() > 100);
    for ending in ["lat", "parquet"] {
        let whole = folder.convert(&text, &format!("whole.{ending}"), &[]);
        assert!(csv(&whole, &["--sort", "time", filter]) == expected, "{ending}");
        let part = folder.convert(&text, &format!("part.{ending}"), &[filter]);
        assert!(csv(&part, &["--sort", "time"]) == expected, "{ending}");
    }
}

#[test]
fn request_latency_is_device_latency_and_the_wait() {
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let columns = ["--columns", "time,latency,queue"];
    let rows = |more: &[&str]| -> Vec<(i64, i64, i64)> {
        let csv = csv(&text, &[&columns, more].concat());
        let number = |text: Option<&str>| text.unwrap().parse().unwrap();
        let row = |line: &str| {
            let mut cells = line.split(',');
            let (time, latency, queue) = (number(cells.next()), number(cells.next()), cells.next());
            // Of a request that was issued once this trace does not say whether it waited before.
            (time, latency, queue.filter(|queue| !queue.is_empty()).map_or(0, |queue| number(Some(queue))))
        };
        csv.lines().skip(1).map(row).collect()
    };
    let (device, request) = (rows(&[]), rows(&["--latency", "request"]));
    assert!(device.iter().any(|&(.., queue)| queue > 0), "requeued requests have waited");
    let shifted: Vec<_> = device.iter().map(|&(time, latency, queue)| (time - queue, latency + queue, queue)).collect();
    assert_eq!(request, shifted);
}

#[test]
fn stored_histograms_show_what_the_events_show() {
    let folder = Folder::new();
    let text = testdata("perf_data/block_mixed.txt.zst").to_str().unwrap().to_string();
    let series = folder.convert(&text, "series.parquet", &["--series", "-i", "1s", "--by", "device"]);
    let bars = |path: &str, more: &[&str]| {
        let printed = latscope(&[&["histogram", "-r", path], more].concat()).success();
        let bars: Vec<_> = printed.lines().filter(|line| line.contains('|')).map(str::to_string).collect();
        assert!(bars.len() > 10, "{printed}");
        bars
    };
    for more in [&[][..], &["--by", "device"], &["device = loop0"]] {
        assert_eq!(bars(&series, more), bars(&text, more), "{more:?}");
    }
    // What a histogram has forgotten cannot be asked for.
    let printed = latscope(&["histogram", "-r", &series, "--by", "comm"]).failure(2);
    assert!(printed.contains("is not grouped by comm"), "{printed}");
    let printed = latscope(&["histogram", "-r", &series, "comm = fio"]).failure(2);
    assert!(printed.contains("comm"), "{printed}");
}

#[test]
fn a_file_is_replaced_on_demand_only() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let story = "testdata/perf_script/story_2s.txt.gz";
    for name in ["x.lat", "x.parquet", "x.csv", "x.jsonl", "x.hlog"] {
        let path = folder.path(name);
        std::fs::write(&path, "mine").unwrap();
        let convert = |more: &[&str]| latscope(&[&["convert", "-r", story, "-w", &path], more].concat());
        let printed = convert(&[]).failure(2);
        assert!(printed.contains(&format!("{path} exists; -f replaces it.")), "{printed}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        convert(&["-f"]).success();
        assert!(std::fs::metadata(&path).unwrap().len() > 1000, "{name}");
    }
}
