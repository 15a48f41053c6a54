//! Rows of histograms as text: ranges of values with their counts, and bars that are not read.

use crate::scan::leading_number;
use latscope_histogram::{Grid, Sparse, Totals};
use memchr::{memchr, memmem};

/// How many values lie from the first number up to, but without, the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeCount {
    pub lower: u64,
    pub end: u64,
    pub count: u64,
}

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    Range(RangeCount),
    /// The last row, which has no end: the range ends where the next would start.
    Last(RangeCount),
    /// Values below zero, which no latency is.
    Negative(u64),
    /// `>= 300`, the last row of DTrace's `lquantize()`: values from here on.
    From(u64, u64),
    /// `~`: rows without counts were left out.
    Gap,
}

impl Row {
    /// A row of any of the layouts; `None` for another line.
    pub fn parse(line: &[u8]) -> Option<Row> {
        let line = line.trim_ascii();
        match line.first()? {
            b'~' => Some(Row::Gap),
            b'[' | b'(' => of_bpftrace(line),
            b'<' | b'>' => of_linear(line),
            _ if memmem::find(line, b"->").is_some() => of_bcc(line),
            _ => of_value(line),
        }
    }
}

/// `64 -> 127 : 12 |*** |`.
fn of_bcc(line: &[u8]) -> Option<Row> {
    let (lower, rest) = take_number(line)?;
    let (upper, rest) = take_number(strip(rest, b"->")?)?;
    let (count, rest) = take_number(strip(rest, b":")?)?;
    (rest.is_empty() || rest.starts_with(b"|")).then_some(())?;
    range(lower, upper.checked_add(1)?, count)
}

/// `[64, 128) 12 |@@@ |`, `[1M, ...) 1 |@|`, `(..., 0) 3 |@|`; numbers of a linear histogram alike. `[0]` and `[1]` are single
/// values.
fn of_bpftrace(line: &[u8]) -> Option<Row> {
    let end = line.iter().position(|&byte| matches!(byte, b')' | b']'))?;
    let (inner, rest) = (&line[1..end], line[end + 1..].trim_ascii_start());
    let (count, rest) = take_number(rest)?;
    (rest.is_empty() || rest.starts_with(b"|")).then_some(())?;
    let Some(comma) = memchr(b',', inner) else {
        let value = suffixed(inner)?;
        return range(value, value.checked_add(1)?, count);
    };
    let (lower, upper) = (inner[..comma].trim_ascii(), inner[comma + 1..].trim_ascii());
    let end_of_negative = suffixed(upper.strip_prefix(b"-").unwrap_or(upper));
    match lower {
        // What a linear histogram has below its first range, which may start above zero.
        b"..." if !upper.starts_with(b"-") && end_of_negative? > 0 => return range(0, end_of_negative?, count),
        b"..." | [b'-', ..] => return end_of_negative.map(|_| Row::Negative(count)),
        _ => {}
    }
    let lower = suffixed(lower)?;
    if upper == b"..." {
        let end = lower.checked_mul(2)?.max(1);
        return Some(Row::Last(RangeCount { lower, end, count }));
    }
    let upper = suffixed(upper)?;
    // A linear histogram may close its last range.
    range(lower, if line[end] == b']' { upper.checked_add(1)? } else { upper }, count)
}

/// `< 0 |@ 1` and `>= 300 |@@ 2`, the ends of `lquantize()`.
fn of_linear(line: &[u8]) -> Option<Row> {
    let (sign, value) = line.split_at(if line.starts_with(b">=") { 2 } else { 1 });
    match (sign, of_value(value.trim_ascii_start())?) {
        (b"<", Row::Range(RangeCount { lower: 0, count, .. })) | (_, Row::Negative(count)) => {
            Some(Row::Negative(count))
        }
        (b"<", Row::Range(range)) => Some(Row::Range(RangeCount { lower: 0, end: range.lower, ..range })),
        (b">=", Row::Range(range)) => Some(Row::From(range.lower, range.count)),
        _ => None,
    }
}

/// Gives the rows of `lquantize()` their ends: each reaches to the next, and the last, which is open, as far as the one before.
pub fn end_linear(ranges: &mut [RangeCount]) {
    for at in 1..ranges.len() {
        ranges[at - 1].end = ranges[at].lower;
    }
    if let [.., before, last] = ranges {
        last.end = last.lower.saturating_add(before.end - before.lower);
    }
}

/// `64 |@@@ 12`, of SystemTap and DTrace: from the value up to the next power of two.
fn of_value(line: &[u8]) -> Option<Row> {
    let bar = memchr(b'|', line)?;
    let value = line[..bar].trim_ascii();
    let count = line[bar + 1..].trim_ascii_start();
    let blank = count.iter().take_while(|&&byte| matches!(byte, b'@' | b' ' | b'*')).count();
    let (count, rest) = take_number(&count[blank..])?;
    rest.is_empty().then_some(())?;
    if let Some(value) = value.strip_prefix(b"-") {
        return whole(value).map(|_| Row::Negative(count));
    }
    let lower = whole(value)?;
    range(lower, lower.checked_mul(2)?.max(1), count)
}

fn range(lower: u64, end: u64, count: u64) -> Option<Row> {
    (lower < end).then_some(Row::Range(RangeCount { lower, end, count }))
}

/// A number and what follows it, blanks left out.
fn take_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.trim_ascii_start();
    let (value, len) = leading_number(text).filter(|&(_, len)| len > 0)?;
    Some((value, text[len..].trim_ascii_start()))
}

fn strip<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(prefix)
}

