//! One line of `perf script`.
//!
//! `COMM TID [CPU] TIME: EVENT: PAYLOAD`, where the command name may hold anything and most columns may be absent.
//! The anchor is the time: digits, a point, six or nine digits, a colon and a blank, then the name of an event.
//! Fields are never counted from either end.

use crate::block_pairs::{NO_ID, Record, Step, padded};
use memchr::{memchr, memchr_iter, memrchr};

/// What a line says.
#[derive(Debug)]
pub enum Line<'a> {
    /// A record of the block layer.
    Block(Record),
    /// A system call begins or ends.
    Syscall(SyscallLine<'a>),
    /// `--show-lost-events`: so many records of a CPU were lost before this moment.
    Lost { time_ns: i64, cpu: Option<u32>, records: u64 },
    /// A `#` line: key and value.
    Header(&'a [u8], &'a [u8]),
    /// A line of a call stack, or an empty one.
    Silent,
    /// An event of another kind.
    Other,
    /// Not a line of perf script.
    Unknown,
}

/// A system call record as text.
#[derive(Debug)]
pub struct SyscallLine<'a> {
    pub who: Who<'a>,
    pub time_ns: i64,
    pub enter: bool,
    pub call: CallName<'a>,
    /// Arguments of an enter; the result of an exit in the first place.
    pub values: [u64; 6],
}

/// How a system call is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallName<'a> {
    /// `raw_syscalls`: by number.
    Number(i64),
    /// `syscalls`: by name.
    Name(&'a [u8]),
}

/// The columns before the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who<'a> {
    pub comm: &'a [u8],
    pub pid: i32,
    pub tid: i32,
    pub cpu: Option<u32>,
}

/// Understands lines. Columns mostly stand where they stood in the line before, so it looks there first.
#[derive(Default)]
pub struct LineParser {
    /// Where the colon behind the time stood.
    colon: usize,
}

impl LineParser {
    /// Understands a line (without its newline).
    #[inline]
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        let anchor = match anchor_at(line, self.colon) {
            Some(anchor) => anchor,
            None => match anchor(line) {
                Some((anchor, colon)) => {
                    self.colon = colon;
                    anchor
                }
                None => return without_anchor(line),
            },
        };
        event(line, &anchor)
    }
}

/// A line that is no record.
fn without_anchor(line: &[u8]) -> Line<'_> {
    match line {
        [] | [b'\t', ..] => Line::Silent,
        [b'#', rest @ ..] => header(rest),
        _ if is_stack_line(line) => Line::Silent,
        _ => Line::Unknown,
    }
}

