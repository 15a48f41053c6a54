//! What the name of a log of fio tells: `<prefix>_<kind>[.<job>].log[.<host>]`, perhaps compressed.
//! (fio's init.c gives the name, its client and CBT's rpdcp add the host.)

use std::path::Path;

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

/// `clat_hist` comes before `clat`, which does not end its name but begins it.
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
    pub fn of(path: &Path) -> Option<LogName> {
        let name = path.file_name()?.to_string_lossy();
        let name = [".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_logs() {
        let of = |name: &str| {
            let name = LogName::of(Path::new(name))?;
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
