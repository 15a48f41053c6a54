//! The cube: how many events there are of each column of time, row of latency and combination of attributes. Any selection by
//! time, latency and attributes is a sum over it, so it answers exactly and without the events.

mod build;
mod merge;
mod slowest;
mod value;

#[cfg(test)]
mod tests;

pub use build::{CubeBuilder, CubeLimits};
pub use merge::merge_cubes;
pub use slowest::Exemplar;
pub use value::CubeValue;

use latscope_event::Field;
use latscope_histogram::Grid;
use std::collections::BTreeMap;

/// Rows of latency: 8 to the octave, each of whole buckets of the fine grid.
pub const CUBE_ROWS: Grid = match Grid::with_power(3) {
    Some(grid) => grid,
    None => Grid::FINE,
};

/// What an attribute is of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CubeKey {
    /// The value of a field.
    Field(Field),
    /// The number of the trace that it is from.
    Trace,
}

/// An attribute and the values that occur.
#[derive(Clone, PartialEq, Debug)]
pub struct CubeAttribute {
    /// What is looked at.
    pub key: CubeKey,
    /// Its values; combinations refer to them by number.
    pub values: Vec<CubeValue>,
}

/// Exact sums of the events of one column and row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CubeSums {
    /// Sum of the latencies, nanoseconds.
    pub latency_ns: u128,
    /// Sum of the sizes, bytes.
    pub bytes: u128,
}

/// The events that completed in one column of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CubeColumn {
    /// Events by row and combination.
    pub cells: BTreeMap<(u16, u32), u64>,
    /// Events by bucket of the fine grid.
    pub totals: BTreeMap<u16, u64>,
    /// Sums by row.
    pub sums: BTreeMap<u16, CubeSums>,
    /// Time that all requests together were in flight in this column, whenever they completed, nanoseconds.
    pub in_flight_ns: u128,
}

/// Counts of events by time, latency and attributes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cube {
    /// Width of a column, nanoseconds. Columns start at whole multiples of it since the epoch of the clock.
    pub width_ns: u64,
    /// The columns that have something, by their number since the epoch.
    pub columns: BTreeMap<i64, CubeColumn>,
    /// Attributes in the order of their worth.
    pub attributes: Vec<CubeAttribute>,
    /// What the combinations are made of: by combination, then by attribute. The most frequent are first.
    pub combinations: Vec<Vec<u32>>,
    /// Attributes for which there was no room.
    pub left_out: Vec<CubeKey>,
    /// The slowest events of all parts of the picture, slowest first.
    pub exemplars: Vec<Exemplar>,
}

impl Cube {
    /// Number of events.
    pub fn events(&self) -> u64 {
        self.columns.values().flat_map(|column| column.totals.values()).sum()
    }

    /// The first column and the number of columns up to the last. In the first ones there may be nothing but requests in flight.
    pub fn range(&self) -> Option<(i64, usize)> {
        let (&first, &last) = self.columns.keys().next().zip(self.columns.keys().next_back())?;
        Some((first, usize::try_from(last - first + 1).unwrap_or(usize::MAX)))
    }

