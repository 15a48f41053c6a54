//! Trace files of Oracle databases (event 10046 at level 8 or 12): an event for each `WAIT` line.
//!
//! ```text
//! WAIT #46: nam='db file sequential read' ela= 977 file#=7 block#=29618220 blocks=1 obj#=82015 tim=1377520823036634
//! ```
//!
//! `ela` and `tim` are microseconds from Oracle 9i on; `tim` is when the wait ended, Unix time from 11g on.

use crate::input::Input;
use crate::scan::leading_number;
use crate::text_rows::{NO_END, Piece, Rows, each_line, is_unended};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Batch, Clock, Context, Field, FieldSet, MISSING_I64};
use memchr::memmem;
use std::ops::ControlFlow;

/// The fields of a wait: its name, and the session as the job.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[Field::Kind, Field::Name, Field::Job, Field::Pid, Field::Path]);

const WAIT: &[u8] = b"WAIT #";
/// A time after September 2001 is one on the wall; no machine has been up that long.
const WALL_FROM_US: u64 = 1_000_000_000_000_000;
const NO_WAIT: &str = "something other than a wait with nam, ela and tim";
/// Names of sessions and files are no longer.
const LONGEST_NAME: usize = 64;

/// A wait, or what only traces of sessions have.
pub fn detect(head: &[u8]) -> Detected {
    let is_one = |line: &[u8]| {
        line.starts_with(WAIT) && memmem::find(line, b" nam='").is_some()
            || line.starts_with(b"PARSING IN CURSOR #")
            || line.starts_with(b"*** SESSION ID:(")
    };
    if head.split(|&byte| byte == b'\n').any(is_one) { Detected::Yes } else { Detected::No }
}

/// A `WAIT` line.
struct Wait<'a> {
    name: &'a [u8],
    latency_us: u64,
    end_us: u64,
    /// Number of the data file, where the wait is for one.
    file: Option<&'a [u8]>,
}

impl Wait<'_> {
    fn parse(line: &[u8]) -> Option<Wait<'_>> {
        let quoted = &line[memmem::find(line, b" nam='")? + 6..];
        let end = memmem::find(quoted, b"' ela=")?;
        let (name, rest) = (&quoted[..end], &quoted[end + 1..]);
        let file = text(rest, b" file#=");
        Some(Wait { name, latency_us: number(rest, b" ela=")?, end_us: number(rest, b" tim=")?, file })
    }

    /// What a wait of this name is for.
    fn kind(&self) -> &'static str {
        let has = |word: &[u8]| memmem::find(self.name, word).is_some();
        match () {
            () if has(b" read") || has(b" smart table scan") || has(b" smart index scan") => "read",
            // Waits for other instances, which have to know of a write.
            () if has(b" broadcast ") => "other",
            () if has(b" write") => "write",
            () if self.name == b"log file sync" => "sync",
            () => "other",
        }
    }
}

/// The text behind a key, without the blank that may be in front of it.
fn text<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let value = line[memmem::find(line, key)? + key.len()..].trim_ascii_start();
    Some(value.split(u8::is_ascii_whitespace).next().unwrap_or(value))
}

fn number(line: &[u8], key: &[u8]) -> Option<u64> {
    let text = text(line, key)?;
    leading_number(text)
        .filter(|&(value, len)| len == text.len() && len > 0 && value <= i64::MAX as u64 / 2000)
        .map(|(value, _)| value)
}

