//! The files of one recording: blktrace writes one for each CPU, `PREFIX.blktrace.CPU`.

use crate::Error;
use std::path::{Path, PathBuf};

/// More files than a machine has CPUs.
const CPUS_LIMIT: usize = 8192;

/// `PREFIX.blktrace.CPU`, perhaps compressed.
struct Member<'a> {
    prefix: &'a str,
    cpu: u32,
    packed: &'a str,
}

fn member(path: &Path) -> Option<Member<'_>> {
    let name = path.file_name()?.to_str()?;
    let packed = [".gz", ".zst"].into_iter().find(|&packed| name.ends_with(packed)).unwrap_or("");
    let (prefix, cpu) = name.strip_suffix(packed)?.rsplit_once(".blktrace.")?;
    Some(Member { prefix, cpu: cpu.parse().ok()?, packed })
}

/// Whether this is the file of a CPU, and holds something.
pub fn is_of_cpu(path: &Path) -> bool {
    member(path).is_some() && path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// One of the files that holds something; else any.
fn with_records(files: Vec<PathBuf>) -> Option<PathBuf> {
    files.iter().find(|file| is_of_cpu(file)).or(files.first()).cloned()
}

/// All files of the recording that a file belongs to, by the number of the CPU; the file alone if it is called otherwise.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let Some(Member { prefix, packed, .. }) = member(path).filter(|_| path.is_file()) else {
        return Ok(vec![path.to_path_buf()]);
    };
    of_prefix(folder(path), prefix, packed)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn of_prefix(folder: &Path, prefix: &str, packed: &str) -> Result<Vec<PathBuf>, Error> {
    let entries = folder.read_dir().map_err(|error| Error::io(folder, &error))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<(u32, PathBuf)> = paths
        .filter_map(|path| {
            let member = member(&path).filter(|member| member.prefix == prefix && member.packed == packed)?;
            let cpu = member.cpu;
            path.is_file().then_some((cpu, path))
        })
        .collect();
    found.sort();
    found.truncate(CPUS_LIMIT);
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The files with one of each recording of blktrace, which stands for all of it; a prefix (`-r sda`, as for `blkparse -i`) is
/// replaced by a file of its recording.
pub fn one_of_each_recording(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = Vec::new();
    for given in files {
        let file = match given.file_name().and_then(|name| name.to_str()) {
            Some(prefix) if !given.exists() => {
                let files =
                    |packed: &&str| of_prefix(folder(&given), prefix, packed).ok().filter(|all| !all.is_empty());
                ["", ".gz", ".zst"].iter().find_map(files).and_then(with_records)
            }
            // The file of a CPU that did no I/O is empty.
            _ if !is_of_cpu(&given) => self::files(&given).ok().and_then(with_records),
            _ => None,
        };
        let file = file.unwrap_or(given);
        let is_known = member(&file).filter(|_| file.is_file()).is_some_and(|new| {
            let same = |old: &Member| (old.prefix, old.packed) == (new.prefix, new.packed);
            kept.iter().any(|old| folder(old) == folder(&file) && member(old).is_some_and(|old| same(&old)))
        });
        if !is_known {
            kept.push(file);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_known_by_any_of_its_files_and_by_its_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["sda.blktrace.0", "sda.blktrace.10", "sda.blktrace.2", "sdb.blktrace.0", "sda.blktrace.x", "sda"] {
            std::fs::write(path(name), "").unwrap();
        }
        let sda = ["sda.blktrace.0", "sda.blktrace.2", "sda.blktrace.10"].map(path);
        assert_eq!(files(&sda[2]).unwrap(), sda);
        assert_eq!(files(&path("sda")).unwrap(), [path("sda")]);
        std::fs::remove_file(path("sda")).unwrap();
        let given = ["sda.blktrace.2", "sdb", "sda", "sdb.blktrace.0", "nothing"].map(path).to_vec();
        let expected = ["sda.blktrace.2", "sdb.blktrace.0", "nothing"].map(path);
        for name in ["sda.blktrace.2", "sdb.blktrace.0"] {
            std::fs::write(path(name), "records").unwrap();
        }
        assert_eq!(one_of_each_recording(given), expected);
        let empty = ["sda.blktrace.0", "sda"].map(path).to_vec();
        assert_eq!(one_of_each_recording(empty), [path("sda.blktrace.2")], "a CPU without I/O");
    }
}
