//! Intervals of one host as a hub hands on what it merged: for an agent that pushes without a hub.

use crate::reduce::interval_parts;
use crate::{Closed, Groups, Hello, Merged};
use latscope_event::Tally;
use latscope_series::HistogramSeries;
use std::sync::Arc;

/// Makes intervals that passed into what exports take.
pub struct Passing {
    width_ns: u64,
    fields: Vec<String>,
    /// The first interval that has not passed.
    next: Option<i64>,
    tally: Tally,
}

impl Passing {
    /// For the intervals of a run.
    pub fn new(hello: &Hello) -> Passing {
        Passing { width_ns: hello.width_ns, fields: hello.fields.clone(), next: None, tally: Tally::default() }
    }

    /// The wall clock was set: numbers of intervals that passed may come again.
    pub fn clock_stepped(&mut self) {
        self.next = None;
    }

    /// Intervals that passed, with what waits at the end of the last one; the tally is that of the capture so far.
    pub fn closed(&mut self, series: &HistogramSeries, before: i64, tally: &Tally) -> Closed {
        let mut closed = Closed { width_ns: self.width_ns, fields: self.fields.clone(), ..Closed::default() };
        let labels: Vec<Arc<[String]>> = series.groups().iter().map(|labels| labels.to_vec().into()).collect();
        for &interval in series.slices().keys() {
            let (mut done, mut waiting) = (Groups::new(), Groups::new());
            for (group, parts) in interval_parts(series, interval) {
                let Some(labels) = labels.get(group as usize) else { continue };
                done.extend(parts.done.map(|done| (Arc::clone(labels), done)));
                waiting.extend(parts.waiting.map(|ages| (Arc::clone(labels), ages)));
            }
            let is_late = self.next.is_some_and(|next| interval < next);
            let tally = tally.since(&std::mem::replace(&mut self.tally, tally.clone()));
            closed.intervals.push(Merged { interval, is_late, done, tally });
            closed.waiting = waiting;
        }
        self.next = self.next.max(Some(before));
        closed
    }
}
