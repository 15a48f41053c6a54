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
    /// Reads a file; a missing file is an empty state. So is a damaged one: it is moved aside, and a sentence says so.
    ///
    /// # Errors
    /// When it cannot be read, or not be moved.
    pub fn read(path: &Path) -> io::Result<(Saved, Option<String>)> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Saved::default(), None)),
            bytes => bytes?,
        };
        if let Ok(saved) = serde_json::from_slice(&bytes) {
            return Ok((saved, None));
        }
        let aside = durable::set_aside(path)?;
        let (path, aside) = (path.display(), aside.display());
        let said = format!(
            "{path} is damaged: it is now {aside}. What still holds fires again; what ended meanwhile is not reported."
        );
        Ok((Saved::default(), Some(said)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (path, aside) = (folder.path().join("alerts.json"), folder.path().join("alerts.json.damaged"));
        for text in ["", "{}", "{\"alerts\": 1", "[1]"] {
            std::fs::write(&path, text).unwrap();
            let (saved, said) = Saved::read(&path).unwrap();
            assert_eq!(saved, Saved::default());
            assert!(said.unwrap().contains("alerts.json.damaged") && !path.exists());
            assert_eq!(std::fs::read_to_string(&aside).unwrap(), text);
        }
        assert_eq!(Saved::read(&path).unwrap(), (Saved::default(), None));
        Saved::default().write(&path).unwrap();
        assert_eq!(Saved::read(&path).unwrap(), (Saved::default(), None));
    }
}
