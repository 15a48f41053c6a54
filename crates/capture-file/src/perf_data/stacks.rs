//! Call chains of samples: the frames of addresses, by the mappings of each process, and the kernel's by the symbols of this machine
//! where it is the kernel that was recorded.

use super::header::Notes;
use super::records::{HEAD, kind};
use crate::tracepoint::Endian;
use hashbrown::HashMap;
use latscope_event::{FrameKind, push_frame};
use std::collections::BTreeMap;
use std::rc::Rc;

/// More frames than a sample has: the kernel records 127 unless told otherwise.
const FRAMES_LIMIT: usize = 4096;
/// More processes and mappings than are worth remembering.
const PROCESSES_LIMIT: usize = 1 << 16;
const MAPPINGS_LIMIT: usize = 1 << 20;
/// Addresses from here on say whose code follows.
const CONTEXT_FROM: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const KERNEL_FROM: u64 = 1 << 63;
/// A mapping that is no code (`PERF_RECORD_MISC_MMAP_DATA`).
const IS_DATA: u16 = 1 << 13;
/// A function of the kernel that is gone from now on (`PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`).
const IS_GONE: u16 = 1;
/// The process of the kernel's own mappings.
const KERNEL: i32 = -1;

/// Code of a file, in the memory of a process.
#[derive(Clone, Debug)]
struct Mapping {
    end: u64,
    offset: u64,
    name: Rc<str>,
}

type Mappings = BTreeMap<u64, Mapping>;

/// A chain of addresses of a process, or a record of what its memory has from now on, until it is their turn in the order of time.
#[derive(Default)]
struct Kept {
    kind: u32,
    pid: i32,
    bytes: Vec<u8>,
}

/// So many bytes are kept, above what is held back for sorting anyway.
const KEPT_BYTES: usize = 128 << 20;

/// What is known of the memory of all processes so far.
#[derive(Default)]
pub struct Stacks {
    kept: Vec<Kept>,
    free: Vec<u32>,
    kept_bytes: usize,
    processes: HashMap<i32, Rc<Mappings>>,
    count: usize,
    kernel: Option<Symbols>,
    /// Code that the kernel had for a while: the end and the name of each BPF program that is loaded at this point of the trace.
    loaded: BTreeMap<u64, (u64, Box<str>)>,
    text: String,
}

