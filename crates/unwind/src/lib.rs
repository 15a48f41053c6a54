//! Call stacks of running processes: the bytes of a thread's stack become frames without frame pointers, frames become
//! names, and the kernel's part says what a waiting thread waits for.
#![forbid(unsafe_code)]

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
