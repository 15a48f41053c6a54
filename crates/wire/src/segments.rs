//! The files of a queue: each starts with the records that describe its run, so it can be read alone.

use crate::thin::thin;
use crate::{Found, Head, Kind, PREFACE, Record, Records};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file is full after so long.
const FULL_TIME: Duration = Duration::from_secs(600);
/// What is written reaches the disk after so long.
const SYNC: Duration = Duration::from_secs(30);

/// The file that is written.
pub struct Writer {
    file: File,
    bytes: u64,
    full_bytes: u64,
    since: Instant,
    synced: Instant,
}

impl Writer {
    /// A new file with what describes the run, which is full at so many bytes.
    pub fn create(path: &Path, full_bytes: u64, descriptions: &[Arc<Record>]) -> io::Result<Writer> {
        let mut file = File::create(path)?;
        let head: Vec<u8> = descriptions.iter().fold(PREFACE.to_vec(), |head, record| [&head, record.bytes()].concat());
        file.write_all(&head)?;
        let now = Instant::now();
        Ok(Writer { file, bytes: head.len() as u64, full_bytes, since: now, synced: now })
    }

    /// Appends a record and returns its position.
    pub fn append(&mut self, record: &Record) -> io::Result<u64> {
        self.file.write_all(record.bytes())?;
        let position = self.bytes;
        self.bytes += record.bytes().len() as u64;
        if self.synced.elapsed() >= SYNC {
            self.sync()?;
        }
        Ok(position)
    }

    /// How much was written, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the next record belongs in another file.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.full_bytes || self.since.elapsed() >= FULL_TIME
    }

    /// What was written reaches the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.synced = Instant::now();
        self.file.sync_data()
    }
}

/// What a file has.
pub enum Part {
    /// A record that describes the run.
    Description(Record),
    /// A record of histograms, and its position.
    Data(Record, Head, u64),
    /// Bytes that are no record.
    Damaged,
}

/// Reads a file; a file of another kind has no parts. Returns its length, bytes.
pub fn scan(path: &Path, take: &mut dyn FnMut(Part)) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut preface = [0; PREFACE.len()];
    if file.read_exact(&mut preface).is_err() || preface != PREFACE {
        return Ok(bytes);
    }
    let (mut records, mut position) = (Records::of_file(file), PREFACE.len() as u64);
    while let Some(found) = records.next()? {
        position += match found {
            Found::Damaged(bytes) | Found::Cut(bytes) => {
                take(Part::Damaged);
                bytes
            }
            Found::Record(record) => {
                let length = record.bytes().len() as u64;
                match (record.kind(), Head::parse(&record)) {
                    (Ok(Kind::Hello | Kind::Dictionary), _) => take(Part::Description(record)),
                    (_, Ok((head, _))) => take(Part::Data(record, head, position)),
                    _ => {}
                }
                length
            }
        };
    }
    Ok(bytes)
}

/// The record at this position of a file; `None` if it has none there.
pub fn read_at(path: &Path, position: u64) -> Option<Arc<Record>> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(position)).ok()?;
    match Records::of_connection(file).next().ok()?? {
        Found::Record(record) => Some(Arc::new(record)),
        Found::Damaged(_) | Found::Cut(_) => None,
    }
}

/// What becomes of a record when its file is written again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is merged with its neighbours.
    Merge,
    /// It stays as it is.
    Keep,
    /// Nobody needs it.
    Leave,
}

/// A record of a file that was written again.
pub struct Rewritten {
    pub sequences: RangeInclusive<u64>,
    pub intervals: u64,
    pub position: u64,
}

/// Writes a file again, with intervals merged by blocks of so many. It takes the place of the old one at once or not at all. Returns its records
/// and its length, bytes.
pub fn rewrite(path: &Path, block: u32, fate: &dyn Fn(u64) -> Fate) -> io::Result<(Vec<Rewritten>, u64)> {
    let (mut descriptions, mut kept, mut merged) = (Vec::new(), Vec::new(), Vec::new());
    scan(path, &mut |part| match part {
        Part::Description(record) => descriptions.push(Arc::new(record)),
        Part::Data(record, head, position) => match fate(position) {
            Fate::Merge => merged.push(Arc::new(record)),
            Fate::Keep => kept.push((head.sequences, head.intervals, Arc::new(record))),
            Fate::Leave => {}
        },
        Part::Damaged => {}
    })?;
    kept.extend(thin(merged, block).into_iter().map(|one| (one.sequences, one.intervals, one.record)));
    kept.sort_by_key(|(sequences, ..)| *sequences.start());
    let beside = path.with_extension("new");
    let mut writer = Writer::create(&beside, u64::MAX, &descriptions)?;
    let mut rewritten = Vec::with_capacity(kept.len());
    for (sequences, intervals, record) in kept {
        rewritten.push(Rewritten { sequences, intervals, position: writer.append(&record)? });
    }
    writer.sync()?;
    std::fs::rename(&beside, path)?;
    Ok((rewritten, writer.bytes()))
}
