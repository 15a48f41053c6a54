//! What a hub has of single intervals, for those who ask by HTTP.

use super::slice::Sum;
use super::{Cluster, Host};
use crate::closed::Groups;
use crate::reduce;
use latscope_event::Severity;
use latscope_histogram::Sparse;
use std::collections::BTreeMap;

/// An interval as it is known now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntervalState {
    /// It starts at this many widths since the epoch.
    pub interval: i64,
    /// Whether nobody is waited for any more.
    pub is_closed: bool,
    /// How many times it changed after it was closed.
    pub revision: u32,
    /// How many hosts sent it.
    pub hosts: usize,
    /// The hosts that were expected and did not.
    pub missing: Vec<String>,
    /// Events that the captures lost.
    pub lost: u64,
    /// Latencies of what completed.
    pub done: Groups,
}

impl Cluster {
    /// The intervals from this one on and before that one, at most so many, each with what is asked for: its groups, or only its state.
    pub fn states(&self, start: i64, end: i64, most: usize, with_groups: bool) -> Vec<IntervalState> {
        if start >= end {
            return Vec::new();
        }
        let state = |(&interval, slice): (&i64, &super::slice::Slice)| {
            let lost = slice.tally.iter().filter(|(anomaly, _)| anomaly.severity() == Severity::Lost);
            let done = slice.groups.iter().filter(|_| with_groups).map(|(&group, sum)| {
                let sum = match sum {
                    Sum::Open(sum) => sum.to_sparse(),
                    Sum::Closed(sum) => sum.clone(),
                };
                (self.label(group), sum)
            });
            IntervalState {
                interval,
                is_closed: slice.is_closed,
                revision: slice.revision,
                hosts: slice.hosts.len(),
                missing: self.missing(interval).iter().map(|&host| self.hosts[host as usize].name.clone()).collect(),
                lost: lost.map(|(_, count)| count).sum(),
                done: done.collect(),
            }
        };
        self.slices.range(start..end).take(most).map(state).collect()
    }

    /// The last interval, and the last one that is closed.
    pub fn latest(&self) -> (Option<i64>, Option<i64>) {
        let closed = self.slices.iter().rev().find(|(_, slice)| slice.is_closed);
        (self.slices.last_key_value().map(|(&interval, _)| interval), closed.map(|(&interval, _)| interval))
    }

    /// Ages of what waits now, of the hosts that are there.
    pub fn waiting_now(&self, now_ns: i64) -> Groups {
        let latest = self.last_over(now_ns);
        let is_there = |host: &&Host| self.is_heard(host, latest);
        let mut waiting = BTreeMap::<u32, Option<Sparse>>::new();
        for (group, ages) in self.hosts.iter().filter(is_there).flat_map(|host| &host.waiting) {
            reduce::merge(waiting.entry(*group).or_default(), Some(ages.clone()));
        }
        waiting.into_iter().filter_map(|(group, ages)| Some((self.label(group), ages?))).collect()
    }

    /// The labels of all groups.
    pub fn labels(&self) -> Vec<Vec<String>> {
        self.labels.iter().map(|labels| labels.to_vec()).collect()
    }
}
