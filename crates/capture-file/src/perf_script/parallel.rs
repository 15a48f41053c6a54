//! Parses chunks of text on several threads and hands them on in order.

use super::callchain;
use super::line::{CallName, Line, LineSource, SyscallLine};
use crate::Error;
use crate::block_actions::ActionRecord;
use crate::block_pairs::{self, Record};
use crate::input::{Input, LineChunks};
use crate::perf_sample::SampleRecord;
use hashbrown::HashMap;
use latscope_event::{LossRange, MISSING_CODE};
use memchr::memchr_iter;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};

/// Chunks that wait for one worker: enough to keep it busy, few enough to stay in the cache.
const WAITING: usize = 2;

/// What a line became.
pub enum Entry {
    Block(Record),
    /// Place in [`Parsed::calls`].
    Call(u32),
    /// Place in [`Parsed::actions`].
    Action(u32),
    /// Place in [`Parsed::samples`].
    Sample(u32),
    Lost(LossRange),
    Header(Box<str>, Box<str>),
}

/// How many lines around a loss are looked at for one of its CPU, to know when its records were lost.
const LOOK_AROUND: usize = 2000;
/// The time of a loss of which the text gives none.
pub const NO_TIME: i64 = i64::MIN;

/// A system call record that outlives its line.
pub struct CallRecord {
    pub time_ns: i64,
    pub pid: i32,
    pub tid: i32,
    pub enter: bool,
    pub number: i64,
    pub name: Option<[u8; 32]>,
    pub values: [u64; 6],
    pub comm: [u8; 16],
    /// Place in [`Parsed::stacks`], or [`MISSING_CODE`].
    pub stack: u32,
}

/// What is to be read beside records that pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// The call stacks below the records.
    pub stacks: bool,
    /// Samples of clocks and counters.
    pub samples: bool,
}

impl CallRecord {
    fn new(line: &SyscallLine) -> CallRecord {
        let (number, name) = match line.call {
            CallName::Number(number) => (number, None),
            CallName::Name(name) => (0, Some(block_pairs::padded(name))),
        };
        CallRecord {
            time_ns: line.time_ns,
            pid: line.who.pid,
            tid: line.who.tid,
            enter: line.enter,
            number,
            name,
            values: line.values,
            comm: block_pairs::padded(line.who.comm),
            stack: MISSING_CODE,
        }
    }
}

/// The records of a chunk.
#[derive(Default)]
pub struct Parsed<P> {
    pub entries: Vec<Entry>,
    pub calls: Vec<CallRecord>,
    /// With the names of their threads.
    pub actions: Vec<(ActionRecord, [u8; 16])>,
    pub samples: Vec<SampleRecord>,
    /// The texts of all different stacks.
    pub stacks: Vec<String>,
    /// Their places by the lines that they stand on.
    places: HashMap<Box<[u8]>, u32>,
    pub unknown: u64,
    pub other: u64,
    /// When the last of these was, if it is near the end.
    pub other_ns: Option<i64>,
    /// Whether every record is as late as the one before or later.
    pub is_sorted: bool,
    parser: P,
}

impl<P: LineSource> Parsed<P> {
    /// When an entry happened; headers have no time.
    pub fn time(&self, entry: &Entry) -> Option<i64> {
        match entry {
            Entry::Block(record) => Some(record.time_ns),
            Entry::Call(at) => self.calls.get(*at as usize).map(|call| call.time_ns),
            Entry::Action(at) => self.actions.get(*at as usize).map(|(record, _)| record.time_ns),
            Entry::Sample(at) => self.samples.get(*at as usize).map(|sample| sample.time_ns),
            Entry::Lost(range) => Some(range.end_ns).filter(|&time_ns| time_ns != NO_TIME),
            Entry::Header(..) => None,
        }
    }

