//! What stands before the pages: the layout of records, names of threads, and where the pages of each CPU are.

use crate::block_pairs::padded;
use crate::input::read_full;
use crate::tracepoint::format::{self, Cursor};
use crate::tracepoint::{Endian, Tracepoint};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// The formats of all tracepoints and the symbols of a kernel take less.
const HEAD_LIMIT: u64 = 64 << 20;
/// More than any recording has.
const OPTIONS_LIMIT: usize = 4096;
const SECTIONS_LIMIT: usize = 64;
const CPUS_LIMIT: u32 = 8192;
const THREADS_LIMIT: usize = 1 << 18;

/// Numbers of options, which are those of the sections that they are about.
mod option {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPU_STATISTICS: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const CLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const HEADERS: u16 = 16;
    pub const EVENT_FORMATS: u16 = 18;
    pub const THREADS: u16 = 21;
}

/// Why a file cannot be used: the byte, and a sentence.
pub type Damage = (u64, String);

/// How sections are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    Zstd,
    Zlib,
}

impl Codec {
    /// What was compressed, if it has this size.
    pub fn unpack(self, packed: &[u8], size: u32) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = u64::from(size) + 1;
        match self {
            Codec::Zstd => zstd::Decoder::new(packed).ok()?.take(limit).read_to_end(&mut bytes),
            Codec::Zlib => flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut bytes),
        }
        .ok()?;
        (bytes.len() == size as usize).then_some(bytes)
    }
}

/// How a page lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageLayout {
    /// Its size.
    pub bytes: usize,
    /// Where its records start.
    pub data_at: usize,
    /// Size of the word that says how much of it is used: that of a long.
    pub commit_bytes: usize,
}

/// Where the pages of a CPU are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuData {
    pub cpu: u32,
    pub at: u64,
    pub size: u64,
    pub is_compressed: bool,
}

/// All of a file but its pages.
#[derive(Debug)]
pub struct Recording {
    pub endian: Endian,
    pub layout: PageLayout,
    pub codec: Option<Codec>,
    pub tracepoints: Vec<Tracepoint>,
    /// Names of threads.
    pub comms: Vec<(i32, [u8; 16])>,
    pub cpus: Vec<CpuData>,
    /// Name of the clock.
    pub clock: Option<String>,
    /// Kernel, host, release and machine, with blanks between.
    pub uname: String,
    /// What to add to times: to Unix time where `has_date`.
    pub shift_ns: i64,
    pub has_date: bool,
    /// Records that the kernel counted as lost.
    pub lost: u64,
}

