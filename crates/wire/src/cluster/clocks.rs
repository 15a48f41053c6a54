//! Clocks of hosts against that of the hub, and what becomes of a hub's own clock that is set.

use super::{Cluster, Host};
use crate::clock::{ClockState, shift};
use crate::{Head, Id, Malformed, Record};

impl Cluster {
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
