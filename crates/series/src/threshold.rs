//! Service levels: conditions on a histogram, such as `p95 > 1s or p99 > 5s for 3 intervals`.

mod parse;

use crate::Waiting;
use latscope_event::{
    format_count, format_duration, format_duration_exact, format_rate, format_size, format_size_exact,
};
use latscope_histogram::{Rule, Sparse};
use std::fmt;

/// A condition on what happened in an interval to one group, interval after interval.
#[derive(Clone, PartialEq, Debug)]
pub struct Threshold {
    condition: Condition,
    /// So many intervals in a row.
    intervals: u32,
}

#[derive(Clone, PartialEq, Debug)]
enum Condition {
    Bound(Bound),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Bound {
    metric: Metric,
    above: bool,
    or_equal: bool,
    value: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Metric {
    /// From 0 to 1.
    Quantile(f64),
    Mean,
    Min,
    Max,
    Count,
    Rate,
    /// Age of the oldest request that waits at the end of the interval.
    Oldest,
    /// How many requests wait at the end of the interval, or how many of them are older than this, in nanoseconds.
    Waiting(Option<u64>),
    /// The share of the events, from 0 to 1, whose bucket lies above this, in nanoseconds.
    Over(u64),
    /// Bytes that what completed moved.
    Bytes,
    /// The same per second.
    Throughput,
    /// Events that the captures lost.
    Lost,
    /// Hosts that are in the interval.
    Hosts,
    /// Hosts that are expected and not in it.
    Missing,
    /// How long after the end of the interval its last record came.
    Lag,
    /// How far the clock of a host is from that of the hub; the largest of several.
    Offset,
}

/// A bound of a condition, for who writes it in another language.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// `quantile`, `mean`, `min`, `max`, `count`, `rate`, `oldest`, `waiting`, `over`, `bytes`, `throughput`, `lost`, `hosts`,
    /// `missing`, `lag` or `offset`.
    pub metric: &'static str,
    /// Of a quantile from 0 to 1, of `waiting` and `over` seconds.
    pub argument: Option<f64>,
    /// How the value compares: `>`, `>=`, `<` or `<=`.
    pub sign: &'static str,
    /// Seconds, bytes, numbers, or a share from 0 to 1.
    pub value: f64,
}

/// What a hub knows of an interval beside its histograms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounts {
    /// Events that the captures of the hosts lost.
    pub lost: u64,
    /// Hosts that are in the interval.
    pub hosts: u64,
    /// Hosts that are expected and not in it.
    pub missing: u64,
    /// How long after the end of the interval its last record came, nanoseconds.
    pub lag_ns: Option<u64>,
    /// How far the clock of a host is from that of the hub, nanoseconds; the largest of several.
    pub offset_ns: Option<u64>,
}

/// What a condition is held against: one interval of one group.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    histogram: &'a Sparse,
    /// Where percentiles, mean, minimum and maximum come from, if not from `histogram`.
    values: Option<&'a Sparse>,
    per_event: u64,
    covered_ns: u64,
    is_partial: bool,
    percentiles: Option<&'a dyn Fn(f64) -> Option<f64>>,
    waiting: Option<&'a Waiting>,
    hosts: Option<HostCounts>,
}

impl<'a> Judged<'a> {
    /// The events of `covered_ns` nanoseconds; `per_event` is what one event counts (see
    /// [`HistogramSeries::per_event`](crate::HistogramSeries::per_event)).
    pub fn new(histogram: &'a Sparse, per_event: u64, covered_ns: u64) -> Judged<'a> {
        let (values, percentiles, waiting, hosts) = (None, None, None, None);
        Judged { histogram, values, per_event, covered_ns, is_partial: false, percentiles, waiting, hosts }
    }

    /// The same, of an interval that was observed only in part. Its rate is not judged, nor whether its count is too low.
    #[must_use]
    pub fn partial(self, is_partial: bool) -> Judged<'a> {
        Judged { is_partial, ..self }
    }

