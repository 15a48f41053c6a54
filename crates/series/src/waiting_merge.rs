//! What waits in series that are put together, looked at more coarsely or grouped anew: as if what they hold had been read at once.

use crate::waiting::{Held, Waits};
use crate::{CountBy, HistogramSeries, SHARES};
use std::collections::BTreeMap;

impl HistogramSeries {
    /// Adds what waits in a series of the same width, whose histograms were taken in already and whose groups have these numbers here.
    pub(crate) fn take_in_waits(&mut self, mut other: Waits, numbers: &[u32]) {
        other.regroup(numbers);
        // Ages stand for all that waits in an interval and group, but not for what waits in the other series.
        let hidden = self.behind_ages(&self.waits, &other.ages);
        let hidden_of_other = self.behind_ages(&other, &self.waits.ages);
        for (interval, group, held) in hidden.into_iter().chain(hidden_of_other) {
            self.waits.within.entry(interval).or_default().entry(group).or_default().push(held);
        }
        let waits = &mut self.waits;
        waits.add_begun(other.begun);
        for (interval, groups) in other.within {
            let mine = waits.within.entry(interval).or_default();
            groups.into_iter().for_each(|(group, held)| mine.entry(group).or_default().extend(held));
        }
        for (interval, groups) in other.ages {
            let mine = waits.ages.entry(interval).or_default();
            for (group, ages) in groups {
                mine.entry(group).and_modify(|sum| sum.merge(&ages)).or_insert(ages);
            }
        }
        other.once.into_iter().for_each(|(group, held)| waits.once.entry(group).or_default().extend(held));
        waits.throughout.extend(other.throughout);
        let (throughout, range) = (std::mem::take(&mut self.waits.throughout), self.range());
        self.know_throughout(&throughout, range);
        self.waits.throughout = throughout;
    }

    /// What waits throughout where only the other series has ages.
    fn behind_ages(
        &self,
        waits: &Waits,
        ages: &BTreeMap<i64, BTreeMap<u32, latscope_histogram::Sparse>>,
    ) -> Vec<(i64, u32, Held)> {
        let mut hidden = Vec::new();
        for (&interval, groups) in ages {
            let own = waits.ages.get(&interval);
            for (group, waiter) in &waits.throughout {
                if groups.contains_key(group) && own.is_none_or(|own| !own.contains_key(group)) {
                    hidden.extend(self.held_in(interval, waiter).map(|held| (interval, *group, held)));
                }
            }
        }
        hidden
    }

    /// What waits when the intervals become so many times as wide, before they do: it waits at the end of the wide interval, or of the last that there is.
    pub(crate) fn widen_waits(&mut self, factor: i64) {
        let is_last = |interval: i64| {
            let wide = interval.div_euclid(factor);
            self.slices.range(interval + 1..).next().is_none_or(|(next, _)| next.div_euclid(factor) != wide)
        };
        let is_by_share = self.count_by == CountBy::Overlap;
        let mut within = BTreeMap::<i64, BTreeMap<u32, Vec<Held>>>::new();
        for (interval, groups) in std::mem::take(&mut self.waits.within) {
            // By share, parts add up.
            if is_by_share || is_last(interval) {
                let wide = within.entry(interval.div_euclid(factor)).or_default();
                groups.into_iter().for_each(|(group, held)| wide.entry(group).or_default().extend(held));
            }
        }
        self.waits.within = within;
        self.waits.ages = std::mem::take(&mut self.waits.ages)
            .into_iter()
            .filter(|(interval, _)| (interval + 1).rem_euclid(factor) == 0)
            .map(|(interval, groups)| (interval.div_euclid(factor), groups))
            .collect();
    }
}

impl Waits {
    /// Gives every group the number that stands at its old one; groups of one number become one.
    pub(crate) fn regroup(&mut self, numbers: &[u32]) {
        let number = |group: u32| numbers.get(group as usize).copied().unwrap_or(group);
        for groups in self.within.values_mut().chain([&mut self.once]) {
            for (group, mut held) in std::mem::take(groups) {
                groups.entry(number(group)).or_default().append(&mut held);
            }
        }
        for groups in self.ages.values_mut() {
            for (group, ages) in std::mem::take(groups) {
                groups.entry(number(group)).and_modify(|sum| sum.merge(&ages)).or_insert(ages);
            }
        }
        self.throughout.iter_mut().for_each(|(group, _)| *group = number(*group));
    }

    /// Counts in parts what was counted whole.
    pub(crate) fn count_parts(&mut self) {
        let held = self.within.values_mut().chain([&mut self.once]).flat_map(BTreeMap::values_mut).flatten();
        held.for_each(|held| held.count = held.count.saturating_mul(SHARES));
    }
}

#[cfg(test)]
#[path = "waiting_merge_tests.rs"]
mod tests;
