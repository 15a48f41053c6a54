//! Stacks of threads that wait, and of threads that run.

mod events;
mod jvm;
mod lottery;
mod names;
mod pace;
mod places;
mod programs;
mod returns;
mod rows;
mod shared;
mod timer;
mod waits;

pub use names::{Names, Stack};
pub use returns::{Over, Returns};
pub use shared::{Parts, Record, State};

use crate::{Error, Events, Options, StackKinds};
use latscope_event::{Field, FieldSet};

/// The fields that a sample fills.
pub const FILLS: FieldSet = FieldSet::ALWAYS
    .with(&[
        Field::Kind,
        Field::Name,
        Field::Device,
        Field::Dev,
        Field::Pid,
        Field::Tid,
        Field::Comm,
        Field::Process,
        Field::Fd,
        Field::FdType,
        Field::Path,
        Field::Container,
        Field::Cgroup,
        Field::State,
        Field::InIowait,
        Field::WaitClass,
        Field::StackQuality,
        Field::StackSource,
        Field::Stack,
        Field::SampleWeight,
    ])
    .union(BY_NAME);
/// Those that are filled when they are asked for by name.
const BY_NAME: FieldSet = FieldSet::OF_PROCESS.with(&[
    Field::ContainerName,
    Field::ContainerImage,
    Field::Cpu,
    Field::DiskModel,
    Field::Rotational,
]);

/// Starts a capture.
pub fn events(options: &Options, kinds: StackKinds) -> Result<Box<dyn Events>, Error> {
    Ok(Box::new(events::StackEvents::start(options, kinds)?))
}
