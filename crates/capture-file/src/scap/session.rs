//! From the blocks of a capture to events: calls that start and return are paired by thread.
//!
//! sysdig 0.29.3 measures a return from whatever its thread did last that counts as a start. Here a return belongs to the start of
//! the same call, or to none: it is counted, and no latency is made up for it.

use super::blocks::{Block, kind};
use super::bytes::{Bytes, signed, unsigned};
use super::event::Event;
use super::event_types::{Call, Effect, EventType, EventTypes, kernel_name};
use super::fds::{self, Fd};
use super::lists;
use super::state::{Open, State, added_account};
use crate::unfinished::{Lacks, doubt};
use crate::{ReadOptions, Sink};
use latscope_event::kernel::{call_category, error_name, waits_for_storage};
use latscope_event::{
    Anomaly, Batch, Clock, Context, Field, FieldSet, LossRange, MISSING_CODE, MISSING_I64, MISSING_U64, Unfinished,
    Wait,
};
use std::ops::ControlFlow;

/// Types of events that are no calls.
const PROCEXIT: [u16; 2] = [16, 186];
const DROP_STARTS: u16 = 148;
const DROP_ENDS: u16 = 149;
const USER_ADDED: u16 = 354;
const GROUP_ADDED: u16 = 358;
/// A successful execveat returns as this.
const EXECVEAT: u16 = 330;
const EXECVE_RETURNS: u16 = 293;

/// What was counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub starts: u64,
    pub returns: u64,
    completed: u64,
    unknown: u64,
    damaged: u64,
    inferred: u64,
}

/// Takes the blocks of a capture.
pub struct Session<'a, 's> {
    pub context: Context,
    pub counts: Counts,
    types: &'static EventTypes,
    state: State,
    batch: Batch,
    sink: &'a mut Sink<'s>,
    /// Whether only time and latency are asked for.
    is_plain: bool,
    /// Whether calls that do no I/O are left out.
    only_io: bool,
    wants_parent: bool,
    wants_names: bool,
    /// Codes of name and kind of a call, once it has become an event.
    names: Vec<Option<(u32, u32)>>,
    /// Codes of kinds of descriptor, and of categories by call and kind.
    fd_types: [u32; fds::NAMES.len()],
    categories: Vec<u32>,
    loss_start_ns: Option<i64>,
}

impl<'a, 's> Session<'a, 's> {
    /// Starts without any block.
    pub fn new(name: &str, options: &ReadOptions, sink: &'a mut Sink<'s>) -> Session<'a, 's> {
        let fields = options.fields.intersection(super::FILLS).union(FieldSet::ALWAYS);
        let types = EventTypes::get();
        let has = |field| fields.contains(field);
        Session {
            context: Context::new(format!("sysdig capture, {name}"), Clock::wall()),
            counts: Counts::default(),
            types,
            state: State::new(fields),
            batch: Batch::new(fields),
            sink,
            is_plain: fields == FieldSet::ALWAYS,
            only_io: options.only_io,
            wants_parent: has(Field::Parent),
            wants_names: has(Field::User) || has(Field::Group),
            names: vec![None; types.calls()],
            fd_types: [MISSING_CODE; fds::NAMES.len()],
            categories: if has(Field::Category) {
                vec![MISSING_CODE; types.calls() * fds::NAMES.len()]
            } else {
                Vec::new()
            },
            loss_start_ns: None,
        }
    }

    /// Takes the next block; breaks when nobody wants more.
    #[inline]
    pub fn block(&mut self, block: &Block) -> ControlFlow<()> {
        let Some(layout) = kind::event(block.kind) else {
            self.list(block);
            return ControlFlow::Continue(());
        };
        match Event::parse(layout, block.body) {
            Some(event) => self.event(&event),
            None => self.counts.damaged += 1,
        }
        if self.batch.is_full() { self.hand_on() } else { ControlFlow::Continue(()) }
    }

    fn hand_on(&mut self) -> ControlFlow<()> {
        let go_on = (self.sink)(&self.context, &self.batch);
        self.batch.clear();
        go_on
    }

