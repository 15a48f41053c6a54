//! Logs of fio against what a brute force over their text gives, and against fio itself.

#![allow(clippy::unwrap_used)]

#[macro_use]
#[path = "../../../../tests/skip.rs"]
mod skip;

mod beside;
mod json;
mod runs;
mod trees;

use latscope_capture_file::{
    Error, Format, Position, ReadOptions, Remedy, SeriesReader, SeriesRow, TwoColumns, format_of, read, read_bytes,
};
use latscope_event::{Anomaly, Clock, Context, Field, FieldSet, Note};
use latscope_histogram::Histogram;
use std::collections::BTreeMap;
use std::io::Write;
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
            assert!(context.is_plain(), "{name}: {context:?}");
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
        skipped!("fio is not installed");
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
        assert!(context.is_plain());
    }
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("z_clat.1.log.fz");
    let bytes = std::fs::read(fixture("fio_log", "z_clat.1.log.fz")).unwrap();
    std::fs::write(&cut, [&bytes[..], &bytes[..600]].concat()).unwrap();
    let (two, context) = events(&cut).unwrap();
    assert!(two.len() > 160 && context.tally.get(Anomaly::Truncated) == 1, "{}", two.len());
    assert_eq!((two[0].job.as_str(), two[160].job.as_str()), ("z.1", "z.1"));
}

fn rows(path: &Path) -> Result<(Vec<SeriesRow>, Context), Error> {
    rows_of(SeriesReader::open(path, &ReadOptions::new(FieldSet::ALWAYS))?)
}

fn rows_of(mut reader: SeriesReader) -> Result<(Vec<SeriesRow>, Context), Error> {
    assert!(reader.is_uneven() && reader.header().group_fields == ["kind", "job", "host"]);
    let rows = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((rows, reader.context().clone()))
}

/// Holds rows against the completions of one direction: each must have exactly those that come next, and the time of the
/// last of them. Returns how many are in no row, since fio writes none after the last.
fn check_rows(rows: &[SeriesRow], events: &[Event], kind: &str) -> u64 {
    let mut events = events.iter().filter(|event| event.kind == kind);
    let (mut before, mut seen) = (None, 0);
    for row in rows.iter().filter(|row| row.groups[0] == kind) {
        let end_ns = row.time_ns + row.width_ns as i64;
        assert!(before.is_none_or(|before| before == row.time_ns), "rows join");
        before = Some(end_ns);
        let mut truth = Histogram::new(row.histogram.grid(), false);
        let mut last_ns = end_ns;
        for event in events.by_ref().take(row.histogram.totals().count as usize) {
            truth.record(event.latency_ns, 0);
            last_ns = event.start_ns + event.latency_ns as i64;
        }
        assert!(
            (0..=20_000_000).contains(&(end_ns - last_ns)),
            "{kind} {end_ns}: the last completion was at {last_ns}"
        );
        let truth = truth.to_sparse();
        assert_eq!(row.histogram.indices(), truth.indices(), "{kind} {end_ns}");
        assert_eq!(row.histogram.counts(), truth.counts(), "{kind} {end_ns}");
        seen += 1;
    }
    assert!(seen > 3, "{kind}: there are rows");
    events.count() as u64
}

