//! Threads and their descriptors, as events change them: what a capture knows of the thread and file of an event.

mod lives;

use super::bytes::{Bytes, signed, unsigned, until_nul};
use super::event::Event;
use super::event_types::{Effect, EventType};
use super::fds::{self, AT_FDCWD, Address, EndCodes, Ends, Fd};
use super::lists::{Listed, What};
use super::process::{Codes, NO_CODES, Texts, code, describe};
use hashbrown::{HashMap, HashSet};
use latscope_event::{Batch, Field, FieldSet, MISSING_CODE, MISSING_I64};
use std::net::SocketAddr;
use std::rc::Rc;

/// No machine runs more threads at once; a capture that says so is damaged or made up.
const THREADS_LIMIT: usize = 1 << 18;
/// Descriptors of all processes together.
const FDS_LIMIT: usize = 1 << 20;
/// Users, groups and listening sockets.
const NAMES_LIMIT: usize = 1 << 16;
/// Commands of fcntl that return a copy of the descriptor.
const DUPFD: [i64; 2] = [1, 26];
/// The option of prctl that renames the thread.
const PR_SET_NAME: i64 = 15;

/// Fields that take descriptors.
const OF_FDS: FieldSet = FieldSet::EMPTY.with(&[
    Field::Fd,
    Field::FdType,
    Field::Path,
    Field::Category,
    Field::LocalIp,
    Field::LocalPort,
    Field::RemoteIp,
    Field::RemotePort,
    Field::L4Proto,
]);
/// Fields that take threads.
const OF_THREADS: FieldSet = FieldSet::EMPTY.with(&[
    Field::Pid,
    Field::Comm,
    Field::Container,
    Field::Exe,
    Field::ExePath,
    Field::Args,
    Field::Cmdline,
    Field::Cwd,
    Field::Ppid,
    Field::Parent,
    Field::Uid,
    Field::User,
    Field::Gid,
    Field::Group,
]);

/// A call that has not returned.
#[derive(Clone, Copy)]
pub struct Open {
    pub time_ns: i64,
    pub call: super::event_types::Call,
    pub code: u16,
    pub fd: i64,
    pub size: u64,
    pub offset: u64,
    /// What the return of the call needs and does not have: a command, a family of addresses, the path of an old open.
    pub extra: i64,
}

/// A thread.
pub struct Thread {
    pub pid: i64,
    pub ptid: i64,
    pub uid: i64,
    pub gid: i64,
    pub codes: Codes,
    cwd: Rc<[u8]>,
    pub open: Option<Open>,
    /// The descriptor that it wrote last.
    pub written: i64,
    /// Whether it is known only by its parent's call.
    is_expected: bool,
    /// When it was created, as far as the capture has that.
    created_ns: i64,
}

impl Thread {
    fn unknown() -> Thread {
        Thread {
            pid: MISSING_I64,
            ptid: MISSING_I64,
            uid: MISSING_I64,
            gid: MISSING_I64,
            codes: NO_CODES,
            cwd: Rc::from(&b""[..]),
            open: None,
            written: MISSING_I64,
            is_expected: false,
            created_ns: i64::MIN,
        }
    }
}

/// Threads, descriptors, users.
pub struct State {
    threads: HashMap<i64, Thread>,
    /// Descriptors of a process.
    fds: HashMap<i64, HashMap<i64, Fd>>,
    fds_count: usize,
    pub users: HashMap<u32, Box<[u8]>>,
    pub groups: HashMap<u32, Box<[u8]>>,
    listening: HashSet<SocketAddr>,
    /// Sockets of the list of descriptors; which end is the server is known when all of them are.
    listed: Vec<(i64, i64, Ends)>,
    /// What is kept of texts: the fields that are asked for, and those that they are found with.
    fields: FieldSet,
    pub wants_fds: bool,
    wants_threads: bool,
    /// Whether something found no place.
    pub is_full: bool,
}

