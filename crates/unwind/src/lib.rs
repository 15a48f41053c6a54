//! Call stacks of running processes: the bytes of a thread's stack become frames without frame pointers, frames become
//! names, and the kernel's part says what a waiting thread waits for.
//!
//! [`Stacks`] is everything that a capture needs. Modules are read once from their files and shared by all processes; what is
//! known of processes, modules and names is bounded. Files of a process are hostile: they are read, never mapped, and
//! every size in them is checked against the file and a limit.
#![forbid(unsafe_code)]

mod demangle;
mod elf;
mod jvm;
mod kernel;
mod modules;
mod perf_map;
mod process;
mod stacks;
mod wait;

pub use jvm::{JvmError, request_jvm_map};
pub use perf_map::PerfMap;
pub use process::living;
pub use stacks::Stacks;
pub use wait::classes as wait_classes;

/// The registers of a thread in user space when it entered the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (`rbp`, `x29`).
    pub fp: u64,
    /// Link register; 0 where the machine has none.
    pub lr: u64,
}

/// How the names of user frames are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Naming {
    /// As the symbols say.
    #[default]
    Plain,
    /// `MODULE#HASH`: the same function has the same hash on every host, and its name is not in the stack.
    Hashed,
}

/// How well the user part of a stack is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quality {
    /// Unwound by tables up to the thread's first function.
    Complete,
    /// Unwound up to the thread's first function, partly by frame pointers, since some code has no tables.
    FramePointers,
    /// The outer frames are missing: the copy of the stack was too short, or code has neither tables nor frame pointers.
    Truncated,
    /// Nothing is known but the instruction pointer, if that: the process was gone, or has no user part.
    None,
}

impl Quality {
    /// As fields and files have it.
    pub fn name(self) -> &'static str {
        match self {
            Quality::Complete => "complete",
            Quality::FramePointers => "frame pointers",
            Quality::Truncated => "truncated",
            Quality::None => "none",
        }
    }
}

/// The user part of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserStack {
    /// Addresses in the process, the innermost first: the instruction pointer, then return addresses.
    pub addresses: Vec<u64>,
    /// How well it is known.
    pub quality: Quality,
}

/// The state of a thread, as the scheduler has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ThreadState {
    /// On a CPU, or ready for one (R).
    Running,
    /// Sleeps until something happens or a signal comes (S).
    Sleeping,
    /// Waits and takes no signal (D).
    Uninterruptible,
    /// Stopped by a signal or a debugger (T, t).
    Stopped,
    /// A thread of the kernel that waits for work (I).
    Idle,
    /// Ended, or not known.
    Other,
}

impl ThreadState {
    /// Whether the thread waits for something.
    pub fn waits(self) -> bool {
        matches!(self, ThreadState::Sleeping | ThreadState::Uninterruptible)
    }
}