impl Stacks {
    /// Keeps a chain (with [`kind::SAMPLE`]) or a record, and returns where.
    pub fn keep(&mut self, kind: u32, pid: i32, bytes: &[u8]) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.kept.push(Kept::default());
            self.kept.len() as u32 - 1
        });
        let kept = &mut self.kept[slot as usize];
        (kept.kind, kept.pid) = (kind, pid);
        kept.bytes.clear();
        kept.bytes.extend_from_slice(bytes);
        self.kept_bytes += bytes.len();
        slot
    }

    /// Whether it is time to let some of it go.
    pub fn is_full(&self) -> bool {
        self.kept_bytes >= KEPT_BYTES
    }

    /// Takes what was kept out again: a record is obeyed, of a chain the text is returned.
    pub fn take(&mut self, slot: u32, endian: Endian, notes: &Notes) -> &str {
        let Some(kept) = self.kept.get_mut(slot as usize) else { return "" };
        let Kept { kind, pid, bytes } = std::mem::take(kept);
        self.kept_bytes -= bytes.len();
        self.text.clear();
        if kind == kind::SAMPLE {
            self.text(endian, &bytes, pid, notes);
        } else {
            self.obey(endian, kind, &bytes);
        }
        self.kept[slot as usize].bytes = bytes;
        self.free.push(slot);
        &self.text
    }

    /// Takes a record of what a process has in memory. One that makes no sense changes nothing.
    pub fn obey(&mut self, endian: Endian, kind: u32, record: &[u8]) {
        let word = |at: usize| endian.u32(record, HEAD + at).map(|word| word as i32);
        match kind {
            kind::MMAP | kind::MMAP2 => drop(self.map(endian, record, kind == kind::MMAP2)),
            kind::KSYMBOL => drop(self.load(endian, record)),
            kind::FORK => {
                if let (Some(pid), Some(parent)) = (word(0), word(4)) {
                    self.fork(pid, parent);
                }
            }
            _ => {}
        }
    }

    /// Takes a mapping: `PERF_RECORD_MMAP`, or `MMAP2` with what identifies the file.
    fn map(&mut self, endian: Endian, record: &[u8], is_second: bool) -> Option<()> {
        let flags = endian.u16(record, 4)?;
        let pid = endian.u32(record, HEAD)? as i32;
        let [start, length, offset] = [8, 16, 24].map(|at| endian.u64(record, HEAD + at));
        let (start, length, offset) = (start?, length?, offset?);
        let name = record.get(HEAD + if is_second { 64 } else { 32 }..)?;
        let name = String::from_utf8_lossy(crate::block_pairs::trimmed(name)).into_owned();
        if flags & IS_DATA != 0 || length == 0 || self.count >= MAPPINGS_LIMIT || !self.has_room(pid) {
            return None;
        }
        self.count += 1;
        let end = start.saturating_add(length);
        let mappings = Rc::make_mut(self.processes.entry(pid).or_default());
        // It takes the place of what was there. Nothing else does: while a program is being loaded, the thread still is in the call of
        // the one before (and perf script says so).
        let covered: Vec<u64> = mappings.range(start..end).map(|(&at, _)| at).collect();
        covered.iter().for_each(|at| drop(mappings.remove(at)));
        let before = mappings.range_mut(..start).next_back().filter(|(_, before)| before.end > start);
        let rest = before.map(|(&at, before)| {
            let rest = Mapping { offset: before.offset.wrapping_add(end.wrapping_sub(at)), ..before.clone() };
            before.end = start;
            rest
        });
        if let Some(rest) = rest.filter(|rest| rest.end > end) {
            mappings.insert(end, rest);
        }
        mappings.insert(start, Mapping { end, offset, name: name.into() });
        Some(())
    }

    /// Takes a BPF program, or forgets it: another may get its address.
    fn load(&mut self, endian: Endian, record: &[u8]) -> Option<()> {
        let (start, length) = (endian.u64(record, HEAD)?, endian.u32(record, HEAD + 8)?);
        let flags = endian.u16(record, HEAD + 14)?;
        let name = String::from_utf8_lossy(crate::block_pairs::trimmed(record.get(HEAD + 16..)?));
        if flags & IS_GONE != 0 {
            self.loaded.remove(&start);
        } else if !name.is_empty() && (self.loaded.len() < MAPPINGS_LIMIT || self.loaded.contains_key(&start)) {
            self.loaded.insert(start, (start.saturating_add(length.into()), name.into()));
        }
        Some(())
    }

    /// A process starts with the memory of its parent.
    fn fork(&mut self, pid: i32, parent: i32) {
        if pid != parent
            && self.has_room(pid)
            && let Some(mappings) = self.processes.get(&parent).cloned()
        {
            self.processes.insert(pid, mappings);
        }
    }

    fn has_room(&self, pid: i32) -> bool {
        self.processes.len() < PROCESSES_LIMIT || self.processes.contains_key(&pid)
    }

    /// The text of a chain of addresses, the innermost first.
    fn text(&mut self, endian: Endian, chain: &[u8], pid: i32, notes: &Notes) -> &str {
        self.text.clear();
        let mut is_kernel = None;
        // What follows a mark is of its side; the outermost frame comes last.
        let mut frames = Vec::with_capacity(chain.len() / 8);
        for address in chain.chunks_exact(8).take(FRAMES_LIMIT).filter_map(|word| endian.u64(word, 0)) {
            if address >= CONTEXT_FROM {
                is_kernel = Some(address == CONTEXT_KERNEL);
            } else {
                frames.push((address, is_kernel.unwrap_or(address >= KERNEL_FROM)));
            }
        }
        let mappings = self.processes.get(&pid);
        for &(address, is_kernel) in frames.iter().rev() {
            let of = if is_kernel { self.processes.get(&KERNEL) } else { mappings };
            let mapping = of.and_then(|of| of.range(..=address).next_back()).filter(|(_, one)| address < one.end);
            if is_kernel {
                let symbols =
                    self.kernel.get_or_insert_with(|| Symbols::of_recorded(notes, self.processes.get(&KERNEL)));
                let loaded = self.loaded.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
                let name = loaded.map(|(_, (_, name))| &**name).or_else(|| symbols.name(address));
                match (name, mapping) {
                    (Some(name), _) => push_frame(&mut self.text, name, FrameKind::Kernel),
                    (None, Some((start, mapping))) => {
                        let name = module(&mapping.name);
                        let name =
                            if name.starts_with("[kernel") || name.starts_with("[guest") { "kernel" } else { name };
                        push_frame(&mut self.text, &format!("{name}+0x{:x}", address - start), FrameKind::Kernel);
                    }
                    (None, None) => push_frame(&mut self.text, "", FrameKind::Kernel),
                }
            } else {
                match mapping {
                    Some((start, mapping)) => {
                        let name = module(&mapping.name);
                        let offset = mapping.offset.wrapping_add(address - start);
                        let is_jit = name.starts_with("//anon") || name == "anon";
                        let kind = if is_jit { FrameKind::Jit } else { FrameKind::User };
                        push_frame(&mut self.text, &format!("{name}+0x{offset:x}"), kind);
                    }
                    None => push_frame(&mut self.text, "", FrameKind::User),
                }
            }
        }
        &self.text
    }
}

