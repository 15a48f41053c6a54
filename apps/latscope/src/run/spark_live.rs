//! `latscope spark --graphite` and `--follow`: what executors do now. On a terminal a screen, to an .svg or .html file a picture that
//! is drawn again in each interval, and else lines.

use super::{output, reports};
use crate::Failure;
use crate::plan::{SparkLive as Plan, SparkSource};
use crate::tui::{self, Terminal};
use latscope_pipeline::{Executors, Graphite, SparkCgroups, SparkLive, now_ns};
use latscope_series::SparkTimeline;
use latscope_view_report::{spark_page, spark_timeline};
use latscope_view_term::{
    Drawn, SparkMetricsTable, spark_gone_json, spark_metrics_json, spark_screen, spark_silent, spark_silent_json,
};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How often a signal or a key is looked for.
const TURN: Duration = Duration::from_millis(50);
/// So many columns of the last intervals are kept: more than any screen has.
const COLUMNS: usize = 1000;
/// An answer that came so late is no gap between those beside it.
const LATE: Duration = Duration::from_secs(10);
/// Why it ends by itself.
const ENDED: &str = "the application has ended, or its driver";

/// Where what was heard goes.
enum To {
    Lines(Box<output::Output>, SparkMetricsTable),
    Json(Box<output::Output>),
    Picture,
    Page,
    Screen(Terminal),
}

/// Runs until Ctrl-C, for a time, or until the application ends.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    let is_over = reports::interrupted();
    let (mut live, source, silence) = open(plan)?;
    let path = plan.output.as_deref();
    let ending = path.and_then(|path| path.extension()).and_then(|ending| ending.to_str()).unwrap_or_default();
    let mut to = match ending {
        _ if plan.json => To::Json(Box::new(output::open(path)?.growing())),
        "svg" => To::Picture,
        "html" => To::Page,
        _ if output::to_terminal(&plan.output) && tui::is_possible() => To::Screen(tui::enter()?),
        _ => To::Lines(Box::new(output::open(path)?.growing()), SparkMetricsTable::new(plan.has_groups)),
    };
    if !matches!(to, To::Screen(_)) {
        say!("latscope: {source}; Ctrl-C ends it");
    }
    let (start, interval) = (Instant::now(), Duration::from_nanos(plan.interval_ns));
    let mut timeline = SparkTimeline::new(COLUMNS);
    timeline.is_asked = matches!(plan.source, SparkSource::Rest(_));
    let (mut next, mut is_silent, mut has_ended, mut note) = (start, false, None, source.clone());
    // How many turns have waited for the same answer.
    let (mut waited, mut has_said_unusable) = (0u32, false);
    let what = if matches!(plan.source, SparkSource::Rest(_)) { "value" } else { "line" };
    let mut groups = plan.has_groups.then(|| SparkCgroups::new(Executors::new(Path::new("/"), None)));
    // Turns are whole seconds apart, whatever the answers took.
    let start_s = now_ns() / 1_000_000_000;
    let mut answered_s = start_s;
    loop {
        let ends = has_ended.is_some()
            || is_over.load(Ordering::Relaxed)
            || plan.for_ns.is_some_and(|for_ns| start.elapsed() >= Duration::from_nanos(for_ns))
            || matches!(to, To::Screen(_)) && tui::is_quit();
        if ends || Instant::now() >= next {
            // Of turns that were missed, while the program was stopped, nothing is known.
            while next <= Instant::now() {
                next += interval;
            }
            let at_s = start_s + start.elapsed().as_secs_f64().round() as i64;
            let mut executors = match live.take(at_s) {
                Ok(None) => {
                    waited += 1;
                    None
                }
                Ok(executors) => {
                    let late = std::mem::take(&mut waited);
                    if interval.saturating_mul(late) <= LATE {
                        timeline.forget_unanswered(late as usize);
                    }
                    answered_s = at_s;
                    if std::mem::take(&mut is_silent) && !matches!(to, To::Screen(_)) {
                        say!("latscope: {source}: it answers again");
                    }
                    executors
                }
                Err(none) => {
                    waited = 0;
                    if none.is_over {
                        has_ended.get_or_insert(none.why);
                    } else if !std::mem::replace(&mut is_silent, true) && !matches!(to, To::Screen(_)) {
                        say!("latscope: {source}: {}; it is asked again until it answers, or until Ctrl-C", none.why);
                    }
                    None
                }
            };
            if let (Some(groups), Some(executors)) = (&mut groups, &mut executors) {
                groups.add(executors, now_ns());
            }
            let is_screen = matches!(to, To::Screen(_));
            if let Some(why) = live.unusable().1.filter(|_| !is_screen && !has_said_unusable) {
                has_said_unusable = true;
                say!("latscope: {source}: a {what} that {why} is left out; such {what}s are counted at the end");
            }
            note.clone_from(if executors.is_none() { &silence } else { &source });
            // An answer may be a turn late, which nobody needs to know.
            let silent_s = (at_s - answered_s).unsigned_abs();
            let is_late = waited == 1 || has_ended.is_some();
            let silent_s = (executors.is_none() && !is_late && silent_s > 0).then_some(silent_s);
            let executors = executors.unwrap_or_default();
            timeline.add(at_s, &executors);
            timeline.spans = live.spans();
            to.put(plan, &timeline, &executors, silent_s, &note)?;
        }
        if ends {
            to.finish(plan, &timeline, if has_ended.is_some() { ENDED } else { &note })?;
            if let (count @ 1.., Some(why)) = live.unusable() {
                let lines = if count == 1 { format!("1 {what} was") } else { format!("{count} {what}s were") };
                say!("latscope: {source}: {lines} left out; the first {why}.");
            }
            let Some(why) = has_ended else { return Ok(()) };
            let running = timeline.spans.iter().filter(|span| span.kind == "job" && span.end_ns.is_none()).count();
            if running > 0 {
                return Err(Failure::Input(format!(
                    "{source}: {ENDED} ({why}), though {running} of its jobs ran: its driver died, or was stopped."
                )));
            }
            say!("latscope: {source}: {ENDED} ({why}).");
            return Ok(());
        }
        thread::sleep(TURN);
    }
}

