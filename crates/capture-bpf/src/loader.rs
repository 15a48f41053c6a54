//! Loads the checked-in BPF objects of `bpf/`, attaches their programs and reads what all of them share: counters of
//! losses, the ring buffer, the clock.
//!
//! Every program exists twice: `name` for kernels that carry BTF (`tp_btf`), `name_raw` for those that do not
//! (`raw_tp`). Callers only know `name`.

mod clock;
#[cfg(test)]
#[path = "loader/in_c_tests.rs"]
pub mod in_c;
mod log;
mod ring;
mod shared;

pub use clock::{MonotonicClock, thread_cpu};
pub use log::keep as quiet;
pub use ring::Ring;
pub(crate) use shared::{Raw, shared};

use crate::Error;
use libbpf_rs::{
    Link, Map, MapCore, MapFdInfo, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramInput,
    TracepointCategory,
};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;

/// The section of the configuration, see `bpf/core.h`.
const CONFIG: &str = ".rodata.config";
/// Bytes of an object.
const LARGEST_OBJECT: usize = 4 << 20;

/// An object whose maps can still be sized.
pub struct Opened {
    object: OpenObject,
    suffix: &'static str,
}

/// An object in the kernel.
pub struct Loaded {
    object: Object,
    suffix: &'static str,
    attached: Vec<(String, Link)>,
}

impl Opened {
    /// Opens a checked-in object, compressed with zstd. What libbpf has to say never reaches the terminal, only our errors.
    pub fn open(packed: &'static [u8]) -> Result<Opened, Error> {
        quiet();
        let bytes =
            zstd::bulk::decompress(packed, LARGEST_OBJECT).map_err(|error| failed("unpacking", &error.into()))?;
        let object = ObjectBuilder::default().open_memory(&bytes).map_err(|error| failed("opening", &error))?;
        let suffix = if Path::new("/sys/kernel/btf/vmlinux").exists() { "" } else { "_raw" };
        Ok(Opened { object, suffix })
    }

    /// Opens an object whose programs have no twins, as they are attached to nothing.
    pub fn open_single(packed: &'static [u8]) -> Result<Opened, Error> {
        Ok(Opened { suffix: "", ..Opened::open(packed)? })
    }

    /// As on a kernel without BTF, where the raw twins of the programs run.
    #[cfg(test)]
    pub fn with_raw_programs(self) -> Opened {
        Opened { suffix: "_raw", ..self }
    }

    /// Sets the configuration struct.
    pub fn configure(&mut self, config: &impl Raw) -> Result<(), Error> {
        let mut bytes = Vec::new();
        config.write(&mut bytes);
        self.map(CONFIG)?.set_initial_value(&bytes).map_err(|error| failed("configuring", &error))
    }

    /// Sets how many entries a map has (of a ring buffer: bytes).
    pub fn set_entries(&mut self, map: &str, entries: u32) -> Result<(), Error> {
        self.map(map)?.set_max_entries(entries).map_err(|error| failed("sizing", &error))
    }

    /// Sets how many bytes a value of a map has.
    pub fn set_value_bytes(&mut self, map: &str, bytes: u32) -> Result<(), Error> {
        self.map(map)?.set_value_size(bytes).map_err(|error| failed("sizing", &error))
    }

    /// A map that is not created at all, as no program uses it.
    pub fn leave_out(&mut self, map: &str) -> Result<(), Error> {
        self.map(map)?.set_autocreate(false).map_err(|error| failed("leaving out a map of", &error))
    }

    /// Uses the map that another object has under the same name.
    pub fn share(&mut self, name: &str, with: &Loaded) -> Result<(), Error> {
        let map = with.map(name)?;
        self.map(name)?.reuse_fd(map.as_fd()).map_err(|error| failed("sharing a map of", &error))
    }

