//! Logs of fio that hold every I/O: `write_lat_log` makes `*_clat.N.log`, `*_slat.N.log` and `*_lat.N.log`.
//!
//! A row is a completion; its time is cut to whole milliseconds, so the middle of the millisecond is taken, or, where fio
//! logged when it issued the I/O, that plus the latency. Rows of one job ascend; where time goes back, the next job (or
//! the next run) begins.

mod fz;
mod layout;
mod rows;

use crate::fio_name::{LogKind, LogName};
use crate::input::Input;
use crate::text_rows::{NoRows, each_line};
use crate::{Detected, Error, Place, ReadOptions, Sink};
use latscope_event::{
    Anomaly, Batch, Clock, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_U64, format_count,
};
pub use layout::FioColumns;
use layout::Probe;
use rows::{Parser, Row};
use std::ops::ControlFlow;

/// The fields that a log can fill.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Size, Field::Offset, Field::Host, Field::Job]);

/// Completions of one job may overtake each other by this much before they are another job's.
const JITTER_MS: u64 = 5;
/// A time further than this from issue plus latency is not that of the same job's clock.
const DRIFT_NS: u64 = 10_000_000;
const MS: i64 = 1_000_000;
/// Times are rounded down, so on the average they are this much too early.
const HALF_MS: i64 = MS / 2;

/// Every line has the same four to eight numbers, the third or fourth of which is a direction.
pub fn detect(input: &Input) -> Detected {
    if input.head().is_empty() && named(input).is_some_and(|name| name.kind != LogKind::ClatHist) {
        // A job that did no such I/O leaves an empty log, and a synchronous engine an empty slat log.
        return Detected::Yes;
    }
    if fz::detect(input.head()) {
        return Detected::Yes;
    }
    match Probe::of(input.head(), None) {
        // By its name a log is one even where some of its lines are none.
        Some(probe) if probe.strange == 0 || named(input).is_some() => Detected::Yes,
        _ => Detected::No,
    }
}

/// Whether the rows of this file are averages over windows.
pub fn is_windowed(path: &std::path::Path) -> bool {
    let probe = Input::open(path, None).ok().and_then(|input| Probe::of(input.head(), None));
    probe.is_some_and(|probe| probe.is_windowed())
}

fn named(input: &Input) -> Option<LogName> {
    LogName::of(input.path.as_ref()?)
}

/// Reads a log; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    let fail = |place: Place, message: &str| Err(Error::new(&file, place, message));
    let name = named(&input);
    if let Some(LogKind::Bandwidth | LogKind::Iops) = name.as_ref().map(|name| name.kind) {
        return fail(Place::File, "This log holds bandwidth or IOPS, no latencies; read its _clat log.");
    }
    if input.head().is_empty() {
        if name.is_none() {
            return fail(Place::File, "The file is empty.");
        }
        let mut context = Context::new(format!("fio log, {file}"), Clock::unanchored("relative"));
        context.tally.add(Anomaly::EmptyLog, 1);
        return Ok(context);
    }
    let is_packed = fz::detect(input.head());
    let probe = if is_packed { fz::probe(input.head()) } else { Probe::of(input.head(), options.fio_columns) };
    let Some(probe) = probe else {
        return fail(
            Place::Line(1),
            "There is no row of fio's latency logs: time, latency, direction (0 to 2), size, all of them whole numbers.",
        );
    };
    if is_packed && (probe.has_addresses() || name.as_ref().is_some_and(|name| name.kind == LogKind::ClatHist)) {
        return fail(
            Place::File,
            "fio stored addresses instead of counts: histogram logs and log_store_compressed do not go together. Run fio \
             again without log_store_compressed.",
        );
    }
    if name.is_none() && probe.counts_only() {
        return fail(Place::File, "Every value is 1, as in fio's logs of IOPS; read the _clat log.");
    }
    let mut reader = Reader::new(&file, name, &probe, options);
    if is_packed {
        fz::read(input, &mut reader, sink)?
    } else {
        text(input, probe.layout, &mut reader, sink)?
    };
    reader.finish(sink)
}