    /// A block that is no event.
    fn list(&mut self, block: &Block) {
        let mut bytes = Bytes(block.body);
        if block.kind == kind::SECTION {
            self.count_open();
            self.state.clear();
        } else if kind::MACHINE.contains(&block.kind) {
            self.machine(block.body);
        } else if let Some(version) = kind::process_list(block.kind) {
            while bytes.0.len() >= 4 {
                match lists::process(&mut bytes, version) {
                    Some(listed) => self.state.list(&listed, &mut self.batch),
                    None => {
                        self.counts.damaged += 1;
                        break;
                    }
                }
            }
        } else if kind::FDS.contains(&block.kind) {
            if let Some((tid, mut descriptors)) = lists::descriptors(block) {
                for (fd, kind, what) in &mut descriptors {
                    if self.state.wants_fds {
                        self.state.list_fd(tid, fd, kind, &what, &mut self.batch);
                    }
                }
                self.counts.unknown += descriptors.damaged;
            }
        } else if kind::USERS.contains(&block.kind) {
            while self.wants_names && bytes.0.len() >= 9 {
                let Some((is_user, id, name)) = lists::account(&mut bytes, block.kind) else { break };
                self.state.name_account(is_user, id, name);
            }
        } else if !kind::INTERFACES.contains(&block.kind) {
            self.counts.unknown += 1;
        }
    }

    fn machine(&mut self, body: &[u8]) {
        let Some((cpus, host)) = lists::machine(body) else { return };
        let host = Some(String::from_utf8_lossy(host).into_owned()).filter(|host| !host.is_empty());
        let properties = &mut self.context.properties;
        let is_other = properties.insert("cpus".into(), cpus.to_string()).is_some() && self.context.host != host;
        // Sections of several hosts in one file have none in common.
        self.context.host = if is_other { None } else { host };
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        let Some(kind) = self.types.event(event.code) else {
            self.counts.unknown += 1;
            return;
        };
        if !kind.is_call {
            self.other(event);
            return;
        }
        self.context.cover(event.time_ns);
        if self.state.has_lists() {
            self.state.lists_end(&mut self.batch);
        }
        if event.code & 1 == 0 { self.start(event, kind) } else { self.end(event, kind) }
    }

    /// An event that is no call. None of these says when a call starts, although sysdig takes some of them (signals) for it.
    #[cold]
    fn other(&mut self, event: &Event) {
        match event.code {
            code if PROCEXIT.contains(&code) => {
                let was_in_a_call = self.state.end_thread(event.tid);
                if was_in_a_call {
                    self.context.tally.add(Anomaly::NeverReturn, 1);
                }
            }
            DROP_STARTS => self.loss_start_ns = Some(event.time_ns),
            DROP_ENDS => {
                let start_ns = self.loss_start_ns.take().unwrap_or(event.time_ns).min(event.time_ns);
                if self.context.loss_ranges.len() < Context::LOSS_RANGES_KEPT {
                    self.context.loss_ranges.push(LossRange { start_ns, end_ns: event.time_ns, cpu: None, records: 0 });
                }
            }
            USER_ADDED | GROUP_ADDED if self.wants_names => {
                let is_user = event.code == USER_ADDED;
                if let Some((id, name)) = added_account(event, is_user) {
                    self.state.name_account(is_user, id, name);
                }
            }
            _ => {}
        }
    }

    fn call(&self, event: &Event, kind: &EventType) -> Call {
        self.types.call(event.code, kind, || event.param(0).and_then(unsigned))
    }

    #[inline]
    fn start(&mut self, event: &Event, kind: &EventType) {
        self.counts.starts += u64::from(!event.is_state_only);
        let call = self.call(event, kind);
        let mut open = Open {
            time_ns: event.time_ns,
            call,
            code: event.code,
            fd: MISSING_I64,
            size: MISSING_U64,
            offset: MISSING_U64,
            extra: MISSING_I64,
        };
        if !self.is_plain {
            let at = |at: Option<usize>| at.and_then(|at| event.param(at));
            open.fd =
                at(kind.fd).and_then(signed).map_or(MISSING_I64, |fd| if kind.fd.is_some() { fd } else { MISSING_I64 });
            open.size = at(kind.size).and_then(unsigned).unwrap_or(MISSING_U64);
            open.offset = at(kind.offset).and_then(unsigned).filter(|&at| at <= i64::MAX as u64).unwrap_or(MISSING_U64);
            if self.state.follows(kind.effect) {
                open.extra = self.state.entered(event, kind, &mut self.batch);
            }
        }
        if self.state.thread(event.tid).open.replace(open).is_some() {
            self.context.tally.add(Anomaly::UnpairedEnter, 1);
        }
    }

