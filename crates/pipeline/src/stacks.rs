//! Call stacks of files or of a capture, merged from the root.

use crate::{Control, Error, Marked, Pass, Pipeline, Reading, keep_passing};
use latscope_event::{Context, Field, Mask};
use latscope_filter::Filter;
use latscope_series::{StackTree, StackWidth};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long a capture waits for events between two looks.
const TURN: Duration = Duration::from_millis(100);

impl Pipeline {
    fn empty_stacks(&self, by: &[Field]) -> StackTree {
        StackTree::new(by.to_vec()).with_tag(self.reading.tagging.as_ref().and_then(|tagging| tagging.key()))
    }

    /// The stacks of all events that the filter lets through, below these fields, with what waits still.
    ///
    /// # Errors
    /// When input or capture fail.
    pub fn stacks(&self, by: &[Field]) -> Result<(StackTree, Vec<Context>), Error> {
        if self.reading.live.is_some() {
            let never = Duration::MAX;
            let (tree, context) = self.watch_stacks(by, never, |_, _| Ok::<_, Error>(()))?;
            return Ok((tree, vec![context]));
        }
        let new = || self.empty_stacks(by);
        let fields = new().fields();
        let (mut tree, contexts) = self.fold(
            fields,
            &new,
            |tree: &mut StackTree, starts, _, batch, mask| {
                if starts.is_some() {
                    tree.start_trace();
                }
                tree.add(batch, mask);
                ControlFlow::<Error>::Continue(())
            },
            |tree, other| tree.merge(&other),
        )?;
        self.each_passing_waiter(&contexts, fields, |batch, mask| tree.add_waiting(batch, mask))?;
        Ok((tree, contexts))
    }

    /// Captures until it is over, and shows the stacks so far, with what waits at that moment, every so often. Returns those of the
    /// whole capture.
    ///
    /// # Errors
    /// What the caller fails with; and when the capture fails.
    pub fn watch_stacks<E: From<Error>>(
        &self,
        by: &[Field],
        every: Duration,
        mut show: impl FnMut(&StackTree, &Context) -> Result<(), E>,
    ) -> Result<(StackTree, Context), E> {
        let mut tree = self.empty_stacks(by);
        let mut events = self.capture(tree.fields())?;
        let mut shown = Instant::now();
        while !events.is_over() {
            events.poll(TURN.min(every), &mut |_, batch, mask| {
                tree.add(batch, mask);
                ControlFlow::<E>::Continue(())
            })?;
            if shown.elapsed() >= every {
                let mut now = tree.clone();
                events.waiting(&mut |_, batch, mask| {
                    now.add_waiting(batch, mask);
                    ControlFlow::<E>::Continue(())
                })?;
                let mut context = events.context().clone();
                keep_passing(&self.reading, &mut context);
                show(&now, &context)?;
                shown = Instant::now();
            }
        }
        // What waits when the capture ends has dictionaries of its own; the events that are left have not.
        let mut waiting = self.empty_stacks(by);
        events.waiting(&mut |_, batch, mask| {
            waiting.add_waiting(batch, mask);
            ControlFlow::<E>::Continue(())
        })?;
        let context = events.finish(&mut |_, batch, mask| {
            tree.add(batch, mask);
            ControlFlow::<E>::Continue(())
        })?;
        tree.merge(&waiting);
        Ok((tree, context))
    }

    /// The stacks of a selection, and of what it is compared with, which leaves the selection out. The filter of the reading is
    /// the selection; without one, that is all that it is not compared with. What waits still is on its side with its age.
    ///
    /// # Errors
    /// When input or capture fail.
    pub fn stacks_against(&self, by: &[Field], against: &Filter) -> Result<([StackTree; 2], Vec<Context>), Error> {
        let all = Pipeline {
            reading: Reading { filter: None, typed_filter: None, ..self.reading.clone() },
            control: Control::clone(&self.control),
            formats: self.formats.clone(),
            takes_averages: self.takes_averages,
            fio_results: self.fio_results.clone(),
        };
        let mut trees = [self.empty_stacks(by), self.empty_stacks(by)];
        let filters: Vec<&Filter> = std::iter::once(against).chain(&self.reading.filter).collect();
        let fields = trees[0].fields();
        let contexts = all.each_marked(fields, &filters, |marked: Marked| {
            for (tree, mask) in trees.iter_mut().zip(sides(marked.marks, marked.batch.len())) {
                if marked.starts {
                    tree.start_trace();
                }
                tree.add(marked.batch, Some(&mask));
            }
            ControlFlow::<Error>::Continue(())
        })?;
        let starts_ns = contexts.iter().filter(|_| contexts.len() > 1).filter_map(Context::trace_start_ns);
        let start_ns = starts_ns.min();
        let asked = filters.iter().fold(fields, |fields, filter| fields.union(filter.fields()));
        let marking: Vec<Reading> =
            filters.iter().map(|&filter| Reading { filter: Some(filter.clone()), ..Reading::default() }).collect();
        all.each_waiting(&contexts, asked, |_, context, batch| {
            let mut own = Pass::new(&all.reading);
            let (batch, _) = own.batch(context, batch)?;
            let mark = |reading| {
                let mut pass = Pass::new(reading).counting_from(start_ns);
                Ok(pass.batch(context, batch)?.1.cloned().unwrap_or_default())
            };
            let marks = marking.iter().map(mark).collect::<Result<Vec<Mask>, Error>>()?;
            for (tree, mask) in trees.iter_mut().zip(sides(&marks, batch.len())) {
                tree.add_waiting(batch, Some(&mask));
            }
            Ok(())
        })?;
        Ok((trees, contexts))
    }
}

/// Fails where there are events and none has a stack, and where shares of time are asked for and no event took any.
///
/// # Errors
/// [`Error::NoStacks`] and [`Error::NoStackTimes`].
pub fn refuse_stacks(tree: &StackTree, width: StackWidth) -> Result<(), Error> {
    let (total, without) = (tree.total(), tree.without());
    if without.samples > 0 && total.samples == 0 {
        return Err(Error::NoStacks(without.events));
    }
    if width == StackWidth::Time && total.samples > 0 && total.time_ns == 0 {
        return Err(Error::NoStackTimes);
    }
    Ok(())
}

/// The selection, and what it is compared with, of so many rows with the marks of the latter and, where there is one, of the
/// filter that selects.
fn sides(marks: &[Mask], rows: usize) -> [Mask; 2] {
    let mut baseline = marks.first().cloned().unwrap_or_default();
    let selected = marks.get(1).cloned().unwrap_or_else(|| {
        let mut others = Mask::filled(rows, true);
        others.and_not(&baseline);
        others
    });
    baseline.and_not(&selected);
    [selected, baseline]
}
