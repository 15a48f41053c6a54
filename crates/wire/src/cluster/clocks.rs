//! Clocks of hosts against that of the hub, and what becomes of a hub's own clock that is set.

use super::{Cluster, Host};
use crate::clock::{ClockState, shift};
use crate::{Head, Id, Malformed, Record};

/// A host whose last interval is so far behind, and so many nanoseconds, has nothing that waits, as far as is known.
const BEHIND: i64 = 5;
const BEHIND_NS: i64 = 5_000_000_000;
/// Seconds that a clock repeats or leaves out stay as they are if there are no more, nanoseconds: a leap second, say.
const LEAP_NS: u64 = 2_000_000_000;

impl Cluster {
    /// The clock of the hub was set forward by this time, nanoseconds, to what it is now: hosts are as far from it as they were from what
    /// it was, and what lies ahead from now on is in the journal only, so that these intervals can come again.
    pub fn step_clock(&mut self, step_ns: i64, now_ns: i64) {
        let width = (self.width_ns() as i64).max(1);
        for host in &mut self.hosts {
            let Some((offset_ns, error_ns)) = host.clock.offset else { continue };
            let offset = (offset_ns.saturating_add(step_ns), error_ns);
            (host.clock.offset, host.shift) = (Some(offset), shift(host.shift, offset, width.unsigned_abs()));
            host.is_clock_outdated = host.connected.is_some();
        }
        if step_ns.unsigned_abs() <= LEAP_NS.max(2 * width.unsigned_abs()) {
            return;
        }
        let (by, next) = (step_ns.div_euclid(width), now_ns.div_euclid(width));
        let ahead: Vec<i64> = self.slices.range(next..).map(|(&interval, _)| interval).collect();
        for &interval in &ahead {
            // What is counted stays counted.
            self.close_slice(interval);
            let Some(slice) = self.slices.remove(&interval) else { continue };
            self.bytes -= slice.bytes;
            self.outside += slice.hosts.len() as u64;
            self.complete_ns = self.complete_ns.max((interval + 1).saturating_mul(width));
        }
        for host in &mut self.hosts {
            host.heard_ns = host.heard_ns.saturating_add(step_ns);
            host.intervals = host.intervals.map(|(first, last)| (first.min(last + by), last + by));
            host.ended = host.ended.map(|ended| ended + by);
            host.recent.retain(|recent| recent.start_ns < now_ns);
            host.recent_bytes = host.recent.iter().map(|recent| recent.record.bytes().len()).sum();
        }
        if let Some(news) = &mut self.news {
            news.step_clock(step_ns, next);
        }
    }

    /// The last interval of which no more is waited for. When no agent is there any more, it goes by the time.
    pub(super) fn last_over(&self, now_ns: i64) -> i64 {
        let closed = self.slices.iter().rev().find(|(_, slice)| slice.is_closed).map_or(i64::MIN, |(&last, _)| last);
        let mut awaited =
            self.hosts.iter().filter(|host| host.intervals.is_some() && !host.has_left && !host.is_pushed).peekable();
        if awaited.peek().is_none() || awaited.any(|host| host.connected.is_some()) {
            return closed;
        }
        let width = (self.width_ns() as i64).max(1);
        closed.max(now_ns.saturating_sub_unsigned(self.grace_ns()).div_euclid(width) - 1)
    }

    /// How many hosts are in that interval, and which are missing there.
    pub(super) fn present(&self, now_ns: i64) -> (u64, Vec<u32>) {
        let latest = self.last_over(now_ns);
        (self.slices.get(&latest).map_or(0, |slice| slice.hosts.len() as u64), self.missing(latest))
    }

    /// Whether what a host has last was heard of so lately that it is so still.
    pub(super) fn is_heard(&self, host: &Host, latest: i64) -> bool {
        let behind = BEHIND.max(BEHIND_NS / (self.width_ns() as i64).max(1));
        host.intervals.is_some_and(|(_, last)| last >= latest.saturating_sub(behind))
    }

    /// What a run says of its clock; its host, and how far it is from the hub's, where that matters and did not before, or the other way
    /// round.
    pub fn set_clock(&mut self, run: Id, clock: ClockState) -> Option<(String, i64)> {
        let width_ns = self.width_ns();
        let host = self.host_of(run)?;
        // Compared with the clock of the hub before it was set.
        if std::mem::take(&mut host.is_clock_outdated) {
            return None;
        }
        let before = host.clock.offset;
        // A new connection has compared nothing yet.
        host.clock = ClockState { offset: clock.offset.or(before), ..clock };
        let now = clock.offset?;
        host.shift = shift(host.shift, now, width_ns);
        let is_far = |offset_ns: i64| offset_ns.unsigned_abs() > width_ns / 10;
        let was_far = before.is_some_and(|(offset_ns, _)| is_far(offset_ns));
        (is_far(now.0) != was_far).then(|| (host.name.clone(), if was_far { 0 } else { now.0 }))
    }

    /// A record that the host of a run sends, where it happened by the clock of the hub.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn place(&self, run: Id, record: Record) -> Result<Record, Malformed> {
        match self.runs.get(&run).and_then(|run| self.hosts.get(run.host as usize)).map_or(0, |host| host.shift) {
            0 => Ok(record),
            intervals => Head::moved(&record, intervals),
        }
    }

    /// An interval is closed so long after its end though hosts are missing, nanoseconds: longer where it ends later by the clock of a
    /// host that is connected.
    pub(super) fn grace_ns(&self) -> u64 {
        let width_ns = self.width_ns();
        let late_ns = |host: &Host| {
            let (offset_ns, _) = host.clock.offset.filter(|_| host.connected.is_some())?;
            u64::try_from(offset_ns.saturating_sub(host.shift.saturating_mul(width_ns as i64))).ok()
        };
        self.limits.grace_ns.saturating_add(self.hosts.iter().filter_map(late_ns).max().unwrap_or(0).min(width_ns))
    }
}
