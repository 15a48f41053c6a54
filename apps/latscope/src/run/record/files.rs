//! The files of a recording: one, or one after the other.

use crate::Failure;
use crate::plan::{Keep, Reading, Recording, Rotate};
use crate::run::live;
use crate::run::output::{self, Output};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Context, FieldSet, Mask, Tally, format_count, format_duration, format_size, format_wall};
use std::io;
use std::path::{Path, PathBuf};

/// A flight recorder leaves so much of the disk free, or a quarter of a small one, rather than lose what comes.
const RESERVE_BYTES: u64 = 16 << 20;

/// Fails if the recording would replace a file and nobody allowed that.
pub fn refuse_existing(plan: &Recording) -> Result<(), Failure> {
    let replaces = plan.rotate.is_none() && !plan.force && plan.write.metadata().is_ok_and(|there| there.is_file());
    match replaces {
        false => Ok(()),
        true => Err(Failure::Usage(format!("{} exists; -f replaces it.", plan.write.display()))),
    }
}

/// The trace that is written: one file, or one after the other.
pub struct Files<'a> {
    plan: &'a Recording,
    filter: Option<String>,
    fields: FieldSet,
    now: Open,
    /// What was lost before the present file was begun.
    before: Tally,
}

struct Open {
    path: PathBuf,
    writer: LatWriter<Output>,
    from_ns: i64,
    events: u64,
}

impl Files<'_> {
    pub fn open<'a>(
        plan: &'a Recording,
        fields: FieldSet,
        reading: &Reading,
        context: &Context,
    ) -> Result<Files<'a>, Failure> {
        let filter = reading.filter.as_ref().map(ToString::to_string);
        let now = open(plan, fields, context, &filter)?;
        Ok(Files { plan, filter, fields, now, before: Tally::default() })
    }

    pub fn write(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.make_room();
        if self.is_full() {
            self.rotate(context)?;
        }
        match self.now.push(batch, mask) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.remove_oldest(1) => {
                // What a writer could not write whole cannot be gone on with.
                say!(
                    "latscope: {}: The disk is full: up to a second of events is lost, the oldest file was removed.",
                    self.now.path.display()
                );
                self.now = open(self.plan, self.fields, context, &self.filter)?;
                self.now.push(batch, mask).map_err(|error| self.now.failure(&error))
            }
            written => written.map_err(|error| self.now.failure(&error)),
        }
    }

    pub fn finish(self, context: &Context) -> Result<(), Failure> {
        end(self.now, context, &self.before, &self.filter)
    }

    /// Removes the oldest files while the disk is nearly full, as long as there are any that may go.
    fn make_room(&self) {
        let (folder, _) = place(&self.plan.write);
        let is_short = || {
            rustix::fs::statvfs(&folder).is_ok_and(|disk| {
                let reserve = RESERVE_BYTES.min(disk.f_frsize.saturating_mul(disk.f_blocks) / 4);
                disk.f_frsize.saturating_mul(disk.f_bavail) < reserve
            })
        };
        while self.plan.keep.is_some() && is_short() && self.remove_oldest(1) {
            say!("latscope: {}: The disk is full: the oldest file was removed.", self.now.path.display());
        }
    }

    /// Whether the present file has its length.
    fn is_full(&self) -> bool {
        let bytes = || self.now.path.metadata().map_or(0, |metadata| metadata.len());
        match (self.plan.rotate, self.plan.keep) {
            (Some(Rotate::Time(ns)), Some(Keep::Bytes(most))) => self.now.age_ns() >= ns as i64 || bytes() >= most / 2,
            (Some(Rotate::Time(ns)), _) => self.now.age_ns() >= ns as i64,
            (Some(Rotate::Bytes(most)), _) => bytes() >= most,
            (None, _) => false,
        }
    }

    fn rotate(&mut self, context: &Context) -> Result<(), Failure> {
        let next = open(self.plan, self.fields, context, &self.filter)?;
        let done = std::mem::replace(&mut self.now, next);
        end(done, context, &self.before, &self.filter)?;
        self.before = context.tally.clone();
        self.remove_surplus();
        Ok(())
    }

    /// The files of this name with their sizes, the oldest first, those of earlier runs among them; without the present one.
    fn older(&self) -> Vec<(PathBuf, u64)> {
        let (folder, stem) = place(&self.plan.write);
        let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_string);
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| name(path).is_some_and(|name| is_stamped(&name, &stem)))
            .filter(|path| path.file_name() != self.now.path.file_name())
            .collect();
        // Their names sort by time.
        files.sort();
        files
            .into_iter()
            .map(|path| (path.metadata().map_or(0, |metadata| metadata.len()), path))
            .map(|(bytes, path)| (path, bytes))
            .collect()
    }

    /// Removes files until no more are left than shall be kept, with the present one.
    fn remove_surplus(&self) {
        let older = self.older();
        let surplus = match self.plan.keep {
            None => 0,
            Some(Keep::Files(most)) => (older.len() + 1).saturating_sub(most),
            Some(Keep::Bytes(most)) => {
                // The present file may grow to half of it.
                let mut room = most - most / 2;
                let kept = older.iter().rev().take_while(|(_, bytes)| {
                    let fits = *bytes <= room;
                    room = room.saturating_sub(*bytes);
                    fits
                });
                older.len() - kept.count()
            }
        };
        self.remove_oldest(surplus);
    }

    /// Removes so many files, the oldest first; whether all of them could be.
    fn remove_oldest(&self, count: usize) -> bool {
        if self.plan.keep.is_none() {
            return false;
        }
        let mut removed = 0;
        for (path, _) in self.older().into_iter().take(count) {
            match std::fs::remove_file(&path) {
                Ok(()) => removed += 1,
                Err(error) => say!("latscope: {}: Cannot be removed: {error}.", path.display()),
            }
        }
        removed == count
    }
}

