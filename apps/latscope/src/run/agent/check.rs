//! `latscope agent --check`: whether an agent would work, a line for each thing that it needs.

use super::probe;
use super::rights::{usable, write_to};
use crate::Failure;
use crate::notes::plural;
use crate::output;
use crate::plan::Agent as Plan;
use latscope_event::{Context, format_count, format_duration};
use latscope_pipeline::{Intervals, Pipeline};
use latscope_series::HistogramSeries;
use latscope_wire::{Hello, check};
use std::fmt::Write;

/// Checks everything, though something fails.
pub fn run(pipeline: &Pipeline, plan: &Plan, hello: &Hello) -> Result<(), Failure> {
    let mut lines = vec![("files".to_string(), files(plan))];
    if let Some(folder) = &plan.queue {
        lines.push((format!("queue {}", folder.display()), queue(folder)));
    }
    lines.push(("capture".into(), capture(pipeline, plan)));
    for address in &plan.hubs {
        lines.push((format!("hub {address}"), hub(plan, address, hello)));
    }
    let unchecked = |target: &latscope_wire::exports::Target| {
        (format!("push {target}"), Ok("not checked; it is reported when it fails".to_string()))
    };
    lines.extend(plan.exports.targets.iter().map(unchecked));
    let mut text = String::new();
    for (what, found) in &lines {
        let _ = match found {
            Ok(found) => writeln!(text, "{what}: ok: {found}"),
            Err(why) => writeln!(text, "{what}: failed: {}", why.trim_end_matches('.')),
        };
    }
    output::text(None, &text)?;
    match lines.iter().filter(|(_, found)| found.is_err()).count() {
        0 => Ok(()),
        failed => Err(Failure::Input(format!("{failed} of {} checks failed.", lines.len()))),
    }
}

fn files(plan: &Plan) -> Result<String, String> {
    usable(plan)?;
    plan.credentials.client()?;
    Ok(match plan.credentials.paths().count() {
        0 => "none needed".into(),
        count => format!("{count} of certificates and tokens read"),
    })
}

fn queue(folder: &std::path::Path) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(text)?;
    write_to(folder).map_err(text)?;
    let segments = std::fs::read_dir(folder).map_err(text)?.flatten();
    let bytes = segments.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum::<u64>();
    Ok(format!("writable, {} bytes of earlier runs", format_count(bytes)))
}

/// Connects, and compares the clocks.
fn hub(plan: &Plan, address: &latscope_wire::Address, hello: &Hello) -> Result<String, String> {
    let clock = check(address, &plan.credentials, hello)?;
    let state = match latscope_capture_bpf::clock_is_synchronised() {
        Some(true) => ", which is synchronised",
        Some(false) => ", which is not synchronised",
        None => "",
    };
    let clock = clock.map_or("its clock is unknown".into(), |(offset_ns, error_ns)| {
        let side = if offset_ns > 0 { "ahead of" } else { "behind" };
        let (by, within) = (format_duration(offset_ns.unsigned_abs()), format_duration(error_ns));
        format!("its clock is {by} {side} the clock of this host (within {within}){state}")
    });
    Ok(format!(
        "takes {} as {}; {clock}",
        if plan.credentials.paths().count() > 0 { "the credentials" } else { "this agent" },
        hello.host
    ))
}

/// Captures for one interval: that needs the rights, and the kernel all that is attached.
fn capture(pipeline: &Pipeline, plan: &Plan) -> Result<String, String> {
    let mut counter = Counter::default();
    probe::intervals(pipeline, plan, &mut counter).map_err(|failure| failure.to_string())?;
    let (groups, events) = (plural(counter.groups as u64, "group"), plural(counter.events, "event"));
    Ok(format!("{events} in {groups}"))
}

/// What passed.
#[derive(Default)]
struct Counter {
    events: u64,
    groups: usize,
}

impl Intervals for Counter {
    type Error = Failure;

    fn passed(&mut self, series: &HistogramSeries, _before: i64, _context: &Context) -> Result<(), Failure> {
        self.groups = self.groups.max(series.groups().len());
        let histograms = series.slices().values().flat_map(|slice| &slice.groups);
        self.events += histograms.map(|(_, histogram)| histogram.totals().count).sum::<u64>();
        Ok(())
    }
}
