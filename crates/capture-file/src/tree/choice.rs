//! Which of the files of a folder are read: for each job the best kind of what is about its I/Os.

use crate::Detected;
use crate::fio::beside::{FioResults, Found, Report};
use crate::fio::log::is_windowed;
use crate::fio::name::{LogKind, LogName, host_of_results, is_called, may_be_results, without_compressed_copies};
use crate::fio::results;
use crate::fio::threads::Unlogged;
use crate::input::Input;
use latscope_event::format_count;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many files are named in a sentence.
const NAMED: usize = 3;

/// What a file is, the best first: what is known of every I/O, then of every interval, then of the whole job. What follows
/// `Json` makes no distribution of latencies, or one of something else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Clat,
    Lat,
    Smallfile,
    Histograms,
    Json,
    Slat,
    Averages(LogKind),
    PlainJson,
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
            What::Averages(_) => "logs of averages (log_avg_msec)",
            What::PlainJson => "JSON results without histograms (json, not json+)",
        }
    }

    fn is_distribution(self) -> bool {
        self <= What::Json
    }

    /// Whether it shows when it was slow, though not how slow each I/O was.
    fn is_average(self) -> bool {
        matches!(self, What::Averages(LogKind::Clat | LogKind::Lat))
    }
}

/// Whose I/Os a log is about: the folder, host and number, and the prefix, or the JSON whose options name it.
type Job = (PathBuf, Option<String>, Option<u32>, Result<String, PathBuf>);

struct Log {
    path: PathBuf,
    what: What,
    job: Job,
    prefix: String,
    /// The JSON that is about the same I/Os, and its name for the host.
    results: Vec<(PathBuf, Option<String>)>,
}

/// What is read, and what is not for which reason.
#[derive(Default)]
pub struct Choice {
    read: Vec<(What, PathBuf)>,
    /// Is about the same I/Os as what is read.
    same: Vec<(What, PathBuf)>,
    /// Is about I/Os that nothing else is about.
    missing: Vec<(What, PathBuf)>,
    /// JSON of which that is not known.
    unknown: Vec<(What, PathBuf)>,
    copies: Vec<PathBuf>,
    /// JSON of hosts some of which have logs: those that have none.
    hosts: BTreeMap<PathBuf, Vec<String>>,
    /// JSON of jobs some of which have logs: how many have none, and what is reported of them.
    unlogged: BTreeMap<PathBuf, (u64, String)>,
    /// Two prefixes that may be of one run.
    perhaps_same: Option<(String, String)>,
}

impl Choice {
    /// Chooses from all files of a folder, which are sorted. For a view over time averages over windows are better than
    /// histograms of whole jobs.
    pub fn new(files: Vec<PathBuf>, over_time: bool) -> Choice {
        let known = |file: &PathBuf| LogName::parse(file).is_some() || is_smallfile(file) || may_be_results(file);
        let (files, copies) = without_compressed_copies(files.into_iter().filter(known).collect());
        let mut choice = Choice { copies, ..Choice::default() };
        let beside = FioResults::default();
        let logs: Vec<Log> = files.iter().filter_map(|file| log(file, &beside)).collect();
        let mut best = BTreeMap::<&Job, What>::new();
        for log in &logs {
            let best = best.entry(&log.job).or_insert(log.what);
            *best = log.what.min(*best);
        }
        choice.read.extend(files.iter().filter(|file| is_smallfile(file)).map(|file| (What::Smallfile, file.clone())));
        // JSON of runs whose logs are no distributions is better than those.
        let is_good = |what: What| what.is_distribution() || over_time && what.is_average();
        let (read, lesser): (Vec<&Log>, Vec<&Log>) = logs.iter().partition(|log| is_good(best[&log.job]));
        let from_json = choice.take_json(&files, &beside, (&read, &lesser));
        for log in read {
            let list = if best[&log.job] == log.what { &mut choice.read } else { &mut choice.same };
            list.push((log.what, log.path.clone()));
        }
        let (of_json, lesser): (Vec<&Log>, Vec<&Log>) =
            lesser.into_iter().partition(|log| log.results.iter().any(|(file, _)| from_json.contains(file)));
        choice.same.extend(of_json.into_iter().map(|log| (log.what, log.path.clone())));
        // Averages are drawn when there is nothing better at all.
        let least = lesser.iter().map(|log| best[&log.job].words()).min_by_key(|&words| words != What::Slat.words());
        let is_alone = choice.read.is_empty();
        for log in lesser {
            let best = best[&log.job];
            let list = match () {
                () if log.what != best => &mut choice.same,
                () if is_alone && least == Some(best.words()) => &mut choice.read,
                () => &mut choice.missing,
            };
            list.push((log.what, log.path.clone()));
        }
        if choice.read.is_empty() {
            // Reading it says why it is of no use.
            choice.read.append(&mut choice.missing);
        }
        choice.perhaps_same = perhaps_same(&logs, &best);
        [&mut choice.read, &mut choice.same, &mut choice.missing, &mut choice.unknown]
            .into_iter()
            .for_each(|list| list.sort());
        choice
    }

