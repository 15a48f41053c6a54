//! What waits now: requests that a disk has, and has not completed.
//!
//! Once in a while a BPF program walks over the tags of each disk (`bpf/block/waiting.bpf.c`), so that requests cost
//! nothing. A disk is named to it by its open directory in sysfs, so that one is found that hung before anybody looked.
//! Disks without tags, and all disks on kernels that cannot walk, are known by their count of requests in flight alone:
//! the oldest has waited at least as long as that count is above zero and nothing completes.

mod rows;

pub use rows::{Lookups, Sight, Wanted};

use super::devices;
use super::layout::{BlockWaiting, BlockWalk, MODES, WALK_OBJECT, walk_end};
use crate::Error;
use crate::loader::{Loaded, Opened, thread_cpu};
use crate::probe::{Kernel, read_trimmed};
use latscope_event::{KernelFeature, MISSING_U64};
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More are not listed; they take a disk with as many tags in use.
const MOST: usize = 1 << 16;
/// Walks that take longer than this take at most one part in `SHARE` of a CPU, however many requests wait.
const CHEAP: Duration = Duration::from_millis(5);
const SHARE: u32 = 20;
/// How often what waits is brought up to date without being asked for.
const EVERY: Duration = Duration::from_secs(1);

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the disk, which may be gone by now.
    pub disk: Arc<str>,
    pub request: BlockWaiting,
    /// Since when by the latency that was asked for, `CLOCK_MONOTONIC`.
    pub since_ns: u64,
}

/// Finds what waits.
pub struct Waiting {
    /// The program, where the kernel runs it.
    walker: Option<Loaded>,
    from_queue: bool,
    disks: Vec<Disk>,
    /// Requests that the device had not got yet when the last walk met them: address and start.
    queued: HashSet<(u64, u64)>,
    rows: Vec<Row>,
    /// When the last walk started by the kernel's clock, and by ours, and the CPU time that it took.
    walked_ns: u64,
    walked: Option<Instant>,
    took: Duration,
}

struct Disk {
    /// Of its link in `/sys/block`: another disk of the same name has another one.
    inode: u64,
    name: Arc<str>,
    dev: u32,
    folder: File,
    has_tags: bool,
    listed: bool,
    holds: bool,
    /// Requests that had completed when that last changed, and when it was.
    completed: Option<(u64, u64)>,
}

impl Waiting {
    /// `loaded` has the table of requests in flight.
    pub fn new(kernel: &mut Kernel, loaded: &Loaded, from_queue: bool) -> Waiting {
        let load = || {
            let mut opened = Opened::open_single(WALK_OBJECT)?;
            opened.share("in_flight", loaded)?;
            opened.load(&["walk"])
        };
        let walker = load().ok();
        if walker.is_none() {
            kernel.note_lack(KernelFeature::TagWalk);
        }
        Waiting {
            walker,
            from_queue,
            disks: Vec::new(),
            queued: HashSet::new(),
            rows: Vec::new(),
            walked_ns: 0,
            walked: None,
            took: Duration::ZERO,
        }
    }

    /// Whether the last walk is old enough for another one that nobody asked for.
    pub fn is_due(&self) -> bool {
        self.walked.is_none_or(|walked| walked.elapsed() >= EVERY)
    }

    /// Walks, unless the last walk took so long that another one would take too large a part of a CPU: then the rows are
    /// those of [`Waiting::walked_ns`]. Requests without any stamp started before `own_stamps_ns`, if ours are taken since
    /// then; else they are left out.
    pub fn look(&mut self, own_stamps_ns: Option<u64>, now_ns: u64) -> Result<(), Error> {
        if self.took > CHEAP && self.walked.is_some_and(|walked| walked.elapsed() < self.took * SHARE) {
            return Ok(());
        }
        let (started, cpu) = (Instant::now(), thread_cpu());
        self.list();
        self.walked_ns = now_ns;
        self.rows.clear();
        let mut queued = HashSet::new();
        let mut disks = std::mem::take(&mut self.disks);
        let mut walker = self.walker.take();
        let walked = disks.iter_mut().try_for_each(|disk| {
            let before = self.rows.len();
            let walked = self.walk(walker.as_mut(), disk, own_stamps_ns, &mut queued);
            disk.holds = self.rows.len() > before;
            walked
        });
        disks.retain(|disk| disk.listed || disk.holds);
        self.disks = disks;
        self.walker = walker;
        self.queued = queued;
        self.rows.sort_by_key(|row| row.since_ns);
        self.walked = Some(started);
        self.took = thread_cpu().saturating_sub(cpu);
        walked
    }

    /// When the last walk started, as the kernel's stamps have it: rows waited then, and may have completed since.
    pub fn walked_ns(&self) -> u64 {
        self.walked_ns
    }

    /// What the last walk found, the oldest first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether the last walk would have met a request that the device had got before this moment and still has.
    pub fn would_know(&self, issue_ns: u64) -> bool {
        self.walker.is_some() && self.rows.len() < MOST && issue_ns < self.walked_ns
    }

