//! One line of strace: `[PID] [TIME] CALL`, where the time is that of the start of the call, and what ends the call, if anything.

use crate::call_text::{CallText, name_len};
use crate::scan::{blanks, decimal_seconds, leading_number};
use memchr::{memchr, memmem, memrchr};

/// A line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// The thread; strace calls it pid.
    pub tid: Option<i32>,
    /// Its command name (`-Y`); empty if it is not printed.
    pub comm: &'a [u8],
    pub stamp: Option<Stamp>,
    pub what: What<'a>,
}

/// When a line was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    /// `-ttt`: since 1970.
    Unix(i64),
    /// `-t`, `-tt`: since midnight, local time.
    OfDay(i64),
    /// `-r`: since the line before.
    Relative(i64),
}

/// What a line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// A call and how long it took, if that is printed.
    Call(CallText<'a>, Option<u64>),
    /// The start of a call that another line goes on with.
    Unfinished(&'a [u8]),
    /// The rest of a call: its name, the text behind `resumed>`, and how long it took.
    Resumed(&'a [u8], &'a [u8], Option<u64>),
    /// A call that ends with its thread.
    NeverReturns,
    /// The end of a thread.
    Ended,
    /// A signal, or a remark of strace.
    Other,
}

const UNFINISHED: &[u8] = b"<unfinished ...>";
const DETACHED: &[u8] = b"<detached ...>";
const RESUMED: &[u8] = b" resumed>";
/// No time is longer than this when it is relative: fewer seconds than any wall clock has shown since strace exists.
const EARLIEST_UNIX_S: i64 = 600_000_000;
const NS_PER_S: i64 = 1_000_000_000;

impl Line<'_> {
    /// Reads a line; `None` when strace did not print it.
    pub fn parse(line: &[u8]) -> Option<Line<'_>> {
        let line = line.trim_ascii_end();
        let (tid, comm, rest) = thread(line);
        let (stamp, rest) = stamp(rest);
        let rest = skip_columns(rest);
        Some(Line { tid, comm, stamp, what: What::parse(rest)? })
    }
}

impl What<'_> {
    fn parse(text: &[u8]) -> Option<What<'_>> {
        match text.first()? {
            b'+' if text.starts_with(b"+++ ") => return Some(What::Ended),
            b'-' if text.starts_with(b"--- ") => return Some(What::Other),
            b's' if text.starts_with(b"strace: ") => return Some(What::Other),
            b'[' if text.starts_with(b"[ Process ") => return Some(What::Other),
            b'<' | b' ' if text.trim_ascii() == DETACHED => return Some(What::Other),
            b'<' => return resumed(text),
            _ => {}
        }
        for end in [UNFINISHED, DETACHED] {
            if let Some(call) = text.strip_suffix(end) {
                return CallText::parse_open(call).map(|_| What::Unfinished(call.trim_ascii_end()));
            }
        }
        // strace was interrupted while it printed the call.
        if text.ends_with(b" detached")
            && let Some(at) = memmem::rfind(text, b"strace: Process ")
        {
            return CallText::parse_open(&text[..at]).map(|_| What::Unfinished(text[..at].trim_ascii_end()));
        }
        let (text, latency_ns) = split_latency(text);
        let call = CallText::parse(text)?;
        let is_killed = call.arguments.ends_with(UNFINISHED);
        if call.result == b"?" || is_killed {
            return Some(What::NeverReturns);
        }
        let value = call.returned();
        (value.value.is_some() || value.error.is_some()).then_some(What::Call(call, latency_ns))
    }
}

/// `<... read resumed>"root"..., 832) = 832 <0.000008>`.
fn resumed(text: &[u8]) -> Option<What<'_>> {
    let text = text.strip_prefix(b"<... ")?;
    let name = &text[..name_len(text)];
    let rest = text[name.len()..].strip_prefix(RESUMED)?;
    if rest.ends_with(b"= ?")
        || memmem::rfind(rest, UNFINISHED).is_some_and(|at| at + UNFINISHED.len() + 5 >= rest.len())
    {
        return Some(What::NeverReturns);
    }
    let (rest, latency_ns) = split_latency(rest);
    (!name.is_empty()).then_some(What::Resumed(name, rest, latency_ns))
}

