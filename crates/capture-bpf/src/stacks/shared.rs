//! What the programs of `bpf/stacks` and user space share; the C side is `bpf/stacks/stacks.h`.

use crate::loader::shared;
use crate::wanted::Wanted;
use latscope_unwind::ThreadState;

/// The checked-in object.
pub const OBJECT: &[u8] = include_bytes!("../../../../bpf/stacks/stacks.bpf.o.zst");

/// Bytes of a page of a user stack.
pub const PAGE: u64 = 4096;
/// System calls by number.
pub const CALLS: usize = 512;

/// The value of the variable `drawn` with which the user stacks of all threads are copied.
pub const ALL_DRAWN: u32 = u32::MAX;

/// [`Config::threshold_ns`] where waits are not timed.
pub const NO_THRESHOLD: u64 = u64::MAX;

/// Bits of [`Config::calls`].
pub mod call {
    pub const FD: u8 = 1;
    pub const ASYNC: u8 = 2;
}

/// Values of [`Config::places`].
pub mod place {
    pub const NONE: u32 = 0;
    pub const IS_GROUP: u32 = 1;
    pub const IS_PROCESS: u32 = 2;
}

/// Values of [`Record::source`].
pub mod source {
    pub const SWITCH: u8 = 1;
    pub const TIMER: u8 = 2;
    pub const RETURN: u8 = 3;
}

/// Bits of [`Record::flags`].
pub mod flag {
    pub const SAME: u16 = 1;
    pub const IOWAIT: u16 = 2;
    pub const KTHREAD: u16 = 4;
    pub const RUNNING: u16 = 8;
    pub const NO_COPY: u16 = 16;
    pub const NOT_DRAWN: u16 = 32;
}

/// What the programs count, by slot.
#[derive(Clone, Copy)]
pub enum Count {
    RingFull,
    Seen,
    Capped,
    Moved,
    Locked,
    Copied,
    Short,
    ShortNs,
    LeftOut,
    Unknown,
}

/// How many [`Count`]s there are.
pub const COUNTS: usize = Count::Unknown as usize + 1;

shared! {
    /// Constants of the programs.
    pub struct Config {
        threshold_ns: u64,
        threads: Wanted,
        user_stacks: u32,
        all_threads: u32,
        copies: u32,
        want_file: u32,
        places: u32,
        pad: u32,
        calls: [u8; CALLS],
    }
}

shared! {
    /// A thread at a moment.
    pub struct Record {
        stamp_ns: u64,
        switches: u64,
        tid: u32,
        pid: u32,
        state: u32,
        flags: u16,
        source: u8,
        named: u8,
        since_ns: u64,
        woken_ns: u64,
        copied_ns: u64,
        process_start: u64,
        cgroup: u64,
        ip: u64,
        sp: u64,
        fp: u64,
        lr: u64,
        comm: [u8; 16],
        process: [u8; 16],
        call: i32,
        fd: i32,
        dev: u32,
        cpu: u32,
        file_type: u8,
        user_pages: u8,
        kernel_len: u16,
        names_len: u16,
        user_len: u16,
    }
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Running,
    /// It could run, and waits for a CPU.
    Runnable,
    DiskSleep,
    Sleep,
    Stopped,
}

impl State {
    /// As `Field::State` has it.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Runnable => "runnable",
            State::DiskSleep => "disk sleep",
            State::Sleep => "sleep",
            State::Stopped => "stopped",
        }
    }

    /// As the scheduler has it.
    pub fn of_scheduler(self) -> ThreadState {
        match self {
            State::Running | State::Runnable => ThreadState::Running,
            State::DiskSleep => ThreadState::Uninterruptible,
            State::Sleep => ThreadState::Sleeping,
            State::Stopped => ThreadState::Stopped,
        }
    }

    /// The state of the thread of a record.
    pub fn from_record(record: &Record) -> State {
        const SLEEP: u32 = 1;
        const DISK_SLEEP: u32 = 2;
        const STOPPED: u32 = 4 | 8;
        match record.state {
            _ if record.has(flag::RUNNING) => State::Running,
            0 => State::Runnable,
            state if state & DISK_SLEEP != 0 => State::DiskSleep,
            state if state & SLEEP != 0 => State::Sleep,
            state if state & STOPPED != 0 => State::Stopped,
            _ => State::Sleep,
        }
    }
}

