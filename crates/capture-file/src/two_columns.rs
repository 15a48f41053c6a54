//! Two columns of numbers, time of completion and latency, as trace2heatmap reads them and `btt -l` writes them.
//!
//! Commas, semicolons and tabs separate as blanks do; `#` lines and a header are skipped; a third column is a label.
//! Rows may come in any order.

use crate::input::Input;
use crate::text_rows::{Piece, Rows, each_line, is_unended};
use crate::{Detected, Error, Position, ReadOptions, Remedy, Sink};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet, MISSING_U64, Note, parse_duration};
use std::ops::ControlFlow;

/// The fields of a two-column file; a third column is the job.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Job, Field::Size, Field::Offset]);

/// Units of the columns, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoColumns {
    /// Unit of the time column.
    pub time_unit_ns: u64,
    /// Unit of the latency column; that of the time column when not given.
    pub latency_unit_ns: Option<u64>,
    /// The second column holds sizes or offsets in units of so many bytes, no latency.
    pub unit_bytes: Option<u64>,
}

impl Default for TwoColumns {
    /// Seconds, as trace2heatmap.
    fn default() -> TwoColumns {
        TwoColumns { time_unit_ns: 1_000_000_000, latency_unit_ns: None, unit_bytes: None }
    }
}

impl TwoColumns {
    /// The size of a unit by its name, in bytes: `bytes`, `kbytes`, `Mbytes`, `Gbytes`, as trace2heatmap's examples have them.
    pub fn bytes(name: &str) -> Option<u64> {
        let units = ["bytes", "kbytes", "mbytes", "gbytes"];
        let power = units
            .iter()
            .position(|unit| name.eq_ignore_ascii_case(unit) || name.eq_ignore_ascii_case(&unit[..unit.len() - 4]))?;
        Some(1 << (10 * power))
    }

    /// The length of a unit by its name: `s`, `ms`, `us`, `ns`.
    pub fn unit(name: &str) -> Option<u64> {
        match name {
            "s" | "sec" | "seconds" => Some(1_000_000_000),
            "ms" => Some(1_000_000),
            "us" | "µs" | "μs" => Some(1_000),
            "ns" => Some(1),
            _ => None,
        }
    }
}

/// Lines of numbers only, two or three to the line, but for one in ten; the first line may be a header.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| !skipped(line));
    // The last line of the head may be cut.
    let whole = lines.clone().count().saturating_sub(usize::from(!head.ends_with(b"\n")));
    let looked_at: Vec<&[u8]> = lines.by_ref().take(whole.clamp(1, 100)).collect();
    let is_row = |line: &&&[u8]| parse(line, 1, 1).is_some() && columns(line).nth(3).is_none();
    // What is bad but no sentence: a negative number, a word for a missing one, a line that was cut.
    let is_short = |line: &&&[u8]| (1..=3).contains(&columns(line).count());
    let rows = |lines: &[&[u8]]| {
        let good = lines.iter().filter(is_row).count();
        good == lines.len() || good * 10 >= lines.len() * 9 && lines.iter().all(|line| is_short(&line))
    };
    match looked_at[..] {
        [] => Detected::NeedMore,
        [_, ref rest @ ..] if !rest.is_empty() && rows(rest) => Detected::Yes,
        [only] if rows(&[only]) => Detected::Yes,
        // Of few lines one may be bad.
        [_, _, ref rest @ ..] if rest.len() < 9 => {
            let good = looked_at.iter().filter(is_row).count();
            if good >= 2 && good + 1 >= looked_at.len() && looked_at.iter().all(|line| is_short(&line)) {
                Detected::Yes
            } else {
                Detected::No
            }
        }
        _ => Detected::No,
    }
}

fn skipped(line: &[u8]) -> bool {
    line.trim_ascii().is_empty() || line.trim_ascii_start().starts_with(b"#")
}

fn columns(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';' | b'\r' | b'\n')).filter(|column| !column.is_empty())
}

