//! Histograms as text and records of PyLatencyMap, against counts that are added up here in another way.

use crate::program::{end, installed, is_root, latscope, latscope_with, testdata, unpacked};
use latscope_capture_file::{ReadOptions, SeriesReader, SeriesRow};
use latscope_event::{Anomaly, Context, FieldSet};
use std::collections::BTreeMap;
use std::process::Command;

fn rows(name: &str, text: &[u8]) -> (Vec<SeriesRow>, Context) {
    let options = ReadOptions::new(FieldSet::ALWAYS);
    let mut reader = SeriesReader::from_bytes(name, text.to_vec(), &options).unwrap();
    let rows = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    (rows, reader.context().clone())
}

/// A record as whoever reads the format without care would see it: numbers on either side of a comma or a bar.
#[derive(Default, Clone)]
struct Record {
    timestamp_us: i64,
    counts: BTreeMap<u64, u64>,
}

fn records(text: &str) -> Vec<Record> {
    let mut all = Vec::new();
    for part in text.split("<begin record>").skip(1) {
        let part = part.split("<end record>").next().unwrap();
        let mut record = Record::default();
        for line in part.lines() {
            let words: Vec<&str> = line.split([',', '|']).map(str::trim).collect();
            if words[0] == "timestamp" {
                record.timestamp_us = words[2].parse().unwrap();
            } else if let ([bucket, count], false) = (&words[..], line.contains("label")) {
                let numbers = (bucket.parse::<u64>(), count.trim_start_matches(['@', ' ']).parse::<u64>());
                if let (Ok(bucket), Ok(count)) = numbers {
                    *record.counts.entry(bucket).or_default() += count;
                }
            }
        }
        all.push(record);
    }
    all
}

#[test]
fn records_are_differences_of_the_counts_in_them() {
    for (name, unit_ns, middle) in [
        ("pylatencymap/oracle.txt.zst", 1_000_000, 1.5),
        ("pylatencymap/dtrace.txt.zst", 1, 1.5),
        ("pylatencymap/systemtap.txt.zst", 1_000, 1.5),
    ] {
        let text = String::from_utf8(unpacked(name)).unwrap();
        let records = records(&text);
        // A record that was cut with the file does not count.
        let whole = text.matches("<end record>").count();
        let (rows, context) = rows(name, text.as_bytes());
        assert_eq!(rows.len() + context.tally.get(Anomaly::CounterReset) as usize, whole - 1, "{name}");
        assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0, "{name}");
        let mut compared = 0;
        for pair in records[..whole].windows(2) {
            let start_ns = pair[0].timestamp_us * 1000;
            let Some(row) = rows.iter().find(|row| row.time_ns == start_ns) else { continue };
            assert_eq!(row.width_ns as i64, (pair[1].timestamp_us - pair[0].timestamp_us) * 1000);
            let count = |record: &Record, bucket: &u64| record.counts.get(bucket).copied().unwrap_or(0);
            let differences =
                pair[1].counts.keys().map(|bucket| (*bucket, count(&pair[1], bucket) - count(&pair[0], bucket)));
            let differences: Vec<_> = differences.filter(|&(_, count)| count > 0).collect();
            let counts: Vec<u64> = differences.iter().map(|&(_, count)| count).collect();
            assert_eq!(row.histogram.counts(), counts, "{name}");
            let sum: f64 = differences.iter().map(|&(bucket, count)| middle * (bucket * unit_ns * count) as f64).sum();
            assert!((row.histogram.totals().sum as f64 - sum).abs() <= sum * 1e-9 + 1.0, "{name}");
            compared += 1;
        }
        assert!(compared > 4 && compared == rows.len(), "{name}: {compared}");
    }
}

/// What PyLatencyMap itself makes of a source: three quarters of an upper edge, or one and a half of a lower one.
#[test]
fn the_source_decides_what_a_bucket_means() {
    let text = String::from_utf8(unpacked("pylatencymap/oracle.txt.zst")).unwrap();
    let named = text.replace("latencyunit, millisec", "latencyunit, millisec\ndatasource, oracle");
    let sum = |text: &str| rows("x", text.as_bytes()).0.iter().map(|row| row.histogram.totals().sum).sum::<u128>();
    let (lower, upper) = (sum(&text) as f64, sum(&named) as f64);
    // All but the lowest bucket, which starts at 0, are half as high.
    assert!((0.49..0.51).contains(&(upper / lower)), "{upper} {lower}");
    let summary = latscope_with(&["percentiles", "-r", "-", "-i", "1h", "--csv"], named.as_bytes()).success();
    assert_eq!(summary.lines().count(), 2, "{summary}");
}