    #[inline]
    fn end(&mut self, event: &Event, kind: &EventType) {
        self.counts.returns += u64::from(!event.is_state_only);
        let call = self.call(event, kind);
        let open = self.state.thread(event.tid).open.take();
        let is_own = |open: &Open| open.call == call || open.code == EXECVEAT && event.code == EXECVE_RETURNS;
        let pair = open.filter(is_own);
        let result = match kind.has_result && (!self.is_plain || self.state.follows(kind.effect)) {
            true => event.param(0).and_then(signed).unwrap_or(MISSING_I64),
            false => MISSING_I64,
        };
        let described = self.described(event, kind, pair.as_ref(), call, result);
        if event.is_state_only {
            return;
        }
        match (open, pair) {
            (_, Some(open)) => match u64::try_from(event.time_ns - open.time_ns) {
                Ok(latency_ns) => self.emit(event, &open, latency_ns, result, &described),
                Err(_) => self.context.tally.add(Anomaly::NegativeLatency, 1),
            },
            (Some(_), None) => {
                self.context.tally.add(Anomaly::UnpairedEnter, 1);
                self.context.tally.add(Anomaly::UnpairedExit, 1);
            }
            // The child of a clone returns from a call that its parent made.
            (None, None) if kind.effect == Effect::Clone && event.param(0).and_then(signed) == Some(0) => {
                self.context.tally.add(Anomaly::OtherRecords, 1);
            }
            (None, None) => self.context.tally.add(Anomaly::UnpairedExit, 1),
        }
    }

    /// What is known of the descriptor of a call, which changes what is known of its thread.
    #[inline]
    fn described(
        &mut self,
        event: &Event,
        kind: &EventType,
        open: Option<&Open>,
        call: Call,
        result: i64,
    ) -> Described {
        let mut described = Described { fd: MISSING_I64, what: None, path: MISSING_CODE };
        if self.is_plain {
            // Only what names threads: an unfinished call has the name of its thread whatever is asked for.
            if self.state.follows(kind.effect) {
                self.state.returned(event, kind, open, result, &mut self.batch);
            }
            return described;
        }
        described.fd = open.map(|open| open.fd).filter(|&fd| fd != MISSING_I64).unwrap_or_else(|| {
            // Captures of later versions have it in the return, too.
            kind.fd.and_then(|at| event.param(at)).and_then(signed).unwrap_or(MISSING_I64)
        });
        let before = if described.fd >= 0 { self.state.fd(event.tid, described.fd) } else { None };
        described.what = before;
        if self.state.follows(kind.effect) {
            let (made, path) = self.state.returned(event, kind, open, result, &mut self.batch);
            described.path = path;
            if let Some((fd, made)) = made {
                (described.fd, described.what) = (fd, Some(made));
            } else if described.fd >= 0 {
                described.what = self.state.fd(event.tid, described.fd).or(before);
            }
        }
        self.attribute(event, call, result, &mut described);
        described
    }

