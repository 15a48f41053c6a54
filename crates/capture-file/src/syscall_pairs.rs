//! Pairs the records of system calls, entered and returned, into events.
//!
//! A thread is in one call at a time, so its identifier is the key. What does not pair is counted, never guessed.
//! Only calls that do I/O become events unless all are asked for: threads wait in `futex` and `epoll_wait` for hours,
//! and such waiting would bury the I/O in every picture.

use crate::block_pairs::{NO_ID, padded, push_stack, trimmed};
use crate::unfinished::{Lacks, doubt};
use hashbrown::HashMap;
use latscope_event::kernel::{CallShape, FdFrom, Machine, call_shape, error_name, waits_for_storage};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, MISSING_I64, MISSING_U64, Unfinished, Wait};

/// The fields that a paired call fills.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Offset,
    Field::Pid,
    Field::Tid,
    Field::Comm,
    Field::Fd,
    Field::Error,
    Field::Result,
]);

/// No machine runs more threads at once; a trace that says so is damaged or made up.
const THREADS_LIMIT: usize = 1 << 18;
/// More different calls than any kernel has; a trace with more is damaged, and the rest share one name.
const CALLS_LIMIT: usize = 4096;

/// A system call, as [`SyscallPairs::numbered`] and [`SyscallPairs::named`] know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call(u16);

/// Which end of a call a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End<'a> {
    /// It started, with these arguments; those left out (as many as the source does not give it) are unknown.
    Enter(&'a [u64]),
    /// It returned this: an error number when it is between -4095 and -1.
    Exit(i64),
}

/// One line of a system call trace.
#[derive(Clone, Copy, Debug)]
pub struct SyscallRecord<'a> {
    /// When, nanoseconds on the trace's clock.
    pub time_ns: i64,
    /// Process, or [`NO_ID`].
    pub pid: i32,
    /// Thread, or [`NO_ID`]; without one nothing pairs.
    pub tid: i32,
    /// Which call; see [`SyscallPairs::numbered`] for the one that returns as number -1.
    pub call: Call,
    /// Entered or returned.
    pub end: End<'a>,
    /// Command name of the thread.
    pub comm: &'a [u8],
    /// Code of the call stack, or [`MISSING_CODE`].
    pub stack: u32,
}

struct Known {
    name: Box<[u8]>,
    shape: CallShape,
    /// Codes of name and kind, once the call has become an event.
    codes: Option<(u32, u32)>,
}

struct Open {
    time_ns: i64,
    fd: i64,
    size: u64,
    offset: u64,
    pid: i32,
    call: Call,
    comm: [u8; 16],
    stack: u32,
    /// How often records had been lost when it started.
    losses: u64,
}

/// The calls that threads are in.
pub struct SyscallPairs {
    machine: Machine,
    all: bool,
    open: HashMap<i32, Open>,
    /// How often records were lost: what started before the last time is doubtful.
    losses: u64,
    /// How many events were made.
    completed: u64,
    known: Vec<Known>,
    by_name: HashMap<Box<[u8]>, Call>,
    by_number: Vec<Option<Call>>,
}

/// The call under which a return without a number shows (`rt_sigreturn` returns as -1).
const UNNUMBERED: Call = Call(0);
/// The call that stands for all beyond [`CALLS_LIMIT`].
const BEYOND: Call = Call(1);

impl SyscallPairs {
    /// Pairs calls that are numbered as on this machine; `all` of them, not only those that do I/O.
    pub fn new(machine: Machine, all: bool) -> SyscallPairs {
        let mut pairs = SyscallPairs {
            machine,
            all,
            open: HashMap::new(),
            losses: 0,
            completed: 0,
            known: Vec::new(),
            by_name: HashMap::new(),
            by_number: Vec::new(),
        };
        pairs.add(b"rt_sigreturn");
        pairs.add(b"syscall_unknown");
        pairs
    }

    /// The call of this number (as signed, since a return may carry -1).
    pub fn numbered(&mut self, number: i64) -> Call {
        let Ok(number) = u32::try_from(number) else { return UNNUMBERED };
        if let Some(&Some(call)) = self.by_number.get(number as usize) {
            return call;
        }
        let call = match self.machine.syscall(number) {
            Some(name) => self.named(name.as_bytes()),
            None => self.named(format!("syscall_{number}").as_bytes()),
        };
        if (number as usize) < CALLS_LIMIT {
            self.by_number.resize(self.by_number.len().max(number as usize + 1), None);
            self.by_number[number as usize] = Some(call);
        }
        call
    }

