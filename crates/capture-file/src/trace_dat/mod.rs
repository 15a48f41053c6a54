//! `trace.dat`, what `trace-cmd record` writes: versions 6 and 7, with compressed sections, from machines of either byte order.
//!
//! It holds the kernel's ring buffers as they were: pages of records for each CPU, each in order by itself. The events in them are
//! the same as those that perf records.

mod header;
mod pages;

use crate::input::Input;
use crate::tracepoint::{self, Decoder, Endian, Entry, Events, Stamp};
use crate::{Detected, Error, Position, ReadOptions, Sink};
use header::Recording;
use latscope_event::kernel::Machine;
use latscope_event::{Anomaly, Clock, Context, Field, FieldSet, LossRange};
use pages::{CpuPages, Next};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// The fields that trace.dat can fill.
pub const FILLS: FieldSet = tracepoint::FILLS.without(FieldSet::EMPTY.with(&[Field::Pid]));

/// How every version starts.
const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The magic makes it one.
pub fn detect(head: &[u8]) -> Detected {
    if head.starts_with(MAGIC) { Detected::Yes } else { Detected::No }
}

/// Reads the file; see the crate's `read`.
pub fn read(input: Input, options: &ReadOptions, sink: &mut Sink) -> Result<Context, Error> {
    let name = input.name.clone();
    // What is copied was counted then.
    let progress = options.progress.filter(|_| !input.needs_copy());
    let file = input.seekable()?;
    let failed = |error: io::Error| Error::new(&name, Position::File, format!("Cannot be read: {error}."));
    let recording = Recording::read(&file).map_err(failed)?;
    let recording = recording.map_err(|(at, message)| Error::new(&name, Position::Byte(at), message))?;
    let mut merge = Merge::new(&name, &recording, options, sink)?;
    let mut cpus: Vec<CpuPages> =
        recording.cpus.iter().map(|cpu| CpuPages::new(&file, &recording, *cpu, progress)).collect();
    merge.run(&mut cpus).map_err(failed)?;
    Ok(merge.finish(&recording, &cpus))
}

/// All CPUs on the way into one order.
struct Merge<'a, 's> {
    events: Events<'a, 's>,
    endian: Endian,
    decoders: Vec<Option<Decoder>>,
    shift_ns: i64,
    others: u64,
    damaged: u64,
    /// Lost, as the pages say.
    lost: u64,
}

impl<'a, 's> Merge<'a, 's> {
    fn new(
        name: &str,
        recording: &Recording,
        options: &ReadOptions,
        sink: &'a mut Sink<'s>,
    ) -> Result<Merge<'a, 's>, Error> {
        let clock = match &recording.clock {
            _ if recording.has_date => Clock::wall(),
            Some(clock) => Clock::unanchored(clock_name(clock)),
            None => Clock::unanchored("trace"),
        };
        let context = Context::new(format!("trace-cmd, {name}"), clock);
        let uname: Vec<&str> = recording.uname.split_whitespace().collect();
        let machine = uname.get(3).map_or(Machine::default(), |arch| Machine::from_arch(arch));
        let mut events = Events::new(context, machine, options, FILLS, sink);
        let mut decoders = Vec::new();
        for tracepoint in &recording.tracepoints {
            if let Some(decoder) = Decoder::new(tracepoint, &mut events.syscalls) {
                let at = usize::from(tracepoint.id);
                decoders.resize_with(decoders.len().max(at + 1), || None);
                decoders[at] = Some(decoder);
            }
        }
        if decoders.is_empty() {
            let message = "No recorded event has a latency; record with trace-cmd record -e block:block_rq_issue -e \
                           block:block_rq_complete -e block:block_rq_requeue.";
            return Err(Error::new(name, Position::File, message));
        }
        events.context.host = uname.get(1).map(|&host| host.into());
        for (key, at) in [("os_release", 2), ("arch", 3)] {
            events.context.properties.extend(uname.get(at).map(|&value| (key.into(), value.into())));
        }
        for &(tid, comm) in &recording.comms {
            let _ = events.take(i64::MIN, &Entry::Comm { tid, comm });
        }
        let (endian, shift_ns) = (recording.endian, recording.shift_ns);
        Ok(Merge { events, endian, decoders, shift_ns, others: 0, damaged: 0, lost: 0 })
    }

