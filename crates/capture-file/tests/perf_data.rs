//! perf.data against the text that perf itself prints of it, paired here by brute force; and against damage.

#![allow(clippy::unwrap_used)]

use latscope_capture_file::{Error, Format, Position, ReadOptions, read, read_bytes as read_memory};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet};
use proptest::prelude::*;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perf_data").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    zstd::Decoder::new(std::fs::File::open(fixture(name)).unwrap()).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

/// An event as far as both sides can decide it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event {
    start_ns: i64,
    end_ns: i64,
    name: String,
    dev: String,
    offset: i128,
    size: i128,
    comm: String,
    tid: i64,
    error: String,
}

impl Event {
    /// To the microsecond, as perf prints times (it cuts, it does not round).
    fn in_microseconds(&self) -> Event {
        Event { start_ns: self.start_ns / 1000, end_ns: self.end_ns / 1000, ..self.clone() }
    }
}

fn rows(batch: &Batch, events: &mut Vec<Event>) {
    let number = |field, row: usize| match batch.u64s(field).map(|values| values[row]) {
        None | Some(u64::MAX) => -1,
        Some(value) => i128::from(value),
    };
    for row in 0..batch.len() {
        let text = |field| batch.text(field, row).unwrap_or("").to_string();
        events.push(Event {
            start_ns: batch.time()[row],
            end_ns: batch.time()[row] + batch.latency()[row] as i64,
            name: text(Field::Name),
            dev: text(Field::Dev),
            offset: number(Field::Offset, row),
            size: number(Field::Size, row),
            comm: text(Field::Comm),
            tid: batch.i64s(Field::Tid).unwrap()[row],
            error: text(Field::Error),
        });
    }
}

