//! Which format a file has, from its content only.

use crate::formats::Format;
use crate::input::{CUT_SO_EARLY, Input};
use crate::{Detected, Error, Position, Remedy, folded, spark_rest};
use std::path::Path;

/// What a file is that other programs know, and what to do instead of reading it.
fn unread(head: &[u8]) -> Option<(&'static str, &'static str)> {
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
        () => return None,
    })
}

/// The format of a file, from its content; of a pipe from its first bytes, which are still there to be read.
///
/// # Errors
/// As [`crate::read`].
pub fn format_of(path: &Path) -> Result<Format, Error> {
    if latscope_wire::Address::of_input(path).is_some() {
        return Ok(Format::Frames);
    }
    if spark_rest::url_of(path).is_some() {
        return Ok(Format::SparkEventlog);
    }
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

/// The format that the content certainly has, as far as it has come.
pub fn look(input: &Input) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| (format.row().detect)(input) == Detected::Yes)
}

/// An error of reading a file as the format that was given, with the one that it looks like.
pub fn name_other(error: Error, [given, looks_like]: [Option<Format>; 2]) -> Error {
    match (given, looks_like) {
        (Some(given), Some(other)) if given != other => {
            let message = format!("The content looks like {}. {}", other.name(), error.message);
            Error { message, ..error }
        }
        _ => error,
    }
}

/// Refuses two columns of numbers in texts whose rows start with two numbers that are something else.
pub fn refuse_as_numbers(input: &Input, [given, looks_like]: [Option<Format>; 2]) -> Result<(), Error> {
    let is_other =
        matches!(looks_like, Some(Format::Blkparse | Format::PyLatencyMap | Format::HistogramText | Format::Snoop));
    if given == Some(Format::TwoColumns) && is_other {
        let error = Error::new(&input.name, Position::File, "The numbers of its rows are not times and latencies.");
        return Err(name_other(error, [given, looks_like]));
    }
    Ok(())
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
    // A deep stack, or long names.
    if perhaps.is_none() && !is_directory && input.complete_first_line()? && folded::detect(input) == Detected::Yes {
        return Ok(Format::Folded);
    }
    // A malformed first line, of a million columns for example, does not change the format of a log.
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
        for (bytes, what) in
            [(&b"\xfd7zXZ\0\0\x04"[..], "compressed with xz"), (b"BZh91AY&SY", "compressed with bzip2")]
        {
            let message = detect(&mut Input::from_bytes("test", bytes).unwrap()).unwrap_err().message;
            assert!(message.contains(what) && message.contains("which cannot be read; "), "{what}: {message}");
        }
    }
}
