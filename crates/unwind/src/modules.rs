//! The files whose code processes run, each read once and shared by all processes.

use crate::elf::{Elf, Load, Source, Symbols};
use framehop::{FrameAddress, MayAllocateDuringUnwind, Module as Tables, UnwindRegsNative, Unwinder};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes of all modules together. Of those that no process uses, the older half goes when there are more: one compiler and its
/// libraries take 100 MB.
const MOST_BYTES: usize = 256 << 20;
/// Modules, and files that turned out to be none.
const MOST_MODULES: usize = 4096;

/// Rules of unwinding that were used lately.
pub type Cache = framehop::CacheNative<MayAllocateDuringUnwind>;
/// Unwinds by tables, and by frame pointers where it has none.
pub type Tabled = framehop::UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>;

/// A step of unwinding found nothing.
pub struct NoStep;

/// A file with code, or code that is in no file.
pub struct Module {
    /// Different from that of every other module of this process.
    pub id: u32,
    /// The name of its file without folders.
    pub name: Box<str>,
    /// Its functions.
    pub symbols: Symbols,
    /// Whether it has unwind tables. Without them, frame pointers are what is left.
    pub has_tables: bool,
    /// The address of the code to which handlers of signals return, as the file states it.
    pub signal_return: Option<u64>,
    loads: Vec<Load>,
    /// Unwinds the addresses that the file states, so its cached rules serve every process wherever it is loaded.
    unwinder: Tabled,
    bytes: usize,
}

impl Module {
    /// Reads it.
    pub fn read(id: u32, name: &str, source: &Source) -> Option<Module> {
        let mut elf = Elf::read(source)?;
        elf.add_debug_file();
        let sections = elf.sections;
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let bytes = length(&sections.eh_frame) + length(&sections.eh_frame_hdr) + length(&sections.debug_frame);
        let start = sections.base_svma;
        let end = elf.loads.iter().map(|load| load.address.saturating_add(load.length)).max()?;
        let mut unwinder = Tabled::new();
        let has_tables = bytes > 0;
        if has_tables {
            unwinder.add_module(Tables::new(String::new(), start..end, start, sections));
        }
        let bytes = bytes + elf.symbols.bytes() + 4096;
        let (name, symbols, signal_return, loads) = (name.into(), elf.symbols, elf.signal_return, elf.loads);
        Some(Module { id, name, symbols, has_tables, signal_return, loads, unwinder, bytes })
    }

    /// The address that the file states for what is at this offset in it.
    pub fn stated(&self, offset: u64) -> Option<u64> {
        let load = self.loads.iter().find(|load| offset >= load.offset && offset - load.offset < load.length)?;
        (offset - load.offset).checked_add(load.address)
    }

    /// The return address of a frame, from its registers, which become those of its caller; `None` where the stack ends.
    pub fn step(
        &self,
        address: FrameAddress,
        registers: &mut UnwindRegsNative,
        cache: &mut Cache,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<u64>, NoStep> {
        self.unwinder.unwind_frame(address, registers, cache, read).map_err(|_| NoStep)
    }
}

/// What makes a file the same: device, inode, time of its last change in ns, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity(u64, u64, i128, u64);

impl Identity {
    fn from_metadata(metadata: &Metadata) -> Identity {
        let changed = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Identity(metadata.dev(), metadata.ino(), changed, metadata.len())
    }
}

/// All files that were read.
#[derive(Default)]
pub struct Modules {
    known: HashMap<Identity, (Option<Arc<Module>>, u64)>,
    vdso: Option<Option<Arc<Module>>>,
    bytes: usize,
    last_id: u32,
    /// Counts the uses, so that the oldest is known.
    uses: u64,
}

impl Modules {
    /// The module in the file that `path` leads to, if that is a file with code. The name is that of the file.
    pub fn file(&mut self, path: &Path, name: &str) -> Option<Arc<Module>> {
        let metadata = std::fs::metadata(path).ok()?;
        // A device must not be opened just because a process has mapped it, and a known file need not be.
        if !metadata.is_file() {
            return None;
        }
        self.known(&metadata).unwrap_or_else(|| self.add(&metadata, &File::open(path).ok()?, name))
    }

    /// The module in an open file.
    pub fn open_file(&mut self, file: &File, name: &str) -> Option<Arc<Module>> {
        let metadata = file.metadata().ok()?;
        self.known(&metadata).unwrap_or_else(|| self.add(&metadata, file, name))
    }

    fn known(&mut self, metadata: &Metadata) -> Option<Option<Arc<Module>>> {
        self.uses += 1;
        let (module, used) = self.known.get_mut(&Identity::from_metadata(metadata))?;
        *used = self.uses;
        Some(module.clone())
    }

    fn add(&mut self, metadata: &Metadata, file: &File, name: &str) -> Option<Arc<Module>> {
        let id = self.next_id();
        let module = Module::read(id, name, &Source::File(file)).map(Arc::new);
        self.bytes += module.as_ref().map_or(0, |module| module.bytes);
        self.known.insert(Identity::from_metadata(metadata), (module.clone(), self.uses));
        if self.bytes > MOST_BYTES || self.known.len() > MOST_MODULES {
            self.forget();
        }
        module
    }

    /// The code that the kernel puts into every process, given by its bytes.
    pub fn vdso(&mut self, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Module>> {
        if self.vdso.is_none() {
            let bytes = read()?;
            let id = self.next_id();
            self.vdso = Some(Module::read(id, "[vdso]", &Source::Bytes(&bytes)).map(Arc::new));
        }
        self.vdso.clone()?
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// Drops the older half of what no process uses.
    fn forget(&mut self) {
        let unused = |module: &Option<Arc<Module>>| module.as_ref().is_none_or(|module| Arc::strong_count(module) == 1);
        let mut uses: Vec<u64> =
            self.known.values().filter(|(module, _)| unused(module)).map(|&(_, used)| used).collect();
        uses.sort_unstable();
        let Some(&middle) = uses.get(uses.len() / 2) else { return };
        self.known.retain(|_, (module, used)| *used > middle || !unused(module));
        self.bytes = self.known.values().flat_map(|(module, _)| module).map(|module| module.bytes).sum();
    }
}
