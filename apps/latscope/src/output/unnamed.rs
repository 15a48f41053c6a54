//! Files that have no name of their own until they are complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// So many temporary names are tried before giving up.
const NAMES: u32 = 100;

/// A file under a temporary name. It is removed unless it gets its own.
pub struct Unnamed {
    temporary: PathBuf,
    name: PathBuf,
}

impl Unnamed {
    /// Replaces what has the name.
    pub fn name_it(self) -> io::Result<()> {
        fs::rename(&self.temporary, &self.name)?;
        forget(&self.temporary);
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // Nothing more can be done about a file that cannot be removed.
        let _ = fs::remove_file(&self.temporary);
        forget(&self.temporary);
    }
}

/// Opens what will have this name: a new file, or at once what is no file (a device, a FIFO) or cannot be replaced.
pub fn open(path: &Path) -> io::Result<(File, Option<Unnamed>)> {
    let there = match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            return OpenOptions::new().write(true).open(path).map(|file| (file, None));
        }
        // A descriptor that somebody opened for us goes on where it stands.
        Ok(_) if path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stderr") => {
            return OpenOptions::new().append(true).open(path).map(|file| (file, None));
        }
        Ok(metadata) => Some(metadata),
        Err(_) => None,
    };
    // A link stays a link: the file behind it is replaced.
    let name = match path.canonicalize() {
        Ok(name) => name,
        Err(_) if path.is_symlink() => return File::create(path).map(|file| (file, None)),
        Err(_) => path.to_path_buf(),
    };
    if there.is_some() {
        // A file that may not be written may not be replaced either.
        OpenOptions::new().write(true).open(&name)?;
    }
    let (file, temporary) = match create(&name) {
        Err(error) if there.is_some() && error.kind() == ErrorKind::PermissionDenied => {
            return File::create(&name).map(|file| (file, None));
        }
        created => created?,
    };
    let unnamed = Unnamed { temporary, name };
    if let Some(metadata) = there {
        // Only root may give a file away; the mode is set behind it, because a new owner takes away bits.
        let _ = fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
        file.set_permissions(metadata.permissions())?;
    }
    Ok((file, Some(unnamed)))
}

/// Makes a file beside this one.
fn create(name: &Path) -> io::Result<(File, PathBuf)> {
    remove_when_killed();
    let own = name.file_name().unwrap_or_default().to_string_lossy();
    // A name may have 255 bytes.
    let own: String = own.chars().take(50).collect();
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for number in 0..NAMES {
        let temporary = name.with_file_name(format!(".{own}.{}-{number}.tmp", std::process::id()));
        let mut known = unfinished();
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => {
                known.push(temporary.clone());
                return Ok((file, temporary));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(temporary: &Path) {
    unfinished().retain(|path| path != temporary);
}

/// Whether a capture decides what signals mean.
static HANDLED: AtomicBool = AtomicBool::new(false);

/// From now on a signal ends a capture, not the program.
pub fn signals_are_handled() {
    HANDLED.store(true, Ordering::Relaxed);
}

/// Removes temporary files when a signal ends the program.
fn remove_when_killed() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler the file stays, which is no reason to fail.
        let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let files = unfinished();
                files.iter().for_each(|path| drop(fs::remove_file(path)));
                if !HANDLED.load(Ordering::Relaxed) {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        });
    });
}
