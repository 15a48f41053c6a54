//! What waited at the ends of stored intervals, of which only the ages are known.

use latscope_histogram::Sparse;
use latscope_series::HistogramSeries;
use std::collections::BTreeMap;

/// Ages by moment (nanoseconds on the trace's clock) and group.
#[derive(Default)]
pub(crate) struct Ages(BTreeMap<(i64, Vec<String>), Sparse>);

impl Ages {
    /// Adds those of a group at a moment.
    pub fn add(&mut self, end_ns: i64, group: &[String], ages: &Sparse) {
        let key = (end_ns, group.to_vec());
        match self.0.get_mut(&key) {
            Some(sum) => sum.merge(ages),
            None => drop(self.0.insert(key, ages.clone())),
        }
    }

    /// Takes over those of another file.
    pub fn merge(&mut self, other: Ages) {
        other.0.iter().for_each(|((end_ns, group), ages)| self.add(*end_ns, group, ages));
    }

    /// Whether nothing waited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts them into a series that is merged no more.
    pub fn put_into(&self, series: &mut HistogramSeries) {
        self.0.iter().for_each(|((end_ns, group), ages)| series.add_ages(*end_ns, group, ages));
    }
}
