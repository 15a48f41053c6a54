//! Pairs the kernel's block request records into events.
//!
//! A record is what a tracepoint printed; an event is one request from its (last) issue to its completion, with the time
//! that it waited before in `queue_ns`. A request is known by device and first sector while it is in flight. What does not
//! pair is counted, never guessed.

mod dataless;

use crate::unfinished::{Completed, Lacks, doubt};
use dataless::{Dataless, Ended};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use latscope_event::kernel::{block_kind, error_name};
use latscope_event::{
    Anomaly, Batch, Context, Field, FieldSet, LossRange, MISSING_CODE, MISSING_U64, Unfinished, Wait, format_size,
};

/// The fields that a paired request fills.
pub const FILLS: FieldSet = FieldSet::TRACED.with(&[Field::Queue, Field::Dispatcher]);
/// What it fills besides where the source has call stacks.
pub const OF_STACKS: FieldSet = FieldSet::EMPTY.with(&[Field::StackSource, Field::Stack]);

/// No machine has more requests in flight; a trace that says so is damaged or made up.
const IN_FLIGHT_LIMIT: usize = 1 << 18;
/// So many completions, or those of so long, wait at most for one that is held back, so that events are in their order.
const BEHIND_LIMIT: usize = 1 << 15;
const BEHIND_NS: i64 = 1_000_000_000;
/// Of so many completions without an issue it is known whether the issue may have been before the trace.
const ORPHANS_KEPT: usize = 1 << 16;
/// What the kernel calls a sector, whatever the device.
const SECTOR_BYTES: u64 = 512;
/// Thread or process number that the source does not give.
pub const NO_ID: i32 = i32::MIN;

/// The tracepoint of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// `block_io_start`: the request starts to be accounted, before it queues.
    Start,
    /// `block_rq_insert`: into the scheduler's queue.
    Insert,
    /// `block_rq_issue`: to the driver.
    Issue,
    /// `block_rq_requeue`: the driver was full and gave it back.
    Requeue,
    /// `block_rq_complete`: the driver finished it, or a part of it.
    Complete,
    /// `block_io_done`: the accounting ends; its size is always printed as zero.
    Done,
}

/// When a request started to wait, and the thread that made it.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    pub time_ns: i64,
    /// Or [`NO_ID`].
    pub tid: i32,
}

/// One line of a block trace.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When, nanoseconds on the trace's clock.
    pub time_ns: i64,
    /// First sector; all ones for the completion of a flush.
    pub sector: u64,
    /// Bytes, where the record gives them (0 on completions).
    pub bytes: u32,
    /// Length in sectors.
    pub sectors: u32,
    /// Device number as the kernel packs it: `major << 20 | minor`.
    pub dev: u32,
    /// Error number of a completion, negative or 0.
    pub error: i32,
    /// Process of the issuer, or [`NO_ID`].
    pub pid: i32,
    /// Thread of the issuer, or [`NO_ID`].
    pub tid: i32,
    /// Which tracepoint.
    pub step: Step,
    /// Operation and flag letters (`RA`, `WFS` ...), zero padded.
    pub rwbs: [u8; 8],
    /// Command name of the issuer, zero padded.
    pub comm: [u8; 16],
    /// Code of the call stack, or [`MISSING_CODE`].
    pub stack: u32,
}

/// How far a request has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Queued,
    Issued,
    Requeued,
}

/// A request in flight.
#[derive(Clone)]
pub struct Open {
    queued_ns: i64,
    /// When it was issued last.
    pub issued_ns: i64,
    bytes: u64,
    /// What is left of it, in sectors: a partial completion takes away from the front.
    sectors: u32,
    first_sector: u64,
    pid: i32,
    tid: i32,
    rwbs: [u8; 8],
    comm: [u8; 16],
    /// The thread that made it, or [`NO_ID`].
    maker: i32,
    /// Code of the call stack that made it, else of the one that issued it, or [`MISSING_CODE`].
    stack: u32,
    /// Whether nobody knows since when it waited, whatever is known of others.
    is_since_unknown: bool,
    /// How far it has come.
    pub state: State,
    /// How often records had been lost when it opened.
    losses: u64,
}

