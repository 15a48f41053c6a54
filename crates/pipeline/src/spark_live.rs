//! What the executors of running applications do now: as they report it to Graphite's port, or as the REST API answers.

use crate::graphite::Unusable;
use crate::{Executors, Graphite};
use latscope_capture_file::{SparkNow, SparkNumbers, Unanswered};
use latscope_event::spark::SparkSpan;
use latscope_series::spark::{Usage, UsageSample};
use latscope_series::{SparkCgroup, SparkExecutorNow, SparkMetric, SparkMetrics, SparkSample};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long an answer is waited for. One that takes longer is taken the next time.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where running applications are heard of.
pub enum SparkLive {
    /// They report by themselves.
    Graphite(Graphite),
    /// One is asked.
    Rest(Box<SparkPoll>),
}

/// An application that is asked, on a thread of its own: a driver that hangs is waited for until its connection times out.
pub struct SparkPoll {
    app: String,
    turns: Sender<()>,
    answers: Receiver<Answer>,
    is_asked: bool,
    spans: Vec<SparkSpan>,
    metrics: SparkMetrics,
    unusable: Unusable,
}

/// What executors do, and the newest queries, jobs and stages.
type Answer = Result<(Vec<SparkNumbers>, Vec<SparkSpan>), Unanswered>;

impl SparkLive {
    /// The application whose driver has this URL.
    ///
    /// # Errors
    /// A sentence.
    pub fn rest(url: &str) -> Result<SparkLive, String> {
        let mut now = SparkNow::open(url)?;
        let (app, (turns, turn), (answer, answers)) = (now.id().to_string(), channel(), channel());
        thread::spawn(move || {
            while turn.recv().is_ok() {
                let told = now.ask().map(|numbers| (numbers, now.spans().cloned().collect()));
                if answer.send(told).is_err() {
                    return;
                }
            }
        });
        let (spans, metrics, unusable) = (Vec::new(), SparkMetrics::default(), Unusable::default());
        Ok(SparkLive::Rest(Box::new(SparkPoll { app, turns, answers, is_asked: false, spans, metrics, unusable })))
    }

    /// The newest queries, jobs and stages; Spark does not report them to Graphite.
    pub fn spans(&self) -> Vec<SparkSpan> {
        match self {
            SparkLive::Graphite(_) => Vec::new(),
            SparkLive::Rest(poll) => poll.spans.clone(),
        }
    }

    /// The lines, or values of an answer, that could not be used so far.
    pub fn unusable(&self) -> Unusable {
        match self {
            SparkLive::Graphite(graphite) => graphite.unusable(),
            SparkLive::Rest(poll) => poll.unusable,
        }
    }

    /// Who reported since the last call, or what is answered at this second since 1970; `None` while there is no answer yet.
    ///
    /// # Errors
    /// When an application that is asked does not answer.
    pub fn take(&mut self, at_s: i64) -> Result<Option<Vec<SparkExecutorNow>>, Unanswered> {
        match self {
            SparkLive::Graphite(graphite) => Ok(Some(graphite.take())),
            SparkLive::Rest(poll) => poll.take(at_s),
        }
    }
}

impl SparkPoll {
    fn take(&mut self, at_s: i64) -> Result<Option<Vec<SparkExecutorNow>>, Unanswered> {
        // The thread lives as long as what it is asked with.
        if !std::mem::replace(&mut self.is_asked, true) {
            let _ = self.turns.send(());
        }
        let answer = match self.answers.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Unanswered { why: "nobody asks any more".into(), is_over: true });
            }
            Ok(answer) => answer,
        };
        self.is_asked = false;
        let (numbers, spans) = answer?;
        self.spans = spans;
        numbers.iter().for_each(|numbers| self.add(numbers, at_s));
        Ok(Some(self.metrics.take()))
    }

    fn add(&mut self, of: &SparkNumbers, at_s: i64) {
        let (app, executor) = (&*self.app, of.executor.as_deref().unwrap_or(SparkExecutorNow::WHOLE));
        for &(name, value) in &of.numbers {
            let Some(metric) = SparkMetric::ALL.into_iter().find(|metric| metric.name() == name) else { continue };
            if let Err(why) = self.metrics.add(&SparkSample { app, executor, metric, value, at_s }) {
                self.unusable.0 += 1;
                self.unusable.1.get_or_insert(why);
            }
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