/// Each row holds exactly what the log of every I/O of the same run says that it must, also where fio's server summed up.
#[test]
fn rows_hold_what_the_log_of_every_io_says() {
    for (hist, clat, power, repaired) in [
        ("A_clat_hist.1.log.zst", "A_clat.1.log.zst", 6, false),
        ("A_clat_hist.2.log.zst", "A_clat.2.log.zst", 6, false),
        ("A_clat_hist.3.log.zst", "A_clat.3.log.zst", 6, false),
        ("A_clat_hist.4.log.zst", "A_clat.4.log.zst", 6, false),
        ("B_clat_hist.1.log.zst", "B_clat.1.log.zst", 3, false),
        ("H_clat_hist.1.log.127.0.0.2.zst", "H_clat.1.log.127.0.0.2.zst", 3, true),
        ("H_clat_hist.1.log.127.0.0.3.zst", "H_clat.1.log.127.0.0.3.zst", 3, true),
        ("H_clat_hist.2.log.127.0.0.2.zst", "H_clat.2.log.127.0.0.2.zst", 3, true),
        ("H_clat_hist.2.log.127.0.0.3.zst", "H_clat.2.log.127.0.0.3.zst", 3, true),
    ] {
        let path = fixture("fio_hist", hist);
        assert_eq!(format_of(&path), Ok(Format::FioHist), "{hist}");
        let (rows, context) = rows(&path).unwrap();
        let (events, _) = events(&fixture("fio_log", clat)).unwrap();
        assert_eq!(context.tally.get(Anomaly::SummedRows), if repaired { rows.len() as u64 - 4 } else { 0 }, "{hist}");
        for row in &rows {
            assert_eq!((&row.groups[1], row.groups[2] == "-"), (&events[0].job, events[0].host.is_none()));
            assert_eq!(row.histogram.grid().power(), power);
        }
        let left = check_rows(&rows, &events, "read") + check_rows(&rows, &events, "write");
        let lost = context.tally.get(Anomaly::MaybeLostTail);
        assert!(lost > 0 && lost < 6 * left.max(1), "{hist}: {left} are in no row, {lost} were estimated");
        assert_eq!(context.tally.get(Anomaly::LostTail), 0, "nothing beside the log shows it");
        // With fio's JSON beside it, as it lies there in a run.
        let folder = tempfile::tempdir().unwrap();
        let run = &hist[..1];
        std::fs::write(
            folder.path().join(format!("{run}.json")),
            unpacked(&fixture("fio_json", &format!("{run}.json.zst"))),
        )
        .unwrap();
        std::fs::write(folder.path().join(hist), std::fs::read(&path).unwrap()).unwrap();
        let (from_hist, context) = self::rows(&folder.path().join(hist)).unwrap();
        assert_eq!(context.tally.get(Anomaly::LostTail), left, "{hist}: the rest of what the JSON counts");
        assert_eq!(context.tally.get(Anomaly::MaybeLostTail), 0);
        assert_eq!(from_hist.len(), rows.len());
        let every_ms = if run == "A" { 100 } else { 250 };
        assert_eq!(context.properties["log_hist_msec"], format!("{every_ms}, from the JSON"), "{hist}");
        assert_eq!(
            from_hist[0].width_ns,
            (every_ms * 1_000_000).min((from_hist[0].time_ns + from_hist[0].width_ns as i64) as u64)
        );
    }
}

#[test]
fn bins_of_microseconds() {
    for (hist, clat) in [("G_clat_hist.1.log.zst", "G_clat.1.log.zst"), ("G_clat_hist.2.log.zst", "G_clat.2.log.zst")] {
        let (rows, _) = rows(&fixture("fio_hist", hist)).unwrap();
        let (events, _) = events(&fixture("fio_log", clat)).unwrap();
        for kind in ["read", "write"] {
            let mut events = events.iter().filter(|event| event.kind == kind);
            for row in rows.iter().filter(|row| row.groups[0] == kind) {
                let totals = row.histogram.totals();
                let of_row: Vec<u64> =
                    events.by_ref().take(totals.count as usize).map(|event| event.latency_ns).collect();
                let (min, max) = (of_row.iter().min().unwrap(), of_row.iter().max().unwrap());
                // A bin of fio 2 is 1 us wide or a 64th; what shares of it fall where is not known within it.
                let bin = |ns: u64| (ns / 64).max(1000);
                assert!(totals.min.abs_diff(*min) <= bin(*min) && totals.max.abs_diff(*max) <= bin(*max), "{totals:?}");
                let mean = of_row.iter().sum::<u64>() as f64 / of_row.len() as f64 + 500.0;
                assert!((totals.mean().unwrap() / mean - 1.0).abs() < 0.01);
            }
        }
    }
}

