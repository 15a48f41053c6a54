//! Which format a file has, from its content only.

use crate::formats::Format;
use crate::input::{CUT_SO_EARLY, Input};
use crate::{Detected, Error, Position, Remedy};
use std::path::Path;

/// What a file is that other programs know, and what to do instead of reading it.
fn unread(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const PERF: &str = "record with perf record -e block:block_rq_issue -e block:block_rq_complete -a";
    let text = || String::from_utf8_lossy(&head[..head.len().min(4096)]);
    let first = |what: &[u8]| head.starts_with(what);
    let line = || head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let has = |words: &[&[u8]]| words.iter().all(|word| memchr::memmem::find(line(), word).is_some());
    const RESULTS: &str = "it has results, not events; read the file it was made from";
    Some(match () {
        () if has(&[b"width_ns", b"rate_per_s", b"trusted_p"]) => ("a table written by latscope percentiles", RESULTS),
        () if has(&[b"rate_per_s", b"bytes_per_s", b"share"])
            || first(b"{") && has(&[b"\"rate_per_s\"", b"\"groups\""]) =>
        {
            ("a table written by latscope summary", RESULTS)
        }
        () if first(b"\xfd7zXZ\0") => ("compressed with xz", "unpack it: xz -dc FILE | latscope ... -r -"),
        () if first(b"BZh") => ("compressed with bzip2", "unpack it: bzip2 -dc FILE | latscope ... -r -"),
        () if first(b"\x17\x08\x44tracing") => ("a trace.dat of trace-cmd", PERF),
        // Magic and version of the first record, in either byte order.
        () if head.get(1..4) == Some(b"\x74\x61\x65".as_slice()) || first(b"\x65\x61\x74") => {
            ("a recording of blktrace", PERF)
        }
        () if text().contains("# tracer:") => ("text of ftrace", PERF),
        () if text().lines().take(5).any(|line| line.contains("LAT(ms)") && line.contains("COMM")) => {
            ("text of biosnoop", PERF)
        }
        () if text().lines().filter(|line| is_of_strace(line)).count() >= 2 => {
            ("text of strace", "record with perf trace record or latscope record -s syscall")
        }
        () if text().lines().filter(|line| is_of_blkparse(line)).count() >= 2 => ("text of blkparse", PERF),
        () => return None,
    })
}

/// `openat(AT_FDCWD, "x", O_RDONLY) = 3 <0.000012>`, whatever stands before.
fn is_of_strace(line: &str) -> bool {
    line.contains(") = ") && line.contains('(') && line.trim_end().ends_with('>')
}

/// `254,0    1        1     0.000000000   123  D   W 2048 + 8 [fio]`.
fn is_of_blkparse(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let device = words.first().and_then(|word| word.split_once(','));
    device.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
        && words.len() >= 7
        && words[1..3].iter().all(|word| is_number(word))
        && words[3].split_once('.').is_some_and(|(seconds, rest)| is_number(seconds) && rest.len() == 9)
}

/// The format of a file, from its content; of a pipe from its first bytes, which are still there to be read.
///
/// # Errors
/// As [`crate::read`].
pub fn format_of(path: &Path) -> Result<Format, Error> {
    detect(&mut Input::open(path, None)?)
}

/// Asks every format; of a stream that starts with too little, again when there is more.
pub fn detect(input: &mut Input) -> Result<Format, Error> {
    loop {
        let found = detect_head(input);
        if found.is_ok() || !input.await_more_head()? {
            return found;
        }
    }
}

fn detect_head(input: &mut Input) -> Result<Format, Error> {
    let name = input.name.clone();
    let fail = |message: &str| Err(Error::new(&name, Position::File, message));
    let is_directory = input.path.as_ref().is_some_and(|path| path.is_dir());
    let mut perhaps = None;
    for &format in Format::ALL {
        match (format.row().detect)(input) {
            // The first half of a row of more columns looks like this.
            Detected::Yes if format == Format::TwoColumns && input.is_cut() && !input.head().contains(&b'\n') => {
                return fail(CUT_SO_EARLY);
            }
            Detected::Yes => return Ok(format),
            Detected::NeedMore => perhaps = perhaps.or(Some(format)),
            Detected::No => {}
        }
    }
    // A log is one in spite of a first line that is none, of a million columns for example.
    if perhaps.is_none() && !is_directory && input.skip_long_lines()? {
        let mut logs = Format::ALL.iter().copied().filter(|format| format.row().is_log);
        perhaps = logs.find(|format| (format.row().detect)(input) == Detected::Yes);
    }
    match perhaps {
        _ if input.is_empty() && !is_directory => fail("The file is empty."),
        _ if is_directory => fail("This folder is not a recording of perf record --threads."),
        Some(format) => Ok(format),
        None if let Some((what, instead)) = unread(input.head()) => {
            fail(&format!("This is {what}, which cannot be read; {instead}."))
        }
        None => fail("Unknown format.").map_err(|error| error.with_remedy(Remedy::Format)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_write_is_refused_by_name() {
        for (bytes, what) in [
            (&b"\xfd7zXZ\0\0\x04"[..], "compressed with xz"),
            (b"BZh91AY&SY", "compressed with bzip2"),
            (b"\x17\x08\x44tracing7\0", "trace-cmd"),
            (b"\x07\x74\x61\x65\x01\0\0\0", "blktrace"),
            (b"# tracer: nop\n#\n  fio-7 [001] d..1. 12.5: block_rq_issue: 8,0 R 4096 () 8 + 8 [fio]\n", "ftrace"),
            (b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n0.0 fio 7 vda R 8 4096 0.1\n", "biosnoop"),
            (b"1.5 read(3, \"\", 9) = 0 <0.000012>\n1.6 close(3) = 0 <0.000010>\n", "strace"),
            (
                b"254,0    1        1     0.000000000   123  D   W 2048 + 8 [fio]\n254,0    1        2     0.000100000   123  C   W 2048 + 8 [0]\n",
                "blkparse",
            ),
        ] {
            let message = detect(&mut Input::from_bytes("test", bytes).unwrap()).unwrap_err().message;
            assert!(message.contains(what) && message.contains("which cannot be read; "), "{what}: {message}");
        }
    }
}
