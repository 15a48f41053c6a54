//! One row of a histogram log, fast: most of its counts are zero.

use super::bins::Counts;
use crate::scan::leading_number;
use crate::text_rows::{FEWER, MISSING};

/// A row as it stands in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// When it was written, rounded down.
    pub time_ms: u64,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    pub counts: Counts,
}

/// Eight empty bins, as three words.
const ZEROS: [u64; 3] =
    [u64::from_le_bytes(*b", 0, 0, "), u64::from_le_bytes(*b"0, 0, 0,"), u64::from_le_bytes(*b" 0, 0, 0")];
/// The low nibbles of their digits, of which no two are at the same place of their words.
const DIGITS: [u64; 3] = [0x0000_0f00_000f_0000, 0x000f_0000_0f00_000f, 0x0f00_000f_0000_0f00];
/// So many empty bins are compared at once.
const MANY: usize = 32;

/// The row of a line (without its end) that must have `bins` counts, or as many as there are.
pub fn row(line: &[u8], bins: Option<usize>) -> Result<(Row, usize), &'static str> {
    row_in(line, bins, Counts::new())
}

/// The same, in the memory of the counts of an earlier row.
pub fn row_in(line: &[u8], bins: Option<usize>, mut counts: Counts) -> Result<(Row, usize), &'static str> {
    counts.clear();
    let line = line.trim_ascii_end();
    let mut at = 0;
    let time_ms = number(line, &mut at)?;
    let direction = next(line, &mut at)?;
    let _size = next(line, &mut at)?;
    if direction > 2 {
        return Err("a direction other than 0, 1 or 2");
    }
    let mut bin = 0;
    while at < line.len() {
        if let Some(digits) = eight_digits(&line[at..]) {
            if digits > 0 {
                push_digits(digits, bin, &mut counts);
            }
            (at, bin) = (at + 24, bin + 8);
            if digits == 0 {
                let zeros = many_zeros(&line[at..]);
                (at, bin) = (at + 3 * zeros, bin + zeros);
            }
            continue;
        }
        let count = next(line, &mut at)?;
        if count > 0 {
            counts.push((u32::try_from(bin).unwrap_or(u32::MAX), count));
        }
        bin += 1;
    }
    match bins {
        Some(bins) if bin < bins => Err(FEWER),
        Some(bins) if bin > bins => Err("more columns than the rows before"),
        _ => Ok((Row { time_ms, direction: direction as u8, counts }, bin)),
    }
}

/// The counts of eight bins that the text starts with, when all have one digit: bin `b` in byte `(3 * b + 2) % 8`.
#[inline(always)]
fn eight_digits(text: &[u8]) -> Option<u64> {
    let words = text.first_chunk::<24>()?.as_chunks().0;
    // The last digit may be the first one of a longer number.
    if text.get(24).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    let (mut digits, mut others) = (0, 0);
    for ((&word, zeros), mask) in words.iter().zip(ZEROS).zip(DIGITS) {
        let word = u64::from_le_bytes(word) ^ zeros;
        digits |= word & mask;
        others |= word & !mask;
    }
    let above_nine = (digits + 0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0;
    (others | above_nine == 0).then_some(digits)
}

/// Appends the bins of eight that are not empty, without a branch that would be guessed wrong as often as not.
#[inline(always)]
fn push_digits(digits: u64, bin: usize, counts: &mut Counts) {
    let mut len = counts.len();
    counts.extend_from_slice(&[(0, 0); 8]);
    for at in 0..8 {
        let count = digits >> (8 * ((3 * at + 2) % 8)) & 15;
        counts[len] = ((bin + at) as u32, count);
        len += usize::from(count > 0);
    }
    counts.truncate(len);
}

/// How many empty bins the text starts with, in steps of many: most of a row is a few long runs of them.
#[inline(always)]
fn many_zeros(text: &[u8]) -> usize {
    let mut zeros = 0;
    while let Some(many) = text[3 * zeros..].first_chunk::<{ 3 * MANY }>() {
        let others = many.as_chunks().0.iter().zip(ZEROS.iter().cycle());
        let others = others.fold(0, |others, (&word, zeros)| others | u64::from_le_bytes(word) ^ zeros);
        // The last one may be the first digit of a number.
        if others != 0 || text.get(3 * (zeros + MANY)).is_some_and(u8::is_ascii_digit) {
            break;
        }
        zeros += MANY;
    }
    zeros
}

#[inline]
fn next(line: &[u8], at: &mut usize) -> Result<u64, &'static str> {
    match line.get(*at) {
        Some(b',') => *at += 1,
        None => return Err(MISSING),
        Some(_) => return Err("something that is not a number"),
    }
    while line.get(*at) == Some(&b' ') {
        *at += 1;
    }
    number(line, at)
}

