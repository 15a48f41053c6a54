//! Two captures in one: requests, and stacks of threads beside them, as rows of the same batch.

use crate::{Error, Events, Sink};
use latscope_event::{Batch, Column, Context, FieldSet, MISSING_CODE};
use std::ops::ControlFlow;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// So long at most one of them is waited for while the other may have something.
const TURN: Duration = Duration::from_millis(10);

/// Requests and stacks.
pub struct Beside {
    both: [Box<dyn Events>; 2],
    context: Context,
    events: Joined,
    waiting: Joined,
    /// When both had begun, nanoseconds since 1970.
    started_ns: i64,
}

/// Rows of two batches with dictionaries of their own.
struct Joined {
    batch: Batch,
    /// For each batch and field, the codes here by those there.
    codes: [Vec<Vec<u32>>; 2],
}

impl Joined {
    fn new(fields: FieldSet) -> Joined {
        Joined { batch: Batch::new(fields), codes: [Vec::new(), Vec::new()] }
    }

    /// Appends the rows of one of the two, but for what ended before this moment.
    fn add(&mut self, which: usize, from: &Batch, started_ns: i64) {
        let fields: Vec<_> = self.batch.fields().iter().filter(|&field| from.column(field).is_some()).collect();
        let codes = &mut self.codes[which];
        codes.resize(fields.len().max(codes.len()), Vec::new());
        for (&field, codes) in fields.iter().zip(codes.iter_mut()) {
            if let Some(Column::Text(_)) = from.column(field) {
                for text in &from.dictionary(field).texts()[codes.len()..] {
                    codes.push(self.batch.intern(field, text.as_bytes()));
                }
            }
        }
        for row in 0..from.len() {
            if from.time()[row].saturating_add_unsigned(from.latency()[row]) < started_ns {
                continue;
            }
            for (&field, codes) in fields.iter().zip(codes.iter()) {
                match from.column(field) {
                    Some(Column::I64(values)) => self.batch.push_i64(field, values[row]),
                    Some(Column::U64(values)) => self.batch.push_u64(field, values[row]),
                    Some(Column::Text(texts)) => {
                        let code = codes.get(texts[row] as usize).copied().unwrap_or(MISSING_CODE);
                        self.batch.push_code(field, code);
                    }
                    None => {}
                }
            }
            self.batch.end_row();
        }
    }
}

impl Beside {
    /// Of a capture of requests and one of stacks, with these fields.
    pub fn new(requests: Box<dyn Events>, stacks: Box<dyn Events>, fields: FieldSet) -> Beside {
        // The first of the two captures while the other one begins, which takes a while: that is not a part of both.
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_ns = i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX);
        let context = merged(requests.context(), stacks.context(), started_ns);
        let (events, waiting) = (Joined::new(fields), Joined::new(fields));
        Beside { both: [requests, stacks], context, events, waiting, started_ns }
    }

    fn merged(&self) -> Context {
        merged(self.both[0].context(), self.both[1].context(), self.started_ns)
    }

    fn hand_on(&mut self, sink: &mut Sink) -> ControlFlow<()> {
        if self.events.batch.is_empty() {
            return ControlFlow::Continue(());
        }
        self.context = self.merged();
        let flow = sink(&self.context, &self.events.batch);
        self.events.batch.clear();
        flow
    }
}

/// What both say of themselves, since both had begun.
fn merged(requests: &Context, stacks: &Context, started_ns: i64) -> Context {
    let mut both = requests.clone();
    both.source = format!("{}, {}", requests.source, stacks.source);
    both.tally.merge(&stacks.tally);
    both.unfinished.extend_from_slice(&stacks.unfinished);
    both.sort_unfinished();
    both.knows_unfinished &= stacks.knows_unfinished;
    both.begun_before_ns.extend_from_slice(&stacks.begun_before_ns);
    both.loss_ranges.extend_from_slice(&stacks.loss_ranges);
    both.loss_ranges.truncate(Context::LOSS_RANGES_KEPT);
    stacks.notes.iter().for_each(|note| both.note(note.clone()));
    for (key, value) in &stacks.properties {
        both.properties.entry(key.clone()).or_insert_with(|| value.clone());
    }
    for moment in stacks.span_ns.into_iter().flat_map(|(start_ns, end_ns)| [start_ns, end_ns]) {
        both.cover(moment);
    }
    both.span_ns = both.span_ns.map(|(start_ns, end_ns)| (start_ns.max(started_ns), end_ns.max(started_ns)));
    both
}

