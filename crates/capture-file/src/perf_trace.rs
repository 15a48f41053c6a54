//! Text of `perf trace`: `0.071 ( 0.012 ms): tar/20667 read(fd: 4, buf: 0x7ffe37a20828, count: 832) = 832`.
//!
//! The time is that of the start of the call, milliseconds since the start of the trace. A call that another one
//! interrupts is printed twice: when it starts, with an empty duration, and when it returns, as `[continued]`.

use crate::call_rows::{self, CallRows, Caller};
use crate::call_text::{CallText, name_len};
use crate::input::Input;
use crate::scan::{blanks, decimal_milliseconds, leading_number};
use crate::text_rows::{Piece, each_line};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use latscope_event::{Anomaly, Clock, Context, FieldSet};
use memchr::memchr;
use std::ops::ControlFlow;

/// The fields that a call fills.
pub const FILLS: FieldSet = call_rows::FILLS;

const CONTINUED: &[u8] = b"... [continued]: ";
/// Lines that are looked at to know the format.
const LOOKED_AT: usize = 30;
/// The kernel keeps 15 characters of a command name, behind which the thread stands.
const LONGEST_COMM: usize = 16;

/// A line.
struct Line<'a> {
    /// Start of the call; of one that started before the trace it is not known.
    start_ns: Option<i64>,
    comm: &'a [u8],
    tid: i32,
    what: What<'a>,
}

enum What<'a> {
    Call(CallText<'a>, Option<u64>),
    Unfinished(&'a [u8]),
    /// The rest of a call: name, what stands behind it, and how long it took.
    Resumed(&'a [u8], &'a [u8], Option<u64>),
    /// A call that does not return, or returns in a new process.
    NeverReturns,
    /// A tracepoint or page fault.
    Other,
}

impl Line<'_> {
    fn parse(line: &[u8]) -> Option<Line<'_>> {
        let text = line.trim_ascii_start();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let (start_ns, rest) = match text.strip_prefix(b"?") {
            Some(rest) => (None, rest),
            None => {
                let len = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
                let ns = milliseconds(&text[..len]).filter(|_| text[..len].contains(&b'.'))?;
                (Some(i64::try_from(ns).ok().filter(|&ns| ns < i64::MAX / 2)?), &text[len..])
            }
        };
        let rest = rest.strip_prefix(b" ")?;
        let rest = &rest[blanks(rest)..];
        let Some(inner) = rest.strip_prefix(b"(") else {
            // Events of other kinds have no duration.
            let (comm, tid, _) = caller(rest)?;
            return Some(Line { start_ns, comm, tid, what: What::Other });
        };
        let close = memchr(b')', inner)?;
        let latency_ns = match inner[..close].trim_ascii() {
            b"" => None,
            duration => Some(milliseconds(duration.strip_suffix(b" ms")?).filter(|&ns| ns < i64::MAX as u64 / 2)?),
        };
        let (comm, tid, rest) = caller(inner[close + 1..].strip_prefix(b": ")?)?;
        Some(Line { start_ns, comm, tid, what: What::parse(rest, latency_ns)? })
    }
}

impl What<'_> {
    fn parse(text: &[u8], latency_ns: Option<u64>) -> Option<What<'_>> {
        // A blank at the end is behind a result that perf leaves out: that of getppid, or of a clone in the child.
        let (text, is_blank) = (text.trim_ascii(), text.ends_with(b"= "));
        if let Some(rest) = text.strip_prefix(CONTINUED) {
            let name = &rest[..name_len(rest)];
            let rest = rest[name.len()..].strip_prefix(b"(").filter(|_| !name.is_empty())?;
            let has_result = !matches!(rest.last(), Some(b'=' | b'?'));
            return Some(if has_result { What::Resumed(name, rest, latency_ns) } else { What::NeverReturns });
        }
        if let Some(call) = text.strip_suffix(b"...") {
            let call = call.trim_ascii_end().strip_suffix(b")")?;
            return CallText::parse_open(call).map(|_| What::Unfinished(call));
        }
        if name_len(text) == 0 || text.get(name_len(text)) != Some(&b'(') {
            return Some(What::Other);
        }
        if text.ends_with(b"= ?") {
            return Some(What::NeverReturns);
        }
        if is_blank {
            let call = text.strip_suffix(b"=")?.trim_ascii_end().strip_suffix(b")")?;
            return Some(What::Call(CallText::parse_open(call)?, latency_ns));
        }
        let call = CallText::parse(text)?;
        // Flags and the like are printed by their names.
        let is_symbol = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_|x".contains(byte);
        let is_named = !call.result.is_empty() && call.result.iter().all(is_symbol);
        (call.returned().value.is_some() || is_named).then_some(What::Call(call, latency_ns))
    }
}

