//! What a view asks of a history, and which width of intervals answers it.

use crate::Malformed;
use crate::varint::{Payload, put, put_signed};
use std::collections::{BTreeMap, BTreeSet};

/// So many intervals are enough where the view does not ask for a width.
const ENOUGH: i64 = 4000;

/// What a view asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query {
    /// Intervals that end after this, nanoseconds since the epoch.
    pub from_ns: i64,
    /// Intervals that start no later than this.
    pub to_ns: i64,
    /// The width of intervals that the view shows, nanoseconds.
    pub width_ns: Option<u64>,
    /// Whether hosts are apart.
    pub by_host: bool,
    /// Whether to go on with what comes.
    pub follow: bool,
}

impl Default for Query {
    fn default() -> Query {
        Query { from_ns: i64::MIN, to_ns: i64::MAX, width_ns: None, by_host: false, follow: false }
    }
}

/// The bits of the first byte.
const BY_HOST: u8 = 1;
const SPAN: u8 = 2;
const FOLLOW: u8 = 4;

impl Query {
    /// Whether it asks for a stretch of time.
    pub fn has_span(&self) -> bool {
        self.from_ns > i64::MIN || self.to_ns < i64::MAX
    }

    /// As the payload of a record.
    pub fn payload(&self) -> Vec<u8> {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let mut out = vec![bit(self.by_host, BY_HOST) | bit(self.has_span(), SPAN) | bit(self.follow, FOLLOW)];
        if self.has_span() {
            put_signed(&mut out, self.from_ns);
            put_signed(&mut out, self.to_ns);
            put(&mut out, self.width_ns.unwrap_or(0));
        }
        out
    }

    /// Of the payload of a record.
    ///
    /// # Errors
    /// When it is malformed, or asks for something that is not known here.
    pub fn parse(payload: &[u8]) -> Result<Query, Malformed> {
        let (&bits, rest) = payload.split_first().ok_or(Malformed::Short)?;
        if bits & !(BY_HOST | SPAN | FOLLOW) != 0 {
            return Err(Malformed::UnknownPart);
        }
        let mut query = Query { by_host: bits & BY_HOST != 0, follow: bits & FOLLOW != 0, ..Query::default() };
        if bits & SPAN != 0 {
            let mut payload = Payload(rest);
            (query.from_ns, query.to_ns) = (payload.signed()?, payload.signed()?);
            query.width_ns = Some(payload.at_most(i64::MAX as u64 / 4)?).filter(|&width_ns| width_ns > 0);
        }
        Ok(query)
    }

    /// The width that answers it: of those that can be made of what each day has and of the journal's, the widest that makes up the
    /// asked one, else the finest; where none is asked for, the finest with which there are not too many intervals. No interval is
    /// asked for in part, where that can be had.
    pub fn level(
        &self,
        days: &BTreeMap<i64, BTreeSet<u64>>,
        journal: &BTreeSet<u64>,
        (from_ns, to_ns): (i64, i64),
    ) -> Option<u64> {
        let coarsest = days.values().filter_map(BTreeSet::last).chain(journal).copied();
        let common = coarsest.reduce(common_multiple)?;
        let mut widths: BTreeSet<u64> = days.values().flatten().chain(journal).copied().collect();
        widths.insert(common);
        let is_made = |width: u64| {
            days.values().all(|day| day.iter().any(|&part| width.is_multiple_of(part)))
                && journal.iter().all(|&part| width.is_multiple_of(part))
        };
        widths.retain(|&width| is_made(width));
        let is_whole = |width: &u64| {
            let starts = |ns: i64| ns.rem_euclid(*width as i64) == 0;
            (self.from_ns == i64::MIN || starts(self.from_ns))
                && (self.to_ns == i64::MAX || starts(self.to_ns) || starts(self.to_ns + 1))
        };
        if widths.iter().any(is_whole) {
            widths.retain(is_whole);
        }
        let fits = |&&width: &&u64| match self.width_ns {
            Some(asked) => asked.is_multiple_of(width),
            None => to_ns.saturating_sub(from_ns) / ENOUGH <= width as i64,
        };
        let found = match self.width_ns {
            Some(_) => widths.iter().rfind(fits).or(widths.first()),
            None => widths.iter().find(fits).or(widths.last()),
        };
        found.copied()
    }
}

fn common_multiple(one: u64, other: u64) -> u64 {
    let (mut a, mut b) = (one, other);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (one / a.max(1)).saturating_mul(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_widest_that_makes_up_the_asked_width_answers() {
        let all: BTreeSet<u64> = [1, 10, 60].map(|width| width * SECOND).into();
        let coarse: BTreeSet<u64> = [10, 60].map(|width| width * SECOND).into();
        let new = BTreeMap::from([(5, all.clone())]);
        let old = BTreeMap::from([(4, coarse), (5, all)]);
        let journal = BTreeSet::from([SECOND]);
        let day = (0, 86_400 * SECOND as i64);
        let level = |days: &_, asked: Option<u64>, span| {
            let query = Query { width_ns: asked.map(|width| width * SECOND), ..Query::default() };
            query.level(days, &journal, span).map(|width| width / SECOND)
        };
        for (asked, expected) in [(1, 1), (5, 1), (10, 10), (30, 10), (60, 60), (600, 60), (90, 10)] {
            assert_eq!(level(&new, Some(asked), day), Some(expected), "{asked}");
        }
        assert_eq!([1, 30, 120].map(|asked| level(&old, Some(asked), day)), [Some(10), Some(10), Some(60)]);
        assert_eq!(level(&new, None, day), Some(60));
        assert_eq!(level(&new, None, (0, 600 * SECOND as i64)), Some(1));
        let none = BTreeMap::new();
        assert_eq!(level(&none, None, day), Some(1));
        assert_eq!(Query::default().level(&none, &BTreeSet::new(), day), None);
        // What was sent with another width is put together in a common one.
        // A stretch of time that does not consist of whole minutes.
        let query = Query { from_ns: 30 * SECOND as i64, width_ns: Some(60 * SECOND), ..Query::default() };
        assert_eq!(query.level(&new, &journal, day), Some(10 * SECOND));
        let odd = BTreeMap::from([(4, BTreeSet::from([4 * SECOND])), (5, BTreeSet::from([6 * SECOND]))]);
        assert_eq!(level(&odd, Some(1), day), Some(12));
    }

    proptest! {
        #[test]
        fn questions_come_back(from: i64, to: i64, width in 0u64..i64::MAX as u64 / 4, by_host: bool, follow: bool) {
            let query = Query { from_ns: from, to_ns: to, width_ns: Some(width).filter(|&ns| ns > 0), by_host, follow };
            prop_assert_eq!(Query::parse(&query.payload()), Ok(query));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Query::parse(&bytes);
        }
    }
}
