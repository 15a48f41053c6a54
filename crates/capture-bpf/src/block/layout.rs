//! What `bpf/block/block.h` declares.

use crate::loader::shared;

/// The object with all programs.
pub const OBJECT: &[u8] = include_bytes!("../../../../bpf/block/block.bpf.o");

/// Slots of the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Counter {
    Completed,
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
}
/// How many counters there are.
pub const COUNTERS: usize = Counter::Failed as usize + 1;

/// What a request is for, by the first of its letters: read, write, flush, discard, erase, other.
pub const CLASSES: usize = 6;
/// How a request is done: six bits.
pub const MODES: usize = 64;
/// Kinds of the keys of histograms, in the order of their numbers.
pub const KINDS: [&str; 5] = ["read", "write", "flush", "discard", "other"];
/// Marks an unknown queue time.
pub const NO_QUEUE: u64 = u64::MAX;
/// Histograms end at two to this power of nanoseconds.
pub const HIST_BITS: u32 = 42;

/// Number of buckets of a histogram.
pub const fn hist_len(power: u8) -> usize {
    ((HIST_BITS + 1 - power as u32) << power) as usize
}

/// Bytes of a histogram.
pub const fn hist_bytes(power: u8) -> usize {
    16 + 4 * hist_len(power)
}

shared! {
    /// The configuration of the programs.
    pub struct BlockConfig {
        min_latency_ns: u64,
        slow_ns: u64,
        wanted: [u64; CLASSES],
        one_in: u32,
        events: u32,
        from_queue: u32,
        some_devices: u32,
        some_pids: u32,
        some_comms: u32,
        issuer_at_issue: u32,
        power: u32,
    }
}

shared! {
    /// An event as it comes out of the ring buffer.
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
        weight: u32,
        comm: [u8; 16],
    }
}

shared! {
    /// A request in flight.
    pub struct BlockIssuer {
        start_ns: u64,
        issue_ns: u64,
        cgroup: u64,
        done: u64,
        dev: u32,
        letters: u32,
        size: u32,
        pid: u32,
        tid: u32,
        pad: u32,
        comm: [u8; 16],
    }
}

impl BlockIssuer {
    /// When it was issued, or began to wait where nobody looked.
    pub fn since_ns(&self) -> u64 {
        if self.issue_ns != 0 { self.issue_ns } else { self.start_ns }
    }
}

/// The text in a command name of fixed length.
pub fn until_nul(comm: &[u8; 16]) -> &[u8] {
    comm.split(|&letter| letter == 0).next().unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Raw;
    use libbpf_rs::Btf;
    use libbpf_rs::btf::types::{Enum, Struct};

    fn btf() -> Btf<'static> {
        Btf::from_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/block/block.bpf.o")).unwrap()
    }

    #[test]
    fn structs_are_laid_out_as_in_c() {
        let btf = btf();
        for (name, size, layout) in [
            ("block_config", BlockConfig::SIZE, BlockConfig::LAYOUT),
            ("block_record", BlockRecord::SIZE, BlockRecord::LAYOUT),
            ("block_issuer", BlockIssuer::SIZE, BlockIssuer::LAYOUT),
        ] {
            let theirs = btf.type_by_name::<Struct<'_>>(name).unwrap();
            assert_eq!(theirs.size(), size, "{name}");
            let offsets: Vec<_> = theirs
                .iter()
                .map(|member| {
                    let libbpf_rs::btf::types::MemberAttr::Normal { offset } = member.attr else { panic!("bit field") };
                    (member.name.unwrap().to_str().unwrap().to_owned(), offset as usize / 8)
                })
                .collect();
            let ours: Vec<_> = layout.iter().map(|&(field, offset, _)| (field.to_owned(), offset)).collect();
            assert_eq!(ours, offsets, "{name}");
        }
        assert_eq!(btf.type_by_name::<Struct<'_>>("block_hist").unwrap().size(), hist_bytes(6));
    }

    #[test]
    fn counters_have_the_numbers_of_c() {
        let btf = btf();
        let counters = btf.type_by_name::<Enum<'_>>("counter").unwrap();
        let theirs: Vec<_> = counters
            .iter()
            .map(|member| member.name.unwrap().to_str().unwrap().replace('_', "").to_lowercase())
            .collect();
        use Counter as C;
        let ours = [
            C::Completed,
            C::Partial,
            C::FlushParent,
            C::Unstamped,
            C::NeverIssued,
            C::Reversed,
            C::NoIssuer,
            C::RingFull,
            C::KeysFull,
            C::OwnStamps,
            C::Failed,
        ];
        let ours: Vec<_> = ours.iter().map(|counter| format!("{counter:?}").to_lowercase()).collect();
        assert_eq!(theirs[..COUNTERS], ours);
        assert_eq!(theirs.len(), COUNTERS + 1);
    }
}
