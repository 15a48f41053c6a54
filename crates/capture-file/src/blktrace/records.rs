//! The records of one stream, in the two layouts that there are: 48 bytes (version 7) and 64 bytes (version 8), each with its
//! data behind it.

use crate::block_actions::{Action, ActionRecord};
use crate::input::Input;
use crate::tracepoint::Endian;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Upper three bytes of the magic; the lowest is the version.
const MAGIC: u32 = 0x6561_7400;
/// Bytes of a record without its data, in version 7 and in version 8.
const SHORT_HEAD: usize = 48;
const LONG_HEAD: usize = 64;
/// Size of the chunks that a stream is read in; the largest record, whose data has a length of 16 bits, fits whole.
const CHUNK_BYTES: usize = 128 * 1024;

/// Bits of the action: what the request is.
mod category {
    pub const WRITE: u32 = 1 << 17;
    pub const FLUSH: u32 = 1 << 18;
    pub const SYNC: u32 = 1 << 19;
    pub const PASSTHROUGH: u32 = 1 << 25;
    pub const NOTIFY: u32 = 1 << 26;
    pub const READ_AHEAD: u32 = 1 << 27;
    pub const META: u32 = 1 << 28;
    pub const DISCARD: u32 = 1 << 29;
    pub const FUA: u32 = 1 << 31;
}

/// That of nearly all recordings.
const USUAL: Layout = Layout { endian: Endian { big: false }, version: 7 };

/// How the records of a stream lie in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub endian: Endian,
    /// 7 or 8 where it can be read.
    pub version: u8,
}

impl Layout {
    /// From the magic of a record; `None` if it has another one.
    pub fn detect(head: &[u8]) -> Option<Layout> {
        [false, true].into_iter().find_map(|big| {
            let endian = Endian { big };
            let magic = endian.u32(head, 0)?;
            // Text may start with `eat`, but not go on with a control character that is no blank.
            let version = (magic & 0xff) as u8;
            (magic & !0xff == MAGIC && matches!(version, 1..=8)).then_some(Layout { endian, version })
        })
    }

    #[inline(always)]
    fn head_bytes(self) -> usize {
        if self.version == 8 { LONG_HEAD } else { SHORT_HEAD }
    }

    #[inline(always)]
    fn magic(self) -> u32 {
        MAGIC | u32::from(self.version)
    }

    /// The magic as it lies in the file.
    fn magic_bytes(self) -> [u8; 4] {
        if self.endian.big { self.magic().to_be_bytes() } else { self.magic().to_le_bytes() }
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'b> {
    /// About a request or a bio.
    Action(ActionRecord),
    /// The name of a thread.
    Process(i32, &'b [u8]),
    /// The time of day at this moment of the trace's clock, both in nanoseconds.
    WallClock { time_ns: i64, unix_ns: i64 },
    /// Something else.
    Other,
}

/// The fixed part of a record, of either layout.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub time_ns: i64,
    pub dev: u32,
    pub cpu: u32,
    /// The number that the kernel gave it among those of its CPU (0: none).
    pub sequence: u32,
    magic: u32,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    error: u16,
    pdu_bytes: u16,
}

impl Head {
    /// The head of a record that starts these bytes; `None` when they are too few.
    #[inline(always)]
    fn parse(layout: Layout, bytes: &[u8]) -> Option<Head> {
        match (layout.version, layout.endian.big) {
            (8, _) => Head::parse_long(bytes.first_chunk()?, layout.endian),
            (_, false) => Head::parse_short(bytes.first_chunk()?, Endian { big: false }),
            (_, true) => Head::parse_short(bytes.first_chunk()?, Endian { big: true }),
        }
    }

    #[inline(always)]
    fn parse_short(bytes: &[u8; SHORT_HEAD], endian: Endian) -> Option<Head> {
        let word = |at: usize| endian.u32(bytes, at);
        let (action, pid, dev, cpu) = (word(28)?, word(32)?, word(36)?, word(40)?);
        let tail = (endian.u16(bytes, 44)?, endian.u16(bytes, 46)?);
        Head::from_words(bytes, endian, (action, pid, dev, cpu), tail)
    }

    /// Of 64 bits of action the lower 32 are those of the short head.
    fn parse_long(bytes: &[u8; LONG_HEAD], endian: Endian) -> Option<Head> {
        let word = |at: usize| endian.u32(bytes, at);
        let (action, pid, dev, cpu) = (endian.u64(bytes, 32)? as u32, word(28)?, word(40)?, word(44)?);
        let tail = (endian.u16(bytes, 48)?, endian.u16(bytes, 50)?);
        Head::from_words(bytes, endian, (action, pid, dev, cpu), tail)
    }