    /// Decides about all JSON, and returns what of it is read.
    fn take_json(&mut self, files: &[PathBuf], beside: &FioResults, logs: (&[&Log], &[&Log])) -> BTreeSet<PathBuf> {
        let hosts_of = |logs: &[&Log], results: &Report| -> BTreeSet<Option<String>> {
            let of = logs.iter().flat_map(|log| &log.results).filter(|(file, _)| *file == results.file);
            of.map(|(_, host)| host.clone()).collect()
        };
        let mut read = BTreeSet::new();
        for file in files.iter().filter(|file| may_be_results(file)) {
            let folder = file.parent().unwrap_or(Path::new(""));
            let all = beside.in_folder(folder);
            let Some(results) = all.iter().find(|results| results.file == *file) else {
                // Larger than what is looked into, or damaged, which is reported when it is read.
                if is_json(file) {
                    self.unknown.push((What::Json, file.clone()));
                }
                continue;
            };
            let what = if results.has_histograms { What::Json } else { What::PlainJson };
            let logged = hosts_of(logs.0, results);
            let rest: Vec<_> = results.hosts.keys().filter(|host| !logged.contains(*host)).collect();
            let list = match () {
                () if is_second_copy(results, &all) || rest.is_empty() => &mut self.same,
                () if !logged.is_empty() => {
                    let rest = rest.into_iter().map(|host| host.clone().unwrap_or_else(|| "-".into()));
                    self.hosts.insert(file.clone(), rest.collect());
                    &mut self.same
                }
                () if logs.0.iter().any(|log| may_be_of(log, results)) => &mut self.unknown,
                () if what == What::Json => {
                    read.insert(file.clone());
                    &mut self.read
                }
                () if hosts_of(logs.1, results).is_empty() => &mut self.missing,
                () => &mut self.same,
            };
            list.push((what, file.clone()));
            if !read.contains(file) && !is_second_copy(results, &all) {
                let sentence = unlogged(results, &[logs.0, logs.1].concat(), beside);
                self.unlogged.extend(sentence.map(|sentence| (file.clone(), sentence)));
            }
        }
        read
    }

    /// Whether a file is read, or is known and left out.
    pub fn decides_about(&self, file: &Path) -> bool {
        let mut lists = [&self.read, &self.same, &self.missing, &self.unknown].into_iter().flatten();
        LogName::parse(file).is_some()
            || self.copies.iter().any(|copy| copy == file)
            || lists.any(|(_, path)| path == file)
    }

