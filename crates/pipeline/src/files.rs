//! Files: their batches, on one clock and filtered.

use crate::clocks::note_unrelated;
use crate::derived::{self, Gathered, Room};
use crate::intervals::flow;
use crate::named::Named;
use crate::starts::Starts;
use crate::unfinished::keep_latest;
use crate::{Control, Error, Notice, Pass, Pipeline, Reading, workers};
use latscope_capture_file::{Format, Progress, ReadOptions, SeriesReader, is_hub, is_over, is_pipe};
use latscope_event::{Batch, Clock, Column, Context, Field, FieldSet, MISSING_CODE, Mask};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// As many files are read at a time, at most: each costs the memory of a builder.
pub const MOST_READERS: usize = 8;

impl Pipeline {
    /// Hands on every batch, in the order of the files, with what the filter lets through (`None`: everything). The flag is set
    /// for the first batch of a file. Of a capture, an empty batch comes at least ten times a second. Returns the context of
    /// every file.
    ///
    /// # Errors
    /// What the caller breaks with; and when a file cannot be read.
    pub fn each_batch<E: From<Error>>(
        &self,
        fields: FieldSet,
        mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<E>,
    ) -> Result<Vec<Context>, E> {
        if self.reading.live.is_some() {
            return self.watch(fields, &[], take).map(|(context, _)| vec![context]);
        }
        let run = Run::new(self)?;
        let files = 0..self.reading.files.len();
        let contexts = files.map(|at| run.file(at, fields, true, &mut take)).collect::<Result<Vec<_>, _>>();
        run.end(contexts.as_deref().unwrap_or_default());
        let mut contexts = contexts?;
        note_unrelated(&mut contexts);
        keep_latest(&mut contexts);
        self.keep_passing(0.., &mut contexts);
        Ok(contexts)
    }

    /// Folds every batch into states, one for each of several threads that read files, and merges these in the end. `start` is
    /// called with the number of the file before its first batch. Returns the context of every file.
    ///
    /// # Errors
    /// What the caller breaks with; and when a file cannot be read: of several, the first.
    pub fn fold<S: Send, E: From<Error> + Send>(
        &self,
        fields: FieldSet,
        new: &(impl Fn() -> S + Sync),
        add: impl Fn(&mut S, Option<usize>, &Context, &Batch, Option<&Mask>) -> ControlFlow<E> + Sync,
        merge: impl Fn(&mut S, S),
    ) -> Result<(S, Vec<Context>), E> {
        let all: Vec<usize> = (0..self.reading.files.len()).collect();
        if self.reading.live.is_none() {
            return self.fold_files(&all, fields, new, add, merge);
        }
        let mut state = new();
        let contexts = self.each_batch(fields, |context, batch, mask, starts| {
            add(&mut state, starts.then_some(0), context, batch, mask)
        })?;
        Ok((state, contexts))
    }

    /// As [`Pipeline::fold`], of the files that have these numbers.
    pub(crate) fn fold_files<S: Send, E: From<Error> + Send>(
        &self,
        numbers: &[usize],
        fields: FieldSet,
        new: &(impl Fn() -> S + Sync),
        add: impl Fn(&mut S, Option<usize>, &Context, &Batch, Option<&Mask>) -> ControlFlow<E> + Sync,
        merge: impl Fn(&mut S, S),
    ) -> Result<(S, Vec<Context>), E> {
        let run = Run::new(self)?;
        let fold_file = |state: &mut S, at: usize, is_first: bool| {
            let number = numbers[at];
            run.file(number, fields, is_first, &mut |context, batch, mask, starts| {
                add(state, starts.then_some(number), context, batch, mask)
            })
        };
        let folded = workers::each_file(numbers.len(), MOST_READERS, new, fold_file, merge);
        run.end(folded.as_ref().map_or(&[], |(_, contexts)| contexts));
        let (state, mut contexts) = folded?;
        note_unrelated(&mut contexts);
        keep_latest(&mut contexts);
        self.keep_passing(numbers.iter().copied(), &mut contexts);
        Ok((state, contexts))
    }