#[test]
fn rows_made_by_hand() {
    let (rows_a, context) = rows(&fixture("fio_hist", "ex_clat_hist.1.log.hostA.zst")).unwrap();
    let middles: Vec<i64> = rows_a.iter().map(|row| row.time_ns + row.width_ns as i64 / 2).collect();
    // 50.5, 152.5, 256, 381.5 ms, and half a millisecond; the first row is as wide as the others, but starts with the job.
    assert_eq!(middles, [50_750_000, 153_000_000, 256_500_000, 382_000_000]);
    assert_eq!((context.host.as_deref(), rows_a[0].groups[1].as_str()), (Some("hostA"), "ex.1"));
    assert!(rows_a.iter().all(|row| row.histogram.counts() == [10]));
    let (one, _) = rows(&fixture("fio_hist", "one_clat_hist.1.log.zst")).unwrap();
    assert_eq!((one.len(), one[0].histogram.totals().min), (1, 148_897_792));
    for name in ["u_clat_hist.1.log", "r_clat_hist.1.log"] {
        assert!(!rows(&fixture("fio_hist", name)).unwrap().0.is_empty());
    }
    let (none, context) = rows(&fixture("fio_hist", "n_clat_hist.1.log")).unwrap();
    assert_eq!((none.len(), context.tally.get(Anomaly::EmptyLog)), (0, 1));
}

#[test]
fn histogram_logs_that_cannot_be_used_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x_clat_hist.1.log");
    let line = |time: u64, bins: usize, counts: &[(usize, u64)]| {
        let mut row = vec![time, 0, 4096];
        row.resize(3 + bins, 0);
        counts.iter().for_each(|&(bin, count)| row[3 + bin] = count);
        row.iter().map(u64::to_string).collect::<Vec<_>>().join(", ") + "\n"
    };
    let read = |text: String| {
        std::fs::write(&path, text).unwrap();
        rows(&path)
    };
    for (text, why) in [
        (line(100, 1856, &[]) + &line(200, 1856, &[]), "All counts are zero"),
        (line(100, 1856, &[(700, 1), (900, 40)]) + &line(200, 1856, &[(700, 1)]), "786 us"),
        (line(100, 1856, &[(1800, 1 << 45)]), "impossible"),
    ] {
        assert!(read(text).unwrap_err().message.contains(why), "{why}");
    }
    // After a stall there are several rows of one moment.
    let burst = [100, 200, 3500, 3500, 3500, 3501].map(|time| line(time, 58, &[(time as usize / 100, 1)]));
    let (burst, _) = read(burst.concat()).unwrap();
    let widths: Vec<u64> = burst.iter().map(|row| row.width_ns / 1_000_000).collect();
    assert_eq!(widths, [100, 100, 3300, 0, 0, 1]);
    let hostile = line(100, 29, &[(3, 1)]) + "\n1, 2, 3\n" + &line(200, 29, &[(28, 7)]) + "9, -1";
    let error = read(hostile).unwrap_err();
    assert_eq!((error.position, error.message.contains("fewer columns")), (Position::Line(3), true));
    let options = ReadOptions { lenient: true, ..ReadOptions::new(FieldSet::ALWAYS) };
    let lenient = || rows_of(SeriesReader::open(&path, &options).unwrap());
    let (two, context) = lenient().unwrap();
    let tally = |anomaly| context.tally.get(anomaly);
    assert_eq!((two.len(), tally(Anomaly::UnparsedLines), tally(Anomaly::LastBin)), (2, 2, 7));
    let why = "fewer columns than the rows before".into();
    assert_eq!(context.notes, [Note::MalformedRow { line: 3, why }]);
    // Rows of a million columns, of counts that nobody counts, and a last one that is cut.
    let good = line(100, 29, &[(3, 1)]);
    let long = format!("200, 0, 4096{}\n", ", 0".repeat(1_000_000));
    for (row, why) in [
        (long.as_str(), "too many characters"),
        (&line(200, 29, &[(3, u64::MAX)]), "impossible"),
        (&line(200, 30, &[(3, 1)]), "more columns"),
        ("200, 0, 4096, \0\n", "not a number"),
    ] {
        // By its name it is a log, whatever its first line is.
        for (text, at) in [(good.clone() + row, 2), (row.to_string() + &good, 1)] {
            let error = read(text).unwrap_err();
            assert_eq!((error.position, error.message.contains(why)), (Position::Line(at), true), "{error}");
            let (one, context) = lenient().unwrap();
            assert_eq!((one.len(), context.tally.get(Anomaly::UnparsedLines)), (1, 1), "{why}");
        }
    }
    // Cut at every place of its last row, but for where that is only shorter by its end or a digit.
    let second = line(200, 29, &[(3, 10), (28, 7)]);
    for length in 1..second.len() - 1 {
        let (all, context) = read(good.clone() + &second[..length]).unwrap();
        assert_eq!((all.len(), context.tally.get(Anomaly::Truncated)), (1, 1), "{}", &second[..length]);
    }
    // Two jobs in one file.
    let jobs = read([100, 200, 90, 190].map(|time| line(time, 29, &[(5, 1)])).concat()).unwrap().0;
    assert_eq!(jobs.iter().map(|row| (row.groups[1].as_str(), row.width_ns / 1_000_000)).collect::<Vec<_>>().len(), 4);
}

