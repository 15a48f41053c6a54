//! The clock of the kernel's stamps, `CLOCK_MONOTONIC`, and what to add to it for Unix time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The offset changes by more than this when somebody sets the wall clock, and when the machine was suspended, as the
/// monotonic clock stands still meanwhile; both clocks are slewed together.
const STEP_NS: u64 = 5_000_000;

/// How far Unix time is ahead of `CLOCK_MONOTONIC`.
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

    /// Takes up the offset of now if it is another one than before; returns whether it is.
    pub fn follow(&mut self) -> bool {
        self.step_to(MonotonicClock::measure())
    }

    fn step_to(&mut self, now: MonotonicClock) -> bool {
        let stepped = now.offset_ns.abs_diff(self.offset_ns) > STEP_NS;
        if stepped {
            *self = now;
        }
        stepped
    }

    /// Unix time of a stamp.
    #[inline]
    pub fn unix_ns(self, stamp_ns: u64) -> i64 {
        (stamp_ns as i64).saturating_add(self.offset_ns)
    }

    /// Now, as the kernel stamps it.
    pub fn now_stamp_ns(self) -> u64 {
        u64::try_from(monotonic_ns()).unwrap_or(0)
    }

    /// Unix time of now by this offset, whatever was done to the wall clock since.
    pub fn now_ns(self) -> i64 {
        monotonic_ns().saturating_add(self.offset_ns)
    }
}

/// Now, as `bpf_ktime_get_ns` has it.
fn monotonic_ns() -> i64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread, with what the kernel does in its name; time without a CPU is not in it.
pub fn thread_cpu() -> Duration {
    Duration::from_nanos(read_ns(libc::CLOCK_THREAD_CPUTIME_ID).try_into().unwrap_or(0))
}

#[allow(clippy::unnecessary_cast, reason = "the parts have 32 bits on some machines")]
fn read_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that outlives the call, which writes nothing else.
    let status = unsafe { libc::clock_gettime(clock, &mut now) };
    debug_assert_eq!(status, 0, "every Linux has this clock");
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_machine_wakes_up_at_the_right_time() {
        let mut clock = MonotonicClock { offset_ns: 1_000_000_000 };
        assert!(!clock.step_to(MonotonicClock { offset_ns: 1_000_000_900 }), "an error of the measurement");
        assert_eq!(clock.unix_ns(5), 1_000_000_005);
        assert!(clock.step_to(MonotonicClock { offset_ns: 61_000_000_000 }), "a minute of sleep");
        assert_eq!(clock.unix_ns(5), 61_000_000_005);
        assert!(!clock.follow() || !clock.follow(), "the second look sees what the first one saw");
    }

    #[test]
    fn now_is_now() {
        let clock = MonotonicClock::measure();
        let unix = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let (before, now, after) = (unix(), clock.now_ns(), unix());
        let slack = 1_000_000; // the wall clock may be slewed between the two
        assert!(before - slack <= now && now <= after + slack, "{before} {now} {after}");
    }
}