fn text(input: Input, columns: FioColumns, reader: &mut Reader, sink: &mut Sink) -> Result<(), Error> {
    let mut parser = Parser::new(columns);
    each_line(input, |number, line| match line.and_then(|line| parser.row(line)).and_then(|row| reader.take(row)) {
        Ok(()) if reader.is_full() => Ok(reader.hand_on(sink)),
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(why) => reader.strange(number, line, why).map(|()| ControlFlow::Continue(())),
    })
}

/// Makes events of rows.
struct Reader {
    context: Context,
    batch: Batch,
    columns: Columns,
    name: Option<LogName>,
    unit_ns: u64,
    windowed: bool,
    /// Whether latencies end with the issue, not with the completion.
    submission: bool,
    /// Milliseconds from the zero of the issue times to that of the times; none until it is known for this job.
    epoch_ms: Option<i64>,
    last_ms: u64,
    jobs: u32,
    kinds: [u32; 3],
    job: u32,
    host: u32,
    rows: u64,
    no_rows: NoRows,
}

/// What a batch is made of; columns that nobody asked for stay empty.
#[derive(Default)]
struct Columns {
    time: Vec<i64>,
    latency: Vec<u64>,
    kind: Vec<u32>,
    size: Vec<u64>,
    offset: Vec<u64>,
    host: Vec<u32>,
    job: Vec<u32>,
    wants_kind: bool,
    wants_size: bool,
    wants_offset: bool,
    wants_job: bool,
}

impl Columns {
    /// Takes the memory back from a batch that was handed on.
    fn take_back(&mut self, batch: &mut Batch) {
        fn numbers(batch: &mut Batch, field: Field) -> Vec<u64> {
            if let Some(Column::U64(values)) = batch.take_column(field) { values } else { Vec::new() }
        }
        fn codes(batch: &mut Batch, field: Field) -> Vec<u32> {
            if let Some(Column::Text(values)) = batch.take_column(field) { values } else { Vec::new() }
        }
        if let Some(Column::I64(times)) = batch.take_column(Field::Time) {
            self.time = times;
        }
        self.latency = numbers(batch, Field::Latency);
        self.size = numbers(batch, Field::Size);
        self.offset = numbers(batch, Field::Offset);
        self.kind = codes(batch, Field::Kind);
        self.host = codes(batch, Field::Host);
        self.job = codes(batch, Field::Job);
    }
}

impl Reader {
    fn new(file: &str, name: Option<LogName>, probe: &Probe, options: &ReadOptions) -> Reader {
        let clock = if probe.is_wall() { Clock::wall() } else { Clock::unanchored("relative") };
        let mut context = Context::new(format!("fio log, {file}"), clock);
        context.begin_ns = (!probe.is_wall()).then_some(0);
        context.host = name.as_ref().and_then(|name| name.host.clone());
        let guessed = probe.unit();
        let given = options.two_columns.latency_unit_ns;
        let unit_ns = given.unwrap_or(guessed.ns);
        if guessed.guessed && given.is_none() {
            context.tally.add(Anomaly::AssumedUnit, 1);
        }
        let unit = if unit_ns == 1 { "ns".into() } else { format!("{} ns", format_count(unit_ns)) };
        context.properties.insert("latency_unit".into(), unit);
        let fields = options.fields.intersection(FILLS);
        let mut batch = Batch::new(fields);
        let host = match context.host.as_deref() {
            Some(host) => batch.intern(Field::Host, host.as_bytes()),
            None => MISSING_CODE,
        };
        let kinds = [&b"read"[..], b"write", b"trim"].map(|kind| batch.intern(Field::Kind, kind));
        let submission = name.as_ref().is_some_and(|name| name.kind == LogKind::Slat);
        let columns = Columns {
            wants_kind: fields.contains(Field::Kind),
            wants_size: fields.contains(Field::Size),
            wants_offset: fields.contains(Field::Offset),
            wants_job: fields.contains(Field::Job),
            ..Columns::default()
        };
        let mut reader = Reader {
            context,
            batch,
            columns,
            name,
            unit_ns,
            windowed: probe.is_windowed(),
            submission,
            epoch_ms: probe.epoch_ms(submission),
            last_ms: 0,
            jobs: 0,
            kinds,
            job: MISSING_CODE,
            host,
            rows: 0,
            no_rows: NoRows::new(file, options.lenient),
        };
        reader.begin_job();
        reader
    }

    fn begin_job(&mut self) {
        self.jobs += 1;
        if let Some(name) = &self.name {
            self.job = self.batch.intern(Field::Job, name.job(self.jobs).as_bytes());
        }
    }

