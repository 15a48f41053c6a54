//! One line of ftrace: of `trace` and `trace_pipe`, and of `trace-cmd report`.
//!
//! `COMM-PID [(TGID)] [CPU] FLAGS TIME: EVENT: PAYLOAD`. A command name may hold blanks and dashes: its end is the last dash
//! before the number. In the latency format of trace-cmd the CPU stands before the flags, without brackets.

use crate::block_actions::text::{self, TextAction};
use crate::block_pairs::{NO_ID, Record, Step, padded};
use crate::cursor::Cursor;
use crate::perf_script::line::{
    Anchor, CallName, Line, LineParser, LineSource, SyscallLine, Who, anchor, hexadecimal, named_syscall, raw_syscall,
    step,
};
use crate::scan::trailing_number;
use latscope_event::MISSING_CODE;
use memchr::memrchr;

/// Understands lines of ftrace.
#[derive(Default)]
pub struct FtraceParser {
    payloads: LineParser,
}

impl LineSource for FtraceParser {
    #[inline]
    fn parse<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        let Some((anchor, _)) = anchor(line) else { return without_anchor(line) };
        let Some(who) = who(&line[..anchor.time]) else { return Line::Unknown };
        self.event(without_difference(&line[anchor.event..]), who, &anchor)
    }

    fn time_and_cpu(line: &[u8]) -> Option<(i64, Option<u32>)> {
        let (anchor, _) = anchor(line)?;
        Some((anchor.time_ns, who(&line[..anchor.time])?.cpu))
    }
}

impl FtraceParser {
    #[inline]
    fn event<'a>(&mut self, rest: &'a [u8], who: Who<'a>, anchor: &Anchor) -> Line<'a> {
        if let Some((step, payload)) = rest.strip_prefix(b"block_").and_then(step) {
            let record = self.payloads.payload(step, payload).or_else(|| raw_fields(step, payload));
            let of_issuer = matches!(step, Step::Issue | Step::Insert | Step::Start);
            let (pid, tid) = if of_issuer { (who.pid, who.tid) } else { (NO_ID, NO_ID) };
            return record
                .map_or(Line::Unknown, |record| Line::Block(Record { time_ns: anchor.time_ns, pid, tid, ..record }));
        }
        if let Some(rest) = rest.strip_prefix(b"sys_") {
            if rest.starts_with(b"enter:") || rest.starts_with(b"exit:") {
                return raw_syscall(|| who, anchor.time_ns, rest);
            }
            if rest.starts_with(b"enter_") || rest.starts_with(b"exit_") {
                return named_syscall(|| who, anchor.time_ns, rest);
            }
            return call(rest, who, anchor.time_ns).map_or(Line::Unknown, Line::Syscall);
        }
        if rest.first().is_some_and(u8::is_ascii_digit) {
            return action(rest, who, anchor.time_ns);
        }
        Line::Other
    }
}

/// Goes behind the time since the event before, `(+21)`, of `trace-cmd report --ts-diff`.
#[inline]
fn without_difference(rest: &[u8]) -> &[u8] {
    let behind = rest.strip_prefix(b"(+").and_then(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest[digits..].strip_prefix(b")")
    });
    behind.map_or(rest, <[u8]>::trim_ascii_start)
}

/// A record of the blk tracer: `MA,MI ACT RWBS SECTOR + N [COMM]`.
fn action<'a>(rest: &[u8], who: Who, time_ns: i64) -> Line<'a> {
    let mut at = Cursor(rest);
    let Some(dev) = text::device(&mut at) else { return Line::Other };
    match text::parse(at.0, dev) {
        Some(TextAction::Record(mut record, comm)) => {
            (record.time_ns, record.tid) = (time_ns, who.tid);
            Line::Action(record, comm)
        }
        Some(TextAction::Other) => Line::Other,
        None => Line::Unknown,
    }
}

