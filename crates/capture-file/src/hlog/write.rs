//! Writes a series as an interval log.

use crate::SeriesRow;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use latscope_event::Context;
use latscope_histogram::{Grid, Sparse};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// 1024 bins to the octave: each lies in one of our buckets, and every value below 2 us is exact.
const DIGITS: u8 = 3;
/// The comment that has the buckets to the octave of what was written, where they are coarser than ours.
pub const PRECISION: &str = "[LatscopePrecision:";
/// The column of maxima is in milliseconds.
const NS_OF_MAXIMUM: f64 = 1e6;

/// Writes rows, in the order of their times, and gives back where they were written. The values of the groups make the tag,
/// joined by `/`. Every count is where its bucket is, so that reading it again gives the same histograms.
///
/// # Errors
/// When it cannot be written.
pub fn write_hlog<W: Write>(mut out: W, context: &Context, rows: impl IntoIterator<Item = SeriesRow>) -> io::Result<W> {
    let mut rows = rows.into_iter().peekable();
    let first_ns = rows.peek().map_or(0, |row| row.time_ns.max(0));
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .with_max_value_divisor(NS_OF_MAXIMUM)
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!("Latencies in nanoseconds, by latscope: {}", one_line(&context.source)));
    // The bins of the log are finer than such buckets, and nobody could see from them where an event may have been.
    if let Some(grid) = rows.peek().map(|row| row.histogram.grid()).filter(|&grid| grid < Grid::FINE) {
        builder.add_comment(&format!("{PRECISION} {}]", 1u32 << grid.power()));
    }
    let mut log_start_ns = 0;
    if context.clock.to_unix_ns == Some(0) {
        // Whole seconds, as times are written to the millisecond.
        log_start_ns = first_ns / 1_000_000_000 * 1_000_000_000;
        let start = UNIX_EPOCH + Duration::from_nanos(log_start_ns as u64);
        builder.with_start_time(start).with_base_time(start);
    }
    let mut log = builder.begin_log_with(&mut out, &mut serializer)?;
    // An interval in which nothing completed has no histogram.
    for row in rows.filter(|row| row.histogram.totals().count > 0) {
        let text = tag(&row.groups);
        let start = Duration::from_nanos(u64::try_from(row.time_ns.saturating_sub(log_start_ns)).unwrap_or(0));
        let histogram =
            hdr(&row.histogram).ok_or_else(|| io::Error::other("a histogram exceeds the limits of HdrHistogram"))?;
        log.write_histogram(&histogram, start, Duration::from_nanos(row.width_ns), text.as_deref().and_then(Tag::new))
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    drop(log);
    Ok(out)
}

/// Groups as one word: commas and blanks would end it.
fn tag(groups: &[String]) -> Option<String> {
    let text = groups.join("/");
    let plain =
        |letter: char| if letter.is_whitespace() || letter.is_control() || letter == ',' { '_' } else { letter };
    (!groups.iter().all(|value| value == "-")).then(|| text.chars().map(plain).collect())
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The same counts: those of the first and the last bucket at the smallest and the largest value, the others in the middle.
fn hdr(sparse: &Sparse) -> Option<Histogram<u64>> {
    let (grid, totals) = (sparse.grid(), sparse.totals());
    let mut histogram = Histogram::new_with_bounds(1, totals.max.max(2), DIGITS).ok()?;
    let (first, last) = (sparse.indices().first().copied()? as usize, sparse.indices().last().copied()? as usize);
    for (index, count, _) in sparse.buckets() {
        let (lower, upper) = (grid.lower(index), grid.upper(index));
        let middle = (lower + (upper - lower) / 2).min(totals.max).max(lower);
        let at_min = u64::from(index == first);
        let at_max = u64::from(index == last && count > at_min);
        histogram.record_n(totals.min.clamp(lower, upper), at_min).ok()?;
        histogram.record_n(totals.max.clamp(lower, upper), at_max).ok()?;
        histogram.record_n(middle, count - at_min - at_max).ok()?;
    }
    Some(histogram)
}
