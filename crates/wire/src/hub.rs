//! A hub: takes records of agents, confirms what it stored, and answers views.

mod answers;

use crate::clock::{OwnClock, now_ns};
use crate::closed::{Closed, Groups};
use crate::cluster::{Cluster, Counters, HostFacts, IntervalState, Limits};
use crate::gate::Gate;
use crate::history::{Compactor, Level, Query, Tables, free_share};
use crate::intake::{Agent, Greeting, Stores, Stranger, greet, refuse};
use crate::journal::{Journal, Replayed};
use crate::messages::Goodbye;
use crate::places::{Place, Places};
use crate::stream::{Ender, Stream};
use crate::{Credentials, Data, Hello, Kind, Listener, Malformed, News, Record};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, scope, sleep};
use std::time::{Duration, Instant};

/// How often something is looked at: what is to be written, whether intervals are over.
const TURN: Duration = Duration::from_millis(100);
/// Open connections, and those of them that did not say what they want.
const CONNECTIONS: usize = 4096;
const HALF_OPEN: usize = 256;
/// Stack of the thread of a connection, bytes; without optimisation a handshake needs more.
const STACK: usize = if cfg!(debug_assertions) { 2 << 20 } else { 256 << 10 };
/// How often the files of the credentials are looked at.
const RELOAD: Duration = Duration::from_secs(60);
/// How long connections have at the end.
const LAST: Duration = Duration::from_secs(2);
/// How long to wait before a journal that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// With a journal, what is pushed may be so old, nanoseconds: a week.
const LATE_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// How often it is reported that somebody is not let in.
const STRANGER: Duration = Duration::from_secs(1);

/// How often it is looked whether the journal can be compacted, at most; where `recent` is shorter, more often.
const COMPACT: Duration = Duration::from_secs(10);
/// How often tables are looked at though there is nothing to compact: some may be too old.
const SWEEP: Duration = Duration::from_secs(600);

/// What a hub keeps on disk.
pub struct Storage {
    /// The folder of all files.
    pub folder: PathBuf,
    /// How long a file of the journal is written.
    pub file_time: Duration,
    /// The tables that are made of the journal, and who writes them; none: the journal stays as it is.
    pub history: Option<(Vec<Level>, Arc<dyn Tables>)>,
}

/// A hub.
pub struct Hub {
    cluster: Mutex<Cluster>,
    journal: Option<Journal>,
    history: Option<Compactor>,
    /// Why the journal cannot be written.
    unwritten: Mutex<Option<String>>,
    /// One view at a time reads what is on disk.
    reading: Mutex<()>,
    gate: Option<Arc<Gate>>,
    is_reload_due: AtomicBool,
    /// When somebody was not let in last.
    stranger: Mutex<Option<Instant>>,
    clock: Mutex<OwnClock>,
}

/// What happens at a hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A host connected.
    Connected(String),
    /// A host ended, as it said.
    Left(String),
    /// The connection to a host is lost, and why.
    Lost(String, String),
    /// A host, or somebody at an address, is refused, and why.
    Refused(String, String),
    /// The clock of a host is so many nanoseconds behind that of the hub; 0: it agrees again.
    Clock(String, i64),
    /// The clock of the hub was set forward by so many nanoseconds.
    Stepped(i64),
    /// Certificates and tokens were read again.
    Reloaded,
    /// Certificates and tokens cannot be read again, and why: those from before stay.
    Unloaded(String),
    /// These hosts are missing in the last interval; none: all are there again.
    Missing(Vec<String>),
    /// The journal cannot be written, and why.
    Unwritten(String),
    /// The journal is written again.
    Written,
    /// The journal cannot be compacted, and why.
    Uncompacted(String),
    /// So many tables were removed before their time: the disk is nearly full.
    Removed(u64),
    /// It can be compacted again.
    Compacted,
}