#[test]
fn biolatency_prints_are_intervals_of_their_disks() {
    let text = String::from_utf8(unpacked("histogram_text/biolatency_DT.txt.zst")).unwrap();
    let (rows, context) = rows("biolatency", text.as_bytes());
    assert!(context.is_plain());
    let mut expected = Vec::new();
    for print in text.split(":").collect::<Vec<_>>().join(":").split("\n01:").skip(1) {
        for disk in print.split("disk = ").skip(1) {
            let name = disk.split_whitespace().next().unwrap().to_string();
            let counts = disk
                .lines()
                .filter(|line| line.contains("->"))
                .map(|line| line.split(':').nth(1).unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap());
            expected.push((name, counts.filter(|&count| count > 0).collect::<Vec<_>>()));
        }
    }
    let found: Vec<_> = rows.iter().map(|row| (row.groups[0].clone(), row.histogram.counts().to_vec())).collect();
    assert!(found.len() > 10);
    assert_eq!(found, expected);
    assert!(rows.iter().all(|row| row.width_ns % 1_000_000_000 == 0 && row.width_ns < 4_000_000_000));
}

#[test]
fn biolatency_of_this_machine() {
    if !is_root() || !installed("biolatency") || !installed("dd") {
        return;
    }
    let _alone = crate::live::alone();
    let folder = tempfile::tempdir_in(crate::program::root().join("target")).unwrap();
    let file = format!("of={}", folder.path().join("file").display());
    let mut tool = Command::new("timeout");
    let tool = tool.args(["-s", "INT", "10", "biolatency", "-T", "1", "3"]).stdout(std::process::Stdio::piped());
    let child = tool.stderr(std::process::Stdio::piped()).spawn().unwrap();
    for _ in 0..10 {
        end(Command::new("dd").args(["if=/dev/zero", "bs=64k", "count=20", "conv=fsync", &file]), b"");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let ended = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    if !text.contains("->") {
        skipped!(
            "biolatency does not run here: {}",
            String::from_utf8_lossy(&ended.stderr).lines().next().unwrap_or_default()
        );
        return;
    }
    let counts = text
        .lines()
        .filter_map(|line| line.split_once("->")?.1.split(':').nth(1)?.split_whitespace().next()?.parse::<u64>().ok());
    let (rows, context) = rows("biolatency", text.as_bytes());
    assert_eq!(rows.iter().map(|row| row.histogram.totals().count).sum::<u64>(), counts.sum::<u64>());
    assert_eq!((context.tally.iter().count(), context.clock.name.as_str()), (0, "time of day"), "{text}");
}

/// From events to records and back: no event moves to another octave.
#[test]
fn records_that_are_written_hold_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (trace, written, again) =
        (testdata("perf_script/story_2s.txt.gz"), path("x.pylatencymap"), path("y.pylatencymap"));
    latscope(&["convert", "-r", trace.to_str().unwrap(), "-w", &written, "-i", "500ms"]).success();
    let text = std::fs::read_to_string(&written).unwrap();
    // As strict as LatencyMap.py: fields of exactly two or four parts, buckets that are powers of two.
    for line in text.lines().filter(|line| !line.starts_with('<')) {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let is_bucket = words[0].parse::<u64>().is_ok_and(u64::is_power_of_two) && words[1].parse::<u64>().is_ok();
        let is_field = ["label", "latencyunit", "datasource"].contains(&words[0]);
        assert!(words.len() == 2 && (is_bucket || is_field) || words.len() == 4 && words[0] == "timestamp", "{line}");
    }
    let mut octaves = BTreeMap::<u64, u64>::new();
    let csv = latscope(&["events", "-r", trace.to_str().unwrap(), "--csv", "--columns", "latency_ns"]).success();
    for latency in csv.lines().skip(1).map(|line| line.parse::<u64>().unwrap()) {
        *octaves.entry(1 << latency.ilog2()).or_default() += 1;
    }
    let records = records(&text);
    assert!(records[0].counts.is_empty() && records.len() > 3, "{text}");
    assert_eq!(records[records.len() - 1].counts, octaves);
    latscope(&["convert", "-r", &written, "-w", &again, "-i", "500ms"]).success();
    let buckets = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(buckets(&std::fs::read_to_string(&again).unwrap()), buckets(&text));
    let refused = latscope(&["convert", "-f", "-r", &written, "-w", &again, "--by", "job"]).failure(2);
    assert!(refused.contains("Records of PyLatencyMap have no groups"), "{refused}");
}

