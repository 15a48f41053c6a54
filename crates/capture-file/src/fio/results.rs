//! fio's JSON (`--output-format=json` or `json+`), parsed: the jobs of a run with their options, run times and histograms.
//!
//! A file may hold several reports: with `--status-interval` fio writes one after the other, between its text output if both
//! were asked for, and people append runs. The last report that is whole counts.

use crate::input::Input;
use crate::{Detected, Error, Position};
use latscope_event::{Anomaly, Tally, format_size};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

/// Larger ones are no summary of jobs.
pub const LIMIT: u64 = 256 << 20;
/// The first version that counted nanoseconds, as far as its number is.
pub const NANOSECONDS: (u32, u32) = (2, 99);
/// The client's sum over all servers: it has neither a start nor histograms.
const ALL_CLIENTS: &str = "All clients";
/// Latencies of syncs stand beside those of the directions (from fio 3.5 on).
pub const SYNC: &str = "sync";
/// The first member of a report.
const VERSION: &[u8] = b"\"fio version\"";
/// What latencies stand under, and how many bins their histograms have: those of completion before those of the whole I/O.
pub const LATENCIES: [(&str, usize); 3] = [("clat_ns", 1856), ("clat", 1216), ("lat_ns", 1856)];

/// One report.
#[derive(Default, Debug)]
pub struct Results {
    /// Such as `fio-3.33` or `fio-3.16-31-g8c302eb9`.
    pub version: Option<String>,
    /// When the report was made, which is the end of the run: milliseconds since the Unix epoch.
    pub end_ms: Option<i64>,
    /// Options of all jobs.
    pub options: Options,
    /// An entry for each thread, or for each group of threads that report as one.
    pub jobs: Vec<Job>,
    /// How many reports stand before this one, and whether one behind it is cut.
    pub tally: Tally,
}

/// Options by their names; fio may write one twice.
pub type Options = BTreeMap<String, String>;

/// An entry of a report.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Value")]
pub struct Job {
    pub name: Option<String>,
    /// The server it ran on; none without `fio --client`.
    pub hostname: Option<String>,
    /// That of the server: two servers of one host differ in it.
    pub port: Option<i64>,
    /// `stonewall` and `new_group` start a new one.
    pub group: i64,
    /// An `errno`, or 0.
    pub error: i64,
    /// `job_start`, from fio 3.36 on: milliseconds since the Unix epoch.
    pub start_ms: Option<i64>,
    /// `job_runtime`: the sum of all threads, milliseconds.
    pub sum_of_runtimes_ms: Option<i64>,
    pub options: Options,
    /// What it measured, by `read`, `write`, `trim` and `sync`; or `mixed` instead of the directions where they are reported as
    /// one (`unified_rw_reporting=1`; with `both` that is their sum, and left out).
    pub kinds: Vec<(&'static str, Direction)>,
}

/// The I/Os of one direction.
#[derive(Debug)]
pub struct Direction {
    pub total_ios: Option<u64>,
    /// That of the longest thread, milliseconds.
    pub runtime_ms: Option<i64>,
    /// In the order of [`LATENCIES`].
    pub latencies: [Option<Latencies>; 3],
}

/// The latencies of one direction, in nanoseconds or, under `clat`, microseconds.
#[derive(Debug)]
pub struct Latencies {
    pub count: Option<u64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub mean: Option<f64>,
    pub has_percentiles: bool,
    /// A value in each bin and how many I/Os are in it, or what is wrong with them; empty without `json+`.
    pub bins: Result<Vec<(u64, u64)>, String>,
}

/// Its first member is the version; text may stand before the brace: warnings, or the banner of CBT.
pub fn detect(head: &[u8]) -> Detected {
    let Some(brace) = memchr::memchr(b'{', head) else { return Detected::No };
    if head[brace + 1..].trim_ascii_start().starts_with(VERSION) { Detected::Yes } else { Detected::No }
}

impl Results {
    /// Reads the last report of a file that is whole.
    pub fn read(input: &mut Input) -> Result<Results, Error> {
        let mut text = Vec::new();
        let read = Read::by_ref(input).take(LIMIT + 1).read_to_end(&mut text);
        read.map_err(|error| input.error(&error))?;
        if text.len() as u64 > LIMIT {
            let message = format!("The JSON is longer than {}, so it is no report of fio.", format_size(LIMIT));
            return Err(Error::new(&input.name, Position::File, message));
        }
        last_report(&input.name, &text)
    }

