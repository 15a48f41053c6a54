//! Alerts of a hub that serves: a turn ten times a second, and a thread for each destination.

use super::alert::{Alert, Change};
use super::courier::{Courier, check_deliveries};
use super::engine::{Engine, Filters};
use super::fault::faults;
use super::queue::{DeliveryQueue, SavedQueue, Undelivered};
use super::rules::{Delivery, Rules};
use super::saved::Saved;
use super::slo::BudgetState;
use crate::Hub;
use crate::clock::now_ns;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, scope, sleep};
use std::time::{Duration, Instant, SystemTime};

const TURN: Duration = Duration::from_millis(100);
/// How often states are saved though no alert has changed.
const SAVE: Duration = Duration::from_secs(60);
/// How often hosts, certificates and the file of alerts are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// After a start hosts need so long to connect again, nanoseconds.
const SETTLE_NS: i64 = 60_000_000_000;
/// How long the last deliveries may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What happens to alerts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// One fires or is resolved.
    Changed(Change),
    /// A rule cannot be judged, and why.
    Refused(String),
    /// A destination takes nothing, and why.
    Undelivered(String, String),
    /// So many changes will never be delivered to a destination.
    Dropped(String, u64),
    /// It takes alerts again.
    Delivered(String),
    /// The states cannot be saved, and why.
    Unsaved(String),
    /// The states from before could not be used: a sentence.
    Damaged(String),
    /// The file was read again.
    Reloaded,
    /// The file cannot be read again, and why: the rules from before stay.
    Unloaded(String),
}

/// A file of alerts that is read again when it changes.
pub struct RulesFile<'a> {
    /// The file.
    pub path: PathBuf,
    /// Reads it; an error is a sentence that names the file.
    pub read: &'a (dyn Fn(&Path) -> Result<Rules, String> + Send + Sync),
}

/// What is known of alerts now.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Active {
    /// What fires and what may fire soon, each with whether it fires.
    pub alerts: Vec<(bool, Alert)>,
    /// The budgets of objectives.
    pub budgets: Vec<BudgetState>,
}

/// Watches a hub.
pub struct Watcher<'a> {
    rules: Rules,
    file: Option<RulesFile<'a>>,
    filters: &'a Filters,
    /// Where states are saved.
    path: Option<PathBuf>,
    saved: Saved,
    /// What was wrong with them.
    damaged: Option<String>,
    /// Why the journal of the hub cannot be written.
    journal: Mutex<Option<String>>,
    is_reload_due: AtomicBool,
    active: Mutex<Arc<Active>>,
}

