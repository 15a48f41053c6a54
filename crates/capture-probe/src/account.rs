//! What a probe counts about its own requests, for the context of a trace.

use crate::{Cache, Probe, Sample};
use latscope_event::{Anomaly, Context, format_count, format_duration};

/// Of one target.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub requests: u64,
    failed: u64,
    short: u64,
    /// Reads that were looked at, and those whose data was not where it should have been.
    looked_at: u64,
    misplaced: u64,
    slow: u64,
    slow_ns: u64,
    slow_wait_ns: u64,
    lag_max_ns: u64,
    pub not_sent: u64,
}

impl Account {
    pub fn add(&mut self, probe: &Probe, samples: &[Sample]) {
        self.requests += samples.len() as u64;
        let size = probe.work.size as i32;
        let wanted = probe.work.cache == Cache::Hot;
        for sample in samples {
            if sample.result == size
                && sample.cached.is_none()
                && sample.cpu_wait_ns == Sample::UNKNOWN
                && !probe.pace.open
            {
                continue;
            }
            if sample.result != size {
                self.failed += u64::from(sample.result < 0);
                self.short += u64::from(sample.result >= 0);
            }
            if let Some(cached) = sample.cached {
                self.looked_at += 1;
                self.misplaced += u64::from(cached != wanted);
            }
            if sample.cpu_wait_ns != Sample::UNKNOWN {
                self.slow += 1;
                self.slow_ns += sample.service_ns();
                self.slow_wait_ns += u64::from(sample.cpu_wait_ns);
            }
            self.lag_max_ns = self.lag_max_ns.max(sample.lag_ns());
        }
    }

    /// Puts it into the context, with `suffix` behind the names.
    pub fn report(&self, context: &mut Context, probe: &Probe, suffix: &str) {
        let placed = if probe.work.cache == Cache::Hot { Anomaly::NotHot } else { Anomaly::NotCold };
        context.tally.add(placed, self.misplaced);
        context.tally.add(Anomaly::NotSent, self.not_sent);
        context.tally.add(Anomaly::FailedRequests, self.failed);
        context.tally.add(Anomaly::ShortRequests, self.short);
        let mut put = |key: &str, value: String| context.properties.insert(format!("{key}{suffix}"), value);
        put("requests", self.requests.to_string());
        if self.looked_at > 0 {
            let (found, looked_at) = (format_count(self.looked_at - self.misplaced), format_count(self.looked_at));
            put("cache_verified", format!("{found} of {looked_at} looked at were {}", probe.work.cache.word()));
        }
        if self.slow > 0 {
            let (waited, all) = (format_duration(self.slow_wait_ns), format_duration(self.slow_ns));
            let requests = if self.slow == 1 { "request" } else { "requests" };
            put("cpu_wait", format!("{waited} of the {all} of {} slow {requests}", format_count(self.slow)));
        }
        if probe.pace.open {
            put("lag_max", format_duration(self.lag_max_ns));
        }
    }
}