    /// Puts the entries in order; those of one moment keep theirs.
    pub fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by_key(|entry| self.time(entry));
        self.entries = entries;
    }

    fn parse(&mut self, chunk: &[u8], wanted: Wanted) {
        self.entries.clear();
        self.calls.clear();
        self.actions.clear();
        self.samples.clear();
        self.stacks.clear();
        self.places.clear();
        (self.unknown, self.other) = (0, 0);
        if wanted == Wanted::default() {
            self.parse_lines(chunk);
        } else {
            self.parse_with_stacks(chunk, wanted);
        }
        self.other_ns = if self.other > 0 { self.last_other(chunk) } else { None };
        // While they are in this processor's cache.
        self.is_sorted = self.entries.is_sorted_by_key(|entry| self.time(entry));
    }

    fn last_other(&mut self, chunk: &[u8]) -> Option<i64> {
        let mut lines = chunk.rsplit(|&byte| byte == b'\n').take(LOOK_AROUND);
        let line =
            lines.find(|line| matches!(self.parser.parse(line.strip_suffix(b"\r").unwrap_or(line)), Line::Other))?;
        P::time_and_cpu(line).map(|(time_ns, _)| time_ns)
    }

    fn parse_lines(&mut self, chunk: &[u8]) {
        let mut from = 0;
        for newline in memchr_iter(b'\n', chunk) {
            self.line(&chunk[from..newline], &chunk[..from], &chunk[newline + 1..]);
            from = newline + 1;
        }
        if from < chunk.len() {
            self.line(&chunk[from..], &chunk[..from], b"");
        }
    }

    /// As [`Parsed::parse_lines`], with the lines that belong to the record before them.
    fn parse_with_stacks(&mut self, chunk: &[u8], wanted: Wanted) {
        // Whether the last record became an entry, and where the lines of its stack start.
        let (mut is_entry, mut frames_from, mut from) = (false, None, 0);
        let unended = (!chunk.ends_with(b"\n")).then_some(chunk.len());
        for end in memchr_iter(b'\n', chunk).map(|newline| newline + 1).chain(unended) {
            let line = chunk[from..end].strip_suffix(b"\n").unwrap_or(&chunk[from..end]);
            if callchain::is_frame(line) {
                frames_from = frames_from.or(Some(from));
            } else {
                if let Some(frames_from) = frames_from.take().filter(|_| is_entry && wanted.stacks) {
                    self.end_stack(&chunk[frames_from..from]);
                }
                let (before, others) = (self.entries.len(), self.other);
                self.line(line, &chunk[..from], &chunk[end..]);
                is_entry = self.entries.len() > before;
                if wanted.samples
                    && self.other > others
                    && let Some((sample, frame)) = callchain::sample(line)
                {
                    self.other -= 1;
                    self.entries.push(Entry::Sample(self.samples.len() as u32));
                    self.samples.push(sample);
                    is_entry = true;
                    if wanted.stacks && !frame.is_empty() {
                        self.end_stack(frame);
                    }
                }
            }
            from = end;
        }
        if let Some(frames_from) = frames_from.filter(|_| is_entry && wanted.stacks) {
            self.end_stack(&chunk[frames_from..]);
        }
    }

    /// The last entry has the stack on these lines.
    fn end_stack(&mut self, lines: &[u8]) {
        let place = match self.places.get(lines) {
            Some(&place) => place,
            None => {
                let place = self.stacks.len() as u32;
                self.stacks.push(callchain::text(lines));
                self.places.insert(lines.into(), place);
                place
            }
        };
        match self.entries.last_mut() {
            Some(Entry::Block(record)) => record.stack = place,
            Some(Entry::Call(at)) => self.calls[*at as usize].stack = place,
            Some(Entry::Sample(at)) => self.samples[*at as usize].stack = place,
            _ => {}
        }
    }

    #[inline]
    fn line(&mut self, line: &[u8], before: &[u8], after: &[u8]) {
        match self.parser.parse(line.strip_suffix(b"\r").unwrap_or(line)) {
            Line::Block(record) => self.entries.push(Entry::Block(record)),
            Line::Syscall(call) => {
                self.entries.push(Entry::Call(self.calls.len() as u32));
                self.calls.push(CallRecord::new(&call));
            }
            Line::Action(record, comm) => {
                self.entries.push(Entry::Action(self.actions.len() as u32));
                self.actions.push((record, comm));
            }
            Line::Lost { time_ns, cpu, records } => {
                let start_ns = last_of::<P>(before, cpu).unwrap_or(time_ns);
                self.entries.push(Entry::Lost(LossRange { start_ns, end_ns: time_ns, cpu, records }));
            }
            Line::Gap { cpu, records } => {
                let (before, after) = (last_of::<P>(before, Some(cpu)), first_of::<P>(after, cpu));
                let end_ns = after.or(before).unwrap_or(NO_TIME);
                let start_ns = before.map_or(end_ns, |start_ns| start_ns.min(end_ns));
                self.entries.push(Entry::Lost(LossRange { start_ns, end_ns, cpu: Some(cpu), records }));
            }
            Line::Header(key, value) => {
                let text = |bytes| String::from_utf8_lossy(bytes).into();
                self.entries.push(Entry::Header(text(key), text(value)));
            }
            Line::Silent => {}
            Line::Other => self.other += 1,
            Line::Unknown => self.unknown += 1,
        }
    }
}

/// The time of the last line of a CPU; that of the last line where the text has no CPUs.
fn last_of<P: LineSource>(before: &[u8], cpu: Option<u32>) -> Option<i64> {
    let lines = before.rsplit(|&byte| byte == b'\n').take(LOOK_AROUND);
    lines.filter_map(P::time_and_cpu).find(|&(_, found)| found == cpu).map(|(time_ns, _)| time_ns)
}

