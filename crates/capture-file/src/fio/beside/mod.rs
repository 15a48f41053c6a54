//! The JSON beside a log of fio: which results a log belongs to, and what they say of it.
//!
//! A log belongs to the results that are of its host (as `fio --client` writes them), else to those that are called like it
//! (as CBT does, which keeps them twice), else to those whose options or jobs name it, else to the only ones in the folder,
//! unless their options name other logs. Its number is that of the thread among them. pbench keeps the results of all hosts
//! in `clients/` or above it.

use super::name::{
    LogName, above_clients, clients_of, folder_of, host_of_results, is_called, may_be_results,
    without_compressed_copies,
};
use super::results::{LIMIT, Results, detect};
use super::threads::{Host, LOGS_OF_LATENCIES};
use crate::Detected;
use crate::input::Input;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How it is known that a log is complete.
pub const AS_COUNTED: &str = "as many I/Os as the JSON counts";

/// fio's JSON in the folders of logs. Each file is parsed once, when a log first asks for it, and kept as long as this and its
/// clones are: make one for what is read together.
#[derive(Clone, Default, Debug)]
pub struct FioResults(Arc<Mutex<Known>>);

#[derive(Default, Debug)]
struct Known {
    folders: BTreeMap<PathBuf, Arc<[Arc<Report>]>>,
    highest: BTreeMap<PathBuf, Arc<Highest>>,
}

/// The highest number of the logs of a host that belong to some results.
type Highest = BTreeMap<(Run, Option<String>), u32>;

/// A JSON, and one host of those in it.
pub type Run = (PathBuf, Option<String>);

/// What a JSON says of logs.
#[derive(Debug)]
pub struct Report {
    pub file: PathBuf,
    /// By host; under no name those that fio ran itself.
    pub hosts: BTreeMap<Option<String>, Host>,
    /// What its logs are called, where the options give it.
    pub prefixes: BTreeSet<String>,
    /// Whether there are histograms in it (`json+`).
    pub has_histograms: bool,
    jobs: BTreeSet<String>,
    version: Option<(u32, u32)>,
}

/// The JSON that a log belongs to.
pub struct Found {
    /// More than one where they are called alike, as CBT keeps them twice. Never empty.
    pub reports: Vec<Arc<Report>>,
    /// Under which name the log's host stands in them.
    pub host: Option<String>,
    by: By,
}

/// Why results are taken for those of a log, the surest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Host,
    Name,
    Options,
    /// There are no others.
    Lack,
}

/// What the results say of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// `log_hist_msec` of its job.
    pub hist_ms: Option<u64>,
    /// The completions of its job, or of all jobs, where they share one log; none where jobs are reported as a group, so that
    /// it is not known which of them are this one's.
    pub ios: Option<u64>,
    /// Whether they report an error of its job, or of one that shares the log.
    pub failed: bool,
}

impl Found {
    pub fn run(&self) -> Run {
        (self.reports[0].file.clone(), self.host.clone())
    }

    /// What they say of the host; none when they contradict each other.
    pub fn host(&self) -> Option<&Host> {
        agreed(self.reports.iter().map(|report| report.hosts.get(&self.host)))?
    }
}

impl FioResults {
    /// What a log belongs to, if that can be known.
    pub fn of_log(&self, file: &Path, name: &LogName) -> Option<Found> {
        let all = self.in_folder(folder_of(file)?);
        let found = of_host(&all, name).or_else(|| local(&all, name));
        let above = || of_host(&self.in_folder(clients_of(file)?), name);
        found.or_else(above).or_else(|| of_host(&self.in_folder(above_clients(file)?), name))
    }

