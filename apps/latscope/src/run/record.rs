//! `latscope record`.

use super::live::{self, Until};
use super::output::{self, Output};
use super::read::Pass;
use crate::Failure;
use crate::plan::{Live, Reading, Recording};
use latscope_capture_bpf::{EventCapture, fills};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Context, FieldSet, Mask, Tally, format_count, format_duration, format_size, format_wall};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

pub fn run(reading: &Reading, plan: &Recording) -> Result<(), Failure> {
    let Some(live) = &reading.live else { return Err(Failure::Usage("record captures live.".into())) };
    let mut capture = EventCapture::start(&live::options(reading, live, fills(live.source))?)?;
    let mut files = Files::open(plan, live, reading, capture.context())?;
    let until = Until::new(live);
    let mut command = Running::start(&plan.command)?;
    let mut pass = Pass::new(reading, None);
    let mut sink = |context: &Context, batch: &Batch| {
        pass.batch(context, batch, |batch, mask| match files.write(context, batch, mask) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(failure),
        })
    };
    let nothing = Batch::new(FieldSet::ALWAYS);
    let mut open = ControlFlow::Continue(());
    while open.is_continue() && !until.is_over() && !command.has_ended()? {
        open = capture.poll(until.turn(live::TURN), &mut sink)?;
        if open.is_continue() {
            capture.refresh()?;
            open = sink(capture.context(), &nothing);
        }
    }
    let status = command.end()?;
    let mut last = |context: &Context, batch: &Batch| if open.is_continue() { sink(context, batch) } else { open };
    let context = capture.finish(&mut last)?;
    if let Some(failure) = pass.failure.take() {
        return Err(failure);
    }
    files.finish(&context)?;
    match status.map(exit_code) {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::Command(code)),
    }
}

/// The command that is recorded.
struct Running(Option<Child>);

impl Running {
    fn start(command: &[String]) -> Result<Running, Failure> {
        let [program, arguments @ ..] = command else { return Ok(Running(None)) };
        let child = Command::new(program).args(arguments).spawn();
        child
            .map(|child| Running(Some(child)))
            .map_err(|error| Failure::Input(format!("{program} cannot be run: {error}.")))
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        match &mut self.0 {
            Some(child) => child.try_wait().map(|status| status.is_some()).map_err(|error| Failure::output(&error)),
            None => Ok(false),
        }
    }

    /// How it ended. One that still runs when recording is over is left to itself, as `perf record` does.
    fn end(mut self) -> Result<Option<ExitStatus>, Failure> {
        match &mut self.0 {
            Some(child) => child.try_wait().map_err(|error| Failure::output(&error)),
            None => Ok(None),
        }
    }
}

/// As shells report it: 128 and the number of the signal that killed it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return (128 + signal) as u8;
    }
    status.code().map_or(1, |code| code as u8)
}

/// The trace that is written: one file, or one after the other.
struct Files<'a> {
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
    fn open<'a>(plan: &'a Recording, live: &Live, reading: &Reading, context: &Context) -> Result<Files<'a>, Failure> {
        let filter = reading.filter.as_ref().map(ToString::to_string);
        let fields = fills(live.source);
        let now = open(plan, fields, context, &filter)?;
        Ok(Files { plan, filter, fields, now, before: Tally::default() })
    }

    fn write(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        let failed = |path: &Path, error| match Failure::output(&error) {
            Failure::Input(_) => Failure::Input(format!("{}: Cannot be written: {error}.", path.display())),
            other => other,
        };
        if self.plan.rotate_ns.is_some_and(|ns| live::now_ns() - self.now.from_ns >= ns as i64) {
            let next = open(self.plan, self.fields, context, &self.filter)?;
            let done = std::mem::replace(&mut self.now, next);
            end(done, context, &self.before, &self.filter)?;
            self.before = context.tally.clone();
            self.remove_oldest();
        }
        if batch.is_empty() {
            return self.now.writer.flush_if_due().map_err(|error| failed(&self.now.path, error));
        }
        self.now.events += mask.map_or(batch.len(), Mask::count) as u64;
        self.now.writer.write(batch, mask).map_err(|error| failed(&self.now.path, error))
    }

    fn finish(self, context: &Context) -> Result<(), Failure> {
        end(self.now, context, &self.before, &self.filter)
    }

    /// Leaves the newest of the files of this name, those of earlier runs among them.
    fn remove_oldest(&self) {
        let Some(keep) = self.plan.keep else { return };
        let (folder, stem) = place(&self.plan.write);
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_string);
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| name(path).is_some_and(|name| is_stamped(&name, &stem)))
            .collect();
        // Their names sort by time.
        files.sort();
        let surplus = files.len().saturating_sub(keep);
        for path in &files[..surplus] {
            if let Err(error) = std::fs::remove_file(path) {
                eprintln!("latscope: {}: Cannot be removed: {error}.", path.display());
            }
        }
    }
}

/// Begins a file.
fn open(plan: &Recording, fields: FieldSet, context: &Context, filter: &Option<String>) -> Result<Open, Failure> {
    let from_ns = live::now_ns();
    let path = match plan.rotate_ns {
        None => plan.write.clone(),
        Some(_) => {
            let (folder, stem) = place(&plan.write);
            folder.join(format!("{stem}.{}.lat", stamp(from_ns)))
        }
    };
    let failed = |error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    let out = output::open(Some(&path))?.as_it_comes();
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
    eprintln!("latscope: {}: {events} events in {span}, {}", done.path.display(), format_size(size));
    account.notes().iter().for_each(|note| eprintln!("latscope: {note}"));
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
