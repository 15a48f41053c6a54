//! What a capture of events yielded, row by row.

use latscope_capture_bpf::{EventCapture, Options, Source};
use latscope_event::{Batch, Context, Field, FieldSet};
use std::ops::ControlFlow;
use std::time::Duration;

/// A row, with times on the kernel's monotonic clock, on which captures agree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Row {
    pub issue_ns: i64,
    pub latency_ns: u64,
    pub queue_ns: u64,
    pub kind: String,
    pub name: String,
    pub size: u64,
    pub offset: u64,
    pub device: String,
    pub dev: String,
    pub pid: i64,
    pub comm: Option<String>,
    pub error: Option<String>,
    pub weight: Option<i64>,
}

/// A running capture and what it yielded.
pub struct Events {
    capture: EventCapture,
    rows: Vec<Row>,
}

pub fn options() -> Options {
    Options { ring_bytes: 8 << 20, ..Options::new(Source::Block, FieldSet::EVERY) }
}

impl Events {
    pub fn start(options: &Options) -> Events {
        Events { capture: EventCapture::start(options).unwrap(), rows: Vec::new() }
    }

    pub fn poll(&mut self) {
        let rows = &mut self.rows;
        let mut sink = |context: &Context, batch: &Batch| collect(rows, context, batch);
        assert!(self.capture.poll(Duration::from_millis(30), &mut sink).unwrap().is_continue());
    }

    pub fn capture(&mut self) -> &mut EventCapture {
        &mut self.capture
    }

    /// The rows in the order of their issue, and the final account.
    pub fn finish(mut self) -> (Vec<Row>, Context) {
        let rows = &mut self.rows;
        let context = self.capture.finish(&mut |context, batch| collect(rows, context, batch)).unwrap();
        self.rows.sort();
        (self.rows, context)
    }
}

fn collect(rows: &mut Vec<Row>, context: &Context, batch: &Batch) -> ControlFlow<()> {
    let offset_ns: i64 = context.properties["clock_offset_start_ns"].parse().unwrap();
    let text = |field, row| batch.text(field, row).map(str::to_owned);
    let u64_of = |field, row: usize| batch.u64s(field).unwrap()[row];
    for row in 0..batch.len() {
        rows.push(Row {
            issue_ns: batch.time()[row] - offset_ns,
            latency_ns: batch.latency()[row],
            queue_ns: u64_of(Field::Queue, row),
            kind: text(Field::Kind, row).unwrap(),
            name: text(Field::Name, row).unwrap(),
            size: u64_of(Field::Size, row),
            offset: u64_of(Field::Offset, row),
            device: text(Field::Device, row).unwrap_or_default(),
            dev: text(Field::Dev, row).unwrap_or_default(),
            pid: batch.i64s(Field::Pid).unwrap()[row],
            comm: text(Field::Comm, row),
            error: text(Field::Error, row),
            weight: batch.i64s(Field::SampleWeight).map(|weights| weights[row]).filter(|&weight| weight != i64::MIN),
        });
    }
    ControlFlow::Continue(())
}
