//! Putting series together and looking at them more coarsely; nothing is lost on the way.

use crate::{CountBy, HistogramSeries, SHARES, Slice, Weight};
use latscope_histogram::Grid;

/// Series that cannot be put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MergeError {
    /// Of different quantities or weights.
    #[error("the series have different quantities or weights")]
    Kind,
    /// One by completion and the other by overlap.
    #[error("one series counts events by completion, the other by overlap")]
    CountBy,
    /// Events beyond what can be counted in parts.
    #[error("the fractional counts exceed 64 bits")]
    Events,
    /// Grouped by different fields.
    #[error("the series are grouped by different fields")]
    Groups,
    /// Neither width is a whole multiple of the other.
    #[error("the interval of one series ({0} ns) is not a whole multiple of the other's ({1} ns)")]
    Width(u64, u64),
}

impl HistogramSeries {
    /// Adds another series and what waits in it. The wider intervals and the coarser grid of the two win.
    ///
    /// # Errors
    /// When quantity, weight or group fields differ, or the widths do not divide each other.
    pub fn merge(&mut self, other: &HistogramSeries) -> Result<(), MergeError> {
        if (self.quantity, self.weight) != (other.quantity, other.weight) {
            return Err(MergeError::Kind);
        }
        if self.count_by != other.count_by {
            if self.count_by == CountBy::Overlap || other.count_by == CountBy::Overlap {
                return Err(MergeError::CountBy);
            }
            // Those that are counted whole become many parts each.
            self.count_parts()?;
            let mut other = other.clone();
            other.count_parts()?;
            return self.merge(&other);
        }
        if self.is_merged() || other.is_merged() {
            return Err(MergeError::Width(self.width_ns, other.width_ns));
        }
        if self.by != other.by {
            return Err(MergeError::Groups);
        }
        let width_ns = self.width_ns.max(other.width_ns);
        let mut other = other.rebinned(width_ns).ok_or(MergeError::Width(self.width_ns, other.width_ns))?;
        // A long series to which a short one is added again and again is not copied each time.
        if width_ns != self.width_ns {
            *self = self.rebinned(width_ns).ok_or(MergeError::Width(self.width_ns, other.width_ns))?;
        }
        let grid = self.grid.min(other.grid);
        self.fold(grid);
        other.fold(grid);
        let number = |label: &Vec<String>| match self.groups.iter().position(|known| known == label) {
            Some(number) => number as u32,
            None => {
                self.groups.push(label.clone());
                self.groups.len() as u32 - 1
            }
        };
        let numbers: Vec<u32> = other.groups.iter().map(number).collect();
        self.take_in(other, &numbers);
        Ok(())
    }

    /// Counts in parts what was counted whole.
    fn count_parts(&mut self) -> Result<(), MergeError> {
        if self.count_by == CountBy::Completion {
            self.count_by = CountBy::CompletionInParts;
            self.waits.count_parts();
            for (_, sparse) in self.slices.values_mut().flat_map(|slice| &mut slice.groups) {
                *sparse = sparse.times(SHARES).ok_or(MergeError::Events)?;
            }
        }
        Ok(())
    }

    /// Adds the histograms of a series of the same width and grid, whose groups have these numbers here.
    pub(crate) fn take_in(&mut self, other: HistogramSeries, numbers: &[u32]) {
        self.squares = None;
        for (interval, slice) in other.slices {
            let target = self.slices.entry(interval).or_default();
            target.add_sums(&slice);
            slice.groups.into_iter().for_each(|(group, sparse)| target.add(numbers[group as usize], sparse));
        }
        for (interval, hosts) in other.repeated {
            self.repeated.entry(interval).or_default().extend(hosts);
        }
        self.flow.merge(&other.flow);
        self.take_in_waits(other.waits, numbers);
    }

    /// Gives every group the number that stands at its old one.
    pub(crate) fn renumber(&mut self, numbers: &[u32]) {
        for slice in self.slices.values_mut() {
            slice.groups.iter_mut().for_each(|(group, _)| *group = numbers[*group as usize]);
            slice.groups.sort_unstable_by_key(|&(group, _)| group);
        }
        self.waits.regroup(numbers);
    }

    /// Gives every group the number that stands at its old one; groups of one number become one.
    pub(crate) fn regroup(&mut self, numbers: &[u32]) {
        for slice in self.slices.values_mut() {
            let mut merged = Slice::default();
            let mut groups = std::mem::take(&mut slice.groups);
            groups.iter_mut().for_each(|(group, _)| *group = numbers[*group as usize]);
            groups.sort_by_key(|&(group, _)| group);
            groups.into_iter().for_each(|(group, sparse)| merged.add(group, sparse));
            slice.groups = merged.groups;
        }
        self.waits.regroup(numbers);
    }

    /// The same events in wider intervals; `None` when the width is no whole multiple of the present one.
    pub fn rebinned(&self, width_ns: u64) -> Option<HistogramSeries> {
        if width_ns == 0 || self.is_merged() || !width_ns.is_multiple_of(self.width_ns) {
            return None;
        }
        let mut wide = self.clone();
        wide.widen(width_ns / self.width_ns);
        Some(wide)
    }

    /// Drops the intervals before this one.
    pub fn forget_before(&mut self, interval: i64) {
        self.slices = self.slices.split_off(&interval);
    }

    /// Non-empty buckets of all histograms, which is what its memory is made of.
    pub fn buckets(&self) -> usize {
        self.slices.values().flat_map(|slice| &slice.groups).map(|(_, sparse)| sparse.indices().len()).sum()
    }

    /// The same events without groups.
    #[must_use]
    pub fn ungrouped(&self) -> HistogramSeries {
        let mut one = self.clone();
        one.by.clear();
        one.squares = None;
        one.others = None;
        one.waits.regroup(&vec![0; one.groups.len()]);
        one.groups = vec![Vec::new()];
        for (interval, slice) in &mut one.slices {
            slice.groups.clear();
            let sum = self.at(*interval, None);
            if sum.totals().count > 0 {
                slice.groups.push((0, sum.to_sparse()));
            }
        }
        one
    }

    /// The same groups without the fields of which none has a value.
    #[must_use]
    pub fn without_missing(mut self) -> HistogramSeries {
        for at in (0..self.by.len()).rev() {
            if self.groups.iter().all(|group| group[at] == HistogramSeries::NO_VALUE) {
                self.by.remove(at);
                self.groups.iter_mut().for_each(|group| drop(group.remove(at)));
            }
        }
        self
    }

    /// Whether the histograms carry weights beside their counts.
    pub fn is_weighted(&self) -> bool {
        self.weight != Weight::Count
    }

    /// Folds all histograms onto a coarser grid.
    pub(crate) fn fold(&mut self, grid: Grid) {
        if grid < self.grid {
            self.grid = grid;
            for (_, sparse) in self.slices.values_mut().flat_map(|slice| &mut slice.groups) {
                *sparse = sparse.folded(grid);
            }
        }
    }
}
