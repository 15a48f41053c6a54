//! Tags of the application: what a thread or process was doing, from a file of intervals, a socket or a live database,
//! joined to events.

mod known;
mod socket;
mod spans;

use crate::postgres::{Postgres, Server};
use hashbrown::HashMap;
use known::{Growing, Received, Store, Who};
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64, Note};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a growing file is looked at and a database asked; the latter more often, if it answers fast.
const TURN: Duration = Duration::from_millis(50);
const SHORTEST_TURN: Duration = Duration::from_millis(10);
/// Most different pairs of tags whose codes are kept.
const CODES: usize = 1 << 20;
/// So many keys are named where the one that was asked for is missing.
const KEYS: usize = 32;

/// What says tags, all of which may be given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TagSources {
    /// A file of intervals; while a capture runs, it may grow.
    pub file: Option<PathBuf>,
    /// A Unix socket that is made, to which programs write such lines while a capture runs.
    pub socket: Option<PathBuf>,
    /// A database of this machine that is asked while a capture runs.
    pub postgres: Option<Server>,
}

/// Where tags come from.
#[derive(Clone, Debug, Default)]
pub struct Tagging {
    sources: TagSources,
    key: Option<String>,
    /// What is known so far; clones share it.
    store: Arc<OnceLock<Arc<Store>>>,
}

impl PartialEq for Tagging {
    fn eq(&self, other: &Tagging) -> bool {
        (&self.sources, &self.key) == (&other.sources, &other.key)
    }
}

impl Tagging {
    /// Tags of these sources; the value of the tag with this key is the field `tag`.
    pub fn new(sources: TagSources, key: Option<String>) -> Tagging {
        Tagging { sources, key, store: Arc::default() }
    }

    /// The key of the tag that is the field `tag`.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The fields that events get.
    pub fn fields(&self) -> FieldSet {
        let tag: &[Field] = if self.key.is_some() { &[Field::Tag] } else { &[] };
        FieldSet::EMPTY.with(&[Field::Tags]).with(tag)
    }

    /// Reads the file, listens at the socket, or connects to the database and goes on asking, in threads of their own; once, also
    /// for clones.
    ///
    /// # Errors
    /// A sentence with the position in the file, or why there is no socket or the database does not answer.
    pub fn open(&self, is_live: bool) -> Result<(), String> {
        if self.store.get().is_some() {
            return Ok(());
        }
        let TagSources { file, socket, postgres } = &self.sources;
        let failed = |path: &Path, why: String| format!("{}{why}", path.display());
        let listener = socket.as_ref().map(|path| {
            socket::listen(path).map_err(|why| failed(path, format!(": {why}; give --tag-socket another name")))
        });
        let listener = listener.transpose()?;
        let store = Arc::new(Store::new(socket.clone()));
        if let Some(path) = file {
            let mut growing = Growing::open(path)?;
            growing.read(&mut store.known(), is_live)?;
            if is_live {
                *store.growing() = Some(growing);
                // Lines are read before events are tagged; where none come, here, so that the rest is short.
                let store = Arc::downgrade(&store);
                std::thread::spawn(move || {
                    while let Some(store) = store.upgrade() {
                        store.read_to_end();
                        drop(store);
                        std::thread::sleep(TURN);
                    }
                });
            }
        }
        if let Some(listener) = listener {
            store.known().received = Some(Received::default());
            let store = Arc::downgrade(&store);
            std::thread::spawn(move || socket::serve(&listener, &store));
        }
        if let Some(server) = postgres {
            let mut postgres = Postgres::connect(server).map_err(|why| format!("PostgreSQL: {why}"))?;
            store.ask(&mut postgres).map_err(|why| format!("PostgreSQL: {why}"))?;
            let (store, server) = (Arc::downgrade(&store), server.clone());
            std::thread::spawn(move || {
                while let Some(store) = store.upgrade() {
                    let asked = store.ask(&mut postgres);
                    store.known().failure = asked.as_ref().err().map(|why| format!("PostgreSQL: {why}"));
                    drop(store);
                    if asked.is_err()
                        && let Ok(again) = Postgres::connect(&server)
                    {
                        postgres = again;
                    }
                    // If it answers fast, it works a twentieth of the time for this.
                    let took = asked.unwrap_or(TURN);
                    std::thread::sleep((took * 19).clamp(SHORTEST_TURN, TURN));
                }
            });
        }
        let _ = self.store.set(store);
        Ok(())
    }

    /// What the answers of the database were like, and what came by the socket.
    pub fn notes(&self) -> Vec<Note> {
        let Some(store) = self.store.get() else { return Vec::new() };
        let known = store.known();
        let failure = known.failure.clone().unwrap_or_default();
        let polls = known.polls();
        let asked = polls.map(|(count, every_ns, took_ns)| Note::TagsAsked { count, every_ns, took_ns, failure });
        let received = known.received.clone().map(|received| {
            let Received { lines, malformed, first, refused_writers } = received;
            Note::TagsReceived { lines, malformed, first, refused_writers }
        });
        asked.into_iter().chain(received).collect()
    }
}

/// The code of the tags that an event has in its trace, and what is known of its thread and of its process.
type Found = (u32, Option<Arc<str>>, Option<Arc<str>>);

/// Gives the events of a trace their tags.
pub struct Tagger {
    store: Arc<Store>,
    key: Option<String>,
    /// Its texts of tags are others than those of the trace.
    batch: Batch,
    /// Codes of the batch for all tags of an event, and for the value of the key in them.
    codes: HashMap<Found, (u32, u32)>,
    /// Whether an event had the key; and what keys there were, as long as none had.
    has_key: bool,
    keys: BTreeSet<String>,
}

