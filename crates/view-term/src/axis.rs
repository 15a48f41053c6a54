//! The axis of values: which column of the picture a bucket of the grid falls into, and where its ticks stand.
//!
//! A bucket belongs to one column, that of its lower edge, so counts are preserved. Where the grid is coarser than
//! the columns (whole nanoseconds at the lower end, imports of powers of two) a bucket is drawn over all columns up
//! to the next one.

use latscope_event::{format_duration, format_size};
use latscope_histogram::{Grid, Totals};
use latscope_series::Quantity;

/// Where a bucket is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Under,
    Column(usize),
    Over,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    grid: Grid,
    columns: usize,
    linear: bool,
    bytes: bool,
    low: f64,
    high: f64,
    /// First and last bucket that are drawn.
    buckets: (usize, usize),
    /// For each column the one whose count it shows.
    source: Vec<usize>,
    /// The first bucket between `low` and `high`, and the columns of it and of those that follow.
    shown: (usize, Vec<usize>),
}

impl Axis {
    /// An axis of so many columns for values from `range.0` to `range.1`, or as far as the data go.
    pub(crate) fn new(
        grid: Grid,
        quantity: Quantity,
        totals: &Totals,
        range: (Option<u64>, Option<u64>),
        columns: usize,
    ) -> Axis {
        let (linear, bytes) = (quantity == Quantity::Offset, quantity.is_bytes());
        let (least, most) = if totals.count == 0 { (1000, 1_000_000) } else { (totals.min, totals.max) };
        let (fit_low, fit_high) = fit(least.max(range.0.unwrap_or(0)), most, linear, bytes);
        let low = range.0.map_or(fit_low, |low| lowest(low, linear));
        let mut high = range.1.map_or(fit_high, |high| high as f64 + 1.0);
        if high <= low {
            high = low * 2.0 + 1.0;
        }
        let first = range.0.map_or(0, |low| grid.index(low));
        let last = range.1.map_or(grid.len() - 1, |high| grid.index(high));
        let columns = columns.max(1);
        let buckets = (first, last.max(first));
        let shown = (grid.index(low as u64), Vec::new());
        let mut axis = Axis { grid, columns, linear, bytes, low, high, buckets, source: Vec::new(), shown };
        let buckets = axis.shown.0..=grid.index(high as u64);
        axis.shown.1 = buckets.map(|bucket| axis.column_of(grid.lower(bucket) as f64)).collect();
        let mut starts = vec![false; columns];
        axis.shown.1.iter().for_each(|&column| starts[column] = true);
        let mut source = 0;
        axis.source = (0..columns)
            .map(|column| {
                source = if starts[column] { column } else { source };
                source
            })
            .collect();
        axis
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// The column that shows a bucket.
    pub(crate) fn place(&self, bucket: usize) -> Place {
        if bucket < self.buckets.0 {
            Place::Under
        } else if bucket > self.buckets.1 {
            Place::Over
        } else {
            let (first, columns) = &self.shown;
            let at = bucket.saturating_sub(*first).min(columns.len() - 1);
            Place::Column(columns[at])
        }
    }

    /// Least and greatest value of the buckets that have their place in these columns; `None` if these columns have no bucket.
    pub(crate) fn values(&self, columns: std::ops::RangeInclusive<usize>) -> Option<(u64, u64)> {
        let (first, places) = &self.shown;
        let from = places.partition_point(|place| place < columns.start());
        let to = places.partition_point(|place| place <= columns.end());
        if from == to {
            return None;
        }
        // What lies outside of the range has its place at the ends.
        let from = if from == 0 { self.buckets.0 } else { (first + from).max(self.buckets.0) };
        let to = if to == places.len() { self.buckets.1 } else { (first + to - 1).min(self.buckets.1) };
        (from <= to).then(|| (self.grid.lower(from), self.grid.upper(to)))
    }

    /// Greatest value below and least value above all columns, where there are any.
    pub(crate) fn beyond(&self) -> (Option<u64>, Option<u64>) {
        let (first, last) = self.buckets;
        let below = (first > 0).then(|| self.grid.lower(first) - 1);
        (below, (last + 1 < self.grid.len()).then(|| self.grid.upper(last) + 1))
    }

    /// The column whose count a column shows.
    pub(crate) fn source(&self, column: usize) -> usize {
        self.source[column]
    }

    fn column_of(&self, value: f64) -> usize {
        let part = if self.linear {
            (value - self.low) / (self.high - self.low)
        } else {
            (value.max(ZERO) / self.low).ln() / (self.high / self.low).ln()
        };
        // The cast saturates, so that values below the range are in the first column. A tick computed as exactly on a
        // column's edge must not fall back into the one before by rounding.
        ((part * self.columns as f64 + 1e-9) as usize).min(self.columns - 1)
    }

    /// Ticks as column and label: as many as there is room for, where a label needs `room` columns.
    pub(crate) fn ticks(&self, room: impl Fn(&str) -> usize) -> Vec<(usize, String)> {
        let mut ticks = Vec::new();
        for level in 0..24 {
            ticks = self.candidates(level);
            let fits = |pair: &[(usize, String)]| pair[0].0 + room(&pair[0].1) <= pair[1].0;
            if ticks.len() <= 64 && ticks.windows(2).all(fits) {
                return ticks;
            }
        }
        ticks.truncate(1);
        ticks
    }

    /// Round values of the range, fewer with each level.
    fn candidates(&self, level: u32) -> Vec<(usize, String)> {
        let mut values = Vec::new();
        if self.linear {
            let base: f64 = if self.bytes { 2.0 } else { 10.0 };
            let step = base.powf(((self.high - self.low) / 64.0).log(base).ceil() + f64::from(level));
            let first = (self.low / step).ceil();
            values.extend((0..65).map(|at| (first + f64::from(at)) * step));
        } else if self.bytes {
            let first = self.low.log2().floor() as i32;
            let step = [1, 2, 3, 5][level.min(3) as usize] + 5 * level.saturating_sub(3) as i32;
            let first = first.div_euclid(step) * step;
            values.extend((first..=64).step_by(step as usize).map(|power| 2f64.powi(power)));
        } else {
            let digits: &[f64] = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]][level.min(2) as usize];
            let step = level.saturating_sub(1).max(1) as usize;
            let decades = (-1..=19).filter(|decade: &i32| decade.rem_euclid(step as i32) == 0);
            values.extend(decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade))));
        }
        values.retain(|&value| value >= self.low * (1.0 - 1e-9) && value < self.high && (value >= 1.0 || self.linear));
        values.into_iter().map(|value| (self.column_of(value), label(value.round(), self.bytes))).collect()
    }
}