/// Time in nanoseconds, latency in nanoseconds, label.
fn parse(line: &[u8], time_unit: u64, latency_unit: u64) -> Option<(i64, u64, Option<&[u8]>)> {
    let mut columns = columns(line);
    let time = number(columns.next()?, time_unit)?;
    // Nothing takes 292 years, and so late a start would be the value that stands for a missing one.
    let latency = number(columns.next()?, latency_unit).filter(|&latency| latency <= i64::MAX as u64)?;
    Some((i64::try_from(time).ok()?, latency, columns.next()))
}

/// Time in nanoseconds, bytes, label.
fn parse_bytes(line: &[u8], time_unit: u64, unit: u64) -> Option<(i64, u64, Option<&[u8]>)> {
    let mut columns = columns(line);
    let time = number(columns.next()?, time_unit)?;
    let value: f64 = std::str::from_utf8(columns.next()?).ok()?.parse().ok()?;
    let bytes = (value * unit as f64).round();
    let bytes = (0.0..i64::MAX as f64).contains(&bytes).then_some(bytes as u64)?;
    Some((i64::try_from(time).ok()?, bytes, columns.next()))
}

/// A plain decimal number in a unit, or one with a unit of its own; rounded to nanoseconds.
fn number(text: &[u8], unit: u64) -> Option<u64> {
    let mut whole: u64 = 0;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' if at < 18 => whole = whole * 10 + u64::from(byte - b'0'),
            _ => return fraction(text, unit),
        }
    }
    if text.is_empty() { None } else { whole.checked_mul(unit) }
}

fn fraction(text: &[u8], unit: u64) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return parse_duration(text).ok();
    }
    let suffix = match unit {
        1_000_000_000 => "s",
        1_000_000 => "ms",
        1_000 => "us",
        _ => "ns",
    };
    parse_duration(&format!("{text}{suffix}")).ok()
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let context = Context::new(format!("two columns, {name}"), Clock::unanchored("relative"));
    let time_unit = options.two_columns.time_unit_ns;
    let unit_bytes = options.two_columns.unit_bytes;
    let latency_unit = options.two_columns.latency_unit_ns.unwrap_or(time_unit);
    let fills = if unit_bytes.is_some() { FILLS } else { FieldSet::ALWAYS.with(&[Field::Job]) };
    let mut rows = Rows::new(context, Batch::new(options.fields.intersection(fills)), sink);
    let (mut first_bad, mut is_too_large, mut latencies_ns) = (None, false, 0u128);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.hand_on()) };
        if line.is_ok_and(skipped) {
            return Ok(ControlFlow::Continue(()));
        }
        // A number that was cut would be another one; a row that is the only one is taken for whole.
        if rows.count > 0 && is_unended(number, line) {
            rows.context.tally.add(Anomaly::Truncated, 1);
            return Ok(ControlFlow::Continue(()));
        }
        let row = line.ok().and_then(|line| match unit_bytes {
            None => parse(line, time_unit, latency_unit)
                .map(|(end_ns, latency_ns, label)| (end_ns, latency_ns, None, label)),
            Some(unit) => {
                parse_bytes(line, time_unit, unit).map(|(end_ns, bytes, label)| (end_ns, 0, Some(bytes), label))
            }
        });
        let Some((end_ns, latency_ns, bytes, label)) = row else {
            // A header is one line with letters before all rows.
            if rows.count > 0 || first_bad.is_some() || line.is_err() {
                rows.context.tally.add(Anomaly::UnparsedLines, 1);
            }
            first_bad = first_bad.or(Some(number));
            is_too_large |= line.is_ok_and(|line| parse(line, 1, 1).is_some());
            return Ok(ControlFlow::Continue(()));
        };
        if rows.count == 0 && end_ns > 1_000_000_000_000_000_000 {
            // A time after September 2001 is one on the wall; no machine has been up that long.
            rows.context.clock = Clock::wall();
        }
        rows.context.cover(end_ns);
        latencies_ns += u128::from(latency_ns);
        rows.batch.push_i64(Field::Time, end_ns.saturating_sub_unsigned(latency_ns));
        rows.batch.push_u64(Field::Latency, latency_ns);
        for field in [Field::Size, Field::Offset] {
            rows.batch.push_u64(field, bytes.unwrap_or(MISSING_U64));
        }
        rows.batch.push_text(Field::Job, label);
        Ok(rows.end_row())
    })?;
    if rows.count == 0 {
        let place = first_bad.map_or(Position::File, Position::Line);
        if is_too_large {
            let error = Error::new(name, place, "The times or latencies exceed 292 years in this unit.");
            return Err(error.with_remedy(Remedy::Units));
        }
        return Err(Error::new(name, place, "No row of two numbers, time and latency, found."));
    }
    if let Some(note) = implausible(&rows.context, rows.count, latencies_ns) {
        rows.context.note(note);
    }
    Ok(rows.finish())
}

