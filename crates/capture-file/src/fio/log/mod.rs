//! Logs of fio that hold every I/O: `write_lat_log` makes `*_clat.N.log`, `*_slat.N.log` and `*_lat.N.log`.
//!
//! A row is a completion; its time is cut to whole milliseconds, so the middle of the millisecond is taken, or, where fio
//! logged when it issued the I/O, that plus the latency. Rows of one job ascend; where time goes back, the next job (or
//! the next run) starts.

mod alike;
mod columns;
mod fz;
mod layout;
mod rows;

use crate::fio::beside::{AS_COUNTED, Facts};
use crate::fio::name::{LogKind, LogName};
use crate::input::Input;
use crate::text_rows::{Lines, NoRows};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use alike::{Block, Parser};
use columns::{Columns, Same};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, MISSING_CODE, format_count};
use layout::Probe;
pub use rows::FioColumns;
use rows::Row;
use std::ops::ControlFlow;
use std::path::Path;

/// The fields that a log can fill.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Size, Field::Offset, Field::Host, Field::Job]);

/// Completions of one job may overtake each other by this much before they are another job's.
const JITTER_MS: u64 = 5;
/// A time further than this from issue plus latency is not that of the same job's clock.
const DRIFT_NS: u64 = 10_000_000;
const MS: i64 = 1_000_000;
/// Times are rounded down, so on the average they are this much too early.
const HALF_MS: i64 = MS / 2;
/// The last whole millisecond of a clock of nanoseconds.
const LATEST_MS: u64 = (i64::MAX / MS - 2) as u64;

/// Every line has the same four to eight numbers, the third or fourth of which is a direction.
pub fn detect(input: &Input) -> Detected {
    if input.head().is_empty() && named(input).is_some_and(|name| name.kind != LogKind::ClatHist) {
        // A job that did no such I/O leaves an empty log, and a synchronous engine an empty slat log.
        return Detected::Yes;
    }
    if fz::detect(input.head()) {
        return Detected::Yes;
    }
    match Probe::detect(input.head(), None) {
        // The name decides the format, even if some lines are malformed.
        Some(probe) if probe.strange == 0 || named(input).is_some() => Detected::Yes,
        _ => Detected::No,
    }
}

/// Whether the rows of this file are averages over windows.
pub fn is_windowed(path: &Path) -> bool {
    let probe = Input::open(path, None).ok().and_then(|input| Probe::detect(input.head(), None));
    probe.is_some_and(|probe| probe.is_windowed())
}

fn named(input: &Input) -> Option<LogName> {
    LogName::parse(input.path.as_ref()?)
}

/// Reads a log; see the crate's `read`.
pub fn read(mut input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    let fail = |place: Position, message: &str| Err(Error::new(&file, place, message));
    let name = named(&input);
    if let Some(LogKind::Bandwidth | LogKind::Iops) = name.as_ref().map(|name| name.kind) {
        return fail(Position::File, "This log has bandwidth or IOPS, not latencies; read its _clat log.");
    }
    input.skip_long_lines()?;
    if input.is_empty() {
        if name.is_none() {
            return fail(Position::File, "The file is empty.");
        }
        let mut context = Context::new(format!("fio log, {file}"), Clock::unanchored("relative"));
        context.tally.add(Anomaly::EmptyLog, 1);
        return Ok(context);
    }
    let is_packed = fz::detect(input.head());
    let probe = if is_packed { fz::probe(input.head()) } else { Probe::detect(input.head(), options.fio_columns) };
    let Some(probe) = probe else {
        return fail(
            Position::Line(1),
            "No row of a fio latency log found (time, latency, direction 0 to 2, size; all integers).",
        );
    };
    if is_packed && (probe.has_addresses() || name.as_ref().is_some_and(|name| name.kind == LogKind::ClatHist)) {
        return fail(
            Position::File,
            "fio stored addresses instead of counts, because histogram logs do not work with log_store_compressed. \
             Run fio without log_store_compressed.",
        );
    }
    if name.is_none() && probe.counts_only() {
        return fail(Position::File, "Every value is 1, as in fio's IOPS logs; read the _clat log.");
    }
    let mut reader = Reader::new((&file, input.path.as_deref()), name, &probe, options);
    if is_packed {
        fz::read(input, &mut reader, sink)?
    } else {
        text(input, probe.layout, &mut reader, sink)?
    };
    reader.finish(sink)
}

fn text(input: Input, columns: FioColumns, reader: &mut Reader, sink: &mut Sink) -> Result<(), Error> {
    let mut parser = Parser::new(columns).up_to(LATEST_MS, i64::MAX as u64 / reader.same.unit_ns.max(1));
    let (mut lines, mut block) = (Lines::new(input), Block::new());
    loop {
        loop {
            let bytes = parser.rows(lines.rest(), &mut block);
            if bytes == 0 {
                break;
            }
            lines.skip(block.len(), bytes);
            reader.take_all(&block);
            if reader.is_full() && reader.hand_on(sink).is_break() {
                return Ok(());
            }
        }
        if lines.is_pause() && reader.hand_on(sink).is_break() {
            return Ok(());
        }
        let Some((number, line)) = lines.next()? else { return Ok(()) };
        match line.and_then(|line| parser.row(line)).and_then(|row| reader.take(row)) {
            Ok(()) if reader.is_full() && reader.hand_on(sink).is_break() => return Ok(()),
            Ok(()) => {}
            Err(why) => reader.strange(number, line, why)?,
        }
    }
}

