//! What waits as rows of events, and as words.

use super::Row;
use crate::block::layout::{BlockWaiting, MODES, until_nul};
use crate::block::{devices, letters};
use crate::container::Containers;
use crate::disk::Disk;
use crate::loader::MonotonicClock;
use crate::process::Processes;
use latscope_event::{Batch, Field, FieldSet, MISSING_I64, MISSING_U64, Unfinished, Wait, format_size};

/// Requests in flight are worth showing from this age on; younger ones are just at work.
const STUCK_NS: u64 = 100_000_000;

/// The part of a push-down that a request can be judged by before it completes.
pub struct Wanted {
    pub letters: [u64; crate::block::layout::CLASSES],
    pub devices: Option<Vec<u32>>,
    pub pids: Option<Vec<u32>>,
    pub comms: Option<Vec<[u8; 16]>>,
    pub processes: Option<Vec<[u8; 16]>>,
    pub min_latency_ns: u64,
}

impl Wanted {
    fn has(&self, request: &BlockWaiting) -> bool {
        let (class, mode) = (request.letters as usize / MODES, request.letters as usize % MODES);
        // Of a request that is only counted the mode is not known.
        let by_letters = |&modes: &u64| if request.request == 0 { modes != 0 } else { modes >> mode & 1 == 1 };
        self.letters.get(class).is_some_and(by_letters)
            && self.devices.as_ref().is_none_or(|devices| devices.contains(&request.dev))
            && self.pids.as_ref().is_none_or(|pids| pids.contains(&request.pid))
            && self.comms.as_ref().is_none_or(|comms| comms.contains(&request.comm))
            && self.processes.as_ref().is_none_or(|processes| processes.contains(&request.process))
    }
}

impl Row {
    /// How long it has waited.
    fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }

    /// `vda write 4KiB by fio`; `queued`: the device has not got it yet.
    fn describe(&self) -> String {
        let request = &self.request;
        let letters = request.letters as usize;
        // A write of nothing is there to flush.
        let kind =
            if request.size == 0 && letters::kind(letters) == "write" { "flush" } else { letters::kind(letters) };
        let has_size = request.size != 0 && request.size != MISSING_U64;
        let size = if has_size { format!(" {}", format_size(request.size)) } else { String::new() };
        let comm = String::from_utf8_lossy(until_nul(&request.comm)).into_owned();
        let by = if comm.is_empty() { comm } else { format!(" by {comm}") };
        let queued = if request.at_device == 0 { ", queued" } else { "" };
        format!("{} {kind}{size}{by}{queued}", self.disk)
    }

    /// Puts it into a batch as an event that lasts until now.
    fn push(&self, batch: &mut Batch, sight: &Sight, lookups: Option<&mut Lookups>) {
        let request = &self.request;
        let start_ns = if sight.from_issue && request.issue_ns != 0 { request.issue_ns } else { self.since_ns };
        let known = request.pid != 0;
        let number = |value: u32| if known { i64::from(value) } else { MISSING_I64 };
        let letters = request.letters as usize;
        batch.push_i64(Field::Time, sight.clock.unix_ns(start_ns));
        batch.push_u64(Field::Latency, sight.now_ns.saturating_sub(start_ns));
        let queue = request.issue_ns.checked_sub(request.start_ns).filter(|_| request.start_ns != 0);
        batch.push_u64(Field::Queue, queue.unwrap_or(MISSING_U64));
        batch.push_text(Field::Kind, Some(letters::kind(letters).as_bytes()));
        let name = (request.request != 0).then(|| letters::letters(letters));
        batch.push_text(Field::Name, name.as_ref().map(|name| name.as_bytes()));
        batch.push_u64(Field::Size, request.size);
        batch.push_u64(Field::Offset, request.offset);
        batch.push_text(Field::Device, Some(self.disk.as_bytes()));
        batch.push_text(Field::Dev, Some(devices::text_of(request.dev).as_bytes()));
        batch.push_i64(Field::Pid, number(request.pid));
        batch.push_i64(Field::Tid, number(request.tid));
        batch.push_text(Field::Comm, known.then(|| until_nul(&request.comm)));
        batch.push_text(Field::Process, known.then(|| until_nul(&request.process)));
        batch.push_i64(Field::SampleWeight, MISSING_I64);
        if let Some(lookups) = lookups.filter(|_| known) {
            lookups.containers.push(request.cgroup, request.pid, batch);
            // Nobody has described it to this batch, but as it waits it can be asked.
            lookups.processes.push(0, request.pid, until_nul(&request.process), batch);
        }
        batch.end_row();
    }
}

/// What is looked up for rows.
pub struct Lookups {
    pub containers: Containers,
    pub processes: Processes,
}

impl Lookups {
    /// For rows with these fields.
    pub fn new(fields: FieldSet) -> Lookups {
        Lookups { containers: Containers::new(), processes: Processes::new(fields) }
    }
}

/// How rows are looked at.
pub struct Sight<'a> {
    pub clock: MonotonicClock,
    /// Now, as the kernel's stamps have it.
    pub now_ns: u64,
    /// What is left, if not all.
    pub wanted: Option<&'a Wanted>,
    /// Latency counts from when a request started to wait: what the device has not got yet waits too.
    pub from_queue: bool,
    /// Events start at their issue even then, and give their queue time.
    pub from_issue: bool,
}

