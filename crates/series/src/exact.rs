//! Exact percentiles of events, weighted by their share of each interval.
//!
//! The events are read twice. The histograms of the first time give in which bucket each percentile lies; the second time
//! the events of those buckets are kept, and of the others how much they weigh. So memory grows with the events in the
//! buckets that hold a percentile, and with intervals x groups; where it exceeds what there is, the builder is
//! [full](ExactBuilder::is_full).

use crate::group::Groups;
use crate::{Budget, CountBy, HistogramSeries, Quantity};
use hashbrown::HashMap;
use latscope_event::{Batch, Field, FieldSet, MISSING_U64, Mask};
use latscope_histogram::{Grid, Histogram};
use std::collections::BTreeMap;

/// What one event weighs: whole numbers, so that sums do not depend on the order.
const WHOLE: u128 = 1 << 64;
/// In place of a group number: all groups together.
const ALL: u32 = u32::MAX;

/// The percentiles of each interval and group, or of all groups together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exact {
    quantiles: Vec<f64>,
    values: BTreeMap<(i64, u32), Vec<f64>>,
}

impl Exact {
    /// One of the percentiles (0 to 1) that were asked for, of an interval and group as in [`at`](Exact::at).
    pub fn quantile(&self, interval: i64, group: Option<u32>, quantile: f64) -> Option<f64> {
        let at = self.quantiles.iter().position(|&known| known == quantile)?;
        self.at(interval, group)?.get(at).copied()
    }

    /// The values of an interval in the order in which the percentiles were asked for; the group by its number in the
    /// series, or none for all groups together.
    pub fn at(&self, interval: i64, group: Option<u32>) -> Option<&[f64]> {
        self.values.get(&(interval, group.unwrap_or(ALL))).map(Vec::as_slice)
    }
}

/// Which value stands for a percentile that lies between two events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Rank {
    /// One between theirs.
    #[default]
    Interpolated,
    /// The larger one's.
    Nearest,
}

/// Takes the events for the second time.
pub struct ExactBuilder {
    quantity: Quantity,
    rank: Rank,
    share: bool,
    earliest_ns: i64,
    groups: Groups,
    /// Number of a group in the series by number in `groups`, as far as it was looked up.
    numbers: Vec<Option<u32>>,
    known: HashMap<Vec<String>, u32>,
    /// Start, end and number of each interval.
    intervals: Vec<(i64, i64, i64)>,
    quantiles: Vec<f64>,
    /// Place in `intervals` of the last event.
    last: usize,
    cells: HashMap<(i64, u32), Cell>,
    /// What the cells may take in bytes, and what they take.
    limit: usize,
    taken: usize,
}

/// What a cell takes beside its targets, with its result; and an event of a value of its own in a bucket of a percentile.
const CELL: usize = 240;
const VALUE: usize = 100;

struct Cell {
    weight: u128,
    targets: Vec<Target>,
}

/// The surroundings of one percentile.
struct Target {
    quantile: f64,
    /// The smallest and the largest value of the bucket that holds it.
    lower: u64,
    upper: u64,
    /// What the events below weigh, and the last of them; the first above: value and weight.
    below: u128,
    under: Option<(u64, u128)>,
    over: Option<(u64, u128)>,
    inside: BTreeMap<u64, Same>,
}

/// Events of one value: what they weigh in all, the lightest and the heaviest.
struct Same {
    weight: u128,
    lightest: u128,
    heaviest: u128,
}

impl ExactBuilder {
    /// For these quantiles (0 to 1) of every interval and group of a series of the same events, and of all groups together
    /// where that is asked for.
    pub fn new(series: &HistogramSeries, quantiles: &[f64], also_all: bool) -> ExactBuilder {
        let limit = Budget::default().limit();
        let of_cell = CELL + quantiles.len() * (size_of::<Target>() + size_of::<f64>());
        let groups = series.slices().values().map(|slice| slice.groups.len() + usize::from(also_all));
        let taken = groups.sum::<usize>().saturating_mul(of_cell);
        let mut cells = HashMap::new();
        // What does not fit is not started.
        for (&interval, slice) in series.slices().iter().filter(|_| taken <= limit) {
            for (group, sparse) in &slice.groups {
                cells.insert((interval, *group), Cell::new(&sparse.to_dense(), quantiles));
            }
            if also_all {
                cells.insert((interval, ALL), Cell::new(&series.at(interval, None), quantiles));
            }
        }
        let span = |&interval: &i64| {
            let start = series.start_ns(interval);
            (start, start.saturating_add_unsigned(series.width_of(interval)), interval)
        };
        ExactBuilder {
            quantity: series.quantity,
            rank: Rank::default(),
            share: series.count_by == CountBy::Overlap,
            earliest_ns: i64::MIN,
            groups: Groups::new(series.by.clone()),
            numbers: Vec::new(),
            known: (0..).zip(&series.groups).map(|(number, label)| (label.clone(), number)).collect(),
            intervals: series.slices().keys().map(span).collect(),
            quantiles: quantiles.to_vec(),
            last: 0,
            cells,
            limit,
            taken,
        }
    }

