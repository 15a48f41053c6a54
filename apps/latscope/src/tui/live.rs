//! The running kernel as a source: a thread that captures, and what is kept of it to look at again.

use super::files::Task;
use super::recent::Recent;
use super::{Fed, Message};
use crate::Failure;
use crate::plan::{Folding, Live, Reading};
use latscope_capture_bpf::{key_fields, usual};
use latscope_capture_file::LatWriter;
use latscope_event::{Batch, Context, Field, FieldSet, Mask, format_duration};
use latscope_histogram::Sparse;
use latscope_pipeline::{Pass, Pipeline, TURN, keep_passing, now_ns};
use latscope_series::{HistogramSeries, Interval, SeriesBuilder, Weight};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval of sysdig's chisel.
pub const INTERVAL_NS: u64 = 500_000_000;
/// Between two looks at what the kernel has: a longer interval is filled in place.
const TICK: Duration = Duration::from_millis(500);
/// Buckets that all histograms of the map may have, at twenty bytes each.
const BUCKETS: usize = 6 << 20;
/// So much history is there whatever happens; it gets coarser before it gets shorter.
const HISTORY_NS: u64 = 3_600_000_000_000;

/// What was captured, to be folded anew by another filter or split.
pub enum Kept {
    /// The last events.
    Events(Arc<Mutex<Recent>>),
    /// Histograms by every key that the kernel counts by.
    Keys(Box<HistogramSeries>),
}

/// A poisoned lock means that another thread panicked, and then the program has ended.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fields that make up the kernel's keys.
pub fn keys(live: &Live) -> Vec<Field> {
    key_fields(live.source).iter().filter(|&field| !FieldSet::ALWAYS.contains(field)).collect()
}

/// What the thread that captures and the one that draws have in common in event mode.
#[derive(Clone)]
pub struct Shared {
    pub recent: Arc<Mutex<Recent>>,
    /// By which fields to group from the next tick on.
    pub by: Arc<Mutex<Vec<Field>>>,
}

impl Shared {
    pub fn new(by: &[Field]) -> Shared {
        Shared { recent: Arc::new(Mutex::new(Recent::new(now_ns()))), by: Arc::new(Mutex::new(by.to_vec())) }
    }
}

/// Captures until the task is not wanted any more, and sends what comes; events, with `shared`, are kept too, also with the fields
/// in `more`. Another capture may have ended at `since`: then the gap is reported.
pub fn capture(
    task: Task,
    reading: Arc<Reading>,
    folding: Folding,
    more: FieldSet,
    shared: Option<Shared>,
    since: Option<i64>,
) {
    let Some(live) = &reading.live else { return };
    let started = || {
        let Some(gap) = since.map(|since| now_ns().abs_diff(since)) else { return };
        let notice = format!("Nothing was captured for {} during the change.", format_duration(gap));
        let _ = task.sender.send(Message::Notice(notice));
    };
    // The screen ends a capture whose time is over.
    let endless = Live { for_ns: None, ..live.clone() };
    // The kernel counts whatever the filter says; its keys are filtered when they are shown.
    let filter = reading.filter.clone().filter(|_| shared.is_some());
    let source = Reading { live: Some(endless), filter, ..Reading::clone(&reading) };
    let done = task.open(source).and_then(|pipeline| match &shared {
        Some(shared) => events(&task, &pipeline, usual(live.source).union(more), folding, shared, &started),
        None => histograms(&task, &pipeline, live, folding, &started),
    });
    if let Err(failure) = done {
        let _ = task.sender.send(Message::Fed(task.number(), Box::new(Fed::Failed(failure))));
    }
}

/// The interval that is captured by.
pub fn width(folding: &Folding) -> u64 {
    folding.interval.unwrap_or(INTERVAL_NS)
}

fn send(task: &Task, series: HistogramSeries, context: Context, waiting: Batch) {
    let _ = task.sender.send(Message::Fed(task.number(), Box::new(Fed::More { series, context, waiting })));
}

