//! Recordings of the kernel's blk tracer: binary, by blkparse and by ftrace, against btt, blkparse and a search line by line.

use crate::program::{command, end, installed, latscope, latscope_with, unpacked};
use latscope_capture_file::{ReadOptions, read_bytes};
use latscope_event::{Anomaly, Column, Context, Field, FieldSet, Wait};
use std::fs;
use std::ops::ControlFlow;

const BINARY: &str = "blktrace/vda.bin.zst";
const TEXT: &str = "blkparse/vda.txt.gz";

/// Start, latency, wait, offset and size of the events in the order of completion.
type Row = (i64, u64, u64, u64, u64);

fn read(bytes: &[u8]) -> (Vec<Row>, Context) {
    let mut rows = Vec::new();
    let context = read_bytes("capture", bytes, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
        let column = |field| match batch.column(field) {
            Some(Column::U64(values)) => values,
            _ => panic!("{} is no number", field.name()),
        };
        let (queue, offset, size) = (column(Field::Queue), column(Field::Offset), column(Field::Size));
        for at in 0..batch.len() {
            rows.push((batch.time()[at], batch.latency()[at], queue[at], offset[at], size[at]));
        }
        ControlFlow::Continue(())
    });
    (rows, context.expect("a capture can be read"))
}

#[test]
fn a_recording_has_the_known_counts() {
    let (rows, context) = read(&unpacked(BINARY));
    // 8,853 issues of which 100 are repeated after a requeue; 8,754 completions of which one is a flush's parent.
    assert_eq!(rows.len(), 8_753);
    assert_eq!(context.tally.iter().collect::<Vec<_>>(), [(Anomaly::Requeue, 100), (Anomaly::FlushParent, 1)]);
    assert_eq!(context.span_ns.map(|(start, end)| end - start), Some(span(&unpacked(BINARY))));
}

/// From the first to the last time of the records, 48 bytes each and their data.
fn span(bytes: &[u8]) -> i64 {
    let (mut at, mut times) = (0, Vec::new());
    while let Some(record) = bytes.get(at..at + 48) {
        let action = u32::from_le_bytes(record[28..32].try_into().unwrap());
        if action >> 16 & 0x400 == 0 && matches!(action & 0xff, 1..=4 | 6..=8 | 12 | 13) {
            times.push(i64::from_le_bytes(record[8..16].try_into().unwrap()));
        }
        at += 48 + usize::from(u16::from_le_bytes(record[46..48].try_into().unwrap()));
    }
    times.iter().max().unwrap() - times.iter().min().unwrap()
}

/// Device-mapper above a disk: each device has its events, and no total has a request twice.
#[test]
fn a_request_that_device_mapper_passes_on_counts_once() {
    for upper in ["253,0", "9,0"] {
        check_stacked(upper);
    }
}

fn check_stacked(upper: &str) {
    let mut text = String::new();
    for at in 0..50u32 {
        let (sector, below) = (at * 8, at * 8 + 2048);
        let mut line = |us: u32, device: &str, action: &str, tail: &str| {
            let time = f64::from(at * 1000 + us) / 1e6;
            text += &format!("{device}  0  {}  {time:.9}  77  {action}  W {tail}\n", at * 10 + us);
        };
        line(1, upper, "Q", &format!("{sector} + 8 [fio]"));
        line(2, "8,0", "A", &format!("{below} + 8 <- ({upper}) {sector}"));
        line(3, "8,0", "D", &format!("{below} + 8 [fio]"));
        line(103, "8,0", "C", &format!("{below} + 8 [0]"));
        line(113, upper, "C", &format!("{sector} + 8 [0]"));
    }
    let summary = |arguments: &[&str]| {
        let all = [&["summary", "--json", "-r", "-"], arguments].concat();
        let json: serde_json::Value = serde_json::from_str(&latscope_with(&all, text.as_bytes()).success()).unwrap();
        let groups = json["groups"].as_array().unwrap().iter();
        let groups: Vec<_> = groups.map(|group| (group["max_ns"].as_u64(), group["count"].as_u64())).collect();
        let in_flight = json["total"]["in_flight"].as_f64();
        ((groups, json["total"]["count"].as_u64(), json["total"]["max_ns"].as_u64()), in_flight)
    };
    let in_flight = |arguments: &[&str]| summary(arguments).1.unwrap();
    let summary = |arguments: &[&str]| summary(arguments).0;
    let name = if upper == "9,0" { "md0" } else { "253:0" };
    let (upper, lower) = ((Some(112_000), Some(50)), (Some(100_000), Some(50)));
    assert_eq!(summary(&[]), (vec![upper, lower], Some(50), Some(100_000)));
    assert_eq!(summary(&["--by", "kind"]), (vec![lower], Some(50), Some(100_000)));
    assert_eq!(summary(&["--by", "dev"]), (vec![upper, lower], Some(50), Some(100_000)));
    assert_eq!(summary(&["device", "=", name]), (vec![upper], Some(50), Some(112_000)));
    // 100 of 49,112 us are 50 times with one in flight below.
    for by in ["device", "dev", "kind"] {
        let in_flight = in_flight(&["--use", "--by", by]);
        assert!((in_flight - 50.0 * 100.0 / 49_112.0).abs() < 1e-4, "{by}: {in_flight}");
    }
    let noted = latscope_with(&["percentiles", "-r", "-"], text.as_bytes());
    let text = noted.err.clone() + &noted.success();
    assert!(text.contains(&format!("requests of {name} (50) are passed on to other devices")), "{text}");
}