/// The requests in flight, and the codes of texts that repeat in every event.
#[derive(Default)]
pub struct BlockPairs {
    open: HashMap<(u32, u64), Open>,
    /// Requests without a sector of their own.
    dataless: Dataless,
    /// What ended after a completion that is held back.
    behind: Vec<Ended>,
    /// How many requests ended.
    ended: u64,
    /// How often records were lost: what opened before the last time is doubtful.
    losses: u64,
    /// How many events were made.
    completed: u64,
    /// By the letters, and whether they mean a flush.
    names: Vec<(([u8; 8], bool), u32, u32)>,
    /// When what completed that nothing had issued: the first of them.
    orphans_ns: Vec<i64>,
    devices: Vec<Device>,
    /// Whether the trace has records of when requests started to wait. Without them nobody knows whether they did.
    sees_waits: bool,
    /// Whether it has records of when requests were issued. Without them their time counts from when they started to wait.
    sees_issues: bool,
}

/// A device that completed something.
struct Device {
    number: u32,
    codes: DeviceCodes,
    completed: Completed,
}

/// Codes of the number and the name of a device.
#[derive(Clone, Copy)]
struct DeviceCodes {
    dev: u32,
    device: u32,
}

impl DeviceCodes {
    fn new(number: u32, batch: &mut Batch) -> DeviceCodes {
        DeviceCodes {
            dev: batch.intern(Field::Dev, device_number(number).as_bytes()),
            device: batch.intern(Field::Device, device_name(number).as_bytes()),
        }
    }
}

fn bytes_of(record: &Record) -> u64 {
    if record.bytes > 0 { u64::from(record.bytes) } else { u64::from(record.sectors) * SECTOR_BYTES }
}

impl Open {
    /// Starts with this record.
    pub fn new(record: &Record, state: State, losses: u64) -> Open {
        Open {
            queued_ns: record.time_ns,
            issued_ns: record.time_ns,
            bytes: bytes_of(record),
            sectors: record.sectors,
            first_sector: record.sector,
            pid: record.pid,
            tid: record.tid,
            rwbs: record.rwbs,
            comm: record.comm,
            maker: if state == State::Queued { record.tid } else { NO_ID },
            stack: record.stack,
            is_since_unknown: false,
            state,
            losses,
        }
    }

    /// It is issued, or issued again.
    pub fn issue(&mut self, record: &Record) {
        self.issued_ns = record.time_ns;
        // A request that queued may have grown by merges before it was issued; what is issued again after a part of it
        // completed is only the rest.
        if self.first_sector == record.sector {
            self.bytes = bytes_of(record);
        }
        self.sectors = record.sectors;
        self.rwbs = record.rwbs;
        // Time, latency and thread are those of the same issue, as blkparse and btt have it.
        (self.pid, self.tid, self.comm) = (record.pid, record.tid, record.comm);
        if self.stack == MISSING_CODE {
            self.stack = record.stack;
        }
        self.state = State::Issued;
    }

    /// Whether the thread that made it also issued it; `None` where the trace does not have both.
    fn is_own_issue(&self) -> Option<bool> {
        (self.maker != NO_ID && self.tid != NO_ID).then_some(self.maker == self.tid)
    }

    /// What it does: a flush that has data is that data's.
    fn kind(&self) -> &'static str {
        if self.is_flush() { "flush" } else { block_kind(&self.rwbs) }
    }

    fn is_flush(&self) -> bool {
        self.bytes == 0 && self.rwbs[0] == b'F'
    }

    /// `sda write of 4KiB by fio`.
    fn describe(&self, dev: u32) -> String {
        let by = match (trimmed(&self.comm), self.tid) {
            (b"", NO_ID) => String::new(),
            (b"", tid) => format!(" by thread {tid}"),
            (comm, _) => format!(" by {}", String::from_utf8_lossy(comm)),
        };
        format!("{} {} of {}{by}", device_name(dev), self.kind(), format_size(self.bytes))
    }
}

impl BlockPairs {
    /// Takes the next record in time order; a completed request becomes a row of `batch`.
    pub fn push(&mut self, record: &Record, batch: &mut Batch, context: &mut Context) {
        context.cover(record.time_ns);
        // A passthrough command has bytes, but is issued at sector 0 and completes at sector -1, as a flush does.
        let dataless = (record.sectors == 0 || record.sector == u64::MAX) && record.step != Step::Done;
        match record.step {
            _ if dataless => self.push_dataless(record, batch, context),
            Step::Start | Step::Insert => {
                self.sees_waits = true;
                self.queue(record, context);
            }
            Step::Issue => self.issue(record, Open::new(record, State::Issued, self.losses), context),
            Step::Requeue => match self.open.get_mut(&(record.dev, record.sector)) {
                Some(open) => open.state = State::Requeued,
                None => context.tally.add(Anomaly::OrphanRequeue, 1),
            },
            Step::Complete => self.complete(record, batch, context),
            Step::Done => self.done(record, batch, context),
        }
    }

