//! Records of the programs as rows of a batch.

use super::arguments::Arguments;
use super::calls::{Calls, Known};
use super::shared::{ARGUMENTS, CALL_ABOUT, CALLS, FILE_TYPES, Parts, Record};
use super::tracing::tracepoint_of;
use crate::container::Containers;
use crate::fd::{Addresses, Devices, Ends, Expected, Name};
use crate::loader::MonotonicClock;
use crate::process::Processes;
use crate::texts::named;
use latscope_event::kernel::{call_category, error_name};
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};
use std::time::{Duration, Instant};

/// Makes rows.
pub struct Rows {
    pub batch: Batch,
    /// Events of files that have a name which could not be learned.
    nameless: u64,
    processes: Processes,
    addresses: Addresses,
    path: Vec<u8>,
    fields: FieldSet,
    containers: Containers,
    devices: Devices,
    /// Codes of name and kind of a call, once it was seen.
    codes: Vec<Option<(u32, u32)>>,
    /// Codes of categories by type of file, 0 for a call without a file.
    categories: Vec<[Option<u32>; FILE_TYPES.len()]>,
    arguments: Vec<Option<Arguments>>,
    text: String,
    forgot: Instant,
}

/// How long what was looked up is taken to be so.
const FORGET_EVERY: Duration = Duration::from_secs(1);

impl Rows {
    /// Rows with these fields.
    pub fn new(fields: FieldSet) -> Rows {
        Rows {
            batch: Batch::new(fields),
            nameless: 0,
            processes: Processes::new(fields),
            addresses: Addresses::default(),
            path: Vec::new(),
            fields,
            containers: Containers::new(),
            devices: Devices::default(),
            codes: vec![None; CALLS],
            categories: if fields.contains(Field::Category) {
                vec![[None; FILE_TYPES.len()]; CALLS]
            } else {
                Vec::new()
            },
            arguments: std::iter::repeat_with(|| None).take(CALLS).collect(),
            text: String::new(),
            forgot: Instant::now(),
        }
    }

    /// Events of files whose name, and of processes of which nothing could be learned.
    pub fn unknown(&self) -> [u64; 2] {
        [self.nameless, self.processes.unknown]
    }

