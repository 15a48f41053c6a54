//! Probes as a source.

use super::events::Sink;
use super::passing::Running;
use super::{Take, Until};
use crate::files::note_missing;
use crate::{Error, Folding, Intervals, Pass, Pipeline};
use latscope_capture_probe::Capture;
use latscope_event::{Batch, Context, FieldSet};
use std::time::Duration;

impl Pipeline {
    /// As [`Pipeline::intervals`], of the requests of probes that run, for so many nanoseconds or until it is cancelled. Requests that
    /// an open loop could not make wait as those in flight do. Files and captures of the reading have no part in it.
    ///
    /// # Errors
    /// What the taker breaks off with; and when the filter compares with times that there are not.
    pub fn probed_intervals<T: Intervals>(
        &self,
        capture: Capture,
        for_ns: Option<u64>,
        folding: &Folding,
        taker: &mut T,
    ) -> Result<Context, T::Error> {
        let (pass, waits) = (Pass::new(&self.reading), Pass::new(&self.reading));
        let until = Until::after(for_ns, &self.control);
        self.intervals_of(Probed { capture, pass, waits, until, has_ended: false }, folding, taker)
    }
}

/// Probes that run, and the filter on their requests and on those that wait.
struct Probed<'a> {
    capture: Capture,
    pass: Pass<'a>,
    /// What waits has dictionaries of its own.
    waits: Pass<'a>,
    until: Until,
    /// All requests were made.
    has_ended: bool,
}

impl Running for Probed<'_> {
    fn is_over(&self) -> bool {
        self.has_ended || self.until.is_over()
    }

    fn poll<E: From<Error>>(&mut self, longest: Duration, take: &mut Take<E>) -> Result<(), E> {
        let mut sink = Sink { pass: &mut self.pass, take, failure: None };
        let longest = self.until.turn(longest);
        let more = self.capture.poll_events(longest, &mut |context, batch| sink.batch(context, batch));
        if sink.failure.is_none() {
            self.has_ended = !more;
            let _ = sink.batch(&self.capture.account(), &Batch::new(FieldSet::ALWAYS));
        }
        sink.failure.map_or(Ok(()), Err)
    }

    fn waiting<E: From<Error>>(&mut self, take: &mut Take<E>) -> Result<(), E> {
        let waiting = self.capture.waiting();
        let mut sink = Sink { pass: &mut self.waits, take, failure: None };
        let _ = sink.batch(&self.capture.account(), &waiting);
        sink.failure.map_or(Ok(()), Err)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.capture.follow_clock();
        Ok(())
    }

    fn context(&self) -> Context {
        self.capture.account()
    }

    fn finish<E: From<Error>>(mut self, take: &mut Take<E>) -> Result<Context, E> {
        let mut sink = Sink { pass: &mut self.pass, take, failure: None };
        let mut context = self.capture.finish_events(&mut |context, batch| sink.batch(context, batch));
        note_missing(&mut context, sink.pass.missing_fields());
        sink.failure.map_or(Ok(context), Err)
    }
}