/// The time of the first line of a CPU.
fn first_of<P: LineSource>(after: &[u8], cpu: u32) -> Option<i64> {
    let lines = after.split(|&byte| byte == b'\n').take(LOOK_AROUND);
    lines.filter_map(P::time_and_cpu).find(|&(_, found)| found == Some(cpu)).map(|(time_ns, _)| time_ns)
}

/// What a text has beside lines that can be parsed.
pub struct Unread {
    /// Lines that were too long to be understood.
    pub too_long: u64,
    /// Whether the last line was cut.
    pub is_cut: bool,
}

/// Reads all chunks on one thread, parses them on others, and calls `take` for each in the order of the file,
/// until it breaks.
pub fn parse_in_order<P: LineSource + Send>(
    input: Input,
    wanted: Wanted,
    mut take: impl FnMut(&mut Parsed<P>) -> ControlFlow<()>,
) -> Result<Unread, Error> {
    let workers = thread::available_parallelism().map_or(1, usize::from).clamp(1, 4);
    thread::scope(|scope| {
        let (mut chunks_to, mut parsed_from, mut working) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..workers {
            let (to_worker, chunks) = sync_channel::<Vec<u8>>(WAITING);
            let (to_main, parsed) = sync_channel::<Parsed<P>>(WAITING);
            let (give_back, spent) = sync_channel::<Parsed<P>>(2 * WAITING + 2);
            let (empty_chunk, empty_chunks) = sync_channel::<Vec<u8>>(2 * WAITING + 2);
            working.push(scope.spawn(move || work(&chunks, wanted, &to_main, &spent, &empty_chunk)));
            chunks_to.push((to_worker, empty_chunks));
            parsed_from.push((parsed, give_back));
        }
        let reading = scope.spawn(move || distribute(input.lines(), wanted.stacks, chunks_to));
        'all: loop {
            for (parsed, give_back) in &parsed_from {
                let Ok(mut parsed) = parsed.recv() else { break 'all };
                if take(&mut parsed).is_break() {
                    break 'all;
                }
                let _ = give_back.try_send(parsed);
            }
        }
        // Where the loop ended early, the threads find their channels closed and end too.
        drop(parsed_from);
        let unread = joined(reading);
        // The scope would wait until their work is done; this waits until they are gone with all that they own.
        working.into_iter().for_each(joined);
        unread
    })
}

fn joined<T>(thread: ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Where chunks for a worker go, and where it gives their memory back.
type Worker = (SyncSender<Vec<u8>>, Receiver<Vec<u8>>);

/// Deals chunks out to the workers in turn; those of whole records if their stacks are wanted, behind which a line is empty.
fn distribute(mut lines: LineChunks, are_records_whole: bool, workers: Vec<Worker>) -> Result<Unread, Error> {
    let (mut begun, mut is_first, mut is_cut): (Vec<u8>, bool, bool) = (Vec::new(), true, false);
    for (worker, empty_chunks) in workers.iter().cycle() {
        let mut chunk = empty_chunks.try_recv().unwrap_or_default();
        let more = lines.next(&mut chunk).map_err(|error| lines.input.error(&error))?;
        if !more {
            chunk.clear();
        }
        is_cut |= drop_cut(&mut chunk, is_first);
        is_first = false;
        if are_records_whole {
            chunk.splice(..0, begun.drain(..));
            if more && let Some(end) = memchr::memmem::rfind(&chunk, b"\n\n") {
                begun.extend_from_slice(&chunk[end + 2..]);
                chunk.truncate(end + 2);
            }
        }
        // At the end only what was begun is left.
        let is_over = !more && chunk.is_empty();
        if is_over || worker.send(chunk).is_err() {
            break;
        }
    }
    Ok(Unread { too_long: lines.too_long, is_cut })
}

/// Drops a last line without its newline, unless it is the only one: a number that was cut would be another one.
/// Whether there was one.
fn drop_cut(chunk: &mut Vec<u8>, is_first: bool) -> bool {
    let end = memchr::memrchr(b'\n', chunk).map_or(0, |newline| newline + 1);
    if end == 0 && is_first {
        return false;
    }
    let is_cut = end < chunk.len();
    chunk.truncate(end);
    is_cut
}

fn work<P: LineSource>(
    chunks: &Receiver<Vec<u8>>,
    wanted: Wanted,
    to_main: &SyncSender<Parsed<P>>,
    spent: &Receiver<Parsed<P>>,
    empty_chunk: &SyncSender<Vec<u8>>,
) {
    for chunk in chunks {
        let mut parsed = spent.try_recv().unwrap_or_default();
        parsed.parse(&chunk, wanted);
        let _ = empty_chunk.try_send(chunk);
        if to_main.send(parsed).is_err() {
            return;
        }
    }
}
