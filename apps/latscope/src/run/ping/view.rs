//! What the user sees of a probe while it runs and at its end.

use super::amount::time;
use super::columns::Columns;
use super::lines::{Json, Lines};
use super::meter::{Meter, Open, Percentile, Shared};
use super::rows::Rows;
use super::stats::Class;
use crate::output;
use crate::plan::Ping;
use crate::{Failure, notes};
use latscope_capture_probe::{Cache, Capture, Fold, Sample};
use latscope_event::{Batch, Context, format_count, format_duration};
use latscope_series::{Judged, Judgement};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{MutexGuard, PoisonError};

/// Output gathers up to so many bytes while requests follow each other without a pause.
const GATHERED: usize = 1 << 16;

/// Counts and prints.
pub struct View {
    meters: Vec<Shared>,
    lines: Vec<Lines>,
    json: Json,
    /// Side by side, with several targets.
    columns: Option<Columns>,
    /// A row of colour for every interval.
    rows: Option<Rows>,
    is_json: bool,
    is_batch: bool,
    /// No summary: ioping prints none beside windows when it is quiet.
    is_bare: bool,
    more: bool,
    out: String,
    closed: bool,
}

impl View {
    /// With a meter for each target.
    pub fn new(plan: &Ping, capture: &Capture, meters: Vec<Shared>) -> View {
        let show = &plan.show;
        let windows = show.print_count.is_some() || show.print_interval_ns.is_some();
        let lines = |(at, probe)| Lines::new(probe, capture.place(at), show, capture.start_unix_ns(), !plan.compatible);
        let several = plan.probes.len() > 1 && !show.json;
        View {
            meters,
            lines: plan.probes.iter().enumerate().map(lines).collect(),
            json: Json::new(show.json_lines),
            columns: several.then(|| Columns::new(plan)),
            rows: show.spectrogram.then(|| Rows::new(plan)),
            is_json: show.json,
            is_batch: show.batch,
            is_bare: show.quiet && windows && !show.batch,
            more: !plan.compatible,
            out: String::new(),
            closed: false,
        }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether [`View::events`] is to be called.
    pub fn wants_events(&self) -> bool {
        self.rows.is_some()
    }

    /// Events of the requests.
    pub fn events(&mut self, batch: &Batch) {
        self.rows.iter_mut().for_each(|rows| rows.add(batch));
    }

    /// The end of the row of colour, Unix time, that is over and shall have the requests that wait then.
    pub fn waits_until(&mut self, unix_ns: i64) -> Option<i64> {
        self.rows.as_mut().and_then(|rows| rows.waits_until(unix_ns))
    }

    /// A moment has come, Unix time: rows that are over are printed.
    pub fn now(&mut self, unix_ns: i64) {
        self.rows.iter_mut().for_each(|rows| rows.ready(unix_ns, &mut self.out));
    }

    /// Requests of a target.
    pub fn samples(&mut self, target: usize, samples: &[Sample]) {
        let (mut meter, lines) = (locked(&self.meters[target]), &self.lines[target]);
        let shows = lines.shows_requests() && self.columns.is_none();
        for sample in samples {
            let (class, window) = meter.add(sample);
            if shows {
                lines.request(sample, meter.requests, class, &mut self.json, &mut self.out);
            }
            if class == Class::Empty {
                report_empty(!self.more);
            }
            if let Some(window) = window {
                lines.statistics(&window, None, &mut self.json, &mut self.out);
            }
            if let Some(columns) = &mut self.columns {
                columns.add(target, sample, class);
            }
        }
        drop(meter);
        if let Some(columns) = &mut self.columns {
            columns.ready(&mut self.out);
        }
        if self.out.len() > GATHERED {
            // What cannot be written is seen at the next flush.
            let _ = self.flush();
        }
    }

    /// It is so many nanoseconds since the start, and these requests of the targets are not done: lines that are printed in intervals
    /// show them while they hang.
    pub fn waiting(&mut self, now_ns: u64, open: &[Open]) {
        for ((meter, lines), open) in self.meters.iter().zip(&self.lines).zip(open) {
            if let Some(window) = locked(meter).overdue_window(now_ns, open) {
                lines.statistics(&window, None, &mut self.json, &mut self.out);
            }
        }
        if let Some(columns) = &mut self.columns {
            columns.waiting(now_ns, open);
            columns.ready(&mut self.out);
        }
    }

    /// The end has come, at which these requests of the targets are not done.
    pub fn end(&mut self, now_ns: u64, open: &[Open]) {
        self.meters.iter().zip(open).for_each(|(meter, open)| locked(meter).end(open, now_ns));
        if let Some(columns) = &mut self.columns {
            columns.waiting(now_ns, open);
        }
    }

    /// Writes what there is.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.out);
        if text.is_empty() || self.closed {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::output(&error)),
        }
    }

    /// A line on standard error about what was measured so far.
    pub fn interim(&self, capture: &Capture) -> Result<(), Failure> {
        let mut text = String::new();
        for (meter, lines) in self.meters.iter().zip(&self.lines) {
            let stats = locked(meter).total;
            let [min, avg, max] = [stats.min_ns as f64, stats.avg_ns(), stats.max_ns as f64].map(time);
            let count = format_count(stats.count);
            let _ = writeln!(text, "{}: {count} requests, min/avg/max = {min} / {avg} / {max}", lines.path());
        }
        capture.outstanding().iter().filter(|request| request.age_ns > 100_000_000).for_each(|request| {
            let age = format_duration(request.age_ns);
            let _ = writeln!(text, "{}: one waiting for {age}", self.lines[request.target].path());
        });
        output::say(&text);
        Ok(())
    }

    /// The end.
    pub fn finish(&mut self, context: &Context) -> Result<(), Failure> {
        self.now(i64::MAX);
        let meters = self.meters.clone();
        let meters: Vec<MutexGuard<Meter>> = meters.iter().map(locked).collect();
        if let Some(columns) = &mut self.columns {
            columns.rest(&mut self.out);
        }
        if let Some(columns) = &self.columns {
            columns.summary(&meters, &mut self.out);
        } else if self.is_json || self.is_batch {
            for (meter, lines) in meters.iter().zip(&self.lines) {
                lines.statistics(&meter.whole(), Some(meter), &mut self.json, &mut self.out);
            }
            if self.is_json {
                self.json.end(&mut self.out);
            }
        } else if !self.is_bare {
            for (meter, lines) in meters.iter().zip(&self.lines) {
                lines.summary(&meter.whole(), &mut self.out);
                if self.more {
                    percentiles(meter, &mut self.out);
                }
            }
        }
        self.flush()?;
        if self.more {
            let many = meters.len() > 1;
            for (meter, lines) in meters.iter().zip(&self.lines) {
                let name = if many { format!("{}: ", lines.path()) } else { String::new() };
                remarks(meter).iter().for_each(|remark| say!("latscope: {name}{remark}"));
            }
            notes::WORDING.lines(context).iter().for_each(|note| say!("latscope: {}", note.text));
        }
        Ok(())
    }

    /// Whether what was measured is what was asked for.
    pub fn verdict(&self, plan: &Ping) -> Result<(), Failure> {
        let meters: Vec<MutexGuard<Meter>> = self.meters.iter().map(locked).collect();
        let (failed, counted): (u64, u64) =
            meters.iter().fold((0, 0), |sum, meter| (sum.0 + meter.total.failed, sum.1 + meter.total.load));
        if failed > 0 && plan.compatible && plan.probes[0].stop_on_error {
            say!("ioping: request failed");
            return Err(Failure::Command(3));
        }
        if plan.compatible {
            return Ok(());
        }
        if failed > 0 && (counted == 0 || plan.probes[0].stop_on_error) {
            return Err(Failure::Input(format!("{} requests failed.", format_count(failed))));
        }
        self.threshold(plan, &meters)?;
        let nothing = |meter: &&MutexGuard<Meter>| meter.total.load == 0 && meter.open.count > 0;
        if let Some(at) = meters.iter().position(|meter| nothing(&meter)) {
            let waited = format_duration(meters[at].open.max_ns);
            return Err(Failure::Input(format!(
                "{}: No request has completed; the oldest has waited for {waited}.",
                self.lines[at].path()
            )));
        }
        for (meter, lines) in meters.iter().zip(&self.lines) {
            if plan.strict_cache && (meter.misplaced > 0 || meter.cache.is_some() && meter.looked_at == 0) {
                return Err(Failure::Exceeded(format!("{}: {}", lines.path(), placed(meter))));
            }
        }
        Ok(())
    }

    fn threshold(&self, plan: &Ping, meters: &[MutexGuard<Meter>]) -> Result<(), Failure> {
        let Some(threshold) = &plan.fail_if else { return Ok(()) };
        let mut unknown = None;
        for (meter, lines) in meters.iter().zip(&self.lines) {
            let counted = meter.histogram.to_sparse();
            match threshold.judge(&Judged::new(&counted, 1, meter.end_ns).with_waiting(&meter.waiting)) {
                Judgement::Exceeded(found) => {
                    return Err(Failure::Exceeded(format!("{}: {threshold}: {found}.", lines.path())));
                }
                Judgement::Unknown if meter.total.failed == 0 => {
                    let message = "No request was counted, so --fail-if cannot be judged; make more requests.";
                    unknown = Some(format!("{}: {message}", lines.path()));
                }
                Judgement::Unknown | Judgement::Kept => {}
            }
        }
        unknown.map_or(Ok(()), |message| Err(Failure::Input(message)))
    }
}

