//! System calls as the running kernel does them, held against what the programs that made them say.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, missing_docs)]

use latscope_capture_bpf::{Error, EventCapture, HistogramCapture, Options, PushDown, Source};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, MISSING_I64, MISSING_U64};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
            eprintln!("skipped: {error}");
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
    Options::new(source, FieldSet::EVERY)
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
