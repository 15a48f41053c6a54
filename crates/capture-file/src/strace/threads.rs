//! The files of one recording: `strace -ff -o PREFIX` writes one for each thread, `PREFIX.TID`, whose lines do not name it.

use super::detect;
use crate::Detected;
use crate::input::Input;
use std::path::{Path, PathBuf};

/// More threads than anybody traces.
const THREADS_LIMIT: usize = 1 << 16;

/// The name without the number of the thread, and the number; `None` for a file that is called otherwise.
fn parts(path: &Path) -> Option<(&str, i32)> {
    let name = path.file_name()?.to_str()?;
    let name = [".gz", ".zst"].into_iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(name);
    let (prefix, number) = name.rsplit_once('.')?;
    let is_number = !prefix.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((prefix, number.parse().ok().filter(|_| is_number)?))
}

/// The thread that a file is of, by its name.
pub fn thread_of(path: &Path) -> Option<i32> {
    parts(path).map(|(_, tid)| tid)
}

/// Whether this is the file of a thread, by its name and its content.
pub fn is_of_thread(path: &Path) -> bool {
    parts(path).is_some()
        && path.is_file()
        && Input::open(path, None).is_ok_and(|input| !input.is_empty() && detect(input.head()) != Detected::No)
}

/// The files with those of all threads in place of a prefix (`-r strace.txt`, as it was given to `strace -ff -o`).
pub fn with_files_of_threads(files: Vec<PathBuf>) -> Vec<PathBuf> {
    let of_prefix = |file: PathBuf| {
        let found = if file.exists() || file == Path::new("-") { Vec::new() } else { files_of_threads(&file) };
        if found.is_empty() { vec![file] } else { found }
    };
    let files: Vec<PathBuf> = files.into_iter().flat_map(of_prefix).collect();
    // A thread without calls has an empty file, which only says so among others.
    let is_empty = |file: &PathBuf| file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
    let prefix = |file: &PathBuf| parts(file).map(|(prefix, _)| file.with_file_name(prefix));
    let has_calls = |empty: &PathBuf| files.iter().any(|file| prefix(file) == prefix(empty) && !is_empty(file));
    let is_left_out = |file: &PathBuf| parts(file).is_some() && is_empty(file) && has_calls(file);
    files.iter().filter(|file| !is_left_out(file)).cloned().collect()
}

fn files_of_threads(prefix: &Path) -> Vec<PathBuf> {
    let Some(name) = prefix.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of_prefix = |path: &PathBuf| parts(path).is_some_and(|(prefix, _)| prefix == name) && is_of_thread(path);
    let mut found: Vec<PathBuf> = entries.filter(is_of_prefix).take(THREADS_LIMIT).collect();
    found.sort_by_key(|path| thread_of(path));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_the_files_of_all_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["s.10", "s.9", "s.x", "other.3"] {
            std::fs::write(path(name), "1.5 close(3) = 0 <0.1>\n").unwrap();
        }
        std::fs::write(path("s.11"), "what another program wrote\n").unwrap();
        std::fs::write(path("s.12"), "1.5 +++ exited with 0 +++\n").unwrap();
        let found = with_files_of_threads(["s", "-", "s.10", "nothing"].map(path).to_vec());
        assert_eq!(found, ["s.9", "s.10", "s.12", "-", "s.10", "nothing"].map(path));
        std::fs::write(path("s.13"), "").unwrap();
        assert_eq!(with_files_of_threads(["s.9", "s.13"].map(path).to_vec()), [path("s.9")]);
        assert_eq!(with_files_of_threads(vec![path("s.13")]), [path("s.13")]);
        assert_eq!(
            [thread_of(&path("s.9.gz")), thread_of(&path("s.x")), thread_of(&path(".9"))],
            [Some(9), None, None]
        );
    }
}
