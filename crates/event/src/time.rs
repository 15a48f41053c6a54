//! Moments as people write them (`10:32:05.5`, `2026-11-21T10:32:05`, `+5s`) and as axes show them.

use crate::{UnitError, format_duration_exact, parse_duration};
use jiff::{Timestamp, civil, tz::TimeZone};

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_DAY: i64 = 86_400 * NS_PER_S;

/// What a written moment is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceStart {
    /// First moment of the trace, on the trace's clock.
    pub start_ns: Option<i64>,
    /// What to add to the trace's clock to get Unix time, when known.
    pub to_unix_ns: Option<i64>,
}

/// A moment as it was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TimeLiteral {
    /// A plain number: nanoseconds on the trace's own clock (as in sysdig, where it is Unix time), or with a decimal point seconds.
    Raw(i64),
    /// `+5s`: since the start of the trace.
    SinceStart(u64),
    /// `10:32:05.5`: the first such moment at or after the start of the trace, local time; nanoseconds since midnight.
    TimeOfDay(i64),
    /// `2026-11-21T10:32:05.5` local, or with `Z` or an offset: nanoseconds since the Unix epoch.
    Unix(i64),
}

impl TimeLiteral {
    /// Reads a moment.
    ///
    /// # Errors
    /// If the text has none of the forms above; the text of the error names the forms.
    pub fn parse(text: &str) -> Result<TimeLiteral, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "\"{text}\" is not a moment such as 10:32:05.5, 2026-11-21T10:32:05, +5s, or on the trace's clock \
                 1763892725.25 (seconds) or 1763892725250000000 (nanoseconds)"
            )
        };
        if let Some(rest) = text.strip_prefix('+') {
            return parse_duration(rest).map(TimeLiteral::SinceStart).map_err(|error: UnitError| error.to_string());
        }
        if let Ok(raw) = text.parse::<i64>() {
            return Ok(TimeLiteral::Raw(raw));
        }
        if let Some(raw) = decimal_seconds(text) {
            return Ok(TimeLiteral::Raw(raw));
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return i64::try_from(timestamp.as_nanosecond()).map(TimeLiteral::Unix).map_err(|_| wrong());
        }
        if let Ok(datetime) = text.replace(' ', "T").parse::<civil::DateTime>()
            && text.contains('-')
        {
            let zoned = datetime.to_zoned(TimeZone::system()).map_err(|_| wrong())?;
            return i64::try_from(zoned.timestamp().as_nanosecond()).map(TimeLiteral::Unix).map_err(|_| wrong());
        }
        if text.contains(':')
            && let Ok(time) = text.parse::<civil::Time>()
        {
            let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
            return Ok(TimeLiteral::TimeOfDay(seconds * NS_PER_S + i64::from(time.subsec_nanosecond())));
        }
        // Any duration with a unit, or 1e9; of a number with a point nobody could say what it counts.
        if text.contains('.') && !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
            return Err(wrong());
        }
        parse_duration(text).ok().and_then(|ns| i64::try_from(ns).ok()).map(TimeLiteral::Raw).ok_or_else(wrong)
    }

    /// The moment on the trace's clock.
    ///
    /// # Errors
    /// A sentence, when the trace's clock has no known relation to what was written.
    pub fn resolve(self, trace: TraceStart) -> Result<i64, String> {
        let start =
            || trace.start_ns.ok_or("The trace is empty, so a moment cannot be relative to its start.".to_string());
        let to_unix = || {
            trace.to_unix_ns.ok_or_else(|| {
                "The relation of this trace's clock to wall-clock time is unknown; give the moment relative to the \
                 start of the trace, as in +5s."
                    .to_string()
            })
        };
        match self {
            TimeLiteral::Raw(ns) => Ok(ns),
            TimeLiteral::SinceStart(ns) => Ok(start()?.saturating_add_unsigned(ns)),
            TimeLiteral::Unix(ns) => Ok(ns.saturating_sub(to_unix()?)),
            TimeLiteral::TimeOfDay(ns) => {
                let (start, to_unix) = (start()?, to_unix()?);
                let start_unix = start.saturating_add(to_unix);
                let midnight = local_midnight(start_unix);
                let mut moment = midnight.saturating_add(ns);
                // A trace that runs over midnight: the moment belongs to the next day when it lies half a day back.
                if moment < start_unix - NS_PER_DAY / 2 {
                    moment += NS_PER_DAY;
                }
                Ok(moment.saturating_sub(to_unix))
            }
        }
    }
}

impl std::fmt::Display for TimeLiteral {
    /// Writes the moment so that it parses back.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            TimeLiteral::Raw(ns) => write!(f, "{ns}"),
            TimeLiteral::SinceStart(ns) => write!(f, "+{}", format_duration_exact(ns)),
            TimeLiteral::Unix(ns) => {
                write!(f, "{}", Timestamp::from_nanosecond(i128::from(ns)).map_err(|_| std::fmt::Error)?)
            }
            TimeLiteral::TimeOfDay(ns) => {
                let (seconds, rest) = (ns / NS_PER_S, ns % NS_PER_S);
                write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
                if rest != 0 {
                    write!(f, ".{}", format!("{rest:09}").trim_end_matches('0'))?;
                }
                Ok(())
            }
        }
    }
}

