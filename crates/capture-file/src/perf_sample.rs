//! Samples of perf that are no end of a pair: of a clock or a counter of the processor.

use crate::block_pairs::{NO_ID, trimmed};
use latscope_event::{Batch, Context, Field, MISSING_I64};
use memchr::memchr;

/// A sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleRecord {
    pub time_ns: i64,
    pub pid: i32,
    pub tid: i32,
    pub comm: [u8; 16],
    /// The name of the event, zero padded.
    pub name: [u8; 32],
    /// How long it stands for: only clocks have that.
    pub period_ns: u64,
    /// Code of its stack, or [`MISSING_CODE`](latscope_event::MISSING_CODE).
    pub stack: u32,
}

impl SampleRecord {
    /// Becomes a row of `batch`: an event that ends where the sample was taken, and is as long as what it stands for.
    pub fn push(&self, batch: &mut Batch, context: &mut Context) {
        context.cover(self.time_ns);
        let start_ns = self.time_ns.saturating_sub_unsigned(self.period_ns).max(0);
        let id = |number: i32| if number == NO_ID { MISSING_I64 } else { i64::from(number) };
        let text = |padded| Some(trimmed(padded)).filter(|text| !text.is_empty());
        batch.push_i64(Field::Time, start_ns);
        batch.push_u64(Field::Latency, self.time_ns.saturating_sub(start_ns).try_into().unwrap_or(0));
        batch.push_text(Field::Kind, Some(b"sample"));
        batch.push_text(Field::Name, text(&self.name));
        batch.push_i64(Field::Pid, id(self.pid));
        batch.push_i64(Field::Tid, id(self.tid));
        batch.push_text(Field::Comm, text(&self.comm));
        batch.push_text(Field::StackSource, Some(b"sampled"));
        batch.push_code(Field::Stack, self.stack);
        batch.end_row();
    }
}

/// The name of an event that is sampled, without its modifiers, and whether its period is a time. Tracepoints have a system
/// in front of their names: `sched:sched_switch`.
pub fn sampled(name: &[u8]) -> Option<(&[u8], bool)> {
    let colon = memchr(b':', name).unwrap_or(name.len());
    let modifiers = name.get(colon + 1..).unwrap_or_default();
    let is_plain = colon > 0 && !name[..colon].iter().any(u8::is_ascii_whitespace);
    let is_one = is_plain && modifiers.len() <= 8 && modifiers.iter().all(|byte| b"ukhHGpPSDIWeb".contains(byte));
    let name = &name[..colon];
    (is_one && !name.starts_with(b"PERF_RECORD_")).then_some((name, matches!(name, b"cpu-clock" | b"task-clock")))
}
