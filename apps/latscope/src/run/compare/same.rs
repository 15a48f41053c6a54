//! One measurement twice is no second measurement: two runs of it agree for certain, and nothing follows from that.

use crate::Failure;
use crate::plan::Reading;
use latscope_pipeline::{Subject, Turn};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of each side, by its runs.
type Sides = [(String, Vec<Reading>)];

/// Fails if two runs read one file, by whatever path or link, unless filters choose different events of it.
pub fn refuse_same_files(sides: &Sides) -> Result<(), Failure> {
    let mut seen: Vec<(Identity, &PathBuf, &Reading)> = Vec::new();
    for reading in sides.iter().flat_map(|(_, runs)| runs) {
        let before = seen.len();
        for file in &reading.files {
            let Some(identity) = Identity::read(file) else { continue };
            let again = seen[..before].iter().find(|(known, _, by)| *known == identity && by.filter == reading.filter);
            if let Some((_, first, _)) = again {
                return Err(refusal(first, file, "are the same file"));
            }
            seen.push((identity, file, reading));
        }
    }
    Ok(())
}

/// Fails if two runs hold the same requests: copies, or conversions of one another.
pub fn refuse_same_requests(sides: &Sides, subjects: &[Subject]) -> Result<(), Failure> {
    let readings = sides.iter().flat_map(|(_, runs)| runs);
    let runs: Vec<(&Reading, &Turn)> = readings.zip(subjects.iter().flat_map(|subject| &subject.turns)).collect();
    for (at, (reading, run)) in runs.iter().enumerate() {
        let same = |(by, other): &&(&Reading, &Turn)| by.filter == reading.filter && run.repeats(other);
        if let Some((first, _)) = runs[..at].iter().find(same) {
            let path = |reading: &Reading| reading.files.first().cloned().unwrap_or_default();
            return Err(refusal(&path(first), &path(reading), "have the same requests"));
        }
    }
    Ok(())
}

fn refusal(first: &Path, again: &Path, what: &str) -> Failure {
    let again = if first == again {
        format!("{} is given twice", first.display())
    } else {
        format!("{} and {} {what}", first.display(), again.display())
    };
    Failure::Usage(format!("{again}; every run in a comparison needs a measurement of its own."))
}

/// What a path leads to, however it is called.
#[derive(PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    /// `None` of pipes, which are others each time.
    fn read(path: &Path) -> Option<Identity> {
        let metadata = path.metadata().ok().filter(|metadata| metadata.is_file() || metadata.is_dir())?;
        Some(Identity(metadata.dev(), metadata.ino()))
    }
}
