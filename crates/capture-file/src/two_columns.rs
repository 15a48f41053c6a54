//! Two columns of numbers, time and latency.

use crate::input::Input;
use crate::{Detected, Error, ReadOptions, Sink};
use latscope_event::{Context, FieldSet};

/// The fields of a two-column file; the third column is a label.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(latscope_event::Field::Job);

/// Units of the columns.
#[derive(Clone, Debug, Default)]
pub struct TwoColumns {}

pub fn detect(_head: &[u8]) -> Detected {
    Detected::No
}

pub fn read(_input: Input, _options: &ReadOptions, _sink: &mut Sink) -> Result<Context, Error> {
    unreachable!()
}
