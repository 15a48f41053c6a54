//! The files of a recording: one, or one after the other.

use super::names::{self, size, sum};
use super::trace::{Before, Notes, Trace, account, failure, shorten, start, until};
use crate::Failure;
use crate::notes::{self, WORDING};
use crate::output::{self, Output};
use crate::plan::{Keep, Reading, Recording, Rotate};
use latscope_event::{Anomaly, Batch, Context, FieldSet, Mask, Unfinished, format_count, format_duration, format_size};
use latscope_pipeline::{RECORDING, now_ns};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A flight recorder leaves so much of the disk free, or a quarter of a small one, rather than lose what comes.
const RESERVE_BYTES: u64 = 16 << 20;
/// So much the account of a file may grow between two looks at it.
const GROWTH_BYTES: u64 = 2 << 10;

/// The trace that is written: one file, or one after the other.
pub struct Files<'a> {
    plan: &'a Recording,
    /// Properties of each file.
    marks: BTreeMap<String, String>,
    fields: FieldSet,
    now: Open,
    /// What was lost before the present file was started.
    before: Before,
    /// Events that the present file lacks because the one before could not be written.
    lost: u64,
    /// Those that are over, but for the account of what waited at their ends.
    past: Vec<Past>,
}

/// A file that has its events.
struct Past {
    file: Open,
    account: Context,
    most_bytes: u64,
}

struct Open {
    path: PathBuf,
    writer: Trace,
    notes: Notes,
    from_ns: i64,
    events: u64,
}