impl State {
    /// What these fields take. What others follow from is kept with them: a name is also that of a child's parent and of an
    /// unfinished call, and a path may become the working directory.
    pub fn new(asked: FieldSet) -> State {
        let mut fields = asked.with(&[Field::Comm]);
        if asked.contains(Field::Cwd) {
            fields = fields.with(&[Field::Path]);
        }
        let keeps = |set: FieldSet| fields.intersection(set) != FieldSet::EMPTY;
        let wants_threads = asked.intersection(OF_THREADS.union(OF_FDS)) != FieldSet::EMPTY;
        State {
            threads: HashMap::new(),
            fds: HashMap::new(),
            fds_count: 0,
            users: HashMap::new(),
            groups: HashMap::new(),
            listening: HashSet::new(),
            listed: Vec::new(),
            fields,
            wants_fds: keeps(OF_FDS),
            wants_threads,
            is_full: false,
        }
    }

    /// Whether the state takes what a call of this effect does.
    #[inline]
    pub fn follows(&self, effect: Effect) -> bool {
        effect != Effect::None && (self.wants_threads || effect.names_threads())
    }

    /// The thread of this number; a new one without any description if it is not known.
    #[inline]
    pub fn thread(&mut self, tid: i64) -> &mut Thread {
        if self.threads.len() >= THREADS_LIMIT && !self.threads.contains_key(&tid) {
            self.make_room();
        }
        self.threads.entry(tid).or_insert_with(Thread::unknown)
    }

    /// Of too many threads those go that are in no call and of which nothing is known; if these are not enough, all.
    #[cold]
    fn make_room(&mut self) {
        self.is_full = true;
        self.threads.retain(|_, thread| thread.open.is_some() || thread.pid != MISSING_I64);
        if self.threads.len() > THREADS_LIMIT / 2 {
            self.threads.clear();
        }
    }

    /// The thread of this number, if there is one.
    pub fn known_thread(&self, tid: i64) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// The calls that did not return.
    pub fn opens(&self) -> impl Iterator<Item = (i64, &Thread, &Open)> {
        self.threads.iter().filter_map(|(&tid, thread)| Some((tid, thread, thread.open.as_ref()?)))
    }

    /// The process whose table of descriptors a thread uses.
    fn process(&self, tid: i64) -> i64 {
        self.threads.get(&tid).map(|thread| thread.pid).filter(|&pid| pid != MISSING_I64).unwrap_or(tid)
    }

    /// A descriptor of a thread.
    pub fn fd(&self, tid: i64, fd: i64) -> Option<Fd> {
        self.fds.get(&self.process(tid))?.get(&fd).copied()
    }

    fn set_fd(&mut self, tid: i64, fd: i64, what: Fd) {
        if fd < 0 || !self.wants_fds {
            return;
        }
        if self.fds_count >= FDS_LIMIT {
            self.is_full = true;
            return;
        }
        let table = self.fds.entry(self.process(tid)).or_default();
        self.fds_count += usize::from(table.insert(fd, what).is_none());
    }

    fn close(&mut self, tid: i64, fds: std::ops::RangeInclusive<i64>) {
        let process = self.process(tid);
        let Some(table) = self.fds.get_mut(&process) else { return };
        let before = table.len();
        match fds.start() == fds.end() {
            true => _ = table.remove(fds.start()),
            false => table.retain(|fd, _| !fds.contains(fd)),
        }
        self.fds_count -= before - table.len();
    }

    /// A process of the list.
    pub fn list(&mut self, listed: &Listed, batch: &mut Batch) {
        let &Listed { comm, exe, exe_path, args, cwd, cgroups, .. } = listed;
        let codes = describe(self.fields, batch, &Texts { comm, exe, exe_path, args, cwd, cgroups });
        let thread = self.thread(listed.tid);
        (thread.pid, thread.ptid) = (listed.pid, listed.ptid);
        (thread.uid, thread.gid) = (i64::from(listed.uid), i64::from(listed.gid));
        (thread.codes, thread.cwd) = (codes, Rc::from(listed.cwd));
    }

