//! The columns of a sample: their layout follows from its event's attributes.

use crate::block_pairs::NO_ID;
use crate::tracepoint::{Endian, Stamp};

/// `sample_type` bits.
mod bit {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// What was recorded: the part of `perf_event_attr` that matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attr {
    /// 2 is a tracepoint.
    pub kind: u32,
    /// Number of the tracepoint.
    pub config: u64,
    /// What a sample stands for, where it does not say so itself.
    pub period: u64,
    /// Which columns a sample has.
    pub sample_type: u64,
    /// What a READ column has.
    pub read_format: u64,
    /// Whether records other than samples end in the same columns.
    pub sample_id_all: bool,
    /// The clock, when it was chosen (`-k`).
    pub clockid: Option<i32>,
    /// Identifiers of the event on each CPU.
    pub ids: Vec<u64>,
}

/// `perf_event_attr.type` of tracepoints.
pub const TRACEPOINT: u32 = 2;

impl Attr {
    /// Reads attributes (without the identifiers) from their binary form, which carries its own size.
    pub fn parse(endian: Endian, bytes: &[u8]) -> Option<Attr> {
        let flags = endian.u64(bytes, 40)?;
        // Bit fields count from the other end on a machine of the other byte order.
        let flag = |number: u32| flags >> (if endian.big { 63 - number } else { number }) & 1 == 1;
        let size = endian.u32(bytes, 4)?;
        let clockid = (flag(25) && size >= 96).then(|| endian.u32(bytes, 92)).flatten();
        Some(Attr {
            kind: endian.u32(bytes, 0)?,
            config: endian.u64(bytes, 8)?,
            // With a frequency the kernel chooses it.
            period: if flag(10) { 0 } else { endian.u64(bytes, 16)? },
            sample_type: endian.u64(bytes, 24)?,
            read_format: endian.u64(bytes, 32)?,
            sample_id_all: flag(18),
            clockid: clockid.map(|clock| clock as i32),
            ids: Vec::new(),
        })
    }

    /// Whether it is sampled by a clock or a counter, with stacks: such samples are events.
    pub fn samples_stacks(&self) -> bool {
        const SOFTWARE: u32 = 1;
        // The dummy, and what programs of BPF write.
        let is_none = self.kind == TRACEPOINT || self.kind == SOFTWARE && matches!(self.config, 9 | 10);
        !is_none && self.sample_type & bit::CALLCHAIN != 0
    }

    /// The layout of its samples.
    pub fn layout(&self) -> Layout {
        let mut at = super::records::HEAD;
        let mut column = |wanted: u64| {
            let here = at;
            let has = self.sample_type & wanted != 0;
            at += if has { 8 } else { 0 };
            has.then_some(here)
        };
        let identifier = column(bit::IDENTIFIER);
        column(bit::IP);
        let tid = column(bit::TID);
        let time = column(bit::TIME);
        column(bit::ADDR);
        let id = column(bit::ID);
        column(bit::STREAM_ID);
        let cpu = column(bit::CPU);
        let period = column(bit::PERIOD);
        Layout {
            id: identifier.or(id),
            tid,
            time,
            cpu,
            period,
            fixed_end: at,
            sample_type: self.sample_type,
            read_format: self.read_format,
            trailer: self.sample_id_all,
        }
    }
}

/// Where the columns of a sample lie, as offsets in the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    id: Option<usize>,
    tid: Option<usize>,
    time: Option<usize>,
    cpu: Option<usize>,
    period: Option<usize>,
    fixed_end: usize,
    sample_type: u64,
    read_format: u64,
    trailer: bool,
}

impl Layout {
    /// Offset of the event's identifier in a sample.
    pub fn id(&self) -> Option<usize> {
        self.id
    }

    /// Time, CPU and thread of a sample.
    #[inline]
    pub fn stamp(&self, endian: Endian, record: &[u8]) -> Option<Stamp> {
        let (pid, tid) = match self.tid {
            Some(at) => (endian.u32(record, at)? as i32, endian.u32(record, at + 4)? as i32),
            None => (NO_ID, NO_ID),
        };
        let cpu = match self.cpu {
            Some(at) => Some(endian.u32(record, at)?),
            None => None,
        };
        Some(Stamp { time: endian.u64(record, self.time?)?, cpu, pid, tid })
    }

