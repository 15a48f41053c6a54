//! Event logs that are folders: rolled ones of Spark 3.0 on, and those of Databricks clusters.

use super::detect;
use crate::Detected;
use crate::input::Input;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name of a file.
fn name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

/// The number of `events_<number>_<application>[.<codec>][.compact]`.
fn number(path: &Path) -> Option<u64> {
    name(path).strip_prefix("events_")?.split_once('_')?.0.parse().ok()
}

/// Whether a file is what the history server left of parts before it: without the jobs that had finished.
pub fn is_compacted(path: &Path) -> bool {
    name(path).ends_with(".compact")
}

/// How many parts of a rolled log are missing, or are there only without the jobs that had finished.
pub fn missing(files: &[PathBuf]) -> u64 {
    let numbers: Vec<u64> = files.iter().filter_map(|path| number(path)).collect();
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return 0 };
    let whole = numbers.len() - usize::from(is_compacted(&files[0]));
    (last.abs_diff(first.min(1)) + 1).saturating_sub(whole as u64)
}

/// Whether the application has ended: Spark writes so by the name of an empty file of its own.
pub fn has_ended(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .map(|path| name(&path).to_string())
        .any(|name| name.starts_with("appstatus_") && !name.ends_with(".inprogress"))
}

/// Whether no part is missing between two that stand beside each other.
pub fn follows(one: &Path, next: &Path) -> bool {
    number(one).zip(number(next)).is_none_or(|(one, next)| next <= one.saturating_add(1))
}

/// The files of the log in their order; none where the folder is no log.
pub fn files(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = folder.read_dir().ok()?.flatten().map(|entry| entry.path());
    let all: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    let mut rolled: Vec<(u64, bool, PathBuf)> =
        all.iter().filter_map(|path| Some((number(path)?, is_compacted(path), path.clone()))).collect();
    if !rolled.is_empty() {
        rolled.sort();
        // What was compacted holds all before it, and replaces the file of its own number.
        let from = rolled.iter().rposition(|(_, is_compact, _)| *is_compact).unwrap_or(0);
        return Some(rolled.drain(from..).map(|(_, _, path)| path).collect());
    }
    // Of Databricks: dated parts, then the one that is written.
    let is_part = |path: &&PathBuf| name(path) == "eventlog" || name(path).starts_with("eventlog-");
    let mut parts: Vec<PathBuf> = all.iter().filter(is_part).cloned().collect();
    parts.sort_by(|a, b| (name(a) == "eventlog", name(a)).cmp(&(name(b) == "eventlog", name(b))));
    (!parts.is_empty()).then_some(parts)
}

/// Endings of compressed logs, and of those that are written.
const ENDINGS: [&str; 5] = [".inprogress", ".lz4", ".lzf", ".snappy", ".zstd"];

/// Whether a path in a folder of logs is one of them: by its name `app-20261121011349-0000`, `local-1795227501211.lz4`,
/// `application_1_2_1.zstd.inprogress`, `eventlog_v2_...`, or by its content if the name can be that of a log: `app-nightly`, as
/// `spark.app.id` may be any text, `spark-0123abcd...` of Kubernetes, a UUID, or any other with the ending of one.
pub fn is_log(path: &Path) -> bool {
    let name = name(path);
    if name.starts_with("eventlog_v2_") {
        return path.is_dir() && files(path).is_some();
    }
    let rest = ["app-", "local-", "application_"].into_iter().find_map(|start| name.strip_prefix(start));
    if rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit())) {
        return path.is_file();
    }
    let plain = ENDINGS.iter().fold(name, |name, ending| name.trim_end_matches(ending));
    let is_uuid = plain.len() >= 36 && plain.bytes().take(36).all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let may_be = rest.is_some() || name.starts_with("spark-") || is_uuid || plain.len() < name.len();
    may_be
        && !name.starts_with('.')
        && path.is_file()
        && Input::open(path, None).is_ok_and(|input| detect(&input) == Detected::Yes)
}

/// How much of two logs is compared.
const COMPARED: u64 = 1 << 16;

/// Takes out logs in progress that are the beginning of a complete one: where files are renamed by a copy, they may be left.
pub fn take_begun(logs: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let head = |path: &Path, bytes: u64| {
        let mut head = Vec::new();
        File::open(path).and_then(|file| file.take(bytes).read_to_end(&mut head)).is_ok().then_some(head)
    };
    let is_begun = |path: &PathBuf| {
        let whole = path.to_str().and_then(|path| path.strip_suffix(".inprogress")).map(PathBuf::from);
        whole.filter(|whole| logs.contains(whole)).is_some_and(|whole| {
            let [own, all] = [path, &whole].map(|path| path.metadata().map_or(0, |metadata| metadata.len()));
            let compared = own.min(COMPARED);
            own <= all && head(path, compared).is_some_and(|own| head(&whole, compared) == Some(own))
        })
    };
    let begun: Vec<PathBuf> = logs.iter().filter(|path| is_begun(path)).cloned().collect();
    logs.retain(|log| !begun.contains(log));
    begun
}

