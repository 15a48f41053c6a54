//! Which columns a log has: it depends on the version of fio and its options, and nothing in the file says so.

use super::rows::{self, FioColumns, MOST, Row};
use crate::fio::results::NANOSECONDS;

/// Rows that are looked at.
const PROBE_ROWS: usize = 1000;
/// Nobody has so many requests of one job in flight.
const MOST_IN_FLIGHT: f64 = 256.0;

/// The unit of the latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unit {
    pub ns: u64,
    /// Whether the file leaves a doubt.
    pub guessed: bool,
}

/// The beginning of a log.
pub struct Probe {
    pub layout: FioColumns,
    rows: Vec<Row>,
    /// Lines that are no row.
    pub strange: usize,
}

/// A row whose columns have no meaning yet.
struct Raw {
    values: [u64; MOST],
    len: usize,
    hex: bool,
}

impl Probe {
    /// Looks at the beginning of a file; none when no line is a row.
    pub fn detect(head: &[u8], given: Option<FioColumns>) -> Option<Probe> {
        // The last line may be cut, and a cut row looks like a row.
        let whole = match memchr::memrchr(b'\n', head) {
            Some(end) => &head[..end],
            None => head,
        };
        let lines = || whole.split(|&byte| byte == b'\n').take(PROBE_ROWS).filter(|line| !line.trim_ascii().is_empty());
        let layout = given.or_else(|| inferred(lines()))?;
        let rows: Vec<Row> = lines().filter_map(|line| rows::row(line, layout).ok()).map(|(row, _)| row).collect();
        let strange = lines().count() - rows.len();
        (!rows.is_empty()).then_some(Probe { layout, rows, strange })
    }

    /// A beginning that is no text.
    pub fn with(layout: FioColumns, rows: Vec<Row>) -> Option<Probe> {
        (!rows.is_empty()).then_some(Probe { layout, rows, strange: 0 })
    }

    /// Whether values are addresses: nobody waits for weeks, again and again.
    pub fn has_addresses(&self) -> bool {
        self.rows.iter().all(|row| row.value > 1 << 43)
    }

    /// Whether rows are averages of a window: then they are of no one size.
    pub fn is_windowed(&self) -> bool {
        self.rows.iter().all(|row| row.size == 0)
    }

    /// Whether times are of the wall clock: milliseconds after September 2001 are no time since a start.
    pub fn is_wall(&self) -> bool {
        self.rows[0].time_ms > 1_000_000_000_000
    }

    /// Whether every value is 1, as in a log of IOPS.
    pub fn counts_only(&self) -> bool {
        self.rows.len() > 1 && self.rows.iter().all(|row| row.value == 1)
    }

    /// Milliseconds from the start of the job's clock to the zero of the times: what a time says beyond its issue time.
    /// Times are taken a little later than completions, so the least difference is the right one.
    pub fn epoch_ms(&self, submission: bool) -> Option<i64> {
        let from_issue = self.rows.iter().filter_map(|row| row.epoch_ms(submission));
        from_issue.min().map(|ms| if ms < 10 { 0 } else { ms })
    }

    /// Nanoseconds since fio 3.0, microseconds before. Columns that only younger versions write decide, or the version, where
    /// it is `known`; else it is what makes sense: an I/O does not start before its job, and only so many are in flight.
    pub fn unit(&self, known: impl FnOnce() -> Option<(u32, u32)>) -> Unit {
        let FioColumns { max, priority, issue, .. } = self.layout;
        let (nanoseconds, microseconds) = (1, 1000);
        if max || priority || issue {
            return Unit { ns: nanoseconds, guessed: false };
        }
        if let Some(version) = known() {
            let ns = if version >= NANOSECONDS { nanoseconds } else { microseconds };
            return Unit { ns, guessed: false };
        }
        let (first, last) = (self.rows[0].time_ms, self.rows[self.rows.len() - 1].time_ms);
        let waited_us: f64 = self.rows.iter().map(|row| row.value as f64).sum();
        let in_flight = waited_us / (last.saturating_sub(first) as f64 + 1.0) / 1000.0;
        if in_flight > MOST_IN_FLIGHT {
            return Unit { ns: nanoseconds, guessed: false };
        }
        let before_start = |row: &&Row| row.value / 1000 > row.time_ms.saturating_add(2);
        let impossible = self.rows.iter().filter(before_start).count() > 2;
        let ns = if impossible { nanoseconds } else { microseconds };
        Unit { ns, guessed: in_flight > 2.0 || ns == microseconds && self.may_be_nanoseconds() }
    }

    /// Whether latencies, mostly below 1000, may be those of a device that answers from memory, in nanoseconds: some that would
    /// be milliseconds have no pause before them, in which they could have been under way alone.
    fn may_be_nanoseconds(&self) -> bool {
        let mut values: Vec<u64> = self.rows.iter().map(|row| row.value).collect();
        values.sort_unstable();
        let long = || self.rows.windows(2).filter(|pair| pair[1].value >= 3000);
        let has_pause = |pair: &&[Row]| pair[1].time_ms.saturating_sub(pair[0].time_ms) + 2 > pair[1].value / 1000;
        values[values.len() / 2] < 1000 && 10 * long().filter(has_pause).count() < 9 * long().count()
    }
}

/// Numbers between commas, in the sixth or another column perhaps a priority as `0x` and digits.
fn raw(line: &[u8]) -> Option<Raw> {
    let mut raw = Raw { values: [0; MOST], len: 0, hex: false };
    for text in line.split(|&byte| byte == b',') {
        let text = text.trim_ascii();
        let value = raw.values.get_mut(raw.len)?;
        match rows::number(text) {
            Some((number, digits)) if digits > 0 && digits == text.len() => *value = number,
            _ => {
                rows::hexadecimal(text)?;
                raw.hex = true;
            }
        }
        raw.len += 1;
    }
    (raw.len >= 4).then_some(raw)
}

/// What the most lines look like.
fn inferred<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<FioColumns> {
    let raws: Vec<Raw> = lines.filter_map(raw).collect();
    let mut widths = [0usize; MOST + 1];
    raws.iter().for_each(|raw| widths[raw.len] += 1);
    let first = raws.first()?.len;
    let len = (4..=MOST).max_by_key(|&len| (widths[len], len == first))?;
    let same: Vec<&Raw> = raws.iter().filter(|raw| raw.len == len).collect();
    layout(len, &same)
}

fn layout(len: usize, rows: &[&Raw]) -> Option<FioColumns> {
    let all = |at: usize, fits: fn(u64) -> bool| rows.iter().all(|row| fits(row.values[at]));
    // Damaged rows must not decide.
    let direction = |at: usize| 2 * rows.iter().filter(|row| row.values[at] <= 2).count() >= rows.len();
    // With a third column of maxima there are at least six, since younger versions always write the priority.
    let max = match len {
        8 => true,
        6 | 7 if !direction(2) => true,
        // Both may look like directions: maxima are all 0 without a window, and then the next but one is a size;
        // or sizes are all 0 in a window, and then offsets are too.
        6 | 7 if direction(3) => !direction(4),
        _ => false,
    };
    if !direction(2 + usize::from(max)) {
        return None;
    }
    let priority_at = |at: usize| rows.iter().any(|row| row.hex) || all(at, |value| value <= 1);
    let rest = match len - 4 - usize::from(max) {
        0 => (false, false, false),
        1 if priority_at(4 + usize::from(max)) => (false, true, false),
        1 => (true, false, false),
        2 => (true, true, false),
        3 => (true, true, true),
        _ => return None,
    };
    Some(FioColumns { max, offset: rest.0, priority: rest.1, issue: rest.2 })
}
