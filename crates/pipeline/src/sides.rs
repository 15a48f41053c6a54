//! One side of a comparison: the events of each of its turns in the order of time, or their histograms, and what shows whether
//! it is like the others.

use crate::{Error, Folding, Origin, Pipeline, Reading, keep_passing, refuse_averages};
use latscope_event::{
    Anomaly, Batch, Context, Field, FieldSet, FieldType, MISSING_U64, Mask, Unfinished, Wait, format_count,
    format_duration,
};
use latscope_series::compare::{
    CompareError, CompareOptions, Comparison, Completions, Sample, Standstill, Standstills, compare,
};
use latscope_series::{CountBy, HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Intervals that a side is divided into: blocks of neighbours are found among them where events are too many.
const INTERVALS: u32 = 512;
/// A standstill is one if nothing completes for so many times longer than any request of the base took,
const STANDSTILL: u64 = 10;
/// and for at least so many nanoseconds: a slow request of a short run may be chance.
const STANDSTILL_NS: u64 = 1_000_000_000;
/// Anomalies each of which may be a request whose latency nobody knows.
const LOSSES: [Anomaly; 17] = [
    Anomaly::NotSent,
    Anomaly::DroppedIntervals,
    Anomaly::Withheld,
    Anomaly::LostRecords,
    Anomaly::LostCompletion,
    Anomaly::Uncounted,
    Anomaly::MismatchedCompletion,
    Anomaly::EvictedInFlight,
    Anomaly::OrphanCompletion,
    Anomaly::UnpairedExit,
    Anomaly::UnpairedEnter,
    Anomaly::LostTail,
    Anomaly::Unlogged,
    Anomaly::UnparsedLines,
    Anomaly::DamagedRecords,
    Anomaly::OpenAfterLoss,
    Anomaly::FailedUnissued,
];
/// So many different sizes are distinguished.
pub(crate) const SIZES: usize = 64;

/// One side.
pub struct Subject {
    /// What it is called.
    pub name: String,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// What the traces say of themselves.
    pub contexts: Vec<Context>,
    /// Events by kind, as far as the source has them.
    pub kinds: BTreeMap<String, u64>,
    /// Events by size, bytes, as far as the source has them.
    pub sizes: BTreeMap<u64, u64>,
    /// Events that have a number of bytes, and the sum of these, by field.
    pub bytes: BTreeMap<Field, (u64, u128)>,
    waiting: Waiting,
    /// By turn.
    unknown: Vec<Unknown>,
}

/// Requests that had not completed when their trace ended.
#[derive(Default)]
struct Waiting {
    ages_ns: Vec<u64>,
    /// Some of them are not among what is compared.
    is_left_out: bool,
    /// Some waited when a recording was cut off, or it does not know whether some did.
    is_cut: bool,
}

impl Waiting {
    fn add(&mut self, unfinished: &[Unfinished], context: &Context, is_left_out: bool) {
        // A thread that sleeps waits for its time, and does not hang.
        let stalls = unfinished.iter().filter(|request| request.is_stall());
        self.ages_ns.extend(stalls.map(|request| request.at_least_ns));
        self.is_left_out |= is_left_out && !unfinished.is_empty();
        self.is_cut |= context.is_cut() && (!context.knows_unfinished || unfinished.iter().any(Unfinished::is_stall));
    }
}

/// Those of a trace that count and pass the filter.
fn waiting_of(reading: &Reading, context: &Context) -> Vec<Unfinished> {
    let mut context = context.clone();
    keep_passing(reading, &mut context);
    context.unfinished.retain(Unfinished::counts);
    context.unfinished
}

/// Requests of which nobody knows the latency.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unknown {
    /// How many: their records or completions were lost, or they wait though it does not look like it.
    pub count: u64,
    /// The longest that one of these may have waited, nanoseconds.
    pub oldest_ns: u64,
}

impl Unknown {
    /// Of traces, as far as the filter lets them through and they are known one by one.
    pub fn from_contexts(reading: &Reading, contexts: &[Context]) -> Unknown {
        let mut all = Unknown::default();
        for context in contexts {
            // Of many without a completion only some are known.
            let known = context.unfinished.len().max(1) as f64;
            let each = (context.tally.get(Anomaly::Unfinished) as f64 / known).max(1.0);
            let mut open = context.clone();
            open.unfinished.retain(|request| matches!(request.wait, Wait::LeftBehind | Wait::Lossy));
            open.unfinished.iter_mut().for_each(|request| request.wait = Wait::Counts);
            keep_passing(reading, &mut open);
            let lost: u64 = LOSSES.iter().map(|&anomaly| context.tally.get(anomaly)).sum();
            all.count += lost + (open.unfinished.len() as f64 * each) as u64;
            let oldest_ns = open.unfinished.iter().map(|request| request.at_least_ns).max();
            all.oldest_ns = all.oldest_ns.max(oldest_ns.unwrap_or(0));
        }
        all
    }

