//! Exports of a running hub or agent: adds up, answers who scrapes, pushes, and keeps its state over restarts.

use super::metrics::{Labels, Layouts, Reading, Value};
use super::own::{AgentState, HubState};
use super::prometheus::Encoding;
use super::push::{Outcome, Pusher, Target};
use super::remote_write::Batch;
use super::state;
use super::totals::Totals;
use crate::Closed;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is looked at whether something is due.
const TURN: Duration = Duration::from_millis(100);
/// How long servers have for what is left at the end.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is exported, and where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Where to push.
    pub targets: Vec<Target>,
    /// How often.
    pub every: Duration,
    /// The certificates that are trusted; those of the system where it is `None`.
    pub ca: Option<PathBuf>,
    /// Labels of every series.
    pub labels: Vec<(String, String)>,
    /// The file that keeps what was added up over a restart.
    pub state: Option<PathBuf>,
}

/// What becomes of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushChange {
    /// It takes what is pushed.
    Works(Target),
    /// It does not, and why; what is pushed is kept for a while.
    Fails(Target, String),
    /// Something was dropped, and why.
    Dropped(Target, String),
    /// The state cannot be written, and why.
    Unwritten(String),
    /// The state from before could not be used: a sentence.
    Damaged(String),
    /// What others pushed was not taken, by reason.
    Refused(String),
}

/// Exports of a hub or an agent.
pub struct Exporter {
    settings: Settings,
    totals: Mutex<Totals>,
    pushers: Vec<Pusher>,
    pending: Mutex<Pending>,
    own: Mutex<Own>,
    started_ms: i64,
    /// What was wrong with the state from before.
    damaged: Option<String>,
}

/// What the hub is, beside what it has.
#[derive(Default)]
struct Own {
    readings: Vec<Reading>,
    /// Series that ended since the last push.
    ended: Vec<Reading>,
}

struct Pending {
    /// What was read for each pusher since the last push.
    batches: Vec<Batch>,
    /// The end of the last interval that was pushed.
    pushed_ms: Option<i64>,
}

impl Exporter {
    /// With the state that was kept.
    ///
    /// # Errors
    /// A sentence, when certificates or the state cannot be read.
    pub fn new(settings: Settings) -> Result<Exporter, String> {
        let pusher = |target: &Target| Pusher::new(target.clone(), settings.ca.as_deref());
        let pushers = settings.targets.iter().map(pusher).collect::<Result<Vec<_>, _>>()?;
        let mut totals = Totals::new(&settings.labels, now_ms());
        let restored = settings.state.as_ref().map(|path| state::restore(path, &mut totals)).transpose()?;
        let batches = pushers.iter().map(|_| Batch::default()).collect();
        let pending = Mutex::new(Pending { batches, pushed_ms: None });
        let (totals, own) = (Mutex::new(totals), Mutex::default());
        Ok(Exporter { settings, totals, pushers, pending, own, started_ms: now_ms(), damaged: restored.flatten() })
    }

    /// Adds what was merged.
    pub fn add(&self, closed: &Closed) {
        let (mut pending, mut totals) = (self.pending(), self.totals());
        let was_over = totals.has_late(closed);
        totals.add(closed, &mut |totals, end_ms| {
            for (pusher, batch) in self.pushers.iter().zip(&mut pending.batches) {
                for (time_ms, reading) in totals.changes(end_ms, pusher.layouts()) {
                    batch.add(time_ms, reading);
                }
            }
        });
        // After a restart the journal has what was over since, but does not tell what came late for what was over before: nobody reads
        // that before it is kept. Whether it can be is found out at the next turn.
        if let Some(path) = self.settings.state.as_ref().filter(|_| was_over) {
            let _ = state::save(path, &totals);
        }
    }

    /// Sets what is exported of the hub itself.
    pub fn set_state(&self, state: &HubState) {
        let readings = state.readings(self.totals().own(), self.started_ms);
        self.set_own(readings);
    }

    /// Sets what is exported of the agent itself.
    pub fn set_agent(&self, state: AgentState) {
        let readings = state.readings(self.totals().own(), self.started_ms);
        self.set_own(readings);
    }

    fn set_own(&self, readings: Vec<Reading>) {
        let mut own = self.own();
        let before = std::mem::take(&mut own.readings);
        if !self.pushers.is_empty() {
            let known: HashSet<(usize, &Labels)> = readings.iter().map(|new| (new.metric, &new.labels)).collect();
            let gone = before.into_iter().filter(|old| !known.contains(&(old.metric, &old.labels)));
            own.ended.extend(gone.map(|reading| Reading { value: Value::Ended, ..reading }));
        }
        own.readings = readings;
    }

