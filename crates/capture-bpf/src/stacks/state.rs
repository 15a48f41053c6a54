//! What a thread does at a moment.

use super::shared::{Record, flag};
use latscope_unwind::ThreadState;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Running,
    /// It could run, and waits for a CPU.
    Runnable,
    DiskSleep,
    Sleep,
    Stopped,
}

impl State {
    /// As `Field::State` has it.
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Runnable => "runnable",
            State::DiskSleep => "disk sleep",
            State::Sleep => "sleep",
            State::Stopped => "stopped",
        }
    }

    /// As the scheduler has it.
    pub fn of_scheduler(self) -> ThreadState {
        match self {
            State::Running | State::Runnable => ThreadState::Running,
            State::DiskSleep => ThreadState::Uninterruptible,
            State::Sleep => ThreadState::Sleeping,
            State::Stopped => ThreadState::Stopped,
        }
    }

    /// The state of the thread of a record.
    pub fn from_record(record: &Record) -> State {
        const SLEEP: u32 = 1;
        const DISK_SLEEP: u32 = 2;
        const STOPPED: u32 = 4 | 8;
        match record.state {
            _ if record.has(flag::RUNNING) => State::Running,
            0 => State::Runnable,
            state if state & DISK_SLEEP != 0 => State::DiskSleep,
            state if state & SLEEP != 0 => State::Sleep,
            state if state & STOPPED != 0 => State::Stopped,
            _ => State::Sleep,
        }
    }
}
