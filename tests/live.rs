//! Live capture against the truth: a device and a pipe of known latency, what others say about the same run, and what
//! record leaves behind whatever happens to it.
//!
//! Needs root and eBPF; elsewhere each test says why it is skipped. The machine may be busy: nothing is asserted about
//! how fast something was, only about order, counts, and bounds that hold however long a process waits for a CPU.

mod agreement;
#[path = "../crates/capture-bpf/tests/block/blind.rs"]
pub mod blind;
mod fields;
mod filters;
mod hanging;
mod hours;
mod killed;
mod known_truth;
pub mod lab;
mod limits;
mod names;
mod postgres;
mod processes;
mod recording;
mod request_stacks;
mod sockets;
mod stack_places;
mod stack_targets;
mod stacks;
mod tags;
mod uring;
mod views;
mod waiting;
mod waits_in_progress;

pub use lab::alone;
