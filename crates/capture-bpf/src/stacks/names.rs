//! Stacks of records as text, each named once.

use super::jvm::JvmMaps;
use super::shared::{Parts, Record, flag};
use super::state::State;
use crate::StackOptions;
use crate::loader::Raw;
use latscope_event::{Batch, Context, Field, MISSING_CODE};
use latscope_unwind::{Naming, Quality, Registers, Stacks};
use std::collections::HashMap;

/// More stacks, or processes, are not remembered at a time.
const KEPT: usize = 1 << 16;
/// So much text of stacks is kept; all others have the same one.
const TEXT_BYTES: usize = 256 << 20;

/// What a thread waits for that could run.
pub const RUN_QUEUE: &str = "run queue";
/// Compiled code without a name, as stacks write it.
const UNNAMED: &str = "[unknown]_[j]";

/// What is known of stacks, processes and their names.
pub struct Names {
    stacks: Stacks,
    /// By what identifies a stack: process, when it started, addresses.
    known: HashMap<Box<[u64]>, Stack>,
    /// When each process started.
    processes: HashMap<u32, u64>,
    key: Vec<u64>,
    text: String,
    text_bytes: usize,
    jvm_maps: Option<JvmMaps>,
}

/// A stack as codes of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stack {
    pub text: u32,
    pub wait_class: u32,
    pub quality: u32,
    /// The thread waits for work, not for its completion.
    pub is_idle: bool,
}

impl Names {
    /// Knows nothing yet.
    pub fn new(how: &StackOptions) -> Names {
        Names {
            stacks: Stacks::new(if how.hashed_names { Naming::Hashed } else { Naming::Plain }),
            jvm_maps: how.jvm_maps.then(JvmMaps::default),
            known: HashMap::new(),
            processes: HashMap::new(),
            key: Vec::new(),
            text: String::new(),
            text_bytes: 0,
        }
    }

    /// The stack of a record. Of the bytes of its user stack nothing stays.
    pub fn name(&mut self, record: &Record, parts: &Parts, state: State, batch: &mut Batch) -> Stack {
        let is_new = self.processes.insert(record.pid, record.process_start) != Some(record.process_start);
        if is_new {
            // The number was another's before, or the process executes another program now.
            self.stacks.exec(record.pid);
            if self.processes.len() > KEPT {
                self.processes.clear();
            }
        }
        let registers = Registers { ip: record.ip, sp: record.sp, fp: record.fp, lr: record.lr };
        let user = match parts.user.is_empty() {
            true => None,
            false => Some(self.stacks.unwind(record.pid, registers, record.base(), parts.user)),
        };
        let (user, quality) = user.as_ref().map_or((&[][..], Quality::None), |user| (&user.addresses, user.quality));
        let is_kernel_only = record.has(flag::KTHREAD);
        self.key.clear();
        self.key.extend([u64::from(record.pid), record.process_start, state as u64, quality as u64, user.len() as u64]);
        self.key.extend_from_slice(user);
        self.key.extend(parts.kernel.chunks_exact(8).map(u64::read));
        self.key.push(u64::from(record.call as u32));
        if let Some(&known) = self.known.get(&self.key[..]) {
            return known;
        }
        let kernel: Vec<u64> = parts.kernel.chunks_exact(8).map(u64::read).collect();
        self.text.clear();
        self.stacks.text(record.pid, user, &kernel, &mut self.text);
        self.text_bytes += self.text.len();
        let text = match &self.text[..] {
            "" => MISSING_CODE,
            _ if self.text_bytes > TEXT_BYTES => batch.intern(Field::Stack, b"(too many different stacks)"),
            text => batch.intern(Field::Stack, text.as_bytes()),
        };
        let call = (record.call >= 0).then_some(i64::from(record.call));
        let stack = Stack {
            text,
            wait_class: match state {
                State::Running => MISSING_CODE,
                State::Runnable => batch.intern(Field::WaitClass, RUN_QUEUE.as_bytes()),
                _ => match self.stacks.wait_class(&kernel, state.of_scheduler(), call) {
                    "" => MISSING_CODE,
                    class => batch.intern(Field::WaitClass, class.as_bytes()),
                },
            },
            quality: match is_kernel_only {
                true => MISSING_CODE,
                false => batch.intern(Field::StackQuality, quality.name().as_bytes()),
            },
            is_idle: is_kernel_only && self.stacks.is_idle(&kernel),
        };
        if let Some(maps) = &mut self.jvm_maps
            && self.text.contains(UNNAMED)
        {
            maps.ask(record.pid);
            return stack; // with names the next time
        }
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert(self.key[..].into(), stack);
        stack
    }

    /// Says in the context what was asked of JVMs.
    pub fn account(&self, context: &mut Context) {
        if let Some(maps) = &self.jvm_maps {
            maps.account(context);
        }
    }
}
