//! The rotated files on the disk: their names, sizes and removal.

use latscope_event::format_wall;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the file that starts at this Unix time.
pub fn rotated(write: &Path, from_ns: i64) -> PathBuf {
    let (folder, stem) = place(write);
    folder.join(format!("{stem}.{}.lat", stamp(from_ns)))
}

/// The files of this name with their sizes, the oldest first, those of earlier runs among them; without the present one.
pub fn older(write: &Path, present: &Path) -> Vec<(PathBuf, u64)> {
    let (folder, stem) = place(write);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_string);
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| name(path).is_some_and(|name| is_stamped(&name, &stem)))
        .filter(|path| path.file_name() != present.file_name())
        .collect();
    // Their names sort by time.
    files.sort();
    files.into_iter().map(|path| (path.clone(), size(&path))).collect()
}

/// Bytes of a file.
pub fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Bytes of files.
pub fn sum(files: &[(PathBuf, u64)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes).sum()
}

/// With less than this on the disk, a flight recorder writes no accounts but those at the ends of files: events need it.
const LEAST_FREE_BYTES: u64 = 64 << 10;

/// So long a flight recorder waits for room where there is nothing that it could remove, and so long in all.
pub const FULL_PAUSE: Duration = Duration::from_millis(100);
const FULL_PATIENCE: Duration = Duration::from_secs(10);

/// Attempts this again and again, with something done in between, before it fails.
pub fn insist<T, E>(mut attempt: impl FnMut() -> Result<T, E>, mut between: impl FnMut()) -> Result<T, E> {
    let first = Instant::now();
    loop {
        let attempted = attempt();
        if attempted.is_ok() || first.elapsed() >= FULL_PATIENCE {
            return attempted;
        }
        between();
        std::thread::sleep(FULL_PAUSE);
    }
}

/// Whether the disk of the files has hardly any bytes left.
pub fn is_full(write: &Path) -> bool {
    rustix::fs::statvfs(folder(write)).is_ok_and(|disk| disk.f_frsize.saturating_mul(disk.f_bavail) < LEAST_FREE_BYTES)
}

/// Removes these files; how many could be.
pub fn remove(files: impl IntoIterator<Item = (PathBuf, u64)>) -> usize {
    let mut removed = 0;
    for (path, _) in files {
        match std::fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) => say!("latscope: {}: Cannot be removed: {error}.", path.display()),
        }
    }
    removed
}

/// The folder of the files.
pub fn folder(write: &Path) -> PathBuf {
    place(write).0
}

/// Folder and name without its ending.
fn place(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.to_path_buf(), path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

/// Local time in a form that sorts and is no trouble in a file name: 2026-11-21T07-00-00.250.
fn stamp(unix_ns: i64) -> String {
    format_wall(unix_ns, 3, true).replace(' ', "T").replace(':', "-")
}

/// Whether a name is that of a rotated file: `stem.2026-11-21T07-00-00.250.lat`.
fn is_stamped(name: &str, stem: &str) -> bool {
    let middle =
        name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_suffix(".lat"));
    middle.is_some_and(|middle| {
        middle.len() == "2026-11-21T07-00-00.250".len()
            && middle.bytes().zip("dddd-dd-ddTdd-dd-dd.ddd".bytes()).all(|(byte, form)| match form {
                b'd' => byte.is_ascii_digit(),
                form => byte == form,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rotated_files_are_ever_removed() {
        let name = format!("t.{}.lat", stamp(1_700_000_000_123_000_000));
        assert!(is_stamped(&name, "t"), "{name}");
        for other in ["t.lat", "t.2026.lat", "tt.2026-11-21T07-00-00.250.lat", "t.2026-11-21T07-00-00.25x.lat"] {
            assert!(!is_stamped(other, "t"), "{other}");
        }
    }
}
