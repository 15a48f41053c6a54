//! What the names and folders of fio's files say. A log is called `<prefix>_<kind>[.<job>].log[.<host>]`, perhaps compressed
//! (fio's init.c gives the name, its client and CBT's rpdcp add the host); results are called by the user or by CBT.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Endings of compressed files; `.fz` is fio's own.
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".fz"];

/// What a log is of, as its name says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogKind {
    /// Completion, total or submission latency.
    Clat,
    Lat,
    Slat,
    /// Histograms of completion latencies.
    ClatHist,
    /// Bandwidth or IOPS: no latencies.
    Bandwidth,
    Iops,
}

/// `clat_hist` comes before `clat`, which does not end its name but starts it.
const KINDS: [(&str, LogKind); 6] = [
    ("_clat_hist", LogKind::ClatHist),
    ("_clat", LogKind::Clat),
    ("_slat", LogKind::Slat),
    ("_lat", LogKind::Lat),
    ("_bw", LogKind::Bandwidth),
    ("_iops", LogKind::Iops),
];

/// The parts of a log's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogName {
    /// What the user called it; the job's name by default.
    pub prefix: String,
    pub kind: LogKind,
    /// Number of the thread over the whole fio process; none where all jobs share one log.
    pub number: Option<u32>,
    /// Host, by the name's end or by pbench's folder `clients/<host>`.
    pub host: Option<String>,
}

impl LogName {
    /// The parts of this path; none when it is no name of a log.
    pub fn parse(path: &Path) -> Option<LogName> {
        let name = path.file_name()?.to_string_lossy();
        let name = unpacked_name(&name);
        // A host may be called anything, "x.log" too, so the first place that fits from the right is taken.
        let parts = name.rmatch_indices(".log").find_map(|(at, _)| {
            let host = match &name[at + 4..] {
                "" | ".fz" => None,
                rest => Some(rest.strip_prefix('.')?.trim_end_matches(".fz")),
            };
            let (before, number) = match name[..at].rsplit_once('.') {
                Some((before, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                    (before, Some(number.parse().ok()?))
                }
                _ => (&name[..at], None),
            };
            let (prefix, kind) =
                KINDS.iter().find_map(|&(word, kind)| Some((before.strip_suffix(word)?.to_string(), kind)))?;
            Some(LogName { prefix, kind, number, host: host.map(str::to_string) })
        })?;
        let host = parts.host.clone().or_else(|| host_of_folders(path));
        Some(LogName { host, ..parts })
    }

    /// The label of a job, in the name or, where all share a log, by its place in it (counted from 1).
    pub fn job(&self, place: u32) -> String {
        format!("{}.{}", self.prefix, self.number.unwrap_or(place))
    }
}

/// pbench keeps the files of a host in `clients/<host>/`.
pub fn host_of_folders(path: &Path) -> Option<String> {
    let mut parts = path.parent()?.components().map(|part| part.as_os_str());
    parts.find(|&part| part == "clients")?;
    Some(parts.next()?.to_string_lossy().into_owned())
}

/// The name without the ending of a compressed file that any program writes.
fn unpacked_name(name: &str) -> &str {
    [".gz", ".zst"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// The folder of a file, `.` for a bare name.
pub fn folder_of(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// The folder `clients` that holds the folder of a host in which a file lies.
pub fn clients_of(file: &Path) -> Option<&Path> {
    file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "clients"))
}

/// The folder that holds `clients/<host>/` in which a file lies.
pub fn above_clients(file: &Path) -> Option<&Path> {
    folder_of(clients_of(file)?)
}

/// The host in the name of results: CBT's `output.0.vm1` and `json_output.0.vm1`, and `run.json.vm1`, as rpdcp names copies.
pub fn host_of_results(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_string_lossy();
    let name = unpacked_name(&name);
    let name = name.strip_prefix("json_").unwrap_or(name);
    if let Some((_, host)) = name.rsplit_once(".json.") {
        return Some(host.to_string());
    }
    let (volume, host) = name.strip_prefix("output.")?.split_once('.')?;
    volume.bytes().all(|byte| byte.is_ascii_digit()).then(|| host.to_string())
}

/// CBT calls the results of `output.0_clat.1.log.vm1` `json_output.0.vm1`, others those of `run_clat.1.log` `run.json`.
pub fn is_called(file: &Path, log: &LogName) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = unpacked_name(&name);
    let name = name.strip_prefix("json_").unwrap_or(name);
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
    called_so && LogName::parse(file).is_none()
}

/// The path without the ending of a compressed file.
pub fn plain_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let plain = COMPRESSED.iter().find_map(|ending| name.strip_suffix(ending.as_bytes()));
    plain.map_or_else(|| path.to_path_buf(), |plain| path.with_file_name(OsStr::from_bytes(plain)))
}

/// The files without those that are copies of others but for the compression, and those.
pub fn without_compressed_copies(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut first = BTreeMap::<PathBuf, PathBuf>::new();
    for file in &files {
        let kept = first.entry(plain_name(file)).or_insert_with(|| file.clone());
        // The plain one is the shortest.
        if file.as_os_str().len() < kept.as_os_str().len() {
            kept.clone_from(file);
        }
    }
    files.into_iter().partition(|file| first.get(&plain_name(file)) == Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs() {
        let of = |name: &str| {
            let name = LogName::parse(Path::new(name))?;
            Some((name.job(1), name.kind, name.host.unwrap_or_default()))
        };
        for (name, job, kind, host) in [
            ("run_clat.3.log.hostname", "run.3", LogKind::Clat, "hostname"),
            ("/a/output.0_clat_hist.2.log.gprfc073", "output.0.2", LogKind::ClatHist, "gprfc073"),
            ("my_job.x_lat.12.log", "my_job.x.12", LogKind::Lat, ""),
            ("H_clat.1.log.127.0.0.2", "H.1", LogKind::Clat, "127.0.0.2"),
            ("all_slat.log.gz", "all.1", LogKind::Slat, ""),
            ("z_clat.1.log.fz", "z.1", LogKind::Clat, ""),
            ("a_bw.1.log.host.zst", "a.1", LogKind::Bandwidth, "host"),
            ("a_clat.1.log.x.log", "a.1", LogKind::Clat, "x.log"),
            ("t/clients/vm1/fio_clat_hist.1.log", "fio.1", LogKind::ClatHist, "vm1"),
        ] {
            assert_eq!(of(name), Some((job.into(), kind, host.into())), "{name}");
        }
        for name in ["clat.log", "run_clat.1.txt", "run_flat.1.log", "run_clat.1.logs", "run.log"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
