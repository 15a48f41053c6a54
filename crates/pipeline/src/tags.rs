//! Tags of the application: what a thread or process was doing, from a file of intervals or a live database, joined to events.

use crate::postgres::{Postgres, Server};
use hashbrown::HashMap;
use latscope_event::{
    Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64, Note, parse_timestamp,
};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Longest line of a tag file, bytes, and most intervals that are kept.
const LINE_BYTES: u64 = 64 << 10;
const SPANS: usize = 10_000_000;
/// Most intervals of one thread that are compared with an event.
const COMPARED: usize = 1000;
/// How often a database is asked, and a growing file looked at.
const TURN: Duration = Duration::from_millis(50);
/// What a live provider said is kept for so long, nanoseconds.
const KEPT_NS: i64 = 600_000_000_000;

/// Where tags come from.
#[derive(Clone, Debug, Default)]
pub struct Tagging {
    file: Option<PathBuf>,
    postgres: Option<Server>,
    key: Option<String>,
    /// What is known so far; clones share it.
    store: Arc<OnceLock<Arc<Store>>>,
}

impl PartialEq for Tagging {
    fn eq(&self, other: &Tagging) -> bool {
        (&self.file, &self.postgres, &self.key) == (&other.file, &other.postgres, &other.key)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Who {
    Thread(i64),
    Process(i64),
}

#[derive(Clone, Debug)]
struct Span {
    start_ns: i64,
    /// `i64::MAX` while it lasts.
    end_ns: i64,
    tags: Arc<str>,
}

#[derive(Debug, Default)]
struct Known {
    /// By their start.
    spans: HashMap<Who, Vec<Span>>,
    count: usize,
    /// The start of a line of a file.
    cut: Vec<u8>,
    /// How long the answers of a database took, nanoseconds.
    polls_ns: Vec<u64>,
    failure: Option<String>,
}

#[derive(Debug, Default)]
struct Store {
    known: Mutex<Known>,
}

impl Tagging {
    /// Tags of a file, of a database of this machine that is asked while a capture runs, or of both; the value of the tag with this
    /// key is the field `tag`.
    pub fn new(file: Option<PathBuf>, postgres: Option<Server>, key: Option<String>) -> Tagging {
        Tagging { file, postgres, key, store: Arc::default() }
    }

    /// Reads the file, or connects to the database and goes on asking in a thread of its own; once, also for clones.
    ///
    /// # Errors
    /// A sentence with the position in the file, or why the database does not answer.
    pub fn open(&self, is_live: bool) -> Result<(), String> {
        if self.store.get().is_some() {
            return Ok(());
        }
        let store = Arc::new(Store::default());
        if let Some(path) = &self.file {
            let fail = |why: String| format!("{}{why}", path.display());
            let mut source = BufReader::new(File::open(path).map_err(|error| fail(format!(": {error}")))?);
            let mut line = 0;
            store.known().read(&mut source, &mut line, is_live).map_err(&fail)?;
            if is_live {
                let (store, path) = (Arc::downgrade(&store), path.clone());
                std::thread::spawn(move || {
                    while let Some(store) = store.upgrade() {
                        let read = store.known().read(&mut source, &mut line, true);
                        if let Err(why) = read {
                            store.known().failure = Some(format!("{}{why}", path.display()));
                            return;
                        }
                        drop(store);
                        std::thread::sleep(TURN);
                    }
                });
            }
        }
        if let Some(server) = &self.postgres {
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
                    std::thread::sleep(TURN);
                }
            });
        }
        let _ = self.store.set(store);
        Ok(())
    }

    /// What the answers of the database were like; `None` without one.
    pub fn note(&self) -> Option<Note> {
        let known = self.store.get()?.known();
        let mut sorted = known.polls_ns.clone();
        sorted.sort_unstable();
        let took_ns = [*sorted.get(sorted.len() / 2)?, *sorted.last()?];
        let every_ns = TURN.as_nanos() as u64 + took_ns[0];
        let failure = known.failure.clone().unwrap_or_default();
        Some(Note::TagsAsked { count: sorted.len() as u64, every_ns, took_ns, failure })
    }
}

