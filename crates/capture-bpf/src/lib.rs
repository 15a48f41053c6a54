//! Live capture of the running kernel by eBPF.
//!
//! A capture runs in one of two modes. An [`EventCapture`] yields every event through a ring buffer, filtered in the
//! kernel as far as a [`PushDown`] says. A [`HistogramCapture`] counts in the kernel, per CPU and key, on our own bucket
//! grid; nothing per event leaves the kernel. What was lost, and why, is in the [`Context`] of either.

#[cfg(target_os = "linux")]
#[cfg(test)]
#[macro_use]
#[path = "../../../tests/skip.rs"]
mod skip;

#[cfg(target_os = "linux")]
mod beside;
mod block;
mod capabilities;
mod clock;
#[cfg(target_os = "linux")]
mod container;
#[cfg(target_os = "linux")]
mod cumulative;
#[cfg(target_os = "linux")]
mod disk;
mod error;
#[cfg(target_os = "linux")]
mod fd;
#[cfg(target_os = "linux")]
mod loader;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod stacks;
#[cfg(target_os = "linux")]
mod syscall;
#[cfg(target_os = "linux")]
mod texts;
mod wanted;

pub use capabilities::Capabilities;
pub use clock::clock_is_synchronised;
pub use error::Error;

use latscope_event::{Batch, Context, Field, FieldSet};
use latscope_histogram::{Grid, Sparse};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// So many of the requests that have waited for long are named while a capture runs.
#[cfg(target_os = "linux")]
const NAMED: usize = 16;

/// What to capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Requests to block devices.
    Block,
    /// System calls that do I/O, and requests of io_uring.
    Io,
    /// All system calls.
    Syscall,
    /// Stacks of threads.
    Stacks(StackKinds),
    /// Requests or calls, and stacks of threads beside them.
    Beside(Requests, StackKinds),
}

/// What may be captured beside stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// As [`Source::Block`].
    Block,
    /// As [`Source::Io`].
    Io,
    /// As [`Source::Syscall`].
    Syscall,
}

impl Requests {
    /// They alone.
    pub fn source(self) -> Source {
        match self {
            Requests::Block => Source::Block,
            Requests::Io => Source::Io,
            Requests::Syscall => Source::Syscall,
        }
    }
}

impl Source {
    /// Without the stacks beside it.
    pub fn alone(self) -> Source {
        if let Source::Beside(requests, _) = self { requests.source() } else { self }
    }

    /// As `-s` has it.
    pub fn words(self) -> String {
        match self {
            Source::Block => "block".into(),
            Source::Io => "io".into(),
            Source::Syscall => "syscall".into(),
            Source::Stacks(kinds) => kinds.words(),
            Source::Beside(requests, kinds) => format!("{},{}", requests.source().words(), kinds.words()),
        }
    }

    /// The stacks that are captured, if any.
    pub fn stacks(self) -> Option<StackKinds> {
        match self {
            Source::Stacks(kinds) | Source::Beside(_, kinds) => Some(kinds),
            _ => None,
        }
    }
}

/// Which captures of stacks run, at least one. Together they account for the time of a process: `Field::State` says of which
/// part of it an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StackKinds {
    /// Threads are looked at many times a second. An event is a wait: the samples of a thread that did not move in between. Its
    /// latency is the sum of the intervals between looks that saw it, so that sums of latencies are shares of the time
    /// waited, while a single one is right within an interval. With `off_cpu` the looks only add user stacks and files
    /// to its events.
    pub sampled: bool,
    /// The scheduler times every wait; those above a threshold are events.
    pub off_cpu: bool,
    /// A timer on each CPU; an event is a tick, and lasts as long as the time between two.
    pub on_cpu: bool,
}

impl StackKinds {
    /// As `-s` has them.
    pub fn words(self) -> String {
        let words = [(self.sampled, "stacks"), (self.off_cpu, "offcpu"), (self.on_cpu, "oncpu")];
        words.iter().filter(|(is, _)| *is).map(|&(_, word)| word).collect::<Vec<_>>().join(",")
    }
}

