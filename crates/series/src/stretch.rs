//! Histograms of stretches of time, such as the rows of fio's histogram logs, counted by share.
//!
//! A row tells when its events completed (some time in the stretch) and how long each took, so they were in flight from
//! before the stretch on. Completions are taken as spread evenly over it.

use crate::SeriesBuilder;
use latscope_histogram::{Grid, Histogram, Sparse};

/// What reaches back over more intervals than this is cut there: a damaged time must not cost forever.
pub(crate) const REACH: i64 = 1 << 20;
/// The golden section of 2^32: multiples of it, modulo that, lie as evenly as can be.
const GOLDEN: u32 = 2_654_435_769;

/// The events that completed in a stretch of time, but for its first moment.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Begin, where the stretch before ended.
    pub from_ns: i64,
    /// End; the same as the begin for several rows of one moment.
    pub to_ns: i64,
    /// How long a stretch is as a rule, where the first completion after that time ends it (as fio ends its rows). Of a much
    /// longer one, such as that of a stall, all events but one then completed within that time, and the last, which is
    /// taken for the slowest, at its end.
    pub usual_ns: Option<u64>,
    /// Values of the group fields.
    pub group: &'a [String],
    /// How many took how long; counts are in the units of the series ([`HistogramSeries::per_event`](crate::HistogramSeries::per_event)).
    pub histogram: &'a Sparse,
}

impl SeriesBuilder {
    /// Adds the events of a stretch: by share to the intervals in which they were in flight, otherwise to those in which they
    /// completed; where nothing tells how stretches end, all of them to the one in which the middle of the stretch lies.
    pub fn add_stretch(&mut self, stretch: &Stretch) {
        if stretch.histogram.indices().is_empty() {
            return;
        }
        self.fold_to(stretch.histogram.grid());
        let group = self.group_of(stretch.group);
        let (from_ns, to_ns) = (stretch.from_ns.min(stretch.to_ns), stretch.to_ns);
        if !self.is_by_share() && stretch.usual_ns.is_none() {
            let width = self.width_ns() as i64;
            let middle = from_ns.saturating_add_unsigned(to_ns.abs_diff(from_ns) / 2);
            return self.histogram_at(middle.div_euclid(width), group).add(stretch.histogram);
        }
        let spread = if self.is_by_share() { SeriesBuilder::spread_evenly } else { SeriesBuilder::deal_evenly };
        let long = |usual_ns: &u64| to_ns.abs_diff(from_ns) > usual_ns.saturating_add(usual_ns / 2);
        if let Some(usual_ns) = stretch.usual_ns.filter(long) {
            let one = if self.is_by_share() { crate::SHARES } else { 1 };
            let (others, slowest) = stretch.histogram.split_largest(one);
            spread(self, (from_ns, from_ns.saturating_add_unsigned(usual_ns)), group, &others);
            return spread(self, (to_ns, to_ns), group, &slowest);
        }
        spread(self, (from_ns, to_ns), group, stretch.histogram);
    }

    /// Counts whole events that completed some time between two moments: those of a bucket at equal distances, of which each
    /// bucket begins with another part.
    fn deal_evenly(&mut self, (from_ns, to_ns): (i64, i64), group: u32, histogram: &Sparse) {
        if histogram.indices().is_empty() {
            return;
        }
        let width = self.width_ns() as i64;
        let last = to_ns.saturating_sub(1).div_euclid(width);
        let first = from_ns.div_euclid(width).clamp(last.saturating_sub(REACH), last);
        if first == last {
            return self.histogram_at(last, group).add(histogram);
        }
        let length = to_ns.abs_diff(from_ns) as f64;
        let (grid, totals, is_weighted) = (histogram.grid(), histogram.totals(), histogram.weights().is_some());
        let limits = |index| (grid.lower(index).max(totals.min), grid.upper(index).min(totals.max));
        // Of each bucket, what is dealt so far: count and weight.
        let mut dealt = vec![(0, 0); histogram.indices().len()];
        let mut parts = Vec::with_capacity(dealt.len());
        for interval in first..=last {
            let end_ns = interval.saturating_add(1).saturating_mul(width);
            let passed = end_ns.abs_diff(from_ns) as f64 / length;
            for ((index, count, weight), dealt) in histogram.buckets().zip(&mut dealt) {
                let before = passed * count as f64 - f64::from((index as u32).wrapping_mul(GOLDEN)) / 2f64.powi(32);
                // Rounded up, which is a call where the processor is not known to have an instruction for it.
                let whole = before as u64;
                let up = whole + u64::from(before > whole as f64);
                let to = if interval == last { count } else { up.clamp(dealt.0, count) };
                if to > dealt.0 {
                    let part = |weight| (u128::from(weight) * u128::from(to) / u128::from(count)) as u64;
                    let weight_to = if is_weighted { part(weight) } else { 0 };
                    parts.push((limits(index), to - dealt.0, weight_to - dealt.1));
                    *dealt = (to, weight_to);
                }
            }
            if !parts.is_empty() {
                let into = self.histogram_at(interval, group);
                parts.drain(..).for_each(|(limits, count, weight)| into.record_within(limits, count, weight));
            }
        }
    }

