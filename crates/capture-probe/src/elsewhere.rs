//! Where there is no Linux below us: nothing can be probed, and that is reported.

use crate::{Error, Place, Probe, Sample};
use latscope_event::{Batch, Context, FieldSet};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// What takes the events of a probe.
pub type Sink<'a> = dyn FnMut(&Context, &Batch) -> ControlFlow<()> + 'a;

/// What takes the samples of a worker in the worker's own thread.
pub type Fold = Box<dyn FnMut(&[Sample]) + Send>;

/// A request that was made and is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outstanding {
    /// Number of its target, in the order in which they were given.
    pub target: usize,
    /// From when its latency counts, nanoseconds since the start of the capture: see [`Sample::latency_ns`].
    pub since_ns: u64,
    /// How long that is ago: its latency is at least this, nanoseconds.
    pub age_ns: u64,
}

/// Requests of an open loop that are due and cannot be made, since as many as may be are in flight and none of them ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overdue {
    /// Number of their target.
    pub target: usize,
    /// How many.
    pub count: u64,
    /// How long ago the first was due: its latency is at least this, nanoseconds.
    pub age_ns: u64,
    /// The age of each is so much less than that of the one before, nanoseconds.
    pub step_ns: f64,
}

/// What became of buffered writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settled {
    /// Bytes that were in memory alone when the last request was done.
    pub in_memory: Option<u64>,
    /// Bytes of these that were left there.
    pub left: u64,
    /// How long the rest took to reach the device.
    pub took: Duration,
    /// Bytes that the device wrote.
    pub device: Option<u64>,
}

/// Probes that run; on this platform there are no probes.
pub struct Capture(Infallible);

impl Capture {
    /// Says that there is no Linux.
    ///
    /// # Errors
    /// [`Error::NotLinux`], always.
    pub fn start(_: Vec<Probe>) -> Result<Capture, Error> {
        Err(Error::NotLinux)
    }

    /// The same.
    ///
    /// # Errors
    /// [`Error::NotLinux`], always.
    pub fn start_folding(_: Vec<Probe>, _: impl FnMut(usize) -> Fold) -> Result<Capture, Error> {
        Err(Error::NotLinux)
    }

    /// What the user should know.
    pub fn remarks(&self) -> &[String] {
        match self.0 {}
    }

    /// What a target lies on.
    pub fn place(&self, _: usize) -> &Place {
        match self.0 {}
    }

    /// The call that makes the requests of a target.
    pub fn call(&self, _: usize) -> &'static str {
        match self.0 {}
    }

    /// Nanoseconds since the start.
    pub fn elapsed_ns(&self) -> u64 {
        match self.0 {}
    }

    /// Unix time of the start, nanoseconds.
    pub fn start_unix_ns(&self) -> i64 {
        match self.0 {}
    }

    /// No more requests are started.
    pub fn stop(&self) {
        match self.0 {}
    }

    /// Waits until there are samples.
    pub fn poll(&mut self, _: Duration, _: &mut dyn FnMut(usize, &[Sample])) -> bool {
        match self.0 {}
    }

    /// The fields of its events.
    pub fn fields(&self) -> FieldSet {
        match self.0 {}
    }

    /// Samples of a target as events.
    pub fn events(&mut self, _: usize, _: &[Sample]) -> &Batch {
        match self.0 {}
    }

    /// Waits until there are events.
    pub fn poll_events(&mut self, _: Duration, _: &mut Sink<'_>) -> bool {
        match self.0 {}
    }

    /// The requests that are not done, as events.
    pub fn waiting(&mut self) -> Batch {
        match self.0 {}
    }

    /// The wall clock was set.
    pub fn follow_clock(&mut self) {
        match self.0 {}
    }

    /// All requests in flight.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        match self.0 {}
    }

    /// Requests that are due and cannot be made.
    pub fn overdue(&self) -> Vec<Overdue> {
        match self.0 {}
    }

    /// Brings what was written to the device.
    pub fn settle(&mut self, _: Duration) -> Settled {
        match self.0 {}
    }

    /// Whether nothing more is to be expected.
    pub fn is_given_up(&self, _: u64) -> bool {
        match self.0 {}
    }

    /// Runs to the end.
    pub fn run(self, _: &mut Sink<'_>) -> Context {
        match self.0 {}
    }

    /// Stops.
    pub fn finish(self, _: &mut dyn FnMut(usize, &[Sample])) -> Context {
        match self.0 {}
    }

    /// The same.
    pub fn finish_events(self, _: &mut Sink<'_>) -> Context {
        match self.0 {}
    }

    /// What the trace says about itself by now.
    pub fn account(&self) -> Context {
        match self.0 {}
    }
}

/// What an experiment would be tried on.
pub(crate) struct Target;

impl Target {
    pub fn open(_: &Probe) -> Result<Target, Error> {
        Err(Error::NotLinux)
    }
}

/// Not known.
pub(crate) fn dirty_limit(_: &Path) -> Option<u64> {
    None
}

/// Not known.
pub(crate) fn free_space(_: &Path) -> Option<u64> {
    None
}