/// Makes events of rows.
struct Reader {
    context: Context,
    batch: Batch,
    columns: Columns,
    name: Option<LogName>,
    same: Same,
    /// Whether latencies end with the issue, not with the completion.
    submission: bool,
    /// Milliseconds from the zero of the issue times to that of the times; none until it is known for this job.
    epoch_ms: Option<i64>,
    last_ms: u64,
    jobs: u32,
    host: u32,
    rows: u64,
    no_rows: NoRows,
    /// What the JSON beside the log says, where it is of single I/Os.
    facts: Facts,
}

impl Reader {
    fn new((file, path): (&str, Option<&Path>), name: Option<LogName>, probe: &Probe, options: &ReadOptions) -> Reader {
        let clock = if probe.is_wall() { Clock::wall() } else { Clock::unanchored("relative") };
        let mut context = Context::new(format!("fio log, {file}"), clock);
        context.start_ns = (!probe.is_wall()).then_some(0);
        context.host = name.as_ref().and_then(|name| name.host.clone());
        let given = options.two_columns.latency_unit_ns;
        let guessed = probe.unit(|| options.fio_results.version(path.filter(|_| given.is_none())?));
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
        let same = Same { unit_ns, windowed: probe.is_windowed(), kinds, job: MISSING_CODE };
        let mut reader = Reader {
            context,
            batch,
            columns: Columns::new(fields),
            name,
            same,
            submission,
            epoch_ms: probe.epoch_ms(submission),
            last_ms: 0,
            jobs: 0,
            host,
            rows: 0,
            no_rows: NoRows::new(file, options.lenient),
            facts: path
                .filter(|_| !probe.is_windowed())
                .map_or_else(Facts::default, |path| options.fio_results.facts(path)),
        };
        reader.start_job();
        reader
    }

    fn start_job(&mut self) {
        self.jobs += 1;
        if let Some(name) = &self.name {
            self.same.job = self.batch.intern(Field::Job, name.job(self.jobs).as_bytes());
        }
    }

    /// Makes an event of a row, or says why not.
    #[inline(always)]
    fn take(&mut self, row: Row) -> Result<(), &'static str> {
        if row.time_ms.saturating_add(JITTER_MS) < self.last_ms {
            self.start_job();
            self.epoch_ms = row.epoch_ms(self.submission).map(|ms| if ms < 10 { 0 } else { ms });
        }
        self.last_ms = row.time_ms;
        let mut end_ns = match i64::try_from(row.time_ms).ok().and_then(|ms| ms.checked_mul(MS)) {
            Some(ns) if ns < i64::MAX - MS => ns + HALF_MS,
            _ => return Err("an impossible time"),
        };
        // Nothing takes 292 years, and so late a start would be the value that stands for a missing one.
        let latency_ns = match row.value.checked_mul(self.same.unit_ns) {
            Some(ns) if ns <= i64::MAX as u64 => ns,
            _ => return Err("a latency of more than 292 years"),
        };
        if let Some(exact_ns) = self.exact(&row)
            && exact_ns.abs_diff(end_ns) <= DRIFT_NS
        {
            end_ns = exact_ns;
        }
        if row.strange_priority {
            self.context.tally.add(Anomaly::StrangePriority, 1);
        }
        self.columns.push(&row, (end_ns, latency_ns), &self.same);
        Ok(())
    }

    /// Makes events of rows that have no time of issue and are within all limits.
    fn take_all(&mut self, block: &Block) {
        let mut from = 0;
        for (at, &time_ms) in block.time_ms().iter().enumerate() {
            if time_ms.saturating_add(JITTER_MS) < self.last_ms {
                self.columns.extend(block, from..at, &self.same);
                from = at;
                self.start_job();
                self.epoch_ms = None;
            }
            self.last_ms = time_ms;
        }
        self.columns.extend(block, from..block.len(), &self.same);
    }

    /// Completion from the time of issue.
    #[inline(always)]
    fn exact(&self, row: &Row) -> Option<i64> {
        let completed_ns = row.completed_ns(self.submission)?;
        self.epoch_ms?.checked_mul(MS)?.checked_add_unsigned(completed_ns)
    }

    fn is_full(&self) -> bool {
        self.columns.is_full()
    }

    /// A line or record that is no event.
    fn strange(&mut self, number: u64, line: Result<&[u8], &str>, why: &'static str) -> Result<(), Error> {
        self.no_rows.add(&mut self.context, number, line, why)
    }

    fn hand_on(&mut self, sink: &mut Sink) -> ControlFlow<()> {
        let rows = self.columns.len() as u64;
        if rows == 0 {
            return ControlFlow::Continue(());
        }
        if self.same.windowed {
            self.context.tally.add(Anomaly::WindowedRows, rows);
        }
        self.rows += rows;
        let (first_ns, last_ns) = self.columns.fill(&mut self.batch, self.host);
        self.context.cover(first_ns);
        self.context.cover(last_ns);
        let go_on = sink(&self.context, &self.batch);
        self.columns.take_back(&mut self.batch);
        go_on
    }

    fn finish(mut self, sink: &mut Sink) -> Result<Context, Error> {
        self.no_rows.finish(&mut self.context, self.rows + self.columns.len() as u64)?;
        let rows = self.rows + self.columns.len() as u64;
        match self.facts.ios {
            Some(ios) if ios == rows => {
                self.context.properties.insert(Context::COMPLETE.into(), AS_COUNTED.into());
            }
            Some(ios) => self.context.tally.add(Anomaly::Unlogged, ios.saturating_sub(rows)),
            None => {}
        }
        self.context.tally.add(Anomaly::FailedJobs, u64::from(self.facts.failed));
        let _ = self.hand_on(sink);
        Ok(self.context)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