    /// A descriptor of the list. Threads have their process's.
    pub fn list_fd(&mut self, tid: i64, fd: i64, kind: u8, what: &What, batch: &mut Batch) {
        match *what {
            What::Path(path) => {
                let path = code(self.fields, batch, Field::Path, path);
                self.set_fd(tid, fd, Fd { path, ..Fd::new(kind) });
            }
            What::Ends(ends) => {
                if ends.remote.is_none() && self.listening.len() < NAMES_LIMIT {
                    self.listening.insert(ends.local);
                }
                if self.listed.len() < FDS_LIMIT {
                    self.listed.push((tid, fd, ends));
                }
            }
        }
    }

    /// All lists were read: a socket with a local address on which somebody listens is a server's.
    #[cold]
    pub fn lists_end(&mut self, batch: &mut Batch) {
        for (tid, fd, mut ends) in std::mem::take(&mut self.listed) {
            let listens = |ip: &str| {
                let any = ip.parse().map(|ip| SocketAddr::new(ip, ends.local.port()));
                any.is_ok_and(|address| self.listening.contains(&address))
            };
            ends.is_server =
                ends.remote.is_none() || self.listening.contains(&ends.local) || listens("0.0.0.0") || listens("::");
            let socket = socket(self.fields, batch, &ends);
            self.set_fd(tid, fd, socket);
        }
    }

    /// Whether lists were read and not yet [put to use](State::lists_end).
    pub fn has_lists(&self) -> bool {
        !self.listed.is_empty()
    }

    /// A user or group of the list, or added while the capture ran.
    pub fn name_account(&mut self, is_user: bool, id: u32, name: &[u8]) {
        let names = if is_user { &mut self.users } else { &mut self.groups };
        if names.len() < NAMES_LIMIT {
            names.insert(id, name.into());
        }
    }

    /// A thread ends, and with the main thread its process. Whether it was in a call.
    pub fn end_thread(&mut self, tid: i64) -> bool {
        let Some(thread) = self.threads.remove(&tid) else { return false };
        if thread.pid == tid
            && let Some(table) = self.fds.remove(&tid)
        {
            self.fds_count -= table.len();
        }
        thread.open.is_some()
    }

    /// What the return of a call needs of its start.
    pub fn entered(&mut self, event: &Event, kind: &EventType, batch: &mut Batch) -> i64 {
        match kind.effect {
            Effect::Socket => socket_of(event, kind),
            Effect::Exec => {
                let path = event.named(kind, "filename").map_or(&[][..], until_nul);
                let path =
                    if path.is_empty() || path == b"<NA>" { vec![] } else { self.path_in_directory(event.tid, path) };
                i64::from(code(self.fields, batch, Field::ExePath, &path))
            }
            Effect::User | Effect::Group => new_id(event, kind),
            Effect::Fcntl => event.named(kind, "cmd").and_then(unsigned).map_or(MISSING_I64, |cmd| cmd as i64),
            Effect::Open => {
                let path = self.opened_path(event, kind, batch);
                let is_directory = flags(event, kind) & fds::O_DIRECTORY != 0;
                i64::from(path) << 1 | i64::from(is_directory)
            }
            Effect::Message => {
                let fd = kind.fd.and_then(|at| event.param(at)).and_then(signed).unwrap_or(-1);
                self.message(event, kind, fd, true, batch);
                MISSING_I64
            }
            _ => MISSING_I64,
        }
    }

    /// The path of an open, from its directory.
    fn opened_path(&self, event: &Event, kind: &EventType, batch: &mut Batch) -> u32 {
        let name = event.named(kind, "name").or_else(|| event.named(kind, "path")).map_or(&[][..], until_nul);
        if name.is_empty() || !self.fields.contains(Field::Path) {
            return MISSING_CODE;
        }
        let directory = event.named(kind, "dirfd").and_then(signed).unwrap_or(AT_FDCWD);
        let path = match directory {
            AT_FDCWD => self.path_in_directory(event.tid, name),
            fd => {
                let from = self.fd(event.tid, fd).and_then(|fd| batch.dictionary(Field::Path).text(fd.path));
                fds::resolved(from.unwrap_or_default().as_bytes(), name)
            }
        };
        batch.intern(Field::Path, &path)
    }

