//! fio's JSON, as far as it tells which threads there were and when they began.

use super::may_be_results;
use crate::{Format, format_of};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Larger ones are no summary of jobs.
const LIMIT: u64 = 64 << 20;
/// More threads than any run has.
const MOST_THREADS: u32 = 1 << 16;
const MS: i64 = 1_000_000;
/// Jobs of one group begin within this time of each other, nanoseconds.
const TOGETHER_NS: i64 = 1_000_000_000;
/// The clocks that count from 1970: CLOCK_REALTIME and CLOCK_REALTIME_COARSE.
const WALL_CLOCKS: [&str; 2] = ["0", "5"];
/// The client's sum over all servers has neither start nor histograms.
const ALL_CLIENTS: &str = "All clients";

/// One JSON.
pub struct Results {
    pub file: PathBuf,
    /// By host; under no name those that fio ran itself.
    pub hosts: BTreeMap<Option<String>, Jobs>,
    /// What its logs are called, where the options tell it.
    pub prefixes: BTreeSet<String>,
    /// Whether there are histograms in it (`json+`).
    pub has_histograms: bool,
}

/// What stands in a JSON for the threads of one host: an entry for each, or for each group of them.
#[derive(PartialEq, Debug)]
pub struct Jobs(Vec<Entry>);

#[derive(PartialEq, Debug)]
struct Entry {
    name: String,
    group: i64,
    /// Threads that the options of the entry ask for.
    asked: u32,
    /// Threads that its run times tell: their sum against the longest.
    told: u32,
    start: Option<Moment>,
    other_epoch: bool,
}

/// When a job began.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    /// Nanoseconds since the Unix epoch.
    pub ns: i64,
    /// Whether it is the end of the run less the run time.
    pub estimated: bool,
}

impl Jobs {
    /// The start of the thread with this number (of all threads where they share one log), if it can be told; the highest
    /// number of its logs tells whether the entries are understood.
    pub fn start_of(&self, number: Option<u32>, highest: impl FnOnce() -> u32) -> Option<Moment> {
        let Some(number) = number else {
            let starts = || self.0.iter().map(|entry| Some(entry.start?.ns));
            let spread = starts().max()??.checked_sub(starts().min()??)?;
            return self.0.first()?.start.filter(|_| spread <= TOGETHER_NS);
        };
        // Threads are numbered in the order of the jobs, so the first is always of the first.
        if number == 1 {
            return self.0.first()?.start;
        }
        let (threads, mut last) = (self.threads(highest())?, 0);
        let at = threads.iter().position(|threads| {
            last += threads;
            (1..=last).contains(&number)
        });
        self.0[at?].start
    }

    /// The start of what began first.
    pub fn earliest(&self) -> Option<Moment> {
        self.0.iter().filter_map(|entry| entry.start).min_by_key(|start| start.ns)
    }

    /// Whether its logs count from the zero of a clock that is neither the job's own nor that of 1970.
    pub fn have_other_epoch(&self) -> bool {
        self.0.iter().any(|entry| entry.other_epoch)
    }

    /// How many threads each entry stands for. With `group_reporting`, which the JSON does not tell, it is a group, perhaps of
    /// several jobs, and has the options of one of them. None when it cannot be told.
    fn threads(&self, highest: u32) -> Option<Vec<u32>> {
        let same = |one: &Entry, other: &Entry| one.name == other.name && one.group == other.group;
        let alone = |at: usize| {
            let (before, after) = (at.checked_sub(1).map(|at| &self.0[at]), self.0.get(at + 1));
            !before.into_iter().chain(after).any(|other| same(&self.0[at], other))
        };
        let entries = self.0.iter().enumerate();
        let asked: Vec<u32> = entries.map(|(at, entry)| if alone(at) { entry.asked } else { 1 }).collect();
        let total = |threads: &[u32]| threads.iter().fold(0_u32, |sum, &threads| sum.saturating_add(threads));
        if asked.iter().all(|&threads| threads == 1) && total(&asked) >= highest {
            return Some(asked);
        }
        let told: Vec<u32> = self.0.iter().zip(&asked).map(|(entry, &asked)| entry.told.max(asked)).collect();
        match (total(&asked), total(&told)) {
            (asked_threads, _) if asked_threads == highest => Some(asked),
            (_, told_threads) if told_threads == highest => Some(told),
            (asked_threads, _) if asked_threads > highest && asked == told => Some(asked),
            _ => None,
        }
    }
}

