//! The capture.

use super::FILLS;
use super::pace::{Pace, Priority};
use super::places::Places;
use super::programs::Programs;
use super::returns::Returns;
use super::rows::{Doing, Rows, Taken};
use super::shared::{Parts, Record, State, flag, source};
use super::timer::period_ns;
use super::waits::{Wait, Waits};
use crate::loader::{MonotonicClock, Ring, thread_cpu};
use crate::{Error, Events, Options, Sink, StackKinds};
use latscope_event::{Anomaly, Batch, Context, Field, Unfinished, Wait as Waiting};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How often the account of losses is read while events come.
const ACCOUNT_EVERY: Duration = Duration::from_millis(200);
/// So many records are read at a time, as each may have a stack of some kilobytes.
const RECORDS: usize = 512;
/// How old a pass may be whose waits are summed up, and how long names are kept that nobody uses.
const FRESH: Duration = Duration::from_millis(900);
/// Ages of what waits are no older where they are asked for.
const AGES: Duration = Duration::from_millis(50);
/// What has not ended for so long is named.
const STUCK_NS: u64 = 100_000_000;

/// A capture of stacks.
pub struct StackEvents {
    kinds: StackKinds,
    programs: Programs,
    ring: Ring,
    rows: Rows,
    places: Places,
    /// What waits; its dictionaries are those of the rows.
    waiting: Batch,
    waits: Waits,
    returns: Returns<()>,
    /// Of the sampler; of others, of the passes that were asked for.
    pace: Pace,
    priority: Priority,
    records: Vec<u8>,
    threshold_ns: u64,
    /// The sum of waits that the scheduler timed, as events.
    timed_ns: u64,
    tick_ns: u64,
    accounted: Instant,
    forgot: Instant,
    looked: Option<Instant>,
}

impl StackEvents {
    /// Loads and attaches.
    pub fn start(options: &Options, kinds: StackKinds) -> Result<StackEvents, Error> {
        let how = &options.stacks;
        let rows = Rows::new(options.fields.intersection(FILLS), how);
        let of = options.push_down.containers.clone();
        let kind = Places::kind(of.as_ref(), rows.containers.is_by_pid());
        let programs = Programs::start(options, kinds, kind)?;
        let ring = programs.loaded.ring("events")?;
        let emits = [kinds.sampled && !kinds.off_cpu, kinds.sampled && !kinds.on_cpu];
        let waits = Waits::new(programs.started_ns, emits, how);
        let mut events = StackEvents {
            kinds,
            ring,
            waiting: Batch::new(rows.batch.fields()),
            places: Places::new(of, &rows.containers),
            rows,
            waits,
            returns: Returns::default(),
            pace: Pace::new(how.hz, how.budget),
            priority: Priority::new(),
            records: Vec::new(),
            threshold_ns: how.off_cpu_ns,
            timed_ns: 0,
            tick_ns: period_ns(how.on_cpu_hz),
            accounted: Instant::now(),
            forgot: Instant::now(),
            looked: None,
            programs,
        };
        if kinds.off_cpu || kinds.sampled {
            // The waits of now would be known only from the next ones on, and reading the names of the kernel and of what runs would
            // keep the sampler from its second look.
            events.pass()?;
        }
        events.programs.begin()?;
        events.waits.begin(events.programs.started_ns);
        events.pace.begin();
        events.rows.batch.clear();
        events.timed_ns = 0;
        Ok(events)
    }

    /// Looks at all threads.
    fn pass(&mut self) -> Result<(), Error> {
        let before = thread_cpu();
        let interval = self.pace.start();
        let drawn = self.waits.start_pass(self.programs.clock.now_stamp_ns(), interval.as_nanos() as u64);
        self.priority.raise(true);
        let passed = self.programs.pass(drawn);
        self.priority.raise(false);
        passed?;
        self.drain()?;
        self.waits.end_pass(&mut self.rows, self.programs.clock);
        self.pace.end(thread_cpu().saturating_sub(before));
        self.looked = Some(Instant::now());
        Ok(())
    }

    /// Takes in all that is in the ring.
    fn drain(&mut self) -> Result<(), Error> {
        while self.read(Duration::ZERO)? {}
        Ok(())
    }

    /// Takes in what is in the ring, after waiting at most so long for it; whether there is more.
    fn read(&mut self, timeout: Duration) -> Result<bool, Error> {
        let read = self.ring.read(timeout, RECORDS, &mut self.records);
        self.priority.raise(false);
        read?;
        let records = std::mem::take(&mut self.records);
        let mut rest = &records[..];
        while let Some((record, parts, next)) = Record::next(rest) {
            // The programs know of a place that is left out only from its first record on.
            if record.has(flag::SAME) || self.places.wants(&record, &mut self.rows.containers, &self.programs.loaded)? {
                self.add(&record, &parts);
            }
            rest = next;
        }
        self.records = records;
        Ok(self.ring.has_more())
    }

