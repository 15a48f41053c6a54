//! Events of system calls that a trace has as text, with their latency.

use crate::Sink;
use crate::call_text::CallText;
use crate::processes::{Processes, shows_process};
use crate::syscall_pairs;
use crate::text_rows::Rows;
use crate::unfinished::{Lacks, doubt};
use hashbrown::HashMap;
use latscope_event::kernel::{CallShape, FdFrom, call_category, call_shape, error_name, waits_for_storage};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, MISSING_I64, MISSING_U64, Unfinished, Wait};
use std::ops::ControlFlow;

/// The fields that a call fills.
pub const FILLS: FieldSet = syscall_pairs::FILLS.with(&[Field::FdType, Field::Path, Field::Category]);

/// More different calls than any kernel has; a trace with more is damaged, and the rest are looked up each time.
const CALLS_LIMIT: usize = 4096;
/// The largest number of an error that programs get.
const ERRORS: i64 = 133;

/// Text that is kept of the calls that threads are in.
const KEPT_BYTES: usize = 16 << 20;
const KEPT_PER_CALL: usize = 8 << 10;

/// Rows of calls, of which some are printed in two lines: when they start, and when they return.
pub struct CallRows<'a, 'b> {
    pub rows: Rows<'a, 'b>,
    filler: Filler,
    processes: Processes,
    all: bool,
    /// Calls that have not returned, by thread.
    open: HashMap<Option<i32>, Open>,
    /// How many bytes they take.
    kept_bytes: usize,
    /// Texts that are no longer used.
    spare: Vec<Vec<u8>>,
    /// Calls that returned without a duration.
    pub endless: u64,
}

struct Open {
    start_ns: i64,
    comm: Box<[u8]>,
    /// Name and arguments, as far as they are printed.
    text: Vec<u8>,
}

/// The time of a call and its thread.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Start on the trace's clock, nanoseconds.
    pub start_ns: i64,
    /// The thread, if it is known.
    pub tid: Option<i32>,
    /// Its command name; empty if it is not known.
    pub comm: &'a [u8],
}

/// Writes the columns of a row.
struct Filler {
    known: Vec<Known>,
    by_name: HashMap<Box<[u8]>, usize>,
    /// The call of the row before, which is often that of the next.
    last: usize,
    joined: Vec<u8>,
}

struct Known {
    name: Box<[u8]>,
    shape: CallShape,
    /// Whether it shows which process a thread is of.
    shows_process: bool,
    /// Codes of name and kind.
    codes: (u32, u32),
}

impl<'a, 'b> CallRows<'a, 'b> {
    /// Rows of `all` calls, not only those that do I/O.
    pub fn new(context: Context, fields: FieldSet, all: bool, sink: &'a mut Sink<'b>) -> CallRows<'a, 'b> {
        let rows = Rows::new(context, Batch::new(fields.intersection(FILLS)), sink);
        let (filler, open, spare) = (Filler::new(), HashMap::new(), Vec::new());
        CallRows { rows, filler, processes: Processes::default(), all, open, kept_bytes: 0, spare, endless: 0 }
    }

    /// Counts something that makes no event.
    pub fn count(&mut self, anomaly: Anomaly, count: u64) {
        self.rows.context.tally.add(anomaly, count);
    }

    /// Adds a call that is printed in one line.
    pub fn add(&mut self, caller: Caller, latency_ns: Option<u64>, call: &CallText) -> ControlFlow<()> {
        // A thread is in one call at a time.
        if !self.open.is_empty() && self.close(caller.tid) {
            self.count(Anomaly::UnpairedEnter, 1);
        }
        self.add_returned(caller, latency_ns, call)
    }

    /// Keeps the start of a call: its name and arguments, as far as they are printed.
    pub fn start(&mut self, caller: Caller, call: &[u8]) {
        let count = u64::from(self.close(caller.tid));
        self.count(Anomaly::UnpairedEnter, count);
        self.rows.context.cover(caller.start_ns);
        if call.len() > KEPT_PER_CALL || self.kept_bytes + call.len() > KEPT_BYTES {
            return self.count(Anomaly::EvictedInFlight, 1);
        }
        let mut text = self.spare.pop().unwrap_or_default();
        text.extend_from_slice(call);
        let open = Open { start_ns: caller.start_ns, comm: caller.comm.into(), text };
        self.kept_bytes += open.bytes();
        self.open.insert(caller.tid, open);
    }

    /// Forgets the call that a thread is in, if it is in one.
    pub fn close(&mut self, tid: Option<i32>) -> bool {
        self.take_open(tid).map(|open| self.give_back(open.text)).is_some()
    }

    fn take_open(&mut self, tid: Option<i32>) -> Option<Open> {
        let open = self.open.remove(&tid)?;
        self.kept_bytes -= open.bytes();
        Some(open)
    }

    fn give_back(&mut self, mut text: Vec<u8>) {
        text.clear();
        if self.spare.len() < 64 {
            self.spare.push(text);
        }
    }

