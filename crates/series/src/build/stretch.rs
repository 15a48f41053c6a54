//! Histograms of stretches of time, such as the rows of fio's histogram logs, counted by share.
//!
//! A row gives when its events completed (some time in the stretch) and how long each took, so they were in flight from
//! before the stretch on. Completions are taken as spread evenly over it.

use super::SeriesBuilder;
use latscope_histogram::Sparse;

/// What reaches back over more intervals than this is cut there: a damaged time must not cost forever.
pub(crate) const REACH: i64 = 1 << 20;
/// The golden section of 2^32: multiples of it, modulo that, lie as evenly as can be.
const GOLDEN: u32 = 2_654_435_769;

/// The events that completed in a stretch of time, but for its first moment.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Start, where the stretch before ended.
    pub from_ns: i64,
    /// End; the same as the start for several rows of one moment.
    pub to_ns: i64,
    /// How long a stretch is as a rule, where the first completion after that time ends it (as fio ends its rows). Of a much
    /// longer one, such as that of a stall, all events but one then completed within that time, and the last, which is
    /// taken for the slowest, at its end.
    pub usual_ns: Option<u64>,
    /// Values of the group fields.
    pub group: &'a [String],
    /// How many took how long; counts are in the units of the series ([`HistogramSeries::per_event`](crate::HistogramSeries::per_event)),
    /// and there are no weights.
    pub histogram: &'a Sparse,
}

impl SeriesBuilder {
    /// Adds the events of a stretch: by share to the intervals in which they were in flight, otherwise to those in which they
    /// completed; where nothing gives how stretches end, all of them to the one in which the middle of the stretch lies.
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
            let (others, slowest) = stretch.histogram.split_largest(self.per_event());
            spread(self, (from_ns, from_ns.saturating_add_unsigned(usual_ns)), group, &others);
            return spread(self, (to_ns, to_ns), group, &slowest);
        }
        spread(self, (from_ns, to_ns), group, stretch.histogram);
    }

    /// Counts whole events that completed some time between two moments: those of a bucket at equal distances, of which each
    /// bucket starts with another part.
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
        // Of each bucket, what is dealt so far, and what now.
        let mut dealt = vec![0; histogram.indices().len()];
        let mut now = dealt.clone();
        for interval in first..=last {
            if self.is_full() {
                return;
            }
            let end_ns = interval.saturating_add(1).saturating_mul(width);
            let passed = end_ns.abs_diff(from_ns) as f64 / length;
            for (at, (&index, &count)) in histogram.indices().iter().zip(histogram.counts()).enumerate() {
                let before = passed * count as f64 - f64::from(index.wrapping_mul(GOLDEN)) / 2f64.powi(32);
                // Rounded up, which is a call where the processor is not known to have an instruction for it.
                let whole = before as u64;
                let up = whole + u64::from(before > whole as f64);
                let to = if interval == last { count } else { up.clamp(dealt[at], count) };
                now[at] = to - dealt[at];
                dealt[at] = to;
            }
            if now.iter().any(|&count| count > 0) {
                self.histogram_at(interval, group).add_part(histogram, 0, &now);
            }
        }
    }

    /// Counts events by share that completed some time between two moments.
    fn spread_evenly(&mut self, (from_ns, to_ns): (i64, i64), group: u32, histogram: &Sparse) {
        let Some(&highest) = histogram.indices().last() else { return };
        let width = self.width_ns() as i64;
        // What completed at the very start of the series lies in its first interval.
        let last = to_ns.saturating_sub(1).max(self.earliest_ns()).div_euclid(width);
        let longest = histogram.grid().upper(highest as usize).min(i64::MAX as u64);
        let first = from_ns.saturating_sub_unsigned(longest).max(self.earliest_ns()).div_euclid(width);
        let first = first.clamp(last.saturating_sub(REACH), last);
        if first == last {
            return self.histogram_at(last, group).add(histogram);
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.start_with(histogram);
        for interval in (first..=last).rev() {
            if self.is_full() {
                break;
            }
            // The earliest interval takes whatever would lie before it.
            if interval > first {
                let distance = |ns: i64| ns.saturating_sub(interval.saturating_mul(width)) as f64;
                rest.leave_before(distance(from_ns), distance(to_ns), histogram.counts());
            } else {
                rest.leave_nothing();
            }
            self.histogram_at(interval, group).add_part(histogram, rest.taken_from, &rest.taken);
            if rest.is_empty() {
                break;
            }
        }
        self.rest = rest;
    }
}

