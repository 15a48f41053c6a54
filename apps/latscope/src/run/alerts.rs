//! Alerts of a hub: their file, their reports, and what `hub --check-alerts` and `--print-rules` print.

use super::percentiles::refuse_unknown_waiting;
use super::{output, reports};
use crate::Failure;
use crate::plan::{Alerts as Plan, Folding, Reading};
use latscope_capture_file::Format;
use latscope_event::{Context, Field, FieldSet, FieldType, format_wall};
use latscope_filter::Filter;
use latscope_pipeline::{Error, GroupFilter, Pipeline};
use latscope_series::{HistogramSeries, Threshold};
use latscope_wire::alerts::{
    Alert, Change, InFlight, Predicate, Replay, Report, Rule, Rules, check_deliveries, is_journal, print,
};
use latscope_wire::exports::classic_edges_s;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

/// The longest interval of a trace, nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;

pub fn run(reading: Reading, plan: &Plan) -> Result<(), Failure> {
    match plan {
        Plan::Print(file, dialect, tests) => {
            let (text, tested) = print(&rules(file.as_deref())?, *dialect, &classic_edges_s());
            match (tests, tested) {
                (Some(tests), Some(tested)) => output::text(Some(tests), &tested)?,
                (Some(tests), None) => {
                    say!("latscope: None of the rules can be tested; {} is not written.", tests.display());
                }
                (None, _) => {}
            }
            output::text(None, &text)
        }
        Plan::Check(file) => {
            let rules = rules(Some(file))?;
            check_deliveries(&rules).map_err(|why| Failure::Input(format!("{}: {why}", file.display())))?;
            rules.slos.iter().flat_map(|slo| slo.remarks()).for_each(|remark| say!("latscope: {remark}."));
            if !reading.files.is_empty() {
                return replay(reading, &rules);
            }
            let count = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
            let (alerts, slos) = (count(rules.alerts.len(), "alert"), count(rules.slos.len(), "objective"));
            let deliveries = count(rules.deliveries.len(), "destination");
            output::text(None, &format!("{}: {alerts}, {slos}, {deliveries}\n", file.display()))
        }
    }
}

/// The rules of a file, or those that every hub has.
pub fn rules(file: Option<&Path>) -> Result<Rules, Failure> {
    let Some(file) = file else { return Ok(Rules::built_in()) };
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure::Input(format!("{}: {error}.", file.display())))?;
    parsed(file, &text).map_err(Failure::Usage)
}

/// Reads the rules of a file again.
pub fn read(file: &Path) -> Result<Rules, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}.", file.display()))?;
    parsed(file, &text)
}

fn parsed(file: &Path, text: &str) -> Result<Rules, String> {
    let check = |text: &str| {
        let filter = Filter::parse(text).map_err(|error| error.to_string().trim_end_matches('.').to_string())?;
        let is_unknown = |field: &Field| matches!(field.field_type(), FieldType::Time | FieldType::Duration);
        match filter.fields().iter().find(is_unknown) {
            Some(field) => Err(format!("no agent groups by {}; use it in if", field.name())),
            None => Ok(()),
        }
    };
    Rules::parse(text, &check).map_err(|why| format!("{}: {why}", file.display()))
}

/// What a filter means for groups of these fields.
pub fn filters(text: &str, fields: &[String]) -> Result<Predicate, String> {
    let filter = Filter::parse(text).map_err(|error| error.to_string())?;
    let mut filter = GroupFilter::new(&filter, fields).map_err(|error| error.to_string())?;
    Ok(Box::new(move |labels| filter.passes(labels)))
}

