//! How much of an interval was observed: the first and the last one mostly only in part.

use crate::HistogramSeries;
use latscope_event::Field;
use std::ops::Range;

/// A hundredth of an interval is not worth a mark, and too short for a rate.
const SLACK: u64 = 100;
/// But this is long enough for any.
const LONG_NS: u64 = 1_000_000_000;
/// Less than this part of an interval is judged together with its neighbour.
const STUB: u64 = 10;
/// A longer time without events is not filled: something is wrong with the times.
const LONGEST_GAP: u64 = 100_000;

impl HistogramSeries {
    /// Makes the series reach over this stretch of time, nanoseconds on the trace's clock, by an empty interval at either end:
    /// silence there was observed, too. Those between are gaps like any other. Call it before what waits is added.
    pub fn reach(&mut self, from_ns: i64, to_ns: i64) {
        if self.is_of_runs() {
            return;
        }
        let touched = self.touched(from_ns, to_ns);
        let (first, last) = self.range().map_or((touched.start, touched.end - 1), |(first, last)| {
            (first.min(touched.start), last.max(touched.end - 1))
        });
        self.pass(first..first.saturating_add(1));
        self.pass(last..last.saturating_add(1));
    }

    /// Gives the gaps between the first and the last interval empty ones, unless they are absurdly long.
    pub fn fill_gaps(&mut self) {
        if let Some((first, last)) = self.range()
            && first.abs_diff(last) <= LONGEST_GAP
            && !self.is_of_runs()
        {
            self.pass(first..last.saturating_add(1));
        }
    }

    /// The intervals that a stretch of time touches; its end is not part of it.
    pub fn touched(&self, from_ns: i64, to_ns: i64) -> Range<i64> {
        let last = self.interval_of(to_ns.saturating_sub(1).max(from_ns));
        self.interval_of(from_ns)..last.saturating_add(1)
    }

    /// Says since when and until when events were observed, nanoseconds on the trace's clock. Without it, every interval
    /// counts as observed in full.
    pub fn observe(&mut self, from_ns: i64, to_ns: i64) {
        self.observed_ns = Some((from_ns, to_ns.max(from_ns)));
    }

    /// Says that a clock was set back, so that an interval came again: it was observed for so many nanoseconds more than its width, on
    /// a host, or on the average of all where the name is empty. Rates are over the whole of that time.
    pub fn repeat(&mut self, host: &str, time_ns: i64, more_ns: u64) {
        let hosts = self.repeated.entry(self.interval_of(time_ns)).or_default();
        *hosts.entry(host.into()).or_insert(0) += more_ns;
    }

    /// For how much longer than its width an interval was observed, for a group or for all.
    fn repeated_ns(&self, interval: i64, group: Option<u32>) -> u64 {
        let Some(hosts) = self.repeated.get(&interval) else { return 0 };
        let place = self.by.iter().position(|field| *field == Field::Host);
        let labels = group.and_then(|group| self.groups.get(group as usize));
        let host = labels.zip(place).and_then(|(labels, place)| labels.get(place));
        hosts.get(host.map_or("", String::as_str)).copied().unwrap_or(0)
    }

    /// The intervals that were observed for longer, with another number each.
    pub(crate) fn renumber_repeated(&mut self, number: impl Fn(i64) -> i64) {
        for (interval, hosts) in std::mem::take(&mut self.repeated) {
            let sum = self.repeated.entry(number(interval)).or_default();
            hosts.into_iter().for_each(|(host, more_ns)| *sum.entry(host).or_insert(0) += more_ns);
        }
    }

    /// Nanoseconds of an interval in which events of a group (or all) were observed.
    pub fn covered_of(&self, interval: i64, group: Option<u32>) -> u64 {
        if self.is_of_runs() {
            return self.span_of(interval, group).1;
        }
        self.covered_ns(interval).saturating_add(self.repeated_ns(interval, group))
    }

    /// Nanoseconds of an interval in which events were observed: all of them but at the ends of the trace. One that came again is no
    /// longer.
    pub fn covered_ns(&self, interval: i64) -> u64 {
        if self.is_of_runs() {
            return self.span_of(interval, None).1;
        }
        let (start_ns, width_ns) = (self.start_ns(interval), self.width_of(interval));
        let end_ns = start_ns.saturating_add_unsigned(width_ns);
        let Some((from_ns, to_ns)) = self.observed_ns else { return width_ns };
        to_ns.min(end_ns).saturating_sub(from_ns.max(start_ns)).max(0).unsigned_abs()
    }

    /// Whether an interval was observed only in part.
    pub fn is_partial(&self, interval: i64) -> bool {
        let width_ns = self.width_of(interval);
        !self.is_of_runs() && width_ns - self.covered_ns(interval) > width_ns / SLACK
    }

    /// Whether so little of an interval was observed (less than a tenth) that it is no interval of its own for a verdict: the few
    /// milliseconds in which the last requests complete, for example.
    pub fn is_stub(&self, interval: i64) -> bool {
        !self.is_of_runs() && self.covered_ns(interval) < self.width_of(interval) / STUB
    }

    /// Events per second of the observed part of an interval, for so many events of a group (or of all); `None` where the part
    /// is too short.
    pub fn rate(&self, interval: i64, group: Option<u32>, events: f64) -> Option<f64> {
        let covered_ns = self.covered_of(interval, group);
        if self.is_of_runs() {
            return (covered_ns > 0).then(|| events * 1e9 / covered_ns as f64);
        }
        (covered_ns > (self.width_of(interval) / SLACK).min(LONG_NS)).then(|| events * 1e9 / covered_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use crate::{HistogramSeries, Quantity, Weight};

    #[test]
    fn silence_at_the_ends_is_part_of_a_series() {
        for by in [Vec::new(), vec![latscope_event::Field::Device]] {
            let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, by, 1000);
            series.reach(2500, 6000);
            assert_eq!(series.range(), Some((2, 5)), "an end on an edge touches no further interval");
            series.reach(3000, 4000);
            assert_eq!(series.range(), Some((2, 5)), "it does not shrink");
            series.fill_gaps();
            assert_eq!(series.slices().keys().copied().collect::<Vec<_>>(), [2, 3, 4, 5]);
            assert_eq!(series.total(None).totals().count, 0);
            series.reach(2500, i64::MAX);
            series.fill_gaps();
            assert_eq!(series.slices().len(), 5, "no memory for what cannot be true");
        }
    }

    #[test]
    fn ends_are_partial() {
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1000);
        assert_eq!((series.covered_ns(0), series.is_partial(0)), (1000, false), "nothing is known");
        series.observe(-300, 2005);
        let coverage = |at| (series.covered_ns(at), series.is_partial(at), series.rate(at, None, 3.0).map(f64::round));
        assert_eq!(coverage(-1), (300, true, Some(1e7)));
        assert_eq!(coverage(0), (1000, false, Some(3e6)));
        assert_eq!(coverage(2), (5, true, None), "too short for a rate");
        assert_eq!(coverage(3), (0, true, None));
        series.observe(5, 995);
        assert!(!series.is_partial(0), "a hundredth is not worth a mark");
    }
}
