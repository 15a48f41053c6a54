//! The programs at work: configured, attached, and their account.

use super::calls::Calls;
use super::shared::{COUNTS, Config, Count, FILE_TYPES, OBJECT, Wait, mode};
use crate::loader::{Loaded, MonotonicClock, Opened, Raw};
use crate::probe::{Kernel, read_trimmed};
use crate::wanted::Wanted;
use crate::{Error, Options, Source, process};
use latscope_event::kernel::Machine;
use latscope_event::{Anomaly, Clock, Context, Field, FieldSet, KernelFeature, LossRange, Note};
use libbpf_rs::MapType;
use std::path::Path;

/// Requests of io_uring that can be in flight.
const REQUESTS: u32 = 1 << 16;
/// Those of them that name a path.
const REQUEST_PATHS: u32 = 1 << 12;
/// More single calls than these are not worth tracepoints of their own.
const FEW: usize = 64;

/// What the kernel names otherwise than the manual (`/sys/kernel/tracing/events/syscalls`).
const TRACEPOINT_NAMES: [(&str, &str); 6] = [
    ("stat", "newstat"),
    ("lstat", "newlstat"),
    ("fstat", "newfstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
];

/// What is known of the ends of a socket.
const ENDS: [Field; 5] = [Field::LocalIp, Field::LocalPort, Field::RemoteIp, Field::RemotePort, Field::L4Proto];

/// Attached programs.
pub struct Tracing {
    pub loaded: Loaded,
    pub calls: Calls,
    pub clock: MonotonicClock,
    pub context: Context,
    /// The command names and the names of processes that are wanted; empty: all.
    names: [Vec<String>; 2],
    /// Whether requests of io_uring in flight can be looked up.
    sees_requests: bool,
    ring_full: u64,
    refreshed_ns: i64,
    attached_ns: u64,
    /// The counts when detaching started, as calls meanwhile have only one end.
    stopped: Option<([u64; COUNTS], i64)>,
}

/// The configuration for events or, with a grid, histograms.
pub fn config(options: &Options, calls: &Calls, mode: u32, power: u8) -> Config {
    let push_down = &options.push_down;
    let fields = options.fields;
    let any = |list: &[Field]| list.iter().any(|&field| fields.contains(field));
    let want_file = mode == mode::BY_FILE
        || !push_down.fd_types.is_empty()
        || any(&[
            Field::FdType,
            Field::Path,
            Field::Device,
            Field::Dev,
            Field::Category,
            Field::DiskModel,
            Field::Rotational,
        ])
        || any(&ENDS);
    Config {
        calls: calls.table(),
        min_latency_ns: push_down.min_latency_ns,
        slow_ns: options.sample.map_or(0, |sample| sample.slow_ns),
        types: types(&push_down.fd_types),
        threads: Wanted::new(push_down),
        one_in: options.sample.map_or(0, |sample| sample.one_in),
        mode,
        power: u32::from(power),
        want_arguments: u32::from(want_file || any(&[Field::Fd, Field::Size, Field::Offset, Field::CallArgs])),
        want_file: u32::from(want_file),
        want_cgroup: u32::from(any(&crate::container::Containers::COLUMNS)),
        want_path: u32::from(fields.contains(Field::Path)),
        want_process: u32::from(any(&[Field::Process, Field::Cmdline]) || !push_down.processes.is_empty()),
        want_about: u32::from(process::is_wanted(fields)),
        want_cpu: u32::from(fields.contains(Field::Cpu)),
        want_ends: u32::from(want_file && (fields.contains(Field::Path) || any(&ENDS))),
        want_call_args: u32::from(fields.contains(Field::CallArgs)),
    }
}

/// The bits of these types of files. An unknown name adds the bit of no file, so that a list of unknown names matches nothing.
fn types(names: &[String]) -> u64 {
    let bit = |name: &String| FILE_TYPES.iter().position(|&known| known == Some(name.as_str())).unwrap_or(63);
    names.iter().fold(0, |bits, name| bits | 1 << bit(name))
}

/// Looks whether this kernel can do it, and opens the object.
pub fn open(options: &Options) -> Result<(Kernel, Calls, Opened), Error> {
    let kernel = Kernel::look()?;
    kernel.need_btf()?;
    for tracepoint in ["sys_enter", "sys_exit"] {
        kernel.need_tracepoint(tracepoint)?;
    }
    kernel.need_map(MapType::TaskStorage)?;
    let calls = Calls::select(Machine::from_arch(std::env::consts::ARCH), options)?;
    Ok((kernel, calls, Opened::open(OBJECT)?))
}

impl Tracing {
    /// Loads and attaches.
    pub fn start(options: &Options, mut kernel: Kernel, calls: Calls, mut opened: Opened) -> Result<Tracing, Error> {
        let few = calls.few && calls.wanted_calls().count() <= FEW;
        let single = if few { single_tracepoints(&calls) } else { None };
        let mut programs = match single {
            Some(_) => vec!["one_enter", "one_exit"],
            None => vec!["any_enter", "any_exit"],
        };
        programs.push("waiting");
        let uring = if calls.wants_uring() { uring_programs(&mut kernel) } else { None };
        programs.extend(uring.iter().flatten());
        // It goes over a table, which takes Linux 5.13.
        let sees_requests = uring.is_some() && kernel.has_function("bpf_for_each_map_elem");
        programs.extend(sees_requests.then_some("requests_waiting"));
        if uring.is_some() {
            opened.set_entries("requests", REQUESTS)?;
            opened.set_entries("request_paths", REQUEST_PATHS)?;
        }
        let loaded = opened.load(&programs)?;
        let clock = MonotonicClock::measure();
        let name = if options.source == Source::Io { "io" } else { "syscall" };
        let mut context = Context::new(format!("live {name}"), Clock::wall());
        context.host = read_trimmed("/proc/sys/kernel/hostname");
        context.properties.insert("kernel".into(), kernel.release.clone());
        context.properties.insert("clock_offset_start_ns".into(), clock.offset_ns.to_string());
        context.properties.insert("excluded".into(), format!("our own process, {}", std::process::id()));
        kernel.lacks().for_each(|feature| context.note(Note::KernelLacks { feature }));
        let now = clock.now_ns();
        context.cover(now);
        let names = [options.push_down.comms.clone(), options.push_down.processes.clone()];
        let mut tracing = Tracing {
            loaded,
            calls,
            clock,
            context,
            names,
            sees_requests,
            ring_full: 0,
            refreshed_ns: now,
            attached_ns: 0,
            stopped: None,
        };
        tracing.attach(single, few)?;
        uring.iter().flatten().try_for_each(|program| tracing.loaded.attach(program))?;
        tracing.attached_ns = clock.now_stamp_ns();
        tracing.context.begun_before_ns = vec![clock.unix_ns(tracing.attached_ns)];
        Ok(tracing)
    }

    /// Exits come first: a call that is in progress has an exit without an enter either way, but none that starts while
    /// we attach shall lack its exit.
    fn attach(&mut self, single: Option<Vec<String>>, few: bool) -> Result<(), Error> {
        let how = match single {
            Some(names) => {
                for (program, end) in [("one_exit", "sys_exit_"), ("one_enter", "sys_enter_")] {
                    for name in &names {
                        self.loaded.attach_tracepoint(program, "syscalls", &format!("{end}{name}"))?;
                    }
                }
                "of single calls"
            }
            None => {
                if self.calls.wanted_calls().next().is_some() {
                    self.loaded.attach("any_exit")?;
                    self.loaded.attach("any_enter")?;
                }
                match few {
                    true if tracefs().is_none() => "of all calls, as tracefs is not mounted (/sys/kernel/tracing)",
                    true => "of all calls, as this kernel has none for some of those named",
                    false => "of all calls",
                }
            }
        };
        self.context.properties.insert("tracepoints".into(), how.into());
        Ok(())
    }

    /// Detaches all programs.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.stopped = Some((self.loaded.counts()?, self.clock.now_ns()));
        self.loaded.detach_all();
        let offset_ns = MonotonicClock::measure().offset_ns;
        self.context.properties.insert("clock_offset_end_ns".into(), offset_ns.to_string());
        Ok(())
    }

    /// Brings the account of losses up to date; given are the events whose file has a name that could not be learned, and
    /// those whose process could not be.
    pub fn account(&mut self, [nameless, unknown]: [u64; 2]) -> Result<(), Error> {
        self.clock.follow();
        let counts = self.loaded.counts::<COUNTS>()?;
        let of = |count: Count| counts[count as usize];
        let paired = self.stopped.map_or(counts, |(paired, _)| paired);
        let tally = &mut self.context.tally;
        *tally = Default::default();
        for (anomaly, count) in [
            (Anomaly::LostRecords, of(Count::RingFull) + of(Count::KeysFull) + self.loaded.recursion_misses()),
            (Anomaly::UnpairedExit, paired[Count::UnpairedExit as usize]),
            (Anomaly::UnpairedEnter, paired[Count::UnpairedEnter as usize]),
            (Anomaly::NeverReturn, of(Count::NeverReturns)),
            (Anomaly::ForeignCalls, of(Count::Foreign)),
            (Anomaly::EvictedInFlight, of(Count::UringFull)),
            (Anomaly::SilentRequest, of(Count::UringSilent)),
            (Anomaly::OrphanCompletion, of(Count::UringOrphan)),
            (Anomaly::OtherRecords, of(Count::UringAgain)),
            (Anomaly::PathGone, nameless),
            (Anomaly::ProcessGone, unknown),
        ] {
            tally.add(anomaly, count);
        }
        let memory = self.loaded.memory_bytes().to_string();
        self.context.properties.insert("kernel_memory_bytes".into(), memory);
        let now = self.stopped.map_or_else(|| self.clock.now_ns(), |(_, ended_ns)| ended_ns);
        let lost = of(Count::RingFull) - self.ring_full.min(of(Count::RingFull));
        if lost > 0 && self.context.loss_ranges.len() < Context::LOSS_RANGES_KEPT {
            let range = LossRange { start_ns: self.refreshed_ns, end_ns: now, cpu: None, records: lost };
            self.context.loss_ranges.push(range);
        }
        self.ring_full = of(Count::RingFull);
        self.refreshed_ns = now;
        self.context.cover(now);
        Ok(())
    }

    /// The calls and requests in progress.
    pub fn in_progress(&self) -> Result<Vec<(Wait, Vec<u8>)>, Error> {
        let mut output = self.loaded.iterate("waiting")?;
        if self.sees_requests {
            output.extend(self.loaded.iterate("requests_waiting")?);
        }
        let mut waiting = Vec::new();
        let mut rest = &output[..];
        while rest.len() >= Wait::SIZE {
            let wait = Wait::read(rest);
            let texts = &rest[Wait::SIZE..];
            let (texts, next) = texts.split_at(wait.record.texts_len().min(texts.len()));
            waiting.push((wait, texts.to_vec()));
            rest = next;
        }
        let among = |list: &[String], name: &[u8]| list.is_empty() || list.iter().any(|one| one.as_bytes() == name);
        let [comms, processes] = &self.names;
        waiting.retain(|(Wait { record, .. }, _)| among(comms, record.comm()) && among(processes, record.process()));
        Ok(waiting)
    }

    /// The last moment, as the programs stamp it, before which a call can have started unseen.
    pub fn attached_ns(&self) -> u64 {
        self.attached_ns
    }
}