    /// Appends an event, or takes over a record that describes a process; `texts` is what follows the record.
    pub fn push(&mut self, record: &Record, texts: &[u8], calls: &Calls, clock: MonotonicClock, context: &mut Context) {
        if record.call == CALL_ABOUT {
            return self.processes.learn(record.pid, texts, &mut self.batch);
        }
        let Some(known) = calls.get(record.call) else { return };
        let start_ns = clock.unix_ns(record.start_ns);
        context.cover(start_ns.saturating_add_unsigned(record.latency_ns));
        let batch = &mut self.batch;
        let (name, kind) = *self.codes[usize::from(record.call)].get_or_insert_with(|| {
            let kind = batch.intern(Field::Kind, known.shape.kind.as_bytes());
            (batch.intern(Field::Name, known.name.as_bytes()), kind)
        });
        let moved = u64::try_from(record.result).ok().filter(|_| known.shape.moves);
        // Beyond what a file can have stands for the current position.
        let offset = if record.offset <= i64::MAX as u64 { record.offset } else { MISSING_U64 };
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, record.latency_ns);
        batch.push_code(Field::Kind, kind);
        batch.push_code(Field::Name, name);
        batch.push_u64(Field::Size, moved.unwrap_or(record.size));
        batch.push_u64(Field::Offset, offset);
        batch.push_i64(Field::Pid, i64::from(record.pid));
        batch.push_i64(Field::Tid, i64::from(record.tid));
        batch.push_text(Field::Comm, Some(record.comm()).filter(|comm| !comm.is_empty()));
        batch.push_text(Field::Process, Some(record.process()).filter(|name| !name.is_empty()));
        batch.push_i64(Field::Fd, if record.fd >= 0 { i64::from(record.fd) } else { MISSING_I64 });
        batch.push_text(Field::FdType, record.type_name().map(str::as_bytes));
        batch.push_text(Field::Error, error_name(record.result).map(str::as_bytes));
        batch.push_i64(Field::Result, record.result);
        batch.push_i64(
            Field::SampleWeight,
            if record.sample_weight > 1 { i64::from(record.sample_weight) } else { MISSING_I64 },
        );
        batch.push_i64(Field::Cpu, i64::from(record.cpu));
        self.push_category(record, known);
        self.push_place(record, texts, known);
        self.processes.push(record.about, record.pid, record.process(), &mut self.batch);
        self.batch.end_row();
    }

    fn push_category(&mut self, record: &Record, known: &Known) {
        let Some(by_type) = self.categories.get_mut(usize::from(record.call)) else { return };
        let Some(code) = by_type.get_mut(usize::from(record.file_type)) else { return };
        let category = || call_category(&known.name, record.type_name()).as_bytes();
        let code = *code.get_or_insert_with(|| self.batch.intern(Field::Category, category()));
        self.batch.push_code(Field::Category, code);
    }

    fn push_ends(&mut self, record: &Record, ends: &Ends) {
        let (local, remote) = ends.addresses(record.type_name() == Some("ipv6"));
        for (ip, port, end) in [(Field::LocalIp, Field::LocalPort, local), (Field::RemoteIp, Field::RemotePort, remote)]
        {
            if self.fields.contains(ip) {
                let text = end.map(|end| end.ip().to_canonical().to_string());
                self.batch.push_text(ip, text.as_ref().map(|text| text.as_bytes()));
            }
            let number = end.map(|end| end.port()).filter(|&port| port != 0);
            self.batch.push_i64(port, number.map_or(MISSING_I64, i64::from));
        }
        self.batch.push_text(Field::L4Proto, ends.protocol().map(str::as_bytes));
    }

    fn push_arguments(&mut self, record: &Record, values: &[u64; ARGUMENTS], known: &Known) {
        let Some(arguments) = self.arguments.get_mut(usize::from(record.call)) else { return };
        let arguments = arguments.get_or_insert_with(|| Arguments::new(known, tracepoint_of(&known.name)));
        arguments.text(values, &mut self.text);
        self.batch.push_text(Field::CallArgs, Some(self.text.as_bytes()).filter(|text| !text.is_empty()));
    }

    /// The columns that need a look elsewhere.
    fn push_place(&mut self, record: &Record, texts: &[u8], known: &Known) {
        let Parts { given, names, ends, arguments } = record.parts(texts);
        if let Some(ends) = &ends {
            self.push_ends(record, ends);
        }
        if let Some(arguments) = &arguments {
            self.push_arguments(record, arguments, known);
        }
        let batch = &mut self.batch;
        if OF_DEVICE.iter().any(|&field| self.fields.contains(field)) {
            match self.devices.get(record.dev) {
                Some(device) => {
                    batch.push_text(Field::Device, Some(device.name.as_bytes()));
                    batch.push_text(Field::Dev, Some(device.number.as_bytes()));
                    for (field, code) in device.disk.codes(batch) {
                        batch.push_code(field, code);
                    }
                }
                None => OF_DEVICE.into_iter().for_each(|field| batch.push_code(field, MISSING_CODE)),
            }
        }
        if self.fields.contains(Field::Path) {
            let name = name(record, [given, names], ends.as_ref(), &mut self.addresses, &mut self.path);
            self.nameless += u64::from(name == Name::Unknown);
            batch.push_text(Field::Path, if let Name::Is(name) = name { Some(name) } else { None });
        }
        self.containers.push(record.cgroup, record.pid, batch);
    }

    /// What may have been given to others meanwhile is forgotten.
    pub fn forget(&mut self) {
        if self.forgot.elapsed() < FORGET_EVERY {
            return;
        }
        self.forgot = Instant::now();
        self.containers.forget_pids();
        self.processes.forget();
        self.devices.forget();
    }
}

/// The columns that a device fills.
const OF_DEVICE: [Field; 4] = [Field::Device, Field::Dev, Field::DiskModel, Field::Rotational];

/// What the file of an event is called; `path` is where a path is put together.
fn name<'a>(
    record: &Record,
    [given, names]: [&[u8]; 2],
    ends: Option<&Ends>,
    addresses: &'a mut Addresses,
    path: &'a mut Vec<u8>,
) -> Name<'a> {
    let has = |bit| record.named & bit != 0;
    if has(named::UNKNOWN) {
        return Name::Unknown;
    }
    let file_type = record.type_name().unwrap_or("");
    let task = (record.tid, record.pid);
    match (file_type, ends) {
        ("unix", _) if given.is_empty() => return addresses.unix(record.inode, task),
        ("ipv4" | "ipv6", Some(ends)) => return addresses.internet(record.inode, ends, file_type == "ipv6", task),
        ("ipv4" | "ipv6", None) => return Name::Unknown,
        _ => {}
    }
    if given.is_empty() && has(named::PSEUDO) {
        return match file_type {
            "pipe" => {
                path.clear();
                path.extend_from_slice(format!("pipe:[{}]", record.inode).as_bytes());
                Name::Is(path)
            }
            "memfd" => {
                Expected { given, names, deleted: true }.path(path);
                Name::Is(path)
            }
            _ => Name::None,
        };
    }
    if given.is_empty() && names.is_empty() && !has(named::FILE) {
        return Name::None;
    }
    Expected { given, names, deleted: has(named::DELETED) }.path(path);
    Name::Is(path)
}
