//! `latscope ping`, and `ioping`.

mod amount;
mod columns;
mod lines;
mod meter;
mod rows;
mod stats;
mod trace;
mod view;

use crate::Failure;
use crate::output;
use crate::plan::Ping;
use latscope_capture_probe::{Capture, Error, Sample};
use latscope_event::format_duration;
use meter::{Meter, Open, Shared};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub use trace::Trace;
use view::View;

/// A request that takes longer is shown in the rows that end meanwhile.
const HANGS_NS: u64 = 1_000_000_000;
/// How long samples are waited for before signals and hanging requests are looked at.
const TURN: Duration = Duration::from_millis(50);

pub fn run(plan: &Ping) -> Result<(), Failure> {
    // A trace may well lie in a folder that is measured.
    let files = plan.probes.iter().map(|probe| probe.target.clone()).filter(|target| !target.is_dir());
    output::refuse_inputs(&files.collect::<Vec<_>>(), plan.trace.as_deref())?;
    if let Some(trace) = plan.trace.as_ref().filter(|_| !plan.force) {
        output::refuse_existing(trace)?;
    }
    let signals = Signals::new();
    let meters: Vec<Shared> =
        plan.probes.iter().map(|probe| Arc::new(Mutex::new(Meter::new(probe, &plan.show)))).collect();
    let started = if plan.shows_the_end_only() {
        Capture::start_folding(plan.probes.clone(), |target| view::fold(&meters[target], plan.compatible))
    } else {
        Capture::start(plan.probes.clone())
    };
    let mut capture = match started {
        Ok(capture) => capture,
        Err(error) if plan.compatible => {
            say!("ioping: {error}");
            return Err(Failure::Command(2));
        }
        Err(error) => return Err(failure(&error)),
    };
    let remarks = capture.remarks().iter().filter(|_| !plan.compatible);
    remarks.for_each(|remark| say!("latscope: {remark}"));
    let mut trace = plan.trace.as_deref().map(|path| Trace::create(path, &capture)).transpose()?;
    let mut view = View::new(plan, &capture, meters);
    let mut hanging = Hanging { report_from_ns: plan.timeout_ns, plan };
    let mut kept: Vec<(usize, Vec<Sample>)> = Vec::new();
    let mut more = true;
    while more && signals.ended().is_none() && !view.is_closed() {
        let keeps = trace.is_some() || view.wants_events();
        more = capture.poll(TURN, &mut |target, samples| {
            view.samples(target, samples);
            if keeps {
                kept.push((target, samples.to_vec()));
            }
        });
        hand_on(&mut capture, &mut kept, &mut trace, &mut view)?;
        let unix_ns = capture.start_unix_ns() + capture.elapsed_ns() as i64;
        waiting(&mut capture, &mut view, unix_ns);
        view.now(unix_ns);
        if !plan.compatible {
            view.waiting(capture.elapsed_ns(), &Open::per_target(&capture, plan.probes.len()));
            if capture.is_given_up(plan.timeout_ns) {
                break;
            }
        }
        view.flush()?;
        hanging.look(&capture);
        if signals.asked() {
            view.interim(&capture)?;
        }
    }
    // What is in flight may still end.
    let ended_ns = capture.elapsed_ns();
    capture.stop();
    let until = ended_ns + 1_000_000_000;
    while more && capture.elapsed_ns() < until {
        more = capture.poll(TURN, &mut |target, samples| {
            view.samples(target, samples);
            kept.push((target, samples.to_vec()));
        });
        if trace.is_some() || view.wants_events() {
            hand_on(&mut capture, &mut kept, &mut trace, &mut view)?;
        }
    }
    let open = Open::per_target(&capture, plan.probes.len());
    for (target, open) in open.iter().enumerate().filter(|(_, open)| more && open.oldest_ns() > 0) {
        say!("{}: {}", plan.name(), plan.describe(target, open.oldest_ns()));
    }
    if more && !plan.compatible {
        view.end(capture.elapsed_ns(), &open);
    }
    let context = capture.finish(&mut |_, _| {});
    if let Some(trace) = trace {
        trace.finish(&context)?;
    }
    view.finish(&context)?;
    match signals.ended() {
        Some(signal) if plan.compatible && signal != SIGINT => Err(Failure::Command(128 + signal as u8)),
        _ => view.verdict(plan),
    }
}

