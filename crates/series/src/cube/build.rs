//! Batches to a cube, in bounded memory: columns grow wider and attributes coarser where a trace has too much of either.

use super::slowest::Slowest;
use super::value::Values;
use super::{CUBE_ROWS, Cube, CubeAttribute, CubeColumn, CubeKey, CubeSums, Exemplar, widened};
use hashbrown::HashMap;
use latscope_event::{Batch, Context, Field, MISSING_I64, MISSING_U64, Mask};
use latscope_histogram::Grid;
use std::collections::BTreeMap;

/// How large a cube may become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CubeLimits {
    /// Width of the columns, if it is given, nanoseconds.
    pub width_ns: Option<u64>,
    /// Most columns; a given width yields to it.
    pub columns: usize,
    /// Most combinations of attributes.
    pub combinations: usize,
    /// Most cells with events.
    pub cells: usize,
}

impl Default for CubeLimits {
    fn default() -> CubeLimits {
        CubeLimits { width_ns: None, columns: 6000, combinations: 1 << 16, cells: 6_000_000 }
    }
}

/// Columns in the making: unordered, which is faster.
#[derive(Debug, Default)]
struct Growing {
    cells: HashMap<(u16, u32), u64>,
    totals: HashMap<u16, u64>,
    sums: HashMap<u16, CubeSums>,
}

/// Requests in flight: time in the column, and by how many more are in flight from it on.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    part_ns: i128,
    change: i64,
}

/// Makes a [`Cube`] of batches.
#[derive(Debug)]
pub struct CubeBuilder {
    limits: CubeLimits,
    width_ns: u64,
    columns: BTreeMap<i64, Growing>,
    flight: BTreeMap<i64, Flight>,
    cells: usize,
    attributes: Vec<Values>,
    combinations: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
    slowest: Slowest,
    left_out: Vec<CubeKey>,
    trace: usize,
    /// By attribute, the values of the events of a batch.
    values: Vec<Vec<u32>>,
    /// Those of one event, by attribute.
    of_row: Vec<u32>,
}

impl CubeBuilder {
    /// Of these attributes, the most important first.
    pub fn new(keys: &[CubeKey], limits: CubeLimits) -> CubeBuilder {
        CubeBuilder {
            limits,
            width_ns: limits.width_ns.unwrap_or(1_000_000).max(1),
            columns: BTreeMap::new(),
            flight: BTreeMap::new(),
            cells: 0,
            attributes: keys.iter().map(|&key| Values::new(key)).collect(),
            combinations: Vec::new(),
            numbers: HashMap::new(),
            slowest: Slowest::new(),
            left_out: Vec::new(),
            trace: 0,
            values: Vec::new(),
            of_row: Vec::new(),
        }
    }

    /// Starts the trace with this number.
    pub fn start_trace(&mut self, number: usize) {
        self.trace = number;
        self.attributes.iter_mut().for_each(Values::next_trace);
    }

    /// Adds the events of a batch that are in the mask.
    pub fn add(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) {
        self.values.resize(self.attributes.len(), Vec::new());
        let attributes = self.attributes.iter_mut().zip(&mut self.values);
        attributes.for_each(|(attribute, numbers)| attribute.of_batch(self.trace, batch, numbers));
        let rows = 0..batch.len();
        match mask {
            None => rows.for_each(|row| self.add_row(context, batch, row)),
            Some(mask) => mask.ones().for_each(|row| self.add_row(context, batch, row)),
        }
        self.shrink();
    }

    fn add_row(&mut self, context: &Context, batch: &Batch, row: usize) {
        let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
        let weight = batch.i64s(Field::SampleWeight).map_or(1, |weights| weights[row].max(1) as u64);
        let size = number(batch.u64s(Field::Size), row);
        let combination = self.combination(row, latency_ns.saturating_mul(weight));
        let end_ns = start_ns.saturating_add_unsigned(latency_ns);
        let column = self.column(end_ns);
        let (bucket, latency_row) = (Grid::FINE.index(latency_ns) as u16, CUBE_ROWS.index(latency_ns) as u16);
        let growing = self.columns.entry(column).or_default();
        let before = growing.cells.len();
        *growing.cells.entry((latency_row, combination)).or_insert(0) += weight;
        self.cells += growing.cells.len() - before;
        *growing.totals.entry(bucket).or_insert(0) += weight;
        let sums = growing.sums.entry(latency_row).or_default();
        sums.latency_ns += u128::from(latency_ns) * u128::from(weight);
        sums.bytes += u128::from(batch.moved_bytes(row).unwrap_or(0)) * u128::from(weight);
        let since_ns = context.trace_start_ns().unwrap_or(end_ns).max(start_ns).min(end_ns);
        self.fly(since_ns, end_ns, weight);
        let exemplar = || Exemplar {
            latency_ns,
            start_ns,
            size,
            offset: number(batch.u64s(Field::Offset), row),
            pid: batch.i64s(Field::Pid).map(|pids| pids[row]).filter(|&pid| pid != MISSING_I64),
            combination,
        };
        self.slowest.add(end_ns, exemplar, latency_ns);
    }