    /// Their part of all, of which so many are known, 0 to 1.
    pub fn share(&self, known: u64) -> f64 {
        self.count as f64 / (self.count as f64 + known as f64).max(1.0)
    }
}

/// Whether an input ends in the middle, a part of a folder is missing, a job failed, or tasks of Spark may be missing: nobody knows what
/// is not there, nor how much. A recording that was cut off knows what waited then.
pub fn lacks_part(contexts: &[Context]) -> bool {
    let lacks = |context: &Context| {
        let has = |anomaly: Anomaly| context.tally.get(anomaly) > 0;
        has(Anomaly::MissingInputs)
            || has(Anomaly::FailedJobs)
            || has(Anomaly::Truncated) && !context.is_cut()
            || latscope_series::spark::undecided(context).is_some()
    };
    contexts.iter().any(lacks)
}

/// The first file.
fn source_of(reading: &Reading) -> String {
    reading.files.first().map_or(String::new(), |file| file.display().to_string())
}

/// One turn of a side.
pub struct Turn {
    /// What it was read from.
    pub source: String,
    /// Time of start, nanoseconds, and latency, or what else is compared, ascending; `None` when there are too many, or only histograms.
    events: Option<Vec<(i64, u64)>>,
    /// All of it as histograms.
    pub series: HistogramSeries,
    /// How many of them had not completed: they count with their age, but not as requests that were made.
    waiting: u64,
    /// When nothing completed while some waited.
    stills: Standstills,
}

/// Gathers a turn from batches.
struct Gather {
    quantity: Quantity,
    builder: SeriesBuilder,
    events: Option<Vec<(i64, u64)>>,
    /// When they completed; `None` where each stands for several, as then the others are not known, and where latency is not compared.
    completions: Option<Completions>,
    kinds: BTreeMap<String, u64>,
    sizes: BTreeMap<u64, u64>,
    bytes: BTreeMap<Field, (u64, u128)>,
}

/// The numbers of bytes that an event may have moved.
fn bytes_fields() -> impl Iterator<Item = Field> {
    let moved = |field: &Field| field.field_type() == FieldType::Bytes && !FieldSet::DERIVED.contains(*field);
    // What a task spills was its input before, and what it takes in memory is no work.
    let others = [Field::Offset, Field::ResultSize, Field::Spilled, Field::DiskSpilled, Field::PeakMemory];
    Field::ALL.iter().copied().filter(moved).filter(move |field| !others.contains(field))
}

impl Gather {
    fn new(quantity: Quantity) -> Gather {
        let builder = SeriesBuilder::new(quantity, Weight::Count, Vec::new(), Interval::Auto(INTERVALS));
        let (kinds, sizes, bytes) = Default::default();
        Gather {
            quantity,
            builder,
            events: Some(Vec::new()),
            completions: (quantity == Quantity::Latency).then(Completions::default),
            kinds,
            sizes,
            bytes,
        }
    }

    /// The columns that are looked at.
    fn fields(&self) -> FieldSet {
        let looked_at = bytes_fields().chain([Field::Kind, Field::SampleWeight, self.quantity.field()]);
        let looked_at = looked_at.chain([Field::State, Field::Name, Field::WaitClass]);
        self.builder.fields().union(looked_at.collect())
    }

