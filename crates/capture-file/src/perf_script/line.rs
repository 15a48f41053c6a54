//! One line of `perf script`.
//!
//! `COMM TID [CPU] TIME: EVENT: PAYLOAD`, where the command name may hold anything and most columns may be absent.
//! The anchor is the time: digits, a point, six or nine digits, a colon and a blank, then the name of an event.
//! Fields are never counted from either end.

use crate::block_actions::ActionRecord;
use crate::block_pairs::{NO_ID, Record, Step, padded};
use crate::cursor::Cursor;
use crate::scan::{blanks, trailing_number};
use latscope_event::MISSING_CODE;
use memchr::{memchr, memchr_iter, memrchr};

/// What a line says.
#[derive(Debug)]
pub enum Line<'a> {
    /// A record of the block layer.
    Block(Record),
    /// A record of the blk tracer, and the name of its thread.
    Action(ActionRecord, [u8; 16]),
    /// A system call starts or ends.
    Syscall(SyscallLine<'a>),
    /// `--show-lost-events`: so many records of a CPU were lost before this moment.
    Lost { time_ns: i64, cpu: Option<u32>, records: u64 },
    /// So many records of a CPU were lost between those of its lines that stand before and behind.
    Gap { cpu: u32, records: u64 },
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

/// Understands the lines of one tool.
pub trait LineSource: Default {
    /// Understands a line (without its newline).
    fn parse<'a>(&mut self, line: &'a [u8]) -> Line<'a>;

    /// Time and CPU of a line, for whoever looks around.
    fn time_and_cpu(line: &[u8]) -> Option<(i64, Option<u32>)>;
}

/// Understands lines of perf. Columns mostly stand where they stood in the line before and say the same, so it looks there first.
#[derive(Default)]
pub struct LineParser {
    /// Where the colon behind the time stood.
    colon: usize,
    seconds: Seconds,
    device: Device,
    /// Tails seen, each in the place that its hash says.
    tails: [Tail; 1 << TAIL_BITS],
}

/// The last seconds before a point.
#[derive(Default)]
struct Seconds {
    /// Their digits and the blank before, in the high bytes; the low bytes do not count.
    word: u64,
    ignored_bits: u32,
    width: usize,
    seconds: u64,
}

/// The last device, `MA,MI` and a blank.
#[derive(Default)]
struct Device {
    /// Its text in the low bytes; the high bytes do not count.
    word: u64,
    ignored_bits: u32,
    len: usize,
    dev: u32,
}

/// Sizes and command names are few, and one place for each of them is found faster than their text is read.
const TAIL_BITS: u32 = 5;

/// What stands behind the first sector: ` + N [PRIO ][COMM or ERROR]`.
#[derive(Default)]
struct Tail {
    key: TailKey,
    sectors: u32,
    error: i32,
    comm: [u8; 16],
}

impl LineSource for LineParser {
    #[inline(always)]
    fn parse<'a>(&mut self, line: &'a [u8]) -> Line<'a> {
        let anchor = match self.anchor_at(line, self.colon) {
            Some(anchor) => anchor,
            None => match anchor(line) {
                Some((anchor, colon)) => {
                    self.colon = colon;
                    anchor
                }
                None => return without_anchor(line),
            },
        };
        let rest = &line[anchor.event..];
        match rest.strip_prefix(b"block:block_") {
            Some(rest) => self.block(line, &anchor, rest),
            None => other_event(line, &anchor, rest),
        }
    }

    fn time_and_cpu(line: &[u8]) -> Option<(i64, Option<u32>)> {
        let (anchor, _) = anchor(line)?;
        Some((anchor.time_ns, who(&line[..anchor.time]).cpu))
    }
}

