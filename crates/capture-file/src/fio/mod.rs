//! fio: its logs of every I/O, its histogram logs, its JSON, and what they say about each other.

pub mod beside;
pub mod hist;
pub mod json;
pub mod log;
pub mod name;
pub mod results;
mod start;
pub mod threads;

pub use beside::FioResults;
pub use log::FioColumns;
pub use start::{JobStart, Trust, are_of_several_runs, counts_from_1970, host_and_job, job_starts};
