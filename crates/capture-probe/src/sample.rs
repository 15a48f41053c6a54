//! One timed request.

use latscope_event::{Field, FieldSet};

/// The fields of a probe's events.
pub const FILLS: FieldSet = FieldSet::ALWAYS.with(&[
    Field::Kind,
    Field::Name,
    Field::Size,
    Field::Offset,
    Field::Device,
    Field::Dev,
    Field::Path,
    Field::Error,
    Field::Result,
    Field::Intended,
    Field::Service,
    Field::Lag,
    Field::CpuWait,
    Field::Cache,
]);

/// One request. Times are nanoseconds since the start of the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When the schedule asked for it; in a closed loop, when it was made.
    pub intended_ns: u64,
    /// When it was made.
    pub submitted_ns: u64,
    /// When it was done.
    pub completed_ns: u64,
    /// How long it could not be made because the probe's own earlier requests were not done; 0 in a closed loop. At most
    /// `submitted_ns - intended_ns`.
    pub waited_ns: u64,
    /// Where in the target, bytes.
    pub offset: u64,
    /// Bytes that were moved, or a negative error number.
    pub result: i32,
    /// How much of its time its thread waited for a CPU; [`Sample::UNKNOWN`] of requests that were not slow.
    pub cpu_wait_ns: u32,
    /// Whether it was a write.
    pub write: bool,
    /// Whether its data was in memory before, where that was looked at.
    pub cached: Option<bool>,
}

impl Sample {
    /// A [`Sample::cpu_wait_ns`] that was not asked for.
    pub const UNKNOWN: u32 = u32::MAX;

    /// A request that was made at `since_ns` and was not done at `until_ns`, as if it had been.
    pub fn unfinished(since_ns: u64, until_ns: u64) -> Sample {
        Sample {
            intended_ns: since_ns,
            submitted_ns: since_ns,
            completed_ns: until_ns,
            waited_ns: 0,
            offset: 0,
            result: 0,
            cpu_wait_ns: Sample::UNKNOWN,
            write: false,
            cached: None,
        }
    }

    /// What a user of the target waits who is never late himself: the wait for earlier requests, and the target's time.
    #[inline]
    pub fn latency_ns(&self) -> u64 {
        self.waited_ns.saturating_add(self.service_ns())
    }

    /// From the submission to the completion: what the target took.
    #[inline]
    pub fn service_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.submitted_ns)
    }

    /// How late the probe was beyond the wait for its own earlier requests: the doing of the machine that it runs on, and
    /// no part of the latency.
    #[inline]
    pub fn lag_ns(&self) -> u64 {
        self.submitted_ns.saturating_sub(self.intended_ns).saturating_sub(self.waited_ns)
    }

    /// The error number, if it failed.
    #[inline]
    pub fn error(&self) -> Option<i32> {
        (self.result < 0).then_some(-self.result)
    }
}
