//! All events as the cube of a report, with what is unusual in them.

use crate::{Error, Pipeline};
use latscope_event::{Context, Field, FieldSet, Unfinished};
use latscope_series::explain::{Spot, Table};
use latscope_series::{Cube, CubeBuilder, CubeKey, CubeLimits};
use std::ops::ControlFlow;

/// No spots are looked for in more events than this: they need about 60 bytes of memory each.
const MOST_FOR_SPOTS: usize = 4_000_000;
/// The test for chance is the same in every report of a trace.
const SEED: u64 = 1;

/// What is known of the slowest events beside the attributes.
const OF_EXAMPLES: FieldSet =
    FieldSet::ALWAYS.with(&[Field::Size, Field::Result, Field::Offset, Field::Pid, Field::SampleWeight]);

impl Pipeline {
    /// Counts all events by these attributes, in intervals of this length if one is given. Of a single trace, also finds what is
    /// unusual in it.
    ///
    /// # Errors
    /// When input or capture fail, and when there are too many events to derive attributes.
    pub fn cube(&self, keys: &[CubeKey], interval_ns: Option<u64>) -> Result<(Cube, Vec<Spot>, Vec<Context>), Error> {
        let mut table = (self.reading.files.len() <= 1).then(Table::new);
        let mut builder = CubeBuilder::new(keys, CubeLimits { width_ns: interval_ns, ..CubeLimits::default() });
        let mut trace = 0;
        let contexts = self.each_batch(cube_fields(keys), |context, batch, mask, starts| {
            if starts {
                builder.start_trace(trace);
                trace += 1;
            }
            builder.add(context, batch, mask);
            if let Some(table) = &mut table {
                if starts {
                    table.begin_trace(context.trace_start_ns());
                }
                table.add(batch, mask);
            }
            table.take_if(|table| table.len() > MOST_FOR_SPOTS);
            ControlFlow::<Error>::Continue(())
        })?;
        // A stall that lasts until the end is a part of the picture, though nothing completes in it.
        let waiting = || contexts.iter().flat_map(|context| &context.unfinished).filter(|request| request.counts());
        if let Some(end_ns) = waiting().map(Unfinished::end_ns).max() {
            // Where nothing else happened, the wait is the picture.
            let first_ns = waiting().map(|request| request.start_ns).min().filter(|_| builder.is_empty());
            first_ns.into_iter().chain([end_ns]).for_each(|moment_ns| builder.cover(moment_ns));
        }
        builder.keep_common_values();
        let spots = table.map(|mut table| table.spots(SEED, None)).unwrap_or_default();
        Ok((builder.finish().without_empty_attributes(), spots, contexts))
    }
}

/// What is read of each event for these attributes.
pub fn cube_fields(keys: &[CubeKey]) -> FieldSet {
    let fields = keys.iter().filter_map(|&key| if let CubeKey::Field(field) = key { Some(field) } else { None });
    fields.collect::<FieldSet>().union(OF_EXAMPLES)
}
