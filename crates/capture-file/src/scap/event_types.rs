//! Types of events: names, categories and parameters, from the two tables beside this file.

use latscope_event::kernel::{CallShape, call_shape};
use std::sync::OnceLock;

const TYPES: &str = include_str!("event_types.tsv");
/// Names of calls that have no type of their own, by the number that their events carry.
const CALLS: &str = include_str!("calls.txt");

/// What sysdig gives a file descriptor, or a thread, by a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    None,
    Open,
    Close,
    CloseRange,
    Dup,
    Fcntl,
    Pipe,
    SocketPair,
    Socket,
    Connect,
    Bind,
    Accept,
    /// A message, whose address is that of the other end.
    Message,
    /// It returns a descriptor of this kind (a number of `fds::NAMES`).
    Creates(u8),
    Chdir,
    Fchdir,
    Prctl,
    Exec,
    Clone,
    User,
    Group,
}

impl Effect {
    /// Whether it may give a thread a name.
    pub fn names_threads(self) -> bool {
        matches!(self, Effect::Exec | Effect::Clone | Effect::Prctl)
    }
}

/// A type of event.
pub struct EventType {
    /// Name as sysdig prints it; empty for a type that does not occur.
    pub name: &'static str,
    /// Whether it is a system call that starts or returns.
    pub is_call: bool,
    /// Whether it is a call that has no type of its own.
    pub is_generic: bool,
    /// Parameters by name; `_` for those that nobody reads.
    params: Vec<&'static str>,
    /// The parameter with the descriptor that the call works on.
    pub fd: Option<usize>,
    /// The parameter with the number of bytes.
    pub size: Option<usize>,
    /// The parameter with the position in the file.
    pub offset: Option<usize>,
    /// Whether the first parameter is what the call returns.
    pub has_result: bool,
    /// What the call does to descriptors and threads.
    pub effect: Effect,
}

impl EventType {
    /// Where the parameter of this name is.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|&param| param == name)
    }

    /// How many parameters the newest version of this type has.
    pub fn params(&self) -> usize {
        self.params.len()
    }

    fn parse(line: &'static str) -> EventType {
        let mut columns = line.split('\t').skip(1);
        let mut next = || columns.next().unwrap_or_default();
        let (name, category, params, fd) = (next(), next(), next(), next());
        let name = if name == "-" { "" } else { name };
        let category = u16::from_str_radix(category, 16).unwrap_or(0);
        let params: Vec<&str> = params.split(',').filter(|param| !param.is_empty()).collect();
        let at = |wanted: &[&str]| params.iter().position(|param| wanted.contains(param));
        EventType {
            name,
            is_call: category >> 8 == 2,
            is_generic: name == "syscall",
            fd: fd.parse().ok(),
            size: at(&["size", "len"]),
            offset: at(&["pos", "offset"]).filter(|_| name != "sendfile"),
            has_result: matches!(params.first(), Some(&"res" | &"fd")),
            effect: effect(name),
            params,
        }
    }
}

fn effect(name: &str) -> Effect {
    match name {
        "open" | "openat" | "openat2" | "creat" | "open_by_handle_at" => Effect::Open,
        "close" => Effect::Close,
        "close_range" => Effect::CloseRange,
        "dup" | "dup2" | "dup3" => Effect::Dup,
        "fcntl" => Effect::Fcntl,
        "pipe" | "pipe2" => Effect::Pipe,
        "socketpair" => Effect::SocketPair,
        "socket" => Effect::Socket,
        "connect" => Effect::Connect,
        "bind" => Effect::Bind,
        "accept" | "accept4" => Effect::Accept,
        "sendto" | "sendmsg" | "recvfrom" | "recvmsg" => Effect::Message,
        "eventfd" | "eventfd2" => Effect::Creates(9),
        "signalfd" | "signalfd4" => Effect::Creates(11),
        "epoll_create" | "epoll_create1" => Effect::Creates(12),
        "inotify_init" | "inotify_init1" => Effect::Creates(13),
        "timerfd_create" => Effect::Creates(14),
        "bpf" => Effect::Creates(17),
        "userfaultfd" => Effect::Creates(18),
        "io_uring_setup" => Effect::Creates(19),
        "memfd_create" => Effect::Creates(20),
        "pidfd_open" => Effect::Creates(21),
        "chdir" => Effect::Chdir,
        "fchdir" => Effect::Fchdir,
        "prctl" => Effect::Prctl,
        "execve" | "execveat" => Effect::Exec,
        "clone" | "clone3" | "fork" | "vfork" => Effect::Clone,
        "setuid" | "setresuid" | "setreuid" => Effect::User,
        "setgid" | "setresgid" | "setregid" => Effect::Group,
        _ => Effect::None,
    }
}

