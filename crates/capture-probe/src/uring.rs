//! Several requests in flight at once, by io_uring.

use crate::clock::Epoch;
use crate::cpu::CpuWait;
use crate::engine::Buffer;
use crate::worker::{Next, Unhindered, Watched, Worker, end_ns};
use crate::{AfterWrite, Error, Probe, Sample};
use io_uring::{IoUring, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Waiting for a completion ends after so long, to look whether the worker shall stop.
const TURN_NS: u64 = 100_000_000;

/// A ring and memory for what is in flight in it.
pub struct Ring {
    ring: IoUring,
    flights: Vec<Flight>,
    /// The place that has been free for the longest comes first, so that a request takes the place that a probe would have
    /// found free which is never late.
    free: VecDeque<usize>,
}

/// A request, or room for one.
struct Flight {
    buffer: Buffer,
    next: Next,
    intended_ns: u64,
    submitted_ns: u64,
    /// From when its latency counts.
    from_ns: u64,
    unhindered: Unhindered,
    /// Completions that it still waits for; 0 when there is no request.
    open: u8,
    result: i32,
}

/// Whether the kernel lets us.
pub fn is_allowed() -> io::Result<()> {
    IoUring::new(2).map(drop)
}

impl Ring {
    /// For the calling thread.
    pub fn new(probe: &Probe) -> Result<Ring, Error> {
        let entries = (probe.depth * 2).next_power_of_two();
        // The kernel then finishes requests when we ask, not by interrupting us; older kernels do not know it.
        let ring = IoUring::builder().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(entries);
        let ring =
            ring.or_else(|_| IoUring::new(entries)).map_err(|source| Error::Engine { engine: "io_uring", source })?;
        let next = Next { write: false, offset: 0, cached: None };
        let flight = || {
            let buffer = Buffer::new(probe.work.size as usize)?;
            let unhindered = Unhindered::default();
            Ok(Flight { buffer, next, intended_ns: 0, submitted_ns: 0, from_ns: 0, unhindered, open: 0, result: 0 })
        };
        let flights = (0..probe.depth).map(|_| flight()).collect::<Result<Vec<_>, Error>>()?;
        Ok(Ring { ring, free: (0..flights.len()).collect(), flights })
    }

    /// Submits a request from a free place, with which `made` are made.
    fn start(&mut self, worker: &mut Worker, epoch: &Epoch, due_ns: u64, made: u64) {
        let Some(at) = self.free.pop_front() else { return };
        let common = Arc::clone(&worker.common);
        let (work, file) = (&common.probe.work, types::Fd(common.target.file.as_raw_fd()));
        let flight = &mut self.flights[at];
        let next = worker.prepare(flight.buffer.bytes());
        let (memory, len) = (flight.buffer.bytes().as_mut_ptr(), work.size as u32);
        let flags = if work.nowait { libc::RWF_NOWAIT } else { 0 } | if work.hipri { libc::RWF_HIPRI } else { 0 };
        let syncs = next.write && work.after_write != AfterWrite::None;
        let mut entry = if next.write {
            opcode::Write::new(file, memory, len).offset(next.offset).rw_flags(flags).build()
        } else {
            opcode::Read::new(file, memory, len).offset(next.offset).rw_flags(flags).build()
        }
        .user_data(at as u64 * 2);
        if syncs {
            entry = entry.flags(squeue::Flags::IO_LINK);
        }
        let now_ns = epoch.elapsed_ns();
        let intended_ns = if common.probe.pace.open { due_ns } else { now_ns };
        flight.open = 1 + u8::from(syncs);
        (flight.next, flight.intended_ns, flight.submitted_ns) = (next, intended_ns, now_ns);
        flight.from_ns = flight.unhindered.starts(intended_ns, now_ns);
        worker.watched.starts(at, flight.from_ns, made);
        let mut queue = self.ring.submission();
        // SAFETY: the buffer belongs to the flight, which outlives the request: it is not touched before its completion,
        // and the ring is dropped only when nothing is in flight.
        let mut pushed = unsafe { queue.push(&entry) }.is_ok();
        if syncs {
            let flags = match work.after_write {
                AfterWrite::Fdatasync => types::FsyncFlags::DATASYNC,
                _ => types::FsyncFlags::empty(),
            };
            let sync = opcode::Fsync::new(file).flags(flags).build().user_data(at as u64 * 2 + 1);
            // SAFETY: no memory is involved.
            pushed &= unsafe { queue.push(&sync) }.is_ok();
        }
        // The queue has room for two entries of every flight.
        debug_assert!(pushed);
    }

    /// Takes what is complete; each finished request goes to `done`.
    fn reap(&mut self, now_ns: u64, watched: &Watched, mut done: impl FnMut(&Flight, u64)) {
        for completion in self.ring.completion() {
            let (at, is_sync) = (completion.user_data() as usize / 2, completion.user_data() % 2 == 1);
            let Some(flight) = self.flights.get_mut(at) else { continue };
            // The sync after a failed write is cancelled, which is not what went wrong.
            if !is_sync || completion.result() < 0 && completion.result() != -libc::ECANCELED {
                flight.result = completion.result();
            }
            flight.open -= 1;
            if flight.open == 0 {
                watched.ends(at);
                flight.unhindered.ends(flight.from_ns, now_ns - flight.submitted_ns);
                done(flight, now_ns);
                self.free.push_back(at);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }
}

/// Makes requests until there is no more to do.
pub fn run(mut worker: Worker, epoch: Epoch, mut ring: Ring) {
    let common = Arc::clone(&worker.common);
    let probe = &common.probe;
    let end_ns = end_ns(probe);
    let mut waits = CpuWait::of_this_thread(probe.cpu_wait);
    let mut made = 0;
    loop {
        let mut now_ns = epoch.elapsed_ns();
        let stopped = worker.stop.load(Ordering::Relaxed);
        let is_over = |worker: &Worker, made| stopped || made >= worker.count || worker.due.next_ns() >= end_ns;
        while !is_over(&worker, made) && !ring.free.is_empty() && worker.due.next_ns() <= now_ns {
            let due_ns = worker.due.next_ns();
            made += 1;
            ring.start(&mut worker, &epoch, due_ns, made);
            worker.due.advance(now_ns);
            now_ns = epoch.elapsed_ns();
        }
        let over = is_over(&worker, made);
        if over && ring.in_flight() == 0 {
            break;
        }
        // Until a completion, or until the next request is due and there is room for it.
        let can_start = !over && !ring.free.is_empty();
        let until_ns = if can_start { worker.due.next_ns().saturating_sub(now_ns).min(TURN_NS) } else { TURN_NS };
        worker.outbox.before_sleep(now_ns, now_ns + until_ns);
        if until_ns > 0 {
            waits.refresh(now_ns);
        }
        if ring.in_flight() > 0 {
            wait(&ring, until_ns.saturating_sub(probe.spin_ns));
        } else {
            epoch.wait_until(now_ns + until_ns, probe.spin_ns, &worker.stop, || ());
        }
        now_ns = epoch.elapsed_ns();
        let mut failed = false;
        let (outbox, watched) = (&mut worker.outbox, &worker.watched);
        ring.reap(now_ns, watched, |flight, completed_ns| {
            failed |= flight.result < 0;
            outbox.push(Sample {
                intended_ns: flight.intended_ns,
                submitted_ns: flight.submitted_ns,
                completed_ns,
                waited_ns: flight.from_ns - flight.intended_ns,
                offset: flight.next.offset,
                result: flight.result,
                cpu_wait_ns: waits.after(completed_ns, completed_ns - flight.submitted_ns, 0),
                write: flight.next.write,
                cached: flight.next.cached,
            });
        });
        if failed && probe.stop_on_error {
            worker.stop.store(true, Ordering::Relaxed);
        }
    }
    let not_sent = worker.not_sent(made, epoch.elapsed_ns().min(end_ns));
    worker.outbox.done(not_sent);
}

/// Submits, and waits so long for a completion.
fn wait(ring: &Ring, ns: u64) {
    let time = types::Timespec::from(Duration::from_nanos(ns));
    let arguments = types::SubmitArgs::new().timespec(&time);
    // A failure here (a signal, the time is over) is no failure of a request: those come as completions.
    let _ = ring.ring.submitter().submit_with_args(1, &arguments);
}
