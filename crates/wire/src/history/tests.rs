//! Compaction that is stopped after every step, against sums that are computed from the values themselves.

use super::files::{Files, date};
use super::*;
use crate::messages::Goodbye;
use crate::{Data, Dictionary, Head, Hello, Id, IntervalRow, PREFACE, Parts, Record};
use latscope_event::Anomaly;
use latscope_histogram::{Grid, Histogram, Totals};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
/// Some seconds before midnight.
const START: i64 = 20_780 * files::DAY_NS - 30 * SECOND;
const LEVELS: &[Level] = &[level(1, 2), level(10, 14), level(60, 400)];
const FIELDS: [&str; 2] = ["device", "kind"];

const fn level(seconds: u64, days: u64) -> Level {
    Level { width_ns: seconds * SECOND as u64, keep_ns: days * files::DAY_NS as u64 }
}

/// Tables as lines of JSON.
struct Lines;

impl Tables for Lines {
    fn write(&self, path: &Path, head: &TableHead, rows: TableRows<'_>) -> io::Result<()> {
        let lost = head.tally.get(Anomaly::LostRecords);
        let [observed, ended] = [&head.observed, &head.ended]
            .map(|ranges| ranges.iter().map(|range| (*range.start(), *range.end())).collect::<Vec<(u64, u64)>>());
        let first = serde_json::json!([head.host, head.fields, head.source, lost, observed, ended]);
        let mut text = format!("{first}\n");
        for row in rows {
            let TableRow { time_ns, labels, done, waiting } = row?;
            let totals = done.totals();
            let line = serde_json::json!([
                time_ns,
                labels.to_vec(),
                done.grid().power(),
                done.indices(),
                done.counts(),
                totals.sum as u64,
                totals.min,
                totals.max,
                totals.bytes,
                waiting.map(|ages| (ages.indices().to_vec(), ages.counts().to_vec(), ages.totals().max)),
            ]);
            text += &format!("{line}\n");
        }
        std::fs::write(path, text)
    }

    fn open(&self, path: &Path) -> io::Result<(TableHead, TableRows<'static>)> {
        type Line = (i64, Vec<String>, u8, Vec<u32>, Vec<u64>, u64, u64, u64, Option<u64>, Option<Ages>);
        type Ages = (Vec<u32>, Vec<u64>, u64);
        let text = std::fs::read_to_string(path)?;
        let (first, rest) = text.split_once('\n').unwrap();
        type First = (String, Vec<String>, String, u64, Vec<(u64, u64)>, Vec<(u64, u64)>);
        let (host, fields, source, lost, observed, ended): First = serde_json::from_str(first).unwrap();
        let [observed, ended] =
            [observed, ended].map(|ranges| ranges.into_iter().map(|(start, end)| start..=end).collect());
        let mut head = TableHead { host, fields, source, observed, ended, ..TableHead::default() };
        head.tally.add(Anomaly::LostRecords, lost);
        let row = |line: &str| {
            let (time_ns, labels, power, indices, counts, sum, min, max, bytes, waiting): Line =
                serde_json::from_str(line).unwrap();
            let totals = Totals { count: counts.iter().sum(), sum: sum.into(), min, max, bytes };
            let done = Sparse::from_parts(Grid::with_power(power).unwrap(), indices, counts, None, totals).unwrap();
            let waiting = waiting.map(|(indices, counts, max)| {
                let totals = Totals { count: counts.iter().sum(), sum: 0, min: 0, max, bytes: None };
                Sparse::from_parts(Grid::FINE, indices, counts, None, totals).unwrap()
            });
            Ok(TableRow { time_ns, labels: labels.into(), done, waiting })
        };
        let rows: Vec<io::Result<TableRow>> = rest.lines().map(row).collect();
        Ok((head, Box::new(rows.into_iter())))
    }
}

/// By start of the interval, host and device: the values themselves.
type Truth = BTreeMap<(i64, String, String), Vec<u64>>;
/// What a bucket and the totals make of values, by the same.
type Sums = BTreeMap<(i64, String, String), Sparse>;

fn folded(values: &[u64]) -> Sparse {
    let mut histogram = Histogram::new(Grid::FINE, false);
    values.iter().for_each(|&value| histogram.record(value, 0));
    let mut folded = histogram.to_sparse();
    folded.set_bytes(Some(values.len() as u64 * 4096));
    folded
}

/// The sums of values in intervals of this width.
fn sums(truth: &Truth, width_ns: i64) -> Sums {
    let mut wide = Truth::new();
    for ((time_ns, host, device), values) in truth {
        let start_ns = time_ns - time_ns.rem_euclid(width_ns);
        wide.entry((start_ns, host.clone(), device.clone())).or_default().extend(values);
    }
    wide.into_iter().map(|(key, values)| (key, folded(&values))).collect()
}