    /// Makes an event of a row, or says why not.
    #[inline(always)]
    fn take(&mut self, row: Row) -> Result<(), &'static str> {
        if row.time_ms.saturating_add(JITTER_MS) < self.last_ms {
            self.begin_job();
            self.epoch_ms = row.epoch_ms(self.submission).map(|ms| if ms < 10 { 0 } else { ms });
        }
        self.last_ms = row.time_ms;
        let mut end_ns = match i64::try_from(row.time_ms).ok().and_then(|ms| ms.checked_mul(MS)) {
            Some(ns) if ns < i64::MAX - MS => ns + HALF_MS,
            _ => return Err("a time beyond all clocks"),
        };
        // Nothing takes 292 years, and so late a start would be the value that stands for a missing one.
        let latency_ns = match row.value.checked_mul(self.unit_ns) {
            Some(ns) if ns <= i64::MAX as u64 => ns,
            _ => return Err("a latency of more than 292 years"),
        };
        if let Some(exact_ns) = self.exact(&row)
            && exact_ns.abs_diff(end_ns) <= DRIFT_NS
        {
            end_ns = exact_ns;
        }
        let columns = &mut self.columns;
        columns.time.push(end_ns - latency_ns as i64);
        columns.latency.push(latency_ns);
        if columns.wants_kind {
            columns.kind.push(self.kinds[usize::from(row.direction)]);
        }
        if columns.wants_size {
            columns.size.push(if self.windowed { MISSING_U64 } else { row.size });
        }
        if columns.wants_offset {
            columns.offset.push(row.offset);
        }
        if columns.wants_job {
            columns.job.push(self.job);
        }
        Ok(())
    }

    /// Completion from the time of issue.
    #[inline(always)]
    fn exact(&self, row: &Row) -> Option<i64> {
        let completed_ns = row.completed_ns(self.submission)?;
        self.epoch_ms?.checked_mul(MS)?.checked_add_unsigned(completed_ns)
    }

    fn is_full(&self) -> bool {
        self.columns.time.len() >= Batch::ROWS
    }

    /// A line or record that is no event.
    fn strange(&mut self, number: u64, line: Result<&[u8], &str>, why: &'static str) -> Result<(), Error> {
        self.no_rows.add(&mut self.context, number, line, why)
    }

    fn hand_on(&mut self, sink: &mut Sink) -> ControlFlow<()> {
        let rows = self.columns.time.len();
        if rows == 0 {
            return ControlFlow::Continue(());
        }
        if self.windowed {
            self.context.tally.add(Anomaly::WindowedRows, rows as u64);
        }
        self.rows += rows as u64;
        let columns = &mut self.columns;
        let (mut first_ns, mut last_ns) = (i64::MAX, i64::MIN);
        for (&start_ns, &latency_ns) in columns.time.iter().zip(&columns.latency) {
            let end_ns = start_ns + latency_ns as i64;
            (first_ns, last_ns) = (first_ns.min(end_ns), last_ns.max(end_ns));
        }
        self.context.cover(first_ns);
        self.context.cover(last_ns);
        let fields = self.batch.fields();
        if fields.contains(Field::Host) {
            columns.host.resize(rows, self.host);
        }
        use std::mem::take as filled;
        let columns = [
            (Field::Time, Column::I64(filled(&mut columns.time))),
            (Field::Latency, Column::U64(filled(&mut columns.latency))),
            (Field::Kind, Column::Text(filled(&mut columns.kind))),
            (Field::Size, Column::U64(filled(&mut columns.size))),
            (Field::Offset, Column::U64(filled(&mut columns.offset))),
            (Field::Host, Column::Text(filled(&mut columns.host))),
            (Field::Job, Column::Text(filled(&mut columns.job))),
        ];
        self.batch.set_columns(columns.into_iter().filter(|(field, _)| fields.contains(*field)));
        let go_on = sink(&self.context, &self.batch);
        self.columns.take_back(&mut self.batch);
        go_on
    }

    fn finish(mut self, sink: &mut Sink) -> Result<Context, Error> {
        self.no_rows.finish(&mut self.context, self.rows + self.columns.time.len() as u64)?;
        let _ = self.hand_on(sink);
        Ok(self.context)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
