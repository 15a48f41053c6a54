//! What a hub took, on disk before it is confirmed: files of frames that are read again after a restart.

use crate::cluster::{Cluster, Taken};
use crate::history::{self, Known};
use crate::messages::Goodbye;
use crate::{Data, Found, Hello, Id, Kind, Malformed, PREFACE, Record, Records, durable};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A file is full from here on.
const FILE_BYTES: u64 = 256 << 20;
/// A disk that takes longer to write hangs.
const HANGS: Duration = Duration::from_secs(5);
/// How long somebody waits for what is to be written, and how often it is looked at.
const WRITTEN: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(10);
/// No more than this waits to be written, bytes.
const PENDING_BYTES: usize = 64 << 20;

/// The journal of a hub.
pub struct Journal {
    folder: PathBuf,
    /// Keeps other hubs away.
    _lock: File,
    /// A file is full after so long, too.
    file_time: Duration,
    /// The stamp of the newest file.
    stamp: AtomicU64,
    pending: Mutex<Pending>,
    open: Mutex<Option<Open>>,
    /// So many records are on disk.
    written: AtomicU64,
}

#[derive(Default)]
struct Pending {
    records: Vec<(Id, Arc<Record>)>,
    bytes: usize,
    /// So many records were added.
    added: u64,
    /// When the write that is going on was started.
    since: Option<Instant>,
}

struct Open {
    file: File,
    bytes: u64,
    since: Instant,
    /// How many of the records that describe a run it has.
    described: HashMap<Id, usize>,
}

/// What was read of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Records of histograms.
    pub records: u64,
    /// Parts of files that are no records.
    pub damaged: u64,
}

impl Journal {
    /// Opens a journal and hands what is in it to a cluster, and which records were in it before.
    ///
    /// # Errors
    /// When the folder or a file cannot be read, or another hub has it.
    pub fn open(
        folder: &Path,
        file_time: Duration,
        cluster: &mut Cluster,
        now_ns: i64,
    ) -> io::Result<(Journal, Replayed)> {
        std::fs::create_dir_all(folder)?;
        let lock = durable::lock(folder)?;
        let (mut replayed, segments) = (Replayed::default(), history::segments(folder)?);
        let start_ns = segments.first().map_or(now_ns, |&(stamp, _)| stamp.saturating_mul(1_000_000) as i64);
        Known::load(folder)?.each_run(|descriptions, run, ranges| cluster.restore(descriptions, run, ranges, start_ns));
        for (_, path) in segments {
            replay(&path, cluster, now_ns, &mut replayed)?;
        }
        let (pending, open, stamp) = (Mutex::default(), Mutex::new(None), history::stamps(folder)?.into());
        let (folder, written) = (folder.into(), AtomicU64::new(0));
        Ok((Journal { folder, _lock: lock, file_time, stamp, pending, open, written }, replayed))
    }

    /// Adds a record. When as many records as this returns are [written](Journal::written), it is on disk.
    pub fn add(&self, run: Id, record: Arc<Record>) -> u64 {
        let mut pending = self.pending();
        pending.bytes += record.bytes().len();
        pending.records.push((run, record));
        pending.added += 1;
        pending.added
    }

    /// How many records were added so far.
    pub fn added(&self) -> u64 {
        self.pending().added
    }

    /// How many records are on disk.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Waits until all that was added is on disk, unless that takes too long or fails.
    pub fn wait(&self, fails: &dyn Fn() -> bool) {
        let (added, until) = (self.added(), Instant::now() + WRITTEN);
        while self.written() < added && Instant::now() < until && !fails() && !self.hangs() {
            sleep(TURN);
        }
    }

    /// Whether the disk takes so long that it may hang.
    pub fn hangs(&self) -> bool {
        self.pending().since.is_some_and(|since| since.elapsed() > HANGS)
    }

    /// Whether no more may be added for now.
    pub fn is_full(&self) -> bool {
        self.pending().bytes > PENDING_BYTES
    }

