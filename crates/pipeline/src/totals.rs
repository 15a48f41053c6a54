//! Everything in one histogram for each group, as a summary shows it, and the groups that it shows where nobody says them.

use crate::{Error, Folding, Origin, Pipeline, refuse_averages};
use latscope_capture_file::Format;
use latscope_event::{Batch, Context, Field, Mask};
use latscope_series::{HistogramSeries, Interval, Quantity, SeriesBuilder, Weight};
use std::ops::ControlFlow;

impl Pipeline {
    /// Everything in one histogram for each group, with standard deviations where events are read. Where nobody asked for the groups,
    /// and stored histograms do not have them, all are summed up.
    ///
    /// # Errors
    /// As [`Pipeline::series`].
    pub fn totals(&self, folding: &Folding, by_default: bool) -> Result<(HistogramSeries, Vec<Context>), Error> {
        if self.reading.live.is_some() {
            return self.series(&Folding { weight: Weight::Bytes, ..folding.clone() }, 2);
        }
        if self.origin(folding)? != Origin::Events {
            // Stored histograms carry no bytes unless they were made for that.
            let counted = Folding { weight: Weight::Count, ..folding.clone() };
            return match self.series(&counted, 2) {
                // Not every stored histogram is of a device; nobody asked for that.
                Err(error) if error.is_usage() && by_default => self.series(&Folding { by: Vec::new(), ..counted }, 2),
                found => found,
            };
        }
        let (builder, contexts) = self.fold_totals(&|| totals_builder(folding))?;
        if folding.quantity == Quantity::Latency {
            contexts.iter().try_for_each(refuse_averages)?;
        }
        let is_pruned = builder.is_pruned();
        let mut series = builder.finish();
        if is_pruned && self.is_read_again() {
            series = self.fold_totals(&|| totals_builder(folding).only(series.groups()))?.0.finish();
        }
        series.add_waiting(&self.waiters(&contexts, &folding.by)?, None);
        Ok((series.completed_only(folding.completed_only), contexts))
    }

    fn fold_totals(&self, new: &(impl Fn() -> SeriesBuilder + Sync)) -> Result<(SeriesBuilder, Vec<Context>), Error> {
        let add =
            |builder: &mut SeriesBuilder, starts: Option<usize>, _: &Context, batch: &Batch, mask: Option<&Mask>| {
                if let Some(number) = starts {
                    builder.start_trace_number(number as u32);
                }
                builder.add(batch, mask);
                ControlFlow::<Error>::Continue(())
            };
        self.fold(new().fields(), new, add, SeriesBuilder::merge)
    }

    /// What distinguishes the events of load generators: their jobs, not the devices, which they do not name; of Spark, its stages.
    /// Nothing where other files are read, too.
    pub fn usual_groups(&self) -> Option<Vec<Field>> {
        let all = |known: &[Format]| {
            let is_known = |format: &Option<Format>| format.is_some_and(|format| known.contains(&format));
            !self.formats.is_empty() && self.formats.iter().all(is_known)
        };
        if all(&[Format::Hlog]) {
            return Some(vec![Field::Job]);
        }
        if all(&[Format::SparkEventlog]) {
            return Some(vec![if self.reading.all_of_spark { Field::Kind } else { Field::Stage }]);
        }
        let is_fio = all(&[Format::FioLog, Format::FioHist, Format::FioJson, Format::Smallfile]);
        is_fio.then(|| vec![Field::Job, Field::Kind, Field::Host])
    }

    /// Whether what is read may have sizes: not every format knows what moved how many bytes.
    pub fn has_sizes(&self) -> bool {
        let is_sized = |format: Format| format != Format::TwoColumns || self.reading.two_columns.unit_bytes.is_some();
        let may_have = |format: &Option<Format>| {
            format.is_none_or(|format| format.fills().contains(Field::Size) && is_sized(format))
        };
        self.reading.live.is_some() || self.formats.iter().any(may_have)
    }
}

/// What adds up everything: one interval of any length would do; a few keep the bookkeeping of the builder as it is.
pub fn totals_builder(folding: &Folding) -> SeriesBuilder {
    SeriesBuilder::new(folding.quantity, folding.weight, folding.by.clone(), Interval::Auto(2))
        .on_grid(folding.precision)
        .with_squares()
}