    /// Percentiles are values of events: the smallest value that the wanted part of the events does not exceed. So a percentile
    /// exceeds a limit exactly if more than the rest of the events do.
    pub fn nearest_rank(self) -> ExactBuilder {
        ExactBuilder { rank: Rank::Nearest, ..self }
    }

    /// Whether intervals, groups and the events that have to be kept take more memory than there is. The percentiles are then
    /// not to be had.
    pub fn is_full(&self) -> bool {
        self.taken > self.limit
    }

    /// Call before the first batch of every trace; see [`SeriesBuilder::starts_at`](crate::SeriesBuilder::starts_at).
    pub fn start_trace(&mut self, earliest_ns: Option<i64>) {
        self.groups.start_trace(None);
        self.earliest_ns = earliest_ns.unwrap_or(i64::MIN);
    }

    /// The columns that are read.
    pub fn fields(&self) -> FieldSet {
        let by = self.groups.fields().iter().copied().collect::<FieldSet>();
        by.union(FieldSet::ALWAYS).with(&[Field::SampleWeight, self.quantity.field()])
    }

    /// Adds the events of a batch that the mask lets through, or all.
    pub fn add(&mut self, batch: &Batch, mask: Option<&Mask>) {
        match mask {
            Some(mask) => mask.ones().for_each(|row| self.add_row(batch, row)),
            None => (0..batch.len()).for_each(|row| self.add_row(batch, row)),
        }
    }

    fn add_row(&mut self, batch: &Batch, row: usize) {
        let (start_ns, latency_ns) = (batch.time()[row], batch.latency()[row]);
        let value = match self.quantity {
            Quantity::Latency => latency_ns,
            quantity => batch.u64s(quantity.field()).map_or(MISSING_U64, |values| values[row]),
        };
        if value == MISSING_U64 {
            return;
        }
        let count = batch
            .i64s(Field::SampleWeight)
            .map_or(1, |weights| u64::try_from(weights[row]).map_or(1, |weight| weight.min(u64::from(u32::MAX))));
        let end_ns = start_ns.saturating_add_unsigned(latency_ns);
        let Some(group) = self.group(batch, row) else { return };
        let start_ns = if self.share { start_ns.max(self.earliest_ns).min(end_ns) } else { end_ns };
        let mut place = self.place(end_ns);
        if start_ns == end_ns {
            return self.record(place, group, value, WHOLE * u128::from(count));
        }
        let length = u128::from(end_ns.abs_diff(start_ns));
        loop {
            let (start, end, _) = self.intervals[place];
            let overlap = end.min(end_ns).saturating_sub(start.max(start_ns)).max(0) as u128;
            if overlap > 0 {
                self.record(place, group, value, WHOLE * overlap / length * u128::from(count));
            }
            if start <= start_ns || place == 0 {
                return;
            }
            place -= 1;
        }
    }

    fn group(&mut self, batch: &Batch, row: usize) -> Option<u32> {
        let number = self.groups.number_of(batch, row) as usize;
        if self.numbers.len() <= number {
            let labels = &self.groups.labels()[self.numbers.len()..];
            self.numbers.extend(labels.iter().map(|label| self.known.get(label).copied()));
        }
        self.numbers[number]
    }

    /// The last interval that starts at or before this moment.
    fn place(&mut self, moment: i64) -> usize {
        let is_in =
            |place: usize| self.intervals.get(place).is_some_and(|&(start, end, _)| (start..end).contains(&moment));
        if !is_in(self.last) {
            self.last = self.intervals.partition_point(|&(start, _, _)| start <= moment).saturating_sub(1);
        }
        self.last
    }

