//! fio: its logs of every I/O, its histogram logs, its JSON, and what they say about each other.

mod beside;
pub mod hist;
pub mod json;
pub mod log;
mod name;
pub mod results;
mod start;
mod threads;
mod tree;

pub use beside::FioResults;
pub use log::FioColumns;
pub use start::{JobStart, Trust, are_of_several_runs, counts_from_1970, host_and_job, job_starts};
pub use tree::{Tree, double_count_note, tree, tree_over_time, without_repeats};