    /// The widths from this one on that it can have with at most so many columns: each a multiple of it, the narrowest first.
    pub fn wider(&self, most_columns: usize) -> impl Iterator<Item = u64> + '_ {
        let widths = std::iter::successors(Some(self.width_ns), |&width_ns| Some(crate::next_wider(width_ns)));
        widths.take(64).filter(move |&width_ns| self.columns_at(width_ns) <= most_columns)
    }

    /// How many columns of another width there are from the first to the last.
    pub fn columns_at(&self, width_ns: u64) -> usize {
        let factor = i64::try_from(width_ns / self.width_ns.max(1)).unwrap_or(i64::MAX).max(1);
        let ends = self.columns.keys().next().zip(self.columns.keys().next_back());
        let columns = ends.map_or(0, |(first, last)| last.div_euclid(factor) - first.div_euclid(factor) + 1);
        usize::try_from(columns).unwrap_or(usize::MAX)
    }

    /// The same events in columns of a multiple of the width.
    #[must_use]
    pub fn widened(mut self, width_ns: u64) -> Cube {
        self.columns = widened(std::mem::take(&mut self.columns), width_ns / self.width_ns.max(1));
        self.width_ns = width_ns;
        self
    }

    /// The same events without the last attribute; nothing changes without attributes.
    #[must_use]
    pub fn without_last_attribute(mut self) -> Cube {
        let Some(last) = self.attributes.pop() else { return self };
        self.left_out.insert(0, last.key);
        self.combinations.iter_mut().for_each(|combination| {
            combination.pop();
        });
        self.ordered()
    }

    /// Without the attributes that no event has.
    #[must_use]
    pub fn without_empty_attributes(mut self) -> Cube {
        let has = |attribute: &CubeAttribute| attribute.values.iter().any(|value| *value != CubeValue::Missing);
        let kept: Vec<bool> = self.attributes.iter().map(has).collect();
        let mut keeps = kept.iter();
        self.attributes.retain(|_| keeps.next().copied().unwrap_or(true));
        for values in &mut self.combinations {
            let mut keeps = kept.iter();
            values.retain(|_| keeps.next().copied().unwrap_or(true));
        }
        self.ordered()
    }

    /// Makes one combination of those that are equal, and puts the frequent ones first.
    fn ordered(mut self) -> Cube {
        let mut events: BTreeMap<&[u32], u64> = BTreeMap::new();
        for ((_, combination), count) in self.columns.values().flat_map(|column| &column.cells) {
            *events.entry(&self.combinations[*combination as usize]).or_insert(0) += count;
        }
        // A kept event may be of a combination that counts no more.
        let kept = self.exemplars.iter().map(|exemplar| &*self.combinations[exemplar.combination as usize]);
        kept.for_each(|combination| _ = events.entry(combination).or_insert(0));
        let mut order: Vec<(&[u32], u64)> = events.into_iter().collect();
        order.sort_by(|(one, ones), (other, others)| others.cmp(ones).then_with(|| one.cmp(other)));
        let places: BTreeMap<&[u32], u32> = order.iter().zip(0..).map(|(&(values, _), at)| (values, at)).collect();
        let place = |combination: &Vec<u32>| places.get(&**combination).copied().unwrap_or(0);
        let moved: Vec<u32> = self.combinations.iter().map(place).collect();
        let combinations = order.iter().map(|(values, _)| values.to_vec()).collect();
        for column in self.columns.values_mut() {
            let mut cells = BTreeMap::new();
            for ((row, combination), count) in std::mem::take(&mut column.cells) {
                *cells.entry((row, moved[combination as usize])).or_insert(0) += count;
            }
            column.cells = cells;
        }
        self.exemplars.iter_mut().for_each(|exemplar| exemplar.combination = moved[exemplar.combination as usize]);
        self.combinations = combinations;
        self
    }
}

fn widened(columns: BTreeMap<i64, CubeColumn>, factor: u64) -> BTreeMap<i64, CubeColumn> {
    let factor = i64::try_from(factor).unwrap_or(i64::MAX).max(1);
    let mut wide: BTreeMap<i64, CubeColumn> = BTreeMap::new();
    for (number, column) in columns {
        let into = wide.entry(number.div_euclid(factor)).or_default();
        column.cells.into_iter().for_each(|(cell, count)| *into.cells.entry(cell).or_insert(0) += count);
        column.totals.into_iter().for_each(|(bucket, count)| *into.totals.entry(bucket).or_insert(0) += count);
        for (row, more) in column.sums {
            let sums = into.sums.entry(row).or_default();
            sums.latency_ns += more.latency_ns;
            sums.bytes += more.bytes;
        }
        into.in_flight_ns += column.in_flight_ns;
    }
    wide
}
