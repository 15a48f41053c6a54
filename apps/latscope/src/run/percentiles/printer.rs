//! Lines of percentiles as they are printed, and the judgement of a threshold over them.

use super::{axis_start_ns, options_of, sampled_every_ns};
use crate::Failure;
use crate::notes::plural;
use crate::output::{self, Output};
use crate::plan::{Percentiles as Plan, Shape};
use crate::run::reports;
use latscope_event::{Context, Unfinished, format_count, format_duration};
use latscope_pipeline::{Pipeline, Unknown, lacks_part};
use latscope_series::{AskedPercentiles, CountBy, GroupInterval, HistogramSeries, Judging, Threshold, Watch};
use latscope_view_term::{PercentileOptions, Percentiles};
use std::io::Write;

/// Prints intervals and judges them.
pub struct Printer<'a> {
    pub plan: &'a Plan,
    table: Percentiles,
    watch: Option<Watch>,
    /// What it would have found if waits, of whose age only a lower bound is known, had lasted for ever; `None` without such.
    longer: Option<Watch>,
    judged_by: AskedPercentiles,
    /// Whether it was reported, live, that the threshold was exceeded.
    warned: bool,
    /// What is in flight after this moment may be missing.
    complete_until_ns: Option<i64>,
    /// The longest latency that was judged.
    longest_ns: u64,
    /// How many events were.
    events: u64,
    pub out: Output,
}