/// Which requests to block devices have the stack of the thread that issued them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestStacks {
    /// Those at least this slow, nanoseconds, taken when they complete, if the thread still waits for them; and some of the faster
    /// ones, to compare with. `u64::MAX`: none.
    pub slow_ns: u64,
    /// Of so many requests one, taken when it is issued; 0: none.
    pub issue_one_in: u32,
}

impl RequestStacks {
    /// Of slow requests, where nobody says from when on they are.
    pub const SLOW: RequestStacks = RequestStacks { slow_ns: 50_000_000, issue_one_in: 0 };

    /// What is meant by `slow`, `slow=50ms`, `all` or a ratio such as `1/64`, or by the first and the last, separated by a comma.
    ///
    /// # Errors
    /// What is wrong with these words, without a full stop.
    pub fn parse(text: &str) -> Result<RequestStacks, String> {
        let mut stacks = RequestStacks { slow_ns: u64::MAX, issue_one_in: 0 };
        for word in text.split(',') {
            let is_slow = word.starts_with("slow");
            if is_slow && stacks.slow_ns < u64::MAX || !is_slow && stacks.issue_one_in > 0 {
                return Err("give slow once, and all or a ratio once".into());
            }
            match word.split_once('=').map_or((word, None), |(word, value)| (word, Some(value))) {
                ("slow", None) => stacks.slow_ns = RequestStacks::SLOW.slow_ns,
                ("slow", Some(value)) if !value.ends_with(|letter: char| letter.is_ascii_alphabetic()) => {
                    return Err(format!("slow={value} needs a unit, such as slow=50ms"));
                }
                ("slow", Some(value)) => {
                    stacks.slow_ns = latscope_event::parse_duration(value).map_err(|error| format!("slow: {error}"))?;
                }
                ("all", None) => stacks.issue_one_in = 1,
                (ratio, None) => match ratio.strip_prefix("1/").map(str::parse) {
                    Some(Ok(one_in)) if one_in > 0 => stacks.issue_one_in = one_in,
                    _ => {
                        return Err(format!(
                            "{ratio} is not valid here; give slow, slow=50ms, all, or a ratio such as 1/64"
                        ));
                    }
                },
                _ => {
                    return Err(format!(
                        "{word} is not valid here; give slow, slow=50ms, all, or a ratio such as 1/64"
                    ));
                }
            }
        }
        Ok(stacks)
    }
}

impl std::fmt::Display for RequestStacks {
    /// As it is typed.
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let is_slow = self.slow_ns < u64::MAX;
        if is_slow {
            write!(out, "slow={}", latscope_event::format_duration_exact(self.slow_ns))?;
        }
        match self.issue_one_in {
            0 => Ok(()),
            one_in if is_slow => write!(out, ",1/{one_in}"),
            1 => write!(out, "all"),
            one_in => write!(out, "1/{one_in}"),
        }
    }
}

/// How stacks are captured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StackOptions {
    /// Looks per second, if the budget allows.
    pub hz: u32,
    /// CPUs that looking and unwinding may take, 0.01 is one percent of one; 0 is no limit.
    pub budget: f64,
    /// User stacks that one look copies on average, where more threads wait; it copies twice as many at most.
    pub copies: u32,
    /// Whether threads that do not wait for I/O are sampled too.
    pub all_threads: bool,
    /// Shortest wait that the scheduler reports, nanoseconds.
    pub off_cpu_ns: u64,
    /// Ticks per second on each CPU.
    pub on_cpu_hz: u32,
    /// Whether stacks have frames of user space.
    pub user_stacks: bool,
    /// Whether names of functions are replaced by hashes.
    pub hashed_names: bool,
    /// Whether JVMs are asked for the names of the code that they compiled. The threads of a JVM stand still for some ten
    /// milliseconds then, and it writes a file.
    pub jvm_maps: bool,
    /// Of which block requests; `None`: of none.
    pub requests: Option<RequestStacks>,
}

impl Default for StackOptions {
    fn default() -> StackOptions {
        StackOptions {
            hz: 20,
            budget: 0.01,
            copies: 256,
            all_threads: false,
            off_cpu_ns: 1_000_000,
            on_cpu_hz: 99,
            user_stacks: true,
            hashed_names: false,
            jvm_maps: false,
            requests: None,
        }
    }
}

