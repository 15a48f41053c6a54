//! Folders of results: plain fio, CBT, pbench, smallfile. What is in them is known by the names of the files; each I/O is
//! counted once, from the best that there is about it.

use crate::fio_name::{LogKind, LogName};
use crate::fio_start::may_be_results;
use crate::{Error, Format, fio_log, format_of};
use std::path::{Path, PathBuf};

/// Deeper than any tool nests its results; a loop of links ends here.
const DEEPEST: u32 = 16;

/// The files of a folder that a view should read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// In the order of their names.
    pub files: Vec<PathBuf>,
    /// A sentence about files that are known and left out, as they tell of the same I/Os.
    pub left_out: Option<String>,
}

/// What a file is, the best first: what is known of every I/O, then of every interval, then of the whole job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Clat,
    Lat,
    Smallfile,
    Histograms,
    Json,
    Slat,
    Averages,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            What::Clat => "logs of completion latency",
            What::Lat => "logs of total latency",
            What::Smallfile => "files of response times",
            What::Histograms => "histogram logs",
            What::Json => "JSON results",
            What::Slat => "logs of submission latency",
            What::Averages => "logs of averages (log_avg_msec)",
        }
    }
}

/// Looks through a folder; none when the path is no folder, or one that is a recording of its own.
///
/// # Errors
/// When it cannot be read, or holds no result of fio or smallfile.
pub fn tree(folder: &Path) -> Result<Option<Tree>, Error> {
    if !folder.is_dir() || format_of(folder).is_ok() {
        return Ok(None);
    }
    let mut found = Vec::new();
    walk(folder, DEEPEST, &mut found)?;
    found.sort();
    let Some(best) = found.iter().map(|&(what, _)| what).min() else {
        return Err(Error::new(
            folder.display().to_string(),
            crate::Place::File,
            "This folder is no recording, and there is no log of fio (*_clat.1.log, *_clat_hist.1.log ...), no JSON result \
             of it and no rsptimes_*.csv of smallfile in it.",
        ));
    };
    let (files, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|&(what, _)| what == best);
    let mut kinds: Vec<(What, usize)> = Vec::new();
    for (what, _) in others {
        match kinds.last_mut() {
            Some((last, count)) if *last == what => *count += 1,
            _ => kinds.push((what, 1)),
        }
    }
    let phrases: Vec<_> = kinds.iter().map(|(what, count)| format!("{count} {}", what.words())).collect();
    let left_out = (!phrases.is_empty()).then(|| {
        format!(
            "{}: {} {} are read; left out, since they tell of the same I/Os: {}.",
            folder.display(),
            files.len(),
            best.words(),
            phrases.join(", ")
        )
    });
    Ok(Some(Tree { files: files.into_iter().map(|(_, path)| path).collect(), left_out }))
}

fn walk(folder: &Path, deeper: u32, found: &mut Vec<(What, PathBuf)>) -> Result<(), Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| Error::io(folder, &error))?.path();
        if path.is_dir() {
            if deeper > 0 {
                walk(&path, deeper - 1, found)?;
            }
        } else if let Some(what) = what(&path) {
            found.push((what, path));
        }
    }
    Ok(())
}

fn what(path: &Path) -> Option<What> {
    let name = path.file_name()?.to_str()?;
    if let Some(log) = LogName::of(path) {
        let what = match log.kind {
            LogKind::Clat => What::Clat,
            LogKind::Lat => What::Lat,
            LogKind::Slat => What::Slat,
            LogKind::ClatHist => What::Histograms,
            LogKind::Bandwidth | LogKind::Iops => return None,
        };
        // An empty log is that of a job without such I/O.
        if path.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return None;
        }
        return Some(if what != What::Histograms && fio_log::is_windowed(path) { What::Averages } else { what });
    }
    if name.starts_with("rsptimes_") && name.contains(".csv") {
        return Some(What::Smallfile);
    }
    (may_be_results(path) && format_of(path) == Ok(Format::FioJson)).then_some(What::Json)
}