    /// Adds a call that returns now, by its name and the rest of its text. `caller` starts now.
    pub fn resume(&mut self, caller: Caller, name: &[u8], rest: &[u8], latency_ns: Option<u64>) -> ControlFlow<()> {
        let is_same = |text: &[u8]| text.starts_with(name) && text.get(name.len()) == Some(&b'(');
        let mut text = match self.take_open(caller.tid) {
            Some(Open { start_ns, comm, mut text }) if is_same(&text) => {
                text.extend_from_slice(rest);
                let go_on = match CallText::parse(&text) {
                    Some(call) => self.add_returned(Caller { start_ns, comm: &comm, ..caller }, latency_ns, &call),
                    None => self.unpaired(),
                };
                self.give_back(text);
                return go_on;
            }
            Some(open) => {
                self.count(Anomaly::UnpairedEnter, 1);
                open.text
            }
            None => self.spare.pop().unwrap_or_default(),
        };
        // The tracer was attached while the thread was in the call: only its end is known.
        text.clear();
        text.extend_from_slice(name);
        text.push(b'(');
        text.extend_from_slice(rest);
        let go_on = match (CallText::parse(&text), latency_ns) {
            (Some(call), Some(latency_ns)) => {
                let start_ns = caller.start_ns.saturating_sub_unsigned(latency_ns);
                self.add_returned(Caller { start_ns, ..caller }, Some(latency_ns), &CallText { arguments: b"", ..call })
            }
            _ => self.unpaired(),
        };
        self.give_back(text);
        go_on
    }

    /// Adds a call that returns now, in a line that has only the rest of its text.
    pub fn continued(&mut self, tid: Option<i32>, rest: &[u8], latency_ns: Option<u64>) -> ControlFlow<()> {
        let Some(Open { start_ns, comm, mut text }) = self.take_open(tid) else { return self.unpaired() };
        text.extend_from_slice(rest);
        let go_on = match CallText::parse(&text) {
            Some(call) => self.add_returned(Caller { start_ns, tid, comm: &comm }, latency_ns, &call),
            None => self.unpaired(),
        };
        self.give_back(text);
        go_on
    }

    /// Counts a return without a start.
    pub fn unpaired(&mut self) -> ControlFlow<()> {
        self.count(Anomaly::UnpairedExit, 1);
        ControlFlow::Continue(())
    }

    fn add_returned(&mut self, caller: Caller, latency_ns: Option<u64>, call: &CallText) -> ControlFlow<()> {
        let Some(latency_ns) = latency_ns else {
            self.endless += 1;
            return ControlFlow::Continue(());
        };
        let end_ns = caller.start_ns.saturating_add_unsigned(latency_ns);
        self.rows.context.cover(caller.start_ns);
        self.rows.context.cover(end_ns);
        let at = self.filler.at(call.name, &mut self.rows.batch);
        if self.filler.known[at].shows_process
            && let Some(tid) = caller.tid
        {
            self.processes.learn(tid, call);
        }
        if !self.is_wanted(at) {
            self.rows.context.tally.add(Anomaly::NoIo, 1);
            return ControlFlow::Continue(());
        }
        self.filler.fill(at, caller, &self.processes, latency_ns, call, &mut self.rows.batch);
        self.rows.end_row()
    }

    fn is_wanted(&self, at: usize) -> bool {
        self.all || self.filler.known[at].shape.is_io
    }

    /// The trace is over: calls that have not returned are counted, and the longest are kept.
    pub fn finish(mut self) -> Context {
        let _ = self.rows.hand_on();
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_by_key(|(tid, open)| (open.start_ns, **tid));
        let open = open.into_iter().filter_map(|(&tid, open)| {
            Some((Caller { start_ns: open.start_ns, tid, comm: &open.comm }, CallText::parse_open(&open.text)?))
        });
        let context = &mut self.rows.context;
        context.knows_unfinished = true;
        let end_ns = context.span_ns.map_or(0, |(_, end_ns)| end_ns);
        // Filled whatever is asked for: the account of a trace depends on nothing but the trace.
        let (mut batch, mut filler, mut whats) = (Batch::new(FILLS), Filler::new(), Vec::new());
        for (caller, call) in open {
            let at = filler.at(call.name, &mut batch);
            if !self.all && !filler.known[at].shape.is_io {
                context.tally.add(Anomaly::NoIo, 1);
                continue;
            }
            context.tally.add(Anomaly::Unfinished, 1);
            if whats.len() < Context::UNFINISHED_KEPT {
                let latency_ns = u64::try_from(end_ns.saturating_sub(caller.start_ns)).unwrap_or(0);
                filler.fill(at, caller, &self.processes, latency_ns, &call, &mut batch);
                batch.end_row();
                let thread = caller.tid.map_or(String::new(), |tid| format!(" by thread {tid}"));
                let wait = if waits_for_storage(call.name) { Wait::Counts } else { Wait::Elsewhere };
                whats.push((format!("{}{thread}", String::from_utf8_lossy(call.name)), wait));
            }
        }
        doubt(whats.iter_mut().map(|(_, wait)| wait), Lacks::default(), &context.tally, self.rows.count);
        let rows = whats.into_iter().enumerate();
        context.unfinished.extend(rows.map(|(row, (what, wait))| Unfinished::from_row(what, wait, &batch, row)));
        context.sort_unfinished();
        self.rows.finish()
    }
}