/// Opens the source. Returns it with its name and the message to show while it is silent.
fn open(plan: &Plan) -> Result<(SparkLive, String, String), Failure> {
    match &plan.source {
        SparkSource::Graphite(address) => {
            let graphite = Graphite::listen(*address)
                .map_err(|error| Failure::Input(format!("--graphite {address}: Cannot listen there: {error}.")))?;
            let source = format!("listening on {}", graphite.address());
            Ok((SparkLive::Graphite(graphite), source.clone(), source))
        }
        SparkSource::Rest(url) => {
            let live = SparkLive::rest(url).map_err(|why| Failure::Input(format!("{url}: {why}")))?;
            Ok((live, format!("asking {url}"), format!("no answer from {url}")))
        }
    }
}

impl To {
    fn put(
        &mut self,
        plan: &Plan,
        timeline: &SparkTimeline,
        executors: &[latscope_series::SparkExecutorNow],
        silent_s: Option<u64>,
        source: &str,
    ) -> Result<(), Failure> {
        let fail = |error: std::io::Error| Failure::Input(format!("Cannot be written: {error}."));
        let at_s = timeline.columns.back().map_or(0, |column| column.at_s);
        match self {
            To::Json(out) => {
                let mut each = executors.iter();
                each.try_for_each(|executor| out.write_all(spark_metrics_json(executor).as_bytes())).map_err(fail)?;
                let gone = timeline.gone.iter().map(|executor| spark_gone_json(executor, at_s));
                let silent = silent_s.map(|silent_s| spark_silent_json(&timeline.app, at_s, silent_s));
                gone.chain(silent).try_for_each(|line| out.write_all(line.as_bytes())).map_err(fail)?;
                out.flush().map_err(fail)
            }
            To::Lines(out, table) => {
                let mut lines = table.lines(executors, (&timeline.gone, at_s), output::room(&plan.output));
                lines.extend(silent_s.map(|silent_s| spark_silent(at_s, silent_s)));
                out.lines(&lines).map_err(fail)?;
                out.flush().map_err(fail)
            }
            To::Picture => {
                output::text(plan.output.as_deref(), &spark_timeline(timeline, source, plan.width, plan.theme))
            }
            To::Page => {
                let again_s = plan.interval_ns.div_ceil(1_000_000_000).max(1);
                output::text(plan.output.as_deref(), &spark_page(timeline, source, Some(again_s)))
            }
            To::Screen(terminal) => {
                let size = Terminal::size();
                let drawn = Drawn { lines: spark_screen(timeline, source, size), maps: Vec::new() };
                terminal.draw(&drawn, size).map_err(fail)
            }
        }
    }

    /// Ends the output: a page is not read again, and the last picture of a screen stays in the terminal.
    fn finish(self, plan: &Plan, timeline: &SparkTimeline, source: &str) -> Result<(), Failure> {
        let fail = |error: std::io::Error| Failure::Input(format!("Cannot be written: {error}."));
        match self {
            To::Json(out) | To::Lines(out, _) => out.finish().map(drop).map_err(fail),
            To::Picture => {
                output::text(plan.output.as_deref(), &spark_timeline(timeline, source, plan.width, plan.theme))
            }
            To::Page => output::text(plan.output.as_deref(), &spark_page(timeline, source, None)),
            To::Screen(terminal) => {
                drop(terminal);
                output::lines(None, spark_screen(timeline, source, Terminal::size()))
            }
        }
    }
}
