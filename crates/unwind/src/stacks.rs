//! What is known of all processes, and the three questions about a sample: its frames, their names, what it waits for.

use crate::demangle::demangle;
use crate::elf::Source;
use crate::kernel::Kernel;
use crate::modules::{Cache, Module, Modules, NoStep, Tabled};
use crate::process::{Place, Process};
use crate::{Naming, Quality, Registers, ThreadState, UserStack, wait};
use framehop::{FrameAddress, UnwindRegsNative, Unwinder};
use latscope_event::kernel::Machine;
use latscope_event::{FrameKind, push_frame, stack_hash};
use std::collections::HashMap;

/// Frames of one stack.
const MOST_FRAMES: usize = 1024;
/// Processes that are known at a time; when there are more, the half that was not seen for longest is forgotten.
const MOST_PROCESSES: usize = 2048;
/// Names, and classes of stacks, that are kept; they are found again when they are forgotten.
const MOST_NAMES: usize = 1 << 16;
/// Bytes of names of compiled code of all processes.
const MOST_COMPILED: usize = 256 << 20;

/// What is known of processes, modules and names. One for a capture; its memory is bounded however many processes there are.
pub struct Stacks {
    naming: Naming,
    processes: HashMap<u32, Process>,
    modules: Modules,
    kernel: Kernel,
    cache: Cache,
    /// Follows frame pointers, for code without tables.
    pointers: Tabled,
    /// Names of functions, by module and number.
    names: HashMap<(u32, u32), Box<str>>,
    classes: HashMap<u64, u32>,
    class_names: Vec<Box<str>>,
    uses: u64,
}

impl Stacks {
    /// Nothing is known yet. The first name of a function of the kernel reads the kernel's table, which takes a tenth of a second.
    pub fn new(naming: Naming) -> Stacks {
        Stacks {
            naming,
            processes: HashMap::new(),
            modules: Modules::default(),
            kernel: Kernel::default(),
            cache: Cache::default(),
            pointers: Tabled::new(),
            names: HashMap::new(),
            classes: HashMap::new(),
            class_names: Vec::new(),
            uses: 0,
        }
    }

    /// Stacks of a process `u32::MAX` that is nothing but these bytes of a module, loaded at `start`: for tests with hostile files.
    #[doc(hidden)]
    pub fn of_module(file: &[u8], start: u64) -> Option<Stacks> {
        let module = Module::read(0, "module", &Source::Bytes(file))?;
        let mut stacks = Stacks::new(Naming::Plain);
        stacks.processes.insert(u32::MAX, Process::of_module(module.into(), start, file.len() as u64));
        Some(stacks)
    }

    /// Frames of a thread from its registers and a copy of its stack; `base` is the address of `bytes[0]`. `pid` is that of the
    /// process, as we see it. Nothing of `bytes` is kept.
    pub fn unwind(&mut self, pid: u32, registers: Registers, base: u64, bytes: &[u8]) -> UserStack {
        if registers.ip == 0 {
            return UserStack { addresses: Vec::new(), quality: Quality::None };
        }
        let mut addresses = Vec::with_capacity(32);
        addresses.push(registers.ip);
        if self.process(pid, true).is_none() {
            return UserStack { addresses, quality: Quality::None };
        }
        let quality = self.walk(pid, registers, base, bytes, &mut addresses);
        UserStack { addresses, quality }
    }