impl LineParser {
    /// The anchor whose colon stands here.
    #[inline(always)]
    fn anchor_at(&mut self, line: &[u8], colon: usize) -> Option<Anchor> {
        if colon < 16 || line.get(colon..colon + 2) != Some(b": ") || line[colon - 7] != b'.' {
            return anchor_at(line, colon);
        }
        let point = colon - 7;
        let known = &mut self.seconds;
        let word = u64::from_le_bytes(*line[..point].last_chunk()?);
        if (word ^ known.word) >> known.ignored_bits != 0 || known.width == 0 {
            let anchor = anchor_at(line, colon)?;
            let width = point - anchor.time;
            if width < 8 {
                let seconds = (anchor.time_ns / 1_000_000_000) as u64;
                *known = Seconds { word, ignored_bits: 56 - 8 * width as u32, width, seconds };
            }
            return Some(anchor);
        }
        let (fraction_us, 6) = trailing_number(&line[..colon]) else { return None };
        let time_ns = (known.seconds * 1_000_000_000 + fraction_us * 1000) as i64;
        Some(Anchor { time: point - known.width, event: event_start(line, colon + 2), time_ns })
    }

    /// `rq_issue: MA,MI RWBS [BYTES ](CMD) SECTOR + N [PRIO ][COMM or ERROR]`; vendor kernels put more before the last
    /// bracket.
    #[inline(always)]
    fn block<'a>(&mut self, line: &'a [u8], anchor: &Anchor, rest: &'a [u8]) -> Line<'a> {
        let Some((step, payload)) = step(rest) else {
            return if rest.contains(&b':') { Line::Other } else { Line::Unknown };
        };
        let Some(record) = self.payload(step, payload) else { return Line::Unknown };
        let of_issuer = matches!(step, Step::Issue | Step::Insert | Step::Start);
        let (pid, tid) = if of_issuer { ids(&line[..anchor.time]) } else { (NO_ID, NO_ID) };
        Line::Block(Record { time_ns: anchor.time_ns, pid, tid, ..record })
    }

    /// What stands behind the name of the event; the line gives time and thread.
    #[inline(always)]
    pub fn payload(&mut self, step: Step, payload: &[u8]) -> Option<Record> {
        let mut at = Cursor(payload);
        at.blanks();
        let dev = self.device(&mut at)?;
        let rwbs = at.letters()?;
        let bytes = if at.0.first() == Some(&b'(') { 0 } else { at.number().inspect(|_| at.blanks())? };
        // A passthrough command prints its bytes between the brackets.
        match at.0.strip_prefix(b"()") {
            Some(rest) => at.0 = rest,
            None => drop(at.until(b')')?),
        }
        at.blanks();
        let sector = at.number()?;
        let of_issuer = matches!(step, Step::Issue | Step::Insert | Step::Start);
        let key = TailKey::new(at.0, of_issuer);
        let known = &mut self.tails[key.place()];
        if key != known.key || key.len == 0 {
            *known = tail(at.0, of_issuer)?;
            known.key = key;
        }
        Some(Record {
            time_ns: 0,
            sector,
            bytes: u32::try_from(bytes).ok()?,
            sectors: known.sectors,
            dev,
            error: known.error,
            pid: NO_ID,
            tid: NO_ID,
            step,
            rwbs,
            comm: known.comm,
            stack: MISSING_CODE,
        })
    }

    /// `MA,MI` and a blank, as the kernel packs it.
    #[inline(always)]
    fn device(&mut self, at: &mut Cursor) -> Option<u32> {
        let word = at.0.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let known = &mut self.device;
        if let Some(word) = word
            && known.len > 0
            && (word ^ known.word) << known.ignored_bits == 0
        {
            at.0 = &at.0[known.len..];
            return Some(known.dev);
        }
        let before = at.0.len();
        let major = u32::try_from(at.number()?).ok().filter(|&major| major < 1 << 12)?;
        at.byte(b',')?;
        let minor = u32::try_from(at.number()?).ok().filter(|&minor| minor < 1 << 20)?;
        at.byte(b' ')?;
        let (len, dev) = (before - at.0.len(), major << 20 | minor);
        if let Some(word) = word.filter(|_| len <= 8) {
            *known = Device { word, ignored_bits: 64 - 8 * len as u32, len, dev };
        }
        Some(dev)
    }
}

const STEPS: [(&[u8], Step); 6] = [
    (b"rq_issue:", Step::Issue),
    (b"rq_complete:", Step::Complete),
    (b"rq_requeue:", Step::Requeue),
    (b"rq_insert:", Step::Insert),
    (b"io_start:", Step::Start),
    (b"io_done:", Step::Done),
];

