//! What fio prints with `--output-format=json+`.

use super::{events, fixture, rows, unpacked};
use latscope_capture_file::{Format, Position, format_of};
use latscope_event::{Anomaly, Clock};
use latscope_histogram::{Grid, Histogram};
use serde_json::Value;

/// The histograms of a whole job hold what its log of every I/O says.
#[test]
fn json_holds_every_io_of_the_run() {
    for (json, logs, unit_ns) in [
        ("A.json.zst", vec!["A_clat.1.log.zst", "A_clat.2.log.zst", "A_clat.3.log.zst", "A_clat.4.log.zst"], 1),
        (
            "H.json.zst",
            vec![
                "H_clat.1.log.127.0.0.2.zst",
                "H_clat.1.log.127.0.0.3.zst",
                "H_clat.2.log.127.0.0.2.zst",
                "H_clat.2.log.127.0.0.3.zst",
            ],
            1,
        ),
    ] {
        let path = fixture("fio_json", json);
        assert_eq!(format_of(&path), Ok(Format::FioJson));
        let (rows, context) = rows(&path).unwrap();
        assert_eq!((context.clock, context.properties["fio_version"].as_str()), (Clock::wall(), "fio-3.33"));
        for kind in ["read", "write"] {
            let mut ours = Histogram::new(Grid::FINE, false);
            rows.iter().filter(|row| row.groups[0] == kind).for_each(|row| ours.add(&row.histogram));
            let mut truth = Histogram::new(Grid::FINE, false);
            for log in &logs {
                let (events, _) = events(&fixture("fio_log", log)).unwrap();
                events
                    .iter()
                    .filter(|event| event.kind == kind)
                    .for_each(|event| truth.record(event.latency_ns * unit_ns, 0));
            }
            assert!(ours.buckets().eq(truth.buckets()), "{json} {kind}");
            let (ours, truth) = (ours.totals(), truth.totals());
            assert_eq!((ours.count, ours.min, ours.max), (truth.count, truth.min, truth.max));
            assert!((ours.mean().unwrap() - truth.mean().unwrap()).abs() < 0.5);
        }
        if json.starts_with('H') {
            let mut hosts: Vec<_> = rows.iter().map(|row| row.groups[2].as_str()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            assert_eq!(hosts, ["127.0.0.2", "127.0.0.3"]);
        }
    }
    let (old, _) = rows(&fixture("fio_json", "G_jsonplus.json.zst")).unwrap();
    assert_eq!((old.len(), old[0].histogram.totals().count, old[0].histogram.totals().max), (1, 201, 4_179_000));
    assert_eq!(old[0].time_ns + old[0].width_ns as i64, 1_795_225_450_180_000_000);
}

/// A run without clients does not name its host; the copy of its results does.
#[test]
fn the_name_of_the_file_gives_the_host_where_fio_does_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("clients/vm2")).unwrap();
    for (copy, json, host) in [
        ("json_output.0.vm1", "A.json.zst", "vm1"),
        ("clients/vm2/fio-result.txt", "A.json.zst", "vm2"),
        ("result.json", "A.json.zst", "-"),
        ("output.0.vm1", "H.json.zst", "127.0.0.2"),
    ] {
        let file = folder.path().join(copy);
        std::fs::write(&file, unpacked(&fixture("fio_json", json))).unwrap();
        let (rows, _) = rows(&file).unwrap();
        assert!(rows.iter().any(|row| row.groups[2] == host), "{copy}");
        assert_eq!(rows.iter().any(|row| row.groups[2] == "vm1"), host == "vm1", "{copy}");
    }
}