impl Results {
    /// Reads a file; none when it is no JSON of fio.
    pub fn read(file: PathBuf) -> Option<Results> {
        let is_short = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < LIMIT);
        if !may_be_results(&file) || !is_short || format_of(&file) != Ok(Format::FioJson) {
            return None;
        }
        let text = fs::read(&file).ok()?;
        // Warnings and CBT's banner may stand before it, fio's other output behind.
        let begin = memchr::memchr(b'{', &text)?;
        let all: Value = serde_json::Deserializer::from_slice(&text[begin..]).into_iter().next()?.ok()?;
        let end_ms = all.get("timestamp_ms").and_then(Value::as_i64);
        let end_ms = end_ms.or_else(|| all.get("timestamp")?.as_i64()?.checked_mul(1000));
        let mut results = Results { file, hosts: BTreeMap::new(), prefixes: BTreeSet::new(), has_histograms: false };
        let jobs = all.get("jobs").or_else(|| all.get("client_stats"))?.as_array()?;
        let text = |job: &Value, key: &str| job.get(key).and_then(Value::as_str).map(str::to_string);
        let mut of_hosts = BTreeMap::<Option<String>, Vec<&Value>>::new();
        for job in jobs.iter().filter(|job| text(job, "jobname").as_deref() != Some(ALL_CLIENTS)) {
            let logs = ["write_lat_log", "write_hist_log"].iter().filter_map(|name| option(&all, job, name));
            // The path of a prefix is relative to where fio ran; without one, logs are called like their job.
            let prefixes = logs.map(|log| log.rsplit('/').next().unwrap_or_default());
            let named = |prefix: &str| if prefix.is_empty() { text(job, "jobname") } else { Some(prefix.to_string()) };
            results.prefixes.extend(prefixes.filter_map(named));
            results.has_histograms |= ["read", "write", "trim", "mixed"].iter().any(|kind| has_bins(job.get(*kind)));
            of_hosts.entry(text(job, "hostname")).or_default().push(job);
        }
        results.hosts = of_hosts.into_iter().map(|(host, jobs)| (host, entries(&all, &jobs, end_ms))).collect();
        Some(results)
    }
}

fn entries(all: &Value, jobs: &[&Value], end_ms: Option<i64>) -> Jobs {
    let number = |job: &Value, key: &str| job.get(key).and_then(Value::as_i64);
    let group = |job: &Value| number(job, "groupid").unwrap_or(0);
    let last = jobs.iter().map(|job| group(job)).max().unwrap_or(0);
    let longest = |group_of: i64| jobs.iter().filter(|job| group(job) == group_of).map(|job| longest_ms(job)).max();
    // Two servers on one host number their logs alike.
    let is_one = jobs.iter().all(|job| job.get("port") == jobs[0].get("port"));
    let entry = |job: &&Value| {
        let told = number(job, "job_start").map(|ms| (ms, false));
        // What ran in earlier groups may have ended long before the end of the run.
        let run = longest(group(job)).filter(|&ms| ms > 0 && group(job) == last);
        let estimated = || Some((end_ms?.checked_sub(run?)?, true));
        let start = told.or_else(estimated).filter(|_| is_one);
        let start = start.and_then(|(ms, estimated)| Some(Moment { ns: ms.checked_mul(MS)?, estimated }));
        let clock = option(all, job, "log_alternate_epoch_clock_id");
        let has_epoch = option(all, job, "log_alternate_epoch").is_some_and(|set| set != "0");
        let asked = option(all, job, "numjobs").and_then(|text| text.parse().ok()).unwrap_or(1);
        let sum_ms = number(job, "job_runtime").unwrap_or(0) as f64;
        Entry {
            name: job.get("jobname").and_then(Value::as_str).unwrap_or_default().to_string(),
            group: group(job),
            asked: asked.clamp(1, MOST_THREADS),
            told: ((sum_ms / longest_ms(job).max(1) as f64).round() as u32).clamp(1, MOST_THREADS),
            start,
            other_epoch: has_epoch && clock.is_some_and(|clock| !WALL_CLOCKS.contains(&clock)),
        }
    };
    Jobs(jobs.iter().map(entry).collect())
}

/// How long the longest of the threads of an entry ran: `job_runtime` is their sum.
fn longest_ms(job: &Value) -> i64 {
    let runtime = |of: &Value, key: &str| of.get(key).and_then(Value::as_i64).filter(|&ms| (1..1 << 40).contains(&ms));
    let longest =
        ["read", "write", "trim", "mixed"].iter().filter_map(|kind| runtime(job.get(*kind)?, "runtime")).max();
    longest.into_iter().chain(runtime(job, "job_runtime")).min().unwrap_or(0)
}

fn option<'a>(all: &'a Value, job: &'a Value, name: &str) -> Option<&'a str> {
    let of = |options: &'a Value| options.get(name)?.as_str();
    job.get("job options").and_then(of).or_else(|| all.get("global options").and_then(of))
}

fn has_bins(direction: Option<&Value>) -> bool {
    let has = |key: &str| direction?.get(key)?.get("bins")?.as_object().map(|bins| !bins.is_empty());
    ["clat_ns", "clat", "lat_ns"].iter().any(|key| has(key) == Some(true))
}
