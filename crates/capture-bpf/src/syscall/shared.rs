//! What the programs of `bpf/syscall` and user space share; the C side is `bpf/syscall/syscall.h`.

use crate::loader::shared;

/// The checked-in object.
pub const OBJECT: &[u8] = include_bytes!("../../../../bpf/syscall/syscall.bpf.o");

/// System calls by number; the last stands for all beyond.
pub const NUMBERED: usize = 512;
/// Operations of io_uring.
pub const URING: usize = 64;
/// Both, one behind the other.
pub const CALLS: usize = NUMBERED + URING;

/// Bits of [`Call::flags`].
pub mod flag {
    pub const WANTED: u8 = 1;
    pub const FD: u8 = 2;
    pub const RETURNS_FD: u8 = 4;
    pub const MOVES: u8 = 8;
    pub const CLOSES: u8 = 16;
    pub const NEVER_RETURNS: u8 = 32;
    pub const FORKS: u8 = 64;
    pub const AGAIN: u8 = 128;
}

/// The argument that stands for none, in [`Call::size_at`] and [`Call::offset_at`].
pub const NO_ARGUMENT: u8 = 5;

/// Values of [`Config::mode`].
pub mod mode {
    pub const EVENTS: u32 = 0;
    pub const BY_CALL: u32 = 1;
    pub const BY_FILE: u32 = 2;
}

/// How many processes and command names the programs test.
pub const PIDS: usize = 16;
/// As [`PIDS`].
pub const COMMS: usize = 8;

shared! {
    /// What a program needs to know of a call.
    #[derive(Default)]
    pub struct Call {
        flags: u8,
        size_at: u8,
        offset_at: u8,
        unused: u8,
        slot: u32,
    }
}

shared! {
    /// Constants of the programs.
    pub struct Config {
        calls: [Call; CALLS],
        min_latency_ns: u64,
        slow_ns: u64,
        types: u64,
        comms: [[u8; 16]; COMMS],
        pids: [u32; PIDS],
        comms_len: u32,
        pids_len: u32,
        one_in: u32,
        own_pid: u32,
        mode: u32,
        power: u32,
        want_arguments: u32,
        want_file: u32,
        want_cgroup: u32,
        unused: u32,
    }
}

shared! {
    /// An event, or a call in progress.
    pub struct Record {
        start_ns: u64,
        latency_ns: u64,
        result: i64,
        size: u64,
        offset: u64,
        inode: u64,
        cgroup: u64,
        comm: [u8; 16],
        pid: u32,
        tid: u32,
        fd: i32,
        dev: u32,
        generation: u32,
        weight: u32,
        call: u16,
        file_type: u16,
        unused: u32,
    }
}

shared! {
    /// Key of a histogram by file.
    #[derive(Hash, Default)]
    pub struct Key {
        dev: u32,
        call: u16,
        file_type: u16,
    }
}

shared! {
    /// Head of a histogram; 32-bit counts of the buckets follow.
    pub struct Sums {
        latency_ns: u64,
        bytes: u64,
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

impl Record {
    /// The command name, which ends at the first zero.
    pub fn comm(&self) -> &[u8] {
        self.comm.split(|&byte| byte == 0).next().unwrap_or(&[])
    }

    /// The name of the type of its file.
    pub fn type_name(&self) -> Option<&'static str> {
        FILE_TYPES.get(usize::from(self.file_type)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Raw;
    use libbpf_rs::Btf;
    use libbpf_rs::btf::types::{Enum, MemberAttr, Struct};

    fn btf() -> Btf<'static> {
        Btf::from_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/syscall/syscall.bpf.o")).unwrap()
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        let btf = btf();
        for (name, size, layout) in [
            ("call", Call::SIZE, Call::LAYOUT),
            ("config", Config::SIZE, Config::LAYOUT),
            ("record", Record::SIZE, Record::LAYOUT),
        ] {
            let theirs = btf.type_by_name::<Struct<'_>>(name).unwrap_or_else(|| panic!("no struct {name}"));
            let members: Vec<_> = theirs
                .iter()
                .map(|member| match member.attr {
                    MemberAttr::Normal { offset } => (member.name.unwrap().to_str().unwrap(), offset as usize / 8),
                    MemberAttr::BitField { .. } => panic!("a bit field"),
                })
                .collect();
            let ours: Vec<_> = layout.iter().map(|&(field, offset, _)| (field, offset)).collect();
            assert_eq!((ours, size), (members, theirs.size()), "{name}");
        }
    }

    #[test]
    fn counters_and_types_of_files_have_the_numbers_of_c() {
        assert_eq!((Key::SIZE, Sums::SIZE), (8, 16), "of which C asserts the same");
        let btf = btf();
        let names = |list: &str| -> Vec<String> {
            let found = btf.type_by_name::<Enum<'_>>(list).unwrap_or_else(|| panic!("no enum {list}"));
            found.iter().map(|value| value.name.unwrap().to_str().unwrap().to_lowercase()).collect()
        };
        let types: Vec<_> = FILE_TYPES.iter().map(|name| format!("type_{}", name.unwrap_or("none"))).collect();
        assert_eq!(names("file_type"), types);
        let counters = names("counter");
        assert_eq!(counters.len(), COUNTS + 1);
        for (count, name) in [(Count::RingFull, "count_ring_full"), (Count::UringAgain, "count_uring_again")] {
            assert_eq!(counters[count as usize], name);
        }
    }
}
