//! The vocabulary of latscope: timed events as columns, the one table of their fields, units, clocks,
//! and the account of what was lost, repaired or left unfinished on the way.
//!
//! An *event* is one timed thing with a start and a latency (a block request, a system call ...).
//! A [`Batch`] holds a few ten thousand of them as columns; a trace is a stream of batches and a [`Context`].
#![forbid(unsafe_code)]

mod anomaly;
mod batch;
mod category;
mod context;
mod field;
pub mod kernel;
mod mask;
mod note;
mod printable;
pub mod spark;
mod stack;
mod syscall_names;
mod time;
mod unfinished;
mod units;
mod wall_clock;
mod wording;

pub use anomaly::{Anomaly, Severity, Tally};
pub use batch::{Batch, Column, Dictionary, MISSING_CODE, MISSING_I64, MISSING_U64};
pub use context::{Clock, Context, Lacking, LossRange};
pub use field::{Field, FieldSet, FieldType};
pub use mask::Mask;
pub use note::{KernelFeature, Note};
pub use printable::{escape_json, guard_formula, is_printable, printable};
pub use stack::{Frame, FrameKind, NO_STACK, bounded_frame, frames, push_frame, stack_hash};
pub use time::{TimeLiteral, TraceStart, format_elapsed, format_strftime, format_wall, parse_timestamp, wall_zone};
pub use unfinished::{Unfinished, Value, Wait};
pub use units::{
    UnitError, format_count, format_duration, format_duration_exact, format_rate, format_size, format_size_exact,
    parse_duration, parse_rate, parse_size,
};
pub use wall_clock::WallClock;
pub use wording::{NoteLine, Wording};
