//! The pages of a ring buffer, as the kernel handed them out: a time, how much of the page is used, and records with the
//! distance to the one before.

use super::header::{Codec, CpuData, PageLayout, Recording, read_at};
use crate::Progress;
use crate::tracepoint::Endian;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Pages that are read at once.
const PAGES_AT_ONCE: usize = 32;
/// trace-cmd compresses 40 KiB at once; more than this is no chunk of its.
pub const CHUNK_LIMIT: u32 = 16 << 20;

/// Types of records; smaller ones are sizes.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Flags beside the number of used bytes of a page.
const MISSED: u64 = 1 << 31;
const MISSED_COUNT: u64 = 1 << 30;

/// What comes next of a CPU; times are those of the trace's clock.
pub enum Next {
    /// A record: where its bytes are.
    Record { time: u64, raw: Range<usize> },
    /// Records are missing since then; 0 when the kernel does not say how many.
    Lost { time: u64, since: u64, records: u64 },
}

impl Next {
    pub fn time(&self) -> u64 {
        match *self {
            Next::Record { time, .. } | Next::Lost { time, .. } => time,
        }
    }
}

/// The pages of one CPU.
pub struct CpuPages<'a> {
    pub cpu: u32,
    file: &'a File,
    progress: Option<&'a Progress>,
    endian: Endian,
    layout: PageLayout,
    codec: Option<Codec>,
    /// What was not yet read.
    at: u64,
    left: u64,
    chunks: Option<u32>,
    /// Pages that were read; those from `page` on were not yet looked at.
    buffer: Vec<u8>,
    page: usize,
    /// The rest of the records of the current page.
    rest: Range<usize>,
    time: u64,
    /// Malformed records and pages.
    pub damaged: u64,
    /// Whether the file ends before its pages do.
    pub is_cut: bool,
}