#[test]
fn json_with_a_banner_without_bins_or_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output.txt");
    let all = unpacked(&fixture("fio_json", "A.json.zst"));
    std::fs::write(&path, format!("a banner\nfio: a warning\n{all}\nfio text\n")).unwrap();
    let (rows_of_all, _) = rows(&path).unwrap();
    assert_eq!(rows_of_all, rows(&fixture("fio_json", "A.json.zst")).unwrap().0);
    std::fs::write(&path, all.replace("\"bins\"", "\"none\"")).unwrap();
    assert!(rows(&path).unwrap_err().message.contains("json+"));
    std::fs::write(&path, &all[..all.len() / 2]).unwrap();
    let error = rows(&path).unwrap_err();
    let last = all[..all.len() / 2].lines().count() as u64;
    assert_eq!((error.position, error.message.contains("damaged: EOF")), (Position::Line(last), true), "{error}");
    // Lines are those of the file, banner and all.
    std::fs::write(&path, "a banner\n\n{\n\"fio version\" : \"fio-3.33\",\n\"jobs\" : [nothing]}\n").unwrap();
    assert_eq!(rows(&path).unwrap_err().position, Position::Line(5));
    let bins = |bins: &str| {
        let job = format!(r#"{{"jobname": "x", "read": {{"clat_ns": {{"bins": {{{bins}}}}}}}}}"#);
        std::fs::write(&path, format!(r#"{{"fio version": "fio-3.33", "jobs": [{job}]}}"#)).unwrap();
        rows(&path)
    };
    assert_eq!(bins(r#""100": 3, "18446744073709551615": 1"#).unwrap().0[0].histogram.totals().count, 4);
    for (text, why) in [
        (r#""100": -1"#, "job x (read) is damaged: bin 100 has a count that is not a number"),
        (r#""-5": 1"#, "\"-5\" is not a bin"),
        (r#""100": 18446744073709551616"#, "not a number"),
        (r#""100": 18446744073709551615, "200": 1"#, "exceed 64 bits"),
    ] {
        let error = bins(text).unwrap_err();
        assert!(error.message.contains(why), "{error}");
    }
    std::fs::write(&path, r#"{"fio version": "fio-3.33", "jobs": [null]}"#).unwrap();
    assert!(rows(&path).unwrap_err().message.contains("an entry that is not an object"));
}

/// Reports of a run that goes on count from its start: the last one is the run, whether fio's text stands between them or all
/// directions are one. Of a run that was killed, the last one that is whole.
#[test]
fn the_last_report_of_a_run_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    for (name, kinds) in [("status_interval", &["read", "write"][..]), ("status_interval_mixed", &["mixed"])] {
        let all = unpacked(&fixture("fio_json", &format!("{name}.json.zst")));
        let starts: Vec<usize> = all.match_indices("{\n  \"fio version\"").map(|found| found.0).collect();
        assert_eq!(starts.len(), 4, "{name}: after each second, and at the end");
        let cut = (starts[3] + all.len()) / 2;
        for (text, at, earlier, truncated) in
            [(&all[..], 3, 3, 0), (&all[..cut], 2, 2, 1), (&all[..starts[1]], 0, 0, 0)]
        {
            std::fs::write(&path, text).unwrap();
            let (rows, context) = rows(&path).unwrap();
            let report: Value =
                serde_json::Deserializer::from_str(&all[starts[at]..]).into_iter().next().unwrap().unwrap();
            let found: Vec<_> = rows.iter().map(|row| row.groups[0].as_str()).collect();
            assert_eq!(found, kinds, "{name}");
            for row in &rows {
                let of = &report["jobs"][0][&row.groups[0]];
                assert_eq!(Some(row.histogram.totals().count), of["total_ios"].as_u64(), "{name} {at}");
                let counts = of["clat_ns"]["bins"].as_object().unwrap().values().filter_map(Value::as_u64);
                assert_eq!(row.histogram.counts().iter().sum::<u64>(), counts.sum::<u64>());
            }
            let counted =
                [Anomaly::EarlierReports, Anomaly::Truncated, Anomaly::WholeJobs].map(|of| context.tally.get(of));
            assert_eq!(counted, [earlier, truncated, rows.len() as u64], "{name}");
        }
    }
    // Where the sum stands beside the directions, nothing counts twice.
    let (both, _) = rows(&fixture("fio_json", "both.json.zst")).unwrap();
    let found: Vec<_> = both.iter().map(|row| (row.groups[0].as_str(), row.histogram.totals().count)).collect();
    assert_eq!((found.len(), found.iter().map(|&(_, count)| count).sum::<u64>()), (2, 1024), "{found:?}");
}

#[test]
fn json_without_histograms_says_what_lacks() {
    let folder = tempfile::tempdir().unwrap();
    for (name, why) in
        [("disable_clat", "not measured (disable_clat=1)"), ("clat_percentiles_0", "(clat_percentiles=0)")]
    {
        let error = rows(&fixture("fio_json", &format!("{name}.json.zst"))).unwrap_err();
        assert!(error.message.contains(why), "{name}: {error}");
    }
    let path = folder.path().join("plain.json");
    std::fs::write(&path, unpacked(&fixture("fio_json", "both.json.zst")).replace("\"bins\"", "\"none\"")).unwrap();
    let error = rows(&path).unwrap_err();
    assert!(error.message.contains("run fio with --output-format=json+"), "{error}");
}