    fn queue(&mut self, record: &Record, context: &mut Context) {
        let key = (record.dev, record.sector);
        match self.open.get(&key) {
            // Insert follows start; the earlier of the two is when the waiting started.
            Some(open) if open.state == State::Queued && record.step == Step::Insert => return,
            Some(open) if open.state == State::Requeued => return,
            Some(open) if open.state == State::Issued => {
                context.tally.add(lost_by(open, self.losses), 1);
            }
            Some(open) if !self.sees_issues => context.tally.add(lost_by(open, self.losses), 1),
            Some(_) => context.tally.add(Anomaly::NeverIssued, 1),
            None => self.make_room(context),
        }
        self.open.insert(key, Open::new(record, State::Queued, self.losses));
    }

    /// As [`BlockPairs::push`], for the issue of a request with data, of which the source found out by itself since when it
    /// waited, or could not.
    #[inline]
    pub fn issue_since(&mut self, record: &Record, since: Option<Since>, context: &mut Context) {
        context.cover(record.time_ns);
        self.sees_waits |= since.is_some();
        let since_ns = since.map_or(record.time_ns, |since| since.time_ns);
        let maker = since.map_or(NO_ID, |since| since.tid);
        let open = Open::new(record, State::Issued, self.losses);
        self.issue(record, Open { queued_ns: since_ns, maker, is_since_unknown: since.is_none(), ..open }, context);
    }

    /// It is issued: `issued`, unless it is in flight already.
    #[inline]
    fn issue(&mut self, record: &Record, issued: Open, context: &mut Context) {
        self.sees_issues = true;
        self.make_room(context);
        match self.open.entry((record.dev, record.sector)) {
            Entry::Vacant(place) => drop(place.insert(issued)),
            Entry::Occupied(mut open) if open.get().state == State::Issued => {
                context.tally.add(lost_by(open.get(), self.losses), 1);
                open.insert(issued);
            }
            Entry::Occupied(mut open) => {
                if open.get().state == State::Requeued {
                    context.tally.add(Anomaly::Requeue, 1);
                }
                open.get_mut().issue(record);
            }
        }
    }

    fn complete(&mut self, record: &Record, batch: &mut Batch, context: &mut Context) {
        let key = (record.dev, record.sector);
        let Some(mut open) = self.open.remove(&key) else {
            context.tally.add(Anomaly::OrphanCompletion, 1);
            if self.orphans_ns.len() < ORPHANS_KEPT {
                self.orphans_ns.push(record.time_ns);
            }
            return;
        };
        let is_unissued = open.state == State::Queued;
        if is_unissued && !self.sees_issues && record.sectors > open.sectors {
            // It grew by merges before it was issued.
            (open.sectors, open.bytes) = (record.sectors, u64::from(record.sectors) * SECTOR_BYTES);
        }
        if open.rwbs != record.rwbs || record.sectors > open.sectors || is_unissued && self.sees_issues {
            // A read must not end a write that the trace lost sight of, however well the sector fits.
            context.tally.add(Anomaly::MismatchedCompletion, 1);
            return;
        }
        if record.sectors < open.sectors {
            context.tally.add(Anomaly::PartialCompletion, 1);
            open.sectors -= record.sectors;
            self.open.insert((record.dev, record.sector.wrapping_add(u64::from(record.sectors))), open);
            return;
        }
        if is_unissued {
            // Nobody knows how long of its time it waited, and who issued it.
            (open.is_since_unknown, open.maker) = (true, NO_ID);
        }
        self.emit(&open, record, batch, context);
    }

    /// Ends a request by `block_io_done`, in traces that have no completions of the driver.
    fn done(&mut self, record: &Record, batch: &mut Batch, context: &mut Context) {
        let key = (record.dev, record.sector);
        // Where the driver's completion was seen, the request is gone already.
        if self.open.get(&key).is_some_and(|open| open.rwbs == record.rwbs && open.state != State::Requeued)
            && let Some(open) = self.open.remove(&key)
        {
            self.emit(&open, record, batch, context);
        }
    }

