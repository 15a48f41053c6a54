//! System calls as the running kernel does them, held against what the programs that made them say.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

use latscope_capture_bpf::{Error, EventCapture, HistogramCapture, Options, PushDown, Source};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, KernelFeature, MISSING_I64, MISSING_U64, Note};
use latscope_histogram::Grid;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An event, as a test looks at it.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    latency_ns: u64,
    text: BTreeMap<&'static str, String>,
    number: BTreeMap<&'static str, i64>,
}

impl Row {
    fn text(&self, field: Field) -> &str {
        self.text.get(field.name()).map_or("", String::as_str)
    }

    fn number(&self, field: Field) -> Option<i64> {
        self.number.get(field.name()).copied()
    }
}

fn rows(batch: &Batch) -> Vec<Row> {
    let row = |at: usize| {
        let mut row = Row { latency_ns: batch.latency()[at], text: BTreeMap::new(), number: BTreeMap::new() };
        for field in batch.fields().iter() {
            if let Some(text) = batch.text(field, at) {
                row.text.insert(field.name(), text.to_owned());
            }
            let number = batch.i64s(field).map(|values| values[at]).filter(|&value| value != MISSING_I64);
            let size = batch.u64s(field).map(|values| values[at]).filter(|&value| value != MISSING_U64);
            if let Some(number) = number.or(size.map(|size| size as i64)) {
                row.number.insert(field.name(), number);
            }
        }
        row
    };
    (0..batch.len()).map(row).collect()
}

/// A capture, unless there is no right to one here.
fn start(options: &Options) -> Option<EventCapture> {
    match EventCapture::start(options) {
        Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => {
            skipped!("{error}");
            None
        }
        capture => Some(capture.unwrap()),
    }
}

/// What was captured while `work` ran. Batches are taken on the way, so that paths are looked up while they are there.
fn capture(options: &Options, work: impl FnOnce() + Send) -> Option<(Context, Vec<Row>)> {
    let mut capture = start(options)?;
    let mut all = Vec::new();
    let context = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            let flow = capture.poll(Duration::from_millis(20), &mut |_, batch| {
                all.extend(rows(batch));
                ControlFlow::Continue(())
            });
            assert_eq!(flow.unwrap(), ControlFlow::Continue(()));
        }
        worker.join().unwrap();
        capture
            .finish(&mut |_, batch| {
                all.extend(rows(batch));
                ControlFlow::Continue(())
            })
            .unwrap()
    });
    assert_eq!(context.tally.get(Anomaly::LostRecords), 0);
    Some((context, all))
}

fn every(source: Source) -> Options {
    Options::new(source, latscope_capture_bpf::usual(source))
}

