//! From files to filtered batches, and from those to a series.

use super::{live, start::Starts, stored, unfinished};
use crate::Failure;
use crate::plan::{self, Folding, Reading};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latscope_capture_file::{Format, Progress, ReadOptions, format_of, is_over, is_pipe};
use latscope_event::{
    Anomaly, Batch, Clock, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64, Mask,
    format_count, format_size,
};
use latscope_filter::{BoundFilter, Filter};
use latscope_histogram::Totals;
use latscope_series::{Budget, HistogramSeries, Quantity, SeriesBuilder, Waiter};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Shorter reads than this end before a bar could be read.
const BAR_FROM_BYTES: u64 = 64 << 20;

/// As many files are read at a time, at most: each costs the memory of a builder.
const MOST_READERS: usize = 8;

/// Reads all files, one after the other, or captures live, and hands on each batch with the mask of what the filter lets through
/// (`None`: everything). `begin` is true for the first batch of a file. Returns the context of every file.
pub fn each_batch(
    reading: &Reading,
    fields: FieldSet,
    mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<Vec<Context>, Failure> {
    if let Some(capture) = &reading.live {
        return live::each_batch(reading, capture, fields, take).map(|context| vec![context]);
    }
    let common = Common::default();
    let starts = Starts::of(reading)?;
    let files = (0..reading.files.len()).map(|at| (at, &starts, reading.format));
    let contexts = files.map(|file| read_file(reading, file, fields, &common, true, &mut take)).collect();
    common.say_nothing_passed(reading);
    contexts
}

/// What the readings of several files have in common.
#[derive(Default)]
struct Common {
    progress: Progress,
    /// Whether there was any event, and any that the filter let through.
    has_events: AtomicBool,
    has_passed: AtomicBool,
}

impl Common {
    fn see(&self, batch: &Batch, mask: Option<&Mask>) {
        self.has_events.fetch_or(!batch.is_empty(), Ordering::Relaxed);
        if !self.has_passed.load(Ordering::Relaxed) && mask.is_none_or(|mask| mask.count() > 0) {
            self.has_passed.store(true, Ordering::Relaxed);
        }
    }

    /// Says, once, that a filter let nothing through: an empty picture may come of a mistake in it.
    fn say_nothing_passed(&self, reading: &Reading) {
        static SAID: Once = Once::new();
        let is_nothing = self.has_events.load(Ordering::Relaxed) && !self.has_passed.load(Ordering::Relaxed);
        if let Some(filter) = reading.filter.as_ref().filter(|_| is_nothing) {
            SAID.call_once(|| say!("latscope: No event matches the filter: {filter}"));
        }
    }
}

/// Lets Ctrl-C, SIGTERM and SIGHUP end the reading of files and pipes: the view then shows what was read.
pub fn ends_by_signal(reading: &Reading) {
    if reading.live.is_none() {
        latscope_capture_file::end_when(live::interrupted());
    }
}

/// Says that the reading was ended, if it was.
fn tell_interrupted(context: &mut Context) {
    if is_over() {
        let said = context.properties.entry("missing".into()).or_default();
        let sentence = "interrupted: the rest of the input was not read";
        *said = if said.is_empty() { sentence.into() } else { format!("{said}; {sentence}") };
    }
}

/// How files are read for these fields.
pub fn options(reading: &Reading, fields: FieldSet) -> ReadOptions<'static> {
    ReadOptions {
        format: reading.format,
        all_syscalls: reading.all_syscalls,
        two_columns: reading.two_columns,
        omitted_every_ns: reading.omitted_every_ns,
        fio_columns: reading.fio_columns,
        lenient: reading.lenient,
        follow: reading.follow.then_some(|said: &str| say!("latscope: {said}")),
        ..ReadOptions::new(fields)
    }
}