    fn push_dataless(&mut self, record: &Record, batch: &mut Batch, context: &mut Context) {
        match record.step {
            Step::Start | Step::Insert | Step::Done => {}
            Step::Issue => {
                if self.dataless.issue(record, self.losses) {
                    context.tally.add(Anomaly::Requeue, 1);
                }
            }
            Step::Requeue => {
                if !self.dataless.requeue(record) {
                    context.tally.add(Anomaly::OrphanRequeue, 1);
                }
            }
            Step::Complete => {
                self.ended += 1;
                if !self.dataless.complete(record, self.ended, self.losses) {
                    // The write that asked for a flush completes once more, without length.
                    let is_parent = record.rwbs.contains(&b'W');
                    let anomaly = if is_parent { Anomaly::FlushParent } else { Anomaly::OrphanCompletion };
                    context.tally.add(anomaly, 1);
                }
            }
        }
        self.take_dataless(batch, context);
    }

    /// Takes over what became certain of requests without data.
    fn take_dataless(&mut self, batch: &mut Batch, context: &mut Context) {
        self.behind.append(&mut self.dataless.ended);
        for open in self.dataless.dropped.drain(..) {
            context.tally.add(lost_by(&open, self.losses), 1);
        }
        context.tally.add(Anomaly::EvictedInFlight, std::mem::take(&mut self.dataless.evicted));
        if !self.dataless.holds() {
            let mut behind = std::mem::take(&mut self.behind);
            behind.sort_unstable_by_key(|ended| ended.place);
            for ended in behind.drain(..) {
                self.write(&ended.open, &ended.record, ended.losses, batch, context);
            }
            self.behind = behind;
        }
    }

    /// Forgets the request with data that is in flight there. Whether there was one.
    pub fn forget(&mut self, dev: u32, sector: u64) -> bool {
        self.open.remove(&(dev, sector)).is_some()
    }

    /// Waits no longer for what may follow: what was held back becomes rows of `batch`. Before [`BlockPairs::finish`].
    pub fn settle(&mut self, batch: &mut Batch, context: &mut Context) {
        self.dataless.settle();
        self.take_dataless(batch, context);
    }

    /// A request ended: it becomes a row, in the order of the completions.
    #[inline]
    fn emit(&mut self, open: &Open, record: &Record, batch: &mut Batch, context: &mut Context) {
        self.ended += 1;
        if !self.dataless.holds() {
            return self.write(open, record, self.losses, batch, context);
        }
        self.behind.push(Ended { open: open.clone(), record: *record, place: self.ended, losses: self.losses });
        let held_ns = record.time_ns.saturating_sub(self.behind[0].record.time_ns);
        if self.behind.len() >= BEHIND_LIMIT || held_ns >= BEHIND_NS {
            self.settle(batch, context);
        }
    }

    fn write(&mut self, open: &Open, record: &Record, losses: u64, batch: &mut Batch, context: &mut Context) {
        let Ok(latency_ns) = u64::try_from(record.time_ns.saturating_sub(open.issued_ns)) else {
            context.tally.add(Anomaly::NegativeLatency, 1);
            return;
        };
        if open.losses < losses {
            context.tally.add(Anomaly::Doubtful, 1);
        }
        self.completed += 1;
        // One search for each event.
        let codes = match self.devices.iter_mut().find(|device| device.number == record.dev) {
            Some(device) => {
                device.completed.add(open.issued_ns, latency_ns);
                device.codes
            }
            None => self.add_device(record.dev, (open.issued_ns, latency_ns), batch),
        };
        self.row(open, codes, (latency_ns, record.error), batch);
    }

    /// Puts a request on a device into a batch.
    #[inline(always)]
    fn row(&mut self, open: &Open, codes: DeviceCodes, (latency_ns, error): (u64, i32), batch: &mut Batch) {
        let (name, kind) = self.name_codes(open, batch);
        let DeviceCodes { dev, device } = codes;
        batch.push_i64(Field::Time, open.issued_ns);
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_code(Field::Kind, kind);
        batch.push_code(Field::Name, name);
        batch.push_u64(Field::Size, open.bytes);
        batch.push_u64(Field::Offset, open.first_sector.saturating_mul(SECTOR_BYTES));
        batch.push_code(Field::Device, device);
        batch.push_code(Field::Dev, dev);
        batch.push_i64(Field::Pid, id(open.pid));
        batch.push_i64(Field::Tid, id(open.tid));
        if batch.fields().contains(Field::Comm) {
            batch.push_text(Field::Comm, Some(trimmed(&open.comm)).filter(|comm| !comm.is_empty()));
        }
        if batch.fields().contains(Field::Dispatcher) {
            let dispatcher = open.is_own_issue().map(|own| if own { &b"issuer"[..] } else { b"other" });
            batch.push_text(Field::Dispatcher, dispatcher);
        }
        batch.push_text(Field::Error, error_of(error));
        // A request that was issued again waited meanwhile, whatever else the trace has.
        let queue_ns = open.issued_ns.saturating_sub(open.queued_ns).try_into().unwrap_or(0);
        let is_known = self.sees_waits && !open.is_since_unknown || queue_ns > 0;
        batch.push_u64(Field::Queue, if is_known { queue_ns } else { MISSING_U64 });
        push_stack(open.stack, batch);
        batch.end_row();
    }