    #[inline(always)]
    fn from_words(
        bytes: &[u8],
        endian: Endian,
        (action, pid, dev, cpu): (u32, u32, u32, u32),
        (error, pdu_bytes): (u16, u16),
    ) -> Option<Head> {
        Some(Head {
            time_ns: i64::try_from(endian.u64(bytes, 8)?).unwrap_or(i64::MAX),
            dev,
            cpu,
            sequence: if is_notice(action) { 0 } else { endian.u32(bytes, 4)? },
            magic: endian.u32(bytes, 0)?,
            sector: endian.u64(bytes, 16)?,
            bytes: endian.u32(bytes, 24)?,
            action,
            pid,
            error,
            pdu_bytes,
        })
    }
}

fn is_notice(action: u32) -> bool {
    action & category::NOTIFY != 0
}

/// A record with its data.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'b> {
    pub head: Head,
    pdu: &'b [u8],
    endian: Endian,
}

impl<'b> Raw<'b> {
    /// The record that starts these bytes; `None` when it is not whole.
    #[inline(always)]
    fn parse(layout: Layout, bytes: &'b [u8]) -> Option<Raw<'b>> {
        let head = Head::parse(layout, bytes)?;
        let start = layout.head_bytes();
        let pdu = bytes.get(start..start + usize::from(head.pdu_bytes))?;
        Some(Raw { head, pdu, endian: layout.endian })
    }

    /// What it is.
    #[inline(always)]
    pub fn entry(&self) -> Entry<'b> {
        let Head { time_ns, action, pid, .. } = self.head;
        if is_notice(action) {
            return match action & 0xff {
                0 => Entry::Process(pid as i32, self.pdu),
                1 => wall_clock(self.endian, time_ns, self.pdu).unwrap_or(Entry::Other),
                _ => Entry::Other,
            };
        }
        let action = match action & 0xff {
            1 => Action::Queue,
            2 => Action::BackMerge,
            3 => Action::FrontMerge,
            4 => Action::Allocate,
            6 => Action::Requeue,
            7 => Action::Issue,
            8 => Action::Complete,
            12 => Action::Insert,
            13 | 15 => match self.moved() {
                Some(action) => action,
                None => return Entry::Other,
            },
            _ => return Entry::Other,
        };
        Entry::Action(self.action_record(action))
    }

    /// The action of a bio that was split or passed on: where to, is in the data.
    #[cold]
    fn moved(&self) -> Option<Action> {
        // Where the identifier of a control group leads the data.
        let leads = self.head.action & 0x100 != 0;
        let pdu = if leads { self.pdu.get(8..)? } else { self.pdu };
        let big = Endian { big: true };
        Some(if self.head.action & 0xff == 13 {
            Action::Split(big.u64(pdu, 0)?)
        } else {
            Action::Remap(big.u32(pdu, 0)?)
        })
    }

    #[inline(always)]
    fn action_record(&self, action: Action) -> ActionRecord {
        let Head { time_ns, dev, sector, bytes, pid, error, .. } = self.head;
        ActionRecord {
            time_ns,
            sector,
            action,
            bytes,
            dev,
            tid: pid as i32,
            error: i32::from(error as i16),
            is_passthrough: self.head.action & category::PASSTHROUGH != 0,
            rwbs: LETTERS[letters_index(self.head.action, bytes)],
        }
    }
}

/// A stream of records.
pub struct Stream<'a> {
    input: Input<'a>,
    layout: Layout,
    buffer: Vec<u8>,
    /// What of the buffer was read and not yet taken.
    at: usize,
    end: usize,
    /// Offset in the file of the end of the buffer.
    offset: u64,
    is_ended: bool,
    is_in_damage: bool,
    /// Offset of the first byte that is no record, and how many such gaps there are.
    pub damage: Option<u64>,
    pub damaged: u64,
    /// Whether it ends within a record.
    pub is_cut: bool,
}

