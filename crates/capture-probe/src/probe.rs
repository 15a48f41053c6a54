//! What a probe does to its target.

use crate::{Error, Pace};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is done to one target, how often and by what means.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// A directory, a regular file, or a device.
    pub target: PathBuf,
    /// The requests.
    pub work: Work,
    /// When they are made, all threads together.
    pub pace: Pace,
    /// How they are made.
    pub engine: Engine,
    /// Requests in flight at once, per thread; more than one takes io_uring.
    pub depth: u32,
    /// Threads that make requests, each its share.
    pub threads: u32,
    /// So many requests and no more, failed ones among them.
    pub count: Option<u64>,
    /// No request is started after so long.
    pub duration: Option<Duration>,
    /// The first failed request is the last.
    pub stop_on_error: bool,
    /// Real-time scheduling (`SCHED_FIFO`), so that other programs cannot come in between.
    pub realtime: bool,
    /// Let all others go first at the disk (idle I/O priority).
    pub idle: bool,
    /// Wait for the next request without sleeping for the last so many nanoseconds, so that the CPU does not have to wake
    /// up for it; [`Probe::BUSY`]: never sleep.
    pub spin_ns: u64,
    /// Make the requests on this CPU only.
    pub cpu: Option<u32>,
    /// Ask the kernel how long a slow request waited for a CPU.
    pub cpu_wait: bool,
    /// Of offsets and data.
    pub seed: u64,
    /// The experiment that it belongs to; then events carry it as `job`, and their `host`.
    pub job: Option<String>,
}

impl Probe {
    /// A [`Probe::spin_ns`] that leaves no time to sleep.
    pub const BUSY: u64 = u64::MAX;

    /// The process of `ioping TARGET`: reads of 4 KiB, one a second.
    pub fn new(target: impl Into<PathBuf>) -> Probe {
        Probe {
            target: target.into(),
            work: Work::default(),
            pace: Pace::closed(1_000_000_000, 0),
            engine: Engine::Auto,
            depth: 1,
            threads: 1,
            count: None,
            duration: None,
            stop_on_error: false,
            realtime: false,
            idle: false,
            spin_ns: 0,
            cpu: None,
            cpu_wait: true,
            seed: 0,
            job: None,
        }
    }

    /// The engine that [`Engine::Auto`] stands for.
    pub(crate) fn chosen_engine(&self) -> Engine {
        match self.engine {
            Engine::Auto if self.depth > 1 => Engine::Uring,
            Engine::Auto => Engine::Blocking,
            engine => engine,
        }
    }
}

/// What a request does.
#[derive(Clone, PartialEq, Debug)]
pub struct Work {
    /// Reads or writes.
    pub operation: Operation,
    /// Bytes of a request.
    pub size: u64,
    /// Bytes that requests are spread over; by the target when not given.
    pub work_size: Option<u64>,
    /// Where the working set starts, bytes.
    pub work_offset: u64,
    /// Where the next request goes.
    pub order: Order,
    /// Of [`Order::Listed`], bytes.
    pub offsets: Arc<[u64]>,
    /// Where its data shall be before.
    pub cache: Cache,
    /// Ask the kernel before every read whether its data really is there.
    pub verify_cache: bool,
    /// [`Order::Append`]: at the end of the working set, go on at its beginning over what is there, instead of emptying the
    /// file.
    pub wraps: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_DSYNC` or `O_SYNC`.
    pub open_sync: OpenSync,
    /// A call that makes a write durable, which counts as part of it.
    pub after_write: AfterWrite,
    /// `RWF_NOWAIT`: fail rather than wait.
    pub nowait: bool,
    /// `RWF_HIPRI`: poll for the completion, where the device has queues for that.
    pub hipri: bool,
    /// In a directory: keep the file, as `ioping.tmp`, and take it again next time.
    pub keep: bool,
    /// Existing files and devices may be overwritten.
    pub destroy: bool,
}

impl Work {
    /// Whether a write that is done is on the device, and not in memory alone.
    pub fn is_durable(&self) -> bool {
        self.direct || self.open_sync != OpenSync::None || self.after_write != AfterWrite::None
    }
}

impl Default for Work {
    fn default() -> Work {
        Work {
            operation: Operation::Read,
            size: 4096,
            work_size: None,
            work_offset: 0,
            order: Order::Random,
            offsets: Arc::default(),
            cache: Cache::Cold,
            verify_cache: true,
            wraps: false,
            direct: false,
            open_sync: OpenSync::None,
            after_write: AfterWrite::None,
            nowait: false,
            hipri: false,
            keep: false,
            destroy: false,
        }
    }
}

/// Reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// A write, a read, a write ...
    Alternate,
}

/// Where requests go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Anywhere in the working set, at multiples of the request size.
    Random,
    /// One after the other, and from the beginning again.
    Linear,
    /// One after the other, once.
    Once,
    /// At [`Work::offsets`], in their order, once.
    Listed,
    /// At the end of the file, which grows; when it has the size of the working set, it is emptied.
    Append,
}

/// Where the data of a request shall be before it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// Not in memory.
    Cold,
    /// Wherever it is.
    Any,
    /// In memory.
    Hot,
}

impl Cache {
    /// The word for options and context.
    pub fn word(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Any => "any",
            Cache::Hot => "hot",
        }
    }
}

/// How the file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenSync {
    /// Writes end in memory.
    None,
    /// `O_DSYNC`.
    Dsync,
    /// `O_SYNC`.
    Sync,
}

/// What follows a write and counts with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterWrite {
    /// Nothing.
    None,
    /// `fdatasync`.
    Fdatasync,
    /// `fsync`.
    Fsync,
}

/// How requests are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Blocking, or io_uring when more than one is in flight.
    Auto,
    /// `pread` and `pwrite`; `preadv2` and `pwritev2` where flags ask for it.
    Blocking,
    /// `io_submit` and `io_getevents`, one in flight.
    Aio,
    /// io_uring.
    Uring,
}

impl Engine {
    /// The word for options and context.
    pub fn word(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Blocking => "pread",
            Engine::Aio => "libaio",
            Engine::Uring => "io_uring",
        }
    }
}

/// Settings that do not go together.
pub(crate) fn check(probe: &Probe) -> Result<(), Error> {
    let engine = probe.chosen_engine();
    let wrong = if probe.threads == 0 || probe.depth == 0 {
        "At least one thread and a depth of one are needed."
    } else if probe.threads > 1024 || probe.depth > 4096 {
        "At most 1024 threads with 4096 requests in flight each are possible."
    } else if probe.depth > 1 && engine != Engine::Uring {
        "More than one request in flight needs io_uring; remove --engine, or use --threads."
    } else if !(probe.pace.interval_ns.is_finite() && probe.pace.interval_ns >= 0.0) {
        "The rate must be above zero."
    } else {
        return Ok(());
    };
    Err(Error::Settings(wrong.into()))
}
