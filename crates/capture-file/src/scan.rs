//! Looks at eight bytes at a time, without a branch for each: the columns of a trace vary in width from line to line, and
//! a loop over their bytes would be mispredicted at the end of every one.

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes of a text, each xor `0`: the digits among them are their values.
#[inline(always)]
pub fn word_of_digits(text: u64) -> u64 {
    text ^ (EACH * u64::from(b'0'))
}

/// The high bit of each byte of a word (text of digits, each xor `0`) that is no digit. Exact in every byte.
#[inline(always)]
pub fn not_digits(word: u64) -> u64 {
    // Without its high bit, a byte above 9 reaches the high bit when 0x76 is added, and none carries into the next.
    (((word & !HIGH) + 0x76 * EACH) | word) & HIGH
}

/// Eight digits of a text, most significant first, each xor `0`, as a number.
#[inline(always)]
pub fn digits_as_number(digits: u64) -> u64 {
    // Neighbours are joined: to pairs, to fours, to all eight. The lower byte is the more significant digit.
    let pairs = (digits.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The number that the text starts with and its digits; no digits are the number 0. `None` when it exceeds `u64`.
#[inline(always)]
pub fn leading_number(text: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut len) = (0, 0);
    if let Some(bytes) = text.first_chunk::<8>() {
        let word = u64::from_le_bytes(*bytes) ^ (EACH * u64::from(b'0'));
        len = (not_digits(word).trailing_zeros() / 8) as usize;
        if len == 0 {
            return Some((0, 0));
        }
        value = digits_as_number(word << (64 - 8 * len));
        if len < 8 {
            return Some((value, len));
        }
    }
    for &byte in &text[len..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        len += 1;
    }
    Some((value, len))
}

/// As [`leading_number`], for numbers that often have more than eight digits: sixteen without a loop.
#[inline(always)]
pub fn long_leading_number(text: &[u8]) -> Option<(u64, usize)> {
    let Some(bytes) = text.first_chunk::<16>() else { return leading_number(text) };
    let both = u128::from_le_bytes(*bytes);
    let word = both as u64 ^ (EACH * u64::from(b'0'));
    let len = (not_digits(word).trailing_zeros() / 8) as usize;
    if len < 8 {
        // A shift by 64 shifts nothing, so no digits are shifted out in two steps.
        return Some((digits_as_number(word << (56 - 8 * len) << 8), len));
    }
    let more = (both >> 64) as u64 ^ (EACH * u64::from(b'0'));
    let more_len = (not_digits(more).trailing_zeros() / 8) as usize;
    if more_len == 8 {
        return leading_number(text);
    }
    let value = digits_as_number(word) * TEN_TO[more_len] + digits_as_number(more << (56 - 8 * more_len) << 8);
    Some((value, 8 + more_len))
}

const TEN_TO: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The number that the text ends with and its digits, of which at most sixteen are looked at.
#[inline(always)]
pub fn trailing_number(text: &[u8]) -> (u64, usize) {
    let (low, len) = trailing_eight(text);
    if len < 8 {
        return (low, len);
    }
    let (high, more) = trailing_eight(&text[..text.len() - 8]);
    (high * 100_000_000 + low, 8 + more)
}

#[inline(always)]
fn trailing_eight(text: &[u8]) -> (u64, usize) {
    let bytes = match text.last_chunk::<8>() {
        Some(bytes) => *bytes,
        None => {
            // Zero bytes in front are no digits.
            let mut bytes = [0; 8];
            bytes[8 - text.len()..].copy_from_slice(text);
            bytes
        }
    };
    let word = u64::from_le_bytes(bytes) ^ (EACH * u64::from(b'0'));
    let digits = (not_digits(word).leading_zeros() / 8) as usize;
    let kept = u64::MAX.checked_shl(64 - 8 * digits as u32).unwrap_or(0);
    (digits_as_number(word & kept), digits)
}

/// How many blanks the text starts with.
#[inline(always)]
pub fn blanks(text: &[u8]) -> usize {
    if let Some(bytes) = text.first_chunk::<8>() {
        let word = u64::from_le_bytes(*bytes) ^ (EACH * u64::from(b' '));
        if word != 0 {
            return (word.trailing_zeros() / 8) as usize;
        }
    }
    text.iter().take_while(|&&byte| byte == b' ').count()
}

/// Where the byte stands first, which is near.
#[inline(always)]
pub fn find(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(bytes) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*bytes) ^ (EACH * u64::from(byte));
        // The lowest byte that is zero; a borrow can only mark bytes above it.
        let zeros = word.wrapping_sub(EACH) & !word & HIGH;
        if zeros != 0 {
            return Some(at + (zeros.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    text.get(at..)?.iter().position(|&found| found == byte).map(|near| at + near)
}

/// Decimal seconds as nanoseconds.
pub fn decimal_seconds(text: &[u8]) -> Option<u64> {
    let (whole, len) = leading_number(text)?;
    let mut ns = whole.checked_mul(1_000_000_000)?;
    let fraction = match &text[len..] {
        [b'.', digits @ ..] => digits,
        [] => &[],
        _ => return None,
    };
    let mut unit = 100_000_000;
    for &digit in fraction {
        ns = ns.checked_add(u64::from(digit.is_ascii_digit().then(|| digit - b'0')?) * unit)?;
        unit /= 10;
    }
    (len > 0 || !fraction.is_empty()).then_some(ns)
}

/// Decimal milliseconds as nanoseconds; what is below a nanosecond is cut off.
pub fn decimal_milliseconds(text: &[u8]) -> Option<u64> {
    decimal_seconds(text).map(|ns| ns / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_walk_over_the_bytes(
            text in "[0-9]{0,24}[ -~\u{80}-\u{ff}]{0,12}[0-9 ]{0,18}", cut in 0usize..60, byte in prop::num::u8::ANY,
        ) {
            let text = &text.as_bytes()[cut.min(text.len())..];
            let leading = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = |digits: &[u8]| std::str::from_utf8(digits).unwrap().parse::<u64>();
            if leading == 0 {
                prop_assert_eq!(leading_number(text), Some((0, 0)));
            } else {
                prop_assert_eq!(leading_number(text), number(&text[..leading]).ok().map(|value| (value, leading)));
            }
            prop_assert_eq!(long_leading_number(text), leading_number(text));
            let trailing = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count().min(16);
            let value = if trailing == 0 { 0 } else { number(&text[text.len() - trailing..]).unwrap() };
            prop_assert_eq!(trailing_number(text), (value, trailing));
            prop_assert_eq!(blanks(text), text.iter().take_while(|&&byte| byte == b' ').count());
            for byte in [byte, b' ', b'5', 0] {
                prop_assert_eq!(find(text, byte), text.iter().position(|&found| found == byte));
            }
        }
    }
}