/// The name of a file without its folders; of a module of the kernel without the ending.
fn module(name: &str) -> &str {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    if name.starts_with("//") {
        return name;
    }
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_suffix(".ko").unwrap_or(name)
}

/// Addresses and names of the functions of a kernel, in their order.
#[derive(Default)]
struct Symbols {
    addresses: Vec<u64>,
    names: Vec<Box<str>>,
    /// What to add to a recorded address: the kernel may have been loaded elsewhere.
    shift: u64,
    /// Modules lie where they were only until the next start.
    end: u64,
}

/// Of two names of one address, the better one is the greater: as perf chooses.
fn rank(kind: u8, name: &str) -> (bool, bool, std::cmp::Reverse<usize>, usize) {
    let underscores = name.bytes().take_while(|&byte| byte == b'_').count();
    (!kind.eq_ignore_ascii_case(&b'w'), kind.is_ascii_uppercase(), std::cmp::Reverse(underscores), name.len())
}

impl Symbols {
    /// Those of this machine, if it runs the kernel that was recorded, which its build id says.
    fn of_recorded(notes: &Notes, mappings: Option<&Rc<Mappings>>) -> Symbols {
        let own = std::fs::read("/sys/kernel/notes").ok().and_then(|notes| build_id(&notes).map(<[u8]>::to_vec));
        if notes.kernel_build_id.is_none() || notes.kernel_build_id != own {
            return Symbols::default();
        }
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let recorded = mappings.into_iter().flat_map(|all| all.iter());
        // Of the kernel itself perf notes where a symbol of it was: `[kernel.kallsyms]_text`.
        let text_at =
            recorded.filter(|(_, one)| one.name.starts_with("[kernel.kallsyms]")).map(|(_, one)| one.offset).next();
        Symbols::parse(&text, text_at)
    }

    fn parse(text: &str, recorded_text: Option<u64>) -> Symbols {
        let (mut found, mut start, mut end) = (Vec::new(), None, u64::MAX);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let (Ok(address), &[kind]) = (u64::from_str_radix(address, 16), kind.as_bytes()) else { continue };
            match name {
                "_text" => start = Some(address),
                "_etext" => end = address,
                _ => {}
            }
            if matches!(kind, b't' | b'T' | b'w' | b'W') && address > 0 {
                found.push((address, rank(kind, name), name));
            }
        }
        found.sort_unstable();
        let mut symbols = Symbols { shift: 0, end, ..Symbols::default() };
        let Some(start) = start else { return Symbols::default() };
        symbols.shift = recorded_text.map_or(0, |recorded| start.wrapping_sub(recorded));
        // The last of each address is the best.
        for (at, &(address, _, name)) in found.iter().enumerate() {
            if found.get(at + 1).is_none_or(|next| next.0 != address) {
                symbols.addresses.push(address);
                symbols.names.push(name.into());
            }
        }
        symbols
    }

    fn name(&self, address: u64) -> Option<&str> {
        let address = address.wrapping_add(self.shift);
        if self.shift != 0 && address >= self.end {
            return None;
        }
        let at = self.addresses.partition_point(|&known| known <= address).checked_sub(1)?;
        self.names.get(at).map(|name| &**name)
    }
}

