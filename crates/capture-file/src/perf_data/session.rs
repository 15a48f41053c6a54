//! What is known while the records of a recording pass by: its events, their layouts, its clock.

use super::header::Notes;
use super::records::{HEAD, Stop, kind};
use super::samples::{Attr, Layout, TRACEPOINT};
use super::stacks::Stacks;
use crate::block_pairs::{padded, trimmed};
use crate::perf_sample::sampled;
use crate::syscall_pairs::SyscallPairs;
use crate::time_order::Sorter;
use crate::tracepoint::{Decoder, Endian, Entry, Events, Stamp, format};
use crate::{Error, Position, ReadOptions, Sink};
use hashbrown::HashMap;
use latscope_event::kernel::Machine;
use latscope_event::{Anomaly, Clock, Context, Field, LossRange, MISSING_CODE};
use std::ops::ControlFlow;

/// CPUs, attributes and identifiers beyond these are no machine's.
const CPUS_LIMIT: usize = 8192;
const ATTRS_LIMIT: usize = 4096;
const IDS_LIMIT: usize = 1 << 20;
/// A software event that carries perf's own records and never samples.
const DUMMY: (u32, u64) = (1, 9);

/// A recording in the course of being read.
pub struct Session<'a, 's> {
    name: String,
    endian: Endian,
    all_syscalls: bool,
    notes: Notes,
    attrs: Vec<Attr>,
    /// Whether attributes or formats came that the tables below do not know yet.
    is_changed: bool,
    tables: Tables,
    events: Events<'a, 's>,
    /// Where stacks are asked for.
    stacks: Option<Stacks>,
    sorter: Sorter<Entry>,
    /// Up to here the records were complete when the last round ended.
    complete_ns: i64,
    /// Time of the last record, where it has one.
    last_ns: Option<i64>,
    /// What to add to times to get Unix time, where the recording has it exactly.
    shift_ns: i64,
    last_of_cpu: Vec<i64>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    records: u64,
    samples: u64,
    others: u64,
    damaged: u64,
    /// Lost, as the kernel reported at the time.
    lost: u64,
    /// Lost, as perf found out at the end: the same ones, and those that the kernel could not report.
    lost_in_all: u64,
}

/// How to read samples, made from attributes and formats.
#[derive(Default)]
struct Tables {
    /// The layout that all samples share, unless they differ, and the event if there is only one.
    shared: Option<(Layout, Option<u32>)>,
    layouts: Vec<Layout>,
    by_id: HashMap<u64, u32>,
    decoders: Vec<Option<Decoder>>,
    has_syscalls: bool,
    /// Whether there are samples of a clock or a counter that are events.
    has_samples: bool,
}

impl Tables {
    fn new(attrs: &[Attr], notes: &Notes, syscalls: &mut SyscallPairs) -> Tables {
        let mut tables = Tables { layouts: attrs.iter().map(Attr::layout).collect(), ..Tables::default() };
        for (index, attr) in attrs.iter().enumerate() {
            tables.by_id.extend(attr.ids.iter().map(|&id| (id, index as u32)));
        }
        let sampling = || attrs.iter().enumerate().filter(|(_, attr)| (attr.kind, attr.config) != DUMMY);
        let first = sampling().next().map(|(_, attr)| attr.layout());
        let is_one = sampling().count() == 1;
        // Another event with raw bytes of its own must not be taken for a tracepoint.
        let is_shared =
            |first: &Layout| is_one || sampling().all(|(_, attr)| attr.kind == TRACEPOINT && attr.layout() == *first);
        let other = sampling().find(|(_, attr)| attr.kind != TRACEPOINT).map(|(index, _)| index as u32);
        tables.shared = first.filter(is_shared).map(|first| (first, other));
        tables.has_samples = attrs.iter().any(Attr::samples_stacks);
        let mut recorded = vec![false; 1 << 16];
        for attr in attrs.iter().filter(|attr| attr.kind == TRACEPOINT) {
            if let Some(known) = usize::try_from(attr.config).ok().and_then(|id| recorded.get_mut(id)) {
                *known = true;
            }
        }
        for tracepoint in notes.tracepoints.iter().filter(|tracepoint| recorded[usize::from(tracepoint.id)]) {
            if let Some(decoder) = Decoder::new(tracepoint, syscalls) {
                let at = usize::from(tracepoint.id);
                tables.decoders.resize_with(tables.decoders.len().max(at + 1), || None);
                tables.has_syscalls |= decoder.is_syscall();
                tables.decoders[at] = Some(decoder);
            }
        }
        tables
    }

