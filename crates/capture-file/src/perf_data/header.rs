//! The header of a perf.data file, its attributes and its features.

use super::records::PAYLOAD_LIMIT;
use super::samples::Attr;
use crate::input::read_full;
use crate::tracepoint::Endian;
use crate::tracepoint::{Tracepoint, format};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

const MAGIC: [u8; 8] = *b"PERFILE2";
/// Magic and header size, which is all that a pipe starts with.
pub const PIPE_HEADER_BYTES: u64 = 16;
const HEADER_BYTES: usize = 104;
/// Attributes and identifiers beyond this are no recording's.
const ATTR_LIMIT: u64 = 4096;
const IDS_LIMIT: u64 = 1 << 20;
const FEATURE_BYTES_LIMIT: u64 = 1 << 20;

/// Feature bits of the header (and numbers of feature records in a pipe).
pub mod feature {
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const SAMPLE_TIME: u32 = 21;
    pub const CLOCK_DATA: u32 = 29;
}

/// The byte order that the magic shows; `None` when it is no perf.data.
pub fn byte_order(head: &[u8]) -> Option<Endian> {
    let magic: [u8; 8] = *head.first_chunk()?;
    let mut swapped = MAGIC;
    swapped.reverse();
    [(MAGIC, false), (swapped, true)].iter().find(|(known, _)| *known == magic).map(|&(_, big)| Endian { big })
}

/// What perf noted beside the records.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Host name.
    pub host: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Version of perf.
    pub perf_version: Option<String>,
    /// `x86_64`.
    pub arch: Option<String>,
    /// How perf was called.
    pub command: Option<String>,
    /// Names of the recorded events.
    pub event_names: Vec<String>,
    /// First and last time of a sample, when perf looked.
    pub sample_times: Option<(u64, u64)>,
    /// A clock, and a moment on the wall clock and on that clock, nanoseconds.
    pub clock: Option<(i32, u64, u64)>,
    /// What identifies the kernel that was recorded.
    pub kernel_build_id: Option<Vec<u8>>,
    /// What the kernel reported about tracepoints.
    pub tracepoints: Vec<Tracepoint>,
}

/// A text: its length with padding, then its bytes, zero padded. Returns the offset behind it too.
fn text(endian: Endian, bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let size = endian.u32(bytes, at)? as usize;
    let padded = bytes.get(at + 4..)?.get(..size)?;
    let text = String::from_utf8_lossy(crate::block_pairs::trimmed(padded)).into_owned();
    Some((text, at + 4 + size))
}

impl Notes {
    /// Takes in one feature; what is damaged in it is left out.
    pub fn add(&mut self, endian: Endian, number: u32, bytes: &[u8]) {
        let first_text = || text(endian, bytes, 0).map(|(text, _)| text);
        match number {
            feature::TRACING_DATA => self.tracepoints = format::parse(bytes),
            feature::BUILD_ID => self.kernel_build_id = kernel_build_id(endian, bytes),
            feature::HOSTNAME => self.host = first_text(),
            feature::OSRELEASE => self.kernel = first_text(),
            feature::VERSION => self.perf_version = first_text(),
            feature::ARCH => self.arch = first_text(),
            feature::CMDLINE => self.command = command(endian, bytes),
            feature::EVENT_DESC => self.event_names = event_names(endian, bytes),
            feature::SAMPLE_TIME => {
                let times = endian.u64(bytes, 0).zip(endian.u64(bytes, 8));
                self.sample_times = times.filter(|&(_, last)| last > 0);
            }
            feature::CLOCK_DATA => {
                let clock = endian.u32(bytes, 4).map(|clock| clock as i32);
                self.clock = (|| Some((clock?, endian.u64(bytes, 8)?, endian.u64(bytes, 16)?)))();
            }
            _ => {}
        }
    }
}

/// The identifier of the kernel's own image in a list of those of all files.
fn kernel_build_id(endian: Endian, mut bytes: &[u8]) -> Option<Vec<u8>> {
    const OF_KERNEL: u16 = 1;
    const HAS_SIZE: u16 = 1 << 15;
    loop {
        let (flags, size) = (endian.u16(bytes, 4)?, usize::from(endian.u16(bytes, 6)?));
        let name = bytes.get(36..size)?;
        if flags & 7 == OF_KERNEL && name.starts_with(b"[kernel.kallsyms]") {
            let length = if flags & HAS_SIZE != 0 { usize::from(*bytes.get(32)?) } else { 20 };
            return Some(bytes.get(12..32)?.get(..length)?.to_vec());
        }
        bytes = bytes.get(size.max(36)..)?;
    }
}

fn command(endian: Endian, bytes: &[u8]) -> Option<String> {
    let count = endian.u32(bytes, 0)?;
    let mut words = Vec::new();
    let mut at = 4;
    for _ in 0..count.min(4096) {
        let Some((word, next)) = text(endian, bytes, at) else { break };
        words.push(word);
        at = next;
    }
    Some(words.join(" "))
}

