//! What is counted of one target, sample by sample.

use super::stats::{Notice, Stats};
use crate::plan::PingShow;
use latscope_capture_probe::{Cache, Due, Probe, Sample};
use latscope_histogram::{Grid, Histogram, Rule};
use std::sync::{Arc, Mutex};

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
    /// Of those that count: where the data came from, and how long a CPU was waited for.
    pub cache: Option<Cache>,
    pub looked_at: u64,
    pub misplaced: u64,
    pub slow: u64,
    pub slow_ns: u64,
    pub slow_wait_ns: u64,
    pub lag: Option<Histogram>,
    /// Latencies of requests of which nothing else is to be told, not counted yet.
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
            } else if self.add(sample).0 == Notice::Empty {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What `ioping WORDS` would count with, also in an open loop.
    fn meter(words: &str, open: bool) -> Meter {
        let words: Vec<_> = words.split_whitespace().map(Into::into).collect();
        let Ok(crate::plan::Plan::Ping(mut plan)) = crate::plan::ioping(&words) else { panic!("no plan") };
        plan.probes[0].pace.open = open;
        Meter::new(&plan.probes[0], &plan.show)
    }

    #[test]
    fn many_at_once_count_as_one_by_one() {
        let mut number = 1u64;
        let mut samples = Vec::new();
        for at in 0..5000u64 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = number >> 33;
            let submitted_ns = 1000 + at * 1000;
            samples.push(Sample {
                intended_ns: submitted_ns - random % 7,
                submitted_ns,
                completed_ns: submitted_ns + 1 + random % 900,
                offset: 0,
                result: [4096, 4096, 4096, 0, -5, 512][(random % 6) as usize],
                cpu_wait_ns: if random.is_multiple_of(11) { 3 } else { Sample::UNKNOWN },
                write: false,
                cached: [None, None, Some(true), Some(false)][(random % 4) as usize],
            });
        }
        assert!(samples.iter().all(|sample| sample.intended_ns <= sample.submitted_ns));
        for (words, open) in [("-q x", false), ("-q -a 70 -t 50ns -T 700ns x", false), ("-q -C x", true)] {
            let (mut single, mut together) = (meter(words, open), meter(words, open));
            let mut empty = [0, 0];
            for sample in &samples {
                empty[0] += u64::from(single.add(sample).0 == Notice::Empty);
            }
            for block in samples.chunks(97) {
                together.add_all(block, || empty[1] += 1);
            }
            assert_eq!(empty[0], empty[1]);
            assert_eq!(single.total, together.total, "{words}");
            assert_eq!(single.histogram.to_sparse(), together.histogram.to_sparse(), "{words}");
            let rest = |meter: &Meter| {
                let lag = meter.lag.as_ref().map(Histogram::to_sparse);
                (meter.requests, meter.end_ns, meter.looked_at, meter.misplaced, meter.slow, meter.slow_wait_ns, lag)
            };
            assert_eq!(rest(&single), rest(&together), "{words}");
        }
    }
}