#[test]
fn a_histogram_without_a_unit_asks_for_it() {
    let text = b"  value |------- count\n   64 |@@   3\n  512 |@    1\n\n";
    let refused = latscope_with(&["histogram", "-r", "-"], text).failure(3);
    assert!(
        refused.contains(":1: The histogram does not give its unit. Give --latency-unit (ns, us or ms"),
        "{refused}"
    );
    let shown = latscope_with(&["histogram", "-r", "-", "--latency-unit", "us"], text).success();
    assert!(shown.contains("1 histogram of unknown duration, assumed to cover one second"), "{shown}");
}

#[test]
fn texts_that_are_cut_yield_what_stands_before() {
    for name in
        ["pylatencymap/oracle.txt.zst", "pylatencymap/systemtap.txt.zst", "histogram_text/biolatency_DT.txt.zst"]
    {
        let text = unpacked(name);
        let (all, _) = rows(name, &text);
        for part in 3..10 {
            let (cut, context) = rows(name, &text[..text.len() * part / 10]);
            assert!(cut.len() + 8 >= all.len() * part / 10, "{name} {part}");
            // What was cut itself may lack rows.
            let whole = cut.len().saturating_sub(3);
            assert_eq!(cut[..whole], all[..whole], "{name} {part}");
            assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0, "{name} {part}");
        }
    }
}

/// `LatencyMap.py` multiplies counts with the middle of their bucket.
#[test]
fn time_waited_is_that_of_the_middles() {
    let text = String::from_utf8(unpacked("pylatencymap/systemtap.txt.zst")).unwrap();
    let whole = text.matches("<end record>").count();
    let records = records(&text);
    let count = |record: &Record, bucket: &u64| record.counts.get(bucket).copied().unwrap_or(0);
    let (first, last) = (&records[0], &records[whole - 1]);
    let waited =
        last.counts.keys().map(|bucket| 1.5 * (bucket * (count(last, bucket) - count(first, bucket))) as f64 * 1e-6);
    let waited: f64 = waited.sum();
    let file = testdata("pylatencymap/systemtap.txt.zst");
    let folder = tempfile::tempdir().unwrap();
    let json = latscope(&["summary", "-r", file.to_str().unwrap(), "--json"]);
    assert!(json.status == Some(0) || json.err.contains("histograms"), "{}", json.err);
    let maps = latscope(&["spectrogram", "-r", file.to_str().unwrap(), "--palette", "pylatencymap"]).success();
    assert!(maps.lines().count() > 24, "{maps}");
    let svg = folder.path().join("x.svg");
    latscope(&["heatmap", "-r", file.to_str().unwrap(), "--weight", "time", "-i", "1h", "-o", svg.to_str().unwrap()])
        .success();
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(waited > 1.0 && svg.contains("<svg"), "{waited}");
}

/// A format that was given in error is not all that is printed.
#[test]
fn a_wrong_format_is_answered_with_the_right_one() {
    for (name, given, looks_like) in [
        ("strace/f_tt_y.txt.zst", "snoop", "strace"),
        ("snoop/bcc.txt.zst", "strace", "snoop"),
        ("perf_trace/tar.txt.zst", "oracle_10046", "perf_trace"),
        ("pylatencymap/oracle.txt.zst", "perf_script", "pylatencymap"),
        ("perf_script/story_2s.txt.gz", "histogram_text", "perf_script"),
    ] {
        let file = testdata(name);
        let refused = latscope(&["histogram", "-r", file.to_str().unwrap(), "--format", given]).failure(3);
        assert!(refused.contains(&format!("The content looks like {looks_like}.")), "{given}: {refused}");
    }
}

/// Nothing completes before the first interval, and the lowest row lies right below the next, at three quarters of its edge.
#[test]
fn the_first_interval_and_the_lowest_row_are_where_they_belong() {
    let text = "     msecs               : count    distribution\n         0 -> 1          : 400      |****|\n         2 -> 3          : 20       |*|\n\n";
    let printed =
        latscope_with(&["percentiles", "-i", "1s", "--json", "-r", "-"], format!("{text}{text}").as_bytes()).success();
    let times =
        printed.lines().map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap()["time_ns"].as_i64().unwrap());
    assert_eq!(times.collect::<Vec<_>>(), [0, 1_000_000_000]);
    let (rows, _) = rows("test", text.as_bytes());
    let grid = rows[0].histogram.grid();
    let buckets: Vec<_> = rows[0].histogram.buckets().map(|(at, count, _)| (grid.lower(at), count)).collect();
    assert_eq!(buckets, [(1 << 20, 400), (1 << 21, 20)]);
    let totals = rows[0].histogram.totals();
    assert!(totals.min <= (totals.sum / u128::from(totals.count)) as u64 && totals.max < 4_000_000);
}
