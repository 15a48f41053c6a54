//! Pipes, which can be opened only once: what was looked at to find out the format is kept for who reads it.
//!
//! A view asks for the format first and reads later, with other code between; a file is simply opened again. The bytes
//! of a pipe would be lost, so an `Input` of which nothing was taken comes back here when it is dropped.

use crate::Error;
use crate::gzip::Unpacked;
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Which pipe, whatever it is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    Stdin,
    Named { device: u64, inode: u64 },
}

impl Key {
    /// Of a path that stands for no file and no folder: `-`, a FIFO, `/dev/fd/63`, a terminal.
    pub fn read(path: &Path) -> Option<Key> {
        if path == Path::new("-") {
            return Some(Key::Stdin);
        }
        let metadata = std::fs::metadata(path).ok()?;
        let once = !metadata.is_file() && !metadata.is_dir() || is_trace_pipe(path, &metadata);
        once.then(|| Key::Named { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The kernel's `trace_pipe` looks like an empty file. A read of it waits, and takes away what it returns.
fn is_trace_pipe(path: &Path, metadata: &Metadata) -> bool {
    metadata.len() == 0 && path.file_name().is_some_and(|name| name == "trace_pipe")
}

/// A pipe that was opened and of which nothing was taken: all of an `Input` but its lifetime.
pub struct Untouched {
    pub name: String,
    pub path: Option<PathBuf>,
    pub reader: Box<dyn Read + Send + 'static>,
    pub head: Vec<u8>,
    pub long_lines: u64,
    pub unpacked: Arc<Unpacked>,
    pub at_hand: Option<Arc<AtomicUsize>>,
}

/// What is known of a pipe.
pub enum Taken {
    /// It was not opened yet.
    New,
    /// It was looked at, or could not be.
    Back(Result<Untouched, Error>),
    /// It was read.
    Gone,
}

/// Pipes that were opened; none where somebody has it, or had it.
type Pipes = HashMap<Key, Option<Result<Untouched, Error>>>;

fn pipes() -> MutexGuard<'static, Pipes> {
    static PIPES: OnceLock<Mutex<Pipes>> = OnceLock::new();
    PIPES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a pipe, for good unless it is given back.
pub fn take(key: Key) -> Taken {
    match pipes().insert(key, None) {
        None => Taken::New,
        Some(Some(kept)) => Taken::Back(kept),
        Some(None) => Taken::Gone,
    }
}

/// Gives back a pipe of which nothing was taken.
pub fn give_back(key: Key, kept: Result<Untouched, Error>) {
    pipes().insert(key, Some(kept));
}
