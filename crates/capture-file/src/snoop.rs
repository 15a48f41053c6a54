//! What biosnoop (of bcc, libbpf-tools and bpftrace) and iosnoop (of perf-tools) print: a line for each block request.
//!
//! The header names the columns. A command name may hold blanks, so columns are counted from both ends of the line.

use crate::input::Input;
use crate::scan::{decimal_milliseconds, decimal_seconds, leading_number};
use crate::text_rows::{MISSING, Piece, Rows, each_line};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::kernel::block_kind;
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, MISSING_I64, MISSING_U64};
use memchr::memmem;
use std::ops::ControlFlow;

/// The fields of a request.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Offset,
    Field::Device,
    Field::Dev,
    Field::Pid,
    Field::Comm,
    Field::Queue,
]);

/// The header is among the first lines.
const LOOKED_AT: usize = 10;
const SECTOR: u64 = 512;
const NO_NUMBER: &str = "something other than a number where one is required";

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    /// Seconds, or milliseconds, of the completion.
    End,
    EndMs,
    Start,
    Comm,
    Pid,
    Disk,
    Dev,
    Letters,
    Sector,
    Bytes,
    Queue,
    Latency,
    /// The pattern of bcc's `-P`.
    Other,
}

impl Column {
    fn parse(heading: &[u8]) -> Option<Column> {
        Some(match heading {
            b"TIME(s)" | b"ENDs" => Column::End,
            b"TIME(ms)" => Column::EndMs,
            b"STARTs" => Column::Start,
            b"COMM" => Column::Comm,
            b"PID" => Column::Pid,
            b"DISK" => Column::Disk,
            b"DEV" => Column::Dev,
            b"T" | b"TYPE" => Column::Letters,
            b"SECTOR" | b"BLOCK" => Column::Sector,
            b"BYTES" => Column::Bytes,
            b"QUE(ms)" => Column::Queue,
            b"LAT(ms)" | b"LATms" => Column::Latency,
            b"P" => Column::Other,
            _ => return None,
        })
    }
}

/// The columns of a header.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Header {
    before_comm: Vec<Column>,
    after_comm: Vec<Column>,
}

impl Header {
    fn parse(line: &[u8]) -> Option<Header> {
        let columns: Option<Vec<Column>> = words(line).map(Column::parse).collect();
        let columns = columns.filter(|columns| columns.contains(&Column::Latency))?;
        let comm = columns.iter().position(|&column| column == Column::Comm)?;
        Some(Header { before_comm: columns[..comm].to_vec(), after_comm: columns[comm + 1..].to_vec() })
    }

    fn has(&self, column: Column) -> bool {
        self.before_comm.contains(&column) || self.after_comm.contains(&column)
    }

    fn has_time(&self) -> bool {
        [Column::End, Column::EndMs, Column::Start].iter().any(|&column| self.has(column))
    }
}

/// A request as it stands there.
#[derive(Default)]
struct Row<'a> {
    start_ns: Option<u64>,
    end_ns: Option<u64>,
    comm: &'a [u8],
    pid: Option<i64>,
    disk: Option<&'a [u8]>,
    dev: Option<&'a [u8]>,
    letters: Option<&'a [u8]>,
    sector: Option<u64>,
    bytes: Option<u64>,
    queue_ns: Option<u64>,
    latency_ns: Option<u64>,
}

impl<'a> Row<'a> {
    fn parse(line: &'a [u8], header: &Header) -> Result<Row<'a>, &'static str> {
        let (mut row, mut rest) = (Row::default(), line.trim_ascii());
        for &column in &header.before_comm {
            let len = rest.iter().position(u8::is_ascii_whitespace).ok_or(MISSING)?;
            row.set(column, &rest[..len])?;
            rest = rest[len..].trim_ascii_start();
        }
        for &column in header.after_comm.iter().rev() {
            let at = rest.iter().rposition(u8::is_ascii_whitespace).ok_or(MISSING)?;
            row.set(column, &rest[at + 1..])?;
            rest = rest[..at].trim_ascii_end();
        }
        row.comm = rest;
        Ok(row)
    }

