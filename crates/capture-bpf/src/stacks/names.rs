//! Stacks of records as text, each named once.

use super::jvm::JvmMaps;
use super::shared::{Parts, Record, State, flag};
use crate::StackOptions;
use crate::loader::Raw;
use latscope_event::{Batch, Context, Field, MISSING_CODE};
use latscope_unwind::{Naming, Quality, Registers, Stacks};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// More stacks, or processes, are not remembered at a time.
const KEPT: usize = 1 << 16;
/// So much text of different stacks is kept; all others have the same one.
const TEXT_BYTES: usize = 128 << 20;

/// What a thread waits for that could run.
pub const RUN_QUEUE: &str = "run queue";
/// Compiled code without a name, as stacks write it.
const UNNAMED: &str = "[unknown]_[j]";

/// What is known of stacks, processes and their names.
pub struct Names {
    stacks: Stacks,
    /// By what identifies a stack: process, when it started, and a hash of the addresses, which would take a kilobyte themselves.
    known: HashMap<(u32, u64, u64), Stack>,
    hashes: RandomState,
    /// When each process started.
    processes: HashMap<u32, u64>,
    key: Vec<u64>,
    text: String,
    texts: Texts,
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
            hashes: RandomState::new(),
            processes: HashMap::new(),
            key: Vec::new(),
            text: String::new(),
            texts: Texts { bytes: 0, most: TEXT_BYTES },
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
        self.key.extend([state as u64, quality as u64, user.len() as u64]);
        self.key.extend_from_slice(user);
        self.key.extend(parts.kernel.chunks_exact(8).map(u64::read));
        self.key.push(u64::from(record.call as u32));
        let key = (record.pid, record.process_start, self.hashes.hash_one(&self.key));
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let kernel: Vec<u64> = parts.kernel.chunks_exact(8).map(u64::read).collect();
        self.text.clear();
        self.stacks.text(record.pid, user, &kernel, &mut self.text);
        let text = match &self.text[..] {
            "" => MISSING_CODE,
            text => self.texts.intern(text, batch),
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
        self.known.insert(key, stack);
        stack
    }

    /// Says in the context what was asked of JVMs.
    pub fn account(&self, context: &mut Context) {
        if let Some(maps) = &self.jvm_maps {
            maps.account(context);
        }
    }
}

/// Bytes of the different texts of stacks so far, and how many there may be.
struct Texts {
    bytes: usize,
    most: usize,
}

impl Texts {
    /// The code of a stack. One that is known costs nothing: processes that come and go have the same ones again and again.
    fn intern(&mut self, text: &str, batch: &mut Batch) -> u32 {
        match batch.dictionary(Field::Stack).find(text.as_bytes()) {
            Some(code) => code,
            None if self.bytes + text.len() > self.most => batch.intern(Field::Stack, b"(too many different stacks)"),
            None => {
                self.bytes += text.len();
                batch.intern(Field::Stack, text.as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latscope_event::FieldSet;

    #[test]
    fn stacks_that_come_again_leave_room_for_new_ones() {
        let mut batch = Batch::new(FieldSet::ALWAYS.with(&[Field::Stack]));
        let mut texts = Texts { bytes: 0, most: 20 };
        let code = texts.intern("main;read", &mut batch);
        for _ in 0..10 {
            assert_eq!(texts.intern("main;read", &mut batch), code);
        }
        let other = texts.intern("main;write", &mut batch);
        assert_eq!(batch.dictionary(Field::Stack).text(other), Some("main;write"));
        let [one, another] = ["main;x", "main;y"].map(|text| texts.intern(text, &mut batch));
        assert_eq!(one, another, "there is no room");
        assert_eq!(texts.intern("main;read", &mut batch), code);
    }
}
