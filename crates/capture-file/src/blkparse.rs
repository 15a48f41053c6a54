//! Text of blkparse in its default format, and of ftrace's blk tracer with `blk_classic`:
//! `MA,MI CPU [SEQUENCE] TIME PID ACT RWBS SECTOR + N [COMM]`.

use crate::block_actions::text::{self, TextAction};
use crate::block_actions::{ActionEvents, ActionRecord};
use crate::cursor::Cursor;
use crate::input::Input;
use crate::scan::decimal_seconds;
use crate::text_rows::{Piece, each_line, is_unended};
use crate::{Detected, Error, Position, ReadOptions, Sink, block_actions};
use latscope_event::{Anomaly, Clock, Context, FieldSet};
use std::ops::ControlFlow;

/// The fields of a request.
pub const FILLS: FieldSet = block_actions::FILLS;

/// What a line says.
enum Line {
    Record(ActionRecord, [u8; 16]),
    /// A plug, a timer, a message.
    Other,
    /// Part of the statistics that follow the records.
    Summary,
    Unknown,
}

/// Records in the layout of blkparse.
pub fn detect(head: &[u8]) -> Detected {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let is_record = |line: &[u8]| matches!(parse(line), Line::Record(..) | Line::Other);
    if lines.by_ref().take(20).any(is_record) { Detected::Yes } else { Detected::No }
}

fn parse(line: &[u8]) -> Line {
    let record = || {
        let mut at = Cursor(line);
        at.blanks();
        let dev = text::device(&mut at)?;
        let mut number = || {
            at.blanks();
            let word = at.until(b' ')?;
            let digits = std::str::from_utf8(word).ok()?;
            Some((word, digits.parse::<u64>().ok()))
        };
        let _cpu = number()?.1?;
        let (mut word, sequence) = number()?;
        if sequence.is_some() {
            word = number()?.0;
        }
        // Nine decimals, whatever blkparse is asked for.
        let decimals = word.len() - 1 - memchr::memchr(b'.', word)?;
        let time_ns = i64::try_from(decimal_seconds(word).filter(|_| decimals == 9)?).ok()?;
        let tid = number()?.1.and_then(|tid| i32::try_from(tid).ok())?;
        Some(match text::parse(at.0, dev)? {
            TextAction::Record(record, comm) => Line::Record(ActionRecord { time_ns, tid, ..record }, comm),
            TextAction::Other => Line::Other,
        })
    };
    let is_summary = || {
        let text = line.trim_ascii_start();
        let starts = [&b"CPU"[..], b"Total (", b"Throughput (", b"Events (", b"Skips:", b"Input file "];
        let counts = [&b" Reads Queued:"[..], b"Reads Requeued:", b"Read Merges:", b"Read depth:", b"IO unplugs:"];
        let has = |words: &[u8]| memchr::memmem::find(line, words).is_some();
        text.is_empty() || starts.iter().any(|start| text.starts_with(start)) || counts.iter().any(|words| has(words))
    };
    record().unwrap_or_else(|| if is_summary() { Line::Summary } else { Line::Unknown })
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let file = input.name.clone();
    // blkparse counts from the first record.
    let context = Context::new(format!("blkparse, {file}"), Clock::unanchored("relative"));
    let mut actions = ActionEvents::new(context, options, sink);
    let (mut last_ns, mut is_summary, mut is_cut) = (i64::MIN, false, false);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(actions.hand_on()) };
        let is_last = is_unended(number, line);
        let line = line.map_or(Line::Unknown, |line| parse(line.trim_ascii_end()));
        let tally = &mut actions.context.tally;
        match line {
            // A size that was cut would be another one; before the statistics all records were printed.
            _ if is_last && !is_summary => is_cut = true,
            Line::Record(record, comm) => {
                tally.add(Anomaly::OutOfOrder, u64::from(record.time_ns < last_ns));
                last_ns = last_ns.max(record.time_ns);
                return Ok(actions.add(&record, comm));
            }
            Line::Other => {}
            Line::Summary => is_summary = true,
            // In the statistics of each program (-s) its name may be anything.
            Line::Unknown => tally.add(Anomaly::UnparsedLines, u64::from(!is_summary)),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if actions.records == 0 {
        let message = "No record of blkparse found; print the recording in its default format (blkparse -i PREFIX).";
        return Err(Error::new(file, Position::File, message));
    }
    let mut context = actions.finish();
    // Text is in the order of time, so this does not change what has waited until its end.
    context.tally.add(Anomaly::Truncated, u64::from(is_cut));
    Ok(context)
}

#[cfg(test)]
#[path = "blkparse_tests.rs"]
mod tests;