impl Open {
    fn push(&mut self, batch: &Batch, mask: Option<&Mask>) -> io::Result<()> {
        if batch.is_empty() {
            return self.writer.flush_if_due();
        }
        self.events += mask.map_or(batch.len(), Mask::count) as u64;
        self.writer.write(batch, mask)
    }

    fn age_ns(&self) -> i64 {
        live::now_ns() - self.from_ns
    }

    fn failure(&self, error: &io::Error) -> Failure {
        match Failure::output(error) {
            Failure::Input(_) => Failure::Input(format!("{}: Cannot be written: {error}.", self.path.display())),
            other => other,
        }
    }
}

/// Begins a file.
fn open(plan: &Recording, fields: FieldSet, context: &Context, filter: &Option<String>) -> Result<Open, Failure> {
    let from_ns = live::now_ns();
    let path = match plan.rotate {
        None => plan.write.clone(),
        Some(_) => {
            let (folder, stem) = place(&plan.write);
            folder.join(format!("{stem}.{}.lat", stamp(from_ns)))
        }
    };
    let failed = |error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    let out = output::open(Some(&path))?.growing();
    let start = Context { tally: Tally::default(), span_ns: None, ..own(context, filter) };
    let writer = LatWriter::create(out, fields, &start).map_err(failed)?;
    Ok(Open { path, writer, from_ns, events: 0 })
}

/// Ends a file with the account of its own time.
fn end(done: Open, context: &Context, before: &Tally, filter: &Option<String>) -> Result<(), Failure> {
    let to_ns = live::now_ns();
    let account =
        Context { tally: context.tally.since(before), span_ns: Some((done.from_ns, to_ns)), ..own(context, filter) };
    let written = done.writer.finish(&account).and_then(Output::finish);
    let size =
        written.map_err(|error| Failure::Input(format!("{}: Cannot be written: {error}.", done.path.display())))?;
    let (events, span) = (format_count(done.events), format_duration(to_ns.abs_diff(done.from_ns)));
    say!("latscope: {}: {events} events in {span}, {}", done.path.display(), format_size(size));
    account.notes().iter().chain(&account.details()).for_each(|note| say!("latscope: {note}"));
    Ok(())
}

/// The context of a file.
fn own(context: &Context, filter: &Option<String>) -> Context {
    let mut own = context.clone();
    if let Some(filter) = filter {
        own.properties.insert("filter".into(), filter.clone());
    }
    own
}

/// Folder and name without its ending.
fn place(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.to_path_buf(), path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
}

/// Local time in a form that sorts and is no trouble in a file name: 2026-11-21T07-00-00.250.
fn stamp(unix_ns: i64) -> String {
    format_wall(unix_ns, 3, true).replace(' ', "T").replace(':', "-")
}

/// Whether a name is that of a rotated file: `stem.2026-11-21T07-00-00.250.lat`.
fn is_stamped(name: &str, stem: &str) -> bool {
    let middle =
        name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_suffix(".lat"));
    middle.is_some_and(|middle| {
        middle.len() == "2026-11-21T07-00-00.250".len()
            && middle.bytes().zip("dddd-dd-ddTdd-dd-dd.ddd".bytes()).all(|(byte, form)| match form {
                b'd' => byte.is_ascii_digit(),
                form => byte == form,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rotated_files_are_ever_removed() {
        let name = format!("t.{}.lat", stamp(1_700_000_000_123_000_000));
        assert!(is_stamped(&name, "t"), "{name}");
        for other in ["t.lat", "t.2026.lat", "tt.2026-11-21T07-00-00.250.lat", "t.2026-11-21T07-00-00.25x.lat"] {
            assert!(!is_stamped(other, "t"), "{other}");
        }
    }
}
