//! Numbers as ioping reads them: a decimal number or a fraction, and a suffix in letters of any case.

const SIZES: &[(&str, f64)] = &[
    ("b", 1.0),
    ("sector", 512.0),
    ("k", 1024.0),
    ("kb", 1024.0),
    ("kib", 1024.0),
    ("page", 4096.0),
    ("m", 1048576.0),
    ("mb", 1048576.0),
    ("mib", 1048576.0),
    ("g", 1073741824.0),
    ("gb", 1073741824.0),
    ("gib", 1073741824.0),
    ("t", 1099511627776.0),
    ("tb", 1099511627776.0),
    ("tib", 1099511627776.0),
];
const COUNTS: &[(&str, f64)] = &[("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)];
const TIMES: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("nsec", 1.0),
    ("us", 1e3),
    ("usec", 1e3),
    ("ms", 1e6),
    ("msec", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("hour", 3600e9),
];

/// A number of requests.
pub fn count(text: &str) -> Result<u64, String> {
    number(text, COUNTS, 1.0)
}

/// Bytes.
pub fn size(text: &str) -> Result<u64, String> {
    number(text, SIZES, 1.0)
}

/// Nanoseconds; a bare number counts seconds.
pub fn duration(text: &str) -> Result<u64, String> {
    number(text, TIMES, 1e9)
}

fn number(text: &str, suffixes: &[(&str, f64)], bare: f64) -> Result<u64, String> {
    let (value, mut rest) = leading(text).unwrap_or((0.0, text));
    let mut value = value;
    if let Some(divided) = rest.strip_prefix('/')
        && let Some((by, after)) = leading(divided)
    {
        (value, rest) = (value / by, after);
    }
    let unit = match rest {
        "" if !text.is_empty() => bare,
        _ => {
            let unit = suffixes.iter().find(|(suffix, _)| rest.eq_ignore_ascii_case(suffix));
            unit.ok_or_else(|| format!("invalid suffix: \"{rest}\""))?.1
        }
    };
    let value = value * unit;
    if !(0.0..9.2e18).contains(&value) {
        return Err(format!("integer overflow at parsing argument: {text}"));
    }
    Ok(value as u64)
}

/// The number at the beginning, and what follows it.
fn leading(text: &str) -> Option<(f64, &str)> {
    if let Some(digits) = text.strip_prefix("0x") {
        let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(digits.len());
        return Some((u64::from_str_radix(&digits[..end], 16).ok()? as f64, &digits[end..]));
    }
    let number = |end: &usize| text.get(..*end)?.parse::<f64>().ok();
    let ends_in_digit = |end: &usize| text.as_bytes()[end - 1].is_ascii_digit() || text.as_bytes()[end - 1] == b'.';
    // The longest beginning that is a number, so that an exponent belongs to it: 1e-3.
    let end = (1..=text.len().min(40)).rev().filter(ends_in_digit).find(|end| number(end).is_some())?;
    Some((number(&end)?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_ioping_reads_them() {
        for (text, ns) in [
            ("1", 1_000_000_000),
            ("10MS", 10_000_000),
            ("1/100", 10_000_000),
            ("1/100sec", 10_000_000),
            ("1e-3", 1_000_000),
            ("0.1h", 360_000_000_000),
            ("5us", 5000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(ns), "{text}");
        }
        for (text, bytes) in [
            ("4k", 4096),
            ("4kb", 4096),
            ("4KiB", 4096),
            ("1.5k", 1536),
            ("1sector", 512),
            ("0x10", 16),
            ("2page", 8192),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!((count("1k"), count("1.5")), (Ok(1000), Ok(1)));
        for text in ["10furlongs", "abc", "4KI", "2 k", "", "1d"] {
            assert!(duration(text).unwrap_err().starts_with("invalid suffix"), "{text}");
        }
        assert_eq!(duration("-1"), Err("integer overflow at parsing argument: -1".into()));
        assert!(count("1e300").is_err() && count("1/0").is_err());
    }
}