    /// The thread that has the working directory of another one: that of its process, since threads share it.
    pub fn directory_thread(&self, tid: i64) -> Option<&Thread> {
        let main = self.threads.get(&self.process(tid)).filter(|main| !main.cwd.is_empty());
        main.or_else(|| self.threads.get(&tid))
    }

    /// A path from the working directory of a thread.
    fn path_in_directory(&self, tid: i64, path: &[u8]) -> Vec<u8> {
        fds::resolved(self.directory_thread(tid).map_or(&[][..], |thread| &thread.cwd), path)
    }

    /// A call returned `result`: what it does to descriptors and threads. Returns the descriptor that it made, and the path that it
    /// was to open.
    pub fn returned(
        &mut self,
        event: &Event,
        kind: &EventType,
        open: Option<&Open>,
        result: i64,
        batch: &mut Batch,
    ) -> (Option<(i64, Fd)>, u32) {
        let (tid, extra) = (event.tid, open.map_or(MISSING_I64, |open| open.extra));
        let own_fd = kind.fd.and_then(|at| event.param(at)).and_then(signed);
        let fd = open.map(|open| open.fd).filter(|&fd| fd != MISSING_I64).or(own_fd).unwrap_or(-1);
        let mut path = MISSING_CODE;
        let made = match kind.effect {
            Effect::Open => {
                path = self.opened_path(event, kind, batch);
                let mut is_directory = flags(event, kind) & fds::O_DIRECTORY != 0;
                // Old events of openat have it in their start.
                if kind.param("name").or(kind.param("path")).is_none() && extra >= 0 {
                    (path, is_directory) = ((extra >> 1) as u32, extra & 1 == 1);
                }
                let kind = if is_directory { fds::DIRECTORY } else { fds::FILE };
                Some(Fd { path, ..Fd::new(kind) })
            }
            Effect::Creates(kind) => Some(Fd::new(kind)),
            Effect::Socket => {
                let socket = if extra == MISSING_I64 { socket_of(event, kind) } else { extra };
                let mut made = Fd::new(family_kind(socket & 0xffff_ffff));
                if matches!(made.kind, fds::IPV4 | fds::IPV6) {
                    made.ends.protocol = (socket >> 32) as u8;
                }
                Some(made)
            }
            Effect::Dup => self.fd(tid, fd),
            Effect::Fcntl if DUPFD.contains(&extra) => self.fd(tid, fd),
            Effect::Accept => self.accepted(event, kind, batch),
            Effect::Pipe | Effect::SocketPair if result >= 0 => {
                let what = Fd::new(if kind.effect == Effect::Pipe { fds::PIPE } else { fds::UNIX });
                let ends = ["fd1", "fd2"].map(|name| number(event, kind, name));
                ends.iter().for_each(|&fd| self.set_fd(tid, fd, what));
                // As sysdig, which shows the second one.
                return (Some((ends[1], what)), path);
            }
            _ => {
                self.changed(event, kind, open, fd, result, batch);
                return (None, path);
            }
        };
        match made {
            Some(made) if result >= 0 => {
                self.set_fd(tid, result, made);
                (Some((result, made)), path)
            }
            _ => (None, path),
        }
    }