/// `dev=266338304 sector=351698944 nr_sector=4560 bytes=2334720 rwbs=W comm=fio`, as `trace-cmd report -R` prints it.
fn raw_fields(step: Step, payload: &[u8]) -> Option<Record> {
    let value = |name: &[u8]| {
        let at = memchr::memmem::find(payload, name)?;
        let rest = &payload[at + name.len()..];
        Some(&rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())])
    };
    let number = |name: &[u8]| std::str::from_utf8(value(name)?).ok()?.parse::<i128>().ok();
    let of_issuer = matches!(step, Step::Issue | Step::Insert | Step::Start);
    // A name may hold blanks, and what is behind it is the name of a field.
    let comm = memchr::memmem::find(payload, b" comm=").map(|at| &payload[at + b" comm=".len()..]);
    let comm = comm.map(|rest| &rest[..memchr::memmem::find(rest, b" cmd=").unwrap_or(rest.len())]);
    Some(Record {
        time_ns: 0,
        // A flush completes at sector -1.
        sector: number(b" sector=")? as u64,
        bytes: number(b" bytes=").and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0),
        sectors: u32::try_from(number(b" nr_sector=")?).ok()?,
        dev: u32::try_from(number(b"dev=")?).ok()?,
        error: number(b" error=").and_then(|error| i32::try_from(error).ok()).unwrap_or(0),
        pid: NO_ID,
        tid: NO_ID,
        step,
        rwbs: padded(value(b" rwbs=")?),
        comm: padded(comm.filter(|_| of_issuer).unwrap_or_default()),
        stack: MISSING_CODE,
    })
}

/// `read(fd: 3, buf: 7ffd.., count: 340)` and `read -> 0x340`, as the kernel prints system calls by name.
fn call<'a>(rest: &'a [u8], who: Who<'a>, time_ns: i64) -> Option<SyscallLine<'a>> {
    let end = rest.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_').filter(|&end| end > 0)?;
    let (name, rest) = rest.split_at(end);
    let mut values = [0; 6];
    let arguments = rest.strip_prefix(b"(");
    match arguments {
        Some(arguments) => {
            // Texts that recent kernels quote may hold commas, but hardly a name and a number behind them.
            let numbers = arguments.split(|&byte| byte == b',').filter_map(|part| {
                let value = &part[memchr::memchr(b':', part)? + 1..];
                let word = value.trim_ascii_start().split(|byte| b" )".contains(byte)).next()?;
                hexadecimal(word)
            });
            values.iter_mut().zip(numbers).for_each(|(value, number)| *value = number);
        }
        None => values[0] = hexadecimal(rest.trim_ascii().strip_prefix(b"-> ")?)?,
    }
    Some(SyscallLine { who, time_ns, enter: arguments.is_some(), call: CallName::Name(name), values })
}

/// The columns before the time; `None` when they are not ftrace's.
#[inline]
fn who(columns: &[u8]) -> Option<Who<'_>> {
    let columns = columns.trim_ascii_end();
    let (left, cpu) = match memrchr(b'[', columns) {
        // `<...>-12 [001] d..1.`: behind the bracket are digits, the other bracket and flags.
        Some(open)
            if memrchr(b']', columns).is_some_and(|close| is_number(&columns[open + 1..close.max(open + 1)])) =>
        {
            (&columns[..open], Cursor(&columns[open + 1..]).number()?)
        }
        // `kworker/-35      1...1.`.
        _ => {
            let blank = memrchr(b' ', columns)?;
            (&columns[..blank], Cursor(&columns[blank + 1..]).number()?)
        }
    };
    let mut left = left.trim_ascii();
    let mut pid = NO_ID;
    // The process, where it is recorded; `(-------)` where it is not known.
    if let Some(open) = left.strip_suffix(b")").and_then(|inner| memrchr(b'(', inner)) {
        let inside = left[open + 1..left.len() - 1].trim_ascii();
        if is_number(inside) || inside.iter().all(|&byte| byte == b'-') {
            pid = std::str::from_utf8(inside).ok().and_then(|digits| digits.parse().ok()).unwrap_or(NO_ID);
            left = left[..open].trim_ascii_end();
        }
    }
    let (tid, digits) = trailing_number(left);
    let comm = left[..left.len() - digits].strip_suffix(b"-").filter(|_| (1..=10).contains(&digits))?;
    let comm = if comm == b"<...>" { b"" } else { comm };
    Some(Who { comm, pid, tid: i32::try_from(tid).ok()?, cpu: u32::try_from(cpu).ok() })
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn without_anchor(line: &[u8]) -> Line<'_> {
    match line {
        [] => Line::Silent,
        [b'#', rest @ ..] => match memchr::memchr(b':', rest) {
            Some(colon) => Line::Header(rest[..colon].trim_ascii(), rest[colon + 1..].trim_ascii()),
            None => Line::Silent,
        },
        _ if is_stack_or_heading(line) => Line::Silent,
        _ => gap(line).map_or(Line::Unknown, |(cpu, records)| Line::Gap { cpu, records }),
    }
}

