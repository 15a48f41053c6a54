//! When requests are made.

/// What some virtual machines need to wake up a CPU, and as much again.
const AWAKE_NS: f64 = 100_000.0;

/// When requests are made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// From one request (or burst) to the next, nanoseconds; 0: as fast as possible.
    pub interval_ns: f64,
    /// So many requests back to back in every interval; 0 is 1.
    pub burst: u64,
    /// The schedule does not wait for the target: a late request is made at once, and the time that it waited for earlier
    /// requests is part of its latency. Else (closed loop) one late request shifts all that follow.
    pub open: bool,
}

impl Pace {
    /// A closed loop with this interval and burst.
    pub fn closed(interval_ns: u64, burst: u64) -> Pace {
        Pace { interval_ns: interval_ns as f64, burst, open: false }
    }

    /// An open loop of so many requests per second.
    pub fn open(rate: f64) -> Pace {
        Pace { interval_ns: 1e9 / rate, burst: 0, open: true }
    }

    /// How long before a request of an open loop a probe had better be awake, nanoseconds: a CPU that slept is late by tens of
    /// microseconds, and its caches are cold. At most a tenth of the time, so that the CPU is left to
    /// others.
    pub fn awake_ns(self) -> u64 {
        if self.open { (self.interval_ns / 10.0).min(AWAKE_NS) as u64 } else { 0 }
    }

    /// The share of thread `at` of `threads`, and when it starts: together they keep the pace, evenly.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn share(self, at: u32, threads: u32) -> Due {
        let mut due = Due::new(Pace { interval_ns: self.interval_ns * f64::from(threads), ..self });
        due.first_ns = self.interval_ns * f64::from(at);
        due.next_ns = due.first_ns as u64;
        due
    }
}

/// Follows a [`Pace`] from request to request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Due {
    pace: Pace,
    first_ns: f64,
    next_ns: u64,
    started: u64,
    /// The interval as a whole number, for every request of a closed loop.
    step_ns: u64,
}

impl Due {
    /// At the start.
    pub fn new(pace: Pace) -> Due {
        Due { pace, first_ns: 0.0, next_ns: 0, started: 0, step_ns: pace.interval_ns as u64 }
    }

    /// When the next request is due, nanoseconds since the start.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// When request `number` (from 0) of an open loop is due.
    pub(crate) fn of_ns(&self, number: u64) -> u64 {
        // From the number of the request, so that rounding does not add up.
        (self.first_ns + number as f64 * self.pace.interval_ns) as u64
    }

    /// How many requests of an open loop are due before `ns`.
    pub(crate) fn before(&self, ns: u64) -> u64 {
        ((ns as f64 - self.first_ns) / self.pace.interval_ns).ceil().max(0.0) as u64
    }

    /// Whether a burst is over, so that the interval is waited for.
    pub fn ends_burst(&self) -> bool {
        self.pace.burst > 0 && self.started.is_multiple_of(self.pace.burst)
    }

    /// One request was made, and it is `now_ns` (in a closed loop: it is done).
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        self.started += 1;
        if self.pace.open {
            self.next_ns = self.of_ns(self.started);
        } else if self.pace.burst > 1 && !self.started.is_multiple_of(self.pace.burst) {
            // The interval runs from the first of a burst, so the others leave the schedule alone.
        } else {
            self.next_ns = (self.next_ns + self.step_ns).max(now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_loop_is_shifted_by_a_stall() {
        let mut due = Due::new(Pace::closed(100, 0));
        due.advance(30);
        assert_eq!(due.next_ns(), 100);
        due.advance(450);
        assert_eq!(due.next_ns(), 450, "what was missed is not made up for");
        due.advance(460);
        assert_eq!(due.next_ns(), 550);
    }

    #[test]
    fn an_open_loop_is_not() {
        let mut due = Due::new(Pace::open(3.0));
        let mut starts = vec![due.next_ns()];
        for now in [0, 5_000_000_000, 5_000_000_000, 5_000_000_000] {
            due.advance(now);
            starts.push(due.next_ns());
        }
        assert_eq!(starts, [0, 333_333_333, 666_666_666, 1_000_000_000, 1_333_333_333]);
    }

    #[test]
    fn an_open_loop_is_awake_in_time() {
        let awake = [Pace::open(100.0), Pace::open(1000.0), Pace::open(10_000.0), Pace::closed(1_000_000, 0)];
        assert_eq!(awake.map(Pace::awake_ns), [100_000, 100_000, 10_000, 0]);
    }

    #[test]
    fn threads_share_a_pace_evenly() {
        let mut all: Vec<u64> = Vec::new();
        for thread in 0..4 {
            let mut due = Pace::open(1000.0).share(thread, 4);
            for _ in 0..5 {
                all.push(due.next_ns());
                due.advance(0);
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..20).map(|at| at * 1_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn a_burst_is_back_to_back() {
        let mut due = Due::new(Pace::closed(100, 3));
        let mut starts = Vec::new();
        for now in [10, 20, 30, 110, 120, 130] {
            starts.push((due.next_ns(), due.ends_burst()));
            due.advance(now);
        }
        assert_eq!(starts, [(0, true), (0, false), (0, false), (100, true), (100, false), (100, false)]);
    }
}
