//! What the meaning of words depends on: files that are there, and standard input. Tests have a machine of their own.

use std::io;
use std::path::Path;

/// What a plan has to know about the machine: words alone do not say whether they are files.
pub struct World {
    /// Whether there is such a file, folder or device.
    pub exists: fn(&Path) -> bool,
    /// Whether it is a regular file.
    pub is_file: fn(&Path) -> bool,
    /// Whether it is a folder.
    pub is_dir: fn(&Path) -> bool,
    /// The text of a file with experiments.
    pub read: fn(&Path) -> io::Result<String>,
    /// Whether something waits to be read on standard input.
    pub is_fed: fn() -> bool,
    /// A number that no other run has.
    pub seed: u64,
}

impl World {
    /// The machine that the program runs on.
    pub fn this_machine() -> World {
        World {
            exists: Path::exists,
            is_file: Path::is_file,
            is_dir: Path::is_dir,
            read: |path| std::fs::read_to_string(path),
            is_fed: latscope_capture_file::is_fed,
            seed: latscope_pipeline::now_ns() as u64,
        }
    }
}