/// One I/O of 150 ms in a row that ends at 200 ms: how long a row is, a file of a single row does not show.
#[test]
fn the_json_gives_the_length_of_the_first_row() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one_clat_hist.1.log");
    std::fs::write(&log, unpacked(&fixture("fio_hist", "one_clat_hist.1.log.zst"))).unwrap();
    let first = || rows(&log).map(|(rows, context)| (rows[0].time_ns, rows[0].width_ns, context)).unwrap();
    assert_eq!(first().1, 200_500_000, "a second, but for what would be before the start");
    let json = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "one", "job options": {"log_hist_msec": "100"},
        "read": {"total_ios": 1, "clat_ns": {"N": 1}}}]}"#;
    std::fs::write(folder.path().join("one.json"), json).unwrap();
    let (time_ns, width_ns, context) = first();
    assert_eq!((time_ns, width_ns, context.tally.iter().count()), (100_500_000, 100_000_000, 0));
    // What is about fewer I/Os than there are is of another run.
    std::fs::write(folder.path().join("one.json"), json.replace("\"N\": 1", "\"N\": 0")).unwrap();
    assert_eq!(first().2.tally.get(Anomaly::MaybeLostTail), 1);
}

/// Builds of fio with another number of groups: the log does not give its unit, the version beside it or the user does.
#[test]
fn logs_of_builds_with_more_groups() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat_hist.1.log");
    let put = |bins: usize, full: usize| {
        let counts: String = (0..bins).map(|bin| format!(", {}", 700 * u32::from(bin == full))).collect();
        std::fs::write(&log, format!("100, 0, 4096{counts}\n200, 0, 4096{counts}\n")).unwrap();
    };
    let with_unit = |latency_unit_ns| {
        let two_columns = TwoColumns { latency_unit_ns, ..TwoColumns::default() };
        let options = ReadOptions { two_columns, ..ReadOptions::new(FieldSet::ALWAYS) };
        rows_of(SeriesReader::open(&log, &options).unwrap()).map(|(rows, _)| rows)
    };
    for (bins, groups) in [(1280, 40), (1920, 30), (640, 40), (2560, 40)] {
        put(bins, 100);
        assert_eq!(format_of(&log), Ok(Format::FioHist), "by its name");
        let error = with_unit(None).unwrap_err();
        assert!(error.message.contains(&format!("{bins} counts, as from a fio built with {groups} groups")));
        assert_eq!(error.remedy, Remedy::LatencyUnit, "{error}");
    }
    put(1920, 130);
    for (unit, lower) in [(1, 132), (1000, 132_000)] {
        let totals = *with_unit(Some(unit)).unwrap()[0].histogram.totals();
        assert_eq!((totals.count, totals.min), (700, lower));
    }
    for (version, lower) in [("fio-2.21", 132_000), ("fio-2.99", 132), ("fio-3.33", 132)] {
        std::fs::write(folder.path().join("run.json"), format!(r#"{{"fio version": "{version}", "jobs": []}}"#))
            .unwrap();
        assert_eq!(with_unit(None).unwrap()[0].histogram.totals().min, lower, "{version}");
    }
    // The last bins of 40 groups.
    put(2560, 2559);
    assert_eq!(with_unit(None).unwrap()[0].histogram.totals().min, 127 << 38);
    // Any other text with as many columns is no row.
    let other = folder.path().join("table.csv");
    std::fs::copy(&log, &other).unwrap();
    assert_ne!(format_of(&other), Ok(Format::FioHist));
    put(1000, 5);
    assert!(format_of(&log).is_err());
}

/// Many counts just below 786 us and none above: so it is with a fast device, too. The JSON gives which it was.
#[test]
fn the_version_of_fio_decides_whether_the_upper_half_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run_clat_hist.1.log.vm1");
    let row = |time: u64, bins: usize, counts: &[(usize, u64)]| {
        let count = |bin| counts.iter().find(|(at, _)| *at == bin).map_or(0, |&(_, count)| count);
        let counts: String = (0..bins).map(|bin| format!(", {}", count(bin))).collect();
        format!("{time}, 0, 4096{counts}\n")
    };
    let json = |name: &str, version: &str| {
        let text = format!("a banner\n{{\n  \"fio version\" : \"{version}\",\n  \"jobs\" : []\n}}\n");
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    let message = || rows(&log).map(|(rows, _)| rows.len()).map_err(|error| error.message);
    let fast = row(100, 1856, &[(700, 1), (900, 40)]) + &row(200, 1856, &[(700, 1)]);
    let slow = row(100, 1856, &[(700, 1), (1000, 40)]);
    std::fs::write(&log, &fast).unwrap();
    assert!(message().unwrap_err().contains("No latency is above 786 us"));
    for (version, reads) in [
        ("fio-3.5", true),
        ("fio-3.6", false),
        ("fio-3.16-31-g8c302eb9", false),
        ("fio-3.17", true),
        ("fio-3.33", true),
        ("fio-4.0-dirty", true),
    ] {
        json("run.json", version);
        for text in [&fast, &slow] {
            std::fs::write(&log, text).unwrap();
            match message() {
                Ok(count) => assert!(reads && count > 0, "{version}"),
                Err(why) => assert!(!reads && why.contains("According to the JSON next to it"), "{version}: {why}"),
            }
        }
    }
    // Without a version, a run that never takes longer is worth a note, unless it is far faster than that.
    std::fs::remove_file(folder.path().join("run.json")).unwrap();
    for (bins, counts, noted) in [
        (1856, &[(600, 399), (740, 1)][..], true),
        (1856, &[(600, 399), (735, 1)], false),
        (1856, &[(600, 2999), (740, 1)], false),
        (1856, &[(600, 90), (740, 10)], false),
        (1856, &[(600, 399), (740, 1), (928, 1)], false),
        (464, &[(150, 399), (185, 1)], true),
        (464, &[(150, 399), (185, 1), (232, 1)], false),
        (1216, &[(300, 399), (310, 1)], false),
    ] {
        std::fs::write(&log, row(100, bins, counts)).unwrap();
        assert_eq!(rows(&log).unwrap().1.tally.get(Anomaly::NoUpperHalf), u64::from(noted), "{counts:?}");
    }
    std::fs::write(&log, row(100, 1856, &[(600, 399), (740, 1)])).unwrap();
    json("run.json", "fio-3.33");
    assert_eq!(rows(&log).unwrap().1.tally.get(Anomaly::NoUpperHalf), 0, "the version decides");
    std::fs::write(&log, &slow).unwrap();
    // Two runs in a folder that contradict each other give nothing of this one; what is called like it does.
    json("other.json", "fio-3.10");
    assert_eq!(message(), Ok(1), "nothing shows in this log");
    std::fs::write(&log, &fast).unwrap();
    assert!(message().unwrap_err().contains("No latency is above 786 us"));
    json("json_run.vm1", "fio-3.33");
    assert_eq!(message(), Ok(2));
    json("json_run.vm1", "fio-3.10");
    assert!(message().unwrap_err().contains("fio 3.10 wrote this log"));
    // Rows of microseconds are of a fio before all that, whatever lies beside them.
    std::fs::write(&log, row(100, 1216, &[(300, 40)])).unwrap();
    assert_eq!(message(), Ok(1));
}

/// Packed as gzip or zstd, by the end of the name.
fn packed(name: &str, text: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    match name.rsplit('.').next().unwrap() {
        "gz" => gzip.write_all(text).and_then(|()| gzip.finish()).unwrap(),
        "zst" => zstd::encode_all(text, 1).unwrap(),
        _ => text.to_vec(),
    }
}

/// A synchronous engine leaves an empty slat log, and a job without such I/O empty logs of all kinds.
#[test]
fn an_empty_log_is_what_its_name_says() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, format) in
        [("clat", Format::FioLog), ("lat", Format::FioLog), ("slat", Format::FioLog), ("clat_hist", Format::FioHist)]
    {
        for end in ["log", "log.gz", "log.zst", "log.vm1", "log.vm1.gz"] {
            let path = folder.path().join(format!("A_{kind}.1.{end}"));
            std::fs::write(&path, packed(end, b"")).unwrap();
            assert_eq!(format_of(&path), Ok(format), "{}", path.display());
            let context = match format {
                Format::FioLog => events(&path).unwrap().1,
                _ => rows(&path).unwrap().1,
            };
            assert_eq!((context.tally.get(Anomaly::EmptyLog), context.tally.iter().count()), (1, 1));
        }
    }
}