impl Store {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a database; nobody waits for the lock meanwhile.
    fn ask(&self, postgres: &mut Postgres) -> Result<(), String> {
        let (start, asked_ns) = (Instant::now(), crate::now_ns());
        let found = postgres.activity().map_err(|why| why.to_string())?;
        let took_ns = start.elapsed().as_nanos() as u64;
        self.known().add_activity(found, asked_ns + (took_ns / 2) as i64, took_ns);
        Ok(())
    }
}

impl Known {
    /// Reads the lines that a file has by now. Of one that may grow, what has no end yet is read later.
    fn read(&mut self, source: &mut impl BufRead, line: &mut u64, may_grow: bool) -> Result<(), String> {
        loop {
            let mut text = std::mem::take(&mut self.cut);
            let left = LINE_BYTES.saturating_sub(text.len() as u64);
            source.take(left).read_until(b'\n', &mut text).map_err(|error| format!(": {error}"))?;
            if text.is_empty() {
                return Ok(());
            }
            if may_grow && (text.len() as u64) < LINE_BYTES && !text.ends_with(b"\n") {
                self.cut = text;
                return Ok(());
            }
            *line += 1;
            let malformed = |why: &str| format!(":{line}: {why}");
            if text.len() as u64 == LINE_BYTES {
                return Err(malformed("the line is too long"));
            }
            let text = String::from_utf8_lossy(&text);
            // A remark starts a word: colours are values that start alike.
            let is_remark = |at: usize| text[..at].chars().next_back().is_none_or(char::is_whitespace);
            let remark = text.match_indices('#').map(|(at, _)| at).find(|&at| is_remark(at));
            let words = &text[..remark.unwrap_or(text.len())];
            if !words.trim().is_empty() {
                self.add_line(words).map_err(|why| malformed(&why))?;
            }
        }
    }

    /// Adds `TID FROM TO KEY=VALUE ...`, or `pid:PID`; `TO` is `-` while it lasts.
    fn add_line(&mut self, words: &str) -> Result<(), String> {
        let mut words = words.split_whitespace();
        let mut next =
            |what: &str| words.next().ok_or_else(|| format!("{what} is missing; a line is TID FROM TO KEY=VALUE"));
        let (who, start, end) = (next("the thread")?, next("the start")?, next("the end")?);
        let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number of a thread or process"));
        let who = match who.strip_prefix("pid:") {
            Some(pid) => Who::Process(number(pid)?),
            None => Who::Thread(number(who)?),
        };
        let (start_ns, end_ns) = (parse_timestamp(start)?, if end == "-" { i64::MAX } else { parse_timestamp(end)? });
        if end_ns < start_ns {
            return Err("it ends before it starts".into());
        }
        let tags: Vec<String> = words.map(|word| word.replace(';', ":")).collect();
        if let Some(word) = tags.iter().find(|word| word.split_once('=').is_none_or(|(key, _)| key.is_empty())) {
            return Err(format!("{word} is not KEY=VALUE"));
        }
        if tags.is_empty() {
            return Err("it has no tags".into());
        }
        self.insert(who, Span { start_ns, end_ns, tags: tags.join(";").into() })
    }

    fn insert(&mut self, who: Who, span: Span) -> Result<(), String> {
        if self.count >= SPANS {
            return Err(format!("it has more than {SPANS} intervals"));
        }
        self.count += 1;
        let spans = self.spans.entry(who).or_default();
        // What lasts ends where the next one starts.
        if let Some(last) = spans.last_mut().filter(|last| last.end_ns == i64::MAX && last.start_ns <= span.start_ns) {
            last.end_ns = span.start_ns;
        }
        let at = spans.partition_point(|known| known.start_ns <= span.start_ns);
        spans.insert(at, span);
        Ok(())
    }

