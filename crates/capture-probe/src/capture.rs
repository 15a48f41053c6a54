//! Probes that run.

use crate::clock::Epoch;
use crate::engine::{Buffer, Requests};
use crate::probe::check;
use crate::rows::{self, Call};
use crate::settle::{self, Settled};
use crate::target::Target;
use crate::uring::{self, Ring};
use crate::worker::{Common, Fold, Message, Outbox, Places, Watched, Way, Worker, end_ns};
use crate::{Due, Engine, Error, FILLS, Operation, Place, Probe, Sample, cpu, settings};
use latscope_event::{Anomaly, Batch, Clock, Context, Field, FieldSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What takes the events of a probe: the context as known so far and a batch, in about the order of completion.
pub type Sink<'a> = dyn FnMut(&Context, &Batch) -> ControlFlow<()> + 'a;

/// Hand-overs that may wait for the receiver; a worker that finds no room waits between two requests.
const WAITING: usize = 64;
/// Requests in flight get so long to end after the capture was asked to.
const GRACE: Duration = Duration::from_secs(1);
/// So many overdue requests of a thread are looked at one by one.
const OVERDUE: u64 = 4096;

/// Probes that run. Dropping it stops them.
pub struct Capture {
    epoch: Epoch,
    stop: Arc<AtomicBool>,
    /// When it was asked to stop.
    stopped: OnceLock<Instant>,
    workers: Vec<Running>,
    targets: Vec<Measured>,
    messages: Receiver<Message>,
    batch: Batch,
    context: Context,
    remarks: Vec<String>,
}

/// A worker.
struct Running {
    thread: JoinHandle<()>,
    watched: Arc<Watched>,
    /// Its schedule, and how many requests it makes.
    due: Due,
    count: u64,
    target: usize,
    /// Where emptied lists of samples go back.
    emptied: Sender<Vec<Sample>>,
    done: bool,
}

/// A target.
struct Measured {
    common: Arc<Common>,
    /// The call that reads or writes.
    name: &'static str,
    /// Bytes that its device had written before.
    written: Option<u64>,
}

/// A request that was made and is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outstanding {
    /// Number of its target, in the order in which they were given.
    pub target: usize,
    /// From when its latency counts, nanoseconds since the start of the capture: see [`Sample::latency_ns`].
    pub since_ns: u64,
    /// How long that is ago: its latency is at least this, nanoseconds.
    pub age_ns: u64,
}

/// Requests of an open loop that are due and cannot be made, since as many as may be are in flight and none of them ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overdue {
    /// Number of their target.
    pub target: usize,
    /// How many.
    pub count: u64,
    /// How long ago the first was due: its latency is at least this, nanoseconds.
    pub age_ns: u64,
    /// The age of each is so much less than that of the one before, nanoseconds.
    pub step_ns: f64,
}

impl Capture {
    /// Opens the targets, makes the files that are needed, and starts with all at the same moment.
    ///
    /// # Errors
    /// When a target cannot be probed as asked. Nothing that was there before is changed then.
    pub fn start(probes: Vec<Probe>) -> Result<Capture, Error> {
        Capture::start_with(probes, None)
    }

