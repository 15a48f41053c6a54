//! Records as rows of a batch.

use super::names::{Names, RUN_QUEUE, Stack};
use super::shared::{Parts, Record, State, flag};
use crate::StackOptions;
use crate::container::Containers;
use crate::fd::{Devices, Expected};
use crate::loader::MonotonicClock;
use crate::process::Processes;
use crate::syscall::FILE_TYPES;
use crate::texts::named;
use latscope_event::kernel::Machine;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_CODE, MISSING_I64};

/// Makes rows.
pub struct Rows {
    pub batch: Batch,
    names: Names,
    pub containers: Containers,
    processes: Processes,
    devices: Devices,
    machine: Machine,
    path: Vec<u8>,
}

/// What a thread did for a while, as a row has it but for its times.
#[derive(Clone, Copy, Debug)]
pub struct Doing {
    pub pid: u32,
    pub tid: u32,
    pub cgroup: u64,
    pub process: [u8; 16],
    pub fd: i32,
    pub cpu: u32,
    pub state: State,
    /// Number of its system call, -1 in none.
    pub call: i32,
    in_iowait: bool,
    comm: u32,
    name: u32,
    /// Codes of [`OF_FILE`].
    file: [u32; OF_FILE.len()],
    pub stack: Stack,
}

/// The columns of the file of a call.
const OF_FILE: [Field; 6] =
    [Field::FdType, Field::Path, Field::Device, Field::Dev, Field::DiskModel, Field::Rotational];

/// Where a stack was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    Sampled,
    Switch,
    Timer,
}

impl Rows {
    /// Rows with these fields.
    pub fn new(fields: FieldSet, how: &StackOptions) -> Rows {
        Rows {
            batch: Batch::new(fields),
            names: Names::new(how),
            containers: Containers::new(),
            processes: Processes::new(fields),
            devices: Devices::default(),
            machine: Machine::from_arch(std::env::consts::ARCH),
            path: Vec::new(),
        }
    }

    /// Events whose process could not be described.
    pub fn unknown(&self) -> u64 {
        self.processes.unknown
    }

    /// Says in the context what was asked of JVMs.
    pub fn account(&self, context: &mut Context) {
        self.names.account(context);
    }

    /// What a record says a thread does.
    pub fn doing(&mut self, record: &Record, parts: &Parts, state: State) -> Doing {
        let stack = self.names.name(record, parts, state, &mut self.batch);
        let call = u32::try_from(record.call).ok().and_then(|number| self.machine.syscall(number));
        let batch = &mut self.batch;
        let mut code = |field, text: &[u8]| if text.is_empty() { MISSING_CODE } else { batch.intern(field, text) };
        Doing {
            pid: record.pid,
            tid: record.tid,
            cgroup: record.cgroup,
            process: record.process,
            fd: record.fd,
            cpu: record.cpu,
            state,
            call: record.call,
            in_iowait: record.has(flag::IOWAIT),
            comm: code(Field::Comm, until_nul(&record.comm)),
            name: code(Field::Name, call.unwrap_or_default().as_bytes()),
            file: self.file(record, parts.names),
            stack,
        }
    }

    fn file(&mut self, record: &Record, names: &[u8]) -> [u32; OF_FILE.len()] {
        let mut codes = [MISSING_CODE; OF_FILE.len()];
        if record.fd < 0 {
            return codes;
        }
        let of_type = FILE_TYPES.get(usize::from(record.file_type)).copied().flatten();
        codes[0] = of_type.map_or(MISSING_CODE, |text| self.batch.intern(Field::FdType, text.as_bytes()));
        let has = |bit| record.named & bit != 0;
        if has(named::FILE) && !has(named::UNKNOWN) {
            Expected { given: b"", names, deleted: has(named::DELETED) }.path(&mut self.path);
            codes[1] = self.batch.intern(Field::Path, &self.path);
        }
        if let Some(device) = self.devices.get(record.dev) {
            codes[2] = self.batch.intern(Field::Device, device.name.as_bytes());
            codes[3] = self.batch.intern(Field::Dev, device.number.as_bytes());
            let [(_, model), (_, rotational)] = device.disk.codes(&mut self.batch);
            (codes[4], codes[5]) = (model, rotational);
        }
        codes
    }

    /// Appends a wait that was sampled and stands for so many; times as in [`Rows::push`].
    pub fn push_sample(
        &mut self,
        doing: &Doing,
        start_ns: u64,
        latency_ns: u64,
        stands_for: u64,
        clock: MonotonicClock,
    ) {
        if stands_for > 1 {
            self.batch.push_i64(Field::SampleWeight, i64::try_from(stands_for).unwrap_or(i64::MAX));
        }
        self.push(doing, start_ns, latency_ns, Taken::Sampled, clock);
    }

    /// Appends an event: from `start_ns` on, by the clock of the kernel, for `latency_ns`.
    pub fn push(&mut self, doing: &Doing, start_ns: u64, latency_ns: u64, taken: Taken, clock: MonotonicClock) {
        let batch = &mut self.batch;
        let (kind, cpu) = match doing.state {
            State::Running => ("run", i64::from(doing.cpu)),
            _ => ("wait", MISSING_I64),
        };
        batch.push_i64(Field::Time, clock.unix_ns(start_ns));
        batch.push_u64(Field::Latency, latency_ns);
        batch.push_text(Field::Kind, Some(kind.as_bytes()));
        batch.push_code(Field::Name, doing.name);
        batch.push_i64(Field::Pid, i64::from(doing.pid));
        batch.push_i64(Field::Tid, i64::from(doing.tid));
        batch.push_code(Field::Comm, doing.comm);
        batch.push_text(Field::Process, Some(until_nul(&doing.process)));
        batch.push_i64(Field::Fd, if doing.fd >= 0 { i64::from(doing.fd) } else { MISSING_I64 });
        for (&field, &code) in OF_FILE.iter().zip(&doing.file) {
            batch.push_code(field, code);
        }
        batch.push_i64(Field::Cpu, cpu);
        batch.push_text(Field::State, Some(doing.state.word().as_bytes()));
        let in_iowait: &[u8] = if doing.in_iowait { b"true" } else { b"false" };
        batch.push_text(Field::InIowait, (doing.state != State::Running).then_some(in_iowait));
        batch.push_code(Field::WaitClass, doing.stack.wait_class);
        batch.push_code(Field::StackQuality, doing.stack.quality);
        let source = match taken {
            Taken::Sampled => "sampled",
            Taken::Switch => "switch",
            Taken::Timer => "timer",
        };
        batch.push_text(Field::StackSource, Some(source.as_bytes()));
        batch.push_code(Field::Stack, doing.stack.text);
        self.containers.push(doing.cgroup, doing.pid, batch);
        self.processes.push(0, doing.pid, until_nul(&doing.process), batch);
        batch.end_row();
    }

    /// The code of what a thread waits for that could run.
    pub fn class_of_queue(&mut self) -> u32 {
        self.batch.intern(Field::WaitClass, RUN_QUEUE.as_bytes())
    }

    /// What may have been given to others meanwhile is forgotten.
    pub fn forget(&mut self) {
        self.containers.forget_pids();
        self.processes.forget();
        self.devices.forget();
    }
}

fn until_nul(name: &[u8; 16]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or(&[])
}