    /// What all backends did at this moment: it lasts until they are seen doing something else.
    fn add_activity(&mut self, found: Vec<crate::postgres::Activity>, at_ns: i64, took_ns: u64) {
        if self.polls_ns.len() < 1 << 20 {
            self.polls_ns.push(took_ns);
        }
        let mut gone: hashbrown::HashSet<i64> = self
            .spans
            .keys()
            .filter_map(|who| match who {
                Who::Process(pid) => Some(*pid),
                Who::Thread(_) => None,
            })
            .collect();
        for activity in found {
            let pid = i64::from(activity.pid);
            gone.remove(&pid);
            let words = activity.tags.iter().map(|(key, value)| format!("{key}={}", value.replace([';', ' '], "_")));
            let tags = words.collect::<Vec<_>>().join(";");
            let last = self.spans.get(&Who::Process(pid)).and_then(|spans| spans.last());
            if last.is_none_or(|last| last.end_ns != i64::MAX || *last.tags != *tags) {
                let _ = self.insert(Who::Process(pid), Span { start_ns: at_ns, end_ns: i64::MAX, tags: tags.into() });
            }
        }
        for pid in gone {
            if let Some(last) = self.spans.get_mut(&Who::Process(pid)).and_then(|spans| spans.last_mut()) {
                last.end_ns = last.end_ns.min(at_ns);
            }
        }
        let mut count = 0;
        self.spans.retain(|_, spans| {
            spans.retain(|span| span.end_ns > at_ns - KEPT_NS);
            count += spans.len();
            !spans.is_empty()
        });
        self.count = count;
    }

    /// The tags of most of the time between two moments.
    fn tags_during(&self, who: Who, start_ns: i64, end_ns: i64) -> Option<&Arc<str>> {
        let spans = self.spans.get(&who)?;
        let last = spans.partition_point(|span| span.start_ns <= end_ns);
        let earlier = spans[..last].iter().rev().take(COMPARED);
        let shared = |span: &Span| span.end_ns.min(end_ns).saturating_sub(span.start_ns.max(start_ns));
        // Of equal ones the last to start, which is the innermost.
        let meets = |span: &&Span| span.end_ns > start_ns && (shared(span) > 0 || start_ns == end_ns);
        let best = earlier.filter(meets).rev().max_by_key(|span| shared(span))?;
        Some(&best.tags)
    }
}

/// Gives the events of a trace their tags.
pub struct Tagger {
    store: Arc<Store>,
    key: Option<String>,
    batch: Batch,
    /// Codes of the batch for the tags of a thread and of its process, and of the value of the key in them.
    codes: HashMap<(Option<Arc<str>>, Option<Arc<str>>), (u32, u32)>,
    /// The value of the key by the code of tags that the trace has itself.
    values: HashMap<u32, u32>,
}

impl Tagger {
    /// For a trace, where there are tags.
    pub fn new(tagging: &Tagging) -> Option<Tagger> {
        let (store, key) = (Arc::clone(tagging.store.get()?), tagging.key.clone());
        Some(Tagger { store, key, batch: Batch::new(FieldSet::ALWAYS), codes: HashMap::new(), values: HashMap::new() })
    }

    /// The fields of an event by which its tags are found.
    pub const NEEDED: FieldSet = FieldSet::ALWAYS.with(&[Field::Tid, Field::Pid, Field::Tags]);

