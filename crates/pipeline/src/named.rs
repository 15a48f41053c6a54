//! The trace that each event came from, as a field.

use latscope_event::{Batch, Column, Field, FieldSet};
use std::path::Path;

/// Gives the events of one trace its name.
pub struct Named {
    name: String,
    batch: Batch,
}

impl Named {
    /// For a trace with this name, if the name is asked for.
    pub fn new(path: &Path, asked: FieldSet) -> Option<Named> {
        asked.contains(Field::Trace).then(|| Named { name: name(path), batch: Batch::new(FieldSet::ALWAYS) })
    }

    /// The events of a batch with the name.
    pub fn batch(&mut self, batch: &Batch) -> &Batch {
        self.batch.follow(batch);
        let code = self.batch.intern(Field::Trace, self.name.as_bytes());
        let columns = batch.fields().iter().filter_map(|field| Some((field, batch.column(field)?.clone())));
        let named = (Field::Trace, Column::Text(vec![code; batch.len()]));
        self.batch.replace_columns(columns.chain([named]));
        &self.batch
    }
}

/// The name of the trace in a file: as it was given.
pub fn name(path: &Path) -> String {
    path.display().to_string()
}