    fn time(&self, time: u64) -> i64 {
        i64::try_from(time).unwrap_or(i64::MAX).saturating_add(self.shift_ns)
    }

    /// Goes on where the next record is the earliest, until nobody wants more.
    fn run(&mut self, cpus: &mut [CpuPages]) -> io::Result<()> {
        let (mut heads, mut next) = (BinaryHeap::new(), Vec::new());
        for (at, cpu) in cpus.iter_mut().enumerate() {
            let item = self.advance(cpu)?;
            heads.extend(item.as_ref().map(|item| Reverse((item.time(), at))));
            next.push(item);
        }
        while let Some(Reverse((_, at))) = heads.pop() {
            let bound = heads.peek().map_or((u64::MAX, usize::MAX), |&Reverse(bound)| bound);
            while let Some(item) = next[at].take() {
                if (item.time(), at) > bound {
                    heads.push(Reverse((item.time(), at)));
                    next[at] = Some(item);
                    break;
                }
                if self.take(&cpus[at], &item).is_break() {
                    return Ok(());
                }
                next[at] = self.advance(&mut cpus[at])?;
            }
        }
        Ok(())
    }

    /// The next record of a CPU that is of interest.
    #[inline]
    fn advance(&mut self, cpu: &mut CpuPages) -> io::Result<Option<Next>> {
        loop {
            let next = cpu.next()?;
            if let Some(Next::Record { raw, .. }) = &next {
                let id = self.endian.u16(cpu.bytes(raw), 0);
                if !id.is_some_and(|id| matches!(self.decoders.get(usize::from(id)), Some(Some(_)))) {
                    self.others += 1;
                    continue;
                }
            }
            return Ok(next);
        }
    }

    #[inline]
    fn take(&mut self, cpu: &CpuPages, item: &Next) -> std::ops::ControlFlow<()> {
        let time_ns = self.time(item.time());
        match item {
            Next::Record { raw, .. } => {
                let raw = cpu.bytes(raw);
                let entry = || {
                    let decoder = self.decoders.get(usize::from(self.endian.u16(raw, 0)?))?.as_ref()?;
                    // What every record starts with: number, flags, preemption count, thread.
                    let tid = self.endian.u32(raw, 4)? as i32;
                    let stamp = Stamp { time: item.time(), cpu: Some(cpu.cpu), pid: crate::block_pairs::NO_ID, tid };
                    decoder.decode(self.endian, raw, stamp, time_ns)
                };
                match entry() {
                    Some(entry) => self.events.take(time_ns, &entry),
                    None => {
                        self.damaged += 1;
                        std::ops::ControlFlow::Continue(())
                    }
                }
            }
            &Next::Lost { since, records, .. } => {
                self.lost = self.lost.saturating_add(records.max(1));
                let range = LossRange { start_ns: self.time(since), end_ns: time_ns, cpu: Some(cpu.cpu), records };
                self.events.take(time_ns, &Entry::Lost(range))
            }
        }
    }

    fn finish(mut self, recording: &Recording, cpus: &[CpuPages]) -> Context {
        let context = &mut self.events.context;
        let damaged: u64 = cpus.iter().map(|cpu| cpu.damaged).sum();
        context.tally.add(Anomaly::DamagedRecords, self.damaged + damaged);
        context.tally.add(Anomaly::OtherRecords, self.others);
        context.tally.add(Anomaly::Truncated, u64::from(cpus.iter().any(|cpu| cpu.is_cut)));
        // trace-cmd counts at the end what the pages say, and what they could not.
        context.tally.add(Anomaly::LostRecords, recording.lost.saturating_sub(self.lost));
        self.events.finish()
    }
}

/// As other formats call these clocks.
fn clock_name(clock: &str) -> &str {
    match clock {
        "mono" => "monotonic",
        "mono_raw" => "monotonic_raw",
        "local" | "global" => "trace",
        clock => clock,
    }
}

#[cfg(test)]
mod tests;