    /// Counts events by share that completed some time between two moments.
    fn spread_evenly(&mut self, (from_ns, to_ns): (i64, i64), group: u32, histogram: &Sparse) {
        let Some(&highest) = histogram.indices().last() else { return };
        let width = self.width_ns() as i64;
        let last = to_ns.saturating_sub(1).div_euclid(width);
        let longest = histogram.grid().upper(highest as usize).min(i64::MAX as u64);
        let first = from_ns.saturating_sub_unsigned(longest).max(self.earliest_ns()).div_euclid(width);
        let first = first.clamp(last.saturating_sub(REACH), last);
        if first == last {
            return self.histogram_at(last, group).add(histogram);
        }
        let mut parts = Parts::new(histogram);
        for interval in (first..=last).rev() {
            if parts.is_empty() {
                break;
            }
            // The earliest interval takes whatever would lie before it.
            let begin_ns = if interval == first { None } else { Some(interval.saturating_mul(width)) };
            parts.take(begin_ns, from_ns, to_ns, self.histogram_at(interval, group));
        }
    }
}

/// What is left of the buckets of a stretch, while it is taken away interval by interval, the last one first.
struct Parts {
    grid: Grid,
    buckets: Vec<Part>,
    /// Buckets before this one are used up: the shorter a latency, the less far it reaches back.
    begin: usize,
}

struct Part {
    index: usize,
    /// Count and weight of the whole, and what is left of them.
    whole: (u64, u64),
    left: (u64, u64),
    limits: (u64, u64),
    /// In the middle of the bucket.
    latency: f64,
}

impl Parts {
    fn new(histogram: &Sparse) -> Parts {
        let grid = histogram.grid();
        // With a grid that is known beforehand, shifts are by constants.
        let buckets = match grid {
            Grid::FINE => Parts::buckets(Grid::FINE, histogram),
            grid => Parts::buckets(grid, histogram),
        };
        Parts { grid, buckets, begin: 0 }
    }

    #[inline(always)]
    fn buckets(grid: Grid, histogram: &Sparse) -> Vec<Part> {
        let (totals, is_weighted) = (histogram.totals(), histogram.weights().is_some());
        let part = |(index, count, weight): (usize, u64, u64)| {
            let (lower, upper) = (grid.lower(index), grid.upper(index));
            let limits = (lower.max(totals.min), upper.min(totals.max));
            let whole = (count, if is_weighted { weight } else { 0 });
            let latency = float(lower) + (float(upper - lower) + 1.0) / 2.0;
            Part { index, whole, left: whole, limits, latency }
        };
        histogram.buckets().map(part).collect()
    }

    fn is_empty(&self) -> bool {
        self.begin >= self.buckets.len()
    }

    /// Moves what lies behind `begin_ns`, or everything, into a histogram.
    fn take(&mut self, begin_ns: Option<i64>, from_ns: i64, to_ns: i64, into: &mut Histogram) {
        let (buckets, begin) = (&mut self.buckets[self.begin..], &mut self.begin);
        let Some(begin_ns) = begin_ns else {
            *begin += buckets.len();
            let all = buckets.iter().filter(|part| part.left.0 > 0);
            return into.record_buckets(self.grid, all.map(|part| (part.index, part.limits, part.left.0, part.left.1)));
        };
        let distance = |ns: i64| ns.saturating_sub(begin_ns) as f64;
        let (behind_from, behind_to) = (distance(from_ns), distance(to_ns));
        let mut are_used_up = true;
        let taken = buckets.iter_mut().filter_map(|part| {
            let before = share_before(behind_from, behind_to, part.latency);
            // What lies before the begin is counted from the whole, so that nothing is lost to rounding.
            let rest = match before {
                0.0 => (0, 0),
                _ => {
                    let (count, weight) = part.whole;
                    let weight = if weight == 0 { 0 } else { share_of(weight, before).min(part.left.1) };
                    (share_of(count, before).min(part.left.0), weight)
                }
            };
            let (count, weight) = (part.left.0 - rest.0, part.left.1 - rest.1);
            part.left = rest;
            are_used_up &= rest.0 == 0;
            *begin += usize::from(are_used_up);
            (count > 0).then_some((part.index, part.limits, count, weight))
        });
        into.record_buckets(self.grid, taken);
    }
}

/// A number as the nearest floating-point one.
#[inline(always)]
fn float(number: u64) -> f64 {
    // Signed conversions are single instructions.
    i64::try_from(number).map_or(number as f64, |number| number as f64)
}

/// A share, at most 1, of a whole, rounded down.
#[inline(always)]
fn share_of(whole: u64, share: f64) -> u64 {
    match i64::try_from(whole) {
        Ok(whole) => (whole as f64 * share) as i64 as u64,
        Err(_) => (whole as f64 * share) as u64,
    }
}

/// Which share of an event lies before a moment, when it took `latency` and completed anywhere between two moments,
/// which lie by `behind_from` and `behind_to` behind that one (below zero: before it).
///
/// A completion `x` behind the moment leaves `(latency - x)/latency` before it, all when `x` is below zero, none beyond the
/// latency. The mean of that over the stretch is one minus a difference of two integrals of the rest.
#[inline(always)]
fn share_before(behind_from: f64, behind_to: f64, latency: f64) -> f64 {
    if behind_from >= latency {
        return 0.0;
    }
    if behind_to <= behind_from {
        return 1.0 - (behind_to / latency).clamp(0.0, 1.0);
    }
    let integral = |x: f64| match x {
        _ if x <= 0.0 => 0.0,
        _ if x < latency => x * x / (2.0 * latency),
        _ => x - latency / 2.0,
    };
    (1.0 - (integral(behind_to) - integral(behind_from)) / (behind_to - behind_from)).clamp(0.0, 1.0)
}

#[cfg(test)]
#[path = "stretch_tests.rs"]
mod tests;