    /// The same with percentiles, mean, minimum and maximum of this histogram; count and rate stay.
    #[must_use]
    pub fn with_values(self, values: &'a Sparse) -> Judged<'a> {
        Judged { values: Some(values), ..self }
    }

    /// The same with percentiles (0 to 1) from elsewhere: those that are shown.
    #[must_use]
    pub fn with_percentiles(self, percentiles: &'a dyn Fn(f64) -> Option<f64>) -> Judged<'a> {
        Judged { percentiles: Some(percentiles), ..self }
    }

    /// The same with the requests that wait at the end of the interval. Without this call, it is unknown what waits, and
    /// `oldest` and `waiting` are not judged.
    #[must_use]
    pub fn with_waiting(self, waiting: &'a Waiting) -> Judged<'a> {
        Judged { waiting: Some(waiting), ..self }
    }

    /// The same with what a hub knows of the hosts. Without this call, conditions on them are not judged.
    #[must_use]
    pub fn with_hosts(self, hosts: HostCounts) -> Judged<'a> {
        Judged { hosts: Some(hosts), ..self }
    }

    fn count(&self) -> f64 {
        self.histogram.totals().count as f64 / self.per_event.max(1) as f64
    }

    /// The bytes that its events moved: none, where nothing completed; `None` where they are unknown.
    fn bytes(&self) -> Option<f64> {
        let totals = self.histogram.totals();
        if totals.count == 0 { Some(0.0) } else { totals.bytes.map(|bytes| bytes as f64) }
    }

    /// A metric of the interval; `None` where it is unknown.
    fn value(&self, bound: &Bound) -> Option<f64> {
        let nothing = Waiting::default();
        let values = self.values.unwrap_or(self.histogram);
        let (totals, waiting) = (values.totals(), self.waiting.unwrap_or(&nothing));
        match bound.metric {
            Metric::Count => (!self.is_partial || bound.above).then(|| self.count()),
            Metric::Rate => (!self.is_partial).then(|| self.count() * 1e9 / self.covered_ns.max(1) as f64),
            Metric::Bytes => self.bytes().filter(|_| !self.is_partial || bound.above),
            Metric::Throughput => {
                self.bytes().filter(|_| !self.is_partial).map(|bytes| bytes * 1e9 / self.covered_ns.max(1) as f64)
            }
            Metric::Oldest => self.waiting.map(|waiting| waiting.oldest_ns().map_or(0.0, |age| age as f64)),
            Metric::Waiting(None) => self.waiting.map(|waiting| waiting.count() as f64),
            Metric::Waiting(Some(age_ns)) => self.waiting.map(|waiting| waiting.older_than(age_ns) as f64),
            Metric::Over(bound_ns) => waiting.share_over(values, bound_ns),
            Metric::Lost => self.hosts.map(|hosts| hosts.lost as f64),
            Metric::Hosts => self.hosts.map(|hosts| hosts.hosts as f64),
            Metric::Missing => self.hosts.map(|hosts| hosts.missing as f64),
            Metric::Lag => self.hosts.and_then(|hosts| hosts.lag_ns).map(|lag_ns| lag_ns as f64),
            Metric::Offset => self.hosts.and_then(|hosts| hosts.offset_ns).map(|offset_ns| offset_ns as f64),
            Metric::Mean => waiting.mean(values).map(|mean| mean.value),
            Metric::Max => waiting.max(values).map(|max| max.value as f64),
            Metric::Min => (totals.count > 0).then_some(totals.min as f64),
            Metric::Quantile(quantile) => match self.percentiles {
                Some(percentiles) => percentiles(quantile),
                None => {
                    let found = waiting.quantiles(values, &[quantile], Rule::Interpolated);
                    found.map(|found| found[0].value as f64)
                }
            },
        }
    }
}

/// What a condition says of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Judgement {
    /// Nothing: what it asks for is unknown.
    Unknown,
    /// It does not hold.
    Kept,
    /// It holds.
    Exceeded(Finding),
}

impl Judgement {
    /// What was found, where the condition holds.
    pub fn exceeded(self) -> Option<Finding> {
        match self {
            Judgement::Exceeded(finding) => Some(finding),
            _ => None,
        }
    }
}

/// A value that exceeds a bound. Written, it is `p95 = 3.47s`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Finding {
    bound: Bound,
    value: f64,
}

impl Finding {
    /// How far the value is beyond its bound, as a part of the bound: values of several bounds can be ordered by it.
    pub fn excess(&self) -> f64 {
        (self.value - self.bound.value).abs() / self.bound.value.abs().max(f64::MIN_POSITIVE)
    }

