//! What fio's JSON beside a histogram log tells of it: how far apart its rows are to be, and how many I/Os there were.

use crate::fio::name::LogName;
use crate::fio::start::{LOOKED_AT, above_clients, agreed, folder_of, host_of_results, is_called, may_be_results};
use crate::input::Input;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Larger ones are no summary of jobs.
const LIMIT: u64 = 64 << 20;

/// How it is known that a log is complete.
pub const AS_COUNTED: &str = "as many I/Os as the JSON counts";

/// What is told of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Beside {
    /// `log_hist_msec` of its job.
    pub hist_ms: Option<u64>,
    /// The completions of its job, or of all jobs, where they share one log; none where jobs are reported as a group, so that
    /// it is not known which of them are this one's.
    pub ios: Option<u64>,
}

/// What the results tell that are of this log: called like it, or of a job that wrote logs of this name. Nothing where none
/// are, or where they contradict each other.
pub fn beside(log: &Path) -> Beside {
    let told = |log: &Path| -> Option<Beside> {
        let name = LogName::of(log)?;
        let logs = folder_of(log)?;
        of_folder(logs, logs, &name).or_else(|| of_folder(above_clients(log)?, logs, &name))
    };
    told(log).unwrap_or_default()
}

/// The highest number of the logs of a host in a folder.
fn highest_number(logs: &Path, name: &LogName) -> u32 {
    let names = fs::read_dir(logs).into_iter().flatten().filter_map(|entry| LogName::of(&entry.ok()?.path()));
    names.filter(|log| log.host == name.host).filter_map(|log| log.number).max().unwrap_or(0)
}

fn of_folder(folder: &Path, logs: &Path, name: &LogName) -> Option<Beside> {
    let entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let (called, others): (Vec<_>, Vec<_>) =
        entries.filter(|file| may_be_results(file)).partition(|file| is_called(file, name));
    let is_theirs = !called.is_empty();
    let may_be = |file: &PathBuf| host_of_results(file).is_none_or(|host| name.host == Some(host));
    let files: Vec<_> = if is_theirs { called } else { others.into_iter().filter(may_be).collect() };
    agreed(files.into_iter().take(LOOKED_AT).filter_map(|file| results(file)?.of_log(name, logs, is_theirs)))
}

/// The parts of fio's JSON that are asked for.
#[derive(Deserialize, Debug)]
struct Results {
    #[serde(rename = "global options", default)]
    global: Options,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(default)]
    client_stats: Vec<Job>,
}

/// Options by their names; fio may write one twice.
type Options = BTreeMap<String, serde_json::Value>;

#[derive(Deserialize, Debug)]
struct Job {
    #[serde(default)]
    jobname: String,
    hostname: Option<String>,
    port: Option<u64>,
    #[serde(rename = "job options", default)]
    options: Options,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
    mixed: Option<Direction>,
}

#[derive(Deserialize, Debug)]
struct Direction {
    #[serde(default)]
    total_ios: u64,
    clat_ns: Option<Latencies>,
}

#[derive(Deserialize, Debug)]
struct Latencies {
    #[serde(rename = "N")]
    count: Option<u64>,
}

impl Job {
    /// All completions whose latency was counted.
    fn ios(&self) -> Option<u64> {
        let of = |direction: &Option<Direction>| {
            let direction = direction.as_ref()?;
            Some(direction.clat_ns.as_ref().and_then(|latencies| latencies.count).unwrap_or(direction.total_ios))
        };
        let each = [&self.read, &self.write, &self.trim].into_iter().filter_map(of);
        let sum = each.fold(0, u64::saturating_add);
        // With unified_rw_reporting there is one number for all directions.
        if sum > 0 { Some(sum) } else { of(&self.mixed).filter(|&ios| ios > 0) }
    }
}

