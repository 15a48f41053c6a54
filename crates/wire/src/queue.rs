//! Records that not every hub has stored: in memory, and on disk in segments that are files of frames.
//!
//! What a hub stored is known from its answers alone; after a restart all segments are offered again. A thread of its own writes, so
//! a disk that hangs costs the queue and never the capture.

mod state;

use crate::messages::Stored;
use crate::segments::{Fate, Writer, read_at, rewrite};
use crate::{Head, Hello, Record, durable};
use state::{Key, MEMORY_BYTES, Run, Segment, State, Unwritten};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait before a disk that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// A disk that takes longer for a record hangs.
const HANGS: Duration = Duration::from_secs(5);
/// How often a queue that gets nothing is looked at.
const IDLE: Duration = Duration::from_secs(30);
/// A folder has at least so many segments when it is full, of these lengths, bytes.
const SEGMENTS: u64 = 16;
const LEAST_BYTES: u64 = 16 << 10;
const MOST_BYTES: u64 = 8 << 20;
/// From this part of its limit on, a queue merges intervals.
const NEARLY_FULL: (u64, u64) = (4, 5);

/// How much a queue keeps, and how fast it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Size of the folder, bytes.
    pub bytes: u64,
    /// What is older than the latest interval is sent to each hub at most so fast, bytes per second.
    pub backfill: u64,
}

/// Where records go that are to be sent.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    folder: Option<PathBuf>,
    /// Keeps other agents away from the folder.
    _lock: Option<File>,
    limits: QueueLimits,
    /// How often connections were to be made again.
    reconnects: AtomicU64,
}

