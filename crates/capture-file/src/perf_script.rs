//! Text of `perf script`.

use crate::input::Input;
use crate::{Detected, Error, ReadOptions, Sink, block_pairs};
use latscope_event::{Context, FieldSet};

/// The fields that perf script text can fill.
pub const FILLS: FieldSet = block_pairs::FILLS;

pub fn detect(_head: &[u8]) -> Detected {
    Detected::No
}

pub fn read(_input: Input, _options: &ReadOptions, _sink: &mut Sink) -> Result<Context, Error> {
    unreachable!()
}
