//! Batches of a file that holds nothing but records of the blk tracer.

use super::{ActionRecord, BlockActions, FILLS};
use crate::{ReadOptions, Sink};
use latscope_event::{Batch, Context, LossRange};
use std::ops::ControlFlow;

/// Records of the blk tracer to batches.
pub struct ActionEvents<'a, 's> {
    /// What becomes known of the trace.
    pub context: Context,
    /// How many records there were.
    pub records: u64,
    actions: BlockActions,
    batch: Batch,
    sink: &'a mut Sink<'s>,
    is_over: bool,
}

impl<'a, 's> ActionEvents<'a, 's> {
    /// Hands batches with the wanted fields to `sink`.
    pub fn new(context: Context, options: &ReadOptions, sink: &'a mut Sink<'s>) -> ActionEvents<'a, 's> {
        let batch = Batch::new(options.fields.intersection(FILLS));
        let actions = BlockActions::new(options.each_request_once);
        ActionEvents { context, records: 0, actions, batch, sink, is_over: false }
    }

    /// Adds the next record in time order, of a thread with this name; breaks when nobody wants more.
    #[inline]
    pub fn add(&mut self, record: &ActionRecord, comm: [u8; 16]) -> ControlFlow<()> {
        self.records += 1;
        self.actions.add(record, comm, &mut self.batch, &mut self.context);
        if self.batch.is_full() { self.hand_on() } else { ControlFlow::Continue(()) }
    }

    /// The tracer lost records.
    pub fn lose(&mut self, range: LossRange) {
        self.actions.lose(range, &mut self.context);
    }

    /// Hands on the events that there are; breaks when nobody wants more.
    pub fn hand_on(&mut self) -> ControlFlow<()> {
        if !self.batch.is_empty() && !self.is_over {
            self.is_over = (self.sink)(&self.context, &self.batch).is_break();
            self.batch.clear();
        }
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The trace is over.
    pub fn finish(mut self) -> Context {
        self.actions.settle(&mut self.batch, &mut self.context);
        let _ = self.hand_on();
        self.actions.finish(&mut self.context);
        self.context
    }
}
