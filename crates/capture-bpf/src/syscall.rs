//! System calls.

use crate::{Error, Events, Histograms, Options};
use latscope_event::{Field, FieldSet};

/// The fields that a system call fills.
pub const FILLS: FieldSet = FieldSet::ALWAYS;
/// The fields of its histogram keys.
pub const KEYS: FieldSet =
    FieldSet::ALWAYS.with(Field::Device).with(Field::Dev).with(Field::Kind).with(Field::Name).with(Field::FdType);

pub fn events(_: &Options) -> Result<Box<dyn Events>, Error> {
    Err(Error::Unsupported("System calls cannot be captured yet.".into()))
}

pub fn histograms(_: &Options) -> Result<Box<dyn Histograms>, Error> {
    Err(Error::Unsupported("System calls cannot be captured yet.".into()))
}