/// The tracepoint that a text behind `block_` starts with, and what is behind its name.
#[inline(always)]
pub fn step(rest: &[u8]) -> Option<(Step, &[u8])> {
    STEPS.iter().find_map(|&(name, step)| Some((step, rest.strip_prefix(name)?)))
}

/// All of a text of 8 to 32 bytes: its length, beginning and end, which may overlap. Length 0 for any other.
#[derive(Default, PartialEq, Eq)]
struct TailKey {
    len: usize,
    of_issuer: bool,
    first: u128,
    last: u128,
}

impl TailKey {
    #[inline(always)]
    fn new(text: &[u8], of_issuer: bool) -> TailKey {
        let of_eight = |bytes: &[u8; 8]| u128::from(u64::from_le_bytes(*bytes));
        let (len, first, last) = match text.len() {
            16..=32 => (text.len(), text.first_chunk().copied(), text.last_chunk().copied()),
            8..=15 => {
                let (first, last) = (text.first_chunk().map(of_eight), text.last_chunk().map(of_eight));
                (text.len(), first.map(u128::to_le_bytes), last.map(u128::to_le_bytes))
            }
            _ => (0, None, None),
        };
        let word = |bytes: Option<[u8; 16]>| u128::from_le_bytes(bytes.unwrap_or_default());
        TailKey { len, of_issuer, first: word(first), last: word(last) }
    }

    /// Where in the table it belongs.
    #[inline(always)]
    fn place(&self) -> usize {
        let mixed = self.first as u64 ^ ((self.last >> 64) as u64 ^ self.last as u64).rotate_left(20);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TAIL_BITS)) as usize
    }
}

