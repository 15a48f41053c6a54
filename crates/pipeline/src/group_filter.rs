//! A filter over the labels of groups, where there are no events.

use crate::Error;
use latscope_event::{Batch, Field, FieldSet, Mask, TraceStart};
use latscope_filter::{BoundFilter, Filter};
use latscope_series::HistogramSeries;

/// A filter that groups of some fields can pass.
pub struct GroupFilter {
    bound: BoundFilter,
    batch: Batch,
    fields: Vec<Field>,
    mask: Mask,
}

impl GroupFilter {
    /// A filter, for groups of fields with these names.
    ///
    /// # Errors
    /// When the filter asks for anything else.
    pub fn new(filter: &Filter, names: &[String]) -> Result<GroupFilter, Error> {
        let fields: Vec<Field> = names.iter().filter_map(|name| Field::from_name(name)).collect();
        let known: FieldSet = fields.iter().copied().collect();
        if let Some(field) = filter.fields().iter().find(|&field| !known.contains(field)) {
            return Err(Error::NotFilterable { field, has: names.to_vec() });
        }
        let bound = filter.bind(TraceStart { start_ns: None, to_unix_ns: None })?;
        Ok(GroupFilter { bound, batch: Batch::new(known.union(FieldSet::ALWAYS)), fields, mask: Mask::default() })
    }

    /// Whether a group with these labels passes.
    pub fn passes(&mut self, labels: &[String]) -> bool {
        self.batch.clear();
        self.batch.push_i64(Field::Time, 0);
        self.batch.push_u64(Field::Latency, 0);
        for (field, text) in self.fields.iter().zip(labels) {
            self.batch.push_text(*field, (text != HistogramSeries::NO_VALUE).then_some(text.as_bytes()));
        }
        self.batch.end_row();
        self.bound.eval(&self.batch, &mut self.mask);
        self.mask.count() == 1
    }
}
