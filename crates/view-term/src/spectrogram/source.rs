//! What a spectrogram draws, interval by interval: a series, or events counted as the chisel counts them.

use super::SpectrogramOptions;
use crate::axis::{Axis, Place};
use crate::scale::Strength;
use crate::{SysdigSpectrogram, sysdig_column};
use latscope_histogram::{Histogram, Rule, Totals};
use latscope_series::{HistogramSeries, Support, Weight};
use latscope_view::Palette;

pub(crate) struct Source<'a> {
    counts: Counts<'a>,
    pub strength: Strength,
    pub width_ns: u64,
    /// Events in all.
    pub count: u64,
    /// Events below and above the axis.
    pub beyond: (u64, u64),
    /// Events that are in no cell.
    pub without: u64,
}

enum Counts<'a> {
    Series { series: &'a HistogramSeries, group: Option<u32>, axis: Axis },
    Chisel(&'a SysdigSpectrogram),
}

/// One interval: rates per second, by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub rates: Vec<f64>,
    pub under: f64,
    pub over: f64,
}

impl<'a> Source<'a> {
    pub(crate) fn of_series(series: &'a HistogramSeries, options: &SpectrogramOptions, columns: usize) -> Source<'a> {
        let totals = match options.group {
            Some(group) => series.group_totals().get(group as usize).copied().unwrap_or(Totals::EMPTY),
            None => series.group_totals().iter().fold(Totals::EMPTY, |sum, totals| sum.merged(totals)),
        };
        let mut totals = totals;
        // What waits has its sign on the axis, too.
        totals.max = series.still_waiting(options.group).oldest_ns().unwrap_or(0).max(totals.max);
        let axis = Axis::new(series.grid(), series.quantity, &totals, (options.min, options.max), columns);
        let mut source = Source {
            counts: Counts::Series { series, group: options.group, axis },
            strength: strength(options, series.weight),
            width_ns: series.width_ns(),
            count: totals.count,
            beyond: (0, 0),
            without: 0,
        };
        // One pass ahead, for the strongest cell and for what lies beyond the axis.
        let mut sum = source.empty();
        let mut most: f64 = 0.0;
        for interval in source.intervals() {
            source.collect(&mut sum, &[interval]);
            let sample = source.sample(&sum, 1);
            most = sample.rates.iter().fold(most, |most, &rate| most.max(rate)).max(sample.under).max(sample.over);
            if let Counts::Series { axis, .. } = &source.counts {
                for (bucket, count, _) in sum.buckets() {
                    match axis.place(bucket) {
                        Place::Under => source.beyond.0 += count,
                        Place::Over => source.beyond.1 += count,
                        Place::Column(_) => {}
                    }
                }
            }
        }
        if options.full.is_none() {
            source.strength.full = Strength::round_full(most, series.weight);
        }
        source
    }

    pub(crate) fn of_chisel(counted: &'a SysdigSpectrogram, options: &SpectrogramOptions) -> Source<'a> {
        let (mut count, mut over) = (0, 0);
        for (_, counts) in counted.rows() {
            count += counts.iter().sum::<u64>();
            over += counts[counted.width()];
        }
        Source {
            counts: Counts::Chisel(counted),
            strength: Strength { palette: Palette::Sysdig, ..strength(options, Weight::Count) },
            width_ns: counted.interval_ns(),
            count,
            beyond: (0, over),
            without: counted.zero(),
        }
    }

    /// Goes on with the events of this group, on the axis and with the colours of all.
    pub(crate) fn show(&mut self, number: u32) {
        if let Counts::Series { group, .. } = &mut self.counts {
            *group = Some(number);
        }
    }

    pub(crate) fn is_bytes(&self) -> bool {
        matches!(&self.counts, Counts::Series { series, .. } if series.quantity.is_bytes())
    }

    pub(crate) fn start_ns(&self, interval: i64) -> i64 {
        interval.saturating_mul(i64::try_from(self.width_ns).unwrap_or(i64::MAX))
    }

    /// Numbers of the intervals that have events, ascending.
    pub(crate) fn intervals(&self) -> Box<dyn Iterator<Item = i64> + 'a> {
        match &self.counts {
            Counts::Series { series, .. } => Box::new(series.slices().keys().copied()),
            Counts::Chisel(counted) => Box::new(counted.rows().map(|(interval, _)| interval)),
        }
    }

    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        match &self.counts {
            Counts::Series { series, .. } => series.range(),
            Counts::Chisel(counted) => Some((counted.rows().next()?.0, counted.rows().last()?.0)),
        }
    }

