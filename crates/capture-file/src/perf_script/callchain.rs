//! Call stacks below the lines of records, the innermost frame first, and samples that are no pairs.
//!
//! ```text
//! ffffffff81b047f9 blk_account_io_start+0x149 ([kernel.kallsyms])
//!            f6417 __libc_pread64+0x57 (inlined)
//! ```

use super::line::{self, Who, hexadecimal};
use crate::block_pairs::padded;
use crate::perf_sample::{SampleRecord, sampled};
use crate::scan::leading_number;
use latscope_event::{FrameKind, MISSING_CODE, push_frame};
use memchr::{memchr, memrchr};

/// More frames than any stack has: the kernel records 127 unless told otherwise.
const FRAMES_LIMIT: usize = 4096;
/// Kernel code lies in the upper half of all addresses.
const KERNEL_FROM: u64 = 1 << 63;

/// Whether the line belongs to the stack of the record above it.
pub fn is_frame(line: &[u8]) -> bool {
    let is_one = line.starts_with(b"\t") || line.starts_with(b" ") && line::is_stack_line(line);
    is_one && !line.trim_ascii().is_empty() && line::anchor(line).is_none()
}

/// The text of a stack that is printed on these lines.
pub fn text(lines: &[u8]) -> String {
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = lines.filter(|line| !line::is_source_line(line)).take(FRAMES_LIMIT).collect();
    let mut stack = String::new();
    for line in lines.into_iter().rev() {
        push(line, &mut stack);
    }
    stack
}

/// Adds the frame of a line: `ADDRESS [SYMBOL[+OFFSET]] [(MODULE)]`.
fn push(line: &[u8], stack: &mut String) {
    let line = line.trim_ascii();
    let end = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
    let address = hexadecimal(&line[..end]);
    let rest = if address.is_some() { line[end..].trim_ascii() } else { line };
    let (symbol, module) = parts(rest);
    let is_inlined = module == b"inlined";
    let name = module.rsplit(|&byte| byte == b'/').next().unwrap_or(module);
    let is_jit = name.starts_with(b"perf-") && name.ends_with(b".map") || name.starts_with(b"jitted-");
    let kind = match () {
        () if address.is_some_and(|address| address >= KERNEL_FROM) => FrameKind::Kernel,
        () if is_inlined => FrameKind::Inlined,
        () if symbol.starts_with(b"py::") => FrameKind::Python,
        () if is_jit => FrameKind::Jit,
        () => FrameKind::User,
    };
    let is_named = !matches!(symbol, b"" | b"[unknown]");
    if is_named {
        push_frame(stack, &String::from_utf8_lossy(symbol), kind);
    } else if name.is_empty() || name.starts_with(b"[") || is_inlined {
        push_frame(stack, "[unknown]", kind);
    } else {
        // As the collapse scripts have it: the module is all that is known.
        push_frame(stack, &format!("[{}]", String::from_utf8_lossy(name)), kind);
    }
}

/// Name and module of `NAME[+0xOFFSET] [(MODULE)]`: both may hold blanks and brackets.
fn parts(text: &[u8]) -> (&[u8], &[u8]) {
    let offset = memchr::memmem::rfind(text, b"+0x").filter(|&plus| {
        let digits = text[plus + 3..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        digits > 0 && matches!(text.get(plus + 3 + digits), None | Some(b' '))
    });
    let in_brackets = |text: &'_ [u8]| -> Option<(usize, usize)> {
        let inner = text.strip_suffix(b")")?;
        // `(/memfd:cache (deleted))`
        let before = inner.strip_suffix(b" (deleted)").unwrap_or(inner);
        Some((memrchr(b'(', before)?, inner.len()))
    };
    match offset {
        Some(plus) => {
            let module = memchr(b'(', &text[plus..]).map(|open| &text[plus + open..]).unwrap_or_default();
            let module = module.strip_prefix(b"(").and_then(|module| module.strip_suffix(b")")).unwrap_or_default();
            (&text[..plus], module)
        }
        None => match in_brackets(text) {
            Some((open, close)) if open == 0 || text[open - 1] == b' ' => {
                (text[..open].trim_ascii_end(), &text[open + 1..close])
            }
            _ => (text, b""),
        },
    }
}

