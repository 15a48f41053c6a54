//! Makes tables of a file of the journal, and removes what is too old.

use super::files::{self, ALL_DAYS, DAY_NS, Files, Table, UNFINISHED, host_name};
use super::known::Known;
use super::presence;
use super::segment::{Piece, Segment};
use super::waited::{nothing, waited};
use super::{Level, TableHead, TableRow, TableRows, Tables};
use crate::{Hello, Parts, Ranges, reduce};
use latscope_event::{Anomaly, Tally};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Records of so many bytes are in memory at a time; their histograms take some ten times as much.
const PART_BYTES: u64 = 8 << 20;
/// Intervals may start so long after the hub's own time.
const AHEAD_NS: i64 = 120_000_000_000;
/// The tables of a day are made one so long after its end.
const DAY_REST_NS: i64 = 6 * 3_600_000_000_000;
/// Before that, so many of one file of the journal each are made one: of 144 files a day, twelve and eleven are left at most.
const TOGETHER: usize = 12;
/// With less of the disk free, tables go before their time.
const LEAST_FREE: f64 = 0.05;

/// What is asked after each step that is on disk: an error stops there.
type Step<'a> = &'a dyn Fn() -> io::Result<()>;

/// Compacts the journal of a hub.
pub struct Compactor {
    /// Where everything is.
    pub folder: PathBuf,
    /// Who writes tables.
    pub tables: Arc<dyn Tables>,
    /// Their widths.
    pub levels: Vec<Level>,
    /// What started so recently stays in the journal, from which a hub reads it into memory when it starts; nanoseconds.
    pub recent_ns: u64,
    /// Held while files are removed, and while somebody reads them.
    pub lock: Mutex<()>,
    /// Which share of the disk is free, where that is known.
    pub free: fn(&Path) -> Option<f64>,
    /// Tables that were removed before their time, since that was looked at last.
    pub removed: AtomicU64,
}

/// Which share of its disk a folder may still take.
pub fn free_share(folder: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    (disk.f_blocks > 0).then(|| disk.f_bavail as f64 / disk.f_blocks as f64)
}

/// The tables of a host and a day at one width.
struct Fold {
    head: TableHead,
    rows: BTreeMap<(i64, Arc<[String]>), Parts>,
}

impl Compactor {
    /// Whether the oldest file of the journal may be due, by its name.
    pub fn is_due(&self, now_ns: i64) -> bool {
        let oldest_ns = now_ns.saturating_sub_unsigned(self.recent_ns);
        files::segments(&self.folder)
            .is_ok_and(|segments| segments.get(1).is_some_and(|&(next, _)| closed_ns(next) < oldest_ns))
    }

    /// Compacts the oldest file of the journal if it may be, makes one of the tables of days that are over, and removes what is too
    /// old; whether there may be more to do.
    ///
    /// # Errors
    /// When something cannot be read or written: it is tried again with the next call. Those of `step`, which is called after each
    /// file that was written or removed.
    pub fn turn(&self, now_ns: i64, step: Step) -> io::Result<bool> {
        let files = Files::list(&self.folder, ALL_DAYS)?;
        self.remove(files.stale, step)?;
        let keep_ns = |table: &&Table| Level::keep_ns(&self.levels, table.width_ns);
        let is_old = |table: &&Table| ((table.day + 1) * DAY_NS).saturating_add_unsigned(keep_ns(table)) < now_ns;
        let (old, tables): (Vec<&Table>, Vec<&Table>) = files.tables.iter().partition(is_old);
        self.remove(old.iter().map(|table| table.path(&self.folder)).collect(), step)?;
        let tables = self.make_room(tables, step)?;
        let is_over = |table: &&Table| (table.day + 1) * DAY_NS + DAY_REST_NS < now_ns;
        let (over, others): (Vec<&Table>, Vec<&Table>) = tables.into_iter().partition(is_over);
        self.join(grouped(over).into_values().filter(|parts| parts.len() > 1), step)?;
        self.join(grouped(others).into_values().flat_map(together), step)?;
        let [(stamp, path), (next, _), ..] = &files.segments[..] else { return Ok(false) };
        let closed_ns = closed_ns(*next);
        let oldest_ns = now_ns.saturating_sub_unsigned(self.recent_ns);
        if closed_ns >= oldest_ns {
            return Ok(false);
        }
        let hosts = Hosts::scan(path)?;
        // Of a host whose clock is far ahead nothing is in memory.
        if hosts.end_ns.min(closed_ns.saturating_add(AHEAD_NS)) >= oldest_ns {
            return Ok(false);
        }
        self.compact(*stamp, path, &hosts, step)?;
        Ok(true)
    }