    /// All JSON of a folder, each once, whether it is compressed or not.
    pub fn in_folder(&self, folder: &Path) -> Arc<[Arc<Report>]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let entries = fs::read_dir(folder).into_iter().flatten();
            let files = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|file| may_be_results(file));
            let (mut files, _) = without_compressed_copies(files.collect());
            files.sort();
            files.into_iter().filter_map(Report::read).map(Arc::new).collect()
        };
        Arc::clone(known.folders.entry(folder.to_path_buf()).or_insert_with(read))
    }

    /// The highest number of the logs of a host in the folder of a log that are of the same run.
    pub fn highest_number(&self, log: &Path, run: Run, host: Option<&str>) -> u32 {
        let Some(folder) = folder_of(log) else { return 0 };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().highest.get(folder).cloned();
        let numbers = before.unwrap_or_else(|| {
            let numbers = Arc::new(self.highest_numbers(folder));
            known().highest.insert(folder.to_path_buf(), Arc::clone(&numbers));
            numbers
        });
        numbers.get(&(run, host.map(str::to_string))).copied().unwrap_or(0)
    }

    fn highest_numbers(&self, folder: &Path) -> Highest {
        let mut numbers = Highest::new();
        for file in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(name) = LogName::parse(&file) else { continue };
            if let (Some(number), Some(found)) = (name.number, self.of_log(&file, &name)) {
                let highest = numbers.entry((found.run(), name.host)).or_insert(0);
                *highest = number.max(*highest);
            }
        }
        numbers
    }

    /// What the results say of a log beyond its start. Nothing where it belongs to none, where they contradict each other, or
    /// where nothing in them names it.
    pub fn facts(&self, log: &Path) -> Facts {
        self.known_facts(log).unwrap_or_default()
    }

    fn known_facts(&self, log: &Path) -> Option<Facts> {
        let name = LogName::parse(log)?;
        let found = self.of_log(log, &name).filter(|found| found.by != By::Lack)?;
        let host = found.host()?;
        let highest = || self.highest_number(log, found.run(), name.host.as_deref());
        let entry = name.number.and_then(|number| host.single(number, highest));
        // Of several hosts one may have left its results here.
        let is_clear = host.is_one_server && (found.by != By::Options || name.host.is_none());
        let ios = match name.number {
            None => host.entries.iter().try_fold(0u64, |sum, entry| sum.checked_add(entry.ios?)),
            Some(_) => entry.and_then(|entry| entry.ios),
        };
        let of_all = || agreed(host.entries.iter().map(|entry| entry.hist_ms)).flatten();
        let hist_ms = entry.map_or_else(of_all, |entry| entry.hist_ms);
        let failed =
            is_clear && entry.map_or_else(|| host.entries.iter().any(|entry| entry.failed), |entry| entry.failed);
        Some(Facts { hist_ms, ios: ios.filter(|_| is_clear), failed })
    }

    /// The version of fio that wrote a log, major and minor: as the results say that it belongs to or that are called like it,
    /// whatever jobs they are of, else all those in the same folder, or above the folders of clients. None when they say
    /// nothing or contradict each other.
    pub fn version(&self, log: &Path) -> Option<(u32, u32)> {
        let name = LogName::parse(log)?;
        let of = |reports: &[&Arc<Report>]| agreed(reports.iter().filter_map(|report| report.version));
        let found = self.of_log(log, &name).and_then(|found| of(&found.reports.iter().collect::<Vec<_>>()));
        let in_folder = |folder: Option<&Path>| {
            let reports = self.in_folder(folder?);
            let (called, others): (Vec<_>, Vec<_>) = reports.iter().partition(|report| is_called(&report.file, &name));
            of(if called.is_empty() { &others } else { &called })
        };
        found.or_else(|| in_folder(folder_of(log))).or_else(|| in_folder(above_clients(log)))
    }
}

impl Report {
    /// Reads a file; none when it is no JSON of fio, or damaged.
    fn read(file: PathBuf) -> Option<Report> {
        // A pipe is nobody's to be emptied.
        file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= LIMIT)?;
        let mut input = Input::open(&file, None).ok()?;
        if detect(input.head()) != Detected::Yes {
            return None;
        }
        let results = Results::read(&mut input).ok()?;
        let mut report = Report {
            file,
            hosts: BTreeMap::new(),
            prefixes: BTreeSet::new(),
            has_histograms: results.jobs.iter().any(|job| job.has_histograms()),
            jobs: results.jobs.iter().filter_map(|job| job.name.clone()).collect(),
            version: results.version_number(),
        };
        let mut of_hosts = BTreeMap::<_, Vec<_>>::new();
        for job in &results.jobs {
            let logs = LOGS_OF_LATENCIES.iter().filter_map(|name| results.option(job, name));
            // The path of a prefix is relative to where fio ran; without one, logs are called like their job.
            let prefixes = logs.map(|log| log.rsplit('/').next().unwrap_or_default().to_string());
            let named = |prefix: String| if prefix.is_empty() { job.name.clone() } else { Some(prefix) };
            report.prefixes.extend(prefixes.filter_map(named));
            of_hosts.entry(job.hostname.clone()).or_default().push(job);
        }
        report.hosts = of_hosts.into_iter().map(|(host, jobs)| (host, Host::new(&results, &jobs))).collect();
        Some(report)
    }

    /// Whether the log is called like this, or by the options or a job of it.
    fn names(&self, log: &LogName) -> bool {
        self.prefixes.contains(&log.prefix) || self.jobs.contains(&log.prefix)
    }
}

fn of_host(all: &[Arc<Report>], name: &LogName) -> Option<Found> {
    let host = Some(name.host.clone()?);
    let mut having = all.iter().filter(|report| report.hosts.contains_key(&host));
    let report = having.next().filter(|_| having.next().is_none())?.clone();
    Some(Found { reports: vec![report], host, by: By::Host })
}

/// Of those that fio ran itself: what is called like the log, else what names it, else the only one.
fn local(all: &[Arc<Report>], name: &LogName) -> Option<Found> {
    let pick = |by: By, fits: &dyn Fn(&Report) -> bool| {
        let fitting = all.iter().filter(|report| report.hosts.contains_key(&None) && fits(report));
        let reports: Vec<_> = fitting.cloned().collect();
        (!reports.is_empty()).then_some(Found { reports, host: None, by })
    };
    let may_be = |report: &Report| host_of_results(&report.file).is_none_or(|host| name.host == Some(host));
    let called = pick(By::Name, &|report| is_called(&report.file, name));
    let naming = || pick(By::Options, &|report| may_be(report) && report.names(name));
    let single = || pick(By::Lack, &|report| all.len() == 1 && may_be(report) && report.prefixes.is_empty());
    called.or_else(naming).or_else(single)
}

/// The first, where all others are the same.
fn agreed<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|first| all.all(|other| other == *first))
}

#[cfg(test)]
mod tests;
