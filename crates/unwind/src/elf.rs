//! What unwinding and naming need of an ELF file: where it is loaded, its unwind tables, its functions. Everything is read
//! by offset and length into memory of our own: a file that is truncated meanwhile gives an error, where a mapping would end
//! the program. 64-bit little-endian files only; others have neither names nor tables here.

use framehop::ExplicitModuleSectionInfo;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of one section; the largest programs known have 60 MB of names.
const LARGEST_SECTION: u64 = 128 << 20;
/// Functions of one file.
const MOST_SYMBOLS: usize = 4 << 20;
/// A function of assembly that does not state its length ends here at the latest, in bytes.
const LONGEST_UNSTATED: u64 = 4096;
/// Program headers and sections of one file.
const MOST_HEADERS: usize = 4096;

const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
const SHF_COMPRESSED: u64 = 0x800;
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;

/// Where the bytes of a module come from.
pub enum Source<'a> {
    /// A file.
    File(&'a File),
    /// Memory, for code that is in no file.
    Bytes(&'a [u8]),
}

impl Source<'_> {
    fn read(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(length)?;
        if length > LARGEST_SECTION {
            return None;
        }
        match self {
            Source::File(file) => {
                if end > file.metadata().ok()?.len() {
                    return None;
                }
                let mut bytes = vec![0; usize::try_from(length).ok()?];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(bytes)
            }
            Source::Bytes(bytes) => {
                Some(bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)?.to_vec())
            }
        }
    }
}

/// A part of the file that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where it is in the file.
    pub offset: u64,
    /// The address that the file states for it.
    pub address: u64,
    /// Bytes of it that come from the file.
    pub length: u64,
}

/// The functions of a file, by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Address, bytes (0: not stated), place of the name.
    functions: Vec<(u64, u64, u32)>,
    /// Names with a zero byte after each.
    names: Vec<u8>,
}

impl Symbols {
    /// Number and name of the function at this address.
    pub fn find(&self, address: u64) -> Option<(u32, &str)> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        // A function can lie inside another, such as the cold part of it.
        for index in (after.saturating_sub(4)..after).rev() {
            let (start, length, name) = self.functions[index];
            let inside = match length {
                0 => index + 1 == after && address - start < LONGEST_UNSTATED,
                _ => address - start < length,
            };
            if inside {
                let name = self.names.get(name as usize..)?;
                let end = name.iter().position(|&byte| byte == 0)?;
                return Some((u32::try_from(index).ok()?, std::str::from_utf8(&name[..end]).ok()?));
            }
        }
        None
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.functions.len() * size_of::<(u64, u64, u32)>() + self.names.len()
    }

    /// Whether there is no function.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// How an unwind table marks what the kernel calls, not the program.
const SIGNAL_FRAME: &[u8] = b"zRS\0";
/// The call `rt_sigreturn` of x86-64: `mov rax, 15; syscall`.
const SIGNAL_RETURN: &[u8] = b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05";

