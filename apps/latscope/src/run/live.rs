//! The running kernel as a source: events as they complete, or histograms that the kernel counts.

use super::read::{self, Pass};
use super::stalls::Stalls;
use super::unnamed;
use crate::Failure;
use crate::args::Mode;
use crate::plan::{Folding, Live, Reading, filter_fields};
use latscope_capture_bpf::{
    Counted, Error, EventCapture, HistogramCapture, Options, PushDown, Source, disks_as_events, key_fields,
    no_disk_matches, nothing_of,
};
use latscope_event::{Batch, Clock, Column, Context, Field, FieldSet, Mask, TraceStart};
use latscope_filter::BoundFilter;
use latscope_histogram::Sparse;
use latscope_series::{HistogramSeries, Quantity, Waiter, Weight};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a capture waits for events before it looks at signals, files and lines that are due.
pub const TURN: Duration = Duration::from_millis(100);
/// Width of intervals that the kernel counts when neither interval nor duration is given.
const INTERVAL_NS: u64 = 1_000_000_000;
/// No interval that the kernel counts is shorter: reading its maps takes a millisecond or two.
const SHORTEST_NS: u64 = 10_000_000;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Option(message) => Failure::Usage(message),
            error => Failure::Input(error.to_string()),
        }
    }
}

/// Whether somebody asked the capture to end: Ctrl-C, SIGTERM or SIGHUP. The second Ctrl-C kills.
pub fn interrupted() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(|| {
        unnamed::signals_are_handled();
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            // Without a handler the signal simply kills, and what was flushed so far stays readable.
            let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag));
            let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    })
}

/// When a capture is over.
pub struct Until {
    end: Option<Instant>,
}