    /// The value: nanoseconds, bytes, events, requests, hosts, a share from 0 to 1, or events per second.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Whether it is a number of single latencies (a percentile, a mean or an extreme), which says more beside their number.
    pub fn is_of_events(&self) -> bool {
        self.bound.metric.is_latency() || matches!(self.bound.metric, Metric::Over(_))
    }

    /// Whether it is about the hosts of a cluster, and not about their requests.
    pub fn is_of_hosts(&self) -> bool {
        matches!(self.bound.metric, Metric::Hosts | Metric::Missing | Metric::Lag | Metric::Offset | Metric::Lost)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.bound.metric {
            Metric::Rate => format_rate(self.value),
            Metric::Bytes => format_size(self.value.round() as u64),
            Metric::Throughput => format!("{}/s", format_size(self.value.round() as u64)),
            Metric::Waiting(_) | Metric::Lost | Metric::Hosts | Metric::Missing => format_count(self.value as u64),
            Metric::Over(_) => format!("{}%", (self.value * 1e4).round() / 100.0),
            Metric::Count if self.value.fract() != 0.0 && self.value < 10.0 => format!("{:.2}", self.value),
            Metric::Count => format_count(self.value.round() as u64),
            _ => format_duration(self.value.round() as u64),
        };
        write!(f, "{} = {value}", self.bound.metric)
    }
}

impl Threshold {
    /// How many intervals in a row it takes.
    pub fn intervals(&self) -> u32 {
        self.intervals
    }

    /// Its bounds on latencies (nanoseconds), as they are written, for lines in a picture; those on counts, on rates and on
    /// what waits are left out.
    pub fn levels(&self) -> Vec<(String, u64)> {
        let is_level = |bound: &&Bound| bound.metric.is_latency();
        let bounds = self.condition.bounds();
        bounds.iter().filter(is_level).map(|bound| (bound.to_string(), bound.value as u64)).collect()
    }

    /// Whether samples of waits cannot tell if it is exceeded, which by them it is in this way, or not. They are taken every so many
    /// nanoseconds and miss most shorter waits: what they say of percentiles, mean and shares is too high, and of numbers too low.
    /// `longest_ns` is the longest that was seen.
    pub fn is_unsure_of_samples(&self, exceeded: Option<&Finding>, interval_ns: u64, longest_ns: u64) -> bool {
        let leans = |bound: &Bound| match bound.metric {
            Metric::Quantile(_) | Metric::Mean | Metric::Min | Metric::Over(_) => bound.above == exceeded.is_some(),
            Metric::Count | Metric::Rate | Metric::Bytes | Metric::Throughput => bound.above != exceeded.is_some(),
            _ => false,
        };
        let is_near = |finding: &Finding| {
            finding.bound.metric.is_latency() && (finding.value - finding.bound.value).abs() <= interval_ns as f64
        };
        // The longest one may have exceeded a bound that it kept by less.
        let may_exceed = |bound: &Bound| {
            exceeded.is_none()
                && matches!(bound.metric, Metric::Max)
                && longest_ns.saturating_add(interval_ns) as f64 >= bound.value
        };
        let bounds = self.condition.bounds();
        bounds.iter().any(|bound| leans(bound) || may_exceed(bound)) || exceeded.is_some_and(is_near)
    }

    /// Whether requests of which nobody knows the latency may exceed it: this part of all (0 to 1), of which the oldest may have waited for
    /// so many nanoseconds. Half as many as may lie above a percentile change it by little.
    pub fn may_rise_by_lost(&self, share: f64, oldest_ns: u64) -> bool {
        const OF_MEAN: f64 = 0.01;
        let may_rise = |bound: &Bound| match bound.metric {
            Metric::Quantile(quantile) => share > (1.0 - quantile) / 2.0,
            Metric::Mean => share > OF_MEAN,
            Metric::Max => oldest_ns as f64 > bound.value,
            Metric::Over(_) => share > bound.value,
            _ => false,
        };
        self.condition.bounds().iter().any(|bound| bound.above && may_rise(bound))
    }

    /// The percentiles (0 to 1) that it asks for.
    pub fn percentiles(&self) -> Vec<f64> {
        let percentile = |bound: &Bound| match bound.metric {
            Metric::Quantile(quantile) => Some(quantile),
            _ => None,
        };
        self.condition.bounds().iter().filter_map(percentile).collect()
    }

    /// Whether it asks for what waits (`oldest`, `waiting`), which only a live capture knows.
    pub fn asks_what_waits(&self) -> bool {
        self.condition.bounds().iter().any(Bound::is_of_waiting)
    }

