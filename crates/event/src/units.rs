//! Durations, sizes, rates and counts as people write them: `1ms`, `1.5GiB`, `12.3k/s`.
//!
//! Every printed form parses back. The short forms carry three significant digits; the `_exact` forms lose nothing.

/// A text that is not a number with a known unit, or one of too large a number.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{text}\" is {}{expected}", if *.is_too_large { "too large for a " } else { "not a " })]
pub struct UnitError {
    text: String,
    expected: &'static str,
    is_too_large: bool,
}

impl UnitError {
    /// Whether number and unit are known, and only the value is beyond what 64 bits hold.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }
}

const DURATIONS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3), // micro sign
    ("μs", 1e3), // Greek mu
    ("ms", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("min", 60e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// Reads a duration in nanoseconds: `250us`, `1.5ms`, `2s`, `0xF4240`; a bare number counts nanoseconds.
///
/// # Errors
/// When the text is no number, has an unknown unit, is negative, or exceeds `u64`.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    scaled(text, "duration such as 250us, 1.5ms or 2s", |unit| lookup(DURATIONS, unit))
}

/// Reads a size in bytes: `4k`, `1MiB`, `100KB`. A bare letter is a power of 1024 as in fio and ioping,
/// `KB MB GB TB` are powers of 1000, `KiB MiB GiB TiB` of 1024; sectors of 512 bytes end in `sectors`.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    scaled(text, "size such as 4k, 1.5MiB or 4096", |unit| {
        let lower = unit.to_ascii_lowercase();
        if lower == "sector" || lower == "sectors" {
            return Some(512.0);
        }
        let power = "kmgtpe".find(lower.chars().next()?)? as i32 + 1;
        match &lower[1..] {
            "" | "ib" => Some(1024f64.powi(power)),
            "b" => Some(1000f64.powi(power)),
            _ => None,
        }
        .or((lower == "b").then_some(1.0))
    })
    .or_else(|error| {
        text.trim().strip_suffix(['b', 'B']).map_or(Err(error.clone()), |digits| plain(digits).ok_or(error))
    })
}

/// Reads a rate in events per second: `1000/s`, `12.3k/s`, `600/min`; a bare number counts per second.
///
/// # Errors
/// When the text is not a number with one of these units.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError { text: text.into(), expected: "rate such as 1000/s or 12k/s", is_too_large: false };
    let (number, per) = text.split_once('/').unwrap_or((text, "s"));
    let per_ns = lookup(DURATIONS, per.trim()).ok_or_else(error)?;
    let (digits, unit) = split_unit(number.trim());
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(error()),
    };
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(error)?;
    Ok(value * scale * (1e9 / per_ns))
}

fn lookup(units: &[(&str, f64)], unit: &str) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor)
}

fn split_unit(text: &str) -> (&str, &str) {
    // An exponent belongs to the number: 1e6, 1.5E-3.
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        match bytes[end] {
            b'0'..=b'9' | b'.' | b'_' => end += 1,
            b'+' | b'-' if end == 0 || matches!(bytes[end - 1], b'e' | b'E') => end += 1,
            b'e' | b'E'
                if end > 0
                    && bytes.get(end + 1).is_some_and(|&next| {
                        next.is_ascii_digit()
                            || (matches!(next, b'+' | b'-') && bytes.get(end + 2).is_some_and(u8::is_ascii_digit))
                    }) =>
            {
                end += 1;
            }
            _ => break,
        }
    }
    (&text[..end], text[end..].trim_start())
}

fn plain(digits: &str) -> Option<u64> {
    digits.trim().parse().ok()
}

fn scaled(text: &str, expected: &'static str, factor: impl Fn(&str) -> Option<f64>) -> Result<u64, UnitError> {
    let error = || UnitError { text: text.into(), expected, is_too_large: false };
    let trimmed = text.trim();
    if let Some(hex) = trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).map_err(|_| error());
    }
    let (digits, unit) = split_unit(trimmed);
    let digits = digits.replace('_', "");
    let factor = if unit.is_empty() { 1.0 } else { factor(unit).ok_or_else(error)? };
    let is_large = |number: f64| number.is_finite() && number * factor >= u64::MAX as f64;
    let too_large = || digits.parse().is_ok_and(is_large);
    decimal(&digits, factor as u64).ok_or_else(|| UnitError { is_too_large: too_large(), ..error() })
}

/// `digits` (with fraction and exponent) times `factor`, exact where the result is a whole number below 2^64.
fn decimal(digits: &str, factor: u64) -> Option<u64> {
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if whole.len() + fraction.len() > 38 || !(-40..=40).contains(&exponent) {
        return None;
    }
    let number: u128 = format!("0{whole}{fraction}").parse().ok()?;
    let power = exponent - fraction.len() as i32;
    let product = number.checked_mul(u128::from(factor))?;
    let value = if power >= 0 {
        product.checked_mul(10u128.checked_pow(power as u32)?)?
    } else {
        let divisor = 10u128.checked_pow(power.unsigned_abs())?;
        (product + divisor / 2) / divisor
    };
    u64::try_from(value).ok()
}

/// Three significant digits, without trailing zeros: `1.5`, `123`, `0.25`.
fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_string() }
}

/// A duration with three significant digits: `850ns`, `1.5ms`, `12.3s`, `5.2min`.
pub fn format_duration(ns: u64) -> String {
    let value = ns as f64;
    let (scale, unit) = match ns {
        0..=999 => (1.0, "ns"),
        1_000..=999_499 => (1e3, "us"),
        999_500..=999_499_999 => (1e6, "ms"),
        999_500_000..=119_499_999_999 => (1e9, "s"),
        119_500_000_000..=7_199_999_999_999 => (60e9, "min"),
        7_200_000_000_000..=172_799_999_999_999 => (3600e9, "h"),
        _ => (86_400e9, "d"),
    };
    format!("{}{unit}", three_digits(value / scale))
}