    /// A histogram to collect intervals in.
    pub(crate) fn empty(&self) -> Histogram {
        match &self.counts {
            Counts::Series { series, .. } => Histogram::new(series.grid(), series.is_weighted()),
            Counts::Chisel(_) => Histogram::new(latscope_histogram::Grid::FINE, false),
        }
    }

    /// Replaces what is in `sum` by the histogram of these intervals.
    pub(crate) fn collect(&self, sum: &mut Histogram, intervals: &[i64]) {
        sum.clear();
        if let Counts::Series { series, group, .. } = &self.counts {
            intervals.iter().for_each(|&interval| series.add_at(sum, interval, *group));
        }
    }

    /// Rates by column of what [`Source::collect`] put together from so many intervals.
    pub(crate) fn sample(&self, sum: &Histogram, intervals: usize) -> Sample {
        let Counts::Series { axis, .. } = &self.counts else { return Sample::default() };
        let per_second = self.per_second(intervals);
        let mut starts = vec![0.0; axis.columns()];
        let mut sample = Sample::default();
        for (bucket, _, weight) in sum.buckets() {
            let rate = weight as f64 * per_second;
            match axis.place(bucket) {
                Place::Under => sample.under += rate,
                Place::Column(column) => starts[column] += rate,
                Place::Over => sample.over += rate,
            }
        }
        sample.rates = (0..axis.columns()).map(|column| starts[axis.source(column)]).collect();
        sample
    }

    /// Rates by column of one interval.
    pub(crate) fn row(&self, sum: &mut Histogram, interval: i64) -> Sample {
        match &self.counts {
            Counts::Series { .. } => {
                self.collect(sum, &[interval]);
                self.sample(sum, 1)
            }
            Counts::Chisel(counted) => {
                let per_second = self.per_second(1);
                let rates = |count: &u64| *count as f64 * per_second;
                match counted.counts(interval).and_then(|counts| counts.split_last()) {
                    Some((over, counts)) => {
                        Sample { rates: counts.iter().map(rates).collect(), under: 0.0, over: rates(over) }
                    }
                    None => Sample { rates: vec![0.0; counted.width()], ..Sample::default() },
                }
            }
        }
    }

    /// What stands to the right of a row: its rate, and its 99th percentile where a series gives it.
    pub(crate) fn side(&self, sum: &mut Histogram, intervals: &[i64], shown: &[Sample]) -> String {
        let total = |sample: &Sample| sample.rates.iter().sum::<f64>() + sample.under + sample.over;
        match &self.counts {
            Counts::Series { series, .. } => {
                self.collect(sum, intervals);
                let weight: u128 = sum.buckets().map(|(_, _, weight)| u128::from(weight)).sum();
                let rate = self.strength.label(weight as f64 * self.per_second(intervals.len()));
                match self.p99(sum, intervals) {
                    Some((text, mark)) if series.quantity.is_bytes() => format!("{rate:>9} {text:>8}{mark}"),
                    Some((text, mark)) => format!("{rate:>9} {text:>7}{mark}"),
                    None => String::new(),
                }
            }
            Counts::Chisel(_) => {
                let rate = shown.iter().map(total).sum::<f64>() / shown.len().max(1) as f64;
                if rate > 0.0 { format!("{:>9}", self.strength.label(rate)) } else { String::new() }
            }
        }
    }

    /// The 99th percentile of what [`Source::collect`] put together from these intervals, raised by what waits in the last,
    /// and the mark behind it.
    fn p99(&self, sum: &Histogram, intervals: &[i64]) -> Option<(String, &'static str)> {
        let Counts::Series { series, group, .. } = &self.counts else { return None };
        let waiting = series.waiting(*intervals.last()?, *group);
        let p99 = *waiting.quantiles(&sum.to_sparse(), &[0.99], Rule::Interpolated)?.first()?;
        let known = (sum.totals().count + waiting.weight()) as f64 / series.per_event() as f64;
        let text = match series.quantity.is_bytes() {
            true => latscope_event::format_size(p99.value),
            false => latscope_event::format_duration(p99.value),
        };
        let before = if p99.at_least { ">=" } else { "" };
        Some((format!("{before}{text}"), Support::new(0.99, known).mark()))
    }

    /// What stands above [`Source::side`].
    pub(crate) fn side_heading(&self) -> String {
        match &self.counts {
            Counts::Series { .. } => format!("{:>9} {:>7}", "rate", "p99"),
            Counts::Chisel(_) => format!("{:>9}", "rate"),
        }
    }

