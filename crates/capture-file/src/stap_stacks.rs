//! Stacks as SystemTap prints them, and samplers that write alike: frames from the innermost on, extra lines, a count.
//!
//! ```text
//! blkdev_aio_read+0x51/0x80
//! sys_io_submit+0x10/0x20
//! io_submit
//! main
//! State:  R (running)
//! event#=158 (Oracle state)
//! 1
//! ```

use crate::input::Input;
use crate::stack_rows::{self, Sample, StackRows};
use crate::text_rows::{NO_END, Piece, each_line, is_unended};
use crate::{Detected, Error, ReadOptions, Sink};
use latscope_event::{Context, Field, FieldSet, FrameKind, push_frame};
use std::ops::ControlFlow;

/// The fields of such a stack.
pub const FILLS: FieldSet = stack_rows::FILLS.with(&[Field::State, Field::Tags]);

/// More frames than any stack has.
const FRAMES_LIMIT: usize = 4096;
/// Kernel code lies in the upper half of all addresses.
const KERNEL_FROM: u64 = 1 << 63;
const NO_STACK: &str = "a count without a stack above it";
const TOO_MANY: &str = "a stack of more frames than any has";

/// A line of such a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Line<'a> {
    Empty,
    Frame(&'a str, FrameKind),
    /// The address behind the last frame of the kernel.
    End,
    State(&'a str),
    /// Key and value.
    Tag(&'a str, &'a str),
    Count(u64),
}

/// What the requirement's samplers write behind a wait event of the database.
const OF_ORACLE: &str = " (Oracle state)";

impl Line<'_> {
    fn parse(line: &str) -> Line<'_> {
        let line = line.trim();
        if line.is_empty() {
            return Line::Empty;
        }
        if line.bytes().all(|byte| byte.is_ascii_digit()) {
            return line.parse().map_or(Line::Empty, Line::Count);
        }
        if let Some(state) = line.strip_prefix("State:") {
            return Line::State(state.trim());
        }
        if let Some(event) = line.strip_suffix(OF_ORACLE) {
            return Line::Tag("wait_event", event.strip_prefix("event#=").unwrap_or(event));
        }
        if let Some(event) = line.strip_prefix("wait event:").or_else(|| line.strip_prefix("wait event=")) {
            return Line::Tag("wait_event", event.trim());
        }
        // `[<ffffffff811e0bc5>] read_events+0x295/0x450`, ` 0xffffffff811e0bc5 : read_events+0x295/0x450 [kernel]`
        let (address, text) = match line.strip_prefix("[<").and_then(|rest| rest.split_once(">] ")) {
            Some((address, text)) => (Some(address), text),
            None => match line.split_once(" : ").filter(|(address, _)| address.starts_with("0x")) {
                Some((address, text)) => (Some(address), text),
                None => (None, line),
            },
        };
        if text == "0xffffffffffffffff" {
            return Line::End;
        }
        let (text, module) = match text.strip_suffix(']').and_then(|text| text.rsplit_once(" [")) {
            Some((text, module)) => (text, Some(module)),
            None => (text, None),
        };
        let offset = text.rfind("+0x");
        let address = address.map(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(u64::MAX));
        // Of the kernel's functions the size is printed; of the program's only behind an address or with the path of a module.
        let is_kernel = match (address, module) {
            (Some(address), _) => address >= KERNEL_FROM,
            (None, Some(module)) => !module.contains('/') && (module == "kernel" || has_size(text)),
            (None, None) => has_size(text),
        };
        let kind = if is_kernel { FrameKind::Kernel } else { FrameKind::User };
        Line::Frame(offset.map_or(text, |plus| &text[..plus]), kind)
    }
}

/// Whether offset and size stand behind a name: `main+0x23/0x120`.
fn has_size(text: &str) -> bool {
    text.rfind("+0x").is_some_and(|plus| text[plus + 3..].contains("/0x"))
}

/// Frames with address or size, and a line that is only a count.
pub fn detect(head: &[u8]) -> Detected {
    let (mut frames, mut counts) = (0, 0);
    for line in head.split(|&byte| byte == b'\n').take(1000) {
        let Ok(line) = std::str::from_utf8(line) else { return Detected::No };
        match Line::parse(line) {
            Line::Frame(name, kind)
                if (kind == FrameKind::Kernel || has_size(line)) && !name.contains([' ', ';', ',']) =>
            {
                frames += 1
            }
            Line::Frame(name, _) if name.contains(": ") || name.len() > 200 => return Detected::No,
            Line::Count(_) => counts += 1,
            _ => {}
        }
    }
    if frames >= 2 && counts >= 1 { Detected::Yes } else { Detected::No }
}

/// The words of a state, as `/proc/PID/status` has them: `S (sleeping)`.
fn state(text: &str) -> &str {
    match text.split_whitespace().next().unwrap_or_default() {
        "R" => "running",
        "S" => "sleep",
        "D" => "disk sleep",
        _ => text.split_once('(').map_or(text, |(_, words)| words.trim_end_matches(')')),
    }
}

