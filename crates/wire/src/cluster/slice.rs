//! One interval, merged over hosts.

use crate::{IntervalRow, Parts};
use latscope_event::Tally;
use latscope_histogram::{Histogram, Sparse};
use std::collections::BTreeMap;

/// One interval, merged over hosts.
#[derive(Default)]
pub struct Slice {
    pub groups: BTreeMap<u32, Sum>,
    /// Ages of what waited at its end.
    pub waiting: BTreeMap<u32, Sparse>,
    /// Numbers of the hosts that it has, ascending.
    pub hosts: Vec<u32>,
    pub tally: Tally,
    pub covered_ns: u64,
    pub is_closed: bool,
    pub revision: u32,
    pub bytes: usize,
}

/// A histogram, in the form in which it can be added to quickly, or that takes little room.
pub enum Sum {
    Open(Box<Histogram>),
    Closed(Sparse),
}

impl Slice {
    pub fn add(&mut self, group: u32, done: Sparse) {
        match self.groups.get_mut(&group) {
            Some(Sum::Open(sum)) => sum.add(&done),
            Some(Sum::Closed(sum)) => sum.merge(&done),
            None if self.is_closed => drop(self.groups.insert(group, Sum::Closed(done))),
            None => drop(self.groups.insert(group, Sum::Open(Box::new(done.to_dense())))),
        }
    }

    pub fn close(&mut self) {
        self.is_closed = true;
        for sum in self.groups.values_mut() {
            if let Sum::Open(open) = sum {
                *sum = Sum::Closed(open.to_sparse());
            }
        }
        self.measure();
    }

    /// About how much memory it takes.
    pub fn measure(&mut self) {
        let cells = |sum: &Sum| match sum {
            Sum::Closed(sum) => sum.indices().len(),
            Sum::Open(_) => 0,
        };
        let waiting = self.waiting.values().map(|ages| 150 + 13 * ages.indices().len());
        self.bytes = 200 + self.groups.values().map(|sum| 150 + 13 * cells(sum)).chain(waiting).sum::<usize>();
    }

    pub fn row(&self, width_ns: u64) -> IntervalRow {
        let done = |sum: &Sum| match sum {
            Sum::Open(sum) => sum.to_sparse(),
            Sum::Closed(sum) => sum.clone(),
        };
        let part = |(&group, sum)| (group, Parts { done: Some(done(sum)), waiting: None });
        let mut groups: BTreeMap<u32, Parts> = self.groups.iter().map(part).collect();
        let waiting = self.waiting.iter().map(|(&group, ages)| (group, ages.clone()));
        waiting.for_each(|(group, ages)| groups.entry(group).or_default().waiting = Some(ages));
        IntervalRow {
            covered_ns: self.covered_ns,
            is_partial: self.covered_ns < width_ns,
            tally: self.tally.clone(),
            groups: groups.into_iter().collect(),
        }
    }
}