impl Open {
    /// An entry costs more than its text.
    fn bytes(&self) -> usize {
        self.text.len() + self.comm.len() + size_of::<Open>()
    }
}

impl Filler {
    fn new() -> Filler {
        Filler { known: Vec::new(), by_name: HashMap::new(), last: 0, joined: Vec::new() }
    }

    /// Which of the known calls has this name.
    fn at(&mut self, name: &[u8], batch: &mut Batch) -> usize {
        if self.known.get(self.last).is_some_and(|known| *known.name == *name) {
            return self.last;
        }
        self.last = match self.by_name.get(name) {
            Some(&at) => at,
            None => self.learn(name, batch),
        };
        self.last
    }

    #[cold]
    fn learn(&mut self, name: &[u8], batch: &mut Batch) -> usize {
        if self.known.len() >= CALLS_LIMIT {
            self.known.truncate(CALLS_LIMIT - 1);
            self.by_name.retain(|_, at| *at < CALLS_LIMIT - 1);
        }
        let (at, shape) = (self.known.len(), call_shape(name));
        let codes = (batch.intern(Field::Name, name), batch.intern(Field::Kind, shape.kind.as_bytes()));
        self.known.push(Known { name: name.into(), shape, shows_process: shows_process(name), codes });
        self.by_name.insert(name.into(), at);
        at
    }

    /// Writes the columns that the batch has.
    fn fill(
        &mut self,
        at: usize,
        caller: Caller,
        processes: &Processes,
        latency_ns: u64,
        call: &CallText,
        batch: &mut Batch,
    ) {
        let Known { shape, codes, .. } = &self.known[at];
        let fields = batch.fields();
        let has = |field| fields.contains(field);
        if has(Field::Pid) {
            let pid = caller.tid.and_then(|tid| processes.pid(tid));
            batch.push_i64(Field::Pid, pid.map_or(MISSING_I64, i64::from));
        }
        batch.push_i64(Field::Time, caller.start_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Name, codes.0);
        batch.push_code(Field::Kind, codes.1);
        batch.push_i64(Field::Tid, caller.tid.map_or(MISSING_I64, i64::from));
        batch.push_text(Field::Comm, Some(caller.comm).filter(|comm| !comm.is_empty()));
        let returned = call.returned();
        let given = returned.value.filter(|&value| value >= 0);
        if has(Field::Size) {
            let moved = given.filter(|_| shape.moves).map(|value| value as u64);
            let size = moved.or_else(|| call.size(shape.size?));
            batch.push_u64(Field::Size, size.unwrap_or(MISSING_U64));
        }
        if has(Field::Offset) {
            let offset = shape.offset.and_then(|at| call.offset(at)).filter(|&offset| offset <= i64::MAX as u64);
            batch.push_u64(Field::Offset, offset.unwrap_or(MISSING_U64));
        }
        if has(Field::Fd) {
            let argument = (shape.fd == FdFrom::Argument).then(|| call.descriptor()).flatten().map(|(fd, _)| fd);
            let fd = given.filter(|_| shape.fd == FdFrom::Result).or(argument);
            batch.push_i64(Field::Fd, fd.unwrap_or(MISSING_I64));
        }
        if has(Field::Path) || has(Field::FdType) || has(Field::Category) {
            let file = call.file(shape, &mut self.joined);
            let fd_type =
                if call.is_of_directory() && file.fd_type == Some("file") { Some("directory") } else { file.fd_type };
            batch.push_text(Field::Path, file.path);
            batch.push_text(Field::FdType, fd_type.map(str::as_bytes));
            if has(Field::Category) {
                let name = String::from_utf8_lossy(call.name);
                batch.push_text(Field::Category, Some(call_category(&name, fd_type).as_bytes()));
            }
        }
        batch.push_text(Field::Error, returned.error);
        if has(Field::Result) {
            // The kernel returns the number of the error; the library makes it -1.
            let result = returned
                .error
                .map_or(returned.value, |error| returned.value.map(|value| errno(error).unwrap_or(value)));
            batch.push_i64(Field::Result, result.filter(|&result| result != MISSING_I64).unwrap_or(MISSING_I64));
        }
    }
}

/// The negative number of an error by its name.
fn errno(name: &[u8]) -> Option<i64> {
    (1..=ERRORS).map(|number| -number).find(|&result| error_name(result).is_some_and(|known| known.as_bytes() == name))
}
