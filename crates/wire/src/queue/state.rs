//! What is in a queue, by lists that fit each other.

use crate::segments::{Part, Rewritten, scan};
use crate::thin::thin;
use crate::{Id, Record};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Records that are held in memory, bytes.
pub const MEMORY_BYTES: usize = 4 << 20;
/// Records that a hub may have been sent without an answer, and those of them that are not live.
const WINDOW: usize = 64;
const BACKFILL_WINDOW: usize = 48;
/// A queue that is nearly full merges intervals first by blocks of ten, then of sixty.
const BLOCKS: [u32; 2] = [10, 60];
/// Records in memory that are merged at a time.
const MERGED_AT_ONCE: usize = 600;

/// Which record: the number of the run, which is the order of the starts, and its number in the run.
pub type Key = (usize, u64);

/// All of it.
pub struct State {
    /// The present one is the last.
    pub runs: Vec<Run>,
    pub entries: BTreeMap<Key, Entry>,
    /// Those that are in memory, the oldest first.
    pub in_memory: VecDeque<Key>,
    pub memory_bytes: usize,
    pub unwritten: VecDeque<Unwritten>,
    pub segments: BTreeMap<u32, Segment>,
    pub hubs: Vec<HubState>,
    pub dropped: u64,
    /// Intervals that were merged into longer ones.
    pub merged: u64,
    /// Why the disk took nothing, until it does.
    pub failure: Option<String>,
    /// Since when a record is being written.
    pub writes_since: Option<Instant>,
    /// A segment is written again, and its records are in no list meanwhile.
    pub is_rewriting: bool,
    /// When to give up, once nothing more comes.
    pub end: Option<Instant>,
    /// Since when nothing more comes.
    pub ended: Option<Instant>,
}

/// A run, and the records that describe it.
pub struct Run {
    pub id: Id,
    pub descriptions: Vec<Arc<Record>>,
}

pub struct Entry {
    pub record: Option<Arc<Record>>,
    pub position: Option<(u32, u64)>,
    /// How many hubs have not stored it.
    pub hubs: usize,
    pub intervals: u64,
    /// A hub may have it: it is not merged with others any more.
    pub was_sent: bool,
}

pub enum Unwritten {
    Description(Arc<Record>),
    Data(Key),
}

pub struct Segment {
    pub path: PathBuf,
    pub bytes: u64,
    /// Its records that some hub has not stored.
    pub entries: usize,
    /// How often its intervals were merged.
    pub merges: usize,
}

#[derive(Default)]
pub struct HubState {
    pub unsent: BTreeSet<Key>,
    pub in_flight: BTreeSet<Key>,
    /// What is newer goes before what is older.
    pub newest: Option<Key>,
    /// How much of what is older may be sent now, bytes; and since when.
    pub room: f64,
    pub since: Option<Instant>,
}

/// A segment that is to be written again.
pub struct Rewrite {
    pub number: u32,
    pub path: PathBuf,
    pub block: u32,
    /// Its records by position, and whether they are merged; `None`: all of them are.
    pub records: Option<BTreeMap<u64, (Key, bool)>>,
}

impl State {
    /// Nothing, for so many hubs.
    pub fn new(hubs: usize) -> State {
        State {
            runs: Vec::new(),
            entries: BTreeMap::new(),
            in_memory: VecDeque::new(),
            memory_bytes: 0,
            unwritten: VecDeque::new(),
            segments: BTreeMap::new(),
            hubs: (0..hubs).map(|_| HubState::default()).collect(),
            dropped: 0,
            merged: 0,
            failure: None,
            writes_since: None,
            is_rewriting: false,
            end: None,
            ended: None,
        }
    }

    /// Offers what is in a segment of an earlier run.
    pub fn offer(&mut self, path: PathBuf) -> io::Result<()> {
        let number = self.segments.keys().last().map_or(0, |last| last + 1);
        let (mut described, mut entries, hubs) = (Vec::new(), 0, self.hubs.len());
        let bytes = scan(&path, &mut |part| match part {
            Part::Description(record) => described.push(Arc::new(record)),
            Part::Data(_, head, position) => {
                let key = (self.run(head.run, &mut described), *head.sequences.start());
                let (position, intervals) = (Some((number, position)), head.intervals);
                // Nobody knows what the run before has sent.
                let entry = Entry { record: None, position, hubs, intervals, was_sent: true };
                if hubs > 0 && self.entries.insert(key, entry).is_none() {
                    self.hubs.iter_mut().for_each(|hub| hub.unsent.extend([key]));
                    entries += 1;
                }
            }
            Part::Damaged => self.dropped += 1,
        })?;
        self.segments.insert(number, Segment { path, bytes, entries, merges: 0 });
        Ok(())
    }

    /// The number of a run in a segment, which what was read before describes.
    pub fn run(&mut self, id: Id, described: &mut Vec<Arc<Record>>) -> usize {
        let known = self.runs.iter().position(|run| run.id == id);
        let run = known.unwrap_or_else(|| {
            self.runs.push(Run { id, descriptions: Vec::new() });
            self.runs.len() - 1
        });
        // Every segment describes all groups so far; repeated ones do no harm.
        self.runs[run].descriptions.append(described);
        run
    }