/// The programs for io_uring on this kernel.
fn uring_programs(kernel: &mut Kernel) -> Option<[&'static str; 2]> {
    let submit = kernel.tracepoint_arguments("io_uring_submit_req");
    let complete = match kernel.tracepoint_arguments("io_uring_complete") {
        Some(3) => Some("uring_complete"),
        Some(7) => Some("uring_complete_pieces"),
        _ => None,
    };
    let programs = submit.and(complete).map(|complete| ["uring_submit", complete]);
    if programs.is_none() {
        kernel.note_lack(KernelFeature::UringTracepoints);
    }
    programs
}

/// Where the kernel lists the tracepoints of single calls; `None` where it is not mounted.
pub fn tracefs() -> Option<&'static Path> {
    const ROOTS: [&str; 2] = ["/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"];
    ROOTS.iter().map(Path::new).find(|root| root.exists())
}

/// What the kernel calls the tracepoints of a call.
pub fn tracepoint_of(call: &str) -> &str {
    TRACEPOINT_NAMES.iter().find(|(manual, _)| *manual == call).map_or(call, |&(_, name)| name)
}

/// The names of the tracepoints of all wanted calls; `None` when the kernel lacks one of them.
fn single_tracepoints(calls: &Calls) -> Option<Vec<String>> {
    let root = tracefs()?;
    let names: Vec<String> = calls.wanted_calls().map(|known| tracepoint_of(&known.name).to_owned()).collect();
    names.iter().all(|name| root.join(format!("sys_enter_{name}")).exists()).then_some(names)
}

/// The fields that a system call fills.
pub const FILLS: FieldSet = FieldSet::TRACED
    .with(&[
        Field::Process,
        Field::Fd,
        Field::FdType,
        Field::Path,
        Field::Result,
        Field::Container,
        Field::SampleWeight,
    ])
    .union(FieldSet::BY_NAME);