    fn map(&mut self, name: &str) -> Result<OpenMapMut<'_>, Error> {
        let found = self.object.maps_mut().find(|map| map.name() == name);
        found.ok_or_else(|| Error::Failed(format!("the BPF object has no map {name}")))
    }

    /// Loads the maps and these programs, those that will be attached later among them.
    pub fn load(mut self, programs: &[&str]) -> Result<Loaded, Error> {
        for mut program in self.object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let wanted = name.strip_suffix(self.suffix).is_some_and(|base| programs.contains(&base));
            program.set_autoload(wanted);
        }
        let object = self.object.load().map_err(|error| failed("loading", &error))?;
        Ok(Loaded { object, suffix: self.suffix, attached: Vec::new() })
    }
}

impl Loaded {
    /// Attaches a loaded program; nothing happens when it is attached already.
    pub fn attach(&mut self, program: &str) -> Result<(), Error> {
        if self.is_attached(program) {
            return Ok(());
        }
        let name = format!("{program}{}", self.suffix);
        let found = self.object.progs_mut().find(|program| program.name() == name.as_str());
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {name}")))?;
        let link = found.attach().map_err(|error| failed(&format!("attaching {program} of"), &error))?;
        self.attached.push((program.to_owned(), link));
        Ok(())
    }

    /// Attaches a loaded program to a classic tracepoint, `syscalls` and `sys_enter_read`; it may have many.
    pub fn attach_tracepoint(&mut self, program: &str, group: &str, name: &str) -> Result<(), Error> {
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {program}")))?;
        let link = found.attach_tracepoint(TracepointCategory::Custom(group.to_owned()), name);
        let link = link.map_err(|error| failed(&format!("attaching {program} to {name} of"), &error))?;
        self.attached.push((format!("{program} {name}"), link));
        Ok(())
    }

    /// Attaches a loaded program to a software event of perf, which the link closes; it may have many.
    pub fn attach_perf_event(&mut self, program: &str, event: OwnedFd) -> Result<(), Error> {
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {program}")))?;
        let event = event.into_raw_fd();
        let link =
            found.attach_perf_event(event).map_err(|error| failed(&format!("attaching {program} of"), &error))?;
        self.attached.push((format!("{program} {event}"), link));
        Ok(())
    }

    /// A loaded iterator program over all tasks, to be run many times.
    pub fn iterator(&mut self, program: &str) -> Result<Link, Error> {
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {program}")))?;
        found.attach().map_err(|error| failed(&format!("attaching {program} of"), &error))
    }

    /// Runs an iterator from start to end; what it writes is dropped.
    pub fn run_iterator(&self, link: &Link) -> Result<(), Error> {
        let mut reader = libbpf_rs::Iter::new(link).map_err(|error| failed("running an iterator of", &error))?;
        std::io::copy(&mut reader, &mut std::io::sink())
            .map_err(|error| failed("running an iterator of", &error.into()))?;
        Ok(())
    }

    /// What a loaded iterator program writes, from start to end.
    pub fn iterate(&self, program: &str) -> Result<Vec<u8>, Error> {
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {program}")))?;
        let doing = format!("running {program} of");
        let link = found.attach().map_err(|error| failed(&doing, &error))?;
        let mut output = Vec::new();
        let mut reader = libbpf_rs::Iter::new(&link).map_err(|error| failed(&doing, &error))?;
        reader.read_to_end(&mut output).map_err(|error| failed(&doing, &error.into()))?;
        Ok(output)
    }

    /// Runs a loaded program of type `syscall` on this value, which it may change.
    pub fn run<T: Raw>(&mut self, program: &str, value: &mut T) -> Result<(), Error> {
        let found = self.object.progs_mut().find(|found| found.name() == program);
        let found = found.ok_or_else(|| Error::Failed(format!("the BPF object has no program {program}")))?;
        let mut bytes = Vec::with_capacity(T::SIZE);
        value.write(&mut bytes);
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        found.test_run(input).map_err(|error| failed(&format!("running {program} of"), &error))?;
        *value = T::read(&bytes);
        Ok(())
    }

    /// The first values of an array that has a section of its own, given as `.bss.name`.
    pub fn array<T: Raw>(&self, section: &str, len: usize) -> Result<Vec<T>, Error> {
        let bytes = self.first(section)?;
        Ok(bytes.chunks_exact(T::SIZE).take(len).map(T::read).collect())
    }