/// A meter, also after a panic of the thread that counted, which is reported elsewhere.
fn locked(meter: &Shared) -> MutexGuard<'_, Meter> {
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What ioping says of a request that moved nothing.
fn report_empty(compatible: bool) {
    say!("{}: request returned less than expected: 0", if compatible { "ioping" } else { "latscope" });
}

/// Counts samples in the thread that made them, where nothing is shown before the end.
pub fn fold(meter: &Shared, compatible: bool) -> Fold {
    let meter = meter.clone();
    Box::new(move |samples| {
        locked(&meter).add_all(samples, || report_empty(compatible));
    })
}

/// A line with the percentiles.
fn percentiles(meter: &Meter, out: &mut String) {
    let (names, values) = (Percentile::names(), meter.percentiles());
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let count = format_count(meter.total.count + meter.open.count);
    let _ = writeln!(out, "{} = {} (of {count} requests)", names.join("/"), values.join(" / "));
    if meter.open.count > 0 {
        let (open, oldest) = (format_count(meter.open.count), time(meter.open.max_ns as f64));
        let _ = writeln!(out, "{open} of them not completed: counted with their age, the oldest {oldest}");
    }
    if let Some(lag) = &meter.lag
        && let Some(values) = lag.quantiles(&[0.5, 0.99, 1.0], latscope_histogram::Rule::Interpolated)
    {
        let [p50, p99, max] = [values[0], values[1], values[2]].map(|ns| time(ns as f64));
        let _ = writeln!(
            out,
            "open loop; in addition, this machine made requests late by p50/p99/max = {p50} / {p99} / {max}"
        );
    }
}

/// What a reader of the numbers has to know.
fn remarks(meter: &Meter) -> Vec<String> {
    let mut remarks = Vec::new();
    if meter.slow > 0 && meter.slow_wait_ns * 10 > meter.slow_ns {
        let (waited, all) = (format_duration(meter.slow_wait_ns), format_duration(meter.slow_ns));
        let slow = format_count(meter.slow);
        let requests = if meter.slow == 1 { "request" } else { "requests" };
        remarks.push(format!(
            "{waited} of the {all} that {slow} slow {requests} took was waiting for a CPU, not for the target"
        ));
    }
    if meter.misplaced > 0 {
        remarks.push(placed(meter));
    }
    remarks
}

/// Where data was found.
fn placed(meter: &Meter) -> String {
    let (wrong, all) = (format_count(meter.misplaced), format_count(meter.looked_at));
    match meter.cache {
        _ if meter.looked_at == 0 => "The kernel does not report where data was before it was read.".into(),
        Some(Cache::Hot) => format!("{wrong} of {all} reads did not find their data in memory (--cache hot)."),
        _ => format!("{wrong} of {all} reads found their data in memory (--cache cold); -D bypasses the page cache."),
    }
}
