//! What the cells add up: amounts by interval of the map and by slot of the axis.

use super::window::{Times, Values};
use latscope_histogram::{Sparse, Totals, nearest_rank};
use latscope_series::{HistogramSeries, Quantity, Weight};

/// How an amount is had from a bucket of a series.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub weight: Weight,
    from: From,
    per_event: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum From {
    Counts,
    /// The middle of the bucket for each event.
    Middles,
    Weights,
}

impl Measure {
    /// What is asked for, or events where the series has no such weight.
    pub fn new(series: &HistogramSeries, asked: Weight) -> Measure {
        let is_value = match asked {
            Weight::Count => false,
            Weight::Time => matches!(series.quantity, Quantity::Latency | Quantity::Queue),
            Weight::Bytes => series.quantity == Quantity::Size,
        };
        let from = match asked {
            Weight::Count => From::Counts,
            _ if series.weight == asked => From::Weights,
            _ if is_value => From::Middles,
            _ => From::Counts,
        };
        let weight = if from == From::Counts { Weight::Count } else { asked };
        let per_event = if from == From::Weights { 1.0 } else { 1.0 / series.per_event().max(1) as f64 };
        Measure { weight, from, per_event }
    }

    fn of_bucket(self, sparse: &Sparse, bucket: usize, count: u64, weight: u64) -> f64 {
        let amount = match self.from {
            From::Counts => count as f64,
            From::Weights => weight as f64,
            From::Middles => count as f64 * middle(sparse.grid(), bucket),
        };
        amount * self.per_event
    }

    /// What makes a group heavy.
    fn of_totals(self, totals: &Totals) -> f64 {
        if self.from == From::Middles { totals.sum as f64 } else { totals.count as f64 }
    }
}

fn middle(grid: latscope_histogram::Grid, bucket: usize) -> f64 {
    let (lower, upper) = (grid.lower(bucket), grid.upper(bucket));
    lower as f64 + (upper - lower) as f64 / 2.0
}

/// What lies in the window, before the axis is known.
pub(super) struct Survey {
    /// Of the groups that are shown.
    pub totals: Totals,
    /// Groups with events, the heaviest first.
    pub groups: Vec<u32>,
}

impl Survey {
    pub fn new(series: &HistogramSeries, measure: Measure, only: Option<u32>, times: &Times) -> Survey {
        let mut groups: Vec<(f64, u32)> = Vec::new();
        let mut totals = Totals::EMPTY;
        for (_, slice) in series.slices().range(times.intervals()) {
            for (group, sparse) in slice.groups.iter().filter(|(group, _)| only.is_none_or(|only| only == *group)) {
                if groups.len() <= *group as usize {
                    groups.resize(*group as usize + 1, (0.0, 0));
                }
                groups[*group as usize].0 += measure.of_totals(sparse.totals());
                totals = totals.merged(sparse.totals());
            }
        }
        groups.iter_mut().enumerate().for_each(|(number, group)| group.1 = number as u32);
        groups.retain(|group| group.0 > 0.0);
        groups.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Survey { totals, groups: groups.into_iter().map(|(_, group)| group).collect() }
    }
}

/// Amounts and counts of one strip, or of all that is in the window.
#[derive(Clone)]
pub(super) struct Samples {
    slots: usize,
    amounts: Vec<f64>,
    counts: Vec<u64>,
}

impl Samples {
    /// One for each group (all groups for `None`), then one of everything shown.
    pub fn collect(
        series: &HistogramSeries,
        measure: Measure,
        (times, values): (&Times, &Values),
        groups: &[Option<u32>],
        only: Option<u32>,
    ) -> (Vec<Samples>, Vec<f64>) {
        let slots = values.slots();
        let length = times.cells * times.each * slots;
        let mut strips = vec![Samples { slots, amounts: vec![0.0; length], counts: vec![0; length] }; groups.len()];
        let mut whole = vec![0.0; times.cells * times.each];
        for (&interval, slice) in series.slices().range(times.intervals()) {
            let Some(at) = times.slot(interval) else { continue };
            for (group, sparse) in slice.groups.iter().filter(|(group, _)| only.is_none_or(|only| only == *group)) {
                let mut strip =
                    groups.iter().position(|of| of.is_none_or(|of| of == *group)).map(|strip| &mut strips[strip]);
                for (bucket, count, weight) in sparse.buckets() {
                    let amount = measure.of_bucket(sparse, bucket, count, weight);
                    whole[at] += amount;
                    if let Some(strip) = &mut strip {
                        let place = at * slots + values.slot(bucket);
                        strip.amounts[place] += amount;
                        strip.counts[place] = strip.counts[place].saturating_add(count);
                    }
                }
            }
        }
        (strips, whole)
    }

    /// The amount in an interval of the map.
    pub fn amount(&self, interval: usize, slot: usize) -> f64 {
        self.amounts[interval * self.slots + slot]
    }

    /// The greatest amount of a cell.
    pub fn most(&self) -> f64 {
        self.amounts.iter().fold(0.0, |most, &amount| amount.max(most))
    }

    /// Amounts of the whole time, by slot.
    pub fn sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.slots];
        for row in self.amounts.chunks(self.slots) {
            sums.iter_mut().zip(row).for_each(|(sum, amount)| *sum += amount);
        }
        sums
    }

    /// The slot that holds the quantile of the events of some intervals.
    pub fn quantile(&self, intervals: std::ops::Range<usize>, quantile: f64) -> Option<usize> {
        let rows = &self.counts[intervals.start * self.slots..intervals.end * self.slots];
        let count = rows.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        let rank = nearest_rank(quantile, count);
        let mut before = 0u64;
        (0..self.slots).find(|slot| {
            let here = rows.chunks(self.slots).fold(0u64, |sum, row| sum.saturating_add(row[*slot]));
            before = before.saturating_add(here);
            count > 0 && before >= rank
        })
    }
}
