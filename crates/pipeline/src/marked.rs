//! Events with marks: beside the filter of the reading, which of further filters let each through.

use crate::derived::{self, Gathered, Room};
use crate::pass::trace_start;
use crate::starts::Starts;
use crate::{Error, Pass, Pipeline, Reading};
use latscope_event::{Batch, Context, FieldSet, Mask};
use latscope_filter::Filter;
use std::ops::ControlFlow;

/// A batch with the answers of several filters.
pub struct Marked<'a> {
    /// What the trace says of itself so far.
    pub context: &'a Context,
    /// The events.
    pub batch: &'a Batch,
    /// What the filter of the reading lets through; `None`: everything.
    pub mask: Option<&'a Mask>,
    /// What each of the further filters lets through.
    pub marks: &'a [Mask],
    /// Whether this is the first batch of a trace.
    pub starts: bool,
    /// Where relative times of filters count from, on the clock of the trace.
    pub start_ns: Option<i64>,
}

impl Pipeline {
    /// As [`Pipeline::each_batch`], with the answers of further filters. Derived fields of a capture are known here, too: its events
    /// are handed on when it is over.
    ///
    /// # Errors
    /// What the caller breaks with; and when input or capture fail.
    pub fn each_marked<E: From<Error>>(
        &self,
        fields: FieldSet,
        filters: &[&Filter],
        mut take: impl FnMut(Marked) -> ControlFlow<E>,
    ) -> Result<Vec<Context>, E> {
        let fields = filters.iter().fold(fields, |fields, filter| fields.union(filter.fields()));
        let is_several = self.reading.files.len() > 1 && self.reading.live.is_none();
        let common_ns = if is_several { Starts::new(self)?.earliest_ns() } else { None };
        let readings: Vec<Reading> =
            filters.iter().map(|&filter| Reading { filter: Some(filter.clone()), ..Reading::default() }).collect();
        let new_passes = || readings.iter().map(|reading| Pass::new(reading).counting_from(common_ns)).collect();
        let mut passes: Vec<Pass> = new_passes();
        let mut marks = vec![Mask::default(); filters.len()];
        let mut mark = |context: &Context, batch: &Batch, mask: Option<&Mask>, starts: bool| {
            if starts {
                passes = new_passes();
            }
            for (pass, mark) in passes.iter_mut().zip(&mut marks) {
                match pass.batch(context, batch) {
                    Ok((_, Some(mask))) => mark.clone_from(mask),
                    Ok((_, None)) => mark.reset(batch.len(), true),
                    Err(error) => return ControlFlow::Break(error.into()),
                }
            }
            let start_ns = trace_start(context, common_ns).start_ns;
            take(Marked { context, batch, mask, marks: &marks, starts, start_ns })
        };
        match self.reading.live {
            Some(_) => self.captured(fields, mark).map(|context| vec![context]),
            None => self.each_batch(fields, &mut mark),
        }
    }

    /// The events of a capture, as they come or, with derived fields, when it is over.
    fn captured<E: From<Error>>(
        &self,
        fields: FieldSet,
        mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<E>,
    ) -> Result<Context, E> {
        let (derived, needed) = derived::split(fields.union(self.reading.filter_fields()));
        if derived == FieldSet::EMPTY {
            return Ok(self.watch(fields, &[], take)?.0);
        }
        // What was in flight depends on what the filter leaves out.
        let all = Pipeline {
            reading: Reading { filter: None, ..self.reading.clone() },
            control: self.control.clone(),
            formats: Vec::new(),
            takes_averages: false,
            fio_results: self.fio_results.clone(),
        };
        let (room, mut gathered) = (Room::default(), Gathered::new(derived));
        let (context, _) = all.watch(needed, &[], |_, batch, _, _| match gathered.add(batch, &room) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(E::from(error)),
        })?;
        // The latency was chosen when the events were captured.
        let reading = Reading { from_queue: false, ..self.reading.clone() };
        let (mut pass, mut starts, mut failure) = (Pass::new(&reading), true, None);
        gathered.hand_on(|batch| {
            let flow = match pass.batch(&context, batch) {
                Ok((batch, mask)) => take(&context, batch, mask, std::mem::take(&mut starts)),
                Err(error) => ControlFlow::Break(error.into()),
            };
            flow.map_break(|error| failure = Some(error))
        });
        failure.map_or(Ok(context), Err)
    }
}