fn event<'a>(line: &'a [u8], anchor: &Anchor) -> Line<'a> {
    let rest = &line[anchor.event..];
    if let Some(rest) = rest.strip_prefix(b"block:block_") {
        return block(line, anchor, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"raw_syscalls:sys_") {
        return raw_syscall(line, anchor, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"syscalls:sys_") {
        return named_syscall(line, anchor, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"PERF_RECORD_LOST") {
        let digits = rest.iter().position(u8::is_ascii_digit).map_or(&b""[..], |at| &rest[at..]);
        let records = Cursor(digits).number().unwrap_or(1);
        return Line::Lost { time_ns: anchor.time_ns, cpu: who(&line[..anchor.time]).cpu, records };
    }
    // Any event's name holds a colon at its end; a line without one is not perf's.
    if memchr(b':', rest).is_some() || rest.starts_with(b"PERF_RECORD_") { Line::Other } else { Line::Unknown }
}

/// Time and CPU of a line, for whoever looks back.
pub fn time_and_cpu(line: &[u8]) -> Option<(i64, Option<u32>)> {
    let (anchor, _) = anchor(line)?;
    Some((anchor.time_ns, who(&line[..anchor.time]).cpu))
}

struct Anchor {
    /// Where the time begins.
    time: usize,
    /// Where the name of the event begins.
    event: usize,
    time_ns: i64,
}

/// Finds `SECONDS.FRACTION: `, the only column that every variant of the output has, and says where its colon stands.
fn anchor(line: &[u8]) -> Option<(Anchor, usize)> {
    memchr_iter(b':', line).find_map(|colon| Some((anchor_at(line, colon)?, colon)))
}

/// The anchor whose colon stands here.
#[inline]
fn anchor_at(line: &[u8], colon: usize) -> Option<Anchor> {
    if colon < 8 || line.get(colon..colon + 2) != Some(b": ") {
        return None;
    }
    let decimals = if line[colon - 7] == b'.' {
        6
    } else if colon > 10 && line[colon - 10] == b'.' {
        9
    } else {
        return None;
    };
    let point = colon - decimals - 1;
    let mut time = point;
    let (mut seconds, mut scale) = (0i64, 1i64);
    while time > 0 && line[time - 1].is_ascii_digit() {
        time -= 1;
        // Ten digits of seconds last until the year 2286.
        if point - time > 10 {
            return None;
        }
        seconds += i64::from(line[time] - b'0') * scale;
        scale *= 10;
    }
    if time == point || time > 0 && line[time - 1] != b' ' {
        return None;
    }
    let mut fraction = 0;
    for &byte in &line[point + 1..colon] {
        if !byte.is_ascii_digit() {
            return None;
        }
        fraction = fraction * 10 + i64::from(byte - b'0');
    }
    let fraction_ns = if decimals == 6 { fraction * 1000 } else { fraction };
    let time_ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?;
    Some(Anchor { time, event: event_start(line, colon + 2), time_ns })
}

/// The start of the event's name, behind padding and an optional period.
fn event_start(line: &[u8], mut at: usize) -> usize {
    let skip_blanks = |mut at: usize| {
        while line.get(at) == Some(&b' ') {
            at += 1;
        }
        at
    };
    at = skip_blanks(at);
    let mut end = at;
    while line.get(end).is_some_and(u8::is_ascii_digit) {
        end += 1;
    }
    if end > at && line.get(end) == Some(&b' ') { skip_blanks(end) } else { at }
}

/// `COMM TID`, `COMM PID/TID`, with or without `[CPU]`; an exiting task prints `:-1    -1`.
fn who(columns: &[u8]) -> Who<'_> {
    let mut left = columns.trim_ascii_end();
    let mut cpu = None;
    if let Some(open) = left.strip_suffix(b"]").and_then(|inner| memrchr(b'[', inner)) {
        cpu = Cursor(&left[open + 1..]).number().and_then(|cpu| u32::try_from(cpu).ok());
        left = left[..open].trim_ascii_end();
    }
    let word = memrchr(b' ', left).map_or(0, |blank| blank + 1);
    let id = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i32>().ok();
    let ids = match memchr(b'/', &left[word..]) {
        Some(slash) => id(&left[word..word + slash]).zip(id(&left[word + slash + 1..])),
        None => id(&left[word..]).map(|tid| (NO_ID, tid)),
    };
    match ids {
        Some((pid, tid)) => Who { comm: left[..word].trim_ascii(), pid, tid, cpu },
        None => Who { comm: left.trim_ascii(), pid: NO_ID, tid: NO_ID, cpu },
    }
}

/// Process and thread of these columns, as [`who`] finds them.
#[inline]
fn ids(columns: &[u8]) -> (i32, i32) {
    // The common form is `TID [CPU] `, with blanks before; whatever else it is goes the long way.
    let mut at = columns.len();
    let skip = |mut at: usize, while_: fn(u8) -> bool| {
        while at > 0 && while_(columns[at - 1]) {
            at -= 1;
        }
        at
    };
    at = skip(at, |byte| byte == b' ');
    if at > 0 && columns[at - 1] == b']' {
        at = skip(at - 1, |byte| byte.is_ascii_digit());
        if at > 0 && columns[at - 1] == b'[' {
            let end = skip(at - 1, |byte| byte == b' ');
            let start = skip(end, |byte| byte.is_ascii_digit());
            if start > 0 && columns[start - 1] == b' ' && (1..=9).contains(&(end - start)) {
                let tid = columns[start..end].iter().fold(0, |sum, &byte| sum * 10 + i32::from(byte - b'0'));
                return (NO_ID, tid);
            }
        }
    }
    let who = who(columns);
    (who.pid, who.tid)
}

fn signed(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `rq_issue: MA,MI RWBS [BYTES ](CMD) SECTOR + N [PRIO ][COMM or ERROR]`; vendor kernels put more before the last bracket.
fn block<'a>(line: &'a [u8], anchor: &Anchor, rest: &'a [u8]) -> Line<'a> {
    let Some(colon) = rest.iter().position(|&byte| byte == b':') else { return Line::Unknown };
    let step = match &rest[..colon] {
        b"rq_issue" => Step::Issue,
        b"rq_complete" => Step::Complete,
        b"rq_requeue" => Step::Requeue,
        b"rq_insert" => Step::Insert,
        b"io_start" => Step::Start,
        b"io_done" => Step::Done,
        _ => return Line::Other,
    };
    match block_payload(line, anchor, step, &rest[colon + 1..]) {
        Some(record) => Line::Block(record),
        None => Line::Unknown,
    }
}

fn block_payload(line: &[u8], anchor: &Anchor, step: Step, payload: &[u8]) -> Option<Record> {
    let mut at = Cursor(payload);
    at.blanks();
    let major = at.number()?;
    at.byte(b',')?;
    let minor = at.number()?;
    at.byte(b' ')?;
    let rwbs = at.word()?;
    let bytes = if at.0.first() == Some(&b'(') { 0 } else { at.number().inspect(|_| at.blanks())? };
    // A passthrough command prints its bytes between the brackets.
    match at.0.strip_prefix(b"()") {
        Some(rest) => at.0 = rest,
        None => drop(at.until(b')')?),
    }
    at.blanks();
    let sector = at.number()?;
    at.blanks();
    at.byte(b'+')?;
    at.blanks();
    let sectors = at.number()?;
    let open = at.0.iter().position(|&byte| byte == b'[')?;
    let close = match at.0 {
        [.., b']'] => at.0.len() - 1,
        rest => memrchr(b']', rest)?,
    };
    let tail = at.0.get(open + 1..close)?;
    let of_issuer = matches!(step, Step::Issue | Step::Insert | Step::Start);
    let (pid, tid) = if of_issuer { ids(&line[..anchor.time]) } else { (NO_ID, NO_ID) };
    let error = if of_issuer || tail == b"0" { 0 } else { signed(tail).unwrap_or(0) };
    Some(Record {
        time_ns: anchor.time_ns,
        sector,
        bytes: u32::try_from(bytes).ok()?,
        sectors: u32::try_from(sectors).ok()?,
        dev: u32::try_from(major).ok().filter(|&major| major < 1 << 12)? << 20
            | u32::try_from(minor).ok().filter(|&minor| minor < 1 << 20)?,
        error,
        pid,
        tid,
        step,
        rwbs: padded(rwbs),
        comm: padded(if of_issuer { tail } else { b"" }),
    })
}

/// `enter: NR 0 (3, 7ffe.., 340, 0, 0, 0)` with hexadecimal arguments, `exit: NR 0 = 832`.
fn raw_syscall<'a>(line: &'a [u8], anchor: &Anchor, rest: &'a [u8]) -> Line<'a> {
    let parse = || {
        let (enter, payload) = match rest {
            [b'e', b'n', b't', b'e', b'r', b':', payload @ ..] => (true, payload),
            [b'e', b'x', b'i', b't', b':', payload @ ..] => (false, payload),
            _ => return None,
        };
        let mut at = Cursor(payload.trim_ascii_start().strip_prefix(b"NR ")?);
        // A return from a signal handler shows as number -1.
        let negative = at.byte(b'-').is_some();
        let number = i64::try_from(at.number()?).ok()?;
        let number = if negative { -number } else { number };
        let mut values = [0; 6];
        if enter {
            at.until(b'(')?;
            for (value, text) in values.iter_mut().zip(at.0.split(|&byte| byte == b',')) {
                *value = hexadecimal(text.trim_ascii().strip_suffix(b")").unwrap_or(text.trim_ascii()))?;
            }
        } else {
            at.until(b'=')?;
            values[0] = std::str::from_utf8(at.0.trim_ascii()).ok()?.parse::<i64>().ok()? as u64;
        }
        let who = who(&line[..anchor.time]);
        Some(SyscallLine { who, time_ns: anchor.time_ns, enter, call: CallName::Number(number), values })
    };
    parse().map_or(Line::Unknown, Line::Syscall)
}

/// `enter_read: fd: 0x00000003, buf: 0x7ffe.., count: 0x340`, `exit_read: 0x340` with errors as 0xffff....
fn named_syscall<'a>(line: &'a [u8], anchor: &Anchor, rest: &'a [u8]) -> Line<'a> {
    let parse = || {
        let (enter, rest) = match rest.strip_prefix(b"enter_") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix(b"exit_")?),
        };
        let mut at = Cursor(rest);
        let name = at.until(b':')?;
        let mut values = [0; 6];
        if enter {
            // Names of arguments are of no interest: they come in the order of the call. A quoted text is no number.
            for (value, text) in values.iter_mut().zip(at.0.split(|&byte| byte == b',')) {
                let number = memrchr(b':', text).map_or(text, |colon| &text[colon + 1..]);
                *value = hexadecimal(number.trim_ascii()).unwrap_or(0);
            }
        } else {
            values[0] = hexadecimal(at.0.trim_ascii())?;
        }
        let who = who(&line[..anchor.time]);
        Some(SyscallLine { who, time_ns: anchor.time_ns, enter, call: CallName::Name(name), values })
    };
    parse().map_or(Line::Unknown, Line::Syscall)
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &byte| Some(sum << 4 | u64::from((byte as char).to_digit(16)?)))
}

