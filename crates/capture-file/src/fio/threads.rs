//! Which threads a report stands for: logs are numbered by thread, and its entries are threads or groups of them.

use super::results::{Job, Results};
use std::collections::BTreeSet;

/// More threads than any run has.
const MOST_THREADS: u32 = 1 << 16;
const MS: i64 = 1_000_000;
/// Jobs of one group start within this time of each other, nanoseconds.
const TOGETHER_NS: i64 = 1_000_000_000;
/// Options by which fio writes logs of latencies.
pub const LOGS_OF_LATENCIES: [&str; 2] = ["write_lat_log", "write_hist_log"];
/// The clocks that count from 1970: CLOCK_REALTIME and CLOCK_REALTIME_COARSE.
const WALL_CLOCKS: [&str; 2] = ["0", "5"];

/// A job of which a report counts I/Os that no log has.
#[derive(PartialEq, Eq, Debug)]
pub struct Unlogged {
    pub job: String,
    /// Its entries without logs, and all of them.
    pub entries: (usize, usize),
    /// Completions of those without logs.
    pub ios: u64,
}

/// What a report says of the threads of one host: an entry for each, or for each group of them. Never empty.
#[derive(PartialEq, Debug)]
pub struct Host {
    pub entries: Vec<Entry>,
    /// Whether all entries are of one server; two servers on one host number their logs alike.
    pub is_one_server: bool,
    /// Whether it says that its entries are groups of threads.
    says_groups: bool,
}

/// One entry.
#[derive(PartialEq, Debug)]
pub struct Entry {
    name: String,
    group: i64,
    /// Threads that the options of the entry ask for.
    asked: u32,
    /// Threads that its run times show: their sum against the longest.
    shown: u32,
    start: Option<Start>,
    other_epoch: bool,
    /// Whether its options ask for logs of latencies.
    asks_for_logs: bool,
    /// `log_hist_msec`.
    pub hist_ms: Option<u64>,
    /// Completions whose latency was counted.
    pub ios: Option<u64>,
    /// Whether an error is reported of it.
    pub failed: bool,
}

/// When a job started.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Start {
    /// Nanoseconds since the Unix epoch.
    pub ns: i64,
    /// Whether it is the end of the run less the run time.
    pub is_estimated: bool,
}

impl Host {
    /// What the report says of these of its jobs, which are all of a host.
    pub fn new(results: &Results, jobs: &[&Job]) -> Host {
        let option = |job: &Job, name: &str| results.option(job, name).map(str::to_string);
        let is_one_server = jobs.iter().all(|job| job.port == jobs[0].port);
        let group_starts_ms = results.group_starts_ms();
        let last = jobs.iter().map(|job| job.group).max();
        let start = |job: &Job| {
            // What ran in earlier groups may have ended long before the next one started.
            let is_of_last = Some(job.group) == last
                && jobs.iter().any(|other| other.group == job.group && other.runtime_ms().is_some());
            let estimated = || group_starts_ms.get(&(job.hostname.as_deref(), job.group)).filter(|_| is_of_last);
            let known = job.start_ms.map(|ms| (ms, false));
            let (ms, is_estimated) = known.or_else(|| Some((*estimated()?, true))).filter(|_| is_one_server)?;
            Some(Start { ns: ms.checked_mul(MS)?, is_estimated })
        };
        let entry = |job: &&Job| {
            let clock = option(job, "log_alternate_epoch_clock_id");
            let has_epoch = option(job, "log_alternate_epoch").is_some_and(|set| set != "0");
            let asked = option(job, "numjobs").and_then(|text| text.parse().ok()).unwrap_or(1);
            let sum_ms = job.sum_of_runtimes_ms.unwrap_or(0) as f64;
            let hist_ms = option(job, "log_hist_msec").and_then(|text| text.trim().parse().ok());
            Entry {
                name: job.name.clone().unwrap_or_default(),
                group: job.group,
                asked: asked.clamp(1, MOST_THREADS),
                shown: ((sum_ms / job.runtime_ms().unwrap_or(1) as f64).round() as u32).clamp(1, MOST_THREADS),
                start: start(job),
                other_epoch: has_epoch && clock.is_some_and(|clock| !WALL_CLOCKS.contains(&clock.as_str())),
                asks_for_logs: LOGS_OF_LATENCIES.iter().any(|name| results.option(job, name).is_some()),
                hist_ms: hist_ms.filter(|&ms| ms > 0),
                ios: job.completions(),
                failed: results.has_failed(job),
            }
        };
        Host {
            entries: jobs.iter().map(entry).collect(),
            is_one_server,
            says_groups: jobs.iter().any(|job| results.option(job, "group_reporting").is_some()),
        }
    }

