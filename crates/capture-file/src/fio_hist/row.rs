//! One row of a histogram log, fast: most of its counts are zero.

use super::bins::Counts;
use crate::scan::leading_number;
use crate::text_rows::FEWER;

/// A row as it stands in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// When it was written, rounded down.
    pub time_ms: u64,
    /// 0 read, 1 write, 2 trim.
    pub direction: u8,
    pub counts: Counts,
}

/// Eight empty bins.
const ZEROS: &[u8; 24] = b", 0, 0, 0, 0, 0, 0, 0, 0";
const FIRST_ZEROS: u128 = u128::from_le_bytes(*b", 0, 0, 0, 0, 0,");
const LAST_ZEROS: u64 = u64::from_le_bytes(*b" 0, 0, 0");
/// 64 of them.
static MANY_ZEROS: [u8; 192] = {
    let (mut text, mut at) = ([0; 192], 0);
    while at < text.len() {
        text[at] = ZEROS[at % ZEROS.len()];
        at += 1;
    }
    text
};

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
        return Err("a direction that is none of 0, 1, 2");
    }
    let mut bin = 0;
    while at < line.len() {
        if let Some(text) = line[at..].first_chunk::<24>() {
            let mut zeros = leading_zeros(text);
            // The last one may be the first digit of a number.
            zeros -= usize::from(zeros > 0 && line.get(at + 3 * zeros).is_some_and(u8::is_ascii_digit));
            (at, bin) = (at + 3 * zeros, bin + zeros);
            if zeros == 8 {
                let long = many_zeros(&line[at..]);
                (at, bin) = (at + 3 * long, bin + long);
            }
            if zeros == 8 || at == line.len() {
                continue;
            }
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

/// How many empty bins, of eight, the text begins with.
#[inline(always)]
fn leading_zeros(text: &[u8; 24]) -> usize {
    let (Some(&first), Some(&last)) = (text.first_chunk::<16>(), text.last_chunk::<8>()) else { return 0 };
    let first = (u128::from_le_bytes(first) ^ FIRST_ZEROS).trailing_zeros();
    let last = (u64::from_le_bytes(last) ^ LAST_ZEROS).trailing_zeros();
    // Without a branch, for it would be guessed wrong as often as not.
    (first + last * u32::from(first == 128)) as usize / 24
}

/// How many empty bins the text begins with, in steps of many: most of a row is a few long runs of them.
#[inline]
fn many_zeros(text: &[u8]) -> usize {
    let mut zeros = 0;
    // The last one may be the first digit of a number.
    while text[3 * zeros..].first_chunk() == Some(&MANY_ZEROS)
        && !text.get(3 * zeros + MANY_ZEROS.len()).is_some_and(u8::is_ascii_digit)
    {
        zeros += MANY_ZEROS.len() / 3;
    }
    zeros
}

#[inline]
fn next(line: &[u8], at: &mut usize) -> Result<u64, &'static str> {
    if line.get(*at) != Some(&b',') {
        return Err("something that is no number");
    }
    *at += 1;
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
        None => Err("a number that no 64 bits hold"),
        Some((_, 0)) if text.first() == Some(&b'-') => Err("a negative number"),
        Some((_, 0)) => Err("something that is no number"),
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
            ("1, 3, 4096, 0", "a direction that is none of 0, 1, 2"),
            ("1, 0, 4096, -1", "a negative number"),
            ("1, 0, 4096, 0x1", "something that is no number"),
            ("1, 0", "something that is no number"),
            ("", "something that is no number"),
            ("1, 0, 4096, 99999999999999999999", "a number that no 64 bits hold"),
            ("1, 0, 4096, 1, 2", "fewer columns than the rows before"),
            (&format!("1, 0, 4096{zeros}"), "more columns than the rows before"),
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
