//! The event mode.

use super::rows::Rows;
use super::shared::{Record, mode};
use super::tracing::{FILLS, Tracing, config, open};
use super::waits::Waits;
use crate::loader::{Raw, Ring};
use crate::{Error, Events, Options, Sink};
use latscope_event::{Anomaly, Batch, Context};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How often the account of losses is read while events come.
const ACCOUNT_EVERY: Duration = Duration::from_millis(200);

/// A capture of events.
pub struct CallEvents {
    tracing: Tracing,
    ring: Ring,
    rows: Rows,
    waits: Waits,
    records: Vec<u8>,
    accounted: Instant,
}

impl CallEvents {
    /// Loads and attaches.
    pub fn start(options: &Options) -> Result<CallEvents, Error> {
        let (kernel, calls, mut opened) = open(options)?;
        opened.configure(&config(options, &calls, mode::EVENTS, 0))?;
        let smallest = Options::RING_BYTES.min(4096);
        opened.set_entries("events", options.ring_bytes.max(smallest).next_power_of_two())?;
        let tracing = Tracing::start(options, kernel, calls, opened)?;
        let ring = tracing.loaded.ring("events")?;
        let fields = options.fields.intersection(FILLS);
        Ok(CallEvents {
            tracing,
            ring,
            rows: Rows::new(fields),
            waits: Waits::new(fields),
            records: Vec::new(),
            accounted: Instant::now(),
        })
    }

    /// Hands on what is in the ring now, after waiting at most so long for it; whether there was any.
    fn pass_on(&mut self, timeout: Duration, sink: &mut Sink) -> Result<(bool, ControlFlow<()>), Error> {
        self.ring.read(timeout, Batch::ROWS, &mut self.records)?;
        if self.records.is_empty() {
            return Ok((false, ControlFlow::Continue(())));
        }
        let Tracing { calls, clock, context, .. } = &mut self.tracing;
        let mut rest = &self.records[..];
        while rest.len() >= Record::SIZE {
            let record = Record::read(rest);
            let len = Record::SIZE + record.texts_len();
            let (bytes, next) = rest.split_at(len.min(rest.len()));
            self.rows.push(&record, &bytes[Record::SIZE..], calls, *clock, context);
            rest = next;
        }
        let flow = sink(context, &self.rows.batch);
        self.rows.batch.clear();
        Ok((true, flow))
    }

    fn account(&mut self) -> Result<(), Error> {
        self.accounted = Instant::now();
        self.tracing.account(self.rows.unknown())
    }
}

impl Events for CallEvents {
    fn context(&self) -> &Context {
        &self.tracing.context
    }

    fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        let (_, flow) = self.pass_on(timeout, sink)?;
        if self.accounted.elapsed() >= ACCOUNT_EVERY {
            self.account()?;
        }
        Ok(flow)
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        self.waits.look(&mut self.tracing)?;
        Ok(self.waits.rows())
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.rows.forget();
        self.waits.look_again(&mut self.tracing)?;
        self.account()
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink) -> Result<Context, Error> {
        let waiting = self.waits.look_last(&mut self.tracing)?;
        self.tracing.stop()?;
        while let (true, ControlFlow::Continue(())) = self.pass_on(Duration::ZERO, sink)? {}
        self.account()?;
        self.tracing.context.tally.add(Anomaly::Unfinished, waiting);
        Ok(self.tracing.context)
    }
}
