//! Response times of smallfile: `rsptimes_<thread>_<host>_<op>_<start>.csv`, a row of operation, start and duration each.

use crate::input::Input;
use crate::scan::leading_number;
use crate::{Detected, Error, Place, ReadOptions, Sink};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet};

/// The fields of an operation; the thread is the job.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(Field::Kind).with(Field::Name).with(Field::Host).with(Field::Job);

/// What the name of the file tells.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    thread: String,
    host: String,
    /// Since the Unix epoch.
    start_ns: i64,
}

impl Name {
    fn of(name: &str) -> Option<Name> {
        let name = [".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let (rest, start) = name.strip_prefix("rsptimes_")?.strip_suffix(".csv")?.rsplit_once('_')?;
        let (rest, _operation) = rest.rsplit_once('_')?;
        let (thread, host) = rest.split_once('_')?;
        let start_ns = i64::try_from(seconds(start.as_bytes())?).ok()?;
        Some(Name { thread: thread.into(), host: host.into(), start_ns })
    }
}

/// Decimal seconds as nanoseconds.
fn seconds(text: &[u8]) -> Option<u64> {
    let (whole, len) = leading_number(text)?;
    let mut ns = whole.checked_mul(1_000_000_000)?;
    let fraction = match &text[len..] {
        [b'.', digits @ ..] => digits,
        [] => &[],
        _ => return None,
    };
    let mut unit = 100_000_000;
    for &digit in fraction {
        ns = ns.checked_add(u64::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit)?;
        unit /= 10;
    }
    (len > 0 || !fraction.is_empty()).then_some(ns)
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

/// Every line is a row.
pub fn detect(head: &[u8]) -> Detected {
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
    let path = input.path.as_ref().and_then(|path| Name::of(path.file_name()?.to_str()?));
    let clock = if path.is_some() { Clock::wall() } else { Clock::unanchored("relative") };
    let mut context = Context::new(format!("smallfile, {file}"), clock);
    context.host = path.as_ref().map(|name| name.host.clone());
    let zero_ns = path.as_ref().map_or(0, |name| name.start_ns);
    let mut batch = Batch::new(options.fields.intersection(FILLS));
    let (mut lines, mut chunk) = (input.lines(), Vec::new());
    let (mut line_number, mut rows, mut first_bad) = (0u64, 0u64, None);
    while lines.next(&mut chunk).map_err(|error| lines.input.error(&error))? {
        for line in chunk.split(|&byte| byte == b'\n') {
            line_number += 1;
            let event = parse(line).and_then(|(operation, start_ns, latency_ns)| {
                let start_ns = zero_ns.checked_add_unsigned(start_ns)?;
                Some((operation, start_ns, latency_ns, start_ns.checked_add_unsigned(latency_ns)?))
            });
            let Some((operation, start_ns, latency_ns, end_ns)) = event else {
                if !line.trim_ascii().is_empty() {
                    context.tally.add(Anomaly::UnparsedLines, 1);
                    first_bad = first_bad.or(Some(line_number));
                }
                continue;
            };
            rows += 1;
            context.cover(start_ns);
            context.cover(end_ns);
            batch.push_i64(Field::Time, start_ns);
            batch.push_u64(Field::Latency, latency_ns);
            batch.push_text(Field::Kind, Some(kind(operation)));
            batch.push_text(Field::Name, Some(operation));
            batch.push_text(Field::Host, path.as_ref().map(|name| name.host.as_bytes()));
            batch.push_text(Field::Job, path.as_ref().map(|name| name.thread.as_bytes()));
            batch.end_row();
            if batch.is_full() {
                let go_on = sink(&context, &batch);
                batch.clear();
                if go_on.is_break() {
                    return Ok(context);
                }
            }
        }
        // A chunk ends with its newline, after which there is no line.
        line_number -= u64::from(chunk.ends_with(b"\n"));
    }
    context.tally.add(Anomaly::UnparsedLines, lines.too_long);
    if rows == 0 {
        let place = first_bad.map_or(Place::File, Place::Line);
        return Err(Error::new(file, place, "There is no row of smallfile: operation, start and duration in seconds."));
    }
    if !batch.is_empty() {
        let _ = sink(&context, &batch);
    }
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rows() {
        let name = Name { thread: "00".into(), host: "vm_1.x".into(), start_ns: 1_795_225_091_115_588_200 };
        assert_eq!(Name::of("rsptimes_00_vm_1.x_create_1795225091.1155882.csv.gz"), Some(name));
        assert_eq!(Name::of("rsptimes_00.csv"), None);
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
    fn detection() {
        for (text, expect) in [
            (&b"  create,  0.000047,  0.000146\n  creat"[..], Detected::Yes),
            (b"a, 1.5, 2.5", Detected::Yes),
            (b"time, lat, x\n", Detected::No),
            (b"", Detected::No),
            (b"1, 2, 0, 4096\n", Detected::No),
        ] {
            assert_eq!(detect(text), expect);
        }
    }
}
