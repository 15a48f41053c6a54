//! Records of the programs as rows of a batch.

use super::calls::Calls;
use super::shared::{CALLS, Record};
use crate::container::Containers;
use crate::fd::{Devices, File, Paths};
use crate::loader::MonotonicClock;
use latscope_event::kernel::error_name;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_CODE, MISSING_I64, MISSING_U64};

/// Makes rows.
pub struct Rows {
    pub batch: Batch,
    pub paths: Paths,
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
            paths: Paths::new(),
            fields,
            containers: Containers::new(),
            devices: Devices::default(),
            codes: vec![None; CALLS],
        }
    }

    /// Appends an event; `given` is the path that an open was asked for, up to the first zero, or nothing.
    pub fn push(&mut self, record: &Record, given: &[u8], calls: &Calls, clock: MonotonicClock, context: &mut Context) {
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
        self.push_place(record, given);
        self.batch.end_row();
    }

    /// The columns that need a look elsewhere.
    fn push_place(&mut self, record: &Record, given: &[u8]) {
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
            let file = File {
                dev: record.dev,
                inode: record.inode,
                generation: record.generation,
                file_type: record.type_name().unwrap_or(""),
                pid: record.pid,
                tid: record.tid,
                fd: record.fd,
            };
            let given = given_path(given);
            match given.filter(|_| record.result < 0) {
                Some(asked_for) => batch.push_text(Field::Path, Some(asked_for)),
                None => {
                    let absolute =
                        given.and_then(|path| std::str::from_utf8(path).ok()).filter(|path| path.starts_with('/'));
                    batch.push_text(Field::Path, self.paths.find(&file, absolute).map(str::as_bytes));
                }
            }
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

/// The path that the program gave, unless it was cut.
fn given_path(given: &[u8]) -> Option<&[u8]> {
    let end = given.iter().position(|&byte| byte == 0)?;
    (1..given.len() - 1).contains(&end).then(|| &given[..end])
}
