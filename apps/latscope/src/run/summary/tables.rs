//! `latscope summary -i`: a table for each interval, and warnings of slow events as they happen.

use super::{SHOWN, outlier};
use crate::Failure;
use crate::plan::{Folding, Reading, Shape, Summary as Plan};
use crate::run::intervals::{self, Intervals};
use crate::run::output::{self, Output};
use crate::run::{live, read};
use latscope_event::{Batch, Context, FieldSet, Mask};
use latscope_series::{HistogramSeries, Quantity, Weight};
use latscope_view_term::{Line, Summary, SummaryKey, TimeLabels};
use std::collections::HashSet;
use std::io::Write;

/// Prints a table for each interval: live as it passes, of files for each that has events.
pub fn run(reading: &Reading, plan: &Plan, key: SummaryKey) -> Result<(), Failure> {
    let columns = if output::to_terminal(&plan.output) { output::columns(&plan.output) } else { 160 };
    let out = output::open(plan.output.as_deref())?;
    let mut tables =
        Tables { plan, key, columns, observed_ns: (i64::MIN, i64::MAX), waiting: HashSet::new(), begun: false, out };
    let contexts = match &reading.live {
        Some(capture) => {
            tables.observed_ns.0 = live::now_ns();
            tables.out = tables.out.growing();
            // The kernel counts bytes of each key.
            vec![intervals::live(reading, capture, &plan.folding, &mut tables)?]
        }
        None => of_files(reading, &mut tables)?,
    };
    read::say_notes(&contexts);
    tables.out.finish().map(|_| ()).map_err(|error| Failure::output(&error))
}

fn of_files(reading: &Reading, tables: &mut Tables) -> Result<Vec<Context>, Failure> {
    if tables.plan.over_ns.is_some() {
        let message = "--over with -i is for live capture; of files, give one of them.";
        return Err(Failure::Usage(message.into()));
    }
    let weighed = |weight| Folding { weight, ..tables.plan.folding.clone() };
    // Stored histograms carry no bytes unless they were made for that.
    let is_stored = read::formats(reading).iter().flatten().any(|format| format.is_series());
    let weight = if is_stored { Weight::Count } else { Weight::Bytes };
    let (series, contexts) = read::series(reading, &weighed(weight), 2)?;
    if tables.plan.folding.quantity == Quantity::Latency {
        contexts.iter().try_for_each(read::refuse_windows)?;
    }
    let context = Context::merged(&contexts);
    tables.observed_ns = context.span_ns.unwrap_or(tables.observed_ns);
    tables.print(&series, &context)?;
    Ok(contexts)
}

struct Tables<'a> {
    plan: &'a Plan,
    key: SummaryKey,
    columns: usize,
    /// Since when and until when it was observed.
    observed_ns: (i64, i64),
    /// What still waits and was warned of, by its begin.
    waiting: HashSet<i64>,
    begun: bool,
    out: Output,
}

impl Intervals for Tables<'_> {
    fn fields(&self) -> FieldSet {
        self.plan.over_ns.map_or(FieldSet::default(), |_| SHOWN.into_iter().collect())
    }

    fn events(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.warn(context, batch, mask, false)
    }

    fn waiting(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.warn(context, batch, mask, true)?;
        let still: HashSet<i64> = batch.time().iter().copied().collect();
        self.waiting.retain(|start_ns| still.contains(start_ns));
        Ok(())
    }

    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        self.observed_ns.1 = live::now_ns();
        self.print(series, context)
    }
}

impl Tables<'_> {
    /// A line for each event above the threshold, and one for each request that has waited so long, once.
    fn warn(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>, waits: bool) -> Result<(), Failure> {
        let Some(over_ns) = self.plan.over_ns else { return Ok(()) };
        let mut lines = Vec::new();
        for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
            let is_over = batch.latency()[row] > over_ns;
            if is_over && (!waits || self.waiting.insert(batch.time()[row])) {
                let outlier = outlier(batch, row, &self.plan.folding.by);
                lines.push(outlier.warning(over_ns, context, TimeLabels::Wall, waits));
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        match self.plan.shape {
            Shape::Text => self.lines(&lines),
            // The rows of machine output are of one kind.
            Shape::Csv | Shape::Json => {
                lines.iter().for_each(|line| say!("{}", line.text()));
                Ok(())
            }
        }
    }

    fn print(&mut self, series: &HistogramSeries, context: &Context) -> Result<(), Failure> {
        let (from_ns, to_ns) = self.observed_ns;
        for &interval in series.slices().keys() {
            let (start_ns, width_ns) = series.span_of(interval, None);
            let end_ns = start_ns.saturating_add_unsigned(width_ns);
            let covered_ns = end_ns.min(to_ns).saturating_sub(start_ns.max(from_ns)).max(0).unsigned_abs();
            let mut summary = Summary::of_interval(series, interval, covered_ns, context);
            summary.sort(self.key);
            let begun = std::mem::replace(&mut self.begun, true);
            let text = match self.plan.shape {
                Shape::Text => {
                    self.lines(&summary.interval_lines(context, self.columns))?;
                    continue;
                }
                Shape::Csv if begun => summary.csv_rows(),
                Shape::Csv => summary.csv(),
                Shape::Json => summary.json(),
            };
            self.write(&text)?;
        }
        Ok(())
    }

    fn lines(&mut self, lines: &[Line]) -> Result<(), Failure> {
        self.out.lines(lines).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }
}