impl Results {
    fn of_log(&self, name: &LogName, logs: &Path, is_theirs: bool) -> Option<Beside> {
        // The client's sum over all servers is no job.
        let servers = self.client_stats.iter().filter(|job| job.jobname != "All clients");
        let of_host = servers.filter(|job| job.hostname.is_some() && job.hostname == name.host);
        let jobs: Vec<&Job> = if self.client_stats.is_empty() { self.jobs.iter().collect() } else { of_host.collect() };
        let given = |job: &Job, name: &str| job.options.contains_key(name) || self.global.contains_key(name);
        let option = |job: &Job, name: &str| {
            let value = job.options.get(name).or_else(|| self.global.get(name))?;
            value.as_str().map(str::to_string)
        };
        let wrote = |job: &&Job| {
            let is_prefix = |option: String| Path::new(&option).file_name() == Some(name.prefix.as_ref());
            let prefixes = ["write_hist_log", "write_lat_log"].into_iter().filter_map(|name| option(job, name));
            job.jobname == name.prefix || prefixes.into_iter().any(is_prefix)
        };
        if !is_theirs && !jobs.iter().any(wrote) {
            return None;
        }
        let every = |job: &Job| option(job, "log_hist_msec")?.trim().parse().ok().filter(|&ms| ms > 0);
        let first = jobs.first()?;
        // Threads that report as one have one entry, and mostly nothing says so (group_reporting is none of the options that
        // fio writes): then there are fewer entries than the job was to have threads, or than there are logs.
        let threads = |job: &Job| option(job, "numjobs").and_then(|text| text.parse().ok()).unwrap_or(1);
        let alike = |job: &Job| jobs.iter().filter(|other| other.jobname == job.jobname).count();
        let grouped = jobs.iter().any(|job| given(job, "group_reporting") || threads(job) > alike(job))
            || name.number.is_some() && highest_number(logs, name) as usize > jobs.len();
        // Two servers of one host number their jobs alike.
        let clear = jobs.iter().all(|job| job.port == first.port);
        let place = name.number.and_then(|number| (number as usize).checked_sub(1));
        let job = place.and_then(|place| jobs.get(place)).filter(|_| clear && !grouped);
        // Of several hosts one may have left its results here.
        let clear = clear && (is_theirs || !self.client_stats.is_empty() || name.host.is_none());
        let ios = match (name.number, job) {
            (None, _) if clear => jobs.iter().try_fold(0u64, |sum, job| sum.checked_add(job.ios()?)),
            (_, job) => job.filter(|_| clear).and_then(|job| job.ios()),
        };
        let hist_ms = job.map_or_else(|| agreed(jobs.iter().map(|job| every(job))).flatten(), |job| every(job));
        Some(Beside { hist_ms, ios })
    }
}

/// A file as it was when it was last read: all logs of a run ask for the same one.
struct Known {
    file: PathBuf,
    was: (u64, Option<SystemTime>),
    results: Option<Arc<Results>>,
}

static KNOWN: Mutex<VecDeque<Known>> = Mutex::new(VecDeque::new());

/// The results in a file; none when it is no JSON of fio.
fn results(file: PathBuf) -> Option<Arc<Results>> {
    let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() < LIMIT)?;
    let was = (metadata.len(), metadata.modified().ok());
    let mut known = KNOWN.lock().ok()?;
    if let Some(known) = known.iter().find(|known| known.file == file && known.was == was) {
        return known.results.clone();
    }
    let results = read(&file).map(Arc::new);
    known.truncate(LOOKED_AT - 1);
    known.push_front(Known { file, was, results: results.clone() });
    results
}