    pub fn add(&mut self, key: Key, intervals: u64, record: Arc<Record>, has_disk: bool) {
        self.insert(key, Entry { record: Some(record), position: None, hubs: 0, intervals, was_sent: false });
        self.in_memory.push_back(key);
        if has_disk {
            self.unwritten.push_back(Unwritten::Data(key));
        }
        let is_nearly_full = self.memory_bytes > MEMORY_BYTES / 5 * 4;
        if is_nearly_full && self.in_memory.front().is_some_and(|oldest| !self.is_on_disk(oldest)) {
            self.merge_memory();
        }
        while self.memory_bytes > MEMORY_BYTES
            && let Some(oldest) = self.in_memory.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&oldest) else { continue };
            let Some(record) = entry.record.take() else { continue };
            self.memory_bytes -= record.bytes().len();
            if entry.position.is_none() {
                self.lose(oldest);
            }
        }
    }

    /// Offers an entry to all hubs.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        self.memory_bytes += entry.record.as_ref().map_or(0, |record| record.bytes().len());
        self.entries.insert(key, Entry { hubs: self.hubs.len(), ..entry });
        self.hubs.iter_mut().for_each(|hub| hub.unsent.extend([key]));
    }

    /// An entry leaves all lists but that of its segment.
    pub fn remove(&mut self, key: Key) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.memory_bytes -= entry.record.as_ref().map_or(0, |record| record.bytes().len());
        for hub in &mut self.hubs {
            hub.unsent.remove(&key);
            hub.in_flight.remove(&key);
        }
        Some(entry)
    }

    pub fn is_on_disk(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.position.is_some())
    }

    /// Merges the oldest intervals that are in memory only, where that makes room.
    pub fn merge_memory(&mut self) {
        for block in BLOCKS {
            let can = |key: &&Key| {
                self.entries.get(key).is_some_and(|entry| {
                    let is_here = entry.record.is_some() && entry.position.is_none() && !entry.was_sent;
                    is_here && entry.intervals < u64::from(block)
                })
            };
            let keys: Vec<Key> = self.in_memory.iter().filter(can).take(MERGED_AT_ONCE).copied().collect();
            // Blocks of fewer are not worth it; the latest intervals wait for the rest of theirs.
            if keys.len() < MERGED_AT_ONCE / 10 {
                continue;
            }
            let records = keys.iter().filter_map(|key| self.entries.get(key)?.record.clone());
            let thinned = thin(records.collect::<Vec<_>>(), block);
            if thinned.len() * 2 > keys.len() {
                continue;
            }
            let run = keys[0].0;
            keys.into_iter().for_each(|key| drop(self.remove(key)));
            for one in thinned {
                let (key, intervals) = ((run, *one.sequences.start()), one.intervals);
                self.merged += intervals;
                let record = Some(one.record);
                self.insert(key, Entry { record, position: None, hubs: 0, intervals, was_sent: false });
            }
            let entries = &self.entries;
            self.in_memory.retain(|key| entries.contains_key(key));
            return;
        }
    }

    /// What a hub is sent next, and whether that is live; it counts as sent.
    pub fn pick(&mut self, hub: usize, backfill: u64) -> Option<(Key, bool)> {
        let (peer, is_ending) = (&mut self.hubs[hub], self.end.is_some());
        let &last = peer.unsent.last()?;
        let is_live = peer.newest.is_none_or(|newest| last > newest);
        let window = if is_live || is_ending { WINDOW } else { BACKFILL_WINDOW };
        if peer.in_flight.len() >= window || !(is_live || is_ending || peer.has_room(backfill)) {
            return None;
        }
        let key = if is_live { last } else { peer.unsent.first().copied().unwrap_or(last) };
        peer.newest = peer.newest.max(Some(key));
        peer.unsent.remove(&key);
        peer.in_flight.insert(key);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.was_sent = true;
        }
        Some((key, is_live))
    }

    /// A record is in a segment, which has so many bytes now.
    pub fn written(&mut self, number: u32, bytes: u64, record: &Arc<Record>, entry: Option<(Key, u64)>) {
        let Some(segment) = self.segments.get_mut(&number) else { return };
        segment.bytes = bytes;
        let Some((key, position)) = entry else { return };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        // One that was merged meanwhile is another record.
        if entry.record.as_ref().is_some_and(|now| Arc::ptr_eq(now, record)) {
            entry.position = Some((number, position));
            segment.entries += 1;
        }
        if self.hubs.is_empty() {
            self.forget(key);
        }
    }

    /// The segment that is written again next, while there are more bytes than this; those of its records that no hub was sent leave
    /// the lists.
    pub fn next_rewrite(&mut self, limit_bytes: u64) -> Option<Rewrite> {
        if self.segments.values().map(|segment| segment.bytes).sum::<u64>() <= limit_bytes {
            return None;
        }
        let last = self.segments.keys().last().copied();
        let full = self
            .segments
            .iter_mut()
            .filter(|(number, segment)| segment.merges < BLOCKS.len() && Some(**number) != last);
        let (&number, segment) = full.min_by_key(|(number, segment)| (segment.merges, **number))?;
        let (path, block) = (segment.path.clone(), BLOCKS[segment.merges]);
        segment.merges += 1;
        let hubs = self.hubs.len();
        let records: BTreeMap<u64, (Key, bool)> = self
            .entries
            .iter()
            .filter_map(|(&key, entry)| {
                let (_, position) = entry.position.filter(|(segment, _)| *segment == number)?;
                Some((position, (key, !entry.was_sent && entry.hubs == hubs)))
            })
            .collect();
        for (key, _) in records.values().filter(|(_, is_merged)| *is_merged) {
            self.hubs.iter_mut().for_each(|hub| _ = hub.unsent.remove(key));
        }
        self.is_rewriting = true;
        Some(Rewrite { number, path, block, records: (hubs > 0).then_some(records) })
    }

    /// A segment was written again, with these records; `None`: it is as it was.
    pub fn rewritten(&mut self, job: Rewrite, done: Option<(Vec<Rewritten>, u64)>) {
        self.is_rewriting = false;
        let records = job.records.unwrap_or_default();
        let (merged, kept): (Vec<_>, Vec<_>) = records.values().partition(|(_, is_merged)| *is_merged);
        let Some((rewritten, bytes)) = done else {
            for (key, _) in merged {
                self.hubs.iter_mut().for_each(|hub| hub.unsent.extend([key]));
            }
            return;
        };
        let Some(run) = records.values().next().map(|((run, _), _)| *run) else {
            // Without hubs nobody asks for single records.
            self.merged += rewritten.iter().filter(|one| one.intervals > 1).map(|one| one.intervals).sum::<u64>();
            self.segments.entry(job.number).and_modify(|segment| segment.bytes = bytes);
            return;
        };
        let kept: BTreeSet<Key> = kept.into_iter().map(|(key, _)| key).collect();
        merged.into_iter().for_each(|(key, _)| drop(self.remove(key)));
        let mut entries = 0;
        for one in rewritten {
            let (key, position) = ((run, *one.sequences.start()), Some((job.number, one.position)));
            match self.entries.get_mut(&key) {
                Some(entry) => entry.position = position,
                // A hub has stored it meanwhile.
                None if kept.contains(&key) => continue,
                None => {
                    self.merged += if one.intervals > 1 { one.intervals } else { 0 };
                    let intervals = one.intervals;
                    self.insert(key, Entry { record: None, position, hubs: 0, intervals, was_sent: false });
                }
            }
            entries += 1;
        }
        if let Some(segment) = self.segments.get_mut(&job.number) {
            (segment.bytes, segment.entries) = (bytes, entries);
        }
    }

    /// One more hub has stored a record.
    pub fn done(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.hubs = entry.hubs.saturating_sub(1);
        if entry.hubs == 0 {
            self.forget(key);
        }
    }

    /// A record is gone before every hub has stored it.
    pub fn lose(&mut self, key: Key) {
        self.dropped += self.entries.get(&key).map_or(0, |entry| entry.intervals);
        self.forget(key);
    }

    /// Forgets a record, and the segment that has nothing else.
    pub fn forget(&mut self, key: Key) {
        let Some((number, _)) = self.remove(key).and_then(|entry| entry.position) else { return };
        let is_last = self.segments.keys().last() == Some(&number);
        let Some(segment) = self.segments.get_mut(&number) else { return };
        segment.entries = segment.entries.saturating_sub(1);
        if segment.entries == 0 && !is_last && !self.is_rewriting {
            let _ = std::fs::remove_file(&segment.path);
            self.segments.remove(&number);
        }
    }

    /// Removes the oldest segments while there is more than this.
    pub fn bound(&mut self, limit_bytes: u64) {
        let has_hubs = !self.hubs.is_empty();
        while self.segments.len() > 1
            && let Some((&oldest, segment)) = self.segments.first_key_value()
            && (self.segments.values().map(|segment| segment.bytes).sum::<u64>() > limit_bytes
                || has_hubs && segment.entries == 0)
        {
            let _ = std::fs::remove_file(&segment.path);
            let in_it = |entry: &Entry| entry.position.is_some_and(|(number, _)| number == oldest);
            let lost: Vec<Key> = self.entries.iter().filter(|(_, entry)| in_it(entry)).map(|(&key, _)| key).collect();
            self.segments.remove(&oldest);
            lost.into_iter().for_each(|key| self.lose(key));
        }
    }
}

impl HubState {
    /// Whether something that is older may be sent now.
    pub fn has_room(&mut self, bytes_per_second: u64) -> bool {
        let (now, rate) = (Instant::now(), bytes_per_second as f64);
        let passed = self.since.replace(now).map_or(1.0, |since| (now - since).as_secs_f64());
        self.room = (self.room + passed * rate).min(rate);
        self.room > 0.0
    }
}
