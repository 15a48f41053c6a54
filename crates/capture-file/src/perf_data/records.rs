//! The records of one stream, one after another: cut out of big chunks, decompressed where perf compressed them.

use crate::tracepoint::Endian;
use std::io::{self, Read};
use std::ops::Range;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Record types (`perf_event.h` up to 63, perf's own from 64).
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const KSYMBOL: u32 = 17;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Type, flags and size lead every record.
pub const HEAD: usize = 8;
/// More than the largest record (its size has 16 bits), so that one always fits.
const INFLATED_BYTES: usize = 256 * 1024;
/// The formats of all tracepoints of a kernel take about 4 MB.
pub const PAYLOAD_LIMIT: u64 = 64 << 20;

/// Why a stream ended before its end.
#[derive(Debug)]
pub enum Stop {
    /// It was cut in the middle of a record, at this byte.
    Cut(u64),
    /// What is at this byte is no record.
    Damaged(u64, &'static str),
    /// It cannot be read.
    Io(io::Error),
}

/// A stream of records.
pub struct Records<'a> {
    source: Box<dyn Read + 'a>,
    endian: Endian,
    /// Bytes of the stream that were not yet read from the source.
    left: u64,
    buffer: Vec<u8>,
    /// What of the buffer was not yet taken.
    ready: Range<usize>,
    /// Offset in the file of the byte after the buffer.
    offset: u64,
    inflate: Option<Inflate>,
}

/// perf makes one zstd stream of all compressed records, and cuts records anywhere between them.
struct Inflate {
    decoder: Decoder<'static>,
    /// What of the outer buffer is still to be decompressed.
    input: Range<usize>,
    output: Vec<u8>,
    ready: Range<usize>,
}

impl<'a> Records<'a> {
    /// The records in `length` bytes that start at `offset` of a file (where `source` stands), read in chunks.
    pub fn new(source: Box<dyn Read + 'a>, endian: Endian, offset: u64, length: u64, chunk: usize) -> Records<'a> {
        // A record must fit whole.
        let buffer = vec![0; chunk.max(2 * usize::from(u16::MAX))];
        Records { source, endian, left: length, buffer, ready: 0..0, offset, inflate: None }
    }

    /// Where in the file the next record starts.
    pub fn position(&self) -> u64 {
        self.offset - self.ready.len() as u64
    }

    /// Sees to it that `count` bytes are ready; false when the stream has not so many.
    fn fill(&mut self, count: usize) -> Result<bool, Stop> {
        if self.ready.len() >= count {
            return Ok(true);
        }
        self.buffer.copy_within(self.ready.clone(), 0);
        self.ready = 0..self.ready.len();
        while self.ready.end < self.buffer.len() && self.left > 0 {
            let room = (self.buffer.len() - self.ready.end).min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match self.source.read(&mut self.buffer[self.ready.end..][..room]) {
                Ok(0) => self.left = 0,
                Ok(got) => {
                    self.ready.end += got;
                    self.left -= got as u64;
                    self.offset += got as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Io(error)),
            }
        }
        Ok(self.ready.len() >= count)
    }

    /// The next record with its head; `None` at the end.
    // A call for each record costs 4 % of the whole reading, and with two callers the compiler no longer inlines it by itself.
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<(u32, &[u8])>, Stop> {
        let ready = &self.buffer[self.ready.clone()];
        if self.inflate.is_none()
            && let (Some(kind::SAMPLE), Some(size)) = (self.endian.u32(ready, 0), self.endian.u16(ready, 6))
            && (HEAD..=ready.len()).contains(&usize::from(size))
        {
            let start = self.ready.start;
            self.ready.start += usize::from(size);
            return Ok(Some((kind::SAMPLE, &self.buffer[start..self.ready.start])));
        }
        self.next_of_any_kind()
    }

    /// The same where it is not simply the next one in the buffer.
    fn next_of_any_kind(&mut self) -> Result<Option<(u32, &[u8])>, Stop> {
        loop {
            if let Some(inflate) = &mut self.inflate {
                if let Some(size) = whole_record(self.endian, &inflate.output[inflate.ready.clone()])
                    .map_err(|reason| Stop::Damaged(self.offset - self.ready.len() as u64, reason))?
                {
                    let start = inflate.ready.start;
                    inflate.ready.start += size;
                    // The borrow of the arm above ends before the record is handed out.
                    return Ok(self.inflate.as_ref().and_then(|inflate| {
                        let record = &inflate.output[start..start + size];
                        Some((self.endian.u32(record, 0)?, record))
                    }));
                }
                if !inflate.input.is_empty() {
                    inflate
                        .run(&self.buffer)
                        .map_err(|reason| Stop::Damaged(self.offset - self.ready.len() as u64, reason))?;
                    continue;
                }
            }
            if !self.fill(HEAD)? {
                let rest = self.inflate.as_ref().map_or(0, |inflate| inflate.ready.len()) + self.ready.len();
                return if rest == 0 { Ok(None) } else { Err(Stop::Cut(self.position())) };
            }
            let head = &self.buffer[self.ready.start..];
            let (Some(record_kind), Some(size)) = (self.endian.u32(head, 0), self.endian.u16(head, 6)) else {
                return Ok(None);
            };
            let size = usize::from(size);
            if size < HEAD {
                return Err(Stop::Damaged(self.position(), "a record that is smaller than its own header"));
            }
            if !self.fill(size)? {
                return Err(Stop::Cut(self.position()));
            }
            let start = self.ready.start;
            self.ready.start += size;
            match record_kind {
                kind::COMPRESSED => self.start_inflate(start + HEAD..start + size)?,
                kind::COMPRESSED2 => {
                    // Padded to eight bytes, so it has the true length of its data.
                    let data = self.endian.u64(&self.buffer[start..start + size], HEAD).unwrap_or(0);
                    let from = (start + HEAD + 8).min(start + size);
                    let to = from.saturating_add(usize::try_from(data).unwrap_or(usize::MAX)).min(start + size);
                    self.start_inflate(from..to)?;
                }
                kind::AUXTRACE => {
                    let skipped = self.endian.u64(&self.buffer[start..start + size], HEAD).unwrap_or(0);
                    self.skip(skipped)?;
                }
                _ => return Ok(Some((record_kind, &self.buffer[start..start + size]))),
            }
        }
    }

    fn start_inflate(&mut self, input: Range<usize>) -> Result<(), Stop> {
        if let Some(inflate) = &mut self.inflate {
            inflate.input = input;
            return Ok(());
        }
        let decoder = Decoder::new().map_err(Stop::Io)?;
        self.inflate = Some(Inflate { decoder, input, output: vec![0; INFLATED_BYTES], ready: 0..0 });
        Ok(())
    }

    /// Passes over bytes that follow a record.
    pub fn skip(&mut self, mut count: u64) -> Result<(), Stop> {
        while count > 0 {
            if !self.fill(1)? {
                return Err(Stop::Cut(self.position()));
            }
            let step = count.min(self.ready.len() as u64);
            self.ready.start += step as usize;
            count -= step;
        }
        Ok(())
    }

    /// The bytes that follow a record.
    pub fn payload(&mut self, count: u64) -> Result<Vec<u8>, Stop> {
        if count > PAYLOAD_LIMIT {
            return Err(Stop::Damaged(self.position(), "tracing data of an impossible size"));
        }
        let mut payload = Vec::new();
        while (payload.len() as u64) < count {
            if !self.fill(1)? {
                return Err(Stop::Cut(self.position()));
            }
            let step = (count - payload.len() as u64).min(self.ready.len() as u64) as usize;
            payload.extend_from_slice(&self.buffer[self.ready.start..][..step]);
            self.ready.start += step;
        }
        Ok(payload)
    }
}

impl Inflate {
    /// Decompresses as much as there is room for.
    fn run(&mut self, buffer: &[u8]) -> Result<(), &'static str> {
        self.output.copy_within(self.ready.clone(), 0);
        self.ready = 0..self.ready.len();
        let mut input = InBuffer::around(&buffer[self.input.clone()]);
        let mut output = OutBuffer::around_pos(&mut self.output[..], self.ready.end);
        self.decoder.run(&mut input, &mut output).map_err(|_| "compressed data that does not decompress")?;
        let (taken, end) = (input.pos(), output.pos());
        if taken == 0 && end == self.ready.end {
            return Err("compressed data that does not decompress");
        }
        self.input.start += taken;
        self.ready.end = end;
        Ok(())
    }
}

/// Size of the first record when all of it is there.
fn whole_record(endian: Endian, bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    let Some(size) = endian.u16(bytes, 6) else { return Ok(None) };
    let size = usize::from(size);
    if size < HEAD {
        return Err("a compressed record that is smaller than its own header");
    }
    Ok((size <= bytes.len()).then_some(size))
}