    /// How files are read for these fields.
    pub(crate) fn options(&self, at: usize, fields: FieldSet) -> ReadOptions<'static> {
        let reading = &self.reading;
        ReadOptions {
            format: self.formats[at],
            all_syscalls: reading.all_syscalls,
            only_io: reading.only_io,
            all_of_spark: reading.all_of_spark,
            each_request_once: !fields.contains(Field::Device) && !fields.contains(Field::Dev),
            two_columns: reading.two_columns,
            omitted_every_ns: reading.omitted_every_ns,
            fio_columns: reading.fio_columns,
            lenient: reading.lenient,
            within: reading.within.clone(),
            fio_results: self.fio_results.clone(),
            follow: reading.follow.then_some(self.control.on_restart),
            ..ReadOptions::new(fields)
        }
    }

    /// The parts of each file whose events in these fields can be [read](Reading::within) without the others; all of a file where a field
    /// follows from all events.
    pub fn parts(&self, fields: FieldSet) -> Vec<(PathBuf, Range<u64>)> {
        let asked = fields.union(self.reading.filter_fields());
        let is_whole =
            asked.intersection(FieldSet::DERIVED) != FieldSet::EMPTY || self.reading.omitted_every_ns.is_some();
        let whole = 0..u64::MAX;
        let parts = |(file, format): (&PathBuf, &Option<Format>)| {
            let parts = format.filter(|_| !is_whole).map(|format| latscope_capture_file::parts(file, format));
            let file = file.clone();
            parts.unwrap_or_else(|| vec![whole.clone()]).into_iter().map(move |part| (file.clone(), part))
        };
        self.reading.files.iter().zip(&self.formats).flat_map(parts).collect()
    }

    /// Those of these fields that the first events of the files have.
    pub fn present(&self, asked: FieldSet) -> FieldSet {
        self.first_have(asked, may_have)
    }

    /// Those of these fields of which the readers of the files have columns, with or without values.
    pub fn columns(&self, asked: FieldSet) -> FieldSet {
        self.first_have(asked, |batch, field| batch.column(field).is_some())
    }

    /// Those of these fields that the first events of the files have.
    fn first_have(&self, asked: FieldSet, has: impl Fn(&Batch, Field) -> bool) -> FieldSet {
        let ours = FieldSet::DERIVED.with(&[Field::Trace]);
        let (mut present, asked) = (asked.intersection(ours), asked.without(ours));
        for (at, file) in self.reading.files.iter().enumerate() {
            let options = ReadOptions { follow: None, ..self.options(at, asked) };
            if self.formats[at].is_some_and(Format::is_series) {
                let header = SeriesReader::open(file, &options).map(|reader| reader.header().group_fields.clone());
                let fields = header.iter().flatten().filter_map(|name| Field::from_name(name));
                let hosts = is_hub(file).then_some(Field::Host);
                present = present.union(fields.chain(hosts).filter(|&field| asked.contains(field)).collect());
                continue;
            }
            // A file that cannot be read is reported where its events are asked for.
            let _ = latscope_capture_file::read(file, &options, &mut |_, batch| {
                present = present.union(asked.iter().filter(|&field| has(batch, field)).collect());
                ControlFlow::Break(())
            });
        }
        present
    }
}

/// Whether events of the batch have a value of this field, as far as a look at texts says.
fn may_have(batch: &Batch, field: Field) -> bool {
    match batch.column(field) {
        Some(Column::Text(codes)) => codes.iter().any(|&code| code != MISSING_CODE),
        Some(_) => true,
        None => false,
    }
}

/// One reading of some files.
struct Run<'a> {
    pipeline: &'a Pipeline,
    starts: Starts<'a>,
    progress: Progress,
    /// For what waits until fields are derived.
    room: Room,
    /// What the files hold, as far as it is compared.
    held: Mutex<Vec<(usize, Held)>>,
    /// Whether there was any event, and any that the filter let through.
    has_events: AtomicBool,
    has_passed: AtomicBool,
    /// As long as nothing has passed: what the fields of the filter are.
    values: Mutex<BTreeMap<Field, BTreeSet<String>>>,
}