/// What the kernel side tests itself. Every condition is necessary: an event that fails one would be dropped by the
/// caller's own filter too, which is applied to all that comes out. An empty list is no condition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PushDown {
    /// Latency of at least this (of whatever [`Options::from_queue`] makes the latency).
    pub min_latency_ns: u64,
    /// One of these processes.
    pub pids: Vec<u32>,
    /// One of these command names.
    pub comms: Vec<String>,
    /// One of these names of processes.
    pub processes: Vec<String>,
    /// One of these system calls, or flag letters of a block request (`Field::Name`).
    pub names: Vec<String>,
    /// One of these kinds (`Field::Kind`).
    pub kinds: Vec<String>,
    /// One of these devices, by name or as major:minor.
    pub devices: Vec<String>,
    /// One of these types of file descriptor (`Field::FdType`).
    pub fd_types: Vec<String>,
    /// In one of these containers; tested by captures of stacks.
    pub containers: Option<OfContainers>,
}

/// Of which containers events may pass.
#[derive(Clone)]
pub struct OfContainers {
    fields: FieldSet,
    may_pass: Arc<dyn Fn(&Batch) -> bool + Send + Sync>,
}

impl OfContainers {
    /// Those of which an event with these fields, given as a batch of one row, may pass.
    pub fn new(fields: FieldSet, may_pass: impl Fn(&Batch) -> bool + Send + Sync + 'static) -> OfContainers {
        OfContainers { fields, may_pass: Arc::new(may_pass) }
    }

    /// What has to be known of a container.
    pub fn fields(&self) -> FieldSet {
        self.fields
    }

    /// Whether an event of the container in the first row may pass.
    pub fn may_pass(&self, batch: &Batch) -> bool {
        (self.may_pass)(batch)
    }
}

impl PartialEq for OfContainers {
    fn eq(&self, other: &OfContainers) -> bool {
        self.fields == other.fields && Arc::ptr_eq(&self.may_pass, &other.may_pass)
    }
}

impl Eq for OfContainers {}

impl std::fmt::Debug for OfContainers {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.debug_struct("OfContainers").field("fields", &self.fields).finish_non_exhaustive()
    }
}

/// How to capture.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// What to capture.
    pub source: Source,
    /// The fields that filter and view ask for; those of them that the source knows are filled.
    pub fields: FieldSet,
    /// What the kernel side tests.
    pub push_down: PushDown,
    /// Latency counts from when a block request started to wait, not from when the device got it. Events then still start
    /// at their issue and give `queue_ns` (the caller shifts them); it matters to [`PushDown::min_latency_ns`] and to
    /// histograms.
    pub from_queue: bool,
    /// Keep every event at least this slow, and of the faster ones a uniform sample of one in so many, whose rows say in
    /// `Field::SampleWeight` how many events they stand for.
    pub sample: Option<Sample>,
    /// Only these system calls are looked at, by tracepoints of their own where the kernel has them, so that others cost
    /// next to nothing; `None`: those of the source.
    pub calls: Option<Vec<String>>,
    /// Histograms have no finer grid; they have a coarser one where there are so many keys that memory is short.
    pub finest: Grid,
    /// How stacks are captured.
    pub stacks: StackOptions,
    /// Size of the ring buffer in bytes, a power of two; events that find no place in it are counted as lost.
    pub ring_bytes: u32,
}

/// Which of the fast events are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// From this latency on all are kept, nanoseconds.
    pub slow_ns: u64,
    /// Of the others one in so many.
    pub one_in: u32,
}

impl Options {
    /// The default ring: a quarter of a second of a million events a second. With the tables beside it, it stays below
    /// what all kernel maps together may occupy, 64 MB.
    pub const RING_BYTES: u32 = 32 << 20;

