//! What `bpf/block/block.h` declares.

use crate::loader::shared;

/// The object with all programs.
pub const OBJECT: &[u8] = include_bytes!("../../../../bpf/block/block.bpf.o.zst");

/// The object that walks over the tags of a disk.
pub const WALK_OBJECT: &[u8] = include_bytes!("../../../../bpf/block/waiting.bpf.o.zst");

/// Slots of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    Partial,
    FlushParent,
    Unstamped,
    NeverIssued,
    Reversed,
    NoIssuer,
    RingFull,
    KeysFull,
    OwnStamps,
    Failed,
    UnseenEnd,
}
/// How many counters there are.
pub const COUNTERS: usize = Counter::UnseenEnd as usize + 1;

/// What a request is for, by the first of its letters: read, write, flush, discard, erase, other.
pub const CLASSES: usize = 6;
/// How a request is done: six bits.
pub const MODES: usize = 64;
/// Places for the keys of histograms.
pub const KEY_PLACES: usize = 1 << 12;
/// Kinds of the keys of histograms, in the order of their numbers.
pub const KINDS: [&str; 5] = ["read", "write", "flush", "discard", "other"];
shared! {
    /// The configuration of the programs.
    pub struct BlockConfig {
        min_latency_ns: u64,
        slow_ns: u64,
        wanted: [u64; CLASSES],
        slow_stack_ns: u64,
        one_in: u32,
        events: u32,
        from_queue: u32,
        some_devices: u32,
        some_pids: u32,
        some_comms: u32,
        issuer_at_issue: u32,
        power: u32,
        ignore_stamps: u32,
        some_processes: u32,
        want_process: u32,
        want_about: u32,
        keys: u32,
        issue_one_in: u32,
        user_stacks: u32,
        pad: u32,
    }
}

shared! {
    /// An event as it comes out of the ring buffer. Queue time and offset are `MISSING_U64` where the record has none.
    pub struct BlockRecord {
        issue_ns: u64,
        latency_ns: u64,
        queue_ns: u64,
        offset: u64,
        cgroup: u64,
        size: u64,
        dev: u32,
        pid: u32,
        tid: u32,
        letters: u32,
        error: i32,
        sample_weight: u32,
        comm: [u8; 16],
        process: [u8; 16],
        about: u32,
        cpu: u32,
        texts_len: u16,
        looked: u16,
        issued: u32,
    }
}

/// Instead of a request: the record describes a process.
pub const LETTERS_ABOUT: u32 = u32::MAX;
/// Behind the record is the stack of an issue.
pub const LETTERS_ISSUED: u32 = u32::MAX - 1;
/// Behind the record is the user stack of a thread that returns.
pub const LETTERS_RETURNED: u32 = u32::MAX - 2;

/// Why somebody looked whether the issuer of a request still waits for it.
pub mod looked {
    pub const NOT: u16 = 0;
    pub const SLOW: u16 = 1;
    pub const KERNEL: u16 = 3;
}

shared! {
    /// A request in flight.
    pub struct BlockIssuer {
        start_ns: u64,
        issue_ns: u64,
        cgroup: u64,
        done: u32,
        issued: u32,
        dev: u32,
        letters: u32,
        wait: u32,
        pid: u32,
        tid: u32,
        about: u32,
        comm: [u8; 16],
        process: [u8; 16],
    }
}

shared! {
    /// A request that has not completed for long, and whether the stack of its issuer was found.
    pub struct BlockHung {
        request: u64,
        found: u64,
    }
}

shared! {
    /// What is asked of the walk over the tags of a disk, and where it stopped.
    pub struct BlockWalk {
        now_ns: u64,
        busy: u64,
        dev: u32,
        fd: i32,
        queues: u32,
        words: u32,
        scheduler: u32,
        found: u32,
        end: u32,
        pad: u32,
    }
}

/// Why a walk stopped, as far as it matters: its room is full, or the disk has no tags.
pub mod walk_end {
    pub const MORE: u32 = 0;
    pub const NO_TAGS: u32 = 3;
}

shared! {
    /// A request that has a tag. Times are 0, and the offset `MISSING_U64`, where they are not known.
    pub struct BlockWaiting {
        request: u64,
        start_ns: u64,
        issue_ns: u64,
        offset: u64,
        cgroup: u64,
        size: u64,
        dev: u32,
        letters: u32,
        pid: u32,
        tid: u32,
        at_device: u32,
        pad: u32,
        comm: [u8; 16],
        process: [u8; 16],
    }
}

