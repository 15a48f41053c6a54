use super::{INTERVAL_NS, SHORTEST_NS, TURN, Until, options, own};
use crate::intervals::{Intervals, complete};
use crate::stalls::Stalls;
use crate::{Control, Error, Folding, Live, Pass, Pipeline, Reading};
use latscope_capture_bpf::{Counted, HistogramCapture, PushDown, Source, key_fields};
use latscope_event::{Anomaly, Batch, Column, Context, Field, Mask, WallClock};
use latscope_filter::BoundFilter;
use latscope_histogram::{Grid, Sparse};
use latscope_series::{HistogramSeries, Quantity, Waiter, Weight};
use std::time::Duration;

impl Pipeline {
    /// Starts to count in the kernel, in intervals of this width.
    ///
    /// # Errors
    /// When the capture cannot start.
    pub fn count(&self, folding: &Folding, width_ns: u64) -> Result<Counting<'_>, Error> {
        let Some(live) = &self.reading.live else { return Err(Error::NotCountable("files are read".into())) };
        Counting::start(&self.reading, live, folding, width_ns, &self.control)
    }

    /// Counts in the kernel until the capture is over; returns what waits then, too.
    pub(crate) fn counted(
        &self,
        folding: &Folding,
        limit: u32,
    ) -> Result<(HistogramSeries, Vec<Context>, Vec<Waiter>), Error> {
        let for_ns = self.reading.live.as_ref().and_then(|live| live.for_ns);
        let width_ns = folding.interval.unwrap_or_else(|| match for_ns {
            // A tenth of the intervals that there is room for, in case it is interrupted early.
            Some(ns) => (SHORTEST_NS..)
                .step_by(SHORTEST_NS as usize)
                .find(|&step| ns / step <= u64::from(limit.max(2)))
                .unwrap_or(INTERVAL_NS),
            None => INTERVAL_NS,
        });
        let mut counting = self.count(folding, width_ns)?;
        let until = self.until();
        let mut series = counting.series();
        while !until.is_over() {
            let wait = until.turn(counting.due().min(TURN));
            std::thread::sleep(wait);
            if counting.due().is_zero() {
                counting.collect(&mut series)?;
            }
            counting.note_stalls()?;
        }
        counting.collect(&mut series)?;
        let waiters = counting.waiters()?;
        let series = if folding.interval.is_some() { series } else { series.fitted(limit) };
        Ok((series, vec![counting.context()], waiters))
    }

    /// Counts in the kernel and hands on the intervals as they pass.
    pub(crate) fn counted_intervals<T: Intervals>(
        &self,
        folding: &Folding,
        taker: &mut T,
    ) -> Result<Context, T::Error> {
        let mut counting = self.count(folding, folding.interval.unwrap_or(INTERVAL_NS))?;
        let until = self.until();
        let width_ns = counting.width_ns() as i64;
        let mut start_ns = counting.clock.now_ns();
        let mut next = start_ns.div_euclid(width_ns);
        let mut over = false;
        while !over {
            std::thread::sleep(until.turn(counting.due().min(TURN)));
            over = until.is_over();
            let step_ns = counting.clock_step();
            if over || step_ns.is_some() || counting.due().is_zero() {
                let mut series = counting.series();
                let waiters = counting.waiters()?;
                // What the wall clock would be without a step.
                let end_ns = counting.clock.now_ns().saturating_sub(step_ns.unwrap_or(0));
                let before = counting.collect(&mut series)? + 1;
                let mut series = complete(series, folding, &[(next..before, waiters)], next..before - i64::from(over));
                series.observe(start_ns, end_ns);
                taker.passed(&series, before, &counting.context())?;
                next = before;
                let Some(step_ns) = step_ns else { continue };
                taker.clock_stepped(step_ns);
                start_ns = counting.clock.now_ns();
                next = counting.from_ns.div_euclid(width_ns);
            }
        }
        Ok(counting.context())
    }

    fn until(&self) -> Until {
        match &self.reading.live {
            Some(live) => Until::new(live, &self.control),
            None => Until { control: self.control.clone(), end: None },
        }
    }
}

/// Counts in the kernel; yields what was counted interval by interval.
pub struct Counting<'a> {
    capture: HistogramCapture,
    filter: Option<BoundFilter>,
    /// The filter on what waits.
    waits: Pass<'a>,
    control: Control,
    stalls: Stalls,
    by: Vec<Field>,
    weight: Weight,
    precision: Option<Grid>,
    /// By row of the key table: whether the filter lets it through.
    passes: Mask,
    width_ns: u64,
    /// Start of the interval that is being counted, Unix time.
    from_ns: i64,
    clock: WallClock,
    /// Number of steps of the wall clock, and their sum since it was last taken, nanoseconds.
    steps: u64,
    step_ns: Option<i64>,
}