    fn add(&mut self, record: &Record, parts: &Parts) {
        let clock = self.programs.clock;
        match record.source {
            // One that was seen only when its thread left the CPU again does not return from it.
            source::SWITCH if self.programs.sees_returns && !record.has(flag::KTHREAD | flag::NO_COPY) => {
                self.returns.keep(record, parts, ())
            }
            source::SWITCH => self.add_wait(record, parts, clock),
            source::RETURN => {
                for over in self.returns.take(record) {
                    let (own, user) = over.with_user(Some((record, parts.user)));
                    self.add_wait(&own, &over.parts(user), clock);
                }
            }
            source::TIMER if record.stamp_ns < self.programs.started_ns => {}
            source::TIMER => {
                let doing = self.rows.doing(record, parts, State::Running);
                let start_ns = record.stamp_ns.saturating_sub(self.tick_ns);
                self.rows.push(&doing, start_ns, self.tick_ns, Taken::Timer, clock);
            }
            _ => {
                if !record.has(flag::SAME) {
                    self.pace.add_parts(record.copied_ns.saturating_sub(record.stamp_ns));
                }
                self.waits.add(record, parts, &mut self.rows, clock);
            }
        }
    }

    /// A wait is over: what it was for, and then for a CPU.
    fn add_wait(&mut self, record: &Record, parts: &Parts, clock: MonotonicClock) {
        let state = State::from_record(record);
        // What had begun before the capture counts from its start, by which it is known as a lower bound.
        let since_ns = record.since_ns.max(self.programs.started_ns);
        let ready_ns = match state {
            State::Runnable => since_ns,
            _ if record.woken_ns == 0 => record.stamp_ns,
            _ => record.woken_ns.min(record.stamp_ns).max(since_ns),
        };
        let own = self.rows.doing(record, parts, state);
        if own.stack.is_idle || record.stamp_ns < self.programs.started_ns {
            return;
        }
        self.timed_ns += record.stamp_ns.saturating_sub(since_ns);
        // A pass that saw the same wait has its user stack, too.
        let seen = self.waits.find(record.tid, record.switches);
        let seen = seen.filter(|wait| wait.doing.call == own.call && wait.doing.pid == own.pid);
        let (mut doing, taken) = match seen {
            Some(wait) if wait.doing.state == state && parts.user.is_empty() => (wait.doing, Taken::Sampled),
            _ => (own, Taken::Switch),
        };
        if state != State::Runnable && (ready_ns > since_ns || since_ns == record.since_ns) {
            self.rows.push(&doing, since_ns, ready_ns - since_ns, taken, clock);
        }
        let queued_ns = record.stamp_ns.saturating_sub(ready_ns);
        if state == State::Runnable || queued_ns >= self.threshold_ns {
            doing.state = State::Runnable;
            doing.stack.wait_class = self.rows.class_of_queue();
            self.rows.push(&doing, ready_ns, queued_ns, taken, clock);
        }
    }

    /// Waits whose threads do not return stay without a user stack.
    fn add_expired(&mut self, all: bool) {
        for over in self.returns.expired(all) {
            self.add_wait(&over.record, &over.parts(&[]), self.programs.clock);
        }
    }

    fn hand_on(&mut self, sink: &mut Sink) -> ControlFlow<()> {
        if self.rows.batch.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = sink(&self.programs.context, &self.rows.batch);
        self.rows.batch.clear();
        flow
    }

    fn account(&mut self) -> Result<(), Error> {
        self.accounted = Instant::now();
        self.add_expired(false);
        let pace = self.kinds.sampled.then_some(&self.pace);
        self.rows.account(&mut self.programs.context);
        let timed_ns = self.timed_ns + self.lasting_ns();
        self.programs.account(pace, &self.waits.lottery, self.rows.unknown(), timed_ns)
    }

    /// The waits that have not ended, as many as are kept: those for I/O first, and of either the oldest.
    fn lasting(&self) -> Vec<(Waiting, &Wait)> {
        let how =
            |wait: &Wait| if is_io(&self.programs, &self.rows.batch, wait) { Waiting::Counts } else { Waiting::Sleeps };
        let lasts = |wait: &&Wait| wait.doing.state != State::Running && !wait.doing.stack.is_idle;
        let mut waits: Vec<(Waiting, &Wait)> = self.waits.iter().filter(lasts).map(|wait| (how(wait), wait)).collect();
        waits.sort_unstable_by_key(|(how, wait)| (*how, wait.start_ns));
        waits.truncate(Context::UNFINISHED_KEPT);
        waits
    }

