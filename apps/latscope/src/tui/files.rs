//! Files as a source: read whole for the map, and read again with a narrower filter for a selection.

use super::digest::Digest;
use super::{Fed, Message};
use crate::Failure;
use crate::plan::{Folding, Reading, filter_fields};
use crate::run::read::{self, Pass};
use crate::run::start::Starts;
use crate::run::stored;
use latscope_capture_file::{LatWriter, Progress, ReadOptions};
use latscope_event::{Batch, Column, Context, Field, FieldSet, MISSING_CODE, Mask};
use latscope_series::{HistogramSeries, SeriesBuilder, Weight};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Intervals that a trace is divided into at least a fifth of: so far can be zoomed in.
const INTERVALS: u32 = 2000;
/// How often a picture of what was read so far is sent.
const SNAPSHOT: Duration = Duration::from_millis(400);

/// A piece of work in a thread of its own, dropped without a word when a later one of its kind was begun.
#[derive(Clone)]
pub struct Task {
    pub sender: Sender<Message>,
    newest: Arc<AtomicU64>,
    number: u64,
}

impl Task {
    /// The first task of its kind.
    pub fn new(sender: Sender<Message>) -> Task {
        Task { sender, newest: Arc::default(), number: 0 }
    }

    /// Begins a task; those before it end.
    pub fn next(&mut self) -> Task {
        self.number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        self.clone()
    }

    /// Ends what is going on.
    pub fn stop(&mut self) {
        self.next();
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn is_wanted(&self) -> bool {
        self.newest.load(Ordering::SeqCst) == self.number
    }
}

/// Reads all files as long as the task is wanted; `Err(Failure::Closed)` when it is not any more.
fn each_batch(
    task: &Task,
    reading: &Reading,
    fields: FieldSet,
    progress: &Progress,
    mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<Vec<Context>, Failure> {
    let starts = Starts::of(reading)?;
    let mut contexts = Vec::new();
    for (at, file) in reading.files.iter().enumerate() {
        let mut pass = Pass::new(reading, None);
        let options = ReadOptions { progress: Some(progress), ..starts.options(fields.union(filter_fields(reading))) };
        let mut begin = true;
        let context = latscope_capture_file::read(file, &options, &mut |context, batch| {
            if !task.is_wanted() {
                return ControlFlow::Break(());
            }
            starts.moved(at, context, batch, |context, batch| {
                pass.batch(context, batch, |batch, mask| take(context, batch, mask, std::mem::take(&mut begin)))
            })
        });
        if let Some(failure) = pass.failure.take() {
            return Err(failure);
        }
        if !task.is_wanted() {
            return Err(Failure::Closed);
        }
        contexts.push(starts.context(at, context.map_err(|error| Failure::Input(error.to_string()))?));
    }
    Ok(contexts)
}

/// Reads everything into a series and sends it, and every now and then what there is so far.
pub fn fold(task: Task, reading: Arc<Reading>, folding: Folding) {
    let sent = match whole(&task, &reading, &folding) {
        Ok((series, context)) => Fed::Series { series, context, reading: None },
        Err(Failure::Closed) => return,
        Err(failure) => Fed::Failed(failure),
    };
    let _ = task.sender.send(Message::Fed(task.number(), Box::new(sent)));
}

fn whole(task: &Task, reading: &Reading, folding: &Folding) -> Result<(HistogramSeries, Context), Failure> {
    // Stored histograms count; only some of them know bytes.
    let counts = Folding { weight: Weight::Count, ..folding.clone() };
    if let Some((series, contexts)) = stored::read(reading, &counts, INTERVALS)? {
        stored::refuse_runs(reading, &series)?;
        return Ok((series, Context::merged(&contexts)));
    }
    let interval = folding.interval_or(INTERVALS);
    let mut builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval);
    let progress = Progress::default();
    let mut sent = Instant::now();
    let fields = builder.fields();
    let contexts = each_batch(task, reading, fields, &progress, |context, batch, mask, begin| {
        if begin {
            builder.begin_trace();
        }
        builder.add(batch, mask);
        if builder.is_full() {
            return ControlFlow::Break(read::too_much());
        }
        if sent.elapsed() >= SNAPSHOT {
            let (done, total) = (progress.done.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed));
            let reading = Some((total > 0).then(|| (100 * done / total.max(1)).min(100) as u8));
            let fed = Fed::Series { series: builder.snapshot(), context: context.clone(), reading };
            let _ = task.sender.send(Message::Fed(task.number(), Box::new(fed)));
            sent = Instant::now();
        }
        ControlFlow::Continue(())
    })?;
    Ok((builder.finish(), Context::merged(&contexts)))
}

