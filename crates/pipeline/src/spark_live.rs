//! What the executors of running applications do now: as they report it to Graphite's port, or as the REST API answers.

use crate::Graphite;
use latscope_capture_file::{SparkNow, SparkNumbers, Unanswered};
use latscope_series::{SparkExecutorNow, SparkMetric, SparkMetrics, SparkSample};

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