    /// Captures all of a source with these fields.
    pub fn new(source: Source, fields: FieldSet) -> Options {
        Options {
            source,
            fields,
            push_down: PushDown::default(),
            from_queue: false,
            sample: None,
            calls: None,
            finest: Grid::FINE,
            stacks: StackOptions::default(),
            ring_bytes: Options::RING_BYTES,
        }
    }
}

/// The fields that a source can fill.
pub fn fills(source: Source) -> FieldSet {
    #[cfg(target_os = "linux")]
    return match source {
        Source::Block => block::FILLS,
        Source::Io | Source::Syscall => syscall::FILLS,
        Source::Stacks(_) => stacks::FILLS.with_implied(),
        Source::Beside(requests, _) => fills(requests.source()).union(stacks::FILLS).with_implied(),
    };
    #[cfg(not(target_os = "linux"))]
    return FieldSet::ALWAYS;
}

/// The fields that a source fills without being asked for each by its name: what is looked up for each process, socket or
/// disk costs something per event.
pub fn usual(source: Source) -> FieldSet {
    let usual = fills(source).without(FieldSet::BY_NAME);
    // A thread is looked at some times a second only.
    if matches!(source, Source::Stacks(_) | Source::Beside(..)) { usual.with(&[Field::Cgroup]) } else { usual }
}

/// The fields that make up the keys of a source's histograms.
pub fn key_fields(source: Source) -> FieldSet {
    #[cfg(target_os = "linux")]
    return match source {
        Source::Block => block::KEYS,
        Source::Io => syscall::KEYS,
        Source::Syscall => syscall::KEYS_BY_CALL,
        Source::Stacks(_) | Source::Beside(..) => FieldSet::ALWAYS,
    };
    #[cfg(not(target_os = "linux"))]
    return FieldSet::default();
}

/// Why a source has nothing of a device, as a sentence with the way out; `None` when it may have something.
pub fn nothing_of(source: Source, device: &str) -> Option<String> {
    #[cfg(target_os = "linux")]
    return if source == Source::Block { block::without_requests(device) } else { None };
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// The disks of this machine, each an event with a device and nothing else, where the source is about disks. A filter that
/// lets none of them through lets no event through.
pub fn disks_as_events(source: Source) -> Option<Batch> {
    #[cfg(target_os = "linux")]
    return (source == Source::Block).then(block::as_events);
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// That a filter on devices lets through none of the disks of this machine, as a sentence.
pub fn no_disk_matches(filter: &str) -> String {
    #[cfg(target_os = "linux")]
    return block::none_matches(filter);
    #[cfg(not(target_os = "linux"))]
    return format!("No block device of this machine matches {filter}.");
}

/// What takes the events of a live capture: the context as known so far and a batch, in about the order of completion.
pub type Sink<'a> = dyn FnMut(&Context, &Batch) -> ControlFlow<()> + 'a;

/// A running capture of events. Times are `CLOCK_MONOTONIC` as Unix time by the offset at the start. Dropping it detaches.
pub struct EventCapture(Box<dyn Events>);

/// A running capture of histograms. Dropping it detaches.
pub struct HistogramCapture(Box<dyn Histograms>);

/// What was counted for one key since it was last asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Counted {
    /// Row of the key in [`HistogramCapture::keys`].
    pub key: usize,
    /// The events. Its sum is exact.
    pub histogram: Sparse,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Whether minimum and maximum are exact. They are edges of buckets where an event was counted at the very moment
    /// at which the interval ended.
    pub is_exact: bool,
}

/// A source of events. There is one for block requests, one for system calls, and one for stacks.
trait Events: Send {
    fn context(&self) -> &Context;
    fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error>;
    fn refresh(&mut self) -> Result<(), Error>;
    fn waiting(&mut self) -> Result<&Batch, Error>;
    fn finish(self: Box<Self>, sink: &mut Sink) -> Result<Context, Error>;
}

/// A source of histograms.
trait Histograms: Send {
    fn context(&self) -> &Context;
    fn keys(&self) -> &Batch;
    fn take(&mut self) -> Result<Vec<Counted>, Error>;
    fn refresh(&mut self) -> Result<(), Error>;
    fn waiting(&mut self) -> Result<&Batch, Error>;
}

impl EventCapture {
    /// Loads and attaches.
    ///
    /// # Errors
    /// When rights are missing, the kernel lacks what is needed, or an option names what does not exist.
    pub fn start(options: &Options) -> Result<EventCapture, Error> {
        #[cfg(target_os = "linux")]
        return Ok(EventCapture(match options.source {
            Source::Block => block::events(options)?,
            Source::Io | Source::Syscall => syscall::events(options)?,
            Source::Stacks(kinds) => stacks::events(options, kinds)?,
            Source::Beside(requests, kinds) => {
                let options = Options { source: requests.source(), ..options.clone() };
                let requests = EventCapture::start(&options)?.0;
                let fields = options.fields.intersection(fills(options.source).union(stacks::FILLS));
                Box::new(beside::Beside::new(requests, stacks::events(&options, kinds)?, fields))
            }
        }));
        #[cfg(not(target_os = "linux"))]
        return Err(Error::not_linux());
    }

    /// What the trace says about itself, as of the last poll or refresh: span, losses, requests in flight.
    pub fn context(&self) -> &Context {
        self.0.context()
    }

    /// Waits until there are events, at most so long, and hands them on in batches. The sink may end it with `Break`,
    /// which comes back; what was not handed on yet is handed on later.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        self.0.poll(timeout, sink)
    }

    /// Brings losses and the list of requests in flight (`Context::unfinished`, those that wait longest) up to date.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.0.refresh()
    }

    /// What waits now, the oldest first: the columns of events as far as they are known, the time when it started, and as
    /// its latency the age so far, a lower bound of the latency to come. Waits of an idle server (accept, poll, a read of
    /// a pipe or a timer) are left out. The dictionaries of the batch only grow from call to call.
    /// Requests to block devices start and give `queue_ns` as the events do, whatever [`Options::from_queue`] is.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn waiting(&mut self) -> Result<&Batch, Error> {
        self.0.waiting()
    }

    /// Detaches, hands on what is left, and returns the final account.
    ///
    /// # Errors
    /// As [`EventCapture::poll`].
    pub fn finish(self, sink: &mut Sink) -> Result<Context, Error> {
        self.0.finish(sink)
    }
}