    /// What is read, by name.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = self.read.iter().map(|(_, path)| path.clone()).collect();
        files.sort();
        files
    }

    /// Whether averages are read in the place of histograms of whole jobs.
    pub fn prefers_averages(&self) -> bool {
        let has = |list: &[(What, PathBuf)], is: fn(What) -> bool| list.iter().any(|(what, _)| is(*what));
        has(&self.read, What::is_average) && has(&self.same, |what| what == What::Json)
    }

    /// How many logs, hosts and jobs are not read though nothing else is about their I/Os.
    pub fn missing(&self) -> u64 {
        let jobs: u64 = self.unlogged.values().map(|(jobs, _)| jobs).sum();
        jobs + (self.missing.len() + self.hosts.values().map(Vec::len).sum::<usize>()) as u64
    }

    /// Sentences about what is not read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.same.is_empty() {
            // JSON has I/Os of its own where jobs or hosts of it have no log: which ones, is reported below.
            let is_part = |file: &PathBuf| self.unlogged.contains_key(file) || self.hosts.contains_key(file);
            let (parts, whole): (Vec<_>, Vec<_>) = self.same.iter().cloned().partition(|(_, file)| is_part(file));
            let parts = (!parts.is_empty()).then(|| format!("{} in part", counted(&parts)));
            let whole = (!whole.is_empty()).then(|| counted(&whole));
            let (read, same) = (counted(&self.read), whole.into_iter().chain(parts).collect::<Vec<_>>().join(", "));
            let are = if self.read.len() == 1 { "is" } else { "are" };
            notes.push(format!("{read} {are} read; skipped because they are about the same I/Os: {same}."));
        }
        if self.prefers_averages() {
            notes.push(
                "Averages (log_avg_msec) are read: unlike the JSON's histograms of whole jobs, they show when it \
                 was slow, but not how slow each I/O was. summary and histogram read the JSON."
                    .into(),
            );
        }
        if !self.missing.is_empty() {
            let missing = &self.missing;
            let why = "Not read, so their I/Os are missing from all numbers";
            notes.push(format!("{why}: {} ({}).", counted(missing), named(missing.iter().map(|(_, path)| path))));
        }
        for (file, hosts) in &self.hosts {
            let hosts = named(hosts.iter());
            let file = file_name(file);
            notes.push(format!("{file} is skipped because other hosts have logs, so the I/Os of {hosts} are missing."));
        }
        notes.extend(self.unlogged.values().map(|(_, sentence)| sentence.clone()));
        if !self.unknown.is_empty() {
            let names = named(self.unknown.iter().map(|(_, path)| path));
            notes.push(format!(
                "Skipped because they may be about the same I/Os as logs without a matching JSON: {} ({names}); if \
                 not, give them with -r.",
                counted(&self.unknown)
            ));
        }
        if !self.copies.is_empty() {
            let count = self.copies.len();
            notes.push(format!("{count} compressed copies are skipped ({}).", named(self.copies.iter())));
        }
        if let Some((events, histograms)) = &self.perhaps_same {
            notes.push(format!(
                "{events} (logs of every I/O) and {histograms} (histogram logs) are assumed to be different runs; \
                 if they are one run, give only one kind with -r."
            ));
        }
        notes
    }
}

/// Whether a file that is not understood starts as fio's JSON does.
fn is_json(path: &Path) -> bool {
    Input::open(path, None).is_ok_and(|input| results::detect(input.head()) == Detected::Yes)
}

fn is_smallfile(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("rsptimes_") && name.contains(".csv")
}