/// What is cut is no empty log, and what of a log can be read is read.
#[test]
fn compressed_logs_that_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, from) in [("clat", "fio_log"), ("clat_hist", "fio_hist")] {
        let text = unpacked(&fixture(from, &format!("A_{kind}.1.log.zst")));
        for end in ["gz", "zst"] {
            let path = folder.path().join(format!("A_{kind}.1.log.{end}"));
            // In many frames, as a log that grows is packed.
            let half = text.len() / 2;
            let whole = [packed(end, &text.as_bytes()[..half]), packed(end, &text.as_bytes()[half..])].concat();
            let read = |bytes: &[u8]| {
                std::fs::write(&path, bytes).unwrap();
                match kind {
                    "clat" => events(&path).map(|(events, context)| (events.len(), context)),
                    _ => rows(&path).map(|(rows, context)| (rows.len(), context)),
                }
            };
            let (all, context) = read(&whole).unwrap();
            assert_eq!(context.tally.get(Anomaly::Truncated), 0);
            let (some, context) = read(&whole[..whole.len() * 3 / 4]).unwrap();
            assert!(some >= all / 3 && some < all, "{some} of {all}");
            assert_eq!(context.tally.get(Anomaly::Truncated), 1, "{kind} {end}");
            let error = read(&whole[..20]).unwrap_err();
            assert!(error.message.contains("truncated and nothing can be read"), "{error}");
        }
    }
}