/// What follows a record.
#[derive(Default)]
pub struct Parts<'a> {
    /// Addresses of the kernel stack, the innermost first, eight bytes each.
    pub kernel: &'a [u8],
    /// Names from the file up to the root, a slash behind each.
    pub names: &'a [u8],
    /// The user stack from [`Record::base`] on.
    pub user: &'a [u8],
}

impl Record {
    /// Whether a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The address of the first byte of the copied user stack.
    pub fn base(&self) -> u64 {
        self.sp & !(PAGE - 1)
    }

    /// The first record of these bytes, what follows it, and the bytes behind both; `None` where there is no whole record.
    pub fn next(bytes: &[u8]) -> Option<(Record, Parts<'_>, &[u8])> {
        let record = Record::read(bytes);
        if record.has(flag::SAME) {
            let rest = bytes.get(SAME_BYTES..)?;
            return Some((record, Parts::default(), rest));
        }
        let mut rest = bytes.get(Record::SIZE..)?;
        let mut take = |len: u16| {
            let (taken, next) = rest.split_at_checked(len.into())?;
            rest = next;
            Some(taken)
        };
        let (kernel, names, user) = (take(record.kernel_len)?, take(record.names_len)?, take(record.user_len)?);
        let filled = usize::from(record.user_pages) * PAGE as usize;
        Some((record, Parts { kernel, names, user: user.get(..filled).unwrap_or(user) }, rest))
    }
}

/// The part of a record that is sent for a wait that is known already.
const SAME_BYTES: usize = std::mem::offset_of!(Record, since_ns);

use crate::loader::Raw;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::in_c::{assert_layout, evaluate};

    const HEADERS: &[&str] = &["stacks/stacks.h"];

    #[test]
    fn structs_and_numbers_are_those_of_c() {
        assert_layout(HEADERS, "config", Config::SIZE, Config::LAYOUT);
        assert_layout(HEADERS, "stack_record", Record::SIZE, Record::LAYOUT);
        let ours = [
            (PAGE, "PAGE"),
            (COUNTS as u64, "COUNT_LEN"),
            (Count::Copied as u64, "COUNT_COPIED"),
            (Count::Locked as u64, "COUNT_LOCKED"),
            (call::FD.into(), "CALL_FD"),
            (call::ASYNC.into(), "CALL_ASYNC"),
            (source::SWITCH.into(), "FROM_SWITCH"),
            (source::TIMER.into(), "FROM_TIMER"),
            (source::RETURN.into(), "FROM_RETURN"),
            (place::NONE.into(), "NO_PLACES"),
            (place::IS_GROUP.into(), "PLACE_IS_GROUP"),
            (place::IS_PROCESS.into(), "PLACE_IS_PROCESS"),
            (flag::SAME.into(), "FLAG_SAME"),
            (flag::KTHREAD.into(), "FLAG_KTHREAD"),
            (flag::RUNNING.into(), "FLAG_RUNNING"),
            (flag::NO_COPY.into(), "FLAG_NO_COPY"),
            (flag::NOT_DRAWN.into(), "FLAG_NOT_DRAWN"),
        ];
        let names: Vec<_> = ours.iter().map(|&(_, name)| name).collect();
        let numbers: Vec<_> = ours.iter().map(|&(number, _)| number).collect();
        assert_eq!(evaluate(HEADERS, &names), numbers);
    }

    /// A ring hands on records one behind the other; one that is cut is the end, not a panic.
    #[test]
    fn records_are_taken_apart() {
        let zero = Record::read(&[]);
        let full = Record { tid: 7, kernel_len: 8, names_len: 2, user_len: 4, user_pages: 1, ..zero };
        let mut bytes = Vec::new();
        full.write(&mut bytes);
        bytes.extend_from_slice(b"kkkkkkkknnuuuu");
        let mut same = Vec::new();
        Record { tid: 8, flags: flag::SAME, user_len: 99, ..zero }.write(&mut same);
        bytes.extend_from_slice(&same[..SAME_BYTES]);
        let (record, parts, rest) = Record::next(&bytes).unwrap();
        assert_eq!(
            (record.tid, parts.kernel, parts.names, parts.user),
            (7, &b"kkkkkkkk"[..], &b"nn"[..], &b"uuuu"[..])
        );
        let (record, parts, rest) = Record::next(rest).unwrap();
        assert_eq!((record.tid, parts.user.len(), rest.len()), (8, 0, 0));
        assert!(Record::next(rest).is_none());
        for cut in 0..Record::SIZE + 14 {
            assert!(Record::next(&bytes[..cut]).is_none(), "{cut}");
        }
    }
}
