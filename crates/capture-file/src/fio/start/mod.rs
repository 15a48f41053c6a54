//! What fio's JSON beside its logs tells of them: when their jobs began (`job_start` from fio 3.36 on, before that the end of
//! the run and the run time), what clock their times are of, whether the JSON tells of the same I/Os, and which version wrote them.

mod results;

use crate::Detected;
use crate::fio::json;
use crate::fio::name::{LogName, host_of_folders};
use crate::input::Input;
pub use results::{Jobs, Results};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the results beside a log tell of its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobStart {
    /// When the job began, nanoseconds since the Unix epoch.
    pub ns: Option<i64>,
    /// How far it can be relied upon.
    pub trust: Trust,
    /// Its times count from the zero of another clock than that of 1970 (`log_alternate_epoch_clock_id`), not from the start
    /// of the job.
    pub other_epoch: bool,
    /// The run and host: logs of which this is the same are of one clock.
    pub run: usize,
}

/// How far the start of a job can be relied upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// fio told it.
    Told,
    /// It is the end of the run less the run time.
    Estimated,
    /// It is that of another job of the same run and host: which of them the log is of cannot be told.
    Assumed,
}

/// For each file what the JSON beside it tells of its start; none where there is none, where two contradict each other, or
/// where the file is no log of fio.
///
/// A log belongs to the results that are of its host (as `fio --client` writes them), else to those that are called like it
/// (as CBT does, which keeps them twice), else to those whose options name it, else to the only ones in the folder,
/// unless their options name other logs. Its number
/// is that of the thread among them. pbench keeps the results of all hosts in `clients/` or above it.
pub fn job_starts(files: &[PathBuf]) -> Vec<Option<JobStart>> {
    let mut beside = Beside::default();
    let mut runs: Vec<Run> = Vec::new();
    let mut highest = BTreeMap::<PathBuf, BTreeMap<Run, u32>>::new();
    let mut start = |file: &PathBuf| {
        let name = LogName::of(file)?;
        let found = beside.of_log(file, &name)?;
        let jobs = found.jobs()?;
        let key = found.run();
        let folder = folder_of(file)?;
        let highest = || {
            let numbers = highest.entry(folder.to_path_buf()).or_insert_with(|| beside.highest_numbers(folder));
            numbers.get(&key).copied().unwrap_or(0)
        };
        let (start, trust) = match jobs.start_of(name.number, highest) {
            Some(start) => (Some(start), if start.estimated { Trust::Estimated } else { Trust::Told }),
            None => (jobs.earliest(), Trust::Assumed),
        };
        let run = runs.iter().position(|known| *known == key).unwrap_or_else(|| {
            runs.push(key);
            runs.len() - 1
        });
        Some(JobStart { ns: start.map(|start| start.ns), trust, other_epoch: jobs.have_other_epoch(), run })
    };
    files.iter().map(&mut start).collect()
}

/// Whether the logs are of more than one run of fio, so that they need not have begun together.
pub fn are_of_several_runs(files: &[PathBuf]) -> bool {
    let run = |file: &PathBuf| {
        let name = LogName::of(file)?;
        Some((file.parent().map(Path::to_path_buf), name.prefix, name.host))
    };
    let mut runs = files.iter().filter_map(run);
    let first = runs.next();
    runs.any(|run| first.as_ref() != Some(&run))
}

/// Host and job that the name of a log tells; the job as it stands in the field `job`, where the log is of one.
pub fn host_and_job(file: &Path) -> Option<(Option<String>, Option<String>)> {
    let name = LogName::of(file)?;
    let job = name.number.map(|number| name.job(number));
    Some((name.host, job))
}

/// Whether the times of a log of fio count from 1970, by its first row: milliseconds after September 2001 are no time since a
/// start. None when it is no log, or its first row is not of text.
pub fn counts_from_1970(file: &Path) -> Option<bool> {
    LogName::of(file)?;
    let input = Input::open(file, None).ok()?;
    let head = input.head().trim_ascii_start();
    if head.is_empty() {
        return Some(false);
    }
    let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ms: u64 = std::str::from_utf8(&head[..digits]).ok()?.parse().ok()?;
    Some(ms > 1_000_000_000_000)
}

/// The JSON that a log belongs to.
pub struct Found {
    /// More than one where they are called alike, as CBT keeps them twice.
    pub results: Vec<Rc<Results>>,
    /// Under which name the log's host stands in them.
    pub host: Option<String>,
}

/// A JSON, and one host of those in it.
type Run = (PathBuf, Option<String>);

impl Found {
    fn run(&self) -> Run {
        (self.results[0].file.clone(), self.host.clone())
    }

    /// What they tell of the host; none when they contradict each other.
    fn jobs(&self) -> Option<&Jobs> {
        agreed(self.results.iter().map(|results| results.hosts.get(&self.host)))?
    }
}

/// The JSON in the folders of logs, read when first needed.
#[derive(Default)]
pub struct Beside(BTreeMap<PathBuf, Vec<Rc<Results>>>);

impl Beside {
    /// What a log belongs to, if that can be told.
    pub fn of_log(&mut self, file: &Path, name: &LogName) -> Option<Found> {
        let all = self.in_folder(folder_of(file)?);
        let found = of_host(all, name).or_else(|| local(all, name));
        let mut above = || of_host(self.in_folder(clients_of(file)?), name);
        found.or_else(&mut above).or_else(|| of_host(self.in_folder(above_clients(file)?), name))
    }