    /// The same, but samples are not handed on: each worker gets a [`Fold`] (made for the number of its target) which takes
    /// them in its own thread, a few at a time and soon after they were made. That spares what it costs to bring them to
    /// another CPU, a tenth of a fast request.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn start_folding(probes: Vec<Probe>, mut fold: impl FnMut(usize) -> Fold) -> Result<Capture, Error> {
        Capture::start_with(probes, Some(&mut fold))
    }

    fn start_with(mut probes: Vec<Probe>, fold: Option<&mut dyn FnMut(usize) -> Fold>) -> Result<Capture, Error> {
        let mut remarks = Vec::new();
        for probe in &mut probes {
            check(probe)?;
            if probe.chosen_engine() == Engine::Uring
                && let Err(source) = uring::is_allowed()
            {
                if probe.engine == Engine::Uring {
                    return Err(Error::Engine { engine: "io_uring", source });
                }
                // As many requests can be in flight from as many threads.
                remarks.push(format!(
                    "io_uring is not available ({source}), so {} threads make the requests.",
                    probe.threads * probe.depth
                ));
                (probe.threads, probe.depth, probe.engine) = (probe.threads * probe.depth, 1, Engine::Blocking);
            }
        }
        let (to, messages) = mpsc::sync_channel(WAITING);
        let start = Start::default();
        let mut capture = Capture {
            epoch: Epoch::now(),
            stop: Arc::clone(&start.stop),
            stopped: OnceLock::new(),
            workers: Vec::new(),
            targets: Vec::new(),
            messages,
            batch: Batch::new(fields(&probes)),
            context: Context::new("probe", Clock::wall()),
            remarks,
        };
        for probe in probes {
            let target = Target::open(&probe)?;
            let written = settle::written(target.place.dev);
            if probe.work.direct && target.place.is_memory() {
                let (path, fstype) = (probe.target.display(), &target.place.fstype);
                capture.remarks.push(format!("{path}: {fstype} has no device, so direct I/O measures memory."));
            }
            capture.targets.push(Measured { common: Arc::new(Common::new(probe, target)), name: "", written });
        }
        capture.start_all(&start, &to, fold)?;
        Ok(capture)
    }

    fn start_all(
        &mut self,
        start: &Start,
        to: &SyncSender<Message>,
        mut fold: Option<&mut dyn FnMut(usize) -> Fold>,
    ) -> Result<(), Error> {
        for (target, measured) in self.targets.iter_mut().enumerate() {
            let common = &measured.common;
            for thread in 0..common.probe.threads {
                let (emptied, taken) = mpsc::channel();
                let (number, watched) = (self.workers.len(), Arc::new(Watched::new(common.probe.depth)));
                let seed = common.probe.seed.wrapping_add(u64::from(thread) << 32).wrapping_add(target as u64);
                let threads = u64::from(common.probe.threads);
                let way = fold.as_mut().map_or(Way::HandOn(taken), |fold| Way::Fold(fold(target)));
                let due = common.probe.pace.share(thread, common.probe.threads);
                let count = common.one_pass().or(common.probe.count);
                let count = count.map_or(u64::MAX, |count| (count + threads - 1 - u64::from(thread)) / threads);
                let worker = Worker {
                    common: Arc::clone(common),
                    due,
                    count,
                    watched: Arc::clone(&watched),
                    stop: Arc::clone(&self.stop),
                    outbox: Outbox::new(number, Arc::clone(common), to.clone(), way),
                    places: Places::new(&common.probe, &common.target, thread, seed),
                };
                let (thread, name) = start.worker(worker)?;
                measured.name = name;
                self.workers.push(Running { thread, watched, due, count, target, emptied, done: false });
            }
        }
        self.epoch = start.go();
        self.context.span_ns = Some((self.epoch.unix_ns, self.epoch.unix_ns));
        settings::of_machine(&mut self.context);
        let several = self.targets.len() > 1;
        for (number, measured) in self.targets.iter().enumerate() {
            let Common { probe, target, .. } = &*measured.common;
            settings::of_probe(&mut self.context, probe, target, measured.name, &suffix(several, number));
        }
        let names: Vec<_> =
            self.targets.iter().map(|measured| measured.common.probe.target.to_string_lossy()).collect();
        self.context.source = format!("probe of {}", names.join(", "));
        Ok(())
    }

    /// What the user should know: that something else is done than was asked for.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What a target lies on.
    pub fn place(&self, target: usize) -> &Place {
        &self.targets[target].common.target.place
    }

    /// The call that makes the requests of a target.
    pub fn call(&self, target: usize) -> &'static str {
        self.targets[target].name
    }

    /// Nanoseconds since the start.
    pub fn elapsed_ns(&self) -> u64 {
        self.epoch.elapsed_ns()
    }

    /// Unix time of the start, nanoseconds.
    pub fn start_unix_ns(&self) -> i64 {
        self.epoch.unix_ns
    }

    /// No more requests are started.
    pub fn stop(&self) {
        self.stopped.get_or_init(Instant::now);
        self.stop.store(true, Ordering::Relaxed);
        self.workers.iter().for_each(|worker| worker.thread.thread().unpark());
    }

    /// Waits until there are samples, at most so long, and hands them on with the number of their target, in the order of
    /// completion for each of its threads. `false` when all have come.
    pub fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(usize, &[Sample])) -> bool {
        let mut wait = timeout;
        while self.workers.iter().any(|worker| !worker.done) {
            match self.messages.recv_timeout(wait) {
                Ok(message) => self.receive(message, take),
                Err(RecvTimeoutError::Timeout) => return true,
                // Cannot be while workers are there, but would be no reason to wait for them.
                Err(RecvTimeoutError::Disconnected) => return false,
            }
            // What else is there already.
            wait = Duration::ZERO;
        }
        false
    }

    fn receive(&mut self, message: Message, take: &mut dyn FnMut(usize, &[Sample])) {
        match message {
            Message::Samples { worker, mut samples } => {
                let running = &self.workers[worker];
                let measured = &self.targets[running.target];
                measured.common.account().add(&measured.common.probe, &samples);
                take(running.target, &samples);
                samples.clear();
                // A worker that has ended needs it no more.
                let _ = running.emptied.send(samples);
            }
            Message::Done { worker, not_sent } => {
                let running = &mut self.workers[worker];
                running.done = true;
                self.targets[running.target].common.account().not_sent += not_sent;
            }
        }
    }

    /// The fields of its events.
    pub fn fields(&self) -> FieldSet {
        self.batch.fields()
    }

    /// Samples of a target as events. The batch is used again by the next call; its dictionaries only grow.
    pub fn events(&mut self, target: usize, samples: &[Sample]) -> &Batch {
        self.batch.clear();
        let measured = &self.targets[target];
        let Common { probe, target, .. } = &*measured.common;
        let call = Call { name: measured.name, host: self.context.host.as_deref(), epoch: self.epoch.unix_ns };
        rows::append(&mut self.batch, samples, probe, &target.place, &call);
        &self.batch
    }

    /// Waits for samples, at most so long, and hands them on as events, those of each target in a batch. `false` when all have come.
    pub fn poll_events(&mut self, timeout: Duration, sink: &mut Sink) -> bool {
        let mut taken: Vec<(usize, Vec<Sample>)> = Vec::new();
        let more = self.poll(timeout, &mut |target, samples| taken.push((target, samples.to_vec())));
        for (target, samples) in taken {
            self.events(target, &samples);
            if sink(&self.context, &self.batch).is_break() {
                return false;
            }
        }
        more
    }

    /// The requests that are not done, as events that end now: those in flight, and those of an open loop that are overdue, of these
    /// the oldest 4,096 of each thread.
    pub fn waiting(&mut self) -> Batch {
        let now_ns = self.elapsed_ns();
        let mut since: Vec<(usize, u64)> = self.outstanding().iter().map(|one| (one.target, one.since_ns)).collect();
        for overdue in self.overdue() {
            let first_ns = now_ns.saturating_sub(overdue.age_ns);
            let due_ns = |number: u64| first_ns + (number as f64 * overdue.step_ns) as u64;
            since.extend((0..overdue.count.min(OVERDUE)).map(|number| (overdue.target, due_ns(number))));
        }
        since.sort_unstable();
        let mut waiting = Batch::new(self.fields());
        for of_target in since.chunk_by(|one, other| one.0 == other.0) {
            let Common { probe, target, .. } = &*self.targets[of_target[0].0].common;
            let write = probe.work.operation == Operation::Write;
            let unfinished = |&(_, since_ns): &(usize, u64)| Sample { write, ..Sample::unfinished(since_ns, now_ns) };
            let samples: Vec<Sample> = of_target.iter().map(unfinished).collect();
            rows::append(&mut waiting, &samples, probe, &target.place, &self.call_of(of_target[0].0));
        }
        waiting
    }

    /// What all events of a target have in common.
    fn call_of(&self, target: usize) -> Call<'_> {
        Call { name: self.targets[target].name, host: self.context.host.as_deref(), epoch: self.epoch.unix_ns }
    }

    /// The wall clock was set: events have the new time from now on.
    pub fn follow_clock(&mut self) {
        self.epoch.follow_clock();
    }

    /// How many requests of a target were made, those in flight among them.
    pub fn made(&self, target: usize) -> u64 {
        self.workers.iter().filter(|worker| worker.target == target).map(|worker| worker.watched.made()).sum()
    }

    /// All requests in flight.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        let now_ns = self.elapsed_ns();
        let mut all = Vec::new();
        for worker in self.workers.iter().filter(|worker| !worker.done) {
            let of =
                |since_ns| Outstanding { target: worker.target, since_ns, age_ns: now_ns.saturating_sub(since_ns) };
            all.extend(worker.watched.in_flight().map(of));
        }
        all
    }

    /// Requests that should have been made by now (or before the end, if that is over) and were not, of each worker all of
    /// whose requests in flight hang.
    pub fn overdue(&self) -> Vec<Overdue> {
        let now_ns = self.elapsed_ns();
        let stopped_ns = self.stopped.get().map_or(now_ns, |at| now_ns.saturating_sub(at.elapsed().as_nanos() as u64));
        let mut all = Vec::new();
        for worker in self.workers.iter().filter(|worker| !worker.done) {
            let probe = &self.targets[worker.target].common.probe;
            let made = worker.watched.made();
            let count = worker.due.before(stopped_ns.min(end_ns(probe))).min(worker.count).saturating_sub(made);
            let is_full = worker.watched.in_flight().count() >= probe.depth.max(1) as usize;
            if probe.pace.open && is_full && count > 0 {
                let step_ns = probe.pace.interval_ns * f64::from(probe.threads);
                let age_ns = now_ns.saturating_sub(worker.due.of_ns(made));
                all.push(Overdue { target: worker.target, count, age_ns, step_ns });
            }
        }
        all
    }

    /// Requests that are done, of which the thread that made them could not report yet, since its next one hangs.
    fn withheld(&self) -> u64 {
        let of = |(number, target): (usize, &Measured)| {
            let mut made = 0u64;
            for worker in self.workers.iter().filter(|worker| worker.target == number) {
                made += worker.watched.made() - worker.watched.in_flight().count() as u64;
            }
            made.saturating_sub(target.common.account().requests)
        };
        self.targets.iter().enumerate().map(of).sum()
    }

    /// When its requests are done: brings what they wrote into memory to the device, for so long at most, and notes in the
    /// account what that was.
    pub fn settle(&mut self, limit: Duration) -> Settled {
        let mut all = Settled::default();
        for measured in &self.targets {
            let settled = settle::settle(&measured.common.target, measured.written, limit);
            all.in_memory = all.in_memory.into_iter().chain(settled.in_memory).reduce(|a, b| a + b);
            all.device = all.device.into_iter().chain(settled.device).reduce(|a, b| a + b);
            (all.left, all.took) = (all.left + settled.left, all.took + settled.took);
        }
        all.report(&mut self.context);
        all
    }

    /// Whether nothing more is to be expected: no worker that goes on may start another request, since its time is over or
    /// it has made all, and each of their requests in flight is older than `age_ns`.
    pub fn is_given_up(&self, age_ns: u64) -> bool {
        let now_ns = self.elapsed_ns();
        let mut open = self.workers.iter().filter(|worker| !worker.done).peekable();
        let hangs = |worker: &Running| {
            let mut in_flight = worker.watched.in_flight().peekable();
            let probe = &self.targets[worker.target].common.probe;
            (now_ns > end_ns(probe) || worker.watched.made() >= worker.count)
                && in_flight.peek().is_some()
                && in_flight.all(|from_ns| now_ns.saturating_sub(from_ns) > age_ns)
        };
        open.peek().is_some() && open.all(hangs)
    }

    /// Runs to the end and hands on all events; the sink ends it with `Break`. Returns the final account.
    pub fn run(mut self, sink: &mut Sink) -> Context {
        while self.poll_events(Duration::from_millis(100), sink) {}
        self.finish(&mut |_, _| {})
    }

    /// Stops; requests in flight get a second to end, and what is left comes to `take`. Returns the final account, with
    /// the requests that did not end among what is unfinished.
    pub fn finish(mut self, take: &mut dyn FnMut(usize, &[Sample])) -> Context {
        self.stop();
        let until = *self.stopped.get_or_init(Instant::now) + GRACE;
        while self.poll(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)), take)
            && Instant::now() < until
        {}
        let mut context = self.account();
        let outstanding = self.outstanding();
        context.tally.add(Anomaly::Unfinished, outstanding.len() as u64);
        context.tally.add(Anomaly::Withheld, self.withheld());
        context.tally.add(Anomaly::NotSent, self.overdue().iter().map(|overdue| overdue.count).sum());
        for request in &outstanding {
            let common = &self.targets[request.target].common;
            let start_ns = self.epoch.unix_ns + request.since_ns as i64;
            context.unfinished.push(rows::unfinished(&common.probe, &common.target.place, (start_ns, request.age_ns)));
        }
        context.knows_unfinished = true;
        context.sort_unfinished();
        context
    }

    /// As [`Capture::finish`], with what is left as events.
    pub fn finish_events(mut self, sink: &mut Sink) -> Context {
        self.stop();
        let until = *self.stopped.get_or_init(Instant::now) + GRACE;
        let left = || until.saturating_duration_since(Instant::now());
        while self.poll_events(left().min(Duration::from_millis(50)), sink) && !left().is_zero() {}
        self.finish(&mut |_, _| {})
    }

    /// What the trace says about itself by now.
    pub fn account(&self) -> Context {
        let mut context = self.context.clone();
        context.cover(self.epoch.unix_ns + self.elapsed_ns() as i64);
        for (number, measured) in self.targets.iter().enumerate() {
            measured.common.account().report(
                &mut context,
                &measured.common.probe,
                &suffix(self.targets.len() > 1, number),
            );
        }
        context
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop();
        // A thread with descriptors of its own must not be the last to know a file, or it stays open with us.
        for worker in self.workers.drain(..).filter(|worker| worker.done) {
            let _ = worker.thread.join();
        }
    }
}

