//! A thread that makes requests.

use crate::account::Account;
use crate::clock::Epoch;
use crate::cpu::CpuWait;
use crate::engine::{Buffer, Requests};
use crate::random::Random;
use crate::target::Target;
use crate::{Cache, Due, Operation, Order, Probe, Sample, cache};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many samples are handed on together: few enough to stay in the cache, many enough that nobody is woken often.
const TOGETHER: usize = 4096;
/// So many are folded together in the worker's own thread: they shall still be in the nearest cache.
const FOLDED: usize = 128;
/// Samples are handed on when the oldest is so old.
const OLD_NS: u64 = 100_000_000;
/// Before a sleep of at least this all are handed on, so that a line appears when its request is done.
const SLEEP_NS: u64 = 5_000_000;

/// What a worker sends to the capture.
pub enum Message {
    /// Timed requests.
    Samples { worker: usize, samples: Vec<Sample> },
    /// The worker makes no more requests. So many were due and not made.
    Done { worker: usize, not_sent: u64 },
}

/// What other threads see of a worker while it waits for the target.
pub struct Watched {
    /// For each place in flight: from when its latency counts, plus one; 0 when there is no request.
    flights: Box<[AtomicU64]>,
    /// How many requests were made.
    made: AtomicU64,
}

impl Watched {
    /// With room for so many requests in flight.
    pub fn new(depth: u32) -> Watched {
        Watched { flights: (0..depth.max(1)).map(|_| AtomicU64::new(0)).collect(), made: AtomicU64::new(0) }
    }

    /// A request, with which `made` were made, takes place `at`; its latency counts from `from_ns`.
    #[inline]
    pub fn starts(&self, at: usize, from_ns: u64, made: u64) {
        self.made.store(made, Ordering::Relaxed);
        self.flights[at].store(from_ns + 1, Ordering::Relaxed);
    }

    /// The request in place `at` is done.
    #[inline]
    pub fn ends(&self, at: usize) {
        self.flights[at].store(0, Ordering::Relaxed);
    }

    /// From when the latencies of the requests in flight count.
    pub fn in_flight(&self) -> impl Iterator<Item = u64> {
        self.flights.iter().filter_map(|from_ns| from_ns.load(Ordering::Relaxed).checked_sub(1))
    }

    /// How many requests were made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

/// Distinguishes the wait for a probe's own earlier requests from the lateness of the machine: it follows a probe that is never
/// late, whose requests take as long as the real ones took. With several in flight there is one for each place.
#[derive(Clone, Copy, Default)]
pub struct Unhindered {
    /// When its last request is done.
    free_ns: u64,
}

impl Unhindered {
    /// From when the latency of a request counts that was due at `due_ns` and made at `submitted_ns`.
    #[inline]
    pub fn starts(self, due_ns: u64, submitted_ns: u64) -> u64 {
        due_ns.max(self.free_ns).min(submitted_ns)
    }

    /// That request took so long.
    #[inline]
    pub fn ends(&mut self, from_ns: u64, service_ns: u64) {
        self.free_ns = from_ns + service_ns;
    }
}

/// What workers of one target share.
pub struct Common {
    pub probe: Probe,
    pub target: Target,
    /// Where the file ends to which is appended.
    pub tail: AtomicU64,
    account: Mutex<Account>,
}

impl Common {
    pub fn new(probe: Probe, target: Target) -> Common {
        let tail = AtomicU64::new(target.start);
        Common { probe, target, tail, account: Mutex::default() }
    }

    /// How many requests there are, where each place is gone to once.
    pub fn one_pass(&self) -> Option<u64> {
        let work = &self.probe.work;
        match work.order {
            Order::Once => Some(self.target.len.div_ceil(work.size)),
            Order::Listed => Some(work.offsets.len() as u64),
            Order::Random | Order::Linear | Order::Append => None,
        }
    }