    /// The layout of a sample, and the number of its event unless that is a tracepoint.
    #[inline]
    fn layout(&self, attrs: &[Attr], endian: Endian, record: &[u8]) -> Option<(&Layout, Option<u32>)> {
        if let Some((layout, other)) = &self.shared {
            return Some((layout, *other));
        }
        let id = endian.u64(record, self.layouts.first()?.id()?)?;
        let index = *self.by_id.get(&id)?;
        let is_tracepoint = attrs.get(index as usize)?.kind == TRACEPOINT;
        Some((self.layouts.get(index as usize)?, (!is_tracepoint).then_some(index)))
    }

    /// The layout of the columns at the end of a record that is no sample.
    fn trailer_stamp(&self, endian: Endian, record: &[u8]) -> Option<Stamp> {
        let id = endian.u64(record, record.len().checked_sub(8)?)?;
        let index = self.by_id.get(&id).map_or(0, |&index| index as usize);
        self.layouts.get(index)?.trailer_stamp(endian, record)
    }
}

/// Hands an entry on; a stack gets its text now that everything before it is known.
#[inline]
fn deliver(
    events: &mut Events,
    stacks: &mut Option<Stacks>,
    (endian, notes): (Endian, &Notes),
    time_ns: i64,
    entry: &Entry,
) -> ControlFlow<()> {
    let Some(stacks) = stacks else { return events.take(time_ns, entry) };
    let mut entry = *entry;
    match entry {
        Entry::Memory { slot } => {
            stacks.take(slot, endian, notes);
            return ControlFlow::Continue(());
        }
        _ => {
            if let Some(slot) = entry.stack().filter(|&slot| slot != MISSING_CODE) {
                let code = events.stack(stacks.take(slot, endian, notes));
                entry.set_stack(code);
            }
        }
    }
    events.take(time_ns, &entry)
}