impl Hub {
    /// A hub, with what it has on disk. With a certificate, connections are encrypted, and peers prove who they are.
    ///
    /// # Errors
    /// A sentence, when the journal, certificates or tokens cannot be read.
    pub fn open(
        limits: Limits,
        storage: Option<Storage>,
        credentials: &Credentials,
    ) -> Result<(Hub, Replayed), String> {
        let gate = Gate::open(credentials)?.map(Arc::new);
        let mut cluster = Cluster::new(limits);
        cluster.keep_news(true);
        let opened = storage.as_ref().map(|Storage { folder, file_time, .. }| {
            let opened = Journal::open(folder, *file_time, &mut cluster, now_ns());
            opened.map_err(|error| format!("{}: The journal cannot be read: {error}", folder.display()))
        });
        let opened = opened.transpose()?;
        let (journal, replayed) = opened.unzip();
        let history = storage.and_then(|Storage { folder, history, .. }| {
            let ((levels, tables), recent_ns) = (history?, limits.keep_ns);
            let (lock, removed) = (Mutex::default(), AtomicU64::new(0));
            Some(Compactor { folder, tables, levels, recent_ns, lock, free: free_share, removed })
        });
        // What is counted starts with the hub.
        cluster.counters = Counters::default();
        let (is_reload_due, stranger) = (AtomicBool::new(false), Mutex::new(None));
        let (cluster, unwritten, reading) = (Mutex::new(cluster), Mutex::default(), Mutex::default());
        let clock = Mutex::new(OwnClock::new());
        let hub = Hub { cluster, journal, history, unwritten, reading, gate, is_reload_due, stranger, clock };
        Ok((hub, replayed.unwrap_or_default()))
    }

    /// Keeps what is merged into closed intervals for [`Hub::take_closed`].
    pub fn keep_closed(&self) {
        self.cluster().keep_closed();
    }