fn whole(text: &[u8]) -> Option<u64> {
    leading_number(text).filter(|&(_, len)| len == text.len() && len > 0).map(|(value, _)| value)
}

/// A number with the suffix of a power of 1024.
fn suffixed(text: &[u8]) -> Option<u64> {
    let (value, rest) = take_number(text)?;
    let power = match rest {
        b"" => 0,
        b"K" | b"k" => 1,
        b"M" => 2,
        b"G" => 3,
        b"T" => 4,
        b"P" => 5,
        _ => return None,
    };
    value.checked_mul(1 << (10 * power))
}

/// The histogram of ranges that ascend, in units of so many nanoseconds; `None` when values or counts exceed 64 bits.
///
/// A range counts in the bucket of its middle, on the coarsest grid whose buckets are no wider than the ranges: octaves of
/// microseconds are moved by 2.4 % to those of 1024 ns, and never mixed. Of octaves, the lowest range, which starts at 0, counts
/// in the octave below its end, as in `LatencyMap.py`, whose middle of every bucket is at three quarters of its end.
pub fn histogram(ranges: &[RangeCount], unit_ns: u64) -> Option<Sparse> {
    let ns = |value: u64| value.checked_mul(unit_ns).filter(|&ns| ns <= i64::MAX as u64);
    let mut power = 0;
    let (mut indices, mut counts, mut totals) = (Vec::<u32>::new(), Vec::<u64>::new(), Totals::EMPTY);
    for range in ranges.iter().filter(|range| range.lower > 0 && range.count > 0) {
        let steps = range.lower / (range.end - range.lower);
        power = power.max(steps.checked_ilog2().unwrap_or(0) as u8).min(Grid::FINE.power());
    }
    let grid = Grid::with_power(power)?;
    for range in ranges.iter().filter(|range| range.count > 0) {
        let (lower, end) = (ns(range.lower)?, ns(range.end)?);
        let middle = if lower == 0 && power == 0 { end / 4 * 3 } else { lower + (end - lower) / 2 };
        let index = grid.index(middle) as u32;
        match counts.last_mut() {
            Some(last) if indices.last() == Some(&index) => *last = last.checked_add(range.count)?,
            _ if indices.last().is_some_and(|&last| last > index) => return None,
            _ => {
                indices.push(index);
                counts.push(range.count);
            }
        }
        totals.count = totals.count.checked_add(range.count)?;
        totals.sum += u128::from(middle) * u128::from(range.count);
        totals.min = totals.min.min(lower.max(grid.lower(index as usize)));
        totals.max = totals.max.max((end - 1).min(grid.upper(index as usize)));
    }
    Sparse::from_parts(grid, indices, counts, None, totals).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_layouts() {
        let row = |lower, end, count| Some(Row::Range(RangeCount { lower, end, count }));
        let last = Some(Row::Last(RangeCount { lower: 1 << 20, end: 2 << 20, count: 7 }));
        for (line, expect) in [
            ("         0 -> 1          : 0        |                                        |", row(0, 2, 0)),
            ("        64 -> 127        : 5        |***                                     |", row(64, 128, 5)),
            ("[0]                    3 |@@@@@@                                              |", row(0, 1, 3)),
            ("[64, 128)             12 |@@@|", row(64, 128, 12)),
            ("[1K, 2K)               7 |@|", row(1024, 2048, 7)),
            ("[1M, ...)              7 |@|", last),
            ("(..., 100)             9 |@@|", row(0, 100, 9)),
            ("(..., -100)            9 |@@|", Some(Row::Negative(9))),
            ("(..., 0)               9 |@@|", Some(Row::Negative(9))),
            ("[100, 200)             9 |@@|", row(100, 200, 9)),
            ("   4096 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   873", row(4096, 8192, 873)),
            ("          262144 |@@@@@@@@@@@@                             12889    ", row(262_144, 524_288, 12_889)),
            ("0 | 4", row(0, 1, 4)),
            ("-64 |@ 4", Some(Row::Negative(4))),
            ("< 0 |@ 4", Some(Row::Negative(4))),
            ("< 100 |@ 4", row(0, 100, 4)),
            (">= 300 |@@ 2", Some(Row::From(300, 2))),
            ("<= 3 |@ 4", None),
            ("      ~", Some(Row::Gap)),
            ("value |----- count", None),
            ("[64, 128) x |@|", None),
            ("128 -> 64 : 1 |*|", None),
            ("64 -> : 1", None),
            ("18446744073709551615 -> 18446744073709551615 : 1 |*|", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(Row::parse(line.as_bytes()), expect, "{line}");
        }
    }

    /// Each octave has a bucket of its own, whatever the unit.
    #[test]
    fn octaves_stay_apart() {
        for unit_ns in [1, 1_000, 1_000_000] {
            let octaves = (0..30).map(|bit| RangeCount { lower: 1 << bit, end: 2 << bit, count: bit + 1 });
            let histogram = histogram(&octaves.collect::<Vec<_>>(), unit_ns).unwrap();
            assert_eq!(histogram.grid().power(), 0);
            assert_eq!(histogram.counts(), (1..=30).collect::<Vec<u64>>(), "{unit_ns}");
            assert_eq!(histogram.totals().count, 465);
        }
        let linear = [RangeCount { lower: 100, end: 110, count: 1 }, RangeCount { lower: 110, end: 120, count: 2 }];
        assert_eq!(histogram(&linear, 1_000).unwrap().counts(), [1, 2]);
        let huge = [RangeCount { lower: 1 << 62, end: 1 << 63, count: u64::MAX }];
        assert_eq!(histogram(&huge, 1_000), None);
    }
}