/// A year: nobody traces every request for longer.
const LONG_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// No device has more requests in flight, and no request completes faster.
const CROWD: u128 = 100_000;
const FASTEST_PER_S: u128 = 1_000_000_000;
/// Fewer rows give nothing of that.
const FEW: u64 = 100;

/// What makes it likely that the units are others than assumed.
fn implausible(context: &Context, count: u64, latencies_ns: u128) -> Option<Note> {
    let (from_ns, to_ns) = context.span_ns?;
    let span_ns = to_ns.abs_diff(from_ns);
    let in_flight = latencies_ns / u128::from(span_ns.max(1));
    let per_s = u128::from(count) * 1_000_000_000 / u128::from(span_ns.max(1));
    let number = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    if span_ns > LONG_NS {
        return Some(Note::ImplausibleSpan { span_ns });
    }
    if count >= FEW && per_s > FASTEST_PER_S {
        return Some(Note::ImplausibleRate { per_s: number(per_s) });
    }
    let is_crowded = count >= FEW && span_ns > 0 && in_flight > CROWD;
    is_crowded.then(|| Note::ImplausibleOverlap { in_flight: number(in_flight) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completion, latency and label.
    type Row = (i64, u64, Option<String>);

    /// Every row, and how many lines were not understood.
    fn rows_of(text: &[u8], units: TwoColumns) -> Result<(Vec<Row>, u64), Error> {
        rows_and(Anomaly::UnparsedLines, text, units)
    }

    /// Every row, and how often this was counted.
    fn rows_and(anomaly: Anomaly, text: &[u8], units: TwoColumns) -> Result<(Vec<Row>, u64), Error> {
        let mut rows = Vec::new();
        let options = ReadOptions { two_columns: units, ..ReadOptions::new(FieldSet::EVERY) };
        let context = read(Input::from_bytes("test", text)?, &options, &mut |_, batch| {
            for row in 0..batch.len() {
                let latency = batch.latency()[row];
                let label = batch.text(Field::Job, row).map(str::to_string);
                rows.push((batch.time()[row] + latency as i64, latency, label));
            }
            ControlFlow::Continue(())
        })?;
        Ok((rows, context.tally.get(anomaly)))
    }

    const US: TwoColumns = TwoColumns { time_unit_ns: 1000, latency_unit_ns: None, unit_bytes: None };

    #[test]
    fn rows_headers_comments_and_labels() {
        let text = b"time_us\tlat_us\n# a comment\n10 5\n12.5,1.25,vda\r\n\n8 3;vdb\n";
        let expect =
            vec![(10_000, 5_000, None), (12_500, 1_250, Some("vda".into())), (8_000, 3_000, Some("vdb".into()))];
        assert_eq!(rows_of(text, US), Ok((expect, 0)));
    }

    #[test]
    fn values_may_carry_their_unit() {
        assert_eq!(rows_of(b"1.5s 250us\n", US).unwrap().0, [(1_500_000_000, 250_000, None)]);
    }

    /// Microseconds that are read as seconds, and the other way round.
    #[test]
    fn units_that_look_wrong_are_asked_about() {
        let notes = |text: String, unit_ns: u64| {
            let units = TwoColumns { time_unit_ns: unit_ns, ..TwoColumns::default() };
            let options = ReadOptions { two_columns: units, ..ReadOptions::new(FieldSet::EVERY) };
            let input = Input::from_bytes("test", text.as_bytes()).unwrap();
            read(input, &options, &mut |_, _| ControlFlow::Continue(())).map(|context| context.notes)
        };
        let rows = |scale: u64, latency: u64| -> String {
            (1..=1000).map(|at| format!("{} {latency}\n", at * scale)).collect()
        };
        // A request every 100 us for 100 ms, 250 us each.
        assert_eq!(notes(rows(100, 250), 1000), Ok(Vec::new()));
        let span = Note::ImplausibleSpan { span_ns: 99_900_000 * 1_000_000_000 };
        assert_eq!(notes(rows(100_000, 250_000), 1_000_000_000), Ok(vec![span]));
        let overlap = notes(rows(1, 250_000), 1_000_000_000).unwrap();
        assert!(matches!(overlap[..], [Note::ImplausibleOverlap { in_flight: 249_750..=250_250 }]), "{overlap:?}");
        let rate = notes((1..=1000).map(|at| format!("0.{at:06} 0.000250\n")).collect(), 1).unwrap();
        assert!(matches!(rate[..], [Note::ImplausibleRate { .. }]), "{rate:?}");
        let error = notes("1795341571481000 250\n".into(), 1_000_000_000).unwrap_err();
        assert!(error.message.contains("exceed 292 years in this unit"), "{error}");
    }

    #[test]
    fn what_is_no_row_is_counted() {
        let (rows, bad) = rows_of(b"1 2\nshort\n3\n-1 5\n99999999999999999999 1\n3 4\n", US).unwrap();
        assert_eq!((rows.len(), bad), (2, 4));
        // 292 years and above, of which the last is also the mark of a missing latency.
        let text = b"1ns 9223372036854775807ns\n1ns 9223372036854775808ns\n1ns 18446744073709551615ns\n";
        let (rows, bad) = rows_of(text, US).unwrap();
        assert_eq!((rows, bad), (vec![(1, i64::MAX as u64, None)], 2));
        let error = rows_of(b"# nothing\n\nnothing here\n", US).unwrap_err();
        assert_eq!(error.to_string(), "test:3: No row of two numbers, time and latency, found.");
    }

    /// Whatever is left of the last row, nobody knows whether it is all of it.
    #[test]
    fn what_is_cut_is_no_row() {
        let of_bytes = TwoColumns { unit_bytes: Some(1), ..US };
        for rest in ["3", "3 ", "3 4", "3 45", "3 45 vda", "3 x"] {
            for units in [US, of_bytes] {
                let text = format!("time lat\n1 2\n{rest}");
                let (rows, cut) = rows_and(Anomaly::Truncated, text.as_bytes(), units).unwrap();
                assert_eq!((rows.len(), cut), (1, 1), "{rest}");
                assert_eq!(rows_of(text.as_bytes(), units).unwrap().1, 0, "{rest}");
            }
        }
        for (text, count) in [("1 2\n3 4\n", 2), ("1 2\n# end", 1), ("1 2\n ", 1), ("1 2", 1), ("time lat\n1 2", 1)] {
            let (rows, cut) = rows_and(Anomaly::Truncated, text.as_bytes(), US).unwrap();
            assert_eq!((rows.len(), cut), (count, 0), "{text}");
        }
    }

    #[test]
    fn detection_looks_at_all_lines_of_the_beginning() {
        for (text, expect) in [
            (&b"1 2\n3 4\n"[..], Detected::Yes),
            (b"time lat\n3 4\n", Detected::Yes),
            (b"3 4", Detected::Yes),
            (b"# only a comment\n", Detected::NeedMore),
            (b"time lat\n", Detected::No),
            (b"1 2 3 4\n", Detected::No),
            (b"1 2\nx y\n", Detected::No),
            (b"", Detected::NeedMore),
        ] {
            assert_eq!(detect(text), expect, "{}", String::from_utf8_lossy(text));
        }
    }
}
