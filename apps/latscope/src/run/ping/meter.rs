//! What is counted of one target, sample by sample.

use super::stats::{Notice, Stats};
use crate::plan::PingShow;
use latscope_capture_probe::{Cache, Due, Probe, Sample};
use latscope_histogram::{Grid, Histogram, Rule};

/// The percentiles that are shown, and their names.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// So many requests must be slower than a percentile for it to mean something.
const BEYOND: f64 = 10.0;

/// Statistics of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub stats: Stats,
    /// When it ended, nanoseconds since the start.
    pub until_ns: u64,
    /// How long it was.
    pub wall_ns: u64,
}

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
    /// Of those that count: where the data came from, and how long a CPU was waited for.
    pub cache: Option<Cache>,
    pub looked_at: u64,
    pub misplaced: u64,
    pub slow: u64,
    pub slow_ns: u64,
    pub slow_wait_ns: u64,
    pub lag: Option<Histogram>,
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
            cache: Some(probe.work.cache).filter(|&cache| cache != Cache::Any && probe.work.verify_cache),
            looked_at: 0,
            misplaced: 0,
            slow: 0,
            slow_ns: 0,
            slow_wait_ns: 0,
            lag: probe.pace.open.then(|| Histogram::new(Grid::FINE, false)),
        }
    }

    /// One request; what is to be noted of it, and the window that it ends.
    #[inline]
    pub fn add(&mut self, sample: &Sample) -> (Notice, Option<Window>) {
        self.requests += 1;
        self.end_ns = sample.completed_ns;
        let notice = Notice::of(sample, self.requests, &self.show, &self.window);
        notice.count(sample, &mut self.total);
        if self.has_windows {
            notice.count(sample, &mut self.window);
        }
        if notice.is_valid() {
            self.histogram.record(sample.latency_ns(), 0);
            self.surroundings(sample);
        }
        (notice, self.ended_window(sample))
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
        let until_ns = sample.completed_ns;
        let window = Window {
            stats: std::mem::take(&mut self.window),
            until_ns,
            wall_ns: until_ns.saturating_sub(self.window_from_ns),
        };
        self.window_from_ns = until_ns;
        self.window_until_ns = self.show.print_interval_ns.map_or(u64::MAX, |ns| until_ns.saturating_add(ns));
        Some(window)
    }

    /// All of it.
    pub fn whole(&self) -> Window {
        Window { stats: self.total, until_ns: self.end_ns, wall_ns: self.end_ns }
    }

    /// Percentiles, `None` where there are too few requests for one.
    pub fn percentiles(&self) -> Vec<(&'static str, Option<u64>)> {
        let values = self.histogram.quantiles(&PERCENTILES.map(|(_, quantile)| quantile), Rule::Interpolated);
        let count = self.total.count as f64;
        let known = |quantile: f64| (1.0 - quantile) * count >= BEYOND * (1.0 - 1e-9);
        let value = |at: usize| values.as_ref().map(|values| values[at]);
        PERCENTILES
            .iter()
            .enumerate()
            .map(|(at, &(name, quantile))| (name, value(at).filter(|_| known(quantile))))
            .collect()
    }
}