    /// The events of a batch with their tags. An event has those of the interval that it shares most time with, else those that it has in
    /// its trace.
    pub fn batch(&mut self, context: &Context, batch: &Batch) -> &Batch {
        self.batch.follow(batch);
        let to_unix_ns = context.clock.to_unix_ns.unwrap_or(0);
        let store = Arc::clone(&self.store);
        let known = store.known();
        let (tids, pids) = (batch.i64s(Field::Tid), batch.i64s(Field::Pid));
        let of = |numbers: Option<&[i64]>, row: usize| {
            numbers.map(|numbers| numbers[row]).filter(|&number| number != MISSING_I64)
        };
        let (mut tags, mut values) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (row, (&time_ns, &latency_ns)) in batch.time().iter().zip(batch.latency()).enumerate() {
            let latency_ns = if latency_ns == MISSING_U64 { 0 } else { latency_ns };
            let start_ns = time_ns.saturating_add(to_unix_ns);
            let end_ns = start_ns.saturating_add_unsigned(latency_ns);
            let thread = of(tids, row).and_then(|tid| known.tags_during(Who::Thread(tid), start_ns, end_ns));
            let process = of(pids, row).and_then(|pid| known.tags_during(Who::Process(pid), start_ns, end_ns));
            let (code, value) = if thread.is_none() && process.is_none() {
                let own = batch.codes(Field::Tags).map_or(MISSING_CODE, |codes| codes[row]);
                (own, self.value(own))
            } else {
                let found = (thread.cloned(), process.cloned());
                match self.codes.get(&found) {
                    Some(&codes) => codes,
                    None => {
                        let text: Vec<&str> = [thread, process].into_iter().flatten().map(|tags| &**tags).collect();
                        let text = text.join(";");
                        let value = self.key.as_ref().and_then(|key| tag(&text, key));
                        let value = value.map_or(MISSING_CODE, |value| self.batch.intern(Field::Tag, value.as_bytes()));
                        let codes = (self.batch.intern(Field::Tags, text.as_bytes()), value);
                        if self.codes.len() < SPANS {
                            self.codes.insert(found, codes);
                        }
                        codes
                    }
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
    /// The code of the value of the key among tags of the trace itself.
    fn value(&mut self, own: u32) -> u32 {
        if let Some(&value) = self.values.get(&own) {
            return value;
        }
        let text = self.batch.dictionary(Field::Tags).text(own).map(str::to_string);
        let value = text.as_deref().zip(self.key.as_ref()).and_then(|(text, key)| tag(text, key));
        let code = value.map_or(MISSING_CODE, |value| self.batch.intern(Field::Tag, value.as_bytes()));
        self.values.insert(own, code);
        code
    }
}

/// The value of a tag among tags, `key=value;key=value`.
pub fn tag<'a>(tags: &'a str, key: &str) -> Option<&'a str> {
    tags.split(';').filter_map(|tag| tag.split_once('=')).find(|(name, _)| *name == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_growing_file_is_read_by_whole_lines() {
        let (mut known, mut line) = (Known::default(), 0);
        known.read(&mut &b"7 10ns - a=1\n7 20"[..], &mut line, true).unwrap();
        known.read(&mut &b"ns 30ns a=2\n"[..], &mut line, true).unwrap();
        let of = |from, to| known.tags_during(Who::Thread(7), from, to).map(|tags| tags.to_string());
        assert_eq!(
            (of(0, 5), of(12, 14), of(25, 26), of(35, 40)),
            (None, Some("a=1".into()), Some("a=2".into()), None)
        );
        // Most of the time counts.
        assert_eq!((of(12, 23), of(18, 29)), (Some("a=1".into()), Some("a=2".into())));
        assert_eq!(line, 2);
    }

    #[test]
    fn a_backend_has_what_it_was_seen_doing_until_something_else() {
        let mut known = Known::default();
        let mut add = |at_ns, pid, event: &str| {
            let tags = vec![("wait_event", event.to_string())];
            known.add_activity(vec![crate::postgres::Activity { pid, tags }], at_ns, 5);
        };
        add(10, 1, "IO:WALSync");
        add(20, 1, "IO:WALSync");
        add(30, 1, "running");
        add(40, 2, "running");
        let of = |pid, at| known.tags_during(Who::Process(pid), at, at + 1).map(|tags| tags.to_string());
        assert_eq!(of(1, 29), Some("wait_event=IO:WALSync".into()));
        assert_eq!((of(1, 35), of(1, 45)), (Some("wait_event=running".into()), None));
        assert_eq!((of(2, 39), of(2, 99)), (None, Some("wait_event=running".into())));
        assert_eq!(known.spans[&Who::Process(1)].len(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_refused(bytes: Vec<u8>) {
            let _ = Known::default().read(&mut &bytes[..], &mut 0, false);
        }
    }
}