    /// The call of this name: `read`, or as tracepoints have it, `newstat`.
    pub fn named(&mut self, name: &[u8]) -> Call {
        // The kernel names its functions, programs know the calls by these.
        let name = match name {
            b"newstat" => &b"stat"[..],
            b"newlstat" => b"lstat",
            b"newfstat" => b"fstat",
            b"newuname" => b"uname",
            b"sendfile64" => b"sendfile",
            name => name,
        };
        match self.by_name.get(name) {
            Some(&call) => call,
            None if self.known.len() >= CALLS_LIMIT => BEYOND,
            None => self.add(name),
        }
    }

    fn add(&mut self, name: &[u8]) -> Call {
        let call = Call(self.known.len() as u16);
        self.known.push(Known { name: name.into(), shape: call_shape(name), codes: None });
        self.by_name.insert(name.into(), call);
        call
    }

    fn is(&self, call: Call, names: &[&[u8]]) -> bool {
        names.contains(&&*self.known[usize::from(call.0)].name)
    }

    /// Takes the next record in time order; a call that returned becomes a row of `batch`.
    pub fn push(&mut self, record: &SyscallRecord, batch: &mut Batch, context: &mut Context) {
        context.cover(record.time_ns);
        match record.end {
            End::Enter(arguments) => self.enter(record, arguments, context),
            End::Exit(result) => self.exit(record, result, batch, context),
        }
    }

    fn wanted(&self, call: Call) -> bool {
        self.all || self.known[usize::from(call.0)].shape.is_io
    }

    fn enter(&mut self, record: &SyscallRecord, arguments: &[u64], context: &mut Context) {
        if self.open.remove(&record.tid).is_some() {
            context.tally.add(Anomaly::UnpairedEnter, 1);
        }
        if self.is(record.call, &[b"exit", b"exit_group"]) {
            context.tally.add(Anomaly::NeverReturn, 1);
        } else if !self.wanted(record.call) {
            context.tally.add(Anomaly::NoIo, 1);
        } else if record.tid <= 0 {
            // The kernel gives no number to a dying thread, nor to one outside the tracer's PID namespace.
            context.tally.add(Anomaly::UnpairedEnter, 1);
        } else {
            self.make_room(context);
            let shape = self.known[usize::from(record.call.0)].shape;
            let argument = |at: Option<usize>| at.and_then(|at| arguments.get(at)).copied();
            let fd = argument((shape.fd == FdFrom::Argument).then_some(0));
            let offset = argument(shape.offset).filter(|&offset| offset <= i64::MAX as u64);
            let open = Open {
                time_ns: record.time_ns,
                fd: fd.map_or(MISSING_I64, |fd| i64::from(fd as i32)),
                size: argument(shape.size).unwrap_or(MISSING_U64),
                offset: offset.unwrap_or(MISSING_U64),
                pid: record.pid,
                call: record.call,
                comm: padded(record.comm),
                stack: record.stack,
                losses: self.losses,
            };
            self.open.insert(record.tid, open);
        }
    }

    fn exit(&mut self, record: &SyscallRecord, result: i64, batch: &mut Batch, context: &mut Context) {
        match self.open.remove(&record.tid) {
            Some(open) if open.call == record.call => self.emit(&open, record, result, batch, context),
            Some(_) => {
                context.tally.add(Anomaly::UnpairedEnter, 1);
                context.tally.add(Anomaly::UnpairedExit, 1);
            }
            // The child of a clone returns from a call that its parent made.
            None if result == 0 && self.is(record.call, &[b"clone", b"clone3", b"fork", b"vfork"]) => {
                context.tally.add(Anomaly::OtherRecords, 1);
            }
            None if self.wanted(record.call) => context.tally.add(Anomaly::UnpairedExit, 1),
            None => context.tally.add(Anomaly::NoIo, 1),
        }
    }