/// Where these bytes are among others.
fn holds(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// What is known of a file.
#[derive(Debug)]
pub struct Elf {
    /// What of it is loaded where.
    pub loads: Vec<Load>,
    /// Its unwind tables.
    pub sections: ExplicitModuleSectionInfo<Vec<u8>>,
    /// Its functions.
    pub symbols: Symbols,
    /// The address of the code to which handlers of signals return.
    pub signal_return: Option<u64>,
    /// Whether it has its full table of functions, and not just those that it exports.
    is_full: bool,
    /// Identifies the build; empty if the linker wrote none.
    pub build_id: Vec<u8>,
}

struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    length: u64,
    link: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

impl Elf {
    /// Reads it; `None` if it is not a file that we can read.
    pub fn read(source: &Source) -> Option<Elf> {
        let header = source.read(0, 64)?;
        if header[..6] != *b"\x7fELF\x02\x01" {
            return None;
        }
        let loads = loads(source, &header)?;
        let sections = sections(source, &header).unwrap_or_default();
        let names_at = usize::from(u16_at(&header, 62)?);
        let names = sections.get(names_at).and_then(|section| contents(source, section)).unwrap_or_default();
        let find = |wanted: &[u8]| {
            sections.iter().find(|section| {
                let name = names.get(section.name as usize..).unwrap_or_default();
                name.strip_prefix(wanted).is_some_and(|rest| rest.first() == Some(&0)) && section.kind != SHT_NOBITS
            })
        };
        let range = |section: &Section| -> Option<Range<u64>> {
            Some(section.address..section.address.checked_add(section.length)?)
        };
        let data = |name: &[u8]| find(name).and_then(|section| contents(source, section));
        let mut unwind = ExplicitModuleSectionInfo {
            base_svma: loads.iter().map(|load| load.address).min().unwrap_or(0),
            text_svma: find(b".text").and_then(range),
            got_svma: find(b".got").and_then(range),
            eh_frame_svma: find(b".eh_frame").and_then(range),
            eh_frame: data(b".eh_frame").filter(|bytes| bytes.len() > 8),
            eh_frame_hdr_svma: find(b".eh_frame_hdr").and_then(range),
            eh_frame_hdr: data(b".eh_frame_hdr"),
            ..Default::default()
        };
        if unwind.eh_frame.is_none() {
            unwind.debug_frame = data(b".debug_frame");
        }
        let mut symbols = Symbols::default();
        // The full table has everything that the dynamic one has.
        for kind in [SHT_SYMTAB, SHT_DYNSYM] {
            if symbols.is_empty()
                && let Some(table) = sections.iter().find(|section| section.kind == kind)
            {
                symbols = functions(source, table, &sections).unwrap_or_default();
            }
        }
        let marks_signals = unwind.eh_frame.as_ref().is_some_and(|table| holds(table, SIGNAL_FRAME).is_some());
        let signal_return = find(b".text").filter(|_| marks_signals).and_then(|text| {
            let at = holds(&contents(source, text)?, SIGNAL_RETURN)?;
            text.address.checked_add(at as u64)
        });
        let build_id = data(b".note.gnu.build-id").and_then(|note| Some(note.get(16..36.min(note.len()))?.to_vec()));
        let is_full = sections.iter().any(|section| section.kind == SHT_SYMTAB);
        Some(Elf { is_full, loads, sections: unwind, symbols, signal_return, build_id: build_id.unwrap_or_default() })
    }
}

fn loads(source: &Source, header: &[u8]) -> Option<Vec<Load>> {
    let (offset, size, count) =
        (u64_at(header, 32)?, usize::from(u16_at(header, 54)?), usize::from(u16_at(header, 56)?));
    if size < 56 || count > MOST_HEADERS {
        return None;
    }
    let bytes = source.read(offset, (size * count) as u64)?;
    let mut loads = Vec::new();
    for header in bytes.chunks_exact(size) {
        if u32_at(header, 0)? == PT_LOAD {
            loads.push(Load { offset: u64_at(header, 8)?, address: u64_at(header, 16)?, length: u64_at(header, 32)? });
        }
    }
    Some(loads)
}

fn sections(source: &Source, header: &[u8]) -> Option<Vec<Section>> {
    let (offset, size, count) =
        (u64_at(header, 40)?, usize::from(u16_at(header, 58)?), usize::from(u16_at(header, 60)?));
    if size < 64 || count > MOST_HEADERS {
        return None;
    }
    let bytes = source.read(offset, (size * count) as u64)?;
    let section = |header: &[u8]| {
        Some(Section {
            name: u32_at(header, 0)?,
            kind: u32_at(header, 4)?,
            flags: u64_at(header, 8)?,
            address: u64_at(header, 16)?,
            offset: u64_at(header, 24)?,
            length: u64_at(header, 32)?,
            link: u32_at(header, 40)?,
        })
    };
    bytes.chunks_exact(size).map(section).collect()
}

/// The bytes of a section, inflated if they are compressed, as Go does it.
fn contents(source: &Source, section: &Section) -> Option<Vec<u8>> {
    if section.kind == SHT_NOBITS {
        return None;
    }
    let bytes = source.read(section.offset, section.length)?;
    if section.flags & SHF_COMPRESSED == 0 {
        return Some(bytes);
    }
    let (kind, length) = (u32_at(&bytes, 0)?, u64_at(&bytes, 8)?);
    if kind != 1 || length > LARGEST_SECTION {
        return None;
    }
    let mut inflated = Vec::new();
    flate2::read::ZlibDecoder::new(&bytes[24.min(bytes.len())..]).take(length).read_to_end(&mut inflated).ok()?;
    (inflated.len() as u64 == length).then_some(inflated)
}

fn functions(source: &Source, table: &Section, sections: &[Section]) -> Option<Symbols> {
    let names = contents(source, sections.get(table.link as usize)?)?;
    let entries = contents(source, table)?;
    let mut functions = Vec::new();
    for entry in entries.chunks_exact(24) {
        let (name, information, section) = (u32_at(entry, 0)?, entry[4], u16_at(entry, 6)?);
        let kind = information & 15;
        let (address, length) = (u64_at(entry, 8)?, u64_at(entry, 16)?);
        let is_code = matches!(kind, STT_FUNC | STT_GNU_IFUNC)
            // Assembly does not always state its functions.
            || kind == STT_NOTYPE && names.get(name as usize).is_some_and(|&first| !matches!(first, 0 | b'$' | b'.'));
        if is_code && section != 0 && section < 0xff00 && (name as usize) < names.len() {
            // Of several names of a function, the global one (binding 1), then the one that is stated as a function.
            functions.push((address, length, name, (information >> 4 != 1, kind == STT_NOTYPE, length == 0)));
            if functions.len() > MOST_SYMBOLS {
                return None;
            }
        }
    }
    functions.sort_unstable_by_key(|&(address, _, name, rank)| (address, rank, name));
    functions.dedup_by_key(|function| function.0);
    // Collected in place, they would keep the room of what was dropped.
    let mut functions: Vec<_> =
        functions.into_iter().map(|(address, length, name, _)| (address, length, name)).collect();
    functions.shrink_to_fit();
    Some(Symbols { functions, names })
}

impl Elf {
    /// For a stripped file: functions, and tables if it has none, from the file of the distribution with what was stripped.
    pub fn add_debug_file(&mut self) {
        let Some((first, rest)) = self.build_id.split_first().filter(|_| !self.is_full) else { return };
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
        if let Ok(file) = File::open(path)
            && let Some(other) = Elf::read(&Source::File(&file))
            && other.build_id == self.build_id
        {
            if !other.symbols.is_empty() {
                self.symbols = other.symbols;
            }
            if self.sections.eh_frame.is_none() && self.sections.debug_frame.is_none() {
                self.sections.debug_frame = other.sections.debug_frame;
            }
        }
    }
}