/// Reads the trace; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let context = Context::new(format!("Oracle trace, {name}"), Clock::unanchored("database"));
    let mut rows = Rows::new(context, Batch::new(options.fields.intersection(FILLS)), sink);
    let (mut session, mut pid, mut path) = (Vec::new(), MISSING_I64, Vec::new());
    let (mut waits, mut timeless) = (0u64, 0u64);
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.hand_on()) };
        let text = line.unwrap_or_default().trim_ascii_end();
        if let Some(rest) = text.strip_prefix(b"*** SESSION ID:(") {
            session.clear();
            session.extend(rest.iter().take_while(|&&byte| byte != b')').take(LONGEST_NAME));
        } else if let Some(host) = text.strip_prefix(b"Node name:") {
            rows.context.host =
                Some(String::from_utf8_lossy(host.trim_ascii()).into()).filter(|host: &String| !host.is_empty());
        } else if let Some(rest) = text.strip_prefix(b"Unix process pid:") {
            let number = leading_number(rest.trim_ascii_start()).filter(|&(_, len)| len > 0);
            pid = number.and_then(|(pid, _)| i64::try_from(pid).ok()).unwrap_or(MISSING_I64);
        } else if text.starts_with(WAIT) || line.is_err() {
            waits += 1;
            // The time is at the end: it may have been cut.
            let is_whole = line.is_ok_and(|line| line.ends_with(b"\n"));
            let Some(wait) = Wait::parse(text).filter(|_| is_whole) else {
                timeless += u64::from(memmem::find(text, b" tim=").is_none());
                rows.add_malformed(number, line, NO_WAIT);
                return Ok(ControlFlow::Continue(()));
            };
            if rows.count == 0 && wait.end_us > WALL_FROM_US {
                rows.context.clock = Clock::wall();
            }
            let (latency_ns, end_ns) = (wait.latency_us * 1000, wait.end_us as i64 * 1000);
            let start_ns = end_ns - latency_ns as i64;
            rows.context.cover(start_ns);
            rows.context.cover(end_ns);
            let batch = &mut rows.batch;
            batch.push_i64(Field::Time, start_ns);
            batch.push_u64(Field::Latency, latency_ns);
            batch.push_text(Field::Kind, Some(wait.kind().as_bytes()));
            batch.push_text(Field::Name, Some(wait.name));
            batch.push_text(Field::Job, Some(&session[..]).filter(|session| !session.is_empty()));
            batch.push_i64(Field::Pid, pid);
            path.clear();
            path.extend_from_slice(b"file#");
            path.extend(wait.file.unwrap_or_default().iter().take(LONGEST_NAME));
            batch.push_text(Field::Path, wait.file.map(|_| &path[..]));
            return Ok(rows.end_row());
        } else if is_unended(number, line) {
            rows.add_malformed(number, line, NO_END);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let message = match (rows.count, waits) {
        (0, 0) => "The trace has no waits; set event 10046 at level 8.",
        (0, waits) if timeless == waits => {
            "The waits have no times (tim=), as before Oracle 10g; trace with a newer version."
        }
        (0, _) => "No wait can be read: each lacks nam, ela or tim.",
        _ => return Ok(rows.finish()),
    };
    Err(Error::new(name, Position::File, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Anomaly;

    #[test]
    fn waits_are_events() {
        let text = "*** SESSION ID:(409.215) 2013-08-26 14:40:23.035\n\
            WAIT #46929157733848: nam='gc cr grant 2-way' ela= 286 p1=7 p2=29618220 p3=1 obj#=82015 tim=1377520823035597\n\
            WAIT #46: nam='db file sequential read' ela= 977 file#=7 block#=29618220 blocks=1 obj#=82015 tim=1377520823036634\n\
            FETCH #46:c=0,e=42,p=0,cr=0,cu=0,mis=0,r=0,dep=1,og=1,plh=1497866750,tim=1377520823034516\n\
            WAIT #46: nam='direct path write' ela=-3 tim=1377520823036634\n\
            WAIT #46: nam='direct path write' ela= 3 ti";
        assert_eq!(detect(text.as_bytes()), Detected::Yes);
        let mut events = Vec::new();
        let input = Input::from_bytes("test", text.as_bytes()).unwrap();
        let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
            events.extend((0..batch.len()).map(|row| {
                let texts = [Field::Kind, Field::Name, Field::Job, Field::Path].map(|field| batch.text(field, row));
                (batch.time()[row], batch.latency()[row], texts.map(|text| text.unwrap_or("-")).join(","))
            }));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(
            events,
            [
                (1_377_520_823_035_311_000, 286_000, "other,gc cr grant 2-way,409.215,-".into()),
                (1_377_520_823_035_657_000, 977_000, "read,db file sequential read,409.215,file#7".into()),
            ]
        );
        let counts = [Anomaly::UnparsedLines, Anomaly::Truncated].map(|anomaly| context.tally.get(anomaly));
        assert_eq!((context.clock, counts), (Clock::wall(), [1, 1]));
    }

    #[test]
    fn what_is_cut_need_not_be_a_wait() {
        let wait = "WAIT #46: nam='log file sync' ela= 977 p1=7 tim=1377520823036634\n";
        for (end, expect) in [("", 0), ("FETCH #46:c=0,e=42\n", 0), ("FETCH #46:c=0,e=4", 1), ("WA", 1)] {
            let text = format!("{wait}{end}");
            let input = Input::from_bytes("test", text.as_bytes()).unwrap();
            let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, _| ControlFlow::Continue(()));
            assert_eq!(context.unwrap().tally.get(Anomaly::Truncated), expect, "{end}");
        }
    }

    #[test]
    fn traces_without_waits_say_what_to_do() {
        for (text, why) in [
            ("PARSING IN CURSOR #1 len=74\n", "set event 10046 at level 8."),
            ("WAIT #1: nam='db file sequential read' ela= 286 p1=7 p2=2 p3=1\n", "before Oracle 10g"),
        ] {
            assert_eq!(detect(text.as_bytes()), Detected::Yes);
            let input = Input::from_bytes("test", text.as_bytes()).unwrap();
            let error =
                read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, _| ControlFlow::Continue(())).unwrap_err();
            assert!(error.message.contains(why), "{error}");
        }
    }
}
