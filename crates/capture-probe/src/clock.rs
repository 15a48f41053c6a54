//! The clock, and waiting for a moment of it.

use rustix::time::{ClockId, Timespec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Far enough away to let a request to stop come in between.
const FAR: u64 = 20_000_000;

/// `CLOCK_MONOTONIC`, nanoseconds since its own start.
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The zero of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    monotonic_ns: u64,
    /// The same moment as Unix time.
    pub unix_ns: i64,
}

impl Epoch {
    /// Now.
    pub fn now() -> Epoch {
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        Epoch { monotonic_ns: monotonic_ns(), unix_ns }
    }

    /// The wall clock was set: the epoch has the Unix time that follows from it now.
    pub fn follow_clock(&mut self) {
        let now = Epoch::now();
        self.unix_ns = now.unix_ns - (now.monotonic_ns - self.monotonic_ns) as i64;
    }

    /// Nanoseconds since.
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        monotonic_ns() - self.monotonic_ns
    }

    /// Waits until so long after the epoch, the last `spin_ns` of it without sleeping. `false` when it was asked to stop
    /// meanwhile; whoever asks unparks the thread. `soon` is called once, before the last stretch of it.
    pub fn wait_until(&self, ns: u64, spin_ns: u64, stop: &AtomicBool, soon: impl FnOnce()) -> bool {
        let mut soon = Some(soon);
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = self.elapsed_ns();
            if now >= ns {
                return true;
            }
            let sleep_ns = (ns - now).saturating_sub(spin_ns);
            if sleep_ns > FAR {
                std::thread::park_timeout(Duration::from_nanos(sleep_ns - FAR / 2));
            } else if let Some(soon) = soon.take_if(|_| sleep_ns == 0 || spin_ns == 0) {
                soon();
            } else if sleep_ns == 0 {
                std::hint::spin_loop();
            } else {
                sleep_until(self.monotonic_ns + now + sleep_ns);
            }
        }
    }
}

fn sleep_until(monotonic_ns: u64) {
    let until = Timespec {
        tv_sec: (monotonic_ns / 1_000_000_000) as i64,
        tv_nsec: (monotonic_ns % 1_000_000_000) as rustix::time::Nsecs,
    };
    // An early end (a signal) is seen by the caller's clock.
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until);
}