    /// Makes tables of a file of the journal. It counts until it is removed, which is the last step.
    fn compact(&self, stamp: u64, path: &Path, hosts: &Hosts, step: Step) -> io::Result<()> {
        let mut known = Known::load(&self.folder)?;
        let mut folders = BTreeSet::new();
        for part in hosts.parts() {
            let mut seen = known.ranges();
            let (mut segment, mut folds) = (Segment::open(path)?, BTreeMap::new());
            while let Some(piece) = segment.next(&mut seen, &|hello, _| part.contains(&hello.host))? {
                self.fold(&segment, &piece, &mut folds);
            }
            // A day that the host sent nothing of needs none.
            for (hello, end_ns) in segment.ended.iter().filter(|(hello, _)| part.contains(&hello.host)) {
                let of_host = folds.iter_mut().filter(|((.., host), _)| *host == hello.host);
                let moment = end_ns.div_euclid(1_000_000).max(0).unsigned_abs();
                of_host.for_each(|(_, fold)| _ = fold.head.ended.add(moment..=moment));
            }
            for ((day, width_ns, host), fold) in folds {
                let table = Table { day, host: host_name(&host), width_ns, first: stamp, last: stamp };
                let path = table.path(&self.folder);
                let row = |((time_ns, labels), parts): ((i64, Arc<[String]>), Parts)| {
                    let (done, waiting) = (parts.done.unwrap_or_else(nothing), parts.waiting);
                    Ok(TableRow { time_ns, labels, done, waiting })
                };
                self.write(&path, &fold.head, Box::new(fold.rows.into_iter().map(row)), &mut folders)?;
                step()?;
            }
        }
        folders.iter().try_for_each(|folder: &PathBuf| files::sync(folder))?;
        known.add(Segment::open(path)?)?;
        known.store(&self.folder, stamp)?;
        step()?;
        let older = files::stamped(&self.folder, ".runs")?.into_iter().filter(|&(other, _)| other < stamp);
        self.remove(vec![path.into()], step)?;
        self.remove(older.map(|(_, path)| path).collect(), step)
    }

    /// Adds intervals of a host to its tables.
    fn fold(&self, segment: &Segment, piece: &Piece, folds: &mut BTreeMap<(i64, u64, String), Fold>) {
        let (hello, base_ns) = (&piece.hello, piece.head.width_ns);
        let widths = Level::widths(&self.levels, base_ns);
        for (interval, row) in (piece.head.start..).zip(&piece.rows) {
            let start_ns = interval * base_ns as i64;
            for &width_ns in &widths {
                let time_ns = start_ns.div_euclid(width_ns as i64) * width_ns as i64;
                let key = (time_ns.div_euclid(DAY_NS), width_ns, hello.host.clone());
                let span_ns = (start_ns, start_ns.saturating_add_unsigned(base_ns));
                let fold = folds.entry(key).or_insert_with(|| Fold::new(hello, width_ns, span_ns));
                fold.head.tally.merge(&row.tally);
                if let Some(observed) = presence::observed(start_ns, base_ns, row) {
                    let TableHead { observed: ranges, uneven, .. } = &mut fold.head;
                    presence::observe(ranges, uneven, observed, row.covered_ns);
                }
                let (from_ns, to_ns) = fold.head.span_ns;
                fold.head.span_ns = (from_ns.min(span_ns.0), to_ns.max(span_ns.1));
                for (group, parts) in &row.groups {
                    let waiting = waited(parts, row, span_ns.1, time_ns.saturating_add_unsigned(width_ns));
                    if parts.done.is_none() && waiting.is_none() {
                        continue;
                    }
                    let parts = Parts { done: parts.done.clone(), waiting: waiting.cloned() };
                    match segment.labels(piece, *group).filter(|labels| labels.len() == fold.head.fields.len()) {
                        Some(labels) => fold.add(time_ns, labels, parts),
                        None => fold.head.tally.add(Anomaly::DamagedRecords, 1),
                    }
                }
            }
        }
    }