    /// Writes what was added.
    ///
    /// # Errors
    /// When the disk takes nothing: it stays to be written.
    pub fn write(&self, cluster: &Mutex<Cluster>) -> io::Result<()> {
        // Who comes second waits for what the first one takes.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pending = self.pending();
        if pending.records.is_empty() {
            return Ok(());
        }
        let (records, added) = (std::mem::take(&mut pending.records), pending.added);
        pending.since = Some(Instant::now());
        drop(pending);
        let result = self.append(&mut open, &records, cluster);
        let mut pending = self.pending();
        pending.since = None;
        match result {
            Ok(()) => {
                pending.bytes -= records.iter().map(|(_, record)| record.bytes().len()).sum::<usize>();
                self.written.store(added, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                pending.records.splice(..0, records);
                Err(error)
            }
        }
    }

    fn append(
        &self,
        slot: &mut Option<Open>,
        records: &[(Id, Arc<Record>)],
        cluster: &Mutex<Cluster>,
    ) -> io::Result<()> {
        let is_full = |open: &Open| open.bytes >= FILE_BYTES || open.since.elapsed() >= self.file_time;
        if slot.as_ref().is_none_or(is_full) {
            *slot = Some(self.next_file()?);
        }
        let Some(open) = slot else { return Ok(()) };
        let mut out = Vec::new();
        for (run, record) in records {
            let known = open.described.entry(*run).or_insert(0);
            let cluster = cluster.lock().unwrap_or_else(PoisonError::into_inner);
            for description in cluster.descriptions(*run, *known) {
                out.extend_from_slice(description.bytes());
                *known += 1;
            }
            out.extend_from_slice(record.bytes());
        }
        let written = open.file.write_all(&out).and_then(|()| open.file.sync_data());
        match written {
            Ok(()) => open.bytes += out.len() as u64,
            // They are written again, to the same file if what there is of them can be removed.
            Err(_) => {
                open.described.clear();
                let cut = open.file.set_len(open.bytes).and_then(|()| open.file.seek(SeekFrom::Start(open.bytes)));
                if cut.is_err() {
                    *slot = None;
                }
            }
        }
        written
    }

    fn next_file(&self) -> io::Result<Open> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A clock that is set back changes nothing about the order of the files.
        let stamp = (now.as_millis() as u64).max(self.stamp.load(Ordering::Relaxed) + 1);
        self.stamp.store(stamp, Ordering::Relaxed);
        let path = self.folder.join(format!("{stamp:015}.frames"));
        let mut file = File::create_new(&path)?;
        let started = file.write_all(PREFACE).and_then(|()| File::open(&self.folder)?.sync_all());
        if let Err(error) = started {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Open { file, bytes: PREFACE.len() as u64, since: Instant::now(), described: HashMap::new() })
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn replay(path: &Path, cluster: &mut Cluster, now_ns: i64, replayed: &mut Replayed) -> io::Result<()> {
    let file = File::open(path)?;
    // A hub that was killed before it wrote.
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let (mut file, mut preface) = (BufReader::new(file), [0; PREFACE.len()]);
    // A hub that was killed early leaves a part of the first line.
    if file.read_exact(&mut preface).is_err() || preface != PREFACE {
        replayed.damaged += 1;
        return Ok(());
    }
    let mut records = Records::of_file(file);
    while let Some(found) = records.next()? {
        let taken = match found {
            Found::Record(record) => take(record, cluster, now_ns),
            Found::Damaged(_) | Found::Cut(_) => Err(Malformed::Short),
        };
        match taken {
            Ok(is_data) => replayed.records += u64::from(is_data),
            Err(_) => replayed.damaged += 1,
        }
    }
    Ok(())
}

/// Takes a record of a journal; whether it has histograms.
fn take(record: Record, cluster: &mut Cluster, now_ns: i64) -> Result<bool, Malformed> {
    match record.kind()? {
        Kind::Hello => {
            let hello = Hello::parse(record.payload())?;
            cluster.describe(hello, record).map_err(|_| Malformed::Amount)?;
        }
        Kind::Dictionary => cluster.add_groups(record)?,
        Kind::Bye => cluster.disconnect(Goodbye::parse(record.payload())?.run, true),
        Kind::Data => {
            let data = Data::parse(&record)?;
            let head = data.head.clone();
            if cluster.add(data, now_ns)? == Taken::New {
                cluster.keep_recent(&head, Arc::new(record), now_ns);
            }
            return Ok(true);
        }
        _ => {}
    }
    Ok(false)
}