    fn column(&self, moment_ns: i64) -> i64 {
        moment_ns.div_euclid(i64::try_from(self.width_ns).unwrap_or(i64::MAX))
    }

    fn combination(&mut self, row: usize, waiting_ns: u64) -> u32 {
        self.of_row.clear();
        self.of_row.extend(self.values.iter().map(|numbers| numbers[row]));
        for (attribute, &number) in self.attributes.iter_mut().zip(&self.of_row) {
            attribute.add_waiting(number, waiting_ns);
        }
        let combinations = &mut self.combinations;
        *self.numbers.entry_ref(&self.of_row[..]).or_insert_with(|| {
            combinations.push(self.of_row.clone());
            combinations.len() as u32 - 1
        })
    }

    /// Adds so many requests that are in flight from one moment to another.
    fn fly(&mut self, start_ns: i64, end_ns: i64, weight: u64) {
        let (first, last) = (self.column(start_ns), self.column(end_ns));
        let (width, times) = (i128::from(self.width_ns), i128::from(weight));
        let part = |from_ns: i128, to_ns: i128| (to_ns - from_ns).max(0) * times;
        let (start, end) = (i128::from(start_ns), i128::from(end_ns));
        if first == last {
            self.flight.entry(first).or_default().part_ns += part(start, end);
            return;
        }
        self.flight.entry(first).or_default().part_ns += part(start, (i128::from(first) + 1) * width);
        self.flight.entry(last).or_default().part_ns += part(i128::from(last) * width, end);
        let weight = i64::try_from(weight).unwrap_or(i64::MAX);
        self.flight.entry(first + 1).or_default().change += weight;
        self.flight.entry(last).or_default().change -= weight;
    }

    /// Makes what is too large smaller.
    fn shrink(&mut self) {
        while self.span() > self.limits.columns as u64 || self.cells > self.limits.cells && self.columns.len() > 600 {
            self.widen();
        }
        while self.combinations.len() > self.limits.combinations || self.cells > self.limits.cells {
            match self.largest() {
                Some(at) => self.close(at),
                None => {
                    let Some(last) = self.attributes.pop() else { return };
                    self.left_out.insert(0, last.key);
                    self.values.pop();
                    self.combinations.iter_mut().for_each(|values| values.truncate(self.attributes.len()));
                }
            }
            self.renumber();
        }
    }

    /// The attribute with the most values, if it has more than are kept.
    fn largest(&self) -> Option<usize> {
        let large = (0..self.attributes.len()).filter(|&at| self.attributes[at].is_large());
        large.max_by_key(|&at| self.attributes[at].values.len())
    }

    /// Keeps the values of an attribute that waited longest.
    fn close(&mut self, at: usize) {
        let moved = self.attributes[at].close();
        self.combinations.iter_mut().for_each(|values| values[at] = moved[values[at] as usize]);
    }

    fn span(&self) -> u64 {
        let ends = self.columns.keys().next().zip(self.columns.keys().next_back());
        ends.map_or(0, |(first, last)| last.abs_diff(*first).saturating_add(1))
    }