/// What a log is; none when it holds no latencies.
fn log(path: &Path, beside: &FioResults) -> Option<Log> {
    let name = LogName::parse(path)?;
    let what = match name.kind {
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
    let is_windowed = what != What::Histograms && is_windowed(path);
    let found = beside.of_log(path, &name);
    // Numbers are of the whole process, whatever its logs are called.
    let naming =
        found.as_ref().map(|found| &found.reports[0]).filter(|results| results.prefixes.contains(&name.prefix));
    let run = naming.map_or(Ok(name.prefix.clone()), |results| Err(results.file.clone()));
    let results = |found: &Found| {
        let of = |report: &Arc<Report>| (report.file.clone(), found.host.clone());
        found.reports.iter().map(of).collect()
    };
    Some(Log {
        path: path.to_path_buf(),
        what: if is_windowed { What::Averages(name.kind) } else { what },
        job: (path.parent().unwrap_or(Path::new("")).to_path_buf(), name.host, name.number, run),
        prefix: name.prefix,
        results: found.as_ref().map_or_else(Vec::new, results),
    })
}

/// CBT keeps its results twice: `json_output.0.vm1` and, behind a banner, `output.0.vm1`.
fn is_second_copy(results: &Report, all: &[Arc<Report>]) -> bool {
    let first = results.file.with_file_name(format!("json_{}", file_name(&results.file)));
    all.iter().any(|other| other.file == first && other.hosts == results.hosts)
}

/// How many jobs of results have no log, though others of their host have, and a sentence about them.
fn unlogged(results: &Report, logs: &[&Log], beside: &FioResults) -> Option<(u64, String)> {
    let mut jobs = Vec::new();
    for (host, of_host) in &results.hosts {
        let run = (results.file.clone(), host.clone());
        let mut logs = logs.iter().filter(|log| log.results.contains(&run)).peekable();
        let Some(first) = logs.peek() else { continue };
        let highest = beside.highest_number(&first.path, first.results[0].clone(), first.job.1.as_deref());
        let numbers = logs.map(|log| log.job.2).collect();
        jobs.extend(of_host.unlogged(&numbers, highest).into_iter().map(|job| (host, job)));
    }
    let phrase = |(host, job): &(&Option<String>, Unlogged)| {
        let part = match job.entries {
            (some, all) if some < all => format!("{some} of {all} threads of "),
            _ => String::new(),
        };
        let host = host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
        format!("{part}job {}{host} ({} I/Os)", job.job, format_count(job.ios))
    };
    let (have, are) = match &jobs[..] {
        [] => return None,
        [(_, job)] if job.entries.0 == 1 || job.entries.0 == job.entries.1 => ("has", "is"),
        _ => ("have", "are"),
    };
    let mut phrases: Vec<String> = jobs.iter().take(NAMED).map(phrase).collect();
    if let Some(rest) = jobs.get(NAMED..).filter(|rest| !rest.is_empty()) {
        let ios = rest.iter().fold(0, |sum: u64, (_, job)| sum.saturating_add(job.ios));
        phrases.push(format!("{} more ({} I/Os)", rest.len(), format_count(ios)));
    }
    let file = file_name(&results.file);
    let remedy =
        if results.has_histograms { format!(" Give {file} alone with -r for all its jobs.") } else { String::new() };
    let all = jobs.iter().map(|(_, job)| job.entries.0 as u64).sum();
    Some((all, format!("{file}: {} {have} no log and {are} missing from all numbers.{remedy}", phrases.join(", "))))
}

/// Whether results may be about the I/Os of a log that belongs to no results: those above it, or called like it.
fn may_be_of(log: &Log, results: &Report) -> bool {
    let (folder, host, ..) = &log.job;
    let may_be_host = match host_of_results(&results.file) {
        Some(of_file) => *host == Some(of_file),
        None => results.hosts.contains_key(&None) || results.hosts.contains_key(host),
    };
    let is_above = results.file.parent().is_some_and(|above| folder.starts_with(above));
    let is_called = || LogName::parse(&log.path).is_some_and(|name| is_called(&results.file, &name));
    let is_named = || is_called() || results.prefixes.contains(&log.prefix);
    log.results.is_empty() && may_be_host && (is_above || is_named())
}

/// Prefixes of logs of the same number of which one has nothing but histogram logs, the other nothing but such of every I/O.
fn perhaps_same(logs: &[Log], best: &BTreeMap<&Job, What>) -> Option<(String, String)> {
    let mut prefixes = BTreeMap::<_, (Option<&str>, Option<&str>)>::new();
    let has_histograms: BTreeSet<&Job> =
        logs.iter().filter(|log| log.what == What::Histograms).map(|log| &log.job).collect();
    for log in logs.iter().filter(|log| log.job.3.is_ok()) {
        let (folder, host, number, _) = &log.job;
        let pair = prefixes.entry((folder, host, number)).or_default();
        match best[&log.job] {
            What::Histograms => pair.1 = Some(&log.prefix),
            What::Clat | What::Lat if !has_histograms.contains(&log.job) => pair.0 = Some(&log.prefix),
            _ => {}
        }
    }
    let pair = prefixes.into_values().find_map(|(events, histograms)| events.zip(histograms))?;
    Some((pair.0.to_string(), pair.1.to_string()))
}

/// `2 logs of completion latency, 1 JSON result`.
fn counted(files: &[(What, PathBuf)]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for (what, _) in files {
        match kinds.iter_mut().find(|(words, _)| *words == what.words()) {
            Some((_, count)) => *count += 1,
            None => kinds.push((what.words(), 1)),
        }
    }
    let one =
        |words: &str| words.replacen("logs", "log", 1).replacen("files", "file", 1).replacen("results", "result", 1);
    let words = |&(words, count): &(&str, usize)| if count == 1 { one(words) } else { words.to_string() };
    let phrases: Vec<_> = kinds.iter().map(|kind| format!("{} {}", kind.1, words(kind))).collect();
    phrases.join(", ")
}

/// The names of a few.
pub fn named<T: AsRef<Path>>(all: impl ExactSizeIterator<Item = T>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let names: Vec<_> = all.take(NAMED).map(|path| file_name(path.as_ref())).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
