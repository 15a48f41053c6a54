//! Lines around the rows: headers with the unit, names of maps and groups, times.

use super::rows::Row;
use crate::scan::leading_number;
use memchr::{memchr, memmem};

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// `usecs : count distribution`: a histogram in this unit, nanoseconds, follows.
    Unit(u64),
    /// `value |---- count`, of SystemTap and DTrace: the unit is not given.
    Value,
    /// `@usecs[read]:`, of bpftrace: name and key of a map, with the unit that its name gives.
    Map {
        name: &'a [u8],
        key: &'a [u8],
        unit_ns: Option<u64>,
    },
    /// `disk = vda`: the group of the histogram that follows.
    Group(&'a [u8], &'a [u8]),
    /// `20:15:03`: nanoseconds since midnight.
    Time(i64),
    Row(Row),
    Empty,
    Other,
}

impl Line<'_> {
    pub fn parse(line: &[u8]) -> Line<'_> {
        let text = line.trim_ascii();
        if text.is_empty() {
            return Line::Empty;
        }
        if let Some(row) = Row::parse(text) {
            return Line::Row(row);
        }
        if let Some(map) = map(text) {
            return map;
        }
        if text.ends_with(b"count") && text.starts_with(b"value") && memmem::find(text, b"---").is_some() {
            return Line::Value;
        }
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if text.ends_with(b"distribution")
            && let (Some(unit), Some(b":")) = (words.next(), words.next())
        {
            return unit_ns(unit).map_or(Line::Other, Line::Unit);
        }
        if let Some(ns) = of_day(text) {
            return Line::Time(ns);
        }
        match memmem::find(text, b" = ") {
            Some(at) if !text[..at].contains(&b' ') => Line::Group(&text[..at], plain(text[at + 3..].trim_ascii())),
            _ => Line::Other,
        }
    }
}

/// The text of Python's `b'vda'`.
fn plain(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"b'").and_then(|text| text.strip_suffix(b"'")).unwrap_or(text)
}

/// `@usecs[read, 7]:`.
fn map(text: &[u8]) -> Option<Line<'_>> {
    let text = text.strip_prefix(b"@")?.strip_suffix(b":")?.trim_ascii_end();
    let (name, key) = match memchr(b'[', text) {
        Some(at) => (&text[..at], text[at + 1..].strip_suffix(b"]")?),
        None => (text, &b""[..]),
    };
    let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let unit_ns = name.split(|&byte| byte == b'_').find_map(unit_ns);
    is_name.then_some(Line::Map { name, key, unit_ns })
}

/// The length of a unit, nanoseconds.
fn unit_ns(name: &[u8]) -> Option<u64> {
    match name {
        b"nsecs" | b"nsec" | b"ns" | b"nanosec" => Some(1),
        b"usecs" | b"usec" | b"us" | b"microsec" => Some(1_000),
        b"msecs" | b"msec" | b"ms" | b"millisec" => Some(1_000_000),
        b"secs" | b"sec" | b"s" => Some(1_000_000_000),
        _ => None,
    }
}

/// `20:15:03`, and nothing else.
fn of_day(text: &[u8]) -> Option<i64> {
    let mut parts = text.split(|&byte| byte == b':').map(|part| {
        let number = leading_number(part).filter(|&(_, len)| len == part.len() && len == 2);
        number.map(|(value, _)| value as i64)
    });
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let fits = parts.next().is_none() && hours < 24 && minutes < 60 && seconds <= 60;
    fits.then_some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_the_rows() {
        for (line, expect) in [
            ("     usecs               : count    distribution", Line::Unit(1_000)),
            ("     msecs               : count     distribution", Line::Unit(1_000_000)),
            ("  value |-------------------------------------------------- count", Line::Value),
            ("           value  ------------- Distribution ------------- count    ", Line::Value),
            ("@usecs: ", Line::Map { name: b"usecs", key: b"", unit_ns: Some(1_000) }),
            ("@read_ns[dd, 7]:", Line::Map { name: b"read_ns", key: b"dd, 7", unit_ns: Some(1) }),
            ("@[vda]:", Line::Map { name: b"", key: b"vda", unit_ns: None }),
            ("disk = vda\t", Line::Group(b"disk", b"vda")),
            ("disk = b'vda'", Line::Group(b"disk", b"vda")),
            ("flags = Sync-Write", Line::Group(b"flags", b"Sync-Write")),
            ("20:15:03", Line::Time(72_903_000_000_000)),
            ("20:15", Line::Other),
            ("25:15:03", Line::Other),
            ("Tracing block device I/O... Hit Ctrl-C to end.", Line::Other),
            ("     fruit               : count    distribution", Line::Other),
            ("", Line::Empty),
        ] {
            assert_eq!(Line::parse(line.as_bytes()), expect, "{line}");
        }
    }
}