fn event_names(endian: Endian, bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let (Some(count), Some(attr_size)) = (endian.u32(bytes, 0), endian.u32(bytes, 4)) else { return names };
    let mut at = 8;
    for _ in 0..u64::from(count).min(ATTR_LIMIT) {
        let ids_at = at + attr_size as usize;
        let Some(ids) = endian.u32(bytes, ids_at) else { break };
        let Some((name, next)) = text(endian, bytes, ids_at + 4) else { break };
        names.push(name);
        at = next.saturating_add(8 * ids as usize);
    }
    names
}

/// A file's header.
#[derive(Debug)]
pub struct Header {
    /// What was recorded.
    pub attrs: Vec<Attr>,
    /// Where the records are: offset and length. To the end of the file when perf did not live to write the length.
    pub data: (u64, u64),
    /// Whether the length of the records was written.
    pub is_finished: bool,
    /// Whether the file ends before the features that the header announces.
    pub is_cut: bool,
    /// Everything else.
    pub notes: Notes,
}

/// Why a header cannot be used: the byte, and a sentence.
pub type Damage = (u64, String);

struct Bytes<'a> {
    file: &'a File,
    size: u64,
}

impl Bytes<'_> {
    /// Bytes of the file, fewer where it ends before.
    fn at(&mut self, offset: u64, count: u64) -> io::Result<Vec<u8>> {
        if offset >= self.size {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; count.min(self.size.saturating_sub(offset)) as usize];
        self.file.seek(SeekFrom::Start(offset))?;
        let got = read_full(&mut self.file.by_ref(), &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

impl Header {
    /// Reads the header of a file.
    pub fn read(file: &File, endian: Endian) -> io::Result<Result<Header, Damage>> {
        let size = file.metadata()?.len();
        let mut bytes = Bytes { file, size };
        let head = bytes.at(0, HEADER_BYTES as u64)?;
        let word = |at: usize| endian.u64(&head, at).unwrap_or(0);
        if head.len() < HEADER_BYTES {
            return Ok(Err((head.len() as u64, "The file ends within its header; record it again.".into())));
        }
        let (attr_size, attrs_at, attrs_bytes) = (word(16), word(24), word(32));
        let (data_at, data_bytes) = (word(40), word(48));
        if !(64..=4096).contains(&attr_size) || attrs_bytes / attr_size > ATTR_LIMIT || attrs_bytes < attr_size {
            return Ok(Err((16, "The header does not describe its events; the file is damaged.".into())));
        }
        let table = bytes.at(attrs_at, attrs_bytes)?;
        let mut attrs = Vec::new();
        let mut ids_left = IDS_LIMIT;
        for entry in table.chunks_exact(attr_size as usize) {
            let Some(mut attr) = Attr::parse(endian, entry) else { continue };
            let section = entry.len() - 16;
            let (at, length) = (endian.u64(entry, section).unwrap_or(0), endian.u64(entry, section + 8).unwrap_or(0));
            let length = length.min(8 * ids_left);
            ids_left -= length / 8;
            attr.ids = bytes.at(at, length)?.chunks_exact(8).filter_map(|id| endian.u64(id, 0)).collect();
            attrs.push(attr);
        }
        if attrs.is_empty() {
            return Ok(Err((attrs_at, "The file has no events; it is truncated or damaged.".into())));
        }
        if data_at > size {
            return Ok(Err((size, "The file ends before its first record; copy or record it again.".into())));
        }
        let is_finished = data_bytes > 0;
        let data_bytes = if is_finished { data_bytes } else { size.saturating_sub(data_at) };
        let mut header =
            Header { attrs, data: (data_at, data_bytes), is_finished, is_cut: false, notes: Notes::default() };
        if let Some(features_at) = data_at.checked_add(data_bytes).filter(|_| is_finished) {
            header.read_features(&mut bytes, endian, [72, 80, 88, 96].map(word), features_at)?;
        }
        Ok(Ok(header))
    }

    fn read_features(&mut self, bytes: &mut Bytes, endian: Endian, map: [u64; 4], mut at: u64) -> io::Result<()> {
        for number in 0..256 {
            if map[number / 64] >> (number % 64) & 1 == 0 {
                continue;
            }
            let section = bytes.at(at, 16)?;
            let (Some(offset), Some(length)) = (endian.u64(&section, 0), endian.u64(&section, 8)) else {
                self.is_cut = true;
                return Ok(());
            };
            self.is_cut |= offset.saturating_add(length) > bytes.size;
            let number = number as u32;
            let limit = if number == feature::TRACING_DATA { PAYLOAD_LIMIT } else { FEATURE_BYTES_LIMIT };
            if is_known(number) {
                let content = bytes.at(offset, length.min(limit))?;
                self.notes.add(endian, number, &content);
            }
            at = at.saturating_add(16);
        }
        Ok(())
    }
}

fn is_known(number: u32) -> bool {
    use feature::*;
    [TRACING_DATA, BUILD_ID, HOSTNAME, OSRELEASE, VERSION, ARCH, CMDLINE, EVENT_DESC, SAMPLE_TIME, CLOCK_DATA]
        .contains(&number)
}
