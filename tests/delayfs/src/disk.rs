//! The file system: a root folder and the file `disk`.

use crate::exact::{self, monotonic_ns};
use crate::schedule::Schedule;
use crate::timer::{Timer, Wait};
use fuser::consts::{FOPEN_DIRECT_IO, FUSE_ASYNC_DIO};
use fuser::{
    FUSE_ROOT_ID, FileAttr, FileType, Filesystem, KernelConfig, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow,
};
use libc::{EINVAL, EIO, ENOENT, ENOSPC, c_int};
use std::ffi::OsStr;
use std::io::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The kernel need not ask for names and attributes again: they do not change.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
const FILE: u64 = 2;

/// Requests that arrived.
#[derive(Default)]
pub struct Served {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub slow: AtomicU64,
    /// When each read came and was answered, where that is wanted.
    pub log: Option<Mutex<Vec<(u64, u64)>>>,
}

/// The file in memory.
pub struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    size: u64,
    schedule: Schedule,
    served: Arc<Served>,
    start: Instant,
    timer: Timer,
    exact: bool,
}

impl Disk {
    /// A file of zeros; its schedule starts now.
    pub fn new(size: u64, schedule: Schedule, served: Arc<Served>, exact: bool) -> Result<Disk, Error> {
        let length = usize::try_from(size).map_err(Error::other)?;
        let bytes = Arc::new(Mutex::new(vec![0; length]));
        let timer = Timer::start(if exact { Wait::Exact } else { Wait::Asleep })?;
        Ok(Disk { bytes, size, schedule, served, start: Instant::now(), timer, exact })
    }

    /// When a request that arrives now is done, if that takes so long.
    fn due(&self, delay: Duration) -> Instant {
        self.start + self.schedule.start(self.start.elapsed()) + delay
    }

    /// The same for a read or write, of which some are slow.
    fn due_transfer(&self, count: &AtomicU64, delay: Duration, offset: i64, size: u64) -> Instant {
        count.fetch_add(1, Ordering::Relaxed);
        // This is called by one thread only, so that the sum has no gaps.
        let all = self.served.reads.load(Ordering::Relaxed) + self.served.writes.load(Ordering::Relaxed);
        let is_slow_place = Schedule::touches(self.schedule.slow_bytes, offset.unsigned_abs(), size);
        if is_slow_place || self.schedule.is_slow(all - 1) {
            self.served.slow.fetch_add(1, Ordering::Relaxed);
            return self.due(self.schedule.slow);
        }
        self.due(delay)
    }

    fn attributes(&self, inode: u64) -> FileAttr {
        let (kind, perm, size) = if inode == FUSE_ROOT_ID {
            (FileType::Directory, 0o755, 0)
        } else {
            (FileType::RegularFile, 0o644, self.size)
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> Result<(), c_int> {
        // Without it a loop device above waits for each request before it sends the next.
        config.add_capabilities(FUSE_ASYNC_DIO).map_err(|_| EINVAL)?;
        config.set_max_background(256).map_err(|_| EINVAL)?;
        // This is the thread that takes requests from now on.
        if self.exact {
            exact::realtime(exact::TAKES).map_err(|error| error.raw_os_error().unwrap_or(EINVAL))?;
        }
        Ok(())
    }

    fn lookup(&mut self, _: &Request, parent: u64, name: &OsStr, reply: ReplyEntry) {
        match (parent, name.to_str()) {
            (FUSE_ROOT_ID, Some("disk")) => reply.entry(&FOR_EVER, &self.attributes(FILE), 0),
            _ => reply.error(ENOENT),
        }
    }

    fn getattr(&mut self, _: &Request, inode: u64, _: Option<u64>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    // Opening with O_TRUNC, changing times: nothing of it is kept.
    fn setattr(
        &mut self,
        _: &Request,
        inode: u64,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<u64>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<u32>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    fn open(&mut self, _: &Request, _: u64, _: i32, reply: ReplyOpen) {
        // The page cache would answer without a delay.
        reply.opened(0, FOPEN_DIRECT_IO);
    }

    fn read(
        &mut self,
        _: &Request,
        _: u64,
        _: u64,
        offset: i64,
        size: u32,
        _flags: i32,
        _owner: Option<u64>,
        reply: ReplyData,
    ) {
        let came_ns = monotonic_ns();
        let due = self.due_transfer(&self.served.reads, self.schedule.read, offset, u64::from(size));
        let is_broken = Schedule::touches(self.schedule.broken_bytes, offset.unsigned_abs(), u64::from(size));
        let (bytes, served) = (Arc::clone(&self.bytes), Arc::clone(&self.served));
        let answer = move || {
            if let Some(log) = &served.log {
                log.lock().unwrap_or_else(PoisonError::into_inner).push((came_ns, monotonic_ns()));
            }
            if is_broken {
                return reply.error(EIO);
            }
            let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let from = usize::try_from(offset).unwrap_or(0).min(bytes.len());
            let to = from.saturating_add(size as usize).min(bytes.len());
            reply.data(&bytes[from..to]);
        };
        self.timer.at(due, Box::new(answer));
    }

    fn write(
        &mut self,
        _: &Request,
        _: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _write_flags: u32,
        _flags: i32,
        _owner: Option<u64>,
        reply: ReplyWrite,
    ) {
        let due = self.due_transfer(&self.served.writes, self.schedule.write, offset, data.len() as u64);
        let bytes = Arc::clone(&self.bytes);
        let data = data.to_vec();
        let answer = move || {
            let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            match bytes.get_mut(from..from.saturating_add(data.len())) {
                Some(place) => {
                    place.copy_from_slice(&data);
                    reply.written(data.len() as u32);
                }
                None => reply.error(ENOSPC),
            }
        };
        self.timer.at(due, Box::new(answer));
    }

    fn fsync(&mut self, _: &Request, _: u64, _: u64, _: bool, reply: ReplyEmpty) {
        let due = self.due(self.schedule.sync);
        self.timer.at(due, Box::new(move || reply.ok()));
    }

    fn flush(&mut self, _: &Request, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    // A discard of the loop device above. What was there stays.
    fn fallocate(&mut self, _: &Request, _: u64, _: u64, _: i64, _: i64, _: i32, reply: ReplyEmpty) {
        reply.ok();
    }
}
