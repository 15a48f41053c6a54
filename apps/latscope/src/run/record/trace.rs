//! What a recording writes: our own trace, or a capture for sysdig.

use crate::Failure;
use crate::output::Output;
use latscope_capture_file::{LatWriter, ScapWriter};
use latscope_event::{Anomaly, Batch, Context, FieldSet, Mask, Note, Tally, Unfinished};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// For so many bytes that a file may have, one request or call without a completion is named in its account.
const UNFINISHED_PART: u64 = 4 << 10;

/// A trace that is written.
pub enum Trace {
    Lat(Box<LatWriter<Output>>),
    Scap(Box<ScapWriter<Output>>),
}

impl Trace {
    /// Starts a trace in the format that the name of its file ends in.
    pub fn create(path: &Path, out: Output, fields: FieldSet, context: &Context) -> io::Result<Trace> {
        Ok(match path.extension().is_some_and(|ending| ending == "scap") {
            true => Trace::Scap(Box::new(ScapWriter::create(out, context)?)),
            false => Trace::Lat(Box::new(LatWriter::create(out, fields, context)?)),
        })
    }

    /// What it is written to.
    pub fn writer_mut(&mut self) -> &mut Output {
        match self {
            Trace::Lat(writer) => writer.writer_mut(),
            Trace::Scap(writer) => writer.writer_mut(),
        }
    }

    /// Bytes so far.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Trace::Lat(writer) => writer.stored_bytes(),
            Trace::Scap(writer) => writer.written_bytes(),
        }
    }

    /// The same with the events that are still gathered, at most.
    fn most_bytes(&self) -> u64 {
        match self {
            Trace::Lat(writer) => writer.most_bytes(),
            Trace::Scap(writer) => writer.written_bytes(),
        }
    }

    /// Events that left for the disk.
    pub fn stored_events(&self) -> u64 {
        match self {
            Trace::Lat(writer) => writer.stored_events(),
            Trace::Scap(writer) => writer.written_events(),
        }
    }

    /// Bytes that the end of the trace takes with this context.
    pub fn end_bytes(&self, context: &Context) -> io::Result<u64> {
        match self {
            Trace::Lat(writer) => writer.end_bytes(context),
            Trace::Scap(_) => Ok(0),
        }
    }

    /// Writes what is gathered, with the account so far.
    pub fn note(&mut self, account: &Context) -> io::Result<()> {
        match self {
            Trace::Lat(writer) => writer.note(account),
            Trace::Scap(_) => Ok(()),
        }
    }

    /// Hands on what has waited long enough.
    pub fn flush_if_due(&mut self) -> io::Result<()> {
        match self {
            Trace::Lat(writer) => writer.flush_if_due(),
            Trace::Scap(writer) => writer.flush(),
        }
    }

    /// Appends events without the first `skipped`, as many as there is room for; a capture for sysdig takes all of them.
    pub fn write_within(
        &mut self,
        batch: &Batch,
        mask: Option<&Mask>,
        skipped: usize,
        most_bytes: u64,
    ) -> io::Result<usize> {
        match self {
            Trace::Lat(writer) => writer.write_within(batch, mask, skipped, most_bytes),
            Trace::Scap(writer) => {
                writer.write(batch, mask)?;
                Ok(mask.map_or(batch.len(), Mask::count).saturating_sub(skipped))
            }
        }
    }

    /// Ends the trace.
    pub fn finish(self, context: &Context) -> io::Result<Output> {
        match self {
            Trace::Lat(writer) => writer.finish(context),
            Trace::Scap(writer) => writer.finish(context),
        }
    }
}

/// When a file has its account so far.
#[derive(Default)]
pub struct Notes {
    left: Option<Instant>,
    pause: Duration,
    /// What waited, when it started and what it was.
    waits: Vec<(i64, String)>,
}

impl Notes {
    /// So long something waits before it is noted; what is younger is as little known as the events of the last second.
    const PATIENCE_NS: u64 = 1_000_000_000;
    /// As long as nothing waits.
    const PAUSE: Duration = Duration::from_secs(10);
    /// An account of so many bytes is left again after a second, for as long as the same waits.
    const SECOND_BYTES: u64 = 4 << 10;