/// What was taken out, in a sentence.
pub fn begun_note(begun: &[PathBuf]) -> Option<String> {
    let first = name(begun.first()?);
    Some(match begun.len() - 1 {
        0 => format!("{first} is left out: it is the beginning of the log without .inprogress."),
        more => format!("{first} and {more} more are left out: they are the beginning of logs without .inprogress."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_log_in_progress_is_not_read_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let logs = [
            ("app-1", "abcd"),
            ("app-1.inprogress", "abc"),
            ("app-2", "abcd"),
            ("app-2.inprogress", "xy"),
            ("app-3.inprogress", "a"),
        ];
        let mut paths: Vec<PathBuf> = logs
            .iter()
            .map(|(name, text)| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            })
            .collect();
        let note = begun_note(&take_begun(&mut paths)).unwrap();
        let left: Vec<&str> = paths.iter().map(|path| name(path)).collect();
        // The second one was started again under its name.
        assert_eq!(left, ["app-1", "app-2", "app-2.inprogress", "app-3.inprogress"]);
        assert!(note.starts_with("app-1.inprogress is left out"), "{note}");
        assert_eq!(begun_note(&take_begun(&mut paths)), None);
    }

    #[test]
    fn an_application_has_ended_by_the_name_of_its_status() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("appstatus_app-1.inprogress"), "").unwrap();
        assert!(!has_ended(folder.path()));
        std::fs::write(folder.path().join("appstatus_app-1"), "").unwrap();
        assert!(has_ended(folder.path()));
    }

    fn files_of(names: &[&str]) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| std::fs::write(folder.path().join(name), "").unwrap());
        let files = files(folder.path())?;
        Some(files.iter().map(|path| name(path).to_string()).collect())
    }

    #[test]
    fn parts_are_in_order_and_those_that_were_compacted_are_left_out() {
        let rolled =
            ["events_10_app-1", "events_9_app-1.zstd", "appstatus_app-1.inprogress", ".events_9_app-1.zstd.crc"];
        assert_eq!(files_of(&rolled).unwrap(), ["events_9_app-1.zstd", "events_10_app-1"]);
        let compacted = ["events_1_app-1", "events_2_app-1.zstd", "events_2_app-1.zstd.compact", "events_3_app-1"];
        assert_eq!(files_of(&compacted).unwrap(), ["events_2_app-1.zstd.compact", "events_3_app-1"]);
        let databricks = ["eventlog", "eventlog-2021-06-14--20-00.gz", "eventlog-2021-06-14--18-00.gz", "stdout"];
        let expected = ["eventlog-2021-06-14--18-00.gz", "eventlog-2021-06-14--20-00.gz", "eventlog"];
        assert_eq!(files_of(&databricks).unwrap(), expected);
        assert_eq!(files_of(&["appstatus_app-1", "events_x_app"]), None);
    }

    #[test]
    fn missing_parts_are_counted() {
        let missing = |names: &[&str]| missing(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(missing(&["events_1_a", "events_2_a.zstd", "events_3_a"]), 0);
        assert_eq!(missing(&["events_2_a", "events_5_a"]), 3);
        assert_eq!(missing(&["events_4_a.compact", "events_5_a"]), 4);
        assert_eq!((missing(&["eventlog"]), missing(&["events_18446744073709551615_a"])), (0, u64::MAX - 1));
    }

    #[test]
    fn logs_of_any_cluster_manager_are_found_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let is_log = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            is_log(&path)
        };
        let log = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4.0.5\"}\n";
        for name in [
            "app-20261121011349-0000",
            "app-nightly",
            "local-a",
            "application_b.zstd",
            "spark-0123456789abcdef0123456789abcdef",
            "spark-application-1795227501211",
            "123e4567-e89b-12d3-a456-426614174000_1",
            "night.inprogress",
        ] {
            assert!(is_log(name, log), "{name}");
        }
        let others = [
            ("spark-defaults.conf", "spark.master local"),
            ("app-notes.txt", "text"),
            ("night", log),
            (".a.zstd", log),
            ("b.zstd", "text"),
        ];
        others.into_iter().for_each(|(name, text)| assert!(!is_log(name, text), "{name}"));
    }
}
