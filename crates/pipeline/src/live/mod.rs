//! The running kernel as a source: events as they complete, or histograms that the kernel counts.

mod counting;
mod events;
mod passing;
mod probed;

pub use counting::Counting;
pub use events::{Events, Take};

use crate::{Control, Error, Folding, Live, Notice, Reading};
use latscope_capture_bpf::{
    OfContainers, Options, PushDown, Source, disks_as_events, key_fields, no_disk_matches, nothing_of,
};
use latscope_event::{Clock, Context, Field, FieldSet, Mask, TraceStart};
use latscope_filter::Filter;
use latscope_series::{Quantity, Weight};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a capture waits for events before it looks at signals, files and lines that are due.
pub const TURN: Duration = Duration::from_millis(100);
/// Width of intervals when neither interval nor duration is given.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// No interval that the kernel counts is shorter: reading its maps takes a millisecond or two.
const SHORTEST_NS: u64 = 10_000_000;

/// When a capture is over.
struct Until {
    control: Control,
    end: Option<Instant>,
}

impl Until {
    /// From now on. Notes that the capture has started, because attaching can take seconds.
    fn new(live: &Live, control: &Control) -> Until {
        control.notice(Notice::Capturing { source: live.source, calls: live.calls.clone() });
        Until::after(live.for_ns, control)
    }

    /// So many nanoseconds from now on.
    fn after(for_ns: Option<u64>, control: &Control) -> Until {
        let end = for_ns.map(|ns| Instant::now() + Duration::from_nanos(ns));
        Until { control: control.clone(), end }
    }

    fn is_over(&self) -> bool {
        self.control.is_cancelled() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// How long to wait, at most `longest`.
    fn turn(&self, longest: Duration) -> Duration {
        self.end.map_or(longest, |end| end.saturating_duration_since(Instant::now()).min(longest))
    }
}

/// What to capture for these fields, filtered in the kernel as far as the filter allows.
///
/// # Errors
/// When the filter asks only for devices of which the source has nothing, or for the past.
fn options(reading: &Reading, live: &Live, fields: FieldSet) -> Result<Options, Error> {
    refuse_nothing(reading, live.source)?;
    Ok(Options {
        push_down: push_down(reading),
        from_queue: reading.from_queue,
        sample: live.sample,
        calls: live.calls.clone(),
        stacks: live.stacks,
        ..Options::new(live.source, fields.union(reading.filter_fields()).with_stored())
    })
}

/// Fails if a capture could not have anything that the filter lets through.
///
/// # Errors
/// When it asks only for devices of which the source has nothing, or for the past.
pub fn refuse_nothing(reading: &Reading, source: Source) -> Result<(), Error> {
    refuse_past(reading)?;
    let nothing = |device: &String| nothing_of(source, device);
    match push_down(reading).devices.iter().map(nothing).collect::<Option<Vec<_>>>() {
        Some(why) if !why.is_empty() => Err(Error::NothingOf(why)),
        _ => refuse_absent_disks(reading, source),
    }
}

/// Fails if the filter lets through no disk that there is, or only such as make no requests.
fn refuse_absent_disks(reading: &Reading, source: Source) -> Result<(), Error> {
    let devices = FieldSet::default().with(&[Field::Device, Field::Dev]);
    let filter = reading.filter.as_ref().and_then(|filter| filter.only_about(devices));
    let (Some(filter), Some(disks)) = (filter, disks_as_events(source)) else { return Ok(()) };
    let mut bound = filter.bind(TraceStart::default())?;
    let mut passed = Mask::default();
    bound.eval(&disks, &mut passed);
    // A device given by its number may still come, and one that is absent is refused by its name.
    let is_number = filter.necessary().any_of.contains_key(&Field::Device);
    if is_number || disks.is_empty() {
        return Ok(());
    }
    if passed.count() == 0 {
        return Err(Error::NothingOf(vec![no_disk_matches(&filter.to_string())]));
    }
    let names = passed.ones().filter_map(|row| disks.text(Field::Device, row));
    let why: Option<Vec<String>> = names.map(|name| nothing_of(source, name)).collect();
    why.map_or(Ok(()), |why| Err(Error::NothingOf(why)))
}

/// Fails if the filter asks only for events that completed before now: a capture would wait for them for ever.
fn refuse_past(reading: &Reading) -> Result<(), Error> {
    let mut now = Context::new(String::new(), Clock::wall());
    now.cover(now_ns());
    let latest_ns = reading.filter.as_ref().and_then(|filter| filter.latest_end_ns(now.trace_start()));
    if latest_ns.is_some_and(|latest_ns| latest_ns < now_ns()) { Err(Error::Past) } else { Ok(()) }
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
        containers: of_containers(filter),
        min_latency_ns: necessary.min_latency_ns,
    }
}

/// What a filter demands of containers.
fn of_containers(filter: &Filter) -> Option<OfContainers> {
    let fields: FieldSet =
        [Field::Container, Field::ContainerName, Field::ContainerImage, Field::Cgroup].into_iter().collect();
    let filter = filter.only_about(fields)?;
    Some(OfContainers::new(filter.fields(), move |batch| {
        let mut passed = Mask::default();
        // A filter on texts has no moments that a clock could lack.
        filter.bind(TraceStart::default()).map_or(true, |mut bound| {
            bound.eval(batch, &mut passed);
            passed.count() > 0
        })
    }))
}

/// Why the kernel cannot count for this view itself, `None` when it can.
pub fn needs_events(reading: &Reading, live: &Live, folding: &Folding) -> Option<String> {
    let keys = own(key_fields(live.source));
    let words = |fields: FieldSet| fields.iter().map(Field::name).collect::<Vec<_>>().join(", ");
    let others = |fields: FieldSet| -> FieldSet { fields.iter().filter(|&field| !keys.contains(field)).collect() };
    let filter = reading.filter.as_ref().map_or(FieldSet::default(), |filter| others(filter.fields()));
    let by = others(folding.by.iter().copied().collect());
    if live.source.stacks().is_some() || live.stacks.requests.is_some() {
        Some("stacks are of single events".into())
    } else if folding.quantity != Quantity::Latency {
        Some(format!("only single events have {}", folding.quantity.word()))
    } else if folding.weight == Weight::Time {
        Some("only single events have an exact time".into())
    } else if filter != FieldSet::default() {
        Some(format!("the filter needs {}", words(filter)))
    } else if by != FieldSet::default() {
        Some(format!("the groups need {}", words(by)))
    } else if live.sample.is_some() {
        Some("a sample is taken".into())
    } else if folding.interval.is_some_and(|ns| ns < SHORTEST_NS) {
        Some("intervals shorter than 10ms need event mode".into())
    } else {
        None
    }
}

/// The fields without time and latency, which every batch has.
fn own(fields: FieldSet) -> FieldSet {
    fields.without(FieldSet::ALWAYS)
}

/// Now, nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
