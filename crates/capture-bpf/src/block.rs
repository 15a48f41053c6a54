//! Block requests.

mod account;
mod devices;
mod events;
mod histograms;
mod layout;
mod letters;
mod stacks;
mod statistics;
#[cfg(test)]
mod tests;
mod waiting;

use crate::loader::Opened;
use crate::probe::Kernel;
use crate::{Error, Events, Histograms, Options};
use latscope_event::{Field, FieldSet};
use libbpf_rs::MapType;

pub use devices::{as_events, none_matches, without_requests};

/// The fields that a block request fills.
pub const FILLS: FieldSet = FieldSet::TRACED
    .with(&[Field::Process, Field::Queue, Field::Container, Field::SampleWeight])
    .union(STACKS)
    .union(BY_NAME);
/// Those of requests whose stacks are captured.
const STACKS: FieldSet =
    FieldSet::EMPTY.with(&[Field::WaitClass, Field::StackQuality, Field::StackSource, Field::Stack]);
/// Those that are filled when they are asked for by name.
const BY_NAME: FieldSet = FieldSet::OF_PROCESS.with(&[
    Field::ContainerName,
    Field::ContainerImage,
    Field::Cgroup,
    Field::Cpu,
    Field::DiskModel,
    Field::Rotational,
]);
/// The fields of its histogram keys.
pub const KEYS: FieldSet =
    FieldSet::ALWAYS.with(&[Field::Device, Field::Dev, Field::Kind, Field::DiskModel, Field::Rotational]);

pub fn events(options: &Options) -> Result<Box<dyn Events>, Error> {
    let mut kernel = Kernel::look()?;
    kernel.need_map(MapType::RingBuf)?;
    kernel.need_tracepoint("block_rq_complete")?;
    Ok(Box::new(events::BlockEvents::start(&mut kernel, Opened::open(layout::OBJECT)?, options)?))
}

pub fn histograms(options: &Options) -> Result<Box<dyn Histograms>, Error> {
    let mut kernel = Kernel::look()?;
    kernel.need_tracepoint("block_rq_complete")?;
    Ok(Box::new(histograms::BlockHistograms::start(&mut kernel, Opened::open(layout::OBJECT)?, options)?))
}