fn dd(arguments: &[&str]) -> Child {
    Command::new("dd").args(arguments).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_read_from_a_pipe_lasts_as_long_as_its_writer_sleeps() {
    let mut pid = 0;
    let captured = capture(&every(Source::Io), || {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        pid = i64::from(cat.id());
        std::thread::sleep(Duration::from_millis(60)); // until it reads
        cat.stdin.take().unwrap().write_all(b"twelve bytes").unwrap();
        assert!(cat.wait().unwrap().success());
    });
    let Some((_, rows)) = captured else { return };
    let mut reads = rows.iter().filter(|row| row.number(Field::Pid) == Some(pid) && row.text(Field::Name) == "read");
    let read = reads.find(|row| row.text(Field::FdType) == "pipe").unwrap();
    assert!(read.latency_ns >= 20_000_000, "{read:?}");
    for (field, value) in [(Field::Size, 12), (Field::Result, 12), (Field::Fd, 0), (Field::Tid, pid)] {
        assert_eq!(read.number(field), Some(value), "{field:?}");
    }
    for (field, value) in [(Field::Kind, "read"), (Field::Comm, "cat"), (Field::Error, ""), (Field::Device, "")] {
        assert_eq!(read.text(field), value, "{field:?}");
    }
    assert!(read.text(Field::Path).starts_with("pipe:["));
}

/// The device that a file lies on, `major:minor`.
fn dev_of(path: &std::path::Path) -> String {
    let number = std::os::unix::fs::MetadataExt::dev(&path.metadata().unwrap());
    format!("{}:{}", number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00)
}

#[test]
fn calls_on_a_file_have_path_size_offset_and_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    File::create(&path).unwrap().write_all(&[0; 65536]).unwrap();
    let mut pid = 0;
    let captured = capture(&every(Source::Io), || {
        let mut fio = Command::new("fio")
            .args(["--name=x", "--thread", "--ioengine=psync", "--rw=randrw", "--bs=4k", "--size=64k", "--io_size=1m"])
            .args(["--file_service_type=random", "--norandommap", "--thinktime=2ms", "--output-format=json"])
            .arg(format!("--filename={}", path.display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        pid = i64::from(fio.id());
        assert!(fio.wait().unwrap().success());
    });
    let Some((_, rows)) = captured else { return };
    let on_file: Vec<_> = rows
        .iter()
        .filter(|row| row.number(Field::Pid) == Some(pid) && row.text(Field::Path) == path.to_str().unwrap())
        .filter(|row| ["pread64", "pwrite64"].contains(&row.text(Field::Name)))
        .collect();
    assert_eq!(on_file.len(), 256, "1 MiB in blocks of 4 KiB");
    let dev = dev_of(&path);
    for row in on_file {
        assert_eq!((row.number(Field::Size), row.number(Field::Result)), (Some(4096), Some(4096)));
        assert!(row.number(Field::Offset).is_some_and(|offset| offset % 4096 == 0 && offset < 65536), "{row:?}");
        assert_eq!((row.text(Field::FdType), row.text(Field::Dev)), ("file", dev.as_str()));
        assert!(!row.text(Field::Device).is_empty());
    }
}

#[test]
fn an_open_that_fails_has_its_error_and_what_was_asked_for() {
    let mut pid = 0;
    let captured = capture(&every(Source::Io), || {
        let mut cat = Command::new("cat").arg("/no/such/file").stderr(Stdio::null()).spawn().unwrap();
        pid = i64::from(cat.id());
        cat.wait().unwrap();
    });
    let Some((_, rows)) = captured else { return };
    let failed: Vec<_> =
        rows.iter().filter(|row| row.number(Field::Pid) == Some(pid) && row.text(Field::Error) == "ENOENT").collect();
    let open = failed.iter().find(|row| row.text(Field::Path) == "/no/such/file").unwrap();
    assert_eq!((open.number(Field::Result), open.number(Field::Fd), open.text(Field::FdType)), (Some(-2), None, ""));
    assert_eq!(open.text(Field::Kind), "open");
}

/// `dd` reads and writes so often, and once more where it looks for more of its input.
const BLOCKS: usize = 5000;

/// Makes `BLOCKS` writes, and as many reads of a device that never ends.
fn dd_blocks() -> i64 {
    let mut dd = dd(&["if=/dev/zero", "of=/dev/null", "bs=512", &format!("count={BLOCKS}")]);
    let pid = i64::from(dd.id());
    assert!(dd.wait().unwrap().success());
    pid
}

#[test]
fn both_modes_and_single_tracepoints_count_each_call() {
    let options = every(Source::Io);
    let by_call = Options { calls: Some(vec!["write".into(), "fdatasync".into()]), ..every(Source::Syscall) };
    let histogram = |options: &Options| match HistogramCapture::start(options) {
        Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => {
            skipped!("{error}");
            None
        }
        capture => Some(capture.unwrap()),
    };
    let (Some(mut files), Some(mut calls)) = (histogram(&options), histogram(&by_call)) else { return };
    let tracepoints = match std::path::Path::new("/sys/kernel/tracing/events").exists() {
        true => "of single calls",
        false => "of all calls, as tracefs is not mounted (/sys/kernel/tracing)",
    };
    assert_eq!(calls.context().properties["tracepoints"], tracepoints);
    let mut pid = 0;
    let Some((context, rows)) = capture(&options, || pid = dd_blocks()) else { return };
    let of_dd = |name: &str| {
        rows.iter()
            .filter(|row| row.number(Field::Pid) == Some(pid) && row.text(Field::Name) == name)
            .filter(|row| row.text(Field::FdType) == "char" && row.number(Field::Result) == Some(512))
            .count()
    };
    assert_eq!((of_dd("write"), of_dd("read")), (BLOCKS, BLOCKS));
    assert_eq!(context.tally.get(Anomaly::UnpairedEnter), 0);
    // Histograms do not know processes, and others write too; few write to devices without a number.
    let counted = |capture: &mut HistogramCapture, name: &str| -> (u64, u64) {
        let counted = capture.take().unwrap();
        let keys = capture.keys();
        let of_name = counted.iter().filter(|counted| keys.text(Field::Name, counted.key) == Some(name));
        of_name
            .fold((0, 0), |(count, bytes), counted| (count + counted.histogram.totals().count, bytes + counted.bytes))
    };
    for capture in [&mut files, &mut calls] {
        let (count, bytes) = counted(capture, "write");
        assert!(count >= BLOCKS as u64 && bytes >= 512 * BLOCKS as u64, "{count} {bytes}");
        capture.refresh().unwrap();
        assert_eq!(capture.context().tally.get(Anomaly::LostRecords), 0);
    }
    // Only these were asked for; others may sync, too.
    let names: Vec<_> = (0..calls.keys().len()).filter_map(|key| calls.keys().text(Field::Name, key)).collect();
    assert!(names.contains(&"write") && names.iter().all(|name| ["write", "fdatasync"].contains(name)), "{names:?}");
    assert!(counted(&mut files, "write").0 < BLOCKS as u64, "what was taken is not counted again");
}

/// Of one event the sum is minimum and maximum, of two it is both together; that holds while two CPUs count as fast as
/// they can and are read all the time.
#[test]
fn minimum_and_maximum_are_exact_in_histograms() {
    for options in [every(Source::Io), every(Source::Syscall)] {
        let mut capture = match HistogramCapture::start(&options) {
            Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => return skipped!("{error}"),
            capture => capture.unwrap(),
        };
        let copies = || dd(&["if=/dev/zero", "of=/dev/null", "bs=512", "count=60000"]);
        let mut running = [copies(), copies()];
        let (mut single, mut many, mut inexact) = (0, 0, 0);
        let mut is_over = false;
        while !is_over {
            is_over = running.iter_mut().all(|dd| dd.try_wait().unwrap().is_some());
            for counted in capture.take().unwrap() {
                let totals = *counted.histogram.totals();
                let (count, sum) = (u128::from(totals.count), totals.sum);
                let (min, max) = (u128::from(totals.min), u128::from(totals.max));
                match (counted.is_exact, count) {
                    (false, _) => inexact += 1,
                    (true, 1) => assert_eq!((min, max), (sum, sum)),
                    (true, 2) => assert_eq!(min + max, sum),
                    (true, _) => assert!(min * (count - 1) + max <= sum && sum <= min + max * (count - 1)),
                }
                single += u64::from(count <= 2);
                many += u64::from(count > 2);
            }
        }
        assert!(single > 0 && many > 0, "{single} {many}");
        assert_eq!(capture.context().tally.get(Anomaly::EdgeExtremes), inexact);
        assert!(inexact * 10 < single + many, "{inexact} of {single} and {many}");
        capture.refresh().unwrap();
        assert_eq!(capture.context().tally.get(Anomaly::EdgeExtremes), inexact);
    }
}

/// A file system of its own for a test: nobody else uses its device.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Option<Mounted> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "latscope-test"]).arg(folder.path()).status().unwrap();
        mount.success().then_some(Mounted(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn both_modes_agree_count_for_count() {
    let Some(mounted) = Mounted::new() else { return skipped!("no right to mount") };
    let options = every(Source::Io);
    let Ok(mut histograms) = HistogramCapture::start(&options) else {
        return skipped!("no right to capture here");
    };
    let file = mounted.0.path().join("data").display().to_string();
    let captured = capture(&options, || {
        let copy = |arguments: &[&str]| assert!(dd(arguments).wait().unwrap().success());
        copy(&["if=/dev/zero", &format!("of={file}"), "bs=4k", "count=3000", "conv=fsync"]);
        copy(&[&format!("if={file}"), "of=/dev/null", "bs=8k"]);
    });
    let Some((_, rows)) = captured else { return };
    let dev = dev_of(mounted.0.path());
    let written = rows.iter().filter(|row| row.text(Field::Name) == "write" && row.text(Field::Path) == file).count();
    assert_eq!(written, 3000, "however short the life of its process, what it opened is known");
    let mut events = BTreeMap::new();
    for row in rows.iter().filter(|row| row.text(Field::Dev) == dev) {
        let (count, bytes) =
            events.entry((row.text(Field::Name).to_owned(), row.text(Field::FdType).to_owned())).or_insert((0, 0));
        *count += 1;
        let moves = ["read", "write"].contains(&row.text(Field::Name));
        *bytes += if moves { row.number(Field::Result).unwrap() as u64 } else { 0 };
    }
    let counted = histograms.take().unwrap();
    let keys = histograms.keys();
    let text = |field, key| keys.text(field, key).unwrap_or("").to_owned();
    let kernel: BTreeMap<_, _> = counted
        .iter()
        .filter(|counted| keys.text(Field::Dev, counted.key) == Some(&dev))
        .map(|counted| {
            let key = (text(Field::Name, counted.key), text(Field::FdType, counted.key));
            (key, (counted.histogram.totals().count, counted.bytes))
        })
        .collect();
    assert_eq!(kernel, events);
    let of = |name: &str| events[&(name.to_owned(), "file".to_owned())];
    assert_eq!((of("write"), of("read"), of("fsync").0), ((3000, 3000 << 12), (1501, 3000 << 12), 1));
}

/// How finely the kernel counts changes no count. Which bucket a value falls into is tested with the C function itself.
#[test]
fn every_precision_counts_what_events_count() {
    let Some(mounted) = Mounted::new() else { return skipped!("no right to mount") };
    let grids: Vec<Grid> = (0..=Grid::FINE.power()).filter_map(Grid::with_power).collect();
    let options = every(Source::Io);
    let start = |&finest: &Grid| HistogramCapture::start(&Options { finest, ..options.clone() });
    let Ok(captures) = grids.iter().map(start).collect::<Result<Vec<_>, _>>() else {
        return skipped!("no right to capture here");
    };
    let file = mounted.0.path().join("data").display().to_string();
    let captured = capture(&options, || {
        let arguments = ["if=/dev/zero", &format!("of={file}"), "bs=4k", "count=700", "conv=fsync"];
        assert!(dd(&arguments).wait().unwrap().success());
    });
    let Some((_, rows)) = captured else { return };
    let dev = dev_of(mounted.0.path());
    let is_write = |row: &&Row| row.text(Field::Dev) == dev && row.text(Field::Name) == "write";
    assert_eq!(rows.iter().filter(is_write).count(), 700);
    for (mut histograms, grid) in captures.into_iter().zip(grids) {
        let counted = histograms.take().unwrap();
        let keys = histograms.keys();
        let is_write = |counted: &&latscope_capture_bpf::Counted| {
            let text = |field| keys.text(field, counted.key);
            text(Field::Dev) == Some(&dev) && text(Field::Name) == Some("write")
        };
        let writes = counted.iter().find(is_write).unwrap();
        let totals = writes.histogram.totals();
        assert_eq!((writes.histogram.grid(), totals.count, writes.bytes), (grid, 700, 700 << 12));
        // What each program measured itself agrees with its buckets.
        let indices = writes.histogram.indices();
        let index = |value| grid.index(value) as u32;
        assert_eq!((indices[0], indices[indices.len() - 1]), (index(totals.min), index(totals.max)), "{grid:?}");
    }
}

#[test]
fn what_the_kernel_rejects_the_filter_would_reject_too() {
    let all = every(Source::Io);
    let dd = |name: &str| PushDown { comms: vec![name.into()], ..PushDown::default() };
    type Passes = fn(&Row) -> bool;
    let cases: [(PushDown, Passes); 6] = [
        (dd("dd"), |_| true),
        (dd("a command that is longer"), |_| false),
        (PushDown { names: vec!["write".into()], ..dd("dd") }, |row| row.text(Field::Name) == "write"),
        (PushDown { kinds: vec!["open".into()], ..dd("dd") }, |row| row.text(Field::Kind) == "open"),
        (PushDown { fd_types: vec!["char".into()], ..dd("dd") }, |row| row.text(Field::FdType) == "char"),
        (PushDown { min_latency_ns: 2_000, ..dd("dd") }, |row| row.latency_ns >= 2_000),
    ];
    for (push_down, passes) in cases {
        let pushed = Options { push_down: push_down.clone(), ..all.clone() };
        let Some(reference) = start(&all) else { return };
        let mut pid = 0;
        let Some((_, rows)) = capture(&pushed, || pid = dd_blocks()) else { return };
        let mut expected = Vec::new();
        let flow = reference.finish(&mut |_, batch| {
            expected.extend(rows_of(batch, pid));
            ControlFlow::Continue(())
        });
        flow.unwrap();
        let rows: Vec<_> = rows.into_iter().filter(|row| row.number(Field::Pid) == Some(pid)).collect();
        assert!(rows.iter().all(|row| row.text(Field::Comm) == "dd" && passes(row)), "{push_down:?}");
        if push_down.min_latency_ns == 0 {
            // Two captures measure two latencies, but see the same calls.
            let calls = |rows: &[Row]| {
                let of = |row: &Row| (row.text(Field::Name).to_owned(), row.text(Field::FdType).to_owned());
                let mut counts = BTreeMap::new();
                rows.iter().for_each(|row| *counts.entry(of(row)).or_insert(0) += 1);
                counts
            };
            expected.retain(|row| row.text(Field::Comm) == "dd" && passes(row));
            assert_eq!(calls(&rows), calls(&expected), "{push_down:?}");
        }
    }
}

fn rows_of(batch: &Batch, pid: i64) -> Vec<Row> {
    rows(batch).into_iter().filter(|row| row.number(Field::Pid) == Some(pid)).collect()
}

#[test]
fn requests_of_io_uring_are_as_many_as_fio_made() {
    let folder = tempfile::tempdir().unwrap();
    for fixed in [false, true] {
        let (mut pids, mut made) = (0, 0);
        let captured = capture(&every(Source::Io), || {
            let fio = Command::new("fio")
                .args(["--name=x", "--thread", "--ioengine=io_uring", "--iodepth=8", "--rw=randread", "--bs=4k"])
                .args(["--size=1m", "--io_size=8m", "--norandommap", "--output-format=json", "--overwrite=1"])
                .args(["--thinktime=1ms", "--thinktime_blocks=8"]) // it shall last until its paths were looked up
                .args([
                    format!("--filename={}", folder.path().join("data").display()),
                    format!("--registerfiles={}", u8::from(fixed)),
                ])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            pids = i64::from(fio.id());
            let output = fio.wait_with_output().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            made = json["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
        });
        let Some((context, rows)) = captured else { return };
        if context.notes.contains(&Note::KernelLacks { feature: KernelFeature::UringTracepoints }) {
            return skipped!("the kernel's tracepoints of io_uring are unknown");
        }
        let reads: Vec<_> = rows
            .iter()
            .filter(|row| row.number(Field::Pid) == Some(pids) && row.text(Field::Name).starts_with("io_uring_read"))
            .collect();
        assert_eq!((reads.len() as u64, made), (2048, 2048));
        for read in reads {
            assert_eq!((read.text(Field::Kind), read.text(Field::FdType)), ("read", "file"), "{read:?}");
            assert_eq!((read.number(Field::Size), read.number(Field::Result)), (Some(4096), Some(4096)));
            assert!(read.number(Field::Offset).is_some_and(|offset| offset < 1 << 20), "{read:?}");
            assert_eq!(read.number(Field::Fd).is_some(), !fixed);
            assert!(read.text(Field::Path).ends_with("/data"), "{read:?}");
        }
    }
}

#[test]
fn short_lived_processes_and_threads_leave_nothing_behind() {
    let options = Options::new(Source::Syscall, [Field::Name, Field::Pid].into_iter().collect());
    let Some(mut capture) = start(&options) else { return };
    let memory = |capture: &mut EventCapture| {
        let mut rest = 1;
        while rest > 0 {
            rest = 0;
            let mut count = |_: &Context, batch: &Batch| {
                rest += batch.len();
                ControlFlow::Continue(())
            };
            assert!(capture.poll(Duration::ZERO, &mut count).unwrap().is_continue());
            rest /= Batch::ROWS; // others keep adding a few
        }
        capture.refresh().unwrap();
        capture.context().properties["kernel_memory_bytes"].parse::<u64>().unwrap()
    };
    let before = memory(&mut capture);
    let forks = "i=0; while [ $i -lt 5000 ]; do (:); i=$((i+1)); done";
    assert!(Command::new("sh").args(["-c", forks]).status().unwrap().success());
    let threads = "import threading\nfor i in range(5000): threading.Thread(target=int).start()";
    if !Command::new("python3").args(["-c", threads]).status().is_ok_and(|status| status.success()) {
        skipped!("threads, as there is no python3");
    }
    let after = memory(&mut capture);
    assert!(after <= before + before / 10, "{before} {after}");
    let context = capture.finish(&mut |_, _| ControlFlow::Continue(())).unwrap();
    let waiting = context.tally.get(Anomaly::Unfinished);
    assert!(waiting < 5000, "{waiting} threads are in a call: the stamps of those that are no more went with them");
}

#[test]
fn a_sample_stands_for_all() {
    let sample = latscope_capture_bpf::Sample { slow_ns: u64::MAX, one_in: 16 };
    let options = Options { sample: Some(sample), ..every(Source::Io) };
    let mut pid = 0;
    let Some((_, rows)) = capture(&options, || pid = dd_blocks()) else { return };
    let of_dd: Vec<_> = rows.iter().filter(|row| row.number(Field::Pid) == Some(pid)).collect();
    assert!(of_dd.iter().all(|row| row.number(Field::SampleWeight) == Some(16)));
    // Some 10,000 calls, one in 16: 625 with a deviation of 24.
    assert!((450..850).contains(&of_dd.len()), "{}", of_dd.len());
}

#[test]
fn what_is_asked_for_must_exist() {
    let options = Options { calls: Some(vec!["raed".into()]), ..every(Source::Io) };
    match EventCapture::start(&options) {
        Err(Error::Option(message)) => assert!(message.contains("raed")),
        Err(Error::Rights(_) | Error::Unsupported(_)) => skipped!("no right to capture here"),
        _ => panic!("there is no such call"),
    }
}

/// A program whose worker has a name of its own reads 100 times, in both threads.
const NAMED: &str = r#"
import ctypes, os, sys, threading
def work(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
    [os.pread(file, 7, 0) for _ in range(100)]
file = os.open(sys.argv[1], os.O_RDONLY)
open("/proc/self/comm", "w").write("myserver")
[os.pread(file, 7, 0) for _ in range(100)]
worker = threading.Thread(target=work, args=(b"worker-1",)); worker.start(); worker.join()
"#;

#[test]
fn a_process_has_the_name_of_its_main_thread_and_a_thread_its_own() {
    let python = std::env::var("LATSCOPE_PYTHON").unwrap_or_else(|_| "python3".into());
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = || assert!(Command::new(&python).args(["-c", NAMED]).arg(file.path()).status().unwrap().success());
    let is_pread = |row: &&Row| row.text(Field::Name) == "pread64" && row.number(Field::Size) == Some(0);
    let pushed = |push_down| Options { push_down, ..every(Source::Io) };
    let by_process = PushDown { processes: vec!["myserver".into()], ..PushDown::default() };
    let by_thread = PushDown { comms: vec!["worker-1".into()], ..PushDown::default() };
    for (options, threads) in [(every(Source::Io), 2), (pushed(by_process), 2), (pushed(by_thread), 1)] {
        let Some((_, rows)) = capture(&options, run) else { return };
        for thread in ["worker-1", "myserver"].into_iter().take(threads) {
            let of: Vec<_> = rows.iter().filter(|row| row.text(Field::Comm) == thread).filter(is_pread).collect();
            assert_eq!(of.len(), 100, "{thread} {:?}", options.push_down);
            assert!(of.iter().all(|row| row.text(Field::Process) == "myserver"));
        }
    }
}

/// The model of a disk, or of that of a partition.
fn model(device: &str) -> Option<String> {
    let of = |path: &str| std::fs::read_to_string(format!("/sys/class/block/{device}/{path}")).ok();
    let model = of("device/model").or_else(|| of("../device/model"))?;
    Some(model.trim().to_owned()).filter(|model| !model.is_empty())
}

/// What the keys of histograms do not give, a view must ask events for; what they promise, they have.
#[test]
fn keys_of_histograms_have_the_fields_that_they_promise() {
    for source in [Source::Io, Source::Syscall] {
        let options = Options::new(source, FieldSet::ALWAYS);
        let mut capture = match HistogramCapture::start(&options) {
            Err(error @ (Error::Rights(_) | Error::Unsupported(_))) => return skipped!("{error}"),
            capture => capture.unwrap(),
        };
        dd_blocks();
        capture.take().unwrap();
        let keys = capture.keys();
        for field in latscope_capture_bpf::key_fields(source).iter() {
            if field == Field::DiskModel {
                // Not every disk has one: each has what sysfs says.
                for row in 0..keys.len() {
                    let model = keys.text(Field::Device, row).and_then(model);
                    assert_eq!(keys.text(field, row), model.as_deref());
                }
                continue;
            }
            let is_filled = !FieldSet::ALWAYS.contains(field);
            let filled = (0..keys.len()).any(|row| keys.text(field, row).is_some());
            assert_eq!(filled, is_filled, "{source:?} {field:?}");
        }
    }
}