    /// What was counted so far. Nothing that holds it can panic, and a count would stay a count.
    pub fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One worker, before it starts.
pub struct Worker {
    pub common: Arc<Common>,
    pub due: Due,
    pub count: u64,
    pub watched: Arc<Watched>,
    pub stop: Arc<AtomicBool>,
    pub outbox: Outbox,
    pub places: Places,
}

/// What a request is about to do.
#[derive(Clone, Copy)]
pub struct Next {
    pub write: bool,
    pub offset: u64,
    pub cached: Option<bool>,
}

impl Worker {
    /// Makes requests one at a time until there is no more to do.
    pub fn run(mut self, epoch: Epoch, mut requests: Requests, mut buffer: Buffer) {
        let common = Arc::clone(&self.common);
        let (probe, target) = (&common.probe, &common.target);
        let end_ns = end_ns(probe);
        let mut waits = CpuWait::of_this_thread(probe.cpu_wait);
        let (mut made, mut now_ns, mut unhindered) = (0, epoch.elapsed_ns(), Unhindered::default());
        while made < self.count {
            let due_ns = self.due.next_ns();
            if due_ns >= end_ns {
                break;
            }
            let sleeps = due_ns > now_ns;
            if sleeps {
                self.outbox.before_sleep(now_ns, due_ns);
                // Asked before it is due: asking takes microseconds, by which a request would be late.
                if !epoch.wait_until(due_ns, probe.spin_ns, &self.stop, || waits.refresh(now_ns)) {
                    break;
                }
            } else if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let next = self.prepare(buffer.bytes());
            if !sleeps {
                waits.keep_up(now_ns);
            }
            let submitted_ns = epoch.elapsed_ns();
            let intended_ns = if probe.pace.open { due_ns } else { submitted_ns };
            let from_ns = unhindered.starts(intended_ns, submitted_ns);
            self.watched.starts(0, from_ns, made + 1);
            let result = requests.make(&target.file, next.write, buffer.bytes(), next.offset);
            now_ns = epoch.elapsed_ns();
            self.watched.ends(0);
            unhindered.ends(from_ns, now_ns - submitted_ns);
            // What the thread waited for a CPU after its sleep is no part of the request.
            let late_ns = if sleeps { submitted_ns - due_ns } else { 0 };
            let cpu_wait_ns = waits.after(now_ns, now_ns - submitted_ns, late_ns);
            self.outbox.push(Sample {
                intended_ns,
                submitted_ns,
                completed_ns: now_ns,
                waited_ns: from_ns - intended_ns,
                offset: next.offset,
                result,
                cpu_wait_ns,
                write: next.write,
                cached: next.cached,
            });
            made += 1;
            self.due.advance(now_ns);
            if result < 0 && probe.stop_on_error {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        let not_sent = self.not_sent(made, epoch.elapsed_ns().min(end_ns));
        self.outbox.done(not_sent);
    }

    /// Of an open loop: requests that were due before `now_ns` and are not made any more.
    pub fn not_sent(&mut self, mut made: u64, now_ns: u64) -> u64 {
        let from = made;
        while self.common.probe.pace.open && made < self.count && self.due.next_ns() < now_ns {
            self.due.advance(now_ns);
            made += 1;
        }
        made - from
    }

    /// Chooses the next request and brings data and cache into the state that is asked for.
    #[inline(always)]
    pub fn prepare(&mut self, buffer: &mut [u8]) -> Next {
        let work = &self.common.probe.work;
        let write = match work.operation {
            Operation::Read => false,
            Operation::Write => true,
            Operation::Alternate => self.places.alternate(),
        };
        let offset = match work.order {
            Order::Append => self.append(),
            Order::Listed => {
                self.places.at += 1;
                work.offsets.get(self.places.at as usize - 1).copied().unwrap_or(self.places.start)
            }
            _ => self.places.next(),
        };
        if write {
            self.places.random.fill(buffer);
        }
        let cached = match work.cache {
            Cache::Any => None,
            _ if self.common.target.is_stream => None,
            Cache::Cold => self.cool(write, offset),
            Cache::Hot => self.warm(write, offset, buffer),
        };
        Next { write, offset, cached }
    }

    #[inline(never)]
    fn cool(&self, write: bool, offset: u64) -> Option<bool> {
        let (work, file) = (&self.common.probe.work, &self.common.target.file);
        cache::drop_range(file, offset, work.size);
        let looked_at = work.verify_cache && !write && !work.direct;
        if looked_at { cache::pages_in_memory(file, offset, work.size).map(|pages| pages > 0) } else { None }
    }

    #[inline(never)]
    fn warm(&self, write: bool, offset: u64, buffer: &mut [u8]) -> Option<bool> {
        let (work, file) = (&self.common.probe.work, &self.common.target.file);
        if write || work.direct {
            return None;
        }
        let pages = (offset + work.size).div_ceil(4096) - offset / 4096;
        let is_warm = || cache::pages_in_memory(file, offset, work.size).map(|found| found >= pages);
        if is_warm() == Some(true) {
            return Some(true);
        }
        // A failure shows in the request itself.
        let _ = file.read_at(buffer, offset);
        is_warm()
    }

    #[inline(never)]
    fn append(&self) -> u64 {
        let (common, size) = (&self.common, self.common.probe.work.size);
        let offset = common.tail.fetch_add(size, Ordering::Relaxed);
        if offset + size <= common.target.start + common.target.len {
            return offset;
        }
        let work = &common.probe.work;
        if !work.wraps {
            if !work.is_durable() {
                // What is thrown away before the device has it was never written; a failure shows in what follows.
                let _ = common.target.file.sync_data();
            }
            // Between requests; another thread that appends just now makes a hole, which does no harm.
            let _ = common.target.file.set_len(common.target.start);
        }
        common.tail.store(common.target.start + size, Ordering::Relaxed);
        common.target.start
    }
}

/// When no request is started any more.
pub fn end_ns(probe: &Probe) -> u64 {
    probe.duration.map_or(u64::MAX, |duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// What takes the samples of a worker in the worker's own thread.
pub type Fold = Box<dyn FnMut(&[Sample]) + Send>;

/// What becomes of samples.
pub enum Way {
    /// They go to the capture's thread; emptied lists come back.
    HandOn(Receiver<Vec<Sample>>),
    /// They are folded where they are.
    Fold(Fold),
}

/// Gathers samples and hands them on together.
pub struct Outbox {
    worker: usize,
    common: Arc<Common>,
    samples: Vec<Sample>,
    together: usize,
    to: SyncSender<Message>,
    way: Way,
}

impl Outbox {
    pub fn new(worker: usize, common: Arc<Common>, to: SyncSender<Message>, way: Way) -> Outbox {
        let together = if matches!(way, Way::Fold(_)) { FOLDED } else { TOGETHER };
        Outbox { worker, common, samples: Vec::with_capacity(together), together, to, way }
    }

    #[inline]
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() >= self.together || sample.completed_ns - self.samples[0].completed_ns > OLD_NS {
            self.hand_on();
        }
    }

    /// The worker will do nothing from now until then.
    pub fn before_sleep(&mut self, now_ns: u64, until_ns: u64) {
        let Some(first) = self.samples.first() else { return };
        if until_ns - now_ns >= SLEEP_NS || now_ns.saturating_sub(first.completed_ns) > 4 * SLEEP_NS {
            self.hand_on();
        }
    }

    #[cold]
    fn hand_on(&mut self) {
        match &mut self.way {
            Way::Fold(fold) => {
                self.common.account().add(&self.common.probe, &self.samples);
                fold(&self.samples);
                self.samples.clear();
            }
            Way::HandOn(emptied) => {
                let empty = emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(TOGETHER));
                let samples = std::mem::replace(&mut self.samples, empty);
                // When nobody listens any more, the stop flag is set.
                let _ = self.to.send(Message::Samples { worker: self.worker, samples });
            }
        }
    }

    /// The last word.
    pub fn done(&mut self, not_sent: u64) {
        if !self.samples.is_empty() {
            self.hand_on();
        }
        let _ = self.to.send(Message::Done { worker: self.worker, not_sent });
    }
}

/// Where requests go.
pub struct Places {
    start: u64,
    size: u64,
    count: u64,
    is_linear: bool,
    is_stream: bool,
    at: u64,
    wrote: bool,
    pub random: Random,
}

impl Places {
    /// Of thread `thread` of so many.
    pub fn new(probe: &Probe, target: &Target, thread: u32, seed: u64) -> Places {
        let count = match probe.work.order {
            Order::Once => target.len.div_ceil(probe.work.size),
            _ => (target.len / probe.work.size).max(1),
        };
        Places {
            start: target.start,
            size: probe.work.size,
            count,
            is_linear: matches!(probe.work.order, Order::Linear | Order::Once),
            is_stream: target.is_stream,
            at: count / u64::from(probe.threads) * u64::from(thread),
            wrote: false,
            random: Random::new(seed),
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let at = if self.is_stream {
            0
        } else if self.is_linear {
            let at = self.at;
            self.at = if at + 1 >= self.count { 0 } else { at + 1 };
            at
        } else {
            self.random.below(self.count)
        };
        self.start + at * self.size
    }

    fn alternate(&mut self) -> bool {
        self.wrote = !self.wrote;
        self.wrote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue with one server, described by who is in it: requests come every interval, the first in line is served.
    fn queue(interval_ns: u64, services_ns: &[u64]) -> Vec<u64> {
        let (mut line, mut latencies) = (std::collections::VecDeque::new(), Vec::new());
        let (mut now_ns, mut next) = (0, 0);
        while latencies.len() < services_ns.len() {
            while next < services_ns.len() && next as u64 * interval_ns <= now_ns {
                line.push_back(next);
                next += 1;
            }
            match line.pop_front() {
                Some(first) => {
                    now_ns += services_ns[first];
                    latencies.push(now_ns - first as u64 * interval_ns);
                }
                None => now_ns = next as u64 * interval_ns,
            }
        }
        latencies
    }

    #[test]
    fn lateness_of_the_machine_changes_no_latency() {
        let mut random = Random::new(7);
        // Now and then the target stalls for longer than an interval.
        let services_ns: Vec<u64> = (0..5000)
            .map(|_| if random.below(50) == 0 { 20_000 + random.below(90_000) } else { 100 + random.below(9_000) })
            .collect();
        for stall_ns in [0, 1, 3_000, 400_000] {
            let (mut unhindered, mut now_ns, mut latencies) = (Unhindered::default(), 0u64, Vec::new());
            for (number, &service_ns) in services_ns.iter().enumerate() {
                let due_ns = number as u64 * 10_000;
                // The machine is late, seldom very.
                let late_ns = if random.below(20) == 0 { random.below(stall_ns + 1) } else { random.below(5) };
                let submitted_ns = due_ns.max(now_ns) + late_ns;
                let from_ns = unhindered.starts(due_ns, submitted_ns);
                assert!((due_ns..=submitted_ns).contains(&from_ns));
                unhindered.ends(from_ns, service_ns);
                now_ns = submitted_ns + service_ns;
                latencies.push(from_ns - due_ns + service_ns);
            }
            assert_eq!(latencies, queue(10_000, &services_ns), "{stall_ns}");
        }
    }
}
