//! What is counted of one target, sample by sample.

use super::amount::time;
use super::stats::{Class, Stats};
use crate::plan::PingShow;
use latscope_capture_probe::{Cache, Capture, Due, Overdue, Probe, Sample};
use latscope_histogram::{Grid, Histogram, Rule};
use latscope_series::{Support, Waiting};
use std::sync::{Arc, Mutex};

/// The percentiles that are shown, and their names.
const PERCENTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// Overdue requests are counted one by one up to this number; of more, each counts for several.
const OVERDUE: u64 = 1 << 20;

/// A percentile, and what it can be trusted for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentile {
    /// `p99`.
    pub name: &'static str,
    /// Nanoseconds; `None` where there is no request.
    pub ns: Option<u64>,
    /// Fewer than ten requests are slower.
    pub is_vague: bool,
    /// Requests that are not done are among those that it lies among: it is at least this.
    pub is_bound: bool,
}

impl Percentile {
    /// The names of those that are shown.
    pub fn names() -> [&'static str; PERCENTILES.len()] {
        PERCENTILES.map(|(name, _)| name)
    }
}

/// As in all tables: `2.93 s`, `30.3 ms?`, `>=2.93 s?`.
impl std::fmt::Display for Percentile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(ns) = self.ns else { return f.write_str("-") };
        let (bound, vague) = (if self.is_bound { ">=" } else { "" }, if self.is_vague { "?" } else { "" });
        write!(f, "{bound}{}{vague}", time(ns as f64))
    }
}

/// Statistics of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub stats: Stats,
    /// Requests that were in flight or overdue at its end, each with the time that it had waited by then.
    pub open: Stats,
    /// When it ended, nanoseconds since the start.
    pub until_ns: u64,
    /// How long it was.
    pub wall_ns: u64,
}

/// Of those who count and those who show.
pub type Shared = Arc<Mutex<Meter>>;

/// Counts the samples of one target.
pub struct Meter {
    show: PingShow,
    pub requests: u64,
    pub total: Stats,
    /// Windows are printed, or requests compared with those of theirs.
    has_windows: bool,
    window: Stats,
    window_from_ns: u64,
    window_until_ns: u64,
    /// When the next request is due, which is when a window can end.
    due: Due,
    pub end_ns: u64,
    pub histogram: Histogram,
    /// Requests that are not done at the end: how long each has waited.
    pub open: Stats,
    /// The same, for percentiles and service levels.
    pub waiting: Waiting,
    /// Of those that count: where the data came from, and how long a CPU was waited for.
    pub cache: Option<Cache>,
    pub looked_at: u64,
    pub misplaced: u64,
    pub slow: u64,
    pub slow_ns: u64,
    pub slow_wait_ns: u64,
    pub lag: Option<Histogram>,
    /// Latencies of requests without anything else to report, not counted yet.
    plain: Vec<u64>,
}

impl Meter {
    pub fn new(probe: &Probe, show: &PingShow) -> Meter {
        Meter {
            show: show.clone(),
            requests: 0,
            total: Stats::default(),
            has_windows: show.print_interval_ns.is_some() || show.print_count.is_some() || !show.quiet,
            window: Stats::default(),
            window_from_ns: 0,
            window_until_ns: show.print_interval_ns.unwrap_or(u64::MAX),
            due: Due::new(probe.pace),
            end_ns: 0,
            histogram: Histogram::new(Grid::FINE, false),
            open: Stats::default(),
            waiting: Waiting::default(),
            cache: Some(probe.work.cache).filter(|&cache| cache != Cache::Any && probe.work.verify_cache),
            looked_at: 0,
            misplaced: 0,
            slow: 0,
            slow_ns: 0,
            slow_wait_ns: 0,
            lag: probe.pace.open.then(|| Histogram::new(Grid::FINE, false)),
            plain: Vec::new(),
        }
    }

    /// One request; what is to be noted of it, and the window that it ends.
    #[inline]
    pub fn add(&mut self, sample: &Sample) -> (Class, Option<Window>) {
        self.requests += 1;
        self.end_ns = sample.completed_ns;
        let class = Class::new(sample, self.requests, &self.show, &self.window);
        class.count(sample, &mut self.total);
        if self.has_windows {
            class.count(sample, &mut self.window);
        }
        if class.is_valid() {
            self.histogram.record(sample.latency_ns(), 0);
            self.surroundings(sample);
        }
        (class, self.ended_window(sample))
    }

    /// Several requests, where there are no windows; those that moved nothing go to `empty`. The same as one by one, in
    /// half the time.
    pub fn add_all(&mut self, samples: &[Sample], mut empty: impl FnMut()) {
        debug_assert!(!self.has_windows);
        for sample in samples {
            let ns = sample.latency_ns();
            let is_plain = sample.result > 0
                && sample.cpu_wait_ns == Sample::UNKNOWN
                && sample.cached.is_none()
                && self.lag.is_none()
                && self.requests >= self.show.warmup
                && (self.show.min_time_ns..=self.show.max_time_ns).contains(&ns);
            if is_plain {
                self.requests += 1;
                self.plain.push(ns);
            } else if self.add(sample).0 == Class::Empty {
                empty();
            }
        }
        self.end_ns = samples.last().map_or(self.end_ns, |sample| sample.completed_ns);
        self.total.add_all(&self.plain);
        self.histogram.record_all(&self.plain, 1);
        self.plain.clear();
    }