    /// What was merged into closed intervals since the last call; `None` before the first run of an agent.
    pub fn take_closed(&self) -> Option<Closed> {
        let closed = self.cluster().take_closed(now_ns());
        // What is handed on is not forgotten by a kill, unless the disk takes nothing.
        if let (Some(journal), Some(_)) = (&self.journal, closed.as_ref().filter(|closed| !closed.intervals.is_empty()))
        {
            journal.wait(&|| self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).is_some());
        }
        closed
    }

    /// Closes the intervals of which no more is waited for, as it does while it serves. Returns the hosts that are missing in the latest;
    /// `None` before the first one.
    pub fn close(&self) -> Option<Vec<String>> {
        let mut cluster = self.cluster();
        let now_ns = self.look_at_clock(&mut cluster);
        cluster.close(now_ns)
    }

    /// Width of the intervals, nanoseconds, and the fields that make a group; `None` before the first run.
    pub fn shape(&self) -> Option<(u64, Vec<String>)> {
        self.cluster().shape()
    }

    /// From when on intervals are kept, in memory or in the journal, nanoseconds since the epoch.
    pub fn oldest_ns(&self) -> i64 {
        let kept_ns = if self.journal.is_some() { LATE_NS } else { 0 };
        now_ns().saturating_sub_unsigned(kept_ns.max(self.cluster().keep_ns()))
    }

    /// Takes records of a run that is not connected, so that no interval waits for its host.
    ///
    /// # Errors
    /// A sentence, when the run is refused, or a record; the others are taken.
    pub fn take_pushed(&self, hello: &Hello, records: Vec<Record>) -> Result<(), String> {
        self.cluster().describe(hello.clone(), hello.record())?;
        self.cluster().disconnect(hello.run, true);
        let taken = records.into_iter().map(|record| self.take_record(hello.run, record));
        taken.fold(Ok(()), Result::and).map_err(|malformed| malformed.to_string())
    }

    fn take_record(&self, run: crate::Id, record: Record) -> Result<(), Malformed> {
        match record.kind()? {
            Kind::Dictionary => self.cluster().add_groups(record)?,
            Kind::Data => {
                let (data, record) = (Data::parse(&record)?, Arc::new(record));
                let head = data.head.clone();
                {
                    let mut cluster = self.cluster();
                    cluster.add(data, now_ns())?;
                    cluster.keep_recent(&head, Arc::clone(&record), now_ns());
                }
                if let Some(journal) = &self.journal {
                    journal.add(run, record);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What is known of the hosts beside their histograms.
    pub fn facts(&self) -> Vec<HostFacts> {
        self.cluster().facts(now_ns())
    }

    /// The intervals from this one on and before that one, at most so many, with their groups where these are asked for.
    pub(crate) fn states(&self, start: i64, end: i64, most: usize, with_groups: bool) -> Vec<IntervalState> {
        self.cluster().states(start, end, most, with_groups)
    }

    /// The last interval, and the last one that is closed.
    pub(crate) fn latest(&self) -> (Option<i64>, Option<i64>) {
        self.cluster().latest()
    }

    /// Ages of what waits now.
    pub(crate) fn waiting_now(&self) -> Groups {
        self.cluster().waiting_now(now_ns())
    }

    /// The last minute of each host.
    pub(crate) fn recent(&self) -> Vec<Arc<Record>> {
        self.cluster().recent(now_ns())
    }

    /// The labels of all groups.
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        self.cluster().labels()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        self.cluster().counters
    }

    /// When the certificate of the hub ends, nanoseconds since the epoch; `None` without one.
    pub fn certificate_end_ns(&self) -> Option<i64> {
        self.gate.as_ref().and_then(|gate| gate.keys().certificate_end_ns)
    }

    /// What came since the last call, and which intervals are over since; `None` before the first agent.
    pub fn news(&self) -> Option<News> {
        let mut cluster = self.cluster();
        let now_ns = self.look_at_clock(&mut cluster);
        cluster.news(now_ns)
    }

    /// Keeps what comes for [`Hub::news`]: what waits, and where it is asked for, what completed.
    pub fn keep_news(&self, with_completed: bool) {
        self.cluster().keep_news(with_completed);
    }

    /// Serves until it is over.
    pub fn serve(
        &self,
        listener: &Listener,
        is_over: &(dyn Fn() -> bool + Sync),
        report: &(dyn Fn(Change) + Sync),
    ) -> io::Result<()> {
        listener.set_nonblocking()?;
        let (connections, half_open) = (AtomicUsize::new(0), Places::new(HALF_OPEN));
        let mut enders: Vec<Ender> = Vec::new();
        scope(|scope| {
            scope.spawn(|| self.turns(is_over, report));
            scope.spawn(|| self.write(is_over));
            scope.spawn(|| self.compact(is_over, report));
            while !is_over() {
                match listener.accept() {
                    Ok((stream, address)) => {
                        let open = Count::new(&connections, CONNECTIONS);
                        let open = open.zip(half_open.take(&address, stream.ender()));
                        // Who is too much is not answered: it would have to be encrypted first.
                        let Some((open, half_open)) = open else { continue };
                        if enders.len() >= 2 * CONNECTIONS {
                            enders.retain(Ender::is_open);
                        }
                        enders.push(stream.ender());
                        let serve = move || {
                            self.connection(stream, &address, half_open, is_over, report);
                            drop(open);
                        };
                        // Where there is no thread for it, the connection ends.
                        drop(Builder::new().stack_size(STACK).spawn_scoped(scope, serve));
                    }
                    // None, or out of descriptors for now.
                    Err(_) => sleep(TURN / 5),
                }
            }
            // A peer that takes nothing does not keep the hub from ending.
            let until = Instant::now() + LAST;
            while connections.load(Ordering::Relaxed) > 0 && Instant::now() < until {
                sleep(TURN / 5);
            }
            enders.iter().for_each(Ender::end);
        });
        Ok(())
    }

    /// Closes intervals, and reports what is wrong with the journal.
    fn turns(&self, is_over: &(dyn Fn() -> bool + Sync), report: &(dyn Fn(Change) + Sync)) {
        let (mut missing, mut failure, mut looked) = (Vec::new(), false, Instant::now());
        loop {
            let ends = is_over();
            self.look_at_keys(&mut looked, report);
            let closed = self.close();
            let stepped_ns = std::mem::take(&mut self.clock.lock().unwrap_or_else(PoisonError::into_inner).stepped_ns);
            if stepped_ns != 0 {
                report(Change::Stepped(stepped_ns));
            }
            if let Some(now) = closed.filter(|now| *now != missing) {
                missing.clone_from(&now);
                report(Change::Missing(now));
            }
            let hangs = self.journal.as_ref().is_some_and(Journal::hangs);
            let unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match unwritten.or(hangs.then(|| "the disk does not answer".into())) {
                None if std::mem::replace(&mut failure, false) => report(Change::Written),
                Some(why) if !std::mem::replace(&mut failure, true) => report(Change::Unwritten(why)),
                _ => {}
            }
            if ends {
                return;
            }
            sleep(TURN);
        }
    }

    /// The time, with what follows where somebody set the clock.
    fn look_at_clock(&self, cluster: &mut Cluster) -> i64 {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let (step_ns, now_ns) = clock.look();
        if let Some(step_ns) = step_ns {
            cluster.step_clock(step_ns, now_ns);
        }
        now_ns
    }

    /// Writes the journal, which costs nobody else anything if the disk hangs.
    fn write(&self, is_over: &(dyn Fn() -> bool + Sync)) {
        let Some(journal) = &self.journal else { return };
        loop {
            let ends = is_over();
            let written = journal.write(&self.cluster).map_err(|error| error.to_string());
            // Each time, all that waits is written.
            let wait = if written.is_err() { RETRY } else { TURN };
            *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = written.err();
            if ends {
                return;
            }
            let until = Instant::now() + wait;
            while Instant::now() < until && !is_over() {
                sleep(TURN);
            }
        }
    }

    /// Compacts the journal as it grows old.
    fn compact(&self, is_over: &(dyn Fn() -> bool + Sync), report: &(dyn Fn(Change) + Sync)) {
        let Some(history) = &self.history else { return };
        let wait = COMPACT.min(Duration::from_nanos(history.recent_ns / 4).max(TURN));
        let (mut failure, mut looked, mut swept) = (false, None::<Instant>, None::<Instant>);
        // What was not committed when the hub ends is made again.
        let step = || if is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) };
        while !is_over() {
            if looked.is_some_and(|looked| looked.elapsed() < wait) {
                sleep(TURN);
                continue;
            }
            // There may be many tables.
            if swept.is_some_and(|swept| swept.elapsed() < SWEEP) && !history.is_due(now_ns()) {
                looked = Some(Instant::now());
                continue;
            }
            swept = Some(Instant::now());
            let turned = history.turn(now_ns(), &step);
            let removed = history.removed.swap(0, Ordering::Relaxed);
            if removed > 0 {
                self.cluster().counters.removed += removed;
                report(Change::Removed(removed));
            }
            match turned {
                Ok(has_more) => {
                    looked = if has_more { None } else { Some(Instant::now()) };
                    if std::mem::replace(&mut failure, false) {
                        report(Change::Compacted);
                    }
                }
                Err(_) if is_over() => return,
                Err(error) => {
                    looked = Some(Instant::now());
                    if !std::mem::replace(&mut failure, true) {
                        report(Change::Uncompacted(error.to_string()));
                    }
                }
            }
        }
    }

    fn connection(
        &self,
        stream: Stream,
        address: &str,
        half_open: Place,
        is_over: &(dyn Fn() -> bool + Sync),
        report: &(dyn Fn(Change) + Sync),
    ) {
        let greeting = greet(stream, self.gate.as_ref());
        drop(half_open);
        let Greeting { stream, first, permit, access } = match greeting {
            Ok(greeting) => greeting,
            Err(Stranger::Silent) => return,
            Err(Stranger::Refused(why)) => {
                self.cluster().counters.strangers += 1;
                return self.report_stranger(address, why, report);
            }
        };
        match first.kind() {
            Ok(Kind::Read) => match Query::parse(first.payload()) {
                Ok(query) => {
                    if let Err(error) = self.answer(&stream, query, is_over) {
                        refuse(&stream, false, &error.to_string());
                    }
                }
                Err(_) => refuse(&stream, true, "this hub does not understand the view; both need the same version"),
            },
            Ok(Kind::Hello) => match Hello::parse(first.payload()) {
                Err(_) => {
                    refuse(&stream, false, "this hub does not understand the agent; both need the same version");
                }
                Ok(hello) => {
                    let report_clock = |host, offset_ns| report(Change::Clock(host, offset_ns));
                    let stores = Stores {
                        cluster: &self.cluster,
                        journal: self.journal.as_ref(),
                        is_over,
                        report_clock: &report_clock,
                    };
                    let agent = Agent::new(stores, &stream, &hello, permit, access);
                    self.serve_agent(agent, hello, first, &stream, (is_over, report));
                }
            },
            _ => {}
        }
        stream.close();
    }

    fn serve_agent(
        &self,
        agent: Agent,
        hello: Hello,
        record: Record,
        stream: &Stream,
        (is_over, report): (&(dyn Fn() -> bool + Sync), &(dyn Fn(Change) + Sync)),
    ) {
        let (host, run) = (hello.host.clone(), hello.run);
        if let Err(why) = agent.join(hello, record) {
            refuse(stream, false, &why);
            self.cluster().counters.agents += 1;
            return report(Change::Refused(host, why));
        }
        report(Change::Connected(host.clone()));
        let ended = agent.run();
        let end_ns = {
            let mut cluster = self.cluster();
            cluster.disconnect(run, ended.is_ok());
            cluster.end_ns(run)
        };
        // Views of the past do not miss it from then on.
        if let (Some(journal), Some(end_ns), Ok(())) = (&self.journal, end_ns, &ended) {
            journal.add(run, Arc::new(Goodbye { run, end_ns }.record()));
        }
        match ended {
            Ok(()) => report(Change::Left(host)),
            Err(_) if is_over() => {}
            Err(why) => report(Change::Lost(host, why)),
        }
    }

    /// Reports who was not let in, but not each of many.
    fn report_stranger(&self, address: &str, why: String, report: &(dyn Fn(Change) + Sync)) {
        let mut last = self.stranger.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= STRANGER) {
            *last = Some(Instant::now());
            drop(last);
            report(Change::Refused(address.into(), why));
        }
    }

    /// Reads certificates and tokens again, at the next turn.
    pub fn reload(&self) {
        self.is_reload_due.store(true, Ordering::Relaxed);
    }

    /// Reads certificates and tokens again where that was asked for, or they changed.
    fn look_at_keys(&self, looked: &mut Instant, report: &(dyn Fn(Change) + Sync)) {
        let is_forced = self.is_reload_due.swap(false, Ordering::Relaxed);
        let Some(gate) = self.gate.as_ref().filter(|_| is_forced || looked.elapsed() >= RELOAD) else { return };
        *looked = Instant::now();
        match gate.reload(is_forced) {
            Ok(false) => {}
            Ok(true) => report(Change::Reloaded),
            Err(why) => report(Change::Unloaded(why)),
        }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One more of something, until it is dropped.
struct Count<'a>(&'a AtomicUsize);

impl<'a> Count<'a> {
    /// Unless there are so many.
    fn new(count: &'a AtomicUsize, most: usize) -> Option<Count<'a>> {
        let is_free = count.fetch_add(1, Ordering::Relaxed) < most;
        let count = Count(count);
        is_free.then_some(count)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
