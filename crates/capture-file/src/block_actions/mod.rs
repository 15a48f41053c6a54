//! Records of the kernel's blk tracer, of which blktrace, blkparse and ftrace's `blk` tracer make different forms.
//!
//! A request shows from the bio that is queued (Q) over its issue to the driver (D) to its completion (C). The last two pair
//! as those of tracepoints do ([`BlockPairs`]); what comes before gives the time that a request waited. Device-mapper and md
//! take bios and never issue them as requests: theirs last from Q to C.

mod events;
pub mod text;
mod waiting;

pub use events::ActionEvents;

use crate::block_pairs::{self, BlockPairs, NO_ID, Record, Since, Step, device_name, device_number};
use latscope_event::{Anomaly, Batch, Context, Field, FieldSet, LossRange, MISSING_CODE, Note};
use waiting::{Waiting, Waitings};

/// The fields that a request fills.
pub const FILLS: FieldSet = block_pairs::FILLS.without(FieldSet::EMPTY.with(&[Field::Pid]));

/// Devices beyond these are taken for disks.
const DEVICES_LIMIT: usize = 256;
const SECTOR_BYTES: u64 = 512;

/// What a record says of a request or bio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Q: a bio is queued.
    Queue,
    /// G: a request is allocated for it.
    Allocate,
    /// I: the request is inserted into the scheduler's queue.
    Insert,
    /// D: the request is issued to the driver.
    Issue,
    /// R: the driver gave it back.
    Requeue,
    /// C: it, or a part of it, completed.
    Complete,
    /// M: a bio or request was appended to a request.
    BackMerge,
    /// F: a bio was put in front of a request.
    FrontMerge,
    /// X: a bio was split; the rest starts at this sector.
    Split(u64),
    /// A: a bio was passed on to the record's device, from that of this number.
    Remap(u32),
}

/// A record of the blk tracer.
#[derive(Clone, Copy, Debug)]
pub struct ActionRecord {
    /// When, nanoseconds on the trace's clock.
    pub time_ns: i64,
    /// First sector; 0 if the action has no sector of its own.
    pub sector: u64,
    /// What it says.
    pub action: Action,
    pub bytes: u32,
    /// Device number as the kernel packs it.
    pub dev: u32,
    /// Thread, or [`NO_ID`].
    pub tid: i32,
    /// Error number of a completion, negative or 0.
    pub error: i32,
    /// Whether it is a command that is passed through, which has no sector.
    pub is_passthrough: bool,
    /// Operation and flag letters, zero padded.
    pub rwbs: [u8; 8],
}

impl ActionRecord {
    fn record(&self, step: Step, comm: [u8; 16]) -> Record {
        Record {
            time_ns: self.time_ns,
            sector: self.sector,
            bytes: self.bytes,
            sectors: if self.is_passthrough { 0 } else { (u64::from(self.bytes) / SECTOR_BYTES) as u32 },
            dev: self.dev,
            error: self.error,
            pid: NO_ID,
            tid: self.tid,
            step,
            rwbs: self.rwbs,
            comm,
            stack: MISSING_CODE,
        }
    }
}

/// What is known of a device.
struct Device {
    number: u32,
    /// Whether it has requests; else it takes bios, as device-mapper does.
    has_requests: bool,
    /// How many bios it completed.
    completed: u64,
    /// Whether it passes bios on to a device that is in the trace.
    passes_on: bool,
}

/// What is in flight, and on the way there.
#[derive(Default)]
pub struct BlockActions {
    pairs: BlockPairs,
    waiting: Waitings,
    devices: Vec<Device>,
    /// Whether events of devices that pass their requests on are left out.
    once: bool,
    /// How many were.
    left_out: u64,
}

impl BlockActions {
    /// With `once`, a request that a device passes on to another of the trace is one event, of the lower device.
    pub fn new(once: bool) -> BlockActions {
        BlockActions { once, ..BlockActions::default() }
    }

    /// Adds the next record in time order, of a thread with this name; a completed request becomes a row of `batch`.
    #[inline]
    pub fn add(&mut self, record: &ActionRecord, comm: [u8; 16], batch: &mut Batch, context: &mut Context) {
        context.cover(record.time_ns);
        match record.action {
            Action::Queue | Action::Allocate | Action::Insert => self.wait(record, comm),
            Action::Issue => self.issue(record, comm, batch, context),
            Action::Complete => self.complete(record, comm, batch, context),
            Action::Requeue => self.pairs.push(&record.record(Step::Requeue, comm), batch, context),
            // What was merged has no issue of its own.
            Action::BackMerge => drop(self.waiting.remove((record.dev, record.sector))),
            Action::FrontMerge => self.merge_in_front(record),
            Action::Split(rest) => self.split(record, rest),
            Action::Remap(from) => {
                if let Some(device) = self.device(from).filter(|_| from != record.dev) {
                    device.passes_on = true;
                }
                self.waiting.add(Waiting { record: *record, comm });
            }
        }
    }

    /// A bio or request starts to wait, or waits on.
    #[inline]
    fn wait(&mut self, record: &ActionRecord, comm: [u8; 16]) {
        if record.action != Action::Queue {
            self.set_has_requests(record.dev);
        }
        if record.bytes > 0 && !record.is_passthrough {
            self.waiting.note(record, comm);
        }
    }