/// Stands for the value zero on a logarithmic axis.
const ZERO: f64 = 0.5;

fn lowest(value: u64, linear: bool) -> f64 {
    if linear { value as f64 } else { (value as f64).max(ZERO) }
}

/// A round range that holds the data, at least a decade wide when logarithmic.
fn fit(least: u64, most: u64, linear: bool, bytes: bool) -> (f64, f64) {
    let (mut low, mut high) = (lowest(least, linear), most as f64 + 1.0);
    if linear {
        return (if low < high / 4.0 { 0.0 } else { low }, high.max(low + 1.0));
    }
    if low >= 1.0 {
        low = round_down(low, bytes);
    }
    high = round_up(high, bytes);
    while high / low < 10.0 {
        high = round_up(high * 1.01, bytes);
        if low > 1.0 && high / low < 10.0 {
            low = round_down(low * 0.99, bytes);
        }
    }
    (low, high)
}

/// The largest of 1, 2, 5 times a power of ten (or the largest power of two) that is no larger.
pub(crate) fn round_down(value: f64, binary: bool) -> f64 {
    if binary {
        return 2f64.powf(value.log2().floor());
    }
    let decade = 10f64.powf(value.log10().floor());
    let digit = [5.0, 2.0].into_iter().find(|digit| digit * decade <= value * (1.0 + 1e-12)).unwrap_or(1.0);
    digit * decade
}

