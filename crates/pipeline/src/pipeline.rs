use crate::{Control, Reading};
use latscope_capture_file::{FioResults, Format};
use std::path::Path;

/// A reading whose folders were looked through and whose formats are known. It may be read several times, unless a pipe or a
/// capture is read.
pub struct Pipeline {
    pub(crate) reading: Reading,
    pub(crate) control: Control,
    /// By file; `None` of what cannot be looked at beforehand, or is not known.
    pub(crate) formats: Vec<Option<Format>>,
    /// Of a folder, averages over windows were chosen rather than histograms of whole jobs.
    pub(crate) takes_averages: bool,
    /// fio's JSON beside its logs, parsed once for all files.
    pub(crate) fio_results: FioResults,
}

/// Where the histograms of a folding come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Some files hold histograms; the events of the others are added.
    Stored,
    /// The kernel counts.
    Kernel,
    /// Every event is read.
    Events,
}

impl Pipeline {
    /// What is read, with the files of folders in place of these.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The format of each file; `None` of what cannot be looked at beforehand, or is not known.
    pub fn formats(&self) -> &[Option<Format>] {
        &self.formats
    }

    /// The first file that holds histograms instead of events.
    pub fn stored_file(&self) -> Option<&Path> {
        let is_stored = |format: &Option<Format>| format.is_some_and(Format::is_series);
        self.formats.iter().position(is_stored).map(|at| &*self.reading.files[at])
    }
}
