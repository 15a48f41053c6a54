//! Files that are replaced as a whole or not at all, and folders that one process has for itself.

use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Replaces a file; after a crash it has the old content or the new.
///
/// # Errors
/// When it cannot be written; the old content stays.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Moves a file that cannot be understood out of the way, to the same name with `.damaged`, where somebody may look at it.
///
/// # Errors
/// When it cannot be renamed; it stays where it is.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    fs::rename(path, &aside).map(|()| aside)
}

/// Keeps other processes from this folder until the returned file is dropped.
///
/// # Errors
/// When another process has it, or it cannot be opened.
pub fn lock(folder: &Path) -> io::Result<File> {
    let folder = File::open(folder)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other("another process uses this folder")),
        // Some network file systems have no locks.
        _ => Ok(folder),
    }
}
