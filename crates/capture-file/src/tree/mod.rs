//! Folders of results: plain fio, CBT, pbench, smallfile. What is in them is known by the names of the files; each I/O is
//! counted once, from the best that there is about it.

mod choice;
mod others;
mod twice;

use crate::{Error, Position, blktrace, perf_data, spark_eventlog, strace};
use choice::Choice;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub use twice::{double_count_note, without_repeats};

/// Deeper than any tool nests its results.
const DEEPEST: u32 = 16;

/// The files of a folder that a view should read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// In the order of their names.
    pub files: Vec<PathBuf>,
    /// Sentences about files that are known and left out, as they are about the same I/Os or cannot be read with the others.
    pub left_out: Option<String>,
    /// How many jobs, hosts and files are not read though nothing else is about their I/Os.
    pub missing: u64,
    /// Whether averages over windows are read though there are histograms of the same I/Os.
    pub prefers_averages: bool,
}

/// Looks through a folder; none when the path is no folder, or one that is a recording of its own.
///
/// # Errors
/// When it cannot be read, or holds no result of fio or smallfile.
pub fn tree(folder: &Path) -> Result<Option<Tree>, Error> {
    tree_of(folder, false)
}

/// As [`tree`], for a view that shows when it was slow: averages over windows give that, and histograms of whole jobs do not.
///
/// # Errors
/// As [`tree`].
pub fn tree_over_time(folder: &Path) -> Result<Option<Tree>, Error> {
    tree_of(folder, true)
}

fn tree_of(folder: &Path, over_time: bool) -> Result<Option<Tree>, Error> {
    let is_one = [perf_data::is_recording, latscope_wire::history::is_history, spark_eventlog::is_folder];
    if !folder.is_dir() || is_one.iter().any(|is_one| is_one(folder)) {
        return Ok(None);
    }
    let mut walk = Walk::default();
    // A link to where the folder itself lies leads out of it.
    let top = folder.canonicalize().map_err(|error| Error::io(folder, &error))?;
    walk.seen.extend(top.ancestors().skip(1).filter_map(identity));
    walk.through(folder.to_path_buf(), DEEPEST)?;
    walk.found.sort();
    let choice = Choice::new(walk.found.clone(), over_time);
    let mut files = choice.files();
    let mut traces = traces(folder)?;
    let begun = spark_eventlog::take_begun(&mut traces);
    files.extend(traces);
    if files.is_empty() {
        return Err(Error::new(
            folder.display().to_string(),
            Position::File,
            "This folder has no traces (*.lat), fio logs (*_clat.1.log, *_clat_hist.1.log ...), fio JSON, \
             smallfile results (rsptimes_*.csv), blktrace recordings (*.blktrace.CPU), files of strace -ff or event logs of \
             Spark (app-*), and is not a recording of perf.",
        ));
    }
    let mut notes = choice.notes();
    let is_other = |file: &&PathBuf| !files.contains(file) && !choice.decides_about(file) && !begun.contains(file);
    notes.extend(others::skipped_files_note(folder, walk.found.iter().filter(is_other)));
    notes.extend(spark_eventlog::begun_note(&begun));
    let left_out = (!notes.is_empty()).then(|| format!("{}: {}", folder.display(), notes.join(" ")));
    Ok(Some(Tree { files, left_out, missing: choice.missing(), prefers_averages: choice.prefers_averages() }))
}

/// Traces that lie in a folder: our own of a lab, or the parts of a recording, also of blktrace and `strace -ff`.
fn traces(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = folder.read_dir().map_err(|error| Error::io(folder, &error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_trace = |path: &PathBuf| {
        let is_ours = path.extension().is_some_and(|ending| ending == "lat") && path.is_file();
        is_ours || blktrace::is_of_cpu(path) || strace::is_of_thread(path) || spark_eventlog::is_log(path)
    };
    let mut traces: Vec<PathBuf> = paths.filter(is_trace).collect();
    traces.sort();
    Ok(traces)
}

/// What a path leads to, however it is called.
fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// All files below a folder, each once.
#[derive(Default)]
struct Walk {
    found: Vec<PathBuf>,
    seen: BTreeSet<(u64, u64)>,
}

impl Walk {
    fn through(&mut self, top: PathBuf, deepest: u32) -> Result<(), Error> {
        // What lies in the folder goes by its own name, so links are followed in the end.
        let (mut folders, mut links) = (vec![(top, deepest)], Vec::new());
        loop {
            if let Some((folder, deeper)) = folders.pop() {
                if identity(&folder).is_some_and(|identity| !self.seen.insert(identity)) {
                    continue;
                }
                for entry in std::fs::read_dir(&folder).map_err(|error| Error::io(&folder, &error))? {
                    let path = entry.map_err(|error| Error::io(&folder, &error))?.path();
                    if path.is_symlink() { links.push((path, deeper)) } else { self.take(path, deeper, &mut folders) }
                }
            } else if let Some((link, deeper)) = links.pop() {
                self.take(link, deeper, &mut folders);
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, path: PathBuf, deeper: u32, folders: &mut Vec<(PathBuf, u32)>) {
        if path.is_dir() {
            folders.extend(deeper.checked_sub(1).map(|deeper| (path, deeper)));
        } else if identity(&path).is_some_and(|identity| self.seen.insert(identity)) {
            self.found.push(path);
        }
    }
}