    /// What a call does that makes no descriptor.
    fn changed(
        &mut self,
        event: &Event,
        kind: &EventType,
        open: Option<&Open>,
        fd: i64,
        result: i64,
        batch: &mut Batch,
    ) {
        let tid = event.tid;
        match kind.effect {
            Effect::Close if result >= 0 => self.close(tid, fd..=fd),
            // As sysdig: what could not be reached has a name, too.
            Effect::Connect => {
                let address = event.named(kind, "tuple").and_then(fds::tuple);
                self.address(tid, fd, address, false, batch);
            }
            Effect::Bind if result >= 0 => {
                if let Some(local) = event.named(kind, "addr").and_then(fds::address) {
                    let protocol = self.fd(tid, fd).map_or(0, |fd| fd.ends.protocol);
                    let ends = Ends { local, remote: None, is_server: true, protocol };
                    let socket = socket(self.fields, batch, &ends);
                    self.set_fd(tid, fd, socket);
                }
            }
            Effect::Message if result >= 0 => self.message(event, kind, fd, false, batch),
            Effect::Prctl if result >= 0 && number(event, kind, "option") == PR_SET_NAME => {
                let name = event.named(kind, "arg2_str").map_or(&[][..], until_nul);
                let comm = code(self.fields, batch, Field::Comm, name);
                if comm != MISSING_CODE {
                    self.thread(tid).codes.comm = comm;
                }
            }
            Effect::Chdir | Effect::Fchdir if result >= 0 => self.moved(event, kind, fd, batch),
            Effect::CloseRange if result >= 0 => {
                let bound = |at: usize| event.param(at).and_then(unsigned).map_or(-1, |fd| fd as i64);
                // Its flag 4 only marks them.
                if event.param(3).and_then(unsigned).is_none_or(|flags| flags & 4 == 0) {
                    self.close(tid, bound(1)..=bound(2).min(i64::from(u32::MAX)));
                }
            }
            Effect::Exec if result >= 0 => self.executed(event, kind, open, batch),
            Effect::Clone => self.cloned(event, kind, open, result, batch),
            Effect::User | Effect::Group if result >= 0 => {
                let new = [new_id(event, kind), open.map_or(MISSING_I64, |open| open.extra)];
                let Some(new) = new.into_iter().find(|&id| id != MISSING_I64) else { return };
                let thread = self.thread(tid);
                *if kind.effect == Effect::User { &mut thread.uid } else { &mut thread.gid } = new;
            }
            _ => {}
        }
    }

    fn moved(&mut self, event: &Event, kind: &EventType, fd: i64, batch: &mut Batch) {
        let path = match kind.effect {
            Effect::Fchdir => {
                let path = self.fd(event.tid, fd).map_or(MISSING_CODE, |fd| fd.path);
                let Some(path) = batch.dictionary(Field::Path).text(path) else { return };
                path.as_bytes().to_vec()
            }
            _ => {
                let name = event.named(kind, "path").map_or(&[][..], until_nul);
                self.path_in_directory(event.tid, name)
            }
        };
        let cwd = code(self.fields, batch, Field::Cwd, &path);
        let process = self.process(event.tid);
        let tid = if self.threads.contains_key(&process) { process } else { event.tid };
        let thread = self.thread(tid);
        (thread.cwd, thread.codes.cwd) = (Rc::from(path), cwd);
    }

    fn accepted(&self, event: &Event, kind: &EventType, batch: &mut Batch) -> Option<Fd> {
        match event.named(kind, "tuple").and_then(fds::tuple)? {
            Address::Internet(remote, local) => {
                // Only connections are accepted.
                let ends = Ends { local, remote: Some(remote), is_server: true, protocol: 2 };
                Some(socket(self.fields, batch, &ends))
            }
            Address::Unix(path) => Some(Fd { path: code(self.fields, batch, Field::Path, path), ..Fd::new(fds::UNIX) }),
        }
    }

    /// A message has the addresses of a socket that is not connected.
    fn message(&mut self, event: &Event, kind: &EventType, fd: i64, is_start: bool, batch: &mut Batch) {
        let Some(known) = self.fd(event.tid, fd).filter(Fd::is_socket) else { return };
        let address = event.named(kind, "tuple").and_then(fds::tuple);
        if address.is_some() && (known.ends.remote_port < 0 || known.ends.protocol == 3) {
            self.address(event.tid, fd, address, !is_start && kind.name.starts_with("recv"), batch);
        }
    }