fn query(seconds: i64) -> Query {
    Query { width_ns: Some((seconds * SECOND) as u64), ..Query::default() }
}

/// What a folder has.
fn found(folder: &Path, query: Query) -> (Sums, u64) {
    let mut rows = HistoryRows::open(folder, Arc::new(Lines), query, (i64::MAX, None)).unwrap();
    let (width_ns, mut sums) = (rows.width_ns(), Sums::new());
    assert_eq!(rows.fields(), FIELDS);
    for row in rows.by_ref() {
        let row = row.unwrap();
        assert_eq!(row.time_ns.rem_euclid(width_ns as i64), 0);
        let key = (row.time_ns, row.host.to_string(), row.labels[0].clone());
        match sums.get_mut(&key) {
            Some(sum) => Sparse::merge(sum, &row.done),
            None => drop(sums.insert(key, row.done)),
        }
    }
    assert_eq!(rows.tally.get(Anomaly::LostRecords), 3, "lost records count once at every width");
    (sums, width_ns)
}

/// The records of an interval of a host: one value for each of its devices.
fn interval(hello: &Hello, sequence: u64, time_ns: i64, truth: &mut Truth) -> Vec<Record> {
    let devices = ["sda", "sdb", "nvme0n1"];
    let mut groups = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        let values: Vec<u64> =
            (0..4).map(|at| (sequence + 1) * (at + 3) * 9973 * (number as u64 + 1) % 40_000_000).collect();
        groups.push((number as u32, Parts { done: Some(folded(&values)), waiting: None }));
        truth.entry((time_ns, hello.host.clone(), device.to_string())).or_default().extend(values);
    }
    let head = Head {
        run: hello.run,
        sequences: sequence..=sequence,
        start: time_ns / SECOND,
        width_ns: SECOND as u64,
        intervals: 1,
    };
    let mut row = IntervalRow { covered_ns: SECOND as u64, groups, ..IntervalRow::default() };
    row.tally.add(Anomaly::LostRecords, u64::from(sequence == 7));
    let labels: Vec<Vec<String>> = devices.iter().map(|device| vec![device.to_string(), "read".into()]).collect();
    vec![hello.record(), Dictionary::record(hello.run, 0, &labels), Data { head, rows: vec![row] }.record()]
}

/// Three files of a journal, over midnight: three hosts, one with late intervals, and records that are in two files.
fn journal(folder: &Path) -> Truth {
    let mut truth = Truth::new();
    let hellos: Vec<Hello> = (1..=3)
        .map(|number| Hello {
            run: Id([number; 16]),
            host: format!("n{number}"),
            source: "test".into(),
            filter: String::new(),
            width_ns: SECOND as u64,
            fields: FIELDS.map(str::to_string).to_vec(),
            is_wall: true,
        })
        .collect();
    let mut again = Vec::new();
    for part in 0..3i64 {
        let mut bytes = PREFACE.to_vec();
        bytes.extend(std::mem::take(&mut again).into_iter().flat_map(|record: Record| record.bytes().to_vec()));
        for hello in &hellos {
            for second in part * 20..part * 20 + 20 {
                // The second host sends what is old.
                let late_ns = if hello.host == "n2" { 3600 * SECOND } else { 0 };
                let records = interval(hello, second as u64, START + second * SECOND - late_ns, &mut truth);
                records.iter().for_each(|record| bytes.extend_from_slice(record.bytes()));
                if second % 20 == 19 {
                    again.extend(records);
                }
            }
        }
        let stamp = (START + part * 20 * SECOND) / 1_000_000;
        std::fs::write(folder.join(format!("{stamp:015}.frames")), bytes).unwrap();
    }
    truth
}

fn compactor(folder: &Path) -> Compactor {
    Compactor {
        folder: folder.into(),
        tables: Arc::new(Lines),
        levels: LEVELS.to_vec(),
        recent_ns: HOUR as u64,
        lock: Mutex::default(),
        free: |_| None,
        removed: AtomicU64::new(0),
    }
}