    /// Adds the events of a batch that the mask lets through; the number is that of the file, before its first batch.
    fn add(&mut self, starts: Option<usize>, batch: &Batch, mask: Option<&Mask>) {
        if let Some(number) = starts {
            self.builder.start_trace_number(number as u32);
        }
        self.builder.add(batch, mask);
        let rows = || (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row)));
        for field in bytes_fields() {
            let Some(values) = batch.u64s(field) else { continue };
            let known = || rows().map(|row| values[row]).filter(|&value| value != MISSING_U64);
            let (count, sum) = self.bytes.entry(field).or_default();
            (*count, *sum) = (*count + known().count() as u64, *sum + known().map(u128::from).sum::<u128>());
        }
        let values = match self.quantity {
            Quantity::Latency => Some(batch.latency()),
            quantity => batch.u64s(quantity.field()),
        };
        for row in rows() {
            let (start, latency) = (batch.time()[row], batch.latency()[row]);
            if let Some(completions) = &mut self.completions {
                // While a thread sleeps or runs, nothing is in flight.
                match Wait::of_row(batch, row) {
                    Wait::Counts => completions.push(start, latency),
                    _ => completions.push(start.saturating_add_unsigned(latency), 0),
                }
            }
            if let Some(events) = &mut self.events {
                // An event without the quantity is none of it.
                let value = values.map_or(MISSING_U64, |values| values[row]);
                if value != MISSING_U64 {
                    events.push((batch.time()[row], value));
                }
            }
            if let Some(kind) = batch.text(Field::Kind, row) {
                match self.kinds.get_mut(kind) {
                    Some(count) => *count += 1,
                    None => drop(self.kinds.insert(kind.into(), 1)),
                }
            }
            let size = batch.u64s(Field::Size).map_or(MISSING_U64, |sizes| sizes[row]);
            if size != MISSING_U64 && (self.sizes.len() < SIZES || self.sizes.contains_key(&size)) {
                *self.sizes.entry(size).or_insert(0) += 1;
            }
        }
        // What stands for several, and what is too much, is compared by histograms.
        let weighs = batch.i64s(Field::SampleWeight).is_some_and(|weights| weights.iter().any(|&weight| weight > 1));
        self.completions.take_if(|_| weighs);
        if weighs || self.events.as_ref().is_some_and(|events| events.len() > Sample::EVENTS) {
            self.events = None;
        }
    }

    /// Adds what was gathered from other files.
    fn merge(&mut self, other: Gather) {
        self.builder.merge(other.builder);
        self.completions = self.completions.take().zip(other.completions).map(|(mut completions, more)| {
            completions.append(more);
            completions
        });
        let events = self.events.take().zip(other.events).map(|(mut events, mut more)| {
            events.append(&mut more);
            events
        });
        self.events = events.filter(|events| events.len() <= Sample::EVENTS);
        add_counts(&mut self.kinds, &other.kinds, usize::MAX);
        add_counts(&mut self.sizes, &other.sizes, SIZES);
        add_sums(&mut self.bytes, &other.bytes);
    }

    /// The turn.
    fn finish(self) -> Turn {
        let mut events = self.events;
        if let Some(events) = &mut events {
            // Whatever the order in which files were read.
            events.sort_unstable();
        }
        let (source, stills) = Default::default();
        Turn { source, events, series: self.builder.finish(), waiting: 0, stills }
    }
}

/// Adds events and their bytes by field.
fn add_sums(sums: &mut BTreeMap<Field, (u64, u128)>, more: &BTreeMap<Field, (u64, u128)>) {
    for (field, &(count, sum)) in more {
        let known = sums.entry(*field).or_default();
        *known = (known.0 + count, known.1 + sum);
    }
}

/// Adds counts to counts, of so many different things at most.
fn add_counts<T: Ord + Clone>(counts: &mut BTreeMap<T, u64>, more: &BTreeMap<T, u64>, most: usize) {
    for (thing, count) in more {
        if counts.len() < most || counts.contains_key(thing) {
            *counts.entry(thing.clone()).or_insert(0) += count;
        }
    }
}

impl Turn {
    /// What is compared.
    pub fn sample(&self) -> Sample {
        match &self.events {
            Some(events) => Sample::of_events(events.iter().map(|&(_, latency)| latency).collect()),
            None => Sample::of_series(&self.series),
        }
    }

    /// Whether the requests are those of another run, each with its time and value. Runs of a single latency, as very coarse clocks
    /// show them, may be equal without being one.
    pub fn repeats(&self, other: &Turn) -> bool {
        let totals = *self.series.total(None).totals();
        let same = match (&self.events, &other.events) {
            (Some(events), Some(others)) => events == others,
            (None, None) => self.series == other.series,
            _ => false,
        };
        totals.count > 1 && totals.min < totals.max && same
    }

    /// Number of requests that completed.
    pub fn count(&self) -> u64 {
        self.series.total(None).totals().count.saturating_sub(self.waiting)
    }

    /// The slowest request of a run that is a single histogram, where it took longer than this, nanoseconds: all may have waited for it.
    fn slowest_of_all(&self, ns: u64) -> Option<Standstill> {
        let (first, last) = self.series.range().filter(|_| !self.has_events() && self.series.slices().len() == 1)?;
        let for_ns = self.series.total(None).totals().max;
        let width_ns = self.series.start_ns(last.saturating_add(1)).abs_diff(self.series.start_ns(first));
        let still =
            Standstill { for_ns, run_ns: width_ns.max(for_ns), oldest_ns: for_ns, at_end: false, only_at_end: false };
        (self.series.quantity == Quantity::Latency && for_ns > ns).then_some(still)
    }