    /// Whether what waits can exceed it: it has an upper limit of latencies, or of what waits.
    pub fn rises_with_waiting(&self) -> bool {
        let rises = |bound: &Bound| {
            bound.above
                && (bound.is_of_waiting() || bound.metric.is_latency() || matches!(bound.metric, Metric::Over(_)))
        };
        self.condition.bounds().iter().any(rises)
    }

    /// Whether it asks for nothing but what is known at a moment: what waits, and which hosts there are.
    pub fn is_momentary(&self) -> bool {
        let momentary = |bound: &Bound| bound.is_of_waiting() || bound.metric.is_of_hosts();
        self.condition.bounds().iter().all(momentary)
    }

    /// Whether it asks for bytes, which not every source knows.
    pub fn asks_for_bytes(&self) -> bool {
        self.condition.bounds().iter().any(|bound| matches!(bound.metric, Metric::Bytes | Metric::Throughput))
    }

    /// Whether it asks how many hosts are missing.
    pub fn asks_who_is_missing(&self) -> bool {
        self.condition.bounds().iter().any(|bound| bound.metric == Metric::Missing)
    }

    /// Whether more data of the same interval cannot make it false once it holds.
    pub fn stays_exceeded(&self) -> bool {
        let grows = |bound: &Bound| {
            let can_only_grow = matches!(bound.metric, Metric::Max | Metric::Count | Metric::Bytes | Metric::Lost);
            bound.above && (bound.is_of_waiting() || can_only_grow)
        };
        self.condition.bounds().iter().all(grows)
    }

    /// The same in another language that has `and`, `or` and parentheses, by what it writes for each bound.
    pub fn written(&self, write: &dyn Fn(&Part) -> String) -> String {
        self.condition.written(&|bound| write(&bound.part()))
    }

    /// Its bounds, in the order in which they are written.
    pub fn parts(&self) -> Vec<Part> {
        self.condition.bounds().iter().map(Bound::part).collect()
    }

    /// Whether it holds in an interval, to the letter: the 99th percentile is above a bound when more than one in a hundred
    /// events are, however few there are; otherwise nobody would hear of a stall, in which there are few. Without an event
    /// only count, rate and what waits are known.
    pub fn judge(&self, judged: &Judged) -> Judgement {
        self.condition.judge(judged)
    }
}

impl Condition {
    fn judge(&self, judged: &Judged) -> Judgement {
        match self {
            Condition::Bound(bound) => match judged.value(bound) {
                None => Judgement::Unknown,
                Some(value) if bound.holds(value) => Judgement::Exceeded(Finding { bound: *bound, value }),
                Some(_) => Judgement::Kept,
            },
            Condition::All(all) => {
                let found: Vec<Judgement> = all.iter().map(|one| one.judge(judged)).collect();
                // The first bound is what the condition is about; the others say when.
                let decided = found.iter().find(|one| **one == Judgement::Kept);
                *decided.or(found.iter().find(|one| **one == Judgement::Unknown)).unwrap_or(&found[0])
            }
            Condition::Any(any) => {
                let found: Vec<Judgement> = any.iter().map(|one| one.judge(judged)).collect();
                let exceeded = found.iter().filter_map(|one| one.exceeded());
                match exceeded.max_by(|one, two| one.excess().total_cmp(&two.excess())) {
                    Some(worst) => Judgement::Exceeded(worst),
                    None if found.contains(&Judgement::Unknown) => Judgement::Unknown,
                    None => Judgement::Kept,
                }
            }
        }
    }

    fn written(&self, write: &dyn Fn(&Bound) -> String) -> String {
        let (conditions, word) = match self {
            Condition::Bound(bound) => return write(bound),
            Condition::All(conditions) => (conditions, " and "),
            Condition::Any(conditions) => (conditions, " or "),
        };
        let one = |one: &Condition| match one {
            Condition::Bound(bound) => write(bound),
            // "and" binds before "or".
            Condition::All(_) if word == " or " => one.written(write),
            _ => format!("({})", one.written(write)),
        };
        conditions.iter().map(one).collect::<Vec<_>>().join(word)
    }

