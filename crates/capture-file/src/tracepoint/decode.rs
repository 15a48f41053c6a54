//! From the raw bytes of a record to what it says: the layout of its fields follows from the kernel's format texts.

use super::{Endian, FieldLayout, Tracepoint};
use crate::block_pairs::{Record, Step, padded};
use crate::syscall_pairs::{Call, SyscallPairs};
use latscope_event::{LossRange, MISSING_CODE};

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
    /// A system call: number or name, whether it starts, how many values, its arguments or result, and the code of its stack.
    Syscall { pid: i32, tid: i32, call: CallName, enter: bool, known: u8, values: [u64; 6], stack: u32 },
    /// A clock or a counter ticked: which event of the recording, what it stands for, and the code of its stack.
    Sample { pid: i32, tid: i32, event: u32, period_ns: u64, stack: u32 },
    /// What a process has in memory changed; the format keeps how.
    Memory { slot: u32 },
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

impl Entry {
    /// The code of its stack, where it may have one.
    pub fn stack(&self) -> Option<u32> {
        match self {
            Entry::Block(record) => Some(record.stack),
            Entry::Syscall { stack, .. } | Entry::Sample { stack, .. } => Some(*stack),
            _ => None,
        }
    }

    /// Gives it the code of its stack.
    pub fn set_stack(&mut self, code: u32) {
        match self {
            Entry::Block(record) => record.stack = code,
            Entry::Syscall { stack, .. } | Entry::Sample { stack, .. } => *stack = code,
            _ => {}
        }
    }
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
            Some(Entry::Syscall { pid, tid, call, enter, known: known as u8, values, stack: MISSING_CODE })
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
            stack: MISSING_CODE,
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
}
