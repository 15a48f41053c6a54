//! Event mode: a record for each request.

use super::account::{Capture, config};
use super::devices::{self, Stamp};
use super::layout::{BlockIssuer, BlockRecord, LETTERS_ABOUT, LETTERS_ISSUED, LETTERS_RETURNED, MODES, until_nul};
use super::letters;
use super::stacks::{Columns, IssuerStacks};
use super::waiting::{Lookups, Wanted};
use crate::container::Containers;
use crate::disk::Disk;
use crate::loader::{Opened, Raw, Ring};
use crate::probe::Kernel;
use crate::process::Processes;
use crate::{Error, Events, Options, PushDown, RequestStacks, Sink};
use latscope_event::{Anomaly, Batch, Context, Field, KernelFeature, MISSING_CODE, MISSING_I64, Unfinished, kernel};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// What a map of push-down values holds; longer lists are left to the caller's filter.
const SET_LIMIT: usize = 4096;
/// How often missing stamps are looked for between two calls of `refresh`.
const LOOK_FOR_UNSTAMPED: Duration = Duration::from_millis(50);

/// A running capture of block requests as events.
pub struct BlockEvents {
    capture: Capture,
    ring: Ring,
    records: Vec<u8>,
    batch: Batch,
    waiting: Batch,
    codes: Codes,
    containers: Containers,
    processes: Processes,
    stacks: Option<IssuerStacks>,
    /// For what waits.
    lookups: Lookups,
    wanted: Wanted,
    looked: Instant,
}

/// Codes of texts that many rows share.
struct Codes {
    kinds: Vec<u32>,
    names: Vec<u32>,
    wants_disk: bool,
    devices: Vec<Device>,
}

/// Codes of what is known of a device.
#[derive(Clone, Copy)]
struct Device {
    dev: u32,
    codes: [(Field, u32); 4],
}

impl BlockEvents {
    pub fn start(kernel: &mut Kernel, mut opened: Opened, options: &Options) -> Result<BlockEvents, Error> {
        let knows_start = kernel.has_tracepoint("block_io_start");
        if !knows_start {
            kernel.note_lack(KernelFeature::RequestStart);
        }
        let pushed = Pushed::new(&options.push_down);
        let mut config = config(options, true);
        config.some_devices = pushed.devices.is_some().into();
        config.some_pids = pushed.pids.is_some().into();
        config.some_comms = pushed.comms.is_some().into();
        config.some_processes = pushed.processes.is_some().into();
        config.issuer_at_issue = (!knows_start).into();
        opened.configure(&config)?;
        opened.set_entries("events", options.ring_bytes)?;
        opened.leave_out("histograms")?;
        let stacks = match options.stacks.requests {
            Some(how) => Some(stacks(kernel, options, how, pushed.words(options))?),
            None => None,
        };
        let always: &[_] = match knows_start {
            true if stacks.is_some() => &["complete_stacked", "merge", "issue_stacked", "start_stacked"],
            true => &["complete", "merge", "issue", "start"],
            false => &["complete", "merge", "issue"],
        };
        let mut capture = Capture::start(kernel, opened, options.from_queue, always, (Stamp::Issue, &[]), "events")?;
        pushed.fill(&capture)?;
        capture.context.properties.insert("kernel_filter".into(), pushed.describe(options));
        let ring = capture.loaded.ring("events")?;
        let mut fields = options.fields.intersection(super::FILLS);
        if options.sample.is_none() {
            fields = fields.iter().filter(|&field| field != Field::SampleWeight).collect();
        }
        if stacks.is_none() {
            fields = fields.without(super::STACKS);
        }
        let mut batch = Batch::new(fields);
        let codes = Codes::new(&mut batch);
        capture.run()?;
        Ok(BlockEvents {
            capture,
            ring,
            records: Vec::new(),
            waiting: Batch::new(batch.fields()),
            batch,
            codes,
            containers: Containers::new(),
            processes: Processes::new(fields),
            stacks,
            lookups: Lookups::new(fields),
            wanted: Wanted {
                letters: config.wanted,
                devices: pushed.devices,
                pids: pushed.pids,
                comms: pushed.comms,
                processes: pushed.processes,
                min_latency_ns: options.push_down.min_latency_ns,
            },
            looked: Instant::now(),
        })
    }

