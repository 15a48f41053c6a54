//! The columns and colours of sysdig's chisel `spectrogram`, cell for cell.
//!
//! The rules were taken from the published chisel and, for the dither, from recordings of the program (sysdig 0.29.3):
//! 11 decades from 1 ns over the width of the terminal; a level `log(rate + 1) / log(1.6)` from 1 to 20 picks one of 20
//! colours, and its fraction one of four mixtures with the next. A grid's bucket may straddle a column's edge, so
//! [`SysdigSpectrogram`] counts the events themselves.

use crate::{Cell, Color};
use std::collections::BTreeMap;

/// xterm colours, weakest first.
pub(crate) const RAMP: [u8; 20] =
    [22, 28, 64, 34, 2, 76, 46, 118, 154, 191, 227, 226, 11, 220, 209, 208, 202, 197, 9, 1];
const DECADES: f64 = 11.0;

/// The column of a latency on a map of this width, from 0; `None` at 0 ns, which the chisel leaves out. From 100 s on
/// it is `width`, one beyond the map: the chisel never draws it, here it is the overflow.
pub fn sysdig_column(latency_ns: u64, width: usize) -> Option<usize> {
    (latency_ns > 0).then(|| ((latency_ns as f64).log10().min(DECADES) * width as f64 / DECADES) as usize)
}

/// The level of a rate per second, 1 to 20.
pub(crate) fn level(rate: f64) -> f64 {
    ((rate + 1.0).log10() / 1.6f64.log10()).clamp(1.0, RAMP.len() as f64)
}

/// The cell of a rate of calls per second above zero.
pub(crate) fn cell(rate: f64) -> Cell {
    let level = level(rate);
    let at = level as usize;
    let color = Color::Indexed(RAMP[at - 1]);
    let Some(&next) = RAMP.get(at) else {
        return Cell { symbol: ' ', foreground: color, background: color };
    };
    let next = Color::Indexed(next);
    match ((level - at as f64) * 4.0) as u32 {
        0 => Cell { symbol: ' ', foreground: color, background: next },
        1 => Cell { symbol: '░', foreground: color, background: next },
        2 => Cell { symbol: '▒', foreground: color, background: next },
        _ => Cell { symbol: '░', foreground: next, background: color },
    }
}

/// Counts events as the chisel does.
#[derive(Clone, Debug)]
pub struct SysdigSpectrogram {
    width: usize,
    interval_ns: u64,
    /// Counts by column, the overflow last, by interval number.
    rows: BTreeMap<i64, Vec<u64>>,
    zero: u64,
}

impl SysdigSpectrogram {
    /// A map of this many columns with a row for each interval (the chisel's is half a second).
    pub fn new(width: usize, interval_ns: u64) -> SysdigSpectrogram {
        SysdigSpectrogram { width: width.max(1), interval_ns: interval_ns.max(1), rows: BTreeMap::new(), zero: 0 }
    }

    /// Counts an event by the moment at which it ended.
    pub fn add(&mut self, end_ns: i64, latency_ns: u64) {
        let interval = end_ns.div_euclid(i64::try_from(self.interval_ns).unwrap_or(i64::MAX));
        match sysdig_column(latency_ns, self.width) {
            Some(column) => self.rows.entry(interval).or_insert_with(|| vec![0; self.width + 1])[column] += 1,
            None => self.zero += 1,
        }
    }

    /// Adds a row without events at either end of this stretch of time, if it has no row yet, once anything was counted.
    pub fn reach(&mut self, from_ns: i64, to_ns: i64) {
        if self.rows.is_empty() {
            return;
        }
        let width_ns = i64::try_from(self.interval_ns).unwrap_or(i64::MAX);
        for end_ns in [from_ns, to_ns.saturating_sub(1).max(from_ns)] {
            self.rows.entry(end_ns.div_euclid(width_ns)).or_insert_with(|| vec![0; self.width + 1]);
        }
    }

    /// Takes out what was counted in the intervals before this one, for what draws them as they pass.
    pub fn take_before(&mut self, interval: i64) -> SysdigSpectrogram {
        let later = self.rows.split_off(&interval);
        let (rows, zero) = (std::mem::replace(&mut self.rows, later), std::mem::take(&mut self.zero));
        SysdigSpectrogram { width: self.width, interval_ns: self.interval_ns, rows, zero }
    }

    /// Width of the intervals.
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Number of columns, the overflow not counted.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Events without a latency, which are in no cell.
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// The intervals that have events: interval number, counts by column with the overflow (100 s and more) last.
    pub fn rows(&self) -> impl Iterator<Item = (i64, &[u64])> {
        self.rows.iter().map(|(&interval, counts)| (interval, &counts[..]))
    }

    /// Counts of an interval by column, the overflow last; `None` when it has no events.
    pub(crate) fn counts(&self, interval: i64) -> Option<&[u64]> {
        self.rows.get(&interval).map(|counts| &counts[..])
    }

    /// Cells of an interval, one to the column, and one more for the overflow.
    pub fn cells(&self, interval: i64) -> Vec<Cell> {
        let per_second = 1e9 / self.interval_ns as f64;
        match self.counts(interval) {
            Some(counts) => counts
                .iter()
                .map(|&count| if count == 0 { Cell::BLANK } else { cell(count as f64 * per_second) })
                .collect(),
            None => vec![Cell::BLANK; self.width + 1],
        }
    }
}