/// `# hostname : vm`; decoration is silent.
fn header(rest: &[u8]) -> Line<'_> {
    match memchr(b':', rest) {
        Some(colon) => Line::Header(rest[..colon].trim_ascii(), rest[colon + 1..].trim_ascii()),
        None => Line::Silent,
    }
}

/// Stack lines are indented by a tab, or by blanks when a terminal or an editor expanded it: `   ffffffff81b056df name+0xcf (dso)`.
fn is_stack_line(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let address = text.split(|&byte| byte == b' ').next().unwrap_or(b"");
    text.is_empty() || line[0] == b' ' && address.len() >= 8 && hexadecimal(address).is_some()
}

/// Reads a payload from left to right.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn blanks(&mut self) {
        while let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    /// A decimal number; `None` when there is none or it exceeds `u64`.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut value: u64 = 0;
        let mut len = 0;
        for &byte in self.0 {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            // Nineteen digits always fit.
            value = if len < 19 {
                value * 10 + u64::from(digit)
            } else {
                value.checked_mul(10)?.checked_add(u64::from(digit))?
            };
            len += 1;
        }
        self.0 = &self.0[len..];
        (len > 0).then_some(value)
    }

    /// What stands before the next blank, which is near; goes behind it.
    #[inline]
    fn word(&mut self) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|&byte| byte == b' ')?;
        let (word, rest) = self.0.split_at(at);
        self.0 = &rest[1..];
        Some(word)
    }

    /// What stands before the next such byte; goes behind it.
    fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let at = memchr(byte, self.0)?;
        let before = &self.0[..at];
        self.0 = &self.0[at + 1..];
        Some(before)
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
