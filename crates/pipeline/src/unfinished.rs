//! Requests of files that had not completed when the trace ended.

use crate::named::Named;
use crate::series::common_start_ns;
use crate::{Error, Pass, Pipeline, Reading, Tagging};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, Mask, Note, Tally, Unfinished, Value};
use latscope_series::Waiter;
use std::collections::BTreeMap;

/// The property that the files of one recording have in common, if it has several, one after the other.
pub const RECORDING: &str = "recording";

impl Pipeline {
    /// The requests that wait at the end of traces from files, as far as the filter lets them through, in these groups.
    ///
    /// # Errors
    /// When the filter cannot be bound to the times of a trace.
    pub fn waiters(&self, contexts: &[Context], by: &[Field]) -> Result<Vec<Waiter>, Error> {
        let mut waiters = Vec::new();
        let start_ns = common_start_ns(&self.reading, contexts);
        let asked = self.reading.filter_fields().union(by.iter().copied().collect());
        self.each_waiting(contexts, asked, |_, context, batch| {
            let mut pass = Pass::new(&self.reading).counting_from(start_ns);
            let (batch, mask) = pass.batch(context, batch)?;
            waiters.extend(Waiter::of_batch(context, batch, mask, by));
            Ok(())
        })?;
        Ok(waiters)
    }

    /// The requests that wait at the end of each trace, with what the filter lets through, as rows whose latency is their age.
    ///
    /// # Errors
    /// When the filter cannot be bound to the times of a trace.
    pub fn each_passing_waiter(
        &self,
        contexts: &[Context],
        fields: FieldSet,
        mut take: impl FnMut(&Batch, Option<&Mask>),
    ) -> Result<(), Error> {
        let start_ns = common_start_ns(&self.reading, contexts);
        self.each_waiting(contexts, fields.union(self.reading.filter_fields()), |_, context, batch| {
            let mut pass = Pass::new(&self.reading).counting_from(start_ns);
            let (batch, mask) = pass.batch(context, batch)?;
            take(batch, mask);
            Ok(())
        })
    }

    /// What had not ended and counts as waiting, as far as the filter lets it through.
    ///
    /// # Errors
    /// When the filter cannot be bound to the times of a trace.
    pub fn passing_unfinished(&self, contexts: &[Context]) -> Result<Vec<Unfinished>, Error> {
        let mut requests = contexts.iter().flat_map(|context| &context.unfinished).filter(|request| request.counts());
        let mut passing = Vec::new();
        self.each_passing_waiter(contexts, FieldSet::ALWAYS, |batch, mask| {
            let rows = requests.by_ref().take(batch.len()).enumerate();
            passing.extend(rows.filter(|(row, _)| mask.is_none_or(|mask| mask.get(*row))).map(|(_, one)| one.clone()));
        })?;
        Ok(passing)
    }

    /// As [`keep_passing`], of the files with these numbers: what a view names as waiting is a part of what it shows.
    pub(crate) fn keep_passing(&self, numbers: impl Iterator<Item = usize>, contexts: &mut [Context]) {
        let start_ns = common_start_ns(&self.reading, contexts);
        let asked = self.reading.filter_fields();
        for (at, context) in numbers.zip(contexts).filter(|(_, context)| !context.unfinished.is_empty()) {
            let batch = self.rows_of(at, context, asked);
            keep(&self.reading, Pass::new(&self.reading).counting_from(start_ns), context, &batch);
        }
    }

    /// What waits at the end of the trace of a file.
    fn rows_of(&self, at: usize, context: &Context, asked: FieldSet) -> Batch {
        let batch = Unfinished::batch(&context.unfinished);
        match self.reading.files.get(at).and_then(|file| Named::new(file, asked)) {
            Some(mut named) => named.batch(&batch).clone(),
            None => batch,
        }
    }

    /// The requests that wait at the end of each trace, as rows whose latency is their age, with the place of its context.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn each_waiting(
        &self,
        contexts: &[Context],
        asked: FieldSet,
        mut take: impl FnMut(usize, &Context, &Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // There is a context for each file, in their order.
        for (at, context) in contexts.iter().enumerate().filter(|(_, context)| !context.unfinished.is_empty()) {
            take(at, context, &self.rows_of(at, context, asked))?;
        }
        Ok(())
    }
}

/// Drops what waited at the end of a file where a later file of the same recording is among the traces: there it is an event, or waits still.
pub(crate) fn keep_latest(contexts: &mut [Context]) {
    for at in continued(contexts) {
        let context = &mut contexts[at];
        let mut gone = Tally::default();
        gone.add(Anomaly::Unfinished, context.tally.get(Anomaly::Unfinished));
        context.tally = context.tally.since(&gone);
        context.unfinished.clear();
    }
}

/// The places of the traces with requests in flight at their end that a later file of the same recording has, too: as events, or waiting still.
pub fn continued(contexts: &[Context]) -> Vec<usize> {
    let part = |context: &Context| Some((context.properties.get(RECORDING)?.clone(), context.host.clone()));
    let end_ns = |context: &Context| context.span_ns.map_or(i64::MIN, |(_, to_ns)| to_ns);
    let mut latest: BTreeMap<_, i64> = BTreeMap::new();
    for (context, part) in contexts.iter().filter_map(|context| Some((context, part(context)?))) {
        latest.entry(part).and_modify(|latest| *latest = end_ns(context).max(*latest)).or_insert(end_ns(context));
    }
    let is_later = |context: &Context| part(context).is_some_and(|part| latest[&part] > end_ns(context));
    let waits = |context: &Context| !context.unfinished.is_empty() || context.tally.get(Anomaly::Unfinished) > 0;
    (0..contexts.len()).filter(|&at| waits(&contexts[at]) && is_later(&contexts[at])).collect()
}

/// Drops the unfinished requests that the filter does not let through, before a trace is written, and gives the others their tags. Those
/// that do not count as waiting stay: they are an account of what may be missing.
pub fn keep_passing(reading: &Reading, context: &mut Context) {
    let batch = Unfinished::batch(&context.unfinished);
    keep(reading, Pass::new(reading), context, &batch);
}

/// The same with the rows of those that count.
fn keep(reading: &Reading, mut pass: Pass, context: &mut Context, batch: &Batch) {
    let Ok((batch, mask)) = pass.batch(context, batch) else { return };
    let tagged = reading.tagging.as_ref().map_or(FieldSet::EMPTY, Tagging::fields);
    let (mut rows, mut left_out) = (0..batch.len(), 0);
    context.unfinished.retain_mut(|request| {
        let Some(row) = request.counts().then(|| rows.next()).flatten() else { return true };
        for field in tagged.iter() {
            if let Some(text) = batch.text(field, row) {
                request.values.insert(field.name().to_owned(), Value::Text(text.into()));
            }
        }
        let passes = mask.is_none_or(|mask| mask.get(row));
        left_out += u64::from(!passes && request.is_stall());
        passes
    });
    let mut gone = Tally::default();
    gone.add(Anomaly::Unfinished, left_out);
    context.tally = context.tally.since(&gone);
    if let Some(Note::UnknownDevice { mut count, mut time_ns }) = pass.unplaced() {
        // What has not ended is left out beside what has.
        for note in &context.notes {
            if let Note::UnknownDevice { count: ended, time_ns: ended_ns } = note {
                (count, time_ns) = (count + ended, time_ns.saturating_add(*ended_ns));
            }
        }
        context.notes.retain(|note| !matches!(note, Note::UnknownDevice { .. }));
        context.note(Note::UnknownDevice { count, time_ns });
    }
}