    fn set(&mut self, column: Column, text: &'a [u8]) -> Result<(), &'static str> {
        let time = |ns: Option<u64>| ns.filter(|&ns| ns < i64::MAX as u64 / 2).ok_or(NO_NUMBER);
        let whole = || leading_number(text).filter(|&(_, len)| len == text.len()).map(|(value, _)| value);
        match column {
            Column::Start => self.start_ns = Some(time(decimal_seconds(text))?),
            Column::End => self.end_ns = Some(time(decimal_seconds(text))?),
            Column::EndMs => self.end_ns = Some(time(decimal_milliseconds(text))?),
            Column::Latency => self.latency_ns = Some(time(decimal_milliseconds(text))?),
            // Unknown waits are negative.
            Column::Queue => self.queue_ns = decimal_milliseconds(text).filter(|&ns| ns < i64::MAX as u64),
            Column::Pid => self.pid = Some(whole().and_then(|pid| i64::try_from(pid).ok()).ok_or(NO_NUMBER)?),
            Column::Sector => self.sector = whole(),
            Column::Bytes => self.bytes = whole(),
            Column::Letters => self.letters = Some(text),
            Column::Disk => self.disk = Some(text),
            Column::Dev => self.dev = Some(text),
            Column::Comm | Column::Other => {}
        }
        Ok(())
    }

    /// Start and latency. The two times of iosnoop are more exact than its latency.
    fn times(&self) -> Option<(i64, u64)> {
        let (start_ns, latency_ns) = match (self.start_ns, self.end_ns, self.latency_ns) {
            (Some(start_ns), Some(end_ns), _) => (start_ns as i64, end_ns.checked_sub(start_ns)?),
            (Some(start_ns), None, Some(latency_ns)) => (start_ns as i64, latency_ns),
            (None, Some(end_ns), Some(latency_ns)) => (end_ns as i64 - latency_ns as i64, latency_ns),
            _ => return None,
        };
        Some((start_ns, latency_ns))
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// There is a header of these tools.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n').take(LOOKED_AT);
    if lines.any(|line| Header::parse(line).is_some()) { Detected::Yes } else { Detected::No }
}

/// `Lost 12 samples`, `Possibly lost 12 samples`.
fn lost(line: &[u8]) -> Option<u64> {
    let at = memmem::find(line, b"ost ")? + 4;
    let (count, len) = leading_number(&line[at..]).filter(|&(_, len)| len > 0)?;
    let what = line[at + len..].trim_ascii();
    (what == b"samples" || what == b"events").then_some(count)
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let context = Context::new(format!("biosnoop, {name}"), Clock::unanchored("relative"));
    let mut rows = Rows::new(context, Batch::new(options.fields.intersection(FILLS)), sink);
    let mut header: Option<Header> = None;
    let fail = |position, message: &str| Error::new(&name, position, message);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.hand_on()) };
        let text = line.unwrap_or_default();
        if let Some(columns) = Header::parse(text) {
            if !columns.has_time() {
                let message = "The output has no time column; run iosnoop with -ts.";
                return Err(fail(Position::Line(number), message));
            }
            if columns.has(Column::Start) || columns.has(Column::Dev) {
                rows.context.source = format!("iosnoop, {name}");
                rows.context.clock = Clock::unanchored("boot");
            }
            header = Some(columns);
        } else if let Some(count) = lost(text) {
            rows.context.tally.add(Anomaly::LostRecords, count);
        } else if let (Some(header), false) = (&header, text.starts_with(b"Ending tracing") || text.starts_with(b"^C"))
        {
            // The latency is at the end: it may have been cut.
            let row = if text.ends_with(b"\n") { Row::parse(text, header) } else { Err(MISSING) };
            return match row.map_err(Some).and_then(|row| add(&mut rows, &row)) {
                Ok(go_on) => Ok(go_on),
                // From kernel 6.11 on the records have one more column, of which iosnoop knows nothing.
                Err(None) => Err(fail(
                    Position::Line(number),
                    "iosnoop misreads the block events of kernels from 6.11 on (BLOCK is +): it pairs any request of \
                     a device with any other, so these latencies are wrong; record with perf record -e \
                     block:block_rq_issue -e block:block_rq_complete -a.",
                )),
                Err(Some(why)) => {
                    rows.add_malformed(number, line, why);
                    Ok(ControlFlow::Continue(()))
                }
            };
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if header.is_none() {
        return Err(fail(Position::File, "No header of biosnoop or iosnoop found (COMM, PID ... LAT(ms))."));
    }
    Ok(rows.finish())
}

/// Adds a request; none is the reason of iosnoop's broken rows.
fn add(rows: &mut Rows, row: &Row) -> Result<ControlFlow<()>, Option<&'static str>> {
    // Only such a row has words in place of numbers, whose last one is the block.
    if row.sector.is_none() && row.bytes == Some(0) && row.dev.is_some() {
        return Err(None);
    }
    let (start_ns, latency_ns) = row.times().ok_or(Some("an end before its start"))?;
    rows.context.cover(start_ns);
    rows.context.cover(start_ns.saturating_add_unsigned(latency_ns));
    let batch = &mut rows.batch;
    batch.push_i64(Field::Time, start_ns);
    batch.push_u64(Field::Latency, latency_ns);
    batch.push_text(Field::Kind, row.letters.map(|letters| block_kind(letters).as_bytes()));
    batch.push_text(Field::Name, row.letters);
    batch.push_u64(Field::Size, row.bytes.unwrap_or(MISSING_U64));
    let offset = row.sector.and_then(|sector| sector.checked_mul(SECTOR));
    batch.push_u64(Field::Offset, offset.unwrap_or(MISSING_U64));
    batch.push_text(Field::Device, row.disk);
    let mut number = [0; 24];
    let dev = row.dev.and_then(|dev| colon(dev, &mut number));
    batch.push_text(Field::Dev, dev);
    batch.push_i64(Field::Pid, row.pid.unwrap_or(MISSING_I64));
    batch.push_text(Field::Comm, Some(row.comm).filter(|comm| !comm.is_empty()));
    batch.push_u64(Field::Queue, row.queue_ns.unwrap_or(MISSING_U64));
    Ok(rows.end_row())
}

