//! The table of calls: which are wanted, what they are called, and where the programs find their arguments.

use super::shared::{CALLS, Call, NO_ARGUMENT, NUMBERED, URING_PATHS, flag};
use crate::{Error, Options, Source};
use latscope_event::kernel::{CallShape, FdFrom, Machine, call_shape};

/// Operations of io_uring by number (`enum io_uring_op`): the name behind `io_uring_`, the system call that does the
/// same, and whether the request holds size and position as `struct io_rw` has them.
#[rustfmt::skip]
const URING_OPERATIONS: [(&str, &str, Has); 63] = [
    ("nop", "", Has::Nothing), ("readv", "readv", Has::Position), ("writev", "writev", Has::Position),
    ("fsync", "fsync", Has::Nothing), ("read_fixed", "read", Has::SizeToo), ("write_fixed", "write", Has::SizeToo),
    ("poll_add", "poll", Has::Nothing), ("poll_remove", "", Has::Nothing),
    ("sync_file_range", "sync_file_range", Has::Nothing), ("sendmsg", "sendmsg", Has::Nothing),
    ("recvmsg", "recvmsg", Has::Nothing), ("timeout", "", Has::Nothing), ("timeout_remove", "", Has::Nothing),
    ("accept", "accept", Has::Nothing), ("async_cancel", "", Has::Nothing), ("link_timeout", "", Has::Nothing),
    ("connect", "connect", Has::Nothing), ("fallocate", "fallocate", Has::Nothing), ("openat", "openat", Has::Nothing),
    ("close", "close", Has::Nothing), ("files_update", "", Has::Nothing), ("statx", "statx", Has::Nothing),
    ("read", "read", Has::SizeToo), ("write", "write", Has::SizeToo), ("fadvise", "fadvise64", Has::Nothing),
    ("madvise", "madvise", Has::Nothing), ("send", "sendto", Has::Nothing), ("recv", "recvfrom", Has::Nothing),
    ("openat2", "openat2", Has::Nothing), ("epoll_ctl", "epoll_ctl", Has::Nothing), ("splice", "splice", Has::Nothing),
    ("provide_buffers", "", Has::Nothing), ("remove_buffers", "", Has::Nothing), ("tee", "tee", Has::Nothing),
    ("shutdown", "shutdown", Has::Nothing), ("renameat", "renameat", Has::Nothing),
    ("unlinkat", "unlinkat", Has::Nothing), ("mkdirat", "mkdirat", Has::Nothing),
    ("symlinkat", "symlinkat", Has::Nothing), ("linkat", "linkat", Has::Nothing), ("msg_ring", "", Has::Nothing),
    ("fsetxattr", "fsetxattr", Has::Nothing), ("setxattr", "setxattr", Has::Nothing),
    ("fgetxattr", "fgetxattr", Has::Nothing), ("getxattr", "getxattr", Has::Nothing), ("socket", "socket", Has::Nothing),
    ("uring_cmd", "", Has::Nothing), ("send_zc", "sendto", Has::Nothing), ("sendmsg_zc", "sendmsg", Has::Nothing),
    ("read_multishot", "read", Has::Position), ("waitid", "waitid", Has::Nothing), ("futex_wait", "", Has::Nothing),
    ("futex_wake", "", Has::Nothing), ("futex_waitv", "", Has::Nothing), ("fixed_fd_install", "", Has::Nothing),
    ("ftruncate", "ftruncate", Has::Nothing), ("bind", "bind", Has::Nothing), ("listen", "listen", Has::Nothing),
    ("recv_zc", "recvfrom", Has::Nothing), ("epoll_wait", "epoll_wait", Has::Nothing),
    ("readv_fixed", "readv", Has::Position), ("writev_fixed", "writev", Has::Position), ("pipe", "pipe2", Has::Nothing),
];

/// Operations that may complete many times for one request.
const URING_AGAIN: [&str; 8] =
    ["poll_add", "accept", "recv", "recvmsg", "read_multishot", "send_zc", "sendmsg_zc", "recv_zc"];

/// Where an operation of io_uring has the path that it names, 0 when it names none. Its descriptor, if any, is then the
/// directory where the path starts.
fn uring_path(operation: &str) -> u8 {
    let named = URING_PATHS.iter().find(|(operations, _)| operations.contains(&operation));
    named.map_or(0, |&(_, place)| place)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Nothing,
    Position,
    SizeToo,
}