/// The text in a command name of fixed length.
pub fn until_nul(comm: &[u8; 16]) -> &[u8] {
    comm.split(|&letter| letter == 0).next().unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cumulative;
    use crate::loader::Raw;
    use crate::loader::in_c::{assert_layout, evaluate, evaluate_for};
    use latscope_event::MISSING_U64;
    use latscope_histogram::Grid;

    const HEADERS: &[&str] = &["hist.h", "block/block.h"];

    #[test]
    fn structs_are_laid_out_as_in_c() {
        assert_layout(HEADERS, "block_config", BlockConfig::SIZE, BlockConfig::LAYOUT);
        assert_layout(HEADERS, "block_record", BlockRecord::SIZE, BlockRecord::LAYOUT);
        assert_layout(HEADERS, "block_issuer", BlockIssuer::SIZE, BlockIssuer::LAYOUT);
        assert_layout(HEADERS, "block_hung", BlockHung::SIZE, BlockHung::LAYOUT);
        assert_layout(HEADERS, "block_walk", BlockWalk::SIZE, BlockWalk::LAYOUT);
        assert_layout(HEADERS, "block_waiting", BlockWaiting::SIZE, BlockWaiting::LAYOUT);
        let stacks = evaluate(HEADERS, &["LETTERS_ISSUED", "LETTERS_RETURNED", "LOOKED_NOT", "LOOKED_SLOW"]);
        let [issued, returned] = [LETTERS_ISSUED, LETTERS_RETURNED].map(u64::from);
        assert_eq!(stacks, [issued, returned, looked::NOT.into(), looked::SLOW.into()]);
        let ends = evaluate(HEADERS, &["WALK_MORE", "WALK_NO_TAGS"]);
        assert_eq!(ends, [walk_end::MORE, walk_end::NO_TAGS].map(u64::from));
        let sizes = evaluate(
            HEADERS,
            &["sizeof(struct block_hist)", "CLASSES", "MODES", "NO_QUEUE", "NO_OFFSET", "KIND_OTHER", "LETTERS_ABOUT"],
        );
        assert_eq!(
            sizes,
            [
                cumulative::bytes(Grid::FINE) as u64,
                CLASSES as u64,
                MODES as u64,
                MISSING_U64,
                MISSING_U64,
                KINDS.len() as u64 - 1,
                LETTERS_ABOUT.into()
            ]
        );
    }

    #[test]
    fn counters_have_the_numbers_of_c() {
        use Counter as C;
        let ours = [
            (C::Partial, "PARTIAL"),
            (C::FlushParent, "FLUSH_PARENT"),
            (C::Unstamped, "UNSTAMPED"),
            (C::NeverIssued, "NEVER_ISSUED"),
            (C::Reversed, "REVERSED"),
            (C::NoIssuer, "NO_ISSUER"),
            (C::RingFull, "RING_FULL"),
            (C::KeysFull, "KEYS_FULL"),
            (C::OwnStamps, "OWN_STAMPS"),
            (C::Failed, "FAILED"),
            (C::UnseenEnd, "UNSEEN_END"),
        ];
        let names: Vec<_> = ours.iter().map(|&(_, name)| name).chain(["BLOCK_COUNTERS"]).collect();
        let numbers: Vec<_> = ours.iter().map(|&(counter, _)| counter as u64).chain([COUNTERS as u64]).collect();
        assert_eq!(evaluate(HEADERS, &names), numbers);
    }

    /// Many disks, then the same again, then one too many.
    #[test]
    fn every_key_has_a_number_of_its_own_while_there_are_any() {
        let keys: Vec<u64> =
            (0..400u64).flat_map(|disk| (0..5).map(move |kind| (disk << 20 | 259) << 8 | kind)).collect();
        let numbers: Vec<u64> = (0..keys.len() as u64).collect();
        let number = "({ static u64 keys[KEY_PLACES], given; number_of(value, keys, &given, 2000); })";
        let number = |asked: Vec<u64>| evaluate_for(&["block/keys.h"], number, &asked);
        assert_eq!(number([&keys[..], &keys[..], &[1 << 41]].concat()), {
            [&numbers[..], &numbers[..], &[u64::from(u32::MAX)]].concat()
        });
        assert_eq!(number(vec![0, 1, 0]), [0, 1, 0], "nothing is a key too");
        assert_eq!(evaluate(&["block/keys.h"], &["KEY_PLACES"]), [KEY_PLACES as u64]);
    }

    /// Every edge of every bucket, on every grid that a kernel map may have.
    #[test]
    fn buckets_are_those_of_the_grid() {
        for power in 0..=6 {
            let grid = Grid::with_power(power).unwrap();
            let buckets = 0..cumulative::buckets(grid);
            let edges = buckets.flat_map(|index| [grid.lower(index), grid.upper(index)]);
            let values: Vec<u64> = edges.chain([1 << 40, 1 << cumulative::BITS, 1 << 60, u64::MAX]).collect();
            let theirs = evaluate_for(HEADERS, &format!("hist_index(value, {power})"), &values);
            let expected = values.iter().map(|&value| grid.index(value).min(cumulative::buckets(grid) - 1) as u64);
            assert_eq!(theirs, expected.collect::<Vec<_>>(), "power {power}");
            assert_eq!(cumulative::buckets(grid), grid.index(1 << cumulative::BITS));
        }
    }
}