/// Prints what happens to the alerts of a hub that serves.
pub fn report(report: Report) {
    match report {
        Report::Changed(change) => {
            let word = if change.alert.end_ns.is_some() { "resolved" } else { "alert" };
            say!("latscope: {word}: {}", summary(&change));
        }
        Report::Refused(why) => say!("latscope: alert {}; it is not judged.", why.trim_end_matches('.')),
        Report::Undelivered(to, why) => say!("latscope: {to}: not delivered: {why}; it is tried again"),
        Report::Dropped(to, count) => {
            say!("latscope: {to}: {count} changes of alerts were dropped: it does not take them")
        }
        Report::Delivered(to) => say!("latscope: {to}: delivered again"),
        Report::Reloaded => say!("latscope: The alerts were read again."),
        Report::Unloaded(why) => say!("latscope: {why} The alerts from before stay."),
        Report::Damaged(why) => say!("latscope: {why}"),
        Report::Unsaved(why) => say!("latscope: The state of the alerts cannot be saved: {why}."),
    }
}

fn summary(change: &Change) -> &str {
    change.alert.annotations.get("summary").map_or("", String::as_str)
}

/// Prints when each alert would have fired.
fn replay(reading: Reading, rules: &Rules) -> Result<(), Failure> {
    let pipeline = reports::open(reading, None)?;
    let files = &pipeline.reading().files;
    let fail = |file: &Path, error: std::io::Error| Failure::Input(format!("{}: {error}.", file.display()));
    let open = |file: &Path| File::open(file).map(BufReader::new).map_err(|error| fail(file, error));
    let may_be = |format: &Option<Format>| format.is_some_and(|format| format.name() == "frames");
    let mut are_journals = pipeline.formats().iter().all(may_be) && files.iter().all(|file| file.is_file());
    for file in files {
        are_journals = are_journals && is_journal(open(file)?).map_err(|error| fail(file, error))?;
    }
    let mut replay = Replay::new(rules, &filters);
    let (mut changes, mut refused) = (Vec::new(), Vec::new());
    if are_journals {
        for file in files {
            let (more, sentences) = replay.add_journal(open(file)?).map_err(|error| fail(file, error))?;
            changes.extend(more);
            refused.extend(sentences);
        }
        changes.extend(replay.finish());
    } else {
        let interval_ns = rules.alerts.iter().filter_map(|rule| rule.step_ns).fold(INTERVAL_NS, u64::min);
        let folding = Folding { by: fields(rules), ..Folding::of_latencies(Some(interval_ns)) };
        let (mut series, contexts) = series(&pipeline, folding)?;
        let all = Context::merged(&contexts);
        if let (Some(start_ns), Some((_, end_ns))) = (all.trace_start_ns(), all.span_ns) {
            series.observe(start_ns, end_ns);
        }
        let in_flight = in_flight(&pipeline, &series)?;
        let mut rules = rules.clone();
        if let Err(failure) = refuse_unknown_waiting(&contexts, "--check-alerts") {
            let asks = |rule: &Rule| {
                rule.condition.asks_what_waits() || rule.until.as_ref().is_some_and(Threshold::asks_what_waits)
            };
            if rules.alerts.iter().any(|rule| asks(rule) && !rule.is_built_in) {
                return Err(failure);
            }
            let is_left_out = |rule: &&Rule| asks(rule);
            rules.alerts.iter().filter(is_left_out).for_each(|rule| {
                say!("latscope: alert {}: The trace does not record waiting requests; it is not judged.", rule.name);
            });
            rules.alerts.retain(|rule| !asks(rule));
        }
        replay = Replay::new(&rules, &filters);
        (changes, refused) = replay.add_series(&series, in_flight.as_ref(), all.clock.to_unix_ns.unwrap_or(0));
        reports::say_notes(&contexts);
    }
    refused.iter().for_each(|why| say!("latscope: alert {}; it is not judged.", why.trim_end_matches('.')));
    output::text(None, &lines(&changes, replay.firing().len()))
}

/// What was in flight at the ends of the intervals, where there are single events, which are read again.
fn in_flight(pipeline: &Pipeline, series: &HistogramSeries) -> Result<Option<InFlight>, Failure> {
    if pipeline.stored_file().is_some() || !pipeline.is_read_again() || series.is_of_runs() {
        return Ok(None);
    }
    let mut in_flight = InFlight::new(&series.by, series.width_ns());
    let fields: FieldSet = series.by.iter().copied().collect();
    pipeline.each_batch(fields, |_, batch, mask, _| match in_flight.add(batch, mask) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(Failure::Input(
            "Too many requests were in flight for too long to check alerts on them; use a longer step, or a filter."
                .into(),
        )),
    })?;
    Ok(Some(in_flight))
}