/// What is left of the buckets of a stretch, while it is taken away interval by interval, the last one first.
#[derive(Default)]
pub(crate) struct Rest {
    /// The middles of the buckets, in nanoseconds.
    latencies: Vec<f64>,
    left: Vec<u64>,
    /// Buckets before this one are used up: the shorter a latency, the less far it reaches back.
    start: usize,
    /// What was taken last, of the buckets from this one on.
    taken: Vec<u64>,
    taken_from: usize,
}

impl Rest {
    fn start_with(&mut self, histogram: &Sparse) {
        // Where a bucket is one value, that stands for all up to the next.
        let half = |index: u32| if index < 2 << histogram.grid().power() { 0.5 } else { 0.0 };
        let latency = |&index: &u32| float(histogram.grid().middle(index as usize)) + half(index);
        self.latencies.clear();
        self.latencies.extend(histogram.indices().iter().map(latency));
        self.left.clear();
        self.left.extend(histogram.counts());
        self.start = 0;
    }

    fn is_empty(&self) -> bool {
        self.start >= self.left.len()
    }

    /// Takes all.
    fn leave_nothing(&mut self) {
        self.taken_from = self.start;
        self.taken.clear();
        self.taken.extend(self.left.drain(self.start..));
    }

    /// Leaves what lies before a moment, which the start and the end of the stretch are behind by so much (below zero: before
    /// it), of the whole counts, so that nothing is lost to rounding.
    fn leave_before(&mut self, behind_from: f64, behind_to: f64, whole: &[u64]) {
        self.taken_from = self.start;
        self.taken.clear();
        let mut from = self.start;
        for (longest, share) in shares_before(behind_from, behind_to) {
            let to = from + self.latencies[from..].partition_point(|&latency| latency <= longest);
            let buckets = self.left[from..to].iter_mut().zip(&whole[from..to]).zip(&self.latencies[from..to]);
            self.taken.extend(buckets.map(|((left, &whole), &latency)| {
                let rest = share_of(whole, share.at(latency)).min(*left);
                std::mem::replace(left, rest) - rest
            }));
            from = to;
        }
        self.start += self.left[self.start..].iter().take_while(|&&left| left == 0).count();
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

/// A share that depends on the latency: a constant, a part in proportion to it, and one in proportion to its inverse.
#[derive(Clone, Copy)]
struct Share(f64, f64, f64);

impl Share {
    #[inline(always)]
    fn at(self, latency: f64) -> f64 {
        let straight = self.0 + self.1 * latency;
        // Mostly there is no such part, and dividing takes time.
        if self.2 == 0.0 { straight.clamp(0.0, 1.0) } else { (straight + self.2 / latency).clamp(0.0, 1.0) }
    }
}

/// Which share of an event lies before a moment, when it completed anywhere between two moments, which lie by `from` and `to`
/// behind that one (below zero: before it): for latencies up to a first limit, a second, and all longer ones.
///
/// A completion `x` behind the moment leaves `(latency - x)/latency` before it, all when `x` is below zero, none beyond the
/// latency. The mean of that over the stretch is one minus a difference of two integrals of the rest, which are `x - latency/2`
/// where `x` is beyond the latency, `x^2/(2 latency)` where it is not, and 0 below zero.
fn shares_before(from: f64, to: f64) -> [(f64, Share); 3] {
    const NONE: Share = Share(0.0, 0.0, 0.0);
    const ALL: Share = Share(1.0, 0.0, 0.0);
    let long = match from.max(0.0) {
        _ if to <= 0.0 => ALL,
        // Equal to the one below, but for the rounding of short stretches and for those of one moment.
        from_or_0 if from >= 0.0 => Share(1.0, 0.0, -(from_or_0 + to) / 2.0),
        _ => Share(1.0, 0.0, -to * to / (2.0 * (to - from))),
    };
    let between = match (to - from, from.max(0.0)) {
        (length, from_or_0) if length > 0.0 => {
            Share(1.0 - to / length, 0.5 / length, from_or_0 * from_or_0 / (2.0 * length))
        }
        _ => NONE,
    };
    [(from, NONE), (to, between), (f64::INFINITY, long)]
}

#[cfg(test)]
#[path = "stretch_tests.rs"]
mod tests;