impl Events for Beside {
    fn context(&self) -> &Context {
        &self.context
    }

    fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (events, both, started_ns) = (&mut self.events, &mut self.both, self.started_ns);
            for (which, turn) in [(0, Duration::ZERO), (1, left.min(TURN))] {
                let polled = both[which].poll(turn, &mut |_, batch| {
                    events.add(which, batch, started_ns);
                    ControlFlow::Continue(())
                });
                let _ = polled?;
            }
            if !self.events.batch.is_empty() || left.is_zero() {
                return Ok(self.hand_on(sink));
            }
        }
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        self.waiting.batch.clear();
        for (which, one) in self.both.iter_mut().enumerate() {
            self.waiting.add(which, one.waiting()?, i64::MIN);
        }
        Ok(&self.waiting.batch)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.both.iter_mut().try_for_each(|one| one.refresh())?;
        self.context = self.merged();
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink) -> Result<Context, Error> {
        let Beside { both: [requests, stacks], mut events, started_ns, .. } = *self;
        let contexts = [requests, stacks].into_iter().enumerate().map(|(which, one)| {
            one.finish(&mut |_, batch| {
                events.add(which, batch, started_ns);
                ControlFlow::Continue(())
            })
        });
        let contexts: Vec<Context> = contexts.collect::<Result<_, _>>()?;
        let context = merged(&contexts[0], &contexts[1], started_ns);
        if !events.batch.is_empty() {
            let _ = sink(&context, &events.batch);
        }
        Ok(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::{Clock, Field};

    /// Codes of one dictionary are not those of another, and what a batch has no column for is missing.
    #[test]
    fn rows_keep_their_texts() {
        let of = FieldSet::ALWAYS;
        let (mut one, mut other) =
            (Batch::new(of.with(&[Field::Kind, Field::Size])), Batch::new(of.with(&[Field::Kind, Field::State])));
        let mut joined = Joined::new(of.with(&[Field::Kind, Field::Size, Field::State]));
        let mut expected = Vec::new();
        for turn in 0..3u64 {
            one.clear();
            other.clear();
            for (batch, kinds) in [(&mut one, ["write", "read", "new"]), (&mut other, ["wait", "write", "run"])] {
                for kind in &kinds[..1 + turn as usize] {
                    batch.push_i64(Field::Time, turn as i64);
                    batch.push_u64(Field::Latency, 7);
                    batch.push_text(Field::Kind, Some(kind.as_bytes()));
                    batch.push_u64(Field::Size, 512);
                    batch.push_text(Field::State, Some(b"sleep"));
                    batch.end_row();
                    expected.push((kind.to_string(), batch.column(Field::State).is_some()));
                }
            }
            joined.add(0, &one, 0);
            joined.add(1, &other, 0);
        }
        let batch = &joined.batch;
        let rows = (0..batch.len()).map(|row| {
            assert_eq!(batch.text(Field::State, row).is_some(), batch.u64s(Field::Size).unwrap()[row] != 512);
            (batch.text(Field::Kind, row).unwrap().to_string(), batch.text(Field::State, row).is_some())
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    /// The first capture runs while the second one begins.
    #[test]
    fn what_ended_before_both_had_begun_is_left_out() {
        let mut batch = Batch::new(FieldSet::ALWAYS);
        for (time_ns, latency_ns) in [(10, 5), (10, 30), (40, 1)] {
            batch.push_i64(Field::Time, time_ns);
            batch.push_u64(Field::Latency, latency_ns);
            batch.end_row();
        }
        let mut joined = Joined::new(FieldSet::ALWAYS);
        joined.add(0, &batch, 20);
        assert_eq!(joined.batch.time(), [10, 40]);
        let context = Context { span_ns: Some((10, 41)), ..Context::new("x", Clock::wall()) };
        assert_eq!(merged(&context, &context, 20).span_ns, Some((20, 41)));
    }
}