/// `254,0` as `254:0`.
fn colon<'t>(dev: &[u8], to: &'t mut [u8; 24]) -> Option<&'t [u8]> {
    let to = to.get_mut(..dev.len())?;
    to.copy_from_slice(dev);
    let comma = to.iter().position(|&byte| byte == b',')?;
    to[comma] = b':';
    Some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Event = (i64, u64, String, i64, u64);

    fn read_text(text: &str) -> Result<(Vec<Event>, Context), Error> {
        let mut events = Vec::new();
        let input = Input::from_bytes("test", text.as_bytes()).unwrap();
        let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            events.extend((0..batch.len()).map(|row| {
                let texts = [Field::Kind, Field::Device, Field::Dev, Field::Comm].map(|field| batch.text(field, row));
                let texts = texts.map(|text| text.unwrap_or("-")).join(" ");
                let (pid, queue) = (batch.i64s(Field::Pid).unwrap()[row], batch.u64s(Field::Queue).unwrap()[row]);
                (batch.time()[row], batch.latency()[row], texts, pid, queue)
            }));
            ControlFlow::Continue(())
        })?;
        Ok((events, context))
    }

    #[test]
    fn layouts_by_their_header() {
        const NONE: u64 = MISSING_U64;
        for (text, event) in [
            (
                "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n\
                 0.142272    kworker/0:1H-k 44      vda       R 341432584  4096      0.22\n",
                (142_052_000, 220_000, "read vda - kworker/0:1H-k".to_string(), 44, NONE),
            ),
            (
                "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P QUE(ms) LAT(ms)\n\
                 1.000000    opt cgu.00     4411    sda       W 8          512    S    0.05    1.00\n",
                (999_000_000, 1_000_000, "write sda - opt cgu.00".into(), 4411, 50_000),
            ),
            (
                "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms)  LAT(ms)\n\
                 1.000000    dd             7       vda     WS   8          512      -1.000    1.234\n",
                (998_766_000, 1_234_000, "write vda - dd".into(), 7, NONE),
            ),
            (
                "Attaching 5 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n\
                 142          vda     a b              44           2\n",
                (140_000_000, 2_000_000, "- vda - a b".into(), 44, NONE),
            ),
            (
                "Tracing block I/O. Ctrl-C to end.\n\
                 STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                 1647.268218     1647.268980     kworker/0:1H 44     DS   254,0    351604736    2084864     0.76\n\
                 Ending tracing...\n",
                (1_647_268_218_000, 762_000, "discard - 254:0 kworker/0:1H".into(), 44, NONE),
            ),
            (
                "STARTs          COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                 1647.268218     dd           44     R    254,0    8            512         0.76\n",
                (1_647_268_218_000, 760_000, "read - 254:0 dd".into(), 44, NONE),
            ),
        ] {
            assert_eq!(detect(text.as_bytes()), Detected::Yes, "{text}");
            let (events, context) = read_text(text).unwrap();
            assert_eq!((events, context.is_plain()), (vec![event], true), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_counted_or_refused() {
        let header = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n";
        let text = format!(
            "{header}Possibly lost 12 samples\n0.5 dd 7 vda R 8 512 0.1\n\n0.5 dd x vda R 8 512 0.1\n0.6 dd 7 vda"
        );
        let (events, context) = read_text(&text).unwrap();
        let counts = [Anomaly::LostRecords, Anomaly::UnparsedLines, Anomaly::Truncated];
        assert_eq!((events.len(), counts.map(|anomaly| context.tally.get(anomaly))), (1, [12, 1, 1]));
        for (text, why) in [
            (
                "COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n",
                "no time column; run iosnoop with -ts.",
            ),
            (
                "STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
                 2076.336032     2076.338028     reader-26010 26010  RS   7,3      +            0          2.00\n",
                "these latencies are wrong; record with perf record",
            ),
            ("hello\n", "No header of biosnoop or iosnoop found"),
        ] {
            let message = read_text(text).unwrap_err().message;
            assert!(message.contains(why), "{message}");
        }
        assert_eq!(detect(b"COMM PID\n1 2\n"), Detected::No);
    }
}
