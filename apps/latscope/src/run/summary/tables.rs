//! `latscope summary -i`: a table for each interval, and warnings of slow events as they happen.

use super::{SHOWN, outlier};
use crate::Failure;
use crate::output::{self, Output};
use crate::plan::{Folding, Reading, Shape, Summary as Plan};
use crate::run::reports;
use latscope_event::{Batch, Context, FieldSet, Mask, format_count};
use latscope_pipeline::{INTERVAL_NS, Intervals, Pipeline, refuse_averages, too_large};
use latscope_series::{HistogramSeries, Quantity, UsageOverTime, Waiter, Weight};
use latscope_view_term::{Line, Room, Summary, TimeLabels};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// So many warnings of a file are kept until the tables of their intervals are printed; those beyond are counted.
const KEPT: usize = 100_000;
/// So many are printed before the table of an interval, the slowest; those beyond are counted.
const OF_INTERVAL: usize = 100;

/// Prints a table for each interval: live and of a stream as it passes, of files for all that they cover.
pub fn run(pipeline: &Pipeline, plan: &Plan) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let mut tables = Tables::new(reading, plan)?;
    let contexts = if pipeline.is_watched() {
        if reading.live.is_some() {
            tables.time = TimeLabels::Wall;
        }
        vec![pipeline.intervals(&plan.folding, &mut tables)?]
    } else if tables.fields() == FieldSet::default() {
        of_files(pipeline, &mut tables)?
    } else {
        tables.kept = Some(Kept::default());
        refuse_stored(pipeline)?;
        pipeline.intervals_of_whole(&plan.folding, &mut tables)?
    };
    reports::say_notes(&contexts);
    tables.out.finish().map(|_| ()).map_err(|error| Failure::output(&error))
}

/// Warnings and utilization take single events.
fn refuse_stored(pipeline: &Pipeline) -> Result<(), Failure> {
    match pipeline.stored_file() {
        None => Ok(()),
        Some(file) => {
            Err(Failure::Usage(format!("{} has histograms, not events; remove --over and --use.", file.display())))
        }
    }
}

fn of_files(pipeline: &Pipeline, tables: &mut Tables) -> Result<Vec<Context>, Failure> {
    let weighed = |weight| Folding { weight, ..tables.plan.folding.clone() };
    // Stored histograms carry no bytes unless they were made for that.
    let is_stored = pipeline.stored_file().is_some();
    let weight = if is_stored { Weight::Count } else { tables.plan.folding.weight };
    let (mut series, contexts) = pipeline.series(&weighed(weight), 2)?;
    reports::say_groups(&series);
    if tables.plan.folding.quantity == Quantity::Latency {
        contexts.iter().try_for_each(refuse_averages)?;
    }
    let context = Context::merged(&contexts);
    if let (Some(from_ns), Some((_, to_ns))) = (context.trace_start_ns(), context.span_ns) {
        series.observe(from_ns, to_ns);
    }
    series.fill_gaps();
    tables.print(&series, &context)?;
    Ok(contexts)
}

struct Tables<'a> {
    plan: &'a Plan,
    room: Room,
    time: TimeLabels,
    /// What still waits and was warned of, by its start.
    warned: HashSet<i64>,
    /// What waited when it was last looked at.
    waiters: Vec<Waiter>,
    usage: Option<UsageOverTime>,
    /// Warnings of a file, until their table is printed; without it they are printed at once.
    kept: Option<Kept>,
    started: bool,
    out: Output,
}

/// Warnings by interval.
#[derive(Default)]
struct Kept {
    by_interval: BTreeMap<i64, Warnings>,
    count: usize,
}

/// The slowest of an interval, in the order in which they completed.
#[derive(Default)]
struct Warnings {
    lines: Vec<(u64, Line)>,
    /// Those that are left out.
    more: u64,
}

impl Intervals for Tables<'_> {
    type Error = Failure;

    fn fields(&self) -> FieldSet {
        let usage = self.usage.as_ref().map_or(FieldSet::default(), UsageOverTime::fields);
        self.plan.over_ns.map_or(usage, |_| usage.union(SHOWN.into_iter().collect()))
    }

    fn looks_back(&self) -> bool {
        self.usage.is_some()
    }

    fn events(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        if let Some(usage) = &mut self.usage {
            usage.add(batch, mask);
            if usage.is_full() {
                return Err(too_large().into());
            }
        }
        self.warn(context, batch, mask, false)
    }

    fn waiting(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>) -> Result<(), Failure> {
        self.waiters = Waiter::of_batch(context, batch, mask, &self.plan.folding.by);
        self.warn(context, batch, mask, true)?;
        let still: HashSet<i64> = batch.time().iter().copied().collect();
        self.warned.retain(|start_ns| still.contains(start_ns));
        Ok(())
    }

    fn passed(&mut self, series: &HistogramSeries, _before: i64, context: &Context) -> Result<(), Failure> {
        self.print(series, context)
    }

    fn late(&mut self, series: &HistogramSeries, context: &Context) -> Result<bool, Failure> {
        self.usage = None;
        self.print(series, context).map(|()| true)
    }
}