impl Printer<'_> {
    pub fn new(
        plan: &Plan,
        to_unix_ns: Option<i64>,
        options: PercentileOptions,
        judged_by: AskedPercentiles,
    ) -> Result<Printer<'_>, Failure> {
        let folding = &plan.folding;
        let table = Percentiles::new(&plan.percentiles, &folding.by, folding.quantity, to_unix_ns).with(options);
        let watch = plan.fail_if.clone().map(Watch::new);
        let out = output::open(plan.output.as_deref())?;
        let (longer, warned, complete_until_ns, longest_ns, events) = (None, false, None, 0, 0);
        Ok(Printer { plan, table, watch, longer, judged_by, warned, complete_until_ns, longest_ns, events, out })
    }

    /// Counts times as the file does whose first intervals these are.
    pub fn start(&mut self, context: &Context, series: &HistogramSeries) {
        let (plan, to_unix_ns) = (self.plan, context.clock.to_unix_ns);
        let (axis_start_ns, complete_until_ns) = (axis_start_ns(context, series), self.complete_until_ns);
        let options = PercentileOptions { axis_start_ns, complete_until_ns, ..options_of(plan) };
        self.table =
            Percentiles::new(&plan.percentiles, &plan.folding.by, plan.folding.quantity, to_unix_ns).with(options);
    }

    /// Marks what may lack events that had not completed when the trace ended.
    pub fn ends(&mut self, context: &Context, longest_ns: u64) {
        let by_share = self.plan.folding.count_by == CountBy::Overlap;
        let open_since_ns = || Context::open_since_ns(std::slice::from_ref(context), longest_ns);
        self.complete_until_ns = by_share.then(open_since_ns).flatten();
        self.table.complete_until(self.complete_until_ns);
    }

    /// Judges all that is shown.
    pub fn watch(&mut self, series: &HistogramSeries) {
        let all = self.plan.all && !self.plan.folding.by.is_empty();
        let judging = Judging { all, ..Judging::new(&self.judged_by) };
        if let Some(watch) = &mut self.watch {
            if series.has_bounds() {
                self.longer.get_or_insert_with(|| watch.clone()).see(&series.clone().as_if_endless(), &judging);
            } else if let Some(longer) = &mut self.longer {
                longer.see(series, &judging);
            }
            watch.see(series, &judging);
            let total = series.total(None);
            self.longest_ns = self.longest_ns.max(total.totals().max);
            self.events = self.events.saturating_add(total.totals().count / series.per_event());
        }
    }

    /// Says at once, the first time, that the threshold is exceeded: whoever watches a stall need not wait for its end. What
    /// samples at this interval, nanoseconds, leave undecided is left for the verdict.
    pub fn warn(&mut self, sampled_ns: Option<u64>) {
        let Some(watch) = self.watch.as_ref().filter(|_| !self.warned) else { return };
        if let Some(exceeded) = watch.exceeded() {
            let (worst, finding) = &exceeded.worst;
            let is_unsure = |ns| watch.threshold().is_unsure_of_samples(Some(finding), ns, self.longest_ns);
            if sampled_ns.is_some_and(is_unsure) {
                return;
            }
            say!("latscope: {} exceeded: {finding}{}", watch.threshold(), place(&self.table, worst));
            self.warned = true;
        }
    }

    pub fn is_exceeded(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.exceeded().is_some())
    }

    /// Fails if the threshold was exceeded, or if there was nothing to hold it against.
    pub fn verdict(self, pipeline: &Pipeline, contexts: &[Context]) -> Result<(), Failure> {
        let reading = pipeline.reading();
        let Printer { plan, table, watch, longer, mut out, longest_ns, events, .. } = self;
        if plan.shape == Shape::Text {
            let columns = if output::to_terminal(&plan.output) { output::columns(&plan.output) } else { 1000 };
            let legend = table.legend(columns);
            out.lines(legend.iter()).map_err(|error| Failure::output(&error))?;
        }
        table.left_out().iter().for_each(|sentence| say!("latscope: {sentence}"));
        out.finish().map_err(|error| Failure::output(&error))?;
        let Some(watch) = &watch else { return Ok(()) };
        let finding = watch.exceeded().map(|exceeded| exceeded.worst.1);
        let sampled_ns = sampled_every_ns(pipeline, contexts)?;
        // Of nothing that was seen nobody knows how long it lasted.
        let is_unseen = events == 0 && finding.is_none() && watch.threshold().may_rise_by_lost(1.0, 0);
        if let Some(interval_ns) = sampled_ns
            && (is_unseen || watch.threshold().is_unsure_of_samples(finding.as_ref(), interval_ns, longest_ns))
        {
            return Err(Failure::Input(format!(
                "--fail-if {} cannot be decided: threads were sampled, so latencies are known to within {} (for times on a CPU, a tick), \
                 and most shorter waits were not seen. Use -s offcpu, which times every wait, or limits like max > 1s and oldest > 1s.",
                watch.threshold(),
                format_duration(interval_ns)
            )));
        }
        let Some(exceeded) = watch.exceeded() else {
            if longer.is_some_and(|longer| longer.exceeded().is_some()) {
                return Err(lower_bounds(watch.threshold(), contexts));
            }
            if watch.threshold().rises_with_waiting() && lacks_part(contexts) {
                return Err(Failure::Input(format!(
                    "--fail-if {} cannot be decided: an input ends in the middle, lacks a part or is of a job that failed (see the notes \
                     above), and what is missing may be slower.",
                    watch.threshold()
                )));
            }
            let unknown = Unknown::from_contexts(reading, contexts);
            if watch.threshold().may_rise_by_lost(unknown.share(events), unknown.oldest_ns) {
                return Err(Failure::Input(format!(
                    "--fail-if {} cannot be decided: nobody knows the latencies of {}, beside {} that completed, as records or \
                     completions were lost. Record again without losses, or use oldest > ... for what waits.",
                    watch.threshold(),
                    plural(unknown.count, "request"),
                    format_count(events)
                )));
            }
            let is_part = reading.live.is_none() && reports::was_interrupted(reading);
            if is_part {
                return Err(Failure::Input(format!(
                    "Interrupted: --fail-if {} held for what was read; the rest of the input was not judged.",
                    watch.threshold()
                )));
            }
            // Live, a device may well be idle.
            return match watch.is_blind() && reading.live.is_none() {
                true if watch.seen() == 0 => {
                    Err(Failure::Input("There are no events, so --fail-if cannot be judged.".into()))
                }
                true => Err(Failure::Input(format!(
                    "--fail-if {}: the input lacks these values; no interval was judged.",
                    watch.threshold()
                ))),
                false => {
                    say!("latscope: {}: in none of {}.", watch.threshold(), plural(watch.seen(), "interval"));
                    Ok(())
                }
            };
        };
        let (worst, finding) = &exceeded.worst;
        let in_a_row = watch.threshold().intervals() > 1;
        // Waits that may have lasted longer may have exceeded it in more intervals.
        let most = longer.and_then(|longer| longer.exceeded()).map_or(0, |longer| longer.intervals);
        let mut message = format!(
            "{} {} {}{} of {}",
            watch.threshold(),
            if in_a_row { "in a row, held in" } else { "in" },
            if most > exceeded.intervals { "at least " } else { "" },
            format_count(exceeded.intervals),
            plural(exceeded.judged, "interval")
        );
        if let Some(interval_ns) = sampled_ns {
            message += &format!(" by samples, each right to within {}", format_duration(interval_ns));
        }
        if exceeded.groups.1 > 1 {
            message += &format!(", of {} of {}", exceeded.groups.0, plural(exceeded.groups.1 as u64, "group"));
        }
        if (exceeded.first.start_ns, &exceeded.first.group) != (worst.start_ns, &worst.group) {
            let first = if in_a_row { "reached first" } else { "first" };
            message += &format!(", {first}{}", place(&table, &exceeded.first));
        }
        message += &format!(", worst {finding}{}", place(&table, worst));
        Err(Failure::Exceeded(message + "."))
    }

    pub fn print(&mut self, series: &HistogramSeries) -> Result<(), Failure> {
        self.watch(series);
        let (table, out) = (&mut self.table, &mut self.out);
        let written = match self.plan.shape {
            Shape::Csv if self.plan.fiologparser => {
                table.each_fiologparser_line(series, &mut |line| out.write_all(line.as_bytes()))
            }
            Shape::Csv => table.each_csv_line(series, &mut |line| out.write_all(line.as_bytes())),
            Shape::Json => table.each_json_line(series, &mut |line| out.write_all(line.as_bytes())),
            Shape::Text => {
                let wide = output::to_terminal(&self.plan.output);
                let columns = if wide { output::columns(&self.plan.output) } else { 1000 };
                table.each_line(series, columns, &mut |line| out.lines([line]))
            }
        };
        written.and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }

    pub fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| Failure::output(&error))
    }
}