fn read(file: &Path) -> Option<Results> {
    let mut text = Vec::new();
    Input::open(file, None).ok()?.take(LIMIT).read_to_end(&mut text).ok()?;
    // Warnings and CBT's banner may stand before it, fio's other output behind; of several (--status-interval) the last counts.
    let json = &text[memchr::memchr(b'{', &text)?..];
    serde_json::Deserializer::from_slice(json).into_iter().map_while(Result::ok).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &[(&str, &str)], log: &str) -> (Option<u64>, Option<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("a banner\n{{\"fio version\": \"fio-3.33\", {text}}}\ntext behind it")).unwrap();
        };
        json.iter().for_each(|(name, text)| put(name, text));
        let Beside { hist_ms, ios } = beside(&folder.path().join(log));
        (hist_ms, ios)
    }

    const TWO: &str = r#""global options": {"log_hist_msec": "9", "log_hist_msec": "250", "write_hist_log": "out/run"}, "jobs": [
        {"jobname": "a", "read": {"total_ios": 9, "clat_ns": {"N": 7, "bins": {"1": 7}}}, "write": {"total_ios": 3}},
        {"jobname": "b", "job options": {"log_hist_msec": "100"}, "mixed": {"total_ios": 40}}]"#;

    #[test]
    fn a_log_has_the_number_of_its_job() {
        for (log, expect) in [
            ("run_clat_hist.1.log", (Some(250), Some(10))),
            ("run_clat_hist.2.log.gz", (Some(100), Some(40))),
            ("run_clat_hist.3.log", (None, None)),
            ("run_clat_hist.log", (None, Some(50))),
            ("b_clat_hist.1.log", (Some(250), Some(10))),
            ("other_clat_hist.1.log", (None, None)),
        ] {
            assert_eq!(told(&[("some.json", TWO)], log), expect, "{log}");
        }
        assert_eq!(told(&[("some.json", TWO)], "run_clat_hist.1.log.vm1"), (Some(250), None), "of some host");
        assert_eq!(told(&[("run.json.vm2", TWO)], "run_clat_hist.1.log.vm1"), (None, None), "of another host");
        assert_eq!(told(&[("other.json", TWO)], "other_clat_hist.1.log"), (Some(250), Some(10)), "by the name");
        assert_eq!(told(&[("run.json", TWO), ("old.json", "\"jobs\": []")], "run_clat_hist.1.log").1, Some(10));
        let damaged = TWO.replace("[", "[1, ");
        assert_eq!(told(&[("run.json", &damaged)], "run_clat_hist.1.log"), (None, None));
    }

    #[test]
    fn groups_that_report_as_one_tell_no_number_of_a_log() {
        let text = TWO.replace("\"write_hist_log\"", "\"group_reporting\": \"\", \"write_hist_log\"");
        assert_eq!(told(&[("run.json", &text)], "run_clat_hist.1.log"), (None, None), "100 or 250");
        let text = text.replace("100", "250");
        assert_eq!(told(&[("run.json", &text)], "run_clat_hist.1.log"), (Some(250), None));
        assert_eq!(told(&[("run.json", &text)], "run_clat_hist.log"), (Some(250), Some(50)));
    }

    /// fio 3.33 with `group_reporting`: the option stands nowhere in the JSON.
    #[test]
    fn fewer_entries_than_threads_tell_no_number_of_a_log() {
        let one = |numjobs: u32| {
            format!(
                r#""jobs": [{{"jobname": "a", "job options": {{"numjobs": "{numjobs}", "log_hist_msec": "50", "write_hist_log": "run"}},
                "read": {{"total_ios": 1800}}}}]"#
            )
        };
        assert_eq!(told(&[("run.json", &one(1))], "run_clat_hist.1.log"), (Some(50), Some(1800)));
        assert_eq!(told(&[("run.json", &one(3))], "run_clat_hist.1.log"), (Some(50), None));
        assert_eq!(told(&[("run.json", &one(3))], "run_clat_hist.log"), (Some(50), Some(1800)), "one log for all");
        let two_logs = [("run.json", &*one(1)), ("run_clat_hist.1.log", ""), ("run_clat_hist.2.log", "")];
        assert_eq!(told(&two_logs, "run_clat_hist.1.log"), (Some(50), None), "two jobs in one group");
        let two_hosts = [("run.json", &*one(1)), ("run_clat_hist.2.log.vm2", "")];
        assert_eq!(told(&two_hosts, "run_clat_hist.1.log"), (Some(50), Some(1800)));
    }

    #[test]
    fn servers_and_clients_of_pbench() {
        let job = |host: &str, port: u32, ios: u32| {
            format!(r#"{{"jobname": "a", "hostname": "{host}", "port": {port}, "read": {{"total_ios": {ios}}}}}"#)
        };
        let jobs = [job("vm2", 1, 5), job("vm1", 1, 6), job("vm1", 1, 7), job("vm3", 1, 8), job("vm3", 2, 9)].join(",");
        let sum = r#"{"jobname": "All clients", "hostname": "vm2", "read": {"total_ios": 35}}"#;
        let text = format!(
            r#""global options": {{"log_hist_msec": "50", "write_hist_log": "fio"}}, "client_stats": [{jobs}, {sum}]"#
        );
        for (log, expect) in [
            ("s/clients/vm1/fio_clat_hist.2.log", (Some(50), Some(7))),
            ("s/fio_clat_hist.1.log.vm2", (Some(50), Some(5))),
            ("s/fio_clat_hist.2.log.vm2", (Some(50), None)),
            ("s/fio_clat_hist.1.log.vm3", (Some(50), None)),
            ("s/fio_clat_hist.1.log.vm4", (None, None)),
            ("s/fio_clat_hist.1.log", (None, None)),
        ] {
            assert_eq!(told(&[("s/fio-result.txt", &text)], log), expect, "{log}");
        }
    }

    /// What was read before counts no more where the file has changed.
    #[test]
    fn a_file_that_changes_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run_clat_hist.1.log");
        for ios in [5, 61, 700] {
            let text = format!(r#"{{"jobs": [{{"jobname": "run", "read": {{"total_ios": {ios}}}}}]}}"#);
            fs::write(folder.path().join("run.json"), format!("{text} {text}")).unwrap();
            assert_eq!(beside(&log).ios, Some(ios));
        }
    }
}