/// Which of these fields the first events of the files have values in.
pub fn told(reading: &Reading, asked: &[Field]) -> Vec<Field> {
    let mut told = FieldSet::default();
    for file in &reading.files {
        let options = read::options(reading, asked.iter().copied().collect());
        // A file that cannot be read is reported where its events are asked for.
        let _ = latscope_capture_file::read(file, &options, &mut |_, batch| {
            let has = |field: &Field| match batch.column(*field) {
                Some(Column::Text(codes)) => codes.iter().any(|&code| code != MISSING_CODE),
                Some(_) => true,
                None => false,
            };
            told = asked.iter().copied().filter(has).fold(told, |set, field| set.with(&[field]));
            ControlFlow::Break(())
        });
    }
    asked.iter().copied().filter(|&field| told.contains(field)).collect()
}

/// Gathers what the events of a selection, which the filter of `reading` is of, have in common.
pub fn dig(task: Task, reading: Reading) {
    let mut digest = Digest::default();
    let done = each_batch(&task, &reading, Digest::fields(), &Progress::default(), |_, batch, mask, _| {
        digest.add(batch, mask);
        ControlFlow::Continue(())
    });
    let dug = match done {
        Ok(_) => Ok(digest),
        Err(Failure::Closed) => return,
        Err(failure) => Err(failure.to_string()),
    };
    let _ = task.sender.send(Message::Dug(task.number(), dug));
}

/// Writes the events of a selection as a trace.
pub fn save(task: Task, reading: Reading, path: &Path) {
    let said = match written(&task, &reading, path) {
        Ok(count) => format!("{} events saved in {}", latscope_event::format_count(count), path.display()),
        Err(failure) => failure.to_string(),
    };
    let _ = task.sender.send(Message::Said(said));
}

fn written(task: &Task, reading: &Reading, path: &Path) -> Result<u64, Failure> {
    let fail = |error: std::io::Error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    // Opening it would empty a file that is being read; a file that exists is somebody's.
    let mut file = Some(File::create_new(path).map_err(fail)?);
    let mut writer: Option<(LatWriter<File>, FieldSet)> = None;
    let mut count = 0;
    let contexts = each_batch(task, reading, FieldSet::EVERY, &Progress::default(), |context, batch, mask, _| {
        let result = (|| {
            if let Some(file) = file.take() {
                writer = Some((LatWriter::create(file, batch.fields(), context).map_err(fail)?, batch.fields()));
            }
            let Some((writer, fields)) = &mut writer else { return Ok(()) };
            if fields.union(batch.fields()) != *fields {
                return Err(Failure::Usage("The files have different columns and do not fit into one trace.".into()));
            }
            count += mask.map_or(batch.len(), Mask::count) as u64;
            writer.write(batch, mask).map_err(fail)
        })();
        result.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    })?;
    let mut context = Context::merged(&contexts);
    if let Some(filter) = &reading.filter {
        context.properties.insert("filter".into(), filter.to_string());
    }
    if let Some((writer, _)) = writer {
        writer.finish(&context).map_err(fail)?;
    }
    Ok(count)
}