    #[inline]
    fn issue(&mut self, record: &ActionRecord, comm: [u8; 16], batch: &mut Batch, context: &mut Context) {
        self.set_has_requests(record.dev);
        let waiting = self.waiting.remove((record.dev, record.sector)).map(|waiting| waiting.record);
        let issued = record.record(Step::Issue, comm);
        if issued.sectors > 0 {
            let since = waiting.map(|waiting| Since { time_ns: waiting.time_ns, tid: waiting.tid });
            self.pairs.issue_since(&issued, since, context);
        } else {
            self.pairs.push(&issued, batch, context);
        }
    }

    #[inline]
    fn complete(&mut self, record: &ActionRecord, comm: [u8; 16], batch: &mut Batch, context: &mut Context) {
        let completed = record.record(Step::Complete, comm);
        let (has_requests, passes_on) = self.device(record.dev).map_or((true, false), |device| {
            device.completed += 1;
            (device.has_requests, device.passes_on)
        });
        if self.once && passes_on && completed.sectors > 0 {
            let (dev, sector) = (record.dev, record.sector);
            let was_known = self.waiting.remove((dev, sector)).is_some() | self.pairs.forget(dev, sector);
            self.left_out += u64::from(was_known);
            return;
        }
        if !has_requests
            && completed.sectors > 0
            && let Some(mut waiting) = self.waiting.remove((record.dev, record.sector))
        {
            self.rejoin(record, &mut waiting.record);
            self.pairs.push(&waiting.record.record(Step::Issue, waiting.comm), batch, context);
        }
        self.pairs.push(&completed, batch, context);
    }

    /// The rest of a bio waits as long as its first part.
    fn split(&mut self, record: &ActionRecord, rest: u64) {
        let Some(first) = self.waiting.get_mut((record.dev, record.sector)) else { return };
        let mut waiting = *first;
        let bytes = rest.saturating_sub(record.sector).saturating_mul(SECTOR_BYTES);
        // One that is split behind its end, or at its start, is not understood.
        let Some(bytes) = u32::try_from(bytes).ok().filter(|bytes| (1..waiting.record.bytes).contains(bytes)) else {
            return;
        };
        first.record.bytes = bytes;
        waiting.record.sector = rest;
        waiting.record.bytes -= bytes;
        self.waiting.add(waiting);
    }

    /// A bio that was split completes as a whole: its rests do not wait any more.
    fn rejoin(&mut self, completed: &ActionRecord, start: &mut ActionRecord) {
        let end = completed.sector.saturating_add(u64::from(completed.bytes) / SECTOR_BYTES);
        let sectors = |record: &ActionRecord| (u64::from(record.bytes) / SECTOR_BYTES).max(1);
        let mut next = start.sector.saturating_add(sectors(start));
        while next < end
            && let Some(rest) = self.waiting.remove((completed.dev, next))
        {
            next = next.saturating_add(sectors(&rest.record));
            start.bytes = completed.bytes;
        }
    }

    /// The request that started behind this bio starts with it from now on; it waits since the earlier of the two.
    fn merge_in_front(&mut self, record: &ActionRecord) {
        let behind = record.sector.wrapping_add(u64::from(record.bytes) / SECTOR_BYTES);
        let Some(mut request) = self.waiting.remove((record.dev, behind)) else { return };
        request.record.sector = record.sector;
        self.waiting.add(request);
    }

    #[inline]
    fn device(&mut self, number: u32) -> Option<&mut Device> {
        let at = self.devices.iter().position(|device| device.number == number).or_else(|| self.add_device(number))?;
        self.devices.get_mut(at)
    }

    #[cold]
    fn add_device(&mut self, number: u32) -> Option<usize> {
        let at = self.devices.len();
        if at < DEVICES_LIMIT {
            self.devices.push(Device { number, has_requests: false, completed: 0, passes_on: false });
        }
        (at < DEVICES_LIMIT).then_some(at)
    }

    #[inline]
    fn set_has_requests(&mut self, number: u32) {
        if let Some(device) = self.device(number) {
            device.has_requests = true;
        }
    }

    /// The tracer lost records.
    pub fn lose(&mut self, range: LossRange, context: &mut Context) {
        self.pairs.lost(range, context);
    }

    /// Waits no longer for what may follow. Before [`BlockActions::finish`].
    pub fn settle(&mut self, batch: &mut Batch, context: &mut Context) {
        self.pairs.settle(batch, context);
    }

    /// The trace is over: what is still in flight is counted.
    pub fn finish(mut self, context: &mut Context) {
        // Nothing completes any more.
        let mut batch = Batch::new(FieldSet::EMPTY);
        let waiting = std::mem::take(&mut self.waiting);
        let mut never_issued = waiting.evicted;
        for Waiting { record, comm } in waiting.into_sorted() {
            let device = self.devices.iter().find(|device| device.number == record.dev);
            match device.filter(|device| !device.has_requests && device.completed > 0) {
                Some(device) if self.once && device.passes_on => self.left_out += 1,
                // A bio of a device that has no requests is in its driver's hands.
                Some(_) => self.pairs.push(&record.record(Step::Issue, comm), &mut batch, context),
                None => never_issued += 1,
            }
        }
        context.tally.add(Anomaly::NeverIssued, never_issued);
        let upper = self.devices.iter().filter(|device| device.passes_on && device.completed > 0);
        let upper: Vec<u32> = upper.map(|device| device.number).collect();
        if !upper.is_empty() {
            let [devices, numbers] =
                [device_name, device_number].map(|text| upper.iter().map(|&number| text(number)).collect());
            context.note(Note::StackedDevices { devices, numbers, left_out: self.left_out });
        }
        self.pairs.finish(context);
    }
}

#[cfg(test)]
mod tests;
