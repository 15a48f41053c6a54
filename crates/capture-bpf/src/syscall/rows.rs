//! Records of the programs as rows of a batch.

use super::calls::Calls;
use super::shared::{CALLS, Record, named};
use crate::container::Containers;
use crate::fd::{Addresses, Devices, Name, Told};
use crate::loader::MonotonicClock;
use latscope_event::kernel::error_name;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};

/// Makes rows.
pub struct Rows {
    pub batch: Batch,
    /// Events of files that have a name which could not be learned.
    pub nameless: u64,
    addresses: Addresses,
    path: Vec<u8>,
    fields: FieldSet,
    containers: Containers,
    devices: Devices,
    /// Codes of name and kind of a call, once it was seen.
    codes: Vec<Option<(u32, u32)>>,
}

impl Rows {
    /// Rows with these fields.
    pub fn new(fields: FieldSet) -> Rows {
        Rows {
            batch: Batch::new(fields),
            nameless: 0,
            addresses: Addresses::default(),
            path: Vec::new(),
            fields,
            containers: Containers::new(),
            devices: Devices::default(),
            codes: vec![None; CALLS],
        }
    }

    /// Appends an event; `texts` is what follows its record.
    pub fn push(&mut self, record: &Record, texts: &[u8], calls: &Calls, clock: MonotonicClock, context: &mut Context) {
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
        batch.push_i64(Field::Weight, if record.weight > 1 { i64::from(record.weight) } else { MISSING_I64 });
        self.push_place(record, texts);
        self.batch.end_row();
    }

    /// The columns that need a look elsewhere.
    fn push_place(&mut self, record: &Record, texts: &[u8]) {
        let batch = &mut self.batch;
        if self.fields.contains(Field::Device) || self.fields.contains(Field::Dev) {
            match self.devices.get(record.dev) {
                Some(device) => {
                    batch.push_text(Field::Device, Some(device.name.as_bytes()));
                    batch.push_text(Field::Dev, Some(device.number.as_bytes()));
                }
                None => {
                    batch.push_code(Field::Device, MISSING_CODE);
                    batch.push_code(Field::Dev, MISSING_CODE);
                }
            }
        }
        if self.fields.contains(Field::Path) {
            let name = name(record, texts, &mut self.addresses, &mut self.path);
            self.nameless += u64::from(name == Name::Unknown);
            batch.push_text(Field::Path, if let Name::Is(name) = name { Some(name) } else { None });
        }
        if self.fields.contains(Field::Container) {
            let container = self.containers.find(record.cgroup, record.pid);
            batch.push_text(Field::Container, container.map(str::as_bytes));
        }
    }

    /// What may have been given to others meanwhile is forgotten.
    pub fn forget(&mut self) {
        self.containers.forget_pids();
    }
}

/// What the file of an event is called; `path` is where a path is put together.
fn name<'a>(record: &Record, texts: &[u8], addresses: &'a mut Addresses, path: &'a mut Vec<u8>) -> Name<'a> {
    let has = |bit| record.named & bit != 0;
    let (given, names) = texts.split_at(texts.len().min(record.given_len.into()));
    if has(named::UNKNOWN) {
        return Name::Unknown;
    }
    let file_type = record.type_name().unwrap_or("");
    if given.is_empty() && ["ipv4", "ipv6", "unix"].contains(&file_type) {
        return addresses.find(record.inode, record.tid, record.pid);
    }
    if given.is_empty() && has(named::PSEUDO) {
        return match file_type {
            "pipe" => {
                path.clear();
                path.extend_from_slice(format!("pipe:[{}]", record.inode).as_bytes());
                Name::Is(path)
            }
            "memfd" => {
                Told { given, names, deleted: true }.path(path);
                Name::Is(path)
            }
            _ => Name::None,
        };
    }
    if texts.is_empty() && !has(named::FILE) {
        return Name::None;
    }
    Told { given, names, deleted: has(named::DELETED) }.path(path);
    Name::Is(path)
}