    /// An answer for who scrapes.
    pub fn scraped(&self, encoding: Encoding) -> Vec<u8> {
        let layouts = Layouts { exponential: true, le: true, vmrange: false };
        let mut readings = self.totals().readings(now_ms(), layouts);
        readings.extend(self.own().readings.iter().cloned());
        encoding.encode(&readings)
    }

    /// Pushes in threads of this scope until it is over.
    pub fn start<'scope, 'env>(
        &'scope self,
        scope: &'scope Scope<'scope, 'env>,
        is_over: &'scope (dyn Fn() -> bool + Sync),
        report: &'scope (dyn Fn(PushChange) + Sync),
    ) {
        self.damaged.iter().for_each(|why| report(PushChange::Damaged(why.clone())));
        for pusher in &self.pushers {
            scope.spawn(move || {
                pusher.run(PATIENCE, &|outcome| {
                    let target = pusher.target().clone();
                    report(match outcome {
                        Outcome::Works => PushChange::Works(target),
                        Outcome::Fails(why) => PushChange::Fails(target, why),
                        Outcome::Dropped(why) => PushChange::Dropped(target, why),
                    });
                });
            });
        }
        scope.spawn(move || {
            let mut due = Instant::now() + self.settings.every;
            let mut was_written = true;
            while !is_over() {
                sleep(TURN);
                if Instant::now() < due {
                    continue;
                }
                due += self.settings.every;
                let written = self.push(report, false);
                if let Err(why) = &written
                    && was_written
                {
                    report(PushChange::Unwritten(why.clone()));
                }
                was_written = written.is_ok();
            }
        });
    }

    /// Pushes what is left, and that all series end; to be called when nothing is added any more.
    ///
    /// # Errors
    /// A sentence, when the state cannot be written.
    pub fn end(&self, report: &dyn Fn(PushChange)) -> Result<(), String> {
        let written = self.push(report, true);
        let (totals, now_ms) = (self.totals(), now_ms());
        for pusher in &self.pushers {
            let mut ends = Batch::default();
            let own = self.own().readings.clone();
            for reading in totals.readings(now_ms, Layouts::default()).into_iter().chain(own) {
                let time_ms = if reading.is_of_intervals() { totals.end_ms().unwrap_or(now_ms) + 1 } else { now_ms };
                // Behind the last value, and before the first one after a restart.
                ends.add(time_ms + 1, Reading { value: Value::Ended, ..reading });
            }
            pusher.add(ends);
            pusher.end();
        }
        written
    }

    /// Hands on what was read since the last push; at the end also what came late for the last interval, as a sample behind it.
    fn push(&self, report: &dyn Fn(PushChange), is_last: bool) -> Result<(), String> {
        let (mut guard, totals) = (self.pending(), self.totals());
        let Pending { batches, pushed_ms } = &mut *guard;
        // First, so that nothing that was pushed can be lost by a restart.
        let written = self.settings.state.as_ref().map_or(Ok(()), |path| state::save(path, &totals));
        let (now_ms, end_ms) = (now_ms(), totals.end_ms());
        let own = {
            let mut own = self.own();
            let ended = std::mem::take(&mut own.ended);
            // What ended and came again has not ended.
            let is_over =
                |old: &Reading| !own.readings.iter().any(|new| (new.metric, &new.labels) == (old.metric, &old.labels));
            let mut all: Vec<Reading> = ended.into_iter().filter(is_over).collect();
            all.extend(own.readings.iter().cloned());
            all
        };
        let has_intervals = end_ms > *pushed_ms;
        *pushed_ms = end_ms;
        for (pusher, batch) in self.pushers.iter().zip(batches) {
            for reading in totals.readings(now_ms, pusher.layouts()) {
                // Intervals that come late may still end before now.
                match (reading.is_of_intervals(), end_ms) {
                    (false, _) => batch.add(now_ms, reading),
                    (true, Some(end_ms)) if is_last => batch.add(end_ms + 1, reading),
                    (true, Some(end_ms)) if has_intervals => batch.add(end_ms, reading),
                    (true, _) => {}
                }
            }
            own.iter().for_each(|reading| batch.add(now_ms, reading.clone()));
            let dropped = pusher.add(std::mem::take(batch));
            if dropped > 0 {
                let why = format!("{dropped} of the oldest values, as too many wait");
                report(PushChange::Dropped(pusher.target().clone(), why));
            }
        }
        written
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
