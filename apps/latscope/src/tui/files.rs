//! Files as a source: read whole for the map, and read again with a narrower filter for a selection.

use super::live::lock;
use super::{Fed, Message};
use crate::Failure;
use crate::plan::{Folding, Reading};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_pipeline::{Control, Notice, Observer, Origin, Pipeline, too_large};
use latscope_series::{HistogramSeries, SeriesBuilder, Weight};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Intervals that a trace is divided into at least a fifth of: so far can be zoomed in.
const INTERVALS: u32 = 2000;
/// How often a picture of what was read so far is sent.
const SNAPSHOT: Duration = Duration::from_millis(400);

/// A piece of work in a thread of its own, dropped without a word when a later one of its kind was started.
#[derive(Clone)]
pub struct Task {
    pub sender: Sender<Message>,
    newest: Arc<AtomicU64>,
    number: u64,
    cancelled: Arc<AtomicBool>,
}

impl Task {
    /// The first task of its kind.
    pub fn new(sender: Sender<Message>) -> Task {
        Task { sender, newest: Arc::default(), number: 0, cancelled: Arc::default() }
    }

    /// Starts a task; those before it end.
    pub fn next(&mut self) -> Task {
        self.number = self.newest.fetch_add(1, Ordering::SeqCst) + 1;
        std::mem::take(&mut self.cancelled).store(true, Ordering::SeqCst);
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

    /// Opens a reading that ends when its task is cancelled. Its notes were printed before the screen opened.
    pub fn open(&self, reading: Reading) -> Result<Pipeline, Failure> {
        self.watched(reading, Arc::new(()))
    }

    fn watched(&self, reading: Reading, observer: Arc<dyn Observer>) -> Result<Pipeline, Failure> {
        Ok(Pipeline::open(reading, Control::new(Arc::clone(&self.cancelled), observer))?)
    }

    /// What was read, if it is wanted still: else it is a part.
    pub fn wanted<T>(&self, read: T) -> Result<T, Failure> {
        if self.is_wanted() { Ok(read) } else { Err(Failure::Closed) }
    }
}

/// How much of the files was read, percent.
#[derive(Default)]
struct Percent(AtomicU8);

impl Observer for Percent {
    fn notice(&self, _notice: &Notice) {}

    fn progress(&self, read_bytes: u64, size_bytes: u64) {
        self.0.store((100 * read_bytes / size_bytes.max(1)).min(100) as u8, Ordering::Relaxed);
    }
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
    let percent = Arc::new(Percent::default());
    let pipeline = task.watched(reading.clone(), Arc::clone(&percent) as Arc<dyn Observer>)?;
    // Stored histograms count; only some of them know bytes.
    let counts = Folding { weight: Weight::Count, ..folding.clone() };
    if pipeline.origin(&counts)? == Origin::Stored {
        let (series, contexts) = pipeline.series_to_plot(&counts, INTERVALS)?;
        pipeline.refuse_whole_jobs(&series)?;
        return task.wanted((series, Context::merged(&contexts)));
    }
    let interval = folding.interval_or(INTERVALS);
    let new = || {
        SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval).on_grid(folding.precision)
    };
    let builders = AtomicUsize::new(0);
    let sent = Mutex::new(Instant::now());
    // Where several files are read at a time, pictures of the first reader's are sent.
    let new_numbered = || (new(), builders.fetch_add(1, Ordering::SeqCst) == 0);
    let add = |(builder, is_first): &mut (SeriesBuilder, bool),
               starts: Option<usize>,
               context: &Context,
               batch: &Batch,
               mask: Option<&Mask>| {
        if let Some(number) = starts {
            builder.start_trace_number(number as u32);
        }
        builder.add(batch, mask);
        if builder.is_full() {
            return ControlFlow::Break(too_large().into());
        }
        let mut sent = lock(&sent);
        if *is_first && sent.elapsed() >= SNAPSHOT {
            let read = Some(Some(percent.0.load(Ordering::Relaxed)).filter(|&percent| percent > 0));
            let fed = Fed::Series { series: builder.snapshot(), context: context.clone(), reading: read };
            let _ = task.sender.send(Message::Fed(task.number(), Box::new(fed)));
            *sent = Instant::now();
        }
        ControlFlow::<Failure>::Continue(())
    };
    let merge = |(builder, _): &mut (SeriesBuilder, bool), (other, _)| builder.merge(other);
    let ((builder, _), contexts) = pipeline.fold(new().fields(), &new_numbered, add, merge)?;
    task.wanted((builder.finish(), Context::merged(&contexts)))
}

/// Which of these fields the first events of the files have values in.
pub fn present(reading: &Reading, asked: &[Field]) -> Vec<Field> {
    let pipeline = Pipeline::open(reading.clone(), Control::default());
    // Files that cannot be read are reported where their events are asked for.
    let present = pipeline.map_or(FieldSet::default(), |pipeline| pipeline.present(asked.iter().copied().collect()));
    asked.iter().copied().filter(|&field| present.contains(field)).collect()
}

/// Reads all files as long as the task is wanted; `Err(Failure::Closed)` when it is not any more.
pub fn each_batch(
    task: &Task,
    reading: Reading,
    fields: FieldSet,
    mut take: impl FnMut(&Context, &Batch, Option<&Mask>) -> ControlFlow<Failure>,
) -> Result<Vec<Context>, Failure> {
    let contexts = task.open(reading)?.each_batch(fields, |context, batch, mask, _| take(context, batch, mask))?;
    task.wanted(contexts)
}

/// Writes the events of a selection as a trace.
pub fn save(task: Task, reading: Reading, path: &Path) {
    let notice = match written(&task, &reading, path) {
        Ok(count) => format!("{} events saved in {}", latscope_event::format_count(count), path.display()),
        Err(failure) => failure.to_string(),
    };
    let _ = task.sender.send(Message::Notice(notice));
}

fn written(task: &Task, reading: &Reading, path: &Path) -> Result<u64, Failure> {
    let fail = |error: std::io::Error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    // Opening it would empty a file that is being read; a file that exists is somebody's.
    let mut file = Some(File::create_new(path).map_err(fail)?);
    let mut writer: Option<(LatWriter<File>, FieldSet)> = None;
    let mut count = 0;
    let contexts = each_batch(task, reading.clone(), FieldSet::EVERY, |context, batch, mask| {
        let result = (|| {
            if let Some(file) = file.take() {
                writer = Some((LatWriter::create(file, batch.fields(), context).map_err(fail)?, batch.fields()));
            }
            let Some((writer, fields)) = &mut writer else { return Ok(()) };
            if fields.union(batch.fields()) != *fields {
                return Err(Failure::Usage(
                    "The files have different columns and cannot be written to one trace.".into(),
                ));
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