fn tail(text: &[u8], of_issuer: bool) -> Option<Tail> {
    let mut at = Cursor(text);
    at.blanks();
    at.byte(b'+')?;
    at.blanks();
    let sectors = u32::try_from(at.number()?).ok()?;
    at.until(b'[')?;
    let last = &at.0[..memrchr(b']', at.0)?];
    let error = if of_issuer { 0 } else { signed(last).unwrap_or(0) };
    Some(Tail { key: TailKey::default(), sectors, error, comm: padded(if of_issuer { last } else { b"" }) })
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

fn other_event<'a>(line: &'a [u8], anchor: &Anchor, rest: &'a [u8]) -> Line<'a> {
    if let Some(rest) = rest.strip_prefix(b"raw_syscalls:sys_") {
        return raw_syscall(|| who(&line[..anchor.time]), anchor.time_ns, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"syscalls:sys_") {
        return named_syscall(|| who(&line[..anchor.time]), anchor.time_ns, rest);
    }
    if let Some(rest) = rest.strip_prefix(b"PERF_RECORD_LOST") {
        let digits = rest.iter().position(u8::is_ascii_digit).map_or(&b""[..], |at| &rest[at..]);
        let records = Cursor(digits).number().unwrap_or(1);
        return Line::Lost { time_ns: anchor.time_ns, cpu: who(&line[..anchor.time]).cpu, records };
    }
    // Any event's name holds a colon at its end; a line without one is not perf's.
    if memchr(b':', rest).is_some() || rest.starts_with(b"PERF_RECORD_") { Line::Other } else { Line::Unknown }
}

/// The column that every line with a record has.
pub struct Anchor {
    /// Where the time starts.
    pub time: usize,
    /// Where the name of the event starts.
    pub event: usize,
    /// The time.
    pub time_ns: i64,
}

/// Finds `SECONDS.FRACTION: `, the only column that every variant of the output has, and says where its colon stands.
pub fn anchor(line: &[u8]) -> Option<(Anchor, usize)> {
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
    let (seconds, width) = trailing_number(&line[..point]);
    let time = point - width;
    // Ten digits of seconds last until the year 2286 and cannot overflow.
    if !(1..=10).contains(&width) || time > 0 && line[time - 1] != b' ' {
        return None;
    }
    let (fraction, width) = trailing_number(&line[..colon]);
    if width != decimals {
        return None;
    }
    let fraction_ns = if decimals == 6 { fraction * 1000 } else { fraction };
    let time_ns = i64::try_from(seconds * 1_000_000_000 + fraction_ns).ok()?;
    Some(Anchor { time, event: event_start(line, colon + 2), time_ns })
}

/// The start of the event's name, behind padding and an optional period.
#[inline]
fn event_start(line: &[u8], at: usize) -> usize {
    let skip_blanks = |at: usize| at + line.get(at..).map_or(0, blanks);
    let at = skip_blanks(at);
    if !line.get(at).is_some_and(u8::is_ascii_digit) {
        return at;
    }
    let end = at + line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if line.get(end) == Some(&b' ') { skip_blanks(end) } else { at }
}

/// `COMM TID`, `COMM PID/TID`, with or without `[CPU]`; an exiting task prints `:-1    -1`.
pub fn who(columns: &[u8]) -> Who<'_> {
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
#[inline(always)]
fn ids(columns: &[u8]) -> (i32, i32) {
    // The common form is `TID [CPU] `, with blanks before; whatever else it is goes the long way.
    let common = || {
        let before_cpu = columns.trim_ascii_end().strip_suffix(b"]")?;
        let (_, width) = trailing_number(before_cpu);
        let before_tid = before_cpu[..before_cpu.len() - width].strip_suffix(b" [")?.trim_ascii_end();
        let (tid, width) = trailing_number(before_tid);
        let is_alone = before_tid[..before_tid.len() - width].ends_with(b" ");
        (is_alone && (1..=9).contains(&width)).then_some((NO_ID, tid as i32))
    };
    common().unwrap_or_else(|| {
        let who = who(columns);
        (who.pid, who.tid)
    })
}

fn signed(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `enter: NR 0 (3, 7ffe.., 340, 0, 0, 0)` with hexadecimal arguments, `exit: NR 0 = 832`.
pub fn raw_syscall<'a>(who: impl FnOnce() -> Who<'a>, time_ns: i64, rest: &'a [u8]) -> Line<'a> {
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
        Some(SyscallLine { who: who(), time_ns, enter, call: CallName::Number(number), values })
    };
    parse().map_or(Line::Unknown, Line::Syscall)
}

/// `enter_read: fd: 0x00000003, buf: 0x7ffe.., count: 0x340`, `exit_read: 0x340` with errors as 0xffff....
pub fn named_syscall<'a>(who: impl FnOnce() -> Who<'a>, time_ns: i64, rest: &'a [u8]) -> Line<'a> {
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
        Some(SyscallLine { who: who(), time_ns, enter, call: CallName::Name(name), values })
    };
    parse().map_or(Line::Unknown, Line::Syscall)
}

/// A number in hexadecimal, with or without `0x`.
pub fn hexadecimal(text: &[u8]) -> Option<u64> {
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
pub fn is_stack_line(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let address = text.split(|&byte| byte == b' ').next().unwrap_or(b"");
    text.is_empty() || line[0] == b' ' && address.len() >= 8 && hexadecimal(address).is_some() || is_source_line(line)
}

/// What `-F +srcline` prints below a frame: `  main.c:35`, or module and address, `  libc.so.6[f6417]`.
pub fn is_source_line(line: &[u8]) -> bool {
    let Some(text) = line.strip_prefix(b"  ").filter(|text| text.first().is_some_and(|byte| *byte != b' ')) else {
        return false;
    };
    let text = text.trim_ascii_end();
    let text = memchr::memmem::find(text, b" (discriminator ").map_or(text, |end| &text[..end]);
    let is_place = |end: &[u8]| !end.is_empty() && end.iter().all(u8::is_ascii_digit);
    let is_address = |end: &[u8]| end.strip_suffix(b"]").is_some_and(|text| hexadecimal(text).is_some());
    let (colon, bracket) = (memrchr(b':', text), memrchr(b'[', text));
    colon.is_some_and(|at| at > 0 && is_place(&text[at + 1..]))
        || bracket.is_some_and(|at| at > 0 && is_address(&text[at + 1..]))
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
