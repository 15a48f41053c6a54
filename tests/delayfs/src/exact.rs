//! Answers that are not late.

use std::io::Error;
use std::time::{Duration, Instant};

/// Before an answer is due, nobody sleeps for so long: a sleeping CPU is late.
pub const AWAKE: Duration = Duration::from_micros(150);
/// Priorities (`SCHED_FIFO`) of who takes requests, so that their time is right, and who answers. Both are above that of
/// `latscope ping --rt`.
pub const TAKES: i32 = 61;
pub const ANSWERS: i32 = 60;

/// Keeps the calling thread, and those that it starts, on this CPU.
pub fn pin(cpu: usize) -> Result<(), Error> {
    // SAFETY: an empty set is a valid value; the number is looked at before it is used as an index into it.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        }
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    result_of(done)
}

/// Gives the calling thread, and those that it starts, real-time scheduling.
pub fn realtime(priority: i32) -> Result<(), Error> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the struct is ours; 0 is the calling thread.
    result_of(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) })
}

fn result_of(done: libc::c_int) -> Result<(), Error> {
    if done == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Waits without sleeping.
pub fn spin_until(due: Instant) {
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a timespec that is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
