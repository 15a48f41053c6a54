//! Response times of smallfile: `rsptimes_<thread>_<host>_<op>_<start>.csv`, a row of operation, start and duration each.

use crate::input::Input;
use crate::scan::decimal_seconds as seconds;
use crate::text_rows::{NO_END, NO_TIMED_ROW, NoRows, Piece, Rows, each_line, is_unended};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Batch, Clock, Context, Field, FieldSet};
use std::ops::ControlFlow;
use std::path::Path;

/// The fields of an operation; the thread is the job.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Name, Field::Host, Field::Job]);

/// What the name of the file gives.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    thread: String,
    host: String,
    /// Since the Unix epoch.
    start_ns: i64,
}

impl Name {
    fn parse(name: &str) -> Option<Name> {
        let name = [".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let (rest, start) = name.strip_prefix("rsptimes_")?.strip_suffix(".csv")?.rsplit_once('_')?;
        let (rest, _operation) = rest.rsplit_once('_')?;
        let (thread, host) = rest.split_once('_')?;
        let start_ns = i64::try_from(seconds(start.as_bytes())?).ok()?;
        Some(Name { thread: thread.into(), host: host.into(), start_ns })
    }
}

/// Operation, start and duration.
fn parse(line: &[u8]) -> Option<(&[u8], u64, u64)> {
    let mut columns = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let operation = columns.next()?;
    let named = operation.first()?.is_ascii_alphabetic()
        && operation.len() < 64
        && operation.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let (start_ns, latency_ns) = (seconds(columns.next()?)?, seconds(columns.next()?)?);
    (named && columns.next().is_none() && latency_ns <= i64::MAX as u64).then_some((operation, start_ns, latency_ns))
}

/// Every line is a row; the name decides the format, even if some lines are malformed.
pub fn detect(input: &Input) -> Detected {
    let is_named = || input.path.as_ref().is_some_and(|path| name_of(path).is_some());
    let is_row = |line: &[u8]| parse(line).is_some();
    match detect_in(input.head()) {
        Detected::No if is_named() && input.head().split(|&byte| byte == b'\n').any(is_row) => Detected::Yes,
        detected => detected,
    }
}

fn name_of(path: &Path) -> Option<Name> {
    Name::parse(path.file_name()?.to_str()?)
}

fn detect_in(head: &[u8]) -> Detected {
    let whole = match memchr::memrchr(b'\n', head) {
        Some(end) => &head[..end],
        None => head,
    };
    let mut lines = whole.split(|&byte| byte == b'\n').take(100);
    if !whole.is_empty() && lines.all(|line| parse(line).is_some()) { Detected::Yes } else { Detected::No }
}

/// The kind of an operation of smallfile.
fn kind(operation: &[u8]) -> &'static [u8] {
    match operation {
        b"read" | b"swift-get" => b"read",
        b"create" | b"append" | b"overwrite" | b"swift-put" | b"truncate-overwrite" => b"write",
        _ => b"other",
    }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    let path = input.path.as_deref().and_then(name_of);
    let clock = if path.is_some() { Clock::wall() } else { Clock::unanchored("relative") };
    let mut context = Context::new(format!("smallfile, {file}"), clock);
    context.host = path.as_ref().map(|name| name.host.clone());
    let run_start_ns = path.as_ref().map_or(0, |name| name.start_ns);
    let mut rows = Rows::new(context, Batch::new(options.fields.intersection(FILLS)), sink);
    let mut no_rows = NoRows::new(&file, options.lenient);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.hand_on()) };
        // The duration is at the end: it may have been cut.
        if is_unended(number, line) {
            return no_rows.add(&mut rows.context, number, line, NO_END).map(ControlFlow::Continue);
        }
        let event = line.ok().and_then(parse).and_then(|(operation, start_ns, latency_ns)| {
            let start_ns = run_start_ns.checked_add_unsigned(start_ns)?;
            Some((operation, start_ns, latency_ns, start_ns.checked_add_unsigned(latency_ns)?))
        });
        let Some((operation, start_ns, latency_ns, end_ns)) = event else {
            no_rows.add(&mut rows.context, number, line, line.err().unwrap_or(NO_TIMED_ROW))?;
            return Ok(ControlFlow::Continue(()));
        };
        rows.context.cover(start_ns);
        rows.context.cover(end_ns);
        let batch = &mut rows.batch;
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_text(Field::Kind, Some(kind(operation)));
        batch.push_text(Field::Name, Some(operation));
        batch.push_text(Field::Host, path.as_ref().map(|name| name.host.as_bytes()));
        batch.push_text(Field::Job, path.as_ref().map(|name| name.thread.as_bytes()));
        Ok(rows.end_row())
    })?;
    no_rows.finish(&mut rows.context, rows.count)?;
    if rows.count == 0 {
        return Err(Error::new(file, Position::File, "No row of smallfile found (operation, start, duration)."));
    }
    Ok(rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Anomaly;

    #[test]
    fn names_and_rows() {
        let name = Name { thread: "00".into(), host: "vm_1.x".into(), start_ns: 1_795_225_091_115_588_200 };
        assert_eq!(Name::parse("rsptimes_00_vm_1.x_create_1795225091.1155882.csv.gz"), Some(name));
        assert_eq!(Name::parse("rsptimes_00.csv"), None);
        assert_eq!(parse(b"  create,  0.000047,  0.000146"), Some((&b"create"[..], 47_000, 146_000)));
        for line in [&b"create, 1"[..], b"create, 1, 2, 3", b"1, 2, 3", b"create, -1, 2", b"create, 1, 99999999999"] {
            assert_eq!(parse(line), None, "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(seconds(b"1.0000000019"), Some(1_000_000_001));
        assert_eq!(
            (kind(b"swift-get"), kind(b"overwrite"), kind(b"mkdir")),
            (&b"read"[..], &b"write"[..], &b"other"[..])
        );
    }

    #[test]
    fn a_duration_that_is_cut_is_none() {
        let text = "  create,  0.000047,  0.000146\n  create,  0.000247,  0.000255\n";
        let read_of = |text: &str| {
            let (input, mut rows) = (Input::from_bytes("test", text.as_bytes()).unwrap(), 0);
            let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
                rows += batch.len();
                ControlFlow::Continue(())
            });
            (rows, context.unwrap().tally.get(Anomaly::Truncated))
        };
        assert_eq!(read_of(text), (2, 0));
        for cut in 1..31 {
            assert_eq!(read_of(&text[..text.len() - cut]), (1, 1), "{cut}");
        }
    }

    #[test]
    fn detection() {
        for (text, expect) in [
            (&b"  create,  0.000047,  0.000146\n  creat"[..], Detected::Yes),
            (b"a, 1.5, 2.5", Detected::Yes),
            (b"time, lat, x\n", Detected::No),
            (b"", Detected::No),
            (b"1, 2, 0, 4096\n", Detected::No),
        ] {
            assert_eq!(detect_in(text), expect);
        }
    }
}