    /// As if a request had completed where no program runs.
    #[cfg(test)]
    pub fn leave_behind(&self, request: u64, issuer: &BlockIssuer) {
        let mut bytes = Vec::new();
        issuer.write(&mut bytes);
        let map = self.capture.loaded.map("in_flight").unwrap();
        map.update(&request.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
    }

    /// Moves what the ring holds into the batch and hands it on.
    fn read(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        self.ring.read(timeout, Batch::ROWS, &mut self.records)?;
        if self.records.is_empty() && self.stacks.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        self.batch.clear();
        let records = std::mem::take(&mut self.records);
        let mut rest = &records[..];
        while rest.len() >= BlockRecord::SIZE {
            let record = BlockRecord::read(rest);
            let (texts, next) =
                rest[BlockRecord::SIZE..].split_at((rest.len() - BlockRecord::SIZE).min(record.texts_len as usize));
            match record.letters {
                LETTERS_ABOUT => self.processes.learn(record.pid, texts, &mut self.batch),
                LETTERS_ISSUED | LETTERS_RETURNED => self.add_stack(&record, texts),
                _ => match &mut self.stacks {
                    None => self.push(&record, None),
                    Some(stacks) => {
                        if let Some(columns) = stacks.add(&record, texts, &mut self.batch) {
                            self.push(&record, Some(columns));
                        }
                    }
                },
            }
            rest = next;
        }
        self.records = records;
        self.push_expired(false);
        Ok(if self.batch.is_empty() { ControlFlow::Continue(()) } else { sink(&self.capture.context, &self.batch) })
    }

    /// Takes in a record that is no request.
    fn add_stack(&mut self, record: &BlockRecord, bytes: &[u8]) {
        let Some(stacks) = &mut self.stacks else { return };
        if record.letters == LETTERS_ISSUED {
            return stacks.add_issue(record.issued, bytes, &mut self.batch);
        }
        for (request, columns) in stacks.returned(bytes, &mut self.batch) {
            self.push(&request, Some(columns));
        }
    }

    /// Requests whose issuers do not return stay without user stacks.
    fn push_expired(&mut self, all: bool) {
        let Some(stacks) = &mut self.stacks else { return };
        for (request, columns) in stacks.expired(all, &mut self.batch) {
            self.push(&request, Some(columns));
        }
    }

    fn push(&mut self, record: &BlockRecord, columns: Option<Columns>) {
        let batch = &mut self.batch;
        let time_ns = self.capture.clock.unix_ns(record.issue_ns);
        self.capture.context.cover(time_ns);
        self.capture.context.cover(time_ns.saturating_add_unsigned(record.latency_ns));
        let known = record.pid != 0;
        let number = |value: u32| if known { i64::from(value) } else { MISSING_I64 };
        let device = self.codes.device(record.dev, batch);
        batch.push_i64(Field::Time, time_ns);
        batch.push_u64(Field::Latency, record.latency_ns);
        batch.push_u64(Field::Queue, record.queue_ns);
        batch.push_code(Field::Kind, self.codes.kinds.get(record.letters as usize).copied().unwrap_or(MISSING_CODE));
        batch.push_code(Field::Name, self.codes.names.get(record.letters as usize).copied().unwrap_or(MISSING_CODE));
        batch.push_u64(Field::Size, record.size);
        batch.push_u64(Field::Offset, record.offset);
        device.into_iter().for_each(|(field, code)| batch.push_code(field, code));
        batch.push_i64(Field::Cpu, record.cpu.into());
        batch.push_i64(Field::Pid, number(record.pid));
        batch.push_i64(Field::Tid, number(record.tid));
        batch.push_text(Field::Comm, known.then(|| until_nul(&record.comm)));
        batch.push_text(Field::Process, known.then(|| until_nul(&record.process)));
        batch.push_text(Field::Error, error_name(record.error).map(str::as_bytes));
        batch.push_i64(
            Field::SampleWeight,
            if record.sample_weight > 1 { record.sample_weight.into() } else { MISSING_I64 },
        );
        if let Some(columns) = columns {
            columns.push(batch);
        }
        if known {
            self.containers.push(record.cgroup, record.pid, batch);
            self.processes.push(record.about, record.pid, until_nul(&record.process), batch);
        }
        batch.end_row();
    }

    /// Puts the account of stacks into the context.
    fn account_stacks(&mut self) {
        if let Some(stacks) = &mut self.stacks {
            stacks.account(&mut self.capture.context);
        }
    }

    /// Looks at what waits now, with the stacks that are known of it, and names it.
    fn fill_waiting(&mut self) -> Result<Vec<Unfinished>, Error> {
        let known = match &mut self.stacks {
            Some(stacks) => {
                let issuers = in_flight(&self.capture)?.map(|(request, bytes)| (request, BlockIssuer::read(&bytes)));
                stacks.of_waiting(issuers, &mut self.capture, &mut self.batch)?
            }
            None => HashMap::new(),
        };
        let started_ns = self.capture.clock.unix_ns(self.capture.started_ns);
        let (rows, sight) = self.capture.look(Some(&self.wanted))?;
        sight.fill(&mut self.waiting, rows, Some(&mut self.lookups));
        if let Some(stacks) = &mut self.stacks {
            let found: Vec<_> = sight
                .shown(rows)
                .take(self.waiting.len())
                .map(|row| known.get(&row.request.request).copied())
                .collect();
            stacks.add_to_waiting(found.into_iter(), started_ns, &self.batch, &mut self.waiting);
        }
        Ok(sight.all_unfinished(rows, &self.waiting))
    }

    /// After the programs were detached: how many requests had not completed, and of how many nobody saw the end.
    fn unfinished(&self) -> Result<(u64, u64), Error> {
        let (mut unfinished, mut lost) = (0, 0);
        for (request, issuer) in in_flight(&self.capture)? {
            let issuer = BlockIssuer::read(&issuer);
            let (class, mode) = (issuer.letters as usize / MODES, issuer.letters as usize % MODES);
            if self.wanted.letters.get(class).is_none_or(|modes| modes >> mode & 1 != 1) {
                continue;
            }
            match self.capture.is_over(request, issuer.issue_ns) {
                true => lost += 1,
                false => unfinished += 1,
            }
        }
        Ok((unfinished, lost))
    }
}

/// The table of requests in flight: each with what is known of its issuer.
fn in_flight(capture: &Capture) -> Result<impl Iterator<Item = (u64, Vec<u8>)> + use<>, Error> {
    let map = capture.loaded.map("in_flight")?;
    let cannot = |error| Error::Failed(format!("the table of requests in flight cannot be read: {error:#}"));
    let entries = map.lookup_batch(1024, MapFlags::ANY, MapFlags::ANY).map_err(cannot)?;
    let entries: Vec<_> = entries.map(|(request, issuer)| (u64::read(&request), issuer)).collect();
    Ok(entries.into_iter())
}

/// What stacks of issuers need.
fn stacks(kernel: &Kernel, options: &Options, how: RequestStacks, counted: String) -> Result<IssuerStacks, Error> {
    kernel.need_btf()?;
    if !kernel.has_tracepoint("block_io_start") || !kernel.has_function("bpf_task_from_pid") {
        return Err(Error::Unsupported(format!(
            "Stacks of requests need Linux 6.5, and this is {}; use -s stacks, which samples threads that wait.",
            kernel.release
        )));
    }
    let sees_returns = kernel.has_function("bpf_task_work_schedule_resume_impl");
    Ok(IssuerStacks::new(options, how, sees_returns, counted))
}

impl Events for BlockEvents {
    fn context(&self) -> &Context {
        &self.capture.context
    }