/// That a threshold was not exceeded by what is known, which is too little.
fn lower_bounds(threshold: &Threshold, contexts: &[Context]) -> Failure {
    let (mut count, mut oldest_ns, is_cut) = (0, 0, contexts.iter().any(Context::is_cut));
    for context in contexts {
        let is_bound = |request: &&Unfinished| context.is_cut() || context.had_begun(request.start_ns);
        for request in context.unfinished.iter().filter(|request| request.counts()).filter(is_bound) {
            (count, oldest_ns) = (count + 1, request.at_least_ns.max(oldest_ns));
        }
    }
    let why = match count {
        0 => "what waited had begun before the capture, so for how long it waited is not known".into(),
        _ if is_cut => format!(
            "the recording was cut off while {} waited, so of the longest only a lower bound is known ({})",
            plural(count, "request"),
            format_duration(oldest_ns)
        ),
        _ => format!(
            "{} had begun before the capture, so of the longest only a lower bound is known ({})",
            plural(count, "wait"),
            format_duration(oldest_ns)
        ),
    };
    let way_out = if is_cut { "" } else { " Capture for longer, or use -s block, which knows when requests began." };
    Failure::Input(format!("--fail-if {threshold} cannot be decided: {why}.{way_out}"))
}

/// The group, the time and the number of events of an interval, for messages.
fn place(table: &Percentiles, place: &GroupInterval) -> String {
    let of = match &place.group {
        Some(group) if group.is_empty() => String::new(),
        Some(group) => format!(" of {}", group.join(" ")),
        None => " of all".into(),
    };
    let events = match place.events {
        events if events < 10.0 && events.fract() != 0.0 => format!("{events:.2} events"),
        events => plural(events.round() as u64, "event"),
    };
    format!("{of} at {} ({events})", table.label(place.start_ns, place.width_ns))
}