    /// Writes a file under another name first, so that it is whole or not there.
    fn write(&self, path: &Path, head: &TableHead, rows: TableRows, folders: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        let Some(folder) = path.parent() else { return Ok(()) };
        fs::create_dir_all(folder)?;
        let unfinished = path.with_extension(format!("parquet{UNFINISHED}"));
        self.tables.write(&unfinished, head, rows)?;
        fs::rename(&unfinished, path)?;
        // The names of the folders, too.
        folders.extend(folder.ancestors().take_while(|above| above.starts_with(&self.folder)).map(Path::to_path_buf));
        Ok(())
    }

    /// Where the disk is nearly full, removes the finest tables of the oldest days; returns those that are left. The widest stay, and
    /// so does the journal: nothing is lost that is not elsewhere in wider intervals.
    fn make_room<'a>(&self, mut tables: Vec<&'a Table>, step: Step) -> io::Result<Vec<&'a Table>> {
        let widest = tables.iter().map(|table| table.width_ns).max();
        while (self.free)(&self.folder).is_some_and(|share| share < LEAST_FREE)
            && let Some(next) = tables.iter().map(|table| (table.width_ns, table.day)).min()
            && Some(next.0) < widest
        {
            let (gone, left) = tables.into_iter().partition(|table| (table.width_ns, table.day) == next);
            tables = left;
            let gone: Vec<&Table> = gone;
            self.removed.fetch_add(gone.len() as u64, Ordering::Relaxed);
            self.remove(gone.iter().map(|table| table.path(&self.folder)).collect(), step)?;
        }
        Ok(tables)
    }

    /// Puts tables of a host, a day and a width together; a reader leaves out those that are part of another.
    fn join<'a>(&self, groups: impl Iterator<Item = Vec<&'a Table>>, step: Step) -> io::Result<()> {
        for parts in groups {
            let Some(&Table { day, ref host, width_ns, .. }) = parts.first().copied() else { continue };
            let (first, last) =
                parts.iter().fold((u64::MAX, 0), |(first, last), part| (first.min(part.first), last.max(part.last)));
            let mut heads = Vec::new();
            for part in &parts {
                heads.push(self.tables.open(&part.path(&self.folder))?.0);
            }
            let is_one = heads.iter().all(|head| head.fields == heads[0].fields);
            let Some(head) = heads.into_iter().reduce(|one, other| merged(one, other, width_ns)).filter(|_| is_one)
            else {
                continue;
            };
            // A table that was opened has it in its rows only.
            let head = TableHead { width_ns, ..head };
            let open = |part: &&Table| match self.tables.open(&part.path(&self.folder)) {
                Ok((_, rows)) => rows,
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
            let table = Table { day, host: host.clone(), width_ns, first, last };
            let mut folders = BTreeSet::new();
            self.write(&table.path(&self.folder), &head, Box::new(parts.iter().flat_map(open)), &mut folders)?;
            folders.iter().try_for_each(|folder| files::sync(folder))?;
            step()?;
            self.remove(parts.iter().map(|part| part.path(&self.folder)).collect(), step)?;
        }
        Ok(())
    }

    /// Removes files while nobody reads, and folders that are empty then.
    fn remove(&self, paths: Vec<PathBuf>, step: Step) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let above = path.ancestors().skip(1).take_while(|above| *above != self.folder);
            // Those that are not empty stay.
            above.take(2).try_for_each(|folder| fs::remove_dir(folder).ok());
            step()?;
        }
        drop(locked);
        files::sync(&self.folder)
    }
}