    fn poll(&mut self, timeout: Duration, sink: &mut Sink) -> Result<ControlFlow<()>, Error> {
        let flow = self.read(timeout, sink)?;
        if self.looked.elapsed() >= LOOK_FOR_UNSTAMPED {
            self.looked = Instant::now();
            self.capture.refresh()?;
            self.account_stacks();
            if let Some(looks) = self.stacks.as_mut().and_then(IssuerStacks::adapt) {
                self.capture.look_at_fast(looks)?;
            }
        }
        Ok(flow)
    }

    fn waiting(&mut self) -> Result<&Batch, Error> {
        let _ = self.fill_waiting()?;
        Ok(&self.waiting)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        self.capture.refresh()?;
        self.capture.keep_looking(Some(&self.wanted))?;
        // Devices and processes come and go, and their numbers are used again.
        self.codes.devices.clear();
        self.containers.forget_pids();
        self.processes.forget();
        self.lookups.containers.forget_pids();
        self.lookups.processes.forget();
        self.capture.context.tally.add(Anomaly::ProcessGone, self.processes.unknown);
        Ok(())
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink) -> Result<Context, Error> {
        let waiting = self.fill_waiting()?;
        self.capture.stop()?;
        loop {
            let flow = self.read(Duration::ZERO, sink)?;
            if self.records.is_empty() || flow.is_break() {
                break;
            }
        }
        self.batch.clear();
        self.push_expired(true);
        if !self.batch.is_empty() {
            let _ = sink(&self.capture.context, &self.batch);
        }
        self.capture.refresh()?;
        self.account_stacks();
        let (unfinished, lost) = self.unfinished()?;
        // What the devices had before the capture is in no table of ours.
        let started_ns = self.capture.clock.unix_ns(self.capture.started_ns);
        let before = self.waiting.time().iter().filter(|&&since_ns| since_ns < started_ns).count();
        self.capture.context.tally.add(Anomaly::ProcessGone, self.processes.unknown);
        self.capture.context.tally.add(Anomaly::Unfinished, unfinished + before as u64);
        self.capture.context.tally.add(Anomaly::LostCompletion, lost);
        (self.capture.context.unfinished, self.capture.context.knows_unfinished) = (waiting, true);
        self.capture.context.sort_unfinished();
        Ok(self.capture.context)
    }
}

impl Codes {
    fn new(batch: &mut Batch) -> Codes {
        let mut codes = |field, text: &dyn Fn(usize) -> String| {
            let wanted = batch.fields().contains(field);
            let codes = 0..if wanted { letters::CODES } else { 0 };
            codes.map(|code| batch.intern(field, text(code).as_bytes())).collect()
        };
        let kinds = codes(Field::Kind, &|code| letters::kind(code).to_owned());
        let names = codes(Field::Name, &letters::letters);
        let wants_disk = [Field::DiskModel, Field::Rotational].iter().any(|&field| batch.fields().contains(field));
        Codes { kinds, names, wants_disk, devices: Vec::new() }
    }