/// A sample's line, and its only frame where it was recorded without a stack.
pub fn sample(line: &[u8]) -> Option<(SampleRecord, &[u8])> {
    let (anchor, colon) = line::anchor(line)?;
    let event = &line[anchor.event..];
    let (name, frame) = match memchr::memmem::find(event, b": ") {
        Some(end) => (&event[..end], &event[end + 2..]),
        None => (event.trim_ascii_end().strip_suffix(b":")?, &b""[..]),
    };
    let (name, is_clock) = sampled(name)?;
    let period = leading_number(line[colon + 1..anchor.event].trim_ascii()).map_or(0, |(period, _)| period);
    let Who { comm, pid, tid, .. } = line::who(&line[..anchor.time]);
    let record = SampleRecord {
        time_ns: anchor.time_ns,
        pid,
        tid,
        comm: padded(comm),
        name: padded(name),
        period_ns: if is_clock { period.min(i64::MAX as u64) } else { 0 },
        stack: MISSING_CODE,
    };
    Some((record, frame.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_perf_prints_them() {
        for (lines, expect) in [
            ("\tffffffff81b047f9 a+0x149 ([kernel.kallsyms])\n\t  f6417 p+0x57 (/lib/libc.so.6)\n", "p;a_[k]"),
            (
                "\t f6417 __libc_pread64+0x57 (inlined)\n\t 12c6 block_read+0x16 (/x/app)",
                "block_read;__libc_pread64_[i]",
            ),
            ("\t b8450ad [unknown] ([unknown])\n\t 12 [unknown] (/x/a b (deleted))\n", "[a b (deleted)];[unknown]"),
            ("\t 12 operator()(int, char)+0x3 (/x/app)\n", "operator()(int, char)"),
            ("\t 12 f(int) (/x/app)\n\t 13 g;h\n", "g:h;f(int)"),
            (
                "\t 7f00 py::scan:/srv/a.py+0xb (/tmp/perf-12.map)\n\t 7f01 Lx;::run+0x1 (/tmp/perf-12.map)\n",
                "Lx:::run_[j];py::scan:/srv/a.py",
            ),
            ("        7f00 a+0x1 (/x)\n", "a"),
            (
                "\t7f88f0c7d1d4 inner+0x24 (/usr/lib/l.so)\n  l.so[7f88f0c7d1d4]\n\t55d499b3e460 [unknown] ([unknown])\n\
                 \t7f88f0c7d1d5 outer+0x24 (/usr/lib/l.so)\n  main.c:35 (discriminator 2)\n",
                "outer;[unknown];inner",
            ),
            ("\tffffffffc0001234 nvme_poll+0x1 ([nvme])\n", "nvme_poll_[k]"),
        ] {
            assert_eq!(text(lines.as_bytes()), expect, "{lines}");
        }
        assert!(text("\t 1 a+0x1 (x)\n".repeat(100_000).as_bytes()).len() < 3 * FRAMES_LIMIT);
    }

    #[test]
    fn samples_are_events_of_clocks_and_counters() {
        let (record, frame) =
            sample(b"perf 7/8 [001]  12.345678:   10101010 cpu-clock:pppH:  12c6 main+0x6 (/x/app)").unwrap();
        assert_eq!((record.pid, record.tid, record.period_ns), (7, 8, 10_101_010));
        assert_eq!(frame, b"12c6 main+0x6 (/x/app)");
        let (record, frame) = sample(b"perf 7 12.345678: 250000 cycles:").unwrap();
        assert_eq!((record.period_ns, frame), (0, &b""[..]));
        for line in [
            &b"perf 7 [001] 12.345678: sched:sched_switch: prev_comm=a"[..],
            b"perf 7 [001] 12.345678: PERF_RECORD_COMM: perf:7/7",
            b"hello",
        ] {
            assert!(sample(line).is_none(), "{}", String::from_utf8_lossy(line));
        }
    }
}