/// Without the records of a CPU, issues and completions are missing on both sides, and none of them hangs.
#[test]
fn nothing_waits_where_the_records_of_a_cpu_are_missing() {
    let bytes = unpacked(BINARY);
    for missing in [0, 1] {
        let (mut at, mut rest) = (0, Vec::new());
        while let Some(record) = bytes.get(at..at + 48) {
            let end = at + 48 + usize::from(u16::from_le_bytes(record[46..48].try_into().unwrap()));
            if u32::from_le_bytes(record[40..44].try_into().unwrap()) != missing {
                rest.extend_from_slice(&bytes[at..end]);
            }
            at = end;
        }
        let (rows, context) = read(&rest);
        let unpaired = [Anomaly::Unfinished, Anomaly::OrphanCompletion].map(|anomaly| context.tally.get(anomaly));
        assert!(unpaired.iter().sum::<u64>() > 100, "{} {:?}", rows.len(), context.tally);
        assert!(context.unfinished.iter().all(|request| request.wait != Wait::Counts));
    }
}

/// btt has a row for each bio, so those of merged ones repeat; and it has microseconds.
#[test]
fn btt_has_the_same_latencies() {
    if !installed("btt") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vda.bin"), unpacked(BINARY)).unwrap();
    let summary = end(command("btt").args(["-i", "vda.bin", "-l", "lat"]).current_dir(folder.path()), b"").success();
    let listed = fs::read_to_string(folder.path().join("lat_254,0_d2c.dat")).unwrap();
    let row = |line: &str| {
        let (time, latency) = line.split_once(' ').unwrap();
        (time.parse::<f64>().unwrap(), latency.trim().parse::<f64>().unwrap())
    };
    let mut theirs: Vec<(f64, f64)> = listed.lines().map(row).collect();
    theirs.dedup();
    let ours = read(&unpacked(BINARY)).0;
    let mut found = 0;
    for (time, latency) in &theirs {
        // Completions are in order; the times of btt are those of completion.
        let near = ours.iter().any(|row| {
            let end = (row.0 + row.1 as i64) as f64 / 1e9;
            (end - time).abs() < 1.5e-6 && (row.1 as f64 / 1e9 - latency).abs() < 1.5e-6
        });
        found += usize::from(near);
    }
    assert_eq!(found, theirs.len(), "of btt's");
    // It leaves out requests that it saw no queueing of: flushes, and the rests of split bios with what was merged into them.
    assert!(theirs.len() > 8_600, "{} and {}", theirs.len(), ours.len());
    let line = summary.lines().find(|line| line.starts_with("D2C ")).unwrap();
    let of_btt: Vec<f64> = line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect();
    let sectors = ours.iter().filter(|row| row.4 > 0);
    let (min, max) = (sectors.clone().map(|row| row.1).min().unwrap(), sectors.map(|row| row.1).max().unwrap());
    assert_eq!((min as f64 / 1e9, max as f64 / 1e9), (of_btt[0], of_btt[2]));
}

/// The same recording, printed by blkparse, from one stream and from a file for each CPU.
#[test]
fn text_and_binary_are_the_same_events() {
    let binary = unpacked(BINARY);
    let ours = read(&binary).0;
    let first = i64::from_le_bytes(binary[8..16].try_into().unwrap());
    let relative: Vec<Row> = ours.iter().map(|row| (row.0 - first, row.1, row.2, row.3, row.4)).collect();
    let slice = read(&unpacked(TEXT)).0;
    assert!(slice.len() > 700 && slice == relative[..slice.len()]);
    if !installed("blkparse") {
        return;
    }
    let text = end(command("blkparse").args(["-i", "-"]), &binary).success();
    assert!(read(text.as_bytes()).0 == relative);

    let folder = tempfile::tempdir().unwrap();
    for cpu in 0..2u32 {
        let name = folder.path().join(format!("vda.blktrace.{cpu}"));
        fs::write(name, of_cpu(&binary, cpu)).unwrap();
    }
    let text = end(command("blkparse").args(["-i", "vda", "-t"]).current_dir(folder.path()), b"").success();
    assert!(read(text.as_bytes()).0 == relative, "with its own times (-t)");
    let prefix = folder.path().join("vda").display().to_string();
    let csv = |arguments: &[&str]| latscope(&[&["events", "--csv"], arguments].concat()).success();
    let whole = folder.path().join("whole");
    fs::write(&whole, &binary).unwrap();
    let expected = csv(&["-r", whole.to_str().unwrap()]);
    assert_eq!(expected.lines().count(), 8_754);
    let (one, other) = (format!("{prefix}.blktrace.0"), format!("{prefix}.blktrace.1"));
    for given in [&["-r", &prefix][..], &["-r", &one], &["-r", &one, "-r", &other], &["-r", &other, "-r", &prefix]] {
        assert!(csv(given) == expected, "{given:?}");
    }
}