    /// Leaves an account in the trace if others wait now than before, or the last one is old, and there is room for it.
    pub fn leave(&mut self, mut account: Context, writer: &mut Trace, room: u64) -> io::Result<()> {
        account.unfinished.retain(|request| request.at_least_ns >= Notes::PATIENCE_NS);
        account.tally.add(Anomaly::Unfinished, account.unfinished.len() as u64);
        account.sort_unfinished();
        let waits: Vec<_> = account.unfinished.iter().map(|request| (request.start_ns, request.what.clone())).collect();
        let is_due = self.waits != waits || self.left.is_none_or(|left| left.elapsed() >= self.pause);
        if !is_due || writer.most_bytes() + writer.end_bytes(&account)? > room {
            return Ok(());
        }
        let before = writer.stored_bytes();
        writer.note(&account)?;
        let seconds = (writer.stored_bytes() - before) / Notes::SECOND_BYTES;
        self.pause = if waits.is_empty() { Notes::PAUSE } else { Duration::from_secs(seconds.max(1)) };
        (self.left, self.waits) = (Some(Instant::now()), waits);
        Ok(())
    }
}

/// Says that a file cannot be written.
pub fn failure(path: &Path, error: &io::Error) -> Failure {
    match Failure::output(error) {
        Failure::Input(_) => Failure::Input(format!("{}: Cannot be written: {error}.", path.display())),
        other => other,
    }
}

/// Leaves so many bytes of a file that could not be written: a part of a message behind them is of no use.
pub fn shorten(path: &Path, whole_bytes: u64) {
    if let Ok(file) = File::options().write(true).open(path) {
        let _ = file.set_len(whole_bytes);
    }
}

/// What was counted before a file was started.
#[derive(Default)]
pub struct Before {
    tally: Tally,
    notes: Vec<Note>,
    properties: BTreeMap<String, String>,
}

impl Before {
    /// What is counted now.
    pub fn now(context: &Context) -> Before {
        let Context { tally, notes, properties, .. } = context.clone();
        Before { tally, notes, properties }
    }

    /// Leaves of an account what was counted since.
    fn subtract_from(&self, account: &mut Context) {
        account.tally = account.tally.since(&self.tally);
        for note in &mut account.notes {
            let earlier = self.notes.iter().find(|earlier| earlier.key() == note.key());
            *note = earlier.map_or_else(|| note.clone(), |earlier| note.clone().since(earlier));
        }
        // Counts of the sampler.
        for (key, value) in account.properties.iter_mut().filter(|(key, _)| key.starts_with("stacks.")) {
            let earlier = self.properties.get(key).and_then(|earlier| earlier.parse::<u64>().ok());
            if let (Some(earlier), Ok(count)) = (earlier, value.parse::<u64>()) {
                *value = count.saturating_sub(earlier).to_string();
            }
        }
    }
}

/// The account of a file's own time.
pub fn account(
    context: &Context,
    before: &Before,
    lost: u64,
    marks: &BTreeMap<String, String>,
    span_ns: (i64, i64),
    most_bytes: u64,
) -> Context {
    let mut account = Context { span_ns: Some(span_ns), ..own(context, marks) };
    before.subtract_from(&mut account);
    account.tally.add(Anomaly::LostRecords, lost);
    // The longest come first. They must leave room for events.
    let most = usize::try_from(most_bytes / UNFINISHED_PART).unwrap_or(usize::MAX);
    account.unfinished.truncate(most);
    account
}

/// What waits, as it was at this earlier moment, nanoseconds since 1970.
pub fn until(request: &Unfinished, moment_ns: i64) -> Unfinished {
    let age_ns = u64::try_from(moment_ns.saturating_sub(request.start_ns)).unwrap_or(0);
    Unfinished { at_least_ns: request.at_least_ns.min(age_ns), ..request.clone() }
}

/// The context with which a file starts at this moment: nothing is counted yet.
pub fn start(context: &Context, marks: &BTreeMap<String, String>, from_ns: i64) -> Context {
    let mut start = Context { tally: Tally::default(), span_ns: Some((from_ns, from_ns)), ..own(context, marks) };
    // A note that is about counts changes by itself.
    start.notes.retain(|note| note.clone().since(note) == *note);
    start
}

/// The context of a file.
fn own(context: &Context, marks: &BTreeMap<String, String>) -> Context {
    let mut own = context.clone();
    own.properties.extend(marks.clone());
    own
}
