//! Files that hold what others hold too.

use super::identity;
use crate::fio::FioResults;
use crate::fio::name::{LogKind, LogName, folder_of, may_be_results, plain_name};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The files each once, however they are called, in their order; and those that were given again.
pub fn without_repeats(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut seen = BTreeSet::new();
    // A pipe is another one each time, and two ends of the same have no more in them than one.
    let is_first = |file: &PathBuf| match identity(file) {
        Some(identity) if file.is_file() || file.is_dir() => seen.insert(identity),
        _ => true,
    };
    files.into_iter().partition(is_first)
}

/// A sentence about logs that are about the same I/Os (completion, total and submission latency and histograms of one job, or
/// one and its compressed copy; also the histograms of the JSON that they belong to), all of which were asked for.
pub fn double_count_note(files: &[PathBuf], beside: &FioResults) -> Option<String> {
    let mut jobs = BTreeMap::<_, Vec<&PathBuf>>::new();
    for file in files {
        let Some(name) = LogName::parse(file) else { continue };
        let is_empty = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
        if !is_empty && !matches!(name.kind, LogKind::Bandwidth | LogKind::Iops) {
            jobs.entry((file.parent(), name.prefix, name.host, name.number)).or_default().push(file);
        }
    }
    // What no JSON was given for need not be looked for.
    let json: Vec<&PathBuf> = files.iter().filter(|file| may_be_results(file)).collect();
    if !json.is_empty() {
        jobs.values_mut().for_each(|logs| logs.extend(json_of(logs[0], &json, beside)));
    }
    let times = jobs.values().map(Vec::len).max().filter(|&times| times > 1)?;
    let twice: Vec<_> = jobs.values().filter(|files| files.len() > 1).collect();
    let names: Vec<_> = twice.first()?.iter().map(|file| file.display().to_string()).collect();
    let others = match twice.len() - 1 {
        0 => String::new(),
        more => format!(", and likewise for {more} more jobs"),
    };
    Some(format!(
        "{} are about the same I/Os{others}, so these count {times} times. Give only one kind of log (_clat), or \
         their folder.",
        names.join(" and ")
    ))
}

/// Which of these JSON have histograms of the I/Os of a log.
fn json_of<'a>(log: &Path, json: &[&'a PathBuf], beside: &FioResults) -> Vec<&'a PathBuf> {
    let found = LogName::parse(log).and_then(|name| beside.of_log(log, &name));
    let reports = found.into_iter().flat_map(|found| found.reports).filter(|report| report.has_histograms);
    // Of a report and its compressed copy either may be given; the folder may go by another name.
    let place = |file: &Path| (folder_of(file).and_then(identity), file_name_of(file));
    let reports: Vec<_> = reports.map(|report| place(&report.file)).collect();
    json.iter().copied().filter(|file| reports.contains(&place(file))).collect()
}

fn file_name_of(file: &Path) -> Option<OsString> {
    plain_name(file).file_name().map(OsStr::to_os_string)
}