#[test]
fn response_times_of_smallfile() {
    let path = fixture("smallfile", "rsptimes_00_vm_create_1795225091.1155882.csv.zst");
    assert_eq!(format_of(&path), Ok(Format::Smallfile));
    let mut first = None;
    let mut count = 0;
    let context = read(&path, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        let text = |field| batch.text(field, 0).unwrap().to_string();
        let texts = [Field::Kind, Field::Name, Field::Host, Field::Job].map(text);
        first.get_or_insert((batch.time()[0], batch.latency()[0], texts));
        count += batch.len();
        ControlFlow::Continue(())
    });
    let expected = ["write", "create", "vm", "00"].map(str::to_string);
    assert_eq!(first, Some((1_795_225_091_115_588_200 + 47_000, 146_000, expected)));
    assert_eq!((count, context.unwrap().clock), (unpacked(&path).lines().count(), Clock::wall()));
    let strange = b"create, 0.1, 0.2\nwhat is this\ncreate, 0.2, 0.2\ncreate, 0.";
    let read = |lenient| {
        let mut count = 0;
        let options = ReadOptions { lenient, format: Some(Format::Smallfile), ..ReadOptions::new(FieldSet::EVERY) };
        let context = read_bytes("x", strange, &options, &mut |_, batch| {
            count += batch.len();
            ControlFlow::Continue(())
        });
        context.map(|context| (count, context))
    };
    assert_eq!(read(false).unwrap_err().position, Position::Line(2));
    let (count, context) = read(true).unwrap();
    let tally = |anomaly| context.tally.get(anomaly);
    assert_eq!((count, tally(Anomaly::UnparsedLines), tally(Anomaly::Truncated)), (2, 1, 1));
}