impl Sight<'_> {
    /// Puts what waits into a batch, which is emptied first.
    pub fn fill(&self, batch: &mut Batch, rows: &[Row], mut lookups: Option<&mut Lookups>) {
        batch.clear();
        let wants_disk = [Field::DiskModel, Field::Rotational].iter().any(|&field| batch.fields().contains(field));
        let mut disks: Vec<(u32, [(Field, u32); 2])> = Vec::new();
        for row in self.shown(rows) {
            if wants_disk {
                let dev = row.request.dev;
                let known = disks.iter().find(|(known, _)| *known == dev).map(|&(_, codes)| codes);
                let codes = known.unwrap_or_else(|| {
                    let codes = Disk::read(dev).codes(batch);
                    disks.push((dev, codes));
                    codes
                });
                codes.into_iter().for_each(|(field, code)| batch.push_code(field, code));
            }
            row.push(batch, self, lookups.as_deref_mut());
        }
    }

    /// The rows that are shown, in their order.
    pub fn shown<'r>(&'r self, rows: &'r [Row]) -> impl Iterator<Item = &'r Row> {
        let least_ns = self.wanted.map_or(0, |wanted| wanted.min_latency_ns);
        rows.iter().filter(move |row| {
            let has_started = row.request.at_device != 0 || self.from_queue;
            has_started && row.age_ns(self.now_ns) >= least_ns && self.has(row)
        })
    }

    /// Names those that have waited for long, the oldest first.
    pub fn unfinished(&self, rows: &[Row]) -> Vec<Unfinished> {
        let stuck = rows.iter().filter(|row| row.age_ns(self.now_ns) >= STUCK_NS && self.has(row));
        let named = stuck.take(crate::NAMED).map(|row| Unfinished {
            what: row.describe(),
            start_ns: self.clock.unix_ns(row.since_ns),
            at_least_ns: row.age_ns(self.now_ns),
            wait: Wait::Counts,
            values: Default::default(),
        });
        named.collect()
    }

    /// All that waits, with its fields: what [`Sight::fill`] put into the batch.
    pub fn all_unfinished(&self, rows: &[Row], batch: &Batch) -> Vec<Unfinished> {
        let shown = self.shown(rows).take(batch.len()).enumerate();
        shown.map(|(at, row)| Unfinished::from_row(row.describe(), Wait::Counts, batch, at)).collect()
    }

    fn has(&self, row: &Row) -> bool {
        self.wanted.is_none_or(|wanted| wanted.has(&row.request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::layout::CLASSES;
    use crate::block::waiting::counted_request;
    use std::sync::Arc;

    fn row(change: impl Fn(&mut BlockWaiting)) -> Row {
        let mut request = BlockWaiting { request: 1, size: 4096, offset: 0, ..counted_request(7 << 20, 1, 1_000) };
        request.pid = 1;
        request.comm[..3].copy_from_slice(b"fio");
        change(&mut request);
        Row { disk: Arc::from("loop0"), request, since_ns: request.issue_ns }
    }

    #[test]
    fn what_waits_reads_well() {
        assert_eq!(row(|_| ()).describe(), "loop0 write 4KiB by fio");
        let flush = row(|request| (request.size, request.comm) = (0, [0; 16]));
        assert_eq!(flush.describe(), "loop0 flush");
        assert_eq!(row(|request| request.at_device = 0).describe(), "loop0 write 4KiB by fio, queued");
        let counted = Row { request: counted_request(7 << 20, 0, 0), ..row(|_| ()) };
        assert_eq!(counted.describe(), "loop0 read");
    }

    #[test]
    fn what_is_not_wanted_is_left_out() {
        let clock = MonotonicClock { offset_ns: 0 };
        let all = || Wanted {
            letters: [u64::MAX; CLASSES],
            devices: None,
            pids: None,
            comms: None,
            processes: None,
            min_latency_ns: 0,
        };
        let queued = row(|request| (request.at_device, request.pid) = (0, 2));
        let rows = [row(|_| ()), queued];
        let mut batch = Batch::new([Field::Pid, Field::Device].into_iter().collect());
        let mut pids = |wanted: &Wanted, from_queue| {
            let sight = Sight { clock, now_ns: 5_000, wanted: Some(wanted), from_queue, from_issue: true };
            sight.fill(&mut batch, &rows, None);
            batch.i64s(Field::Pid).unwrap().to_vec()
        };
        assert_eq!((pids(&all(), false), pids(&all(), true)), (vec![1], vec![1, 2]));
        assert_eq!(pids(&Wanted { pids: Some(vec![2]), ..all() }, true), [2]);
        assert_eq!(pids(&Wanted { devices: Some(vec![8 << 20]), ..all() }, true), [0i64; 0]);
        assert_eq!(pids(&Wanted { comms: Some(vec![*b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]), ..all() }, true), [0i64; 0]);
        assert_eq!(pids(&Wanted { letters: [u64::MAX, 0, 0, 0, 0, 0], ..all() }, true), [0i64; 0]);
        assert_eq!(pids(&Wanted { min_latency_ns: 4_001, ..all() }, true), [0i64; 0]);
        assert_eq!(pids(&Wanted { min_latency_ns: 4_000, ..all() }, true), [1, 2]);
    }
}