/// How many tables there are of a host and width at most.
fn most_tables(folder: &Path) -> usize {
    let mut counts = BTreeMap::new();
    for table in Files::list(folder, files::ALL_DAYS).unwrap().tables {
        *counts.entry((table.day, table.host, table.width_ns)).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Files of a journal of one host, a minute each, with one interval in each of its seconds that is divisible by ten.
fn long_journal(folder: &Path, files: i64) -> Truth {
    let (mut truth, start) = (Truth::new(), 20_780 * files::DAY_NS);
    let (run, fields) = (Id([9; 16]), FIELDS.map(str::to_string).to_vec());
    let (source, filter, width_ns) = ("test".to_string(), String::new(), SECOND as u64);
    let hello = Hello { run, host: "n1".into(), source, filter, width_ns, fields, is_wall: true };
    for file in 0..files {
        let mut bytes = PREFACE.to_vec();
        for at in 0..6 {
            let time_ns = start + (file * 60 + at * 10) * SECOND;
            let records = interval(&hello, (file * 6 + at) as u64, time_ns, &mut truth);
            records.iter().for_each(|record| bytes.extend_from_slice(record.bytes()));
        }
        std::fs::write(folder.join(format!("{:015}.frames", (start + file * 60 * SECOND) / 1_000_000)), bytes).unwrap();
    }
    truth
}

#[test]
fn tables_of_a_day_are_bounded_wherever_joining_stops() {
    let (mut stops, mut is_whole) = (0, false);
    let now_ns = 20_780 * files::DAY_NS + 4 * HOUR;
    while !is_whole {
        let folder = tempfile::tempdir().unwrap();
        let truth = long_journal(folder.path(), 30);
        let left = Cell::new(stops);
        let stop = || match left.replace(left.get() - 1) {
            0 => Err(io::Error::other("stop")),
            _ => Ok(()),
        };
        is_whole = true;
        loop {
            match compactor(folder.path()).turn(now_ns, &stop) {
                Ok(true) => assert!(most_tables(folder.path()) <= 2 + 12, "{stops}"),
                Ok(false) => break,
                Err(_) => {
                    is_whole = false;
                    same(folder.path(), &truth, stops);
                    left.set(i32::MAX);
                }
            }
        }
        same(folder.path(), &truth, stops);
        // 29 files: twice twelve, and five.
        assert_eq!(most_tables(folder.path()), 2 + 5, "{stops}");
        stops += 29;
    }
    assert!(stops > 150, "{stops} steps");
}

fn same(folder: &Path, truth: &Truth, stops: i32) {
    let rows = HistoryRows::open(folder, Arc::new(Lines), query(1), (i64::MAX, None)).unwrap();
    let mut found = Sums::new();
    for row in rows.map(Result::unwrap) {
        let key = (row.time_ns, row.host.to_string(), row.labels[0].clone());
        assert!(found.insert(key, row.done).is_none(), "{stops}");
    }
    assert!(found == sums(truth, SECOND), "{stops}");
}

#[test]
fn the_finest_tables_go_when_the_disk_is_nearly_full() {
    /// Full while there are tables of seconds of the first day.
    fn free(folder: &Path) -> Option<f64> {
        let tables = Files::list(folder, files::ALL_DAYS).unwrap().tables;
        let is_full = tables.iter().any(|table| table.day == 20_779 && table.width_ns == SECOND as u64);
        Some(if is_full { 0.049 } else { 0.05 })
    }
    let folder = tempfile::tempdir().unwrap();
    let truth = journal(folder.path());
    let nearly_full = Compactor { free, ..compactor(folder.path()) };
    while nearly_full.turn(START + 3 * HOUR, &|| Ok(())).unwrap() {}
    assert!(nearly_full.removed.load(Ordering::Relaxed) >= 3);
    let widths = |day: i64| -> Vec<u64> {
        let tables = Files::list(folder.path(), files::ALL_DAYS).unwrap().tables.into_iter();
        let mut widths: Vec<u64> =
            tables.filter(|table| table.day == day).map(|table| table.width_ns / SECOND as u64).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    };
    assert_eq!((widths(20_779), widths(20_780)), (vec![10, 60], vec![1, 10, 60]));
    // Nothing is lost: it is there in wider intervals.
    let (sums_found, width_ns) = found(folder.path(), query(10));
    assert!(width_ns as i64 == 10 * SECOND && sums_found == sums(&truth, 10 * SECOND));
    // Where that is not enough, the widest stay, and the journal.
    let full = Compactor { free: |_| Some(0.0), ..compactor(folder.path()) };
    full.turn(START + 3 * HOUR, &|| Ok(())).unwrap();
    assert_eq!((widths(20_779), widths(20_780)), (vec![60], vec![60]));
    assert_eq!(Files::list(folder.path(), files::ALL_DAYS).unwrap().segments.len(), 1);
    let (sums_found, width_ns) = found(folder.path(), query(60));
    assert!(width_ns as i64 == 60 * SECOND && sums_found == sums(&truth, 60 * SECOND));
}

fn check(folder: &Path, truth: &Truth, why: &str) {
    for seconds in [1, 10, 60] {
        let (sums_found, width_ns) = found(folder, query(seconds));
        assert!(width_ns as i64 == seconds * SECOND || why != "at the end", "{why}: {seconds}s");
        assert!(sums_found == sums(truth, width_ns as i64), "{why}, {seconds}s");
    }
}

#[test]
fn nothing_is_lost_or_counts_twice_wherever_compaction_stops() {
    let never = || Ok(());
    // Once the journal is old enough, and once the days are over.
    let times = [START + 3 * HOUR, START + 40 * HOUR];
    let (mut stops, mut is_whole) = (0, false);
    while !is_whole {
        let folder = tempfile::tempdir().unwrap();
        let truth = journal(folder.path());
        let left = Cell::new(stops);
        let stop = || match left.replace(left.get() - 1) {
            0 => Err(io::Error::other("stop")),
            _ => Ok(()),
        };
        is_whole = true;
        for now_ns in times {
            loop {
                match compactor(folder.path()).turn(now_ns, &stop) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        assert_eq!(error.to_string(), "stop");
                        is_whole = false;
                        check(folder.path(), &truth, &format!("stopped after {stops}"));
                        left.set(i32::MAX);
                    }
                }
            }
        }
        check(folder.path(), &truth, "at the end");
        while compactor(folder.path()).turn(times[1], &never).unwrap() {}
        let files = Files::list(folder.path(), files::ALL_DAYS).unwrap();
        assert!(files.stale.is_empty(), "{:?}", files.stale);
        assert_eq!(files.segments.len(), 1, "the last file of the journal may be open");
        // Two days, of which the second host has one, at three widths.
        assert_eq!(files.tables.len(), 5 * 3, "{:?}", files.tables);
        stops += 1;
    }
    assert!(stops > 30, "{stops} steps");
}