/// A duration without loss, in the largest unit that needs no more than its natural decimals: `1.234567ms`.
pub fn format_duration_exact(ns: u64) -> String {
    let (unit_ns, unit, decimals) = match ns {
        0..=999 => (1, "ns", 0),
        1_000..=999_999 => (1_000, "us", 3),
        1_000_000..=999_999_999 => (1_000_000, "ms", 6),
        _ => (1_000_000_000, "s", 9),
    };
    exact(ns, unit_ns, decimals, unit)
}

fn exact(value: u64, scale: u64, decimals: usize, unit: &str) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let fraction = format!("{rest:0decimals$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A size with three significant digits: `512B`, `4KiB`, `1.5GiB`.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut power = 0;
    while value >= 1023.5 && power < 6 {
        value /= 1024.0;
        power += 1;
    }
    format!("{}{}", three_digits(value), BINARY[power])
}

/// A size without loss: in the largest binary unit that divides it, `4KiB`, `1025B`.
pub fn format_size_exact(bytes: u64) -> String {
    let power = if bytes == 0 { 0 } else { (bytes.trailing_zeros() / 10).min(6) };
    format!("{}{}", bytes >> (10 * power), BINARY[power as usize])
}

/// A rate with three significant digits: `0.5/s`, `171/s`, `12.3k/s`; what is rarer than once in 20 seconds per minute, hour or
/// day: `1.5/min`, `6/h`, `2/d`.
pub fn format_rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 0.05 {
        let units = [(60.0, "min"), (3600.0, "h")].into_iter().find(|(seconds, _)| per_second * seconds >= 0.995);
        let (seconds, unit) = units.unwrap_or((86_400.0, "d"));
        return match per_second * seconds {
            rate if rate < 0.05 => format!("{rate:.1e}/{unit}"),
            rate => format!("{}/{unit}", three_digits(rate)),
        };
    }
    let (scale, unit) = match per_second {
        value if value < 999.5 => (1.0, ""),
        value if value < 999.5e3 => (1e3, "k"),
        value if value < 999.5e6 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    format!("{}{unit}/s", three_digits(per_second / scale))
}

/// A count with its thousands apart: `1,372,577`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, ns) in [
            ("1ms", 1_000_000),
            ("250us", 250_000),
            ("1.5µs", 1_500),
            ("1e6", 1_000_000),
            ("1.5e3us", 1_500_000),
            ("0xF4240", 1_000_000),
            ("2", 2),
            ("1.6", 2),
            ("1 s", 1_000_000_000),
            ("90min", 5_400_000_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
        for text in ["", "ms", "-1ms", "1 parsec", "1e99", "18446744073709551616", "1.2.3s", "0x", "nan", "1ee3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_duration("fast").unwrap_err().to_string(),
            "\"fast\" is not a duration such as 250us, 1.5ms or 2s"
        );
        for (text, is_too_large) in
            [("100000000h", true), ("1e30s", true), ("1h1", false), ("-1s", false), ("nan", false)]
        {
            assert_eq!(parse_duration(text).unwrap_err().is_too_large(), is_too_large, "{text}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1.5GiB", 1_610_612_736),
            ("512B", 512),
            ("8 sectors", 4096),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["k", "4x", "4kk", "-4k"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_counts() {
        assert_eq!(parse_rate("12.5k/s"), Ok(12_500.0));
        assert_eq!(parse_rate("600/min"), Ok(10.0));
        assert!(parse_rate("fast").is_err());
        assert_eq!(format_rate(12_345.0), "12.3k/s");
        assert_eq!(format_rate(0.5), "0.5/s");
        assert_eq!(format_count(1_372_577), "1,372,577");
        assert_eq!(format_count(999), "999");
    }

    #[test]
    fn short_forms_change_unit_where_three_digits_would_overflow() {
        assert_eq!(format_duration(999), "999ns");
        assert_eq!(format_duration(999_499), "999us");
        assert_eq!(format_duration(999_600), "1ms");
        assert_eq!(format_duration(54_612_157_000), "54.6s");
        assert_eq!(format_duration(300_000_000_000), "5min");
        assert_eq!(format_size(1023), "1023B");
        assert_eq!(format_size(1536), "1.5KiB");
        assert_eq!(format_duration_exact(1_234_567), "1.234567ms");
        assert_eq!(format_size_exact(4096), "4KiB");
    }

    proptest! {
        #[test]
        fn exact_forms_lose_nothing(value: u64) {
            prop_assert_eq!(parse_duration(&format_duration_exact(value)), Ok(value));
            prop_assert_eq!(parse_size(&format_size_exact(value)), Ok(value));
        }

        #[test]
        fn short_forms_are_within_half_a_percent(value in 0..u64::MAX / 2) {
            let duration = parse_duration(&format_duration(value)).unwrap();
            prop_assert!(duration.abs_diff(value) as f64 <= value as f64 * 0.005 + 0.5, "{}", duration);
            let size = parse_size(&format_size(value)).unwrap();
            prop_assert!(size.abs_diff(value) as f64 <= value as f64 * 0.005 + 0.5, "{}", size);
            let rate = parse_rate(&format_rate(value as f64 / 1e9)).unwrap();
            prop_assert!((rate - value as f64 / 1e9).abs() <= value as f64 * 0.005e-9 + 0.005, "{}", rate);
        }

        #[test]
        fn any_text_is_refused_or_read(text in "\\PC{0,12}") {
            let _ = parse_duration(&text);
            let _ = parse_size(&text);
            let _ = parse_rate(&text);
        }
    }
}