impl<'a> Watcher<'a> {
    /// Reads the states that were saved at this path.
    ///
    /// # Errors
    /// A sentence about the states or a destination.
    pub fn open(
        rules: Rules,
        file: Option<RulesFile<'a>>,
        filters: &'a Filters,
        path: Option<PathBuf>,
    ) -> Result<Watcher<'a>, String> {
        let read = |path: &PathBuf| Saved::read(path).map_err(|error| format!("{}: {error}.", path.display()));
        let (saved, damaged) = path.as_ref().map(read).transpose()?.unwrap_or_default();
        check_deliveries(&rules)?;
        let (journal, is_reload_due, active) = (Mutex::new(None), AtomicBool::new(false), Mutex::default());
        Ok(Watcher { rules, file, filters, path, saved, damaged, journal, is_reload_due, active })
    }

    /// The hub can write its journal, or cannot: why.
    pub fn set_journal(&self, failure: Option<String>) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Reads the file of alerts again, at the next turn.
    pub fn reload(&self) {
        self.is_reload_due.store(true, Ordering::Relaxed);
    }

    /// What is known of alerts now.
    pub fn active(&self) -> Arc<Active> {
        Arc::clone(&self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Watches until it is over.
    pub fn run(&self, hub: &Hub, is_over: &(dyn Fn() -> bool + Sync), report: &(dyn Fn(Report) + Sync)) {
        self.damaged.iter().for_each(|why| report(Report::Damaged(why.clone())));
        let mut engine = Engine::new(&self.rules, self.filters, now_ns() + SETTLE_NS);
        hub.keep_news(engine.asks_what_completed());
        let resolved = engine.restore(self.saved.clone(), now_ns());
        let (done, results) = channel();
        let is_given_up = Arc::new(AtomicBool::new(false));
        let changed = self.changed();
        scope(|scope| {
            let lines = Vec::new();
            let mut turns = Turns {
                watcher: self,
                engine,
                lines,
                numbers: 0,
                done,
                results,
                report,
                is_unsaved: false,
                changed,
                is_given_up,
            };
            turns.set_deliveries(scope, &self.rules.deliveries, &self.saved);
            turns.take_changes(resolved);
            turns.run(scope, hub, is_over);
        });
    }

    /// When the file of alerts changed last.
    fn changed(&self) -> Option<(SystemTime, u64)> {
        let metadata = self.file.as_ref()?.path.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

/// What is to be delivered.
type Messages = Vec<Vec<u8>>;
/// What came of each message.
type Results = Vec<Result<(), Undelivered>>;

/// Delivers one after the other.
fn work(
    courier: &Courier,
    number: u64,
    messages: &Receiver<Messages>,
    done: &Sender<(u64, Results)>,
    is_over: &AtomicBool,
) {
    for bodies in messages {
        if done.send((number, courier.deliver(&bodies, is_over))).is_err() {
            return;
        }
    }
}

/// A destination, and the way to its thread.
struct Line {
    number: u64,
    queue: DeliveryQueue,
    jobs: Sender<Messages>,
}

struct Turns<'a, 'b> {
    watcher: &'a Watcher<'b>,
    engine: Engine<'a>,
    lines: Vec<Line>,
    /// How many lines there were.
    numbers: u64,
    done: Sender<(u64, Results)>,
    results: Receiver<(u64, Results)>,
    report: &'a (dyn Fn(Report) + Sync),
    is_unsaved: bool,
    /// When the file of alerts had changed when it was read.
    changed: Option<(SystemTime, u64)>,
    /// At the end, nobody waits for commands any more.
    is_given_up: Arc<AtomicBool>,
}

impl Turns<'_, '_> {
    fn run<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, hub: &Hub, is_over: &(dyn Fn() -> bool + Sync)) {
        let (mut saved, mut looked) = (Instant::now(), None::<Instant>);
        while !is_over() {
            let is_due = self.watcher.is_reload_due.swap(false, Ordering::Relaxed);
            if is_due || looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                self.look(scope, hub, is_due);
            }
            let has_results = self.turn(hub);
            if has_results || saved.elapsed() >= SAVE {
                self.save();
                saved = Instant::now();
            }
            sleep(TURN);
        }
        let end = Instant::now() + FAREWELL;
        while self.lines.iter().any(|line| line.queue.is_busy()) && Instant::now() < end {
            sleep(TURN);
            self.take_results();
        }
        self.is_given_up.store(true, Ordering::Relaxed);
        self.save();
    }

    /// Looks at the file of alerts, and at what can be wrong beside histograms.
    fn look<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, hub: &Hub, is_due: bool) {
        let mut changes = Vec::new();
        let changed = self.watcher.changed();
        if is_due || changed.is_some() && changed != self.changed {
            self.changed = changed;
            match self.read_again(scope, hub) {
                None => {}
                Some(Ok(resolved)) => {
                    changes.extend(resolved);
                    (self.report)(Report::Reloaded);
                }
                Some(Err(why)) => (self.report)(Report::Unloaded(why)),
            }
        }
        let journal = self.watcher.journal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let width_ns = hub.shape().map_or(u64::MAX, |(width_ns, _)| width_ns);
        let (facts, end_ns) = (hub.facts(), hub.certificate_end_ns());
        let found = faults(&facts, width_ns, end_ns, journal.as_deref(), now_ns());
        changes.extend(self.engine.set_faults(&found, now_ns()));
        self.take_changes(changes);
        let active = Active { alerts: self.engine.active(), budgets: self.engine.budgets() };
        *self.watcher.active.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(active);
    }

    /// Reads the file of alerts again, where there is one; returns what is resolved by that.
    fn read_again<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        hub: &Hub,
    ) -> Option<Result<Vec<Change>, String>> {
        let file = self.watcher.file.as_ref()?;
        let rules = match (file.read)(&file.path).and_then(|rules| check_deliveries(&rules).map(|()| rules)) {
            Ok(rules) => rules,
            Err(why) => return Some(Err(why)),
        };
        let resolved = self.engine.set_rules(&rules, now_ns());
        hub.keep_news(self.engine.asks_what_completed());
        self.set_deliveries(scope, &rules.deliveries, &Saved::default());
        Some(Ok(resolved))
    }

    /// Delivers to these from now on; what is there already goes on.
    fn set_deliveries<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, deliveries: &[Delivery], saved: &Saved) {
        let mut known = std::mem::take(&mut self.lines);
        for delivery in deliveries {
            if let Some(at) = known.iter().position(|line| line.queue.delivery == *delivery) {
                self.lines.push(known.swap_remove(at));
                continue;
            }
            // It was checked before.
            let Ok(courier) = Courier::new(delivery) else { continue };
            let saved: SavedQueue = saved.deliveries.get(&delivery.key()).cloned().unwrap_or_default();
            let ((jobs, messages), done, number) = (channel::<Messages>(), self.done.clone(), self.numbers);
            self.numbers += 1;
            let is_over = Arc::clone(&self.is_given_up);
            scope.spawn(move || work(&courier, number, &messages, &done, &is_over));
            self.lines.push(Line { number, queue: DeliveryQueue::new(delivery.clone(), saved), jobs });
        }
    }

    /// Whether a destination answered, which is to be saved.
    fn turn(&mut self, hub: &Hub) -> bool {
        if let Some(news) = hub.news() {
            if news.stepped_ns != 0 {
                self.lines.iter_mut().for_each(|line| line.queue.step_clock(news.stepped_ns));
            }
            let (changes, refused) = self.engine.add(&news);
            refused.into_iter().for_each(|why| (self.report)(Report::Refused(why)));
            self.take_changes(changes);
        }
        let has_results = self.take_results();
        if !self.lines.is_empty() {
            let firing = self.engine.firing();
            for line in &mut self.lines {
                if let Some(messages) = line.queue.due(&firing, now_ns()) {
                    let _ = line.jobs.send(messages);
                }
                let dropped = line.queue.take_dropped();
                if dropped > 0 {
                    (self.report)(Report::Dropped(line.queue.delivery.to_string(), dropped));
                }
            }
        }
        has_results
    }

    fn take_changes(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            self.lines.iter_mut().for_each(|line| line.queue.add(change));
        }
        // What is known to have fired does not fire again after a kill.
        self.save();
        changes.into_iter().for_each(|change| (self.report)(Report::Changed(change)));
    }

    fn take_results(&mut self) -> bool {
        let mut has_results = false;
        while let Ok((number, results)) = self.results.try_recv() {
            let Some(line) = self.lines.iter_mut().find(|line| line.number == number) else { continue };
            has_results = true;
            if line.queue.done(&results, now_ns()) {
                let name = line.queue.delivery.to_string();
                (self.report)(match results.into_iter().find_map(Result::err) {
                    None => Report::Delivered(name),
                    Some(undelivered) => Report::Undelivered(name, undelivered.why),
                });
            }
        }
        has_results
    }

    fn save(&mut self) {
        let Some(path) = &self.watcher.path else { return };
        let mut saved = self.engine.save();
        saved.deliveries = self.lines.iter().map(|line| (line.queue.delivery.key(), line.queue.save())).collect();
        let written = saved.write(path);
        let was_unsaved = std::mem::replace(&mut self.is_unsaved, written.is_err());
        if let Err(error) = written
            && !was_unsaved
        {
            (self.report)(Report::Unsaved(format!("{}: {error}", path.display())));
        }
    }
}