/// From here on a number without a unit is nanoseconds; below it is seconds, up to the year 5138.
const FIRST_NS: u64 = 100_000_000_000;

/// Nanoseconds of a moment since 1970, or on the clock of a trace, as programs write it: seconds if the number has a decimal point or is
/// below 100,000,000,000, else nanoseconds; a number with a unit (`1500ms`, `25ns`); or a date.
///
/// # Errors
/// If the text has another form; the error lists the forms.
pub fn parse_timestamp(text: &str) -> Result<i64, String> {
    let wrong = || {
        format!(
            "{text} has no date; give seconds (1763892725.25) or nanoseconds since 1970, a number with a unit, or \
             2026-11-21T10:32:05Z"
        )
    };
    if let Ok(number) = text.parse::<i64>() {
        let is_ns = number.unsigned_abs() >= FIRST_NS;
        return if is_ns { Ok(number) } else { number.checked_mul(NS_PER_S).ok_or_else(wrong) };
    }
    if let Some(ns) = decimal_seconds(text) {
        return Ok(ns);
    }
    match TimeLiteral::parse(text).map_err(|_| wrong())? {
        TimeLiteral::Unix(ns) => Ok(ns),
        // With a unit: of 1e9 nobody could say what it counts.
        TimeLiteral::Raw(ns) if text.ends_with(|last: char| last.is_ascii_alphabetic()) => Ok(ns),
        _ => Err(wrong()),
    }
}

/// Nanoseconds of seconds with a decimal point, as `date +%s.%N` prints them; `None` if it is something else, or too large.
fn decimal_seconds(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.')?;
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(decimals) {
        return None;
    }
    let digits = &decimals[..decimals.len().min(9)];
    let ns = digits.parse::<i64>().ok()? * 10_i64.pow(9 - digits.len() as u32);
    whole.parse::<i64>().ok()?.checked_mul(NS_PER_S)?.checked_add(ns)
}

fn local_midnight(unix_ns: i64) -> i64 {
    let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(unix_ns)) else { return 0 };
    let zoned = timestamp.to_zoned(TimeZone::system());
    zoned.start_of_day().map_or(0, |midnight| midnight.timestamp().as_nanosecond() as i64)
}

/// A Unix time as local wall time: `2026-11-21 10:32:05.500` with `decimals` digits of the second (0 to 9);
/// without the date when `date` is false.
pub fn format_wall(unix_ns: i64, decimals: usize, date: bool) -> String {
    let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(unix_ns)) else { return unix_ns.to_string() };
    let local = timestamp.to_zoned(TimeZone::system()).datetime();
    let mut text = String::new();
    if date {
        text = format!("{:04}-{:02}-{:02} ", local.year(), local.month(), local.day());
    }
    text += &format!("{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second());
    if decimals > 0 {
        let fraction = format!("{:09}", local.subsec_nanosecond());
        text += &format!(".{}", &fraction[..decimals.min(9)]);
    }
    text
}

/// A Unix time as local time in a format of `strftime`, `None` when the format means nothing.
pub fn format_strftime(unix_ns: i64, format: &str) -> Option<String> {
    let local = Timestamp::from_nanosecond(i128::from(unix_ns)).ok()?.to_zoned(TimeZone::system());
    jiff::fmt::strtime::format(format, &local).ok()
}

/// The time zone in which [`format_wall`] shows a Unix time, for a label: `UTC+01:00`.
pub fn wall_zone(unix_ns: i64) -> String {
    let Ok(timestamp) = Timestamp::from_nanosecond(i128::from(unix_ns)) else { return "UTC".into() };
    let seconds = timestamp.to_zoned(TimeZone::system()).offset().seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    if minutes == 0 { "UTC".into() } else { format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60) }
}