    /// What an option was set to, for one job or for all.
    pub fn option<'a>(&'a self, job: &'a Job, name: &str) -> Option<&'a str> {
        job.options.get(name).or_else(|| self.options.get(name)).map(String::as_str)
    }

    /// Whether an error ended a job before its work was done.
    pub fn has_failed(&self, job: &Job) -> bool {
        let goes_on = self.option(job, "continue_on_error").is_some_and(|what| what != "none" && what != "0");
        job.error != 0 && !goes_on
    }

    /// Major and minor number of the version.
    pub fn version_number(&self) -> Option<(u32, u32)> {
        let version = self.version.as_deref()?.strip_prefix("fio-")?;
        let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        Some((number()?, number()?))
    }

    /// When the groups of jobs of each host started, milliseconds since the Unix epoch, as far as the end of the run and their
    /// lengths show: one follows the other.
    pub fn group_starts_ms(&self) -> BTreeMap<(Option<&str>, i64), i64> {
        let mut starts = BTreeMap::<(Option<&str>, i64), i64>::new();
        let Some(end_ms) = self.end_ms else { return starts };
        for job in &self.jobs {
            let longest_ms = starts.entry((job.hostname.as_deref(), job.group)).or_default();
            *longest_ms = job.runtime_ms().unwrap_or(1).max(*longest_ms);
        }
        let mut next: Option<(Option<&str>, i64)> = None;
        for ((host, _), start_ms) in starts.iter_mut().rev() {
            let until_ms = next.take().filter(|(of, _)| of == host).map_or(end_ms, |(_, ms)| ms);
            *start_ms = until_ms.saturating_sub(*start_ms);
            next = Some((*host, *start_ms));
        }
        starts
    }
}

impl Job {
    /// How long the longest of its threads ran: where threads report as one (`group_reporting`), `job_runtime` is the sum of
    /// all, and a direction has the longest.
    pub fn runtime_ms(&self) -> Option<i64> {
        let longest = self.kinds.iter().filter_map(|(_, direction)| direction.runtime_ms).max();
        longest.into_iter().chain(self.sum_of_runtimes_ms).filter(|&ms| is_runtime(ms)).min()
    }

    /// All completions whose latency was counted; empty if nothing was counted.
    pub fn completions(&self) -> Option<u64> {
        let ios = self.kinds.iter().filter(|(kind, _)| *kind != SYNC).filter_map(|(_, direction)| {
            let [clat_ns, ..] = &direction.latencies;
            clat_ns.as_ref().and_then(|latencies| latencies.count).or(direction.total_ios)
        });
        Some(ios.fold(0, u64::saturating_add)).filter(|&ios| ios > 0)
    }

