//! What is known of a process: its executable mappings, and code that it compiles while it runs.

use crate::modules::{Module, Modules};
use crate::perf_map::{self, PerfMap};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mappings of a process; the kernel allows 65,530 unless told otherwise.
const MOST_MAPPINGS: usize = 65_536;
/// Bytes of `/proc/PID/maps`.
const LARGEST_MAPS: u64 = 32 << 20;
/// Maps of a process are read again at most this often, when an address is in none.
const AGAIN: Duration = Duration::from_secs(1);
/// The same where the address is an instruction pointer: that is code for certain, so the maps are of before an `exec`.
const AGAIN_FOR_CODE: Duration = Duration::from_millis(20);

enum Code {
    /// A file or the vDSO: not looked at yet.
    Unread,
    /// A file with code.
    Module(Arc<Module>),
    /// A file that we cannot read.
    Unreadable,
    /// In no file: compiled at run time.
    Compiled,
}

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    /// Its path as the process has it.
    path: Box<str>,
    code: Code,
}

/// What is at an address.
pub enum Place<'a> {
    /// A module, the offset in its file, and the difference between addresses here and those that the file states.
    Module(&'a Arc<Module>, u64),
    /// A file without readable code: its name and the offset in it.
    File(&'a str, u64),
    /// Code that was compiled at run time.
    Compiled,
    /// No executable mapping.
    Unknown,
}

/// A process.
pub struct Process {
    pid: u32,
    mappings: Vec<Mapping>,
    /// When it was started, as the kernel counts; with the pid, it identifies the process.
    started: u64,
    read_at: Instant,
    /// When it was last made sure that the pid is still this process.
    confirmed_at: Instant,
    /// It ended. What was read of it stays.
    pub ended: bool,
    /// Counts the uses of processes, so that the oldest is known.
    pub used: u64,
    compiled: PerfMap,
    /// Bytes of the perf map that were read, its inode, and when it was looked at.
    compiled_from: (u64, u64, Option<Instant>),
}

impl Process {
    /// Reads what is known of a running process.
    pub fn read(pid: u32) -> Option<Process> {
        let now = Instant::now();
        let (mappings, started) = (mappings(pid)?, started(pid)?);
        Some(Process {
            pid,
            mappings,
            started,
            read_at: now,
            confirmed_at: now,
            ended: false,
            used: 0,
            compiled: PerfMap::default(),
            compiled_from: (0, 0, None),
        })
    }

    /// A process that ended and had this module, and nothing else, at these addresses.
    pub fn of_module(module: Arc<Module>, start: u64, length: u64) -> Process {
        let now = Instant::now();
        let end = start.saturating_add(length);
        let mapping = Mapping { start, end, offset: 0, path: "".into(), code: Code::Module(module) };
        Process {
            pid: u32::MAX,
            mappings: vec![mapping],
            started: 0,
            read_at: now,
            confirmed_at: now,
            ended: false,
            used: 0,
            compiled: PerfMap::default(),
            compiled_from: (0, 0, Some(now)),
        }
    }

    /// Whether the pid still is the process that was read, as far as is known; looked up once a second.
    pub fn is_same(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.confirmed_at) < AGAIN {
            return true;
        }
        self.confirmed_at = now;
        started(self.pid).is_none_or(|started| started == self.started)
    }

    /// Makes sure that the module of an address is read, and maps are current if the address is in none. `is_code`: it is known to be
    /// code, and not just taken for it. Whether there is code.
    pub fn prepare(&mut self, address: u64, is_code: bool, modules: &mut Modules) -> bool {
        let mut index = self.mapping(address);
        let again = if is_code { AGAIN_FOR_CODE } else { AGAIN };
        if index.is_none() && !self.ended && self.read_at.elapsed() >= again {
            self.read_at = Instant::now();
            if let Some(mut again) = mappings(self.pid) {
                self.keep_modules(&mut again);
                self.mappings = again;
                index = self.mapping(address);
            }
        }
        let Some(index) = index else { return false };
        let mapping = &mut self.mappings[index];
        if matches!(mapping.code, Code::Unread) {
            let module = open(self.pid, mapping, modules);
            mapping.code = module.map_or(Code::Unreadable, Code::Module);
        }
        true
    }

    /// What is at an address that was prepared.
    pub fn place(&self, address: u64) -> Place<'_> {
        let Some(index) = self.mapping(address) else { return Place::Unknown };
        let mapping = &self.mappings[index];
        let offset = address - mapping.start + mapping.offset;
        match &mapping.code {
            Code::Module(module) => Place::Module(module, offset),
            Code::Compiled => Place::Compiled,
            Code::Unread | Code::Unreadable => Place::File(file_name(&mapping.path), offset),
        }
    }

    /// The name of compiled code; its map is read again where it grew, at most once a second.
    pub fn compiled(&mut self, address: u64) -> Option<&str> {
        let looked = self.compiled_from.2;
        if self.compiled.find(address).is_none() && !self.ended && looked.is_none_or(|looked| looked.elapsed() >= AGAIN)
        {
            self.compiled_from.2 = Some(Instant::now());
            self.read_compiled();
        }
        self.compiled.find(address)
    }

    /// Bytes of memory for names of compiled code.
    pub fn compiled_bytes(&self) -> usize {
        self.compiled.bytes()
    }

    /// Forgets names of compiled code.
    pub fn forget_compiled(&mut self) {
        self.compiled = PerfMap::default();
        self.compiled_from = (0, 0, self.compiled_from.2);
    }

    fn mapping(&self, address: u64) -> Option<usize> {
        let index = self.mappings.partition_point(|mapping| mapping.end <= address);
        (self.mappings.get(index)?.start <= address).then_some(index)
    }

    /// Gives new mappings the modules of old ones. The old and the new are sorted.
    fn keep_modules(&mut self, again: &mut [Mapping]) {
        for mapping in again {
            let same = self.mappings.binary_search_by_key(&mapping.start, |old| old.start).ok();
            if let Some(old) = same.map(|index| &mut self.mappings[index])
                && old.offset == mapping.offset
                && old.path == mapping.path
                && let Code::Module(module) = &old.code
            {
                mapping.code = Code::Module(module.clone());
            }
        }
    }

    fn read_compiled(&mut self) {
        let Some(file) = open_perf_map(self.pid) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let (mut from, inode, _) = self.compiled_from;
        // Written anew: `jcmd` replaces what it wrote before.
        if metadata.len() < from || metadata.ino() != inode {
            self.compiled = PerfMap::default();
            from = 0;
        }
        let length = metadata.len().min(perf_map::LARGEST).saturating_sub(from);
        let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
        let mut filled = 0;
        while filled < text.len() {
            match file.read_at(&mut text[filled..], from + filled as u64) {
                Ok(read) if read > 0 => filled += read,
                _ => break,
            }
        }
        // The last line may still be being written.
        let whole = text[..filled].iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        self.compiled.add(&text[..whole]);
        self.compiled_from = (from + whole as u64, metadata.ino(), self.compiled_from.2);
    }
}

fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// The start of a process in clock ticks since boot, field 22 of its `stat`. The name before it may have spaces and brackets.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|&byte| byte == b')')?;
    std::str::from_utf8(&stat[after + 1..]).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A thread of a process that has its memory and its files: the first one, unless it has ended. Those that hang in the kernel outlive it
/// when the process is killed.
pub fn living(pid: u32) -> u32 {
    let lives = |tid: &u32| {
        let maps = File::open(format!("/proc/{tid}/maps"));
        maps.and_then(|mut maps| maps.read(&mut [0])).is_ok_and(|read| read > 0)
    };
    if lives(&pid) {
        return pid;
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).find(lives).unwrap_or(pid)
}

/// The executable mappings of a process, sorted.
fn mappings(pid: u32) -> Option<Vec<Mapping>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{}/maps", living(pid))).ok()?.take(LARGEST_MAPS).read_to_end(&mut text).ok()?;
    let mappings: Vec<_> = text.split(|&byte| byte == b'\n').filter_map(mapping).take(MOST_MAPPINGS).collect();
    // A process that is ending has none.
    (!mappings.is_empty()).then_some(mappings)
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let word = std::str::from_utf8(&rest[..end]).ok();
        rest = rest[end..].trim_ascii_start();
        word
    };
    let (range, rights, offset) = (word()?, word()?, word()?);
    let (_device, inode) = (word()?, word()?);
    if rights.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let path = String::from_utf8_lossy(rest).into_owned();
    let is_file = inode != "0" && path.starts_with('/') && !path.starts_with("/memfd:") && !path.starts_with("/dev/");
    let code = match path.as_str() {
        "[vdso]" => Code::Unread,
        "[vsyscall]" => Code::Unreadable,
        _ if is_file => Code::Unread,
        _ => Code::Compiled,
    };
    Some(Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, path: path.into(), code })
}

