//! The blocks of a capture, one after another: type, length, body, and the length again, as in pcapng.

use super::bytes::Bytes;
use std::io::{self, Read};
use std::ops::Range;

/// Types of blocks. Old ones have their type by the place in the source of sysdig, later ones by number.
pub mod kind {
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const MACHINE: [u32; 2] = [0x201, 0x8002_abcd];
    pub const FDS: [u32; 3] = [0x203, 0x218, 0x8001_abcd];
    pub const FDS_WITH_LENGTHS: u32 = 0x218;
    pub const INTERFACES: [u32; 3] = [0x205, 0x219, 0x8011_abcd];
    pub const USERS: [u32; 3] = [0x206, 0x220, 0x8012_abcd];
    pub const USERS_WITH_LENGTHS: u32 = 0x220;

    /// Which version of the process list a block is, from 1; `None` for other blocks.
    pub fn process_list(kind: u32) -> Option<u32> {
        Some(match kind {
            0x202 | 0x8000_abcd => 1,
            0x207 | 0x8013_abcd => 2,
            0x209 | 0x8014_abcd => 3,
            0x210..=0x215 => kind - 0x210 + 4,
            _ => return None,
        })
    }

    /// How an event block is laid out; `None` for other blocks.
    pub fn event(kind: u32) -> Option<super::Layout> {
        let layout = |has_flags, has_count, is_large| super::Layout { has_flags, has_count, is_large };
        Some(match kind {
            0x216 => layout(false, true, false),
            0x204 | 0x8010_abcd => layout(false, false, false),
            0x217 => layout(true, true, false),
            0x208 => layout(true, false, false),
            0x221 => layout(false, true, true),
            0x222 => layout(true, true, true),
            _ => return None,
        })
    }

    /// Whether a block of this type occurs in captures, and only there.
    pub fn is_known(kind: u32) -> bool {
        (0x201..=0x222).contains(&kind) || kind & 0xffff == 0xabcd && kind >> 24 == 0x80
    }
}

/// What the body of an event block has in front of the event and in it.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Flags follow the CPU.
    pub has_flags: bool,
    /// The number of parameters is in the header.
    pub has_count: bool,
    /// Lengths of parameters have four bytes.
    pub is_large: bool,
}

/// What frames a block: type and length, and the length again.
pub const FRAME: usize = 12;
/// Where the body starts.
const BODY: usize = 8;
/// The list of all processes of a large host has a few megabytes.
const LONGEST: usize = 64 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Why there are no more blocks before the end.
#[derive(Debug)]
pub enum Stop {
    /// The file was cut in the middle of the block at this byte.
    Cut(u64),
    /// What is at this byte is no block.
    Damaged(u64, &'static str),
    /// The file cannot be read.
    Io(io::Error),
}

/// A block without its frame.
#[derive(Clone, Copy)]
pub struct Block<'b> {
    pub kind: u32,
    pub body: &'b [u8],
}

/// A stream of blocks.
pub struct Blocks<R> {
    source: R,
    buffer: Vec<u8>,
    /// What of the buffer was not yet taken.
    ready: Range<usize>,
    /// Offset in the file of the byte after the buffer.
    offset: u64,
}

impl<R: Read> Blocks<R> {
    /// The blocks of a file, from its start.
    pub fn new(source: R) -> Blocks<R> {
        Blocks { source, buffer: vec![0; CHUNK_BYTES], ready: 0..0, offset: 0 }
    }

    /// Where in the file the next block starts.
    pub fn position(&self) -> u64 {
        self.offset - self.ready.len() as u64
    }

    /// Sees to it that `count` bytes are ready; false when the file has not so many.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<bool, Stop> {
        self.buffer.copy_within(self.ready.clone(), 0);
        self.ready = 0..self.ready.len();
        // A block that is longer than the buffer is believed only as far as the file has it.
        while self.ready.len() < count {
            if self.ready.end == self.buffer.len() {
                self.buffer.resize((self.buffer.len() * 2).min(LONGEST + CHUNK_BYTES), 0);
            }
            match self.source.read(&mut self.buffer[self.ready.end..]) {
                Ok(0) => return Ok(false),
                Ok(got) => {
                    self.ready.end += got;
                    self.offset += got as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Io(error)),
            }
        }
        Ok(true)
    }

    /// Whether another block, or the end, follows so many bytes: then the first length is right, and the one at the end damaged.
    #[cold]
    fn goes_on_after(&mut self, length: usize) -> Result<bool, Stop> {
        if !self.fill(length + BODY)? {
            return Ok(self.ready.len() == length);
        }
        let mut next = Bytes(&self.buffer[self.ready.start + length..self.ready.end]);
        let (kind, length) = (next.u32().unwrap_or(0), next.u32().unwrap_or(0) as usize);
        Ok((kind::is_known(kind) || kind == kind::SECTION) && (FRAME..=LONGEST).contains(&length))
    }

    /// The next block; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Block<'_>>, Stop> {
        if self.ready.len() < BODY && !self.fill(BODY)? {
            return if self.ready.is_empty() { Ok(None) } else { Err(Stop::Cut(self.position())) };
        }
        let mut head = Bytes(&self.buffer[self.ready.clone()]);
        let (Some(kind), Some(length)) = (head.u32(), head.u32()) else { return Ok(None) };
        let length = length as usize;
        if !(FRAME..=LONGEST).contains(&length) {
            return Err(Stop::Damaged(self.position(), "a block of an impossible length"));
        }
        if self.ready.len() < length && !self.fill(length)? {
            return Err(Stop::Cut(self.position()));
        }
        let whole = self.ready.start..self.ready.start + length;
        if self.buffer[whole.end - 4..whole.end] != (length as u32).to_le_bytes() && !self.goes_on_after(length)? {
            return Err(Stop::Damaged(self.position(), "a block whose two lengths differ"));
        }
        // Looking further may have moved it.
        let whole = self.ready.start..self.ready.start + length;
        self.ready.start = whole.end;
        let whole = &self.buffer[whole];
        Ok(Some(Block { kind, body: &whole[BODY..length - 4] }))
    }
}