    /// Whether there are histograms (`json+`).
    pub fn has_histograms(&self) -> bool {
        let latencies = self.kinds.iter().flat_map(|(_, direction)| direction.latencies.iter().flatten());
        latencies.into_iter().any(|latencies| latencies.bins.as_ref().map_or(true, |bins| !bins.is_empty()))
    }
}

/// No job of no time, and none of more than 34 years.
fn is_runtime(ms: i64) -> bool {
    (1..1 << 40).contains(&ms)
}

/// Where reports start.
fn reports(text: &[u8]) -> Vec<usize> {
    let before = |at: usize| text[..at].trim_ascii_end();
    // In a string of a report the quotes would be escaped.
    let all = memchr::memmem::find_iter(text, VERSION).map(before);
    all.filter(|before| before.ends_with(b"{")).map(|before| before.len() - 1).collect()
}

/// The last report that is whole, with a count of those before it, which it holds too: reports of a run that goes on count
/// from its start.
fn last_report(file: &str, text: &[u8]) -> Result<Results, Error> {
    let fail = |place, message: String| Error::new(file, place, message);
    let mut starts = reports(text);
    if starts.is_empty() {
        starts.extend(memchr::memchr(b'{', text));
    }
    let last = starts.len().saturating_sub(1);
    let mut is_cut = false;
    for (at, &start) in starts.iter().enumerate().rev() {
        // What follows the JSON is the text output.
        match Results::deserialize(&mut serde_json::Deserializer::from_slice(&text[start..])) {
            Ok(mut results) => {
                results.tally.add(Anomaly::EarlierReports, at as u64);
                results.tally.add(Anomaly::Truncated, u64::from(is_cut));
                return Ok(results);
            }
            // The run was killed while it wrote.
            Err(error) if error.is_eof() && at == last && at > 0 => is_cut = true,
            Err(error) => {
                let above = memchr::memchr_iter(b'\n', &text[..start]).count();
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or_default();
                let place = Position::Line((above + error.line()) as u64);
                return Err(fail(place, format!("The JSON is damaged: {why}.")));
            }
        }
    }
    Err(fail(Position::File, "The file has no JSON.".into()))
}

impl<'de> Deserialize<'de> for Results {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Results, D::Error> {
        deserializer.deserialize_map(Report)
    }
}

/// Takes a report apart. Members may be of any kind or stand there twice, and entries are made into [`Job`]s one by one, so
/// that their histograms are never in memory as JSON all at once.
struct Report;

impl<'de> Visitor<'de> for Report {
    type Value = Results;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a report of fio")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Results, A::Error> {
        let mut results = Results::default();
        let (mut jobs, mut servers, mut end_s) = (None, None, None);
        while let Some(key) = members.next_key::<String>()? {
            match key.as_str() {
                "fio version" => results.version = text(&members.next_value()?),
                "timestamp_ms" => results.end_ms = members.next_value::<Value>()?.as_i64(),
                "timestamp" => end_s = members.next_value::<Value>()?.as_i64(),
                "global options" => results.options = options(&members.next_value()?),
                "jobs" => jobs = Some(members.next_value::<Vec<Job>>()?),
                "client_stats" => servers = Some(members.next_value::<Vec<Job>>()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        results.end_ms = results.end_ms.or_else(|| end_s?.checked_mul(1000));
        let jobs = jobs.or(servers).ok_or_else(|| serde::de::Error::custom("there are no jobs in it"))?;
        results.jobs = jobs.into_iter().filter(|job| job.name.as_deref() != Some(ALL_CLIENTS)).collect();
        Ok(results)
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_string)
}

fn options(value: &Value) -> Options {
    let of = |(name, value): (&String, &Value)| (name.clone(), text(value).unwrap_or_default());
    value.as_object().into_iter().flatten().map(of).collect()
}

impl TryFrom<Value> for Job {
    type Error = &'static str;

    fn try_from(job: Value) -> Result<Job, &'static str> {
        if !job.is_object() {
            return Err("\"jobs\" has an entry that is not an object");
        }
        let number = |key: &str| job.get(key).and_then(Value::as_i64);
        let is_mixed = ["read", "write", "trim"].iter().all(|kind| job.get(*kind).is_none());
        let kinds: &[&'static str] = if is_mixed { &["mixed", SYNC] } else { &["read", "write", "trim", SYNC] };
        Ok(Job {
            name: job.get("jobname").and_then(text),
            hostname: job.get("hostname").and_then(text),
            port: number("port"),
            group: number("groupid").unwrap_or(0),
            error: number("error").unwrap_or(0),
            start_ms: number("job_start").filter(|&ms| ms >= 0),
            sum_of_runtimes_ms: number("job_runtime"),
            options: job.get("job options").map(options).unwrap_or_default(),
            kinds: kinds.iter().filter_map(|&kind| Some((kind, Direction::new(job.get(kind)?)))).collect(),
        })
    }
}

impl Direction {
    fn new(direction: &Value) -> Direction {
        Direction {
            total_ios: direction.get("total_ios").and_then(Value::as_u64),
            runtime_ms: direction.get("runtime").and_then(Value::as_i64).filter(|&ms| is_runtime(ms)),
            latencies: LATENCIES.map(|(key, _)| direction.get(key).map(Latencies::new)),
        }
    }
}

impl Latencies {
    fn new(latencies: &Value) -> Latencies {
        let number = |key: &str| latencies.get(key).and_then(Value::as_f64);
        let bins = latencies.get("bins").and_then(Value::as_object);
        Latencies {
            count: latencies.get("N").and_then(Value::as_u64),
            min: number("min"),
            max: number("max"),
            mean: number("mean"),
            has_percentiles: latencies.get("percentile").is_some(),
            bins: bins.into_iter().flatten().map(|(key, count)| bin(key, count)).collect(),
        }
    }
}

fn bin(key: &str, count: &Value) -> Result<(u64, u64), String> {
    let shown = || key.chars().take(32).collect::<String>();
    let value = key.parse().map_err(|_| format!("\"{}\" is not a bin", shown()))?;
    let count = count.as_u64().ok_or_else(|| format!("bin {} has a count that is not a number", shown()))?;
    Ok((value, count))
}