#[test]
fn records_of_compacted_files_are_known() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path());
    while compactor(folder.path()).turn(START + 3 * HOUR, &|| Ok(())).unwrap() {}
    let known = Known::load(folder.path()).unwrap();
    let ranges = known.ranges();
    assert_eq!(ranges.len(), 3);
    assert!(ranges.values().all(|ranges| ranges.has_all(&(0..=39)) && !ranges.has_any(&(40..=99))));
    let mut described = 0;
    known.each_run(|descriptions, _, _| described += descriptions.len());
    assert_eq!(described, 6);
    // What is newer than what memory holds stays.
    let young = tempfile::tempdir().unwrap();
    journal(young.path());
    assert!(!compactor(young.path()).turn(START + HOUR / 2, &|| Ok(())).unwrap());
    assert_eq!(Files::list(young.path(), files::ALL_DAYS).unwrap().segments.len(), 3);
}

#[test]
fn old_tables_go_by_their_width() {
    let folder = tempfile::tempdir().unwrap();
    let truth = journal(folder.path());
    let widths = |now_ns| {
        while compactor(folder.path()).turn(now_ns, &|| Ok(())).unwrap() {}
        let files = Files::list(folder.path(), files::ALL_DAYS).unwrap();
        let mut widths: Vec<u64> = files.tables.iter().map(|table| table.width_ns / SECOND as u64).collect();
        widths.sort_unstable();
        widths.dedup();
        widths
    };
    assert_eq!(widths(START + 3 * HOUR), [1, 10, 60]);
    assert_eq!(widths(START + 4 * 24 * HOUR), [10, 60]);
    // What is gone is answered with the finest that is left.
    let (found_sums, width_ns) = found(folder.path(), query(1));
    assert!(width_ns as i64 == 10 * SECOND && found_sums == sums(&truth, 10 * SECOND));
    assert_eq!(widths(START + 20 * 24 * HOUR), [60]);
    assert_eq!(widths(START + 500 * 24 * HOUR), Vec::<u64>::new());
    assert!(std::fs::read_dir(folder.path()).unwrap().flatten().all(|entry| !entry.path().is_dir()));
}