impl Tagger {
    /// For a trace, where there are tags.
    pub fn new(tagging: &Tagging) -> Option<Tagger> {
        let (store, key) = (Arc::clone(tagging.store.get()?), tagging.key.clone());
        let batch = Batch::new(FieldSet::ALWAYS);
        Some(Tagger { store, key, batch, codes: HashMap::new(), has_key: false, keys: BTreeSet::new() })
    }

    /// The fields of an event by which its tags are found.
    pub const NEEDED: FieldSet = FieldSet::ALWAYS.with(&[Field::Tid, Field::Pid, Field::Tags, Field::StackSource]);

    /// The events of a batch with their tags. An event has those of the interval that it shares most time with, and of those that it
    /// has in its trace the ones with other keys. A sample stands for the time since the one before; its stack and its tags are those of the moment in which it was taken.
    pub fn batch(&mut self, context: &Context, batch: &Batch) -> &Batch {
        self.batch.follow_but(batch, FieldSet::EMPTY.with(&[Field::Tags, Field::Tag]));
        let to_unix_ns = context.clock.to_unix_ns.unwrap_or(0);
        let store = Arc::clone(&self.store);
        let ends = batch.time().iter().zip(batch.latency()).map(|(&time_ns, &latency_ns)| {
            time_ns.saturating_add(to_unix_ns).saturating_add_unsigned(if latency_ns == MISSING_U64 {
                0
            } else {
                latency_ns
            })
        });
        let known = store.await_answer(ends.max().unwrap_or(i64::MIN));
        let (tids, pids) = (batch.i64s(Field::Tid), batch.i64s(Field::Pid));
        let of = |numbers: Option<&[i64]>, row: usize| {
            numbers.map(|numbers| numbers[row]).filter(|&number| number != MISSING_I64)
        };
        let sources = batch.dictionary(Field::StackSource).texts();
        let sampled = ["sampled", "timer"].map(|word| sources.iter().position(|source| **source == *word));
        let stack_sources = batch.codes(Field::StackSource);
        let is_sample = |row: usize| stack_sources.is_some_and(|codes| sampled.contains(&Some(codes[row] as usize)));
        let (mut tags, mut values) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (row, (&time_ns, &latency_ns)) in batch.time().iter().zip(batch.latency()).enumerate() {
            let latency_ns = if latency_ns == MISSING_U64 { 0 } else { latency_ns };
            let start_ns = time_ns.saturating_add(to_unix_ns);
            let end_ns = start_ns.saturating_add_unsigned(latency_ns);
            let start_ns = if is_sample(row) { end_ns } else { start_ns };
            let thread = of(tids, row).and_then(|tid| known.tags_during(Who::Thread(tid), start_ns, end_ns));
            let process = of(pids, row).and_then(|pid| known.tags_during(Who::Process(pid), start_ns, end_ns));
            let own = batch.codes(Field::Tags).map_or(MISSING_CODE, |codes| codes[row]);
            let found = (own, thread.cloned(), process.cloned());
            let (code, value) = match self.codes.get(&found) {
                Some(&codes) => codes,
                None => {
                    let codes = self.added(&found, batch.dictionary(Field::Tags).text(own).unwrap_or_default());
                    if self.codes.len() < CODES {
                        self.codes.insert(found, codes);
                    }
                    codes
                }
            };
            tags.push(code);
            values.push(value);
        }
        drop(known);
        let columns = batch.fields().iter().filter_map(|field| Some((field, batch.column(field)?.clone())));
        let tagged = [(Field::Tags, Column::Text(tags)), (Field::Tag, Column::Text(values))];
        self.batch.replace_columns(columns.chain(tagged));
        &self.batch
    }
}

impl Tagger {
    /// The codes for all tags together, and for the value of the key among them: what is known now comes before what the trace says.
    fn added(&mut self, (_, thread, process): &Found, own: &str) -> (u32, u32) {
        let known = [thread, process].into_iter().flatten().map(|tags| &**tags).collect::<Vec<_>>().join(";");
        let name = |tag: &str| tag.split_once('=').map_or(tag, |(name, _)| name).to_string();
        let names: BTreeSet<String> = known.split(';').map(name).collect();
        let others = own.split(';').filter(|tag| !names.contains(&name(tag)));
        let all: Vec<&str> = known.split(';').chain(others).filter(|tag| !tag.is_empty()).collect();
        let text = all.join(";");
        if text.is_empty() {
            return (MISSING_CODE, MISSING_CODE);
        }
        let value = self.key.as_ref().and_then(|key| tag(&text, key));
        self.has_key |= value.is_some();
        if !self.has_key && self.keys.len() < KEYS {
            self.keys.extend(all.iter().map(|tag| name(tag)));
        }
        let value = value.map_or(MISSING_CODE, |value| self.batch.intern(Field::Tag, value.as_bytes()));
        (self.batch.intern(Field::Tags, text.as_bytes()), value)
    }

    /// That no event had the tag that was asked for.
    pub fn note(&self) -> Option<Note> {
        let key = self.key.clone().filter(|_| !self.has_key)?;
        Some(Note::TagUnknown { key, known: self.keys.iter().cloned().collect() })
    }
}

/// The value of a tag among tags, `key=value;key=value`.
pub fn tag<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    tags.split(';').filter_map(|tag| tag.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
}
