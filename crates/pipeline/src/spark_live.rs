//! What the executors of running applications do now: as they report it to Graphite's port, or as the REST API answers.

use crate::{Executors, Graphite};
use latscope_capture_file::{SparkNow, SparkNumbers, Unanswered};
use latscope_event::spark::SparkSpan;
use latscope_series::spark::{Usage, UsageSample};
use latscope_series::{SparkCgroup, SparkExecutorNow, SparkMetric, SparkMetrics, SparkSample};
use std::collections::BTreeMap;

/// Where running applications are heard of.
pub enum SparkLive {
    /// They report by themselves.
    Graphite(Graphite),
    /// One is asked.
    Rest(Box<SparkPoll>),
}

/// An application that is asked.
pub struct SparkPoll {
    now: SparkNow,
    metrics: SparkMetrics,
}

impl SparkLive {
    /// The application whose driver has this URL.
    ///
    /// # Errors
    /// A sentence.
    pub fn rest(url: &str) -> Result<SparkLive, String> {
        let now = SparkNow::open(url)?;
        Ok(SparkLive::Rest(Box::new(SparkPoll { now, metrics: SparkMetrics::default() })))
    }

    /// The newest queries, jobs and stages; Spark does not report them to Graphite.
    pub fn spans(&self) -> Vec<SparkSpan> {
        match self {
            SparkLive::Graphite(_) => Vec::new(),
            SparkLive::Rest(poll) => poll.now.spans().cloned().collect(),
        }
    }

    /// Who reported since the last call, or what is answered at this second since 1970.
    ///
    /// # Errors
    /// When an application that is asked does not answer.
    pub fn take(&mut self, at_s: i64) -> Result<Vec<SparkExecutorNow>, Unanswered> {
        match self {
            SparkLive::Graphite(graphite) => Ok(graphite.take()),
            SparkLive::Rest(poll) => {
                let answer = poll.now.ask()?;
                answer.iter().for_each(|numbers| add(&mut poll.metrics, poll.now.id(), numbers, at_s));
                Ok(poll.metrics.take())
            }
        }
    }
}

fn add(metrics: &mut SparkMetrics, app: &str, of: &SparkNumbers, at_s: i64) {
    let executor = of.executor.as_deref().unwrap_or(SparkExecutorNow::WHOLE);
    for &(name, value) in &of.numbers {
        if let Some(metric) = SparkMetric::ALL.into_iter().find(|metric| metric.name() == name) {
            metrics.add(&SparkSample { app, executor, metric, value, at_s });
        }
    }
}

/// The control groups of executors that run on this machine.
pub struct SparkCgroups {
    executors: Executors,
    /// By application and executor.
    last: BTreeMap<(String, String), (String, UsageSample)>,
}

impl SparkCgroups {
    /// Of all executors that are found.
    pub fn new(executors: Executors) -> SparkCgroups {
        SparkCgroups { executors, last: BTreeMap::new() }
    }

    /// Adds to those who reported what their control groups count at this time, Unix nanoseconds.
    pub fn add(&mut self, reported: &mut [SparkExecutorNow], time_ns: i64) {
        let last = std::mem::take(&mut self.last);
        for executor in self.executors.find() {
            let Some(row) = self.executors.sample(&executor, time_ns) else { continue };
            let key = (row.app, row.executor);
            let before = last.get(&key).filter(|(name, _)| *name == row.group.0).map(|(_, sample)| sample);
            let cores = |of: Usage| {
                let more = row.sample.values[of as usize]?.checked_sub(before?.values[of as usize]?)?;
                Some(more as f64 / time_ns.abs_diff(before?.time_ns).max(1) as f64)
            };
            let group = SparkCgroup {
                name: row.group.0.clone(),
                cpu: cores(Usage::Cpu),
                throttled: cores(Usage::ThrottledTime),
                memory: row.sample.values[Usage::Memory as usize],
            };
            if let Some(found) = reported.iter_mut().find(|found| (&found.app, &found.executor) == (&key.0, &key.1)) {
                found.group = Some(group);
            }
            self.last.insert(key, (row.group.0, row.sample));
        }
    }
}
