//! Pairs the kernel's block request records into events.
//!
//! A record is what a tracepoint printed; an event is one request from its (last) issue to its completion, with the time
//! that it waited before in `queue_ns`. A request is known by device and first sector while it is in flight. What does not
//! pair is counted, never guessed.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use latscope_event::kernel::{block_kind, error_name};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, LossRange, Unfinished, format_size};
use std::collections::VecDeque;

/// The fields that a paired request fills.
pub const FILLS: FieldSet = FieldSet::TRACED.with(&[Field::Queue]);

/// No machine has more requests in flight; a trace that says so is damaged or made up.
const IN_FLIGHT_LIMIT: usize = 1 << 18;
/// Flushes in flight on one device; they are searched from front to back.
const DATALESS_LIMIT: usize = IN_FLIGHT_LIMIT / 64;
/// What the kernel calls a sector, whatever the device.
const SECTOR_BYTES: u64 = 512;
/// Thread or process number that the source does not tell.
pub const NO_ID: i32 = i32::MIN;

/// The tracepoint of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// `block_io_start`: the request begins to be accounted, before it queues.
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

/// One line of a block trace.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When, nanoseconds on the trace's clock.
    pub time_ns: i64,
    /// First sector; all ones for the completion of a flush.
    pub sector: u64,
    /// Bytes, where the record tells them (0 on completions).
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Queued,
    Issued,
    Requeued,
}

struct Open {
    queued_ns: i64,
    issued_ns: i64,
    bytes: u64,
    /// What is left of it, in sectors: a partial completion takes away from the front.
    sectors: u32,
    first_sector: u64,
    pid: i32,
    tid: i32,
    rwbs: [u8; 8],
    comm: [u8; 16],
    state: State,
    /// How often records had been lost when it opened.
    losses: u64,
}

/// The requests in flight, and the codes of texts that repeat in every event.
#[derive(Default)]
pub struct BlockPairs {
    open: HashMap<(u32, u64), Open>,
    /// Flushes and other requests without data have no sector of their own: they pair in device order.
    dataless: HashMap<u32, VecDeque<Open>>,
    dataless_len: usize,
    /// Issues, and how many of them were seen to miss their completion, which perf loses without a word on some kernels.
    issued: u64,
    missed: u64,
    /// How often records were lost: what opened before the last time is doubtful.
    losses: u64,
    names: Vec<([u8; 8], u32, u32)>,
    devices: Vec<(u32, u32, u32)>,
}

fn bytes_of(record: &Record) -> u64 {
    if record.bytes > 0 { u64::from(record.bytes) } else { u64::from(record.sectors) * SECTOR_BYTES }
}

impl Open {
    fn new(record: &Record, state: State, losses: u64) -> Open {
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
            state,
            losses,
        }
    }

    fn issue(&mut self, record: &Record) {
        self.issued_ns = record.time_ns;
        // A request that queued may have grown by merges before it was issued; what is issued again after a part of it
        // completed is only the rest.
        if self.first_sector == record.sector {
            self.bytes = bytes_of(record);
        }
        self.sectors = record.sectors;
        self.rwbs = record.rwbs;
        if self.state == State::Queued {
            (self.pid, self.tid, self.comm) = (record.pid, record.tid, record.comm);
        }
        self.state = State::Issued;
    }
}

impl BlockPairs {
    /// Takes the next record in time order; a completed request becomes a row of `batch`.
    pub fn push(&mut self, record: &Record, batch: &mut Batch, context: &mut Context) {
        context.cover(record.time_ns);
        let dataless = record.sectors == 0 && record.bytes == 0 && record.step != Step::Done;
        match record.step {
            _ if dataless => self.push_dataless(record, batch, context),
            Step::Start | Step::Insert => self.queue(record, context),
            Step::Issue => self.issue(record, context),
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
            // Insert follows start; the earlier of the two is when the waiting began.
            Some(open) if open.state == State::Queued && record.step == Step::Insert => return,
            Some(open) if open.state == State::Requeued => return,
            Some(open) if open.state == State::Issued => {
                self.missed += 1;
                context.tally.add(lost_by(open, self.losses), 1);
            }
            Some(_) => context.tally.add(Anomaly::NeverIssued, 1),
            None => self.make_room(context),
        }
        self.open.insert(key, Open::new(record, State::Queued, self.losses));
    }