impl Queue {
    /// A queue for so many hubs, with what is in the folder from earlier runs. Without hubs, what is written stays. Returns how many
    /// records were found, too.
    ///
    /// # Errors
    /// When the folder cannot be read or made, or another agent has it.
    pub fn open(folder: Option<&Path>, limits: QueueLimits, hubs: usize, hello: &Hello) -> io::Result<(Queue, usize)> {
        let (mut state, mut lock) = (State::new(hubs), None);
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
            lock = Some(durable::lock(folder)?);
            let entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
            let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "frames");
            let mut paths: Vec<(_, PathBuf)> = entries
                .iter()
                .map(|entry| (entry.metadata().and_then(|metadata| metadata.modified()).ok(), entry.path()))
                .filter(|(_, path)| is_segment(path))
                .collect();
            paths.sort();
            for (_, path) in paths {
                state.offer(path)?;
            }
        }
        let found = state.entries.len();
        state.runs.push(Run { id: hello.run, descriptions: vec![Arc::new(hello.record())] });
        let queue = Queue {
            state: Mutex::new(state),
            changed: Condvar::new(),
            folder: folder.map(Path::to_owned),
            _lock: lock,
            limits,
            reconnects: AtomicU64::new(0),
        };
        Ok((queue, found))
    }

    /// Adds records of the present run.
    pub fn push(&self, records: Vec<Record>) {
        let mut state = self.state();
        let run = state.runs.len() - 1;
        for record in records {
            let (record, has_disk) = (Arc::new(record), self.folder.is_some());
            match Head::parse(&record) {
                Ok((head, _)) => state.add((run, *head.sequences.start()), head.intervals, record, has_disk),
                // The groups of what follows.
                Err(_) => {
                    state.runs[run].descriptions.push(Arc::clone(&record));
                    if has_disk {
                        state.unwritten.push_back(Unwritten::Description(record));
                    }
                }
            }
        }
        self.changed.notify_all();
    }

    /// How many intervals were dropped since the last call, because there was no room.
    pub fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.state().dropped)
    }

    /// How many bytes wait, about, and how many there may be.
    pub fn fill(&self) -> (u64, u64) {
        let state = self.state();
        // What the last segment has is in memory, too, until it is stored.
        let segments = state.segments.values().rev().skip(1).filter(|segment| segment.entries > 0);
        let bytes = segments.map(|segment| segment.bytes).sum::<u64>() + state.memory_bytes as u64;
        (bytes, if self.folder.is_some() { self.limits.bytes } else { MEMORY_BYTES as u64 })
    }

    /// Why the disk takes nothing; `None` while it does.
    pub fn failure(&self) -> Option<String> {
        let state = self.state();
        let hangs = state.writes_since.is_some_and(|since| since.elapsed() > HANGS);
        state.failure.clone().or_else(|| hangs.then(|| "the disk does not answer".into()))
    }

    /// Connections are made again, with the credentials as they are now.
    pub fn reconnect(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// How often connections were to be made again.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Nothing more comes; what is left is sent and written until then.
    pub fn end(&self, until: Instant) {
        let mut state = self.state();
        (state.end, state.ended) = (Some(until), Some(Instant::now()));
        drop(state);
        self.changed.notify_all();
    }

    /// Whether nothing more comes.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended_for(Duration::ZERO)
    }

    /// Whether nothing more has come for so long.
    pub(crate) fn has_ended_for(&self, time: Duration) -> bool {
        self.state().ended.is_some_and(|ended| ended.elapsed() >= time)
    }

    /// Whether it has ended, and this hub has everything or the time is up.
    pub(crate) fn is_over(&self, hub: usize) -> bool {
        let state = self.state();
        let peer = &state.hubs[hub];
        let is_empty = peer.unsent.is_empty() && peer.in_flight.is_empty() && !state.is_rewriting;
        state.end.is_some_and(|end| is_empty || Instant::now() >= end)
    }

    /// How many records this hub has not stored.
    pub fn backlog(&self, hub: usize) -> usize {
        let state = self.state();
        state.hubs[hub].unsent.len() + state.hubs[hub].in_flight.len()
    }

    /// A connection to a hub was made: whatever it did not confirm is sent again.
    pub(crate) fn connected(&self, hub: usize) {
        let mut state = self.state();
        let hub = &mut state.hubs[hub];
        let again = std::mem::take(&mut hub.in_flight);
        hub.unsent.extend(again);
        hub.newest = None;
    }

    /// The hub has stored these.
    pub(crate) fn stored(&self, hub: usize, stored: &Stored) {
        let mut state = self.state();
        let Some(run) = state.runs.iter().position(|run| run.id == stored.run) else { return };
        for range in stored.ranges.iter() {
            let keys: Vec<Key> =
                state.entries.range((run, *range.start())..=(run, *range.end())).map(|(&key, _)| key).collect();
            for key in keys {
                let hub = &mut state.hubs[hub];
                if hub.unsent.remove(&key) | hub.in_flight.remove(&key) {
                    state.done(key);
                }
            }
        }
        self.changed.notify_all();
    }

    /// The next record for a hub, the newest first where it was not sent, and the number of its run; `None` if none comes in this
    /// time, or what is older has to wait.
    pub(crate) fn next(&self, hub: usize, wait: Duration) -> Option<(usize, Arc<Record>)> {
        let mut state = self.state();
        let until = Instant::now() + wait;
        loop {
            if let Some((key, is_live)) = state.pick(hub, self.limits.backfill) {
                let (guard, record) = self.load(state, key);
                state = guard;
                let Some(record) = record else { continue };
                if !is_live {
                    state.hubs[hub].room -= record.bytes().len() as f64;
                }
                return Some((key.0, record));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.end.is_some() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The record of an entry, which may have to be read; what cannot be read is lost.
    fn load<'a>(&'a self, mut state: MutexGuard<'a, State>, key: Key) -> (MutexGuard<'a, State>, Option<Arc<Record>>) {
        loop {
            let Some(entry) = state.entries.get(&key) else { return (state, None) };
            if let Some(record) = entry.record.clone() {
                return (state, Some(record));
            }
            let position = entry.position;
            let file = position.and_then(|(segment, at)| Some((state.segments.get(&segment)?.path.clone(), at)));
            drop(state);
            let record = file.and_then(|(path, at)| read_at(&path, at));
            let is_it =
                |record: &Arc<Record>| Head::parse(record).is_ok_and(|(head, _)| *head.sequences.start() == key.1);
            let record = record.filter(is_it);
            state = self.state();
            if record.is_some() {
                return (state, record);
            }
            // Its segment may have been written again meanwhile.
            if state.entries.get(&key).is_none_or(|entry| entry.position == position) {
                state.lose(key);
                return (state, None);
            }
        }
    }

    /// The records that describe a run, from this one on.
    pub(crate) fn descriptions(&self, run: usize, start: usize) -> Vec<Arc<Record>> {
        self.state().runs[run].descriptions.get(start..).unwrap_or_default().to_vec()
    }

    /// The number of the present run.
    pub(crate) fn present(&self) -> usize {
        self.state().runs.len() - 1
    }

    /// Writes what comes to segments until the queue ends and all is written.
    pub fn write(&self) {
        let Some(folder) = &self.folder else { return };
        let mut open = None;
        loop {
            let mut state = self.state();
            while state.unwritten.is_empty() {
                if state.end.is_some() {
                    drop(state);
                    let _ = open.as_mut().map(Writer::sync);
                    return;
                }
                state = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.writes_since = Some(Instant::now());
            drop(state);
            let written = self.step(folder, &mut open);
            let mut state = self.state();
            state.writes_since = None;
            let Err(error) = written else {
                state.failure = None;
                drop(state);
                self.bound();
                continue;
            };
            state.failure = Some(error.to_string());
            open = None;
            drop(self.changed.wait_timeout_while(state, RETRY, |state| state.end.is_none()));
            if self.state().end.is_some() {
                return;
            }
        }
    }

    /// Writes the next of what is unwritten, in a new segment where the last one is full.
    fn step(&self, folder: &Path, open: &mut Option<Writer>) -> io::Result<()> {
        let state = self.state();
        let run = &state.runs[state.runs.len() - 1];
        let (record, key) = match state.unwritten.front() {
            None => return Ok(()),
            Some(Unwritten::Description(record)) => (Some(Arc::clone(record)), None),
            Some(Unwritten::Data(key)) => (state.entries.get(key).and_then(|entry| entry.record.clone()), Some(*key)),
        };
        let (id, descriptions) = (run.id, run.descriptions.clone());
        let full_bytes = (self.limits.bytes / SEGMENTS).clamp(LEAST_BYTES, MOST_BYTES);
        let number = state.segments.keys().last().copied();
        drop(state);
        if let Some(record) = record {
            if let Some(full) = open.as_mut().filter(|open| open.is_full()) {
                full.sync()?;
                *open = None;
            }
            let is_new = open.is_none();
            let number = number.map_or(0, |last| if is_new { last + 1 } else { last });
            let writer = match open {
                Some(writer) => writer,
                none => {
                    let sequence = key.map_or(0, |(_, sequence)| sequence);
                    let path = folder.join(format!("{id}-{sequence:012}-{number:04}.frames"));
                    self.state()
                        .segments
                        .insert(number, Segment { path: path.clone(), bytes: 0, entries: 0, merges: 0 });
                    none.insert(Writer::create(&path, full_bytes, &descriptions)?)
                }
            };
            // A new segment has all descriptions already.
            let position = if is_new && key.is_none() { None } else { Some(writer.append(&record)?) };
            let bytes = writer.bytes();
            self.state().written(number, bytes, &record, key.zip(position));
        }
        self.state().unwritten.pop_front();
        Ok(())
    }

    /// Keeps the folder below its limit: merges intervals where it is nearly full, and removes the oldest where that is not enough.
    fn bound(&self) {
        let (part, whole) = NEARLY_FULL;
        loop {
            let Some(job) = self.state().next_rewrite(self.limits.bytes / whole * part) else { break };
            let fate = |position: u64| match job.records.as_ref().map(|records| records.get(&position)) {
                None | Some(Some((_, true))) => Fate::Merge,
                Some(Some((_, false))) => Fate::Keep,
                Some(None) => Fate::Leave,
            };
            let rewritten = rewrite(&job.path, job.block, &fate);
            let mut state = self.state();
            state.rewritten(job, rewritten.ok());
            self.changed.notify_all();
        }
        self.state().bound(self.limits.bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