    /// Codes of the flag letters and of the kind that they mean.
    #[inline]
    fn name_codes(&mut self, open: &Open, batch: &mut Batch) -> (u32, u32) {
        match self.names.iter().find(|(key, ..)| *key == (open.rwbs, open.is_flush())) {
            Some(&(_, name, kind)) => (name, kind),
            None => self.add_name(open, batch),
        }
    }

    #[cold]
    fn add_name(&mut self, open: &Open, batch: &mut Batch) -> (u32, u32) {
        let name = batch.intern(Field::Name, trimmed(&open.rwbs));
        let kind = batch.intern(Field::Kind, open.kind().as_bytes());
        // Letters are few in a real trace; a made-up one must not make the search long.
        if self.names.len() < 256 {
            self.names.push(((open.rwbs, open.is_flush()), name, kind));
        }
        (name, kind)
    }

    /// A device completes its first request, issued then, after so long.
    #[cold]
    fn add_device(&mut self, number: u32, (issued_ns, latency_ns): (i64, u64), batch: &mut Batch) -> DeviceCodes {
        let codes = DeviceCodes::new(number, batch);
        if self.devices.len() < 256 {
            let mut completed = Completed::default();
            completed.add(issued_ns, latency_ns);
            self.devices.push(Device { number, codes, completed });
        }
        codes
    }

    /// The tracer lost records, between `from_ns` and `to_ns`: what is in flight may have completed unseen.
    pub fn lost(&mut self, range: LossRange, context: &mut Context) {
        context.cover(range.end_ns);
        context.tally.add(Anomaly::LostRecords, range.records.max(1));
        if context.loss_ranges.len() < Context::LOSS_RANGES_KEPT {
            context.loss_ranges.push(range);
        }
        self.losses += 1;
    }

    /// Completions of requests that were issued after the trace started, as nothing takes so long, and whose issue is missing.
    fn lost_issues(&self, start_ns: i64) -> u64 {
        let slowest_ns = self.devices.iter().map(|device| device.completed.slowest_ns()).max().unwrap_or(0);
        let since_start = |&time_ns: &i64| u64::try_from(time_ns.saturating_sub(start_ns)).unwrap_or(0);
        self.orphans_ns.iter().map(since_start).filter(|&since_ns| since_ns > slowest_ns).count() as u64
    }

    /// Keeps the table bounded: of too many requests in flight the older half goes.
    #[inline]
    fn make_room(&mut self, context: &mut Context) {
        if self.open.len() >= IN_FLIGHT_LIMIT {
            self.evict(context);
        }
    }

    #[cold]
    fn evict(&mut self, context: &mut Context) {
        let mut times: Vec<i64> = self.open.values().map(|open| open.issued_ns).collect();
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable(middle);
        let before = self.open.len();
        self.open.retain(|_, open| open.issued_ns > median);
        context.tally.add(Anomaly::EvictedInFlight, (before - self.open.len()) as u64);
    }