    /// All of its bounds, in the order in which they are written.
    fn bounds(&self) -> Vec<Bound> {
        match self {
            Condition::Bound(bound) => vec![*bound],
            Condition::All(of) | Condition::Any(of) => of.iter().flat_map(Condition::bounds).collect(),
        }
    }
}

impl Metric {
    /// Whether its values are latencies.
    fn is_latency(self) -> bool {
        matches!(self, Metric::Quantile(_) | Metric::Mean | Metric::Min | Metric::Max)
    }

    /// Whether its values are durations, nanoseconds.
    fn is_duration(self) -> bool {
        self.is_latency() || matches!(self, Metric::Oldest | Metric::Lag | Metric::Offset)
    }

    /// Whether only a hub knows it.
    fn is_of_hosts(self) -> bool {
        matches!(self, Metric::Lost | Metric::Hosts | Metric::Missing | Metric::Lag | Metric::Offset)
    }
}

impl Bound {
    fn part(&self) -> Part {
        let (metric, argument) = match self.metric {
            Metric::Quantile(quantile) => ("quantile", Some(quantile)),
            Metric::Mean => ("mean", None),
            Metric::Min => ("min", None),
            Metric::Max => ("max", None),
            Metric::Count => ("count", None),
            Metric::Rate => ("rate", None),
            Metric::Oldest => ("oldest", None),
            Metric::Waiting(age_ns) => ("waiting", age_ns.map(|age_ns| age_ns as f64 / 1e9)),
            Metric::Over(bound_ns) => ("over", Some(bound_ns as f64 / 1e9)),
            Metric::Bytes => ("bytes", None),
            Metric::Throughput => ("throughput", None),
            Metric::Lost => ("lost", None),
            Metric::Hosts => ("hosts", None),
            Metric::Missing => ("missing", None),
            Metric::Lag => ("lag", None),
            Metric::Offset => ("offset", None),
        };
        let sign = match (self.above, self.or_equal) {
            (true, false) => ">",
            (true, true) => ">=",
            (false, false) => "<",
            (false, true) => "<=",
        };
        let value = if self.metric.is_duration() { self.value / 1e9 } else { self.value };
        Part { metric, argument, sign, value }
    }

    fn is_of_waiting(&self) -> bool {
        matches!(self.metric, Metric::Oldest | Metric::Waiting(_))
    }

    fn holds(&self, value: f64) -> bool {
        match (self.above, self.or_equal) {
            (true, false) => value > self.value,
            (true, true) => value >= self.value,
            (false, false) => value < self.value,
            (false, true) => value <= self.value,
        }
    }
}

/// As it is written.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.condition)?;
        if self.intervals > 1 { write!(f, " for {} intervals", self.intervals) } else { Ok(()) }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&Bound::to_string))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // To a fixed number of decimals, so that 0.999 is 99.9 again.
            Metric::Quantile(quantile) => write!(f, "p{}", (quantile * 1e9).round() / 1e7),
            Metric::Mean => f.write_str("mean"),
            Metric::Min => f.write_str("min"),
            Metric::Max => f.write_str("max"),
            Metric::Count => f.write_str("count"),
            Metric::Rate => f.write_str("rate"),
            Metric::Oldest => f.write_str("oldest"),
            Metric::Waiting(None) => f.write_str("waiting"),
            Metric::Waiting(Some(age_ns)) => write!(f, "waiting({})", format_duration_exact(*age_ns)),
            Metric::Over(bound_ns) => write!(f, "over({})", format_duration_exact(*bound_ns)),
            Metric::Bytes => f.write_str("bytes"),
            Metric::Throughput => f.write_str("throughput"),
            Metric::Lost => f.write_str("lost"),
            Metric::Hosts => f.write_str("hosts"),
            Metric::Missing => f.write_str("missing"),
            Metric::Lag => f.write_str("lag"),
            Metric::Offset => f.write_str("offset"),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.metric {
            Metric::Over(_) => format!("{}%", (self.value * 1e9).round() / 1e7),
            Metric::Bytes => format_size_exact(self.value as u64),
            Metric::Throughput => format!("{}/s", format_size_exact(self.value as u64)),
            metric if metric.is_duration() => format_duration_exact(self.value as u64),
            _ => self.value.to_string(),
        };
        let (sign, equal) = (if self.above { ">" } else { "<" }, if self.or_equal { "=" } else { "" });
        write!(f, "{} {sign}{equal} {value}", self.metric)
    }
}

#[cfg(test)]
mod tests;