/// What the events of probes fill.
fn fields(probes: &[Probe]) -> FieldSet {
    match probes.iter().any(|probe| probe.job.is_some()) {
        true => FILLS.with(&[Field::Job, Field::Host]),
        false => FILLS,
    }
}

/// What stands behind the names of properties when there are several targets.
fn suffix(several: bool, number: usize) -> String {
    if several { format!(" ({})", number + 1) } else { String::new() }
}

/// Lets workers prepare, and all start at once.
#[derive(Default)]
struct Start {
    stop: Arc<AtomicBool>,
    go: Arc<AtomicBool>,
    /// When the first of them started.
    epoch: Arc<OnceLock<Epoch>>,
    parked: std::cell::RefCell<Vec<std::thread::Thread>>,
}

impl Start {
    /// Starts the thread of a worker and waits until it is prepared; the name of the call that it will make.
    fn worker(&self, worker: Worker) -> Result<(JoinHandle<()>, &'static str), Error> {
        let (sender, receiver) = mpsc::channel();
        let (go, stop, epoch) = (Arc::clone(&self.go), Arc::clone(&self.stop), Arc::clone(&self.epoch));
        let body = move || {
            cpu::own_descriptors();
            let tools = Tools::prepare(&worker.common.probe);
            let (prepared, name) = match tools {
                Ok(tools) => (Ok(tools.name()), Some(tools)),
                Err(error) => (Err(error), None),
            };
            let _ = sender.send(prepared);
            let Some(tools) = name else { return };
            while !go.load(Ordering::Acquire) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::park();
            }
            // What it takes to wake up is no part of the measurement.
            let epoch = *epoch.get_or_init(Epoch::now);
            match tools {
                Tools::One(requests, buffer) => worker.run(epoch, requests, buffer),
                Tools::Many(ring) => uring::run(worker, epoch, *ring),
            }
        };
        let thread = std::thread::Builder::new().name("probe".into()).spawn(body).map_err(Error::Thread)?;
        self.parked.borrow_mut().push(thread.thread().clone());
        match receiver.recv() {
            Ok(Ok(name)) => Ok((thread, name)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Settings("A thread of the probe ended before it started.".into())),
        }
    }

    /// Now.
    fn go(&self) -> Epoch {
        self.go.store(true, Ordering::Release);
        let parked = self.parked.borrow();
        parked.iter().for_each(std::thread::Thread::unpark);
        if parked.is_empty() { Epoch::now() } else { *self.epoch.wait() }
    }
}

/// What a worker needs, made in its own thread.
enum Tools {
    One(Requests, Buffer),
    Many(Box<Ring>),
}

impl Tools {
    fn prepare(probe: &Probe) -> Result<Tools, Error> {
        cpu::sharp_timers();
        if let Some(number) = probe.cpu {
            cpu::pin(number).map_err(|source| Error::Cpu { number, source })?;
        }
        if probe.idle {
            cpu::idle();
        }
        if probe.realtime {
            cpu::realtime().map_err(|source| Error::Realtime { source })?;
        }
        match probe.chosen_engine() {
            Engine::Uring => Ring::new(probe).map(|ring| Tools::Many(Box::new(ring))),
            _ => Ok(Tools::One(Requests::new(probe)?, Buffer::new(probe.work.size as usize)?)),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Tools::One(requests, _) => requests.name(),
            Tools::Many(_) => "io_uring",
        }
    }
}
