//! The labs that come with the program.

use super::Lab;

/// Name and text of each.
pub const PRESETS: [(&str, &str); 4] = [
    ("storage", include_str!("../../experiments/storage.toml")),
    ("etcd", include_str!("../../experiments/etcd.toml")),
    ("commit", include_str!("../../experiments/commit.toml")),
    ("curve", include_str!("../../experiments/curve.toml")),
];

impl Lab {
    /// The lab of this name that comes with the program.
    pub fn preset(name: &str) -> Option<Lab> {
        let (name, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        Lab::parse(name, name, text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenSync, Operation};
    use std::time::Duration;

    #[test]
    fn every_preset_can_be_read() {
        for (name, text) in PRESETS {
            let lab = Lab::parse(name, name, text).unwrap();
            assert_eq!(Lab::preset(name), Some(lab));
        }
        assert_eq!(Lab::preset("none"), None);
    }

    #[test]
    fn storage_is_what_it_is_known_for() {
        let lab = Lab::preset("storage").unwrap();
        let [paced, sustained, direct] = &lab.experiments[..] else { panic!("three experiments") };
        assert_eq!((paced.rate, paced.work.size, paced.turn), (Some(1000.0), 1024, Duration::from_secs(60)));
        assert_eq!((sustained.rate, sustained.work.size, sustained.work.direct), (None, 102_400, false));
        assert_eq!((direct.work.direct, direct.work.open_sync), (true, OpenSync::Sync));
        assert!(lab.experiments.iter().all(|experiment| experiment.work.operation == Operation::Write));
    }
}
