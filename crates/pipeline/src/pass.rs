//! The filter over the batches of one trace.

use crate::tags::{Tagger, Tagging};
use crate::{Error, Reading};
use latscope_event::{
    Batch, Column, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64, Mask, Note, TraceStart,
};
use latscope_filter::{BoundFilter, Filter};

/// The filter of a reading over the batches of one trace: a file, a capture, or what waits.
pub struct Pass<'a> {
    reading: &'a Reading,
    /// Where relative times count from, if not from the start of the trace itself.
    start_ns: Option<i64>,
    bound: Option<BoundFilter>,
    mask: Mask,
    shifted: Batch,
    tagger: Option<Tagger>,
    /// Fields of the filter that no event has had so far; empty once an event has passed.
    missing: FieldSet,
    has_events: bool,
    /// Latencies shall count from the queue, and no event has had a time there so far.
    lacks_queue: bool,
    unplaced: Option<Unplaced>,
    /// Events that had begun before the capture, which pass, and the longest of them, nanoseconds.
    begun_before: (u64, u64),
}

/// Waits for storage that only the filter's conditions on a device leave out, while nobody knows which device they are for.
struct Unplaced {
    /// The other conditions, if there are any.
    others: Option<Filter>,
    bound: Option<BoundFilter>,
    mask: Mask,
    count: u64,
    time_ns: u64,
}

impl Unplaced {
    /// `None` where the filter does not ask for a device.
    fn new(filter: &Filter) -> Option<Unplaced> {
        let device = FieldSet::EMPTY.with(&[Field::Device, Field::Dev]);
        filter.fields().iter().any(|field| device.contains(field)).then(|| Unplaced {
            others: filter.only_about(FieldSet::EVERY.without(device)),
            bound: None,
            mask: Mask::default(),
            count: 0,
            time_ns: 0,
        })
    }

    /// Adds those of a batch, of which the filter let these through.
    fn add(&mut self, batch: &Batch, passed: &Mask, start: TraceStart) -> Result<(), Error> {
        let Some(states) = batch.codes(Field::State) else { return Ok(()) };
        let texts = batch.dictionary(Field::State).texts();
        let Some(asleep) = texts.iter().position(|text| &**text == "disk sleep") else { return Ok(()) };
        let is_known = |field: Field, row: usize| batch.codes(field).is_some_and(|codes| codes[row] != MISSING_CODE);
        let is_one = |row: usize| {
            states[row] == asleep as u32
                && !passed.get(row)
                && !is_known(Field::Device, row)
                && !is_known(Field::Dev, row)
        };
        if !(0..batch.len()).any(is_one) {
            return Ok(());
        }
        if let (Some(others), None) = (&self.others, &self.bound) {
            self.bound = Some(others.bind(start)?);
        }
        if let Some(bound) = &mut self.bound {
            bound.eval(batch, &mut self.mask);
        }
        let is_wanted = |row: &usize| is_one(*row) && (self.bound.is_none() || self.mask.get(*row));
        let weights = batch.i64s(Field::SampleWeight);
        for row in (0..batch.len()).filter(is_wanted) {
            let weight = weights.map_or(1, |weights| weights[row].max(1).unsigned_abs());
            self.count += weight;
            self.time_ns = self.time_ns.saturating_add(batch.latency()[row].saturating_mul(weight));
        }
        Ok(())
    }
}

impl<'a> Pass<'a> {
    /// Over a trace of which nothing was seen yet.
    pub fn new(reading: &'a Reading) -> Pass<'a> {
        let missing = reading.filter.as_ref().map_or(FieldSet::default(), Filter::fields);
        let shifted = Batch::new(FieldSet::ALWAYS);
        let tagger = reading.tagging.as_ref().and_then(Tagger::new);
        let (start_ns, bound, mask, has_events) = (None, None, Mask::default(), false);
        let lacks_queue = reading.from_queue;
        let unplaced = reading.filter.as_ref().and_then(Unplaced::new);
        Pass {
            reading,
            start_ns,
            bound,
            mask,
            shifted,
            tagger,
            missing,
            has_events,
            lacks_queue,
            unplaced,
            begun_before: (0, 0),
        }
    }

    /// Counts relative times of the filter from here: of several traces, from the start of the earliest.
    #[must_use]
    pub fn counting_from(self, start_ns: Option<i64>) -> Pass<'a> {
        Pass { start_ns, ..self }
    }

