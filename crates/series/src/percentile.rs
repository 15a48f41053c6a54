//! The percentiles of an interval and group, as tables and charts show them alike.

use crate::{Exact, HistogramSeries, Raised, Support, Waiting};
use latscope_histogram::{Rule, Sparse};

/// Which percentiles are asked for, and where they come from.
#[derive(Clone, Debug, Default)]
pub struct AskedPercentiles {
    /// From 0 to 1, in the order of the answer.
    pub quantiles: Vec<f64>,
    /// Where in its bucket a percentile lies.
    pub rule: Rule,
    /// Values that take the place of those from buckets.
    pub exact: Option<Exact>,
}

/// What is reported of the events of an interval and group.
#[derive(Clone, PartialEq, Debug)]
pub struct ShownPercentiles {
    /// Events; in a series by share not a whole number.
    pub count: f64,
    /// Of the exact values, raised by what waits; `None` where there is neither.
    pub mean: Option<Raised<f64>>,
    /// The exact maximum, likewise.
    pub max: Option<Raised<u64>>,
    /// What waited at the end of the interval.
    pub waiting: Waiting,
    /// The percentile (0 to 100) up to which ten events lie beyond.
    pub trusted: f64,
    /// In the order in which they were asked for; `None` only without events.
    pub values: Vec<Option<ShownPercentile>>,
}

/// One percentile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShownPercentile {
    /// Nanoseconds or bytes. From buckets a whole number; an exact one has a decimal.
    pub value: f64,
    /// Whether fewer than ten events lie beyond it.
    pub doubtful: bool,
    /// Whether it is a lower bound, raised by what waits.
    pub at_least: bool,
}

impl AskedPercentiles {
    /// One percentile (0 to 1) of an interval, as [`of`](AskedPercentiles::of) gives all that were asked for; `None` where
    /// there is nothing. It comes from the histogram where [`Exact`] was not asked for it.
    pub fn value(
        &self,
        series: &HistogramSeries,
        interval: i64,
        group: Option<u32>,
        sparse: &Sparse,
        quantile: f64,
    ) -> Option<f64> {
        let exact = self.exact.as_ref().and_then(|exact| exact.quantile(interval, group, quantile));
        let raised = series.waiting(interval, group).quantiles(sparse, &[quantile], self.rule).map(|values| values[0]);
        // What waits raises an exact value, too.
        exact.filter(|_| !raised.is_some_and(|raised| raised.at_least)).or(raised.map(|raised| raised.value as f64))
    }

    /// The percentiles of an interval from its histogram `sparse`, which is that of one group (by its number) or, without,
    /// of all groups together.
    pub fn percentiles(
        &self,
        series: &HistogramSeries,
        interval: i64,
        group: Option<u32>,
        sparse: &Sparse,
    ) -> ShownPercentiles {
        let totals = sparse.totals();
        let count = totals.count as f64 / series.per_event() as f64;
        let waiting = series.waiting(interval, group);
        // What waits is as good as what completed for telling how much there is beyond a percentile.
        let known = count + waiting.weight() as f64 / series.per_event() as f64;
        let raised = waiting.quantiles(sparse, &self.quantiles, self.rule).unwrap_or_default();
        let exact = self.exact.as_ref().and_then(|exact| exact.at(interval, group));
        let shown = |(at, &quantile): (usize, &f64)| {
            let raised = raised.get(at)?;
            let value = match exact {
                Some(values) if !raised.at_least => (values[at] * 10.0).round() / 10.0,
                _ => raised.value as f64,
            };
            let doubtful = Support::new(quantile, known) == Support::Few;
            Some(ShownPercentile { value, doubtful, at_least: raised.at_least })
        };
        let values = self.quantiles.iter().enumerate().map(shown).collect();
        let (mean, max) = (waiting.mean(sparse), waiting.max(sparse));
        ShownPercentiles { count, mean, max, waiting, trusted: Support::trusted_percentile(known), values }
    }
}
