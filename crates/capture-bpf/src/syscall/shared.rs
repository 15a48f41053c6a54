//! What the programs of `bpf/syscall` and user space share; the C side is `bpf/syscall/syscall.h`.

use crate::fd::Ends;
use crate::loader::{Raw, shared};
use crate::texts::named;
use crate::wanted::Wanted;

/// The checked-in object.
pub const OBJECT: &[u8] = include_bytes!("../../../../bpf/syscall/syscall.bpf.o.zst");

/// System calls by number; the last stands for all beyond.
pub const NUMBERED: usize = 512;
/// Operations of io_uring.
pub const URING: usize = 64;
/// Both, one behind the other.
pub const CALLS: usize = NUMBERED + URING;

/// Bits of [`Call::flags`].
pub mod flag {
    pub const WANTED: u16 = 1;
    pub const FD: u16 = 2;
    pub const RETURNS_FD: u16 = 4;
    pub const MOVES: u16 = 8;
    pub const CLOSES: u16 = 16;
    pub const NEVER_RETURNS: u16 = 32;
    pub const FORKS: u16 = 64;
    pub const AGAIN: u16 = 128;
    pub const REQUESTS: u16 = 256;
    pub const CONNECTS: u16 = 512;
    pub const DATAGRAM: u16 = 1024;
    pub const MESSAGE: u16 = 2048;
}

/// Values of [`Call::path_at`] for requests of io_uring, whose operations these are; 0 means no operation.
pub const URING_PATHS: [(&[&str], u8); 7] = [
    (&["openat", "openat2"], 1),
    (&["statx"], 2),
    (&["unlinkat"], 3),
    (&["mkdirat"], 4),
    (&["renameat"], 5),
    (&["linkat"], 6),
    (&["symlinkat"], 7),
];

/// Instead of a call: the record describes a process.
pub const CALL_ABOUT: u16 = 0xffff;

/// The argument that stands for none, in [`Call::size_at`] and its like.
pub const NO_ARGUMENT: u8 = 6;
/// How many arguments of a call are looked at.
pub const ARGUMENTS: usize = NO_ARGUMENT as usize;

/// Values of [`Config::mode`].
pub mod mode {
    pub const EVENTS: u32 = 0;
    pub const BY_CALL: u32 = 1;
    pub const BY_FILE: u32 = 2;
}

shared! {
    /// What a program needs to know of a call.
    #[derive(Default)]
    pub struct Call {
        flags: u16,
        slot: u16,
        size_at: u8,
        offset_at: u8,
        path_at: u8,
        directory_at: u8,
    }
}

shared! {
    /// Constants of the programs.
    pub struct Config {
        calls: [Call; CALLS],
        min_latency_ns: u64,
        slow_ns: u64,
        types: u64,
        threads: Wanted,
        one_in: u32,
        mode: u32,
        power: u32,
        want_arguments: u32,
        want_file: u32,
        want_cgroup: u32,
        want_path: u32,
        want_process: u32,
        want_about: u32,
        want_cpu: u32,
        want_ends: u32,
        want_call_args: u32,
    }
}

shared! {
    /// An event.
    pub struct Record {
        start_ns: u64,
        latency_ns: u64,
        result: i64,
        size: u64,
        offset: u64,
        inode: u64,
        cgroup: u64,
        comm: [u8; 16],
        process: [u8; 16],
        pid: u32,
        tid: u32,
        fd: i32,
        dev: u32,
        generation: u32,
        sample_weight: u32,
        call: u16,
        file_type: u8,
        named: u8,
        given_len: u16,
        names_len: u16,
        about: u32,
        cpu: u32,
    }
}

shared! {
    /// A call or request in progress; its start is 0 when it started before the capture.
    pub struct Wait {
        record: Record,
        magic: u64,
    }
}

shared! {
    /// Key of a histogram by file.
    #[derive(Hash, Default)]
    pub struct Key {
        dev: u32,
        call: u16,
        file_type: u8,
        half: u8,
    }
}

/// What the programs count, by slot.
#[derive(Clone, Copy)]
pub enum Count {
    RingFull,
    UnpairedExit,
    UnpairedEnter,
    NeverReturns,
    Foreign,
    KeysFull,
    UringFull,
    UringSilent,
    UringOrphan,
    UringAgain,
}

/// How many [`Count`]s there are.
pub const COUNTS: usize = Count::UringAgain as usize + 1;

/// Types of files by number, as `Field::FdType` names them; missing where a call has no file.
pub const FILE_TYPES: [Option<&str>; 23] = [
    None,
    Some("file"),
    Some("directory"),
    Some("char"),
    Some("block"),
    Some("pipe"),
    Some("link"),
    Some("ipv4"),
    Some("ipv6"),
    Some("unix"),
    Some("netlink"),
    Some("socket"),
    Some("event"),
    Some("eventpoll"),
    Some("signalfd"),
    Some("timerfd"),
    Some("inotify"),
    Some("bpf"),
    Some("userfaultfd"),
    Some("io_uring"),
    Some("memfd"),
    Some("pidfd"),
    Some("other"),
];

