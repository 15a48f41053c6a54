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
}

impl<'a> Pass<'a> {
    /// Over a trace of which nothing was seen yet.
    pub fn new(reading: &'a Reading) -> Pass<'a> {
        let missing = reading.filter.as_ref().map_or(FieldSet::default(), Filter::fields);
        let shifted = Batch::new(FieldSet::ALWAYS);
        let tagger = reading.tagging.as_ref().and_then(Tagger::new);
        let (start_ns, bound, mask, has_events) = (None, None, Mask::default(), false);
        let lacks_queue = reading.from_queue;
        Pass { reading, start_ns, bound, mask, shifted, tagger, missing, has_events, lacks_queue }
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
        notes
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
        let Some(bound) = &mut self.bound else { return Ok((batch, None)) };
        bound.eval(batch, &mut self.mask);
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
