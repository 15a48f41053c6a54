//! How long a thread waited for a CPU, so that this is not taken for the target's doing.

use crate::Sample;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

/// A request shorter than this is never asked about, nanoseconds: asking takes one or two microseconds.
const SLOW_NS: u64 = 20_000;
/// So often what was waited is asked for when no request was slow, so that the waits of many fast ones do not add up.
const REFRESH_NS: u64 = 10_000_000;

/// Watches the waiting of the thread that made it.
pub struct CpuWait {
    /// `None` where the kernel does not report it.
    schedstat: Option<File>,
    before_ns: u64,
    asked_ns: u64,
    /// About the median latency.
    typical_ns: u64,
}

impl CpuWait {
    /// For the calling thread.
    pub fn of_this_thread(wanted: bool) -> CpuWait {
        let schedstat = if wanted { File::open("/proc/thread-self/schedstat").ok() } else { None };
        let mut wait = CpuWait { schedstat, before_ns: 0, asked_ns: 0, typical_ns: 0 };
        wait.before_ns = wait.total_ns().unwrap_or(0);
        wait
    }

    /// Before a request at `now_ns` that follows the last without a pause.
    #[inline]
    pub fn keep_up(&mut self, now_ns: u64) {
        if self.schedstat.is_some() && now_ns - self.asked_ns > REFRESH_NS {
            self.refresh(now_ns);
        }
    }

    /// It is about `now_ns`; what was waited until now is no part of the next request.
    #[cold]
    pub fn refresh(&mut self, now_ns: u64) {
        self.asked_ns = now_ns;
        self.before_ns = self.total_ns().unwrap_or(self.before_ns);
    }

    /// How much of a request's time was waiting for a CPU; [`Sample::UNKNOWN`] when it was not slow. `late_ns` of what was
    /// waited since the last refresh was before the request.
    #[inline]
    pub fn after(&mut self, now_ns: u64, latency_ns: u64, late_ns: u64) -> u32 {
        if self.schedstat.is_none() {
            return Sample::UNKNOWN;
        }
        let slow = latency_ns > SLOW_NS && latency_ns > 2 * self.typical_ns;
        // Steps up and down of the same size end where there are as many of either.
        let step = (self.typical_ns >> 5) + 1;
        // Without a branch, which would be guessed wrong every other time.
        let up = u64::from(latency_ns > self.typical_ns);
        self.typical_ns = if self.typical_ns == 0 { latency_ns } else { self.typical_ns + 2 * step * up - step };
        if slow { self.ask(now_ns, latency_ns, late_ns) } else { Sample::UNKNOWN }
    }

    #[cold]
    fn ask(&mut self, now_ns: u64, latency_ns: u64, late_ns: u64) -> u32 {
        let Some(total_ns) = self.total_ns() else { return Sample::UNKNOWN };
        let waited = total_ns.saturating_sub(self.before_ns).saturating_sub(late_ns).min(latency_ns);
        self.before_ns = total_ns;
        self.asked_ns = now_ns;
        waited.min(u64::from(Sample::UNKNOWN - 1)) as u32
    }

    /// What this thread waited so far: the second number of schedstat.
    fn total_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let read = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(text.get(..read)?).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

/// Gives the calling thread the class `SCHED_FIFO`.
pub fn realtime() -> std::io::Result<()> {
    // In the middle of the range: below what watchdogs and the kernel's own threads use.
    let parameters = libc::sched_param { sched_priority: 50 };
    // SAFETY: the struct is ours; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets requests of all others go before those of the calling thread, where the scheduler of the disk knows priorities.
pub fn idle() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: no memory is involved; 0 is the calling thread, which keeps its priority after a refusal.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE) };
}

/// Lets the calling thread run on this CPU only.
pub fn pin(cpu: u32) -> std::io::Result<()> {
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

/// Sleep of the calling thread ends when it is due, not up to 50 us later.
pub fn sharp_timers() {
    // A refusal leaves the slack as it is.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// Gives the calling thread a table of descriptors of its own, with the same files: the kernel then need not count a
/// reference in every call.
pub fn own_descriptors() {
    // SAFETY: no memory is involved; descriptors keep their numbers, and after a refusal the table stays shared.
    unsafe { libc::unshare(libc::CLONE_FILES) };
}

/// The scheduling class of the calling thread.
pub fn class() -> &'static str {
    // SAFETY: no memory is involved.
    match unsafe { libc::sched_getscheduler(0) } {
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_OTHER => "other",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slow_requests_are_asked_about() {
        let mut wait = CpuWait::of_this_thread(true);
        for now in 0..1000 {
            wait.keep_up(now * 1000);
            assert_eq!(wait.after(now * 1000, 500, 0), Sample::UNKNOWN);
        }
        if wait.schedstat.is_none() {
            eprintln!("skipped: the kernel has no schedstat");
            return;
        }
        let waited = wait.after(2_000_000, 50_000, 0);
        assert!(waited <= 50_000, "{waited}");
        assert_eq!(CpuWait::of_this_thread(false).after(1, 1_000_000_000, 0), Sample::UNKNOWN);
    }
}