/// The stack of the lines read last.
#[derive(Default)]
struct Pending {
    frames: Vec<(String, FrameKind)>,
    state: String,
    tags: String,
    is_too_long: bool,
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let mut rows = StackRows::new("stacks of SystemTap", &name, FILLS, options, sink);
    let (mut pending, mut stack) = (Pending::default(), String::new());
    each_line(input, |piece| {
        let Piece::Line(number, line) = piece else { return Ok(rows.rows.hand_on()) };
        let text = String::from_utf8_lossy(line.unwrap_or_default());
        match Line::parse(&text) {
            _ if line.is_err() => rows.rows.add_malformed(number, line, TOO_MANY),
            // A count that was cut would be another one.
            _ if is_unended(number, line) => rows.rows.add_malformed(number, line, NO_END),
            Line::Empty | Line::End => {}
            Line::Frame(..) if pending.frames.len() >= FRAMES_LIMIT => pending.is_too_long = true,
            Line::Frame(name, kind) => pending.frames.push((name.into(), kind)),
            Line::State(text) => pending.state = state(text).into(),
            Line::Tag(key, value) => {
                pending.tags = format!("{key}={}", value.replace([';', '='], ":"));
            }
            Line::Count(count) => {
                let ended = std::mem::take(&mut pending);
                let has_any = !ended.frames.is_empty() || !ended.tags.is_empty() || !ended.state.is_empty();
                if !has_any || ended.is_too_long || count > i64::MAX as u64 {
                    rows.rows.add_malformed(number, line, if ended.is_too_long { TOO_MANY } else { NO_STACK });
                } else if count > 0 {
                    stack.clear();
                    ended.frames.iter().rev().for_each(|(name, kind)| push_frame(&mut stack, name, *kind));
                    let (state, tags) = (&*ended.state, &*ended.tags);
                    return Ok(rows.add(&Sample { stack: &stack, count, state, tags, ..Sample::default() }));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    rows.finish(&name, "No stack with a count found.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_what_they_look_like() {
        for (line, expect) in [
            ("[<ffffffff811e0bc5>] read_events+0x295/0x450", Line::Frame("read_events", FrameKind::Kernel)),
            (" 0xffffffff811e0bc5 : read_events+0x295/0x450 [kernel]", Line::Frame("read_events", FrameKind::Kernel)),
            (" 0x7f01 : main+0x12 [/usr/bin/app]", Line::Frame("main", FrameKind::User)),
            (" 0x400123 : main+0x23/0x120 [/usr/bin/prog]", Line::Frame("main", FrameKind::User)),
            (" 0xffffffffc0a01234 : xfs_read+0x23/0x120 [xfs]", Line::Frame("xfs_read", FrameKind::Kernel)),
            ("[<0000000000400123>] main+0x23/0x120", Line::Frame("main", FrameKind::User)),
            ("main+0x23/0x120 [/usr/bin/prog]", Line::Frame("main", FrameKind::User)),
            ("xfs_read+0x23/0x120 [xfs]", Line::Frame("xfs_read", FrameKind::Kernel)),
            ("read_events+0x23/0x120", Line::Frame("read_events", FrameKind::Kernel)),
            ("[<ffffffffffffffff>] 0xffffffffffffffff", Line::End),
            ("ksfdgo", Line::Frame("ksfdgo", FrameKind::User)),
            ("event#=158 (Oracle state)", Line::Tag("wait_event", "158")),
            ("db file sequential read (Oracle state)", Line::Tag("wait_event", "db file sequential read")),
            ("State:\tS (sleeping)", Line::State("S (sleeping)")),
            ("12", Line::Count(12)),
            ("", Line::Empty),
        ] {
            assert_eq!(Line::parse(line), expect, "{line}");
        }
        let of_a_program = " 0x400123 : f+0x23/0x120 [/bin/p]\n 0x400124 : main+0x23/0x120 [/bin/p]\n\t17\n";
        assert_eq!(detect(of_a_program.as_bytes()), Detected::Yes);
    }

    #[test]
    fn a_count_that_is_cut_is_none() {
        let stack = " 0x400123 : f+0x23/0x120 [/bin/p]\n 0x400124 : main+0x23/0x120 [/bin/p]\n\t";
        for (text, expect) in [("17\n", (2, 0)), ("17", (1, 1)), ("", (1, 1))] {
            let text = format!("{stack}17\n{stack}{text}");
            let (input, mut rows) = (Input::from_bytes("test", text.as_bytes()).unwrap(), 0);
            let context = read(input, &ReadOptions::new(FieldSet::EVERY), &mut |_, batch| {
                rows += batch.len();
                ControlFlow::Continue(())
            });
            assert_eq!((rows, context.unwrap().tally.get(latscope_event::Anomaly::Truncated)), expect, "{text}");
        }
    }
}