#[inline]
fn number(line: &[u8], at: &mut usize) -> Result<u64, &'static str> {
    let text = line.get(*at..).unwrap_or_default();
    // Most bins that are not empty hold few.
    if let [digit @ b'0'..=b'9', b',', ..] = text {
        *at += 1;
        return Ok(u64::from(digit - b'0'));
    }
    match leading_number(text) {
        None => Err("a number that exceeds 64 bits"),
        Some((_, 0)) if text.is_empty() => Err(MISSING),
        Some((_, 0)) if text.first() == Some(&b'-') => Err("a negative number"),
        Some((_, 0)) => Err("something that is not a number"),
        Some((value, digits)) => {
            *at += digits;
            Ok(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_split_at_commas(
            counts in proptest::collection::vec(prop_oneof![20 => Just(0u64), 1 => 1u64..5, 1 => any::<u64>()], 0..200),
            run in 0usize..300,
            blank: bool, time_ms: u64, direction in 0u64..3,
        ) {
            let counts = [counts.clone(), vec![0; run], counts].concat();
            let between = if blank { ", " } else { "," };
            let text = [vec![time_ms, direction, 4096], counts.clone()].concat().iter().map(u64::to_string).collect::<Vec<_>>();
            let (row, bins) = row(text.join(between).as_bytes(), None).unwrap();
            prop_assert_eq!((row.time_ms, u64::from(row.direction), bins), (time_ms, direction, counts.len()));
            let full = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bin, &count)| (bin as u32, count));
            prop_assert_eq!(row.counts, full.collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_that_are_none() {
        let zeros = ", 0".repeat(8);
        for (line, why) in [
            ("1, 3, 4096, 0", "a direction other than 0, 1 or 2"),
            ("1, 0, 4096, -1", "a negative number"),
            ("1, 0, 4096, 0x1", "something that is not a number"),
            ("1, 0", MISSING),
            ("", MISSING),
            ("1, 0, 4096, 0,", MISSING),
            ("1, 0, 4096, 0, ", MISSING),
            ("1, 0, 4096, 99999999999999999999", "a number that exceeds 64 bits"),
            ("1, 0, 4096, 1, 2", "fewer columns than the rows before"),
            (&format!("1, 0, 4096{zeros}"), "more columns than the rows before"),
            ("1, 0, 4096, 0, 0, 0, 0, 0, 0, 0, :, 0", "something that is not a number"),
            ("1, 0, 4096, 0, 0, 0, 0, 0; 0, 0, 0, 0", "something that is not a number"),
            ("1, 0, 4096, 0, 0, 0, 0,\u{b0} 0, 0, 0, 0, 0", "something that is not a number"),
        ] {
            assert_eq!(row(line.as_bytes(), Some(4)), Err(why), "{line}");
        }
        for eights in 1..20 {
            let zeros = zeros.repeat(eights);
            let (row, bins) = row(format!("1, 0, 4096{zeros}7").as_bytes(), None).unwrap();
            assert_eq!((row.counts, bins), (vec![(8 * eights as u32 - 1, 7)], 8 * eights));
        }
    }
}
