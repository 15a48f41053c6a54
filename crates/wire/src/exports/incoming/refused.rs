//! Why something that was pushed is not taken, and how often.

use crate::Malformed;
use std::collections::BTreeMap;
use std::fmt;

/// Why something is not taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Refused {
    /// It is a number, or no latency.
    #[error("only histograms of latencies, durations and waiting requests are taken")]
    Other,
    /// It cannot be read.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// It is of an unknown unit.
    #[error("the unit is not s, ms, us or ns")]
    Unit,
    /// It is no difference and no running total.
    #[error("the temporality is neither delta nor cumulative")]
    Temporality,
    /// It has counts that are not whole numbers.
    #[error("counts are not whole numbers")]
    Fraction,
    /// Not all of its classic buckets are there, or they fall.
    #[error("the classic buckets are not complete and ascending")]
    Incomplete,
    /// It counts values that are no numbers, or fewer than its buckets.
    #[error("the count differs from the sum of the buckets")]
    Count,
    /// It counts more than a histogram may have.
    #[error("the count exceeds 2^48")]
    Large,
    /// It overlaps with one before, or is one that was sent before.
    #[error("the time of a difference overlaps with one that was sent before")]
    Overlap,
    /// It starts after its end.
    #[error("the start of its time is after the end")]
    Backwards,
    /// It is a gauge of what is no age.
    #[error("a gauge histogram is taken only if its name has `waiting`")]
    Gauge,
    /// There are too many series.
    #[error("there are more than 20,000 series")]
    Series,
    /// There are too many hosts.
    #[error("there are too many hosts")]
    Hosts,
    /// Its host has no name, or one that would disturb messages.
    #[error("the name of the host is empty or has characters that cannot be printed")]
    Name,
    /// The request is spread over too many intervals.
    #[error("the request has too many histograms, or is spread over too many intervals")]
    Amount,
    /// It is of the future.
    #[error("the time is more than two minutes ahead of the clock of the hub")]
    Ahead,
    /// It is older than what is kept.
    #[error("the time is before what the hub keeps")]
    Old,
    /// A part of its time is before what is kept; the rest is taken.
    #[error("a part of the time is before what the hub keeps; the rest was taken")]
    Cut,
}

/// How often something was not taken, by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reasons(BTreeMap<Refused, u64>);

impl Reasons {
    /// Adds one.
    pub fn add(&mut self, why: Refused, count: u64) {
        if count > 0 {
            *self.0.entry(why).or_insert(0) += count;
        }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Reasons) {
        other.0.iter().for_each(|(&why, &count)| self.add(why, count));
    }

    /// Leaves one out.
    pub fn remove(&mut self, why: Refused) {
        self.0.remove(&why);
    }

    /// How much was not taken.
    pub fn count(&self) -> u64 {
        self.0.iter().filter(|&(&why, _)| why != Refused::Cut).map(|(_, &count)| count).sum()
    }

    /// How much of that should have been taken.
    pub fn faults(&self) -> u64 {
        self.count() - self.0.get(&Refused::Other).unwrap_or(&0)
    }

    /// Without what is of another kind, which nobody expects to be taken.
    pub fn only_faults(&self) -> Reasons {
        let mut faults = self.clone();
        faults.remove(Refused::Other);
        faults
    }

    /// Whether nothing was refused.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (place, (why, count)) in self.0.iter().enumerate() {
            let separator = if place > 0 { "; " } else { "" };
            write!(f, "{separator}{count}: {why}")?;
        }
        Ok(())
    }
}
