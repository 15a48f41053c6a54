//! What is known of threads and processes so far: lines of text, and what a database said.

use super::spans::{Span, Spans};
use crate::postgres::{Activity, Postgres};
use hashbrown::{HashMap, HashSet};
use latscope_event::parse_timestamp;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest line, bytes, and most intervals that are kept: of a file, and while a capture runs.
pub const LINE_BYTES: usize = 64 << 10;
const SPANS: usize = 10_000_000;
const SPANS_LIVE: usize = 2_000_000;
/// Most of them of one thread while a capture runs.
const SPANS_OF_ONE: usize = 1 << 16;
/// What was said while a capture runs is kept for so long, nanoseconds.
const KEPT_NS: i64 = 600_000_000_000;
/// A database that was asked longer ago than this has said nothing of the time between, nanoseconds.
const GAP_NS: i64 = 1_000_000_000;
/// Longest that an event waits for the answer of a database.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// So many lines may come before what is old is removed.
const POLLS: usize = 1 << 20;
const LINES_KEPT: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Who {
    Thread(i64),
    Process(i64),
}

/// Lines that came by a socket.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub lines: u64,
    pub malformed: u64,
    /// The first of them, and why.
    pub first: String,
    pub refused_writers: u64,
}

#[derive(Debug, Default)]
pub struct Known {
    spans: HashMap<Who, Spans>,
    count: usize,
    /// Tags that many intervals have.
    texts: HashSet<Arc<str>>,
    /// The start of a line of a file.
    cut: Vec<u8>,
    lines_since: usize,
    asked_ns: Option<i64>,
    /// When it was asked first.
    first_asked_ns: i64,
    /// How long the first answers of a database took, nanoseconds.
    polls_ns: Vec<u64>,
    /// How many there were.
    polls: u64,
    pub failure: Option<String>,
    pub received: Option<Received>,
}

/// A file of lines, of which more may come.
#[derive(Debug)]
pub struct Growing {
    path: PathBuf,
    source: BufReader<File>,
    line: u64,
}

impl Growing {
    /// A file that was not read yet.
    pub fn open(path: &Path) -> Result<Growing, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Growing { path: path.to_owned(), source: BufReader::new(file), line: 0 })
    }

    /// Reads the lines that it has by now.
    pub fn read(&mut self, known: &mut Known, may_grow: bool) -> Result<(), String> {
        let read = known.read(&mut self.source, &mut self.line, may_grow);
        read.map_err(|why| format!("{}{why}", self.path.display()))
    }
}

/// What all who tag and who are tagged share.
#[derive(Debug, Default)]
pub struct Store {
    /// The file of tags while a capture runs, until it cannot be read. Locked before `known`.
    growing: Mutex<Option<Growing>>,
    known: Mutex<Known>,
    answered: Condvar,
    /// The socket in the file system, which goes when the store does.
    socket: Option<PathBuf>,
}

impl Store {
    /// Of which nothing is known, with the path of the socket that was made for it.
    pub fn new(socket: Option<PathBuf>) -> Store {
        Store { growing: Mutex::default(), known: Mutex::default(), answered: Condvar::new(), socket }
    }

