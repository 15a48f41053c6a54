//! Which sequence numbers of a run are known.

use std::ops::RangeInclusive;

/// Most gaps between the numbers of a run.
const MOST: usize = 10_000;

/// Numbers as ascending ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds numbers, of which some may be known. False, and nothing is added, where that makes more ranges than are kept.
    pub fn add(&mut self, range: RangeInclusive<u64>) -> bool {
        let (mut start, mut end) = range.into_inner();
        let from = self.0.partition_point(|&(_, last)| last.saturating_add(1) < start);
        let to = self.0.partition_point(|&(first, _)| first <= end.saturating_add(1));
        if from == to && self.0.len() >= MOST {
            return false;
        }
        if from < to {
            (start, end) = (start.min(self.0[from].0), end.max(self.0[to - 1].1));
        }
        self.0.splice(from..to, [(start, end)]);
        true
    }

    /// Whether all of these are known.
    pub fn has_all(&self, range: &RangeInclusive<u64>) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < *range.start());
        self.0.get(at).is_some_and(|&(first, last)| first <= *range.start() && *range.end() <= last)
    }

    /// Whether any of these is known.
    pub fn has_any(&self, range: &RangeInclusive<u64>) -> bool {
        let at = self.0.partition_point(|&(_, last)| last < *range.start());
        self.0.get(at).is_some_and(|&(first, _)| first <= *range.end())
    }

    /// What of these is known, ascending.
    pub fn common(&self, range: &RangeInclusive<u64>) -> impl Iterator<Item = RangeInclusive<u64>> + use<'_> {
        let (start, end) = (*range.start(), *range.end());
        let from = self.0.partition_point(|&(_, last)| last < start);
        let known = self.0[from..].iter().take_while(move |&&(first, _)| first <= end);
        known.map(move |&(first, last)| first.max(start)..=last.min(end))
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u64>> + '_ {
        self.0.iter().map(|&(first, last)| first..=last)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<RangeInclusive<u64>> for Ranges {
    fn from_iter<T: IntoIterator<Item = RangeInclusive<u64>>>(ranges: T) -> Ranges {
        let mut all = Ranges::default();
        for range in ranges {
            all.add(range);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_a_set(parts in proptest::collection::vec((0u64..60, 0u64..5), 0..30), asked in (0u64..60, 0u64..5)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, more) in parts {
                prop_assert!(ranges.add(start..=start + more));
                set.extend(start..=start + more);
            }
            let asked = asked.0..=asked.0 + asked.1;
            prop_assert_eq!(ranges.has_all(&asked), asked.clone().all(|number| set.contains(&number)));
            prop_assert_eq!(ranges.has_any(&asked), asked.clone().any(|number| set.contains(&number)));
            let common: Vec<u64> = ranges.common(&asked).flatten().collect();
            prop_assert_eq!(common, set.iter().copied().filter(|number| asked.contains(number)).collect::<Vec<_>>());
            prop_assert_eq!(ranges.iter().flatten().collect::<Vec<_>>(), set.into_iter().collect::<Vec<_>>());
            prop_assert!(ranges.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
