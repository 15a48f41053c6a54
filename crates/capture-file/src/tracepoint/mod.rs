//! Tracepoints as the kernel writes them: their format texts, the raw records that these describe, and the events that these make.

mod decode;
mod endian;
mod events;
pub mod format;

use crate::{block_pairs, syscall_pairs};
pub use decode::{Decoder, Entry, Stamp};
pub use endian::Endian;
pub use events::Events;
pub use format::{FieldLayout, Tracepoint};
use latscope_event::FieldSet;

/// The fields that records of tracepoints can fill.
pub const FILLS: FieldSet = block_pairs::FILLS.union(syscall_pairs::FILLS);
