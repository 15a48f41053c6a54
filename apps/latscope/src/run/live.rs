//! The running kernel as a source: events as they complete, or histograms that the kernel counts.

use super::read::Pass;
use super::unnamed;
use crate::Failure;
use crate::args::Mode;
use crate::plan::{Folding, Live, Reading, filter_fields};
use latscope_capture_bpf::{Counted, Error, EventCapture, HistogramCapture, Options, PushDown, key_fields, nothing_of};
use latscope_event::{Batch, Column, Context, Field, FieldSet, Mask};
use latscope_filter::BoundFilter;
use latscope_histogram::Sparse;
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
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
pub fn interrupted() -> &'static AtomicBool {
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
    /// From now on.
    pub fn new(live: &Live) -> Until {
        interrupted();
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
    let push_down = push_down(reading);
    let nothing = |device: &String| nothing_of(live.source, device);
    if let Some(why) = push_down.devices.iter().map(nothing).collect::<Option<Vec<_>>>()
        && !why.is_empty()
    {
        return Err(Failure::Usage(why.join("\n")));
    }
    Ok(Options {
        push_down,
        from_queue: reading.from_queue,
        sample: live.sample,
        calls: live.calls.clone(),
        ..Options::new(live.source, fields.union(filter_fields(reading)))
    })
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
    mut take: impl FnMut(&Context, &Batch, Option<&Mask>, bool) -> ControlFlow<Failure>,
) -> Result<Context, Failure> {
    if live.mode == Mode::Histogram {
        return Err(Failure::Usage(
            "This view shows single events or what only they tell, so --mode histogram has nothing for it.".into(),
        ));
    }
    let mut capture = EventCapture::start(&options(reading, live, fields)?)?;
    let until = Until::new(live);
    let mut pass = Pass::new(reading, None);
    let mut begin = true;
    let nothing = Batch::new(FieldSet::ALWAYS);
    let mut sink = |context: &Context, batch: &Batch| {
        pass.batch(context, batch, |batch, mask| take(context, batch, mask, std::mem::take(&mut begin)))
    };
    let mut open = ControlFlow::Continue(());
    while open.is_continue() && !until.is_over() {
        open = capture.poll(until.turn(TURN), &mut sink)?;
        if open.is_continue() {
            let context = capture.context();
            open = sink(context, &nothing);
        }
    }
    // A consumer that had enough is not given the rest.
    let mut last = |context: &Context, batch: &Batch| if open.is_continue() { sink(context, batch) } else { open };
    let context = capture.finish(&mut last)?;
    match pass.failure.take() {
        Some(failure) => Err(failure),
        None => Ok(context),
    }
}

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
pub struct Counting {
    capture: HistogramCapture,
    filter: Option<BoundFilter>,
    by: Vec<Field>,
    weight: Weight,
    /// By row of the key table: whether the filter lets it through.
    passes: Mask,
    width_ns: u64,
    /// Start of the interval that is being counted, Unix time.
    from_ns: i64,
}

impl Counting {
    /// Starts to count in intervals of this width.
    pub fn start(reading: &Reading, live: &Live, folding: &Folding, width_ns: u64) -> Result<Counting, Failure> {
        let fields = own(key_fields(live.source));
        let options = Options { push_down: PushDown::default(), ..options(reading, live, fields)? };
        let capture = HistogramCapture::start(&options)?;
        let bind = |filter: &latscope_filter::Filter| {
            filter
                .bind(capture.context().time_zero())
                .map_err(|error| Failure::Usage(format!("{error}\n{}", error.caret())))
        };
        let filter = reading.filter.as_ref().map(bind).transpose()?;
        let width_ns = width_ns.max(SHORTEST_NS);
        let from_ns = floor(now_ns(), width_ns);
        let (by, passes) = (folding.by.clone(), Mask::default());
        Ok(Counting { capture, filter, by, weight: folding.weight, passes, width_ns, from_ns })
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
        for Counted { key, histogram, bytes } in counted {
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

    /// What the capture says about itself.
    pub fn context(&self) -> Context {
        let mut context = self.capture.context().clone();
        context.cover(now_ns());
        context
    }
}

/// So long after an interval its events are all there: ring buffers are read ten times a second.
const SLACK_NS: i64 = 300_000_000;

/// Captures until it is over and hands on, as they pass, the intervals before a certain one; an interval without events is
/// not in the series. Returns the final context.
pub fn each_interval(
    reading: &Reading,
    live: &Live,
    folding: &Folding,
    mut take: impl FnMut(&HistogramSeries, i64, &Context) -> Result<(), Failure>,
) -> Result<Context, Failure> {
    let width_ns = folding.interval.unwrap_or(INTERVAL_NS);
    if counts_in_kernel(reading, live, folding)? {
        let mut counting = Counting::start(reading, live, folding, width_ns)?;
        let until = Until::new(live);
        let mut over = false;
        while !over {
            std::thread::sleep(until.turn(counting.due().min(TURN)));
            over = until.is_over();
            if over || counting.due().is_zero() {
                let mut series = counting.series();
                let passed = counting.collect(&mut series)?;
                take(&series, passed + 1, &counting.context())?;
            }
        }
        return Ok(counting.context());
    }
    let interval = Interval::Fixed(width_ns);
    let mut builder = SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), interval);
    let mut taken = None;
    let context = each_batch(reading, live, builder.fields(), |context, batch, mask, begin| {
        if begin {
            builder.begin_trace();
        }
        builder.add(batch, mask);
        let open = (now_ns() - SLACK_NS).div_euclid(width_ns as i64);
        if taken.replace(open) == Some(open) {
            return ControlFlow::Continue(());
        }
        match take(&builder.take_before(open), open, context) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => ControlFlow::Break(failure),
        }
    })?;
    take(&builder.finish(), now_ns().div_euclid(width_ns as i64) + 1, &context)?;
    Ok(context)
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
    }
    counting.collect(&mut series)?;
    let context = counting.context();
    Ok(Some((if folding.interval.is_some() { series } else { series.fitted(limit) }, context)))
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