/// Time since the start of a trace for an axis: `0s`, `1.5s`, `2:05`, `1:02:03`, and from two days on `50d`, `2d 06:00`; `step_ns`
/// is the distance of two labels.
pub fn format_elapsed(ns: u64, step_ns: u64) -> String {
    let (second, day) = (NS_PER_S as u64, NS_PER_DAY as u64);
    if ns >= 2 * day {
        let seconds = ns % day / second;
        return match (ns / day, step_ns) {
            (days, step_ns) if step_ns.is_multiple_of(day) && ns.is_multiple_of(day) => format!("{days}d"),
            (days, step_ns) if step_ns.is_multiple_of(60 * second) => {
                format!("{days}d {:02}:{:02}", seconds / 3600, seconds / 60 % 60)
            }
            (days, _) => format!("{days}d {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
        };
    }
    if ns < 60 * second {
        return if step_ns >= second { format!("{}s", ns / second) } else { format_duration_exact(ns) };
    }
    let (seconds, rest) = (ns / second, ns % second);
    let mut text = if seconds < 3600 {
        format!("{}:{:02}", seconds / 60, seconds % 60)
    } else {
        format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    };
    if step_ns < second && rest > 0 {
        text += &format!(".{}", format!("{rest:09}").trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn moments_as_people_write_them() {
        assert_eq!(TimeLiteral::parse("+5s"), Ok(TimeLiteral::SinceStart(5 * NS_PER_S as u64)));
        assert_eq!(TimeLiteral::parse("10:32:05.5"), Ok(TimeLiteral::TimeOfDay(37_925_500_000_000)));
        assert_eq!(TimeLiteral::parse("1970-01-01T00:00:01.5Z"), Ok(TimeLiteral::Unix(1_500_000_000)));
        assert_eq!(TimeLiteral::parse("1500000000"), Ok(TimeLiteral::Raw(1_500_000_000)));
        assert_eq!(TimeLiteral::parse("2s"), Ok(TimeLiteral::Raw(2_000_000_000)));
        assert_eq!(TimeLiteral::parse("1763892725.25"), Ok(TimeLiteral::Raw(1_763_892_725_250_000_000)));
        assert!(TimeLiteral::parse("99999999999.5").is_err() && TimeLiteral::parse("1.").is_err());
        assert!(TimeLiteral::parse("noon").is_err());
        assert!(TimeLiteral::parse("25:00:00").is_err());
    }

    #[test]
    fn numbers_are_seconds_or_nanoseconds_by_their_form() {
        for (text, expected) in [
            ("1763892725.25", 1_763_892_725_250_000_000),
            ("1763892725", 1_763_892_725_000_000_000),
            ("1763892725.1234567899", 1_763_892_725_123_456_789),
            ("1763892725250000001", 1_763_892_725_250_000_001),
            ("99999999999", 99_999_999_999_000_000_000_i128),
            ("100000000000", 100_000_000_000),
            ("0.000000025", 25),
            ("25ns", 25),
            ("1763892725250ms", 1_763_892_725_250_000_000),
            ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ] {
            let found = parse_timestamp(text).map(i128::from);
            assert_eq!(found.ok(), Some(expected).filter(|&ns| ns <= i64::MAX as i128), "{text}");
        }
        for text in ["", ".", "1.", ".5", "1.76e9", "1e9", "+5s", "10:32:05", "noon", "99999999999999999999", "9e99s"] {
            assert!(parse_timestamp(text).unwrap_err().contains("has no date"), "{text}");
        }
    }

    #[test]
    fn moments_resolve_on_the_clock_of_the_trace() {
        let trace = TraceStart { start_ns: Some(1_000), to_unix_ns: None };
        assert_eq!(TimeLiteral::SinceStart(5).resolve(trace), Ok(1_005));
        assert!(TimeLiteral::Unix(5).resolve(trace).unwrap_err().contains("+5s"));
        let trace = TraceStart { start_ns: Some(1_000), to_unix_ns: Some(100) };
        assert_eq!(TimeLiteral::Unix(5_000).resolve(trace), Ok(4_900));
    }

    #[test]
    fn elapsed_time_has_as_many_digits_as_the_axis_needs() {
        let second = NS_PER_S as u64;
        assert_eq!(format_elapsed(5 * second, second), "5s");
        assert_eq!(format_elapsed(second / 2, second / 2), "500ms");
        assert_eq!(format_elapsed(125 * second, 5 * second), "2:05");
        assert_eq!(format_elapsed(3_723 * second, 60 * second), "1:02:03");
        let day = 86_400 * second;
        assert_eq!(format_elapsed(2 * day - second, 60 * second), "47:59:59");
        assert_eq!(format_elapsed(50 * day, 10 * day), "50d");
        assert_eq!(format_elapsed(50 * day + day / 4, 3600 * second), "50d 06:00");
        assert_eq!(format_elapsed(3 * day + 61 * second, second), "3d 00:01:01");
        assert_eq!(format_elapsed(125 * second + second / 2, second / 2), "2:05.5");
    }

    proptest! {
        #[test]
        fn literals_print_as_they_parse(ns in 0..NS_PER_DAY, unix in 0i64..4_000_000_000_000_000_000) {
            for literal in [TimeLiteral::TimeOfDay(ns), TimeLiteral::SinceStart(ns as u64), TimeLiteral::Unix(unix), TimeLiteral::Raw(ns)] {
                prop_assert_eq!(TimeLiteral::parse(&literal.to_string()), Ok(literal));
            }
        }

        #[test]
        fn any_text_is_refused_or_read(text in "[-0-9:.TZ+ a-z]{0,24}") {
            let _ = TimeLiteral::parse(&text);
        }
    }
}