    /// Brings the list of disks up to date. One that is gone stays as long as requests of it wait.
    fn list(&mut self) {
        self.disks.iter_mut().for_each(|disk| disk.listed = false);
        for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            match self.disks.iter_mut().find(|disk| disk.inode == entry.ino()) {
                Some(disk) => disk.listed = true,
                None => self.disks.extend(Disk::open(&entry)),
            }
        }
    }

    fn walk(
        &mut self,
        walker: Option<&mut Loaded>,
        disk: &mut Disk,
        own_stamps_ns: Option<u64>,
        queued: &mut HashSet<(u64, u64)>,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        let Some(walker) = walker.filter(|_| disk.has_tags) else {
            self.rows.extend(disk.counted(self.walked_ns));
            return Ok(());
        };
        disk.has_tags = disk.walk(walker, false, &mut found)? != walk_end::NO_TAGS;
        if disk.has_tags {
            disk.walk(walker, true, &mut found)?;
        }
        // A request that its scheduler has handed to the driver has a tag of both.
        found.sort_by_key(|request| (request.request, request.at_device == 0));
        found.dedup_by_key(|request| request.request);
        for request in found {
            let stamps = (request.request, request.start_ns);
            if request.at_device == 0 {
                queued.insert(stamps);
                // A tag may be given to a request before that has its stamps: those that are met twice do wait.
                if request.start_ns == 0 || !self.queued.contains(&stamps) {
                    continue;
                }
            }
            let Some(since_ns) = self.since_ns(&request, own_stamps_ns) else { continue };
            if self.rows.len() < MOST {
                self.rows.push(Row { disk: Arc::clone(&disk.name), request, since_ns });
            }
        }
        Ok(())
    }

    /// When the wait that is asked about started.
    fn since_ns(&self, request: &BlockWaiting, own_stamps_ns: Option<u64>) -> Option<u64> {
        let (first, second) = match self.from_queue {
            true => (request.start_ns, request.issue_ns),
            false => (request.issue_ns, request.start_ns),
        };
        [first, second].into_iter().find(|&stamp| stamp != 0).or(own_stamps_ns)
    }
}

impl Disk {
    fn open(entry: &std::fs::DirEntry) -> Option<Disk> {
        let name = entry.file_name().into_string().ok()?;
        let dev = devices::find(&name)?;
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        let folder = options.open(Path::new("/sys/block").join(&name)).ok()?;
        let name = Arc::from(name);
        let (inode, completed) = (entry.ino(), None);
        Some(Disk { inode, name, dev, folder, has_tags: true, listed: true, holds: false, completed })
    }

    /// Walks over the tags of the driver, or of the scheduler, and adds what it meets; returns why it ended.
    fn walk(&self, walker: &mut Loaded, scheduler: bool, found: &mut Vec<BlockWaiting>) -> Result<u32, Error> {
        let mut walk = BlockWalk {
            now_ns: 0,
            busy: 0,
            dev: self.dev,
            fd: self.folder.as_raw_fd(),
            queues: 0,
            words: 0,
            scheduler: scheduler.into(),
            found: 0,
            end: walk_end::MORE,
            pad: 0,
        };
        while walk.end == walk_end::MORE && found.len() < MOST {
            walker.run("walk", &mut walk)?;
            if walk.found > 0 {
                found.extend(walker.array::<BlockWaiting>(".bss.found", walk.found as usize)?);
            }
        }
        Ok(walk.end)
    }

    /// What its statistics give: so many reads and writes are in flight, and none completed since.
    fn counted(&mut self, now_ns: u64) -> Vec<Row> {
        let numbers = |file: &str| -> Option<Vec<u64>> {
            let text = read_trimmed(format!("/sys/block/{}/{file}", self.name))?;
            text.split_whitespace().map(|number| number.parse().ok()).collect()
        };
        let in_flight = numbers("inflight").unwrap_or_default();
        let stat = numbers("stat").unwrap_or_default();
        if in_flight.iter().all(|&count| count == 0) || self.is_waited_for_below() {
            self.completed = None;
            return Vec::new();
        }
        // Documentation/block/stat.rst: reads, writes, discards, flushes.
        let done = [0, 4, 11, 15].into_iter().filter_map(|at| stat.get(at)).sum();
        if self.completed.is_none_or(|(before, _)| before != done) {
            self.completed = Some((done, now_ns));
        }
        let since_ns = self.completed.map_or(now_ns, |(_, since_ns)| since_ns);
        let row = |class: usize| Row {
            disk: Arc::clone(&self.name),
            request: counted_request(self.dev, class, since_ns),
            since_ns,
        };
        let classes = in_flight.iter().enumerate().take(2);
        let all = classes.flat_map(|(class, &count)| std::iter::repeat_n(class, count as usize)).take(MOST);
        all.map(row).collect()
    }

    /// Whether what it waits for is a disk below it, which gives more.
    fn is_waited_for_below(&self) -> bool {
        let below = std::fs::read_dir(format!("/sys/block/{}/slaves", self.name)).into_iter().flatten().flatten();
        let busy = |entry: std::fs::DirEntry| {
            let counts = read_trimmed(entry.path().join("inflight")).unwrap_or_default();
            counts.split_whitespace().any(|count| count != "0")
        };
        below.into_iter().any(busy)
    }
}

/// A request of which only the kind is known.
fn counted_request(dev: u32, class: usize, since_ns: u64) -> BlockWaiting {
    BlockWaiting {
        request: 0,
        start_ns: since_ns,
        issue_ns: since_ns,
        offset: MISSING_U64,
        cgroup: 0,
        size: MISSING_U64,
        dev,
        letters: (class * MODES) as u32,
        pid: 0,
        tid: 0,
        at_device: 1,
        pad: 0,
        comm: [0; 16],
        process: [0; 16],
    }
}