    /// All JSON of a folder.
    pub fn in_folder(&mut self, folder: &Path) -> &[Rc<Results>] {
        let read = || {
            let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
            let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.sort();
            files.into_iter().filter_map(Results::read).map(Rc::new).collect()
        };
        self.0.entry(folder.to_path_buf()).or_insert_with(read)
    }

    /// The highest number of the logs in a folder, by what they belong to.
    fn highest_numbers(&mut self, folder: &Path) -> BTreeMap<Run, u32> {
        let mut numbers = BTreeMap::new();
        let Ok(entries) = fs::read_dir(folder) else { return numbers };
        for file in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(name) = LogName::of(&file) else { continue };
            if let (Some(number), Some(found)) = (name.number, self.of_log(&file, &name)) {
                let highest = numbers.entry(found.run()).or_insert(0);
                *highest = number.max(*highest);
            }
        }
        numbers
    }
}

fn of_host(all: &[Rc<Results>], name: &LogName) -> Option<Found> {
    let host = Some(name.host.clone()?);
    let mut having = all.iter().filter(|results| results.hosts.contains_key(&host));
    let results = having.next().filter(|_| having.next().is_none())?.clone();
    Some(Found { results: vec![results], host })
}

/// Of those that fio ran itself: what is called like the log, else what names it, else the only one.
fn local(all: &[Rc<Results>], name: &LogName) -> Option<Found> {
    let pick = |fits: &dyn Fn(&Results) -> bool| {
        let all = all.iter().filter(|results| results.hosts.contains_key(&None) && fits(results));
        Some(all.cloned().collect::<Vec<_>>()).filter(|results| !results.is_empty())
    };
    let called = pick(&|results| is_called(&results.file, name));
    let may_be = |results: &Results| host_of_results(&results.file).is_none_or(|host| name.host == Some(host));
    let naming = || pick(&|results| may_be(results) && results.prefixes.contains(&name.prefix));
    let is_other = |results: &Results| !results.prefixes.is_empty() && !results.prefixes.contains(&name.prefix);
    let single = || pick(&|results| all.len() == 1 && may_be(results) && !is_other(results));
    Some(Found { results: called.or_else(naming).or_else(single)?, host: None })
}

/// The host in the name of results: CBT's `output.0.vm1` and `json_output.0.vm1`, and `run.json.vm1`, as rpdcp names copies.
pub fn host_of_results(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_string_lossy();
    let name = [".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
    let name = name.strip_prefix("json_").unwrap_or(name);
    if let Some((_, host)) = name.rsplit_once(".json.") {
        return Some(host.to_string());
    }
    let (volume, host) = name.strip_prefix("output.")?.split_once('.')?;
    volume.bytes().all(|byte| byte.is_ascii_digit()).then(|| host.to_string())
}

/// The first, where all others are the same.
pub fn agreed<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|first| all.all(|other| other == *first))
}

/// The version of fio that wrote a log, major and minor: as the results tell it that are called like the log, else those
/// in the same folder. None when they tell nothing or contradict each other.
pub fn version_of(log: &Path) -> Option<(u32, u32)> {
    let name = LogName::of(log)?;
    let beside = |folder: &Path| -> Option<(u32, u32)> {
        let entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let files = entries.filter(|file| may_be_results(file) && file.is_file());
        let (called, others): (Vec<_>, Vec<_>) = files.partition(|file| is_called(file, &name));
        let files = if called.is_empty() { others } else { called };
        agreed(files.iter().take(LOOKED_AT).filter_map(|file| version(file)))
    };
    beside(folder_of(log)?).or_else(|| beside(above_clients(log)?))
}

/// Of so many results the version is looked at.
pub const LOOKED_AT: usize = 16;

/// The version at the beginning of a JSON, such as `fio-3.33` or `fio-3.16-31-g8c302eb9`.
fn version(file: &Path) -> Option<(u32, u32)> {
    let input = Input::open(file, None).ok()?;
    let head = input.head();
    if json::detect(head) != Detected::Yes {
        return None;
    }
    let rest = String::from_utf8_lossy(&head[memchr::memchr(b'{', head)?..]);
    let version = rest.split('"').nth(3)?.strip_prefix("fio-")?;
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

pub fn folder_of(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// The folder `clients` that holds the folder of a host in which a file lies.
fn clients_of(file: &Path) -> Option<&Path> {
    file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "clients"))
}

/// The folder that holds `clients/<host>/` in which a file lies.
pub fn above_clients(file: &Path) -> Option<&Path> {
    folder_of(clients_of(file)?)
}

/// CBT calls the results of `output.0_clat.1.log.vm1` `json_output.0.vm1`, others those of `run_clat.1.log` `run.json`.
pub fn is_called(file: &Path, log: &LogName) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_prefix("json_").unwrap_or(&name);
    let of_folder = host_of_folders(file);
    match log.host.as_deref() {
        Some(host) if of_folder.as_deref() != Some(host) => {
            let name = name.strip_suffix(host).and_then(|name| name.strip_suffix('.')).unwrap_or_default();
            name.strip_suffix(".json").unwrap_or(name) == log.prefix
        }
        _ => name.strip_suffix(".json").unwrap_or(name) == log.prefix,
    }
}

/// Whether a file may hold fio's JSON, by its name.
pub fn may_be_results(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let called_so = name.contains("json") || name.starts_with("output.") || name.contains("fio-result");
    called_so && LogName::of(file).is_none()
}

#[cfg(test)]
mod tests;