fn read_path(path: &Path, all_syscalls: bool) -> Result<(Context, Vec<Event>), Error> {
    let mut events = Vec::new();
    let options = ReadOptions { all_syscalls, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read(path, &options, &mut |_, batch| {
        rows(batch, &mut events);
        ControlFlow::Continue(())
    })?;
    events.sort();
    Ok((context, events))
}

fn read_fixture(name: &str) -> (Context, Vec<Event>) {
    read_path(&fixture(name), true).unwrap()
}

fn read_bytes(bytes: &[u8]) -> Result<(Context, Vec<Event>), Error> {
    let mut events = Vec::new();
    let options = ReadOptions { all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
    let context = read_memory("test", bytes, &options, &mut |_, batch| {
        rows(batch, &mut events);
        ControlFlow::Continue(())
    })?;
    events.sort();
    Ok((context, events))
}

/// A line of perf script: command, thread, time, name of the event and what follows it.
fn split(line: &str) -> Option<(&str, i64, i64, &str, &str)> {
    // None of the fixtures has a bracket in a command name.
    let (left, right) = line.split_once(" [")?;
    let (comm, tid) = left.rsplit_once(' ')?;
    let (_, right) = right.split_once("] ")?;
    let (time, right) = right.trim_start().split_once(": ")?;
    let (seconds, fraction) = time.split_once('.')?;
    let scale = 10i64.pow(9 - fraction.len() as u32);
    let time_ns = seconds.parse::<i64>().ok()? * 1_000_000_000 + fraction.parse::<i64>().ok()? * scale;
    let (event, payload) = right.trim_start().split_once(": ")?;
    Some((comm.trim(), tid.parse().ok()?, time_ns, event, payload))
}

struct Open {
    event: Event,
    sectors: u64,
    is_requeued: bool,
}

/// Counts of what the oracle saw: issues, completions, requeues, unfinished.
type Counts = (usize, usize, usize, usize);

/// Pairs block lines by searching all open requests for each completion.
fn block_oracle(text: &str) -> (Vec<Event>, Counts) {
    let (mut open, mut events, mut counts) = (Vec::<Open>::new(), Vec::new(), (0, 0, 0, 0));
    for (_, tid, time_ns, event, payload) in text.lines().filter_map(split) {
        let Some(step) = event.strip_prefix("block:block_rq_") else { continue };
        let words: Vec<&str> = payload.split(' ').collect();
        let (dev, name) = (words[0].replace(',', ":"), words[1].to_string());
        let plus = words.iter().position(|&word| word == "+").unwrap();
        let (sector, sectors): (u64, u64) = (words[plus - 1].parse().unwrap(), words[plus + 1].parse().unwrap());
        let is_flush = sectors == 0 && step != "insert";
        let offset = i128::from(sector) * 512;
        let same = |open: &Open| {
            let fits = if is_flush { open.sectors == 0 } else { open.event.offset == offset };
            fits && open.event.dev == dev && open.event.name == name
        };
        match step {
            "issue" => {
                counts.0 += 1;
                let comm = payload.rsplit_once(" [").unwrap().1.trim_end_matches(']').to_string();
                let size = words[2].parse().unwrap();
                let again = open.iter().position(|open| same(open) && open.is_requeued);
                let event =
                    Event { start_ns: time_ns, end_ns: 0, name, dev, offset, size, comm, tid, error: "".into() };
                match again {
                    // Perhaps by a worker of the kernel: the last issue counts.
                    Some(at) => {
                        let Event { start_ns, comm, tid, .. } = event;
                        open[at].event = Event { start_ns, comm, tid, ..open[at].event.clone() };
                        open[at].is_requeued = false;
                    }
                    None => {
                        // What is issued once more without a requeue has lost its completion.
                        open.retain(|old| is_flush || (&old.event.dev, old.event.offset) != (&event.dev, offset));
                        open.push(Open { event, sectors, is_requeued: false });
                    }
                }
            }
            "requeue" => {
                counts.2 += 1;
                open.iter_mut().find(|open| same(open)).unwrap().is_requeued = true;
            }
            "complete" => {
                counts.1 += 1;
                let found = open.iter().position(|open| same(open) && !open.is_requeued);
                if let Some(found) = found.map(|at| open.remove(at)) {
                    assert_eq!(found.sectors, sectors, "no fixture has partial completions");
                    events.push(Event { end_ns: time_ns, ..found.event });
                }
            }
            _ => {}
        }
    }
    counts.3 = open.iter().filter(|open| !open.is_requeued).count();
    events.sort();
    (events, counts)
}

fn assert_same(data: &[Event], text: &[Event], exact: bool) {
    let cut = |events: &[Event]| -> Vec<Event> {
        let mut cut: Vec<_> =
            events.iter().map(|event| if exact { event.clone() } else { event.in_microseconds() }).collect();
        cut.sort();
        cut
    };
    let (data, text) = (cut(data), cut(text));
    assert_eq!(data.len(), text.len());
    for (data, text) in data.iter().zip(&text) {
        assert_eq!(data, text);
    }
}

#[test]
fn plain_compressed_pipe_and_folder_are_what_perf_script_prints() {
    for (data, text, exact) in [
        ("block_mixed.data.zst", "block_mixed.txt.zst", false),
        ("block_compressed.data.zst", "block_compressed.txt.zst", false),
        ("block_pipe.data.zst", "block_pipe.txt.zst", false),
        ("threads", "threads.txt.zst", true),
    ] {
        let (context, events) = read_fixture(data);
        let (expect, counts) = block_oracle(&String::from_utf8(unpacked(text)).unwrap());
        assert!(expect.len() > 300, "{data}");
        assert_same(&events, &expect, exact);
        assert_eq!(context.tally.get(Anomaly::Unfinished), counts.3 as u64, "{data}");
        assert_eq!(context.tally.get(Anomaly::OutOfOrder), 0, "{data}");
        assert_eq!(context.tally.get(Anomaly::DamagedRecords), 0, "{data}");
        assert_eq!(context.host.as_deref(), Some("vm"));
        assert!(context.properties["cmdline"].contains("perf record"), "{data}");
    }
}

/// Records without a time stand between those of a stream; it must not be taken to have come as far as another one.
#[test]
fn streams_of_a_folder_are_read_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["data", "data.0", "data.1"] {
        std::fs::write(folder.path().join(part), unpacked(&format!("threads_misorder/{part}.zst"))).unwrap();
    }
    let text = String::from_utf8_lossy(&unpacked("threads_misorder.txt.zst")).into_owned();
    let (expected, _) = block_oracle(&text);
    let (context, events) = read_path(folder.path(), false).unwrap();
    assert_eq!(context.tally.get(Anomaly::OutOfOrder), 0);
    assert_eq!(events.len(), 6181);
    assert_same(&events, &expected, false);
}

#[test]
fn the_mixed_load_has_its_known_counts() {
    let (_, (issues, completions, requeues, _)) =
        block_oracle(&String::from_utf8(unpacked("block_mixed.txt.zst")).unwrap());
    assert_eq!((issues, completions, requeues), (22_673, 22_420, 258));
    let (context, events) = read_fixture("block_mixed.data.zst");
    let flushes = events.iter().filter(|event| event.name == "FF").count();
    assert_eq!((events.len() - flushes, flushes), (22_398, 11));
    assert_eq!(context.tally.get(Anomaly::Unfinished), 6);
}

#[test]
fn text_read_by_the_other_reader_is_the_same() {
    for (data, text) in [
        ("block_mixed.data.zst", "block_mixed.txt.zst"),
        ("block_lost.data.zst", "block_lost.txt.zst"),
        ("syscalls_named.data.zst", "syscalls_named.txt.zst"),
    ] {
        let ((of_data, from_data), (of_text, from_text)) = (read_fixture(data), read_fixture(text));
        assert!(!from_data.is_empty());
        assert_same(&from_data, &from_text, false);
        for anomaly in [Anomaly::Unfinished, Anomaly::Requeue, Anomaly::LostRecords, Anomaly::OrphanCompletion] {
            assert_eq!(of_data.tally.get(anomaly), of_text.tally.get(anomaly), "{data} {anomaly:?}");
        }
    }
}

/// Pairs system calls by looking back from each return for the last line of its thread.
fn syscall_oracle(text: &str) -> Vec<(i64, i64, i64, String, i64)> {
    let lines: Vec<_> = text.lines().filter_map(split).filter(|line| line.3.contains("syscalls:sys_")).collect();
    let call = |event: &str, payload: &str| match event.strip_prefix("syscalls:sys_") {
        Some(name) => name.split_once('_').unwrap().1.to_string(),
        // rt_sigreturn, 15, comes back as -1.
        None => payload.split(' ').nth(1).unwrap().replace("-1", "15"),
    };
    let mut events = Vec::new();
    for (at, &(_, tid, time_ns, event, payload)) in lines.iter().enumerate() {
        if !event.contains("sys_exit") {
            continue;
        }
        let before = lines[..at].iter().rfind(|line| line.1 == tid);
        if let Some(&(comm, _, start_ns, enter, arguments)) = before.filter(|line| line.3.contains("sys_enter"))
            && call(enter, arguments) == call(event, payload)
        {
            let result = match payload.split_once("= ") {
                Some((_, decimal)) => decimal.parse().unwrap(),
                None => u64::from_str_radix(payload.trim().trim_start_matches("0x"), 16).unwrap() as i64,
            };
            events.push((start_ns, time_ns, tid, comm.to_string(), result));
        }
    }
    events.sort();
    events
}

#[test]
fn system_calls_are_what_perf_script_prints() {
    for (data, text) in [
        ("syscalls_raw_clock.data.zst", "syscalls_raw_clock.txt.zst"),
        ("syscalls_named.data.zst", "syscalls_named.txt.zst"),
        ("syscalls_and_block.data.zst", "syscalls_and_block.txt.zst"),
    ] {
        let mut found = Vec::new();
        let options = ReadOptions { all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
        let context = read(&fixture(data), &options, &mut |_, batch| {
            for row in 0..batch.len() {
                let start = batch.time()[row];
                let tid = batch.i64s(Field::Tid).unwrap()[row];
                let comm = batch.text(Field::Comm, row).unwrap_or("").to_string();
                let result = batch.i64s(Field::Result).unwrap()[row];
                if batch.text(Field::Dev, row).is_none() {
                    found.push((start, start + batch.latency()[row] as i64, tid, comm, result));
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        found.sort();
        let mut expect = syscall_oracle(&String::from_utf8(unpacked(text)).unwrap());
        assert!(expect.len() > 50);
        if context.clock.to_unix_ns == Some(0) {
            // The text keeps perf's clock; both ends of the exact relation are in the header.
            let shift = found[0].0 - expect[0].0;
            assert!(shift > 1_700_000_000_000_000_000, "{shift}");
            expect.iter_mut().for_each(|event| (event.0, event.1) = (event.0 + shift, event.1 + shift));
        }
        assert_eq!(found.len(), expect.len(), "{data}");
        for (found, expect) in found.iter().zip(&expect) {
            assert_eq!(found, expect, "{data}");
        }
    }
}

#[test]
fn a_chosen_clock_gives_exact_wall_time() {
    let (context, events) = read_fixture("syscalls_raw_clock.data.zst");
    assert_eq!(
        (context.clock.name.as_str(), context.clock.to_unix_ns, context.clock.approximate),
        ("wall", Some(0), false)
    );
    // perf script --header: reference time 2026-11-21 04:54 UTC or so.
    let first = events[0].start_ns / 1_000_000_000;
    assert!((1_795_236_000..1_795_240_000).contains(&first), "{first}");
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    assert!(names.contains(&"write") && names.contains(&"openat") && names.contains(&"execve"));
    assert!(events.iter().any(|event| event.error == "ENOENT" && event.comm == "cat"));
    assert_eq!(events.iter().filter(|event| event.name == "write" && event.size == 16_384).count(), 40);
}

#[test]
fn system_calls_and_block_requests_share_a_trace() {
    let (_, events) = read_fixture("syscalls_and_block.data.zst");
    let (calls, requests): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.dev.is_empty());
    let (expect, _) = block_oracle(&String::from_utf8(unpacked("syscalls_and_block.txt.zst")).unwrap());
    assert_same(&requests, &expect, true);
    let within = |request: &Event| {
        calls
            .iter()
            .any(|call| call.start_ns <= request.start_ns && request.end_ns <= call.end_ns && call.tid == request.tid)
    };
    let written = requests.iter().filter(|request| request.comm == "dd" && request.size == 16_384);
    assert!(written.filter(|request| within(request)).count() >= 49, "each write waits for its request");
}

#[test]
fn only_io_calls_become_events_unless_asked() {
    let (all, every) = read_path(&fixture("syscalls_raw_clock.data.zst"), true).unwrap();
    let (some, io) = read_path(&fixture("syscalls_raw_clock.data.zst"), false).unwrap();
    assert!(io.len() < every.len() && some.tally.get(Anomaly::NoIo) > 0 && all.tally.get(Anomaly::NoIo) == 0);
    assert!(io.iter().all(|event| every.contains(event)) && !io.iter().any(|event| event.name == "mmap"));
}

#[test]
fn losses_have_their_number_and_their_range() {
    let (context, _) = read_fixture("block_lost.data.zst");
    let text = String::from_utf8(unpacked("block_lost.txt.zst")).unwrap();
    let lost: u64 = text
        .lines()
        .filter(|line| line.contains("PERF_RECORD_LOST lost"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(lost > 0);
    assert_eq!(context.tally.get(Anomaly::LostRecords), lost);
    let range = context.loss_ranges[0];
    assert!(range.cpu.is_some() && range.start_ns < range.end_ns);
}

#[test]
fn a_recording_without_io_events_says_what_it_has() {
    let error = read_path(&fixture("no_io.data"), false).unwrap_err();
    assert!(error.message.contains("cpu-clock") && error.message.contains("block:block_rq_issue"), "{error}");
    assert!(!error.message.contains("dummy"), "{error}");
}

#[test]
fn the_format_is_known_by_content() {
    let options = ReadOptions { format: Some(Format::PerfData), ..ReadOptions::new(FieldSet::ALWAYS) };
    let error = read(&fixture("block_lost.txt.zst"), &options, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(error.position, Position::Byte(0));
}

#[test]
fn a_consumer_that_has_enough_ends_the_reading() {
    let mut batches = 0;
    let options = ReadOptions::new(FieldSet::ALWAYS);
    read(&fixture("block_mixed.data.zst"), &options, &mut |_, _| {
        batches += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(batches, 1);
}

#[test]
fn a_pipe_cut_anywhere_gives_what_it_holds() {
    let whole = unpacked("block_pipe.data.zst");
    let (_, all) = read_bytes(&whole).unwrap();
    let mut last = 0;
    for part in (1..40).map(|part| whole.len() / 40 * part + part % 7) {
        match read_bytes(&whole[..part]) {
            Ok((context, events)) => {
                assert!(events.len() >= last && events.iter().all(|event| all.binary_search(event).is_ok()));
                last = events.len();
                // A cut between two records cannot be known from the end.
                assert!(context.tally.get(Anomaly::Truncated) <= 1);
            }
            Err(error) => assert!(last == 0 && !error.message.is_empty()),
        }
    }
    assert!(last > 0);
}

#[test]
fn a_file_cut_anywhere_ends_in_a_sentence() {
    let whole = unpacked("syscalls_named.data.zst");
    for end in (0..whole.len()).step_by(97).chain(0..300) {
        match read_bytes(&whole[..end]) {
            Ok((context, _)) => assert!(end > whole.len() / 2, "{end} {context:?}"),
            Err(error) => assert!(error.message.ends_with('.'), "{end} {error}"),
        }
    }
}

#[test]
fn a_folder_whose_parts_are_cut_gives_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "data.0", "data.1"] {
        let mut bytes = std::fs::read(fixture("threads").join(name)).unwrap();
        if name == "data.1" {
            bytes.truncate(bytes.len() / 2 + 3);
        }
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let (context, events) = read_path(folder.path(), false).unwrap();
    let (_, all) = read_fixture("threads");
    assert_eq!(context.tally.get(Anomaly::Truncated), 1);
    assert!(!events.is_empty() && events.len() < all.len());
}

/// Writes a recording in either byte order.
struct Writer {
    big: bool,
    bytes: Vec<u8>,
}

impl Writer {
    fn new(big: bool) -> Writer {
        Writer { big, bytes: Vec::new() }
    }

    fn number(&mut self, value: u64, size: usize) -> &mut Writer {
        let bytes =
            if self.big { value.to_be_bytes()[8 - size..].to_vec() } else { value.to_le_bytes()[..size].to_vec() };
        self.text(&bytes)
    }

    fn text(&mut self, text: &[u8]) -> &mut Writer {
        self.bytes.extend_from_slice(text);
        self
    }

    fn record(&mut self, kind: u64, body: &[u8]) {
        self.number(kind, 4).number(0, 2).number(8 + body.len() as u64, 2).text(body);
    }
}

const FORMATS: [(&str, u64, &str); 2] = [
    (
        "block_rq_issue",
        7,
        "field:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\nfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
         field:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
         field:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n\
         field:char rwbs[8];\toffset:32;\tsize:8;\tsigned:1;\nfield:char comm[16];\toffset:40;\tsize:16;\tsigned:1;\n",
    ),
    (
        "block_rq_complete",
        8,
        "field:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\nfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
         field:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
         field:int error;\toffset:28;\tsize:4;\tsigned:1;\nfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:1;\n",
    ),
];

fn tracing_data(big: bool) -> Vec<u8> {
    let mut out = Writer::new(big);
    out.text(b"\x17\x08\x44tracing0.6\0").text(&[u8::from(big), 8]).number(4096, 4);
    out.text(b"header_page\0").number(0, 8).text(b"header_event\0").number(0, 8).number(0, 4);
    out.number(1, 4).text(b"block\0").number(2, 4);
    for (name, id, fields) in FORMATS {
        let text = format!("name: {name}\nID: {id}\nformat:\n{fields}\nprint fmt: \"\"\n");
        out.number(text.len() as u64, 8).text(text.as_bytes());
    }
    out.bytes
}

/// One request of 4 KiB that fails after 1.5 us, and one that is lost sight of, with a LOST record between them.
fn recording(big: bool) -> Vec<u8> {
    // IDENTIFIER, TID, TIME, CPU, RAW.
    let sample_type = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10;
    let mut data = Writer::new(big);
    let mut sample = |id: u64, time: u64, sector: u64, last: u64, name: &[u8]| {
        let mut body = Writer::new(big);
        body.number(100 + id, 8).number(41, 4).number(42, 4).number(time, 8).number(1, 4).number(0, 4).number(60, 4);
        body.number(id, 2).number(0, 2).number(41, 4).number(8 << 20 | 3, 4).number(0, 4).number(sector, 8);
        body.number(8, 4).number(last, 4).text(b"WS\0junk!").text(name);
        data.record(9, &body.bytes);
    };
    sample(7, 10_000, 1 << 40, 4096, b"dd\0leftover\0...:----");
    sample(8, 11_500, 1 << 40, -5i32 as u32 as u64, b"...............:----");
    let mut lost = Writer::new(big);
    lost.number(107, 8).number(9, 8); // then thread, time, CPU, identifier
    lost.number(0, 8).number(12_000, 8).number(1, 4).number(0, 4).number(107, 8);
    data.record(2, &lost.bytes);
    let mut data = std::mem::take(&mut data.bytes);
    let mut more = Writer::new(big);
    more.record(68, &[]);
    data.extend(more.bytes);

    let mut out = Writer::new(big);
    out.text(if big { b"2ELIFREP" } else { b"PERFILE2" });
    let (attrs_at, ids_at) = (104, 104 + 2 * 144);
    let data_at = ids_at + 16;
    out.number(104, 8).number(144, 8).number(attrs_at, 8).number(2 * 144, 8);
    out.number(data_at, 8).number(data.len() as u64, 8).number(0, 8).number(0, 8);
    out.number(1 << 1 | 1 << 3, 8).number(0, 8).number(0, 8).number(0, 8);
    for (at, (_, id, _)) in FORMATS.iter().enumerate() {
        let start = out.bytes.len();
        out.number(2, 4).number(128, 4).number(*id, 8).number(1, 8).number(sample_type, 8).number(0, 8);
        out.number(1 << if big { 63 - 18 } else { 18 }, 8);
        out.bytes.resize(start + 128, 0);
        out.number(ids_at + 8 * at as u64, 8).number(8, 8);
    }
    out.number(107, 8).number(108, 8).text(&data);
    let features_at = out.bytes.len() as u64 + 32;
    let (tracing, mut host) = (tracing_data(big), Writer::new(big));
    host.number(8, 4).text(b"wide\0\0\0\0");
    out.number(features_at, 8).number(tracing.len() as u64, 8);
    out.number(features_at + tracing.len() as u64, 8).number(host.bytes.len() as u64, 8);
    out.text(&tracing).text(&host.bytes);
    out.bytes
}

#[test]
fn both_byte_orders_say_the_same() {
    let (little, big) = (read_bytes(&recording(false)).unwrap(), read_bytes(&recording(true)).unwrap());
    assert_eq!(little, big);
    let (context, events) = big;
    let event = Event {
        start_ns: 10_000,
        end_ns: 11_500,
        name: "WS".into(),
        dev: "8:3".into(),
        offset: 512 << 40,
        size: 4096,
        comm: "dd".into(),
        tid: 42,
        error: "EIO".into(),
    };
    assert_eq!(events, [event]);
    assert_eq!(context.host.as_deref(), Some("wide"));
    assert_eq!(context.clock.to_unix_ns, None, "when a copy of a pipe was made says nothing of the recording");
    assert_eq!(context.tally.get(Anomaly::LostRecords), 9);
    let range = context.loss_ranges[0];
    assert_eq!((range.start_ns, range.end_ns, range.cpu, range.records), (11_500, 12_000, Some(1), 9));
}

#[test]
fn every_byte_of_a_small_file_may_be_anything() {
    let whole = recording(false);
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff, whole[at] ^ 0x80] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = read_bytes(&bytes);
        }
        let _ = read_bytes(&whole[..at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn flipped_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        which in 0usize..3,
    ) {
        let mut bytes = match which {
            0 => unpacked("syscalls_named.data.zst"),
            1 => std::fs::read(fixture("no_io.data")).unwrap(),
            _ => unpacked("block_lost.data.zst"),
        };
        for (at, value) in flips {
            // Most of a file is samples; what can go wrong is in the headers.
            let at = if value & 1 == 0 { at.index(bytes.len()) } else { at.index(1000.min(bytes.len())) };
            bytes[at] = value;
        }
        let _ = read_bytes(&bytes);
    }
}