    pub fn growing(&self) -> MutexGuard<'_, Option<Growing>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a growing file has by now.
    pub fn read_to_end(&self) {
        let mut growing = self.growing();
        let Some(file) = &mut *growing else { return };
        let mut known = self.known();
        if let Err(why) = file.read(&mut known, true) {
            known.failure = Some(why);
            *growing = None;
        }
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a growing file to its end: it has a line for all that began before these events ended, if it is written by then. Waits, for a
    /// moment at most, until a database that is asked has said what it did at this time: what it did before is known only then.
    pub fn await_answer(&self, until_ns: i64) -> MutexGuard<'_, Known> {
        self.read_to_end();
        let is_behind = |known: &mut Known| {
            known.failure.is_none() && known.asked_ns.is_some_and(|asked| asked < until_ns && until_ns - asked < GAP_NS)
        };
        let waited = self.answered.wait_timeout_while(self.known(), LONGEST_WAIT, is_behind);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Asks a database, and says how long it took; nobody waits for the lock meanwhile.
    pub fn ask(&self, postgres: &mut Postgres) -> Result<Duration, String> {
        let (start, asked_ns) = (Instant::now(), crate::now_ns());
        let found = postgres.activity().map_err(|why| why.to_string())?;
        let took = start.elapsed();
        let took_ns = took.as_nanos() as u64;
        self.known().add_activity(found, asked_ns + (took_ns / 2) as i64, took_ns);
        self.answered.notify_all();
        Ok(took)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Reads `TID FROM TO KEY=VALUE ...`, or `pid:PID`; `TO` is `-` or left out while it lasts. `None` for blank lines and comments.
fn parse(line: &str) -> Result<Option<(Who, i64, i64, String)>, String> {
    // A word that starts with # is a remark: colours are values that start alike.
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#')).peekable();
    let Some(who) = words.next() else { return Ok(None) };
    let missing = |what: &str| format!("{what} is missing; a line is TID FROM TO KEY=VALUE");
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number of a thread or process"));
    let who = match who.strip_prefix("pid:") {
        Some(pid) => Who::Process(number(pid)?),
        None => Who::Thread(number(who)?),
    };
    let start = words.next().ok_or_else(|| missing("the start"))?;
    let end = words.next_if(|word| !word.contains('='));
    if end.is_none() && words.peek().is_none() {
        return Err(missing("the end"));
    }
    let start_ns = parse_timestamp(start)?;
    let end_ns = end.filter(|end| *end != "-").map_or(Ok(i64::MAX), parse_timestamp)?;
    if end_ns < start_ns {
        return Err("it ends before it starts".into());
    }
    let mut tags = String::new();
    for word in words {
        if word.split_once('=').is_none_or(|(key, _)| key.is_empty()) {
            return Err(format!("{word} is not KEY=VALUE"));
        }
        if !tags.is_empty() {
            tags.push(';');
        }
        tags.extend(word.chars().map(|letter| if letter == ';' { ':' } else { letter }));
    }
    if tags.is_empty() { Err("it has no tags".into()) } else { Ok(Some((who, start_ns, end_ns, tags))) }
}

impl Known {
    /// Reads the lines that a file has by now. Of one that may grow, what has no end yet is read later.
    pub fn read(&mut self, source: &mut impl BufRead, line: &mut u64, may_grow: bool) -> Result<(), String> {
        loop {
            let mut text = std::mem::take(&mut self.cut);
            let left = LINE_BYTES.saturating_sub(text.len()) as u64;
            source.take(left).read_until(b'\n', &mut text).map_err(|error| format!(": {error}"))?;
            if text.is_empty() {
                break;
            }
            if may_grow && text.len() < LINE_BYTES && !text.ends_with(b"\n") {
                self.cut = text;
                break;
            }
            *line += 1;
            let malformed = |why: &str| format!(":{line}: {why}");
            if text.len() == LINE_BYTES {
                return Err(malformed("the line is too long"));
            }
            self.add_line(&text, may_grow).map_err(|why| malformed(&why))?;
            text.clear();
            self.cut = text;
        }
        if !may_grow {
            self.spans.values_mut().for_each(Spans::settle);
            self.texts = HashSet::new();
        }
        Ok(())
    }

    /// Adds what a line says.
    pub fn add_line(&mut self, line: &[u8], is_live: bool) -> Result<(), String> {
        let Some((who, start_ns, end_ns, tags)) = parse(&String::from_utf8_lossy(line))? else { return Ok(()) };
        if is_live {
            self.lines_since += 1;
            if self.lines_since >= LINES_KEPT {
                self.forget(crate::now_ns());
            }
            let tags = tags.into();
            return self.insert(who, Span { start_ns, end_ns, tags });
        }
        if self.count >= SPANS {
            return Err(format!("it has more than {SPANS} intervals"));
        }
        self.count += 1;
        let tags = Arc::clone(self.texts.get_or_insert_with(&*tags, |tags| tags.into()));
        self.spans.entry(who).or_default().push(Span { start_ns, end_ns, tags });
        Ok(())
    }

    fn insert(&mut self, who: Who, span: Span) -> Result<(), String> {
        if self.count >= SPANS_LIVE {
            self.forget(crate::now_ns());
        }
        if self.count >= SPANS_LIVE {
            return Err(format!("more than {SPANS_LIVE} intervals of the last ten minutes"));
        }
        let spans = self.spans.entry(who).or_default();
        spans.insert(span);
        self.count += 1;
        if spans.len() > SPANS_OF_ONE {
            self.count -= spans.len();
            spans.forget(i64::MIN, SPANS_OF_ONE / 4 * 3);
            self.count += spans.len();
        }
        Ok(())
    }

    /// Removes what ended long ago.
    fn forget(&mut self, now_ns: i64) {
        self.lines_since = 0;
        self.spans.retain(|_, spans| {
            spans.forget(now_ns - KEPT_NS, SPANS_OF_ONE);
            spans.len() > 0
        });
        self.count = self.spans.values().map(Spans::len).sum();
    }

    /// What all backends did at this moment. It holds from half the way since they were asked before, until they are seen doing something
    /// else.
    fn add_activity(&mut self, found: Vec<Activity>, at_ns: i64, took_ns: u64) {
        if self.polls_ns.is_empty() {
            self.first_asked_ns = at_ns;
        }
        if self.polls_ns.len() < POLLS {
            self.polls_ns.push(took_ns);
        }
        self.polls += 1;
        let before = self.asked_ns.replace(at_ns).filter(|&before| before <= at_ns && at_ns - before < GAP_NS);
        let from_ns = before.map_or(at_ns, |before| before + (at_ns - before) / 2);
        let mut gone: HashSet<i64> = self
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
            let last = self.spans.get(&Who::Process(pid)).and_then(Spans::last);
            if last.is_none_or(|last| last.end_ns != i64::MAX || *last.tags != *tags) {
                let span = Span { start_ns: from_ns, end_ns: i64::MAX, tags: tags.into() };
                let _ = self.insert(Who::Process(pid), span);
            }
        }
        for pid in gone {
            if let Some(spans) = self.spans.get_mut(&Who::Process(pid)) {
                spans.end(from_ns);
            }
        }
        self.forget(at_ns);
    }

    /// How often a database was asked, how far apart, and the median and the longest time that an answer took, nanoseconds.
    pub fn polls(&self) -> Option<(u64, u64, [u64; 2])> {
        let mut sorted = self.polls_ns.clone();
        sorted.sort_unstable();
        let took_ns = [*sorted.get(sorted.len() / 2)?, *sorted.last()?];
        let all_ns = self.asked_ns?.saturating_sub(self.first_asked_ns).max(0) as u64;
        Some((self.polls, all_ns / (self.polls - 1).max(1), took_ns))
    }

    /// The tags of most of the time between two moments.
    pub fn tags_during(&self, who: Who, start_ns: i64, end_ns: i64) -> Option<&Arc<str>> {
        Some(&self.spans.get(&who)?.during(start_ns, end_ns)?.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_growing_file_is_read_by_whole_lines() {
        let (mut known, mut line) = (Known::default(), 0);
        let now = crate::now_ns();
        let at = |ns: i64| now + ns;
        let text = format!("7 {} - a=1\n7 {}", at(10), at(20));
        known.read(&mut text.as_bytes(), &mut line, true).unwrap();
        known.read(&mut format!(" {} a=2\n8 {} b=1\n", at(30), at(5)).as_bytes(), &mut line, true).unwrap();
        let of = |tid, from, to| known.tags_during(Who::Thread(tid), at(from), at(to)).map(|tags| tags.to_string());
        let of_7 = |from, to| of(7, from, to);
        let some = |tags: &str| Some(tags.to_string());
        assert_eq!((of_7(0, 5), of_7(12, 14), of_7(25, 26), of_7(35, 40)), (None, some("a=1"), some("a=2"), None));
        // Most of the time counts.
        assert_eq!((of_7(12, 23), of_7(18, 29)), (some("a=1"), some("a=2")));
        // Without an end it lasts, too.
        assert_eq!((of(8, 100, 101), line), (some("b=1"), 3));
    }

    /// What was written before events are tagged is known then, whenever the file was looked at last.
    #[test]
    fn a_growing_file_is_read_to_its_end_before_events_are_tagged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tags");
        std::fs::write(&path, "").unwrap();
        let store = Store::new(None);
        *store.growing() = Some(Growing::open(&path).unwrap());
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let now = crate::now_ns();
        for phase in 0..20 {
            let start = now + phase * 8_000_000;
            std::io::Write::write_all(&mut file, format!("7 {start} - phase={phase}\n").as_bytes()).unwrap();
            let end = start + 8_000_000;
            let known = store.await_answer(end);
            let tags = known.tags_during(Who::Thread(7), start, end).map(|tags| tags.to_string());
            assert_eq!(tags, Some(format!("phase={phase}")));
        }
        std::io::Write::write_all(&mut file, b"nonsense\n").unwrap();
        let failure = store.await_answer(now).failure.clone().unwrap_or_default();
        assert!(failure.ends_with("tags:21: nonsense is not a number of a thread or process"), "{failure}");
        assert!(store.growing().is_none());
    }

    #[test]
    fn a_backend_has_what_it_was_seen_doing_until_something_else() {
        let mut known = Known::default();
        let mut add = |at_ns, pid, event: &str| {
            let tags = vec![("wait_event", event.to_string())];
            known.add_activity(vec![Activity { pid, tags }], at_ns, 5);
        };
        add(10, 1, "IO:WALSync");
        add(20, 1, "IO:WALSync");
        add(30, 1, "running");
        add(40, 2, "running");
        let of = |pid, at| known.tags_during(Who::Process(pid), at, at + 1).map(|tags| tags.to_string());
        assert_eq!(of(1, 24), Some("wait_event=IO:WALSync".into()));
        assert_eq!((of(1, 26), of(1, 45)), (Some("wait_event=running".into()), None));
        assert_eq!((of(2, 34), of(2, 99)), (None, Some("wait_event=running".into())));
        assert_eq!(known.spans[&Who::Process(1)].len(), 2);
    }

    /// A writer that never stops has bounded room: the last ten minutes, and so many intervals of one thread.
    #[test]
    fn what_a_writer_says_is_bounded() {
        let mut known = Known::default();
        let now = crate::now_ns();
        for line in 0..3 * SPANS_OF_ONE as i64 {
            known.add_line(format!("7 {} {} a={line}", now + line, now + line + 1).as_bytes(), true).unwrap();
            known.add_line(format!("{line} 5 6 a=old").as_bytes(), true).unwrap();
        }
        assert!(known.count <= SPANS_OF_ONE + LINES_KEPT, "{}", known.count);
        assert_eq!(known.count, known.spans.values().map(Spans::len).sum::<usize>());
        let last = known.spans[&Who::Thread(7)].last().unwrap().tags.to_string();
        assert_eq!(last, format!("a={}", 3 * SPANS_OF_ONE - 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_refused(bytes: Vec<u8>) {
            let _ = Known::default().read(&mut &bytes[..], &mut 0, false);
            let _ = Known::default().add_line(&bytes, true);
        }
    }
}