impl<'a> Run<'a> {
    fn new(pipeline: &'a Pipeline) -> Result<Run<'a>, Error> {
        let (has_events, has_passed) = (AtomicBool::new(false), AtomicBool::new(false));
        let (starts, progress, room, held) =
            (Starts::new(pipeline)?, Progress::default(), Room::default(), Mutex::default());
        Ok(Run { pipeline, starts, progress, room, held, has_events, has_passed, values: Mutex::default() })
    }

    /// Reads the file with this number. One of several readers shows the progress of all.
    fn file<E: From<Error>>(
        &self,
        at: usize,
        fields: FieldSet,
        shows_progress: bool,
        take: &mut impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<E>,
    ) -> Result<Context, E> {
        let Pipeline { reading, control, .. } = self.pipeline;
        let mut pass = Pass::new(reading).counting_from(self.starts.common_ns());
        let asked = fields.union(reading.filter_fields());
        let mut named = Named::new(&reading.files[at], asked);
        let (derived, fields) = derived::split(asked.without(FieldSet::EMPTY.with(&[Field::Trace])));
        let mut gathered = self.gathers(derived)?;
        let options = ReadOptions { progress: Some(&self.progress), ..self.pipeline.options(at, fields) };
        let (mut starts, mut failure, mut held) = (true, None, Held::default());
        // Relative times count from where they would if events were handed on at once.
        let mut first = None;
        let mut hand_on = |context: &Context, batch: &Batch| {
            let batch = match &mut named {
                Some(named) => named.batch(batch),
                None => batch,
            };
            self.starts.moved(at, context, batch, |context, batch| match pass.batch(context, batch) {
                Err(error) => ControlFlow::Break(error.into()),
                Ok((batch, mask)) => {
                    self.see(batch, mask);
                    take(context, batch, mask, std::mem::take(&mut starts))
                }
            })
        };
        let context = latscope_capture_file::read(&reading.files[at], &options, &mut |context, batch| {
            if shows_progress {
                self.show_progress(control);
            }
            if is_stopped(reading, control) {
                return ControlFlow::Break(());
            }
            held.add(batch);
            let flow = match &mut gathered {
                None => hand_on(context, batch),
                Some(gathered) => {
                    first.get_or_insert_with(|| context.clone());
                    flow(gathered.add(batch, &self.room).map_err(E::from))
                }
            };
            flow.map_break(|error| failure = Some(error))
        });
        if let (Some(gathered), Some(context), Ok(_), None) = (gathered, &first, &context, &failure) {
            gathered.hand_on(|batch| hand_on(context, batch).map_break(|error| failure = Some(error)));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push((at, held));
        let mut context = match context {
            Ok(context) => self.starts.context(at, context),
            // Of what is cut anywhere there may be nothing to understand.
            Err(_) if is_over() => Context::new(reading.files[at].display().to_string(), Clock::unanchored("unknown")),
            Err(error) => return Err(Error::from(error).into()),
        };
        note_missing(&mut context, pass.missing_fields());
        pass.notes().into_iter().for_each(|note| context.note(note));
        if self.pipeline.is_cancelled() {
            context.note(latscope_event::Note::Interrupted);
        }
        Ok(context)
    }

    /// Where events wait until these fields can be derived; `None` without any.
    fn gathers(&self, derived: FieldSet) -> Result<Option<Gathered>, Error> {
        match derived == FieldSet::EMPTY {
            true => Ok(None),
            false if self.pipeline.reading.follow => Err(Error::Incomplete(derived)),
            false => Ok(Some(Gathered::new(derived))),
        }
    }

    fn see(&self, batch: &Batch, mask: Option<&Mask>) {
        self.has_events.fetch_or(!batch.is_empty(), Ordering::Relaxed);
        if !self.has_passed.load(Ordering::Relaxed) && mask.is_none_or(|mask| mask.count() > 0) {
            self.has_passed.store(true, Ordering::Relaxed);
        }
        if !self.has_passed.load(Ordering::Relaxed) {
            self.note_values(batch);
        }
    }

    /// Notes the texts that events have in the fields of the filter, the first few of each.
    fn note_values(&self, batch: &Batch) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        for field in self.pipeline.reading.filter.iter().flat_map(|filter| filter.fields().iter()) {
            let Some(Column::Text(codes)) = batch.column(field) else { continue };
            let (known, mut last) = (values.entry(field).or_default(), MISSING_CODE);
            for (row, &code) in codes.iter().enumerate().filter(|&(_, &code)| code != MISSING_CODE) {
                if known.len() > VALUES {
                    break;
                }
                if std::mem::replace(&mut last, code) != code
                    && let Some(text) = batch.text(field, row)
                    && !known.contains(text)
                {
                    known.insert(text.into());
                }
            }
        }
    }

    fn show_progress(&self, control: &Control) {
        let (done, total) = (&self.progress.done, &self.progress.total);
        control.observer().progress(done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
    }

    /// Notes that a filter let nothing through: an empty picture may come of a mistake in it. And that files of several formats
    /// hold the same events, which then count several times.
    fn end(&self, contexts: &[Context]) {
        let Pipeline { reading, control, .. } = self.pipeline;
        control.observer().ended();
        if let Some((first, second, more)) = self.repeated() {
            control.notice(Notice::SameEvents { files: [first, second].map(|at| reading.files[at].clone()), more });
        }
        let is_nothing = self.has_events.load(Ordering::Relaxed) && !self.has_passed.load(Ordering::Relaxed);
        if let Some(filter) = reading.filter.as_ref().filter(|_| is_nothing) {
            let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            let values = values.iter().filter(|(_, texts)| !texts.is_empty() && texts.len() <= VALUES);
            let values = values.map(|(&field, texts)| (field, texts.iter().cloned().collect())).collect();
            let waiting = self.pipeline.waiters(contexts, &[]).map_or(0, |waiters| waiters.len());
            control.notice(Notice::NoMatch { filter: filter.to_string(), values, waiting });
        }
    }

    /// The first two files that hold the same events in different formats, and how many more files do. Files of one format are not
    /// compared: logs of several jobs that ran alike may well be alike.
    fn repeated(&self) -> Option<(usize, usize, usize)> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.sort_by_key(|&(at, _)| at);
        let format = |at: usize| self.pipeline.formats[at];
        let is_same = |(one, held): &(usize, Held), (other, again): &(usize, Held)| {
            held == again && held.count >= FEWEST && format(*one) != format(*other)
        };
        let again =
            |at: usize| held[..at].iter().find(|known| is_same(known, &held[at])).map(|known| (known.0, held[at].0));
        let mut repeated = (1..held.len()).filter_map(again);
        let (first, second) = repeated.next()?;
        Some((first, second, repeated.count()))
    }
}

/// Fields with more values are not listed when a filter matches nothing.
const VALUES: usize = 12;
/// Fewer events may be alike by chance.
const FEWEST: u64 = 10;

/// What a file holds: how many events, and the start and latency of the first and of the last.
#[derive(Clone, Copy, Default, PartialEq)]
struct Held {
    count: u64,
    first: Option<(i64, u64)>,
    last: Option<(i64, u64)>,
}

impl Held {
    /// Costs the same for any number of events.
    fn add(&mut self, batch: &Batch) {
        let event = |row: usize| (batch.time()[row], batch.latency()[row]);
        if let Some(last) = batch.len().checked_sub(1) {
            self.first = self.first.or(Some(event(0)));
            self.last = Some(event(last));
            self.count += batch.len() as u64;
        }
    }
}

/// Whether reading has to end here. A pipe, or a file that is followed, ends by itself after what was written to it.
fn is_stopped(reading: &Reading, control: &Control) -> bool {
    control.is_cancelled() || is_over() && !reading.follow && !reading.files.iter().any(|file| is_pipe(file))
}

/// Adds to a context why the filter may have let nothing through: no event has the fields that it looks at.
pub fn note_missing(context: &mut Context, fields: FieldSet) {
    let names: Vec<String> = fields.iter().map(|field| field.name().into()).collect();
    if !names.is_empty() {
        context.note(latscope_event::Note::FieldsOfFilter { names });
    }
}
