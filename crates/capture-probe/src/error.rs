//! Why a probe cannot start.

use latscope_event::format_size;
use std::io;
use std::path::PathBuf;

/// Why a probe cannot start. Requests that fail later are samples with an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be looked at.
    #[error("{}: Cannot be found: {source}.", path.display())]
    Stat {
        /// The target.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Neither directory, file nor device.
    #[error("{}: Only a directory, a regular file or a device can be measured.", path.display())]
    Unsupported {
        /// The target.
        path: PathBuf,
    },
    /// A lab measures directories.
    #[error("{}: Not a directory; an experiment creates its own file in a directory.", path.display())]
    NoDirectory {
        /// The target.
        path: PathBuf,
    },
    /// The file cannot be opened or made.
    #[error("{}: {what}: {source}.", path.display())]
    Open {
        /// The target.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// Writing to what exists was not asked for clearly enough.
    #[error("{}: Writing would overwrite the contents; to do that, give -WWW.", path.display())]
    WouldDestroy {
        /// The target.
        path: PathBuf,
    },
    /// A device that somebody uses.
    #[error("{}: The device is in use (mounted, or part of a mounted device), so it is not written to.", path.display())]
    InUse {
        /// The target.
        path: PathBuf,
    },
    /// Not even the working set fits into the target.
    #[error("{}: The target has {}, and the working set would end at {}; make it smaller (ping: -S and -o; lab: work_size).", path.display(), format_size(*size), format_size(*end))]
    TooSmall {
        /// The target.
        path: PathBuf,
        /// Bytes of the target.
        size: u64,
        /// Where the working set would end.
        end: u64,
    },
    /// One request is larger than the working set, or than the kernel takes.
    #[error("{}: The request size {} exceeds the {} that are available there.", path.display(), format_size(*size), format_size(*limit))]
    RequestTooBig {
        /// The target.
        path: PathBuf,
        /// Bytes of a request.
        size: u64,
        /// The most that is possible.
        limit: u64,
    },
    /// The file system has no room for the file.
    #[error("{}: The working set needs {}, but only {} are free; free some space, or make it smaller (ping: -S; \
             lab: work_size).", path.display(), format_size(*needed), format_size(*free))]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Bytes that the file needs.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// The working set could not be written.
    #[error("{}: The working set cannot be written: {source}.", path.display())]
    Layout {
        /// The directory.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Direct I/O with a size or an offset that the device does not take.
    #[error("{}: Direct I/O needs sizes and offsets in multiples of {align} bytes here, and {what} is {value}.", path.display())]
    Unaligned {
        /// The target.
        path: PathBuf,
        /// What the file system says that it needs, bytes.
        align: u64,
        /// Which of the settings it is.
        what: &'static str,
        /// Its value, bytes.
        value: u64,
    },
    /// The file system knows no direct I/O.
    #[error("{}: The file system does not support direct I/O: {source}; remove -D.", path.display())]
    NoDirect {
        /// The target.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The scheduling class is refused.
    #[error("Real-time scheduling is not permitted ({source}); it needs CAP_SYS_NICE. Otherwise remove --rt.")]
    Realtime {
        /// What the kernel says.
        source: io::Error,
    },
    /// The CPU is not there, or not ours.
    #[error("Cannot run on CPU {number} ({source}); see Cpus_allowed_list in /proc/self/status, or remove --cpu.")]
    Cpu {
        /// Its number.
        number: u32,
        /// What the kernel says.
        source: io::Error,
    },
    /// There is no Linux below us.
    #[error("Measuring needs Linux; on this system, read files (-r).")]
    NotLinux,
    /// The engine is refused.
    #[error("{engine} cannot be used: {source}; use --engine pread.")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// Settings that do not go together.
    #[error("{0}")]
    Settings(String),
    /// A thread could not be started.
    #[error("Cannot start a thread: {0}.")]
    Thread(io::Error),
}
