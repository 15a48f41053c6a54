//! From sorted records to events: pairing, names of threads, batches.

use super::decode::{CallName, Entry};
use crate::block_pairs::{BlockPairs, trimmed};
use crate::perf_sample::SampleRecord;
use crate::syscall_pairs::{End, SyscallPairs, SyscallRecord};
use crate::{ReadOptions, Sink};
use hashbrown::HashMap;
use latscope_event::kernel::Machine;
use latscope_event::{Batch, Context, Field, FieldSet};
use std::ops::ControlFlow;

/// No machine runs more threads at once.
const THREADS_LIMIT: usize = 1 << 18;

/// Takes records in the order of time.
pub struct Events<'a, 's> {
    /// What becomes known of the trace.
    pub context: Context,
    /// Pairs system calls.
    pub syscalls: SyscallPairs,
    blocks: BlockPairs,
    /// Samples do not carry the name of their thread; the records that give it do.
    comms: HashMap<i32, [u8; 16]>,
    /// Names of events that are sampled, zero padded.
    pub sampled: Vec<[u8; 32]>,
    batch: Batch,
    sink: &'a mut Sink<'s>,
    is_ended: bool,
}

impl<'a, 's> Events<'a, 's> {
    /// Hands batches with the wanted fields, of those that the format fills, to `sink`.
    pub fn new(
        context: Context,
        machine: Machine,
        options: &ReadOptions,
        fills: FieldSet,
        sink: &'a mut Sink<'s>,
    ) -> Events<'a, 's> {
        Events {
            context,
            syscalls: SyscallPairs::new(machine, options.all_syscalls),
            blocks: BlockPairs::default(),
            comms: HashMap::new(),
            sampled: Vec::new(),
            batch: Batch::new(options.fields.intersection(fills)),
            sink,
            is_ended: false,
        }
    }

    /// Takes the next record; breaks when nobody wants more.
    #[inline]
    pub fn take(&mut self, time_ns: i64, entry: &Entry) -> ControlFlow<()> {
        match entry {
            Entry::Block(record) => self.blocks.push(record, &mut self.batch, &mut self.context),
            entry => self.take_other(time_ns, entry),
        }
        if self.batch.is_full() { self.hand_on() } else { ControlFlow::Continue(()) }
    }

    fn take_other(&mut self, time_ns: i64, entry: &Entry) {
        match *entry {
            Entry::Block(_) | Entry::Memory { .. } => {}
            Entry::Syscall { pid, tid, call, enter, known, ref values, stack } => {
                let call = match call {
                    CallName::Number(number) => self.syscalls.numbered(i64::from(number)),
                    CallName::Known(call) => call,
                };
                let known = values.get(..usize::from(known)).unwrap_or(values);
                let end = if enter { End::Enter(known) } else { End::Exit(values[0] as i64) };
                let comm = self.comms.get(&tid).map_or(&[][..], |comm| trimmed(comm));
                let record = SyscallRecord { time_ns, pid, tid, call, end, comm, stack };
                self.syscalls.push(&record, &mut self.batch, &mut self.context);
            }
            Entry::Sample { pid, tid, event, period_ns, stack } => {
                let name = self.sampled.get(event as usize).copied().unwrap_or_default();
                let comm = self.comms.get(&tid).copied().unwrap_or_default();
                let record = SampleRecord { time_ns, pid, tid, comm, name, period_ns, stack };
                record.push(&mut self.batch, &mut self.context);
            }
            Entry::Comm { tid, comm } => self.name_thread(tid, comm),
            Entry::Fork { tid, parent } => {
                if let Some(&comm) = self.comms.get(&parent) {
                    self.name_thread(tid, comm);
                }
            }
            Entry::Gone { tid } => {
                self.comms.remove(&tid);
            }
            Entry::Lost(range) => {
                self.blocks.lost(range, &mut self.context);
                self.syscalls.lost();
            }
        }
    }

    /// The code of the text of a stack.
    pub fn stack(&mut self, text: &str) -> u32 {
        self.batch.intern(Field::Stack, text.as_bytes())
    }

    fn name_thread(&mut self, tid: i32, comm: [u8; 16]) {
        if self.comms.len() < THREADS_LIMIT || self.comms.contains_key(&tid) {
            self.comms.insert(tid, comm);
        }
    }

    fn hand_on(&mut self) -> ControlFlow<()> {
        let go_on = (self.sink)(&self.context, &self.batch);
        self.batch.clear();
        self.is_ended = go_on.is_break();
        go_on
    }

    /// The trace is over.
    pub fn finish(mut self) -> Context {
        self.blocks.settle(&mut self.batch, &mut self.context);
        if !self.batch.is_empty() && !self.is_ended {
            let _ = self.hand_on();
        }
        self.blocks.finish(&mut self.context);
        self.syscalls.finish(&mut self.context);
        self.context
    }
}
