//! When a recording starts a new file, and how much of it is kept.

use crate::Failure;
use latscope_event::{parse_duration, parse_size};

/// When a recording starts a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotate {
    /// After so many nanoseconds.
    Time(u64),
    /// Before it passes so many bytes.
    Bytes(u64),
}

impl Rotate {
    /// A smaller file would hold little more than its header and its account.
    pub const LEAST_BYTES: u64 = 32 << 10;
}

/// How much of a recording is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    Files(usize),
    Bytes(u64),
}

/// `1h` or `100MiB`.
pub fn rotate(text: &str) -> Result<Rotate, Failure> {
    match (parse_duration(text), parse_size(text)) {
        (Err(_), Ok(bytes @ Rotate::LEAST_BYTES..)) => Ok(Rotate::Bytes(bytes)),
        (Err(_), Ok(1..)) => Err(Failure::Usage(format!("--rotate {text} is too small; a file takes at least 32KiB."))),
        _ => super::folding::duration("--rotate", &Some(text.into())).map(|ns| Rotate::Time(ns.unwrap_or(u64::MAX))),
    }
}

/// `24` files or `2GiB`.
pub fn keep(text: &str) -> Result<Keep, Failure> {
    match (text.parse(), parse_size(text)) {
        (Ok(0), _) | (_, Ok(0)) => Err(Failure::Usage("--keep must leave at least one file.".into())),
        (Ok(files), _) => Ok(Keep::Files(files)),
        (_, Ok(bytes)) if bytes < 2 * Rotate::LEAST_BYTES => {
            Err(Failure::Usage(format!("--keep {text} is too small; two files take at least 64KiB.")))
        }
        (_, Ok(bytes)) => Ok(Keep::Bytes(bytes)),
        _ => Err(Failure::Usage(format!("--keep {text} is neither a number of files nor a size such as 2GiB."))),
    }
}
