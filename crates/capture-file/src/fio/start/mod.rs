//! When the jobs of logs started, by fio's JSON beside them: `job_start` from fio 3.36 on, before that the end of the run and the
//! run time; and what clock their times are of.

use super::beside::{FioResults, Run};
use super::name::LogName;
use crate::input::Input;
use std::path::{Path, PathBuf};

/// What the results beside a log say of its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobStart {
    /// When the job started, nanoseconds since the Unix epoch.
    pub ns: Option<i64>,
    /// How well that is known.
    pub trust: Trust,
    /// Its times count from the zero of another clock than that of 1970 (`log_alternate_epoch_clock_id`), not from the start
    /// of the job.
    pub other_epoch: bool,
    /// The run and host: logs of which this is the same are of one clock.
    pub run: usize,
}

/// How well the start of a job is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// fio recorded it.
    Known,
    /// It is the end of the run less the run time.
    Estimated,
    /// It is that of another job of the same run and host: which of them the log is of cannot be known.
    Assumed,
}

/// For each file when its job started, by the results that it belongs to; none where it belongs to none, where two contradict
/// each other, or where the file is no log of fio.
pub fn job_starts(files: &[PathBuf], results: &FioResults) -> Vec<Option<JobStart>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut start = |file: &PathBuf| {
        let name = LogName::parse(file)?;
        let found = results.of_log(file, &name)?;
        let host = found.host()?;
        let highest = || results.highest_number(file, found.run(), name.host.as_deref());
        let (start, trust) = match host.start(name.number, highest) {
            Some(start) => (Some(start), if start.is_estimated { Trust::Estimated } else { Trust::Known }),
            None => (host.earliest(), Trust::Assumed),
        };
        let run = runs.iter().position(|known| *known == found.run()).unwrap_or_else(|| {
            runs.push(found.run());
            runs.len() - 1
        });
        Some(JobStart { ns: start.map(|start| start.ns), trust, other_epoch: host.has_other_epoch(), run })
    };
    files.iter().map(&mut start).collect()
}

/// Whether the logs are of more than one run of fio, so that they need not have started together.
pub fn are_of_several_runs(files: &[PathBuf]) -> bool {
    let run = |file: &PathBuf| {
        let name = LogName::parse(file)?;
        Some((file.parent().map(Path::to_path_buf), name.prefix, name.host))
    };
    let mut runs = files.iter().filter_map(run);
    let first = runs.next();
    runs.any(|run| first.as_ref() != Some(&run))
}

/// Host and job that the name of a log gives; the job as it stands in the field `job`, where the log is of one.
pub fn host_and_job(file: &Path) -> Option<(Option<String>, Option<String>)> {
    let name = LogName::parse(file)?;
    let job = name.number.map(|number| name.job(number));
    Some((name.host, job))
}

/// Whether the times of a log of fio count from 1970, by its first row: milliseconds after September 2001 are no time since a
/// start. None when it is no log, or its first row is not of text.
pub fn counts_from_1970(file: &Path) -> Option<bool> {
    LogName::parse(file)?;
    let input = Input::open(file, None).ok()?;
    let head = input.head().trim_ascii_start();
    if head.is_empty() {
        return Some(false);
    }
    let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ms: u64 = std::str::from_utf8(&head[..digits]).ok()?.parse().ok()?;
    Some(ms > 1_000_000_000_000)
}

#[cfg(test)]
mod tests;