impl<'a> Tables<'a> {
    fn new(reading: &Reading, plan: &'a Plan) -> Result<Tables<'a>, Failure> {
        let out = output::open(plan.output.as_deref())?;
        let width_ns = plan.folding.interval.unwrap_or(INTERVAL_NS);
        Ok(Tables {
            plan,
            room: output::room(&plan.output),
            time: TimeLabels::Elapsed,
            warned: HashSet::new(),
            waiters: Vec::new(),
            usage: plan.shows_use.then(|| UsageOverTime::new(plan.folding.by.clone(), width_ns)),
            kept: None,
            started: false,
            out: out.growing_with(reading),
        })
    }

    /// A line for each event above the threshold, and one for each request that has waited so long, once.
    fn warn(&mut self, context: &Context, batch: &Batch, mask: Option<&Mask>, waits: bool) -> Result<(), Failure> {
        let Some(over_ns) = self.plan.over_ns else { return Ok(()) };
        let mut lines = Vec::new();
        for row in (0..batch.len()).filter(|&row| mask.is_none_or(|mask| mask.get(row))) {
            let is_over = batch.latency()[row] > over_ns;
            if is_over && (!waits || self.warned.insert(batch.time()[row])) {
                let outlier = outlier(batch, row, &self.plan.folding.by);
                let line = outlier.warning(over_ns, context, self.time, waits);
                match &mut self.kept {
                    Some(kept) => {
                        let end_ns = batch.time()[row].saturating_add_unsigned(batch.latency()[row]);
                        let interval = end_ns.div_euclid(self.plan.folding.interval.unwrap_or(INTERVAL_NS) as i64);
                        kept.add(interval, batch.latency()[row], line);
                    }
                    None => lines.push(line),
                }
            }
        }
        self.print_warnings(&lines)
    }

    fn print_warnings(&mut self, lines: &[Line]) -> Result<(), Failure> {
        match self.plan.shape {
            _ if lines.is_empty() => Ok(()),
            Shape::Text => self.lines(lines),
            // The rows of machine output are of one kind.
            Shape::Csv | Shape::Json => {
                lines.iter().for_each(|line| say!("{}", line.text()));
                Ok(())
            }
        }
    }

    fn print(&mut self, series: &HistogramSeries, context: &Context) -> Result<(), Failure> {
        for &interval in series.slices().keys() {
            let warnings = self.kept.as_mut().and_then(|kept| kept.by_interval.remove(&interval)).unwrap_or_default();
            self.print_warnings(&warnings.into_lines())?;
            let mut summary = Summary::of_interval(series, interval, series.covered_of(interval, None), context);
            if let Some(usage) = &mut self.usage {
                summary.show_use(&usage.take(interval, &self.waiters));
            }
            summary.sort(self.plan.sort);
            let started = std::mem::replace(&mut self.started, true);
            let text = match self.plan.shape {
                Shape::Text => {
                    self.lines(&summary.interval_lines(context, self.room))?;
                    continue;
                }
                Shape::Csv if started => summary.csv_rows(),
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

impl Kept {
    fn add(&mut self, interval: i64, latency_ns: u64, line: Line) {
        let warnings = self.by_interval.entry(interval).or_default();
        if self.count < KEPT && warnings.lines.len() < OF_INTERVAL {
            self.count += 1;
            warnings.lines.push((latency_ns, line));
            return;
        }
        warnings.more += 1;
        let least = (0..warnings.lines.len()).min_by_key(|&at| warnings.lines[at].0);
        if let Some(at) = least.filter(|&at| warnings.lines[at].0 < latency_ns) {
            warnings.lines.remove(at);
            warnings.lines.push((latency_ns, line));
        }
    }
}

impl Warnings {
    fn into_lines(self) -> Vec<Line> {
        let more = (self.more > 0).then(|| match self.lines.len() {
            0 => Line::new(&format!("{} warnings, not shown", format_count(self.more))),
            _ => Line::new(&format!("{} more, none slower than these", format_count(self.more))),
        });
        self.lines.into_iter().map(|(_, line)| line).chain(more).collect()
    }
}