impl<'a> CpuPages<'a> {
    /// The pages of a CPU of this recording.
    pub fn new(file: &'a File, recording: &Recording, cpu: CpuData, progress: Option<&'a Progress>) -> CpuPages<'a> {
        CpuPages {
            cpu: cpu.cpu,
            file,
            progress,
            endian: recording.endian,
            layout: recording.layout,
            codec: recording.codec.filter(|_| cpu.is_compressed),
            at: cpu.at,
            left: cpu.size,
            chunks: None,
            buffer: Vec::new(),
            page: 0,
            rest: 0..0,
            time: 0,
            damaged: 0,
            is_cut: false,
        }
    }

    /// The bytes of a record that came last.
    #[inline]
    pub fn bytes(&self, raw: &Range<usize>) -> &[u8] {
        self.buffer.get(raw.clone()).unwrap_or_default()
    }

    /// The next record; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> io::Result<Option<Next>> {
        loop {
            if self.rest.is_empty() {
                match self.next_page()? {
                    Page::None => return Ok(None),
                    Page::Some => {}
                    Page::Missed(lost) => return Ok(Some(lost)),
                }
                continue;
            }
            match self.record() {
                Some(Some(record)) => return Ok(Some(record)),
                Some(None) => {}
                None => {
                    self.damaged += 1;
                    self.rest = 0..0;
                }
            }
        }
    }

    /// Goes behind the next record: `Some(None)` if it holds only a time, `None` if it is malformed.
    #[inline]
    fn record(&mut self) -> Option<Option<Next>> {
        let page = &self.buffer[..self.rest.end];
        let start = self.rest.start;
        let word = self.endian.u32(page, start)?;
        // Bit fields count from the other end on a machine of the other byte order.
        let (kind, delta) = if self.endian.big { (word >> 27, word & 0x7ff_ffff) } else { (word & 31, word >> 5) };
        let (delta, second) = (u64::from(delta), || self.endian.u32(page, start + 4).map(u64::from));
        let raw = match kind {
            PADDING if delta == 0 => {
                self.rest.start = self.rest.end;
                return Some(None);
            }
            PADDING => {
                let length = usize::try_from(second()?).ok()?;
                self.time = self.time.wrapping_add(delta);
                self.rest.start = start.checked_add(4)?.checked_add(length)?.min(self.rest.end);
                return Some(None);
            }
            TIME_EXTEND => {
                self.time = self.time.wrapping_add((second()? << 27) + delta);
                self.rest.start = start + 8;
                return Some(None);
            }
            TIME_STAMP => {
                // The upper five bits are those of before.
                self.time = (self.time & !0 << 59) | ((second()? << 27) + delta) & !(!0 << 59);
                self.rest.start = start + 8;
                return Some(None);
            }
            0 => {
                let length = usize::try_from(second()?.checked_sub(4)?).ok()?;
                start + 8..start.checked_add(8)?.checked_add(length)?
            }
            words => start + 4..start + 4 + 4 * words as usize,
        };
        if raw.end > self.rest.end {
            return None;
        }
        self.time = self.time.wrapping_add(delta);
        self.rest.start = raw.end.next_multiple_of(4).min(self.rest.end);
        Some(Some(Next::Record { time: self.time, raw }))
    }

    fn next_page(&mut self) -> io::Result<Page> {
        let PageLayout { bytes, data_at, commit_bytes } = self.layout;
        while self.page + bytes > self.buffer.len() {
            if !self.fill()? {
                return Ok(Page::None);
            }
        }
        let page = &self.buffer[self.page..self.page + bytes];
        let word = |at: usize| match commit_bytes {
            4 => self.endian.u32(page, at).map(u64::from),
            _ => self.endian.u64(page, at),
        };
        let (time, commit) = (self.endian.u64(page, 0).unwrap_or(0), word(8).unwrap_or(0));
        let used = (commit & 0xf_ffff) as usize;
        let start = self.page + data_at;
        self.page += bytes;
        // The kernel writes a time even into an empty page.
        if used > bytes - data_at || time == 0 && commit == 0 {
            self.damaged += 1;
            return Ok(Page::Some);
        }
        let since = std::mem::replace(&mut self.time, time);
        self.rest = start..start + used;
        if commit & MISSED == 0 {
            return Ok(Page::Some);
        }
        // How many stands behind the last record, where there was room.
        let records = if commit & MISSED_COUNT != 0 { word(data_at + used).unwrap_or(0) } else { 0 };
        Ok(Page::Missed(Next::Lost { time, since: if since == 0 { time } else { since.min(time) }, records }))
    }

    /// Reads more pages; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        // A page is never cut by a chunk; a partial page is damage.
        self.buffer.clear();
        self.page = 0;
        let Some(codec) = self.codec else {
            let count = self.left.min((PAGES_AT_ONCE * self.layout.bytes) as u64);
            self.buffer = read_at(self.file, self.at, count)?;
            self.is_cut |= (self.buffer.len() as u64) < count;
            return Ok(self.advance(count));
        };
        if self.chunks.is_none() {
            let head = read_at(self.file, self.at, 4)?;
            self.chunks = Some(self.endian.u32(&head, 0).unwrap_or(0));
            self.advance(4);
        }
        let Some(chunks) = self.chunks.and_then(|chunks| chunks.checked_sub(1)) else { return Ok(false) };
        self.chunks = Some(chunks);
        let head = read_at(self.file, self.at, 8)?;
        let sizes = self.endian.u32(&head, 0).zip(self.endian.u32(&head, 4));
        let Some((packed, size)) = sizes.filter(|&(packed, size)| packed <= CHUNK_LIMIT && size <= CHUNK_LIMIT) else {
            self.is_cut |= sizes.is_none();
            self.damaged += u64::from(sizes.is_some());
            self.chunks = Some(0);
            return Ok(false);
        };
        let bytes = read_at(self.file, self.at + 8, u64::from(packed))?;
        if bytes.len() < packed as usize {
            (self.is_cut, self.chunks) = (true, Some(0));
            return Ok(false);
        }
        match codec.unpack(&bytes, size) {
            Some(pages) => self.buffer = pages,
            None => self.damaged += 1,
        }
        Ok(self.advance(8 + u64::from(packed)))
    }

    /// Goes on behind so many bytes; whether there were any.
    fn advance(&mut self, count: u64) -> bool {
        if let Some(progress) = self.progress {
            progress.done.fetch_add(count, Ordering::Relaxed);
        }
        self.at = self.at.saturating_add(count);
        self.left = self.left.saturating_sub(count);
        count > 0 && !(self.is_cut && self.buffer.is_empty())
    }
}

/// What became of the next page.
enum Page {
    Some,
    /// It is there, and records before it are missing.
    Missed(Next),
    None,
}