fn events(
    task: &Task,
    pipeline: &Pipeline,
    fields: FieldSet,
    mut folding: Folding,
    shared: &Shared,
    started: &dyn Fn(),
) -> Result<(), Failure> {
    let mut events = pipeline.capture(fields.union(folding.by.iter().copied().collect()))?;
    started();
    lock(&shared.recent).start_trace();
    let tick = TICK.min(Duration::from_nanos(width(&folding))).max(TURN);
    let mut builder = None;
    let mut due = Instant::now() + tick;
    while task.is_wanted() {
        let counted = builder.get_or_insert_with(|| {
            folding.by.clone_from(&lock(&shared.by));
            let interval = Interval::Fixed(width(&folding));
            SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval)
                .on_grid(folding.precision)
        });
        let wait = due.saturating_duration_since(Instant::now()).min(TURN);
        events.poll::<Failure>(wait, &mut |_, batch, mask| {
            counted.add(batch, mask);
            lock(&shared.recent).push(batch, mask);
            ControlFlow::Continue(())
        })?;
        if Instant::now() >= due {
            due += tick;
            events.refresh()?;
            let waiting = events.all_waiting()?;
            send(task, counted.take_before(i64::MAX), events.context().clone(), waiting);
            if *lock(&shared.by) != folding.by {
                // What is on the map is folded anew from the kept events.
                builder = None;
            }
        }
    }
    Ok(())
}

fn histograms(
    task: &Task,
    pipeline: &Pipeline,
    live: &Live,
    folding: Folding,
    started: &dyn Fn(),
) -> Result<(), Failure> {
    let folding = Folding { by: keys(live), weight: Weight::Bytes, ..folding };
    let mut counting = pipeline.count(&folding, width(&folding))?;
    started();
    let mut ticked = Instant::now();
    while task.is_wanted() {
        std::thread::sleep(counting.due().min(TURN));
        if counting.due().is_zero() || ticked.elapsed() >= TICK {
            ticked = Instant::now();
            let mut series = counting.series();
            counting.collect(&mut series)?;
            let waiting = counting.all_waiting()?;
            send(task, series, counting.context(), waiting);
        }
    }
    Ok(())
}

/// Writes the kept events of a selection as a trace.
pub fn save(task: Task, reading: &Reading, context: &Context, recent: &Mutex<Recent>, path: &Path) {
    let notice = match written(reading, context, recent, path) {
        Ok(count) => format!("{} events saved in {}", latscope_event::format_count(count), path.display()),
        Err(failure) => failure.to_string(),
    };
    let _ = task.sender.send(Message::Notice(notice));
}

fn written(reading: &Reading, context: &Context, recent: &Mutex<Recent>, path: &Path) -> Result<u64, Failure> {
    let fail = |error: io::Error| Failure::Input(format!("{}: Cannot be written: {error}.", path.display()));
    let file = File::create_new(path).map_err(fail)?;
    let live = reading.live.as_ref();
    let fields = live.map_or(FieldSet::ALWAYS, |live| usual(live.source));
    let mut context = context.clone();
    if let Some(filter) = &reading.filter {
        context.properties.insert("filter".into(), filter.to_string());
    }
    keep_passing(reading, &mut context);
    let mut writer = LatWriter::create(file, fields, &context).map_err(fail)?;
    let mut count = 0;
    each_kept(reading, &context, recent, |batch, mask| {
        count += mask.map_or(batch.len(), Mask::count) as u64;
        match writer.write(batch, mask) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(fail(error)),
        }
    })?;
    writer.finish(&context).map_err(fail)?;
    Ok(count)
}

/// Hands on the kept events, with what the filter of `reading` lets through.
pub fn each_kept(
    reading: &Reading,
    context: &Context,
    recent: &Mutex<Recent>,
    mut take: impl FnMut(&Batch, Option<&Mask>) -> ControlFlow<Failure>,
) -> Result<(), Failure> {
    // They were counted from the queue, where that was asked for, before they were kept.
    let reading = Reading { from_queue: false, ..reading.clone() };
    for batch in lock(recent).batches() {
        let mut pass = Pass::new(&reading);
        let (batch, mask) = pass.batch(context, batch)?;
        if let ControlFlow::Break(failure) = take(batch, mask) {
            return Err(failure);
        }
    }
    Ok(())
}