    fn widen(&mut self) {
        let width_ns = crate::next_wider(self.width_ns);
        let columns = std::mem::take(&mut self.columns).into_iter().map(|(at, growing)| (at, growing.finish(0)));
        let factor = width_ns / self.width_ns;
        let signed = i64::try_from(factor).unwrap_or(i64::MAX);
        let columns = widened(columns.collect(), factor);
        self.columns = columns.into_iter().map(|(at, column)| (at, Growing::from(column))).collect();
        // What begins or ends within a wide column concerns a part of it, and all of the next ones.
        for (at, change) in std::mem::take(&mut self.flight) {
            let narrow = i128::from(signed - at.rem_euclid(signed)) * i128::from(self.width_ns);
            let part = self.flight.entry(at.div_euclid(signed)).or_default();
            part.part_ns += change.part_ns + i128::from(change.change) * narrow;
            self.flight.entry(at.div_euclid(signed) + 1).or_default().change += change.change;
        }
        self.cells = self.columns.values().map(|column| column.cells.len()).sum();
        self.width_ns = width_ns;
    }

    /// Makes one combination of those that have become equal.
    fn renumber(&mut self) {
        let (old, mut moved) = (std::mem::take(&mut self.combinations), Vec::new());
        self.numbers.clear();
        for values in old {
            let next = self.combinations.len() as u32;
            let number = *self.numbers.entry(values.clone()).or_insert(next);
            if number == next {
                self.combinations.push(values);
            }
            moved.push(number);
        }
        for column in self.columns.values_mut() {
            for ((row, combination), count) in std::mem::take(&mut column.cells) {
                *column.cells.entry((row, moved[combination as usize])).or_insert(0) += count;
            }
        }
        self.cells = self.columns.values().map(|column| column.cells.len()).sum();
        self.slowest.renumber(&moved);
    }

    /// The time in flight by column, up to the last completion, and as many columns back from there as there may be: one event
    /// may have lasted for years.
    fn in_flight(&self) -> BTreeMap<i64, u128> {
        let Some((&last, _)) = self.columns.last_key_value() else { return BTreeMap::new() };
        let first = last.saturating_sub(i64::try_from(self.limits.columns).unwrap_or(i64::MAX)).saturating_add(1);
        let before: i64 = self.flight.range(..first).map(|(_, change)| change.change).sum();
        let mut running = before;
        let columns = (first..=last).map(|at| {
            let change = self.flight.get(&at).copied().unwrap_or_default();
            running += change.change;
            let ns = change.part_ns + i128::from(self.width_ns) * i128::from(running);
            (at, u128::try_from(ns).unwrap_or(0))
        });
        columns.filter(|&(_, ns)| ns > 0).collect()
    }

    /// Makes the columns reach this moment, on the clock of the trace: until then something was observed, and be it that nothing
    /// completed.
    pub fn cover(&mut self, moment_ns: i64) {
        let width_ns = i64::try_from(self.width_ns).unwrap_or(i64::MAX);
        self.columns.entry(moment_ns.div_euclid(width_ns)).or_default();
        self.shrink();
    }

    /// Whether no event was added and no moment is covered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Keeps, of attributes with many values, those that waited longest, and one for all others, even if there is room for all:
    /// nobody reads a list of thousands.
    pub fn keep_common_values(&mut self) {
        while let Some(at) = self.largest() {
            self.close(at);
            self.renumber();
        }
    }

    /// The cube of all events that were added.
    pub fn finish(self) -> Cube {
        let flight = self.in_flight();
        let mut columns: BTreeMap<i64, CubeColumn> =
            self.columns.into_iter().map(|(at, growing)| (at, growing.finish(0))).collect();
        for (at, ns) in flight {
            columns.entry(at).or_default().in_flight_ns = ns;
        }
        let attribute = |values: Values| CubeAttribute { key: values.key, values: values.values };
        let cube = Cube {
            width_ns: self.width_ns,
            columns,
            attributes: self.attributes.into_iter().map(attribute).collect(),
            combinations: self.combinations,
            left_out: self.left_out,
            exemplars: self.slowest.finish(),
        };
        cube.ordered()
    }
}

impl Growing {
    fn finish(self, in_flight_ns: u128) -> CubeColumn {
        CubeColumn {
            cells: self.cells.into_iter().collect(),
            totals: self.totals.into_iter().collect(),
            sums: self.sums.into_iter().collect(),
            in_flight_ns,
        }
    }
}

impl From<CubeColumn> for Growing {
    fn from(column: CubeColumn) -> Growing {
        Growing {
            cells: column.cells.into_iter().collect(),
            totals: column.totals.into_iter().collect(),
            sums: column.sums.into_iter().collect(),
        }
    }
}

fn number(values: Option<&[u64]>, row: usize) -> Option<u64> {
    values.map(|values| values[row]).filter(|&value| value != MISSING_U64)
}