    fn record(&mut self, place: usize, group: u32, value: u64, weight: u128) {
        let Some(&(_, _, interval)) = self.intervals.get(place) else { return };
        for group in [group, ALL] {
            if let Some(cell) = self.cells.get_mut(&(interval, group)) {
                cell.weight += weight;
                self.taken += cell.targets.iter_mut().map(|target| target.record(value, weight)).sum::<usize>();
            }
        }
    }

    /// The percentiles.
    pub fn finish(self) -> Exact {
        let value = |target: &Target, weight: u128| match self.rank {
            Rank::Interpolated => target.value(weight),
            Rank::Nearest => target.nearest(weight),
        };
        let values = |cell: &Cell| cell.targets.iter().map(|target| value(target, cell.weight)).collect();
        // Each cell is gone when its values are there.
        let values = self.cells.into_iter().map(|(key, cell)| (key, values(&cell))).collect();
        Exact { quantiles: self.quantiles, values }
    }
}

impl Cell {
    fn new(histogram: &Histogram, quantiles: &[f64]) -> Cell {
        let count = histogram.totals().count as f64;
        let target = |&quantile: &f64| {
            let (mut before, grid): (_, Grid) = (0u64, histogram.grid());
            let mut buckets = histogram.buckets().map(|(index, count, _)| {
                before += count;
                (index, before)
            });
            let index =
                buckets.find(|&(_, sum)| sum as f64 >= quantile * count).map_or(grid.len() - 1, |(index, _)| index);
            Target {
                quantile,
                lower: grid.lower(index),
                upper: grid.upper(index),
                below: 0,
                under: None,
                over: None,
                inside: BTreeMap::new(),
            }
        };
        Cell { weight: 0, targets: quantiles.iter().map(target).collect() }
    }
}

impl Target {
    /// Takes an event; returns how many bytes that took.
    #[inline]
    fn record(&mut self, value: u64, weight: u128) -> usize {
        let event = (value, weight);
        if value < self.lower {
            self.below += weight;
            self.under = self.under.max(Some(event));
        } else if value > self.upper {
            self.over = Some(self.over.map_or(event, |over| over.min(event)));
        } else {
            let known = self.inside.len();
            let same = self.inside.entry(value).or_insert(Same { weight: 0, lightest: weight, heaviest: weight });
            same.weight += weight;
            same.lightest = same.lightest.min(weight);
            same.heaviest = same.heaviest.max(weight);
            return (self.inside.len() - known) * VALUE;
        }
        0
    }

    /// The smallest value up to which there is the wanted part of all that is weighed.
    fn nearest(&self, weight: u128) -> f64 {
        // Sums of parts of events lack what rounding took from each; p100 is the maximum all the same.
        let wanted = self.quantile * weight as f64 * (1.0 - 1e-12);
        let mut sum = self.below;
        if let Some((value, _)) = self.under.filter(|_| sum as f64 >= wanted) {
            return value as f64;
        }
        for (&value, same) in &self.inside {
            sum += same.weight;
            if sum as f64 >= wanted {
                return value as f64;
            }
        }
        let last = self.inside.last_key_value().map(|(&value, _)| value);
        self.over.map(|(value, _)| value).or(last).or(self.under.map(|(value, _)| value)).unwrap_or(0) as f64
    }

    /// The weighted percentile with C = 1/2: each event stands, in the order of values and then weights, at the middle of
    /// its weight in the running sum; between two events the value is interpolated.
    fn value(&self, weight: u128) -> f64 {
        // All positions count from where the bucket starts.
        let wanted = self.quantile * weight as f64 - self.below as f64;
        let (mut sum, mut points) = (0.0, Vec::new());
        points.extend(self.under.map(|(value, weight)| (-0.5 * weight as f64, value as f64)));
        for (&value, same) in &self.inside {
            points.push((sum + 0.5 * same.lightest as f64, value as f64));
            sum += same.weight as f64;
            points.push((sum - 0.5 * same.heaviest as f64, value as f64));
        }
        points.extend(self.over.map(|(value, weight)| (sum + 0.5 * weight as f64, value as f64)));
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
        match points.windows(2).find(|pair| (pair[0].0..=pair[1].0).contains(&wanted)) {
            Some(&[(at, value), (next, next_value)]) if next > at => {
                value + (next_value - value) * ((wanted - at) / (next - at))
            }
            Some(pair) => pair[1].1,
            None if wanted < first.0 => first.1,
            None => last.1,
        }
    }
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