impl HistogramCapture {
    /// Loads and attaches. [`Options::push_down`] and [`Options::sample`] do not apply to histograms and must be empty, but
    /// that of block requests may name devices: those whose statistics are held against what was counted.
    ///
    /// # Errors
    /// As [`EventCapture::start`].
    pub fn start(options: &Options) -> Result<HistogramCapture, Error> {
        #[cfg(target_os = "linux")]
        return Ok(HistogramCapture(match options.source {
            Source::Block => block::histograms(options)?,
            Source::Io | Source::Syscall => syscall::histograms(options)?,
            Source::Stacks(_) | Source::Beside(..) => {
                return Err(Error::Option("Stacks are captured as events; leave out --mode.".into()));
            }
        }));
        #[cfg(not(target_os = "linux"))]
        return Err(Error::not_linux());
    }

    /// What the trace says about itself; how coarse the grid had to be is among its properties (`grid`).
    pub fn context(&self) -> &Context {
        self.0.context()
    }

    /// The keys seen so far, a row each with the columns of [`key_fields`]; rows are only ever added.
    pub fn keys(&self) -> &Batch {
        self.0.keys()
    }

    /// What was counted since the last call, keys without events left out.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn take(&mut self) -> Result<Vec<Counted>, Error> {
        self.0.take()
    }

    /// What waits now, the oldest first: the columns of events as far as they are known, the time when it started, and as
    /// its latency the age so far, a lower bound of the latency to come. Waits of an idle server (accept, poll, a read of
    /// a pipe or a timer) are left out. The dictionaries of the batch only grow from call to call.
    /// Requests to block devices count as in the histograms, from when they started to wait if [`Options::from_queue`] is set.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn waiting(&mut self) -> Result<&Batch, Error> {
        self.0.waiting()
    }

    /// Brings the account of losses up to date.
    ///
    /// # Errors
    /// As [`HistogramCapture::take`].
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.0.refresh()
    }
}