    fn walk(&mut self, pid: u32, registers: Registers, base: u64, bytes: &[u8], addresses: &mut Vec<u64>) -> Quality {
        let Some(process) = self.processes.get_mut(&pid) else { return Quality::None };
        let mut read = |address: u64| -> Result<u64, ()> {
            let at = usize::try_from(address.checked_sub(base).ok_or(())?).map_err(drop)?;
            let word = bytes.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(word.try_into().map_err(drop)?))
        };
        let end = base.saturating_add(bytes.len() as u64);
        let mut current = unwind_registers(registers);
        let mut address = FrameAddress::from_instruction_pointer(registers.ip);
        let mut quality = Quality::Complete;
        while addresses.len() < MOST_FRAMES {
            let sp = current.sp();
            // Beyond the copy there is nothing to go on with. Sums below cannot overflow inside of it.
            if sp < base || sp >= end {
                return Quality::Truncated;
            }
            let at = address.address_for_lookup();
            if !process.prepare(at, addresses.len() == 1, &mut self.modules) {
                // The address is not code: what led to it was no frame.
                if addresses.len() > 1 {
                    addresses.pop();
                }
                return Quality::Truncated;
            }
            let trampoline = matches!(process.place(at), Place::Compiled)
                && addresses.len() > 1
                && process.compiled(at).is_some_and(|name| name.starts_with("py::"));
            let mut interrupted = false;
            let next = match process.place(at) {
                _ if trampoline && cfg!(target_arch = "x86_64") => match leave_trampoline(&mut current, &mut read) {
                    Some(next) => Ok(Some(next)),
                    None => return Quality::Truncated,
                },
                Place::Module(module, offset) => {
                    if !module.has_tables {
                        quality = Quality::FramePointers;
                    }
                    let Some(stated) = module.stated(offset) else { return Quality::Truncated };
                    let stated = match address {
                        FrameAddress::InstructionPointer(_) => FrameAddress::from_instruction_pointer(stated),
                        FrameAddress::ReturnAddress(_) => {
                            match FrameAddress::from_return_address(stated.wrapping_add(1)) {
                                Some(stated) => stated,
                                None => return Quality::Truncated,
                            }
                        }
                    };
                    interrupted = addresses.len() > 1 && module.signal_return == Some(stated.address());
                    if interrupted {
                        leave_signal_frame(&mut current, &mut read).map(Some).ok_or(NoStep)
                    } else {
                        module.step(stated, &mut current, &mut self.cache, &mut read)
                    }
                }
                _ => {
                    quality = Quality::FramePointers;
                    self.pointers.unwind_frame(address, &mut current, &mut self.cache, &mut read).map_err(|_| NoStep)
                }
            };
            let frame = |next| match interrupted {
                true => Some(FrameAddress::from_instruction_pointer(next)),
                false => FrameAddress::from_return_address(next),
            };
            match next.ok().map(|next| next.and_then(frame)) {
                None => return Quality::Truncated,
                Some(None) => return quality,
                Some(Some(next)) => {
                    // Stacks grow down. A caller whose part lies lower is none.
                    let moved = current.sp() > sp || current.sp() == sp && addresses.len() == 1;
                    if !moved {
                        return Quality::Truncated;
                    }
                    addresses.push(next.address());
                    address = next;
                }
            }
        }
        Quality::Truncated
    }

    /// Adds the text of a stack, the outermost frame first and frames of the kernel inside those of the program, to `into`.
    /// Both parts are given innermost first. Frames of our tracing and of the scheduler at the inner end are left out.
    pub fn text(&mut self, pid: u32, user: &[u64], kernel: &[u64], into: &mut String) {
        if !user.is_empty() {
            self.process(pid, false);
        }
        for (depth, &address) in user.iter().enumerate().rev() {
            // A return address may already belong to the next function.
            self.push_user(pid, if depth == 0 { address } else { address.saturating_sub(1) }, into);
        }
        let trimmed = self.kernel.trimmed(kernel);
        for &address in trimmed.iter().rev() {
            push_frame(into, self.kernel.name(address), FrameKind::Kernel);
        }
    }

    fn push_user(&mut self, pid: u32, address: u64, into: &mut String) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return push_frame(into, "[unknown]", FrameKind::User);
        };
        process.prepare(address, false, &mut self.modules);
        let hashed = self.naming == Naming::Hashed;
        match process.place(address) {
            Place::Module(module, offset) => match module.stated(offset).and_then(|stated| module.symbols.find(stated))
            {
                Some((number, symbol)) => {
                    if self.names.len() >= MOST_NAMES {
                        self.names.clear();
                    }
                    let name = self.names.entry((module.id, number)).or_insert_with(|| {
                        // Versions of symbols are appended to exported names in full tables.
                        let name = demangle(symbol.split('@').next().unwrap_or(symbol));
                        if hashed { hash_name(&module.name, &name).into() } else { name.into() }
                    });
                    push_frame(into, name, FrameKind::User);
                }
                None => push_frame(into, &format!("{}+{offset:#x}", module.name), FrameKind::User),
            },
            Place::File(name, offset) => push_frame(into, &format!("{name}+{offset:#x}"), FrameKind::User),
            Place::Compiled => match process.compiled(address) {
                Some(name) => {
                    let kind = if name.starts_with("py::") { FrameKind::Python } else { FrameKind::Jit };
                    match (hashed, kind) {
                        (false, _) => push_frame(into, name, kind),
                        (true, FrameKind::Python) => push_frame(into, &format!("py::#{:016x}", stack_hash(name)), kind),
                        (true, _) => push_frame(into, &hash_name("", name), kind),
                    }
                }
                None => push_frame(into, "[unknown]", FrameKind::Jit),
            },
            Place::Unknown => push_frame(into, "[unknown]", FrameKind::User),
        }
    }

    /// What a thread with this kernel stack, innermost first, waits for: a class of [`crate::wait_classes`], or the innermost
    /// function that is not the scheduler's. Empty for a thread that does not wait. Without a readable stack, or with one that
    /// only has the entry of system calls, it is the system call of this number.
    pub fn wait_class(&mut self, kernel: &[u64], state: ThreadState, call: Option<i64>) -> &str {
        if state == ThreadState::Stopped {
            return wait::STOPPED;
        }
        if !state.waits() {
            return "";
        }
        self.class(kernel, call)
    }

    /// Whether this is the stack of a thread of the kernel that waits for work.
    pub fn is_idle(&mut self, kernel: &[u64]) -> bool {
        self.class(kernel, None) == wait::IDLE
    }

    fn class(&mut self, kernel: &[u64], call: Option<i64>) -> &str {
        let hash = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        let key = kernel.iter().fold(0xcbf2_9ce4_8422_2325, |so_far, &address| hash(so_far, address));
        let key = hash(key, call.unwrap_or(-1).cast_unsigned());
        let number = match self.classes.get(&key) {
            Some(&number) => number,
            None => {
                let number = self.find_class(kernel, call);
                if self.classes.len() >= MOST_NAMES {
                    self.classes.clear();
                }
                self.classes.insert(key, number);
                number
            }
        };
        &self.class_names[number as usize]
    }

    fn find_class(&mut self, kernel: &[u64], call: Option<i64>) -> u32 {
        let trimmed = self.kernel.trimmed(kernel);
        let names: Vec<String> = trimmed.iter().map(|&address| self.kernel.name(address).to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut class = wait::class(&names);
        if class.is_empty() || wait::is_entry(class) {
            let machine = Machine::from_arch(std::env::consts::ARCH);
            class =
                call.and_then(|call| u32::try_from(call).ok()).and_then(|call| machine.syscall(call)).unwrap_or(class);
        }
        let known = self.class_names.iter().position(|known| **known == *class);
        let number = known.unwrap_or_else(|| {
            self.class_names.push(class.into());
            self.class_names.len() - 1
        });
        // As many as the kernel has functions.
        number as u32
    }

    /// The process runs another program now.
    pub fn exec(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The process has ended. What was read of it stays for samples that are not named yet, for as long as there is room.
    pub fn exit(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.ended = true;
        }
    }

    /// The process, read if it is not known. `now`: it runs now, so what is known must be of this process and not of one that
    /// had its pid before.
    fn process(&mut self, pid: u32, now: bool) -> Option<&mut Process> {
        self.uses += 1;
        if self.uses.is_multiple_of(1024) {
            self.forget_compiled();
        }
        if now
            && let Some(process) = self.processes.get_mut(&pid)
            && (process.ended || !process.is_same())
        {
            self.processes.remove(&pid);
        }
        if !self.processes.contains_key(&pid) {
            let process = Process::read(pid)?;
            self.forget_compiled();
            if self.processes.len() >= MOST_PROCESSES {
                self.forget();
            }
            self.processes.insert(pid, process);
        }
        let process = self.processes.get_mut(&pid)?;
        process.used = self.uses;
        Some(process)
    }

    fn forget(&mut self) {
        let mut uses: Vec<u64> = self.processes.values().map(|process| process.used).collect();
        let half = uses.len() / 2;
        let (_, &mut middle, _) = uses.select_nth_unstable(half);
        self.processes.retain(|_, process| process.used > middle);
    }

    /// Drops names of compiled code of the processes that were not seen for longest, if there are too many.
    fn forget_compiled(&mut self) {
        let mut bytes: usize = self.processes.values().map(Process::compiled_bytes).sum();
        while bytes > MOST_COMPILED {
            let with_names = self.processes.values_mut().filter(|process| process.compiled_bytes() > 0);
            let Some(oldest) = with_names.min_by_key(|process| process.used) else { return };
            bytes -= oldest.compiled_bytes();
            oldest.forget_compiled();
        }
    }

    /// Processes that are known.
    pub fn known(&self) -> usize {
        self.processes.len()
    }
}