    /// Codes of name, number and kind of a device; missing for requests without a disk.
    fn device(&mut self, dev: u32, batch: &mut Batch) -> [(Field, u32); 4] {
        if let Some(known) = self.devices.iter().find(|known| known.dev == dev) {
            return known.codes;
        }
        let (mut device, mut number, mut disk) = (MISSING_CODE, MISSING_CODE, Disk::default());
        if dev != 0 {
            let text = devices::text_of(dev);
            number = batch.intern(Field::Dev, text.as_bytes());
            device = batch.intern(Field::Device, devices::name_of(dev).unwrap_or(text).as_bytes());
            disk = if self.wants_disk { Disk::read(dev) } else { disk };
        }
        let [model, rotational] = disk.codes(batch);
        let codes = [(Field::Device, device), (Field::Dev, number), model, rotational];
        self.devices.push(Device { dev, codes });
        codes
    }
}

/// What of a [`PushDown`] the programs test: sets that are too large, or whose members are not known yet, are left out.
struct Pushed {
    devices: Option<Vec<u32>>,
    pids: Option<Vec<u32>>,
    comms: Option<Vec<[u8; 16]>>,
    processes: Option<Vec<[u8; 16]>>,
}

impl Pushed {
    fn new(push_down: &PushDown) -> Pushed {
        fn set<A, B>(list: &[A], of: impl Fn(&A) -> Option<B>) -> Option<Vec<B>> {
            if list.is_empty() || list.len() > SET_LIMIT { None } else { list.iter().map(of).collect() }
        }
        Pushed {
            devices: set(&push_down.devices, |device| devices::find(device)),
            pids: set(&push_down.pids, |&pid| Some(pid)),
            comms: set(&push_down.comms, |comm| comm_key(comm)),
            processes: set(&push_down.processes, |name| comm_key(name)),
        }
    }

