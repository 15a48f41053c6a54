//! Interval logs of HdrHistogram (`.hlog`): text, a line for each interval and tag, with its histogram in base 64.
//!
//! ```text
//! #[StartTime: 1441812279.474 (seconds since epoch), ...]
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! Tag=A,0.127,1.007,2.769,HISTFAAAAEV42pNp...
//! ```
//!
//! Values are taken for nanoseconds, as jHiccup and most others write them.

mod decode;
mod write;

use crate::input::Input;
use crate::scan::decimal_seconds;
use crate::series_rows::{SeriesHeader, SeriesRow, SeriesRows};
use crate::text_rows::{Lines, NO_END, NoRows, is_unended};
use crate::{Detected, Error, Position, ReadOptions};
use latscope_event::{Clock, Context};
use latscope_histogram::Grid;
pub use write::write_hlog;

const MARK: &[u8] = b"#[Histogram log format version";
const LEGEND: &[u8] = b"\"StartTimestamp\"";
/// The tags are the groups of this field.
const TAG_FIELD: &str = "job";
const NS: u64 = 1_000_000_000;
/// Times that are so much earlier than the start of the log count from it (as in the reference implementation).
const YEAR_NS: u64 = 365 * 86_400 * NS;

/// There is a line that only such logs have.
pub fn detect(head: &[u8]) -> Detected {
    let is_one = |line: &[u8]| {
        // The first bytes of every encoding, in base 64.
        let is_row = row(line).is_ok_and(|row| row.histogram.starts_with(b"HIST"));
        line.starts_with(MARK) || line.starts_with(LEGEND) || is_row
    };
    if head.split(|&byte| byte == b'\n').take(100).any(is_one) { Detected::Yes } else { Detected::No }
}

/// Opens a log.
pub fn open(input: Input<'static>, options: &ReadOptions) -> Result<Box<dyn SeriesRows>, Error> {
    Ok(Box::new(Hlog::new(input, options)))
}

/// The rows of a log.
struct Hlog<'a> {
    header: SeriesHeader,
    context: Context,
    lines: Lines<'a>,
    no_rows: NoRows,
    /// What times count from, since the Unix epoch.
    base_ns: u64,
    rows: u64,
    /// There was a line of its head: a log without rows is one of nothing.
    says_so: bool,
    /// As how many an event counts.
    per_event: u64,
    /// The grid that was written, where it is known to be coarser than the bins of the log.
    grid: Option<Grid>,
    is_over: bool,
}

/// A line as it stands there.
struct Row<'a> {
    tag: Option<&'a [u8]>,
    start_ns: u64,
    width_ns: u64,
    histogram: &'a [u8],
}

impl<'a> Hlog<'a> {
    /// Opens a log.
    fn new(input: Input<'a>, options: &ReadOptions) -> Hlog<'a> {
        let file = input.name.clone();
        let lines = || input.head().split(|&byte| byte == b'\n');
        let named = |name: &[u8]| {
            let text = lines().find_map(|line| line.strip_prefix(b"#[")?.strip_prefix(name))?;
            let text = text.trim_ascii_start();
            decimal_seconds(&text[..text.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).count()])
        };
        let (start_ns, base_ns) = (named(b"StartTime:"), named(b"BaseTime:"));
        let first_ns = lines().find_map(|line| Some(row(line).ok()?.start_ns));
        let is_relative =
            |start_ns: &u64| first_ns.is_some_and(|first_ns| first_ns.saturating_add(YEAR_NS) < *start_ns);
        let base_ns = base_ns.or(start_ns.filter(is_relative));
        let grid = lines().take_while(|line| line.starts_with(b"#")).find_map(written_grid);
        let is_wall = base_ns.unwrap_or(0).saturating_add(first_ns.unwrap_or(0)) > YEAR_NS;
        let clock = if is_wall { Clock::wall() } else { Clock::unanchored("relative") };
        let header =
            SeriesHeader { group_fields: vec![TAG_FIELD.into()], value: "latency".into(), weight: "count".into() };
        let mut context = Context::new(format!("HdrHistogram log, {file}"), clock);
        // What counts from its own start has nothing before it.
        context.start_ns = (!is_wall).then_some(0);
        Hlog {
            header,
            context,
            no_rows: NoRows::new(&file, options.lenient),
            lines: Lines::new(input),
            base_ns: base_ns.unwrap_or(0),
            rows: 0,
            says_so: false,
            per_event: 1,
            grid,
            is_over: false,
        }
    }

