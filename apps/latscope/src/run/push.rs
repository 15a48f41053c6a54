//! Exports of a hub or an agent, while it runs.

use crate::Failure;
use latscope_wire::exports::{Exporter, PushChange, Settings};

/// Opens what is exported.
pub fn open(settings: &Settings) -> Result<Exporter, Failure> {
    Exporter::new(settings.clone()).map_err(|why| Failure::Input(format!("--push: {why}")))
}

/// Prints what becomes of a target.
pub fn report(change: PushChange) {
    match change {
        PushChange::Works(target) => say!("latscope: {target}: pushing"),
        PushChange::Fails(target, why) => say!("latscope: {target}: not pushed: {why}; up to 400,000 values are kept"),
        PushChange::Dropped(target, why) => say!("latscope: {target}: dropped: {why}"),
        PushChange::Refused(why) => say!("latscope: pushed histograms that were not taken: {why}"),
        PushChange::Damaged(why) => say!("latscope: {why}"),
        PushChange::Unwritten(why) => say!("latscope: The state of exports cannot be written: {why}."),
    }
}