    fn fill(&self, capture: &Capture) -> Result<(), Error> {
        for (map, numbers) in [("devices", &self.devices), ("pids", &self.pids)] {
            for number in numbers.iter().flatten() {
                capture.loaded.insert(map, &number.to_ne_bytes())?;
            }
        }
        for (map, names) in [("comms", &self.comms), ("processes", &self.processes)] {
            names.iter().flatten().try_for_each(|name| capture.loaded.insert(map, name))?;
        }
        Ok(())
    }

    /// What the kernel side filters, for the context.
    fn describe(&self, options: &Options) -> String {
        let words = self.words(options);
        if words.is_empty() { "nothing".to_owned() } else { words }
    }

    /// The same; empty where it filters nothing.
    fn words(&self, options: &Options) -> String {
        let push_down = &options.push_down;
        let mut parts = Vec::new();
        if push_down.min_latency_ns > 0 {
            parts.push(format!("latency >= {} ns", push_down.min_latency_ns));
        }
        for (what, list, pushed) in [
            ("device", push_down.devices.join(","), self.devices.is_some()),
            ("pid", push_down.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","), self.pids.is_some()),
            ("comm", push_down.comms.join(","), self.comms.is_some()),
            ("process", push_down.processes.join(","), self.processes.is_some()),
            ("kind", push_down.kinds.join(","), !push_down.kinds.is_empty()),
            ("name", push_down.names.join(","), !push_down.names.is_empty()),
        ] {
            if pushed {
                parts.push(format!("{what} in ({list})"));
            }
        }
        if let Some(sample) = options.sample {
            parts.push(format!("of what is faster than {} ns one in {}", sample.slow_ns, sample.one_in));
        }
        parts.join(" and ")
    }
}

/// A command name as the kernel keeps it; `None` when the test of equal bytes would not be that of equal texts. One
/// that is longer than the kernel keeps equals none, and neither does its key.
fn comm_key(comm: &str) -> Option<[u8; 16]> {
    if comm.contains('\u{fffd}') || comm.contains('\0') {
        return None;
    }
    let mut key = [0; 16];
    let length = comm.len().min(16);
    key[..length].copy_from_slice(&comm.as_bytes()[..length]);
    Some(key)
}

/// The name of what a request failed with: older kernels give an errno, newer ones a `blk_status_t`, whose meaning is
/// that of `blk_status_to_errno` in block/blk-core.c.
fn error_name(error: i32) -> Option<&'static str> {
    const EIO: i32 = 5;
    const OF_STATUS: [i32; 20] = [0, 95, 110, 28, 67, 121, 52, 61, 84, 12, EIO, 78, 11, 16, 16, 109, 75, 19, 62, 22];
    let errno = match error {
        0 => return None,
        1.. => OF_STATUS.get(error as usize).copied().unwrap_or(EIO),
        _ => error.saturating_neg(),
    };
    kernel::error_name(-i64::from(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_old_and_new_kernels_have_names() {
        assert_eq!(error_name(0), None);
        assert_eq!((error_name(-5), error_name(10)), (Some("EIO"), Some("EIO")));
        assert_eq!((error_name(3), error_name(-28)), (Some("ENOSPC"), Some("ENOSPC")));
        assert_eq!(
            (error_name(19), error_name(17), error_name(2)),
            (Some("EINVAL"), Some("ENODEV"), Some("ETIMEDOUT"))
        );
        assert_eq!((error_name(200), error_name(i32::MIN)), (Some("EIO"), None));
    }

    #[test]
    fn command_names_are_as_long_as_the_kernel_keeps_them() {
        assert_eq!(comm_key("fio"), Some(*b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0"));
        assert_eq!(comm_key("exactly15letter").unwrap()[15], 0);
        assert_ne!(comm_key("sixteen letters!").unwrap()[15], 0, "equals no command name");
        assert_eq!(comm_key("\u{fffd}"), None);
    }
}
