//! What waits now: calls and requests that are in progress and do I/O, with their age.
//!
//! A server without work waits all the time: for connections, messages, timers, locks. Only waits for storage are rows:
//! calls on files, directories and block devices, and calls that name a path.

use super::calls::Known;
use super::rows::Rows;
use super::shared::Wait;
use super::tracing::{FILLS, Tracing};
use crate::Error;
use latscope_event::{Batch, Context, Field, FieldSet, MISSING_I64, Unfinished, Wait as Waiting, format_size};
use std::time::{Duration, Instant};

/// What has not returned for so long is named; calls in progress are normal.
const STUCK_NS: u64 = 100_000_000;
/// More rows are not made, so that a storm of waits costs no more; they are the oldest.
const ROWS: usize = 4096;
/// How old the rows may be before [`Waits::look_again`] asks the kernel.
const FRESH: Duration = Duration::from_millis(900);

/// Calls on files that wait for other processes: for their locks, or for completions of requests that are rows themselves.
const FOR_OTHERS: [&str; 10] = [
    "flock",
    "fcntl",
    "io_uring_enter",
    "io_getevents",
    "io_pgetevents",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "io_uring_poll_add",
];
/// Where in the kernel an open waits for the other end of a named pipe.
const FOR_PARTNER: &str = "wait_for_partner";

/// File systems whose files are the kernel's own words, by magic number: a read of them waits for news, not for storage.
const OF_THE_KERNEL: [u64; 14] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x7472_6163, // tracefs
    0x6462_6720, // debugfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6265_6570, // configfs
    0x7363_6673, // securityfs
    0xcafe_4a11, // bpf
    0xf97c_ff8c, // selinux
    0x4249_4e4d, // binfmt_misc
    0x6759_6969, // rpc_pipefs
    0x1980_0202, // mqueue
    0x6573_5543, // fusectl
];

/// Knows what waited when it was last asked.
pub struct Waits {
    rows: Rows,
    in_progress: u64,
    looked: Option<Instant>,
    /// Whether all rows are named, not only those that have waited for long.
    names_all: bool,
}

impl Waits {
    /// Knows nothing yet. Of the fields that are filled when somebody asks for them, rows will have these.
    pub fn new(asked: FieldSet) -> Waits {
        let by_name = FILLS.intersection(FieldSet::BY_NAME);
        let fields = FILLS.without(by_name).union(by_name.intersection(asked));
        Waits { rows: Rows::new(fields), in_progress: 0, looked: None, names_all: false }
    }

    /// What waited at the last look, the oldest first.
    pub fn rows(&self) -> &Batch {
        &self.rows.batch
    }

    /// As [`Waits::look`], unless that was done a moment ago.
    pub fn look_again(&mut self, tracing: &mut Tracing) -> Result<u64, Error> {
        match self.looked {
            Some(looked) if looked.elapsed() < FRESH => Ok(self.in_progress),
            _ => self.look(tracing),
        }
    }

    /// The last look, which names all rows.
    pub fn look_last(&mut self, tracing: &mut Tracing) -> Result<u64, Error> {
        self.names_all = true;
        tracing.context.knows_unfinished = true;
        self.look(tracing)
    }

    /// Asks the kernel, makes the rows, and names those of `Context::unfinished`; returns how many calls and requests are
    /// in progress, waits for others among them.
    pub fn look(&mut self, tracing: &mut Tracing) -> Result<u64, Error> {
        self.rows.batch.clear();
        self.rows.forget();
        let mut waits = tracing.in_progress()?;
        self.in_progress = waits.len() as u64;
        let now_ns = tracing.clock.now_stamp_ns();
        let attached_ns = tracing.attached_ns();
        waits.retain(|(wait, _)| tracing.calls.get(wait.record.call).is_some_and(|known| is_for_storage(wait, known)));
        for (wait, _) in waits.iter_mut().filter(|(wait, _)| wait.record.start_ns == 0) {
            wait.record.latency_ns = now_ns.saturating_sub(attached_ns);
        }
        waits.sort_unstable_by_key(|(wait, _)| std::cmp::Reverse(wait.record.latency_ns));
        waits.truncate(ROWS);
        tracing.context.count_begun_from(tracing.clock.unix_ns(attached_ns));
        tracing.context.unfinished.clear();
        for (wait, texts) in &waits {
            self.push(wait, texts, tracing);
        }
        self.looked = Some(Instant::now());
        Ok(self.in_progress)
    }

    fn push(&mut self, wait: &Wait, texts: &[u8], tracing: &mut Tracing) {
        let seen = wait.record.start_ns != 0;
        let start_ns = if seen { wait.record.start_ns } else { tracing.attached_ns() };
        let record = super::shared::Record { start_ns, result: MISSING_I64, ..wait.record };
        let Tracing { calls, clock, context, .. } = tracing;
        let row = self.rows.batch.len();
        self.rows.push(&record, texts, calls, *clock, context);
        let is_named = record.latency_ns >= STUCK_NS && context.unfinished.len() < crate::NAMED;
        if !(is_named || self.names_all && context.unfinished.len() < Context::UNFINISHED_KEPT) {
            return;
        }
        let name = calls.get(record.call).map_or("call", |known| &known.name);
        let of = match (self.rows.batch.text(Field::Path, row), record.type_name()) {
            (Some(path), _) => format!(" of {path}"),
            (None, Some(of_type)) => format!(" of {of_type}"),
            (None, None) => String::new(),
        };
        let size = if record.size == u64::MAX { String::new() } else { format!(", {}", format_size(record.size)) };
        let comm = String::from_utf8_lossy(record.comm());
        let since = if seen { "" } else { ", since before the capture" };
        let what = format!("{name}{of}{size} by {comm}, thread {}{since}", record.tid);
        context.unfinished.push(Unfinished::from_row(what, Waiting::Counts, &self.rows.batch, row));
    }
}

/// Whether a call or request that is in progress waits for storage.
fn is_for_storage(wait: &Wait, known: &Known) -> bool {
    if FOR_OTHERS.contains(&known.name.as_str()) || OF_THE_KERNEL.contains(&wait.magic) {
        return false;
    }
    match wait.record.type_name() {
        Some(file_type) => ["file", "directory", "block", "link", "memfd"].contains(&file_type),
        None => known.needs_no_fd() && !waits_for_partner(wait.record.tid),
    }
}

/// Whether a thread waits for somebody to open the other end of a named pipe.
fn waits_for_partner(tid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{tid}/wchan")).is_ok_and(|place| place.contains(FOR_PARTNER))
}