    /// The start of the thread with this number (of all threads where they share one log), if it can be known; the highest
    /// number of its logs shows whether the entries are understood.
    pub fn start(&self, number: Option<u32>, highest: impl FnOnce() -> u32) -> Option<Start> {
        let Some(number) = number else {
            let starts = || self.entries.iter().map(|entry| Some(entry.start?.ns));
            let spread = starts().max()??.checked_sub(starts().min()??)?;
            return self.entries.first()?.start.filter(|_| spread <= TOGETHER_NS);
        };
        // Threads are numbered in the order of the jobs, so the first is always of the first.
        if number == 1 {
            return self.entries.first()?.start;
        }
        self.entry(number, highest())?.0.start
    }

    /// The entry that is of the thread with this number and of no other.
    pub fn single(&self, number: u32, highest: impl FnOnce() -> u32) -> Option<&Entry> {
        let (entry, threads) = self.entry(number, highest()).filter(|_| self.is_one_server && !self.says_groups)?;
        (threads == 1).then_some(entry)
    }

    /// The jobs with I/Os in no log, where the logs have these numbers (none is a log that all share) and the highest number of
    /// the logs of any kind is this. Where it cannot be known which entry a number is of, the options decide.
    pub fn unlogged(&self, numbers: &BTreeSet<Option<u32>>, highest: u32) -> Vec<Unlogged> {
        let has_own_logs = self.is_one_server && !numbers.contains(&None);
        let threads = if has_own_logs { self.threads(highest) } else { None };
        let do_ask = self.entries.iter().any(|entry| entry.asks_for_logs);
        let mut last = 0_u32;
        let mut has_log = |at: usize| match &threads {
            None => !do_ask || self.entries[at].asks_for_logs,
            Some(threads) => {
                let first = last.saturating_add(1);
                last = last.saturating_add(threads[at]);
                numbers.range(Some(first)..=Some(last)).next().is_some()
            }
        };
        let mut jobs: Vec<Unlogged> = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let (is_logged, ios) = (has_log(at), entry.ios.unwrap_or(0));
            if is_logged || ios == 0 {
                continue;
            }
            match jobs.iter_mut().find(|job| job.job == entry.name) {
                Some(job) => (job.entries.0, job.ios) = (job.entries.0 + 1, job.ios.saturating_add(ios)),
                None => {
                    let all = self.entries.iter().filter(|other| other.name == entry.name).count();
                    jobs.push(Unlogged { job: entry.name.clone(), entries: (1, all), ios });
                }
            }
        }
        jobs
    }

    /// The start of what started first.
    pub fn earliest(&self) -> Option<Start> {
        self.entries.iter().filter_map(|entry| entry.start).min_by_key(|start| start.ns)
    }

    /// Whether its logs count from the zero of a clock that is neither the job's own nor that of 1970.
    pub fn has_other_epoch(&self) -> bool {
        self.entries.iter().any(|entry| entry.other_epoch)
    }

    /// The entry that the thread with this number is of, and for how many threads it stands.
    fn entry(&self, number: u32, highest: u32) -> Option<(&Entry, u32)> {
        let (threads, mut last) = (self.threads(highest)?, 0);
        let at = threads.iter().position(|threads| {
            last += threads;
            (1..=last).contains(&number)
        })?;
        Some((&self.entries[at], threads[at]))
    }

    /// How many threads each entry stands for. With `group_reporting`, which the JSON mostly does not record, it is a group,
    /// perhaps of several jobs, and has the options of one of them. None when it cannot be known.
    fn threads(&self, highest: u32) -> Option<Vec<u32>> {
        let same = |one: &Entry, other: &Entry| one.name == other.name && one.group == other.group;
        let alone = |at: usize| {
            let (before, after) = (at.checked_sub(1).map(|at| &self.entries[at]), self.entries.get(at + 1));
            !before.into_iter().chain(after).any(|other| same(&self.entries[at], other))
        };
        let entries = self.entries.iter().enumerate();
        let asked: Vec<u32> = entries.map(|(at, entry)| if alone(at) { entry.asked } else { 1 }).collect();
        let total = |threads: &[u32]| threads.iter().fold(0_u32, |sum, &threads| sum.saturating_add(threads));
        if asked.iter().all(|&threads| threads == 1) && total(&asked) >= highest {
            return Some(asked);
        }
        let shown: Vec<u32> = self.entries.iter().zip(&asked).map(|(entry, &asked)| entry.shown.max(asked)).collect();
        match (total(&asked), total(&shown)) {
            (asked_threads, _) if asked_threads == highest => Some(asked),
            (_, shown_threads) if shown_threads == highest => Some(shown),
            (asked_threads, _) if asked_threads > highest && asked == shown => Some(asked),
            _ => None,
        }
    }
}
