//! The state of alerts in a file, so that a restart changes nothing.

use super::alert::Alert;
use super::fault::Place;
use super::judge::SavedRule;
use super::queue::SavedQueue;
use super::slo::SavedSlo;
use super::state::State;
use crate::durable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What is saved.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    /// By the name of the rule.
    pub alerts: BTreeMap<String, SavedRule>,
    /// By the name of the objective.
    pub slos: BTreeMap<String, SavedSlo>,
    /// What is wrong beside histograms.
    #[serde(default)]
    pub faults: Vec<(Place, State)>,
    /// All that fires: what no rule knows any more is resolved.
    #[serde(default)]
    pub firing: Option<Vec<Alert>>,
    /// What is to be sent, by the destination.
    pub deliveries: BTreeMap<String, SavedQueue>,
}

impl Saved {
    /// Reads a file; a missing file is an empty state.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn read(path: &Path) -> io::Result<Saved> {
        match std::fs::read(path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Saved::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes a file as a whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        durable::replace(path, &bytes)
    }
}