    /// The first value of an array.
    pub fn first(&self, array: &str) -> Result<Vec<u8>, Error> {
        let bytes = self.map(array)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        Ok(bytes.map_err(|error| failed("reading an array of", &error))?.unwrap_or_default())
    }

    /// Whether a program is attached.
    pub fn is_attached(&self, program: &str) -> bool {
        self.attached.iter().any(|(name, _)| name == program)
    }

    /// Detaches all programs; maps can still be read.
    pub fn detach_all(&mut self) {
        self.attached.clear();
    }

    /// A map.
    pub fn map(&self, name: &str) -> Result<Map<'_>, Error> {
        let found = self.object.maps().find(|map| map.name() == name);
        found.ok_or_else(|| Error::Failed(format!("the BPF object has no map {name}")))
    }

    /// Sets a variable that has a section of its own, given as `.data.name`.
    pub fn set_variable(&self, section: &str, value: u32) -> Result<(), Error> {
        let map = self.map(section)?;
        let mut bytes = value.to_ne_bytes().to_vec();
        bytes.resize(map.value_size() as usize, 0);
        let set = map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY);
        set.map_err(|error| failed("setting a variable of", &error))
    }

    /// Puts a key into a map that is a set.
    pub fn insert(&self, set: &str, key: &[u8]) -> Result<(), Error> {
        let inserted = self.map(set)?.update(key, &[1], MapFlags::ANY);
        inserted.map_err(|error| failed("filling a map of", &error))
    }

    /// Takes a key out of a map that is a set, if it is still there.
    pub fn remove(&self, set: &str, key: &[u8]) -> Result<(), Error> {
        match self.map(set)?.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(failed("emptying a map of", &error)),
            _ => Ok(()),
        }
    }

    /// The ring buffer of this name.
    pub fn ring(&self, name: &str) -> Result<Ring, Error> {
        Ring::new(&self.map(name)?)
    }

    /// The first `N` counters of `bpf/core.h`, summed over the CPUs.
    pub fn counts<const N: usize>(&self) -> Result<[u64; N], Error> {
        let map = self.map("counts")?;
        let mut sums = [0; N];
        for (slot, sum) in (0u32..).zip(&mut sums) {
            let per_cpu = map.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY);
            let per_cpu = per_cpu.map_err(|error| failed("reading the counters of", &error))?.unwrap_or_default();
            *sum = per_cpu.iter().map(|value| u64::read(value)).sum();
        }
        Ok(sums)
    }

    /// How often a program was not run because it was running already on the same CPU (an interrupt in the middle of
    /// it). The kernel counts it since Linux 5.12; before it is 0. Detached programs count too.
    pub fn recursion_misses(&self) -> u64 {
        self.object.progs().filter_map(|program| info(&program, "recursion_misses:")).sum()
    }

    /// The recursion misses of one program.
    pub fn misses_of(&self, program: &str) -> u64 {
        let name = format!("{program}{}", self.suffix);
        let program = self.object.progs().find(|program| program.name() == name.as_str());
        program.and_then(|program| info(&program, "recursion_misses:")).unwrap_or(0)
    }

    /// What the maps occupy in the kernel, by its own account.
    pub fn memory_bytes(&self) -> u64 {
        self.object.maps().filter_map(|map| MapFdInfo::from_fd(map.as_fd()).ok()?.memlock).sum()
    }
}

/// A number that the kernel reports of a program.
fn info(program: &impl AsFd, key: &str) -> Option<u64> {
    let fd = program.as_fd().as_raw_fd();
    if fd < 0 {
        return None; // not loaded
    }
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

fn failed(doing: &str, error: &libbpf_rs::Error) -> Error {
    let log_lines = log::last_lines();
    let log_lines = if log_lines.is_empty() { log_lines } else { format!(" ({log_lines})") };
    let text = format!("{error:#}");
    // EPERM; the verifier's objections are EACCES and EINVAL.
    if text.contains("Operation not permitted") {
        return Error::Rights(format!("the kernel refused {doing} the BPF object: {text}{log_lines}"));
    }
    Error::Failed(format!("{doing} the BPF object: {text}{log_lines}"))
}