/// Cuts off the duration that `-T` prints at the end.
pub fn split_latency(text: &[u8]) -> (&[u8], Option<u64>) {
    let Some(inner) = text.strip_suffix(b">") else { return (text, None) };
    let Some(open) = memrchr(b'<', inner) else { return (text, None) };
    let digits = &inner[open + 1..];
    // Whole seconds have no point (`--syscall-times=s`).
    let is_duration = !digits.is_empty() && text[..open].ends_with(b" ");
    match decimal_seconds(digits).filter(|&ns| is_duration && ns <= i64::MAX as u64 / 2) {
        Some(latency_ns) => (text[..open].trim_ascii_end(), Some(latency_ns)),
        None => (text, None),
    }
}

/// The columns `[pid 123] ` of a terminal or `123 ` of a file, with the command name behind the number (`-Y`).
fn thread(line: &[u8]) -> (Option<i32>, &[u8], &[u8]) {
    let none = (None, &b""[..], line);
    let text = match line.strip_prefix(b"[pid ") {
        Some(text) => text,
        None => line,
    };
    let text = &text[blanks(text)..];
    let Some((number, len)) = leading_number(text).filter(|&(_, len)| len > 0) else { return none };
    let Ok(tid) = i32::try_from(number) else { return none };
    let mut rest = &text[len..];
    let mut comm = &b""[..];
    if rest.first() == Some(&b'<') {
        // A command name may hold anything; the column ends with a blank, or a bracket on a terminal.
        let ends = memmem::find(rest, b"> ").into_iter().chain(memmem::find(rest, b">]"));
        let Some(end) = ends.min() else { return none };
        (comm, rest) = (&rest[1..end], &rest[end + 1..]);
    }
    let rest = if line.starts_with(b"[pid ") { rest.strip_prefix(b"]") } else { Some(rest) };
    match rest {
        Some(rest) if rest.starts_with(b" ") => (Some(tid), comm, &rest[blanks(rest)..]),
        _ => none,
    }
}

/// The column of `-t`, `-tt`, `-ttt` or `-r`, and of `-r` beside another.
fn stamp(text: &[u8]) -> (Option<Stamp>, &[u8]) {
    let start = &text[blanks(text)..];
    let len = start.iter().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':')).count();
    let (digits, rest) = start.split_at(len);
    if !rest.starts_with(b" ") {
        return (None, text);
    }
    let stamp = if digits.contains(&b':') { of_day(digits) } else { seconds(digits) };
    let rest = &rest[blanks(rest)..];
    let rest = match rest.strip_prefix(b"(+") {
        Some(relative) => relative.splitn(2, |&byte| byte == b')').nth(1).map_or(rest, <[u8]>::trim_ascii_start),
        None => rest,
    };
    if stamp.is_some() { (stamp, rest) } else { (None, text) }
}

fn seconds(digits: &[u8]) -> Option<Stamp> {
    let ns = i64::try_from(decimal_seconds(digits).filter(|_| !digits.is_empty())?).ok()?;
    // Room for a duration behind it.
    let ns = (ns < i64::MAX / 2).then_some(ns)?;
    Some(if ns < EARLIEST_UNIX_S * NS_PER_S && digits.contains(&b'.') { Stamp::Relative(ns) } else { Stamp::Unix(ns) })
}

/// `01:24:35.985540`.
fn of_day(digits: &[u8]) -> Option<Stamp> {
    let hours = memchr(b':', digits)?;
    let minutes = hours + 1 + memchr(b':', &digits[hours + 1..])?;
    let number = |text: &[u8], most: u64| {
        let (value, len) = leading_number(text)?;
        (len == text.len() && len > 0 && value <= most).then_some(value as i64)
    };
    let (hours, minutes) = (number(&digits[..hours], 23)?, number(&digits[hours + 1..minutes], 59)?);
    let seconds = &digits[digits.len().min(digits.iter().rposition(|&byte| byte == b':')? + 1)..];
    let ns = decimal_seconds(seconds).filter(|&ns| ns <= 60 * NS_PER_S as u64)? as i64;
    Some(Stamp::OfDay((hours * 3600 + minutes * 60) * NS_PER_S + ns))
}