    /// Gives a socket its addresses.
    fn address(&mut self, tid: i64, fd: i64, address: Option<Address>, is_received: bool, batch: &mut Batch) {
        let protocol = self.fd(tid, fd).map_or(0, |fd| fd.ends.protocol);
        let new = match address {
            None => return,
            Some(Address::Internet(source, destination)) => {
                let (local, remote) = if is_received { (destination, source) } else { (source, destination) };
                socket(self.fields, batch, &Ends { local, remote: Some(remote), is_server: is_received, protocol })
            }
            Some(Address::Unix(path)) => Fd { path: code(self.fields, batch, Field::Path, path), ..Fd::new(fds::UNIX) },
        };
        self.set_fd(tid, fd, new);
    }

    /// Forgets everything, as a new section starts.
    pub fn clear(&mut self) {
        self.threads.clear();
        self.fds.clear();
        self.fds_count = 0;
        self.users.clear();
        self.groups.clear();
        self.listening.clear();
        self.listed.clear();
    }
}

/// The domain of a socket, and above it the number of its transport protocol.
fn socket_of(event: &Event, kind: &EventType) -> i64 {
    let domain = number(event, kind, "domain");
    // Flags are above the type.
    let protocol = match (number(event, kind, "proto"), number(event, kind, "type") & 0xf) {
        (_, 3) | (255, _) => 5,
        (6, _) | (0, 1) => 2,
        (17, _) | (0, 2) => 3,
        (1, _) => 4,
        _ => 0,
    };
    if (0..1 << 16).contains(&domain) { protocol << 32 | domain } else { MISSING_I64 }
}

fn family_kind(domain: i64) -> u8 {
    match domain {
        1 => fds::UNIX,
        2 => fds::IPV4,
        10 => fds::IPV6,
        16 => fds::NETLINK,
        _ => fds::UNKNOWN,
    }
}

fn number(event: &Event, kind: &EventType, name: &str) -> i64 {
    event.named(kind, name).and_then(signed).unwrap_or(MISSING_I64)
}

fn flags(event: &Event, kind: &EventType) -> u64 {
    event.named(kind, "flags").and_then(unsigned).unwrap_or(0)
}

/// A user or group, by the first of these parameters that is there; -1 stands for no change.
fn id(event: &Event, kind: &EventType, names: &[&str]) -> i64 {
    let found = names.iter().find_map(|name| event.named(kind, name).and_then(unsigned));
    found.filter(|&id| id < u64::from(u32::MAX)).map_or(MISSING_I64, |id| id as i64)
}

/// The effective user or group that a call sets.
fn new_id(event: &Event, kind: &EventType) -> i64 {
    let names = if kind.effect == Effect::User { ["euid", "uid"] } else { ["egid", "gid"] };
    id(event, kind, &names)
}

/// A socket with these addresses.
fn socket(fields: FieldSet, batch: &mut Batch, ends: &Ends) -> Fd {
    let mut ip = |field, end: Option<SocketAddr>| match end {
        Some(end) if fields.contains(field) => batch.intern(field, end.ip().to_string().as_bytes()),
        _ => MISSING_CODE,
    };
    let (local_ip, remote_ip) = (ip(Field::LocalIp, Some(ends.local)), ip(Field::RemoteIp, ends.remote));
    let path =
        if fields.contains(Field::Path) { batch.intern(Field::Path, ends.text().as_bytes()) } else { MISSING_CODE };
    let port = |end: Option<SocketAddr>| end.map_or(-1, |end| i32::from(end.port()));
    let kind = ends.kind();
    let ends = EndCodes {
        local_ip,
        remote_ip,
        local_port: port(Some(ends.local)),
        remote_port: port(ends.remote),
        protocol: ends.protocol,
    };
    Fd { kind, path, ends }
}

/// The name that an event of a new user or group has.
pub fn added_account<'a>(event: &Event<'a>, is_user: bool) -> Option<(u32, &'a [u8])> {
    let id = Bytes(event.param(0)?).u32()?;
    let (name, container) = if is_user { (2, 5) } else { (1, 2) };
    let container = event.param(container).map_or(&[][..], until_nul);
    container.is_empty().then_some((id, until_nul(event.param(name)?)))
}