/// Decimal milliseconds as nanoseconds.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    decimal_milliseconds(text).filter(|_| !text.is_empty())
}

/// `COMM/TID ` and what follows; a command name may hold anything.
fn caller(text: &[u8]) -> Option<(&[u8], i32, &[u8])> {
    for slash in memchr::memchr_iter(b'/', &text[..text.len().min(LONGEST_COMM + 1)]) {
        let (tid, len) = leading_number(&text[slash + 1..])?;
        if len > 0
            && let (Ok(tid), Some(rest)) = (i32::try_from(tid), text[slash + 1 + len..].strip_prefix(b" "))
        {
            return Some((&text[..slash], tid, rest));
        }
    }
    None
}

/// Nearly all lines are of calls.
pub fn detect(head: &[u8]) -> Detected {
    let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
    let (mut calls, mut strangers) = (0, 0);
    for line in whole.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LOOKED_AT) {
        match Line::parse(line).map(|line| line.what) {
            Some(What::Other) => {}
            Some(_) => calls += 1,
            None => strangers += 1,
        }
    }
    if calls > 0 && strangers * 10 <= calls { Detected::Yes } else { Detected::No }
}

/// Reads the text; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    let mut context = Context::new(format!("perf trace, {name}"), Clock::unanchored("relative"));
    context.start_ns = Some(0);
    let mut calls = CallRows::new(context, options.fields, options.all_syscalls, sink);
    let mut lines = 0u64;
    each_line(input, |piece| {
        let Piece::Line(number, text) = piece else { return Ok(calls.rows.hand_on()) };
        // The result is at the end: it may have been cut.
        let whole = text.ok().filter(|text| text.ends_with(b"\n"));
        let Some(line) = whole.and_then(Line::parse) else {
            calls.rows.add_malformed(number, text, "no call of perf trace");
            return Ok(ControlFlow::Continue(()));
        };
        lines += 1;
        Ok(add(&mut calls, &line))
    })?;
    if lines == 0 {
        return Err(Error::new(name, Position::File, "No system call of perf trace found."));
    }
    let endless = calls.endless;
    calls.count(Anomaly::OtherRecords, endless);
    Ok(calls.finish())
}

