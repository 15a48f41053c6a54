//! From the bytes of a record to what it says. The layout of a sample follows from its event's attributes, the layout of
//! the tracepoint's own fields in it from the kernel's format texts.

use super::endian::Endian;
use super::tracing_format::{FieldLayout, Tracepoint};
use crate::block_pairs::{NO_ID, Record, Step, padded};
use crate::syscall_pairs::{Call, SyscallPairs};
use latscope_event::LossRange;

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
            sample_type: endian.u64(bytes, 24)?,
            read_format: endian.u64(bytes, 32)?,
            sample_id_all: flag(18),
            clockid: clockid.map(|clock| clock as i32),
            ids: Vec::new(),
        })
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
        column(bit::PERIOD);
        Layout {
            id: identifier.or(id),
            tid,
            time,
            cpu,
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
    fixed_end: usize,
    sample_type: u64,
    read_format: u64,
    trailer: bool,
}

/// The columns that any record may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// When, on the trace's clock.
    pub time: u64,
    /// CPU, when recorded.
    pub cpu: Option<u32>,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
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
            at = self.after_lists(endian, record)?;
        }
        let size = endian.u32(record, at)? as usize;
        record.get(at + 4..)?.get(..size)
    }

    /// Passes over the columns of varying length.
    fn after_lists(&self, endian: Endian, record: &[u8]) -> Option<usize> {
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
            at = frames.checked_add(1)?.checked_mul(8)?.checked_add(at)?;
        }
        Some(at)
    }
}

/// What a tracepoint gives, with the places of the fields that give it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decoder {
    /// One of the block layer.
    Block(BlockFields),
    /// `raw_syscalls:sys_enter`: number and arguments.
    RawEnter(FieldLayout, FieldLayout),
    /// `raw_syscalls:sys_exit`: number and result.
    RawExit(FieldLayout, FieldLayout),
    /// `syscalls:sys_enter_*`: arguments.
    Enter(Call, Vec<FieldLayout>),
    /// `syscalls:sys_exit_*`: result.
    Exit(Call, FieldLayout),
}

/// Places of the fields of a block tracepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFields {
    step: Step,
    dev: FieldLayout,
    sector: FieldLayout,
    sectors: FieldLayout,
    bytes: Option<FieldLayout>,
    error: Option<FieldLayout>,
    rwbs: FieldLayout,
    comm: Option<FieldLayout>,
    is_usual: bool,
}

/// What a record says, apart from its time.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A record of the block layer.
    Block(Record),
    /// A system call: number or name, whether it starts, how many values, and its arguments or result.
    Syscall { pid: i32, tid: i32, call: CallName, enter: bool, known: u8, values: [u64; 6] },
    /// A thread has this name from now on.
    Comm { tid: i32, comm: [u8; 16] },
    /// A thread starts with the name of its parent.
    Fork { tid: i32, parent: i32 },
    /// A thread is gone.
    Gone { tid: i32 },
    /// Records were lost.
    Lost(LossRange),
}

/// How a tracepoint names a call.
#[derive(Clone, Copy, Debug)]
pub enum CallName {
    /// By number.
    Number(i32),
    /// By its own name.
    Known(Call),
}

