//! `latscope record`.

mod files;
mod names;
mod trace;

use crate::Failure;
use crate::output;
use crate::plan::Recording;
use files::Files;
use latscope_capture_bpf::{fills, usual};
use latscope_event::{Batch, Context, Field, FieldSet, Mask};
use latscope_pipeline::{Pipeline, TURN, keep_passing};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How often the file gets an account of what waits, in case the recording is killed.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// So long a command that was asked to end may take, and then one that was killed.
const PATIENCE: Duration = Duration::from_secs(5);
const LAST_PATIENCE: Duration = Duration::from_secs(1);

pub fn run(pipeline: &Pipeline, plan: &Recording) -> Result<(), Failure> {
    let reading = pipeline.reading();
    let Some(live) = &reading.live else { return Err(Failure::Usage("record captures live.".into())) };
    if plan.rotate.is_none() && !plan.force {
        output::refuse_existing(&plan.write)?;
    }
    let disks = FieldSet::default().with(&[Field::DiskModel, Field::Rotational]);
    let asked = plan.with.union(reading.filter_fields()).union(disks);
    let fields = usual(live.source).union(fills(live.source).intersection(asked));
    if let Some(missing) = plan.with.without(fields).iter().next().filter(|_| plan.with != FieldSet::EVERY) {
        return Err(Failure::Usage(format!("--with {}: this source does not have that field.", missing.name())));
    }
    let fields = reading.tagging.as_ref().map_or(fields, |tagging| fields.union(tagging.fields()));
    let mut events = pipeline.capture(fields)?;
    events.bind()?;
    // Only what has started replaces an older file.
    let mut files = Files::open(plan, fields, reading, events.context())?;
    let mut command = Running::start(&plan.command)?;
    files.appear()?;
    let take = |files: &mut Files, context: &Context, batch: &Batch, mask: Option<&Mask>| {
        files.write(context, batch, mask).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    };
    let (mut broken, mut noted) = (None, Instant::now());
    while broken.is_none() && !events.is_over() && !command.has_ended()? {
        events.refresh()?;
        broken = events.poll(TURN, &mut |context, batch, mask| take(&mut files, context, batch, mask)).err();
        let is_due = broken.is_none() && noted.elapsed() >= NOTE_EVERY;
        if files.are_past() || is_due {
            let mut now = events.context().clone();
            now.unfinished = events.in_flight()?;
            keep_passing(reading, &mut now);
            files.settle(&now.unfinished)?;
            if is_due {
                noted = Instant::now();
                broken = files.note(&now).err();
            }
        }
    }
    let finish = || {
        let mut context = events.finish(&mut |context, batch, mask| take(&mut files, context, batch, mask))?;
        keep_passing(reading, &mut context);
        files.finish(&context)
    };
    // The file comes first: a command that hangs ends late or never, and what waits now must not count as ended.
    let finished = broken.map_or_else(finish, Err);
    let status = command.end();
    finished?;
    match status?.map(exit_code) {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::Command(code)),
    }
}

/// Status, as shells have it, for a command that does not exist.
const NOT_FOUND: u8 = 127;
/// Status for one that cannot be executed.
const NOT_RUNNABLE: u8 = 126;

/// The command that is recorded.
struct Running(Option<Child>);

impl Running {
    fn start(command: &[String]) -> Result<Running, Failure> {
        let [program, arguments @ ..] = command else { return Ok(Running(None)) };
        match Command::new(program).args(arguments).spawn() {
            Ok(child) => Ok(Running(Some(child))),
            Err(error) => {
                say!("latscope: cannot run {program}: {error}.");
                Err(Failure::Command(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE }))
            }
        }
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        match &mut self.0 {
            Some(child) => child.try_wait().map(|status| status.is_some()).map_err(|error| Failure::output(&error)),
            None => Ok(false),
        }
    }

    /// How it ended. One that still runs when recording is over is asked to end, and killed if it does not.
    fn end(mut self) -> Result<Option<ExitStatus>, Failure> {
        let Some(child) = &mut self.0 else { return Ok(None) };
        let failed = |error: std::io::Error| Failure::Input(format!("Cannot wait for the command: {error}."));
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(Some(status));
        }
        say!("latscope: recording has ended; sending SIGTERM to the command (process {}).", child.id());
        // It may end by itself in this moment, and then there is nobody to signal.
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM);
        let ends_within = |child: &mut Child, patience: Duration| {
            let asked = Instant::now();
            while asked.elapsed() < patience {
                if child.try_wait()?.is_some() {
                    return Ok(true);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(false)
        };
        if ends_within(child, PATIENCE).map_err(failed)? {
            return Ok(None);
        }
        child.kill().map_err(failed)?;
        if !ends_within(child, LAST_PATIENCE).map_err(failed)? {
            say!("latscope: process {} is hung in the kernel; SIGKILL ends it once its I/O does.", child.id());
        }
        Ok(None)
    }
}

/// As shells report it: 128 and the number of the signal that killed it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return (128 + signal) as u8;
    }
    status.code().map_or(1, |code| code as u8)
}