/// The build id among the notes of an ELF file.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    let word = |notes: &[u8], at: usize| Some(u32::from_ne_bytes(*notes.get(at..)?.first_chunk()?) as usize);
    loop {
        let (name, content, kind) = (word(notes, 0)?, word(notes, 4)?, word(notes, 8)?);
        let at = 12 + name.checked_next_multiple_of(4)?;
        let end = at.checked_add(content)?;
        if kind == 3 && notes.get(12..)?.starts_with(b"GNU\0") {
            return notes.get(at..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Endian = Endian { big: false };

    fn mapping(pid: i32, start: u64, length: u64, offset: u64, name: &str) -> Vec<u8> {
        let mut record = vec![1, 0, 0, 0, 2, 0, 0, 0];
        record.extend(pid.to_le_bytes());
        record.extend(pid.to_le_bytes());
        [start, length, offset].iter().for_each(|word| record.extend(word.to_le_bytes()));
        record.extend(name.as_bytes());
        record.push(0);
        record
    }

    #[test]
    fn addresses_are_places_in_files() {
        let mut stacks = Stacks::default();
        let mut map = |start, length, offset, name| stacks.map(LITTLE, &mapping(7, start, length, offset, name), false);
        map(0x1000, 0x3000, 0x100, "/usr/bin/app");
        // In its middle.
        map(0x2000, 0x1000, 0, "/usr/lib/lib.so (deleted)");
        stacks.fork(8, 7);
        let chain = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let bytes = chain(&[CONTEXT_KERNEL, KERNEL_FROM + 5, -512_i64 as u64, 0x2004, 0x1008, 0x3010, 0x9000]);
        let text = stacks.text(LITTLE, &bytes, 8, &Notes::default());
        assert_eq!(text, "[unknown];app+0x2110;app+0x108;lib.so+0x4;[unknown]_[k]");
        let cut = mapping(8, 0, 0, 0, "");
        for length in 0..cut.len() {
            let _ = stacks.map(LITTLE, &cut[..length], length % 2 == 0);
        }
    }

    #[test]
    fn bpf_programs_have_the_names_of_their_time() {
        let mut stacks = Stacks::default();
        let record = |flags: u16, name: &str| {
            let mut record = vec![17, 0, 0, 0, 0, 0, 0, 0];
            record.extend((KERNEL_FROM + 0x100).to_le_bytes());
            record.extend(0x40_u32.to_le_bytes());
            record.extend([1_u16, flags].iter().flat_map(|word| word.to_le_bytes()));
            record.extend(name.as_bytes());
            record.extend([0; 8]);
            record
        };
        let chain: Vec<u8> = [0x140, 0x13f].iter().flat_map(|at| (KERNEL_FROM + at).to_le_bytes()).collect();
        let mut named = |flags, name| {
            stacks.obey(LITTLE, kind::KSYMBOL, &record(flags, name));
            stacks.text(LITTLE, &chain, 7, &Notes::default()).to_owned()
        };
        assert_eq!(named(0, "bpf_prog_1_old"), "bpf_prog_1_old_[k];[unknown]_[k]");
        assert_eq!(named(IS_GONE, "bpf_prog_1_old"), "[unknown]_[k];[unknown]_[k]");
        assert_eq!(named(0, "bpf_prog_2_new"), "bpf_prog_2_new_[k];[unknown]_[k]");
        let whole = record(0, "bpf_prog_3");
        (0..whole.len()).for_each(|length| stacks.obey(LITTLE, kind::KSYMBOL, &whole[..length]));
    }

    #[test]
    fn symbols_of_the_kernel_move_with_it() {
        let text =
            "ff00 T _text\nff10 t __a\nff10 T a\nff10 W aa\nff20 d data\nff30 t b\nff40 T _etext\nff90 t m\t[module]\n";
        let symbols = Symbols::parse(text, Some(0xff00));
        let names = [0xff05, 0xff10, 0xff2f, 0xff30, 0xff95].map(|at| symbols.name(at));
        assert_eq!(names, [Some("_text"), Some("a"), Some("a"), Some("b"), Some("m")]);
        let moved = Symbols::parse(text, Some(0xef00));
        assert_eq!([0xef10, 0xef95].map(|at| moved.name(at)), [Some("a"), None]);
        let notes = [&4u32.to_ne_bytes()[..], &2u32.to_ne_bytes(), &3u32.to_ne_bytes(), b"GNU\0\x0a\x0b\0\0"].concat();
        assert_eq!(build_id(&notes), Some(&[10, 11][..]));
        assert_eq!(build_id(&notes[..17]), None);
    }
}