    /// Time and CPU of a record that is no sample: the same columns, in another order, at its end.
    pub fn trailer_stamp(&self, endian: Endian, record: &[u8]) -> Option<Stamp> {
        if !self.trailer {
            return None;
        }
        let columns = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
        let size = 8 * columns.iter().filter(|&&column| self.sample_type & column != 0).count();
        let start = record.len().checked_sub(size).filter(|&start| start >= super::records::HEAD)?;
        let at = |wanted: u64| {
            let before = columns.iter().take_while(|&&column| column != wanted);
            let at = start + 8 * before.filter(|&&column| self.sample_type & column != 0).count();
            (self.sample_type & wanted != 0).then_some(at)
        };
        let cpu = at(bit::CPU).and_then(|at| endian.u32(record, at));
        Some(Stamp { time: endian.u64(record, at(bit::TIME)?)?, cpu, pid: NO_ID, tid: NO_ID })
    }

    /// The tracepoint's own bytes in a sample.
    #[inline]
    pub fn raw<'a>(&self, endian: Endian, record: &'a [u8]) -> Option<&'a [u8]> {
        if self.sample_type & bit::RAW == 0 {
            return None;
        }
        let mut at = self.fixed_end;
        if self.sample_type & (bit::READ | bit::CALLCHAIN) != 0 {
            at = self.chain_range(endian, record)?.end;
        }
        let size = endian.u32(record, at)? as usize;
        record.get(at + 4..)?.get(..size)
    }

    /// The addresses of the stack of a sample, the innermost first, eight bytes each.
    pub fn chain<'a>(&self, endian: Endian, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.chain_range(endian, record)?).filter(|chain| !chain.is_empty())
    }

    /// What a sample stands for, if it says so.
    pub fn period(&self, endian: Endian, record: &[u8]) -> Option<u64> {
        endian.u64(record, self.period?)
    }

    /// Passes over the columns of varying length: where the addresses of the stack are, and where they end.
    fn chain_range(&self, endian: Endian, record: &[u8]) -> Option<std::ops::Range<usize>> {
        let mut at = self.fixed_end;
        if self.sample_type & bit::READ != 0 {
            let has = |bit: u32| (self.read_format >> bit & 1) as usize;
            let (times, id, group, lost) = (has(0) + has(1), has(2), has(3), has(4));
            let words = if group == 1 {
                let members = usize::try_from(endian.u64(record, at)?).ok()?;
                members.checked_mul(1 + id + lost)?.checked_add(1 + times)?
            } else {
                1 + times + id + lost
            };
            at = words.checked_mul(8)?.checked_add(at)?;
        }
        if self.sample_type & bit::CALLCHAIN != 0 {
            let frames = usize::try_from(endian.u64(record, at)?).ok()?;
            at += 8;
            return Some(at..frames.checked_mul(8)?.checked_add(at)?);
        }
        Some(at..at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Endian = Endian { big: false };

    #[test]
    fn columns_of_varying_length_are_passed_over() {
        let attr = Attr {
            sample_type: bit::TIME | bit::READ | bit::CALLCHAIN | bit::RAW,
            read_format: 0b1_0101,
            ..Attr::default()
        };
        let mut record = vec![0; 8];
        for word in [77u64, 1, 2, 3, 4, 2, 0xaaaa, 0xbbbb] {
            record.extend(word.to_le_bytes());
        }
        record.extend(3u32.to_le_bytes());
        record.extend(b"raw!");
        let layout = attr.layout();
        assert_eq!(layout.stamp(LITTLE, &record).map(|stamp| stamp.time), Some(77));
        assert_eq!(layout.raw(LITTLE, &record), Some(&b"raw"[..]));
        let group = Attr { read_format: 0b0_1100, ..attr };
        record.splice(16..48, [2u64, 1, 2, 3, 4].into_iter().flat_map(u64::to_le_bytes));
        assert_eq!(group.layout().raw(LITTLE, &record), Some(&b"raw"[..]));
        record[16..24].fill(0xff);
        assert_eq!(group.layout().raw(LITTLE, &record), None, "a made-up count does not overflow");
    }
}