    /// Fields of the filter that no event has, which may be why nothing passed.
    pub fn missing_fields(&self) -> FieldSet {
        if self.has_events { self.missing } else { FieldSet::default() }
    }

    /// That no event has a time in the queue, where latencies shall count from there; how far tags and events may be apart, where a
    /// database was asked, what came by a socket, and that a tag is missing.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes: Vec<Note> =
            (self.lacks_queue && self.has_events).then_some(Note::NoQueueTimes).into_iter().collect();
        notes.extend(self.reading.tagging.as_ref().map_or(Vec::new(), Tagging::notes));
        notes.extend(self.tagger.as_ref().filter(|_| self.has_events).and_then(Tagger::note));
        notes.extend(self.unplaced());
        let (count, longest_ns) = self.begun_before;
        notes.extend((count > 0).then_some(Note::BegunBefore { count, longest_ns }));
        notes
    }

    /// How many waits for storage the filter left out as nobody knows their device.
    pub fn unplaced(&self) -> Option<Note> {
        let unplaced = self.unplaced.as_ref().filter(|unplaced| unplaced.count > 0)?;
        Some(Note::UnknownDevice { count: unplaced.count, time_ns: unplaced.time_ns })
    }

    /// The batch, with latencies as the reading wants them, and what the filter lets through (`None`: everything).
    ///
    /// # Errors
    /// When the context does not have the times that the filter compares with.
    pub fn batch<'b>(
        &'b mut self,
        context: &Context,
        batch: &'b Batch,
    ) -> Result<(&'b Batch, Option<&'b Mask>), Error> {
        self.bind(context)?;
        let batch = if self.reading.from_queue {
            self.lacks_queue = self.lacks_queue && !has(batch, Field::Queue);
            self.shifted = batch.counted_from_queue();
            &self.shifted
        } else {
            batch
        };
        let batch = match &mut self.tagger {
            Some(tagger) => tagger.batch(context, batch),
            None => batch,
        };
        self.has_events |= !batch.is_empty();
        let Some(bound) = &mut self.bound else {
            count_begun_before(context, batch, None, &mut self.begun_before);
            return Ok((batch, None));
        };
        bound.eval(batch, &mut self.mask);
        count_begun_before(context, batch, Some(&self.mask), &mut self.begun_before);
        if let Some(unplaced) = &mut self.unplaced {
            unplaced.add(batch, &self.mask, trace_start(context, self.start_ns))?;
        }
        if self.missing != FieldSet::default() {
            let passed = self.mask.count() > 0;
            self.missing = self.missing.iter().filter(|&field| !passed && !has(batch, field)).collect();
        }
        Ok((batch, Some(&self.mask)))
    }

    /// Resolves the filter's times by this context, unless that was done.
    ///
    /// # Errors
    /// When the context has no such times.
    pub fn bind(&mut self, context: &Context) -> Result<(), Error> {
        if let (Some(filter), None) = (&self.reading.filter, &self.bound) {
            self.bound = Some(filter.bind(trace_start(context, self.start_ns))?);
        }
        Ok(())
    }
}

/// Counts what passes and had begun before the capture.
fn count_begun_before(context: &Context, batch: &Batch, mask: Option<&Mask>, (count, longest_ns): &mut (u64, u64)) {
    if context.begun_before_ns.is_empty() {
        return;
    }
    for (row, (&start_ns, &latency_ns)) in batch.time().iter().zip(batch.latency()).enumerate() {
        if context.had_begun(start_ns) && mask.is_none_or(|mask| mask.get(row)) {
            (*count, *longest_ns) = (*count + 1, latency_ns.max(*longest_ns));
        }
    }
}

/// Where a trace starts for a filter: at the common start of several traces, where there is one.
pub fn trace_start(context: &Context, common_ns: Option<i64>) -> TraceStart {
    let own = context.trace_start();
    TraceStart { start_ns: common_ns.or(own.start_ns), ..own }
}

/// Whether a filter compares with times that count from the start of a trace.
pub fn is_relative(filter: &Filter) -> bool {
    filter.bind(TraceStart { start_ns: None, to_unix_ns: Some(0) }).is_err()
}

/// Whether an event of the batch has a value of this field.
fn has(batch: &Batch, field: Field) -> bool {
    match batch.column(field) {
        Some(Column::Text(codes)) => codes.iter().any(|&code| code != MISSING_CODE),
        Some(Column::I64(values)) => values.iter().any(|&value| value != MISSING_I64),
        Some(Column::U64(values)) => values.iter().any(|&value| value != MISSING_U64),
        None => false,
    }
}