#[test]
fn a_stretch_of_time_has_its_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let truth = journal(folder.path());
    let midnight = START + 30 * SECOND;
    let ask = |seconds| Query { from_ns: midnight, to_ns: midnight + 20 * SECOND - 1, ..query(seconds) };
    let tally_free = |query| {
        let rows = HistoryRows::open(folder.path(), Arc::new(Lines), query, (i64::MAX, None)).unwrap();
        let (width_ns, rows) = (rows.width_ns() as i64, rows.map(Result::unwrap));
        let count: u64 = rows.map(|row| row.done.totals().count).sum();
        (width_ns / SECOND, count)
    };
    let within = truth.iter().filter(|((time_ns, _, _), _)| (midnight..midnight + 20 * SECOND).contains(time_ns));
    let expected: usize = within.map(|(_, values)| values.len()).sum();
    assert!(expected > 100);
    for _ in 0..2 {
        assert_eq!(tally_free(ask(1)), (1, expected as u64));
        assert_eq!(tally_free(ask(5)), (1, expected as u64));
        while compactor(folder.path()).turn(START + 3 * HOUR, &|| Ok(())).unwrap() {}
        assert_eq!(tally_free(ask(10)), (10, expected as u64));
    }
    assert_eq!(date(20_780), "2026-11-23");
}

/// Who was there is the same whether the journal is asked or its tables, and what a count by the second says.
#[test]
fn who_was_there_is_known_of_the_past() {
    let folder = tempfile::tempdir().unwrap();
    // The second host is away for a while, the third comes late and says that it ends.
    let is_over = |host: usize, second: i64| host == 2 && second >= 70;
    let is_there = |host: usize, second: i64| match host {
        1 => !(20..40).contains(&second),
        2 => (10..70).contains(&second),
        _ => true,
    };
    let (fields, start) = (FIELDS.map(str::to_string).to_vec(), 20_780 * files::DAY_NS);
    let mut truth = Truth::new();
    for file in 0..3i64 {
        let mut bytes = PREFACE.to_vec();
        for (host, second) in (0..3).flat_map(|host| (file * 60..file * 60 + 60).map(move |second| (host, second))) {
            let (run, source, filter, width_ns) =
                (Id([host as u8 + 1; 16]), "test".into(), String::new(), SECOND as u64);
            let hello = Hello {
                run,
                host: format!("n{}", host + 1),
                source,
                filter,
                width_ns,
                fields: fields.clone(),
                is_wall: true,
            };
            if is_there(host, second) {
                let records = interval(&hello, second as u64, start + second * SECOND, &mut truth);
                records.iter().for_each(|record| bytes.extend_from_slice(record.bytes()));
            }
            if is_over(host, second) && is_there(host, second - 1) {
                let goodbye = Goodbye { run, end_ns: start + second * SECOND };
                bytes.extend_from_slice(goodbye.record().bytes());
            }
        }
        std::fs::write(folder.path().join(format!("{:015}.frames", (start + file * 60 * SECOND) / 1_000_000)), bytes)
            .unwrap();
    }
    for round in 0..2 {
        for (width, from, to) in [(1i64, 0i64, 120i64), (10, 0, 120), (1, 30, 60), (60, 0, 120)] {
            let query = Query { from_ns: start + from * SECOND, to_ns: start + to * SECOND - 1, ..query(width) };
            let mut rows = HistoryRows::open(folder.path(), Arc::new(Lines), query, (i64::MAX, None)).unwrap();
            // The journal has seconds only.
            assert!(rows.width_ns() as i64 == width * SECOND || round == 0);
            let width = rows.width_ns() as i64 / SECOND;
            rows.by_ref().for_each(|row| drop(row.unwrap()));
            let hosts = rows.hosts().unwrap();
            // From its first second on, but for the last five of the stretch, or its last interval.
            let end = to - width.max(5);
            let lacks = |host: usize| {
                let first = (from..to).find(|&second| is_there(host, second)).unwrap();
                (first..end)
                    .filter(move |&second| !is_there(host, second) && !is_over(host, second))
                    .map(|second| second / width)
                    .collect::<BTreeSet<_>>()
            };
            let all: BTreeSet<i64> = (0..3).flat_map(lacks).collect();
            let expected: Vec<(String, u64, bool)> = (0..3)
                .map(|host| {
                    (
                        format!("n{}", host + 1),
                        lacks(host).len() as u64,
                        !(end..to).any(|second| is_there(host, second) || is_over(host, second)),
                    )
                })
                .collect();
            let found: Vec<(String, u64, bool)> =
                hosts.hosts.iter().map(|host| (host.name.clone(), host.missing, host.is_missing)).collect();
            assert_eq!(found, expected, "{round}: {width}s from {from} to {to}");
            assert_eq!(
                (hosts.incomplete, hosts.present),
                (
                    all.len() as u64,
                    (0..3).filter(|&host| (end..to).any(|second| is_there(host, second))).count() as u64
                )
            );
        }
        while compactor(folder.path()).turn(start + 40 * HOUR, &|| Ok(())).unwrap() {}
        assert_eq!(Files::list(folder.path(), files::ALL_DAYS).unwrap().tables.len(), 3 * 3);
    }
}