/// A line of a stack below a record, or what trace-cmd prints beside the records: its headings, those of `--verbose` and
/// `--debug`, and the statistics of `record` and `--stat`.
fn is_stack_or_heading(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 21] = [
        b"=> ",
        b"cpus=",
        b"version = ",
        b"CPU: ",
        b"entries: ",
        b"overrun: ",
        b"commit overrun: ",
        b"bytes: ",
        b"oldest event ts: ",
        b"now ts: ",
        b"dropped events: ",
        b"read events: ",
        b"Kernel buffer statistics:",
        b"Buffer statistics: ",
        b"Note: \"entries\" are ",
        b"recorded in the trace data. ",
        b"registering plugin: ",
        b"overriding event ",
        b"removing override handler ",
        b"TIME EXTEND: ",
        b"TIME STAMP: ",
    ];
    let text = line.trim_ascii();
    let is_of_cpu = || {
        // `CPU 1 is empty`, `CPU:1 [SUBBUFFER START] [...]`, `CPU1 data recorded at offset=0x1000` and the size below.
        let rest = text.strip_prefix(b"CPU").unwrap_or(b"").trim_ascii_start();
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        let rest = rest[rest.iter().take_while(|byte| byte.is_ascii_digit()).count()..].trim_ascii_start();
        rest == b"is empty" || rest.starts_with(b"[SUBBUFFER START]") || rest.starts_with(b"data recorded at ")
    };
    let is_size =
        || text.first().is_some_and(u8::is_ascii_digit) && memchr::memmem::find(text, b" bytes in size").is_some();
    text.is_empty() || STARTS.iter().any(|start| text.starts_with(start)) || is_of_cpu() || is_size()
}

/// `CPU:1 [LOST 103340 EVENTS]` of the kernel, `CPU:1 [12 EVENTS DROPPED]` of trace-cmd.
fn gap(line: &[u8]) -> Option<(u32, u64)> {
    let mut at = Cursor(line.strip_prefix(b"CPU:")?);
    let cpu = u32::try_from(at.number()?).ok()?;
    at.blanks();
    let inside = at.0.trim_ascii_end().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let number = inside.strip_prefix(b"LOST ").and_then(|rest| rest.strip_suffix(b" EVENTS"));
    let number = number.or_else(|| inside.strip_suffix(b" EVENTS DROPPED"));
    match number {
        Some(number) => Some((cpu, Cursor(number).number()?)),
        // trace-cmd knows that there were some.
        None => (inside == b"EVENTS DROPPED").then_some((cpu, 1)),
    }
}

/// Whether a line can only be ftrace's: perf and others put blanks where it has the dash, and a system before the event.
pub fn is_certain(line: &[u8]) -> bool {
    if gap(line).is_some() {
        return true;
    }
    let event = || {
        let (anchor, _) = anchor(line)?;
        who(&line[..anchor.time])?;
        let rest = without_difference(&line[anchor.event..]);
        let end = rest.iter().position(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_')?;
        let (name, rest) = rest.split_at(end);
        let is_event = rest.starts_with(b": ") || rest == b":";
        let is_call = name.starts_with(b"sys_") && (rest.starts_with(b"(") || rest.starts_with(b" -> "));
        let is_action = is_number(name) && rest.starts_with(b",");
        Some(!name.is_empty() && (is_event || is_call || is_action || rest.starts_with(b" <-")))
    };
    event().unwrap_or(false) || has_counts(line).unwrap_or(false)
}

/// Whether it is a record with a count in the place of its time (the clocks `counter` and `x86-tsc`, or `--raw-ts`).
fn has_counts(line: &[u8]) -> Option<bool> {
    let end = memchr::memmem::find(line, b": block_rq_").or_else(|| memchr::memmem::find(line, b": sys_"))?;
    let (_, digits) = trailing_number(&line[..end]);
    who(&line[..end - digits])?;
    Some(digits > 0 && line[..end].contains(&b'['))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