/// Reads the file at a place; see [`each_batch`].
fn read_file(
    reading: &Reading,
    (at, starts, format): (usize, &Starts, Option<Format>),
    fields: FieldSet,
    common: &Common,
    is_shown: bool,
    take: &mut impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<Context, Failure> {
    let mut pass = Pass::new(reading, is_shown.then_some(&common.progress));
    let fields = fields.union(plan::filter_fields(reading));
    let options = ReadOptions { progress: Some(&common.progress), format, ..starts.options(fields) };
    let mut begin = true;
    let context = latscope_capture_file::read(&reading.files[at], &options, &mut |context, batch| {
        starts.moved(at, context, batch, |context, batch| {
            pass.batch(context, batch, |batch, mask| {
                common.see(batch, mask);
                take(context, batch, mask, std::mem::take(&mut begin))
            })
        })
    });
    match pass.failure.take() {
        Some(failure) => Err(failure),
        None => match context {
            Ok(context) => {
                let mut context = starts.context(at, context);
                pass.tell_untold(&mut context);
                tell_interrupted(&mut context);
                Ok(context)
            }
            // Of what is cut anywhere there may be nothing to understand.
            Err(_) if is_over() => {
                let mut context = Context::new(reading.files[at].display().to_string(), Clock::unanchored("unknown"));
                tell_interrupted(&mut context);
                Ok(context)
            }
            Err(error) => Err(Failure::Input(error.to_string())),
        },
    }
}

/// The reading of one file, or a capture.
pub struct Pass<'a> {
    reading: &'a Reading,
    bound: Option<BoundFilter>,
    mask: Mask,
    bar: Option<ProgressBar>,
    progress: Option<&'a Progress>,
    /// Fields that the filter looks at and no event has had so far; empty once an event has passed.
    untold: FieldSet,
    has_events: bool,
    /// Why it was ended before its end.
    pub failure: Option<Failure>,
}

impl<'a> Pass<'a> {
    /// A pass; a file's progress is shown when it is long.
    pub fn new(reading: &'a Reading, progress: Option<&'a Progress>) -> Pass<'a> {
        let untold = reading.filter.as_ref().map_or(FieldSet::default(), Filter::fields);
        let (bound, mask) = (None, Mask::default());
        Pass { reading, bound, mask, bar: None, progress, untold, has_events: false, failure: None }
    }

    /// Adds to a context why the filter may have let nothing through: no event has the fields that it looks at.
    pub fn tell_untold(&self, context: &mut Context) {
        if self.untold == FieldSet::default() || !self.has_events {
            return;
        }
        let names: Vec<_> = self.untold.iter().map(Field::name).collect();
        let sentence = format!("no event tells {}, which the filter looks at", names.join(" or "));
        let said = context.properties.entry("missing".into()).or_default();
        *said = if said.is_empty() { sentence } else { format!("{said}; {sentence}") };
    }

    /// Filters a batch and hands it on; `Break` when it failed.
    pub fn batch(
        &mut self,
        context: &Context,
        batch: &Batch,
        take: impl FnOnce(&Batch, Option<&Mask>) -> ControlFlow<Failure>,
    ) -> ControlFlow<()> {
        self.show_progress();
        // A pipe, or a file that is followed, ends by itself, after what was written to it.
        if is_over() && !self.reading.follow && !self.reading.files.iter().any(|file| is_pipe(file)) {
            return ControlFlow::Break(());
        }
        let shifted;
        let batch = if self.reading.from_queue {
            shifted = batch.counted_from_queue();
            &shifted
        } else {
            batch
        };
        let mask = match self.filtered(context, batch) {
            Ok(mask) => mask,
            Err(failure) => {
                self.failure = Some(failure);
                return ControlFlow::Break(());
            }
        };
        match take(batch, mask) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    /// Understands the filter's times by this context, unless that was done.
    ///
    /// # Errors
    /// When the context has no such times.
    pub fn bind(&mut self, context: &Context) -> Result<Option<&mut BoundFilter>, Failure> {
        let Some(filter) = &self.reading.filter else { return Ok(None) };
        if self.bound.is_none() {
            let bound = filter.bind(context.trace_start());
            self.bound = Some(bound.map_err(|error| Failure::Usage(format!("{error}\n{}", error.caret())))?);
        }
        Ok(self.bound.as_mut())
    }

    fn filtered(&mut self, context: &Context, batch: &Batch) -> Result<Option<&Mask>, Failure> {
        self.bind(context)?;
        let Some(bound) = &mut self.bound else { return Ok(None) };
        bound.eval(batch, &mut self.mask);
        self.has_events |= !batch.is_empty();
        if self.untold != FieldSet::default() {
            let passed = self.mask.count() > 0;
            self.untold = self.untold.iter().filter(|&field| !passed && !tells(batch, field)).collect();
        }
        Ok(Some(&self.mask))
    }

    fn show_progress(&mut self) {
        let Some(progress) = self.progress else { return };
        let total = progress.total.load(Ordering::Relaxed);
        if total < BAR_FROM_BYTES {
            return;
        }
        // The draw target is hidden where standard error is no terminal.
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("reading {bar:40} {bytes} of {total_bytes} {eta}");
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(progress.done.load(Ordering::Relaxed));
    }
}