    /// A sync has no descriptor in a capture: it is of the file that its thread wrote last.
    fn attribute(&mut self, event: &Event, call: Call, result: i64, described: &mut Described) {
        let (name, shape) = self.types.known(call);
        match shape.kind {
            "write" if result >= 0 && described.what.is_some_and(|fd| fd.is_file()) => {
                self.state.thread(event.tid).written = described.fd;
            }
            "sync" if described.fd == MISSING_I64 && !matches!(name, "sync" | "msync") => {
                let written = self.state.thread(event.tid).written;
                let file = if written >= 0 { self.state.fd(event.tid, written).filter(Fd::is_file) } else { None };
                if file.is_some() {
                    (described.fd, described.what) = (written, file);
                    self.counts.inferred += u64::from(!event.is_state_only);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn emit(&mut self, event: &Event, open: &Open, latency_ns: u64, result: i64, described: &Described) {
        if self.only_io && !self.types.known(open.call).1.is_io {
            self.context.tally.add(Anomaly::NoIo, 1);
            return;
        }
        self.counts.completed += 1;
        self.batch.push_i64(Field::Time, open.time_ns);
        self.batch.push_u64(Field::Latency, latency_ns);
        if !self.is_plain {
            self.fill(event, open, result, described);
        }
        self.batch.end_row();
    }

    fn fill(&mut self, event: &Event, open: &Open, result: i64, described: &Described) {
        let (name, shape) = self.types.known(open.call);
        let (name_code, kind_code) = match self.names[usize::from(open.call.0)] {
            Some(codes) => codes,
            None => {
                let code = self.batch.intern(Field::Name, name.as_bytes());
                let codes = (code, self.batch.intern(Field::Kind, shape.kind.as_bytes()));
                *self.names[usize::from(open.call.0)].insert(codes)
            }
        };
        let batch = &mut self.batch;
        batch.push_code(Field::Name, name_code);
        batch.push_code(Field::Kind, kind_code);
        let moved = u64::try_from(result).ok().filter(|_| shape.moves);
        batch.push_u64(Field::Size, moved.unwrap_or(open.size));
        batch.push_u64(Field::Offset, open.offset);
        batch.push_i64(Field::Tid, event.tid);
        batch.push_i64(Field::Fd, described.fd);
        batch.push_i64(Field::Result, result);
        batch.push_text(Field::Error, error_name(result).map(str::as_bytes));
        batch.push_i64(Field::Cpu, i64::from(event.cpu));
        self.fill_fd(open.call, name, described);
        self.fill_thread(event.tid);
    }

    fn fill_fd(&mut self, call: Call, name: &str, described: &Described) {
        let kind = described.what.map_or(0, |fd| usize::from(fd.kind));
        let fd_type = Some(fds::NAMES[kind]).filter(|name| !name.is_empty());
        let batch = &mut self.batch;
        if let Some(fd_type) = fd_type
            && self.fd_types[kind] == MISSING_CODE
        {
            self.fd_types[kind] = batch.intern(Field::FdType, fd_type.as_bytes());
        }
        batch.push_code(Field::FdType, self.fd_types[kind]);
        if !self.categories.is_empty() {
            let category = &mut self.categories[usize::from(call.0) * fds::NAMES.len() + kind];
            if *category == MISSING_CODE {
                *category = batch.intern(Field::Category, call_category(kernel_name(name), fd_type).as_bytes());
            }
            batch.push_code(Field::Category, *category);
        }
        batch.push_code(Field::Path, described.what.map_or(described.path, |fd| fd.path));
        if let Some(ends) = described.what.map(|fd| fd.ends) {
            let port = |port: i32| if port < 0 { MISSING_I64 } else { i64::from(port) };
            batch.push_code(Field::LocalIp, ends.local_ip);
            batch.push_i64(Field::LocalPort, port(ends.local_port));
            batch.push_code(Field::RemoteIp, ends.remote_ip);
            batch.push_i64(Field::RemotePort, port(ends.remote_port));
            batch.push_text(Field::L4Proto, fds::protocol_name(ends.protocol).map(str::as_bytes));
        }
    }

    fn fill_thread(&mut self, tid: i64) {
        let Some(thread) = self.state.known_thread(tid) else { return };
        let (batch, codes) = (&mut self.batch, &thread.codes);
        batch.push_i64(Field::Pid, thread.pid);
        batch.push_code(Field::Comm, codes.comm);
        batch.push_code(Field::Exe, codes.exe);
        batch.push_code(Field::ExePath, codes.exe_path);
        batch.push_code(Field::Args, codes.args);
        batch.push_code(Field::Cmdline, codes.cmdline);
        let cwd = self.state.directory_thread(tid).map_or(MISSING_CODE, |thread| thread.codes.cwd);
        batch.push_code(Field::Cwd, cwd);
        batch.push_code(Field::Container, codes.container);
        batch.push_i64(Field::Ppid, thread.ptid);
        batch.push_i64(Field::Uid, thread.uid);
        batch.push_i64(Field::Gid, thread.gid);
        if self.wants_parent {
            let parent = self.state.known_thread(thread.ptid).map_or(MISSING_CODE, |parent| parent.codes.comm);
            let comm = batch.dictionary(Field::Comm).text(parent).map(str::to_owned);
            batch.push_text(Field::Parent, comm.as_ref().map(|comm| comm.as_bytes()));
        }
        if self.wants_names {
            let name =
                |names: &hashbrown::HashMap<u32, Box<[u8]>>, id: i64| names.get(&u32::try_from(id).ok()?).cloned();
            batch.push_text(Field::User, name(&self.state.users, thread.uid).as_deref());
            batch.push_text(Field::Group, name(&self.state.groups, thread.gid).as_deref());
        }
    }

    /// Calls that are open when a section ends do not return in another one.
    fn count_open(&mut self) {
        let count = self.state.opens().count() as u64;
        self.context.tally.add(Anomaly::Unfinished, count);
    }

    /// All blocks were read: the last events, and the account.
    pub fn finish(mut self) -> Context {
        if !self.batch.is_empty() {
            let _ = self.hand_on();
        }
        let counts = self.counts;
        let tally = &mut self.context.tally;
        tally.add(Anomaly::DamagedRecords, counts.damaged);
        tally.add(Anomaly::UnknownRecords, counts.unknown);
        tally.add(Anomaly::InferredFile, counts.inferred);
        tally.add(Anomaly::TextOverflow, u64::from(self.state.is_full));
        self.unfinished();
        self.context
    }

    fn unfinished(&mut self) {
        self.context.knows_unfinished = true;
        self.count_open();
        let Some((_, end_ns)) = self.context.span_ns else { return };
        let mut open: Vec<(i64, Open, Wait)> = self
            .state
            .opens()
            .map(|(tid, _, open)| {
                let waits = waits_for_storage(kernel_name(self.types.known(open.call).0).as_bytes());
                (tid, *open, if waits { Wait::Counts } else { Wait::Elsewhere })
            })
            .collect();
        doubt(open.iter_mut().map(|(.., wait)| wait), Lacks::default(), &self.context.tally, self.counts.completed);
        open.sort_by_key(|&(tid, open, _)| (open.time_ns, tid));
        open.truncate(Context::UNFINISHED_KEPT);
        for (tid, open, wait) in open {
            self.batch.clear();
            let latency_ns = u64::try_from(end_ns.saturating_sub(open.time_ns)).unwrap_or(0);
            let described = Described {
                fd: open.fd,
                what: if open.fd >= 0 { self.state.fd(tid, open.fd) } else { None },
                path: MISSING_CODE,
            };
            self.batch.push_i64(Field::Time, open.time_ns);
            self.batch.push_u64(Field::Latency, latency_ns);
            if !self.is_plain {
                let (name, shape) = self.types.known(open.call);
                self.batch.push_text(Field::Name, Some(name.as_bytes()));
                self.batch.push_text(Field::Kind, Some(shape.kind.as_bytes()));
                self.batch.push_u64(Field::Size, open.size);
                self.batch.push_u64(Field::Offset, open.offset);
                self.batch.push_i64(Field::Tid, tid);
                self.batch.push_i64(Field::Fd, open.fd);
                self.fill_fd(open.call, name, &described);
                self.fill_thread(tid);
            }
            self.batch.end_row();
            let comm = self.state.known_thread(tid).map_or(MISSING_CODE, |thread| thread.codes.comm);
            let comm = self.batch.dictionary(Field::Comm).text(comm).unwrap_or("an unknown process");
            let what = format!("{} by {comm}, thread {tid}", self.types.known(open.call).0);
            self.context.unfinished.push(Unfinished::from_row(what, wait, &self.batch, 0));
        }
        self.context.sort_unfinished();
    }
}

/// The descriptor of a call.
struct Described {
    fd: i64,
    what: Option<Fd>,
    /// What was to be opened and was not.
    path: u32,
}