impl<'a> Stream<'a> {
    /// The stream of a file in this layout.
    pub fn new(input: Input<'a>, layout: Layout) -> Stream<'a> {
        let buffer = vec![0; CHUNK_BYTES];
        Stream {
            input,
            layout,
            buffer,
            at: 0,
            end: 0,
            offset: 0,
            is_ended: false,
            is_in_damage: false,
            damage: None,
            damaged: 0,
            is_cut: false,
        }
    }

    /// Whether it may be written while it is read.
    pub fn is_stream(&self) -> bool {
        self.input.is_stream()
    }

    /// The head of the next record and its length, if all of it is there.
    fn whole(&self) -> Option<(Head, usize)> {
        let raw = Raw::parse(self.layout, self.buffer.get(self.at..self.end)?)?;
        Some((raw.head, self.layout.head_bytes() + raw.pdu.len()))
    }

    /// Hands on all records that were read as a whole, up to one without a magic; breaks when `take` does.
    #[inline]
    pub fn each_whole<B>(&mut self, take: impl FnMut(&Raw) -> ControlFlow<B>) -> ControlFlow<B> {
        // With the order of bytes and all offsets known, each field is one load.
        if self.layout == USUAL { self.each_whole_of(USUAL, take) } else { self.each_whole_of(self.layout, take) }
    }

    #[inline(always)]
    fn each_whole_of<B>(&mut self, layout: Layout, mut take: impl FnMut(&Raw) -> ControlFlow<B>) -> ControlFlow<B> {
        let (mut rest, mut flow) = (&self.buffer[self.at..self.end], ControlFlow::Continue(()));
        while let Some(raw) = Raw::parse(layout, rest).filter(|raw| raw.head.magic == layout.magic()) {
            rest = &rest[layout.head_bytes() + raw.pdu.len()..];
            flow = take(&raw);
            if flow.is_break() {
                break;
            }
        }
        self.at = self.end - rest.len();
        flow
    }

    /// Reads on until there is a whole record; false at the end.
    pub fn reads_on(&mut self) -> io::Result<bool> {
        Ok(self.read_next()?.is_some())
    }

    /// Reads more behind what is there; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.is_ended {
            return Ok(false);
        }
        self.buffer.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        let got = loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => break got?,
            }
        };
        self.end += got;
        self.offset += got as u64;
        self.is_ended = got == 0;
        Ok(got > 0)
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Raw<'_>>> {
        let (head, length) = match self.whole() {
            Some(whole) if whole.0.magic == self.layout.magic() => whole,
            _ => match self.read_next()? {
                Some(whole) => whole,
                None => return Ok(None),
            },
        };
        let start = self.at;
        self.at += length;
        let pdu = self.buffer.get(start + self.layout.head_bytes()..self.at).unwrap_or_default();
        Ok(Some(Raw { head, pdu, endian: self.layout.endian }))
    }

    /// As [`Stream::next`], where it has to be read or looked for first: its head and length.
    #[cold]
    fn read_next(&mut self) -> io::Result<Option<(Head, usize)>> {
        loop {
            let rest = &self.buffer[self.at..self.end];
            if rest.first_chunk::<4>().is_some_and(|magic| *magic != self.layout.magic_bytes()) {
                self.skip_damage();
            } else if let Some(whole) = self.whole() {
                self.is_in_damage = false;
                return Ok(Some(whole));
            } else if !self.fill()? {
                self.is_cut |= self.at < self.end || self.input.is_cut();
                self.at = self.end;
                return Ok(None);
            }
        }
    }

    /// Goes on at the next magic.
    #[cold]
    fn skip_damage(&mut self) {
        self.damaged += u64::from(!self.is_in_damage);
        self.is_in_damage = true;
        self.damage.get_or_insert(self.offset - (self.end - self.at) as u64);
        let rest = &self.buffer[self.at + 1..self.end];
        // The beginning of a magic may be at the end.
        let skipped = memchr::memmem::find(rest, &self.layout.magic_bytes()).unwrap_or(rest.len().saturating_sub(3));
        self.at += 1 + skipped;
    }

    /// The wall clock, if a record among those that are read at once has it.
    pub fn wall_clock(&mut self) -> io::Result<Option<(i64, i64)>> {
        while self.end < self.buffer.len() && !self.input.is_stream() && self.fill()? {}
        if self.end == 0 {
            self.fill()?;
        }
        let (start, mut found) = (self.at, None);
        while let Some((head, length)) = self.whole().filter(|(head, _)| head.magic == self.layout.magic()) {
            let pdu = &self.buffer[self.at + self.layout.head_bytes()..self.at + length];
            if let Entry::WallClock { time_ns, unix_ns } = (Raw { head, pdu, endian: self.layout.endian }).entry() {
                found = Some((time_ns, unix_ns));
                break;
            }
            self.at += length;
        }
        self.at = start;
        Ok(found)
    }
}

fn wall_clock<'b>(endian: Endian, time_ns: i64, pdu: &[u8]) -> Option<Entry<'b>> {
    let (seconds, ns) = (endian.u32(pdu, 0)?, endian.u32(pdu, 4)?);
    (ns < 1_000_000_000)
        .then(|| Entry::WallClock { time_ns, unix_ns: i64::from(seconds) * 1_000_000_000 + i64::from(ns) })
}

/// Operation and flags of all requests that there are, as they are asked for with each record.
static LETTERS: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut index = 0;
    while index < all.len() {
        all[index] = letters(index as u32);
        index += 1;
    }
    all
};

/// Write, flush and sync; read-ahead, meta and discard; FUA; whether there is data.
#[inline]
fn letters_index(action: u32, bytes: u32) -> usize {
    ((action >> 17 & 7) | (action >> 27 & 7) << 3 | (action >> 31) << 6 | u32::from(bytes > 0) << 7) as usize
}

/// The letters of an index, in the order of blkparse.
const fn letters(index: u32) -> [u8; 8] {
    let action = (index & 7) << 17 | (index >> 3 & 7) << 27 | (index >> 6 & 1) << 31;
    let operation = match () {
        () if action & category::DISCARD != 0 => b'D',
        () if action & category::WRITE != 0 => b'W',
        () if index >> 7 != 0 => b'R',
        () => b'N',
    };
    let all = [
        (action & category::FLUSH != 0, b'F'),
        (true, operation),
        (action & category::FUA != 0, b'F'),
        (action & category::READ_AHEAD != 0, b'A'),
        (action & category::SYNC != 0, b'S'),
        (action & category::META != 0, b'M'),
    ];
    let (mut letters, mut length, mut at) = ([0; 8], 0, 0);
    while at < all.len() {
        if all[at].0 {
            letters[length] = all[at].1;
            length += 1;
        }
        at += 1;
    }
    letters
}
