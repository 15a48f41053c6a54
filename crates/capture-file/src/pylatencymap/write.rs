//! Writes a series as records that `LatencyMap.py` reads.

use super::record::{BEGIN, END};
use crate::SeriesRow;
use latscope_event::{Context, format_wall};
use std::io::{self, Write};

/// Writes rows, in the order of their times, and gives back where they were written. Groups are added up: a heat map of `LatencyMap.py`
/// has one source. Buckets are powers of two of nanoseconds, named by their lower edge; an interval that lacks a row has an unchanged record.
///
/// # Errors
/// When it cannot be written.
pub fn write_pylatencymap<W: Write>(
    mut out: W,
    context: &Context,
    rows: impl IntoIterator<Item = SeriesRow>,
) -> io::Result<W> {
    // The label must not have a comma, or its reader stops.
    let words = context.source.split(|letter: char| letter == ',' || letter == ' ' || letter.is_control());
    let label = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut state = State { counts: [0; 64], written_ns: None, is_wall: context.clock.to_unix_ns == Some(0), label };
    let mut interval: Option<(i64, i64)> = None;
    for row in rows {
        let end_ns = row.time_ns.saturating_add_unsigned(row.width_ns);
        match interval {
            Some((start_ns, last_end_ns)) if start_ns != row.time_ns => {
                state.write(&mut out, last_end_ns)?;
                interval = Some((row.time_ns, end_ns));
            }
            Some((start_ns, last_end_ns)) => interval = Some((start_ns, last_end_ns.max(end_ns))),
            None => interval = Some((row.time_ns, end_ns)),
        }
        if state.written_ns.is_none_or(|written_ns| written_ns < row.time_ns) {
            // What the interval is compared with.
            state.write(&mut out, row.time_ns)?;
        }
        let grid = row.histogram.grid();
        for (index, count, _) in row.histogram.buckets() {
            let bucket = &mut state.counts[grid.middle(index).max(1).ilog2() as usize];
            *bucket = bucket.saturating_add(count);
        }
    }
    if let Some((_, end_ns)) = interval {
        state.write(&mut out, end_ns)?;
    }
    Ok(out)
}

struct State {
    /// Events so far, by the logarithm of their latency.
    counts: [u64; 64],
    /// The time of the last record.
    written_ns: Option<i64>,
    is_wall: bool,
    label: String,
}

impl State {
    fn write(&mut self, out: &mut impl Write, time_ns: i64) -> io::Result<()> {
        self.written_ns = Some(time_ns);
        let (begin, end) = (String::from_utf8_lossy(BEGIN), String::from_utf8_lossy(END));
        let date = if self.is_wall { format_wall(time_ns, 0, true) } else { "-".into() };
        writeln!(out, "{begin}\ntimestamp, microsec, {}, {date}", time_ns.div_euclid(1000).max(0))?;
        writeln!(out, "label, {}\nlatencyunit, nanosec\ndatasource, systemtap", self.label)?;
        for (bit, count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            writeln!(out, "{},{count}", 1u64 << bit)?;
        }
        writeln!(out, "{end}")
    }
}