    /// Whether single requests are known.
    pub fn has_events(&self) -> bool {
        self.events.is_some()
    }
}

impl Subject {
    /// Reads this quantity of a side from files, turn by turn; `open` makes the pipeline of each.
    ///
    /// # Errors
    /// Those of `open`, and when a file cannot be read or holds averages.
    pub fn read<E: From<Error>>(
        name: String,
        turns: &[Reading],
        quantity: Quantity,
        open: impl Fn(Reading) -> Result<Pipeline, E>,
    ) -> Result<Subject, E> {
        let (kinds, sizes, bytes, waiting, unknown) = Default::default();
        let mut side = Subject { name, turns: Vec::new(), contexts: Vec::new(), kinds, sizes, bytes, waiting, unknown };
        turns.iter().try_for_each(|reading| Ok::<_, E>(side.read_turn(&open(reading.clone())?, quantity)?))?;
        Ok(side)
    }

    fn read_turn(&mut self, pipeline: &Pipeline, quantity: Quantity) -> Result<(), Error> {
        let reading = pipeline.reading();
        let folding = Folding { quantity, ..Folding::of_latencies(None) };
        // What had not completed has a lower bound of its latency, and of nothing else.
        let is_latency = quantity == Quantity::Latency;
        if pipeline.origin(&folding)? == Origin::Stored {
            let (series, contexts) = pipeline.series(&folding, INTERVALS)?;
            for context in contexts.iter().filter(|_| is_latency) {
                self.waiting.add(&waiting_of(reading, context), context, true);
            }
            self.unknown.push(Unknown::from_contexts(reading, &contexts));
            let source = source_of(reading);
            self.contexts.extend(contexts);
            // Of one histogram nobody knows when in it requests completed.
            let is_known = is_latency
                && !series.is_weighted()
                && series.count_by() == CountBy::Completion
                && series.slices().len() > 1;
            let stills = match is_known {
                true => Standstills::new(Completions::of_series(&series), &[]),
                false => Standstills::default(),
            };
            self.turns.push(Turn { source, events: None, series, waiting: 0, stills });
            return Ok(());
        }
        let add = |gather: &mut Gather, starts, context: &Context, batch: &Batch, mask: Option<&Mask>| {
            gather.add(starts, batch, mask);
            let refused = if is_latency { refuse_averages(context) } else { Ok(()) };
            refused.map_or_else(ControlFlow::Break, ControlFlow::Continue)
        };
        let new = || Gather::new(quantity);
        let fields = new().fields();
        let (mut gather, contexts) = pipeline.fold::<_, Error>(fields, &new, add, Gather::merge)?;
        add_counts(&mut self.kinds, &gather.kinds, usize::MAX);
        add_counts(&mut self.sizes, &gather.sizes, SIZES);
        add_sums(&mut self.bytes, &gather.bytes);
        // What hangs counts with its age, a lower bound of its latency: a side must not look fast because its slowest
        // requests never completed.
        let mut hanging = Vec::new();
        let completions = gather.completions.take().filter(|_| is_latency);
        for (number, context) in contexts.iter().enumerate().filter(|_| is_latency) {
            let waiting = waiting_of(reading, context);
            self.waiting.add(&waiting, context, false);
            if !waiting.is_empty() {
                let stalls = waiting.iter().filter(|request| request.is_stall());
                hanging.extend(stalls.map(|request| (request.start_ns, request.at_least_ns)));
                gather.add(Some(number), &Unfinished::batch(&waiting), None);
            }
        }
        let source = source_of(reading);
        self.unknown.push(Unknown::from_contexts(reading, &contexts));
        self.contexts.extend(contexts);
        let stills = completions.map(|completions| Standstills::new(completions, &hanging)).unwrap_or_default();
        self.turns.push(Turn { source, waiting: hanging.len() as u64, stills, ..gather.finish() });
        Ok(())
    }

    /// The part of the requests of a turn of which nobody knows the latency, 0 to 1: the largest.
    fn lost(&self) -> f64 {
        let each = self.turns.iter().zip(&self.unknown).map(|(turn, unknown)| unknown.share(turn.count()));
        each.fold(0.0, f64::max)
    }