/// A stable name for a function that must not be named.
fn hash_name(module: &str, name: &str) -> String {
    format!("{module}#{:016x}", stack_hash(name))
}

/// What a signal interrupted on x86-64: the kernel laid its registers on the stack, in a `ucontext` that the handler has left there.
fn leave_signal_frame(registers: &mut UnwindRegsNative, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let context = registers.sp();
    let mut saved = |offset| read(context.checked_add(offset)?).ok();
    let (ip, _sp, _bp) = (saved(168)?, saved(160)?, saved(120)?);
    #[cfg(target_arch = "x86_64")]
    {
        registers.set_bp(_bp);
        registers.set_sp(_sp);
        registers.set_ip(ip);
    }
    Some(ip)
}

/// The caller of a trampoline of CPython on x86-64. Its code has no unwind table: it keeps eight bytes on the stack and calls,
/// so the return address lies behind them. Later versions keep the frame pointer there.
fn leave_trampoline(registers: &mut UnwindRegsNative, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    let sp = registers.sp();
    let next = read(sp.checked_add(8)?).ok()?;
    #[cfg(target_arch = "x86_64")]
    {
        if registers.bp() == sp {
            registers.set_bp(read(sp).ok()?);
        }
        registers.set_sp(sp + 16);
        registers.set_ip(next);
    }
    Some(next)
}

#[cfg(target_arch = "x86_64")]
fn unwind_registers(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.ip, registers.sp, registers.fp)
}

/// Addresses have 48 bits; what pointer authentication puts above them is not part of them.
#[cfg(target_arch = "aarch64")]
fn unwind_registers(registers: Registers) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask(u64::MAX >> 16);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}
