//! Rows of powers of two, or finer, into which the buckets of the grid fall whole.

use latscope_event::{format_duration, format_size};
use latscope_histogram::Grid;
use latscope_series::Quantity;

/// Powers of two of a unit, which `bcc` and SystemTap users know, or a grid of so many rows to the octave.
#[derive(Clone, Debug)]
pub(crate) struct Rungs {
    grid: Grid,
    /// How many units of the values make one unit of the rows: 1000 where nanoseconds show as microseconds.
    scale: u64,
    /// What the numbers count: `usecs`; empty where every label carries its unit.
    pub unit: &'static str,
    bytes: bool,
}

/// From this median on rows count microseconds.
const MICRO_FROM: u64 = 10_000;

impl Rungs {
    /// Rows for values around `median`: where half of them take ten microseconds and more, the rows are in
    /// microseconds, and all below two are in the first. Powers of two of a microsecond are edges of the fine grid (1000 = 125 x 8), so both
    /// they and those of a nanosecond are exact; a coarser grid has its own.
    pub(crate) fn new(grid: Grid, quantity: Quantity, median: u64, per_octave: u32) -> Rungs {
        let power = per_octave.clamp(1, 64).ilog2() as u8;
        let rows = Grid::with_power(power.min(grid.power())).unwrap_or(grid);
        let bytes = quantity.is_bytes();
        let micro = !bytes && rows.power() == 0 && grid >= Grid::FINE && median >= MICRO_FROM;
        let (scale, unit) = match (bytes, rows.power(), micro) {
            (true, 0, _) => (1, "bytes"),
            (false, 0, true) => (1000, "usecs"),
            (false, 0, false) => (1, "nsecs"),
            _ => (1, ""),
        };
        Rungs { grid: rows, scale, unit, bytes }
    }

    /// The row of a value.
    pub(crate) fn row(&self, value: u64) -> usize {
        self.grid.index(value / self.scale)
    }

    /// The lowest value of a row; rows beyond the grid, which fill up a map, start at the largest value.
    pub(crate) fn lower(&self, row: usize) -> u64 {
        if row < self.grid.len() { self.grid.lower(row).saturating_mul(self.scale) } else { u64::MAX }
    }

    /// First and last number of a row as a label shows them. The lowest row of powers of two holds 0 and 1.
    pub(crate) fn label(&self, row: usize) -> (String, String) {
        let (lower, upper) = (self.grid.lower(row), self.grid.upper(row));
        if !self.unit.is_empty() {
            (lower.to_string(), upper.to_string())
        } else if self.bytes {
            (format_size(lower), format_size(upper.saturating_add(1)))
        } else {
            (format_duration(lower), format_duration(upper.saturating_add(1)))
        }
    }

    /// The lower edge with its unit.
    pub(crate) fn short_label(&self, row: usize) -> String {
        match (self.bytes, self.unit) {
            (true, _) => format_size(self.lower(row)),
            (false, "usecs") if self.lower(row) < 1_024_000 => format!("{}us", self.lower(row) / self.scale),
            (false, _) => format_duration(self.lower(row)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_fall_into_rows_whole(
            value: u64, bits in 0u32..64, median: u64, power in 0u8..=6, octave in 1u32..=64, quantity in 0..2usize,
        ) {
            let value = value >> bits;
            let grid = Grid::with_power(power).unwrap();
            let rungs = Rungs::new(grid, [Quantity::Latency, Quantity::Size][quantity], median, octave);
            let lower = grid.lower(grid.index(value));
            prop_assert_eq!(rungs.row(value), rungs.row(lower));
            prop_assert!(rungs.lower(rungs.row(value)) <= value);
        }
    }
}