/// Bytes of the file, fewer where it ends before.
pub fn read_at(file: &File, at: u64, count: u64) -> io::Result<Vec<u8>> {
    /// Reads on from an offset without moving the file's own.
    struct From<'a>(&'a File, u64);
    impl Read for From<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read_at(buffer, self.1)?;
            self.1 = self.1.saturating_add(count as u64);
            Ok(count)
        }
    }
    // A size that is made up must not take memory.
    let size = file.metadata()?.len();
    let mut bytes = vec![0; count.min(size.saturating_sub(at)).min(HEAD_LIMIT) as usize];
    let got = read_full(&mut From(file, at), &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

impl Recording {
    /// Reads all but the pages.
    pub fn read(file: &File) -> io::Result<Result<Recording, Damage>> {
        let head = read_at(file, 0, 4096)?;
        let mut cursor = Cursor { endian: Endian { big: false }, bytes: &head };
        let start = (|| {
            cursor.take(super::MAGIC.len())?;
            let version = cursor.text()?.to_vec();
            cursor.endian.big = cursor.take(1)? == [1];
            let (long, page) = (cursor.take(1)?[0], cursor.u32()?);
            Some((version, long, page))
        })();
        let Some((version, long, page)) = start else { return Ok(Err(cut(file)?)) };
        let commit_bytes = if long == 4 { 4 } else { 8 };
        if !page.is_power_of_two() || !(256..=1 << 20).contains(&page) {
            return Ok(Err((0, "The header gives no size of pages; the file is damaged.".into())));
        }
        let recording = Recording {
            endian: cursor.endian,
            layout: PageLayout { bytes: page as usize, data_at: 8 + commit_bytes, commit_bytes },
            codec: None,
            tracepoints: Vec::new(),
            comms: Vec::new(),
            cpus: Vec::new(),
            clock: None,
            uname: String::new(),
            shift_ns: 0,
            has_date: false,
            lost: 0,
        };
        match &version[..] {
            b"6" => recording.version_6(file, head.len() - cursor.bytes.len()),
            b"7" => {
                let rest = (|| Some((cursor.text()?.to_vec(), cursor.text()?, cursor.u64()?)))();
                let Some((codec, _, options_at)) = rest else { return Ok(Err(cut(file)?)) };
                recording.version_7(file, &codec, options_at)
            }
            _ => Ok(Err((
                super::MAGIC.len() as u64,
                "Only versions 6 and 7 of trace.dat can be read; print it with the trace-cmd that recorded it (trace-cmd \
                 report), and read the text."
                    .into(),
            ))),
        }
    }

    /// Everything in turn, then the table of CPUs.
    fn version_6(mut self, file: &File, start: usize) -> io::Result<Result<Recording, Damage>> {
        let mut size = 1 << 20;
        loop {
            let bytes = read_at(file, 0, size)?;
            let mut cursor = Cursor { endian: self.endian, bytes: bytes.get(start..).unwrap_or_default() };
            self.tracepoints.clear();
            self.comms.clear();
            match self.all_in_turn(&mut cursor) {
                Some(true) => return Ok(Ok(self)),
                Some(false) => {
                    let at = (bytes.len() - cursor.bytes.len()) as u64;
                    let message =
                        "The file has no events, or the text of a latency tracer; record with trace-cmd record.";
                    return Ok(Err((at, message.into())));
                }
                None if (bytes.len() as u64) < size || size >= HEAD_LIMIT => return Ok(Err(cut(file)?)),
                None => size *= 8,
            }
        }
    }

    /// `None` where more bytes are needed, false where there are no pages.
    fn all_in_turn(&mut self, cursor: &mut Cursor) -> Option<bool> {
        self.page_header(cursor)?;
        for _ in 0..cursor.count()? {
            cursor.block()?; // ftrace's own events
        }
        format::systems(cursor, &mut self.tracepoints)?;
        for _ in 0..2 {
            let length = cursor.u32()?; // symbols, then formats of printk
            cursor.take(length as usize)?;
        }
        let threads = cursor.block()?;
        self.threads(threads);
        let cpus = cursor.u32().filter(|&cpus| cpus <= CPUS_LIMIT)?;
        let mut section = cursor.take(10)?;
        if section == b"options  \0" {
            for _ in 0..OPTIONS_LIMIT {
                let number = cursor.u16()?;
                if number == option::DONE {
                    break;
                }
                let length = cursor.u32()?;
                let data = cursor.take(length as usize)?;
                self.take_option(number, data);
            }
            section = cursor.take(10)?;
        }
        if section != b"flyrecord\0" {
            return Some(false);
        }
        for cpu in 0..cpus {
            let (at, size) = (cursor.u64()?, cursor.u64()?);
            self.cpus.push(CpuData { cpu, at, size, is_compressed: false });
        }
        Some(true)
    }

    /// Options that lead to sections.
    fn version_7(mut self, file: &File, codec: &[u8], mut options_at: u64) -> io::Result<Result<Recording, Damage>> {
        self.codec = match codec {
            b"zstd" => Some(Codec::Zstd),
            b"zlib" => Some(Codec::Zlib),
            _ => None,
        };
        if options_at == 0 {
            let message = "The recording is incomplete (trace-cmd was killed): the list of its parts is missing; stop \
                           trace-cmd with Ctrl-C.";
            return Ok(Err((0, message.into())));
        }
        let mut sections = 0;
        while options_at > 0 && sections < SECTIONS_LIMIT {
            sections += 1;
            let Some(options) = self.section(file, options_at)? else { return Ok(Err(cut(file)?)) };
            let mut cursor = Cursor { endian: self.endian, bytes: &options };
            options_at = 0;
            while let Some((number, data)) = (|| {
                let (number, length) = (cursor.u16()?, cursor.u32()?);
                Some((number, cursor.take(length as usize)?))
            })() {
                match number {
                    option::DONE => {
                        options_at = self.endian.u64(data, 0).unwrap_or(0);
                        break;
                    }
                    option::BUFFER => self.buffer(file, data)?,
                    option::HEADERS | option::EVENT_FORMATS | option::THREADS => {
                        let at = self.endian.u64(data, 0).unwrap_or(0);
                        let Some(content) = self.section(file, at)? else { return Ok(Err(cut(file)?)) };
                        let cursor = &mut Cursor { endian: self.endian, bytes: &content };
                        match number {
                            option::HEADERS => drop(self.page_header(cursor)),
                            option::EVENT_FORMATS => drop(format::systems(cursor, &mut self.tracepoints)),
                            _ => cursor.block().into_iter().for_each(|threads| self.threads(threads)),
                        }
                    }
                    number => self.take_option(number, data),
                }
            }
        }
        if self.cpus.is_empty() {
            let message = "The file has no events, or its end is missing; copy or record it again.";
            return Ok(Err((file.metadata()?.len(), message.into())));
        }
        Ok(Ok(self))
    }

    /// The content of a section, unpacked; `None` where it is cut or damaged.
    fn section(&self, file: &File, at: u64) -> io::Result<Option<Vec<u8>>> {
        let head = read_at(file, at, 16)?;
        let fields = self.endian.u16(&head, 2).zip(self.endian.u64(&head, 8));
        let Some((flags, size)) = fields.filter(|&(_, size)| size <= HEAD_LIMIT) else { return Ok(None) };
        let bytes = read_at(file, at.saturating_add(16), size)?;
        if (bytes.len() as u64) < size {
            return Ok(None);
        }
        if flags & 1 == 0 {
            return Ok(Some(bytes));
        }
        let unpacked = || {
            let (packed, size) = (self.endian.u32(&bytes, 0)?, self.endian.u32(&bytes, 4)?);
            let packed = bytes.get(8..)?.get(..packed as usize)?;
            self.codec?.unpack(packed, Some(size).filter(|&size| u64::from(size) <= HEAD_LIMIT)?)
        };
        Ok(unpacked())
    }

    /// The pages of a buffer. The main one is first; those of instances (`-B`) are of other events.
    fn buffer(&mut self, file: &File, data: &[u8]) -> io::Result<()> {
        let mut cursor = Cursor { endian: self.endian, bytes: data };
        let head = (|| {
            let section = cursor.u64()?;
            cursor.text()?; // name
            Some((section, String::from_utf8_lossy(cursor.text()?).into_owned(), cursor.u32()?, cursor.u32()?))
        })();
        let Some((section, clock, page, cpus)) = head else { return Ok(()) };
        if self.cpus.iter().any(|cpu| cpu.size > 0) || cpus > CPUS_LIMIT {
            return Ok(());
        }
        self.cpus.clear();
        let head = read_at(file, section, 4)?;
        let is_compressed = self.endian.u16(&head, 2).is_some_and(|flags| flags & 1 == 1);
        if page.is_power_of_two() && (256..=1 << 20).contains(&page) {
            self.layout.bytes = page as usize;
        }
        self.clock = Some(clock).filter(|clock| !clock.is_empty());
        for _ in 0..cpus {
            let cpu = (|| Some((cursor.u32()?, cursor.u64()?, cursor.u64()?)))();
            self.cpus.extend(cpu.map(|(cpu, at, size)| CpuData { cpu, at, size, is_compressed }));
        }
        Ok(())
    }

    /// The kernel's description of a page: where its records start.
    fn page_header(&mut self, cursor: &mut Cursor) -> Option<()> {
        cursor.take(b"header_page\0".len())?;
        let text = format!("ID:0\n{}", String::from_utf8_lossy(cursor.block()?));
        let page = format::tracepoint("", &text)?;
        let used = page.field("commit").filter(|commit| [4, 8].contains(&commit.size));
        if let (Some(commit), Some(data)) = (used, page.field("data"))
            && usize::from(data.at) < self.layout.bytes
        {
            (self.layout.commit_bytes, self.layout.data_at) = (usize::from(commit.size), usize::from(data.at));
        }
        cursor.take(b"header_event\0".len())?;
        cursor.block()?;
        Some(())
    }

    /// `35 kworker/u8:2` in each line.
    fn threads(&mut self, text: &[u8]) {
        let line = |line: &[u8]| {
            let blank = memchr::memchr(b' ', line)?;
            Some((std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?, padded(line[blank + 1..].trim_ascii())))
        };
        self.comms.extend(text.split(|&byte| byte == b'\n').filter_map(line).take(THREADS_LIMIT));
    }

    pub fn take_option(&mut self, number: u16, data: &[u8]) {
        let text = String::from_utf8_lossy(crate::block_pairs::trimmed(data)).trim().to_string();
        let hexadecimal = |text: &str| i64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let number_of = |text: &str| hexadecimal(text).or_else(|| text.parse().ok());
        match number {
            // How far the wall clock is ahead, in microseconds.
            option::DATE => {
                if let Some(shift_us) = number_of(&text).filter(|&shift_us| shift_us != 0) {
                    self.shift_ns = self.shift_ns.saturating_add(shift_us.saturating_mul(1000));
                    self.has_date = true;
                }
            }
            option::OFFSET => self.shift_ns = self.shift_ns.saturating_add(number_of(&text).unwrap_or(0)),
            option::UNAME => self.uname = text.chars().take(4096).collect(),
            option::CLOCK if self.clock.is_none() => {
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                self.clock = chosen.map(|(clock, _)| clock.to_string());
            }
            option::CPU_STATISTICS => {
                let names = ["overrun", "commit overrun", "dropped events"];
                let lines = text.lines().filter_map(|line| line.split_once(':'));
                let counts = lines.filter(|(name, _)| names.contains(&name.trim()));
                let lost = counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok());
                self.lost = lost.fold(self.lost, u64::saturating_add);
            }
            _ => {}
        }
    }
}

fn cut(file: &File) -> io::Result<Damage> {
    Ok((
        file.metadata()?.len(),
        "The file is truncated or damaged before its first event; copy or record it again.".into(),
    ))
}