/// The series by as many of the fields as it has.
fn series(pipeline: &Pipeline, folding: Folding) -> Result<(HistogramSeries, Vec<Context>), Failure> {
    match pipeline.series(&folding, u32::MAX) {
        Err(Error::NoGroup { has, .. }) if !folding.by.is_empty() => {
            let has = |field: &Field| has.iter().any(|name| name == field.name());
            let by = folding.by.iter().copied().filter(has).collect();
            series(pipeline, Folding { by, ..folding })
        }
        // Intervals that are stored in another width stay so.
        Err(Error::Width(width_ns)) if folding.interval.is_some_and(|asked_ns| asked_ns < width_ns) => {
            series(pipeline, Folding { interval: Some(width_ns), ..folding })
        }
        found => Ok(found?),
    }
}

/// All fields by which rules group or select.
fn fields(rules: &Rules) -> Vec<Field> {
    let filters = rules.alerts.iter().map(|rule| &rule.filter).chain(rules.slos.iter().map(|slo| &slo.filter));
    let filters = filters.flatten().filter_map(|text| Filter::parse(text).ok());
    let names = rules.alerts.iter().flat_map(|rule| &rule.by).chain(rules.slos.iter().flat_map(|slo| &slo.by));
    let mut fields: Vec<Field> = names.filter_map(|name| Field::from_name(name)).collect();
    fields.extend(filters.flat_map(|filter| filter.fields().iter().collect::<Vec<_>>()));
    let mut known = std::collections::HashSet::new();
    fields.retain(|field| ![Field::Time, Field::Latency].contains(field) && known.insert(*field));
    fields
}

/// What is left of changes when those that a later one corrects are taken out, in the order of their times.
fn corrected(changes: &[Change]) -> Vec<&Change> {
    let is_corrected = |at: usize, change: &Change| {
        let alert = &change.alert;
        let later = changes[at + 1..].iter().map(|change| &change.alert).filter(|other| other.labels == alert.labels);
        let end_ns = alert.end_ns.unwrap_or(i64::MAX);
        let corrects = |other: &Alert| match (alert.end_ns, other.end_ns) {
            (Some(_), Some(other_ns)) => other.start_ns < end_ns && alert.start_ns < other_ns,
            (None, None) => other.start_ns < alert.start_ns,
            _ => false,
        };
        // Between two alerts of the same labels there is always an end.
        let mut same = later.take_while(|other| alert.end_ns.is_some() || other.end_ns.is_none());
        same.any(corrects)
    };
    let left = changes.iter().enumerate().filter(|(at, change)| !is_corrected(*at, change));
    let mut left: Vec<&Change> = left.map(|(_, change)| change).collect();
    left.sort_by_key(|change| change.at_ns);
    left
}

fn lines(changes: &[Change], firing: usize) -> String {
    let mut out = String::new();
    let mut fired = BTreeMap::<&str, usize>::new();
    for change in corrected(changes) {
        let alert = &change.alert;
        let (at, since) = (format_wall(change.at_ns, 3, true), format_wall(alert.start_ns, 3, false));
        let word = if alert.end_ns.is_some() { "resolved" } else { "fires" };
        out += &format!("{at}  {word:<8}  {} (since {since})\n", summary(change));
        if alert.end_ns.is_none() {
            *fired.entry(alert.labels.get("alertname").map_or("", String::as_str)).or_insert(0) += 1;
        }
    }
    let counts: Vec<String> = fired.iter().map(|(name, count)| format!("{name} {count}")).collect();
    match (&counts[..], firing) {
        ([], _) => out += "No alert would have fired.\n",
        (counts, 0) => out += &format!("Fired: {}.\n", counts.join(", ")),
        (counts, firing) => out += &format!("Fired: {}; {firing} still fire at the end.\n", counts.join(", ")),
    }
    out
}