/// A system call: of types 2n and 2n + 1, or one without a type of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call(pub u16);

/// All types and calls.
pub struct EventTypes {
    types: Vec<EventType>,
    calls: Vec<(&'static str, CallShape)>,
}

impl EventTypes {
    /// The tables, made when they are first asked for.
    pub fn get() -> &'static EventTypes {
        static TABLES: OnceLock<EventTypes> = OnceLock::new();
        TABLES.get_or_init(|| {
            let lines = TYPES.lines().filter(|line| !line.starts_with('#'));
            let types: Vec<EventType> = lines.map(EventType::parse).collect();
            let named = types.chunks(2).map(|pair| pair.iter().map(|one| one.name).max().unwrap_or_default());
            let calls = named.chain(CALLS.split_ascii_whitespace());
            let calls = calls.map(|name| (name, call_shape(kernel_name(name).as_bytes()))).collect();
            EventTypes { types, calls }
        })
    }

    /// The type of this code; `None` for one of a later version.
    #[inline]
    pub fn event(&self, code: u16) -> Option<&EventType> {
        self.types.get(usize::from(code)).filter(|kind| !kind.name.is_empty())
    }

    /// The number of a call without a type of its own, by its name.
    pub fn number(&self, name: &str) -> Option<u16> {
        let mut numbered = self.calls.iter().skip(self.types.len() / 2);
        numbered.position(|(known, _)| *known == name).map(|number| number as u16)
    }

    /// The call of an event: by its type, or by the number in its first parameter.
    #[inline]
    pub fn call(&self, code: u16, kind: &EventType, first: impl FnOnce() -> Option<u64>) -> Call {
        if !kind.is_generic {
            return Call(code / 2);
        }
        let number = first().and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        let at = (self.types.len() / 2).saturating_add(number);
        Call(if at < self.calls.len() { at as u16 } else { 0 })
    }

    /// Name (as sysdig has it) and shape of a call.
    pub fn known(&self, call: Call) -> (&'static str, CallShape) {
        self.calls[usize::from(call.0)]
    }

    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }
}

/// The name by which the kernel knows a call of sysdig.
pub fn kernel_name(name: &str) -> &str {
    match name {
        "pread" => "pread64",
        "pwrite" => "pwrite64",
        "umount" => "umount2",
        "stat64" => "stat",
        "lstat64" => "lstat",
        "fstat64" => "fstat",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_whole() {
        let tables = EventTypes::get();
        assert_eq!(tables.types.len(), 454);
        let read = tables.event(7).unwrap();
        assert_eq!((read.name, read.is_call, read.fd, read.size), ("read", true, Some(2), Some(3)));
        assert_eq!(tables.event(152).map(|switch| (switch.name, switch.is_call)), Some(("switch", false)));
        assert!(tables.event(17).is_none() && tables.event(4000).is_none());
        assert_eq!(tables.event(293).unwrap().param("comm"), Some(13));
        assert_eq!(tables.number("fsync"), Some(72));
        let fsync = tables.call(1, tables.event(1).unwrap(), || Some(72));
        assert_eq!((tables.known(fsync).0, tables.known(fsync).1.kind), ("fsync", "sync"));
        assert_eq!(tables.known(tables.call(113, tables.event(113).unwrap(), || None)).1.offset, Some(3));
        assert_eq!(tables.call(1, tables.event(1).unwrap(), || Some(60_000)), Call(0));
    }
}