/// What follows a record.
pub struct Parts<'a> {
    /// The path as it was given.
    pub given: &'a [u8],
    pub names: &'a [u8],
    /// Of its socket.
    pub ends: Option<Ends>,
    /// Of the call.
    pub arguments: Option<[u64; ARGUMENTS]>,
}

impl Record {
    /// The command name, which ends at the first zero.
    pub fn comm(&self) -> &[u8] {
        self.comm.split(|&byte| byte == 0).next().unwrap_or(&[])
    }

    /// The command name of the main thread, which ends at the first zero.
    pub fn process(&self) -> &[u8] {
        self.process.split(|&byte| byte == 0).next().unwrap_or(&[])
    }

    /// Bytes that follow it.
    pub fn texts_len(&self) -> usize {
        let names = usize::from(self.given_len) + usize::from(self.names_len);
        let has = |bit| usize::from(self.named & bit != 0);
        names + has(named::ENDS) * Ends::SIZE + has(named::ARGUMENTS) * ARGUMENTS * 8
    }

    /// What follows it, in `rest`.
    pub fn parts<'a>(&self, mut rest: &'a [u8]) -> Parts<'a> {
        let mut take = |len: usize| {
            let (taken, next) = rest.split_at(rest.len().min(len));
            rest = next;
            taken
        };
        let (given, names) = (take(self.given_len.into()), take(self.names_len.into()));
        let ends = (self.named & named::ENDS != 0).then(|| Ends::read(take(Ends::SIZE)));
        let arguments = (self.named & named::ARGUMENTS != 0).then(|| Raw::read(take(ARGUMENTS * 8)));
        Parts { given, names, ends, arguments }
    }

    /// The name of the type of its file.
    pub fn type_name(&self) -> Option<&'static str> {
        FILE_TYPES.get(usize::from(self.file_type)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::in_c::{assert_layout, evaluate};

    const HEADERS: &[&str] = &["syscall/syscall.h"];

    #[test]
    fn structs_are_laid_out_as_in_c() {
        assert_layout(HEADERS, "call", Call::SIZE, Call::LAYOUT);
        assert_layout(HEADERS, "config", Config::SIZE, Config::LAYOUT);
        assert_layout(HEADERS, "record", Record::SIZE, Record::LAYOUT);
        assert_layout(HEADERS, "wait", Wait::SIZE, Wait::LAYOUT);
        assert_layout(HEADERS, "ends", Ends::SIZE, Ends::LAYOUT);
        assert_layout(HEADERS, "key", Key::SIZE, Key::LAYOUT);
    }

    #[test]
    fn numbers_are_those_of_c() {
        let ours = [
            (NUMBERED, "CALLS_NUMBERED"),
            (CALLS, "CALLS"),
            (NO_ARGUMENT.into(), "ARGUMENTS"),
            (flag::AGAIN.into(), "CALL_AGAIN"),
            (flag::CLOSES.into(), "CALL_CLOSES"),
            (mode::BY_CALL as usize, "MODE_BY_CALL"),
            (mode::BY_FILE as usize, "MODE_BY_FILE"),
            (FILE_TYPES.len() - 1, "TYPE_OTHER"),
            (Count::UnpairedExit as usize, "COUNT_UNPAIRED_EXIT"),
            (Count::Foreign as usize, "COUNT_FOREIGN"),
            (Count::KeysFull as usize, "COUNT_KEYS_FULL"),
            (Count::UringSilent as usize, "COUNT_URING_SILENT"),
            (COUNTS, "COUNT_LEN"),
            (flag::REQUESTS.into(), "CALL_REQUESTS"),
            (flag::CONNECTS.into(), "CALL_CONNECTS"),
            (flag::MESSAGE.into(), "CALL_MESSAGE"),
            (CALL_ABOUT.into(), "CALL_ABOUT"),
            (URING_PATHS[0].1.into(), "PATH_OPEN"),
            (URING_PATHS[1].1.into(), "PATH_STATX"),
            (URING_PATHS[2].1.into(), "PATH_UNLINK"),
            (URING_PATHS[3].1.into(), "PATH_MKDIR"),
            (URING_PATHS[4].1.into(), "PATH_RENAME"),
            (URING_PATHS[5].1.into(), "PATH_LINK"),
            (URING_PATHS[6].1.into(), "PATH_SYMLINK"),
        ];
        let names: Vec<_> = ours.iter().map(|&(_, name)| name).collect();
        let numbers: Vec<_> = ours.iter().map(|&(number, _)| number as u64).collect();
        assert_eq!(evaluate(HEADERS, &names), numbers);
        let types: Vec<_> =
            FILE_TYPES.iter().map(|name| format!("TYPE_{}", name.unwrap_or("none").to_uppercase())).collect();
        let types: Vec<_> = types.iter().map(String::as_str).collect();
        assert_eq!(evaluate(HEADERS, &types), (0..FILE_TYPES.len() as u64).collect::<Vec<_>>());
    }
}