/// Whether an event of the batch has a value of this field.
fn tells(batch: &Batch, field: Field) -> bool {
    match batch.column(field) {
        Some(Column::Text(codes)) => codes.iter().any(|&code| code != MISSING_CODE),
        Some(Column::I64(values)) => values.iter().any(|&value| value != MISSING_I64),
        Some(Column::U64(values)) => values.iter().any(|&value| value != MISSING_U64),
        None => false,
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Reads all files, or captures live, into one series of at most `limit` intervals (when the interval is not given). What is no
/// distribution of latencies is refused.
pub fn series(reading: &Reading, folding: &Folding, limit: u32) -> Result<(HistogramSeries, Vec<Context>), Failure> {
    let (series, contexts) = series_to_plot(reading, folding, limit)?;
    if folding.quantity == Quantity::Latency && !reading.takes_averages {
        contexts.iter().try_for_each(refuse_windows)?;
    }
    Ok((series, contexts))
}

/// As [`series`], where averages over windows may be shown too: a picture of them is what it says to be.
pub fn series_to_plot(
    reading: &Reading,
    folding: &Folding,
    limit: u32,
) -> Result<(HistogramSeries, Vec<Context>), Failure> {
    let formats = formats(reading);
    if let Some((series, contexts)) = stored::read_as(&formats, reading, folding, limit)? {
        let waiters = unfinished::waiters(reading, &contexts, &folding.by)?;
        return Ok((covering(series, reading, &contexts, &waiters, folding, limit), contexts));
    }
    if let Some(capture) = &reading.live
        && let Some((series, context)) = live::series(reading, capture, folding, limit)?
    {
        return Ok((series, vec![context]));
    }
    let budget = Budget::default();
    let new_builder = || new_builder(folding, limit).within(budget.clone());
    let (builder, contexts, waiters) = match &reading.live {
        Some(capture) => {
            let mut builder = new_builder();
            let fields = builder.fields();
            let (context, waiters) =
                live::each_batch_and_waiter(reading, capture, fields, &folding.by, |context, batch, mask, _| {
                    fold(&mut builder, (context, batch, mask))
                })?;
            (builder, vec![context], waiters)
        }
        None => {
            let all: Vec<usize> = (0..formats.len()).collect();
            let (builder, contexts) = fold_files((reading, &Starts::of(reading)?), &formats, &all, &new_builder)?;
            let waiters = unfinished::waiters(reading, &contexts, &folding.by)?;
            (builder, contexts, waiters)
        }
    };
    let missing = builder.missing();
    let is_pruned = builder.is_pruned();
    let mut series = builder.finish();
    if is_pruned && is_read_again(reading) {
        let only = || new_builder().only(series.groups());
        let all: Vec<usize> = (0..formats.len()).collect();
        series = fold_files((reading, &Starts::of(reading)?), &formats, &all, &only)?.0.finish();
    }
    say_others(&series);
    if folding.quantity != Quantity::Offset {
        // Maps of offsets are grouped by device unasked.
        say_ungrouped(&series);
    }
    if series.slices().is_empty() && waiters.is_empty() {
        refuse_nothing(missing, folding)?;
    }
    let series = covering(series, reading, &contexts, &waiters, folding, limit);
    if folding.quantity == Quantity::Queue && series.total(None).totals().max == 0 && !series.slices().is_empty() {
        return Err(Failure::Input(
            "No request of this trace is seen to wait before its issue; record block:block_io_start or \
             block:block_rq_insert too."
                .into(),
        ));
    }
    Ok((series, contexts))
}

/// The stretch of time that traces cover, as far as events that the filter lets through can have completed in it.
pub fn covered_ns(reading: &Reading, contexts: &[Context]) -> Option<(i64, i64)> {
    let clipped = |context: &Context| match &reading.filter {
        Some(filter) => filter.clipped(context.span_ns?, context.trace_start()),
        None => context.span_ns,
    };
    contexts.iter().filter_map(clipped).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// A series with all that the traces cover, also where nothing happened, and with what waits, in as many intervals as were asked
/// for.
pub fn covering(
    mut series: HistogramSeries,
    reading: &Reading,
    contexts: &[Context],
    waiters: &[Waiter],
    folding: &Folding,
    limit: u32,
) -> HistogramSeries {
    if let Some((from_ns, to_ns)) = covered_ns(reading, contexts)
        && !(series.slices().is_empty() && waiters.is_empty())
    {
        series.reach(from_ns, to_ns);
        let is_long = series.range().is_some_and(|(first, last)| first.abs_diff(last) >= u64::from(limit.max(2)));
        if folding.interval.is_none() && is_long {
            series = series.fitted(limit);
        }
    }
    series.add_waiting(waiters, None);
    series.completed_only(folding.completed_only)
}

/// Fails if there is nothing to show because so many events lack what is to be shown.
pub fn refuse_nothing(missing: u64, folding: &Folding) -> Result<(), Failure> {
    if missing == 0 {
        return Ok(());
    }
    let field = folding.quantity.field().name();
    Err(Failure::Input(format!("No event in this trace has {field}, so there is nothing to show over it.")))
}

/// Whether the events can be had once more.
pub fn is_read_again(reading: &Reading) -> bool {
    reading.live.is_none() && !reading.follow && !is_over() && !reading.files.iter().any(|file| is_pipe(file))
}

/// Counts a batch.
fn fold(
    builder: &mut SeriesBuilder,
    (context, batch, mask): (&Context, &Batch, Option<&Mask>),
) -> ControlFlow<Failure> {
    builder.begins_at(context.start_ns);
    builder.add(batch, mask);
    if builder.is_full() { ControlFlow::Break(too_much()) } else { ControlFlow::Continue(()) }
}

/// What is said where histograms do not fit into memory.
pub fn too_much() -> Failure {
    let limit = format_size(Budget::default().limit() as u64);
    Failure::Usage(format!(
        "The histograms of all intervals and groups take more than {limit} of memory; give a longer interval (-i), fewer \
         groups (--by) or a filter, or check the unit of the times (--unitstime, --unitslat)."
    ))
}

/// Says how much of everything is in the group of all that were too many.
pub fn say_others(series: &HistogramSeries) {
    let Some(others) = series.others() else { return };
    let totals = series.group_totals();
    let all = totals.iter().fold(Totals::EMPTY, |sum, more| sum.merged(more));
    let Some(rest) = totals.get(others.group as usize).filter(|_| all.count > 0) else { return };
    let share = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let events = share(rest.count as f64, all.count as f64);
    let sum = match series.quantity {
        Quantity::Latency | Quantity::Queue | Quantity::Service | Quantity::Lag => {
            format!(" and {:.2}% of the time", share(rest.sum as f64, all.sum as f64))
        }
        Quantity::Size | Quantity::Offset => String::new(),
    };
    let lacking = match others.lacking {
        0 => "",
        _ => {
            " Groups that were light at first may be counted too low; a file, which can be read twice, gives exact counts."
        }
    };
    say!(
        "latscope: (others) holds {events:.2}% of the events{sum}: the groups beyond the {} heaviest.{lacking}",
        format_count(totals.len() as u64 - 1)
    );
}

/// Says by which fields nothing could be grouped, because no event has them.
pub fn say_ungrouped(series: &HistogramSeries) {
    if !series.groups().is_empty() && series.others().is_none() {
        say_untold(&untold(series));
    }
}

/// The fields of the groups that no group tells.
pub fn untold(series: &HistogramSeries) -> Vec<Field> {
    let is_told = |at: usize| {
        series.groups().iter().any(|group| group.get(at).is_some_and(|label| label != HistogramSeries::NO_VALUE))
    };
    (0..series.by.len()).filter(|&at| !is_told(at)).map(|at| series.by[at]).collect()
}

/// Says which fields of the groups no event tells.
pub fn say_untold(untold: &[Field]) {
    let names: Vec<_> = untold.iter().map(|field| field.name()).collect();
    if !names.is_empty() {
        say!("latscope: no event tells {}, which --by groups by.", names.join(" or "));
    }
}

/// What events are folded into.
pub fn new_builder(folding: &Folding, limit: u32) -> SeriesBuilder {
    let interval = folding.interval_or(limit);
    let builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval);
    let builder = builder.count_by(folding.count_by);
    if folding.values_only { builder.values_only() } else { builder }
}

/// Folds those of the files that have these numbers, several at a time.
pub fn fold_files(
    (reading, starts): (&Reading, &Starts),
    formats: &[Option<Format>],
    numbers: &[usize],
    new_builder: &(impl Fn() -> SeriesBuilder + Sync),
) -> Result<(SeriesBuilder, Vec<Context>), Failure> {
    let common = Common::default();
    let fold_file = |builder: &mut SeriesBuilder, at: usize, is_shown: bool| {
        let number = numbers[at];
        builder.begin_trace_number(number as u32);
        let (fields, file) = (builder.fields(), (number, starts, formats[number]));
        read_file(reading, file, fields, &common, is_shown, &mut |context, batch, mask, _| {
            fold(builder, (context, batch, mask))
        })
    };
    let folded = each_file(numbers.len(), MOST_READERS, new_builder, fold_file, SeriesBuilder::absorb)?;
    common.say_nothing_passed(reading);
    // Each may have fitted by itself.
    if folded.0.is_full() { Err(too_much()) } else { Ok(folded) }
}

/// Does something with each of so many files, several at a time: each worker has a state of its own, and the states are
/// joined in the end. Where files fail, the first of them is reported, as if they were read in order.
pub fn each_file<S: Send, T: Send>(
    files: usize,
    most_workers: usize,
    new: &(impl Fn() -> S + Sync),
    take: impl Fn(&mut S, usize, bool) -> Result<T, Failure> + Sync,
    join: impl Fn(&mut S, S),
) -> Result<(S, Vec<T>), Failure> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Files are dealt out in order, so those before one that fails are all begun, and end.
    let work = |is_shown: bool| {
        let (mut state, mut results) = (new(), Vec::new());
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < files
            && !is_over.load(Ordering::Relaxed)
        {
            let result = take(&mut state, number, is_shown);
            is_over.fetch_or(result.is_err(), Ordering::Relaxed);
            results.push((number, result));
        }
        (state, results)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(files).clamp(1, most_workers);
    let (state, mut results) = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(false))).collect();
        let (mut state, mut results) = work(true);
        for other in others {
            let (theirs, more) = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            join(&mut state, theirs);
            results.extend(more);
        }
        (state, results)
    });
    results.sort_by_key(|&(number, _)| number);
    let results = results.into_iter().map(|(_, result)| result).collect::<Result<_, _>>()?;
    Ok((state, results))
}

/// The format of each file, given or found out; none of what cannot be looked at beforehand, or is not known.
pub fn formats(reading: &Reading) -> Vec<Option<Format>> {
    let of = |file: &PathBuf| reading.format.or_else(|| format_of(file).ok());
    reading.files.iter().map(of).collect()
}

/// Fails if the rows of a trace are averages: they have no distribution.
pub fn refuse_windows(context: &Context) -> Result<(), Failure> {
    if context.tally.get(Anomaly::WindowedRows) == 0 {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{}: The rows are averages over a window, and from those no latency distribution can be made; run fio without \
         log_avg_msec, ioping with -p 1. The averages themselves are drawn by latscope heatmap and printed by latscope \
         events.",
        context.source
    )))
}

/// Says on standard error what a table in machine-readable form has no place for.
pub fn say_notes(contexts: &[Context]) {
    for (source, note) in Context::notes_of(contexts) {
        say!("latscope: {source}: {note}");
    }
}