impl Files<'_> {
    /// Opens the first file. It has no name, and replaces nothing, before [`Files::appear`].
    pub fn open<'a>(
        plan: &'a Recording,
        fields: FieldSet,
        reading: &Reading,
        context: &Context,
    ) -> Result<Files<'a>, Failure> {
        let from_ns = now_ns();
        let filter = reading.filter.as_ref().map(|filter| ("filter".into(), filter.to_string()));
        let recording = plan.rotate.map(|_| (RECORDING.into(), from_ns.to_string()));
        let marks = filter.into_iter().chain(recording).collect();
        let now = open(plan, fields, context, &marks, from_ns)?;
        Ok(Files { plan, marks, fields, now, before: Before::default(), lost: 0, past: Vec::new() })
    }

    /// Gives the first file its name, now that nothing is left that could prevent the recording.
    pub fn appear(&mut self) -> Result<(), Failure> {
        self.remove_surplus(self.older(), 1);
        self.now.appear()
    }

    /// Writes what the mask lets through, into as many files as it takes.
    pub fn write(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.make_room();
        if matches!(self.plan.rotate, Some(Rotate::Time(ns)) if self.now.age_ns() >= ns as i64) {
            self.rotate(context)?;
        }
        let count = mask.map_or(batch.len(), Mask::count);
        let mut written = 0;
        loop {
            let most_bytes = self.room_for_events(context)?;
            let events = self.now.events;
            match self.now.push(batch, mask, written, most_bytes) {
                Ok(taken) => written += taken,
                Err(error) if error.kind() == io::ErrorKind::StorageFull && self.plan.keep.is_some() => {
                    let stored = self.now.writer.stored_events();
                    written += stored.saturating_sub(events) as usize;
                    let lost = events.saturating_sub(stored);
                    if stored > 0 || !self.older().is_empty() {
                        self.start_over(context, lost)?;
                        continue;
                    }
                    // Others have filled the disk: there is no place for these events.
                    std::thread::sleep(names::FULL_PAUSE);
                    return self.start_over(context, lost + count.saturating_sub(written) as u64);
                }
                Err(error) => return Err(self.now.failure(&error)),
            }
            if written >= count {
                return Ok(());
            }
            self.rotate(context)?;
        }
    }

    /// Whether files are over that wait for [`Files::settle`].
    pub fn are_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// Ends the files that are over: what waits now waited at their ends, too, if it had started by then. What completed since is an event
    /// of a later file.
    pub fn settle(&mut self, waiting: &[Unfinished]) -> Result<(), Failure> {
        for Past { file, mut account, most_bytes } in std::mem::take(&mut self.past) {
            let (path, stored) = (file.path.clone(), (file.writer.stored_events(), file.writer.stored_bytes()));
            let lost = file.events.saturating_sub(stored.0);
            let end_ns = account.span_ns.map_or(i64::MAX, |(_, to_ns)| to_ns);
            let waited = waiting.iter().filter(|request| request.start_ns <= end_ns);
            account.unfinished = waited.map(|request| until(request, end_ns)).collect();
            account.knows_unfinished = true;
            account.tally.add(Anomaly::Unfinished, account.unfinished.len() as u64);
            account.sort_unfinished();
            match end(file, account, most_bytes) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull && self.plan.keep.is_some() => {
                    say!("latscope: {}: The disk is full: {} events are lost.", path.display(), format_count(lost));
                    shorten(&path, stored.1);
                    self.lost += lost;
                }
                ended => ended.map_err(|error| failure(&path, &error))?,
            }
        }
        Ok(())
    }

    /// Leaves the account so far in the present file, if it is time to: a recording that is killed has no other.
    pub fn note(&mut self, now: &Context) -> Result<(), Failure> {
        if self.plan.keep.is_some() && names::is_full(&self.plan.write) {
            return Ok(()); // events need the rest
        }
        let room = self.room_for_events(now)?;
        let account = account(now, &self.before, self.lost, &self.marks, (self.now.from_ns, now_ns()), room);
        match self.now.notes.leave(account, &mut self.now.writer, room) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.plan.keep.is_some() => {
                self.start_over(now, self.now.events.saturating_sub(self.now.writer.stored_events()))
            }
            left => left.map_err(|error| self.now.failure(&error)),
        }
    }

    /// Ends the last file, and those that are over.
    pub fn finish(mut self, context: &Context) -> Result<(), Failure> {
        self.settle(&context.unfinished)?;
        let most_bytes = self.limit();
        // When the capture ended, up to which ages count; not a moment later, in which nothing would wait.
        let end_ns = context.span_ns.map_or_else(now_ns, |(_, end_ns)| end_ns);
        let span_ns = (self.now.from_ns, end_ns.max(self.now.from_ns));
        let account = account(context, &self.before, self.lost, &self.marks, span_ns, most_bytes);
        let path = self.now.path.clone();
        end(self.now, account, most_bytes).map_err(|error| failure(&path, &error))
    }

    /// Bytes that all files may occupy: as many as shall be kept, and as the disk has for them.
    fn budget(&self) -> u64 {
        let asked = match self.plan.keep {
            None => return u64::MAX,
            Some(Keep::Bytes(most)) => most,
            Some(Keep::Files(_)) => u64::MAX,
        };
        asked.min(self.disk_has())
    }

    /// Bytes that the disk has for all files, with some to spare.
    fn disk_has(&self) -> u64 {
        let Ok(disk) = rustix::fs::statvfs(names::folder(&self.plan.write)) else { return u64::MAX };
        let bytes = |blocks: u64| disk.f_frsize.saturating_mul(blocks);
        let own = sum(&self.older()).saturating_add(size(&self.now.path));
        let reserve = RESERVE_BYTES.min(bytes(disk.f_blocks) / 4);
        own.saturating_add(bytes(disk.f_bavail)).saturating_sub(reserve)
    }

    /// Bytes that the present file may have. Half of what is kept is always of the files before it.
    fn limit(&self) -> u64 {
        let asked = match self.plan.rotate {
            Some(Rotate::Bytes(most)) => most,
            _ => u64::MAX,
        };
        asked.min((self.budget() / 2).max(Rotate::LEAST_BYTES))
    }

    /// Bytes that the present file may have in front of its account.
    fn room_for_events(&self, context: &Context) -> Result<u64, Failure> {
        let most_bytes = self.limit();
        if most_bytes == u64::MAX {
            return Ok(most_bytes);
        }
        let account = account(context, &self.before, self.lost, &self.marks, (self.now.from_ns, i64::MAX), most_bytes);
        let end_bytes = self.now.writer.end_bytes(&account).map_err(|error| self.now.failure(&error))?;
        Ok(most_bytes.saturating_sub(end_bytes + GROWTH_BYTES))
    }

    /// Removes the oldest files while the disk is nearly full, as long as there are any that may go.
    fn make_room(&self) {
        if self.plan.keep.is_none() {
            return;
        }
        let is_short = || sum(&self.older()) > self.disk_has().saturating_sub(self.limit());
        while is_short() && self.remove(self.older().into_iter().take(1)) == 1 {
            say!("latscope: {}: The disk is full: the oldest file was removed.", self.now.path.display());
        }
    }

    fn rotate(&mut self, context: &Context) -> Result<(), Failure> {
        let most_bytes = self.limit();
        let mut files = self.older();
        files.push((self.now.path.clone(), most_bytes));
        self.remove_surplus(files, 1);
        let next = self.next(context)?;
        let file = std::mem::replace(&mut self.now, next);
        let lost = std::mem::take(&mut self.lost);
        let account = account(context, &self.before, lost, &self.marks, (file.from_ns, now_ns()), most_bytes);
        self.past.push(Past { file, account, most_bytes });
        self.before = Before::now(context);
        Ok(())
    }

    /// Starts the file after the present one. The names sort by time, and no two are the same.
    fn next(&self, context: &Context) -> Result<Open, Failure> {
        let start = || {
            let from_ns = now_ns().max(self.now.from_ns + 1_000_000);
            let mut next = open(self.plan, self.fields, context, &self.marks, from_ns)?;
            next.appear().map(|()| next)
        };
        // Others may take the room that a removal made.
        let make_room = || {
            let surplus = usize::from(names::is_full(&self.plan.write));
            self.remove(self.older().into_iter().take(surplus));
        };
        if self.plan.keep.is_some() { names::insist(start, make_room) } else { start() }
    }

    /// Goes on with a new file when the disk is full, after the oldest was removed: what a writer could not write whole
    /// cannot be gone on with. These events are lost.
    fn start_over(&mut self, context: &Context, lost: u64) -> Result<(), Failure> {
        let (broken, whole_bytes) = (self.now.path.clone(), self.now.writer.stored_bytes());
        let has_events = self.now.writer.stored_events() > 0;
        let mut removed = self.remove(self.older().into_iter().take(1));
        // Its space has to be free before the next file is opened.
        shorten(&broken, if removed > 0 { whole_bytes } else { 0 });
        if removed == 0 && self.remove([(broken.clone(), 0)]) > 0 && has_events {
            removed = 1;
        }
        let oldest = if removed > 0 { ", the oldest file was removed" } else { "" };
        let (path, lost_events) = (broken.display(), format_count(lost));
        say!("latscope: {path}: The disk is full: {lost_events} events are lost{oldest}.");
        let next = self.next(context)?;
        drop(std::mem::replace(&mut self.now, next));
        shorten(&broken, whole_bytes); // what its writer still had
        self.before = Before::now(context);
        self.lost += lost;
        Ok(())
    }

    /// The files of this name with their sizes, the oldest first, those of earlier runs among them; without the present one.
    fn older(&self) -> Vec<(PathBuf, u64)> {
        names::older(&self.plan.write, &self.now.path)
    }

    /// Removes the oldest of these until so many more files, the first as long as it may become, are within what shall be
    /// kept.
    fn remove_surplus(&self, files: Vec<(PathBuf, u64)>, more: usize) {
        let surplus = match self.plan.keep {
            None => 0,
            Some(Keep::Files(most)) => (files.len() + more).saturating_sub(most),
            Some(Keep::Bytes(most)) => {
                let mut room = most.saturating_sub(self.limit());
                let kept = files.iter().rev().take_while(|(_, bytes)| {
                    let fits = *bytes <= room;
                    room = room.saturating_sub(*bytes);
                    fits
                });
                files.len() - kept.count()
            }
        };
        self.remove(files.into_iter().take(surplus));
    }

    /// Removes these files if any may be removed; how many were.
    fn remove(&self, files: impl IntoIterator<Item = (PathBuf, u64)>) -> usize {
        if self.plan.keep.is_some() { names::remove(files) } else { 0 }
    }
}