/// The smallest such value that is no smaller.
pub(crate) fn round_up(value: f64, binary: bool) -> f64 {
    if binary {
        return 2f64.powf(value.log2().ceil());
    }
    let decade = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade >= value * (1.0 - 1e-12)).unwrap_or(10.0);
    digit * decade
}

/// A value of the axis with its unit. Beyond a minute seconds are still counted, since ticks are round in them, up to
/// a week or so.
fn label(value: f64, bytes: bool) -> String {
    if bytes {
        format_size(value as u64)
    } else if (100e9..1e15).contains(&value) {
        format!("{}s", (value / 1e9).round())
    } else {
        format_duration(value as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn totals(min: u64, max: u64) -> Totals {
        Totals { count: 2, sum: 0, min, max, bytes: None }
    }

    #[test]
    fn round_values() {
        for (value, down, up) in
            [(1.0, 1.0, 1.0), (3.0, 2.0, 5.0), (7.0, 5.0, 10.0), (1e6, 1e6, 1e6), (0.03, 0.02, 0.05)]
        {
            assert!((round_down(value, false) - down).abs() < 1e-9 * down, "{value}");
            assert!((round_up(value, false) - up).abs() < 1e-9 * up, "{value}");
        }
        assert_eq!((round_down(3000.0, true), round_up(3000.0, true)), (2048.0, 4096.0));
    }

    #[test]
    fn ticks_are_round_and_keep_their_distance() {
        let axis = Axis::new(Grid::FINE, Quantity::Latency, &totals(12_000, 4_000_000), (None, None), 80);
        let ticks: Vec<_> = axis.ticks(|label| label.len() + 2).into_iter().map(|(_, label)| label).collect();
        assert_eq!(ticks, ["10us", "20us", "50us", "100us", "200us", "500us", "1ms", "2ms"]);
        let narrow: Vec<_> = axis.ticks(|label| label.len() + 12).into_iter().map(|(_, label)| label).collect();
        assert_eq!(narrow, ["10us", "100us", "1ms"]);
    }

    #[test]
    fn a_coarse_grid_fills_the_columns_between_its_edges() {
        let grid = Grid::with_power(0).unwrap();
        let axis = Axis::new(grid, Quantity::Latency, &totals(1024, 2048), (Some(1024), Some(65_535)), 60);
        assert_eq!(axis.place(grid.index(2048)), Place::Column(10));
        assert_eq!((axis.source(10), axis.source(19), axis.source(20)), (10, 10, 20));
        assert_eq!(axis.place(grid.index(1000)), Place::Under);
        assert_eq!(axis.place(grid.index(65_536)), Place::Over);
    }

    proptest! {
        #[test]
        fn every_value_has_a_place(
            mut values in proptest::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits), 1..20),
            low in proptest::option::of(any::<u64>()), high in proptest::option::of(any::<u64>()),
            columns in 0usize..300, quantity in 0..4usize,
        ) {
            values.sort_unstable();
            let quantity = [Quantity::Latency, Quantity::Size, Quantity::Offset, Quantity::Queue][quantity];
            let grid = quantity.grid();
            let axis = Axis::new(grid, quantity, &totals(values[0], values[values.len() - 1]), (low, high), columns);
            let mut before = 0;
            for &value in &values {
                match axis.place(grid.index(value)) {
                    Place::Under => prop_assert!(low.is_some_and(|low| value < low)),
                    Place::Over => prop_assert!(high.is_some_and(|high| value > high || low.is_some_and(|low| low > high))),
                    Place::Column(column) => {
                        prop_assert!(column < axis.columns() && column >= before && axis.source(column) <= column);
                        before = column;
                    }
                }
            }
            for pair in axis.ticks(|label| label.len() + 1).windows(2) {
                prop_assert!(pair[0].0 + pair[0].1.len() < pair[1].0);
            }
        }
    }
}