    /// What waits at the end of an interval: how many, and the age of the oldest; `None` where nothing does.
    pub(crate) fn waiting(&self, interval: i64) -> Option<(u64, u64)> {
        let Counts::Series { series, group, .. } = &self.counts else { return None };
        let waiting = series.waiting(interval, *group);
        Some((waiting.count(), waiting.oldest_ns()?))
    }

    /// The column of a value, where it lies on the axis.
    pub(crate) fn column(&self, value: u64) -> Option<usize> {
        let Counts::Series { series, axis, .. } = &self.counts else { return None };
        match axis.place(series.grid().index(value)) {
            Place::Column(column) => Some(column),
            Place::Under | Place::Over => None,
        }
    }

    /// Whether a value lies above the axis.
    pub(crate) fn is_above(&self, value: u64) -> bool {
        matches!(&self.counts, Counts::Series { series, axis, .. } if matches!(axis.place(series.grid().index(value)), Place::Over))
    }

    fn per_second(&self, intervals: usize) -> f64 {
        1e9 / (self.width_ns as f64 * intervals.max(1) as f64)
    }

    /// Ticks of the axis, where a label needs `room` columns.
    pub(crate) fn ticks(&self, room: impl Fn(&str) -> usize) -> Vec<(usize, String)> {
        match &self.counts {
            Counts::Series { axis, .. } => axis.ticks(room),
            Counts::Chisel(counted) => (0..11)
                .filter_map(|decade| {
                    let value = 10u64.pow(decade);
                    Some((sysdig_column(value, counted.width())?, latscope_event::format_duration(value)))
                })
                .collect(),
        }
    }
}

pub(crate) fn strength(options: &SpectrogramOptions, weight: Weight) -> Strength {
    Strength {
        palette: options.palette,
        depth: options.depth,
        scale: options.scale,
        weight,
        unicode: options.unicode,
        full: options.full.filter(|full| full.is_finite() && *full > 0.0).unwrap_or(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::Field::{Latency, Time};
    use latscope_event::{Batch, FieldSet};
    use latscope_series::{Interval, Quantity, SeriesBuilder};
    use proptest::prelude::*;

    fn series(events: &[(i64, u64)], weight: Weight, width_ns: u64) -> HistogramSeries {
        let mut builder = SeriesBuilder::new(Quantity::Latency, weight, Vec::new(), Interval::Fixed(width_ns));
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for &(time, latency) in events {
            batch.push_i64(Time, time);
            batch.push_u64(Latency, latency);
            batch.end_row();
        }
        builder.add(&batch, None);
        builder.finish()
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_the_grid_and_the_columns(
            events in proptest::collection::vec((0i64..5_000, (20u32..64, any::<u64>()).prop_map(|(bits, v)| v >> bits)), 1..100),
            columns in 1usize..200,
            min in proptest::option::of(0u64..1 << 40), max in proptest::option::of(0u64..1 << 44),
            by_time: bool,
        ) {
            let weight = if by_time { Weight::Time } else { Weight::Count };
            let series = series(&events, weight, 1_000);
            let options = SpectrogramOptions { min, max, ..Default::default() };
            let source = Source::of_series(&series, &options, columns);
            let mut sum = source.empty();
            let mut total = 0.0;
            for interval in source.intervals() {
                let sample = source.row(&mut sum, interval);
                let Counts::Series { axis, .. } = &source.counts else { unreachable!() };
                let own = (0..columns).filter(|&column| axis.source(column) == column);
                total += own.map(|column| sample.rates[column]).sum::<f64>() + sample.under + sample.over;
            }
            let expected: f64 = events.iter().map(|event| if by_time { event.1 as f64 } else { 1.0 }).sum();
            prop_assert!((total * 1e-6 - expected).abs() <= expected * 1e-9 + 1e-9, "{total} {expected}");
            prop_assert_eq!(source.count, events.len() as u64);
        }
    }

    #[test]
    fn the_interval_does_not_alter_the_hue() {
        // A steady load of 1000 events a second.
        let events: Vec<_> = (0..8_000).map(|at| (at * 1_000_000, 50_000)).collect();
        let options = SpectrogramOptions::default();
        let colors = [500_000_000, 1_000_000_000, 2_000_000_000].map(|width_ns| {
            let series = series(&events, Weight::Count, width_ns);
            let source = Source::of_series(&series, &options, 60);
            let sample = source.row(&mut source.empty(), 1);
            sample.rates.iter().filter(|&&rate| rate > 0.0).map(|&rate| source.strength.color(rate)).collect::<Vec<_>>()
        });
        assert!(colors[0] == colors[1] && colors[1] == colors[2] && colors[0].len() == 1, "{colors:?}");
    }
}