/// Skips the number of the call (`-n`) and the instruction pointer (`-i`): `[ 257] [00007f0000000000] `.
fn skip_columns(mut text: &[u8]) -> &[u8] {
    while let Some(inner) = text.strip_prefix(b"[") {
        let len = inner.iter().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'?')).count();
        match inner[len..].strip_prefix(b"] ") {
            Some(rest) if len > 0 => text = rest,
            _ => break,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Line<'_> {
        Line::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"))
    }

    #[test]
    fn columns_before_the_call() {
        let unix = Some(Stamp::Unix(1_795_224_273_683_378_000));
        let of_day = Some(Stamp::OfDay(5_075_985_540_000));
        for (line, tid, comm, stamp) in [
            ("close(3) = 0 <0.000007>", None, "", None),
            ("27224 1795224273.683378 close(3) = 0 <0.000007>", Some(27224), "", unix),
            ("27224<a b> 1795224273.683378000 close(3) = 0", Some(27224), "a b", unix),
            ("1795224273.683378 close(3)        = 0 <0.000007>", None, "", unix),
            ("[pid 27224] 01:24:35.985540 close(3) = 0", Some(27224), "", of_day),
            ("[pid    24<tar>] 01:24:35.985540 close(3) = 0", Some(24), "tar", of_day),
            ("01:24:35 close(3) = 0", None, "", Some(Stamp::OfDay(5_075_000_000_000))),
            ("     0.000123 close(3) = 0", None, "", Some(Stamp::Relative(123_000))),
            ("27224      0.000123 close(3) = 0", Some(27224), "", Some(Stamp::Relative(123_000))),
            ("01:24:35.985540 (+     0.000040) close(3) = 0", None, "", of_day),
            ("27224 [   3] [00007f8d1c3f8c47] close(3) = 0", Some(27224), "", None),
            ("27224 close(3) = 0", Some(27224), "", None),
        ] {
            let line = parsed(line);
            assert_eq!((line.tid, line.comm, line.stamp), (tid, comm.as_bytes(), stamp));
            assert!(matches!(line.what, What::Call(CallText { name: b"close", .. }, _)), "{line:?}");
        }
    }

    #[test]
    fn ends_of_lines() {
        let what = |line| parsed(line).what;
        assert!(matches!(what("read(0, \"<1.5>\", 5) = 5 <0.000012>"), What::Call(_, Some(12_000))));
        assert!(matches!(what("read(0, \"\", 5) = 5 <0.000012345>"), What::Call(_, Some(12_345))));
        assert!(matches!(what("open(\"x\") = 3</0.5>"), What::Call(_, None)));
        assert!(matches!(what("close(3) = 0 <1>"), What::Call(_, Some(1_000_000_000))));
        assert_eq!(what(" <detached ...>"), What::Other);
        assert_eq!(what("read(3, strace: Process 7 detached"), What::Unfinished(b"read(3,"));
        assert!(matches!(what("fsync(3) = 0 (DELAYED) <0.100123>"), What::Call(_, Some(100_123_000))));
        assert_eq!(what("read(3,  <unfinished ...>"), What::Unfinished(b"read(3,"));
        assert_eq!(
            what("futex(0x7f, FUTEX_WAIT, 2, NULL <detached ...>"),
            What::Unfinished(b"futex(0x7f, FUTEX_WAIT, 2, NULL")
        );
        assert_eq!(
            what("<... read resumed>\"a\", 1) = 1 <0.5>"),
            What::Resumed(b"read", b"\"a\", 1) = 1", Some(500_000_000))
        );
        for line in [
            "exit_group(0) = ?",
            "read(0,  <unfinished ...>) = ?",
            "<... futex resumed>) = ?",
            "<... read resumed> <unfinished ...>) = ?",
        ] {
            assert_eq!(what(line), What::NeverReturns, "{line}");
        }
        assert_eq!(what("+++ exited with 0 +++"), What::Ended);
        for line in [
            "--- SIGCHLD {si_signo=SIGCHLD} ---",
            "strace: Process 7 attached",
            "[ Process PID=7 runs in 32 bit mode. ]",
        ] {
            assert_eq!(what(line), What::Other, "{line}");
        }
        for line in [
            "",
            "hello",
            "1 2",
            "foo() bar",
            "x = f(1) = 2",
            "read(3, 4",
            "f(x) = y",
            "<... resumed>",
            "[pid x] f() = 0",
        ] {
            assert_eq!(Line::parse(line.as_bytes()), None, "{line}");
        }
    }
}