/// The records of one CPU.
fn of_cpu(bytes: &[u8], cpu: u32) -> Vec<u8> {
    let (mut at, mut own) = (0, Vec::new());
    while let Some(record) = bytes.get(at..at + 48) {
        let end = at + 48 + usize::from(u16::from_le_bytes(record[46..48].try_into().unwrap()));
        if record[40..44] == cpu.to_le_bytes() {
            own.extend(&bytes[at..end]);
        }
        at = end;
    }
    own
}

/// From the text, by a search that shares nothing with ours: back from each completion to the issue of the same sector, and
/// from there to the last line that queued it.
#[test]
fn a_search_line_by_line_finds_the_same_requests() {
    let text = String::from_utf8(unpacked(TEXT)).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().take(2500).map(|line| line.split_whitespace().collect()).collect();
    let ns = |line: &[&str]| (line[3].parse::<f64>().unwrap() * 1e9).round() as i64;
    let mut expected = Vec::new();
    for (at, done) in lines.iter().enumerate().filter(|(_, line)| line[5] == "C" && line.len() > 9) {
        let before = |acts: &[&str]| {
            let is_it = |line: &&Vec<&str>| acts.contains(&line[5]) && line.get(7) == Some(&done[7]);
            lines[..at].iter().rev().find(is_it)
        };
        let Some(issue) = before(&["D"]) else { continue };
        let (issued, ended) = (ns(issue), ns(done));
        // The rest of a split bio has no line of its own before its request.
        let queued = before(&["Q", "A"]).map(|line| ns(line));
        expected.push((issued, (ended - issued) as u64, queued.map(|queued| (issued - queued) as u64)));
    }
    let rows = read(text.lines().take(2500).map(|line| format!("{line}\n")).collect::<String>().as_bytes()).0;
    let rows: Vec<_> = rows.iter().filter(|row| row.4 > 0).collect();
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!((row.0, row.1), (expected.0, expected.1));
        // A requeued request waits until it is issued again, as one that was queued only once does.
        assert!(expected.2.is_none_or(|queue| queue == row.2), "{row:?} {expected:?}");
    }
}

/// ftrace's own text of the blk tracer says what blkparse prints, in other columns.
#[test]
fn the_blk_tracer_of_ftrace_has_the_events_of_blkparse() {
    let text = String::from_utf8(unpacked("ftrace/blk_tracer.txt.gz")).unwrap();
    let as_blkparse = |line: &str| {
        let (left, right) = line.split_once(": ")?;
        let (device, rest) = right.split_once(' ')?;
        let (before, time) = left.rsplit_once(' ')?;
        let tid = before.split(" [").next()?.trim_end().rsplit('-').next()?;
        Some(format!("{device} 0 1 {time}000 {tid} {}\n", rest.trim_start()))
    };
    let lines = || text.lines().filter(|line| !line.contains("  m   N"));
    let blkparse: String = lines().map(|line| as_blkparse(line).unwrap()).collect();
    let (ours, context) = read(text.as_bytes());
    assert!(ours.len() > 900, "{}", ours.len());
    assert_eq!(ours, read(blkparse.as_bytes()).0);
    assert_eq!(context.tally.get(Anomaly::UnparsedLines), 0);
    // Without its context (blk_classic) it is read as text of blkparse.
    let classic: String = blkparse.lines().map(|line| format!("{}\n", line.replacen(" 0 1 ", " 0 ", 1))).collect();
    assert_eq!(ours, read(classic.as_bytes()).0);
}

/// The same lines in the columns of perf script are the same events; only the losses are written in another way.
#[test]
fn events_of_ftrace_are_those_of_perf() {
    let text = String::from_utf8(unpacked("ftrace/lost.txt.gz")).unwrap();
    let as_perf = |line: &str| {
        let (who, rest) = line.split_once(" [")?;
        let (comm, tid) = who.trim().rsplit_once('-')?;
        let (cpu, rest) = rest.split_once(']')?;
        let (_, rest) = rest.trim_start().split_once(' ')?;
        let (time, event) = rest.trim_start().split_once(": ")?;
        Some(format!("{comm} {tid} [{cpu}] {time}: block:{event}\n"))
    };
    let perf: String = text.lines().filter_map(as_perf).collect();
    let (ours, context) = read(text.as_bytes());
    let (theirs, without) = read(perf.as_bytes());
    assert!(ours.len() > 1_000 && ours == theirs, "{} and {}", ours.len(), theirs.len());
    assert_eq!(context.tally.get(Anomaly::LostRecords), 41_440 + 103_340);
    assert_eq!(without.tally.get(Anomaly::LostRecords), 0);
    let [first, second] = context.loss_ranges[..] else { panic!("{:?}", context.loss_ranges) };
    assert_eq!((first.cpu, first.start_ns, first.end_ns), (Some(0), 3_747_979_795_000, 3_747_979_795_000));
    assert!(second.cpu == Some(1) && second.start_ns == second.end_ns, "its first lines");
}