impl<'a> Counting<'a> {
    fn start(
        reading: &'a Reading,
        live: &Live,
        folding: &Folding,
        width_ns: u64,
        control: &Control,
    ) -> Result<Counting<'a>, Error> {
        let fields = own(key_fields(live.source));
        let mut options = options(reading, live, fields)?;
        options.finest = folding.precision.unwrap_or(options.finest);
        let devices = std::mem::take(&mut options.push_down.devices);
        options.push_down = PushDown::default();
        if live.source == Source::Block {
            options.push_down.devices = devices;
        }
        let capture = HistogramCapture::start(&options)?;
        let bind = |filter: &latscope_filter::Filter| filter.bind(capture.context().trace_start());
        let filter = reading.filter.as_ref().map(bind).transpose()?;
        let width_ns = width_ns.max(SHORTEST_NS);
        let clock = WallClock::now();
        let from_ns = floor(clock.now_ns(), width_ns);
        let (by, passes) = (folding.by.clone(), Mask::default());
        let (waits, weight, control) = (Pass::new(reading), folding.weight, control.clone());
        Ok(Counting {
            capture,
            filter,
            waits,
            control,
            stalls: Stalls::default(),
            by,
            weight,
            precision: folding.precision,
            passes,
            width_ns,
            from_ns,
            clock,
            steps: 0,
            step_ns: None,
        })
    }

    /// An empty series for what is counted.
    pub fn series(&self) -> HistogramSeries {
        HistogramSeries::new(Quantity::Latency, self.weight, self.by.clone(), self.width_ns).on_grid(self.precision)
    }

    /// How long until the present interval is over.
    pub fn due(&self) -> Duration {
        Duration::from_nanos((self.from_ns + self.width_ns as i64).saturating_sub(self.clock.now_ns()).max(0) as u64)
    }

    /// By how many nanoseconds the wall clock was set since the last call, if it was.
    fn clock_step(&mut self) -> Option<i64> {
        self.follow_clock();
        self.step_ns.take()
    }

    fn follow_clock(&mut self) {
        if let Some(step_ns) = self.clock.follow() {
            self.steps += 1;
            self.step_ns = Some(self.step_ns.unwrap_or(0).saturating_add(step_ns));
        }
    }

    /// Reads what was counted since the last call into the series; it belongs to the interval that was started then.
    /// Returns that interval.
    pub fn collect(&mut self, series: &mut HistogramSeries) -> Result<i64, Error> {
        let counted = self.capture.take()?;
        self.capture.refresh()?;
        if let Some(filter) = &mut self.filter {
            filter.eval(self.capture.keys(), &mut self.passes);
        }
        let interval = self.from_ns.div_euclid(self.width_ns as i64);
        for Counted { key, histogram, bytes, .. } in counted {
            if self.filter.is_some() && !self.passes.get(key) {
                continue;
            }
            let keys = self.capture.keys();
            let group = self.by.iter().map(|&field| label(keys, field, key)).collect();
            let histogram = if self.weight == Weight::Bytes { spread(&histogram, bytes) } else { histogram };
            series.insert(interval, group, &histogram).map_err(|error| Error::Series(error.to_string()))?;
        }
        self.follow_clock();
        self.from_ns = floor(self.clock.now_ns(), self.width_ns);
        Ok(interval)
    }

    /// Width of the intervals: the one that was asked for, or the shortest that can be counted.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// What waits now, whatever the filter says: time is the start, latency the age.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn all_waiting(&mut self) -> Result<Batch, Error> {
        Ok(self.capture.waiting()?.clone())
    }

    /// What waits now and passes the filter.
    ///
    /// # Errors
    /// When the capture fails.
    pub fn waiters(&mut self) -> Result<Vec<Waiter>, Error> {
        let context = self.capture.context().clone();
        let (batch, mask) = self.waits.batch(&context, self.capture.waiting()?)?;
        Ok(Waiter::of_batch(&context, batch, mask, &self.by))
    }

    /// As [`super::Events::note_stalls`].
    fn note_stalls(&mut self) -> Result<(), Error> {
        if self.stalls.is_due() {
            let context = self.capture.context().clone();
            let (batch, mask) = self.waits.batch(&context, self.capture.waiting()?)?;
            let control = &self.control;
            self.stalls.report(batch, mask, &mut |notice| control.notice(notice));
        }
        Ok(())
    }

    /// What the capture says about itself.
    pub fn context(&self) -> Context {
        let mut context = self.capture.context().clone();
        context.cover(self.clock.now_ns());
        context.tally.add(Anomaly::ClockStep, self.steps);
        context
    }
}

fn floor(ns: i64, width_ns: u64) -> i64 {
    ns.div_euclid(width_ns as i64) * width_ns as i64
}

/// A key's value of a field, as groups are named.
fn label(keys: &Batch, field: Field, row: usize) -> String {
    match keys.column(field) {
        Some(Column::Text(_)) => keys.text(field, row).unwrap_or(HistogramSeries::NO_VALUE).to_string(),
        _ => HistogramSeries::NO_VALUE.to_string(),
    }
}

/// The kernel counts bytes per key, not per bucket. For views that show only their sum they are spread over the buckets.
fn spread(histogram: &Sparse, bytes: u64) -> Sparse {
    let count = u128::from(histogram.totals().count.max(1));
    let (mut before, mut given) = (0u128, 0u64);
    let weights = histogram
        .counts()
        .iter()
        .map(|&n| {
            before += u128::from(n);
            let up_to = (u128::from(bytes) * before / count) as u64;
            up_to - std::mem::replace(&mut given, up_to)
        })
        .collect();
    let parts = (histogram.indices().to_vec(), histogram.counts().to_vec());
    Sparse::from_parts(histogram.grid(), parts.0, parts.1, Some(weights), *histogram.totals())
        .unwrap_or_else(|_| histogram.clone())
}
