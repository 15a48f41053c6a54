//! System calls and requests of io_uring.

mod arguments;
mod calls;
mod events;
mod histograms;
mod rows;
mod shared;
mod tracing;
mod waits;

pub use histograms::{KEYS, KEYS_BY_CALL};
pub use shared::FILE_TYPES;
pub use tracing::FILLS;

use crate::{Error, Events, Histograms, Options};

/// Starts a capture of events.
pub fn events(options: &Options) -> Result<Box<dyn Events>, Error> {
    Ok(Box::new(events::CallEvents::start(options)?))
}

/// Starts a capture of histograms.
pub fn histograms(options: &Options) -> Result<Box<dyn Histograms>, Error> {
    Ok(Box::new(histograms::CallHistograms::start(options)?))
}