/// The module of a mapping: the very file that is mapped, though it may be deleted or in a container. Who must not follow that
/// link opens the path as the process sees it.
fn open(pid: u32, mapping: &Mapping, modules: &mut Modules) -> Option<Arc<Module>> {
    if &*mapping.path == "[vdso]" {
        return modules.vdso(|| {
            let mut bytes =
                vec![0; usize::try_from(mapping.end - mapping.start).ok().filter(|&length| length < 1 << 20)?];
            File::open(format!("/proc/{}/mem", living(pid))).ok()?.read_exact_at(&mut bytes, mapping.start).ok()?;
            Some(bytes)
        });
    }
    let name = file_name(&mapping.path);
    let mapped = PathBuf::from(format!("/proc/{}/map_files/{:x}-{:x}", living(pid), mapping.start, mapping.end));
    modules.file(&mapped, name).or_else(|| {
        let file = open_inside(pid, mapping.path.trim_start_matches('/'))?;
        modules.open_file(&file, name)
    })
}

/// The perf map of a process, in the `/tmp` that it sees and with the pid that it has there.
fn open_perf_map(pid: u32) -> Option<File> {
    open_inside(pid, &format!("tmp/perf-{}.map", inner_pid(pid)?))
}

/// The pid that a process has for itself, in its container.
pub fn inner_pid(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    pids.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Whether a process runs code of a file with this name.
pub fn has_mapped(pid: u32, name: &str) -> bool {
    mappings(pid).is_some_and(|mappings| mappings.iter().any(|mapping| file_name(&mapping.path) == name))
}

/// Opens a regular file below the root of a process. Links lead nowhere outside of it, and a pipe or device is not waited for.
fn open_inside(pid: u32, path: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let root =
        rustix::fs::open(format!("/proc/{}/root", living(pid)), flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // Opened without effect first, since opening a device can do something.
    let found = rustix::fs::openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve).ok()?;
    if !File::from(found).metadata().ok()?.is_file() {
        return None;
    }
    let file = rustix::fs::openat2(&root, path, flags | OFlags::NONBLOCK, Mode::empty(), resolve).ok()?;
    let file = File::from(file);
    file.metadata().ok()?.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_whose_first_thread_has_ended_has_its_code() {
        // The first thread leaves by itself, as it does when a process is killed whose other threads hang.
        let script = "import ctypes, threading, time\n\
                      threading.Thread(target=time.sleep, args=(60,)).start()\n\
                      print('ready', flush=True)\n\
                      ctypes.CDLL(None).pthread_exit(None)\n";
        let python = Command::new("python3").args(["-c", script]).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = python else {
            eprintln!("skipped: there is no python3");
            return;
        };
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = child.id();
        let is_over = || std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.is_empty());
        let until = Instant::now() + Duration::from_secs(30);
        while !is_over() && Instant::now() < until {
            std::thread::yield_now();
        }
        let (ended, process) = (is_over(), Process::read(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ended, "the first thread goes on");
        assert!(process.is_some_and(|process| process.mappings.iter().any(|one| one.path.contains("python"))));
    }
}