impl<'a, 's> Session<'a, 's> {
    /// Starts with what is known before the first record, which is nothing in a pipe.
    pub fn new(
        name: String,
        endian: Endian,
        notes: Notes,
        attrs: Vec<Attr>,
        options: &ReadOptions,
        sink: &'a mut Sink<'s>,
    ) -> Session<'a, 's> {
        let context = Context::new(format!("perf record, {name}"), Clock::unanchored("perf"));
        let events = Events::new(context, Machine::default(), options, super::FILLS, sink);
        let stacks = options.fields.contains(Field::Stack).then(Stacks::default);
        Session {
            name,
            endian,
            all_syscalls: options.all_syscalls,
            notes,
            attrs,
            is_changed: true,
            tables: Tables::default(),
            events,
            stacks,
            sorter: Sorter::new(),
            complete_ns: i64::MIN,
            last_ns: None,
            shift_ns: 0,
            last_of_cpu: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn error(&self, place: Position, message: impl Into<String>) -> Error {
        Error::new(&self.name, place, message)
    }

    /// Makes the tables, and adds what the notes say to the context.
    fn learn(&mut self) -> Result<(), Error> {
        self.is_changed = false;
        if self.counts.samples == 0 {
            let machine = self.notes.arch.as_deref().map_or(Machine::default(), Machine::from_arch);
            self.events.syscalls = SyscallPairs::new(machine, self.all_syscalls);
            self.learn_clock();
        }
        self.tables = Tables::new(&self.attrs, &self.notes, &mut self.events.syscalls);
        let context = &mut self.events.context;
        context.host = self.notes.host.clone();
        for (key, value) in [
            ("os_release", &self.notes.kernel),
            ("perf_version", &self.notes.perf_version),
            ("arch", &self.notes.arch),
            ("cmdline", &self.notes.command),
        ] {
            if let Some(value) = value {
                context.properties.insert(key.into(), value.chars().take(4096).collect());
            }
        }
        self.events.sampled = (0..self.attrs.len()).map(|index| padded(self.sampled_name(index))).collect();
        if self.tables.decoders.is_empty() && !self.tables.has_samples {
            return Err(self.error(Position::File, self.nothing_recorded()));
        }
        Ok(())
    }

    /// What a sample of an event is called.
    fn sampled_name(&self, index: usize) -> &[u8] {
        let attr = &self.attrs[index];
        let noted = self.notes.event_names.get(index).and_then(|name| sampled(name.as_bytes()));
        match (noted, attr.kind, attr.config) {
            (Some((name, _)), ..) => name,
            (None, 1, 0) => b"cpu-clock",
            (None, 1, 1) => b"task-clock",
            (None, 0, 0) => b"cycles",
            _ => b"counter",
        }
    }

    fn learn_clock(&mut self) {
        let chosen = self.attrs.iter().find_map(|attr| attr.clockid);
        let exact = self
            .notes
            .clock
            .and_then(|(_, wall_ns, clock_ns)| i64::try_from(i128::from(wall_ns) - i128::from(clock_ns)).ok());
        let (clock, shift_ns) = match (chosen, exact) {
            (Some(_), Some(shift_ns)) => (Clock::wall(), shift_ns),
            (Some(0), None) => (Clock::wall(), 0),
            (Some(1), None) => (Clock::unanchored("monotonic"), 0),
            (Some(4), None) => (Clock::unanchored("monotonic_raw"), 0),
            (Some(7), None) => (Clock::unanchored("boot"), 0),
            (Some(11), None) => (Clock::unanchored("tai"), 0),
            _ => (Clock::unanchored("perf"), 0),
        };
        (self.events.context.clock, self.shift_ns) = (clock, shift_ns);
    }

    /// Estimates the wall clock: the file was closed about when the last sample was taken.
    pub fn anchor(&mut self, written_unix_ns: Option<i64>) {
        self.learn_clock();
        let last = self.notes.sample_times.and_then(|(_, last)| i64::try_from(last).ok());
        self.estimate_clock(written_unix_ns, last);
    }

    fn estimate_clock(&mut self, written_unix_ns: Option<i64>, last_ns: Option<i64>) {
        let clock = &mut self.events.context.clock;
        if let (None, Some(written), Some(last)) = (clock.to_unix_ns, written_unix_ns, last_ns) {
            clock.to_unix_ns = written.checked_sub(last);
            clock.approximate = clock.to_unix_ns.is_some();
        }
    }

    fn nothing_recorded(&self) -> String {
        let mut names = self.notes.event_names.clone();
        names.retain(|name| !name.starts_with("dummy"));
        if names.is_empty() {
            names.extend(self.attrs.iter().filter_map(|attr| {
                let known = self.notes.tracepoints.iter().find(|known| u64::from(known.id) == attr.config);
                match (attr.kind, known) {
                    _ if (attr.kind, attr.config) == DUMMY => None,
                    (TRACEPOINT, Some(known)) => Some(format!("{}:{}", known.system, known.name)),
                    (kind, _) => Some(format!("type {kind} config {}", attr.config)),
                }
            }));
        }
        names.dedup();
        let more = names.len().saturating_sub(8);
        names.truncate(8);
        let list = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "The recorded events ({list}{more}) have no latency; record with perf record -e block:block_rq_issue \
             -e block:block_rq_complete -a."
        )
    }

    /// Time of the record that was taken last; none where it has no time of its own.
    pub fn last_ns(&self) -> Option<i64> {
        self.last_ns
    }

    /// Takes a record in the order of the file; breaks when nobody wants more.
    #[inline]
    pub fn record(&mut self, record_kind: u32, record: &[u8], at: u64) -> Result<ControlFlow<()>, Error> {
        self.counts.records += 1;
        if record_kind != kind::SAMPLE {
            self.last_ns = None;
            return self.other_record(record_kind, record);
        }
        if self.is_changed {
            self.learn().map_err(|error| Error { position: Position::Byte(at), ..error })?;
        }
        self.counts.samples += 1;
        match self.sample(record) {
            Some(true) if self.is_full() => Ok(self.release_half()),
            Some(true) => Ok(ControlFlow::Continue(())),
            Some(false) => {
                self.counts.others += 1;
                Ok(ControlFlow::Continue(()))
            }
            None => {
                self.counts.damaged += 1;
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// Puts what a sample says into the sorter; false when it says nothing of interest, `None` when it makes no sense.
    #[inline(always)]
    fn sample(&mut self, record: &[u8]) -> Option<bool> {
        let endian = self.endian;
        self.last_ns = None;
        let (layout, other) = self.tables.layout(&self.attrs, endian, record)?;
        if let Some(event) = other {
            let layout = *layout;
            return self.plain_sample(layout, event, record);
        }
        let stamp = layout.stamp(endian, record)?;
        let raw = layout.raw(endian, record)?;
        let chain = if self.stacks.is_some() { layout.chain(endian, record) } else { None };
        let time_ns = self.time(stamp.time)?;
        // It records how far its stream has come, of interest or not.
        self.last_ns = Some(time_ns);
        let id = endian.u16(raw, 0)?;
        if let Some(cpu) = stamp.cpu {
            self.saw_cpu(cpu, time_ns);
        }
        let Some(Some(decoder)) = self.tables.decoders.get(usize::from(id)) else { return Some(false) };
        let mut entry = match decoder {
            // Spelled out, since it is all that most files hold.
            Decoder::Block(fields) => Entry::Block(fields.decode(endian, raw, stamp, time_ns)?),
            decoder => decoder.decode(endian, raw, stamp, time_ns)?,
        };
        if let Some(chain) = chain {
            self.add_stack(chain, stamp.pid, &mut entry);
        }
        self.sorter.push(time_ns, entry);
        Some(true)
    }

    /// A sample of a clock or a counter.
    fn plain_sample(&mut self, layout: Layout, event: u32, record: &[u8]) -> Option<bool> {
        let endian = self.endian;
        let attr = self.attrs.get(event as usize)?;
        if !attr.samples_stacks() {
            return Some(false);
        }
        const SOFTWARE: u32 = 1;
        let is_clock = attr.kind == SOFTWARE && attr.config <= 1;
        let period = layout.period(endian, record).unwrap_or(attr.period).min(i64::MAX as u64);
        let stamp = layout.stamp(endian, record)?;
        let time_ns = self.time(stamp.time)?;
        self.last_ns = Some(time_ns);
        if let Some(cpu) = stamp.cpu {
            self.saw_cpu(cpu, time_ns);
        }
        let (pid, tid, period_ns) = (stamp.pid, stamp.tid, if is_clock { period } else { 0 });
        let mut entry = Entry::Sample { pid, tid, event, period_ns, stack: MISSING_CODE };
        if let Some(chain) = layout.chain(endian, record) {
            self.add_stack(chain, pid, &mut entry);
        }
        self.sorter.push(time_ns, entry);
        Some(true)
    }

    /// Keeps the stack until all is known of the memory of its process. Not inlined: most files have no stacks.
    #[inline(never)]
    fn add_stack(&mut self, chain: &[u8], pid: i32, entry: &mut Entry) {
        if let Some(stacks) = &mut self.stacks {
            entry.set_stack(stacks.keep(kind::SAMPLE, pid, chain));
        }
    }

    /// A record of what a process has in memory, which holds from its time on.
    fn memory(&mut self, record_kind: u32, record: &[u8]) -> ControlFlow<()> {
        let Some(stacks) = &mut self.stacks else { return ControlFlow::Continue(()) };
        // What was there when perf started has no time.
        let stamp = self.tables.trailer_stamp(self.endian, record).filter(|stamp| stamp.time > 0);
        let shift_ns = self.shift_ns;
        let time_ns = stamp.and_then(|stamp| i64::try_from(stamp.time).ok()?.checked_add(shift_ns));
        match time_ns.filter(|&time_ns| time_ns > self.complete_ns) {
            Some(time_ns) => {
                let slot = stacks.keep(record_kind, 0, record);
                self.push(time_ns, Entry::Memory { slot })
            }
            None => {
                stacks.obey(self.endian, record_kind, record);
                ControlFlow::Continue(())
            }
        }
    }

    fn time(&self, time: u64) -> Option<i64> {
        i64::try_from(time).ok()?.checked_add(self.shift_ns)
    }

    #[inline]
    fn saw_cpu(&mut self, cpu: u32, time_ns: i64) {
        let cpu = cpu as usize;
        if cpu >= self.last_of_cpu.len() {
            if cpu >= CPUS_LIMIT {
                return;
            }
            self.last_of_cpu.resize(cpu + 1, i64::MIN);
        }
        self.last_of_cpu[cpu] = time_ns;
    }

    fn push(&mut self, time_ns: i64, entry: Entry) -> ControlFlow<()> {
        self.last_ns = Some(time_ns);
        self.sorter.push(time_ns, entry);
        if self.is_full() { self.release_half() } else { ControlFlow::Continue(()) }
    }

    /// Hands on what is complete.
    pub fn release(&mut self, until_ns: i64) -> ControlFlow<()> {
        let Session { events, stacks, notes, endian, sorter, .. } = self;
        sorter.release(until_ns, &mut |time_ns, entry| deliver(events, stacks, (*endian, notes), time_ns, entry))
    }

    /// Hands on the earlier half, complete or not.
    fn release_half(&mut self) -> ControlFlow<()> {
        let Session { events, stacks, notes, endian, sorter, .. } = self;
        sorter.release_half(&mut |time_ns, entry| deliver(events, stacks, (*endian, notes), time_ns, entry))
    }

    fn is_full(&self) -> bool {
        self.sorter.is_full() || self.stacks.as_ref().is_some_and(Stacks::is_full)
    }

    /// perf has been to every CPU: what came before the round before this one is complete.
    pub fn round(&mut self) -> ControlFlow<()> {
        let go_on = self.release(self.complete_ns);
        self.complete_ns = self.sorter.newest_ns();
        go_on
    }

    fn other_record(&mut self, record_kind: u32, record: &[u8]) -> Result<ControlFlow<()>, Error> {
        match record_kind {
            kind::HEADER_ATTR => self.header_attr(record),
            kind::FEATURE => {
                if let (Some(number), Some(bytes), 0) =
                    (self.endian.u64(record, HEAD), record.get(HEAD + 8..), self.counts.samples)
                {
                    self.notes.add(self.endian, u32::try_from(number).unwrap_or(u32::MAX), bytes);
                    self.is_changed = true;
                }
            }
            kind::LOST | kind::LOST_SAMPLES => {
                if self.is_changed {
                    self.learn()?;
                }
                return Ok(self.lost(record_kind, record));
            }
            kind::MMAP | kind::MMAP2 | kind::KSYMBOL => return Ok(self.memory(record_kind, record)),
            kind::COMM | kind::FORK | kind::EXIT => {
                if self.is_changed
                    && !self.attrs.is_empty()
                    && (!self.notes.tracepoints.is_empty() || self.attrs.iter().any(Attr::samples_stacks))
                {
                    self.learn()?;
                }
                if self.memory(record_kind, record).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if (self.tables.has_syscalls || self.tables.has_samples)
                    && let Some((time_ns, entry)) = self.thread(record_kind, record)
                {
                    return Ok(self.push(time_ns, entry));
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// An event of a pipe: its attributes, then its identifiers.
    fn header_attr(&mut self, record: &[u8]) {
        let body = &record[HEAD..];
        let Some(mut attr) = Attr::parse(self.endian, body) else { return };
        let size = self.endian.u32(body, 4).unwrap_or(0) as usize;
        let endian = self.endian;
        let ids = body.get(size..).unwrap_or(&[]).chunks_exact(8);
        attr.ids = ids.filter_map(|id| endian.u64(id, 0)).collect();
        let known: usize = self.attrs.iter().map(|attr| attr.ids.len()).sum();
        if self.attrs.len() < ATTRS_LIMIT && known + attr.ids.len() <= IDS_LIMIT {
            self.attrs.push(attr);
            self.is_changed = true;
        }
    }

    /// How many bytes of tracing data follow a record of a pipe.
    pub fn tracing_data_size(&self, record: &[u8]) -> u64 {
        self.endian.u32(record, HEAD).map_or(0, u64::from)
    }

    /// The tracing data of a pipe.
    pub fn tracing_data(&mut self, bytes: &[u8]) {
        self.notes.tracepoints = format::parse(bytes);
        self.is_changed = true;
    }

    fn thread(&self, record_kind: u32, record: &[u8]) -> Option<(i64, Entry)> {
        let endian = self.endian;
        let word = |at: usize| endian.u32(record, HEAD + at).map(|word| word as i32);
        if record_kind == kind::COMM {
            // Names of threads that perf found when it started have no time: they hold from the start.
            let time_ns = self.tables.trailer_stamp(endian, record).and_then(|stamp| self.time(stamp.time));
            let comm = padded(trimmed(record.get(HEAD + 8..)?));
            return Some((time_ns.unwrap_or(i64::MIN), Entry::Comm { tid: word(4)?, comm }));
        }
        let time_ns = self.time(endian.u64(record, HEAD + 16)?)?;
        let (tid, parent) = (word(8)?, word(12)?);
        let entry = if record_kind == kind::FORK { Entry::Fork { tid, parent } } else { Entry::Gone { tid } };
        Some((time_ns, entry))
    }

    fn lost(&mut self, record_kind: u32, record: &[u8]) -> ControlFlow<()> {
        let stamp = self.tables.trailer_stamp(self.endian, record).filter(|stamp| stamp.time > 0);
        let at = if record_kind == kind::LOST { HEAD + 8 } else { HEAD };
        let Some(records) = self.endian.u64(record, at) else {
            self.counts.damaged += 1;
            return ControlFlow::Continue(());
        };
        let Some((stamp, end_ns)) = stamp.and_then(|stamp| Some((stamp, self.time(stamp.time)?))) else {
            self.counts.lost_in_all = self.counts.lost_in_all.saturating_add(records);
            return ControlFlow::Continue(());
        };
        self.counts.lost = self.counts.lost.saturating_add(records);
        let before = stamp.cpu.and_then(|cpu| self.last_of_cpu.get(cpu as usize).copied());
        let start_ns = before.filter(|&time_ns| time_ns > i64::MIN).unwrap_or(end_ns).min(end_ns);
        self.push(end_ns, Entry::Lost(LossRange { start_ns, end_ns, cpu: stamp.cpu, records }))
    }

    /// The stream ended before its end: an error if nothing was read, else what was read stands.
    pub fn stopped(&mut self, stop: Stop) -> Result<(), Error> {
        let (at, what) = match stop {
            Stop::Cut(at) => (at, "the file ends within a record".to_string()),
            Stop::Damaged(at, what) => (at, what.to_string()),
            Stop::Io(error) if self.counts.samples == 0 => {
                return Err(self.error(Position::File, format!("Cannot be read: {error}.")));
            }
            Stop::Io(error) => (0, error.to_string()),
        };
        if self.counts.samples == 0 && at > 0 {
            return Err(self.error(
                Position::Byte(at),
                format!("Nothing can be read because of {what}; record or copy the file again."),
            ));
        }
        self.events.context.tally.add(Anomaly::Truncated, 1);
        self.events.context.properties.entry("damage".into()).or_insert_with(|| format!("{what}, at byte {at}"));
        Ok(())
    }

    /// All records were read.
    pub fn finish(mut self, written_unix_ns: Option<i64>) -> Result<Context, Error> {
        if self.is_changed {
            self.learn()?;
        }
        if self.release(i64::MAX).is_continue() {
            let last = self.events.context.span_ns.map(|(_, last)| last);
            self.estimate_clock(written_unix_ns, last);
            // The trace goes on to its last record, of interest or not: what waits then has waited until there.
            let seen = self.last_of_cpu.iter().copied().max();
            if let (Some(seen_ns), Some(_)) = (seen, last) {
                self.events.context.cover(seen_ns);
            }
        }
        let counts = self.counts;
        let tally = &mut self.events.context.tally;
        tally.add(Anomaly::LostRecords, counts.lost_in_all.saturating_sub(counts.lost));
        tally.add(Anomaly::OtherRecords, counts.others);
        tally.add(Anomaly::DamagedRecords, counts.damaged);
        tally.add(Anomaly::OutOfOrder, self.sorter.late());
        Ok(self.events.finish())
    }
}