impl Open {
    /// Gives it its name.
    fn appear(&mut self) -> Result<(), Failure> {
        self.writer.writer_mut().appear().map_err(|error| self.failure(&error))
    }

    fn push(&mut self, batch: &Batch, mask: Option<&Mask>, written: usize, most_bytes: u64) -> io::Result<usize> {
        if batch.is_empty() {
            return self.writer.flush_if_due().map(|()| 0);
        }
        let taken = self.writer.write_within(batch, mask, written, most_bytes)?;
        self.events += taken as u64;
        Ok(taken)
    }

    fn age_ns(&self) -> i64 {
        now_ns() - self.from_ns
    }

    fn failure(&self, error: &io::Error) -> Failure {
        failure(&self.path, error)
    }
}

/// Starts a file, which has no name yet.
fn open(
    plan: &Recording,
    fields: FieldSet,
    context: &Context,
    marks: &BTreeMap<String, String>,
    from_ns: i64,
) -> Result<Open, Failure> {
    let path = match plan.rotate {
        None => plan.write.clone(),
        Some(_) => names::rotated(&plan.write, from_ns),
    };
    let out = output::open(Some(&path))?;
    let start = start(context, marks, from_ns);
    let writer = Trace::create(&path, out, fields, &start).map_err(|error| failure(&path, &error))?;
    Ok(Open { path, writer, notes: Notes::default(), from_ns, events: 0 })
}

/// Ends a file with its account, which names as much of what waited as there is room for.
fn end(done: Open, mut account: Context, most_bytes: u64) -> io::Result<()> {
    let left_bytes = most_bytes.saturating_sub(done.writer.stored_bytes());
    while !account.unfinished.is_empty() && done.writer.end_bytes(&account)? > left_bytes {
        account.unfinished.truncate(account.unfinished.len() / 2);
    }
    let size = done.writer.finish(&account).and_then(Output::finish)?;
    let span_ns = account.span_ns.map_or(0, |(from_ns, to_ns)| to_ns.abs_diff(from_ns));
    let (events, span) = (notes::plural(done.events, "event"), format_duration(span_ns));
    say!("latscope: {}: {events} in {span}, {}", done.path.display(), format_size(size));
    let notes = WORDING.lines(&account).into_iter().map(|note| note.text);
    notes.chain(notes::detail(&account)).for_each(|note| say!("latscope: {note}"));
    Ok(())
}