/// Why requests cannot be made.
pub fn failure(error: &Error) -> Failure {
    match error {
        Error::Settings(_) => Failure::Usage(error.to_string()),
        _ => Failure::Input(error.to_string()),
    }
}

/// A row of colour that is over gets the requests that hang, each with the time that it has waited.
fn waiting(capture: &mut Capture, view: &mut View, unix_ns: i64) {
    let Some(end_ns) = view.waits_until(unix_ns) else { return };
    let completed_ns = (end_ns - capture.start_unix_ns()).max(0) as u64;
    for request in capture.outstanding() {
        // What is younger is in the row of its completion, as always.
        if completed_ns.saturating_sub(request.since_ns) > HANGS_NS {
            let sample = Sample::unfinished(request.since_ns, completed_ns);
            view.events(capture.events(request.target, &[sample]));
        }
    }
}

/// Samples as events to whoever wants them.
fn hand_on(
    capture: &mut Capture,
    kept: &mut Vec<(usize, Vec<Sample>)>,
    trace: &mut Option<Trace>,
    view: &mut View,
) -> Result<(), Failure> {
    for (target, samples) in kept.drain(..) {
        let batch = capture.events(target, &samples);
        if let Some(trace) = trace {
            trace.write(batch)?;
        }
        view.events(batch);
    }
    match trace {
        Some(trace) => trace.flush_if_due(),
        None => Ok(()),
    }
}

impl Ping {
    /// Whether nobody sees a request before the end, be it in a line, in a trace or as part of a window.
    fn shows_the_end_only(&self) -> bool {
        let show = &self.show;
        let windows = show.print_count.is_some() || show.print_interval_ns.is_some();
        show.quiet && !windows && !show.spectrogram && self.trace.is_none()
    }

    fn name(&self) -> &'static str {
        if self.compatible { "ioping" } else { "latscope" }
    }

    fn describe(&self, target: usize, age_ns: u64) -> String {
        let path = self.probes[target].target.display();
        format!("{path}: A request has been waiting for {} and has not completed.", format_duration(age_ns))
    }
}

/// Talks about requests that do not return.
struct Hanging<'a> {
    plan: &'a Ping,
    /// The age at which the next word is due; it doubles, so that a hanging disk does not fill the screen.
    report_from_ns: u64,
}

impl Hanging<'_> {
    fn look(&mut self, capture: &Capture) {
        let oldest = capture.outstanding().into_iter().max_by_key(|request| request.age_ns);
        match oldest {
            Some(request) if request.age_ns >= self.report_from_ns => {
                say!("{}: {}", self.plan.name(), self.plan.describe(request.target, request.age_ns));
                let _ = std::io::stderr().flush();
                self.report_from_ns = self.report_from_ns.saturating_mul(2);
            }
            Some(request) if request.age_ns >= self.plan.timeout_ns => {}
            _ => self.report_from_ns = self.plan.timeout_ns,
        }
    }
}

/// Signals that came.
pub struct Signals {
    ended: Arc<AtomicUsize>,
    asked: Arc<AtomicBool>,
}

impl Signals {
    /// From now on they are noted.
    pub fn new() -> Signals {
        output::unnamed::signals_are_handled();
        let signals = Signals { ended: Arc::default(), asked: Arc::default() };
        // A second Ctrl-C does not wait for what hangs.
        let second = Arc::new(AtomicBool::new(false));
        let _ = signal_hook::flag::register_conditional_shutdown(SIGINT, 4, Arc::clone(&second));
        let _ = signal_hook::flag::register(SIGINT, second);
        // Without a handler a signal does what it does to every program.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&signals.ended), signal as usize);
        }
        for signal in [SIGQUIT, SIGUSR1] {
            let _ = signal_hook::flag::register(signal, Arc::clone(&signals.asked));
        }
        signals
    }

    /// The signal that ends it.
    pub fn ended(&self) -> Option<i32> {
        Some(self.ended.load(Ordering::Relaxed) as i32).filter(|&signal| signal != 0)
    }

    /// Whether a line in between was asked for.
    fn asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}