fn add(calls: &mut CallRows, line: &Line) -> ControlFlow<()> {
    let tid = Some(line.tid);
    let caller = line.start_ns.map(|start_ns| Caller { start_ns, tid, comm: line.comm });
    match (&line.what, caller) {
        (What::Other, _) => calls.count(Anomaly::OtherRecords, 1),
        (What::NeverReturns, _) => {
            calls.close(tid);
            calls.count(Anomaly::NeverReturn, 1);
        }
        (What::Unfinished(call), Some(caller)) => calls.start(caller, call),
        (What::Call(call, latency_ns), Some(caller)) => return calls.add(caller, *latency_ns, call),
        // The line has the time at which the call started.
        (What::Resumed(name, rest, Some(latency_ns)), Some(caller)) => {
            let end_ns = caller.start_ns.saturating_add_unsigned(*latency_ns);
            return calls.resume(Caller { start_ns: end_ns, ..caller }, name, rest, Some(*latency_ns));
        }
        // Of a call that started before the trace neither start nor duration is known.
        _ => return calls.unpaired(),
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Field;

    /// Lines that perf 6.1 printed.
    const TEXT: &str = "         ? (         ): sh/25932  ... [continued]: execve())                                           = 0\n\
        \x20   67.494 ( 0.393 ms): sh/25932 clone(clone_flags: CHILD_CLEARTID|CHILD_SETTID|0x11, child_tidptr: 0x7f52cecc6a10) = 25939 (sh)\n\
        \x20        ? (         ): sh/25939  ... [continued]: clone())                                            = \n\
        \x20  116.744 (         ): sh/25932 vfork()                                                            ...\n\
        \x20  116.744 (36.561 ms): sh/25932  ... [continued]: vfork())                                            = 25940\n\
        \x20  153.382 (         ): a/b c/25932 wait4(upid: -1, stat_addr: 0x7ffed8325c1c)                         ...\n\
        \x20  228.037 (21.471 ms): dd/25940 fsync(fd: 1</tmp/pt.dat>)                                           = 0\n\
        \x20  543.286 ( 0.013 ms): sh/25932 wait4(upid: -1, options: NOHANG)           = -1 ECHILD (No child processes)\n\
        \x20  543.300 (         ): dd/7 read(fd: 0</dev/vda>, buf: 0x1, count: 512) ...\n\
        \x20  543.321 (         ): sh/25932 exit_group()                                                          = ?\n\
        \x20   67.070 ( 0.017 ms): sh/25932 getppid()                                                             = \n\
        \x20  543.350 ( 0.002 ms): sh/25932 fcntl(fd: 255, cmd: GETFL) = RDONLY|LARGEFILE\n\
        \x20  543.400 dd/25940 sched:sched_switch(prev_comm: \"dd\")\n";

    #[test]
    fn calls_as_perf_prints_them() {
        let mut rows = Vec::new();
        let options = ReadOptions { all_syscalls: true, ..ReadOptions::new(FieldSet::EVERY) };
        let input = Input::from_bytes("test", TEXT.as_bytes()).unwrap();
        let context = read(input, &options, &mut |_, batch| {
            rows.extend((0..batch.len()).map(|row| {
                let texts = [Field::Name, Field::Comm, Field::Path, Field::Error];
                let texts = texts.map(|field| batch.text(field, row).unwrap_or("-").to_string());
                (batch.time()[row], batch.latency()[row], texts)
            }));
            ControlFlow::Continue(())
        })
        .unwrap();
        let row =
            |start: i64, latency: u64, texts: [&str; 4]| (start * 1000, latency * 1000, texts.map(str::to_string));
        assert_eq!(
            rows,
            [
                row(67_494, 393, ["clone", "sh", "-", "-"]),
                row(116_744, 36_561, ["vfork", "sh", "-", "-"]),
                row(228_037, 21_471, ["fsync", "dd", "/tmp/pt.dat", "-"]),
                row(543_286, 13, ["wait4", "sh", "-", "ECHILD"]),
                row(67_070, 17, ["getppid", "sh", "-", "-"]),
                row(543_350, 2, ["fcntl", "sh", "-", "-"]),
            ]
        );
        let counts: Vec<_> = context.tally.iter().collect();
        // The first wait4 has not returned where the second is.
        let expected = [
            (Anomaly::UnpairedExit, 1),
            (Anomaly::UnpairedEnter, 1),
            (Anomaly::Unfinished, 1),
            (Anomaly::NeverReturn, 2),
            (Anomaly::OtherRecords, 1),
        ];
        assert_eq!(counts, expected);
        assert_eq!((context.unfinished.len(), context.unfinished[0].what.as_str()), (1, "read by thread 7"));
    }

    #[test]
    fn detection() {
        assert_eq!(detect(TEXT.as_bytes()), Detected::Yes);
        for text in ["1 2\n3 4\n", "7 1.5 close(3) = 0 <0.1>\n", "", "1.5 (x): a/7 close(3) = 0\n"] {
            assert_eq!(detect(text.as_bytes()), Detected::No, "{text}");
        }
    }
}