    /// What has not ended adds up to so much so far, as the last pass saw it; nothing where that was long ago.
    fn lasting_ns(&self) -> u64 {
        if self.looked.is_none_or(|looked| looked.elapsed() >= FRESH) {
            return 0;
        }
        let now_ns = self.programs.clock.now_stamp_ns();
        let waits = self.waits.iter().filter(|wait| wait.doing.state != State::Running && !wait.doing.stack.is_idle);
        waits.map(|wait| now_ns.saturating_sub(wait.start_ns)).sum()
    }

    /// Puts what has not ended into a batch of its own, and names it in the context, while the capture runs only what waits for I/O.
    /// Returns for how much of it that is so.
    fn fill_waiting(&mut self, names_all: bool) -> u64 {
        // Ages are lower bounds: nobody saw it between the first look that did and the one before.
        let of = |(how, wait): (Waiting, &Wait)| (how, wait.doing, wait.seen_ns, self.waits.age_ns(wait));
        let waiting: Vec<(Waiting, Doing, u64, u64)> = self.lasting().into_iter().map(of).collect();
        let begun_ns = self.programs.clock.unix_ns(self.programs.started_ns);
        let context = &mut self.programs.context;
        context.count_begun_from(begun_ns);
        context.unfinished.clear();
        // What ended stays in the rows until it is handed on.
        self.waiting.follow(&self.rows.batch);
        self.waiting.clear();
        std::mem::swap(&mut self.waiting, &mut self.rows.batch);
        let mut stalls = 0;
        for (how, doing, start_ns, age_ns) in waiting {
            let row = self.rows.batch.len();
            self.rows.push(&doing, start_ns, age_ns, Taken::Sampled, self.programs.clock);
            let is_stall = how == Waiting::Counts;
            stalls += u64::from(is_stall);
            if names_all || is_stall && age_ns >= STUCK_NS && context.unfinished.len() < crate::NAMED {
                let what = Unfinished::wait_of_thread(&self.rows.batch, row);
                context.unfinished.push(Unfinished::from_row(what, how, &self.rows.batch, row));
            }
        }
        std::mem::swap(&mut self.waiting, &mut self.rows.batch);
        self.rows.batch.follow(&self.waiting);
        stalls
    }
}

/// Whether a thread waits for storage.
fn is_io(programs: &Programs, names: &Batch, wait: &Wait) -> bool {
    let doing = &wait.doing;
    let is_async = || programs.is_async(doing.call);
    // A file system in user space keeps its callers in a sleep that signals end.
    let is_fuse = || names.dictionary(Field::WaitClass).text(doing.stack.wait_class) == Some("FUSE");
    !doing.stack.is_idle
        && (doing.state == State::DiskSleep || doing.state == State::Sleep && (is_async() || is_fuse()))
}

impl Events for StackEvents {
    fn context(&self) -> &Context {
        &self.programs.context
    }

    fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let turn = if self.kinds.sampled { left.min(self.pace.wait()) } else { left };
            self.priority.raise(self.kinds.sampled);
            match self.kinds.off_cpu || self.kinds.on_cpu {
                true => drop(self.read(turn)?),
                false => std::thread::sleep(turn),
            }
            if self.kinds.sampled && self.pace.wait().is_zero() {
                self.pass()?;
            }
            self.priority.raise(false);
            if self.accounted.elapsed() >= ACCOUNT_EVERY {
                self.account()?;
            }
            if !self.rows.batch.is_empty() || Instant::now() >= until {
                return Ok(self.hand_on(sink));
            }
        }
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        if !self.kinds.sampled && self.looked.is_none_or(|looked| looked.elapsed() >= AGES) {
            self.pass()?;
        }
        self.fill_waiting(false);
        Ok(&self.waiting)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        if self.forgot.elapsed() >= FRESH {
            self.forgot = Instant::now();
            self.rows.forget();
            self.places.forget(&self.programs.loaded)?;
        }
        self.account()
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink) -> Result<Context, Error> {
        self.pass()?;
        self.programs.stop();
        self.drain()?;
        self.add_expired(true);
        let mut flow = self.hand_on(sink);
        // What lasts is beside the events, as far as there is room.
        let kept: HashSet<u32> = self.lasting().into_iter().map(|(_, wait)| wait.doing.tid).collect();
        let (clock, timed) = (self.programs.clock, self.kinds.off_cpu);
        self.waits.finish(timed, &mut self.rows, clock, |wait| kept.contains(&wait.doing.tid));
        if flow.is_continue() {
            flow = self.hand_on(sink);
        }
        let _ = flow;
        let stalls = self.fill_waiting(true);
        self.account()?;
        let mut context = self.programs.context;
        context.tally.add(Anomaly::Unfinished, stalls);
        context.knows_unfinished = true;
        context.sort_unfinished();
        Ok(context)
    }
}