    #[inline]
    fn surroundings(&mut self, sample: &Sample) {
        if let Some(cached) = sample.cached {
            self.looked_at += 1;
            self.misplaced += u64::from(cached != (self.cache == Some(Cache::Hot)));
        }
        if sample.cpu_wait_ns != Sample::UNKNOWN {
            self.slow += 1;
            self.slow_ns += sample.service_ns();
            self.slow_wait_ns += u64::from(sample.cpu_wait_ns);
        }
        if let Some(lag) = &mut self.lag {
            lag.record(sample.lag_ns(), 0);
        }
    }

    #[inline]
    fn ended_window(&mut self, sample: &Sample) -> Option<Window> {
        if !self.has_windows {
            return None;
        }
        self.due.advance(sample.completed_ns);
        let full = self.show.print_count.is_some_and(|count| self.window.count >= count);
        if !full && self.due.next_ns() < self.window_until_ns {
            return None;
        }
        Some(self.end_window(sample.completed_ns, Stats::default()))
    }

    fn end_window(&mut self, until_ns: u64, open: Stats) -> Window {
        let stats = std::mem::take(&mut self.window);
        let window = Window { stats, open, until_ns, wall_ns: until_ns.saturating_sub(self.window_from_ns) };
        self.window_from_ns = until_ns;
        self.window_until_ns = self.show.print_interval_ns.map_or(u64::MAX, |ns| until_ns.saturating_add(ns));
        window
    }

    /// While requests hang no sample ends a window; the clock does, an interval after it should have ended.
    pub fn overdue_window(&mut self, now_ns: u64, open: &Open) -> Option<Window> {
        let interval_ns = self.show.print_interval_ns?;
        if open.oldest_ns() < interval_ns || now_ns < self.window_until_ns.max(self.window_from_ns + interval_ns) {
            return None;
        }
        let mut stats = Stats::default();
        open.each(|ns, count| {
            self.admit(ns, count, &mut stats);
        });
        Some(self.end_window(now_ns, stats))
    }

    /// The end, at which these requests are not done.
    pub fn end(&mut self, open: &Open, now_ns: u64) {
        let (mut stats, mut ages) = (Stats::default(), Vec::new());
        open.each(|ns, count| {
            if self.admit(ns, count, &mut stats) {
                ages.push((ns, count));
            }
        });
        (self.open, self.waiting) = (stats, Waiting::from_ages(ages));
        if stats.count > 0 {
            self.end_ns = now_ns;
        }
    }

    /// Counts requests that have waited for so long, if they would count by then: a warm-up that never ends does not.
    fn admit(&self, ns: u64, count: u64, stats: &mut Stats) -> bool {
        if ns > self.show.max_time_ns {
            stats.too_slow += count;
        }
        let counts = (self.show.min_time_ns..=self.show.max_time_ns).contains(&ns);
        if counts {
            stats.add_many(ns, count);
        }
        counts
    }

    /// All of it.
    pub fn whole(&self) -> Window {
        Window { stats: self.total, open: self.open, until_ns: self.end_ns, wall_ns: self.end_ns }
    }

    /// All requests that percentiles are of, those that are not done as well.
    pub fn requests(&self) -> u64 {
        self.total.count + self.open.count
    }

    /// The percentiles of all requests, those that are not done with the time that they have waited.
    pub fn percentiles(&self) -> Vec<Percentile> {
        let quantiles = PERCENTILES.map(|(_, quantile)| quantile);
        let values = self.waiting.quantiles(&self.histogram.to_sparse(), &quantiles, Rule::Interpolated);
        let count = self.requests() as f64;
        let of = |(at, (name, quantile)): (usize, (&'static str, f64))| {
            let raised = values.as_ref().map(|values| values[at]);
            Percentile {
                name,
                ns: raised.map(|raised| raised.value),
                is_vague: Support::new(quantile, count) != Support::Enough,
                is_bound: raised.is_some_and(|raised| raised.at_least),
            }
        };
        PERCENTILES.into_iter().enumerate().map(of).collect()
    }
}

/// Requests of a target that are not done.
#[derive(Default)]
pub struct Open {
    /// How long each of those in flight has waited.
    in_flight_ns: Vec<u64>,
    overdue: Vec<Overdue>,
}

impl Open {
    /// Of every target, now.
    pub fn per_target(capture: &Capture, targets: usize) -> Vec<Open> {
        let mut all: Vec<Open> = std::iter::repeat_with(Open::default).take(targets).collect();
        capture.outstanding().iter().for_each(|request| all[request.target].in_flight_ns.push(request.age_ns));
        capture.overdue().into_iter().for_each(|overdue| all[overdue.target].overdue.push(overdue));
        all
    }

    /// How long the oldest has waited, nanoseconds; 0 if none waits.
    pub fn oldest_ns(&self) -> u64 {
        let overdue = self.overdue.iter().map(|overdue| overdue.age_ns);
        self.in_flight_ns.iter().copied().chain(overdue).max().unwrap_or(0)
    }

    /// The ages, nanoseconds, and how many requests have each.
    pub fn each(&self, mut take: impl FnMut(u64, u64)) {
        self.in_flight_ns.iter().for_each(|&ns| take(ns, 1));
        for overdue in &self.overdue {
            let together = overdue.count.div_ceil(OVERDUE);
            for first in (0..overdue.count).step_by(together as usize) {
                // The youngest stands for all of them, so that none is reported to be older than it is.
                let count = together.min(overdue.count - first);
                let younger_ns = ((first + count - 1) as f64 * overdue.step_ns) as u64;
                take(overdue.age_ns.saturating_sub(younger_ns), count);
            }
        }
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