impl Until {
    /// From now on. Says on standard error that the capture has started, because attaching can take seconds.
    pub fn new(live: &Live) -> Until {
        interrupted();
        let what = match live.source {
            Source::Block => "block requests",
            Source::Io => "system calls that do I/O",
            Source::Syscall => "all system calls",
        };
        match &live.calls {
            None => say!("latscope: capturing {what}"),
            Some(calls) => say!("latscope: capturing {}", calls.join(", ")),
        }
        Until { end: live.for_ns.map(|ns| Instant::now() + Duration::from_nanos(ns)) }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        interrupted().load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// How long to wait, at most `longest`.
    pub fn turn(&self, longest: Duration) -> Duration {
        self.end.map_or(longest, |end| end.saturating_duration_since(Instant::now()).min(longest))
    }
}

/// What to capture for these fields, filtered in the kernel as far as the filter allows.
///
/// # Errors
/// When the filter asks only for devices of which the source has nothing.
pub fn options(reading: &Reading, live: &Live, fields: FieldSet) -> Result<Options, Failure> {
    refuse_past(reading)?;
    let push_down = push_down(reading);
    let nothing = |device: &String| nothing_of(live.source, device);
    if let Some(why) = push_down.devices.iter().map(nothing).collect::<Option<Vec<_>>>()
        && !why.is_empty()
    {
        return Err(Failure::Usage(why.join("\n")));
    }
    refuse_absent_disks(reading, live.source)?;
    Ok(Options {
        push_down,
        from_queue: reading.from_queue,
        sample: live.sample,
        calls: live.calls.clone(),
        ..Options::new(live.source, fields.union(filter_fields(reading)))
    })
}

/// Fails if the filter asks only for events that completed before now: a capture would wait for them for ever.
fn refuse_past(reading: &Reading) -> Result<(), Failure> {
    let mut now = Context::new(String::new(), Clock::wall());
    now.cover(now_ns());
    let latest_ns = reading.filter.as_ref().and_then(|filter| filter.latest_end_ns(now.trace_start()));
    if latest_ns.is_some_and(|latest_ns| latest_ns < now_ns()) {
        let message = "The filter asks for events that completed in the past, and a live capture sees only those to come; read a \
                       recording with -r, or leave out the condition on evt.time.";
        return Err(Failure::Usage(message.into()));
    }
    Ok(())
}

/// Fails if the filter lets through no disk that there is, or only such as make no requests.
fn refuse_absent_disks(reading: &Reading, source: Source) -> Result<(), Failure> {
    let devices = FieldSet::default().with(&[Field::Device, Field::Dev]);
    let filter = reading.filter.as_ref().and_then(|filter| filter.only_about(devices));
    let (Some(filter), Some(disks)) = (filter, disks_as_events(source)) else { return Ok(()) };
    let mut bound = filter.bind(TraceStart::default()).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut passed = Mask::default();
    bound.eval(&disks, &mut passed);
    // A device given by its number may still come, and one that is absent is refused by its name.
    let is_number = filter.necessary().any_of.contains_key(&Field::Device);
    if is_number || disks.is_empty() {
        return Ok(());
    }
    if passed.count() == 0 {
        return Err(Failure::Usage(no_disk_matches(&filter.to_string())));
    }
    let names = passed.ones().filter_map(|row| disks.text(Field::Device, row));
    let why: Option<Vec<String>> = names.map(|name| nothing_of(source, name)).collect();
    why.map_or(Ok(()), |why| Err(Failure::Usage(why.join("\n"))))
}

fn push_down(reading: &Reading) -> PushDown {
    let Some(filter) = &reading.filter else { return PushDown::default() };
    let mut necessary = filter.necessary();
    let mut texts = |field| necessary.any_of.remove(&field).unwrap_or_default().into_iter().collect::<Vec<String>>();
    let pids = texts(Field::Pid);
    PushDown {
        // A negative number is no process: nothing passes, and the filter itself sees to that.
        pids: pids.iter().map(|pid| pid.parse()).collect::<Result<_, _>>().unwrap_or_default(),
        comms: texts(Field::Comm),
        processes: texts(Field::Process),
        names: texts(Field::Name),
        kinds: texts(Field::Kind),
        devices: texts(Field::Device),
        fd_types: texts(Field::FdType),
        min_latency_ns: necessary.min_latency_ns,
    }
}

/// Captures until it is over and hands on each batch with the mask of what the filter lets through; between batches,
/// at least ten times a second, comes an empty one. Returns the final context.
pub fn each_batch(
    reading: &Reading,
    live: &Live,
    fields: FieldSet,
    take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<Context, Failure> {
    each_batch_and_waiter(reading, live, fields, &[], take).map(|(context, _)| context)
}

/// As [`each_batch`]; returns what waits in the end, too, in these groups.
pub fn each_batch_and_waiter(
    reading: &Reading,
    live: &Live,
    fields: FieldSet,
    by: &[Field],
    mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<(Context, Vec<Waiter>), Failure> {
    let mut events = Events::start(reading, live, fields)?;
    let mut begin = true;
    let mut take =
        |context: &Context, batch: &Batch, mask: Option<&Mask>| take(context, batch, mask, std::mem::take(&mut begin));
    while !events.is_over() {
        events.poll(TURN, &mut take)?;
        events.note_stalls()?;
    }
    let mut waiters = Vec::new();
    events.waiting(&mut |_, batch, mask| {
        waiters = Waiter::of_batch(batch, mask, by);
        ControlFlow::Continue(())
    })?;
    events.finish(&mut take).map(|context| (context, waiters))
}

/// A running capture of events, and the filter on them and on what waits.
pub struct Events<'a> {
    capture: EventCapture,
    pass: Pass<'a>,
    /// What waits has dictionaries of its own.
    waits: Pass<'a>,
    until: Until,
    stalls: Stalls,
}

impl<'a> Events<'a> {
    /// Starts to capture these fields and those of the filter.
    pub fn start(reading: &'a Reading, live: &Live, fields: FieldSet) -> Result<Events<'a>, Failure> {
        if live.mode == Mode::Histogram {
            return Err(Failure::Usage(
                "This view shows single events or what only they tell, so --mode histogram has nothing for it.".into(),
            ));
        }
        // Waits have their path anyway; asked for here, every event would pay for one.
        let of_stalls = Stalls::FIELDS.into_iter().filter(|&field| field != Field::Path);
        let fields = fields.union(of_stalls.collect());
        let capture = EventCapture::start(&options(reading, live, fields)?)?;
        let (pass, waits) = (Pass::new(reading, None), Pass::new(reading, None));
        Ok(Events { capture, pass, waits, until: Until::new(live), stalls: Stalls::default() })
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.until.is_over()
    }

    /// Waits for events, at most so long, and hands them on; an empty batch comes last.
    pub fn poll(&mut self, longest: Duration, take: &mut Take) -> Result<(), Failure> {
        let nothing = Batch::new(FieldSet::ALWAYS);
        let pass = &mut self.pass;
        let mut sink =
            |context: &Context, batch: &Batch| pass.batch(context, batch, |batch, mask| take(context, batch, mask));
        if self.capture.poll(self.until.turn(longest), &mut sink)?.is_continue() {
            let _ = sink(self.capture.context(), &nothing);
        }
        self.pass.failure.take().map_or(Ok(()), Err)
    }

    /// Hands on what waits now, as far as the filter lets it through.
    pub fn waiting(&mut self, take: &mut Take) -> Result<(), Failure> {
        let context = self.capture.context().clone();
        let _ = self.waits.batch(&context, self.capture.waiting()?, |batch, mask| take(&context, batch, mask));
        self.waits.failure.take().map_or(Ok(()), Err)
    }

    /// Says on standard error what has waited for long, where the view does not say it itself before it ends.
    pub fn note_stalls(&mut self) -> Result<(), Failure> {
        if !self.stalls.is_due() {
            return Ok(());
        }
        let mut stalls = std::mem::take(&mut self.stalls);
        let noted = self.waiting(&mut |_, batch, mask| {
            stalls.note(batch, mask);
            ControlFlow::Continue(())
        });
        self.stalls = stalls;
        noted
    }

    /// What the capture says about itself.
    pub fn context(&self) -> &Context {
        self.capture.context()
    }

    /// Ends it, hands on what is left and returns the final context.
    pub fn finish(mut self, take: &mut Take) -> Result<Context, Failure> {
        let pass = &mut self.pass;
        let mut context = self
            .capture
            .finish(&mut |context, batch| pass.batch(context, batch, |batch, mask| take(context, batch, mask)))?;
        self.pass.tell_untold(&mut context);
        self.pass.failure.take().map_or(Ok(context), Err)
    }
}

/// What takes batches: the context, the batch, and what the filter lets through.
pub type Take<'a> = dyn FnMut(&Context, &Batch, Option<&Mask>) -> ControlFlow<Failure> + 'a;

/// Why the kernel cannot count for this view itself, `None` when it can.
pub fn needs_events(reading: &Reading, live: &Live, folding: &Folding) -> Option<String> {
    let keys = own(key_fields(live.source));
    let words = |fields: FieldSet| fields.iter().map(Field::name).collect::<Vec<_>>().join(", ");
    let others = |fields: FieldSet| -> FieldSet { fields.iter().filter(|&field| !keys.contains(field)).collect() };
    let filter = reading.filter.as_ref().map_or(FieldSet::default(), |filter| others(filter.fields()));
    let by = others(folding.by.iter().copied().collect());
    if folding.quantity != Quantity::Latency {
        Some(format!("only events tell their {}", folding.quantity.word()))
    } else if folding.weight == Weight::Time {
        Some("only events tell their exact time".into())
    } else if filter != FieldSet::default() {
        Some(format!("the filter looks at {}", words(filter)))
    } else if by != FieldSet::default() {
        Some(format!("groups are made by {}", words(by)))
    } else if live.sample.is_some() {
        Some("a sample is taken".into())
    } else if folding.interval.is_some_and(|ns| ns < SHORTEST_NS) {
        Some("only event mode has intervals shorter than 10ms".into())
    } else {
        None
    }
}

/// The fields without time and latency, which every batch has.
fn own(fields: FieldSet) -> FieldSet {
    fields.iter().filter(|&field| !FieldSet::ALWAYS.contains(field)).collect()
}

/// Whether the kernel counts for this view.
pub fn counts_in_kernel(reading: &Reading, live: &Live, folding: &Folding) -> Result<bool, Failure> {
    match (live.mode, needs_events(reading, live, folding)) {
        (Mode::Event, _) | (Mode::Auto, Some(_)) => Ok(false),
        (_, None) => Ok(true),
        (Mode::Histogram, Some(why)) => Err(Failure::Usage(format!("--mode histogram is not enough: {why}."))),
    }
}

/// Counts in the kernel; yields what was counted interval by interval.
pub struct Counting<'a> {
    capture: HistogramCapture,
    filter: Option<BoundFilter>,
    /// The filter on what waits.
    waits: Pass<'a>,
    stalls: Stalls,
    by: Vec<Field>,
    weight: Weight,
    /// By row of the key table: whether the filter lets it through.
    passes: Mask,
    width_ns: u64,
    /// Start of the interval that is being counted, Unix time.
    from_ns: i64,
}

impl<'a> Counting<'a> {
    /// Starts to count in intervals of this width.
    pub fn start(reading: &'a Reading, live: &Live, folding: &Folding, width_ns: u64) -> Result<Counting<'a>, Failure> {
        let fields = own(key_fields(live.source));
        let mut options = options(reading, live, fields)?;
        let devices = std::mem::take(&mut options.push_down.devices);
        options.push_down = PushDown::default();
        if live.source == Source::Block {
            options.push_down.devices = devices;
        }
        let capture = HistogramCapture::start(&options)?;
        let bind = |filter: &latscope_filter::Filter| {
            filter
                .bind(capture.context().trace_start())
                .map_err(|error| Failure::Usage(format!("{error}\n{}", error.caret())))
        };
        let filter = reading.filter.as_ref().map(bind).transpose()?;
        let width_ns = width_ns.max(SHORTEST_NS);
        let from_ns = floor(now_ns(), width_ns);
        let (by, passes) = (folding.by.clone(), Mask::default());
        let (waits, weight) = (Pass::new(reading, None), folding.weight);
        Ok(Counting { capture, filter, waits, stalls: Stalls::default(), by, weight, passes, width_ns, from_ns })
    }

    /// An empty series for what is counted.
    pub fn series(&self) -> HistogramSeries {
        HistogramSeries::new(Quantity::Latency, self.weight, self.by.clone(), self.width_ns)
    }

    /// How long until the present interval is over.
    pub fn due(&self) -> Duration {
        Duration::from_nanos((self.from_ns + self.width_ns as i64).saturating_sub(now_ns()).max(0) as u64)
    }

    /// Reads what was counted since the last call into the series; it belongs to the interval that was begun then.
    /// Returns that interval.
    pub fn collect(&mut self, series: &mut HistogramSeries) -> Result<i64, Failure> {
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
            series.insert(interval, group, &histogram).map_err(|error| Failure::Input(format!("{error}.")))?;
        }
        self.from_ns = floor(now_ns(), self.width_ns).max(self.from_ns);
        Ok(interval)
    }

    /// Width of the intervals: the one that was asked for, or the shortest that can be counted.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Hands on what waits now, as far as the filter lets it through.
    pub fn waiting(&mut self, take: &mut Take) -> Result<(), Failure> {
        let context = self.capture.context().clone();
        let _ = self.waits.batch(&context, self.capture.waiting()?, |batch, mask| take(&context, batch, mask));
        self.waits.failure.take().map_or(Ok(()), Err)
    }

    /// What waits now.
    pub fn waiters(&mut self) -> Result<Vec<Waiter>, Failure> {
        let (by, mut waiters) = (self.by.clone(), Vec::new());
        self.waiting(&mut |_, batch, mask| {
            waiters = Waiter::of_batch(batch, mask, &by);
            ControlFlow::Continue(())
        })?;
        Ok(waiters)
    }

    /// As [`Events::note_stalls`].
    pub fn note_stalls(&mut self) -> Result<(), Failure> {
        if !self.stalls.is_due() {
            return Ok(());
        }
        let mut stalls = std::mem::take(&mut self.stalls);
        let noted = self.waiting(&mut |_, batch, mask| {
            stalls.note(batch, mask);
            ControlFlow::Continue(())
        });
        self.stalls = stalls;
        noted
    }

    /// What the capture says about itself.
    pub fn context(&self) -> Context {
        let mut context = self.capture.context().clone();
        context.cover(now_ns());
        context
    }
}

/// Reads live into one series, counted in the kernel if that is enough; `None` if events are needed.
pub fn series(
    reading: &Reading,
    live: &Live,
    folding: &Folding,
    limit: u32,
) -> Result<Option<(HistogramSeries, Context)>, Failure> {
    if !counts_in_kernel(reading, live, folding)? {
        return Ok(None);
    }
    let width_ns = folding.interval.unwrap_or_else(|| match live.for_ns {
        // A tenth of the intervals that there is room for, in case it is interrupted early.
        Some(ns) => (SHORTEST_NS..)
            .step_by(SHORTEST_NS as usize)
            .find(|&step| ns / step <= u64::from(limit.max(2)))
            .unwrap_or(INTERVAL_NS),
        None => INTERVAL_NS,
    });
    let mut counting = Counting::start(reading, live, folding, width_ns)?;
    let until = Until::new(live);
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
    let context = counting.context();
    let series = if folding.interval.is_some() { series } else { series.fitted(limit) };
    let series = read::covering(series, reading, std::slice::from_ref(&context), &waiters, folding, limit);
    Ok(Some((series, context)))
}

fn floor(ns: i64, width_ns: u64) -> i64 {
    ns.div_euclid(width_ns as i64) * width_ns as i64
}

/// Now, nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
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