    /// How requests count that had not completed, if there were any: a sentence without an end.
    pub fn waiting_note(&self) -> Option<String> {
        let Waiting { ages_ns, is_left_out, .. } = &self.waiting;
        let (count, oldest_ns) = (ages_ns.len(), ages_ns.iter().copied().max().unwrap_or(0));
        let how = match is_left_out {
            true => "stored histograms leave them out",
            false => "each counts with its age, a lower bound of its latency",
        };
        let requests = if count == 1 { "1 request".into() } else { format!("{} requests", format_count(count as u64)) };
        (count > 0).then(|| {
            let oldest = format_duration(oldest_ns);
            format!(
                "{}: {requests} had not completed when the trace ended, the oldest after {oldest}; {how}",
                self.name
            )
        })
    }

    /// Number of requests of all turns that completed.
    pub fn count(&self) -> u64 {
        self.turns.iter().map(Turn::count).sum()
    }

    /// The usual distance between the starts of requests, nanoseconds, where single events are known: the median, or the mean where
    /// a coarse clock puts several requests at one moment.
    pub fn distance_ns(&self) -> Option<u64> {
        let distances = |run: &Turn| -> Option<Vec<u64>> {
            Some(run.events.as_ref()?.windows(2).map(|pair| pair[1].0.abs_diff(pair[0].0)).collect())
        };
        let turns: Vec<Vec<u64>> = self.turns.iter().map(distances).collect::<Option<_>>()?;
        let mut distances = turns.concat();
        let mean_ns = distances.iter().sum::<u64>().checked_div(distances.len() as u64)?;
        let middle = distances.len() / 2;
        let median_ns = *distances.select_nth_unstable(middle).1;
        Some(if median_ns < mean_ns / 4 { mean_ns } else { median_ns })
    }

    /// First and last moment, nanoseconds since 1970, where the clock relates to it.
    pub fn measured(&self) -> Option<(i64, i64)> {
        let context = Context::merged(&self.contexts);
        let (from, to) = context.span_ns?;
        let to_unix_ns = context.clock.to_unix_ns.filter(|_| !context.clock.approximate)?;
        Some((from.saturating_add(to_unix_ns), to.saturating_add(to_unix_ns)))
    }
}

/// Compares sides, of which the first is the base; also hands back what of each turn was compared.
///
/// # Errors
/// When a side has no events, or the options make no sense.
pub fn compare_sides(
    subjects: &[Subject],
    options: &CompareOptions,
) -> Result<(Comparison, Vec<Vec<Sample>>), CompareError> {
    let sample = |subject: &Subject| subject.turns.iter().map(Turn::sample).collect();
    let samples: Vec<Vec<Sample>> = subjects.iter().map(sample).collect();
    let mut comparison = compare(&samples, options)?;
    // What had not completed is a lower bound among the latencies, but no request that was made.
    for (side, subject) in comparison.sides.iter_mut().zip(subjects) {
        side.count = subject.count();
        side.turns.iter_mut().zip(&subject.turns).for_each(|(turn, run)| turn.count = run.count());
    }
    let waited_ns = subjects.first().and_then(|base| base.waiting.ages_ns.iter().copied().max());
    let slowest_ns = comparison.sides.first().map_or(0, |base| base.max).max(waited_ns.unwrap_or(0));
    for pair in &mut comparison.pairs {
        let Subject { waiting, turns, .. } = &subjects[pair.other];
        pair.requests = comparison.sides[pair.other].count + waiting.ages_ns.len() as u64;
        pair.hanging_ns = waiting.ages_ns.iter().copied().filter(|&age_ns| age_ns > slowest_ns).collect();
        pair.is_cut = waiting.is_cut;
        let sides = || [&subjects[0], &subjects[pair.other]].into_iter();
        pair.lost = sides().map(Subject::lost).fold(0.0, f64::max);
        pair.is_truncated = sides().any(|side| lacks_part(&side.contexts));
        let least_ns = slowest_ns.saturating_mul(STANDSTILL).max(STANDSTILL_NS);
        let longest =
            |stills: &mut dyn Iterator<Item = Standstill>| stills.max_by(|a, b| a.share().total_cmp(&b.share()));
        pair.still = longest(&mut turns.iter().filter_map(|turn| turn.stills.longer_than(least_ns)));
        let maybe = |turn: &Turn| {
            let ended = turn.stills.longer_than(slowest_ns.max(STANDSTILL_NS)).filter(|still| still.at_end);
            ended.or_else(|| turn.slowest_of_all(least_ns))
        };
        pair.maybe_still = longest(&mut turns.iter().filter_map(maybe));
    }
    Ok((comparison, samples))
}