    /// Whether so many completions are missing that flushes cannot be paired in order any more: every later one would get
    /// an older one's start. Then one without data is in flight on a device at most.
    fn misses_many(&self) -> bool {
        self.missed >= 100 && self.missed > self.issued / 20
    }

    fn issue(&mut self, record: &Record, context: &mut Context) {
        self.issued += 1;
        self.make_room(context);
        match self.open.entry((record.dev, record.sector)) {
            Entry::Vacant(place) => drop(place.insert(Open::new(record, State::Issued, self.losses))),
            Entry::Occupied(mut open) if open.get().state == State::Issued => {
                self.missed += 1;
                context.tally.add(lost_by(open.get(), self.losses), 1);
                open.insert(Open::new(record, State::Issued, self.losses));
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
            return;
        };
        if open.rwbs != record.rwbs || record.sectors > open.sectors || open.state == State::Queued {
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
        let at = |wanted: State| move |open: &&mut Open| open.state == wanted && open.rwbs == record.rwbs;
        let mut queue = self.dataless.get_mut(&record.dev).into_iter().flatten();
        match record.step {
            Step::Start | Step::Insert | Step::Done => {}
            Step::Issue => {
                if let Some(open) = queue.find(at(State::Requeued)) {
                    context.tally.add(Anomaly::Requeue, 1);
                    open.issue(record);
                } else {
                    if self.misses_many() {
                        self.drop_dataless(record, context);
                    }
                    self.make_room_dataless(record.dev, context);
                    let queue = self.dataless.entry(record.dev).or_default();
                    queue.push_back(Open::new(record, State::Issued, self.losses));
                    self.dataless_len += 1;
                }
            }
            Step::Requeue => match queue.find(at(State::Issued)) {
                Some(open) => open.state = State::Requeued,
                None => context.tally.add(Anomaly::OrphanRequeue, 1),
            },
            Step::Complete => match self.take_dataless(record) {
                Some(open) => self.emit(&open, record, batch, context),
                // The write that asked for the flush completes once more, without length.
                None if record.rwbs.contains(&b'W') => context.tally.add(Anomaly::FlushParent, 1),
                None => context.tally.add(Anomaly::OrphanCompletion, 1),
            },
        }
    }

    /// The first of its kind in flight on the device. A queue that it leaves empty goes: devices may be made up, too.
    fn take_dataless(&mut self, record: &Record) -> Option<Open> {
        let queue = self.dataless.get_mut(&record.dev)?;
        let at = queue.iter().position(|open| open.state == State::Issued && open.rwbs == record.rwbs)?;
        let open = queue.remove(at);
        if queue.is_empty() {
            self.dataless.remove(&record.dev);
        }
        self.dataless_len -= 1;
        open
    }

    /// Keeps the queues bounded: the oldest of a long one goes, and all of them where there are too many devices.
    fn make_room_dataless(&mut self, dev: u32, context: &mut Context) {
        if let Some(queue) = self.dataless.get_mut(&dev).filter(|queue| queue.len() >= DATALESS_LIMIT) {
            queue.pop_front();
            self.dataless_len -= 1;
            context.tally.add(Anomaly::EvictedInFlight, 1);
        } else if self.dataless_len >= IN_FLIGHT_LIMIT {
            context.tally.add(Anomaly::EvictedInFlight, self.dataless_len as u64);
            self.dataless.clear();
            self.dataless_len = 0;
        }
    }

    /// Forgets what of this kind is in flight without data on the device: its completion was missed.
    fn drop_dataless(&mut self, record: &Record, context: &mut Context) {
        let Some(queue) = self.dataless.get_mut(&record.dev) else { return };
        let (before, losses) = (queue.len(), self.losses);
        queue.retain(|open| {
            let missed = open.state == State::Issued && open.rwbs == record.rwbs;
            if missed {
                context.tally.add(lost_by(open, losses), 1);
            }
            !missed
        });
        self.dataless_len -= before - queue.len();
    }

    fn emit(&mut self, open: &Open, record: &Record, batch: &mut Batch, context: &mut Context) {
        let Ok(latency_ns) = u64::try_from(record.time_ns.saturating_sub(open.issued_ns)) else {
            context.tally.add(Anomaly::NegativeLatency, 1);
            return;
        };
        if open.losses < self.losses {
            context.tally.add(Anomaly::Doubtful, 1);
        }
        let (name, kind) = self.name_codes(open.rwbs, batch);
        let (dev, device) = self.device_codes(record.dev, batch);
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
            batch.push_text(Field::Comm, Some(trimmed(&open.comm)));
        }
        batch.push_text(Field::Error, error_of(record.error));
        batch.push_u64(Field::Queue, open.issued_ns.saturating_sub(open.queued_ns).try_into().unwrap_or(0));
        batch.end_row();
    }

    /// Codes of the flag letters and of the kind that they mean.
    fn name_codes(&mut self, rwbs: [u8; 8], batch: &mut Batch) -> (u32, u32) {
        if let Some(&(_, name, kind)) = self.names.iter().find(|(letters, ..)| *letters == rwbs) {
            return (name, kind);
        }
        let name = batch.intern(Field::Name, trimmed(&rwbs));
        let kind = batch.intern(Field::Kind, block_kind(&rwbs).as_bytes());
        // Letters are few in a real trace; a made-up one must not make the search long.
        if self.names.len() < 256 {
            self.names.push((rwbs, name, kind));
        }
        (name, kind)
    }

    fn device_codes(&mut self, number: u32, batch: &mut Batch) -> (u32, u32) {
        if let Some(&(_, dev, device)) = self.devices.iter().find(|(known, ..)| *known == number) {
            return (dev, device);
        }
        let dev = batch.intern(Field::Dev, device_number(number).as_bytes());
        let device = batch.intern(Field::Device, device_name(number).as_bytes());
        if self.devices.len() < 256 {
            self.devices.push((number, dev, device));
        }
        (dev, device)
    }

    /// The tracer lost records, between `from_ns` and `to_ns`: what is in flight may have completed unseen.
    pub fn lost(&mut self, range: LossRange, context: &mut Context) {
        context.cover(range.to_ns);
        context.tally.add(Anomaly::LostRecords, range.records.max(1));
        if context.loss_ranges.len() < Context::LOSS_RANGES_KEPT {
            context.loss_ranges.push(range);
        }
        self.losses += 1;
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

    /// The trace is over: what is still in flight is counted, and the longest waiting are named.
    pub fn finish(self, context: &mut Context) {
        let Some((_, end_ns)) = context.span_ns else { return };
        let dataless =
            self.dataless.into_iter().flat_map(|(dev, queue)| queue.into_iter().map(move |open| (dev, open)));
        for (dev, open) in self.open.into_iter().map(|((dev, _), open)| (dev, open)).chain(dataless) {
            let anomaly = match open.state {
                State::Queued => Anomaly::NeverIssued,
                State::Requeued => Anomaly::RequeuedOnly,
                State::Issued if open.losses < self.losses => Anomaly::OpenAfterLoss,
                State::Issued => Anomaly::Unfinished,
            };
            context.tally.add(anomaly, 1);
            if anomaly == Anomaly::Unfinished {
                let what = format!(
                    "{} {} of {} by {}",
                    device_name(dev),
                    block_kind(&open.rwbs),
                    format_size(open.bytes),
                    String::from_utf8_lossy(trimmed(&open.comm))
                );
                let at_least_ns = end_ns.saturating_sub(open.issued_ns).try_into().unwrap_or(0);
                context.unfinished.push(Unfinished { what, start_ns: open.issued_ns, at_least_ns });
            }
        }
        // By name where all else is equal, so that a trace is told in the same words each time.
        context
            .unfinished
            .sort_by(|a, b| (b.at_least_ns, a.start_ns, &a.what).cmp(&(a.at_least_ns, b.start_ns, &b.what)));
        context.unfinished.truncate(Context::UNFINISHED_KEPT);
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
fn device_number(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// The name of a device whose major number the kernel assigns for good (Documentation/admin-guide/devices.txt);
/// the number for all others, whose names only the host that made the trace could tell.
fn device_name(dev: u32) -> String {
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
        8 => disk("sd", minor / 16, minor % 16),
        65..=71 => disk("sd", 16 * (major - 64) + minor / 16, minor % 16),
        9 => format!("md{minor}"),
        202 => disk("xvd", minor / 16, minor % 16),
        _ => device_number(dev),
    }
}

#[cfg(test)]
#[path = "block_pairs_tests.rs"]
mod tests;