    fn emit(&mut self, open: &Open, record: &SyscallRecord, result: i64, batch: &mut Batch, context: &mut Context) {
        let Ok(latency_ns) = u64::try_from(record.time_ns.saturating_sub(open.time_ns)) else {
            context.tally.add(Anomaly::NegativeLatency, 1);
            return;
        };
        if open.losses < self.losses {
            context.tally.add(Anomaly::Doubtful, 1);
        }
        self.completed += 1;
        let known = &mut self.known[usize::from(open.call.0)];
        let (name, kind) = *known.codes.get_or_insert_with(|| {
            (batch.intern(Field::Name, &known.name), batch.intern(Field::Kind, known.shape.kind.as_bytes()))
        });
        let moved = u64::try_from(result).ok().filter(|_| known.shape.moves);
        let fd = if known.shape.fd == FdFrom::Result && result >= 0 { result } else { open.fd };
        batch.push_i64(Field::Time, open.time_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Kind, kind);
        batch.push_code(Field::Name, name);
        batch.push_u64(Field::Size, moved.unwrap_or(open.size));
        batch.push_u64(Field::Offset, open.offset);
        batch.push_i64(Field::Pid, if open.pid == NO_ID { MISSING_I64 } else { i64::from(open.pid) });
        batch.push_i64(Field::Tid, i64::from(record.tid));
        batch.push_text(Field::Comm, Some(trimmed(&open.comm)).filter(|comm| !comm.is_empty()));
        batch.push_i64(Field::Fd, fd);
        batch.push_text(Field::Error, error_name(result).map(str::as_bytes));
        batch.push_i64(Field::Result, result);
        push_stack(open.stack, batch);
        batch.end_row();
    }

    /// The tracer lost records (the caller counts them): calls that are open now may be two calls seen as one.
    pub fn lost(&mut self) {
        self.losses += 1;
    }

    /// Keeps the table bounded: of too many threads the half that has waited longest goes.
    fn make_room(&mut self, context: &mut Context) {
        if self.open.len() < THREADS_LIMIT {
            return;
        }
        let mut times: Vec<i64> = self.open.values().map(|open| open.time_ns).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        let before = self.open.len();
        self.open.retain(|_, open| open.time_ns > median);
        context.tally.add(Anomaly::EvictedInFlight, (before - self.open.len()) as u64);
    }

    /// The trace is over: calls that did not return are counted, and the longest are kept.
    pub fn finish(mut self, context: &mut Context) {
        context.knows_unfinished = true;
        let Some((_, end_ns)) = context.span_ns else { return };
        let mut unfinished = Vec::new();
        for (tid, open) in std::mem::take(&mut self.open) {
            let anomaly = if open.losses < self.losses { Anomaly::OpenAfterLoss } else { Anomaly::Unfinished };
            context.tally.add(anomaly, 1);
            if anomaly == Anomaly::Unfinished {
                let waits = waits_for_storage(&self.known[usize::from(open.call.0)].name);
                unfinished.push((tid, open, if waits { Wait::Counts } else { Wait::Elsewhere }));
            }
        }
        let lacks = Lacks { issues: 0, is_cut: context.tally.get(Anomaly::Truncated) > 0 };
        doubt(unfinished.iter_mut().map(|(.., wait)| wait), lacks, &context.tally, self.completed);
        unfinished.sort_by_key(|(tid, open, _)| (open.time_ns, *tid));
        unfinished.truncate(Context::UNFINISHED_KEPT);
        let mut batch = Batch::new(FILLS);
        for (row, (tid, open, wait)) in unfinished.iter().enumerate() {
            let known = &self.known[usize::from(open.call.0)];
            let comm = trimmed(&open.comm);
            batch.push_i64(Field::Time, open.time_ns);
            batch.push_u64(Field::Latency, end_ns.saturating_sub(open.time_ns).try_into().unwrap_or(0));
            batch.push_text(Field::Kind, Some(known.shape.kind.as_bytes()));
            batch.push_text(Field::Name, Some(&known.name));
            batch.push_u64(Field::Size, open.size);
            batch.push_u64(Field::Offset, open.offset);
            batch.push_i64(Field::Pid, if open.pid == NO_ID { MISSING_I64 } else { i64::from(open.pid) });
            batch.push_i64(Field::Tid, i64::from(*tid));
            batch.push_text(Field::Comm, Some(comm).filter(|comm| !comm.is_empty()));
            batch.push_i64(Field::Fd, open.fd);
            batch.push_text(Field::Error, None);
            batch.push_i64(Field::Result, MISSING_I64);
            batch.end_row();
            let (call, comm) = (String::from_utf8_lossy(&known.name), String::from_utf8_lossy(comm));
            let what = format!("{call} by {comm}, thread {tid}");
            context.unfinished.push(Unfinished::from_row(what, *wait, &batch, row));
        }
        context.sort_unfinished();
    }
}

#[cfg(test)]
#[path = "syscall_pairs_tests.rs"]
mod tests;