/// Rows that none may trip over: each ends the reading at its line, or is skipped and counted.
#[test]
fn hostile_rows_of_smallfile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rsptimes_00_vm_create_1795225091.1155882.csv");
    let good = "  create,  0.000047,  0.000146\n";
    let many = format!("create{}\n", ", 1".repeat(1_000_000));
    for row in [
        "create, 18446744073709551615, 1\n",
        "create, 0.1, 18446744073709551615\n",
        "create, -0.1, 0.2\n",
        "create, 0.1, nan\n",
        "create, 0.1\0, 0.2\n",
        &many,
    ] {
        for (text, line) in [(format!("{good}{row}{good}"), 2), (format!("{row}{good}{good}"), 1)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(format_of(&path), Ok(Format::Smallfile), "{}", &row[..row.len().min(40)]);
            let read = |lenient| {
                let mut count = 0;
                let options = ReadOptions { lenient, ..ReadOptions::new(FieldSet::EVERY) };
                let context = read(&path, &options, &mut |_, batch| {
                    count += batch.len();
                    ControlFlow::Continue(())
                });
                context.map(|context| (count, context.tally.get(Anomaly::UnparsedLines)))
            };
            assert_eq!(read(false).unwrap_err().position, Position::Line(line));
            assert_eq!(read(true), Ok((2, 1)));
        }
    }
}

#[test]
fn a_folder_of_results_counts_each_io_once() {
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("results/00000000/id-1234abcd");
    std::fs::create_dir_all(&folder).unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let names = |tree: &latscope_capture_file::Tree| -> Vec<String> {
        tree.files.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_string()).collect()
    };
    let row = "5, 409153, 0, 4096, 0\n";
    put("notes.txt", "nothing");
    let error = latscope_capture_file::tree(top.path()).unwrap_err();
    assert!(error.message.contains("no traces"), "{error}");
    put("output.0.vm1", &unpacked(&fixture("fio_json", "A.json.zst")));
    let json = latscope_capture_file::tree(top.path()).unwrap().unwrap();
    assert_eq!((names(&json), json.left_out), (vec!["output.0.vm1".to_string()], None));
    for kind in ["clat", "lat", "slat", "bw", "iops"] {
        put(&format!("output.0_{kind}.1.log.vm1"), row);
        put(&format!("output.0_{kind}.1.log.vm2"), row);
    }
    put("output.1_clat.1.log.vm1", "");
    put("output.2_clat.1.log.vm1", "500, 9000, 0, 0, 0\n");
    put("output.0_clat_hist.1.log.vm1", "100, 0, 4096, 1\n");
    let tree = latscope_capture_file::tree(top.path()).unwrap().unwrap();
    assert_eq!(names(&tree), ["output.0_clat.1.log.vm1", "output.0_clat.1.log.vm2"]);
    let message = tree.left_out.unwrap();
    for part in ["2 logs of completion latency", "2 logs of total", "1 histogram log", "1 JSON", "1 log of averages"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(latscope_capture_file::tree(&folder.join("notes.txt")), Ok(None));
}