/// When a file of the journal was closed, by the stamp of the next one; nanoseconds since the epoch.
fn closed_ns(next: u64) -> i64 {
    i64::try_from(next.saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}

impl Fold {
    fn new(hello: &Hello, width_ns: u64, span_ns: (i64, i64)) -> Fold {
        let Hello { host, fields, source, filter, .. } = hello.clone();
        Fold {
            head: TableHead {
                host,
                fields,
                source,
                filter,
                width_ns,
                tally: Tally::default(),
                span_ns,
                observed: Ranges::default(),
                uneven: BTreeMap::new(),
                ended: Ranges::default(),
            },
            rows: BTreeMap::new(),
        }
    }

    fn add(&mut self, time_ns: i64, labels: &Arc<[String]>, parts: Parts) {
        let sum = self.rows.entry((time_ns, Arc::clone(labels))).or_default();
        reduce::merge(&mut sum.done, parts.done);
        reduce::merge(&mut sum.waiting, parts.waiting);
    }
}

/// Tables of the same day, host and width, in the order of the journal.
fn grouped(tables: Vec<&Table>) -> BTreeMap<(i64, &str, u64), Vec<&Table>> {
    let mut groups = BTreeMap::<_, Vec<&Table>>::new();
    tables
        .into_iter()
        .for_each(|table| groups.entry((table.day, &table.host[..], table.width_ns)).or_default().push(table));
    groups
}

/// Those of a group that are of one file of the journal each and follow each other, where there are enough of them. What is joined has
/// all stamps between its first and its last, so that no other table is taken for a part of it.
fn together(tables: Vec<&Table>) -> Vec<Vec<&Table>> {
    let runs = tables.chunk_by(|one, other| one.first == one.last && other.first == other.last);
    runs.filter(|run| run.len() >= TOGETHER).map(<[&Table]>::to_vec).collect()
}

fn merged(mut head: TableHead, other: TableHead, width_ns: u64) -> TableHead {
    head.tally.merge(&other.tally);
    // One of before it was stored makes all of it unknown.
    if head.observed.is_empty() || other.observed.is_empty() {
        head.observed = Ranges::default();
    }
    let is_known = !head.observed.is_empty();
    if is_known {
        presence::note_common(&mut head.uneven, &head.observed, &other.observed, width_ns);
        other.uneven.iter().for_each(|(&start, more_ns)| *head.uneven.entry(start).or_insert(0) += more_ns);
    }
    for range in other.observed.iter().filter(|_| is_known) {
        head.observed.add(range);
    }
    other.ended.iter().for_each(|range| _ = head.ended.add(range));
    head.span_ns = (head.span_ns.0.min(other.span_ns.0), head.span_ns.1.max(other.span_ns.1));
    head
}

/// Which hosts a file of the journal has.
struct Hosts {
    /// Bytes of their records.
    bytes: BTreeMap<String, u64>,
    /// The end of the last interval, nanoseconds since the epoch.
    end_ns: i64,
}

impl Hosts {
    fn scan(path: &Path) -> io::Result<Hosts> {
        let (mut hosts, mut names) = (Hosts { bytes: BTreeMap::new(), end_ns: i64::MIN }, BTreeMap::new());
        Segment::open(path)?.each_record(|kind, record, head| {
            if let (crate::Kind::Hello, Ok(hello)) = (kind, Hello::parse(record.payload())) {
                names.insert(hello.run, hello.host);
            }
            if let Some(head) = head
                && let Some(host) = names.get(&head.run)
            {
                *hosts.bytes.entry(host.clone()).or_insert(0) += record.bytes().len() as u64;
                hosts.end_ns = hosts.end_ns.max((head.start + head.intervals as i64) * head.width_ns as i64);
            }
        })?;
        Ok(hosts)
    }

    /// Those of which the records fit into memory together.
    fn parts(&self) -> Vec<HashSet<&String>> {
        let (mut parts, mut room) = (Vec::<HashSet<&String>>::new(), 0);
        for (host, &bytes) in &self.bytes {
            if parts.is_empty() || bytes > room {
                parts.push(HashSet::new());
                room = PART_BYTES;
            }
            room = room.saturating_sub(bytes);
            if let Some(part) = parts.last_mut() {
                part.insert(host);
            }
        }
        parts
    }
}
