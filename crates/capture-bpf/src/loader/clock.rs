//! The clock of the kernel's stamps, `CLOCK_MONOTONIC`, and what to add to it for Unix time.

use std::time::{SystemTime, UNIX_EPOCH};

/// How far Unix time is ahead of `CLOCK_MONOTONIC`, as measured when a capture began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MonotonicClock {
    /// Nanoseconds to add.
    pub offset_ns: i64,
}

impl MonotonicClock {
    /// Reads Unix time between two readings of the monotonic clock, several times; the narrowest pair is right to some
    /// ten nanoseconds even on a busy machine.
    pub fn measure() -> MonotonicClock {
        let reading = || {
            let before = monotonic_ns();
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
            let after = monotonic_ns();
            (after - before, unix - before - (after - before) / 2)
        };
        let best = (0..32).map(|_| reading()).min_by_key(|&(width, _)| width);
        MonotonicClock { offset_ns: best.map_or(0, |(_, offset)| offset) }
    }

    /// Unix time of a stamp.
    #[inline]
    pub fn unix_ns(self, stamp_ns: u64) -> i64 {
        (stamp_ns as i64).saturating_add(self.offset_ns)
    }

    /// Unix time of now by this offset, whatever was done to the wall clock since.
    pub fn now_ns(self) -> i64 {
        monotonic_ns().saturating_add(self.offset_ns)
    }
}

/// Now, as `bpf_ktime_get_ns` has it.
#[allow(clippy::unnecessary_cast, reason = "the parts have 32 bits on some machines")]
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that outlives the call, which writes nothing else.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    debug_assert_eq!(status, 0, "every Linux has this clock");
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_now() {
        let clock = MonotonicClock::measure();
        let unix = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let (before, now, after) = (unix(), clock.now_ns(), unix());
        let slack = 1_000_000; // the wall clock may be slewed between the two
        assert!(before - slack <= now && now <= after + slack, "{before} {now} {after}");
    }
}