    /// The trace is over: what is still in flight is counted, and the longest waiting are kept.
    pub fn finish(mut self, context: &mut Context) {
        context.knows_unfinished = true;
        let Some((start_ns, end_ns)) = context.span_ns else { return };
        let dataless = std::mem::take(&mut self.dataless).into_open();
        let in_flight = std::mem::take(&mut self.open).into_iter().map(|((dev, _), open)| (dev, open));
        let mut unfinished = Vec::new();
        for (dev, open) in in_flight.chain(dataless) {
            let anomaly = match open.state {
                State::Queued if self.sees_issues => Anomaly::NeverIssued,
                State::Requeued => Anomaly::RequeuedOnly,
                _ if open.losses < self.losses => Anomaly::OpenAfterLoss,
                State::Queued | State::Issued => Anomaly::Unfinished,
            };
            context.tally.add(anomaly, 1);
            if anomaly == Anomaly::Unfinished {
                let device = self.devices.iter().find(|device| device.number == dev);
                let is_left = device.is_some_and(|device| device.completed.has_left_behind(open.issued_ns));
                unfinished.push((dev, open, if is_left { Wait::LeftBehind } else { Wait::Counts }));
            }
        }
        let lacks = Lacks { issues: self.lost_issues(start_ns), is_cut: context.tally.get(Anomaly::Truncated) > 0 };
        doubt(unfinished.iter_mut().map(|(.., wait)| wait), lacks, &context.tally, self.completed);
        // In one order, however the table was filled.
        unfinished.sort_by_key(|(dev, open, _)| (open.issued_ns, *dev, open.first_sector, open.rwbs));
        unfinished.truncate(Context::UNFINISHED_KEPT);
        // The codes that are known are those of another batch.
        self.names.clear();
        let mut batch = Batch::new(FILLS);
        for (row, (dev, open, wait)) in unfinished.iter_mut().enumerate() {
            open.stack = MISSING_CODE;
            let at_least_ns = end_ns.saturating_sub(open.issued_ns).try_into().unwrap_or(0);
            let codes = DeviceCodes::new(*dev, &mut batch);
            self.row(open, codes, (at_least_ns, 0), &mut batch);
            context.unfinished.push(Unfinished::from_row(open.describe(*dev), *wait, &batch, row));
        }
        context.sort_unfinished();
    }
}

/// The stack that a record had when its event started.
#[inline]
pub fn push_stack(code: u32, batch: &mut Batch) {
    if code != MISSING_CODE {
        batch.push_code(Field::Stack, code);
        batch.push_text(Field::StackSource, Some(b"issue"));
    }
}

fn lost_by(open: &Open, losses: u64) -> Anomaly {
    if open.losses < losses { Anomaly::OpenAfterLoss } else { Anomaly::LostCompletion }
}

fn id(number: i32) -> i64 {
    if number == NO_ID { latscope_event::MISSING_I64 } else { i64::from(number) }
}

/// The text of a zero padded array.
pub fn trimmed(padded: &[u8]) -> &[u8] {
    &padded[..padded.iter().position(|&byte| byte == 0).unwrap_or(padded.len())]
}

/// A text as a zero padded array, cut to its size.
pub fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let len = text.len().min(N);
    array[..len].copy_from_slice(&text[..len]);
    array
}

/// The name of an error that a tracer prints with either sign.
fn error_of(error: i32) -> Option<&'static [u8]> {
    (error != 0).then(|| error_name(-i64::from(error.unsigned_abs())).unwrap_or("error").as_bytes())
}

/// `major:minor` of a packed device number.
pub fn device_number(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// The name of a device whose major number the kernel assigns for good (Documentation/admin-guide/devices.txt);
/// the number for all others, whose names only the host that made the trace could decide.
pub fn device_name(dev: u32) -> String {
    let (major, minor) = (dev >> 20, dev & 0xf_ffff);
    let disk = |prefix: &str, index: u32, partition: u32| {
        let mut letters = Vec::new();
        let mut left = index + 1;
        while left > 0 {
            letters.insert(0, (b'a' + ((left - 1) % 26) as u8) as char);
            left = (left - 1) / 26;
        }
        let name = format!("{prefix}{}", letters.into_iter().collect::<String>());
        if partition == 0 { name } else { format!("{name}{partition}") }
    };
    match major {
        1 => format!("ram{minor}"),
        7 => format!("loop{minor}"),
        8 | 65..=71 | 128..=135 => {
            // As the kernel's sd.c deals them out: 16 disks to a major number, then 16 more to each with higher minor numbers.
            let row = [(8, 0), (65, 1), (128, 8)].into_iter().rev().find(|&(first, _)| major >= first);
            let row = row.map_or(0, |(first, row)| row + major - first);
            disk("sd", (minor & 0xf_ff00) | row << 4 | minor >> 4 & 15, minor & 15)
        }
        9 => format!("md{minor}"),
        202 => disk("xvd", minor / 16, minor % 16),
        _ => device_number(dev),
    }
}

#[cfg(test)]
mod tests;