impl Decoder {
    /// How to read the samples of a tracepoint; `None` when they carry no latency.
    pub fn new(tracepoint: &Tracepoint, syscalls: &mut SyscallPairs) -> Option<Decoder> {
        let field = |name: &str| tracepoint.field(name);
        match (&*tracepoint.system, &*tracepoint.name) {
            ("raw_syscalls", "sys_enter") => Some(Decoder::RawEnter(field("id")?, field("args")?)),
            ("raw_syscalls", "sys_exit") => Some(Decoder::RawExit(field("id")?, field("ret")?)),
            ("syscalls", name) => {
                if let Some(call) = name.strip_prefix("sys_enter_") {
                    // First comes the number of the call; copies of texts, in recent kernels, are no arguments.
                    let own = tracepoint.fields.iter().skip(1).filter(|(name, _)| !name.starts_with("__"));
                    let places = own.map(|&(_, place)| place).take(6).collect();
                    return Some(Decoder::Enter(syscalls.named(call.as_bytes()), places));
                }
                let call = name.strip_prefix("sys_exit_")?;
                Some(Decoder::Exit(syscalls.named(call.as_bytes()), field("ret")?))
            }
            ("block", name) => {
                let step = match name {
                    "block_io_start" => Step::Start,
                    "block_rq_insert" => Step::Insert,
                    "block_rq_issue" => Step::Issue,
                    "block_rq_requeue" => Step::Requeue,
                    "block_rq_complete" => Step::Complete,
                    "block_io_done" => Step::Done,
                    _ => return None,
                };
                let mut fields = BlockFields {
                    step,
                    dev: field("dev")?,
                    sector: field("sector")?,
                    sectors: field("nr_sector")?,
                    bytes: field("bytes"),
                    error: field("error").or(field("errors")),
                    rwbs: field("rwbs")?,
                    comm: field("comm"),
                    is_usual: false,
                };
                fields.is_usual = fields.has_usual_widths();
                Some(Decoder::Block(fields))
            }
            _ => None,
        }
    }

    /// Whether it is about system calls.
    pub fn is_syscall(&self) -> bool {
        !matches!(self, Decoder::Block(_))
    }

    /// Reads a sample; `None` when it is too short for its fields.
    #[inline]
    pub fn decode(&self, endian: Endian, raw: &[u8], stamp: Stamp, time_ns: i64) -> Option<Entry> {
        let Stamp { pid, tid, .. } = stamp;
        let syscall = |call, enter, known: usize, values| {
            Some(Entry::Syscall { pid, tid, call, enter, known: known as u8, values })
        };
        let one = |value| [value, 0, 0, 0, 0, 0];
        let number = |place| number(endian, raw, place);
        match self {
            Decoder::Block(fields) => Some(Entry::Block(fields.decode(endian, raw, stamp, time_ns)?)),
            Decoder::RawEnter(id, arguments) => {
                let size = arguments.size / 6;
                let mut values = [0; 6];
                for (place, value) in values.iter_mut().enumerate() {
                    let at = arguments.at.checked_add(place as u16 * size)?;
                    *value = self::number(endian, raw, FieldLayout { at, size, signed: false })?;
                }
                syscall(CallName::Number(number(*id)? as i32), true, 6, values)
            }
            Decoder::RawExit(id, result) => {
                syscall(CallName::Number(number(*id)? as i32), false, 1, one(number(*result)?))
            }
            Decoder::Enter(call, places) => {
                let mut values = [0; 6];
                for (value, &place) in values.iter_mut().zip(places) {
                    *value = number(place)?;
                }
                syscall(CallName::Known(*call), true, places.len().min(6), values)
            }
            Decoder::Exit(call, result) => syscall(CallName::Known(*call), false, 1, one(number(*result)?)),
        }
    }
}

impl BlockFields {
    /// Whether all numbers are as wide as 64-bit kernels have them.
    fn has_usual_widths(&self) -> bool {
        let narrow = [Some(self.dev), Some(self.sectors), self.bytes, self.error];
        self.sector.size == 8 && narrow.iter().flatten().all(|place| place.size == 4)
    }

    /// Reads a sample; `None` when it is too short for its fields.
    #[inline(always)]
    pub fn decode(&self, endian: Endian, raw: &[u8], stamp: Stamp, time_ns: i64) -> Option<Record> {
        if self.is_usual && !endian.big {
            // What nearly every file holds, and then the width of each load is known to the compiler.
            let little = Endian { big: false };
            let narrow = |place: FieldLayout| little.u32(raw, usize::from(place.at));
            self.record(raw, stamp, time_ns, narrow, |place| little.u64(raw, usize::from(place.at)))
        } else {
            let wide = |place: FieldLayout| number(endian, raw, place);
            self.record(raw, stamp, time_ns, |place| wide(place).map(|number| number as u32), wide)
        }
    }

