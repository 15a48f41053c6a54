//! What a hub knows of its hosts beside their histograms.

use super::{Cluster, Host};
use crate::clock::ClockState;
use crate::messages::Id;
use crate::usage::Usage;
use latscope_event::Tally;

/// What is known of a host now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Whether its agent is connected.
    pub is_connected: bool,
    /// Whether it said that it ends.
    pub has_left: bool,
    /// Whether it is missing in the last closed interval.
    pub is_missing: bool,
    /// Its last interval.
    pub last: Option<i64>,
    /// How long after the end of that interval its record came, nanoseconds.
    pub lag_ns: Option<u64>,
    /// Its clock, as its agent measured last.
    pub clock: ClockState,
    /// How many bytes its queue has, and how many it may have.
    pub queue: Option<(u64, u64)>,
    /// What its agent takes itself.
    pub usage: Option<Usage>,
    /// What was lost on it since the start of the hub.
    pub lost: Tally,
    /// Whether it has no agent: others push its histograms.
    pub is_pushed: bool,
    /// When its certificate ends, nanoseconds since the epoch.
    pub certificate_end_ns: Option<i64>,
}

/// What a hub counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Records of histograms that count.
    pub records: u64,
    /// Those that were known already.
    pub duplicates: u64,
    /// Those that were refused as malformed.
    pub malformed: u64,
    /// Connections of peers that did not prove who they are.
    pub strangers: u64,
    /// Agents that were refused: their name is taken, or their intervals do not fit.
    pub agents: u64,
    /// Tables that were removed before their time, as the disk was nearly full.
    pub removed: u64,
}

impl Cluster {
    /// What is known of the hosts.
    pub fn facts(&self, now_ns: i64) -> Vec<HostFacts> {
        let (_, missing) = self.present(now_ns);
        let facts = |(number, host): (u32, &Host)| HostFacts {
            name: host.name.clone(),
            is_connected: host.connected.is_some(),
            has_left: host.has_left,
            is_missing: missing.contains(&number),
            last: host.intervals.map(|(_, last)| last),
            lag_ns: host.lag_ns,
            clock: host.clock,
            queue: host.queue,
            usage: host.usage,
            lost: host.lost.clone(),
            is_pushed: host.is_pushed,
            certificate_end_ns: host.certificate_end_ns,
        };
        (0..).zip(&self.hosts).map(facts).collect()
    }

    /// What the agent of a run says of its queue (bytes, and how many there may be) and of itself.
    pub fn set_queue(&mut self, run: Id, queue: Option<(u64, u64)>, usage: Option<Usage>) {
        if let Some(host) = self.host_of(run) {
            (host.queue, host.usage) = (queue, usage);
        }
    }

    /// When the certificate of an agent ends, nanoseconds since the epoch.
    pub fn set_certificate_end(&mut self, run: Id, end_ns: Option<i64>) {
        if let Some(host) = self.host_of(run) {
            host.certificate_end_ns = end_ns;
        }
    }

    pub(super) fn host_of(&mut self, run: Id) -> Option<&mut Host> {
        self.runs.get(&run).and_then(|run| self.hosts.get_mut(run.host as usize))
    }
}
