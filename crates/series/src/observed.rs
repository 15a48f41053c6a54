//! How much of an interval was observed: the first and the last one mostly only in part.

use crate::HistogramSeries;

/// A hundredth of an interval is not worth a mark, and too short for a rate.
const SLACK: u64 = 100;
/// But this is long enough for any.
const LONG_NS: u64 = 1_000_000_000;

impl HistogramSeries {
    /// Says since when and until when events were observed, nanoseconds on the trace's clock. Without it, every interval
    /// counts as observed in full.
    pub fn observe(&mut self, from_ns: i64, to_ns: i64) {
        self.observed_ns = Some((from_ns, to_ns.max(from_ns)));
    }

    /// Nanoseconds of an interval in which events were observed: all of them but at the ends of the trace.
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
    fn ends_are_partial() {
        let mut series = HistogramSeries::new(Quantity::Latency, Weight::Count, Vec::new(), 1000);
        assert_eq!((series.covered_ns(0), series.is_partial(0)), (1000, false), "nothing is known");
        series.observe(-300, 2005);
        let told = |at| (series.covered_ns(at), series.is_partial(at), series.rate(at, None, 3.0).map(f64::round));
        assert_eq!(told(-1), (300, true, Some(1e7)));
        assert_eq!(told(0), (1000, false, Some(3e6)));
        assert_eq!(told(2), (5, true, None), "too short for a rate");
        assert_eq!(told(3), (0, true, None));
        series.observe(5, 995);
        assert!(!series.is_partial(0), "a hundredth is not worth a mark");
    }
}