/// Folds a series of all keys into one by fewer, of what the filter lets through; the filter looks at keys only.
pub fn folded(
    keys: &HistogramSeries,
    reading: &Reading,
    by: &[Field],
    context: &Context,
) -> Result<HistogramSeries, Failure> {
    let mut batch = Batch::new(keys.by.iter().copied().collect());
    for group in keys.groups() {
        for (&field, text) in keys.by.iter().zip(group) {
            batch.push_text(field, (text != HistogramSeries::NO_VALUE).then_some(text.as_bytes()));
        }
        batch.push_i64(Field::Time, 0);
        batch.push_u64(Field::Latency, 0);
        batch.end_row();
    }
    // Keys have no latency of their own that could count from the queue.
    let reading = Reading { from_queue: false, ..reading.clone() };
    let mut pass = Pass::new(&reading);
    let (_, mask) = pass.batch(context, &batch)?;
    let places: Vec<Option<usize>> = by.iter().map(|field| keys.by.iter().position(|key| key == field)).collect();
    let mut series = HistogramSeries::new(keys.quantity, keys.weight, by.to_vec(), keys.width_ns());
    for (&interval, slice) in keys.slices() {
        for (group, sparse) in
            slice.groups.iter().filter(|(group, _)| mask.is_none_or(|mask| mask.get(*group as usize)))
        {
            let values = &keys.groups()[*group as usize];
            let value = |place: &Option<usize>| match place {
                Some(at) => values[*at].clone(),
                None => HistogramSeries::NO_VALUE.to_string(),
            };
            insert(&mut series, interval, places.iter().map(value).collect(), sparse)?;
        }
    }
    Ok(series)
}

fn insert(series: &mut HistogramSeries, interval: i64, group: Vec<String>, sparse: &Sparse) -> Result<(), Failure> {
    series.insert(interval, group, sparse).map_err(|error| Failure::Input(format!("{error}.")))
}

/// What stands for the strip of all that was not kept apart.
pub const EARLIER: &str = "(earlier)";

/// The whole series anew under another filter or split, from what was kept; the time before that stays in one strip of
/// its own when only the split is another, and goes when it is the filter. Also returns from when on it is complete.
pub fn refolded(
    kept: &Kept,
    old: &HistogramSeries,
    reading: &Reading,
    folding: &Folding,
    context: &Context,
    same_filter: bool,
) -> Result<(HistogramSeries, Option<i64>), Failure> {
    let (new, from) = match kept {
        Kept::Keys(keys) => {
            let new = folded(keys, reading, &folding.by, context)?;
            // Before anything was counted by keys, there is what was counted before.
            let from = keys.range().map_or_else(now_ns, |(first, _)| keys.start_ns(first));
            (new, from)
        }
        Kept::Events(recent) => {
            let interval = Interval::Fixed(old.width_ns());
            let mut builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval)
                .on_grid(folding.precision);
            each_kept(reading, context, recent, |batch, mask| {
                builder.start_trace();
                builder.add(batch, mask);
                ControlFlow::Continue(())
            })?;
            (builder.finish(), lock(recent).complete_from_ns())
        }
    };
    let width = old.width_ns() as i64;
    let first = from.div_euclid(width) + i64::from(from.rem_euclid(width) > 0);
    let mut whole = new.rebinned(old.width_ns()).unwrap_or(new);
    whole.forget_before(first);
    if same_filter {
        let group = vec![EARLIER.to_string(); folding.by.len()];
        for (&interval, slice) in old.slices().range(..first) {
            for (_, sparse) in &slice.groups {
                insert(&mut whole, interval, group.clone(), sparse)?;
            }
        }
    }
    let cut = old.range().is_some_and(|(oldest, _)| oldest < first) && (!same_filter || !folding.by.is_empty());
    Ok((whole, cut.then_some(first * width)))
}

/// Keeps the memory of a series within bounds: longer intervals while there is less than an hour, then a shorter
/// history. Returns whether something was given up.
pub fn bound(series: &mut HistogramSeries) -> bool {
    let buckets = series.buckets();
    let Some((first, last)) = series.range() else { return false };
    if buckets <= BUCKETS {
        return false;
    }
    let span = ((last - first + 1) as u64).saturating_mul(series.width_ns());
    let wider = latscope_series::round_multiples(series.width_ns()).nth(1);
    match wider.filter(|_| span <= HISTORY_NS).and_then(|wider| series.rebinned(wider)) {
        Some(wide) => *series = wide,
        None => series.forget_before(first + (last - first) / 8 + 1),
    }
    true
}