    #[inline(always)]
    fn record(
        &self,
        raw: &[u8],
        stamp: Stamp,
        time_ns: i64,
        narrow: impl Fn(FieldLayout) -> Option<u32>,
        wide: impl Fn(FieldLayout) -> Option<u64>,
    ) -> Option<Record> {
        let optional = |place: Option<FieldLayout>| match place {
            Some(place) => narrow(place),
            None => Some(0),
        };
        let comm = match self.comm {
            // The kernel keeps 16 bytes; another size would be another kernel's.
            Some(FieldLayout { at, size: 16, .. }) => *raw.get(usize::from(at)..)?.first_chunk::<16>()?,
            Some(place) => padded(text(raw, place)?),
            None => [0; 16],
        };
        Some(Record {
            time_ns,
            sector: wide(self.sector)?,
            bytes: optional(self.bytes)?,
            sectors: narrow(self.sectors)?,
            dev: narrow(self.dev)?,
            error: optional(self.error)? as i32,
            pid: stamp.pid,
            tid: stamp.tid,
            step: self.step,
            rwbs: letters(text(raw, self.rwbs)?),
            comm,
        })
    }
}

/// A number of any width up to eight bytes, its sign extended. There are no branches on width and byte order: eight bytes
/// are read, and what does not belong to the number is shifted out.
#[inline]
fn number(endian: Endian, raw: &[u8], place: FieldLayout) -> Option<u64> {
    let from = raw.get(usize::from(place.at)..)?;
    let bytes = match from.first_chunk::<8>() {
        Some(bytes) => *bytes,
        None => padded(from.get(..usize::from(place.size))?),
    };
    let foreign = 64u32.checked_sub(8 * u32::from(place.size)).filter(|&bits| bits < 64)?;
    let word = u64::from_le_bytes(bytes);
    let word = if endian.big { word.swap_bytes() } else { word << foreign };
    Some(if place.signed { (word as i64 >> foreign) as u64 } else { word >> foreign })
}

#[inline(always)]
fn text(raw: &[u8], place: FieldLayout) -> Option<&[u8]> {
    raw.get(usize::from(place.at)..)?.get(..usize::from(place.size))
}

/// Flag letters up to their end; what lies behind it in the kernel's buffer is left over from before.
#[inline(always)]
fn letters(text: &[u8]) -> [u8; 8] {
    let Some(first) = text.first_chunk::<8>() else { return padded(crate::block_pairs::trimmed(text)) };
    let word = u64::from_le_bytes(*first);
    let zeros = word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080;
    if zeros == 0 {
        return *first;
    }
    let keep = (1u64 << (zeros.trailing_zeros() & !7)) - 1;
    (word & keep).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Endian = Endian { big: false };

    #[test]
    fn letters_end_at_the_first_zero() {
        for text in [&b"W\0abcdefgh"[..], b"WFSM\0\x01\x02\x03\0", b"\0junkjunk", b"WFSMABCD", b"RA\0x"] {
            assert_eq!(letters(text), padded::<8>(crate::block_pairs::trimmed(text)), "{text:?}");
        }
    }

    #[test]
    fn numbers_of_any_width_and_sign() {
        let raw = [0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0];
        let at = |size, signed| number(LITTLE, &raw, FieldLayout { at: 0, size, signed });
        assert_eq!((at(1, false), at(1, true)), (Some(0xfe), Some(-2i64 as u64)));
        assert_eq!((at(2, false), at(2, true)), (Some(0xfffe), Some(-2i64 as u64)));
        assert_eq!((at(4, false), at(4, true)), (Some(0xffff_fffe), Some(-2i64 as u64)));
        assert_eq!((at(8, false), at(0, false), at(9, false)), (Some(0x1_ffff_fffe), None, None));
        assert_eq!(number(LITTLE, &raw, FieldLayout { at: 5, size: 4, signed: false }), None);
        assert_eq!(number(LITTLE, &raw, FieldLayout { at: 4, size: 4, signed: false }), Some(1));
        let big = Endian { big: true };
        let at = |at, size, signed| number(big, &raw, FieldLayout { at, size, signed });
        assert_eq!((at(0, 4, true), at(0, 4, false)), (Some(0xffff_ffff_feff_ffff), Some(0xfeff_ffff)));
        assert_eq!((at(3, 2, false), at(4, 4, false)), (Some(0xff01), Some(0x0100_0000)));
    }

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