    fn next_row(&mut self) -> Result<Option<SeriesRow>, Error> {
        while let Some((number, line)) = self.lines.next()? {
            let text = line.map(<[u8]>::trim_ascii);
            if text.is_ok_and(|text| text.starts_with(b"#") || text.starts_with(LEGEND)) {
                self.says_so = true;
                continue;
            }
            match text.and_then(|text| series_row(text, self.base_ns, self.per_event)) {
                Ok(mut row) => {
                    self.rows += 1;
                    if let Some(grid) = self.grid {
                        row.histogram = row.histogram.folded(grid);
                    }
                    self.context.cover(row.time_ns);
                    self.context.cover(row.time_ns.saturating_add_unsigned(row.width_ns));
                    return Ok(Some(row));
                }
                Err(why) => {
                    // Lengths and a checksum are in the histogram, so one that can be read is whole.
                    let why = if is_unended(number, line) { NO_END } else { why };
                    self.no_rows.add(&mut self.context, number, line, why)?;
                }
            }
        }
        self.no_rows.finish(&mut self.context, self.rows)?;
        self.lines.note_cut(&mut self.context);
        if self.rows == 0 && !self.says_so {
            let sentence = "No row of an HdrHistogram log found (start, length, maximum, histogram).";
            return Err(Error::new(self.lines.name(), Position::File, sentence));
        }
        Ok(None)
    }
}

impl SeriesRows for Hlog<'_> {
    fn header(&self) -> &SeriesHeader {
        &self.header
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn count_in(&mut self, per_event: u64) {
        self.per_event = per_event;
    }
}

impl Iterator for Hlog<'_> {
    type Item = Result<SeriesRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.next_row();
        self.is_over = !matches!(row, Ok(Some(_)));
        row.transpose()
    }
}

/// The grid that a comment of ours names.
fn written_grid(line: &[u8]) -> Option<Grid> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let buckets: u32 =
        line.strip_prefix('#')?.strip_prefix(write::PRECISION)?.strip_suffix(']')?.trim().parse().ok()?;
    let power = u8::try_from(buckets.trailing_zeros()).ok().filter(|_| buckets.is_power_of_two())?;
    Grid::with_power(power)
}

/// `[Tag=x,]start,length,maximum,histogram`.
fn row(line: &[u8]) -> Result<Row<'_>, &'static str> {
    const COLUMNS: &str = "something other than start, length, maximum and histogram";
    let mut columns = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).peekable();
    let tag = columns.next_if(|column| column.starts_with(b"Tag=")).map(|column| &column[4..]);
    let mut seconds = || columns.next().and_then(decimal_seconds).ok_or(COLUMNS);
    let (start_ns, width_ns) = (seconds()?, seconds()?);
    let (_max, histogram) = columns.next().zip(columns.next()).ok_or(COLUMNS)?;
    if columns.next().is_some() {
        return Err(COLUMNS);
    }
    Ok(Row { tag, start_ns, width_ns, histogram })
}

fn series_row(line: &[u8], base_ns: u64, per_event: u64) -> Result<SeriesRow, &'static str> {
    let row = row(line)?;
    let start_ns = row.start_ns.checked_add(base_ns);
    // Room for the width behind it.
    let time_ns = start_ns.and_then(|ns| i64::try_from(ns).ok()).filter(|&ns| ns < i64::MAX / 2);
    let time_ns = time_ns.ok_or("an impossible time")?;
    if row.width_ns > i64::MAX as u64 / 2 {
        return Err("an interval of more than 146 years");
    }
    let groups = [row.tag.map_or("-".into(), |tag| String::from_utf8_lossy(tag).into())].into();
    let histogram = decode::decode(row.histogram)?.times(per_event).ok_or("counts that exceed 64 bits")?;
    Ok(SeriesRow { time_ns, width_ns: row.width_ns, groups, histogram, waiting: None })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