/// What is known of a call.
pub struct Known {
    /// As `Field::Name` has it.
    pub name: String,
    /// What it does.
    pub shape: CallShape,
    /// Whether it is traced.
    pub wanted: bool,
    has: Has,
    /// Its number has no name, as it is newer than us or of no call: all of these share a slot.
    nameless: bool,
}

/// The calls of this machine, by number, and the operations of io_uring behind them.
pub struct Calls {
    known: Vec<Option<Known>>,
    /// Whether only some were named, so that they are traced by tracepoints of their own.
    pub few: bool,
}

impl Calls {
    /// The calls, those wanted that source and options ask for.
    ///
    /// # Errors
    /// When `Options::calls` names one that does not exist.
    pub fn select(machine: Machine, options: &Options) -> Result<Calls, Error> {
        let mut calls = Calls::new(machine);
        if let Some(unknown) = options.calls.iter().flatten().find(|name| calls.number(name).is_none()) {
            return Err(Error::Option(format!(
                "Unknown system call {unknown}; use the names of the manual pages, or io_uring_read and the like \
                 for io_uring."
            )));
        }
        let push_down = &options.push_down;
        let named = |list: &[String], name: &str| list.is_empty() || list.iter().any(|wanted| wanted == name);
        for known in calls.known.iter_mut().flatten() {
            known.wanted = match &options.calls {
                Some(list) => list.contains(&known.name),
                None => options.source == Source::Syscall || known.shape.is_io,
            } && named(&push_down.names, &known.name)
                && named(&push_down.kinds, known.shape.kind);
        }
        calls.few = options.calls.is_some() || !push_down.names.is_empty();
        Ok(calls)
    }

    fn new(machine: Machine) -> Calls {
        let numbered = (0..NUMBERED as u32).map(|number| {
            let name = machine.syscall(number);
            let nameless = name.is_none();
            let name = name.map_or_else(|| format!("syscall_{number}"), str::to_owned);
            let shape = call_shape(name.as_bytes());
            Some(Known { name, shape, wanted: false, has: Has::Nothing, nameless })
        });
        let operations = URING_OPERATIONS.iter().map(|&(name, like, has)| {
            let shape = CallShape { fd: FdFrom::Argument, ..call_shape(like.as_bytes()) };
            Some(Known { name: format!("io_uring_{name}"), shape, wanted: false, has, nameless: false })
        });
        let mut known: Vec<_> = numbered.chain(operations).collect();
        known.resize_with(CALLS, || None);
        Calls { known, few: false }
    }

    /// A call by its number.
    pub fn get(&self, number: u16) -> Option<&Known> {
        self.known.get(usize::from(number))?.as_ref()
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.known.iter().position(|known| known.as_ref().is_some_and(|known| known.name == name))
    }

    /// The wanted calls by number, those of io_uring not among them.
    pub fn wanted_calls(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().take(NUMBERED).flatten().filter(|known| known.wanted)
    }

    /// Whether operations of io_uring are wanted.
    pub fn wants_uring(&self) -> bool {
        self.known.iter().skip(NUMBERED).flatten().any(|known| known.wanted)
    }

    /// The numbers of all wanted calls, in the order of their slots; the first slot is that of nameless ones.
    pub fn slots(&self) -> Vec<u16> {
        let has_own = |known: &&Known| known.wanted && !known.nameless;
        let own = (0u16..).zip(&self.known).filter(|(_, known)| known.as_ref().filter(has_own).is_some());
        std::iter::once(NUMBERED as u16 - 1).chain(own.map(|(number, _)| number)).collect()
    }

    /// The table of the programs.
    pub fn table(&self) -> [Call; CALLS] {
        let mut table = [Call {
            size_at: NO_ARGUMENT,
            offset_at: NO_ARGUMENT,
            path_at: NO_ARGUMENT,
            directory_at: NO_ARGUMENT,
            ..Call::default()
        }; CALLS];
        for (number, known) in self.known.iter().enumerate() {
            if let Some(known) = known.as_ref().filter(|known| known.wanted) {
                table[number] = known.for_programs(number >= NUMBERED);
            }
        }
        for (slot, number) in (0..).zip(self.slots()) {
            table[usize::from(number)].slot = slot;
        }
        table
    }
}

