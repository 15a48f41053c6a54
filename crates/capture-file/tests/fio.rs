//! Logs of fio against what a brute force over their text gives, and against fio itself.

#![allow(clippy::unwrap_used)]

use latscope_capture_file::{Error, Format, ReadOptions, format_of, read};
use latscope_event::{Anomaly, Clock, Context, Field, FieldSet};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn fixture(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(folder).join(name)
}

#[derive(Clone, PartialEq, Debug)]
struct Event {
    start_ns: i64,
    latency_ns: u64,
    kind: String,
    size: u64,
    offset: u64,
    job: String,
    host: Option<String>,
}

fn events(path: &Path) -> Result<(Vec<Event>, Context), Error> {
    let mut events = Vec::new();
    let context = read(path, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        for row in 0..batch.len() {
            let text = |field| batch.text(field, row).map(str::to_string);
            let number = |field| batch.u64s(field).unwrap()[row];
            events.push(Event {
                start_ns: batch.time()[row],
                latency_ns: batch.latency()[row],
                kind: text(Field::Kind).unwrap(),
                size: number(Field::Size),
                offset: number(Field::Offset),
                job: text(Field::Job).unwrap(),
                host: text(Field::Host),
            });
        }
        ControlFlow::Continue(())
    })?;
    Ok((events, context))
}

fn unpacked(path: &Path) -> String {
    String::from_utf8(zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()).unwrap()
}

/// Every I/O by its share in intervals of 500 ms, against what a Python program found.
#[test]
fn every_io_counts_where_it_was_in_flight() {
    for (names, expected, ns_per_unit) in [
        (vec!["A_clat.1.log.zst", "A_clat.2.log.zst", "A_clat.3.log.zst", "A_clat.4.log.zst"], "A", 1),
        (vec!["G_clat.1.log.zst", "G_clat.2.log.zst"], "G", 1000),
        (
            vec![
                "H_clat.1.log.127.0.0.2.zst",
                "H_clat.1.log.127.0.0.3.zst",
                "H_clat.2.log.127.0.0.2.zst",
                "H_clat.2.log.127.0.0.3.zst",
            ],
            "H",
            1,
        ),
    ] {
        let mut shares = BTreeMap::<i64, f64>::new();
        for name in names {
            let path = fixture("fio_log", name);
            assert_eq!(format_of(&path), Ok(Format::FioLog), "{name}");
            let (events, context) = events(&path).unwrap();
            assert!(context.notes().is_empty(), "{name}: {:?}", context.notes());
            let text = unpacked(&path);
            let lines: Vec<Vec<u64>> =
                text.lines().map(|line| line.split(", ").map(|text| text.parse().unwrap()).collect()).collect();
            assert_eq!(events.len(), lines.len());
            for (event, line) in events.iter().zip(&lines) {
                assert_eq!(event.start_ns + event.latency_ns as i64, line[0] as i64 * 1_000_000 + 500_000, "{name}");
                assert_eq!(event.latency_ns, line[1] * ns_per_unit, "{name}");
                assert_eq!((event.kind.as_str(), event.size), (["read", "write"][line[2] as usize], line[3]));
                split(event, &mut shares);
            }
        }
        let expected =
            std::fs::read_to_string(fixture("fio_log", &format!("{expected}.lat.500.weighted.csv"))).unwrap();
        assert_eq!(expected.lines().count(), shares.len());
        for (line, (interval, share)) in expected.lines().zip(shares) {
            let columns: Vec<f64> = line.split(", ").map(|text| text.parse().unwrap()).collect();
            assert_eq!(interval * 500, columns[0] as i64);
            assert!((share - columns[1]).abs() < 1e-6 * columns[1].max(1.0), "{interval}: {share} not {}", columns[1]);
        }
    }
}

/// The parts of an I/O that lie in each interval of 500 ms.
fn split(event: &Event, shares: &mut BTreeMap<i64, f64>) {
    const WIDTH: i64 = 500_000_000;
    let (start, end) = (event.start_ns.max(0), event.start_ns + event.latency_ns as i64);
    for interval in start.div_euclid(WIDTH)..=end.div_euclid(WIDTH) {
        let part = end.min((interval + 1) * WIDTH) - start.max(interval * WIDTH);
        *shares.entry(interval).or_default() += part as f64 / (end - start) as f64;
    }
    shares.retain(|_, share| *share > 0.0);
}

#[test]
fn hosts_jobs_offsets_and_the_clock() {
    let (of_host, context) = events(&fixture("fio_log", "H_clat.2.log.127.0.0.3.zst")).unwrap();
    assert_eq!((of_host[0].job.as_str(), of_host[0].host.as_deref()), ("H.2", Some("127.0.0.3")));
    assert_eq!((context.clock, context.host.as_deref()), (Clock::wall(), Some("127.0.0.3")));
    let (b, _) = events(&fixture("fio_log", "B_clat.1.log.zst")).unwrap();
    assert_eq!((b[0].offset, b[1].offset), (4_046_848, 49_676_288));
    let (slat, _) = events(&fixture("fio_log", "B_slat.1.log.zst")).unwrap();
    assert_eq!((slat[0].offset, slat[0].latency_ns), (4_046_848, 64_407));
}

/// What fio packed itself holds the rows that its `--inflate-log` prints.
#[test]
fn logs_that_fio_packed() {
    let path = fixture("fio_log", "z_clat.1.log.fz");
    let (packed, context) = events(&path).unwrap();
    assert_eq!((packed.len(), context.tally.iter().count()), (160, 0));
    assert_eq!((packed[0].latency_ns, packed[0].kind.as_str(), packed[0].size), (215_833, "read", 4096));
    let Ok(printed) = std::process::Command::new("fio").arg(format!("--inflate-log={}", path.display())).output()
    else {
        eprintln!("skipped: fio is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("z_clat.1.log");
    std::fs::write(&text, printed.stdout).unwrap();
    assert_eq!(events(&text).unwrap().0, packed);
    let error = events(&fixture("fio_log", "z_clat_hist.1.log.fz")).unwrap_err();
    assert!(error.message.contains("addresses instead of counts"), "{error}");
}

#[test]
fn ramps_unified_reports_and_cut_files() {
    for name in ["r_clat.1.log", "u_clat.1.log"] {
        let (all, context) = events(&fixture("fio_log", name)).unwrap();
        assert_eq!(all.len(), std::fs::read_to_string(fixture("fio_log", name)).unwrap().lines().count());
        assert!(context.notes().is_empty());
    }
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("z_clat.1.log.fz");
    let bytes = std::fs::read(fixture("fio_log", "z_clat.1.log.fz")).unwrap();
    std::fs::write(&cut, [&bytes[..], &bytes[..600]].concat()).unwrap();
    let (two, context) = events(&cut).unwrap();
    assert!(two.len() > 160 && context.tally.get(Anomaly::Truncated) == 1, "{}", two.len());
    assert_eq!((two[0].job.as_str(), two[160].job.as_str()), ("z.1", "z.1"));
}
