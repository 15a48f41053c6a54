//! What fio's JSON beside its logs tells of them: when their jobs began, from fio 3.36 on (`job_start`), and which version
//! wrote them.

use crate::fio_name::{LogName, host_of_folders};
use crate::input::Input;
use crate::{Detected, Format, fio_json, format_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Larger ones are no summary of jobs.
const LIMIT: u64 = 64 << 20;
const MS: i64 = 1_000_000;

/// For each file the start of its job, nanoseconds since the Unix epoch; none where no JSON beside it tells it, where two
/// contradict each other, or where the file is no log of fio.
///
/// A log belongs to the results that are of its host (as `fio --client` writes them), else to those that are called like it
/// (as CBT does, which keeps them twice), else to the only ones in the folder. Its number is that of the job among them. pbench
/// keeps the results of all hosts one level above `clients/<host>/`.
pub fn job_starts(files: &[PathBuf]) -> Vec<Option<i64>> {
    let mut folders = BTreeMap::<PathBuf, Vec<Results>>::new();
    let start = |file: &PathBuf| {
        let name = LogName::of(file)?;
        let number = name.number.unwrap_or(1).checked_sub(1)? as usize;
        let mut of_host_in = |folder: &Path, or_else: bool| {
            let all = folders.entry(folder.to_path_buf()).or_insert_with(|| results(folder));
            let of_host = only(all.iter().filter_map(|results| results.of_host(name.host.as_deref())));
            let called = || agreed(all.iter().filter(|results| is_called(&results.file, &name)).map(Results::local));
            let single = || only(all.iter().map(Results::local)).filter(|_| all.len() == 1);
            let jobs = if or_else { of_host.or_else(called).or_else(single) } else { of_host }?;
            *jobs.get(number)?
        };
        of_host_in(folder_of(file)?, true).or_else(|| of_host_in(above_clients(file)?, false))
    };
    files.iter().map(start).collect()
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

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// The first, where all others are the same.
fn agreed<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|first| all.all(|other| other == *first))
}

/// Starts of the jobs of one JSON, in the order of their numbers.
type Jobs = Vec<Option<i64>>;

/// One JSON.
struct Results {
    file: PathBuf,
    /// By host; under no name those that fio ran itself.
    hosts: BTreeMap<Option<String>, Jobs>,
    nothing: Jobs,
}

impl Results {
    fn of_host(&self, host: Option<&str>) -> Option<&Jobs> {
        self.hosts.get(&Some(host?.to_string()))
    }

    fn local(&self) -> &Jobs {
        self.hosts.get(&None).unwrap_or(&self.nothing)
    }
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
const LOOKED_AT: usize = 16;

/// The version at the beginning of a JSON, such as `fio-3.33` or `fio-3.16-31-g8c302eb9`.
fn version(file: &Path) -> Option<(u32, u32)> {
    let input = Input::open(file, None).ok()?;
    let head = input.head();
    if fio_json::detect(head) != Detected::Yes {
        return None;
    }
    let rest = String::from_utf8_lossy(&head[memchr::memchr(b'{', head)?..]);
    let version = rest.split('"').nth(3)?.strip_prefix("fio-")?;
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

fn folder_of(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// The folder that holds `clients/<host>/` in which a file lies.
fn above_clients(file: &Path) -> Option<&Path> {
    let clients = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "clients"))?;
    folder_of(clients)
}

/// CBT calls the results of `output.0_clat.1.log.vm1` `json_output.0.vm1`, others those of `run_clat.1.log` `run.json`.
fn is_called(file: &Path, log: &LogName) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.strip_prefix("json_").unwrap_or(name);
    let name = name.strip_suffix(".json").unwrap_or(name);
    let of_folder = host_of_folders(file);
    match log.host.as_deref() {
        Some(host) if of_folder.as_deref() != Some(host) => name == format!("{}.{host}", log.prefix),
        _ => name == log.prefix,
    }
}

/// Whether a file may hold fio's JSON, by its name.
pub fn may_be_results(file: &Path) -> bool {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else { return false };
    let called_so = name.contains("json") || name.starts_with("output.") || name.contains("fio-result");
    called_so && LogName::of(file).is_none()
}

fn results(folder: &Path) -> Vec<Results> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| read(entry.ok()?.path())).collect()
}

fn read(file: PathBuf) -> Option<Results> {
    let is_short = file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() < LIMIT);
    if !may_be_results(&file) || !is_short || format_of(&file) != Ok(Format::FioJson) {
        return None;
    }
    let text = fs::read(&file).ok()?;
    // Warnings and CBT's banner may stand before it, fio's other output behind.
    let begin = memchr::memchr(b'{', &text)?;
    let all: Value = serde_json::Deserializer::from_slice(&text[begin..]).into_iter().next()?.ok()?;
    let mut hosts = BTreeMap::<_, Jobs>::new();
    for job in all.get("jobs").or_else(|| all.get("client_stats"))?.as_array()? {
        // The client's sum over all servers has no start.
        if job.get("jobname").and_then(Value::as_str) == Some("All clients") {
            continue;
        }
        let host = job.get("hostname").and_then(Value::as_str).map(str::to_string);
        let start = job.get("job_start").and_then(Value::as_i64).and_then(|ms| ms.checked_mul(MS));
        let jobs = hosts.entry(host).or_default();
        // A group that reports as one has a log for each of its threads.
        for _ in 0..threads(&all, job) {
            jobs.push(start);
        }
    }
    Some(Results { file, hosts, nothing: Jobs::new() })
}