impl Known {
    /// Whether it does I/O without a file descriptor: on a path, or on all files.
    pub fn needs_no_fd(&self) -> bool {
        match self.name.strip_prefix("io_uring_") {
            Some(operation) if operation != "enter" => uring_path(operation) != 0,
            _ => self.shape.is_io && self.shape.fd != FdFrom::Argument,
        }
    }

    fn for_programs(&self, uring: bool) -> Call {
        let base = self.name.strip_prefix("io_uring_").filter(|_| uring).unwrap_or(&self.name);
        let bits = [
            (true, flag::WANTED),
            (self.shape.fd == FdFrom::Argument && !(uring && uring_path(base) != 0) || base == "io_submit", flag::FD),
            (self.shape.fd == FdFrom::Result, flag::RETURNS_FD),
            (self.shape.moves, flag::MOVES),
            (base == "close", flag::CLOSES),
            (["exit", "exit_group"].contains(&base), flag::NEVER_RETURNS),
            (["clone", "clone3", "fork", "vfork"].contains(&base), flag::FORKS),
            (uring && URING_AGAIN.contains(&base), flag::AGAIN),
            (base == "io_submit", flag::REQUESTS),
            (base == "connect" && !uring, flag::CONNECTS),
            (["sendto", "recvfrom"].contains(&base) && !uring, flag::DATAGRAM),
            (["sendmsg", "recvmsg"].contains(&base) && !uring, flag::MESSAGE),
        ];
        let flags = bits.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
        let argument = |at: Option<usize>| at.map_or(NO_ARGUMENT, |at| at as u8);
        let (size_at, offset_at) = if uring {
            (argument((self.has == Has::SizeToo).then_some(0)), argument((self.has != Has::Nothing).then_some(0)))
        } else {
            (argument(self.shape.size), argument(self.shape.offset))
        };
        let (path_at, directory_at) = if uring {
            (uring_path(base), NO_ARGUMENT)
        } else {
            (argument(self.shape.path), argument(self.shape.directory))
        };
        Call { flags, slot: 0, size_at, offset_at, path_at, directory_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::FieldSet;

    #[test]
    fn io_does_not_wait_for_events_and_all_calls_do() {
        let options = Options::new(Source::Io, FieldSet::ALWAYS);
        let wanted = |options: &Options| {
            let calls = Calls::select(Machine::X86_64, options).unwrap();
            calls.slots()[1..]
                .iter()
                .filter_map(|&at| calls.get(at))
                .map(|known| known.name.clone())
                .collect::<Vec<_>>()
        };
        let io = wanted(&options);
        for (name, is) in [("read", true), ("io_uring_read", true), ("futex", false), ("io_uring_poll_add", false)] {
            assert_eq!(io.iter().any(|wanted| wanted == name), is, "{name}");
        }
        let all = Options { source: Source::Syscall, ..options.clone() };
        assert!(wanted(&all).len() > 400);
        let syncs =
            Options { push_down: crate::PushDown { kinds: vec!["sync".into()], ..Default::default() }, ..options };
        assert!(wanted(&syncs).contains(&"fdatasync".to_owned()) && !wanted(&syncs).contains(&"read".to_owned()));
        let some = Options { calls: Some(vec!["futex".into(), "read".into()]), ..all };
        assert_eq!(wanted(&some), ["read", "futex"]);
    }

    #[test]
    fn a_call_that_does_not_exist_is_an_error() {
        let options = Options { calls: Some(vec!["raed".into()]), ..Options::new(Source::Io, FieldSet::ALWAYS) };
        assert!(Calls::select(Machine::X86_64, &options).err().unwrap().to_string().contains("raed"));
    }

    #[test]
    fn the_table_says_where_arguments_are() {
        let options = Options::new(Source::Syscall, FieldSet::ALWAYS);
        let calls = Calls::select(Machine::X86_64, &options).unwrap();
        let table = calls.table();
        let pread = table[17];
        assert_eq!((pread.flags, pread.size_at, pread.offset_at), (flag::WANTED | flag::FD | flag::MOVES, 2, 3));
        assert_eq!(table[3].flags, flag::WANTED | flag::FD | flag::CLOSES, "close");
        assert_eq!(table[NUMBERED + 22].size_at, 0, "io_uring_read");
        assert_eq!(table[CALLS - 1].flags, 0, "an operation that has no name");
        assert_eq!(calls.slots().len(), usize::from(table.iter().map(|call| call.slot).max().unwrap()) + 1);
    }
}