fn threads(all: &Value, job: &Value) -> usize {
    let option = |name: &str| {
        let of = |options: &Value| options.get(name).and_then(Value::as_str).map(str::to_string);
        job.get("job options").and_then(of).or_else(|| all.get("global options").and_then(of))
    };
    if option("group_reporting").is_none() {
        return 1;
    }
    option("numjobs").and_then(|number| number.parse().ok()).unwrap_or(1).clamp(1, 1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(json: &[(&str, &str)], logs: &[&str]) -> Vec<Option<i64>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in json {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files: Vec<_> = logs.iter().map(|log| folder.path().join(log)).collect();
        job_starts(&files).into_iter().map(|start| start.map(|ns| ns / MS)).collect()
    }

    fn job(members: &str) -> String {
        format!("warning\n{{\"fio version\": \"fio-3.42\", {members}}}\nrun: bye")
    }

    #[test]
    fn servers_are_known_by_their_name_and_not_by_their_place() {
        let json = job(r#""client_stats": [
            {"jobname": "a", "hostname": "vm2", "job_start": 1526}, {"jobname": "a", "hostname": "vm1", "job_start": 1442},
            {"jobname": "a", "hostname": "vm1", "job_start": 1443}, {"jobname": "All clients", "hostname": "vm2"}]"#);
        let logs =
            ["a_clat.1.log.vm1", "a_clat_hist.2.log.vm1", "a_clat.1.log.vm2", "a_clat.2.log.vm2", "a_clat.1.log.x"];
        assert_eq!(starts(&[("run.json", &json)], &logs), [Some(1442), Some(1443), Some(1526), None, None]);
    }

    #[test]
    fn groups_that_report_as_one() {
        let json = job(r#""global options": {"group_reporting": "1", "numjobs": "2"}, "jobs": [
            {"jobname": "a", "job_start": 10}, {"jobname": "b", "job_start": 20, "job options": {"numjobs": "1"}}]"#);
        let logs = ["x_clat.1.log", "x_clat.2.log", "x_clat.3.log", "x_clat.4.log", "x_clat.log", "other"];
        assert_eq!(starts(&[("x.json", &json)], &logs), [Some(10), Some(10), Some(20), None, Some(10), None]);
    }

    #[test]
    fn results_called_like_their_log() {
        let of = |start: u32| job(&format!(r#""jobs": [{{"jobname": "v", "job_start": {start}}}]"#));
        let files = [
            ("output.0.vm1", of(1)),
            ("output.0.vm2", of(2)),
            ("json_output.1.vm1", of(3)),
            ("clients/vm3/run.json", of(4)),
        ];
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let logs = [
            "output.0_clat.1.log.vm1",
            "output.0_clat.1.log.vm2",
            "output.1_clat.1.log.vm1",
            "output.1_clat.1.log.vm2",
            "clients/vm3/run_clat.1.log",
        ];
        assert_eq!(starts(&files, &logs), [Some(1), Some(2), Some(3), None, Some(4)]);
    }

    /// pbench has the results of all clients above their folders; CBT keeps those of a volume twice.
    #[test]
    fn results_of_other_folders_and_results_kept_twice() {
        let job_of =
            |host: &str, start: u32| format!(r#"{{"jobname": "a", "hostname": "{host}", "job_start": {start}}}"#);
        let of = |start: u32| job(&format!(r#""jobs": [{{"jobname": "v", "job_start": {start}}}]"#));
        let both = job(&format!(r#""client_stats": [{}, {}]"#, job_of("vm2", 7), job_of("vm1", 6)));
        let files = [
            ("s/fio-result.txt", both),
            ("output.0.vm1", of(1)),
            ("json_output.0.vm1", of(1)),
            ("output.1.vm1", of(2)),
            ("json_output.1.vm1", of(3)),
        ];
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let logs = [
            "s/clients/vm1/fio_clat_hist.1.log",
            "s/clients/vm2/fio_clat_hist.1.log.vm2",
            "s/clients/vm3/fio_clat_hist.1.log",
            "output.0_clat.1.log.vm1",
            "output.1_clat.1.log.vm1",
        ];
        assert_eq!(starts(&files, &logs), [Some(6), Some(7), None, Some(1), None]);
    }

    #[test]
    fn two_that_contradict_tell_nothing() {
        let json = job(r#""client_stats": [{"jobname": "a", "hostname": "vm1", "job_start": 5}]"#);
        assert_eq!(starts(&[("1.json", &json), ("2.json", &json)], &["a_clat.1.log.vm1"]), [None]);
        assert_eq!(starts(&[("1.json", "{\"fio version\": damaged")], &["a_clat.1.log"]), [None]);
    }
}
